//! Gradient descent on the factors themselves: the plain alternative that the
//! manifold methods are measured against.
//!
//! W = A Bᵀ moves by A −= η s p (Bᵀq)ᵀ and B −= η s q (Aᵀp)ᵀ, both from the old
//! pair, where s is the slope of the loss. The steps depend on how W is factored, and
//! nothing keeps them from running away: [Shalit2012] calls them unstable. For
//! symmetric matrices see [`Flat`](super::Flat).
//!
//! With the regularizer λ/2 (‖A‖² + ‖B‖²) both factors also shrink by 1 − ηλ (maximum
//! margin matrix factorization). All rows share that factor, so it is kept beside
//! them as a number, in the core c² I, and folded into the rows when it has become
//! small: W = (cÃ)(cB̃)ᵀ, and a step still touches the rows of its example only.
//!
//! Cost: O((nnz p + nnz q) k). References: [Shalit2012], section 7; [Meyer2011],
//! section 5.

use super::{Learned, Learner, Outcome, RankOne, Step};
use crate::form::{Factored, Full, Tall};
use crate::kernel::{dot, padded};
use crate::{Loss, Real, Result, SparseRow};

/// The shared factor of the rows is folded into them below this.
const SMALL: f64 = 1e-2;

/// Gradient descent on A and B.
#[derive(Debug, Clone)]
pub struct Gradient<R> {
    form: Factored<R>,
    regularization: f64,
    scratch: Scratch<R>,
}

/// Projections of the two sides of an example, and the row that is added.
#[derive(Debug, Clone)]
pub(super) struct Scratch<R> {
    /// Aᵀp.
    pub u: Vec<f64>,
    /// Bᵀq.
    pub v: Vec<f64>,
    row: Vec<R>,
}

impl<R: Real> Scratch<R> {
    pub fn new(rank: usize) -> Self {
        Scratch {
            u: vec![0.0; padded(rank)],
            v: vec![0.0; padded(rank)],
            row: vec![R::default(); padded(rank)],
        }
    }

    pub fn score(&mut self, left: &Tall<R>, right: &Tall<R>, example: RankOne<'_, R>) -> f64 {
        left.expect(example.left);
        right.expect(example.right);
        left.project(&mut self.u, example.left);
        right.project(&mut self.v, example.right);
        dot(&self.u, &self.v)
    }

    /// What a step of c along the gradient of the example just scored would come
    /// to.
    fn outcome(&self, example: RankOne<'_, R>, c: f64) -> Outcome {
        let Scratch { u, v, .. } = self;
        if dot(u, u) == 0.0 && dot(v, v) == 0.0 {
            Outcome::Idle
        } else if fits(example.left, v, c) && fits(example.right, u, c) {
            Outcome::Moved
        } else {
            Outcome::Refused
        }
    }

    /// `tall += c · x wᵀ`.
    fn add(row: &mut [R], tall: &mut Tall<R>, x: SparseRow<'_, R>, w: &[f64], c: f64) {
        for (r, w) in row.iter_mut().zip(w) {
            *r = R::from_f64(c * w);
        }
        tall.add_outer(x, row);
    }

    /// Adds c · p vᵀ to A.
    pub fn add_left(&mut self, tall: &mut Tall<R>, x: SparseRow<'_, R>, c: f64) {
        Self::add(&mut self.row, tall, x, &self.v, c);
    }

    /// Adds c · q uᵀ to B.
    pub fn add_right(&mut self, tall: &mut Tall<R>, x: SparseRow<'_, R>, c: f64) {
        Self::add(&mut self.row, tall, x, &self.u, c);
    }
}

/// Whether c · x wᵀ can be added to rows in their precision any number of times
/// that a run may have.
pub(super) fn fits<R: Real>(x: SparseRow<'_, R>, w: &[f64], c: f64) -> bool {
    let change = c.abs() * (x.squared_norm() * dot(w, w)).sqrt();
    change < R::MAX / 1e9 && (c.abs() * dot(w, w).sqrt()) < R::MAX / 1e9
}

impl<R: Real> Gradient<R> {
    /// Starts from a form, without a regularizer. Its factors are A and B, so they must not change
    /// behind the learner's back: no Gram matrix is kept, no gauge chosen.
    pub fn new(mut form: Factored<R>) -> Self {
        form.make_scaled();
        let scratch = Scratch::new(form.rank());
        Gradient {
            form,
            regularization: 0.0,
            scratch,
        }
    }

    /// The same with the regularizer λ/2 (‖A‖² + ‖B‖²).
    pub fn regularized(mut self, lambda: f64) -> Self {
        self.regularization = lambda;
        self
    }

    /// Multiplies A and B by a number above 0.
    fn shrink(&mut self, keep: f64) {
        let scale = self.form.core.get(0, 0).sqrt() * keep;
        if scale > SMALL {
            self.form.set_scale(scale);
        } else {
            self.form.fold_scale(scale);
        }
    }

    form_access!(mut Factored<R>);
}

/// What a step that moves W by `act` comes to; `act` says whether it could.
pub(super) fn moved(
    score: f64,
    (loss, slope): (f64, f64),
    act: impl FnOnce(f64) -> Outcome,
) -> Learned {
    let outcome = if slope == 0.0 {
        Outcome::Idle
    } else if !slope.is_finite() {
        Outcome::Refused
    } else {
        act(slope)
    };
    Learned {
        score,
        loss,
        outcome,
    }
}

/// One step on a full matrix: W −= s τ p qᵀ. `tau` gets the loss, its slope s and
/// ‖p‖²‖q‖², which is above 0.
pub(super) fn step_full<R: Real>(
    form: &mut Full<R>,
    example: RankOne<'_, R>,
    target: f64,
    loss: Loss,
    tau: impl FnOnce(f64, f64, f64) -> f64,
) -> Learned {
    let score = form.score(example.left, example.right);
    let at = loss.at(score, target);
    moved(score, at, |slope| {
        let size = example.left.squared_norm() * example.right.squared_norm();
        if size == 0.0 {
            return Outcome::Idle;
        }
        let tau = tau(at.0, slope, size);
        let change = tau * slope.abs() * size.sqrt();
        if change.is_nan() || change >= R::MAX / 1e9 {
            return Outcome::Refused;
        }
        form.add_outer(example.left, example.right, -slope * tau);
        Outcome::Moved
    })
}

impl<R: Real> Learner<R> for Gradient<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        let Factored {
            left, right, core, ..
        } = &self.form;
        core.get(0, 0) * self.scratch.score(left, right, example)
    }

    fn learn(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss, step: Step) -> Learned {
        let score = self.score(example);
        let keep = 1.0 - step.size * self.regularization;
        let (value, slope) = loss.at(score, target);
        let mut learned = moved(score, (value, slope), |slope| {
            // c'Ã' = (1 − ηλ)cÃ − η s p (c v)ᵀ with c' = (1 − ηλ)c.
            let c = -step.size * slope / keep;
            let outcome = match keep > 0.0 {
                true => self.scratch.outcome(example, c),
                false => Outcome::Refused,
            };
            if outcome != Outcome::Moved {
                return outcome;
            }
            self.scratch.add_left(&mut self.form.left, example.left, c);
            self.scratch
                .add_right(&mut self.form.right, example.right, c);
            outcome
        });
        if keep != 1.0 && keep > 0.0 && learned.outcome != Outcome::Refused {
            self.shrink(keep);
            learned.outcome = Outcome::Moved;
        }
        learned
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left, right)
    }
}
