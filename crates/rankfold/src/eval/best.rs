//! The best of packed rows for a few queries, part by part: memory does not grow with the
//! number of rows, and parts may be shared among threads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::Panels;
use super::ranks::key;
use crate::Real;

/// The best candidates so far; of equal scores the smaller row is better, and what is not a
/// number comes last.
#[derive(Debug, Clone)]
pub struct Best {
    k: usize,
    /// The worst on top: a low score, then a high row number.
    heap: BinaryHeap<Candidate>,
    /// No score up to here can enter; minus infinity as long as there is room.
    floor: f64,
}

/// Larger is worse.
type Candidate = (Reverse<u64>, usize, u64);

impl Best {
    /// Room for `k` candidates.
    pub fn new(k: usize) -> Self {
        Best {
            k,
            heap: BinaryHeap::new(),
            floor: f64::NEG_INFINITY,
        }
    }

    /// Takes a candidate in, where it is good enough.
    #[inline]
    pub fn offer(&mut self, row: usize, score: f64) {
        if self.heap.len() == self.k && !(score >= self.floor) {
            return;
        }
        self.insert(row, score);
    }

    /// No score below this one can enter.
    pub(super) fn floor(&self) -> f64 {
        self.floor
    }

    fn insert(&mut self, row: usize, score: f64) {
        let candidate = (Reverse(key(score)), row, score.to_bits());
        if self.heap.len() < self.k {
            self.heap.push(candidate);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && candidate < *worst
        {
            *worst = candidate;
        }
        if self.heap.len() == self.k
            && let Some(worst) = self.heap.peek()
        {
            let worst = f64::from_bits(worst.2);
            self.floor = if worst.is_nan() {
                f64::NEG_INFINITY
            } else {
                worst
            };
        }
    }

    /// Takes in what another found.
    pub fn merge(&mut self, other: Best) {
        for (_, row, score) in other.heap {
            self.offer(row, f64::from_bits(score));
        }
    }

    /// The candidates, best first.
    pub fn into_list(self) -> Vec<(usize, f64)> {
        let sorted = self.heap.into_sorted_vec().into_iter();
        sorted
            .map(|(_, row, score)| (row, f64::from_bits(score)))
            .collect()
    }
}

impl<R: Real> Panels<R> {
    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.len().div_ceil(Self::PART)
    }

    /// Offers the rows of some parts to the lists of left rows. `hidden` says which rows are
    /// left out of a list.
    pub fn search(
        &self,
        left: &[R],
        parts: Range<usize>,
        lists: &mut [Best],
        hidden: impl Fn(usize, usize) -> bool,
    ) {
        let queries = left.len() / self.rank();
        let mut scores = vec![0.0; queries * Self::PART.min(self.len())];
        for part in parts {
            let rows = self.scores_of_part(&mut scores, left, part);
            let scores = scores.chunks_exact(rows).take(queries);
            for (query, (scores, list)) in scores.zip(lists.iter_mut()).enumerate() {
                for (i, &score) in scores.iter().enumerate() {
                    // Most are not good enough, which costs one comparison.
                    if list.heap.len() == list.k && !(score >= list.floor) {
                        continue;
                    }
                    let row = part * Self::PART + i;
                    if !hidden(query, row) {
                        list.insert(row, score);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::{Embedded, nearest};
    use std::convert::Infallible;

    #[test]
    fn lists_are_those_of_a_whole_search_however_parts_are_shared() {
        let (rows, rank) = (5000, 3);
        let points: Vec<f32> = (0..rows * rank).map(|i| (i * i % 7) as f32).collect();
        let queries = [0, 3, 4999];
        let mut want = Vec::new();
        let Ok(()) = nearest(
            &Embedded::new(&points, &points, rank),
            &queries,
            9,
            1,
            |_, l| {
                want.push(l.to_vec());
                Ok::<_, Infallible>(())
            },
        );
        let left: Vec<f32> = queries
            .iter()
            .flat_map(|&q| points[q * rank..][..rank].iter().copied())
            .collect();
        let panels = Panels::new(&points, rank, false);
        assert_eq!(panels.parts(), 3);
        for cuts in [vec![0, 3], vec![0, 1, 3], vec![0, 1, 2, 3]] {
            let mut lists = vec![Best::new(9); queries.len()];
            for cut in cuts.windows(2) {
                let mut part = vec![Best::new(9); queries.len()];
                panels.search(&left, cut[0]..cut[1], &mut part, |q, row| queries[q] == row);
                lists.iter_mut().zip(part).for_each(|(a, b)| a.merge(b));
            }
            let lists: Vec<_> = lists.into_iter().map(Best::into_list).collect();
            assert_eq!(lists, want);
        }
        assert_eq!(panels.row(4999).collect::<Vec<_>>(), points[4999 * rank..]);
    }

    #[test]
    fn what_is_no_number_comes_last() {
        let mut best = Best::new(2);
        for (row, score) in [f64::NAN, f64::NEG_INFINITY, f64::NAN, 1.0]
            .into_iter()
            .enumerate()
        {
            best.offer(row, score);
        }
        let rows: Vec<usize> = best.into_list().iter().map(|found| found.0).collect();
        assert_eq!(rows, [3, 1]);
    }
}
