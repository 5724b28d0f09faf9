//! Oja's rule: the subspace in which rows lie, one row at a time.
//!
//! U ← the orthonormal factor of U + s(I − UUᵀ)xxᵀU, a gradient step on ½‖x − UUᵀx‖² that
//! stays among matrices with orthonormal columns. It is the step of
//! [`PolarPsd`](super::PolarPsd) with B = I, λ = 1 and a slope of −½, at the same sparse
//! cost: U turns, and nothing else is there to move.
//!
//! Cost: O(nnz x · k + k²). References: [Oja1992]; [Meyer2011b], section 3.

use super::{Learned, Learner, PolarPsd, RankOne, Step};
use crate::form::{PolarPsd as PolarPsdForm, Tall};
use crate::linalg::{Retraction, Square};
use crate::{Loss, Real, Result, SparseRow};

/// A subspace of k dimensions that follows the rows it is shown.
#[derive(Debug, Clone)]
pub struct Oja<R>(PolarPsd<R>);

impl<R: Real> Oja<R> {
    /// Starts from the span of some columns.
    pub fn new(start: Tall<R>) -> Result<Self> {
        let unit = Square::identity(start.rank());
        let form = PolarPsdForm::new(start, &unit)?;
        Ok(Oja(PolarPsd::new(form).subspace_weight(1.0)))
    }

    /// The same with another way back to orthonormal columns. The subspace does not
    /// depend on it.
    pub fn retracted(self, retraction: Retraction) -> Self {
        Oja(self.0.retracted(retraction))
    }

    /// The projection on the subspace, W = UUᵀ.
    pub fn form(&self) -> &PolarPsdForm<R> {
        self.0.form()
    }

    /// The projection, given up by the learner.
    pub fn into_form(self) -> PolarPsdForm<R> {
        self.0.into_form()
    }

    /// ‖Uᵀx‖²: how much of a row lies in the subspace.
    pub fn captured(&mut self, x: SparseRow<'_, R>) -> f64 {
        self.0.score(RankOne { left: x, right: x })
    }

    /// Turns the subspace towards a row; the score is what it captured of it before,
    /// and the loss is minus half of that.
    pub fn learn(&mut self, x: SparseRow<'_, R>, step: Step) -> Learned {
        let loss = Loss::Custom(|captured, _| (-0.5 * captured, -0.5));
        self.0.learn(RankOne { left: x, right: x }, 0.0, loss, step)
    }

    /// Makes room for features up to this count.
    pub fn grow(&mut self, rows: usize) -> Result<()> {
        self.0.grow(rows, rows)
    }
}
