//! A start for examples of new features only.
//!
//! New rows of a factor are zero, which leaves W and the Gram matrices exact. But
//! where all rows of an example are zero, on both sides, the gradient has no part
//! along the manifold, and W would never move. Small normal entries in the rows of
//! the left side are enough: the first step then moves the right side as well.

use super::Tall;
use crate::{Real, SparseRow};

/// The norm of a row that is given a start, as a share of that of a usual row:
/// small beside what was learned, large beside rounding.
const SEED: f64 = 1e-2;

/// An example whose features are all new.
#[derive(Clone, Copy)]
pub(crate) struct Newcomer<'a, R> {
    pub left: SparseRow<'a, R>,
    pub right: SparseRow<'a, R>,
    /// How many rows the factors had when training ended: with these a usual
    /// row is sized up, whatever has come since.
    pub rows: usize,
    /// A normal deviate for each row and column.
    pub normal: &'a dyn Fn(u32, usize) -> f64,
}

impl<R: Real> Tall<R> {
    /// Whether Ãᵀx is zero because all rows that x weighs are.
    fn is_zero_on(&self, x: SparseRow<'_, R>) -> bool {
        let mut weighed = self.known(x).iter().filter(|e| e.1 != R::default());
        let zero = |i: u32| self.row(i as usize).iter().all(|&r| r == R::default());
        weighed.all(|(i, _)| zero(i))
    }

    /// Gives the rows of the left side small normal entries, when no row that
    /// the example weighs on either side is anything but zero; says whether.
    /// `right` is the factor of the other side, `None` where both are the same;
    /// `trace` gives tr S.
    pub(super) fn seed(
        &mut self,
        right: Option<&Tall<R>>,
        newcomer: &Newcomer<'_, R>,
        trace: impl FnOnce(&Self) -> f64,
    ) -> bool {
        let (p, q) = (newcomer.left, newcomer.right);
        let weighs = |x: SparseRow<'_, R>| x.values.iter().any(|&v| v != R::default());
        let dead = self.is_zero_on(p) && right.unwrap_or(self).is_zero_on(q);
        if !(dead && weighs(p) && weighs(q)) {
            return false;
        }
        // tr S is the sum of the squared norms of all rows.
        let row = (trace(self) / newcomer.rows.max(1) as f64).sqrt();
        let size = SEED * row / (self.rank() as f64).sqrt();
        for (i, _) in self.known(p).iter().filter(|e| e.1 != R::default()) {
            self.fill_row(i as usize, |j| size * (newcomer.normal)(i, j));
        }
        true
    }
}
