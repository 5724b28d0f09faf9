//! Mahalanobis metrics: d(x, y)² = (x − y)ᵀ W (x − y) should be small for rows that
//! are alike and large for others.
//!
//! Distances are the roots of these everywhere a user meets them, in files of
//! constraints and in what is predicted; learning works on their squares.

mod baselines;
mod constraints;
mod engine;
mod evaluation;
mod fit;
mod nearby;
mod online;
mod session;
mod source;
mod start;

pub use constraints::squared_distance_levels;
pub(crate) use engine::{Bounded, Engine, Lowered};
pub use evaluation::{Control, MetricEvaluation};
pub use fit::MetricFit;
pub(crate) use fit::stored;
pub use session::MetricSession;

use crate::data::Labelled;
use crate::linalg::Retraction;
use crate::model::{Model, Steps};
use crate::online::Rule;
use crate::task::checkpoint::TaskOptions;
use crate::task::session::Event;
use crate::{Error, Real, Result};
use serde::{Deserialize, Serialize};

/// How a metric or a kernel is learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricLearner {
    /// W = U B Uᵀ: a subspace and a distance in it.
    Polar,
    /// W = G Gᵀ.
    Flat,
    /// Full rank, in the affine-invariant geometry.
    ConeAffine,
    /// The same with steps of first order: LogDet projections.
    ConeLogdet,
    /// Full rank, in the log-Euclidean geometry.
    ConeLog,
    /// Full rank, W = G Gᵀ.
    ConeFlat,
    /// Full rank, mirror descent by the von Neumann divergence; online only.
    ConeVonNeumann,
    /// Information-theoretic metric learning; after PCA where the rank is not full.
    Itml,
    /// LogDet steps, one pair after the other; after PCA where the rank is not full.
    Lego,
}

impl MetricLearner {
    /// All of them.
    pub const ALL: [MetricLearner; 9] = [
        MetricLearner::Polar,
        MetricLearner::Flat,
        MetricLearner::ConeAffine,
        MetricLearner::ConeLogdet,
        MetricLearner::ConeLog,
        MetricLearner::ConeFlat,
        MetricLearner::ConeVonNeumann,
        MetricLearner::Itml,
        MetricLearner::Lego,
    ];

    /// Its name on the command line and in model files.
    pub fn name(self) -> &'static str {
        match self {
            MetricLearner::Polar => "polar",
            MetricLearner::Flat => "flat",
            MetricLearner::ConeAffine => "cone-affine",
            MetricLearner::ConeLogdet => "cone-logdet",
            MetricLearner::ConeLog => "cone-log",
            MetricLearner::ConeFlat => "cone-flat",
            MetricLearner::ConeVonNeumann => "cone-von-neumann",
            MetricLearner::Itml => "itml",
            MetricLearner::Lego => "lego",
        }
    }

    /// Whether it learns matrices of full rank only.
    pub fn is_cone(self) -> bool {
        matches!(
            self,
            MetricLearner::ConeAffine
                | MetricLearner::ConeLogdet
                | MetricLearner::ConeLog
                | MetricLearner::ConeFlat
                | MetricLearner::ConeVonNeumann
        )
    }

    /// Its rule for one pair after the other; baselines have a way of their own.
    pub fn rule(self) -> Option<Rule> {
        match self {
            MetricLearner::Polar => Some(Rule::PolarPsd),
            MetricLearner::Flat => Some(Rule::Flat),
            MetricLearner::ConeAffine => Some(Rule::ConeAffine),
            MetricLearner::ConeLogdet => Some(Rule::ConeLogdet),
            MetricLearner::ConeLog => Some(Rule::ConeLog),
            MetricLearner::ConeFlat => Some(Rule::ConeFlat),
            MetricLearner::ConeVonNeumann => Some(Rule::ConeVonNeumann),
            MetricLearner::Itml | MetricLearner::Lego => None,
        }
    }

    /// Whether it is there for comparison.
    pub fn is_baseline(self) -> bool {
        matches!(self, MetricLearner::Itml | MetricLearner::Lego)
    }
}

/// How the cost of all constraints is lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricSolver {
    /// One pair after the other, or a few at once.
    Online,
    /// Steps along the gradient.
    Descent,
    /// Conjugate directions.
    Cg,
    /// Gauss–Newton steps inside a trust region.
    TrustRegion,
}

/// How the size of online steps goes with their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepSchedule {
    /// s/μ̂ · n t₀ / (n t₀ + t): a share of the usual gradient at the start, which falls.
    Falling,
    /// s t₀ / (t₀ + t) / max(Tr W, 1), for which descent is proved to converge.
    Convergent,
    /// Always the same.
    Constant,
}

impl StepSchedule {
    /// Its name on the command line and in model files.
    pub fn name(self) -> &'static str {
        match self {
            StepSchedule::Falling => "falling",
            StepSchedule::Convergent => "convergent",
            StepSchedule::Constant => "constant",
        }
    }
}

/// Where constraints come from when rows have classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairsFrom {
    /// Random pairs: at most the 5th percentile of distances inside a class, at
    /// least the 95th between classes.
    Random,
    /// The nearest rows of the own class, and those of other classes that are nearer
    /// than them and a margin.
    Neighbors,
}

/// Where W starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricInit {
    /// The top principal directions.
    Pca,
    /// Directions in which the means of classes differ most, against how much rows
    /// differ inside classes.
    ClassMeans,
    /// The identity, of the features that vary most where the rank is not full.
    Identity,
}

impl MetricInit {
    /// Its name on the command line and in model files.
    pub fn name(self) -> &'static str {
        match self {
            MetricInit::Pca => "pca",
            MetricInit::ClassMeans => "class-means",
            MetricInit::Identity => "identity",
        }
    }
}

/// Learns metrics: options with their defaults, then [`Metric::fit`].
///
/// ```
/// use rankfold::data::{Labelled, Labels};
/// use rankfold::{Metric, Rows};
///
/// // Classes differ in the second column; the first varies more.
/// let rows = (0..40).map(|i| [f64::from(i * 7 % 40), f64::from(i % 2 * 3 + i % 3)]);
/// let rows = Labelled::new(Rows::from_dense(rows).unwrap());
/// let rows = rows.with_labels(Labels::single((0..40).map(|i| i % 2))).unwrap();
///
/// let model = Metric::flat().rank(1).fit(&rows).unwrap();
/// let found = model.evaluate_metric(rows, None, 5, 1).unwrap();
/// assert!(found.model["knn_error"] < found.controls[0].metrics["knn_error"]);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metric {
    learner: MetricLearner,
    solver: Option<MetricSolver>,
    rank: Option<usize>,
    pairs_from: Option<PairsFrom>,
    constraints: Option<usize>,
    neighbours: usize,
    init: Option<MetricInit>,
    iterations: Option<usize>,
    tolerance: f64,
    subspace_weight: f64,
    retraction: Retraction,
    slack: f64,
    step_size: Option<f64>,
    step_rule: Option<StepSchedule>,
    batch: usize,
    seed: u64,
    threads: usize,
    preprocess: Steps,
    valid_fraction: f64,
    patience: Option<u32>,
    curve_every: Option<u64>,
}

impl Default for Metric {
    fn default() -> Self {
        Self::flat()
    }
}

/// The rank, where features are not fewer, unless another is asked for.
const RANK: usize = 20;

/// What the columns of a gradient do to each other costs their square.
const LARGEST_BATCH: usize = 1024;

impl TaskOptions for Metric {
    const TASK: &'static str = "metric";
}

impl Metric {
    /// The flat geometry of W = G Gᵀ.
    pub fn flat() -> Self {
        Self::new(MetricLearner::Flat)
    }

    /// The polar geometry of W = U B Uᵀ.
    pub fn polar() -> Self {
        Self::new(MetricLearner::Polar)
    }

    /// By the name of the learner.
    pub fn new(learner: MetricLearner) -> Self {
        Metric {
            learner,
            solver: None,
            rank: None,
            pairs_from: None,
            constraints: None,
            neighbours: 5,
            init: None,
            iterations: None,
            tolerance: 1e-5,
            subspace_weight: 0.5,
            retraction: Retraction::Uf,
            slack: 1.0,
            step_size: None,
            step_rule: None,
            batch: 1,
            seed: 0,
            threads: 1,
            preprocess: Steps::default(),
            valid_fraction: 0.0,
            patience: None,
            curve_every: None,
        }
    }

    /// The learner.
    pub fn learner(&self) -> MetricLearner {
        self.learner
    }

    /// How the cost is lowered; by default in a trust region for `polar`, and by
    /// conjugate gradients otherwise.
    pub fn solver(mut self, solver: MetricSolver) -> Self {
        self.solver = Some(solver);
        self
    }

    fn solver_or_default(&self) -> MetricSolver {
        self.solver.unwrap_or(match self.learner {
            // Conjugate directions creep between the subspace and the distance in it.
            MetricLearner::Polar => MetricSolver::TrustRegion,
            _ => MetricSolver::Cg,
        })
    }

    /// Whether it learns one pair after the other, in a [`MetricSession`].
    pub fn is_online(&self) -> bool {
        self.solver == Some(MetricSolver::Online)
    }

    /// The rank of W; by default 20, or the number of features where that is less or
    /// the learner needs full rank.
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Where constraints come from when rows have classes; by default the nearest rows,
    /// and random pairs for the baselines, which know nothing else.
    pub fn pairs_from(mut self, from: PairsFrom) -> Self {
        self.pairs_from = Some(from);
        self
    }

    fn uses_neighbours(&self) -> bool {
        match self.pairs_from {
            Some(from) => from == PairsFrom::Neighbors,
            None => !self.learner.is_baseline() && self.solver != Some(MetricSolver::Online),
        }
    }

    /// How many random pairs; by default as many as the paper takes for so many
    /// classes, 40 c (c − 1), and at least 10 a row up to 100,000.
    pub fn constraints(mut self, count: usize) -> Self {
        self.constraints = Some(count);
        self
    }

    /// How many nearest rows of its own class a row should keep near.
    pub fn neighbours(mut self, count: usize) -> Self {
        self.neighbours = count;
        self
    }

    /// Where W starts; by default principal directions, and the identity at full rank.
    /// With nearest rows, class means are tried as well, and validation chooses.
    pub fn init(mut self, init: MetricInit) -> Self {
        self.init = Some(init);
        self
    }

    /// Iterations; without it validation chooses how many, and given constraints are
    /// learned from until the cost no longer falls. Online the pairs that are learned
    /// from, by default ten times the usual number, or ten passes over those given.
    pub fn iterations(mut self, iterations: usize) -> Self {
        self.iterations = Some(iterations);
        self
    }

    /// When to stop: an iteration lowers the cost, or moves G, by at most this share.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// λ of the polar geometry: 0 keeps the subspace as it is, 1 the distance in it. By
    /// default ½.
    pub fn subspace_weight(mut self, weight: f64) -> Self {
        self.subspace_weight = weight;
        self
    }

    /// The way back to orthonormal columns, in the polar geometry.
    pub fn retraction(mut self, retraction: Retraction) -> Self {
        self.retraction = retraction;
        self
    }

    /// What ITML pays for slack: large values give none.
    pub fn slack(mut self, slack: f64) -> Self {
        self.slack = slack;
        self
    }

    /// The step size of online learning, s of its rule, and of LEGO; by default the best
    /// of several.
    pub fn step_size(mut self, size: f64) -> Self {
        self.step_size = Some(size);
        self
    }

    /// How the size of online steps falls. Default: [`StepSchedule::Falling`].
    pub fn step_rule(mut self, rule: StepSchedule) -> Self {
        self.step_rule = Some(rule);
        self
    }

    /// Pairs of one online step. The pairs of a run are rounded up to whole batches.
    pub fn batch(mut self, pairs: usize) -> Self {
        self.batch = pairs;
        self
    }

    /// The seed of everything random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Threads; the result does not depend on it.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// What is done to rows first.
    pub fn preprocess(mut self, steps: Steps) -> Self {
        self.preprocess = steps;
        self
    }

    /// Holds out this share of the rows, and keeps the W whose neighbours vote best
    /// for their classes.
    pub fn valid_fraction(mut self, fraction: f64) -> Self {
        self.valid_fraction = fraction;
        self
    }

    /// Stops after so many measurements without a better one.
    pub fn patience(mut self, checks: u32) -> Self {
        self.patience = Some(checks);
        self
    }

    /// Iterations between two points of the curve.
    pub fn curve_every(mut self, iterations: u64) -> Self {
        self.curve_every = Some(iterations);
        self
    }

    /// Learns from rows with classes.
    pub fn fit<R: Real>(&self, data: &Labelled<R>) -> Result<Model> {
        if self.is_online() {
            let mut session = MetricSession::new(self, data, None, None)?;
            while !matches!(session.advance(u64::MAX)?, Event::Finished(_)) {}
            return session.into_model();
        }
        let fit = self.fit_with(data, None, None, &mut |_| true)?;
        Ok(fit.model)
    }

    /// Checks options that do not depend on the data.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::input(message));
        if self.rank == Some(0) {
            return refuse("the rank must be at least 1".into());
        }
        if self.learner.is_cone() && self.rank.is_some() {
            return refuse(format!(
                "`{}` learns matrices of full rank: leave the rank out",
                self.learner.name()
            ));
        }
        let weight = self.subspace_weight;
        if !(0.0..=1.0).contains(&weight) {
            return refuse(format!(
                "the subspace weight must be from 0 to 1, found {weight}"
            ));
        }
        if self.learner.is_baseline() && self.solver.is_some() {
            return refuse(format!(
                "`{}` has a way of its own: leave the solver out",
                self.learner.name()
            ));
        }
        if self.learner.is_baseline() && self.uses_neighbours() {
            return refuse(format!(
                "`{}` learns from random or given pairs, not from nearest rows",
                self.learner.name()
            ));
        }
        self.check_online()?;
        if !(self.slack > 0.0 && self.slack.is_finite()) {
            return refuse(format!("the slack must be above 0, found {}", self.slack));
        }
        if !(0.0..1.0).contains(&self.valid_fraction) {
            return refuse(format!(
                "the validation fraction must be from 0 to below 1, found {}",
                self.valid_fraction
            ));
        }
        if self.step_size.is_some_and(|s| !(s > 0.0 && s.is_finite())) {
            return refuse("the step size must be above 0 and finite".into());
        }
        if self.neighbours == 0 {
            return refuse("a row needs at least 1 neighbour".into());
        }
        if self.curve_every == Some(0) {
            return refuse("points of the curve must be at least 1 iteration apart".into());
        }
        if self.constraints == Some(0) {
            return refuse("there must be at least 1 constraint".into());
        }
        if !(self.tolerance >= 0.0) {
            return refuse("the tolerance must be at least 0".into());
        }
        Ok(())
    }

    /// What belongs to online learning alone, and what it does not have.
    fn check_online(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::input(message));
        if self.batch == 0 {
            return refuse("a batch needs at least 1 pair".into());
        }
        if self.batch > LARGEST_BATCH {
            return refuse(format!(
                "a batch has at most {LARGEST_BATCH} pairs, found {}",
                self.batch
            ));
        }
        if !self.is_online() {
            let only = [
                ("a batch", self.batch > 1),
                ("a rule of steps", self.step_rule.is_some()),
            ];
            if let Some((what, _)) = only.iter().find(|(_, given)| *given) {
                return refuse(format!("{what} is for the solver `online`"));
            }
            if self.learner == MetricLearner::ConeVonNeumann {
                return refuse(
                    "`cone-von-neumann` learns one pair after the other: choose the solver `online`"
                        .into(),
                );
            }
        } else if self.pairs_from == Some(PairsFrom::Neighbors) {
            return refuse(
                "the solver `online` learns from random pairs: pairs of neighbours are for solvers in batch"
                    .into(),
            );
        }
        Ok(())
    }
}
