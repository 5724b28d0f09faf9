//! The laws of mini-batches, for every rule that takes one step a batch.

use crate::common::*;
use crate::oracle::*;
use rankfold::data::{Labelled, ValuedPair};
use rankfold::form::{Factored, Form, Full, Polar, PolarPsd, Psd};
use rankfold::linalg::{Retraction, qf};
use rankfold::online::{AnyLearner, Learner, Outcome, RankOne, Rule, Shape, Step};
use rankfold::{Loss, Pairs, Rows, SparseVec};

type Example = (Vec<f64>, Vec<f64>, f64);

/// A start of W = left rightᵀ; symmetric rules take left leftᵀ.
fn learner(rule: Rule, left: &M, right: &M) -> AnyLearner<f64> {
    let psd = || Psd::new(tall(left));
    let factored = || Factored::new(tall(left), tall(right));
    let form = match rule.shape() {
        Shape::Psd => Form::Psd(psd()),
        Shape::PolarPsd => Form::PolarPsd(PolarPsd::from_psd(psd()).unwrap()),
        Shape::Factored => Form::Factored(factored()),
        Shape::Polar => Form::Polar(Polar::from_factored(factored()).unwrap()),
        _ => {
            let w = left * left.transpose() + M::identity(left.nrows(), left.nrows());
            let rows = (0..w.nrows()).map(|i| (0..w.nrows()).map(|j| w[(i, j)]).collect());
            Form::Full(Full::from_rows(&rows.collect::<Vec<_>>()).unwrap())
        }
    };
    AnyLearner::new(rule, form, 0).unwrap()
}

/// Every rule with mini-batches, in every way that changes its steps.
fn variants(left: &M, right: &M) -> Vec<(String, AnyLearner<f64>)> {
    let mut out = Vec::new();
    for &rule in Rule::ALL.iter().filter(|rule| rule.has_batches()) {
        let plain = learner(rule, left, right);
        let name = rule.name();
        if rule.is_regularizable() {
            out.push((format!("{name} λ"), plain.clone().regularized(0.05)));
        }
        if matches!(rule, Rule::Polar | Rule::PolarPsd) {
            let other = plain.clone().retracted(Retraction::Qf);
            out.push((format!("{name} qf"), other));
        }
        if rule == Rule::PolarPsd {
            for weight in [0.0, 0.9, 1.0] {
                let other = plain.clone().subspace_weight(weight);
                out.push((format!("{name} {weight}"), other));
            }
        }
        out.push((name.to_owned(), plain));
    }
    out
}

fn sparse(v: &[f64]) -> SparseVec<f64> {
    SparseVec::from_dense(v)
}

fn one(learner: &mut AnyLearner<f64>, (left, right, y): &Example, step: Step) -> Outcome {
    let (left, right) = (sparse(left), sparse(right));
    let example = RankOne {
        left: left.as_row(),
        right: right.as_row(),
    };
    learner.learn(example, *y, Loss::Squared, step).outcome
}

fn many(learner: &mut AnyLearner<f64>, examples: &[Example], step: Step) -> Outcome {
    let rows: Vec<_> = examples
        .iter()
        .map(|(left, right, y)| (sparse(left), sparse(right), *y))
        .collect();
    let examples = rows.iter().map(|(left, right, y)| {
        let example = RankOne {
            left: left.as_row(),
            right: right.as_row(),
        };
        (example, *y)
    });
    let examples: Vec<_> = examples.collect();
    learner.learn_batch(&examples, Loss::Squared, step).outcome
}

fn w(learner: &mut AnyLearner<f64>, n: usize) -> M {
    let unit = |i: usize| SparseVec::from_entries(vec![(i as u32, 1.0)]);
    M::from_fn(n, n, |i, j| {
        let (left, right) = (unit(i), unit(j));
        learner.score(RankOne {
            left: left.as_row(),
            right: right.as_row(),
        })
    })
}

/// Their mean gradient is that of one, and so is their guard, active or not.
#[test]
fn equal_examples_move_as_one_does() {
    let (n, k) = (7, 3);
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let (left, right) = (random.matrix(n, k), random.matrix(n, k));
        let (p, q) = (random.sparse(n, 4), random.sparse(n, 4));
        for (name, fresh) in variants(&left, &right) {
            for (left, right) in [(&p, &p), (&p, &q)] {
                for size in [1e-4, 1e-2, 1.0, 100.0] {
                    for limit in [Step::LIMIT, 0.1, f64::INFINITY] {
                        // Steps that no local model can mean may be refused.
                        if limit.is_infinite() && size > 0.1 {
                            continue;
                        }
                        let step = Step { size, limit };
                        let example = (left.clone(), right.clone(), 3.0);
                        let mut single = fresh.clone();
                        let outcome = one(&mut single, &example, step);
                        let wanted = w(&mut single, n);
                        for count in [1, 2, 5, 32] {
                            let mut batch = fresh.clone();
                            let what = format!("{name}, {count} at {size:e} within {limit}");
                            let examples = vec![example.clone(); count];
                            assert_eq!(many(&mut batch, &examples, step), outcome, "{what}");
                            close(&what, &w(&mut batch, n), &wanted, 1e-9);
                        }
                    }
                }
            }
        }
    }
}

/// Examples that have nothing in common, on equal blocks of W: a batch of p with a step
/// p times as long moves as they do one after the other, however far that is.
#[test]
fn examples_with_orthogonal_gradients_move_by_themselves() {
    let (p, size) = (6, 3);
    let n = p * size;
    let mut random = Random::new(1);
    let block = |random: &mut Random| qf(&random.matrix(size, 1)).unwrap();
    let (g, h, x, z) = (
        block(&mut random),
        block(&mut random),
        random.sparse(size, size),
        random.sparse(size, size),
    );
    let spread = |g: &M| {
        M::from_fn(n, p, |i, j| match i / size == j {
            true => 1.5 * g[(i % size, 0)],
            false => 0.0,
        })
    };
    let placed = |x: &[f64], i: usize| {
        let mut out = vec![0.0; n];
        out[i * size..][..size].copy_from_slice(x);
        out
    };
    for (name, fresh) in variants(&spread(&g), &spread(&h)) {
        // The regularizer knows no examples.
        if name.ends_with('λ') {
            continue;
        }
        let symmetric = !name.starts_with("balanced") && name != "polar" && name != "polar qf";
        let right = if symmetric { &x } else { &z };
        let mut probe = fresh.clone();
        let score = {
            let (l, r) = (sparse(&placed(&x, 0)), sparse(&placed(right, 0)));
            probe.score(RankOne {
                left: l.as_row(),
                right: r.as_row(),
            })
        };
        let examples: Vec<Example> = (0..p)
            .map(|i| (placed(&x, i), placed(right, i), 1.01 * score))
            .collect();
        // Short steps, and steps that would overshoot by far.
        for size in [1e-3, 1.0, 100.0] {
            let (mut single, mut batch) = (fresh.clone(), fresh.clone());
            for example in &examples {
                one(&mut single, example, Step::new(size));
            }
            many(&mut batch, &examples, Step::new(p as f64 * size));
            let (got, wanted) = (w(&mut batch, n), w(&mut single, n));
            let what = format!("{name} at {size:e}");
            close(&what, &got, &wanted, 1e-10);
        }
    }
}

/// The mean of many examples moves by more than one of them may: a batch of 32 with a
/// long step learns with the guard as it does without.
#[test]
fn the_guard_lets_batches_learn() {
    let (n, k, count) = (20, 3, 32);
    let mut random = Random::new(7);
    let truth = random.matrix(n, k);
    let w_truth = &truth * truth.transpose();
    let examples: Vec<Example> = (0..60 * count)
        .map(|_| {
            let x = random.sparse(n, n);
            let y = (column(&x).transpose() * &w_truth * column(&x))[(0, 0)];
            (x.clone(), x, y)
        })
        .collect();
    let start = &truth + faer::Scale(0.3) * random.matrix(n, k);
    for rule in [Rule::Flat, Rule::PolarPsd] {
        let fresh = learner(rule, &start, &start);
        // 1 over the usual pace: for one example the step that reaches its target.
        let mut probe = fresh.clone();
        let mut pace = 0.0;
        for (x, _, _) in &examples[..count] {
            let x = sparse(x);
            let example = RankOne {
                left: x.as_row(),
                right: x.as_row(),
            };
            let slope = probe.score(example);
            let norm = probe.gradient_norm(example, 0.0, Loss::Squared) / slope;
            pace += norm * norm / count as f64;
        }
        let error = |limit: f64| {
            let mut learner = fresh.clone();
            for batch in examples.chunks(count) {
                let size = 8.0 / pace;
                many(&mut learner, batch, Step { size, limit });
            }
            norm(&(w(&mut learner, n) - &w_truth)) / norm(&w_truth)
        };
        let first = norm(&(w(&mut fresh.clone(), n) - &w_truth)) / norm(&w_truth);
        let (plain, guarded) = (error(f64::INFINITY), error(Step::LIMIT));
        let name = rule.name();
        assert!(plain < 0.25 * first, "{name}: {first} to {plain}");
        assert!(guarded < 1.2 * plain, "{name}: {guarded} against {plain}");
    }
}

/// W of a run of pairs, dense: pair t is of the rows t·`step` and t·`step` + 1.
fn learned_pairs(batch: usize, steps: u64, (count, step): (usize, u32)) -> Vec<f64> {
    let rows = Rows::from_dense([[1.0, 0.5, -1.0], [0.2, -1.0, 0.7], [0.4, 0.9, 1.0]]).unwrap();
    let rows = Labelled::new(rows);
    let pair = |t: u32| ValuedPair {
        left: t * step % 3,
        right: (t * step + 1) % 3,
        value: 3.0 - f64::from(t * step),
    };
    let pairs: Vec<ValuedPair> = (0..count as u32).map(pair).collect();
    let options = Pairs::default().rank(2).seed(5).step_size(0.01);
    let options = options.batch(batch).steps(steps);
    let model = options.fit(&rows, &pairs).unwrap();
    let unit = |i: usize| -> Vec<f64> { (0..3).map(|j| f64::from(u8::from(i == j))).collect() };
    let axes = Labelled::new(Rows::from_dense((0..3).map(unit)).unwrap());
    let entry = |at: usize| model.score(&axes, at / 3, at % 3).unwrap();
    (0..9).map(entry).collect()
}

#[test]
fn a_batch_of_one_pair_many_times_is_a_step_on_that_pair() {
    let (batch, single) = (learned_pairs(4, 4, (4, 0)), learned_pairs(1, 1, (4, 0)));
    for (a, b) in batch.iter().zip(&single) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} is not {b}");
    }
    let pairs = (3, 1);
    assert_ne!(learned_pairs(3, 3, pairs), learned_pairs(1, 3, pairs));
    // Steps are rounded up to whole batches.
    assert_ne!(learned_pairs(3, 3, pairs), learned_pairs(3, 6, pairs));
    assert_eq!(learned_pairs(3, 4, pairs), learned_pairs(3, 6, pairs));
}
