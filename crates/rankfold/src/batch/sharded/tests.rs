//! Shards against solvers that have all entries at hand.

use super::*;
use crate::batch::{Als, Bayes, Fitted, Limits, Observed, Part};
use crate::manifold::tests::matrix;
use crate::random::{normal_at, splitmix64};

const SHAPE: (usize, usize, usize) = (130, 40, 2);

fn planted(noise: f64) -> Vec<(u32, u32, f64)> {
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
fn cut(entries: &[(u32, u32, f64)], shards: u32) -> Vec<Observed> {
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

fn fit(
    method: Method,
    parts: &[Observed],
    rank: usize,
    sweeps: usize,
    threads: usize,
) -> (State, Fitted) {
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
    }
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

#[test]
fn bayes_by_shards_is_as_good_as_bayes() {
    let entries = planted(0.1);
    let (whole, _) = Observed::new((SHAPE.0, SHAPE.1), entries.clone()).unwrap();
    let bayes = Bayes {
        entries: whole.part(Part::All),
        rank: 6,
        prune: true,
        biases: true,
        implicit: false,
        seed: 1,
        threads: 1,
    };
    let mut noise = 0.0;
    let solved = bayes.solve(60, 0.0, &mut |sweep| {
        noise = sweep.cost;
        true
    });
    for shards in [1, 4] {
        let method = Method::Bayes { prune: true };
        let (state, fitted) = fit(method, &cut(&entries, shards), 6, 60, 2);
        let found = state.noise().unwrap();
        assert!((found / noise - 1.0).abs() < 0.02, "{found} {noise}");
        assert_eq!(state.rank, solved.point.rank());
        let [a, b] =
            [&fitted, &solved.point.model()].map(|model| model.rmse(whole.part(Part::All), 1));
        assert!((a / b - 1.0).abs() < 0.02, "{a} {b}");
    }
}

#[test]
fn threads_change_no_bit_and_damaged_bytes_are_refused() {
    let parts = cut(&planted(0.2), 4);
    for method in [ALS, Method::Bayes { prune: true }] {
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
    }
    let shard = shard(&parts[0], 1);
    let (state, _) = fit(ALS, &cut(&planted(0.2), 1), 2, 1, 1);
    assert!(shard.answer(&state, &[1.0]).is_err());
    let starts = [0, 2, 1];
    assert!(Lines::lent(&starts, &[0], &[1.0], 3).is_err());
    assert!(Lines::lent(&[0, 1], &[5], &[1.0], 3).is_err());
    assert!(Lines::lent(&[0, 1], &[2], &[f64::NAN], 3).is_err());
}
