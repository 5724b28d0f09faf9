//! The balanced geometry of W = G Hᵀ: a gradient step in the metric
//! Tr((GᵀG)⁻¹ ξᵀξ) + Tr((HᵀH)⁻¹ ζᵀζ), at sparse cost.
//!
//! The step moves G by −β z (S Hᵀx)ᵀ with S = GᵀG, and H by −β x (R Gᵀz)ᵀ with
//! R = HᵀH. What it does to W does not depend on how W is factored, so it needs no
//! form of its own: on W = Ã K B̃ᵀ it reads Ã −= β z (S_A K v)ᵀ and
//! B̃ −= β x (S_B Kᵀ u)ᵀ, where u = Ãᵀz and v = B̃ᵀx, and K stays. For the same reason
//! a refresh takes the place of the paper's balancing step
//! ([`balance`](crate::manifold::balance)), which
//! changes G and H but not W.
//!
//! With a regularizer λ/2 ‖W‖² the step also shrinks W inside its range:
//! T = I − ηλ K S_B Kᵀ S_A, K ← T² K, and the rows move along (S_A K v)ᵀ T⁻¹. That
//! costs k³.
//!
//! Cost: O((nnz z + nnz x) k + k²), with λ > 0 k³ besides.
//! Reference: [Meyer2011], algorithm 1.

use super::guard::{self, Kernel, not_beyond};
use super::loreta::{RANK_LOSS, Side, row_fits, set_row};
use super::loreta_batch::{After, Overlaps, count_rows, products, projections};
use super::{
    Attempt, Learned, Learner, Mixed, RankOne, Retract, Step, descend, descend_mixed, descend_sum,
};
use crate::form::{Factored, Health, Tall};
use crate::kernel::{dot, padded};
use crate::linalg::{Dense, Square};
use crate::{Loss, Real, Result};
use faer::Mat;

/// The share of W that the regularizer may take in one step, in the direction in
/// which it takes most, where steps have a limit.
const LARGEST_SHRINKAGE: f64 = 0.5;

/// The condition of T above which a step counts as losing rank.
const SINGULAR: f64 = 1e8;

/// Online learning in the balanced geometry of matrices of rank k.
#[derive(Debug, Clone)]
pub struct Balanced<R> {
    form: Factored<R>,
    regularization: f64,
    /// Size of the step over the number of its examples.
    size: f64,
    /// Size of the step times λ.
    shrink: f64,
    scratch: Scratch<R>,
    small: Option<Box<Small>>,
}

/// k-vectors of a step, padded.
#[derive(Debug, Clone)]
struct Scratch<R> {
    u: Vec<f64>,
    v: Vec<f64>,
    /// K v and Kᵀ u.
    kv: Vec<f64>,
    ku: Vec<f64>,
    /// The directions in which the rows of a side move, and S⁻¹ times them.
    left: Vec<f64>,
    right: Vec<f64>,
    zl: Vec<f64>,
    zr: Vec<f64>,
    /// S⁻¹ times the projections.
    a: Vec<f64>,
    b: Vec<f64>,
    t: [Vec<f64>; 3],
    row: Vec<R>,
}

/// k×k matrices of a regularized step.
#[derive(Debug, Clone)]
struct Small {
    shrinkage: Square,
    inverse: Square,
    core: Square,
    core_inverse: Square,
    work: [Square; 2],
}

impl<R: Real> Balanced<R> {
    /// Starts from a form, without a regularizer.
    pub fn new(mut form: Factored<R>) -> Self {
        form.make_tracked();
        let k = form.rank();
        let zeros = || vec![0.0; padded(k)];
        let scratch = Scratch {
            u: zeros(),
            v: zeros(),
            kv: zeros(),
            ku: zeros(),
            left: zeros(),
            right: zeros(),
            zl: zeros(),
            zr: zeros(),
            a: zeros(),
            b: zeros(),
            t: [zeros(), zeros(), zeros()],
            row: vec![R::default(); padded(k)],
        };
        Balanced {
            form,
            regularization: 0.0,
            size: 0.0,
            shrink: 0.0,
            scratch,
            small: None,
        }
    }

    /// The same with the regularizer λ/2 ‖W‖²; each step then shrinks W.
    pub fn regularized(mut self, lambda: f64) -> Self {
        self.regularization = lambda;
        let k = self.form.rank();
        let zero = || Square::zero(k);
        self.small = (lambda > 0.0).then(|| {
            Box::new(Small {
                shrinkage: zero(),
                inverse: zero(),
                core: zero(),
                core_inverse: zero(),
                work: [zero(), zero()],
            })
        });
        self
    }

    form_access!(mut Factored<R>);

    learn_sum!(R);
}

impl Small {
    /// T = I − ηλ K S_B Kᵀ S_A with its inverse, K' = T²K and K'⁻¹ = K⁻¹T⁻². False
    /// where T is singular.
    fn prepare<R: Real>(&mut self, form: &Factored<R>, shrink: f64, limited: bool) -> bool {
        let [one, two] = &mut self.work;
        // K S_B Kᵀ S_A: its trace is ‖W‖², its eigenvalues are the σ².
        form.core.product(one, &form.right.gram);
        form.core.transposed_product(two, &form.left.gram);
        one.product(&mut self.shrinkage, two);
        let squared_norm = self.shrinkage.trace();
        let most = match limited {
            true => LARGEST_SHRINKAGE / squared_norm,
            false => f64::INFINITY,
        };
        let shrink = if squared_norm > 0.0 {
            shrink.min(most)
        } else {
            shrink
        };
        two.assign(&self.shrinkage);
        self.shrinkage.combine(0.0, -shrink, two);
        self.shrinkage.add_diagonal(1.0);
        if !self.shrinkage.invert(&mut self.inverse, one)
            || self.shrinkage.norm() * self.inverse.norm() > SINGULAR
        {
            return false;
        }
        self.shrinkage.product(one, &form.core);
        self.shrinkage.product(&mut self.core, one);
        form.core_inverse.product(one, &self.inverse);
        one.product(&mut self.core_inverse, &self.inverse);
        (self.core.norm() * self.core_inverse.norm()).is_finite()
    }

    /// How much longer the core and its inverse become, at most.
    fn gains<R: Real>(&self, form: &Factored<R>) -> [f64; 2] {
        [
            self.core.norm() - form.core.norm(),
            self.core_inverse.norm() - form.core_inverse.norm(),
        ]
    }
}

impl<R: Real> Learner<R> for Balanced<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        let Scratch { u, v, kv, .. } = &mut self.scratch;
        self.form
            .score_parts((example.left, example.right), [u, v, kv])
    }

    descends!(R, grow);
}

impl<R: Real> Retract<R> for Balanced<R> {
    fn prepare(&mut self, size: f64, examples: usize) {
        self.size = size / examples as f64;
        self.shrink = size * self.regularization;
    }

    fn unguard(&mut self) {
        self.size = 0.0;
    }

    fn retract(&mut self, example: RankOne<'_, R>, mut scale: f64, limit: f64) -> Attempt {
        let form = &mut self.form;
        let Scratch {
            u,
            v,
            kv,
            ku,
            left,
            right,
            zl,
            zr,
            a,
            b,
            t,
            row,
        } = &mut self.scratch;
        form.core.multiply_transposed(ku, u);
        form.left.gram.multiply_transposed(left, kv);
        form.right.gram.multiply_transposed(right, ku);
        let (wx, wz) = (dot(kv, left), dot(ku, right));
        if wx == 0.0 && wz == 0.0 && self.small.is_none() {
            return Attempt::Idle;
        }
        let (zz, xx) = (example.left.squared_norm(), example.right.squared_norm());
        // How far G and H move in the metric, in which their own norm is √k: it does
        // not depend on how W is factored. ‖Wx‖² is wx.
        let relative = (zz * wx).max(xx * wz).sqrt();
        // And by how much a step of length one moves the score for each unit of slope.
        scale *= not_beyond(self.size, zz * wx + xx * wz, limit);
        if scale.abs() * relative > limit {
            scale = limit.copysign(scale) / relative;
        }
        let mut gains = [0.0; 2];
        match &mut self.small {
            None => {
                std::mem::swap(zl, kv);
                std::mem::swap(zr, ku);
            }
            Some(small) => {
                if !small.prepare(form, self.shrink, limit.is_finite()) {
                    return Attempt::Refused;
                }
                gains = small.gains(form);
                // (S_A K v)ᵀ T⁻¹, and K⁻¹ T⁻¹ K times S_B Kᵀ u.
                small.inverse.multiply_transposed(&mut t[0], left);
                left.copy_from_slice(&t[0]);
                let [kr, tkr, _] = t;
                form.core.multiply(kr, right);
                small.inverse.multiply(tkr, kr);
                form.core_inverse.multiply(right, tkr);
                form.left.gram_inverse.multiply_transposed(zl, left);
                form.right.gram_inverse.multiply_transposed(zr, right);
            }
        }
        form.left.gram_inverse.multiply_transposed(a, u);
        form.right.gram_inverse.multiply_transposed(b, v);
        let [tau_l, tau_r] = [(&*left, &*a), (right, b)].map(|(w, a)| 1.0 + scale * dot(w, a));
        let sides = (
            Side::new(zz, scale, tau_l, u, a, left, zl),
            Side::new(xx, scale, tau_r, v, b, right, zr),
        );
        let after = (
            sides.0.health(&form.left, a, zl),
            sides.1.health(&form.right, b, zr),
        );
        let healthy = sides.0.ratio > RANK_LOSS
            && sides.1.ratio > RANK_LOSS
            && row_fits::<R>(left, scale)
            && row_fits::<R>(right, scale)
            && Tall::<R>::in_range(after.0.size)
            && Tall::<R>::in_range(after.1.size)
            && sides.0.inverse_is_finite(zl)
            && sides.1.inverse_is_finite(zr);
        if !healthy {
            return Attempt::Refused;
        }
        let now = form.joint_health(after.0, after.1, gains);
        if !now.is_regular(after.0.condition.max(after.1.condition)) {
            return Attempt::Worn;
        }
        set_row(row, left, scale);
        form.left.add_outer(example.left, row);
        set_row(row, right, scale);
        form.right.add_outer(example.right, row);
        sides.0.update(&mut form.left, u, a, left, zl, t);
        sides.1.update(&mut form.right, v, b, right, zr, t);
        if let Some(small) = &self.small {
            form.core.assign(&small.core);
            form.core_inverse.assign(&small.core_inverse);
        }
        form.after_update(example.left.len() + example.right.len(), now);
        Attempt::Moved
    }

    fn retract_batch(&mut self, gradient: &[(RankOne<'_, R>, f64)], limit: f64) -> Attempt {
        let form = &mut self.form;
        let r = gradient.len();
        let mut left: Vec<_> = gradient.iter().map(|(e, c)| (e.left, *c)).collect();
        let mut right: Vec<_> = gradient.iter().map(|(e, c)| (e.right, *c)).collect();
        let plain = |columns: &[(_, f64)], tall: &Tall<R>| {
            projections(tall, columns.iter().map(|&(x, _)| (x, 1.0)), r)
        };
        let (u, v) = (plain(&left, &form.left), plain(&right, &form.right));
        let core = form.core.to_faer();
        let (kv, ku) = (&core * &v, core.transpose() * &u);
        let mut rows_left = form.left.gram.to_faer() * &kv;
        let mut rows_right = form.right.gram.to_faer() * &ku;
        let still = rows_left.norm_l2() == 0.0 && rows_right.norm_l2() == 0.0;
        if still && self.small.is_none() {
            return Attempt::Idle;
        }
        // As for one example, in the metric.
        let kernel = |columns: &[(_, f64)], z: &Mat<f64>, w: &Mat<f64>| {
            let unit: Vec<_> = columns.iter().map(|&(x, _)| (x, 1.0)).collect();
            Kernel::of(&products(&unit), &(w.transpose() * z))
        };
        let kernels = [
            kernel(&left, &kv, &rows_left),
            kernel(&right, &ku, &rows_right),
        ];
        let c: Vec<f64> = gradient.iter().map(|(_, c)| *c).collect();
        let change = kernels[0].length(&c).max(kernels[1].length(&c));
        let pace = Kernel(&kernels[0].0 + &kernels[1].0).pace(&c);
        let shorter = guard::shortened(self.size, pace, limit, change, limit);
        for (_, c) in left.iter_mut().chain(&mut right) {
            *c *= shorter;
        }
        let mut gains = [0.0; 2];
        if let Some(small) = &mut self.small {
            if !small.prepare(form, self.shrink, limit.is_finite()) {
                return Attempt::Refused;
            }
            gains = small.gains(form);
            let inverse = small.inverse.to_faer();
            rows_left = inverse.transpose() * rows_left;
            rows_right = form.core_inverse.to_faer() * inverse * core * rows_right;
        }
        let k = form.left.rank();
        let scaled = |m: &Mat<f64>, columns: &[(_, f64)]| {
            Dense::from_fn(r, k, |i, j| columns[i].1 * m[(j, i)])
        };
        let rows = |m: &Mat<f64>| Dense::from_fn(r, k, |i, j| m[(j, i)]);
        let moved_left = (scaled(&u, &left), rows(&rows_left));
        let moved_right = (scaled(&v, &right), rows(&rows_right));
        let overlaps = &mut Overlaps::default();
        let after_left = After::new(&form.left, &left, moved_left, overlaps);
        let after_right = After::new(&form.right, &right, moved_right, overlaps);
        let (Some(after_left), Some(after_right)) = (after_left, after_right) else {
            return Attempt::Worn;
        };
        let health = |after: &After| Health {
            condition: after.condition(),
            size: after.gram.trace(),
        };
        let (one, two) = (health(&after_left), health(&after_right));
        let now = form.joint_health(one, two, gains);
        if !now.is_regular(one.condition.max(two.condition)) {
            return Attempt::Worn;
        }
        after_left.write(&mut form.left, &left);
        after_right.write(&mut form.right, &right);
        if let Some(small) = &self.small {
            form.core.assign(&small.core);
            form.core_inverse.assign(&small.core_inverse);
        }
        form.after_update(count_rows(&left) + count_rows(&right), now);
        Attempt::Moved
    }

    fn renew(&mut self) -> bool {
        self.form.is_stale() && self.form.refresh()
    }

    fn is_regularized(&self) -> bool {
        self.small.is_some()
    }
}
