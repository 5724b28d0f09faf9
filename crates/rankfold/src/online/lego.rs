//! LEGO: a full Mahalanobis matrix from target distances, by exact online steps
//! of the LogDet divergence.
//!
//! For a difference z of two rows with target squared distance y and ŷ = zᵀWz,
//! ȳ = [ηyŷ − 1 + √((ηyŷ − 1)² + 4ηŷ²)] / (2ηŷ) is the distance after the step, and
//! W −= η(ȳ − y) / (1 + η(ȳ − y)ŷ) · (Wz)(Wz)ᵀ. W stays positive definite.
//!
//! An example is z ⊗ z, its target y; the step brings its own loss.
//!
//! Cost: O(n·nnz z + n²) a step, O(n²) memory. Reference: [Jain2008].

use super::{Learned, Learner, Outcome, RankOne, Step};
use crate::form::Full;
use crate::{Loss, Real, Result};

/// LogDet steps on W itself.
#[derive(Debug, Clone)]
pub struct Lego<R> {
    form: Full<R>,
    wide: Vec<f64>,
    wz: Vec<R>,
}

impl<R: Real> Lego<R> {
    /// Starts from a symmetric positive definite matrix; the paper starts from
    /// the identity.
    pub fn new(form: Full<R>) -> Self {
        Lego {
            form,
            wide: Vec::new(),
            wz: Vec::new(),
        }
    }

    form_access!(Full<R>);
}

impl<R: Real> Learner<R> for Lego<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        self.form.score(example.left, example.right)
    }

    fn learn(&mut self, example: RankOne<'_, R>, target: f64, _: Loss, step: Step) -> Learned {
        let z = example.left.below(self.form.shape().0);
        self.wide.resize(self.form.shape().1, 0.0);
        self.form.project(&mut self.wide, z);
        let products = z.iter().map(|(i, v)| v.to_f64() * self.wide[i as usize]);
        let distance: f64 = products.sum();
        let learned = |outcome| Learned {
            score: distance,
            loss: 0.5 * (distance - target).powi(2),
            outcome,
        };
        if distance == 0.0 {
            return learned(Outcome::Idle);
        }
        let eta = step.size;
        let b = eta * target * distance - 1.0;
        let root = (b * b + 4.0 * eta * distance * distance).sqrt();
        // The two spellings of the root of the quadratic; each keeps its digits on
        // one side.
        let after = if b >= 0.0 {
            (b + root) / (2.0 * eta * distance)
        } else {
            2.0 * distance / (root - b)
        };
        let change = eta * (after - target);
        let weight = -change / (1.0 + change * distance);
        let largest = self.wide.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        // Rounding may have taken W's definiteness; a step from there would be wild.
        let sound = distance > 0.0
            && largest < R::MAX / 1e9
            && (weight * largest).abs() < R::MAX / 1e9
            && (weight * largest * largest).abs() < R::MAX / 1e9;
        if !sound {
            return learned(Outcome::Refused);
        }
        self.wz.clear();
        self.wz.extend(self.wide.iter().map(|&v| R::from_f64(v)));
        self.form.add_square(&self.wz, weight);
        learned(Outcome::Moved)
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        let size = left.max(right);
        self.form.grow(size, size)
    }
}
