//! Times retrieval against the plain evaluation that sorts all candidates, and lists of the
//! best against the product of the same matrices in single precision.
//!
//! `cargo bench --bench eval`. Ratios are of one thread; the complete evaluation is timed on
//! all cores as well. Data set-up is not timed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rankfold::eval::metrics::average_precision;
use rankfold::eval::{Cosine, Embedded, Scorer, nearest_among, retrieval};
use rankfold::{Rows, SparseVec};
use std::hint::black_box;
use std::time::Instant;

/// The test half of 20 Newsgroups: rows, classes, columns, entries of a row.
const ROWS: usize = 7_532;
const CLASSES: u32 = 20;
const COLUMNS: u32 = 16_660;
const ENTRIES: usize = 91;
/// Queries of the plain evaluation: it is slow, and its cost a query is even.
const PLAIN_QUERIES: usize = 400;

fn main() {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    println!("{ROWS} rows, {CLASSES} classes; ns a scored pair on one thread");
    println!(
        "{:<16} {:>10} {:>10} {:>8} {:>22}",
        "scorer",
        "counting",
        "sorting",
        "ratio",
        format!("seconds, {threads} threads")
    );
    let mut random = Random::new();
    let classes: Vec<u32> = (0..ROWS).map(|i| i as u32 % CLASSES).collect();
    for rank in [30, 100] {
        let rows = random.points(rank, &classes);
        let scorer = Embedded::new(&rows, &rows, rank);
        report(&format!("embedded, {rank}"), &scorer, &classes, threads);
    }
    let rows = random.documents();
    report("cosine", &Cosine::new(&rows), &classes, threads);
    lists(&mut random);
}

/// The ten best of 100,000 items for some users, of a million of whom the seconds are told.
fn lists(random: &mut Random) {
    const ITEMS: usize = 100_000;
    const USERS: usize = 960;
    println!("\nthe 10 best of {ITEMS} items; one thread");
    println!(
        "{:<10} {:>14} {:>14} {:>8} {:>22}",
        "rank", "lists GFLOP/s", "product", "share", "s for 10⁶ users"
    );
    for rank in [10, 64, 128] {
        let mut numbers = |count: usize| -> Vec<f32> {
            (0..count).map(|_| random.uniform() as f32 - 0.5).collect()
        };
        let (left, right) = (numbers(USERS * rank), numbers(ITEMS * rank));
        let scorer = Embedded::new(&left, &right, rank);
        let queries: Vec<usize> = (0..USERS).collect();
        let a = faer::MatRef::from_row_major_slice(&left, USERS, rank);
        let b = faer::MatRef::from_row_major_slice(&right, ITEMS, rank).transpose();
        let mut out = faer::Mat::<f32>::zeros(48, ITEMS);
        let (mut listed, mut multiplied) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..3 {
            listed = listed.min(seconds(|| {
                let each = |_: usize, _: &[(usize, f64)]| Ok::<_, std::convert::Infallible>(());
                nearest_among(&scorer, &queries, 10, 1, each)
            }));
            multiplied = multiplied.min(seconds(|| {
                // Blocks of users, as nobody has room for all products.
                for first in (0..USERS).step_by(48) {
                    let a = a.subrows(first, 48);
                    let replace = faer::Accum::Replace;
                    faer::linalg::matmul::matmul(&mut out, replace, a, b, 1.0, faer::Par::Seq);
                    black_box(&out);
                }
            }));
        }
        let flops = 2.0 * (USERS * ITEMS * rank) as f64;
        println!(
            "{rank:<10} {:>14.1} {:>14.1} {:>8.2} {:>22.0}",
            flops / listed * 1e-9,
            flops / multiplied * 1e-9,
            multiplied / listed,
            listed * 1e6 / USERS as f64
        );
    }
}

fn report(name: &str, scorer: &dyn Scorer, classes: &[u32], threads: usize) {
    let pairs = |queries: usize| queries as f64 * ROWS as f64;
    let all = seconds(|| retrieval(scorer, classes, threads, &|_| true));
    let counting = seconds(|| retrieval(scorer, classes, 1, &|_| true)) / pairs(ROWS);
    let sorting = seconds(|| plain(scorer, classes)) / pairs(PLAIN_QUERIES);
    println!(
        "{name:<16} {:>10.2} {:>10.2} {:>8.1} {all:>22.3}",
        counting * 1e9,
        sorting * 1e9,
        sorting / counting
    );
}

fn seconds<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    black_box(work());
    start.elapsed().as_secs_f64()
}

/// One sort a query: all that an evaluation by sorting needs.
fn plain(scorer: &dyn Scorer, classes: &[u32]) -> f64 {
    let mut scores = vec![0.0; ROWS];
    let mut sum = 0.0;
    for query in 0..PLAIN_QUERIES {
        scorer.scores(&mut scores, query, 1);
        scores[query] = f64::NAN;
        let relevant: Vec<bool> = (0..ROWS)
            .map(|row| row != query && classes[row] == classes[query])
            .collect();
        sum += average_precision(&scores, &relevant);
    }
    sum
}

struct Random(Xoshiro256PlusPlus);

impl Random {
    fn new() -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(1))
    }

    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Points around a center for each class, overlapping as real ones do.
    fn points(&mut self, rank: usize, classes: &[u32]) -> Vec<f32> {
        let mut symmetric = || self.uniform() as f32 - 0.5;
        let centers: Vec<f32> = (0..CLASSES as usize * rank).map(|_| symmetric()).collect();
        classes
            .iter()
            .flat_map(|&class| &centers[class as usize * rank..][..rank])
            .map(|center| 0.5 * center + symmetric())
            .collect()
    }

    /// Rows with as many entries as a message has, some columns far more
    /// frequent than others.
    fn documents(&mut self) -> Rows<f32> {
        let mut rows = Rows::new();
        for _ in 0..ROWS {
            let entries = (0..ENTRIES).map(|_| {
                // Density falls as 1/column, as that of words does.
                let column = f64::from(COLUMNS).powf(self.uniform()) - 1.0;
                (column as u32, self.uniform() as f32)
            });
            rows.push(SparseVec::from_entries(entries.collect()).as_row());
        }
        rows
    }
}
