//! Lowers what bounds on distances cost, in the geometry that a learner is named
//! after: what metrics and kernels share.

use super::{MetricLearner, MetricSolver};
use crate::batch::{
    Armijo, Bound, Bounds, Distances, Ended, Limits, Pair, Points, PsdRegression, Solver, Wish,
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

/// Told of each iteration: its number, the cost after it, and G. False ends the work.
pub(crate) type Told<'a> = &'a mut dyn FnMut(usize, f64, &Mat<f64>) -> bool;

impl Engine {
    /// Lowers the cost of bounds from W = G Gᵀ.
    pub fn bounds(
        &self,
        points: &Points,
        bounds: &[Bounded],
        start: &Mat<f64>,
        told: Told<'_>,
    ) -> Result<Lowered> {
        let pairs = bounds.iter().map(|(pair, ..)| *pair).collect();
        let list = bounds.iter().map(|&(_, bound, y)| (bound, y)).collect();
        let distances = Distances::new(points, pairs, self.threads)?;
        self.lower(distances, Bounds { list }, start, told)
    }

    /// Lowers any cost of distances from W = G Gᵀ.
    pub fn lower(
        &self,
        distances: Distances<'_>,
        wish: impl Wish,
        start: &Mat<f64>,
        told: Told<'_>,
    ) -> Result<Lowered> {
        let polar = PolarPsd {
            subspace_weight: self.subspace_weight,
            retraction: self.retraction,
        };
        match self.learner {
            MetricLearner::Flat | MetricLearner::ConeFlat => {
                self.on(Flat, distances, wish, start, told)
            }
            MetricLearner::Polar => self.on(polar, distances, wish, start, told),
            MetricLearner::ConeAffine => self.on(Affine::default(), distances, wish, start, told),
            MetricLearner::ConeLogdet => {
                let first_order = true;
                self.on(Affine { first_order }, distances, wish, start, told)
            }
            MetricLearner::ConeLog => self.on(LogEuclidean, distances, wish, start, told),
            other => Err(Error::input(format!(
                "`{}` does not learn in batch with this solver",
                other.name()
            ))),
        }
    }

    fn on<M: Semidefinite>(
        &self,
        space: M,
        distances: Distances<'_>,
        wish: impl Wish,
        start: &Mat<f64>,
        told: Told<'_>,
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
        let point = space.point(start).ok_or_else(lost)?;
        let regression = PsdRegression {
            distances,
            wish,
            space,
        };
        let limits = Limits {
            iterations: self.iterations,
            cost: 0.0,
            decrease: self.tolerance,
            gradient: 0.0,
        };
        let (factor, solved) =
            regression.solve(solver, point, limits, self.tolerance, &mut |step| {
                told(step.number, step.cost, step.at)
            });
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
