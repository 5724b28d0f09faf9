//! The sparse forms against the dense algorithms.

use super::*;

/// Runs fast and plain side by side, with the plain run on nudged inputs as the
/// control: where that stays small, so does the difference.
fn side_by_side<P: Clone, L: Learner<f64> + Seen>(
    what: &str,
    planted: &mut Planted,
    (steps, batch, mixed, size): (usize, usize, bool, f64),
    mut fast: L,
    (mut plain, step, w): (P, impl Fn(&mut P, &[Case], f64), impl Fn(&P) -> M),
) -> L {
    let mut control = plain.clone();
    for _ in 0..steps {
        let cases = planted.batch(batch, mixed);
        let learned = learn(&mut fast, &cases, paper(size));
        assert_ne!(learned.outcome, Outcome::Refused, "{what}");
        step(&mut plain, &cases, size);
        let nudged: Vec<_> = cases.iter().map(Case::nudged).collect();
        step(&mut control, &nudged, size);
    }
    let scale = norm(&w(&plain)).max(1.0);
    let wobble = norm(&(w(&control) - w(&plain))) / scale;
    assert!(wobble < 1e-9, "{what}: the control moves by {wobble:e}");
    let error = norm(&(fast.w() - w(&plain))) / scale;
    assert!(
        error < 1e-12 + 300.0 * wobble,
        "{what}: {error:e}, the control {wobble:e}"
    );
    fast
}

const RUNS: [(usize, usize, bool); 6] = [
    (1, 1, false),
    (3, 1, false),
    (50, 1, false),
    (3, 1, true),
    (3, 4, true),
    (50, 3, true),
];

#[test]
fn sparse_flat_runs_equal_the_dense_algorithm() {
    for (i, &shape) in SHAPES.iter().enumerate() {
        for (nnz, batch, mixed) in RUNS {
            let what = format!("{shape:?}, {nnz} non-zeros, batch {batch}");
            let mut planted = Planted::new(i as u64, shape, nnz);
            let g = planted.random.matrix(shape.0, shape.1);
            let fast = side_by_side(
                &what,
                &mut planted,
                (400, batch, mixed, safe(shape, nnz)),
                flat::<f64>(&g),
                (PlainFlat { g }, PlainFlat::step, PlainFlat::w),
            );
            let trace = fast.w().diagonal().column_vector().sum();
            let off = (fast.form().trace() - trace).abs();
            assert!(off < 1e-11 * trace, "{what}: the trace is off by {off:e}");
        }
    }
}

#[test]
fn sparse_polar_runs_equal_the_dense_algorithm() {
    for (i, &shape) in SHAPES.iter().enumerate() {
        for (nnz, batch, mixed) in RUNS {
            for (way, lambda) in [
                (Retraction::Uf, 0.5),
                (Retraction::Qf, 0.5),
                (Retraction::Uf, 0.1),
                (Retraction::Qf, 1.0),
                (Retraction::Uf, 0.0),
            ] {
                let what =
                    format!("{shape:?}, {nnz} non-zeros, batch {batch}, {way:?}, λ {lambda}");
                let mut planted = Planted::new(i as u64, shape, nnz);
                let (u, r) = start(&mut planted.random, shape);
                let fast = side_by_side(
                    &what,
                    &mut planted,
                    (300, batch, mixed, 0.3 * safe(shape, nnz)),
                    polar::<f64>(&u, &r).retracted(way).subspace_weight(lambda),
                    (
                        PlainPolar::new(&u, &r, lambda, way),
                        PlainPolar::step,
                        PlainPolar::w,
                    ),
                );
                let report = check::polar_psd(fast.form());
                let sound =
                    report.orthonormal < 1e-10 && report.gram < 1e-10 && report.inverse < 1e-10;
                assert!(sound, "{what}: {report:?}");
                let trace = fast.w().diagonal().column_vector().sum();
                assert!(
                    (fast.form().trace() - trace).abs() < 1e-11 * trace,
                    "{what}"
                );
            }
        }
    }
}

/// δ = 1 + 2λseŷ near 0, through 0 and beyond: the step is taken on all rows where it
/// must be, and is always that of the dense algorithm.
#[test]
fn steps_of_any_length_equal_the_dense_algorithm_one_by_one() {
    let (mut dense, mut sparse) = (0, 0);
    for seed in 0..40 {
        for way in [Retraction::Uf, Retraction::Qf] {
            for delta in [-2.0, -0.5, -0.05, 0.0, 1e-9, 0.09, 0.5, 3.0] {
                let shape = (8, 3);
                let mut planted = Planted::new(seed, shape, 3);
                let (u, r) = start(&mut planted.random, shape);
                let mut plain = PlainPolar::new(&u, &r, 0.5, way);
                let mut fast = polar::<f64>(&u, &r).retracted(way);
                let mut case = planted.square();
                let x = column(&case.p);
                let score = (x.transpose() * plain.w() * &x)[(0, 0)];
                let size = 0.02;
                // e = (δ − 1) / (2λsŷ).
                case.y = score - (delta - 1.0) / (size * score);
                if (delta - 1.0_f64).abs() / score > 100.0 {
                    continue;
                }
                let before = fast.form().clone();
                let learned = learn_one(&mut fast, &case, paper(size));
                assert_eq!(learned.outcome, Outcome::Moved);
                plain.step(std::slice::from_ref(&case), size);
                let what = format!("{seed} {way:?} δ = {delta}");
                close(&what, &fast.w(), &plain.w(), 1e-9);
                assert!(check::polar_psd(fast.form()).orthonormal < 1e-11);
                let untouched = (0..8).filter(|&i| case.p[i] == 0.0);
                let moved = untouched
                    .filter(|&i| before.factor().row(i) != fast.form().factor().row(i))
                    .count();
                match delta.abs() < 0.1 {
                    true => dense += usize::from(moved > 0),
                    false => {
                        assert_eq!(moved, 0, "{what}: rows outside of the example");
                        sparse += 1;
                    }
                }
            }
        }
    }
    assert!(dense > 50 && sparse > 50, "{dense} {sparse}");
}

/// Batches that turn U far fold it, once.
#[test]
fn batches_of_any_length_equal_the_dense_algorithm_one_by_one() {
    for seed in 0..40 {
        for way in [Retraction::Uf, Retraction::Qf] {
            let shape = (8, 3);
            let mut planted = Planted::new(seed, shape, 3);
            let (u, r) = start(&mut planted.random, shape);
            let mut plain = PlainPolar::new(&u, &r, 0.5, way);
            let mut fast = polar::<f64>(&u, &r).retracted(way);
            let batch = planted.batch(2 + seed as usize % 9, true);
            let size = 1e-3 * (1.0 + seed as f64);
            if learn(&mut fast, &batch, paper(size)).outcome == Outcome::Refused {
                continue;
            }
            plain.step(&batch, size);
            close(&format!("{seed} {way:?}"), &fast.w(), &plain.w(), 1e-9);
            assert!(check::polar_psd(fast.form()).orthonormal < 1e-11);
        }
    }
}

#[test]
fn examples_of_any_rank_are_sums_of_their_terms() {
    let shape = (6, 2);
    let mut planted = Planted::new(8, shape, 5);
    let (u, r) = start(&mut planted.random, shape);
    let x = planted.random.matrix(6, 6);
    let rows: Vec<Vec<f64>> = (0..6)
        .map(|i| (0..6).map(|j| x[(i, j)]).collect())
        .collect();
    let terms = rankfold::online::Terms::<f64>::from_dense(&rows);
    let (y, size) = (1.5, 1e-2);
    let g = &u * &r;
    let score = (&g * g.transpose() * &x).diagonal().column_vector().sum();
    let m = Scale(score - y) * symmetric::part(&x);

    let mut fast = flat::<f64>(&g);
    let learned = fast.learn_sum(&terms.examples(), y, Loss::Squared, paper(size));
    assert!((learned.score - score).abs() < 1e-11);
    let moved = &g - Scale(2.0 * size) * (&m * &g);
    close("flat", &fast.w(), &(&moved * moved.transpose()), 1e-11);

    for way in [Retraction::Uf, Retraction::Qf] {
        let mut fast = polar::<f64>(&u, &r).retracted(way).subspace_weight(0.3);
        let learned = fast.learn_sum(&terms.examples(), y, Loss::Squared, paper(size));
        assert!((learned.score - score).abs() < 1e-11);
        let mut plain = PlainPolar::new(&u, &r, 0.3, way);
        plain.step_along(&m, size);
        close("polar", &fast.w(), &plain.w(), 1e-11);
    }
}

#[test]
fn f32_factors_follow_f64_closely() {
    for seed in 0..3 {
        let shape = (60, 5);
        let mut planted = Planted::new(seed, shape, 4);
        let (u, r) = start(&mut planted.random, shape);
        let g = &u * &r;
        let mut polars = (polar::<f32>(&u, &r), polar::<f64>(&u, &r));
        let mut flats = (flat::<f32>(&g), flat::<f64>(&g));
        for _ in 0..3000 {
            let mut case = planted.square();
            case.p = case.p.iter().map(|&v| f64::from(v as f32)).collect();
            case.q = case.p.clone();
            let step = paper(0.3 * safe(shape, 4));
            learn_one(&mut polars.0, &case, step);
            learn_one(&mut polars.1, &case, step);
            learn_one(&mut flats.0, &case, step);
            learn_one(&mut flats.1, &case, step);
        }
        close("polar", &polars.0.w(), &polars.1.w(), 1e-5);
        close("flat", &flats.0.w(), &flats.1.w(), 1e-5);
        assert!(check::polar_psd(polars.0.form()).orthonormal < 1e-4);
        let off = flats.0.form().trace() / flats.1.form().trace() - 1.0;
        assert!(off.abs() < 1e-5, "{off}");
    }
}
