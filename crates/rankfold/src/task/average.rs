//! The average of W over a run, later matrices weighing more: of t looks at W,
//! the j-th has weight 2j / (t(t+1)). The average keeps the rank.

use crate::Real;
use crate::form::{Form, FormRef, blend};
use serde::{Deserialize, Serialize};

/// A running average, and how many looks it is of.
#[derive(Debug, Clone)]
pub(super) struct Average<R> {
    pub form: Form<R>,
    pub looks: u64,
    /// The step of the last look.
    pub at: u64,
}

/// What a checkpoint keeps of it beside its tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AverageState {
    pub looks: u64,
    #[serde(default)]
    pub at: u64,
    pub upkeep: Option<crate::form::Upkeep>,
}

/// Steps between two looks, of batches of this size: a look passes over all
/// rows a few times, so it is worth about as many steps as there are rows.
pub(super) fn interval(columns: usize, batch: usize) -> u64 {
    columns.max(100).next_multiple_of(batch) as u64
}

impl<R: Real> Average<R> {
    /// Adds a look. One that cannot be averaged, because a matrix has lost rank,
    /// leaves the average as it was.
    pub fn add(average: &mut Option<Self>, form: FormRef<'_, R>, step: u64) {
        match average {
            Some(average) if average.at == step => {}
            None => {
                *average = Some(Average {
                    form: form.to_form(),
                    looks: 1,
                    at: step,
                });
            }
            Some(average) => {
                let looks = average.looks + 1;
                let share = 2.0 / (looks as f64 + 1.0);
                if let Ok(Some(blended)) = blend(&average.form, form, share) {
                    average.form = blended;
                    average.looks = looks;
                    average.at = step;
                }
            }
        }
    }
}
