//! A geometry with a bias for each row and column beside it.

use super::{Blocks, FixedRank, Manifold, combine, dot};
use faer::Mat;

/// W and biases: points have two more blocks, columns of biases. Their metric is
/// diagonal, so that a step for each of them is scaled by how much it weighs in
/// the cost.
#[derive(Debug, Clone)]
pub struct Biased<M> {
    /// The geometry of W.
    pub inner: M,
    /// The weights of the biases of rows and of columns; without biases none.
    pub weights: Option<[Vec<f64>; 2]>,
}

impl<M> Biased<M> {
    /// The blocks of W, and those of the biases.
    pub fn parts<'a>(&self, blocks: &'a [Mat<f64>]) -> (&'a [Mat<f64>], &'a [Mat<f64>]) {
        let biases = if self.weights.is_some() { 2 } else { 0 };
        blocks.split_at(blocks.len() - biases)
    }
}

impl<M: Manifold> Manifold for Biased<M> {
    fn inner(&self, at: &[Mat<f64>], a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
        let ((x, _), (a, c), (b, d)) = (self.parts(at), self.parts(a), self.parts(b));
        let mut sum = self.inner.inner(x, a, b);
        for (weights, (c, d)) in self.weights.iter().flatten().zip(c.iter().zip(d)) {
            let terms = weights.iter().enumerate();
            sum += terms.map(|(i, w)| w * c[(i, 0)] * d[(i, 0)]).sum::<f64>();
        }
        sum
    }

    fn retract(&self, at: &[Mat<f64>], along: &[Mat<f64>]) -> Option<Blocks> {
        let ((x, b), (xi, c)) = (self.parts(at), self.parts(along));
        let mut out = self.inner.retract(x, xi)?;
        out.extend(combine(1.0, b, 1.0, c));
        super::is_finite(&out).then_some(out)
    }

    fn transport(&self, from: &[Mat<f64>], to: &[Mat<f64>], vector: &[Mat<f64>]) -> Blocks {
        let ((x, _), (y, _), (xi, c)) = (self.parts(from), self.parts(to), self.parts(vector));
        let mut out = self.inner.transport(x, y, xi);
        out.extend_from_slice(c);
        out
    }
}

impl<M: FixedRank> Biased<M> {
    /// The gradient from its parts: E R and Eᵀ L for W, and the slopes of the
    /// biases.
    pub fn gradient(
        &self,
        at: &[Mat<f64>],
        er: &Mat<f64>,
        el: &Mat<f64>,
        slopes: [&Mat<f64>; 2],
    ) -> Blocks {
        let mut out = self.inner.gradient(self.parts(at).0, er, el);
        for (weights, slope) in self.weights.iter().flatten().zip(slopes) {
            out.push(Mat::from_fn(slope.nrows(), 1, |i, _| {
                slope[(i, 0)] / weights[i]
            }));
        }
        out
    }

    /// The squared length of the biases.
    pub fn bias_norm(&self, at: &[Mat<f64>]) -> f64 {
        self.parts(at).1.iter().map(|b| dot(b, b)).sum()
    }
}
