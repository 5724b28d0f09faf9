//! The nearest rows of the own class, and of other classes, of every row.

use super::{Margins, Pair, Points, Star};
use crate::eval::{Embedded, Scorer};
use crate::parallel::map_blocks;
use crate::{Error, Result};
use faer::Mat;

/// Rows whose nearest a thread looks for before it asks for more.
const BLOCK: usize = 64;

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

/// The pairs of rows that are not alone in their class, star by star, nearest first
/// under W = G Gᵀ; and what their distances should be. Rows of a small class have the
/// near ones several times, so that all rows weigh the same. Of many rows, some have a
/// star.
pub(crate) fn nearby(
    points: &Points,
    classes: &[u32],
    factor: &Mat<f64>,
    star: Star,
    threads: usize,
) -> (Vec<Pair>, Margins) {
    let rows = points.embedded(factor, threads);
    let scorer = Embedded::near(&rows, &rows, factor.ncols());
    let n = classes.len();
    let every = n.div_ceil(MOST_STARS).max(1);
    let found = map_blocks(n.div_ceil(every), BLOCK, threads, |range| {
        let mut scores = vec![0.0; n];
        let (mut pairs, mut sum) = (Vec::new(), 0.0);
        for i in range.map(|i| i * every) {
            scorer.scores(&mut scores, i, 1);
            let nearest = |same: bool, count: usize| -> Vec<(f64, usize)> {
                let others = (0..n).filter(|&j| j != i && (classes[j] == classes[i]) == same);
                let mut found: Vec<(f64, usize)> = others.map(|j| (-scores[j], j)).collect();
                let order =
                    |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
                if found.len() > count {
                    found.select_nth_unstable_by(count - 1, order);
                    found.truncate(count);
                }
                found.sort_unstable_by(order);
                found
            };
            let near = nearest(true, star.near as usize);
            if near.is_empty() {
                continue;
            }
            let near: Vec<(f64, usize)> = (near.iter().copied().cycle())
                .take(star.near as usize)
                .collect();
            let far = nearest(false, star.far as usize);
            sum += near.iter().map(|(d, _)| d).sum::<f64>();
            pairs.extend(near.iter().chain(&far).map(|&(_, j)| Pair {
                left: i as u32,
                right: j as u32,
            }));
        }
        (pairs, sum)
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
        assert!((margins.scale - mean).abs() < 1e-12);
        assert!(super::star(&[0, 0, 0], 1, 1).is_err());
        assert!(super::star(&[0, 1, 2], 1, 1).is_err());
    }
}
