//! Logistic regression of labels on the directions of a closed form: a better end for
//! many labels of very different frequency.
//!
//! Z has the centered rows in k directions Q, orthonormal and turned so that ZᵀZ is
//! diagonal, d. Each label by itself lowers
//!
//! f(w, b) = Σ_i ln(1 + exp s_i) − Σ_{i has it} s_i + λ/2 |w|²,   s = Z w + b,
//!
//! by steps with momentum along the gradient, divided by c d + λ as Newton's method would
//! divide it by Zᵀ diag(p(1−p)) Z + λ, if p(1−p) were c for all rows. Where f rises the
//! label loses its momentum and part of its step. A block of labels costs O(n k) a label
//! and iteration, and is independent of all others.

use super::label_ridge::{LabelFit, LabelRidge, Reduced, product};
use super::points::Points;
use crate::linalg::{qf, symmetric};
use crate::parallel::map_blocks;
use crate::{Real, Result, Rows, memory};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};

/// Enough for the order of labels; the cost falls little after that.
const ITERATIONS: usize = 15;

/// The share of a step of Newton's method that is taken, and the momentum.
const STEP: f64 = 0.35;
const MOMENTUM: f64 = 0.6;

/// What is left of a step where the cost rises.
const SHORTER: f64 = 0.7;

/// Rows near the boundary have more curvature than the mean: it is raised to this power,
/// and to the rest of one the most there can be.
const CURVATURE: f64 = 0.9;

/// Labels that are fitted together.
const BLOCK: usize = 32;

impl LabelRidge {
    /// Numbers that a logistic regression on k directions multiplies.
    pub fn logistic_work(&self, k: usize) -> f64 {
        // An exponential costs as much as some twenty products.
        let products = (2 * k + 20) * ITERATIONS;
        self.rows() as f64 * self.shares().len() as f64 * products as f64
    }

    /// Logistic regression of the labels on the first k directions of a solution, with the
    /// rows that the solution was made of. `None` where numbers do not allow it.
    pub fn logistic<'a, R: Real>(
        &self,
        reduced: &Reduced,
        k: usize,
        rows: &Rows<R>,
        labels: impl Fn(usize) -> &'a [u32] + Sync,
        penalty: f64,
        threads: usize,
    ) -> Result<Option<(LabelFit, Reduced)>> {
        let (n, count) = (rows.len(), self.shares().len());
        let held = 12 * n as u128 * k as u128 + 8 * threads as u128 * (n * BLOCK) as u128;
        memory::require(held, "logistic regression on these rows")?;
        let Some((directions, squares)) = self.turned(reduced, k, threads) else {
            return Ok(None);
        };
        let features = self.to_features(directions.as_ref(), threads);
        let means = self.at_mean(&features);
        let projected = Points::new(rows)?.product(&features, threads);
        let projected = Mat::from_fn(n, k, |i, j| (projected[(i, j)] - means[j]) as f32);
        let mut with = vec![Vec::new(); count];
        for i in 0..n {
            labels(i).iter().for_each(|&y| with[y as usize].push(i));
        }
        let task = Task {
            rows: &projected,
            squares: &squares,
            with: &with,
            start: &|y| self.logit(self.shares()[y]),
            penalty,
        };
        let blocks = map_blocks(count, BLOCK, threads, |range| task.block(range));
        let mut right = Mat::zeros(count, k);
        let mut offset = Vec::with_capacity(count);
        for (weights, biases) in blocks {
            let first = offset.len();
            for j in 0..biases.len() {
                for i in 0..k {
                    right[(first + j, i)] = weights[(i, j)];
                }
            }
            offset.extend(biases);
        }
        let finite = right
            .col_iter()
            .all(|c| c.iter().all(|v: &f64| v.is_finite()))
            && offset.iter().all(|v| v.is_finite());
        Ok(finite.then(|| {
            let found = Reduced {
                left: directions,
                right,
                rank: k,
            };
            let fit = LabelFit::of(&found, offset, penalty);
            (fit, found.balanced())
        }))
    }

    /// Orthonormal directions that span the first k of a solution, along which the squares
    /// of the rows do not mix, and these squares.
    fn turned(&self, reduced: &Reduced, k: usize, threads: usize) -> Option<(Mat<f64>, Vec<f64>)> {
        let basis = qf(&reduced.left.subcols(0, k).to_owned())?;
        let scaled = Mat::from_fn(basis.nrows(), k, |i, j| self.values()[i] * basis[(i, j)]);
        let gram = product(basis.transpose(), scaled.as_ref(), threads);
        let (squares, vectors) = symmetric::eigen(&symmetric::part(&gram))?;
        let squares = squares.into_iter().map(|s| s.max(0.0)).collect();
        Some((product(basis.as_ref(), vectors.as_ref(), threads), squares))
    }
}

/// What blocks of labels share.
struct Task<'a> {
    rows: &'a Mat<f32>,
    /// d.
    squares: &'a [f64],
    /// The rows that have a label.
    with: &'a [Vec<usize>],
    start: &'a (dyn Fn(usize) -> f64 + Sync),
    penalty: f64,
}

/// Where one label stands.
struct Place {
    bias: f64,
    moved: f64,
    step: f64,
    cost: f64,
}

impl Task<'_> {
    /// Weights, a column a label, and biases of some labels.
    fn block(&self, range: std::ops::Range<usize>) -> (Mat<f64>, Vec<f64>) {
        let (n, k, many) = (self.rows.nrows(), self.rows.ncols(), range.len());
        let mut places: Vec<Place> = range
            .clone()
            .map(|y| Place {
                bias: (self.start)(y),
                moved: 0.0,
                step: STEP,
                cost: f64::INFINITY,
            })
            .collect();
        let (mut weights, mut moved) = (Mat::<f64>::zeros(k, many), Mat::<f64>::zeros(k, many));
        let mut scores = Mat::<f32>::zeros(n, many);
        let mut slopes = Mat::<f32>::zeros(k, many);
        for _ in 0..ITERATIONS {
            let small = Mat::from_fn(k, many, |i, j| weights[(i, j)] as f32);
            matmul(
                &mut scores,
                Accum::Replace,
                self.rows,
                &small,
                1.0,
                Par::Seq,
            );
            let mut curvatures = vec![(0.0, 0.0); many];
            for (j, y) in range.clone().enumerate() {
                let column = scores.col_as_slice_mut(j);
                let found = residuals(column, places[j].bias, &self.with[y]);
                let length: f64 = weights.col(j).iter().map(|w| w * w).sum();
                let cost = found.cost + 0.5 * self.penalty * length;
                let place = &mut places[j];
                if cost > place.cost {
                    (place.step, place.moved) = (place.step * SHORTER, 0.0);
                    moved.col_mut(j).iter_mut().for_each(|m| *m = 0.0);
                }
                place.cost = cost;
                curvatures[j] = (found.curvature / n as f64, found.sum / n as f64);
            }
            let residuals = scores.as_ref();
            matmul(
                &mut slopes,
                Accum::Replace,
                self.rows.transpose(),
                residuals,
                1.0,
                Par::Seq,
            );
            for (j, y) in range.clone().enumerate() {
                // A label of all rows or of none has nothing to learn.
                if self.with[y].is_empty() || self.with[y].len() == n {
                    continue;
                }
                let (curvature, mean) = curvatures[j];
                let curvature = curvature.max(1e-9).powf(CURVATURE) * 0.25f64.powf(1.0 - CURVATURE);
                let place = &mut places[j];
                for i in 0..k {
                    let slope = f64::from(slopes[(i, j)]) - self.penalty * weights[(i, j)];
                    let by = curvature * self.squares[i] + self.penalty;
                    let move_ = match by > 0.0 {
                        true => place.step * slope / by + MOMENTUM * moved[(i, j)],
                        false => 0.0,
                    };
                    moved[(i, j)] = move_;
                    weights[(i, j)] += move_;
                }
                place.moved = place.step * mean / curvature + MOMENTUM * place.moved;
                place.bias += place.moved;
            }
        }
        (weights, places.iter().map(|place| place.bias).collect())
    }
}

/// Sums over the rows of a label.
struct Sums {
    cost: f64,
    /// Σ p(1−p).
    curvature: f64,
    /// Σ (y − p).
    sum: f64,
}

/// Turns scores without bias into y − p.
fn residuals(scores: &mut [f32], bias: f64, with: &[usize]) -> Sums {
    let bias = bias as f32;
    let mut out = Sums {
        cost: 0.0,
        curvature: 0.0,
        sum: 0.0,
    };
    for &i in with {
        out.cost -= f64::from(scores[i] + bias);
    }
    for chunk in scores.chunks_mut(16) {
        // The logarithm of a product is cheaper than many logarithms.
        let (mut positive, mut factor, mut curvature, mut sum) = (0f32, 1f64, 0f32, 0f32);
        for score in chunk {
            let s = *score + bias;
            let e = (-s.abs()).exp();
            let one = 1.0 + e;
            let p = if s >= 0.0 { 1.0 / one } else { e / one };
            positive += s.max(0.0);
            factor *= f64::from(one);
            curvature += p * (1.0 - p);
            sum += p;
            *score = -p;
        }
        out.cost += f64::from(positive) + factor.ln();
        out.curvature += f64::from(curvature);
        out.sum -= f64::from(sum);
    }
    for &i in with {
        scores[i] += 1.0;
        out.sum += 1.0;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::label_ridge::tests::example;
    use super::*;
    use crate::batch::Shape;

    /// The gradient of the cost of each label, in full precision, as a share of what it is
    /// at zero.
    fn slopes(rows: &Rows<f64>, labels: &[Vec<u32>], count: usize, penalty: f64) -> Vec<f64> {
        let of = |i: usize| &labels[i][..];
        let ridge = LabelRidge::new(rows, of, count, 1.0, 1, 2).unwrap();
        let closed = ridge.fit(1.0, Shape::default());
        let reduced = ridge.reduced(&closed).unwrap();
        let k = reduced.rank;
        let found = ridge.logistic(&reduced, k, rows, of, penalty, 2).unwrap();
        let (fit, found) = found.unwrap();
        let scores = |fit: &LabelFit| {
            let coordinates = ridge.coordinates(rows, 1).unwrap();
            ridge.scores(fit, &coordinates, 1)
        };
        let coordinates = ridge.coordinates(rows, 1).unwrap();
        // Both ways to say the solution agree.
        let (a, b) = (
            scores(&fit),
            ridge.scores_of_rank(&fit, &found, k, &coordinates, 1),
        );
        assert!((&a - &b).norm_max() < 1e-9);
        let gradient = |scores: &Mat<f64>, weights: Option<&Mat<f64>>, y: usize| {
            let mut out = vec![0.0; coordinates.ncols()];
            for i in 0..rows.len() {
                let p = 1.0 / (1.0 + (-scores[(y, i)]).exp());
                let wanted = f64::from(u8::from(labels[i].contains(&(y as u32))));
                for (j, o) in out.iter_mut().enumerate() {
                    *o += (wanted - p) * coordinates[(i, j)];
                }
            }
            // Only what lies in the span of the directions counts.
            let mut inside = vec![0.0; k];
            let basis = qf(&reduced.left.subcols(0, k).to_owned()).unwrap();
            for (j, inside) in inside.iter_mut().enumerate() {
                for i in 0..out.len() {
                    let weight = weights.map_or(0.0, |w| w[(i, y)]);
                    *inside += basis[(i, j)] * (out[i] - penalty * weight);
                }
            }
            inside.iter().map(|v| v * v).sum::<f64>().sqrt()
        };
        let nothing = Mat::from_fn(count, rows.len(), |y, _| ridge.logit(ridge.shares()[y]));
        (0..count)
            .map(|y| gradient(&a, Some(&fit.coefficients), y) / gradient(&nothing, None, y))
            .collect()
    }

    #[test]
    fn the_slope_of_each_label_vanishes() {
        for (n, p, count) in [(300, 6, 5), (120, 12, 7)] {
            let (rows, labels) = example(n, p, count, 10);
            for slope in slopes(&rows, &labels, count, 1.0) {
                assert!(slope < 0.03, "{slope}");
            }
        }
    }

    #[test]
    fn labels_of_all_rows_or_none_stay_where_they_are_and_threads_change_nothing() {
        let (rows, mut labels) = example(80, 5, 40, 10);
        for row in &mut labels {
            row.retain(|&y| y != 3 && y != 4);
            row.push(3);
            row.sort_unstable();
        }
        let of = |i: usize| &labels[i][..];
        let ridge = LabelRidge::new(&rows, of, 40, 1.0, 1, 1).unwrap();
        let reduced = ridge.reduced(&ridge.fit(1.0, Shape::default())).unwrap();
        let found = |threads| {
            let found = ridge.logistic(&reduced, 4, &rows, of, 0.5, threads);
            found.unwrap().unwrap()
        };
        let (fit, one) = found(1);
        for y in [3, 4] {
            assert!(one.right.row(y).iter().all(|v| *v == 0.0));
            assert_eq!(fit.offset[y], ridge.logit(ridge.shares()[y]));
        }
        assert!(fit.offset[3] > 4.0 && fit.offset[4] < -4.0);
        assert_eq!(one.right, found(2).1.right);
    }
}
