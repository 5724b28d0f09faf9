//! Tasks divided among agents, and models of the subspaces that they agree on.
//!
//! What concerns all tasks is found before: scales, biases, the ridge, and common
//! weights, from the targets alone. The subspace is then all that agents look for.

use super::fit::{Ground, Learned, RIDGES};
use super::frame::{Beyond, pooled};
use super::{Multitask, MultitaskEvent, MultitaskFit, TaskTrial, Work};
use crate::batch::{Common, Ended, Tasks};
use crate::data::{TaskColumns, TaskRows};
use crate::gossip::Sums;
use crate::model::{Standardize, TaskPrior};
use crate::{Error, Result};
use faer::Mat;
use std::borrow::Cow;
use std::ops::Range;

/// Tasks as agents learn from them.
pub(crate) struct Shares<'a> {
    options: Cow<'a, Multitask>,
    data: Cow<'a, TaskRows>,
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
            common: ground.common_weights(options.thread_count(), &mut None)?,
            options: Cow::Borrowed(options),
            data: Cow::Borrowed(data),
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
        let work = Work::new(&self.options, &self.data, &mut watch);
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

/// What held-out rows of an agent say of a setting: the sum of errors of its tasks, and how
/// many of these there are.
const VOTES: usize = 2 * 2 * RIDGES.len();

/// Where a setting stands among the votes.
fn place_of(standardize: Standardize, place: usize) -> usize {
    let first = match standardize {
        Standardize::Task => RIDGES.len(),
        _ => 0,
    };
    2 * (first + place)
}

impl<'a> Shares<'a> {
    /// The tasks of one agent among others: what concerns all follows from sums. Each agent
    /// tries settings on its own tasks, and the errors of all of them choose.
    pub fn beyond(
        options: Multitask,
        data: Cow<'a, TaskRows>,
        sums: &mut dyn Sums,
    ) -> Result<Self> {
        options.check()?;
        let (features, rank) = (data.features.len(), options.rank.unwrap_or(1));
        if rank > features {
            let message = format!("is {rank}, above n_features = {features}");
            return Err(Error::option("rank", message));
        }
        let chosen = match (options.regularization, options.standardize) {
            (Some(_), Some(_)) => None,
            _ => Some(vote(&options, &data, sums)?),
        };
        let standardize = chosen.or(options.standardize.map(|how| (how, 0)));
        let (standardize, place) = standardize.unwrap_or_default();
        let all: Vec<u32> = (0..data.len() as u32).collect();
        let mut beyond: Beyond<'_> = Some(sums);
        let ground = Ground::beyond(&options, &data, &all, standardize, &mut beyond)?;
        let regularization = match options.regularization {
            Some(lambda) => lambda,
            None => ground.frame.usual_square_beyond(&mut beyond)? * RIDGES[place],
        };
        Ok(Shares {
            common: ground.common_weights(options.thread_count(), &mut beyond)?,
            options: Cow::Owned(options),
            data,
            ground,
            standardize,
            regularization,
            chosen: None,
        })
    }
}

/// The setting with the least error over the tasks of all agents; scaling within tasks
/// only where that is better beyond chance.
fn vote(options: &Multitask, data: &TaskRows, sums: &mut dyn Sums) -> Result<(Standardize, usize)> {
    let rank = options.rank.unwrap_or(1);
    let alone = Multitask {
        rank: Some(rank.min(data.names.len())),
        ..options.clone()
    };
    let mut trials: Option<Vec<TaskTrial>> = None;
    let mut tried = || -> Result<Vec<TaskTrial>> {
        if trials.is_none() {
            let mut watch = |_: MultitaskEvent<'_>| true;
            let mut work = Work::new(&alone, data, &mut watch);
            // An agent whose tasks are too small to hold out rows has no vote.
            let _ = work.choose(None, false);
            trials = Some(work.trials);
        }
        Ok(trials.clone().unwrap_or_default())
    };
    let all = sums.sum("errors of settings on held-out rows", VOTES, &mut || {
        let mut own = vec![0.0; VOTES];
        for trial in tried()? {
            let at = place_of(trial.standardize, trial.place);
            for error in trial.of_tasks.iter().flatten().filter(|e| e.is_finite()) {
                own[at] += error;
                own[at + 1] += 1.0;
            }
        }
        Ok(own)
    })?;
    let best = |standardize: Standardize| {
        let error = |place: usize| {
            let at = place_of(standardize, place);
            (all[at + 1] > 0.5).then(|| (all[at] / all[at + 1], place))
        };
        let found = (0..RIDGES.len()).filter_map(error);
        found.min_by(|a, b| a.0.total_cmp(&b.0)).map(|best| best.1)
    };
    let (global, task) = match options.standardize {
        Some(how) => (best(how), None),
        None => (best(Standardize::Global), best(Standardize::Task)),
    };
    let first = options.standardize.unwrap_or(Standardize::Global);
    let chosen = match (global, task) {
        (Some(global), None) => return Ok((first, global)),
        (None, Some(task)) => return Ok((Standardize::Task, task)),
        (Some(global), Some(task)) => (global, task),
        (None, None) => {
            let message = "no task of any agent has enough rows to hold some out for validation: \
                           give --regularization and --standardize";
            return Err(Error::input(message));
        }
    };
    let gains = sums.sum("gains of scaling within tasks", 3, &mut || {
        let trials = tried()?;
        let of = |standardize: Standardize, place: usize| {
            let found = trials
                .iter()
                .find(|t| t.standardize == standardize && t.place == place);
            found.map(|trial| trial.of_tasks.clone())
        };
        let global = of(Standardize::Global, chosen.0).unwrap_or_default();
        let task = of(Standardize::Task, chosen.1).unwrap_or_default();
        let mut own = vec![0.0; 3];
        for gain in global
            .iter()
            .zip(&task)
            .filter_map(|(a, b)| Some((*a)? - (*b)?))
        {
            own[0] += 1.0;
            own[1] += gain;
            own[2] += gain * gain;
        }
        Ok(own)
    })?;
    let (n, mean) = (gains[0].round(), gains[1] / gains[0].round().max(1.0));
    let squares = (gains[2] - n * mean * mean).max(0.0);
    let clear = n > 1.0 && mean > 2.0 * (squares / (n - 1.0) / n).sqrt();
    Ok(match clear {
        true => (Standardize::Task, chosen.1),
        false => (Standardize::Global, chosen.0),
    })
}

impl Ground {
    /// The weights that all tasks share, without any of their own.
    fn common_weights(&self, threads: usize, beyond: &mut Beyond<'_>) -> Result<Option<Mat<f64>>> {
        let mu = self.common.as_ref().map(Common::ridge);
        let weights = mu.map(|mu| pooled(&self.tasks, mu, threads, beyond));
        weights.transpose()
    }
}
