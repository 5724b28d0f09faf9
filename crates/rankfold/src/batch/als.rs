//! Alternating least squares: each side is solved for exactly, given the other.

use super::fitted::Fitted;
use super::normal::Normal;
use super::pass::BLOCK;
use super::rowwise::Rowwise;
use super::solve::{Limits, Observer, Run, Solved};
use super::state::SolverState;
use crate::Result;
use crate::parallel::map_rows;
use crate::sparse::{Lines, View};
use faer::Mat;

/// ½ Σ (prediction − value)² + ½ Σ λ nᵖ (‖row of a factor‖² + its bias²), where n
/// is how many entries the line of that row has.
#[derive(Debug, Clone, Copy)]
pub struct Als<'a> {
    /// The known entries.
    pub entries: View<'a>,
    /// λ.
    pub lambda: f64,
    /// p: 0 for the same penalty for all rows, 1 for one that grows with the
    /// entries of a line.
    pub power: f64,
    /// Threads; results have the same bits for any number of them.
    pub threads: usize,
}

const NAME: &str = "als";

/// A side in the layout that sweeps work on: a row holds its k factors, and where
/// there are biases then a 1 and the bias.
struct Side(Rowwise);

impl Side {
    fn new(factor: &Mat<f64>, bias: Option<&Vec<f64>>) -> Self {
        let k = factor.ncols();
        let Some(bias) = bias else {
            return Side(Rowwise::from_mat(factor));
        };
        let mut out = Rowwise::zero(factor.nrows(), k + 2);
        let width = out.width;
        for (i, row) in out.data.chunks_exact_mut(width).enumerate() {
            for j in 0..k {
                row[j] = factor[(i, j)];
            }
            (row[k], row[k + 1]) = (1.0, bias[i]);
        }
        Side(out)
    }

    fn parts(&self, k: usize, biases: bool) -> (Mat<f64>, Option<Vec<f64>>) {
        let rows = self.0.data.len() / self.0.width;
        let bias = biases.then(|| (0..rows).map(|i| self.0.row(i)[k + 1]).collect());
        (self.0.to_mat(k), bias)
    }
}

impl Als<'_> {
    /// Solves for all rows of one side.
    fn sweep(&self, lines: Lines<'_>, own: &mut Side, other: &Side, fitted: &Fitted) {
        let k = fitted.rank();
        let biased = fitted.biases.is_some();
        let (size, offset) = match biased {
            true => (k + 1, Some(k + 1)),
            false => (k, None),
        };
        let width = own.0.width;
        map_rows(
            &mut own.0.data,
            width,
            BLOCK,
            self.threads,
            |first, rows| {
                let mut normal = Normal::new(width);
                for (i, row) in (first..).zip(rows.chunks_exact_mut(width)) {
                    let line = lines.line(i);
                    row.fill(0.0);
                    if biased {
                        row[k] = 1.0;
                    }
                    if line.0.is_empty() {
                        continue;
                    }
                    let ridge = self.lambda * (line.0.len() as f64).powf(self.power);
                    let mut more = 0.0;
                    // Without a penalty a short line has no unique solution: a little
                    // on the diagonal gives one that is next to the smallest.
                    for _ in 0..4 {
                        normal.gather(line, &other.0.data, size, fitted.center, offset);
                        let mean =
                            (0..size).map(|i| normal.a[i * width + i]).sum::<f64>() / size as f64;
                        for i in 0..size {
                            normal.a[i * width + i] += ridge + more * mean;
                        }
                        if normal.factor(size) {
                            normal.solve(size);
                            break;
                        }
                        normal.b.fill(0.0);
                        more = 1e3 * f64::max(more, 1e-15);
                    }
                    row[..k].copy_from_slice(&normal.b[..k]);
                    if biased {
                        row[k + 1] = normal.b[k];
                    }
                }
            },
        );
    }

    /// The cost of a model.
    pub fn cost(&self, fitted: &Fitted) -> f64 {
        let square = fitted.rmse(self.entries, self.threads).powi(2) * self.entries.count as f64;
        let penalty = |lines: Lines<'_>, factor: &Mat<f64>, bias: Option<&Vec<f64>>| -> f64 {
            let row = |i: usize| {
                let norm = factor.row(i).squared_norm_l2() + bias.map_or(0.0, |b| b[i] * b[i]);
                (lines.count(i) as f64).powf(self.power) * norm
            };
            (0..lines.len()).map(row).sum()
        };
        let bias = |side: usize| fitted.biases.as_ref().map(|b| &b[side]);
        let rows = penalty(self.entries.rows, &fitted.left, bias(0));
        let columns = penalty(self.entries.columns, &fitted.right, bias(1));
        0.5 * (square + self.lambda * (rows + columns))
    }

    /// Sweeps over both sides, the left one first, from a model of the wanted rank.
    /// The cost is computed where it decides when to stop.
    pub fn solve(
        &self,
        start: Fitted,
        limits: Limits,
        observer: Observer<'_, Fitted>,
    ) -> Solved<Fitted> {
        self.run(start, None, limits, observer)
    }

    /// More sweeps from the state of one; an error where it does not fit the entries at
    /// this rank.
    pub fn resume(
        &self,
        rank: usize,
        state: &SolverState,
        limits: Limits,
        observer: Observer<'_, Fitted>,
    ) -> Result<Solved<Fitted>> {
        state.check(NAME)?;
        let shape = (self.entries.rows.len(), self.entries.columns.len());
        let start = Fitted::take(state, shape, rank)?;
        Ok(self.run(start, Some(state), limits, observer))
    }

    fn run(
        &self,
        start: Fitted,
        state: Option<&SolverState>,
        limits: Limits,
        observer: Observer<'_, Fitted>,
    ) -> Solved<Fitted> {
        let mut fitted = start;
        let k = fitted.rank();
        let biases = fitted.biases.clone();
        let mut left = Side::new(&fitted.left, biases.as_ref().map(|b| &b[0]));
        let mut right = Side::new(&fitted.right, biases.as_ref().map(|b| &b[1]));
        let judged = limits.decrease > 0.0 || limits.cost > 0.0;
        let cost = |fitted: &Fitted| match judged {
            true => self.cost(fitted),
            false => f64::NAN,
        };
        let first = state.map_or(f64::INFINITY, |_| cost(&fitted));
        let mut run = Run::new(NAME, state, first, limits, observer);
        while run.goes_on() {
            self.sweep(self.entries.rows, &mut left, &right, &fitted);
            self.sweep(self.entries.columns, &mut right, &left, &fitted);
            let ((l, b), (r, c)) = (
                left.parts(k, biases.is_some()),
                right.parts(k, biases.is_some()),
            );
            (fitted.left, fitted.right) = (l, r);
            fitted.biases = b.zip(c).map(|(b, c)| [b, c]);
            run.moved(&fitted, cost(&fitted), &|state| fitted.put(state));
        }
        run.solved(fitted)
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::tests::observed;
    use super::super::{Ended, Observed, Part};
    use super::*;
    use crate::manifold::tests::matrix;

    #[test]
    fn every_sweep_lowers_the_cost_and_ends_where_nothing_is_better() {
        let observed = observed(20, 16);
        for (biases, power) in [(false, 0.0), (true, 0.5), (true, 1.0)] {
            let als = Als {
                entries: observed.part(Part::All),
                lambda: 0.05,
                power,
                threads: 2,
            };
            let mut start = Fitted::empty((20, 16), 0.2, biases);
            (start.left, start.right) = (matrix(20, 2, 1), matrix(16, 2, 2));
            let mut costs = vec![als.cost(&start)];
            let limits = Limits {
                iterations: 3000,
                decrease: 1e-15,
                ..Limits::default()
            };
            let solved = als.solve(start, limits, &mut |sweep| {
                assert_eq!(sweep.cost, als.cost(sweep.at));
                costs.push(sweep.cost);
                true
            });
            let (fitted, ended) = (solved.point, solved.ended);
            assert_eq!(ended, Ended::Converged);
            let falls = costs.windows(2).all(|c| c[1] <= c[0] * (1.0 + 1e-12));
            assert!(falls, "{costs:?}");
            let least = als.cost(&fitted);
            for t in 0..20 {
                let mut other = fitted.clone();
                let (i, j) = (t % 20, t % 2);
                other.left[(i, j)] += 1e-3;
                other.right[(t % 16, 1 - j)] -= 1e-3;
                if let Some([b, c]) = &mut other.biases {
                    b[i] += 1e-3;
                    c[t % 16] -= 1e-3;
                }
                let cost = als.cost(&other);
                assert!(cost > least, "{biases} {power} {t}: {cost} {least}");
            }
        }
    }

    #[test]
    fn planted_matrices_with_biases_are_recovered() {
        let (n, m, k) = (40, 30, 2);
        let mut truth = Fitted::empty((n, m), 3.0, true);
        (truth.left, truth.right) = (matrix(n, k, 1), matrix(m, k, 2));
        truth.biases = Some([
            (0..n).map(|i| (i as f64).sin()).collect(),
            (0..m).map(|j| (j as f64).cos()).collect(),
        ]);
        let entries = (0..n * m).filter(|&t| crate::random::splitmix64(t as u64) % 10 < 6);
        let entries =
            entries.map(|t| ((t / m) as u32, (t % m) as u32, truth.predict(t / m, t % m)));
        let (observed, _) = Observed::new((n, m), entries.collect()).unwrap();
        let als = Als {
            entries: observed.part(Part::All),
            lambda: 0.0,
            power: 0.0,
            threads: 1,
        };
        let mut start = truth.clone();
        start.left += faer::Scale(0.3) * matrix(n, k, 5);
        start.right += faer::Scale(0.3) * matrix(m, k, 6);
        let limits = Limits {
            iterations: 500,
            cost: 1e-22,
            ..Limits::default()
        };
        let fitted = als.solve(start, limits, &mut |_| true).point;
        let error = (0..n * m).map(|t| fitted.predict(t / m, t % m) - truth.predict(t / m, t % m));
        let worst = error.fold(0.0_f64, |a, e| a.max(e.abs()));
        assert!(worst < 1e-8, "{worst} {}", als.cost(&fitted));
    }
}
