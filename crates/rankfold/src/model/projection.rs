//! Rows in the learned space, where scores are dot products.
//!
//! With W = P Σ Qᵀ, leftᵀ W right = (Σ^½ Pᵀ left) · (Σ^½ Qᵀ right). The two
//! brackets are the coordinates of a row on either side, k numbers each; the
//! projected cosine is their dot product after both are scaled to length one.

use super::preprocess::normalize;
use super::{Classes, Knowledge, Model, Prepared, Reading, Score, rank_lost};
use crate::data::Labelled;
use crate::eval::{Embedded, Scorer, nearest, nearest_among};
use crate::form::{FormRef, Gauge, Query, Side};
use crate::{Error, Real, Result, Rows, SparseRow};

/// Coordinates of rows on one side of W, in the balanced SVD gauge with its
/// signs fixed: they do not depend on how W is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding<R> {
    /// The rows, one after the other.
    pub values: Vec<R>,
    /// Coordinates of a row.
    pub rank: usize,
}

impl<R: Real> Embedding<R> {
    /// How many rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.rank
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The coordinates of row `i`.
    pub fn row(&self, i: usize) -> &[R] {
        &self.values[i * self.rank..][..self.rank]
    }

    /// Brings every row to length one, so that products are cosines; a row of zeros stays.
    pub fn normalize(&mut self) {
        for row in self.values.chunks_exact_mut(self.rank) {
            let square: f64 = row.iter().map(|v| v.to_f64().powi(2)).sum();
            let scale = if square > 0.0 {
                1.0 / square.sqrt()
            } else {
                0.0
            };
            for value in row {
                *value = R::from_f64(value.to_f64() * scale);
            }
        }
    }
}

/// Rows made ready for one way to score them.
#[derive(Debug, Clone)]
pub struct Projection<'a, R>(Kind<'a, R>);

#[derive(Debug, Clone)]
enum Kind<'a, R> {
    /// Projected on both sides of W: k numbers a row and side.
    Projected {
        left: Vec<R>,
        /// `None` where both sides are the same.
        right: Option<Vec<R>>,
        rank: usize,
        /// Whether scores are distances.
        distances: bool,
    },
    /// As they are, where W has no factors.
    Plain(Plain<'a, R>),
}

impl<'a, R: Real> Projection<'a, R> {
    /// Projects the members among the rows, which are as the form saw its
    /// training rows.
    pub fn new(
        form: FormRef<'a, R>,
        rows: &'a Rows<R>,
        members: &[u32],
        reading: impl Into<Reading<'a>>,
    ) -> Result<Self> {
        Self::of_sides(form, rows, members, None, reading.into())
    }

    /// The same with members of other rows on the right side of W.
    pub fn between(
        form: FormRef<'a, R>,
        (rows, members): (&'a Rows<R>, &[u32]),
        objects: (&'a Rows<R>, &[u32]),
        reading: impl Into<Reading<'a>>,
    ) -> Result<Self> {
        Self::of_sides(form, rows, members, Some(objects), reading.into())
    }

    fn of_sides(
        form: FormRef<'a, R>,
        rows: &'a Rows<R>,
        members: &[u32],
        objects: Option<(&'a Rows<R>, &[u32])>,
        Reading { score, classes }: Reading<'_>,
    ) -> Result<Self> {
        if form.factors().is_none() {
            match score {
                Score::Dot => {}
                Score::Cosine => return Err(no_space("the projected cosine")),
                Score::Classes => return Err(no_space("a score by classes")),
                Score::Distance => return Err(no_space("a distance")),
            }
            return Ok(Projection(Kind::Plain(Plain {
                form,
                rows,
                members: members.to_vec(),
                objects: objects.map(|(rows, members)| (rows, members.to_vec())),
            })));
        }
        let space = Coordinates::new(form, Reading { score, classes })?;
        let of = |rows, members, side| space.of(form, classes, (rows, members), side);
        Ok(Projection(Kind::Projected {
            left: of(rows, members, Side::Left),
            right: match (form, objects) {
                (_, Some((rows, members))) => Some(of(rows, members, Side::Right)),
                (form, None) if form.is_symmetric() => None,
                _ => Some(of(rows, members, Side::Right)),
            },
            rank: space.rank(),
            distances: score == Score::Distance,
        }))
    }

    /// How many rows are on the left.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Projected { left, rank, .. } => left.len() / rank,
            Kind::Plain(plain) => plain.members.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The score of two rows, or their distance; it has the same bits as in a list of
    /// neighbors.
    #[track_caller]
    pub fn score(&self, left: usize, right: usize) -> f64 {
        match &self.0 {
            Kind::Projected {
                left: lefts,
                right: rights,
                rank,
                distances,
            } => {
                let rights = rights.as_ref().unwrap_or(lefts);
                let (a, b) = (
                    &lefts[left * rank..][..*rank],
                    &rights[right * rank..][..*rank],
                );
                let pairs = a.iter().zip(b).map(|(a, b)| (a.to_f64(), b.to_f64()));
                match distances {
                    false => pairs.fold(0.0, |sum, (a, b)| sum + a * b),
                    true => pairs
                        .fold(0.0, |sum, (a, b)| sum + (a - b) * (a - b))
                        .sqrt(),
                }
            }
            Kind::Plain(plain) => {
                let mut query = Query::default();
                plain.form.ask(&mut query, plain.row(left));
                plain.form.answer(&mut query, plain.object(right))
            }
        }
    }

    /// All scores, for retrieval and lists of neighbors. For distances it is minus
    /// their squares, so that the nearest come first.
    pub fn scorer(&self) -> Box<dyn Scorer + '_> {
        match &self.0 {
            Kind::Projected {
                left,
                right,
                rank,
                distances,
            } => {
                let right = right.as_ref().unwrap_or(left);
                Box::new(match distances {
                    false => Embedded::new(left, right, *rank),
                    true => Embedded::near(left, right, *rank),
                })
            }
            Kind::Plain(plain) => Box::new(plain),
        }
    }
}

/// The space of a model with factors, for one way to score: scores are dot products of left
/// with right coordinates, or for a metric their distances. [`Model::coordinates_of`] uses it.
#[derive(Debug, Clone)]
pub struct Coordinates {
    gauge: Gauge,
    score: Score,
    rank: usize,
}

impl Coordinates {
    fn new<R: Real>(form: FormRef<'_, R>, reading: Reading<'_>) -> Result<Self> {
        // Scores do not depend on the signs of the gauge, not even in rounding.
        let gauge = form.gauge().ok_or_else(rank_lost)?;
        let Reading { score, classes } = reading;
        let classes = match (score, classes) {
            (Score::Classes, None) => return Err(no_classes()),
            (Score::Classes, Some(classes)) => classes.len(),
            _ => 0,
        };
        Ok(Coordinates {
            gauge,
            score,
            rank: form.rank() + classes,
        })
    }

    fn of<R: Real>(
        &self,
        form: FormRef<'_, R>,
        classes: Option<&Classes>,
        (rows, members): (&Rows<R>, &[u32]),
        side: Side,
    ) -> Vec<R> {
        let mut out = form.embed(&self.gauge, rows, members, side);
        if matches!(self.score, Score::Cosine | Score::Classes) {
            out.chunks_exact_mut(form.rank()).for_each(normalize_row);
        }
        match classes {
            Some(classes) if self.score == Score::Classes => {
                classes.coordinates(form, &self.gauge, &out, side)
            }
            _ => out,
        }
    }

    /// Coordinates of a row.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Whether scores are distances.
    pub fn is_distance(&self) -> bool {
        self.score == Score::Distance
    }
}

/// Rows scored by a matrix without factors: Wᵀ left once for a query, then its
/// products with the rows.
#[derive(Debug, Clone)]
struct Plain<'a, R> {
    form: FormRef<'a, R>,
    rows: &'a Rows<R>,
    members: Vec<u32>,
    /// What stands on the right, where it is something else.
    objects: Option<(&'a Rows<R>, Vec<u32>)>,
}

impl<R: Real> Plain<'_, R> {
    fn row(&self, i: usize) -> SparseRow<'_, R> {
        self.rows.row(self.members[i] as usize)
    }

    fn object(&self, i: usize) -> SparseRow<'_, R> {
        match &self.objects {
            None => self.row(i),
            Some((rows, members)) => rows.row(members[i] as usize),
        }
    }
}

impl<R: Real> Scorer for &Plain<'_, R> {
    fn rows(&self) -> usize {
        self.members.len()
    }

    fn candidates(&self) -> usize {
        let objects = self.objects.as_ref().map(|(_, members)| members.len());
        objects.unwrap_or(self.members.len())
    }

    fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
        let mut query = Query::default();
        for (i, out) in out
            .chunks_exact_mut(self.candidates().max(1))
            .take(queries)
            .enumerate()
        {
            self.form.ask(&mut query, self.row(first + i));
            for (j, score) in out.iter_mut().enumerate() {
                *score = self.form.answer(&mut query, self.object(j));
            }
        }
    }
}

/// What a full matrix cannot do.
fn no_space(what: &str) -> Error {
    Error::input(format!(
        "{what} needs a low-rank model: a full matrix has no space to project rows into"
    ))
}

/// What a model without classes cannot do.
fn no_classes() -> Error {
    Error::input("the model has no classes to score by: train it with `--score classes`")
}

fn normalize_row<R: Real>(row: &mut [R]) {
    let mut wide: Vec<f64> = row.iter().map(|v| v.to_f64()).collect();
    normalize(&mut wide);
    row.iter_mut()
        .zip(wide)
        .for_each(|(v, w)| *v = R::from_f64(w));
}

impl Model {
    /// Whether the model can project rows, which `what` needs: a full matrix
    /// cannot.
    pub fn check_space(&self, what: &str) -> Result<()> {
        let full = super::with_form!(&self.form, form => form.view().factors().is_none());
        if full { Err(no_space(what)) } else { Ok(()) }
    }

    /// The space that scores are read off in, as the model says; `None` for a full matrix, which
    /// has no such space.
    pub fn coordinates(&self) -> Result<Option<Coordinates>> {
        self.check_task()?;
        let reading = self.reading(None)?;
        super::with_form!(&self.form, form => match form.view().factors() {
            None => Ok(None),
            Some(_) => Coordinates::new(form.view(), reading).map(Some),
        })
    }

    /// The members among rows that are as the model saw its training rows, in a space that
    /// [`Model::coordinates`] gave: so many numbers a row, one row after the other.
    pub fn coordinates_of<R: Real>(
        &self,
        space: &Coordinates,
        rows: &Rows<R>,
        members: &[u32],
        side: Side,
    ) -> Result<Vec<R>> {
        let form = self.form.as_precision::<R>()?.view();
        let classes = match &self.knowledge {
            Knowledge::Similarity(classes) => classes.as_ref(),
            _ => None,
        };
        Ok(space.of(form, classes, (rows, members), side))
    }

    /// Coordinates in the learned space of rows that [`Model::prepare`] made
    /// ready. Dot products of left with right coordinates are scores; where W is
    /// symmetric both sides are the same.
    ///
    /// The signs are those for which the largest entry of each left singular
    /// vector is positive. An error where the rows have another precision than
    /// the model, or coordinates leave its range.
    pub fn embed<R: Real>(&self, rows: &Prepared<R>, side: Side) -> Result<Embedding<R>> {
        let form = self.form.as_precision::<R>()?.view();
        self.check_space("a transformation")?;
        let gauge = form.signed_gauge().ok_or_else(rank_lost)?;
        let (values, rank) = (
            form.embed(&gauge, &rows.rows, &members(&rows.rows), side),
            form.rank(),
        );
        match values.iter().position(|v| !v.to_f64().is_finite()) {
            None => Ok(Embedding { values, rank }),
            Some(at) => Err(Error::failure(format!(
                "row {} has coordinates beyond the range of {}",
                at / rank,
                R::NAME
            ))),
        }
    }

    /// Projects rows that [`Model::prepare`] made ready, to score many pairs or
    /// to find the neighbors of many rows. Without `score` scores are read as
    /// the model says.
    pub fn project<'a, R: Real>(
        &'a self,
        rows: &'a Prepared<R>,
        score: Option<Score>,
    ) -> Result<Projection<'a, R>> {
        self.project_members(rows, &members(&rows.rows), score)
    }

    /// Projects rows and objects, which [`Model::prepare`] and
    /// [`Model::prepare_side`] made ready, to score rows with objects. Where both
    /// sides of the model are the same, objects are other rows of that kind.
    pub fn project_between<'a, R: Real>(
        &'a self,
        rows: &'a Prepared<R>,
        objects: &'a Prepared<R>,
        score: Option<Score>,
    ) -> Result<Projection<'a, R>> {
        self.check_task()?;
        let reading = self.reading(score)?;
        let form = self.form.as_precision::<R>()?.view();
        let (left, right) = (members(&rows.rows), members(&objects.rows));
        Projection::between(form, (&rows.rows, &left), (&objects.rows, &right), reading)
    }

    fn check_task(&self) -> Result<()> {
        match &self.knowledge {
            Knowledge::Similarity(_)
            | Knowledge::Pairs { .. }
            | Knowledge::Metric
            | Knowledge::Kernel(_)
            | Knowledge::Map(_) => Ok(()),
            Knowledge::Ranking(_)
            | Knowledge::Completion(_)
            | Knowledge::Recommend(_)
            | Knowledge::Multitask(_) => Err(Error::input(format!(
                "a model for {} does not score pairs of rows",
                self.task()
            ))),
        }
    }

    /// How scores are read: as asked for, or as the model says. An error where the model
    /// does not have them: a metric has distances, and only a metric has them; classes are
    /// there where it was trained with them.
    pub fn reading(&self, score: Option<Score>) -> Result<Reading<'_>> {
        let own = self.card.score;
        let classes = match &self.knowledge {
            Knowledge::Similarity(classes) => classes.as_ref(),
            _ => None,
        };
        match score {
            Some(asked) if (asked == Score::Distance) != (own == Score::Distance) => {
                Err(Error::input(format!(
                    "a model for {} has no score `{}`",
                    self.task(),
                    asked.name()
                )))
            }
            Some(Score::Classes) if classes.is_none() => Err(no_classes()),
            _ => Ok(Reading {
                score: score.unwrap_or(own),
                classes,
            }),
        }
    }

    /// An error where rows cannot stand on both sides.
    pub(crate) fn check_one_kind(&self) -> Result<()> {
        match &self.objects {
            None => Ok(()),
            Some(_) => Err(Error::input(
                "the model scores rows with objects, and not with each other: objects are needed",
            )),
        }
    }

    fn project_members<'a, R: Real>(
        &'a self,
        rows: &'a Prepared<R>,
        members: &[u32],
        score: Option<Score>,
    ) -> Result<Projection<'a, R>> {
        self.check_task()?;
        self.check_one_kind()?;
        let reading = self.reading(score)?;
        let form = self.form.as_precision::<R>()?.view();
        Projection::new(form, &rows.rows, members, reading)
    }

    /// The score of two rows, read as the model says. It prepares all rows:
    /// [`Model::project`] them once where there are many pairs.
    #[track_caller]
    pub fn score<R: Real>(&self, data: &Labelled<R>, left: usize, right: usize) -> Result<f64> {
        let rows = data.rows.len();
        assert!(
            left < rows && right < rows,
            "rows {left} and {right} of {rows}"
        );
        let prepared = self.prepare(data.rows.clone(), &data.features)?;
        let pair = [left as u32, right as u32];
        Ok(self.project_members(&prepared, &pair, None)?.score(0, 1))
    }

    /// The `k` rows that score best with the query, best first, with their
    /// scores; of equal scores the smaller row comes first, and the query itself
    /// is left out. It projects all rows: [`Model::project`] them once and use
    /// [`nearest()`] where there are many queries.
    ///
    /// ```no_run
    /// use rankfold::{Similarity, data};
    ///
    /// let train = data::read_labelled::<f32>("train.svm.gz")?;
    /// let model = Similarity::default().rank(30).seed(1).fit(&train)?;
    /// for (row, score) in model.neighbors(&train, 17, 10)? {
    ///     println!("{row}\t{score:.3}");
    /// }
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    #[track_caller]
    pub fn neighbors<R: Real>(
        &self,
        data: &Labelled<R>,
        query: usize,
        k: usize,
    ) -> Result<Vec<(usize, f64)>> {
        let prepared = self.prepare(data.rows.clone(), &data.features)?;
        let projection = self.project(&prepared, None)?;
        let mut out = Vec::new();
        nearest(&projection.scorer(), &[query], k, 1, |_, found| {
            // Of a metric the scorer orders by squares; users meet distances.
            let scored = |&(row, _): &(usize, f64)| (row, projection.score(query, row));
            out.extend(found.iter().map(scored));
            Ok::<_, Error>(())
        })?;
        Ok(out)
    }

    /// The `k` objects that score best with the query, best first, with their
    /// scores. It projects all rows: use [`Model::project_between`] and
    /// [`nearest_among()`] where there are many queries.
    #[track_caller]
    pub fn neighbors_among<R: Real>(
        &self,
        data: &Labelled<R>,
        query: usize,
        objects: &Labelled<R>,
        k: usize,
    ) -> Result<Vec<(usize, f64)>> {
        let query = data.rows.select([query]);
        let query = self.prepare(query, &data.features)?;
        let objects = self.prepare_side(objects.rows.clone(), &objects.features, Side::Right)?;
        let projection = self.project_between(&query, &objects, None)?;
        let mut out = Vec::new();
        nearest_among(&projection.scorer(), &[0], k, 1, |_, found| {
            let scored = |&(row, _): &(usize, f64)| (row, projection.score(0, row));
            out.extend(found.iter().map(scored));
            Ok::<_, Error>(())
        })?;
        Ok(out)
    }
}

/// All rows.
fn members<R: Real>(rows: &Rows<R>) -> Vec<u32> {
    let count = u32::try_from(rows.len()).expect("fewer than 2³² rows");
    (0..count).collect()
}
