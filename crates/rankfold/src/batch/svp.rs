//! Singular value projection [Jain, Meka and Dhillon 2010]: a step along the
//! gradient in all matrices, then the nearest matrix of the rank.

use super::problem::Problem;
use super::solve::{Limits, Observer, Run, Solved};
use super::state::SolverState;
use crate::Result;
use crate::linalg::svd;
use crate::manifold::{beside, thin_qr};
use faer::Mat;

/// Power iterations for each projection; they start where the last one ended.
const ITERATIONS: usize = 2;

const NAME: &str = "svp";

/// L and R with W = L Rᵀ.
type Factors = (Mat<f64>, Mat<f64>);

/// Singular value projection for a problem of W.
#[derive(Debug, Clone)]
pub struct Svp<P> {
    /// The problem.
    pub problem: P,
}

impl<P: Problem> Svp<P> {
    /// Lowers the cost from W = L Rᵀ. The first step is the one for entries that are
    /// known at random, as long as the inverse share of them. It is halved where the
    /// cost would rise.
    pub fn solve(
        &self,
        start: Factors,
        limits: Limits,
        observer: Observer<'_, Factors>,
    ) -> Solved<Factors> {
        let (n, m) = self.problem.shape();
        // Costs are means over entries, so this is 1 over the share of known ones.
        self.run(start, (n * m) as f64, None, limits, observer)
    }

    /// Lowers the cost further from the state of an iteration; an error where it does
    /// not fit the problem at this rank.
    pub fn resume(
        &self,
        rank: usize,
        state: &SolverState,
        limits: Limits,
        observer: Observer<'_, Factors>,
    ) -> Result<Solved<Factors>> {
        state.check(NAME)?;
        let (n, m) = self.problem.shape();
        let left = state.block("left", (n, rank))?.clone();
        let right = state.block("right", (m, rank))?.clone();
        let step = state.number("step")?;
        Ok(self.run((left, right), step, Some(state), limits, observer))
    }

    fn run(
        &self,
        mut factors: Factors,
        mut step: f64,
        state: Option<&SolverState>,
        limits: Limits,
        observer: Observer<'_, Factors>,
    ) -> Solved<Factors> {
        let (problem, k) = (&self.problem, factors.0.ncols());
        let cost = problem.cost(&factors.0, &factors.1);
        let mut run = Run::new(NAME, state, cost, limits, observer);
        while run.goes_on() {
            let mut moved = None;
            for _ in 0..60 {
                moved = projected(problem, (&factors.0, &factors.1), step, k).and_then(|(l, r)| {
                    let found = problem.cost(&l, &r);
                    (found < run.cost).then_some((l, r, found))
                });
                if moved.is_some() {
                    break;
                }
                step *= 0.5;
            }
            let Some((l, r, found)) = moved else {
                break;
            };
            factors = (l, r);
            run.moved(&factors, found, &|state| {
                let state = state.with_block("left", factors.0.clone());
                let state = state.with_block("right", factors.1.clone());
                state.with_number("step", step)
            });
        }
        run.solved(factors)
    }
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
