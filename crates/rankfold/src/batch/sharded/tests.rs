//! Shards against solvers that have all entries at hand.

use super::*;
use crate::batch::{Als, Bayes, Fitted, Limits, Observed, Part};
use crate::manifold::tests::matrix;
use crate::random::{normal_at, splitmix64};

pub(super) const SHAPE: (usize, usize, usize) = (130, 40, 2);

pub(super) fn planted(noise: f64) -> Vec<(u32, u32, f64)> {
    let (n, m, k) = SHAPE;
    let (left, right) = (matrix(n, k, 1), matrix(m, k, 2));
    let known = (0..n * m).filter(|&t| splitmix64(t as u64) % 10 < 5);
    let value = |i: usize, j: usize| {
        let product: f64 = (0..k).map(|a| left[(i, a)] * right[(j, a)]).sum();
        let biases = (i as f64).sin() + (j as f64).cos();
        3.0 + biases + product + noise * normal_at(3, 0, i as u64, j as u64)
    };
    let entry = |t: usize| (t / m, t % m);
    let entries = known
        .map(entry)
        .map(|(i, j)| (i as u32, j as u32, value(i, j)));
    entries.collect()
}

/// Rows i with i % shards = s, in order.
pub(super) fn cut(entries: &[(u32, u32, f64)], shards: u32) -> Vec<Observed> {
    let part = |s: u32| {
        let own = entries.iter().filter(|e| e.0 % shards == s);
        let own = own.map(|&(i, j, v)| (i / shards, j, v)).collect();
        let rows = SHAPE.0.div_ceil(shards as usize);
        Observed::new((rows, SHAPE.1), own).unwrap().0
    };
    (0..shards).map(part).collect()
}

fn tree(mut all: Vec<Vec<f64>>) -> Vec<f64> {
    while all.len() > 1 {
        let mut next = Vec::new();
        let mut each = all.into_iter();
        while let Some(mut first) = each.next() {
            if let Some(second) = each.next() {
                add(&mut first, &second).unwrap();
            }
            next.push(first);
        }
        all = next;
    }
    all.remove(0)
}

fn shard(observed: &Observed, threads: usize) -> Shard<'_> {
    Shard {
        entries: observed.part(Part::All),
        threads,
    }
}

/// A state after so many sweeps, and the weights of rows.
pub(super) fn sweeps(
    method: Method,
    parts: &[Observed],
    rank: usize,
    sweeps: usize,
    threads: usize,
) -> (State, Vec<Vec<f32>>) {
    let counts = tree(parts.iter().map(|p| shard(p, threads).counts()).collect());
    let center = counts[1] / counts[0];
    let squares = tree(
        parts
            .iter()
            .map(|p| vec![shard(p, threads).squares(center)])
            .collect(),
    );
    let mut state = State::new(method, (rank, true), &counts, squares[0], 1).unwrap();
    let mut weights: Vec<Vec<f32>> = vec![Vec::new(); parts.len()];
    for _ in 0..sweeps {
        // Shards see nothing but bytes.
        let sent = State::from_bytes(&state.to_bytes()).unwrap();
        let mut answers = Vec::new();
        for (part, weights) in parts.iter().zip(&mut weights) {
            let (answer, found) = shard(part, threads).answer(&sent, weights).unwrap();
            answers.push(answer);
            *weights = found;
        }
        state.step(&tree(answers), threads).unwrap();
        while let Some(question) = state.question() {
            let all = parts
                .iter()
                .map(|p| shard(p, threads).pattern(&question).unwrap());
            state.hear(&tree(all.collect())).unwrap();
        }
    }
    (state, weights)
}

fn fit(
    method: Method,
    parts: &[Observed],
    rank: usize,
    count: usize,
    threads: usize,
) -> (State, Fitted) {
    let (state, weights) = sweeps(method, parts, rank, count, threads);
    let (n, m, _) = SHAPE;
    let k = state.rank;
    let mut fitted = Fitted::empty((n, m), state.center, true);
    fitted.left = faer::Mat::zeros(n, k);
    let mut biases = vec![0.0; n];
    for (s, (part, weights)) in parts.iter().zip(&weights).enumerate() {
        let rows = shard(part, threads).rows(&state, weights).unwrap();
        for (i, row) in rows.factors.chunks_exact(k).enumerate() {
            let at = i * parts.len() + s;
            if at < n {
                (0..k).for_each(|a| fitted.left[(at, a)] = row[a]);
                biases[at] = rows.bias.as_ref().unwrap()[i];
            }
        }
    }
    let (right, bias) = state.factors();
    fitted.right = faer::Mat::from_fn(m, k, |j, a| right[j * k + a]);
    fitted.biases = Some([biases, bias.unwrap()]);
    (state, fitted)
}

const ALS: Method = Method::Als {
    lambda: 0.3,
    power: 0.5,
};

#[test]
fn shards_come_to_the_minimum_of_least_squares() {
    let entries = planted(0.1);
    let (whole, _) = Observed::new((SHAPE.0, SHAPE.1), entries.clone()).unwrap();
    let als = Als {
        entries: whole.part(Part::All),
        lambda: 0.3,
        power: 0.5,
        threads: 1,
    };
    let mut costs = Vec::new();
    for shards in [1, 2, 3, 8] {
        let (state, fitted) = fit(ALS, &cut(&entries, shards), 2, 60, 1);
        let rest = als.cost(&fitted);
        // The rows were solved for once more, so that the cost can only be lower.
        let last = *state.costs.last().unwrap();
        assert!(
            rest <= last * (1.0 + 1e-9) && rest > 0.99 * last,
            "{rest} {last}"
        );
        assert!(state.costs.windows(2).all(|w| w[1] <= w[0] * (1.0 + 1e-12)));
        costs.push(last);
    }
    let start = fit(ALS, &cut(&entries, 1), 2, 60, 1).1;
    let limits = Limits {
        iterations: 60,
        ..Limits::default()
    };
    let solved = als.solve(start, limits, &mut |_| true);
    let best = als.cost(&solved.point);
    for cost in costs {
        assert!((cost / best - 1.0).abs() < 1e-4, "{cost} {best}");
    }
}

/// Both start from the same columns, so the sweeps are the same but for the order of sums.
#[test]
fn bayes_by_shards_is_bayes() {
    let entries = planted(0.1);
    let (whole, _) = Observed::new((SHAPE.0, SHAPE.1), entries.clone()).unwrap();
    for implicit in [false, true] {
        let bayes = Bayes {
            entries: whole.part(Part::All),
            rank: 6,
            prune: true,
            biases: true,
            implicit,
            seed: 1,
            threads: 1,
        };
        let mut noise = Vec::new();
        let solved = bayes.solve(14, 0.0, &mut |sweep| {
            noise.push(sweep.cost);
            true
        });
        let model = solved.point.model();
        for shards in [1, 4] {
            let method = Method::Bayes {
                prune: true,
                implicit,
            };
            let (state, fitted) = fit(method, &cut(&entries, shards), 6, 14, 2);
            // A rank lower than the first shows that factors were dropped alike.
            assert_eq!(state.rank, solved.point.rank());
            assert!(state.rank < 6);
            for (found, noise) in state.costs.iter().zip(&noise) {
                assert!((found / noise - 1.0).abs() < 1e-4, "{found} {noise}");
            }
            let mut most: f64 = 0.0;
            for t in 0..SHAPE.0 * SHAPE.1 {
                let (i, j) = (t / SHAPE.1, t % SHAPE.1);
                most = most.max((fitted.predict(i, j) - model.predict(i, j)).abs());
            }
            // The rows of the shards were set once more, at the end.
            assert!(most < 0.05, "{implicit} {shards}: {most}");
        }
    }
}

#[test]
fn threads_change_no_bit_and_damaged_bytes_are_refused() {
    let parts = cut(&planted(0.2), 4);
    let bayes = [false, true].map(|implicit| Method::Bayes {
        prune: true,
        implicit,
    });
    for method in [ALS, bayes[0], bayes[1]] {
        let (one, _) = fit(method, &parts, 3, 9, 1);
        let (three, _) = fit(method, &parts, 3, 9, 3);
        let bytes = one.to_bytes();
        assert_eq!(bytes, three.to_bytes());
        assert_eq!(State::from_bytes(&bytes).unwrap().to_bytes(), bytes);
        for cut in [0, 7, 20, bytes.len() / 2, bytes.len() - 1] {
            assert!(State::from_bytes(&bytes[..cut]).is_err());
        }
        let mut wrong = one.clone();
        assert!(wrong.step(&[0.0], 1).is_err());
        assert!(wrong.question().is_none() && wrong.hear(&[0.0]).is_err());
    }
    let shard = shard(&parts[0], 1);
    let (state, _) = fit(ALS, &cut(&planted(0.2), 1), 2, 1, 1);
    assert!(shard.answer(&state, &[1.0]).is_err());
    for length in [0, SHAPE.1, 2 * SHAPE.1 + 1] {
        assert!(shard.pattern(&vec![0.0; length]).is_err());
    }
    let starts = [0, 2, 1];
    assert!(Lines::lent(&starts, &[0], &[1.0], 3).is_err());
    assert!(Lines::lent(&[0, 1], &[5], &[1.0], 3).is_err());
    assert!(Lines::lent(&[0, 1], &[2], &[f64::NAN], 3).is_err());
}
