//! A k×k matrix of `f64` with padded rows: the small state of every form.

use crate::kernel::{self, row_width};
use faer::Mat;

/// Row-major k×k, each row padded with zeros to whole registers, so
/// that the kernels run without tails. The padding stays zero because every
/// vector that meets it is padded with zeros too.
#[derive(Debug, Clone, PartialEq)]
pub struct Square {
    k: usize,
    width: usize,
    data: Vec<f64>,
}

impl Square {
    /// The zero matrix.
    pub fn zero(k: usize) -> Self {
        let width = row_width::<f64>(k);
        Square {
            k,
            width,
            data: vec![0.0; k * width],
        }
    }

    /// The identity.
    pub fn identity(k: usize) -> Self {
        Self::from_fn(k, |i, j| if i == j { 1.0 } else { 0.0 })
    }

    /// From a function of row and column.
    pub fn from_fn(k: usize, f: impl Fn(usize, usize) -> f64) -> Self {
        let mut out = Self::zero(k);
        for i in 0..k {
            for j in 0..k {
                out.data[i * out.width + j] = f(i, j);
            }
        }
        out
    }

    pub(crate) fn from_faer(a: &Mat<f64>) -> Self {
        Self::from_fn(a.nrows(), |i, j| a[(i, j)])
    }

    pub(crate) fn to_faer(&self) -> Mat<f64> {
        Mat::from_fn(self.k, self.k, |i, j| self.get(i, j))
    }

    /// k.
    pub fn size(&self) -> usize {
        self.k
    }

    /// The entry in row i, column j.
    pub fn get(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.width + j]
    }

    pub(crate) fn get_mut(&mut self, i: usize, j: usize) -> &mut f64 {
        &mut self.data[i * self.width + j]
    }

    /// Row i, without padding.
    pub(crate) fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.width..][..self.k]
    }

    /// The entries without padding, row by row.
    pub fn to_vec(&self) -> Vec<f64> {
        let rows = self.data.chunks_exact(self.width);
        rows.flat_map(|row| &row[..self.k]).copied().collect()
    }

    /// The trace.
    pub fn trace(&self) -> f64 {
        (0..self.k).map(|i| self.get(i, i)).sum()
    }

    /// ‖·‖ (Frobenius).
    pub fn norm(&self) -> f64 {
        let mut sum = 0.0;
        kernel::sum_of_squares(&mut sum, &self.data);
        sum.sqrt()
    }

    /// `out = self · x`; both padded.
    pub(crate) fn multiply(&self, out: &mut [f64], x: &[f64]) {
        kernel::multiply(&mut out[..self.k], &self.data, &x[..self.width]);
    }

    /// `out = selfᵀ · x`; both padded. For a symmetric matrix this is the
    /// faster product.
    pub(crate) fn multiply_transposed(&self, out: &mut [f64], x: &[f64]) {
        kernel::multiply_transposed(&mut out[..self.width], &self.data, &x[..self.k]);
    }

    /// Two products with the transpose at once; all padded.
    pub(crate) fn multiply_transposed_pair(&self, outs: &mut [Vec<f64>; 2], xs: &[Vec<f64>; 2]) {
        let [first, second] = outs;
        let mut outs = [&mut first[..self.width], &mut second[..self.width]];
        let xs = [&xs[0][..self.k], &xs[1][..self.k]];
        kernel::multiply_transposed_pair(&mut outs, &self.data, xs);
    }

    /// `self += Σ xs[r] ys[r]ᵀ`; all padded.
    pub(crate) fn add_outer<const N: usize>(&mut self, xs: [&[f64]; N], ys: [&[f64]; N]) {
        kernel::add_outer(&mut self.data, &xs, &ys.map(|y| &y[..self.width]));
    }

    /// `out = self · other`.
    pub(crate) fn product(&self, out: &mut Square, other: &Square) {
        for (row, target) in self
            .data
            .chunks_exact(self.width)
            .zip(out.data.chunks_exact_mut(self.width))
        {
            kernel::multiply_transposed(target, &other.data, &row[..self.k]);
        }
    }

    /// `out = selfᵀ · other`.
    pub(crate) fn transposed_product(&self, out: &mut Square, other: &Square) {
        out.data.fill(0.0);
        for i in 0..self.k {
            let row = &other.data[i * self.width..][..self.width];
            for j in 0..self.k {
                let c = self.get(i, j);
                let target = &mut out.data[j * self.width..][..self.width];
                for (t, r) in target.iter_mut().zip(row) {
                    *t += c * r;
                }
            }
        }
    }

    /// `self ← c · self + d · other`.
    pub(crate) fn combine(&mut self, c: f64, d: f64, other: &Square) {
        for (a, b) in self.data.iter_mut().zip(&other.data) {
            *a = c * *a + d * b;
        }
    }

    /// `self ← self + c · I`.
    pub(crate) fn add_diagonal(&mut self, c: f64) {
        for i in 0..self.k {
            *self.get_mut(i, i) += c;
        }
    }

    /// Two different rows, padded.
    pub(super) fn two_rows(&mut self, i: usize, j: usize) -> (&mut [f64], &mut [f64]) {
        let width = self.width;
        let (low, high) = (i.min(j), i.max(j));
        let (head, tail) = self.data.split_at_mut(high * width);
        let (a, b) = (&mut head[low * width..][..width], &mut tail[..width]);
        if i < j { (a, b) } else { (b, a) }
    }

    /// `self ← other`, without allocating.
    pub(crate) fn assign(&mut self, other: &Square) {
        self.data.copy_from_slice(&other.data);
    }

    /// Makes a nearly symmetric matrix exactly symmetric.
    pub(crate) fn symmetrize(&mut self) {
        for i in 0..self.k {
            for j in 0..i {
                let mean = 0.5 * (self.get(i, j) + self.get(j, i));
                *self.get_mut(i, j) = mean;
                *self.get_mut(j, i) = mean;
            }
        }
    }

    /// One Newton–Schulz step towards the inverse of `self`:
    /// X ← X(2I − self·X). Returns ‖I − self·X‖ before the step; the error is
    /// squared by each step while that is below one.
    pub(crate) fn polish_inverse(&self, inverse: &mut Square, scratch: &mut Scratch) -> f64 {
        let Scratch([residual, correction]) = scratch;
        self.product(residual, inverse);
        for (i, row) in residual.data.chunks_exact_mut(self.width).enumerate() {
            for entry in row.iter_mut() {
                *entry = -*entry;
            }
            row[i] += 1.0;
        }
        inverse.product(correction, residual);
        for (x, c) in inverse.data.iter_mut().zip(&correction.data) {
            *x += c;
        }
        residual.norm()
    }
}

/// Room for work on two matrices; what lies in it means nothing, so any
/// two are equal.
#[derive(Debug, Clone)]
pub(crate) struct Scratch([Square; 2]);

impl Scratch {
    pub fn new(k: usize) -> Self {
        Scratch([Square::zero(k), Square::zero(k)])
    }

    pub fn squares(&mut self) -> &mut [Square; 2] {
        &mut self.0
    }
}

impl PartialEq for Scratch {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polishing_squares_the_error_of_an_inverse() {
        for k in [1, 2, 5, 8, 13] {
            let a = Square::from_fn(k, |i, j| {
                f64::from(i == j) * 3.0 + ((i * 7 + j * 3) as f64).sin()
            });
            let exact = Square::from_faer(&{
                use faer::linalg::solvers::DenseSolveCore;
                a.to_faer().partial_piv_lu().inverse()
            });
            let mut guess = exact.clone();
            for i in 0..k {
                *guess.get_mut(i, i) *= 1.0 + 1e-4;
            }
            let mut scratch = Scratch::new(k);
            let before = a.polish_inverse(&mut guess, &mut scratch);
            let after = a.polish_inverse(&mut guess, &mut scratch);
            assert!(
                before > 1e-5 && after < 10.0 * before * before,
                "k = {k}: {before} {after}"
            );
        }
    }
}
