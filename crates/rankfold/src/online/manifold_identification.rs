//! Manifold identification: between LORETA steps, cheap full-rank steps on the
//! small matrix in the middle.
//!
//! A round is one LORETA-1 step on W = A Bᵀ, then s gradient steps on M in
//! W = A M Bᵀ, which start at M = I, then M = U Σ Vᵀ, A ← A U Σ^½, B ← B V Σ^½.
//! The steps on M depend on which A and B stand beside it, so the form keeps
//! the maps C and D from its stored factors to these: A = Ã C, B = B̃ D. M itself
//! is C⁻¹ K D⁻ᵀ at any time, so W is whole in the middle of a round as well.
//!
//! A step on M moves W by A Aᵀ p qᵀ B Bᵀ, which grows with the square of W. So η₂ must be
//! far below η₁. M may collapse, and the authors report instability. A step that would turn
//! the determinant of M around is refused, and singular values of M are kept
//! above [`LEAST`] when they go into the factors.
//!
//! Cost: that of LORETA-1 every (s+1)-th example, O((nnz p + nnz q) k + k²) for
//! the others, and k³ a round. Reference: [Shalit2012], algorithm 6.

use super::{Learned, Learner, Loreta, Outcome, RankOne, Step};
use crate::form::{Factored, Frame};
use crate::kernel::{dot, padded};
use crate::linalg::{Square, svd};
use crate::{Loss, Real, Result};
use faer::Mat;
use faer::linalg::solvers::{DenseSolveCore, Solve};
use serde::{Deserialize, Serialize};

/// The smallest singular value that M may leave in the factors; it started at 1.
const LEAST: f64 = 1e-3;

/// The steps on M between two steps of LORETA.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InnerSteps {
    /// How many, s in the paper.
    pub count: u64,
    /// Their size as a multiple of that of LORETA: η₂/η₁.
    pub size: f64,
}

impl InnerSteps {
    /// Whether a round starts, or ends, after so many examples.
    fn is_round(&self, seen: u64) -> bool {
        seen.is_multiple_of(self.count.saturating_add(1))
    }
}

impl Default for InnerSteps {
    fn default() -> Self {
        InnerSteps {
            count: 3,
            size: 0.01,
        }
    }
}

/// LORETA-1 and gradient steps on the matrix in its middle, in turn.
#[derive(Debug, Clone)]
pub struct ManifoldIdentification<R> {
    loreta: Loreta<R>,
    inner: InnerSteps,
    /// Examples so far: where in a round it is.
    seen: u64,
    u: Vec<f64>,
    v: Vec<f64>,
    t: [Vec<f64>; 4],
}

impl<R: Real> ManifoldIdentification<R> {
    /// Starts from a form; `seen` examples came before.
    pub fn new(mut form: Factored<R>, inner: InnerSteps, seen: u64) -> Self {
        let k = form.rank();
        form.make_tracked();
        if form.frame.is_none() {
            // A = Ã and B = B̃ Kᵀ; with K = I, as at the start, both as they are.
            form.frame = Some(Frame {
                left: Square::identity(k),
                right: Square::from_fn(k, |i, j| form.core.get(j, i)),
            });
        }
        let zeros = || vec![0.0; padded(k)];
        ManifoldIdentification {
            loreta: Loreta::new(form),
            inner,
            seen,
            u: zeros(),
            v: zeros(),
            t: [zeros(), zeros(), zeros(), zeros()],
        }
    }

    /// Takes other steps on M from here on.
    pub fn set_inner_steps(&mut self, inner: InnerSteps) {
        self.inner = inner;
    }

    /// The form as it is now.
    pub fn form(&self) -> &Factored<R> {
        self.loreta.form()
    }

    /// The form, given up by the learner.
    pub fn into_form(self) -> Factored<R> {
        self.loreta.into_form()
    }

    pub(super) fn form_mut(&mut self) -> &mut Factored<R> {
        self.loreta.form_mut()
    }

    /// M += c (Aᵀp)(Bᵀq)ᵀ, as a change of K = C M Dᵀ.
    fn inner_step(&mut self, example: RankOne<'_, R>, mut c: f64, limit: f64) -> Outcome {
        let form = self.loreta.form_mut();
        let Some(frame) = &form.frame else {
            return Outcome::Refused;
        };
        form.left.project(&mut self.u, example.left);
        form.right.project(&mut self.v, example.right);
        let [f, h, x, y] = &mut self.t;
        // f = C Cᵀ u and h = D Dᵀ v.
        frame.left.multiply_transposed(x, &self.u);
        frame.left.multiply(f, x);
        frame.right.multiply_transposed(y, &self.v);
        frame.right.multiply(h, y);
        // K⁻¹ by Sherman–Morrison; det M' / det M = 1 + c hᵀ K⁻¹ f.
        form.core_inverse.multiply(x, f);
        form.core_inverse.multiply_transposed(y, h);
        if dot(f, f) == 0.0 || dot(h, h) == 0.0 {
            return Outcome::Idle;
        }
        // A limit on steps holds here too. Towards a collapse it is tighter: the
        // determinant of M may halve, not vanish.
        let per_step = dot(h, x);
        if limit.is_finite() {
            let longest = if c * per_step < 0.0 {
                0.5_f64.min(limit)
            } else {
                limit
            };
            if (c * per_step).abs() > longest {
                c = longest.copysign(c) / per_step.abs();
            }
        }
        let ratio = 1.0 + c * per_step;
        let sound = ratio > LEAST
            && (c * c * dot(f, f) * dot(h, h)).is_finite()
            && (c * c * dot(x, x) * dot(y, y)).is_finite();
        if !sound {
            return Outcome::Refused;
        }
        let (left, right) = (
            form.left.health_after(0.0, 0.0),
            form.right.health_after(0.0, 0.0),
        );
        let change = c.abs() * (dot(f, f) * dot(h, h)).sqrt();
        let inverse_change = (c / ratio).abs() * (dot(x, x) * dot(y, y)).sqrt();
        let now = form.joint_health(left, right, [change, inverse_change]);
        if !now.is_regular(left.condition.max(right.condition)) {
            return Outcome::Refused;
        }
        f.iter_mut().for_each(|e| *e *= c);
        form.core.add_outer([f], [h]);
        x.iter_mut().for_each(|e| *e *= -c / ratio);
        form.core_inverse.add_outer([x], [y]);
        form.after_update(0, now);
        Outcome::Moved
    }

    /// Ends a round: M goes into A and B.
    fn fold(&mut self) {
        let form = self.loreta.form_mut();
        let k = form.rank();
        let Some(frame) = &mut form.frame else {
            return;
        };
        let (c, d) = (frame.left.to_faer(), frame.right.to_faer());
        // M = C⁻¹ K D⁻ᵀ.
        let half = c.partial_piv_lu().solve(form.core.to_faer());
        let m = d
            .partial_piv_lu()
            .solve(half.transpose())
            .transpose()
            .to_owned();
        let Some((u, sigma, v)) = svd(&m) else {
            return;
        };
        let collapsed = sigma.iter().any(|&s| s < LEAST);
        let root = |j: usize| sigma[j].max(LEAST).sqrt();
        let scaled = |m: Mat<f64>| Mat::from_fn(k, k, |i, j| m[(i, j)] * root(j));
        let (left, right) = (scaled(&c * &u), scaled(&d * &v));
        frame.left = Square::from_faer(&left);
        frame.right = Square::from_faer(&right);
        if collapsed {
            let core = &left * right.transpose();
            form.core_inverse = Square::from_faer(&core.partial_piv_lu().inverse());
            form.core = Square::from_faer(&core);
        }
    }
}

impl<R: Real> Learner<R> for ManifoldIdentification<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        self.loreta.score(example)
    }

    fn learn(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss, step: Step) -> Learned {
        let learned = if self.inner.is_round(self.seen) {
            self.loreta.learn(example, target, loss, step)
        } else {
            let score = self.loreta.score(example);
            let (value, slope) = loss.at(score, target);
            let outcome = match slope == 0.0 {
                true => Outcome::Idle,
                false => {
                    let scale = -self.inner.size * step.size * slope;
                    self.inner_step(example, scale, step.limit)
                }
            };
            Learned {
                score,
                loss: value,
                outcome,
            }
        };
        self.seen += 1;
        if self.inner.is_round(self.seen) {
            self.fold();
        }
        learned
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.loreta.grow(left, right)
    }
}
