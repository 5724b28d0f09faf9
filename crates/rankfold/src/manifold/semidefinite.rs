//! Geometries of symmetric positive semi-definite matrices.

use super::{Blocks, Manifold};
use faer::Mat;

/// W = Y C Cᵀ Yᵀ, as a geometry has it.
#[derive(Debug, Clone)]
pub struct Split {
    /// Y, with a row for each row of W.
    pub basis: Mat<f64>,
    /// C, small; `None` is the identity.
    pub root: Option<Mat<f64>>,
}

impl Split {
    /// G = Y C, with W = G Gᵀ.
    pub fn factor(&self) -> Mat<f64> {
        match &self.root {
            None => self.basis.clone(),
            Some(root) => &self.basis * root,
        }
    }
}

/// A manifold whose points stand for symmetric positive semi-definite matrices.
///
/// A function of W has a symmetric gradient M. A geometry asks for M Y only,
/// where Y is the basis of its [`Split`], and names directions of W by one
/// factor: so nothing here has the size of W unless the rank has.
pub trait Semidefinite: Manifold {
    /// The rows and columns of each block of a point, for W of this size and rank.
    fn shapes(&self, size: usize, rank: usize) -> Vec<(usize, usize)>;

    /// W at a point.
    fn split(&self, at: &[Mat<f64>]) -> Split;

    /// The point of W = G Gᵀ; `None` where that has lost rank.
    fn point(&self, factor: &Mat<f64>) -> Option<Blocks>;

    /// The Riemannian gradient from M Y, with the split of this point.
    fn gradient(&self, at: &[Mat<f64>], split: &Split, product: &Mat<f64>) -> Blocks;

    /// L, where W moves along L Yᵀ + Y Lᵀ for a tangent vector.
    fn direction(&self, at: &[Mat<f64>], split: &Split, vector: &[Mat<f64>]) -> Mat<f64>;
}
