//! The nearest rows of the own class, and of other classes, of every row.

use super::singles::singles;
use super::{Margins, Pair, Points, Star};
use crate::eval::{Embedded, Scorer};
use crate::parallel::map_blocks;
use crate::{Error, Result};
use faer::Mat;
use std::ops::Range;

/// Rows whose nearest a thread looks for before it asks for more.
const BLOCK: usize = 48;

/// Rows that have a star at most: looking for the nearest costs all rows for each.
const MOST_STARS: usize = 10_000;

/// How much farther far rows should be than near ones: the margin, as a multiple of the
/// mean squared distance of near ones.
const MARGIN: f64 = 2.0;

/// How many near and far rows every row has: as many as wanted, or as many as the
/// largest class and what is outside of it allow.
pub(crate) fn star(classes: &[u32], near: usize, far: usize) -> Result<Star> {
    let many = classes.iter().max().map_or(0, |&c| c as usize + 1);
    let mut sizes = vec![0_usize; many];
    classes.iter().for_each(|&c| sizes[c as usize] += 1);
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let near = near.min(largest.saturating_sub(1));
    let far = far.min(classes.len() - largest);
    if near == 0 || far == 0 {
        return Err(Error::input(
            "neighbors of both kinds need two classes, and two rows in one of them at least",
        ));
    }
    Ok(Star {
        near: near as u32,
        far: far as u32,
    })
}

/// A class: where its rows are, and its stars, in the order of classes.
#[derive(Debug)]
struct Class<'a> {
    rows: Range<usize>,
    stars: Range<usize>,
    /// Its stars with its rows.
    scorer: Embedded<'a, f32>,
}

/// A search for the nearest rows of both kinds. Rows stand in the order of classes, so that those
/// of the own class are looked for among few, and only they are in the way among all.
#[derive(Debug)]
struct Search<'a> {
    /// All stars with all rows.
    scorer: Embedded<'a, f32>,
    /// The number of each row.
    order: Vec<u32>,
    /// The place of each star among the rows.
    stars: Vec<usize>,
    classes: Vec<Class<'a>>,
    star: Star,
}

/// The nearest rows of a star, by their places, and minus their squared distances.
type Nearest = Vec<(usize, f64)>;

impl Search<'_> {
    /// Every so many-th row is a star.
    fn new(rows: &[f32], classes: &[u32], rank: usize, star: Star, every: usize) -> Self {
        let mut order: Vec<u32> = (0..classes.len() as u32).collect();
        order.sort_by_key(|&i| classes[i as usize]);
        let sorted: Vec<f32> = (order.iter())
            .flat_map(|&i| rows[i as usize * rank..][..rank].iter().copied())
            .collect();
        let is_star = |place: &usize| (order[*place] as usize).is_multiple_of(every);
        let stars: Vec<usize> = (0..order.len()).filter(is_star).collect();
        let of = |stars: &[usize]| -> Vec<f32> {
            let rows = stars.iter().map(|&place| &sorted[place * rank..][..rank]);
            rows.flatten().copied().collect()
        };
        let mut found = Vec::new();
        for run in order.chunk_by(|&i, &j| classes[i as usize] == classes[j as usize]) {
            let first = found.last().map_or(0, |class: &Class<'_>| class.rows.end);
            let rows = first..first + run.len();
            let place = |end: usize| stars.partition_point(|&place| place < end);
            let stars_of = place(rows.start)..place(rows.end);
            let own = &sorted[rows.start * rank..rows.end * rank];
            found.push(Class {
                scorer: Embedded::owning_near(of(&stars[stars_of.clone()]), own, rank),
                rows,
                stars: stars_of,
            });
        }
        Search {
            scorer: Embedded::owning_near(of(&stars), &sorted, rank),
            order,
            stars,
            classes: found,
            star,
        }
    }

    /// Calls with each star of a range that is not alone in its class, and with its nearest
    /// rows of the own class and of others, nearest first, of equally near ones the first.
    fn each(&self, range: Range<usize>, mut call: impl FnMut(usize, Nearest, Nearest)) {
        for class in &self.classes {
            let (first, last) = (class.stars.start, class.stars.end);
            let stars = range.start.max(first)..range.end.min(last);
            let most = (self.star.near as usize).min(class.rows.len() - 1);
            if stars.is_empty() || most == 0 {
                continue;
            }
            let own = |at: usize| self.stars[stars.start + at] - class.rows.start;
            let of_class = stars.start - first..stars.end - first;
            let other = |_, row: usize| !class.rows.contains(&row);
            let near = nearest(&class.scorer, of_class, most, |at, row| row != own(at));
            let far = nearest(&self.scorer, stars.clone(), self.star.far as usize, other);
            for ((star, mut near), far) in stars.clone().zip(near).zip(far) {
                near.iter_mut()
                    .for_each(|(row, _)| *row += class.rows.start);
                call(star, near, far);
            }
        }
    }
}

/// The `k` nearest of the rows that are accepted for each left row of a range.
fn nearest(
    scorer: &Embedded<'_, f32>,
    range: Range<usize>,
    k: usize,
    accepts: impl Fn(usize, usize) -> bool,
) -> Vec<Nearest> {
    let score = |at: usize, row: usize| scorer.score_one(range.start + at, row);
    let rough = scorer.rough(range.start, range.len());
    let found = rough.and_then(|rough| rough.best_where(k, &accepts, &score));
    found.unwrap_or_else(|| plain(scorer, range, k, accepts))
}

/// The same by all scores.
fn plain(
    scorer: &Embedded<'_, f32>,
    range: Range<usize>,
    k: usize,
    accepts: impl Fn(usize, usize) -> bool,
) -> Vec<Nearest> {
    let mut scores = vec![0.0; scorer.candidates()];
    let row = |left: usize| {
        scorer.scores(&mut scores, left, 1);
        let accepted = (0..scores.len()).filter(|&row| accepts(left - range.start, row));
        let mut found: Nearest = accepted.map(|row| (row, scores[row])).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(k);
        found
    };
    range.clone().map(row).collect()
}

/// The pairs of rows that are not alone in their class, star by star in the order of classes,
/// nearest first under W = G Gᵀ; and what their distances should be. Rows of a small class have
/// the near ones several times, so that all rows weigh the same. Of many rows, some have a
/// star. The nearest are looked for in single precision.
pub(crate) fn nearby(
    points: &Points,
    classes: &[u32],
    factor: &Mat<f64>,
    star: Star,
    threads: usize,
) -> (Vec<Pair>, Margins) {
    let ([rows], unit) = singles([points], factor, threads);
    let every = classes.len().div_ceil(MOST_STARS).max(1);
    let search = Search::new(&rows, classes, factor.ncols(), star, every);
    let found = map_blocks(search.stars.len(), BLOCK, threads, |range| {
        let (mut pairs, mut sum) = (Vec::new(), 0.0);
        search.each(range, |at, near, far| {
            let left = search.order[search.stars[at]];
            let near = near.iter().cycle().take(star.near as usize);
            sum -= near.clone().map(|(_, score)| score).sum::<f64>();
            pairs.extend(near.chain(&far).map(|&(place, _)| Pair {
                left,
                right: search.order[place],
            }));
        });
        (pairs, unit * sum)
    });
    let total: f64 = found.iter().map(|(_, sum)| sum).sum();
    let pairs: Vec<Pair> = found.into_iter().flat_map(|(pairs, _)| pairs).collect();
    let stars = pairs.len() / (star.near + star.far) as usize;
    let mean = total / (stars.max(1) * star.near as usize) as f64;
    // Rows that are all in the same place have no scale of their own.
    let scale = if mean > 0.0 { mean } else { 1.0 };
    let margins = Margins {
        star,
        margin: MARGIN * scale,
        scale,
        threads,
    };
    (pairs, margins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_hold_the_nearest_of_both_kinds() {
        let points = Points::dense(Mat::from_fn(6, 1, |i, _| {
            [0.0, 1.0, 3.0, 3.5, 9.0, 20.0][i]
        }));
        let classes = [0, 0, 0, 1, 1, 2];
        let star = star(&classes, 5, 2).unwrap();
        assert_eq!(star, Star { near: 2, far: 2 });
        let (pairs, margins) = nearby(&points, &classes, &Mat::identity(1, 1), star, 2);
        let pairs: Vec<(u32, u32)> = pairs.iter().map(|p| (p.left, p.right)).collect();
        // The second class has one other row, the third has none.
        let want = [
            [(0, 1), (0, 2), (0, 3), (0, 4)],
            [(1, 0), (1, 2), (1, 3), (1, 4)],
            [(2, 1), (2, 0), (2, 3), (2, 4)],
            [(3, 4), (3, 4), (3, 2), (3, 1)],
            [(4, 3), (4, 3), (4, 2), (4, 1)],
        ];
        assert_eq!(pairs, want.concat());
        let mean = (1.0 + 9.0 + 1.0 + 4.0 + 4.0 + 9.0 + 4.0 * 5.5 * 5.5) / 10.0;
        // Coordinates of at most 14 from the center are rounded to single precision, and none of
        // the distances is above 5.5.
        let off = 14.0 * f64::from(f32::EPSILON);
        assert!((margins.scale - mean).abs() < 2.0 * 5.5 * off);
        assert!(super::star(&[0, 0, 0], 1, 1).is_err());
        assert!(super::star(&[0, 1, 2], 1, 1).is_err());
    }
    #[test]
    fn the_nearest_of_many_are_those_by_all_scores() {
        let (n, k) = (700, 3);
        // Few places, so that there are ties; a class with one row, and one with two.
        let mut rows: Vec<f32> = (0..n * k).map(|t| (t * t % 11) as f32).collect();
        let classes: Vec<u32> = (0..n as u32)
            .map(|i| match i {
                5 => 7,
                6 | 600 => 8,
                _ => i * 7 % 4,
            })
            .collect();
        let star = Star { near: 5, far: 20 };
        for (every, finite) in [(1, true), (3, true), (1, false)] {
            // What is not finite is looked for by all scores.
            rows[4] = if finite { 1.0 } else { f32::NAN };
            let search = Search::new(&rows, &classes, k, star, every);
            let count = search.stars.len();
            assert_eq!(count, n.div_ceil(every));
            let mut seen = 0;
            search.each(0..count, |at, near, far| {
                let left = search.stars[at];
                let class = |place: usize| classes[search.order[place] as usize];
                let kinds = [true, false].map(|same| {
                    let other = |_, row| row != left && (class(row) == class(left)) == same;
                    let k = if same { 5 } else { 20 };
                    plain(&search.scorer, at..at + 1, k, other).remove(0)
                });
                let key = |list: &[(usize, f64)]| -> Vec<(usize, u64)> {
                    list.iter()
                        .map(|(row, score)| (*row, score.to_bits()))
                        .collect()
                };
                assert_eq!(kinds.map(|list| key(&list)), [key(&near), key(&far)]);
                let small = if class(left) == 8 { 1 } else { 5 };
                assert_eq!((near.len(), far.len()), (small, 20));
                seen += 1;
            });
            // The row that is alone in its class has no star.
            assert_eq!(seen, count - usize::from(every == 1));
        }
    }
}
