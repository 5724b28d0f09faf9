//! Gradient descent with steps found by halving [Armijo 1966].

use super::solve::{Limits, Local, Objective, Observer, Run, Solved};
use super::state::SolverState;
use crate::Result;
use crate::manifold::{Blocks, Manifold, scaled};
use faer::Mat;

/// Steps s = s₀/‖ξ‖, halved until the cost falls by at least c·s·‖ξ‖².
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Armijo {
    /// c, between 0 and 1.
    pub share: f64,
    /// s₀: how long the first step tried is. Without it, the minimum of the
    /// local model.
    pub longest: Option<f64>,
}

impl Default for Armijo {
    fn default() -> Self {
        Armijo {
            share: 0.5,
            longest: None,
        }
    }
}

/// The solver of a state.
pub(super) const NAME: &str = "descent";

/// Halvings after which a direction is given up.
const HALVINGS: usize = 60;

/// The first of the steps `first`, `first`/2, … that lowers the cost by at least
/// `share` of what its slope promises; the slope is negative.
pub(super) fn search<O: Objective>(
    objective: &O,
    (at, cost): (&[Mat<f64>], f64),
    along: &[Mat<f64>],
    slope: f64,
    first: f64,
    share: f64,
) -> Option<(Blocks, f64)> {
    let mut step = first;
    for _ in 0..HALVINGS {
        if let Some(point) = objective.space().retract(at, &scaled(step, along)) {
            let found = objective.cost(&point);
            if found <= cost + share * step * slope {
                return Some((point, found));
            }
        }
        step *= 0.5;
    }
    None
}

/// Lowers a cost along its gradient.
pub(super) fn descend<O: Objective>(
    objective: &O,
    start: Blocks,
    state: Option<&SolverState>,
    armijo: Armijo,
    limits: Limits,
    observer: Observer<'_>,
) -> Result<Solved> {
    let mut point = start;
    let mut first_norm = state.map(|state| state.number("first_norm")).transpose()?;
    let mut run = Run::new(NAME, state, objective.cost(&point), limits, observer);
    while run.goes_on() {
        let local = objective.local(&point);
        let gradient = local.gradient();
        let square = objective.space().inner(&point, gradient, gradient);
        let norm = square.max(0.0).sqrt();
        let first_norm = *first_norm.get_or_insert(norm);
        if !(norm > limits.gradient * first_norm) && run.iterations > 0
            || !(square > 0.0 && square.is_finite())
        {
            break;
        }
        let first = match armijo.longest {
            Some(longest) => longest / norm,
            // Twice the minimum of a parabola costs as much as no step at all.
            None => square / local.curvature(gradient).max(f64::MIN_POSITIVE),
        };
        let along = scaled(-1.0, gradient);
        let here = (&point[..], run.cost);
        let Some((next, cost)) = search(objective, here, &along, -square, first, armijo.share)
        else {
            break;
        };
        point = next;
        run.moved(&point, cost, &|state| {
            let state = state.with_blocks("point", &point);
            state.with_number("first_norm", first_norm)
        });
    }
    Ok(run.solved(point))
}
