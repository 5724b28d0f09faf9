//! Every row looks for the rows of its class among all others.

use super::ranks::Ranks;
use std::sync::Mutex;

/// Queries scored at once: enough that the rows are read from memory once for
/// several queries, few enough that their scores stay near the processor.
pub(super) const BLOCK: usize = 8;

/// Anything that can score rows against each other.
pub trait Scorer: Sync {
    /// How many rows there are.
    fn rows(&self) -> usize;

    /// Scores `queries` consecutive rows, from `first` on, against all rows: the
    /// score of row `first + i` with row `j` goes to `out[i * rows + j]`.
    ///
    /// A score must not depend on which queries come together, or the result
    /// would depend on the block size. The score of a row with itself is not
    /// looked at.
    fn scores(&self, out: &mut [f64], first: usize, queries: usize);
}

impl<S: Scorer + ?Sized> Scorer for Box<S> {
    fn rows(&self) -> usize {
        (**self).rows()
    }

    fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
        (**self).scores(out, first, queries);
    }
}

/// What [`retrieval()`] found: means over the rows that have something to find.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retrieval {
    /// Mean average precision.
    pub map: f64,
    /// How often the best candidate is of the query's class.
    pub precision_at_1: f64,
    /// The share of the query's class among the ten best candidates.
    pub precision_at_10: f64,
    /// How many rows there are, the skipped ones included.
    pub rows: usize,
    /// Rows that are alone in their class.
    pub skipped: usize,
}

/// Evaluates a scorer on rows with a class each.
///
/// The work is spread over `threads` threads; the result has the same bits for
/// any number of them. `progress` gets the number of rows done, never a smaller
/// one than before, and says whether to go on; the result is `None` when it said
/// no. It is called from one thread at a time.
#[track_caller]
pub fn retrieval(
    scorer: &(impl Scorer + ?Sized),
    classes: &[u32],
    threads: usize,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Option<Retrieval> {
    let rows = scorer.rows();
    assert_eq!(rows, classes.len(), "one class a row");
    let members = Members::new(classes);

    let mut queries = vec![None; rows];
    let work = Mutex::new(Work {
        blocks: queries.chunks_mut(BLOCK).enumerate(),
        done: 0,
        stopped: false,
        progress,
    });
    let worker = || {
        let mut scores = vec![0.0; rows * BLOCK.min(rows)];
        let mut ranks = Ranks::default();
        while let Some((block, out)) = Work::next(&work) {
            let (first, count) = (block * BLOCK, out.len());
            if (first..first + count).any(|query| members.of(query).len() > 1) {
                scorer.scores(&mut scores[..rows * count], first, count);
                let scores = scores.chunks_exact(rows);
                for (i, (query, scores)) in out.iter_mut().zip(scores).enumerate() {
                    let members = members.of(first + i);
                    *query = Query::new(ranks.of_members(scores, members, first + i));
                }
            }
            Work::finish(&work, count);
        }
    };
    let helpers = threads.min(rows.div_ceil(BLOCK)).saturating_sub(1);
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(worker);
        }
        worker();
    });

    let stopped = work.into_inner().expect("no worker panicked").stopped;
    (!stopped).then(|| mean(&queries))
}

/// Sums in the order of the rows, whichever thread did them.
fn mean(queries: &[Option<Query>]) -> Retrieval {
    let rows = queries.len();
    let (mut count, mut map, mut at_1, mut at_10) = (0, 0.0, 0.0, 0.0);
    for query in queries.iter().flatten() {
        count += 1;
        map += query.average_precision;
        at_1 += query.precision_at_1;
        at_10 += query.precision_at_10;
    }
    Retrieval {
        map: map / count as f64,
        precision_at_1: at_1 / count as f64,
        precision_at_10: at_10 / count as f64,
        rows,
        skipped: rows - count,
    }
}

/// The blocks nobody has taken, and how far the others are.
struct Work<'a, I> {
    blocks: I,
    done: usize,
    stopped: bool,
    progress: &'a (dyn Fn(usize) -> bool + Sync),
}

impl<I: Iterator> Work<'_, I> {
    fn next(work: &Mutex<Self>) -> Option<I::Item> {
        let mut work = work.lock().expect("no worker panicked");
        if work.stopped {
            return None;
        }
        work.blocks.next()
    }

    fn finish(work: &Mutex<Self>, rows: usize) {
        let mut work = work.lock().expect("no worker panicked");
        work.done += rows;
        if !work.stopped {
            work.stopped = !(work.progress)(work.done);
        }
    }
}

/// The metrics of one query.
#[derive(Clone, Copy)]
struct Query {
    average_precision: f64,
    precision_at_1: f64,
    precision_at_10: f64,
}

impl Query {
    /// From the rising ranks of the positives; nothing when there are none.
    fn new(ranks: &[usize]) -> Option<Self> {
        let precisions = ranks.iter().zip(1_u32..);
        let sum: f64 = precisions
            .map(|(&rank, hits)| f64::from(hits) / rank as f64)
            .sum();
        let within = |k| ranks.partition_point(|&rank| rank <= k) as f64 / k as f64;
        (!ranks.is_empty()).then(|| Query {
            average_precision: sum / ranks.len() as f64,
            precision_at_1: within(1),
            precision_at_10: within(10),
        })
    }
}

/// The rows of each class.
struct Members {
    /// All rows, class by class.
    rows: Vec<u32>,
    /// For each row where its class starts and ends in `rows`.
    range: Vec<(u32, u32)>,
}

impl Members {
    #[track_caller]
    fn new(classes: &[u32]) -> Self {
        let count = u32::try_from(classes.len()).expect("fewer than 2³² rows");
        let mut rows: Vec<u32> = (0..count).collect();
        rows.sort_by_key(|&row| classes[row as usize]);
        let mut range = vec![(0, 0); classes.len()];
        let mut start = 0;
        for class in rows.chunk_by(|&a, &b| classes[a as usize] == classes[b as usize]) {
            let end = start + class.len() as u32;
            for &row in class {
                range[row as usize] = (start, end);
            }
            start = end;
        }
        Members { rows, range }
    }

    /// The rows of the class of `row`, itself among them.
    fn of(&self, row: usize) -> &[u32] {
        let (start, end) = self.range[row];
        &self.rows[start as usize..end as usize]
    }
}
