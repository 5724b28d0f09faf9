//! Geometries for batch solvers: what lengths, gradients and steps are on a set
//! of matrices of fixed rank.
//!
//! Points and tangent vectors are lists of matrices, [`Blocks`], so that a
//! solver adds and scales them without knowing what they mean. A [`Manifold`]
//! knows the metric and how to step; a [`FixedRank`] one also how its points
//! stand for a matrix W, and a [`Semidefinite`] one how they stand for a symmetric
//! positive semi-definite W.

mod balanced;
mod biased;
mod cone;
mod embedded;
mod factors;
mod flat;
mod geodesic;
mod grassmann;
pub(crate) mod laws;
mod polar;
mod polar_psd;
mod semidefinite;

pub use balanced::{Balanced, balance};
pub use biased::Biased;
pub use cone::{Affine, LogEuclidean};
pub use embedded::Embedded;
pub use factors::Factors;
pub use flat::Flat;
pub use grassmann::{Grassmann, GrassmannPair};
pub use polar::Polar;
pub use polar_psd::PolarPsd;
pub use semidefinite::{Semidefinite, Split};

pub(crate) use crate::linalg::{beside, svd_of_product, thin_qr};
use faer::Mat;

/// A point or a tangent vector: one matrix for each part of it.
pub type Blocks = Vec<Mat<f64>>;

/// A Riemannian manifold, or a quotient of one: tangent vectors are horizontal
/// then.
pub trait Manifold: Sync {
    /// The metric at a point.
    fn inner(&self, at: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64;

    /// A step along a tangent vector that stays on the manifold; `None` where it
    /// cannot be taken, because it loses rank or finiteness.
    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks>;

    /// A tangent vector of one point as one of another, by projection.
    fn transport(&self, from: &[Mat<f64>], to: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks;
}

/// A manifold whose points stand for matrices of one rank.
pub trait FixedRank: Manifold {
    /// The rows and columns of each block of a point, for W of this shape and rank.
    fn shapes(&self, shape: (usize, usize), rank: usize) -> Vec<(usize, usize)>;

    /// L and R with W = L Rᵀ.
    fn factors(&self, at: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>);

    /// The point of W = L Rᵀ; `None` where that has lost rank.
    fn point(&self, left: &Mat<f64>, right: &Mat<f64>) -> Option<Blocks>;

    /// The Riemannian gradient of a function of W, from E R and Eᵀ L, where E is
    /// its gradient in all matrices, and L and R are the factors of this point.
    fn gradient(&self, at: &[Mat<f64>], er: &Mat<f64>, el: &Mat<f64>) -> Blocks;

    /// A tangent vector scaled by about the inverse of the Hessian that a sum of
    /// squares of entries of W has, and projected: symmetric and positive. As it is
    /// where the metric does the scaling.
    fn precondition(&self, at: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        let _ = at;
        vector.to_vec()
    }

    /// The direction in which W moves along a tangent vector, as a product of
    /// two factors.
    fn ambient(&self, at: &[Mat<f64>], vector: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>);
}

/// a x + b y.
pub fn combine(a: f64, x: &[Mat<f64>], b: f64, y: &[Mat<f64>]) -> Blocks {
    let blocks = x.iter().zip(y);
    blocks
        .map(|(x, y)| faer::Scale(a) * x + faer::Scale(b) * y)
        .collect()
}

/// a x.
pub fn scaled(a: f64, x: &[Mat<f64>]) -> Blocks {
    x.iter().map(|x| faer::Scale(a) * x).collect()
}

/// Whether all entries are finite.
pub fn is_finite(x: &[Mat<f64>]) -> bool {
    x.iter().all(Mat::is_all_finite)
}

/// Tr(AᵀB).
pub(crate) fn dot(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    let columns = a.col_iter().zip(b.col_iter());
    columns.map(|(a, b)| a.transpose() * b).sum()
}

/// AᵀA.
pub(crate) fn gram(a: &Mat<f64>) -> Mat<f64> {
    a.transpose() * a
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Entries without a pattern, and of full rank.
    pub fn matrix(n: usize, k: usize, seed: usize) -> Mat<f64> {
        super::laws::matrix(n, k, seed)
    }

    /// Laws that every geometry of fixed rank keeps to.
    pub fn laws(manifold: &impl FixedRank, shape: (usize, usize, usize)) {
        crate::check::geometry(manifold, shape).unwrap();
    }

    pub const SHAPES: [(usize, usize, usize); 4] = [(7, 6, 2), (9, 4, 4), (5, 8, 1), (30, 20, 5)];

    #[test]
    fn the_svd_of_a_product_is_that_of_the_matrix() {
        for (n, m, k) in SHAPES {
            let (l, mut r) = (matrix(n, k, 1), matrix(m, k, 2));
            if k > 1 {
                let copy = r.col(0).to_owned();
                r.col_mut(k - 1).copy_from(&copy);
            }
            let (p, sigma, q) = svd_of_product(&l, &r, k).unwrap();
            let scaled = Mat::from_fn(n, k, |i, j| p[(i, j)] * sigma[j]);
            let gap = scaled * q.transpose() - &l * r.transpose();
            assert!(gap.norm_l2() < 1e-12 * sigma[0]);
            assert!((gram(&p) - Mat::<f64>::identity(k, k)).norm_max() < 1e-12);
        }
    }
}
