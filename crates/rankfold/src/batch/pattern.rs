//! What the pattern of known entries tells of rows: which entries somebody gave,
//! whatever they were [Koren 2008], and how many.
//!
//! The expected row of line i is C f(n_i) + Σ_j y_j / √n_i over the n_i places j that are
//! known in it. The first term is a parabola in ln n_i; the rows y_j are learned by ridge
//! regression, a few steps of conjugate gradients at a time.

use super::pass::{AHEAD, BLOCK, by_width};
use super::rowwise::Rowwise;
use super::state::SolverState;
use crate::Result;
use crate::kernel::{prefetch, vectorized};
use crate::linalg::symmetric;
use crate::parallel::map_rows;
use crate::sparse::Lines;
use faer::Mat;
use serde::{Deserialize, Serialize};

/// Conjugate gradient steps at a time; they go on where those before ended.
pub(super) const STEPS: usize = 3;

/// Bytes of rows that the processor finds soon enough by itself.
const NEAR: usize = 4 << 20;

/// Where there are more, lines are added up tile by tile of these rows: bytes of a tile, which
/// stay in the cache of a core, and lines that go through it together.
const TILE_BYTES: usize = 512 << 10;
const TILE_LINES: usize = 512;

/// The ridge of what counts tell: that of so many rows.
pub(super) const COUNT_RIDGE: f64 = 20.0;

/// Numbers of a line that its expected row is linear in: 1 and two powers.
pub(super) const POWERS: usize = 3;

/// Expected rows of one side.
#[derive(Debug)]
pub(super) struct Pattern<'a> {
    lines: Lines<'a>,
    /// The same entries seen from the other side.
    across: Lines<'a>,
    d: usize,
    /// κ; without one, patterns and counts tell nothing.
    ridge: Option<f64>,
    /// What each place adds to the rows in which it is known.
    weights: Rowwise,
    /// What all places add to each row.
    added: Rowwise,
    /// Powers of counts, for lines that have entries.
    powers: Vec<[f64; POWERS]>,
    /// 1/√n for each line.
    lengths: Vec<f64>,
    threads: usize,
}

vectorized! {
    /// Adds the rows below `end` of a line, of which so many are done.
    fn add_rows<; W>(out: &mut [f64], done: &mut usize, index: &[u32], end: usize, rows: &[f64]) {
        let width = if W == 0 { out.len() } else { W };
        let far = size_of_val(rows) > NEAR;
        // Sums of a known width stay in registers.
        let mut sums = [0.0; W];
        sums.copy_from_slice(&out[..W]);
        let mut at = *done;
        while let Some(&j) = index.get(at) && (j as usize) < end {
            if far && let Some(&later) = index.get(at + AHEAD) {
                prefetch(rows, later as usize * width, width);
            }
            let row = &rows[j as usize * width..][..width];
            if W == 0 {
                out.iter_mut().zip(row).for_each(|(o, r)| *o += r);
            } else {
                for (s, r) in sums.iter_mut().zip(row) {
                    *s += r;
                }
            }
            at += 1;
        }
        out[..W].copy_from_slice(&sums);
        *done = at;
    }
}

impl<'a> Pattern<'a> {
    pub fn new(
        lines: Lines<'a>,
        across: Lines<'a>,
        d: usize,
        ridge: Option<f64>,
        threads: usize,
    ) -> Self {
        let length = |i: usize| 1.0 / (lines.count(i).max(1) as f64).sqrt();
        // Nothing is stored where nothing is learned.
        let rows = |count: usize| Rowwise::zero(ridge.map_or(0, |_| count), d);
        Pattern {
            lines,
            across,
            d,
            ridge,
            weights: rows(across.len()),
            added: rows(lines.len()),
            powers: powers(lines),
            lengths: (0..lines.len()).map(length).collect(),
            threads,
        }
    }

    /// Adds it to the state of a solver.
    pub fn put(&self, name: &str, state: SolverState) -> SolverState {
        match self.ridge {
            Some(_) => state.with_block(&format!("{name}.pattern"), self.weights.to_mat(self.d)),
            None => state,
        }
    }

    /// Takes it from a state.
    pub fn take(&mut self, name: &str, state: &SolverState) -> Result<()> {
        if self.ridge.is_some() {
            let shape = (self.across.len(), self.d);
            self.weights = Rowwise::from_mat(state.block(&format!("{name}.pattern"), shape)?);
            self.added = self.spread(&self.weights);
        }
        Ok(())
    }

    /// The same for rows times a small matrix.
    pub fn turned(&self, map: &Mat<f64>) -> Self {
        let mut out = Pattern {
            d: map.ncols(),
            weights: self.weights.times(map),
            added: Rowwise::zero(0, map.ncols()),
            powers: self.powers.clone(),
            lengths: self.lengths.clone(),
            ..*self
        };
        if out.ridge.is_some() {
            out.added = out.spread(&out.weights);
        }
        out
    }

    /// The expected rows, where rows are as given.
    pub fn expected(&self, rows: &Rowwise) -> Rowwise {
        let mut out = self.common(rows);
        if self.ridge.is_some() {
            for (o, a) in out.data.iter_mut().zip(&self.added.data[..]) {
                *o += a;
            }
        }
        out
    }

    /// What counts tell of rows, beside their patterns.
    fn common(&self, rows: &Rowwise) -> Rowwise {
        let used = if self.ridge.is_some() { POWERS } else { 1 };
        let width = rows.width;
        let mut gram = Mat::from_fn(used, used, |i, j| match i == j && i > 0 {
            true => COUNT_RIDGE,
            false => 0.0,
        });
        let mut products = Mat::<f64>::zeros(used, width);
        for i in (0..self.lines.len()).filter(|&i| self.lines.count(i) > 0) {
            let f = &self.powers[i];
            for a in 0..used {
                (0..used).for_each(|b| gram[(a, b)] += f[a] * f[b]);
                for (b, row) in rows.row(i).iter().enumerate() {
                    let less = self.ridge.map_or(0.0, |_| self.added.row(i)[b]);
                    products[(a, b)] += f[a] * (row - less);
                }
            }
        }
        let inverse = symmetric::map(&gram, |value| 1.0 / value.max(1e-9));
        let found = inverse.map_or(Mat::zeros(used, width), |inverse| inverse * products);
        let mut out = Rowwise::zero(self.lines.len(), self.d);
        for (f, row) in self.powers.iter().zip(out.data.chunks_exact_mut(width)) {
            for a in 0..used {
                for (b, o) in row.iter_mut().enumerate() {
                    *o += f[a] * found[(a, b)];
                }
            }
        }
        out
    }

    /// Z ↦ P Z for the pattern P, whose rows have length one.
    fn spread(&self, z: &Rowwise) -> Rowwise {
        let mut out = line_sums(self.lines, z, self.threads);
        scale_rows(&mut out, &self.lengths);
        out
    }

    /// X ↦ Pᵀ X.
    fn collect(&self, mut x: Rowwise) -> Rowwise {
        scale_rows(&mut x, &self.lengths);
        line_sums(self.across, &x, self.threads)
    }

    /// A few steps towards the Y of least ‖M − P Y‖² + κ‖Y‖², where M are the
    /// rows less their common part; each column is a problem of its own.
    pub fn learn(&mut self, rows: &Rowwise) {
        let Some(ridge) = self.ridge else { return };
        let width = rows.width;
        // What is left of the rows, which steps then lower.
        let mut left = rows.clone();
        let expected = self.expected(rows);
        for (l, e) in left.data.iter_mut().zip(&expected.data[..]) {
            *l -= e;
        }
        let mut residual = self.collect(left);
        for (r, w) in residual.data.iter_mut().zip(&self.weights.data[..]) {
            *r -= ridge * w;
        }
        let mut direction = residual.clone();
        let mut square = column_dots(&residual, &residual);
        for _ in 0..STEPS {
            let mut turned = self.collect(self.spread(&direction));
            for (t, d) in turned.data.iter_mut().zip(&direction.data[..]) {
                *t += ridge * d;
            }
            let curvature = column_dots(&direction, &turned);
            let step = ratios(&square, &curvature);
            add_columns(&mut self.weights, &direction, &step, 1.0);
            add_columns(&mut residual, &turned, &step, -1.0);
            let next = column_dots(&residual, &residual);
            let kept = ratios(&next, &square);
            for (d, r) in direction
                .data
                .chunks_exact_mut(width)
                .zip(residual.data.chunks_exact(width))
            {
                for ((d, r), k) in d.iter_mut().zip(r).zip(&kept) {
                    *d = r + k * *d;
                }
            }
            square = next;
        }
        self.added = self.spread(&self.weights);
    }
}

/// Adds the rows of one line.
pub(super) fn add_line(out: &mut [f64], index: &[u32], rows: &[f64]) {
    let (width, end) = (out.len(), usize::MAX);
    by_width!(width, add_rows(out, &mut 0, index, end, rows));
}

/// The rows of each line added up, in their order, in tiles as well.
pub(super) fn line_sums(lines: Lines<'_>, rows: &Rowwise, threads: usize) -> Rowwise {
    let bytes = size_of_val(&rows.data[..]);
    let (tile, block) = match bytes > NEAR {
        true => (
            (TILE_BYTES / (size_of::<f64>() * rows.width)).max(1),
            TILE_LINES,
        ),
        false => (rows.rows().max(1), BLOCK),
    };
    sums_by(lines, rows, (tile, block), threads)
}

/// The same by tiles of so many rows and blocks of so many lines.
fn sums_by(
    lines: Lines<'_>,
    rows: &Rowwise,
    (tile, block): (usize, usize),
    threads: usize,
) -> Rowwise {
    let mut out = Rowwise::zero(lines.len(), rows.width);
    let width = out.width;
    map_rows(&mut out.data, width, block, threads, |first, out| {
        let mut done = vec![0; out.len() / width];
        for end in (tile..rows.rows() + tile).step_by(tile) {
            let lines_done = out.chunks_exact_mut(width).zip(&mut done);
            for (i, (out, done)) in (first..).zip(lines_done) {
                let index = lines.line(i).0;
                by_width!(width, add_rows(out, done, index, end, &rows.data));
            }
        }
    });
    out
}

/// 1, z and z² − 1 for the logarithms z of counts, brought to mean 0 and variance 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Powers {
    mean: f64,
    scale: f64,
}

impl Powers {
    /// For logarithms of this mean and variance.
    pub fn new(mean: f64, variance: f64) -> Self {
        let scale = if variance > 1e-9 {
            1.0 / variance.sqrt()
        } else {
            0.0
        };
        Powers { mean, scale }
    }

    pub fn of(&self, count: usize) -> [f64; POWERS] {
        let z = self.scale * (log_count(count) - self.mean);
        [1.0, z, if self.scale > 0.0 { z * z - 1.0 } else { 0.0 }]
    }
}

/// The logarithm of how many entries a line has.
pub(super) fn log_count(count: usize) -> f64 {
    (count.max(1) as f64).ln()
}

/// Powers of the counts of all lines.
fn powers(lines: Lines<'_>) -> Vec<[f64; POWERS]> {
    let seen: Vec<f64> = (0..lines.len())
        .filter(|&i| lines.count(i) > 0)
        .map(|i| log_count(lines.count(i)))
        .collect();
    let count = seen.len().max(1) as f64;
    let mean = seen.iter().sum::<f64>() / count;
    let variance = seen.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / count;
    let powers = Powers::new(mean, variance);
    (0..lines.len())
        .map(|i| powers.of(lines.count(i)))
        .collect()
}

pub(super) fn scale_rows(rows: &mut Rowwise, scales: &[f64]) {
    let width = rows.width;
    for (row, scale) in rows.data.chunks_exact_mut(width).zip(scales) {
        row.iter_mut().for_each(|r| *r *= scale);
    }
}

pub(super) fn column_dots(a: &Rowwise, b: &Rowwise) -> Vec<f64> {
    let mut out = vec![0.0; a.width];
    for (a, b) in a
        .data
        .chunks_exact(a.width)
        .zip(b.data.chunks_exact(a.width))
    {
        for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
            *o += a * b;
        }
    }
    out
}

/// a/b, and 0 where b is not above 0.
pub(super) fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    let pairs = a.iter().zip(b);
    pairs
        .map(|(a, b)| if *b > 0.0 { a / b } else { 0.0 })
        .collect()
}

pub(super) fn add_columns(to: &mut Rowwise, from: &Rowwise, scales: &[f64], sign: f64) {
    let width = to.width;
    let rows = to.data.chunks_exact_mut(width);
    for (to, from) in rows.zip(from.data.chunks_exact(width)) {
        for ((t, f), s) in to.iter_mut().zip(from).zip(scales) {
            *t += sign * s * f;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Observed, Part};
    use crate::manifold::tests::matrix;
    use crate::random::splitmix64;

    /// Steps that go on end at the solution of the normal equations.
    #[test]
    fn patterns_are_learned_by_ridge_regression() {
        let (n, m, d, ridge) = (14, 9, 3, 0.7);
        let known = (0..n * m).filter(|&t| splitmix64(t as u64) % 10 < 4);
        let entries = known.map(|t| ((t / m) as u32, (t % m) as u32, 1.0));
        let (observed, _) = Observed::new((n, m), entries.collect()).unwrap();
        let view = observed.part(Part::All);
        let rows = matrix(n, d, 3);
        let mut pattern = Pattern::new(view.rows, view.columns, d, Some(ridge), 2);
        let given = Rowwise::from_mat(&rows);
        for _ in 0..200 {
            pattern.learn(&given);
        }
        let p = Mat::from_fn(n, m, |i, j| {
            let (index, _) = view.rows.line(i);
            match index.contains(&(j as u32)) {
                true => 1.0 / (index.len() as f64).sqrt(),
                false => 0.0,
            }
        });
        // Given the rest, both the pattern and what counts tell solve their equations.
        let y = pattern.weights.to_mat(d);
        let common = pattern.common(&given).to_mat(d);
        let slope = p.transpose() * (&rows - &common - &p * &y) - faer::Scale(ridge) * &y;
        assert!(slope.norm_max() < 1e-6, "{slope:?}");
        let left = rows - &p * &y - &common;
        let f = Mat::from_fn(n, POWERS, |i, a| pattern.powers[i][a]);
        let seen = Mat::from_fn(n, d, |i, j| match view.rows.count(i) {
            0 => 0.0,
            _ => left[(i, j)],
        });
        let level = f.transpose() * seen;
        assert!(level.row(0).iter().all(|v| v.abs() < 1e-6), "{level:?}");
        let expected = pattern.expected(&given).to_mat(d);
        assert!((expected - common - p * y).norm_max() < 1e-12);
    }

    /// Tiles change where rows are looked for, and no bits.
    #[test]
    fn sums_by_tiles_are_those_of_whole_lines() {
        let (n, m) = (70, 45);
        let known = (0..n * m).filter(|&t| splitmix64(t as u64) % 10 < 4 && t / m != 3);
        let entries = known.map(|t| ((t / m) as u32, (t % m) as u32, 1.0));
        let (observed, _) = Observed::new((n, m), entries.collect()).unwrap();
        let view = observed.part(Part::All);
        for d in [1, 4, 7, 20, 40] {
            let rows = Rowwise::from_mat(&matrix(m, d, 3));
            let whole = line_sums(view.rows, &rows, 2);
            let mut want = Rowwise::<f64>::zero(n, d);
            let width = want.width;
            for i in 0..n {
                for &j in view.rows.line(i).0 {
                    let out = want.data[i * width..][..width].iter_mut();
                    out.zip(rows.row(j as usize)).for_each(|(o, r)| *o += r);
                }
            }
            assert_eq!(whole.data[..], want.data[..]);
            for (tile, block) in [(1, 3), (8, 64), (44, 7), (45, 1), (1000, 512)] {
                let tiled = sums_by(view.rows, &rows, (tile, block), 2);
                assert_eq!(tiled.data[..], want.data[..]);
            }
        }
    }
}
