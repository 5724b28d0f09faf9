//! Questions to shards: how a search on this side learns of data on the other.
//!
//! Whoever runs shards asks all of them one [`ShardQuestion`] at a time, and gives back what they
//! answer: added up in an order that is always the same, or one behind the other. Given that order
//! the model follows from how the data is cut.

use crate::Result;
use faer::Mat;

/// A question to all shards.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardQuestion {
    /// What is asked. `framed` wants no answer: its numbers come with all questions from then on.
    pub what: &'static str,
    /// With which numbers.
    pub numbers: Vec<f64>,
    /// Whether answers are added up; else they stand one behind the other, in the order of shards.
    pub summed: bool,
}

/// Whom all shards are asked by: what they answer, as the question wants it.
pub(super) type AskShards<'a> = dyn FnMut(&ShardQuestion) -> Result<Vec<f64>> + Send + 'a;

/// Matrices column by column, as questions and answers have them.
pub(super) fn flat<'m>(matrices: impl IntoIterator<Item = &'m Mat<f64>>) -> Vec<f64> {
    let columns = matrices.into_iter().flat_map(|m| m.col_iter());
    columns
        .flat_map(|c| c.iter().copied().collect::<Vec<f64>>())
        .collect()
}
