//! Principal components.

use faer::{Mat, Side};

/// Coordinates of points along their first `count` principal directions, row
/// by row. Points are given row by row; their mean is subtracted. Each
/// direction has its largest entry positive. `None` when the points are not
/// finite, or have fewer dimensions than asked for.
pub fn principal_coordinates(points: &[f64], dimension: usize, count: usize) -> Option<Vec<f64>> {
    if dimension == 0 || count > dimension || points.is_empty() {
        return None;
    }
    let n = points.len() / dimension;
    let at = |i: usize, j: usize| points[i * dimension + j];
    let mean: Vec<f64> = (0..dimension)
        .map(|j| (0..n).map(|i| at(i, j)).sum::<f64>() / n as f64)
        .collect();
    let centered = Mat::from_fn(n, dimension, |i, j| at(i, j) - mean[j]);
    let covariance = centered.transpose() * &centered;
    if (0..dimension).any(|j| !covariance[(j, j)].is_finite()) {
        return None;
    }
    let eigen = covariance.self_adjoint_eigen(Side::Lower).ok()?;
    let directions = eigen.U();
    let mut out = Vec::with_capacity(n * count);
    let columns: Vec<(usize, f64)> = (0..count)
        .map(|c| {
            // Eigenvalues rise, so the last column is the first direction.
            let column = dimension - 1 - c;
            let largest = (0..dimension).max_by(|&a, &b| {
                directions[(a, column)]
                    .abs()
                    .total_cmp(&directions[(b, column)].abs())
            });
            let sign = largest.map_or(1.0, |j| directions[(j, column)].signum());
            (column, sign)
        })
        .collect();
    for i in 0..n {
        for &(column, sign) in &columns {
            let dot: f64 = (0..dimension)
                .map(|j| centered[(i, j)] * directions[(j, column)])
                .sum();
            out.push(sign * dot);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_have_one_coordinate() {
        let points: Vec<f64> = (0..9)
            .flat_map(|i| [f64::from(i), 2.0 * f64::from(i) + 1.0])
            .collect();
        let found = principal_coordinates(&points, 2, 2).unwrap();
        for (i, p) in found.chunks_exact(2).enumerate() {
            let want = (i as f64 - 4.0) * 5f64.sqrt();
            assert!((p[0] - want).abs() < 1e-13 && p[1].abs() < 1e-13, "{p:?}");
        }
        assert_eq!(principal_coordinates(&points, 2, 3), None);
        assert_eq!(principal_coordinates(&[f64::NAN, 1.0], 2, 1), None);
    }
}
