//! How fast a LORETA-1 step is: sparse against dense, small against large, and
//! both against the memory of the machine. Prints ratios measured in one run.
//!
//! `cargo bench --workspace --bench loreta`

mod dense;

use rankfold::form::{Factored, Psd, Tall};
use rankfold::online::{Learner, Loreta, LoretaPsd, RankOne, Step};
use rankfold::random::{Random, normal_at};
use rankfold::{Loss, Real, SparseVec};
use std::hint::black_box;
use std::time::Instant;

const NNZ: usize = 100;
const DENSE_RANK: usize = 10;
const ROUNDS: usize = 31;

/// The middle of several measurements.
fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

fn timed(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// y += c x over arrays of this size in all: two streams in, one out.
struct Streaming {
    x: Vec<f64>,
    y: Vec<f64>,
}

impl Streaming {
    fn new(bytes: usize) -> Self {
        let n = bytes / 2 / size_of::<f64>();
        let mut out = Streaming {
            x: vec![1.0; n],
            y: vec![1.0; n],
        };
        out.bandwidth();
        out
    }

    /// Bytes a second, over a few passes.
    fn bandwidth(&mut self) -> f64 {
        let passes = 4;
        let seconds = timed(|| {
            for _ in 0..passes {
                let c = black_box(1.000_000_1);
                for (y, x) in self.y.iter_mut().zip(&self.x) {
                    *y += c * x;
                }
                black_box(&mut self.y);
            }
        });
        (3 * passes * self.x.len() * size_of::<f64>()) as f64 / seconds
    }
}

fn examples<R: Real>(count: usize, n: usize, nnz: usize, seed: u64) -> Vec<SparseVec<R>> {
    let mut random = Random::new(seed, 0);
    let mut draw = |i: usize| {
        let entry = |j: usize, random: &mut Random| {
            let value = normal_at(seed, 0, i as u64, j as u64) / (nnz as f64).sqrt();
            (random.below(n) as u32, R::from_f64(value))
        };
        SparseVec::from_entries((0..nnz).map(|j| entry(j, &mut random)).collect())
    };
    (0..count).map(&mut draw).collect()
}

fn gaussian<R: Real>(n: usize, k: usize, side: u64) -> Tall<R> {
    Tall::from_fn(n, k, |i, j| normal_at(1, side, i as u64, j as u64)).expect("full rank")
}

/// A learner and the examples it goes through, every one of which moves W.
struct Sparse<R, L> {
    learner: L,
    left: Vec<SparseVec<R>>,
    right: Vec<SparseVec<R>>,
}

impl<R: Real, L: Learner<R>> Sparse<R, L> {
    fn new(learner: L, n: usize, nnz: usize) -> Self {
        let (left, right) = (
            examples::<R>(2_000, n, nnz, 7),
            examples::<R>(2_000, n, nnz, 8),
        );
        let mut out = Sparse {
            learner,
            left,
            right,
        };
        out.seconds_a_step();
        out
    }

    fn seconds_a_step(&mut self) -> f64 {
        let step = Step {
            size: 1e-3,
            limit: 0.5,
        };
        let seconds = timed(|| {
            for (l, r) in self.left.iter().zip(&self.right) {
                let example = RankOne {
                    left: l.as_row(),
                    right: r.as_row(),
                };
                // A target far away: the slope never vanishes.
                black_box(self.learner.learn(example, 1.0, Loss::Squared, step));
            }
        });
        seconds / self.left.len() as f64
    }
}

fn general<R: Real>(n: usize, k: usize, nnz: usize) -> Sparse<R, Loreta<R>> {
    let form = Factored::new(gaussian::<R>(n, k, 0), gaussian::<R>(n, k, 1));
    Sparse::new(Loreta::new(form), n, nnz)
}

fn symmetric<R: Real>(n: usize, k: usize, nnz: usize) -> Sparse<R, LoretaPsd<R>> {
    Sparse::new(LoretaPsd::new(Psd::new(gaussian::<R>(n, k, 0))), n, nnz)
}

/// The dense algorithm and a few examples for it.
struct Dense {
    left: dense::Side<DENSE_RANK>,
    right: dense::Side<DENSE_RANK>,
    p: Vec<Vec<f64>>,
    q: Vec<Vec<f64>>,
}

impl Dense {
    fn new(n: usize) -> Self {
        const K: usize = DENSE_RANK;
        let side = |side: u64| {
            let tall = gaussian::<f64>(n, K, side);
            let row = |i: usize| -> [f64; K] { tall.row(i).try_into().expect("K columns") };
            let rows: Vec<[f64; K]> = (0..n).map(row).collect();
            // A⁺ᵀ = A (AᵀA)⁻¹; for timing, the nearly orthogonal columns are enough.
            let inverse = rows.iter().map(|row| row.map(|v| v / n as f64)).collect();
            dense::Side::new(rows, inverse)
        };
        let full = |x: &SparseVec<f64>| {
            let mut out = vec![0.0; n];
            x.as_row()
                .iter()
                .for_each(|(i, v)| out[i as usize] = 1e-3 * v);
            out
        };
        let mut out = Dense {
            left: side(0),
            right: side(1),
            p: examples::<f64>(8, n, NNZ, 7).iter().map(full).collect(),
            q: examples::<f64>(8, n, NNZ, 8).iter().map(full).collect(),
        };
        out.seconds_a_step();
        out
    }

    fn seconds_a_step(&mut self) -> f64 {
        let seconds = timed(|| {
            for (p, q) in self.p.iter().zip(&self.q) {
                dense::step(&mut self.left, &mut self.right, black_box(p), black_box(q));
            }
        });
        seconds / self.p.len() as f64
    }
}

fn main() {
    let (n, k, gb) = (50_000, DENSE_RANK, 1e9);
    println!(
        "f64, one thread, {NNZ} non-zeros on each side; medians over {ROUNDS} rounds, each of"
    );
    println!("which times everything once, so that a busy neighbor disturbs all alike\n");

    let resident = 4 * n * k * size_of::<f64>();
    let (mut near, mut far) = (Streaming::new(resident), Streaming::new(256 << 20));
    let (mut plain, mut sparse) = (Dense::new(n), general::<f64>(n, k, NNZ));
    // Each row is read by the gather, and read and written by the scatter.
    let row = k.next_multiple_of(4) * size_of::<f64>();
    let touched = (2 * NNZ * 3 * row) as f64;
    let moved = dense::bytes_moved(n, n, k) as f64;
    let rounds: Vec<[f64; 4]> = (0..ROUNDS)
        .map(|_| {
            [
                near.bandwidth(),
                far.bandwidth(),
                plain.seconds_a_step(),
                sparse.seconds_a_step(),
            ]
        })
        .collect();
    let over = |value: &dyn Fn(&[f64; 4]) -> f64| median(rounds.iter().map(value).collect());
    println!(
        "streaming y += c x, {} MB: {:.1} GB/s",
        resident >> 20,
        over(&|r| r[0]) / gb
    );
    println!(
        "streaming y += c x, 256 MB: {:.1} GB/s",
        over(&|r| r[1]) / gb
    );
    println!("n = m = {n}, k = {k}");
    println!(
        "dense algorithm 4: {:.0} µs a step, {:.1} GB/s, {:.2} of streaming {} MB",
        1e6 * over(&|r| r[2]),
        over(&|r| moved / r[2]) / gb,
        over(&|r| moved / r[2] / r[0]),
        resident >> 20
    );
    println!(
        "sparse form: {:.2} µs a step, {:.1} GB/s of row traffic, {:.2} of streaming; at full streaming speed {:.2} µs",
        1e6 * over(&|r| r[3]),
        over(&|r| touched / r[3]) / gb,
        over(&|r| touched / r[3] / r[0]),
        1e6 * over(&|r| touched / r[0])
    );
    let mut ratios: Vec<f64> = rounds.iter().map(|r| r[2] / r[3]).collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "dense / sparse: {:.0} (the middle half of the rounds: {:.0} to {:.0})\n",
        over(&|r| r[2] / r[3]),
        ratios[ROUNDS / 4],
        ratios[3 * ROUNDS / 4]
    );
    drop((plain, sparse, near, far));

    let sizes = [10_000, 100_000, 1_000_000];
    let mut learners = sizes.map(|n| general::<f64>(n, k, NNZ));
    let rounds: Vec<Vec<f64>> = (0..ROUNDS)
        .map(|_| learners.iter_mut().map(Sparse::seconds_a_step).collect())
        .collect();
    for (i, n) in sizes.iter().enumerate() {
        println!(
            "n = m = {n:>9}: {:.2} µs a step, {:.2} of n = 10,000",
            1e6 * median(rounds.iter().map(|r| r[i]).collect()),
            median(rounds.iter().map(|r| r[i] / r[0]).collect())
        );
    }
    drop(learners);

    println!("\nf32, n = 16,660, 91 non-zeros (text), µs a step that moves W");
    for k in [10, 30, 100] {
        let (mut one, mut two) = (
            general::<f32>(16_660, k, 91),
            symmetric::<f32>(16_660, k, 91),
        );
        let rounds: Vec<[f64; 2]> = (0..ROUNDS / 3)
            .map(|_| [one.seconds_a_step(), two.seconds_a_step()])
            .collect();
        println!(
            "k = {k:>3}: general {:.2}, psd {:.2}",
            1e6 * median(rounds.iter().map(|r| r[0]).collect()),
            1e6 * median(rounds.iter().map(|r| r[1]).collect())
        );
    }
}
