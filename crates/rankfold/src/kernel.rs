//! The loops that everything spends its time in: sparse gathers and scatters
//! on rows of a tall factor, and passes over small square matrices.
//!
//! Each kernel is an ordinary loop that the compiler vectorizes. It is compiled
//! twice, once for AVX2, and the faster one is picked at run time. Products are
//! not fused into their sums, so both give the same bits.

use crate::{Real, SparseRow};

/// Compiles a body for the baseline and for AVX2, and dispatches at run time.
macro_rules! vectorized {
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

pub(crate) use vectorized;

/// How many rows ahead a gather asks the memory for.
const AHEAD: usize = 16;

/// Columns handled in registers at a time: one cache line of `f32`.
const BLOCK: usize = 16;

/// The length at which a k-vector, and a row of a k×k matrix, is stored: k
/// rounded up, so that loops need no tails.
pub fn padded(k: usize) -> usize {
    row_width::<f32>(k)
}

/// The length at which a row of a tall factor is stored: k rounded up to whole
/// registers of 32 bytes, so that loops need no tails and a row touches as few
/// cache lines as it can. Never above [`padded`]`(k)`.
pub(crate) fn row_width<R: Real>(k: usize) -> usize {
    if k < 8 {
        k.next_power_of_two()
    } else {
        k.next_multiple_of(32 / size_of::<R>())
    }
}

/// Asks the memory for entries that are needed soon.
#[inline(always)]
pub(crate) fn prefetch<R>(data: &[R], at: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..len).step_by(64 / size_of::<R>()) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = data.as_ptr().wrapping_add(at + line);
        // SAFETY: a prefetch reads nothing, whatever the address.
        unsafe { _mm_prefetch(address.cast(), _MM_HINT_T0) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, at, len);
}

/// Asks the memory for the rows that a gather of x starts with.
pub(crate) fn prefetch_rows<R: Real>(data: &[R], stride: usize, x: SparseRow<'_, R>) {
    for &i in x.indices.iter().take(AHEAD) {
        prefetch(data, i as usize * stride, stride);
    }
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

#[inline(always)]
fn scatter_block<R: Real, const B: usize>(data: &mut [R], w: &[R], at: usize, x: SparseRow<'_, R>) {
    let stride = w.len();
    let w: &[R; B] = w[at..at + B].try_into().expect("B entries");
    for (&i, &v) in x.indices.iter().zip(x.values) {
        let start = i as usize * stride + at;
        let row: &mut [R; B] = (&mut data[start..start + B]).try_into().expect("B entries");
        for (r, w) in row.iter_mut().zip(w) {
            *r = r.mul_plus(v, *w);
        }
    }
}

/// Calls a function of a block width for all columns of a row: whole blocks,
/// then the rest, which a padded width leaves in one of these sizes.
macro_rules! by_block {
    ($stride:expr, $at:ident => $f:ident::<$r:ident>($($arg:expr),*)) => {
        let mut $at = 0;
        while $at + BLOCK <= $stride {
            $f::<$r, BLOCK>($($arg),*);
            $at += BLOCK;
        }
        match $stride - $at {
            0 => {}
            12 => $f::<$r, 12>($($arg),*),
            8 => $f::<$r, 8>($($arg),*),
            4 => $f::<$r, 4>($($arg),*),
            2 => $f::<$r, 2>($($arg),*),
            1 => $f::<$r, 1>($($arg),*),
            rest => unreachable!("a padded row leaves {rest} columns"),
        }
    };
}

vectorized! {
    /// `out = dataᵀ x`, where `data` has rows of length `stride`.
    pub(crate) fn gather<R: Real>(out: &mut [f64], data: &[R], stride: usize, x: SparseRow<'_, R>) {
        by_block!(stride, at => gather_block::<R>(out, data, stride, at, x));
    }
}

vectorized! {
    /// `data += x wᵀ` on the rows where x is non-zero; they were gathered just
    /// before, so they are near.
    pub(crate) fn scatter<R: Real>(data: &mut [R], w: &[R], x: SparseRow<'_, R>) {
        by_block!(w.len(), at => scatter_block::<R>(data, w, at, x));
    }
}

vectorized! {
    /// `out = a x` for a square matrix of row length `x.len()`.
    pub(crate) fn multiply<>(out: &mut [f64], a: &[f64], x: &[f64]) {
        for (o, row) in out.iter_mut().zip(a.chunks_exact(x.len())) {
            *o = lanes_dot(row, x);
        }
    }
}

#[inline(always)]
fn columns_block<R: Real, const B: usize>(out: &mut [f64], a: &[R], at: usize, x: &[f64]) {
    let mut sum = [0.0; B];
    for (row, &v) in a.chunks_exact(out.len()).zip(x) {
        let row: &[R; B] = row[at..at + B].try_into().expect("B entries");
        for (s, r) in sum.iter_mut().zip(row) {
            *s += v * r.to_f64();
        }
    }
    out[at..at + B].copy_from_slice(&sum);
}

vectorized! {
    /// `out = aᵀ x` for a square matrix of row length `out.len()`.
    pub(crate) fn multiply_transposed<>(out: &mut [f64], a: &[f64], x: &[f64]) {
        by_block!(out.len(), at => columns_block::<f64>(out, a, at, x));
    }
}

#[inline(always)]
fn columns_pair_block<R: Real, const B: usize>(
    outs: &mut [&mut [f64]; 2],
    a: &[R],
    at: usize,
    xs: [&[f64]; 2],
) {
    let mut sums = [[0.0; B]; 2];
    for ((row, &v), &w) in a.chunks_exact(outs[0].len()).zip(xs[0]).zip(xs[1]) {
        let row: &[R; B] = row[at..at + B].try_into().expect("B entries");
        for j in 0..B {
            sums[0][j] += v * row[j].to_f64();
            sums[1][j] += w * row[j].to_f64();
        }
    }
    outs[0][at..at + B].copy_from_slice(&sums[0]);
    outs[1][at..at + B].copy_from_slice(&sums[1]);
}

vectorized! {
    /// `[outs] = aᵀ [xs]`: two products in one pass over a square matrix.
    pub(crate) fn multiply_transposed_pair<>(outs: &mut [&mut [f64]; 2], a: &[f64], xs: [&[f64]; 2]) {
        by_block!(outs[0].len(), at => columns_pair_block::<f64>(outs, a, at, xs));
    }
}

#[inline(always)]
fn outer_block<const N: usize, const B: usize>(
    a: &mut [f64],
    at: usize,
    xs: &[&[f64]; N],
    ys: &[&[f64]; N],
) {
    let width = ys[0].len();
    let block = |y: &&[f64]| -> [f64; B] { y[at..at + B].try_into().expect("B entries") };
    let ys: [[f64; B]; N] = std::array::from_fn(|r| block(&ys[r]));
    for (i, row) in a.chunks_exact_mut(width).enumerate() {
        let c: [f64; N] = std::array::from_fn(|r| xs[r][i]);
        let row: &mut [f64; B] = (&mut row[at..at + B]).try_into().expect("B entries");
        for j in 0..B {
            let mut sum = 0.0;
            for r in 0..N {
                sum += c[r] * ys[r][j];
            }
            row[j] += sum;
        }
    }
}

vectorized! {
    /// `a += Σ_r xs[r] ys[r]ᵀ` for a square matrix.
    pub(crate) fn add_outer<; N>(a: &mut [f64], xs: &[&[f64]; N], ys: &[&[f64]; N]) {
        by_block!(ys[0].len(), at => outer_block::<N>(a, at, xs, ys));
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

vectorized! {
    /// `out = data x` for rows of length `x.len()`: a product for each number of
    /// `out`, in a fixed order of summation.
    pub(crate) fn multiply_rows<R: Real>(out: &mut [f64], data: &[R], x: &[f64]) {
        for (o, row) in out.iter_mut().zip(data.chunks_exact(x.len())) {
            let mut lanes = [0.0; 8];
            let (whole, rest) = row.as_chunks::<8>();
            let (whole_x, rest_x) = x.as_chunks::<8>();
            for (r, x) in whole.iter().zip(whole_x) {
                for j in 0..8 {
                    lanes[j] += r[j].to_f64() * x[j];
                }
            }
            let tail: f64 = rest.iter().zip(rest_x).map(|(r, x)| r.to_f64() * x).sum();
            let half: [f64; 4] = std::array::from_fn(|j| lanes[j] + lanes[j + 4]);
            *o = (half[0] + half[2]) + (half[1] + half[3]) + tail;
        }
    }
}

vectorized! {
    /// `out = Σ a²`.
    pub(crate) fn sum_of_squares<>(out: &mut f64, a: &[f64]) {
        *out = lanes_dot(a, a);
    }
}

vectorized! {
    /// `row += c · x`.
    pub(crate) fn add_scaled<R: Real>(row: &mut [R], x: &[R], c: R) {
        for (r, x) in row.iter_mut().zip(x) {
            *r = r.mul_plus(c, *x);
        }
    }
}

vectorized! {
    /// `out += c · row`, in double precision.
    pub(crate) fn sum_scaled<R: Real>(out: &mut [f64], row: &[R], c: f64) {
        for (o, r) in out.iter_mut().zip(row) {
            *o += c * r.to_f64();
        }
    }
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
            let stride = row_width::<f64>(k);
            assert!(stride >= k && stride <= padded(k));
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
