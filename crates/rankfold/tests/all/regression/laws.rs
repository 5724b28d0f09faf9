//! The laws of both geometries, and what steps leave behind.

use super::*;

/// Only the balanced step is the same for all factorizations of W.
#[test]
fn balanced_steps_do_not_depend_on_how_w_is_factored_and_plain_ones_do() {
    for seed in 0..5 {
        let shape = (9, 7, 3);
        let mut planted = Planted::new(seed, shape, 3);
        let (g, h) = start(&mut planted.random, shape);
        let x = planted.random.matrix(3, 3) + M::from_fn(3, 3, |i, j| 3.0 * f64::from(i == j));
        let (gx, hx) = (&g * &x, &h * pinv(&x).transpose());
        for lambda in [0.0, 0.1] {
            let balanced = |g: &M, h: &M| Balanced::new(factored::<f64>(g, h)).regularized(lambda);
            let (mut one, mut two) = (balanced(&g, &h), balanced(&gx, &hx));
            let mut plain = Gradient::new(factored::<f64>(&g, &h));
            let mut other = Gradient::new(factored::<f64>(&gx, &hx));
            for _ in 0..40 {
                let (z, x, y) = planted.draw();
                for learner in [&mut one, &mut two] {
                    learn(learner, &z, &x, y, paper(2e-3));
                }
                for learner in [&mut plain, &mut other] {
                    learn(learner, &z, &x, y, paper(2e-3));
                }
            }
            let w = |form: &Factored<f64>| from_rows(&form.to_dense());
            close("W", &w(one.form()), &w(two.form()), 1e-11);
            let apart = norm(&(w(plain.form()) - w(other.form())));
            assert!(
                apart > 1e-3,
                "plain descent depends on the factors: {apart}"
            );
        }
    }
}

#[test]
fn gram_matrices_are_true_after_forty_steps() {
    for &shape in &SIZES {
        let mut planted = Planted::new(4, shape, 4);
        let (g, h) = start(&mut planted.random, shape);
        let mut learner = Balanced::new(factored::<f64>(&g, &h));
        for _ in 0..40 {
            let (z, x, y) = planted.draw();
            learn(&mut learner, &z, &x, y, paper(safe(shape, 4)));
        }
        let report = check::factored(learner.form());
        assert!(report.gram < 1e-10, "{shape:?}: {report:?}");
    }
}

/// (UO, OᵀBO, VO) is the same W; what a step makes of it differs by O(s²) with qf.
#[test]
fn uf_does_not_see_rotations_and_qf_does_at_second_order() {
    let (n, m, k) = (9, 7, 3);
    let mut random = Random::new(5);
    let qf = |m: &M| rankfold::linalg::qf(m).unwrap();
    let (u, v) = (qf(&random.matrix(n, k)), qf(&random.matrix(m, k)));
    let turn = qf(&random.matrix(k, k));
    let a = random.matrix(k, k);
    let b = &a * a.transpose() + M::identity(k, k);
    let (z, x) = (random.sparse(n, n), random.sparse(m, m));
    let apart = |retraction: Retraction, size: f64| {
        let stepped = |u: &M, b: &M, v: &M| {
            let mut learner = Polar::new(polar_form::<f64>(u, b, v)).retracted(retraction);
            learn(&mut learner, &z, &x, 3.0, paper(size));
            from_rows(&learner.form().to_dense())
        };
        let turned = turn.transpose() * &b * &turn;
        let turned = symmetric::part(&turned);
        norm(&(stepped(&u, &b, &v) - stepped(&(&u * &turn), &turned, &(&v * &turn))))
    };
    for size in [1e-1, 1e-2, 1e-3] {
        let off = apart(Retraction::Uf, size);
        assert!(off < 1e-12 * norm(&b), "{off:e}");
    }
    let slope = (apart(Retraction::Qf, 1e-3) / apart(Retraction::Qf, 1e-4)).log10();
    assert!((slope - 2.0).abs() < 0.1, "{slope}");
}

#[test]
fn a_refresh_leaves_w_as_it_is() {
    for &shape in &SIZES {
        let mut planted = Planted::new(6, shape, 3);
        let (g, h) = start(&mut planted.random, shape);
        let form = PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap();
        close(
            "the polar form",
            &from_rows(&form.to_dense()),
            &(&g * h.transpose()),
            1e-13,
        );
        let mut learner = Polar::new(form);
        for _ in 0..50 {
            let (z, x, y) = planted.draw();
            learn(&mut learner, &z, &x, y, paper(5.0 * safe(shape, 3)));
        }
        let mut form = learner.into_form();
        let before = from_rows(&form.to_dense());
        assert!(form.refresh());
        close("W", &from_rows(&form.to_dense()), &before, 1e-14);
        assert_eq!(form.refreshes(), 1);
        let report = check::polar(&form);
        assert!(
            report.orthonormal < 1e-14 && report.gram < 1e-14,
            "{report:?}"
        );
    }
}

#[test]
fn balancing_leaves_w_and_its_course_as_they_are() {
    let shape = (9, 7, 3);
    let mut planted = Planted::new(7, shape, 4);
    let (g, h) = start(&mut planted.random, shape);
    let mut without = PlainBalanced {
        g: Scale(4.0) * &g,
        h: h.clone(),
        lambda: 0.0,
    };
    let mut with = without.clone();
    let unevenness =
        |p: &PlainBalanced| norm(&(p.g.transpose() * &p.g - p.h.transpose() * &p.h)) / norm(&p.w());
    let uneven = unevenness(&with);
    for i in 0..60 {
        let batch = planted.batch(1);
        without.step(&batch, 1e-4);
        with.step(&batch, 1e-4);
        if i % 3 == 0 {
            let before = with.w();
            (with.g, with.h) = balance(&with.g, &with.h).unwrap();
            close("W", &with.w(), &before, 1e-13);
        }
    }
    close("the course", &with.w(), &without.w(), 1e-12);
    assert!(unevenness(&with) < 0.2 * uneven);
    assert!(balance(&M::zeros(3, 2), &M::zeros(2, 2)).is_none());
    assert!(balance(&M::from_fn(3, 2, |_, _| f64::NAN), &M::zeros(2, 2)).is_none());
}

/// A long run with steps as long as they get: the small state stays true.
#[test]
fn the_state_is_true_after_ten_thousand_steps() {
    for retraction in [Retraction::Uf, Retraction::Qf] {
        let shape = (40, 30, 4);
        let mut planted = Planted::new(9, shape, 3);
        let (g, h) = start(&mut planted.random, shape);
        let form = PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap();
        let mut learner = Polar::new(form).retracted(retraction);
        let (mut first, mut last) = (0.0, 0.0);
        for i in 0..10_000 {
            let (z, x, y) = planted.draw();
            let learned = learn(&mut learner, &z, &x, y, Step::new(1e-2));
            match i {
                0..1_000 => first += learned.loss,
                9_000.. => last += learned.loss,
                _ => {}
            }
        }
        let report = check::polar(learner.form());
        let sound = report.orthonormal < 1e-9 && report.gram < 1e-10 && report.inverse < 1e-10;
        assert!(sound, "{retraction:?}: {report:?}");
        assert!(last < 0.1 * first, "it learns: {first} {last}");
        let singular = learner.form().gauge().unwrap().singular_values;
        assert!(singular.iter().all(|&s| s > 0.0));
    }
}

#[test]
fn refused_steps_change_nothing() {
    let shape = (9, 7, 3);
    let mut planted = Planted::new(10, shape, 3);
    let (g, h) = start(&mut planted.random, shape);
    for lambda in [0.0, 0.1] {
        let mut balanced = Balanced::new(factored::<f32>(&g, &h)).regularized(lambda);
        let form = PolarForm::from_factored(factored::<f32>(&g, &h)).unwrap();
        let mut polar = Polar::new(form).regularized(lambda);
        let mut plain = Gradient::new(factored::<f32>(&g, &h)).regularized(lambda);
        for (value, target, size) in [
            (f64::NAN, 1.0, 0.1),
            (f64::INFINITY, 1.0, 0.1),
            (1e30, 1.0, 1e30),
            (1.0, f64::NAN, 0.1),
            (1.0, f64::INFINITY, 0.1),
            (1.0, 1.0, f64::NAN),
            (1e25, 1e300, 1e200),
        ] {
            let z: Vec<f64> = (0..9).map(|i| if i < 2 { value } else { 0.0 }).collect();
            let (x, step) = (vec![1.0; 7], paper(size));
            let before = balanced.form().clone();
            let learned = learn(&mut balanced, &z, &x, target, step);
            assert_eq!(learned.outcome, Outcome::Refused, "{value} {target} {size}");
            assert_eq!(balanced.form(), &before);
            let before = polar.form().clone();
            let learned = learn(&mut polar, &z, &x, target, step);
            assert_eq!(learned.outcome, Outcome::Refused, "{value} {target} {size}");
            assert_eq!(polar.form(), &before);
            let before = plain.form().clone();
            let learned = learn(&mut plain, &z, &x, target, step);
            assert_eq!(learned.outcome, Outcome::Refused, "{value} {target} {size}");
            assert_eq!(plain.form(), &before);
        }
    }
}

#[test]
fn refused_batches_change_nothing() {
    let shape = (9, 7, 3);
    let mut planted = Planted::new(11, shape, 3);
    let (g, h) = start(&mut planted.random, shape);
    let mut batch = planted.batch(4);
    batch[2].2 = f64::NAN;
    let mut balanced = Balanced::new(factored::<f64>(&g, &h));
    let before = balanced.form().clone();
    assert_eq!(
        learn_batch(&mut balanced, &batch, 0.1).outcome,
        Outcome::Refused
    );
    assert_eq!(balanced.form(), &before);
    let mut polar = Polar::new(PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap());
    let before = polar.form().clone();
    assert_eq!(
        learn_batch(&mut polar, &batch, 0.1).outcome,
        Outcome::Refused
    );
    assert_eq!(polar.form(), &before);
}

/// The limit shortens what would be too long, and keeps wild runs sound.
#[test]
fn wild_runs_leave_sound_forms() {
    for seed in 0..4 {
        let shape = (30, 20, 4);
        let mut planted = Planted::new(seed, shape, 4);
        let (g, h) = start(&mut planted.random, shape);
        for size in [0.1, 10.0, 1e6] {
            let mut balanced = Balanced::new(factored::<f32>(&g, &h));
            let form = PolarForm::from_factored(factored::<f32>(&g, &h)).unwrap();
            let mut polar = Polar::new(form);
            for _ in 0..500 {
                let (z, x, y) = planted.draw();
                learn(&mut balanced, &z, &x, y, Step::new(size));
                learn(&mut polar, &z, &x, y, Step::new(size));
            }
            let finite = |rows: &[Vec<f64>]| rows.iter().flatten().all(|v| v.is_finite());
            assert!(finite(&balanced.form().to_dense()));
            assert!(finite(&polar.form().to_dense()));
            assert!(check::polar(polar.form()).orthonormal < 1e-2);
        }
    }
}

#[test]
fn growth_adds_zero_rows_and_learning_goes_on() {
    let shape = (9, 7, 3);
    let mut planted = Planted::new(12, shape, 3);
    let (g, h) = start(&mut planted.random, shape);
    let mut learner = Polar::new(PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap());
    let before = from_rows(&learner.form().to_dense());
    learner.grow(12, 10).unwrap();
    let grown = from_rows(&learner.form().to_dense());
    for i in 0..12 {
        for j in 0..10 {
            let want = if i < 9 && j < 7 { before[(i, j)] } else { 0.0 };
            assert_eq!(grown[(i, j)], want);
        }
    }
    let mut z = vec![0.0; 12];
    z[11] = 1.0;
    let mut x = vec![0.0; 10];
    x[2] = 1.0;
    for _ in 0..400 {
        learn(&mut learner, &z, &x, 1.0, Step::new(0.05));
    }
    let score = learner.form().to_dense()[11][2];
    assert!((score - 1.0).abs() < 0.05, "{score}");
}

/// Values of rank 1, a model of rank 3: the rank asked for is the rank there is.
#[test]
fn a_rank_above_that_of_the_values_is_kept_in_batch() {
    use rankfold::data::{ValuedPair, read_labelled};
    use rankfold::task::PairsSolver;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.svm");
    std::fs::write(&path, "0 1:1\n0 2:1\n0 3:1\n0 4:1\n0 5:1\n").unwrap();
    let rows = read_labelled::<f64>(&path).unwrap();
    let pairs: Vec<ValuedPair> = (0..25)
        .map(|i| (i / 5, i % 5))
        .map(|(left, right)| ValuedPair {
            left,
            right,
            value: f64::from((left + 1) * (right + 2)),
        })
        .collect();
    for rule in rules::<rankfold::Pairs>() {
        for solver in [
            PairsSolver::Descent,
            PairsSolver::Cg,
            PairsSolver::TrustRegion,
        ] {
            let options = rankfold::Pairs::new(rule).solver(solver).rank(3);
            let model = options.step_size(1e-3).fit(&rows, &pairs).unwrap();
            let singular = model.singular_values().unwrap().unwrap();
            assert_eq!(singular.len(), 3);
            assert!(singular.iter().all(|&s| s > 0.0), "{rule:?} {singular:?}");
            let found = model.evaluate_pairs(&rows, None, &pairs, None).unwrap();
            assert!(found.metrics["rmse"] < 0.5, "{rule:?} {solver:?} {found:?}");
        }
    }
}
