//! W = U B Vᵀ: two factors with orthonormal columns and a positive definite core.
//!
//! U = ŨC is kept as rows Ũ times a small C, as everywhere, with the Gram matrix
//! G = ŨᵀŨ tracked, so that CᵀGC = I says that U is orthonormal. V = ṼD likewise.
//! B = RRᵀ is kept by a root R, which need not be symmetric.

use super::product::Product;
use super::upkeep::{Due, Health, Upkeep};
use super::{Factored, Gauge, Newcomer, Tall};
use crate::linalg::{Retraction, Scratch, Square, svd, symmetric};
use crate::{Error, Real, Result, SparseRow};
use faer::{Mat, Scale};

/// Updates between two looks at how orthonormal a factor still is. In between it
/// drifts by a few roundings an update.
const TIGHTEN_EVERY: u64 = 16;

/// ‖CᵀGC − I‖ below which the first terms of a series give its inverse root to
/// working precision.
const NEAR: f64 = 1e-5;

/// A tall factor U = ŨC with orthonormal columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Orthonormal<R> {
    /// Ũ, whose own Gram matrix stays untracked.
    pub tall: Tall<R>,
    /// G = ŨᵀŨ.
    pub gram: Square,
    /// C.
    pub map: Square,
    /// C⁻¹.
    pub inverse: Square,
}

impl<R: Real> Orthonormal<R> {
    /// The columns of a tall factor times this map, which makes them nearly
    /// orthonormal.
    fn new(mut tall: Tall<R>, map: &Mat<f64>) -> Option<Self> {
        let gram = tall.gram_now().into_owned();
        tall.untrack();
        let k = tall.rank();
        let mut out = Orthonormal {
            tall,
            gram,
            map: Square::from_faer(map),
            inverse: Square::zero(k),
        };
        // Twice, because the first pass may start far away.
        (out.orthonormalise() && out.orthonormalise()).then_some(out)
    }

    /// C ← C(CᵀGC)^−½ with its inverse, by an eigendecomposition.
    fn orthonormalise(&mut self) -> bool {
        let map = self.map.to_faer();
        let turned = map.transpose() * self.gram.to_faer() * &map;
        let Some(root) = Retraction::Uf.map(&symmetric::part(&turned)) else {
            return false;
        };
        let next = Square::from_faer(&(map * root));
        let mut inverse = Square::zero(self.map.size());
        if !next.invert(&mut inverse, &mut Square::zero(self.map.size())) {
            return false;
        }
        self.map = next;
        self.inverse = inverse;
        true
    }

    /// Makes U orthonormal again after some roundings, and the inverse one again;
    /// false where they are too far from it.
    fn tighten(&mut self, [one, two]: &mut [Square; 2]) -> bool {
        // Δ = CᵀGC − I.
        self.gram.product(one, &self.map);
        self.map.transposed_product(two, one);
        two.symmetrise();
        two.add_diagonal(-1.0);
        let off = two.norm();
        if off.is_nan() || off > NEAR {
            return self.orthonormalise();
        }
        // C ← C(I − ½Δ + ⅜Δ²) and C⁻¹ ← (I + ½Δ − ⅛Δ²)C⁻¹, without the squares where
        // they are below rounding.
        self.map.product(one, two);
        self.map.combine(1.0, -0.5, one);
        if off > 1e-8 {
            let again = one.clone();
            again.product(one, two);
            self.map.combine(1.0, 0.375, one);
        }
        two.product(one, &self.inverse);
        self.inverse.combine(1.0, 0.5, one);
        if off > 1e-8 {
            let again = one.clone();
            two.product(one, &again);
            self.inverse.combine(1.0, -0.125, one);
        }
        true
    }

    /// Makes the rows those of U, and C near I.
    fn fold(&mut self) -> bool {
        self.tall.multiply(&self.map);
        self.settle(Retraction::Uf)
    }

    /// With rows that changed and C forgotten: G and C from the rows.
    pub(crate) fn settle(&mut self, retraction: Retraction) -> bool {
        self.gram = self.tall.gram_now().into_owned();
        let Some(map) = retraction.map(&self.gram.to_faer()) else {
            return false;
        };
        self.map = Square::from_faer(&map);
        let k = self.map.size();
        let sound = self.map.invert(&mut self.inverse, &mut Square::zero(k));
        // A Gram matrix far from I costs digits; the second pass gives them back.
        sound && (retraction != Retraction::Uf || self.orthonormalise())
    }

    /// What tells how well Ũ and C serve: the condition of G is that of C squared,
    /// and so many roundings are columns from orthonormal. In `f64` that is worth a
    /// refresh sooner than in other forms.
    fn health(&self) -> Health {
        let condition = self.map.norm() * self.inverse.norm() / self.map.size() as f64;
        let strict = if R::EPSILON < 1e-10 { 100.0 } else { 1.0 };
        Health {
            condition: strict * condition * condition,
            size: self.gram.trace(),
        }
    }

    /// Whether all numbers are finite.
    pub(crate) fn is_finite(&self) -> bool {
        let small = [&self.gram, &self.map, &self.inverse];
        small.iter().all(|m| m.norm().is_finite())
    }
}

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
        let side = |tall: Tall<R>| {
            let map = Retraction::Uf.map(&tall.gram_now().to_faer())?;
            Orthonormal::new(tall, &map)
        };
        let (left, right) = (side(left).ok_or_else(lost)?, side(right).ok_or_else(lost)?);
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
        let health = joint(&left, &right);
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
        let (p, sigma, _) = svd(&self.root.to_faer())?;
        if sigma.iter().any(|&s| s <= 0.0) {
            return None;
        }
        let k = self.rank();
        let scaled = Mat::from_fn(k, k, |i, j| p[(i, j)] * sigma[j]);
        Some(Gauge {
            left: Square::from_faer(&(self.left.map.to_faer() * &scaled)),
            right: Square::from_faer(&(self.right.map.to_faer() * &scaled)),
            singular_values: sigma.iter().map(|s| s * s).collect(),
        })
    }

    /// Makes the rows those of U and V; W stays as it is to rounding.
    pub fn refresh(&mut self) -> bool {
        let sound = self.left.fold() & self.right.fold();
        let health = joint(&self.left, &self.right);
        self.upkeep.refreshed(health);
        sound
    }

    /// Keeps the small state healthy after an update that changed `rows` rows.
    /// `exact` says that this update has just made both factors orthonormal.
    pub(crate) fn after_update(&mut self, rows: usize, exact: bool) {
        let height = self.left.tall.rows() + self.right.tall.rows();
        let now = joint(&self.left, &self.right);
        let due = self
            .upkeep
            .after_update::<R>(rows, height, self.rank(), now);
        if due == Due::Refresh {
            self.refresh();
            return;
        }
        if due == Due::Polish {
            for side in [&mut self.left, &mut self.right] {
                side.gram.symmetrise();
                let Orthonormal { map, inverse, .. } = side;
                map.polish_inverse(inverse, &mut self.work);
            }
        }
        if !exact && self.upkeep.updates().is_multiple_of(TIGHTEN_EVERY) {
            let work = self.work.squares();
            let sound = self.left.tighten(work) && self.right.tighten(work);
            if !sound {
                self.refresh();
            }
        }
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
        let Orthonormal { tall, gram, .. } = &mut self.left;
        let trace = gram.trace();
        if !tall.seed(Some(&self.right.tall), newcomer, |_| trace) {
            return false;
        }
        let mut wide = vec![0.0; crate::kernel::padded(tall.rank())];
        for (i, _) in tall.known(newcomer.left).iter() {
            for (w, r) in wide.iter_mut().zip(tall.row(i as usize)) {
                *w = r.to_f64();
            }
            gram.add_outer([&wide], [&wide]);
        }
        if !self.left.orthonormalise() {
            self.refresh();
        }
        true
    }

    /// ‖UᵀU − I‖ and ‖VᵀV − I‖ from the rows, the larger.
    pub(crate) fn skewness(&self) -> f64 {
        let off = |side: &Orthonormal<R>| {
            let map = side.map.to_faer();
            let gram = side.tall.gram_now().to_faer();
            let k = map.nrows();
            (map.transpose() * gram * &map - Scale(1.0) * Mat::<f64>::identity(k, k)).norm_l2()
        };
        off(&self.left).max(off(&self.right))
    }
}

fn joint<R: Real>(left: &Orthonormal<R>, right: &Orthonormal<R>) -> Health {
    let (left, right) = (left.health(), right.health());
    Health {
        condition: left.condition.max(right.condition),
        size: (left.size * right.size).sqrt(),
    }
}
