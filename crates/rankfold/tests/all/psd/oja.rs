//! The subspace in which rows lie.

use super::*;

#[test]
fn steps_are_those_of_the_definition() {
    for way in [Retraction::Uf, Retraction::Qf] {
        for &(n, k) in &SHAPES {
            let mut random = Random::new(n as u64);
            let mut u = qf(&random.matrix(n, k)).unwrap();
            let mut learner = Oja::new(tall::<f64>(&u)).unwrap().retracted(way);
            for _ in 0..60 {
                let x = random.sparse(n, 3);
                let (row, x) = (SparseVec::from_dense(&x), column(&x));
                let captured = norm(&(u.transpose() * &x)).powi(2);
                assert!((learner.captured(row.as_row()) - captured).abs() < 1e-11);
                learner.learn(row.as_row(), paper(0.05));
                let outside = &x - &u * (u.transpose() * &x);
                u = way
                    .apply(&(&u + Scale(0.05) * (outside * (x.transpose() * &u))))
                    .unwrap();
            }
            let projector = from_rows(&learner.form().to_dense());
            close("UUᵀ", &projector, &(&u * u.transpose()), 1e-12);
            assert!(check::polar_psd(learner.form()).orthonormal < 1e-11);
        }
    }
}

/// Rows near a plane: it is found.
#[test]
fn the_principal_subspace_is_found() {
    let mut random = Random::new(3);
    let (n, k) = (12, 2);
    let target = qf(&random.matrix(n, k)).unwrap();
    let start = random.matrix(n, k);
    let mut learner = Oja::new(tall::<f32>(&start)).unwrap();
    for t in 0..4000 {
        let x = &target * random.matrix(k, 1) + Scale(0.05) * random.matrix(n, 1);
        let row = narrow::<f32>(&crate::oracle::flat(&x));
        learner.learn(row.as_row(), paper(0.5 / (1.0 + 0.02 * t as f64)));
    }
    let projector = from_rows(&learner.form().to_dense());
    let off = norm(&(projector - &target * target.transpose()));
    assert!(off < 0.05, "{off}");
    learner.grow(20).unwrap();
    assert_eq!(learner.into_form().factor().rows(), 20);
}
