//! The group perceptron: mirror descent on a full matrix whose rows, one a
//! feature, are groups, so that few features come to matter.
//!
//! Θ −= η s p qᵀ, where s is the slope of the loss, and W is the image of Θ under
//! the gradient of ½‖·‖² in the norm (2,s'): row i of W is
//! (‖θᵢ‖ / ‖Θ‖₂,ₛ')^(s'−2) θᵢ. The paper names the method only; rows as groups and
//! s' = max(2, ln n) for n features are our reading of [Kakade2012].
//!
//! Cost: O(nnz p · m) a step, O(n·m) memory. Reference: [Shalit2012], section 7.

use super::gradient::moved;
use super::{Learned, Learner, Outcome, RankOne, Step};
use crate::form::{Full, Groups};
use crate::{Loss, Real, Result};

/// Mirror descent on a matrix whose rows are groups.
#[derive(Debug, Clone)]
pub struct GroupPerceptron<R> {
    form: Full<R>,
}

impl<R: Real> GroupPerceptron<R> {
    /// Starts from a form; the paper starts from zero. The exponent s' is at least
    /// 2; `None` is max(2, ln n). A form that has groups already keeps its own.
    #[track_caller]
    pub fn new(mut form: Full<R>, exponent: Option<f64>) -> Self {
        let rows = form.shape().0;
        if form.groups.is_none() {
            let exponent = exponent.unwrap_or_else(|| (rows as f64).ln().max(2.0));
            assert!(exponent >= 2.0, "an exponent of 2 at least");
            // The map back to Θ has the dual exponent.
            let back = Groups::new(exponent / (exponent - 1.0), squares(&form));
            for i in 0..rows {
                let weight = back.weight(i);
                let row = form.row_mut(i);
                row.iter_mut()
                    .for_each(|v| *v = R::from_f64(weight * v.to_f64()));
            }
            form.set_groups(Groups::new(exponent, squares(&form)));
        }
        GroupPerceptron { form }
    }

    form_access!(Full<R>);

    /// s'.
    pub fn exponent(&self) -> f64 {
        let groups = self.form.groups.as_ref();
        groups.map_or(2.0, Groups::exponent)
    }
}

/// The squared norm of a row.
fn square<R: Real>(row: &[R]) -> f64 {
    row.iter().map(|v| v.to_f64() * v.to_f64()).sum()
}

fn squares<R: Real>(form: &Full<R>) -> Vec<f64> {
    (0..form.shape().0).map(|i| square(form.row(i))).collect()
}

impl<R: Real> Learner<R> for GroupPerceptron<R> {
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
            // Norms are raised to powers, and must not leave the range there.
            let change = step.size * slope.abs() * size.sqrt();
            if change.is_nan() || change >= 1e9 {
                return Outcome::Refused;
            }
            self.form
                .add_outer(example.left, example.right, -slope * step.size);
            let mut groups = self.form.groups.take().expect("rows are grouped");
            for (i, _) in example.left.iter() {
                groups.set(i as usize, square(self.form.row(i as usize)));
            }
            self.form.groups = Some(groups);
            Outcome::Moved
        })
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left, right)
    }
}
