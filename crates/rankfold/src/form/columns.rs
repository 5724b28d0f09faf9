//! Scores of one row with single columns of W, such as labels: the row is
//! projected once, O(nnz·k + k²), and each column then costs k.

use super::{FormRef, Query};
use crate::Real;

impl<R: Real> FormRef<'_, R> {
    /// The score of the row that was asked with column `j` of W.
    #[inline]
    pub(crate) fn column(self, query: &Query, j: usize) -> f64 {
        let mut out = [0.0];
        self.columns_from(query, j, &mut out);
        out[0]
    }

    /// The scores of the row that was asked with all columns of W, the same bits
    /// as one by one. Columns of zeros have exactly 0, so that ties among those
    /// that nothing was learned about are ties.
    pub(crate) fn columns(self, query: &Query, out: &mut [f64]) {
        self.columns_from(query, 0, out);
    }

    fn columns_from(self, query: &Query, first: usize, out: &mut [f64]) {
        match self.factors() {
            None => out.copy_from_slice(&query.w[first..][..out.len()]),
            Some((_, right)) => right.multiply_rows(out, first, &query.w),
        }
    }
}
