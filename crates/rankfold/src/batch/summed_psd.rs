//! The cost of W over pairs that others hold, as in [`PsdRegression`]: cost, slope and curvature are
//! sums over pairs, and whoever has them all is asked for the sums.
//!
//! W is told as the factors that its geometry has, Y and C of W = Y C Cᵀ Yᵀ. Questions are the
//! `cost`; the cost and M Y, which is `local`; and along W' = L Yᵀ + Y Lᵀ the `curvature` and how
//! M Y changes, the `hessian`. So no message has the size of W.
//!
//! [`PsdRegression`]: super::PsdRegression

use super::asking::{Asking, matrix};
use super::solve::{Local, Objective};
use crate::manifold::{Blocks, Semidefinite, Split};
use faer::Mat;

/// The cost of W over pairs that others hold.
pub(crate) struct SummedPsd<'s, M> {
    features: usize,
    asking: &'s Asking<'s>,
    space: M,
}

impl<'s, M> SummedPsd<'s, M> {
    pub fn new(features: usize, asking: &'s Asking<'s>, space: M) -> Self {
        SummedPsd {
            features,
            asking,
            space,
        }
    }
}

fn factors(split: &Split) -> Vec<Mat<f64>> {
    let basis = [split.basis.clone()].into_iter();
    basis.chain(split.root.clone()).collect()
}

/// The same at a point.
pub(crate) struct LocalSummedPsd<'a, 's, M> {
    problem: &'a SummedPsd<'s, M>,
    at: Blocks,
    split: Split,
    factors: Vec<Mat<f64>>,
    cost: f64,
    gradient: Blocks,
}

impl<M: Semidefinite> LocalSummedPsd<'_, '_, M> {
    fn along(&self, what: &'static str, vector: &[Mat<f64>], count: usize) -> Vec<f64> {
        let SummedPsd { space, asking, .. } = self.problem;
        let direction = space.direction(&self.at, &self.split, vector);
        asking.ask(what, &[&self.factors, &[direction]], count)
    }
}

impl<M: Semidefinite> Local for LocalSummedPsd<'_, '_, M> {
    fn cost(&self) -> f64 {
        self.cost
    }

    fn gradient(&self) -> &Blocks {
        &self.gradient
    }

    fn curvature(&self, vector: &[Mat<f64>]) -> f64 {
        self.along("curvature", vector, 1)[0]
    }

    fn hessian(&self, vector: &[Mat<f64>]) -> Blocks {
        let (d, k) = (self.split.basis.nrows(), self.split.basis.ncols());
        let product = matrix(&self.along("hessian", vector, d * k), d, k);
        let space = &self.problem.space;
        space.gradient(&self.at, &self.split, &product)
    }
}

impl<'s, M: Semidefinite> Objective for SummedPsd<'s, M> {
    type Space = M;
    type Local<'a>
        = LocalSummedPsd<'a, 's, M>
    where
        Self: 'a;

    fn space(&self) -> &M {
        &self.space
    }

    fn shapes(&self, rank: usize) -> Vec<(usize, usize)> {
        self.space.shapes(self.features, rank)
    }

    fn cost(&self, at: &[Mat<f64>]) -> f64 {
        let factors = factors(&self.space.split(at));
        self.asking.ask("cost", &[&factors], 1)[0]
    }

    fn local<'a>(&'a self, at: &[Mat<f64>]) -> LocalSummedPsd<'a, 's, M> {
        let split = self.space.split(at);
        let factors = factors(&split);
        let (d, k) = (split.basis.nrows(), split.basis.ncols());
        let answer = self.asking.ask("local", &[&factors], 1 + d * k);
        let product = matrix(&answer[1..], d, k);
        LocalSummedPsd {
            problem: self,
            gradient: self.space.gradient(at, &split, &product),
            at: at.to_vec(),
            split,
            factors,
            cost: answer[0],
        }
    }
}
