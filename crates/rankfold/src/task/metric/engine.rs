//! Lowers what bounds on distances cost, in the geometry that a learner is named
//! after: what metrics and kernels share.

use super::{MetricLearner, MetricSolver};
use crate::batch::{
    Armijo, Asking, Bound, Bounds, Distances, Ended, Iteration, Limits, Objective, Pair, PairLoss,
    Points, PsdRegression, Solver, SolverState, SummedPsd, on_geometry,
};
use crate::linalg::Retraction;
use crate::manifold::{Affine, Flat, LogEuclidean, PolarPsd, Semidefinite};
use crate::{Error, Result};
use faer::Mat;

/// A pair, what its squared distance should keep to, and the target.
pub(crate) type Bounded = (Pair, Bound, f64);

/// How a cost is lowered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Engine {
    pub learner: MetricLearner,
    pub solver: MetricSolver,
    pub subspace_weight: f64,
    pub retraction: Retraction,
    pub iterations: usize,
    /// How descent finds its steps.
    pub armijo: Armijo,
    /// ε of the stopping rules: of the cost itself, of its decrease, and of how far G
    /// moves.
    pub tolerance: f64,
    pub threads: usize,
}

/// Where a run came to.
#[derive(Debug, Clone)]
pub(crate) struct Lowered {
    /// G, with W = G Gᵀ.
    pub factor: Mat<f64>,
    pub iterations: usize,
    pub cost: f64,
    pub ended: Ended,
}

/// An iteration of a run.
pub(crate) struct Seen<'a> {
    /// Its number, from 1; 0 is the start.
    pub number: usize,
    /// The cost after it; not a number where it was not computed.
    pub cost: f64,
    /// G after it.
    pub factor: &'a Mat<f64>,
    /// What is needed to resume from here.
    pub state: &'a dyn Fn() -> SolverState,
}

/// Observes each iteration; false ends the work.
pub(crate) type Observer<'a> = &'a mut dyn FnMut(&Seen<'_>) -> bool;

/// A cost of W that does not say yet on which geometry it is lowered.
pub(crate) trait Posed {
    /// The same on a geometry.
    fn on<M: Semidefinite>(self, space: M) -> impl Objective<Space = M>;
}

/// Pairs at hand, and what their distances should be.
impl<W: PairLoss> Posed for (Distances<'_>, W) {
    fn on<M: Semidefinite>(self, space: M) -> impl Objective<Space = M> {
        let (distances, pair_loss) = self;
        PsdRegression {
            distances,
            pair_loss,
            space,
        }
    }
}

/// Pairs that others hold, of points with so many features.
impl<'s> Posed for (usize, &'s Asking<'s>) {
    fn on<M: Semidefinite>(self, space: M) -> impl Objective<Space = M> {
        SummedPsd::new(self.0, self.1, space)
    }
}

impl Engine {
    /// Lowers the cost of bounds from W = G Gᵀ.
    pub fn bounds(
        &self,
        points: &Points,
        bounds: &[Bounded],
        start: &Mat<f64>,
        state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Lowered> {
        let pairs = bounds.iter().map(|(pair, ..)| *pair).collect();
        let list = bounds.iter().map(|&(_, bound, y)| (bound, y)).collect();
        let distances = Distances::new(points, pairs, self.threads)?;
        self.lower((distances, Bounds { list }), start, state, observer)
    }

    /// Lowers any cost of distances from W = G Gᵀ.
    pub fn lower(
        &self,
        posed: impl Posed,
        start: &Mat<f64>,
        state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Lowered> {
        let polar = PolarPsd {
            subspace_weight: self.subspace_weight,
            retraction: self.retraction,
        };
        match self.learner {
            MetricLearner::Flat | MetricLearner::ConeFlat => {
                self.on(posed.on(Flat), start, state, observer)
            }
            MetricLearner::Polar => self.on(posed.on(polar), start, state, observer),
            MetricLearner::ConeAffine => {
                self.on(posed.on(Affine::default()), start, state, observer)
            }
            MetricLearner::ConeLogdet => {
                let first_order = true;
                self.on(posed.on(Affine { first_order }), start, state, observer)
            }
            MetricLearner::ConeLog => self.on(posed.on(LogEuclidean), start, state, observer),
            other => Err(Error::input(format!(
                "`{}` does not learn in batch with this solver",
                other.name()
            ))),
        }
    }

    fn on<O: Objective<Space: Semidefinite>>(
        &self,
        problem: O,
        start: &Mat<f64>,
        state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Lowered> {
        let solver = match self.solver {
            MetricSolver::Descent => Solver::Descent(self.armijo),
            MetricSolver::Cg => Solver::ConjugateGradient {
                precondition: false,
            },
            MetricSolver::TrustRegion => Solver::TrustRegion,
            MetricSolver::Online => {
                return Err(Error::input("the solver `online` does not learn in batch"));
            }
        };
        let lost = || Error::input("the start has lost rank to working precision");
        let point = problem.space().point(start).ok_or_else(lost)?;
        let point = match state {
            None => point,
            Some(state) => solver.point(&problem, start.ncols(), state)?,
        };
        let limits = Limits {
            iterations: self.iterations,
            cost: 0.0,
            decrease: self.tolerance,
            gradient: 0.0,
        };
        let mut observed = |step: &Iteration<'_, Mat<f64>>| {
            observer(&Seen {
                number: step.number,
                cost: step.cost,
                factor: step.at,
                state: &|| step.state(),
            })
        };
        let share = self.tolerance;
        let (factor, solved) =
            on_geometry(&problem, solver, point, state, limits, share, &mut observed)?;
        if !(solved.cost.is_finite() && factor.is_all_finite()) {
            return Err(Error::input(
                "the cost leaves the range of numbers: scale the features or the distances",
            ));
        }
        Ok(Lowered {
            factor,
            iterations: solved.iterations,
            cost: solved.cost,
            ended: solved.ended,
        })
    }
}
