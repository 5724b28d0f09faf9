//! How well the targets of tasks are predicted.

use super::controls;
use crate::data::{FeatureMap, TaskRows};
use crate::model::{Metrics, Model};
use crate::{Error, Ids, Result};

/// The targets of one task and the errors on it.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Targets known: their number, mean, and squares around it.
    count: f64,
    mean: f64,
    around: f64,
    /// Errors.
    rows: usize,
    squares: f64,
    sizes: f64,
}

impl Tally {
    fn know(&mut self, count: f64, mean: f64, variance: f64) {
        let all = self.count + count;
        if all > 0.0 {
            let off = mean - self.mean;
            self.around += count * variance + off * off * self.count * count / all;
            self.mean += off * count / all;
            self.count = all;
        }
    }

    fn nmse(&self) -> Option<f64> {
        let variance = self.around / self.count;
        let differs = variance.sqrt() > 1e-12 * self.mean.abs();
        (self.rows > 0 && differs).then(|| self.squares / self.rows as f64 / variance)
    }
}

/// Errors on their way to metrics, task by task.
#[derive(Debug, Clone)]
pub(super) struct Judge(Vec<Tally>);

impl Judge {
    pub fn new(tasks: usize) -> Self {
        Judge(vec![Tally::default(); tasks])
    }

    /// Targets of a task that belong to its variance.
    pub fn know(&mut self, task: usize, count: f64, mean: f64, variance: f64) {
        self.0[task].know(count, mean, variance);
    }

    /// A target, which belongs to the variance as well, and what was found for it.
    pub fn add(&mut self, task: usize, target: f64, found: f64) {
        let tally = &mut self.0[task];
        tally.know(1.0, target, 0.0);
        let error = found - target;
        tally.rows += 1;
        tally.squares += error * error;
        tally.sizes += error.abs();
    }

    /// The mean over tasks of squared errors, each as a share of the variance.
    pub fn nmse(&self) -> f64 {
        let all: Vec<f64> = self.0.iter().filter_map(Tally::nmse).collect();
        all.iter().sum::<f64>() / all.len() as f64
    }

    /// The nmse of each task, where it has one.
    pub fn of_tasks(&self) -> Vec<Option<f64>> {
        self.0.iter().map(Tally::nmse).collect()
    }

    fn metrics(&self) -> Metrics {
        let rows: usize = self.0.iter().map(|t| t.rows).sum();
        let mean = |part: fn(&Tally) -> f64| self.0.iter().map(part).sum::<f64>() / rows as f64;
        Metrics::from([
            ("nmse".to_owned(), self.nmse()),
            ("rmse".to_owned(), mean(|t| t.squares).sqrt()),
            ("mae".to_owned(), mean(|t| t.sizes)),
        ])
    }
}

/// A simple model beside the learned one.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskControl {
    /// `mean`, `pooled`, `ridge` or `alternating`.
    pub name: &'static str,
    /// Its ridge, chosen by validation, where it has one.
    pub regularization: Option<f64>,
    /// What it reaches.
    pub metrics: Metrics,
}

/// What was found for one task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskScore {
    /// Its name.
    pub task: String,
    /// Its rows.
    pub rows: usize,
    /// Mean squared error as a share of the variance of its targets, where these
    /// differ.
    pub nmse: Option<f64>,
    /// The root of the mean squared error.
    pub rmse: f64,
}

/// What was found on rows of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskEvaluation {
    /// `nmse`, the mean over tasks; `rmse` and `mae` over all rows.
    pub model: Metrics,
    /// The same of the mean target of each task; and, where training rows are given,
    /// of a ridge regression for all tasks together, of one for each task, and of the
    /// alternating minimisation of Argyriou, Evgeniou and Pontil.
    pub controls: Vec<TaskControl>,
    /// Task by task.
    pub tasks: Vec<TaskScore>,
    /// Rows.
    pub rows: usize,
    /// Rows of tasks that the model does not know.
    pub unknown: usize,
    /// Entries of features that it does not know.
    pub unknown_entries: usize,
    /// Features of the model that a table does not have, taken as missing cells.
    pub absent: Vec<String>,
    /// Tasks without an nmse, because their targets are all the same.
    pub constant_tasks: usize,
}

impl Model {
    /// Measures a model of tasks on rows. The variance of a task is that of all its
    /// targets, of training and of these rows. `train` are the rows from which the
    /// stronger controls are learned.
    pub fn evaluate_tasks(
        &self,
        data: &TaskRows,
        train: Option<&TaskRows>,
        threads: usize,
    ) -> Result<TaskEvaluation> {
        let mut predictor = self.task_predictor()?;
        let (space, card) = self.task_parts()?;
        let (features, tasks) = self.task_ids()?;
        let known: Vec<Option<u32>> = data.names.iter().map(|name| tasks.find(name)).collect();
        let mut fresh = Judge::new(data.names.len());
        for (t, known) in known.iter().enumerate() {
            if let Some(k) = known {
                let moments = &space.moments[*k as usize];
                let y = moments.mean.len() - 1;
                fresh.know(t, moments.count, moments.mean[y], moments.variance(y));
            }
        }
        let (mut judge, mut mean) = (fresh.clone(), fresh.clone());
        let mut map = FeatureMap::new(features, &data.features, data.table)?;
        let mut unknown = 0;
        for i in 0..data.len() {
            let (t, target) = (data.task[i] as usize, data.targets[i]);
            let row = map.align(data.rows.row(i), &data.features);
            let found = predictor.target(known[t], row);
            judge.add(t, target, found);
            unknown += usize::from(known[t].is_none());
            let usual = known[t].map(|k| {
                let mean = &space.moments[k as usize].mean;
                mean[mean.len() - 1]
            });
            mean.add(t, target, usual.unwrap_or(card.prior.target_mean));
        }
        if data.is_empty() {
            return Err(Error::input("no rows"));
        }
        let mut controls = vec![TaskControl {
            name: "mean",
            regularization: None,
            metrics: mean.metrics(),
        }];
        if let Some(train) = train {
            let standardize = card.standardize;
            let bias = card.prior.bias_ridge.is_some();
            for control in controls::all(train, standardize, bias, self.card.seed, threads)? {
                let mut judge = fresh.clone();
                control.judge(data, train, &mut judge)?;
                controls.insert(
                    controls.len() - 1,
                    TaskControl {
                        name: control.name,
                        regularization: Some(control.regularization()),
                        metrics: judge.metrics(),
                    },
                );
            }
        }
        let name = |t: usize, names: &Ids| names.get(t as u32).to_owned();
        let judged = judge.0.iter().enumerate().map(|(t, tally)| TaskScore {
            task: name(t, &data.names),
            rows: tally.rows,
            nmse: tally.nmse(),
            rmse: (tally.squares / tally.rows.max(1) as f64).sqrt(),
        });
        let judged: Vec<TaskScore> = judged.collect();
        Ok(TaskEvaluation {
            model: judge.metrics(),
            controls,
            rows: data.len(),
            unknown,
            unknown_entries: map.unknown,
            absent: map.absent().map(str::to_owned).collect(),
            constant_tasks: judged.iter().filter(|t| t.nmse.is_none()).count(),
            tasks: judged,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variances_are_those_of_all_targets() {
        let targets = [1.0, 2.0, 4.0, 8.0, 16.0, -3.0];
        let variance = |y: &[f64]| {
            let mean = y.iter().sum::<f64>() / y.len() as f64;
            y.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / y.len() as f64
        };
        let mean = targets[..3].iter().sum::<f64>() / 3.0;
        let mut judge = Judge::new(2);
        judge.know(0, 3.0, mean, variance(&targets[..3]));
        targets[3..].iter().for_each(|&y| judge.add(0, y, y + 2.0));
        // A task whose targets are all the same has none.
        (0..3).for_each(|_| judge.add(1, 5.0, 6.0));
        assert!((judge.nmse() - 4.0 / variance(&targets)).abs() < 1e-12);
        let metrics = judge.metrics();
        assert!((metrics["mae"] - 1.5).abs() < 1e-12);
        assert!((metrics["rmse"] - 2.5f64.sqrt()).abs() < 1e-12);
    }
}
