//! A tall factor: n rows of k numbers, with its Gram matrix tracked.

use super::upkeep::Health;
use crate::aligned::Aligned;
use crate::kernel::{dot, gather, multiply_rows, padded, prefetch_rows, row_width, scatter};
use crate::linalg::{Square, invert_definite};
use crate::{Real, Result, SparseRow, memory};
use std::borrow::Cow;

/// An n×k matrix Ã stored by rows, padded to whole registers.
///
/// S = ÃᵀÃ and S⁻¹ are kept up to date by the learners that need them. Those
/// that move the rows only leave them untracked, and pay nothing for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Tall<R> {
    k: usize,
    width: usize,
    data: Aligned<R>,
    /// Whether the two matrices below are those of the rows.
    tracked: bool,
    pub(crate) gram: Square,
    pub(crate) gram_inverse: Square,
}

impl<R: Real> Tall<R> {
    /// From the entry at each row and column, with its Gram matrix computed.
    /// Refused when it does not fit in memory or has not full column rank.
    pub fn from_fn(rows: usize, k: usize, f: impl Fn(usize, usize) -> f64) -> Result<Self> {
        let mut out = Self::zero(rows, k)?;
        let width = out.width;
        for (i, row) in out.data.chunks_exact_mut(width).enumerate() {
            for (j, entry) in row[..k].iter_mut().enumerate() {
                *entry = R::from_f64(f(i, j));
            }
        }
        out.recompute_gram();
        if out.invert_gram() {
            Ok(out)
        } else {
            Err(crate::Error::input(format!(
                "the start has not full column rank: {rows} rows, rank {k}"
            )))
        }
    }

    fn zero(rows: usize, k: usize) -> Result<Self> {
        let mut out = Tall {
            k,
            width: row_width::<R>(k),
            data: Aligned::new(),
            tracked: true,
            gram: Square::zero(k),
            gram_inverse: Square::zero(k),
        };
        out.grow(rows)?;
        Ok(out)
    }

    /// From the parts of a model file: unpadded rows, and the Gram matrix and
    /// its inverse as they were saved, if they were tracked.
    pub(crate) fn from_parts(
        rows: &[R],
        k: usize,
        tracked: Option<(Square, Square)>,
    ) -> Result<Self> {
        let mut out = Self::zero(rows.len() / k, k)?;
        let width = out.width;
        for (row, from) in out.data.chunks_exact_mut(width).zip(rows.chunks_exact(k)) {
            row[..k].copy_from_slice(from);
        }
        match tracked {
            Some((gram, inverse)) => {
                out.gram = gram;
                out.gram_inverse = inverse;
            }
            None => out.untrack(),
        }
        Ok(out)
    }

    /// Whether S and S⁻¹ are kept up to date.
    pub(crate) fn is_tracked(&self) -> bool {
        self.tracked
    }

    /// Stops keeping S and S⁻¹.
    pub(crate) fn untrack(&mut self) {
        self.tracked = false;
        self.gram = Square::zero(self.k);
        self.gram_inverse = Square::zero(self.k);
    }

    /// Starts keeping S and S⁻¹; false where S is singular.
    pub(crate) fn track(&mut self) -> bool {
        if self.tracked {
            return true;
        }
        self.tracked = true;
        self.recompute_gram();
        self.invert_gram()
    }

    /// S, computed where it is not tracked.
    pub(crate) fn gram_now(&self) -> Cow<'_, Square> {
        if self.tracked {
            Cow::Borrowed(&self.gram)
        } else {
            Cow::Owned(self.computed_gram())
        }
    }

    /// Whether all numbers are finite; where the Gram matrix is tracked it
    /// tells of the rows.
    pub(crate) fn is_finite(&self) -> bool {
        let small = [&self.gram, &self.gram_inverse];
        small.iter().all(|m| m.norm().is_finite())
            && (self.tracked || self.data.iter().all(|v| v.to_f64().is_finite()))
    }

    /// n.
    pub fn rows(&self) -> usize {
        self.data.len() / self.width
    }

    /// k.
    pub fn rank(&self) -> usize {
        self.k
    }

    /// Row i, without padding.
    pub fn row(&self, i: usize) -> &[R] {
        &self.data[i * self.width..][..self.k]
    }

    /// Row i, to be written: the Gram matrix must not be tracked.
    pub(crate) fn row_mut(&mut self, i: usize) -> &mut [R] {
        debug_assert!(!self.tracked, "nothing follows the rows");
        &mut self.data[i * self.width..][..self.k]
    }

    /// All rows, each padded with zeros to whole registers.
    pub(crate) fn padded_rows(&self) -> &[R] {
        &self.data
    }

    /// Adds rows of zeros up to `rows`, which leaves W and S exact.
    pub fn grow(&mut self, rows: usize) -> Result<()> {
        self.reserve(rows)?;
        let grown = self.data.grow(rows * self.width);
        assert!(grown, "there is room for {rows} rows");
        Ok(())
    }

    /// Makes room for so many rows. A factor that grows again and again is moved
    /// seldom: its room doubles where memory allows.
    pub(super) fn reserve(&mut self, rows: usize) -> Result<()> {
        let room = self.data.room() / self.width;
        if rows <= room {
            return Ok(());
        }
        // The old rows stay until they are copied, so all of the new ones count.
        let bytes = |rows: usize| rows as u128 * self.width as u128 * size_of::<R>() as u128;
        let what = format!("a factor of {rows} rows and rank {}", self.k);
        let mut wanted = rows.max(2 * room);
        if memory::require(bytes(wanted), &what).is_err() {
            wanted = rows;
            memory::require(bytes(wanted), &what)?;
        }
        if !self.data.reserve(wanted * self.width) {
            return Err(crate::Error::failure(format!("no memory for {what}")));
        }
        Ok(())
    }

    /// Gives zero row i its entries, rounded, with S and S⁻¹ exactly as they are
    /// then: S + r rᵀ, and S⁻¹ − z zᵀ / (1 + r·z) with z = S⁻¹ r [Sherman and
    /// Morrison 1950].
    pub(super) fn fill_row(&mut self, i: usize, entry: impl Fn(usize) -> f64) {
        let (mut r, mut z) = (vec![0.0; padded(self.k)], vec![0.0; padded(self.k)]);
        let row = &mut self.data[i * self.width..][..self.k];
        for (j, (stored, wide)) in row.iter_mut().zip(&mut r).enumerate() {
            *stored = R::from_f64(entry(j));
            *wide = stored.to_f64();
        }
        if !self.tracked {
            return;
        }
        self.gram_inverse.multiply_transposed(&mut z, &r);
        let scale = -1.0 / (1.0 + dot(&r, &z));
        self.gram.add_outer([&r], [&r]);
        let scaled: Vec<f64> = z.iter().map(|z| scale * z).collect();
        self.gram_inverse.add_outer([&z], [&scaled]);
    }

    /// The part of x that this factor has rows for: unseen features weigh nothing.
    pub(crate) fn known<'a>(&self, x: SparseRow<'a, R>) -> SparseRow<'a, R> {
        x.below(self.rows())
    }

    /// `out = Ãᵀ x`; `out` is padded.
    pub(crate) fn project(&self, out: &mut [f64], x: SparseRow<'_, R>) {
        gather(
            &mut out[..self.width],
            &self.data,
            self.width,
            self.known(x),
        );
    }

    /// `out = Ã w` for the rows from `first` on, as many as `out` has; `w` is
    /// padded.
    pub(crate) fn multiply_rows(&self, out: &mut [f64], first: usize, w: &[f64]) {
        let rows = &self.data[first * self.width..];
        multiply_rows(out, rows, &w[..self.width]);
    }

    /// Asks the memory for the first rows of x, before they are needed.
    pub(crate) fn expect(&self, x: SparseRow<'_, R>) {
        prefetch_rows(&self.data, self.width, x);
    }

    /// `Ã += x wᵀ`; `w` is padded. The caller updates the Gram matrix.
    pub(crate) fn add_outer(&mut self, x: SparseRow<'_, R>, w: &[R]) {
        scatter(&mut self.data, &w[..self.width], x);
    }

    /// S = ÃᵀÃ from the rows themselves.
    /// Whether this is the Gram matrix of the rows, after so many changes of rows since it
    /// was computed from them.
    ///
    /// S x is compared with Ãᵀ(Ã x) for a vector x without zeros, so that one wrong entry
    /// of S always shows, at 2nk operations. Each change of a row r rounds it to
    /// storage, which moves an entry of S by at most 2 ε ‖r‖² ≤ 2 ε tr S, and S x by
    /// at most √k times as much; the sums over n rows round as well. Growth in between may
    /// have made tr S larger than it is now, for which a factor of 8 remains.
    pub(crate) fn has_gram(&self, gram: &Square, changed: u64) -> bool {
        let k = self.k;
        // 1, −2, 3, −1, 2, −3, …: entries that are moved or swapped show, too.
        let probe = |j: usize| ((j % 3 + 1) as f64) * if j.is_multiple_of(2) { 1.0 } else { -1.0 };
        let mut left = vec![0.0; k];
        for i in 0..self.rows() {
            let row = self.row(i);
            let product: f64 = row
                .iter()
                .enumerate()
                .map(|(j, v)| v.to_f64() * probe(j))
                .sum();
            for (sum, v) in left.iter_mut().zip(row) {
                *sum += product * v.to_f64();
            }
        }
        let size = (0..k).map(|j| gram.get(j, j).abs()).sum::<f64>();
        let rounding = R::EPSILON * changed as f64 + f64::EPSILON * (self.rows() + 8 * k) as f64;
        let tolerance = 8.0 * 2.0 * 3.0 * (k as f64).sqrt() * rounding * size;
        (0..k).all(|i| {
            let right: f64 = (0..k).map(|j| gram.get(i, j) * probe(j)).sum();
            (left[i] - right).abs() <= tolerance
        })
    }

    pub(crate) fn recompute_gram(&mut self) {
        self.gram = self.computed_gram();
    }

    fn computed_gram(&self) -> Square {
        let mut gram = Square::zero(self.k);
        let mut wide = vec![0.0; padded(self.k)];
        for row in self.data.chunks_exact(self.width) {
            if row.iter().all(|&r| r == R::default()) {
                continue;
            }
            for (w, r) in wide.iter_mut().zip(row) {
                *w = r.to_f64();
            }
            gram.add_outer([&wide], [&wide]);
        }
        gram.symmetrize();
        gram
    }

    /// ‖Ã‖², from the rows.
    pub(crate) fn squared_norm(&self) -> f64 {
        let squares = self.data.iter().map(|v| v.to_f64() * v.to_f64());
        squares.sum()
    }

    /// S⁻¹ from S; false when S is not positive definite.
    pub(crate) fn invert_gram(&mut self) -> bool {
        match invert_definite(&self.gram) {
            Some(inverse) => {
                self.gram_inverse = inverse;
                true
            }
            None => false,
        }
    }

    /// Ã ← Ã T. The caller sees to the Gram matrix.
    pub(crate) fn multiply(&mut self, t: &Square) {
        let mut wide = vec![0.0; padded(self.k)];
        let mut moved = vec![0.0; padded(self.k)];
        for row in self.data.chunks_exact_mut(self.width) {
            if row.iter().all(|&r| r == R::default()) {
                continue;
            }
            for (w, r) in wide.iter_mut().zip(row.iter()) {
                *w = r.to_f64();
            }
            t.multiply_transposed(&mut moved, &wide);
            for (r, m) in row.iter_mut().zip(&moved) {
                *r = R::from_f64(*m);
            }
        }
    }

    /// Ã ← Ã T, with S and S⁻¹ computed anew from the rounded rows. `expected`
    /// is the diagonal that S has without rounding; it stands in for the
    /// inverse should the rounded S not be positive definite.
    pub(crate) fn transform(&mut self, t: &Square, expected: &[f64]) {
        self.multiply(t);
        self.tracked = true;
        self.recompute_gram();
        if !self.invert_gram() {
            let diagonal = |i, j| if i == j { 1.0 / expected[i] } else { 0.0 };
            self.gram_inverse = Square::from_fn(self.k, diagonal);
        }
    }

    /// The diagonal of Tᵀ S T: the squared column norms of Ã T.
    pub(crate) fn norms_after(&self, t: &Square) -> Vec<f64> {
        let t = t.to_faer();
        let s = self.gram_now().to_faer();
        let product = t.transpose() * s * &t;
        (0..self.k).map(|j| product[(j, j)]).collect()
    }

    /// ÃᵀB̃ with another factor of the same rank; rows that one of them lacks are
    /// zero.
    pub(crate) fn cross_gram(&self, other: &Tall<R>) -> Square {
        let mut out = Square::zero(self.k);
        let (mut a, mut b) = (vec![0.0; padded(self.k)], vec![0.0; padded(self.k)]);
        let rows = self.data.chunks_exact(self.width);
        for (mine, theirs) in rows.zip(other.data.chunks_exact(other.width)) {
            let zero = |row: &[R]| row.iter().all(|&r| r == R::default());
            if zero(mine) || zero(theirs) {
                continue;
            }
            for ((a, b), (m, t)) in a.iter_mut().zip(&mut b).zip(mine.iter().zip(theirs)) {
                (*a, *b) = (m.to_f64(), t.to_f64());
            }
            out.add_outer([&a], [&b]);
        }
        out
    }

    /// Ã S + B̃ T with another factor of the same rank.
    pub(crate) fn combined(&self, s: &Square, other: &Tall<R>, t: &Square) -> Result<Tall<R>> {
        let mut out = self.clone();
        out.multiply(s);
        out.grow(other.rows())?;
        let width = out.width;
        let mut at = 0;
        other.for_each_mapped(t, |row| {
            for (to, from) in out.data[at..at + width].iter_mut().zip(row) {
                *to = R::from_f64(to.to_f64() + from);
            }
            at += width;
        });
        out.tracked = true;
        out.recompute_gram();
        if out.invert_gram() {
            Ok(out)
        } else {
            Err(crate::Error::failure("a sum of two matrices lost rank"))
        }
    }

    /// Calls `see` with each row of Ã T, in order and unrounded.
    pub(crate) fn for_each_mapped(&self, t: &Square, mut see: impl FnMut(&[f64])) {
        let mut wide = vec![0.0; padded(self.k)];
        let mut moved = vec![0.0; padded(self.k)];
        for row in self.data.chunks_exact(self.width) {
            for (w, r) in wide.iter_mut().zip(row) {
                *w = r.to_f64();
            }
            t.multiply_transposed(&mut moved, &wide);
            see(&moved[..self.k]);
        }
    }

    /// What S will be like when its trace and that of S⁻¹ have grown by this
    /// much.
    pub(crate) fn health_after(&self, trace_gain: f64, inverse_trace_gain: f64) -> Health {
        let gains = [trace_gain, inverse_trace_gain];
        trace_health(&self.gram, &self.gram_inverse, gains)
    }

    /// Whether a factor of this squared norm is within the range of its
    /// precision, with room for columns much smaller than the largest.
    pub(crate) fn in_range(size: f64) -> bool {
        let norm = size.sqrt();
        norm > R::TINY / R::EPSILON * 1e6 && norm < R::MAX / 2.0
    }

    /// Whether a factor with columns of these squared norms keeps its digits.
    pub(crate) fn holds(squared_norms: &[f64]) -> bool {
        let inside = |s: &f64| s.sqrt() > R::TINY / R::EPSILON && s.sqrt() < R::MAX / 2.0;
        squared_norms.iter().all(inside)
    }
}

/// The trace of a positive definite matrix, and tr M · tr M⁻¹ / k², which lies
/// between cond(M)/k² and cond(M), after both traces grew by this much. Infinite
/// where they would no longer be traces of such matrices.
pub(crate) fn trace_health(m: &Square, inverse: &Square, gains: [f64; 2]) -> Health {
    let k = m.size() as f64;
    let (trace, inverse) = (m.trace() + gains[0], inverse.trace() + gains[1]);
    let sound = trace > 0.0 && inverse > 0.0;
    Health {
        size: trace,
        condition: if sound {
            trace / k * (inverse / k)
        } else {
            f64::INFINITY
        },
    }
}
