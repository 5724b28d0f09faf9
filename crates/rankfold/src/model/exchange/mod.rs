//! Factors that other programs write and read: LIBMF, implicit, word2vec text and NumPy.
//!
//! All of them score by the product of two rows. A model of ratings has a mean and biases besides,
//! which become two more columns: [l, μ + b, 1] · [r, 1, c] = l · r + μ + b + c.

mod libmf;
mod word2vec;

pub use libmf::{read_libmf, write_libmf};
pub use word2vec::read_word2vec;

use super::{Knowledge, Model, Precise, RatingFactors, with_form};
use crate::data::{Features, RowIds, read_npy, read_npz_arrays, write_npz_arrays};
use crate::form::{Form, Psd, Side, Tall};
use crate::linalg::svd_of_product;
use crate::{Error, Ids, Real, Result, Rows};
use faer::Mat;
use std::path::Path;

/// Rows of users and of items, or of one kind of things, whose products are scores.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainFactors {
    /// Names of both sides; one where W is symmetric.
    pub ids: Vec<Ids>,
    /// Their rows, one behind the other.
    pub values: Vec<Vec<f64>>,
    /// The length of a row.
    pub rank: usize,
    /// What is predicted where one of the two is not known.
    pub mean: f64,
    /// What was left out, in sentences.
    pub notes: Vec<String>,
}

/// The names of arrays in an archive of implicit.
const ARRAYS: [&str; 2] = ["user_factors", "item_factors"];

/// Names 0, 1, … for things that have none.
pub fn numbered(count: usize) -> Ids {
    (0..count).collect()
}

fn dense(rows: &Rows<f64>) -> Vec<f64> {
    let k = rows.columns();
    let mut out = vec![0.0; rows.len() * k];
    for (i, row) in rows.iter().enumerate() {
        row.iter().for_each(|(j, v)| out[i * k + j as usize] = v);
    }
    out
}

/// Two matrices of the same number of columns.
fn pair(sides: [Rows<f64>; 2], files: [&Path; 2]) -> Result<PlainFactors> {
    let [left, right] = &sides;
    if left.columns() != right.columns() || left.columns() == 0 {
        let message = format!(
            "{} columns of users and {} of items: expected the same rank, 1 at least",
            left.columns(),
            right.columns()
        );
        return Err(Error::input(message).in_file(files[1]));
    }
    Ok(PlainFactors {
        ids: vec![numbered(left.len()), numbered(right.len())],
        rank: left.columns(),
        values: vec![dense(left), dense(right)],
        mean: 0.0,
        notes: Vec::new(),
    })
}

/// Reads an archive of implicit: `user_factors` and `item_factors`.
pub fn read_implicit(path: impl AsRef<Path>) -> Result<PlainFactors> {
    let path = path.as_ref();
    let mut arrays = read_npz_arrays::<f64>(path, &ARRAYS)?.into_iter();
    let (Some(left), Some(right)) = (arrays.next(), arrays.next()) else {
        return Err(Error::input("expected two arrays").in_file(path));
    };
    pair([left, right], [path; 2])
}

/// Reads the rows of users and of items from two `.npy` files.
pub fn read_npy_pair(users: impl AsRef<Path>, items: impl AsRef<Path>) -> Result<PlainFactors> {
    let (users, items) = (users.as_ref(), items.as_ref());
    let sides = [read_npy::<f64>(users)?.rows, read_npy::<f64>(items)?.rows];
    pair(sides, [users, items])
}

/// Writes an archive that implicit loads: single precision, as it has them.
pub fn write_implicit(path: impl AsRef<Path>, factors: &PlainFactors) -> Result<()> {
    let path = path.as_ref();
    let [left, right] = &factors.values[..] else {
        return Err(one_side().in_file(path));
    };
    let single = |values: &[f64]| values.iter().map(|v| *v as f32).collect::<Vec<f32>>();
    let (left, right) = (single(left), single(right));
    let arrays = [(ARRAYS[0], &left[..]), (ARRAYS[1], &right[..])];
    write_npz_arrays(path, &arrays, factors.rank)
}

/// The same products by rows in the balanced gauge, as many columns as they have directions in
/// this precision: factors of other programs may have more.
fn independent<R: Real>(values: &[Vec<f64>], k: usize) -> Result<(Vec<Vec<f64>>, usize)> {
    let sides: Vec<Mat<f64>> = values
        .iter()
        .map(|rows| Mat::from_fn(rows.len() / k.max(1), k, |i, j| rows[i * k + j]))
        .collect();
    let (Some(left), Some(right)) = (sides.first(), sides.last()) else {
        return Err(Error::input("expected the rows of one or two sides"));
    };
    let found = svd_of_product(left, right, k);
    let (p, sigma, q) = found.ok_or_else(|| Error::input("a factor is not finite"))?;
    let least = sigma.first().copied().unwrap_or(0.0) * 8.0 * R::EPSILON;
    let kept = sigma.iter().filter(|s| **s > least).count();
    if kept == 0 {
        return Err(Error::input("all products of the factors are zero"));
    }
    let flat = |m: &Mat<f64>| -> Vec<f64> {
        let each = (0..m.nrows()).flat_map(|i| (0..kept).map(move |j| (i, j)));
        each.map(|(i, j)| m[(i, j)] * sigma[j].sqrt()).collect()
    };
    let both = [flat(&p), flat(&q)];
    Ok((both.into_iter().take(values.len()).collect(), kept))
}

fn one_side() -> Error {
    Error::input("this model has one kind of things, and the format two: write .vec or .npy")
}

impl PlainFactors {
    /// The same with these names.
    pub fn named(mut self, side: usize, ids: Ids) -> Result<Self> {
        let found = self.ids.get(side).map_or(0, Ids::len);
        if ids.len() != found {
            let what = ["users", "items"][side.min(1)];
            let message = format!("{} ids for {found} {what}", ids.len());
            return Err(Error::input(message));
        }
        self.ids[side] = ids;
        Ok(self)
    }

    /// A model of them: ratings of items by users, or similarities of one kind of things. Its
    /// rank is that of the products, which may be less than the columns.
    pub fn into_model<R: Real>(self) -> Result<Model> {
        let (values, rank) = independent::<R>(&self.values, self.rank)?;
        let mut ids = self.ids.into_iter();
        let mut values = values.into_iter();
        match (ids.next(), ids.next(), values.next(), values.next()) {
            (Some(users), Some(items), Some(left), Some(right)) => {
                let mut model = Model::from_rating_factors::<R>(RatingFactors {
                    ids: (users, items),
                    factors: [left, right],
                    rank,
                    mean: 0.0,
                    bias: None,
                    scale: None,
                })?;
                if let Knowledge::Completion(known) = &mut model.knowledge {
                    known.card.baseline_mean = self.mean;
                }
                super::check_usable(model.form.as_precision::<R>()?.view())?;
                Ok(model)
            }
            (Some(names), None, Some(rows), None) => {
                let k = rank;
                let factor = Tall::<R>::from_fn(names.len(), k, |i, j| rows[i * k + j])?;
                let form = Form::Psd(Psd::new(factor));
                super::check_usable(form.view())?;
                Ok(Model::new("given", form, Features::Named(names)))
            }
            _ => Err(Error::input("expected the rows of one or two sides")),
        }
    }

    /// The names of a side for a writer of rows.
    pub fn row_ids(&self, side: usize) -> RowIds {
        RowIds::Named(self.ids[side].iter().map(str::to_owned).collect())
    }
}

impl Model {
    /// Rows whose products are the scores of the model.
    pub fn plain_factors(&self, threads: usize) -> Result<PlainFactors> {
        match &self.knowledge {
            Knowledge::Completion(known) => {
                let (users, items) = self.rating_ids()?;
                let sides = [self.rows_of(Side::Left)?, self.rows_of(Side::Right)?];
                let k = self.rank();
                let zeros = || [vec![0.0; users.len()], vec![0.0; items.len()]];
                let biases = known.biases.bias.clone().unwrap_or_else(zeros);
                let mean = known.card.mean;
                let plain = known.biases.bias.is_none() && mean == 0.0;
                let rank = if plain { k } else { k + 2 };
                let [left, right] = sides;
                let wide = |rows: Vec<f64>, more: &dyn Fn(usize) -> [f64; 2]| match plain {
                    true => rows,
                    false => {
                        let each = rows.chunks_exact(k).enumerate();
                        each.flat_map(|(i, row)| {
                            row.iter().copied().chain(more(i)).collect::<Vec<_>>()
                        })
                        .collect()
                    }
                };
                let mut notes = Vec::new();
                if !plain {
                    notes.push(format!(
                        "the mean and the biases became two more columns: rank {rank}"
                    ));
                }
                if known.card.scale.is_some() {
                    notes.push("factors have no room for the scale: clip what they predict".into());
                }
                Ok(PlainFactors {
                    ids: vec![users.clone(), items.clone()],
                    values: vec![
                        wide(left, &|i| [mean + biases[0][i], 1.0]),
                        wide(right, &|j| [1.0, biases[1][j]]),
                    ],
                    rank,
                    mean: known.card.baseline_mean,
                    notes,
                })
            }
            Knowledge::Recommend(_) => {
                let side = |side| -> Result<(Ids, Vec<f64>, usize)> {
                    let (ids, points) = self.vectors(side, threads)?;
                    let values = points.values.iter().map(|v| f64::from(*v)).collect();
                    Ok((ids.clone(), values, points.rank))
                };
                let ((users, left, rank), (items, right, _)) =
                    (side(Side::Left)?, side(Side::Right)?);
                Ok(PlainFactors {
                    ids: vec![users, items],
                    values: vec![left, right],
                    rank,
                    mean: 0.0,
                    notes: Vec::new(),
                })
            }
            Knowledge::Similarity(_)
            | Knowledge::Metric
            | Knowledge::Kernel(_)
            | Knowledge::Pairs { .. } => {
                let symmetric = with_form!(&self.form, form => form.view().is_symmetric());
                let mut notes = Vec::new();
                if self.preprocess != super::Preprocess::default() {
                    notes.push(
                        "factors have no room for how rows are prepared: prepare them first".into(),
                    );
                }
                if let Knowledge::Pairs { target_mean } = self.knowledge
                    && target_mean != 0.0
                {
                    notes.push(format!("add the mean {target_mean} to what they predict"));
                }
                let names = |side: Side, count: usize| match self.side(side).0.names() {
                    Some(names) => names.into_iter().collect(),
                    None => (1..=count).collect::<Ids>(),
                };
                let sides: &[Side] = match symmetric {
                    true => &[Side::Left],
                    false => &[Side::Left, Side::Right],
                };
                let rank = self.rank();
                let values = sides.iter().map(|side| self.rows_of(*side));
                let values: Vec<Vec<f64>> = values.collect::<Result<_>>()?;
                let ids = sides.iter().zip(&values);
                Ok(PlainFactors {
                    ids: ids
                        .map(|(side, rows)| names(*side, rows.len() / rank))
                        .collect(),
                    values,
                    rank,
                    mean: 0.0,
                    notes,
                })
            }
            Knowledge::Ranking(_) | Knowledge::Map(_) | Knowledge::Multitask(_) => {
                Err(Error::input(format!(
                    "a model of `train {}` does not score by the product of two rows: \
                     `rankfold transform` writes what it makes of rows",
                    self.task()
                )))
            }
        }
    }

    /// The rows of a factor in the balanced gauge.
    fn rows_of(&self, side: Side) -> Result<Vec<f64>> {
        if self.singular_values()?.is_none() {
            return Err(Error::input("W is stored in full: it has no factors"));
        }
        match &self.form {
            Precise::F32(_) | Precise::F64(_) => with_form!(&self.form, form => {
                let gauge = form.view().gauge().ok_or_else(super::rank_lost)?;
                let (left, right) = form.view().factors().ok_or_else(super::rank_lost)?;
                let (tall, map) = match side {
                    Side::Left => (left, &gauge.left),
                    Side::Right => (right, &gauge.right),
                };
                let mut out = Vec::with_capacity(tall.rows() * tall.rank());
                tall.for_each_mapped(map, |row| out.extend_from_slice(&row[..tall.rank()]));
                Ok(out)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        let ids = |names: &[&str]| names.iter().copied().collect::<Ids>();
        Model::from_rating_factors::<f64>(RatingFactors {
            ids: (ids(&["0", "3"]), ids(&["a", "b", "c"])),
            factors: [
                vec![1.0, 2.0, -1.0, 0.5],
                vec![0.1, 0.2, 0.3, -0.4, 0.5, 0.6],
            ],
            rank: 2,
            mean: 3.0,
            bias: Some([vec![0.25, -0.25], vec![0.5, 0.0, -1.0]]),
            scale: None,
        })
        .unwrap()
    }

    fn same(one: &Model, two: &Model, tolerance: f64) {
        let predict = |model: &Model, u, i| model.rating_predictor().unwrap().raw(Some(u), Some(i));
        for (u, i) in (0..2).flat_map(|u| (0..3).map(move |i| (u, i))) {
            let (a, b) = (predict(one, u, i), predict(two, u, i));
            assert!((a - b).abs() < tolerance, "{u} {i}: {a} {b}");
        }
    }

    #[test]
    fn factors_score_as_their_model_in_every_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (before, plain) = (model(), model().plain_factors(1).unwrap());
        assert_eq!(plain.rank, 4);
        same(&before, &plain.clone().into_model::<f64>().unwrap(), 1e-12);
        write_implicit(path("m.npz"), &plain).unwrap();
        let back = read_implicit(path("m.npz")).unwrap();
        same(&before, &back.into_model::<f64>().unwrap(), 1e-5);
        write_libmf(path("m.libmf"), &plain).unwrap();
        let back = read_libmf(path("m.libmf")).unwrap();
        same(&before, &back.into_model::<f64>().unwrap(), 1e-5);
        for (side, name) in [(0, "u.npy"), (1, "i.npy"), (0, "u.vec"), (1, "i.vec")] {
            let ids = plain.row_ids(side);
            crate::data::write_vectors(path(name), &ids, &plain.values[side], 4).unwrap();
        }
        let back = read_npy_pair(path("u.npy"), path("i.npy")).unwrap();
        let back = back
            .named(1, ["a", "b", "c"].into_iter().collect())
            .unwrap();
        same(&before, &back.into_model::<f64>().unwrap(), 1e-12);
        let (names, rows, k) = read_word2vec(path("i.vec")).unwrap();
        assert_eq!((names.get(2), k), ("c", 4));
        for (found, want) in rows.iter().zip(&plain.values[1]) {
            assert_eq!(found, want);
        }
        let wrong = read_npy_pair(path("u.npy"), path("i.npy")).unwrap();
        assert!(wrong.named(0, numbered(7)).is_err());
    }

    #[test]
    fn words_are_compared_by_their_products() {
        let words = PlainFactors {
            ids: vec![["king", "queen", "car"].into_iter().collect()],
            values: vec![vec![1.0, 0.0, 0.9, 0.1, 0.0, 1.0]],
            rank: 2,
            mean: 0.0,
            notes: Vec::new(),
        };
        let model = words.clone().into_model::<f64>().unwrap();
        assert_eq!(model.task(), "similarity");
        let back = model.plain_factors(1).unwrap();
        let product = |f: &PlainFactors, i: usize, j: usize| {
            let row = |i: usize| &f.values[0][i * 2..][..2];
            row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum::<f64>()
        };
        for (i, j) in [(0, 1), (0, 2), (1, 1)] {
            assert!((product(&back, i, j) - product(&words, i, j)).abs() < 1e-12);
        }
        assert!(write_implicit("no.npz", &back).is_err());
    }
}
