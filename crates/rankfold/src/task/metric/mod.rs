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
mod online;
mod scaling;
mod session;
mod sharded;
mod source;
mod start;

pub use constraints::squared_distance_levels;
pub(crate) use engine::{Bounded, Engine, Lowered};
pub use evaluation::Classified;
pub(crate) use fit::stored;
pub use session::MetricSession;
pub use sharded::{MetricShard, ShardedMetric};

use super::run::{Fit, Run};
use super::{LARGEST_BATCH, Learn, check_length, threads};
use crate::data::{Constraint, Labelled};
use crate::linalg::Retraction;
use crate::model::{Model, Normalize, Scaling, Weight};
use crate::online::{Rule, Step};
use crate::options::{Options, Range};
use crate::{Error, Real, Result, choices, options};

choices! {
    /// How a metric or a kernel is learned.
    pub enum MetricLearner {
        /// W = U B Uᵀ: a subspace and a distance in it
        Polar = "polar",
        /// W = G Gᵀ
        Flat = "flat",
        /// Full rank, in the affine-invariant geometry
        ConeAffine = "cone-affine",
        /// Full rank, affine-invariant with steps of first order: LogDet projections
        ConeLogdet = "cone-logdet",
        /// Full rank, in the log-Euclidean geometry
        ConeLog = "cone-log",
        /// Full rank, W = G Gᵀ
        ConeFlat = "cone-flat",
        /// Full rank, mirror descent by the von Neumann divergence; online only
        ConeVonNeumann = "cone-von-neumann",
        /// Baseline: information-theoretic metric learning; after PCA at low rank
        Itml = "itml",
        /// Baseline: LogDet steps, one pair after the other; after PCA at low rank
        Lego = "lego",
    }
}

impl MetricLearner {
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

choices! {
    /// How the cost of all constraints is lowered.
    pub enum MetricSolver {
        /// One pair after the other, or a few at once
        Online = "online",
        /// Steps along the gradient, found by halving
        Descent = "descent",
        /// Conjugate gradients
        Cg = "cg",
        /// Gauss–Newton steps in a trust region
        TrustRegion = "trust-region",
    }
}

choices! {
    /// How the size of online steps goes with their number.
    pub enum StepSchedule {
        /// s/μ̂ · n t₀ / (n t₀ + t), with μ̂ the mean gradient at the start
        Falling = "falling",
        /// s t₀ / (t₀ + t) / max(Tr W, 1), for which descent is proved to converge
        Convergent = "convergent",
        /// Always s
        Constant = "constant",
    }
}

choices! {
    /// How constraints are made from labels.
    pub enum PairsFrom {
        /// Random pairs: at most the 5th percentile of distances inside a class, at least the
        /// 95th between classes
        Random = "random",
        /// Nearest rows: those of the own class nearer than those of others, by a margin
        Neighbors = "neighbors",
    }
}

choices! {
    /// Where W starts.
    pub enum MetricInit {
        /// The top principal directions
        Pca = "pca",
        /// Directions in which class means differ most, relative to the spread inside classes
        ClassMeans = "class-means",
        /// The identity; at low rank on the features that vary most
        Identity = "identity",
        /// The W of a model: give its file
        Model = "model",
    }
}

options! {
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
    /// let model = Metric::default().rank(1).fit(&rows).unwrap();
    /// let found = model.evaluate_metric(rows, None, 5, 1).unwrap();
    /// assert!(found.metrics["knn_error"] < found.baselines[0].metrics["knn_error"]);
    /// ```
    pub struct Metric: "metric" {
        /// Learning algorithm.
        learner: MetricLearner = MetricLearner::Flat;
        /// How the cost is lowered [default: trust-region for `polar`, cg for others].
        solver: Option<MetricSolver> = None,
            for "learners other than `itml` and `lego`" if |o| !o.learner.is_baseline();
        /// Rank of W, at most the number of features; the default is lowered to that.
        rank: usize = 20, in Range::COUNT,
            for "`polar`, `flat`, `itml` and `lego`" if |o| !o.learner.is_cone();
        /// How pairs are made from labels [default: neighbors; random for baselines and
        /// `--solver online`].
        pairs_from: Option<PairsFrom> = None;
        /// Number of random pairs [default: 40 c (c − 1) for c classes, at least 10 a row up to
        /// 100,000].
        constraints: Option<usize> = None, in Range::COUNT,
            for "random pairs: `--pairs-from random`" if |o| !o.uses_neighbors();
        /// Nearest rows of its class that a row should keep near.
        neighbors: usize = 5, in Range::COUNT,
            for "nearest rows: `--pairs-from neighbors`" if Metric::uses_neighbors;
        /// Where W starts [default: principal directions, at full rank the identity; with
        /// nearest rows also class means, whichever does better on held-out rows].
        init: Option<MetricInit> = None;
        /// Number of pairs to learn from, one after the other [default: 10 passes].
        steps: Option<u64> = None, for "`--solver online`" if Metric::is_online, effect Length;
        /// Number of passes over the pairs [default: 10 with `--solver online`, 1 with `lego`].
        epochs: Option<u64> = None,
            for "`--solver online` and `lego`"
            if |o| o.is_online() || o.learner == MetricLearner::Lego, effect Length;
        /// Iterations of a batch solver, rounds of `itml` [default: as many as do best on
        /// held-out rows; with given pairs until the cost stops falling].
        iterations: Option<usize> = None,
            for "batch solvers and `itml`"
            if |o| !o.is_online() && o.learner != MetricLearner::Lego, effect Length;
        /// Stop when an iteration lowers the cost, or moves W, by at most this share.
        tolerance: f64 = 1e-5, in Range::NOT_NEGATIVE,
            for "batch solvers" if |o| !o.is_online() && !o.learner.is_baseline();
        /// λ of `polar`: 0 learns the distance in a fixed subspace, 1 the subspace alone.
        subspace_weight: f64 = 0.5, in Range::UNIT,
            for "`--learner polar`" if |o| o.learner == MetricLearner::Polar;
        /// How the factor of `polar` returns to orthonormal columns.
        retraction: Retraction = Retraction::Uf,
            for "`--learner polar`" if |o| o.learner == MetricLearner::Polar;
        /// The price of slack of `itml`: large values allow none.
        slack: f64 = 1.0, in Range::POSITIVE,
            for "`--learner itml`" if |o| o.learner == MetricLearner::Itml;
        /// s of the step rule, or η of `lego` [default: the best of several in short runs].
        step_size: Option<f64> = None, in Range::POSITIVE,
            for "`--solver online` and `lego`"
            if |o| o.is_online() || o.learner == MetricLearner::Lego;
        /// How online steps fall [default: falling].
        step_rule: Option<StepSchedule> = None, for "`--solver online`" if Metric::is_online;
        /// Largest relative change of W that one online step may make; `inf` for none.
        step_limit: f64 = Step::LIMIT, in Range::LIMIT,
            for "`--solver online`" if Metric::is_online;
        /// Pairs that make one online step together.
        batch: usize = 1, within Range::between(1.0, LARGEST_BATCH as f64),
            for "`--solver online`" if Metric::is_online;
        shared seed;
        shared threads;
        /// Weight features by how rare they are; the model keeps the weights.
        weight: Weight = Weight::None, among ["none", "tfidf"];
        /// Scale rows to length one; the model does so too.
        normalize: Normalize = Normalize::None, among ["none", "l2"];
        /// Subtract column means and divide by standard deviations; the model keeps them.
        /// `auto` chooses for tables whose pairs are nearest rows, by how well starts do on
        /// held-out rows; everything else stays as it is.
        standardize: Scaling = Scaling::Auto;
        shared valid_fraction;
        shared patience;
        shared curve_every;
    }
}

impl Metric {
    /// By the name of the learner.
    pub fn new(learner: MetricLearner) -> Self {
        Self::default().learner(learner)
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

    fn uses_neighbors(&self) -> bool {
        match self.pairs_from {
            Some(from) => from == PairsFrom::Neighbors,
            None => !self.learner.is_baseline() && self.solver != Some(MetricSolver::Online),
        }
    }

    /// Whether factors in single precision are precise enough.
    pub fn stores_f32(&self) -> bool {
        self.is_online() && !self.learner.is_cone()
    }

    pub(crate) fn thread_count(&self) -> usize {
        threads(self.threads)
    }

    /// Learns from rows with classes.
    pub fn fit<R: Real>(&self, data: &Labelled<R>) -> Result<Model> {
        Ok(self.fit_with(data.into(), Run::default())?.model)
    }

    /// The same from given constraints, with validation rows, an observer and
    /// checkpoints.
    pub fn fit_with<R: Real>(&self, data: MetricData<'_, R>, mut run: Run<'_>) -> Result<Fit> {
        self.check()?;
        if !self.is_online() {
            return self.fit_batch(data, run);
        }
        match run.take_checkpoint() {
            Some(checkpoint) => self.resume(data, &checkpoint)?.drive(run),
            None => self.begin_session(data, &mut run)?.drive(run),
        }
    }

    /// Checks options that do not depend on the data.
    pub fn check(&self) -> Result<()> {
        self.check_table()?;
        check_length(self.steps, self.epochs)?;
        if self.learner.is_baseline() && self.uses_neighbors() {
            return Err(Error::option(
                "pairs_from",
                format!("must be random for `{}`", self.learner),
            ));
        }
        if self.is_online() && self.pairs_from == Some(PairsFrom::Neighbors) {
            return Err(Error::option(
                "pairs_from",
                "must be random for `--solver online`: pairs of neighbors are for batch solvers",
            ));
        }
        if !self.is_online() && self.learner == MetricLearner::ConeVonNeumann {
            return Err(Error::option(
                "solver",
                "must be online for `cone-von-neumann`, which learns one pair after the other",
            ));
        }
        Ok(())
    }
}

/// What a metric is learned from.
#[derive(Debug, Clone, Copy)]
pub struct MetricData<'a, R> {
    /// Rows, with classes unless there are constraints.
    pub rows: &'a Labelled<R>,
    /// What is known of distances of rows, instead of classes.
    pub constraints: Option<&'a [Constraint]>,
    /// Rows with classes to validate by.
    pub valid: Option<&'a Labelled<R>>,
}

impl<'a, R> From<&'a Labelled<R>> for MetricData<'a, R> {
    fn from(rows: &'a Labelled<R>) -> Self {
        MetricData {
            rows,
            constraints: None,
            valid: None,
        }
    }
}

impl<'a, R: Real> Learn<MetricData<'a, R>> for Metric {
    fn learn(&self, data: MetricData<'a, R>, run: Run<'_>) -> Result<Fit> {
        self.fit_with(data, run)
    }
}
