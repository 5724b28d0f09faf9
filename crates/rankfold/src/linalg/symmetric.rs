//! Functions of symmetric matrices, by their eigenvalues.

use faer::{Mat, Side};

/// Eigenvalues, rising, and an orthonormal matrix of eigenvectors; `None` where
/// the matrix is not finite.
pub fn eigen(s: &Mat<f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    if s.nrows() == 0 {
        return Some((Vec::new(), Mat::zeros(0, 0)));
    }
    let finite = s.col_iter().all(|c| c.iter().all(|v| v.is_finite()));
    let eigen = finite.then(|| s.self_adjoint_eigen(Side::Lower).ok())??;
    let values: Vec<f64> = eigen.S().column_vector().iter().copied().collect();
    Some((values, eigen.U().to_owned()))
}

/// V f(Λ) Vᵀ for S = V Λ Vᵀ; `None` where S or a value of f is not finite.
pub fn map(s: &Mat<f64>, f: impl Fn(f64) -> f64) -> Option<Mat<f64>> {
    let (values, v) = eigen(s)?;
    let values: Vec<f64> = values.into_iter().map(f).collect();
    values.iter().all(|value| value.is_finite()).then(|| {
        let scaled = Mat::from_fn(s.nrows(), s.nrows(), |i, j| v[(i, j)] * values[j]);
        scaled * v.transpose()
    })
}

/// The power of a positive definite matrix; `None` where it is not one.
pub fn power(s: &Mat<f64>, exponent: f64) -> Option<Mat<f64>> {
    map(s, |value| match value > 0.0 {
        true => value.powf(exponent),
        false => f64::NAN,
    })
}

/// The exponential.
pub fn exp(s: &Mat<f64>) -> Option<Mat<f64>> {
    map(s, f64::exp)
}

/// (M + Mᵀ)/2.
pub fn part(m: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(m.nrows(), m.nrows(), |i, j| 0.5 * (m[(i, j)] + m[(j, i)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_multiply_and_the_exponential_inverts_the_logarithm() {
        let m = Mat::from_fn(5, 5, |i, j| ((i * 3 + j * 7) as f64).cos());
        let s = &m * m.transpose() + Mat::<f64>::identity(5, 5);
        let half = power(&s, 0.5).unwrap();
        let back = exp(&map(&s, f64::ln).unwrap()).unwrap();
        for (i, j) in (0..5).flat_map(|i| (0..5).map(move |j| (i, j))) {
            assert!(((&half * &half)[(i, j)] - s[(i, j)]).abs() < 1e-13 * s.norm_l2());
            assert!((back[(i, j)] - s[(i, j)]).abs() < 1e-13 * s.norm_l2());
        }
        assert!(power(&part(&Mat::from_fn(2, 2, |i, j| (i + j) as f64)), 0.5).is_none());
        assert!(exp(&Mat::from_fn(1, 1, |_, _| f64::INFINITY)).is_none());
        assert_eq!(exp(&Mat::zeros(0, 0)).unwrap().nrows(), 0);
    }
}
