//! The average of W over a run, later matrices weighing more: of t snapshots of W, the
//! j-th has weight 2j / (t(t+1)). The average keeps the rank.

use super::session::Snapshot;
use crate::Real;
use crate::form::{FormRef, blend};
use serde::{Deserialize, Serialize};

/// A running average, and how many snapshots it is of.
#[derive(Debug, Clone)]
pub(super) struct Average<R> {
    pub snapshot: Snapshot<R>,
    pub snapshots: u64,
    /// The step of the last snapshot.
    pub at: u64,
}

/// What a checkpoint keeps of it beside its tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AverageState {
    #[serde(rename = "looks")]
    pub snapshots: u64,
    #[serde(default)]
    pub at: u64,
    pub upkeep: Option<crate::form::Upkeep>,
}

/// Steps between two snapshots, of batches of this size: a snapshot passes over all
/// rows a few times, so it is worth about as many steps as there are rows.
pub(super) fn interval(columns: usize, batch: usize) -> u64 {
    columns.max(100).next_multiple_of(batch) as u64
}

impl<R: Real> Average<R> {
    /// Adds a snapshot. One that cannot be averaged, because a matrix has lost rank,
    /// leaves the average as it was.
    pub fn add(average: &mut Option<Self>, form: FormRef<'_, R>, bias: Option<&[f64]>, step: u64) {
        match average {
            Some(average) if average.at == step => {}
            None => {
                *average = Some(Average {
                    snapshot: Snapshot {
                        form: form.to_form(),
                        bias: bias.map(<[f64]>::to_vec),
                    },
                    snapshots: 1,
                    at: step,
                });
            }
            Some(average) => {
                let snapshots = average.snapshots + 1;
                let share = 2.0 / (snapshots as f64 + 1.0);
                let Ok(Some(blended)) = blend(&average.snapshot.form, form, share) else {
                    return;
                };
                average.snapshot.form = blended;
                average.snapshots = snapshots;
                average.at = step;
                if let (Some(means), Some(bias)) = (&mut average.snapshot.bias, bias) {
                    for (mean, bias) in means.iter_mut().zip(bias) {
                        *mean = (1.0 - share) * *mean + share * bias;
                    }
                }
            }
        }
    }
}
