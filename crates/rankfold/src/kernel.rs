//! The loops that everything spends its time in: sparse gathers and scatters
//! on rows of a tall factor, and passes over small square matrices.
//!
//! Each kernel is an ordinary loop that the compiler vectorises. It is compiled
//! twice, once for AVX2, and the faster one is picked at run time. Products are
//! not fused into their sums, so both give the same bits.

use crate::{Real, SparseRow};

/// Compiles a body for the baseline and for AVX2, and dispatches at run time.
macro_rules! vectorised {
    ($(#[$doc:meta])* $vis:vis fn $name:ident<$($g:ident : $bound:path),* $(; $n:ident)?>($($arg:ident : $ty:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        #[inline]
        $vis fn $name<$($g: $bound,)* $(const $n: usize)?>($($arg: $ty),*) {
            #[inline(always)]
            fn body<$($g: $bound,)* $(const $n: usize)?>($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2<$($g: $bound,)* $(const $n: usize)?>($($arg: $ty),*) {
                    body::<$($g,)* $($n)?>($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2, which was just asked for.
                    return unsafe { avx2::<$($g,)* $($n)?>($($arg),*) };
                }
            }
            body::<$($g,)* $($n)?>($($arg),*)
        }
    };
}

/// How many rows ahead a gather asks the memory for.
const AHEAD: usize = 8;

/// Columns handled in registers at a time: one cache line of `f32`.
const BLOCK: usize = 16;

/// The length at which a k-vector, and a row of a k-column matrix, is stored:
/// k rounded up, so that loops need no tails and rows share no cache line.
pub fn padded(k: usize) -> usize {
    if k < 8 {
        k.next_power_of_two()
    } else {
        k.next_multiple_of(8)
    }
}

#[inline(always)]
fn prefetch<R>(data: &[R], at: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(row) = data.get(at..at + len) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for line in row.chunks(64 / size_of::<R>()) {
            // SAFETY: the address lies inside `data`, and a prefetch reads nothing.
            unsafe { _mm_prefetch(line.as_ptr().cast(), _MM_HINT_T0) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, at, len);
}

#[inline(always)]
fn gather_block<R: Real, const B: usize>(
    out: &mut [f64],
    data: &[R],
    stride: usize,
    at: usize,
    x: SparseRow<'_, R>,
) {
    let mut sum = [0.0; B];
    for (position, (&i, &v)) in x.indices.iter().zip(x.values).enumerate() {
        if let Some(&later) = x.indices.get(position + AHEAD) {
            prefetch(data, later as usize * stride + at, B);
        }
        let start = i as usize * stride + at;
        let row: &[R; B] = data[start..start + B].try_into().expect("B entries");
        let v = v.to_f64();
        for (s, r) in sum.iter_mut().zip(row) {
            *s += v * r.to_f64();
        }
    }
    out[at..at + B].copy_from_slice(&sum);
}

vectorised! {
    /// `out = dataᵀ x`, where `data` has rows of length `stride`.
    pub(crate) fn gather<R: Real>(out: &mut [f64], data: &[R], stride: usize, x: SparseRow<'_, R>) {
        let mut at = 0;
        while at + BLOCK <= stride {
            gather_block::<R, BLOCK>(out, data, stride, at, x);
            at += BLOCK;
        }
        match stride - at {
            0 => {}
            8 => gather_block::<R, 8>(out, data, stride, at, x),
            4 => gather_block::<R, 4>(out, data, stride, at, x),
            2 => gather_block::<R, 2>(out, data, stride, at, x),
            1 => gather_block::<R, 1>(out, data, stride, at, x),
            rest => unreachable!("a padded row leaves {rest} columns"),
        }
    }
}

vectorised! {
    /// `data += x wᵀ` on the rows where x is non-zero.
    pub(crate) fn scatter<R: Real>(data: &mut [R], w: &[R], x: SparseRow<'_, R>) {
        let stride = w.len();
        for (position, (&i, &v)) in x.indices.iter().zip(x.values).enumerate() {
            if let Some(&later) = x.indices.get(position + AHEAD) {
                prefetch(data, later as usize * stride, stride);
            }
            let row = &mut data[i as usize * stride..][..stride];
            for (r, w) in row.iter_mut().zip(w) {
                *r = r.mul_plus(v, *w);
            }
        }
    }
}

vectorised! {
    /// `out = a x` for a square matrix of row length `x.len()`.
    pub(crate) fn multiply<>(out: &mut [f64], a: &[f64], x: &[f64]) {
        for (o, row) in out.iter_mut().zip(a.chunks_exact(x.len())) {
            *o = lanes_dot(row, x);
        }
    }
}

vectorised! {
    /// `out = aᵀ x` for a square matrix of row length `out.len()`.
    pub(crate) fn multiply_transposed<>(out: &mut [f64], a: &[f64], x: &[f64]) {
        out.fill(0.0);
        for (&v, row) in x.iter().zip(a.chunks_exact(out.len())) {
            for (o, r) in out.iter_mut().zip(row) {
                *o += v * r;
            }
        }
    }
}

vectorised! {
    /// `a += Σ_r xs[r] ys[r]ᵀ` for a square matrix.
    pub(crate) fn add_outer<; N>(a: &mut [f64], xs: [&[f64]; N], ys: [&[f64]; N]) {
        let width = ys[0].len();
        for (i, row) in a.chunks_exact_mut(width).enumerate() {
            let c: [f64; N] = std::array::from_fn(|r| xs[r][i]);
            let ys: [&[f64]; N] = std::array::from_fn(|r| &ys[r][..width]);
            for (j, entry) in row.iter_mut().enumerate() {
                let mut sum = 0.0;
                for r in 0..N {
                    sum += c[r] * ys[r][j];
                }
                *entry += sum;
            }
        }
    }
}

#[inline(always)]
fn lanes_dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (whole_a, rest_a) = a.as_chunks::<8>();
    let (whole_b, rest_b) = b.as_chunks::<8>();
    for (x, y) in whole_a.iter().zip(whole_b) {
        for j in 0..8 {
            lanes[j] += x[j] * y[j];
        }
    }
    let tail: f64 = rest_a.iter().zip(rest_b).map(|(x, y)| x * y).sum();
    let half: [f64; 4] = std::array::from_fn(|j| lanes[j] + lanes[j + 4]);
    (half[0] + half[2]) + (half[1] + half[3]) + tail
}

/// a·b in a fixed order of summation.
#[inline]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    lanes_dot(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SparseVec;

    #[test]
    fn gather_and_scatter_equal_plain_loops_at_every_width() {
        for k in [1, 2, 3, 7, 8, 9, 16, 17, 30, 50, 100] {
            let stride = padded(k);
            let mut data: Vec<f64> = (0..40 * stride).map(|i| (i as f64).sin()).collect();
            let x =
                SparseVec::from_entries((0..40).step_by(3).map(|i| (i, 0.5 + i as f64)).collect());
            let mut out = vec![0.0; stride];
            gather(&mut out, &data, stride, x.as_row());
            for j in 0..stride {
                let want: f64 = x
                    .as_row()
                    .iter()
                    .map(|(i, v)| v * data[i as usize * stride + j])
                    .sum();
                assert!((out[j] - want).abs() <= 1e-13 * 40.0 * 40.0, "k = {k}");
            }
            let w: Vec<f64> = (0..stride).map(|j| j as f64).collect();
            let before = data.clone();
            scatter(&mut data, &w, x.as_row());
            for (i, v) in x.as_row().iter() {
                for j in 0..stride {
                    let at = i as usize * stride + j;
                    assert_eq!(data[at], before[at] + v * w[j]);
                }
            }
        }
    }
}
