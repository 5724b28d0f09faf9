//! The best candidates of each query, without sorting all of them.
//!
//! A heap of k keeps the best so far, its worst on top. Most candidates are
//! worse than that and cost one comparison: O(n + k log k · log n) a query in
//! the mean. Queries go in blocks to whichever thread is free, and a round of
//! blocks is given out in order before the next one starts, so that memory is
//! O(threads · (n + k)) whatever the number of queries.

use super::Scorer;
use super::ranks::key;
use super::retrieval::BLOCK;
use super::rough;
use crate::parallel;
use std::collections::BinaryHeap;
use std::sync::Mutex;

/// Blocks of a round for each thread: enough that starting threads costs
/// nothing beside, few enough that results come soon.
const ROUND: usize = 16;

/// Calls `each` with every query, in the order given, and its `k` best rows
/// with their scores: best first, of equal scores the smaller row first, the
/// query itself left out. Scores that are not numbers come last. There are fewer
/// than `k` where there are fewer rows.
///
/// The work is spread over `threads` threads; `each` is called on this one, with
/// the same values for any number of threads. Its first error ends the search.
#[track_caller]
pub fn nearest<E>(
    scorer: &(impl Scorer + ?Sized),
    queries: &[usize],
    k: usize,
    threads: usize,
    each: impl FnMut(usize, &[(usize, f64)]) -> Result<(), E>,
) -> Result<(), E> {
    let (rows, candidates) = (scorer.rows(), scorer.candidates());
    assert_eq!(rows, candidates, "rows are their own candidates");
    search(scorer, queries, k, threads, true, each)
}

/// The same with candidates that are other things than the rows that ask: none
/// is left out.
#[track_caller]
pub fn nearest_among<E>(
    scorer: &(impl Scorer + ?Sized),
    queries: &[usize],
    k: usize,
    threads: usize,
    each: impl FnMut(usize, &[(usize, f64)]) -> Result<(), E>,
) -> Result<(), E> {
    search(scorer, queries, k, threads, false, each)
}

/// Queries are left out of their own lists where they are `among_themselves`.
#[track_caller]
fn search<E>(
    scorer: &(impl Scorer + ?Sized),
    queries: &[usize],
    k: usize,
    threads: usize,
    among_themselves: bool,
    mut each: impl FnMut(usize, &[(usize, f64)]) -> Result<(), E>,
) -> Result<(), E> {
    let (rows, candidates) = (scorer.rows(), scorer.candidates());
    if let Some(query) = queries.iter().find(|&&query| query >= rows) {
        panic!("query {query} is none of the {rows} rows");
    }
    let threads = threads.max(1);
    let has_rough = queries
        .first()
        .is_some_and(|&q| scorer.rough(q, 1).is_some());
    let block = if has_rough { rough::BLOCK } else { BLOCK };
    let mut found = Vec::new();
    for round in queries.chunks(threads.saturating_mul(ROUND * block)) {
        found.clear();
        found.resize(round.len(), Vec::new());
        let blocks = round.chunks(block).zip(found.chunks_mut(block));
        let work = Mutex::new(blocks);
        let take = || work.lock().expect("no worker panicked").next();
        let worker = || {
            let mut scores = Vec::new();
            let mut heap = BinaryHeap::new();
            while let Some((queries, mut found)) = take() {
                // Neighboring queries share the reading of the rows.
                for run in queries.chunk_by(|&a, &b| a + 1 == b) {
                    let (now, later) = found.split_at_mut(run.len());
                    found = later;
                    if let Some(lists) = by_rough(scorer, run, k, among_themselves) {
                        now.iter_mut()
                            .zip(lists)
                            .for_each(|(now, list)| *now = list);
                        continue;
                    }
                    for (run, now) in run.chunks(BLOCK).zip(now.chunks_mut(BLOCK)) {
                        scores.resize(candidates * run.len(), 0.0);
                        scorer.scores(&mut scores, run[0], run.len());
                        // Without candidates there are no scores, and the lists stay empty.
                        let scores = scores.chunks(candidates.max(1));
                        for ((&query, scores), found) in run.iter().zip(scores).zip(now) {
                            let itself = among_themselves.then_some(query);
                            *found = best(&mut heap, scores, itself, k);
                        }
                    }
                }
            }
        };
        parallel::share(threads.min(round.len().div_ceil(block)), worker);
        for (&query, found) in round.iter().zip(&found) {
            each(query, found)?;
        }
    }
    Ok(())
}

/// The lists of consecutive queries by a rough pass, where there is one.
fn by_rough(
    scorer: &(impl Scorer + ?Sized),
    run: &[usize],
    k: usize,
    among_themselves: bool,
) -> Option<Vec<Vec<(usize, f64)>>> {
    let first = *run.first()?;
    let rough = scorer.rough(first, run.len())?;
    // A query is its own best candidate more often than not: one more, and it is left out.
    let more = k.saturating_add(usize::from(among_themselves));
    let mut lists = rough.best(more, &|at, row| scorer.score_one(first + at, row))?;
    if among_themselves {
        for (query, list) in run.iter().zip(&mut lists) {
            list.retain(|(row, _)| row != query);
            list.truncate(k);
        }
    }
    Some(lists)
}

/// The `k` best candidates other than the query itself; the heap is scratch.
fn best(
    heap: &mut BinaryHeap<(u64, usize)>,
    scores: &[f64],
    itself: Option<usize>,
    k: usize,
) -> Vec<(usize, f64)> {
    heap.clear();
    let candidates = scores.iter().enumerate();
    for (row, &score) in candidates.filter(|&(row, _)| Some(row) != itself) {
        // The larger, the worse: a low score, then a high row number.
        let candidate = (!key(score), row);
        if heap.len() < k {
            heap.push(candidate);
        } else if let Some(mut worst) = heap.peek_mut()
            && candidate < *worst
        {
            *worst = candidate;
        }
    }
    let mut best: Vec<(u64, usize)> = heap.drain().collect();
    best.sort_unstable();
    best.into_iter().map(|(_, i)| (i, scores[i])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::Embedded;
    use std::convert::Infallible;

    /// Every row sees the same scores.
    struct Fixed(Vec<f64>);

    impl Scorer for Fixed {
        fn rows(&self) -> usize {
            self.0.len()
        }

        fn scores(&self, out: &mut [f64], _: usize, queries: usize) {
            assert_eq!(out.len(), queries * self.0.len());
            out.chunks_exact_mut(self.0.len())
                .for_each(|out| out.copy_from_slice(&self.0));
        }
    }

    fn rows_found(scorer: &impl Scorer, queries: &[usize], k: usize) -> Vec<Vec<usize>> {
        let mut out = Vec::new();
        let Ok(()) = nearest(scorer, queries, k, 1, |_, found| {
            out.push(found.iter().map(|&(row, _)| row).collect());
            Ok::<_, Infallible>(())
        });
        out
    }

    #[test]
    fn ties_go_to_the_smaller_row_and_nan_comes_last() {
        let scorer = Fixed(vec![f64::NAN, 0.0, 7.0, -0.0, 7.0, f64::NEG_INFINITY]);
        let all = [2, 4, 1, 3, 5, 0];
        for k in 0..9 {
            let without = |query: usize| -> Vec<usize> {
                let others = all.into_iter().filter(|&row| row != query);
                others.take(k).collect()
            };
            assert_eq!(
                rows_found(&scorer, &[4, 0, 0, 1], k),
                [4, 0, 0, 1].map(without)
            );
        }
        assert!(rows_found(&scorer, &[], 3).is_empty());
        assert_eq!(rows_found(&Fixed(vec![1.0]), &[0], 3), [[0_usize; 0]]);
    }

    #[test]
    fn the_result_is_that_of_sorting_for_any_number_of_threads() {
        let (rows, rank) = (701, 3);
        // Few distinct values, so that ties are everywhere.
        let points: Vec<f32> = (0..rows * rank).map(|i| (i * i % 5) as f32).collect();
        let scorer = Embedded::new(&points, &points, rank);
        let queries: Vec<usize> = (0..rows).chain([5, 3, 4, 700]).collect();
        let mut scores = vec![0.0; rows];
        for threads in [1, 2, 7] {
            let mut seen = Vec::new();
            let Ok(()) = nearest(&scorer, &queries, 9, threads, |query, found| {
                scorer.scores(&mut scores, query, 1);
                let mut want: Vec<(usize, f64)> = scores.iter().copied().enumerate().collect();
                want.remove(query);
                want.sort_by(|a, b| b.1.total_cmp(&a.1));
                assert_eq!(found, &want[..9]);
                seen.push(query);
                Ok::<_, Infallible>(())
            });
            assert_eq!(seen, queries);
        }
    }

    #[test]
    fn an_error_ends_the_search() {
        let mut calls = 0;
        let ended = nearest(&Fixed(vec![0.0; 40]), &[1, 2, 3], 2, 2, |query, _| {
            calls += 1;
            if query == 2 { Err("enough") } else { Ok(()) }
        });
        assert_eq!((ended, calls), (Err("enough"), 2));
    }
}
