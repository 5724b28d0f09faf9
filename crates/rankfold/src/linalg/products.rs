//! Products of two tall factors, which are never made.

use super::{qf, svd};
use faer::Mat;

/// [A B].
pub(crate) fn beside(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), a.ncols() + b.ncols());
    out.subcols_mut(0, a.ncols()).copy_from(a);
    out.subcols_mut(a.ncols(), b.ncols()).copy_from(b);
    out
}

/// The SVD P Σ Qᵀ of L Rᵀ, to so many singular values; `None` where L Rᵀ is not
/// finite. The factors need not have full rank.
pub(crate) fn svd_of_product(
    left: &Mat<f64>,
    right: &Mat<f64>,
    rank: usize,
) -> Option<(Mat<f64>, Vec<f64>, Mat<f64>)> {
    let (a, b) = (thin_qr(left)?, thin_qr(right)?);
    let (p, sigma, q) = svd(&(&a.1 * b.1.transpose()))?;
    let rank = rank.min(sigma.len());
    let p = &a.0 * p.subcols(0, rank);
    let q = &b.0 * q.subcols(0, rank);
    Some((p, sigma[..rank].to_vec(), q))
}

/// M = QR. The fast way where M is well conditioned, else by reflections.
pub(crate) fn thin_qr(m: &Mat<f64>) -> Option<(Mat<f64>, Mat<f64>)> {
    if !m.is_all_finite() {
        return None;
    }
    if let Some(q) = qf(m) {
        let r = q.transpose() * m;
        let rest = q.transpose() * &q - Mat::<f64>::identity(q.ncols(), q.ncols());
        if rest.norm_max() < 1e-14 * (q.ncols() as f64 + 1.0) {
            return Some((q, r));
        }
    }
    let qr = m.qr();
    Some((qr.compute_thin_Q(), qr.thin_R().to_owned()))
}
