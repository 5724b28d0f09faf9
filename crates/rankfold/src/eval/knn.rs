//! Classes by the vote of the nearest rows, streamed as lists of neighbors are.

use super::{Embedded, nearest, nearest_among};
use crate::Real;
use std::convert::Infallible;

/// Rows in a space where distances are Euclidean, with their classes.
#[derive(Debug, Clone, Copy)]
pub struct Neighbors<'a, R> {
    /// The rows, one after the other.
    pub values: &'a [R],
    /// The class of each.
    pub classes: &'a [u32],
    /// Coordinates of a row.
    pub rank: usize,
}

/// How the nearest rows voted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Votes {
    /// Rows with another class than most of their nearest rows.
    pub wrong: usize,
    /// Nearest rows of another class than the row that asked, over all rows.
    pub strangers: usize,
}

/// Compares the class of each row with that of most of its `k` nearest training rows;
/// without training rows, of their `k` nearest other rows. Of equally frequent
/// classes the smallest wins, of equally near rows the first. The result is the same
/// for any number of threads.
#[track_caller]
pub fn votes<R: Real>(
    k: usize,
    train: Option<Neighbors<'_, R>>,
    test: Neighbors<'_, R>,
    threads: usize,
) -> Votes {
    votes_each(k, train, test, threads, |_, _| {})
}

/// The same, and calls with each row and whether the vote was right.
#[track_caller]
pub fn votes_each<R: Real>(
    k: usize,
    train: Option<Neighbors<'_, R>>,
    test: Neighbors<'_, R>,
    threads: usize,
    mut each: impl FnMut(usize, bool),
) -> Votes {
    let among = train.unwrap_or(test);
    assert_eq!(among.rank, test.rank, "coordinates of both");
    let queries: Vec<usize> = (0..test.classes.len()).collect();
    let scorer = Embedded::near(test.values, among.values, test.rank);
    let mut votes: Vec<u32> = Vec::with_capacity(k);
    let mut out = Votes {
        wrong: 0,
        strangers: 0,
    };
    let count = |query: usize, found: &[(usize, f64)]| -> Result<(), Infallible> {
        votes.clear();
        votes.extend(found.iter().map(|&(row, _)| among.classes[row]));
        let winner = winner(&mut votes).map(|(class, _)| class);
        let own = test.classes[query];
        out.wrong += usize::from(winner != Some(own));
        each(query, winner == Some(own));
        out.strangers += votes.iter().filter(|&&class| class != own).count();
        Ok(())
    };
    let searched = match train {
        Some(_) => nearest_among(&scorer, &queries, k, threads, count),
        None => nearest(&scorer, &queries, k, threads, count),
    };
    let Ok(()) = searched;
    out
}

/// The class with most votes, and how many it has; of equally many the smallest.
fn winner(votes: &mut [u32]) -> Option<(u32, usize)> {
    votes.sort_unstable();
    let runs = votes.chunk_by(|a, b| a == b);
    // The last of several maxima wins, so the smallest class must come last.
    let most = runs.rev().max_by_key(|run| run.len());
    most.map(|run| (run[0], run.len()))
}

/// The class that most of the `k` nearest training rows of each row have, by the rules of
/// [`votes`], and how many of them have it.
#[track_caller]
pub fn elected<R: Real>(
    k: usize,
    train: Neighbors<'_, R>,
    rows: &[R],
    threads: usize,
) -> Vec<(u32, usize)> {
    let count = rows.len() / train.rank.max(1);
    let queries: Vec<usize> = (0..count).collect();
    let scorer = Embedded::near(rows, train.values, train.rank);
    let (mut votes, mut out) = (Vec::with_capacity(k), vec![(0, 0); count]);
    let elect = |query: usize, found: &[(usize, f64)]| -> Result<(), Infallible> {
        votes.clear();
        votes.extend(found.iter().map(|&(row, _)| train.classes[row]));
        out[query] = winner(&mut votes).unwrap_or_default();
        Ok(())
    };
    let Ok(()) = nearest_among(&scorer, &queries, k, threads, elect);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::metrics::{Points, knn_error};
    use crate::random::normal_at;

    fn cloud(count: usize, rank: usize, seed: u64) -> (Vec<f64>, Vec<u32>) {
        // Some rows twice, so that there are ties.
        let value =
            |t: usize| normal_at(seed, 0, (t / rank % (count - 3)) as u64, (t % rank) as u64);
        let values: Vec<f64> = (0..count * rank).map(value).collect();
        (values, (0..count as u32).map(|i| i * 7 % 4).collect())
    }

    #[test]
    fn votes_are_those_of_the_plain_count_for_any_threads() {
        for (n, m, rank) in [(40, 25, 1), (90, 41, 3), (5, 9, 2)] {
            let (train, test) = (cloud(n, rank, 1), cloud(m, rank, 2));
            for k in [1, 2, 5, 200] {
                let points = |coordinates, labels| Points {
                    coordinates,
                    dimension: rank,
                    labels,
                };
                let want = knn_error(k, points(&train.0, &train.1), points(&test.0, &test.1));
                for threads in [1, 3] {
                    let rows = |values, classes| Neighbors {
                        values,
                        classes,
                        rank,
                    };
                    let found = super::votes(
                        k,
                        Some(rows(&train.0, &train.1)),
                        rows(&test.0, &test.1),
                        threads,
                    );
                    assert_eq!(found.wrong as f64 / m as f64, want);
                }
            }
        }
    }

    #[test]
    fn without_training_rows_a_row_does_not_vote_for_itself() {
        let rows = Neighbors {
            values: &[0.0, 1.0, 5.0, 6.0],
            classes: &[0, 1, 0, 1],
            rank: 1,
        };
        let found = |train, k| super::votes(k, train, rows, 1);
        assert_eq!(
            found(None, 1),
            Votes {
                wrong: 4,
                strangers: 4
            }
        );
        assert_eq!(
            found(Some(rows), 2),
            Votes {
                wrong: 2,
                strangers: 4
            }
        );
    }
}
