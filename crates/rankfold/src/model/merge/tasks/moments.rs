//! Moments of rows that another model sees.
//!
//! A model keeps the moments of (Uᵀx, cᵀx, y) over the rows of a task and not the rows, so it
//! knows nothing of them outside its own U and c. [`Seen`] maps what the model sees to what
//! another subspace would see of the same rows, if they were at the mean of all rows in every
//! other direction. Counts and targets stay as they are.
//!
//! Where weights are compared, rows must differ in other directions too: what a model has no
//! weights for it explains by those that it has, and weights of two models must not add up. There
//! rows are as long as they are along U ([`Seen::unseen`]).
//!
//! The fit of a merged task is no fit of these moments, as each model had its own ridge and c.
//! Of cᵀx with the merged c no model knows anything, so that its moments may say what makes up
//! for it: [`Moments::explain`] gives those from which exactly this fit follows.

use super::super::choices::map_between;
use super::part::Part;
use crate::linalg::beside;
use crate::model::{Moments, TaskFit, TaskPrior};
use faer::Mat;

/// How a model sees rows in another subspace.
pub(super) struct Seen {
    /// Maps (Uᵀx, cᵀx, y) of the model to that of the subspace.
    map: Mat<f64>,
    /// The subspace: U, and c in the last column.
    wanted: Mat<f64>,
    /// The mean square of what it does not see of Uᵀx, and zeros for the bias.
    unseen: Mat<f64>,
    sees_all: bool,
}

impl Seen {
    /// By each model, for U and c of all.
    pub fn all(parts: &[Part<'_>], u: &Mat<f64>, common: &[f64]) -> Option<Vec<Self>> {
        let c = Mat::from_fn(common.len(), 1, |j, _| common[j]);
        let wanted = beside(u, &c);
        let of = |part: &Part<'_>| {
            let inside = map_between(&part.sight, &wanted)?;
            let (to, from) = (inside.ncols(), inside.nrows());
            let entry = |i: usize, j: usize| match (i < to, j < from) {
                (true, true) => inside[(j, i)],
                (false, false) => 1.0,
                _ => 0.0,
            };
            let off = u - (&part.sight * &inside).subcols(0, to - 1);
            let sees_all = off.norm_max() <= 1e-6 * u.norm_max();
            let off = faer::Scale(part.usual_square()) * (off.transpose() * &off);
            let bias = |i: usize, j: usize| {
                if i + 1 < to && j + 1 < to {
                    off[(i, j)]
                } else {
                    0.0
                }
            };
            Some(Seen {
                map: Mat::from_fn(to + 1, from + 1, entry),
                unseen: Mat::from_fn(to, to, bias),
                wanted: wanted.clone(),
                sees_all,
            })
        };
        parts.iter().map(of).collect()
    }

    /// Whether the model sees all of the subspace.
    pub fn sees_all(&self) -> bool {
        self.sees_all
    }

    /// What so many rows are outside of what the model sees, where features are about independent.
    pub fn unseen(&self, count: f64) -> Mat<f64> {
        faer::Scale(count) * &self.unseen
    }

    /// The moments of a task of the model.
    pub fn moved(&self, part: &Part<'_>, task: usize) -> Moments {
        let own = &part.space.moments[task];
        let d = own.mean.len();
        // Rows lie around the mean of all, also where the model does not see them.
        let middle = part.middle(task);
        let there = part.along(&self.wanted, Some(task), |j| part.center[j]);
        let off = |i: usize| own.mean[i] - middle.get(i).copied().unwrap_or(0.0);
        let mut mean = &self.map * Mat::from_fn(d, 1, |i, _| off(i));
        (0..).zip(there).for_each(|(i, v)| mean[(i, 0)] += v);
        if own.count == 0.0 {
            mean.fill(0.0);
        }
        let products = Mat::from_fn(d, d, |i, j| own.products[i * d + j]);
        let products = &self.map * products * self.map.transpose();
        let to = mean.nrows();
        Moments {
            count: own.count,
            mean: (0..to).map(|i| mean[(i, 0)]).collect(),
            products: (0..to * to).map(|i| products[(i / to, i % to)]).collect(),
        }
    }
}

impl Moments {
    /// Those of these vectors and of others.
    pub(super) fn join(&mut self, other: &Moments) {
        let all = self.count + other.count;
        if all == 0.0 {
            return;
        }
        let (d, share) = (self.mean.len(), other.count / all);
        let off: Vec<f64> = other
            .mean
            .iter()
            .zip(&self.mean)
            .map(|(b, a)| b - a)
            .collect();
        let weight = self.count * share;
        for i in 0..d {
            for j in 0..d {
                self.products[i * d + j] += other.products[i * d + j] + weight * off[i] * off[j];
            }
        }
        self.mean
            .iter_mut()
            .zip(&off)
            .for_each(|(mean, off)| *mean += share * off);
        self.count = all;
    }

    /// What the rows and the ridges know of weights and bias: the curvature of their cost.
    pub(super) fn precision(&self, prior: &TaskPrior) -> Mat<f64> {
        let (d, n) = (self.mean.len(), self.count);
        let r = d - 2;
        let z = |i: usize| self.mean[i];
        let diagonal = |i: usize, j: usize| if i == j { prior.ridge } else { 0.0 };
        Mat::from_fn(r + 1, r + 1, |i, j| {
            match (i < r, j < r, prior.bias_ridge) {
                (true, true, _) => self.products[i * d + j] + n * z(i) * z(j) + diagonal(i, j),
                (false, false, Some(ridge)) => n + ridge,
                (false, false, None) => 1.0,
                (_, _, None) => 0.0,
                (true, false, _) => n * z(i),
                (false, true, _) => n * z(j),
            }
        })
    }

    /// Makes weights, bias and scale those that [`TaskPrior::fit`] gives: by the moments of cᵀx,
    /// and by as much of the variance of the targets as the usual one counts. A scale below what
    /// the prior allows for so few rows moves there with the next row.
    pub(super) fn explain(&mut self, prior: &TaskPrior, fit: &TaskFit) {
        let (d, n) = (self.mean.len(), self.count);
        let r = d - 2;
        let (q, y) = (r, r + 1);
        if let (Some((usual, weight)), true) = (prior.variance, n > 0.0) {
            let rows = weight + (n - 1.0).max(0.0);
            let squares = fit.scale * fit.scale * rows - weight * usual;
            self.products[y * d + y] = squares.max(0.0) * n.max(1.0) / n;
        }
        let scale = prior.scale(n, self.variance(y));
        let explained: f64 = fit.weights.iter().zip(&self.mean).map(|(w, z)| w * z).sum();
        let target = (self.mean[y] - prior.target_mean) / scale - prior.offset;
        let (share, mean) = match prior.bias_ridge {
            Some(kappa) if n > 0.0 => {
                let mean = fit.bias * (n + kappa) / n + explained;
                self.mean[q] = target - mean;
                (n * kappa / (n + kappa), mean)
            }
            Some(_) => (0.0, 0.0),
            None => (n, target - self.mean[q]),
        };
        for i in 0..r {
            let row = &self.products[i * d..][..r];
            let own: f64 = row.iter().zip(&fit.weights).map(|(p, w)| p * w).sum();
            let around =
                own + prior.ridge * fit.weights[i] + share * self.mean[i] * (explained - mean);
            let found = self.products[i * d + y] / scale - around;
            self.products[i * d + q] = found;
            self.products[q * d + i] = found;
        }
    }
}
