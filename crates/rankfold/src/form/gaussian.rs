//! A Gaussian over matrices with covariance Ω ⊗ Λ: a mean W, and how sure it is of
//! each direction on its left (Λ) and on its right (Ω).
//!
//! An update adds a matrix of rank one to all three. They are not added one by
//! one, which would pass over three matrices each time. A block of them
//! waits beside the matrices, W = W₀ + L Rᵀ, Λ = Λ₀ − F Fᵀ, Ω = Ω₀ − G Gᵀ, and is then
//! added at once, as products of matrices, which run at the speed of arithmetic
//! and not of memory. What is read is always exact: stored and waiting parts.
//!
//! Cost of an update: O((n + m)(nnz + BLOCK)) and its share of the products.

use super::Full;
use crate::kernel::sum_scaled;
use crate::{Real, Result, SparseRow, memory};

/// Updates that wait, unless another number is asked for.
const BLOCK: usize = 64;

/// W with covariance Ω ⊗ Λ.
#[derive(Debug, Clone, PartialEq)]
pub struct Gaussian<R> {
    /// W₀, Λ₀ and Ω₀.
    mean: Full<R>,
    left: Full<R>,
    right: Full<R>,
    /// Vectors that wait, one after the other: L and F of the length of the
    /// rows, R and G of the columns.
    mean_left: Waiting<R>,
    mean_right: Waiting<R>,
    left_terms: Waiting<R>,
    right_terms: Waiting<R>,
    /// Updates that may wait.
    block: usize,
}

/// Vectors of one length.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Waiting<R> {
    length: usize,
    data: Vec<R>,
}

impl<R: Real> Waiting<R> {
    fn new(length: usize) -> Self {
        Waiting {
            length,
            data: Vec::new(),
        }
    }

    pub(crate) fn from_parts(length: usize, data: Vec<R>) -> Option<Self> {
        let whole =
            length == 0 && data.is_empty() || length > 0 && data.len().is_multiple_of(length);
        whole.then_some(Waiting { length, data })
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn count(&self) -> usize {
        self.data.len().checked_div(self.length).unwrap_or(0)
    }

    pub(crate) fn vector(&self, i: usize) -> &[R] {
        &self.data[i * self.length..][..self.length]
    }

    fn vectors(&self) -> std::slice::ChunksExact<'_, R> {
        self.data.chunks_exact(self.length.max(1))
    }

    fn push(&mut self, scale: f64, vector: &[f64]) {
        self.data
            .extend(vector.iter().map(|v| R::from_f64(scale * v)));
    }

    fn grow(&mut self, length: usize) {
        if length > self.length {
            let mut data = Vec::with_capacity(self.count() * length);
            for vector in self.vectors() {
                data.extend_from_slice(vector);
                data.resize(data.len() + length - self.length, R::default());
            }
            (self.length, self.data) = (length, data);
        }
    }
}

/// x · v for sparse x.
fn product<R: Real>(x: SparseRow<'_, R>, v: &[R]) -> f64 {
    x.iter()
        .map(|(i, x)| x.to_f64() * v[i as usize].to_f64())
        .sum()
}

/// One side of the covariance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Covariance {
    /// Λ.
    Left,
    /// Ω.
    Right,
}

impl<R: Real> Gaussian<R> {
    /// A diagonal mean with covariance I ⊗ I. Refused when it does not fit in
    /// memory.
    pub fn new(rows: usize, columns: usize, diagonal: f64) -> Result<Self> {
        let (n, m) = (rows as u128, columns as u128);
        let bytes = (n * m + n * n + m * m) * size_of::<R>() as u128;
        let what = format!("a Gaussian over matrices of {rows} × {columns}");
        memory::require(bytes, &what)?;
        Ok(Self::from_matrices(
            Full::diagonal(rows, columns, diagonal)?,
            Full::diagonal(rows, rows, 1.0)?,
            Full::diagonal(columns, columns, 1.0)?,
        ))
    }

    fn from_matrices(mean: Full<R>, left: Full<R>, right: Full<R>) -> Self {
        let (rows, columns) = mean.shape();
        Gaussian {
            mean,
            left,
            right,
            mean_left: Waiting::new(rows),
            mean_right: Waiting::new(columns),
            left_terms: Waiting::new(rows),
            right_terms: Waiting::new(columns),
            block: BLOCK,
        }
    }

    /// Lets another number of updates wait. It changes the speed, and the results
    /// to rounding.
    #[doc(hidden)]
    pub fn with_block(self, block: usize) -> Self {
        Gaussian { block, ..self }
    }

    /// From the parts of a model file: the matrices, then what waits in the order
    /// of the fields; `None` where sizes do not go together.
    pub(crate) fn from_parts(matrices: [Full<R>; 3], waiting: [Waiting<R>; 4]) -> Option<Self> {
        let [mean, left, right] = matrices;
        let [mean_left, mean_right, left_terms, right_terms] = waiting;
        let (rows, columns) = mean.shape();
        let sound = left.shape() == (rows, rows)
            && right.shape() == (columns, columns)
            && [mean_left.length, left_terms.length] == [rows; 2]
            && [mean_right.length, right_terms.length] == [columns; 2]
            && mean_left.count() == mean_right.count()
            && [&left, &right]
                .iter()
                .all(|m| (0..m.shape().0).all(|i| m.row(i)[i].to_f64() >= 0.0));
        sound.then_some(Gaussian {
            mean,
            left,
            right,
            mean_left,
            mean_right,
            left_terms,
            right_terms,
            block: BLOCK,
        })
    }

    /// The matrices as stored, and what waits: for the model file.
    pub(crate) fn parts(&self) -> ([&Full<R>; 3], [&Waiting<R>; 4]) {
        (
            [&self.mean, &self.left, &self.right],
            [
                &self.mean_left,
                &self.mean_right,
                &self.left_terms,
                &self.right_terms,
            ],
        )
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        self.mean.shape()
    }

    /// leftᵀ W right.
    pub fn score(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        let (rows, columns) = self.shape();
        let (left, right) = (left.below(rows), right.below(columns));
        let waiting = self.mean_left.vectors().zip(self.mean_right.vectors());
        let terms = waiting.map(|(l, r)| product(left, l) * product(right, r));
        self.mean.score(left, right) + terms.sum::<f64>()
    }

    /// `out = Wᵀ x`.
    pub(crate) fn project(&self, out: &mut [f64], x: SparseRow<'_, R>) {
        let x = x.below(self.shape().0);
        self.mean.project(out, x);
        for (l, r) in self.mean_left.vectors().zip(self.mean_right.vectors()) {
            sum_scaled(out, r, product(x, l));
        }
    }

    /// `out = W x`.
    pub(crate) fn project_right(&self, out: &mut [f64], x: SparseRow<'_, R>) {
        let x = x.below(self.shape().1);
        for (i, out) in out.iter_mut().enumerate() {
            *out = product(x, self.mean.row(i));
        }
        for (l, r) in self.mean_left.vectors().zip(self.mean_right.vectors()) {
            sum_scaled(out, l, product(x, r));
        }
    }

    fn side(&self, side: Covariance) -> (&Full<R>, &Waiting<R>) {
        match side {
            Covariance::Left => (&self.left, &self.left_terms),
            Covariance::Right => (&self.right, &self.right_terms),
        }
    }

    /// `out = Λ x` or `Ω x`; returns xᵀ times it.
    pub(crate) fn spread(&self, side: Covariance, out: &mut [f64], x: SparseRow<'_, R>) -> f64 {
        let (matrix, terms) = self.side(side);
        let x = x.below(out.len());
        // The matrix is symmetric, so its rows are its columns.
        matrix.project(out, x);
        for f in terms.vectors() {
            sum_scaled(out, f, -product(x, f));
        }
        x.iter().map(|(i, v)| v.to_f64() * out[i as usize]).sum()
    }

    /// xᵀ Λ x or xᵀ Ω x.
    pub(crate) fn variance_of(&self, side: Covariance, x: SparseRow<'_, R>) -> f64 {
        let (matrix, terms) = self.side(side);
        let x = x.below(matrix.shape().0);
        let waiting: f64 = terms.vectors().map(|f| product(x, f).powi(2)).sum();
        matrix.score(x, x) - waiting
    }

    /// The variance of leftᵀ W right.
    pub fn variance(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        let (a, b) = (
            self.variance_of(Covariance::Left, left),
            self.variance_of(Covariance::Right, right),
        );
        a.max(0.0) * b.max(0.0)
    }

    /// W += c · left rightᵀ.
    pub(crate) fn add_mean(&mut self, c: f64, left: &[f64], right: &[f64]) {
        self.mean_left.push(c, left);
        self.mean_right.push(1.0, right);
    }

    /// Λ −= c · x xᵀ or Ω −= c · x xᵀ.
    pub(crate) fn subtract(&mut self, side: Covariance, c: f64, x: &[f64]) {
        let terms = match side {
            Covariance::Left => &mut self.left_terms,
            Covariance::Right => &mut self.right_terms,
        };
        terms.push(c.sqrt(), x);
    }

    /// Adds what waits when there is enough of it.
    pub(crate) fn settle_block(&mut self) {
        if self.mean_left.count() >= self.block {
            self.mean
                .add_product(&self.mean_left.data, &self.mean_right.data);
            self.mean_left.data.clear();
            self.mean_right.data.clear();
        }
        if self.left_terms.count() >= self.block {
            self.left.subtract_gram(&self.left_terms.data);
            self.left_terms.data.clear();
        }
        if self.right_terms.count() >= self.block {
            self.right.subtract_gram(&self.right_terms.data);
            self.right_terms.data.clear();
        }
    }

    /// Grows to at least this many rows and columns; new features have mean 0
    /// and variance 1. All or nothing: matrices of different sizes would be no
    /// Gaussian.
    pub fn grow(&mut self, rows: usize, columns: usize) -> Result<()> {
        let (rows, columns) = (rows.max(self.shape().0), columns.max(self.shape().1));
        if (rows, columns) == self.shape() {
            return Ok(());
        }
        // The largest of the three is a covariance.
        let side = rows.max(columns);
        let bytes = side as u128 * side as u128 * size_of::<R>() as u128;
        memory::require(bytes, &format!("a covariance of {side} features"))?;
        let before = self.shape();
        let mut grown = self.mean.grow(rows, columns);
        grown = grown.and_then(|()| self.left.grow(rows, rows));
        grown = grown.and_then(|()| self.right.grow(columns, columns));
        if grown.is_err() {
            self.mean.cut(before.0, before.1);
            self.left.cut(before.0, before.0);
            self.right.cut(before.1, before.1);
            return grown;
        }
        self.mean_left.grow(rows);
        self.left_terms.grow(rows);
        self.mean_right.grow(columns);
        self.right_terms.grow(columns);
        Ok(())
    }

    /// W, Λ and Ω as dense rows: for tests and tiny matrices.
    pub fn to_dense(&self) -> [Vec<Vec<f64>>; 3] {
        let mut mean = self.mean.to_dense();
        let add = |to: &mut Vec<Vec<f64>>, l: &[R], r: &[R], sign: f64| {
            for (row, l) in to.iter_mut().zip(l) {
                for (entry, r) in row.iter_mut().zip(r) {
                    *entry += sign * l.to_f64() * r.to_f64();
                }
            }
        };
        for (l, r) in self.mean_left.vectors().zip(self.mean_right.vectors()) {
            add(&mut mean, l, r, 1.0);
        }
        let (mut left, mut right) = (self.left.to_dense(), self.right.to_dense());
        self.left_terms
            .vectors()
            .for_each(|f| add(&mut left, f, f, -1.0));
        self.right_terms
            .vectors()
            .for_each(|f| add(&mut right, f, f, -1.0));
        [mean, left, right]
    }

    pub(crate) fn is_finite(&self) -> bool {
        let (matrices, waiting) = self.parts();
        let finite = |v: &R| v.to_f64().is_finite();
        matrices.iter().all(|m| m.is_finite()) && waiting.iter().all(|w| w.data.iter().all(finite))
    }
}
