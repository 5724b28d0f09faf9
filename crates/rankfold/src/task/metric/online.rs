//! A metric that goes on learning, one pair at a time.
//!
//! A model that was trained online goes on with its rule of steps. Another one has none:
//! each step then goes a tenth of the way to where the pair should be, to first order,
//! which depends on nothing that came before.

use crate::data::{Relation, StreamRow};
use crate::model::Knowledge;
use crate::online::{Learned, Learner, RankOne, Rule, Step};
use crate::task::course::count;
use crate::task::online::Online;
use crate::task::triplet::Sides;
use crate::{Error, Loss, Real, Result, SparseVec};

/// The share of the way to the target that a step goes where no rule says otherwise.
const SHARE: f64 = 0.1;

impl<R: Real> Online<R> {
    /// The rule by which a metric goes on, by its name in [`Rule::name`]: metrics of
    /// learners without a form of their own take flat steps.
    pub fn rule(&self) -> &'static str {
        match self.learner.form().name() {
            "polar-psd" => Rule::PolarPsd.name(),
            _ => Rule::Flat.name(),
        }
    }

    /// Learns what a stream says about the distance of a pair; `rows` are those that its
    /// ids name, made ready by [`Online::prepare`].
    pub fn learn_distance<'a>(
        &mut self,
        pair: [StreamRow<'_, R>; 2],
        relation: Relation,
        rows: impl Into<Sides<'a, R>>,
    ) -> Result<Learned> {
        // A line that is refused adds no features.
        let (target, loss) = self.pair_loss(relation)?;
        let mut made = [SparseVec::new(), SparseVec::new()];
        let ready = self.ready_pair(pair, rows.into(), &mut made)?;
        let mut delta = SparseVec::new();
        delta.set_difference(ready.left, ready.right);
        let example = RankOne {
            left: delta.as_row(),
            right: delta.as_row(),
        };
        self.seed(example);
        let step = Step {
            size: self.size_for(example, target, loss),
            limit: self.card.step_limit.unwrap_or(Step::LIMIT),
        };
        let learned = self.learner.learn(example, target, loss, step);
        count(&mut self.card.counters, 1, &learned);
        Ok(learned)
    }

    /// What the squared distance is compared with, and how.
    fn pair_loss(&self, relation: Relation) -> Result<(f64, Loss)> {
        if self.knowledge != Knowledge::Metric {
            return Err(Error::input(format!(
                "a model for {} learns no distances",
                self.knowledge.task()
            )));
        }
        let levels = || {
            self.card.distances.ok_or_else(|| {
                Error::input(
                    "the model does not say what is near and far: expected `value`, `at_most` or `at_least`",
                )
            })
        };
        let (target, loss) = match relation {
            Relation::Same => (levels()?.near, Loss::AtMost),
            Relation::Different => (levels()?.far, Loss::AtLeast),
            Relation::AtMost(v) => (v * v, Loss::AtMost),
            Relation::AtLeast(v) => (v * v, Loss::AtLeast),
            Relation::Equal(v) => (v * v, Loss::Squared),
        };
        match target.is_finite() {
            true => Ok((target, loss)),
            false => Err(Error::input("a distance has no finite square")),
        }
    }

    fn size_for(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss) -> f64 {
        if let Some(rule) = self.card.step_rule {
            let form = self.learner.form();
            return rule.size(self.card.counters.steps, || form.trace().unwrap_or(1.0));
        }
        // The squared norm of the gradient is how fast the loss falls, so this size
        // brings the score a share of the way to its target.
        let (_, slope) = loss.at(self.learner.score(example), target);
        let norm = self.learner.gradient_norm(example, target, loss);
        match norm > 0.0 {
            true => SHARE * (slope / norm).powi(2),
            false => 0.0,
        }
    }
}
