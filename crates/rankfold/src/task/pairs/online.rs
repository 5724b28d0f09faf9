//! A model of pairs that goes on learning, one pair at a time.

use crate::data::StreamRow;
use crate::model::Knowledge;
use crate::online::{Learned, Learner, RankOne, Step};
use crate::task::course::count;
use crate::task::decayed;
use crate::task::online::Online;
use crate::task::triplet::Sides;
use crate::{Error, Loss, Real, Result, SparseRow, SparseVec};

impl<R: Real> Online<R> {
    /// Learns a pair of a stream; `rows` are those that its ids name, made ready by
    /// [`Online::prepare`]. They may be other ones on the right.
    pub fn learn_value<'a>(
        &mut self,
        pair: [StreamRow<'_, R>; 2],
        value: f64,
        rows: impl Into<Sides<'a, R>>,
    ) -> Result<Learned> {
        // A line that is refused adds no features.
        if !value.is_finite() {
            return Err(Error::input(format!("a value of {value} is not finite")));
        }
        self.require_pairs()?;
        let mut made = [SparseVec::new(), SparseVec::new()];
        let ready = self.ready_pair(pair, rows.into(), &mut made)?;
        Ok(self.learn_pair(ready, value))
    }

    /// Learns a pair of raw rows: they are preprocessed as those of training were.
    pub fn learn_rows(
        &mut self,
        left: SparseRow<'_, R>,
        right: SparseRow<'_, R>,
        value: f64,
    ) -> Result<Learned> {
        let [one, two] = [left, right].map(|row| row.iter().collect::<Vec<_>>());
        let known = |known| StreamRow::Features { known, new: &[] };
        let no_rows = crate::Rows::new();
        self.learn_value([known(&one), known(&two)], value, &no_rows)
    }

    fn require_pairs(&self) -> Result<()> {
        match &self.knowledge {
            Knowledge::Pairs { .. } => Ok(()),
            other => Err(Error::input(format!(
                "a model for {} learns no values of pairs",
                other.task()
            ))),
        }
    }

    /// One step, as in training.
    fn learn_pair(&mut self, example: RankOne<'_, R>, value: f64) -> Learned {
        self.seed(example);
        let step = Step {
            size: self.card.step_size,
            limit: self.card.step_limit.unwrap_or(f64::INFINITY),
        };
        let step = decayed(step, self.card.decay, self.card.counters.steps);
        let learned = self.learner.learn(example, value, Loss::Squared, step);
        count(&mut self.card.counters, 1, &learned);
        learned
    }
}
