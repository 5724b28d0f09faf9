//! The polar geometry of W = U B Vᵀ: gradient steps on two factors with orthonormal
//! columns, and a geodesic of the positive definite B, at sparse cost.
//!
//! With z̄ = Uᵀz, x̄ = Vᵀx, σ̄ = Bx̄ and η the step times the slope of the loss, the dense
//! algorithm takes U to the orthonormal factor of UT − η z σ̄ᵀ, T = I + η Sym(z̄σ̄ᵀ).
//! On U = ŨC the first term goes into C and the second touches the rows of the
//! example: Ũ −= z wᵀ with w = η C⁻ᵀT⁻¹σ̄. The new columns have the Gram matrix
//! I + η²((½ skew part)² + ω² σ̄σ̄ᵀ), ω the distance of z to the range of U: it is at
//! least I, so no step loses rank, and it differs from I in the plane of z̄ and σ̄ only,
//! so its root costs k². What roundings leave of that is put right every 16th step,
//! from the tracked Gram matrix. `qf` factorises it every time, at k³.
//!
//! B = RRᵀ moves by R ← R exp(−½η Sym(σρᵀ)), σ = Rᵀx̄ and ρ = Rᵀz̄, again in a plane; with a
//! regulariser λ/2 ‖W‖² the exponent gains −½sλ(RᵀR)², and the exponential costs k³.
//!
//! Where T is nearly singular, which takes a step that turns U far, C has no good
//! inverse: that one step is taken on all rows.
//!
//! Cost: O((nnz z + nnz x) k + k²). Reference: [Meyer2011], algorithm 2.

use super::balanced::not_beyond;
use super::loreta::{row_fits, set_row};
use super::loreta_batch::{count_rows, products, projections};
use super::plane::{self, Plane, Tiny, UNIT};
use super::{
    Attempt, Learned, Learner, RankOne, Retract, Step, descend, descend_batch, descend_sum,
};
use crate::form::{Orthonormal, Polar as PolarForm, Tall};
use crate::kernel::{dot, padded};
use crate::linalg::{Retraction, Square, symmetric};
use crate::{Loss, Real, Result, SparseRow};
use faer::Mat;

/// Magnitude of an eigenvalue of T below which a step is taken on all rows.
const NEARLY_SINGULAR: f64 = 0.1;

/// The largest exponent of a step of B.
const LARGEST_EXPONENT: f64 = 300.0;

/// Online learning in the polar geometry of matrices of rank k.
#[derive(Debug, Clone)]
pub struct Polar<R> {
    form: PolarForm<R>,
    retraction: Retraction,
    regularization: f64,
    /// Size of the step that is taken, and that times λ.
    size: f64,
    shrink: f64,
    scratch: Scratch<R>,
}

/// k-vectors of one side, padded.
#[derive(Debug, Clone)]
struct Half {
    /// Ũᵀz.
    projected: Vec<f64>,
    /// z̄ = Uᵀz.
    turned: Vec<f64>,
    /// ρ = Rᵀz̄.
    rooted: Vec<f64>,
    /// σ̄ = Bx̄ of the other side, along which this one moves.
    direction: Vec<f64>,
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

#[derive(Debug, Clone)]
struct Scratch<R> {
    left: Half,
    right: Half,
    plane: Plane,
    vectors: [Vec<f64>; 4],
    squares: [Square; 4],
    row: Vec<R>,
}

impl Half {
    fn new(k: usize) -> Self {
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

    fn project<R: Real>(&mut self, side: &Orthonormal<R>, root: &Square, x: SparseRow<'_, R>) {
        side.tall.project(&mut self.projected, x);
        side.map
            .multiply_transposed(&mut self.turned, &self.projected);
        root.multiply_transposed(&mut self.rooted, &self.turned);
    }

    /// The step of this side along −η z σ̄ᵀ, not yet taken; false where T is nearly
    /// singular.
    fn plan<R: Real>(
        &mut self,
        side: &Orthonormal<R>,
        squared_norm: f64,
        eta: f64,
        retraction: Retraction,
    ) -> bool {
        self.plane.set(&self.turned, &self.direction);
        self.t = plane::plus(UNIT, eta, self.plane.symmetric());
        if plane::eigenvalues(self.t)
            .iter()
            .any(|value| value.abs() < NEARLY_SINGULAR)
        {
            return false;
        }
        side.inverse
            .multiply_transposed_pair(&mut self.unmapped, &self.plane.basis);
        let inverse = plane::inverse(self.t);
        let [p, q] = &self.unmapped;
        let b = self.plane.b;
        let c = [0, 1].map(|i| eta * (inverse[i][0] * b[0] + inverse[i][1] * b[1]));
        for ((w, p), q) in self.w.iter_mut().zip(p).zip(q) {
            *w = c[0] * p + c[1] * q;
        }
        // I + η²((½ a b₂)² I + ω² b bᵀ) in the plane.
        let (skew, outside) = (
            0.5 * self.plane.a * b[1],
            (squared_norm - self.plane.a * self.plane.a).max(0.0),
        );
        let gram = |i: usize, j: usize| {
            UNIT[i][j] + eta * eta * (skew * skew * UNIT[i][j] + outside * b[i] * b[j])
        };
        let root = match retraction {
            Retraction::Uf => plane::root([[gram(0, 0), gram(0, 1)], [gram(1, 0), gram(1, 1)]]),
            // Factorised as a whole, afterwards.
            Retraction::Qf => UNIT,
        };
        self.forward = plane::times(self.t, plane::inverse(root));
        self.backward = plane::times(root, inverse);
        true
    }

    /// Whether the planned step can be written, on the rows of the example or on all.
    fn fits<R: Real>(
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
    fn write<R: Real>(
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

    /// Takes the step on all rows: Ũ ← ŨCT − η z σ̄ᵀ, then C anew.
    fn write_densely<R: Real>(
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

fn blend(out: &mut [f64], x: &[f64], a: f64, y: &[f64], b: f64) {
    for ((o, x), y) in out.iter_mut().zip(x).zip(y) {
        *o = a * x + b * y;
    }
}

impl<R: Real> Polar<R> {
    /// Starts from a form, with the retraction `uf` and no regulariser.
    pub fn new(form: PolarForm<R>) -> Self {
        let k = form.rank();
        let zeros = || vec![0.0; padded(k)];
        let zero = || Square::zero(k);
        let scratch = Scratch {
            left: Half::new(k),
            right: Half::new(k),
            plane: Plane::new(padded(k)),
            vectors: [zeros(), zeros(), zeros(), zeros()],
            squares: [zero(), zero(), zero(), zero()],
            row: vec![R::default(); padded(k)],
        };
        Polar {
            form,
            retraction: Retraction::Uf,
            regularization: 0.0,
            size: 0.0,
            shrink: 0.0,
            scratch,
        }
    }

    /// The same with the regulariser λ/2 ‖W‖².
    pub fn regularized(mut self, lambda: f64) -> Self {
        self.regularization = lambda;
        self
    }

    /// The same with another way back to orthonormal columns.
    pub fn retracted(mut self, retraction: Retraction) -> Self {
        self.retraction = retraction;
        self
    }

    /// The form as it is now.
    pub fn form(&self) -> &PolarForm<R> {
        &self.form
    }

    /// The form, given up by the learner.
    pub fn into_form(self) -> PolarForm<R> {
        self.form
    }

    pub(super) fn form_mut(&mut self) -> &mut PolarForm<R> {
        &mut self.form
    }

    fn prepare(&mut self, size: f64) {
        self.size = size;
        self.shrink = size * self.regularization;
    }

    /// Learns from one example of any rank, X = Σ cᵢ rightᵢ leftᵢᵀ, whose score is
    /// Tr(WX) = Σ cᵢ leftᵢᵀ W rightᵢ. Costs as a mini-batch of its terms.
    pub fn learn_sum(
        &mut self,
        terms: &[(RankOne<'_, R>, f64)],
        target: f64,
        loss: Loss,
        step: Step,
    ) -> Learned {
        self.prepare(step.size);
        // Terms are no examples that could be overshot one by one.
        self.size = 0.0;
        descend_sum(self, terms, target, loss, step)
    }
}

/// What a step does to one side when it has several examples.
enum Planned {
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
type Column<'a, R> = (SparseRow<'a, R>, f64);

impl Planned {
    /// The step of U along −Σ ηᵢ xᵢ dᵢᵀ: `projected` has the columns Ũᵀxᵢ. `None` where
    /// a number is not finite or leaves the precision of the rows.
    fn new<R: Real>(
        side: &Orthonormal<R>,
        columns: &[Column<'_, R>],
        projected: &Mat<f64>,
        directions: &Mat<f64>,
        retraction: Retraction,
    ) -> Option<Self> {
        let (k, r) = (side.map.size(), columns.len());
        let scaled = Mat::from_fn(k, r, |i, j| columns[j].1 * directions[(i, j)]);
        let column = |m: &Mat<f64>, j: usize| (0..k).map(|i| m[(i, j)]).collect::<Vec<_>>();
        let fits = |m: &Mat<f64>| (0..r).all(|j| row_fits::<R>(&column(m, j), 1.0));
        let map = side.map.to_faer();
        let t = symmetric::part(&(map.transpose() * projected * scaled.transpose()))
            + Mat::<f64>::identity(k, k);
        let (values, vectors) = symmetric::eigen(&t)?;
        let turned = &map * &t;
        // All products of examples with each other, against a pass over all rows.
        let pairs = r * count_rows(columns);
        let passes = 2 * k * k * side.tall.rows();
        if pairs > passes || values.iter().any(|v| v.abs() < NEARLY_SINGULAR) {
            let map = Square::from_faer(&turned);
            return (map.norm().is_finite() && fits(&scaled)).then_some(Planned::Dense {
                map,
                directions: scaled,
            });
        }
        let over = Mat::from_fn(k, k, |i, j| vectors[(i, j)] / values[j]);
        let t_inverse = over * vectors.transpose();
        let rows = side.inverse.to_faer().transpose() * t_inverse * scaled;
        let unit: Vec<_> = columns.iter().map(|&(x, _)| (x, 1.0)).collect();
        let cross = projected * rows.transpose();
        let gram = side.gram.to_faer() - &cross - cross.transpose()
            + &rows * products(&unit) * rows.transpose();
        let mut gram = Square::from_faer(&gram);
        gram.symmetrise();
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

    fn write<R: Real>(
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
fn plan_root<R: Real>(root: &Square, shrink: f64, squares: &mut [Square; 4]) -> bool {
    let [exponent, gram, next, out] = squares;
    if shrink > 0.0 {
        root.transposed_product(gram, root);
        gram.product(next, gram);
        exponent.combine(1.0, shrink, next);
    }
    exponent.symmetrise();
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

/// Makes U the Q of a factorisation, after its rows and C have moved; false where
/// that fails, which takes numbers that are not finite.
fn factorise<R: Real>(side: &mut Orthonormal<R>, [one, two, three, _]: &mut [Square; 4]) -> bool {
    side.gram.product(one, &side.map);
    side.map.transposed_product(two, one);
    two.symmetrise();
    if !two.factorise() {
        return false;
    }
    two.invert_upper(one);
    side.map.product(three, one);
    side.map.assign(three);
    two.product(three, &side.inverse);
    side.inverse.assign(three);
    true
}

impl<R: Real> Learner<R> for Polar<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        let Scratch { left, right, .. } = &mut self.scratch;
        let form = &self.form;
        form.left.tall.expect(example.left);
        form.right.tall.expect(example.right);
        left.project(&form.left, &form.root, example.left);
        right.project(&form.right, &form.root, example.right);
        dot(&left.rooted, &right.rooted)
    }

    fn learn(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss, step: Step) -> Learned {
        self.prepare(step.size);
        descend(self, example, target, loss, step)
    }

    fn learn_batch(
        &mut self,
        examples: &[(RankOne<'_, R>, f64)],
        loss: Loss,
        step: Step,
    ) -> Learned {
        self.prepare(step.size);
        descend_batch(self, examples, loss, step)
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left, right)
    }
}

impl<R: Real> Retract<R> for Polar<R> {
    fn retract(&mut self, example: RankOne<'_, R>, scale: f64, limit: f64) -> Attempt {
        let (regularized, retraction) = (self.is_regularized(), self.retraction);
        let Scratch {
            left,
            right,
            plane,
            vectors: [a, b, s, t],
            squares,
            row,
        } = &mut self.scratch;
        let form = &mut self.form;
        let mut eta = -scale;
        let (rho, sigma) = (&left.rooted, &right.rooted);
        let squared = [dot(rho, rho), dot(sigma, sigma)];
        if squared == [0.0; 2] && !regularized {
            return Attempt::Idle;
        }
        form.root.multiply(&mut left.direction, sigma);
        form.root.multiply(&mut right.direction, rho);
        let (zz, xx) = (example.left.squared_norm(), example.right.squared_norm());
        // How far U, V and the logarithm of B move.
        let turn_left = (zz * dot(&left.direction, &left.direction)).sqrt();
        let turn_right = (xx * dot(&right.direction, &right.direction)).sqrt();
        let stretch = 0.5 * (dot(rho, sigma).abs() + (squared[0] * squared[1]).sqrt());
        let relative = turn_left.max(turn_right).max(stretch);
        let product = dot(rho, sigma);
        let pace = turn_left * turn_left
            + turn_right * turn_right
            + 0.5 * (squared[0] * squared[1] + product * product);
        eta *= not_beyond(self.size, pace, limit);
        if eta.abs() * relative > limit {
            eta = limit.copysign(eta) / relative;
        }
        let finite = (eta * relative).is_finite();
        if !finite || (eta * stretch).abs() > LARGEST_EXPONENT {
            return Attempt::Refused;
        }

        // All is planned before anything is written.
        let mut bent = UNIT;
        if regularized {
            blend(a, rho, 0.5 * eta, rho, 0.0);
            blend(b, sigma, 0.5 * eta, sigma, 0.0);
            squares[0].combine(0.0, 0.0, &form.root);
            squares[0].add_outer([sigma, rho], [a, b]);
            if !plan_root::<R>(&form.root, self.shrink, squares) {
                return Attempt::Refused;
            }
        } else {
            plane.set(sigma, rho);
            bent = plane::plus(plane::exp(-0.5 * eta, plane.symmetric()), -1.0, UNIT);
        }
        let easy_left = left.plan(&form.left, zz, eta, retraction);
        let easy_right = right.plan(&form.right, xx, eta, retraction);
        let fits = left.fits(&form.left, zz, eta, easy_left)
            && right.fits(&form.right, xx, eta, easy_right)
            && bent.iter().flatten().all(|v| v.is_finite());
        if !fits {
            return Attempt::Refused;
        }

        if regularized {
            form.root.assign(&squares[3]);
        } else {
            let [p, q] = &plane.basis;
            form.root.multiply(a, p);
            form.root.multiply(b, q);
            blend(s, p, bent[0][0], q, bent[0][1]);
            blend(t, p, bent[1][0], q, bent[1][1]);
            form.root.add_outer([a, b], [s, t]);
        }
        let sides = [
            (&mut form.left, left, example.left, zz, easy_left),
            (&mut form.right, right, example.right, xx, easy_right),
        ];
        for (side, half, x, squared, easy) in sides {
            if easy {
                half.write(side, x, squared, row, [s, t]);
                if retraction == Retraction::Qf {
                    factorise(side, squares);
                }
            } else {
                half.write_densely(side, x, eta, row, retraction);
            }
        }
        let exact = retraction == Retraction::Qf;
        form.after_update(example.left.len() + example.right.len(), exact);
        Attempt::Moved
    }

    fn retract_batch(&mut self, gradient: &[(RankOne<'_, R>, f64)], limit: f64) -> Attempt {
        let (regularized, retraction) = (self.is_regularized(), self.retraction);
        let form = &mut self.form;
        let (k, r) = (form.rank(), gradient.len());
        let mut left: Vec<_> = gradient.iter().map(|(e, c)| (e.left, -c)).collect();
        let mut right: Vec<_> = gradient.iter().map(|(e, c)| (e.right, -c)).collect();
        let project = |side: &Orthonormal<R>, columns: &[Column<'_, R>]| {
            projections(&side.tall, columns.iter().map(|&(x, _)| (x, 1.0)), r)
        };
        let (u, v) = (project(&form.left, &left), project(&form.right, &right));
        let root = form.root.to_faer();
        let rho = root.transpose() * (form.left.map.to_faer().transpose() * &u);
        let sigma = root.transpose() * (form.right.map.to_faer().transpose() * &v);
        if rho.norm_l2() == 0.0 && sigma.norm_l2() == 0.0 && !regularized {
            return Attempt::Idle;
        }
        let (left_directions, right_directions) = (&root * &sigma, &root * &rho);
        let scaled = Mat::from_fn(k, r, |i, j| left[j].1 * sigma[(i, j)]);
        let mut exponent = symmetric::part(&(scaled * rho.transpose()));
        let turn = |columns: &[Column<'_, R>], d: &Mat<f64>| -> f64 {
            let turned = products(columns) * (d.transpose() * d);
            turned.diagonal().column_vector().sum().max(0.0).sqrt()
        };
        let relative = turn(&left, &left_directions)
            .max(turn(&right, &right_directions))
            .max(exponent.norm_l2());
        if !relative.is_finite() {
            return Attempt::Refused;
        }
        if relative > limit {
            let shorter = limit / relative;
            for (_, eta) in left.iter_mut().chain(&mut right) {
                *eta *= shorter;
            }
            exponent *= faer::Scale(shorter);
        }
        let pace = |j: usize| {
            let squared = |m: &Mat<f64>| (0..k).map(|i| m[(i, j)] * m[(i, j)]).sum::<f64>();
            left[j].0.squared_norm() * squared(&left_directions)
                + right[j].0.squared_norm() * squared(&right_directions)
                + squared(&rho) * squared(&sigma)
        };
        let shorter = not_beyond(self.size, (0..r).map(pace).fold(0.0, f64::max), limit);
        for (_, eta) in left.iter_mut().chain(&mut right) {
            *eta *= shorter;
        }
        exponent *= faer::Scale(shorter);
        let squares = &mut self.scratch.squares;
        squares[0] = Square::from_faer(&exponent);
        if !plan_root::<R>(&form.root, self.shrink, squares) {
            return Attempt::Refused;
        }
        let planned_left = Planned::new(&form.left, &left, &u, &left_directions, retraction);
        let planned_right = Planned::new(&form.right, &right, &v, &right_directions, retraction);
        let (Some(planned_left), Some(planned_right)) = (planned_left, planned_right) else {
            return Attempt::Refused;
        };
        form.root.assign(&squares[3]);
        planned_left.write(&mut form.left, &left, retraction);
        planned_right.write(&mut form.right, &right, retraction);
        form.after_update(count_rows(&left) + count_rows(&right), true);
        Attempt::Moved
    }

    fn renew(&mut self) -> bool {
        false
    }

    fn is_regularized(&self) -> bool {
        self.regularization > 0.0
    }
}
