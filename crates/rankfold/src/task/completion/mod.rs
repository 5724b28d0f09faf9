//! Completion: ratings, and matrices with holes.
//!
//! Known entries are explained by a center, a bias for each row and column, and a
//! matrix of rank k. Entries may be ratings of items by users; nothing here
//! depends on it.

mod choose;
mod evaluation;
mod fit;
mod learner;
mod online;
mod recommend;
mod start;

pub use choose::Trial as RatingTrial;
pub use learner::{CompletionInit, CompletionLearner, CompletionSolver};
pub use online::RatingLearner;
pub use recommend::Recommendations;

use super::course::Course;
use super::driver::Driver;
use super::hold_out::{hold_out, hold_out_some};
use super::inputs::Fingerprint;
use super::run::{Fit, Run};
use super::{Learn, check_validation, threads};
use crate::batch::{Ended, Fitted, Observed, Part, SolverState, Sureness};
use crate::data::Ratings;
use crate::form::{Factored, Tall};
use crate::linalg::Retraction;
use crate::manifold::svd_of_product;
use crate::model::{CompletionCard, HistoryPoint, Model, Rated, RatingBiases};
use crate::online::folds;
use crate::options::{Kind, OptionValue, Options};
use crate::{Error, Ids, Real, Result, options};
use choose::{Judge, Seen, Trial};
use fit::{Fit as Fitting, STAGES, biases_only};
use learner::Method;
use serde::{Deserialize, Serialize};
use start::Given;
use std::borrow::Cow;

/// The range to which predictions are clipped.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clip {
    /// That of the entries which are learned from.
    #[default]
    Auto,
    /// None.
    None,
    /// This one.
    To(f64, f64),
}

impl OptionValue for Clip {
    type Argument = Clip;
    const KIND: Kind = Kind::Text("LOW,HIGH, auto or none");
    fn from_argument(argument: Clip) -> Self {
        argument
    }
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let range = || {
            let (low, high) = text.split_once(',')?;
            let (low, high): (f64, f64) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            let finite = low.is_finite() && high.is_finite();
            (finite && low < high).then_some(Clip::To(low, high))
        };
        match text {
            "auto" => Ok(Clip::Auto),
            "none" => Ok(Clip::None),
            _ => range().ok_or_else(|| "`auto`, `none` or a rising range `LOW,HIGH`".into()),
        }
    }
    fn show(&self) -> Option<String> {
        Some(match self {
            Clip::Auto => "auto".into(),
            Clip::None => "none".into(),
            Clip::To(low, high) => format!("{low},{high}"),
        })
    }
}

/// One rank, a range of ranks to choose from, or that of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ranks {
    /// As many factors as explain something.
    Auto,
    /// From one to another, which may be the same.
    Between(usize, usize),
}

impl OptionValue for Ranks {
    type Argument = usize;
    const KIND: Kind = Kind::Text("K, FIRST..LAST or auto");
    fn from_argument(rank: usize) -> Self {
        Ranks::Between(rank, rank)
    }
    fn parse(text: &str) -> std::result::Result<Self, String> {
        if text == "auto" {
            return Ok(Ranks::Auto);
        }
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let ranks = first.trim().parse().ok().zip(last.trim().parse().ok());
        let ranks = ranks.filter(|(first, last)| (1..=*last).contains(first));
        ranks
            .map(|(first, last)| Ranks::Between(first, last))
            .ok_or_else(|| "`auto`, a rank of at least 1, or a rising range `FIRST..LAST`".into())
    }
    fn show(&self) -> Option<String> {
        Some(match self {
            Ranks::Auto => "auto".into(),
            Ranks::Between(first, last) if first == last => first.to_string(),
            Ranks::Between(first, last) => format!("{first}..{last}"),
        })
    }
    fn number(&self) -> Option<f64> {
        match self {
            Ranks::Auto => None,
            Ranks::Between(first, _) => Some(*first as f64),
        }
    }
}

/// The share of entries on which choices are made, where nothing else was asked for.
const TENTH: f64 = 0.1;

/// The rank of learners that cannot choose it.
const RANK: usize = 10;

/// The rank from which factors are dropped that explain nothing. On held-out ratings of
/// MovieLens 1M, 40 is better by .0007 and takes nearly twice as long.
const MOST_FACTORS: usize = 30;

options! {
    /// Completion of a matrix: options with their defaults, then [`Completion::fit`].
    ///
    /// ```
    /// use rankfold::Completion;
    /// use rankfold::data::Ratings;
    ///
    /// let ratings = (0..60).map(|i| (i % 6, i / 6, f64::from((i % 6) * (i / 6) % 5)));
    /// let ratings = Ratings::from_entries(ratings)?;
    /// let model = Completion::default().rank(2).fit::<f32>(ratings)?;
    /// assert!(model.rating_predictor()?.rating(Some(1), Some(3)).is_finite());
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub struct Completion: "completion" {
        /// Learning algorithm.
        learner: CompletionLearner = CompletionLearner::Auto;
        /// How the learner solves [default: trust-region for `grassmann`, cg for other
        /// geometries].
        solver: Option<CompletionSolver> = None,
            among ["online", "descent", "cg", "trust-region"];
        /// Rank of W. A range such as 2..12 is raised while the error on held-out entries
        /// falls. `auto` is chosen from the data by `bayes`, and at most 10 for others.
        rank: Ranks = Ranks::Auto, in Range::COUNT;
        /// Penalty λ [default: chosen on held-out entries]. For `grassmann` at most 1.
        regularization: Option<f64> = None, in Range::NOT_NEGATIVE,
            for "learners with a penalty: not `auto`, `bayes`, `svp`, `optspace` and `loreta`"
            if |o| o.learner.has_penalty();
        /// p of the penalty λ nᵖ of a row of n entries.
        penalty_power: f64 = 0.5, in Range::UNIT,
            for "`--learner als`" if |o| o.learner == CompletionLearner::Als;
        /// Learn no biases of rows and columns.
        no_bias: bool = false;
        /// Ignore which items a user rated; use only the ratings.
        no_implicit: bool = false,
            for "`auto` and `bayes`" if |o| o.learner.is_bayes();
        /// Iterations at most, or passes of online solvers.
        iterations: Option<usize> = None, in Range::COUNT, effect Length;
        /// Stop when an iteration lowers the cost by at most this share.
        tolerance: Option<f64> = None, in Range::NOT_NEGATIVE,
            for "batch solvers" if |o| !o.is_online();
        /// s₀ of descent: the first step tried is s₀/‖gradient‖, halved until the cost falls enough
        /// [default: the minimum of the local model].
        first_step: Option<f64> = None, in Range::POSITIVE,
            for "`--solver descent`" if |o| o.solver == Some(CompletionSolver::Descent);
        /// The step of online solvers, as the share of a residual that a step takes away at a
        /// typical place [default: chosen on held-out entries].
        step_size: Option<f64> = None, in Range::POSITIVE,
            for "`--solver online`" if Completion::is_online;
        /// Where a factorization starts [default: spectral].
        init: Option<CompletionInit> = None,
            for "learners other than `bayes`" if |o| o.learner != CompletionLearner::Bayes;
        /// How the factors of `polar` return to orthonormal columns.
        retraction: Retraction = Retraction::Uf,
            for "`--learner polar`" if |o| o.learner == CompletionLearner::Polar;
        /// The range to which predictions are clipped: that of the ratings, none, or a given
        /// one.
        clip: Clip = Clip::Auto;
        shared valid_fraction;
        shared seed;
        shared threads;
        shared curve_every;
    }
}

/// What happens on the way.
#[derive(Clone, Copy)]
pub enum CompletionEvent<'a> {
    /// An iteration of a fit was done.
    Iteration {
        /// Its number, from 1.
        number: usize,
        /// The cost after it; not a number where it was not computed.
        cost: f64,
        /// Whether it belongs to the last fit, and not to a trial.
        last: bool,
        /// The model after it.
        model: &'a dyn Fn() -> Fitted,
        /// From which the last fit can go on.
        state: Option<&'a dyn Fn() -> SolverState>,
    },
    /// What comes now is the last fit of this setting.
    Decided(&'a Decided),
    /// A penalty or a rank was tried on validation entries.
    Tried(&'a Trial),
    /// The learner that was chosen, and why.
    Chosen(CompletionLearner, &'a str),
}

/// What was decided before the last fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// The learner.
    learner: CompletionLearner,
    /// The setting that did best on held-out entries, where some were tried.
    chosen: Option<Trial>,
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
    /// How sure it is of entries that are not known, where the learner finds that.
    pub sureness: Option<Sureness>,
    /// The step of the online rule of the geometry, where it has one.
    pub step_size: Option<f64>,
}

impl Completion {
    /// Completion by a learner.
    pub fn new(learner: CompletionLearner) -> Self {
        Self::default().learner(learner)
    }

    /// A range of ranks: raised from the first while the error on validation entries
    /// falls, to the last at most.
    pub fn ranks(mut self, first: usize, last: usize) -> Self {
        self.rank = Ranks::Between(first, last);
        self
    }

    fn is_online(&self) -> bool {
        self.solver.unwrap_or(self.learner.usual_solver()) == CompletionSolver::Online
    }

    fn thread_count(&self) -> usize {
        threads(self.threads)
    }

    fn is_from_model(&self) -> bool {
        self.init == Some(CompletionInit::Model)
    }

    /// Checks the options.
    pub fn check(&self) -> Result<()> {
        self.check_table()?;
        if let Ranks::Between(first, last) = self.rank
            && last < first
        {
            return Err(Error::option(
                "rank",
                format!("must rise, found {first}..{last}"),
            ));
        }
        if self.is_from_model() && self.learner.is_bayes() {
            return Err(Error::option(
                "init",
                format!(
                    "cannot be a model for `{}`, which has no start: choose another learner, such as `als`",
                    self.learner
                ),
            ));
        }
        if self.is_from_model()
            && let Ranks::Between(first, last) = self.rank
            && first < last
        {
            return Err(Error::option(
                "rank",
                format!("must be one rank with a start from a model, found {first}..{last}"),
            ));
        }
        if self.learner == CompletionLearner::Grassmann
            && let Some(lambda) = self.regularization.filter(|lambda| *lambda > 1.0)
        {
            return Err(Error::option(
                "regularization",
                format!("must be at most 1 for `grassmann`, found {lambda}"),
            ));
        }
        if let Clip::To(low, high) = self.clip
            && !(low < high)
        {
            return Err(Error::option(
                "clip",
                format!("must rise, found {low} to {high}"),
            ));
        }
        self.solver
            .map_or(Ok(()), |solver| solver.check(self.learner))
    }

    /// The ranks to choose from.
    fn ranks_for(&self, (n, m): (usize, usize)) -> Result<(usize, usize)> {
        let most = n.min(m);
        match self.rank {
            Ranks::Between(_, last) if last > most => Err(Error::option(
                "rank",
                format!("is {last}, above the {most} that a matrix of {n} by {m} has"),
            )),
            Ranks::Between(first, last) => Ok((first, last)),
            Ranks::Auto => {
                let usual = match self.learner.is_bayes() {
                    true => MOST_FACTORS,
                    false => RANK,
                };
                let rank = usual.min(most).max(1);
                Ok((rank, rank))
            }
        }
    }

    fn method(&self, learner: CompletionLearner) -> Method {
        let solver = self.solver.unwrap_or(learner.usual_solver());
        let (iterations, tolerance) = match (learner, solver) {
            (CompletionLearner::Bayes, _) => (20, 1e-5),
            (CompletionLearner::Als, _) => (30, 1e-5),
            (_, CompletionSolver::Online) => (20, 0.0),
            (_, CompletionSolver::TrustRegion) => (100, 1e-7),
            _ => (300, 1e-6),
        };
        Method {
            learner,
            solver,
            start: self.init.unwrap_or_default(),
            retraction: self.retraction,
            lambda: self.regularization.unwrap_or(0.0),
            power: self.penalty_power,
            biases: !self.no_bias,
            implicit: !self.no_implicit,
            prune: self.rank == Ranks::Auto,
            iterations: self.iterations.unwrap_or(iterations),
            tolerance: self.tolerance.unwrap_or(tolerance),
            first_step: self.first_step,
            pace: self.step_size.unwrap_or(PACE),
            seed: self.seed,
            threads: self.thread_count(),
        }
    }

    /// Fills the holes of a matrix. Choices are made on validation entries where there
    /// are some. Without them a tenth of the entries is held out for the choice, and
    /// learned from afterwards.
    /// `watch` says whether to go on; without a model yet there is none then.
    pub fn complete(
        &self,
        entries: &mut Observed,
        valid: Option<&Observed>,
        watch: &mut dyn FnMut(CompletionEvent<'_>) -> bool,
    ) -> Result<Option<CompletedMatrix>> {
        check_validation(valid.is_some(), self.valid_fraction)?;
        if self.is_from_model() {
            let message = "cannot be a model for a matrix without names: use `fit_with`";
            return Err(Error::option("init", message));
        }
        if self.valid_fraction == 0.0 {
            return self.complete_from(entries, valid, None, None, watch);
        }
        let (mut kept, held) = self.split(entries)?;
        self.complete_from(&mut kept, Some(&held), None, None, watch)
    }

    /// The entries without the share that is held out for validation, and that share.
    fn split(&self, entries: &Observed) -> Result<(Observed, Observed)> {
        let (count, fraction) = (entries.count(), self.valid_fraction);
        let (_, held) = hold_out_some("entries", count, None, fraction, self.seed)?;
        let mut is_held = vec![false; count];
        held.iter()
            .for_each(|&entry| is_held[entry as usize] = true);
        let mut sides = [Vec::new(), Vec::new()];
        let rows = entries.part(Part::All).rows;
        let mut number = 0;
        for i in 0..rows.len() {
            let (index, value) = rows.line(i);
            for (&j, &y) in index.iter().zip(value) {
                sides[usize::from(is_held[number])].push((i as u32, j, y));
                number += 1;
            }
        }
        let [kept, held] = sides;
        let shape = entries.shape();
        let side = |entries| -> Result<Observed> { Ok(Observed::new(shape, entries)?.0) };
        Ok((side(kept)?, side(held)?))
    }

    /// The same, from the state of its last fit.
    fn complete_from(
        &self,
        entries: &mut Observed,
        valid: Option<&Observed>,
        start: Option<&Given>,
        resumed: Option<(Decided, SolverState)>,
        watch: &mut dyn FnMut(CompletionEvent<'_>) -> bool,
    ) -> Result<Option<CompletedMatrix>> {
        self.check()?;
        let ranks = match start {
            Some(start) => (start.rank, start.rank),
            None => self.ranks_for(entries.shape())?,
        };
        let scale = self.scale(entries);
        let mut run = Work {
            options: self,
            ranks,
            entries,
            valid,
            scale,
            start: start.map(|start| &start.fitted),
            resumed,
            watch,
            trials: Vec::new(),
            shown: true,
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
            sureness: fit.sureness,
        }))
    }

    /// Learns from ratings.
    pub fn fit<R: Real>(&self, ratings: Ratings) -> Result<Model> {
        let data = RatingData {
            ratings: Cow::Owned(ratings),
            valid: None,
        };
        Ok(self.fit_with::<R>(data, Run::default())?.model)
    }

    /// The same with validation ratings, an observer and checkpoints.
    pub fn fit_with<R: Real>(&self, data: RatingData<'_>, run: Run<'_>) -> Result<Fit> {
        self.check()?;
        check_validation(data.valid.is_some(), self.valid_fraction)?;
        let Ratings {
            users,
            items,
            mut entries,
            repeated,
            columns,
        } = data.ratings.into_owned();
        let fingerprint = fingerprint((&users, &items), &entries);
        let mut held = None;
        if self.valid_fraction > 0.0 {
            let (kept, rest) = self.split(&entries)?;
            entries = kept;
            held = Some(Ratings {
                users: users.clone(),
                items: items.clone(),
                entries: rest,
                repeated: 0,
                columns: None,
            });
        }
        let valid = data.valid.or(held.as_ref());
        let known = valid.map(|valid| known_part(valid, &users, &items));
        let known = known.transpose()?;
        let total = self.method(self.learner).iterations as u64;
        let course = Course::new(total, Some(self.curve_every.unwrap_or(1)));
        let mut driver: Driver<'_, ()> = Driver::new(run, course, self, fingerprint)?;
        let resumed = match driver.resume(self)? {
            None => None,
            Some(resumed) => Some((resumed.stage()?, resumed.solver)),
        };
        let start = driver.started::<Completion>(self.is_from_model(), |start| {
            self.started_from(start, (&users, &items), &entries)
        })?;
        let start = start
            .map(|blocks| Given::new(blocks, &entries))
            .transpose()?;
        let mut failed = None;
        let mut watch = |event: CompletionEvent<'_>| match event {
            CompletionEvent::Iteration {
                cost,
                last: true,
                state,
                ..
            } => driver.iteration(cost, || None, || (), state),
            CompletionEvent::Decided(decided) => {
                failed = driver.decided(decided).err();
                failed.is_none()
            }
            CompletionEvent::Iteration { .. } => driver.goes_on(),
            CompletionEvent::Tried(trial) => driver.tried(trial.into()),
            CompletionEvent::Chosen(learner, why) => {
                driver.run.note(format!("learner `{learner}`: {why}"));
                true
            }
        };
        let (known, start) = (known.as_ref(), start.as_ref());
        let matrix = self.complete_from(&mut entries, known, start, resumed, &mut watch)?;
        if let Some(error) = failed {
            return Err(error);
        }
        let Some(matrix) = matrix else {
            return Err(driver.run.no_model());
        };
        let mut report = driver
            .finish(matrix.ended)?
            .with("solver", matrix.solver.name())
            .with("regularization", matrix.regularization)
            .with("noise", matrix.noise)
            .with("users", users.len())
            .with("items", items.len())
            .with("ratings", entries.count())
            .with("repeated", repeated);
        report.counters.steps = matrix.iterations as u64;
        report.counters.updates = matrix.iterations as u64;
        let (mut model, lost_rank) = self.model_of::<R>(&matrix, (users, items), &entries)?;
        if let Some(init @ CompletionInit::Model) = self.init {
            model.card.init = init.name().into();
        }
        if let crate::model::Knowledge::Completion(rated) = &mut model.knowledge {
            rated.card.columns = columns;
        }
        report.metrics = match valid {
            Some(valid) => {
                let found = model.evaluate_ratings(valid)?;
                report.baseline = found.baseline().cloned();
                found.metrics
            }
            None => {
                let rmse = report.trials.iter().filter_map(|trial| trial.value);
                let best = rmse.min_by(f64::total_cmp);
                best.map(|rmse| ("rmse".to_owned(), rmse))
                    .into_iter()
                    .collect()
            }
        };
        if !report.metrics.is_empty() {
            model.card.history.push(HistoryPoint {
                counters: model.card.counters,
                loss: 0.0,
                metrics: report.metrics.clone(),
            });
        }
        if repeated > 0 {
            report.notes.push(format!(
                "{repeated} ratings were replaced by later ones of the same user and item"
            ));
        }
        if self.rank == Ranks::Auto && matrix.learner == CompletionLearner::Bayes {
            report.notes.push(match matrix.fitted.rank() {
                0 => "rank 1, and W is zero: biases alone predict held-out ratings as well".into(),
                rank => format!("rank {rank}: as many factors as explain something"),
            });
        } else if let Some(asked) = lost_rank {
            report.notes.push(format!(
                "the ratings hold a matrix of rank {} only, not {asked}",
                model.rank()
            ));
        }
        Ok(Fit { model, report })
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
        let baseline = biases_only(all, true, self.thread_count());
        let count = |lines: crate::batch::Lines<'_>| {
            (0..lines.len()).map(|i| lines.count(i) as u64).collect()
        };
        let (users_count, items_count): (Vec<u64>, Vec<u64>) =
            (count(all.rows), count(all.columns));
        let residual = matrix.fitted.rmse(all, self.thread_count());
        let biased = matrix.fitted.biases.is_some();
        let biases = RatingBiases {
            bias: matrix.fitted.biases.clone(),
            baseline: baseline.biases.expect("asked for biases"),
            folds: folds(&form, [&users_count, &items_count], biased, residual),
            count: [users_count, items_count],
            variances: matrix.sureness.as_ref().map(|s| s.sides.clone()),
        };
        let form = online::form_for(online::rule_of(matrix.learner), form)?;
        let card = CompletionCard {
            solver: matrix.solver.name().into(),
            regularization: matrix.regularization,
            penalty_power: (matrix.learner == CompletionLearner::Als).then_some(self.penalty_power),
            mean: matrix.fitted.center,
            baseline_mean: baseline.center,
            scale: self.scale(entries),
            residual,
            noise: matrix.noise,
            columns: None,
        };
        let mut model =
            Model::completion(matrix.learner.name(), form, ids, Rated { card, biases })?;
        model.card.seed = self.seed;
        model.card.variance_scale = matrix.sureness.as_ref().map(|s| s.scale);
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

/// What ratings are learned from.
#[derive(Debug, Clone)]
pub struct RatingData<'a> {
    /// Ratings; owned ones are used without a copy.
    pub ratings: Cow<'a, Ratings>,
    /// Ratings to validate by.
    pub valid: Option<&'a Ratings>,
}

impl<'a> From<&'a Ratings> for RatingData<'a> {
    fn from(ratings: &'a Ratings) -> Self {
        RatingData {
            ratings: Cow::Borrowed(ratings),
            valid: None,
        }
    }
}

impl<'a> Learn<RatingData<'a>> for Completion {
    fn learn(&self, data: RatingData<'a>, run: Run<'_>) -> Result<Fit> {
        self.fit_with::<f32>(data, run)
    }
}

impl From<&Trial> for super::Trial {
    fn from(trial: &Trial) -> Self {
        let mut out = super::Trial::of("rank", trial.rank, "rmse", trial.rmse);
        match trial.step_size {
            Some(size) => out.settings.insert("step_size".into(), size.into()),
            None => out
                .settings
                .insert("regularization".into(), trial.regularization.into()),
        };
        out.steps = trial.iterations as u64;
        out
    }
}

/// Changes when the ratings do.
pub(super) fn fingerprint((users, items): (&Ids, &Ids), entries: &Observed) -> u64 {
    let mut hash = Fingerprint(0);
    hash.ids(users);
    hash.ids(items);
    let rows = entries.part(Part::All).rows;
    for i in 0..rows.len() {
        let (index, value) = rows.line(i);
        hash.numbers(index.iter().copied());
        value.iter().for_each(|y| hash.value(*y));
    }
    hash.0
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

/// The rank of a fit, in the state of its solver.
const RANK_OF_STATE: &str = "rank";

/// A fit with all choices that come before it.
struct Work<'a, 'w> {
    options: &'a Completion,
    ranks: (usize, usize),
    entries: &'a mut Observed,
    valid: Option<&'a Observed>,
    scale: Option<(f64, f64)>,
    /// What fits start from, where that is a model.
    start: Option<&'a Fitted>,
    /// Where a last fit that was interrupted stands.
    resumed: Option<(Decided, SolverState)>,
    watch: &'w mut dyn FnMut(CompletionEvent<'_>) -> bool,
    trials: Vec<Trial>,
    /// Whether trials are shown: those of folds are not, one by one.
    shown: bool,
}

/// The step of models that were learned in batch, when they go on online.
const PACE: f64 = 0.03;

/// So many entries are few: exact learners, and biases alone, are tried on them.
const FEW: usize = 5_000;

/// Entries that must be held out for a choice.
const LEAST_HELD: usize = 5;

/// Times that a part of few entries is held out to choose between factors and none.
const FOLDS: u64 = 5;

/// Noise below this share of the spread of entries: they are those of a matrix of
/// low rank, more or less exactly.
const NEARLY_EXACT: f64 = 0.1;

impl Work<'_, '_> {
    fn learn(&mut self) -> Result<Option<(Method, Fitting)>> {
        match self.options.learner {
            CompletionLearner::Auto => self.learn_strongest(),
            learner => self.learn_by(self.options.method(learner)),
        }
    }

    /// Bayes, unless the entries turn out to be nearly exact.
    fn learn_strongest(&mut self) -> Result<Option<(Method, Fitting)>> {
        let method = self.options.method(CompletionLearner::Bayes);
        let exact = Method {
            start: self.options.init.unwrap_or(CompletionInit::Continuation),
            biases: false,
            tolerance: self.options.tolerance.unwrap_or(1e-14),
            ..self.options.method(CompletionLearner::Grassmann)
        };
        if let Some((decided, state)) = &self.resumed
            && decided.learner == CompletionLearner::Grassmann
        {
            let rank = state.number(RANK_OF_STATE)? as usize;
            self.hold_out(0);
            return self.last_fit(exact, rank, None);
        }
        let Some(found) = self.learn_by(method)? else {
            return Ok(None);
        };
        let all = self.entries.part(Part::All);
        let spread = all.mean_square(all.mean()).sqrt();
        let noise = found.1.noise.unwrap_or(f64::INFINITY);
        let few = all.count <= FEW;
        let mut chosen = |learner, why| (self.watch)(CompletionEvent::Chosen(learner, why));
        if noise > NEARLY_EXACT * spread && !few {
            chosen(CompletionLearner::Bayes, "the entries are noisy");
            return Ok(Some(found));
        }
        // Without biases new entries must be explained better. Of few entries Bayes may
        // have taken all for noise, so that its rank says nothing.
        let rank = found.1.fitted.rank().max(1);
        let (shape, most) = (self.entries.shape(), self.ranks.1);
        let ranks = match (few, self.options.rank) {
            (true, Ranks::Auto) => (1, RANK.min(shape.0).min(shape.1).max(1)),
            (_, Ranks::Auto) => (rank, rank),
            (_, Ranks::Between(..)) => (rank.min(most), rank.min(most)),
        };
        self.hold_out(0);
        let held = self.entries.part(Part::Held).count;
        if self.valid.is_none() && held < LEAST_HELD {
            (self.watch)(CompletionEvent::Chosen(
                CompletionLearner::Bayes,
                "the entries are few",
            ));
            return Ok(Some(found));
        }
        let Some(usual) = self.judge(|judge| judge.try_once(&method, most, None))? else {
            return Ok(None);
        };
        let Some(tried) = self.judge(|judge| judge.choose(&exact, Some(0.0), ranks))? else {
            return Ok(None);
        };
        let nearly = tried.trial.rmse < NEARLY_EXACT * spread;
        if nearly && tried.trial.rmse < usual.trial.rmse {
            (self.watch)(CompletionEvent::Chosen(
                CompletionLearner::Grassmann,
                "the entries are nearly those of a matrix of this rank",
            ));
            return self.last_fit(exact, tried.trial.rank, None);
        }
        (self.watch)(CompletionEvent::Chosen(
            CompletionLearner::Bayes,
            match noise > NEARLY_EXACT * spread {
                true => "the entries are noisy",
                false => "it predicts entries that were held out best",
            },
        ));
        Ok(Some(found))
    }

    fn learn_by(&mut self, method: Method) -> Result<Option<(Method, Fitting)>> {
        let options = self.options;
        let ranks = self.ranks;
        let online = method.solver == CompletionSolver::Online;
        let penalty = method.learner.has_penalty() && options.regularization.is_none();
        let choose = match online {
            true => options.step_size.is_none() || penalty,
            false => penalty,
        };
        if !(choose || ranks.0 < ranks.1 || self.valid.is_some()) {
            let mut rank = ranks.0;
            if self.asks_for_factors(&method) {
                if self.resumed.is_some() {
                    // Entries are summed in the order in which the last fold left them.
                    self.hold_out(FOLDS - 1);
                } else {
                    match self.biases_are_better(&method, rank)? {
                        Some(true) => rank = 0,
                        Some(false) => {}
                        None => return Ok(None),
                    }
                }
            }
            return self.last_fit(method, rank, None);
        }
        self.hold_out(0);
        let given = options.regularization;
        let with = |trial: &Trial| Method {
            lambda: trial.regularization,
            pace: trial.step_size.unwrap_or(method.pace),
            ..method
        };
        if let Some((Decided { chosen, .. }, _)) = self.resumed {
            let trial = chosen.ok_or_else(|| Error::input("the checkpoint is damaged"))?;
            return self.last_fit(with(&trial), trial.rank, Some(trial));
        }
        let Some(tried) = self.judge(|judge| judge.choose(&method, given, ranks))? else {
            return Ok(None);
        };
        let method = with(&tried.trial);
        if self.valid.is_some() {
            // It was learned from all entries already.
            let fit = Fitting {
                iterations: tried.trial.iterations,
                ended: Ended::Converged,
                fitted: tried.best,
                noise: tried.noise,
                sureness: tried.sureness,
            };
            return Ok(Some((method, fit)));
        }
        self.last_fit(method, tried.trial.rank, Some(tried.trial))
    }

    /// Whether a fit has to find out if there are factors at all: where entries are few
    /// and the rank was not given.
    fn asks_for_factors(&self, method: &Method) -> bool {
        let bayes = method.learner == CompletionLearner::Bayes && method.biases;
        bayes && self.options.rank == Ranks::Auto && self.entries.count() <= FEW
    }

    /// Whether biases alone predict held-out entries better than factors do.
    fn biases_are_better(&mut self, method: &Method, rank: usize) -> Result<Option<bool>> {
        let mut squares = [0.0; 2];
        self.shown = false;
        for fold in 0..FOLDS {
            self.hold_out(fold);
            let held = self.entries.part(Part::Held).count;
            if self.valid.is_none() && held == 0 {
                // Nothing can be known of factors then.
                self.shown = true;
                return Ok(Some(true));
            }
            for (square, rank) in squares.iter_mut().zip([rank, 0]) {
                let Some(tried) = self.judge(|judge| judge.try_once(method, rank, None))? else {
                    return Ok(None);
                };
                *square += tried.trial.rmse.powi(2);
            }
        }
        self.shown = true;
        Ok(Some(squares[1] <= squares[0]))
    }

    /// Holds out a part of the entries, where there are no others to judge by; another
    /// one for each fold.
    fn hold_out(&mut self, fold: u64) {
        if self.valid.is_none() {
            let seed = self.options.seed.wrapping_add(fold);
            let (_, held) = hold_out(self.entries.count(), None, TENTH, seed);
            let mut is_held = vec![false; self.entries.count()];
            held.iter()
                .for_each(|&entry| is_held[entry as usize] = true);
            self.entries.hold_out(|entry| is_held[entry]);
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
        let (watch, trials, shown) = (&mut self.watch, &mut self.trials, self.shown);
        let mut iteration = 0;
        let mut go_on = |seen: Seen<'_>| {
            iteration += 1;
            match seen {
                Seen::Iteration(cost, model) => watch(CompletionEvent::Iteration {
                    number: iteration,
                    cost,
                    last: false,
                    model,
                    state: None,
                }),
                Seen::Trial(_) if !shown => true,
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
            start: self.start,
            choose_steps: self.options.step_size.is_none(),
            go_on: &mut go_on,
        })
    }

    /// Learns from all entries, for as many iterations as the chosen trial had.
    fn last_fit(
        &mut self,
        method: Method,
        rank: usize,
        chosen: Option<Trial>,
    ) -> Result<Option<(Method, Fitting)>> {
        let learner = method.learner;
        if !(self.watch)(CompletionEvent::Decided(&Decided { learner, chosen })) {
            return Ok(None);
        }
        let iterations = chosen.map(|trial| trial.iterations);
        let state = self.resumed.take().map(|(_, state)| state);
        let stages = |state: &SolverState| state.numbers.get(STAGES).map_or(0, |n| *n as usize);
        let done = state.as_ref().map_or(0, |s| s.iteration + stages(s));
        // A fit that was saved at its last iteration has none left.
        let left = match (&state, iterations) {
            (Some(state), Some(most)) if done >= most => state.iteration,
            _ => method.iterations,
        };
        let fitting = Method {
            iterations: left,
            ..method
        };
        let mut stopped = false;
        let watch = &mut self.watch;
        let (entries, state) = (&*self.entries, state.as_ref());
        let warm = self.start;
        let fit = fitting.fit(entries, Part::All, rank, warm, state, &mut |moment| {
            let state = moment.state;
            let state = state.map(|state| move || state().with_number(RANK_OF_STATE, rank as f64));
            let event = CompletionEvent::Iteration {
                number: moment.number,
                cost: moment.cost,
                last: true,
                model: moment.model,
                state: state
                    .as_ref()
                    .map(|state| state as &dyn Fn() -> SolverState),
            };
            if !watch(event) {
                stopped = true;
                return false;
            }
            iterations.is_none_or(|most| moment.number < most)
        })?;
        let fit = Fitting {
            ended: match (stopped, fit.ended) {
                (false, Ended::Interrupted) => Ended::Converged,
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
    if rank == 0 {
        return Ok((zero(fitted)?, None));
    }
    let lost = || Error::failure("the factors have no singular value decomposition");
    let (p, sigma, q) = svd_of_product(&fitted.left, &fitted.right, rank).ok_or_else(lost)?;
    let least = sigma.first().copied().unwrap_or(0.0) * 8.0 * R::EPSILON;
    let kept = sigma.iter().filter(|&&s| s > least).count();
    let (n, m) = (fitted.left.nrows(), fitted.right.nrows());
    if kept == 0 {
        return Ok((zero(fitted)?, (rank > 1).then_some(rank)));
    }
    let left = Tall::from_fn(n, kept, |i, j| p[(i, j)] * sigma[j].sqrt())?;
    let right = Tall::from_fn(m, kept, |i, j| q[(i, j)] * sigma[j].sqrt())?;
    let form = Factored::new(left, right);
    Ok((form, (kept < rank).then_some(rank)))
}

/// A matrix of rank one that is zero for all purposes.
fn zero<R: Real>(fitted: &Fitted) -> Result<Factored<R>> {
    let tall = |rows: usize| Tall::from_fn(rows, 1, |_, _| 1e-8);
    Ok(Factored::new(
        tall(fitted.left.nrows())?,
        tall(fitted.right.nrows())?,
    ))
}
