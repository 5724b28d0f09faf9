//! Information-theoretic metric learning [Davis et al. 2007]: the W nearest to I, by
//! the LogDet divergence, whose distances keep to bounds, with slack. Each bound in
//! turn is projected to, until a round changes little.

use super::distances::{Bound, Pair};
use super::solve::{Limits, Observer, Run, Solved};
use super::state::SolverState;
use crate::{Error, Result, memory};
use faer::Mat;

/// What is paid for slack, and when to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Itml {
    /// γ: large ones give no slack.
    pub slack: f64,
    /// Rounds over all bounds at most.
    pub rounds: usize,
    /// The change of the multipliers in a round, as a share of them, that is little.
    pub tolerance: f64,
}

impl Default for Itml {
    fn default() -> Self {
        Itml {
            slack: 1.0,
            rounds: 1000,
            tolerance: 1e-3,
        }
    }
}

const NAME: &str = "itml";

impl Itml {
    /// Learns W from points, one a row, and bounds on squared distances of pairs. The
    /// observer sees W after each round. The cost is the change of the multipliers, as a
    /// share of them.
    pub fn solve(
        &self,
        x: &Mat<f64>,
        bounds: &[(Pair, Bound, f64)],
        observer: Observer<'_, Mat<f64>>,
    ) -> Result<Solved<Mat<f64>>> {
        self.run(x, bounds, None, observer)
    }

    /// More rounds from the state of one; an error where it does not fit the points
    /// and bounds.
    pub fn resume(
        &self,
        x: &Mat<f64>,
        bounds: &[(Pair, Bound, f64)],
        state: &SolverState,
        observer: Observer<'_, Mat<f64>>,
    ) -> Result<Solved<Mat<f64>>> {
        state.check(NAME)?;
        self.run(x, bounds, Some(state), observer)
    }

    fn run(
        &self,
        x: &Mat<f64>,
        bounds: &[(Pair, Bound, f64)],
        state: Option<&SolverState>,
        observer: Observer<'_, Mat<f64>>,
    ) -> Result<Solved<Mat<f64>>> {
        let d = x.ncols();
        memory::require(16 * d as u128 * d as u128, "a full metric")?;
        let mut w = vec![0.0; d * d];
        (0..d).for_each(|j| w[j * d + j] = 1.0);
        let whole = |w: &[f64]| Mat::from_fn(d, d, |i, j| w[i * d + j]);
        let usable = bounds.iter().filter(|(pair, ..)| {
            let same = (0..d).all(|j| x[(pair.left as usize, j)] == x[(pair.right as usize, j)]);
            !same
        });
        let usable: Vec<&(Pair, Bound, f64)> = usable.collect();
        let mut multiplier = vec![0.0; usable.len()];
        let mut target: Vec<f64> = usable
            .iter()
            .map(|(.., y)| y.max(f64::MIN_POSITIVE))
            .collect();
        // How much the multipliers changed in the last round, and how large they are.
        let (mut change, mut sum) = (f64::INFINITY, f64::INFINITY);
        if let Some(state) = state {
            let stored = state.block("w", (d, d))?;
            w = (0..d * d).map(|at| stored[(at / d, at % d)]).collect();
            multiplier = state.column("multiplier", usable.len())?;
            target = state.column("target", usable.len())?;
            (change, sum) = (state.number("change")?, state.number("sum")?);
        }
        let (mut delta, mut image) = (vec![0.0; d], vec![0.0; d]);
        let mut before = multiplier.clone();
        let limits = Limits {
            iterations: self.rounds,
            ..Limits::default()
        };
        let mut run = Run::new(NAME, state, change / sum, limits, observer);
        let settled = |rounds: usize, change: f64, sum: f64| {
            rounds > 0 && (sum == 0.0 || change <= self.tolerance * sum)
        };
        while run.goes_on_unless(settled(run.iterations, change, sum)) {
            for (c, (pair, bound, _)) in usable.iter().enumerate() {
                let (i, j) = (pair.left as usize, pair.right as usize);
                (0..d).for_each(|t| delta[t] = x[(i, t)] - x[(j, t)]);
                for (out, row) in image.iter_mut().zip(w.chunks_exact(d)) {
                    *out = row.iter().zip(&delta).map(|(a, b)| a * b).sum();
                }
                let p: f64 = image.iter().zip(&delta).map(|(a, b)| a * b).sum();
                if !(p > 0.0 && p.is_finite()) {
                    continue;
                }
                let sign = match bound {
                    Bound::AtMost => 1.0,
                    Bound::AtLeast => -1.0,
                    // Both ways: the multiplier has no sign then.
                    Bound::Equal => 0.0,
                };
                let share = self.slack / (self.slack + 1.0);
                let wanted = share * (1.0 / p - 1.0 / target[c]);
                let alpha = match sign {
                    0.0 => wanted,
                    sign => sign * f64::min(multiplier[c], sign * wanted),
                };
                multiplier[c] -= if sign == 0.0 { alpha } else { sign * alpha };
                let beta = alpha / (1.0 - alpha * p);
                // The slack moves its target along.
                let scale = match sign {
                    0.0 => 1.0,
                    _ => self.slack / (self.slack + alpha * target[c]),
                };
                target[c] *= scale;
                for (row, &a) in w.chunks_exact_mut(d).zip(&image) {
                    let step = beta * a;
                    row.iter_mut().zip(&image).for_each(|(w, b)| *w += step * b);
                }
            }
            if w.iter().any(|v| !v.is_finite()) {
                return Err(Error::failure(
                    "ITML left the range of numbers: give it more slack, or scale the features",
                ));
            }
            let norm = |v: &[f64]| v.iter().map(|a| a * a).sum::<f64>().sqrt();
            sum = norm(&multiplier) + norm(&before);
            let pairs = multiplier.iter().zip(&before);
            change = pairs.map(|(a, b)| (a - b).abs()).sum();
            before.copy_from_slice(&multiplier);
            run.moved(&whole(&w), change / sum, &|state| {
                let state = state.with_block("w", whole(&w));
                let state = state.with_column("multiplier", &multiplier);
                let state = state.with_column("target", &target);
                state.with_number("change", change).with_number("sum", sum)
            });
        }
        Ok(run.solved(whole(&w)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::symmetric;
    use crate::manifold::tests::matrix;

    #[test]
    fn bounds_are_kept_to_where_there_is_no_slack_and_w_stays_definite() {
        let x = matrix(20, 4, 1);
        let pairs = (0..6_u32).map(|t| Pair {
            left: t,
            right: t + 7,
        });
        let bounds: Vec<_> = pairs
            .map(|pair| match pair.left % 2 {
                0 => (pair, Bound::AtMost, 4.0),
                _ => (pair, Bound::AtLeast, 6.0),
            })
            .collect();
        let itml = Itml {
            slack: 1e6,
            tolerance: 1e-9,
            ..Itml::default()
        };
        let w = itml.solve(&x, &bounds, &mut |_| true).unwrap().point;
        assert!(symmetric::power(&symmetric::part(&w), -0.5).is_some());
        for (pair, bound, target) in &bounds {
            let delta = Mat::from_fn(4, 1, |j, _| {
                x[(pair.left as usize, j)] - x[(pair.right as usize, j)]
            });
            let distance = (delta.transpose() * &w * &delta)[(0, 0)];
            let kept = match bound {
                Bound::AtMost => distance <= target * 1.001,
                _ => distance >= target * 0.999,
            };
            assert!(kept, "{bound:?} {target} {distance}");
        }
    }

    #[test]
    fn no_bounds_leave_the_identity() {
        let solved = Itml::default().solve(&matrix(5, 3, 1), &[], &mut |_| true);
        let solved = solved.unwrap();
        assert_eq!((solved.point, solved.iterations), (Mat::identity(3, 3), 1));
    }
}
