//! The flat geometry of W = GGᵀ: gradient descent on the factor itself.
//!
//! An example p ⊗ q moves G by −η s (p (Gᵀq)ᵀ + q (Gᵀp)ᵀ), where s is the slope of the
//! loss; for x ⊗ x that is G −= 2η s x (Gᵀx)ᵀ. Only rows of the example move. The metric
//! does not see rotations G → GO, so neither does the step, but it depends on the scale
//! of W, and nothing keeps long steps from running away: [Shalit2012] calls them
//! unstable. Where steps have a limit, a step here ends where it would overshoot its
//! target, to first order, and before the factor has changed by half the limit along
//! the example. Mini-batches and examples of any rank are sums of such terms, all from
//! the old G.
//!
//! ‖G‖² = Tr W is tracked beside the rows.
//!
//! Cost: O((nnz p + nnz q) k). References: [Meyer2011b], section 5.1; [Shalit2012],
//! section 7.

use super::gradient::{Scratch, fits};
use super::guard::{self, Kernel};
use super::loreta_batch::products;
use super::{
    Attempt, Learned, Learner, Mixed, RankOne, Retract, Step, descend, descend_mixed, descend_sum,
};
use crate::form::Psd;
use crate::kernel::dot;
use crate::{Loss, Real, Result};
use faer::Mat;

/// Gradient descent on the factor of a positive semi-definite matrix of rank k.
#[derive(Debug, Clone)]
pub struct Flat<R> {
    form: Psd<R>,
    guarded: bool,
    /// Size of the step over the number of its examples.
    size: f64,
    scratch: Scratch<R>,
}

impl<R: Real> Flat<R> {
    /// Starts from a form. Its factor is G, so it must not change behind the learner's
    /// back: no Gram matrix is kept, no gauge chosen.
    pub fn new(mut form: Psd<R>) -> Self {
        form.make_plain();
        let scratch = Scratch::new(form.rank());
        Flat {
            form,
            guarded: true,
            size: 0.0,
            scratch,
        }
    }

    /// The same without a look at the limit of steps: plain descent.
    pub fn unguarded(mut self) -> Self {
        self.guarded = false;
        self
    }

    form_access!(mut Psd<R>);

    learn_sum!(R);

    /// ‖p vᵀ + q uᵀ‖², and the largest eigenvalue of p qᵀ + q pᵀ in magnitude, for the
    /// example just scored: how fast its score moves, and how far the factor.
    fn pace(&self, example: RankOne<'_, R>) -> (f64, f64) {
        let Scratch { u, v, .. } = &self.scratch;
        let (pp, qq) = (example.left.squared_norm(), example.right.squared_norm());
        let across = match example.is_square() {
            true => pp,
            false => example.left.dot(example.right),
        };
        (
            pp * dot(v, v) + qq * dot(u, u) + 2.0 * across * dot(u, v),
            across.abs() + (pp * qq).sqrt(),
        )
    }

    /// The factor of a step with this pace that changes G by `spread` of itself.
    fn shortened(&self, pace: f64, spread: f64, limit: f64) -> f64 {
        match self.guarded {
            true => guard::shortened(self.size, pace, limit, spread, 0.5 * limit),
            false => 1.0,
        }
    }

    /// Adds c(p vᵀ + q uᵀ) to G, with u and v as they are in the scratch.
    fn add(&mut self, example: RankOne<'_, R>, c: f64) {
        let factor = &mut self.form.factor;
        if example.is_square() {
            self.scratch.add_left(factor, example.left, 2.0 * c);
        } else {
            self.scratch.add_left(factor, example.left, c);
            self.scratch.add_right(factor, example.right, c);
        }
    }
}

/// The pace of a step along several examples, given Gᵀleft and Gᵀright of each.
fn batch_pace<R: Real>(gradient: &[(RankOne<'_, R>, f64)], projected: &[f64], width: usize) -> f64 {
    // The score of p ⊗ q has the gradient p vᵀ + q uᵀ, that of x ⊗ x 2x uᵀ.
    let (mut columns, mut directions, mut owners) = (Vec::new(), Vec::new(), Vec::new());
    for (i, (example, _)) in gradient.iter().enumerate() {
        let (u, v) = projected[2 * width * i..][..2 * width].split_at(width);
        let sides = match example.is_square() {
            true => &[(example.left, v, 2.0)][..],
            false => &[(example.left, v, 1.0), (example.right, u, 1.0)][..],
        };
        for &(x, direction, share) in sides {
            columns.push((x, 1.0));
            directions.push(direction);
            owners.push((i, share));
        }
    }
    let directions = Mat::from_fn(width, columns.len(), |i, j| directions[j][i]);
    let kernel = Kernel::of(&products(&columns), &(directions.transpose() * &directions));
    let c: Vec<f64> = gradient.iter().map(|(_, c)| *c).collect();
    kernel.summed(&owners, c.len()).pace(&c)
}

impl<R: Real> Learner<R> for Flat<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        let factor = &self.form.factor;
        if !example.is_square() {
            return self.scratch.score(factor, factor, example);
        }
        let Scratch { u, v, .. } = &mut self.scratch;
        factor.expect(example.left);
        factor.project(u, example.left);
        v.copy_from_slice(u);
        dot(u, v)
    }

    descends!(R);

    fn gradient_norm(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss) -> f64 {
        let (_, slope) = loss.at(self.score(example), target);
        slope.abs() * self.pace(example).0.sqrt()
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left.max(right))
    }
}

impl<R: Real> Retract<R> for Flat<R> {
    fn prepare(&mut self, size: f64, examples: usize) {
        self.size = size / examples as f64;
    }

    fn unguard(&mut self) {
        self.size = 0.0;
    }

    fn retract(&mut self, example: RankOne<'_, R>, scale: f64, limit: f64) -> Attempt {
        let pace = self.pace(example);
        let c = scale * self.shortened(pace.0, (scale * pace.1).abs(), limit);
        let Scratch { u, v, .. } = &self.scratch;
        let (uu, vv, uv) = (dot(u, u), dot(v, v), dot(u, v));
        if uu == 0.0 && vv == 0.0 {
            return Attempt::Idle;
        }
        if !(fits(example.left, v, 2.0 * c) && fits(example.right, u, 2.0 * c)) {
            return Attempt::Refused;
        }
        self.add(example, c);
        // 2⟨G, D⟩ + ‖D‖² for the change D = c(p vᵀ + q uᵀ).
        let gain = 4.0 * c * uv + c * c * pace.0;
        let rows = example.left.len() + example.right.len();
        self.form.after_row_update(rows, gain);
        Attempt::Moved
    }

    fn retract_batch(&mut self, gradient: &[(RankOne<'_, R>, f64)], limit: f64) -> Attempt {
        let width = self.scratch.u.len();
        let mut projected = vec![0.0; 2 * width * gradient.len()];
        let (mut still, mut sound, mut spread) = (true, true, 0.0);
        for (&(example, c), out) in gradient.iter().zip(projected.chunks_exact_mut(2 * width)) {
            self.score(example);
            let (_, own) = self.pace(example);
            let Scratch { u, v, .. } = &self.scratch;
            out[..width].copy_from_slice(u);
            out[width..].copy_from_slice(v);
            still &= dot(u, u) == 0.0 && dot(v, v) == 0.0;
            sound &= fits(example.left, v, 2.0 * c) && fits(example.right, u, 2.0 * c);
            spread += c.abs() * own;
        }
        if still {
            return Attempt::Idle;
        }
        if !sound {
            return Attempt::Refused;
        }
        let pace = match self.guarded && limit.is_finite() {
            true => batch_pace(gradient, &projected, width),
            false => 0.0,
        };
        let shorter = self.shortened(pace, spread, limit);
        let mut gain = 0.0;
        for after in [false, true] {
            for (&(example, c), old) in gradient.iter().zip(projected.chunks_exact(2 * width)) {
                let (u, v) = old.split_at(width);
                if after {
                    self.score(example);
                    // ⟨D, G⟩ + ⟨D, G'⟩ = ‖G'‖² − ‖G‖², term by term.
                    let now = dot(v, &self.scratch.u) + dot(u, &self.scratch.v);
                    gain += c * shorter * (2.0 * dot(u, v) + now);
                } else {
                    self.scratch.u.copy_from_slice(u);
                    self.scratch.v.copy_from_slice(v);
                    self.add(example, c * shorter);
                }
            }
        }
        let rows = gradient.iter().map(|(e, _)| e.left.len() + e.right.len());
        self.form.after_row_update(rows.sum(), gain);
        Attempt::Moved
    }

    fn renew(&mut self) -> bool {
        false
    }
}
