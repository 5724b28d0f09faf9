//! Many regression tasks on the same features: a subspace that they share, a common
//! part, and a small model for each task.

mod controls;
mod evaluation;
mod fit;
mod frame;
mod online;
mod shares;

pub use online::TaskLearner;
pub(crate) use shares::Shares;

use crate::batch::{Ended, Solver};
use crate::data::{FeatureMap, TaskColumns, TaskRows, split_key};
use crate::model::{Metrics, Model, MultitaskCard, Standardize, TaskSpace, principal};
use crate::{Error, Ids, Result, Rows};
use evaluation::Judge;
use faer::Mat;
use fit::{Ground, Learned};
use frame::Frame;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// The share of the rows of each task on which choices are made.
const VALID_FRACTION: f64 = 0.2;

/// How a subspace is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MultitaskSolver {
    /// Gauss–Newton steps in a trust region.
    #[default]
    TrustRegion,
    /// Along conjugate directions, preconditioned.
    Cg,
    /// Along the gradient.
    Descent,
}

impl MultitaskSolver {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            MultitaskSolver::TrustRegion => "trust-region",
            MultitaskSolver::Cg => "cg",
            MultitaskSolver::Descent => "descent",
        }
    }

    fn solver(self) -> Solver {
        match self {
            MultitaskSolver::TrustRegion => Solver::TrustRegion,
            MultitaskSolver::Cg => Solver::ConjugateGradient { precondition: true },
            MultitaskSolver::Descent => Solver::Descent(Default::default()),
        }
    }
}

/// Learns tasks that share a subspace.
///
/// ```no_run
/// use rankfold::data::{TaskColumns, TaskRows};
/// let columns = TaskColumns { task: "school".into(), target: "score".into(), ..Default::default() };
/// let pupils = TaskRows::read("pupils.csv", &columns)?;
/// let fit = rankfold::Multitask::new().rank(3).fit(&pupils, &columns, None, &mut |_| true)?;
/// fit.expect("was not stopped").model.save("pupils.safetensors")?;
/// # Ok::<(), rankfold::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Multitask {
    rank: usize,
    regularization: Option<f64>,
    standardize: Option<Standardize>,
    bias: bool,
    common: bool,
    common_ridge: f64,
    solver: MultitaskSolver,
    iterations: usize,
    tolerance: f64,
    valid_fraction: Option<f64>,
    seed: u64,
    threads: usize,
}

impl Default for Multitask {
    fn default() -> Self {
        Self::new()
    }
}

impl Multitask {
    /// With everything as it usually is: rank 3, choices by validation.
    pub fn new() -> Self {
        Multitask {
            rank: 3,
            regularization: None,
            standardize: None,
            bias: true,
            common: true,
            common_ridge: 1.0,
            solver: MultitaskSolver::default(),
            iterations: 200,
            tolerance: 1e-10,
            valid_fraction: None,
            seed: 0,
            threads: 1,
        }
    }

    /// The dimension of the subspace.
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = rank;
        self
    }

    /// The ridge of the weights of each task; without it, it is chosen.
    pub fn regularization(mut self, lambda: f64) -> Self {
        self.regularization = Some(lambda);
        self
    }

    /// How features and targets are scaled; without it, it is chosen between global
    /// and within tasks.
    pub fn standardize(mut self, how: Standardize) -> Self {
        self.standardize = Some(how);
        self
    }

    /// Whether each task has a bias.
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    /// Whether all tasks have weights in common beside the subspace.
    pub fn common(mut self, common: bool) -> Self {
        self.common = common;
        self
    }

    /// The ridge of the common weights.
    pub fn common_ridge(mut self, mu: f64) -> Self {
        self.common_ridge = mu;
        self
    }

    /// How the subspace is searched for.
    pub fn solver(mut self, solver: MultitaskSolver) -> Self {
        self.solver = solver;
        self
    }

    /// Iterations at most.
    pub fn iterations(mut self, iterations: usize) -> Self {
        self.iterations = iterations;
        self
    }

    /// Stops when an iteration lowers the cost by at most this share.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// The share of the rows of each task on which choices are made.
    pub fn valid_fraction(mut self, fraction: f64) -> Self {
        self.valid_fraction = Some(fraction);
        self
    }

    /// The seed of everything random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Threads; the result does not depend on it.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Whether the options make sense, before any data is read.
    pub fn check(&self) -> Result<()> {
        let fail = |message: String| Err(Error::input(message));
        if self.rank == 0 {
            return fail("the rank must be at least 1".into());
        }
        if self.iterations == 0 {
            return fail("there must be at least 1 iteration".into());
        }
        for (name, value) in [
            ("regularization", self.regularization.unwrap_or(0.0)),
            ("common ridge", self.common_ridge),
            ("tolerance", self.tolerance),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return fail(format!("the {name} must be 0 or more, found {value}"));
            }
        }
        match self.valid_fraction {
            Some(f) if !(f > 0.0 && f < 1.0) => fail(format!(
                "the share of validation rows must be between 0 and 1, found {f}"
            )),
            _ => Ok(()),
        }
    }

    fn check_data(&self, data: &TaskRows) -> Result<()> {
        self.check()?;
        let (features, tasks) = (data.features.len(), data.names.len());
        if self.rank > features.min(tasks) {
            return Err(Error::input(format!(
                "a rank of {} is not possible with {features} features and {tasks} tasks: \
                 expected at most {}",
                self.rank,
                features.min(tasks)
            )));
        }
        if self.regularization == Some(0.0) {
            let needed = self.rank + usize::from(self.bias);
            let mut rows = vec![0usize; tasks];
            data.task.iter().for_each(|&t| rows[t as usize] += 1);
            if let Some(t) = rows.iter().position(|&n| n < needed) {
                let (name, n) = (data.names.get(t as u32), rows[t]);
                let bias = if self.bias { " and a bias" } else { "" };
                return Err(Error::input(format!(
                    "task `{name}` has {n} rows: without regularization, rank {}{bias} need at \
                     least {needed}",
                    self.rank
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

    /// Learns from rows, and makes choices on other ones, or on a share of the same.
    /// `watch` is told what happens, and says whether to go on. `None` where it was
    /// stopped before there was a model.
    pub fn fit(
        &self,
        data: &TaskRows,
        columns: &TaskColumns,
        valid: Option<&TaskRows>,
        watch: &mut dyn FnMut(MultitaskEvent<'_>) -> bool,
    ) -> Result<Option<MultitaskFit>> {
        self.check_data(data)?;
        let all: Vec<u32> = (0..data.len() as u32).collect();
        let mut work = Work::new(self, data, watch);
        let to_choose = self.regularization.is_none()
            || self.standardize.is_none()
            || self.valid_fraction.is_some()
            || valid.is_some();
        let chosen = match to_choose {
            false => None,
            true => match work.choose(valid)? {
                Some(chosen) => Some(chosen),
                None => return Ok(None),
            },
        };
        let standardize = self.scaling(chosen.as_ref());
        let ground = Ground::new(self, data, &all, standardize)?;
        let ridges = ground.ridges(self.regularization, chosen.as_ref());
        let learned = work.walk(&ground, &ridges)?;
        let tasks = 0..data.names.len();
        let fit = work.finish(&ground, learned, tasks, columns, standardize, chosen)?;
        Ok(Some(fit))
    }
}

/// What is told while learning.
#[derive(Debug)]
pub enum MultitaskEvent<'a> {
    /// An iteration: how many were done since the last choice, and the cost.
    Iteration(usize, f64),
    /// A setting was tried.
    Tried(&'a TaskTrial),
}

/// A setting that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskTrial {
    /// How features and targets were scaled.
    pub standardize: Standardize,
    /// The ridge.
    pub regularization: f64,
    /// What it reaches on validation rows.
    pub nmse: f64,
    /// Iterations until then.
    pub iterations: usize,
    /// Which of the ridges it is.
    place: usize,
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
pub struct MultitaskFit {
    /// The model.
    pub model: Model,
    /// The cost that was reached.
    pub cost: f64,
    /// Iterations of the last run.
    pub iterations: usize,
    /// Why it ended.
    pub ended: Ended,
    /// All that was tried.
    pub trials: Vec<TaskTrial>,
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
            watch,
            trials: Vec::new(),
        }
    }

    /// The rows that are learned from and those that are held out: in each task the
    /// share of its rows with the smallest keys.
    fn split(&self) -> (Vec<u32>, Vec<u32>) {
        let share = self.options.valid_fraction.unwrap_or(VALID_FRACTION);
        let mut of_task = vec![Vec::new(); self.data.names.len()];
        for (i, &t) in self.data.task.iter().enumerate() {
            of_task[t as usize].push(i as u32);
        }
        let (mut kept, mut held) = (Vec::new(), Vec::new());
        for mut rows in of_task {
            rows.sort_by_key(|&i| (split_key(self.options.seed, u64::from(i)), i));
            let count = (share * rows.len() as f64) as usize;
            held.extend_from_slice(&rows[..count]);
            kept.extend_from_slice(&rows[count..]);
        }
        kept.sort_unstable();
        held.sort_unstable();
        (kept, held)
    }

    /// Tries all settings. The ridge with the least error wins, of equal ones the
    /// larger; scaling within tasks only where that is clearly better.
    fn choose(&mut self, valid: Option<&TaskRows>) -> Result<Option<TaskTrial>> {
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
            let ground = Ground::new(options, data, &kept, standardize)?;
            let ridges = ground.ridges(options.regularization, None);
            let trials = &mut self.trials;
            let (watch, stopped) = (RefCell::new(&mut self.watch), Cell::new(false));
            let tell = |event: MultitaskEvent<'_>| {
                stopped.set(!watch.borrow_mut()(event) || stopped.get());
                !stopped.get()
            };
            let mut place = 0;
            let mut see = |n: usize, cost: f64| tell(MultitaskEvent::Iteration(n, cost));
            ground.walk(&ridges, &mut see, |lambda, learned| {
                let judge = judge_rows(&ground.frame, learned, judged, &held);
                let trial = TaskTrial {
                    standardize,
                    regularization: lambda,
                    nmse: judge.nmse(),
                    iterations: learned.iterations,
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

    fn walk(&mut self, ground: &Ground, ridges: &[f64]) -> Result<Learned> {
        let watch = &mut self.watch;
        let mut see = |n: usize, cost: f64| watch(MultitaskEvent::Iteration(n, cost));
        ground.walk(ridges, &mut see, |_, _| true)
    }

    fn finish(
        self,
        ground: &Ground,
        mut learned: Learned,
        tasks: Range<usize>,
        columns: &TaskColumns,
        standardize: Standardize,
        chosen: Option<TaskTrial>,
    ) -> Result<MultitaskFit> {
        let frame = &ground.frame;
        let weights_of = |learned: &Learned| {
            let (moments, fits) = learned.tasks(frame, tasks.clone());
            let r = learned.at[0].ncols();
            let weights = Mat::from_fn(fits.len(), r, |t, k| fits[t].weights[k]);
            (moments, fits, weights)
        };
        let (_, _, weights) = weights_of(&learned);
        let finite = learned.at.iter().all(Mat::is_all_finite) && weights.is_all_finite();
        let turned = finite
            .then(|| principal(&learned.at[0], &weights))
            .flatten();
        let Some((u, kept)) = turned else {
            return Err(Error::failure(
                "the fit ended with numbers that are not finite: more regularization may help",
            ));
        };
        if kept == 0 {
            return Err(Error::input(
                "no task has weights of its own: the targets are all the same, or too few",
            ));
        }
        learned.at[0] = u;
        let (moments, fits, weights) = weights_of(&learned);
        let y = learned.at[0].ncols() + 1;
        let constant = moments.iter().filter(|m| m.variance(y) == 0.0).count();
        let options = self.options;
        let common = learned.at.get(1);
        let space = TaskSpace {
            common: common.map(|c| (0..c.nrows()).map(|i| c[(i, 0)]).collect()),
            bias: fits.iter().map(|fit| fit.bias).collect(),
            scale: fits.iter().map(|fit| fit.scale).collect(),
            moments,
            factors: frame.factors_of_all(tasks.clone()),
            usual_factors: frame.usual_factors.clone(),
        };
        let card = MultitaskCard {
            solver: options.solver.name().into(),
            task_column: columns.task.clone(),
            target_column: columns.target.clone(),
            ignored_columns: columns.ignored.clone(),
            standardize,
            common_ridge: options.common.then_some(options.common_ridge),
            prior: learned.prior,
        };
        let mut names = Ids::new();
        tasks.for_each(|t| _ = names.intern(self.data.names.get(t as u32)));
        let names = (self.data.features.clone(), names);
        let preprocess = frame.preprocess.clone();
        let mut model = Model::multitask(&learned.at[0], &weights, names, preprocess, space, card)?;
        model.card.seed = options.seed;
        model.card.init = "spectral".into();
        model.card.counters.steps = learned.iterations as u64;
        model.card.counters.updates = learned.iterations as u64;
        // Of a model that is not the one that was judged there is nothing to say.
        let chosen = chosen.filter(|_| learned.ended != Ended::Told);
        let metrics = chosen.map(|trial| ("nmse".to_owned(), trial.nmse));
        Ok(MultitaskFit {
            model,
            cost: learned.cost,
            iterations: learned.iterations,
            ended: learned.ended,
            trials: self.trials,
            metrics: metrics.into_iter().collect(),
            lost_rank: (kept < options.rank).then_some(options.rank),
            constant_tasks: constant,
        })
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
