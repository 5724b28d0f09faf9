//! Riemannian conjugate gradient [Polak and Ribière 1969], preconditioned where that
//! is wanted, and started again where a direction is not one of descent.

use super::descent::search;
use super::solve::{Ended, Limits, Local, Objective, Solved, Watch};
use crate::manifold::{Blocks, Manifold, combine, scaled};
use faer::Mat;

/// What a step must keep of the decrease that its slope promises. The first step
/// tried is the minimum of the local model, which keeps about a half.
const SHARE: f64 = 1e-4;

/// Lowers a cost along conjugate directions, preconditioned or not.
pub fn conjugate_gradient<O: Objective>(
    objective: &O,
    start: Blocks,
    precondition: bool,
    limits: Limits,
    watch: Watch<'_>,
) -> Solved {
    let space = objective.space();
    let mut local = objective.local(&start);
    let mut out = Solved::at(start, local.cost());
    // P ξ for the gradient ξ, and ⟨ξ, P ξ⟩.
    let measured = |at: &[Mat<f64>], local: &O::Local<'_>| {
        let steep = match precondition {
            true => local.precondition(local.gradient()),
            false => local.gradient().clone(),
        };
        let square = space.inner(at, local.gradient(), &steep);
        (steep, square)
    };
    let (mut steep, mut square) = measured(&out.point, &local);
    let mut direction = scaled(-1.0, &steep);
    let first_square = square;
    while out.iterations < limits.iterations {
        if !(square > limits.gradient.powi(2) * first_square && square.is_finite()) {
            return out;
        }
        let mut slope = space.inner(&out.point, local.gradient(), &direction);
        if !(slope < 0.0) {
            direction = scaled(-1.0, &steep);
            slope = -square;
        }
        let here = (&out.point[..], out.cost);
        let step = |direction: &Blocks, slope: f64| {
            let first = -slope / local.curvature(direction).max(f64::MIN_POSITIVE);
            search(objective, here, direction, slope, first, SHARE)
        };
        let moved = step(&direction, slope).or_else(|| {
            direction = scaled(-1.0, &steep);
            step(&direction, -square)
        });
        let Some((point, _)) = moved else {
            return out;
        };
        let next = objective.local(&point);
        let (next_steep, next_square) = measured(&point, &next);
        let carried = space.transport(&out.point, &point, local.gradient());
        let overlap = space.inner(&point, &next_steep, &carried);
        let beta = ((next_square - overlap) / square).max(0.0);
        let old = space.transport(&out.point, &point, &direction);
        direction = combine(-1.0, &next_steep, beta, &old);
        (local, steep, square) = (next, next_steep, next_square);
        if !out.moved(point, local.cost(), limits, watch) {
            return out;
        }
    }
    out.ended = Ended::Iterations;
    out
}
