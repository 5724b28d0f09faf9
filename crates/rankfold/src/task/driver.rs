//! The driver of batch solvers: it counts iterations, measures the learning curve, keeps
//! the best model by validation, tells the run what happens, and saves checkpoints.
//!
//! A checkpoint holds the state of the last fit and what was decided before it, the
//! stage. A run that is interrupted while it still decides starts anew when it is
//! resumed, and decides the same.

use super::checkpoint::{Checkpoint, Window};
use super::course::{Course, Kept};
use super::run::{CurvePoint, Event, Report, Run, Stop, Trial, Unit};
use super::start::Start;
use crate::batch::{Ended, Fitted, SolverState};
use crate::model::file::{Tensor, TensorFile, Tensors};
use crate::model::{Counters, Metrics};
use crate::options::Options;
use crate::{Error, Result};
use faer::Mat;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The tensors of the solver, and of the best model, start with these.
const SOLVER: &str = "state.solver.";
const BEST: &str = "state.best.";
/// What the run started from, where that was a model.
const START: &str = "state.start.";
const BYTES: &str = "state.bytes";

/// What is kept of the best iteration, as matrices.
pub(super) trait Keep: Sized {
    fn to_blocks(&self) -> Vec<Mat<f64>>;
    fn from_blocks(blocks: Vec<Mat<f64>>) -> Option<Self>;
}

impl Keep for () {
    fn to_blocks(&self) -> Vec<Mat<f64>> {
        Vec::new()
    }
    fn from_blocks(_: Vec<Mat<f64>>) -> Option<Self> {
        Some(())
    }
}

impl Keep for Mat<f64> {
    fn to_blocks(&self) -> Vec<Mat<f64>> {
        vec![self.clone()]
    }
    fn from_blocks(blocks: Vec<Mat<f64>>) -> Option<Self> {
        blocks.into_iter().next()
    }
}

impl Keep for (Mat<f64>, Mat<f64>) {
    fn to_blocks(&self) -> Vec<Mat<f64>> {
        vec![self.0.clone(), self.1.clone()]
    }
    fn from_blocks(blocks: Vec<Mat<f64>>) -> Option<Self> {
        <[Mat<f64>; 2]>::try_from(blocks).ok().map(Into::into)
    }
}

/// What a checkpoint of a batch run keeps beside matrices.
#[derive(Serialize, Deserialize)]
struct BatchState {
    fingerprint: u64,
    counters: Counters,
    history: Vec<CurvePoint>,
    window: Window,
    measured: u64,
    without_gain: u32,
    best: Option<(Counters, f64)>,
    trials: Vec<Trial>,
    stage: Value,
    solver: Option<SolverState>,
}

/// Where a resumed run stands.
pub(super) struct Resumed {
    stage: Value,
    /// The state of the solver.
    pub solver: SolverState,
}

impl Resumed {
    /// What was decided before the last fit.
    pub fn stage<S: DeserializeOwned>(&self) -> Result<S> {
        serde_json::from_value(self.stage.clone())
            .map_err(|e| Error::input(format!("the checkpoint is damaged: {e}")))
    }
}

/// A run of a batch solver; `T` is what is kept of the best iteration.
pub(super) struct Driver<'r, T> {
    pub run: Run<'r>,
    pub course: Course<T>,
    pub trials: Vec<Trial>,
    task: &'static str,
    options: Value,
    fingerprint: u64,
    stage: Value,
    /// What the run started from, where that was a model.
    start: Vec<Mat<f64>>,
    patience: Option<u32>,
    stopped: Option<Stop>,
}

impl<'r, T: Keep> Driver<'r, T> {
    /// A run of these options on data of this fingerprint.
    pub fn new<O: Options>(
        mut run: Run<'r>,
        course: Course<T>,
        options: &O,
        fingerprint: u64,
    ) -> Result<Self> {
        run.unit = Unit::Iterations;
        Ok(Driver {
            run,
            course,
            trials: Vec::new(),
            task: O::TASK,
            options: super::checkpoint::json(options)?,
            fingerprint,
            stage: Value::Null,
            start: Vec::new(),
            patience: None,
            stopped: None,
        })
    }

    /// The same, which stops after so many measurements without a gain.
    pub fn patient(mut self, patience: Option<u32>, validated: bool) -> Result<Self> {
        super::check_patience(patience, validated)?;
        self.patience = patience;
        Ok(self)
    }

    /// Goes to where a checkpoint of the same run stands; `None` where there is none, or
    /// where the run had not come to its last fit.
    pub fn resume<O: Options>(&mut self, options: &O) -> Result<Option<Resumed>> {
        let Some(checkpoint) = self.run.take_checkpoint() else {
            return Ok(None);
        };
        checkpoint.check_options(options)?;
        let state: BatchState = checkpoint.state()?;
        if state.fingerprint != self.fingerprint {
            return Err(checkpoint.error("the checkpoint was made with other data"));
        }
        let file = checkpoint.file()?;
        let start = blocks(&file, START)?.into_iter().map(|(_, block)| block);
        self.start = start.collect();
        let Some(mut solver) = state.solver else {
            return Ok(None);
        };
        solver.blocks = blocks(&file, SOLVER)?.into_iter().collect();
        if file.has(BYTES) {
            solver.bytes = file.u8s(BYTES)?;
        }
        let best = match state.best {
            None => None,
            Some((counters, merit)) => {
                let kept = blocks(&file, BEST)?.into_iter().map(|(_, block)| block);
                let model = T::from_blocks(kept.collect());
                let missing = || checkpoint.error("the best model so far is missing");
                Some(Kept {
                    model: model.ok_or_else(missing)?,
                    counters,
                    merit,
                })
            }
        };
        self.course.counters = state.counters;
        self.course.history = state.history;
        self.course.window = state.window;
        self.course.measured = state.measured;
        self.course.without_gain = state.without_gain;
        self.course.best = best;
        self.trials = state.trials;
        self.stage = state.stage.clone();
        Ok(Some(Resumed {
            stage: state.stage,
            solver,
        }))
    }

    /// What the run starts from, where that is a model: as the checkpoint has it, or as
    /// `place` brings the model to the data, with what to tell of it. Comes after
    /// [`Driver::resume`].
    pub fn started<O: Options>(
        &mut self,
        wanted: bool,
        place: impl FnOnce(&Start) -> Result<(Vec<Mat<f64>>, Vec<String>)>,
    ) -> Result<Option<Vec<Mat<f64>>>> {
        if self.start.is_empty() {
            let Some(start) = self.run.started::<O>(wanted)? else {
                return Ok(None);
            };
            let (blocks, notes) = place(&start)?;
            notes.into_iter().for_each(|note| self.run.note(note));
            self.start = blocks;
        }
        Ok(Some(self.start.clone()))
    }

    /// Keeps what was decided before the last fit.
    pub fn decided(&mut self, stage: &impl Serialize) -> Result<()> {
        self.stage = super::checkpoint::json(stage)?;
        Ok(())
    }

    /// Takes note of an iteration; false ends the run. Metrics, the model and the state of
    /// the solver are asked for where they are needed. A fit without a state starts anew
    /// when the run is resumed.
    pub fn iteration(
        &mut self,
        cost: f64,
        metrics: impl FnOnce() -> Option<Metrics>,
        model: impl FnOnce() -> T,
        state: Option<&dyn Fn() -> SolverState>,
    ) -> bool {
        let before = self.course.counters.steps;
        self.count(cost);
        self.progress();
        if self.course.is_due() {
            self.measure(metrics(), model);
        }
        let (done, total) = (self.course.counters.steps, self.course.total);
        if self.is_interrupted() || self.run.checkpoint_is_due(before, done, total) {
            self.save(state.map(|state| state()).as_ref());
        }
        self.stopped.is_none()
    }

    fn count(&mut self, cost: f64) {
        let counters = &mut self.course.counters;
        counters.steps += 1;
        counters.updates += 1;
        if cost.is_finite() {
            counters.add_loss(cost);
            self.course.window.loss += cost;
            self.course.window.steps += 1;
        }
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

    /// Whether a run that still decides goes on; what it does is not counted.
    pub fn goes_on(&mut self) -> bool {
        self.progress();
        if self.is_interrupted() {
            self.save(None);
        }
        self.stopped.is_none()
    }

    /// Tells what is tried next.
    pub fn trying(&mut self, what: String) {
        self.tell(&Event::Trying(what));
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

    fn save(&mut self, solver: Option<&SolverState>) {
        let best = self.course.best.as_ref();
        let state = BatchState {
            fingerprint: self.fingerprint,
            counters: self.course.counters,
            history: self.course.history.clone(),
            window: self.course.window,
            measured: self.course.measured,
            without_gain: self.course.without_gain,
            best: best.map(|best| (best.counters, best.merit)),
            trials: self.trials.clone(),
            stage: self.stage.clone(),
            solver: solver.cloned(),
        };
        let kept: Vec<(String, Mat<f64>)> = best
            .into_iter()
            .flat_map(|best| best.model.to_blocks())
            .enumerate()
            .map(|(i, block)| (format!("{BEST}{i:04}"), block))
            .collect();
        let start = self.start.iter().enumerate();
        let start: Vec<(String, &Mat<f64>)> = start
            .map(|(i, block)| (format!("{START}{i:04}"), block))
            .collect();
        let bytes = solver.map(|state| &state.bytes[..]);
        let bytes = bytes.filter(|bytes| !bytes.is_empty());
        let (task, options) = (self.task, &self.options);
        let mut write = |path: &std::path::Path, seconds: f64| {
            let solver = solver.iter().flat_map(|state| &state.blocks);
            let solver = solver.map(|(name, block)| (format!("{SOLVER}{name}"), block));
            let kept = kept.iter().map(|(name, block)| (name.clone(), block));
            let start = start.iter().map(|(name, block)| (name.clone(), *block));
            let all = solver.chain(kept).chain(start);
            let mut tensors: Tensors<'_> = all.map(tensor).collect();
            tensors.extend(bytes.iter().map(|bytes| {
                let tensor = Tensor::u8s(bytes.to_vec());
                (BYTES.to_owned(), tensor)
            }));
            Checkpoint::write_state(path, (task, options), &state, seconds, tensors)
        };
        match self.stopped == Some(Stop::Interrupted) {
            false => self.run.save(&mut write),
            true => {
                if let Err(error) = self.run.save_interrupted(&mut write) {
                    self.run.note(format!("no checkpoint was written: {error}"));
                }
            }
        }
    }

    /// Whether the observer has asked for a stop.
    pub fn is_interrupted(&self) -> bool {
        self.stopped == Some(Stop::Interrupted)
    }

    /// An error where the run was interrupted: its checkpoint was written, and there is
    /// no model.
    pub fn check_interrupted(&self) -> Result<()> {
        match self.is_interrupted() {
            true => Err(self.run.no_model()),
            false => Ok(()),
        }
    }

    /// The counters of the model that is kept: the best one by validation, or the last.
    pub fn counters(&self) -> Counters {
        let best = self.course.best.as_ref();
        best.map_or(self.course.counters, |best| best.counters)
    }

    /// Tells the end, and what was done. An error where the run was interrupted.
    pub fn finish(&mut self, ended: Ended) -> Result<Report> {
        self.check_interrupted()?;
        let stopped = self.stopped.unwrap_or(match ended {
            Ended::Converged => Stop::Converged,
            _ => Stop::Steps,
        });
        self.run.tell(&Event::Finished(stopped));
        let mut report = Report::new(stopped, self.course.counters);
        report.unit = Unit::Iterations;
        report.metrics = self.course.metrics();
        report.trials = std::mem::take(&mut self.trials);
        Ok(report)
    }
}

impl Driver<'_, ()> {
    /// Takes note of a slot of gossip; false ends the run. Its cost and other metrics are
    /// asked for where they are measured.
    pub fn slot(
        &mut self,
        status: impl FnOnce() -> (f64, Metrics),
        state: &dyn Fn() -> SolverState,
    ) -> bool {
        let next = self.course.counters.steps + 1;
        let due = next.is_multiple_of(self.course.every) || next == self.course.total;
        let status = due.then(status);
        self.course.window = Window::default();
        let (cost, metrics) = status.unzip();
        self.iteration(cost.unwrap_or(f64::NAN), || metrics, || (), Some(state))
    }

    /// Measures the start of a run.
    pub fn start(&mut self, (cost, metrics): (f64, Metrics)) {
        self.course.window = Window {
            loss: cost,
            steps: 1,
        };
        self.measure(Some(metrics), || ());
    }
}

fn tensor<'a>((name, block): (String, &'a Mat<f64>)) -> (String, Tensor<'a>) {
    let entry = |i: u32, j: u32| block[(i as usize, j as usize)];
    (name, Tensor::entries(block.nrows(), block.ncols(), entry))
}

/// The matrices whose names start so, with the rest of their names.
fn blocks(file: &TensorFile<'_>, prefix: &str) -> Result<Vec<(String, Mat<f64>)>> {
    let mut found = Vec::new();
    for name in file.names(prefix) {
        let (columns, values) = file.matrix::<f64>(&name)?;
        let rows = values.len().checked_div(columns).unwrap_or(0);
        let block = Mat::from_fn(rows, columns, |i, j| values[i * columns + j]);
        found.push((name[prefix.len()..].to_owned(), block));
    }
    Ok(found)
}

impl Keep for Fitted {
    fn to_blocks(&self) -> Vec<Mat<f64>> {
        let column = |values: &[f64]| Mat::from_fn(values.len(), 1, |i, _| values[i]);
        let mut out = vec![
            self.left.clone(),
            self.right.clone(),
            Mat::from_fn(1, 1, |_, _| self.center),
        ];
        out.extend(self.biases.iter().flatten().map(|side| column(side)));
        out
    }

    fn from_blocks(blocks: Vec<Mat<f64>>) -> Option<Self> {
        let column = |block: &Mat<f64>| (0..block.nrows()).map(|i| block[(i, 0)]).collect();
        let biases = match &blocks[..] {
            [_, _, _] => None,
            [_, _, _, rows, columns] => Some([column(rows), column(columns)]),
            _ => return None,
        };
        let center = *blocks[2].get(0, 0);
        let mut factors = blocks.into_iter();
        Some(Fitted {
            left: factors.next()?,
            right: factors.next()?,
            center,
            biases,
        })
    }
}
