//! Embedded rows in single precision, where only the order of their distances matters.
//!
//! Rows are centered first, so that a common offset costs no digits, and scaled by a power of
//! two, so that squares of any scale stay in range. A squared distance keeps about seven digits
//! relative to the squared spread of the rows.

use super::points::Points;
use faer::Mat;

/// The exponent of the largest coordinate: squares and their sums stay below 2¹²⁸, and what is
/// 2¹⁷⁰ times smaller is still a normal number.
const EXPONENT: f64 = 44.0;

/// X G of several sets of points in single precision, one row after the other, and what squared
/// distances in it are multiplied by to be those of X G.
pub(crate) fn singles<const N: usize>(
    parts: [&Points; N],
    factor: &Mat<f64>,
    threads: usize,
) -> ([Vec<f32>; N], f64) {
    let k = factor.ncols();
    let rows = parts.map(|points| points.embedded(factor, threads));
    let mut center = vec![0.0; k];
    if let Some(first) = rows.first() {
        let share = 1.0 / (first.len() / k.max(1)).max(1) as f64;
        for row in first.chunks_exact(k) {
            let pairs = center.iter_mut().zip(row);
            pairs.for_each(|(c, v)| *c += share * v);
        }
    }
    let largest = |largest: f64, row: &[f64]| {
        let pairs = row.iter().zip(&center);
        pairs.fold(largest, |largest, (v, c)| largest.max((v - c).abs()))
    };
    let all = rows.iter().flat_map(|part| part.chunks_exact(k));
    let scale = match all.fold(0.0, largest) {
        found if found > 0.0 && found.is_finite() => (EXPONENT - found.log2().floor())
            .clamp(-1000.0, 1000.0)
            .exp2(),
        _ => 1.0,
    };
    let single = |part: Vec<f64>| -> Vec<f32> {
        let rows = part.chunks_exact(k);
        let row = |row: &[f64]| -> Vec<f32> {
            let pairs = row.iter().zip(&center);
            pairs.map(|(v, c)| (scale * (v - c)) as f32).collect()
        };
        rows.flat_map(row).collect()
    };
    (rows.map(single), (1.0 / scale).powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifold::tests::matrix;

    #[test]
    fn distances_keep_seven_digits_of_the_spread_at_any_scale_and_offset() {
        let (n, k) = (40, 3);
        let x = matrix(n, k, 1);
        for (size, offset) in [(1.0, 0.0), (1e-140, 0.0), (1e120, 1e121), (1.0, 1e7)] {
            let moved = Mat::from_fn(n, k, |i, j| size * x[(i, j)] + offset);
            let points = Points::dense(moved.clone());
            let ([one, two], unit) = singles([&points, &points], &Mat::identity(k, k), 1);
            assert_eq!(one, two);
            let rows: Vec<&[f32]> = one.chunks_exact(k).collect();
            // Each coordinate is rounded by 2⁻²⁴ of the largest, at most 4 here, and the points
            // themselves by 2⁻⁵³ of the offset.
            let off = 4.0 * f64::from(f32::EPSILON) + 1e-16 * offset / size;
            for i in 0..n {
                for j in 0..n {
                    let square = |t: usize| ((moved[(i, t)] - moved[(j, t)]) / size).powi(2);
                    let want: f64 = (0..k).map(square).sum();
                    let pairs = rows[i].iter().zip(rows[j]);
                    let squares = pairs.map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
                    let found = squares.sum::<f64>() * unit / size / size;
                    let most = 2.0 * k as f64 * (2.0 * want.sqrt() * off + off * off);
                    assert!(
                        (found - want).abs() <= most,
                        "{found} {want} {size} {offset}"
                    );
                }
            }
        }
    }

    #[test]
    fn rows_in_one_place_and_rows_beyond_numbers_are_left_alone() {
        let zeros = Points::dense(Mat::zeros(3, 2));
        let ([rows], unit) = singles([&zeros], &Mat::identity(2, 2), 1);
        assert_eq!((rows, unit), (vec![0.0; 6], 1.0));
        let beyond = Points::dense(Mat::from_fn(2, 1, |i, _| [f64::INFINITY, 0.0][i]));
        let ([rows], _) = singles([&beyond], &Mat::identity(1, 1), 1);
        assert!(rows.iter().any(|v| !v.is_finite()));
    }
}
