//! A problem beside given biases: W explains what they leave.

use super::problem::{Problem, Slope, with_biases};
use faer::Mat;

/// The problem of W + b 1ᵀ + 1 cᵀ for fixed biases b and c.
#[derive(Debug, Clone)]
pub struct Offsets<P> {
    /// The problem of the sum.
    pub problem: P,
    /// b and c, each one column; without them the problem is as it is.
    pub biases: Option<[Mat<f64>; 2]>,
}

impl<P> Offsets<P> {
    fn seen(&self, left: &Mat<f64>, right: &Mat<f64>) -> (Mat<f64>, Mat<f64>) {
        match &self.biases {
            None => (left.clone(), right.clone()),
            Some(biases) => with_biases(left, right, biases),
        }
    }
}

fn head(slope: Slope, k: usize) -> Slope {
    Slope {
        cost: slope.cost,
        er: slope.er.subcols(0, k).to_owned(),
        el: slope.el.subcols(0, k).to_owned(),
    }
}

impl<P: Problem> Problem for Offsets<P> {
    fn shape(&self) -> (usize, usize) {
        self.problem.shape()
    }

    fn cost(&self, left: &Mat<f64>, right: &Mat<f64>) -> f64 {
        let (l, r) = self.seen(left, right);
        self.problem.cost(&l, &r)
    }

    fn slope(&self, left: &Mat<f64>, right: &Mat<f64>) -> Slope {
        let (l, r) = self.seen(left, right);
        head(self.problem.slope(&l, &r), left.ncols())
    }

    fn bend(&self, direction: (&Mat<f64>, &Mat<f64>), left: &Mat<f64>, right: &Mat<f64>) -> Slope {
        self.problem.bend(direction, left, right)
    }
}
