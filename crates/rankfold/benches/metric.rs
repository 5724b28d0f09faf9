//! Passes of batch metric learning, beside the two matrix products that no pass can do
//! without.
//!
//!     cargo bench --workspace --bench metric
//!
//! Points and pairs are those of Isolet in number: 6,238 points of 617 features, rank 20,
//! 100,000 pairs. All are measured in turn, and the least of several rounds counts.

use std::hint::black_box;
use std::time::Instant;

use faer::Mat;
use rankfold::batch::{
    Armijo, Bound, Bounds, Distances, Limits, Local, Objective, Pair, Points, PsdRegression, Solver,
};
use rankfold::manifold::{Flat, PolarPsd, Semidefinite};
use rankfold::random::{Random, normal_at};

const POINTS: usize = 6238;
const FEATURES: usize = 617;
const RANK: usize = 20;
const PAIRS: usize = 100_000;
const ROUNDS: usize = 7;

fn least(mut work: impl FnMut()) -> f64 {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS)
        .map(|_| time(&mut work))
        .fold(f64::INFINITY, f64::min)
}

fn regression<M: Semidefinite>(
    points: &Points,
    space: M,
    threads: usize,
) -> PsdRegression<'_, M, Bounds> {
    let mut random = Random::new(1, 0);
    let pair = |random: &mut Random| Pair {
        left: random.below(POINTS) as u32,
        right: random.below(POINTS) as u32,
    };
    let pairs: Vec<Pair> = (0..PAIRS).map(|_| pair(&mut random)).collect();
    let list = (0..PAIRS).map(|t| match t % 2 {
        0 => (Bound::AtMost, 10.0),
        _ => (Bound::AtLeast, 60.0),
    });
    PsdRegression {
        distances: Distances::new(points, pairs, threads).expect("memory"),
        pair_loss: Bounds {
            list: list.collect(),
        },
        space,
    }
}

fn main() {
    let entry = |i: usize, j: usize| normal_at(1, 0, i as u64, j as u64);
    let x = Mat::from_fn(POINTS, FEATURES, entry);
    let g = Mat::from_fn(FEATURES, RANK, |i, j| {
        normal_at(2, 0, i as u64, j as u64) / 25.0
    });
    let points = Points::dense(x.clone());
    println!(
        "{POINTS} points, {FEATURES} features, rank {RANK}, {PAIRS} pairs; the least of {ROUNDS} rounds"
    );
    let products = least(|| {
        let z = &x * &g;
        black_box(x.transpose() * &z);
    });
    println!(
        "two products by faer on its threads: {:.2} ms",
        1e3 * products
    );
    println!(
        "{:<28} {:>7} {:>9} {:>14}",
        "", "threads", "ms", "of products"
    );
    for threads in [1, 2] {
        let flat = regression(&points, Flat, threads);
        let polar = regression(&points, PolarPsd::default(), threads);
        let (at_flat, at_polar) = (
            Flat.point(&g).expect("a point"),
            polar.space.point(&g).expect("a point"),
        );
        let limits = Limits {
            iterations: 10,
            decrease: 0.0,
            ..Limits::default()
        };
        let solve = |solver: Solver| {
            flat.solve(solver, at_flat.clone(), limits, 0.0, &mut |_| true);
        };
        let cg = Solver::ConjugateGradient {
            precondition: false,
        };
        let of_flat = || {
            least(|| {
                black_box(flat.local(&at_flat).cost());
            })
        };
        let of_polar = || {
            least(|| {
                black_box(polar.local(&at_polar).cost());
            })
        };
        let cost = || {
            least(|| {
                black_box(flat.cost(&at_flat));
            })
        };
        let rows: [(&str, f64); 5] = [
            ("cost, flat", cost()),
            ("cost and gradient, flat", of_flat()),
            ("cost and gradient, polar", of_polar()),
            ("an iteration of cg, flat", least(|| solve(cg)) / 10.0),
            (
                "an iteration of descent, flat",
                least(|| solve(Solver::Descent(Armijo::default()))) / 10.0,
            ),
        ];
        for (name, seconds) in rows {
            println!(
                "{name:<28} {threads:>7} {:>9.2} {:>14.2}",
                1e3 * seconds,
                seconds / products
            );
        }
    }
}
