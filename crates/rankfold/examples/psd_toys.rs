//! The toy experiments of "Regression on fixed-rank positive semidefinite matrices":
//! samples y = (xᵀ W x)(1 + ν) of a planted W, x normal, ν of variance 0.01.
//!
//! `cargo run --release --example psd_toys -- subspace` (or `lambda`, or `minibatch`)
//!
//! Without an argument it does a small part of each, which takes seconds.

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
            distances: Distances::new(&self.points, pairs, 2)?,
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
/// subspace and distance.
fn subspace(whole: bool) -> Result<()> {
    println!("\nsubspace: W of eigenvalues 4, 3, .01 in three dimensions, 200 samples, rank 2");
    println!(
        "{:>8} {:>14} {:>14}",
        "problem", "fixed (λ=0)", "learned (.5)"
    );
    for problem in 0..if whole { 10 } else { 2 } {
        let truth = planted(3, &[4.0, 3.0, 0.01], 100 + problem);
        let toy = Toy::new(&truth, 200, 200 + problem);
        let (start, _) = principal(&toy.points, 2, 1)?;
        let mut errors = [0.0, 0.5].into_iter().map(|lambda| {
            let (g, _) = descend(&toy, polar(lambda), &start, 1e-7)?;
            Ok(toy.error(&g))
        });
        let [fixed, learned] = [errors.next(), errors.next()].map(|e| e.expect("two"));
        println!("{problem:>8} {:>14.4} {:>14.4}", fixed?, learned?);
    }
    Ok(())
}

/// Figure 4: λ between subspace and distance, for several tolerances.
fn lambda(whole: bool) -> Result<()> {
    let problems = if whole { 10 } else { 1 };
    let tolerances: &[f64] = if whole {
        &[1e-2, 1e-3, 1e-4, 1e-5]
    } else {
        &[1e-3]
    };
    println!(
        "\nlambda: rank 5 in ten dimensions, 500 samples to learn from, 500 to test, {problems} problems"
    );
    println!("mean test RMSE (iterations)");
    let heads = tolerances
        .iter()
        .map(|e| format!("{:>18}", format!("ε = {e:.0e}")));
    println!("{:>8}{}", "λ", heads.collect::<String>());
    for lambda in [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99] {
        let mut line = format!("{lambda:>8}");
        for &tolerance in tolerances {
            let (mut error, mut iterations) = (0.0, 0);
            for problem in 0..problems {
                let truth = planted(10, &[5.0, 4.0, 3.0, 2.0, 1.0], 300 + problem);
                let toy = Toy::new(&truth, 500, 400 + problem);
                let test = Toy::new(&truth, 500, 500 + problem);
                let (start, _) = principal(&toy.points, 5, 1)?;
                let (g, done) = descend(&toy, polar(lambda), &start, tolerance)?;
                error += test.error(&g) / problems as f64;
                iterations += done;
            }
            let cell = format!("{error:.3} ({})", iterations / problems as usize);
            line += &format!("{cell:>18}");
        }
        println!("{line}");
    }
    Ok(())
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

/// One learner over all samples, `passes` times; test errors after each pass.
fn run<L: Learner<f64> + Clone + Factor>(
    name: &str,
    start: L,
    (train, test): (&Toy, &Toy),
    batch: usize,
    passes: usize,
) {
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
    let clock = Instant::now();
    let chosen = choose_step(
        &start,
        &examples,
        batch,
        4000.min(examples.len()),
        Step::LIMIT,
    );
    let Some(chosen) = chosen else {
        println!("{name:<16} no step does well");
        return;
    };
    let mut learner = start;
    let mut seen = 0;
    let mut errors = Vec::new();
    for _ in 0..passes {
        for some in examples.chunks(batch) {
            seen += some.len() as u64;
            let step = Step::new(chosen.rule.size(seen - 1, || 1.0));
            learner.learn_mixed(some, step);
        }
        errors.push(format!("{:.3}", test.error(&learner.factor())));
    }
    let seconds = clock.elapsed().as_secs_f64();
    println!(
        "{name:<16} {seconds:>8.2} s   after each pass: {}",
        errors.join(" ")
    );
}

/// Figure 5: one sample a step, 32 a step, and all of them.
fn minibatch(whole: bool) -> Result<()> {
    let (d, rank, count) = (50, 10, if whole { 80_000 } else { 4_000 });
    println!(
        "\nminibatch: rank {rank} in {d} dimensions, {count} samples, {} to test; test RMSE",
        count / 4
    );
    let eigenvalues: Vec<f64> = (0..rank).map(|i| 2.0 - i as f64 / rank as f64).collect();
    let truth = planted(d, &eigenvalues, 600);
    let (train, test) = (
        Toy::new(&truth, count, 601),
        Toy::new(&truth, count / 4, 602),
    );
    println!(
        "the planted W has {:.3}, the start {:.3}",
        test.error(&truth),
        {
            let (start, _) = principal(&train.points, rank, 2)?;
            test.error(&start)
        }
    );
    let (start, _) = principal(&train.points, rank, 2)?;
    let psd =
        || -> Result<Psd<f64>> { Ok(Psd::new(Tall::from_fn(d, rank, |i, j| start[(i, j)])?)) };
    for batch in [1, 32] {
        let toys = (&train, &test);
        run(
            &format!("flat, p={batch}"),
            online::Flat::new(psd()?),
            toys,
            batch,
            3,
        );
        let form = PolarForm::from_psd(psd()?).expect("full rank");
        run(
            &format!("polar, p={batch}"),
            online::PolarPsd::new(form),
            toys,
            batch,
            3,
        );
    }
    let clock = Instant::now();
    let (g, iterations) = descend(&train, Flat, &start, 1e-5)?;
    let seconds = clock.elapsed().as_secs_f64();
    println!(
        "{:<16} {seconds:>8.2} s   {iterations} iterations: {:.3}",
        "flat, batch",
        test.error(&g)
    );
    let clock = Instant::now();
    let (g, iterations) = descend(&train, polar(0.5), &start, 1e-5)?;
    let seconds = clock.elapsed().as_secs_f64();
    println!(
        "{:<16} {seconds:>8.2} s   {iterations} iterations: {:.3}",
        "polar, batch",
        test.error(&g)
    );
    Ok(())
}

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        None => {
            subspace(false)?;
            lambda(false)?;
            minibatch(false)
        }
        Some("subspace") => subspace(true),
        Some("lambda") => lambda(true),
        Some("minibatch") => minibatch(true),
        Some(other) => Err(rankfold::Error::input(format!(
            "expected `subspace`, `lambda` or `minibatch`, found `{other}`"
        ))),
    }
}
