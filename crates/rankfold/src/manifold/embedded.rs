//! W = U S Vᵀ as a point among all matrices: the embedded geometry.

use super::{Blocks, FixedRank, Manifold, beside, dot, svd_of_product};
use faer::Mat;

/// Matrices of fixed rank with the metric of all matrices. A point is its SVD, U,
/// diagonal S and V; a tangent vector has the blocks U_p, M and V_p, and is
/// U_p Vᵀ + U M Vᵀ + U V_pᵀ with U_pᵀU = 0 and V_pᵀV = 0. Steps go to the nearest matrix of the rank.
#[derive(Debug, Clone, Copy, Default)]
pub struct Embedded;

impl Manifold for Embedded {
    fn inner(&self, _: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
        a.iter().zip(b).map(|(a, b)| dot(a, b)).sum()
    }

    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks> {
        let (left, right) = self.ambient(at, along);
        let whole = (beside(&at[0], &left), beside(&(&at[2] * &at[1]), &right));
        from_svd(svd_of_product(&whole.0, &whole.1, at[1].ncols())?)
    }

    /// The projection of the matrix that the vector stands for.
    fn transport(&self, from: &[Mat<f64>], to: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        let (left, right) = self.ambient(from, vector);
        let (u, v) = (&to[0], &to[2]);
        let zv = &left * (right.transpose() * v);
        let zu = &right * (left.transpose() * u);
        let m = u.transpose() * &zv;
        vec![zv - u * &m, m.clone(), zu - v * m.transpose()]
    }
}

fn from_svd((u, sigma, v): (Mat<f64>, Vec<f64>, Mat<f64>)) -> Option<Blocks> {
    let k = sigma.len();
    let smallest = sigma.last().copied()?;
    (smallest > 0.0).then(|| {
        let s = Mat::from_fn(k, k, |i, j| if i == j { sigma[i] } else { 0.0 });
        vec![u, s, v]
    })
}

impl FixedRank for Embedded {
    fn shapes(&self, (n, m): (usize, usize), k: usize) -> Vec<(usize, usize)> {
        vec![(n, k), (k, k), (m, k)]
    }

    /// L = U and R = VS.
    fn factors(&self, at: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>) {
        (at[0].clone(), &at[2] * &at[1])
    }

    fn point(&self, left: &Mat<f64>, right: &Mat<f64>) -> Option<Blocks> {
        from_svd(svd_of_product(left, right, left.ncols())?)
    }

    fn gradient(&self, at: &[Mat<f64>], er: &Mat<f64>, el: &Mat<f64>) -> Blocks {
        let (u, s, v) = (&at[0], &at[1], &at[2]);
        // R is V with its columns scaled.
        let ev = Mat::from_fn(er.nrows(), er.ncols(), |i, j| er[(i, j)] / s[(j, j)]);
        let m = u.transpose() * &ev;
        let up = &ev - u * &m;
        let vp = el - v * (v.transpose() * el);
        vec![up, m, vp]
    }

    fn ambient(&self, at: &[Mat<f64>], vector: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>) {
        let left = &at[0] * &vector[1] + &vector[0];
        (beside(&left, &at[0]), beside(&at[2], &vector[2]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHAPES, laws};
    use super::*;

    #[test]
    fn embedded_points_keep_the_laws() {
        for shape in SHAPES {
            laws(&Embedded, shape);
        }
    }
}
