//! What a step of regression costs in the balanced and the polar geometry, beside
//! LORETA on the same examples and the dense algorithms, all measured in the same
//! rounds.
//!
//! `cargo bench --workspace --bench regression`

use faer::{Mat, Scale};
use rankfold::form::{Factored, Form, Polar, Tall};
use rankfold::linalg::{Retraction, symmetric};
use rankfold::online::{AnyLearner, Learner, Outcome, RankOne, Rule, Shape, Step};
use rankfold::random::{Random, normal_at};
use rankfold::{Loss, SparseVec};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 9;

fn examples(n: usize, nnz: usize, count: usize, seed: u64) -> Vec<SparseVec<f32>> {
    let mut random = Random::new(seed, 0);
    let mut draw = |i: usize| {
        let mut entry = |j: usize| {
            let value = match nnz {
                1 => 1.0,
                _ => normal_at(seed, 0, i as u64, j as u64) / (nnz as f64).sqrt(),
            };
            (random.below(n) as u32, value as f32)
        };
        SparseVec::from_entries((0..nnz).map(&mut entry).collect())
    };
    (0..count).map(&mut draw).collect()
}

fn factor(n: usize, k: usize, side: u64) -> impl Fn(usize, usize) -> f64 {
    let scale = (n as f64).powf(-0.25);
    move |i, j| scale * normal_at(1, side, i as u64, j as u64) / (k as f64).powf(0.25)
}

struct Runner {
    name: String,
    learner: AnyLearner<f32>,
    left: Vec<SparseVec<f32>>,
    right: Vec<SparseVec<f32>>,
    seconds: Vec<f64>,
}

impl Runner {
    fn new(name: &str, rule: Rule, (n, k, nnz): (usize, usize, usize)) -> Self {
        let tall = |side: u64| Tall::from_fn(n, k, factor(n, k, side)).expect("full rank");
        let form = Factored::new(tall(0), tall(1));
        let form = match rule.shape() {
            Shape::Polar => Form::Polar(Polar::from_factored(form).expect("full rank")),
            _ => Form::Factored(form),
        };
        let count = 20_000;
        Runner {
            name: name.into(),
            learner: AnyLearner::new(rule, form, 0).expect("its form"),
            left: examples(n, nnz, count, 7),
            right: examples(n, nnz, count, 8),
            seconds: Vec::new(),
        }
    }

    fn with(mut self, change: impl FnOnce(AnyLearner<f32>) -> AnyLearner<f32>) -> Self {
        self.learner = change(self.learner);
        self
    }

    fn round(&mut self) {
        let step = Step::new(1e-4);
        let loss = Loss::Custom(|_, _| (1.0, -1.0));
        let start = Instant::now();
        for (left, right) in self.left.iter().zip(&self.right) {
            let example = RankOne {
                left: left.as_row(),
                right: right.as_row(),
            };
            let learned = black_box(self.learner.learn(example, 2.0, loss, step));
            assert_eq!(learned.outcome, Outcome::Moved, "{}", self.name);
        }
        let count = self.left.len() as f64;
        self.seconds.push(start.elapsed().as_secs_f64() / count);
    }
}

fn median(seconds: &[f64]) -> f64 {
    let mut seconds = seconds.to_vec();
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Seconds of one step of the dense algorithms, all of whose rows move.
fn dense(rule: Rule, n: usize, k: usize) -> f64 {
    let matrix = |side: u64| Mat::from_fn(n, k, |i, j| factor(n, k, side)(i, j));
    let (mut g, mut h) = (matrix(0), matrix(1));
    if rule == Rule::Polar {
        g = Retraction::Uf.apply(&g).expect("full rank");
        h = Retraction::Uf.apply(&h).expect("full rank");
    }
    let vector = |side: u64| {
        let scale = (n as f64).powf(-0.5);
        Mat::from_fn(n, 1, |i, _| scale * normal_at(3, side, i as u64, 0))
    };
    let (z, x) = (vector(0), vector(1));
    let mut b = Mat::<f64>::identity(k, k);
    let e = 1e-4;
    let mut seconds = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        let (zb, xb) = (g.transpose() * &z, h.transpose() * &x);
        if rule == Rule::Polar {
            let (s, r) = (&b * &xb, &b * &zb);
            let turn = |u: &Mat<f64>, z: &Mat<f64>, zb: &Mat<f64>, s: &Mat<f64>| {
                let inner = symmetric::part(&(zb * s.transpose()));
                let moved = u - Scale(e) * (z * s.transpose() - u * inner);
                let map = Retraction::Uf.map(&(moved.transpose() * &moved));
                moved * map.expect("full rank")
            };
            (g, h) = (turn(&g, &z, &zb, &s), turn(&h, &x, &xb, &r));
            let half = symmetric::power(&b, 0.5).expect("definite");
            let (s, r) = (&half * &xb, &half * &zb);
            let inner = symmetric::part(&(&s * r.transpose()));
            b = &half * symmetric::exp(&(Scale(-e) * inner)).expect("finite") * &half;
        } else {
            let (s, r) = (g.transpose() * &g, h.transpose() * &h);
            g -= Scale(e) * (&z * (s * &xb).transpose());
            h -= Scale(e) * (&x * (r * &zb).transpose());
        }
        seconds.push(start.elapsed().as_secs_f64());
    }
    black_box((g, h, b));
    median(&seconds)
}

fn main() {
    println!("f32, both sides alike; medians over {ROUNDS} rounds of 20000 steps");
    println!(
        "{:>8} {:>5} {:>9}  {:<22} {:>8} {:>10} {:>12}",
        "features", "rank", "non-zeros", "learner", "µs/step", "of loreta", "dense / this"
    );
    for n in [10_000, 1_000_000] {
        for k in [10, 20] {
            let plain = [Rule::Balanced, Rule::Polar].map(|rule| dense(rule, n, k));
            for nnz in [1, 30] {
                let shape = (n, k, nnz);
                let mut runners = vec![
                    Runner::new("loreta", Rule::Loreta, shape),
                    Runner::new("gradient", Rule::Gradient, shape),
                    Runner::new("balanced", Rule::Balanced, shape),
                    Runner::new("balanced, λ", Rule::Balanced, shape).with(|l| l.regularized(1e-3)),
                    Runner::new("polar", Rule::Polar, shape),
                    Runner::new("polar, λ", Rule::Polar, shape).with(|l| l.regularized(1e-3)),
                    Runner::new("polar, qf", Rule::Polar, shape)
                        .with(|l| l.retracted(Retraction::Qf)),
                ];
                for _ in 0..ROUNDS {
                    runners.iter_mut().for_each(Runner::round);
                }
                let base = median(&runners[0].seconds);
                for runner in &runners {
                    let time = median(&runner.seconds);
                    let dense = match &runner.name[..] {
                        name if name.starts_with("balanced") => plain[0] / time,
                        name if name.starts_with("polar") => plain[1] / time,
                        _ => f64::NAN,
                    };
                    let dense = match dense.is_nan() {
                        true => String::new(),
                        false => format!("{dense:.0}"),
                    };
                    println!(
                        "{n:>8} {k:>5} {nnz:>9}  {:<22} {:>8.2} {:>10.2} {dense:>12}",
                        runner.name,
                        1e6 * time,
                        time / base
                    );
                }
            }
        }
    }
}
