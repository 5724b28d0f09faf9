//! OASIS: passive-aggressive learning of a full matrix W.
//!
//! With loss ℓ and slope s, W −= s τ p qᵀ, τ = min(ℓ / (s²‖p‖²‖q‖²), C): just as
//! far as the example asks, not farther than C. It touches the non-zeros of p
//! times those of q.
//!
//! Cost: O(nnz p · nnz q) a step, O(n·m) memory. Reference: [Chechik2010].

use super::gradient::step_full;
use super::{Learned, Learner, RankOne, Step};
use crate::form::Full;
use crate::{Loss, Real, Result};

/// Passive-aggressive steps on W itself; [`Step::size`] is the cap C.
#[derive(Debug, Clone)]
pub struct Oasis<R> {
    form: Full<R>,
}

impl<R: Real> Oasis<R> {
    /// Starts from a form; the paper starts from the identity.
    pub fn new(form: Full<R>) -> Self {
        Oasis { form }
    }

    form_access!(Full<R>);
}

impl<R: Real> Learner<R> for Oasis<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        self.form.score(example.left, example.right)
    }

    fn learn(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss, step: Step) -> Learned {
        step_full(
            &mut self.form,
            example,
            target,
            loss,
            |loss, slope, size| (loss / (slope * slope * size)).min(step.size),
        )
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left, right)
    }
}
