//! The step size, chosen by a short pre-training run for each candidate.

use super::similarity::Examples;
use crate::online::{AnyLearner, Learner, Step};
use crate::sample::{Triplet, Triplets};
use crate::{Loss, Real};

/// Candidates. The best constant step for rows of length one is large, and
/// falls with the rank.
pub(super) const GRID: [f64; 7] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

/// What a candidate reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trial {
    pub size: f64,
    /// Share of held-out triplets that are ordered the wrong way.
    pub wrong: f64,
}

/// Trains a copy of the start with each candidate on the same triplets and
/// judges it on held-out ones.
pub(super) fn trials<R: Real>(
    start: &AnyLearner<R>,
    examples: &Examples<'_, R>,
    training: &Triplets,
    steps: u64,
    held_out: &[Triplet],
    limit: f64,
) -> Vec<Trial> {
    let trial = |&size: &f64| {
        let mut learner = start.clone();
        let mut source = training.clone();
        let mut examples = examples.clone();
        for _ in 0..steps {
            let example = examples.make(source.draw());
            learner.learn(example, 1.0, Loss::Hinge, Step { size, limit });
        }
        // A margin that is not a number is as wrong as can be.
        let wrong = |triplet: &&Triplet| {
            let margin = learner.score(examples.make(**triplet));
            margin.is_nan() || margin <= 0.0
        };
        let count = held_out.iter().filter(wrong).count();
        Trial {
            size,
            wrong: count as f64 / held_out.len() as f64,
        }
    };
    GRID.iter().map(trial).collect()
}

/// The largest step that is not worse than the best by more than the sampling
/// error of the comparison: over a long run a larger step gains on a smaller
/// one that was as good after a short one.
pub(super) fn best(trials: &[Trial], held_out: usize) -> f64 {
    let least = trials.iter().map(|t| t.wrong).fold(f64::INFINITY, f64::min);
    let error = (least * (1.0 - least) / held_out as f64).sqrt();
    let good = trials.iter().filter(|t| t.wrong <= least + error);
    good.map(|t| t.size).fold(GRID[0], f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_steps_that_cannot_be_told_apart_the_largest_is_taken() {
        let trials = |wrong: [f64; 7]| -> Vec<Trial> {
            GRID.iter()
                .zip(wrong)
                .map(|(&size, wrong)| Trial { size, wrong })
                .collect()
        };
        let clear = trials([0.3, 0.2, 0.1, 0.08, 0.12, 0.2, 0.5]);
        assert_eq!(best(&clear, 10_000), 3.0);
        // One standard error of .08 on 10,000 triplets is .0027.
        let close = trials([0.3, 0.2, 0.1, 0.08, 0.082, 0.0835, 0.5]);
        assert_eq!(best(&close, 10_000), 10.0);
        let perfect = trials([0.0; 7]);
        assert_eq!(best(&perfect, 10), 100.0);
    }
}
