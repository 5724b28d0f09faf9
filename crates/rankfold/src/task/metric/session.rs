//! Learning of a metric from one pair after the other, or from a few at once.
//!
//! A pair of rows x and y is the example δ ⊗ δ with δ = x − y, whose score is their
//! squared distance. Reference: [Meyer2011b], sections 4 to 6, equation 23.

use super::engine::Bounded;
use super::fit::{SHRINKAGE, Setup, merit, stored};
use super::source::Source;
use super::{Metric, MetricData, MetricInit, MetricLearner, StepSchedule};
use crate::data::{Constraint, Labelled, Relation};
use crate::form::{Form, FormRef, Full};
use crate::linalg::symmetric;
use crate::model::{Card, Distances as Levels, Knowledge, Metrics, Scaling, Score};
use crate::online::{
    AnyLearner, Learned, Learner, Mixed, RankOne, Rule, Step, StepRule, StepTrial, Trials,
};
use crate::task::checkpoint::Checkpoint;
use crate::task::course::Course;
use crate::task::inputs::Fingerprint;
use crate::task::run::{Report, Run, Trial};
use crate::task::session::{
    Fingerprints, GoOn, Session, SideParts, Snapshot, Validated, Work, check_resumed,
};
use crate::{Error, Real, Result, SparseVec, memory};
use faer::Mat;
use std::borrow::Cow;

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
    limit: f64,
    deltas: Vec<SparseVec<R>>,
}

impl<R: Real> Stepper<R> {
    /// Learns from some pairs at once, after `done` others.
    fn take(&mut self, setup: &Setup<'_, R>, pairs: &[Bounded], done: u64) -> Learned {
        let form = self.learner.form();
        let step = Step {
            size: self.rule.size(done, || trace(form)),
            limit: self.limit,
        };
        self.deltas.resize(pairs.len(), SparseVec::new());
        for (delta, pair) in self.deltas.iter_mut().zip(pairs) {
            difference(setup, delta, pair);
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
fn difference<R: Real>(setup: &Setup<'_, R>, out: &mut SparseVec<R>, (pair, ..): &Bounded) {
    let row = |i: u32| {
        let member = setup.things.members[i as usize];
        setup.things.rows.row(member as usize)
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

/// What a run of [`Metric`] with the solver `online` steps with.
#[derive(Debug)]
pub struct MetricWork<'a, R: Real> {
    options: Metric,
    setup: Setup<'a, R>,
    source: Source,
    levels: Levels,
    init: MetricInit,
    fingerprint: u64,
    trials: Vec<Trial>,
    stepper: Stepper<R>,
}

/// A training run of [`Metric`] with the solver `online`.
pub type MetricSession<'a, R> = Session<MetricWork<'a, R>>;

impl Metric {
    /// A training run that the caller drives: on constraints, or on the classes of rows
    /// where none are given; validated on these rows, or on a part of the training rows.
    pub fn session<'a, R: Real>(
        &self,
        data: impl Into<MetricData<'a, R>>,
    ) -> Result<MetricSession<'a, R>> {
        self.begin_session(data.into(), &mut Run::default())
    }

    /// The same from a model, where the run brings one.
    pub(super) fn begin_session<'a, R: Real>(
        &self,
        data: MetricData<'a, R>,
        run: &mut Run<'_>,
    ) -> Result<MetricSession<'a, R>> {
        let start = run.started::<Metric>(self.init == Some(MetricInit::Model))?;
        let scaled = start.as_ref().map(|start| start.scaling(Scaling::Auto));
        let options = self.scaled_as(scaled == Some(Scaling::Global));
        let mut setup = options.prepared(data)?;
        if let Some(start) = start {
            let (given, notes) = setup.started_from(&start)?;
            notes.into_iter().for_each(|note| run.note(note));
            setup.given = Some(given);
        }
        let rank = setup.rank()?;
        let init = setup.starts(rank, data.constraints.is_some())[0];
        let (first, levels) = setup.first(&setup.train, init, rank, SHRINKAGE)?;
        let form = shaped(self.learner, stored::<R>(&first)?)?;
        let (mut work, course) = self.work(setup, data, form, levels, init)?;
        work.choose_rule()?;
        Session::new(work, course)
    }

    /// Goes on from a checkpoint of the same run.
    pub fn resume<'a, R: Real>(
        &self,
        data: impl Into<MetricData<'a, R>>,
        checkpoint: &Checkpoint,
    ) -> Result<MetricSession<'a, R>> {
        let data = data.into();
        checkpoint.check_options(self)?;
        let scaled = checkpoint.model()?.preprocess.steps.standardize;
        let setup = self.scaled_as(scaled).prepared(data)?;
        let columns = setup.things.rows.columns();
        let (features, shape) = (setup.things.features, (columns, columns));
        let model = check_resumed::<R>(checkpoint, features, shape)?;
        let (levels, rule) = (model.card.distances, model.card.step_rule);
        let Some((levels, rule)) = levels.zip(rule) else {
            return Err(checkpoint.error("the checkpoint does not say how its steps fall"));
        };
        let init = setup.starts(setup.rank()?, data.constraints.is_some())[0];
        let form = model.form.into_precision()?;
        let (mut work, course) = self.work(setup, data, form, levels, init)?;
        work.stepper.rule = rule;
        Session::resumed(work, course, checkpoint)
    }

    fn prepared<'a, R: Real>(&self, data: MetricData<'a, R>) -> Result<Setup<'a, R>> {
        self.check()?;
        if !self.is_online() {
            return Err(Error::option(
                "solver",
                "must be online for a session, which learns one pair after the other",
            ));
        }
        Setup::new(self, data)
    }

    fn work<'a, R: Real>(
        &self,
        setup: Setup<'a, R>,
        data: MetricData<'a, R>,
        form: Form<R>,
        levels: Levels,
        init: MetricInit,
    ) -> Result<(MetricWork<'a, R>, Course<Snapshot<R>>)> {
        let source = Source::new(&setup, data.constraints, levels)?;
        let epochs = self.epochs.unwrap_or(PASSES);
        let usual = source.pass().saturating_mul(epochs);
        let course = Course::new(self.steps.unwrap_or(usual), self.curve_every)
            .in_batches(self.batch as u64)
            .judged_by(merit);
        let learner = AnyLearner::new(rule(self.learner)?, form, 0)?
            .retracted(self.retraction)
            .subspace_weight(self.subspace_weight);
        let work = MetricWork {
            options: self.clone(),
            fingerprint: setup.fingerprint,
            stepper: Stepper {
                learner,
                rule: StepRule::Constant(0.0),
                limit: self.step_limit,
                deltas: Vec::new(),
            },
            setup,
            source,
            levels,
            init,
            trials: Vec::new(),
        };
        Ok((work, course))
    }
}

impl<R: Real> MetricWork<'_, R> {
    /// Tries some sizes of steps, and some times in which they fall by half, on the
    /// first pairs, and takes what does best on the next.
    fn choose_rule(&mut self) -> Result<()> {
        let options = self.options.clone();
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
            difference(&self.setup, &mut delta, pair);
            deltas.push(delta);
        }
        let examples: Vec<_> = mixed(&deltas, &pairs).collect();
        let (train, held_out) = examples.split_at(train);
        let trials = Trials {
            train,
            held_out,
            batch: options.batch,
            limit: options.step_limit,
        };
        let of_learner = |learner: &AnyLearner<R>| trace(learner.form());
        let chosen = trials.choose(&self.stepper.learner, &candidates, &rule, &of_learner);
        let shown = |t: &StepTrial| {
            let mut trial = Trial::of("step_size", t.size, "loss", t.cost);
            trial
                .settings
                .insert("half_life".into(), t.half_life.into());
            trial
        };
        let all = chosen.iter().flat_map(|chosen| &chosen.trials);
        self.trials = all.map(shown).collect();
        self.stepper.rule = match &chosen {
            Some(chosen) => chosen.rule,
            // Nothing to choose by. Steps do not go beyond their targets anyway.
            None => rule(given.unwrap_or(1.0), 1.0, 1.0),
        };
        Ok(())
    }

    /// Pairs that each short run learns from, and those that judge it.
    fn trial_pairs(&self, candidates: usize) -> (usize, usize) {
        let options = self.options.clone();
        let most = TRIAL_STEPS.saturating_mul(options.batch).min(TRIAL_PAIRS);
        let d = self.setup.train.points.features() as f64;
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
}

impl<R: Real> Work for MetricWork<'_, R> {
    type Real = R;
    type Options = Metric;

    fn options(&self) -> &Metric {
        &self.options
    }

    fn fingerprints(&self) -> Fingerprints {
        Fingerprints {
            rows: self.fingerprint,
            objects: None,
        }
    }

    fn step(&mut self, done: u64) -> (u64, Learned) {
        let batch = self.options.batch as u64;
        let pairs: Vec<Bounded> = (done..done.saturating_add(batch))
            .map(|number| self.source.at(self.options.seed, number))
            .collect();
        (batch, self.stepper.take(&self.setup, &pairs, done))
    }

    fn form(&self) -> FormRef<'_, R> {
        self.stepper.learner.form()
    }

    fn is_validated(&self) -> bool {
        self.setup.validation.is_some()
    }

    fn validate(
        &self,
        form: FormRef<'_, R>,
        _bias: Option<&[f64]>,
        _go_on: GoOn<'_>,
    ) -> Result<Validated> {
        let Some(validation) = &self.setup.validation else {
            return Ok(Validated::Found(Metrics::new()));
        };
        // It is short, and never given up.
        let error = self.setup.knn_error(validation, &factor(form)?);
        Ok(Validated::Found([("knn_error".to_owned(), error)].into()))
    }

    /// s of the step rule.
    fn step_size(&self) -> f64 {
        match self.stepper.rule {
            StepRule::Constant(size)
            | StepRule::Falling { size, .. }
            | StepRule::Convergent { size, .. } => size,
        }
    }

    fn trials(&self) -> &[Trial] {
        &self.trials
    }

    fn card(&self) -> Card {
        let options = &self.options;
        let polar = options.learner == MetricLearner::Polar;
        Card {
            score: Score::Distance,
            seed: options.seed,
            step_size: self.step_size(),
            step_limit: Some(options.step_limit).filter(|limit| limit.is_finite()),
            step_rule: Some(self.stepper.rule),
            distances: Some(self.levels),
            retraction: polar.then_some(options.retraction),
            subspace_weight: polar.then_some(options.subspace_weight),
            init: self.init.name().into(),
            ..Card::new(options.learner.name())
        }
    }

    fn knowledge(&self, _bias: Option<Vec<f64>>) -> Knowledge {
        Knowledge::Metric
    }

    fn sides(&self) -> (SideParts<'_>, Option<SideParts<'_>>) {
        let things = &self.setup.things;
        let left = (
            Cow::Borrowed(things.features),
            Cow::Borrowed(&things.preprocess),
        );
        (left, None)
    }

    /// As batch solvers store it; a polar form stays, which goes on as it is.
    fn finish(&self, form: Form<R>, _card: &mut Card) -> Result<Form<R>> {
        match form {
            Form::PolarPsd(_) => Ok(form),
            form => stored(&factor(form.view())?),
        }
    }

    fn describe(&self, report: Report) -> Report {
        match serde_json::to_value(self.stepper.rule) {
            Ok(rule) => report.with("step_rule", rule),
            Err(_) => report,
        }
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
            let [factor, _] = form.balanced_factors().ok_or_else(lost)?;
            Ok(factor)
        }
    }
}

/// Changes when any of the data does.
pub(super) fn fingerprint<R: Real>(
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
