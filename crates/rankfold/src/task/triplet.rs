//! How a triplet becomes examples: query ⊗ (positive − negative) with target 1;
//! for LEGO, which learns distances, one example for each of its pairs.

use crate::model::Distances;
use crate::online::{AnyLearner, Learned, Learner, Outcome, RankOne, Step};
use crate::sample::Triplet;
use crate::{Loss, Real, Rows, SparseRow, SparseVec};

/// The three rows of a triplet.
#[derive(Debug, Clone, Copy)]
pub struct TripletRows<'a, R> {
    /// The row that asks.
    pub query: SparseRow<'a, R>,
    /// A row that should score above…
    pub positive: SparseRow<'a, R>,
    /// …this one.
    pub negative: SparseRow<'a, R>,
}

impl<'a, R: Real> TripletRows<'a, R> {
    /// The rows that a triplet names.
    #[inline]
    pub fn of(rows: &'a Rows<R>, triplet: Triplet) -> Self {
        let row = |i: u32| rows.row(i as usize);
        TripletRows {
            query: row(triplet.query),
            positive: row(triplet.positive),
            negative: row(triplet.negative),
        }
    }
}

/// Makes examples of triplets; holds room for what is not in the rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Examples<R> {
    difference: SparseVec<R>,
    distances: Option<Distances>,
}

impl<R: Real> Examples<R> {
    pub fn new(distances: Option<Distances>) -> Self {
        Examples {
            difference: SparseVec::new(),
            distances,
        }
    }

    /// query ⊗ (positive − negative).
    #[inline]
    pub fn margin<'s>(&'s mut self, rows: TripletRows<'s, R>) -> RankOne<'s, R> {
        self.difference.set_difference(rows.positive, rows.negative);
        RankOne {
            left: rows.query,
            right: self.difference.as_row(),
        }
    }

    /// One step on a triplet.
    #[inline]
    pub fn learn(
        &mut self,
        learner: &mut AnyLearner<R>,
        rows: TripletRows<'_, R>,
        step: Step,
    ) -> Learned {
        let Some(Distances { near, far }) = self.distances else {
            return learner.learn(self.margin(rows), 1.0, Loss::Hinge, step);
        };
        let [first, second] = [(rows.positive, near), (rows.negative, far)].map(|(row, target)| {
            self.difference.set_difference(rows.query, row);
            let difference = self.difference.as_row();
            let example = RankOne {
                left: difference,
                right: difference,
            };
            learner.learn(example, target, Loss::Squared, step)
        });
        let outcomes = [first.outcome, second.outcome];
        Learned {
            score: second.score - first.score,
            loss: first.loss + second.loss,
            outcome: if outcomes.contains(&Outcome::Moved) {
                Outcome::Moved
            } else if outcomes.contains(&Outcome::Refused) {
                Outcome::Refused
            } else {
                Outcome::Idle
            },
        }
    }
}
