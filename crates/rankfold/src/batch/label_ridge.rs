//! Ridge regression of labels on rows, in closed form, for all penalties and all ranks
//! at once.
//!
//! X has the rows and Y a one where a row has a label, both centered. Of the eigenvectors
//! V and eigenvalues D of XᵀX and the moments C = Vᵀ Xᵀ Y,
//!
//! W = V F S,   F = (d + λ γ_j)⁻¹ C,   score(x, j) = (x − mean)ᵀ W e_j + link(share of j)
//!
//! is ridge regression where γ and S are 1. A label of share p has variance v = p(1−p).
//! The first step of logistic regression from the shares alone has the penalty λ/v and
//! the scale 1/v for it. A [`Shape`] lies between the two: γ_j = v^−a and S_j = v^−b, with
//! the link whose slope is v^−b. So rare labels are held down more, and what is left of
//! them counts more.
//!
//! The rank: all W of rank k that fit as well as they can are projections of W on the
//! leading right singular vectors of (D + λ)^½ Vᵀ W, of which YᵀXW has the eigenvectors
//! where γ and S are 1 ([Izenman1975]).
//!
//! V comes from XᵀX or XXᵀ where either is small. Else W is sought in the span of the
//! first blocks of XᵀY, (XᵀX) XᵀY, …, as steps of conjugate gradients would: O(nnz · r +
//! (p + r) r²) for r directions, and never p × p numbers.
//!
//! [Izenman1975]: A. J. Izenman, Reduced-rank regression for the multivariate linear
//! model, Journal of Multivariate Analysis 5.

use super::points::Points;
use super::rowwise::Rowwise;
use crate::linalg::symmetric;
use crate::parallel::map_blocks;
use crate::random::normal_at;
use crate::{Error, Real, Result, Rows, memory};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};

/// Features or rows up to which all directions are found.
const EXACT: usize = 640;

/// Directions of larger data: blocks of as many as there are labels, at least and at most
/// so many in all.
const BLOCKS: usize = 8;
const LEAST: usize = 160;
const MOST: usize = 640;

/// Work that bounds the directions: features times directions squared, and entries of rows
/// times directions.
const WORK: f64 = 2e10;

/// Eigenvalues below this share of the largest are rounding.
const TINY: f64 = 1e-12;

/// The purpose of the random combinations of labels.
const SKETCH: u64 = 21;

/// Columns in a block of a product.
const BLOCK: usize = 64;

/// How labels of different frequency are treated; 0 and 0 is ridge regression.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Shape {
    /// a: the penalty of a label is λ times its variance to the power −a.
    pub penalty: f64,
    /// b: its scores have the scale of its variance to the power −b.
    pub scale: f64,
}

/// Rows and labels, as all solutions need them.
#[derive(Debug, Clone)]
pub struct LabelRidge {
    rows: usize,
    mean: Vec<f64>,
    /// V, a column a direction.
    vectors: Mat<f64>,
    values: Vec<f64>,
    /// How many directions were not found, and the mean of their eigenvalues.
    others: (f64, f64),
    /// C, a column a label.
    moments: Mat<f64>,
    /// Σ Y², centered.
    total: f64,
    share: Vec<f64>,
    /// The variances of labels, relative to that of a typical one.
    variance: Vec<f64>,
    /// The variance of the typical one.
    typical: f64,
}

/// One solution: V times `coefficients` is W.
#[derive(Debug, Clone)]
pub struct LabelFit {
    /// A column a label.
    pub coefficients: Mat<f64>,
    /// The score of each label at the mean of the rows.
    pub offset: Vec<f64>,
    penalty: f64,
}

/// The same for all ranks: the first k columns of both make that of rank k.
#[derive(Debug, Clone)]
pub struct Reduced {
    /// V times this is the left factor of W.
    pub left: Mat<f64>,
    /// A row a label.
    pub right: Mat<f64>,
    /// Columns that are more than rounding.
    pub rank: usize,
}

impl Reduced {
    /// The same with both factors of a column of one length.
    pub(super) fn balanced(mut self) -> Self {
        for j in 0..self.left.ncols() {
            let (left, right) = (self.left.col_mut(j), self.right.col_mut(j));
            let (a, b) = (left.norm_l2(), right.norm_l2());
            if a > 0.0 && b > 0.0 {
                let scale = (b / a).sqrt();
                left.iter_mut().for_each(|v| *v *= scale);
                right.iter_mut().for_each(|v| *v /= scale);
            }
        }
        self
    }
}

impl LabelFit {
    /// All directions of a solution by factors.
    pub(super) fn of(reduced: &Reduced, offset: Vec<f64>, penalty: f64) -> Self {
        LabelFit {
            coefficients: &reduced.left * reduced.right.transpose(),
            offset,
            penalty,
        }
    }
}

impl LabelRidge {
    /// Prepares all solutions for rows whose labels, numbers below `count`, are given by
    /// the number of the row. In large data this share of the usual directions is sought.
    pub fn new<'a, R: Real>(
        rows: &Rows<R>,
        labels: impl Fn(usize) -> &'a [u32] + Sync,
        count: usize,
        directions: f64,
        seed: u64,
        threads: usize,
    ) -> Result<Self> {
        let (n, p) = (rows.len(), rows.columns());
        let mut points = Points::new(rows)?;
        let mean = points.means();
        let dense = points.subtract(&mean);
        let centered = Centered {
            mean: match dense {
                true => vec![0.0; p],
                false => mean.clone(),
            },
            points,
            threads,
        };
        let mut times = vec![0usize; count];
        for i in 0..n {
            labels(i).iter().for_each(|&y| times[y as usize] += 1);
        }
        let share: Vec<f64> = times.iter().map(|&t| t as f64 / n.max(1) as f64).collect();
        let total = times.iter().zip(&share).map(|(&t, s)| t as f64 * (1.0 - s));
        let total = total.sum();
        let usual = (BLOCKS.saturating_mul(count)).clamp(LEAST, MOST) as f64;
        let usual = usual.min((WORK / p.max(1) as f64).sqrt());
        let usual = usual.min(WORK / rows.nnz().max(1) as f64);
        let most = ((directions * usual) as usize).max(1).min(n).min(p);
        let bytes = 8 * (most as u128) * (n + 3 * p + 2 * count + 4 * most) as u128;
        memory::require(bytes, "ridge regression on these rows")?;
        let targets = Targets {
            labels: &labels,
            share: &share,
        };
        let found = match p <= EXACT || n <= EXACT {
            true if p <= n => centered.by_features(&targets),
            true => centered.by_rows(&targets),
            false => centered.krylov(&targets, most, seed),
        };
        let Some((values, vectors, moments)) = found else {
            return Err(Error::input(
                "the values of the rows are too large for ridge regression: scale them first",
            ));
        };
        let least = 0.5 / n.max(1) as f64;
        let variance: Vec<f64> = share
            .iter()
            .map(|s| s.clamp(least, 1.0 - least))
            .map(|s| s * (1.0 - s))
            .collect();
        // The typical variance is a geometric mean over all labels of all rows.
        let sum = share.iter().sum::<f64>();
        let logs = share.iter().zip(&variance).map(|(s, v)| s * v.ln());
        let typical = match sum > 0.0 {
            true => (logs.sum::<f64>() / sum).exp(),
            false => 1.0,
        };
        let squares: f64 = rows.iter().map(|row| row.squared_norm()).sum();
        let of_mean: f64 = mean.iter().map(|m| m * m).sum();
        let left = squares - n as f64 * of_mean - values.iter().sum::<f64>();
        let others = match p <= EXACT || n <= EXACT {
            true => 0.0,
            false => p.min(n - 1).saturating_sub(values.len()) as f64,
        };
        Ok(LabelRidge {
            rows: n,
            mean,
            vectors,
            values,
            others: (others, left.max(0.0) / others.max(1.0)),
            moments,
            total,
            share,
            variance: variance.into_iter().map(|v| v / typical).collect(),
            typical,
        })
    }

    /// The directions that were found.
    pub fn directions(&self) -> usize {
        self.values.len()
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn shares(&self) -> &[f64] {
        &self.share
    }

    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// The variance of a typical label: the penalty of logistic regression is about as many
    /// times that of ridge regression.
    pub fn typical(&self) -> f64 {
        self.typical
    }

    /// The logarithm of the odds of a label that this share of rows has.
    pub fn logit(&self, share: f64) -> f64 {
        let least = 0.5 / self.rows.max(1) as f64;
        let share = share.clamp(least, 1.0 - least);
        (share / (1.0 - share)).ln()
    }

    /// The penalty of ridge regression by generalized cross-validation: the one that makes
    /// n · (sum of squared residuals) / (n − degrees of freedom)² least. Directions that
    /// were not found cost freedom as well, as if their eigenvalues were equal.
    pub fn penalty(&self) -> f64 {
        let (others, other) = self.others;
        let sum = self.values.iter().sum::<f64>() + others * other;
        let mean = sum / (self.values.len() as f64 + others).max(1.0);
        if mean <= 0.0 {
            return 1.0;
        }
        // What a direction explains of all labels.
        let explained: Vec<f64> = (0..self.values.len())
            .map(|i| {
                let squares = self.moments.row(i).iter().map(|c| c * c);
                squares.sum::<f64>() / self.values[i]
            })
            .collect();
        let rest = (self.total - explained.iter().sum::<f64>()).max(0.0);
        let error = |penalty: f64| {
            let kept = self.values.iter().map(|d| d / (d + penalty));
            let unseen = others * other / (other + penalty);
            let freedom = 1.0 + kept.clone().sum::<f64>() + unseen;
            let lost = kept.zip(&explained).map(|(z, e)| (1.0 - z).powi(2) * e);
            (rest + lost.sum::<f64>()) / (self.rows as f64 - freedom).powi(2)
        };
        let candidates = (-20..=12).map(|i| mean * 10f64.powf(f64::from(i) / 4.0));
        let tried = candidates.map(|penalty| (error(penalty), penalty));
        let best = tried.filter(|t| t.0.is_finite());
        best.min_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(mean, |(_, penalty)| penalty)
    }

    /// The solution with this penalty.
    pub fn fit(&self, penalty: f64, shape: Shape) -> LabelFit {
        let weights: Vec<(f64, f64)> = self
            .variance
            .iter()
            .map(|v| (penalty * v.powf(-shape.penalty), v.powf(-shape.scale)))
            .collect();
        let coefficients = Mat::from_fn(self.values.len(), weights.len(), |i, j| {
            let (penalty, scale) = weights[j];
            self.moments[(i, j)] * scale / (self.values[i] + penalty)
        });
        LabelFit {
            coefficients,
            offset: self.share.iter().map(|&s| self.link(s, shape)).collect(),
            penalty,
        }
    }

    /// The score of a label that no row has.
    pub fn unseen(&self, shape: Shape) -> f64 {
        self.link(0.0, shape)
    }

    /// The score of a label that this share of rows has, where nothing is known of a row:
    /// ∫ (t(1−t))^−b dt from a half, on the scale of a typical label.
    fn link(&self, share: f64, shape: Shape) -> f64 {
        let end = self.logit(share);
        // By t = 1 / (1 + e^−u) the slope is (t(1−t))^(1−b), which is smooth. Simpson's rule.
        let slope = |u: f64| {
            let t = 1.0 / (1.0 + (-u).exp());
            (t * (1.0 - t)).powf(1.0 - shape.scale)
        };
        const STEPS: usize = 128;
        let step = end / STEPS as f64;
        let inner = |i: usize| slope(i as f64 * step) * if i % 2 == 1 { 4.0 } else { 2.0 };
        let sum = slope(0.0) + slope(end) + (1..STEPS).map(inner).sum::<f64>();
        sum * step / 3.0 * self.typical.powf(shape.scale)
    }

    /// All ranks of a solution.
    pub fn reduced(&self, fit: &LabelFit) -> Option<Reduced> {
        let coefficients = &fit.coefficients;
        let (r, labels) = (coefficients.nrows(), coefficients.ncols());
        let root = |i: usize| (self.values[i] + fit.penalty).sqrt();
        let fitted = Mat::from_fn(r, labels, |i, j| root(i) * coefficients[(i, j)]);
        // From the side that has fewer.
        let (left, right, squares) = match labels <= r {
            true => {
                let (squares, vectors) = symmetric::eigen(&(fitted.transpose() * &fitted))?;
                let vectors = vectors.reverse_cols().to_owned();
                (coefficients * &vectors, vectors, squares)
            }
            false => {
                let (squares, vectors) = symmetric::eigen(&(&fitted * fitted.transpose()))?;
                let vectors = vectors.reverse_cols().to_owned();
                let right = fitted.transpose() * &vectors;
                let left = Mat::from_fn(r, r, |i, j| vectors[(i, j)] / root(i));
                (left, right, squares)
            }
        };
        let largest = squares.last().copied().unwrap_or(0.0);
        let counts = |s: &&f64| **s > TINY * largest;
        let rank = squares.iter().rev().take_while(counts).count();
        Some(Reduced { left, right, rank }.balanced())
    }

    /// The coordinates of rows along the directions: (x − mean)ᵀ V.
    pub fn coordinates<R: Real>(&self, rows: &Rows<R>, threads: usize) -> Result<Mat<f64>> {
        let bytes = 8 * rows.len() as u128 * self.values.len() as u128;
        memory::require(2 * bytes, "the coordinates of rows")?;
        let mut out = Points::new(rows)?.product(&self.vectors, threads);
        let mean = self.at_mean(&self.vectors);
        for (column, mean) in out.col_iter_mut().zip(&mean) {
            column.iter_mut().for_each(|v| *v -= mean);
        }
        Ok(out)
    }

    /// The scores of rows with all labels, a column a row, by their coordinates.
    pub fn scores(&self, fit: &LabelFit, coordinates: &Mat<f64>, threads: usize) -> Mat<f64> {
        let coefficients = fit.coefficients.transpose();
        let scores = product(coefficients, coordinates.transpose(), threads);
        raised(scores, &fit.offset)
    }

    /// The same by the solution of rank k.
    pub fn scores_of_rank(
        &self,
        fit: &LabelFit,
        reduced: &Reduced,
        k: usize,
        coordinates: &Mat<f64>,
        threads: usize,
    ) -> Mat<f64> {
        let left = reduced.left.subcols(0, k);
        let inner = product(left.transpose(), coordinates.transpose(), threads);
        let scores = product(reduced.right.subcols(0, k), inner.as_ref(), threads);
        raised(scores, &fit.offset)
    }

    /// V times a matrix.
    pub fn to_features(&self, small: MatRef<'_, f64>, threads: usize) -> Mat<f64> {
        product(self.vectors.as_ref(), small, threads)
    }

    /// The mean row times a matrix.
    pub fn at_mean(&self, factor: &Mat<f64>) -> Vec<f64> {
        let dot = |c: faer::ColRef<'_, f64>| c.iter().zip(&self.mean).map(|(v, m)| v * m).sum();
        factor.col_iter().map(dot).collect()
    }
}

/// Adds a number to each row.
fn raised(mut scores: Mat<f64>, offset: &[f64]) -> Mat<f64> {
    for column in scores.col_iter_mut() {
        let column = column.iter_mut().zip(offset);
        column.for_each(|(score, offset)| *score += offset);
    }
    scores
}

/// What is regressed on the rows.
struct Targets<'s, F> {
    labels: &'s F,
    share: &'s [f64],
}

impl<'a, F: Fn(usize) -> &'a [u32] + Sync> Targets<'_, F> {
    /// Zᵀ Y, where the rows of Z sum to zero: no mean needs to be taken from Y.
    fn moments(&self, z: &Rowwise, columns: usize, rows: usize) -> Mat<f64> {
        let mut out = Rowwise::zero(self.share.len(), columns);
        let width = out.width;
        for i in 0..rows {
            for &y in (self.labels)(i) {
                let line = &mut out.data[y as usize * width..][..width];
                line.iter_mut().zip(z.row(i)).for_each(|(o, v)| *o += v);
            }
        }
        let out = out.to_mat(columns);
        out.transpose().to_owned()
    }

    /// Random combinations of centered labels, or the labels themselves where there are
    /// no more than `columns`.
    fn combined(&self, rows: usize, columns: usize, seed: u64) -> Rowwise {
        let labels = self.share.len();
        let weight = |y: usize, j: usize| match labels <= columns {
            true => f64::from(u8::from(y == j)),
            false => normal_at(seed, SKETCH, y as u64, j as u64),
        };
        let columns = columns.min(labels);
        let mut weights = Rowwise::zero(labels, columns);
        let mut mean = vec![0.0; columns];
        let width = weights.width;
        for y in 0..labels {
            for j in 0..columns {
                weights.data[y * width + j] = weight(y, j);
                mean[j] += self.share[y] * weight(y, j);
            }
        }
        let mut out = Rowwise::zero(rows, columns);
        for (i, line) in out.data.chunks_exact_mut(width).enumerate() {
            for &y in (self.labels)(i) {
                let from = weights.row(y as usize);
                line.iter_mut().zip(from).for_each(|(o, v)| *o += v);
            }
            line.iter_mut().zip(&mean).for_each(|(o, m)| *o -= m);
        }
        out
    }
}

/// Eigenvalues, eigenvectors and moments.
type Found = Option<(Vec<f64>, Mat<f64>, Mat<f64>)>;

/// Rows as they are, and what is still to be subtracted from them.
struct Centered {
    points: Points,
    mean: Vec<f64>,
    threads: usize,
}

impl Centered {
    /// By the eigenvectors of XᵀX.
    fn by_features<'a, F: Fn(usize) -> &'a [u32] + Sync>(&self, targets: &Targets<'_, F>) -> Found {
        let (n, m) = (self.points.len() as f64, &self.mean);
        let mut gram = self.points.gram(self.threads);
        for j in 0..gram.ncols() {
            for i in j..gram.nrows() {
                gram[(i, j)] -= n * m[i] * m[j];
            }
        }
        let (values, vectors) = leading(&gram)?;
        // Xᵀ Y by way of the rows times V would hold all of them.
        let moments = Mat::from_fn(m.len(), targets.share.len(), |j, y| {
            -n * m[j] * targets.share[y]
        });
        let moments = moments + self.points.sums(targets.labels, targets.share.len());
        let moments = product(vectors.transpose(), moments.as_ref(), self.threads);
        Some((values, vectors, moments))
    }

    /// By the eigenvectors U of XXᵀ: V = Xᵀ U D^−½.
    fn by_rows<'a, F: Fn(usize) -> &'a [u32] + Sync>(&self, targets: &Targets<'_, F>) -> Found {
        let n = self.points.len();
        let outer = self.points.outer(self.threads);
        let at = |i: usize, j: usize| outer[(i.max(j), i.min(j))];
        let whole = Mat::from_fn(n, n, at);
        // What the mean takes away from each product.
        let taken: Vec<f64> = match self.mean.iter().any(|m| *m != 0.0) {
            true => {
                let column = Mat::from_fn(self.mean.len(), 1, |j, _| self.mean[j]);
                let found = self.points.product(&column, self.threads);
                (0..n).map(|i| found[(i, 0)]).collect()
            }
            false => vec![0.0; n],
        };
        let square: f64 = self.mean.iter().map(|m| m * m).sum();
        let gram = Mat::from_fn(n, n, |i, j| whole[(i, j)] - taken[i] - taken[j] + square);
        let (values, u) = leading(&gram)?;
        let scaled = Mat::from_fn(n, values.len(), |i, j| u[(i, j)] / values[j].sqrt());
        let vectors = self.back(&Rowwise::from_mat(&scaled), values.len());
        let raised = Mat::from_fn(n, values.len(), |i, j| u[(i, j)] * values[j].sqrt());
        let moments = targets.moments(&Rowwise::from_mat(&raised), values.len(), n);
        Some((values, vectors, moments))
    }

    /// In the span of the first blocks of a Krylov space.
    fn krylov<'a, F: Fn(usize) -> &'a [u32] + Sync>(
        &self,
        targets: &Targets<'_, F>,
        most: usize,
        seed: u64,
    ) -> Found {
        let (n, p) = (self.points.len(), self.mean.len());
        // A few blocks at least: a single one sees each label alone.
        let wide = (most / 4).max(1);
        let start = targets.combined(n, wide, seed);
        let columns = wide.min(targets.share.len());
        let mut block = self.back(&start, columns);
        let mut basis = Mat::<f64>::zeros(p, 0);
        let mut gram = Mat::<f64>::zeros(most, most);
        let mut moments = Mat::<f64>::zeros(most, targets.share.len());
        let finite = |m: &Mat<f64>| m.col_iter().all(|c| c.iter().all(|v| v.is_finite()));
        while basis.ncols() < most {
            if !finite(&block) {
                return None;
            }
            let done = basis.ncols();
            let new = orthonormal(&basis, block, most - done, self.threads)?;
            let width = new.ncols();
            if width == 0 {
                break;
            }
            let mut wider = Mat::zeros(p, done + width);
            wider.subcols_mut(0, done).copy_from(&basis);
            wider.subcols_mut(done, width).copy_from(&new);
            basis = wider;
            let z = self.times(&new);
            let part = targets.moments(&z, width, n);
            moments.subrows_mut(done, width).copy_from(&part);
            block = self.back(&z, width);
            let part = product(basis.transpose(), block.as_ref(), self.threads);
            for j in 0..width {
                for i in 0..done + width {
                    gram[(i, done + j)] = part[(i, j)];
                    gram[(done + j, i)] = part[(i, j)];
                }
            }
        }
        let r = basis.ncols();
        let gram = symmetric::part(&gram.submatrix(0, 0, r, r).to_owned());
        let (values, vectors) = leading(&gram)?;
        let moments = product(vectors.transpose(), moments.subrows(0, r), self.threads);
        let vectors = product(basis.as_ref(), vectors.as_ref(), self.threads);
        Some((values, vectors, moments))
    }

    /// X Q, centered.
    fn times(&self, q: &Mat<f64>) -> Rowwise {
        let mut out = self.points.times(q, self.threads);
        let mean: Vec<f64> = q
            .col_iter()
            .map(|c| c.iter().zip(&self.mean).map(|(v, m)| v * m).sum())
            .collect();
        let width = out.width;
        for line in out.data.chunks_exact_mut(width) {
            line.iter_mut().zip(&mean).for_each(|(o, m)| *o -= m);
        }
        out
    }

    /// Xᵀ Z, centered.
    fn back(&self, z: &Rowwise, columns: usize) -> Mat<f64> {
        let mut out = self.points.back(z, columns, self.threads);
        let mut sums = vec![0.0; columns];
        for line in z.data.chunks_exact(z.width) {
            sums.iter_mut().zip(line).for_each(|(s, v)| *s += v);
        }
        for (j, sum) in sums.iter().enumerate() {
            let column = out.col_mut(j).iter_mut().zip(&self.mean);
            column.for_each(|(o, m)| *o -= m * sum);
        }
        out
    }
}

/// The positive eigenvalues of a symmetric matrix, falling, and their eigenvectors.
fn leading(gram: &Mat<f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    let (values, vectors) = symmetric::eigen(gram)?;
    let largest = values.last().copied().unwrap_or(0.0);
    let counts = |v: &&f64| **v > TINY * largest && **v > 0.0;
    let values: Vec<f64> = values.iter().rev().take_while(counts).copied().collect();
    let vectors = vectors.reverse_cols().subcols(0, values.len()).to_owned();
    Some((values, vectors))
}

/// An orthonormal basis of at most so many columns of what a block adds to another basis.
fn orthonormal(
    basis: &Mat<f64>,
    mut block: Mat<f64>,
    most: usize,
    threads: usize,
) -> Option<Mat<f64>> {
    // Columns of very different length would hide each other.
    let unit = |block: &mut Mat<f64>| {
        for column in block.col_iter_mut() {
            let length = column.norm_l2();
            if length > 0.0 {
                column.iter_mut().for_each(|v| *v /= length);
            }
        }
    };
    unit(&mut block);
    // What is left after the first time is not yet orthogonal to rounding.
    for _ in 0..2 {
        if basis.ncols() > 0 {
            let inside = product(basis.transpose(), block.as_ref(), threads);
            block -= product(basis.as_ref(), inside.as_ref(), threads);
        }
        let gram = product(block.transpose(), block.as_ref(), threads);
        let (values, vectors) = symmetric::eigen(&symmetric::part(&gram))?;
        // Squares: directions of a millionth of the length are kept.
        let count = values.iter().rev().take_while(|v| **v > TINY).count();
        let count = count.min(most);
        let vectors = vectors.reverse_cols();
        let scaled = Mat::from_fn(values.len(), count, |i, j| {
            vectors[(i, j)] / values[values.len() - 1 - j].sqrt()
        });
        block = product(block.as_ref(), scaled.as_ref(), threads);
    }
    Some(block)
}

/// A product of matrices, some columns at a time.
pub(super) fn product(left: MatRef<'_, f64>, right: MatRef<'_, f64>, threads: usize) -> Mat<f64> {
    let blocks = map_blocks(right.ncols(), BLOCK, threads, |range| {
        let part = right.subcols(range.start, range.len());
        let mut out = Mat::zeros(left.nrows(), range.len());
        matmul(&mut out, Accum::Replace, left, part, 1.0, Par::Seq);
        out
    });
    let mut out = Mat::zeros(left.nrows(), right.ncols());
    for (i, block) in blocks.into_iter().enumerate() {
        out.subcols_mut(i * BLOCK, block.ncols()).copy_from(&block);
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::SparseVec;
    use crate::manifold::tests::matrix;

    /// Rows of which some entries are zero, and labels that follow from them and chance.
    pub fn example(n: usize, p: usize, count: usize, keep: usize) -> (Rows<f64>, Vec<Vec<u32>>) {
        let (x, noise) = (matrix(n, p, 3), matrix(n, count, 4));
        let mut rows = Rows::new();
        let mut labels = Vec::new();
        for i in 0..n {
            let entries = (0..p).filter(|j| (i * 7 + j * 3) % 10 < keep);
            let entries: Vec<_> = entries.map(|j| (j as u32, x[(i, j)] + 0.5)).collect();
            labels.push(
                (0..count as u32)
                    .filter(|&y| {
                        let signal: f64 = entries
                            .iter()
                            .map(|(j, v)| v * (f64::from((j * 5 + y * 3) % 7) - 3.0))
                            .sum();
                        signal + noise[(i, y as usize)] > 0.5 * f64::from(y)
                    })
                    .collect(),
            );
            rows.push(SparseVec::from_entries(entries).as_row());
        }
        rows.widen(p);
        (rows, labels)
    }

    fn dense(rows: &Rows<f64>) -> Mat<f64> {
        let mut x = Mat::zeros(rows.len(), rows.columns());
        for (i, row) in rows.iter().enumerate() {
            row.iter().for_each(|(j, v)| x[(i, j as usize)] = v);
        }
        x
    }

    fn centered(mut m: Mat<f64>) -> Mat<f64> {
        for mut column in m.col_iter_mut() {
            let mean = column.as_ref().iter().sum::<f64>() / column.nrows().max(1) as f64;
            column.as_mut().iter_mut().for_each(|v| *v -= mean);
        }
        m
    }

    /// (XᵀX + λI)⁻¹ Xᵀ y for every label by elimination, each with its own penalty.
    fn plain(x: &Mat<f64>, y: &Mat<f64>, penalties: &[f64]) -> Mat<f64> {
        let p = x.ncols();
        let (gram, right) = (x.transpose() * x, x.transpose() * y);
        let mut out = Mat::zeros(p, y.ncols());
        for (label, penalty) in penalties.iter().enumerate() {
            let mut a = gram.clone();
            let mut b: Vec<f64> = (0..p).map(|j| right[(j, label)]).collect();
            (0..p).for_each(|j| a[(j, j)] += penalty);
            for c in 0..p {
                for i in c + 1..p {
                    let factor = a[(i, c)] / a[(c, c)];
                    (c..p).for_each(|j| a[(i, j)] -= factor * a[(c, j)]);
                    b[i] -= factor * b[c];
                }
            }
            for c in (0..p).rev() {
                let known: f64 = (c + 1..p).map(|j| a[(c, j)] * out[(j, label)]).sum();
                out[(c, label)] = (b[c] - known) / a[(c, c)];
            }
        }
        out
    }

    fn targets(labels: &[Vec<u32>], count: usize) -> Mat<f64> {
        let has = |i: usize, y: usize| labels[i].contains(&(y as u32));
        Mat::from_fn(labels.len(), count, |i, y| f64::from(u8::from(has(i, y))))
    }

    fn close(a: &Mat<f64>, b: &Mat<f64>, tolerance: f64) -> bool {
        (a - b).norm_max() <= tolerance * b.norm_max().max(1e-3)
    }

    #[test]
    fn all_ways_solve_what_elimination_solves() {
        // Wide, tall, sparse, one row, one feature; all labels alike in the last.
        for (n, p, count, keep) in [
            (30, 8, 4, 10),
            (30, 8, 4, 2),
            (9, 25, 3, 10),
            (9, 25, 5, 2),
            (1, 3, 2, 10),
            (6, 1, 3, 10),
            (5, 4, 0, 10),
        ] {
            let (rows, labels) = example(n, p, count, keep);
            let of = |i: usize| &labels[i][..];
            let (x, y) = (centered(dense(&rows)), centered(targets(&labels, count)));
            let points = || Points::new(&rows).unwrap();
            for shape in [
                Shape::default(),
                super::Shape {
                    penalty: 0.5,
                    scale: 0.75,
                },
            ] {
                let whole = LabelRidge::new(&rows, of, count, 1.0, 1, 2).unwrap();
                let penalty = 0.3;
                let fit = whole.fit(penalty, shape);
                let scales: Vec<f64> = whole
                    .variance
                    .iter()
                    .map(|v| v.powf(-shape.scale))
                    .collect();
                let penalties = whole
                    .variance
                    .iter()
                    .map(|v| penalty * v.powf(-shape.penalty));
                let want = plain(&x, &y, &penalties.collect::<Vec<_>>());
                let want = Mat::from_fn(p, count, |i, j| want[(i, j)] * scales[j]);
                let got = whole.to_features(fit.coefficients.as_ref(), 1);
                assert!(close(&got, &want, 1e-10), "{n} {p} {count} {keep}");

                // A Krylov space that holds all directions, and the side that is not taken.
                let share = whole.share.clone();
                let targets = Targets {
                    labels: &of,
                    share: &share,
                };
                let mean = points().means();
                let mut stored = points();
                let dense = stored.subtract(&mean);
                let ways = Centered {
                    mean: if dense { vec![0.0; p] } else { mean },
                    points: stored,
                    threads: 2,
                };
                for found in [
                    ways.by_features(&targets),
                    ways.by_rows(&targets),
                    ways.krylov(&targets, n.min(p), 1),
                ] {
                    let (values, vectors, moments) = found.unwrap();
                    let other = LabelRidge {
                        values,
                        vectors,
                        moments,
                        ..whole.clone()
                    };
                    let fit = other.fit(penalty, shape);
                    let got = other.to_features(fit.coefficients.as_ref(), 1);
                    assert!(close(&got, &want, 1e-8), "{n} {p} {count} {keep}");
                }
            }
        }
    }

    #[test]
    fn each_rank_is_the_projection_on_leading_directions() {
        for (n, p, count) in [(40, 9, 6), (40, 4, 7), (12, 30, 5)] {
            let (rows, labels) = example(n, p, count, 10);
            let ridge = LabelRidge::new(&rows, |i| &labels[i][..], count, 1.0, 1, 1).unwrap();
            let fit = ridge.fit(0.7, Shape::default());
            let all = ridge.reduced(&fit).unwrap();
            let (x, y) = (centered(dense(&rows)), centered(targets(&labels, count)));
            let w = plain(&x, &y, &vec![0.7; count]);
            let m = symmetric::part(&(y.transpose() * &x * &w));
            let (_, vectors) = symmetric::eigen(&m).unwrap();
            for k in 1..=all.rank {
                let q = vectors.subcols(count - k, k);
                let want = &w * q * q.transpose();
                let left = ridge.to_features(all.left.subcols(0, k), 1);
                let got = left * all.right.subcols(0, k).transpose();
                assert!(close(&got, &want, 1e-7), "rank {k} of {n} {p} {count}");
                let scores =
                    ridge.scores_of_rank(&fit, &all, k, &ridge.coordinates(&rows, 1).unwrap(), 1);
                let want = (&x * &got).transpose().to_owned();
                for i in 0..n {
                    for label in 0..count {
                        let want = want[(label, i)] + fit.offset[label];
                        assert!((scores[(label, i)] - want).abs() < 1e-10);
                    }
                }
            }
            assert!(all.rank <= count.min(p));
        }
    }

    #[test]
    fn the_link_has_the_slope_of_the_scale() {
        let (rows, labels) = example(50, 3, 2, 10);
        let ridge = LabelRidge::new(&rows, |i| &labels[i][..], 2, 1.0, 1, 1).unwrap();
        // In closed form: the share itself, twice the arc sine of its root, the logit.
        let typical = ridge.typical;
        for share in [0.02, 0.3, 0.5, 0.9_f64] {
            let link = |scale: f64| {
                ridge.link(
                    share,
                    super::Shape {
                        penalty: 0.0,
                        scale,
                    },
                )
            };
            let arc = 2.0 * share.sqrt().asin() - std::f64::consts::FRAC_PI_2;
            assert!((link(0.0) - (share - 0.5)).abs() < 1e-9);
            assert!((link(0.5) - arc * typical.sqrt()).abs() < 1e-9);
            let logit = (share / (1.0 - share)).ln();
            assert!((link(1.0) - logit * typical).abs() < 1e-9);
        }
    }

    #[test]
    fn cross_validation_holds_noise_down_and_lets_signal_through() {
        let x = matrix(200, 10, 7);
        let rows: Rows<f64> = (0..200)
            .map(|i| SparseVec::from_dense(&(0..10).map(|j| x[(i, j)]).collect::<Vec<_>>()))
            .fold(Rows::new(), |mut rows, row| {
                rows.push(row.as_row());
                rows
            });
        let noise = matrix(200, 1, 8);
        let signal: Vec<Vec<u32>> = (0..200)
            .map(|i| (0..u32::from(x[(i, 0)] > 0.0)).collect())
            .collect();
        let chance: Vec<Vec<u32>> = (0..200)
            .map(|i| (0..u32::from(noise[(i, 0)] > 0.0)).collect())
            .collect();
        let penalty = |labels: &[Vec<u32>]| {
            let ridge = LabelRidge::new(&rows, |i| &labels[i][..], 1, 1.0, 1, 1).unwrap();
            ridge.penalty() / ridge.values[0]
        };
        assert!(penalty(&signal) < 0.1 && penalty(&chance) > 1.0);
    }

    #[test]
    fn large_data_have_few_directions_and_the_same_bits_for_any_threads() {
        let (rows, labels) = example(700, 660, 5, 1);
        let of = |i: usize| &labels[i][..];
        let new = |threads| LabelRidge::new(&rows, of, 5, 0.375, 1, threads).unwrap();
        let few = new(1);
        assert_eq!(few.directions(), 60);
        let (x, y) = (centered(dense(&rows)), centered(targets(&labels, 5)));
        let mean = few.others.1;
        let fit = few.fit(mean, Shape::default());
        let got = few.to_features(fit.coefficients.as_ref(), 1);
        let want = plain(&x, &y, &[mean; 5]);
        assert!(close(&got, &want, 0.05));
        assert_eq!(got, {
            let few = new(3);
            let fit = few.fit(mean, Shape::default());
            few.to_features(fit.coefficients.as_ref(), 3)
        });
    }

    #[test]
    fn rows_without_anything_and_values_out_of_range_are_told() {
        let mut rows: Rows<f64> = Rows::new();
        rows.push(SparseVec::new().as_row());
        rows.push(SparseVec::new().as_row());
        rows.widen(3);
        let labels: [&[u32]; 2] = [&[0], &[0, 1]];
        let ridge = LabelRidge::new(&rows, |i| labels[i], 2, 1.0, 1, 1).unwrap();
        assert_eq!((ridge.directions(), ridge.penalty()), (0, 1.0));
        let fit = ridge.fit(1.0, Shape::default());
        assert_eq!(ridge.reduced(&fit).unwrap().rank, 0);
        assert!(fit.offset[0] > fit.offset[1]);
        let huge = Rows::from_dense([[1e300, 1.0], [-1e300, 2.0]]).unwrap();
        assert!(LabelRidge::new(&huge, |i| labels[i], 2, 1.0, 1, 1).is_err());
    }
}
