//! LORETA-1 on W = Ã K B̃ᵀ: a rank-one gradient step and a second-order
//! retraction to the manifold of rank-k matrices, at sparse cost.
//!
//! The dense algorithm moves A to A(I + α a₁b₁ᵀ) + γ p b₁ᵀ. The first term is
//! a k×k factor common to all rows and goes into K; the second touches only
//! the rows where p is non-zero. With δ = 1 − ½s + ⅜s² ≥ 5/6 the core never
//! becomes singular, whatever the step.
//!
//! Cost: O((nnz p + nnz q) k + k²). Reference: [Shalit2012], algorithm 4.

use super::loreta_batch::Kept;
use super::{
    Attempt, Learned, Learner, Mixed, RankOne, Retract, Step, descend, descend_mixed, loreta_batch,
};
use crate::form::{Factored, Health, Tall};
use crate::kernel::{dot, padded};
use crate::{Loss, Real, Result};

/// Below this ratio of determinants a step counts as losing rank.
pub(super) const RANK_LOSS: f64 = 1e-12;

/// Online learning on the manifold of rank-k matrices.
#[derive(Debug, Clone)]
pub struct Loreta<R> {
    form: Factored<R>,
    scratch: Scratch<R>,
    /// Of the batch at work.
    kept: Kept,
}

/// k-vectors of a step, padded; named as in the algorithm.
#[derive(Debug, Clone)]
struct Scratch<R> {
    u: Vec<f64>,
    v: Vec<f64>,
    kv: Vec<f64>,
    a: Vec<f64>,
    b: Vec<f64>,
    x: Vec<f64>,
    y: Vec<f64>,
    za: Vec<f64>,
    zb: Vec<f64>,
    t: [Vec<f64>; 3],
    row: Vec<R>,
}

impl<R: Real> Loreta<R> {
    /// Starts from a form.
    pub fn new(mut form: Factored<R>) -> Self {
        form.make_tracked();
        let zeros = || vec![0.0; padded(form.rank())];
        let scratch = Scratch {
            u: zeros(),
            v: zeros(),
            kv: zeros(),
            a: zeros(),
            b: zeros(),
            x: zeros(),
            y: zeros(),
            za: zeros(),
            zb: zeros(),
            t: [zeros(), zeros(), zeros()],
            row: vec![R::default(); padded(form.rank())],
        };
        Loreta {
            form,
            scratch,
            kept: Kept::default(),
        }
    }

    form_access!(mut Factored<R>);
}

/// What one side's Gram matrix needs: the example p with projection u and
/// coordinates ã = S⁻¹u, and the row change g p wᵀ with z = S⁻¹w.
pub(super) struct Side {
    squared_norm: f64,
    /// ω²: squared distance of p to the range of the factor.
    outside: f64,
    /// ζ = w·z.
    zeta: f64,
    /// Δ = det S' / det S.
    pub ratio: f64,
    trace_gain: f64,
    g: f64,
    tau: f64,
}

impl Side {
    pub fn new(
        squared_norm: f64,
        g: f64,
        tau: f64,
        u: &[f64],
        a: &[f64],
        w: &[f64],
        z: &[f64],
    ) -> Self {
        let outside = (squared_norm - dot(u, a)).max(0.0);
        let zeta = dot(w, z);
        Side {
            squared_norm,
            outside,
            zeta,
            ratio: tau * tau + g * g * outside * zeta,
            trace_gain: 2.0 * g * dot(u, w) + g * g * squared_norm * dot(w, w),
            g,
            tau,
        }
    }

    /// The weights of ããᵀ, ãzᵀ + zãᵀ and zzᵀ in the change of S⁻¹.
    fn inverse_weights(&self) -> [f64; 3] {
        let g = self.g;
        [
            g * g * self.zeta / self.ratio,
            -g * self.tau / self.ratio,
            -g * g * self.outside / self.ratio,
        ]
    }

    pub fn health<R: Real>(&self, tall: &Tall<R>, a: &[f64], z: &[f64]) -> Health {
        let [aa, az, zz] = self.inverse_weights();
        let gain = aa * dot(a, a) + 2.0 * az * dot(a, z) + zz * dot(z, z);
        tall.health_after(self.trace_gain, gain)
    }

    pub fn inverse_is_finite(&self, z: &[f64]) -> bool {
        self.ratio.is_finite() && dot(z, z).is_finite()
    }

    pub fn update<R: Real>(
        &self,
        tall: &mut Tall<R>,
        u: &[f64],
        a: &[f64],
        w: &[f64],
        z: &[f64],
        t: &mut [Vec<f64>; 3],
    ) {
        let g = self.g;
        // S += w (g u + ½c w)ᵀ + (g u + ½c w) wᵀ with c = g²‖p‖².
        let half = 0.5 * g * g * self.squared_norm;
        combined(&mut t[0], u, g, w, half);
        tall.gram.add_outer([w, &t[0]], [&t[0], w]);
        // S⁻¹ += [g²ζ ããᵀ − gτ(ãzᵀ + zãᵀ) − g²ω² zzᵀ] / Δ, grouped the same way.
        let [aa, az, zz] = self.inverse_weights();
        combined(&mut t[1], a, aa, z, az);
        combined(&mut t[2], a, az, z, zz);
        tall.gram_inverse.add_outer([a, z], [&t[1], &t[2]]);
    }
}

/// Whether a change of rows can be written in their precision: it may be large
/// where the example is small, though their product is not.
pub(super) fn row_fits<R: Real>(w: &[f64], scale: f64) -> bool {
    (dot(w, w).sqrt() * scale).abs() < R::MAX
}

pub(super) fn set_row<R: Real>(row: &mut [R], w: &[f64], scale: f64) {
    for (r, w) in row.iter_mut().zip(w) {
        *r = R::from_f64(scale * w);
    }
}

fn scaled(out: &mut [f64], x: &[f64], c: f64) {
    for (o, x) in out.iter_mut().zip(x) {
        *o = c * x;
    }
}

fn combined(out: &mut [f64], x: &[f64], a: f64, y: &[f64], b: f64) {
    for ((o, x), y) in out.iter_mut().zip(x).zip(y) {
        *o = a * x + b * y;
    }
}

impl<R: Real> Learner<R> for Loreta<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        let Scratch { u, v, kv, .. } = &mut self.scratch;
        self.form
            .score_parts((example.left, example.right), [u, v, kv])
    }

    descends!(R, grow);
}

impl<R: Real> Retract<R> for Loreta<R> {
    fn keep(&mut self) {
        self.kept.push(&self.scratch.u, &self.scratch.v);
    }

    fn retract_batch(&mut self, gradient: &[(RankOne<'_, R>, f64)], limit: f64) -> Attempt {
        if let &[(example, scale)] = gradient {
            // A step on one example is the same, and costs less.
            let Scratch { u, v, .. } = &mut self.scratch;
            if !self.kept.take_one(u, v) {
                self.score(example);
            }
            return self.retract(example, scale, limit);
        }
        let attempt = loreta_batch::retract(&mut self.form, gradient, &mut self.kept, limit);
        // A second attempt is one in another gauge.
        self.kept.clear();
        attempt
    }

    fn retract(&mut self, example: RankOne<'_, R>, mut scale: f64, limit: f64) -> Attempt {
        let form = &mut self.form;
        let Scratch {
            u,
            v,
            a,
            b,
            x,
            y,
            za,
            zb,
            t,
            row,
            ..
        } = &mut self.scratch;

        // p = scale · left; everything on the left side is linear in it.
        form.left.gram_inverse.multiply_transposed(a, u);
        form.right.gram_inverse.multiply_transposed(b, v);
        form.core_inverse.multiply(x, a);
        form.core_inverse.multiply_transposed(y, b);
        if dot(x, x) == 0.0 && dot(y, y) == 0.0 {
            return Attempt::Idle;
        }
        let s_per_scale = dot(b, x);
        if (s_per_scale * scale).abs() > limit {
            scale = limit.copysign(scale) / s_per_scale.abs();
        }
        for vector in [&mut *u, &mut *a, &mut *x] {
            vector.iter_mut().for_each(|e| *e *= scale);
        }
        let s = s_per_scale * scale;

        let alpha = -0.5 + 0.375 * s;
        let gamma = 1.0 - 0.5 * s;
        let delta = 1.0 + alpha * s;
        let g = gamma / delta;
        let kappa = alpha * (2.0 + alpha * s);
        let tau = 1.0 + g * s;

        form.left.gram_inverse.multiply_transposed(za, y);
        form.right.gram_inverse.multiply_transposed(zb, x);
        let left = Side::new(
            scale * scale * example.left.squared_norm(),
            g,
            tau,
            u,
            a,
            y,
            za,
        );
        let right = Side::new(example.right.squared_norm(), g, tau, v, b, x, zb);
        let (after_left, after_right) = (
            left.health(&form.left, a, za),
            right.health(&form.right, b, zb),
        );
        let healthy = left.ratio > RANK_LOSS
            && right.ratio > RANK_LOSS
            && kappa.is_finite()
            && row_fits::<R>(y, g * scale)
            && row_fits::<R>(x, g)
            && Tall::<R>::in_range(after_left.size)
            && Tall::<R>::in_range(after_right.size)
            && (dot(a, a) * dot(b, b) * kappa * kappa).is_finite()
            && (dot(x, x) * dot(y, y)).is_finite()
            && left.inverse_is_finite(za)
            && right.inverse_is_finite(zb);
        if !healthy {
            return Attempt::Refused;
        }
        let change = kappa.abs() * (dot(a, a) * dot(b, b)).sqrt();
        let inverse_change = (kappa / (delta * delta)).abs() * (dot(x, x) * dot(y, y)).sqrt();
        let now = form.joint_health(after_left, after_right, [change, inverse_change]);
        if !now.is_regular(after_left.condition.max(after_right.condition)) {
            return Attempt::Worn;
        }

        // Ã[supp p] += g p yᵀ and B̃[supp q] += g q xᵀ.
        set_row(row, y, g * scale);
        form.left.add_outer(example.left, row);
        set_row(row, x, g);
        form.right.add_outer(example.right, row);

        // S += g(u wᵀ + w uᵀ) + g²‖p‖² w wᵀ and its inverse, on both sides.
        left.update(&mut form.left, u, a, y, za, t);
        right.update(&mut form.right, v, b, x, zb, t);

        // K += κ ã b̃ᵀ and K⁻¹ −= κ/δ² x yᵀ.
        scaled(&mut t[0], a, kappa);
        form.core.add_outer([&t[0]], [b]);
        scaled(&mut t[0], x, -kappa / (delta * delta));
        form.core_inverse.add_outer([&t[0]], [y]);

        if let Some(frame) = &mut form.frame {
            // A(I + α a₁b₁ᵀ): C += α ã (Cᵀy)ᵀ and D += α b̃ (Dᵀx)ᵀ.
            for (map, tilde, w) in [(&mut frame.left, &*a, &*y), (&mut frame.right, b, x)] {
                map.multiply_transposed(&mut t[0], w);
                scaled(&mut t[1], tilde, alpha);
                map.add_outer([&t[1]], [&t[0]]);
            }
        }
        form.after_update(example.left.len() + example.right.len(), now);
        Attempt::Moved
    }

    fn renew(&mut self) -> bool {
        self.form.is_stale() && self.form.refresh()
    }
}
