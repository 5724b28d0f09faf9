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
    /// Mean hinge loss on held-out triplets.
    pub loss: f64,
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
    GRID.iter()
        .map(|&size| {
            let mut learner = start.clone();
            let mut source = training.clone();
            let mut examples = examples.clone();
            for _ in 0..steps {
                let example = examples.make(source.draw());
                learner.learn(example, 1.0, Loss::Hinge, Step { size, limit });
            }
            let (mut wrong, mut loss) = (0.0, 0.0);
            for &triplet in held_out {
                let margin = learner.score(examples.make(triplet));
                // A margin that is not a number is as wrong as can be.
                wrong += if margin > 0.0 { 0.0 } else { 1.0 };
                loss += Loss::Hinge.at(margin, 1.0).0;
            }
            let n = held_out.len().max(1) as f64;
            Trial {
                size,
                wrong: wrong / n,
                loss: loss / n,
            }
        })
        .collect()
}

/// The best of the trials; of equals the larger step.
pub(super) fn best(trials: &[Trial]) -> f64 {
    let key = |t: &Trial| {
        if t.wrong.is_nan() {
            f64::INFINITY
        } else {
            t.wrong
        }
    };
    let mut best = &trials[0];
    for trial in trials {
        if key(trial) <= key(best) {
            best = trial;
        }
    }
    best.size
}
