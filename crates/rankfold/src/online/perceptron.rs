//! The matrix perceptron: gradient descent on a full matrix.
//!
//! W −= η s p qᵀ, where s is the slope of the loss. With the hinge loss and
//! W = 0 at the start this is the perceptron with margin.
//!
//! Cost: O(nnz p · nnz q) a step, O(n·m) memory. Reference: [Shalit2012],
//! section 7.

use super::gradient::step_full;
use super::{Learned, Learner, RankOne, Step};
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
        step_full(&mut self.form, example, target, loss, |_, _, _| step.size)
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left, right)
    }
}
