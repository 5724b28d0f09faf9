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

/// The middle of several timings, in seconds.
fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

fn timed(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// y += c x over arrays of this size: two streams in, one out, in bytes a second.
fn streaming(bytes: usize) -> f64 {
    let n = bytes / 2 / size_of::<f64>();
    let (x, mut y) = (vec![1.0; n], vec![1.0; n]);
    let mut pass = || {
        let c = black_box(1.000_000_1);
        for (y, x) in y.iter_mut().zip(&x) {
            *y += c * x;
        }
        black_box(&mut y);
    };
    pass();
    let seconds = median((0..15).map(|_| timed(&mut pass)).collect());
    (3 * n * size_of::<f64>()) as f64 / seconds
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

/// Seconds a step that always moves W.
fn sparse_step<R: Real>(learner: &mut impl Learner<R>, n: usize, nnz: usize) -> f64 {
    let (left, right) = (
        examples::<R>(2_000, n, nnz, 7),
        examples::<R>(2_000, n, nnz, 8),
    );
    let step = Step {
        size: 1e-3,
        limit: 0.5,
    };
    let mut run = || {
        for (l, r) in left.iter().zip(&right) {
            let example = RankOne {
                left: l.as_row(),
                right: r.as_row(),
            };
            // A target far away: the slope never vanishes.
            black_box(learner.learn(example, 1.0, Loss::Squared, step));
        }
    };
    run();
    median((0..7).map(|_| timed(&mut run)).collect()) / left.len() as f64
}

fn general<R: Real>(n: usize, k: usize, nnz: usize) -> f64 {
    let form = Factored::new(gaussian::<R>(n, k, 0), gaussian::<R>(n, k, 1));
    sparse_step(&mut Loreta::new(form), n, nnz)
}

fn symmetric<R: Real>(n: usize, k: usize, nnz: usize) -> f64 {
    sparse_step(
        &mut LoretaPsd::new(Psd::new(gaussian::<R>(n, k, 0))),
        n,
        nnz,
    )
}

/// Seconds a step of the dense algorithm.
fn dense_step(n: usize) -> f64 {
    const K: usize = DENSE_RANK;
    let side = |side: u64| {
        let tall = gaussian::<f64>(n, K, side);
        let rows: Vec<[f64; K]> = (0..n)
            .map(|i| tall.row(i).try_into().expect("K columns"))
            .collect();
        // A⁺ᵀ = A (AᵀA)⁻¹; for timing, the nearly orthogonal columns are enough.
        let inverse = rows.iter().map(|row| row.map(|v| v / n as f64)).collect();
        dense::Side::new(rows, inverse)
    };
    let (mut left, mut right) = (side(0), side(1));
    let full = |x: &SparseVec<f64>| {
        let mut out = vec![0.0; n];
        x.as_row()
            .iter()
            .for_each(|(i, v)| out[i as usize] = 1e-3 * v);
        out
    };
    let p: Vec<Vec<f64>> = examples::<f64>(8, n, NNZ, 7).iter().map(full).collect();
    let q: Vec<Vec<f64>> = examples::<f64>(8, n, NNZ, 8).iter().map(full).collect();
    let mut run = || {
        for (p, q) in p.iter().zip(&q) {
            dense::step(&mut left, &mut right, black_box(p), black_box(q));
        }
    };
    run();
    median((0..9).map(|_| timed(&mut run)).collect()) / 8.0
}

fn main() {
    let n = 50_000;
    let k = DENSE_RANK;
    let gb = 1e9;
    let resident = 4 * n * k * size_of::<f64>();
    let near = streaming(resident);
    let far = streaming(512 << 20);
    println!("f64, one thread, {NNZ} non-zeros on each side\n");
    println!(
        "streaming y += c x: {:.1} GB/s on {} MB, {:.1} GB/s on 512 MB",
        near / gb,
        resident >> 20,
        far / gb
    );

    let dense = dense_step(n);
    let bandwidth = dense::bytes_moved(n, n, k) as f64 / dense;
    println!(
        "dense algorithm 4, n = m = {n}, k = {k}: {:.0} µs a step, {:.1} GB/s, {:.2} of streaming",
        1e6 * dense,
        bandwidth / gb,
        bandwidth / near
    );
    let sparse = general::<f64>(n, k, NNZ);
    // Each row is read by the gather, and read and written by the scatter.
    let row = k.next_multiple_of(4) * size_of::<f64>();
    let touched = (2 * NNZ * 3 * row) as f64;
    println!(
        "sparse form, the same: {:.2} µs a step, {:.1} GB/s of row traffic, {:.2} of streaming; at full streaming speed it would take {:.2} µs",
        1e6 * sparse,
        touched / sparse / gb,
        touched / sparse / near,
        1e6 * touched / near
    );
    println!("dense / sparse: {:.0}\n", dense / sparse);

    let sizes = [10_000, 100_000, 1_000_000];
    let steps = sizes.map(|n| general::<f64>(n, k, NNZ));
    for (n, step) in sizes.iter().zip(steps) {
        println!(
            "n = m = {n:>9}: {:.2} µs a step, {:.2} of n = 10,000",
            1e6 * step,
            step / steps[0]
        );
    }

    println!("\nf32, n = 16,660, 91 non-zeros (text), µs a step that moves W");
    for k in [10, 30, 100] {
        println!(
            "k = {k:>3}: general {:.2}, psd {:.2}",
            1e6 * general::<f32>(16_660, k, 91),
            1e6 * symmetric::<f32>(16_660, k, 91)
        );
    }
}
