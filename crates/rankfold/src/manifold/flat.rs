//! W = G Gᵀ up to rotations of the columns of G: the flat geometry.

use super::{Blocks, Manifold, Semidefinite, Split, dot, gram};
use crate::linalg::symmetric;
use faer::Mat;

/// Factors G of full rank with the metric Tr ξᵀζ. Points G O are the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flat;

impl Manifold for Flat {
    fn inner(&self, _: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
        dot(&a[0], &b[0])
    }

    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks> {
        let next = &at[0] + &along[0];
        next.is_all_finite().then(|| vec![next])
    }

    /// Without the part along the rotations, G Ω for skew Ω.
    fn transport(&self, _: &[Mat<f64>], to: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        let (g, x) = (&to[0], &vector[0]);
        let Some((values, q)) = symmetric::eigen(&gram(g)) else {
            return vec![x.clone()];
        };
        let turn = q.transpose() * (g.transpose() * x) * &q;
        let largest = values.last().copied().unwrap_or(0.0);
        let omega = Mat::from_fn(values.len(), values.len(), |i, j| {
            let sum = values[i] + values[j];
            // A direction that W has lost has no rotations to take away.
            match sum > 1e-14 * largest {
                true => (turn[(i, j)] - turn[(j, i)]) / sum,
                false => 0.0,
            }
        });
        vec![x - g * (&q * omega * q.transpose())]
    }
}

impl Semidefinite for Flat {
    fn shapes(&self, d: usize, k: usize) -> Vec<(usize, usize)> {
        vec![(d, k)]
    }

    fn split(&self, at: &[Mat<f64>]) -> Split {
        Split {
            basis: at[0].clone(),
            root: None,
        }
    }

    fn point(&self, factor: &Mat<f64>) -> Option<Blocks> {
        factor.is_all_finite().then(|| vec![factor.clone()])
    }

    fn gradient(&self, _: &[Mat<f64>], _: &Split, product: &Mat<f64>) -> Blocks {
        vec![faer::Scale(2.0) * product]
    }

    fn direction(&self, _: &[Mat<f64>], _: &Split, vector: &[Mat<f64>]) -> Mat<f64> {
        vector[0].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::laws::semidefinite;
    use super::*;

    #[test]
    fn flat_points_keep_the_laws() {
        for shape in [(7, 2), (5, 5), (6, 1), (30, 5)] {
            semidefinite(&Flat, shape).unwrap();
        }
    }
}
