//! Gradient descent with steps found by halving [Armijo 1966].

use super::solve::{Ended, Limits, Local, Objective, Solved, Watch};
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
pub fn descend<O: Objective>(
    objective: &O,
    start: Blocks,
    armijo: Armijo,
    limits: Limits,
    watch: Watch<'_>,
) -> Solved {
    let cost = objective.cost(&start);
    let mut out = Solved::at(start, cost);
    let mut first_norm = None;
    while out.iterations < limits.iterations {
        let local = objective.local(&out.point);
        let gradient = local.gradient();
        let square = objective.space().inner(&out.point, gradient, gradient);
        let norm = square.max(0.0).sqrt();
        if !(norm > limits.gradient * *first_norm.get_or_insert(norm)) && out.iterations > 0
            || !(square > 0.0 && square.is_finite())
        {
            return out;
        }
        let first = match armijo.longest {
            Some(longest) => longest / norm,
            // Twice the minimum of a parabola costs as much as no step at all.
            None => square / local.curvature(gradient).max(f64::MIN_POSITIVE),
        };
        let along = scaled(-1.0, gradient);
        let here = (&out.point[..], out.cost);
        let Some((point, cost)) = search(objective, here, &along, -square, first, armijo.share)
        else {
            return out;
        };
        if !out.moved(point, cost, limits, watch) {
            return out;
        }
    }
    out.ended = Ended::Iterations;
    out
}
