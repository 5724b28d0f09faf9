//! A training run as a state machine: the caller says how far to go, and may look,
//! save or stop between any two steps. What is learned does not depend on where the
//! caller looks.
//!
//! The order of pairs is a function of the seed and of the pass, so that the counters
//! say where a run stands.

use super::Pairs;
use super::evaluation::errors;
use super::inputs::Inputs;
use crate::data::ValuedPair;
use crate::form::{Factored, Form, Tall};
use crate::model::{
    Card, Counters, Knowledge, Metrics, Model, Objects, Precise, forms, save_parts,
};
use crate::online::{AnyLearner, Learned, Learner, Rule, Step};
use crate::random::{normal_at, splitmix64};
use crate::task::checkpoint::{self, BestState, Checkpoint, State};
use crate::task::course::Course;
use crate::task::inputs::{TrainingData, about};
use crate::task::session::{CurvePoint, Event};
use crate::task::stepper::decayed;
use crate::{Error, Loss, Real, Result, memory};
use faer::Mat;
use std::path::Path;

/// Candidates of the step size: first by decades, then around the best one.
const DECADES: std::ops::RangeInclusive<i32> = -8..=2;
const AROUND: [f64; 5] = [0.2, 0.5, 1.0, 2.0, 5.0];

/// Pairs of a pre-training run, by decades and around the best; held-out ones that
/// judge it.
const PRETRAINING_PAIRS: [usize; 2] = [1_000, 5_000];
const JUDGING_PAIRS: usize = 2_000;

/// With fewer pairs than this to judge it, a run is judged by what it learned from.
const FEW: usize = 20;

/// Pairs whose scores set the scale of the start.
const SCALING_PAIRS: usize = 1_000;

/// Scores at the start, as a share of the values in training: far enough from zero
/// for the geometries to have a direction, whose steps shrink with W.
const START: f64 = 0.5;

/// A learner, and how it is fed.
#[derive(Debug, Clone)]
struct Stepper<R> {
    learner: AnyLearner<R>,
    step: Step,
    decay: Option<f64>,
}

impl<R: Real> Stepper<R> {
    fn take(&mut self, inputs: &Inputs<'_, R>, pair: ValuedPair, done: u64) -> Learned {
        let step = decayed(self.step, self.decay, done);
        let example = inputs.example(pair);
        self.learner.learn(example, pair.value, Loss::Squared, step)
    }

    fn errors<'p>(
        &mut self,
        inputs: &Inputs<'_, R>,
        pairs: impl Iterator<Item = &'p ValuedPair>,
    ) -> Metrics {
        errors(pairs.map(|&pair| (self.learner.score(inputs.example(pair)), pair.value)))
    }
}

/// A training run of [`Pairs`].
#[derive(Debug)]
pub struct PairsSession<'a, R: Real> {
    options: Pairs,
    inputs: Inputs<'a, R>,
    trials: Vec<(f64, f64)>,
    course: Course<Form<R>>,
    stepper: Stepper<R>,
    /// The pairs of the pass that runs.
    order: Vec<u32>,
    epoch: Option<u64>,
}

/// The smaller the error, the better.
pub(super) fn merit(metrics: &Metrics) -> f64 {
    -metrics.get("rmse").copied().unwrap_or(f64::NAN)
}

impl<'a, R: Real> PairsSession<'a, R> {
    /// Prepares a run, validated on these pairs of the same rows, or on a part of the
    /// training pairs.
    pub fn new(
        options: &Pairs,
        data: TrainingData<'a, R>,
        pairs: &[ValuedPair],
        valid: Option<&[ValuedPair]>,
    ) -> Result<Self> {
        options.check()?;
        let inputs = Inputs::new(options, data, pairs, valid)?;
        let form = start(options, &inputs)?;
        let mut session = Self::at_start(options, inputs, form, 0)?;
        match options.step_size {
            Some(size) => session.stepper.step.size = size,
            None => session.choose_step(),
        }
        session.settle();
        Ok(session)
    }

    /// Goes on from a checkpoint of the same run; only the number of steps and what
    /// is measured on the way may differ.
    pub fn resume(
        options: &Pairs,
        data: TrainingData<'a, R>,
        pairs: &[ValuedPair],
        valid: Option<&[ValuedPair]>,
        checkpoint: Checkpoint<Pairs>,
    ) -> Result<Self> {
        options.check()?;
        let inputs = Inputs::new(options, data, pairs, valid)?;
        check(&checkpoint, options, &inputs)?;
        let Checkpoint {
            model, state, best, ..
        } = checkpoint;
        let seen = model.card.counters.steps;
        let form = model.form.into_precision()?;
        let mut session = Self::at_start(options, inputs, form, seen)?;
        session.stepper.step.size = model.card.step_size;
        let best = best.map(Precise::into_precision).transpose()?;
        session.course.restore(model.card, &state, best);
        session.settle();
        Ok(session)
    }

    fn at_start(options: &Pairs, inputs: Inputs<'a, R>, form: Form<R>, seen: u64) -> Result<Self> {
        let total = options.total(inputs.training.len() as u64);
        Ok(PairsSession {
            stepper: Stepper {
                learner: AnyLearner::new(options.learner, form, seen)?
                    .regularized(options.regularization)
                    .retracted(options.retraction),
                step: Step {
                    size: f64::NAN,
                    limit: options.step_limit.unwrap_or(f64::INFINITY),
                },
                decay: options.decay,
            },
            options: options.clone(),
            inputs,
            trials: Vec::new(),
            course: Course::new(total, options.curve_every).judged_by(merit),
            order: Vec::new(),
            epoch: None,
        })
    }

    pub(super) fn inputs(&self) -> &Inputs<'a, R> {
        &self.inputs
    }

    /// The factors of W as it is now.
    pub(super) fn start_factors(&self) -> (Mat<f64>, Mat<f64>) {
        let form = self.stepper.learner.form();
        let gauge = form.gauge().expect("a start of full rank");
        let (left, right) = form.factors().expect("a form with factors");
        let mapped = |tall: &Tall<R>, map| {
            let mut out = Mat::zeros(tall.rows(), tall.rank());
            let mut i = 0;
            tall.for_each_mapped(map, |row| {
                row.iter().enumerate().for_each(|(j, &v)| out[(i, j)] = v);
                i += 1;
            });
            out
        };
        (mapped(left, &gauge.left), mapped(right, &gauge.right))
    }

    /// The model of another form that these pairs led to.
    pub(super) fn into_model_of(
        self,
        form: Form<R>,
        counters: Counters,
        history: Vec<CurvePoint>,
    ) -> Model {
        let mut card = self.card(counters);
        card.history = history;
        self.into_parts(card, form)
    }

    /// Tries candidates of the step size on four fifths of the pairs and takes the one
    /// that predicts the others best.
    fn choose_step(&mut self) {
        let seed = self.options.seed;
        let judges = |pair: u32| splitmix64(seed ^ u64::from(pair)).is_multiple_of(5);
        let order = self.inputs.order(seed, 0);
        let (mut judging, mut training): (Vec<u32>, Vec<u32>) =
            order.iter().partition(|&&pair| judges(pair));
        if judging.len() < FEW || training.is_empty() {
            (judging, training) = (order.clone(), order);
        }
        judging.truncate(JUDGING_PAIRS);
        let total = usize::try_from(self.course.total).unwrap_or(usize::MAX);
        let pair = |&i: &u32| self.inputs.training[i as usize];
        let trial = |size: f64, most: usize| {
            let mut stepper = self.stepper.clone();
            stepper.step.size = size;
            let steps = most.min(total.max(1));
            for (done, i) in training.iter().cycle().take(steps).enumerate() {
                stepper.take(&self.inputs, pair(i), done as u64);
            }
            let held: Vec<ValuedPair> = judging.iter().map(pair).collect();
            let found = stepper.errors(&self.inputs, held.iter());
            (size, found["rmse"])
        };
        let best = |trials: &[(f64, f64)]| {
            let finite = trials.iter().filter(|t| t.1.is_finite());
            finite
                .min_by(|a, b| a.1.total_cmp(&b.1))
                .map_or(1e-3, |t| t.0)
        };
        let decades: Vec<_> = DECADES
            .map(|power| trial(10_f64.powi(power), PRETRAINING_PAIRS[0]))
            .collect();
        let around = best(&decades);
        let trials: Vec<_> = AROUND
            .map(|share| trial(share * around, PRETRAINING_PAIRS[1]))
            .into();
        self.stepper.step.size = best(&trials);
        self.trials = trials;
    }

    /// The last candidates of the step size with their error on held-out pairs, when
    /// it was chosen and not given.
    pub fn step_trials(&self) -> &[(f64, f64)] {
        &self.trials
    }

    /// How W is stored: `dense` always.
    pub fn storage(&self) -> &'static str {
        self.stepper.learner.form().storage()
    }

    /// The step size in use.
    pub fn step_size(&self) -> f64 {
        self.stepper.step.size
    }

    /// Rank of W.
    pub fn rank(&self) -> usize {
        self.stepper.learner.form().rank()
    }

    /// Steps of the whole run.
    pub fn total_steps(&self) -> u64 {
        self.course.total
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.course.counters
    }

    /// The points of the learning curve so far that have validation metrics.
    pub fn history(&self) -> &[CurvePoint] {
        &self.course.history
    }

    /// Validation metrics of the model that would be kept now.
    pub fn metrics(&self) -> Metrics {
        self.course.metrics()
    }

    /// Goes on for at most this many steps, to the next point of the learning curve
    /// at the farthest.
    pub fn advance(&mut self, at_most: u64) -> Result<Event> {
        self.advance_while(at_most, &|| true)
    }

    /// The same; a measurement is not given up, because it is short.
    pub fn advance_while(
        &mut self,
        at_most: u64,
        _go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Event> {
        if let Some(stopped) = self.course.finished {
            return Ok(Event::Finished(stopped));
        }
        if !self.course.is_due() {
            let done = self.course.counters.steps;
            let boundary = self.course.boundary();
            let until = done.saturating_add(at_most).min(boundary);
            while self.course.counters.steps < until {
                self.take_step();
            }
            if self.course.counters.steps < boundary {
                return Ok(Event::Progress);
            }
        }
        let metrics = (!self.inputs.validation.is_empty()).then(|| {
            self.stepper
                .errors(&self.inputs, self.inputs.validation.iter())
        });
        let stepper = &self.stepper;
        let point = self
            .course
            .measured(metrics, || stepper.learner.form().to_form());
        self.settle();
        Ok(Event::Measured(point))
    }

    fn take_step(&mut self) {
        let done = self.course.counters.steps;
        let pairs = self.inputs.training.len() as u64;
        let (epoch, at) = (done / pairs, (done % pairs) as usize);
        if self.epoch != Some(epoch) {
            self.order = self.inputs.order(self.options.seed, epoch);
            self.epoch = Some(epoch);
        }
        let pair = self.inputs.training[self.order[at] as usize];
        let learned = self.stepper.take(&self.inputs, pair, done);
        self.course.count(&learned);
    }

    fn settle(&mut self) {
        let validated = !self.inputs.validation.is_empty();
        self.course.settle(validated, self.options.patience);
    }

    fn card(&self, counters: Counters) -> Card {
        let polar = self.options.learner == Rule::Polar;
        Card {
            seed: self.options.seed,
            step_size: self.stepper.step.size,
            step_limit: self.options.step_limit,
            decay: self.options.decay,
            regularization: Some(self.options.regularization).filter(|&lambda| lambda > 0.0),
            retraction: Some(self.options.retraction).filter(|_| polar),
            init: "gaussian".into(),
            counters,
            history: self.course.history.clone(),
            ..Card::new(self.options.learner.name())
        }
    }

    fn knowledge(&self) -> Knowledge {
        Knowledge::Pairs {
            target_mean: self.inputs.mean(),
        }
    }

    /// Writes all that is needed to go on later. It changes nothing: a run with
    /// checkpoints gives the same model as one without.
    pub fn save_checkpoint(&self, path: impl AsRef<Path>, seconds: f64) -> Result<()> {
        let best = self.course.best.as_ref();
        let state = State {
            options: self.options.clone(),
            fingerprint: self.inputs.fingerprint,
            objects: self.inputs.objects_fingerprint,
            position: None,
            window: self.course.window,
            measured: self.course.measured,
            without_gain: self.course.without_gain,
            seconds,
            best: best.map(|best| BestState {
                counters: best.counters,
                map: best.map,
                upkeep: forms::upkeep(best.model.view()),
            }),
            average: None,
        };
        let more = checkpoint::tensors(&state, best.map(|best| &best.model), None)?;
        let Inputs { rows, objects, .. } = &self.inputs;
        save_parts(
            path.as_ref(),
            (&self.card(self.course.counters), &self.knowledge()),
            self.stepper.learner.form(),
            (rows.features, &rows.preprocess),
            objects.as_ref().map(|o| (o.features, &o.preprocess)),
            more,
        )
    }

    /// The model: the best one by validation, or the last one.
    pub fn into_model(mut self) -> Result<Model> {
        let best = self.course.best.take();
        let counters = best.as_ref().map_or(self.counters(), |best| best.counters);
        let card = self.card(counters);
        let form = match best {
            Some(best) => best.model,
            None => self.stepper.learner.form().to_form(),
        };
        Ok(self.into_parts(card, form))
    }

    fn into_parts(self, card: Card, form: Form<R>) -> Model {
        let knowledge = self.knowledge();
        let Inputs { rows, objects, .. } = self.inputs;
        Model {
            card,
            form: Precise::new(form),
            features: rows.features.clone(),
            preprocess: rows.preprocess,
            objects: objects.map(|objects| Objects {
                features: objects.features.clone(),
                preprocess: objects.preprocess,
            }),
            knowledge,
        }
    }
}

/// W at the start of training: normal factors, of a length that makes scores about
/// half as large as the values.
fn start<R: Real>(options: &Pairs, inputs: &Inputs<'_, R>) -> Result<Form<R>> {
    let ((n, m), k) = (inputs.shape(), options.rank);
    for (count, objects) in [(n, false), (m, inputs.objects.is_some())] {
        if k > count {
            let error = Error::input(format!("rank {k} is above the number of features, {count}"));
            return Err(match objects {
                true => about("objects", error),
                false => error,
            });
        }
    }
    let bytes = (n as u128 + m as u128) * k as u128 * size_of::<R>() as u128;
    let what = format!("a model of {n} and {m} features and rank {k}");
    // One more for the trials of the step size.
    memory::require(2 * bytes, &what)?;
    let factors = |scale: f64| {
        let tall = |side: u64, rows: usize| {
            Tall::from_fn(rows, k, |i, j| {
                scale * normal_at(options.seed, side, i as u64, j as u64)
            })
        };
        Ok::<_, Error>(Factored::new(tall(0, n)?, tall(1, m)?))
    };
    let form = factors(1.0)?;
    let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|v| v * v).sum::<f64>();
    let stride = inputs.training.len().div_ceil(SCALING_PAIRS);
    let sample = || inputs.training.iter().step_by(stride);
    let scores = squares(&mut sample().map(|&pair| {
        let example = inputs.example(pair);
        form.score(example.left, example.right)
    }));
    let values = squares(&mut inputs.training.iter().map(|pair| pair.value))
        / inputs.training.len() as f64
        * sample().count() as f64;
    let ratio = (START * START * values / scores).powf(0.25);
    let sound = ratio.is_finite() && ratio > 0.0;
    let form = if sound { factors(ratio)? } else { form };
    Form::Factored(form).shaped(options.learner.shape())
}

/// Whether this run is the one that was interrupted.
fn check<R: Real>(
    checkpoint: &Checkpoint<Pairs>,
    options: &Pairs,
    inputs: &Inputs<'_, R>,
) -> Result<()> {
    let mut wanted = checkpoint.state.options.clone();
    // What may differ without changing what was learned so far.
    wanted.steps = options.steps;
    wanted.epochs = options.epochs;
    wanted.patience = options.patience;
    wanted.curve_every = options.curve_every;
    let size = checkpoint.model.card.step_size;
    if options.step_size.is_none() || options.step_size == Some(size) {
        wanted.step_size = options.step_size;
    }
    checkpoint::same_options(options, &wanted)?;
    checkpoint.check_model::<R>(inputs.rows.features)?;
    let model = &checkpoint.model;
    let shape = (model.columns(), model.columns_of(crate::form::Side::Right));
    let same = inputs.fingerprint == checkpoint.state.fingerprint
        && inputs.objects_fingerprint == checkpoint.state.objects
        && shape == inputs.shape();
    match same {
        true => Ok(()),
        false => Err(Error::input("the checkpoint was made with other data")),
    }
}
