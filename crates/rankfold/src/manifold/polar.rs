//! W = U B Vᵀ up to rotations of the columns: the polar geometry.

use super::{Blocks, FixedRank, Manifold, beside, dot, svd_of_product};
use crate::linalg::{Retraction, symmetric};
use faer::Mat;

/// Orthonormal U and V and a positive definite B, with the metric
/// Tr ξ_Uᵀζ_U + Tr(B⁻¹ξ_B B⁻¹ζ_B) + Tr ξ_Vᵀζ_V. Points (UO, OᵀBO, VO) are the
/// same.
#[derive(Debug, Clone, Copy, Default)]
pub struct Polar {
    /// How U and V come back to orthonormal columns.
    pub retraction: Retraction,
}

impl Manifold for Polar {
    fn inner(&self, at: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
        let inverse = symmetric::power(&at[1], -1.0);
        let middle = inverse.map_or(f64::NAN, |inverse| {
            let (a, b) = (&inverse * &a[1], &inverse * &b[1]);
            dot(&a.transpose().to_owned(), &b)
        });
        dot(&a[0], &b[0]) + middle + dot(&a[2], &b[2])
    }

    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks> {
        let (half, inverse) = (
            symmetric::power(&at[1], 0.5)?,
            symmetric::power(&at[1], -0.5)?,
        );
        let exponent = symmetric::part(&(&inverse * &along[1] * &inverse));
        let b = symmetric::part(&(&half * symmetric::exp(&exponent)? * &half));
        let u = self.retraction.apply(&(&at[0] + &along[0]))?;
        let v = self.retraction.apply(&(&at[2] + &along[2]))?;
        // Definite to working precision, or no step.
        symmetric::power(&b, -0.5)?;
        Some(vec![u, b, v])
    }

    /// Tangent to both Stiefel manifolds, with a symmetric middle; then without
    /// the part along the rotations, (UΩ, BΩ − ΩB, VΩ) for skew Ω.
    fn transport(&self, _: &[Mat<f64>], to: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        let (u, b, v) = (&to[0], &to[1], &to[2]);
        let tangent = |u: &Mat<f64>, x: &Mat<f64>| x - u * symmetric::part(&(u.transpose() * x));
        let (xu, xb, xv) = (
            tangent(u, &vector[0]),
            symmetric::part(&vector[1]),
            tangent(v, &vector[2]),
        );
        let Some((values, q)) = symmetric::eigen(b) else {
            return vec![xu, xb, xv];
        };
        // In the eigenvectors of B each entry of Ω is by itself.
        let inside = |m: Mat<f64>| q.transpose() * m * &q;
        let turn = inside(u.transpose() * &xu + v.transpose() * &xv);
        let middle = inside(xb.clone());
        let k = values.len();
        let omega = Mat::from_fn(k, k, |i, j| {
            let (bi, bj) = (values[i], values[j]);
            let skew = 0.5 * (turn[(i, j)] - turn[(j, i)]);
            (bi * bj * skew - middle[(i, j)] * (bj - bi)) / (bi * bi + bj * bj)
        });
        let omega = &q * omega * q.transpose();
        vec![
            &xu - u * &omega,
            symmetric::part(&(&xb - (b * &omega - &omega * b))),
            &xv - v * &omega,
        ]
    }
}

impl FixedRank for Polar {
    fn shapes(&self, (n, m): (usize, usize), k: usize) -> Vec<(usize, usize)> {
        vec![(n, k), (k, k), (m, k)]
    }

    /// L = U and R = VB.
    fn factors(&self, at: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>) {
        (at[0].clone(), &at[2] * &at[1])
    }

    fn point(&self, left: &Mat<f64>, right: &Mat<f64>) -> Option<Blocks> {
        let k = left.ncols();
        let (u, sigma, v) = svd_of_product(left, right, k)?;
        let smallest = sigma.last().copied()?;
        (smallest > 0.0).then(|| {
            let b = Mat::from_fn(k, k, |i, j| if i == j { sigma[i] } else { 0.0 });
            vec![u, b, v]
        })
    }

    fn gradient(&self, at: &[Mat<f64>], er: &Mat<f64>, el: &Mat<f64>) -> Blocks {
        let (u, b, v) = (&at[0], &at[1], &at[2]);
        let z = el * b;
        let middle = symmetric::part(&(v.transpose() * el));
        vec![
            er - u * symmetric::part(&(u.transpose() * er)),
            b * middle * b,
            &z - v * symmetric::part(&(v.transpose() * &z)),
        ]
    }

    /// Divided by how much W moves, squared: by B² outside of the ranges of U and V;
    /// inside of them, in the eigenvectors of B, each entry by that of both ends.
    fn precondition(&self, at: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        let Some((values, q)) = symmetric::eigen(&at[1]).filter(|(v, _)| v[0] > 0.0) else {
            return vector.to_vec();
        };
        let k = values.len();
        let square = Mat::from_fn(k, k, |i, j| q[(i, j)] / values[j].powi(2)) * q.transpose();
        let inside = |m: &Mat<f64>, scale: &dyn Fn(f64, f64) -> f64| {
            let turned = q.transpose() * m * &q;
            let scaled = Mat::from_fn(k, k, |i, j| turned[(i, j)] * scale(values[i], values[j]));
            &q * scaled * q.transpose()
        };
        let side = |u: &Mat<f64>, x: &Mat<f64>| {
            let range = u.transpose() * x;
            let outside = x - u * &range;
            u * inside(&range, &|a, b| 2.0 / (a * a + b * b)) + outside * &square
        };
        let scaled = [
            side(&at[0], &vector[0]),
            inside(&vector[1], &|a, b| 1.0 / (a * b)),
            side(&at[2], &vector[2]),
        ];
        self.transport(at, at, &scaled)
    }

    fn ambient(&self, at: &[Mat<f64>], vector: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>) {
        // ξ_U B Vᵀ + U (V ξ_B + ξ_V B)ᵀ.
        let right = &at[2] * &vector[1] + &vector[2] * &at[1];
        (
            beside(&vector[0], &at[0]),
            beside(&(&at[2] * &at[1]), &right),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::scaled;
    use super::super::tests::{SHAPES, laws, matrix};
    use super::*;
    use crate::linalg::qf;

    #[test]
    fn polar_points_keep_the_laws() {
        for retraction in [Retraction::Uf, Retraction::Qf] {
            for shape in SHAPES {
                laws(&Polar { retraction }, shape);
            }
        }
    }

    /// The change of W when the same step starts from a rotated point.
    fn rotation_gap(retraction: Retraction, size: f64) -> f64 {
        let polar = Polar { retraction };
        let x = polar.point(&matrix(8, 3, 1), &matrix(6, 3, 2)).unwrap();
        let turn = qf(&matrix(3, 3, 5)).unwrap();
        let turned = vec![
            &x[0] * &turn,
            turn.transpose() * &x[1] * &turn,
            &x[2] * &turn,
        ];
        let e = matrix(8, 6, 4);
        let moved = |x: &Blocks| {
            let (l, r) = polar.factors(x);
            let xi = polar.gradient(x, &(&e * &r), &(e.transpose() * &l));
            let (l, r) = polar.factors(&polar.retract(x, &scaled(-size, &xi)).unwrap());
            l * r.transpose()
        };
        (moved(&x) - moved(&turned)).norm_l2()
    }

    #[test]
    fn uf_does_not_see_rotations_and_qf_does_to_second_order() {
        assert!(rotation_gap(Retraction::Uf, 1e-2) < 1e-12);
        let (far, near) = (
            rotation_gap(Retraction::Qf, 1e-2),
            rotation_gap(Retraction::Qf, 1e-3),
        );
        let slope = (far / near).log10();
        assert!((slope - 2.0).abs() < 0.2, "{slope}");
    }
}
