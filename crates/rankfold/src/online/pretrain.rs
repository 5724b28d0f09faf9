//! The size of steps and how fast it falls, chosen by short runs from the same start.
//!
//! A step of [`StepRule::Falling`] has two numbers to choose, s and t₀, both among 2^−3,
//! …, 2³. μ̂ is the mean norm of the gradient at the start, and after a run on the first
//! examples each pair is judged by its mean loss on some that it has not seen.
//!
//! Cost: 49 copies of the learner, one at a time; 49 times `budget` steps; 49 times as
//! many scores as there are held-out examples; and `budget` norms of gradients.
//! Reference: [Meyer2011b], section 7.2.

use super::{Learner, Mixed, Outcome, Step, StepRule};
use crate::Real;

/// One run in this many examples is held out.
const HELD_OUT: usize = 5;

/// A pair that was tried, and what it reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTrial {
    /// s.
    pub size: f64,
    /// t₀, in passes.
    pub half_life: f64,
    /// The mean loss of the held-out examples after the run; not finite where the run
    /// went astray.
    pub cost: f64,
}

/// What [`choose_step`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenStep {
    /// The rule with the least cost.
    pub rule: StepRule,
    /// Its cost, and that of the start.
    pub cost: f64,
    /// The mean loss of the held-out examples at the start.
    pub start: f64,
    /// All that was tried, in order.
    pub trials: Vec<StepTrial>,
}

/// Chooses s and t₀ for a run over all of these examples in batches of `batch`, by runs
/// over the first of them, `budget` at most. Of equal costs the smaller step wins, then
/// the one that falls sooner. `None` where there is nothing to choose by: fewer than two
/// examples, no gradient at the start, or no run that ends well.
///
/// The examples should come in no order: those that are held out follow those that are
/// learned from.
pub fn choose_step<R: Real, L: Learner<R> + Clone>(
    start: &L,
    examples: &[Mixed<'_, R>],
    batch: usize,
    budget: usize,
    limit: f64,
) -> Option<ChosenStep> {
    let held_out = examples.len().min(budget) / HELD_OUT;
    let learned = budget.min(examples.len().saturating_sub(held_out.max(1)));
    let (train, rest) = examples.split_at(learned);
    let held_out = &rest[..held_out.max(1).min(rest.len())];
    let powers = || (-3..=3).map(|k| 2_f64.powi(k));
    let candidates: Vec<_> = powers()
        .flat_map(|s| powers().map(move |t| (s, t)))
        .collect();
    let trials = Trials {
        train,
        held_out,
        batch,
        limit,
    };
    let rule = |size, half_life, gradient| StepRule::Falling {
        size,
        half_life,
        examples: examples.len() as u64,
        gradient,
    };
    trials.choose(start, &candidates, &rule, &|_| 1.0)
}

/// Examples of short runs: those that are learned from, and those that judge.
pub(crate) struct Trials<'a, R> {
    pub train: &'a [Mixed<'a, R>],
    pub held_out: &'a [Mixed<'a, R>],
    pub batch: usize,
    pub limit: f64,
}

impl<R: Real> Trials<'_, R> {
    /// The best of some pairs s and t₀; `rule` makes a rule of them and μ̂, `trace` is
    /// asked for Tr W where a rule wants it.
    pub fn choose<L: Learner<R> + Clone>(
        &self,
        start: &L,
        candidates: &[(f64, f64)],
        rule: &dyn Fn(f64, f64, f64) -> StepRule,
        trace: &dyn Fn(&L) -> f64,
    ) -> Option<ChosenStep> {
        let &Trials {
            train,
            held_out,
            batch,
            limit,
        } = self;
        if train.is_empty() || held_out.is_empty() {
            return None;
        }
        let mut learner = start.clone();
        let norms = train
            .iter()
            .map(|e| learner.gradient_norm(e.example, e.target, e.loss));
        let gradient = norms.sum::<f64>() / train.len() as f64;
        if !(gradient > 0.0 && gradient.is_finite()) {
            return None;
        }
        let cost = |learner: &mut L| {
            let losses = held_out
                .iter()
                .map(|e| e.loss.at(learner.score(e.example), e.target).0);
            losses.sum::<f64>() / held_out.len() as f64
        };
        let before = cost(&mut learner);
        let mut trials = Vec::new();
        let mut best: Option<(StepRule, f64)> = None;
        for &(size, half_life) in candidates {
            let rule = rule(size, half_life, gradient);
            let mut learner = start.clone();
            let mut seen = 0;
            let mut refused = 0;
            for batch in train.chunks(batch.max(1)) {
                seen += batch.len() as u64;
                let step = Step {
                    size: rule.size(seen - 1, || trace(&learner)),
                    limit,
                };
                let learned = match batch {
                    [one] => learner.learn(one.example, one.target, one.loss, step),
                    several => learner.learn_mixed(several, step),
                };
                refused += usize::from(learned.outcome == Outcome::Refused);
            }
            // A run whose steps were refused has judged nothing.
            let cost = match 2 * refused * batch.max(1) > train.len() {
                true => f64::INFINITY,
                false => cost(&mut learner),
            };
            trials.push(StepTrial {
                size,
                half_life,
                cost,
            });
            if cost.is_finite() && best.is_none_or(|(_, least)| cost < least) {
                best = Some((rule, cost));
            }
        }
        best.map(|(rule, cost)| ChosenStep {
            rule,
            cost,
            start: before,
            trials,
        })
    }
}
