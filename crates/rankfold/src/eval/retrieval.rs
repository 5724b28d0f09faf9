//! Every row looks for the rows of its class, among all others or among
//! candidates of another kind.

use super::ranks::Ranks;
use super::rough::Rough;
use crate::parallel;
use hashbrown::HashMap;
use std::sync::Mutex;

/// Queries scored at once: enough that the rows are read from memory once for
/// several queries, few enough that their scores stay near the processor.
pub(super) const BLOCK: usize = 8;

/// Anything that can score rows against each other.
pub trait Scorer: Sync {
    /// How many rows there are that ask.
    fn rows(&self) -> usize;

    /// How many candidates they are scored against: by default the rows
    /// themselves.
    fn candidates(&self) -> usize {
        self.rows()
    }

    /// Scores `queries` consecutive rows, from `first` on, against all candidates:
    /// the score of row `first + i` with candidate `j` goes to
    /// `out[i * candidates + j]`.
    ///
    /// A score must not depend on which queries come together, or the result
    /// would depend on the block size. The score of a row with itself is not
    /// looked at.
    fn scores(&self, out: &mut [f64], first: usize, queries: usize);

    /// A rough pass over the same rows that finds their best candidates sooner, where there is
    /// one; [`Scorer::score_one`] must be quick then.
    fn rough(&self, _first: usize, _queries: usize) -> Option<Rough<'_>> {
        None
    }

    /// The score of a row with one candidate, with the bits of [`Scorer::scores`].
    fn score_one(&self, row: usize, candidate: usize) -> f64 {
        let mut scores = vec![0.0; self.candidates()];
        self.scores(&mut scores, row, 1);
        scores[candidate]
    }
}

impl<S: Scorer + ?Sized> Scorer for Box<S> {
    fn rows(&self) -> usize {
        (**self).rows()
    }

    fn candidates(&self) -> usize {
        (**self).candidates()
    }

    fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
        (**self).scores(out, first, queries);
    }

    fn rough(&self, first: usize, queries: usize) -> Option<Rough<'_>> {
        (**self).rough(first, queries)
    }

    fn score_one(&self, row: usize, candidate: usize) -> f64 {
        (**self).score_one(row, candidate)
    }
}

/// What [`retrieval()`] found: means over the rows that have something to find.
#[derive(Debug, Clone, PartialEq)]
pub struct Retrieval {
    /// Mean average precision.
    pub map: f64,
    /// How often the best candidate is of the query's class.
    pub precision_at_1: f64,
    /// The share of the query's class among the ten best candidates.
    pub precision_at_10: f64,
    /// The same for the numbers of best candidates that were asked for, in their order.
    pub precision_at: Vec<(usize, f64)>,
    /// The average precision of each row; none where it has nothing to find.
    pub average_precision: Vec<Option<f64>>,
    /// How many rows there are, the skipped ones included.
    pub rows: usize,
    /// Rows with nothing to find: no other row, or no candidate, has their class.
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
    retrieval_at(scorer, classes, None, &[], threads, progress)
}

/// The same with the precision among so many best candidates, for each of these numbers;
/// among other `candidates` where their classes are given, as [`retrieval_among()`].
#[track_caller]
pub fn retrieval_at(
    scorer: &(impl Scorer + ?Sized),
    classes: &[u32],
    candidates: Option<&[u32]>,
    at: &[usize],
    threads: usize,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Option<Retrieval> {
    let (rows, others) = (scorer.rows(), scorer.candidates());
    assert_eq!(rows, classes.len(), "one class a row");
    assert!(at.iter().all(|&k| k > 0), "at least one candidate");
    match candidates {
        None => assert_eq!(rows, others, "rows are their own candidates"),
        Some(candidates) => assert_eq!(others, candidates.len(), "one class a candidate"),
    }
    let search = Search {
        members: Members::new(classes, candidates.unwrap_or(classes)),
        among_themselves: candidates.is_none(),
        at,
    };
    search.run(scorer, threads, progress)
}

/// The same with candidates that are other things than the rows that ask: each
/// row looks for the candidates of its class, and none is left out. Classes are
/// numbered alike on both sides.
#[track_caller]
pub fn retrieval_among(
    scorer: &(impl Scorer + ?Sized),
    classes: &[u32],
    candidates: &[u32],
    threads: usize,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Option<Retrieval> {
    retrieval_at(scorer, classes, Some(candidates), &[], threads, progress)
}

/// The same where each row looks for some candidates by number, each listed once:
/// the labels of a row among all labels.
#[track_caller]
pub fn retrieval_listed<'a>(
    scorer: &(impl Scorer + ?Sized),
    wanted: impl IntoIterator<Item = &'a [u32]>,
    threads: usize,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Option<Retrieval> {
    let mut members = Members {
        candidates: Vec::new(),
        range: Vec::new(),
    };
    for list in wanted {
        let start = members.candidates.len();
        members.candidates.extend_from_slice(list);
        let place = |at: usize| u32::try_from(at).expect("fewer than 2³² candidates wanted");
        let end = members.candidates.len();
        members.range.push((place(start), place(end)));
    }
    assert_eq!(scorer.rows(), members.range.len(), "one list a row");
    let search = Search {
        members,
        among_themselves: false,
        at: &[],
    };
    search.run(scorer, threads, progress)
}

/// What the rows look for.
struct Search<'a> {
    members: Members,
    /// Whether rows are their own candidates: none finds itself then.
    among_themselves: bool,
    /// Numbers of best candidates whose precision is asked for.
    at: &'a [usize],
}

impl Search<'_> {
    fn run(
        &self,
        scorer: &(impl Scorer + ?Sized),
        threads: usize,
        progress: &(dyn Fn(usize) -> bool + Sync),
    ) -> Option<Retrieval> {
        let (rows, candidates) = (scorer.rows(), scorer.candidates());
        let mut queries = vec![None; rows];
        let work = Mutex::new(Work {
            blocks: queries.chunks_mut(BLOCK).enumerate(),
            done: 0,
            stopped: false,
            progress,
        });
        let worker = || {
            let mut scores = vec![0.0; candidates * BLOCK.min(rows)];
            let mut ranks = Ranks::default();
            while let Some((block, out)) = Work::next(&work) {
                let (first, count) = (block * BLOCK, out.len());
                let alone = usize::from(self.among_themselves);
                if (first..first + count).any(|query| self.members.of(query).len() > alone) {
                    scorer.scores(&mut scores[..candidates * count], first, count);
                    let scores = scores.chunks_exact(candidates);
                    for (i, (query, scores)) in out.iter_mut().zip(scores).enumerate() {
                        let members = self.members.of(first + i);
                        let itself = self.among_themselves.then_some(first + i);
                        *query = Query::new(ranks.of_members(scores, members, itself), self.at);
                    }
                }
                Work::finish(&work, count);
            }
        };
        parallel::share(threads.min(rows.div_ceil(BLOCK)), worker);

        let stopped = work.into_inner().expect("no worker panicked").stopped;
        (!stopped).then(|| mean(&queries, self.at))
    }
}

/// Sums in the order of the rows, whichever thread did them.
fn mean(queries: &[Option<Query>], at: &[usize]) -> Retrieval {
    let rows = queries.len();
    let (mut count, mut map, mut at_1, mut at_10) = (0, 0.0, 0.0, 0.0);
    let mut others = vec![0.0; at.len()];
    for query in queries.iter().flatten() {
        count += 1;
        map += query.average_precision;
        at_1 += query.precision_at_1;
        at_10 += query.precision_at_10;
        let precisions = others.iter_mut().zip(&query.precision_at);
        precisions.for_each(|(sum, precision)| *sum += precision);
    }
    let others = others.into_iter().map(|sum| sum / count as f64);
    Retrieval {
        map: map / count as f64,
        precision_at_1: at_1 / count as f64,
        precision_at_10: at_10 / count as f64,
        precision_at: at.iter().copied().zip(others).collect(),
        average_precision: queries
            .iter()
            .map(|query| query.as_ref().map(|query| query.average_precision))
            .collect(),
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
#[derive(Clone)]
struct Query {
    average_precision: f64,
    precision_at_1: f64,
    precision_at_10: f64,
    precision_at: Vec<f64>,
}

impl Query {
    /// From the rising ranks of the positives; nothing when there are none.
    fn new(ranks: &[usize], at: &[usize]) -> Option<Self> {
        let precisions = ranks.iter().zip(1_u32..);
        let sum: f64 = precisions
            .map(|(&rank, hits)| f64::from(hits) / rank as f64)
            .sum();
        let within = |k| ranks.partition_point(|&rank| rank <= k) as f64 / k as f64;
        (!ranks.is_empty()).then(|| Query {
            average_precision: sum / ranks.len() as f64,
            precision_at_1: within(1),
            precision_at_10: within(10),
            precision_at: at.iter().map(|&k| within(k)).collect(),
        })
    }
}

/// The candidates of each class.
struct Members {
    /// All candidates, class by class.
    candidates: Vec<u32>,
    /// For each query where its class starts and ends in `candidates`.
    range: Vec<(u32, u32)>,
}

impl Members {
    #[track_caller]
    fn new(queries: &[u32], classes: &[u32]) -> Self {
        let count = u32::try_from(classes.len()).expect("fewer than 2³² rows");
        let mut candidates: Vec<u32> = (0..count).collect();
        candidates.sort_by_key(|&candidate| classes[candidate as usize]);
        let class = |at: u32| classes[candidates[at as usize] as usize];
        let mut ranges = HashMap::new();
        let mut start = 0;
        while start < count {
            let later = &candidates[start as usize..];
            let size = later.partition_point(|&c| classes[c as usize] == class(start));
            let end = start + size as u32;
            ranges.insert(class(start), (start, end));
            start = end;
        }
        let range = |class| ranges.get(class).copied().unwrap_or_default();
        Members {
            range: queries.iter().map(range).collect(),
            candidates,
        }
    }

    /// The candidates of the class of a query.
    fn of(&self, query: usize) -> &[u32] {
        let (start, end) = self.range[query];
        &self.candidates[start as usize..end as usize]
    }
}
