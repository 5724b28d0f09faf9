//! Regression on pairs: score(left, right) = leftᵀ W right should be a given number.
//!
//! A pair of a row and an object, or of two rows, is the example left ⊗ right at the
//! seam as it is, with squared loss.

mod batch;
mod evaluation;
mod inputs;
mod online;
mod session;

pub use batch::PairsBatch;
pub use evaluation::PairsEvaluation;
pub use session::PairsSession;

use super::checkpoint::TaskOptions;
use super::inputs::TrainingData;
use super::session::Event;
use crate::data::ValuedPair;
use crate::linalg::Retraction;
use crate::model::{Model, Steps};
use crate::online::{Rule, Step};
use crate::{Error, Real, Result};
use serde::{Deserialize, Serialize};

/// How values of pairs are learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairsSolver {
    /// One pair after the other.
    Online,
    /// All at once, by steps along the gradient ([`Pairs::fit_batch`]).
    Descent,
    /// The same by conjugate directions.
    Cg,
    /// The same by Gauss–Newton steps inside a trust region.
    TrustRegion,
}

/// Learns values of pairs: options with their defaults, then [`Pairs::fit`] for a
/// whole data set, or [`Pairs::session`] to drive the training.
///
/// ```
/// use rankfold::data::{Labelled, ValuedPair};
/// use rankfold::{Pairs, Rows};
///
/// let rows = Rows::from_dense([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
/// let rows = Labelled::new(rows.unwrap());
///
/// // value = u_left · v_right, a matrix of rank 1.
/// let pairs: Vec<ValuedPair> = (0..9)
///     .map(|i| (i / 3, i % 3))
///     .map(|(left, right)| ValuedPair {
///         left,
///         right,
///         value: f64::from((left + 1) * (3 - right)),
///     })
///     .collect();
/// let model = Pairs::balanced().rank(1).epochs(300).fit(&rows, &pairs).unwrap();
/// let found = model.evaluate_pairs(&rows, None, &pairs).unwrap();
/// assert!(found.model["rmse"] < 0.1 * found.control["rmse"]);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pairs {
    learner: Rule,
    solver: PairsSolver,
    rank: usize,
    steps: Option<u64>,
    epochs: Option<u64>,
    step_size: Option<f64>,
    /// `None` is the paper's rule: no limit.
    step_limit: Option<f64>,
    decay: Option<f64>,
    regularization: f64,
    retraction: Retraction,
    seed: u64,
    preprocess: Steps,
    valid_fraction: f64,
    patience: Option<u32>,
    curve_every: Option<u64>,
}

impl Default for Pairs {
    fn default() -> Self {
        Self::balanced()
    }
}

impl TaskOptions for Pairs {
    const TASK: &'static str = "pairs";
}

/// Passes over the pairs unless others are asked for.
const EPOCHS: u64 = 10;

impl Pairs {
    /// The learners of values.
    pub const RULES: [Rule; 4] = [Rule::Balanced, Rule::Polar, Rule::Loreta, Rule::Gradient];

    /// The default learner: the balanced geometry of matrices of rank k.
    pub fn balanced() -> Self {
        Self::new(Rule::Balanced)
    }

    /// The polar geometry.
    pub fn polar() -> Self {
        Self::new(Rule::Polar)
    }

    /// By the name of the learner, one of [`Pairs::RULES`].
    pub fn new(learner: Rule) -> Self {
        Pairs {
            learner,
            solver: PairsSolver::Online,
            rank: 10,
            steps: None,
            epochs: None,
            step_size: None,
            step_limit: Some(Step::LIMIT),
            decay: None,
            regularization: 0.0,
            retraction: Retraction::Uf,
            seed: 0,
            preprocess: Steps::default(),
            valid_fraction: 0.0,
            patience: None,
            curve_every: None,
        }
    }

    /// The rule that learns.
    pub fn rule(&self) -> Rule {
        self.learner
    }

    /// How it learns. Default: online.
    pub fn solver(mut self, solver: PairsSolver) -> Self {
        self.solver = solver;
        self
    }

    /// Rank of W, at most the number of features of either side. Default 10.
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = rank;
        self
    }

    /// How many pairs to learn from, one after the other. Default: ten passes.
    pub fn steps(mut self, steps: u64) -> Self {
        self.steps = Some(steps);
        self
    }

    /// The same in passes over the pairs.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = Some(epochs);
        self
    }

    /// Step size, above 0. Default: chosen by a short pre-training run.
    pub fn step_size(mut self, size: f64) -> Self {
        self.step_size = Some(size);
        self
    }

    /// Largest relative change one step may make. Default 2; `None` for the
    /// paper's rule.
    pub fn step_limit(mut self, limit: Option<f64>) -> Self {
        self.step_limit = limit;
        self
    }

    /// After so many pairs the step is half as long, after twice as many a third,
    /// and so on. Default: the step stays as it is.
    pub fn decay(mut self, pairs: f64) -> Self {
        self.decay = Some(pairs);
        self
    }

    /// λ of the regulariser: λ/2 ‖W‖², for `gradient` λ/2 (‖G‖² + ‖H‖²). Default 0.
    pub fn regularization(mut self, lambda: f64) -> Self {
        self.regularization = lambda;
        self
    }

    /// The way back to orthonormal columns of `polar`. Default `uf`.
    pub fn retraction(mut self, retraction: Retraction) -> Self {
        self.retraction = retraction;
        self
    }

    /// Seed of everything random. Default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What is done to rows first; the model keeps it. Default: nothing.
    pub fn preprocess(mut self, steps: Steps) -> Self {
        self.preprocess = steps;
        self
    }

    /// Share of the pairs held out for validation, from 0 to below 1. Default 0.
    pub fn valid_fraction(mut self, fraction: f64) -> Self {
        self.valid_fraction = fraction;
        self
    }

    /// Stop after this many measurements without a better validation error.
    pub fn patience(mut self, checks: u32) -> Self {
        self.patience = Some(checks);
        self
    }

    /// Steps between two points of the learning curve, at which validation is
    /// measured. Default: a twentieth of the steps.
    pub fn curve_every(mut self, steps: u64) -> Self {
        self.curve_every = Some(steps);
        self
    }

    /// Checks all options at once; a session does so too.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::input(message));
        let name = self.learner.name();
        if !Self::RULES.contains(&self.learner) {
            let known = Self::RULES.map(|rule| format!("`{}`", rule.name()));
            return refuse(format!(
                "`{name}` does not learn values of pairs: expected one of {}",
                known.join(", ")
            ));
        }
        if self.rank == 0 {
            return refuse("the rank must be at least 1".into());
        }
        let above_zero = [
            ("step size", self.step_size),
            ("step limit", self.step_limit),
            ("decay", self.decay),
        ];
        for (what, value) in above_zero {
            let limit = what == "step limit" && value == Some(f64::INFINITY);
            if let Some(value) = value
                && !(value.is_finite() && value > 0.0 || limit)
            {
                return refuse(format!("the {what} must be above 0, found {value}"));
            }
        }
        let lambda = self.regularization;
        if !(lambda.is_finite() && lambda >= 0.0) {
            return refuse(format!(
                "the regularization must be at least 0, found {lambda}"
            ));
        }
        if lambda > 0.0 && !self.learner.is_regularizable() {
            return refuse(format!("`{name}` has no regularization"));
        }
        if self.retraction != Retraction::Uf && self.learner != Rule::Polar {
            return refuse(format!("`{name}` has no retraction to choose: `polar` has"));
        }
        if self.solver != PairsSolver::Online {
            if self.decay.is_some() {
                return refuse("a decay is for the solver `online`".into());
            }
            if self.epochs.is_some() {
                return refuse(
                    "a solver in batch counts iterations: give steps, not epochs".into(),
                );
            }
        }
        if !(0.0..1.0).contains(&self.valid_fraction) {
            return refuse(format!(
                "the validation fraction must be at least 0 and below 1, found {}",
                self.valid_fraction
            ));
        }
        if self.curve_every == Some(0) {
            return refuse("the interval of the curve must be at least 1 step".into());
        }
        if self.patience == Some(0) {
            return refuse("the patience must be at least 1".into());
        }
        Ok(())
    }

    /// Pairs of a whole run, where one pass has so many.
    fn total(&self, epoch: u64) -> u64 {
        match (self.steps, self.epochs) {
            (Some(steps), _) => steps,
            (None, epochs) => epochs.unwrap_or(EPOCHS).saturating_mul(epoch),
        }
    }

    /// Learns from pairs of rows, or of rows and objects, until the steps are done or
    /// the solver has converged.
    pub fn fit<'a, R: Real>(
        &self,
        data: impl Into<TrainingData<'a, R>>,
        pairs: &[ValuedPair],
    ) -> Result<Model> {
        if self.solver != PairsSolver::Online {
            let fitted = self.fit_batch(data, pairs, None, &mut |_| true)?;
            return Ok(fitted.model);
        }
        let mut session = self.session(data, pairs)?;
        while !matches!(session.advance(u64::MAX)?, Event::Finished(_)) {}
        session.into_model()
    }

    /// A training run that the caller drives: with progress, interruptions and
    /// checkpoints.
    pub fn session<'a, R: Real>(
        &self,
        data: impl Into<TrainingData<'a, R>>,
        pairs: &[ValuedPair],
    ) -> Result<PairsSession<'a, R>> {
        PairsSession::new(self, data.into(), pairs, None)
    }
}
