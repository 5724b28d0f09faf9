//! A training run as a state machine: the caller says how far to go, and may
//! look, save or stop between any two steps. What is learned does not depend on
//! where the caller looks.
//!
//! The order of rows and the labels that are drawn are functions of the seed and
//! of the number of the step, so that the counters say where a run stands.

use super::evaluation::{LabelScores, measure};
use super::inputs::Inputs;
use super::violation::Violations;
use super::{Ranking, start};
use crate::data::{Features, Labelled};
use crate::eval::Retrieval;
use crate::form::{Form, FormRef, Full};
use crate::model::{
    Card, Counters, Knowledge, Metrics, Model, Objects, Precise, Preprocess, Prior, Ranked,
    Sampler, forms, save_parts,
};
use crate::online::{AnyLearner, Learned, Shape, Step};
use crate::random::{Random, splitmix64};
use crate::task::average::{self, Average, AverageState};
use crate::task::checkpoint::{self, BestState, Checkpoint, State};
use crate::task::course::Course;
use crate::task::session::{CurvePoint, Event};
use crate::task::similarity::{Init, metrics};
use crate::task::stepper::decayed;
use crate::{Error, Real, Result, SparseRow, memory};
use std::path::Path;

/// The streams of random numbers that draw labels, one a step.
const DRAWS: u64 = 1 << 32;

/// Candidates of the step size.
const STEP_SIZES: [f64; 7] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// Rows of a pre-training run, and held-out ones that judge it.
const PRETRAINING_ROWS: usize = 10_000;
/// More, because a step of WARP learns less, and costs less.
const PRETRAINING_ROWS_OF_WARP: usize = 30_000;
const JUDGING_ROWS: usize = 1_000;

/// How much worse than the best a smaller step may be, as a share of its mAP: what
/// long steps gain at first they lose later.
const ABOUT: f64 = 0.02;

/// Steps between two looks for the average, at least, as a multiple of the rank: a
/// look has work of k³.
const LOOK: usize = 40;

/// The generator that draws the labels of one step, counted from 0.
pub fn draws(seed: u64, step: u64) -> Random {
    Random::new(seed, DRAWS.wrapping_add(step))
}

/// A learner, and what it learns beside W.
#[derive(Debug, Clone)]
struct Stepper<R> {
    learner: AnyLearner<R>,
    prior: Prior,
    violations: Violations<R>,
    step: Step,
    decay: Option<f64>,
    seed: u64,
}

impl<R: Real> Stepper<R> {
    fn take(&mut self, (row, labels): (SparseRow<'_, R>, &[u32]), done: u64) -> Learned {
        let step = decayed(self.step, self.decay, done);
        let (learner, prior, seed) = (&mut self.learner, &mut self.prior, self.seed);
        let random = || draws(seed, done);
        self.violations
            .learn(learner, prior, row, labels, step, random)
    }
}

/// W and the biases that go with it.
type Kit<R> = (Form<R>, Vec<f64>);

/// A training run of [`Ranking`].
#[derive(Debug)]
pub struct RankingSession<'a, R: Real> {
    options: Ranking,
    inputs: Inputs<'a, R>,
    trials: Vec<(f64, f64)>,
    course: Course<Kit<R>>,
    stepper: Stepper<R>,
    /// The average of W, and that of the biases.
    average: Option<Average<R>>,
    average_bias: Vec<f64>,
    /// The rows of the pass that runs.
    order: Vec<u32>,
    epoch: Option<u64>,
}

impl<'a, R: Real> RankingSession<'a, R> {
    /// Prepares a run, validated on the rows given, or on a part of the training
    /// rows.
    pub fn new(
        options: &Ranking,
        data: &'a Labelled<R>,
        valid: Option<&Labelled<R>>,
    ) -> Result<Self> {
        options.check()?;
        let inputs = Inputs::new(options, data, valid)?;
        let prior = inputs.prior(options);
        let form = start_form(options, &inputs, &prior)?;
        let mut session = Self::at_start(options, inputs, form, prior, 0)?;
        match options.step_size {
            Some(size) => session.stepper.step.size = size,
            None if options.learner.is_passive_aggressive() => {
                session.stepper.step.size = options.aggressiveness;
            }
            None => session.choose_step(),
        }
        session.settle();
        Ok(session)
    }

    /// Goes on from a checkpoint of the same run; only the number of steps and
    /// what is measured on the way may differ.
    pub fn resume(
        options: &Ranking,
        data: &'a Labelled<R>,
        valid: Option<&Labelled<R>>,
        checkpoint: Checkpoint<Ranking>,
    ) -> Result<Self> {
        options.check()?;
        let inputs = Inputs::new(options, data, valid)?;
        check(&checkpoint, options, &inputs)?;
        let Checkpoint {
            model,
            state,
            best,
            average,
            best_bias,
            average_bias,
        } = checkpoint;
        let no_biases = || Error::input("the checkpoint is damaged: biases of labels are missing");
        let seen = model.card.counters.steps;
        let Knowledge::Ranking(Ranked { prior, .. }) = model.knowledge else {
            return Err(model.knowledge.expected("ranking"));
        };
        let form = model.form.into_precision()?;
        let mut session = Self::at_start(options, inputs, form, prior, seen)?;
        session.stepper.step.size = model.card.step_size;
        let best = match best {
            Some(form) => Some((form.into_precision()?, best_bias.ok_or_else(no_biases)?)),
            None => None,
        };
        session.course.restore(model.card, &state, best);
        if let (Some(kept), Some(form)) = (state.average, average) {
            session.average_bias = average_bias.ok_or_else(no_biases)?;
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
        options: &Ranking,
        inputs: Inputs<'a, R>,
        form: Form<R>,
        prior: Prior,
        seen: u64,
    ) -> Result<Self> {
        let total = options.total(inputs.things.members.len() as u64);
        Ok(RankingSession {
            stepper: Stepper {
                learner: AnyLearner::new(options.learner, form, seen)?,
                prior,
                violations: Violations::new(options.learned()),
                step: Step {
                    size: f64::NAN,
                    limit: options.step_limit.unwrap_or(f64::INFINITY),
                },
                decay: options.decay,
                seed: options.seed,
            },
            options: options.clone(),
            inputs,
            trials: Vec::new(),
            course: Course::new(total, options.curve_every),
            average: None,
            average_bias: Vec::new(),
            order: Vec::new(),
            epoch: None,
        })
    }

    /// Tries every candidate of the step size on four fifths of the rows and takes
    /// the smallest that ranks the labels of the others about as well as the best.
    fn choose_step(&mut self) {
        let seed = self.options.seed;
        let judges = |row: u32| splitmix64(seed ^ u64::from(row)).is_multiple_of(5);
        let order = self.inputs.order(&self.options, 0);
        let (mut judging, mut training): (Vec<u32>, Vec<u32>) =
            order.iter().partition(|&&row| judges(row));
        if judging.is_empty() || training.is_empty() {
            (judging, training) = (order.clone(), order);
        }
        judging.truncate(JUDGING_ROWS);
        let steps = usize::try_from(self.course.total).unwrap_or(usize::MAX);
        let steps = steps.min(match self.options.sampler {
            Sampler::Top => PRETRAINING_ROWS,
            Sampler::Warp => PRETRAINING_ROWS_OF_WARP,
        });
        let mut positives = super::labels::Positives::default();
        for &row in &judging {
            positives.push(self.inputs.positives.of(row as usize).iter().copied());
        }
        let trial = |&size: &f64| {
            let mut stepper = self.stepper.clone();
            stepper.step.size = size;
            for (done, &row) in training.iter().cycle().take(steps).enumerate() {
                stepper.take(self.inputs.example(row), done as u64);
            }
            let form = stepper.learner.form();
            let rows = &self.inputs.things.rows;
            let scorer = LabelScores::new(form, &stepper.prior, rows, Some(&judging), 0);
            let found = measure(&scorer, &positives, self.options.threads, &|_| true);
            (size, found.map_or(0.0, |found| found.map))
        };
        self.trials = STEP_SIZES.iter().map(trial).collect();
        let best = self.trials.iter().map(|t| t.1).fold(0.0, f64::max);
        let good = |trial: &&(f64, f64)| trial.1 >= (1.0 - ABOUT) * best;
        let chosen = self.trials.iter().find(good);
        self.stepper.step.size = chosen.map_or(1.0, |(size, _)| *size);
    }

    /// The candidates of the step size with the mAP of labels on held-out rows,
    /// when it was chosen and not given.
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

    /// Labels whose score was computed in steps so far.
    pub fn labels_scored(&self) -> u64 {
        self.stepper.violations.scored
    }

    /// Rows that nothing is learned from: without labels, or with all of them.
    pub fn skipped(&self) -> usize {
        self.inputs.skipped
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
        let Some(point) = self.measure(go_on) else {
            return Ok(Event::Progress);
        };
        self.settle();
        Ok(Event::Measured(point))
    }

    fn take_step(&mut self) {
        let done = self.course.counters.steps;
        let rows = self.inputs.things.members.len() as u64;
        let (epoch, at) = (done / rows, (done % rows) as usize);
        if self.epoch != Some(epoch) {
            self.order = self.inputs.order(&self.options, epoch);
            self.epoch = Some(epoch);
        }
        let example = self.inputs.example(self.order[at]);
        let learned = self.stepper.take(example, done);
        self.course.count(&learned);
        if self.options.average {
            let (features, labels) = self.inputs.shape();
            let rows = features.max(labels).max(LOOK * self.options.rank);
            let interval = average::interval(rows, 1);
            if self.course.counters.steps.is_multiple_of(interval) {
                self.look();
            }
        }
    }

    /// Adds W and the biases to their averages.
    fn look(&mut self) {
        let before = self.average.as_ref().map(|average| average.looks);
        let step = self.course.counters.steps;
        Average::add(&mut self.average, self.stepper.learner.form(), step);
        let bias = &self.stepper.prior.bias;
        match (before, self.average.as_ref().map(|average| average.looks)) {
            (None, _) => self.average_bias.clone_from(bias),
            (Some(before), Some(looks)) if looks > before => {
                let share = 2.0 / (looks as f64 + 1.0);
                for (mean, bias) in self.average_bias.iter_mut().zip(bias) {
                    *mean = (1.0 - share) * *mean + share * bias;
                }
            }
            _ => {}
        }
    }

    /// What the model would be now: the average, or the last W.
    fn form(&self) -> FormRef<'_, R> {
        match &self.average {
            Some(average) => average.form.view(),
            None => self.stepper.learner.form(),
        }
    }

    /// And the biases that go with it.
    fn prior(&self) -> Prior {
        let mut prior = self.stepper.prior.clone();
        if self.average.is_some() {
            prior.bias.clone_from(&self.average_bias);
        }
        prior
    }

    /// `None` when it was given up.
    fn measure(&mut self, go_on: &(dyn Fn() -> bool + Sync)) -> Option<CurvePoint> {
        let found = match self.validate(go_on) {
            Some(None) => return None,
            Some(found) => found,
            None => None,
        };
        let metrics = found.map(|found| metrics(&found));
        let (stepper, average, bias) = (&self.stepper, &self.average, &self.average_bias);
        Some(self.course.measured(metrics, || match average {
            Some(average) => (average.form.clone(), bias.clone()),
            None => (stepper.learner.form().to_form(), stepper.prior.bias.clone()),
        }))
    }

    /// `None` without validation rows, in it `None` when it was given up.
    #[allow(clippy::option_option)]
    fn validate(&self, go_on: &(dyn Fn() -> bool + Sync)) -> Option<Option<Retrieval>> {
        let held = self.inputs.validation.as_ref()?;
        let rows = held.rows.as_ref().unwrap_or(&self.inputs.things.rows);
        let (members, prior) = (Some(&held.members[..]), self.prior());
        let scorer = LabelScores::new(self.form(), &prior, rows, members, held.unknown);
        let (threads, go_on) = (self.options.threads, |_| go_on());
        Some(measure(&scorer, &held.positives, threads, &go_on))
    }

    fn settle(&mut self) {
        let validated = self.inputs.validation.is_some();
        self.course.settle(validated, self.options.patience);
    }

    fn card(&self, counters: Counters) -> Card {
        Card {
            seed: self.options.seed,
            step_size: self.stepper.step.size,
            step_limit: self.options.step_limit,
            decay: self.options.decay,
            init: self.options.init.name().into(),
            counters,
            history: self.course.history.clone(),
            ..Card::new(self.options.learner.name())
        }
    }

    /// Writes all that is needed to go on later. It changes nothing: a run with
    /// checkpoints gives the same model as one without.
    pub fn save_checkpoint(&self, path: impl AsRef<Path>, seconds: f64) -> Result<()> {
        let best = self.course.best.as_ref();
        let average = self.average.as_ref();
        let state = State {
            options: self.options.clone(),
            fingerprint: self.inputs.fingerprint,
            objects: None,
            position: None,
            window: self.course.window,
            measured: self.course.measured,
            without_gain: self.course.without_gain,
            seconds,
            best: best.map(|best| BestState {
                counters: best.counters,
                map: best.map,
                upkeep: forms::upkeep(best.model.0.view()),
            }),
            average: average.map(|average| AverageState {
                looks: average.looks,
                at: average.at,
                upkeep: forms::upkeep(average.form.view()),
            }),
        };
        let best_form = best.map(|best| &best.model.0);
        let average_form = average.map(|average| &average.form);
        let mut more = checkpoint::tensors(&state, best_form, average_form)?;
        more.extend(checkpoint::bias_tensors(
            best.map(|best| &best.model.1[..]),
            average.map(|_| &self.average_bias[..]),
        ));
        let knowledge = Knowledge::Ranking(Ranked {
            rule: self.options.learned(),
            prior: self.stepper.prior.clone(),
        });
        let things = &self.inputs.things;
        save_parts(
            path.as_ref(),
            (&self.card(self.course.counters), &knowledge),
            self.stepper.learner.form(),
            (things.features, &things.preprocess),
            Some((&self.label_features(), &Preprocess::default())),
            more,
        )
    }

    fn label_features(&self) -> Features {
        Features::Named(self.inputs.names.clone())
    }

    /// The model: the best one by validation, or the last one.
    pub fn into_model(mut self) -> Result<Model> {
        if self.options.average {
            // The last W counts, wherever the last look was.
            self.look();
        }
        let mut prior = self.prior();
        let features = self.label_features();
        let best = self.course.best.take();
        let counters = best.as_ref().map_or(self.counters(), |best| best.counters);
        let card = self.card(counters);
        let form = match (best, self.average) {
            (Some(best), _) => {
                prior.bias = best.model.1;
                best.model.0
            }
            (None, Some(average)) => average.form,
            (None, None) => self.stepper.learner.into_form(),
        };
        Ok(Model {
            card,
            form: Precise::new(form),
            features: self.inputs.things.features.clone(),
            preprocess: self.inputs.things.preprocess,
            objects: Some(Objects {
                features,
                preprocess: Preprocess::default(),
            }),
            knowledge: Knowledge::Ranking(Ranked {
                rule: self.options.learned(),
                prior,
            }),
        })
    }
}

/// W at the start of training.
fn start_form<R: Real>(
    options: &Ranking,
    inputs: &Inputs<'_, R>,
    prior: &Prior,
) -> Result<Form<R>> {
    let ((features, labels), k) = (inputs.shape(), options.rank);
    if options.learner.shape() == Shape::Full {
        return Full::diagonal(features, labels, 0.0).map(Form::Full);
    }
    for (count, what) in [(features, "features"), (labels, "labels")] {
        if k > count {
            return Err(Error::input(format!(
                "rank {k} is above the number of {what}, {count}"
            )));
        }
    }
    let bytes = (features + labels) as u128 * k as u128 * size_of::<R>() as u128;
    let what = format!("a model of {features} features, {labels} labels and rank {k}");
    memory::require(bytes + (features + labels) as u128 * 40, &what)?;
    let members = || inputs.things.members.iter().copied();
    match options.init {
        Init::Zero => {
            let epochs = (0..).flat_map(|epoch| inputs.order(options, epoch));
            let rows = epochs.map(|row| inputs.example(row));
            let gradient = options.gradient;
            start::from_zero(rows, inputs.shape(), k, &prior.bias, gradient, None)
        }
        Init::Gaussian => start::gaussian(options.seed, inputs.shape(), k),
        Init::Identity => {
            let labelled = members().map(|row| (row, inputs.positives.of(row as usize)));
            let pairs = start::informative_pairs(&inputs.things.rows, labelled, labels, k);
            start::paired(&pairs, inputs.shape())
        }
    }
}

/// Whether this run is the one that was interrupted.
fn check<R: Real>(
    checkpoint: &Checkpoint<Ranking>,
    options: &Ranking,
    inputs: &Inputs<'_, R>,
) -> Result<()> {
    let mut wanted = checkpoint.state.options.clone();
    // What may differ without changing what was learned so far.
    wanted.steps = options.steps;
    wanted.epochs = options.epochs;
    wanted.patience = options.patience;
    wanted.curve_every = options.curve_every;
    wanted.threads = options.threads;
    let size = checkpoint.model.card.step_size;
    if options.step_size.is_none() || options.step_size == Some(size) {
        wanted.step_size = options.step_size;
    }
    checkpoint::same_options(options, &wanted)?;
    checkpoint.check_model::<R>(inputs.things.features)?;
    let (features, labels) = inputs.shape();
    let model = &checkpoint.model;
    let same = inputs.fingerprint == checkpoint.state.fingerprint
        && model.columns() == features
        && model.label_names().is_ok_and(|names| names.len() == labels);
    match same {
        true => Ok(()),
        false => Err(Error::input("the checkpoint was made with other data")),
    }
}
