//! Passes of the search for a subspace that many regressions share, beside the two
//! matrix products that no pass can do without.
//!
//!     cargo bench --workspace --bench tasks
//!
//! 1,000 tasks of 10 to 50 rows with 100 features, rank 5. All are measured in turn, and
//! the least of several rounds counts.

use std::hint::black_box;
use std::time::Instant;

use faer::Mat;
use rankfold::batch::{Limits, Local, Objective, SharedSubspace, Solver, Tasks};
use rankfold::linalg::qf;
use rankfold::manifold::Grassmann;
use rankfold::random::normal_at;

const FEATURES: usize = 100;
const RANK: usize = 5;
const ROUNDS: usize = 15;

fn least(mut work: impl FnMut()) -> f64 {
    let mut time = || {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(|_| time()).fold(f64::INFINITY, f64::min)
}

fn normal(n: usize, k: usize, purpose: u64) -> Mat<f64> {
    Mat::from_fn(n, k, |i, j| normal_at(1, purpose, i as u64, j as u64))
}

fn main() {
    let truth = qf(&normal(FEATURES, RANK, 1)).expect("full rank");
    let data: Vec<(Vec<f64>, Vec<f64>)> = (0..1000u64)
        .map(|t| {
            let d = 10 + (t * 7919 % 41) as usize;
            let x = normal(d, FEATURES, 10 + t);
            let y = &x * &truth * normal(RANK, 1, 5000 + t)
                + faer::Scale(1e-6) * normal(d, 1, 9000 + t);
            let flat = (0..d * FEATURES).map(|i| x[(i / FEATURES, i % FEATURES)]);
            (flat.collect(), (0..d).map(|i| y[(i, 0)]).collect())
        })
        .collect();
    let rows: usize = data.iter().map(|(_, y)| y.len()).sum();
    let tasks = Tasks::new(FEATURES, data.iter().map(|(x, y)| (&x[..], &y[..])));
    let tasks = tasks.expect("memory");
    let at = vec![qf(&normal(FEATURES, RANK, 2)).expect("full rank")];
    let along = vec![Grassmann::project(&at[0], &normal(FEATURES, RANK, 3))];
    let x = normal(rows, FEATURES, 4);
    let products = least(|| {
        let z = &x * &at[0];
        black_box(x.transpose() * z);
    });
    println!("{rows} rows of {FEATURES} features in 1000 tasks, rank {RANK}; milliseconds");
    println!("{:<28} {:>8.2}", "two products, one thread", 1e3 * products);
    for threads in [1, 2] {
        let problem = SharedSubspace {
            tasks: &tasks,
            lambda: 0.1,
            common: None,
            threads,
        };
        let cost = least(|| {
            black_box(problem.cost(&at));
        });
        let gradient = least(|| {
            black_box(problem.local(&at).cost());
        });
        let local = problem.local(&at);
        let hessian = least(|| {
            black_box(local.hessian(&along));
        });
        println!("{threads} threads");
        for (name, seconds) in [("cost", cost), ("gradient", gradient), ("hessian", hessian)] {
            let ratio = seconds / products;
            println!("{name:<28} {:>8.2}  {ratio:>5.2} products", 1e3 * seconds);
        }
    }
    let problem = SharedSubspace {
        tasks: &tasks,
        lambda: 0.0,
        common: None,
        threads: 2,
    };
    for (name, solver) in [
        ("trust region", Solver::TrustRegion),
        ("cg", Solver::ConjugateGradient { precondition: true }),
    ] {
        let start = Instant::now();
        let first = vec![tasks.start(RANK, None).expect("directions")];
        let limits = Limits {
            decrease: 1e-12,
            ..Limits::default()
        };
        let solved = solver.solve(&problem, first, limits, &mut |_| true);
        let off = Grassmann::distance(&solved.point[0], &truth);
        println!(
            "{name}: distance {off:.1e} to the truth after {} iterations, {:.2} s",
            solved.iterations,
            start.elapsed().as_secs_f64()
        );
    }
}
