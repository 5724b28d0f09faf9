//! W = U B Vᵀ: two factors with orthonormal columns and a positive definite core.
//!
//! B = RRᵀ is kept by a root R, which need not be symmetric.

use super::orthonormal::{self, Orthonormal};
use super::product::Product;
use super::upkeep::Upkeep;
use super::{Factored, Gauge, Newcomer, Tall};
use crate::linalg::{Scratch, Square};
use crate::{Error, Real, Result, SparseRow};
use faer::Mat;

/// A rectangular matrix of rank k in polar form.
#[derive(Debug, Clone, PartialEq)]
pub struct Polar<R> {
    pub(crate) left: Orthonormal<R>,
    pub(crate) right: Orthonormal<R>,
    /// R with B = RRᵀ.
    pub(crate) root: Square,
    pub(crate) upkeep: Upkeep,
    work: Scratch,
}

impl<R: Real> Polar<R> {
    /// W = U B Vᵀ with B = R Rᵀ. The columns of both factors are made orthonormal
    /// where they are not, by the nearest such matrix.
    pub fn new(left: Tall<R>, root: &Square, right: Tall<R>) -> Result<Self> {
        let k = root.size();
        if left.rank() != k || right.rank() != k {
            return Err(Error::input("the parts of a polar form differ in rank"));
        }
        let lost = || Error::input("a factor has not full column rank");
        let side = |tall| Orthonormal::nearest(tall).ok_or_else(lost);
        let (left, right) = (side(left)?, side(right)?);
        Ok(Self::fresh(left, right, root.clone()))
    }

    /// The polar form of W = Ã K B̃ᵀ with U = P, V = Q and B = Σ of its SVD; `None`
    /// when W has lost rank to working precision.
    pub fn from_factored(form: Factored<R>) -> Option<Self> {
        let gauge = form.gauge()?;
        let sigma = &gauge.singular_values;
        let k = sigma.len();
        if sigma.iter().any(|&s| s <= 0.0) {
            return None;
        }
        let unscaled = |map: &Square| Mat::from_fn(k, k, |i, j| map.get(i, j) / sigma[j].sqrt());
        let (left_map, right_map) = (unscaled(&gauge.left), unscaled(&gauge.right));
        let (left, right) = form.into_factors();
        Some(Self::fresh(
            Orthonormal::new(left, &left_map)?,
            Orthonormal::new(right, &right_map)?,
            Square::from_fn(k, |i, j| if i == j { sigma[i].sqrt() } else { 0.0 }),
        ))
    }

    fn fresh(left: Orthonormal<R>, right: Orthonormal<R>, root: Square) -> Self {
        let health = orthonormal::health([&left, &right]);
        Self::from_parts(left, right, root, Upkeep::new(health))
    }

    pub(crate) fn from_parts(
        left: Orthonormal<R>,
        right: Orthonormal<R>,
        root: Square,
        upkeep: Upkeep,
    ) -> Self {
        let k = root.size();
        Polar {
            left,
            right,
            root,
            upkeep,
            work: Scratch::new(k),
        }
    }

    /// k.
    pub fn rank(&self) -> usize {
        self.root.size()
    }

    /// The rows Ũ of the left factor.
    pub fn left(&self) -> &Tall<R> {
        &self.left.tall
    }

    /// The rows Ṽ of the right factor.
    pub fn right(&self) -> &Tall<R> {
        &self.right.tall
    }

    /// How often the rows were made those of U and V again.
    pub fn refreshes(&self) -> u64 {
        self.upkeep.refreshes
    }

    /// C B Dᵀ: W = Ũ · this · Ṽᵀ.
    fn core(&self) -> Square {
        let root = self.root.to_faer();
        let left = self.left.map.to_faer() * &root;
        let right = self.right.map.to_faer() * &root;
        Square::from_faer(&(left * right.transpose()))
    }

    fn product<'a>(&'a self, core: &'a Square) -> Product<'a, R> {
        Product {
            left: &self.left.tall,
            core,
            right: &self.right.tall,
        }
    }

    /// leftᵀ W right.
    pub fn score(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        self.product(&self.core()).score(left, right)
    }

    /// W as dense rows: for tests and tiny matrices.
    pub fn to_dense(&self) -> Vec<Vec<f64>> {
        self.product(&self.core()).to_dense()
    }

    /// `out = D B Cᵀ u`, the product of Wᵀ with what u is the projection of, as far
    /// as scores need it; all padded.
    pub(crate) fn ask(&self, out: &mut [f64], u: &[f64], work: &mut [f64]) {
        self.left.map.multiply_transposed(work, u);
        self.root.multiply_transposed(out, work);
        self.root.multiply(work, out);
        self.right.map.multiply(out, work);
    }

    /// The balanced SVD gauge; `None` when a number is not finite or B has lost
    /// rank.
    pub fn gauge(&self) -> Option<Gauge> {
        // U and V are orthonormal, so W has the singular values of B = RRᵀ.
        let (scaled, singular_values) = orthonormal::scaled_root(&self.root)?;
        Some(Gauge {
            left: Square::from_faer(&(self.left.map.to_faer() * &scaled)),
            right: Square::from_faer(&(self.right.map.to_faer() * &scaled)),
            singular_values,
        })
    }

    /// Makes the rows those of U and V; W stays as it is to rounding.
    pub fn refresh(&mut self) -> bool {
        orthonormal::refresh([&mut self.left, &mut self.right], &mut self.upkeep)
    }

    /// Keeps the small state healthy after an update that changed `rows` rows.
    /// `exact` says that this update has just made both factors orthonormal.
    pub(crate) fn after_update(&mut self, rows: usize, exact: bool) {
        let sides = [&mut self.left, &mut self.right];
        orthonormal::after_update(sides, &mut self.upkeep, &mut self.work, rows, exact);
    }

    /// Grows both sides to at least these numbers of rows; W gains zero rows and
    /// columns.
    pub fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        // Both or none.
        self.left.tall.reserve(left)?;
        self.right.tall.reserve(right)?;
        self.left.tall.grow(left)?;
        self.right.tall.grow(right)
    }

    /// Gives an example of new features a start; false where it needs none. U is
    /// made orthonormal again with the new rows.
    pub(crate) fn seed(&mut self, newcomer: &Newcomer<'_, R>) -> bool {
        let Some(sound) = self.left.seed(Some(&self.right.tall), newcomer) else {
            return false;
        };
        if !sound {
            self.refresh();
        }
        true
    }
}
