//! One model of tasks on rows that are scaled as those of the merged one.

use super::super::super::{Model, Preprocess, TaskSpace};
use super::super::choices::rows_at;
use super::super::multiplier;
use super::super::union::Union;
use crate::Result;
use crate::linalg::beside;
use crate::model::TaskPrior;
use faer::Mat;

/// One model on the rows of the merged one.
pub(super) struct Part<'a> {
    pub space: &'a TaskSpace,
    pub prior: &'a TaskPrior,
    /// How much it counts where it was asked for, and as a share of all rows.
    pub given: f64,
    pub share: f64,
    /// U, and c in the last column.
    pub sight: Mat<f64>,
    pub weights: Mat<f64>,
    /// What the merged rows are away from its own: a vector in the merged features.
    pub shift: Vec<f64>,
    /// The mean of its rows: where they are in directions that it does not see.
    pub center: Vec<f64>,
    /// By what it multiplies features in each task and in an unknown one, where any model does.
    pub factors: Option<(Vec<f64>, Vec<f64>)>,
    pub at: &'a [u32],
}

impl<'a> Part<'a> {
    pub fn new(model: &'a Model, m: usize, sides: [&'a Union; 2], within: bool) -> Result<Self> {
        let (space, card) = model.task_parts()?;
        let (u, weights) = model.task_factors()?;
        let (union, n) = (sides[0], u.nrows());
        let common = Mat::from_fn(n, 1, |i, _| space.common.as_ref().map_or(0.0, |c| c[i]));
        // Where the features of the union are in this model.
        let mut own = vec![0_u32; n];
        (0..)
            .zip(&union.at[m])
            .for_each(|(i, &j)| own[j as usize] = i);
        let ratio = |j: usize| {
            union
                .factors
                .as_ref()
                .map_or(1.0, |f| f[m][own[j] as usize])
        };
        let mean = |of: &Preprocess, j: usize| of.mean.as_ref().map_or(0.0, |v| v[j]);
        let shift = |j: usize| {
            let i = own[j] as usize;
            let off = mean(&union.preprocess, j) - mean(&model.preprocess, i);
            multiplier(&model.preprocess, i) * off
        };
        let mut sight = rows_at(&beside(&u, &common), &own);
        // Factors of tasks can take the ratio of scales without any loss, else U takes it.
        let factors = within.then(|| {
            let factors = |task: Option<usize>| {
                let known = space.factors_of(task);
                (0..n)
                    .map(|j| ratio(j) * known.map_or(1.0, |f| f[own[j] as usize]))
                    .collect()
            };
            let all: Vec<Vec<f64>> = (0..weights.nrows()).map(|t| factors(Some(t))).collect();
            (all.concat(), factors(None))
        });
        if !within {
            sight = Mat::from_fn(n, sight.ncols(), |j, k| ratio(j) * sight[(j, k)]);
        }
        // x of the model is ratio · (x of the union) + shift, so the shift has its units.
        let shift = (0..n).map(|j| match ratio(j) {
            0.0 => 0.0,
            ratio => shift(j) / ratio,
        });
        let shift: Vec<f64> = shift.collect();
        let center = match (&model.preprocess.mean, &model.preprocess.fill) {
            (None, Some(means)) => own.iter().map(|&i| means[i as usize]).collect(),
            _ => shift.iter().map(|v| -v).collect(),
        };
        Ok(Part {
            space,
            prior: &card.prior,
            given: 1.0,
            share: 1.0,
            shift,
            center,
            sight,
            weights,
            factors,
            at: &sides[1].at[m],
        })
    }

    pub fn rank(&self) -> usize {
        self.weights.ncols()
    }

    /// By what it multiplies feature j in a task.
    pub fn factor(&self, task: Option<usize>, j: usize) -> f64 {
        match (&self.factors, task) {
            (None, _) => 1.0,
            (Some((all, usual)), Some(t)) => all[t * usual.len() + j],
            (Some((_, usual)), None) => usual[j],
        }
    }

    /// (Uᵀ, cᵀ) of what rows of the union are away from rows of the model.
    pub fn moved(&self, task: Option<usize>) -> Vec<f64> {
        self.along(&self.sight, task, |j| self.shift[j])
    }

    /// A vector of features of a task along the columns of a matrix.
    pub fn along(
        &self,
        columns: &Mat<f64>,
        task: Option<usize>,
        vector: impl Fn(usize) -> f64,
    ) -> Vec<f64> {
        let scaled: Vec<f64> = (0..columns.nrows())
            .map(|j| self.factor(task, j) * vector(j))
            .collect();
        let column = |k: usize| {
            scaled
                .iter()
                .enumerate()
                .map(|(j, v)| v * columns[(j, k)])
                .sum()
        };
        (0..columns.ncols()).map(column).collect()
    }

    /// (Uᵀ, cᵀ) of the mean of all rows, as the model scales those of a task.
    pub fn middle(&self, task: usize) -> Vec<f64> {
        self.along(&self.sight, Some(task), |j| self.center[j] + self.shift[j])
    }

    /// c + U w of a task.
    pub fn direction(&self, t: usize) -> Vec<f64> {
        let (r, n) = (self.rank(), self.sight.nrows());
        let entry = |j: usize| {
            let own = (0..r).map(|k| self.sight[(j, k)] * self.weights[(t, k)]);
            self.sight[(j, r)] + own.sum::<f64>()
        };
        (0..n).map(entry).collect()
    }

    /// The target of a row of zeros in a task.
    pub fn constant(&self, t: usize) -> f64 {
        let moved = self.moved(Some(t));
        let r = self.rank();
        let own: f64 = (0..r).map(|k| moved[k] * self.weights[(t, k)]).sum();
        let (scale, bias) = (self.space.scale[t], self.space.bias[t]);
        self.prior.target_mean + scale * (self.prior.offset + bias + moved[r] + own)
    }

    /// The mean square of rows around their mean along a direction of U.
    pub fn usual_square(&self) -> f64 {
        let r = self.rank();
        let (mut squares, mut rows) = (0.0, 0.0);
        for (t, own) in self.space.moments.iter().enumerate() {
            let (d, middle) = (own.mean.len(), self.middle(t));
            let mean = |k: usize| own.mean[k] - middle[k];
            let all = (0..r).map(|k| own.products[k * d + k] + own.count * mean(k).powi(2));
            squares += all.sum::<f64>();
            rows += own.count;
        }
        let length = self.sight.subcols(0, r).squared_norm_l2();
        squares / (rows * length).max(f64::MIN_POSITIVE)
    }

    /// The scale of a task that is not known.
    pub fn usual_scale(&self) -> f64 {
        self.prior.variance.map_or(1.0, |(usual, _)| usual.sqrt())
    }
}
