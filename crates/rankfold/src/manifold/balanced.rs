//! W = G Hᵀ up to (G M⁻¹, H Mᵀ): the balanced geometry.

use super::{Blocks, FixedRank, Manifold, beside, combine, dot, gram};
use crate::linalg::symmetric;
use faer::Mat;

/// Two factors with the metric Tr((GᵀG)⁻¹ ξᵀζ) on each, which does not see how W
/// is factored: gradients are scaled by the Gram matrices, and W moves the same
/// way from any G and H with the same product.
#[derive(Debug, Clone, Copy, Default)]
pub struct Balanced;

impl Manifold for Balanced {
    fn inner(&self, at: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
        let part = |i: usize| {
            let inverse = symmetric::power(&gram(&at[i]), -1.0);
            inverse.map_or(f64::NAN, |inverse| dot(&(&a[i] * &inverse), &b[i]))
        };
        part(0) + part(1)
    }

    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks> {
        let moved = combine(1.0, at, 1.0, along);
        super::is_finite(&moved).then_some(moved)
    }

    /// The nearest horizontal vector: (ξ_G + GΛ, ξ_H − HΛᵀ), with Λ such that
    /// ξ_GᵀG HᵀH = GᵀG Hᵀξ_H.
    fn transport(&self, _: &[Mat<f64>], to: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        let (g, h) = (&to[0], &to[1]);
        let (s, r) = (gram(g), gram(h));
        let mismatch = &s * (h.transpose() * &vector[1]) - vector[0].transpose() * g * &r;
        match lyapunov(&s, &r, &mismatch) {
            Some(x) => vec![&vector[0] + g * x.transpose(), &vector[1] - h * x],
            None => vector.to_vec(),
        }
    }
}

/// X with X(SR) + (SR)X = C, for positive definite S and R.
fn lyapunov(s: &Mat<f64>, r: &Mat<f64>, c: &Mat<f64>) -> Option<Mat<f64>> {
    // SR = P D P⁻¹ with P = S^½ Q, where S^½ R S^½ = Q D Qᵀ.
    let (half, inverse_half) = (symmetric::power(s, 0.5)?, symmetric::power(s, -0.5)?);
    let (d, q) = symmetric::eigen(&symmetric::part(&(&half * r * &half)))?;
    let inner = q.transpose() * &inverse_half * c * &half * &q;
    let k = d.len();
    let solved = Mat::from_fn(k, k, |i, j| inner[(i, j)] / (d[i] + d[j]));
    let x = &half * &q * solved * q.transpose() * inverse_half;
    x.is_all_finite().then_some(x)
}

impl FixedRank for Balanced {
    fn shapes(&self, (n, m): (usize, usize), k: usize) -> Vec<(usize, usize)> {
        vec![(n, k), (m, k)]
    }

    fn factors(&self, at: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>) {
        (at[0].clone(), at[1].clone())
    }

    fn point(&self, left: &Mat<f64>, right: &Mat<f64>) -> Option<Blocks> {
        symmetric::power(&gram(left), -1.0)?;
        symmetric::power(&gram(right), -1.0)?;
        Some(vec![left.clone(), right.clone()])
    }

    fn gradient(&self, at: &[Mat<f64>], er: &Mat<f64>, el: &Mat<f64>) -> Blocks {
        vec![er * gram(&at[0]), el * gram(&at[1])]
    }

    /// ξ_G (GᵀG)⁻¹(HᵀH)⁻¹ and its mirror: the gradient becomes that of least squares
    /// for one factor given the other.
    fn precondition(&self, at: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        let inverse = |m: &Mat<f64>| symmetric::power(&gram(m), -1.0);
        let (Some(s), Some(r)) = (inverse(&at[0]), inverse(&at[1])) else {
            return vector.to_vec();
        };
        let scaled = [&vector[0] * (&s * &r), &vector[1] * (&r * &s)];
        self.transport(at, at, &scaled)
    }

    fn ambient(&self, at: &[Mat<f64>], vector: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>) {
        (beside(&vector[0], &at[0]), beside(&at[1], &vector[1]))
    }
}

/// One step that brings GᵀG and HᵀH closer to each other and leaves W as it is:
/// G exp(αΔ) and H exp(−αΔ), with Δ = HᵀH − GᵀG and α = 1/(2 λmax(GᵀG + HᵀH)).
/// Its fixed points have equal Gram matrices. `None` where the factors are zero
/// or not finite.
pub fn balance(g: &Mat<f64>, h: &Mat<f64>) -> Option<(Mat<f64>, Mat<f64>)> {
    let (s, r) = (gram(g), gram(h));
    let (values, _) = symmetric::eigen(&(&s + &r))?;
    let largest = values.last().copied().filter(|&largest| largest > 0.0)?;
    let delta = faer::Scale(0.5 / largest) * (&r - &s);
    let back = faer::Scale(-1.0) * &delta;
    Some((g * symmetric::exp(&delta)?, h * symmetric::exp(&back)?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHAPES, laws, matrix};
    use super::*;

    #[test]
    fn balanced_factors_keep_the_laws() {
        for shape in SHAPES {
            laws(&Balanced, shape);
        }
    }

    #[test]
    fn w_moves_the_same_way_from_any_factors() {
        let (g, h, turn) = (matrix(8, 3, 1), matrix(6, 3, 2), matrix(3, 3, 3));
        let inverse = {
            use faer::linalg::solvers::DenseSolveCore;
            turn.partial_piv_lu().inverse()
        };
        let e = matrix(8, 6, 4);
        let step = |g: &Mat<f64>, h: &Mat<f64>, manifold: &dyn FixedRank| {
            let x = manifold.point(g, h).unwrap();
            let xi = manifold.gradient(&x, &(&e * h), &(e.transpose() * g));
            let moved = manifold
                .retract(&x, &super::super::scaled(-0.01, &xi))
                .unwrap();
            &moved[0] * moved[1].transpose()
        };
        let (g2, h2) = (&g * inverse, &h * turn.transpose());
        let gap = |m: &dyn FixedRank| (step(&g, &h, m) - step(&g2, &h2, m)).norm_l2();
        assert!(gap(&Balanced) < 1e-12, "{}", gap(&Balanced));
        assert!(gap(&super::super::Factors) > 1e-3);
    }

    #[test]
    fn balancing_keeps_w_and_evens_the_factors() {
        let (g, h) = (faer::Scale(5.0) * matrix(8, 3, 1), matrix(6, 3, 2));
        let w = &g * h.transpose();
        let unequal = |g: &Mat<f64>, h: &Mat<f64>| (gram(g) - gram(h)).norm_l2();
        let (mut a, mut b) = (g.clone(), h.clone());
        for _ in 0..200 {
            let before = unequal(&a, &b);
            (a, b) = balance(&a, &b).unwrap();
            assert!(unequal(&a, &b) <= before + 1e-12);
        }
        assert!((&a * b.transpose() - &w).norm_l2() < 1e-11 * w.norm_l2());
        assert!(unequal(&a, &b) < 1e-6 * unequal(&g, &h));
    }
}
