//! Orthonormal factors of a tall matrix of full rank.

use super::{Square, cholesky_upper, symmetric};
use crate::choices;
use faer::Mat;

choices! {
    /// How a point comes back to matrices with orthonormal columns.
    pub enum Retraction {
        /// M(MᵀM)^−½, the nearest orthonormal matrix; it commutes with rotations
        Uf = "uf" (default),
        /// Q of M = QR with a positive diagonal of R, as in the papers
        Qf = "qf",
    }
}

impl Retraction {
    /// T with M T orthonormal, from the Gram matrix MᵀM; `None` where that is
    /// not positive definite to working precision.
    pub fn map(self, gram: &Mat<f64>) -> Option<Mat<f64>> {
        match self {
            Retraction::Uf => symmetric::power(gram, -0.5),
            Retraction::Qf => {
                let r = cholesky_upper(&Square::from_faer(gram))?;
                let pivots = || (0..r.nrows()).map(|i| r[(i, i)]);
                let largest = pivots().fold(0.0, f64::max);
                let sound = pivots().all(|pivot| pivot > 1e-8 * largest);
                sound.then(|| super::solve_upper(&r, &Mat::identity(r.nrows(), r.nrows())))
            }
        }
    }

    /// The orthonormal factor of M.
    pub fn apply(self, m: &Mat<f64>) -> Option<Mat<f64>> {
        match self {
            Retraction::Uf => uf(m),
            Retraction::Qf => qf(m),
        }
    }
}

/// Q of M = QR, where R is upper triangular with a positive diagonal; `None`
/// where M has lost rank to working precision.
///
/// Without the rule for the diagonal the signs would be arbitrary, and the
/// small matrix that a factor is paired with is not re-signed with it.
pub fn qf(m: &Mat<f64>) -> Option<Mat<f64>> {
    let once = |m: &Mat<f64>| {
        let map = Retraction::Qf.map(&(m.transpose() * m))?;
        Some(m * map)
    };
    // A second pass is exact where M is far from orthonormal; both factors R
    // have a positive diagonal, and so has their product.
    once(&once(m)?)
}

/// M(MᵀM)^−½; `None` where M has lost rank to working precision.
pub fn uf(m: &Mat<f64>) -> Option<Mat<f64>> {
    let (p, sigma, q) = super::svd(m)?;
    let smallest = sigma.last().copied().unwrap_or(0.0);
    (smallest > 1e-13 * sigma.first().unwrap_or(&0.0)).then(|| p * q.transpose())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tall(n: usize, k: usize) -> Mat<f64> {
        Mat::from_fn(n, k, |i, j| {
            (((i + 2) * (i + 5 * j + 3)) as f64).sin() * (1.0 + 3.0 * j as f64)
        })
    }

    fn largest(m: &Mat<f64>) -> f64 {
        m.col_iter()
            .flat_map(|c| c.iter().copied().collect::<Vec<_>>())
            .fold(0.0, |a, b| a.max(b.abs()))
    }

    #[test]
    fn both_factors_are_orthonormal_and_keep_the_range() {
        for (n, k) in [(1, 1), (7, 3), (40, 12)] {
            let m = tall(n, k);
            for q in [qf(&m).unwrap(), uf(&m).unwrap()] {
                let gram = q.transpose() * &q - Mat::<f64>::identity(k, k);
                assert!(largest(&gram) < 1e-13, "{}", largest(&gram));
                let rest = &m - &q * (q.transpose() * &m);
                assert!(largest(&rest) < 1e-12 * largest(&m));
            }
        }
    }

    #[test]
    fn orthonormal_matrices_stay_as_they_are() {
        let u = qf(&tall(9, 4)).unwrap();
        for again in [qf(&u).unwrap(), uf(&u).unwrap()] {
            assert!(largest(&(again - &u)) < 1e-14);
        }
    }

    #[test]
    fn qf_has_the_signs_of_a_positive_diagonal() {
        let m = tall(9, 4);
        let r = qf(&m).unwrap().transpose() * &m;
        for i in 0..4 {
            assert!(r[(i, i)] > 0.0);
            for j in 0..i {
                assert!(r[(i, j)].abs() < 1e-12);
            }
        }
        // As Householder's, once its signs are fixed.
        let householder = m.qr();
        let (q, r) = (householder.compute_thin_Q(), householder.thin_R());
        let signed = Mat::from_fn(9, 4, |i, j| q[(i, j)] * r[(j, j)].signum());
        assert!(largest(&(signed - qf(&m).unwrap())) < 1e-13);
    }

    #[test]
    fn only_uf_commutes_with_rotations() {
        let (m, turn) = (tall(9, 3), qf(&tall(3, 3)).unwrap());
        let turned = &m * &turn;
        assert!(largest(&(uf(&turned).unwrap() - uf(&m).unwrap() * &turn)) < 1e-13);
        assert!(largest(&(qf(&turned).unwrap() - qf(&m).unwrap() * &turn)) > 1e-3);
    }

    #[test]
    fn a_matrix_that_lost_rank_has_no_factor() {
        let m = Mat::from_fn(5, 2, |i, _| i as f64);
        assert!(qf(&m).is_none());
        assert!(qf(&Mat::from_fn(3, 1, |_, _| f64::NAN)).is_none());
    }
}
