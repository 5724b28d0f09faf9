//! What solvers share: objectives, when they stop, and what they tell.

use crate::manifold::{Blocks, Manifold};
use faer::Mat;

/// A cost on a manifold.
pub trait Objective: Sync {
    /// Where it lives.
    type Space: Manifold;
    /// What is known at a point.
    type Local<'a>: Local
    where
        Self: 'a;

    /// The manifold.
    fn space(&self) -> &Self::Space;

    /// The cost; not finite where it cannot be had.
    fn cost(&self, at: &[Mat<f64>]) -> f64;

    /// The cost, its gradient, and what its curvature needs.
    fn local<'a>(&'a self, at: &[Mat<f64>]) -> Self::Local<'a>;
}

/// A cost in the neighbourhood of a point.
pub trait Local {
    /// The cost.
    fn cost(&self) -> f64;

    /// The Riemannian gradient.
    fn gradient(&self) -> &Blocks;

    /// A tangent vector scaled by about the inverse of the Hessian; symmetric and
    /// positive.
    fn precondition(&self, vector: &[Mat<f64>]) -> Blocks {
        vector.to_vec()
    }

    /// The second derivative along a tangent vector, up to terms that vanish with
    /// the residuals. Never negative.
    fn curvature(&self, along: &[Mat<f64>]) -> f64;

    /// The Hessian applied to a tangent vector, up to the same terms: symmetric
    /// and never negative.
    fn hessian(&self, along: &[Mat<f64>]) -> Blocks;
}

/// When a solver stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// After so many iterations.
    pub iterations: usize,
    /// When the cost is at most this.
    pub cost: f64,
    /// When an iteration lowers the cost by at most this share of it.
    pub decrease: f64,
    /// When the norm of the gradient is at most this share of the first one.
    pub gradient: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            iterations: 500,
            cost: 0.0,
            decrease: 1e-10,
            gradient: 1e-12,
        }
    }
}

/// An iteration that was done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Its number, from 1.
    pub iteration: usize,
    /// The cost after it.
    pub cost: f64,
}

/// Why a solver stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The cost, its decrease or the gradient is small enough, or no step lowers
    /// the cost any more.
    Converged,
    /// It did all iterations.
    Iterations,
    /// It was told to.
    Told,
}

/// Where a solver came to.
#[derive(Debug, Clone)]
pub struct Solved {
    /// The point with the lowest cost.
    pub point: Blocks,
    /// Its cost.
    pub cost: f64,
    /// Iterations done.
    pub iterations: usize,
    /// Why it stopped.
    pub ended: Ended,
}

impl Solved {
    /// Before the first iteration.
    pub(super) fn at(point: Blocks, cost: f64) -> Self {
        Solved {
            point,
            cost,
            iterations: 0,
            ended: Ended::Converged,
        }
    }

    /// Goes on to a point; says whether to go on from there.
    pub(super) fn moved(
        &mut self,
        point: Blocks,
        cost: f64,
        limits: Limits,
        watch: Watch<'_>,
    ) -> bool {
        let before = std::mem::replace(&mut self.cost, cost);
        self.point = point;
        self.iterations += 1;
        let progress = Progress {
            iteration: self.iterations,
            cost,
        };
        if !watch(progress, &self.point) {
            self.ended = Ended::Told;
            return false;
        }
        !limits.reached(before, cost)
    }
}

/// Called after each iteration with the point; false ends the work.
pub type Watch<'a> = &'a mut dyn FnMut(Progress, &[Mat<f64>]) -> bool;

impl Limits {
    /// Whether an iteration from one cost to the next was enough.
    pub(super) fn reached(&self, before: f64, after: f64) -> bool {
        after <= self.cost
            || (before.is_finite() && (before - after).abs() <= self.decrease * before.abs())
    }
}

/// A way to solve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Solver {
    /// Steps along the gradient, found by halving.
    Descent(super::Armijo),
    /// Conjugate directions. With `precondition`, directions are scaled by about the
    /// inverse of the Hessian: that is what ill-conditioned matrices need, and it
    /// gives up what stopping early does for noisy ones, which learn their leading
    /// directions first otherwise.
    ConjugateGradient {
        /// Whether directions are scaled.
        precondition: bool,
    },
    /// Gauss–Newton steps inside a region where the model is trusted.
    TrustRegion,
}

impl Solver {
    /// Lowers a cost from a start.
    pub fn solve<O: Objective>(
        self,
        objective: &O,
        start: Blocks,
        limits: Limits,
        watch: Watch<'_>,
    ) -> Solved {
        match self {
            Solver::Descent(armijo) => super::descend(objective, start, armijo, limits, watch),
            Solver::ConjugateGradient { precondition } => {
                super::conjugate_gradient(objective, start, precondition, limits, watch)
            }
            Solver::TrustRegion => super::trust_region(objective, start, limits, watch),
        }
    }
}
