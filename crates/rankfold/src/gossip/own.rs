//! Steps that an agent chooses by itself: no step size is given, and its clock is the
//! number of its own steps.
//!
//! An agent remembers the last subspace Ũ_j of each neighbor, and lowers its whole
//! local cost, by a Gauss–Newton step with one direction:
//!
//! ```text
//! φ(U) = f(U) + ρ/2 Σ_j dist²(U, Ũ_j)          ξ = grad f − ρ Σ_j Log_U(Ũ_j)
//! ζ_row = (B_row + cI)⁻¹ ξ_row                 c = ρ (neighbors + 1)
//! U ← Exp_U(−γζ)                               γ = ⟨ξ,ζ⟩ / (⟨ζ,Hζ⟩ + c⟨ζ,ζ⟩)
//! ```
//!
//! B_row are the diagonal blocks of the Hessian. Because φ does not depend on which
//! neighbor spoke last, all agents rest only where the cost of all of them is
//! stationary: steps need not shrink, and late or lost messages cost time only. The 1
//! in c is for the other end of the edge, which moves at the same time: without it two
//! agents with ρ far above their curvature would change places forever.
//!
//! Two things help over the first steps, and are gone after a known number of them:
//! a prior on weights, that of probabilistic principal components, which keeps the
//! subspace from unit vectors; and a smaller ρ, which grows when the own data have
//! little more to say, so that weak directions are found before agents agree on them.
//!
//! A neighbor may be wrong or hostile, so its pull can be capped: beyond a distance t
//! the cost grows as t·dist − t²/2 [Huber 1964], and no subspace that it may send pulls
//! with more than ρt.

use super::work::{Local, Work};
use crate::batch::normal::Normal;
use crate::linalg::symmetric;
use crate::manifold::{Grassmann, dot};
use faer::Mat;

/// Steps with the whole prior, at least and at most.
const PRIOR: [u64; 2] = [10, 80];

/// The prior fades when residuals fell by less than this share in so many steps, one
/// after the other.
const STILL: f64 = 0.1;
const STILL_STEPS: u64 = 3;

/// The share of the prior below which it is gone.
const LEAST_PRIOR: f64 = 1e-3;

/// Steps after which ρ doubles each time, and after which it is there.
const GROWTH: [u64; 2] = [60, 120];

/// The first ρ, as a share of the smallest curvature.
const FIRST_LEVEL: f64 = 0.01;

/// ρ doubles when the cost falls by less than this share.
const SLOW: f64 = 0.7;

/// How far a step may turn the subspace.
const LARGEST_ANGLE: f64 = std::f64::consts::FRAC_PI_4;

/// Halvings of a step that does not lower φ, at most.
const HALVINGS: usize = 8;

/// What an agent knows of its own course.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Course {
    /// Steps so far.
    pub steps: u64,
    /// ρ so far, in units of the smallest curvature.
    pub level: f64,
    /// The cost before the last step.
    pub before: f64,
    /// The same for residuals.
    pub residuals: f64,
    /// Steps in which these hardly fell, without one in between in which they did.
    pub still: u64,
    /// The share of the prior that is left.
    pub share: f64,
    /// The prior of the cost at hand.
    pub prior: Option<Mat<f64>>,
}

impl Default for Course {
    fn default() -> Self {
        Course {
            steps: 0,
            level: FIRST_LEVEL,
            before: f64::INFINITY,
            residuals: f64::INFINITY,
            still: 0,
            share: 1.0,
            prior: None,
        }
    }
}

impl Course {
    /// The share of the prior for the next step. It begins to fade when the own data
    /// have little more to say, and is gone ten steps later.
    fn fade(&mut self, residuals: f64) -> f64 {
        if self.steps > 0 && self.share > 0.0 {
            self.still = match residuals > (1.0 - STILL) * self.residuals {
                true => self.still + 1,
                false => 0,
            };
            let settled = self.steps >= PRIOR[0] && self.still >= STILL_STEPS;
            if self.share < 1.0 || settled || self.steps >= PRIOR[1] {
                self.share = match self.share > LEAST_PRIOR {
                    true => 0.5 * self.share,
                    false => 0.0,
                };
            }
        }
        self.residuals = residuals;
        self.share
    }

    /// Sets the prior for the next step: where it changes, the cost is another one,
    /// and is asked for anew.
    fn set_prior(&mut self, work: &impl Work, local: &mut Local) {
        let share = self.fade(local.residuals);
        let prior = match share > 0.0 {
            true => prior(work, local).map(|prior| faer::Scale(share) * prior),
            false => None,
        };
        if prior.is_some() || self.prior.is_some() {
            let there = work.local(&local.u, prior.as_ref());
            if there.cost.is_finite() {
                *local = there;
                self.prior = prior;
            }
        }
    }

    /// ρ for the next step.
    fn rho(&mut self, rho: f64, curvature: &Mat<f64>, cost: f64) -> f64 {
        if self.steps > 0 && (self.steps >= GROWTH[0] || cost > SLOW * self.before) {
            self.level = (2.0 * self.level).min(1e200);
        }
        self.before = cost;
        let values = symmetric::eigen(curvature).map(|(values, _)| values);
        let largest = values.as_ref().map_or(0.0, |v| v[v.len() - 1]);
        if self.steps >= GROWTH[1] || !(largest > 0.0) {
            return rho;
        }
        let least = values.map_or(0.0, |values| values[0]);
        rho.min(self.level * least.max(1e-12 * largest))
    }

    /// One step; false where none was possible.
    pub fn step<W: Work>(
        &mut self,
        work: &W,
        local: &mut Local,
        neighbors: &[&Mat<f64>],
        rho: f64,
        trust: f64,
    ) -> bool {
        self.set_prior(work, local);
        let (blocks, beside) = work.blocks(local);
        let curvature = mean_block(&blocks, &beside);
        let rho = self.rho(rho, &curvature, local.cost);
        self.steps += 1;
        let Some(pulls) = pulls(&local.u, neighbors, trust) else {
            return false;
        };
        let damping = match neighbors.is_empty() {
            true => 0.0,
            false => rho * (neighbors.len() + 1) as f64,
        };
        let slope = &local.gradient - faer::Scale(rho) * &pulls.sum;
        let Some(direction) = scaled(&local.u, &slope, blocks, &beside, &curvature, damping) else {
            return false;
        };
        let gain = dot(&slope, &direction);
        let hessian_product = dot(&work.hessian_product(local, &direction), &direction).max(0.0);
        let size = gain / (hessian_product + damping * dot(&direction, &direction));
        if !(gain > 0.0 && size.is_finite()) {
            return false;
        }
        let turn = largest_singular(&direction);
        let mut size = size.min(LARGEST_ANGLE / turn);
        let here = local.cost + 0.5 * rho * pulls.squares;
        for _ in 0..=HALVINGS {
            let there = Grassmann::exp(&local.u, &(faer::Scale(-size) * &direction));
            if let Some(there) = there {
                let found = work.local(&there, self.prior.as_ref());
                let squares = pulls_squares(&there, neighbors, trust);
                let cost = found.cost + 0.5 * rho * squares;
                // Rounding may hide a decrease close to the end.
                if cost <= here - 1e-4 * size * gain + 1e-12 * here.abs() {
                    *local = found;
                    return true;
                }
            }
            size *= 0.5;
        }
        false
    }
}

/// Σ Log_U(Ũ) and Σ dist², with capped pulls.
struct Pulls {
    sum: Mat<f64>,
    squares: f64,
}

fn pulls(u: &Mat<f64>, neighbors: &[&Mat<f64>], trust: f64) -> Option<Pulls> {
    let mut out = Pulls {
        sum: Mat::zeros(u.nrows(), u.ncols()),
        squares: 0.0,
    };
    for there in neighbors {
        let log = Grassmann::log(u, there)?;
        let square = log.squared_norm_l2();
        out.squares += capped(square, trust);
        match square > trust * trust {
            true => out.sum += faer::Scale(trust / square.sqrt()) * log,
            false => out.sum += log,
        }
    }
    Some(out)
}

fn pulls_squares(u: &Mat<f64>, neighbors: &[&Mat<f64>], trust: f64) -> f64 {
    let square = |there: &&Mat<f64>| capped(Grassmann::distance(u, there).powi(2), trust);
    neighbors.iter().map(square).sum()
}

/// A squared distance, or 2t·dist − t² beyond t.
fn capped(square: f64, trust: f64) -> f64 {
    match square > trust * trust {
        true => trust * (2.0 * square.sqrt() - trust),
        false => square,
    }
}

/// σ² Σ⁻¹, where weights have covariance Σ and residuals variance σ², as a step of EM
/// for probabilistic principal components finds them; `None` where nothing is left to
/// explain.
fn prior(work: &impl Work, local: &Local) -> Option<Mat<f64>> {
    let variance = 2.0 * local.residuals / work.observations().max(1) as f64;
    let (inverses, count) = local.inverses();
    if !(variance > 0.0) || count == 0 {
        return None;
    }
    let sum = &local.gram + faer::Scale(variance) * inverses;
    let covariance = faer::Scale(1.0 / count as f64) * sum;
    symmetric::power(&covariance, -1.0).map(|inverse| faer::Scale(variance) * inverse)
}

/// The largest curvature of a usual row.
pub(super) fn curvature(work: &impl Work, local: &Local) -> f64 {
    let (blocks, beside) = work.blocks(local);
    let values = symmetric::eigen(&mean_block(&blocks, &beside));
    values.map_or(0.0, |(values, _)| values.last().copied().unwrap_or(0.0))
}

/// The mean of the blocks of all rows.
fn mean_block(blocks: &[f64], beside: &Mat<f64>) -> Mat<f64> {
    let k = beside.nrows();
    let rows = blocks.len() / (k * k);
    let mut sum = vec![0.0; k * k];
    for block in blocks.chunks_exact(k * k) {
        sum.iter_mut().zip(block).for_each(|(s, b)| *s += b);
    }
    beside + Mat::from_fn(k, k, |i, j| sum[i.min(j) * k + i.max(j)] / rows as f64)
}

/// (B_row + S + cI)⁻¹ ξ_row for all rows, projected.
fn scaled(
    u: &Mat<f64>,
    slope: &Mat<f64>,
    blocks: Vec<f64>,
    beside: &Mat<f64>,
    curvature: &Mat<f64>,
    damping: f64,
) -> Option<Mat<f64>> {
    let (m, k) = (u.nrows(), u.ncols());
    let trace: f64 = (0..k).map(|i| curvature[(i, i)]).sum();
    // Rows without data of their own have nothing but the damping.
    let damping = damping + 1e-12 * trace + f64::MIN_POSITIVE;
    let mut normal = Normal {
        width: k,
        a: vec![0.0; k * k],
        b: vec![0.0; k],
    };
    let mut out = Mat::zeros(m, k);
    for (row, block) in blocks.chunks_exact(k * k).enumerate() {
        for i in 0..k {
            for j in i..k {
                normal.a[i * k + j] = block[i * k + j] + beside[(i, j)];
            }
            normal.a[i * k + i] += damping;
            normal.b[i] = slope[(row, i)];
        }
        if !normal.factor(k) {
            return None;
        }
        normal.solve(k);
        (0..k).for_each(|i| out[(row, i)] = normal.b[i]);
    }
    out.is_all_finite().then(|| Grassmann::project(u, &out))
}

fn largest_singular(m: &Mat<f64>) -> f64 {
    let values = symmetric::eigen(&crate::manifold::gram(m));
    values.map_or(f64::INFINITY, |(values, _)| {
        values.last().copied().unwrap_or(0.0).max(0.0).sqrt()
    })
}
