//! One step of a factor with orthonormal columns, U = ŨC, shared by all polar rules.
//!
//! The dense step takes U to the orthonormal factor of UT − η z dᵀ, T = I + η P, where P
//! is z̄dᵀ or its symmetric part, z̄ = Uᵀz. On U = ŨC the first term goes into C and the
//! second touches the rows of the example: Ũ −= z wᵀ with w = η C⁻ᵀT⁻ᵀd. The new columns
//! have the Gram matrix I + η²((½ skew part)² + ω² ddᵀ), where the first term is there
//! for the symmetric part only and ω is the distance of z to the range of U: it is at
//! least I, so no step loses rank, and it differs from I in the plane of z̄ and d only,
//! so its root costs k². What roundings leave of that is put right every 16th step,
//! from the tracked Gram matrix. `qf` factorizes it every time, at k³.
//!
//! Where T is nearly singular, which takes a step that turns U far, C has no good
//! inverse: that one step is taken on all rows.

use super::loreta::{row_fits, set_row};
use super::loreta_batch::{count_rows, products};
use super::plane::{self, Plane, Tiny, UNIT};
use crate::form::{Orthonormal, Tall};
use crate::kernel::{dot, padded};
use crate::linalg::{Retraction, Square, svd, symmetric};
use crate::{Real, SparseRow};
use faer::Mat;

/// Magnitude of an eigenvalue of T (of a singular value, for several examples) below
/// which a step is taken on all rows.
const NEARLY_SINGULAR: f64 = 0.1;

/// The largest exponent of a step of B.
pub(super) const LARGEST_EXPONENT: f64 = 300.0;

/// The part of z̄dᵀ inside the range of U that is taken off a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// Its symmetric part: what is left is tangent to orthonormal matrices.
    Symmetric,
    /// All of it: what is left is a motion of the range of U.
    All,
}

/// k-vectors of one side, padded.
#[derive(Debug, Clone)]
pub(super) struct Half {
    /// Ũᵀz.
    pub projected: Vec<f64>,
    /// z̄ = Uᵀz.
    pub turned: Vec<f64>,
    /// ρ = Rᵀz̄.
    pub rooted: Vec<f64>,
    /// d, along which the rows move: Bx̄ of the other side, or of this one where W is
    /// symmetric.
    pub direction: Vec<f64>,
    plane: Plane,
    /// C and C⁻ᵀ times the basis of the plane.
    mapped: [Vec<f64>; 2],
    unmapped: [Vec<f64>; 2],
    /// The rows change by −z wᵀ.
    w: Vec<f64>,
    /// T, and T times the inverse root of the new Gram matrix, in the plane.
    t: Tiny,
    forward: Tiny,
    backward: Tiny,
}

impl Half {
    pub fn new(k: usize) -> Self {
        let zeros = || vec![0.0; padded(k)];
        Half {
            projected: zeros(),
            turned: zeros(),
            rooted: zeros(),
            direction: zeros(),
            plane: Plane::new(padded(k)),
            mapped: [zeros(), zeros()],
            unmapped: [zeros(), zeros()],
            w: zeros(),
            t: UNIT,
            forward: UNIT,
            backward: UNIT,
        }
    }

    pub fn project<R: Real>(&mut self, side: &Orthonormal<R>, root: &Square, x: SparseRow<'_, R>) {
        side.tall.project(&mut self.projected, x);
        side.map
            .multiply_transposed(&mut self.turned, &self.projected);
        root.multiply_transposed(&mut self.rooted, &self.turned);
    }

    /// The step of this side along −η z dᵀ, not yet taken; false where T is nearly
    /// singular.
    pub fn plan<R: Real>(
        &mut self,
        side: &Orthonormal<R>,
        squared_norm: f64,
        eta: f64,
        inside: Inside,
        retraction: Retraction,
    ) -> bool {
        self.plane.set(&self.turned, &self.direction);
        let part = match inside {
            Inside::Symmetric => self.plane.symmetric(),
            Inside::All => self.plane.outer(),
        };
        self.t = plane::plus(UNIT, eta, part);
        let eigenvalues = match inside {
            Inside::Symmetric => plane::eigenvalues(self.t),
            // T is triangular here.
            Inside::All => [self.t[0][0], 1.0],
        };
        if eigenvalues.iter().any(|v| v.abs() < NEARLY_SINGULAR) {
            return false;
        }
        side.inverse
            .multiply_transposed_pair(&mut self.unmapped, &self.plane.basis);
        let inverse = plane::inverse(self.t);
        let [p, q] = &self.unmapped;
        let b = self.plane.b;
        let c = [0, 1].map(|i| eta * (inverse[0][i] * b[0] + inverse[1][i] * b[1]));
        for ((w, p), q) in self.w.iter_mut().zip(p).zip(q) {
            *w = c[0] * p + c[1] * q;
        }
        // I + η²((½ a b₂)² I + ω² b bᵀ) in the plane.
        let skew = match inside {
            Inside::Symmetric => 0.5 * self.plane.a * b[1],
            Inside::All => 0.0,
        };
        let outside = (squared_norm - self.plane.a * self.plane.a).max(0.0);
        let gram = |i: usize, j: usize| {
            UNIT[i][j] + eta * eta * (skew * skew * UNIT[i][j] + outside * b[i] * b[j])
        };
        let root = match retraction {
            Retraction::Uf => plane::root([[gram(0, 0), gram(0, 1)], [gram(1, 0), gram(1, 1)]]),
            // Factorized as a whole, afterwards.
            Retraction::Qf => UNIT,
        };
        self.forward = plane::times(self.t, plane::inverse(root));
        self.backward = plane::times(root, inverse);
        true
    }

    /// Whether the planned step can be written, on the rows of the example or on all.
    pub fn fits<R: Real>(
        &self,
        side: &Orthonormal<R>,
        squared_norm: f64,
        eta: f64,
        easy: bool,
    ) -> bool {
        if !easy {
            return row_fits::<R>(&self.direction, eta);
        }
        let ww = dot(&self.w, &self.w);
        let trace = side.gram.trace() - 2.0 * dot(&self.projected, &self.w) + squared_norm * ww;
        let finite = |m: &Tiny| m.iter().flatten().all(|v| v.is_finite());
        row_fits::<R>(&self.w, 1.0)
            && Tall::<R>::in_range(trace)
            && finite(&self.forward)
            && finite(&self.backward)
    }

    /// Takes the planned step.
    pub fn write<R: Real>(
        &mut self,
        side: &mut Orthonormal<R>,
        x: SparseRow<'_, R>,
        squared_norm: f64,
        row: &mut [R],
        [s, t]: [&mut [f64]; 2],
    ) {
        set_row(row, &self.w, -1.0);
        side.tall.add_outer(x, row);
        // G − u wᵀ − w uᵀ + ‖z‖² w wᵀ.
        for ((s, u), w) in s.iter_mut().zip(&self.projected).zip(&self.w) {
            *s = 0.5 * squared_norm * w - u;
        }
        side.gram.add_outer([&self.w, s], [s, &self.w]);
        let [p, q] = &self.plane.basis;
        // C(I + Q(F − I)Qᵀ).
        let [mp, mq] = &mut self.mapped;
        side.map.multiply(mp, p);
        side.map.multiply(mq, q);
        let f = plane::plus(self.forward, -1.0, UNIT);
        blend(s, p, f[0][0], q, f[0][1]);
        blend(t, p, f[1][0], q, f[1][1]);
        side.map.add_outer([mp, mq], [s, t]);
        // (I + Q(F⁻¹ − I)Qᵀ)C⁻¹.
        let [up, uq] = &self.unmapped;
        let f = plane::plus(self.backward, -1.0, UNIT);
        blend(s, up, f[0][0], uq, f[0][1]);
        blend(t, up, f[1][0], uq, f[1][1]);
        side.inverse.add_outer([p, q], [s, t]);
    }

    /// Takes the step on all rows: Ũ ← ŨCT − η z dᵀ, then C anew.
    pub fn write_densely<R: Real>(
        &self,
        side: &mut Orthonormal<R>,
        x: SparseRow<'_, R>,
        eta: f64,
        row: &mut [R],
        retraction: Retraction,
    ) {
        let k = side.map.size();
        let m = plane::plus(self.t, -1.0, UNIT);
        let [p, q] = &self.plane.basis;
        let t = Square::from_fn(k, |i, j| {
            f64::from(u8::from(i == j))
                + p[i] * (m[0][0] * p[j] + m[0][1] * q[j])
                + q[i] * (m[1][0] * p[j] + m[1][1] * q[j])
        });
        let mut map = Square::zero(k);
        side.map.product(&mut map, &t);
        side.tall.multiply(&map);
        set_row(row, &self.direction, -eta);
        side.tall.add_outer(x, row);
        side.settle(retraction);
    }
}

pub(super) fn blend(out: &mut [f64], x: &[f64], a: f64, y: &[f64], b: f64) {
    for ((o, x), y) in out.iter_mut().zip(x).zip(y) {
        *o = a * x + b * y;
    }
}

/// What a step does to one side when it has several examples.
pub(super) enum Planned {
    /// Rows −xᵢ wᵢᵀ, and the small matrices that go with them.
    Sparse {
        rows: Mat<f64>,
        gram: Square,
        map: Square,
        inverse: Square,
    },
    /// All rows times this map, then −ηᵢ xᵢ dᵢᵀ.
    Dense { map: Square, directions: Mat<f64> },
}

/// An example of one side and its η.
pub(super) type Column<'a, R> = (SparseRow<'a, R>, f64);

impl Planned {
    /// The step of U along −Σ ηᵢ xᵢ dᵢᵀ: `projected` has the columns Ũᵀxᵢ. `None` where
    /// a number is not finite or leaves the precision of the rows.
    pub fn new<R: Real>(
        side: &Orthonormal<R>,
        columns: &[Column<'_, R>],
        projected: &Mat<f64>,
        directions: &Mat<f64>,
        inside: Inside,
        retraction: Retraction,
    ) -> Option<Self> {
        let (k, r) = (side.map.size(), columns.len());
        let scaled = Mat::from_fn(k, r, |i, j| columns[j].1 * directions[(i, j)]);
        let column = |m: &Mat<f64>, j: usize| (0..k).map(|i| m[(i, j)]).collect::<Vec<_>>();
        let fits = |m: &Mat<f64>| (0..r).all(|j| row_fits::<R>(&column(m, j), 1.0));
        let map = side.map.to_faer();
        let part = map.transpose() * projected * scaled.transpose();
        let part = match inside {
            Inside::Symmetric => symmetric::part(&part),
            Inside::All => part,
        };
        let t = part + Mat::<f64>::identity(k, k);
        let (p, values, q) = svd(&t)?;
        let turned = &map * &t;
        // All products of examples with each other, against a pass over all rows.
        let pairs = r * count_rows(columns);
        let passes = 2 * k * k * side.tall.rows();
        if pairs > passes || values.iter().any(|&v| v < NEARLY_SINGULAR) {
            let map = Square::from_faer(&turned);
            return (map.norm().is_finite() && fits(&scaled)).then_some(Planned::Dense {
                map,
                directions: scaled,
            });
        }
        // T⁻ᵀ = P Σ⁻¹ Qᵀ.
        let over = Mat::from_fn(k, k, |i, j| p[(i, j)] / values[j]);
        let rows = side.inverse.to_faer().transpose() * (over * q.transpose()) * scaled;
        let unit: Vec<_> = columns.iter().map(|&(x, _)| (x, 1.0)).collect();
        let cross = projected * rows.transpose();
        let gram = side.gram.to_faer() - &cross - cross.transpose()
            + &rows * products(&unit) * rows.transpose();
        let mut gram = Square::from_faer(&gram);
        gram.symmetrize();
        let new = symmetric::part(&(turned.transpose() * gram.to_faer() * &turned));
        let map = Square::from_faer(&(turned * retraction.map(&new)?));
        let mut inverse = Square::zero(k);
        let sound = map.invert(&mut inverse, &mut Square::zero(k))
            && fits(&rows)
            && Tall::<R>::in_range(gram.trace());
        sound.then_some(Planned::Sparse {
            rows,
            gram,
            map,
            inverse,
        })
    }

    pub fn write<R: Real>(
        self,
        side: &mut Orthonormal<R>,
        columns: &[Column<'_, R>],
        retraction: Retraction,
    ) {
        let (Planned::Sparse { rows, .. }
        | Planned::Dense {
            directions: rows, ..
        }) = &self;
        let rows = rows.clone();
        if let Planned::Dense { map, .. } = &self {
            side.tall.multiply(map);
        }
        let mut row = vec![R::default(); padded(side.map.size())];
        for (j, &(x, _)) in columns.iter().enumerate() {
            for i in 0..side.map.size() {
                row[i] = R::from_f64(-rows[(i, j)]);
            }
            side.tall.add_outer(x, &row);
        }
        match self {
            Planned::Sparse {
                gram, map, inverse, ..
            } => {
                side.gram = gram;
                side.map = map;
                side.inverse = inverse;
            }
            Planned::Dense { .. } => {
                side.settle(retraction);
            }
        }
    }
}

/// R exp(−½(E + sλ(RᵀR)²)) in the last of four matrices, of which the first is E;
/// false where that is too long a step.
pub(super) fn plan_root<R: Real>(root: &Square, shrink: f64, squares: &mut [Square; 4]) -> bool {
    let [exponent, gram, next, out] = squares;
    if shrink > 0.0 {
        root.transposed_product(gram, root);
        gram.product(next, gram);
        exponent.combine(1.0, shrink, next);
    }
    exponent.symmetrize();
    next.assign(exponent);
    exponent.combine(0.0, -0.5, next);
    let size = exponent.norm();
    if size.is_nan() || size > LARGEST_EXPONENT {
        return false;
    }
    exponent.exp(out, [gram, next]);
    root.product(gram, out);
    out.assign(gram);
    let size = out.norm();
    size.is_finite() && Tall::<R>::in_range(size * size)
}

/// Makes U the Q of a factorization, after its rows and C have moved; false where
/// that fails, which takes numbers that are not finite.
pub(super) fn factorize<R: Real>(
    side: &mut Orthonormal<R>,
    [one, two, three, _]: &mut [Square; 4],
) -> bool {
    side.gram.product(one, &side.map);
    side.map.transposed_product(two, one);
    two.symmetrize();
    if !two.factorize() {
        return false;
    }
    two.invert_upper(one);
    side.map.product(three, one);
    side.map.assign(three);
    two.product(three, &side.inverse);
    side.inverse.assign(three);
    true
}
