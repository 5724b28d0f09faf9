//! A tall factor with orthonormal columns, U = ŨC: rows Ũ times a small C, as
//! everywhere, with the Gram matrix G = ŨᵀŨ tracked, so that CᵀGC = I says that U is
//! orthonormal. And what forms with one or two of them do to keep them so.

use super::upkeep::{Due, Health, Upkeep};
use super::{Newcomer, Tall};
use crate::Real;
use crate::kernel::padded;
use crate::linalg::{Retraction, Scratch, Square, svd, symmetric};
use faer::Mat;

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
    pub fn new(mut tall: Tall<R>, map: &Mat<f64>) -> Option<Self> {
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
        (out.orthonormalize() && out.orthonormalize()).then_some(out)
    }

    /// C ← C(CᵀGC)^−½ with its inverse, by an eigendecomposition.
    fn orthonormalize(&mut self) -> bool {
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
        two.symmetrize();
        two.add_diagonal(-1.0);
        let off = two.norm();
        if off.is_nan() || off > NEAR {
            return self.orthonormalize();
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
        sound && (retraction != Retraction::Uf || self.orthonormalize())
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

    /// The nearest factor with orthonormal columns; `None` where the columns are not
    /// independent.
    pub fn nearest(tall: Tall<R>) -> Option<Self> {
        let map = Retraction::Uf.map(&tall.gram_now().to_faer())?;
        Self::new(tall, &map)
    }

    /// Gives an example of new features a start; `None` where it needs none, else
    /// whether U could be made orthonormal again with the new rows.
    pub fn seed(&mut self, right: Option<&Tall<R>>, newcomer: &Newcomer<'_, R>) -> Option<bool> {
        let Orthonormal { tall, gram, .. } = self;
        let trace = gram.trace();
        if !tall.seed(right, newcomer, |_| trace) {
            return None;
        }
        let mut wide = vec![0.0; padded(tall.rank())];
        for (i, _) in tall.known(newcomer.left).iter() {
            for (w, r) in wide.iter_mut().zip(tall.row(i as usize)) {
                *w = r.to_f64();
            }
            gram.add_outer([&wide], [&wide]);
        }
        Some(self.orthonormalize())
    }

    /// ‖UᵀU − I‖ from the rows.
    pub fn skewness(&self) -> f64 {
        let map = self.map.to_faer();
        let gram = self.tall.gram_now().to_faer();
        let k = map.nrows();
        (map.transpose() * gram * &map - Mat::<f64>::identity(k, k)).norm_l2()
    }

    /// Whether all numbers are finite.
    pub(crate) fn is_finite(&self) -> bool {
        let small = [&self.gram, &self.map, &self.inverse];
        small.iter().all(|m| m.norm().is_finite())
    }
}

/// What all factors of a form are like together.
pub(super) fn health<R: Real, const N: usize>(sides: [&Orthonormal<R>; N]) -> Health {
    let each = sides.map(Orthonormal::health);
    let product: f64 = each.iter().map(|health| health.size).product();
    Health {
        condition: each.iter().map(|h| h.condition).fold(0.0, f64::max),
        size: product.powf(1.0 / N as f64),
    }
}

/// Makes the rows of all factors those of U; false where they are not independent.
pub(super) fn refresh<R: Real, const N: usize>(
    mut sides: [&mut Orthonormal<R>; N],
    upkeep: &mut Upkeep,
) -> bool {
    let mut sound = true;
    for side in &mut sides {
        sound &= side.fold();
    }
    upkeep.refreshed(health(sides.map(|side| &*side)));
    sound
}

/// Keeps the factors of a form healthy after an update that changed `rows` rows.
/// `exact` says that this update has just made them orthonormal.
pub(super) fn after_update<R: Real, const N: usize>(
    mut sides: [&mut Orthonormal<R>; N],
    upkeep: &mut Upkeep,
    work: &mut Scratch,
    rows: usize,
    exact: bool,
) {
    let height = sides.iter().map(|side| side.tall.rows()).sum();
    let rank = sides[0].map.size();
    let now = health(sides.each_ref().map(|side| &**side));
    let due = upkeep.after_update::<R>(rows, height, rank, now);
    if due == Due::Refresh {
        refresh(sides, upkeep);
        return;
    }
    if due == Due::Polish {
        for side in &mut sides {
            side.gram.symmetrize();
            let Orthonormal { map, inverse, .. } = &mut **side;
            map.polish_inverse(inverse, work);
        }
    }
    if !exact && upkeep.updates().is_multiple_of(TIGHTEN_EVERY) {
        let work = work.squares();
        if !sides.iter_mut().all(|side| side.tighten(work)) {
            refresh(sides, upkeep);
        }
    }
}

/// The left singular vectors of the root of B = RRᵀ, each times its singular value, and
/// the singular values of B; `None` when a number is not finite or B has lost rank.
pub(super) fn scaled_root(root: &Square) -> Option<(Mat<f64>, Vec<f64>)> {
    let (p, sigma, _) = svd(&root.to_faer())?;
    if sigma.iter().any(|&s| s <= 0.0) {
        return None;
    }
    let scaled = Mat::from_fn(p.nrows(), p.ncols(), |i, j| p[(i, j)] * sigma[j]);
    Some((scaled, sigma.iter().map(|s| s * s).collect()))
}
