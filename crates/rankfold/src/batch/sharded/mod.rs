//! Factorization of entries that are cut into shards by rows: one round of messages a sweep.
//!
//! Given the columns of W, the rows of a shard follow from its own entries. Given the rows, the
//! normal equations of a column are a sum over shards. So a sweep sends a [`State`] out, each
//! [`Shard`] answers with its part of the equations, the answers are added up, and the state takes
//! a step. Rows are not sent: they follow from the last state.
//!
//! Sums are made pair by pair in a binary tree over the numbers of shards ([`add`]), so that the
//! result depends on how entries are cut, and not on who adds what. All of it is stateless: a
//! shard that is lost is read again, and answers the same. Where the pattern of known entries counts
//! a sweep has some smaller rounds more: while there is a [`State::question`], shards answer it.

mod als;
mod bayes;
#[cfg(test)]
mod oracle;
mod pattern;
mod state;
#[cfg(test)]
mod tests;

pub use state::{Method, State};

use super::{Lines, View};
use crate::parallel::map_rows;
use crate::{Error, Result};

/// The entries of some rows.
#[derive(Debug, Clone, Copy)]
pub struct Shard<'a> {
    /// By rows of the shard, and by all columns.
    pub entries: View<'a>,
    /// Threads; answers have the same bits for any number of them.
    pub threads: usize,
}

/// The rows of a shard: factors, and biases where there are some.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardRows {
    /// Rows of k numbers, one behind the other.
    pub factors: Vec<f64>,
    /// Biases.
    pub bias: Option<Vec<f64>>,
    /// What is left of the entries, squared and summed.
    pub squares: f64,
}

/// Adds the answer of another shard, or of several.
pub fn add(to: &mut [f64], other: &[f64]) -> Result<()> {
    if to.len() != other.len() {
        return Err(Error::input(format!(
            "answers of {} and of {} numbers cannot be added",
            to.len(),
            other.len()
        )));
    }
    to.iter_mut().zip(other).for_each(|(a, b)| *a += b);
    Ok(())
}

impl<'a> Shard<'a> {
    /// From lines in the memory of somebody else.
    pub fn new(rows: Lines<'a>, columns: Lines<'a>, threads: usize) -> Result<Self> {
        let total = |lines: Lines<'_>| (0..lines.len()).map(|i| lines.count(i)).sum::<usize>();
        let count = total(rows);
        if count != total(columns) {
            return Err(Error::input(
                "a shard has other entries by rows than by columns",
            ));
        }
        Ok(Shard {
            entries: View {
                rows,
                columns,
                count,
            },
            threads,
        })
    }

    /// How many entries, and their sum; how many rows have some, and the logarithms of their counts
    /// and the squares of these summed; and how many entries each column has.
    pub fn counts(&self) -> Vec<f64> {
        let View {
            rows,
            columns,
            count,
        } = self.entries;
        let sum: f64 = (0..rows.len())
            .map(|i| rows.line(i).1.iter().sum::<f64>())
            .sum();
        let each = (0..columns.len()).map(|j| columns.count(j) as f64);
        let logs = state::counts_of((0..rows.len()).map(|i| rows.count(i)));
        let all = [count as f64, sum].into_iter().chain(logs);
        all.chain(each).collect()
    }

    /// The squares of entries less a center, summed.
    pub fn squares(&self, center: f64) -> f64 {
        self.entries.mean_square(center) * self.entries.count.max(1) as f64
    }

    /// Biases of rows alone, given those of columns, with this ridge.
    pub fn row_biases(&self, center: f64, columns: &[f64], ridge: f64) -> Vec<f64> {
        let rows = self.entries.rows;
        let mut out = vec![0.0; rows.len()];
        map_rows(&mut out, 1, 256, self.threads, |first, out| {
            for (i, bias) in (first..).zip(out) {
                let (index, value) = rows.line(i);
                let left = index
                    .iter()
                    .zip(value)
                    .map(|(&j, y)| y - center - columns[j as usize]);
                *bias = left.sum::<f64>() / (index.len() as f64 + ridge);
            }
        });
        out
    }

    /// What rows with these biases leave of the entries of each column, summed.
    pub fn column_rests(&self, center: f64, rows: &[f64]) -> Vec<f64> {
        let columns = self.entries.columns;
        let rest = |j: usize| {
            let (index, value) = columns.line(j);
            let left = index
                .iter()
                .zip(value)
                .map(|(&i, y)| y - center - rows[i as usize]);
            left.sum::<f64>()
        };
        (0..columns.len()).map(rest).collect()
    }

    /// The part of the shard in the equations of a sweep. `weights` are those that its rows had
    /// before, and those that they have now come with the answer; some methods have none.
    pub fn answer(&self, state: &State, weights: &[f32]) -> Result<(Vec<f64>, Vec<f32>)> {
        self.check(state, weights)?;
        match state.method {
            Method::Als { .. } => Ok((als::answer(self, state), Vec::new())),
            Method::Bayes { .. } => Ok(bayes::answer(self, state, weights)),
        }
    }

    /// The part of the shard in what follows from a [`State::question`].
    pub fn pattern(&self, question: &[f64]) -> Result<Vec<f64>> {
        let columns = self.entries.columns.len();
        let each = question.len() / columns.max(1);
        if each == 0 || !each.is_multiple_of(2) || each * columns != question.len() {
            return Err(Error::input(format!(
                "a question of {} numbers for {columns} columns",
                question.len()
            )));
        }
        let view = self.entries;
        Ok(pattern::answer(view, question, each / 2, self.threads))
    }

    /// The rows that follow from a state.
    pub fn rows(&self, state: &State, weights: &[f32]) -> Result<ShardRows> {
        self.check(state, weights)?;
        Ok(match state.method {
            Method::Als { .. } => als::rows(self, state),
            Method::Bayes { .. } => bayes::rows(self, state, weights),
        })
    }

    fn check(&self, state: &State, weights: &[f32]) -> Result<()> {
        let (rows, columns) = (self.entries.rows.len(), self.entries.columns.len());
        if state.counts.len() != columns {
            return Err(Error::input(format!(
                "a shard of {columns} columns for a state of {}",
                state.counts.len()
            )));
        }
        let fits = weights.is_empty() || weights.len() == rows;
        match fits && weights.iter().all(|w| *w > 0.0 && w.is_finite()) {
            true => Ok(()),
            false => Err(Error::input(format!(
                "{} weights for {rows} rows, or one that is not possible",
                weights.len()
            ))),
        }
    }
}
