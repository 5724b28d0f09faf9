//! What learning from known entries ends with.

use super::problem::{Completion, Problem, with_biases};
use super::state::SolverState;
use crate::Result;
use crate::sparse::View;
use faer::Mat;

/// center + b_i + c_j + (L Rᵀ)_ij, with biases b and c where there are some.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// L.
    pub left: Mat<f64>,
    /// R.
    pub right: Mat<f64>,
    /// b and c.
    pub biases: Option<[Vec<f64>; 2]>,
    /// What all entries have.
    pub center: f64,
}

impl Fitted {
    /// Nothing but a center, and biases of zero where they are wanted.
    pub fn empty(shape: (usize, usize), center: f64, biases: bool) -> Self {
        Fitted {
            left: Mat::zeros(shape.0, 0),
            right: Mat::zeros(shape.1, 0),
            biases: biases.then(|| [vec![0.0; shape.0], vec![0.0; shape.1]]),
            center,
        }
    }

    /// k.
    pub fn rank(&self) -> usize {
        self.left.ncols()
    }

    /// The factors of all but the center.
    pub fn factors(&self) -> (Mat<f64>, Mat<f64>) {
        match &self.biases {
            None => (self.left.clone(), self.right.clone()),
            Some(biases) => {
                let column = |b: &Vec<f64>| Mat::from_fn(b.len(), 1, |i, _| b[i]);
                let columns = [column(&biases[0]), column(&biases[1])];
                with_biases(&self.left, &self.right, &columns)
            }
        }
    }

    /// The prediction for a place.
    pub fn predict(&self, i: usize, j: usize) -> f64 {
        let terms = (0..self.rank()).map(|a| self.left[(i, a)] * self.right[(j, a)]);
        let biases = self.biases.as_ref().map_or(0.0, |[b, c]| b[i] + c[j]);
        self.center + biases + terms.sum::<f64>()
    }

    /// The root mean square of what is left of known entries.
    pub fn rmse(&self, entries: View<'_>, threads: usize) -> f64 {
        let (left, right) = self.factors();
        let problem = Completion {
            entries,
            center: self.center,
            threads,
        };
        (2.0 * problem.cost(&left, &right)).sqrt()
    }

    /// The same with predictions clipped to a scale.
    pub fn clipped_rmse(&self, entries: View<'_>, scale: (f64, f64)) -> f64 {
        let mut sum = 0.0;
        for i in 0..entries.rows.len() {
            let (index, value) = entries.rows.line(i);
            for (&j, &y) in index.iter().zip(value) {
                let found = self.predict(i, j as usize).clamp(scale.0, scale.1);
                sum += (found - y).powi(2);
            }
        }
        (sum / entries.count.max(1) as f64).sqrt()
    }

    /// Adds it to the state of a solver.
    pub(super) fn put(&self, state: SolverState) -> SolverState {
        let state = state
            .with_block("left", self.left.clone())
            .with_block("right", self.right.clone())
            .with_number("center", self.center)
            .with_number("biased", f64::from(u8::from(self.biases.is_some())));
        match &self.biases {
            None => state,
            Some([b, c]) => state.with_column("bias.0", b).with_column("bias.1", c),
        }
    }

    /// Takes it from the state of a solver.
    pub(super) fn take(state: &SolverState, (n, m): (usize, usize), k: usize) -> Result<Self> {
        let biases = match state.number("biased")? {
            0.0 => None,
            _ => Some([state.column("bias.0", n)?, state.column("bias.1", m)?]),
        };
        Ok(Fitted {
            left: state.block("left", (n, k))?.clone(),
            right: state.block("right", (m, k))?.clone(),
            biases,
            center: state.number("center")?,
        })
    }

    /// Whether all numbers are finite.
    pub fn is_finite(&self) -> bool {
        let biases = self.biases.iter().flatten().flatten();
        self.left.is_all_finite()
            && self.right.is_all_finite()
            && biases.into_iter().all(|b| b.is_finite())
    }
}
