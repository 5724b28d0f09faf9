//! The classes that a similarity has seen, for the score `classes`.
//!
//! A row is compared with the mean of each class, p = softmax(cos(z, cⱼ) / τ) with z and
//! cⱼ the projected row and mean, and two rows by score = p·p′ + μ cos(z, z′). So rows are
//! alike where the same classes claim them, and the cosine orders rows of one class.
//!
//! Means are kept as sums of rows, in features and not in the learned space: they stay
//! true while W goes on learning, and only their direction matters.

use super::Score;
use super::file::{Tensor, TensorFile, Tensors};
use crate::form::{FormRef, Gauge, MOST, Side};
use crate::{Error, Ids, Real, Result, Rows, SparseRow, SparseVec, memory};
use serde::{Deserialize, Serialize};

/// Tensors of classes.
const NAMES: &str = "classes.ids.bytes";
const OFFSETS: &str = "classes.ids.offsets";
const COUNTS: &str = "classes.counts";
const ENDS: &str = "classes.ends";
const COLUMNS: &str = "classes.columns";
const VALUES: &str = "classes.values";

/// How classes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassScore {
    /// τ: the smaller, the surer a row is of its nearest class.
    pub temperature: f64,
    /// μ: the weight of the cosine between rows beside their classes.
    pub mixture: f64,
}

impl Default for ClassScore {
    fn default() -> Self {
        ClassScore {
            temperature: 0.1,
            mixture: 0.02,
        }
    }
}

impl ClassScore {
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        let ClassScore {
            temperature,
            mixture,
        } = *self;
        match temperature > 0.0 && temperature.is_finite() && mixture >= 0.0 && mixture.is_finite()
        {
            true => Ok(()),
            false => Err(format!(
                "a temperature of {temperature} with a mixture of {mixture} is not possible"
            )),
        }
    }
}

/// The sums of the rows of each class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Classes {
    /// Their names.
    pub names: Ids,
    /// Rows of each.
    pub counts: Vec<u64>,
    sums: Vec<SparseVec<f64>>,
    /// How they are compared.
    pub score: ClassScore,
}

impl Classes {
    /// Most classes that rows are compared with: a row has a number for each of them.
    pub const MOST: usize = 1_000;

    /// The sums of these rows, each of which has one class.
    pub fn of_rows<R: Real>(
        names: &Ids,
        rows: &Rows<R>,
        members: &[u32],
        classes: &[u32],
    ) -> Result<Self> {
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); names.len()];
        for &i in members {
            lists[classes[i as usize] as usize].push(i);
        }
        let columns = rows.columns();
        let entries = members.iter().map(|&i| rows.row(i as usize).len() as u128);
        memory::require(
            16 * entries
                .sum::<u128>()
                .min(columns as u128 * lists.len() as u128)
                + 9 * columns as u128,
            "sums of classes",
        )?;
        let mut wide = vec![0.0; columns];
        let mut touched: Vec<u32> = Vec::new();
        let mut sums = Vec::with_capacity(lists.len());
        let mut seen = vec![false; columns];
        for list in &lists {
            for &i in list {
                for (j, v) in rows.row(i as usize).iter() {
                    if !std::mem::replace(&mut seen[j as usize], true) {
                        touched.push(j);
                    }
                    wide[j as usize] += v.to_f64();
                }
            }
            touched.sort_unstable();
            let mut sum = SparseVec::new();
            for j in touched.drain(..) {
                sum.push(j, std::mem::take(&mut wide[j as usize]));
                seen[j as usize] = false;
            }
            sums.push(sum);
        }
        Ok(Classes {
            names: names.clone(),
            counts: lists.iter().map(|list| list.len() as u64).collect(),
            sums,
            score: ClassScore::default(),
        })
    }

    /// From sums that were added up elsewhere.
    pub(super) fn of_sums(
        names: Ids,
        counts: Vec<u64>,
        sums: Vec<SparseVec<f64>>,
        score: ClassScore,
    ) -> Self {
        Classes {
            names,
            counts,
            sums,
            score,
        }
    }

    pub(super) fn sums(&self) -> &[SparseVec<f64>] {
        &self.sums
    }

    /// How many classes.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds a row to a class, which may be a new one.
    pub fn add<R: Real>(&mut self, row: SparseRow<'_, R>, class: &str) -> Result<()> {
        let at = match self.names.find(class) {
            Some(at) => at as usize,
            None if self.len() >= Classes::MOST => {
                return Err(Error::input(format!(
                    "a model with `--score classes` has {} classes at most",
                    Classes::MOST
                )));
            }
            None => {
                self.counts.push(0);
                self.sums.push(SparseVec::new());
                self.names.intern(class) as usize
            }
        };
        self.counts[at] += 1;
        let mut sum = SparseVec::new();
        let mut old = self.sums[at].as_row().iter().peekable();
        for (j, v) in row.iter() {
            while let Some((i, u)) = old.next_if(|&(i, _)| i < j) {
                sum.push(i, u);
            }
            let before = old.next_if(|&(i, _)| i == j).map_or(0.0, |(_, u)| u);
            sum.push(j, before + v.to_f64());
        }
        old.for_each(|(i, u)| sum.push(i, u));
        self.sums[at] = sum;
        Ok(())
    }

    /// The projected sums of one side, of length one each, row by row.
    fn centers<R: Real>(&self, form: FormRef<'_, R>, gauge: &Gauge, side: Side) -> Vec<f64> {
        let mut rows = Rows::new();
        let mut narrow = SparseVec::new();
        let (left, right) = form.shape();
        let columns = match side {
            Side::Left => left,
            Side::Right => right,
        };
        for (sum, &count) in self.sums.iter().zip(&self.counts) {
            narrow.clear();
            let one = 1.0 / count.max(1) as f64;
            for (j, v) in sum.as_row().below(columns).iter() {
                narrow.push(j, R::from_f64(v * one));
            }
            rows.push(narrow.as_row());
        }
        rows.widen(columns);
        let all: Vec<u32> = (0..self.len() as u32).collect();
        let values = form.embed(gauge, &rows, &all, side);
        let mut out: Vec<f64> = values.iter().map(|v| v.to_f64()).collect();
        out.chunks_exact_mut(form.rank())
            .for_each(super::preprocess::normalize);
        out
    }

    /// Coordinates whose dot products are scores: the classes that claim a row, and the
    /// row itself, weighted. `unit` has projected rows of length one on this side.
    pub(super) fn coordinates<R: Real>(
        &self,
        form: FormRef<'_, R>,
        gauge: &Gauge,
        unit: &[R],
        side: Side,
    ) -> Vec<R> {
        let (k, many) = (form.rank(), self.len());
        let other = match side {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        };
        let centers = self.centers(form, gauge, other);
        let ClassScore {
            temperature,
            mixture,
        } = self.score;
        let weight = mixture.sqrt();
        let mut out = Vec::with_capacity(unit.len() / k * (many + k));
        let mut claims = vec![0.0; many];
        for z in unit.chunks_exact(k) {
            for (claim, center) in claims.iter_mut().zip(centers.chunks_exact(k)) {
                let cosine: f64 = z.iter().zip(center).map(|(z, c)| z.to_f64() * c).sum();
                *claim = cosine / temperature;
            }
            let largest = claims.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            claims.iter_mut().for_each(|c| *c = libm::exp(*c - largest));
            let total: f64 = claims.iter().sum();
            out.extend(claims.iter().map(|c| R::from_f64(c / total)));
            out.extend(z.iter().map(|z| R::from_f64(weight * z.to_f64())));
        }
        out
    }

    pub(super) fn tensors(&self) -> Tensors<'_> {
        let (bytes, offsets) = self.names.to_parts();
        let rows = || self.sums.iter().map(SparseVec::as_row);
        let ends = rows().scan(0, |end, row| {
            *end += row.len() as u64;
            Some(*end)
        });
        vec![
            (NAMES.into(), Tensor::u8s(bytes)),
            (OFFSETS.into(), Tensor::u64s(offsets)),
            (COUNTS.into(), Tensor::u64s(self.counts.clone())),
            (ENDS.into(), Tensor::u64s(ends.collect())),
            (
                COLUMNS.into(),
                Tensor::u32s(rows().flat_map(|row| row.indices.to_vec()).collect()),
            ),
            (
                VALUES.into(),
                Tensor::f64s(rows().flat_map(|row| row.values.to_vec()).collect()),
            ),
        ]
    }

    /// Reads what [`Classes::tensors`] gave, for rows of so many features.
    pub(super) fn read(file: &TensorFile<'_>, score: ClassScore, features: usize) -> Result<Self> {
        score.check().map_err(|message| file.error(message))?;
        let names = Ids::from_parts(&file.u8s(NAMES)?, &file.u64s(OFFSETS)?);
        let names = names.map_err(|e| file.error(e))?;
        let (counts, ends) = (file.u64s(COUNTS)?, file.u64s(ENDS)?);
        let columns = file.u32s(COLUMNS)?;
        let values = file.f64s(VALUES, columns.len())?;
        let broken = || file.error("sums of classes that do not fit together");
        let many = names.len();
        let rising = ends.windows(2).all(|pair| pair[0] <= pair[1]);
        let whole = ends.last().copied().unwrap_or(0) == columns.len() as u64;
        let possible = counts.iter().all(|count| *count <= MOST);
        if many == 0
            || many > Classes::MOST
            || counts.len() != many
            || ends.len() != many
            || !(rising && whole && possible)
        {
            return Err(broken());
        }
        let mut sums = Vec::with_capacity(many);
        let mut start = 0;
        for end in ends {
            let range = start..end as usize;
            let columns = &columns[range.clone()];
            let sorted = columns.windows(2).all(|pair| pair[0] < pair[1]);
            if !sorted || columns.last().is_some_and(|&j| j as usize >= features) {
                return Err(broken());
            }
            let mut sum = SparseVec::new();
            columns
                .iter()
                .zip(&values[range])
                .for_each(|(&j, &v)| sum.push(j, v));
            sums.push(sum);
            start = end as usize;
        }
        Ok(Classes {
            names,
            counts,
            sums,
            score,
        })
    }
}

/// How scores are read: the score, and the classes that it may need.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// Which score.
    pub score: Score,
    /// Classes, where the model has some.
    pub classes: Option<&'a Classes>,
}

impl From<Score> for Reading<'_> {
    fn from(score: Score) -> Self {
        Reading {
            score,
            classes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Form, Psd, Tall};
    use crate::model::{Model, Projection};
    use crate::random::normal_at;

    const ROWS: usize = 9;
    const FEATURES: usize = 5;
    const RANK: usize = 3;

    fn value(i: usize, j: usize) -> f64 {
        normal_at(3, 1, i as u64, j as u64)
    }

    fn form() -> Form<f64> {
        let factor = Tall::from_fn(FEATURES, RANK, |i, j| normal_at(3, 2, i as u64, j as u64));
        Form::Psd(Psd::new(factor.unwrap()))
    }

    fn rows() -> Rows<f64> {
        Rows::from_dense((0..ROWS).map(|i| (0..FEATURES).map(|j| value(i, j)).collect::<Vec<_>>()))
            .unwrap()
    }

    fn classes() -> Classes {
        let mut names = Ids::new();
        for name in ["a", "b", "c"] {
            names.intern(name);
        }
        let members: Vec<u32> = (0..ROWS as u32).collect();
        let known: Vec<u32> = (0..ROWS as u32).map(|i| i % 3).collect();
        let mut classes = Classes::of_rows(&names, &rows(), &members, &known).unwrap();
        classes.score = ClassScore {
            temperature: 0.3,
            mixture: 0.2,
        };
        classes
    }

    fn cosine(w: &dyn Fn(&[f64], &[f64]) -> f64, a: &[f64], b: &[f64]) -> f64 {
        w(a, b) / (w(a, a) * w(b, b)).sqrt()
    }

    /// The formula as the head of this file has it, from W and the rows themselves.
    #[test]
    fn scores_are_those_of_the_formula() {
        let (form, rows, classes) = (form(), rows(), classes());
        let dense = |i: usize| (0..FEATURES).map(|j| value(i, j)).collect::<Vec<f64>>();
        let sparse = |a: &[f64]| SparseVec::from_dense(a);
        let w = |a: &[f64], b: &[f64]| form.view().score(sparse(a).as_row(), sparse(b).as_row());
        let mean = |c: usize| -> Vec<f64> {
            let of = (0..ROWS).filter(|i| i % 3 == c).map(dense);
            of.fold(vec![0.0; FEATURES], |sum, row| {
                sum.iter().zip(row).map(|(s, v)| s + v / 3.0).collect()
            })
        };
        let claims = |i: usize| -> Vec<f64> {
            let raw = (0..3).map(|c| (cosine(&w, &dense(i), &mean(c)) / 0.3).exp());
            let raw: Vec<f64> = raw.collect();
            let total: f64 = raw.iter().sum();
            raw.iter().map(|v| v / total).collect()
        };
        let members: Vec<u32> = (0..ROWS as u32).collect();
        let reading = Reading {
            score: Score::Classes,
            classes: Some(&classes),
        };
        let projection = Projection::new(form.view(), &rows, &members, reading).unwrap();
        for i in 0..ROWS {
            for j in 0..ROWS {
                let shared: f64 = claims(i).iter().zip(claims(j)).map(|(p, q)| p * q).sum();
                let want = shared + 0.2 * cosine(&w, &dense(i), &dense(j));
                let found = projection.score(i, j);
                assert!((found - want).abs() < 1e-12, "{i} {j}: {found} {want}");
            }
        }
        let none = Projection::new(form.view(), &rows, &members, Score::Classes);
        assert!(none.unwrap_err().to_string().contains("no classes"));
    }

    /// Rows that come one by one make the sums of rows that come at once.
    #[test]
    fn later_rows_join_their_classes() {
        let (whole, rows) = (classes(), rows());
        let mut grown = Classes::default();
        for i in 0..ROWS {
            grown.add(rows.row(i), ["a", "b", "c"][i % 3]).unwrap();
        }
        grown.score = whole.score;
        assert_eq!(grown, whole);
        grown.add(rows.row(0), "new").unwrap();
        assert_eq!((grown.len(), grown.counts[3]), (4, 1));
    }

    #[test]
    fn files_keep_classes_and_refuse_broken_ones() {
        let mut model = Model::new("loreta-psd", form(), crate::data::Features::Numbered);
        model.card.score = Score::Classes;
        model.knowledge = crate::model::Knowledge::Similarity(Some(classes()));
        let bytes = model.to_bytes().unwrap();
        assert_eq!(Model::from_bytes(&bytes).unwrap(), model);
        let mut broken = classes();
        broken.score.temperature = 0.0;
        model.knowledge = crate::model::Knowledge::Similarity(Some(broken));
        let error = Model::from_bytes(&model.to_bytes().unwrap()).unwrap_err();
        assert!(error.to_string().contains("temperature of 0"), "{error}");
        let mut broken = classes();
        let mut beyond = SparseVec::new();
        beyond.push(FEATURES as u32, 1.0);
        broken.sums[1] = beyond;
        model.knowledge = crate::model::Knowledge::Similarity(Some(broken));
        assert!(Model::from_bytes(&model.to_bytes().unwrap()).is_err());
    }
}
