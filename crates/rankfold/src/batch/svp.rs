//! Singular value projection [Jain, Meka and Dhillon 2010]: a step along the
//! gradient in all matrices, then the nearest matrix of the rank.

use super::problem::Problem;
use super::solve::{Ended, Limits};
use crate::linalg::svd;
use crate::manifold::{beside, thin_qr};
use faer::Mat;

/// Power iterations for each projection; they start where the last one ended.
const ITERATIONS: usize = 2;

/// Called after each step with its number and the factors; false ends the work.
pub type WatchFactors<'a> = &'a mut dyn FnMut(usize, &Mat<f64>, &Mat<f64>) -> bool;

/// Lowers the cost from W = L Rᵀ. The first step is the one for entries that are
/// known at random, as long as the inverse share of them; it is halved where the
/// cost would rise. `watch` sees the factors after each step.
pub fn singular_value_projection(
    problem: &impl Problem,
    (left, right): (Mat<f64>, Mat<f64>),
    limits: Limits,
    watch: WatchFactors<'_>,
) -> ((Mat<f64>, Mat<f64>), usize, Ended) {
    let ((n, m), k) = (problem.shape(), left.ncols());
    let (mut left, mut right) = (left, right);
    let mut cost = problem.cost(&left, &right);
    // Costs are means over entries, so this is 1 over the share of known ones.
    let mut step = (n * m) as f64;
    for iteration in 1..=limits.iterations {
        let mut moved = None;
        for _ in 0..60 {
            moved = projected(problem, (&left, &right), step, k).and_then(|(l, r)| {
                let found = problem.cost(&l, &r);
                (found < cost).then_some((l, r, found))
            });
            if moved.is_some() {
                break;
            }
            step *= 0.5;
        }
        let Some((l, r, found)) = moved else {
            return ((left, right), iteration - 1, Ended::Converged);
        };
        let before = std::mem::replace(&mut cost, found);
        (left, right) = (l, r);
        if !watch(iteration, &left, &right) {
            return ((left, right), iteration, Ended::Told);
        }
        if limits.reached(before, cost) {
            return ((left, right), iteration, Ended::Converged);
        }
    }
    ((left, right), limits.iterations, Ended::Iterations)
}

/// The nearest matrix of rank k to L Rᵀ − step · E.
fn projected(
    problem: &impl Problem,
    (left, right): (&Mat<f64>, &Mat<f64>),
    step: f64,
    k: usize,
) -> Option<(Mat<f64>, Mat<f64>)> {
    let (n, m) = problem.shape();
    let forward = |q: &Mat<f64>| {
        let er = problem.er(&beside(left, &Mat::zeros(n, k)), &beside(right, q));
        left * (right.transpose() * q) - faer::Scale(step) * er.subcols(left.ncols(), k)
    };
    let backward = |p: &Mat<f64>| {
        let el = problem.el(&beside(left, p), &beside(right, &Mat::zeros(m, k)));
        right * (left.transpose() * p) - faer::Scale(step) * el.subcols(right.ncols(), k)
    };
    let mut q = thin_qr(right)?.0;
    for _ in 0..ITERATIONS {
        let p = thin_qr(&forward(&q))?.0;
        q = thin_qr(&backward(&p))?.0;
    }
    let (basis, r) = thin_qr(&forward(&q))?;
    let (inner, sigma, turn) = svd(&r)?;
    let scaled = |m: Mat<f64>| Mat::from_fn(m.nrows(), k, |i, j| m[(i, j)] * sigma[j].sqrt());
    Some((scaled(basis * inner), scaled(q * turn)))
}
