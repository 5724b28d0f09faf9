//! W = U B Uᵀ up to rotations of the columns of U: the polar geometry of positive
//! semi-definite matrices, between the learning of a subspace and of a distance in it.

use super::{Blocks, Manifold, Semidefinite, Split, dot, thin_qr};
use crate::linalg::{Retraction, symmetric};
use faer::prelude::Solve;
use faer::{Mat, Side};

/// An orthonormal U and a positive definite B, with the metric
/// 1/λ Tr ξ_Uᵀζ_U + 1/(1−λ) Tr(B⁻¹ξ_B B⁻¹ζ_B). With λ = 0 the subspace stays as it
/// is, with λ = 1 the distance in it. Points (UO, OᵀBO) are the same.
#[derive(Debug, Clone, Copy)]
pub struct PolarPsd {
    /// λ, from 0 to 1.
    pub subspace_weight: f64,
    /// How U comes back to orthonormal columns.
    pub retraction: Retraction,
}

impl Default for PolarPsd {
    fn default() -> Self {
        PolarPsd {
            subspace_weight: 0.5,
            retraction: Retraction::Uf,
        }
    }
}

impl PolarPsd {
    /// What ⟨ξ, ζ⟩ is divided by in each part; a part with weight 0 does not move.
    fn weights(&self) -> [f64; 2] {
        [self.subspace_weight, 1.0 - self.subspace_weight]
    }
}

/// Tr(B⁻¹ξ B⁻¹ζ).
pub(super) fn affine_inner(b: &Mat<f64>, x: &Mat<f64>, y: &Mat<f64>) -> f64 {
    b.llt(Side::Lower).map_or(f64::NAN, |root| {
        let (x, y) = (root.solve(x), root.solve(y));
        dot(&x.transpose().to_owned(), &y)
    })
}

/// Eigenvalues below this share of the largest are raised to it: a start, or a factor
/// that was learned in another geometry, may have come near to a smaller rank.
const LEAST: f64 = 1e-13;

/// A symmetric matrix made positive definite to working precision; `None` where it is
/// zero or not finite.
pub(super) fn definite(w: &Mat<f64>) -> Option<Mat<f64>> {
    let (values, v) = symmetric::eigen(&symmetric::part(w))?;
    let least = LEAST * values.last().copied().filter(|&largest| largest > 0.0)?;
    if values[0] > least {
        return Some(symmetric::part(w));
    }
    let k = values.len();
    let scaled = Mat::from_fn(k, k, |i, j| v[(i, j)] * values[j].max(least));
    Some(symmetric::part(&(scaled * v.transpose())))
}

/// The longest step of B, in logarithms: one that multiplies a direction by more than
/// e¹² is none that a local model can mean, whatever the cost says there.
const LONGEST: f64 = 12.0;

/// B^½ exp(B^−½ ξ B^−½) B^½; `None` where that is not definite to working precision, or
/// much too far.
pub(super) fn affine_step(b: &Mat<f64>, along: &Mat<f64>) -> Option<Mat<f64>> {
    let (values, v) = symmetric::eigen(b).filter(|(values, _)| values[0] > 0.0)?;
    let k = values.len();
    let power = |exponent: f64| {
        let scaled = Mat::from_fn(k, k, |i, j| v[(i, j)] * values[j].powf(exponent));
        scaled * v.transpose()
    };
    let (half, inverse) = (power(0.5), power(-0.5));
    let exponent = symmetric::part(&(&inverse * along * &inverse));
    if !(exponent.norm_max() <= LONGEST) {
        return None;
    }
    let next = symmetric::part(&(&half * symmetric::exp(&exponent)? * &half));
    (next.is_all_finite() && next.llt(Side::Lower).is_ok()).then_some(next)
}

impl Manifold for PolarPsd {
    fn inner(&self, at: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
        let [subspace, distance] = self.weights();
        let mut out = 0.0;
        if subspace > 0.0 {
            out += dot(&a[0], &b[0]) / subspace;
        }
        if distance > 0.0 {
            out += affine_inner(&at[1], &a[1], &b[1]) / distance;
        }
        out
    }

    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks> {
        let [subspace, distance] = self.weights();
        let u = match subspace > 0.0 {
            true => self.retraction.apply(&(&at[0] + &along[0]))?,
            false => at[0].clone(),
        };
        let b = match distance > 0.0 {
            true => affine_step(&at[1], &along[1])?,
            false => at[1].clone(),
        };
        Some(vec![u, b])
    }

    fn transport(&self, _: &[Mat<f64>], to: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        let [subspace, distance] = self.weights();
        let u = &to[0];
        let xu = match subspace > 0.0 {
            true => &vector[0] - u * (u.transpose() * &vector[0]),
            false => Mat::zeros(u.nrows(), u.ncols()),
        };
        let xb = match distance > 0.0 {
            true => symmetric::part(&vector[1]),
            false => Mat::zeros(u.ncols(), u.ncols()),
        };
        vec![xu, xb]
    }
}

impl Semidefinite for PolarPsd {
    fn shapes(&self, d: usize, k: usize) -> Vec<(usize, usize)> {
        vec![(d, k), (k, k)]
    }

    fn split(&self, at: &[Mat<f64>]) -> Split {
        let k = at[1].nrows();
        let root = symmetric::power(&at[1], 0.5);
        Split {
            basis: at[0].clone(),
            // B that is not definite is not a point; costs then are not numbers.
            root: Some(root.unwrap_or_else(|| Mat::full(k, k, f64::NAN))),
        }
    }

    fn point(&self, factor: &Mat<f64>) -> Option<Blocks> {
        let (u, r) = thin_qr(factor)?;
        Some(vec![u, definite(&(&r * r.transpose()))?])
    }

    fn gradient(&self, at: &[Mat<f64>], _: &Split, product: &Mat<f64>) -> Blocks {
        let [subspace, distance] = self.weights();
        let (u, b) = (&at[0], &at[1]);
        let inside = u.transpose() * product;
        let outside = product - u * &inside;
        vec![
            faer::Scale(2.0 * subspace) * (outside * b),
            faer::Scale(distance) * (b * symmetric::part(&inside) * b),
        ]
    }

    fn direction(&self, at: &[Mat<f64>], _: &Split, vector: &[Mat<f64>]) -> Mat<f64> {
        &vector[0] * &at[1] + faer::Scale(0.5) * (&at[0] * &vector[1])
    }
}

#[cfg(test)]
mod tests {
    use super::super::laws::{matrix, semidefinite};
    use super::super::scaled;
    use super::*;
    use crate::linalg::qf;

    #[test]
    fn polar_points_keep_the_laws() {
        for retraction in [Retraction::Uf, Retraction::Qf] {
            for subspace_weight in [0.0, 0.1, 0.5, 1.0] {
                let polar = PolarPsd {
                    subspace_weight,
                    retraction,
                };
                for shape in [(7, 2), (5, 5), (6, 1), (30, 5)] {
                    semidefinite(&polar, shape).unwrap();
                }
            }
        }
    }

    /// W after a step of this size along −gradient of ⟨M, W⟩, from U and B turned
    /// by an orthonormal matrix.
    fn stepped(polar: PolarPsd, size: f64, turn: &Mat<f64>) -> Mat<f64> {
        let at = polar.point(&matrix(8, 3, 1)).unwrap();
        let at = vec![&at[0] * turn, turn.transpose() * &at[1] * turn];
        let m = symmetric::part(&matrix(8, 8, 4));
        let split = polar.split(&at);
        let xi = polar.gradient(&at, &split, &(&m * &split.basis));
        let g = polar
            .split(&polar.retract(&at, &scaled(-size, &xi)).unwrap())
            .factor();
        &g * g.transpose()
    }

    #[test]
    fn a_representative_does_not_matter_with_uf_and_to_second_order_with_qf() {
        let gap = |retraction, size| {
            let polar = PolarPsd {
                retraction,
                ..PolarPsd::default()
            };
            let turn = qf(&matrix(3, 3, 5)).unwrap();
            (stepped(polar, size, &turn) - stepped(polar, size, &Mat::identity(3, 3))).norm_l2()
        };
        assert!(gap(Retraction::Uf, 1e-2) < 1e-12);
        let slope = (gap(Retraction::Qf, 1e-3) / gap(Retraction::Qf, 1e-4)).log10();
        assert!((slope - 2.0).abs() < 0.2, "{slope}");
    }

    #[test]
    fn a_factor_of_smaller_rank_is_a_point_too() {
        let mut g = matrix(8, 3, 1);
        let copy = g.col(0).to_owned();
        g.col_mut(2).copy_from(&copy);
        let polar = PolarPsd::default();
        let at = polar.point(&g).unwrap();
        let again = polar.split(&at).factor();
        let off = (&again * again.transpose() - &g * g.transpose()).norm_l2();
        assert!(off < 1e-11 * g.squared_norm_l2(), "{off}");
        assert!(polar.point(&Mat::zeros(8, 3)).is_none());
    }

    #[test]
    fn a_step_out_of_all_proportion_is_not_taken() {
        let b = Mat::<f64>::identity(2, 2);
        let along = |size: f64| faer::Scale(size) * Mat::<f64>::identity(2, 2);
        assert!(affine_step(&b, &along(11.0)).is_some());
        assert!(affine_step(&b, &along(100.0)).is_none());
        assert!(affine_step(&b, &along(f64::NAN)).is_none());
    }

    #[test]
    fn a_part_without_weight_stays_to_the_bit() {
        for (subspace_weight, still) in [(0.0, 0), (1.0, 1)] {
            let polar = PolarPsd {
                subspace_weight,
                ..PolarPsd::default()
            };
            let at = polar.point(&matrix(8, 3, 1)).unwrap();
            let split = polar.split(&at);
            let m = symmetric::part(&matrix(8, 8, 4));
            let xi = polar.gradient(&at, &split, &(&m * &split.basis));
            let then = polar.retract(&at, &scaled(-0.1, &xi)).unwrap();
            assert_eq!(at[still], then[still]);
            assert_ne!(at[1 - still], then[1 - still]);
        }
    }
}
