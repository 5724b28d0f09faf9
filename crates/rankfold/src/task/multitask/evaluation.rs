//! How well the targets of tasks are predicted.

use super::baselines;
use crate::data::{FeatureMap, TaskRows};
use crate::model::{Metrics, Model};
use crate::task::groups::{Group, Grouping};
use crate::task::run::{Baseline, Evaluation};
use crate::{Error, Result};
use serde_json::{Value, json};

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

impl Model {
    /// Measures a model of tasks on rows. The variance of a task is that of all its
    /// targets, of training and of these rows. `train` are the rows from which the
    /// stronger baselines are learned: a ridge regression for all tasks together, one
    /// for each task, and the alternating minimization of Argyriou, Evgeniou and Pontil.
    pub fn evaluate_tasks(
        &self,
        data: &TaskRows,
        train: Option<&TaskRows>,
        threads: usize,
    ) -> Result<Evaluation> {
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
        let mut baselines = vec![Baseline::new("mean", mean.metrics())];
        if let Some(train) = train {
            let standardize = card.standardize;
            let bias = card.prior.bias_ridge.is_some();
            for baseline in baselines::all(train, standardize, bias, self.card.seed, threads)? {
                let mut judge = fresh.clone();
                baseline.judge(data, train, &mut judge)?;
                let found = Baseline {
                    regularization: Some(baseline.regularization()),
                    ..Baseline::new(baseline.name, judge.metrics())
                };
                baselines.insert(baselines.len() - 1, found);
            }
        }
        let too_many = train.is_some() && baselines.len() < 4;
        let judged = judge.0.iter().enumerate().map(|(t, tally)| {
            json!({
                "task": data.names.get(t as u32),
                "rows": tally.rows,
                "nmse": tally.nmse(),
                "rmse": (tally.squares / tally.rows.max(1) as f64).sqrt(),
            })
        });
        let judged: Vec<Value> = judged.collect();
        let mut by_task = Grouping::new("task", "nmse", "rows", Some("mean"));
        let tallies = judge.0.iter().zip(&mean.0).enumerate();
        by_task.groups = tallies
            .filter(|(_, (tally, _))| tally.rows > 0)
            .map(|(t, (tally, mean))| Group {
                name: data.names.get(t as u32).to_owned(),
                count: tally.rows,
                value: tally.nmse().unwrap_or(f64::NAN),
                baseline: mean.nmse(),
            })
            .collect();
        let constant = judge.0.iter().filter(|t| t.nmse().is_none()).count();
        let absent: Vec<&str> = map.absent().collect();
        let rows = data.len();
        Ok(Evaluation {
            groupings: vec![by_task],
            baselines,
            skipped: constant,
            ..Evaluation::new(judge.metrics(), rows, "rows")
        }
        .unknown_entries(map.unknown)
        .with("unknown", unknown)
        .with("tasks", judged)
        .noting(absent.len(), || {
            let missing = match &absent[..] {
                [one] => format!("there is no column `{one}`"),
                all => format!("there are no columns for {} features, such as `{}`", all.len(), all[0]),
            };
            format!("{missing}: the mean of training is taken")
        })
        .noting(usize::from(too_many), || {
            "there are too many tasks and features for the baselines `ridge` and `alternating`"
                .into()
        })
        .noting(unknown, || {
            format!("{unknown} of {rows} rows are of tasks that the model does not know: the common part was used")
        })
        .noting(constant, || {
            format!("{constant} tasks have no nmse: their targets are all the same")
        }))
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
