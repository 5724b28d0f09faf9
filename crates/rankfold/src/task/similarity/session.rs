//! A run of [`Similarity`]: draws triplets, steps, and is judged by the mAP of
//! validation rows.

use super::choose::Choice;
use super::step_size::{self, Prefer, Short};
use super::stepper::Stepper;
use super::{
    Classified, Init, Negatives, Select, Similarity, SimilarityData, evaluate, evaluate_among,
};
use crate::eval::{Cosine, retrieval};
use crate::form::{Form, FormRef};
use crate::model::{Card, Classes, Distances, Knowledge, Metrics, Reading, Score};
use crate::online::{Learned, Rule};
use crate::random::{Random, splitmix64};
use crate::sample::{Position, Triplets};
use crate::task::average;
use crate::task::checkpoint::{Checkpoint, State};
use crate::task::course::Course;
use crate::task::inputs::{Inputs, Things, triplets};
use crate::task::run::{Baseline, Report, Run, Trial};
use crate::task::session::{
    Fingerprints, GoOn, Session, SideParts, Snapshot, Validated, Work, check_resumed,
};
use crate::task::triplet::Sides;
use crate::task::{check_patience, threads};
use crate::{Error, Real, Result};
use std::borrow::Cow;

/// Separate streams of random numbers for separate purposes.
const PRETRAINING: u64 = 1;
const HELD_OUT: u64 = 2;

/// Triplets of a pre-training run, and held-out ones that judge it.
const PRETRAINING_STEPS: u64 = 5_000;
/// More, because descent on plain factors gains by long steps at first and loses later.
const PRETRAINING_STEPS_ON_FACTORS: u64 = 30_000;
/// Fewer, because a step of LEGO passes over the whole matrix.
const PRETRAINING_STEPS_OF_LEGO: u64 = 300;
const HELD_OUT_TRIPLETS: usize = 10_000;

/// What a run of [`Similarity`] steps with.
#[derive(Debug)]
pub struct SimilarityWork<'a, R: Real> {
    options: Similarity,
    choice: Choice,
    /// The classes that rows are scored by, where they are.
    classes: Option<Classes>,
    inputs: Inputs<'a, R>,
    trials: Vec<Trial>,
    stepper: Stepper<R>,
}

/// A training run of [`Similarity`].
pub type SimilaritySession<'a, R> = Session<SimilarityWork<'a, R>>;

impl Similarity {
    /// A training run that the caller drives: on triplets drawn from the labels, or on
    /// those given; validated on the rows given, or on a part of the training rows.
    pub fn session<'a, R: Real>(
        &self,
        data: impl Into<SimilarityData<'a, R>>,
    ) -> Result<SimilaritySession<'a, R>> {
        self.begun(data.into(), &mut Run::default())
    }

    /// The same, telling a run what is tried before the first step.
    pub(super) fn begun<'a, R: Real>(
        &self,
        data: SimilarityData<'a, R>,
        run: &mut Run<'_>,
    ) -> Result<SimilaritySession<'a, R>> {
        let options = self.for_data(&data.data);
        options.check()?;
        if options.select != Select::Random && data.triplets.is_some() {
            return Err(Error::option(
                "select",
                "must be random with listed triplets, which are learned from in their order",
            ));
        }
        check_patience(
            options.patience,
            data.valid.is_some() || options.valid_fraction > 0.0,
        )?;
        let start = run.started::<Similarity>(options.init == Some(Init::Model))?;
        let (choice, trials) = options.choose(&data, start.as_ref(), run)?;
        let inputs = Inputs::new(&options.as_chosen(&choice), data)?;
        let (form, notes) = options.start(&inputs, &choice, start.as_ref())?;
        notes.into_iter().for_each(|note| run.note(note));
        let distances = (options.rule() == Rule::Lego).then(|| inputs.distances(options.seed));
        let (mut work, course) = options.work(inputs, form, 0, distances, choice)?;
        work.trials = trials;
        match options.step_size.or(choice.step_size) {
            Some(size) => work.stepper.step.size = size,
            None if options.rule().is_passive_aggressive() => {
                work.stepper.step.size = options.aggressiveness;
            }
            None if options.rule().is_aroma() => work.stepper.step.size = options.confidence_r,
            None => {
                let (size, trials) = choose_step(
                    &options,
                    &work.inputs,
                    &work.stepper,
                    course.total,
                    choice.init,
                )?;
                work.stepper.step.size = size;
                work.trials.extend(trials);
            }
        }
        if options.has_inner_steps() {
            match options.inner_size {
                Some(size) => {
                    let size = size / work.stepper.step.size;
                    work.stepper.set_inner_size(size);
                }
                None => {
                    let (inputs, stepper) = (&work.inputs, &work.stepper);
                    let (size, trials) = choose_inner(&options, inputs, stepper, course.total)?;
                    work.stepper.set_inner_size(size);
                    work.trials.extend(trials);
                }
            }
        }
        Session::new(work, course)
    }

    /// Goes on from a checkpoint of the same run.
    pub fn resume<'a, R: Real>(
        &self,
        data: impl Into<SimilarityData<'a, R>>,
        checkpoint: &Checkpoint,
    ) -> Result<SimilaritySession<'a, R>> {
        let data = data.into();
        let options = self.for_data(&data.data);
        options.check()?;
        checkpoint.check_options(&options)?;
        let state: State = checkpoint.state()?;
        let choice = checkpoint.decided()?.unwrap_or_else(|| options.usual());
        let mut inputs = Inputs::new(&options.as_chosen(&choice), data)?;
        let Sides { left, right } = inputs.sides();
        let shape = (left.columns(), right.columns());
        let features = inputs.rows.features;
        let model = check_resumed::<R>(checkpoint, features, shape)?;
        if !state.position.is_some_and(|at| inputs.triplets.seek(at)) {
            let message = "the checkpoint was made with another source of triplets";
            return Err(checkpoint.error(message));
        }
        let (card, form) = (model.card, model.form.into_precision()?);
        let (seen, distances) = (card.counters.steps, card.distances);
        let (mut work, course) = options.work(inputs, form, seen, distances, choice)?;
        work.stepper.step.size = card.step_size;
        if let Some(inner) = card.inner_steps {
            work.stepper.set_inner_size(inner.size);
        }
        Session::resumed(work, course, checkpoint)
    }

    /// The options with the scaling that was chosen.
    fn as_chosen(&self, choice: &Choice) -> Self {
        Similarity {
            standardize: choice.standardize,
            ..self.clone()
        }
    }

    /// What models say of these options.
    pub(in crate::task) fn card(&self, step_size: f64, distances: Option<Distances>) -> Card {
        Card {
            score: self.score_or_default(),
            seed: self.seed,
            step_size,
            step_limit: Some(self.step_limit).filter(|limit| limit.is_finite()),
            decay: self.decay,
            distances,
            aroma: self.rule().is_aroma().then(|| self.aroma()),
            inner_steps: self.has_inner_steps().then(|| self.inner(step_size)),
            init: self.init_or_default().name().into(),
            ..Card::new(self.rule().name())
        }
    }

    fn work<'a, R: Real>(
        &self,
        inputs: Inputs<'a, R>,
        form: Form<R>,
        seen: u64,
        distances: Option<Distances>,
        choice: Choice,
    ) -> Result<(SimilarityWork<'a, R>, Course<Snapshot<R>>)> {
        let steps = choice.steps.unwrap_or_else(|| inputs.steps(self));
        let course = Course::new(steps, self.curve_every);
        let classes = match choice.score {
            Score::Classes => Some(inputs.scored_classes(choice.classes)?),
            _ => None,
        };
        let work = SimilarityWork {
            choice,
            classes,
            stepper: Stepper::new(self, form, seen, distances)?,
            options: self.clone(),
            inputs,
            trials: Vec::new(),
        };
        // Whole batches only: a run that is made longer later is the longer run.
        Ok((work, course.in_batches(self.batch as u64)))
    }
}

/// Triplets of a short trial, and others that judge it.
fn short<R: Real>(options: &Similarity, inputs: &Inputs<'_, R>, total: u64) -> Result<Short> {
    let seed = options.seed;
    let mut steps = match options.rule() {
        Rule::Lego => PRETRAINING_STEPS_OF_LEGO,
        Rule::Gradient | Rule::GradientPsd => {
            let longer = PRETRAINING_STEPS_ON_FACTORS.min(total / 4);
            longer.max(PRETRAINING_STEPS) * options.batch as u64
        }
        _ => PRETRAINING_STEPS * options.batch as u64,
    }
    .min(total.max(1));
    let (training, judge) = match &inputs.triplets {
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
            let rows = &inputs.rows;
            let known = rows.classes.as_deref().expect("triplets came from classes");
            let objects = inputs.objects.as_ref();
            let objects = objects.and_then(|objects| objects.classes.as_deref());
            let members = &rows.members;
            let judges = |&row: &u32| splitmix64(seed ^ u64::from(row)).is_multiple_of(5);
            let (late, early): (Vec<u32>, Vec<u32>) = members.iter().partition(|row| judges(row));
            let source =
                |rows: &[u32], purpose| triplets(known, rows, objects, Random::new(seed, purpose));
            match (source(&early, PRETRAINING), source(&late, HELD_OUT)) {
                (Ok(training), Ok(judge)) => (training, judge),
                _ => (source(members, PRETRAINING)?, source(members, HELD_OUT)?),
            }
        }
    };
    Ok(Short {
        training,
        steps,
        judge,
    })
}

/// Tries every candidate of the step size on triplets apart from those that judge it.
pub(super) fn choose_step<R: Real>(
    options: &Similarity,
    inputs: &Inputs<'_, R>,
    start: &Stepper<R>,
    total: u64,
    init: Init,
) -> Result<(f64, Vec<Trial>)> {
    let short = short(options, inputs, total)?;
    let grid = step_size::grid(options.rule(), options.batch);
    let mut start = start.clone();
    // Full steps are chosen first, with steps between them that change little.
    start.set_inner_size(step_size::INNER[0]);
    let hard = options.negatives != Negatives::Random;
    // A start that tells classes apart already has more to lose than to gain.
    let told = matches!(init, Init::Ridge | Init::Model);
    let prefer = match hard || told || options.rule() == Rule::Lego {
        true => Prefer::Small,
        false => Prefer::Large,
    };
    let count = HELD_OUT_TRIPLETS;
    let set = |stepper: &mut Stepper<R>, size| stepper.step.size = size;
    let trials = step_size::trials(&start, &grid, set, inputs.sides(), &short, count);
    let shown = |t: &step_size::Trial| Trial::of("step_size", t.size, "wrong_triplets", t.wrong);
    let size = step_size::best(&trials, count, prefer);
    Ok((size, trials.iter().map(shown).collect()))
}

/// The same for the steps between full ones, whose size is known.
fn choose_inner<R: Real>(
    options: &Similarity,
    inputs: &Inputs<'_, R>,
    start: &Stepper<R>,
    total: u64,
) -> Result<(f64, Vec<Trial>)> {
    let short = short(options, inputs, total)?;
    let (rows, count) = (inputs.sides(), HELD_OUT_TRIPLETS);
    let grid = step_size::INNER;
    let trials = step_size::trials(start, &grid, Stepper::set_inner_size, rows, &short, count);
    let full = start.step.size;
    let shown =
        |t: &step_size::Trial| Trial::of("inner_size", t.size * full, "wrong_triplets", t.wrong);
    let size = step_size::best(&trials, count, Prefer::Small);
    Ok((size, trials.iter().map(shown).collect()))
}

impl<R: Real> SimilarityWork<'_, R> {
    /// The validation metrics of the baseline: the cosine between the rows themselves.
    /// Objects are other things, so there is none for them.
    pub fn validation_baseline(&self) -> Option<Metrics> {
        if self.inputs.objects.is_some() {
            return None;
        }
        let valid = self.inputs.validation.as_ref()?;
        let rows = valid.rows.as_ref().unwrap_or(&self.inputs.rows.rows);
        let chosen = rows.select(valid.members.iter().map(|&i| i as usize));
        let threads = threads(self.options.threads);
        let found = retrieval(&Cosine::new(&chosen), &valid.classes, threads, &|_| true);
        found.map(|found| super::metrics(&found))
    }
}

impl<R: Real> Work for SimilarityWork<'_, R> {
    type Real = R;
    type Options = Similarity;

    fn faster(&self) -> Option<&'static str> {
        // A step of these costs the square of the number of features, or their number.
        match self.options.rule() {
            rule if rule.is_aroma() => Some(
                "fewer features (`vectorize --features`) or `--learner loreta-psd` take less time",
            ),
            rule if !rule.is_low_rank() => Some("`--learner loreta-psd` takes less time"),
            _ => None,
        }
    }

    fn options(&self) -> &Similarity {
        &self.options
    }

    fn fingerprints(&self) -> Fingerprints {
        Fingerprints {
            rows: self.inputs.fingerprint,
            objects: self.inputs.objects_fingerprint,
        }
    }

    #[inline]
    fn step(&mut self, done: u64) -> (u64, Learned) {
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
        self.stepper.take(sides, triplets, done)
    }

    /// Rows that cannot be queries, because no object has their class.
    fn skipped(&self) -> usize {
        match &self.inputs.triplets {
            Triplets::Objects(source) => source.skipped(),
            _ => 0,
        }
    }

    fn position(&self) -> Option<Position> {
        Some(self.inputs.triplets.position())
    }

    fn form(&self) -> FormRef<'_, R> {
        self.stepper.learner.form()
    }

    fn average_every(&self) -> Option<u64> {
        let Sides { left, right } = self.inputs.sides();
        let columns = left.columns().max(right.columns());
        let every = || average::interval(columns, self.options.batch);
        self.options.average.then(every)
    }

    fn is_validated(&self) -> bool {
        self.inputs.validation.is_some()
    }

    fn validate(
        &self,
        form: FormRef<'_, R>,
        _bias: Option<&[f64]>,
        go_on: GoOn<'_>,
    ) -> Result<Validated> {
        let Some(valid) = &self.inputs.validation else {
            return Ok(Validated::Found(Metrics::new()));
        };
        // A form that has lost rank cannot be measured; the best one so far is still
        // good.
        if form.factors().is_some() && form.gauge().is_none() {
            return Ok(Validated::Found(Metrics::new()));
        }
        let rows = valid.rows.as_ref().unwrap_or(&self.inputs.rows.rows);
        let threads = threads(self.options.threads);
        let reading = Reading {
            score: self.choice.score,
            classes: self.classes.as_ref(),
        };
        let (members, classes) = (&valid.members, &valid.classes);
        let go_on = |_| go_on();
        let objects = self.inputs.objects.as_ref();
        let found = match objects.and_then(Things::classified) {
            None => evaluate(form, rows, members, classes, reading, threads, &go_on)?,
            Some(objects) => {
                let queries = Classified {
                    rows,
                    members,
                    classes,
                };
                evaluate_among(form, queries, objects, reading, &[], threads, &go_on)?
            }
        };
        Ok(match found {
            None => Validated::GivenUp,
            Some(found) => Validated::Found(super::metrics(&found)),
        })
    }

    fn baseline(&self) -> Option<Baseline> {
        let valid = self.inputs.validation.as_ref()?;
        if self.inputs.objects.is_some() {
            return None;
        }
        let rows = valid.rows.as_ref().unwrap_or(&self.inputs.rows.rows);
        let rows = rows.select(valid.members.iter().map(|&row| row as usize));
        let (cosine, threads) = (Cosine::new(&rows), threads(self.options.threads));
        let found = retrieval(&cosine, &valid.classes, threads, &|_| true)?;
        Some(Baseline::new("cosine", super::metrics(&found)))
    }

    fn step_size(&self) -> f64 {
        self.stepper.step.size
    }

    fn trials(&self) -> &[Trial] {
        &self.trials
    }

    fn decided(&self) -> Option<serde_json::Value> {
        let chosen = self.choice != self.options.usual();
        chosen.then(|| serde_json::json!(self.choice))
    }

    fn card(&self) -> Card {
        let distances = self.stepper.examples.distances();
        Card {
            score: self.choice.score,
            init: self.choice.init.name().into(),
            inner_steps: self.options.has_inner_steps().then_some(self.stepper.inner),
            ..self.options.card(self.stepper.step.size, distances)
        }
    }

    fn knowledge(&self, _bias: Option<Vec<f64>>) -> Knowledge {
        Knowledge::Similarity(self.classes.clone())
    }

    fn sides(&self) -> (SideParts<'_>, Option<SideParts<'_>>) {
        fn parts<'t, R: Real>(things: &'t Things<'_, R>) -> SideParts<'t> {
            (
                Cow::Borrowed(things.features),
                Cow::Borrowed(&things.preprocess),
            )
        }
        let objects = self.inputs.objects.as_ref();
        (parts(&self.inputs.rows), objects.map(parts))
    }

    fn finish(&self, form: Form<R>, card: &mut Card) -> Result<Form<R>> {
        card.variance_scale = self.inputs.variance_scale(form.view(), card.seed);
        Ok(form)
    }

    fn describe(&self, mut report: Report) -> Report {
        if self.options.has_inner_steps() {
            let size = self.stepper.inner.size * self.step_size();
            report = report.with("inner_size", size);
        }
        if self.options.rule().is_aroma() {
            report = report
                .with("confidence_r", self.step_size())
                .with("storage", self.form().storage());
        }
        let sparse = usize::from(self.form().storage() == "sparse");
        report = report.noting(sparse, || {
            "all entries of W do not fit in memory: only those that a triplet touches are stored"
                .into()
        });
        if self.choice != self.options.usual() {
            report.notes.push(self.choice.said());
        }
        let skipped = self.skipped();
        let note = || format!("{skipped} rows are no queries: no object has their label");
        match self.inputs.objects {
            Some(_) => report.with("skipped", skipped).noting(skipped, note),
            None => report,
        }
    }
}
