//! Many regressions with features in common, and the search for a subspace of the
//! features that is enough for all of them.

use super::solve::{Local, Objective};
use crate::linalg::{qf, symmetric};
use crate::manifold::{Blocks, Grassmann, dot};
use crate::parallel::map_blocks;
use crate::{Error, Result, memory};
use faer::linalg::solvers::Solve;
use faer::{Mat, MatRef, Side};
use std::ops::Range;

/// Rows of several tasks that are worked on together.
const BLOCK: usize = 1024;

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

    /// The weights that all tasks would share, with this ridge.
    pub fn pooled_ridge(&self, lambda: f64, threads: usize) -> Mat<f64> {
        let m = self.features;
        let parts = map_blocks(self.blocks.len(), 1, threads, |block| {
            let (x, y) = self.rows(self.blocks[block.start].clone());
            let y = Mat::from_fn(y.len(), 1, |i, _| y[i]);
            (x.transpose() * x, x.transpose() * y)
        });
        let (mut gram, mut right) = (Mat::<f64>::zeros(m, m), Mat::<f64>::zeros(m, 1));
        for (a, b) in parts {
            gram += a;
            right += b;
        }
        solve_with_ridge(gram, &right, lambda)
    }

    /// A place to start from: the leading directions of what the tasks say by
    /// themselves, each with a ridge that suits its size.
    pub fn start(&self, rank: usize, threads: usize) -> Option<Mat<f64>> {
        let m = self.features;
        let blocks = map_blocks(self.len(), 16, threads, |range| {
            let mut all = Mat::<f64>::zeros(m, m);
            for t in range {
                let (x, _) = self.rows(t..t + 1);
                let usual = x.squared_norm_l2() / x.nrows().min(m).max(1) as f64;
                let w = self.ridge(t, usual.max(f64::MIN_POSITIVE));
                all += faer::Scale(x.nrows() as f64) * (&w * w.transpose());
            }
            all
        });
        let mut all = Mat::<f64>::zeros(m, m);
        blocks.into_iter().for_each(|part| all += part);
        let (_, vectors) = symmetric::eigen(&all)?;
        qf(&vectors.subcols(m - rank, rank).to_owned())
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

/// f(U) = Σₜ min_w ½‖XₜUw − yₜ‖² + λ/2 ‖w‖² on subspaces of the features.
#[derive(Debug, Clone, Copy)]
pub struct SharedSubspace<'a> {
    /// The tasks.
    pub tasks: &'a Tasks,
    /// λ.
    pub lambda: f64,
    /// Threads; results have the same bits for any number of them.
    pub threads: usize,
}

/// A task seen in a subspace.
struct Seen {
    /// (ZᵀZ + λI)⁻¹ for Z = XU, or its pseudo-inverse.
    inverse: Mat<f64>,
    weights: Mat<f64>,
}

/// A block of tasks seen in a subspace.
struct SeenBlock {
    /// XU.
    z: Mat<f64>,
    tasks: Vec<Seen>,
    /// XUw − y.
    residuals: Vec<f64>,
    cost: f64,
}

impl SharedSubspace<'_> {
    fn see(&self, block: Range<usize>, u: &Mat<f64>) -> SeenBlock {
        let (x, y) = self.tasks.rows(block.clone());
        let (z, r) = (x * u, u.ncols());
        let first = self.tasks.starts[block.start];
        let mut residuals = Vec::with_capacity(y.len());
        let mut tasks = Vec::with_capacity(block.len());
        let mut cost = 0.0;
        for t in block {
            let (from, to) = (
                self.tasks.starts[t] - first,
                self.tasks.starts[t + 1] - first,
            );
            let z = z.subrows(from, to - from);
            let target = Mat::from_fn(to - from, 1, |i, _| y[from + i]);
            let mut a = z.transpose() * z;
            let largest = (0..r).map(|i| a[(i, i)]).fold(0.0, f64::max);
            (0..r).for_each(|i| a[(i, i)] += self.lambda);
            // Values that are nothing but rounding have no weights.
            let inverse = symmetric::map(&a, |value| match value > 1e-13 * largest {
                true => 1.0 / value,
                false => 0.0,
            });
            let inverse = inverse.unwrap_or_else(|| Mat::zeros(r, r));
            let mut weights = &inverse * (z.transpose() * &target);
            // Once more on what is left: normal equations lose half of the digits.
            let left = &target - z * &weights;
            let more = z.transpose() * &left - faer::Scale(self.lambda) * &weights;
            weights += &inverse * more;
            let left = z * &weights - target;
            cost += 0.5 * (left.squared_norm_l2() + self.lambda * weights.squared_norm_l2());
            residuals.extend((0..to - from).map(|i| left[(i, 0)]));
            tasks.push(Seen { inverse, weights });
        }
        SeenBlock {
            z,
            tasks,
            residuals,
            cost,
        }
    }

    fn see_all(&self, u: &Mat<f64>) -> Vec<SeenBlock> {
        let blocks = &self.tasks.blocks;
        map_blocks(blocks.len(), 1, self.threads, |i| {
            self.see(blocks[i.start].clone(), u)
        })
    }

    /// The weights of all tasks in a subspace, a row each.
    pub fn weights(&self, u: &Mat<f64>) -> Mat<f64> {
        weights_of(&self.see_all(u), self.tasks.len(), u.ncols())
    }

    /// Σₜ Xₜᵀ eₜ wₜᵀ for numbers e of all rows.
    fn back(&self, blocks: &[SeenBlock], e: impl Fn(usize) -> Vec<f64> + Sync) -> Mat<f64> {
        let r = blocks.first().map_or(0, |block| block.z.ncols());
        let parts = map_blocks(blocks.len(), 1, self.threads, |i| {
            let (i, e) = (i.start, e(i.start));
            let range = self.tasks.blocks[i].clone();
            let (x, _) = self.tasks.rows(range.clone());
            let first = self.tasks.starts[range.start];
            let mut outer = Mat::<f64>::zeros(e.len(), r);
            for (t, seen) in range.zip(&blocks[i].tasks) {
                for row in self.tasks.starts[t] - first..self.tasks.starts[t + 1] - first {
                    for k in 0..r {
                        outer[(row, k)] = e[row] * seen.weights[(k, 0)];
                    }
                }
            }
            x.transpose() * outer
        });
        let mut sum = Mat::<f64>::zeros(self.tasks.features, r);
        parts.into_iter().for_each(|part| sum += part);
        sum
    }
}

fn weights_of(blocks: &[SeenBlock], tasks: usize, r: usize) -> Mat<f64> {
    let mut out = Mat::zeros(tasks, r);
    let all = blocks.iter().flat_map(|block| &block.tasks);
    for (t, seen) in all.enumerate() {
        (0..r).for_each(|k| out[(t, k)] = seen.weights[(k, 0)]);
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
        match &self.inverse {
            Some(inverse) => vec![&vector[0] * inverse],
            None => vector.to_vec(),
        }
    }

    fn curvature(&self, along: &[Mat<f64>]) -> f64 {
        dot(&self.hessian(along)[0], &along[0])
    }

    /// Gauss–Newton with the weights following U [Kaufman 1975].
    fn hessian(&self, along: &[Mat<f64>]) -> Blocks {
        let tasks = self.problem.tasks;
        let change = |i: usize| {
            let (block, range) = (&self.blocks[i], tasks.blocks[i].clone());
            let (x, _) = tasks.rows(range.clone());
            let moved = x * &along[0];
            let first = tasks.starts[range.start];
            let mut out = Vec::with_capacity(moved.nrows());
            for (t, seen) in range.zip(&block.tasks) {
                let (from, count) = (
                    tasks.starts[t] - first,
                    tasks.starts[t + 1] - tasks.starts[t],
                );
                let z = block.z.subrows(from, count);
                let direct = moved.subrows(from, count) * &seen.weights;
                let follow = &seen.inverse * (z.transpose() * &direct);
                let all = direct - z * follow;
                out.extend((0..count).map(|i| all[(i, 0)]));
            }
            out
        };
        let out = self.problem.back(&self.blocks, change);
        vec![Grassmann::project(&self.u, &out)]
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
        let blocks = self.see_all(&at[0]);
        self.tasks.rest + blocks.iter().map(|block| block.cost).sum::<f64>()
    }

    fn local<'a>(&'a self, at: &[Mat<f64>]) -> LocalTasks<'b> {
        let (u, r) = (at[0].clone(), at[0].ncols());
        let blocks = self.see_all(&u);
        let slope = self.back(&blocks, |i| blocks[i].residuals.clone());
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
            cost: self.tasks.rest + blocks.iter().map(|block| block.cost).sum::<f64>(),
            gradient: vec![Grassmann::project(&u, &slope)],
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
    use crate::manifold::tests::matrix;
    use crate::manifold::{Manifold, scaled};

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
        for lambda in [0.0, 1e-3, 0.1, 1.0] {
            let problem = SharedSubspace {
                tasks: &tasks,
                lambda,
                threads: 2,
            };
            let at = vec![qf(&matrix(8, 3, 5)).unwrap()];
            let local = problem.local(&at);
            assert!((local.cost() - problem.cost(&at)).abs() < 1e-12 * local.cost());
            let tangent = |seed| Grassmann.transport(&at, &at, &[matrix(8, 3, seed)]);
            let (eta, xi) = (tangent(6), tangent(7));
            let slope = dot(&local.gradient()[0], &eta[0]);
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
                dot(&local.hessian(&eta)[0], &xi[0]),
                dot(&local.hessian(&xi)[0], &eta[0]),
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
                threads: 1,
            };
            let w = problem.weights(&u).transpose().to_owned();
            let cost = 0.5 * ((&x * &u * &w - &y).squared_norm_l2() + lambda * w.squared_norm_l2());
            assert!((problem.cost(&[u.clone()]) - cost).abs() < 1e-12 * cost);
        }
        let plain = (x.transpose() * &x + faer::Scale(0.7) * Mat::<f64>::identity(m, m))
            .llt(Side::Lower)
            .unwrap()
            .solve(x.transpose() * &y);
        assert!((tasks.ridge(0, 0.7) - &plain).norm_max() < 1e-12);
        assert!((tasks.pooled_ridge(0.7, 2) - &plain).norm_max() < 1e-12);
    }

    #[test]
    fn every_solver_finds_the_subspace() {
        let rows: Vec<usize> = (0..60).map(|t| 6 + t % 30).collect();
        let (tasks, truth) = planted(&rows, 20, 3, 1e-6);
        let start = vec![tasks.start(3, 2).unwrap()];
        let problem = SharedSubspace {
            tasks: &tasks,
            lambda: 0.0,
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
    fn few_rows_give_the_smallest_weights() {
        let (tasks, _) = planted(&[1, 2, 12], 6, 3, 0.1);
        let problem = SharedSubspace {
            tasks: &tasks,
            lambda: 0.0,
            threads: 1,
        };
        let u = qf(&matrix(6, 3, 4)).unwrap();
        let w = problem.weights(&u);
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
