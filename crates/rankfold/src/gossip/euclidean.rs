//! The baseline without geometry: agents with plain matrices, which are pulled
//! together by ρ/2 ‖U_i − U_j‖².
//!
//! It is not made of [`Agent`](super::Agent)s, because what it would send are no subspaces.

use super::work::Work;
use super::{Graph, pace};
use crate::parallel::map_blocks;
use faer::Mat;

/// Agents on a graph, each with a matrix.
#[derive(Debug, Clone)]
pub struct Euclidean<W> {
    /// What each of them owns.
    pub works: Vec<W>,
    /// Who talks to whom.
    pub graph: Graph,
    /// ρ.
    pub rho: f64,
    /// U of each.
    pub points: Vec<Mat<f64>>,
    /// a and b of the steps a/(1 + bk).
    pub steps: (f64, f64),
    /// Threads; results have the same bits for any number of them.
    pub threads: usize,
    /// Slots so far: k.
    pub slots: u64,
}

impl<W: Work> Euclidean<W> {
    /// A slot with these edges, which share no agent. Where a step is not finite, the
    /// agent stays where it is.
    pub fn slot(&mut self, edges: &[usize]) {
        let pairs = edges.iter().map(|&e| self.graph.edges()[e]);
        let turns: Vec<(usize, usize)> = pairs.flat_map(|(i, j)| [(i, j), (j, i)]).collect();
        let size = pace(self.steps, self.slots);
        let moved = map_blocks(turns.len(), 1, self.threads, |at| {
            let (i, j) = turns[at.start];
            let (u, there) = (&self.points[i], &self.points[j]);
            let (_, slope) = self.works[i].plain(u);
            let slope =
                faer::Scale(self.graph.weight(i)) * slope + faer::Scale(self.rho) * (u - there);
            u - faer::Scale(size) * slope
        });
        for ((i, _), u) in turns.into_iter().zip(moved) {
            if u.is_all_finite() {
                self.points[i] = u;
            }
        }
        self.slots += 1;
    }

    /// Σ f_i(U_i) + ρ/2 Σ ‖U_i − U_j‖².
    pub fn cost(&self) -> f64 {
        let own = map_blocks(self.works.len(), 1, self.threads, |at| {
            self.works[at.start].plain(&self.points[at.start]).0
        });
        let apart =
            |&(i, j): &(usize, usize)| (&self.points[i] - &self.points[j]).squared_norm_l2();
        let apart: f64 = self.graph.edges().iter().map(apart).sum();
        own.into_iter().sum::<f64>() + 0.5 * self.rho * apart
    }
}
