//! Gauss–Newton steps by truncated conjugate gradients, preconditioned, in a trust region
//! [Steihaug 1983; Absil, Baker and Gallivan 2007].

use super::solve::{Ended, Limits, Local, Objective, Solved, Watch};
use crate::manifold::{Blocks, Manifold, combine, scaled};
use faer::Mat;

/// Products with the Hessian in one step, at most.
const INNER: usize = 50;

/// A step of the model: the vector, H times it, and whether it ends where the
/// trust does.
struct Inner {
    step: Blocks,
    bent: Blocks,
    at_border: bool,
}

/// The minimum of ⟨ξ, η⟩ + ½⟨η, H η⟩ with ‖η‖ ≤ radius, about.
fn minimise<S: Manifold, L: Local>(
    space: &S,
    at: &[Mat<f64>],
    local: &L,
    radius: f64,
    accuracy: f64,
) -> Inner {
    let inner = |a: &[Mat<f64>], b: &[Mat<f64>]| space.inner(at, a, b);
    let zero = scaled(0.0, local.gradient());
    let (mut step, mut bent) = (zero.clone(), zero);
    let mut residual = local.gradient().clone();
    let mut steep = local.precondition(&residual);
    let mut direction = scaled(-1.0, &steep);
    let mut square = inner(&residual, &steep);
    let wanted = accuracy * accuracy * square;
    for _ in 0..INNER {
        let turned = local.hessian(&direction);
        let curvature = inner(&direction, &turned);
        let length = square / curvature;
        let next = combine(1.0, &step, length, &direction);
        if !(curvature > 0.0) || inner(&next, &next) >= radius * radius {
            // As far as the border: ‖step + t·direction‖ = radius.
            let (a, b) = (inner(&direction, &direction), inner(&step, &direction));
            let c = inner(&step, &step) - radius * radius;
            let t = (-b + (b * b - a * c).max(0.0).sqrt()) / a;
            return Inner {
                step: combine(1.0, &step, t, &direction),
                bent: combine(1.0, &bent, t, &turned),
                at_border: true,
            };
        }
        step = next;
        bent = combine(1.0, &bent, length, &turned);
        residual = combine(1.0, &residual, length, &turned);
        steep = local.precondition(&residual);
        let next_square = inner(&residual, &steep);
        if next_square <= wanted {
            break;
        }
        direction = combine(-1.0, &steep, next_square / square, &direction);
        square = next_square;
    }
    Inner {
        step,
        bent,
        at_border: false,
    }
}

/// Lowers a cost by Gauss–Newton steps. The region starts as wide as the first
/// such step needs, and shrinks where the model promises too much.
pub fn trust_region<O: Objective>(
    objective: &O,
    start: Blocks,
    limits: Limits,
    watch: Watch<'_>,
) -> Solved {
    let space = objective.space();
    let mut local = objective.local(&start);
    let mut out = Solved::at(start, local.cost());
    let norm = |at: &[Mat<f64>], v: &[Mat<f64>]| space.inner(at, v, v).max(0.0).sqrt();
    let first_norm = norm(&out.point, local.gradient());
    let mut radius = f64::INFINITY;
    let mut refused = 0;
    while out.iterations < limits.iterations {
        let gradient = norm(&out.point, local.gradient());
        if !(gradient > limits.gradient * first_norm && gradient.is_finite()) {
            return out;
        }
        // Inner work only as exact as the outer steps can use.
        let accuracy = (gradient / first_norm).sqrt().min(0.1);
        let inner = minimise(space, &out.point, &local, radius, accuracy);
        let slope = space.inner(&out.point, local.gradient(), &inner.step);
        let bend = space.inner(&out.point, &inner.step, &inner.bent);
        let promised = -(slope + 0.5 * bend);
        let moved = space.retract(&out.point, &inner.step);
        let found = moved.as_ref().map_or(f64::INFINITY, |p| objective.cost(p));
        let ratio = match found.is_finite() && promised > 0.0 {
            true => (out.cost - found) / promised,
            false => f64::NEG_INFINITY,
        };
        let length = norm(&out.point, &inner.step);
        if ratio < 0.25 {
            radius = 0.25 * length;
        } else if ratio > 0.75 && inner.at_border {
            radius *= 2.0;
        }
        let accepted = ratio > 0.1 && found < out.cost;
        let Some(point) = moved.filter(|_| accepted) else {
            refused += 1;
            if refused > 40 || !(length > 0.0) || promised <= 1e-15 * out.cost.abs() {
                return out;
            }
            continue;
        };
        refused = 0;
        local = objective.local(&point);
        if !out.moved(point, local.cost(), limits, watch) {
            return out;
        }
    }
    out.ended = Ended::Iterations;
    out
}
