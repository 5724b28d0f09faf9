//! What W makes of pairs of points: the passes that cost, slope and curvature come from. Whoever
//! holds some of the pairs makes their part of the sums like this.

use super::distances::{Distances, PairLoss};
use super::rowwise::Rowwise;
use crate::manifold::Split;
use faer::Mat;

/// Squared distances under W, and the points in its basis Y.
#[derive(Debug, Clone)]
pub(crate) struct SeenPairs {
    /// X Y.
    projected: Rowwise,
    distances: Vec<f64>,
    /// The columns of Y.
    rank: usize,
}

impl SeenPairs {
    pub fn new(distances: &Distances<'_>, split: &Split) -> Self {
        let projected = distances.project(&split.basis);
        let found = match &split.root {
            None => distances.of(&projected),
            Some(root) => distances.of(&projected.times(root)),
        };
        SeenPairs {
            projected,
            distances: found,
            rank: split.basis.ncols(),
        }
    }

    /// The squared distance of each pair.
    pub fn distances(&self) -> &[f64] {
        &self.distances
    }

    pub fn into_distances(self) -> Vec<f64> {
        self.distances
    }

    /// The cost, and M Y with M its slope in W.
    pub fn slope(&self, of: &Distances<'_>, pair_loss: &impl PairLoss) -> (f64, Mat<f64>) {
        let mut slopes = vec![0.0; self.distances.len()];
        let cost = pair_loss.slopes(&self.distances, &mut slopes);
        (cost, of.weighted(&slopes, &self.projected, self.rank))
    }

    /// How distances change where W moves along L Yᵀ + Y Lᵀ, and what the second derivative of
    /// the cost makes of that.
    fn bend(
        &self,
        of: &Distances<'_>,
        pair_loss: &impl PairLoss,
        direction: &Mat<f64>,
    ) -> [Vec<f64>; 2] {
        let l = of.project(direction);
        let mut change = of.products(&l, &self.projected);
        change.iter_mut().for_each(|c| *c *= 2.0);
        let mut bent = vec![0.0; change.len()];
        pair_loss.hessian_product(&self.distances, &change, &mut bent);
        [change, bent]
    }

    /// The second derivative of the cost along L.
    pub fn curvature(
        &self,
        of: &Distances<'_>,
        pair_loss: &impl PairLoss,
        direction: &Mat<f64>,
    ) -> f64 {
        let [change, bent] = self.bend(of, pair_loss, direction);
        change.iter().zip(&bent).map(|(a, b)| a * b).sum()
    }

    /// How M Y changes along L, up to what vanishes with M.
    pub fn hessian(
        &self,
        of: &Distances<'_>,
        pair_loss: &impl PairLoss,
        direction: &Mat<f64>,
    ) -> Mat<f64> {
        let [_, bent] = self.bend(of, pair_loss, direction);
        of.weighted(&bent, &self.projected, self.rank)
    }
}
