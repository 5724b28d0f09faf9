//! AROMA: a Gaussian over matrices, moved by each example as little as it must
//! be, and made surer of what the example showed.
//!
//! With margin μ = qᵀWp (times its target, ±1), an example of margin below 1:
//!
//! - diagonal covariance, g = qpᵀ, D = Σᵢⱼ Σᵢⱼgᵢⱼ² + r:
//!   W += (1−μ)/D · Σ⊙g, Σ −= (Σ⊙g)⊙(Σ⊙g)/D;
//! - factored covariance Ω ⊗ Λ, a = qᵀΛq, b = pᵀΩp, W of m×n:
//!   W += (1−μ)/(r+ab) · (Λq)(Ωp)ᵀ, Ω −= a/(mr+ab) · (Ωp)(Ωp)ᵀ,
//!   Λ −= b/(nr+ab) · (Λq)(Λq)ᵀ, all from the old matrices.
//!
//! The first is diagonal AROW on vec(qpᵀ), the mean of the second a step of AROW with
//! covariance Ω ⊗ Λ. r > 0 is how little one example is trusted; it is
//! [`Step::size`] here, as these learners choose the length of a step themselves.
//!
//! Cost: O(nnz q · nnz p), and that of [`Gaussian`]. Reference: [Crammer2012].

use super::gradient::moved;
use super::{Learned, Learner, Outcome, RankOne, Step};
use crate::form::{Covariance, Diagonal, Gaussian};
use crate::{Loss, Real, Result, choices};
use serde::{Deserialize, Serialize};

choices! {
    /// Which examples are learned from.
    pub enum UpdateOn {
        /// Examples with a margin below 1
        Margin = "margin" (default),
        /// Examples that are not in the right order: the margin is at most 0
        Mistake = "mistake",
        /// Examples in the wrong order, as in the paper's analysis: ties do not count, so it
        /// cannot start from zero
        StrictMistake = "strict-mistake",
    }
}

/// What the paper analyzes otherwise than it runs it, or leaves open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AromaOptions {
    /// Which examples are learned from.
    pub update_on: UpdateOn,
    /// Move the mean of the factored Gaussian with the covariances after the
    /// step, as the analysis has it.
    pub new_covariance: bool,
    /// Keep the diagonal of the inverse covariance, Σ⁻¹ += g⊙g/r, instead of
    /// that of the covariance.
    pub inverse_diagonal: bool,
}

impl AromaOptions {
    /// Whether an example with this score is learned from.
    fn learns(self, score: f64, slope: f64) -> bool {
        // −slope has the sign of the target.
        let margin = -slope * score;
        match self.update_on {
            UpdateOn::Margin => true,
            UpdateOn::Mistake => margin <= 0.0,
            UpdateOn::StrictMistake => margin < 0.0,
        }
    }
}

/// AROMA with a variance for each entry.
#[derive(Debug, Clone)]
pub struct AromaDiagonal<R> {
    form: Diagonal<R>,
    options: AromaOptions,
}

impl<R: Real> AromaDiagonal<R> {
    /// Starts from a form; the paper starts from W = 0 with variances 1.
    pub fn new(form: Diagonal<R>, options: AromaOptions) -> Self {
        AromaDiagonal { form, options }
    }

    pub(super) fn set_options(&mut self, options: AromaOptions) {
        self.options = options;
    }

    form_access!(Diagonal<R>);
}

impl<R: Real> Learner<R> for AromaDiagonal<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        self.form.score(example.left, example.right).0
    }

    fn learn(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss, step: Step) -> Learned {
        let (left, right) = (example.left, example.right);
        let (score, variance) = self.form.score(left, right);
        let at = loss.at(score, target);
        let options = self.options;
        moved(score, at, |slope| {
            if variance == 0.0 || !options.learns(score, slope) {
                return Outcome::Idle;
            }
            let r = step.size;
            let d = variance + r;
            let c = -slope * at.0 / d;
            if !(c.is_finite() && (c.abs() * variance.sqrt()) < R::MAX / 1e9) {
                return Outcome::Refused;
            }
            if !self.form.has_room(left.indices.len() * right.indices.len()) {
                return Outcome::Refused;
            }
            let share = 1.0 / d;
            self.form.for_each_pair(left, right, |g, (mean, variance)| {
                let s = variance.to_f64();
                let moved = s * g;
                *mean = R::from_f64(mean.to_f64() + c * moved);
                let after = match options.inverse_diagonal {
                    true => s / (1.0 + moved * g / r),
                    // Σg² is a part of D, so only rounding could go below zero.
                    false => (s - moved * moved * share).max(0.0),
                };
                *variance = R::from_f64(after);
            });
            Outcome::Moved
        })
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left, right);
        Ok(())
    }
}

/// AROMA with a factored covariance.
#[derive(Debug, Clone)]
pub struct AromaFactored<R> {
    form: Gaussian<R>,
    options: AromaOptions,
    /// Λq, Ωp, Wᵀq and Wp.
    x: Vec<f64>,
    y: Vec<f64>,
    wq: Vec<f64>,
    wp: Vec<f64>,
}

impl<R: Real> AromaFactored<R> {
    /// Starts from a form; the paper starts from W = 0 with covariance I ⊗ I.
    pub fn new(form: Gaussian<R>, options: AromaOptions) -> Self {
        AromaFactored {
            form,
            options,
            x: Vec::new(),
            y: Vec::new(),
            wq: Vec::new(),
            wp: Vec::new(),
        }
    }

    pub(super) fn set_options(&mut self, options: AromaOptions) {
        self.options = options;
    }

    form_access!(Gaussian<R>);
}

impl<R: Real> Learner<R> for AromaFactored<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        self.form.score(example.left, example.right)
    }

    fn learn(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss, step: Step) -> Learned {
        let score = self.score(example);
        let at = loss.at(score, target);
        let options = self.options;
        moved(score, at, |slope| {
            if !options.learns(score, slope) {
                return Outcome::Idle;
            }
            let (q, p) = (example.left, example.right);
            let (m, n) = self.form.shape();
            self.x.resize(m, 0.0);
            self.y.resize(n, 0.0);
            let a = self.form.spread(Covariance::Left, &mut self.x, q);
            let b = self.form.spread(Covariance::Right, &mut self.y, p);
            if a == 0.0 || b == 0.0 {
                return Outcome::Idle;
            }
            let r = step.size;
            let c = -slope * at.0 / (r + a * b);
            let omega = a / (m as f64 * r + a * b);
            let lambda = b / (n as f64 * r + a * b);
            // Rounding may have taken the definiteness of a covariance.
            let sound = a > 0.0
                && b > 0.0
                && [c, omega, lambda].iter().all(|v| v.is_finite())
                && fits::<R>(&self.x, c)
                && fits::<R>(&self.y, 1.0)
                && fits::<R>(&self.x, lambda.sqrt())
                && fits::<R>(&self.y, omega.sqrt());
            if !sound {
                return Outcome::Refused;
            }
            if options.new_covariance {
                // Λ'Λ⁻¹ = I − λ(Λq)qᵀ, and the same on the right, so that
                // W' = W − λ x(Wᵀq)ᵀ − ω (Wp)yᵀ + [λωμ + c(1−λa)(1−ωb)] x yᵀ.
                self.wq.resize(n, 0.0);
                self.wp.resize(m, 0.0);
                self.form.project(&mut self.wq, q);
                self.form.project_right(&mut self.wp, p);
                if !(fits::<R>(&self.wq, lambda.max(1.0)) && fits::<R>(&self.wp, omega.max(1.0))) {
                    return Outcome::Refused;
                }
                let both = lambda * omega * score + c * (1.0 - lambda * a) * (1.0 - omega * b);
                for (wq, y) in self.wq.iter_mut().zip(&self.y) {
                    *wq = both * y - lambda * *wq;
                }
                self.form.add_mean(1.0, &self.x, &self.wq);
                self.form.add_mean(-omega, &self.wp, &self.y);
            } else {
                self.form.add_mean(c, &self.x, &self.y);
            }
            self.form.subtract(Covariance::Left, lambda, &self.x);
            self.form.subtract(Covariance::Right, omega, &self.y);
            self.form.settle_block();
            Outcome::Moved
        })
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left, right)
    }
}

/// Whether scaled entries can be stored, and their products summed.
fn fits<R: Real>(x: &[f64], scale: f64) -> bool {
    let largest = x.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    (largest * scale.abs()) < (R::MAX / 1e9).sqrt()
}
