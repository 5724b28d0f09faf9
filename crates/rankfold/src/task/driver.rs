//! The driver of batch solvers: it counts iterations, measures the learning curve, keeps
//! the best model by validation, and tells the run what happens.

use super::course::Course;
use super::run::{Event, Report, Run, Stop, Trial, Unit};
use crate::batch::Ended;
use crate::model::{Counters, Metrics};

/// A run of a batch solver; `T` is what is kept of the best iteration.
pub(super) struct Driver<'r, T> {
    pub run: Run<'r>,
    pub course: Course<T>,
    pub trials: Vec<Trial>,
    patience: Option<u32>,
    stopped: Option<Stop>,
}

impl<'r, T> Driver<'r, T> {
    pub fn new(run: Run<'r>, course: Course<T>, patience: Option<u32>) -> Self {
        Driver {
            run,
            course,
            trials: Vec::new(),
            patience,
            stopped: None,
        }
    }

    /// Takes note of an iteration; false ends the run. Metrics and the model are asked
    /// for where they are needed.
    pub fn iteration(
        &mut self,
        cost: f64,
        metrics: impl FnOnce() -> Option<Metrics>,
        model: impl FnOnce() -> T,
    ) -> bool {
        let counters = &mut self.course.counters;
        counters.steps += 1;
        counters.updates += 1;
        counters.total_loss += cost;
        self.course.window.loss += cost;
        self.course.window.steps += 1;
        self.progress();
        if self.course.is_due() {
            self.measure(metrics(), model);
        }
        self.stopped.is_none()
    }

    /// Adds a point of the curve.
    pub fn measure(&mut self, metrics: Option<Metrics>, model: impl FnOnce() -> T) {
        let validated = metrics.is_some();
        let point = self.course.measured(metrics, model);
        if validated && self.course.without_gain >= self.patience.unwrap_or(u32::MAX) {
            self.stopped.get_or_insert(Stop::Patience);
        }
        self.tell(&Event::Measured(point));
    }

    fn progress(&mut self) {
        let (done, total) = (self.course.counters.steps, self.course.total);
        self.tell(&Event::Progress { done, total });
    }

    /// Tells that a choice goes on, without counting; false ends the run.
    pub fn goes_on(&mut self) -> bool {
        self.progress();
        self.stopped.is_none()
    }

    /// Takes note of a setting that was tried; false ends the run.
    pub fn tried(&mut self, trial: Trial) -> bool {
        self.tell(&Event::Tried(trial.clone()));
        self.trials.push(trial);
        self.stopped.is_none()
    }

    fn tell(&mut self, event: &Event) {
        if !self.run.tell(event) {
            self.stopped = Some(Stop::Interrupted);
        }
    }

    /// Whether the observer has asked for a stop.
    pub fn is_interrupted(&self) -> bool {
        self.stopped == Some(Stop::Interrupted)
    }

    /// The counters of the model that is kept: the best one by validation, or the last.
    pub fn counters(&self) -> Counters {
        let best = self.course.best.as_ref();
        best.map_or(self.course.counters, |best| best.counters)
    }

    /// Tells the end, and what was done.
    pub fn finish(&mut self, ended: Ended) -> Report {
        let stopped = self.stopped.unwrap_or(match ended {
            Ended::Converged => Stop::Converged,
            _ => Stop::Steps,
        });
        self.run.tell(&Event::Finished(stopped));
        let mut report = Report::new(stopped, self.course.counters);
        report.unit = Unit::Iterations;
        report.metrics = self.course.metrics();
        report.trials = std::mem::take(&mut self.trials);
        report
    }
}
