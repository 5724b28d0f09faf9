//! Regression on positive definite matrices of full rank, by the geometries of their
//! cone, for few features.
//!
//! With M = e Sym(X), the gradient of the loss, and s the size of the step:
//!
//! | update | W becomes |
//! |---|---|
//! | flat, W = GGᵀ | (I − 2sM) W (I − 2sM) |
//! | affine-invariant | W^½ exp(−s W^½MW^½) W^½ |
//! | its first order, LogDet | W − s WMW, refused where that is not positive definite |
//! | log-Euclidean | exp(S − s Dexp(S)[M]), S = log W |
//! | von Neumann | exp(S − s M) |
//!
//! The last is mirror descent (matrix exponentiated gradient), which [Meyer2011b] prints
//! as the log-Euclidean update; the one before is the gradient step in S, with the
//! derivative of the exponential, which is M times divided differences in the
//! eigenbasis of S. No factor G is needed for the first: what G does to W is all that
//! is seen of it.
//!
//! Where steps have a limit, half of it bounds how much W, or its logarithm, changes
//! relative to itself, and a step ends where it would overshoot its target, to first
//! order.
//!
//! Cost: O(n²) for x ⊗ x with the first three, else O(n³); O(n²) memory.
//! References: [Meyer2011b], section 4; [Davis2007]; [Tsuda2005].

use super::guard;
use super::{
    Attempt, Learned, Learner, Mixed, RankOne, Retract, Step, descend, descend_mixed, descend_sum,
};
use crate::form::Full;
use crate::linalg::symmetric;
use crate::{Loss, Real, Result};
use faer::{Mat, Scale};

/// The largest change of a logarithm of W in one step.
const LARGEST_EXPONENT: f64 = 300.0;

/// How W moves on the cone of positive definite matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConeUpdate {
    /// Gradient descent on a square root.
    Flat,
    /// A geodesic of the affine-invariant metric.
    Affine,
    /// Its first order: a step of the LogDet divergence.
    LogDet,
    /// Gradient descent on the logarithm.
    Log,
    /// Mirror descent by the von Neumann divergence.
    VonNeumann,
}

/// Online learning of a positive definite matrix of full rank.
#[derive(Debug, Clone)]
pub struct Cone<R> {
    form: Full<R>,
    update: ConeUpdate,
    /// Size of the step over the number of its examples.
    size: f64,
    /// Wx, x and what is added with either.
    vectors: [Vec<f64>; 3],
}

impl<R: Real> Cone<R> {
    /// Starts from a symmetric positive definite matrix.
    pub fn new(form: Full<R>, update: ConeUpdate) -> Self {
        Cone {
            form,
            update,
            size: 0.0,
            vectors: [Vec::new(), Vec::new(), Vec::new()],
        }
    }

    form_access!(Full<R>);

    learn_sum!(R);

    /// The step along c · x ⊗ x of the updates that are W + a bᵀ + b aᵀ then.
    fn step_square(&mut self, example: RankOne<'_, R>, mut c: f64, limit: f64) -> Attempt {
        let n = self.form.shape().0;
        let x = example.left.below(n);
        let [z, wide, other] = &mut self.vectors;
        for vector in [&mut *z, &mut *wide, &mut *other] {
            vector.clear();
            vector.resize(n, 0.0);
        }
        self.form.project(z, x);
        x.iter().for_each(|(i, v)| wide[i as usize] = v.to_f64());
        let score: f64 = x.iter().map(|(i, v)| v.to_f64() * z[i as usize]).sum();
        let xx = x.squared_norm();
        if xx == 0.0 {
            return Attempt::Idle;
        }
        let (relative, pace) = match self.update {
            ConeUpdate::Flat => (2.0 * xx, 4.0 * xx * score),
            _ => (score, score * score),
        };
        c *= guard::shortened(self.size, pace, limit, c.abs() * relative, 0.5 * limit);
        let weight = match self.update {
            // (I + 2c xxᵀ) W (I + 2c xxᵀ).
            ConeUpdate::Flat => 2.0 * c,
            ConeUpdate::LogDet if 1.0 + c * score > 0.0 => 0.5 * c,
            ConeUpdate::Affine if (c * score).abs() < LARGEST_EXPONENT => {
                0.5 * (c * score).exp_m1() / score
            }
            _ => return Attempt::Refused,
        };
        if self.update == ConeUpdate::Flat {
            for ((o, z), x) in other.iter_mut().zip(&*z).zip(&*wide) {
                *o = weight * z + 0.5 * weight * weight * score * x;
            }
        } else {
            for (o, (x, z)) in other.iter_mut().zip(wide.iter_mut().zip(&*z)) {
                *x = *z;
                *o = weight * z;
            }
        }
        // Rounding may have taken W's definiteness; a step from there would be wild.
        let largest = |v: &[f64]| v.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        let change = largest(wide) * other.iter().map(|o| o.abs()).sum::<f64>();
        if !(score > 0.0 && change < R::MAX / 1e9) {
            return Attempt::Refused;
        }
        self.form.add_symmetric(wide, other);
        Attempt::Moved
    }

    /// The step along M, the sum of a gradient: W as it will be, `None` where it is
    /// refused.
    fn step_dense(
        &self,
        m: &Mat<f64>,
        gradient: &[(RankOne<'_, R>, f64)],
        limit: f64,
    ) -> Option<Mat<f64>> {
        let w = symmetric::part(&self.form.to_faer());
        let n = w.nrows();
        // How far W moves relative to itself along M, and by what to first order.
        let shorter = |relative: f64, change: &dyn Fn() -> Mat<f64>| {
            let pace = match self.size > 0.0 && limit.is_finite() {
                true => pace(gradient, &change()),
                false => 0.0,
            };
            let shorter = guard::shortened(self.size, pace, limit, relative, 0.5 * limit);
            (shorter * relative < LARGEST_EXPONENT).then_some(shorter)
        };
        if self.update == ConeUpdate::Flat {
            let mw = m * &w;
            let change = || Scale(2.0) * (&mw + mw.transpose());
            let shorter = shorter(2.0 * m.norm_l2(), &change)?;
            let a = Scale(2.0 * shorter) * m + Mat::<f64>::identity(n, n);
            return Some(&a * w * &a);
        }
        // All others in the eigenbasis of W.
        let (values, v) = symmetric::eigen(&w)?;
        if values.iter().any(|&value| value <= 0.0) {
            return None;
        }
        let turned = v.transpose() * m * &v;
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let spread = |slope: &dyn Fn(usize, usize) -> f64| {
            Mat::from_fn(n, n, |i, j| turned[(i, j)] * slope(i, j))
        };
        let back = |middle: Mat<f64>| &v * symmetric::part(&middle) * v.transpose();
        let on_log = |change: Mat<f64>| {
            let log = Mat::from_fn(n, n, |i, j| match i == j {
                true => logs[i] + change[(i, j)],
                false => change[(i, j)],
            });
            symmetric::exp(&symmetric::part(&log)).map(back)
        };
        match self.update {
            ConeUpdate::Affine | ConeUpdate::LogDet => {
                let roots: Vec<f64> = values.iter().map(|value| value.sqrt()).collect();
                let inner = spread(&|i, j| roots[i] * roots[j]);
                let change = || back(spread(&|i, j| values[i] * values[j]));
                let inner = Scale(shorter(inner.norm_l2(), &change)?) * &inner;
                let factor = match self.update {
                    ConeUpdate::Affine => symmetric::exp(&symmetric::part(&inner))?,
                    _ => inner + Mat::<f64>::identity(n, n),
                };
                // W' = W^½ F W^½ is as definite as F.
                let (eigenvalues, _) = symmetric::eigen(&symmetric::part(&factor))?;
                let definite = eigenvalues.iter().all(|&value| value > 0.0);
                definite.then(|| {
                    back(Mat::from_fn(n, n, |i, j| {
                        roots[i] * factor[(i, j)] * roots[j]
                    }))
                })
            }
            ConeUpdate::VonNeumann => {
                let change = || back(spread(&|i, j| divided(logs[i], logs[j])));
                on_log(Scale(shorter(turned.norm_l2(), &change)?) * &turned)
            }
            _ => {
                let log = spread(&|i, j| divided(logs[i], logs[j]));
                let change = || back(spread(&|i, j| divided(logs[i], logs[j]).powi(2)));
                on_log(Scale(shorter(log.norm_l2(), &change)?) * &log)
            }
        }
    }
}

/// The pace of a step that changes W like this to first order.
fn pace<R: Real>(gradient: &[(RankOne<'_, R>, f64)], change: &Mat<f64>) -> f64 {
    let n = change.nrows();
    let moved = |example: &RankOne<'_, R>| -> f64 {
        let entries = example.left.below(n).iter().map(|(i, v)| {
            let products = example.right.below(n).iter();
            let products = products.map(|(j, w)| w.to_f64() * change[(i as usize, j as usize)]);
            v.to_f64() * products.sum::<f64>()
        });
        entries.sum()
    };
    let changes: Vec<_> = gradient.iter().map(|(e, c)| (*c, moved(e))).collect();
    guard::pace(&changes)
}

/// (eᵃ − eᵇ)/(a − b), whose limit is eᵃ.
fn divided(a: f64, b: f64) -> f64 {
    let half = 0.5 * (a - b);
    let ratio = match half.abs() < 1e-3 {
        true => 1.0 + half * half / 6.0 * (1.0 + half * half / 20.0),
        false => half.sinh() / half,
    };
    (0.5 * (a + b)).exp() * ratio
}

impl<R: Real> Learner<R> for Cone<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        self.form.score(example.left, example.right)
    }

    descends!(R);

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        let size = left.max(right);
        self.form.grow(size, size)
    }
}

impl<R: Real> Retract<R> for Cone<R> {
    fn prepare(&mut self, size: f64, examples: usize) {
        self.size = size / examples as f64;
    }

    fn unguard(&mut self) {
        self.size = 0.0;
    }

    fn retract(&mut self, example: RankOne<'_, R>, scale: f64, limit: f64) -> Attempt {
        use ConeUpdate::{Affine, Flat, LogDet};
        match self.update {
            Flat | Affine | LogDet if example.is_square() => {
                self.step_square(example, scale, limit)
            }
            _ => self.retract_batch(&[(example, scale)], limit),
        }
    }

    fn retract_batch(&mut self, gradient: &[(RankOne<'_, R>, f64)], limit: f64) -> Attempt {
        let n = self.form.shape().0;
        let mut m = Mat::zeros(n, n);
        for &(example, c) in gradient {
            for (i, v) in example.left.below(n).iter() {
                for (j, w) in example.right.below(n).iter() {
                    let half = 0.5 * c * v.to_f64() * w.to_f64();
                    m[(i as usize, j as usize)] += half;
                    m[(j as usize, i as usize)] += half;
                }
            }
        }
        if m.norm_l2() == 0.0 {
            return Attempt::Idle;
        }
        let next = self.step_dense(&m, gradient, limit);
        match next.filter(|w| w.norm_l2() < R::MAX / 1e9) {
            Some(w) => {
                self.form.assign(&w);
                Attempt::Moved
            }
            None => Attempt::Refused,
        }
    }

    fn renew(&mut self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divided_differences_are_those_of_the_exponential() {
        for (a, b) in [(1.0, -2.0), (0.3, 0.3), (0.5, 0.5 + 1e-9), (2.0, 2.001)] {
            let (a, b): (f64, f64) = (a, b);
            let plain = match a == b {
                true => a.exp(),
                false => b.exp() * (a - b).exp_m1() / (a - b),
            };
            assert!((divided(a, b) / plain - 1.0).abs() < 1e-14, "{a} {b}");
        }
    }
}
