//! Ranking labels: score(row, label) = rowᵀ W e(label) + bias(label), learned from
//! rows that carry several labels each.
//!
//! W has a row for each feature and a column for each label, as with any other
//! objects whose features are their names. A row that a label is missing from is a
//! row ⊗ (label − wrong label) at the seam, so that all learners serve.

mod choose;
mod evaluation;
mod inputs;
mod labels;
mod online;
mod session;
mod start;
mod violation;

pub use evaluation::LabelScores;
pub(super) use online::LabelLearner;
pub use session::{RankingSession, draws};
pub(super) use violation::warp_of;
pub use violation::{Violation, WARP_TRIALS, multilabel_hinge, warp};

use super::run::{Fit, Run};
use super::similarity::Init;
use super::{Learn, Rank, check_length};
use crate::data::Labelled;
use crate::model::{Card, Model, RankingRule, Sampler, Subgradient};
use crate::online::{Rule, Step};
use crate::options::Options;
use crate::{Real, Result, choices, options};

choices! {
    /// The order in which rows are learned from.
    pub enum Order {
        /// Another order in each pass, drawn by the seed
        Shuffled = "shuffled",
        /// As they come
        Given = "given",
    }
}

options! {
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
    /// let model = Ranking::default().rank(2).epochs(20).seed(1).fit(&train).unwrap();
    /// assert_eq!((model.rank(), model.label_names().unwrap().len()), (2, 3));
    /// ```
    pub struct Ranking: "ranking" {
        /// Learning algorithm.
        learner: Rule = Rule::Loreta,
            among ["loreta", "passive-aggressive", "perceptron", "group-perceptron"];
        /// Rank of W, at most the number of features and that of labels. `auto` takes the
        /// smallest that does about as well as any on held-out rows; after other starts than
        /// `ridge` it is 50, or less where the data are small.
        rank: Rank = Rank::AUTO, in Range::COUNT,
            for "`loreta` and `passive-aggressive`" if |o| o.learner.is_low_rank();
        /// Number of rows to learn from, one after the other [default: after `--init ridge` as
        /// many passes as help on held-out rows, else 10 passes].
        steps: Option<u64> = None, effect Length;
        /// Number of passes over the rows, instead of `steps`.
        epochs: Option<u64> = None, effect Length;
        /// Step size [default: the best of a few in a short trial].
        step_size: Option<f64> = None, in Range::POSITIVE,
            for "learners other than `passive-aggressive`" if Ranking::has_steps;
        /// Largest relative change of W that one step may make; `inf` for none.
        step_limit: f64 = Step::LIMIT, in Range::LIMIT,
            for "`loreta`" if |o| o.learner.has_limit();
        /// Let the step shrink: it is half as long after this many rows, and a third after
        /// twice as many.
        decay: Option<f64> = None, in Range::POSITIVE,
            for "learners other than `passive-aggressive`" if Ranking::has_steps;
        /// Longest step of passive-aggressive learning, C in the paper.
        aggressiveness: f64 = 0.1, in Range::POSITIVE,
            for "`passive-aggressive`" if |o| !o.has_steps();
        /// The wrong label that is learned from [default: warp after `--init ridge` or a
        /// model, else top].
        sampler: Option<Sampler> = None;
        /// How the wrong label weighs where several right ones score too low.
        gradient: Subgradient = Subgradient::Single,
            for "`--sampler top`" if |o| o.sampler_or_default() == Sampler::Top;
        /// Steps of the biases, as a share of those of W; 0 leaves them where they start
        /// [default: .001, with WARP .01].
        bias_step: Option<f64> = None, in Range::NOT_NEGATIVE;
        /// Biases start at this many times the logarithm of the share of rows with the label
        /// [default: .05, with WARP .2].
        popularity: Option<f64> = None, in Range::NOT_NEGATIVE,
            for "starts other than `ridge` and models, which have biases" if |o| !o.has_biases();
        /// Keep the average of W and the biases over the run, later ones weighing more, not
        /// the last ones.
        average: bool = false, for "runs whose length or other start is given: steps that are \
            chosen are averaged always" if |o| !o.chooses_length();
        /// Where W starts.
        init: Init = Init::Ridge, for "`loreta` and `passive-aggressive`"
            if |o| o.learner.is_low_rank();
        /// The order of the rows.
        order: Order = Order::Shuffled;
        shared seed;
        shared threads;
        shared chosen_preprocessing;
        shared valid_fraction;
        shared patience;
        shared curve_every;
    }
}

/// Passes over the rows unless others are asked for, after other starts than `ridge`.
const EPOCHS: u64 = 10;

/// The rank where it is to be chosen and nothing is tried.
const RANK: usize = 50;

impl Ranking {
    /// By the name of the learner.
    pub fn new(learner: Rule) -> Self {
        Self::default().learner(learner)
    }

    fn has_steps(&self) -> bool {
        !self.learner.is_passive_aggressive()
    }

    /// Whether the run starts from the closed form.
    fn is_ridge(&self) -> bool {
        self.learner.is_low_rank() && self.init == Init::Ridge
    }

    /// Whether the number of steps is left open.
    fn chooses_length(&self) -> bool {
        self.is_ridge() && self.steps.is_none() && self.epochs.is_none()
    }

    /// Whether the run starts from the W of a model.
    fn is_from_model(&self) -> bool {
        self.learner.is_low_rank() && self.init == Init::Model
    }

    /// Whether the start knows biases of labels.
    fn has_biases(&self) -> bool {
        self.is_ridge() || self.is_from_model()
    }

    fn sampler_or_default(&self) -> Sampler {
        self.sampler.unwrap_or(match self.has_biases() {
            true => Sampler::Warp,
            false => Sampler::Top,
        })
    }

    /// The rank where nothing can be tried.
    pub(super) fn plain_rank(&self, features: usize, labels: usize) -> Result<usize> {
        self.rank.or(RANK, features, labels)
    }

    /// Checks all options at once; a session does so too.
    pub fn check(&self) -> Result<()> {
        self.check_table()?;
        check_length(self.steps, self.epochs)
    }

    /// What is learned from a row.
    pub(super) fn learned(&self) -> RankingRule {
        RankingRule {
            sampler: self.sampler_or_default(),
            gradient: self.gradient,
            bias: self.bias_step.unwrap_or(self.sampler_or_default().bias()),
        }
    }

    /// What models say of these options.
    pub(super) fn card(&self, step_size: f64) -> Card {
        Card {
            seed: self.seed,
            step_size,
            step_limit: Some(self.step_limit).filter(|limit| limit.is_finite()),
            decay: self.decay,
            init: self.init.name().into(),
            ..Card::new(self.learner.name())
        }
    }

    /// The weight of the popularity of labels at the start.
    fn start_popularity(&self) -> f64 {
        self.popularity
            .unwrap_or(self.sampler_or_default().popularity())
    }

    /// Rows of a whole run, where one pass has so many.
    fn total(&self, epoch: u64) -> u64 {
        match (self.steps, self.epochs) {
            (Some(steps), _) => steps,
            (None, epochs) => epochs.unwrap_or(EPOCHS).saturating_mul(epoch),
        }
    }

    /// Learns from labelled rows.
    pub fn fit<R: Real>(&self, data: &Labelled<R>) -> Result<Model> {
        Ok(self.fit_with(data.into(), Run::default())?.model)
    }

    /// The same with validation rows, an observer and checkpoints.
    pub fn fit_with<R: Real>(&self, data: RankingData<'_, R>, mut run: Run<'_>) -> Result<Fit> {
        let session = match run.take_checkpoint() {
            Some(checkpoint) => self.resume(data, &checkpoint)?,
            None => self.begin_session(data, &mut run)?,
        };
        session.drive(run)
    }
}

/// What a ranking of labels is learned from.
#[derive(Debug, Clone, Copy)]
pub struct RankingData<'a, R> {
    /// Rows with labels.
    pub rows: &'a Labelled<R>,
    /// Rows to validate by.
    pub valid: Option<&'a Labelled<R>>,
}

impl<'a, R> From<&'a Labelled<R>> for RankingData<'a, R> {
    fn from(rows: &'a Labelled<R>) -> Self {
        RankingData { rows, valid: None }
    }
}

impl<'a, R: Real> Learn<RankingData<'a, R>> for Ranking {
    fn learn(&self, data: RankingData<'a, R>, run: Run<'_>) -> Result<Fit> {
        self.fit_with(data, run)
    }
}
