//! Many regression tasks on the same features: a subspace that they share, a common
//! part, and a small model for each task.

mod baselines;
mod evaluation;
mod fit;
mod frame;
mod mixed;
mod online;
mod sharded;
mod shares;
mod start;

pub use online::TaskLearner;
pub use sharded::TaskShard;
pub(crate) use shares::Shares;

use super::course::Course;
use super::driver::Driver;
use super::hold_out::{hold_out, hold_out_some};
use super::inputs::Fingerprint;
use super::run::{Fit, Run, Trial};
use super::start::StartInit;
use super::{Learn, check_validation, threads};
use crate::batch::{Ended, Solver, SolverState};
use crate::data::{FeatureMap, TaskColumns, TaskRows};
use crate::model::{
    Knowledge, Metrics, Model, Moments, MultitaskCard, Preprocess, Standardize, TaskFit, TaskSpace,
    principal,
};
use crate::options::Options;
use crate::{Error, Ids, Result, Rows, choices, options};
use evaluation::Judge;
use faer::Mat;
use fit::{Ground, Learned};
use frame::Frame;
use serde::{Deserialize, Serialize};
use start::Given;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// The share of the rows of each task on which choices are made, where nothing else was
/// asked for. These rows are learned from afterwards.
const VALID_FRACTION: f64 = 0.2;

/// The rank where nothing is chosen, and those that are chosen from, beside the largest
/// that is possible, up to a limit.
const RANK: usize = 3;
const RANKS: [usize; 3] = [1, 3, 9];
const LARGEST_RANK: usize = 30;

choices! {
    /// How a subspace is searched for.
    pub enum MultitaskSolver {
        /// Gauss–Newton steps in a trust region
        TrustRegion = "trust-region" (default),
        /// Preconditioned conjugate gradients
        Cg = "cg",
        /// Along the gradient, with steps found by halving
        Descent = "descent",
    }
}

impl MultitaskSolver {
    fn solver(self) -> Solver {
        match self {
            MultitaskSolver::TrustRegion => Solver::TrustRegion,
            MultitaskSolver::Cg => Solver::ConjugateGradient { precondition: true },
            MultitaskSolver::Descent => Solver::Descent(Default::default()),
        }
    }
}

choices! {
    /// How regressions that share a subspace are learned.
    pub enum MultitaskLearner {
        /// What does best on held-out rows
        Auto = "auto" (default),
        /// A subspace, with least squares for the weights of each task
        Grassmann = "grassmann",
        /// Weights around common ones, with a variance for each feature, by maximum likelihood
        Mixed = "mixed",
    }
}

options! {
    /// Learns regressions that share a subspace of their features.
    ///
    /// ```no_run
    /// use rankfold::data::{TaskColumns, TaskRows};
    /// let columns = TaskColumns { task: "school".into(), target: "score".into(), ..Default::default() };
    /// let pupils = TaskRows::read("pupils.csv", &columns)?;
    /// let model = rankfold::Multitask::default().rank(3).fit(&pupils)?;
    /// model.save("pupils.safetensors")?;
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub struct Multitask: "multitask" {
        /// Learning algorithm. `auto` is `grassmann` where an option of that is given.
        learner: MultitaskLearner = MultitaskLearner::Auto;
        /// How the subspace is searched for.
        solver: MultitaskSolver = MultitaskSolver::TrustRegion,
            for "`auto` and `grassmann`" if |o| o.may_have_subspace();
        /// Dimension of the subspace, at most the number of features and of tasks [default:
        /// chosen by validation with the regularization; 3 where that is given].
        rank: Option<usize> = None, in Range::COUNT,
            for "`auto` and `grassmann`" if |o| o.may_have_subspace();
        /// λ of λ/2 ‖w‖² for each task, beside half of its squared errors [default: chosen by
        /// validation].
        regularization: Option<f64> = None, in Range::NOT_NEGATIVE,
            for "`auto` and `grassmann`" if |o| o.may_have_subspace();
        /// How features and targets are scaled [default: global or task, chosen by validation].
        standardize: Option<Standardize> = None;
        /// Learn no biases: without features a target is 0.
        no_bias: bool = false,
            for "`auto` and `grassmann`" if |o| o.may_have_subspace();
        /// Learn no common weights: tasks share the subspace only.
        no_common: bool = false,
            for "`auto` and `grassmann`" if |o| o.may_have_subspace();
        /// μ of μ/2 ‖c‖², the ridge of the common weights.
        common_ridge: f64 = 1.0, in Range::NOT_NEGATIVE,
            for "`auto` and `grassmann` without `--no-common`"
            if |o| o.may_have_subspace() && !o.no_common;
        /// Iterations at most, for each ridge on the way down.
        iterations: usize = 200, in Range::COUNT,
            for "`auto` and `grassmann`" if |o| o.may_have_subspace(), effect Length;
        /// Stop when an iteration lowers the cost by at most this share.
        tolerance: f64 = 1e-10, in Range::NOT_NEGATIVE,
            for "`auto` and `grassmann`" if |o| o.may_have_subspace();
        /// Where the subspace starts: as the learner does by itself, or from a model.
        init: StartInit = StartInit::Own,
            for "`auto` and `grassmann`" if |o| o.may_have_subspace();
        shared valid_fraction;
        shared seed;
        shared threads;
        shared curve_every;
    }
}

impl Multitask {
    /// With everything at its default.
    pub fn new() -> Self {
        Self::default()
    }

    fn may_have_subspace(&self) -> bool {
        self.learner != MultitaskLearner::Mixed
    }

    /// Whether weights with a prior for each feature may be learned: where nothing is asked
    /// for that only a subspace has.
    fn may_be_mixed(&self, data: &TaskRows) -> bool {
        let usual = Multitask::default();
        let open = usual
            == Multitask {
                learner: usual.learner,
                standardize: usual.standardize,
                valid_fraction: usual.valid_fraction,
                seed: usual.seed,
                threads: usual.threads,
                curve_every: usual.curve_every,
                ..self.clone()
            };
        match self.learner {
            MultitaskLearner::Auto => {
                open && mixed::is_possible(data.names.len(), data.features.len())
            }
            MultitaskLearner::Grassmann => false,
            MultitaskLearner::Mixed => true,
        }
    }

    pub(super) fn thread_count(&self) -> usize {
        threads(self.threads)
    }

    fn common_ridge_or_none(&self) -> Option<f64> {
        (!self.no_common).then_some(self.common_ridge)
    }

    /// Whether the options make sense, before any data is read.
    pub fn check(&self) -> Result<()> {
        self.check_table()
    }

    /// The ranks that are tried on these data: the one given, or some that reach from one
    /// shared direction to tasks of their own.
    fn ranks(&self, data: &TaskRows) -> Vec<usize> {
        let most = data.features.len().min(data.names.len()).max(1);
        match (self.rank, self.regularization) {
            (Some(rank), _) => vec![rank],
            (None, Some(_)) => vec![RANK.min(most)],
            (None, None) => {
                let mut ranks = RANKS.map(|rank| rank.min(most)).to_vec();
                ranks.push(most.min(LARGEST_RANK));
                ranks.sort_unstable();
                ranks.dedup();
                ranks
            }
        }
    }

    fn check_data(&self, data: &TaskRows) -> Result<()> {
        self.check()?;
        let (features, tasks) = (data.features.len(), data.names.len());
        if !self.may_have_subspace() && !mixed::is_possible(tasks, features) {
            return Err(Error::input(format!(
                "`mixed` needs two tasks or more and not too many features, found {tasks} tasks \
                 and {features} features"
            )));
        }
        if let Some(rank) = self.rank
            && rank > features.min(tasks)
        {
            return Err(Error::option(
                "rank",
                format!(
                    "is {rank}, above the smaller of n_features = {features} and {tasks} tasks"
                ),
            ));
        }
        if self.regularization == Some(0.0) {
            let rank = self.ranks(data)[0];
            let needed = rank + usize::from(!self.no_bias);
            let mut rows = vec![0usize; tasks];
            data.task.iter().for_each(|&t| rows[t as usize] += 1);
            if let Some(t) = rows.iter().position(|&n| n < needed) {
                let (name, n) = (data.names.get(t as u32), rows[t]);
                let bias = if !self.no_bias { " and a bias" } else { "" };
                return Err(Error::input(format!(
                    "task `{name}` has {n} rows: without regularization, rank {rank}{bias} need \
                     at least {needed}"
                )));
            }
        }
        Ok(())
    }

    /// How features and targets are scaled: as was chosen, or given.
    fn scaling(&self, chosen: Option<&TaskTrial>) -> Standardize {
        let chosen = chosen.map(|trial| trial.standardize);
        chosen.or(self.standardize).unwrap_or_default()
    }

    /// Learns from rows of tasks.
    pub fn fit(&self, data: &TaskRows) -> Result<Model> {
        Ok(self.fit_with(data.into(), Run::default())?.model)
    }

    /// The same with validation rows, an observer and checkpoints.
    pub fn fit_with(&self, data: TaskData<'_>, run: Run<'_>) -> Result<Fit> {
        check_validation(data.valid.is_some(), self.valid_fraction)?;
        if self.valid_fraction == 0.0 {
            return self.learn_from(data, run);
        }
        let (rows, fraction) = (data.rows, self.valid_fraction);
        let (kept, held) =
            hold_out_some("rows", rows.len(), Some(&rows.task), fraction, self.seed)?;
        let data = TaskData {
            rows: &rows.select(&kept),
            valid: Some(&rows.select(&held)),
            ..data
        };
        self.learn_from(data, run)
    }

    fn learn_from(&self, data: TaskData<'_>, run: Run<'_>) -> Result<Fit> {
        let TaskData {
            rows: data,
            columns,
            valid,
        } = data;
        self.check_data(data)?;
        let total = self.iterations as u64;
        let course = Course::new(total, Some(self.curve_every.unwrap_or(1)));
        let mut driver: Driver<'_, ()> = Driver::new(run, course, self, fingerprint(data))?;
        let resumed = match driver.resume(self)? {
            None => None,
            Some(resumed) => Some((resumed.stage::<Option<TaskTrial>>()?, resumed.solver)),
        };
        let (decided, state) = resumed.unzip();
        let given = driver.started::<Multitask>(self.init == StartInit::Model, |start| {
            self.started_from(start, data)
        })?;
        let given = given.map(Given::new).transpose()?;
        let mut failed = None;
        let all: Vec<u32> = (0..data.len() as u32).collect();
        let mut choosing = true;
        let mut watch = |event: MultitaskEvent<'_>| match event {
            MultitaskEvent::Last(decided) => {
                choosing = false;
                failed = driver.decided(&decided).err();
                failed.is_none()
            }
            MultitaskEvent::Iteration { .. } if choosing => driver.goes_on(),
            MultitaskEvent::Iteration { cost, state, .. } => {
                driver.iteration(cost, || None, || (), Some(state))
            }
            MultitaskEvent::Tried(trial) => driver.tried(trial.into()),
        };
        let ranks = match (&given, self.may_have_subspace()) {
            (Some(given), _) => vec![given.rank],
            (None, true) => self.ranks(data),
            (None, false) => Vec::new(),
        };
        let open = self.standardize.is_none() && given.is_none();
        let may_be_mixed = self.may_be_mixed(data);
        let to_choose = ranks.len() + usize::from(may_be_mixed) > 1
            || ranks.len() == 1 && self.regularization.is_none()
            || open
            || valid.is_some();
        let chosen = match (to_choose, decided) {
            (false, _) => None,
            (true, Some(chosen)) => chosen,
            (true, None) => {
                let mut best: Option<TaskTrial> = None;
                let tried = ranks.iter().map(|&rank| Some(rank));
                for rank in tried.chain(may_be_mixed.then_some(None)) {
                    let options = Multitask {
                        rank,
                        standardize: self.standardize.or(given.as_ref().map(|g| g.standardize)),
                        ..self.clone()
                    };
                    let mut work = Work::new(&options, data, &mut watch).starting(given.as_ref());
                    let Some(found) = work.choose(valid, rank.is_none())? else {
                        return Err(driver.run.no_model());
                    };
                    // The best of many settings looks better than it is: a prior that has
                    // none to choose gives way only to what is clearly better.
                    let better = best.as_ref().is_none_or(|best| match found.mixed {
                        true => !best.clearly_beats(&found),
                        false => found.nmse < best.nmse,
                    });
                    if better {
                        best = Some(found);
                    }
                }
                best
            }
        };
        let mixed = match &chosen {
            Some(chosen) => chosen.mixed,
            None => !self.may_have_subspace(),
        };
        let rank = match &chosen {
            Some(chosen) => chosen.rank,
            None => ranks.first().copied().unwrap_or(data.features.len()),
        };
        let options = Multitask {
            rank: Some(rank),
            ..self.clone()
        };
        let mut work = Work::new(&options, data, &mut watch).starting(given.as_ref());
        let standardize = match &given {
            Some(given) => given.standardize,
            None => self.scaling(chosen.as_ref()),
        };
        let mut ground = Ground::new(&options, data, &all, standardize)?;
        ground.given = given.as_ref().map(Given::parts);
        (work.watch)(MultitaskEvent::Last(chosen.as_ref()));
        let learned = match mixed {
            true => mixed::learn(&ground.frame, self.thread_count()).ok_or_else(no_numbers)?,
            false => {
                let ridges = ground.ridges(self.regularization, chosen.as_ref());
                // From a model there is no way down: larger ridges would lead away from it.
                let first = match &given {
                    Some(_) => ridges.len().saturating_sub(1),
                    None => 0,
                };
                work.walk(&ground, &ridges[first..], state)?
            }
        };
        let tasks = 0..data.names.len();
        let mut found = work.finish(&ground, learned, tasks, columns, standardize, chosen)?;
        if mixed {
            found.now_mixed();
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let mut report = driver
            .finish(found.ended)?
            .with("tasks", data.names.len())
            .with("features", data.features.len())
            .with("rows", data.len())
            .with("cost", found.cost);
        report.counters = found.model.card.counters;
        report.metrics = found.metrics;
        let model = found.model;
        if let Some(valid) = valid.filter(|_| driver.run.compares) {
            let simple = model.evaluate_tasks(valid, None, self.thread_count())?;
            report.baseline = simple.baseline().cloned();
        }
        if let Ok((_, card)) = model.task_parts() {
            report = report
                .with("solver", card.solver.as_str())
                .with("regularization", card.prior.ridge)
                .with("bias_ridge", card.prior.bias_ridge)
                .with("standardize", card.standardize.name());
        }
        if let Some(asked) = found.lost_rank {
            report.notes.push(format!(
                "the tasks use a subspace of dimension {} only, not {asked}",
                model.rank()
            ));
        }
        if found.constant_tasks > 0 {
            report.notes.push(format!(
                "the targets of {} tasks are all the same: there is little to learn from them",
                found.constant_tasks
            ));
        }
        Ok(Fit { model, report })
    }
}

/// What regressions that share a subspace are learned from.
#[derive(Debug, Clone, Copy)]
pub struct TaskData<'a> {
    /// Rows of all tasks.
    pub rows: &'a TaskRows,
    /// The names of the columns, which the model keeps.
    pub columns: Option<&'a TaskColumns>,
    /// Rows to make choices by.
    pub valid: Option<&'a TaskRows>,
}

impl<'a> From<&'a TaskRows> for TaskData<'a> {
    fn from(rows: &'a TaskRows) -> Self {
        TaskData {
            rows,
            columns: None,
            valid: None,
        }
    }
}

impl<'a> Learn<TaskData<'a>> for Multitask {
    fn learn(&self, data: TaskData<'a>, run: Run<'_>) -> Result<Fit> {
        self.fit_with(data, run)
    }
}

impl From<&TaskTrial> for Trial {
    fn from(trial: &TaskTrial) -> Self {
        let lambda = trial.regularization;
        let mut out = Trial::of("regularization", lambda, "nmse", trial.nmse);
        let scaling = trial.standardize.name();
        out.settings.insert("standardize".into(), scaling.into());
        if trial.mixed {
            out.settings.insert("learner".into(), "mixed".into());
        } else {
            out.settings.insert("rank".into(), trial.rank.into());
        }
        out.steps = trial.iterations as u64;
        out
    }
}

/// Changes when the rows do.
pub(super) fn fingerprint(data: &TaskRows) -> u64 {
    let mut hash = Fingerprint(0);
    hash.ids(&data.names);
    hash.ids(&data.features);
    hash.rows(&data.rows);
    hash.numbers(data.task.iter().copied());
    data.targets.iter().for_each(|y| hash.value(*y));
    hash.0
}

/// What is told while learning.
pub(crate) enum MultitaskEvent<'a> {
    /// An iteration was done.
    Iteration {
        /// The cost after it.
        cost: f64,
        /// From which it can go on.
        state: &'a dyn Fn() -> SolverState,
    },
    /// A setting was tried.
    Tried(&'a TaskTrial),
    /// What comes now is the last fit, of the setting that was chosen.
    Last(Option<&'a TaskTrial>),
}

/// A setting that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskTrial {
    /// The dimension of the subspace.
    pub rank: usize,
    /// How features and targets were scaled.
    pub standardize: Standardize,
    /// The ridge.
    pub regularization: f64,
    /// What it reaches on validation rows.
    pub nmse: f64,
    /// Iterations until then.
    pub iterations: usize,
    /// Whether weights have a prior for each feature, and no subspace.
    #[serde(default)]
    mixed: bool,
    /// Which of the ridges it is.
    pub(super) place: usize,
    /// The same for each task that has one.
    of_tasks: Vec<Option<f64>>,
}

impl TaskTrial {
    /// Whether this setting is better than another one beyond chance: by twice the
    /// standard error of the differences over tasks.
    fn clearly_beats(&self, other: &TaskTrial) -> bool {
        let pairs = self.of_tasks.iter().zip(&other.of_tasks);
        let gains: Vec<f64> = pairs.filter_map(|(a, b)| Some((*b)? - (*a)?)).collect();
        let n = gains.len() as f64;
        let mean = gains.iter().sum::<f64>() / n;
        let squares: f64 = gains.iter().map(|g| (g - mean) * (g - mean)).sum();
        n > 1.0 && mean > 2.0 * (squares / (n - 1.0) / n).sqrt()
    }
}

/// A model that was learned.
#[derive(Debug)]
pub(crate) struct MultitaskFit {
    /// The model.
    pub model: Model,
    /// The cost that was reached.
    pub cost: f64,
    /// Why it ended.
    pub ended: Ended,
    /// Of the setting that was chosen, on validation rows.
    pub metrics: Metrics,
    /// The rank that was asked for, where the tasks use fewer directions.
    pub lost_rank: Option<usize>,
    /// Tasks whose targets are all the same.
    pub constant_tasks: usize,
}

struct Work<'a> {
    options: &'a Multitask,
    data: &'a TaskRows,
    given: Option<&'a Given>,
    watch: &'a mut dyn FnMut(MultitaskEvent<'_>) -> bool,
    trials: Vec<TaskTrial>,
}

impl<'a> Work<'a> {
    fn new(
        options: &'a Multitask,
        data: &'a TaskRows,
        watch: &'a mut dyn FnMut(MultitaskEvent<'_>) -> bool,
    ) -> Self {
        Work {
            options,
            data,
            given: None,
            watch,
            trials: Vec::new(),
        }
    }

    /// The same from a model.
    fn starting(self, given: Option<&'a Given>) -> Self {
        Work { given, ..self }
    }

    /// The rows that are learned from and those that are held out: in each task the
    /// share of its rows with the smallest keys.
    fn split(&self) -> (Vec<u32>, Vec<u32>) {
        let (count, tasks) = (self.data.len(), Some(&self.data.task[..]));
        hold_out(count, tasks, VALID_FRACTION, self.options.seed)
    }

    /// Tries all settings. The ridge with the least error wins, of equal ones the
    /// larger; scaling within tasks only where that is clearly better.
    fn choose(&mut self, valid: Option<&TaskRows>, mixed: bool) -> Result<Option<TaskTrial>> {
        let others = valid.map(|valid| renamed(self.data, valid)).transpose()?;
        let (kept, held) = match &others {
            Some(others) => (
                (0..self.data.len() as u32).collect(),
                (0..others.len() as u32).collect(),
            ),
            None => self.split(),
        };
        let judged = others.as_ref().unwrap_or(self.data);
        if others.as_ref().is_some_and(TaskRows::is_empty) {
            return Err(Error::input(
                "no row for validation belongs to a task of the training rows",
            ));
        }
        if others.is_none() && held.is_empty() {
            let message = "no task has enough rows to hold some out for validation: give \
                           --regularization and --standardize";
            return Err(Error::input(message));
        }
        let both = [Standardize::Global, Standardize::Task];
        let one = self.options.standardize.map(|how| [how]);
        let settings = one.as_ref().map_or(&both[..], |one| &one[..]);
        let (options, data) = (self.options, self.data);
        for &standardize in settings {
            let mut ground = Ground::new(options, data, &kept, standardize)?;
            ground.given = self.given.map(Given::parts);
            if mixed {
                let learned = mixed::learn(&ground.frame, options.thread_count());
                let Some(learned) = learned else { continue };
                let judge = judge_rows(&ground.frame, &learned, judged, &held);
                let trial = TaskTrial {
                    rank: data.features.len(),
                    standardize,
                    regularization: learned.prior.ridge,
                    nmse: judge.nmse(),
                    iterations: learned.iterations,
                    mixed: true,
                    place: 0,
                    of_tasks: judge.of_tasks(),
                };
                let go_on = (self.watch)(MultitaskEvent::Tried(&trial));
                self.trials.push(trial);
                if !go_on {
                    return Ok(None);
                }
                continue;
            }
            let ridges = ground.ridges(options.regularization, None);
            let trials = &mut self.trials;
            let (watch, stopped) = (RefCell::new(&mut self.watch), Cell::new(false));
            let tell = |event: MultitaskEvent<'_>| {
                stopped.set(!watch.borrow_mut()(event) || stopped.get());
                !stopped.get()
            };
            let mut place = 0;
            let mut observer = |_: usize, cost: f64, state: &dyn Fn() -> SolverState| {
                tell(MultitaskEvent::Iteration { cost, state })
            };
            ground.walk(&ridges, None, &mut observer, |lambda, learned| {
                let judge = judge_rows(&ground.frame, learned, judged, &held);
                let trial = TaskTrial {
                    rank: ground.rank,
                    standardize,
                    regularization: lambda,
                    nmse: judge.nmse(),
                    iterations: learned.iterations,
                    mixed: false,
                    place,
                    of_tasks: judge.of_tasks(),
                };
                place += 1;
                let go_on = tell(MultitaskEvent::Tried(&trial));
                trials.push(trial);
                go_on
            })?;
            if stopped.get() {
                return Ok(None);
            }
        }
        let best_of = |standardize: Standardize| {
            let own = self.trials.iter().filter(|t| t.standardize == standardize);
            let finite = own.filter(|trial| trial.nmse.is_finite());
            finite.fold(None, |best: Option<&TaskTrial>, trial| match best {
                Some(best) if best.nmse <= trial.nmse => Some(best),
                _ => Some(trial),
            })
        };
        let best = settings
            .iter()
            .fold(None, |best: Option<&TaskTrial>, &how| {
                match (best, best_of(how)) {
                    (Some(best), Some(other)) if !other.clearly_beats(best) => Some(best),
                    (best, other) => other.or(best),
                }
            });
        match best {
            Some(best) => Ok(Some(best.clone())),
            None => Err(Error::input(
                "no validation row belongs to a task whose targets differ",
            )),
        }
    }

    fn walk(
        &mut self,
        ground: &Ground,
        ridges: &[f64],
        state: Option<SolverState>,
    ) -> Result<Learned> {
        let watch = &mut self.watch;
        let mut observer = |_: usize, cost: f64, state: &dyn Fn() -> SolverState| {
            watch(MultitaskEvent::Iteration { cost, state })
        };
        ground.walk(ridges, state, &mut observer, |_, _| true)
    }

    fn finish(
        self,
        ground: &Ground,
        mut learned: Learned,
        tasks: Range<usize>,
        columns: Option<&TaskColumns>,
        standardize: Standardize,
        chosen: Option<TaskTrial>,
    ) -> Result<MultitaskFit> {
        let frame = &ground.frame;
        let fits = |learned: &Learned| {
            let (moments, fits) = learned.tasks(frame, tasks.clone());
            Ok(TaskFits {
                moments,
                fits,
                factors: frame.factors_of_all(tasks.clone()),
            })
        };
        let fits = turned(&mut learned, fits)?;
        let mut names = Ids::new();
        tasks.for_each(|t| _ = names.intern(self.data.names.get(t as u32)));
        let names = (self.data.features.clone(), names);
        let scaled = (&frame.preprocess, frame.usual_factors.clone(), standardize);
        let constant = fits.constant();
        let kept = learned.at[0].ncols();
        let model = self
            .options
            .model_of(&learned, fits, names, scaled, columns)?;
        // Of a model that is not the one that was judged there is nothing to say.
        let chosen = chosen.filter(|_| learned.ended != Ended::Interrupted);
        let metrics = chosen.map(|trial| ("nmse".to_owned(), trial.nmse));
        Ok(MultitaskFit {
            model,
            cost: learned.cost,
            ended: learned.ended,
            metrics: metrics.into_iter().collect(),
            lost_rank: (kept < ground.rank).then_some(ground.rank),
            constant_tasks: constant,
        })
    }
}

/// What follows for some tasks from a subspace.
struct TaskFits {
    moments: Vec<Moments>,
    fits: Vec<TaskFit>,
    /// By what features are multiplied, task by task.
    factors: Option<Vec<f64>>,
}

impl TaskFits {
    fn weights(&self, rank: usize) -> Mat<f64> {
        Mat::from_fn(self.fits.len(), rank, |t, k| self.fits[t].weights[k])
    }

    /// How many tasks have targets that are all the same.
    fn constant(&self) -> usize {
        let of_targets = |m: &&Moments| m.variance(m.mean.len() - 1) == 0.0;
        self.moments.iter().filter(of_targets).count()
    }
}

/// Turns a subspace to the axes of the weights, without those that no task uses. Gives what
/// follows for the tasks then.
fn turned(
    learned: &mut Learned,
    mut fits: impl FnMut(&Learned) -> Result<TaskFits>,
) -> Result<TaskFits> {
    let weights = fits(learned)?.weights(learned.at[0].ncols());
    let finite = learned.at.iter().all(Mat::is_all_finite) && weights.is_all_finite();
    let turned = finite
        .then(|| principal(&learned.at[0], &weights))
        .flatten();
    let (u, kept) = turned.ok_or_else(no_numbers)?;
    if kept == 0 {
        return Err(Error::input(
            "no task has weights of its own: the targets are all the same, or too few",
        ));
    }
    learned.at[0] = u;
    fits(learned)
}

impl Multitask {
    /// The model of what was learned.
    fn model_of(
        &self,
        learned: &Learned,
        found: TaskFits,
        names: (Ids, Ids),
        (preprocess, usual_factors, standardize): (&Preprocess, Option<Vec<f64>>, Standardize),
        columns: Option<&TaskColumns>,
    ) -> Result<Model> {
        let weights = found.weights(learned.at[0].ncols());
        let common = learned.at.get(1);
        let space = TaskSpace {
            common: common.map(|c| (0..c.nrows()).map(|i| c[(i, 0)]).collect()),
            bias: found.fits.iter().map(|fit| fit.bias).collect(),
            scale: found.fits.iter().map(|fit| fit.scale).collect(),
            moments: found.moments,
            factors: found.factors,
            usual_factors,
        };
        let usual = TaskColumns::default();
        let columns = columns.unwrap_or(&usual);
        let card = MultitaskCard {
            solver: self.solver.name().into(),
            task_column: columns.task.clone(),
            target_column: columns.target.clone(),
            ignored_columns: columns.ignored.clone(),
            standardize,
            common_ridge: self.common_ridge_or_none(),
            prior: learned.prior,
        };
        let preprocess = preprocess.clone();
        let mut model = Model::multitask(&learned.at[0], &weights, names, preprocess, space, card)?;
        model.card.seed = self.seed;
        model.card.init = match self.init {
            StartInit::Own => "spectral".into(),
            StartInit::Model => self.init.name().into(),
        };
        model.card.counters.steps = learned.iterations as u64;
        model.card.counters.updates = learned.iterations as u64;
        Ok(model)
    }
}

fn no_numbers() -> Error {
    Error::failure("the fit ended with numbers that are not finite: more regularization may help")
}

impl MultitaskFit {
    /// Says that there was no search for a subspace.
    fn now_mixed(&mut self) {
        self.model.card.learner = MultitaskLearner::Mixed.name().into();
        self.model.card.init = "prior".into();
        self.lost_rank = None;
        if let Knowledge::Multitask(known) = &mut self.model.knowledge {
            known.card.solver = "em".into();
        }
    }
}

/// Judges what was learned by rows of the same tasks and features.
fn judge_rows(frame: &Frame, learned: &Learned, data: &TaskRows, rows: &[u32]) -> Judge {
    let (moments, fits) = learned.tasks(frame, 0..frame.tasks_count());
    let mut judge = Judge::new(data.names.len());
    let y = learned.at[0].ncols() + 1;
    for (t, moments) in moments.iter().enumerate() {
        judge.know(t, moments.count, moments.mean[y], moments.variance(y));
    }
    let mut view = learned.view(frame);
    for &i in rows {
        let (t, row) = (data.task[i as usize] as usize, data.rows.row(i as usize));
        let coordinates = view.coordinates(row, frame.factors_of(Some(t)));
        let fit = &fits[t];
        let fit = Some((fit.scale, fit.bias, &fit.weights[..]));
        let found = learned.prior.target(&coordinates, fit);
        judge.add(t, data.targets[i as usize], found);
    }
    judge
}

/// Rows of another file in the tasks and features of this one; those of other tasks
/// tell nothing of a setting and are left out.
fn renamed(data: &TaskRows, other: &TaskRows) -> Result<TaskRows> {
    let mut map = FeatureMap::new(&data.features, &other.features, other.table)?;
    let mut out = TaskRows {
        names: data.names.clone(),
        features: data.features.clone(),
        task: Vec::new(),
        rows: Rows::new(),
        targets: Vec::new(),
        table: other.table,
    };
    for i in 0..other.len() {
        if let Some(t) = data.names.find(other.names.get(other.task[i])) {
            let row = map.align(other.rows.row(i), &other.features);
            out.rows.push(row);
            out.task.push(t);
            out.targets.push(other.targets[i]);
        }
    }
    Ok(out)
}
