//! Completion: ratings, and matrices with holes.
//!
//! Known entries are explained by a centre, a bias for each row and column, and a
//! matrix of rank k. Entries may be ratings of items by users; nothing here
//! depends on it.

mod choose;
mod evaluation;
mod fit;
mod fold_in;
mod learner;
mod online;
mod recommend;

pub use choose::Trial as RatingTrial;
pub use learner::{CompletionLearner, CompletionSolver, CompletionStart};
pub use online::RatingLearner;
pub use recommend::Recommendations;

use crate::batch::{Ended, Fitted, Observed, Part};
use crate::data::{Ratings, split_key};
use crate::form::{Factored, Tall};
use crate::linalg::Retraction;
use crate::manifold::svd_of_product;
use crate::model::{CompletionCard, HistoryPoint, Metrics, Model, Rated, RatingBiases};
use crate::{Error, Ids, Real, Result};
use choose::{Judge, Seen, Trial};
use fit::{Fit, biases_only};
use learner::Method;

/// To which range predictions are clipped.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Clip {
    /// That of the entries which are learned from.
    #[default]
    Auto,
    /// To none.
    None,
    /// To this one.
    To(f64, f64),
}

/// Completion of a matrix: options, checked once.
#[derive(Debug, Clone)]
pub struct Completion {
    learner: CompletionLearner,
    solver: Option<CompletionSolver>,
    ranks: (usize, usize),
    regularization: Option<f64>,
    power: f64,
    biases: bool,
    implicit: bool,
    iterations: Option<usize>,
    tolerance: Option<f64>,
    step_size: Option<f64>,
    start: Option<CompletionStart>,
    retraction: Retraction,
    clip: Clip,
    valid_fraction: Option<f64>,
    seed: u64,
    threads: usize,
}

/// What happens on the way.
#[derive(Clone, Copy)]
pub enum CompletionEvent<'a> {
    /// An iteration of a fit was done: its number, and a way to look at the model.
    Iteration(usize, &'a dyn Fn() -> Fitted),
    /// A penalty or a rank was tried on validation entries.
    Tried(&'a Trial),
    /// The learner that was chosen, and why.
    Chosen(CompletionLearner, &'a str),
}

/// A model of ratings, and how it came about.
#[derive(Debug, Clone)]
pub struct Completed {
    /// The model.
    pub model: Model,
    /// How it came about.
    pub matrix: CompletedMatrix,
    /// Validation metrics, where there were validation entries.
    pub metrics: Metrics,
    /// The rank asked for, where the entries hold less.
    pub lost_rank: Option<usize>,
}

/// A matrix without holes, and how it came about.
#[derive(Debug, Clone)]
pub struct CompletedMatrix {
    /// The matrix.
    pub fitted: Fitted,
    /// Who learned it.
    pub learner: CompletionLearner,
    /// How.
    pub solver: CompletionSolver,
    /// Iterations of the last fit.
    pub iterations: usize,
    /// Why that ended.
    pub ended: Ended,
    /// The penalty, where there is one.
    pub regularization: Option<f64>,
    /// What was tried on validation entries.
    pub trials: Vec<Trial>,
    /// The noise of the entries, where the learner finds it.
    pub noise: Option<f64>,
    /// The step of the online rule of the geometry, where it has one.
    pub step_size: Option<f64>,
}

impl Default for Completion {
    fn default() -> Self {
        Self::new(CompletionLearner::Auto)
    }
}

impl Completion {
    /// Completion by a learner: rank 10, with biases.
    pub fn new(learner: CompletionLearner) -> Self {
        Completion {
            learner,
            solver: None,
            ranks: (10, 10),
            regularization: None,
            power: 0.5,
            biases: true,
            implicit: true,
            iterations: None,
            tolerance: None,
            step_size: None,
            start: None,
            retraction: Retraction::Uf,
            clip: Clip::Auto,
            valid_fraction: None,
            seed: 0,
            threads: 1,
        }
    }

    /// How the learner solves, where it has several ways.
    pub fn solver(mut self, solver: CompletionSolver) -> Self {
        self.solver = Some(solver);
        self
    }

    /// The rank of W.
    pub fn rank(self, rank: usize) -> Self {
        self.ranks(rank, rank)
    }

    /// A range of ranks: raised from the first while the error on validation entries
    /// falls, to the last at most.
    pub fn ranks(mut self, first: usize, last: usize) -> Self {
        self.ranks = (first, last);
        self
    }

    /// The penalty, instead of one chosen on validation entries.
    pub fn regularization(mut self, lambda: f64) -> Self {
        self.regularization = Some(lambda);
        self
    }

    /// p of the penalty λ nᵖ of a row of n entries, for alternating least squares.
    pub fn penalty_power(mut self, power: f64) -> Self {
        self.power = power;
        self
    }

    /// Whether rows and columns have biases, beside a centre.
    pub fn biases(mut self, biases: bool) -> Self {
        self.biases = biases;
        self
    }

    /// Whether the pattern of known entries tells of rows and columns, for
    /// variational Bayes.
    pub fn implicit(mut self, implicit: bool) -> Self {
        self.implicit = implicit;
        self
    }

    /// Iterations at most.
    pub fn iterations(mut self, iterations: usize) -> Self {
        self.iterations = Some(iterations);
        self
    }

    /// The relative decrease of the cost below which a solver stops.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// The step of online solvers, as the share of a residual that a step takes away
    /// at a usual place; chosen on validation entries unless given.
    pub fn step_size(mut self, share: f64) -> Self {
        self.step_size = Some(share);
        self
    }

    /// Where it starts.
    pub fn start(mut self, start: CompletionStart) -> Self {
        self.start = Some(start);
        self
    }

    /// How polar factors come back to orthonormal columns.
    pub fn retraction(mut self, retraction: Retraction) -> Self {
        self.retraction = retraction;
        self
    }

    /// To which range predictions are clipped.
    pub fn clip(mut self, clip: Clip) -> Self {
        self.clip = clip;
        self
    }

    /// The share of entries that is held out for choices; they are learned from in
    /// the end. A tenth unless told otherwise.
    pub fn valid_fraction(mut self, fraction: f64) -> Self {
        self.valid_fraction = Some(fraction);
        self
    }

    /// The seed of everything random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Threads; the result does not depend on them.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Checks the options.
    pub fn check(&self) -> Result<()> {
        let error = |message: String| Err(Error::input(message));
        let (first, last) = self.ranks;
        if first == 0 || last < first {
            return error(format!(
                "the rank must be at least 1 and a range must rise, found {first}..{last}"
            ));
        }
        if let Some(lambda) = self.regularization {
            let (most, range) = match self.learner {
                CompletionLearner::Grassmann => (1.0, "from 0 to 1"),
                _ => (f64::MAX, "0 or above"),
            };
            if !(0.0..=most).contains(&lambda) {
                return error(format!(
                    "the regularization must be a number {range}, found {lambda}"
                ));
            }
            if !self.learner.has_penalty() {
                let name = self.learner.name();
                return error(format!("`{name}` has no regularization that could be set"));
            }
        }
        if !(0.0..=1.0).contains(&self.power) {
            let power = self.power;
            return error(format!(
                "the penalty power must be from 0 to 1, found {power}"
            ));
        }
        if let Some(fraction) = self.valid_fraction
            && !(fraction > 0.0 && fraction < 1.0)
        {
            return error(format!(
                "the share of validation entries must be between 0 and 1, found {fraction}"
            ));
        }
        if let Some(share) = self.step_size
            && !(share > 0.0 && share.is_finite())
        {
            return error(format!("the step size must be above 0, found {share}"));
        }
        if self.step_size.is_some() {
            let solver = self.solver.unwrap_or(self.learner.usual_solver());
            if solver != CompletionSolver::Online {
                let name = self.learner.name();
                return error(format!(
                    "`{name}` has a step size with the online solver only"
                ));
            }
        }
        if self.iterations == Some(0) {
            return error("at least 1 iteration is needed".into());
        }
        if let Clip::To(low, high) = self.clip
            && !(low < high)
        {
            return error(format!("cannot clip to a range from {low} to {high}"));
        }
        self.solver
            .map_or(Ok(()), |solver| solver.check(self.learner))
    }

    fn method(&self, learner: CompletionLearner) -> Method {
        let solver = self.solver.unwrap_or(learner.usual_solver());
        let (iterations, tolerance) = match (learner, solver) {
            (CompletionLearner::Bayes, _) => (25, 1e-5),
            (CompletionLearner::Als, _) => (30, 1e-5),
            (_, CompletionSolver::Online) => (20, 0.0),
            (_, CompletionSolver::TrustRegion) => (100, 1e-7),
            _ => (300, 1e-6),
        };
        Method {
            learner,
            solver,
            start: self.start.unwrap_or_default(),
            retraction: self.retraction,
            lambda: self.regularization.unwrap_or(0.0),
            power: self.power,
            biases: self.biases,
            implicit: self.implicit,
            iterations: self.iterations.unwrap_or(iterations),
            tolerance: self.tolerance.unwrap_or(tolerance),
            pace: self.step_size.unwrap_or(PACE),
            seed: self.seed,
            threads: self.threads,
        }
    }

    /// Fills the holes of a matrix; choices are made on validation entries where
    /// there are some, else on a part of the entries, which is held out for it.
    /// `watch` says whether to go on; without a model yet there is none then.
    pub fn complete(
        &self,
        entries: &mut Observed,
        valid: Option<&Observed>,
        watch: &mut dyn FnMut(CompletionEvent<'_>) -> bool,
    ) -> Result<Option<CompletedMatrix>> {
        self.check()?;
        let (n, m) = entries.shape();
        if self.ranks.1 > n.min(m) {
            return Err(Error::input(format!(
                "a rank of {} is more than the {} that a matrix of {n} by {m} has",
                self.ranks.1,
                n.min(m)
            )));
        }
        let scale = self.scale(entries);
        let mut run = Run {
            options: self,
            entries,
            valid,
            scale,
            watch,
            trials: Vec::new(),
        };
        let Some((method, fit)) = run.learn()? else {
            return Ok(None);
        };
        let size = method.pace / online::gain(method.learner, &fit.fitted);
        Ok(Some(CompletedMatrix {
            // Kept also by models that were not learned online, for what comes later.
            step_size: online::rule_of(method.learner)
                .map(|_| size)
                .filter(|size| size.is_finite()),
            fitted: fit.fitted,
            learner: method.learner,
            solver: method.solver,
            iterations: fit.iterations,
            ended: fit.ended,
            regularization: method.learner.has_penalty().then_some(method.lambda),
            trials: run.trials,
            noise: fit.noise,
        }))
    }

    /// Learns from ratings, as [`Completion::complete`] does.
    pub fn fit<R: Real>(
        &self,
        ratings: Ratings,
        valid: Option<&Ratings>,
        watch: &mut dyn FnMut(CompletionEvent<'_>) -> bool,
    ) -> Result<Option<Completed>> {
        let Ratings {
            users,
            items,
            mut entries,
            ..
        } = ratings;
        let known = valid.map(|valid| known_part(valid, &users, &items));
        let known = known.transpose()?;
        let Some(matrix) = self.complete(&mut entries, known.as_ref(), watch)? else {
            return Ok(None);
        };
        let (mut model, lost_rank) = self.model_of::<R>(&matrix, (users, items), &entries)?;
        let metrics = match valid {
            Some(valid) => model.evaluate_ratings(valid)?.metrics,
            None => {
                let best = matrix
                    .trials
                    .iter()
                    .min_by(|a, b| a.rmse.total_cmp(&b.rmse));
                let best = best.map(|best| ("rmse".to_owned(), best.rmse));
                best.into_iter().collect()
            }
        };
        if !metrics.is_empty() {
            model.card.history.push(HistoryPoint {
                counters: model.card.counters,
                loss: 0.0,
                metrics: metrics.clone(),
            });
        }
        Ok(Some(Completed {
            model,
            matrix,
            metrics,
            lost_rank,
        }))
    }

    /// The model of a matrix that was learned from these entries, and the rank asked
    /// for where they hold less.
    pub(crate) fn model_of<R: Real>(
        &self,
        matrix: &CompletedMatrix,
        ids: (Ids, Ids),
        entries: &Observed,
    ) -> Result<(Model, Option<usize>)> {
        let all = entries.part(Part::All);
        let (form, lost_rank) = stored::<R>(&matrix.fitted)?;
        let control = biases_only(all, true, self.threads);
        let count = |lines: crate::batch::Lines<'_>| {
            (0..lines.len()).map(|i| lines.count(i) as u64).collect()
        };
        let (users_count, items_count): (Vec<u64>, Vec<u64>) =
            (count(all.rows), count(all.columns));
        let residual = matrix.fitted.rmse(all, self.threads);
        let biased = matrix.fitted.biases.is_some();
        let biases = RatingBiases {
            bias: matrix.fitted.biases.clone(),
            control: control.biases.expect("asked for biases"),
            folds: fold_in::folds(&form, [&users_count, &items_count], biased, residual),
            count: [users_count, items_count],
        };
        let form = online::form_for(online::rule_of(matrix.learner), form)?;
        let card = CompletionCard {
            solver: matrix.solver.name().into(),
            regularization: matrix.regularization,
            penalty_power: (matrix.learner == CompletionLearner::Als).then_some(self.power),
            mean: matrix.fitted.centre,
            control_mean: control.centre,
            scale: self.scale(entries),
            residual,
            noise: matrix.noise,
        };
        let mut model =
            Model::completion(matrix.learner.name(), form, ids, Rated { card, biases })?;
        model.card.seed = self.seed;
        model.card.step_size = matrix.step_size.unwrap_or(0.0);
        model.card.step_limit = matrix.step_size.map(|_| crate::online::Step::LIMIT);
        let polar = matrix.learner == CompletionLearner::Polar;
        model.card.retraction = polar.then_some(self.retraction);
        model.card.counters.steps = matrix.iterations as u64;
        model.card.counters.updates = matrix.iterations as u64;
        Ok((model, lost_rank))
    }

    fn scale(&self, entries: &Observed) -> Option<(f64, f64)> {
        match self.clip {
            Clip::None => None,
            Clip::To(low, high) => Some((low, high)),
            Clip::Auto => {
                let rows = entries.part(Part::All).rows;
                let values = (0..rows.len()).flat_map(|i| rows.line(i).1);
                let start = (f64::INFINITY, f64::NEG_INFINITY);
                Some(values.fold(start, |(low, high), &v| (low.min(v), high.max(v))))
            }
        }
    }
}

/// Ratings of users and items that are known, numbered alike.
fn known_part(valid: &Ratings, users: &crate::Ids, items: &crate::Ids) -> Result<Observed> {
    let rows = valid.entries.part(Part::All).rows;
    let column: Vec<Option<u32>> = valid.items.iter().map(|item| items.find(item)).collect();
    let mut entries = Vec::new();
    for (i, user) in valid.users.iter().enumerate() {
        let Some(user) = users.find(user) else {
            continue;
        };
        let (index, value) = rows.line(i);
        for (&j, &y) in index.iter().zip(value) {
            if let Some(item) = column[j as usize] {
                entries.push((user, item, y));
            }
        }
    }
    Ok(Observed::new((users.len(), items.len()), entries)?.0)
}

/// A fit with all choices that come before it.
struct Run<'a, 'w> {
    options: &'a Completion,
    entries: &'a mut Observed,
    valid: Option<&'a Observed>,
    scale: Option<(f64, f64)>,
    watch: &'w mut dyn FnMut(CompletionEvent<'_>) -> bool,
    trials: Vec<Trial>,
}

/// The step of models that were learned in batch, when they go on online.
const PACE: f64 = 0.03;

/// Noise below this share of the spread of entries: they are those of a matrix of
/// low rank, more or less exactly.
const NEARLY_EXACT: f64 = 0.1;

impl Run<'_, '_> {
    fn learn(&mut self) -> Result<Option<(Method, Fit)>> {
        match self.options.learner {
            CompletionLearner::Auto => self.learn_strongest(),
            learner => self.learn_by(self.options.method(learner)),
        }
    }

    /// Bayes, unless the entries turn out to be nearly exact.
    fn learn_strongest(&mut self) -> Result<Option<(Method, Fit)>> {
        let method = self.options.method(CompletionLearner::Bayes);
        let Some(found) = self.learn_by(method)? else {
            return Ok(None);
        };
        let all = self.entries.part(Part::All);
        let spread = all.mean_square(all.mean()).sqrt();
        let noise = found.1.noise.unwrap_or(f64::INFINITY);
        if noise > NEARLY_EXACT * spread {
            (self.watch)(CompletionEvent::Chosen(
                CompletionLearner::Bayes,
                "the entries are noisy",
            ));
            return Ok(Some(found));
        }
        // The same rank without biases must explain new entries better.
        let exact = Method {
            start: self.options.start.unwrap_or(CompletionStart::Continuation),
            biases: false,
            tolerance: self.options.tolerance.unwrap_or(1e-14),
            ..self.options.method(CompletionLearner::Grassmann)
        };
        let rank = found.1.fitted.rank();
        self.hold_out();
        let mut errors = Vec::new();
        for method in [method, exact] {
            let Some(tried) = self.judge(|judge| judge.try_once(&method, rank, None))? else {
                return Ok(None);
            };
            errors.push(tried.trial.rmse);
        }
        if errors[1] < errors[0] {
            (self.watch)(CompletionEvent::Chosen(
                CompletionLearner::Grassmann,
                "the entries are nearly those of a matrix of this rank",
            ));
            return self.last_fit(exact, rank, None);
        }
        (self.watch)(CompletionEvent::Chosen(
            CompletionLearner::Bayes,
            "it predicts entries that were held out best",
        ));
        Ok(Some(found))
    }

    fn learn_by(&mut self, method: Method) -> Result<Option<(Method, Fit)>> {
        let options = self.options;
        let ranks = options.ranks;
        let online = method.solver == CompletionSolver::Online;
        let choose_penalty = match online {
            true => options.step_size.is_none(),
            false => method.learner.has_penalty() && options.regularization.is_none(),
        };
        let asked = self.valid.is_some() || options.valid_fraction.is_some();
        if !(choose_penalty || ranks.0 < ranks.1 || asked) {
            return self.last_fit(method, ranks.0, None);
        }
        self.hold_out();
        let given = options.regularization;
        let Some(tried) = self.judge(|judge| judge.choose(&method, given, ranks))? else {
            return Ok(None);
        };
        let method = Method {
            lambda: tried.trial.regularization,
            pace: tried.trial.step_size.unwrap_or(method.pace),
            ..method
        };
        if self.valid.is_some() {
            // It was learned from all entries already.
            let fit = Fit {
                iterations: tried.trial.iterations,
                ended: Ended::Converged,
                fitted: tried.best,
                noise: tried.noise,
            };
            return Ok(Some((method, fit)));
        }
        self.last_fit(method, tried.trial.rank, Some(tried.trial.iterations))
    }

    /// Holds out a part of the entries, where there are no others to judge by.
    fn hold_out(&mut self) {
        if self.valid.is_none() {
            let share = self.options.valid_fraction.unwrap_or(0.1);
            let below = (share * u64::MAX as f64) as u64;
            let seed = self.options.seed;
            self.entries
                .hold_out(|entry| split_key(seed, entry as u64) < below);
        }
    }

    fn judge<T>(
        &mut self,
        work: impl FnOnce(&mut Judge<'_>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let (part, valid) = match self.valid {
            Some(valid) => (Part::All, valid.part(Part::All)),
            None => (Part::Kept, self.entries.part(Part::Held)),
        };
        let (watch, trials) = (&mut self.watch, &mut self.trials);
        let mut iteration = 0;
        let mut go_on = |seen: Seen<'_>| {
            iteration += 1;
            match seen {
                Seen::Iteration(model) => watch(CompletionEvent::Iteration(iteration, model)),
                Seen::Trial(trial) => {
                    trials.push(*trial);
                    iteration = 0;
                    watch(CompletionEvent::Tried(trial))
                }
            }
        };
        work(&mut Judge {
            observed: self.entries,
            part,
            valid,
            scale: self.scale,
            choose_steps: self.options.step_size.is_none(),
            go_on: &mut go_on,
        })
    }

    /// Learns from all entries, for so many iterations where that was chosen.
    fn last_fit(
        &mut self,
        method: Method,
        rank: usize,
        iterations: Option<usize>,
    ) -> Result<Option<(Method, Fit)>> {
        let mut stopped = false;
        let watch = &mut self.watch;
        let fit = method.fit(self.entries, Part::All, rank, None, &mut |n, model| {
            if !watch(CompletionEvent::Iteration(n, model)) {
                stopped = true;
                return false;
            }
            iterations.is_none_or(|most| n < most)
        })?;
        let fit = Fit {
            ended: match (stopped, fit.ended) {
                (false, Ended::Told) => Ended::Converged,
                (_, ended) => ended,
            },
            ..fit
        };
        Ok(Some((method, fit)))
    }
}

/// W in the balanced gauge, with the rank that it has; and the rank of its factors
/// where that is more.
fn stored<R: Real>(fitted: &Fitted) -> Result<(Factored<R>, Option<usize>)> {
    if !fitted.is_finite() {
        return Err(Error::failure(
            "the fit ended with numbers that are not finite: more regularization may help",
        ));
    }
    let rank = fitted.rank();
    let lost = || Error::failure("the factors have no singular value decomposition");
    let (p, sigma, q) = svd_of_product(&fitted.left, &fitted.right, rank).ok_or_else(lost)?;
    let least = sigma.first().copied().unwrap_or(0.0) * 8.0 * R::EPSILON;
    let kept = sigma.iter().filter(|&&s| s > least).count();
    let (n, m) = (fitted.left.nrows(), fitted.right.nrows());
    if kept == 0 {
        // A matrix of rank one that is zero for all purposes.
        let tiny = |_: usize, _: usize| 1e-8;
        let form = Factored::new(Tall::from_fn(n, 1, tiny)?, Tall::from_fn(m, 1, tiny)?);
        return Ok((form, (rank > 1).then_some(rank)));
    }
    let left = Tall::from_fn(n, kept, |i, j| p[(i, j)] * sigma[j].sqrt())?;
    let right = Tall::from_fn(m, kept, |i, j| q[(i, j)] * sigma[j].sqrt())?;
    let form = Factored::new(left, right);
    Ok((form, (kept < rank).then_some(rank)))
}
