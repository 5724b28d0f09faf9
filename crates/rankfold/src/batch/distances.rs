//! Distances between points, d(i, j) = (x_i − x_j)ᵀ W (x_i − x_j), and the costs
//! that say what they should be.

use super::pass::by_width;
use super::points::Points;
use super::rowwise::Rowwise;
use crate::kernel::vectorized;
use crate::parallel::map_rows;
use crate::{Error, Loss, Result};
use faer::Mat;
use std::borrow::Cow;

/// Pairs in a block of a pass.
const BLOCK: usize = 4096;

/// Numbers below which a pass is done before threads have started.
const SMALL: usize = 100_000;

/// Two points whose squared distance is looked at. With [`Pair::ORIGIN`] as the
/// right one it is xᵀ W x of the left one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// One point.
    pub left: u32,
    /// The other.
    pub right: u32,
}

impl Pair {
    /// The point of zeros.
    pub const ORIGIN: u32 = u32::MAX;

    /// A point and the origin.
    pub fn of_point(left: u32) -> Self {
        Pair {
            left,
            right: Self::ORIGIN,
        }
    }
}

/// What is asked of the squared distances of a list of pairs. Slopes are of all
/// distances together, so that a cost may compare them with each other.
pub trait PairLoss: Sync {
    /// The cost of these distances, with its slope in each of them.
    fn slopes(&self, distances: &[f64], out: &mut [f64]) -> f64;

    /// The cost alone.
    fn cost(&self, distances: &[f64]) -> f64;

    /// The second derivative of the cost applied to a direction of distances, up to
    /// kinks.
    fn hessian_product(&self, distances: &[f64], along: &[f64], out: &mut [f64]);
}

/// A bound on a squared distance, or its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// It should be the target.
    Equal,
    /// It should be at most the target.
    AtMost,
    /// It should be at least the target.
    AtLeast,
}

impl Bound {
    /// The loss of a distance that should keep to it.
    pub fn loss(self) -> Loss {
        match self {
            Bound::Equal => Loss::Squared,
            Bound::AtMost => Loss::AtMost,
            Bound::AtLeast => Loss::AtLeast,
        }
    }
}

/// 1/N Σ ½ violation²: each of N distances by itself.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// What each distance should keep to, and the target.
    pub list: Vec<(Bound, f64)>,
}

impl Bounds {
    fn scale(&self) -> f64 {
        1.0 / self.list.len().max(1) as f64
    }

    /// How many are not kept to.
    pub fn violated(&self, distances: &[f64]) -> usize {
        let pairs = self.list.iter().zip(distances);
        pairs
            .filter(|((bound, target), d)| bound.loss().at(**d, *target).1 != 0.0)
            .count()
    }
}

impl PairLoss for Bounds {
    fn slopes(&self, distances: &[f64], out: &mut [f64]) -> f64 {
        let mut cost = 0.0;
        for (((bound, target), d), out) in self.list.iter().zip(distances).zip(out) {
            let (value, slope) = bound.loss().at(*d, *target);
            cost += value;
            *out = slope * self.scale();
        }
        cost * self.scale()
    }

    fn cost(&self, distances: &[f64]) -> f64 {
        let pairs = self.list.iter().zip(distances);
        let values = pairs.map(|((bound, target), d)| bound.loss().at(*d, *target).0);
        values.sum::<f64>() * self.scale()
    }

    fn hessian_product(&self, distances: &[f64], along: &[f64], out: &mut [f64]) {
        let pairs = self.list.iter().zip(distances).zip(along);
        for ((((bound, target), d), along), out) in pairs.zip(out) {
            let active = bound.loss().at(*d, *target).1 != 0.0;
            *out = if active { along * self.scale() } else { 0.0 };
        }
    }
}

/// Points, and the pairs of them whose distances matter, ready for passes.
#[derive(Debug, Clone)]
pub struct Distances<'a> {
    points: Cow<'a, Points>,
    pairs: Vec<Pair>,
    /// The pairs of each point: where its part of `near` begins.
    starts: Vec<u64>,
    /// The other point and the number of the pair, point by point.
    near: Vec<(u32, u32)>,
    /// Threads; results have the same bits for any number of them.
    threads: usize,
}

impl<'a> Distances<'a> {
    /// Makes passes over these pairs.
    pub fn new(points: &'a Points, pairs: Vec<Pair>, threads: usize) -> Result<Self> {
        Self::over(Cow::Borrowed(points), pairs, threads)
    }

    /// Points that it keeps.
    pub(crate) fn owning(
        points: Points,
        pairs: Vec<Pair>,
        threads: usize,
    ) -> Result<Distances<'static>> {
        Distances::over(Cow::Owned(points), pairs, threads)
    }

    fn over(points: Cow<'a, Points>, pairs: Vec<Pair>, threads: usize) -> Result<Self> {
        let n = points.len();
        if u32::try_from(pairs.len()).is_err() || n >= Pair::ORIGIN as usize {
            return Err(Error::input("more than 4,294,967,294 pairs or points"));
        }
        crate::memory::require(
            24 * pairs.len() as u128 + 8 * n as u128,
            "the pairs of each point",
        )?;
        let mut starts = vec![0_u64; n + 1];
        let ends = |pair: &Pair| {
            let right = (pair.right != Pair::ORIGIN).then_some(pair.right);
            [Some(pair.left), right].into_iter().flatten()
        };
        for pair in &pairs {
            for i in ends(pair) {
                let count = starts.get_mut(i as usize + 1).filter(|_| (i as usize) < n);
                *count.ok_or_else(|| {
                    Error::input(format!("pair of point {i} among {n} points"))
                })? += 1;
            }
        }
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut near = vec![(0, 0); starts[n] as usize];
        for (c, pair) in (0..).zip(&pairs) {
            for i in ends(pair) {
                let other = if i == pair.left {
                    pair.right
                } else {
                    pair.left
                };
                near[next[i as usize] as usize] = (other, c);
                next[i as usize] += 1;
            }
        }
        Ok(Distances {
            points,
            pairs,
            starts,
            near,
            threads,
        })
    }

    /// The pairs.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Features of a point: rows of W.
    pub fn features(&self) -> usize {
        self.points.features()
    }

    /// All points times a tall matrix.
    pub(crate) fn project(&self, y: &Mat<f64>) -> Rowwise {
        self.points.times(y, self.threads)
    }

    /// The squared distances in projected rows Z of W = G Gᵀ, Z = X G.
    pub(crate) fn of(&self, z: &Rowwise) -> Vec<f64> {
        self.products(z, z)
    }

    /// Threads for a pass over rows of this width.
    fn threads_for(&self, width: usize) -> usize {
        match self.pairs.len() * width < SMALL {
            true => 1,
            false => self.threads,
        }
    }

    /// (a_i − a_j)·(b_i − b_j) for each pair.
    pub(crate) fn products(&self, a: &Rowwise, b: &Rowwise) -> Vec<f64> {
        let threads = self.threads_for(a.width);
        let mut out = vec![0.0; self.pairs.len()];
        map_rows(&mut out, 1, BLOCK, threads, |first, out| {
            let pairs = &self.pairs[first..first + out.len()];
            by_width!(a.width, pair_products(out, pairs, a, b));
        });
        out
    }

    /// Σ w_c X_c Y, where X_c = (x_i − x_j)(x_i − x_j)ᵀ of pair c, from P = X Y with
    /// k columns.
    pub(crate) fn weighted(&self, weights: &[f64], p: &Rowwise, k: usize) -> Mat<f64> {
        let mut v = Rowwise::zero(self.points.len(), k);
        let width = v.width;
        let threads = self.threads_for(width);
        map_rows(&mut v.data, width, 64, threads, |first, rows| {
            for (i, out) in (first..).zip(rows.chunks_exact_mut(width)) {
                let range = self.starts[i] as usize..self.starts[i + 1] as usize;
                by_width!(width, pull(out, i, &self.near[range], weights, p));
            }
        });
        self.points.back(&v, k, self.threads)
    }
}

/// Σ x_l y_l where both are made of the same places of two rows: lanes first, so
/// that the compiler uses registers, then what is left of narrow rows.
#[inline(always)]
fn summed(len: usize, term: impl Fn(usize) -> f64) -> f64 {
    let whole = len / 4 * 4;
    let mut lanes = [0.0; 4];
    for first in (0..whole).step_by(4) {
        for (l, lane) in lanes.iter_mut().enumerate() {
            *lane += term(first + l);
        }
    }
    let rest: f64 = (whole..len).map(&term).sum();
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]) + rest
}

vectorized! {
    /// (a_i − a_j)·(b_i − b_j) of some pairs.
    fn pair_products<; W>(out: &mut [f64], pairs: &[Pair], a: &Rowwise, b: &Rowwise) {
        let w = if W == 0 { a.width } else { W };
        let (a, b) = (&a.data[..], &b.data[..]);
        let start = |i: u32| i as usize * w;
        for (out, pair) in out.iter_mut().zip(pairs) {
            let (x, y) = (&a[start(pair.left)..][..w], &b[start(pair.left)..][..w]);
            *out = if pair.right == Pair::ORIGIN {
                summed(w, |l| x[l] * y[l])
            } else {
                let (z, u) = (&a[start(pair.right)..][..w], &b[start(pair.right)..][..w]);
                summed(w, |l| (x[l] - z[l]) * (y[l] - u[l]))
            };
        }
    }
}

vectorized! {
    /// Adds Σ w_c (p_i − p_j) over the pairs of a point, with the weights of these.
    fn pull<; W>(out: &mut [f64], point: usize, near: &[(u32, u32)], weights: &[f64], p: &Rowwise) {
        let w = if W == 0 { p.width } else { W };
        let (out, own) = (&mut out[..w], &p.row(point)[..w]);
        for &(other, c) in near {
            let weight = weights[c as usize];
            if weight == 0.0 {
                continue;
            }
            if other == Pair::ORIGIN {
                out.iter_mut().zip(own).for_each(|(o, a)| *o += weight * a);
            } else {
                let other = &p.row(other as usize)[..w];
                let pairs = own.iter().zip(other);
                out.iter_mut()
                    .zip(pairs)
                    .for_each(|(o, (a, b))| *o += weight * (a - b));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifold::tests::matrix;

    #[test]
    fn passes_over_pairs_are_sums_of_matrices_for_any_threads() {
        for k in [1, 2, 3, 5, 9] {
            let (n, d) = (70, 6);
            let x = matrix(n, d, 1);
            let points = Points::dense(x.clone());
            let pairs: Vec<Pair> = (0..200_u32)
                .map(|t| match t % 5 {
                    0 => Pair::of_point(t % 70),
                    _ => Pair {
                        left: (t * 7) % 70,
                        right: (t * 3 + 1) % 70,
                    },
                })
                .collect();
            let weights: Vec<f64> = (0..200).map(|t| f64::from(t % 7) - 3.0).collect();
            let y = matrix(d, k, 2);
            let mut want = Mat::<f64>::zeros(d, d);
            let mut distances = Vec::new();
            for (pair, weight) in pairs.iter().zip(&weights) {
                let delta = Mat::from_fn(d, 1, |j, _| {
                    let other = (pair.right != Pair::ORIGIN).then(|| x[(pair.right as usize, j)]);
                    x[(pair.left as usize, j)] - other.unwrap_or(0.0)
                });
                distances.push((y.transpose() * &delta).squared_norm_l2());
                want += faer::Scale(*weight) * (&delta * delta.transpose());
            }
            let one = Distances::new(&points, pairs.clone(), 1).unwrap();
            let two = Distances::new(&points, pairs.clone(), 2).unwrap();
            let p = one.project(&y);
            for (got, want) in one.of(&p).iter().zip(&distances) {
                assert!((got - want).abs() < 1e-12 * (1.0 + want));
            }
            let product = one.weighted(&weights, &p, k);
            assert!((&product - want * &y).norm_max() < 1e-10);
            assert_eq!(product, two.weighted(&weights, &p, k));
            assert_eq!(one.of(&p), two.of(&p));
        }
        let points = Points::unit(3);
        let beyond = vec![Pair { left: 0, right: 3 }];
        assert!(Distances::new(&points, beyond, 1).is_err());
    }
}
