//! Learners: a form and a rule that moves it by one example at a time.
//!
//! A task turns whatever the user has into [`RankOne`] examples; a learner
//! scores one, asks the [`Loss`] for its slope, and moves W along
//! −step · slope · left ⊗ right while it stays on its manifold. This seam keeps
//! learners and tasks apart: neither knows how many of the other there are.

/// What every learner gives of its form; with `mut` to the rules of this module as well.
macro_rules! form_access {
    ($form:ty) => {
        /// The form as it is now.
        pub fn form(&self) -> &$form {
            &self.form
        }

        /// The form, given up by the learner.
        pub fn into_form(self) -> $form {
            self.form
        }
    };
    (mut $form:ty) => {
        form_access!($form);

        pub(super) fn form_mut(&mut self) -> &mut $form {
            &mut self.form
        }
    };
}

/// Steps on examples of any rank, for the geometries of regression.
macro_rules! learn_sum {
    ($real:ident) => {
        /// Learns from one example of any rank, X = Σ cᵢ rightᵢ leftᵢᵀ, whose score is
        /// Tr(WX) = Σ cᵢ leftᵢᵀ W rightᵢ. Costs as a mini-batch of its terms.
        pub fn learn_sum(
            &mut self,
            terms: &[(RankOne<'_, $real>, f64)],
            target: f64,
            loss: Loss,
            step: Step,
        ) -> Learned {
            descend_sum(self, terms, target, loss, step)
        }
    };
}

/// The methods of [`Learner`] that are the same for all that [`Retract`]; with `grow` for
/// forms with two sides as well.
macro_rules! descends {
    ($real:ident) => {
        fn learn(
            &mut self,
            example: RankOne<'_, $real>,
            target: f64,
            loss: Loss,
            step: Step,
        ) -> Learned {
            descend(self, example, target, loss, step)
        }

        fn learn_mixed(&mut self, examples: &[Mixed<'_, $real>], step: Step) -> Learned {
            descend_mixed(self, examples, step)
        }
    };
    ($real:ident, grow) => {
        descends!($real);

        fn grow(&mut self, left: usize, right: usize) -> Result<()> {
            self.form.grow(left, right)
        }
    };
}

mod aroma;
mod balanced;
mod cone;
mod flat;
mod fold_in;
mod gradient;
mod group_perceptron;
mod guard;
mod lego;
mod loreta;
mod loreta_batch;
mod loreta_psd;
mod manifold_identification;
mod oasis;
mod oja;
mod passive_aggressive;
mod perceptron;
mod plane;
mod polar;
mod polar_psd;
mod pretrain;
mod rule;
mod step_rule;
mod terms;
mod turn;

pub use aroma::{AromaDiagonal, AromaFactored, AromaOptions, UpdateOn};
pub use balanced::Balanced;
pub use cone::{Cone, ConeUpdate};
pub use flat::Flat;
pub use fold_in::Fold;
pub(crate) use fold_in::{BIAS_RIDGE, FoldIn, folds};
pub use gradient::Gradient;
pub use group_perceptron::GroupPerceptron;
pub use lego::Lego;
pub use loreta::Loreta;
pub use loreta_psd::LoretaPsd;
pub use manifold_identification::{InnerSteps, ManifoldIdentification};
pub use oasis::Oasis;
pub use oja::Oja;
pub use passive_aggressive::{PassiveAggressive, Turn};
pub use perceptron::Perceptron;
pub use polar::Polar;
pub use polar_psd::PolarPsd;
pub(crate) use pretrain::Trials;
pub use pretrain::{ChosenStep, StepTrial, choose_step};
pub use rule::{AnyLearner, Rule};
pub use step_rule::StepRule;
pub use terms::Terms;

pub use crate::form::Shape;

use crate::{Loss, Real, Result, SparseRow};

/// An example that asks for the score leftᵀ W right.
#[derive(Debug, Clone, Copy)]
pub struct RankOne<'a, R> {
    /// Multiplies W from the left.
    pub left: SparseRow<'a, R>,
    /// Multiplies W from the right.
    pub right: SparseRow<'a, R>,
}

impl<R: Real> RankOne<'_, R> {
    /// Whether both sides are the same: the example is x ⊗ x.
    pub fn is_square(&self) -> bool {
        self.left == self.right
    }
}

/// An example with its target and a loss of its own.
#[derive(Debug, Clone, Copy)]
pub struct Mixed<'a, R> {
    /// Asks for the score.
    pub example: RankOne<'a, R>,
    /// What the score is compared with.
    pub target: f64,
    /// How.
    pub loss: Loss,
}

/// What a learner did with an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// W moved.
    Moved,
    /// The loss was flat here, or the gradient has no part along the manifold:
    /// W is as it was.
    Idle,
    /// The step would have lost rank or finiteness; W is as it was.
    Refused,
}

impl Outcome {
    /// What two examples together did to W: it moved if either moved it.
    pub(crate) fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Outcome::Moved, _) | (_, Outcome::Moved) => Outcome::Moved,
            (Outcome::Refused, _) | (_, Outcome::Refused) => Outcome::Refused,
            _ => Outcome::Idle,
        }
    }
}

/// How one try at a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Moved,
    /// Nothing would change: neither side of the example is in the range of W.
    Idle,
    Refused,
    /// The small state would become singular to working precision. In a fresh
    /// gauge the same step may be harmless; if it is not, W itself would be.
    Worn,
}

impl From<Attempt> for Outcome {
    fn from(attempt: Attempt) -> Self {
        match attempt {
            Attempt::Moved => Outcome::Moved,
            Attempt::Idle => Outcome::Idle,
            Attempt::Refused | Attempt::Worn => Outcome::Refused,
        }
    }
}

/// What a learner saw and did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Learned {
    /// leftᵀ W right before the step.
    pub score: f64,
    /// The loss at that score.
    pub loss: f64,
    /// What happened to W.
    pub outcome: Outcome,
}

/// How far a step goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Multiplies the gradient; for learners that choose their own step, the
    /// largest that they may choose.
    pub size: f64,
    /// The largest relative change of W inside its own range that one step may
    /// make; larger steps are shortened to it. `f64::INFINITY` is the paper's rule.
    pub limit: f64,
}

impl Step {
    /// The limit used unless another is asked for. The retraction is a local
    /// model; beyond this it is a poor one, though it never loses rank.
    pub const LIMIT: f64 = 2.0;

    /// A step with the usual limit.
    pub fn new(size: f64) -> Self {
        Step {
            size,
            limit: Self::LIMIT,
        }
    }
}

/// An online rule on a form.
pub trait Learner<R: Real>: Send {
    /// Scores an example without learning from it.
    fn score(&mut self, example: RankOne<'_, R>) -> f64;

    /// Scores an example and takes one step on its loss. Allocates nothing,
    /// except when the form chooses a new gauge or adds a block of what waits. The form must have a row for
    /// every feature of the example (see [`Learner::grow`]).
    fn learn(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss, step: Step) -> Learned;

    /// Learns from several examples with a target each. LORETA and the geometries of
    /// regression take one step along the mean of their gradients; other learners take
    /// one example after the other. The score and the loss are means; W has moved when
    /// any example moved it.
    fn learn_batch(
        &mut self,
        examples: &[(RankOne<'_, R>, f64)],
        loss: Loss,
        step: Step,
    ) -> Learned {
        let mixed = examples.iter().map(|&(example, target)| Mixed {
            example,
            target,
            loss,
        });
        self.learn_mixed(&mixed.collect::<Vec<_>>(), step)
    }

    /// The same with a loss of its own for each example: some scores should be at most
    /// their target, others at least.
    fn learn_mixed(&mut self, examples: &[Mixed<'_, R>], step: Step) -> Learned {
        let mut sum = Learned {
            score: 0.0,
            loss: 0.0,
            outcome: Outcome::Idle,
        };
        for each in examples {
            let learned = self.learn(each.example, each.target, each.loss, step);
            sum.score += learned.score / examples.len() as f64;
            sum.loss += learned.loss / examples.len() as f64;
            sum.outcome = sum.outcome.joined(learned.outcome);
        }
        sum
    }

    /// The norm of the gradient of a loss at W, in the metric that the learner steps
    /// by; of the gradient in all matrices where it has none of its own.
    fn gradient_norm(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss) -> f64 {
        let (_, slope) = loss.at(self.score(example), target);
        let squared = example.left.squared_norm() * example.right.squared_norm();
        slope.abs() * squared.sqrt()
    }

    /// Makes room for features up to these counts.
    fn grow(&mut self, left: usize, right: usize) -> Result<()>;
}

/// A learner that steps along the gradient and retracts to its manifold.
trait Retract<R: Real>: Learner<R> {
    /// Takes note of the size of a step on so many examples, for the guard of steps and
    /// for the regularizer.
    fn prepare(&mut self, _size: f64, _examples: usize) {}

    /// Switches the guard of single examples off for the step that was prepared.
    fn unguard(&mut self) {}

    /// Moves W along scale · left ⊗ right and retracts; the projections of the
    /// example are those of its scoring just before.
    fn retract(&mut self, example: RankOne<'_, R>, scale: f64, limit: f64) -> Attempt;

    /// Keeps the projections of the example that was just scored, for a step on several.
    fn keep(&mut self) {}

    /// Moves W along Σ cᵢ leftᵢ ⊗ rightᵢ and retracts. The projections of these examples, and
    /// of no others, may have been kept.
    fn retract_batch(&mut self, gradient: &[(RankOne<'_, R>, f64)], limit: f64) -> Attempt;

    /// Chooses a new gauge, if that may help where a step failed.
    fn renew(&mut self) -> bool;

    /// Whether W moves where the loss is flat as well.
    fn is_regularized(&self) -> bool {
        false
    }
}

/// One step of gradient descent on the loss of an example.
#[inline]
fn descend<R: Real>(
    learner: &mut impl Retract<R>,
    example: RankOne<'_, R>,
    target: f64,
    loss: Loss,
    step: Step,
) -> Learned {
    learner.prepare(step.size, 1);
    let score = learner.score(example);
    let (value, slope) = loss.at(score, target);
    let flat = slope == 0.0 || example.left.is_empty() || example.right.is_empty();
    let outcome = if flat && !learner.is_regularized() {
        Outcome::Idle
    } else {
        let scale = -step.size * slope;
        let mut attempt = learner.retract(example, scale, step.limit);
        if attempt == Attempt::Worn && learner.renew() {
            learner.score(example);
            attempt = learner.retract(example, scale, step.limit);
        }
        attempt.into()
    };
    Learned {
        score,
        loss: value,
        outcome,
    }
}

/// One step along the mean gradient of several examples.
fn descend_mixed<R: Real>(
    learner: &mut impl Retract<R>,
    examples: &[Mixed<'_, R>],
    step: Step,
) -> Learned {
    learner.prepare(step.size, examples.len());
    let count = examples.len() as f64;
    let (mut score, mut value) = (0.0, 0.0);
    let mut gradient = Vec::with_capacity(examples.len());
    for &Mixed {
        example,
        target,
        loss,
    } in examples
    {
        let found = learner.score(example);
        let (loss, slope) = loss.at(found, target);
        score += found / count;
        value += loss / count;
        if slope != 0.0 && !example.left.is_empty() && !example.right.is_empty() {
            gradient.push((example, -step.size * slope / count));
            learner.keep();
        }
    }
    Learned {
        score,
        loss: value,
        outcome: descend_along(learner, &gradient, step.limit),
    }
}

/// One step on the loss of an example of any rank, Σ cᵢ leftᵢ ⊗ rightᵢ.
fn descend_sum<R: Real>(
    learner: &mut impl Retract<R>,
    terms: &[(RankOne<'_, R>, f64)],
    target: f64,
    loss: Loss,
    step: Step,
) -> Learned {
    learner.prepare(step.size, 1);
    // Terms are no examples that could be overshot one by one.
    learner.unguard();
    let scores = terms.iter().map(|&(term, c)| c * learner.score(term));
    let score = scores.sum();
    let (value, slope) = loss.at(score, target);
    let moving = |(term, c): &(RankOne<'_, R>, f64)| {
        slope * c != 0.0 && !term.left.is_empty() && !term.right.is_empty()
    };
    let terms = terms.iter().copied().filter(moving);
    let gradient: Vec<_> = terms
        .map(|(term, c)| (term, -step.size * slope * c))
        .collect();
    Learned {
        score,
        loss: value,
        outcome: descend_along(learner, &gradient, step.limit),
    }
}

/// One step along a sum.
fn descend_along<R: Real>(
    learner: &mut impl Retract<R>,
    gradient: &[(RankOne<'_, R>, f64)],
    limit: f64,
) -> Outcome {
    if gradient.is_empty() && !learner.is_regularized() {
        return Outcome::Idle;
    }
    let mut attempt = learner.retract_batch(gradient, limit);
    if attempt == Attempt::Worn && learner.renew() {
        attempt = learner.retract_batch(gradient, limit);
    }
    attempt.into()
}
