//! Many regressions with features in common.

use crate::kernel::dot;
use crate::linalg::{qf, symmetric};
use crate::parallel::map_blocks;
use crate::{Error, Result, memory};
use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, MatRef, Side};
use std::ops::Range;

/// Rows of several tasks that are worked on together.
const BLOCK: usize = 1024;

/// Parts of a sum over all rows that are kept at a time.
const PARTS: usize = 8;

/// Regression tasks on the same features.
///
/// A task with more rows than features is kept as the triangle of its QR
/// factorization, which has the same cost in all weights but for a constant.
#[derive(Debug, Clone)]
pub struct Tasks {
    pub(super) features: usize,
    /// Where the rows of each task start, and the end of the last.
    pub(super) starts: Vec<usize>,
    /// Rows of features, row by row.
    pub(super) x: Vec<f64>,
    pub(super) y: Vec<f64>,
    /// ½ of the squares that no weights explain, in all tasks.
    pub(super) rest: f64,
    /// The squares of all features of each task.
    pub(super) sizes: Vec<f64>,
    /// Rows as they were given.
    observations: usize,
    /// Tasks that are worked on together.
    pub(super) blocks: Vec<Range<usize>>,
}

/// What tasks are made of, lent or owned.
pub(crate) struct TaskParts<I, F> {
    pub features: usize,
    pub starts: I,
    pub x: F,
    pub y: F,
    pub rest: f64,
    pub sizes: F,
    pub observations: usize,
}

/// Tasks that are worked on together.
fn blocks(starts: &[usize]) -> Vec<Range<usize>> {
    let (mut out, mut first) = (Vec::new(), 0);
    let count = starts.len() - 1;
    for t in 0..count {
        if starts[t + 1] - starts[first] >= BLOCK || t + 1 == count {
            out.push(first..t + 1);
            first = t + 1;
        }
    }
    out
}

impl Tasks {
    /// Of tasks, each with its rows of features, row by row, and its targets.
    pub fn new<'a>(
        features: usize,
        tasks: impl IntoIterator<Item = (&'a [f64], &'a [f64])>,
    ) -> Result<Self> {
        let mut out = Tasks {
            features,
            starts: vec![0],
            x: Vec::new(),
            y: Vec::new(),
            rest: 0.0,
            sizes: Vec::new(),
            observations: 0,
            blocks: Vec::new(),
        };
        if features == 0 {
            return Err(Error::input("tasks without features"));
        }
        for (x, y) in tasks {
            if x.len() != y.len() * features {
                return Err(Error::input(format!(
                    "{} numbers for {} rows of {features} features",
                    x.len(),
                    y.len()
                )));
            }
            if x.iter().chain(y).any(|v| !v.is_finite()) {
                return Err(Error::input("a feature or a target is not finite"));
            }
            out.observations += y.len();
            let rows = y.len().min(features);
            let size = (out.x.len() + rows * features) as u128 * 8;
            memory::require(size, "the rows of all tasks")?;
            match y.len() > features {
                true => out.push_triangle(x, y),
                false => {
                    out.x.extend_from_slice(x);
                    out.y.extend_from_slice(y);
                }
            }
            let first = out.starts[out.starts.len() - 1];
            let new = &out.x[first * features..];
            out.sizes.push(dot(new, new));
            out.starts.push(out.y.len());
        }
        out.blocks = blocks(&out.starts);
        Ok(out)
    }

    /// All that they are made of.
    pub(crate) fn parts(&self) -> TaskParts<&[usize], &[f64]> {
        TaskParts {
            features: self.features,
            starts: &self.starts,
            x: &self.x,
            y: &self.y,
            rest: self.rest,
            sizes: &self.sizes,
            observations: self.observations,
        }
    }

    /// From what `parts` gave; `None` where it does not fit together.
    pub(crate) fn of_parts(parts: TaskParts<Vec<usize>, Vec<f64>>) -> Option<Self> {
        let TaskParts {
            features,
            starts,
            x,
            y,
            rest,
            sizes,
            observations,
        } = parts;
        let numbers = x.iter().chain(&y).chain(&sizes);
        let sound = features > 0
            && starts.first() == Some(&0)
            && starts.is_sorted()
            && starts.last() == Some(&y.len())
            && sizes.len() + 1 == starts.len()
            && y.len().checked_mul(features) == Some(x.len())
            && numbers.chain([&rest]).all(|v| v.is_finite());
        sound.then(|| Tasks {
            blocks: blocks(&starts),
            features,
            starts,
            x,
            y,
            rest,
            sizes,
            observations,
        })
    }

    fn push_triangle(&mut self, x: &[f64], y: &[f64]) {
        let m = self.features;
        let both = Mat::from_fn(y.len(), m + 1, |i, j| match j < m {
            true => x[i * m + j],
            false => y[i],
        });
        let qr = both.qr();
        let r = qr.thin_R();
        for i in 0..m {
            self.x.extend((0..m).map(|j| match i <= j {
                true => r[(i, j)],
                false => 0.0,
            }));
            self.y.push(r[(i, m)]);
        }
        self.rest += 0.5 * r[(m, m)] * r[(m, m)];
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many features they share.
    pub fn features(&self) -> usize {
        self.features
    }

    /// How many rows they have together.
    pub fn observations(&self) -> usize {
        self.observations
    }

    /// The squares of all targets.
    pub(crate) fn squares(&self) -> f64 {
        self.y.iter().map(|y| y * y).sum::<f64>() + 2.0 * self.rest
    }

    /// The same tasks with some of their rows, by the numbers of rows among all. Tasks
    /// with many rows have as many as features, which stand for them.
    pub(crate) fn filtered(&self, keep: impl Fn(usize) -> bool) -> Result<Tasks> {
        let m = self.features;
        let some: Vec<(Vec<f64>, Vec<f64>)> = (0..self.len())
            .map(|t| {
                let rows = (self.starts[t]..self.starts[t + 1]).filter(|&row| keep(row));
                let rows: Vec<usize> = rows.collect();
                let x = rows.iter().flat_map(|&i| &self.x[i * m..(i + 1) * m]);
                let y = rows.iter().map(|&i| self.y[i]);
                (x.copied().collect(), y.collect())
            })
            .collect();
        Tasks::new(m, some.iter().map(|(x, y)| (&x[..], &y[..])))
    }

    /// Where the rows of each task start, and the end of the last.
    pub(crate) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// ½ of the squares that no weights explain.
    pub(crate) fn rest(&self) -> f64 {
        self.rest
    }

    /// The rows of some tasks.
    pub(crate) fn rows(&self, tasks: Range<usize>) -> (MatRef<'_, f64>, &[f64]) {
        let rows = self.starts[tasks.start]..self.starts[tasks.end];
        let (m, count) = (self.features, rows.len());
        let x = &self.x[rows.start * m..rows.end * m];
        (MatRef::from_row_major_slice(x, count, m), &self.y[rows])
    }

    /// The same tasks with features AᵀX for a square A.
    pub fn mapped(&self, a: &Mat<f64>) -> Tasks {
        let (x, _) = self.rows(0..self.len());
        let (x, m) = (x * a, self.features);
        let x: Vec<f64> = (0..x.nrows() * m).map(|i| x[(i / m, i % m)]).collect();
        let own = |at: &[usize]| dot(&x[at[0] * m..at[1] * m], &x[at[0] * m..at[1] * m]);
        Tasks {
            sizes: self.starts.windows(2).map(own).collect(),
            x,
            ..self.clone()
        }
    }

    /// The weights of one task on all features, with this ridge: by the smaller of
    /// XᵀX and XXᵀ. The smallest ones where they are not unique.
    pub fn ridge(&self, task: usize, lambda: f64) -> Mat<f64> {
        let (x, y) = self.rows(task..task + 1);
        let y = Mat::from_fn(y.len(), 1, |i, _| y[i]);
        match x.nrows() < x.ncols() {
            true => x.transpose() * solve_with_ridge(x * x.transpose(), &y, lambda),
            false => solve_with_ridge(x.transpose() * x, &(x.transpose() * y), lambda),
        }
    }

    /// XᵀX and Xᵀy over all tasks. Only a few parts of the sum are kept at a time, the
    /// same ones for any number of threads.
    fn normal_equations(&self, threads: usize) -> Result<(Mat<f64>, Mat<f64>)> {
        let m = self.features;
        let what = format!("weights that all tasks have in common, on {m} features,");
        memory::require((PARTS + 3) as u128 * (m * m * 8) as u128, &what)?;
        let size = self.blocks.len().div_ceil(PARTS).max(1);
        let parts = map_blocks(self.blocks.len(), size, threads, |blocks| {
            let (mut gram, mut right) = (Mat::<f64>::zeros(m, m), Mat::<f64>::zeros(m, 1));
            for block in &self.blocks[blocks] {
                let (x, y) = self.rows(block.clone());
                gram += x.transpose() * x;
                right += x.transpose() * Mat::from_fn(y.len(), 1, |i, _| y[i]);
            }
            (gram, right)
        });
        let (mut gram, mut right) = (Mat::<f64>::zeros(m, m), Mat::<f64>::zeros(m, 1));
        for (a, b) in parts {
            gram += a;
            right += b;
        }
        Ok((gram, right))
    }

    /// Whether all rows together are so few that XXᵀ + λI is the smaller matrix, and
    /// λ large enough to rely on it.
    fn by_rows(&self, lambda: f64) -> bool {
        let largest = self.x.iter().map(|v| v * v).sum::<f64>();
        self.y.len() < self.features && lambda > 1e-8 * largest
    }

    /// XXᵀ + λI over all tasks.
    fn gram_of_rows(&self, lambda: f64) -> Result<Mat<f64>> {
        let n = self.y.len();
        memory::require(3 * (n * n * 8) as u128, "products of all rows")?;
        let (x, _) = self.rows(0..self.len());
        let mut gram = x * x.transpose();
        (0..n).for_each(|i| gram[(i, i)] += lambda);
        Ok(gram)
    }

    /// The weights that all tasks would share, with this ridge.
    pub fn pooled_ridge(&self, lambda: f64, threads: usize) -> Result<Mat<f64>> {
        if self.by_rows(lambda) {
            let (x, y) = self.rows(0..self.len());
            let y = Mat::from_fn(y.len(), 1, |i, _| y[i]);
            return Ok(x.transpose() * solve_with_ridge(self.gram_of_rows(0.0)?, &y, lambda));
        }
        let (gram, right) = self.normal_equations(threads)?;
        Ok(solve_with_ridge(gram, &right, lambda))
    }

    /// The same weights for tasks of which these are a part: `sum` makes XᵀX, its upper part
    /// row by row, and Xᵀy those of all.
    pub(crate) fn pooled_ridge_summed(
        &self,
        lambda: f64,
        threads: usize,
        sum: &mut dyn FnMut(Vec<f64>) -> Result<Vec<f64>>,
    ) -> Result<Mat<f64>> {
        let (gram, right) = from_upper(&sum(self.products(threads)?)?, self.features);
        Ok(solve_with_ridge(gram, &right, lambda))
    }

    /// The upper part of XᵀX row by row, and Xᵀy.
    pub(crate) fn products(&self, threads: usize) -> Result<Vec<f64>> {
        let m = self.features;
        let (gram, right) = self.normal_equations(threads)?;
        let mut own = Vec::with_capacity(m * (m + 3) / 2);
        for i in 0..m {
            own.extend((i..m).map(|j| gram[(i, j)]));
        }
        own.extend((0..m).map(|i| right[(i, 0)]));
        Ok(own)
    }

    /// A place to start from: the subspace for a large ridge, spanned by the leading
    /// directions of Xₜᵀ(yₜ − Xₜc) over the tasks. It has fewer columns where the
    /// targets do not point to so many.
    pub fn start(&self, rank: usize, common: Option<&Mat<f64>>) -> Option<Mat<f64>> {
        let pulls = self.pulls(common);
        match self.len() > self.features {
            true => qf(&leading(&(&pulls * pulls.transpose()), rank)?),
            false => qf(&(&pulls * leading(&(pulls.transpose() * &pulls), rank)?)),
        }
    }

    /// Xₜᵀ(yₜ − Xₜc), a column for each task.
    pub(crate) fn pulls(&self, common: Option<&Mat<f64>>) -> Mat<f64> {
        let mut pulls = Mat::<f64>::zeros(self.features, self.len());
        for t in 0..self.len() {
            let (x, y) = self.rows(t..t + 1);
            let mut left = Mat::from_fn(y.len(), 1, |i, _| y[i]);
            if let Some(c) = common {
                left -= x * c;
            }
            pulls.subcols_mut(t, 1).copy_from(x.transpose() * left);
        }
        pulls
    }

    /// What a common part needs, with the ridge μ.
    pub fn common(&self, mu: f64, threads: usize) -> Result<Common> {
        match self.by_rows(mu) {
            true => Common::new(mu, &self.gram_of_rows(mu)?, true),
            false => Common::of_gram(mu, self.normal_equations(threads)?.0),
        }
    }
}

/// A vector of weights that all tasks have in common, beside their own.
#[derive(Debug, Clone)]
pub struct Common {
    /// Its ridge.
    pub(super) mu: f64,
    /// The factor of XᵀX + μI over all rows, or of XXᵀ + μI.
    factor: Llt<f64>,
    by_rows: bool,
}

impl Common {
    fn new(mu: f64, ridged: &Mat<f64>, by_rows: bool) -> Result<Self> {
        let failed = |_| Error::failure("the features of all tasks have no Cholesky factor");
        Ok(Common {
            mu,
            factor: ridged.llt(Side::Lower).map_err(failed)?,
            by_rows,
        })
    }

    /// From XᵀX over all rows.
    pub(crate) fn of_gram(mu: f64, mut gram: Mat<f64>) -> Result<Self> {
        let m = gram.nrows();
        // A ridge that is nothing beside the rows would not make it invertible.
        let least = 1e-12 * (0..m).map(|i| gram[(i, i)]).fold(0.0, f64::max);
        (0..m).for_each(|i| gram[(i, i)] += mu.max(least).max(f64::MIN_POSITIVE));
        Self::new(mu, &gram, false)
    }

    /// (XᵀX + μI)⁻¹ v, where it was made from XᵀX.
    pub(super) fn solve_whole(&self, v: &Mat<f64>) -> Mat<f64> {
        self.factor.solve(v)
    }

    /// (XᵀX + μI)⁻¹ v, by the identity of Woodbury where rows are few.
    pub(super) fn solve(&self, tasks: &Tasks, v: &Mat<f64>) -> Mat<f64> {
        if !self.by_rows {
            return self.solve_whole(v);
        }
        let (x, _) = tasks.rows(0..tasks.len());
        let inside = x.transpose() * self.factor.solve(x * v);
        faer::Scale(1.0 / self.mu) * (v - inside)
    }

    /// μ.
    pub fn ridge(&self) -> f64 {
        self.mu
    }
}

/// A symmetric matrix from its upper part row by row, and a vector behind it.
pub(crate) fn from_upper(numbers: &[f64], m: usize) -> (Mat<f64>, Mat<f64>) {
    let (upper, right) = numbers.split_at(m * (m + 1) / 2);
    let place = |i: usize, j: usize| i * m - i * (i + 1) / 2 + j;
    let gram = Mat::from_fn(m, m, |i, j| upper[place(i.min(j), i.max(j))]);
    (gram, Mat::from_fn(m, 1, |i, _| right[i]))
}

/// The leading eigenvectors of a symmetric matrix, as many as it has at most.
pub(crate) fn leading(square: &Mat<f64>, rank: usize) -> Option<Mat<f64>> {
    let (values, vectors) = symmetric::eigen(square)?;
    let least = 1e-14 * values.last()?;
    let rank = values
        .iter()
        .rev()
        .take(rank)
        .filter(|&&v| v > least.max(0.0))
        .count();
    Some(vectors.subcols(values.len() - rank, rank).to_owned())
}

/// (A + λI)⁻¹ b for A symmetric and never negative; the smallest solution where A
/// is singular.
pub(crate) fn solve_with_ridge(mut a: Mat<f64>, b: &Mat<f64>, lambda: f64) -> Mat<f64> {
    let n = a.nrows();
    let largest = (0..n).map(|i| a[(i, i)]).fold(0.0, f64::max);
    for i in 0..n {
        a[(i, i)] += lambda;
    }
    if lambda > 1e-12 * largest
        && let Ok(factor) = a.llt(Side::Lower)
    {
        return factor.solve(b);
    }
    let inverse = symmetric::map(&a, |value| match value > 1e-13 * largest {
        true => 1.0 / value,
        false => 0.0,
    });
    inverse.map_or_else(|| Mat::zeros(n, b.ncols()), |inverse| inverse * b)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Objective, SharedSubspace};
    use super::*;
    use crate::manifold::tests::matrix;

    /// Tasks of so many rows; targets from a common subspace with some noise.
    pub fn planted(rows: &[usize], m: usize, r: usize, noise: f64) -> (Tasks, Mat<f64>) {
        let u = qf(&matrix(m, r, 1)).unwrap();
        let data: Vec<_> = rows
            .iter()
            .enumerate()
            .map(|(t, &d)| {
                let x = matrix(d, m, 10 + t);
                let w = matrix(r, 1, 1000 + t);
                let y = &x * &u * w + faer::Scale(noise) * matrix(d, 1, 2000 + t);
                let x: Vec<f64> = (0..d * m).map(|i| x[(i / m, i % m)]).collect();
                let y: Vec<f64> = (0..d).map(|i| y[(i, 0)]).collect();
                (x, y)
            })
            .collect();
        let tasks = Tasks::new(m, data.iter().map(|(x, y)| (&x[..], &y[..])));
        (tasks.unwrap(), u)
    }

    #[test]
    fn rows_and_their_triangle_have_the_same_cost() {
        let (m, d) = (5, 40);
        let x = matrix(d, m, 1);
        let y = matrix(d, 1, 2);
        let flat: Vec<f64> = (0..d * m).map(|i| x[(i / m, i % m)]).collect();
        let targets: Vec<f64> = (0..d).map(|i| y[(i, 0)]).collect();
        let tasks = Tasks::new(m, [(&flat[..], &targets[..])]).unwrap();
        assert_eq!(tasks.y.len(), m);
        let u = qf(&matrix(m, 2, 3)).unwrap();
        for lambda in [0.0, 0.3] {
            let problem = SharedSubspace {
                tasks: &tasks,
                lambda,
                common: None,
                threads: 1,
            };
            let w = problem
                .weights(std::slice::from_ref(&u))
                .transpose()
                .to_owned();
            let cost = 0.5 * ((&x * &u * &w - &y).squared_norm_l2() + lambda * w.squared_norm_l2());
            assert!((problem.cost(std::slice::from_ref(&u)) - cost).abs() < 1e-12 * cost);
        }
        let plain = (x.transpose() * &x + faer::Scale(0.7) * Mat::<f64>::identity(m, m))
            .llt(Side::Lower)
            .unwrap()
            .solve(x.transpose() * &y);
        assert!((tasks.ridge(0, 0.7) - &plain).norm_max() < 1e-12);
        assert!((tasks.pooled_ridge(0.7, 2).unwrap() - &plain).norm_max() < 1e-12);
    }

    #[test]
    fn many_features_are_solved_for_by_rows() {
        let (tasks, _) = planted(&[3, 4, 2], 40, 1, 0.1);
        assert!(tasks.by_rows(0.5) && !tasks.by_rows(0.0));
        let (gram, right) = tasks.normal_equations(1).unwrap();
        let common = tasks.common(0.5, 1).unwrap();
        let v = matrix(40, 1, 3);
        let system = gram + faer::Scale(0.5) * Mat::<f64>::identity(40, 40);
        let plain = system.llt(Side::Lower).unwrap();
        assert!((common.solve(&tasks, &v) - plain.solve(&v)).norm_max() < 1e-11);
        let pooled = tasks.pooled_ridge(0.5, 1).unwrap();
        assert!((pooled - plain.solve(&right)).norm_max() < 1e-11);
    }

    #[test]
    fn bad_numbers_are_refused() {
        let bad = |x: &[f64], y: &[f64]| Tasks::new(2, [(x, y)]).unwrap_err().to_string();
        assert!(bad(&[1.0], &[1.0]).contains("1 numbers for 1 rows of 2 features"));
        assert!(bad(&[1.0, f64::NAN], &[1.0]).contains("not finite"));
        assert!(Tasks::new(0, []).is_err());
    }
}
