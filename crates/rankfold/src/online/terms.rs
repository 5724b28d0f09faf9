//! Examples of any rank as sums of examples of rank one.

use super::RankOne;
use crate::{Real, SparseVec};

/// X = Σ cᵢ rightᵢ leftᵢᵀ, an example whose score is Tr(WX) = Σ cᵢ leftᵢᵀ W rightᵢ.
#[derive(Debug, Clone, Default)]
pub struct Terms<R>(Vec<(SparseVec<R>, SparseVec<R>, f64)>);

impl<R: Real> Terms<R> {
    /// A sum without terms.
    pub fn new() -> Self {
        Terms(Vec::new())
    }

    /// Adds c · right leftᵀ.
    pub fn push(&mut self, left: SparseVec<R>, right: SparseVec<R>, c: f64) {
        self.0.push((left, right, c));
    }

    /// A dense X: a row for each feature of the right side, a column for each of the
    /// left. Its terms are its rows, or its columns where these are fewer, so that a
    /// step costs the entries of X times k, and the smaller side squared besides.
    pub fn from_dense(x: &[Vec<f64>]) -> Self {
        let columns = x.first().map_or(0, Vec::len);
        let unit = |i: usize| SparseVec::from_entries(vec![(i as u32, R::from_f64(1.0))]);
        let narrow = |values: &mut dyn Iterator<Item = f64>| {
            SparseVec::from_dense(&values.map(R::from_f64).collect::<Vec<_>>())
        };
        let mut out = Self::new();
        if x.len() <= columns {
            for (j, row) in x.iter().enumerate() {
                out.push(narrow(&mut row.iter().copied()), unit(j), 1.0);
            }
        } else {
            for i in 0..columns {
                out.push(unit(i), narrow(&mut x.iter().map(|row| row[i])), 1.0);
            }
        }
        out
    }

    /// The terms and their coefficients, as learners take them.
    pub fn examples(&self) -> Vec<(RankOne<'_, R>, f64)> {
        self.0
            .iter()
            .map(|(left, right, c)| {
                let example = RankOne {
                    left: left.as_row(),
                    right: right.as_row(),
                };
                (example, *c)
            })
            .collect()
    }
}
