//! Weights of tasks with a prior of their own: no subspace, but a variance for each feature.
//!
//! On the scale of a task y = xᵀw + β + noise of variance σ², with w_j from N(c_j, v_j) and
//! β from N(b, v_b). Features of no variance are the same in all tasks, those of much are
//! free in each: a pooled regression and one for each task are both limits. c, v and σ²
//! have the largest likelihood, by expectation and maximization [Laird1982]: with the
//! posterior mean m and covariance P of the weights of each task,
//!
//! c ← mean m,  v ← mean (m − c)² + diag P,  σ² ← Σ |y − Xm|² + tr(XᵀX P) over all rows.
//!
//! O(t m³) an iteration for t tasks of m features. The model is one of a subspace: U has √v
//! on its diagonal, and the ridge is σ².
//!
//! [Laird1982]: N. M. Laird, J. H. Ware, Random-effects models for longitudinal data,
//! Biometrics 38.

use super::fit::Learned;
use super::frame::Frame;
use crate::batch::Ended;
use crate::batch::normal::Normal;
use crate::model::TaskPrior;
use crate::parallel::map_blocks;
use faer::Mat;

/// Likelihoods hardly rise after that, and held-out errors not at all.
const ITERATIONS: usize = 100;

/// Variances below this share of the largest are none.
const LEAST: f64 = 1e-9;

/// Tasks times features cubed, at most.
const WORK: f64 = 1e8;

/// Tasks of a block.
const BLOCK: usize = 8;

/// Whether there are not too many features.
pub(super) fn is_possible(tasks: usize, features: usize) -> bool {
    tasks > 1 && tasks as f64 * (features as f64).powi(3) <= WORK
}

/// The rows of a task: their number, XᵀX by rows, Xᵀy and yᵀy. A last feature is 1.
struct Sums {
    count: f64,
    squares: Vec<f64>,
    products: Vec<f64>,
    targets: f64,
}

/// What the weights of a task are, by its rows and by the others.
struct Posterior {
    mean: Vec<f64>,
    variance: Vec<f64>,
    /// The squared errors that are expected.
    error: f64,
}

/// c, v and σ².
struct Weights {
    center: Vec<f64>,
    variance: Vec<f64>,
    noise: f64,
}

/// Learns from framed rows with biases; `None` where numbers do not allow it.
pub(super) fn learn(frame: &Frame, threads: usize) -> Option<Learned> {
    let (tasks, m) = (frame.tasks_count(), frame.features());
    let d = m + 1;
    let all: Vec<Sums> = map_blocks(tasks, BLOCK, threads, |range| {
        range.map(|t| sums(frame, t)).collect::<Vec<Sums>>()
    })
    .into_iter()
    .flatten()
    .collect();
    let rows: f64 = all.iter().map(|sums| sums.count).sum();
    let known = all.iter().filter(|sums| sums.count > 0.0).count() as f64;
    let noise = all.iter().map(|sums| sums.targets).sum::<f64>() / rows;
    let unit = frame.usual_square();
    let mut weights = Weights {
        center: vec![0.0; d],
        variance: (0..d)
            .map(|j| if j < m { noise / unit } else { noise })
            .collect(),
        noise,
    };
    for _ in 0..ITERATIONS {
        let found = map_blocks(tasks, BLOCK, threads, |range| {
            let some = range.filter(|t| all[*t].count > 0.0);
            some.map(|t| weights.posterior(&all[t]))
                .collect::<Option<Vec<Posterior>>>()
        });
        let found: Vec<Posterior> = found
            .into_iter()
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect();
        let mean = |j: usize| found.iter().map(|p| p.mean[j]).sum::<f64>() / known;
        weights.center = (0..d).map(mean).collect();
        let variance = |j: usize| {
            let off = |p: &Posterior| (p.mean[j] - weights.center[j]).powi(2) + p.variance[j];
            found.iter().map(off).sum::<f64>() / known
        };
        let variances: Vec<f64> = (0..d).map(variance).collect();
        let largest = variances.iter().copied().fold(0.0, f64::max);
        weights.variance = variances.iter().map(|v| v.max(LEAST * largest)).collect();
        weights.noise = found.iter().map(|p| p.error).sum::<f64>() / rows;
        let sound = |v: &f64| v.is_finite() && *v > 0.0;
        if !sound(&weights.noise) || !weights.variance.iter().all(sound) {
            return None;
        }
    }
    let root = |i: usize| weights.variance[i].sqrt();
    let u = Mat::from_fn(m, m, |i, j| if i == j { root(i) } else { 0.0 });
    let common = Mat::from_fn(m, 1, |i, _| weights.center[i]);
    Some(Learned {
        at: vec![u, common],
        prior: TaskPrior {
            ridge: weights.noise,
            bias_ridge: Some(weights.noise / weights.variance[m]),
            offset: weights.center[m],
            ..frame.prior
        },
        cost: 0.5 * weights.noise * rows,
        iterations: ITERATIONS,
        ended: Ended::Converged,
    })
}

fn sums(frame: &Frame, task: usize) -> Sums {
    let m = frame.features();
    let d = m + 1;
    let (x, y) = frame.rows_of(task);
    let mut out = Sums {
        count: y.len() as f64,
        squares: vec![0.0; d * d],
        products: vec![0.0; d],
        targets: 0.0,
    };
    let mut row = vec![1.0; d];
    for (x, y) in x.chunks_exact(m).zip(y) {
        row[..m].copy_from_slice(x);
        let y = frame.scaled(task, *y);
        for i in 0..d {
            for j in 0..d {
                out.squares[i * d + j] += row[i] * row[j];
            }
            out.products[i] += row[i] * y;
        }
        out.targets += y * y;
    }
    out
}

impl Weights {
    /// Of a task with these rows: P = (XᵀX / σ² + V⁻¹)⁻¹ and m = P (Xᵀy / σ² + V⁻¹ c).
    fn posterior(&self, sums: &Sums) -> Option<Posterior> {
        let d = self.center.len();
        let mut normal = Normal::new(d);
        for i in 0..d {
            for j in i..d {
                normal.a[i * d + j] = sums.squares[i * d + j] / self.noise;
            }
            normal.a[i * d + i] += 1.0 / self.variance[i];
            normal.b[i] = sums.products[i] / self.noise + self.center[i] / self.variance[i];
        }
        if !normal.factor(d) {
            return None;
        }
        let inverse = normal.inverse(d);
        normal.solve(d);
        let mean = normal.b;
        let mut error = sums.targets;
        for i in 0..d {
            let line = i * d..(i + 1) * d;
            let (squares, spread) = (&sums.squares[line.clone()], &inverse[line]);
            let product: f64 = squares.iter().zip(&mean).map(|(s, m)| s * m).sum();
            let chance: f64 = squares.iter().zip(spread).map(|(s, p)| s * p).sum();
            error += mean[i] * (product - 2.0 * sums.products[i]) + chance;
        }
        Some(Posterior {
            variance: (0..d).map(|i| inverse[i * d + i]).collect(),
            mean,
            error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Framing;
    use super::*;
    use crate::data::TaskRows;
    use crate::model::Standardize;
    use crate::random::normal_at;
    use crate::{Ids, Rows};

    /// Tasks that differ in the second of three features only, and in their bias.
    fn planted(tasks: usize, rows: usize) -> TaskRows {
        let n = tasks * rows;
        let x = |i: usize, j: usize| normal_at(1, j as u64, i as u64, 0);
        let own = |t: usize, k: u64| normal_at(2, k, t as u64, 0);
        let target = |i: usize| {
            let t = i / rows;
            let noise = 0.5 * normal_at(3, 0, i as u64, 0);
            2.0 * x(i, 0) + 3.0 * own(t, 0) * x(i, 1) + 4.0 * own(t, 1) + noise
        };
        let mut names = Ids::new();
        let mut features = Ids::new();
        (0..tasks).for_each(|t| _ = names.intern(&format!("t{t}")));
        (0..3).for_each(|j| _ = features.intern(&format!("f{j}")));
        TaskRows {
            names,
            features,
            task: (0..n).map(|i| (i / rows) as u32).collect(),
            rows: Rows::from_dense((0..n).map(|i| vec![x(i, 0), x(i, 1), x(i, 2)])).unwrap(),
            targets: (0..n).map(target).collect(),
            table: true,
        }
    }

    #[test]
    fn variances_and_noise_are_found() {
        let data = planted(60, 25);
        let members: Vec<u32> = (0..data.len() as u32).collect();
        let framing = Framing {
            standardize: Standardize::None,
            bias: true,
            common: Some(1.0),
            threads: 1,
        };
        let frame = Frame::new(&data, &members, framing).unwrap();
        let found = learn(&frame, 2).unwrap();
        let (u, c) = (&found.at[0], &found.at[1]);
        assert!(u[(0, 0)] < 0.1 && u[(2, 2)] < 0.1, "{u:?}");
        assert!((u[(1, 1)] - 3.0).abs() < 0.8, "{u:?}");
        assert!(
            (c[(0, 0)] - 2.0).abs() < 0.1 && c[(2, 0)].abs() < 0.1,
            "{c:?}"
        );
        assert!(
            (found.prior.ridge - 0.25).abs() < 0.03,
            "{}",
            found.prior.ridge
        );
        let bias = found.prior.ridge / found.prior.bias_ridge.unwrap();
        assert!((bias.sqrt() - 4.0).abs() < 1.0, "{bias}");
        assert_eq!(found.at, learn(&frame, 1).unwrap().at);
    }
}
