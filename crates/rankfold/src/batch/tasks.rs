//! Many regressions with features in common, and the search for a subspace of the
//! features that is enough for all of them.

use super::normal::Normal;
use super::solve::{Local, Objective};
use crate::kernel::dot;
use crate::linalg::{qf, symmetric};
use crate::manifold::{Blocks, Grassmann, Manifold};
use crate::parallel::map_blocks;
use crate::{Error, Result, memory};
use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, MatRef, Side};
use std::ops::Range;

/// Rows of several tasks that are worked on together.
const BLOCK: usize = 1024;

/// Parts of a sum over all rows that are kept at a time.
const PARTS: usize = 8;

/// Numbers in the rows of all tasks from which on threads pay.
const LEAST_FOR_THREADS: usize = 1 << 20;

/// Regression tasks on the same features.
///
/// A task with more rows than features is kept as the triangle of its QR
/// factorisation, which has the same cost in all weights but for a constant.
#[derive(Debug, Clone)]
pub struct Tasks {
    features: usize,
    /// Where the rows of each task start, and the end of the last.
    starts: Vec<usize>,
    /// Rows of features, row by row.
    x: Vec<f64>,
    y: Vec<f64>,
    /// ½ of the squares that no weights explain, in all tasks.
    rest: f64,
    /// Rows as they were given.
    observations: usize,
    /// Tasks that are worked on together.
    blocks: Vec<Range<usize>>,
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
            out.starts.push(out.y.len());
        }
        let mut first = 0;
        for t in 0..out.len() {
            if out.starts[t + 1] - out.starts[first] >= BLOCK || t + 1 == out.len() {
                out.blocks.push(first..t + 1);
                first = t + 1;
            }
        }
        Ok(out)
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
        Tasks {
            x: (0..x.nrows() * m).map(|i| x[(i / m, i % m)]).collect(),
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

    /// The weights that all tasks would share, with this ridge.
    pub fn pooled_ridge(&self, lambda: f64, threads: usize) -> Result<Mat<f64>> {
        let (gram, right) = self.normal_equations(threads)?;
        Ok(solve_with_ridge(gram, &right, lambda))
    }

    /// A place to start from: the subspace for a large ridge, spanned by the leading
    /// directions of Xₜᵀ(yₜ − Xₜc) over the tasks. It has fewer columns where the
    /// targets do not point to so many.
    pub fn start(&self, rank: usize, common: Option<&Mat<f64>>) -> Option<Mat<f64>> {
        let mut pulls = Mat::<f64>::zeros(self.features, self.len());
        for t in 0..self.len() {
            let (x, y) = self.rows(t..t + 1);
            let mut left = Mat::from_fn(y.len(), 1, |i, _| y[i]);
            if let Some(c) = common {
                left -= x * c;
            }
            pulls.subcols_mut(t, 1).copy_from(x.transpose() * left);
        }
        let wide = self.len() > self.features;
        let square = match wide {
            true => &pulls * pulls.transpose(),
            false => pulls.transpose() * &pulls,
        };
        let (values, vectors) = symmetric::eigen(&square)?;
        let least = 1e-14 * values.last()?;
        let rank = values
            .iter()
            .rev()
            .take(rank)
            .filter(|&&v| v > least.max(0.0))
            .count();
        let leading = vectors.subcols(values.len() - rank, rank);
        qf(&match wide {
            true => leading.to_owned(),
            false => &pulls * leading,
        })
    }

    /// What a common part needs, with the ridge μ.
    pub fn common(&self, mu: f64, threads: usize) -> Result<Common> {
        let (mut gram, _) = self.normal_equations(threads)?;
        let m = self.features;
        // A ridge that is nothing beside the rows would not make it invertible.
        let least = 1e-12 * (0..m).map(|i| gram[(i, i)]).fold(0.0, f64::max);
        (0..m).for_each(|i| gram[(i, i)] += mu.max(least).max(f64::MIN_POSITIVE));
        let factor = gram.llt(Side::Lower);
        let failed = |_| Error::failure("the features of all tasks have no Cholesky factor");
        Ok(Common {
            mu,
            factor: factor.map_err(failed)?,
        })
    }
}

/// A vector of weights that all tasks have in common, beside their own.
#[derive(Debug, Clone)]
pub struct Common {
    /// Its ridge.
    mu: f64,
    /// The factor of XᵀX + μI over all rows.
    factor: Llt<f64>,
}

impl Common {
    /// μ.
    pub fn ridge(&self) -> f64 {
        self.mu
    }
}

/// (A + λI)⁻¹ b for A symmetric and never negative; the smallest solution where A
/// is singular.
fn solve_with_ridge(mut a: Mat<f64>, b: &Mat<f64>, lambda: f64) -> Mat<f64> {
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

/// f(U) = Σₜ min_w ½‖XₜUw − yₜ‖² + λ/2 ‖w‖² on subspaces of the features; or, with
/// a common part, f(U, c) = Σₜ min_w ½‖Xₜ(c + Uw) − yₜ‖² + λ/2 ‖w‖² + μ/2 ‖c‖². A
/// point is U, or U and c.
#[derive(Debug, Clone, Copy)]
pub struct SharedSubspace<'a> {
    /// The tasks.
    pub tasks: &'a Tasks,
    /// λ.
    pub lambda: f64,
    /// The common part, where there is one.
    pub common: Option<&'a Common>,
    /// Threads; results have the same bits for any number of them.
    pub threads: usize,
}

/// A block of tasks seen in a subspace.
struct SeenBlock {
    /// XU.
    z: Mat<f64>,
    /// The weights of each task, and the factor of its normal equations.
    tasks: Vec<(Vec<f64>, Vec<f64>)>,
    /// XUw − y.
    residuals: Vec<f64>,
    cost: f64,
}

impl SeenBlock {
    /// Rows of a column of XU.
    fn column(&self, k: usize, rows: &Range<usize>) -> &[f64] {
        &self.z.col_as_slice(k)[rows.clone()]
    }
}

/// y += a x.
fn add(y: &mut [f64], a: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

impl SharedSubspace<'_> {
    /// The rows of a task within its block.
    fn rows_in(&self, block: &Range<usize>, task: usize) -> Range<usize> {
        let first = self.tasks.starts[block.start];
        self.tasks.starts[task] - first..self.tasks.starts[task + 1] - first
    }

    fn see(&self, block: Range<usize>, at: &[Mat<f64>]) -> SeenBlock {
        let (x, y) = self.tasks.rows(block.clone());
        let r = at[0].ncols();
        let mut seen = SeenBlock {
            z: x * &at[0],
            tasks: Vec::with_capacity(block.len()),
            residuals: y.iter().map(|y| -y).collect(),
            cost: 0.0,
        };
        if self.common.is_some() {
            add(&mut seen.residuals, 1.0, (x * &at[1]).col_as_slice(0));
        }
        let mut normal = Normal::new(r);
        for t in block.clone() {
            let rows = self.rows_in(&block, t);
            let mut left = seen.residuals[rows.clone()].to_vec();
            for i in 0..r {
                let column = seen.column(i, &rows);
                for j in i..r {
                    normal.a[i * r + j] = dot(column, seen.column(j, &rows));
                }
                normal.a[i * r + i] += self.lambda;
                normal.b[i] = -dot(column, &left);
            }
            normal.solve_least(r, self.lambda == 0.0 && rows.len() < r);
            let mut weights = normal.b[..r].to_vec();
            for (k, w) in weights.iter().enumerate() {
                add(&mut left, *w, seen.column(k, &rows));
            }
            // Once more on what is left: normal equations lose half of the digits.
            for k in 0..r {
                normal.b[k] = -dot(seen.column(k, &rows), &left) - self.lambda * weights[k];
            }
            normal.solve(r);
            for k in 0..r {
                weights[k] += normal.b[k];
                add(&mut left, normal.b[k], seen.column(k, &rows));
            }
            seen.cost += 0.5 * (dot(&left, &left) + self.lambda * dot(&weights, &weights));
            seen.residuals[rows].copy_from_slice(&left);
            seen.tasks.push((weights, normal.a.clone()));
        }
        seen
    }

    /// As many as it takes: to start threads costs more than a small pass.
    fn useful_threads(&self) -> usize {
        match self.tasks.x.len() < LEAST_FOR_THREADS {
            true => 1,
            false => self.threads,
        }
    }

    fn see_all(&self, at: &[Mat<f64>]) -> Vec<SeenBlock> {
        let blocks = &self.tasks.blocks;
        map_blocks(blocks.len(), 1, self.useful_threads(), |i| {
            self.see(blocks[i.start].clone(), at)
        })
    }

    /// The weights of all tasks at a point, a row each.
    pub fn weights(&self, at: &[Mat<f64>]) -> Mat<f64> {
        weights_of(&self.see_all(at), self.tasks.len(), at[0].ncols())
    }

    fn cost_of(&self, blocks: &[SeenBlock], at: &[Mat<f64>]) -> f64 {
        let ridge = self
            .common
            .map_or(0.0, |common| 0.5 * common.mu * at[1].squared_norm_l2());
        self.tasks.rest + ridge + blocks.iter().map(|block| block.cost).sum::<f64>()
    }

    /// Σₜ Xₜᵀ eₜ [wₜᵀ 1] for numbers e of all rows, as a tangent vector at U.
    fn back(
        &self,
        blocks: &[SeenBlock],
        u: &Mat<f64>,
        e: impl Fn(usize) -> Vec<f64> + Sync,
    ) -> Blocks {
        let r = u.ncols();
        let parts = map_blocks(blocks.len(), 1, self.useful_threads(), |i| {
            let (i, e) = (i.start, e(i.start));
            let range = self.tasks.blocks[i].clone();
            let (x, _) = self.tasks.rows(range.clone());
            let mut outer = Mat::<f64>::zeros(e.len(), r + 1);
            for (t, (weights, _)) in range.clone().zip(&blocks[i].tasks) {
                let rows = self.rows_in(&range, t);
                for (k, w) in weights.iter().chain([&1.0]).enumerate() {
                    let column = &mut outer.col_as_slice_mut(k)[rows.clone()];
                    add(column, *w, &e[rows.clone()]);
                }
            }
            x.transpose() * outer
        });
        let mut sum = Mat::<f64>::zeros(self.tasks.features, r + 1);
        parts.into_iter().for_each(|part| sum += part);
        let mut out = vec![Grassmann::project(u, &sum.subcols(0, r).to_owned())];
        if self.common.is_some() {
            out.push(sum.subcols(r, 1).to_owned());
        }
        out
    }
}

fn weights_of(blocks: &[SeenBlock], tasks: usize, r: usize) -> Mat<f64> {
    let mut out = Mat::zeros(tasks, r);
    let all = blocks.iter().flat_map(|block| &block.tasks);
    for (t, (weights, _)) in all.enumerate() {
        (0..r).for_each(|k| out[(t, k)] = weights[k]);
    }
    out
}

/// A subspace for all tasks, and its neighbourhood.
pub struct LocalTasks<'a> {
    problem: SharedSubspace<'a>,
    u: Mat<f64>,
    w: Mat<f64>,
    blocks: Vec<SeenBlock>,
    cost: f64,
    gradient: Blocks,
    /// About the inverse of the Hessian, on the right.
    inverse: Option<Mat<f64>>,
}

impl LocalTasks<'_> {
    /// The weights of all tasks, a row each.
    pub fn weights(&self) -> &Mat<f64> {
        &self.w
    }
}

impl Local for LocalTasks<'_> {
    fn cost(&self) -> f64 {
        self.cost
    }

    fn gradient(&self) -> &Blocks {
        &self.gradient
    }

    /// ξ (Σₜ ‖Xₜ‖²/m wₜwₜᵀ)⁻¹, exact for features that are alike and independent.
    fn precondition(&self, vector: &[Mat<f64>]) -> Blocks {
        let mut out = vector.to_vec();
        if let Some(inverse) = &self.inverse {
            out[0] = &vector[0] * inverse;
        }
        if let Some(common) = self.problem.common {
            out[1] = common.factor.solve(&vector[1]);
        }
        out
    }

    fn curvature(&self, along: &[Mat<f64>]) -> f64 {
        Grassmann.inner(&[], &self.hessian(along), along)
    }

    /// Gauss–Newton with the weights following U [Kaufman 1975].
    fn hessian(&self, along: &[Mat<f64>]) -> Blocks {
        let tasks = self.problem.tasks;
        let r = self.u.ncols();
        let change = |i: usize| {
            let (block, range) = (&self.blocks[i], tasks.blocks[i].clone());
            let (x, _) = tasks.rows(range.clone());
            let moved = x * &along[0];
            let mut out = match self.problem.common {
                Some(_) => (x * &along[1]).col_as_slice(0).to_vec(),
                None => vec![0.0; moved.nrows()],
            };
            let mut normal = Normal::new(r);
            for (t, (weights, factor)) in range.clone().zip(&block.tasks) {
                let rows = self.problem.rows_in(&range, t);
                let out = &mut out[rows.clone()];
                for (k, w) in weights.iter().enumerate() {
                    add(out, *w, &moved.col_as_slice(k)[rows.clone()]);
                }
                normal.a.copy_from_slice(factor);
                for k in 0..r {
                    normal.b[k] = dot(block.column(k, &rows), out);
                }
                normal.solve(r);
                for k in 0..r {
                    add(out, -normal.b[k], block.column(k, &rows));
                }
            }
            out
        };
        let mut out = self.problem.back(&self.blocks, &self.u, change);
        if let Some(common) = self.problem.common {
            out[1] += faer::Scale(common.mu) * &along[1];
        }
        out
    }
}

impl<'b> Objective for SharedSubspace<'b> {
    type Space = Grassmann;
    type Local<'a>
        = LocalTasks<'b>
    where
        Self: 'a;

    fn space(&self) -> &Grassmann {
        &Grassmann
    }

    fn cost(&self, at: &[Mat<f64>]) -> f64 {
        self.cost_of(&self.see_all(at), at)
    }

    fn local<'a>(&'a self, at: &[Mat<f64>]) -> LocalTasks<'b> {
        let (u, r) = (at[0].clone(), at[0].ncols());
        let blocks = self.see_all(at);
        let mut gradient = self.back(&blocks, &u, |i| blocks[i].residuals.clone());
        if let Some(common) = self.common {
            gradient[1] += faer::Scale(common.mu) * &at[1];
        }
        let w = weights_of(&blocks, self.tasks.len(), r);
        let mut usual = Mat::<f64>::zeros(r, r);
        for t in 0..self.tasks.len() {
            let (x, _) = self.tasks.rows(t..t + 1);
            let size = x.squared_norm_l2() / self.tasks.features as f64;
            let row = w.subrows(t, 1);
            usual += faer::Scale(size) * (row.transpose() * row);
        }
        LocalTasks {
            problem: *self,
            cost: self.cost_of(&blocks, at),
            gradient,
            inverse: symmetric::power(&usual, -1.0),
            u,
            w,
            blocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Armijo, Limits, Solver};
    use super::*;
    use crate::manifold::scaled;
    use crate::manifold::tests::matrix;

    /// Tasks of so many rows; targets from a common subspace with some noise.
    fn planted(rows: &[usize], m: usize, r: usize, noise: f64) -> (Tasks, Mat<f64>) {
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
    fn gradients_and_hessians_agree_with_differences() {
        let (tasks, _) = planted(&[7, 30, 9, 12, 4], 8, 3, 0.5);
        let common = tasks.common(0.7, 2).unwrap();
        let settings = [0.0, 1e-3, 0.1, 1.0].map(|lambda| [(lambda, false), (lambda, true)]);
        for (lambda, shared) in settings.into_iter().flatten() {
            let problem = SharedSubspace {
                tasks: &tasks,
                lambda,
                common: shared.then_some(&common),
                threads: 2,
            };
            let mut at = vec![qf(&matrix(8, 3, 5)).unwrap()];
            let mut shapes = vec![(8, 3)];
            if shared {
                at.push(matrix(8, 1, 9));
                shapes.push((8, 1));
            }
            let local = problem.local(&at);
            assert!((local.cost() - problem.cost(&at)).abs() < 1e-12 * local.cost());
            let tangent = |seed| {
                let any = shapes.iter().map(|&(n, k)| matrix(n, k, seed));
                Grassmann.transport(&at, &at, &any.collect::<Vec<_>>())
            };
            let (eta, xi) = (tangent(6), tangent(7));
            let inner = |a: &Blocks, b: &Blocks| Grassmann.inner(&at, a, b);
            let slope = inner(local.gradient(), &eta);
            let cost = |t: f64| problem.cost(&Grassmann.retract(&at, &scaled(t, &eta)).unwrap());
            let h = 1e-5;
            let measured = (cost(h) - cost(-h)) / (2.0 * h);
            assert!(
                (slope - measured).abs() < 1e-7 * (local.cost() + slope.abs()),
                "{lambda}: {slope} {measured}"
            );
            let inside = at[0].transpose() * &local.gradient()[0];
            assert!(inside.norm_max() < 1e-12 * local.cost());
            let (a, b) = (
                inner(&local.hessian(&eta), &xi),
                inner(&local.hessian(&xi), &eta),
            );
            assert!((a - b).abs() < 1e-10 * (1.0 + a.abs()), "{a} {b}");
            assert!(local.curvature(&eta) >= 0.0);
        }
    }

    #[test]
    fn the_hessian_is_that_of_the_cost_where_residuals_vanish() {
        let (tasks, u) = planted(&[9, 30, 12, 20], 8, 2, 0.0);
        let problem = SharedSubspace {
            tasks: &tasks,
            lambda: 0.0,
            common: None,
            threads: 1,
        };
        let at = vec![u];
        let local = problem.local(&at);
        let eta = Grassmann.transport(&at, &at, &[matrix(8, 2, 6)]);
        let cost = |t: f64| problem.cost(&Grassmann.retract(&at, &scaled(t, &eta)).unwrap());
        let h = 1e-4;
        let measured = (cost(h) + cost(-h)) / (h * h);
        let curvature = local.curvature(&eta);
        assert!(
            (curvature - measured).abs() < 1e-5 * curvature,
            "{curvature} {measured}"
        );
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
    fn every_solver_finds_the_subspace() {
        let rows: Vec<usize> = (0..60).map(|t| 6 + t % 30).collect();
        let (tasks, truth) = planted(&rows, 20, 3, 1e-6);
        let start = vec![tasks.start(3, None).unwrap()];
        let problem = SharedSubspace {
            tasks: &tasks,
            lambda: 0.0,
            common: None,
            threads: 2,
        };
        let limits = Limits {
            iterations: 1000,
            decrease: 1e-14,
            ..Limits::default()
        };
        let cg = |precondition| Solver::ConjugateGradient { precondition };
        let descent = Solver::Descent(Armijo::default());
        for solver in [descent, cg(false), cg(true), Solver::TrustRegion] {
            let solved = solver.solve(&problem, start.clone(), limits, &mut |_, _| true);
            let off = Grassmann::distance(&solved.point[0], &truth);
            assert!(off < 1e-5, "{solver:?}: {off} in {}", solved.iterations);
        }
    }

    #[test]
    fn a_common_part_is_found_beside_the_subspace() {
        let rows: Vec<usize> = (0..50).map(|t| 8 + t % 20).collect();
        let (tasks, truth) = planted(&rows, 12, 2, 0.0);
        let c = matrix(12, 1, 77);
        let shifted: Vec<_> = (0..tasks.len())
            .map(|t| {
                let (x, y) = tasks.rows(t..t + 1);
                let more = x * &c;
                let y: Vec<f64> = y
                    .iter()
                    .enumerate()
                    .map(|(i, y)| y + more[(i, 0)])
                    .collect();
                let x: Vec<f64> = (0..x.nrows() * 12).map(|i| x[(i / 12, i % 12)]).collect();
                (x, y)
            })
            .collect();
        let tasks = Tasks::new(12, shifted.iter().map(|(x, y)| (&x[..], &y[..]))).unwrap();
        let common = tasks.common(0.0, 1).unwrap();
        let problem = SharedSubspace {
            tasks: &tasks,
            lambda: 0.0,
            common: Some(&common),
            threads: 1,
        };
        let pooled = tasks.pooled_ridge(0.0, 1).unwrap();
        let start = vec![tasks.start(2, Some(&pooled)).unwrap(), pooled];
        let limits = Limits {
            decrease: 0.0,
            cost: 1e-22,
            ..Limits::default()
        };
        let solved = Solver::TrustRegion.solve(&problem, start, limits, &mut |_, _| true);
        assert!(Grassmann::distance(&solved.point[0], &truth) < 1e-9);
        // What c has in the subspace, the weights of the tasks have as well.
        let off = Grassmann::project(&truth, &(&solved.point[1] - c));
        assert!(off.norm_max() < 1e-8, "{}", off.norm_max());
    }

    #[test]
    fn few_rows_give_the_smallest_weights() {
        let (tasks, _) = planted(&[1, 2, 12], 6, 3, 0.1);
        let problem = SharedSubspace {
            tasks: &tasks,
            lambda: 0.0,
            common: None,
            threads: 1,
        };
        let u = qf(&matrix(6, 3, 4)).unwrap();
        let w = problem.weights(std::slice::from_ref(&u));
        let (x, y) = tasks.rows(0..1);
        let z = x * &u;
        let want = faer::Scale(y[0] / z.squared_norm_l2()) * z;
        assert!((w.subrows(0, 1) - want).norm_max() < 1e-12);
    }

    #[test]
    fn bad_numbers_are_refused() {
        let bad = |x: &[f64], y: &[f64]| Tasks::new(2, [(x, y)]).unwrap_err().to_string();
        assert!(bad(&[1.0], &[1.0]).contains("1 numbers for 1 rows of 2 features"));
        assert!(bad(&[1.0, f64::NAN], &[1.0]).contains("not finite"));
        assert!(Tasks::new(0, []).is_err());
    }
}
