//! The step size, chosen by a short pre-training run for each candidate.

use super::stepper::Stepper;
use crate::Real;
use crate::online::{Learner, Rule};
use crate::sample::Triplets;
use crate::task::triplet::{Sides, TripletRows};

/// Candidates. The best constant step for rows of length one is large, and
/// falls with the rank.
const GRID: [f64; 7] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

/// Candidates of descent on the factors, which runs away where a step on the
/// manifold does not.
const CAREFUL: [f64; 7] = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0];

/// The candidates of a rule. A batch takes the mean of its gradients, so its
/// steps are longer.
pub(super) fn grid(rule: Rule, batch: usize) -> [f64; 7] {
    let grid = match rule {
        Rule::Gradient | Rule::GradientPsd | Rule::Flat | Rule::ManifoldIdentification => CAREFUL,
        _ if rule.cone().is_some() => CAREFUL,
        _ => GRID,
    };
    grid.map(|size| size * batch as f64)
}

/// Candidates of the steps between full ones, as multiples of these.
pub(super) const INNER: [f64; 7] = [1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1];

/// What a candidate reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trial {
    pub size: f64,
    /// Share of held-out triplets that are ordered the wrong way.
    pub wrong: f64,
}

/// What trials learn from, and what judges them.
pub(super) struct Short {
    pub training: Triplets,
    pub steps: u64,
    pub judge: Triplets,
}

/// Trains a copy of the start with each candidate on the same triplets and
/// judges it on `held_out` triplets of a source apart. Where negatives are hard
/// ones, it is judged by such.
pub(super) fn trials<R: Real>(
    start: &Stepper<R>,
    grid: &[f64],
    set: fn(&mut Stepper<R>, f64),
    rows: Sides<'_, R>,
    short: &Short,
    held_out: usize,
) -> Vec<Trial> {
    let trial = |&size: &f64| {
        let mut stepper = start.clone();
        let mut source = short.training.clone();
        set(&mut stepper, size);
        let mut done = 0;
        while done < short.steps {
            done += stepper.take(rows, &mut source, done).0;
        }
        let mut source = short.judge.clone();
        // A margin that is not a number is as wrong as can be.
        let mut is_wrong = || {
            let triplet = stepper.draw(rows, &mut source);
            let example = stepper.examples.margin(TripletRows::of(rows, triplet));
            let margin = stepper.learner.score(example);
            margin.is_nan() || margin <= 0.0
        };
        let wrong = (0..held_out).filter(|_| is_wrong()).count();
        Trial {
            size,
            wrong: wrong as f64 / held_out as f64,
        }
    };
    grid.iter().map(trial).collect()
}

/// Which of several good steps to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefer {
    /// The largest that is not worse than the best by more than the sampling error
    /// of the comparison: over a long run it gains on a smaller one that was as good
    /// after a short one.
    Large,
    /// The smallest that is about as good as the best. After a short run a step is
    /// praised for its speed, but what LEGO and hard negatives gain at first by long
    /// steps they lose later.
    Small,
}

/// How much worse a small step may be, as a share of the error.
const ABOUT: f64 = 0.05;

/// The step to take.
pub(super) fn best(trials: &[Trial], held_out: usize, prefer: Prefer) -> f64 {
    let least = trials.iter().map(|t| t.wrong).fold(f64::INFINITY, f64::min);
    let error = (least * (1.0 - least) / held_out as f64).sqrt();
    let slack = match prefer {
        Prefer::Large => error,
        Prefer::Small => error + ABOUT * least,
    };
    let mut good = trials.iter().filter(|t| t.wrong <= least + slack);
    let chosen = match prefer {
        Prefer::Large => good.next_back(),
        Prefer::Small => good.next(),
    };
    chosen.map_or(0.0, |trial| trial.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_good_steps_the_largest_or_the_smallest_is_taken() {
        let trials = |wrong: [f64; 7]| -> Vec<Trial> {
            GRID.iter()
                .zip(wrong)
                .map(|(&size, wrong)| Trial { size, wrong })
                .collect()
        };
        let clear = trials([0.3, 0.2, 0.1, 0.08, 0.12, 0.2, 0.5]);
        assert_eq!(best(&clear, 10_000, Prefer::Large), 3.0);
        // One standard error of .08 on 10,000 triplets is .0027.
        let close = trials([0.3, 0.2, 0.1, 0.08, 0.082, 0.0835, 0.5]);
        assert_eq!(best(&close, 10_000, Prefer::Large), 10.0);
        assert_eq!(best(&close, 10_000, Prefer::Small), 3.0);
        let perfect = trials([0.0; 7]);
        assert_eq!(best(&perfect, 10, Prefer::Large), 100.0);
    }
}
