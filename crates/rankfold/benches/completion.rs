//! Seconds an iteration and a pass over ratings, against the memory that must be read.
//!
//!     cargo bench --workspace --bench completion
//!
//! Reads MovieLens 1M from `$RANKFOLD_DATA`, by default `../shared/data` beside the
//! project; without it as many random ratings stand in. Rank 10, two threads.

use std::path::PathBuf;
use std::time::Instant;

use rankfold::Completion;
use rankfold::batch::{Observed, Part};
use rankfold::data::{RatingColumns, Ratings};
use rankfold::random::Random;
use rankfold::task::{
    CompletionEvent, CompletionInit, CompletionLearner as Learner, CompletionSolver as Solver,
};

const RANK: usize = 10;
const THREADS: usize = 2;

fn ratings() -> Observed {
    let folder = std::env::var_os("RANKFOLD_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let path = folder.join("movielens/ml-1m.csv.gz");
    if path.exists() {
        let ratings = Ratings::read(&path, &RatingColumns::default());
        println!("MovieLens 1M");
        return ratings.expect("ratings").entries;
    }
    println!("no MovieLens 1M: random ratings of the same size");
    let mut random = Random::new(1, 1);
    let mut entry = || {
        let (user, item) = (random.below(6040), random.below(3706));
        (user as u32, item as u32, 1.0 + random.below(5) as f64)
    };
    let entries = (0..1_000_209).map(|_| entry()).collect();
    Observed::new((6040, 3706), entries).expect("memory").0
}

/// Bytes a second that two threads read from memory in a row.
fn bandwidth() -> f64 {
    let data = vec![1.0_f64; 1 << 26];
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        let halves = data.chunks(data.len() / THREADS);
        let sums: f64 = std::thread::scope(|scope| {
            let workers: Vec<_> = halves
                .map(|half| {
                    scope.spawn(move || {
                        let mut lanes = [0.0; 16];
                        for chunk in half.as_chunks::<16>().0 {
                            for j in 0..16 {
                                lanes[j] += chunk[j];
                            }
                        }
                        lanes.iter().sum::<f64>()
                    })
                })
                .collect();
            workers.into_iter().map(|w| w.join().expect("a sum")).sum()
        });
        assert!(sums > 0.0);
        best = best.min(start.elapsed().as_secs_f64());
    }
    (data.len() * 8) as f64 / best
}

/// The median time between iterations, after the first two.
fn seconds(entries: &Observed, options: Completion) -> f64 {
    let mut entries = entries.clone();
    let mut times = Vec::new();
    let mut last = Instant::now();
    let found = options
        .threads(THREADS)
        .complete(&mut entries, None, &mut |event| {
            if let CompletionEvent::Iteration { .. } = event {
                times.push(last.elapsed().as_secs_f64());
                last = Instant::now();
            }
            true
        });
    assert!(found.expect("a model").is_some());
    let mut times = times.split_off(2.min(times.len() - 1));
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let entries = ratings();
    let count = entries.part(Part::All).count as f64;
    let speed = bandwidth();
    // A pass over one side reads 12 bytes an entry and a row of the other side, which
    // comes from a cache.
    let row = (RANK + 2).next_multiple_of(4) as f64 * 8.0;
    let bound = 2.0 * count * (12.0 + row) / speed;
    println!(
        "two threads read {:.1} GB/s; both sides of {count} ratings with a row each: {:.1} ms\n",
        speed / 1e9,
        1e3 * bound
    );
    let of = |learner| Completion::new(learner).rank(RANK).iterations(12);
    let batch = |learner| of(learner).tolerance(0.0);
    let random = |options: Completion| options.init(CompletionInit::Random);
    let als = seconds(&entries, random(batch(Learner::Als).regularization(0.7)));
    println!("| | ms an iteration or pass | times the bound | times ALS |");
    println!("|---|---|---|---|");
    let line = |name: &str, seconds: f64| {
        println!(
            "| {name} | {:.1} | {:.1} | {:.2} |",
            1e3 * seconds,
            seconds / bound,
            seconds / als
        );
    };
    line("als", als);
    line("bayes", seconds(&entries, batch(Learner::Bayes)));
    line(
        "bayes, no implicit part",
        seconds(&entries, batch(Learner::Bayes).no_implicit(true)),
    );
    for (name, learner) in [
        ("balanced, cg", Learner::Balanced),
        ("polar, cg", Learner::Polar),
        ("embedded, cg", Learner::Embedded),
        ("factors, cg (MMMF)", Learner::Gradient),
    ] {
        let options = batch(learner).regularization(1e-8);
        line(name, seconds(&entries, random(options)));
    }
    let grassmann = batch(Learner::Grassmann).solver(Solver::Cg);
    let grassmann = random(grassmann.regularization(0.01));
    line("grassmann, cg", seconds(&entries, grassmann));
    for (name, learner) in [
        ("balanced, online, one thread", Learner::Balanced),
        ("polar, online, one thread", Learner::Polar),
        ("factors, online, one thread", Learner::Gradient),
        ("loreta, online, one thread", Learner::Loreta),
    ] {
        let options = of(learner)
            .solver(Solver::Online)
            .regularization(0.0)
            .step_size(0.03)
            .iterations(4);
        line(name, seconds(&entries, random(options)));
    }
}
