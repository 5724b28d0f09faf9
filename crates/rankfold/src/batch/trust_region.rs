//! Gauss–Newton steps by truncated conjugate gradients, preconditioned, in a trust region
//! [Steihaug 1983; Absil, Baker and Gallivan 2007].

use super::solve::{Limits, Local, Objective, Observer, Run, Solved};
use super::state::SolverState;
use crate::Result;
use crate::manifold::{Blocks, Manifold, combine, scaled};
use faer::Mat;

/// The solver of a state.
pub(super) const NAME: &str = "trust-region";

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
fn minimize<S: Manifold, L: Local>(
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
pub(super) fn trust_region<O: Objective>(
    objective: &O,
    start: Blocks,
    state: Option<&SolverState>,
    limits: Limits,
    observer: Observer<'_>,
) -> Result<Solved> {
    let space = objective.space();
    let mut point = start;
    let mut local = objective.local(&point);
    let mut run = Run::new(NAME, state, local.cost(), limits, observer);
    let norm = |at: &[Mat<f64>], v: &[Mat<f64>]| space.inner(at, v, v).max(0.0).sqrt();
    let (first_norm, mut radius) = match state {
        None => (norm(&point, local.gradient()), f64::INFINITY),
        Some(state) => (
            state.number("first_norm")?,
            state.number_or_infinity("radius"),
        ),
    };
    let mut refused = 0;
    while run.goes_on() {
        let gradient = norm(&point, local.gradient());
        if !(gradient > limits.gradient * first_norm && gradient.is_finite()) {
            break;
        }
        // Inner work only as exact as the outer steps can use.
        let accuracy = (gradient / first_norm).sqrt().min(0.1);
        let inner = minimize(space, &point, &local, radius, accuracy);
        let slope = space.inner(&point, local.gradient(), &inner.step);
        let hessian_product = space.inner(&point, &inner.step, &inner.bent);
        let promised = -(slope + 0.5 * hessian_product);
        let moved = space.retract(&point, &inner.step);
        let found = moved.as_ref().map_or(f64::INFINITY, |p| objective.cost(p));
        let ratio = match found.is_finite() && promised > 0.0 {
            true => (run.cost - found) / promised,
            false => f64::NEG_INFINITY,
        };
        let length = norm(&point, &inner.step);
        if ratio < 0.25 {
            radius = 0.25 * length;
        } else if ratio > 0.75 && inner.at_border {
            radius *= 2.0;
        }
        let accepted = ratio > 0.1 && found < run.cost;
        let Some(there) = moved.filter(|_| accepted) else {
            refused += 1;
            if refused > 40 || !(length > 0.0) || promised <= 1e-15 * run.cost.abs() {
                break;
            }
            continue;
        };
        refused = 0;
        point = there;
        local = objective.local(&point);
        run.moved(&point, local.cost(), &|state| {
            let state = state.with_blocks("point", &point);
            let state = state.with_number("first_norm", first_norm);
            state.with_number("radius", radius)
        });
    }
    Ok(run.solved(point))
}
