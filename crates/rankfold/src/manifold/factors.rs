//! Two factors as plain numbers: W = G Hᵀ with the Euclidean metric.

use super::{Blocks, FixedRank, Manifold, beside, combine, dot};
use faer::Mat;

/// G and H without any regard for W = G Hᵀ: what maximum-margin matrix
/// factorization descends on. How it moves depends on how W is factored.
#[derive(Debug, Clone, Copy, Default)]
pub struct Factors;

impl Manifold for Factors {
    fn inner(&self, _: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
        dot(&a[0], &b[0]) + dot(&a[1], &b[1])
    }

    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks> {
        let moved = combine(1.0, at, 1.0, along);
        super::is_finite(&moved).then_some(moved)
    }

    fn transport(&self, _: &[Mat<f64>], _: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        vector.to_vec()
    }
}

impl FixedRank for Factors {
    fn shapes(&self, (n, m): (usize, usize), k: usize) -> Vec<(usize, usize)> {
        vec![(n, k), (m, k)]
    }

    fn factors(&self, at: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>) {
        (at[0].clone(), at[1].clone())
    }

    fn point(&self, left: &Mat<f64>, right: &Mat<f64>) -> Option<Blocks> {
        Some(vec![left.clone(), right.clone()])
    }

    fn gradient(&self, _: &[Mat<f64>], er: &Mat<f64>, el: &Mat<f64>) -> Blocks {
        vec![er.clone(), el.clone()]
    }

    fn ambient(&self, at: &[Mat<f64>], vector: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>) {
        (beside(&vector[0], &at[0]), beside(&at[1], &vector[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHAPES, laws};
    use super::*;

    #[test]
    fn factors_keep_the_laws() {
        for shape in SHAPES {
            laws(&Factors, shape);
        }
    }
}
