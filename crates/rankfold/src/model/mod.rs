//! The model: a form, and all that belongs to the data rather than to W. It
//! stands alone in one file.

mod classes;
mod confidence;
mod dissimilarities;
pub mod exchange;
pub(crate) mod file;
pub(crate) mod forms;
mod given;
mod gossip_card;
mod items;
mod knowledge;
mod labels;
mod merge;
mod one_row;
mod preprocess;
mod projection;
mod ratings;
mod recommended;
mod resized;
mod task_space;

pub use classes::{ClassScore, Classes, Reading};
pub use confidence::{Confidence, Estimate};
pub use dissimilarities::Dissimilarities;
pub use given::{RatingFactors, RatingsLearned};
pub use gossip_card::GossipCard;
pub use items::{KernelCard, KernelFunction, unit_rows};
pub use knowledge::{Knowledge, Mapped, Ranked, Rated, Tasked};
pub use labels::{Prior, RankingRule, Sampler, Subgradient};
pub(crate) use merge::multiplier;
pub use merge::{MergeOptions, Merged};
pub use preprocess::{Normalize, Preprocess, Scaling, Steps, Weight};
pub use projection::{Coordinates, Embedding, Projection};
pub use ratings::{CompletionCard, RatingBiases, RatingPoints, RatingPredictor};
pub use recommended::{Own, RecommendCard, Recommended, Recommender, WeightScale};
pub use resized::Resized;
pub(crate) use task_space::principal;
pub use task_space::{
    Moments, MultitaskCard, Standardize, TaskFit, TaskPredictor, TaskPrior, TaskSpace, TaskView,
};

use crate::data::text::{Documents, Vocabulary};
use crate::data::{Features, Labelled, read_with};
use crate::form::{Form, MOST, Side, Upkeep};
use crate::linalg::{Retraction, svd_of_product};
use crate::online::{AromaOptions, InnerSteps, StepRule};
use crate::{Error, Ids, Real, Result, Rows, choices};
use file::{Tensor, TensorFile, Tensors};
use knowledge::{Frame, Stored};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The version of the file format that this code writes.
pub const FORMAT: u32 = 1;

/// The tensor that holds a vocabulary, as the text of its file.
const VOCABULARY: &str = "vocabulary";

choices! {
    /// How the similarity of two rows is read off the model.
    pub enum Score {
        /// leftᵀ W right, which training shapes; it rewards rows of large projected norm
        Dot = "dot",
        /// The cosine between the projected rows
        Cosine = "cosine",
        /// How much the same classes claim both rows, and a little of the cosine
        Classes = "classes",
        /// The distance √((left − right)ᵀ W (left − right)) of a metric: less is nearer
        Distance = "distance",
    }
}

/// Values of named metrics.
pub type Metrics = BTreeMap<String, f64>;

/// What training has done so far; only ever grows, also when a model goes on
/// learning. So a model does not tell in how many sittings it was trained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Examples seen.
    pub steps: u64,
    /// Examples that moved W.
    pub updates: u64,
    /// Steps refused because they would have lost rank or finiteness.
    pub refused: u64,
    /// Features added since training.
    pub new_features: u64,
    /// The same for objects, where these have features of their own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub new_object_features: u64,
    /// Examples of new features only, which had to be given a start.
    pub seeded: u64,
    /// The losses of all steps, each judged before it was taken.
    pub total_loss: f64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Counters {
    /// Adds a loss; one that no number can hold is left out.
    pub(crate) fn add_loss(&mut self, loss: f64) {
        let sum = self.total_loss + loss;
        if sum.is_finite() {
            self.total_loss = sum;
        }
    }

    /// The mean loss of a step.
    pub fn mean_loss(&self) -> f64 {
        self.total_loss / self.steps.max(1) as f64
    }

    /// What was done since an earlier time.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            steps: self.steps.saturating_sub(earlier.steps),
            updates: self.updates.saturating_sub(earlier.updates),
            refused: self.refused.saturating_sub(earlier.refused),
            new_features: self.new_features.saturating_sub(earlier.new_features),
            new_object_features: self
                .new_object_features
                .saturating_sub(earlier.new_object_features),
            seeded: self.seeded.saturating_sub(earlier.seeded),
            total_loss: self.total_loss - earlier.total_loss,
        }
    }
}

/// A point of the learning curve: no clock time, which would make equal runs
/// differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// Counters at that point.
    #[serde(flatten)]
    pub counters: Counters,
    /// Mean loss since the point before.
    pub loss: f64,
    /// Validation metrics, when there were validation rows.
    #[serde(default, skip_serializing_if = "Metrics::is_empty")]
    pub metrics: Metrics,
}

/// Squared distances that a learner of distances aims at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distances {
    /// Between a query and its positive.
    pub near: f64,
    /// Between a query and its negative.
    pub far: f64,
}

/// What a model says about itself: the metadata of its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Card {
    /// The version of the file format.
    pub format: u32,
    /// The rule that trained it, such as `loreta-psd`.
    pub learner: String,
    /// How its scores are read.
    pub score: Score,
    /// The seed of its training.
    pub seed: u64,
    /// The step size of its training.
    pub step_size: f64,
    /// The limit on a step, when there was one.
    pub step_limit: Option<f64>,
    /// After how many examples the step is half as long, when it shrinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decay: Option<f64>,
    /// How its steps fall, when they do so by a rule of regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_rule: Option<StepRule>,
    /// The squared distances that it aims at, when it learns distances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distances: Option<Distances>,
    /// The variants of AROMA, when it is that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aroma: Option<AromaOptions>,
    /// The steps between full ones, of manifold identification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_steps: Option<InnerSteps>,
    /// The factor on its variances that was found on validation triplets, when
    /// it learned a distribution and there were some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variance_scale: Option<f64>,
    /// How agents agreed on it, when they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gossip: Option<GossipCard>,
    /// λ of its regularizer, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regularization: Option<f64>,
    /// The way back to orthonormal columns, in the polar geometry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retraction: Option<Retraction>,
    /// λ of the polar geometry of metrics and kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subspace_weight: Option<f64>,
    /// How it started.
    pub init: String,
    /// What training did.
    pub counters: Counters,
    /// The points of the learning curve that have validation metrics.
    pub history: Vec<HistoryPoint>,
}

impl Card {
    /// What a card of a file cannot say, in words.
    fn check(&self) -> std::result::Result<(), String> {
        let at_least = |name: &str, value: Option<f64>| match value {
            Some(value) if !(value >= 0.0) => Err(format!("a {name} of {value} is not possible")),
            _ => Ok(()),
        };
        let above = |name: &str, value: Option<f64>| match value {
            Some(value) if !(value > 0.0) => Err(format!("a {name} of {value} is not possible")),
            _ => Ok(()),
        };
        if self.format == 0 {
            return Err("a format of 0 is not possible".into());
        }
        at_least("step size", Some(self.step_size))?;
        above("step limit", self.step_limit)?;
        above("decay", self.decay)?;
        above(
            "size of inner steps",
            self.inner_steps.map(|inner| inner.size),
        )?;
        if let Some(scale) = self.variance_scale
            && !(scale > 0.0)
        {
            return Err(format!("a factor of {scale} on variances is not possible"));
        }
        at_least("regularization", self.regularization)?;
        at_least("subspace weight", self.subspace_weight)?;
        if let Some(Distances { near, far }) = self.distances {
            at_least("distance", Some(near))?;
            at_least("distance", Some(far))?;
        }
        match self.step_rule {
            Some(StepRule::Constant(size)) => at_least("step size", Some(size))?,
            Some(StepRule::Falling {
                size,
                half_life,
                gradient,
                ..
            }) => {
                at_least("step size", Some(size))?;
                above("half-life", Some(half_life))?;
                above("norm of gradients", Some(gradient))?;
            }
            Some(StepRule::Convergent { size, half_life }) => {
                at_least("step size", Some(size))?;
                above("half-life", Some(half_life))?;
            }
            None => {}
        }
        let counters = &self.counters;
        let counts = [
            counters.steps,
            counters.updates,
            counters.refused,
            counters.new_features,
            counters.new_object_features,
            counters.seeded,
        ];
        match counts.into_iter().find(|count| *count > MOST) {
            Some(count) => Err(format!("a count of {count} is not possible")),
            None => Ok(()),
        }
    }

    /// A card that says nothing but which rule learned the model.
    pub(crate) fn new(learner: &str) -> Self {
        Card {
            format: FORMAT,
            learner: learner.into(),
            score: Score::Dot,
            seed: 0,
            step_size: 0.0,
            step_limit: None,
            decay: None,
            step_rule: None,
            distances: None,
            aroma: None,
            inner_steps: None,
            variance_scale: None,
            gossip: None,
            regularization: None,
            retraction: None,
            subspace_weight: None,
            init: "given".into(),
            counters: Counters::default(),
            history: Vec::new(),
        }
    }
}

/// The parts of the metadata that follow from the form and the data.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    #[serde(flatten)]
    card: Card,
    #[serde(flatten)]
    known: Stored,
    form: String,
    rank: usize,
    precision: String,
    features: String,
    /// The kind of the features of objects, where these are other things.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    objects: Option<String>,
    preprocess: Steps,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upkeep: Option<Upkeep>,
}

/// A form in the precision it was trained in.
#[derive(Debug, Clone, PartialEq)]
pub enum Precise {
    /// Tall factors in single precision.
    F32(Form<f32>),
    /// Tall factors in double precision.
    F64(Form<f64>),
}

impl Precise {
    /// Wraps a form of either precision.
    pub fn new<R: Real>(form: Form<R>) -> Self {
        // The two instances of `Real` are the only ones; the cast is the identity.
        let boxed: Box<dyn std::any::Any> = Box::new(form);
        match boxed.downcast::<Form<f32>>() {
            Ok(form) => Precise::F32(*form),
            Err(boxed) => Precise::F64(*boxed.downcast().expect("f32 or f64")),
        }
    }

    /// The form, when it has this precision.
    pub fn into_precision<R: Real>(self) -> Result<Form<R>> {
        let (name, boxed): (_, Box<dyn std::any::Any>) = match self {
            Precise::F32(form) => (f32::NAME, Box::new(form)),
            Precise::F64(form) => (f64::NAME, Box::new(form)),
        };
        let form = boxed.downcast::<Form<R>>().map(|form| *form);
        form.map_err(|_| other_precision::<R>(name))
    }

    /// The form, when it has this precision.
    pub fn as_precision<R: Real>(&self) -> Result<&Form<R>> {
        let (name, form): (_, &dyn std::any::Any) = match self {
            Precise::F32(form) => (f32::NAME, form),
            Precise::F64(form) => (f64::NAME, form),
        };
        form.downcast_ref()
            .ok_or_else(|| other_precision::<R>(name))
    }
}

fn other_precision<R: Real>(found: &str) -> Error {
    Error::input(format!(
        "the model holds {found} factors, expected {}",
        R::NAME
    ))
}

/// Runs the same expression on the form in whichever precision it has.
macro_rules! with_form {
    ($precise:expr, $form:ident => $body:expr) => {
        match $precise {
            $crate::model::Precise::F32($form) => $body,
            $crate::model::Precise::F64($form) => $body,
        }
    };
}

pub(crate) use with_form;

/// What W is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Storage {
    /// The name of the form.
    pub form: &'static str,
    /// Rows and columns of W.
    pub shape: (usize, usize),
    /// Numbers that are stored.
    pub parameters: usize,
    /// How often the form has chosen a new gauge.
    pub refreshes: u64,
    /// How its entries are stored.
    pub entries: &'static str,
}

/// A trained model that stands alone: it scores rows of the files it was
/// trained on, and of any other with the same features.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Model {
    /// What it says about itself.
    pub card: Card,
    /// W.
    pub form: Precise,
    /// What it calls its features.
    pub features: Features,
    /// What is done to rows before it sees them.
    pub preprocess: Preprocess,
    /// What it knows of the right side, where objects are other things than rows.
    pub objects: Option<Objects>,
    /// What it is for, and what it knows beside W.
    pub knowledge: Knowledge,
}

/// The right side of a model that scores rows with other things.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Objects {
    /// What the features of objects are called; never the terms of a vocabulary.
    pub features: Features,
    /// What is done to objects before the model sees them.
    pub preprocess: Preprocess,
}

/// Rows made ready for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared<R> {
    /// The rows, in the model's columns.
    pub rows: Rows<R>,
    /// Entries dropped because the model does not know their feature.
    pub unknown_entries: usize,
}

impl Model {
    /// A similarity that a learner of your own made: scores are dot products
    /// and rows are taken as they are. It does all that other models do, but it
    /// cannot go on learning where nobody knows the learner.
    pub fn new<R: Real>(learner: &str, form: Form<R>, features: Features) -> Self {
        Model {
            card: Card::new(learner),
            form: Precise::new(form),
            features,
            objects: None,
            preprocess: Preprocess::default(),
            knowledge: Knowledge::Similarity(None),
        }
    }

    /// What W is made of.
    pub fn storage(&self) -> Storage {
        with_form!(&self.form, form => {
            let form = form.view();
            Storage {
                form: form.name(),
                shape: form.shape(),
                parameters: form.parameters(),
                refreshes: form.refreshes(),
                entries: form.storage(),
            }
        })
    }

    /// A ranking of labels by LORETA from a form whose columns are these labels:
    /// rows are taken as they are.
    pub fn ranking<R: Real>(
        form: crate::form::Factored<R>,
        features: Features,
        labels: Ids,
        prior: Prior,
        rule: RankingRule,
        step_size: f64,
    ) -> Result<Self> {
        let mut model = Self::new("loreta", Form::Factored(form), features);
        let columns = model.columns_of(Side::Right);
        if labels.len() != columns || prior.bias.len() != columns || prior.count.len() != columns {
            return Err(Error::input(format!(
                "{} labels and {} biases for {columns} columns",
                labels.len(),
                prior.bias.len()
            )));
        }
        model.card.step_size = step_size;
        model.card.step_limit = Some(crate::online::Step::LIMIT);
        model.knowledge = Knowledge::Ranking(Ranked { rule, prior });
        model.objects = Some(Objects {
            features: Features::Named(labels),
            preprocess: Preprocess::default(),
        });
        Ok(model)
    }

    /// The name of its task, such as `similarity`.
    pub fn task(&self) -> &'static str {
        self.knowledge.task()
    }

    /// k.
    pub fn rank(&self) -> usize {
        with_form!(&self.form, form => form.view().rank())
    }

    /// How many features the model knows.
    pub fn columns(&self) -> usize {
        self.columns_of(Side::Left)
    }

    /// How many features a side of the model knows.
    pub fn columns_of(&self, side: Side) -> usize {
        let (left, right) = with_form!(&self.form, form => form.view().shape());
        match side {
            Side::Left => left,
            Side::Right => right,
        }
    }

    /// Whether rows and objects have the same features, so that they could be
    /// compared without the model. Numbers alone do not say so.
    pub fn sides_share_features(&self) -> bool {
        let names = self.features.names();
        let objects = self.objects.as_ref();
        objects.is_none_or(|objects| names.is_some() && names == objects.features.names())
    }

    /// What a side of the model calls its features, and what is done to its
    /// rows. Without objects both sides are the same.
    pub fn side(&self, side: Side) -> (&Features, &Preprocess) {
        match (side, &self.objects) {
            (Side::Right, Some(objects)) => (&objects.features, &objects.preprocess),
            _ => (&self.features, &self.preprocess),
        }
    }

    /// `f32` or `f64`.
    pub fn precision(&self) -> &'static str {
        match &self.form {
            Precise::F32(_) => f32::NAME,
            Precise::F64(_) => f64::NAME,
        }
    }

    /// The singular values of W, falling; `None` for a full matrix, where they
    /// are not at hand.
    pub fn singular_values(&self) -> Result<Option<Vec<f64>>> {
        if matches!(self.knowledge, Knowledge::Multitask(_)) {
            // Weights may have lost rank.
            let (u, weights) = self.task_factors()?;
            let whole = svd_of_product(&u, &weights, u.ncols());
            let (_, sigma, _) = whole.ok_or_else(rank_lost)?;
            return Ok(Some(sigma));
        }
        let (gauge, full) = with_form!(&self.form, form => {
            (form.view().gauge(), form.view().factors().is_none())
        });
        match gauge {
            _ if full => Ok(None),
            Some(gauge) => Ok(Some(gauge.singular_values)),
            None => Err(rank_lost()),
        }
    }

    /// The vocabulary that makes rows of texts, where the model was trained
    /// with one.
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        self.features.vocabulary()
    }

    /// Reads rows for this model: JSON lines are documents where it has a
    /// vocabulary, all else is read as [`read_labelled`](crate::data::read_labelled)
    /// does.
    pub fn read<R: Real>(&self, source: &Documents) -> Result<Labelled<R>> {
        self.read_side(source, Side::Left)
    }

    /// Reads rows of either side: objects where the model has some.
    pub fn read_side<R: Real>(&self, source: &Documents, side: Side) -> Result<Labelled<R>> {
        let features = &self.side(side).0;
        let source = source.clone().knowing(features);
        read_with(&source, features.vocabulary())
    }

    /// Makes rows ready: puts their columns in the model's order and applies
    /// the preprocessing that the model learned.
    pub fn prepare<R: Real>(&self, rows: Rows<R>, features: &Features) -> Result<Prepared<R>> {
        self.prepare_side(rows, features, Side::Left)
    }

    /// The same for either side: objects where the model has some.
    pub fn prepare_side<R: Real>(
        &self,
        rows: Rows<R>,
        features: &Features,
        side: Side,
    ) -> Result<Prepared<R>> {
        let columns = self.columns_of(side);
        let (known, preprocess) = self.side(side);
        let before = rows.nnz();
        let rows = known.align(rows, features)?;
        let known = rows
            .iter()
            .map(|row| row.indices.partition_point(|&j| (j as usize) < columns))
            .sum::<usize>();
        let plain = preprocess.passes(&rows);
        Ok(Prepared {
            rows: if plain {
                rows
            } else {
                preprocess.apply(&rows, columns)?
            },
            unknown_entries: before - known,
        })
    }

    /// Writes the model to one file, which is complete or not there at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.save_with(path.as_ref(), Tensors::new())
    }

    /// The same with more tensors beside those of the model.
    pub(crate) fn save_with(&self, path: &Path, more: Tensors<'_>) -> Result<()> {
        with_form!(&self.form, form => {
            let left = (&self.features, &self.preprocess);
            let right = self.objects.as_ref().map(|o| (&o.features, &o.preprocess));
            save_parts(path, (&self.card, &self.knowledge), form.view(), left, right, more)
        })
    }

    /// The bytes of the file that [`Model::save`] writes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (json, tensors) = with_form!(&self.form, form => {
            let left = (&self.features, &self.preprocess);
            let right = self.objects.as_ref().map(|o| (&o.features, &o.preprocess));
            parts((&self.card, &self.knowledge), form.view(), left, right, Tensors::new())?
        });
        file::bytes(json, tensors)
    }

    /// Reads a model from the bytes of its file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let parsed = Self::parse(Path::new(""), bytes);
        parsed.map_err(|e| Error { file: None, ..e })
    }

    /// Reads a model from its file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::parse(path, &file::read(path)?)
    }

    /// Reads a model from the bytes of a file; errors name it by this path.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        Self::from_file(&TensorFile::parse(path, bytes)?)
    }

    pub(crate) fn from_file(file: &TensorFile<'_>) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
            #[serde(default)]
            unfinished: bool,
        }
        let broken = |e: serde_json::Error| file.error(format!("the metadata is damaged: {e}"));
        let version: Version = serde_json::from_str(&file.card).map_err(broken)?;
        if version.format > FORMAT {
            return Err(file.error(format!(
                "written in format {}, this version of rankfold reads up to {FORMAT}: update rankfold",
                version.format
            )));
        }
        if version.unfinished {
            return Err(file.error(
                "a checkpoint of a run that has no model yet: go on with `rankfold train --resume`",
            ));
        }
        let header: Header = serde_json::from_str(&file.card).map_err(broken)?;
        let low_rank = matches!(
            header.form.as_str(),
            "factored" | "psd" | "polar" | "polar-psd"
        );
        if low_rank && !(1..=1 << 16).contains(&header.rank) {
            return Err(file.error(format!("a rank of {} is not possible", header.rank)));
        }
        header.card.check().map_err(|message| file.error(message))?;
        let (name, rank, upkeep) = (&header.form, header.rank, header.upkeep);
        let form = match header.precision.as_str() {
            "f32" => Precise::F32(forms::read(file, name, rank, upkeep, "")?),
            "f64" => Precise::F64(forms::read(file, name, rank, upkeep, "")?),
            other => return Err(file.error(format!("unknown precision `{other}`"))),
        };
        let checked = with_form!(&form, form => forms::check(form.view()));
        checked.map_err(|message| file.error(message))?;
        let (left, right) = with_form!(&form, form => form.view().shape());
        let found = with_form!(&form, form => form.view().rank());
        if found != rank {
            return Err(file.error(format!("a rank of {rank} for a form of rank {found}")));
        }
        if header.objects.is_none() && left != right {
            let message = format!("{left} by {right} features, but nothing is said of objects");
            return Err(file.error(message));
        }
        let (features, preprocess) =
            read_side(file, Side::Left, &header.features, header.preprocess, left)?;
        let objects = match &header.objects {
            None => None,
            Some(_) if matches!(header.form.as_str(), "psd" | "polar-psd") => {
                return Err(file.error("a symmetric matrix has no objects of other features"));
            }
            Some(kind) => {
                let steps = match header.known.takes_objects_as_they_are() {
                    true => Steps::default(),
                    false => header.preprocess,
                };
                let read = read_side(file, Side::Right, kind, steps, right)?;
                let (features, preprocess) = read;
                Some(Objects {
                    features,
                    preprocess,
                })
            }
        };
        let knowledge = header.known.read(
            file,
            &Frame {
                rank: header.rank,
                shape: (left, right),
                precision: &header.precision,
                features: &features,
                objects: objects.as_ref(),
            },
        )?;
        Ok(Model {
            card: header.card,
            form,
            features,
            preprocess,
            objects,
            knowledge,
        })
    }
}

/// What the names of a side's tensors start with.
fn prefixes(side: Side) -> (&'static str, &'static str) {
    match side {
        Side::Left => ("ids.left", "preprocess"),
        Side::Right => ("ids.right", "preprocess.right"),
    }
}

/// The features of a side and the preprocessing of its rows.
fn read_side(
    file: &TensorFile<'_>,
    side: Side,
    kind: &str,
    steps: Steps,
    columns: usize,
) -> Result<(Features, Preprocess)> {
    let (ids, vectors) = prefixes(side);
    let named = || -> Result<Ids> {
        let (bytes, offsets) = (
            file.u8s(&format!("{ids}.bytes"))?,
            file.u64s(&format!("{ids}.offsets"))?,
        );
        let ids = Ids::from_parts(&bytes, &offsets).map_err(|e| file.error(e))?;
        if ids.len() != columns {
            return Err(file.error(format!(
                "{} feature names for {columns} features",
                ids.len()
            )));
        }
        Ok(ids)
    };
    let features = match kind {
        "numbered" => Features::Numbered,
        "terms" if side == Side::Left => {
            let parsed = Vocabulary::parse(&file.u8s(VOCABULARY)?);
            let vocabulary = parsed.map_err(|message| file.error(message))?;
            if vocabulary.len() != columns {
                let terms = vocabulary.len();
                return Err(file.error(format!("{terms} terms for {columns} features")));
            }
            Features::Terms(vocabulary)
        }
        "named" => Features::Named(named()?),
        "columns" => Features::Columns(named()?),
        other => return Err(file.error(format!("unknown kind of features `{other}`"))),
    };
    let vector = |name: &str| -> Result<Option<Vec<f64>>> {
        let name = format!("{vectors}.{name}");
        file.has(&name)
            .then(|| file.f64s(&name, columns))
            .transpose()
    };
    let preprocess = Preprocess {
        steps,
        fill: vector("fill")?,
        weight: vector("weight")?,
        mean: vector("mean")?,
        scale: vector("scale")?,
    };
    if !preprocess.is_consistent() {
        return Err(file.error("the preprocessing is incomplete"));
    }
    Ok((features, preprocess))
}

/// Refuses to write a form that could not be used: what is read back is checked in the
/// same way, and all commands need its gauge.
pub(crate) fn check_usable<R: Real>(form: crate::form::FormRef<'_, R>) -> Result<()> {
    let refuse = |why: String| Error::failure(format!("{why}; nothing was written"));
    forms::check(form).map_err(refuse)?;
    match form.factors().is_some() && form.gauge().is_none() {
        true => Err(refuse(rank_lost().message)),
        false => Ok(()),
    }
}

pub(crate) fn rank_lost() -> Error {
    let message =
        "the model has lost rank to working precision, so its singular values are not known";
    Error::failure(message).about("model")
}

/// Writes a model from borrowed parts, with more tensors beside them. Each side
/// has its features and its preprocessing, the right one only where objects are
/// other things.
pub(crate) fn save_parts<R: Real>(
    path: &Path,
    (card, knowledge): (&Card, &Knowledge),
    form: crate::form::FormRef<'_, R>,
    left: (&Features, &Preprocess),
    right: Option<(&Features, &Preprocess)>,
    more: Tensors<'_>,
) -> Result<()> {
    let parts = parts((card, knowledge), form, left, right, more);
    let (json, tensors) = parts.map_err(|e| e.in_file(path))?;
    file::write(path, json, tensors)
}

/// The metadata and the tensors of a model.
fn parts<'a, R: Real>(
    (card, knowledge): (&Card, &'a Knowledge),
    form: crate::form::FormRef<'a, R>,
    left: (&'a Features, &'a Preprocess),
    right: Option<(&'a Features, &'a Preprocess)>,
    more: Tensors<'a>,
) -> Result<(String, Tensors<'a>)> {
    if !forms::is_finite(form) {
        let message = "the model holds a number that is not finite; nothing was written";
        return Err(Error::failure(message));
    }
    let mut tensors = forms::tensors(form, "");
    push_side(&mut tensors, Side::Left, left)?;
    if let Some(right) = right {
        push_side(&mut tensors, Side::Right, right)?;
    }
    tensors.extend(knowledge.tensors());
    tensors.extend(more);
    let header = Header {
        card: card.clone(),
        known: knowledge.stored(),
        form: form.name().into(),
        rank: form.rank(),
        precision: R::NAME.into(),
        features: left.0.kind().into(),
        objects: right.map(|(features, _)| features.kind().into()),
        preprocess: left.1.steps,
        upkeep: forms::upkeep(form),
    };
    // By way of a value, whose keys are sorted: equal models have equal bytes.
    let json = serde_json::to_value(&header)
        .map_err(|e| Error::failure(format!("cannot describe the model: {e}")))?;
    let json = json.to_string();
    // A number that is not finite is `null` in JSON, which could not be read back.
    if serde_json::from_str::<Header>(&json).is_err() {
        let message =
            "the card of the model holds a number that is not finite; nothing was written";
        return Err(Error::failure(message));
    }
    Ok((json, tensors))
}

/// The tensors of a side.
fn push_side(
    tensors: &mut Tensors<'_>,
    side: Side,
    (features, preprocess): (&Features, &Preprocess),
) -> Result<()> {
    let (ids, vectors) = prefixes(side);
    if let Features::Named(names) | Features::Columns(names) = features {
        let (bytes, offsets) = names.to_parts();
        tensors.push((format!("{ids}.bytes"), Tensor::u8s(bytes)));
        tensors.push((format!("{ids}.offsets"), Tensor::u64s(offsets)));
    }
    if let Some(vocabulary) = features.vocabulary() {
        let mut text = Vec::new();
        let written = vocabulary.write(&mut text);
        written.map_err(|e| Error::failure(format!("cannot describe the vocabulary: {e}")))?;
        tensors.push((VOCABULARY.into(), Tensor::u8s(text)));
    }
    let all = [
        ("fill", &preprocess.fill),
        ("weight", &preprocess.weight),
        ("mean", &preprocess.mean),
        ("scale", &preprocess.scale),
    ];
    for (name, values) in all {
        if let Some(values) = values {
            tensors.push((format!("{vectors}.{name}"), Tensor::f64s(values.clone())));
        }
    }
    Ok(())
}
