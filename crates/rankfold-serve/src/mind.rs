//! Any model that goes on learning from lines of JSON, as `rankfold update` does.

use std::io::Cursor;

use rankfold::data::{
    ChoiceColumns, ChoiceLines, FeatureMap, Lines, RatingColumns, RatingLines, TaskLines,
};
use rankfold::form::Side;
use rankfold::model::{Counters, Knowledge};
use rankfold::task::{ChoiceLearner, NamedSides, Online, RatingLearner, TaskLearner};
use rankfold::{Error, Ids, Model, Real, Result};

/// A model at work.
pub enum Mind<R: Real> {
    /// Similarities, metrics, rankings and pairs.
    Rows(Box<Online<R>>),
    Ratings(Box<RatingLearner<R>>),
    /// With what a rating must reach to be a choice.
    Choices(Box<ChoiceLearner>, Option<f64>),
    /// With the names of features.
    Tasks(Box<TaskLearner>, Ids),
}

/// Lines as the readers of the library take them.
fn lines(text: &[u8]) -> Lines {
    Lines::new(Box::new(Cursor::new(text.to_vec())), "-")
}

fn too_large(what: &str, limit: usize) -> Error {
    Error::input(format!(
        "the model would have more than {limit} {what}: raise --max-size to let it grow"
    ))
}

impl<R: Real> Mind<R> {
    pub fn new(model: Model) -> Result<Self> {
        Ok(match &model.knowledge {
            Knowledge::Similarity(_)
            | Knowledge::Metric
            | Knowledge::Pairs { .. }
            | Knowledge::Ranking(_) => Mind::Rows(Box::new(model.into_learner()?)),
            Knowledge::Completion(_) => Mind::Ratings(Box::new(model.into_rating_learner()?)),
            Knowledge::Recommend(known) => {
                let liked = known.card.liked_from;
                Mind::Choices(Box::new(model.into_choice_learner()?), liked)
            }
            Knowledge::Multitask(_) => {
                let features = model.task_ids()?.0.clone();
                Mind::Tasks(Box::new(model.into_task_learner()?), features)
            }
            Knowledge::Kernel(_) | Knowledge::Map(_) => {
                return Err(Error::input("kernels and maps do not learn in a service"));
            }
        })
    }

    /// Whether all lines can be learned, before any is; an error has the number of its line.
    pub fn check(&self, text: &[u8], named: &NamedSides<'_, R>, limit: usize) -> Result<()> {
        match self {
            Mind::Rows(learner) => {
                let mut stream = learner.stream(lines(text))?;
                while let Some(growth) = learner.peek(&mut stream, named)? {
                    let before = learner.columns_of(Side::Left).max(limit);
                    let objects = learner.columns_of(Side::Right).max(limit);
                    if growth.left > before || growth.right > objects {
                        return Err(stream.place(too_large("features", limit)));
                    }
                }
            }
            Mind::Ratings(learner) => {
                let mut lines = RatingLines::stream(lines(text), &RatingColumns::default())?;
                let (users, items) = learner.shape();
                while lines.advance()? {}
                room(users.max(items), limit, "users or items")?;
            }
            Mind::Choices(learner, liked) => {
                let columns = ChoiceColumns::default();
                let mut lines = ChoiceLines::stream(lines(text), &columns, *liked)?;
                while lines.advance()? {}
                let (users, items) = learner.sizes();
                room(users.max(items), limit, "users or items")?;
            }
            Mind::Tasks(learner, _) => {
                let mut lines = TaskLines::from_lines(lines(text));
                while lines.advance()? {}
                room(learner.tasks(), limit, "tasks")?;
            }
        }
        Ok(())
    }

    /// Learns one line.
    pub fn learn(&mut self, text: &[u8], named: &NamedSides<'_, R>) -> Result<()> {
        match self {
            Mind::Rows(learner) => {
                let mut stream = learner.stream(lines(text))?;
                learner.follow(&mut stream, named)?;
            }
            Mind::Ratings(learner) => {
                let mut lines = RatingLines::stream(lines(text), &RatingColumns::default())?;
                learner.follow(&mut lines)?;
            }
            Mind::Choices(learner, liked) => {
                let columns = ChoiceColumns::default();
                let mut lines = ChoiceLines::stream(lines(text), &columns, *liked)?;
                learner.follow(&mut lines, false, |_| ())?;
            }
            Mind::Tasks(learner, features) => {
                let mut lines = TaskLines::from_lines(lines(text));
                let mut map = FeatureMap::new(features, lines.features(), false)?;
                learner.follow(&mut lines, &mut map)?;
            }
        }
        Ok(())
    }

    /// A copy of the model as it is now.
    pub fn to_model(&self) -> Result<Model> {
        match self {
            Mind::Rows(learner) => learner.to_model(),
            Mind::Ratings(learner) => learner.to_model(),
            Mind::Choices(learner, _) => learner.to_model(),
            Mind::Tasks(learner, _) => learner.to_model(),
        }
    }

    pub fn counters(&self) -> Counters {
        match self {
            Mind::Rows(learner) => learner.counters(),
            Mind::Ratings(learner) => learner.counters(),
            Mind::Choices(learner, _) => learner.counters(),
            Mind::Tasks(learner, _) => learner.counters(),
        }
    }
}

fn room(size: usize, limit: usize, what: &str) -> Result<()> {
    match size >= limit {
        true => Err(too_large(what, limit)),
        false => Ok(()),
    }
}
