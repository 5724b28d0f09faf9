//! Squared stress with more coordinates than are wanted, of which the last cost
//! something.
//!
//! f(G) = 1/m Σ ½ (‖g_i − g_j‖² − δ²)² + μ/2n Σ (coordinates behind the first r)².
//! With room to pass each other, points do not stay caught behind others as they do
//! in the plane; a growing μ then presses them flat.

use super::{Bounds, Local, LocalPsd, Objective, PsdRegression};
use crate::manifold::{Blocks, Flat};
use faer::Mat;

/// Squared stress of n points, and the price of the coordinates behind the first.
pub struct Lifted<'a> {
    /// The squared stress.
    pub stress: PsdRegression<'a, Flat, Bounds>,
    /// Coordinates that are free.
    pub free: usize,
    /// μ / n.
    pub price: f64,
}

/// The same at a point.
pub struct LocalLifted<'r, 'a> {
    stress: LocalPsd<'r, 'a, Flat, Bounds>,
    free: usize,
    price: f64,
    cost: f64,
    gradient: Blocks,
}

/// Without the coordinates that are free.
fn behind(g: &Mat<f64>, free: usize) -> Mat<f64> {
    Mat::from_fn(g.nrows(), g.ncols(), |i, j| match j < free {
        true => 0.0,
        false => g[(i, j)],
    })
}

impl<'a> Objective for Lifted<'a> {
    type Space = Flat;
    type Local<'r>
        = LocalLifted<'r, 'a>
    where
        Self: 'r;

    fn space(&self) -> &Flat {
        &self.stress.space
    }

    fn shapes(&self, rank: usize) -> Vec<(usize, usize)> {
        self.stress.shapes(rank)
    }

    fn cost(&self, at: &[Mat<f64>]) -> f64 {
        let paid = behind(&at[0], self.free).squared_norm_l2();
        self.stress.cost(at) + 0.5 * self.price * paid
    }

    fn local<'r>(&'r self, at: &[Mat<f64>]) -> LocalLifted<'r, 'a> {
        let stress = self.stress.local(at);
        let paid = behind(&at[0], self.free);
        LocalLifted {
            free: self.free,
            price: self.price,
            cost: stress.cost() + 0.5 * self.price * paid.squared_norm_l2(),
            gradient: vec![&stress.gradient()[0] + faer::Scale(self.price) * &paid],
            stress,
        }
    }
}

impl Local for LocalLifted<'_, '_> {
    fn cost(&self) -> f64 {
        self.cost
    }

    fn gradient(&self) -> &Blocks {
        &self.gradient
    }

    fn curvature(&self, along: &[Mat<f64>]) -> f64 {
        let paid = behind(&along[0], self.free).squared_norm_l2();
        self.stress.curvature(along) + self.price * paid
    }

    fn hessian(&self, along: &[Mat<f64>]) -> Blocks {
        let paid = behind(&along[0], self.free);
        let bent = self.stress.hessian(along);
        vec![&bent[0] + faer::Scale(self.price) * paid]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Bound, Distances, Pair, Points};
    use crate::manifold::Manifold;
    use crate::manifold::tests::matrix;

    #[test]
    fn slopes_are_those_of_the_cost() {
        let points = Points::unit(6);
        let pairs = (0..6).flat_map(|i| (0..i).map(move |j| Pair { left: i, right: j }));
        let distances = Distances::new(&points, pairs.collect(), 1).unwrap();
        let list = (0..15).map(|t| (Bound::Equal, f64::from(t % 4))).collect();
        let lifted = Lifted {
            stress: PsdRegression {
                distances,
                pair_loss: Bounds { list },
                space: Flat,
            },
            free: 2,
            price: 0.7,
        };
        let (at, along) = (vec![matrix(6, 4, 1)], vec![matrix(6, 4, 2)]);
        let local = lifted.local(&at);
        assert!((local.cost() - lifted.cost(&at)).abs() < 1e-12);
        let slope = Flat.inner(&at, local.gradient(), &along);
        let h = 1e-6;
        let cost = |t: f64| lifted.cost(&[&at[0] + faer::Scale(t) * &along[0]]);
        let measured = (cost(h) - cost(-h)) / (2.0 * h);
        assert!((slope - measured).abs() < 1e-6 * slope.abs());
        let bent = Flat.inner(&at, &local.hessian(&along), &along);
        assert!((bent - local.curvature(&along)).abs() < 1e-9 * bent);
    }
}
