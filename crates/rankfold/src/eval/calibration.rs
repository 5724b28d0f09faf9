//! Whether a model that says how sure it is knows it.
//!
//! A triplet is judged by its margin in standard deviations, z. The model puts
//! the two candidates in an order and is right with probability Φ(|z|), or so it
//! says: that is its confidence. Held-out triplets tell how often it was right,
//! which is when z is above 0. Sorted by confidence and cut into bins of equal
//! count, the two should agree in each; the mean of their differences is the
//! expected calibration error.
//!
//! One number can repair much of it: a factor on all variances, for which the
//! known orders are most likely.

use crate::normal;
use serde::Serialize;

/// Some triplets of similar confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bin {
    /// How sure the model was, on average.
    pub confidence: f64,
    /// How often it was right.
    pub accuracy: f64,
    /// How many triplets.
    pub triplets: usize,
}

/// Bins of a calibration.
pub const BINS: usize = 10;

/// Confidence and accuracy in bins of equal count, the least sure first, with
/// the variances multiplied by `scale`. The margins are in standard deviations.
pub fn reliability(margins: &[f64], scale: f64) -> Vec<Bin> {
    let mut sorted: Vec<f64> = margins.to_vec();
    // By confidence; the wrong ones first where two are equal, so that the bins do
    // not depend on the order of triplets.
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()).then(a.total_cmp(b)));
    let count = sorted.len();
    let bounds = |b: usize| count * b / BINS;
    let bins = (0..BINS).map(|b| &sorted[bounds(b)..bounds(b + 1)]);
    bins.filter(|bin| !bin.is_empty())
        .map(|bin| {
            let share = |sum: f64| sum / bin.len() as f64;
            let sure = |z: &f64| normal::below(z.abs() / scale.sqrt());
            let right = bin.iter().filter(|&&z| z > 0.0).count();
            Bin {
                confidence: share(bin.iter().map(sure).sum()),
                accuracy: share(right as f64),
                triplets: bin.len(),
            }
        })
        .collect()
}

/// The mean difference of confidence and accuracy.
pub fn calibration_error(bins: &[Bin]) -> f64 {
    let triplets: usize = bins.iter().map(|bin| bin.triplets).sum();
    let differences = bins
        .iter()
        .map(|bin| bin.triplets as f64 * (bin.confidence - bin.accuracy).abs());
    differences.sum::<f64>() / triplets as f64
}

/// The factor on all variances for which the orders of these triplets are most
/// likely. The margins are in standard deviations. `None` where they tell nothing:
/// there are none, or all are 0.
///
/// One triplet of the mean margin in the wrong order is added, because a model that
/// was right every time would be found to know everything.
pub fn variance_scale(margins: &[f64]) -> Option<f64> {
    let finite = margins.iter().filter(|z| z.is_finite());
    let mean = finite.map(|z| z.abs()).sum::<f64>() / margins.len() as f64;
    if mean.is_nan() || mean == 0.0 {
        return None;
    }
    // −Σ log Φ(tz) is convex in t, so it has one valley in log t; the scale is t⁻².
    let cost = |log_t: f64| -> f64 {
        let t = log_t.exp();
        let likelihood = |z: &f64| normal::below(t * z).max(f64::MIN_POSITIVE).ln();
        -margins.iter().chain([&-mean]).map(likelihood).sum::<f64>()
    };
    // Golden section.
    const SHARE: f64 = 0.618_033_988_749_894_9;
    let (mut low, mut high) = (-10.0 - mean.ln(), 10.0 - mean.ln());
    let inner = |low: f64, high: f64| (high - SHARE * (high - low), low + SHARE * (high - low));
    let (mut a, mut b) = inner(low, high);
    let (mut at_a, mut at_b) = (cost(a), cost(b));
    while high - low > 1e-6 {
        if at_a <= at_b {
            high = b;
            (b, at_b) = (a, at_a);
            a = inner(low, high).0;
            at_a = cost(a);
        } else {
            low = a;
            (a, at_a) = (b, at_b);
            b = inner(low, high).1;
            at_b = cost(b);
        }
    }
    Some((-(low + high)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_at;

    /// Margins of a model whose standard deviations are `short` times too small:
    /// the truth is z = m + e with e normal, and the sign of it is the order.
    fn drawn(short: f64) -> Vec<f64> {
        let draw = |i: u64| {
            let margin = 1.5 * normal_at(1, 0, i, 0);
            let sign = (margin + normal_at(1, 1, i, 0)).signum();
            sign * margin * short
        };
        (0..20_000).map(draw).collect()
    }

    #[test]
    fn a_model_that_knows_how_sure_it_is_has_no_error() {
        let bins = reliability(&drawn(1.0), 1.0);
        assert!(bins.len() == BINS && bins.iter().all(|bin| bin.triplets == 2_000));
        assert!(
            bins.windows(2)
                .all(|pair| pair[0].confidence <= pair[1].confidence)
        );
        assert!(calibration_error(&bins) < 0.01);
        assert!((variance_scale(&drawn(1.0)).unwrap() - 1.0).abs() < 0.06);
    }

    #[test]
    fn one_factor_repairs_standard_deviations_that_are_too_small() {
        let margins = drawn(4.0);
        assert!(calibration_error(&reliability(&margins, 1.0)) > 0.1);
        let scale = variance_scale(&margins).unwrap();
        assert!((scale / 16.0 - 1.0).abs() < 0.06, "{scale}");
        assert!(calibration_error(&reliability(&margins, scale)) < 0.01);
    }

    #[test]
    fn few_equal_and_endless_margins_are_harmless() {
        assert!(calibration_error(&reliability(&[], 1.0)).is_nan());
        let three = reliability(&[0.0, f64::INFINITY, f64::NEG_INFINITY], 1.0);
        assert_eq!(three.iter().map(|bin| bin.triplets).sum::<usize>(), 3);
        // Nothing to learn from; never wrong; never right; units do not matter.
        for margins in [&[][..], &[0.0; 5], &[f64::NEG_INFINITY]] {
            assert_eq!(variance_scale(margins), None);
        }
        let right = variance_scale(&[1.0; 99]).unwrap();
        let sure = normal::below(1.0 / right.sqrt());
        assert!((sure - 0.99).abs() < 1e-3, "{sure}");
        let wrong = variance_scale(&[-1.0; 5]).unwrap();
        assert!(wrong > 100.0 && wrong.is_finite());
        let small = variance_scale(&[1e-9; 99]).unwrap();
        assert!((small / right / 1e-18 - 1.0).abs() < 1e-3);
    }
}
