//! Answers from one model that does not change: what readers see while the learner goes on.

mod asks;
mod choices;
mod labels;
mod map;
mod ratings;
mod rows;
mod tasks;

use std::sync::Arc;

use rankfold::model::Knowledge;
use rankfold::{Error, Model, Real, Result};
use serde_json::{Value, json};

use crate::book::{Added, Base};
use crate::error::Refused;
use crate::index::Index;

pub use asks::{
    Ask, NeighborsAsk, PredictAsk, RecommendAsk, RowAsk, TransformAsk, kept_features, side_of,
};
pub use map::Dot;
pub use rows::{RowView, project};

/// An answer, or why there is none.
pub type Answer<T = Value> = std::result::Result<T, Refused>;

/// One of the best.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub id: String,
    pub score: f64,
    pub sd: Option<f64>,
    /// The label that the file of rows has for it.
    pub label: Option<String>,
}

impl Found {
    fn new(id: impl Into<String>, score: f64) -> Self {
        Found {
            id: id.into(),
            score,
            sd: None,
            label: None,
        }
    }

    pub fn json(&self) -> Value {
        let mut one = json!({ "id": self.id, "score": self.score });
        if let Some(sd) = self.sd {
            one["sd"] = json!(sd);
        }
        if let Some(label) = &self.label {
            one["label"] = json!(label);
        }
        one
    }
}

/// What a model answers. What it does not answer, it refuses in words.
pub trait View: Send + Sync {
    fn model(&self) -> &Arc<Model>;

    /// The lists of several queries at once, which share the reading of the rows.
    fn neighbors(&self, asks: &[NeighborsAsk]) -> Vec<Answer<Vec<Found>>> {
        asks.iter().map(|_| Err(self.no("/v1/neighbors"))).collect()
    }

    fn rank(&self, _: &RowAsk) -> Answer<Vec<Found>> {
        Err(self.no("/v1/rank"))
    }

    fn recommend(&self, _: &RecommendAsk) -> Answer<Vec<Found>> {
        Err(self.no("/v1/recommend"))
    }

    /// A prediction for each input, and how many of them name something unknown.
    fn predict(&self, ask: &PredictAsk) -> Answer<(Vec<Value>, usize)>;

    fn transform(&self, _: &TransformAsk) -> Answer<Vec<Vec<f64>>> {
        Err(self.no("/v1/transform"))
    }

    /// How many rows, users or tasks there are to ask for.
    fn rows(&self) -> usize;

    /// Ids that begin so, at most `limit` of them.
    fn ids(&self, prefix: &str, limit: usize) -> Vec<(String, Option<String>)>;

    /// A row by value.
    fn row(&self, id: &str) -> Answer<Value> {
        Err(Refused::not_found(format!("no row is called `{id}`")))
    }

    /// Whether examples name rows of a file.
    fn names_rows(&self) -> bool {
        false
    }

    /// The row of the file that a field of an example names, by value.
    fn file_row(&self, _field: &str, _id: &str) -> Option<String> {
        None
    }

    /// Some rows in the plane.
    fn map(&self, _limit: usize) -> Answer<Vec<Dot>> {
        Err(self.no("/v1/map"))
    }

    /// The index that is searched, where there is one.
    fn index(&self) -> Option<&Arc<Index>> {
        None
    }

    /// What is said of a question that such a model does not answer.
    fn no(&self, what: &str) -> Refused {
        let asks = match &self.model().knowledge {
            Knowledge::Multitask(_) => "the model predicts targets: ask /v1/predict",
            Knowledge::Completion(_) => {
                "the model predicts ratings: ask /v1/recommend, /v1/predict or /v1/neighbors"
            }
            Knowledge::Recommend(_) => {
                "the model lists items for users: ask /v1/recommend, /v1/predict or /v1/neighbors"
            }
            Knowledge::Ranking(_) => "the model ranks labels: ask /v1/rank or /v1/predict",
            _ => "the model scores rows: ask /v1/neighbors, /v1/predict or /v1/transform",
        };
        Refused::input(format!("{what} does not apply: {asks}"))
    }
}

/// An error about a score that cannot be told.
fn not_finite(what: &str) -> Refused {
    Refused::input(format!(
        "the score of {what} is not a finite number: some values are too large"
    ))
}

/// What rows a view answers with.
pub struct Rows<R: 'static> {
    pub left: &'static Base<R>,
    /// The objects of a model that has some.
    pub right: Option<&'static Base<R>>,
    pub added: [Arc<Added>; 2],
}

impl<R> Clone for Rows<R> {
    fn clone(&self) -> Self {
        Rows {
            left: self.left,
            right: self.right,
            added: self.added.clone(),
        }
    }
}

/// The view of a model of any task.
pub fn view<R: Real>(
    model: Arc<Model>,
    rows: &Rows<R>,
    index: Option<Arc<Index>>,
) -> Result<Arc<dyn View>> {
    Ok(match &model.knowledge {
        Knowledge::Similarity(_) | Knowledge::Metric | Knowledge::Pairs { .. } => {
            Arc::new(RowView::new(model, rows, index)?)
        }
        Knowledge::Ranking(_) => Arc::new(labels::LabelView::new(model, rows)?),
        Knowledge::Completion(_) => Arc::new(ratings::RatingView::new(model)?),
        Knowledge::Recommend(_) => Arc::new(choices::ChoiceView::new(model)?),
        Knowledge::Multitask(_) => Arc::new(tasks::TaskAnswers::new(model)?),
        Knowledge::Kernel(_) | Knowledge::Map(_) => {
            return Err(Error::input(
                "a kernel knows its own items only, and is not served: use `rankfold neighbors`",
            ));
        }
    })
}
