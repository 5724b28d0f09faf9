//! tall × small × tallᵀ, read as the matrix it stands for.

use super::Tall;
use crate::kernel::{dot, padded};
use crate::linalg::Square;
use crate::{Real, SparseRow};

/// W = left · core · rightᵀ.
pub(super) struct Product<'a, R> {
    pub left: &'a Tall<R>,
    pub core: &'a Square,
    pub right: &'a Tall<R>,
}

impl<R: Real> Product<'_, R> {
    /// leftᵀ W right.
    pub fn score(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        let width = padded(self.core.size());
        let mut buffer = vec![0.0; 3 * width];
        let (u, rest) = buffer.split_at_mut(width);
        let (v, kv) = rest.split_at_mut(width);
        self.left.project(u, left);
        self.right.project(v, right);
        self.core.multiply(kv, v);
        dot(u, kv)
    }

    /// All entries, row by row.
    pub fn to_dense(&self) -> Vec<Vec<f64>> {
        let k = self.core.size();
        let entry = |i: usize, j: usize| {
            let mut sum = 0.0;
            for a in 0..k {
                for b in 0..k {
                    let (x, y) = (self.left.row(i)[a].to_f64(), self.right.row(j)[b].to_f64());
                    sum += x * self.core.get(a, b) * y;
                }
            }
            sum
        };
        (0..self.left.rows())
            .map(|i| (0..self.right.rows()).map(|j| entry(i, j)).collect())
            .collect()
    }
}
