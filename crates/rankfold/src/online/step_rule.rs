//! Sizes of steps that fall with their number. Reference: [Meyer2011b], equation 23 and
//! appendix A.

use serde::{Deserialize, Serialize};

/// The size of a step by its number, and by W where a proof asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepRule {
    /// Always the same.
    Constant(f64),
    /// s/μ̂ · n t₀ / (n t₀ + t): a share s of the usual gradient at the start, halved
    /// after t₀ passes over all examples.
    Falling {
        /// s.
        size: f64,
        /// t₀, in passes.
        half_life: f64,
        /// n, the examples of a pass.
        examples: u64,
        /// μ̂, the mean norm of the gradient at the start
        /// ([`Learner::gradient_norm`](super::Learner::gradient_norm)).
        gradient: f64,
    },
    /// η / max(‖G‖², 1) with η = s t₀ / (t₀ + t), for which Σ η = ∞ and Σ η² < ∞: the
    /// flat descent of W = GGᵀ then converges almost surely.
    Convergent {
        /// s.
        size: f64,
        /// t₀, in examples.
        half_life: f64,
    },
}

impl StepRule {
    /// The size after `seen` examples; `trace` gives Tr W = ‖G‖² where it is asked for
    /// ([`FormRef::trace`](crate::form::FormRef::trace)).
    pub fn size(&self, seen: u64, trace: impl FnOnce() -> f64) -> f64 {
        let t = seen as f64;
        match *self {
            StepRule::Constant(size) => size,
            StepRule::Falling {
                size,
                half_life,
                examples,
                gradient,
            } => {
                let whole = examples as f64 * half_life;
                size / gradient * (whole / (whole + t))
            }
            StepRule::Convergent { size, half_life } => {
                size * half_life / (half_life + t) / trace().max(1.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_equations() {
        let never = || panic!("only one rule looks at W");
        assert_eq!(StepRule::Constant(0.3).size(7, never), 0.3);
        let falling = StepRule::Falling {
            size: 3.0,
            half_life: 2.0,
            examples: 50,
            gradient: 6.0,
        };
        assert_eq!(falling.size(0, never), 0.5);
        assert_eq!(falling.size(100, never), 0.25);
        let convergent = StepRule::Convergent {
            size: 0.5,
            half_life: 10.0,
        };
        assert_eq!(convergent.size(0, || 0.2), 0.5);
        assert_eq!(convergent.size(10, || 4.0), 0.0625);
        // Σ η grows like a logarithm, Σ η² has a bound: t₀² s² π²/6 and some.
        let sums = |until: u64| {
            let sizes = (0..until).map(|t| convergent.size(t, || 1.0));
            sizes.fold((0.0, 0.0), |(a, b), s| (a + s, b + s * s))
        };
        let (first, second) = (sums(100_000), sums(1_000_000));
        assert!(second.0 - first.0 > 4.0 * 10_f64.ln());
        assert!(second.1 - first.1 < 1e-3);
    }
}
