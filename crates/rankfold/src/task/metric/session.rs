//! Learning of a metric from one pair after the other, or from a few at once, as a state
//! machine: the caller says how far to go, and may look, save or stop between any two
//! steps. What is learned does not depend on where the caller looks.
//!
//! A pair of rows x and y is the example δ ⊗ δ with δ = x − y, whose score is their
//! squared distance. Reference: [Meyer2011b], sections 4 to 6, equation 23.

use super::constraints::squared_distance_levels;
use super::engine::Bounded;
use super::fit::{Run, stored};
use super::source::Source;
use super::start::start;
use super::{Metric, MetricInit, MetricLearner, StepSchedule};
use crate::data::{Constraint, Labelled, Relation};
use crate::form::{Form, FormRef, Full};
use crate::linalg::symmetric;
use crate::model::{
    Card, Counters, Distances as Levels, Knowledge, Metrics, Model, Precise, Score, forms,
    save_parts,
};
use crate::online::{AnyLearner, Learned, Learner, Mixed, RankOne, Rule, Step, StepRule};
use crate::task::checkpoint::{self, BestState, Checkpoint, State};
use crate::task::course::Course;
use crate::task::inputs::Fingerprint;
use crate::task::pretrain::{ChosenStep, Trials};
use crate::task::session::{CurvePoint, Event};
use crate::{Error, Real, Result, SparseVec, memory};
use faer::Mat;
use std::path::Path;

/// Passes over the usual number of pairs unless others are asked for.
const PASSES: u64 = 10;

/// Steps of a short run that judges a size of steps, and pairs of it at most.
const TRIAL_STEPS: usize = 1_000;
const TRIAL_PAIRS: usize = 5_000;

/// Multiplications that all short runs may cost together where a step costs more than
/// the rows of its pairs.
const TRIAL_WORK: f64 = 2e10;

/// Pairs that judge, to one that is learned from. With fewer of them than this a run is
/// judged by what it learned from.
const JUDGING: f64 = 0.25;
const FEW: f64 = 20.0;

/// A shorter pass counts as this long, lest steps fall before anything is learned.
const SHORTEST_PASS: u64 = 1_000;

/// A learner, and how it is fed.
#[derive(Debug)]
struct Stepper<R> {
    learner: AnyLearner<R>,
    rule: StepRule,
    deltas: Vec<SparseVec<R>>,
}

impl<R: Real> Stepper<R> {
    /// Learns from some pairs at once, after `done` others.
    fn take(&mut self, run: &Run<'_, R>, pairs: &[Bounded], done: u64) -> Learned {
        let form = self.learner.form();
        let step = Step::new(self.rule.size(done, || trace(form)));
        self.deltas.resize(pairs.len(), SparseVec::new());
        for (delta, pair) in self.deltas.iter_mut().zip(pairs) {
            difference(run, delta, pair);
        }
        let examples = mixed(&self.deltas, pairs);
        let mut examples = examples.peekable();
        let first = examples.next();
        match (first, examples.peek()) {
            (Some(one), None) => self.learner.learn(one.example, one.target, one.loss, step),
            (first, _) => {
                let all: Vec<_> = first.into_iter().chain(examples).collect();
                self.learner.learn_mixed(&all, step)
            }
        }
    }
}

/// δ of a pair of training rows.
fn difference<R: Real>(run: &Run<'_, R>, out: &mut SparseVec<R>, (pair, ..): &Bounded) {
    let row = |i: u32| {
        let member = run.things.members[i as usize];
        run.things.rows.row(member as usize)
    };
    out.set_difference(row(pair.left), row(pair.right));
}

/// Examples of differences and what their lengths should keep to.
fn mixed<'s, R: Real>(
    deltas: &'s [SparseVec<R>],
    pairs: &'s [Bounded],
) -> impl Iterator<Item = Mixed<'s, R>> {
    let example = |(delta, &(_, bound, target)): (&'s SparseVec<R>, &Bounded)| Mixed {
        example: RankOne {
            left: delta.as_row(),
            right: delta.as_row(),
        },
        target,
        loss: bound.loss(),
    };
    deltas.iter().zip(pairs).map(example)
}

/// Tr W.
fn trace<R: Real>(form: FormRef<'_, R>) -> f64 {
    match form {
        FormRef::Full(full) => {
            let diagonal = (0..full.shape().0).map(|i| full.row(i)[i].to_f64());
            diagonal.sum()
        }
        form => form.trace().unwrap_or(1.0),
    }
}

/// A training run of [`Metric`] with the solver `online`.
#[derive(Debug)]
pub struct MetricSession<'a, R: Real> {
    run: Run<'a, R>,
    source: Source,
    levels: Levels,
    init: MetricInit,
    fingerprint: u64,
    chosen: Option<ChosenStep>,
    course: Course<Form<R>>,
    stepper: Stepper<R>,
}

/// The smaller the error, the better.
fn merit(metrics: &Metrics) -> f64 {
    -metrics.get("knn_error").copied().unwrap_or(f64::NAN)
}

impl<'a, R: Real> MetricSession<'a, R> {
    /// Prepares a run on constraints, or on the classes of rows where none are given;
    /// validated on these rows, or on a part of the training rows.
    pub fn new(
        options: &'a Metric,
        data: &'a Labelled<R>,
        constraints: Option<&[Constraint]>,
        valid: Option<&Labelled<R>>,
    ) -> Result<Self> {
        let run = Self::prepared(options, data, constraints, valid)?;
        let rank = run.rank()?;
        let init = run.starts(rank, constraints.is_some())[0];
        let classes = run.train.classes.as_deref();
        let first = start(init, &run.train.points, classes, rank, options.threads)?;
        let levels =
            squared_distance_levels(&run.train.points, &first, options.seed, options.threads)?;
        let form = shaped(options.learner, stored::<R>(&first)?)?;
        let source = Source::new(&run, constraints, levels)?;
        let fingerprint = fingerprint(data, constraints, valid);
        let mut session = Self::at_start(run, source, form, (levels, init, fingerprint))?;
        session.choose_rule()?;
        session.settle();
        Ok(session)
    }

    /// Goes on from a checkpoint of the same run; only the number of pairs and what is
    /// measured on the way may differ.
    pub fn resume(
        options: &'a Metric,
        data: &'a Labelled<R>,
        constraints: Option<&[Constraint]>,
        valid: Option<&Labelled<R>>,
        checkpoint: Checkpoint<Metric>,
    ) -> Result<Self> {
        let run = Self::prepared(options, data, constraints, valid)?;
        let fingerprint = fingerprint(data, constraints, valid);
        check(&checkpoint, &run, fingerprint)?;
        let Checkpoint {
            model, state, best, ..
        } = checkpoint;
        let damaged = || Error::input("the checkpoint does not say how its steps fall");
        let (levels, rule) = (model.card.distances, model.card.step_rule);
        let (levels, rule) = levels.zip(rule).ok_or_else(damaged)?;
        let init = run.starts(run.rank()?, constraints.is_some())[0];
        let source = Source::new(&run, constraints, levels)?;
        let form = model.form.into_precision()?;
        let mut session = Self::at_start(run, source, form, (levels, init, fingerprint))?;
        session.stepper.rule = rule;
        let best = best.map(Precise::into_precision).transpose()?;
        session.course.restore(model.card, &state, best);
        session.settle();
        Ok(session)
    }

    fn prepared(
        options: &'a Metric,
        data: &'a Labelled<R>,
        constraints: Option<&[Constraint]>,
        valid: Option<&Labelled<R>>,
    ) -> Result<Run<'a, R>> {
        options.check()?;
        if !options.is_online() {
            return Err(Error::input(
                "a session learns one pair after the other: choose the solver `online`",
            ));
        }
        Run::new(options, data, constraints, valid)
    }

    fn at_start(
        run: Run<'a, R>,
        source: Source,
        form: Form<R>,
        (levels, init, fingerprint): (Levels, MetricInit, u64),
    ) -> Result<Self> {
        let options = run.options;
        let rule = rule(options.learner)?;
        let total = match options.iterations {
            Some(pairs) => pairs as u64,
            None => source.pass().saturating_mul(PASSES),
        };
        Ok(MetricSession {
            stepper: Stepper {
                learner: AnyLearner::new(rule, form, 0)?
                    .retracted(options.retraction)
                    .subspace_weight(options.subspace_weight),
                rule: StepRule::Constant(0.0),
                deltas: Vec::new(),
            },
            course: Course::new(total, options.curve_every)
                .in_batches(options.batch as u64)
                .judged_by(merit),
            run,
            source,
            levels,
            init,
            fingerprint,
            chosen: None,
        })
    }

    /// Tries some sizes of steps, and some times in which they fall by half, on the
    /// first pairs, and takes what does best on the next.
    fn choose_rule(&mut self) -> Result<()> {
        let options = self.run.options;
        let given = options.step_size;
        let pass = self.source.pass().max(SHORTEST_PASS);
        let schedule = options.step_rule.unwrap_or(StepSchedule::Falling);
        if let (StepSchedule::Constant, Some(size)) = (schedule, given) {
            self.stepper.rule = StepRule::Constant(size);
            return Ok(());
        }
        let form = self.stepper.learner.form();
        let mass = trace(form).max(1.0);
        let rule = |s: f64, t: f64, gradient: f64| match schedule {
            StepSchedule::Falling => StepRule::Falling {
                size: s,
                half_life: t,
                examples: pass,
                gradient,
            },
            // The same first steps; what is given is s itself.
            StepSchedule::Convergent => StepRule::Convergent {
                size: match given {
                    Some(size) => size,
                    None => s / gradient * mass,
                },
                half_life: t * pass as f64,
            },
            StepSchedule::Constant => StepRule::Constant(s / gradient),
        };
        let powers = || (-3..=3).map(|power| 2_f64.powi(power));
        let sizes: Vec<f64> = given.map_or_else(|| powers().collect(), |size| vec![size]);
        let lives: Vec<f64> = match schedule {
            StepSchedule::Constant => vec![1.0],
            _ => powers().collect(),
        };
        let candidates = sizes
            .iter()
            .flat_map(|&s| lives.iter().map(move |&t| (s, t)));
        let candidates: Vec<(f64, f64)> = candidates.collect();

        let (train, held_out) = self.trial_pairs(candidates.len());
        let pairs: Vec<Bounded> = (0..(train + held_out) as u64)
            .map(|number| self.source.at(options.seed, number))
            .collect();
        let mut deltas = Vec::with_capacity(pairs.len());
        for pair in &pairs {
            let mut delta = SparseVec::new();
            difference(&self.run, &mut delta, pair);
            deltas.push(delta);
        }
        let examples: Vec<_> = mixed(&deltas, &pairs).collect();
        let (train, held_out) = examples.split_at(train);
        let trials = Trials {
            train,
            held_out,
            batch: options.batch,
            limit: Step::LIMIT,
        };
        let of_learner = |learner: &AnyLearner<R>| trace(learner.form());
        self.chosen = trials.choose(&self.stepper.learner, &candidates, &rule, &of_learner);
        self.stepper.rule = match &self.chosen {
            Some(chosen) => chosen.rule,
            // Nothing to choose by. Steps do not go beyond their targets anyway.
            None => rule(given.unwrap_or(1.0), 1.0, 1.0),
        };
        Ok(())
    }

    /// Pairs that each short run learns from, and those that judge it.
    fn trial_pairs(&self, candidates: usize) -> (usize, usize) {
        let options = self.run.options;
        let most = TRIAL_STEPS.saturating_mul(options.batch).min(TRIAL_PAIRS);
        let d = self.run.train.points.features() as f64;
        let step = match rule(options.learner).map(Rule::cone) {
            Ok(Some(_)) if options.batch > 1 || slow(options.learner) => 20.0 * d.powi(3),
            Ok(Some(_)) => d * d,
            _ => 0.0,
        };
        let fits = TRIAL_WORK / (step * candidates as f64 / options.batch as f64);
        let most = (most as f64).min(fits).max(20.0);
        let pass = self.source.pass() as f64;
        if JUDGING * pass < FEW {
            return (most as usize, pass as usize);
        }
        let train = most.min((pass / (1.0 + JUDGING)).ceil()) as usize;
        let held_out = (train as f64 * JUDGING).ceil();
        (train, held_out.min(pass - train as f64).max(0.0) as usize)
    }

    /// What short runs chose, where something was to be chosen.
    pub fn chosen(&self) -> Option<&ChosenStep> {
        self.chosen.as_ref()
    }

    /// The size of steps by their number.
    pub fn step_rule(&self) -> StepRule {
        self.stepper.rule
    }

    /// s of that rule.
    pub fn step_size(&self) -> f64 {
        match self.stepper.rule {
            StepRule::Constant(size)
            | StepRule::Falling { size, .. }
            | StepRule::Convergent { size, .. } => size,
        }
    }

    /// How W is stored: `dense` always.
    pub fn storage(&self) -> &'static str {
        self.stepper.learner.form().storage()
    }

    /// Rank of W.
    pub fn rank(&self) -> usize {
        self.stepper.learner.form().rank()
    }

    /// Pairs of the whole run.
    pub fn total_steps(&self) -> u64 {
        self.course.total
    }

    /// What was done so far; `steps` counts pairs.
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

    /// Goes on for at most this many pairs, to the end of their batch, and to the next
    /// point of the learning curve at the farthest.
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
        let metrics = match &self.run.validation {
            Some(validation) => {
                let factor = factor(self.stepper.learner.form())?;
                let error = self.run.knn_error(validation, &factor);
                Some([("knn_error".to_owned(), error)].into())
            }
            None => None,
        };
        let stepper = &self.stepper;
        let point = self
            .course
            .measured(metrics, || stepper.learner.form().to_form());
        self.settle();
        Ok(Event::Measured(point))
    }

    fn take_step(&mut self) {
        let options = self.run.options;
        let (done, batch) = (self.course.counters.steps, options.batch as u64);
        let pairs: Vec<Bounded> = (done..done.saturating_add(batch))
            .map(|number| self.source.at(options.seed, number))
            .collect();
        let learned = self.stepper.take(&self.run, &pairs, done);
        self.course.count_batch(batch, &learned);
    }

    fn settle(&mut self) {
        let validated = self.run.validation.is_some();
        self.course.settle(validated, self.run.options.patience);
    }

    fn card(&self, counters: Counters) -> Card {
        let options = self.run.options;
        let polar = options.learner == MetricLearner::Polar;
        Card {
            score: Score::Distance,
            seed: options.seed,
            step_size: self.step_size(),
            step_limit: Some(Step::LIMIT),
            step_rule: Some(self.stepper.rule),
            distances: Some(self.levels),
            retraction: polar.then_some(options.retraction),
            subspace_weight: polar.then_some(options.subspace_weight),
            init: self.init.name().into(),
            counters,
            history: self.course.history.clone(),
            ..Card::new(options.learner.name())
        }
    }

    /// Writes all that is needed to go on later. It changes nothing: a run with
    /// checkpoints gives the same model as one without.
    pub fn save_checkpoint(&self, path: impl AsRef<Path>, seconds: f64) -> Result<()> {
        let best = self.course.best.as_ref();
        let state = State {
            options: self.run.options.clone(),
            fingerprint: self.fingerprint,
            objects: None,
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
        let things = &self.run.things;
        save_parts(
            path.as_ref(),
            (&self.card(self.course.counters), &Knowledge::Metric),
            self.stepper.learner.form(),
            (things.features, &things.preprocess),
            None,
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
        // As solvers in batch store it; a polar form stays, which goes on as it is.
        let form = match form {
            Form::PolarPsd(_) => form,
            form => stored(&factor(form.view())?)?,
        };
        Ok(Model {
            card,
            form: Precise::new(form),
            features: self.run.things.features.clone(),
            preprocess: self.run.things.preprocess,
            objects: None,
            knowledge: Knowledge::Metric,
        })
    }
}

fn rule(learner: MetricLearner) -> Result<Rule> {
    learner.rule().ok_or_else(|| {
        Error::input(format!(
            "`{}` has a way of its own: leave the solver out",
            learner.name()
        ))
    })
}

/// Whether a step from a single pair costs the cube of the features.
fn slow(learner: MetricLearner) -> bool {
    matches!(
        learner,
        MetricLearner::ConeLog | MetricLearner::ConeVonNeumann
    )
}

/// W as the learner needs it.
fn shaped<R: Real>(learner: MetricLearner, form: Form<R>) -> Result<Form<R>> {
    let shape = rule(learner)?.shape();
    if !learner.is_cone() {
        return form.shaped(shape);
    }
    let g = factor(form.view())?;
    let d = g.nrows();
    memory::require(
        32 * (d as u128).pow(2),
        &format!("a full matrix of {d} features"),
    )?;
    let mut full = Full::diagonal(d, d, 1.0)?;
    full.assign(&(&g * g.transpose()));
    Ok(Form::Full(full))
}

/// G with W = G Gᵀ.
fn factor<R: Real>(form: FormRef<'_, R>) -> Result<Mat<f64>> {
    let lost = || Error::failure("learning has left a matrix that is not finite, or zero");
    match form {
        // A learner keeps the factor itself.
        FormRef::Psd(psd) => {
            let tall = psd.factor();
            Ok(Mat::from_fn(tall.rows(), tall.rank(), |i, j| {
                tall.row(i)[j].to_f64()
            }))
        }
        FormRef::Full(full) => {
            let w = symmetric::part(&full.to_faer());
            symmetric::map(&w, |v| v.max(0.0).sqrt()).ok_or_else(lost)
        }
        form => {
            let gauge = form.gauge().ok_or_else(lost)?;
            let (tall, _) = form.factors().ok_or_else(lost)?;
            let mut out = Mat::zeros(tall.rows(), tall.rank());
            let mut i = 0;
            tall.for_each_mapped(&gauge.left, |row| {
                row.iter().enumerate().for_each(|(j, &v)| out[(i, j)] = v);
                i += 1;
            });
            Ok(out)
        }
    }
}

/// Changes when any of the data does.
fn fingerprint<R: Real>(
    data: &Labelled<R>,
    constraints: Option<&[Constraint]>,
    valid: Option<&Labelled<R>>,
) -> u64 {
    let mut hash = Fingerprint(0);
    for data in [Some(data), valid].into_iter().flatten() {
        hash.rows(&data.rows);
        hash.names(&data.features);
        hash.ids(&data.labels.names);
        for i in 0..data.labels.len() {
            hash.numbers(data.labels.of(i).iter().copied());
        }
    }
    let list = constraints.unwrap_or_default();
    hash.numbers(list.iter().map(|c| c.left));
    hash.numbers(list.iter().map(|c| c.right));
    let relation = |c: &Constraint| {
        let (kind, value) = match c.relation {
            Relation::Same => (0, 0.0),
            Relation::Different => (1, 0.0),
            Relation::AtMost(v) => (2, v),
            Relation::AtLeast(v) => (3, v),
            Relation::Equal(v) => (4, v),
        };
        [kind, (value.to_bits() >> 32) as u32, value.to_bits() as u32]
    };
    let relations: Vec<u32> = list.iter().flat_map(relation).collect();
    hash.numbers(relations.into_iter());
    hash.0
}

/// Whether this run is the one that was interrupted.
fn check<R: Real>(
    checkpoint: &Checkpoint<Metric>,
    run: &Run<'_, R>,
    fingerprint: u64,
) -> Result<()> {
    let options = run.options;
    let mut wanted = checkpoint.state.options.clone();
    // What may differ without changing what was learned so far.
    wanted.iterations = options.iterations;
    wanted.patience = options.patience;
    wanted.curve_every = options.curve_every;
    wanted.threads = options.threads;
    let size = checkpoint.model.card.step_size;
    if options.step_size.is_none() || options.step_size == Some(size) {
        wanted.step_size = options.step_size;
    }
    checkpoint::same_options(options, &wanted)?;
    checkpoint.check_model::<R>(run.things.features)?;
    let features = run.train.points.features();
    let same = fingerprint == checkpoint.state.fingerprint
        && checkpoint.model.columns() == features
        && checkpoint.model.rank() == run.rank()?;
    match same {
        true => Ok(()),
        false => Err(Error::input("the checkpoint was made with other data")),
    }
}
