//! What a step of each learner costs, beside one of LORETA-PSD measured in the
//! same rounds, and what mini-batches and hard negatives add.
//!
//! `cargo bench --workspace --bench learners`

use rankfold::form::{Diagonal, Factored, Form, Full, Gaussian, Polar, PolarPsd, Psd, Tall};
use rankfold::online::{AnyLearner, Learner, Outcome, RankOne, Rule, Shape, Step};
use rankfold::random::{Random, normal_at};
use rankfold::{Loss, SparseVec};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 15;
const EXAMPLES: usize = 1_000;
const NNZ: usize = 50;

fn examples(n: usize, seed: u64) -> Vec<SparseVec<f32>> {
    let mut random = Random::new(seed, 0);
    let scale = 1.0 / (NNZ as f64).sqrt();
    let mut draw = |i: usize| {
        let entry = |j: usize, random: &mut Random| {
            let value = scale * normal_at(seed, 0, i as u64, j as u64);
            (random.below(n) as u32, value as f32)
        };
        SparseVec::from_entries((0..NNZ).map(|j| entry(j, &mut random)).collect())
    };
    (0..EXAMPLES).map(&mut draw).collect()
}

struct Runner {
    name: String,
    learner: AnyLearner<f32>,
    batch: usize,
    /// Candidates scored for each example.
    candidates: usize,
    left: Vec<SparseVec<f32>>,
    right: Vec<SparseVec<f32>>,
    seconds: Vec<f64>,
}

impl Runner {
    fn new(rule: Rule, n: usize, k: usize) -> Self {
        let tall = |side: u64| {
            let entry = |i: usize, j: usize| normal_at(1, side, i as u64, j as u64);
            Tall::from_fn(n, k, entry).expect("full rank")
        };
        let form = match rule.shape() {
            Shape::Psd => Form::Psd(Psd::new(tall(0))),
            Shape::Factored => Form::Factored(Factored::new(tall(0), tall(1))),
            Shape::Polar => {
                let form = Factored::new(tall(0), tall(1));
                Form::Polar(Polar::from_factored(form).expect("full rank"))
            }
            Shape::PolarPsd => {
                let form = PolarPsd::from_psd(Psd::new(tall(0)));
                Form::PolarPsd(form.expect("full rank"))
            }
            Shape::Full => Form::Full(Full::diagonal(n, n, 1.0).expect("it fits")),
            Shape::Diagonal => Form::Diagonal(Diagonal::new(n, n, 0.0)),
            Shape::Gaussian => Form::Gaussian(Gaussian::new(n, n, 0.0).expect("it fits")),
        };
        Runner {
            name: rule.name().into(),
            learner: AnyLearner::new(rule, form, 0).expect("its form"),
            batch: 1,
            candidates: 0,
            left: examples(n, 7),
            right: examples(n, 8),
            seconds: Vec::new(),
        }
    }

    fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self.name += &format!(", batches of {batch}");
        self
    }

    fn candidates(mut self, candidates: usize) -> Self {
        self.candidates = candidates;
        self.name += &format!(", {candidates} candidates");
        self
    }

    /// Learns all examples once. Each moves W, and not far: a loss of slope −1
    /// everywhere, or for LEGO a distance near what it is.
    fn round(&mut self) {
        let step = Step::new(1e-4);
        let (loss, target) = (Loss::Custom(|_, _| (1.0, -1.0)), 2.0);
        let start = Instant::now();
        let pairs = self.left.iter().zip(&self.right);
        let examples: Vec<_> = pairs
            .map(|(left, right)| RankOne {
                left: left.as_row(),
                right: right.as_row(),
            })
            .collect();
        for (i, chunk) in examples.chunks(self.batch).enumerate() {
            for j in 0..self.candidates {
                let right = self.right[(i + 7 * j) % EXAMPLES].as_row();
                let left = chunk[0].left;
                black_box(self.learner.score(RankOne { left, right }));
            }
            if self.batch == 1 {
                let learned = black_box(self.learner.learn(chunk[0], target, loss, step));
                assert_eq!(learned.outcome, Outcome::Moved, "{}", self.name);
            } else {
                let chunk: Vec<_> = chunk.iter().map(|&example| (example, target)).collect();
                black_box(self.learner.learn_batch(&chunk, loss, step));
            }
        }
        self.seconds
            .push(start.elapsed().as_secs_f64() / EXAMPLES as f64);
    }

    fn median(&self) -> f64 {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    }
}

fn main() {
    let (n, k, full) = (50_000, 30, 1_000);
    let mut runners = vec![
        Runner::new(Rule::LoretaPsd, n, k),
        Runner::new(Rule::Loreta, n, k),
        Runner::new(Rule::ManifoldIdentification, n, k),
        Runner::new(Rule::PassiveAggressive, n, k),
        Runner::new(Rule::Gradient, n, k),
        Runner::new(Rule::GradientPsd, n, k),
        Runner::new(Rule::LoretaPsd, n, k).batch(10),
        Runner::new(Rule::Loreta, n, k).batch(10),
        Runner::new(Rule::LoretaPsd, n, k).candidates(20),
        Runner::new(Rule::Oasis, full, k),
        Runner::new(Rule::Lego, full, k),
    ];
    for _ in 0..ROUNDS {
        runners.iter_mut().for_each(Runner::round);
    }
    println!(
        "f32, {NNZ} non-zeros a side, rank {k} and {n} features; full matrices {full} features"
    );
    println!(
        "{:<32} {:>10} {:>14}",
        "learner", "µs/example", "of loreta-psd"
    );
    let base = runners[0].median();
    for runner in &runners {
        let median = runner.median();
        let name = &runner.name;
        println!("{name:<32} {:>10.2} {:>14.2}", 1e6 * median, median / base);
    }
}
