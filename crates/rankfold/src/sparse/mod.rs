//! Sparse vectors and rows, sorted indices beside their values, and the known
//! entries of a matrix.

mod build;
mod observed;
mod store;

pub(crate) use build::{Entries, Shape, all_of, bad_number};
pub use observed::{Dissimilarity, Lines, Observed, Part, Repeated, ValuedPair, View};
pub use store::Lent;

use crate::Real;
use store::Store;

/// The largest column index a row may have. A tall factor has a row for each
/// column up to the largest, so a wild index is an error, not an allocation.
pub const MAX_INDEX: u32 = i32::MAX as u32 - 1;

/// A borrowed sparse vector: indices strictly increasing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SparseRow<'a, R> {
    /// Column numbers from 0, strictly increasing.
    pub indices: &'a [u32],
    /// One value an index.
    pub values: &'a [R],
}

impl<R> Default for SparseRow<'_, R> {
    /// The zero vector.
    fn default() -> Self {
        SparseRow {
            indices: &[],
            values: &[],
        }
    }
}

impl<'a, R: Real> SparseRow<'a, R> {
    /// How many entries are stored.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The entries as (index, value).
    pub fn iter(self) -> impl Iterator<Item = (u32, R)> + use<'a, R> {
        self.indices
            .iter()
            .copied()
            .zip(self.values.iter().copied())
    }

    /// The entries of features below a number.
    #[inline]
    pub fn below(self, features: usize) -> SparseRow<'a, R> {
        let count = match self.indices.last() {
            Some(&last) if last as usize >= features => {
                self.indices.partition_point(|&i| (i as usize) < features)
            }
            _ => self.indices.len(),
        };
        SparseRow {
            indices: &self.indices[..count],
            values: &self.values[..count],
        }
    }

    /// ‖x‖², summed in `f64`.
    pub fn squared_norm(&self) -> f64 {
        // Four chains of sums: one would wait for each addition.
        let (whole, rest) = self.values.as_chunks::<4>();
        let mut sums = [0.0; 4];
        for chunk in whole {
            for (sum, v) in sums.iter_mut().zip(chunk) {
                *sum += v.to_f64() * v.to_f64();
            }
        }
        let tail: f64 = rest.iter().map(|v| v.to_f64() * v.to_f64()).sum();
        (sums[0] + sums[2]) + (sums[1] + sums[3]) + tail
    }

    /// x·y, summed in `f64` over the common support.
    pub fn dot(&self, other: SparseRow<'_, R>) -> f64 {
        let (mut i, mut j, mut sum) = (0, 0, 0.0);
        while i < self.len() && j < other.len() {
            let (a, b) = (self.indices[i], other.indices[j]);
            if a == b {
                sum += self.values[i].to_f64() * other.values[j].to_f64();
            }
            i += usize::from(a <= b);
            j += usize::from(b <= a);
        }
        sum
    }
}

/// An owned sparse vector: indices strictly increasing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SparseVec<R> {
    indices: Vec<u32>,
    values: Vec<R>,
}

impl<R: Real> SparseVec<R> {
    /// The zero vector.
    pub fn new() -> Self {
        Self::default()
    }

    /// From entries in any order; equal indices are added up.
    pub fn from_entries(mut entries: Vec<(u32, R)>) -> Self {
        entries.sort_by_key(|&(index, _)| index);
        let mut out = SparseVec::<R>::new();
        for (index, value) in entries {
            if out.indices.last() == Some(&index) {
                let last = out.values.last_mut().expect("one value an index");
                *last = R::from_f64(last.to_f64() + value.to_f64());
            } else {
                out.push(index, value);
            }
        }
        out
    }

    /// The non-zeros of a dense vector.
    pub fn from_dense(values: &[R]) -> Self {
        let mut out = SparseVec::new();
        for (i, &v) in values.iter().enumerate() {
            if v != R::default() {
                out.push(i as u32, v);
            }
        }
        out
    }

    /// Empties the vector and keeps its memory.
    pub fn clear(&mut self) {
        self.indices.clear();
        self.values.clear();
    }

    /// Appends an entry; its index must be above all others.
    #[track_caller]
    pub fn push(&mut self, index: u32, value: R) {
        assert!(
            self.indices.last().is_none_or(|&last| last < index),
            "index {index} is not above the last one"
        );
        self.indices.push(index);
        self.values.push(value);
    }

    /// Becomes a − b, without the entries that cancel; allocates only when it
    /// has never been this long.
    pub fn set_difference(&mut self, a: SparseRow<'_, R>, b: SparseRow<'_, R>) {
        self.indices.resize(a.len() + b.len(), 0);
        self.values.resize(a.len() + b.len(), R::default());
        let (mut i, mut j, mut len) = (0, 0, 0);
        // Which side is next cannot be predicted, so nothing here branches on it.
        while i < a.len() && j < b.len() {
            let (left, right) = (a.indices[i], b.indices[j]);
            let (from_a, from_b) = (left <= right, right <= left);
            let plus = if from_a { a.values[i].to_f64() } else { 0.0 };
            let minus = if from_b { b.values[j].to_f64() } else { 0.0 };
            self.indices[len] = left.min(right);
            self.values[len] = R::from_f64(plus - minus);
            len += usize::from(plus != minus);
            i += usize::from(from_a);
            j += usize::from(from_b);
        }
        let rest = a
            .iter()
            .skip(i)
            .chain(b.iter().skip(j).map(|(k, v)| (k, v.negated())));
        for (index, value) in rest {
            self.indices[len] = index;
            self.values[len] = value;
            len += usize::from(value != R::default());
        }
        self.indices.truncate(len);
        self.values.truncate(len);
    }

    /// The borrowed form.
    pub fn as_row(&self) -> SparseRow<'_, R> {
        SparseRow {
            indices: &self.indices,
            values: &self.values,
        }
    }
}

/// Many sparse rows in one place (compressed sparse rows).
///
/// They own their memory, or read that of somebody else in place: see
/// [`Rows::lent_csr`] and [`Rows::lent_flat`].
#[derive(Debug, Clone)]
pub struct Rows<R> {
    layout: Layout,
    indices: Store<u32>,
    values: Store<R>,
    columns: usize,
}

/// Where the entries of a row lie.
#[derive(Debug, Clone)]
enum Layout {
    /// Rows start here, with the end of the last.
    Each(Vec<usize>),
    /// All rows have all of so many columns, and share their indices.
    All(usize),
}

impl<R: Real> Default for Rows<R> {
    fn default() -> Self {
        Rows {
            layout: Layout::Each(vec![0]),
            indices: Store::default(),
            values: Store::default(),
            columns: 0,
        }
    }
}

impl<R> Rows<R> {
    /// How many rows.
    pub fn len(&self) -> usize {
        match &self.layout {
            Layout::Each(starts) => starts.len() - 1,
            Layout::All(width) => self.values.len() / width,
        }
    }

    /// Row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> SparseRow<'_, R> {
        match &self.layout {
            Layout::Each(starts) => {
                let range = starts[i]..starts[i + 1];
                SparseRow {
                    indices: &self.indices[range.clone()],
                    values: &self.values[range],
                }
            }
            Layout::All(width) => SparseRow {
                indices: &self.indices,
                values: &self.values[i * width..][..*width],
            },
        }
    }

    /// All rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SparseRow<'_, R>> {
        (0..self.len()).map(|i| self.row(i))
    }
}

impl<R: PartialEq> PartialEq for Rows<R> {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns && self.iter().eq(other.iter())
    }
}

impl<R: Real> Rows<R> {
    /// No rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many columns: at least one more than the largest index.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How many entries are stored.
    pub fn nnz(&self) -> usize {
        self.values.len()
    }

    /// Whether the values are read in the memory of somebody else.
    pub fn is_lent(&self) -> bool {
        matches!(self.values, Store::Lent(_))
    }

    /// Widens the matrix without adding entries.
    pub fn widen(&mut self, columns: usize) {
        self.columns = self.columns.max(columns);
    }

    /// Appends a row whose indices strictly increase.
    #[track_caller]
    pub fn push(&mut self, row: SparseRow<'_, R>) {
        assert_eq!(row.indices.len(), row.values.len());
        assert!(
            row.indices.is_sorted_by(|a, b| a < b),
            "row indices must strictly increase"
        );
        if let Layout::All(width) = self.layout {
            let rows = self.len();
            self.indices = Store::Own(self.indices.repeat(rows));
            self.layout = Layout::Each((0..=rows).map(|i| i * width).collect());
        }
        let Layout::Each(starts) = &mut self.layout else {
            unreachable!("rows have starts by now");
        };
        self.indices.owned().extend_from_slice(row.indices);
        self.values.owned().extend_from_slice(row.values);
        starts.push(self.values.len());
        if let Some(&last) = row.indices.last() {
            self.widen(last as usize + 1);
        }
    }

    /// Keeps the entries where clones share them.
    pub fn share(&mut self) {
        self.indices.share();
        self.values.share();
    }

    /// Gives back memory reserved for rows that never came.
    pub fn shrink(&mut self) {
        if let Layout::Each(starts) = &mut self.layout {
            starts.shrink_to_fit();
        }
        self.indices.shrink();
        self.values.shrink();
    }

    /// Columns as rows.
    pub fn transposed(&self) -> Self {
        let mut starts = vec![0usize; self.columns + 1];
        for row in self.iter() {
            row.indices
                .iter()
                .for_each(|&j| starts[j as usize + 1] += 1);
        }
        for j in 0..self.columns {
            starts[j + 1] += starts[j];
        }
        let mut indices = vec![0u32; self.nnz()];
        let mut values = vec![R::default(); self.nnz()];
        let mut next = starts.clone();
        for (i, row) in self.iter().enumerate() {
            for (j, value) in row.iter() {
                let at = &mut next[j as usize];
                (indices[*at], values[*at]) = (i as u32, value);
                *at += 1;
            }
        }
        Rows {
            layout: Layout::Each(starts),
            indices: Store::Own(indices),
            values: Store::Own(values),
            columns: self.len(),
        }
    }

    /// The rows named, in that order.
    pub fn select(&self, rows: impl IntoIterator<Item = usize>) -> Self {
        let mut out = Rows::new();
        out.widen(self.columns);
        for i in rows {
            out.push(self.row(i));
        }
        out
    }
}

impl<'a, R: Real> FromIterator<SparseRow<'a, R>> for Rows<R> {
    fn from_iter<I: IntoIterator<Item = SparseRow<'a, R>>>(iter: I) -> Self {
        let mut out = Rows::new();
        for row in iter {
            out.push(row);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_sorted_and_without_zeros() {
        let dense: [[f64; 6]; 4] = [
            [0.0; 6],
            [1.0, 0.0, 2.0, 0.0, 0.0, 3.0],
            [1.0, 5.0, 0.0, 0.0, 4.0, 0.0],
            [0.0, 0.0, 2.0, 7.0, 4.0, -3.0],
        ];
        let mut difference = SparseVec::new();
        for a in &dense {
            for b in &dense {
                let (left, right) = (SparseVec::from_dense(a), SparseVec::from_dense(b));
                difference.set_difference(left.as_row(), right.as_row());
                let want: Vec<f64> = a.iter().zip(b).map(|(x, y)| x - y).collect();
                assert_eq!(difference, SparseVec::from_dense(&want));
            }
        }
    }

    #[test]
    fn entries_in_any_order_are_sorted_and_added_up() {
        let x = SparseVec::from_entries(vec![(5, 1.0), (2, 2.0), (5, 0.5)]);
        assert_eq!(
            (x.as_row().indices, x.as_row().values),
            (&[2, 5][..], &[2.0, 1.5][..])
        );
        let y = SparseVec::from_entries(vec![(0, 9.0), (5, 2.0)]);
        assert_eq!(x.as_row().dot(y.as_row()), 3.0);
        assert_eq!(x.as_row().squared_norm(), 4.0 + 2.25);
    }
}
