//! A training run as a state machine: the caller says how far to go, and may
//! look, save or stop between any two steps. What is learned does not depend
//! on where the caller looks.

use super::checkpoint::{self, Best, BestState, Checkpoint, State, Window};
use super::inputs::Inputs;
use super::similarity::{Examples, Similarity, evaluate, make_example, metrics};
use super::step_size::{self, Trial};
use crate::data::Labelled;
use crate::eval::{Cosine, retrieval};
use crate::form::Form;
use crate::model::{
    Card, Counters, FORMAT, HistoryPoint, Metrics, Model, Precise, forms, save_parts,
};
use crate::online::{AnyLearner, Learned, Learner, Outcome, Step};
use crate::random::{Random, splitmix64};
use crate::sample::{LabelTriplets, Triplet, Triplets};
use crate::{Error, Loss, Real, Result, SparseVec};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Separate streams of random numbers for separate purposes.
const PRETRAINING: u64 = 1;
const HELD_OUT: u64 = 2;

/// Triplets of a pre-training run, and held-out ones that judge it.
const PRETRAINING_STEPS: u64 = 5_000;
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

/// Counts an example. Counters may come from a file, which is not trusted: they
/// stop at the largest value.
pub(super) fn count(counters: &mut Counters, learned: &Learned) {
    let one_more = |counter: &mut u64| *counter = counter.saturating_add(1);
    one_more(&mut counters.steps);
    match learned.outcome {
        Outcome::Moved => one_more(&mut counters.updates),
        Outcome::Refused => one_more(&mut counters.refused),
        Outcome::Idle => {}
    }
    let sum = counters.total_loss + learned.loss;
    if sum.is_finite() {
        counters.total_loss = sum;
    }
}

/// A training run of [`Similarity`].
#[derive(Debug)]
pub struct Session<'a, R: Real> {
    options: Similarity,
    inputs: Inputs<'a, R>,
    step: Step,
    trials: Vec<Trial>,
    /// Steps of the whole run, and between two points of the curve.
    total: u64,
    every: u64,
    difference: SparseVec<R>,
    learner: AnyLearner<R>,
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
    /// Prepares a run: on triplets drawn from the labels, or on those listed;
    /// validated on the rows given, or on a part of the training rows.
    pub fn new(
        options: &Similarity,
        data: &'a Labelled<R>,
        listed: Option<Vec<Triplet>>,
        valid: Option<&Labelled<R>>,
    ) -> Result<Self> {
        options.check()?;
        let inputs = Inputs::new(options, data, listed, valid)?;
        let form = options.start(&inputs.rows, &inputs.members, inputs.classes.as_deref())?;
        let mut session = Self::at_start(options, inputs, form);
        match options.step_size {
            Some(size) => session.step.size = size,
            None => session.choose_step()?,
        }
        session.settle();
        Ok(session)
    }

    /// Goes on from a checkpoint of the same run; only the number of steps and
    /// what is measured on the way may differ.
    pub fn resume(
        options: &Similarity,
        data: &'a Labelled<R>,
        listed: Option<Vec<Triplet>>,
        valid: Option<&Labelled<R>>,
        checkpoint: Checkpoint,
    ) -> Result<Self> {
        options.check()?;
        let mut inputs = Inputs::new(options, data, listed, valid)?;
        checkpoint.check::<R>(options, inputs.fingerprint, inputs.rows.columns())?;
        let Checkpoint { model, state, best } = checkpoint;
        if !inputs.triplets.seek(state.position) {
            return Err(Error::input(
                "the checkpoint was made with another source of triplets",
            ));
        }
        let mut session = Self::at_start(options, inputs, model.form.into_precision()?);
        session.step.size = model.card.step_size;
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
        session.settle();
        Ok(session)
    }

    fn at_start(options: &Similarity, inputs: Inputs<'a, R>, form: Form<R>) -> Self {
        let total = inputs.steps(options);
        Session {
            options: options.clone(),
            step: Step {
                size: f64::NAN,
                limit: options.step_limit.unwrap_or(f64::INFINITY),
            },
            trials: Vec::new(),
            total,
            every: options.curve_every.unwrap_or(total.div_ceil(20).max(1)),
            difference: SparseVec::new(),
            learner: AnyLearner::new(form),
            counters: Counters::default(),
            history: Vec::new(),
            window: Window::default(),
            measured: 0,
            best: None,
            without_gain: 0,
            finished: None,
            inputs,
        }
    }

    /// Tries every candidate of the step size on triplets apart from those
    /// that judge it.
    fn choose_step(&mut self) -> Result<()> {
        let seed = self.options.seed;
        let mut steps = PRETRAINING_STEPS.min(self.total.max(1));
        let (training, mut judge) = match &self.inputs.triplets {
            Triplets::Listed(list) => {
                // The first four fifths train, the rest judges.
                steps = steps.min((list.len() as u64 * 4 / 5).max(1));
                let later = list.after(steps as usize);
                (Triplets::Listed(list.clone()), Triplets::Listed(later))
            }
            Triplets::Labels(_) => {
                // Every fifth row judges; when a class is too small for that, all do.
                let known = self
                    .inputs
                    .classes
                    .as_deref()
                    .expect("triplets came from classes");
                let members = &self.inputs.members;
                let judges = |&row: &u32| splitmix64(seed ^ u64::from(row)).is_multiple_of(5);
                let (late, early): (Vec<u32>, Vec<u32>) =
                    members.iter().partition(|row| judges(row));
                let source = |rows: &[u32], purpose| {
                    LabelTriplets::new(known, rows, Random::new(seed, purpose))
                        .map(Triplets::Labels)
                };
                match (source(&early, PRETRAINING), source(&late, HELD_OUT)) {
                    (Ok(training), Ok(judge)) => (training, judge),
                    _ => (source(members, PRETRAINING)?, source(members, HELD_OUT)?),
                }
            }
        };
        let held_out: Vec<Triplet> = (0..HELD_OUT_TRIPLETS).map(|_| judge.draw()).collect();
        let examples = Examples::new(&self.inputs.rows);
        let limit = self.step.limit;
        self.trials =
            step_size::trials(&self.learner, &examples, &training, steps, &held_out, limit);
        self.step.size = step_size::best(&self.trials, held_out.len());
        Ok(())
    }

    /// The candidates of the step size with their error on held-out triplets,
    /// when it was chosen and not given.
    pub fn step_trials(&self) -> Vec<(f64, f64)> {
        self.trials.iter().map(|t| (t.size, t.wrong)).collect()
    }

    /// The step size in use.
    pub fn step_size(&self) -> f64 {
        self.step.size
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

    /// The validation metrics of the simple control: the cosine between the
    /// rows themselves.
    pub fn validation_control(&self) -> Option<Metrics> {
        let valid = self.inputs.validation.as_ref()?;
        let rows = valid.rows.as_ref().unwrap_or(&self.inputs.rows);
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
        let triplet = self.inputs.triplets.draw();
        let example = make_example(&self.inputs.rows, &mut self.difference, triplet);
        let learned = self.learner.learn(example, 1.0, Loss::Hinge, self.step);
        count(&mut self.counters, &learned);
        if learned.loss.is_finite() {
            self.window.loss += learned.loss;
            self.window.steps += 1;
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
            let rows = valid.rows.as_ref().unwrap_or(&self.inputs.rows);
            let (score, threads) = (self.options.score, self.options.threads);
            let form = self.learner.form();
            // A form that has lost rank cannot be measured; the best one so far is
            // still good.
            let found = match form.gauge() {
                None => None,
                Some(_) => {
                    let go_on = |_| go_on();
                    let (members, classes) = (&valid.members, &valid.classes);
                    match evaluate(form, rows, members, classes, score, threads, &go_on)? {
                        None => return Ok(None),
                        found => found,
                    }
                }
            };
            if let Some(found) = &found {
                point.metrics = metrics(found);
            }
            match found {
                Some(found) if self.best.as_ref().is_none_or(|best| found.map > best.map) => {
                    self.without_gain = 0;
                    self.best = Some(Best {
                        form: form.to_form(),
                        counters: self.counters,
                        map: found.map,
                    });
                }
                _ => self.without_gain += 1,
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
            format: FORMAT,
            task: "similarity".into(),
            learner: self.options.learner.name().into(),
            score: self.options.score,
            seed: self.options.seed,
            step_size: self.step.size,
            step_limit: self.options.step_limit,
            init: self.options.init.name().into(),
            counters,
            history: self.history.clone(),
        }
    }

    /// Writes all that is needed to go on later. It changes nothing: a run with
    /// checkpoints gives the same model as one without.
    pub fn save_checkpoint(&self, path: impl AsRef<Path>, seconds: f64) -> Result<()> {
        let state = State {
            options: self.options.clone(),
            fingerprint: self.inputs.fingerprint,
            position: self.inputs.triplets.position(),
            window: self.window,
            measured: self.measured,
            without_gain: self.without_gain,
            seconds,
            best: self.best.as_ref().map(|best| BestState {
                counters: best.counters,
                map: best.map,
                upkeep: forms::upkeep(best.form.view()),
            }),
        };
        let more = checkpoint::tensors(&state, self.best.as_ref())?;
        let (card, form) = (self.card(self.counters), self.learner.form());
        save_parts(
            path.as_ref(),
            &card,
            form,
            self.inputs.features,
            &self.inputs.preprocess,
            more,
        )
    }

    /// The model: the best one by validation, or the last one.
    pub fn into_model(self) -> Result<Model> {
        let counters = self
            .best
            .as_ref()
            .map_or(self.counters, |best| best.counters);
        let card = self.card(counters);
        let form = match self.best {
            Some(best) => best.form,
            None => self.learner.into_form(),
        };
        Ok(Model {
            card,
            form: Precise::new(form),
            features: self.inputs.features.clone(),
            preprocess: self.inputs.preprocess,
        })
    }
}
