//! The data of a run, ready for it.

use super::evaluation::errors;
use super::{Pairs, PairsData};
use crate::data::ValuedPair;
use crate::model::{Metrics, Steps};
use crate::online::RankOne;
use crate::random::splitmix64;
use crate::task::check_validation;
use crate::task::hold_out::hold_out_some;
use crate::task::inputs::{Fingerprint, Things};
use crate::{Error, Real, Result};
use faer::Mat;

/// Keys of the order of pairs in a pass.
const SHUFFLE: u64 = 6;

#[derive(Debug)]
pub(super) struct Inputs<'a, R: Real> {
    pub rows: Things<'a, R>,
    /// What the rows are paired with, where it is something else.
    pub objects: Option<Things<'a, R>>,
    /// Pairs that are learned from, and pairs that judge.
    pub training: Vec<ValuedPair>,
    pub validation: Vec<ValuedPair>,
    pub fingerprint: u64,
    pub objects_fingerprint: Option<u64>,
}

impl<'a, R: Real> Inputs<'a, R> {
    pub fn new(
        options: &Pairs,
        PairsData { data, pairs, valid }: PairsData<'a, R>,
    ) -> Result<Self> {
        check_validation(valid.is_some(), options.valid_fraction)?;
        let right = data.objects.unwrap_or(data.rows).rows.len();
        check(pairs, data.rows.rows.len(), right)?;
        check(valid.unwrap_or_default(), data.rows.rows.len(), right)
            .map_err(|e| e.about("validation"))?;
        if pairs.is_empty() {
            return Err(Error::input("no pair to learn from"));
        }
        let steps = Steps::of(options.weight, options.normalize, options.standardize);
        let fraction = options.valid_fraction;
        let (members, held_out) =
            hold_out_some("pairs", pairs.len(), None, fraction, options.seed)?;
        let all = |count: usize| (0..count as u32).collect();
        let rows = Things::new(steps, data.rows, None, all(data.rows.rows.len()))?;
        let things = data.objects.map(|objects| {
            let members = all(objects.rows.len());
            let things = Things::new(steps, objects, None, members);
            things.map_err(|e| e.about("objects"))
        });
        let mut hash = Fingerprint(0);
        hash.rows(&data.rows.rows);
        hash.names(&data.rows.features);
        hash_pairs(&mut hash, pairs);
        hash_pairs(&mut hash, valid.unwrap_or_default());
        let objects_fingerprint = data.objects.map(|objects| {
            let mut hash = Fingerprint(0);
            hash.rows(&objects.rows);
            hash.names(&objects.features);
            hash.0
        });
        let pick = |numbers: &[u32]| numbers.iter().map(|&i| pairs[i as usize]).collect();
        Ok(Inputs {
            rows,
            objects: things.transpose()?,
            training: pick(&members),
            validation: valid.map_or_else(|| pick(&held_out), <[_]>::to_vec),
            fingerprint: hash.0,
            objects_fingerprint,
        })
    }

    /// What stands on the right of W.
    pub fn right(&self) -> &Things<'a, R> {
        self.objects.as_ref().unwrap_or(&self.rows)
    }

    /// Features of both sides.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows.rows.columns(), self.right().rows.columns())
    }

    pub fn example(&self, pair: ValuedPair) -> RankOne<'_, R> {
        RankOne {
            left: self.rows.rows.row(pair.left as usize),
            right: self.right().rows.row(pair.right as usize),
        }
    }

    /// The errors of W = L Rᵀ on the pairs that judge.
    pub fn errors(&self, left: &Mat<f64>, right: &Mat<f64>) -> Metrics {
        let projected = |rows: &crate::Rows<R>, m: &Mat<f64>, i: u32| -> Vec<f64> {
            let row = rows.row(i as usize);
            let column = |j| {
                row.iter()
                    .map(|(f, v)| v.to_f64() * m[(f as usize, j)])
                    .sum()
            };
            (0..m.ncols()).map(column).collect()
        };
        let score = |pair: &ValuedPair| {
            let one = projected(&self.rows.rows, left, pair.left);
            let two = projected(&self.right().rows, right, pair.right);
            one.iter().zip(two).map(|(a, b)| a * b).sum::<f64>()
        };
        errors(self.validation.iter().map(|pair| (score(pair), pair.value)))
    }

    /// The mean of the values that are learned from.
    pub fn mean(&self) -> f64 {
        self.training.iter().map(|p| p.value).sum::<f64>() / self.training.len() as f64
    }

    /// The pairs of one pass, in order.
    pub fn order(&self, seed: u64, epoch: u64) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.training.len() as u32).collect();
        let key = splitmix64(splitmix64(seed ^ SHUFFLE << 32) ^ epoch);
        order.sort_by_cached_key(|&pair| (splitmix64(key ^ u64::from(pair)), pair));
        order
    }
}

/// Whether all pairs name rows that are there and have finite values.
pub(super) fn check(pairs: &[ValuedPair], left: usize, right: usize) -> Result<()> {
    if u32::try_from(pairs.len()).is_err() {
        return Err(Error::input(format!("{} pairs are too many", pairs.len())));
    }
    for (i, pair) in pairs.iter().enumerate() {
        if pair.left as usize >= left || pair.right as usize >= right {
            return Err(Error::input(format!(
                "pair {i} names a row that is not there"
            )));
        }
        if !pair.value.is_finite() {
            return Err(Error::input(format!(
                "pair {i}: a value of {} is not finite",
                pair.value
            )));
        }
    }
    Ok(())
}

fn hash_pairs(hash: &mut Fingerprint, pairs: &[ValuedPair]) {
    hash.numbers(pairs.iter().map(|p| p.left));
    hash.numbers(pairs.iter().map(|p| p.right));
    let halves = |p: &ValuedPair| p.value.to_bits();
    hash.numbers(pairs.iter().map(|p| (halves(p) >> 32) as u32));
    hash.numbers(pairs.iter().map(|p| halves(p) as u32));
}
