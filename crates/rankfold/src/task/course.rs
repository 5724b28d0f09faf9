//! How far a run has come: counters, the learning curve, the best model by
//! validation, patience, and the end.

use super::checkpoint::{State, Window};
use super::run::{CurvePoint, Stop};
use crate::model::{Card, Counters, Metrics};
use crate::online::{Learned, Outcome};

/// Counts a step on so many examples, whose mean loss it is. Counters may come
/// from a file, which is not trusted: they stop at the largest value.
pub(super) fn count(counters: &mut Counters, examples: u64, learned: &Learned) {
    let one_more = |counter: &mut u64| *counter = counter.saturating_add(1);
    counters.steps = counters.steps.saturating_add(examples);
    match learned.outcome {
        Outcome::Moved => one_more(&mut counters.updates),
        Outcome::Refused => one_more(&mut counters.refused),
        Outcome::Idle => {}
    }
    counters.add_loss(learned.loss * examples as f64);
}

/// The best of a run so far, by validation.
#[derive(Debug, Clone)]
pub(super) struct Kept<T> {
    pub model: T,
    pub counters: Counters,
    /// By which it is the best.
    pub merit: f64,
}

/// The course of a run; `T` is what is kept of the best point.
#[derive(Debug)]
pub(super) struct Course<T> {
    /// Steps of the whole run, and between two points of the curve.
    pub total: u64,
    pub every: u64,
    pub counters: Counters,
    /// Points with validation metrics.
    pub history: Vec<CurvePoint>,
    pub window: Window,
    /// The step of the last point of the curve.
    pub measured: u64,
    pub best: Option<Kept<T>>,
    pub without_gain: u32,
    /// How good metrics are, more being better; not a number where they say nothing.
    merit: fn(&Metrics) -> f64,
    pub finished: Option<Stop>,
}

impl<T> Course<T> {
    /// A run of so many steps.
    pub fn new(total: u64, every: Option<u64>) -> Self {
        Course {
            total,
            every: every.unwrap_or(total.div_ceil(20).max(1)),
            counters: Counters::default(),
            history: Vec::new(),
            window: Window::default(),
            measured: 0,
            best: None,
            without_gain: 0,
            merit: |metrics| metrics.get("map").copied().unwrap_or(f64::NAN),
            finished: None,
        }
    }

    /// The same with points of the curve between whole batches only.
    pub fn in_batches(mut self, batch: u64) -> Self {
        let whole = |n: u64| n.checked_next_multiple_of(batch).unwrap_or(u64::MAX);
        (self.total, self.every) = (whole(self.total), whole(self.every));
        self
    }

    /// The same, judged by something else than mAP.
    pub fn judged_by(self, merit: fn(&Metrics) -> f64) -> Self {
        Course { merit, ..self }
    }

    /// Goes to where a checkpoint was; `best` is what it kept of the best point.
    pub fn restore(&mut self, card: Card, state: &State, best: Option<T>) {
        self.counters = card.counters;
        self.history = card.history;
        self.window = state.window;
        self.measured = state.measured;
        self.without_gain = state.without_gain;
        self.best = state.best.as_ref().zip(best).map(|(kept, model)| Kept {
            model,
            counters: kept.counters,
            merit: kept.map,
        });
    }

    /// The step of the next point of the curve.
    pub fn boundary(&self) -> u64 {
        let next = (self.counters.steps / self.every).saturating_add(1);
        next.saturating_mul(self.every).min(self.total)
    }

    /// Counts a step from so many examples, whose mean loss it says.
    pub fn count_batch(&mut self, examples: u64, learned: &Learned) {
        count(&mut self.counters, examples, learned);
        if learned.loss.is_finite() {
            self.window.loss += learned.loss * examples as f64;
            self.window.steps += examples;
        }
    }

    /// Mean loss since the last point of the curve.
    pub fn running_loss(&self) -> f64 {
        self.window.loss / self.window.steps.max(1) as f64
    }

    /// Whether a point of the curve has been reached and not been measured.
    pub fn is_due(&self) -> bool {
        let steps = self.counters.steps;
        let reached = steps > 0 && (steps.is_multiple_of(self.every) || steps == self.total);
        reached && self.measured < steps
    }

    /// Adds a point of the curve with its metrics, none without validation. The
    /// model is asked for where it is the best so far.
    pub fn measured(&mut self, metrics: Option<Metrics>, model: impl FnOnce() -> T) -> CurvePoint {
        let point = CurvePoint {
            counters: self.counters,
            loss: self.running_loss(),
            metrics: metrics.clone().unwrap_or_default(),
        };
        if let Some(metrics) = metrics {
            let merit = (self.merit)(&metrics);
            if merit.is_finite() && self.best.as_ref().is_none_or(|best| merit > best.merit) {
                self.best = Some(Kept {
                    model: model(),
                    counters: self.counters,
                    merit,
                });
                self.without_gain = 0;
            } else {
                self.without_gain += 1;
            }
            // The curve without metrics says how often someone looked, not what
            // was learned.
            if !point.metrics.is_empty() {
                self.history.push(point.clone());
            }
        }
        self.window = Window::default();
        self.measured = self.counters.steps;
        point
    }

    /// Whether this is the end.
    pub fn settle(&mut self, validated: bool, patience: Option<u32>) {
        if validated && self.without_gain >= patience.unwrap_or(u32::MAX) {
            self.finished = Some(Stop::Patience);
        } else if self.counters.steps >= self.total && !self.is_due() {
            self.finished = Some(Stop::Steps);
        }
    }

    /// Validation metrics of the model that would be kept now.
    pub fn metrics(&self) -> Metrics {
        let best = self.best.as_ref().and_then(|best| {
            let at_best = |p: &&CurvePoint| p.counters == best.counters;
            self.history.iter().find(at_best)
        });
        best.map(|point| point.metrics.clone()).unwrap_or_default()
    }
}
