//! Public checks: what a form claims about itself, measured, and what a loss or
//! a learner of your own must keep to.

use crate::form::{Factored, Psd, Tall};
use crate::linalg::Square;
use crate::{Loss, Real};

/// How far the tracked small state is from the truth, as relative errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateReport {
    /// ‖S − ÃᵀÃ‖ / ‖S‖, the worse side.
    pub gram: f64,
    /// ‖S S⁻¹ − I‖, the worse side.
    pub gram_inverse: f64,
    /// ‖K K⁻¹ − I‖.
    pub core_inverse: f64,
}

/// Compares the tracked Gram matrices and inverses of a form with its rows.
pub fn factored<R: Real>(form: &Factored<R>) -> StateReport {
    let (left, right) = (tall(&form.left), tall(&form.right));
    StateReport {
        gram: left.0.max(right.0),
        gram_inverse: left.1.max(right.1),
        core_inverse: residual(&form.core, &form.core_inverse),
    }
}

/// Compares the tracked Gram matrix and inverses of a form with its rows.
pub fn psd<R: Real>(form: &Psd<R>) -> StateReport {
    let (gram, gram_inverse) = tall(&form.factor);
    StateReport {
        gram,
        gram_inverse,
        core_inverse: residual(&form.core, &form.core_inverse),
    }
}

fn tall<R: Real>(tall: &Tall<R>) -> (f64, f64) {
    let mut fresh = tall.clone();
    fresh.recompute_gram();
    let off = tall.gram.to_faer() - fresh.gram.to_faer();
    (
        off.norm_l2() / tall.gram.norm(),
        residual(&tall.gram, &tall.gram_inverse),
    )
}

fn residual(a: &Square, inverse: &Square) -> f64 {
    let k = a.size();
    (a.to_faer() * inverse.to_faer() - faer::Mat::<f64>::identity(k, k)).norm_l2()
}

/// The largest difference between the slope of a loss and its finite
/// differences at these scores, relative to 1 + its value. Infinite where a
/// value is negative or not finite. Keep away from kinks.
pub fn loss(loss: Loss, target: f64, scores: &[f64]) -> f64 {
    let h = 1e-6;
    let off = |&score: &f64| {
        let (value, slope) = loss.at(score, target);
        let (ahead, behind) = (loss.at(score + h, target).0, loss.at(score - h, target).0);
        let difference = (ahead - behind) / (2.0 * h);
        let off = (slope - difference).abs() / (1.0 + value);
        if value >= 0.0 && off.is_finite() {
            off
        } else {
            f64::INFINITY
        }
    };
    scores.iter().map(off).fold(0.0, f64::max)
}
