//! What a model knows beside W: one variant a task.
//!
//! Every verb matches on it, so that a new task does not compile until each verb has
//! said what it does with its models. The enum is exhaustive for that reason.

use super::file::{TensorFile, Tensors};
use super::{
    ClassScore, Classes, CompletionCard, Dissimilarities, KernelCard, MultitaskCard, Objects,
    Prior, RankingRule, RatingBiases, RecommendCard, Recommended, TaskSpace,
};
use crate::data::Features;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a model is for, with what belongs to that and not to W.
#[derive(Debug, Clone, PartialEq)]
pub enum Knowledge {
    /// Scores pairs of rows; with classes where rows are compared by them.
    Similarity(Option<Classes>),
    /// Measures distances between rows.
    Metric,
    /// Ranks labels for rows.
    Ranking(Ranked),
    /// Predicts values of pairs.
    Pairs {
        /// The mean of the values of training.
        target_mean: f64,
    },
    /// Predicts ratings.
    Completion(Rated),
    /// Lists items for users.
    Recommend(Recommended),
    /// A kernel of items.
    Kernel(KernelCard),
    /// A map of items.
    Map(Mapped),
    /// Predicts targets of regressions that share a subspace.
    Multitask(Tasked),
}

/// What a model of labels knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// What is learned from a row.
    pub rule: RankingRule,
    /// Biases and counts of labels.
    pub prior: Prior,
}

/// What a model of ratings knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Rated {
    /// How it was learned.
    pub card: CompletionCard,
    /// Biases and counts of users and items.
    pub biases: RatingBiases,
}

/// What a map knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapped {
    /// How it was learned.
    pub card: KernelCard,
    /// What it was learned from.
    pub dissimilarities: Dissimilarities,
}

/// What a model of regressions knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Tasked {
    /// How it was learned.
    pub card: MultitaskCard,
    /// Biases, scales and moments of the regressions.
    pub space: TaskSpace,
}

impl Knowledge {
    /// The name of the task on the command line and in files.
    pub fn task(&self) -> &'static str {
        match self {
            Knowledge::Similarity(_) => "similarity",
            Knowledge::Metric => "metric",
            Knowledge::Ranking(_) => "ranking",
            Knowledge::Pairs { .. } => "pairs",
            Knowledge::Completion(_) => "completion",
            Knowledge::Recommend(_) => "recommend",
            Knowledge::Kernel(_) | Knowledge::Map(_) => "kernel",
            Knowledge::Multitask(_) => "multitask",
        }
    }

    /// Whether it is of a task of this name; kernels and maps are made by one command.
    pub(crate) fn is_of(&self, task: &str) -> bool {
        match self {
            Knowledge::Map(_) => task == "map",
            known => known.task() == task,
        }
    }

    /// An error for a model that is asked for what models of another task have.
    pub fn expected(&self, task: &str) -> Error {
        Error::input(format!(
            "expected a model of `train {task}`, found one of `train {}`",
            self.task()
        ))
    }

    pub(super) fn tensors(&self) -> Tensors<'_> {
        match self {
            Knowledge::Similarity(None)
            | Knowledge::Metric
            | Knowledge::Pairs { .. }
            | Knowledge::Kernel(_) => Tensors::new(),
            Knowledge::Similarity(Some(classes)) => classes.tensors(),
            Knowledge::Ranking(known) => known.prior.tensors(),
            Knowledge::Completion(known) => known.biases.tensors(),
            Knowledge::Recommend(known) => known.tensors(),
            Knowledge::Map(known) => known.dissimilarities.tensors(),
            Knowledge::Multitask(known) => known.space.tensors(),
        }
    }

    pub(super) fn stored(&self) -> Stored {
        let mut stored = Stored {
            task: self.task().into(),
            ..Stored::default()
        };
        match self.clone() {
            Knowledge::Metric => {}
            Knowledge::Similarity(classes) => stored.classes = classes.map(|c| c.score),
            Knowledge::Ranking(known) => stored.ranking = Some(known.rule),
            Knowledge::Pairs { target_mean } => stored.target_mean = Some(target_mean),
            Knowledge::Completion(known) => stored.completion = Some(known.card),
            Knowledge::Recommend(known) => stored.recommend = Some(known.card),
            Knowledge::Kernel(card) => stored.kernel = Some(card),
            Knowledge::Map(known) => stored.kernel = Some(known.card),
            Knowledge::Multitask(known) => stored.multitask = Some(known.card),
        }
        stored
    }
}

/// The part of the metadata that says what a model knows.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Stored {
    task: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ranking: Option<RankingRule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completion: Option<CompletionCard>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recommend: Option<RecommendCard>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kernel: Option<KernelCard>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    multitask: Option<MultitaskCard>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_mean: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    classes: Option<ClassScore>,
}

/// What is known of a form and of both sides before the knowledge is read.
pub(super) struct Frame<'a> {
    pub rank: usize,
    pub shape: (usize, usize),
    pub precision: &'a str,
    pub features: &'a Features,
    pub objects: Option<&'a Objects>,
}

impl Frame<'_> {
    fn named_objects(&self) -> bool {
        self.objects.is_some_and(|o| o.features.kind() == "named")
    }
}

impl Stored {
    /// Whether the right side is taken as it is, without preprocessing.
    pub fn takes_objects_as_they_are(&self) -> bool {
        self.ranking.is_some() || self.multitask.is_some() || self.recommend.is_some()
    }

    /// Reads what [`Knowledge::tensors`] wrote.
    pub fn read(self, file: &TensorFile<'_>, frame: &Frame<'_>) -> Result<Knowledge> {
        let (left, right) = frame.shape;
        let named = matches!(frame.features, Features::Named(_));
        match self {
            Stored {
                ranking: Some(rule),
                ..
            } => {
                if !frame.named_objects() {
                    return Err(file.error("the names of the labels are missing"));
                }
                if !(rule.bias >= 0.0) {
                    return Err(file.error("a step of biases below 0 is not possible"));
                }
                let prior = Prior::read(file, right)?;
                Ok(Knowledge::Ranking(Ranked { rule, prior }))
            }
            Stored {
                completion: Some(card),
                ..
            } => {
                if !(named && frame.named_objects()) {
                    return Err(file.error("the names of users or items are missing"));
                }
                card.check().map_err(|message| file.error(message))?;
                let biases = RatingBiases::read(file, frame.shape, frame.rank)?;
                Ok(Knowledge::Completion(Rated { card, biases }))
            }
            Stored {
                recommend: Some(card),
                ..
            } => {
                let same = frame.objects.map(|objects| &objects.features) == Some(frame.features);
                if !(named && same && left == right && frame.precision == "f32") {
                    return Err(file.error("the names of the items are missing"));
                }
                Ok(Knowledge::Recommend(Recommended::read(file, card, right, frame.rank)?))
            }
            Stored {
                kernel: Some(card), ..
            } => {
                if !named || left != right || frame.objects.is_some() {
                    return Err(file.error("the names of the items are missing"));
                }
                if !(card.alpha >= 0.0) {
                    return Err(file.error("an alpha below 0 is not possible"));
                }
                if !card.map {
                    return Ok(Knowledge::Kernel(card));
                }
                let dissimilarities = Dissimilarities::read(file, left)?;
                Ok(Knowledge::Map(Mapped {
                    card,
                    dissimilarities,
                }))
            }
            Stored {
                multitask: Some(card),
                ..
            } => {
                let columns = matches!(frame.features, Features::Columns(_));
                if !(columns && frame.named_objects() && frame.precision == "f64") {
                    return Err(file.error("the names of features or tasks are missing"));
                }
                let space = TaskSpace::read(file, frame.shape, frame.rank, &card)?;
                Ok(Knowledge::Multitask(Tasked { card, space }))
            }
            Stored {
                task,
                target_mean,
                classes,
                ..
            } => match (&task[..], target_mean) {
                ("similarity", _) => {
                    let classes = classes.map(|score| Classes::read(file, score, left));
                    Ok(Knowledge::Similarity(classes.transpose()?))
                }
                ("metric", _) => Ok(Knowledge::Metric),
                ("pairs", Some(target_mean)) if target_mean.is_finite() => {
                    Ok(Knowledge::Pairs { target_mean })
                }
                ("pairs", _) => Err(file.error("the mean of the values is missing")),
                ("ranking" | "completion" | "recommend" | "kernel" | "multitask", _) => {
                    Err(file.error(format!("the part of the metadata for {task} is missing")))
                }
                _ => Err(file.error(format!(
                    "a model for `{task}`, which this version of rankfold does not know: update rankfold"
                ))),
            },
        }
    }
}
