//! A model that goes on learning, one triplet at a time, and grows as new
//! features come.
//!
//! New rows of a factor are zero, which leaves W and its Gram matrices exact: a
//! grown model is the one that had all features from the start. The
//! preprocessing stays as training left it; of a new feature it knows nothing,
//! so that one has the weight of the rarest known feature (a term seen once),
//! mean 0 and scale 1, and a missing cell of it is 0.

use super::course::count;
use super::decayed;
use super::ranking::LabelLearner;
use super::triplet::{Examples, Sides, TripletRows};
use crate::data::{Features, StreamRow};
use crate::form::{Form, Newcomer, Side};
use crate::model::{
    Card, Counters, Knowledge, Model, Objects, Precise, Preprocess, check_usable, save_parts,
};
use crate::online::{AnyLearner, Learned, Learner, RankOne, Rule, Step, StepRule};
use crate::random::normal_at;
use crate::sample::Triplet;
use crate::sparse::MAX_INDEX;
use crate::{Error, Real, Result, Rows, SparseRow, SparseVec};
use std::path::Path;

/// The stream of deviates that new rows of the left side start with.
const NEW_ROWS: u64 = 2;

/// A model at work: it takes triplets of raw rows, learns and grows.
///
/// ```
/// use rankfold::data::{Labelled, Labels};
/// use rankfold::{Rows, Similarity, SparseVec, sample::Triplet};
///
/// let rows = Rows::from_sparse([[0, 1], [0, 2], [3, 4], [3, 5]].map(|row| row.map(|j| (j, 1.0_f32))));
/// let train = Labelled::new(rows.unwrap());
/// let train = train.with_labels(Labels::single([0, 0, 1, 1])).unwrap();
/// let model = Similarity::default().rank(2).steps(100).fit(&train).unwrap();
///
/// let mut learner = model.into_learner::<f32>().unwrap();
/// let row = |features: &[u32]| SparseVec::from_entries(features.iter().map(|&j| (j, 1.0)).collect());
/// let (query, positive, negative) = (row(&[0, 9]), row(&[0, 1]), row(&[3, 4]));
/// let triplet = Triplet {
///     query: query.as_row(),
///     positive: positive.as_row(),
///     negative: negative.as_row(),
/// };
/// learner.learn(&triplet).unwrap();
/// assert!(learner.score(query.as_row(), positive.as_row()).unwrap().is_finite());
/// let model = learner.into_model();
/// assert_eq!((model.columns(), model.card.counters.steps), (10, 101));
/// ```
#[derive(Debug)]
pub struct Online<R: Real> {
    pub(super) learner: AnyLearner<R>,
    pub(super) card: Card,
    /// What the model is for. That of labels stands in `labels`, where it is learned.
    pub(super) knowledge: Knowledge,
    rows: Known,
    /// What the right side knows, where objects are other things.
    objects: Option<Known>,
    /// What is known of labels, where these are ranked.
    pub(super) labels: Option<LabelLearner<R>>,
    examples: Examples<R>,
    scratch: Scratch<R>,
}

/// What the model knows of things of one kind.
#[derive(Debug)]
struct Known {
    features: Features,
    preprocess: Preprocess,
    /// Features that training knew; later ones are new.
    trained: usize,
    largest_weight: f64,
}

impl Known {
    fn new(features: Features, preprocess: Preprocess, columns: usize, new: u64) -> Self {
        let new = usize::try_from(new).unwrap_or(usize::MAX);
        Known {
            features,
            largest_weight: preprocess.largest_weight(),
            preprocess,
            trained: columns.saturating_sub(new),
        }
    }

    /// Whether a row has nothing but features that training did not know.
    fn is_new<R: Real>(&self, row: SparseRow<'_, R>) -> bool {
        let first = row.iter().find(|e| e.1 != R::default());
        first.is_some_and(|(column, _)| column as usize >= self.trained)
    }
}

/// The sides of query, positive and negative.
const SIDES: [Side; 3] = [Side::Left, Side::Right, Side::Right];

/// Memory that is used again for each triplet.
#[derive(Debug, Default)]
struct Scratch<R> {
    raw: [SparseVec<R>; 3],
    rows: [SparseVec<R>; 3],
    wide: Vec<f64>,
}

impl Model {
    /// Puts the model to work again: it goes on where its training ended.
    pub fn into_learner<R: Real>(self) -> Result<Online<R>> {
        match &self.knowledge {
            Knowledge::Similarity(_)
            | Knowledge::Ranking(_)
            | Knowledge::Pairs { .. }
            | Knowledge::Metric => {}
            other => {
                return Err(Error::input(format!(
                    "a model for {} cannot go on learning: expected one for similarity, ranking, pairs or metric",
                    other.task()
                )));
            }
        }
        let form = self.form.into_precision::<R>()?;
        let rule = match (&self.knowledge, &form) {
            // Metrics of all learners are stored in one of two forms.
            (Knowledge::Metric, Form::PolarPsd(_)) => Some(Rule::PolarPsd),
            (Knowledge::Metric, _) => Some(Rule::Flat),
            _ => Rule::from_name(&self.card.learner),
        };
        let rule = rule.ok_or_else(|| {
            Error::input(format!(
                "this version of rankfold has no learner `{}`",
                self.card.learner
            ))
        })?;
        let (left, right) = form.view().shape();
        if left != right && self.objects.is_none() {
            return Err(Error::input(format!(
                "a similarity of {left} by {right} features: expected as many on both sides"
            )));
        }
        let counters = &self.card.counters;
        Ok(Online {
            learner: AnyLearner::new(rule, form, counters.steps)?
                .with_aroma(self.card.aroma.unwrap_or_default())
                .with_inner_steps(self.card.inner_steps.unwrap_or_default())
                .regularized(self.card.regularization.unwrap_or(0.0))
                .retracted(self.card.retraction.unwrap_or_default())
                .subspace_weight(share(self.card.subspace_weight)),
            examples: Examples::new(self.card.distances),
            rows: Known::new(self.features, self.preprocess, left, counters.new_features),
            objects: self.objects.map(|objects| {
                let Objects {
                    features,
                    preprocess,
                } = objects;
                Known::new(features, preprocess, right, counters.new_object_features)
            }),
            labels: match &self.knowledge {
                Knowledge::Ranking(known) => Some(LabelLearner::new(known.clone())),
                _ => None,
            },
            knowledge: self.knowledge,
            card: self.card,
            scratch: Scratch::default(),
        })
    }
}

impl<R: Real> Online<R> {
    /// Sets the step size, above 0, from here on.
    pub fn set_step_size(&mut self, size: f64) -> Result<()> {
        if !(size.is_finite() && size > 0.0) {
            return Err(Error::input(format!(
                "the step size must be above 0, found {size}"
            )));
        }
        self.card.step_size = size;
        if self.knowledge == Knowledge::Metric {
            self.card.step_rule = Some(StepRule::Constant(size));
        }
        Ok(())
    }

    /// What the model says about itself.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// The name of the model's task.
    pub fn task(&self) -> &'static str {
        self.knowledge.task()
    }

    /// What was done so far, training included.
    pub fn counters(&self) -> Counters {
        self.card.counters
    }

    /// Rank of W.
    pub fn rank(&self) -> usize {
        self.learner.form().rank()
    }

    /// What the model calls its features.
    pub fn features(&self) -> &Features {
        self.features_of(Side::Left)
    }

    /// What a side calls its features: those of objects on the right, where the
    /// model has some.
    pub fn features_of(&self, side: Side) -> &Features {
        &self.known(side).features
    }

    /// Whether the right side is another kind of things, with features of its own.
    pub fn has_objects(&self) -> bool {
        self.objects.is_some()
    }

    /// How many features the model knows.
    pub fn columns(&self) -> usize {
        self.columns_of(Side::Left)
    }

    /// How many features a side knows.
    pub fn columns_of(&self, side: Side) -> usize {
        let (left, right) = self.learner.form().shape();
        match side {
            Side::Left => left,
            Side::Right => right,
        }
    }

    fn known(&self, side: Side) -> &Known {
        match (side, &self.objects) {
            (Side::Right, Some(objects)) => objects,
            _ => &self.rows,
        }
    }

    fn known_mut(&mut self, side: Side) -> &mut Known {
        match (side, &mut self.objects) {
            (Side::Right, Some(objects)) => objects,
            _ => &mut self.rows,
        }
    }

    /// The column of a feature by the user's name for it, or by its number from
    /// 1 where features are numbers. A name that is not known becomes a new
    /// feature. Then the columns of a table are no longer all there are, so the
    /// model demands none of them any more.
    pub fn column(&mut self, feature: &str) -> Result<u32> {
        self.column_of(Side::Left, feature)
    }

    /// The same for either side.
    pub fn column_of(&mut self, side: Side, feature: &str) -> Result<u32> {
        let known = match &self.known(side).features {
            Features::Named(ids) | Features::Columns(ids) => ids.find(feature),
            Features::Terms(vocabulary) => {
                return vocabulary
                    .column(feature)
                    .ok_or_else(|| not_a_term(feature));
            }
            Features::Numbered => {
                let number = feature.parse::<u32>().ok().filter(|&n| n > 0);
                let number = number.ok_or_else(|| {
                    Error::input(format!(
                        "expected the number of a feature, found `{feature}`"
                    ))
                })?;
                self.grow(side, number as usize)?;
                Some(number - 1)
            }
        };
        if let Some(column) = known {
            return Ok(column);
        }
        self.grow(side, self.columns_of(side) + 1)?;
        let features = &mut self.known_mut(side).features;
        if let Features::Columns(ids) = features {
            *features = Features::Named(std::mem::take(ids));
        }
        match features {
            Features::Named(ids) | Features::Columns(ids) => Ok(ids.intern(feature)),
            _ => unreachable!("every number has a column"),
        }
    }

    /// Makes room for features up to this number; all or nothing.
    fn grow(&mut self, side: Side, columns: usize) -> Result<()> {
        let before = self.columns_of(side);
        if columns <= before {
            return Ok(());
        }
        let largest = MAX_INDEX as usize + 1;
        if columns > largest {
            return Err(Error::input(format!(
                "feature {columns} is above the largest one, {largest}"
            )));
        }
        self.known_mut(side).preprocess.reserve(columns)?;
        let labels = self.labels.as_mut().filter(|_| side == Side::Right);
        if let Some(labels) = labels {
            labels.prior.reserve(columns)?;
        }
        let (left, right) = match (&self.objects, side) {
            (None, _) => (columns, columns),
            (Some(_), Side::Left) => (columns, self.columns_of(Side::Right)),
            (Some(_), Side::Right) => (self.columns_of(Side::Left), columns),
        };
        self.learner.grow(left, right)?;
        let labels = self.labels.as_mut().filter(|_| side == Side::Right);
        if let Some(labels) = labels {
            labels.prior.grow(columns);
        }
        let known = self.known_mut(side);
        known.preprocess.grow(columns, known.largest_weight);
        let counters = &mut self.card.counters;
        let new = match (&self.objects, side) {
            (Some(_), Side::Right) => &mut counters.new_object_features,
            _ => &mut counters.new_features,
        };
        *new = new.saturating_add((columns - before) as u64);
        Ok(())
    }

    /// Makes rows ready, with a column for every feature of theirs: new ones
    /// are added.
    pub fn prepare(&mut self, rows: Rows<R>, features: &Features) -> Result<Rows<R>> {
        self.prepare_side(Side::Left, rows, features)
    }

    /// The same for either side: objects where the model has some.
    pub fn prepare_side(
        &mut self,
        side: Side,
        rows: Rows<R>,
        features: &Features,
    ) -> Result<Rows<R>> {
        let known = &self.known(side).features;
        known.matched(features)?;
        match features {
            Features::Numbered | Features::Terms(_) => {
                let terms = matches!(known, Features::Terms(_));
                if terms && rows.columns() > self.columns_of(side) {
                    return Err(not_a_term(rows.columns()));
                }
                self.grow(side, rows.columns())?;
            }
            Features::Named(names) | Features::Columns(names) => {
                for name in names.iter() {
                    self.column_of(side, name)?;
                }
            }
        }
        let known = self.known(side);
        let rows = known.features.align(rows, features)?;
        if known.preprocess.passes(&rows) {
            Ok(rows)
        } else {
            known.preprocess.apply(&rows, self.columns_of(side))
        }
    }

    /// Learns a triplet of raw rows: they are preprocessed as those of training
    /// were. Columns are numbers from 0, or as [`Online::column`] gives them;
    /// NaN is a missing value.
    pub fn learn(&mut self, triplet: &Triplet<SparseRow<'_, R>>) -> Result<Learned> {
        let raw = [triplet.query, triplet.positive, triplet.negative];
        for (row, side) in raw.into_iter().zip(SIDES) {
            self.check(side, row)?;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let Scratch { rows, wide, .. } = &mut scratch;
        for ((row, raw), side) in rows.iter_mut().zip(raw).zip(SIDES) {
            let preprocess = &self.known(side).preprocess;
            preprocess.apply_row(row, raw, self.columns_of(side), wide);
        }
        let rows = scratch.rows.each_ref().map(SparseVec::as_row);
        let learned = self.take_step(rows);
        self.scratch = scratch;
        Ok(learned)
    }

    /// The score of two raw rows as the model is now; for a metric their distance.
    /// Features that the model does not know yet become new ones.
    pub fn score(&mut self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> Result<f64> {
        self.check(Side::Left, left)?;
        self.check(Side::Right, right)?;
        let (mut one, mut two) = (SparseVec::new(), SparseVec::new());
        let mut wide = Vec::new();
        for (row, raw, side) in [(&mut one, left, Side::Left), (&mut two, right, Side::Right)] {
            let preprocess = &self.known(side).preprocess;
            preprocess.apply_row(row, raw, self.columns_of(side), &mut wide);
        }
        let form = self.learner.form();
        if self.knowledge != Knowledge::Metric {
            return Ok(form.score(one.as_row(), two.as_row()));
        }
        let mut delta = SparseVec::new();
        delta.set_difference(one.as_row(), two.as_row());
        Ok(form.score(delta.as_row(), delta.as_row()).max(0.0).sqrt())
    }

    /// Whether a raw row can be learned from; makes room for it.
    fn check(&mut self, side: Side, row: SparseRow<'_, R>) -> Result<()> {
        if row.values.iter().any(|v| v.to_f64().is_infinite()) {
            return Err(Error::input("a value is infinite"));
        }
        let Some(&last) = row.indices.last() else {
            return Ok(());
        };
        match &self.known(side).features {
            Features::Numbered => self.grow(side, last as usize + 1),
            Features::Terms(terms) if last as usize >= terms.len() => {
                Err(not_a_term(u64::from(last) + 1))
            }
            Features::Named(ids) | Features::Columns(ids) if last as usize >= ids.len() => {
                Err(Error::input(format!(
                    "column {last} has no name: there are {}",
                    ids.len()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Learns a triplet of a stream; `rows` are those that its ids name, made
    /// ready by [`Online::prepare`]. They may be other ones on the right, for
    /// positive and negative.
    pub fn learn_line<'a>(
        &mut self,
        triplet: &Triplet<StreamRow<'_, R>>,
        rows: impl Into<Sides<'a, R>>,
    ) -> Result<Learned> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let learned = self.learn_with(triplet, rows.into(), &mut scratch);
        self.scratch = scratch;
        learned
    }

    fn learn_with(
        &mut self,
        triplet: &Triplet<StreamRow<'_, R>>,
        rows: Sides<'_, R>,
        scratch: &mut Scratch<R>,
    ) -> Result<Learned> {
        let given = [triplet.query, triplet.positive, triplet.negative];
        // What is largest first: where it does not fit, nothing has grown.
        let largest = |side: Side| {
            let of_side = given.iter().zip(SIDES).filter(|(_, of)| *of == side);
            let last = of_side.filter_map(|(row, _)| match row {
                StreamRow::Features { known, .. } => known.last(),
                StreamRow::Row(_) => None,
            });
            last.map(|&(column, _)| column).max()
        };
        let mut ends = [Side::Left, Side::Right].map(|side| (largest(side), side));
        ends.sort_by_key(|end| std::cmp::Reverse(end.0));
        for (column, side) in ends {
            if let Some(column) = column {
                let end = [column];
                let values = [R::default()];
                self.check(
                    side,
                    SparseRow {
                        indices: &end,
                        values: &values,
                    },
                )?;
            }
        }
        // All columns first, so that all three rows have the same ones.
        for ((raw, row), side) in scratch.raw.iter_mut().zip(given).zip(SIDES) {
            if let StreamRow::Features { known, new } = row {
                raw.clear();
                known.iter().for_each(|&(column, v)| raw.push(column, v));
                if !new.is_empty() {
                    let mut entries = known.to_vec();
                    for (name, value) in new {
                        entries.push((self.column_of(side, name)?, *value));
                    }
                    *raw = SparseVec::from_entries(entries);
                }
                self.check(side, raw.as_row())?;
            }
        }
        let mut ready = [SparseRow::default(); 3];
        let stored = scratch.rows.iter_mut().zip(&scratch.raw).zip(SIDES);
        for ((ready, row), ((stored, raw), side)) in ready.iter_mut().zip(given).zip(stored) {
            *ready = match (row, side) {
                (StreamRow::Row(number), Side::Left) => rows.left.row(number),
                (StreamRow::Row(number), Side::Right) => rows.right.row(number),
                (StreamRow::Features { .. }, side) => {
                    let (raw, columns) = (raw.as_row(), self.columns_of(side));
                    let preprocess = &self.known(side).preprocess;
                    preprocess.apply_row(stored, raw, columns, &mut scratch.wide);
                    stored.as_row()
                }
            };
        }
        Ok(self.take_step(ready))
    }

    /// Makes room for the known columns of rows of a stream, the largest first:
    /// where that does not fit, nothing has grown.
    pub(super) fn reserve_stream(&mut self, rows: &[(StreamRow<'_, R>, Side)]) -> Result<()> {
        let last = rows.iter().filter_map(|(row, side)| match row {
            StreamRow::Features { known, .. } => known.last().map(|&(column, _)| (column, *side)),
            StreamRow::Row(_) => None,
        });
        let mut last: Vec<(u32, Side)> = last.collect();
        last.sort_by_key(|end| std::cmp::Reverse(end.0));
        for (column, side) in last {
            let (indices, values) = ([column], [R::default()]);
            let end = SparseRow {
                indices: &indices,
                values: &values,
            };
            self.check(side, end)?;
        }
        Ok(())
    }

    /// The features of a row of a stream as columns, new ones added; nothing where it
    /// is named by an id.
    pub(super) fn raw_row(&mut self, row: StreamRow<'_, R>, side: Side) -> Result<SparseVec<R>> {
        let StreamRow::Features { known, new } = row else {
            return Ok(SparseVec::new());
        };
        let mut entries = known.to_vec();
        for (name, value) in new {
            entries.push((self.column_of(side, name)?, *value));
        }
        let raw = SparseVec::from_entries(entries);
        self.check(side, raw.as_row())?;
        Ok(raw)
    }

    /// A raw row as the model sees it.
    pub(super) fn preprocessed<'s>(
        &mut self,
        side: Side,
        raw: &SparseVec<R>,
        out: &'s mut SparseVec<R>,
    ) -> SparseRow<'s, R> {
        let columns = self.columns_of(side);
        let mut wide = std::mem::take(&mut self.scratch.wide);
        let preprocess = &self.known(side).preprocess;
        preprocess.apply_row(out, raw.as_row(), columns, &mut wide);
        self.scratch.wide = wide;
        out.as_row()
    }

    /// Both rows of a pair of a stream as the model sees them; new features are added.
    pub(super) fn ready_pair<'s>(
        &mut self,
        pair: [StreamRow<'_, R>; 2],
        rows: Sides<'s, R>,
        out: &'s mut [SparseVec<R>; 2],
    ) -> Result<RankOne<'s, R>> {
        self.reserve_stream(&[(pair[0], Side::Left), (pair[1], Side::Right)])?;
        // All columns first, so that both rows have the same ones.
        let raw = [
            self.raw_row(pair[0], Side::Left)?,
            self.raw_row(pair[1], Side::Right)?,
        ];
        let [left, right] = out;
        Ok(RankOne {
            left: match pair[0] {
                StreamRow::Row(number) => rows.left.row(number),
                _ => self.preprocessed(Side::Left, &raw[0], left),
            },
            right: match pair[1] {
                StreamRow::Row(number) => rows.right.row(number),
                _ => self.preprocessed(Side::Right, &raw[1], right),
            },
        })
    }

    /// One row of a stream, on the left side, as the model sees it; new features
    /// are added.
    pub(super) fn ready_row<'s>(
        &mut self,
        row: StreamRow<'_, R>,
        rows: &'s Rows<R>,
        out: &'s mut SparseVec<R>,
    ) -> Result<SparseRow<'s, R>> {
        let (known, new) = match row {
            StreamRow::Row(number) => return Ok(rows.row(number)),
            StreamRow::Features { known, new } => (known, new),
        };
        let mut entries = known.to_vec();
        let last = entries.last().copied();
        if let Some((column, _)) = last {
            // Where it does not fit, nothing has grown.
            let (indices, values) = ([column], [R::default()]);
            self.check(
                Side::Left,
                SparseRow {
                    indices: &indices,
                    values: &values,
                },
            )?;
        }
        for (name, value) in new {
            entries.push((self.column_of(Side::Left, name)?, *value));
        }
        let raw = SparseVec::from_entries(entries);
        self.check(Side::Left, raw.as_row())?;
        let columns = self.columns_of(Side::Left);
        let (preprocess, wide) = (&self.rows.preprocess, &mut self.scratch.wide);
        preprocess.apply_row(out, raw.as_row(), columns, wide);
        Ok(out.as_row())
    }

    /// Learns a triplet of rows that are ready, as in training.
    fn take_step(&mut self, [query, positive, negative]: [SparseRow<'_, R>; 3]) -> Learned {
        let rows = TripletRows {
            query,
            positive,
            negative,
        };
        let mut examples = std::mem::take(&mut self.examples);
        self.seed(examples.margin(rows));
        let step = Step {
            size: self.card.step_size,
            limit: self.card.step_limit.unwrap_or(f64::INFINITY),
        };
        let step = decayed(step, self.card.decay, self.card.counters.steps);
        let learned = examples.learn(&mut self.learner, rows, step);
        self.examples = examples;
        count(&mut self.card.counters, 1, &learned);
        learned
    }

    /// An example with nothing but new features whose rows are all zero could
    /// never move W: its left side gets a start, which is a function of the
    /// seed and the features alone.
    pub(super) fn seed(&mut self, example: RankOne<'_, R>) {
        let right = self.known(Side::Right);
        if !(self.rows.is_new(example.left) && right.is_new(example.right)) {
            return;
        }
        let (features, seed) = (&self.rows.features, self.card.seed);
        let normal = |column: u32, j: usize| {
            let feature = match features {
                Features::Numbered | Features::Terms(_) => u64::from(column),
                Features::Named(ids) | Features::Columns(ids) => ids.hash_of(column),
            };
            normal_at(seed, NEW_ROWS, feature, j as u64)
        };
        let seeded = self.learner.seed(&Newcomer {
            left: example.left,
            right: example.right,
            rows: self.rows.trained,
            normal: &normal,
        });
        if seeded {
            self.card.counters.seeded = self.card.counters.seeded.saturating_add(1);
        }
    }

    /// Whether rows are scored by classes, which later rows may join.
    pub fn has_classes(&self) -> bool {
        matches!(self.knowledge, Knowledge::Similarity(Some(_)))
    }

    /// Adds a row that is ready to its class, which may be a new one: scores by classes
    /// know of it from here on. W stays as it is, and so does a model without classes.
    pub fn add_to_class(&mut self, row: SparseRow<'_, R>, class: &str) -> Result<()> {
        match &mut self.knowledge {
            Knowledge::Similarity(Some(classes)) => classes.add(row, class),
            _ => Ok(()),
        }
    }

    fn knowledge(&self) -> Knowledge {
        match &self.labels {
            Some(labels) => Knowledge::Ranking(labels.knowledge()),
            None => self.knowledge.clone(),
        }
    }

    /// Writes the model as it is now. It changes nothing.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        check_usable(self.learner.form()).map_err(|e| e.in_file(&path))?;
        save_parts(
            path.as_ref(),
            (&self.card, &self.knowledge()),
            self.learner.form(),
            (&self.rows.features, &self.rows.preprocess),
            self.objects.as_ref().map(|o| (&o.features, &o.preprocess)),
            Vec::new(),
        )
    }

    /// A copy of the model as it is now: what [`Online::save`] writes.
    pub fn to_model(&self) -> Result<Model> {
        check_usable(self.learner.form())?;
        Ok(Model {
            knowledge: self.knowledge(),
            card: self.card.clone(),
            form: Precise::new(self.learner.form().to_form()),
            features: self.rows.features.clone(),
            preprocess: self.rows.preprocess.clone(),
            objects: self.objects.as_ref().map(|objects| Objects {
                features: objects.features.clone(),
                preprocess: objects.preprocess.clone(),
            }),
        })
    }

    /// The model, with all that was learned.
    pub fn into_model(self) -> Model {
        Model {
            knowledge: self.knowledge(),
            card: self.card,
            form: Precise::new(self.learner.into_form()),
            features: self.rows.features,
            preprocess: self.rows.preprocess,
            objects: self.objects.map(|objects| Objects {
                features: objects.features,
                preprocess: objects.preprocess,
            }),
        }
    }
}

/// λ of a card, which may come from anywhere.
fn share(lambda: Option<f64>) -> f64 {
    lambda
        .filter(|lambda| (0.0..=1.0).contains(lambda))
        .unwrap_or(0.5)
}

/// A vocabulary says what the features are: it does not grow.
fn not_a_term(feature: impl std::fmt::Display) -> Error {
    Error::input(format!(
        "expected a term of the model's vocabulary or its number, found `{feature}`"
    ))
}
