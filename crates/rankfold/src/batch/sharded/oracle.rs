//! Variational Bayes with patterns as a plain program: one process, dense matrices, no sums that
//! are put together, and z for each row.

use super::tests::{SHAPE, cut, planted, sweeps};
use super::*;
use crate::batch::bayes::{NOISE_FROM, PATTERN_FROM, PATTERN_RIDGE};
use crate::batch::moments::NOISE_SHAPE;
use crate::linalg::symmetric;
use crate::random::normal_at;
use faer::Mat;

const K: usize = 3;
const D: usize = K + 1;

struct Side {
    mean: Mat<f64>,
    covariance: Vec<Mat<f64>>,
    weight: Vec<f64>,
    expected: Mat<f64>,
    precision: Mat<f64>,
    /// The pattern: rows of length one, or zero.
    pattern: Mat<f64>,
    /// What is learned of it.
    learned: Mat<f64>,
    powers: Mat<f64>,
    ridge: f64,
}

impl Side {
    fn new(known: &Mat<f64>, ridge: f64) -> Self {
        let (n, m) = (known.nrows(), known.ncols());
        let count = |i: usize| known.row(i).iter().sum::<f64>();
        let logs: Vec<f64> = (0..n).map(|i| count(i).max(1.0).ln()).collect();
        let mean = logs.iter().sum::<f64>() / n as f64;
        let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / n as f64;
        let z = |i: usize| (logs[i] - mean) / variance.sqrt();
        Side {
            mean: Mat::zeros(n, D),
            covariance: vec![faer::Scale(1e-3) * Mat::<f64>::identity(D, D); n],
            weight: vec![1.0; n],
            expected: Mat::zeros(n, D),
            precision: Mat::from_fn(D, D, |a, b| match (a == b, a == K) {
                (false, _) => 0.0,
                (true, false) => 10.0,
                (true, true) => 5.0,
            }),
            pattern: Mat::from_fn(n, m, |i, j| known[(i, j)] / count(i).max(1.0).sqrt()),
            learned: Mat::zeros(m, D),
            powers: Mat::from_fn(n, 3, |i, p| [1.0, z(i), z(i) * z(i) - 1.0][p]),
            ridge,
        }
    }

    /// E[x xᵀ] for the x of a row that multiplies factors and bias of the other side, its mean,
    /// and E[bias x].
    fn multiplies(&self, j: usize) -> (Mat<f64>, Mat<f64>, Mat<f64>) {
        let m = |a: usize| self.mean[(j, a)];
        let second = |a: usize, b: usize| self.covariance[j][(a, b)] + m(a) * m(b);
        let square = Mat::from_fn(D, D, |a, b| match (a == K, b == K) {
            (false, false) => second(a, b),
            (true, true) => 1.0,
            _ => m(a.min(b)),
        });
        let mean = Mat::from_fn(D, 1, |a, _| if a == K { 1.0 } else { m(a) });
        let bias = Mat::from_fn(D, 1, |a, _| if a == K { m(K) } else { second(a, K) });
        (square, mean, bias)
    }

    /// Sets all rows; the squared error, weighted.
    fn update(
        &mut self,
        other: &Side,
        value: impl Fn(usize, usize) -> Option<f64>,
        tau: f64,
        vary: bool,
    ) -> f64 {
        let mut total = 0.0;
        for i in 0..self.mean.nrows() {
            let mut a = self.precision.clone();
            let mut b = &self.precision * self.expected.row(i).transpose().to_owned().as_mat();
            let places = (0..other.mean.nrows()).filter_map(|j| Some((j, value(i, j)?)));
            let places: Vec<_> = places.collect();
            for &(j, v) in &places {
                let (square, mean, bias) = other.multiplies(j);
                let own = tau * self.weight[i] * other.weight[j];
                a += faer::Scale(own) * square;
                b += faer::Scale(own) * (faer::Scale(v) * mean - bias);
            }
            let covariance = symmetric::map(&a, |v| 1.0 / v).unwrap();
            let mean = &covariance * b;
            let second = &covariance + &mean * mean.transpose();
            let mut error = 0.0;
            for &(j, v) in &places {
                // E (v − xᵀl − c)² with the bias c of the other side.
                let (square, x, bias) = other.multiplies(j);
                let c = other.mean[(j, K)];
                let c_square = other.covariance[j][(K, K)] + c * c;
                let products: f64 = (0..D * D)
                    .map(|t| second[(t / D, t % D)] * square[(t / D, t % D)])
                    .sum();
                let dot = |x: &Mat<f64>| (mean.transpose() * x)[(0, 0)];
                let gap = v * v - 2.0 * v * (dot(&x) + c) + products + c_square + 2.0 * dot(&bias);
                error += other.weight[j] * gap;
            }
            if vary {
                let count = places.len() as f64;
                self.weight[i] = (NOISE_SHAPE + 0.5 * count) / (NOISE_SHAPE + 0.5 * tau * error);
            }
            (0..D).for_each(|a| self.mean[(i, a)] = mean[(a, 0)]);
            self.covariance[i] = covariance;
            total += self.weight[i] * error;
        }
        total
    }

    /// F C for rows less their patterns.
    fn common(&self) -> Mat<f64> {
        let left = &self.mean - &self.pattern * &self.learned;
        let mut gram = self.powers.transpose() * &self.powers;
        (1..3).for_each(|p| gram[(p, p)] += 20.0);
        let inverse = symmetric::map(&gram, |v| 1.0 / v).unwrap();
        &self.powers * (inverse * (self.powers.transpose() * left))
    }

    fn learn(&mut self, with_pattern: bool) {
        if with_pattern {
            let equations = self.pattern.transpose() * &self.pattern
                + faer::Scale(self.ridge)
                    * Mat::<f64>::identity(self.learned.nrows(), self.learned.nrows());
            let right = self.pattern.transpose() * (&self.mean - self.common());
            for a in 0..D {
                let mut x = self.learned.subcols(a, 1).to_owned();
                let mut r = right.subcols(a, 1) - &equations * &x;
                let mut p = r.clone();
                for _ in 0..3 {
                    let turned = &equations * &p;
                    let step = r.squared_norm_l2() / (p.transpose() * &turned)[(0, 0)];
                    let before = r.squared_norm_l2();
                    x += faer::Scale(step) * &p;
                    r -= faer::Scale(step) * turned;
                    p = &r + faer::Scale(r.squared_norm_l2() / before) * &p;
                }
                self.learned.subcols_mut(a, 1).copy_from(&x);
            }
        }
        self.expected = self.common() + &self.pattern * &self.learned;
        let gap = &self.mean - &self.expected;
        let mut spread = gap.transpose() * &gap;
        self.covariance.iter().for_each(|c| spread += c);
        let spread = faer::Scale(1.0 / self.mean.nrows() as f64) * spread;
        self.precision = symmetric::map(&spread, |v| 1.0 / v).unwrap();
    }
}

#[test]
fn patterns_by_shards_are_those_of_a_plain_program() {
    let (n, m, _) = SHAPE;
    let entries = planted(0.3);
    let center = entries.iter().map(|e| e.2).sum::<f64>() / entries.len() as f64;
    let square = entries.iter().map(|e| (e.2 - center).powi(2)).sum::<f64>();
    let spread = (square / entries.len() as f64).sqrt();
    let mut known = Mat::<f64>::zeros(n, m);
    let mut values = Mat::<f64>::zeros(n, m);
    for &(i, j, v) in &entries {
        known[(i as usize, j as usize)] = 1.0;
        values[(i as usize, j as usize)] = (v - center) / spread;
    }
    let value = |i: usize, j: usize| (known[(i, j)] > 0.0).then(|| values[(i, j)]);
    let mut rows = Side::new(&known, PATTERN_RIDGE[0]);
    let mut columns = Side::new(&known.transpose().to_owned(), PATTERN_RIDGE[1]);
    let start = |j: usize, a: usize| 0.2 * normal_at(1, 1, j as u64, a as u64);
    columns.mean = Mat::from_fn(m, D, |j, a| if a < K { start(j, a) } else { 0.0 });
    let mut tau = 1.0;
    let method = Method::Bayes {
        prune: false,
        implicit: true,
    };
    let parts = cut(&entries, 3);
    for sweep in 1..9 {
        let (pattern, vary) = (sweep >= PATTERN_FROM, sweep >= NOISE_FROM);
        rows.update(&columns, value, tau, vary);
        rows.learn(pattern);
        let error = columns.update(&rows, |j, i| value(i, j), tau, vary);
        columns.learn(pattern);
        tau = entries.len() as f64 / error;
        let (state, _) = sweeps(method, &parts, K, sweep, 1);
        let noise = spread / tau.sqrt();
        let found = state.noise().unwrap();
        // Moments are in single precision, and errors of one sweep go into the next.
        assert!(
            (found / noise - 1.0).abs() < 1e-5,
            "{sweep}: {found} {noise}"
        );
        let told = state.told.as_ref().unwrap();
        let mut most: f64 = 0.0;
        for j in 0..m {
            let mut expected = vec![0.0; state.expected_width()];
            expected.copy_from_slice(told[1].product.row(j));
            state.add_common(1, state.counts[j] as usize, &mut expected);
            let y = told[0].weights.row(j);
            for a in 0..D {
                most = most.max((expected[a] - columns.expected[(j, a)]).abs());
                most = most.max((y[a] - rows.learned[(j, a)]).abs());
            }
        }
        for (prior, side) in state.priors.iter().zip([&rows, &columns]) {
            let gap = prior.matrix(D) - &side.precision;
            most = most.max(gap.norm_max() / side.precision.norm_max());
        }
        assert!(most < 2e-4, "{sweep}: {most}");
        let zero = told
            .iter()
            .all(|t| t.product.data.iter().all(|v| *v == 0.0));
        assert_eq!(zero, !pattern);
    }
}
