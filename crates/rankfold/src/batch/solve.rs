//! What solvers share: objectives, when they stop, and what observers see.

use super::state::SolverState;
use super::{conjugate_gradient, descent, trust_region};
use crate::Result;
use crate::manifold::{Blocks, Manifold};
use faer::Mat;

/// A cost on a manifold.
pub trait Objective: Sync {
    /// The manifold's type.
    type Space: Manifold;
    /// What is known at a point.
    type Local<'a>: Local
    where
        Self: 'a;

    /// The manifold.
    fn space(&self) -> &Self::Space;

    /// The rows and columns of each block of a point, given the rank: a solver resumes
    /// from a state that has these.
    fn shapes(&self, rank: usize) -> Vec<(usize, usize)>;

    /// The cost; not finite where it cannot be computed.
    fn cost(&self, at: &[Mat<f64>]) -> f64;

    /// The cost, its gradient, and what its curvature needs.
    fn local<'a>(&'a self, at: &[Mat<f64>]) -> Self::Local<'a>;
}

/// A cost in the neighborhood of a point.
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
    /// After this many iterations, those before a state included.
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

impl Limits {
    /// Whether an iteration from one cost to the next was enough.
    fn reached(&self, before: f64, after: f64) -> bool {
        after <= self.cost
            || (before.is_finite() && (before - after).abs() <= self.decrease * before.abs())
    }
}

/// Why a solver stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The cost, its decrease or the gradient is small enough, or no step lowers
    /// the cost any more.
    Converged,
    /// It did all iterations.
    Iterations,
    /// The observer asked for it.
    Interrupted,
}

/// Where a solver came to.
#[derive(Debug, Clone)]
pub struct Solved<P = Blocks> {
    /// The point with the lowest cost.
    pub point: P,
    /// Its cost; not a number where the solver did not compute it.
    pub cost: f64,
    /// Iterations done, those before a state included.
    pub iterations: usize,
    /// Why it stopped.
    pub ended: Ended,
}

/// An iteration that was done.
pub struct Iteration<'a, P = Blocks> {
    /// Its number, from 1.
    pub number: usize,
    /// The cost after it; not a number where the solver did not compute it.
    pub cost: f64,
    /// Where the solver is.
    pub at: &'a P,
    pub(super) state: &'a dyn Fn() -> SolverState,
}

impl<P> Iteration<'_, P> {
    /// The whole state of the solver, made when it is asked for.
    pub fn state(&self) -> SolverState {
        (self.state)()
    }
}

/// Called after each iteration; false interrupts the solver.
pub type Observer<'a, P = Blocks> = &'a mut dyn FnMut(&Iteration<'_, P>) -> bool;

/// A run of any solver: counts iterations, calls the observer, and decides when to end.
pub(super) struct Run<'a, P = Blocks> {
    solver: &'static str,
    limits: Limits,
    observer: Observer<'a, P>,
    pub iterations: usize,
    /// The cost, and that before the last iteration.
    pub cost: f64,
    previous: f64,
    ended: Option<Ended>,
}

impl<'a, P> Run<'a, P> {
    /// A run from a start or from a state, at a point with this cost.
    pub fn new(
        solver: &'static str,
        state: Option<&SolverState>,
        cost: f64,
        limits: Limits,
        observer: Observer<'a, P>,
    ) -> Self {
        Run {
            solver,
            limits,
            observer,
            iterations: state.map_or(0, |state| state.iteration),
            cost,
            previous: state.map_or(f64::INFINITY, |s| s.number_or_infinity("previous")),
            ended: None,
        }
    }

    /// Whether there is another iteration, by the costs and the limits.
    pub fn goes_on(&mut self) -> bool {
        let reached = self.iterations > 0 && self.limits.reached(self.previous, self.cost);
        self.goes_on_unless(reached)
    }

    /// Whether there is another iteration, for a solver with a criterion of its own. It
    /// is checked here, before an iteration, so that a resumed run checks it too.
    pub fn goes_on_unless(&mut self, reached: bool) -> bool {
        if self.ended.is_none() && reached {
            self.ended = Some(Ended::Converged);
        } else if self.ended.is_none() && self.iterations >= self.limits.iterations {
            self.ended = Some(Ended::Iterations);
        }
        self.ended.is_none()
    }

    /// Counts an iteration and shows it to the observer. `state` adds what the solver
    /// needs to go on.
    pub fn moved(&mut self, at: &P, cost: f64, state: &dyn Fn(SolverState) -> SolverState) {
        self.previous = std::mem::replace(&mut self.cost, cost);
        self.iterations += 1;
        let (solver, number, previous) = (self.solver, self.iterations, self.previous);
        let begun = || SolverState::new(solver, number).with_number("previous", previous);
        let iteration = Iteration {
            number,
            cost,
            at,
            state: &|| state(begun()),
        };
        if !(self.observer)(&iteration) {
            self.ended = Some(Ended::Interrupted);
        }
    }

    /// The end of the run. A solver that left it early found no better point.
    pub fn solved<Q>(self, point: Q) -> Solved<Q> {
        Solved {
            point,
            cost: self.cost,
            iterations: self.iterations,
            ended: self.ended.unwrap_or(Ended::Converged),
        }
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
        observer: Observer<'_>,
    ) -> Solved {
        let solved = self.run(objective, start, None, limits, observer);
        solved.expect("only a state can be wrong")
    }

    /// Lowers a cost further, from the state of an iteration. An error where the state
    /// does not fit the objective at this rank, or belongs to another solver.
    pub fn resume<O: Objective>(
        self,
        objective: &O,
        rank: usize,
        state: &SolverState,
        limits: Limits,
        observer: Observer<'_>,
    ) -> Result<Solved> {
        let start = self.point(objective, rank, state)?;
        self.run(objective, start, Some(state), limits, observer)
    }

    /// The point of a state.
    pub(crate) fn point(
        self,
        objective: &impl Objective,
        rank: usize,
        state: &SolverState,
    ) -> Result<Blocks> {
        state.check(match self {
            Solver::Descent(_) => descent::NAME,
            Solver::ConjugateGradient { .. } => conjugate_gradient::NAME,
            Solver::TrustRegion => trust_region::NAME,
        })?;
        state.blocks("point", &objective.shapes(rank))
    }

    pub(super) fn run<O: Objective>(
        self,
        objective: &O,
        start: Blocks,
        state: Option<&SolverState>,
        limits: Limits,
        observer: Observer<'_>,
    ) -> Result<Solved> {
        match self {
            Solver::Descent(armijo) => {
                descent::descend(objective, start, state, armijo, limits, observer)
            }
            Solver::ConjugateGradient { precondition } => conjugate_gradient::conjugate_gradient(
                objective,
                start,
                state,
                precondition,
                limits,
                observer,
            ),
            Solver::TrustRegion => {
                trust_region::trust_region(objective, start, state, limits, observer)
            }
        }
    }
}
