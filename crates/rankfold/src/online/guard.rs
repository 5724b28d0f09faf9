//! How far one step may go where steps have a limit.
//!
//! Two rules shorten a step. The first bounds the relative change of W: each geometry
//! measures it in its own metric. The second keeps a step from overshooting its target.
//!
//! To first order, a step along Σ cⱼ ∇sⱼ changes score i by dᵢ = Σ κᵢⱼcⱼ, where
//! κᵢⱼ = ⟨∇sᵢ, ∇sⱼ⟩ in the metric. For one example c = −η · slope, and a squared loss is
//! least where ηκ = 1. For p examples cᵢ = −η/p · slopeᵢ, and the mean squared loss is
//! least along the step where η/p · Σdᵢ²/Σcᵢdᵢ = 1. So a batch has the pace Σdᵢ²/Σcᵢdᵢ
//! and the size η/p. Two cases show what that means:
//! - p equal examples have the pace pκ and move as one of them does;
//! - p examples with orthogonal gradients have the pace κ, and each may reach its
//!   target, which takes a step p times as long.

use crate::linalg::symmetric;
use faer::Mat;

/// The factor that keeps a step of this size from overshooting, where a score moves by
/// `pace` for each unit of size and slope. For squared errors a limit of 2 stops at the
/// target.
pub(super) fn not_beyond(size: f64, pace: f64, limit: f64) -> f64 {
    let reach = 0.5 * limit;
    match size * pace > reach {
        true => reach / (size * pace),
        false => 1.0,
    }
}

/// The factor that also keeps the relative change of W, `change` for the whole step, at
/// `most` or below.
pub(super) fn shortened(size: f64, pace: f64, limit: f64, change: f64, most: f64) -> f64 {
    let shorter = not_beyond(size, pace, limit);
    match shorter * change > most {
        true => most / change,
        false => shorter,
    }
}

/// Σdᵢ²/Σcᵢdᵢ for pairs of cᵢ and dᵢ; 0 where nothing moves.
pub(super) fn pace(changes: &[(f64, f64)]) -> f64 {
    // Divided by the largest, so that squares of extreme numbers stay in range.
    let c_most = changes.iter().fold(0.0, |m: f64, (c, _)| m.max(c.abs()));
    let d_most = changes.iter().fold(0.0, |m: f64, (_, d)| m.max(d.abs()));
    if d_most.is_infinite() {
        return f64::INFINITY;
    }
    let (mut squares, mut along) = (0.0, 0.0);
    for (c, d) in changes {
        squares += (d / d_most).powi(2);
        along += c / c_most * (d / d_most);
    }
    match along > 0.0 {
        true => d_most / c_most * (squares / along),
        false => 0.0,
    }
}

/// The products ⟨∇sᵢ, ∇sⱼ⟩ of the gradients of several scores, or a part of them.
pub(super) struct Kernel(pub Mat<f64>);

impl Kernel {
    /// The products of a and b, entry by entry: those of the outer products of two
    /// vectors each, where a and b have the products of the vectors.
    pub fn of(a: &Mat<f64>, b: &Mat<f64>) -> Self {
        Kernel(Mat::from_fn(a.nrows(), a.ncols(), |i, j| {
            a[(i, j)] * b[(i, j)]
        }))
    }

    /// The products of sums of terms: the score that owns each term, and its weight.
    pub fn summed(&self, owners: &[(usize, f64)], scores: usize) -> Self {
        let mut out = Mat::zeros(scores, scores);
        for (s, &(i, a)) in owners.iter().enumerate() {
            for (t, &(j, b)) in owners.iter().enumerate() {
                out[(i, j)] += a * b * self.0[(s, t)];
            }
        }
        Kernel(out)
    }

    /// cᵢ and dᵢ of a step.
    fn changes(&self, c: &[f64]) -> Vec<(f64, f64)> {
        let change = |i: usize| (0..c.len()).map(|j| self.0[(i, j)] * c[j]).sum();
        (0..c.len()).map(|i| (c[i], change(i))).collect()
    }

    /// ‖Σ cᵢ∇sᵢ‖.
    pub fn length(&self, c: &[f64]) -> f64 {
        let products = self.changes(c).into_iter().map(|(c, d)| c * d);
        products.sum::<f64>().max(0.0).sqrt()
    }

    /// The pace of a step along Σ cᵢ∇sᵢ.
    pub fn pace(&self, c: &[f64]) -> f64 {
        pace(&self.changes(c))
    }
}

/// ⟨Sym(aᵢbᵢᵀ), Sym(aⱼbⱼᵀ)⟩ for the columns of two matrices.
pub(super) fn symmetric_products(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let (aa, bb, ab) = (a.transpose() * a, b.transpose() * b, a.transpose() * b);
    Mat::from_fn(a.ncols(), a.ncols(), |i, j| {
        0.5 * (aa[(i, j)] * bb[(i, j)] + ab[(i, j)] * ab[(j, i)])
    })
}

/// The largest magnitude of an eigenvalue of a symmetric matrix; not a number where
/// that cannot be had.
pub(super) fn spectral_norm(m: &Mat<f64>) -> f64 {
    match symmetric::eigen(m) {
        Some((values, _)) => values.iter().fold(0.0, |most: f64, v| most.max(v.abs())),
        None => f64::NAN,
    }
}
