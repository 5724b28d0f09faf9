//! The matrix perceptron: gradient descent on a full matrix.
//!
//! W −= η s p qᵀ, where s is the slope of the loss. With the hinge loss and
//! W = 0 at the start this is the perceptron with margin.
//!
//! Cost: O(nnz p · nnz q) a step, O(n·m) memory. Reference: [Shalit2012],
//! section 7.

use super::gradient::moved;
use super::{Learned, Learner, Outcome, RankOne, Step};
use crate::form::Full;
use crate::{Loss, Real, Result};

/// Gradient steps on W itself.
#[derive(Debug, Clone)]
pub struct Perceptron<R> {
    form: Full<R>,
}

impl<R: Real> Perceptron<R> {
    /// Starts from a form; the paper starts from zero.
    pub fn new(form: Full<R>) -> Self {
        Perceptron { form }
    }

    form_access!(Full<R>);
}

impl<R: Real> Learner<R> for Perceptron<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        self.form.score(example.left, example.right)
    }

    fn learn(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss, step: Step) -> Learned {
        let score = self.score(example);
        let at = loss.at(score, target);
        moved(score, at, |slope| {
            let size = example.left.squared_norm() * example.right.squared_norm();
            if size == 0.0 {
                return Outcome::Idle;
            }
            let change = step.size * slope.abs() * size.sqrt();
            if change.is_nan() || change >= R::MAX / 1e9 {
                return Outcome::Refused;
            }
            self.form
                .add_outer(example.left, example.right, -slope * step.size);
            Outcome::Moved
        })
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left, right)
    }
}
