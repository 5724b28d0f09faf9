//! Losses: from a score and its target to a value and a slope.

/// What a score should have been; each is convex in the score.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Loss {
    /// [1 − target·score]₊: the score of a pair should have the sign of its
    /// target (±1) and be at least one away from zero.
    Hinge,
    /// [target − score]₊: the score should be at least its target.
    Margin,
    /// ½(score − target)².
    Squared,
    /// ½[score − target]₊²: the score should be at most its target.
    AtMost,
    /// ½[target − score]₊²: the score should be at least its target.
    AtLeast,
    /// A loss of your own: from score and target to value and slope.
    /// [`crate::check::loss`] compares the two.
    Custom(fn(f64, f64) -> (f64, f64)),
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
            Loss::Margin => {
                let value = target - score;
                // As above: NaN is not satisfied.
                if value <= 0.0 {
                    (0.0, 0.0)
                } else {
                    (value, -1.0)
                }
            }
            Loss::Squared => {
                let error = score - target;
                (0.5 * error * error, error)
            }
            // As above: NaN is not satisfied.
            Loss::AtMost if score <= target => (0.0, 0.0),
            Loss::AtLeast if score >= target => (0.0, 0.0),
            Loss::AtMost | Loss::AtLeast => Loss::Squared.at(score, target),
            Loss::Custom(loss) => loss(score, target),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_match_finite_differences() {
        for loss in [
            Loss::Hinge,
            Loss::Margin,
            Loss::Squared,
            Loss::AtMost,
            Loss::AtLeast,
        ] {
            for target in [-1.0, 1.0, 2.5] {
                let scores = [-3.0, -0.7, 0.0, 0.2, 0.9, 1.3, 4.0];
                assert!(crate::check::loss(loss, target, &scores) < 1e-8, "{loss:?}");
            }
        }
        let wrong = Loss::Custom(|score, target| ((score - target).powi(2), score - target));
        assert!(crate::check::loss(wrong, 1.0, &[3.0]) > 0.1);
    }
}
