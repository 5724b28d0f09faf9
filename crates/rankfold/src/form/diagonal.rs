//! A Gaussian over matrices whose entries are independent: a mean W and a
//! variance for each of its entries.
//!
//! All entries are stored while they fit in memory, the mean beside its variance,
//! because an example that needs the one needs the other. Where they do not fit,
//! only the entries that an example has touched are stored: all others have the
//! mean they started with and variance 1. Which of the two it is changes nothing
//! that is learned.

use crate::kernel::prefetch;
use crate::{Real, SparseRow, memory};
use hashbrown::HashMap;
use std::hash::{BuildHasher, Hasher};

/// W with a variance for each entry.
#[derive(Debug, Clone)]
pub struct Diagonal<R> {
    shape: (usize, usize),
    /// The mean on the diagonal where nothing was learned; 0 elsewhere.
    diagonal: f64,
    entries: Entries<R>,
}

/// A mean and a variance.
type Entry<R> = (R, R);

#[derive(Debug, Clone)]
enum Entries<R> {
    /// Row by row.
    All(Table<R>),
    /// By place.
    Touched(HashMap<u64, Entry<R>, Places>),
}

/// Rows of entries, with room for columns to come.
#[derive(Debug, Clone)]
struct Table<R> {
    stride: usize,
    data: Vec<Entry<R>>,
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

/// An entry that nothing has touched.
fn unseen<R: Real>(diagonal: f64, i: u32, j: u32) -> Entry<R> {
    let mean = if i == j { diagonal } else { 0.0 };
    (R::from_f64(mean), R::from_f64(1.0))
}

impl<R: Real> Table<R> {
    /// Makes room for so many rows and columns; false, and nothing done, where
    /// they do not fit in memory.
    fn grow(&mut self, rows: usize, columns: usize, diagonal: f64) -> bool {
        let stride = match self.stride {
            enough if columns <= enough => enough,
            0 => columns,
            // Room for more, so that features coming one by one cost little each.
            _ => columns + columns / 4,
        };
        let count = rows as u128 * stride as u128;
        // Half of what is free: validation keeps a copy of the best model.
        let bytes = 2 * count * size_of::<Entry<R>>() as u128;
        if memory::require(bytes, "").is_err() {
            return false;
        }
        let (old, count) = (self.data.len(), count as usize);
        let unseen_in = |i: usize, from: usize| {
            (from..stride).map(move |j| unseen(diagonal, i as u32, j as u32))
        };
        if stride == self.stride {
            let more = count.saturating_sub(old);
            if memory::fallibly(|| self.data.try_reserve(more)).is_err() {
                return false;
            }
        } else {
            let mut data = Vec::new();
            if memory::fallibly(|| data.try_reserve_exact(count)).is_err() {
                return false;
            }
            for (i, row) in self.data.chunks_exact(self.stride.max(1)).enumerate() {
                data.extend_from_slice(row);
                data.extend(unseen_in(i, self.stride));
            }
            (self.stride, self.data) = (stride, data);
        }
        for i in self.data.len().checked_div(stride).unwrap_or(rows)..rows {
            self.data.extend(unseen_in(i, 0));
        }
        true
    }
}

impl<R: Real> Diagonal<R> {
    /// A diagonal mean with variances 1: all entries are stored if they fit in
    /// memory.
    pub fn new(rows: usize, columns: usize, diagonal: f64) -> Self {
        let mut out = Self::from_all(0, diagonal, Vec::new());
        out.grow(rows, columns);
        out
    }

    /// The same with the touched entries stored only.
    pub fn sparse(rows: usize, columns: usize, diagonal: f64) -> Self {
        Self::from_touched((rows, columns), diagonal, std::iter::empty())
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        self.shape
    }

    /// Whether only touched entries are stored.
    pub fn is_sparse(&self) -> bool {
        matches!(self.entries, Entries::Touched(_))
    }

    /// Row i, where all entries are stored.
    pub(crate) fn row(&self, i: usize) -> Option<&[Entry<R>]> {
        match &self.entries {
            Entries::All(table) => Some(&table.data[i * table.stride..][..self.shape.1]),
            Entries::Touched(_) => None,
        }
    }

    /// Mean and variance of an entry.
    #[inline]
    pub fn entry(&self, i: u32, j: u32) -> Entry<R> {
        match &self.entries {
            Entries::All(table) => table.data[i as usize * table.stride + j as usize],
            Entries::Touched(entries) => {
                let found = entries.get(&place(i, j)).copied();
                found.unwrap_or_else(|| unseen(self.diagonal, i, j))
            }
        }
    }

    /// Whether an example of so many pairs of features can be stored: touched
    /// entries are given room as they come, while there is some.
    pub(crate) fn has_room(&mut self, pairs: usize) -> bool {
        let Entries::Touched(entries) = &mut self.entries else {
            return true;
        };
        if entries.capacity() - entries.len() >= pairs {
            return true;
        }
        // The table doubles, and is there twice while it does.
        let wanted = 2 * (entries.len() + pairs) as u128;
        let bytes = wanted * (size_of::<(u64, Entry<R>)>() + 1) as u128 * 8 / 7;
        memory::require(bytes, "").is_ok()
            && memory::fallibly(|| entries.try_reserve(pairs)).is_ok()
    }

    /// Calls `f` with the value of each pair of features and its entry, to be
    /// changed in place.
    #[inline]
    pub(crate) fn for_each_pair(
        &mut self,
        left: SparseRow<'_, R>,
        right: SparseRow<'_, R>,
        mut f: impl FnMut(f64, &mut Entry<R>),
    ) {
        match &mut self.entries {
            Entries::All(table) => {
                for (i, v) in left.iter() {
                    let row = &mut table.data[i as usize * table.stride..][..self.shape.1];
                    for (j, w) in right.iter() {
                        f(v.to_f64() * w.to_f64(), &mut row[j as usize]);
                    }
                }
            }
            Entries::Touched(entries) => {
                for (i, v) in left.iter() {
                    for (j, w) in right.iter() {
                        let unseen = || unseen(self.diagonal, i, j);
                        let entry = entries.entry(place(i, j)).or_insert_with(unseen);
                        f(v.to_f64() * w.to_f64(), entry);
                    }
                }
            }
        }
    }

    /// The mean and the variance of leftᵀ W right. Features beyond the shape weigh
    /// nothing.
    #[inline]
    pub fn score(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> (f64, f64) {
        let (left, right) = (left.below(self.shape.0), right.below(self.shape.1));
        let (mut mean, mut variance) = (0.0, 0.0);
        for (at, (i, v)) in left.iter().enumerate() {
            // Each entry is a cache line of its own: the next row's are on their way
            // while this one is summed.
            if let Some(later) = left.indices.get(at + 1).and_then(|&i| self.row(i as usize)) {
                right
                    .indices
                    .iter()
                    .for_each(|&j| prefetch(later, j as usize, 1));
            }
            // Two sums for each row of W: they do not wait for those of other rows.
            let (mut m, mut s) = (0.0, 0.0);
            let mut add = |w: R, entry: Entry<R>| {
                let w = w.to_f64();
                m += w * entry.0.to_f64();
                s += w * w * entry.1.to_f64();
            };
            match self.row(i as usize) {
                Some(row) => right.iter().for_each(|(j, w)| add(w, row[j as usize])),
                None => right.iter().for_each(|(j, w)| add(w, self.entry(i, j))),
            }
            let v = v.to_f64();
            mean += v * m;
            variance += v * v * s;
        }
        (mean, variance)
    }

    /// The sum of rows of W, or of the variances, that many sums over pairs start
    /// with; nothing where only touched entries are stored.
    pub(crate) fn sum_rows(
        &self,
        out: &mut Vec<f64>,
        left: &[(u32, f64)],
        pick: impl Fn(&Entry<R>) -> R,
    ) {
        out.clear();
        if self.is_sparse() {
            return;
        }
        out.resize(self.shape.1, 0.0);
        for &(i, v) in left {
            let row = self.row(i as usize).into_iter().flatten();
            for (out, entry) in out.iter_mut().zip(row) {
                *out += v * pick(entry).to_f64();
            }
        }
    }

    /// Sums an entry over all pairs of features; the left ones were summed by
    /// [`Diagonal::sum_rows`] if that is possible.
    pub(crate) fn sum_pairs(
        &self,
        (sums, left): (&[f64], &[(u32, f64)]),
        right: impl Iterator<Item = (u32, f64)>,
        pick: impl Fn(&Entry<R>) -> R,
    ) -> f64 {
        let known = right.take_while(|&(j, _)| (j as usize) < self.shape.1);
        let of_column = |(j, w): (u32, f64)| match sums.get(j as usize) {
            Some(sum) => w * sum,
            None => {
                let entry = |&(i, v): &(u32, f64)| v * pick(&self.entry(i, j)).to_f64();
                w * left.iter().map(entry).sum::<f64>()
            }
        };
        known.map(of_column).sum()
    }

    /// Grows to at least this many rows and columns. Where all entries no longer
    /// fit in memory, the touched ones are kept.
    pub fn grow(&mut self, rows: usize, columns: usize) {
        let (rows, columns) = (rows.max(self.shape.0), columns.max(self.shape.1));
        if let Entries::All(table) = &mut self.entries
            && !table.grow(rows, columns, self.diagonal)
        {
            *self = Self::from_touched(self.shape, self.diagonal, self.touched().into_iter());
        }
        self.shape = (rows, columns);
    }

    /// W and the variances as dense rows: for tests and tiny matrices.
    pub fn to_dense(&self) -> [Vec<Vec<f64>>; 2] {
        let (rows, columns) = (self.shape.0 as u32, self.shape.1 as u32);
        let rows_of = |pick: fn(Entry<R>) -> R| -> Vec<Vec<f64>> {
            let entry = |i, j| pick(self.entry(i, j)).to_f64();
            let row = |i| (0..columns).map(|j| entry(i, j)).collect();
            (0..rows).map(row).collect()
        };
        [rows_of(|e| e.0), rows_of(|e| e.1)]
    }

    /// The mean on the diagonal where nothing was learned.
    pub(crate) fn unlearned(&self) -> f64 {
        self.diagonal
    }

    /// The touched entries in the order of their places.
    pub(crate) fn touched(&self) -> Vec<(u64, R, R)> {
        match &self.entries {
            Entries::Touched(entries) => {
                let entries = entries.iter().map(|(&at, &(m, s))| (at, m, s));
                let mut out: Vec<_> = entries.collect();
                out.sort_unstable_by_key(|e| e.0);
                out
            }
            Entries::All(_) => {
                let rows = (0..self.shape.0).filter_map(|i| Some((i as u32, self.row(i)?)));
                let touched = rows.flat_map(|(i, row)| {
                    let entries = (0..).zip(row).map(move |(j, &entry)| (i, j, entry));
                    entries.filter(|&(i, j, entry)| entry != unseen(self.diagonal, i, j))
                });
                touched.map(|(i, j, (m, s))| (place(i, j), m, s)).collect()
            }
        }
    }

    /// From the entries of a matrix, row by row.
    pub(crate) fn from_all(columns: usize, diagonal: f64, entries: Vec<Entry<R>>) -> Self {
        Diagonal {
            shape: (entries.len().checked_div(columns).unwrap_or(0), columns),
            diagonal,
            entries: Entries::All(Table {
                stride: columns,
                data: entries,
            }),
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
            entries: Entries::Touched(entries),
        }
    }

    pub(crate) fn is_finite(&self) -> bool {
        let finite = |&(m, s): &Entry<R>| m.to_f64().is_finite() && s.to_f64().is_finite();
        match &self.entries {
            Entries::All(table) => table.data.iter().all(finite),
            Entries::Touched(entries) => entries.values().all(finite),
        }
    }
}

/// How and with how much room it is stored does not count.
impl<R: Real> PartialEq for Diagonal<R> {
    fn eq(&self, other: &Self) -> bool {
        (self.shape, self.diagonal) == (other.shape, other.diagonal)
            && self.touched() == other.touched()
    }
}
