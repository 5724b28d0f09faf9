//! Kernels: a low-rank matrix K of items by items whose distances
//! d(i, j)² = K_ii + K_jj − 2 K_ij keep to what is known of them; and maps, whose
//! distances are as near as can be to given dissimilarities.
//!
//! Items have no features but themselves, so W is the kernel matrix and a row of
//! its factor is an item. Distances are roots wherever a user meets them; learning
//! works on squares.

mod evaluation;
mod fit;
mod map;
mod source;

pub use evaluation::KernelTruth;
pub use fit::KernelConstraints;
pub use map::{Map, MapData, MapUpdate};
pub use source::KernelStart;

use super::metric::{MetricLearner, MetricSolver};
use super::run::{Fit, Run};
use super::{Learn, threads};
use crate::data::Labelled;
use crate::linalg::Retraction;
use crate::model::{KernelFunction, Model, Steps};
use crate::options::Options;
use crate::{Error, Real, Result, choices, options};

choices! {
    /// The kernel of rows that K starts from.
    pub enum KernelName {
        /// x · y
        Linear = "linear",
        /// exp(−γ ‖x − y‖²), centered
        Gaussian = "gaussian",
    }
}

choices! {
    /// Where learning starts.
    pub enum KernelInit {
        /// The best approximation of the starting kernel
        Start = "start",
        /// The same, after distances were learned in its range
        Range = "range",
        /// The kernel of a model: give its file
        Model = "model",
    }
}

options! {
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
    /// let model = Kernel::default().rank(2).constraints(200).fit(&rows).unwrap();
    /// let found = model.evaluate_kernel(KernelTruth::of(&rows)).unwrap();
    /// assert!(found.metrics["nmi"] > found.baselines[0].metrics["nmi"]);
    /// ```
    pub struct Kernel: "kernel" {
        /// Learning algorithm.
        learner: MetricLearner = MetricLearner::Polar,
            among ["polar", "flat", "cone-affine", "cone-logdet", "cone-log", "cone-flat"];
        /// How the cost is lowered [default: cg in the range of the start, descent by long
        /// steps after it].
        solver: Option<MetricSolver> = None, among ["descent", "cg", "trust-region"];
        /// Rank of K, at most the number of items; the default is lowered to the rank of the
        /// start.
        rank: usize = RANK, in Range::COUNT, for "`polar` and `flat`" if |o| !o.learner.is_cone();
        /// The kernel of rows that K starts from.
        kernel: KernelName = KernelName::Linear;
        /// γ of the Gaussian kernel [default: 1 over the mean squared distance of two rows].
        gamma: Option<f64> = None, in Range::POSITIVE,
            for "`--kernel gaussian`" if |o| o.kernel == KernelName::Gaussian;
        /// By what share squared distances should shrink inside a class and grow between
        /// classes.
        alpha: f64 = 0.25, in Range::SHARE;
        /// Number of random pairs, by labels [default: 10 an item, up to 100,000].
        constraints: Option<usize> = None, in Range::COUNT;
        /// Where learning starts [default: range for `polar`, start for others].
        init: Option<KernelInit> = None;
        /// Iterations at most, in the range of the start and after it.
        iterations: usize = 300, in Range::COUNT, effect Length;
        /// Stop when an iteration lowers the cost, or moves K, by at most this share.
        tolerance: f64 = 1e-9, in Range::NOT_NEGATIVE;
        /// λ of `polar`: 0 learns in the subspace of the start only.
        subspace_weight: f64 = 0.5, in Range::UNIT,
            for "`--learner polar`" if |o| o.learner == MetricLearner::Polar;
        /// How the factor of `polar` returns to orthonormal columns.
        retraction: Retraction = Retraction::Uf,
            for "`--learner polar`" if |o| o.learner == MetricLearner::Polar;
        shared seed;
        shared threads;
        shared preprocessing;
        shared curve_every;
    }
}

/// The rank, where the start has as many directions, unless another is asked for.
const RANK: usize = 20;

impl Kernel {
    /// By the name of the learner.
    pub fn new(learner: MetricLearner) -> Self {
        Self::default().learner(learner)
    }

    fn thread_count(&self) -> usize {
        threads(self.threads)
    }

    fn steps_of_rows(&self) -> Steps {
        Steps::of(self.weight, self.normalize, self.standardize)
    }

    fn function(&self) -> KernelFunction {
        match self.kernel {
            KernelName::Linear => KernelFunction::Linear,
            KernelName::Gaussian => KernelFunction::Gaussian { gamma: self.gamma },
        }
    }

    /// The rank that was asked for.
    fn rank_given(&self) -> Option<usize> {
        (self.rank != RANK).then_some(self.rank)
    }

    /// Learns from rows with classes.
    pub fn fit<R: Real>(&self, data: &Labelled<R>) -> Result<Model> {
        Ok(self.fit_with(data.into(), Run::default())?.model)
    }

    /// Whether the range of the start is learned in first.
    fn is_warm(&self) -> bool {
        let polar = self.learner == MetricLearner::Polar;
        let usual = match polar {
            true => KernelInit::Range,
            false => KernelInit::Start,
        };
        self.init.unwrap_or(usual) == KernelInit::Range || self.is_fixed_range()
    }

    /// Whether it is all that is learned in.
    fn is_fixed_range(&self) -> bool {
        self.learner == MetricLearner::Polar && self.subspace_weight == 0.0
    }

    /// Checks options that do not depend on the data.
    pub fn check(&self) -> Result<()> {
        self.check_table()?;
        match self.is_fixed_range() && self.init == Some(KernelInit::Start) {
            true => Err(Error::option(
                "init",
                "must be range with `--subspace-weight 0`, which learns in the range of the start only",
            )),
            false => Ok(()),
        }
    }
}

/// What a kernel is learned from.
#[derive(Debug, Clone, Copy)]
pub struct KernelData<'a, R> {
    /// Where K starts.
    pub start: KernelStart<'a, R>,
    /// What is known of distances.
    pub truth: KernelConstraints<'a>,
}

impl<'a, R> From<&'a Labelled<R>> for KernelData<'a, R> {
    fn from(rows: &'a Labelled<R>) -> Self {
        KernelData {
            start: KernelStart::Rows(rows),
            truth: KernelConstraints::Labels(&rows.labels),
        }
    }
}

impl<'a, R: Real> Learn<KernelData<'a, R>> for Kernel {
    fn learn(&self, data: KernelData<'a, R>, run: Run<'_>) -> Result<Fit> {
        self.fit_with(data, run)
    }
}
