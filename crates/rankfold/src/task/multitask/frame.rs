//! Rows of many tasks on one scale: features standardized, targets of each task
//! brought to its scale, biases taken out.

use crate::batch::Tasks;
use crate::data::TaskRows;
use crate::gossip::Sums;
use crate::model::{Preprocess, Standardize, Steps, TaskPrior};
use crate::{Error, Result, SparseVec, memory};
use faer::Mat;
use std::ops::Range;

/// Deviations within a task below this share of the usual one are none.
const CONSTANT: f64 = 1e-6;

/// A bias that differs less between tasks than this share of the noise is the same
/// for all.
const LEAST_SPREAD: f64 = 1e-3;

/// What the scales of tasks count for where they hardly differ, in rows.
const MOST_ROWS: f64 = 2000.0;

/// How a frame is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Framing {
    pub standardize: Standardize,
    pub bias: bool,
    /// The ridge of the common weights, where there are some.
    pub common: Option<f64>,
    pub threads: usize,
}

/// Sums over the tasks of others as well, where these are only some of all tasks.
pub(super) type Beyond<'s> = Option<&'s mut dyn Sums>;

/// Sums of these numbers over all tasks.
fn summed(beyond: &mut Beyond<'_>, what: &'static str, own: Vec<f64>) -> Result<Vec<f64>> {
    match beyond {
        None => Ok(own),
        Some(sums) => {
            let count = own.len();
            sums.sum(what, count, &mut || Ok(own.clone()))
        }
    }
}

/// Rows of tasks as they are learned from.
pub(super) struct Frame {
    pub preprocess: Preprocess,
    /// By what each feature is multiplied in each task.
    pub factors: Option<Vec<f64>>,
    /// The same in a task that is not known.
    pub usual_factors: Option<Vec<f64>>,
    /// What is known of tasks before their rows, without the ridge of the weights.
    pub prior: TaskPrior,
    /// Scaled features of all rows, task by task, row by row.
    x: Vec<f64>,
    /// Targets as they came.
    y: Vec<f64>,
    /// Where the rows of each task start, and the end of the last.
    starts: Vec<usize>,
    /// The scale of each task.
    scale: Vec<f64>,
    features: usize,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    squares / values.len().max(1) as f64
}

impl Frame {
    /// Of some rows.
    pub fn new(data: &TaskRows, members: &[u32], framing: Framing) -> Result<Frame> {
        Self::beyond(data, members, framing, &mut None)
    }

    /// Of some rows, with scales and biases that are those of all tasks.
    pub fn beyond(
        data: &TaskRows,
        members: &[u32],
        framing: Framing,
        beyond: &mut Beyond<'_>,
    ) -> Result<Frame> {
        let (features, tasks) = (data.features.len(), data.names.len());
        let size = members.len() as u128 * features as u128 * 8;
        memory::require(2 * size, "the features of all rows")?;
        let steps = Steps {
            standardize: framing.standardize != Standardize::None,
            ..Steps::default()
        };
        let preprocess = match beyond {
            None => Preprocess::fit(steps, true, &data.rows, members),
            Some(_) => {
                let mut sum = |own| summed(beyond, "means and deviations of features", own);
                Preprocess::fit_summed(steps.standardize, features, &data.rows, &mut sum)?
            }
        };
        let mut order = members.to_vec();
        order.sort_by_key(|&i| data.task[i as usize]);
        let mut starts = vec![0; tasks + 1];
        for &i in &order {
            starts[data.task[i as usize] as usize + 1] += 1;
        }
        for t in 0..tasks {
            starts[t + 1] += starts[t];
        }
        let mut x = vec![0.0; order.len() * features];
        let (mut row, mut wide) = (SparseVec::new(), Vec::new());
        for (i, out) in order.iter().zip(x.chunks_exact_mut(features)) {
            let raw = data.rows.row(*i as usize);
            preprocess.apply_row(&mut row, raw, features, &mut wide);
            row.as_row().iter().for_each(|(j, v)| out[j as usize] = v);
        }
        let y = order.iter().map(|&i| data.targets[i as usize]).collect();
        let mut frame = Frame {
            preprocess,
            factors: None,
            usual_factors: None,
            prior: TaskPrior {
                ridge: 0.0,
                bias_ridge: framing.bias.then_some(0.0),
                target_mean: 0.0,
                offset: 0.0,
                variance: None,
            },
            x,
            y,
            starts,
            scale: vec![1.0; tasks],
            features,
        };
        if framing.standardize == Standardize::Task {
            frame.scale_within_tasks(beyond)?;
        }
        if framing.bias {
            let own = vec![frame.y.iter().sum(), frame.y.len() as f64];
            let all = summed(beyond, "the mean of the targets", own)?;
            frame.prior.target_mean = all[0] / all[1].max(1.0);
        }
        if framing.standardize != Standardize::None {
            frame.scale_targets(beyond)?;
        }
        if framing.bias {
            frame.find_biases(framing, beyond)?;
        }
        Ok(frame)
    }

    pub fn tasks_count(&self) -> usize {
        self.scale.len()
    }

    pub fn features(&self) -> usize {
        self.features
    }

    /// A target on the scale of its task.
    pub fn scaled(&self, task: usize, target: f64) -> f64 {
        (target - self.prior.target_mean) / self.scale[task]
    }

    /// The rows of a task: their features and their targets as they came.
    pub fn rows_of(&self, task: usize) -> (&[f64], &[f64]) {
        let (from, to) = (self.starts[task], self.starts[task + 1]);
        let m = self.features;
        (&self.x[from * m..to * m], &self.y[from..to])
    }

    /// By what the features of rows of a task are multiplied.
    pub fn factors_of(&self, task: Option<usize>) -> Option<&[f64]> {
        match task {
            Some(t) => self
                .factors
                .as_ref()
                .map(|all| &all[t * self.features..][..self.features]),
            None => self.usual_factors.as_deref(),
        }
    }

    /// The same for some tasks, one after the other.
    pub fn factors_of_all(&self, tasks: Range<usize>) -> Option<Vec<f64>> {
        let (from, to) = (tasks.start * self.features, tasks.end * self.features);
        self.factors
            .as_ref()
            .map(|factors| factors[from..to].to_vec())
    }

    /// The mean square of a scaled feature.
    pub fn usual_square(&self) -> f64 {
        usual(self.squares(), self.x.len() as f64)
    }

    /// The same over all tasks.
    pub fn usual_square_beyond(&self, beyond: &mut Beyond<'_>) -> Result<f64> {
        let own = vec![self.squares(), self.x.len() as f64];
        let all = summed(beyond, "the mean square of the features", own)?;
        Ok(usual(all[0], all[1]))
    }

    fn squares(&self) -> f64 {
        self.x.iter().map(|v| v * v).sum()
    }

    fn scale_within_tasks(&mut self, beyond: &mut Beyond<'_>) -> Result<()> {
        let m = self.features;
        let mut factors = vec![1.0; self.tasks_count() * m];
        // Variances within tasks, each as often as the task has rows.
        let mut within = vec![0.0; m];
        for t in 0..self.tasks_count() {
            let (x, _) = self.rows_of(t);
            let own = &mut factors[t * m..][..m];
            for (j, factor) in own.iter_mut().enumerate() {
                let column: Vec<f64> = x.chunks_exact(m).map(|row| row[j]).collect();
                let deviation = variance(&column).sqrt();
                within[j] += deviation * deviation * column.len() as f64;
                if deviation > CONSTANT {
                    *factor = 1.0 / deviation;
                }
            }
            let rows = self.starts[t] * m..self.starts[t + 1] * m;
            for row in self.x[rows].chunks_exact_mut(m) {
                row.iter_mut().zip(&*own).for_each(|(v, f)| *v *= f);
            }
        }
        self.factors = Some(factors);
        within.push(self.y.len() as f64);
        let within = summed(beyond, "deviations of features within tasks", within)?;
        let rows = within[m].max(1.0);
        let usual = within[..m].iter().map(|squares| (squares / rows).sqrt());
        let factor = |deviation: f64| match deviation > CONSTANT {
            true => 1.0 / deviation,
            false => 1.0,
        };
        self.usual_factors = Some(usual.map(factor).collect());
        Ok(())
    }

    /// What variances of targets usually are, and how much that counts beside the own
    /// rows of a task: by the moments of the logarithms of variances, which are those
    /// of F distributions [Smyth 2004].
    fn scale_targets(&mut self, beyond: &mut Beyond<'_>) -> Result<()> {
        let mut found: Vec<(f64, f64)> = Vec::new();
        for t in 0..self.tasks_count() {
            let (_, y) = self.rows_of(t);
            let (n, variance) = (y.len() as f64, variance(y));
            let size = y.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
            if n >= 2.0 && variance.sqrt() > 1e-12 * size {
                let freedom = n - 1.0;
                found.push((freedom, (variance * n / freedom).ln() + 1.0 / freedom));
            }
        }
        let logs: Vec<f64> = found.iter().map(|f| f.1).collect();
        let noise = |(d, _): &(f64, f64)| 2.0 / d + 2.0 / (d * d);
        let own = vec![
            found.len() as f64,
            logs.iter().sum(),
            found.iter().map(noise).sum(),
        ];
        let all = summed(beyond, "deviations of targets", own)?;
        let count = all[0].round();
        if count == 0.0 {
            return Err(Error::input(
                "the targets of every task are all the same, or it has one row only: there is \
                 nothing to learn",
            ));
        }
        let (middle, noise) = (all[1] / count, all[2] / count);
        let squares = logs.iter().map(|v| (v - middle) * (v - middle)).sum();
        let squares = summed(beyond, "the spread of these deviations", vec![squares])?[0];
        let spread = match count == 1.0 {
            true => 0.0,
            false => squares / count * count / (count - 1.0) - noise,
        };
        self.prior.variance = Some(if spread > 1e-3 {
            let weight = (1.0 + (1.0 + 2.0 * spread).sqrt()) / spread;
            ((middle - 1.0 / weight).exp(), weight)
        } else {
            (middle.exp(), MOST_ROWS)
        });
        for t in 0..self.tasks_count() {
            let (_, y) = self.rows_of(t);
            self.scale[t] = self.prior.scale(y.len() as f64, variance(y));
        }
        Ok(())
    }

    /// How far biases lie from each other, beside the noise: their ridge, and the usual
    /// one.
    fn find_biases(&mut self, framing: Framing, beyond: &mut Beyond<'_>) -> Result<()> {
        let common = match framing.common {
            Some(mu) => Some(pooled(&self.tasks()?, mu, framing.threads, beyond)?),
            None => None,
        };
        let m = self.features;
        let (mut squares, mut freedom) = (0.0, 0.0);
        // The bias of each task, and the number of its rows.
        let mut biases: Vec<(f64, f64)> = Vec::new();
        for t in 0..self.tasks_count() {
            let (x, y) = self.rows_of(t);
            if y.is_empty() {
                continue;
            }
            let explained = |row: &[f64]| {
                let all = row.iter().enumerate();
                common
                    .as_ref()
                    .map_or(0.0, |c| all.map(|(j, v)| v * c[(j, 0)]).sum())
            };
            let left = x
                .chunks_exact(m)
                .zip(y)
                .map(|(row, y)| (y - self.prior.target_mean) / self.scale[t] - explained(row));
            let left: Vec<f64> = left.collect();
            squares += variance(&left) * left.len() as f64;
            freedom += left.len() as f64 - 1.0;
            biases.push((mean(&left), left.len() as f64));
        }
        let values: Vec<f64> = biases.iter().map(|b| b.0).collect();
        let count = values.len() as f64;
        let own = vec![squares, freedom, count, values.iter().sum()];
        let all = summed(beyond, "biases of tasks", own)?;
        let (squares, freedom, count) = (all[0], all[1].round(), all[2].round());
        if freedom == 0.0 {
            // A row a task does not tell biases from noise: half of each.
            self.prior.bias_ridge = Some(1.0);
            return Ok(());
        }
        let noise = squares / freedom;
        let middle = all[3] / count;
        let around = values.iter().map(|v| (v - middle) * (v - middle)).sum();
        let by_chance = biases.iter().map(|b| noise / b.1).sum();
        let own = vec![around, by_chance];
        let all = summed(beyond, "the spread of biases", own)?;
        let (around, by_chance) = (all[0], all[1] / count);
        let spread = match count == 1.0 {
            true => 0.0,
            false => around / count * count / (count - 1.0) - by_chance,
        };
        let kappa = match spread > LEAST_SPREAD * noise {
            true => noise / spread,
            false => 1.0 / LEAST_SPREAD,
        };
        // Each bias counts by what is known of it.
        let weight = |n: f64| match kappa > 0.0 {
            true => n * kappa / (n + kappa),
            false => 1.0,
        };
        let total: f64 = biases.iter().map(|b| weight(b.1)).sum();
        let sum: f64 = biases.iter().map(|b| weight(b.1) * b.0).sum();
        let all = summed(beyond, "the usual bias", vec![sum, total])?;
        self.prior.bias_ridge = Some(kappa);
        self.prior.offset = all[0] / all[1];
        Ok(())
    }

    /// The tasks with their biases taken out.
    pub fn tasks(&self) -> Result<Tasks> {
        self.some_tasks(0..self.tasks_count(), None)
    }

    /// The same for some of them, with what common weights explain taken out as well.
    pub fn some_tasks(&self, tasks: Range<usize>, common: Option<&Mat<f64>>) -> Result<Tasks> {
        let m = self.features;
        let framed: Vec<(Vec<f64>, Vec<f64>)> = tasks
            .map(|t| {
                let (x, y) = self.rows_of(t);
                let scaled = y
                    .iter()
                    .map(|y| (y - self.prior.target_mean) / self.scale[t] - self.prior.offset);
                let (mut x, mut y) = (x.to_vec(), scaled.collect::<Vec<f64>>());
                if let (Some(kappa), false) = (self.prior.bias_ridge, y.is_empty()) {
                    take_out_mean(&mut x, &mut y, m, kappa);
                }
                if let Some(c) = common {
                    for (row, y) in x.chunks_exact(m).zip(&mut y) {
                        *y -= row
                            .iter()
                            .enumerate()
                            .map(|(j, v)| v * c[(j, 0)])
                            .sum::<f64>();
                    }
                }
                (x, y)
            })
            .collect();
        Tasks::new(m, framed.iter().map(|(x, y)| (&x[..], &y[..])))
    }

    /// Uᵀx and cᵀx of the rows of a task, each with its target.
    pub fn coordinates(&self, task: usize, at: &[Mat<f64>]) -> impl Iterator<Item = Vec<f64>> {
        let (x, y) = self.rows_of(task);
        let (m, r) = (self.features, at[0].ncols());
        x.chunks_exact(m).zip(y).map(move |(row, y)| {
            let mut out = vec![0.0; r + 2];
            for (j, v) in row.iter().enumerate() {
                (0..r).for_each(|k| out[k] += v * at[0][(j, k)]);
                out[r] += at.get(1).map_or(0.0, |c| v * c[(j, 0)]);
            }
            out[r + 1] = *y;
            out
        })
    }
}

/// A mean square, or 1 where all are zero.
fn usual(squares: f64, count: f64) -> f64 {
    let mean = squares / count.max(1.0);
    if mean > 0.0 { mean } else { 1.0 }
}

/// The weights that all tasks would share, with this ridge.
pub(super) fn pooled(
    tasks: &Tasks,
    mu: f64,
    threads: usize,
    beyond: &mut Beyond<'_>,
) -> Result<Mat<f64>> {
    match beyond {
        None => tasks.pooled_ridge(mu, threads),
        Some(_) => {
            let mut sum = |own| summed(beyond, "products of features and targets", own);
            tasks.pooled_ridge_summed(mu, threads, &mut sum)
        }
    }
}

/// Rows around their mean, and what a ridge of the bias leaves of the mean as one
/// more row: the same cost as with the best bias.
fn take_out_mean(x: &mut Vec<f64>, y: &mut Vec<f64>, m: usize, kappa: f64) {
    let n = y.len() as f64;
    let mut center = vec![0.0; m];
    for row in x.chunks_exact(m) {
        center.iter_mut().zip(row).for_each(|(c, v)| *c += v / n);
    }
    let middle = mean(y);
    for row in x.chunks_exact_mut(m) {
        row.iter_mut().zip(&center).for_each(|(v, c)| *v -= c);
    }
    y.iter_mut().for_each(|v| *v -= middle);
    let weight = (n * kappa / (n + kappa)).sqrt();
    if weight > 0.0 {
        x.extend(center.iter().map(|c| weight * c));
        y.push(weight * middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_at;

    #[test]
    fn the_best_bias_is_taken_out() {
        let (m, n) = (2, 7);
        let x: Vec<f64> = (0..n * m)
            .map(|i| 1.0 + normal_at(1, 0, i as u64, 0))
            .collect();
        let y: Vec<f64> = (0..n).map(|i| normal_at(2, 0, i as u64, 0)).collect();
        for kappa in [0.0, 1.5] {
            let (mut out_x, mut out_y) = (x.clone(), y.clone());
            take_out_mean(&mut out_x, &mut out_y, m, kappa);
            for weights in [[0.0, 0.0], [1.0, -2.0]] {
                let left = |x: &[f64], y: &[f64]| -> Vec<f64> {
                    let rows = x.chunks_exact(m).zip(y);
                    rows.map(|(x, y)| y - x[0] * weights[0] - x[1] * weights[1])
                        .collect()
                };
                let found: f64 = left(&out_x, &out_y).iter().map(|e| e * e).sum();
                let plain = left(&x, &y);
                let bias = plain.iter().sum::<f64>() / (n as f64 + kappa);
                let squares: f64 = plain.iter().map(|e| (e - bias) * (e - bias)).sum();
                let want = squares + kappa * bias * bias;
                assert!((found - want).abs() < 1e-12 * want.max(1.0));
            }
        }
    }
}
