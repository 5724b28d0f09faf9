//! How long slots take: two threads against one at equal work, and one step at the size
//! of the paper against what the memory must move for it.
//!
//! ```text
//! cargo bench --workspace --bench gossip
//! ```

use faer::Mat;
use rankfold::batch::{Observed, Part};
use rankfold::gossip::{Columns, Graph, Schedule, Settings, Simulation, Steps, Work, message_size};
use rankfold::linalg::qf;
use rankfold::random::{Random, normal_at};
use std::hint::black_box;
use std::time::Instant;

const RANK: usize = 5;

/// A matrix of rank 5, sampled six times as often as it has parameters.
fn shares(m: usize, n: usize, agents: usize) -> Vec<Columns> {
    let factor = |rows: usize, side: u64| {
        Mat::from_fn(rows, RANK, |i, a| normal_at(0, side, i as u64, a as u64))
    };
    let (left, right) = (factor(m, 1), factor(n, 2));
    let mut random = Random::new(0, 3);
    let count = 6 * (m * RANK + n * RANK - RANK * RANK);
    let entries = (0..count).map(|_| {
        let (i, j) = (random.below(m), random.below(n));
        let y: f64 = (0..RANK).map(|a| left[(i, a)] * right[(j, a)]).sum();
        (i as u32, j as u32, y)
    });
    let observed = Observed::new((m, n), entries.collect()).expect("memory").0;
    let share = |i: usize| i * n / agents..(i + 1) * n / agents;
    let columns = |i| Columns::new(observed.part(Part::All), share(i), 0.0, 0.0);
    (0..agents).map(|i| columns(i).expect("memory")).collect()
}

fn start(m: usize) -> Mat<f64> {
    qf(&Mat::from_fn(m, RANK, |i, j| {
        normal_at(1, 7, i as u64, j as u64)
    }))
    .expect("full rank")
}

/// Seconds for so many parallel slots, and the bytes that all agents end with.
fn slots(works: &[Columns], steps: Steps, count: usize, threads: usize) -> (f64, Vec<u8>) {
    let settings = Settings {
        schedule: Schedule::Parallel,
        steps,
        threads,
        ..Settings::default()
    };
    let graph = Graph::path(works.len()).expect("agents");
    let start = start(works[0].dimension());
    let made = Simulation::new(works.to_vec(), graph, 1e3, &[start], settings);
    let mut simulation = made.expect("a sound problem");
    let started = Instant::now();
    for _ in 0..count {
        simulation.slot().expect("no faults");
    }
    let seconds = started.elapsed().as_secs_f64();
    let agents = simulation.agents().iter();
    (seconds, agents.flat_map(|a| a.checkpoint()).collect())
}

/// The best of some measurements: others had less of the machine.
fn least(times: usize, mut measure: impl FnMut() -> f64) -> f64 {
    (0..times).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

fn main() {
    // Benches are built by `cargo test` as well, and run without arguments there.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("8 agents on a path, 2,000 × 20,000, parallel slots");
    let works = shares(2_000, 20_000, 8);
    let given = Steps::Given {
        a: 1e-6,
        b: 0.0,
        precondition: false,
    };
    for (name, steps) in [("steps of their own", Steps::Own), ("given steps", given)] {
        let (mut best, mut bytes) = ([f64::INFINITY; 2], [Vec::new(), Vec::new()]);
        for _ in 0..5 {
            for threads in [1, 2] {
                let (seconds, end) = slots(&works, steps, 20, threads);
                best[threads - 1] = best[threads - 1].min(seconds);
                bytes[threads - 1] = end;
            }
        }
        assert!(bytes[0] == bytes[1], "the same bytes");
        println!(
            "  {name}: {:.1} ms a slot on one thread, {:.1} on two: {:.2} times faster, same bytes",
            50.0 * best[0],
            50.0 * best[1],
            best[0] / best[1]
        );
    }

    println!("one agent of six, 10,000 × 100,000");
    let (m, n) = (10_000, 100_000);
    let works = shares(m, n, 6);
    let (work, u) = (&works[0], start(m));
    let local = work.local(&u, None);
    let pass = least(5, || {
        let started = Instant::now();
        black_box(work.local(black_box(&u), None));
        started.elapsed().as_secs_f64()
    });
    let hessian_product = least(5, || {
        let started = Instant::now();
        black_box(work.hessian_product(&local, black_box(&u)));
        started.elapsed().as_secs_f64()
    });
    // What must be read and written once: entries by columns, U and the slope by rows of
    // eight numbers, weights and the factors of their equations.
    let columns = n / 6;
    let bytes = 12 * work.observations()
        + 8 * columns
        + 2 * 64 * m
        + (64 + 8 * RANK * (RANK + 1) / 2) * columns;
    let stream = bandwidth();
    let bound = bytes as f64 / stream;
    println!(
        "  cost and gradient: {:.1} ms for {} entries, {:.1} MB to move, {:.1} ms at {:.1} GB/s: {:.1} times the bound",
        1e3 * pass,
        work.observations(),
        bytes as f64 / 1e6,
        1e3 * bound,
        stream / 1e9,
        pass / bound
    );
    println!(
        "  curvature along a direction: {:.1} ms",
        1e3 * hessian_product
    );
    println!("  a message: {} bytes", message_size(m, RANK));
}

/// Bytes a second that one thread reads from a long list.
fn bandwidth() -> f64 {
    let list = vec![1u64; 32 << 20];
    let seconds = least(5, || {
        let started = Instant::now();
        black_box(black_box(&list).iter().sum::<u64>());
        started.elapsed().as_secs_f64()
    });
    (8 * list.len()) as f64 / seconds
}
