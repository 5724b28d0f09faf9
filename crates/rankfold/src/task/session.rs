//! A training run as a state machine: the caller says how far to go, and may
//! look, save or stop between any two steps. What is learned does not depend
//! on where the caller looks.

use super::average::{self, Average, AverageState};
use super::checkpoint::{self, Best, BestState, Checkpoint, State, Window};
use super::inputs::{Inputs, Things, TrainingData, triplets};
use super::similarity::{
    Classified, Negatives, Select, Similarity, evaluate, evaluate_among, metrics,
};
use super::step_size::{self, Prefer, Trial};
use super::stepper::Stepper;
use super::triplet::Sides;
use crate::data::{Features, Labelled};
use crate::eval::{Cosine, Retrieval, retrieval};
use crate::form::{Form, FormRef};
use crate::model::{
    Card, Counters, Distances, HistoryPoint, Knowledge, Metrics, Model, Objects, Precise,
    Preprocess, forms, save_parts,
};
use crate::online::{Learned, Outcome, Rule};
use crate::random::{Random, splitmix64};
use crate::sample::{Given, Triplets};
use crate::{Error, Real, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Separate streams of random numbers for separate purposes.
const PRETRAINING: u64 = 1;
const HELD_OUT: u64 = 2;

/// Triplets of a pre-training run, and held-out ones that judge it.
const PRETRAINING_STEPS: u64 = 5_000;
/// Fewer, because a step of LEGO passes over the whole matrix.
const PRETRAINING_STEPS_OF_LEGO: u64 = 300;
const HELD_OUT_TRIPLETS: usize = 10_000;

/// Why training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// All steps are done.
    Steps,
    /// Validation has not improved for as long as was asked.
    Patience,
}

/// A point of the learning curve.
pub type CurvePoint = HistoryPoint;

/// What [`Session::advance`] came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It went as far as it was told.
    Progress,
    /// It reached a point of the learning curve.
    Measured(CurvePoint),
    /// There is nothing more to do.
    Finished(Stopped),
}

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
    let sum = counters.total_loss + learned.loss * examples as f64;
    if sum.is_finite() {
        counters.total_loss = sum;
    }
}

/// A training run of [`Similarity`].
#[derive(Debug)]
pub struct Session<'a, R: Real> {
    options: Similarity,
    inputs: Inputs<'a, R>,
    trials: Vec<Trial>,
    /// Steps of the whole run, and between two points of the curve.
    total: u64,
    every: u64,
    stepper: Stepper<R>,
    average: Option<Average<R>>,
    counters: Counters,
    /// Points with validation metrics.
    history: Vec<CurvePoint>,
    window: Window,
    /// The step of the last point of the curve.
    measured: u64,
    best: Option<Best<R>>,
    without_gain: u32,
    finished: Option<Stopped>,
}

impl<'a, R: Real> Session<'a, R> {
    /// Prepares a run: on triplets drawn from the labels, or on those given;
    /// validated on the rows given, or on a part of the training rows. With
    /// objects, which [`TrainingData`] may have, positives and negatives are such;
    /// given triplets name a row and two objects, and validation rows look for
    /// objects.
    pub fn new(
        options: &Similarity,
        data: impl Into<TrainingData<'a, R>>,
        given: Option<Given>,
        valid: Option<&Labelled<R>>,
    ) -> Result<Self> {
        options.check()?;
        if options.select != Select::Random && given.is_some() {
            return Err(Error::input(
                "given triplets are learned from in their order: uncertain ones can be chosen only where triplets are drawn from labels",
            ));
        }
        let inputs = Inputs::new(options, data.into(), given, valid)?;
        let form = options.start(&inputs)?;
        let distances = (options.learner == Rule::Lego).then(|| inputs.distances(options.seed));
        let mut session = Self::at_start(options, inputs, form, 0, distances)?;
        match options.step_size {
            Some(size) => session.stepper.step.size = size,
            None if options.learner.is_passive_aggressive() => {
                session.stepper.step.size = options.aggressiveness;
            }
            None if options.learner.is_aroma() => {
                session.stepper.step.size = options.confidence_r;
            }
            None => session.choose_step()?,
        }
        session.settle();
        Ok(session)
    }

    /// Goes on from a checkpoint of the same run; only the number of steps and
    /// what is measured on the way may differ.
    pub fn resume(
        options: &Similarity,
        data: impl Into<TrainingData<'a, R>>,
        given: Option<Given>,
        valid: Option<&Labelled<R>>,
        checkpoint: Checkpoint,
    ) -> Result<Self> {
        options.check()?;
        let mut inputs = Inputs::new(options, data.into(), given, valid)?;
        checkpoint.check(options, &inputs)?;
        let Checkpoint {
            model,
            state,
            best,
            average,
            ..
        } = checkpoint;
        if !state.position.is_some_and(|at| inputs.triplets.seek(at)) {
            return Err(Error::input(
                "the checkpoint was made with another source of triplets",
            ));
        }
        let seen = model.card.counters.steps;
        let (form, distances) = (model.form.into_precision()?, model.card.distances);
        let mut session = Self::at_start(options, inputs, form, seen, distances)?;
        session.stepper.step.size = model.card.step_size;
        session.counters = model.card.counters;
        session.history = model.card.history;
        session.window = state.window;
        session.measured = state.measured;
        session.without_gain = state.without_gain;
        if let (Some(kept), Some(form)) = (state.best, best) {
            session.best = Some(Best {
                form: form.into_precision()?,
                counters: kept.counters,
                map: kept.map,
            });
        }
        if let (Some(kept), Some(form)) = (state.average, average) {
            session.average = Some(Average {
                form: form.into_precision()?,
                looks: kept.looks,
                at: kept.at,
            });
        }
        session.settle();
        Ok(session)
    }

    fn at_start(
        options: &Similarity,
        inputs: Inputs<'a, R>,
        form: Form<R>,
        seen: u64,
        distances: Option<Distances>,
    ) -> Result<Self> {
        // Whole batches only: a run that is made longer later is the longer run.
        let total = inputs.steps(options);
        let total = total.checked_next_multiple_of(options.batch as u64);
        let total = total.unwrap_or(u64::MAX);
        Ok(Session {
            options: options.clone(),
            trials: Vec::new(),
            total,
            // Points lie between two steps.
            every: options
                .curve_every
                .unwrap_or(total.div_ceil(20).max(1))
                .checked_next_multiple_of(options.batch as u64)
                .unwrap_or(u64::MAX),
            stepper: Stepper::new(options, form, seen, distances)?,
            average: None,
            counters: Counters::default(),
            history: Vec::new(),
            window: Window::default(),
            measured: 0,
            best: None,
            without_gain: 0,
            finished: None,
            inputs,
        })
    }

    /// Tries every candidate of the step size on triplets apart from those
    /// that judge it.
    fn choose_step(&mut self) -> Result<()> {
        let seed = self.options.seed;
        let mut steps = match self.options.learner {
            Rule::Lego => PRETRAINING_STEPS_OF_LEGO,
            _ => PRETRAINING_STEPS * self.options.batch as u64,
        }
        .min(self.total.max(1));
        let (training, judge) = match &self.inputs.triplets {
            Triplets::Listed(list) => {
                // The first four fifths train, the rest judges.
                steps = steps.min((list.len() as u64 * 4 / 5).max(1));
                let later = list.after(steps as usize);
                (Triplets::Listed(list.clone()), Triplets::Listed(later))
            }
            Triplets::Own(source) => {
                // What comes later judges.
                let mut later = source.clone();
                (0..steps).for_each(|_| {
                    later.draw();
                });
                (Triplets::Own(source.clone()), Triplets::Own(later))
            }
            Triplets::Labels(_) | Triplets::Objects(_) => {
                // Every fifth row judges; when a class is too small for that, all do.
                let rows = &self.inputs.rows;
                let known = rows.classes.as_deref().expect("triplets came from classes");
                let objects = self.inputs.objects.as_ref();
                let objects = objects.and_then(|objects| objects.classes.as_deref());
                let members = &rows.members;
                let judges = |&row: &u32| splitmix64(seed ^ u64::from(row)).is_multiple_of(5);
                let (late, early): (Vec<u32>, Vec<u32>) =
                    members.iter().partition(|row| judges(row));
                let source = |rows: &[u32], purpose| {
                    triplets(known, rows, objects, Random::new(seed, purpose))
                };
                match (source(&early, PRETRAINING), source(&late, HELD_OUT)) {
                    (Ok(training), Ok(judge)) => (training, judge),
                    _ => (source(members, PRETRAINING)?, source(members, HELD_OUT)?),
                }
            }
        };
        let grid = step_size::grid(self.options.learner, self.options.batch);
        let (start, rows) = (&self.stepper, self.inputs.sides());
        let hard = self.options.negatives != Negatives::Random;
        let prefer = match hard || self.options.learner == Rule::Lego {
            true => Prefer::Small,
            false => Prefer::Large,
        };
        let count = HELD_OUT_TRIPLETS;
        self.trials = step_size::trials(start, &grid, rows, &training, steps, &judge, count);
        self.stepper.step.size = step_size::best(&self.trials, count, prefer);
        Ok(())
    }

    /// The candidates of the step size with their error on held-out triplets,
    /// when it was chosen and not given.
    pub fn step_trials(&self) -> Vec<(f64, f64)> {
        self.trials.iter().map(|t| (t.size, t.wrong)).collect()
    }

    /// The step size in use.
    pub fn step_size(&self) -> f64 {
        self.stepper.step.size
    }

    /// Rank of W.
    pub fn rank(&self) -> usize {
        self.form().rank()
    }

    /// `sparse` where only touched entries of W are stored, because all of them do
    /// not fit in memory; else `dense`.
    pub fn storage(&self) -> &'static str {
        self.form().storage()
    }

    /// Steps of the whole run.
    pub fn total_steps(&self) -> u64 {
        self.total
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Mean loss since the last point of the curve.
    pub fn running_loss(&self) -> f64 {
        self.window.loss / self.window.steps.max(1) as f64
    }

    /// The points of the learning curve so far that have validation metrics.
    pub fn history(&self) -> &[CurvePoint] {
        &self.history
    }

    /// Validation metrics of the model that would be kept now.
    pub fn metrics(&self) -> Metrics {
        match &self.best {
            Some(best) => {
                let at_best = |p: &&CurvePoint| p.counters == best.counters;
                self.history
                    .iter()
                    .find(at_best)
                    .map(|p| p.metrics.clone())
                    .unwrap_or_default()
            }
            None => Metrics::new(),
        }
    }

    /// Rows that cannot be queries, because no object has their class.
    pub fn skipped(&self) -> usize {
        match &self.inputs.triplets {
            Triplets::Objects(source) => source.skipped(),
            _ => 0,
        }
    }

    /// The validation metrics of the simple control: the cosine between the
    /// rows themselves. Objects are other things, so there is none for them.
    pub fn validation_control(&self) -> Option<Metrics> {
        if self.inputs.objects.is_some() {
            return None;
        }
        let valid = self.inputs.validation.as_ref()?;
        let rows = valid.rows.as_ref().unwrap_or(&self.inputs.rows.rows);
        let chosen = rows.select(valid.members.iter().map(|&i| i as usize));
        let found = retrieval(
            &Cosine::new(&chosen),
            &valid.classes,
            self.options.threads,
            &|_| true,
        );
        found.map(|found| metrics(&found))
    }

    /// Goes on for at most this many steps, to the next point of the learning
    /// curve at the farthest.
    pub fn advance(&mut self, at_most: u64) -> Result<Event> {
        self.advance_while(at_most, &|| true)
    }

    /// The same, and gives up a measurement when `go_on` says no: the point is
    /// measured when the run goes on, now or from a checkpoint.
    pub fn advance_while(
        &mut self,
        at_most: u64,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Event> {
        if let Some(stopped) = self.finished {
            return Ok(Event::Finished(stopped));
        }
        if !self.is_due() {
            let done = self.counters.steps;
            let boundary = ((done / self.every + 1) * self.every).min(self.total);
            let until = done.saturating_add(at_most).min(boundary);
            while self.counters.steps < until {
                self.take_step();
            }
            if self.counters.steps < boundary {
                return Ok(Event::Progress);
            }
        }
        let Some(point) = self.measure(go_on)? else {
            return Ok(Event::Progress);
        };
        self.settle();
        Ok(Event::Measured(point))
    }

    #[inline]
    fn take_step(&mut self) {
        let Inputs {
            rows,
            objects,
            triplets,
            ..
        } = &mut self.inputs;
        let sides = Sides {
            left: &*rows.rows,
            right: objects.as_ref().map_or(&*rows.rows, |o| &*o.rows),
        };
        let done = self.counters.steps;
        let (used, learned) = self.stepper.take(sides, triplets, done);
        count(&mut self.counters, used, &learned);
        if learned.loss.is_finite() {
            self.window.loss += learned.loss * used as f64;
            self.window.steps += used;
        }
        if self.options.average {
            let Sides { left, right } = self.inputs.sides();
            let columns = left.columns().max(right.columns());
            let interval = average::interval(columns, self.options.batch);
            if self.counters.steps.is_multiple_of(interval) {
                let step = self.counters.steps;
                Average::add(&mut self.average, self.stepper.learner.form(), step);
            }
        }
    }

    /// What the model would be now: the average, or the last W.
    fn form(&self) -> FormRef<'_, R> {
        match &self.average {
            Some(average) => average.form.view(),
            None => self.stepper.learner.form(),
        }
    }

    /// Whether a point of the curve has been reached and not been measured.
    fn is_due(&self) -> bool {
        let steps = self.counters.steps;
        let reached = steps > 0 && (steps.is_multiple_of(self.every) || steps == self.total);
        reached && self.measured < steps
    }

    fn measure(&mut self, go_on: &(dyn Fn() -> bool + Sync)) -> Result<Option<CurvePoint>> {
        let mut point = CurvePoint {
            counters: self.counters,
            loss: self.running_loss(),
            metrics: Metrics::new(),
        };
        if let Some(valid) = &self.inputs.validation {
            let rows = valid.rows.as_ref().unwrap_or(&self.inputs.rows.rows);
            let (score, threads) = (self.options.score, self.options.threads);
            let form = self.form();
            // A form that has lost rank cannot be measured; the best one so far is
            // still good.
            let lost = form.factors().is_some() && form.gauge().is_none();
            let found = match lost {
                true => None,
                false => {
                    let go_on = |_| go_on();
                    let (members, classes) = (&valid.members, &valid.classes);
                    let objects = self.inputs.objects.as_ref();
                    let found = match objects.and_then(Things::classified) {
                        None => evaluate(form, rows, members, classes, score, threads, &go_on)?,
                        Some(objects) => {
                            let queries = Classified {
                                rows,
                                members,
                                classes,
                            };
                            evaluate_among(form, queries, objects, score, threads, &go_on)?
                        }
                    };
                    match found {
                        None => return Ok(None),
                        found => found,
                    }
                }
            };
            if let Some(found) = &found {
                point.metrics = metrics(found);
            }
            let gained = |found: &Retrieval| {
                let best = self.best.as_ref().map(|best| best.map);
                best.is_none_or(|best| found.map > best)
            };
            match found.filter(gained) {
                Some(found) => {
                    let best = Best {
                        form: form.to_form(),
                        counters: self.counters,
                        map: found.map,
                    };
                    self.best = Some(best);
                    self.without_gain = 0;
                }
                None => self.without_gain += 1,
            }
        }
        self.window = Window::default();
        self.measured = self.counters.steps;
        // The curve without metrics says how often someone looked, not what was
        // learned; the sum of all losses is in the counters.
        if !point.metrics.is_empty() {
            self.history.push(point.clone());
        }
        Ok(Some(point))
    }

    fn settle(&mut self) {
        let patience = self.options.patience.unwrap_or(u32::MAX);
        if self.inputs.validation.is_some() && self.without_gain >= patience {
            self.finished = Some(Stopped::Patience);
        } else if self.counters.steps >= self.total && !self.is_due() {
            self.finished = Some(Stopped::Steps);
        }
    }

    fn card(&self, counters: Counters) -> Card {
        Card {
            score: self.options.score,
            seed: self.options.seed,
            step_size: self.stepper.step.size,
            step_limit: self.options.step_limit,
            decay: self.options.decay,
            distances: self.stepper.examples.distances(),
            aroma: self
                .options
                .learner
                .is_aroma()
                .then_some(self.options.aroma),
            init: self.options.init.name().into(),
            counters,
            history: self.history.clone(),
            ..Card::new(self.options.learner.name())
        }
    }

    /// Writes all that is needed to go on later. It changes nothing: a run with
    /// checkpoints gives the same model as one without.
    pub fn save_checkpoint(&self, path: impl AsRef<Path>, seconds: f64) -> Result<()> {
        let state = State {
            options: self.options.clone(),
            fingerprint: self.inputs.fingerprint,
            objects: self.inputs.objects_fingerprint,
            position: Some(self.inputs.triplets.position()),
            window: self.window,
            measured: self.measured,
            without_gain: self.without_gain,
            seconds,
            best: self.best.as_ref().map(|best| BestState {
                counters: best.counters,
                map: best.map,
                upkeep: forms::upkeep(best.form.view()),
            }),
            average: self.average.as_ref().map(|average| AverageState {
                looks: average.looks,
                at: average.at,
                upkeep: forms::upkeep(average.form.view()),
            }),
        };
        let best = self.best.as_ref().map(|best| &best.form);
        let average = self.average.as_ref().map(|average| &average.form);
        let more = checkpoint::tensors(&state, best, average)?;
        fn parts<'t, R: Real>(things: &'t Things<'_, R>) -> (&'t Features, &'t Preprocess) {
            (things.features, &things.preprocess)
        }
        let (card, form) = (self.card(self.counters), self.stepper.learner.form());
        save_parts(
            path.as_ref(),
            (&card, &Knowledge::Similarity),
            form,
            parts(&self.inputs.rows),
            self.inputs.objects.as_ref().map(parts),
            more,
        )
    }

    /// The model: the best one by validation, or the last one.
    pub fn into_model(mut self) -> Result<Model> {
        if self.options.average {
            // The last W counts, wherever the last look was.
            let (learner, step) = (&self.stepper.learner, self.counters.steps);
            Average::add(&mut self.average, learner.form(), step);
        }
        let counters = self
            .best
            .as_ref()
            .map_or(self.counters, |best| best.counters);
        let mut card = self.card(counters);
        let form = match (self.best, self.average) {
            (Some(best), _) => best.form,
            (None, Some(average)) => average.form,
            (None, None) => self.stepper.learner.into_form(),
        };
        card.variance_scale = self.inputs.variance_scale(form.view(), card.seed);
        Ok(Model {
            card,
            form: Precise::new(form),
            features: self.inputs.rows.features.clone(),
            preprocess: self.inputs.rows.preprocess,
            objects: self.inputs.objects.map(|objects| Objects {
                features: objects.features.clone(),
                preprocess: objects.preprocess,
            }),
            knowledge: Knowledge::Similarity,
        })
    }
}
