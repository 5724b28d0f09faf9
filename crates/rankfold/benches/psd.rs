//! What a step of regression on positive semi-definite matrices costs, by the number
//! of features, beside the dense algorithms: a sparse step does not depend on it.
//!
//! `cargo bench --workspace --bench psd`

use faer::{Mat, Scale};
use rankfold::form::{Form, PolarPsd, Psd, Tall};
use rankfold::linalg::{Retraction, symmetric};
use rankfold::online::{AnyLearner, Learner, Outcome, RankOne, Rule, Shape, Step};
use rankfold::random::{Random, normal_at};
use rankfold::{Loss, SparseVec};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 9;
const STEPS: usize = 5_000;
const RANK: usize = 20;
const NON_ZEROS: usize = 100;

fn examples(n: usize, seed: u64) -> Vec<SparseVec<f32>> {
    let mut random = Random::new(seed, 0);
    let mut draw = |i: usize| {
        let mut entry = |j: usize| {
            let value = normal_at(seed, 0, i as u64, j as u64) / (NON_ZEROS as f64).sqrt();
            (random.below(n) as u32, value as f32)
        };
        SparseVec::from_entries((0..NON_ZEROS).map(&mut entry).collect())
    };
    (0..STEPS).map(&mut draw).collect()
}

fn entry(n: usize) -> impl Fn(usize, usize) -> f64 {
    move |i, j| normal_at(1, 0, i as u64, j as u64) / (n as f64).sqrt()
}

struct Runner {
    name: &'static str,
    learner: AnyLearner<f32>,
    examples: Vec<SparseVec<f32>>,
    seconds: f64,
}

impl Runner {
    fn new(name: &'static str, rule: Rule, retraction: Retraction, n: usize) -> Self {
        let form = Psd::new(Tall::from_fn(n, RANK, entry(n)).expect("full rank"));
        let form = match rule.shape() {
            Shape::PolarPsd => Form::PolarPsd(PolarPsd::from_psd(form).expect("full rank")),
            _ => Form::Psd(form),
        };
        let learner = AnyLearner::new(rule, form, 0).expect("its form");
        Runner {
            name,
            learner: learner.retracted(retraction),
            examples: examples(n, 7),
            seconds: f64::INFINITY,
        }
    }

    /// The least of all rounds: others had company.
    fn round(&mut self) {
        let loss = Loss::Custom(|_, _| (1.0, -1.0));
        let start = Instant::now();
        for x in &self.examples {
            let example = RankOne {
                left: x.as_row(),
                right: x.as_row(),
            };
            let learned = black_box(self.learner.learn(example, 2.0, loss, Step::new(1e-6)));
            assert_eq!(learned.outcome, Outcome::Moved, "{}", self.name);
        }
        let seconds = start.elapsed().as_secs_f64() / STEPS as f64;
        self.seconds = self.seconds.min(seconds);
    }
}

/// Seconds of one step of the dense polar algorithm, all of whose rows move.
fn dense(n: usize) -> f64 {
    let mut u = Mat::from_fn(n, RANK, |i, j| entry(n)(i, j));
    u = Retraction::Uf.apply(&u).expect("full rank");
    let x = Mat::from_fn(n, 1, |i, _| {
        normal_at(3, 0, i as u64, 0) / (n as f64).sqrt()
    });
    let mut r = Mat::<f64>::identity(RANK, RANK);
    let (mut least, e) = (f64::INFINITY, 1e-6);
    for _ in 0..3 {
        let start = Instant::now();
        let turned = u.transpose() * &x;
        let rooted = r.transpose() * &turned;
        let direction = &r * &rooted;
        let outside = &x - &u * &turned;
        let moved = &u - Scale(e) * (outside * direction.transpose());
        let map = Retraction::Uf.map(&(moved.transpose() * &moved));
        u = moved * map.expect("full rank");
        let inner = Scale(-0.25 * e) * (&rooted * rooted.transpose());
        r = &r * symmetric::exp(&inner).expect("finite");
        least = least.min(start.elapsed().as_secs_f64());
    }
    black_box((u, r));
    least
}

fn main() {
    println!(
        "f32, rank {RANK}, {NON_ZEROS} non-zeros, x ⊗ x; the least of {ROUNDS} rounds of {STEPS} steps"
    );
    println!(
        "{:>9}  {:<14} {:>8} {:>9} {:>20}",
        "features", "learner", "µs/step", "of first", "dense polar / this"
    );
    let mut first: Vec<f64> = Vec::new();
    for n in [1_000, 10_000, 100_000, 1_000_000] {
        let mut runners = [
            Runner::new("flat", Rule::Flat, Retraction::Uf, n),
            Runner::new("polar-psd", Rule::PolarPsd, Retraction::Uf, n),
            Runner::new("polar-psd, qf", Rule::PolarPsd, Retraction::Qf, n),
        ];
        for _ in 0..ROUNDS {
            runners.iter_mut().for_each(Runner::round);
        }
        if first.is_empty() {
            first = runners.iter().map(|runner| runner.seconds).collect();
        }
        let plain = dense(n);
        for (runner, first) in runners.iter().zip(&first) {
            println!(
                "{n:>9}  {:<14} {:>8.2} {:>9.2} {:>20.0}",
                runner.name,
                1e6 * runner.seconds,
                runner.seconds / first,
                plain / runner.seconds
            );
        }
    }
}
