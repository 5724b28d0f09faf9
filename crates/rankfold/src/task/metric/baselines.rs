//! What metrics are compared with: ITML and LEGO, on all features or after PCA.

use super::engine::{Bounded, Lowered, Observer, Seen};
use super::fit::{Part, Setup};
use crate::batch::{Ended, Iteration, Itml, SolverState, principal};
use crate::form::Full;
use crate::linalg::symmetric;
use crate::online::{Learner, Lego, RankOne, Step};
use crate::{Error, Real, Result, SparseVec, memory};
use faer::Mat;

impl<R: Real> Setup<'_, R> {
    /// Principal directions, and the points in them, where the rank is not full.
    fn reduced(&self, part: &Part, first: &Mat<f64>) -> Result<(Option<Mat<f64>>, Mat<f64>)> {
        let points = &part.points;
        let (k, d) = (first.ncols(), points.features());
        let threads = self.options.thread_count();
        memory::require(points.len() as u128 * k as u128 * 16, "projected rows")?;
        match k == d {
            true => {
                let all = Mat::identity(d, d);
                Ok((None, points.product(&all, threads)))
            }
            false => {
                let (directions, _) = principal(points, k, threads)?;
                let reduced = points.product(&directions, threads);
                Ok((Some(directions), reduced))
            }
        }
    }

    /// ITML at full rank, or after PCA.
    pub fn itml(
        &self,
        part: &Part,
        first: &Mat<f64>,
        bounds: &[Bounded],
        state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Lowered> {
        let (directions, x) = self.reduced(part, first)?;
        let itml = Itml {
            slack: self.options.slack,
            rounds: self.options.iterations.unwrap_or(Itml::default().rounds),
            ..Itml::default()
        };
        let mut observed = |round: &Iteration<'_, Mat<f64>>| {
            // W is not shown on the way: it lives in other directions.
            observer(&Seen {
                number: round.number,
                cost: f64::NAN,
                factor: first,
                state: &|| round.state(),
            })
        };
        let solved = match state {
            None => itml.solve(&x, bounds, &mut observed)?,
            Some(state) => itml.resume(&x, bounds, state, &mut observed)?,
        };
        lowered(directions, &solved.point, solved.iterations, solved.ended)
    }

    /// One pass of LEGO over the constraints, at full rank or after PCA, with the best
    /// of several step sizes by the cost at its end.
    pub fn lego(&self, part: &Part, first: &Mat<f64>, bounds: &[Bounded]) -> Result<Lowered> {
        let (directions, x) = self.reduced(part, first)?;
        let sizes: Vec<f64> = match self.options.step_size {
            Some(size) => vec![size],
            None => (-10..=3).map(|power| 10_f64.powi(power)).collect(),
        };
        let passes = self.options.epochs.unwrap_or(1) as usize;
        let mut best: Option<(f64, Mat<f64>)> = None;
        for size in sizes {
            let w = lego(&x, bounds, size, passes)?;
            let cost = cost_of(&x, bounds, &w);
            if cost.is_finite() && best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, w));
            }
        }
        let (_, w) = best.ok_or_else(|| Error::failure("LEGO left the range of numbers"))?;
        lowered(directions, &w, passes, Ended::Iterations)
    }
}

/// LEGO from the identity, for bounds that are violated.
fn lego(x: &Mat<f64>, bounds: &[Bounded], eta: f64, passes: usize) -> Result<Mat<f64>> {
    let d = x.ncols();
    let mut learner = Lego::new(Full::diagonal(d, d, 1.0)?);
    let step = Step {
        size: eta,
        limit: f64::INFINITY,
    };
    for (pair, bound, y) in (0..passes).flat_map(|_| bounds) {
        let (i, j) = (pair.left as usize, pair.right as usize);
        let delta: Vec<f64> = (0..d).map(|t| x[(i, t)] - x[(j, t)]).collect();
        let delta = SparseVec::from_dense(&delta);
        let example = RankOne {
            left: delta.as_row(),
            right: delta.as_row(),
        };
        if bound.loss().at(learner.score(example), *y).1 != 0.0 {
            learner.learn(example, *y, bound.loss(), step);
        }
    }
    let w = learner.form().to_dense();
    Ok(symmetric::part(&Mat::from_fn(d, d, |i, j| w[i][j])))
}

fn cost_of(x: &Mat<f64>, bounds: &[Bounded], w: &Mat<f64>) -> f64 {
    let image = x * w;
    let product =
        |i: usize, j: usize| -> f64 { (0..x.ncols()).map(|t| image[(i, t)] * x[(j, t)]).sum() };
    let losses = bounds.iter().map(|(pair, bound, y)| {
        let (i, j) = (pair.left as usize, pair.right as usize);
        let distance = product(i, i) + product(j, j) - product(i, j) - product(j, i);
        bound.loss().at(distance, *y).0
    });
    losses.sum()
}

/// P L with W = P L Lᵀ Pᵀ.
fn lowered(
    directions: Option<Mat<f64>>,
    w: &Mat<f64>,
    iterations: usize,
    ended: Ended,
) -> Result<Lowered> {
    let root = symmetric::map(&symmetric::part(w), |v| v.max(0.0).sqrt());
    let root = root.ok_or_else(|| Error::failure("the baseline left the range of numbers"))?;
    Ok(Lowered {
        factor: match directions {
            Some(directions) => directions * root,
            None => root,
        },
        iterations,
        cost: f64::NAN,
        ended,
    })
}
