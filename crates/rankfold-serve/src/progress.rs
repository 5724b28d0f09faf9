//! How learning goes: a curve for the page, and numbers for who watches.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rankfold::model::Counters;
use serde_json::{Value, json};

/// Points of the curve that are kept; then every second one goes, and points come half as often.
const POINTS: usize = 400;
/// The time over which rates are told.
const WINDOW: Duration = Duration::from_secs(10);

/// What was learned since the service started.
pub struct Progress {
    start: Counters,
    /// Examples, loss and updates at some sequences.
    curve: Vec<Point>,
    every: u64,
    recent: VecDeque<(Instant, u64)>,
}

#[derive(Clone, Copy)]
struct Point {
    sequence: u64,
    steps: u64,
    updates: u64,
    loss: f64,
}

impl Progress {
    pub fn new(start: Counters, sequence: u64) -> Self {
        Progress {
            start,
            curve: vec![Point {
                sequence,
                steps: 0,
                updates: 0,
                loss: 0.0,
            }],
            every: 1,
            recent: VecDeque::new(),
        }
    }

    /// Takes in where learning is.
    pub fn at(&mut self, sequence: u64, counters: &Counters, accepted: u64) {
        let now = Instant::now();
        if accepted > 0 {
            self.recent.push_back((now, accepted));
        }
        self.forget(now);
        let done = counters.since(&self.start);
        // After an undo the curve goes back, too.
        self.curve.retain(|point| point.sequence < sequence);
        let last = self.curve.last().map_or(0, |point| point.sequence);
        if self.curve.is_empty() || sequence >= last + self.every {
            self.curve.push(Point {
                sequence,
                steps: done.steps,
                updates: done.updates,
                loss: done.total_loss,
            });
        }
        if self.curve.len() > POINTS {
            let mut at = 0;
            self.curve.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every *= 2;
        }
    }

    fn forget(&mut self, now: Instant) {
        while self.recent.len() > 4096
            || self
                .recent
                .front()
                .is_some_and(|(at, _)| now - *at > WINDOW)
        {
            self.recent.pop_front();
        }
    }

    /// The curve of the progressive error, each example judged before it was learned.
    pub fn json(&mut self) -> Value {
        let now = Instant::now();
        self.forget(now);
        let count: u64 = self.recent.iter().map(|(_, n)| n).sum();
        let points = self.curve.windows(2).map(|pair| {
            let steps = (pair[1].steps - pair[0].steps.min(pair[1].steps)).max(1) as f64;
            json!({
                "sequence": pair[1].sequence,
                "loss": (pair[1].loss - pair[0].loss) / steps,
                "mistakes": (pair[1].updates.saturating_sub(pair[0].updates)) as f64 / steps,
            })
        });
        json!({
            "feedback_per_second": count as f64 / WINDOW.as_secs_f64(),
            "curve": points.collect::<Vec<_>>(),
        })
    }
}
