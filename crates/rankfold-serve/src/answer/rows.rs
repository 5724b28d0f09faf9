//! Similarities, metrics and pairs: rows that are scored with rows.
//!
//! For a model with factors the candidates are projected once, k numbers a row, and packed; a
//! query is then k numbers, and its scores are dot products with all of them. Scores have the
//! bits that `rankfold neighbors` prints. A full matrix scores each row by itself.

use std::sync::Arc;

use rankfold::eval::{Best, Panels, nearest_among};
use rankfold::form::Side;
use rankfold::model::{Coordinates, Estimate, Prepared};
use rankfold::{Model, Real, Result, Score};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::asks::{any_row, row_of, side_of};
use super::map::{Dot, plane};
use super::{Answer, Found, NeighborsAsk, PredictAsk, Rows, TransformAsk, View, not_finite};
use crate::book::{Book, Place};
use crate::error::Refused;
use crate::index::{Index, float};

/// Parts of the rows from which on a search is shared among threads.
const SHARED: usize = 16;

/// Rows that one thread projects at a time.
const BLOCK: usize = 4096;

pub struct RowView<R: 'static> {
    model: Arc<Model>,
    left: Book<R>,
    /// The objects of a model that has some.
    right: Option<Book<R>>,
    /// `None` for a full matrix.
    space: Option<Space<R>>,
    index: Option<Arc<Index>>,
}

/// Candidates in the learned space.
struct Space<R> {
    of: Coordinates,
    base: Panels<R>,
    added: Panels<R>,
}

/// A query that was understood.
struct Query<R> {
    row: Prepared<R>,
    itself: Option<Place>,
    sd: bool,
}

/// Coordinates of all rows, on all threads.
pub fn project<R: Real>(
    model: &Model,
    space: &Coordinates,
    rows: &rankfold::Rows<R>,
    side: Side,
) -> Result<Vec<R>> {
    let members: Vec<u32> = (0..rows.len() as u32).collect();
    let blocks: Result<Vec<Vec<R>>> = members
        .par_chunks(BLOCK)
        .map(|members| model.coordinates_of(space, rows, members, side))
        .collect();
    Ok(blocks?.concat())
}

impl<R: Real> RowView<R> {
    pub fn new(model: Arc<Model>, rows: &Rows<R>, index: Option<Arc<Index>>) -> Result<Self> {
        let [left, right] = &rows.added;
        let left = Book::new(rows.left, left.clone(), &model, Side::Left)?;
        let right = match rows.right {
            None => None,
            Some(base) => Some(Book::new(base, right.clone(), &model, Side::Right)?.of_objects()),
        };
        let candidates = right.as_ref().unwrap_or(&left);
        let space = match model.coordinates()? {
            None => None,
            Some(of) => {
                let project = |rows| project(&model, &of, rows, Side::Right);
                let base = project(&candidates.base.prepared.rows)?;
                let added = project(&candidates.prepared.rows)?;
                let (rank, near) = (of.rank(), of.is_distance());
                Some(Space {
                    base: Panels::new(&base, rank, near),
                    added: Panels::new(&added, rank, near),
                    of,
                })
            }
        };
        Ok(RowView {
            model,
            left,
            right,
            space,
            index,
        })
    }

    fn candidates(&self) -> &Book<R> {
        self.right.as_ref().unwrap_or(&self.left)
    }

    /// Whether the model knows how sure it is; an error where that was asked for and it does not.
    fn confidence_for(&self, asked: Option<bool>) -> Answer<bool> {
        let has = self.model.has_confidence();
        match asked == Some(true) && !has {
            false => Ok(has),
            true => Err(Refused::input(format!(
                "`{}` does not learn how sure it is: expected a model of `aroma-factored` or \
                 `aroma-diagonal`",
                self.model.card.learner
            ))),
        }
    }

    fn understood(&self, ask: &NeighborsAsk) -> Answer<Query<R>> {
        if ask.side.is_some() {
            return Err(Refused::input(
                "`side` does not apply: the model scores rows",
            ));
        }
        let has = self.confidence_for(ask.uncertainty)?;
        let given = (ask.id.as_deref(), ask.row.as_deref(), ask.text.as_deref());
        let (row, place) = row_of(&self.model, &self.left, Side::Left, given)?;
        Ok(Query {
            row,
            // An object is no row, even where both have the same id.
            itself: place.filter(|_| self.right.is_none()),
            sd: has && ask.uncertainty != Some(false),
        })
    }

    /// The best candidates of each query, by place.
    fn search(
        &self,
        space: &Space<R>,
        queries: &[(&Query<R>, usize, bool)],
    ) -> Answer<Vec<Vec<(Place, f64)>>> {
        let book = self.candidates();
        let mut left = Vec::new();
        for (query, ..) in queries {
            let rows = &query.row.rows;
            left.extend(
                self.model
                    .coordinates_of(&space.of, rows, &[0], Side::Left)?,
            );
        }
        let hidden = |query: usize, row: usize| {
            queries[query].0.itself == Some(Place::Base(row)) || book.is_replaced(row)
        };
        // Those that may use the index do; the others share a pass over all rows.
        let indexed = |(_, _, exact): &(&Query<R>, usize, bool)| self.index.is_some() && !exact;
        let lists: Vec<Best> = queries.iter().map(|(_, k, _)| Best::new(*k)).collect();
        let mut lists = if queries.iter().any(|query| !indexed(query)) {
            self.all_rows(space, &left, lists, &hidden)
        } else {
            lists
        };
        for (at, query) in queries.iter().enumerate() {
            if !indexed(query) {
                continue;
            }
            let Some(index) = &self.index else { continue };
            let mut best = Best::new(query.1);
            let point = &left[at * space.of.rank()..][..space.of.rank()];
            for row in index.candidates(&query.0.row.rows, query.1)? {
                if !hidden(at, row) {
                    best.offer(row, one_score(space, point, row));
                }
            }
            lists[at] = best;
        }
        let mut out = Vec::with_capacity(queries.len());
        let base = book.base.len();
        for (at, ((query, k, _), mut list)) in queries.iter().zip(lists).enumerate() {
            // Added rows are few: all of them are scored, and stand behind those of the file.
            let mut added = vec![Best::new(*k)];
            let point = &left[at * space.of.rank()..][..space.of.rank()];
            space
                .added
                .search(point, 0..space.added.parts(), &mut added, |_, row| {
                    query.itself == Some(Place::Added(row))
                });
            for (row, score) in added.remove(0).into_list() {
                list.offer(base + row, score);
            }
            let place = |(row, score): (usize, f64)| match row.checked_sub(base) {
                None => (Place::Base(row), score),
                Some(at) => (Place::Added(at), score),
            };
            out.push(list.into_list().into_iter().map(place).collect());
        }
        Ok(out)
    }

    fn all_rows(
        &self,
        space: &Space<R>,
        left: &[R],
        lists: Vec<Best>,
        hidden: &(impl Fn(usize, usize) -> bool + Sync),
    ) -> Vec<Best> {
        let parts = space.base.parts();
        let search = |from: usize, to: usize| {
            let mut lists = lists.clone();
            space.base.search(left, from..to, &mut lists, hidden);
            lists
        };
        if parts < SHARED {
            return search(0, parts);
        }
        let each = parts.div_ceil(4 * rayon::current_num_threads()).max(1);
        let found: Vec<Vec<Best>> = (0..parts.div_ceil(each))
            .into_par_iter()
            .map(|i| search(i * each, ((i + 1) * each).min(parts)))
            .collect();
        let mut merged = lists;
        for some in found {
            merged
                .iter_mut()
                .zip(some)
                .for_each(|(all, some)| all.merge(some));
        }
        merged
    }

    /// The same for a matrix without factors.
    fn search_plain(&self, query: &Query<R>, k: usize) -> Answer<Vec<(Place, f64)>> {
        let book = self.candidates();
        let mut best = Best::new(k);
        let wide = k + book.replaced() + 1;
        for (rows, is_base) in [(&book.base.prepared, true), (&book.prepared, false)] {
            if rows.rows.is_empty() {
                continue;
            }
            let projection = self.model.project_between(&query.row, rows, None)?;
            nearest_among(&projection.scorer(), &[0], wide, 1, |_, found| {
                for &(row, score) in found {
                    let place = match is_base {
                        true => Place::Base(row),
                        false => Place::Added(row),
                    };
                    if query.itself != Some(place) && !(is_base && book.is_replaced(row)) {
                        let row = if is_base { row } else { row + book.base.len() };
                        best.offer(row, score);
                    }
                }
                Ok::<(), rankfold::Error>(())
            })?;
        }
        let base = book.base.len();
        let place = |(row, score): (usize, f64)| match row.checked_sub(base) {
            None => (Place::Base(row), score),
            Some(at) => (Place::Added(at), score),
        };
        Ok(best.into_list().into_iter().map(place).collect())
    }

    fn found(&self, query: &Query<R>, list: Vec<(Place, f64)>) -> Answer<Vec<Found>> {
        let book = self.candidates();
        let distances = self.model.card.score == Score::Distance;
        let one = |(place, score): (Place, f64)| {
            let score = if distances { (-score).sqrt() } else { score };
            let id = book.name(place);
            let sd = match query.sd {
                true => Some(self.deviation(&query.row, place)?),
                false => None,
            };
            if !score.is_finite() || sd.is_some_and(|sd| !sd.is_finite()) {
                return Err(not_finite(&format!("the query and `{id}`")));
            }
            Ok(Found {
                // Adding zero turns −0 into 0.
                score: score + 0.0,
                sd,
                label: book.label(place).map(str::to_owned),
                id,
            })
        };
        list.into_iter().map(one).collect()
    }

    fn deviation(&self, query: &Prepared<R>, place: Place) -> Answer<f64> {
        let other = self.candidates().row(place);
        let confidence = self.model.confidence(query, Some(&other))?;
        Ok(confidence.deviation(0, 0))
    }

    fn score(&self, left: &Prepared<R>, right: &Prepared<R>) -> Answer<f64> {
        Ok(self.model.project_between(left, right, None)?.score(0, 0))
    }

    fn predicted(&self, raw: &RawValue, sd: bool) -> Answer<Option<Value>> {
        let input: RowsInput = serde_json::from_str(raw.get())?;
        let row = |raw: &RawValue| any_row(&self.model, &self.left, Side::Left, raw);
        let object = |raw: &RawValue| any_row(&self.model, self.candidates(), Side::Right, raw);
        let distances = self.model.card.score == Score::Distance;
        let (mean, estimate) = match input {
            RowsInput {
                left: Some(left),
                right: Some(right),
                query: None,
                positive: None,
                negative: None,
            } => {
                let (Some(left), Some(right)) = (row(&left)?, object(&right)?) else {
                    return Ok(None);
                };
                let mean = self.score(&left, &right)?;
                let sd = match sd {
                    true => Some(self.model.confidence(&left, Some(&right))?.deviation(0, 0)),
                    false => None,
                };
                (mean, sd.map(|sd| Estimate { mean, sd }))
            }
            RowsInput {
                query: Some(query),
                positive: Some(positive),
                negative: Some(negative),
                left: None,
                right: None,
            } => {
                let (query, positive, negative) =
                    (row(&query)?, object(&positive)?, object(&negative)?);
                let (Some(query), Some(positive), Some(negative)) = (query, positive, negative)
                else {
                    return Ok(None);
                };
                let (p, n) = (
                    self.score(&query, &positive)?,
                    self.score(&query, &negative)?,
                );
                // The nearer of two is above the other.
                let mean = if distances { n - p } else { p - n };
                let estimate = match sd {
                    true => {
                        let mut both = rankfold::Rows::new();
                        both.push(positive.rows.row(0));
                        both.push(negative.rows.row(0));
                        let both = Prepared {
                            rows: both,
                            unknown_entries: 0,
                        };
                        Some(self.model.confidence(&query, Some(&both))?.triplet(0, 0, 1))
                    }
                    false => None,
                };
                (mean, estimate)
            }
            _ => {
                return Err(Refused::input(
                    "expected the fields `left` and `right`, or `query`, `positive` and `negative`",
                ));
            }
        };
        if !mean.is_finite() || estimate.is_some_and(|e| !e.sd.is_finite()) {
            return Err(not_finite("this input"));
        }
        let mut one = json!({ "score": mean });
        if let Some(estimate) = estimate {
            one["sd"] = json!(estimate.sd);
        }
        Ok(Some(one))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowsInput {
    left: Option<Box<RawValue>>,
    right: Option<Box<RawValue>>,
    query: Option<Box<RawValue>>,
    positive: Option<Box<RawValue>>,
    negative: Option<Box<RawValue>>,
}

/// The score of a point with a row, summed as in a search.
fn one_score<R: Real>(space: &Space<R>, point: &[R], row: usize) -> f64 {
    let pairs = point.iter().zip(space.base.row(row));
    let pairs = pairs.map(|(a, b)| (a.to_f64(), b.to_f64()));
    match space.of.is_distance() {
        false => pairs.fold(0.0, |sum, (a, b)| sum + a * b),
        true => pairs.fold(0.0, |sum, (a, b)| sum - (a - b) * (a - b)),
    }
}

impl<R: Real> View for RowView<R> {
    fn model(&self) -> &Arc<Model> {
        &self.model
    }

    fn neighbors(&self, asks: &[NeighborsAsk]) -> Vec<Answer<Vec<Found>>> {
        let understood: Vec<Answer<Query<R>>> =
            asks.iter().map(|ask| self.understood(ask)).collect();
        let good = understood.iter().zip(asks);
        let good: Vec<(&Query<R>, usize, bool)> = good
            .filter_map(|(query, ask)| Some((query.as_ref().ok()?, ask.k, ask.exact)))
            .collect();
        let lists: Answer<Vec<Vec<(Place, f64)>>> = match &self.space {
            Some(space) => self.search(space, &good),
            None => good
                .iter()
                .map(|(query, k, _)| self.search_plain(query, *k))
                .collect(),
        };
        let mut lists = match lists {
            Ok(lists) => lists.into_iter(),
            Err(error) => return asks.iter().map(|_| Err(error.clone())).collect(),
        };
        let answers = understood.into_iter().map(|query| {
            let query = query?;
            self.found(&query, lists.next().unwrap_or_default())
        });
        answers.collect()
    }

    fn predict(&self, ask: &PredictAsk) -> Answer<(Vec<Value>, usize)> {
        let has = self.confidence_for(ask.uncertainty)?;
        let sd = has && ask.uncertainty != Some(false);
        // What is predicted where nothing is known; of a distance that is no number.
        let otherwise = match self.model.card.score == Score::Distance {
            true => Value::Null,
            false => json!(self.model.target_mean().unwrap_or(0.0)),
        };
        let (mut out, mut unknown) = (Vec::new(), 0);
        for raw in &ask.inputs {
            out.push(match self.predicted(raw, sd)? {
                Some(one) => one,
                None => {
                    unknown += 1;
                    json!({ "score": otherwise })
                }
            });
        }
        Ok((out, unknown))
    }

    fn transform(&self, ask: &TransformAsk) -> Answer<Vec<Vec<f64>>> {
        let side = side_of(ask.side.as_deref(), Side::Left)?;
        let book = match side {
            Side::Left => &self.left,
            Side::Right => self.candidates(),
        };
        let mut rows = rankfold::Rows::new();
        for input in &ask.inputs {
            let given = (
                input.id.as_deref(),
                input.row.as_deref(),
                input.text.as_deref(),
            );
            rows.push(row_of(&self.model, book, side, given)?.0.rows.row(0));
        }
        rows.widen(self.model.columns_of(side));
        let rows = Prepared {
            rows,
            unknown_entries: 0,
        };
        let points = self.model.embed(&rows, side)?;
        let wide = |row: &[R]| row.iter().map(|v| v.to_f64()).collect();
        Ok((0..points.len()).map(|i| wide(points.row(i))).collect())
    }

    fn rows(&self) -> usize {
        self.candidates().len()
    }

    fn ids(&self, prefix: &str, limit: usize) -> Vec<(String, Option<String>)> {
        ids_of(&self.left, prefix, limit)
    }

    fn row(&self, id: &str) -> Answer<Value> {
        row_json(&self.left, id)
    }

    fn names_rows(&self) -> bool {
        true
    }

    fn file_row(&self, field: &str, id: &str) -> Option<String> {
        let base = match (field, &self.right) {
            ("positive" | "negative" | "right", Some(right)) => right.base,
            _ => self.left.base,
        };
        let row = base.lookup.find_any(id).ok().flatten()?;
        Some(base.by_value(row))
    }

    fn map(&self, limit: usize) -> Answer<Vec<Dot>> {
        let Some(space) = &self.space else {
            return Err(Refused::input(
                "a map needs a low-rank model: a full matrix has no space to project rows into",
            ));
        };
        let book = self.candidates();
        let rows: Vec<usize> = (0..book.base.len())
            .filter(|&row| !book.is_replaced(row))
            .collect();
        let step = rows.len().div_ceil(limit.max(1)).max(1);
        let shown = rows.into_iter().step_by(step).map(Place::Base);
        let shown: Vec<Place> = shown
            .chain((0..book.added.len()).map(Place::Added))
            .collect();
        let shown = &shown[..shown.len().min(2 * limit)];
        let point = |place: &Place| -> Vec<f64> {
            match *place {
                Place::Base(row) => space.base.row(row).map(float).collect(),
                Place::Added(at) => space.added.row(at).map(float).collect(),
            }
        };
        let points: Vec<f64> = shown.iter().flat_map(point).collect();
        let names = shown.iter().map(|place| {
            let label = book.label(*place).map(str::to_owned);
            (book.name(*place), label)
        });
        plane(&points, space.of.rank(), names)
    }

    fn index(&self) -> Option<&Arc<Index>> {
        self.index.as_ref()
    }
}

/// Ids of a side that begin so.
pub fn ids_of<R: Real>(
    book: &Book<R>,
    prefix: &str,
    limit: usize,
) -> Vec<(String, Option<String>)> {
    let added = (0..book.added.len()).filter(|&at| book.added.ids[at].starts_with(prefix));
    // Names are looked at where they are: there may be a million.
    let fits = |row: &usize| book.base.ids.name(*row).starts_with(prefix);
    let base = (0..book.base.len()).filter(|&row| !book.is_replaced(row) && fits(&row));
    let all = added.map(Place::Added).chain(base.map(Place::Base));
    let shown = all.take(limit);
    shown
        .map(|place| (book.name(place), book.label(place).map(str::to_owned)))
        .collect()
}

/// A row by value, for who asks for it.
pub fn row_json<R: Real>(book: &Book<R>, id: &str) -> Answer<Value> {
    let place = book.find_any(id)?;
    let place = place.ok_or_else(|| Refused::not_found(format!("no row is called `{id}`")))?;
    let features: Value = serde_json::from_str(&book.by_value(place))?;
    Ok(json!({ "id": id, "row": features, "label": book.label(place) }))
}
