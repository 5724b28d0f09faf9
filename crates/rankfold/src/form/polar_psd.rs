//! W = U B Uᵀ: one factor with orthonormal columns and a positive definite core.
//!
//! B = RRᵀ is kept by a root R, which need not be symmetric, so W = GGᵀ with G = UR.

use super::orthonormal::{self, Orthonormal};
use super::product::Product;
use super::upkeep::Upkeep;
use super::{Gauge, Newcomer, Psd, Tall};
use crate::linalg::{Scratch, Square};
use crate::{Error, Real, Result, SparseRow};
use faer::Mat;

/// A symmetric positive semi-definite matrix of rank k in polar form.
#[derive(Debug, Clone, PartialEq)]
pub struct PolarPsd<R> {
    pub(crate) factor: Orthonormal<R>,
    /// R with B = RRᵀ.
    pub(crate) root: Square,
    pub(crate) upkeep: Upkeep,
    work: Scratch,
}

impl<R: Real> PolarPsd<R> {
    /// W = U B Uᵀ with B = R Rᵀ. The columns are made orthonormal where they are not,
    /// by the nearest such matrix.
    pub fn new(factor: Tall<R>, root: &Square) -> Result<Self> {
        if factor.rank() != root.size() {
            return Err(Error::input("the parts of a polar form differ in rank"));
        }
        let factor = Orthonormal::nearest(factor)
            .ok_or_else(|| Error::input("a factor has not full column rank"))?;
        Ok(Self::fresh(factor, root.clone()))
    }

    /// The polar form of W = Ỹ K Ỹᵀ, with B the diagonal of its eigenvalues; `None`
    /// when W has lost rank to working precision.
    pub fn from_psd(form: Psd<R>) -> Option<Self> {
        let gauge = form.gauge()?;
        let lambda = &gauge.singular_values;
        let k = lambda.len();
        if lambda.iter().any(|&l| l <= 0.0) {
            return None;
        }
        let map = Mat::from_fn(k, k, |i, j| gauge.left.get(i, j) / lambda[j].sqrt());
        Some(Self::fresh(
            Orthonormal::new(form.factor, &map)?,
            Square::from_fn(k, |i, j| if i == j { lambda[i].sqrt() } else { 0.0 }),
        ))
    }

    fn fresh(factor: Orthonormal<R>, root: Square) -> Self {
        let upkeep = Upkeep::new(orthonormal::health([&factor]));
        Self::from_parts(factor, root, upkeep)
    }

    pub(crate) fn from_parts(factor: Orthonormal<R>, root: Square, upkeep: Upkeep) -> Self {
        let work = Scratch::new(root.size());
        PolarPsd {
            factor,
            root,
            upkeep,
            work,
        }
    }

    /// k.
    pub fn rank(&self) -> usize {
        self.root.size()
    }

    /// The rows Ũ of the factor.
    pub fn factor(&self) -> &Tall<R> {
        &self.factor.tall
    }

    /// Tr W = ‖R‖².
    pub fn trace(&self) -> f64 {
        self.root.norm().powi(2)
    }

    /// How often the rows were made those of U again.
    pub fn refreshes(&self) -> u64 {
        self.upkeep.refreshes
    }

    /// W = Ũ · core · Ũᵀ with the core C B Cᵀ.
    fn on_core<T>(&self, read: impl FnOnce(Product<'_, R>) -> T) -> T {
        let mapped = self.factor.map.to_faer() * self.root.to_faer();
        let core = Square::from_faer(&(&mapped * mapped.transpose()));
        let tall = &self.factor.tall;
        read(Product {
            left: tall,
            core: &core,
            right: tall,
        })
    }

    /// leftᵀ W right.
    pub fn score(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        self.on_core(|product| product.score(left, right))
    }

    /// W as dense rows: for tests and tiny matrices.
    pub fn to_dense(&self) -> Vec<Vec<f64>> {
        self.on_core(|product| product.to_dense())
    }

    /// `out = C B Cᵀ u`, the product of W with what u is the projection of, as far
    /// as scores need it; all padded.
    pub(crate) fn ask(&self, out: &mut [f64], u: &[f64], work: &mut [f64]) {
        self.factor.map.multiply_transposed(work, u);
        self.root.multiply_transposed(out, work);
        self.root.multiply(work, out);
        self.factor.map.multiply(out, work);
    }

    /// The balanced SVD gauge (both sides are the same); `None` when a number is not
    /// finite or B has lost rank.
    pub fn gauge(&self) -> Option<Gauge> {
        // U is orthonormal, so W has the eigenvalues of B = RRᵀ.
        let (scaled, singular_values) = orthonormal::scaled_root(&self.root)?;
        let map = Square::from_faer(&(self.factor.map.to_faer() * scaled));
        Some(Gauge {
            left: map.clone(),
            right: map,
            singular_values,
        })
    }

    /// Makes the rows those of U; W stays as it is to rounding.
    pub fn refresh(&mut self) -> bool {
        orthonormal::refresh([&mut self.factor], &mut self.upkeep)
    }

    /// Keeps the small state healthy after an update that changed `rows` rows.
    /// `exact` says that this update has just made the factor orthonormal.
    pub(crate) fn after_update(&mut self, rows: usize, exact: bool) {
        let sides = [&mut self.factor];
        orthonormal::after_update(sides, &mut self.upkeep, &mut self.work, rows, exact);
    }

    /// Grows to at least this number of rows; W gains zero rows and columns.
    pub fn grow(&mut self, rows: usize) -> Result<()> {
        self.factor.tall.grow(rows)
    }

    /// Gives an example of new features a start; false where it needs none. U is
    /// made orthonormal again with the new rows.
    pub(crate) fn seed(&mut self, newcomer: &Newcomer<'_, R>) -> bool {
        let Some(sound) = self.factor.seed(None, newcomer) else {
            return false;
        };
        if !sound {
            self.refresh();
        }
        true
    }
}
