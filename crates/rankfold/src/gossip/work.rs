//! What an agent owns and never sends: data, as a cost of subspaces.

use crate::batch::rowwise::Rowwise;
use crate::manifold::{Grassmann, gram};
use faer::Mat;

/// A cost f(U) of subspaces in which the rest follows by least squares: each column
/// or task has its best weights w for U.
pub trait Work: Send + Sync {
    /// m: subspaces are of m-dimensional space.
    fn dimension(&self) -> usize;

    /// All that is known at a subspace, in one pass over the data.
    fn local(&self, u: &Mat<f64>) -> Local;

    /// The Gauss–Newton Hessian at a subspace along a tangent vector, before it is
    /// projected: one more pass.
    fn bend(&self, at: &Local, along: &Mat<f64>) -> Mat<f64>;

    /// For each row of U an r×r matrix, one after the other, and added to all of
    /// them another one: the diagonal blocks of the Hessian with weights held.
    fn blocks(&self, at: &Local) -> (Vec<f64>, Mat<f64>);

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
    /// The Riemannian gradient of f.
    pub gradient: Mat<f64>,
    /// WᵀW for the matrix W of all weights.
    pub gram: Mat<f64>,
    /// U and W by rows.
    pub(super) rows: Rowwise,
    pub(super) weights: Rowwise,
    /// The Cholesky factors of the normal equations of each w: r(r+1)/2 numbers.
    pub(super) factors: Vec<f64>,
}

impl Local {
    pub(super) fn new(
        u: &Mat<f64>,
        cost: f64,
        slope: &Mat<f64>,
        (rows, weights): (Rowwise, Rowwise),
        factors: Vec<f64>,
    ) -> Self {
        let w = weights.to_mat(u.ncols());
        Local {
            u: u.clone(),
            cost,
            gradient: Grassmann::project(u, slope),
            gram: gram(&w),
            rows,
            weights,
            factors,
        }
    }

    /// W, a row for each column or task.
    pub fn weights(&self) -> Mat<f64> {
        self.weights.to_mat(self.u.ncols())
    }
}
