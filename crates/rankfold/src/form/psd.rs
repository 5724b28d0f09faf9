//! W = Ỹ K Ỹᵀ with K positive definite: one tall factor and a small core.

use super::product::Product;
use super::tall::trace_health;
use super::upkeep::{Due, Health, Upkeep};
use super::{Gauge, Newcomer, Tall};
use crate::linalg::{Scratch, Square, cholesky_upper, solve_upper, svd};
use crate::{Real, Result, SparseRow};

/// A symmetric positive semi-definite matrix of rank k.
#[derive(Debug, Clone, PartialEq)]
pub struct Psd<R> {
    pub(crate) factor: Tall<R>,
    pub(crate) core: Square,
    pub(crate) core_inverse: Square,
    pub(crate) upkeep: Upkeep,
    /// Tr W = ‖Y‖², where learners move rows and no Gram matrix is tracked.
    pub(crate) trace: Option<f64>,
    polish: Scratch,
}

impl<R: Real> Psd<R> {
    /// W = Y Yᵀ, with K = I.
    pub fn new(factor: Tall<R>) -> Self {
        let k = factor.rank();
        let mut out = Self::from_parts(
            factor,
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
        factor: Tall<R>,
        core: Square,
        core_inverse: Square,
        upkeep: Upkeep,
    ) -> Self {
        let k = core.size();
        Psd {
            factor,
            core,
            core_inverse,
            upkeep,
            trace: None,
            polish: Scratch::new(k),
        }
    }

    /// k.
    pub fn rank(&self) -> usize {
        self.core.size()
    }

    /// The tall factor Ỹ.
    pub fn factor(&self) -> &Tall<R> {
        &self.factor
    }

    /// How often a new gauge was chosen.
    pub fn refreshes(&self) -> u64 {
        self.upkeep.refreshes
    }

    fn product(&self) -> Product<'_, R> {
        Product {
            left: &self.factor,
            core: &self.core,
            right: &self.factor,
        }
    }

    /// leftᵀ W right.
    pub fn score(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        self.product().score(left, right)
    }

    /// W as dense rows: for tests and tiny matrices.
    pub fn to_dense(&self) -> Vec<Vec<f64>> {
        self.product().to_dense()
    }

    /// The balanced SVD gauge (both sides are the same), or `None` when W has
    /// lost rank to working precision.
    pub fn gauge(&self) -> Option<Gauge> {
        let r = cholesky_upper(&self.factor.gram_now())?;
        // The SVD of a symmetric positive definite matrix is its eigendecomposition.
        let (p, lambda, _) = svd(&(&r * self.core.to_faer() * r.transpose()))?;
        let k = self.rank();
        let scaled = faer::Mat::from_fn(k, k, |i, j| p[(i, j)] * lambda[j].sqrt());
        let map = Square::from_faer(&solve_upper(&r, &scaled));
        Some(Gauge {
            left: map.clone(),
            right: map,
            singular_values: lambda,
        })
    }

    /// Makes the stored factor Y itself, W = Y Yᵀ, for learners that move its
    /// rows only.
    pub(crate) fn make_plain(&mut self) {
        let unit = Square::identity(self.rank());
        if self.core != unit && !self.refresh() {
            // K = RᵀR, so Ỹ Rᵀ is a factor, singular to working precision or not.
            if let Some(r) = cholesky_upper(&self.core) {
                self.factor
                    .multiply(&Square::from_faer(&r.transpose().to_owned()));
            }
            self.core = unit.clone();
            self.core_inverse = unit;
        }
        self.factor.untrack();
        if self.trace.is_none() {
            let size = self.factor.squared_norm();
            self.trace = Some(size);
            self.upkeep = Upkeep::new(Health {
                condition: 1.0,
                size,
            });
        }
    }

    /// Tr W: what learners keep up to date, or k² numbers added up, or a pass over all
    /// rows where neither is there.
    pub fn trace(&self) -> f64 {
        if let Some(trace) = self.trace {
            return trace;
        }
        let (gram, k) = (self.factor.gram_now(), self.rank());
        let products = (0..k).flat_map(|i| (0..k).map(move |j| (i, j)));
        products
            .map(|(i, j)| gram.get(i, j) * self.core.get(i, j))
            .sum()
    }

    /// Counts a step of a plain factor that changed `rows` rows, and the trace of W by
    /// `gain`. The sum drifts by a rounding a step, and loses digits where W shrinks:
    /// then it is added up anew.
    pub(crate) fn after_row_update(&mut self, rows: usize, gain: f64) {
        let size = self.trace.unwrap_or(f64::NAN) + gain;
        let now = Health {
            condition: 1.0,
            size,
        };
        let (height, rank) = (self.factor.rows(), self.rank());
        self.trace = Some(size);
        if self.upkeep.after_update::<R>(rows, height, rank, now) == Due::Refresh {
            let size = self.factor.squared_norm();
            self.trace = Some(size);
            self.upkeep.refreshed(Health { size, ..now });
        }
    }

    /// Has the Gram matrix and its inverse, for learners that need them.
    pub(crate) fn make_tracked(&mut self) {
        if !self.factor.is_tracked() {
            self.factor.track();
            self.trace = None;
            self.upkeep = Upkeep::new(self.health());
        }
    }

    /// Goes to the balanced gauge: W stays as it is to rounding, K = I, S = Λ.
    /// False, and W as it was, when it has lost rank to working precision.
    pub fn refresh(&mut self) -> bool {
        let gauge = self.gauge().or_else(|| {
            // The tracked matrix may have lost what the rows still know.
            self.factor.recompute_gram();
            self.gauge()
        });
        let Some(gauge) = gauge else {
            return false;
        };
        if !Tall::<R>::holds(&gauge.singular_values) {
            return false;
        }
        let k = self.rank();
        self.factor.transform(&gauge.left, &gauge.singular_values);
        self.trace = None;
        self.core = Square::identity(k);
        self.core_inverse = Square::identity(k);
        let health = self.health();
        self.upkeep.refreshed(health);
        true
    }

    /// Whether a new gauge may help where a step fails.
    pub(crate) fn is_stale(&self) -> bool {
        self.upkeep.is_stale()
    }

    /// Keeps the small state healthy after an update that changed `rows` rows
    /// and left it like this.
    pub(crate) fn after_update(&mut self, rows: usize, now: Health) {
        let height = self.factor.rows();
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
        let tall = &mut self.factor;
        tall.gram.symmetrize();
        let gram = tall
            .gram
            .polish_inverse(&mut tall.gram_inverse, &mut self.polish);
        tall.gram_inverse.symmetrize();
        self.core.symmetrize();
        let core = self
            .core
            .polish_inverse(&mut self.core_inverse, &mut self.polish);
        self.core_inverse.symmetrize();
        if Upkeep::worn(gram) || Upkeep::worn(core) {
            self.refresh();
        }
    }

    fn health(&self) -> Health {
        self.joint_health(self.factor.health_after(0.0, 0.0), [0.0, 0.0])
    }

    /// What the form is like with a factor like this, and a core whose trace
    /// and that of its inverse have grown by this much.
    pub(crate) fn joint_health(&self, factor: Health, gains: [f64; 2]) -> Health {
        let core = trace_health(&self.core, &self.core_inverse, gains);
        Health {
            condition: factor.condition * core.condition,
            size: factor.size,
        }
    }

    /// Grows to at least this number of rows; W gains zero rows and columns.
    pub fn grow(&mut self, rows: usize) -> Result<()> {
        self.factor.grow(rows)
    }

    /// Gives an example of new features a start; false where it needs none.
    /// While all of its rows are zero the gradient has no part along the
    /// manifold, and W would never move.
    pub(crate) fn seed(&mut self, newcomer: &Newcomer<'_, R>) -> bool {
        let trace = |factor: &Tall<R>| factor.gram_now().trace();
        let seeded = self.factor.seed(None, newcomer, trace);
        if seeded && self.trace.is_some() {
            self.trace = Some(self.factor.squared_norm());
        }
        seeded
    }
}
