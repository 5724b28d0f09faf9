//! A run of any task: what it tells on the way, how it is stopped and saved, and what
//! it comes to.
//!
//! [`Run`] carries the observer, the checkpoints and the request to stop. Tasks call
//! [`Run::tell`] at every event; an observer that answers `false` interrupts the run.
//! What is learned does not depend on who observes it.

use super::checkpoint::Checkpoint;
use super::groups::Grouping;
use super::pace::Pace;
use super::similarity::Calibration;
use super::start::Start;
use crate::model::{Counters, HistoryPoint, Metrics, Model, Scaling};
use crate::options::Options;
use crate::{Error, Result, choices};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::path::{Path, PathBuf};

choices! {
    /// Why a run ended.
    pub enum Stop {
        /// All steps, iterations or slots were done.
        Steps = "steps",
        /// Validation did not improve for as long as was asked.
        Patience = "patience",
        /// Nothing more was to be gained.
        Converged = "converged",
        /// The observer asked for it.
        Interrupted = "interrupted",
    }
}

choices! {
    /// What the length of a run is counted in.
    pub enum Unit {
        /// Examples, one at a time.
        Steps = "steps" (default),
        /// Passes of a batch solver.
        Iterations = "iterations",
        /// Times at which agents talk.
        Slots = "slots",
    }
}

/// A point of the learning curve.
pub type CurvePoint = HistoryPoint;

/// A setting that was tried on held-out data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The options that were tried, with their values.
    pub settings: Map<String, Value>,
    /// What the setting is judged by, such as `rmse`.
    pub metric: String,
    /// What it reached; `None` where the run went astray.
    pub value: Option<f64>,
    /// Steps or iterations of the trial.
    pub steps: u64,
}

impl Trial {
    /// A trial of one option.
    pub fn of(option: &str, value: impl Into<Value>, metric: &str, reached: f64) -> Self {
        Trial {
            settings: Map::from_iter([(option.to_owned(), value.into())]),
            metric: metric.into(),
            value: Some(reached).filter(|value| value.is_finite()),
            steps: 0,
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<String> = self
            .settings
            .iter()
            .map(|(name, value)| {
                let name = name.replace('_', " ");
                match value {
                    Value::String(text) => format!("{name} {text}"),
                    value => format!("{name} {value}"),
                }
            })
            .collect();
        write!(f, "{}: {} ", settings.join(", "), self.metric)?;
        match self.value {
            Some(value) => write!(f, "{value:.4}"),
            None => f.write_str("not finite"),
        }
    }
}

/// What happens in a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Steps, iterations or slots were done.
    Progress {
        /// So many.
        done: u64,
        /// Of so many at most.
        total: u64,
    },
    /// A point of the learning curve was measured.
    Measured(CurvePoint),
    /// A setting is being tried on held-out data, in words.
    Trying(String),
    /// A setting was tried on held-out data.
    Tried(Trial),
    /// Something that the user should know.
    Note(String),
    /// A checkpoint was written.
    Saved(PathBuf),
    /// The run ended.
    Finished(Stop),
}

/// What reports and evaluations say beside their own fields.
macro_rules! says_more {
    () => {
        /// Adds a value by name.
        pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
            self.more.insert(name.into(), value.into());
            self
        }

        /// Tells the user something of so many things, unless there are none.
        pub fn noting(mut self, count: usize, text: impl FnOnce() -> String) -> Self {
            if count > 0 {
                self.notes.push(text());
            }
            self
        }
    };
}

/// What a run came to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fit {
    /// The model.
    pub model: Model,
    /// How it came about.
    pub report: Report,
}

impl Fit {
    /// A model, and how it came about.
    pub fn new(model: Model, report: Report) -> Self {
        Fit { model, report }
    }
}

/// How a model came about.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Why the run ended.
    pub stopped: Stop,
    /// What its length is counted in.
    pub unit: Unit,
    /// What was done.
    pub counters: Counters,
    /// Validation metrics of the model, where there were validation data.
    pub metrics: Metrics,
    /// What a simple model reaches on the same validation data, where the run was asked to
    /// compare ([`Run::compared`]) and the task has such a model.
    pub baseline: Option<Baseline>,
    /// The settings that were tried.
    pub trials: Vec<Trial>,
    /// What the user should know, in words.
    pub notes: Vec<String>,
    /// What else the task has to say, by name.
    pub more: Map<String, Value>,
}

impl Report {
    /// A report without metrics and trials.
    pub fn new(stopped: Stop, counters: Counters) -> Self {
        Report {
            stopped,
            unit: Unit::Steps,
            counters,
            metrics: Metrics::new(),
            baseline: None,
            trials: Vec::new(),
            notes: Vec::new(),
            more: Map::new(),
        }
    }

    says_more!();
}

/// What sees every event; false interrupts the run.
type Observer<'a> = dyn FnMut(&Event) -> bool + 'a;

/// Where checkpoints go, and how often.
#[derive(Debug, Clone)]
struct Saving {
    path: PathBuf,
    every: Option<u64>,
}

/// How a run is observed, saved and resumed.
///
/// ```
/// use rankfold::task::{Event, Run};
///
/// let mut points = 0;
/// let run = Run::default().observed(|event| {
///     points += usize::from(matches!(event, Event::Measured(_)));
///     true
/// });
/// # drop(run);
/// ```
#[derive(Default)]
pub struct Run<'a> {
    observer: Option<Box<Observer<'a>>>,
    stop: Option<&'a (dyn Fn() -> bool + Sync)>,
    clock: Option<Box<dyn Fn() -> f64 + 'a>>,
    saving: Option<Saving>,
    rescue: Option<PathBuf>,
    resume: Option<Checkpoint>,
    start: Option<Start>,
    earlier: f64,
    interrupted: bool,
    pace: Pace,
    /// Whether a simple model is measured as well.
    pub(super) compares: bool,
    /// What progress is counted in.
    pub(super) unit: Unit,
    /// What would take less time, in words.
    pub(super) faster: Option<&'static str>,
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("saving", &self.saving)
            .field("interrupted", &self.interrupted)
            .finish_non_exhaustive()
    }
}

impl<'a> Run<'a> {
    /// Tells every event to this observer; `false` interrupts the run.
    #[must_use]
    pub fn observed(mut self, observer: impl FnMut(&Event) -> bool + 'a) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Asks this now and then, also inside of long measurements, whether to stop.
    #[must_use]
    pub fn stopped_by(mut self, stop: &'a (dyn Fn() -> bool + Sync)) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Reads seconds from this clock; checkpoints keep them. The library has none.
    #[must_use]
    pub fn timed_by(mut self, clock: impl Fn() -> f64 + 'a) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Measures a simple model on the validation data as well, at the end: the line that a
    /// learning curve should pass.
    #[must_use]
    pub fn compared(mut self) -> Self {
        self.compares = true;
        self
    }

    /// Saves the whole state of the run here, every so many steps or iterations
    /// [default: a twentieth of the run], and when it is interrupted.
    #[must_use]
    pub fn checkpoint(mut self, path: impl Into<PathBuf>, every: Option<u64>) -> Self {
        self.saving = Some(Saving {
            path: path.into(),
            every,
        });
        self
    }

    /// Where an interrupted run is saved if no checkpoint was asked for.
    #[must_use]
    pub fn rescue(mut self, path: impl Into<PathBuf>) -> Self {
        self.rescue = Some(path.into());
        self
    }

    /// Goes on from this checkpoint of the same run.
    #[must_use]
    pub fn resume(mut self, checkpoint: Checkpoint) -> Self {
        self.earlier = checkpoint.seconds();
        self.resume = Some(checkpoint);
        self
    }

    /// Starts from the W of this model; the option `init` of the task is `model`.
    #[must_use]
    pub fn start(mut self, start: impl Into<Start>) -> Self {
        self.start = Some(start.into());
        self
    }

    /// The model to start from, once.
    pub fn take_start(&mut self) -> Option<Start> {
        self.start.take()
    }

    /// How the run that it goes on from, or starts from, scaled columns, where there is one.
    pub(super) fn earlier_scaling<O: Options>(
        &self,
        of: impl FnOnce(&O) -> Scaling,
    ) -> Result<Option<Scaling>> {
        match (&self.resume, &self.start) {
            (Some(checkpoint), _) => Ok(Some(of(&checkpoint.options()?))),
            (None, Some(start)) => Ok(Some(start.scaling(Scaling::Auto))),
            (None, None) => Ok(None),
        }
    }

    /// The checkpoint to go on from, once.
    pub fn take_checkpoint(&mut self) -> Option<Checkpoint> {
        let checkpoint = self.resume.take()?;
        if self.start.take().is_some() {
            self.note("the run goes on from its checkpoint: the model to start from is not needed");
        }
        Some(checkpoint)
    }

    /// Tells an event; says whether the run goes on.
    pub fn tell(&mut self, event: &Event) -> bool {
        if let Some(observer) = &mut self.observer {
            self.interrupted |= !observer(event);
        }
        if let (Event::Progress { done, total }, Some(clock)) = (event, &self.clock) {
            let words = self.pace.see(clock(), (*done, *total), self.unit.name());
            if let Some(words) = words {
                let faster = self.faster.map_or_else(String::new, |f| format!("; {f}"));
                self.note(words + &faster);
            }
        }
        self.goes_on()
    }

    /// Tells the user something.
    pub fn note(&mut self, text: impl Into<String>) {
        self.tell(&Event::Note(text.into()));
    }

    /// Whether nobody has asked for a stop.
    pub fn goes_on(&mut self) -> bool {
        self.interrupted |= self.stop.is_some_and(|stop| stop());
        !self.interrupted
    }

    /// What asks for a stop, to be called from other threads.
    pub fn stop(&self) -> Option<&'a (dyn Fn() -> bool + Sync)> {
        self.stop
    }

    /// Seconds of the run so far, those before it was resumed included.
    pub fn seconds(&self) -> f64 {
        self.earlier + self.clock.as_ref().map_or(0.0, |clock| clock())
    }

    /// Steps to the next checkpoint; the largest number without one.
    pub fn to_checkpoint(&self, done: u64, total: u64) -> u64 {
        let every = |saving: &Saving| saving.every.unwrap_or(total.div_ceil(20)).max(1);
        let every = self.saving.as_ref().map(every);
        every.map_or(u64::MAX, |every| every - done % every)
    }

    /// Whether a checkpoint is due after a step to `done`.
    pub fn checkpoint_is_due(&self, before: u64, done: u64, total: u64) -> bool {
        done.saturating_sub(before) >= self.to_checkpoint(before, total)
    }

    /// Saves the state of the run. A failure does not end the run: it is told, and the
    /// next checkpoint tries again.
    pub fn save(&mut self, write: &mut dyn FnMut(&Path, f64) -> Result<()>) {
        let Some(path) = self.saving.as_ref().map(|saving| saving.path.clone()) else {
            return;
        };
        match write(&path, self.seconds()) {
            Ok(()) => _ = self.tell(&Event::Saved(path)),
            Err(error) => {
                let text = format!("no checkpoint was written, the run goes on: {error}");
                self.note(text);
            }
        }
    }

    /// Saves the state of a run that was interrupted, where a path was given for it.
    pub fn save_interrupted(
        &mut self,
        write: &mut dyn FnMut(&Path, f64) -> Result<()>,
    ) -> Result<()> {
        let path = self.saving.as_ref().map(|saving| saving.path.clone());
        let Some(path) = path.or_else(|| self.rescue.clone()) else {
            return Ok(());
        };
        write(&path, self.seconds())?;
        self.tell(&Event::Saved(path));
        Ok(())
    }

    /// The error of a run that was interrupted before it had a model.
    pub fn no_model(&self) -> Error {
        Error::interrupted("interrupted before there was a model")
    }
}

/// What a simple model reaches on the same data.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// Its name, such as `cosine`.
    pub name: String,
    /// What it reaches.
    pub metrics: Metrics,
    /// Its penalty, chosen by validation, where it has one.
    pub regularization: Option<f64>,
}

impl Baseline {
    /// A baseline by name.
    pub fn new(name: impl Into<String>, metrics: Metrics) -> Self {
        Baseline {
            name: name.into(),
            metrics,
            regularization: None,
        }
    }
}

/// What a model reaches on held-out data, with simple models beside it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Evaluation {
    /// What the model reaches.
    pub metrics: Metrics,
    /// What simple models reach, the main one first.
    pub baselines: Vec<Baseline>,
    /// How many things were measured.
    pub rows: usize,
    /// What these are: `queries`, `rows`, `pairs`, `ratings` or `items`.
    pub unit: &'static str,
    /// Those that could not be.
    pub skipped: usize,
    /// Whether the model knows how sure it is, where it says so.
    pub calibration: Option<Calibration>,
    /// How the model does on parts of the data.
    pub groupings: Vec<Grouping>,
    /// What the user should know, in words.
    pub notes: Vec<String>,
    /// What else there is to say, by name.
    pub more: Map<String, Value>,
}

impl Evaluation {
    /// What a model reaches on so many rows, pairs, ratings or items.
    pub fn new(metrics: Metrics, rows: usize, unit: &'static str) -> Self {
        Evaluation {
            metrics,
            baselines: Vec::new(),
            rows,
            unit,
            skipped: 0,
            calibration: None,
            groupings: Vec::new(),
            notes: Vec::new(),
            more: Map::new(),
        }
    }

    says_more!();

    /// Tells how many entries the model does not know.
    pub fn unknown_entries(self, count: usize) -> Self {
        let note = || {
            format!(
                "{count} entries have features that the model does not know; they were left out"
            )
        };
        self.with("unknown_entries", count).noting(count, note)
    }

    /// The main baseline.
    pub fn baseline(&self) -> Option<&Baseline> {
        self.baselines.first()
    }
}
