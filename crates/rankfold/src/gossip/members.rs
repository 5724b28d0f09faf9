//! An agent among neighbors that come and go: what a real network asks of it beside
//! messages in order.
//!
//! In a simulation clocks follow what they hear. On a network a neighbor may be hostile,
//! and would lead all clocks to the end of numbers. There the channel says who speaks
//! and in which order, and rounds are only told, not followed.

use super::agent::{Agent, Neighbor};
use super::work::Work;
use crate::manifold::Grassmann;
use crate::{Error, Result};
use faer::Mat;

impl<W: Work> Agent<W> {
    /// Caps the pull of a neighbor as if it were never farther than this.
    pub fn set_trust(&mut self, trust: f64) {
        self.trust = trust;
    }

    /// These neighbors from now on: what was heard from those that stay is kept.
    pub fn set_neighbors(&mut self, ids: &[usize]) {
        let mut before = std::mem::take(&mut self.neighbors);
        for &id in ids {
            let known = before.iter().position(|n| n.id == id);
            self.neighbors.push(match known {
                Some(at) => before.swap_remove(at),
                None => Neighbor { id, heard: None },
            });
        }
    }

    /// Takes the newest subspace of a neighbor; false where it is no neighbor, or the
    /// subspace does not fit. The caller has checked that it is orthonormal. Dimensions that
    /// it does not have yet are zero.
    pub fn hear(&mut self, from: usize, round: u64, subspace: Mat<f64>) -> bool {
        let (m, k) = (self.local.u.nrows(), self.local.u.ncols());
        let fits = subspace.nrows() <= m && subspace.ncols() == k;
        let found = self.neighbors.iter_mut().find(|n| n.id == from);
        match found {
            Some(neighbor) if fits => {
                neighbor.heard = Some((round, grown(subspace, m)));
                self.counters.accepted += 1;
                true
            }
            _ => {
                self.counters.rejected += 1;
                false
            }
        }
    }

    /// Goes to where a neighbor is; false where that is no place for it.
    pub fn start_from(&mut self, subspace: &Mat<f64>) -> bool {
        let (m, k) = (self.local.u.nrows(), self.local.u.ncols());
        if subspace.nrows() > m || subspace.ncols() != k {
            return false;
        }
        let there = grown(subspace.clone(), m);
        let local = self.work.local(&there, self.course.prior.as_ref());
        let fits = local.cost.is_finite();
        if fits {
            self.local = local;
        }
        fits
    }

    /// How far a neighbor was when it was last heard.
    pub fn distance_to(&self, neighbor: usize) -> Option<f64> {
        let found = self.neighbors.iter().find(|n| n.id == neighbor)?;
        let (_, there) = found.heard.as_ref()?;
        Some(Grassmann::distance(&self.local.u, there))
    }

    /// f(U) and ρ/2 Σ dist² to what was heard from all neighbors, half of it because
    /// each edge has two ends; and the largest of these distances.
    pub fn cost_with_neighbors(&self) -> (f64, f64) {
        let heard = self.neighbors.iter().filter_map(|n| n.heard.as_ref());
        let distances: Vec<f64> = heard
            .map(|(_, there)| Grassmann::distance(&self.local.u, there))
            .collect();
        let squares: f64 = distances.iter().map(|d| d * d).sum();
        let largest = distances.into_iter().fold(0.0, f64::max);
        (self.cost() + 0.25 * self.rho * squares, largest)
    }

    /// Goes on with other work, of more dimensions: those that are new stand at the end
    /// and are zero in all subspaces, which leaves these orthonormal.
    pub fn grow(&mut self, work: W) -> Result<()> {
        let (m, more) = (self.local.u.nrows(), work.dimension());
        if more < m {
            return Err(Error::failure(format!(
                "work in {more} dimensions cannot follow work in {m}"
            )));
        }
        let there = grown(self.local.u.clone(), more);
        self.local = work.local(&there, self.course.prior.as_ref());
        for (_, there) in self.neighbors.iter_mut().filter_map(|n| n.heard.as_mut()) {
            *there = grown(std::mem::replace(there, Mat::zeros(0, 0)), more);
        }
        self.work = work;
        Ok(())
    }
}

/// A subspace with zeros for more dimensions at the end.
fn grown(u: Mat<f64>, more: usize) -> Mat<f64> {
    let m = u.nrows();
    match m == more {
        true => u,
        false => Mat::from_fn(more, u.ncols(), |i, j| match i < m {
            true => u[(i, j)],
            false => 0.0,
        }),
    }
}
