//! The toy experiments of "Regression on fixed-rank positive semidefinite matrices":
//! samples y = (xᵀ W x)(1 + ν) of a planted W, x normal, ν of variance 0.01.
//!
//! `cargo run --release --example psd_toys -- subspace SEED` (or `lambda`, or `minibatch`)
//! prints what came of one problem, as JSON. Without an argument it does a small part of each.

use std::time::Instant;

use faer::Mat;
use rankfold::batch::{
    Armijo, Bound, Bounds, Distances, Limits, Pair, Points, PsdRegression, Solver, principal,
};
use rankfold::form::{PolarPsd as PolarForm, Psd, Tall};
use rankfold::linalg::qf;
use rankfold::manifold::{Flat, PolarPsd, Semidefinite};
use rankfold::online::choose_step;
use rankfold::online::{self, Learner, Mixed, RankOne, Step};
use rankfold::random::normal_at;
use rankfold::{Loss, Result, SparseVec};
use serde_json::{Value, json};

/// Seconds of the processor that this thread has had; of the clock where the system does not
/// tell. A busy machine makes the clock useless.
struct Timer {
    clock: Instant,
    used: Option<f64>,
}

impl Timer {
    fn start() -> Self {
        Timer {
            clock: Instant::now(),
            used: Self::used(),
        }
    }

    fn used() -> Option<f64> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let nanoseconds: f64 = text.split(' ').next()?.parse().ok()?;
        Some(1e-9 * nanoseconds)
    }

    fn seconds(&self) -> f64 {
        match (self.used, Self::used()) {
            (Some(before), Some(now)) => now - before,
            _ => self.clock.elapsed().as_secs_f64(),
        }
    }
}

fn normal(rows: usize, columns: usize, seed: u64) -> Mat<f64> {
    Mat::from_fn(rows, columns, |i, j| normal_at(seed, 0, i as u64, j as u64))
}

/// Samples of a planted matrix.
struct Toy {
    x: Mat<f64>,
    y: Vec<f64>,
    points: Points,
}

/// G with W = G Gᵀ: random directions with these eigenvalues.
fn planted(d: usize, eigenvalues: &[f64], seed: u64) -> Mat<f64> {
    let directions = qf(&normal(d, eigenvalues.len(), seed)).expect("full rank");
    Mat::from_fn(d, eigenvalues.len(), |i, j| {
        directions[(i, j)] * eigenvalues[j].sqrt()
    })
}

impl Toy {
    fn new(truth: &Mat<f64>, count: usize, seed: u64) -> Self {
        let x = normal(count, truth.nrows(), seed);
        let z = &x * truth;
        let y = (0..count).map(|i| {
            let score: f64 = (0..z.ncols()).map(|j| z[(i, j)].powi(2)).sum();
            score * (1.0 + 0.1 * normal_at(seed, 1, i as u64, 0))
        });
        Toy {
            y: y.collect(),
            points: Points::dense(x.clone()),
            x,
        }
    }

    fn regression<M: Semidefinite>(&self, space: M) -> Result<PsdRegression<'_, M, Bounds>> {
        let pairs = (0..self.y.len() as u32).map(Pair::of_point).collect();
        Ok(PsdRegression {
            distances: Distances::new(&self.points, pairs, 1)?,
            pair_loss: Bounds {
                list: self.y.iter().map(|&y| (Bound::Equal, y)).collect(),
            },
            space,
        })
    }

    /// The root of the mean squared error of W = G Gᵀ.
    fn error(&self, factor: &Mat<f64>) -> f64 {
        let z = &self.x * factor;
        let square = |i: usize| {
            let score: f64 = (0..z.ncols()).map(|j| z[(i, j)].powi(2)).sum();
            (score - self.y[i]).powi(2)
        };
        let count = self.y.len();
        ((0..count).map(square).sum::<f64>() / count as f64).sqrt()
    }
}

/// Armijo descent, as in the paper, until ε.
fn descend<M: Semidefinite>(
    toy: &Toy,
    space: M,
    start: &Mat<f64>,
    tolerance: f64,
) -> Result<(Mat<f64>, usize)> {
    let armijo = Armijo {
        share: 0.5,
        longest: Some(100.0),
    };
    let limits = Limits {
        iterations: 2000,
        cost: tolerance,
        decrease: tolerance,
        gradient: 0.0,
    };
    let regression = toy.regression(space)?;
    let start = regression.space.point(start).expect("full rank");
    let solver = Solver::Descent(armijo);
    let (g, solved) = regression.solve(solver, start, limits, tolerance, &mut |_| true);
    Ok((g, solved.iterations))
}

fn polar(subspace_weight: f64) -> PolarPsd {
    PolarPsd {
        subspace_weight,
        ..PolarPsd::default()
    }
}

/// Figure 3: the distance alone, in the subspace of the principal directions, against
/// subspace and distance. W has eigenvalues 4, 3 and .01 in three dimensions, 200 samples.
fn subspace(seed: u64) -> Result<Value> {
    let truth = planted(3, &[4.0, 3.0, 0.01], 100 + seed);
    let toy = Toy::new(&truth, 200, 200 + seed);
    let (start, _) = principal(&toy.points, 2, 1)?;
    let error = |lambda: f64| -> Result<f64> {
        let (g, _) = descend(&toy, polar(lambda), &start, 1e-7)?;
        Ok(toy.error(&g))
    };
    Ok(json!({ "fixed": error(0.0)?, "learned": error(0.5)? }))
}

/// Figure 4: λ between subspace and distance, for several tolerances: rank 5 in ten
/// dimensions, 500 samples to learn from and 500 to test.
fn lambda(seed: u64, tolerances: &[f64]) -> Result<Value> {
    let truth = planted(10, &[5.0, 4.0, 3.0, 2.0, 1.0], 300 + seed);
    let toy = Toy::new(&truth, 500, 400 + seed);
    let test = Toy::new(&truth, 500, 500 + seed);
    let (start, _) = principal(&toy.points, 5, 1)?;
    let mut found = Vec::new();
    for lambda in [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99] {
        for &tolerance in tolerances {
            let timer = Timer::start();
            let (g, iterations) = descend(&toy, polar(lambda), &start, tolerance)?;
            found.push(
                json!({ "lambda": lambda, "tolerance": tolerance, "rmse": test.error(&g),
                "iterations": iterations, "seconds": timer.seconds() }),
            );
        }
    }
    Ok(json!(found))
}

/// W = G Gᵀ of a learner as it is now.
trait Factor {
    fn factor(&self) -> Mat<f64>;
}

fn factor_of(w: &[Vec<f64>]) -> Mat<f64> {
    let d = w.len();
    let w = Mat::from_fn(d, d, |i, j| w[i][j]);
    rankfold::linalg::symmetric::map(&w, |v| v.max(0.0).sqrt()).expect("finite")
}

impl Factor for online::Flat<f64> {
    fn factor(&self) -> Mat<f64> {
        factor_of(&self.form().to_dense())
    }
}

impl Factor for online::PolarPsd<f64> {
    fn factor(&self) -> Mat<f64> {
        factor_of(&self.form().to_dense())
    }
}

/// One learner over all samples, `passes` times: the seconds and the test error after each
/// pass, and what the choice of steps took.
fn run<L: Learner<f64> + Clone + Factor>(
    start: L,
    (train, test): (&Toy, &Toy),
    batch: usize,
    passes: usize,
) -> Value {
    let d = train.x.ncols();
    let rows: Vec<SparseVec<f64>> = (0..train.y.len())
        .map(|i| SparseVec::from_dense(&(0..d).map(|j| train.x[(i, j)]).collect::<Vec<_>>()))
        .collect();
    let examples: Vec<Mixed<'_, f64>> = rows
        .iter()
        .zip(&train.y)
        .map(|(row, &target)| Mixed {
            example: RankOne {
                left: row.as_row(),
                right: row.as_row(),
            },
            target,
            loss: Loss::Squared,
        })
        .collect();
    let timer = Timer::start();
    let most = 4000.min(examples.len());
    let Some(chosen) = choose_step(&start, &examples, batch, most, Step::LIMIT) else {
        return Value::Null;
    };
    let choosing = timer.seconds();
    let (mut learner, mut seen, mut seconds) = (start, 0, 0.0);
    let mut points = Vec::new();
    for _ in 0..passes {
        let timer = Timer::start();
        for some in examples.chunks(batch) {
            seen += some.len() as u64;
            let step = Step::new(chosen.rule.size(seen - 1, || 1.0));
            learner.learn_mixed(some, step);
        }
        seconds += timer.seconds();
        points.push((seconds, test.error(&learner.factor())));
    }
    json!({ "seconds": choosing, "passes": points })
}

/// Figure 5: one sample a step, 32 a step, and all of them; rank 10 in 50 dimensions.
fn minibatch(seed: u64, count: usize, passes: usize) -> Result<Value> {
    let (d, rank) = (50, 10);
    let eigenvalues: Vec<f64> = (0..rank).map(|i| 2.0 - i as f64 / rank as f64).collect();
    let seed = 600 + 10 * seed;
    let truth = planted(d, &eigenvalues, seed);
    let (train, test) = (
        Toy::new(&truth, count, seed + 1),
        Toy::new(&truth, count / 4, seed + 2),
    );
    let (start, _) = principal(&train.points, rank, 2)?;
    let psd =
        || -> Result<Psd<f64>> { Ok(Psd::new(Tall::from_fn(d, rank, |i, j| start[(i, j)])?)) };
    let mut found = json!({ "planted": test.error(&truth), "start": test.error(&start) });
    for batch in [1, 32] {
        let toys = (&train, &test);
        let flat = online::Flat::new(psd()?);
        found[format!("flat, {batch}")] = run(flat, toys, batch, passes);
        let form = PolarForm::from_psd(psd()?).expect("full rank");
        let polar = online::PolarPsd::new(form);
        found[format!("polar, {batch}")] = run(polar, toys, batch, passes);
    }
    for (name, lambda) in [("flat, batch", None), ("polar, batch", Some(0.5))] {
        let timer = Timer::start();
        let (g, iterations) = match lambda {
            None => descend(&train, Flat, &start, 1e-5)?,
            Some(lambda) => descend(&train, polar(lambda), &start, 1e-5)?,
        };
        found[name] = json!({ "seconds": timer.seconds(), "iterations": iterations,
            "rmse": test.error(&g) });
    }
    Ok(found)
}

/// Table 1: the time of an online step on a dense row, by dimension and rank.
fn cost(seed: u64, steps: usize) -> Result<Value> {
    let mut found = Vec::new();
    for d in [500, 2_000] {
        for rank in [5, 10, 20, 40] {
            let start = normal(d, rank, 700 + seed);
            let psd = || -> Result<Psd<f64>> {
                Ok(Psd::new(Tall::from_fn(d, rank, |i, j| start[(i, j)])?))
            };
            let x = normal(steps, d, 800 + seed);
            let rows: Vec<SparseVec<f64>> = (0..steps)
                .map(|i| SparseVec::from_dense(&(0..d).map(|j| x[(i, j)]).collect::<Vec<_>>()))
                .collect();
            fn timed<L: Learner<f64>>(mut learner: L, rows: &[SparseVec<f64>]) -> f64 {
                let timer = Timer::start();
                let mut steps = 0;
                // The time of a thread is told in ticks of some milliseconds.
                while timer.seconds() < 0.3 {
                    for row in rows {
                        let example = RankOne {
                            left: row.as_row(),
                            right: row.as_row(),
                        };
                        learner.learn(example, 1.0, Loss::Squared, Step::new(1e-9));
                    }
                    steps += rows.len();
                }
                1e6 * timer.seconds() / steps as f64
            }
            let polar = online::PolarPsd::new(PolarForm::from_psd(psd()?).expect("full rank"));
            let times = [
                ("flat", timed(online::Flat::new(psd()?), &rows)),
                ("polar", timed(polar, &rows)),
            ];
            for (learner, microseconds) in times {
                found.push(json!({ "learner": learner, "d": d, "rank": rank,
                    "microseconds": microseconds }));
            }
        }
    }
    Ok(json!(found))
}

fn main() -> Result<()> {
    let seed = std::env::args().nth(2).and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(0);
    let found = match std::env::args().nth(1).as_deref() {
        None => json!([subspace(0)?, lambda(0, &[1e-3])?, minibatch(0, 4_000, 1)?]),
        Some("subspace") => subspace(seed)?,
        Some("lambda") => lambda(seed, &[1e-2, 1e-3, 1e-4, 1e-5])?,
        Some("minibatch") => minibatch(seed, 80_000, 3)?,
        Some("cost") => cost(seed, 300)?,
        Some("minibatch-quick") => minibatch(seed, 4_000, 1)?,
        Some(other) => {
            return Err(rankfold::Error::input(format!(
                "expected `subspace`, `lambda`, `minibatch` or `cost`, found `{other}`"
            )));
        }
    };
    println!("{found}");
    Ok(())
}
