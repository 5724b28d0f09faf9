//! The search for a subspace of the features that is enough for many regressions: the
//! best weights of each task follow from it.

use super::normal::Normal;
use super::solve::{Local, Objective};
use super::tasks::{Common, Tasks};
use crate::kernel::dot;
use crate::linalg::symmetric;
use crate::manifold::{Blocks, Grassmann, Manifold};
use crate::parallel::map_blocks;
use faer::Mat;
use std::ops::Range;

/// Numbers in the rows of all tasks from which on threads pay.
const LEAST_FOR_THREADS: usize = 1 << 20;

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

/// Tasks seen at a point: what they add to the sums over all tasks of which a step is made.
pub(crate) struct Seen {
    at: Blocks,
    blocks: Vec<SeenBlock>,
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
        if let Some(common) = at.get(1) {
            add(&mut seen.residuals, 1.0, (x * common).col_as_slice(0));
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

    /// The tasks at a point.
    pub(crate) fn seen(&self, at: &[Mat<f64>]) -> Seen {
        let blocks = &self.tasks.blocks;
        let blocks = map_blocks(blocks.len(), 1, self.useful_threads(), |i| {
            self.see(blocks[i.start].clone(), at)
        });
        Seen {
            at: at.to_vec(),
            blocks,
        }
    }

    /// The weights of all tasks at a point, a row each.
    pub fn weights(&self, at: &[Mat<f64>]) -> Mat<f64> {
        weights_of(&self.seen(at).blocks, self.tasks.len(), at[0].ncols())
    }

    /// What the tasks cost, without the ridge of common weights.
    pub(crate) fn part_of_cost(&self, seen: &Seen) -> f64 {
        self.tasks.rest + seen.blocks.iter().map(|block| block.cost).sum::<f64>()
    }

    /// What the tasks add to the slope: Σₜ Xₜᵀ eₜ [wₜᵀ 1] for what is left of the targets.
    pub(crate) fn part_of_slope(&self, seen: &Seen) -> Mat<f64> {
        self.back(seen, |i| seen.blocks[i].residuals.clone())
    }

    /// What the tasks add to the slope along a direction, Gauss–Newton with the weights
    /// following U [Kaufman 1975].
    pub(crate) fn part_of_hessian(&self, seen: &Seen, along: &[Mat<f64>]) -> Mat<f64> {
        let tasks = self.tasks;
        let r = seen.at[0].ncols();
        let change = |i: usize| {
            let (block, range) = (&seen.blocks[i], tasks.blocks[i].clone());
            let (x, _) = tasks.rows(range.clone());
            let moved = x * &along[0];
            let mut out = match along.get(1) {
                Some(common) => (x * common).col_as_slice(0).to_vec(),
                None => vec![0.0; moved.nrows()],
            };
            let mut normal = Normal::new(r);
            for (t, (weights, factor)) in range.clone().zip(&block.tasks) {
                let rows = self.rows_in(&range, t);
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
        self.back(seen, change)
    }

    /// Σₜ ‖Xₜ‖²/m wₜwₜᵀ over the tasks.
    pub(crate) fn part_of_usual(&self, seen: &Seen) -> Mat<f64> {
        let r = seen.at[0].ncols();
        let w = weights_of(&seen.blocks, self.tasks.len(), r);
        let mut usual = Mat::<f64>::zeros(r, r);
        for (t, size) in self.tasks.sizes.iter().enumerate() {
            let size = size / self.tasks.features as f64;
            let row = w.subrows(t, 1);
            usual += faer::Scale(size) * (row.transpose() * row);
        }
        usual
    }

    /// Σₜ Xₜᵀ eₜ [wₜᵀ 1] for numbers e of all rows.
    fn back(&self, seen: &Seen, e: impl Fn(usize) -> Vec<f64> + Sync) -> Mat<f64> {
        let (blocks, r) = (&seen.blocks, seen.at[0].ncols());
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
        sum
    }
}

/// What the ridge μ of common weights c adds to the cost.
pub(super) fn common_cost(mu: Option<f64>, at: &[Mat<f64>]) -> f64 {
    mu.map_or(0.0, |mu| 0.5 * mu * at[1].squared_norm_l2())
}

/// Sums over tasks as a tangent vector at U, with the slope of the ridge of common weights
/// where there are some.
pub(super) fn tangent(u: &Mat<f64>, sum: &Mat<f64>, common: Option<(f64, &Mat<f64>)>) -> Blocks {
    let r = u.ncols();
    let mut out = vec![Grassmann::project(u, &sum.subcols(0, r).to_owned())];
    if let Some((mu, c)) = common {
        out.push(sum.subcols(r, 1) + faer::Scale(mu) * c);
    }
    out
}

fn weights_of(blocks: &[SeenBlock], tasks: usize, r: usize) -> Mat<f64> {
    let mut out = Mat::zeros(tasks, r);
    let all = blocks.iter().flat_map(|block| &block.tasks);
    for (t, (weights, _)) in all.enumerate() {
        (0..r).for_each(|k| out[(t, k)] = weights[k]);
    }
    out
}

/// A subspace for all tasks, and its neighborhood.
pub struct LocalTasks<'a> {
    problem: SharedSubspace<'a>,
    w: Mat<f64>,
    seen: Seen,
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
            out[1] = common.solve(self.problem.tasks, &vector[1]);
        }
        out
    }

    fn curvature(&self, along: &[Mat<f64>]) -> f64 {
        Grassmann.inner(&[], &self.hessian(along), along)
    }

    fn hessian(&self, along: &[Mat<f64>]) -> Blocks {
        let sum = self.problem.part_of_hessian(&self.seen, along);
        let common = self.problem.common.map(|common| (common.mu, &along[1]));
        tangent(&self.seen.at[0], &sum, common)
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

    fn shapes(&self, rank: usize) -> Vec<(usize, usize)> {
        let mut out = vec![(self.tasks.features, rank)];
        out.extend(self.common.map(|_| (self.tasks.features, 1)));
        out
    }

    fn cost(&self, at: &[Mat<f64>]) -> f64 {
        let ridge = common_cost(self.common.map(Common::ridge), at);
        ridge + self.part_of_cost(&self.seen(at))
    }

    fn local<'a>(&'a self, at: &[Mat<f64>]) -> LocalTasks<'b> {
        let seen = self.seen(at);
        let mu = self.common.map(Common::ridge);
        let slope = self.part_of_slope(&seen);
        LocalTasks {
            problem: *self,
            w: weights_of(&seen.blocks, self.tasks.len(), at[0].ncols()),
            cost: common_cost(mu, at) + self.part_of_cost(&seen),
            gradient: tangent(&at[0], &slope, mu.map(|mu| (mu, &at[1]))),
            inverse: symmetric::power(&self.part_of_usual(&seen), -1.0),
            seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tasks::tests::planted;
    use super::super::{Armijo, Limits, Solver};
    use super::*;
    use crate::linalg::qf;
    use crate::manifold::scaled;
    use crate::manifold::tests::matrix;

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
            let solved = solver.solve(&problem, start.clone(), limits, &mut |_| true);
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
        let solved = Solver::TrustRegion.solve(&problem, start, limits, &mut |_| true);
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
}
