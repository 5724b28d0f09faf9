//! A run of [`Ranking`]: one row after the other, judged by the mAP of labels on
//! validation rows.
//!
//! The order of rows and the labels that are drawn are functions of the seed and of the
//! number of the step, so that the counters say where a run stands.

use super::choose::{self, Decided, Tell};
use super::evaluation::{LabelScores, measure, popularity};
use super::inputs::Inputs;
use super::start::Closed;
use super::violation::Violations;
use super::{Ranking, RankingData, start};
use crate::batch::LabelRidge;
use crate::data::Features;
use crate::form::{Form, FormRef, Full, Side};
use crate::model::{Card, Knowledge, Metrics, Preprocess, Prior, Ranked, Sampler, Steps};
use crate::online::{AnyLearner, Learned, Shape, Step};
use crate::random::{Random, splitmix64};
use crate::task::average;
use crate::task::checkpoint::Checkpoint;
use crate::task::course::Course;
use crate::task::run::{Baseline, Event, Report, Run, Trial};
use crate::task::session::{
    Fingerprints, GoOn, Session, SideParts, Snapshot, Validated, Work, check_resumed,
};
use crate::task::similarity::{Init, metrics};
use crate::task::start::{Side as SideOf, Start};
use crate::task::{check_patience, decayed, threads};
use crate::{Real, Result, SparseRow, memory};
use std::borrow::Cow;

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

/// Steps between two snapshots for the average, at least, as a multiple of the rank: a
/// snapshot has work of k³.
const SNAPSHOT: usize = 40;

/// The generator that draws the labels of one step, counted from 0.
pub fn draws(seed: u64, step: u64) -> Random {
    Random::new(seed, DRAWS.wrapping_add(step))
}

/// A learner, and what it learns beside W.
#[derive(Debug, Clone)]
pub(super) struct Stepper<R> {
    pub learner: AnyLearner<R>,
    pub prior: Prior,
    violations: Violations<R>,
    step: Step,
    decay: Option<f64>,
    seed: u64,
}

impl<R: Real> Stepper<R> {
    pub fn take(&mut self, (row, labels): (SparseRow<'_, R>, &[u32]), done: u64) -> Learned {
        let step = decayed(self.step, self.decay, done);
        let (learner, prior, seed) = (&mut self.learner, &mut self.prior, self.seed);
        let random = || draws(seed, done);
        self.violations
            .learn(learner, prior, row, labels, step, random)
    }
}

/// What a run of [`Ranking`] steps with.
#[derive(Debug)]
pub struct RankingWork<'a, R: Real> {
    options: Ranking,
    inputs: Inputs<'a, R>,
    /// What a run from the closed form has decided.
    decided: Option<Decided>,
    trials: Vec<Trial>,
    stepper: Stepper<R>,
    /// The rows of the pass that runs.
    order: Vec<u32>,
    epoch: Option<u64>,
}

/// A training run of [`Ranking`].
pub type RankingSession<'a, R> = Session<RankingWork<'a, R>>;

impl Ranking {
    /// A training run that the caller drives, validated on the rows given, or on a part
    /// of the training rows.
    pub fn session<'a, R: Real>(
        &self,
        data: impl Into<RankingData<'a, R>>,
    ) -> Result<RankingSession<'a, R>> {
        self.begin_session(data, &mut Run::default())
    }

    /// The same; the run is told each trial before the first step, and may end there.
    pub(super) fn begin_session<'a, R: Real>(
        &self,
        data: impl Into<RankingData<'a, R>>,
        run: &mut Run<'_>,
    ) -> Result<RankingSession<'a, R>> {
        self.check()?;
        let start = run.started::<Ranking>(self.is_from_model())?;
        let data = data.into();
        check_patience(
            self.patience,
            data.valid.is_some() || self.valid_fraction > 0.0,
        )?;
        let mut decided = None;
        let inputs = Inputs::new(self, data, |known| {
            if let Some(start) = &start {
                return start.steps(self.weight, self.normalize, self.standardize);
            }
            if !self.is_ridge() {
                return Ok(self.plain_steps());
            }
            let (features, labels) = (known.data.rows.columns(), known.data.labels.names.len());
            self.plain_rank(features, labels)?;
            let tell: Tell<'_> = &mut |trial| run.tell(&Event::Tried(trial.clone()));
            let (found, trials) = choose::decide(self, known, tell)?;
            let steps = found.steps;
            decided = Some((found, trials));
            Ok(steps)
        })?;
        let (decided, trials) = decided.unzip();
        let (form, prior) = match (&decided, &start) {
            (Some(decided), _) => self.closed_form(&inputs, decided)?,
            (None, Some(start)) => {
                let (form, prior, notes) = self.started_from(&inputs, start)?;
                notes.into_iter().for_each(|note| run.note(note));
                (form, prior)
            }
            (None, None) => {
                let prior = inputs.prior(self);
                (start_form(self, &inputs, &prior)?, prior)
            }
        };
        let told = trials.as_ref().map_or(0, Vec::len);
        let (mut work, course) = self.work(inputs, form, prior, decided, 0)?;
        work.trials = trials.unwrap_or_default();
        match (&work.decided, self.step_size) {
            (Some(decided), _) => work.stepper.step.size = decided.step_size,
            (None, Some(size)) => work.stepper.step.size = size,
            (None, None) if !self.has_steps() => work.stepper.step.size = self.aggressiveness,
            (None, None) => work.choose_step(course.total),
        }
        Ok(Session::new(work, course)?.having_told(told))
    }

    /// The preprocessing of runs that choose none.
    fn plain_steps(&self) -> Steps {
        Steps::of(self.weight, self.normalize, self.standardize)
    }

    /// W and the biases of a model, and what to tell of it.
    fn started_from<R: Real>(
        &self,
        inputs: &Inputs<'_, R>,
        start: &Start,
    ) -> Result<(Form<R>, Prior, Vec<String>)> {
        let names = Features::Named(inputs.names.clone());
        let plain = Preprocess::default();
        let left = inputs.things.side(Side::Left, "features");
        let right = SideOf {
            side: Side::Right,
            features: &names,
            preprocess: &plain,
            size: inputs.names.len(),
            what: "labels",
        };
        let rank = self.rank.given();
        let sides = (&left, Some(&right));
        let (form, notes) = start.form((Shape::Factored, false), sides, rank, self.seed)?;
        let Knowledge::Ranking(Ranked { prior: known, .. }) = &start.model().knowledge else {
            return Err(start.model().knowledge.expected("ranking"));
        };
        let bias = |at: &Option<u32>| at.map_or(known.unseen, |at| known.bias[at as usize]);
        let prior = Prior {
            bias: start.found(&right)?.at.iter().map(bias).collect(),
            unseen: known.unseen,
            ..inputs.prior(self)
        };
        Ok((form, prior, notes))
    }

    /// The closed form of all rows.
    fn closed_form<R: Real>(
        &self,
        inputs: &Inputs<'_, R>,
        decided: &Decided,
    ) -> Result<(Form<R>, Prior)> {
        let members = &inputs.things.members;
        let (features, labels) = inputs.shape();
        let threads = threads(self.threads);
        let mut rows = inputs
            .things
            .rows
            .select(members.iter().map(|&row| row as usize));
        rows.widen(features);
        let of = |i: usize| inputs.positives.of(members[i] as usize);
        let ridge = LabelRidge::new(&rows, of, labels, 1.0, self.seed, threads)?;
        let counted = inputs.prior(self);
        let mut closed = Closed::new(&ridge, decided, self.rank.given())?;
        if let Some(penalty) = decided.logistic {
            let better = closed.logistic(&ridge, &rows, of, penalty, threads)?;
            closed = better.unwrap_or(closed);
        }
        let (form, prior) = closed.form(&ridge, &rows, self.seed, threads)?;
        let prior = Prior {
            bias: prior.bias,
            unseen: prior.unseen,
            ..counted
        };
        Ok((form, prior))
    }

    /// Goes on from a checkpoint of the same run.
    pub fn resume<'a, R: Real>(
        &self,
        data: impl Into<RankingData<'a, R>>,
        checkpoint: &Checkpoint,
    ) -> Result<RankingSession<'a, R>> {
        self.check()?;
        checkpoint.check_options(self)?;
        let decided: Option<Decided> = checkpoint.decided()?;
        let steps = match &decided {
            Some(decided) => decided.steps,
            None if self.is_from_model() => checkpoint.model()?.preprocess.steps,
            None => self.plain_steps(),
        };
        let inputs = Inputs::new(self, data.into(), |_| Ok(steps))?;
        let features = inputs.things.features;
        let model = check_resumed::<R>(checkpoint, features, inputs.shape())?;
        let Knowledge::Ranking(Ranked { prior, .. }) = model.knowledge else {
            return Err(model.knowledge.expected("ranking"));
        };
        let (card, form) = (model.card, model.form.into_precision()?);
        let (mut work, course) = self.work(inputs, form, prior, decided, card.counters.steps)?;
        work.stepper.step.size = card.step_size;
        Session::resumed(work, course, checkpoint)
    }

    fn work<'a, R: Real>(
        &self,
        inputs: Inputs<'a, R>,
        form: Form<R>,
        prior: Prior,
        decided: Option<Decided>,
        seen: u64,
    ) -> Result<(RankingWork<'a, R>, Course<Snapshot<R>>)> {
        let rows = inputs.things.members.len() as u64;
        let total = match &decided {
            Some(decided) if self.chooses_length() => decided.passes.saturating_mul(rows),
            _ => self.total(rows),
        };
        let work = RankingWork {
            stepper: self.stepper(form, prior, seen, f64::NAN)?,
            options: self.clone(),
            inputs,
            decided,
            trials: Vec::new(),
            order: Vec::new(),
            epoch: None,
        };
        Ok((work, Course::new(total, self.curve_every)))
    }

    /// What learns from this start with steps of this size.
    pub(super) fn stepper<R: Real>(
        &self,
        form: Form<R>,
        prior: Prior,
        seen: u64,
        size: f64,
    ) -> Result<Stepper<R>> {
        Ok(Stepper {
            learner: AnyLearner::new(self.learner, form, seen)?,
            prior,
            violations: Violations::new(self.learned()),
            step: Step {
                size,
                limit: self.step_limit,
            },
            decay: self.decay,
            seed: self.seed,
        })
    }
}

impl<R: Real> RankingWork<'_, R> {
    /// Tries every candidate of the step size on four fifths of the rows and takes the
    /// smallest that ranks the labels of the others about as well as the best.
    fn choose_step(&mut self, total: u64) {
        let seed = self.options.seed;
        let judges = |row: u32| splitmix64(seed ^ u64::from(row)).is_multiple_of(5);
        let order = self.inputs.order(&self.options, 0);
        let (mut judging, mut training): (Vec<u32>, Vec<u32>) =
            order.iter().partition(|&&row| judges(row));
        if judging.is_empty() || training.is_empty() {
            (judging, training) = (order.clone(), order);
        }
        judging.truncate(JUDGING_ROWS);
        let steps = usize::try_from(total).unwrap_or(usize::MAX);
        let steps = steps.min(match self.options.sampler_or_default() {
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
            let found = measure(&scorer, &positives, threads(self.options.threads), &|_| {
                true
            });
            (size, found.map_or(0.0, |found| found.map))
        };
        let trials: Vec<(f64, f64)> = STEP_SIZES.iter().map(trial).collect();
        let best = trials.iter().map(|t| t.1).fold(0.0, f64::max);
        let good = |trial: &&(f64, f64)| trial.1 >= (1.0 - ABOUT) * best;
        let chosen = trials.iter().find(good);
        self.stepper.step.size = chosen.map_or(1.0, |(size, _)| *size);
        let shown = |&(size, map): &(f64, f64)| Trial::of("step_size", size, "map", map);
        self.trials = trials.iter().map(shown).collect();
    }

    /// Labels whose score was computed in steps so far.
    pub fn labels_scored(&self) -> u64 {
        self.stepper.violations.scored
    }

    fn label_features(&self) -> Features {
        Features::Named(self.inputs.names.clone())
    }
}

impl<R: Real> Work for RankingWork<'_, R> {
    type Real = R;
    type Options = Ranking;

    fn options(&self) -> &Ranking {
        &self.options
    }

    fn fingerprints(&self) -> Fingerprints {
        Fingerprints {
            rows: self.inputs.fingerprint,
            objects: None,
        }
    }

    fn step(&mut self, done: u64) -> (u64, Learned) {
        let rows = self.inputs.things.members.len() as u64;
        let (epoch, at) = (done / rows, (done % rows) as usize);
        if self.epoch != Some(epoch) {
            self.order = self.inputs.order(&self.options, epoch);
            self.epoch = Some(epoch);
        }
        let example = self.inputs.example(self.order[at]);
        (1, self.stepper.take(example, done))
    }

    fn skipped(&self) -> usize {
        self.inputs.skipped
    }

    fn form(&self) -> FormRef<'_, R> {
        self.stepper.learner.form()
    }

    fn bias(&self) -> Option<&[f64]> {
        Some(&self.stepper.prior.bias)
    }

    fn decided(&self) -> Option<serde_json::Value> {
        serde_json::to_value(self.decided.as_ref()?).ok()
    }

    fn measures_start(&self) -> bool {
        self.decided.is_some()
    }

    fn average_every(&self) -> Option<u64> {
        if self.options.chooses_length() {
            return Some(choose::snapshot_every(self.inputs.things.members.len()));
        }
        let (features, labels) = self.inputs.shape();
        let rows = features.max(labels).max(SNAPSHOT * self.form().rank());
        self.options.average.then(|| average::interval(rows, 1))
    }

    fn is_validated(&self) -> bool {
        self.inputs.validation.is_some()
    }

    fn baseline(&self) -> Option<Baseline> {
        let held = self.inputs.validation.as_ref()?;
        let found = popularity(
            &self.stepper.prior,
            (held.members.len(), held.unknown),
            &held.positives,
            threads(self.options.threads),
            &|_| true,
        )?;
        Some(Baseline::new("popularity", metrics(&found)))
    }

    fn validate(
        &self,
        form: FormRef<'_, R>,
        bias: Option<&[f64]>,
        go_on: GoOn<'_>,
    ) -> Result<Validated> {
        let Some(held) = &self.inputs.validation else {
            return Ok(Validated::Found(Metrics::new()));
        };
        let rows = held.rows.as_ref().unwrap_or(&self.inputs.things.rows);
        let mut prior = self.stepper.prior.clone();
        bias.iter()
            .for_each(|bias| prior.bias.copy_from_slice(bias));
        let members = Some(&held.members[..]);
        let scorer = LabelScores::new(form, &prior, rows, members, held.unknown);
        let threads = threads(self.options.threads);
        let found = measure(&scorer, &held.positives, threads, &|_| go_on());
        Ok(match found {
            None => Validated::GivenUp,
            Some(found) => Validated::Found(metrics(&found)),
        })
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

    fn knowledge(&self, bias: Option<Vec<f64>>) -> Knowledge {
        let mut prior = self.stepper.prior.clone();
        if let Some(bias) = bias {
            prior.bias = bias;
        }
        Knowledge::Ranking(Ranked {
            rule: self.options.learned(),
            prior,
        })
    }

    fn sides(&self) -> (SideParts<'_>, Option<SideParts<'_>>) {
        let things = &self.inputs.things;
        let left = (
            Cow::Borrowed(things.features),
            Cow::Borrowed(&things.preprocess),
        );
        let right = (
            Cow::Owned(self.label_features()),
            Cow::Owned(Preprocess::default()),
        );
        (left, Some(right))
    }

    fn describe(&self, report: Report) -> Report {
        let skipped = self.inputs.skipped;
        let note =
            || format!("{skipped} rows are not learned from: they have no labels, or all of them");
        let report = report.with("skipped", skipped).noting(skipped, note);
        let Some(decided) = &self.decided else {
            return report;
        };
        let report = decided
            .steps
            .names()
            .iter()
            .fold(report, |report, (name, value)| report.with(name, *value));
        report.noting(1, || decided.note(!self.options.chooses_length()))
    }
}

/// W at the start of training.
fn start_form<R: Real>(
    options: &Ranking,
    inputs: &Inputs<'_, R>,
    prior: &Prior,
) -> Result<Form<R>> {
    let (features, labels) = inputs.shape();
    if options.learner.shape() == Shape::Full {
        return Full::diagonal(features, labels, 0.0).map(Form::Full);
    }
    let k = options.plain_rank(features, labels)?;
    let bytes = (features + labels) as u128 * k as u128 * size_of::<R>() as u128;
    let what = format!("a model of {features} features, {labels} labels and rank {k}");
    memory::require(bytes + (features + labels) as u128 * 40, &what)?;
    let members = || inputs.things.members.iter().copied();
    match options.init {
        Init::Zero => {
            let from_zero = |k| {
                let epochs = (0..).flat_map(|epoch| inputs.order(options, epoch));
                let rows = epochs.map(|row| inputs.example(row));
                let gradient = options.gradient;
                start::from_zero(rows, inputs.shape(), k, &prior.bias, gradient, None)
            };
            // Few rows, or few labels, may not span the default rank.
            let least = options.rank.given().unwrap_or(1).min(k);
            let mut lower = (least..k).rev().map(from_zero);
            from_zero(k).or_else(|error| lower.find(Result::is_ok).unwrap_or(Err(error)))
        }
        // The closed form and models are elsewhere: they have biases of their own.
        Init::Gaussian | Init::Ridge | Init::Model => {
            start::gaussian(options.seed, inputs.shape(), k)
        }
        Init::Identity => {
            let labelled = members().map(|row| (row, inputs.positives.of(row as usize)));
            let pairs = start::informative_pairs(&inputs.things.rows, labelled, labels, k);
            start::paired(&pairs, inputs.shape())
        }
    }
}
