//! What validation chooses: the penalty, the number of iterations, the rank.

use super::fit::Fit;
use super::learner::{CompletionLearner, CompletionSolver, Method};
use crate::Result;
use crate::batch::{Fitted, Observed, Part, Sureness, View};
use serde::{Deserialize, Serialize};
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

/// Iterations without a better model after which a run is given up.
const PATIENCE: usize = 8;

/// The same for passes of online solvers.
const ONLINE_PATIENCE: usize = 2;

/// The first step of online solvers that is tried, as a share of residuals.
const FIRST_PACE: f64 = 0.03;

/// Penalties of online solvers that are tried on each side of the first.
const ONLINE_PENALTIES: usize = 3;

/// The share by which another penalty must lower the error to be worth it.
const WORTH: f64 = 1e-4;

/// An error that is none, as a share of the spread of entries.
const EXACT: f64 = 1e-8;

/// Ranks without a better model after which no larger one is tried.
const RANK_PATIENCE: usize = 2;

/// A penalty that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The rank.
    pub rank: usize,
    /// The penalty.
    pub regularization: f64,
    /// The step of online solvers, as a share of residuals.
    pub step_size: Option<f64>,
    /// The iteration with the best model.
    pub iterations: usize,
    /// Its error on validation entries.
    pub rmse: f64,
}

/// A trial and its best model.
#[derive(Clone)]
pub(super) struct Tried {
    pub trial: Trial,
    pub best: Fitted,
    /// The noise that was found, where it is part of the model.
    pub noise: Option<f64>,
    /// How sure the model is, where it learned that.
    pub sureness: Option<Sureness>,
}

/// What models are judged on.
pub(super) struct Judge<'a> {
    /// What is learned from.
    pub observed: &'a Observed,
    pub part: Part,
    /// What is predicted.
    pub valid: View<'a>,
    pub scale: Option<(f64, f64)>,
    /// What fits start from, where that is a model.
    pub start: Option<&'a Fitted>,
    /// Whether the step of online solvers is to be chosen.
    pub choose_steps: bool,
    /// Whether to go on.
    pub go_on: &'a mut dyn FnMut(Seen<'_>) -> bool,
}

/// What a judge tells of.
pub(super) enum Seen<'a> {
    Iteration(f64, &'a dyn Fn() -> Fitted),
    Trial(&'a Trial),
}

impl Judge<'_> {
    pub fn rmse(&self, model: &Fitted, threads: usize) -> f64 {
        let rmse = match self.scale {
            Some(scale) => model.clipped_rmse(self.valid, scale),
            None => model.rmse(self.valid, threads),
        };
        if rmse.is_nan() { f64::INFINITY } else { rmse }
    }

    /// Fits once and keeps the best iteration.
    pub fn try_once(
        &mut self,
        method: &Method,
        rank: usize,
        warm: Option<&Fitted>,
    ) -> Result<Option<Tried>> {
        let mut best: Option<Tried> = None;
        let mut interrupted = false;
        // Where a penalty alone keeps models from learning too much, they are
        // judged when they are done; others stop when they are best.
        let early = !matches!(
            method.learner,
            CompletionLearner::Als | CompletionLearner::Bayes
        );
        let online = method.solver == CompletionSolver::Online;
        let patience = if online { ONLINE_PATIENCE } else { PATIENCE };
        let (observed, part) = (self.observed, self.part);
        let Fit {
            fitted,
            iterations,
            noise,
            sureness,
            ..
        } = method.fit(observed, part, rank, warm, None, &mut |moment| {
            let n = moment.number;
            if !(self.go_on)(Seen::Iteration(moment.cost, moment.model)) {
                interrupted = true;
                return false;
            }
            if !early {
                return true;
            }
            let model = (moment.model)();
            // On the way up to the rank nothing is judged.
            if model.rank() < rank {
                return true;
            }
            let rmse = self.rmse(&model, method.threads);
            let better = best.as_ref().is_none_or(|b| rmse < b.trial.rmse);
            if better {
                let trial = Trial {
                    rank,
                    regularization: method.lambda,
                    step_size: online.then_some(method.pace),
                    iterations: n,
                    rmse,
                };
                best = Some(Tried {
                    trial,
                    best: model,
                    noise: None,
                    sureness: None,
                });
            }
            best.as_ref()
                .is_none_or(|b| n < b.trial.iterations + patience)
        })?;
        if interrupted {
            return Ok(None);
        }
        let tried = best.unwrap_or_else(|| Tried {
            trial: Trial {
                rank,
                regularization: method.lambda,
                step_size: online.then_some(method.pace),
                iterations,
                rmse: self.rmse(&fitted, method.threads),
            },
            best: fitted,
            noise,
            sureness,
        });
        Ok((self.go_on)(Seen::Trial(&tried.trial)).then_some(tried))
    }

    /// The best penalty: from the first one in steps of 4 while that helps, then in
    /// smaller steps around the best.
    pub fn choose_penalty(
        &mut self,
        method: &Method,
        first: f64,
        rank: usize,
        warm: Option<&Fitted>,
    ) -> Result<Option<Tried>> {
        let most = match method.learner {
            // Of the off-mask ridge, which weighs entries that are not known as
            // much as those that are at 1.
            CompletionLearner::Grassmann => 0.9,
            _ => f64::INFINITY,
        };
        let mut at = |lambda: f64| {
            let method = Method { lambda, ..*method };
            self.try_once(&method, rank, warm)
        };
        let Some(mut best) = at(first)? else {
            return Ok(None);
        };
        let steps = [4.0, 0.25, 2.0, 0.5, SQRT_2, FRAC_1_SQRT_2];
        let mut helped = false;
        for (i, factor) in steps.into_iter().enumerate() {
            // Where one way helped the other one does not.
            if i % 2 == 1 && helped {
                continue;
            }
            helped = false;
            loop {
                let lambda: f64 = (best.trial.regularization * factor).min(most);
                if lambda == best.trial.regularization {
                    break;
                }
                let Some(next) = at(lambda)? else {
                    return Ok(None);
                };
                if next.trial.rmse >= best.trial.rmse * (1.0 - WORTH) {
                    break;
                }
                (best, helped) = (next, true);
                // A step of 4 was tried from here; only such steps go on.
                if i >= 2 {
                    break;
                }
            }
        }
        Ok(Some(best))
    }

    /// The best step of an online solver, in steps of 3 while that helps.
    fn choose_pace(
        &mut self,
        method: &Method,
        rank: usize,
        warm: Option<&Fitted>,
    ) -> Result<Option<Tried>> {
        let mut at = |pace: f64| self.try_once(&Method { pace, ..*method }, rank, warm);
        let Some(mut best) = at(FIRST_PACE)? else {
            return Ok(None);
        };
        for factor in [3.0, 1.0 / 3.0] {
            let (mut pace, mut helped) = (FIRST_PACE, false);
            for _ in 0..4 {
                pace *= factor;
                let Some(next) = at(pace)? else {
                    return Ok(None);
                };
                if next.trial.rmse >= best.trial.rmse {
                    break;
                }
                (best, helped) = (next, true);
            }
            if helped {
                break;
            }
        }
        Ok(Some(best))
    }

    /// The best step of an online solver, and then the best penalty, where they are not
    /// given.
    fn choose_online(
        &mut self,
        method: &Method,
        given: Option<f64>,
        rank: usize,
        warm: Option<&Fitted>,
    ) -> Result<Option<Tried>> {
        let lambda = given.unwrap_or(0.0);
        let method = Method { lambda, ..*method };
        let found = match self.choose_steps {
            true => self.choose_pace(&method, rank, warm)?,
            false => self.try_once(&method, rank, warm)?,
        };
        let fixed = given.is_some() || !method.learner.has_penalty();
        match found {
            Some(found) if !fixed => {
                let pace = found.trial.step_size.unwrap_or(method.pace);
                self.choose_online_penalty(&Method { pace, ..method }, found, rank, warm)
            }
            found => Ok(found),
        }
    }

    /// The best penalty of an online solver at its step: none, or in steps of 4 from the
    /// usual one while that helps.
    fn choose_online_penalty(
        &mut self,
        method: &Method,
        none: Tried,
        rank: usize,
        warm: Option<&Fitted>,
    ) -> Result<Option<Tried>> {
        let first = first_penalty(method, self.observed, self.part);
        let mut at = |lambda: f64| self.try_once(&Method { lambda, ..*method }, rank, warm);
        let Some(found) = at(first)? else {
            return Ok(None);
        };
        let better = |a: &Tried, b: &Tried| a.trial.rmse < b.trial.rmse * (1.0 - WORTH);
        // Where the usual one is too much, less of it may help still.
        let (mut best, factors): (Tried, &[f64]) = match better(&found, &none) {
            true => (found, &[4.0, 0.25]),
            false => (none, &[0.25]),
        };
        for factor in factors {
            let (mut lambda, mut helped) = (first, false);
            for _ in 0..ONLINE_PENALTIES {
                lambda *= factor;
                let Some(next) = at(lambda)? else {
                    return Ok(None);
                };
                if !better(&next, &best) {
                    break;
                }
                (best, helped) = (next, true);
            }
            if helped {
                break;
            }
        }
        Ok(Some(best))
    }

    /// The best rank of a range, and the best penalty where none is given: larger
    /// ranks start from smaller ones, and are tried while they help.
    pub fn choose(
        &mut self,
        method: &Method,
        given: Option<f64>,
        ranks: (usize, usize),
    ) -> Result<Option<Tried>> {
        let mut lambda = match (given, method.solver) {
            (Some(lambda), _) => lambda,
            (None, CompletionSolver::Online) => 0.0,
            (None, _) => first_penalty(method, self.observed, self.part),
        };
        let entries = self.observed.part(self.part);
        let exact = EXACT * entries.mean_square(entries.mean()).sqrt();
        let mut best: Option<Tried> = None;
        let mut warm: Option<Fitted> = self.start.cloned();
        for rank in ranks.0..=ranks.1 {
            let online = method.solver == CompletionSolver::Online;
            let found = match given.is_some() || !method.learner.has_penalty() {
                _ if online => self.choose_online(method, given, rank, warm.as_ref())?,
                true => {
                    let method = Method { lambda, ..*method };
                    self.try_once(&method, rank, warm.as_ref())?
                }
                false => self.choose_penalty(method, lambda, rank, warm.as_ref())?,
            };
            let Some(found) = found else {
                return Ok(None);
            };
            lambda = found.trial.regularization;
            warm = Some(found.best.clone());
            let better = best
                .as_ref()
                .is_none_or(|b| found.trial.rmse < b.trial.rmse * (1.0 - WORTH));
            if better {
                best = Some(found);
            }
            if best.as_ref().is_some_and(|b| b.trial.rmse <= exact) {
                break;
            }
            let ahead = best.as_ref().map_or(0, |b| rank - b.trial.rank);
            if ahead >= RANK_PATIENCE {
                break;
            }
        }
        match best {
            // How long a fit from the beginning should go on is not known yet.
            Some(tried) if tried.trial.rank > ranks.0 => {
                let method = Method {
                    lambda: tried.trial.regularization,
                    pace: tried.trial.step_size.unwrap_or(method.pace),
                    ..*method
                };
                self.try_once(&method, tried.trial.rank, None)
            }
            best => Ok(best),
        }
    }
}

/// A penalty of the right size for values of this spread, to start from.
fn first_penalty(method: &Method, observed: &Observed, part: Part) -> f64 {
    let entries = observed.part(part);
    let count = entries.count.max(1) as f64;
    let lines = (entries.rows.len() + entries.columns.len()) as f64 / 2.0;
    let per_line = (count / lines.max(1.0)).max(1.0);
    let spread = entries.mean_square(entries.mean()).sqrt().max(1e-12);
    match method.learner {
        CompletionLearner::Als => 0.05 * spread * per_line.powf(1.0 - method.power),
        CompletionLearner::Gradient => 0.05 * spread * per_line / count,
        CompletionLearner::Grassmann => 0.01,
        // As if a fiftieth of all entries were known to be zero.
        _ => 0.02 / count,
    }
}
