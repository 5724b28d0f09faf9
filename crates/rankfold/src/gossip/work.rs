//! What an agent owns and never sends: data, as a cost of subspaces.

use crate::batch::normal::Normal;
use crate::batch::rowwise::Rowwise;
use crate::manifold::{Grassmann, gram};
use faer::Mat;

/// A cost f(U) of subspaces in which the rest follows by least squares: each column
/// or task has its best weights w for U.
pub trait Work: Send + Sync {
    /// m: subspaces are of m-dimensional space.
    fn dimension(&self) -> usize;

    /// How many numbers are explained: known entries, or targets.
    fn observations(&self) -> usize;

    /// The curvature of f for a usual row of U, as a multiple of WᵀW: the share of entries
    /// that are known, or the squares of a feature over the rows of a task.
    fn density(&self) -> f64;

    /// E Eᵀ v, where E has a column for each w: what is left of that column or task, seen
    /// in m-dimensional space. Without a subspace nothing is explained yet.
    fn left_over(&self, at: Option<&Local>, v: &[f64]) -> Vec<f64>;

    /// All that is known at a subspace, in one pass over the data. With a prior R the
    /// cost of each w has ½ wᵀRw more.
    fn local(&self, u: &Mat<f64>, prior: Option<&Mat<f64>>) -> Local;

    /// The Gauss–Newton Hessian at a subspace along a tangent vector, before it is
    /// projected: one more pass.
    fn hessian_product(&self, at: &Local, along: &Mat<f64>) -> Mat<f64>;

    /// For each row of U an r×r matrix, one after the other with its upper part only,
    /// and another one that is added to all of them: the diagonal blocks of the
    /// Hessian while weights are held.
    fn blocks(&self, at: &Local) -> (Vec<f64>, Mat<f64>);

    /// The squares of what is left of other data of the same columns or tasks, by the
    /// weights that this data has at a subspace; and how many numbers these are.
    fn misfit(&self, at: &Local, other: &Self) -> (f64, usize)
    where
        Self: Sized;

    /// Cost and gradient at a matrix that need not be orthonormal, not projected:
    /// what the Euclidean baseline lowers.
    fn plain(&self, u: &Mat<f64>) -> (f64, Mat<f64>);
}

/// A subspace and what an agent knows of its own cost there.
#[derive(Debug, Clone)]
pub struct Local {
    /// U.
    pub u: Mat<f64>,
    /// f(U).
    pub cost: f64,
    /// The part of it that residuals have: half of their squares.
    pub residuals: f64,
    /// The Riemannian gradient of f.
    pub gradient: Mat<f64>,
    /// WᵀW for the matrix W of all weights.
    pub gram: Mat<f64>,
    /// U and W by rows.
    pub(super) rows: Rowwise,
    pub(super) weights: Rowwise,
    /// The Cholesky factors of the normal equations K of each w: r(r+1)/2 numbers,
    /// zeros where K says nothing.
    pub(super) factors: Vec<f64>,
}

/// What a pass over the data leaves.
pub(super) struct Passed {
    pub cost: f64,
    pub residuals: f64,
    /// The gradient, before it is projected.
    pub slope: Rowwise,
    pub weights: Rowwise,
    pub factors: Vec<f64>,
}

impl Local {
    pub(super) fn new(u: &Mat<f64>, rows: Rowwise, passed: Passed) -> Self {
        let k = u.ncols();
        Local {
            u: u.clone(),
            cost: passed.cost,
            residuals: passed.residuals,
            gradient: Grassmann::project(u, &passed.slope.to_mat(k)),
            gram: gram(&passed.weights.to_mat(k)),
            rows,
            weights: passed.weights,
            factors: passed.factors,
        }
    }

    /// W, a row for each column or task.
    pub fn weights(&self) -> Mat<f64> {
        self.weights.to_mat(self.u.ncols())
    }

    /// Puts factor `j` where normal equations have theirs; false where there is none.
    pub(super) fn unpack(&self, j: usize, normal: &mut Normal) -> bool {
        let k = self.u.ncols();
        let triangle = k * (k + 1) / 2;
        let mut from = &self.factors[j * triangle..][..triangle];
        for i in 0..k {
            let (row, rest) = from.split_at(k - i);
            normal.a[i * normal.width..][i..k].copy_from_slice(row);
            from = rest;
        }
        normal.a[0] > 0.0
    }

    /// Σ K⁻¹ over all w that have normal equations, and how many these are.
    pub(super) fn inverses(&self) -> (Mat<f64>, usize) {
        let (k, width) = (self.u.ncols(), self.rows.width);
        let mut normal = Normal::new(width);
        let (mut sum, mut count) = (vec![0.0; k * k], 0);
        for j in 0..self.weights.data.len() / width {
            if self.unpack(j, &mut normal) {
                let inverse = normal.inverse(k);
                sum.iter_mut().zip(inverse).for_each(|(s, v)| *s += v);
                count += 1;
            }
        }
        (Mat::from_fn(k, k, |i, j| sum[i * k + j]), count)
    }
}
