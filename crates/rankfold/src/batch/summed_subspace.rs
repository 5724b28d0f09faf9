//! The search for a subspace of many regressions that others hold, as in [`SharedSubspace`]: cost,
//! slope and curvature are sums over tasks, and whoever has them all is asked for the sums.
//!
//! [`SharedSubspace`]: super::SharedSubspace

use super::asking::{Asking, matrix};
use super::shared_subspace::{common_cost, tangent};
use super::solve::{Local, Objective};
use super::tasks::Common;
use crate::linalg::symmetric;
use crate::manifold::{Blocks, Grassmann, Manifold};
use faer::Mat;

/// f(U, c) of tasks that others hold. They are asked for the `cost`; for it, Σ Xᵀe [wᵀ 1] and
/// Σ ‖X‖²/m w wᵀ, which is `local`; and for the second of these along a direction, the `hessian`.
pub(crate) struct SummedSubspace<'s> {
    features: usize,
    common: Option<&'s Common>,
    asking: &'s Asking<'s>,
}

impl<'s> SummedSubspace<'s> {
    pub fn new(features: usize, common: Option<&'s Common>, asking: &'s Asking<'s>) -> Self {
        SummedSubspace {
            features,
            common,
            asking,
        }
    }

    fn mu(&self) -> Option<f64> {
        self.common.map(Common::ridge)
    }
}

/// A subspace for all tasks, and its neighborhood.
pub(crate) struct LocalSums<'a, 's> {
    problem: &'a SummedSubspace<'s>,
    at: Blocks,
    cost: f64,
    gradient: Blocks,
    inverse: Option<Mat<f64>>,
}

impl Local for LocalSums<'_, '_> {
    fn cost(&self) -> f64 {
        self.cost
    }

    fn gradient(&self) -> &Blocks {
        &self.gradient
    }

    fn precondition(&self, vector: &[Mat<f64>]) -> Blocks {
        let mut out = vector.to_vec();
        if let Some(inverse) = &self.inverse {
            out[0] = &vector[0] * inverse;
        }
        if let Some(common) = self.problem.common {
            out[1] = common.solve_whole(&vector[1]);
        }
        out
    }

    fn curvature(&self, along: &[Mat<f64>]) -> f64 {
        Grassmann.inner(&[], &self.hessian(along), along)
    }

    fn hessian(&self, along: &[Mat<f64>]) -> Blocks {
        let (m, r) = (self.problem.features, self.at[0].ncols());
        let count = m * (r + 1);
        let answer = (self.problem.asking).ask("hessian", &[&self.at, along], count);
        let common = self.problem.mu().map(|mu| (mu, &along[1]));
        tangent(&self.at[0], &matrix(&answer, m, r + 1), common)
    }
}

impl<'s> Objective for SummedSubspace<'s> {
    type Space = Grassmann;
    type Local<'a>
        = LocalSums<'a, 's>
    where
        Self: 'a;

    fn space(&self) -> &Grassmann {
        &Grassmann
    }

    fn shapes(&self, rank: usize) -> Vec<(usize, usize)> {
        let mut out = vec![(self.features, rank)];
        out.extend(self.common.map(|_| (self.features, 1)));
        out
    }

    fn cost(&self, at: &[Mat<f64>]) -> f64 {
        common_cost(self.mu(), at) + self.asking.ask("cost", &[at], 1)[0]
    }

    fn local<'a>(&'a self, at: &[Mat<f64>]) -> LocalSums<'a, 's> {
        let (m, r) = (self.features, at[0].ncols());
        let answer = (self.asking).ask("local", &[at], 1 + m * (r + 1) + r * r);
        let (cost, rest) = (answer[0], &answer[1..]);
        let (slope, usual) = rest.split_at(m * (r + 1));
        LocalSums {
            problem: self,
            cost: common_cost(self.mu(), at) + cost,
            gradient: tangent(
                &at[0],
                &matrix(slope, m, r + 1),
                self.mu().map(|mu| (mu, &at[1])),
            ),
            inverse: symmetric::power(&matrix(usual, r, r), -1.0),
            at: at.to_vec(),
        }
    }
}
