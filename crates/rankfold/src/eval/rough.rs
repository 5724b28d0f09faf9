//! The best candidates by products in single precision, with the scores of double precision.
//!
//! A rough score differs from the score by a bound that follows from the lengths of both rows. A
//! candidate whose rough score lies below the worst of the best by more than that cannot enter.
//! Few others remain, and they are scored exactly: lists are the same as without a rough pass,
//! at the speed of products in single precision.
//!
//! Six left rows and sixteen right rows are multiplied at a time, with all sums in registers. A
//! part of the right rows stays in the cache while all left rows of a block pass by.

use super::best::Best;
use super::embedded::LANES;

/// Left rows that are multiplied together.
const QUERIES: usize = 6;

/// Right rows that are multiplied together, in panels.
const PANELS: usize = 2;

/// Left rows that a thread handles at a time.
pub(super) const BLOCK: usize = 8 * QUERIES;

/// Right rows that stay in the cache: whole panels, a multiple of those multiplied together.
const PART: usize = 2048;

/// Rounding of one operation.
const UNIT: f64 = f32::EPSILON as f64 / 2.0;

/// Left rows with all right rows.
#[derive(Debug, Clone, Copy)]
pub struct Rough<'a> {
    /// The left rows, one after the other.
    pub(super) left: &'a [f32],
    /// The right rows, packed in [`Panels`](super::Panels).
    pub(super) panels: &'a [f32],
    pub(super) rank: usize,
    pub(super) candidates: usize,
    /// Whether scores are minus the squares of distances.
    pub(super) near: bool,
    /// The longest right row.
    pub(super) longest: f64,
}

/// A left row on its way: what it found, and what a rough score must reach.
struct Search {
    best: Best,
    /// Of the difference between rough scores and scores: a + b |score|.
    slack: (f64, f64),
    least: f32,
}

impl Search {
    fn offer(&mut self, row: usize, score: f64) {
        self.best.offer(row, score);
        let floor = self.best.floor();
        // Rounded down.
        let least = floor - (self.slack.0 + self.slack.1 * floor.abs());
        self.least = (least as f32).next_down();
    }
}

impl Rough<'_> {
    /// How far a rough score may be from the score of a left row; none where single precision
    /// does not reach.
    fn slack(&self, left: &[f32]) -> Option<(f64, f64)> {
        // Products, sums, and the differences of distances, each rounded; twice that, because
        // roundings multiply.
        let relative = 2.0 * (left.len() as f64 + 4.0) * UNIT;
        let length = length(left);
        // What underflows is lost as a whole.
        let lost = 2.0 * left.len() as f64 * f64::from(f32::MIN_POSITIVE);
        match self.near {
            // A sum of squares is as exact as its terms.
            true => {
                let most = (length + self.longest).powi(2);
                (most < f64::from(f32::MAX) / 4.0).then_some((lost, relative))
            }
            false => {
                let most = length * self.longest;
                (most < f64::from(f32::MAX) / 4.0).then_some((relative * most + lost, 0.0))
            }
        }
    }

    /// The `k` best candidates of each left row. `score` gives the score of a left row, counted
    /// from 0, with a candidate. None where single precision does not reach.
    pub fn best(
        &self,
        k: usize,
        score: &dyn Fn(usize, usize) -> f64,
    ) -> Option<Vec<Vec<(usize, f64)>>> {
        self.best_where(k, |_, _| true, score)
    }

    /// The same among the candidates that `accepts` lets in for a left row.
    pub(crate) fn best_where(
        &self,
        k: usize,
        accepts: impl Fn(usize, usize) -> bool,
        score: &dyn Fn(usize, usize) -> f64,
    ) -> Option<Vec<Vec<(usize, f64)>>> {
        let rank = self.rank;
        let rows = self.left.chunks_exact(rank);
        let begin = |left: &[f32]| {
            Some(Search {
                best: Best::new(k),
                slack: self.slack(left)?,
                least: f32::NEG_INFINITY,
            })
        };
        let mut searches = rows.map(begin).collect::<Option<Vec<Search>>>()?;
        // Coordinates of the left rows of a group side by side.
        let mut groups = vec![[0.0; QUERIES]; searches.len().div_ceil(QUERIES) * rank];
        for (i, row) in self.left.chunks_exact(rank).enumerate() {
            let group = &mut groups[i / QUERIES * rank..][..rank];
            for (slot, &value) in group.iter_mut().zip(row) {
                slot[i % QUERIES] = value;
            }
        }
        let panel = rank * LANES;
        for (part_number, part) in self.panels.chunks(PART * rank).enumerate() {
            let first = part_number * PART;
            let groups = groups.chunks_exact(rank).zip(searches.chunks_mut(QUERIES));
            for (number, (group, searches)) in groups.enumerate() {
                for (at, panels) in part.chunks(PANELS * panel).enumerate() {
                    let (one, two) = panels.split_at(panel.min(panels.len()));
                    // The last panel may be alone: it is then multiplied twice.
                    let two = if two.is_empty() { one } else { two };
                    let sums = products(one.as_chunks().0, two.as_chunks().0, group, self.near);
                    let first = first + at * PANELS * LANES;
                    let last = (first + panels.len() / rank).min(self.candidates);
                    for (query, (search, sums)) in searches.iter_mut().zip(&sums).enumerate() {
                        let sums = sums.as_flattened();
                        // Not-a-number is looked at as well.
                        let enters = sums.iter().fold(false, |any, s| any | !(*s < search.least));
                        if enters {
                            for (candidate, sum) in (first..last).zip(sums) {
                                let row = number * QUERIES + query;
                                if !(*sum < search.least) && accepts(row, candidate) {
                                    search.offer(candidate, score(row, candidate));
                                }
                            }
                        }
                    }
                }
            }
        }
        let lists = searches.into_iter().map(|search| search.best.into_list());
        Some(lists.collect())
    }
}

/// The length of a row.
pub(super) fn length(row: &[f32]) -> f64 {
    row.iter()
        .map(|v| f64::from(*v).powi(2))
        .sum::<f64>()
        .sqrt()
}

type Sums = [[[f32; LANES]; PANELS]; QUERIES];

fn products(
    one: &[[f32; LANES]],
    two: &[[f32; LANES]],
    group: &[[f32; QUERIES]],
    near: bool,
) -> Sums {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has just been asked.
        return unsafe { products_avx2(one, two, group, near) };
    }
    match near {
        true => products_anywhere::<true, false>(one, two, group),
        false => products_anywhere::<false, false>(one, two, group),
    }
}

/// The same loops, compiled for wider registers and fused sums.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn products_avx2(
    one: &[[f32; LANES]],
    two: &[[f32; LANES]],
    group: &[[f32; QUERIES]],
    near: bool,
) -> Sums {
    match near {
        true => products_anywhere::<true, true>(one, two, group),
        false => products_anywhere::<false, true>(one, two, group),
    }
}

#[inline(always)]
fn products_anywhere<const NEAR: bool, const FUSED: bool>(
    one: &[[f32; LANES]],
    two: &[[f32; LANES]],
    group: &[[f32; QUERIES]],
) -> Sums {
    let mut sums = [[[0.0; LANES]; PANELS]; QUERIES];
    for ((one, two), left) in one.iter().zip(two).zip(group) {
        for (sums, left) in sums.iter_mut().zip(left) {
            for (sums, right) in sums.iter_mut().zip([one, two]) {
                for (sum, right) in sums.iter_mut().zip(right) {
                    let (a, b) = match NEAR {
                        true => (*right - *left, *left - *right),
                        false => (*left, *right),
                    };
                    *sum = if FUSED {
                        a.mul_add(b, *sum)
                    } else {
                        *sum + a * b
                    };
                }
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use crate::eval::{Embedded, Scorer, nearest, nearest_among};
    use crate::random::Random;
    use std::convert::Infallible;

    /// The same scores without a rough pass.
    struct Exact<'a>(Embedded<'a, f32>);

    impl Scorer for Exact<'_> {
        fn rows(&self) -> usize {
            self.0.rows()
        }

        fn candidates(&self) -> usize {
            self.0.candidates()
        }

        fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
            self.0.scores(out, first, queries);
        }
    }

    fn lists(scorer: &impl Scorer, queries: &[usize], k: usize, own: bool) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        let each = |_: usize, list: &[(usize, f64)]| {
            all.extend(list.iter().map(|(row, score)| (*row, score.to_bits())));
            all.push((usize::MAX, 0));
            Ok::<_, Infallible>(())
        };
        let Ok(()) = match own {
            true => nearest(scorer, queries, k, 2, each),
            false => nearest_among(scorer, queries, k, 2, each),
        };
        all
    }

    /// Rows by chance; some equal, some nearly so, some zero.
    fn rows(count: usize, rank: usize, seed: u64, size: f32) -> Vec<f32> {
        let mut random = Random::new(seed, 0);
        let mut out: Vec<f32> = Vec::with_capacity(count * rank);
        for i in 0..count {
            let copied = (i > 0 && i % 5 == 0).then(|| random.below(i));
            for t in 0..rank {
                let value = size * (random.below(2001) as f32 / 1000.0 - 1.0);
                out.push(match copied {
                    _ if i % 17 == 3 => 0.0,
                    Some(from) if i % 2 == 0 => out[from * rank + t],
                    Some(from) => out[from * rank + t].next_up(),
                    None => value,
                });
            }
        }
        out
    }

    #[test]
    fn lists_have_the_bits_of_all_scores() {
        let shapes = [(1, 1), (7, 3), (53, 64), (100, 5), (4500, 7), (2048, 2)];
        for (at, (count, rank)) in shapes.into_iter().enumerate() {
            for size in [1.0, 1e-30, 1e18, 1e30] {
                let right = rows(count, rank, at as u64, size);
                let mut left = rows(70, rank, 100 + at as u64, 1.0);
                left[rank - 1] = f32::NAN;
                let queries: Vec<usize> = (0..70).filter(|i| i % 9 != 2).collect();
                for k in [1, 10, count + 3] {
                    let far = |left| Embedded::new(left, &right, rank);
                    let near = |left| Embedded::near(left, &right, rank);
                    for make in [&far as &dyn Fn(_) -> _, &near] {
                        let (found, want) = (make(&left), Exact(make(&left)));
                        let found = lists(&found, &queries, k, false);
                        assert_eq!(
                            found,
                            lists(&want, &queries, k, false),
                            "{count} {rank} {size}"
                        );
                        let (found, want) = (make(&right), Exact(make(&right)));
                        let queries: Vec<usize> = (0..count.min(60)).collect();
                        let found = lists(&found, &queries, k, true);
                        assert_eq!(
                            found,
                            lists(&want, &queries, k, true),
                            "{count} {rank} {size}"
                        );
                    }
                }
            }
        }
    }

    /// Where a rough pass is worth it, few candidates are scored twice.
    #[test]
    fn few_candidates_are_scored_exactly() {
        let (count, rank, k) = (20_000, 16, 10);
        let right = rows(count, rank, 1, 1.0);
        let left = rows(6, rank, 2, 1.0);
        let scorer = Embedded::new(&left, &right, rank);
        let asked = std::cell::Cell::new(0);
        let rough = scorer.rough(0, 6).expect("single precision");
        let lists = rough.best(k, &|row, candidate| {
            asked.set(asked.get() + 1);
            scorer.score_one(row, candidate)
        });
        assert_eq!(lists.map(|lists| lists.len()), Some(6));
        // Those that enter a list of ten on the way: about k (1 + ln(n/k)) each, 86; a row of
        // zeros has as many equal scores as there are candidates.
        let zeros = left
            .chunks(rank)
            .filter(|row| row.iter().all(|v| *v == 0.0))
            .count();
        assert!(asked.get() < 6 * 400 + zeros * count, "{}", asked.get());
    }
}
