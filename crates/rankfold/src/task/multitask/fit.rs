//! A subspace learned along falling ridges, and what it says of each task.

use super::frame::{Beyond, Frame, Framing};
use super::{Multitask, RANK, TaskTrial};
use crate::batch::{Common, Ended, Iteration, Limits, SharedSubspace, Solver, SolverState, Tasks};
use crate::data::TaskRows;
use crate::linalg::qf;
use crate::manifold::beside;
use crate::model::{Moments, Standardize, TaskFit, TaskPrior, TaskView, multiplier};
use crate::random::normal_at;
use crate::{Error, Result};
use faer::Mat;
use std::ops::Range;

/// The ridges to choose from, for features of mean square one.
pub(super) const RIDGES: [f64; 11] = [
    10_000.0, 3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1,
];

/// Iterations for each ridge on the way.
const STAGE: usize = 30;

/// Below this share of the cost, an iteration on the way is not worth another one.
const STAGE_DECREASE: f64 = 1e-6;

/// The purpose of random columns of a subspace.
const RANDOM_COLUMNS: u64 = 0x7a5c;

/// A subspace of this rank: where the targets point to fewer directions, random ones for the rest.
pub(super) fn completed(known: Option<Mat<f64>>, rank: usize, seed: u64) -> Result<Mat<f64>> {
    let u = known.and_then(|known| {
        let entry = |i, j| normal_at(seed, RANDOM_COLUMNS, i as u64, j as u64);
        let random = Mat::from_fn(known.nrows(), rank - known.ncols(), entry);
        qf(&beside(&known, &random))
    });
    u.ok_or_else(|| Error::failure("no subspace to start from was found"))
}

/// A subspace, and the common weights where there are some.
pub(super) struct Learned {
    pub at: Vec<Mat<f64>>,
    pub prior: TaskPrior,
    pub cost: f64,
    pub iterations: usize,
    pub ended: Ended,
}

/// Called after each iteration with its number, the cost and the state of the walk;
/// false ends the work.
pub(super) type Observer<'a> = &'a mut dyn FnMut(usize, f64, &dyn Fn() -> SolverState) -> bool;

/// The place of the ridge, and the iterations before it, in the state of the solver.
const PLACE: &str = "ridge";
const BEFORE: &str = "before";

/// What is learned from.
pub(super) struct Ground {
    pub frame: Frame,
    pub(super) tasks: Tasks,
    pub(super) common: Option<Common>,
    pub rank: usize,
    /// A subspace and common weights to start from, on features as they are in files.
    pub given: Option<(Mat<f64>, Option<Mat<f64>>)>,
    solver: Solver,
    iterations: usize,
    tolerance: f64,
    seed: u64,
    threads: usize,
}

impl Ground {
    pub fn new(
        options: &Multitask,
        data: &TaskRows,
        members: &[u32],
        standardize: Standardize,
    ) -> Result<Ground> {
        Self::beyond(options, data, members, standardize, &mut None)
    }

    /// The same where these tasks are only some of all.
    pub fn beyond(
        options: &Multitask,
        data: &TaskRows,
        members: &[u32],
        standardize: Standardize,
        beyond: &mut Beyond<'_>,
    ) -> Result<Ground> {
        let framing = Framing {
            standardize,
            bias: !options.no_bias,
            common: options.common_ridge_or_none(),
            threads: options.thread_count(),
        };
        let frame = Frame::beyond(data, members, framing, beyond)?;
        let tasks = frame.tasks()?;
        let common = match framing.common {
            None => None,
            Some(mu) => Some(tasks.common(mu, options.thread_count())?),
        };
        Ok(Ground {
            frame,
            tasks,
            common,
            rank: options.rank.unwrap_or(RANK),
            given: None,
            solver: options.solver.solver(),
            iterations: options.iterations,
            tolerance: options.tolerance,
            seed: options.seed,
            threads: options.thread_count(),
        })
    }

    /// The ridges to walk down, on the scale of the features: the one that was given,
    /// or all down to the one that was chosen, or all.
    pub fn ridges(&self, given: Option<f64>, chosen: Option<&TaskTrial>) -> Vec<f64> {
        if let Some(lambda) = given {
            return vec![lambda];
        }
        let unit = self.frame.usual_square();
        let count = chosen.map_or(RIDGES.len(), |trial| trial.place + 1);
        RIDGES[..count].iter().map(|ridge| unit * ridge).collect()
    }

    /// The subspace for a ridge that is large.
    fn start(&self) -> Result<Vec<Mat<f64>>> {
        let mu = self.common.as_ref().map(Common::ridge);
        // W sees features as they are in files times these.
        let scaled = |m: &Mat<f64>, columns: usize| {
            Mat::from_fn(m.nrows(), columns, |i, j| {
                match multiplier(&self.frame.preprocess, i) {
                    0.0 => m[(i, j)],
                    here => m[(i, j)] / here,
                }
            })
        };
        let given = self.given.as_ref();
        let c = match (mu, given.and_then(|(_, common)| common.as_ref())) {
            (None, _) => None,
            (Some(_), Some(common)) => Some(scaled(common, 1)),
            (Some(mu), None) => Some(self.tasks.pooled_ridge(mu, self.threads)?),
        };
        let known = match given {
            None => self.tasks.start(self.rank, c.as_ref()),
            Some((u, _)) => Some(scaled(u, u.ncols().min(self.rank))),
        };
        let mut at = vec![completed(known, self.rank, self.seed)?];
        at.extend(c);
        Ok(at)
    }

    /// Walks down these ridges, each from where the one before ended; `done` gets what
    /// was learned with each, and says whether to go on. A walk that was interrupted goes
    /// on from its state.
    pub fn walk(
        &self,
        ridges: &[f64],
        mut state: Option<SolverState>,
        observer: Observer<'_>,
        mut done: impl FnMut(f64, &Learned) -> bool,
    ) -> Result<Learned> {
        let (mut at, mut before, mut first) = (Vec::new(), 0, 0);
        match &state {
            None => at = self.start()?,
            Some(state) => {
                first = state.number(PLACE)? as usize;
                before = state.number(BEFORE)? as usize;
            }
        }
        let mut last = None;
        for (i, &lambda) in ridges.iter().enumerate().skip(first) {
            let problem = SharedSubspace {
                tasks: &self.tasks,
                lambda,
                common: self.common.as_ref(),
                threads: self.threads,
            };
            let limits = match i + 1 == ridges.len() {
                true => Limits {
                    iterations: self.iterations,
                    decrease: self.tolerance,
                    ..Limits::default()
                },
                false => Limits {
                    iterations: STAGE.min(self.iterations),
                    decrease: STAGE_DECREASE,
                    ..Limits::default()
                },
            };
            let mut each = |step: &Iteration<'_>| {
                let state = || {
                    let state = step.state().with_number(PLACE, i as f64);
                    state.with_number(BEFORE, before as f64)
                };
                observer(before + step.number, step.cost, &state)
            };
            let solved = match state.take() {
                None => self.solver.solve(&problem, at, limits, &mut each),
                Some(state) => {
                    let solver = self.solver;
                    solver.resume(&problem, self.rank, &state, limits, &mut each)?
                }
            };
            before += solved.iterations;
            let interrupted = solved.ended == Ended::Interrupted;
            let learned = Learned {
                at: solved.point,
                prior: TaskPrior {
                    ridge: lambda,
                    ..self.frame.prior
                },
                cost: solved.cost,
                iterations: before,
                ended: solved.ended,
            };
            let go_on = done(lambda, &learned);
            at = learned.at.clone();
            last = Some(learned);
            if interrupted || !go_on {
                break;
            }
        }
        let mut last = last.ok_or_else(|| Error::failure("no ridge was given"))?;
        // Where the walk was stopped on its way, the subspace is as it is, but tasks are
        // fitted in it with the ridge that was meant.
        if let Some(&lambda) = ridges.last() {
            last.prior.ridge = lambda;
        }
        Ok(last)
    }
}

impl Learned {
    /// How rows are seen.
    pub fn view(&self, frame: &Frame) -> TaskView {
        let common = self.at.get(1);
        let common = common.map(|c| (0..c.nrows()).map(|i| c[(i, 0)]).collect());
        TaskView::new(&self.at[0], common, frame.preprocess.clone())
    }

    /// The moments of some tasks in the subspace, and what follows from them.
    pub fn tasks(&self, frame: &Frame, tasks: Range<usize>) -> (Vec<Moments>, Vec<TaskFit>) {
        let d = self.at[0].ncols() + 2;
        let moments = tasks.map(|t| {
            let mut moments = Moments::new(d);
            frame
                .coordinates(t, &self.at)
                .for_each(|row| moments.add(&row));
            moments
        });
        let moments: Vec<Moments> = moments.collect();
        let fits = moments.iter().map(|m| self.prior.fit(m)).collect();
        (moments, fits)
    }
}
