//! Kernels: a low-rank matrix K of items by items whose distances
//! d(i, j)² = K_ii + K_jj − 2 K_ij keep to what is known of them; and maps, whose
//! distances are as near as can be to given dissimilarities.
//!
//! Items have no features but themselves, so W is the kernel matrix and a row of
//! its factor is an item. Distances are roots wherever a user meets them; learning
//! works on squares.

mod evaluation;
mod fit;
mod lift;
mod map;
mod source;
mod starts;

pub use evaluation::KernelTruth;
pub use fit::{KernelConstraints, KernelFit};
pub use map::{Map, MapFit, MapUpdate};
pub use source::KernelStart;

use super::metric::{MetricLearner, MetricSolver};
use crate::data::Labelled;
use crate::linalg::Retraction;
use crate::model::{KernelFunction, Model, Steps};
use crate::{Error, Real, Result};

/// Learns kernels: options with their defaults, then [`Kernel::fit`].
///
/// ```
/// use rankfold::Rows;
/// use rankfold::data::{Labelled, Labels};
/// use rankfold::task::{Kernel, KernelTruth};
///
/// // Classes differ in the second column; the first varies more.
/// let rows = (0..40).map(|i| [f64::from(i * 7 % 40), f64::from(i % 2 * 3 + i % 3)]);
/// let rows = Labelled::new(Rows::from_dense(rows).unwrap());
/// let rows = rows.with_labels(Labels::single((0..40).map(|i| i % 2))).unwrap();
///
/// let model = Kernel::polar().rank(2).constraints(200).fit(&rows).unwrap();
/// let found = model.evaluate_kernel(KernelTruth::of(&rows)).unwrap();
/// assert!(found.metrics["nmi"] > found.baselines[0].metrics["nmi"]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    learner: MetricLearner,
    solver: Option<MetricSolver>,
    rank: Option<usize>,
    function: KernelFunction,
    alpha: f64,
    constraints: Option<usize>,
    warm: Option<bool>,
    iterations: usize,
    tolerance: f64,
    subspace_weight: f64,
    retraction: Retraction,
    seed: u64,
    threads: usize,
    preprocess: Steps,
}

/// The rank, where the start has as many directions, unless another is asked for.
const RANK: usize = 20;

/// Iterations of each of the two parts of a run.
const ITERATIONS: usize = 300;

impl Default for Kernel {
    fn default() -> Self {
        Self::polar()
    }
}

impl Kernel {
    /// The polar geometry of W = U B Uᵀ.
    pub fn polar() -> Self {
        Self::new(MetricLearner::Polar)
    }

    /// The flat geometry of W = G Gᵀ.
    pub fn flat() -> Self {
        Self::new(MetricLearner::Flat)
    }

    /// By the name of the learner.
    pub fn new(learner: MetricLearner) -> Self {
        Kernel {
            learner,
            solver: None,
            rank: None,
            function: KernelFunction::Linear,
            alpha: 0.25,
            constraints: None,
            warm: None,
            iterations: ITERATIONS,
            tolerance: 1e-9,
            subspace_weight: 0.5,
            retraction: Retraction::Uf,
            seed: 0,
            threads: 1,
            preprocess: Steps::default(),
        }
    }

    /// The learner.
    pub fn learner(&self) -> MetricLearner {
        self.learner
    }

    /// How the cost is lowered. By default conjugate gradients in the range of the
    /// start and descent by long steps after it: of all kernels that keep to the
    /// constraints, long steps find one that keeps to them with more room.
    pub fn solver(mut self, solver: MetricSolver) -> Self {
        self.solver = Some(solver);
        self
    }

    /// The rank of W; by default 20, or that of the start where it is less.
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = Some(rank);
        self
    }

    /// The kernel of rows that W starts from.
    pub fn function(mut self, function: KernelFunction) -> Self {
        self.function = function;
        self
    }

    /// α: distances should shrink by this share inside a class, and grow by it
    /// between classes.
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.alpha = alpha;
        self
    }

    /// How many random pairs are drawn where items have labels; by default 10 an
    /// item, up to 100,000.
    pub fn constraints(mut self, count: usize) -> Self {
        self.constraints = Some(count);
        self
    }

    /// Whether distances in the subspace of the start are learned first. By default
    /// polar learning does so, and flat learning does not.
    pub fn warm(mut self, warm: bool) -> Self {
        self.warm = Some(warm);
        self
    }

    /// Iterations at most, of each of the two parts of a run.
    pub fn iterations(mut self, iterations: usize) -> Self {
        self.iterations = iterations;
        self
    }

    /// When to stop: an iteration lowers the cost, or moves G, by at most this share.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// λ of the polar geometry: 0 keeps the subspace as it is.
    pub fn subspace_weight(mut self, weight: f64) -> Self {
        self.subspace_weight = weight;
        self
    }

    /// The way back to orthonormal columns, in the polar geometry.
    pub fn retraction(mut self, retraction: Retraction) -> Self {
        self.retraction = retraction;
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

    /// Learns from rows with classes.
    pub fn fit<R: Real>(&self, data: &Labelled<R>) -> Result<Model> {
        let start = KernelStart::Rows(data);
        let truth = KernelConstraints::Labels(&data.labels);
        let fit = self.fit_with(start, truth, &mut |_| true)?;
        Ok(fit.model)
    }

    /// Whether the range of the start is learned in first.
    fn is_warm(&self) -> bool {
        let polar = self.learner == MetricLearner::Polar;
        self.warm.unwrap_or(polar) || self.is_fixed_range()
    }

    /// Whether it is all that is learned in.
    fn is_fixed_range(&self) -> bool {
        self.learner == MetricLearner::Polar && self.subspace_weight == 0.0
    }

    /// Checks options that do not depend on the data.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::input(message));
        if self.learner.is_baseline() {
            return refuse(format!("`{}` does not learn kernels", self.learner.name()));
        }
        if self.rank == Some(0) {
            return refuse("the rank must be at least 1".into());
        }
        if self.learner.is_cone() && self.rank.is_some() {
            return refuse(format!(
                "`{}` learns matrices of full rank: leave the rank out",
                self.learner.name()
            ));
        }
        if !(0.0..=1.0).contains(&self.subspace_weight) {
            return refuse(format!(
                "the subspace weight must be from 0 to 1, found {}",
                self.subspace_weight
            ));
        }
        if !(0.0..1.0).contains(&self.alpha) {
            return refuse(format!(
                "alpha must be from 0 to below 1, found {}",
                self.alpha
            ));
        }
        if let KernelFunction::Gaussian { gamma: Some(gamma) } = self.function
            && !(gamma > 0.0 && gamma.is_finite())
        {
            return refuse(format!("gamma must be above 0, found {gamma}"));
        }
        if !(self.tolerance >= 0.0) {
            return refuse("the tolerance must be at least 0".into());
        }
        Ok(())
    }
}
