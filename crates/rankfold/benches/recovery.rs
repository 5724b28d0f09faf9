//! Planted matrices, recovered from some of their entries by all solvers.
//!
//!     cargo bench --workspace --bench recovery [-- small | easy | hard | ill]
//!
//! Errors are those of entries that were not seen. Times are of one run each, side
//! by side in one program.

use std::time::Instant;

use faer::Mat;
use rankfold::Completion;
use rankfold::batch::{Observed, Part};
use rankfold::linalg::qf;
use rankfold::random::{Random, normal_at};
use rankfold::task::{
    Clip, CompletionEvent, CompletionInit as Start, CompletionLearner as Learner,
    CompletionSolver as Solver,
};

struct Planted {
    left: Mat<f64>,
    right: Mat<f64>,
    entries: Observed,
    test: Vec<(usize, usize)>,
}

impl Planted {
    /// A matrix with entries of size one, whose singular values fall exponentially
    /// by the condition number.
    fn new(n: usize, m: usize, rank: usize, condition: f64, known: usize, seed: u64) -> Self {
        let factor = |rows: usize, side: u64| {
            let entry = |i, j| normal_at(seed, side, i as u64, j as u64);
            qf(&Mat::from_fn(rows, rank, entry)).expect("full rank")
        };
        let (left, right) = (factor(n, 1), factor(m, 2));
        let value = |j: usize| condition.powf(-(j as f64) / (rank as f64 - 1.0).max(1.0));
        let size: f64 = (0..rank).map(|j| value(j).powi(2)).sum();
        let scale = ((n * m) as f64 / size).sqrt();
        let left = Mat::from_fn(n, rank, |i, j| left[(i, j)] * value(j) * scale);
        let entry =
            |i: usize, j: usize| -> f64 { (0..rank).map(|a| left[(i, a)] * right[(j, a)]).sum() };
        let mut random = Random::new(seed, 3);
        let mut place = || (random.below(n), random.below(m));
        let entries = (0..known).map(|_| place());
        let entries = entries.map(|(i, j)| (i as u32, j as u32, entry(i, j)));
        let (entries, _) = Observed::new((n, m), entries.collect()).expect("memory");
        let test = (0..20_000).map(|_| place()).collect();
        Planted {
            left,
            right,
            entries,
            test,
        }
    }

    fn truth(&self, i: usize, j: usize) -> f64 {
        let terms = (0..self.left.ncols()).map(|a| self.left[(i, a)] * self.right[(j, a)]);
        terms.sum()
    }

    /// Prints a line of the table.
    fn solve(&mut self, name: &str, options: Completion, traced: bool) -> f64 {
        let (mut milestones, mut iterations) = ([None; 2], 0);
        let mut entries = self.entries.clone();
        let view = self.entries.part(Part::All);
        let mut traced_time = 0.0;
        let start = Instant::now();
        let found = options.complete(&mut entries, None, &mut |event| {
            if let CompletionEvent::Iteration {
                number: n, model, ..
            } = event
            {
                iterations = n;
                if traced {
                    let clock = Instant::now();
                    let rmse = model().rmse(view, 2);
                    for (milestone, limit) in milestones.iter_mut().zip([1e-3, 1e-6]) {
                        if rmse < limit && milestone.is_none() {
                            *milestone = Some(n);
                        }
                    }
                    traced_time += clock.elapsed().as_secs_f64();
                }
            }
            true
        });
        let seconds = start.elapsed().as_secs_f64() - traced_time;
        let found = found.expect("a solution").expect("not interrupted");
        let square =
            |&(i, j): &(usize, usize)| (found.fitted.predict(i, j) - self.truth(i, j)).powi(2);
        let test = self.test.iter().map(square).sum::<f64>() / self.test.len() as f64;
        let train = found.fitted.rmse(view, 2);
        let shown = |m: Option<usize>| m.map_or("–".to_owned(), |m| m.to_string());
        let reached = match traced {
            true => format!("{} / {}", shown(milestones[0]), shown(milestones[1])),
            false => String::new(),
        };
        println!(
            "| {name} | {} | {reached} | {iterations} | {seconds:.2} | {train:.1e} | {:.1e} |",
            found.fitted.rank(),
            test.sqrt()
        );
        test.sqrt()
    }
}

fn head(title: &str) {
    println!("\n{title}\n");
    println!(
        "| method | rank | iterations to 1e-3 / 1e-6 | all | seconds | train RMSE | test RMSE |"
    );
    println!("|---|---|---|---|---|---|---|");
}

fn methods() -> Vec<(&'static str, Learner, Option<Solver>)> {
    vec![
        ("als", Learner::Als, None),
        ("balanced, cg", Learner::Balanced, None),
        (
            "balanced, trust region",
            Learner::Balanced,
            Some(Solver::TrustRegion),
        ),
        ("polar, cg", Learner::Polar, None),
        ("embedded, cg", Learner::Embedded, None),
        ("grassmann, trust region", Learner::Grassmann, None),
        ("grassmann, cg", Learner::Grassmann, Some(Solver::Cg)),
        ("factors, cg (MMMF)", Learner::Gradient, None),
        ("optspace, cg", Learner::OptSpace, None),
        ("svp", Learner::Svp, None),
    ]
}

fn options(learner: Learner, solver: Option<Solver>, rank: usize, start: Start) -> Completion {
    let mut options = Completion::new(learner)
        .rank(rank)
        .no_bias(true)
        .init(start)
        .clip(Clip::None)
        .tolerance(1e-12)
        .iterations(500)
        .threads(2);
    if learner.has_penalty() {
        options = options.regularization(0.0);
    }
    match solver {
        Some(solver) => options.solver(solver),
        None => options,
    }
}

fn easy(d: usize) {
    let mut planted = Planted::new(d, d, 2, 1.0, d * d / 10, 1);
    head(&format!(
        "Rank 2, {d}×{d}, a tenth of the entries, spectral start"
    ));
    for (name, learner, solver) in methods() {
        planted.solve(name, options(learner, solver, 2, Start::Spectral), true);
    }
}

fn hard(n: usize, m: usize, seeds: u64, condition: f64, sampling: usize) {
    let rank = 5;
    let known = sampling * (n * rank + m * rank - rank * rank);
    head(&format!(
        "Rank {rank}, {n}×{m}, oversampling {sampling}, condition number {condition}, rank continuation"
    ));
    for seed in 1..=seeds {
        let mut planted = Planted::new(n, m, rank, condition, known, seed);
        let large = n * m > 10_000_000;
        let some = |name: &&str| !large || !name.starts_with("polar") && !name.ends_with("n, cg");
        for (name, learner, solver) in methods().into_iter().take(7).filter(|m| some(&m.0)) {
            let name = format!("{name}, seed {seed}");
            planted.solve(
                &name,
                options(learner, solver, rank, Start::Continuation),
                false,
            );
        }
        if seed == 1 && !large {
            // Thousands of products with the Hessian, and no better than the others.
            let quick = |name: &&str| *name != "balanced, trust region";
            for (name, learner, solver) in methods().into_iter().take(7).filter(|m| quick(&m.0)) {
                let name = format!("{name}, spectral start");
                planted.solve(
                    &name,
                    options(learner, solver, rank, Start::Spectral),
                    false,
                );
            }
            let unknown = options(Learner::Grassmann, None, 1, Start::Continuation).ranks(1, 8);
            planted.solve("grassmann, rank not known", unknown, false);
        }
    }
}

fn main() {
    let part = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if wanted("small") {
        easy(500);
        hard(500, 5_000, 5, 500.0, 6);
    }
    if wanted("easy") {
        easy(5_000);
    }
    if wanted("hard") {
        hard(5_000, 50_000, 5, 500.0, 6);
    }
    if wanted("ill") {
        hard(1_000, 1_000, 5, 1e5, 3);
    }
}
