//! Positive definite matrices of full rank, in two geometries.

use super::polar_psd::{affine_inner, affine_step, definite};
use super::{Blocks, Manifold, Semidefinite, Split, dot};
use crate::linalg::symmetric;
use faer::{Mat, Side};

/// W itself with the metric Tr(W⁻¹ξ W⁻¹ζ), which no invertible map of the data
/// changes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Affine {
    /// Steps W + ξ instead of geodesics: those of LogDet projections. A step that
    /// leaves the cone is not taken.
    pub first_order: bool,
}

impl Manifold for Affine {
    fn inner(&self, at: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
        affine_inner(&at[0], &a[0], &b[0])
    }

    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks> {
        let next = match self.first_order {
            false => affine_step(&at[0], &along[0])?,
            true => symmetric::part(&(&at[0] + &along[0])),
        };
        (next.is_all_finite() && next.llt(Side::Lower).is_ok()).then(|| vec![next])
    }

    fn transport(&self, _: &[Mat<f64>], _: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        vec![symmetric::part(&vector[0])]
    }
}

impl Semidefinite for Affine {
    fn shapes(&self, d: usize, _: usize) -> Vec<(usize, usize)> {
        vec![(d, d)]
    }

    fn split(&self, at: &[Mat<f64>]) -> Split {
        let d = at[0].nrows();
        let root = symmetric::power(&at[0], 0.5);
        Split {
            basis: root.unwrap_or_else(|| Mat::full(d, d, f64::NAN)),
            root: None,
        }
    }

    fn point(&self, factor: &Mat<f64>) -> Option<Blocks> {
        Some(vec![definite(&(factor * factor.transpose()))?])
    }

    /// W M W.
    fn gradient(&self, _: &[Mat<f64>], split: &Split, product: &Mat<f64>) -> Blocks {
        let half = &split.basis;
        let inside = symmetric::part(&(half.transpose() * product));
        vec![symmetric::part(&(half * inside * half))]
    }

    fn direction(&self, _: &[Mat<f64>], split: &Split, vector: &[Mat<f64>]) -> Mat<f64> {
        let d = vector[0].nrows();
        let inverse = symmetric::power(&split.basis, -1.0);
        let inverse = inverse.unwrap_or_else(|| Mat::full(d, d, f64::NAN));
        faer::Scale(0.5) * (&vector[0] * inverse)
    }
}

/// S = log W with the metric Tr ξᵀζ: the log-Euclidean geometry.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogEuclidean;

/// (e^a − e^b) / (a − b), and its limit where both are the same.
fn quotient(a: f64, b: f64) -> f64 {
    let half = 0.5 * (a - b);
    let shape = match half.abs() < 1e-5 {
        true => 1.0 + half * half / 6.0,
        false => half.sinh() / half,
    };
    (0.5 * (a + b)).exp() * shape
}

/// Dexp(S)[X] in eigenvectors V of S with these eigenvalues: Vᵀ X V, each entry
/// times its quotient.
pub(crate) fn exponential_slope(values: &[f64], inside: &Mat<f64>) -> Mat<f64> {
    let k = values.len();
    Mat::from_fn(k, k, |i, j| inside[(i, j)] * quotient(values[i], values[j]))
}

impl LogEuclidean {
    /// The eigenvalues of S from a split, whose root is e^{Λ/2}.
    fn values(split: &Split) -> Vec<f64> {
        let root = split.root.as_ref();
        let root = root.map(|root| (0..root.nrows()).map(|i| 2.0 * root[(i, i)].ln()).collect());
        root.unwrap_or_default()
    }
}

impl Manifold for LogEuclidean {
    fn inner(&self, _: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
        dot(&a[0], &b[0])
    }

    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks> {
        let next = symmetric::part(&(&at[0] + &along[0]));
        // Its exponential must be in range.
        let (values, _) = symmetric::eigen(&next)?;
        values.iter().all(|v| v.abs() < 600.0).then(|| vec![next])
    }

    fn transport(&self, _: &[Mat<f64>], _: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        vec![symmetric::part(&vector[0])]
    }
}

impl Semidefinite for LogEuclidean {
    fn shapes(&self, d: usize, _: usize) -> Vec<(usize, usize)> {
        vec![(d, d)]
    }

    fn split(&self, at: &[Mat<f64>]) -> Split {
        let d = at[0].nrows();
        let Some((values, basis)) = symmetric::eigen(&at[0]) else {
            return Split {
                basis: Mat::full(d, d, f64::NAN),
                root: None,
            };
        };
        let root = Mat::from_fn(d, d, |i, j| match i == j {
            true => (0.5 * values[i]).exp(),
            false => 0.0,
        });
        Split {
            basis,
            root: Some(root),
        }
    }

    fn point(&self, factor: &Mat<f64>) -> Option<Blocks> {
        let w = definite(&(factor * factor.transpose()))?;
        let log = |value: f64| if value > 0.0 { value.ln() } else { f64::NAN };
        Some(vec![symmetric::map(&w, log)?])
    }

    fn gradient(&self, _: &[Mat<f64>], split: &Split, product: &Mat<f64>) -> Blocks {
        let v = &split.basis;
        let inside = symmetric::part(&(v.transpose() * product));
        let slope = exponential_slope(&Self::values(split), &inside);
        vec![symmetric::part(&(v * slope * v.transpose()))]
    }

    fn direction(&self, _: &[Mat<f64>], split: &Split, vector: &[Mat<f64>]) -> Mat<f64> {
        let v = &split.basis;
        let inside = v.transpose() * &vector[0] * v;
        let slope = exponential_slope(&Self::values(split), &inside);
        faer::Scale(0.5) * (v * slope)
    }
}

#[cfg(test)]
mod tests {
    use super::super::laws::{matrix, semidefinite};
    use super::super::scaled;
    use super::*;

    #[test]
    fn both_cones_keep_the_laws() {
        for d in [1, 3, 6] {
            semidefinite(&Affine::default(), (d, d)).unwrap();
            semidefinite(&Affine { first_order: true }, (d, d)).unwrap();
            semidefinite(&LogEuclidean, (d, d)).unwrap();
        }
    }

    /// W → A W Aᵀ and M → A⁻ᵀ M A⁻¹ move W along with them.
    #[test]
    fn affine_steps_go_with_any_map_of_the_data() {
        let (g, a) = (matrix(4, 4, 1), matrix(4, 4, 2));
        let m = symmetric::part(&matrix(4, 4, 3));
        let step = |g: &Mat<f64>, m: &Mat<f64>| {
            let cone = Affine::default();
            let at = cone.point(g).unwrap();
            let split = cone.split(&at);
            let xi = cone.gradient(&at, &split, &(m * &split.basis));
            cone.retract(&at, &scaled(-0.05, &xi)).unwrap().remove(0)
        };
        let inverse = {
            let gram = symmetric::power(&(a.transpose() * &a), -1.0).unwrap();
            gram * a.transpose()
        };
        let mapped = step(&(&a * &g), &(inverse.transpose() * &m * &inverse));
        let want = &a * step(&g, &m) * a.transpose();
        assert!((mapped - &want).norm_l2() < 1e-9 * want.norm_l2());
    }

    #[test]
    fn a_first_order_step_out_of_the_cone_is_not_taken() {
        let w = vec![Mat::<f64>::identity(2, 2)];
        let far = vec![faer::Scale(-1.5) * Mat::<f64>::identity(2, 2)];
        assert!(Affine { first_order: true }.retract(&w, &far).is_none());
        assert!(Affine::default().retract(&w, &far).is_some());
    }
}
