//! Riemannian conjugate gradient [Polak and Ribière 1969], preconditioned where that
//! is wanted, and started again where a direction is not one of descent.

use super::descent::search;
use super::solve::{Limits, Local, Objective, Observer, Run, Solved};
use super::state::SolverState;
use crate::Result;
use crate::manifold::{Blocks, Manifold, combine, scaled};
use faer::Mat;

/// The solver of a state.
pub(super) const NAME: &str = "conjugate-gradient";

/// What a step must keep of the decrease that its slope promises. The first step
/// tried is the minimum of the local model, which keeps about a half.
const SHARE: f64 = 1e-4;

/// Lowers a cost along conjugate directions, preconditioned or not.
pub(super) fn conjugate_gradient<O: Objective>(
    objective: &O,
    start: Blocks,
    state: Option<&SolverState>,
    precondition: bool,
    limits: Limits,
    observer: Observer<'_>,
) -> Result<Solved> {
    let space = objective.space();
    let mut point = start;
    let mut local = objective.local(&point);
    let mut run = Run::new(NAME, state, local.cost(), limits, observer);
    // P ξ for the gradient ξ, and ⟨ξ, P ξ⟩.
    let measured = |at: &[Mat<f64>], local: &O::Local<'_>| {
        let steep = match precondition {
            true => local.precondition(local.gradient()),
            false => local.gradient().clone(),
        };
        let square = space.inner(at, local.gradient(), &steep);
        (steep, square)
    };
    let (mut steep, mut square) = measured(&point, &local);
    let (mut direction, first_square) = match state {
        None => (scaled(-1.0, &steep), square),
        Some(state) => {
            let shapes: Vec<_> = point.iter().map(|b| (b.nrows(), b.ncols())).collect();
            let direction = state.blocks("direction", &shapes)?;
            (direction, state.number("first_square")?)
        }
    };
    while run.goes_on() {
        if !(square > limits.gradient.powi(2) * first_square && square.is_finite()) {
            break;
        }
        let mut slope = space.inner(&point, local.gradient(), &direction);
        if !(slope < 0.0) {
            direction = scaled(-1.0, &steep);
            slope = -square;
        }
        let here = (&point[..], run.cost);
        let step = |direction: &Blocks, slope: f64| {
            let first = -slope / local.curvature(direction).max(f64::MIN_POSITIVE);
            search(objective, here, direction, slope, first, SHARE)
        };
        let moved = step(&direction, slope).or_else(|| {
            direction = scaled(-1.0, &steep);
            step(&direction, -square)
        });
        let Some((there, _)) = moved else {
            break;
        };
        let next = objective.local(&there);
        let (next_steep, next_square) = measured(&there, &next);
        let carried = space.transport(&point, &there, local.gradient());
        let overlap = space.inner(&there, &next_steep, &carried);
        let beta = ((next_square - overlap) / square).max(0.0);
        let old = space.transport(&point, &there, &direction);
        direction = combine(-1.0, &next_steep, beta, &old);
        (local, steep, square) = (next, next_steep, next_square);
        point = there;
        run.moved(&point, local.cost(), &|state| {
            let state = state.with_blocks("point", &point);
            let state = state.with_blocks("direction", &direction);
            state.with_number("first_square", first_square)
        });
    }
    Ok(run.solved(point))
}
