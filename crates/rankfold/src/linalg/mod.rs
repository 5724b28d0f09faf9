//! Small dense algebra: k×k kernels for the forms, on faer where they cost k³.

mod dense;
mod in_place;
mod kmeans;
mod orthonormal;
mod pca;
mod products;
mod square;
pub mod symmetric;

pub(crate) use dense::Dense;
pub use kmeans::{Clusters, kmeans};
pub use orthonormal::{Retraction, qf, uf};
pub use pca::principal_coordinates;
pub(crate) use products::{beside, svd_of_product, thin_qr};
pub(crate) use square::Scratch;
pub use square::Square;

use faer::{Mat, Side};

/// Solves the N×N system `a x = b` for several right sides in place, by
/// elimination with row exchanges. Returns det(a), and leaves `b` half-solved
/// when that is zero or not finite.
pub(crate) fn solve_tiny<const N: usize, const M: usize>(
    mut a: [[f64; N]; N],
    b: &mut [[f64; M]; N],
) -> f64 {
    let mut determinant = 1.0;
    for c in 0..N {
        let pivot = (c..N)
            .max_by(|&i, &j| a[i][c].abs().total_cmp(&a[j][c].abs()))
            .expect("a row");
        if pivot != c {
            a.swap(pivot, c);
            b.swap(pivot, c);
            determinant = -determinant;
        }
        determinant *= a[c][c];
        if a[c][c] == 0.0 || !determinant.is_finite() {
            return determinant;
        }
        for i in 0..N {
            if i != c {
                let factor = a[i][c] / a[c][c];
                for j in 0..N {
                    a[i][j] -= factor * a[c][j];
                }
                for j in 0..M {
                    b[i][j] -= factor * b[c][j];
                }
            }
        }
    }
    for c in 0..N {
        for entry in &mut b[c] {
            *entry /= a[c][c];
        }
    }
    determinant
}

/// R upper triangular with positive diagonal and RᵀR = S, or `None` when S is
/// not positive definite to working precision.
pub fn cholesky_upper(s: &Square) -> Option<Mat<f64>> {
    let factor = s.to_faer().llt(Side::Lower).ok()?;
    let r = factor.L().transpose().to_owned();
    (0..r.nrows())
        .all(|i| r[(i, i)].is_finite() && r[(i, i)] > 0.0)
        .then_some(r)
}

/// S⁻¹ = R⁻¹R⁻ᵀ, or `None` when S is not positive definite to working precision.
pub(crate) fn invert_definite(s: &Square) -> Option<Square> {
    let r = cholesky_upper(s)?;
    let inverse_r = solve_upper(&r, &Mat::identity(s.size(), s.size()));
    let mut inverse = Square::from_faer(&(&inverse_r * inverse_r.transpose()));
    inverse.symmetrize();
    Some(inverse)
}

/// Thin SVD as (P, σ, Q) with `a = P diag(σ) Qᵀ`, σ falling.
pub fn svd(a: &Mat<f64>) -> Option<(Mat<f64>, Vec<f64>, Mat<f64>)> {
    let svd = a.thin_svd().ok()?;
    let sigma: Vec<f64> = svd.S().column_vector().iter().copied().collect();
    let finite = sigma.iter().all(|s| s.is_finite());
    finite.then(|| (svd.U().to_owned(), sigma, svd.V().to_owned()))
}

/// Solves R X = B for an upper triangular R, by back substitution.
pub fn solve_upper(r: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let mut x = b.clone();
    faer::linalg::triangular_solve::solve_upper_triangular_in_place(
        r.as_ref(),
        x.as_mut(),
        faer::Par::Seq,
    );
    x
}
