//! Subspaces: orthonormal U up to rotations of its columns.

use super::{Blocks, Manifold, combine, dot};
use crate::linalg::uf;
use faer::Mat;

/// The Grassmann manifold. A point is any orthonormal basis U of its subspace;
/// tangent vectors have Uᵀξ = 0. Blocks after the first are plain numbers beside
/// the subspace.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grassmann;

impl Grassmann {
    /// G without its part in the subspace of U.
    pub fn project(u: &Mat<f64>, g: &Mat<f64>) -> Mat<f64> {
        g - u * (u.transpose() * g)
    }
}

impl Manifold for Grassmann {
    fn inner(&self, _: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
        a.iter().zip(b).map(|(a, b)| dot(a, b)).sum()
    }

    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks> {
        let mut moved = combine(1.0, at, 1.0, along);
        moved[0] = uf(&moved[0])?;
        Some(moved)
    }

    fn transport(&self, _: &[Mat<f64>], to: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        let mut out = vector.to_vec();
        out[0] = Grassmann::project(&to[0], &vector[0]);
        out
    }
}

/// A pair of subspaces, of rows and of columns: what OptSpace descends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct GrassmannPair;

impl Manifold for GrassmannPair {
    fn inner(&self, _: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
        dot(&a[0], &b[0]) + dot(&a[1], &b[1])
    }

    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks> {
        let moved = combine(1.0, at, 1.0, along);
        Some(vec![uf(&moved[0])?, uf(&moved[1])?])
    }

    fn transport(&self, _: &[Mat<f64>], to: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        let sides = to.iter().zip(vector);
        sides.map(|(u, x)| Grassmann::project(u, x)).collect()
    }
}
