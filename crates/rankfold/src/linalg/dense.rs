//! Small dense matrices, as a step on several examples multiplies them: tens of rows and columns,
//! where a call of a library for large matrices costs more than its work.
//!
//! Rows are padded with zeros to whole registers, and there are whole groups of rows, so that
//! loops have no tails. Products are not fused into their sums, so that bits are the same on all
//! processors.

use super::Square;
use crate::kernel::vectorized;
use faer::Mat;
use std::ops::{Index, IndexMut};

/// Rows that are multiplied together, and the numbers of a row beside each other.
const ROWS: usize = 4;
const LANES: usize = 8;

/// A matrix of any shape, row by row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dense {
    rows: usize,
    columns: usize,
    width: usize,
    data: Vec<f64>,
}

impl Index<(usize, usize)> for Dense {
    type Output = f64;

    fn index(&self, (i, j): (usize, usize)) -> &f64 {
        &self.data[i * self.width + j]
    }
}

impl IndexMut<(usize, usize)> for Dense {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut f64 {
        &mut self.data[i * self.width + j]
    }
}

vectorized! {
    /// out = A B, where entry (i, l) of A is at i · steps[0] + l · steps[1].
    fn multiply<>(out: &mut [f64], a: &[f64], b: &[f64], steps: [usize; 2], inner: usize, widths: [usize; 2]) {
        let [width, out_width] = widths;
        for (group, out) in out.chunks_exact_mut(ROWS * out_width).enumerate() {
            for first in (0..out_width).step_by(LANES) {
                let mut sums = [[0.0; LANES]; ROWS];
                for l in 0..inner {
                    let b: &[f64; LANES] = b[l * width + first..][..LANES].try_into().expect("lanes");
                    let a = &a[group * ROWS * steps[0] + l * steps[1]..];
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let c = a[r * steps[0]];
                        for (sum, b) in sums.iter_mut().zip(b) {
                            *sum += c * b;
                        }
                    }
                }
                for (r, sums) in sums.iter().enumerate() {
                    out[r * out_width + first..][..LANES].copy_from_slice(sums);
                }
            }
        }
    }
}

vectorized! {
    /// Subtracts multiples of a row from all others, so that their entry in the column of its
    /// number vanishes.
    fn sweep<>(data: &mut [f64], width: usize, at: usize, pivot: &[f64]) {
        for (i, row) in data.chunks_exact_mut(width).enumerate() {
            let c = row[at];
            if i == at || c == 0.0 {
                continue;
            }
            row[at] = 0.0;
            for (value, pivot) in row.iter_mut().zip(pivot) {
                *value -= c * pivot;
            }
        }
    }
}

impl Dense {
    pub fn zero(rows: usize, columns: usize) -> Self {
        let width = columns.next_multiple_of(LANES);
        Dense {
            rows,
            columns,
            width,
            data: vec![0.0; rows.next_multiple_of(ROWS) * width],
        }
    }

    pub fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Self {
        let mut out = Self::zero(rows, columns);
        for i in 0..rows {
            let row = out.row_mut(i).iter_mut().enumerate();
            row.for_each(|(j, value)| *value = f(i, j));
        }
        out
    }

    pub fn from_square(square: &Square) -> Self {
        let k = square.size();
        let mut out = Self::zero(k, k);
        for i in 0..k {
            out.row_mut(i).copy_from_slice(square.row(i));
        }
        out
    }

    pub fn to_square(&self) -> Square {
        Square::from_fn(self.rows, |i, j| self[(i, j)])
    }

    pub fn to_faer(&self) -> Mat<f64> {
        Mat::from_fn(self.rows, self.columns, |i, j| self[(i, j)])
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.width..][..self.columns]
    }

    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.data[i * self.width..][..self.columns]
    }

    pub fn transposed(&self) -> Self {
        let mut out = Self::zero(self.columns, self.rows);
        for i in 0..self.rows {
            for (j, &value) in self.row(i).iter().enumerate() {
                out[(j, i)] = value;
            }
        }
        out
    }

    /// A B.
    pub fn times(&self, other: &Dense) -> Self {
        debug_assert_eq!(self.columns, other.rows);
        let mut out = Self::zero(self.rows, other.columns);
        let widths = [other.width, out.width];
        let steps = [self.width, 1];
        multiply(
            &mut out.data,
            &self.data,
            &other.data,
            steps,
            self.columns,
            widths,
        );
        out
    }

    /// Aᵀ B.
    pub fn transposed_times(&self, other: &Dense) -> Self {
        debug_assert_eq!(self.rows, other.rows);
        let mut out = Self::zero(self.columns, other.columns);
        let widths = [other.width, out.width];
        let steps = [1, self.width];
        multiply(
            &mut out.data,
            &self.data,
            &other.data,
            steps,
            self.rows,
            widths,
        );
        out
    }

    /// self + c · other.
    pub fn plus(mut self, c: f64, other: &Dense) -> Self {
        let pairs = self.data.iter_mut().zip(&other.data);
        pairs.for_each(|(a, b)| *a += c * b);
        self
    }

    pub fn scaled(mut self, c: f64) -> Self {
        self.data.iter_mut().for_each(|value| *value *= c);
        self
    }

    /// self + c · I.
    pub fn plus_unit(mut self, c: f64) -> Self {
        (0..self.rows).for_each(|i| self[(i, i)] += c);
        self
    }

    /// ‖·‖ (Frobenius).
    pub fn norm(&self) -> f64 {
        let mut sum = 0.0;
        crate::kernel::sum_of_squares(&mut sum, &self.data);
        sum.sqrt()
    }

    /// The inverse of a square matrix by elimination; `None` where a pivot vanishes or is not a
    /// number. `definite` takes pivots as they come and asks them to be positive; otherwise the
    /// largest of what is left of a column is taken.
    pub fn inverse(&self, definite: bool) -> Option<Self> {
        let n = self.rows;
        let mut work = self.clone();
        // Row i of what is left belongs to this column of the inverse.
        let mut order: Vec<usize> = (0..n).collect();
        let mut pivot = vec![0.0; self.width];
        for p in 0..n {
            if !definite {
                let size = |i: usize| work[(i, p)].abs();
                let largest =
                    (p + 1..n).fold(p, |best, i| if size(i) > size(best) { i } else { best });
                if largest != p {
                    let (head, tail) = work.data.split_at_mut(largest * self.width);
                    head[p * self.width..][..self.width].swap_with_slice(&mut tail[..self.width]);
                    order.swap(p, largest);
                }
            }
            let value = work[(p, p)];
            let usable = if definite { value > 0.0 } else { value != 0.0 };
            if !usable || !value.is_finite() {
                return None;
            }
            let row = &mut work.data[p * self.width..][..self.width];
            row[p] = 1.0;
            row.iter_mut().for_each(|v| *v /= value);
            pivot.copy_from_slice(row);
            let used = n * self.width;
            sweep(&mut work.data[..used], self.width, p, &pivot);
        }
        if order.is_sorted() {
            return Some(work);
        }
        let mut out = Self::zero(n, n);
        for i in 0..n {
            for (j, &column) in order.iter().enumerate() {
                out[(i, column)] = work[(i, j)];
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_at;

    fn random(rows: usize, columns: usize, seed: u64) -> Dense {
        Dense::from_fn(rows, columns, |i, j| normal_at(seed, 0, i as u64, j as u64))
    }

    #[test]
    fn products_and_inverses_are_those_of_large_matrices() {
        for (n, k, m) in [(1, 1, 1), (3, 5, 2), (8, 4, 8), (20, 30, 9), (33, 2, 17)] {
            let (a, b) = (random(n, k, 1), random(k, m, 2));
            let off = |found: &Dense, want: Mat<f64>| (found.to_faer() - want).norm_max();
            assert!(off(&a.times(&b), a.to_faer() * b.to_faer()) < 1e-13 * k as f64);
            let other = random(n, m, 3);
            let want = a.to_faer().transpose() * other.to_faer();
            assert!(off(&a.transposed_times(&other), want) < 1e-13 * n as f64);
            assert_eq!(a.transposed().transposed(), a);
            let squared = a.transposed_times(&a).plus_unit(1.0);
            for (matrix, definite) in [
                (&squared, true),
                (&squared, false),
                (&random(n, n, 4), false),
            ] {
                let inverse = matrix.inverse(definite).unwrap();
                let unit = Mat::<f64>::identity(matrix.rows(), matrix.rows());
                let bound = 1e-14 * n as f64 * matrix.norm() * inverse.norm();
                assert!((matrix.to_faer() * inverse.to_faer() - unit).norm_max() < bound);
            }
        }
    }

    #[test]
    fn pivots_are_looked_for_and_singular_matrices_have_no_inverse() {
        let turn = Dense::from_fn(3, 3, |i, j| f64::from(u8::from((i + 1) % 3 == j)));
        assert_eq!(turn.inverse(false), Some(turn.transposed()));
        assert_eq!(turn.inverse(true), None);
        assert_eq!(Dense::zero(2, 2).inverse(false), None);
        let lost = Dense::from_fn(2, 2, |i, _| [1.0, f64::NAN][i]);
        assert_eq!(lost.inverse(true), None);
        let negative = Dense::from_fn(2, 2, |i, j| if i == j { [1.0, -1.0][i] } else { 0.0 });
        assert!(negative.inverse(true).is_none() && negative.inverse(false).is_some());
    }
}
