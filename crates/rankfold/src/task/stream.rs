//! Examples of a stream, read and learned one by one: what `rankfold update` and the
//! service both do with a line, so that both give the same bytes.

use super::{ChoiceLearner, Online, RatingLearner, Sides, TaskLearner};
use crate::data::{
    ChoiceLines, DistanceStream, FeatureMap, LabelStream, Lines, Names, RatingLines, RowLookup,
    StreamRow, TaskLines, TripletStream, ValueStream,
};
use crate::form::Side;
use crate::model::Knowledge;
use crate::{Error, Real, Result, Rows};

/// Examples of a model that goes on as an [`Online`]: which ones depends on its task.
#[non_exhaustive]
pub enum ExampleStream<R> {
    /// `{"query":R,"positive":R,"negative":R}`.
    Triplets(TripletStream<R>),
    /// `{"row":R,"labels":[…]}`.
    Labels(LabelStream<R>),
    /// `{"left":R,"right":R,"value":…}`.
    Values(ValueStream<R>),
    /// `{"left":R,"right":R,"same":…}`.
    Distances(DistanceStream<R>),
}

impl<R: Real> ExampleStream<R> {
    /// What a model of this kind reads.
    fn new(knowledge: &Knowledge, lines: Lines) -> Result<Self> {
        match knowledge {
            Knowledge::Similarity(_) => Ok(ExampleStream::Triplets(TripletStream::new(lines))),
            Knowledge::Ranking(_) => Ok(ExampleStream::Labels(LabelStream::new(lines))),
            Knowledge::Pairs { .. } => Ok(ExampleStream::Values(ValueStream::new(lines))),
            Knowledge::Metric => Ok(ExampleStream::Distances(DistanceStream::new(lines))),
            other @ (Knowledge::Completion(_)
            | Knowledge::Recommend(_)
            | Knowledge::Multitask(_)
            | Knowledge::Kernel(_)
            | Knowledge::Map(_)) => Err(other.expected("similarity, ranking, pairs or metric")),
        }
    }

    /// What its examples are called.
    pub fn noun(&self) -> &'static str {
        match self {
            ExampleStream::Triplets(_) => "triplets",
            ExampleStream::Labels(_) => "rows",
            ExampleStream::Values(_) | ExampleStream::Distances(_) => "pairs",
        }
    }

    /// The line of the last example.
    pub fn line(&self) -> u64 {
        match self {
            ExampleStream::Triplets(stream) => stream.line(),
            ExampleStream::Labels(stream) => stream.line(),
            ExampleStream::Values(stream) => stream.line(),
            ExampleStream::Distances(stream) => stream.line(),
        }
    }

    /// An error at that line.
    pub fn place(&self, error: Error) -> Error {
        match self {
            ExampleStream::Triplets(stream) => stream.place(error),
            ExampleStream::Labels(stream) => stream.place(error),
            ExampleStream::Values(stream) => stream.place(error),
            ExampleStream::Distances(stream) => stream.place(error),
        }
    }
}

/// The rows that ids of a stream name, made ready by [`Online::prepare_side`].
#[derive(Debug)]
pub struct NamedSides<'a, R> {
    /// Finds rows; `None` where ids name nothing.
    pub rows: Option<&'a RowLookup<'a>>,
    /// Finds what stands on the right. Where a model has no objects of its own this is the same
    /// as `rows`.
    pub objects: Option<&'a RowLookup<'a>>,
    /// The rows themselves.
    pub sides: Sides<'a, R>,
}

impl<R> Copy for NamedSides<'_, R> {}

impl<R> Clone for NamedSides<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, R: Real> NamedSides<'a, R> {
    /// Where names lead on both sides of a learner.
    fn names<'n>(&self, learner: &'n Online<R>) -> (Names<'n>, Names<'n>)
    where
        'a: 'n,
    {
        let left = Names::new(learner.features(), self.rows);
        let right = Names::new(learner.features_of(Side::Right), self.objects);
        match learner.has_objects() {
            true => (left, right.of_objects()),
            false => (left, right),
        }
    }
}

/// How many columns both sides would have after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// Columns of the left side.
    pub left: usize,
    /// Columns of the right side.
    pub right: usize,
}

impl<R: Real> Online<R> {
    /// The examples of its task in these lines.
    pub fn stream(&self, lines: Lines) -> Result<ExampleStream<R>> {
        ExampleStream::new(&self.knowledge, lines)
    }

    /// Reads the next example and learns it: whether there was something to learn, and `None` at
    /// the end of the stream. Errors have no place, unless the line cannot be read.
    pub fn follow(
        &mut self,
        stream: &mut ExampleStream<R>,
        named: &NamedSides<'_, R>,
    ) -> Result<Option<bool>> {
        let (left, right) = named.names(self);
        match stream {
            ExampleStream::Triplets(stream) => {
                let Some(triplet) = stream.read_between(left, right)? else {
                    return Ok(None);
                };
                self.learn_line(&triplet, named.sides)?;
            }
            ExampleStream::Labels(stream) => {
                let Some((row, labels)) = stream.read(left)? else {
                    return Ok(None);
                };
                let learned = self.learn_labelled(row, labels, named.sides.left)?;
                return Ok(Some(learned.is_some()));
            }
            ExampleStream::Values(stream) => {
                let Some((pair, value)) = stream.read(left, right)? else {
                    return Ok(None);
                };
                self.learn_value(pair, value, named.sides)?;
            }
            ExampleStream::Distances(stream) => {
                let Some((pair, said)) = stream.read(left, right)? else {
                    return Ok(None);
                };
                self.learn_distance(pair, said, named.sides)?;
            }
        }
        Ok(Some(true))
    }

    /// Reads the next example and learns nothing: how large the model would be after it, and
    /// `None` at the end of the stream.
    pub fn peek(
        &self,
        stream: &mut ExampleStream<R>,
        named: &NamedSides<'_, R>,
    ) -> Result<Option<Growth>> {
        let (left, right) = named.names(self);
        let mut growth = Growth {
            left: self.columns_of(Side::Left),
            right: self.columns_of(Side::Right),
        };
        match stream {
            ExampleStream::Triplets(stream) => {
                let Some(triplet) = stream.read_between(left, right)? else {
                    return Ok(None);
                };
                growth.left = after(growth.left, &triplet.query);
                for row in [&triplet.positive, &triplet.negative] {
                    growth.right = after(growth.right, row);
                }
            }
            ExampleStream::Labels(stream) => {
                let Some((row, labels)) = stream.read(left)? else {
                    return Ok(None);
                };
                growth.left = after(growth.left, &row);
                growth.right = growth.right.saturating_add(labels.len());
            }
            ExampleStream::Values(stream) => {
                let Some((pair, _)) = stream.read(left, right)? else {
                    return Ok(None);
                };
                growth.left = after(growth.left, &pair[0]);
                growth.right = after(growth.right, &pair[1]);
            }
            ExampleStream::Distances(stream) => {
                let Some((pair, _)) = stream.read(left, right)? else {
                    return Ok(None);
                };
                growth.left = after(growth.left, &pair[0]);
                growth.right = after(growth.right, &pair[1]);
            }
        }
        Ok(Some(growth))
    }
}

/// Columns with a row of a stream in them.
fn after<R>(columns: usize, row: &StreamRow<'_, R>) -> usize {
    match row {
        StreamRow::Row(_) => columns,
        StreamRow::Features { known, new } => {
            let last = known.last().map_or(0, |&(column, _)| column as usize + 1);
            columns.max(last).saturating_add(new.len())
        }
    }
}

impl<R: Real> RatingLearner<R> {
    /// Reads the next rating and learns it; false at the end.
    pub fn follow(&mut self, lines: &mut RatingLines) -> Result<bool> {
        if !lines.advance()? {
            return Ok(false);
        }
        let learned = lines.rating(|user, item, rating| self.learn(user, item, rating));
        learned.map_err(|e: Error| lines.error(e.message))?;
        Ok(true)
    }
}

impl ChoiceLearner {
    /// Reads the next choice and learns it; false at the end. Where `measure` asks for it, the
    /// gain that its item would have brought before is told.
    pub fn follow(
        &mut self,
        lines: &mut ChoiceLines,
        measure: bool,
        gained: impl FnOnce(f64),
    ) -> Result<bool> {
        if !lines.advance()? {
            return Ok(false);
        }
        let learned = lines.choice(|choice| {
            let gain = measure.then(|| self.gain_of(choice.user, choice.item));
            if let Some(gain) = gain.flatten() {
                gained(gain);
            }
            self.learn(choice.user, choice.item, choice.weight)
        });
        learned.map_err(|e: Error| lines.error(e.message))?;
        Ok(true)
    }
}

impl TaskLearner {
    /// Reads the next row of a task and learns it; false at the end.
    pub fn follow(&mut self, lines: &mut TaskLines, map: &mut FeatureMap<'_>) -> Result<bool> {
        if !lines.advance()? {
            return Ok(false);
        }
        let line = lines.line();
        let row = map.align(line.row, lines.features());
        self.learn(line.task, row, line.target)?;
        Ok(true)
    }
}

/// No rows at all, for streams that bring theirs by value.
impl<'a, R> From<&'a Rows<R>> for NamedSides<'a, R> {
    fn from(rows: &'a Rows<R>) -> Self {
        NamedSides {
            rows: None,
            objects: None,
            sides: rows.into(),
        }
    }
}
