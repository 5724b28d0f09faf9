//! k-means [Lloyd 1982] from k-means++ starts [Arthur and Vassilvitskii 2007]: the
//! best of several.

use crate::random::Random;

/// The stream of random numbers that draws starts.
const STARTS: u64 = 30;

/// Rounds of a run at most.
const ROUNDS: usize = 300;

/// Points in clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    /// The cluster of each point.
    pub of: Vec<u32>,
    /// Σ weight · (distance to the mean of its cluster)².
    pub cost: f64,
}

/// Dense points, each of which counts as often as its weight says.
struct Weighted<'a> {
    values: &'a [f64],
    dimension: usize,
    weights: &'a [f64],
}

/// Puts points into `k` clusters, at most as many as there are points: the best of
/// so many runs, the first of equal ones. Points are given row by row; without
/// weights each counts once. The same seed gives the same clusters.
#[track_caller]
pub fn kmeans(
    points: &[f64],
    dimension: usize,
    weights: Option<&[f64]>,
    k: usize,
    runs: usize,
    seed: u64,
) -> Clusters {
    assert!(dimension > 0 && k > 0, "points and clusters need a size");
    let n = points.len() / dimension;
    let ones;
    let weights = match weights {
        Some(weights) => weights,
        None => {
            ones = vec![1.0; n];
            &ones
        }
    };
    assert_eq!(weights.len(), n, "a weight a point");
    let points = Weighted {
        values: points,
        dimension,
        weights,
    };
    let mut random = Random::new(seed, STARTS);
    let k = k.min(n);
    let mut best = Clusters {
        of: vec![0; n],
        cost: f64::INFINITY,
    };
    if k == 0 {
        return best;
    }
    for _ in 0..runs.max(1) {
        let found = points.settle(points.start(k, &mut random));
        if found.cost < best.cost {
            best = found;
        }
    }
    best
}

impl Weighted<'_> {
    fn len(&self) -> usize {
        self.weights.len()
    }

    fn point(&self, i: usize) -> &[f64] {
        &self.values[i * self.dimension..][..self.dimension]
    }

    /// Starts that lie far from each other: each is drawn with the chance of its
    /// squared distance to those before, and is the best of a few draws.
    fn start(&self, k: usize, random: &mut Random) -> Vec<f64> {
        let n = self.len();
        let tries = 2 + (k as f64).ln() as usize;
        let first = draw(self.weights, random).unwrap_or(0);
        let mut means = self.point(first).to_vec();
        let mut near: Vec<f64> = (0..n).map(|i| square(self.point(i), &means)).collect();
        while means.len() < k * self.dimension {
            let chance: Vec<f64> = near.iter().zip(self.weights).map(|(d, w)| d * w).collect();
            let mut best: Option<(f64, usize, Vec<f64>)> = None;
            for _ in 0..tries {
                // All points lie on the starts already: any other will do.
                let pick = draw(&chance, random).unwrap_or_else(|| random.below(n));
                let with: Vec<f64> = (0..n)
                    .map(|i| near[i].min(square(self.point(i), self.point(pick))))
                    .collect();
                let cost = with.iter().zip(self.weights).map(|(d, w)| d * w).sum();
                if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                    best = Some((cost, pick, with));
                }
            }
            if let Some((_, pick, with)) = best {
                means.extend_from_slice(self.point(pick));
                near = with;
            }
        }
        means
    }

    /// Moves means to the middle of the points that are nearest to them, until none
    /// changes its cluster.
    fn settle(&self, mut means: Vec<f64>) -> Clusters {
        let (n, d) = (self.len(), self.dimension);
        let k = means.len() / d;
        let mut of = vec![u32::MAX; n];
        let mut near = vec![0.0; n];
        for _ in 0..ROUNDS {
            let mut changed = false;
            for i in 0..n {
                let (at, distance) = nearest(self.point(i), &means);
                changed |= of[i] != at;
                (of[i], near[i]) = (at, distance);
            }
            if !changed {
                break;
            }
            let mut total = vec![0.0; k];
            means.fill(0.0);
            for (i, &at) in of.iter().enumerate() {
                let at = at as usize;
                total[at] += self.weights[i];
                let mean = &mut means[at * d..][..d];
                for (m, x) in mean.iter_mut().zip(self.point(i)) {
                    *m += self.weights[i] * x;
                }
            }
            for at in 0..k {
                if total[at] > 0.0 {
                    means[at * d..][..d]
                        .iter_mut()
                        .for_each(|m| *m /= total[at]);
                    continue;
                }
                // A cluster that lost its points begins anew at the farthest one.
                let far = (0..n).max_by(|&a, &b| near[a].total_cmp(&near[b]).then(b.cmp(&a)));
                let far = far.unwrap_or(0);
                near[far] = 0.0;
                means[at * d..][..d].copy_from_slice(self.point(far));
            }
        }
        let cost = near.iter().zip(self.weights).map(|(d, w)| d * w).sum();
        Clusters { of, cost }
    }
}

/// An index with the chance of its weight; `None` where all are zero.
fn draw(weights: &[f64], random: &mut Random) -> Option<usize> {
    let total: f64 = weights.iter().sum();
    if !(total > 0.0 && total.is_finite()) {
        return None;
    }
    let unit = (random.bits() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut left = unit * total;
    let found = weights.iter().position(|w| {
        left -= w;
        left < 0.0
    });
    found.or_else(|| weights.iter().rposition(|w| *w > 0.0))
}

fn nearest(point: &[f64], means: &[f64]) -> (u32, f64) {
    let distances = means.chunks_exact(point.len()).map(|m| square(point, m));
    let start = (0, f64::INFINITY);
    (0..).zip(distances).fold(start, |best, (at, distance)| {
        if distance < best.1 {
            (at, distance)
        } else {
            best
        }
    })
}

fn square(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_at;

    /// Four heaps in the plane, with the heap of each point.
    fn heaps(n: usize) -> (Vec<f64>, Vec<u32>) {
        let of: Vec<u32> = (0..n as u32).map(|i| i % 4).collect();
        let points = (0..n).flat_map(|i| {
            let (x, y) = (of[i] % 2 * 10, of[i] / 2 * 10);
            [f64::from(x), f64::from(y)]
                .into_iter()
                .enumerate()
                .map(move |(c, v)| v + normal_at(1, 9, i as u64, c as u64))
        });
        (points.collect(), of)
    }

    #[test]
    fn heaps_are_found_whatever_the_seed() {
        let (points, of) = heaps(200);
        for seed in 0..10 {
            let found = kmeans(&points, 2, None, 4, 10, seed);
            // The clusters are the heaps, whatever their numbers.
            for (i, j) in (0..200).flat_map(|i| (0..i).map(move |j| (i, j))) {
                assert_eq!(found.of[i] == found.of[j], of[i] == of[j], "{i} and {j}");
            }
            assert_eq!(found, kmeans(&points, 2, None, 4, 10, seed));
        }
    }

    #[test]
    fn a_weight_is_a_point_that_stands_there_so_often() {
        let (points, _) = heaps(30);
        let weights: Vec<f64> = (0..30).map(|i| f64::from(i % 3 + 1)).collect();
        let each = |i: usize| std::iter::repeat_n(&points[2 * i..][..2], weights[i] as usize);
        let often: Vec<f64> = (0..30).flat_map(each).flatten().copied().collect();
        let weighted = kmeans(&points, 2, Some(&weights), 4, 20, 1);
        let plain = kmeans(&often, 2, None, 4, 20, 1);
        assert!((weighted.cost - plain.cost).abs() < 1e-9 * plain.cost);
    }

    #[test]
    fn awkward_sizes_are_no_trouble() {
        assert_eq!(kmeans(&[1.0, 2.0], 1, None, 5, 3, 0).cost, 0.0);
        assert!(kmeans(&[], 1, None, 2, 3, 0).of.is_empty());
        // Fewer places than clusters.
        let found = kmeans(&[3.0; 12], 2, None, 4, 3, 0);
        assert_eq!((found.cost, found.of.len()), (0.0, 6));
    }
}
