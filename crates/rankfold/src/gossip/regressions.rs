//! Some regression tasks, the share of one agent in multitask learning.
//!
//! ```text
//! f(U) = Σₜ min_w ½‖XₜUw − yₜ‖² + λ/2 ‖w‖²          gradient: Σₜ Xₜᵀ(XₜUwₜ − yₜ) wₜᵀ
//! ```

use super::message::{Reader, Writer};
use super::seat::Sent;
use super::work::{Local, Passed, Work};
use crate::batch::normal::Normal;
use crate::batch::pass::dot_row;
use crate::batch::rowwise::Rowwise;
use crate::batch::{TaskParts, Tasks};
use faer::Mat;

/// Tasks with a ridge on the weights of each.
#[derive(Debug, Clone)]
pub struct Regressions {
    tasks: Tasks,
    lambda: f64,
    /// The numbers of all rows.
    numbers: Vec<u32>,
}

impl Regressions {
    /// The tasks of an agent; λ is 0 or above.
    pub fn new(tasks: Tasks, lambda: f64) -> Self {
        let rows = tasks.starts().last().copied().unwrap_or(0);
        Regressions {
            tasks,
            lambda,
            numbers: (0..rows as u32).collect(),
        }
    }

    /// The tasks.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    fn pass(&self, u: &Mat<f64>, prior: Option<&Mat<f64>>) -> Passed {
        let k = u.ncols();
        let (x, y) = self.tasks.rows(0..self.len());
        let z = Rowwise::from_mat(&(x * u));
        let width = z.width;
        let mut weights = Rowwise::zero(self.len(), k);
        let mut factors = Vec::with_capacity(self.len() * k * (k + 1) / 2);
        let mut outer = Mat::<f64>::zeros(y.len(), k);
        let mut normal = Normal::new(width);
        let (mut squares, mut beside) = (0.0, 0.0);
        let ridge = |i: usize, j: usize| {
            let own = if i == j { self.lambda } else { 0.0 };
            own + prior.map_or(0.0, |prior| prior[(i, j)])
        };
        let lines = self.tasks.starts().windows(2);
        for (line, w) in lines.zip(weights.data.chunks_exact_mut(width)) {
            let rows = line[0]..line[1];
            let index = &self.numbers[rows.clone()];
            normal.gather((index, &y[rows.clone()]), &z.data, k, 0.0, None);
            for i in 0..k {
                for j in i..k {
                    normal.a[i * width + j] += ridge(i, j);
                }
            }
            let plain = self.lambda == 0.0 && prior.is_none();
            normal.solve_least(k, plain && rows.len() < k);
            w[..k].copy_from_slice(&normal.b[..k]);
            for i in 0..k {
                factors.extend_from_slice(&normal.a[i * width..][i..k]);
            }
            if !plain || rows.len() >= k {
                // Once more on what is left: normal equations lose half of the digits.
                for i in 0..k {
                    normal.b[i] = -(0..k).map(|j| ridge(i, j) * w[j]).sum::<f64>();
                }
                for row in rows.clone() {
                    let e = y[row] - dot_row(z.row(row), w);
                    for (b, z) in normal.b.iter_mut().zip(z.row(row)) {
                        *b += e * z;
                    }
                }
                normal.solve(k);
                w.iter_mut().zip(&normal.b[..k]).for_each(|(w, b)| *w += b);
            }
            for row in rows {
                let e = dot_row(z.row(row), w) - y[row];
                squares += e * e;
                (0..k).for_each(|i| outer[(row, i)] = e * w[i]);
            }
            let pairs = (0..k).flat_map(|i| (0..k).map(move |j| (i, j)));
            beside += pairs.map(|(i, j)| w[i] * w[j] * ridge(i, j)).sum::<f64>();
        }
        let residuals = 0.5 * squares + self.tasks.rest();
        Passed {
            cost: residuals + 0.5 * beside,
            residuals,
            slope: Rowwise::from_mat(&(x.transpose() * outer)),
            weights,
            factors,
        }
    }
}

const MAGIC: &[u8; 8] = b"rkregrs1";

impl Sent for Regressions {
    const KIND: u64 = 2;

    fn to_bytes(&self) -> Vec<u8> {
        let parts = self.tasks.parts();
        let mut out = Writer::new(MAGIC, 0);
        for word in [
            self.lambda.to_bits(),
            parts.features as u64,
            parts.rest.to_bits(),
            parts.observations as u64,
        ] {
            out.word(word);
        }
        out.word(parts.starts.len() as u64);
        parts
            .starts
            .iter()
            .for_each(|&start| out.word(start as u64));
        for numbers in [parts.sizes, parts.y, parts.x] {
            out.word(numbers.len() as u64);
            numbers.iter().for_each(|v| out.word(v.to_bits()));
        }
        out.finish()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut words = Reader::checked(MAGIC, bytes)?;
        let lambda = f64::from_bits(words.word()?);
        let features = usize::try_from(words.word()?).ok()?;
        let rest = f64::from_bits(words.word()?);
        let observations = usize::try_from(words.word()?).ok()?;
        let mut starts = Vec::new();
        for _ in 0..words.word()? {
            starts.push(usize::try_from(words.word()?).ok()?);
        }
        let [sizes, y, x] = [words.numbers()?, words.numbers()?, words.numbers()?];
        let tasks = Tasks::of_parts(TaskParts {
            features,
            starts,
            x,
            y,
            rest,
            sizes,
            observations,
        })?;
        (words.is_empty() && lambda >= 0.0).then(|| Regressions::new(tasks, lambda))
    }
}

impl Work for Regressions {
    fn dimension(&self) -> usize {
        self.tasks.features()
    }

    fn observations(&self) -> usize {
        self.tasks.observations()
    }

    fn density(&self) -> f64 {
        let (x, _) = self.tasks.rows(0..self.len());
        x.squared_norm_l2() / (self.tasks.features() * self.len()).max(1) as f64
    }

    fn left_over(&self, at: Option<&Local>, v: &[f64]) -> Vec<f64> {
        let m = self.dimension();
        let (x, y) = self.tasks.rows(0..self.len());
        let along = x * Mat::from_fn(m, 1, |i, _| v[i]);
        let z = at.map(|at| Rowwise::from_mat(&(x * &at.u)));
        let mut e = Mat::<f64>::zeros(y.len(), 1);
        for (t, line) in self.tasks.starts().windows(2).enumerate() {
            let rows = line[0]..line[1];
            for row in rows.clone() {
                let known = z.as_ref().zip(at);
                let known = known.map_or(0.0, |(z, at)| dot_row(z.row(row), at.weights.row(t)));
                e[(row, 0)] = y[row] - known;
            }
            let sum: f64 = rows.clone().map(|row| e[(row, 0)] * along[(row, 0)]).sum();
            rows.for_each(|row| e[(row, 0)] *= sum);
        }
        let back = x.transpose() * e;
        (0..m).map(|i| back[(i, 0)]).collect()
    }

    fn local(&self, u: &Mat<f64>, prior: Option<&Mat<f64>>) -> Local {
        Local::new(u, Rowwise::from_mat(u), self.pass(u, prior))
    }

    fn hessian_product(&self, at: &Local, along: &Mat<f64>) -> Mat<f64> {
        let k = at.u.ncols();
        let (x, y) = self.tasks.rows(0..self.len());
        let z = Rowwise::from_mat(&(x * &at.u));
        let eta = Rowwise::from_mat(&(x * along));
        let mut outer = Mat::<f64>::zeros(y.len(), k);
        let mut normal = Normal::new(z.width);
        for (t, line) in self.tasks.starts().windows(2).enumerate() {
            let w = at.weights.row(t);
            if !at.unpack(t, &mut normal) {
                continue;
            }
            normal.b.fill(0.0);
            for row in line[0]..line[1] {
                let v = dot_row(eta.row(row), w);
                for (b, z) in normal.b.iter_mut().zip(z.row(row)) {
                    *b += v * z;
                }
            }
            normal.solve(k);
            for row in line[0]..line[1] {
                let v = dot_row(eta.row(row), w) - dot_row(z.row(row), &normal.b);
                (0..k).for_each(|i| outer[(row, i)] = v * w[i]);
            }
        }
        x.transpose() * outer
    }

    /// With the squares of a feature in each task for XₜᵀXₜ.
    fn blocks(&self, at: &Local) -> (Vec<f64>, Mat<f64>) {
        let (m, k) = (self.dimension(), at.u.ncols());
        let (x, _) = self.tasks.rows(0..self.len());
        let mut blocks = vec![0.0; m * k * k];
        for (t, line) in self.tasks.starts().windows(2).enumerate() {
            let w = at.weights.row(t);
            for (feature, block) in blocks.chunks_exact_mut(k * k).enumerate() {
                let square: f64 = (line[0]..line[1]).map(|i| x[(i, feature)].powi(2)).sum();
                for a in 0..k {
                    for b in a..k {
                        block[a * k + b] += square * w[a] * w[b];
                    }
                }
            }
        }
        (blocks, Mat::zeros(k, k))
    }

    fn misfit(&self, at: &Local, other: &Regressions) -> (f64, usize) {
        let (x, y) = other.tasks.rows(0..other.len());
        let z = Rowwise::from_mat(&(x * &at.u));
        let mut sum = 2.0 * other.tasks.rest();
        for (t, line) in other.tasks.starts().windows(2).enumerate() {
            for row in line[0]..line[1] {
                sum += (dot_row(z.row(row), at.weights.row(t)) - y[row]).powi(2);
            }
        }
        (sum, other.observations())
    }

    fn plain(&self, u: &Mat<f64>) -> (f64, Mat<f64>) {
        let passed = self.pass(u, None);
        (passed.cost, passed.slope.to_mat(u.ncols()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::batch::{Local as _, Objective, SharedSubspace};
    use crate::linalg::qf;
    use crate::manifold::Grassmann;
    use crate::manifold::tests::matrix;

    /// Tasks of many and of few rows, one without any.
    pub fn tasks(features: usize, count: usize) -> Tasks {
        let rows = |t: usize| [1, 3, 2 * features, 0, 5][t % 5];
        let made: Vec<(Vec<f64>, Vec<f64>)> = (0..count)
            .map(|t| {
                let x = matrix(rows(t).max(1), features, 30 + t);
                let x: Vec<f64> = (0..rows(t) * features)
                    .map(|i| x[(i / features, i % features)])
                    .collect();
                let y = (0..rows(t)).map(|i| ((t + 3 * i) as f64).sin()).collect();
                (x, y)
            })
            .collect();
        Tasks::new(features, made.iter().map(|(x, y)| (&x[..], &y[..]))).unwrap()
    }

    #[test]
    fn regressions_are_the_batch_problem() {
        let tasks = tasks(8, 9);
        for k in [1, 2, 3, 5] {
            for lambda in [0.0, 0.01, 1.0] {
                let problem = SharedSubspace {
                    tasks: &tasks,
                    lambda,
                    common: None,
                    threads: 1,
                };
                let own = Regressions::new(tasks.clone(), lambda);
                let u = qf(&matrix(8, k, 1)).unwrap();
                let (local, want) = (own.local(&u, None), problem.local(std::slice::from_ref(&u)));
                assert!((local.cost - want.cost()).abs() < 1e-11, "{k} {lambda}");
                let gap = &local.gradient - &want.gradient()[0];
                assert!(gap.norm_max() < 1e-9, "{k} {lambda}: {}", gap.norm_max());
                assert!((local.weights() - want.weights()).norm_max() < 1e-9);
                let eta = Grassmann::project(&u, &matrix(8, k, 2));
                let bent = Grassmann::project(&u, &own.hessian_product(&local, &eta));
                let want = &want.hessian(std::slice::from_ref(&eta))[0];
                let gap = (bent - want).norm_max();
                assert!(gap < 1e-8 * (1.0 + want.norm_max()), "{k} {lambda}: {gap}");
            }
        }
    }
}
