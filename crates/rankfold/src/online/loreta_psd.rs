//! LORETA-1-PSD on W = Ỹ K Ỹᵀ: the symmetrized rank-one gradient Sym(pqᵀ) and a
//! second-order retraction to positive semi-definite matrices of rank k.
//!
//! With D = [p q] and Π = ½[[0,1],[1,0]] the gradient is D Π Dᵀ, of rank two.
//! The common motion of all rows goes into K, the rest touches the support of
//! p and q. I − ½S + ⅜S² of a symmetric S has eigenvalues ≥ 5/6, so K stays
//! positive definite for any step.
//!
//! Cost: O((nnz p + nnz q) k + k²). Reference: [Shalit2012], algorithm 5.

use super::loreta::{RANK_LOSS, row_fits, set_row};
use super::loreta_batch::Kept;
use super::{
    Attempt, Learned, Learner, Mixed, RankOne, Retract, Step, descend, descend_mixed, loreta_batch,
};
use crate::form::{Psd, Tall};
use crate::kernel::{dot, padded};
use crate::linalg::solve_tiny;
use crate::{Loss, Real, Result};

/// Online learning on the manifold of rank-k positive semi-definite matrices.
#[derive(Debug, Clone)]
pub struct LoretaPsd<R> {
    form: Psd<R>,
    scratch: Scratch<R>,
    /// Of the batch at work.
    kept: Kept,
}

/// k×2 blocks of a step as pairs of padded columns, named as in the algorithm.
#[derive(Debug, Clone)]
struct Scratch<R> {
    u: [Vec<f64>; 2],
    kv: Vec<f64>,
    h: [Vec<f64>; 2],
    x: [Vec<f64>; 2],
    z: [Vec<f64>; 2],
    t: [Vec<f64>; 4],
    row: Vec<R>,
}

type Two = [[f64; 2]; 2];

fn times(a: Two, b: Two) -> Two {
    std::array::from_fn(|i| std::array::from_fn(|j| a[i][0] * b[0][j] + a[i][1] * b[1][j]))
}

fn plus(a: Two, b: Two) -> Two {
    std::array::from_fn(|i| std::array::from_fn(|j| a[i][j] + b[i][j]))
}

fn transposed(a: Two) -> Two {
    std::array::from_fn(|i| std::array::from_fn(|j| a[j][i]))
}

fn scaled(c: f64, a: Two) -> Two {
    a.map(|row| row.map(|e| c * e))
}

const UNIT: Two = [[1.0, 0.0], [0.0, 1.0]];
const PI: Two = [[0.0, 0.5], [0.5, 0.0]];

/// a (I + b)⁻¹, and det(I + b).
fn over_unit_plus(a: Two, b: Two) -> (Two, f64) {
    let m = plus(UNIT, b);
    let determinant = m[0][0] * m[1][1] - m[0][1] * m[1][0];
    let adjugate = [[m[1][1], -m[0][1]], [-m[1][0], m[0][0]]];
    (scaled(1.0 / determinant, times(a, adjugate)), determinant)
}

/// out[c] = Σ_d columns[d] · m[d][c].
fn combine<const D: usize, const C: usize>(
    out: &mut [Vec<f64>],
    columns: [&[f64]; D],
    m: [[f64; C]; D],
) {
    for (c, target) in out[..C].iter_mut().enumerate() {
        for (i, entry) in target.iter_mut().enumerate() {
            *entry = (0..D).map(|d| columns[d][i] * m[d][c]).sum();
        }
    }
}

/// tr(Σ w[i][j] columns[i] columns[j]ᵀ).
fn weighted_trace<const N: usize>(w: &[[f64; N]; N], columns: [&Vec<f64>; N]) -> f64 {
    let mut sum = 0.0;
    for i in 0..N {
        for j in 0..N {
            sum += w[i][j] * dot(columns[i], columns[j]);
        }
    }
    sum
}

impl<R: Real> LoretaPsd<R> {
    /// Starts from a form.
    pub fn new(mut form: Psd<R>) -> Self {
        form.make_tracked();
        let zeros = || vec![0.0; padded(form.rank())];
        let pair = || [zeros(), zeros()];
        let scratch = Scratch {
            u: pair(),
            kv: zeros(),
            h: pair(),
            x: pair(),
            z: pair(),
            t: [zeros(), zeros(), zeros(), zeros()],
            row: vec![R::default(); padded(form.rank())],
        };
        LoretaPsd {
            form,
            scratch,
            kept: Kept::default(),
        }
    }

    form_access!(mut Psd<R>);
}

impl<R: Real> Learner<R> for LoretaPsd<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        let Scratch { u, kv, .. } = &mut self.scratch;
        self.form.factor.expect(example.left);
        self.form.factor.expect(example.right);
        self.form.factor.project(&mut u[0], example.left);
        self.form.factor.project(&mut u[1], example.right);
        self.form.core.multiply_transposed(kv, &u[1]);
        dot(&u[0], kv)
    }

    descends!(R);

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left.max(right))
    }
}

impl<R: Real> Retract<R> for LoretaPsd<R> {
    fn keep(&mut self) {
        self.kept.push(&self.scratch.u[0], &self.scratch.u[1]);
    }

    fn retract_batch(&mut self, gradient: &[(RankOne<'_, R>, f64)], limit: f64) -> Attempt {
        if let &[(example, scale)] = gradient {
            // A step on one example is the same, and costs less.
            let [u, v] = &mut self.scratch.u;
            if !self.kept.take_one(u, v) {
                self.score(example);
            }
            return self.retract(example, scale, limit);
        }
        let attempt = loreta_batch::retract_psd(&mut self.form, gradient, &mut self.kept, limit);
        // A second attempt is one in another gauge.
        self.kept.clear();
        attempt
    }

    fn retract(&mut self, example: RankOne<'_, R>, mut scale: f64, limit: f64) -> Attempt {
        let form = &mut self.form;
        let Scratch {
            u, h, x, z, t, row, ..
        } = &mut self.scratch;

        form.factor.gram_inverse.multiply_transposed_pair(h, u);
        form.core_inverse.multiply_transposed_pair(x, h);
        if dot(&x[0], &x[0]) == 0.0 && dot(&x[1], &x[1]) == 0.0 {
            return Attempt::Idle;
        }
        // p = scale · left; the eigenvalues of the step are linear in it.
        let (n1, s, n2) = (dot(&h[0], &x[0]), dot(&h[0], &x[1]), dot(&h[1], &x[1]));
        let largest = 0.5 * (s.abs() + (n1 * n2).max(0.0).sqrt());
        if largest * scale.abs() > limit {
            scale = limit.copysign(scale) / largest;
        }
        for vector in [&mut u[0], &mut h[0], &mut x[0]] {
            vector.iter_mut().for_each(|e| *e *= scale);
        }
        form.factor.gram_inverse.multiply_transposed_pair(z, x);

        let gamma: Two = [[n1 * scale * scale, s * scale], [s * scale, n2]];
        let theta = plus(scaled(-0.5, PI), scaled(0.375, times(PI, times(gamma, PI))));
        let numerator = plus(UNIT, scaled(-0.5, times(gamma, PI)));
        let (f, f_det) = over_unit_plus(numerator, times(gamma, theta));
        let phi = times(PI, f);
        let e = plus(scaled(2.0, theta), times(theta, times(gamma, theta)));
        let (e_inverse, e_det) = over_unit_plus(e, times(gamma, e));

        let across = scale * example.left.dot(example.right);
        let products: Two = [
            [scale * scale * example.left.squared_norm(), across],
            [across, example.right.squared_norm()],
        ];
        // S' = S + M N Mᵀ with M = [U X]; S⁻¹' = S⁻¹ − T N(I + CN)⁻¹ Tᵀ with
        // T = S⁻¹M = [H Z] and C = MᵀT.
        let corner = times(transposed(phi), times(products, phi));
        let n: [[f64; 4]; 4] = std::array::from_fn(|i| {
            std::array::from_fn(|j| match (i / 2, j / 2) {
                (0, 0) => 0.0,
                (0, _) => phi[i][j - 2],
                (_, 0) => phi[j][i - 2],
                _ => corner[i - 2][j - 2],
            })
        });
        let m = [&u[0], &u[1], &x[0], &x[1]];
        let tm = [&h[0], &h[1], &z[0], &z[1]];
        let c: [[f64; 4]; 4] = std::array::from_fn(|i| std::array::from_fn(|j| dot(m[i], tm[j])));
        let product = |a: &[[f64; 4]; 4], b: &[[f64; 4]; 4]| -> [[f64; 4]; 4] {
            std::array::from_fn(|i| {
                std::array::from_fn(|j| (0..4).map(|l| a[i][l] * b[l][j]).sum())
            })
        };
        // N(I + CN)⁻¹ = (I + NC)⁻¹N.
        let mut system = product(&n, &c);
        for (i, line) in system.iter_mut().enumerate() {
            line[i] += 1.0;
        }
        let mut middle = n;
        let ratio = solve_tiny(system, &mut middle);

        // L = Φ Xᵀ: one row for p, one for q.
        combine(t, [&x[0], &x[1]], transposed(phi));
        let after = form
            .factor
            .health_after(weighted_trace(&n, m), -weighted_trace(&middle, tm));
        let finite = |a: &[[f64; 4]; 4]| a.iter().flatten().all(|e| e.is_finite());
        let healthy = ratio > RANK_LOSS
            && ratio.is_finite()
            && f_det != 0.0
            && e_det > 0.0
            && finite(&n)
            && finite(&middle)
            && e.iter().chain(&e_inverse).flatten().all(|v| v.is_finite())
            && tm.iter().chain(&m).all(|v| dot(v, v).is_finite())
            && row_fits::<R>(&t[0], scale)
            && row_fits::<R>(&t[1], 1.0)
            && Tall::<R>::in_range(after.size);
        if !healthy {
            return Attempt::Refused;
        }
        let gains = [
            weighted_trace(&e, [&h[0], &h[1]]),
            -weighted_trace(&e_inverse, [&x[0], &x[1]]),
        ];
        let now = form.joint_health(after, gains);
        if !now.is_regular(after.condition) {
            return Attempt::Worn;
        }

        // Ỹ[supp] += D L.
        set_row(row, &t[0], scale);
        form.factor.add_outer(example.left, row);
        set_row(row, &t[1], 1.0);
        form.factor.add_outer(example.right, row);

        combine(t, m.map(|v| &v[..]), n);
        let [t0, t1, t2, t3] = &*t;
        let update = [&t0[..], t1, t2, t3];
        form.factor.gram.add_outer(update, m.map(|v| &v[..]));
        combine(t, tm.map(|v| &v[..]), middle.map(|line| line.map(|e| -e)));
        let [t0, t1, t2, t3] = &*t;
        let update = [&t0[..], t1, t2, t3];
        form.factor
            .gram_inverse
            .add_outer(update, tm.map(|v| &v[..]));

        combine(t, [&h[0], &h[1]], e);
        form.core.add_outer([&t[0], &t[1]], [&h[0], &h[1]]);
        combine(t, [&x[0], &x[1]], scaled(-1.0, e_inverse));
        form.core_inverse.add_outer([&t[0], &t[1]], [&x[0], &x[1]]);

        form.after_update(example.left.len() + example.right.len(), now);
        Attempt::Moved
    }

    fn renew(&mut self) -> bool {
        self.form.is_stale() && self.form.refresh()
    }
}
