//! How a row and its labels become an example: the row ⊗ (labels it has − a label
//! it has not), where the score of the latter is too near to theirs.
//!
//! `top` scores all labels and takes the best wrong one, O(nnz·k + L·k). `warp`
//! draws wrong labels until one violates the margin, and makes the step the
//! shorter the longer that took: many trials mean that few labels stand above.
//! References: [Shalit2012], section 7, and [Weston2011].

use crate::form::Query;
use crate::model::{Prior, RankingRule, Sampler, Subgradient};
use crate::online::{AnyLearner, Learned, Learner, Outcome, RankOne, Step};
use crate::random::Random;
use crate::{Loss, Real, SparseRow, SparseVec};

/// The multilabel hinge loss Σᵢ [1 + s(ȳ) − s(yᵢ)]₊ over the `positives` yᵢ of a
/// row, which rise; ȳ is the best of all other labels, of equal ones the first.
/// `direction` becomes the way down: 1 at every violated positive and −1, or minus
/// their number, at ȳ. It is empty where nothing is violated, and where all labels
/// are positive.
pub fn multilabel_hinge<R: Real>(
    scores: &[f64],
    positives: &[u32],
    gradient: Subgradient,
    direction: &mut SparseVec<R>,
) -> f64 {
    direction.clear();
    let Some(wrong) = best_wrong(scores, positives) else {
        return 0.0;
    };
    let margin = |y: u32| 1.0 + scores[wrong as usize] - scores[y as usize];
    let violated = || positives.iter().copied().filter(|&y| margin(y) > 0.0);
    let count = violated().count();
    if count == 0 {
        return 0.0;
    }
    let down = match gradient {
        Subgradient::Single => 1.0,
        Subgradient::Summed => count as f64,
    };
    let mut down = Some((wrong, R::from_f64(-down)));
    let mut loss = 0.0;
    for y in violated() {
        if let Some((wrong, weight)) = down.take_if(|(wrong, _)| *wrong < y) {
            direction.push(wrong, weight);
        }
        direction.push(y, R::from_f64(1.0));
        loss += margin(y);
    }
    if let Some((wrong, weight)) = down {
        direction.push(wrong, weight);
    }
    loss
}

/// The best label that is none of the positives.
fn best_wrong(scores: &[f64], positives: &[u32]) -> Option<u32> {
    let mut best: Option<(u32, f64)> = None;
    let mut start = 0;
    let ends = positives.iter().map(|&y| y as usize);
    for end in ends.chain([scores.len()]) {
        for (j, &score) in scores.iter().enumerate().take(end).skip(start) {
            if best.is_none_or(|(_, top)| score > top) {
                best = Some((j as u32, score));
            }
        }
        start = end + 1;
    }
    best.map(|(j, _)| j)
}

/// A pair of labels in the wrong order, or too near.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Violation {
    /// A label of the row.
    pub positive: u32,
    /// A label that it has not.
    pub negative: u32,
    /// 1 + score of the negative − score of the positive, above 0.
    pub loss: f64,
    /// Share of a whole step: what the rank of the positive, guessed from the
    /// trials, is worth beside the last rank.
    pub weight: f64,
    /// Wrong labels that were drawn.
    pub trials: usize,
}

/// Wrong labels that are drawn for a positive before it counts as well placed.
pub const WARP_TRIALS: usize = 100;

/// Draws one of the `positives` of a row, which rise, and wrong labels among
/// `labels` until one violates the margin: `score` is asked for these alone.
/// `None` where none of a hundred does, or all labels are positive.
pub fn warp(
    labels: usize,
    positives: &[u32],
    random: &mut Random,
    score: impl FnMut(u32) -> f64,
) -> Option<Violation> {
    labels.checked_sub(positives.len()).filter(|&n| n > 0)?;
    let positive = *positives.get(random.below(positives.len().max(1)))?;
    warp_of(labels, positives, positive, random, score)
}

/// The same for a positive that is given.
pub(crate) fn warp_of(
    labels: usize,
    positives: &[u32],
    positive: u32,
    random: &mut Random,
    mut score: impl FnMut(u32) -> f64,
) -> Option<Violation> {
    let wrong = labels.checked_sub(positives.len()).filter(|&n| n > 0)?;
    let own = score(positive);
    for trials in 1..=WARP_TRIALS {
        let negative = nth_wrong(random.below(wrong) as u32, positives);
        let loss = 1.0 + score(negative) - own;
        if loss > 0.0 {
            let others = labels - 1;
            return Some(Violation {
                positive,
                negative,
                loss,
                weight: harmonic(others / trials) / harmonic(others),
                trials,
            });
        }
    }
    None
}

/// The n-th label, from 0, that is none of the positives.
fn nth_wrong(n: u32, positives: &[u32]) -> u32 {
    positives.iter().fold(n, |n, &y| n + u32::from(y <= n))
}

/// 1 + 1/2 + … + 1/n, at least 1.
fn harmonic(n: usize) -> f64 {
    if n < 64 {
        return (1..=n.max(1)).map(|j| 1.0 / j as f64).sum();
    }
    // Euler and Maclaurin: the next term is below 1e-13.
    const GAMMA: f64 = 0.577_215_664_901_532_9;
    let n = n as f64;
    n.ln() + GAMMA + 0.5 / n - 1.0 / (12.0 * n * n) + 1.0 / (120.0 * n.powi(4))
}

/// Learns from rows and their labels; holds room for their scores.
#[derive(Debug, Clone)]
pub(crate) struct Violations<R> {
    pub rule: RankingRule,
    query: Query,
    scores: Vec<f64>,
    direction: SparseVec<R>,
    /// Labels whose score was computed.
    pub scored: u64,
}

impl<R: Real> Violations<R> {
    /// The loss as a learner sees it that steps until it is gone. Where a wrong label
    /// counts once beside several right ones, its score must count once as well: a
    /// step measured by more than the direction changes would run away.
    fn reach(&self, learner: &AnyLearner<R>, loss: f64) -> f64 {
        let counted_once = matches!(learner, AnyLearner::PassiveAggressive(_))
            && self.rule.sampler == Sampler::Top
            && self.rule.gradient == Subgradient::Single;
        if !counted_once {
            return loss;
        }
        let labels = self.direction.as_row();
        let wrong = labels.iter().find(|(_, v)| v.to_f64() < 0.0);
        let score = wrong.map_or(0.0, |(y, _)| self.scores[y as usize]);
        let right = labels.indices.len().saturating_sub(1);
        loss - right.saturating_sub(1) as f64 * score
    }

    pub fn new(rule: RankingRule) -> Self {
        Violations {
            rule,
            query: Query::default(),
            scores: Vec::new(),
            direction: SparseVec::new(),
            scored: 0,
        }
    }

    /// One step on a row and its labels, which rise.
    pub fn learn(
        &mut self,
        learner: &mut AnyLearner<R>,
        prior: &mut Prior,
        row: SparseRow<'_, R>,
        positives: &[u32],
        step: Step,
        random: impl FnOnce() -> Random,
    ) -> Learned {
        let form = learner.form();
        form.ask(&mut self.query, row);
        let (loss, weight) = match self.rule.sampler {
            Sampler::Top => {
                self.scores.resize(prior.bias.len(), 0.0);
                form.columns(&self.query, &mut self.scores);
                for (score, bias) in self.scores.iter_mut().zip(&prior.bias) {
                    *score += bias;
                }
                self.scored += self.scores.len() as u64;
                let (scores, gradient) = (&self.scores, self.rule.gradient);
                let loss = multilabel_hinge(scores, positives, gradient, &mut self.direction);
                (loss, 1.0)
            }
            Sampler::Warp => {
                let (query, scored) = (&self.query, &mut self.scored);
                let score = |y: u32| {
                    *scored += 1;
                    form.column(query, y as usize) + prior.bias[y as usize]
                };
                self.direction.clear();
                match warp(prior.bias.len(), positives, &mut random(), score) {
                    None => (0.0, 0.0),
                    Some(found) => {
                        let (up, down) = (R::from_f64(1.0), R::from_f64(-1.0));
                        let mut pair = [(found.positive, up), (found.negative, down)];
                        pair.sort_by_key(|e| e.0);
                        for (y, v) in pair {
                            self.direction.push(y, v);
                        }
                        (found.loss, found.weight)
                    }
                }
            }
        };
        if loss <= 0.0 || self.direction.as_row().is_empty() {
            // Learners that take turns count this example, too.
            let nothing = RankOne {
                left: SparseRow::default(),
                right: SparseRow::default(),
            };
            return learner.learn(nothing, 0.0, Loss::Margin, step);
        }
        let example = RankOne {
            left: row,
            right: self.direction.as_row(),
        };
        let step = Step {
            size: weight * step.size,
            ..step
        };
        // What W has to add along the direction before the loss is gone.
        let target = self.reach(learner, loss) + learner.score(example);
        let learned = learner.learn(example, target, Loss::Margin, step);
        if learned.outcome != Outcome::Refused {
            let size = step.size * self.rule.bias;
            for (y, v) in self.direction.as_row().iter() {
                let bias = &mut prior.bias[y as usize];
                let moved = *bias + size * v.to_f64();
                // A bias that is not finite would never leave the model again.
                if moved.abs() < 1e300 {
                    *bias = moved;
                }
            }
        }
        Learned { loss, ..learned }
    }
}
