//! A training run as a state machine: the caller says how far to go, and may
//! look, save or stop between any two steps. What is learned does not depend
//! on where the caller looks.

use super::similarity::{
    Examples, Similarity, Validation, classes, evaluate, make_example, metrics,
};
use super::step_size::{self, Trial};
use crate::data::{Features, Labelled, split_key};
use crate::eval::{Cosine, retrieval};
use crate::form::{Form, Upkeep};
use crate::model::file::{Tensor, TensorFile};
use crate::model::{
    Card, Counters, FORMAT, HistoryPoint, Metrics, Model, Precise, Preprocess, forms, save_parts,
};
use crate::online::{AnyLearner, Learner, Outcome, Step};
use crate::random::{Random, splitmix64};
use crate::sample::{LabelTriplets, ListedTriplets, Position, Triplet, Triplets};
use crate::{Error, Loss, Real, Result, Rows, SparseVec};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::Path;

/// Separate streams of random numbers for separate purposes.
const TRIPLETS: u64 = 0;
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

/// The best model so far, by validation.
#[derive(Debug, Clone)]
struct Best<R> {
    form: Form<R>,
    counters: Counters,
    map: f64,
}

/// What a checkpoint keeps beside the model.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    options: Similarity,
    fingerprint: u64,
    position: Position,
    window: Window,
    without_gain: u32,
    seconds: f64,
    best: Option<BestState>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct BestState {
    counters: Counters,
    map: f64,
    upkeep: Upkeep,
}

/// Losses since the last point of the curve.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Window {
    loss: f64,
    steps: u64,
}

/// A training run read back from a file.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The model as it was when the checkpoint was written.
    pub model: Model,
    state: State,
    best: Option<Precise>,
}

impl Checkpoint {
    /// Reads a checkpoint. A finished model is not one.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|e| Error::reading(path, &e))?;
        let file = TensorFile::parse(path, &bytes)?;
        let model = Model::from_file(&file)?;
        if !file.has("state.training") {
            return Err(file.error("a finished model, not a checkpoint: it cannot be resumed"));
        }
        let state: State = serde_json::from_slice(&file.u8s("state.training")?)
            .map_err(|e| file.error(format!("the training state is damaged: {e}")))?;
        let best = state
            .best
            .as_ref()
            .map(|best| {
                let rank = model.rank();
                Ok::<_, Error>(match &model.form {
                    Precise::F32(form) => {
                        let name = form.view().name();
                        Precise::F32(forms::read(
                            &file,
                            name,
                            rank,
                            best.upkeep.clone(),
                            "state.best.",
                        )?)
                    }
                    Precise::F64(form) => {
                        let name = form.view().name();
                        Precise::F64(forms::read(
                            &file,
                            name,
                            rank,
                            best.upkeep.clone(),
                            "state.best.",
                        )?)
                    }
                })
            })
            .transpose()?;
        Ok(Checkpoint { model, state, best })
    }

    /// The options it was made with.
    pub fn options(&self) -> &Similarity {
        &self.state.options
    }

    /// Seconds of training up to it, as the caller counted them.
    pub fn seconds(&self) -> f64 {
        self.state.seconds
    }
}

/// A training run of [`Similarity`].
#[derive(Debug)]
pub struct Session<'a, R: Real> {
    options: Similarity,
    rows: Cow<'a, Rows<R>>,
    features: Cow<'a, Features>,
    preprocess: Preprocess,
    fingerprint: u64,
    triplets: Triplets,
    validation: Option<Validation<R>>,
    learner: AnyLearner<R>,
    difference: SparseVec<R>,
    step: Step,
    chosen: Vec<Trial>,
    total: u64,
    every: u64,
    counters: Counters,
    history: Vec<CurvePoint>,
    window: Window,
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
        Self::prepare(options, data, listed, valid, None)
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
        Self::prepare(options, data, listed, valid, Some(checkpoint))
    }

    fn prepare(
        options: &Similarity,
        data: &'a Labelled<R>,
        listed: Option<Vec<Triplet>>,
        valid: Option<&Labelled<R>>,
        checkpoint: Option<Checkpoint>,
    ) -> Result<Self> {
        options.check()?;
        if valid.is_some() && options.valid_fraction > 0.0 {
            return Err(Error::input(
                "validation rows and a validation fraction exclude each other",
            ));
        }
        let name = |i: usize| data.ids.name(i).into_owned();
        let labelled = (0..data.labels.len()).any(|i| !data.labels.of(i).is_empty());
        let known = if listed.is_none() || labelled {
            Some(classes(&data.labels, name)?)
        } else {
            None
        };
        let (members, held_out) = hold_out(data.rows.len(), options.valid_fraction, options.seed)?;
        let preprocess = Preprocess::fit(options.preprocess, &data.rows, &members);
        let rows: Cow<'a, Rows<R>> = if preprocess.is_identity() {
            Cow::Borrowed(&data.rows)
        } else {
            Cow::Owned(preprocess.apply(&data.rows, data.rows.columns())?)
        };

        let validation = match (valid, held_out.is_empty()) {
            (Some(valid), _) => Some(foreign_validation(
                valid,
                &data.features,
                &preprocess,
                rows.columns(),
            )?),
            (None, false) => {
                let known = known
                    .as_ref()
                    .ok_or_else(|| Error::input("validation needs labels"))?;
                let classes = held_out.iter().map(|&i| known[i as usize]).collect();
                Some(Validation {
                    rows: None,
                    members: held_out,
                    classes,
                })
            }
            (None, true) => None,
        };

        let mut fingerprint = Fingerprint(0);
        fingerprint.rows(&data.rows);
        fingerprint.numbers(known.as_deref().unwrap_or_default().iter().copied());
        let (mut triplets, epoch) = match listed {
            Some(list) => {
                for t in &list {
                    fingerprint.numbers([t.query, t.positive, t.negative].into_iter());
                }
                if options.valid_fraction > 0.0 {
                    return Err(Error::input(
                        "listed triplets may name any row, so none can be held out: give validation rows in a file",
                    ));
                }
                let source = ListedTriplets::new(list)?;
                let epoch = source.len() as u64;
                (Triplets::Listed(source), epoch)
            }
            None => {
                let known = known.as_deref().expect("classes were read");
                let random = Random::new(options.seed, TRIPLETS);
                let source = LabelTriplets::new(known, &members, random)?;
                (Triplets::Labels(source), members.len() as u64)
            }
        };
        let total = match (options.steps, options.epochs, &triplets) {
            (Some(steps), _, _) => steps,
            (None, Some(epochs), _) => epochs.saturating_mul(epoch),
            (None, None, Triplets::Listed(_)) => epoch,
            (None, None, Triplets::Labels(_)) => (50 * epoch).max(20_000),
        };
        let every = options.curve_every.unwrap_or(total.div_ceil(20).max(1));
        if let Some(Validation {
            rows: Some(rows),
            classes,
            ..
        }) = &validation
        {
            fingerprint.rows(rows);
            fingerprint.numbers(classes.iter().copied());
        }
        let fingerprint = fingerprint.0;
        let limit = options.step_limit.unwrap_or(f64::INFINITY);

        let mut session = if let Some(checkpoint) = checkpoint {
            let learner = checkpoint.fits::<R>(options, fingerprint, rows.columns())?;
            let Checkpoint { model, state, best } = checkpoint;
            if !triplets.seek(state.position) {
                return Err(Error::input(
                    "the checkpoint was made with another source of triplets",
                ));
            }
            let best = match (state.best, best) {
                (Some(kept), Some(form)) => Some(Best {
                    form: form.into_precision::<R>()?,
                    counters: kept.counters,
                    map: kept.map,
                }),
                _ => None,
            };
            Session {
                options: options.clone(),
                rows,
                features: Cow::Borrowed(&data.features),
                preprocess,
                fingerprint,
                triplets,
                validation,
                learner,
                difference: SparseVec::new(),
                step: Step {
                    size: model.card.step_size,
                    limit,
                },
                chosen: Vec::new(),
                total,
                every,
                counters: model.card.counters,
                history: model.card.history,
                window: state.window,
                best,
                without_gain: state.without_gain,
                finished: None,
            }
        } else {
            let learner = AnyLearner::new(options.start(&rows, &members, known.as_deref())?);
            Session {
                options: options.clone(),
                rows,
                features: Cow::Borrowed(&data.features),
                preprocess,
                fingerprint,
                triplets,
                validation,
                learner,
                difference: SparseVec::new(),
                step: Step {
                    size: options.step_size.unwrap_or(f64::NAN),
                    limit,
                },
                chosen: Vec::new(),
                total,
                every,
                counters: Counters::default(),
                history: Vec::new(),
                window: Window::default(),
                best: None,
                without_gain: 0,
                finished: None,
            }
        };
        if session.step.size.is_nan() {
            session.choose_step(known.as_deref(), &members)?;
        }
        session.settle();
        Ok(session)
    }

    /// Tries every candidate on rows apart from those that judge it.
    fn choose_step(&mut self, known: Option<&[u32]>, members: &[u32]) -> Result<()> {
        let seed = self.options.seed;
        let (training, mut judge) = match (&self.triplets, known) {
            (Triplets::Labels(_), Some(known)) => {
                // Every fifth row judges; when a class is too small for that, all do.
                let part = |keep: &dyn Fn(usize) -> bool| -> Vec<u32> {
                    (0..members.len())
                        .filter(|&i| keep(i))
                        .map(|i| members[i])
                        .collect()
                };
                let shuffled = |i: usize| splitmix64(seed ^ members[i] as u64) % 5;
                let source = |rows: &[u32], purpose| {
                    LabelTriplets::new(known, rows, Random::new(seed, purpose))
                };
                let apart = (
                    source(&part(&|i| shuffled(i) != 0), PRETRAINING),
                    source(&part(&|i| shuffled(i) == 0), HELD_OUT),
                );
                match apart {
                    (Ok(training), Ok(judge)) => {
                        (Triplets::Labels(training), Triplets::Labels(judge))
                    }
                    _ => (
                        Triplets::Labels(source(members, PRETRAINING)?),
                        Triplets::Labels(source(members, HELD_OUT)?),
                    ),
                }
            }
            (listed, _) => (listed.clone(), listed.clone()),
        };
        let mut steps = PRETRAINING_STEPS.min(self.total.max(1));
        if let Triplets::Listed(list) = &self.triplets {
            // The first four fifths train, the rest judges.
            steps = steps.min((list.len() as u64 * 4 / 5).max(1));
            judge.seek(Position::Next((steps as usize).min(list.len() - 1)));
        }
        let held_out: Vec<Triplet> = (0..HELD_OUT_TRIPLETS).map(|_| judge.draw()).collect();
        let examples = Examples::new(&self.rows);
        self.chosen = step_size::trials(
            &self.learner,
            &examples,
            &training,
            steps,
            &held_out,
            self.step.limit,
        );
        self.step.size = step_size::best(&self.chosen, held_out.len());
        Ok(())
    }

    /// The candidates of the step size with their error on held-out triplets,
    /// when it was chosen and not given.
    pub fn step_trials(&self) -> Vec<(f64, f64)> {
        self.chosen.iter().map(|t| (t.size, t.wrong)).collect()
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

    /// The learning curve so far.
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
        let valid = self.validation.as_ref()?;
        let rows = valid.rows.as_ref().unwrap_or(&self.rows);
        let chosen = rows.select(valid.members.iter().map(|&i| i as usize));
        let found = retrieval(
            &Cosine::new(&chosen),
            &valid.classes,
            self.options.threads,
            &|_| true,
        );
        found.map(|found| metrics(&found))
    }

    /// Bytes of the rows and factors at work.
    pub fn bytes(&self) -> usize {
        self.rows.bytes() + self.learner.form().bytes()
    }

    /// Goes on for at most this many steps, to the next point of the learning
    /// curve at the farthest.
    pub fn advance(&mut self, at_most: u64) -> Result<Event> {
        if let Some(stopped) = self.finished {
            return Ok(Event::Finished(stopped));
        }
        let done = self.counters.steps;
        let boundary = ((done / self.every + 1) * self.every).min(self.total);
        let until = done.saturating_add(at_most).min(boundary);
        while self.counters.steps < until {
            self.take_step();
        }
        if self.counters.steps < boundary {
            return Ok(Event::Progress);
        }
        let point = self.measure()?;
        self.settle();
        Ok(Event::Measured(point))
    }

    #[inline]
    fn take_step(&mut self) {
        let triplet = self.triplets.draw();
        let example = make_example(&self.rows, &mut self.difference, triplet);
        let learned = self.learner.learn(example, 1.0, Loss::Hinge, self.step);
        self.counters.steps += 1;
        match learned.outcome {
            Outcome::Moved => self.counters.updates += 1,
            Outcome::Refused => self.counters.refused += 1,
            Outcome::Idle => {}
        }
        if learned.loss.is_finite() {
            self.window.loss += learned.loss;
            self.window.steps += 1;
        }
    }

    fn measure(&mut self) -> Result<CurvePoint> {
        let mut point = CurvePoint {
            counters: self.counters,
            loss: self.running_loss(),
            metrics: Metrics::new(),
        };
        self.window = Window::default();
        if let Some(valid) = &self.validation {
            let rows = valid.rows.as_ref().unwrap_or(&self.rows);
            let (score, threads) = (self.options.score, self.options.threads);
            let form = self.learner.form();
            let found = evaluate(
                form,
                rows,
                &valid.members,
                &valid.classes,
                score,
                threads,
                &|_| true,
            )?;
            let found = found.expect("nobody stops it");
            point.metrics = metrics(&found);
            if self.best.as_ref().is_none_or(|best| found.map > best.map) {
                self.without_gain = 0;
                self.best = Some(Best {
                    form: form.to_form(),
                    counters: self.counters,
                    map: found.map,
                });
            } else {
                self.without_gain += 1;
            }
        }
        self.history.push(point.clone());
        Ok(point)
    }

    fn settle(&mut self) {
        let patience = self.options.patience.unwrap_or(u32::MAX);
        if self.validation.is_some() && self.without_gain >= patience {
            self.finished = Some(Stopped::Patience);
        } else if self.counters.steps >= self.total {
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
            fingerprint: self.fingerprint,
            position: self.triplets.position(),
            window: self.window,
            without_gain: self.without_gain,
            seconds,
            best: self.best.as_ref().map(|best| BestState {
                counters: best.counters,
                map: best.map,
                upkeep: forms::upkeep(best.form.view()),
            }),
        };
        let json = serde_json::to_vec(&state)
            .map_err(|e| Error::failure(format!("cannot describe the training state: {e}")))?;
        let mut more = vec![("state.training".to_owned(), Tensor::u8s(json))];
        if let Some(best) = &self.best {
            more.extend(forms::tensors(best.form.view(), "state.best."));
        }
        let (card, form) = (self.card(self.counters), self.learner.form());
        save_parts(
            path.as_ref(),
            &card,
            form,
            &self.features,
            &self.preprocess,
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
            features: self.features.into_owned(),
            preprocess: self.preprocess,
        })
    }
}

impl Checkpoint {
    /// The learner to go on with, when this run is the one that was interrupted.
    fn fits<R: Real>(
        &self,
        options: &Similarity,
        fingerprint: u64,
        columns: usize,
    ) -> Result<AnyLearner<R>> {
        let old = &self.state.options;
        let mut wanted = old.clone();
        // What may differ without changing what was learned so far.
        wanted.steps = options.steps;
        wanted.epochs = options.epochs;
        wanted.patience = options.patience;
        wanted.curve_every = options.curve_every;
        wanted.threads = options.threads;
        if options.step_size.is_none() || options.step_size == Some(self.model.card.step_size) {
            wanted.step_size = options.step_size;
        }
        if &wanted != options {
            let (mine, theirs) = (json(options), json(&wanted));
            let differing = mine
                .iter()
                .find(|(key, value)| theirs.get(*key) != Some(value));
            let (key, value) = differing.expect("the options differ");
            return Err(Error::input(format!(
                "the checkpoint was made with {key} = {}, this run asks for {value}",
                theirs.get(key).unwrap_or(&serde_json::Value::Null)
            )));
        }
        if fingerprint != self.state.fingerprint || columns != self.model.columns() {
            return Err(Error::input("the checkpoint was made with other data"));
        }
        Ok(AnyLearner::new(
            self.model.form.clone().into_precision::<R>()?,
        ))
    }
}

fn json(options: &Similarity) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(options) {
        Ok(serde_json::Value::Object(map)) => map,
        _ => unreachable!("options are an object"),
    }
}

/// Splits row numbers into training and validation by portable keys.
fn hold_out(rows: usize, fraction: f64, seed: u64) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut order: Vec<u32> = (0..rows as u32).collect();
    let count = (rows as f64 * fraction + 1e-9) as usize;
    if count == 0 {
        return if fraction > 0.0 {
            let message = format!(
                "a validation fraction of {fraction} leaves none of the {rows} rows for it"
            );
            Err(Error::input(message))
        } else {
            Ok((order, Vec::new()))
        };
    }
    order.sort_by_key(|&row| split_key(seed, u64::from(row)));
    let mut members = order.split_off(count);
    members.sort_unstable();
    order.sort_unstable();
    Ok((members, order))
}

fn foreign_validation<R: Real>(
    valid: &Labelled<R>,
    features: &Features,
    preprocess: &Preprocess,
    columns: usize,
) -> Result<Validation<R>> {
    let rows = features.align(valid.rows.clone(), &valid.features)?;
    let rows = if preprocess.is_identity() {
        rows
    } else {
        preprocess.apply(&rows, columns)?
    };
    let classes = classes(&valid.labels, |i| valid.ids.name(i).into_owned())?;
    Ok(Validation {
        members: (0..rows.len() as u32).collect(),
        rows: Some(rows),
        classes,
    })
}

/// A number that changes when the data of a run do.
struct Fingerprint(u64);

impl Fingerprint {
    fn mix(&mut self, value: u64) {
        self.0 = splitmix64(self.0 ^ value);
    }

    fn rows<R: Real>(&mut self, rows: &Rows<R>) {
        self.mix(rows.len() as u64);
        for row in rows.iter() {
            self.mix(row.len() as u64);
            for (j, v) in row.iter() {
                self.mix(v.to_f64().to_bits() ^ (u64::from(j) << 32));
            }
        }
    }

    fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = u32>) {
        self.mix(numbers.len() as u64);
        numbers.for_each(|n| self.mix(u64::from(n)));
    }
}
