//! How a triplet becomes examples: query ⊗ (positive − negative) with target 1;
//! for LEGO, which learns distances, one example for each of its pairs.

use crate::model::Distances;
use crate::online::{AnyLearner, Learned, Learner, RankOne, Step};
use crate::sample::Triplet;
use crate::{Loss, Real, Rows, SparseRow, SparseVec};

/// Rows for both sides of W: those that ask, and those that are asked for.
#[derive(Debug)]
pub struct Sides<'a, R> {
    /// Queries.
    pub left: &'a Rows<R>,
    /// Positives and negatives.
    pub right: &'a Rows<R>,
}

impl<R> Copy for Sides<'_, R> {}

impl<R> Clone for Sides<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, R> From<&'a Rows<R>> for Sides<'a, R> {
    /// The same rows on both sides.
    fn from(rows: &'a Rows<R>) -> Self {
        Sides {
            left: rows,
            right: rows,
        }
    }
}

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
    pub fn of(rows: impl Into<Sides<'a, R>>, triplet: Triplet) -> Self {
        let Sides { left, right } = rows.into();
        TripletRows {
            query: left.row(triplet.query as usize),
            positive: right.row(triplet.positive as usize),
            negative: right.row(triplet.negative as usize),
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

    /// What LEGO aims at.
    pub fn distances(&self) -> Option<Distances> {
        self.distances
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
        Learned {
            score: second.score - first.score,
            loss: first.loss + second.loss,
            outcome: first.outcome.joined(second.outcome),
        }
    }
}
