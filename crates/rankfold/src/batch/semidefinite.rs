//! What distances should be, on a geometry of positive semi-definite matrices.

use super::distances::{Distances, PairLoss};
use super::seen_pairs::SeenPairs;
use super::solve::{Ended, Iteration, Limits, Local, Objective, Observer, Solved, Solver};
use super::state::SolverState;
use crate::Result;
use crate::manifold::{Blocks, Semidefinite, Split};
use faer::Mat;

/// The cost of W: what a pair loss makes of the distances between pairs of points.
#[derive(Debug, Clone)]
pub struct PsdRegression<'a, M, W> {
    /// The pairs, and the points.
    pub distances: Distances<'a>,
    /// What their distances should be.
    pub pair_loss: W,
    /// Where W lives.
    pub space: M,
}

/// The same at a point.
pub struct LocalPsd<'r, 'a, M, W> {
    regression: &'r PsdRegression<'a, M, W>,
    at: Blocks,
    split: Split,
    seen: SeenPairs,
    cost: f64,
    gradient: Blocks,
}

impl<M: Semidefinite, W: PairLoss> PsdRegression<'_, M, W> {
    /// The squared distances of the pairs at a point.
    pub fn distances_at(&self, at: &[Mat<f64>]) -> Vec<f64> {
        SeenPairs::new(&self.distances, &self.space.split(at)).into_distances()
    }

    /// Lowers the cost from a point until a limit is reached, or an iteration moves G
    /// of W = G Gᵀ by at most `move_share` of it. The observer sees G, and the end
    /// gives it.
    pub fn solve(
        &self,
        solver: Solver,
        start: Blocks,
        limits: Limits,
        move_share: f64,
        observer: Observer<'_, Mat<f64>>,
    ) -> (Mat<f64>, Solved) {
        let solved = on_geometry(self, solver, start, None, limits, move_share, observer);
        solved.expect("only a state can be wrong")
    }

    /// Lowers the cost further from the state of an iteration; an error where it does
    /// not fit the points at this rank, or belongs to another solver.
    pub fn resume(
        &self,
        solver: Solver,
        rank: usize,
        state: &SolverState,
        limits: Limits,
        move_share: f64,
        observer: Observer<'_, Mat<f64>>,
    ) -> Result<(Mat<f64>, Solved)> {
        let start = solver.point(self, rank, state)?;
        on_geometry(
            self,
            solver,
            start,
            Some(state),
            limits,
            move_share,
            observer,
        )
    }
}

/// The same for any cost of W: from a point, which is that of the state where there is one.
pub(crate) fn on_geometry<O: Objective>(
    objective: &O,
    solver: Solver,
    start: Blocks,
    state: Option<&SolverState>,
    mut limits: Limits,
    move_share: f64,
    observer: Observer<'_, Mat<f64>>,
) -> Result<(Mat<f64>, Solved)>
where
    O::Space: Semidefinite,
{
    let space = objective.space();
    let mut last = space.split(&start).factor();
    let mut still = false;
    if let Some(state) = state {
        still = state.number("moved")? <= move_share * state.number("length")?;
        if still {
            limits.iterations = state.iteration;
        }
    }
    let mut solved = solver.run(objective, start, state, limits, &mut |iteration| {
        let factor = space.split(iteration.at).factor();
        let (moved, length) = ((&factor - &last).norm_l2(), last.norm_l2());
        still = moved <= move_share * length;
        last = factor;
        let state = || {
            let state = iteration.state().with_number("moved", moved);
            state.with_number("length", length)
        };
        let seen = Iteration {
            number: iteration.number,
            cost: iteration.cost,
            at: &last,
            state: &state,
        };
        observer(&seen) && !still
    })?;
    if still {
        solved.ended = Ended::Converged;
    }
    Ok((last, solved))
}

impl<M: Semidefinite, W: PairLoss> Local for LocalPsd<'_, '_, M, W> {
    fn cost(&self) -> f64 {
        self.cost
    }

    fn gradient(&self) -> &Blocks {
        &self.gradient
    }

    fn curvature(&self, along: &[Mat<f64>]) -> f64 {
        let regression = self.regression;
        let direction = regression.space.direction(&self.at, &self.split, along);
        let (distances, pair_loss) = (&regression.distances, &regression.pair_loss);
        self.seen.curvature(distances, pair_loss, &direction)
    }

    fn hessian(&self, along: &[Mat<f64>]) -> Blocks {
        let regression = self.regression;
        let direction = regression.space.direction(&self.at, &self.split, along);
        let (distances, pair_loss) = (&regression.distances, &regression.pair_loss);
        let product = self.seen.hessian(distances, pair_loss, &direction);
        regression.space.gradient(&self.at, &self.split, &product)
    }
}

impl<'a, M: Semidefinite, W: PairLoss> Objective for PsdRegression<'a, M, W> {
    type Space = M;
    type Local<'r>
        = LocalPsd<'r, 'a, M, W>
    where
        Self: 'r;

    fn space(&self) -> &M {
        &self.space
    }

    fn shapes(&self, rank: usize) -> Vec<(usize, usize)> {
        self.space.shapes(self.distances.features(), rank)
    }

    fn cost(&self, at: &[Mat<f64>]) -> f64 {
        self.pair_loss.cost(&self.distances_at(at))
    }

    fn local<'r>(&'r self, at: &[Mat<f64>]) -> LocalPsd<'r, 'a, M, W> {
        let split = self.space.split(at);
        let seen = SeenPairs::new(&self.distances, &split);
        let (cost, product) = seen.slope(&self.distances, &self.pair_loss);
        LocalPsd {
            regression: self,
            gradient: self.space.gradient(at, &split, &product),
            at: at.to_vec(),
            split,
            seen,
            cost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Armijo, Bound, Bounds, Pair, Points};
    use super::*;
    use crate::linalg::Retraction;
    use crate::manifold::tests::matrix;
    use crate::manifold::{Affine, Flat, LogEuclidean, PolarPsd, scaled};

    fn pairs(n: u32, count: u32) -> Vec<Pair> {
        let pair = |t: u32| Pair {
            left: (t * 7) % n,
            right: (t * 5 + 1 + t / n) % n,
        };
        (0..count).map(pair).collect()
    }

    /// Bounds of all three kinds around the distances of some other W, in which
    /// some are violated.
    fn problem<M: Semidefinite>(points: &Points, space: M) -> PsdRegression<'_, M, Bounds> {
        let distances = Distances::new(points, pairs(points.len() as u32, 60), 2).unwrap();
        let other = distances.of(&distances.project(&matrix(points.features(), 3, 8)));
        let kinds = [Bound::Equal, Bound::AtMost, Bound::AtLeast];
        let list = other.iter().enumerate();
        let list = list.map(|(t, d)| (kinds[t % 3], *d)).collect();
        PsdRegression {
            distances,
            pair_loss: Bounds { list },
            space,
        }
    }

    fn differences<M: Semidefinite>(space: M, d: usize, k: usize) {
        let points = Points::dense(matrix(12, d, 1));
        let regression = problem(&points, space);
        let at = regression.space.point(&matrix(d, k, 2)).unwrap();
        let local = regression.local(&at);
        assert!((local.cost() - regression.cost(&at)).abs() < 1e-12 * local.cost());
        let other: Blocks = at.iter().map(|b| matrix(b.nrows(), b.ncols(), 7)).collect();
        let eta = regression.space.transport(&at, &at, &other);
        let slope = regression.space.inner(&at, local.gradient(), &eta);
        let h = 1e-6;
        let cost =
            |t: f64| regression.cost(&regression.space.retract(&at, &scaled(t, &eta)).unwrap());
        let measured = (cost(h) - cost(-h)) / (2.0 * h);
        let near = (slope - measured).abs() < 1e-6 * (1.0 + slope.abs());
        assert!(near, "{slope} {measured}");
        // The Hessian is symmetric and agrees with the curvature.
        let bent = local.hessian(&eta);
        let curvature = regression.space.inner(&at, &bent, &eta);
        assert!((curvature - local.curvature(&eta)).abs() < 1e-9 * (1.0 + curvature));
        let xi = local.gradient();
        let (a, b) = (
            regression.space.inner(&at, &bent, xi),
            regression.space.inner(&at, &local.hessian(xi), &eta),
        );
        assert!((a - b).abs() < 1e-9 * (1.0 + a.abs()), "{a} {b}");
    }

    #[test]
    fn gradients_agree_with_differences_on_every_geometry() {
        for (d, k) in [(6, 2), (5, 5), (4, 1)] {
            differences(Flat, d, k);
            for subspace_weight in [0.0, 1e-3, 0.5, 1.0] {
                for retraction in [Retraction::Uf, Retraction::Qf] {
                    let polar = PolarPsd {
                        subspace_weight,
                        retraction,
                    };
                    differences(polar, d, k);
                }
            }
        }
        differences(Affine::default(), 4, 4);
        differences(Affine { first_order: true }, 4, 4);
        differences(LogEuclidean, 4, 4);
    }

    /// All geometries and solvers find W from exact distances, and never go up.
    fn recovers<M: Semidefinite>(space: M, solver: Solver, d: usize, k: usize) {
        let points = Points::dense(matrix(40, d, 1));
        let distances = Distances::new(&points, pairs(40, 150), 1).unwrap();
        let truth = matrix(d, k, 3);
        let exact = distances.of(&distances.project(&truth));
        let list = exact.iter().map(|d| (Bound::Equal, *d)).collect();
        let regression = PsdRegression {
            distances,
            pair_loss: Bounds { list },
            space,
        };
        let start = &truth + faer::Scale(0.2) * matrix(d, k, 5);
        let start = regression.space.point(&start).unwrap();
        let limits = Limits {
            iterations: 5000,
            decrease: 0.0,
            cost: 1e-22,
            ..Limits::default()
        };
        let mut costs = vec![f64::INFINITY];
        let (g, solved) = regression.solve(solver, start, limits, 0.0, &mut |step| {
            costs.push(step.cost);
            true
        });
        assert!(costs.is_sorted_by(|a, b| a >= b));
        let w = &truth * truth.transpose();
        let off = (&g * g.transpose() - &w).norm_l2() / w.norm_l2();
        // Descent goes zigzag in valleys, and is not there yet.
        let enough = if matches!(solver, Solver::Descent(_)) {
            0.01
        } else {
            1e-7
        };
        assert!(off < enough, "{solver:?} {off} {}", solved.iterations);
    }

    #[test]
    fn every_solver_recovers_a_metric_on_every_geometry() {
        let descent = Solver::Descent(Armijo::default());
        let cg = Solver::ConjugateGradient {
            precondition: false,
        };
        for solver in [descent, cg, Solver::TrustRegion] {
            recovers(Flat, solver, 8, 2);
            recovers(PolarPsd::default(), solver, 8, 2);
            recovers(Flat, solver, 4, 4);
            recovers(Affine::default(), solver, 4, 4);
            recovers(LogEuclidean, solver, 4, 4);
        }
    }

    #[test]
    fn a_solver_stops_when_it_hardly_moves() {
        let points = Points::dense(matrix(12, 5, 1));
        let regression = problem(&points, Flat);
        let limits = Limits {
            iterations: 10_000,
            decrease: 0.0,
            gradient: 0.0,
            ..Limits::default()
        };
        let descent = Solver::Descent(Armijo::default());
        let run = |share: f64| {
            let start = vec![matrix(5, 2, 2)];
            let solve = regression.solve(descent, start, limits, share, &mut |_| true);
            solve.1
        };
        let (loose, tight) = (run(1e-2), run(1e-5));
        assert!(loose.iterations < tight.iterations && tight.iterations < 10_000);
        assert_eq!(loose.ended, Ended::Converged);
    }
}
