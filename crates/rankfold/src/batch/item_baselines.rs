//! Two models of items by items that others are compared with: nearest items by cosine,
//! and EASE [Steck2019]. Neither has a rank, and both cost what the rank saves.

use super::chosen::Chosen;
use super::item_regression::ItemRegression;
use crate::parallel::map_blocks;
use crate::{Result, Rows, SparseVec};

/// Items of a block of work.
const BLOCK: usize = 32;

/// For each item the `keep` items whose columns of X have the largest cosines with its own, as
/// a matrix whose row i says what choosing i adds to others. `None` where `go_on` said no.
/// Costs the sum of the squares of all histories.
pub fn nearest_items(
    rows: &Rows<f32>,
    keep: usize,
    threads: usize,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Option<Rows<f32>> {
    let chosen = Chosen::new(rows.clone(), 0.0);
    let norms: Vec<f64> = chosen.squares().iter().map(|n| n.sqrt()).collect();
    let (by_item, by_user) = (chosen.by_item(), chosen.by_user());
    let blocks = map_blocks(by_item.len(), BLOCK, threads, |range| {
        let mut sums = vec![0.0; by_item.len()];
        let mut touched: Vec<u32> = Vec::new();
        let mut out: Vec<Vec<(u32, f32)>> = Vec::new();
        for item in range.take_while(|_| go_on()) {
            for (user, own) in by_item.row(item).iter() {
                for (other, x) in by_user.row(user as usize).iter() {
                    let sum: &mut f64 = &mut sums[other as usize];
                    if *sum == 0.0 {
                        touched.push(other);
                    }
                    *sum += f64::from(own) * f64::from(x);
                }
            }
            let mut near: Vec<(u32, f32)> = Vec::with_capacity(touched.len());
            for other in touched.drain(..) {
                let sum = std::mem::take(&mut sums[other as usize]);
                if other as usize != item {
                    let cosine = sum / (norms[item] * norms[other as usize]);
                    near.push((other, cosine as f32));
                }
            }
            near.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            near.truncate(keep);
            out.push(near);
        }
        out
    });
    let lists: Vec<Vec<(u32, f32)>> = blocks.into_iter().flatten().collect();
    if lists.len() < by_item.len() {
        return None;
    }
    let mut by_target = Rows::new();
    for list in lists {
        by_target.push(SparseVec::from_entries(list).as_row());
    }
    by_target.widen(by_item.len());
    Some(by_target.transposed())
}

/// EASE with the penalty λ: row i of the square matrix says what choosing i adds to others.
pub fn ease(rows: &Rows<f32>, lambda: f64, threads: usize) -> Result<Vec<f32>> {
    let problem = ItemRegression {
        chosen: &Chosen::new(rows.clone(), 0.0),
        lambda,
        dropout: 0.0,
        threads,
    };
    let (items, full) = (rows.columns(), problem.full()?);
    Ok((0..items)
        .flat_map(|i| &full.row(i)[..items])
        .copied()
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows<f32> {
        Rows::from_dense([
            [1.0, 1.0, 0.0, 0.0, 0.5],
            [1.0, 1.0, 1.0, 0.0, 0.0],
            [0.0, 1.0, 1.0, 0.0, 2.0],
            [0.0, 0.0, 1.0, 0.0, 1.0],
        ])
        .unwrap()
    }

    fn column(j: usize) -> Vec<f64> {
        let rows = rows();
        let of = |row: crate::SparseRow<'_, f32>| {
            let found = row.iter().find(|(item, _)| *item as usize == j);
            found.map_or(0.0, |(_, x)| f64::from(x))
        };
        rows.iter().map(of).collect()
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn nearest_items_are_those_of_all_cosines() {
        for (keep, threads) in [(1, 1), (2, 3), (9, 2)] {
            let found = nearest_items(&rows(), keep, threads, &|| true).unwrap();
            let found = found.transposed();
            for j in 0..5 {
                let own = column(j);
                let cosine = |i: usize| {
                    let other = column(i);
                    dot(&own, &other) / (dot(&own, &own) * dot(&other, &other)).sqrt()
                };
                let mut all: Vec<(u32, f64)> = (0..5)
                    .filter(|&i| i != j && cosine(i) > 0.0)
                    .map(|i| (i as u32, cosine(i)))
                    .collect();
                all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                all.truncate(keep);
                all.sort_by_key(|one| one.0);
                let row: Vec<(u32, f32)> = found.row(j).iter().collect();
                assert_eq!(row.len(), all.len(), "item {j}");
                for (found, plain) in row.iter().zip(&all) {
                    assert_eq!(found.0, plain.0);
                    assert!((f64::from(found.1) - plain.1).abs() < 1e-6);
                }
            }
        }
        assert!(nearest_items(&rows(), 2, 1, &|| false).is_none());
    }

    /// Each column is the ridge regression of its item on all others.
    #[test]
    fn ease_has_zero_slope_in_every_entry() {
        let (items, lambda) = (5, 0.7);
        let w = ease(&rows(), lambda, 2).unwrap();
        for j in 0..items {
            assert_eq!(w[j * items + j], 0.0);
            let mut rest = column(j);
            for i in 0..items {
                let x = column(i);
                let weight = f64::from(w[i * items + j]);
                rest.iter_mut().zip(&x).for_each(|(r, x)| *r -= weight * x);
            }
            for i in (0..items).filter(|&i| i != j) {
                let slope = dot(&column(i), &rest) - lambda * f64::from(w[i * items + j]);
                assert!(slope.abs() < 1e-5, "{i} {j}: {slope}");
            }
        }
    }
}
