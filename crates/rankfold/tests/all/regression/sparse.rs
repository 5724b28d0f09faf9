//! The sparse forms against the dense algorithms.

use super::*;

/// Runs fast and plain side by side, with the plain run on nudged inputs as the
/// control: where that stays small, so does the difference.
fn side_by_side<P: Clone, L: Learner<f64>>(
    what: &str,
    planted: &mut Planted,
    (steps, batch, size): (usize, usize, f64),
    (mut fast, fast_w): (L, impl Fn(&L) -> M),
    (mut plain, step, w): (
        P,
        impl Fn(&mut P, &[(Vec<f64>, Vec<f64>, f64)], f64),
        impl Fn(&P) -> M,
    ),
) -> L {
    let mut control = plain.clone();
    for _ in 0..steps {
        let examples = planted.batch(batch);
        learn_batch(&mut fast, &examples, size);
        step(&mut plain, &examples, size);
        step(&mut control, &nudged(&examples), size);
    }
    let scale = norm(&w(&plain)).max(1.0);
    let wobble = norm(&(w(&control) - w(&plain))) / scale;
    assert!(
        wobble < 1e-9,
        "{what}: the control itself moves by {wobble:e}"
    );
    let error = norm(&(fast_w(&fast) - w(&plain))) / scale;
    assert!(
        error < 1e-12 + 300.0 * wobble,
        "{what}: {error:e}, the control {wobble:e}"
    );
    fast
}

#[test]
fn sparse_balanced_runs_equal_the_dense_algorithm() {
    for (i, &shape) in SIZES.iter().enumerate() {
        for (nnz, batch, lambda) in [
            (1, 1, 0.0),
            (3, 1, 0.0),
            (50, 1, 0.3),
            (3, 4, 0.0),
            (2, 3, 0.3),
        ] {
            let what = format!("{shape:?}, {nnz} non-zeros, batch {batch}, λ {lambda}");
            let mut planted = Planted::new(i as u64, shape, nnz);
            let (g, h) = start(&mut planted.random, shape);
            let fast = Balanced::new(factored::<f64>(&g, &h)).regularized(lambda);
            let fast = side_by_side(
                &what,
                &mut planted,
                (400, batch, safe(shape, nnz)),
                (fast, |l: &Balanced<f64>| from_rows(&l.form().to_dense())),
                (
                    PlainBalanced { g, h, lambda },
                    PlainBalanced::step,
                    PlainBalanced::w,
                ),
            );
            let report = check::factored(fast.form());
            assert!(
                report.gram < 1e-10 && report.gram_inverse < 1e-8,
                "{what}: {report:?}"
            );
        }
    }
}

#[test]
fn sparse_polar_runs_equal_the_dense_algorithm() {
    for (i, &shape) in SIZES.iter().enumerate() {
        let cases = [
            (1, 1, 0.0, Retraction::Uf),
            (3, 1, 0.0, Retraction::Uf),
            (50, 1, 0.0, Retraction::Uf),
            (3, 1, 0.0, Retraction::Qf),
            (3, 1, 0.2, Retraction::Uf),
            (2, 1, 0.2, Retraction::Qf),
            (3, 4, 0.0, Retraction::Uf),
            (1, 3, 0.2, Retraction::Qf),
        ];
        for (nnz, batch, lambda, retraction) in cases {
            let what =
                format!("{shape:?}, {nnz} non-zeros, batch {batch}, λ {lambda}, {retraction:?}");
            let (n, m, k) = shape;
            let mut planted = Planted::new(i as u64, shape, nnz);
            let u = rankfold::linalg::qf(&planted.random.matrix(n, k)).unwrap();
            let v = rankfold::linalg::qf(&planted.random.matrix(m, k)).unwrap();
            let a = planted.random.matrix(k, k);
            let b = &a * a.transpose() + M::identity(k, k);
            let fast = Polar::new(polar_form::<f64>(&u, &b, &v))
                .regularized(lambda)
                .retracted(retraction);
            let plain = PlainPolar {
                u,
                b,
                v,
                lambda,
                retraction,
            };
            let fast = side_by_side(
                &what,
                &mut planted,
                (400, batch, 5.0 * safe(shape, nnz)),
                (fast, |l: &Polar<f64>| from_rows(&l.form().to_dense())),
                (plain, PlainPolar::step, PlainPolar::w),
            );
            let report = check::polar(fast.form());
            let sound = report.orthonormal < 1e-9 && report.gram < 1e-10 && report.inverse < 1e-10;
            assert!(sound, "{what}: {report:?}");
        }
    }
}

#[test]
fn sparse_shrinking_factors_equal_the_dense_algorithm() {
    for (i, &shape) in SIZES.iter().enumerate() {
        // Strong enough for the shared factor to be folded into the rows many times.
        for lambda in [0.0, 0.3, 30.0] {
            let mut planted = Planted::new(i as u64, shape, 3);
            let (g, h) = start(&mut planted.random, shape);
            let fast = Gradient::new(factored::<f64>(&g, &h)).regularized(lambda);
            side_by_side(
                &format!("{shape:?}, λ {lambda}"),
                &mut planted,
                (400, 1, 1e-3),
                (fast, |l: &Gradient<f64>| from_rows(&l.form().to_dense())),
                (
                    PlainFactors { g, h, lambda },
                    PlainFactors::step,
                    PlainFactors::w,
                ),
            );
        }
    }
}

/// Steps that turn a factor so far that C would have no good inverse.
#[test]
fn steps_of_any_length_equal_the_dense_algorithm_one_by_one() {
    let mut far = 0;
    for seed in 0..60 {
        for retraction in [Retraction::Uf, Retraction::Qf] {
            let shape = (8, 6, 3);
            let mut planted = Planted::new(seed, shape, 3);
            let qf = |m: &M| rankfold::linalg::qf(m).unwrap();
            let (u, v) = (
                qf(&planted.random.matrix(8, 3)),
                qf(&planted.random.matrix(6, 3)),
            );
            let a = planted.random.matrix(3, 3);
            let b = &a * a.transpose() + M::identity(3, 3);
            let mut fast = Polar::new(polar_form::<f64>(&u, &b, &v)).retracted(retraction);
            let mut plain = PlainPolar {
                u,
                b,
                v,
                lambda: 0.0,
                retraction,
            };
            let batch = planted.batch(1 + seed as usize % 3);
            let size = 0.03 * (1.0 + (seed % 10) as f64);
            let outcome = learn_batch(&mut fast, &batch, size).outcome;
            plain.step(&batch, size);
            let want = plain.w();
            if outcome == Outcome::Refused {
                continue;
            }
            far += usize::from(norm(&want) > 30.0 || size > 0.1);
            let got = from_rows(&fast.form().to_dense());
            close(&format!("{seed} {retraction:?}"), &got, &want, 1e-9);
            let report = check::polar(fast.form());
            assert!(report.orthonormal < 1e-11, "{report:?}");
        }
    }
    assert!(far > 20, "{far}");
}

#[test]
fn examples_of_any_rank_are_sums_of_their_terms() {
    let shape = (6, 5, 2);
    let (n, m, _) = shape;
    let mut planted = Planted::new(8, shape, 5);
    let (g, h) = start(&mut planted.random, shape);
    let matrix = planted.random.matrix(m, n);
    // X = Σ e_j (row j): what a dense X is to a learner.
    let terms = rankfold::online::Terms::<f64>::from_dense(
        &(0..m)
            .map(|j| (0..n).map(|i| matrix[(j, i)]).collect())
            .collect::<Vec<_>>(),
    );
    let terms = terms.examples();
    let (y, size) = (1.5, 1e-2);
    let gradient = |w: &M| {
        let score = (w * &matrix).diagonal().column_vector().sum();
        (score, Scale(score - y) * matrix.transpose())
    };

    let mut balanced = Balanced::new(factored::<f64>(&g, &h));
    let w = &g * h.transpose();
    let (score, e) = gradient(&w);
    let learned = balanced.learn_sum(&terms, y, Loss::Squared, paper(size));
    assert!((learned.score - score).abs() < 1e-12);
    let (s, r) = (g.transpose() * &g, h.transpose() * &h);
    let new_g = &g - Scale(size) * (&e * &h * &s);
    let new_h = &h - Scale(size) * (e.transpose() * &g * &r);
    let want = new_g * new_h.transpose();
    close(
        "balanced",
        &from_rows(&balanced.form().to_dense()),
        &want,
        1e-11,
    );

    let form = PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap();
    let svd = w.thin_svd().unwrap();
    let k = 2;
    let part = |m: faer::MatRef<'_, f64>| M::from_fn(m.nrows(), k, |i, j| m[(i, j)]);
    let (u, v) = (part(svd.U()), part(svd.V()));
    let b = M::from_fn(k, k, |i, j| f64::from(i == j) * svd.S().column_vector()[i]);
    let mut polar = Polar::new(form);
    let learned = polar.learn_sum(&terms, y, Loss::Squared, paper(size));
    assert!((learned.score - score).abs() < 1e-12);
    let half = symmetric::power(&b, 0.5).unwrap();
    let (gu, gv) = (&e * &v * &b, e.transpose() * &u * &b);
    let on_u = &gu - &u * symmetric::part(&(u.transpose() * &gu));
    let on_v = &gv - &v * symmetric::part(&(v.transpose() * &gv));
    let psi = symmetric::part(&(v.transpose() * e.transpose() * &u));
    let b = &half * symmetric::exp(&(Scale(-size) * (&half * psi * &half))).unwrap() * &half;
    let uf = |m: &M| rankfold::linalg::uf(m).unwrap();
    let want = uf(&(u - Scale(size) * on_u)) * b * uf(&(v - Scale(size) * on_v)).transpose();
    close("polar", &from_rows(&polar.form().to_dense()), &want, 1e-11);
}

#[test]
fn f32_factors_follow_f64_closely() {
    for seed in 0..3 {
        let shape = (60, 40, 5);
        let mut planted = Planted::new(seed, shape, 4);
        let (g, h) = start(&mut planted.random, shape);
        let mut balanced = (
            Balanced::new(factored::<f32>(&g, &h)),
            Balanced::new(factored::<f64>(&g, &h)),
        );
        let form = |()| PolarForm::from_factored(factored::<f32>(&g, &h)).unwrap();
        let wide = PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap();
        let mut polar = (Polar::new(form(())), Polar::new(wide));
        let size = safe(shape, 4);
        for _ in 0..3000 {
            let (z, x, y) = planted.draw();
            let round =
                |v: &[f64]| -> Vec<f64> { v.iter().map(|&v| f64::from(v as f32)).collect() };
            let (z, x) = (round(&z), round(&x));
            learn(&mut balanced.0, &z, &x, y, paper(size));
            learn(&mut balanced.1, &z, &x, y, paper(size));
            learn(&mut polar.0, &z, &x, y, paper(5.0 * size));
            learn(&mut polar.1, &z, &x, y, paper(5.0 * size));
        }
        close(
            "balanced",
            &from_rows(&balanced.0.form().to_dense()),
            &from_rows(&balanced.1.form().to_dense()),
            1e-5,
        );
        close(
            "polar",
            &from_rows(&polar.0.form().to_dense()),
            &from_rows(&polar.1.form().to_dense()),
            1e-5,
        );
        assert!(check::polar(polar.0.form()).orthonormal < 1e-4);
    }
}
