//! Margins between near and far: all rows of the own class that a row should have near
//! are to be nearer than rows of other classes, by a margin [Weinberger and Saul 2009].

use super::distances::PairLoss;
use crate::parallel::{map_blocks, map_rows};

/// Stars in a block of a pass.
const BLOCK: usize = 64;

/// The pairs of one row: first those that should be near, then those that should be
/// far. They stand one star after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Star {
    /// Pairs that should be near.
    pub near: u32,
    /// Pairs that should be far.
    pub far: u32,
}

/// The mean of ½[margin + d_near − d_far]₊² / scale² over all near and far pairs of all
/// stars. All stars have as many pairs of both kinds.
#[derive(Debug, Clone)]
pub struct Margins {
    /// What each star is made of.
    pub star: Star,
    /// How much farther the far ones should be.
    pub margin: f64,
    /// What makes the cost a pure number.
    pub scale: f64,
    /// Threads; results have the same bits for any number of them.
    pub threads: usize,
}

impl Margins {
    fn width(&self) -> usize {
        (self.star.near + self.star.far) as usize
    }

    /// The same for distances of another scale.
    pub fn of_scale(self, scale: f64) -> Self {
        Margins {
            margin: self.margin * scale / self.scale,
            scale,
            ..self
        }
    }

    /// Threads for so many distances: few are done before threads have started.
    fn threads_for(&self, distances: usize) -> usize {
        match distances < 20_000 {
            true => 1,
            false => self.threads,
        }
    }

    /// One over the number of triplets and the square of the scale.
    fn weight(&self, distances: usize) -> f64 {
        let stars = (distances / self.width()) as f64;
        let triplets = stars * f64::from(self.star.near) * f64::from(self.star.far);
        1.0 / (triplets * self.scale * self.scale)
    }

    /// Σ of the losses of a star, with slopes where they are wanted.
    fn star(&self, distances: &[f64], mut slopes: Option<&mut [f64]>) -> f64 {
        let (near, far) = distances.split_at(self.star.near as usize);
        let mut cost = 0.0;
        for (j, d_near) in near.iter().enumerate() {
            for (l, d_far) in far.iter().enumerate() {
                let violation = self.margin + d_near - d_far;
                // NaN must not look like a margin that is kept.
                if violation <= 0.0 {
                    continue;
                }
                cost += 0.5 * violation * violation;
                if let Some(slopes) = &mut slopes {
                    slopes[j] += violation;
                    slopes[near.len() + l] -= violation;
                }
            }
        }
        cost
    }

    /// How many triplets are nearer than the margin, and how many there are.
    pub fn violated(&self, distances: &[f64]) -> (usize, usize) {
        let stars = distances.chunks_exact(self.width());
        let count = |star: &[f64]| {
            let (near, far) = star.split_at(self.star.near as usize);
            let each = |n: &f64| far.iter().filter(|f| self.margin + n - **f > 0.0).count();
            near.iter().map(each).sum::<usize>()
        };
        let all = stars.len() * self.star.near as usize * self.star.far as usize;
        (stars.map(count).sum(), all)
    }
}

impl PairLoss for Margins {
    fn slopes(&self, distances: &[f64], out: &mut [f64]) -> f64 {
        let (width, weight) = (self.width(), self.weight(distances.len()));
        let threads = self.threads_for(distances.len());
        let costs = map_rows(out, width, BLOCK, threads, |first, rows| {
            let stars = distances[first * width..].chunks_exact(width);
            let mut cost = 0.0;
            for (star, out) in stars.zip(rows.chunks_exact_mut(width)) {
                out.fill(0.0);
                cost += self.star(star, Some(out));
                out.iter_mut().for_each(|slope| *slope *= weight);
            }
            cost
        });
        weight * costs.iter().sum::<f64>()
    }

    fn cost(&self, distances: &[f64]) -> f64 {
        let (width, weight) = (self.width(), self.weight(distances.len()));
        let stars = distances.len() / width;
        let threads = self.threads_for(distances.len());
        let costs = map_blocks(stars, BLOCK, threads, |range| {
            let stars = distances[range.start * width..range.end * width].chunks_exact(width);
            // Summed as in `slopes`, so that both give the same bits.
            stars.fold(0.0, |cost, star| cost + self.star(star, None))
        });
        weight * costs.iter().sum::<f64>()
    }

    fn hessian_product(&self, distances: &[f64], along: &[f64], out: &mut [f64]) {
        let (width, weight) = (self.width(), self.weight(distances.len()));
        let split = self.star.near as usize;
        let threads = self.threads_for(distances.len());
        map_rows(out, width, BLOCK, threads, |first, rows| {
            for (i, out) in rows.chunks_exact_mut(width).enumerate() {
                let at = (first + i) * width..(first + i + 1) * width;
                let (star, along) = (&distances[at.clone()], &along[at]);
                out.fill(0.0);
                for j in 0..split {
                    for l in split..width {
                        if self.margin + star[j] - star[l] > 0.0 {
                            let change = weight * (along[j] - along[l]);
                            out[j] += change;
                            out[l] -= change;
                        }
                    }
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_at;

    #[test]
    fn slopes_and_bends_are_those_of_the_cost_for_any_threads() {
        let margins = |threads| Margins {
            star: Star { near: 2, far: 3 },
            margin: 0.7,
            scale: 1.5,
            threads,
        };
        let count = 5 * 5000;
        let at = |seed: u64| -> Vec<f64> {
            (0..count).map(|t| normal_at(seed, 0, t, 0).abs()).collect()
        };
        let (distances, along) = (at(1), at(2));
        let one = margins(1);
        let mut slopes = vec![f64::NAN; distances.len()];
        let cost = one.slopes(&distances, &mut slopes);
        assert_eq!(cost, one.cost(&distances));
        let shifted = |h: f64| -> Vec<f64> {
            let pairs = distances.iter().zip(&along);
            pairs.map(|(d, a)| d + h * a).collect()
        };
        let h = 1e-6;
        let measured = (one.cost(&shifted(h)) - one.cost(&shifted(-h))) / (2.0 * h);
        let slope: f64 = slopes.iter().zip(&along).map(|(s, a)| s * a).sum();
        assert!((slope - measured).abs() < 1e-8, "{slope} {measured}");
        let mut bent = vec![f64::NAN; distances.len()];
        one.hessian_product(&distances, &along, &mut bent);
        let mut ahead = slopes.clone();
        one.slopes(&shifted(1e-7), &mut ahead);
        for ((a, s), b) in ahead.iter().zip(&slopes).zip(&bent) {
            assert!(((a - s) / 1e-7 - b).abs() < 1e-6);
        }
        let mut again = vec![0.0; distances.len()];
        assert_eq!(margins(3).slopes(&distances, &mut again), cost);
        assert_eq!(again, slopes);
        let (violated, all) = one.violated(&distances);
        assert!(violated > 0 && violated < all && all == 5000 * 6);
    }
}
