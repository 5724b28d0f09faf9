//! Ranking labels: score(row, label) = rowᵀ W e(label) + bias(label), learned from
//! rows that carry several labels each.
//!
//! W has a row for each feature and a column for each label, as with any other
//! objects whose features are their names. A row that a label is missing from is a
//! row ⊗ (label − wrong label) at the seam, so that all learners serve.

mod evaluation;
mod inputs;
mod labels;
mod online;
mod session;
mod start;
mod violation;

pub use evaluation::{LabelEvaluation, LabelScores};
pub(super) use online::LabelLearner;
pub use session::{RankingSession, draws};
pub use violation::{
    RankingRule, Sampler, Subgradient, Violation, WARP_TRIALS, multilabel_hinge, warp,
};

use super::checkpoint::TaskOptions;
use super::session::Event;
use super::similarity::Init;
use crate::data::Labelled;
use crate::model::{Model, Steps};
use crate::online::{Rule, Shape, Step};
use crate::{Error, Real, Result};
use serde::{Deserialize, Serialize};

/// The order in which rows are learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Another one in every pass, drawn by the seed.
    Shuffled,
    /// As they come.
    Given,
}

/// Learns to rank labels: options with their defaults, then [`Ranking::fit`] for a
/// whole data set, or [`Ranking::session`] to drive the training.
///
/// ```
/// use rankfold::data::{Labelled, Labels};
/// use rankfold::{Ranking, Rows};
///
/// let rows = [[1.0_f32, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
/// let labels = Labels::several([vec!["sea", "sky"], vec!["sea"], vec!["city", "sky"]]);
/// let train = Labelled::new(Rows::from_dense(rows).unwrap()).with_labels(labels).unwrap();
///
/// let model = Ranking::loreta().rank(2).epochs(20).seed(1).fit(&train).unwrap();
/// assert_eq!((model.rank(), model.label_names().unwrap().len()), (2, 3));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ranking {
    learner: Rule,
    rank: usize,
    steps: Option<u64>,
    epochs: Option<u64>,
    step_size: Option<f64>,
    /// `None` is the paper's rule: no limit.
    step_limit: Option<f64>,
    decay: Option<f64>,
    aggressiveness: f64,
    sampler: Sampler,
    gradient: Subgradient,
    bias: Option<f64>,
    popularity: Option<f64>,
    average: bool,
    init: Init,
    order: Order,
    seed: u64,
    preprocess: Steps,
    valid_fraction: f64,
    patience: Option<u32>,
    curve_every: Option<u64>,
    threads: usize,
}

impl Default for Ranking {
    fn default() -> Self {
        Self::loreta()
    }
}

impl TaskOptions for Ranking {
    const TASK: &'static str = "ranking";
}

/// Passes over the rows unless others are asked for.
const EPOCHS: u64 = 10;

impl Ranking {
    /// The learners that rank labels.
    pub const RULES: [Rule; 4] = [
        Rule::Loreta,
        Rule::PassiveAggressive,
        Rule::Perceptron,
        Rule::GroupPerceptron,
    ];

    /// The default learner: matrices of rank k.
    pub fn loreta() -> Self {
        Self::new(Rule::Loreta)
    }

    /// By the name of the learner, one of [`Ranking::RULES`].
    pub fn new(learner: Rule) -> Self {
        Ranking {
            learner,
            rank: 50,
            steps: None,
            epochs: None,
            step_size: None,
            step_limit: Some(Step::LIMIT),
            decay: None,
            aggressiveness: 0.1,
            sampler: Sampler::Top,
            gradient: Subgradient::Single,
            bias: None,
            popularity: None,
            average: false,
            init: Init::Zero,
            order: Order::Shuffled,
            seed: 0,
            preprocess: Steps::default(),
            valid_fraction: 0.0,
            patience: None,
            curve_every: None,
            threads: 1,
        }
    }

    /// The rule that learns.
    pub fn rule(&self) -> Rule {
        self.learner
    }

    /// Rank of W, at most the number of features and that of labels. Default 50.
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = rank;
        self
    }

    /// How many rows to learn from, one after the other. Default: ten passes.
    pub fn steps(mut self, steps: u64) -> Self {
        self.steps = Some(steps);
        self
    }

    /// The same in passes over the rows.
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

    /// After so many rows the step is half as long, after twice as many a third,
    /// and so on. Default: the step stays as it is.
    pub fn decay(mut self, rows: f64) -> Self {
        self.decay = Some(rows);
        self
    }

    /// The longest step of passive-aggressive learning, C. Default 0.1.
    pub fn aggressiveness(mut self, cap: f64) -> Self {
        self.aggressiveness = cap;
        self
    }

    /// Which wrong label to learn from. Default: the best scoring one.
    pub fn sampler(mut self, sampler: Sampler) -> Self {
        self.sampler = sampler;
        self
    }

    /// How it weighs beside several right ones. Default: once.
    pub fn gradient(mut self, gradient: Subgradient) -> Self {
        self.gradient = gradient;
        self
    }

    /// Length of the steps of biases as a share of those of W; with 0 they stay
    /// where they start. Default: [`Sampler::bias`].
    pub fn bias(mut self, share: f64) -> Self {
        self.bias = Some(share);
        self
    }

    /// Biases start as so many times the logarithm of the share of rows that have
    /// the label; 0 starts without. Default: [`Sampler::popularity`].
    pub fn popularity(mut self, weight: f64) -> Self {
        self.popularity = Some(weight);
        self
    }

    /// Gives the average of W and the biases over the run, later ones weighing
    /// more, instead of the last ones.
    pub fn average(mut self, average: bool) -> Self {
        self.average = average;
        self
    }

    /// Where training starts. Default: from zero. Full matrices start at zero.
    pub fn init(mut self, init: Init) -> Self {
        self.init = init;
        self
    }

    /// The order of rows. Default: shuffled.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
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

    /// Share of the rows held out for validation, from 0 to below 1. Default 0.
    pub fn valid_fraction(mut self, fraction: f64) -> Self {
        self.valid_fraction = fraction;
        self
    }

    /// Stop after this many measurements without a better validation mAP.
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

    /// Threads for validation. Training itself uses one, by design; results do
    /// not depend on this. Default 1.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Checks all options at once; a session does so too.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::input(message));
        let name = self.learner.name();
        if !Self::RULES.contains(&self.learner) {
            let known = Self::RULES.map(|rule| format!("`{}`", rule.name()));
            return refuse(format!(
                "`{name}` does not rank labels: expected one of {}",
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
            ("aggressiveness", Some(self.aggressiveness)),
        ];
        for (what, value) in above_zero {
            let limit = what == "step limit" && value == Some(f64::INFINITY);
            if let Some(value) = value
                && !(value.is_finite() && value > 0.0 || limit)
            {
                return refuse(format!("the {what} must be above 0, found {value}"));
            }
        }
        let RankingRule { bias, .. } = self.learned();
        let not_below = [("bias", bias), ("popularity", self.start_popularity())];
        for (what, value) in not_below {
            if !(value.is_finite() && value >= 0.0) {
                return refuse(format!("the {what} must be at least 0, found {value}"));
            }
        }
        if self.learner.is_passive_aggressive()
            && (self.step_size.is_some() || self.decay.is_some())
        {
            return refuse(format!(
                "`{name}` chooses its own steps: bound them by the aggressiveness"
            ));
        }
        if self.sampler == Sampler::Warp && self.gradient == Subgradient::Summed {
            return refuse(
                "`warp` learns from one pair of labels at a time: the summed gradient needs the sampler `top`".into(),
            );
        }
        if self.learner.shape() == Shape::Full && self.init != Init::Zero {
            return refuse(format!("`{name}` starts from zero"));
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
        if self.threads == 0 {
            return refuse("the number of threads must be at least 1".into());
        }
        Ok(())
    }

    /// What is learned from a row.
    fn learned(&self) -> RankingRule {
        RankingRule {
            sampler: self.sampler,
            gradient: self.gradient,
            bias: self.bias.unwrap_or(self.sampler.bias()),
        }
    }

    /// The weight of the popularity of labels at the start.
    fn start_popularity(&self) -> f64 {
        self.popularity.unwrap_or(self.sampler.popularity())
    }

    /// Rows of a whole run, where one pass has so many.
    fn total(&self, epoch: u64) -> u64 {
        match (self.steps, self.epochs) {
            (Some(steps), _) => steps,
            (None, epochs) => epochs.unwrap_or(EPOCHS).saturating_mul(epoch),
        }
    }

    /// Learns from labelled rows until the steps are done.
    pub fn fit<R: Real>(&self, data: &Labelled<R>) -> Result<Model> {
        let mut session = self.session(data)?;
        while !matches!(session.advance(u64::MAX)?, Event::Finished(_)) {}
        session.into_model()
    }

    /// A training run on labelled rows that the caller drives: with progress,
    /// interruptions and checkpoints.
    pub fn session<'a, R: Real>(&self, data: &'a Labelled<R>) -> Result<RankingSession<'a, R>> {
        RankingSession::new(self, data, None)
    }
}
