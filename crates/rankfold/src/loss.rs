//! Losses: from a score and its target to a value and a slope.

use serde::{Deserialize, Serialize};

/// What a score should have been. A closed set; each is convex in the score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Loss {
    /// [1 − target·score]₊: the score of a pair should have the sign of its
    /// target (±1) and be at least one away from zero.
    Hinge,
    /// ½(score − target)².
    Squared,
}

impl Loss {
    /// Value and derivative at `score`. At the kink of the hinge the slope is 0.
    #[inline]
    pub fn at(self, score: f64, target: f64) -> (f64, f64) {
        match self {
            Loss::Hinge => {
                let value = 1.0 - target * score;
                // NaN must not look like a satisfied margin.
                if value <= 0.0 {
                    (0.0, 0.0)
                } else {
                    (value, -target)
                }
            }
            Loss::Squared => {
                let error = score - target;
                (0.5 * error * error, error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_match_finite_differences() {
        let h = 1e-6;
        for loss in [Loss::Hinge, Loss::Squared] {
            for target in [-1.0, 1.0, 2.5] {
                for score in [-3.0, -0.7, 0.0, 0.2, 0.9, 1.3, 4.0] {
                    let (value, slope) = loss.at(score, target);
                    let ahead = loss.at(score + h, target).0;
                    let behind = loss.at(score - h, target).0;
                    let difference = (ahead - behind) / (2.0 * h);
                    assert!(
                        (slope - difference).abs() < 1e-8 * (1.0 + value),
                        "{loss:?} at {score}"
                    );
                    assert!(value >= 0.0);
                }
            }
        }
    }
}
