//! W = Ã K B̃ᵀ: two tall factors and a small core.

use super::product::Product;
use super::upkeep::{Due, Health, Upkeep};
use super::{Gauge, Newcomer, Tall};
use crate::kernel::dot;
use crate::linalg::{Scratch, Square, cholesky_upper, solve_upper, svd};
use crate::{Real, Result, SparseRow};

/// A rectangular matrix of rank k, stored as tall × small × tallᵀ.
///
/// K⁻¹ and both Gram matrices with their inverses are kept beside K, so that a
/// step costs O(k²) besides the rows it touches.
#[derive(Debug, Clone, PartialEq)]
pub struct Factored<R> {
    pub(crate) left: Tall<R>,
    pub(crate) right: Tall<R>,
    pub(crate) core: Square,
    pub(crate) core_inverse: Square,
    pub(crate) upkeep: Upkeep,
    /// Where a learner works in factors A = ÃC and B = B̃D of its own choice.
    pub(crate) frame: Option<Frame>,
    polish: Scratch,
}

/// C and D with C Dᵀ = K, so that W = (ÃC)(B̃D)ᵀ.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub left: Square,
    pub right: Square,
}

impl<R: Real> Factored<R> {
    /// W = A Bᵀ, with K = I.
    #[track_caller]
    pub fn new(left: Tall<R>, right: Tall<R>) -> Self {
        assert_eq!(left.rank(), right.rank(), "both sides have the same rank");
        let k = left.rank();
        let mut out = Self::from_parts(
            left,
            right,
            Square::identity(k),
            Square::identity(k),
            Upkeep::new(Health {
                condition: 1.0,
                size: 1.0,
            }),
        );
        out.upkeep = Upkeep::new(out.health());
        out
    }

    pub(crate) fn from_parts(
        left: Tall<R>,
        right: Tall<R>,
        core: Square,
        core_inverse: Square,
        upkeep: Upkeep,
    ) -> Self {
        let k = core.size();
        Factored {
            left,
            right,
            core,
            core_inverse,
            upkeep,
            frame: None,
            polish: Scratch::new(k),
        }
    }

    /// k.
    pub fn rank(&self) -> usize {
        self.core.size()
    }

    /// The left tall factor Ã.
    pub fn left(&self) -> &Tall<R> {
        &self.left
    }

    /// The right tall factor B̃.
    pub fn right(&self) -> &Tall<R> {
        &self.right
    }

    /// How often a new gauge was chosen.
    pub fn refreshes(&self) -> u64 {
        self.upkeep.refreshes
    }

    fn product(&self) -> Product<'_, R> {
        Product {
            left: &self.left,
            core: &self.core,
            right: &self.right,
        }
    }

    /// leftᵀ W right.
    pub fn score(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        self.product().score(left, right)
    }

    /// The score of an example, with what a step needs of it: `u = Ãᵀ left`,
    /// `v = B̃ᵀ right` and `kv = K v`.
    pub(crate) fn score_parts(
        &self,
        (left, right): (SparseRow<'_, R>, SparseRow<'_, R>),
        [u, v, kv]: [&mut [f64]; 3],
    ) -> f64 {
        self.left.expect(left);
        self.right.expect(right);
        self.left.project(u, left);
        self.right.project(v, right);
        self.core.multiply(kv, v);
        dot(u, kv)
    }

    /// W as dense rows: for tests and tiny matrices.
    pub fn to_dense(&self) -> Vec<Vec<f64>> {
        self.product().to_dense()
    }

    /// The balanced SVD gauge, or `None` when W has lost rank to working
    /// precision.
    pub fn gauge(&self) -> Option<Gauge> {
        let left = cholesky_upper(&self.left.gram_now())?;
        let right = cholesky_upper(&self.right.gram_now())?;
        let (p, sigma, q) = svd(&(&left * self.core.to_faer() * right.transpose()))?;
        let k = self.rank();
        let scaled =
            |m: &faer::Mat<f64>| faer::Mat::from_fn(k, k, |i, j| m[(i, j)] * sigma[j].sqrt());
        Some(Gauge {
            left: Square::from_faer(&solve_upper(&left, &scaled(&p))),
            right: Square::from_faer(&solve_upper(&right, &scaled(&q))),
            singular_values: sigma,
        })
    }

    /// Makes the stored factors A and B themselves, W = A Bᵀ, for learners that
    /// move their rows only.
    pub(crate) fn make_plain(&mut self) {
        let unit = Square::identity(self.rank());
        if self.core != unit && !self.refresh() {
            // Singular to working precision: K goes to one side as it is.
            self.left.multiply(&self.core);
            self.core = unit.clone();
            self.core_inverse = unit;
        }
        self.left.untrack();
        self.right.untrack();
    }

    /// The same, but a core that is a multiple of I may stay: W = (cÃ)(cB̃)ᵀ.
    pub(crate) fn make_scaled(&mut self) {
        let square = self.core.get(0, 0);
        let scaled = Square::from_fn(self.rank(), |i, j| if i == j { square } else { 0.0 });
        let untracked = !self.left.is_tracked() && !self.right.is_tracked();
        if !(untracked && square > 0.0 && self.core == scaled) {
            self.make_plain();
        }
    }

    /// Makes the core c² I.
    pub(crate) fn set_scale(&mut self, c: f64) {
        for i in 0..self.rank() {
            *self.core.get_mut(i, i) = c * c;
            *self.core_inverse.get_mut(i, i) = 1.0 / (c * c);
        }
    }

    /// Makes the core I and the factors cÃ and cB̃.
    pub(crate) fn fold_scale(&mut self, c: f64) {
        let map = Square::from_fn(self.rank(), |i, j| if i == j { c } else { 0.0 });
        self.left.multiply(&map);
        self.right.multiply(&map);
        self.set_scale(1.0);
    }

    /// Has the Gram matrices and their inverses, for learners that need them.
    pub(crate) fn make_tracked(&mut self) {
        if !self.left.is_tracked() || !self.right.is_tracked() {
            self.left.track();
            self.right.track();
            self.upkeep = Upkeep::new(self.health());
        }
    }

    /// Goes to the balanced SVD gauge: W stays as it is to rounding, K = I, and
    /// the Gram matrices have the condition of W. Where a learner has a frame,
    /// that is the gauge instead. False, and W as it was, when it has lost rank
    /// to working precision.
    pub fn refresh(&mut self) -> bool {
        if let Some(frame) = self.frame.take() {
            let (left, right) = (
                self.left.norms_after(&frame.left),
                self.right.norms_after(&frame.right),
            );
            let sound = Tall::<R>::holds(&left) && Tall::<R>::holds(&right);
            if sound {
                self.left.transform(&frame.left, &left);
                self.right.transform(&frame.right, &right);
                self.reset_core();
            }
            let unit = Square::identity(self.rank());
            self.frame = Some(match sound {
                true => Frame {
                    left: unit.clone(),
                    right: unit,
                },
                false => frame,
            });
            return sound;
        }
        let gauge = self.gauge().or_else(|| {
            // The tracked matrices may have lost what the rows still know.
            self.left.recompute_gram();
            self.right.recompute_gram();
            self.gauge()
        });
        let Some(gauge) = gauge else {
            return false;
        };
        if !Tall::<R>::holds(&gauge.singular_values) {
            return false;
        }
        self.left.transform(&gauge.left, &gauge.singular_values);
        self.right.transform(&gauge.right, &gauge.singular_values);
        self.reset_core();
        true
    }

    fn reset_core(&mut self) {
        let k = self.rank();
        self.core = Square::identity(k);
        self.core_inverse = Square::identity(k);
        let health = self.health();
        self.upkeep.refreshed(health);
    }

    /// Whether a new gauge may help where a step fails.
    pub(crate) fn is_stale(&self) -> bool {
        self.upkeep.is_stale()
    }

    /// Keeps the small state healthy after an update that changed `rows` rows
    /// and left it like this.
    pub(crate) fn after_update(&mut self, rows: usize, now: Health) {
        let height = self.left.rows() + self.right.rows();
        let rank = self.rank();
        match self.upkeep.after_update::<R>(rows, height, rank, now) {
            Due::Nothing => {}
            Due::Polish => self.polish(),
            Due::Refresh => {
                if !self.refresh() {
                    self.polish();
                }
            }
        }
    }

    fn polish(&mut self) {
        let mut worn = false;
        for tall in [&mut self.left, &mut self.right] {
            tall.gram.symmetrize();
            let residual = tall
                .gram
                .polish_inverse(&mut tall.gram_inverse, &mut self.polish);
            tall.gram_inverse.symmetrize();
            worn |= Upkeep::worn(residual);
        }
        let residual = self
            .core
            .polish_inverse(&mut self.core_inverse, &mut self.polish);
        if worn || Upkeep::worn(residual) {
            self.refresh();
        }
    }

    fn health(&self) -> Health {
        let (left, right) = (
            self.left.health_after(0.0, 0.0),
            self.right.health_after(0.0, 0.0),
        );
        self.joint_health(left, right, [0.0, 0.0])
    }

    /// What the form is like with sides like these, and a core whose norm and
    /// that of its inverse are larger by at most this much.
    pub(crate) fn joint_health(&self, left: Health, right: Health, more: [f64; 2]) -> Health {
        let core = (self.core.norm() + more[0]) * (self.core_inverse.norm() + more[1]);
        let sides = (left.condition * right.condition).sqrt();
        Health {
            condition: sides * core / self.rank() as f64,
            size: (left.size * right.size).sqrt(),
        }
    }

    /// Both tall factors, given up by the form.
    pub(crate) fn into_factors(self) -> (Tall<R>, Tall<R>) {
        (self.left, self.right)
    }

    /// Grows both sides to at least these numbers of rows; W gains zero rows
    /// and columns.
    pub fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        // Both or none.
        self.left.reserve(left)?;
        self.right.reserve(right)?;
        self.left.grow(left)?;
        self.right.grow(right)
    }

    /// Gives an example of new features a start; false where it needs none.
    /// While the rows of both sides are zero the gradient has no part along the
    /// manifold, and W would never move.
    pub(crate) fn seed(&mut self, newcomer: &Newcomer<'_, R>) -> bool {
        let trace = |left: &Tall<R>| left.gram_now().trace();
        self.left.seed(Some(&self.right), newcomer, trace)
    }
}
