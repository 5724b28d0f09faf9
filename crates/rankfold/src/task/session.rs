//! Learning step by step, as a state machine: the caller says how far to go, and may
//! save or stop between any two steps. What is learned does not depend on where the
//! caller does so.
//!
//! A [`Session`] owns the course of a run: counters, curve, best model, average,
//! patience, checkpoints. What steps and what judges is the [`Work`] of a task.

use super::average::{Average, AverageState};
use super::checkpoint::{self, BestState, Checkpoint, State};
use super::course::Course;
use super::run::{Baseline, CurvePoint, Event, Fit, Report, Run, Stop, Trial};
use crate::data::Features;
use crate::form::{Form, FormRef, Side};
use crate::model::{
    Card, Counters, Knowledge, Metrics, Model, Objects, Precise, Preprocess, forms, save_parts,
};
use crate::online::Learned;
use crate::options::Options;
use crate::sample::Position;
use crate::{Error, Real, Result};
use std::borrow::Cow;
use std::path::Path;

/// Steps between two questions whether to stop: few at first, so that the length of a run
/// with slow steps is soon known.
const STRIDE: u64 = 1_000;
const FIRST_STRIDE: u64 = 16;

/// Asks whether to go on; it may be called from other threads.
pub type GoOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// W and the biases that go with it.
#[derive(Debug, Clone)]
pub struct Snapshot<R> {
    pub(crate) form: Form<R>,
    pub(crate) bias: Option<Vec<f64>>,
}

/// What validation came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Validated {
    /// It was given up, because the run is to stop.
    GivenUp,
    /// These metrics; none where W cannot be measured.
    Found(Metrics),
}

/// The features and the preprocessing of one side.
pub type SideParts<'a> = (Cow<'a, Features>, Cow<'a, Preprocess>);

/// What changes when the data of a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprints {
    /// Of all data but the objects.
    pub rows: u64,
    /// Of the objects, where there are some.
    pub objects: Option<u64>,
}

/// What a task does in a session.
pub trait Work {
    /// The precision of the tall factors.
    type Real: Real;
    /// The options of the task.
    type Options: Options;

    /// The options of the run.
    fn options(&self) -> &Self::Options;

    /// Measurements without a gain after which the run stops: the option `patience`.
    fn patience(&self) -> Option<u32> {
        self.options().get("patience")?.parse().ok()
    }

    /// What changes when the data does.
    fn fingerprints(&self) -> Fingerprints;

    /// Takes one step after `done` examples; says how many examples it used.
    fn step(&mut self, done: u64) -> (u64, Learned);

    /// Rows that nothing is learned from.
    fn skipped(&self) -> usize {
        0
    }

    /// Where the source of examples stands, unless the counters say it.
    fn position(&self) -> Option<Position> {
        None
    }

    /// What was decided before the first step, where a resumed run needs it.
    fn decided(&self) -> Option<serde_json::Value> {
        None
    }

    /// Whether the start is a model of its own, which is measured and may be the best.
    fn measures_start(&self) -> bool {
        false
    }

    /// W as it is now.
    fn form(&self) -> FormRef<'_, Self::Real>;

    /// The biases that are learned beside W.
    fn bias(&self) -> Option<&[f64]> {
        None
    }

    /// Steps between two snapshots that are averaged, where an average is kept.
    fn average_every(&self) -> Option<u64> {
        None
    }

    /// Whether there are validation data.
    fn is_validated(&self) -> bool;

    /// Measures a model of this W and these biases on the validation data.
    fn validate(
        &self,
        form: FormRef<'_, Self::Real>,
        bias: Option<&[f64]>,
        go_on: GoOn<'_>,
    ) -> Result<Validated>;

    /// What a simple model reaches on the validation data.
    fn baseline(&self) -> Option<Baseline> {
        None
    }

    /// What would take less time, in words, where there is something.
    fn faster(&self) -> Option<&'static str> {
        None
    }

    /// The step size in use.
    fn step_size(&self) -> f64;

    /// The settings that were tried before the first step.
    fn trials(&self) -> &[Trial];

    /// What the card says beside counters and history.
    fn card(&self) -> Card;

    /// What the model knows beside W, with these biases.
    fn knowledge(&self, bias: Option<Vec<f64>>) -> Knowledge;

    /// The two sides; the right one where objects are other things than rows.
    fn sides(&self) -> (SideParts<'_>, Option<SideParts<'_>>);

    /// The last touch: W as models store it, and what the card says of it.
    fn finish(&self, form: Form<Self::Real>, _card: &mut Card) -> Result<Form<Self::Real>> {
        Ok(form)
    }

    /// What the report says beside the usual.
    fn describe(&self, report: Report) -> Report {
        report
    }
}

/// A training run that the caller drives.
#[derive(Debug)]
pub struct Session<W: Work> {
    work: W,
    course: Course<Snapshot<W::Real>>,
    average: Option<Average<W::Real>>,
    /// Trials that the observer has seen.
    told: usize,
}

impl<W: Work> Session<W> {
    /// A run from its start.
    pub(super) fn new(work: W, course: Course<Snapshot<W::Real>>) -> Result<Self> {
        super::check_patience(work.patience(), work.is_validated())?;
        let mut session = Session {
            work,
            course,
            average: None,
            told: 0,
        };
        if session.work.measures_start() && session.work.is_validated() {
            let (form, bias) = session.current();
            let found = session.work.validate(form, bias, &|| true)?;
            if let Validated::Found(metrics) = found {
                let work = &session.work;
                session.course.measured(Some(metrics), || snapshot(work));
            }
        }
        session.settle();
        Ok(session)
    }

    /// The same, of which so many trials were told.
    pub(super) fn having_told(self, told: usize) -> Self {
        Session { told, ..self }
    }

    /// A run that goes on from a checkpoint. The work stands where the checkpoint says.
    pub(super) fn resumed(
        work: W,
        course: Course<Snapshot<W::Real>>,
        checkpoint: &Checkpoint,
    ) -> Result<Self> {
        let state: State = checkpoint.state()?;
        let (rows, objects) = (state.fingerprint, state.objects);
        let found = work.fingerprints();
        if rows != found.rows {
            return Err(checkpoint.error("the checkpoint was made with other data"));
        }
        if objects != found.objects {
            return Err(other_objects(checkpoint, objects.is_some()));
        }
        let mut session = Session {
            work,
            course,
            average: None,
            told: 0,
        };
        let labels = session.work.bias().map(<[f64]>::len);
        let view = session.work.form();
        let read = |prefix: &str, upkeep| -> Result<Snapshot<W::Real>> {
            let file = checkpoint.file()?;
            Ok(Snapshot {
                form: forms::read(&file, view.name(), view.rank(), upkeep, prefix)?,
                bias: labels
                    .map(|labels| file.f64s(&format!("{prefix}{}", checkpoint::BIAS), labels))
                    .transpose()?,
            })
        };
        let best = state.best.clone();
        let best = best.map(|kept| read(checkpoint::BEST, kept.upkeep));
        let best = best.transpose()?;
        let average = match &state.average {
            None => None,
            Some(kept) => Some(Average {
                snapshot: read(checkpoint::AVERAGE, kept.upkeep.clone())?,
                snapshots: kept.snapshots,
                at: kept.at,
            }),
        };
        session.average = average;
        session
            .course
            .restore(checkpoint.model()?.card, &state, best);
        session.settle();
        Ok(session)
    }

    /// What the task does in it.
    pub fn work(&self) -> &W {
        &self.work
    }

    /// The settings that were tried before the first step.
    pub fn trials(&self) -> &[Trial] {
        self.work.trials()
    }

    /// The step size in use.
    pub fn step_size(&self) -> f64 {
        self.work.step_size()
    }

    /// Rank of W.
    pub fn rank(&self) -> usize {
        self.work.form().rank()
    }

    /// `sparse` where only touched entries of W are stored, because all of them do not
    /// fit in memory; else `dense`.
    pub fn storage(&self) -> &'static str {
        self.work.form().storage()
    }

    /// Rows that nothing is learned from.
    pub fn skipped(&self) -> usize {
        self.work.skipped()
    }

    /// Steps of the whole run.
    pub fn total_steps(&self) -> u64 {
        self.course.total
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.course.counters
    }

    /// Mean loss since the last point of the curve.
    pub fn running_loss(&self) -> f64 {
        self.course.running_loss()
    }

    /// The points of the learning curve so far that have validation metrics.
    pub fn history(&self) -> &[CurvePoint] {
        &self.course.history
    }

    /// Validation metrics of the model that would be kept now.
    pub fn metrics(&self) -> Metrics {
        self.course.metrics()
    }

    /// Takes at most this many steps, to the next point of the learning curve at the
    /// farthest.
    pub fn advance(&mut self, at_most: u64) -> Result<Event> {
        self.advance_while(at_most, &|| true)
    }

    /// The same, and gives up a measurement when `go_on` says no: the point is measured
    /// when the run goes on, now or from a checkpoint.
    pub fn advance_while(&mut self, at_most: u64, go_on: GoOn<'_>) -> Result<Event> {
        if let Some(stop) = self.course.finished {
            return Ok(Event::Finished(stop));
        }
        if !self.course.is_due() {
            let boundary = self.course.boundary();
            let until = self.course.counters.steps.saturating_add(at_most);
            let until = until.min(boundary);
            while self.course.counters.steps < until {
                self.take_step();
            }
            if self.course.counters.steps < boundary {
                return Ok(self.progress());
            }
        }
        let metrics = match self.work.is_validated() {
            false => None,
            true => {
                let (form, bias) = self.current();
                match self.work.validate(form, bias, go_on)? {
                    Validated::GivenUp => return Ok(self.progress()),
                    Validated::Found(metrics) => Some(metrics),
                }
            }
        };
        let (work, average) = (&self.work, &self.average);
        let point = self.course.measured(metrics, || match average {
            Some(average) => average.snapshot.clone(),
            None => snapshot(work),
        });
        self.settle();
        Ok(Event::Measured(point))
    }

    fn progress(&self) -> Event {
        Event::Progress {
            done: self.course.counters.steps,
            total: self.course.total,
        }
    }

    #[inline]
    fn take_step(&mut self) {
        let (used, learned) = self.work.step(self.course.counters.steps);
        self.course.count_batch(used, &learned);
        if let Some(interval) = self.work.average_every()
            && self.course.counters.steps.is_multiple_of(interval)
        {
            self.add_to_average();
        }
    }

    fn add_to_average(&mut self) {
        let (form, bias) = (self.work.form(), self.work.bias());
        Average::add(&mut self.average, form, bias, self.course.counters.steps);
    }

    /// What the model would be now: the average, or the last W.
    fn current(&self) -> (FormRef<'_, W::Real>, Option<&[f64]>) {
        match &self.average {
            Some(Average { snapshot, .. }) => (snapshot.form.view(), snapshot.bias.as_deref()),
            None => (self.work.form(), self.work.bias()),
        }
    }

    fn settle(&mut self) {
        let (validated, patience) = (self.work.is_validated(), self.work.patience());
        self.course.settle(validated, patience);
    }

    /// Writes all that is needed to go on later. It changes nothing: a run with
    /// checkpoints gives the same model as one without.
    pub fn save_checkpoint(&self, path: impl AsRef<Path>, seconds: f64) -> Result<()> {
        let Fingerprints { rows, objects } = self.work.fingerprints();
        let best = self.course.best.as_ref();
        let state = State {
            options: checkpoint::json(self.work.options())?,
            fingerprint: rows,
            objects,
            position: self.work.position(),
            decided: self.work.decided(),
            window: self.course.window,
            measured: self.course.measured,
            without_gain: self.course.without_gain,
            seconds,
            best: best.map(|best| BestState {
                counters: best.counters,
                map: best.merit,
                upkeep: forms::upkeep(best.model.form.view()),
            }),
            average: self.average.as_ref().map(|average| AverageState {
                snapshots: average.snapshots,
                at: average.at,
                upkeep: forms::upkeep(average.snapshot.form.view()),
            }),
        };
        let mut more = vec![checkpoint::state_tensor(&state)?];
        for (prefix, kept) in [
            (checkpoint::BEST, best.map(|best| &best.model)),
            (
                checkpoint::AVERAGE,
                self.average.as_ref().map(|a| &a.snapshot),
            ),
        ] {
            let Some(kept) = kept else { continue };
            more.extend(forms::tensors(kept.form.view(), prefix));
            more.extend(checkpoint::bias_tensor(prefix, kept.bias.as_deref()));
        }
        let card = self.card(self.course.counters);
        let knowledge = self.work.knowledge(self.work.bias().map(<[f64]>::to_vec));
        let (left, right) = self.work.sides();
        save_parts(
            path.as_ref(),
            (&card, &knowledge),
            self.work.form(),
            (&left.0, &left.1),
            right
                .as_ref()
                .map(|(features, steps)| (&**features, &**steps)),
            more,
        )
    }

    fn card(&self, counters: Counters) -> Card {
        Card {
            counters,
            history: self.course.history.clone(),
            ..self.work.card()
        }
    }

    /// Runs to the end, tells what happens, and saves checkpoints.
    pub(crate) fn drive(mut self, mut run: Run<'_>) -> Result<Fit> {
        let total = self.course.total;
        let never = || false;
        let stop = run.stop().unwrap_or(&never);
        for trial in self.work.trials().iter().skip(self.told) {
            run.tell(&Event::Tried(trial.clone()));
        }
        run.faster = self.work.faster();
        let mut stride = FIRST_STRIDE;
        let stopped = loop {
            let done = self.course.counters.steps;
            if !run.tell(&self.progress()) {
                break Stop::Interrupted;
            }
            stride = STRIDE.min(2 * stride);
            let stride = stride.min(run.to_checkpoint(done, total));
            match self.advance_while(stride, &|| !stop())? {
                Event::Finished(stop) => break stop,
                // Progress is told at the start of the loop.
                Event::Progress { .. } => {}
                event => _ = run.tell(&event),
            }
            if run.checkpoint_is_due(done, self.course.counters.steps, total) {
                run.save(&mut |path, seconds| self.save_checkpoint(path, seconds));
            }
        };
        if stopped == Stop::Interrupted {
            run.save_interrupted(&mut |path, seconds| self.save_checkpoint(path, seconds))?;
        }
        let mut report = Report::new(stopped, self.counters());
        report.metrics = self.metrics();
        report.trials = self.work.trials().to_vec();
        if run.compares && self.work.is_validated() {
            report.baseline = self.work.baseline();
        }
        let report = self.work.describe(report);
        let model = self.into_model()?;
        run.tell(&Event::Finished(stopped));
        Ok(Fit { model, report })
    }

    /// The model: the best one by validation, or the last one.
    pub fn into_model(mut self) -> Result<Model> {
        if self.work.average_every().is_some() {
            // The last W counts, wherever the last snapshot was taken.
            self.add_to_average();
        }
        let best = self.course.best.take();
        let counters = best.as_ref().map_or(self.counters(), |best| best.counters);
        let kept = match (best, self.average.take()) {
            (Some(best), _) => best.model,
            (None, Some(average)) => average.snapshot,
            (None, None) => snapshot(&self.work),
        };
        self.model_of(kept, counters)
    }

    /// The model of another W that the same data led to.
    pub(crate) fn model_of(&self, kept: Snapshot<W::Real>, counters: Counters) -> Result<Model> {
        let mut card = self.card(counters);
        let form = self.work.finish(kept.form, &mut card)?;
        let ((features, preprocess), right) = self.work.sides();
        Ok(Model {
            card,
            form: Precise::new(form),
            features: features.into_owned(),
            preprocess: preprocess.into_owned(),
            objects: right.map(|(features, preprocess)| Objects {
                features: features.into_owned(),
                preprocess: preprocess.into_owned(),
            }),
            knowledge: self.work.knowledge(kept.bias),
        })
    }
}

fn snapshot<W: Work>(work: &W) -> Snapshot<W::Real> {
    Snapshot {
        form: work.form().to_form(),
        bias: work.bias().map(<[f64]>::to_vec),
    }
}

/// The model of a checkpoint; an error where a run on data of this shape cannot go on
/// from it.
pub(crate) fn check_resumed<R: Real>(
    checkpoint: &Checkpoint,
    features: &Features,
    shape: (usize, usize),
) -> Result<Model> {
    let model = checkpoint.model()?;
    if model.precision() != R::NAME {
        return Err(checkpoint.error(format!(
            "the checkpoint was made with precision {}, this run asks for {}",
            model.precision(),
            R::NAME
        )));
    }
    if features.vocabulary() != model.vocabulary() {
        return Err(checkpoint.error(match model.vocabulary() {
            Some(_) => "the checkpoint was made with another vocabulary",
            None => "the checkpoint was made without a vocabulary",
        }));
    }
    let (left, right) = (model.columns(), model.columns_of(Side::Right));
    let labels = matches!(model.knowledge, Knowledge::Ranking(_));
    match (left == shape.0, right == shape.1) {
        (true, true) => Ok(model),
        (true, false) if !labels => Err(other_objects(checkpoint, model.objects.is_some())),
        _ => Err(checkpoint.error("the checkpoint was made with other data")),
    }
}

fn other_objects(checkpoint: &Checkpoint, had_some: bool) -> Error {
    checkpoint.error(match had_some {
        true => "the checkpoint was made with other objects",
        false => "the checkpoint was made without objects",
    })
}
