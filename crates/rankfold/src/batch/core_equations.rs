//! The best core S of W = U S Vᵀ for known entries, by its normal equations.
//!
//! With A_i = Σ_j v_j v_jᵀ and b_i = Σ_j y_ij v_j over the entries of row i they are
//! Σ_i (u_i u_iᵀ ⊗ A_i) vec S = Σ_i u_i ⊗ b_i. Entries are added up to A_i first, so that N
//! entries of n rows cost N k²/2 + n k⁴/4 numbers and not N k⁴; conjugate gradients cost N k for
//! each of their iterations.

use super::normal::Normal;
use super::rowwise::Rowwise;
use crate::parallel::map_blocks;
use crate::sparse::Lines;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};

/// The largest rank for which the equations, k² of them, are made.
const LARGEST: usize = 16;

/// Rows whose parts are added up together.
const ROWS: usize = 512;

/// S, or `None` where the rank is too large or the equations are not definite.
pub(super) fn core(
    rows: Lines<'_>,
    center: f64,
    (u, v): (&Mat<f64>, &Mat<f64>),
    threads: usize,
) -> Option<Mat<f64>> {
    let k = u.ncols();
    if k > LARGEST || k == 0 {
        return None;
    }
    let pairs: Vec<(usize, usize)> = (0..k).flat_map(|a| (a..k).map(move |b| (a, b))).collect();
    let other = Rowwise::from_mat(v);
    let parts = map_blocks(rows.len(), ROWS, threads, |range| {
        let (count, first) = (range.len(), range.start);
        let mut own = Mat::zeros(count, pairs.len());
        let mut sums = Mat::zeros(count, pairs.len());
        let mut right = Mat::<f64>::zeros(k, k);
        let mut normal = Normal::new(other.width);
        for i in range {
            normal.gather(rows.line(i), &other.data, k, center, None);
            for (at, &(a, b)) in pairs.iter().enumerate() {
                own[(i - first, at)] = u[(i, a)] * u[(i, b)];
                sums[(i - first, at)] = normal.a[a * normal.width + b];
            }
            for a in 0..k {
                for c in 0..k {
                    right[(a, c)] += u[(i, a)] * normal.b[c];
                }
            }
        }
        let mut left = Mat::zeros(pairs.len(), pairs.len());
        matmul(
            &mut left,
            Accum::Replace,
            own.transpose(),
            &sums,
            1.0,
            Par::Seq,
        );
        (left, right)
    });
    let mut left = Mat::<f64>::zeros(pairs.len(), pairs.len());
    let mut right = Mat::<f64>::zeros(k, k);
    for (of_left, of_right) in parts {
        left += of_left;
        right += of_right;
    }
    let mut place = vec![0; k * k];
    for (at, &(a, b)) in pairs.iter().enumerate() {
        (place[a * k + b], place[b * k + a]) = (at, at);
    }
    // S is read row by row: unknown a k + c is S_ac.
    let mut normal = Normal::new(k * k);
    for a in 0..k {
        for c in 0..k {
            let row = a * k + c;
            normal.b[row] = right[(a, c)];
            for b in 0..k {
                for d in 0..k {
                    normal.a[row * normal.width + b * k + d] =
                        left[(place[a * k + b], place[c * k + d])];
                }
            }
        }
    }
    let diagonal = |normal: &Normal| {
        (0..k * k)
            .map(|i| normal.a[i * (normal.width + 1)])
            .collect()
    };
    let before: Vec<f64> = diagonal(&normal);
    if !normal.factor(k * k) {
        return None;
    }
    // Pivots that are rounding alone are none.
    let after: Vec<f64> = diagonal(&normal);
    let largest = before.into_iter().fold(0.0, f64::max);
    if after.iter().any(|pivot| !(pivot * pivot > 1e-12 * largest)) {
        return None;
    }
    normal.solve(k * k);
    let found = Mat::from_fn(k, k, |a, c| normal.b[a * k + c]);
    let finite = normal.b.iter().all(|v| v.is_finite());
    finite.then_some(found)
}
