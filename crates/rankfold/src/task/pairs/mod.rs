//! Regression on pairs: score(left, right) = leftᵀ W right should be a given number.
//!
//! A pair of a row and an object, or of two rows, is the example left ⊗ right at the
//! seam as it is, with squared loss.

mod batch;
mod evaluation;
mod inputs;
mod online;
mod session;

pub use session::PairsSession;

use super::inputs::TrainingData;
use super::run::{Fit, Run};
use super::{LARGEST_BATCH, Learn, check_length};
use crate::data::ValuedPair;
use crate::linalg::Retraction;
use crate::model::Model;
use crate::online::{Rule, Step};
use crate::options::{Options, Range};
use crate::{Real, Result, choices, options};

choices! {
    /// How values of pairs are learned.
    pub enum PairsSolver {
        /// One pair after the other
        Online = "online",
        /// All pairs at once: steps along the gradient, found by halving
        Descent = "descent",
        /// All pairs at once: conjugate gradients
        Cg = "cg",
        /// All pairs at once: Gauss–Newton steps in a trust region
        TrustRegion = "trust-region",
    }
}

options! {
    /// Learns values of pairs: options with their defaults, then [`Pairs::fit`] for a
    /// whole data set, or [`Pairs::session`] to drive the training.
    ///
    /// ```
    /// use rankfold::data::{Labelled, ValuedPair};
    /// use rankfold::{Pairs, Rows};
    ///
    /// let rows = Rows::from_dense([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])?;
    /// let rows = Labelled::new(rows);
    /// // value = u_left · v_right, a matrix of rank 1.
    /// let pairs: Vec<ValuedPair> = (0..9)
    ///     .map(|i| (i / 3, i % 3))
    ///     .map(|(left, right)| ValuedPair {
    ///         left,
    ///         right,
    ///         value: f64::from((left + 1) * (3 - right)),
    ///     })
    ///     .collect();
    /// let model = Pairs::default().rank(1).epochs(300).fit(&rows, &pairs)?;
    /// let found = model.evaluate_pairs(&rows, None, &pairs, None)?;
    /// assert!(found.metrics["rmse"] < 0.1 * found.baselines[0].metrics["rmse"]);
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub struct Pairs: "pairs" {
        /// Learning algorithm.
        learner: Rule = Rule::Balanced, among ["balanced", "polar", "loreta", "gradient"];
        /// Learn from one pair after the other, or from all at once.
        solver: PairsSolver = PairsSolver::Online;
        /// Rank of W, at most the number of features of either side; the default is
        /// lowered to that.
        rank: usize = 10, in Range::COUNT;
        /// Number of pairs to learn from, one after the other [default: 10 passes].
        steps: Option<u64> = None, for "`--solver online`" if Pairs::is_online, effect Length;
        /// Number of passes over the pairs, instead of `steps`.
        epochs: Option<u64> = None, for "`--solver online`" if Pairs::is_online, effect Length;
        /// Iterations of a batch solver at most [default: 200].
        iterations: Option<u64> = None,
            for "solvers other than `online`" if |o| !o.is_online(), effect Length;
        /// s₀ of descent: the first step tried is s₀/‖gradient‖, halved until the cost falls enough
        /// [default: the minimum of the local model].
        first_step: Option<f64> = None, in Range::POSITIVE,
            for "`--solver descent`" if |o| o.solver == PairsSolver::Descent;
        /// Step size of online learning [default: the best of several in a short trial]. In
        /// batch it is kept for later updates.
        step_size: Option<f64> = None, in Range::POSITIVE;
        /// Largest relative change of W that one step may make; `inf` for none.
        step_limit: f64 = Step::LIMIT, in Range::LIMIT,
            for "learners other than `gradient`" if |o| o.learner.has_limit();
        /// Pairs that make one step together; the steps are rounded up to whole batches.
        batch: usize = 1, within Range::between(1.0, LARGEST_BATCH as f64),
            for "`--solver online` of learners other than `gradient`"
            if |o| o.is_online() && o.learner.has_batches();
        /// Let the step shrink: it is half as long after this many pairs, and a third after
        /// twice as many.
        decay: Option<f64> = None, in Range::POSITIVE,
            for "`--solver online`" if Pairs::is_online;
        /// λ of the regularizer λ/2 ‖W‖², for `gradient` λ/2 (‖G‖² + ‖H‖²).
        regularization: f64 = 0.0, in Range::NOT_NEGATIVE,
            for "learners other than `loreta`" if |o| o.learner.is_regularizable();
        /// How the factors of `polar` return to orthonormal columns.
        retraction: Retraction = Retraction::Uf,
            for "`--learner polar`" if |o| o.learner == Rule::Polar;
        shared init;
        shared seed;
        shared preprocessing;
        shared valid_fraction;
        shared patience;
        shared curve_every;
    }
}

/// Passes over the pairs unless others are asked for.
const EPOCHS: u64 = 10;

impl Pairs {
    /// By the name of the learner.
    pub fn new(learner: Rule) -> Self {
        Self::default().learner(learner)
    }

    fn is_online(&self) -> bool {
        self.solver == PairsSolver::Online
    }

    /// Checks all options at once; a session does so too.
    pub fn check(&self) -> Result<()> {
        self.check_table()?;
        check_length(self.steps, self.epochs)
    }

    /// Pairs of a whole run, where one pass has so many.
    fn total(&self, epoch: u64) -> u64 {
        match (self.steps, self.epochs) {
            (Some(steps), _) => steps,
            (None, epochs) => epochs.unwrap_or(EPOCHS).saturating_mul(epoch),
        }
    }

    /// Learns from pairs of rows, or of rows and objects.
    pub fn fit<'a, R: Real>(
        &self,
        data: impl Into<TrainingData<'a, R>>,
        pairs: &[ValuedPair],
    ) -> Result<Model> {
        let data = PairsData {
            data: data.into(),
            pairs,
            valid: None,
        };
        Ok(self.fit_with(data, Run::default())?.model)
    }

    /// The same with validation pairs, an observer and checkpoints.
    pub fn fit_with<R: Real>(&self, data: PairsData<'_, R>, mut run: Run<'_>) -> Result<Fit> {
        self.check()?;
        if !self.is_online() {
            return self.fit_batch(data, run);
        }
        match run.take_checkpoint() {
            Some(checkpoint) => self.resume(data, &checkpoint)?.drive(run),
            None => self.begin_session(data, &mut run)?.drive(run),
        }
    }
}

/// What values of pairs are learned from.
#[derive(Debug, Clone, Copy)]
pub struct PairsData<'a, R> {
    /// Rows, and the objects that they are paired with where these are other things.
    pub data: TrainingData<'a, R>,
    /// Pairs with their values.
    pub pairs: &'a [ValuedPair],
    /// Pairs of the same rows to validate by.
    pub valid: Option<&'a [ValuedPair]>,
}

impl<'a, R: Real> Learn<PairsData<'a, R>> for Pairs {
    fn learn(&self, data: PairsData<'a, R>, run: Run<'_>) -> Result<Fit> {
        self.fit_with(data, run)
    }
}
