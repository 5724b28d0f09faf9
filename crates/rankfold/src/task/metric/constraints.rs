//! What distances should be: from labels, or as a file says.

use super::engine::Bounded;
use crate::batch::{Bound, Distances, Pair, Points};
use crate::data::{Constraint, Relation};
use crate::model::Distances as Levels;
use crate::random::Random;
use crate::{Error, Result};
use faer::Mat;
use std::borrow::Cow;

/// Pairs of rows of which the percentiles of distances are taken at most: all, where
/// there are no more.
const MOST_PAIRS: usize = 1_000_000;

/// The streams of random numbers that draw pairs.
const PAIRS: u64 = 20;
const LEVELS: u64 = 21;

/// The value below which a share of sorted numbers lies, between two of them in
/// proportion.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = share * sorted.len().saturating_sub(1) as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    match (sorted.get(below), sorted.get(above)) {
        (Some(a), Some(b)) => a + (at - at.floor()) * (b - a),
        _ => f64::NAN,
    }
}

/// The 5th and the 95th percentile of squared distances under W = G Gᵀ: those of all
/// pairs of points where they are at most a million, else of so many random ones.
pub fn squared_distance_levels(
    points: &Points,
    factor: &Mat<f64>,
    seed: u64,
    threads: usize,
) -> Result<Levels> {
    let n = points.len();
    let pairs: Vec<Pair> = if n.saturating_mul(n.saturating_sub(1)) / 2 <= MOST_PAIRS {
        let pair = |i: usize, j: usize| Pair {
            left: i as u32,
            right: j as u32,
        };
        (0..n)
            .flat_map(|i| (0..i).map(move |j| pair(i, j)))
            .collect()
    } else {
        let mut random = Random::new(seed, LEVELS);
        (0..MOST_PAIRS)
            .map(|_| other_pair(&mut random, n))
            .collect()
    };
    let distances = Distances::new(points, pairs, threads)?;
    let mut found = distances.of(&distances.project(factor));
    found.sort_by(f64::total_cmp);
    let (near, far) = (percentile(&found, 0.05), percentile(&found, 0.95));
    match far.is_finite() && far > 0.0 {
        true => Ok(Levels { near, far }),
        false => Err(Error::input(
            "rows do not differ, or their distances leave the range of numbers",
        )),
    }
}

/// Two points that are not the same.
fn other_pair(random: &mut Random, n: usize) -> Pair {
    let left = random.below(n);
    let right = (left + 1 + random.below(n - 1)) % n;
    Pair {
        left: left as u32,
        right: right as u32,
    }
}

/// Draws pairs of points, in turn of one class and of two: at most the near level
/// inside a class, at least the far one between classes. A point that is alone in its
/// class has no pair of the first kind.
#[derive(Debug)]
pub(crate) struct Draws<'a> {
    classes: Cow<'a, [u32]>,
    levels: Levels,
    /// Points by class, so that both the class and the rest are ranges.
    order: Vec<u32>,
    /// Where a point stands in that order.
    place: Vec<usize>,
}

impl<'a> Draws<'a> {
    /// Of points of two classes at least.
    pub fn new(classes: impl Into<Cow<'a, [u32]>>, levels: Levels) -> Self {
        let classes = classes.into();
        let mut order: Vec<u32> = (0..classes.len() as u32).collect();
        order.sort_by_key(|&i| classes[i as usize]);
        let mut place = vec![0; classes.len()];
        (0..)
            .zip(&order)
            .for_each(|(at, &i)| place[i as usize] = at);
        Draws {
            classes,
            levels,
            order,
            place,
        }
    }

    /// A pair of one class in even turns.
    pub fn draw(&self, random: &mut Random, turn: u64) -> Bounded {
        let Draws {
            classes,
            order,
            place,
            ..
        } = self;
        let n = classes.len();
        let left = random.below(n);
        let class = classes[left];
        let first = order.partition_point(|&i| classes[i as usize] < class);
        let size = order.partition_point(|&i| classes[i as usize] <= class) - first;
        let right = match turn.is_multiple_of(2) && size > 1 {
            true => {
                let step = 1 + random.below(size - 1);
                first + (place[left] - first + step) % size
            }
            false => (first + size + random.below(n - size)) % n,
        };
        let pair = Pair {
            left: left as u32,
            right: order[right],
        };
        same_or_not(pair, classes, self.levels)
    }
}

/// So many random pairs.
pub(crate) fn random(classes: &[u32], count: usize, levels: Levels, seed: u64) -> Vec<Bounded> {
    let mut random = Random::new(seed, PAIRS);
    let draws = Draws::new(classes, levels);
    (0..count as u64)
        .map(|turn| draws.draw(&mut random, turn))
        .collect()
}

fn same_or_not(pair: Pair, classes: &[u32], levels: Levels) -> Bounded {
    match classes[pair.left as usize] == classes[pair.right as usize] {
        true => (pair, Bound::AtMost, levels.near),
        false => (pair, Bound::AtLeast, levels.far),
    }
}

/// What a file says, with distances squared.
pub(crate) fn given(constraints: &[Constraint], levels: Levels) -> Vec<Bounded> {
    let bounded = |c: &Constraint| {
        let pair = Pair {
            left: c.left,
            right: c.right,
        };
        let (bound, target) = match c.relation {
            Relation::Same => (Bound::AtMost, levels.near),
            Relation::Different => (Bound::AtLeast, levels.far),
            Relation::AtMost(v) => (Bound::AtMost, v * v),
            Relation::AtLeast(v) => (Bound::AtLeast, v * v),
            Relation::Equal(v) => (Bound::Equal, v * v),
        };
        (pair, bound, target)
    };
    constraints.iter().map(bounded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_interpolated() {
        let sorted = [0.0, 1.0, 2.0, 10.0];
        assert_eq!(percentile(&sorted, 0.5), 1.5);
        assert_eq!(percentile(&sorted, 0.0), 0.0);
        assert!((percentile(&sorted, 0.95) - 8.8).abs() < 1e-12);
        assert_eq!(percentile(&[3.0], 0.95), 3.0);
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn random_pairs_join_two_points_and_reach_all_of_them() {
        let classes = [0, 0, 1, 1, 2];
        let levels = Levels {
            near: 1.0,
            far: 2.0,
        };
        let found = random(&classes, 1000, levels, 3);
        assert!(found.iter().all(|(pair, bound, y)| {
            let same = classes[pair.left as usize] == classes[pair.right as usize];
            let want = if same {
                (Bound::AtMost, 1.0)
            } else {
                (Bound::AtLeast, 2.0)
            };
            pair.left != pair.right && (*bound, *y) == want
        }));
        let different: std::collections::BTreeSet<Pair> =
            found.iter().map(|(pair, ..)| *pair).collect();
        assert_eq!(different.len(), 20);
        assert_eq!(found, random(&classes, 1000, levels, 3));
    }
}
