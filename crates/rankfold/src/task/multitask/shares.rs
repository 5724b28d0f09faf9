//! Tasks divided among agents, and models of the subspaces that they agree on.
//!
//! What concerns all tasks is found before: scales, biases, the ridge, and common
//! weights, from the targets alone. The subspace is then all that agents look for.

use super::fit::{Ground, Learned};
use super::{Multitask, MultitaskEvent, MultitaskFit, TaskTrial, Work};
use crate::Result;
use crate::batch::{Common, Ended, Tasks};
use crate::data::{TaskColumns, TaskRows};
use crate::model::{Standardize, TaskPrior};
use faer::Mat;
use std::ops::Range;

/// Tasks as agents learn from them.
pub(crate) struct Shares<'a> {
    options: &'a Multitask,
    data: &'a TaskRows,
    ground: Ground,
    common: Option<Mat<f64>>,
    /// How features and targets are scaled.
    pub standardize: Standardize,
    /// λ.
    pub regularization: f64,
    chosen: Option<TaskTrial>,
}

impl<'a> Shares<'a> {
    /// With what was not given chosen as in batch; `None` where `watch` stops it.
    pub fn new(
        options: &'a Multitask,
        data: &'a TaskRows,
        watch: &mut dyn FnMut(MultitaskEvent<'_>) -> bool,
    ) -> Result<Option<Self>> {
        options.check_data(data)?;
        let chosen = match (options.regularization, options.standardize) {
            (Some(_), Some(_)) => None,
            _ => match Work::new(options, data, watch).choose(None, false)? {
                Some(chosen) => Some(chosen),
                None => return Ok(None),
            },
        };
        let standardize = options.scaling(chosen.as_ref());
        let all: Vec<u32> = (0..data.len() as u32).collect();
        let ground = Ground::new(options, data, &all, standardize)?;
        let ridges = ground.ridges(options.regularization, chosen.as_ref());
        let regularization = ridges[ridges.len() - 1];
        Ok(Some(Shares {
            common: ground.common_weights(options.thread_count())?,
            options,
            data,
            ground,
            standardize,
            regularization,
            chosen,
        }))
    }

    /// Some of the tasks.
    pub fn tasks(&self, tasks: Range<usize>) -> Result<Tasks> {
        self.ground.frame.some_tasks(tasks, self.common.as_ref())
    }

    /// A model of some of the tasks in a subspace.
    pub fn model(
        &self,
        u: &Mat<f64>,
        tasks: Range<usize>,
        columns: &TaskColumns,
        slots: usize,
    ) -> Result<MultitaskFit> {
        let mut at = vec![u.clone()];
        at.extend(self.common.clone());
        let learned = Learned {
            at,
            prior: TaskPrior {
                ridge: self.regularization,
                ..self.ground.frame.prior
            },
            cost: 0.0,
            iterations: slots,
            ended: Ended::Iterations,
        };
        let mut watch = |_: MultitaskEvent<'_>| true;
        let work = Work::new(self.options, self.data, &mut watch);
        let chosen = self.chosen.clone();
        work.finish(
            &self.ground,
            learned,
            tasks,
            Some(columns),
            self.standardize,
            chosen,
        )
    }
}

impl Ground {
    /// The weights that all tasks share, without any of their own.
    fn common_weights(&self, threads: usize) -> Result<Option<Mat<f64>>> {
        let mu = self.common.as_ref().map(Common::ridge);
        let weights = mu.map(|mu| self.tasks.pooled_ridge(mu, threads));
        weights.transpose()
    }
}
