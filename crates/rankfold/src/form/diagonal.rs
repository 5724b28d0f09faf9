//! A Gaussian over matrices whose entries are independent: a mean W and a
//! variance for each of its entries.
//!
//! Both are full matrices while these fit in memory. Where they do not, only the
//! entries that an example has touched are stored: all others have the mean they
//! started with and variance 1. Which of the two it is changes no number.

use super::Full;
use crate::{Real, Result, SparseRow, memory};
use hashbrown::HashMap;
use std::hash::{BuildHasher, Hasher};

/// W with a variance for each entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagonal<R> {
    shape: (usize, usize),
    /// The mean on the diagonal where nothing was learned; 0 elsewhere.
    diagonal: f64,
    entries: Entries<R>,
}

#[derive(Debug, Clone, PartialEq)]
enum Entries<R> {
    Dense { mean: Full<R>, variance: Full<R> },
    Sparse(HashMap<u64, (R, R), Places>),
}

/// Hashes the place of an entry, the same on every machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Places(u64);

impl BuildHasher for Places {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Places(0)
    }
}

impl Hasher for Places {
    fn finish(&self) -> u64 {
        crate::random::splitmix64(self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&b| self.0 = self.0 << 8 | u64::from(b));
    }

    fn write_u64(&mut self, place: u64) {
        self.0 = place;
    }
}

fn place(i: u32, j: u32) -> u64 {
    u64::from(i) << 32 | u64::from(j)
}

/// The mean and the variance of an entry that nothing has touched.
fn unseen<R: Real>(diagonal: f64, i: u32, j: u32) -> (R, R) {
    let mean = if i == j { diagonal } else { 0.0 };
    (R::from_f64(mean), R::from_f64(1.0))
}

impl<R: Real> Diagonal<R> {
    /// A diagonal mean with variances 1: full matrices if they fit in memory.
    pub fn new(rows: usize, columns: usize, diagonal: f64) -> Self {
        Self::dense_if_it_fits(rows, columns, diagonal)
            .unwrap_or_else(|| Self::sparse(rows, columns, diagonal))
    }

    fn dense_if_it_fits(rows: usize, columns: usize, diagonal: f64) -> Option<Self> {
        let bytes = 2 * rows as u128 * columns as u128 * size_of::<R>() as u128;
        // Half of what is free: validation keeps a copy of the best model.
        memory::require(2 * bytes, "").ok()?;
        let mean = Full::diagonal(rows, columns, diagonal).ok()?;
        let variance = Full::filled(rows, columns, 1.0).ok()?;
        Some(Self::from_dense(mean, variance))
    }

    /// The same, with the touched entries stored only.
    pub fn sparse(rows: usize, columns: usize, diagonal: f64) -> Self {
        Self::from_touched((rows, columns), diagonal, std::iter::empty())
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        self.shape
    }

    /// Whether only touched entries are stored.
    pub fn is_sparse(&self) -> bool {
        matches!(self.entries, Entries::Sparse(_))
    }

    /// Mean and variance of an entry.
    #[inline]
    pub fn entry(&self, i: u32, j: u32) -> (R, R) {
        match &self.entries {
            Entries::Dense { mean, variance } => (
                mean.row(i as usize)[j as usize],
                variance.row(i as usize)[j as usize],
            ),
            Entries::Sparse(entries) => {
                let found = entries.get(&place(i, j)).copied();
                found.unwrap_or_else(|| unseen(self.diagonal, i, j))
            }
        }
    }

    /// Whether an example of so many pairs of features can be stored: touched
    /// entries are given room as they come, while there is some.
    pub(crate) fn has_room(&mut self, pairs: usize) -> bool {
        let Entries::Sparse(entries) = &mut self.entries else {
            return true;
        };
        if entries.capacity() - entries.len() >= pairs {
            return true;
        }
        // The table doubles, and is there twice while it does.
        let wanted = 2 * (entries.len() + pairs) as u128;
        let bytes = wanted * (size_of::<(u64, (R, R))>() + 1) as u128 * 8 / 7;
        memory::require(bytes, "").is_ok() && entries.try_reserve(pairs).is_ok()
    }

    /// Calls `f` with the value of each pair of features, and its mean and
    /// variance, to be changed in place.
    #[inline]
    pub(crate) fn for_each_pair(
        &mut self,
        left: SparseRow<'_, R>,
        right: SparseRow<'_, R>,
        mut f: impl FnMut(f64, &mut R, &mut R),
    ) {
        match &mut self.entries {
            Entries::Dense { mean, variance } => {
                for (i, v) in left.iter() {
                    let (mean, variance) = (mean.row_mut(i as usize), variance.row_mut(i as usize));
                    for (j, w) in right.iter() {
                        let j = j as usize;
                        f(v.to_f64() * w.to_f64(), &mut mean[j], &mut variance[j]);
                    }
                }
            }
            Entries::Sparse(entries) => {
                for (i, v) in left.iter() {
                    for (j, w) in right.iter() {
                        let unseen = || unseen(self.diagonal, i, j);
                        let (mean, variance) = entries.entry(place(i, j)).or_insert_with(unseen);
                        f(v.to_f64() * w.to_f64(), mean, variance);
                    }
                }
            }
        }
    }

    /// The mean of leftᵀ W right. Features beyond the shape weigh nothing.
    pub fn score(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        match &self.entries {
            Entries::Dense { mean, .. } => mean.score(left, right),
            Entries::Sparse(_) => {
                // In the order of a full matrix, so that it is the same number.
                let right = right.below(self.shape.1);
                let of_row = |(i, v): (u32, R)| {
                    let entries = right.iter();
                    let entries = entries.map(|(j, w)| self.entry(i, j).0.to_f64() * w.to_f64());
                    v.to_f64() * entries.sum::<f64>()
                };
                left.below(self.shape.0).iter().map(of_row).sum()
            }
        }
    }

    /// The variance of leftᵀ W right.
    pub fn variance(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        let (right, mut sum) = (right.below(self.shape.1), 0.0);
        for (i, v) in left.below(self.shape.0).iter() {
            for (j, w) in right.iter() {
                let x = v.to_f64() * w.to_f64();
                sum += x * x * self.entry(i, j).1.to_f64();
            }
        }
        sum
    }

    /// The mean of leftᵀ W right for a left row given by its entries.
    pub(crate) fn score_entries(&self, left: &[(u32, f64)], right: SparseRow<'_, R>) -> f64 {
        let right = right.below(self.shape.1);
        let mut sum = 0.0;
        for &(i, v) in left {
            for (j, w) in right.iter() {
                sum += v * w.to_f64() * self.entry(i, j).0.to_f64();
            }
        }
        sum
    }

    /// Grows to at least this many rows and columns. Full matrices that no longer
    /// fit in memory give way to touched entries.
    pub fn grow(&mut self, rows: usize, columns: usize) -> Result<()> {
        let (rows, columns) = (rows.max(self.shape.0), columns.max(self.shape.1));
        if let Entries::Dense { mean, variance } = &mut self.entries {
            let grown = mean.grow(rows, columns);
            if grown.and_then(|()| variance.grow(rows, columns)).is_err() {
                *self = Self::from_touched(self.shape, self.diagonal, self.touched().into_iter());
            }
        }
        self.shape = (rows, columns);
        Ok(())
    }

    /// W and the variances as dense rows: for tests and tiny matrices.
    pub fn to_dense(&self) -> [Vec<Vec<f64>>; 2] {
        let (rows, columns) = (self.shape.0 as u32, self.shape.1 as u32);
        let rows_of = |pick: fn((R, R)) -> R| -> Vec<Vec<f64>> {
            let entry = |i, j| pick(self.entry(i, j)).to_f64();
            let row = |i| (0..columns).map(|j| entry(i, j)).collect();
            (0..rows).map(row).collect()
        };
        [rows_of(|e| e.0), rows_of(|e| e.1)]
    }

    /// The dense matrices, if there are such.
    pub(crate) fn dense(&self) -> Option<(&Full<R>, &Full<R>)> {
        match &self.entries {
            Entries::Dense { mean, variance } => Some((mean, variance)),
            Entries::Sparse(_) => None,
        }
    }

    /// The mean on the diagonal where nothing was learned.
    pub(crate) fn unlearned(&self) -> f64 {
        self.diagonal
    }

    /// The touched entries in the order of their places.
    pub(crate) fn touched(&self) -> Vec<(u64, R, R)> {
        match &self.entries {
            Entries::Sparse(entries) => {
                let entries = entries.iter().map(|(&at, &(m, s))| (at, m, s));
                let mut out: Vec<_> = entries.collect();
                out.sort_unstable_by_key(|e| e.0);
                out
            }
            Entries::Dense { .. } => {
                let (rows, columns) = (self.shape.0 as u32, self.shape.1 as u32);
                let places = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
                let entries = places.filter_map(|(i, j)| {
                    let (mean, variance) = self.entry(i, j);
                    let touched = (mean, variance) != unseen(self.diagonal, i, j);
                    touched.then(|| (place(i, j), mean, variance))
                });
                entries.collect()
            }
        }
    }

    pub(crate) fn from_dense(mean: Full<R>, variance: Full<R>) -> Self {
        Diagonal {
            shape: mean.shape(),
            diagonal: mean.unlearned(),
            entries: Entries::Dense { mean, variance },
        }
    }

    pub(crate) fn from_touched(
        shape: (usize, usize),
        diagonal: f64,
        touched: impl Iterator<Item = (u64, R, R)>,
    ) -> Self {
        let mut entries = HashMap::with_hasher(Places(0));
        entries.extend(touched.map(|(at, m, s)| (at, (m, s))));
        Diagonal {
            shape,
            diagonal,
            entries: Entries::Sparse(entries),
        }
    }

    pub(crate) fn is_finite(&self) -> bool {
        match &self.entries {
            Entries::Dense { mean, variance } => mean.is_finite() && variance.is_finite(),
            Entries::Sparse(entries) => {
                let finite = |v: R| v.to_f64().is_finite();
                entries.values().all(|&(m, s)| finite(m) && finite(s))
            }
        }
    }
}
