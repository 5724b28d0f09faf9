//! Values of pairs, learned one pair after the other.
//!
//! The order of pairs is a function of the seed and of the pass, so that the counters
//! say where a run stands.

use super::evaluation::errors;
use super::inputs::Inputs;
use super::{Pairs, PairsData};
use crate::data::ValuedPair;
use crate::form::{Factored, Form, FormRef, Side, Tall};
use crate::model::{Card, Knowledge, Metrics};
use crate::online::{AnyLearner, Learned, Learner, Rule, Step};
use crate::random::{normal_at, splitmix64};
use crate::task::checkpoint::Checkpoint;
use crate::task::course::Course;
use crate::task::run::{Baseline, Run, Trial};
use crate::task::session::{
    Fingerprints, GoOn, Session, SideParts, Snapshot, Validated, Work, check_resumed,
};
use crate::task::start::{Factors, Start, StartInit};
use crate::task::{decayed, rank_for, rank_given};
use crate::{Error, Loss, Real, Result, memory};
use faer::Mat;
use std::borrow::Cow;

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
    /// One step on these pairs.
    fn take(&mut self, inputs: &Inputs<'_, R>, pairs: &[ValuedPair], done: u64) -> Learned {
        let step = decayed(self.step, self.decay, done);
        if let [pair] = *pairs {
            let example = inputs.example(pair);
            return self.learner.learn(example, pair.value, Loss::Squared, step);
        }
        let examples = pairs.iter().map(|&pair| (inputs.example(pair), pair.value));
        let examples: Vec<_> = examples.collect();
        self.learner.learn_batch(&examples, Loss::Squared, step)
    }
}

/// What a run of [`Pairs`] steps with.
#[derive(Debug)]
pub struct PairsWork<'a, R: Real> {
    options: Pairs,
    pub(super) inputs: Inputs<'a, R>,
    trials: Vec<Trial>,
    stepper: Stepper<R>,
    /// The pairs of the pass that runs.
    order: Vec<u32>,
    epoch: Option<u64>,
}

/// A training run of [`Pairs`].
pub type PairsSession<'a, R> = Session<PairsWork<'a, R>>;

/// The smaller the error, the better.
pub(super) fn merit(metrics: &Metrics) -> f64 {
    -metrics.get("rmse").copied().unwrap_or(f64::NAN)
}

impl Pairs {
    /// A training run that the caller drives.
    pub fn session<'a, R: Real>(&self, data: PairsData<'a, R>) -> Result<PairsSession<'a, R>> {
        self.begin_session(data, &mut Run::default())
    }

    /// The same from a model, where the run brings one.
    pub(super) fn begin_session<'a, R: Real>(
        &self,
        data: PairsData<'a, R>,
        run: &mut Run<'_>,
    ) -> Result<PairsSession<'a, R>> {
        self.check()?;
        let inputs = Inputs::new(self, data)?;
        let form = match run.started::<Pairs>(self.init == StartInit::Model)? {
            None => start(self, &inputs)?,
            Some(start) => {
                let found = self.started_from(&inputs, &start)?;
                found.note.into_iter().for_each(|note| run.note(note));
                self.shaped(&found.factors)?
            }
        };
        self.session_from(inputs, form)
    }

    /// The same from this form.
    pub(super) fn session_from<'a, R: Real>(
        &self,
        inputs: Inputs<'a, R>,
        form: Form<R>,
    ) -> Result<PairsSession<'a, R>> {
        let (mut work, course) = self.work(inputs, form, 0)?;
        match self.step_size {
            Some(size) => work.stepper.step.size = size,
            None => work.choose_step(course.total),
        }
        Session::new(work, course)
    }

    /// Goes on from a checkpoint of the same run.
    pub fn resume<'a, R: Real>(
        &self,
        data: PairsData<'a, R>,
        checkpoint: &Checkpoint,
    ) -> Result<PairsSession<'a, R>> {
        self.check()?;
        checkpoint.check_options(self)?;
        let inputs = Inputs::new(self, data)?;
        let features = inputs.rows.features;
        let model = check_resumed::<R>(checkpoint, features, inputs.shape())?;
        let (card, form) = (model.card, model.form.into_precision()?);
        let (mut work, course) = self.work(inputs, form, card.counters.steps)?;
        work.stepper.step.size = card.step_size;
        Session::resumed(work, course, checkpoint)
    }

    fn work<'a, R: Real>(
        &self,
        inputs: Inputs<'a, R>,
        form: Form<R>,
        seen: u64,
    ) -> Result<(PairsWork<'a, R>, Course<Snapshot<R>>)> {
        let total = self.total(inputs.training.len() as u64);
        let work = PairsWork {
            stepper: Stepper {
                learner: AnyLearner::new(self.learner, form, seen)?
                    .regularized(self.regularization)
                    .retracted(self.retraction),
                step: Step {
                    size: f64::NAN,
                    limit: self.step_limit,
                },
                decay: self.decay,
            },
            options: self.clone(),
            inputs,
            trials: Vec::new(),
            order: Vec::new(),
            epoch: None,
        };
        let course = Course::new(total, self.curve_every).judged_by(merit);
        // Whole batches only: a run that is made longer later is the longer run.
        Ok((work, course.in_batches(self.batch as u64)))
    }

    /// The factors of a model on these features.
    pub(super) fn started_from<R: Real>(
        &self,
        inputs: &Inputs<'_, R>,
        start: &Start,
    ) -> Result<Factors> {
        start.check_steps(inputs.rows.preprocess.steps)?;
        let left = inputs.rows.side(Side::Left, "features");
        let right = inputs.objects.as_ref();
        let right = right.map(|things| things.side(Side::Right, "features of objects"));
        let rank = start.rank_of(rank_given(self, self.rank), inputs.shape())?;
        start.factors(&left, right.as_ref(), rank, self.seed)
    }

    /// Factors in the form of the learner.
    pub(super) fn shaped<R: Real>(&self, [left, right]: &[Mat<f64>; 2]) -> Result<Form<R>> {
        let tall = |m: &Mat<f64>| Tall::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)]);
        let form = Factored::new(tall(left)?, tall(right)?);
        Form::Factored(form).shaped(self.learner.shape())
    }

    /// What models say of these options.
    pub(in crate::task) fn card(&self, step_size: f64) -> Card {
        Card {
            seed: self.seed,
            step_size,
            step_limit: Some(self.step_limit).filter(|limit| limit.is_finite()),
            decay: self.decay,
            regularization: Some(self.regularization).filter(|&lambda| lambda > 0.0),
            retraction: (self.learner == Rule::Polar).then_some(self.retraction),
            init: match self.init {
                StartInit::Own => "gaussian".into(),
                StartInit::Model => self.init.name().into(),
            },
            ..Card::new(self.learner.name())
        }
    }

    fn rank_for<R: Real>(&self, inputs: &Inputs<'_, R>) -> Result<usize> {
        let (n, m) = inputs.shape();
        let rank = rank_for(self, self.rank, n)?;
        match &inputs.objects {
            None => Ok(rank),
            Some(_) => {
                let right = rank_for(self, self.rank, m).map_err(|e| e.about("objects"))?;
                Ok(rank.min(right))
            }
        }
    }
}

impl<R: Real> PairsWork<'_, R> {
    /// The factors of W as it is now.
    pub(super) fn factors(&self) -> (Mat<f64>, Mat<f64>) {
        let found = self.stepper.learner.form().balanced_factors();
        found.expect("a start of full rank").into()
    }

    /// Tries candidates of the step size on four fifths of the pairs and takes the one
    /// that predicts the others best.
    fn choose_step(&mut self, total: u64) {
        let (seed, batch) = (self.options.seed, self.options.batch);
        let judges = |pair: u32| splitmix64(seed ^ u64::from(pair)).is_multiple_of(5);
        let order = self.inputs.order(seed, 0);
        let (mut judging, mut training): (Vec<u32>, Vec<u32>) =
            order.iter().partition(|&&pair| judges(pair));
        if judging.len() < FEW || training.is_empty() {
            (judging, training) = (order.clone(), order);
        }
        judging.truncate(JUDGING_PAIRS);
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        let pair = |&i: &u32| self.inputs.training[i as usize];
        let trial = |size: f64, most: usize| {
            let mut stepper = self.stepper.clone();
            stepper.step.size = size;
            let most = most.min(total.max(1));
            let tried: Vec<ValuedPair> = training.iter().cycle().take(most).map(pair).collect();
            for (step, some) in tried.chunks(batch).enumerate() {
                stepper.take(&self.inputs, some, (step * batch) as u64);
            }
            let held: Vec<ValuedPair> = judging.iter().map(pair).collect();
            let found = self.errors(stepper.learner.form(), &held);
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
        let trial = |(size, rmse): (f64, f64)| Trial::of("step_size", size, "rmse", rmse);
        self.trials = trials.into_iter().map(trial).collect();
    }

    /// The pair of this number in the run.
    fn pair(&mut self, number: u64) -> ValuedPair {
        let pairs = self.inputs.training.len() as u64;
        let (epoch, at) = (number / pairs, (number % pairs) as usize);
        if self.epoch != Some(epoch) {
            self.order = self.inputs.order(self.options.seed, epoch);
            self.epoch = Some(epoch);
        }
        self.inputs.training[self.order[at] as usize]
    }

    fn errors(&self, form: FormRef<'_, R>, pairs: &[ValuedPair]) -> Metrics {
        errors(pairs.iter().map(|&pair| {
            let example = self.inputs.example(pair);
            (form.score(example.left, example.right), pair.value)
        }))
    }
}

impl<R: Real> Work for PairsWork<'_, R> {
    type Real = R;
    type Options = Pairs;

    fn options(&self) -> &Pairs {
        &self.options
    }

    fn fingerprints(&self) -> Fingerprints {
        Fingerprints {
            rows: self.inputs.fingerprint,
            objects: self.inputs.objects_fingerprint,
        }
    }

    fn step(&mut self, done: u64) -> (u64, Learned) {
        let batch = self.options.batch as u64;
        if batch == 1 {
            let pair = self.pair(done);
            return (1, self.stepper.take(&self.inputs, &[pair], done));
        }
        let pairs = (done..done.saturating_add(batch)).map(|number| self.pair(number));
        let pairs: Vec<ValuedPair> = pairs.collect();
        (batch, self.stepper.take(&self.inputs, &pairs, done))
    }

    fn form(&self) -> FormRef<'_, R> {
        self.stepper.learner.form()
    }

    fn is_validated(&self) -> bool {
        !self.inputs.validation.is_empty()
    }

    fn validate(
        &self,
        form: FormRef<'_, R>,
        _bias: Option<&[f64]>,
        _go_on: GoOn<'_>,
    ) -> Result<Validated> {
        // It is short, and never given up.
        Ok(Validated::Found(self.errors(form, &self.inputs.validation)))
    }

    fn baseline(&self) -> Option<Baseline> {
        let (pairs, mean) = (self.inputs.validation.iter(), self.inputs.mean());
        let usual = errors(pairs.map(|pair| (mean, pair.value)));
        Some(Baseline::new("mean", usual))
    }

    fn step_size(&self) -> f64 {
        self.stepper.step.size
    }

    fn trials(&self) -> &[Trial] {
        &self.trials
    }

    fn card(&self) -> Card {
        self.options.card(self.stepper.step.size)
    }

    fn knowledge(&self, _bias: Option<Vec<f64>>) -> Knowledge {
        Knowledge::Pairs {
            target_mean: self.inputs.mean(),
        }
    }

    fn sides(&self) -> (SideParts<'_>, Option<SideParts<'_>>) {
        let Inputs { rows, objects, .. } = &self.inputs;
        let right = objects.as_ref().map(|o| {
            let (features, preprocess) = (Cow::Borrowed(o.features), Cow::Borrowed(&o.preprocess));
            (features, preprocess)
        });
        let left = (
            Cow::Borrowed(rows.features),
            Cow::Borrowed(&rows.preprocess),
        );
        (left, right)
    }
}

/// W at the start of training: normal factors, of a length that makes scores about
/// half as large as the values.
pub(super) fn start<R: Real>(options: &Pairs, inputs: &Inputs<'_, R>) -> Result<Form<R>> {
    let ((n, m), k) = (inputs.shape(), options.rank_for(inputs)?);
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
