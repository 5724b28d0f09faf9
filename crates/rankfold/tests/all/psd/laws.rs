//! The laws of both geometries, and what steps leave behind.

use super::*;

/// x → Ox and W → OWOᵀ: nothing changes but the coordinates.
#[test]
fn steps_do_not_see_rotations_of_the_data() {
    for seed in 0..5 {
        let shape = (7, 3);
        let mut planted = Planted::new(seed, shape, 7);
        let (u, r) = start(&mut planted.random, shape);
        let turn = qf(&planted.random.matrix(7, 7)).unwrap();
        let mut polars = (polar::<f64>(&u, &r), polar::<f64>(&(&turn * &u), &r));
        let g = &u * &r;
        let mut flats = (flat::<f64>(&g), flat::<f64>(&(&turn * &g)));
        for _ in 0..30 {
            let case = planted.square();
            let turned = crate::oracle::flat(&(&turn * column(&case.p)));
            let turned = Case::square(&turned, case.y);
            for (learner, case) in [(&mut polars.0, &case), (&mut polars.1, &turned)] {
                learn_one(learner, case, paper(3e-5));
            }
            for (learner, case) in [(&mut flats.0, &case), (&mut flats.1, &turned)] {
                learn_one(learner, case, paper(3e-5));
            }
        }
        let back = |w: M| turn.transpose() * w * &turn;
        close("polar", &back(polars.1.w()), &polars.0.w(), 1e-12);
        close("flat", &back(flats.1.w()), &flats.0.w(), 1e-12);
    }
}

/// X → X/μ and W → μW with y and s as they are: the polar geometry does not see the
/// scale of W, and the flat one does.
#[test]
fn polar_steps_do_not_see_the_scale_of_the_data() {
    let shape = (7, 3);
    for mu in [1e-3, 7.0, 1e4] {
        let mut planted = Planted::new(3, shape, 3);
        let (u, r) = start(&mut planted.random, shape);
        let scaled: M = Scale(f64::sqrt(mu)) * &r;
        let mut polars = (polar::<f64>(&u, &r), polar::<f64>(&u, &scaled));
        let mut flats = (flat::<f64>(&(&u * &r)), flat::<f64>(&(&u * &scaled)));
        for _ in 0..30 {
            let case = planted.square();
            let x: Vec<f64> = case.p.iter().map(|v| v / mu.sqrt()).collect();
            let small = Case::square(&x, case.y);
            learn_one(&mut polars.0, &case, paper(1e-3));
            learn_one(&mut polars.1, &small, paper(1e-3));
            learn_one(&mut flats.0, &case, paper(1e-4));
            learn_one(&mut flats.1, &small, paper(1e-4));
        }
        let w: M = Scale(1.0 / mu) * polars.1.w();
        close("polar", &w, &polars.0.w(), 1e-12);
        let w: M = Scale(1.0 / mu) * flats.1.w();
        assert!(norm(&(w - flats.0.w())) > 1e-6);
    }
}

/// λ = 0 never moves the range of W, λ = 1 nothing else: to the last bit.
#[test]
fn the_weight_of_the_subspace_freezes_the_other_part() {
    for way in [Retraction::Uf, Retraction::Qf] {
        for batch in [1, 4] {
            let shape = (9, 3);
            let mut planted = Planted::new(5, shape, 3);
            let (u, r) = start(&mut planted.random, shape);
            let fresh = polar::<f64>(&u, &r).retracted(way);
            let mut still = fresh.clone().subspace_weight(0.0);
            let mut turning = fresh.clone().subspace_weight(1.0);
            for _ in 0..200 {
                let cases = planted.batch(batch, batch > 1);
                learn(&mut still, &cases, Step::new(1e-3));
                learn(&mut turning, &cases, Step::new(1e-3));
            }
            for i in 0..9 {
                let row = fresh.form().factor().row(i);
                assert_eq!(still.form().factor().row(i), row);
            }
            let frozen = still.w();
            let projected = &u * (u.transpose() * &frozen * &u) * u.transpose();
            close("the range", &projected, &frozen, 1e-13);
            assert!(norm(&(frozen - fresh.w())) > 1e-3, "B moves");
            assert_eq!(
                turning.form().trace().to_bits(),
                fresh.form().trace().to_bits()
            );
            let values = turning.form().gauge().unwrap().singular_values;
            assert_eq!(values, fresh.form().gauge().unwrap().singular_values);
            assert!(norm(&(turning.w() - fresh.w())) > 1e-3, "U turns");
        }
    }
}

/// (UO, OᵀR) is the same W; what a step makes of it differs by O(s²) with qf.
#[test]
fn uf_does_not_see_rotations_of_the_columns_and_qf_does_at_second_order() {
    let mut random = Random::new(5);
    let (u, r) = start(&mut random, (9, 3));
    let turn = qf(&random.matrix(3, 3)).unwrap();
    let case = Case::square(&random.sparse(9, 9), 3.0);
    let apart = |way: Retraction, size: f64| {
        let stepped = |u: &M, r: &M| {
            let mut learner = polar::<f64>(u, r).retracted(way);
            learn_one(&mut learner, &case, paper(size));
            learner.w()
        };
        norm(&(stepped(&u, &r) - stepped(&(&u * &turn), &(turn.transpose() * &r))))
    };
    for size in [1e-4, 1e-5, 1e-6] {
        let off = apart(Retraction::Uf, size);
        assert!(off < 1e-12 * norm(&r).powi(2), "{size}: {off:e}");
    }
    let slope = (apart(Retraction::Qf, 1e-6) / apart(Retraction::Qf, 1e-7)).log10();
    assert!((slope - 2.0).abs() < 0.1, "{slope}");
}

#[test]
fn a_refresh_leaves_w_as_it_is() {
    for &shape in &SHAPES {
        let mut planted = Planted::new(6, shape, 3);
        let g = planted.random.matrix(shape.0, shape.1);
        let form = PolarPsdForm::from_psd(Psd::new(tall::<f64>(&g))).unwrap();
        let w = from_rows(&form.to_dense());
        close("the polar form", &w, &(&g * g.transpose()), 1e-13);
        let mut learner = PolarPsd::new(form);
        for _ in 0..50 {
            let case = planted.square();
            learn_one(&mut learner, &case, paper(safe(shape, 3)));
        }
        let mut form = learner.into_form();
        let before = from_rows(&form.to_dense());
        assert!(form.refresh());
        close("W", &from_rows(&form.to_dense()), &before, 1e-13);
        assert_eq!(form.refreshes(), 1);
        let report = check::polar_psd(&form);
        let sound = report.orthonormal < 1e-14 && report.gram < 1e-14;
        assert!(sound, "{report:?}");
    }
}

/// A long run with steps as long as they get: the small state stays true, and W is
/// learned.
#[test]
fn the_state_is_true_after_ten_thousand_steps() {
    let shape = (40, 4);
    let mut planted = Planted::new(9, shape, 3);
    planted.noise = 0.0;
    let (u, r) = start(&mut planted.random, shape);
    let cases: Vec<_> = (0..10_000).map(|_| planted.square()).collect();
    let errors = |learner: &mut dyn FnMut(&Case) -> Learned| {
        let (mut first, mut last) = (0.0, 0.0);
        for (i, case) in cases.iter().enumerate() {
            let learned = learner(case);
            match i {
                0..1_000 => first += learned.loss,
                9_000.. => last += learned.loss,
                _ => {}
            }
        }
        assert!(last < 0.01 * first, "it learns: {first} {last}");
    };
    for way in [Retraction::Uf, Retraction::Qf] {
        let mut learner = polar::<f64>(&u, &r).retracted(way).subspace_weight(0.1);
        errors(&mut |case| learn_one(&mut learner, case, Step::new(0.1)));
        let report = check::polar_psd(learner.form());
        let sound = report.orthonormal < 1e-9 && report.gram < 1e-10 && report.inverse < 1e-10;
        assert!(sound, "{way:?}: {report:?}");
        assert!(learner.form().refreshes() > 0);
    }
    let mut learner = flat::<f64>(&(&u * &r));
    errors(&mut |case| learn_one(&mut learner, case, Step::new(0.03)));
    let trace = learner.w().diagonal().column_vector().sum();
    assert!((learner.form().trace() / trace - 1.0).abs() < 1e-12);
}

#[test]
fn refused_steps_change_nothing() {
    let mut planted = Planted::new(10, (9, 3), 3);
    let (u, r) = start(&mut planted.random, (9, 3));
    let mut polar = polar::<f32>(&u, &r);
    let mut flat = flat::<f32>(&(&u * &r));
    for batch in [1, 3] {
        for (value, target, size) in [
            (f64::NAN, 1.0, 0.1),
            (f64::INFINITY, 1.0, 0.1),
            (1e30, 1.0, 1e30),
            (1.0, f64::NAN, 0.1),
            (1.0, f64::INFINITY, 0.1),
            (1.0, 1.0, f64::NAN),
            (1e25, 1e300, 1e200),
        ] {
            let x: Vec<f64> = (0..9).map(|i| if i < 2 { value } else { 0.0 }).collect();
            let mut cases = planted.batch(batch, false);
            cases[0] = Case::square(&x, target);
            let what = format!("{value} {target} {size}, batch {batch}");
            let before = polar.form().clone();
            let learned = learn(&mut polar, &cases, paper(size));
            assert_eq!(learned.outcome, Outcome::Refused, "{what}");
            assert_eq!(polar.form(), &before);
            let before = flat.form().clone();
            let learned = learn(&mut flat, &cases, paper(size));
            assert_eq!(learned.outcome, Outcome::Refused, "{what}");
            assert_eq!(flat.form(), &before);
        }
    }
}

#[test]
fn empty_rows_and_flat_losses_move_nothing() {
    let mut planted = Planted::new(11, (9, 3), 3);
    let (u, r) = start(&mut planted.random, (9, 3));
    let mut polar = polar::<f64>(&u, &r);
    let mut flat = flat::<f64>(&(&u * &r));
    let satisfied = Case {
        loss: Loss::AtMost,
        ..Case::square(&[1.0; 9], 1e9)
    };
    for batch in [
        vec![Case::square(&[0.0; 9], 1.0)],
        vec![satisfied.clone()],
        vec![Case::square(&[0.0; 9], 1.0), satisfied],
    ] {
        let (w, v) = (polar.w(), flat.w());
        for outcome in [
            learn(&mut polar, &batch, paper(0.1)).outcome,
            learn(&mut flat, &batch, paper(0.1)).outcome,
        ] {
            assert_eq!(outcome, Outcome::Idle);
        }
        assert!(polar.w() == w && flat.w() == v);
    }
}

/// The limit shortens what would be too long, and keeps wild runs sound.
#[test]
fn wild_runs_leave_sound_forms() {
    for seed in 0..4 {
        let mut planted = Planted::new(seed, (30, 4), 4);
        let (u, r) = start(&mut planted.random, (30, 4));
        for size in [0.1, 10.0, 1e6] {
            for batch in [1, 5] {
                let mut polar = polar::<f32>(&u, &r);
                let mut flat = flat::<f32>(&(&u * &r));
                for _ in 0..500 {
                    let cases = planted.batch(batch, true);
                    learn(&mut polar, &cases, Step::new(size));
                    learn(&mut flat, &cases, Step::new(size));
                }
                let sound = |w: &M| norm(w).is_finite();
                assert!(sound(&polar.w()) && sound(&flat.w()));
                assert!(check::polar_psd(polar.form()).orthonormal < 1e-2);
            }
        }
    }
}

#[test]
fn growth_adds_zero_rows_and_learning_goes_on() {
    let mut planted = Planted::new(12, (9, 3), 3);
    let (u, r) = start(&mut planted.random, (9, 3));
    let mut learner = polar::<f64>(&u, &r);
    let before = learner.w();
    learner.grow(12, 10).unwrap();
    let grown = learner.w();
    for i in 0..12 {
        for j in 0..12 {
            let want = if i < 9 && j < 9 { before[(i, j)] } else { 0.0 };
            assert_eq!(grown[(i, j)], want);
        }
    }
    let mut x = vec![0.0; 12];
    (x[11], x[2]) = (1.0, 1.0);
    for _ in 0..400 {
        learn(&mut learner, &[Case::square(&x, 1.0)], Step::new(0.05));
    }
    let score = (column(&x).transpose() * learner.w() * column(&x))[(0, 0)];
    assert!((score - 1.0).abs() < 0.05, "{score}");
    assert!(learner.w()[(11, 11)] != 0.0);
}

/// The norm of the gradient is how fast the score moves: ‖grad‖² = −df/ds.
#[test]
fn gradient_norms_are_those_of_the_metric() {
    let mut planted = Planted::new(13, (9, 3), 3);
    let (u, r) = start(&mut planted.random, (9, 3));
    for case in planted.batch(12, true) {
        let (p, q) = (narrow::<f64>(&case.p), narrow::<f64>(&case.q));
        let example = RankOne {
            left: p.as_row(),
            right: q.as_row(),
        };
        fn check<L: Learner<f64> + Clone>(mut learner: L, example: RankOne<'_, f64>, y: f64) {
            let norm = learner.gradient_norm(example, y, Loss::Squared);
            let value = |learner: &mut L| Loss::Squared.at(learner.score(example), y).0;
            let (before, size) = (value(&mut learner), 1e-7 / (1.0 + norm));
            learner.learn(example, y, Loss::Squared, paper(size));
            let fall = (before - value(&mut learner)) / size;
            let off = (fall / (norm * norm) - 1.0).abs();
            assert!(norm == 0.0 || off < 1e-3, "{fall} {}", norm * norm);
        }
        check(flat::<f64>(&(&u * &r)), example, case.y);
        for lambda in [0.0, 0.3, 1.0] {
            let learner = polar::<f64>(&u, &r).subspace_weight(lambda);
            check(learner, example, case.y);
        }
    }
}

#[test]
fn a_flat_step_changes_the_rows_of_its_example_only() {
    let mut planted = Planted::new(14, (30, 4), 3);
    let g = planted.random.matrix(30, 4);
    let mut learner = flat::<f32>(&g);
    for batch in [1, 3] {
        for _ in 0..50 {
            let before = learner.form().clone();
            let cases = planted.batch(batch, true);
            learn(&mut learner, &cases, Step::new(1e-3));
            let touched = |i: usize| cases.iter().any(|c| c.p[i] != 0.0 || c.q[i] != 0.0);
            for i in (0..30).filter(|&i| !touched(i)) {
                assert_eq!(before.factor().row(i), learner.form().factor().row(i));
            }
        }
    }
}

/// The steps of the proof, from a start far too large: W comes down and is learned.
#[test]
fn the_steps_of_the_proof_converge() {
    let shape = (8, 2);
    let mut planted = Planted::new(15, shape, 8);
    planted.noise = 0.0;
    let g: M = Scale(10.0) * planted.random.matrix(8, 2);
    let rule = StepRule::Convergent {
        size: 0.02,
        half_life: 1e4,
    };
    let mut learner = flat::<f64>(&g);
    let mut last = 0.0;
    for t in 0..20_000 {
        let size = rule.size(t, || learner.form().trace());
        last = learn_one(&mut learner, &planted.square(), paper(size)).loss;
    }
    let apart = norm(&(learner.w() - &planted.w)) / norm(&planted.w);
    assert!(apart < 1e-2, "{apart} {last}");
}
