//! One fit of a factorization with everything given.

use super::learner::{CompletionInit, CompletionLearner, CompletionSolver, Method};
use super::online::{factors_of, form_for, gain, rule_of, step_on, tall_factors};
use crate::Result;
use crate::batch::{
    Als, Armijo, Bayes, Completion, Ended, Fitted, Iteration, Limits, Lines, Objective, Observed,
    OptSpace, Part, Penalty, Posterior, Regression, Ridge, Solved, Solver, SolverState, Subspace,
    Sureness, Svp, View, grow, trimmed_start,
};
use crate::linalg::qf;
use crate::manifold::{Balanced, Biased, Blocks, Embedded, Factors, FixedRank, Polar};
use crate::online::{AnyLearner, BIAS_RIDGE};
use crate::parallel::map_rows;
use crate::random::{Random, normal_at};
use faer::Mat;

/// What a fit came to.
pub(super) struct Fit {
    pub fitted: Fitted,
    pub iterations: usize,
    pub ended: Ended,
    /// The noise that was found, where it is part of the model.
    pub noise: Option<f64>,
    /// How sure the model is, where it learned that.
    pub sureness: Option<Sureness>,
}

/// An iteration of a fit.
pub(super) struct Moment<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// The cost after it; not a number where it was not computed.
    pub cost: f64,
    /// The model after it.
    pub model: &'a dyn Fn() -> Fitted,
    /// From which the fit can go on; without it a resumed fit starts again.
    pub state: Option<&'a dyn Fn() -> SolverState>,
}

/// Called after each iteration; false ends the work.
pub(super) type Observer<'a> = &'a mut dyn FnMut(&Moment<'_>) -> bool;

/// Tells an observer what a solver did; `model` makes a model of its point.
fn tell<P>(observer: Observer<'_>, step: &Iteration<'_, P>, model: &dyn Fn(&P) -> Fitted) -> bool {
    observer(&Moment {
        number: step.number,
        cost: step.cost,
        model: &|| model(step.at),
        state: Some(&|| step.state()),
    })
}

/// Iterations before those of the solver, in its state.
pub(super) const STAGES: &str = "stages";

/// The noise that was found, in the state of the solver.
const NOISE: &str = "noise";

/// The purpose of the random order of entries.
const ORDER: u64 = 0x0de5;

/// Passes after which online steps are half as long.
const HALF_PACE: f64 = 5.0;

/// Residuals below this share of the entries are none.
const EXACT: f64 = 1e-10;

/// Sweeps for biases alone.
const BIAS_SWEEPS: usize = 5;

/// Lines whose biases a thread sets at a time.
const BIAS_BLOCK: usize = 256;

/// Iterations at each rank on the way up.
fn stage(method: &Method) -> usize {
    match (method.learner, method.solver) {
        (CompletionLearner::Als, _) => 6,
        (_, CompletionSolver::TrustRegion) => 4,
        _ => 20,
    }
}

/// Biases and a center alone, with a penalty that suits ratings. Without biases
/// only zeros.
pub(super) fn biases_only(entries: View<'_>, biases: bool, threads: usize) -> Fitted {
    let shape = (entries.rows.len(), entries.columns.len());
    let center = if biases { entries.mean() } else { 0.0 };
    let empty = Fitted::empty(shape, center, biases);
    if !biases {
        return empty;
    }
    let mut found = [vec![0.0; shape.0], vec![0.0; shape.1]];
    for _ in 0..BIAS_SWEEPS {
        let [users, items] = &mut found;
        level(entries.rows, users, items, center, threads);
        level(entries.columns, items, users, center, threads);
    }
    Fitted {
        biases: Some(found),
        ..empty
    }
}

/// Sets the biases of one side by ridge regression, given those of the other.
fn level(lines: Lines<'_>, own: &mut [f64], other: &[f64], center: f64, threads: usize) {
    map_rows(own, 1, BIAS_BLOCK, threads, |first, own| {
        for (i, bias) in (first..).zip(own) {
            let (index, value) = lines.line(i);
            let left = index
                .iter()
                .zip(value)
                .map(|(&j, y)| y - center - other[j as usize]);
            *bias = left.sum::<f64>() / (index.len() as f64 + BIAS_RIDGE);
        }
    });
}

impl Method {
    /// Fits the kept entries at a rank; from a model of smaller rank, or from the state
    /// of the same fit, where one is given.
    pub(super) fn fit(
        &self,
        observed: &Observed,
        part: Part,
        rank: usize,
        warm: Option<&Fitted>,
        state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Fit> {
        let entries = observed.part(part);
        if self.learner == CompletionLearner::Bayes {
            return self.bayes(entries, rank, state, observer);
        }
        let base = match warm {
            Some(warm) => warm.clone(),
            None => biases_only(entries, self.biases, self.threads),
        };
        if self.solver == CompletionSolver::Online {
            let more = rank - base.rank();
            return self.online(entries, self.grown(entries, base, more), observer);
        }
        match self.learner {
            CompletionLearner::Grassmann | CompletionLearner::Svp | CompletionLearner::OptSpace => {
                // These know nothing of biases: they get what biases leave.
                let left = observed.map(|i, j, y| y - bias_at(&base, i, j))?;
                let offset = |fitted: Fitted| Fitted {
                    biases: base.biases.clone(),
                    center: base.center,
                    ..fitted
                };
                let mut observer = |moment: &Moment<'_>| {
                    observer(&Moment {
                        model: &|| offset((moment.model)()),
                        ..*moment
                    })
                };
                let bare = Fitted {
                    biases: None,
                    center: 0.0,
                    ..base.clone()
                };
                let fit = self.staged(left.part(part), bare, rank, state, &mut observer)?;
                Ok(Fit {
                    fitted: offset(fit.fitted),
                    ..fit
                })
            }
            _ => self.staged(entries, base, rank, state, observer),
        }
    }

    fn bayes(
        &self,
        entries: View<'_>,
        rank: usize,
        state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Fit> {
        let bayes = Bayes {
            entries,
            rank,
            prune: self.prune,
            biases: self.biases,
            implicit: self.implicit,
            seed: self.seed,
            threads: self.threads,
        };
        let mut noise = state.and_then(|state| state.numbers.get(NOISE).copied());
        let mut each = |sweep: &Iteration<'_, _>| {
            noise = Some(sweep.cost);
            observer(&Moment {
                number: sweep.number,
                cost: sweep.cost,
                model: &|| Posterior::model(sweep.at),
                state: Some(&|| sweep.state().with_number(NOISE, sweep.cost)),
            })
        };
        let (sweeps, tolerance) = (self.iterations, self.tolerance);
        let solved = match state {
            None => bayes.solve(sweeps, tolerance, &mut each),
            Some(state) => bayes.resume(state, sweeps, tolerance, &mut each)?,
        };
        Ok(Fit {
            fitted: solved.point.model(),
            iterations: solved.iterations,
            ended: solved.ended,
            noise,
            sureness: Some(solved.point.sureness()),
        })
    }

    /// Passes over the entries in random order, a step for each. Steps shrink from
    /// pass to pass.
    fn online(&self, entries: View<'_>, start: Fitted, observer: Observer<'_>) -> Result<Fit> {
        let rule = rule_of(self.learner).expect("an online learner");
        let size = self.pace / gain(self.learner, &start);
        let form = form_for(Some(rule), tall_factors::<f64>(&start)?)?;
        let mut learner = AnyLearner::new(rule, form, 0)?
            .regularized(self.lambda)
            .retracted(self.retraction);
        let rows = entries.rows;
        let mut order: Vec<(u32, u32)> = (0..rows.len())
            .flat_map(|i| (0..rows.count(i)).map(move |at| (i as u32, at as u32)))
            .collect();
        let mut biases = start.biases.clone();
        let model = |learner: &AnyLearner<f64>, biases: &Option<[Vec<f64>; 2]>| {
            let factors = factors_of(learner);
            let (left, right) = factors.unwrap_or((start.left.clone(), start.right.clone()));
            Fitted {
                left,
                right,
                biases: biases.clone(),
                center: start.center,
            }
        };
        let mut ended = Ended::Iterations;
        let mut done = 0;
        for pass in 0..self.iterations {
            let mut random = Random::new(self.seed, ORDER + pass as u64);
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i + 1));
            }
            let size = size / (1.0 + pass as f64 / HALF_PACE);
            // Each bias has seen all of its entries in every pass before.
            let passes = (pass + 1) as f64;
            for &(i, at) in &order {
                let (index, value) = rows.line(i as usize);
                let (j, y) = (index[at as usize], value[at as usize]);
                let counts = [
                    passes * rows.count(i as usize) as f64,
                    passes * entries.columns.count(j as usize) as f64,
                ];
                let entry = (i, j, y);
                step_on(
                    &mut learner,
                    biases.as_mut(),
                    counts,
                    entry,
                    start.center,
                    size,
                );
            }
            done = pass + 1;
            let moment = Moment {
                number: done,
                cost: f64::NAN,
                model: &|| model(&learner, &biases),
                state: None,
            };
            if !observer(&moment) {
                ended = Ended::Interrupted;
                break;
            }
        }
        Ok(Fit {
            fitted: model(&learner, &biases),
            iterations: done,
            ended,
            noise: None,
            sureness: None,
        })
    }

    /// Grows a model to the rank, by the start that was asked for, then solves.
    fn staged(
        &self,
        entries: View<'_>,
        base: Fitted,
        rank: usize,
        state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Fit> {
        let mut done = 0;
        let mut model = base;
        if let Some(state) = state {
            // The stages are behind it. Any model of the rank has the shapes of the state.
            done = state.number(STAGES)? as usize;
            let more = rank - model.rank();
            model = self.grown(entries, model, more);
        }
        while model.rank() < rank {
            let more = match self.start {
                CompletionInit::Continuation => 1,
                _ => rank - model.rank(),
            };
            model = self.grown(entries, model, more);
            if model.rank() < rank {
                let mut interrupted = false;
                let fit = self.run(entries, model, stage(self), None, &mut |moment| {
                    interrupted = !observer(&Moment {
                        number: done + moment.number,
                        state: None,
                        ..*moment
                    });
                    !interrupted
                })?;
                (model, done) = (fit.fitted, done + fit.iterations);
                if interrupted {
                    // The rest of the rank is there, if only as a start.
                    let more = rank - model.rank();
                    model = self.grown(entries, model, more);
                    return Ok(Fit {
                        fitted: model,
                        iterations: done,
                        ended: Ended::Interrupted,
                        noise: None,
                        sureness: None,
                    });
                }
            }
        }
        let mut each = |moment: &Moment<'_>| {
            let state = moment.state;
            let state = || {
                let state = state.expect("every solver has one")();
                state.with_number(STAGES, done as f64)
            };
            observer(&Moment {
                number: done + moment.number,
                state: Some(&state),
                ..*moment
            })
        };
        let fit = self.run(entries, model, self.iterations, state, &mut each)?;
        Ok(Fit {
            iterations: done + fit.iterations,
            ..fit
        })
    }

    /// The model with columns added to its factors.
    fn grown(&self, entries: View<'_>, model: Fitted, more: usize) -> Fitted {
        if more == 0 {
            return model;
        }
        let problem = Completion {
            entries,
            center: model.center,
            threads: self.threads,
        };
        let k = model.rank();
        let (n, m) = (model.left.nrows(), model.right.nrows());
        let found = match self.start {
            CompletionInit::Random => None,
            _ if self.learner == CompletionLearner::OptSpace && k == 0 => {
                let counts = [entries.rows, entries.columns]
                    .map(|lines| (0..lines.len()).map(|i| lines.count(i)).collect());
                trimmed_start(&problem, more, counts, self.seed)
            }
            _ => {
                // Biases stand between the factors and what is new.
                let (left, right) = model.factors();
                grow(&problem, &left, &right, more, self.seed).map(|(l, r)| {
                    let new = |whole: &Mat<f64>, old: &Mat<f64>| {
                        let added = whole.subcols(whole.ncols() - more, more).to_owned();
                        crate::manifold::beside(old, &added)
                    };
                    (new(&l, &model.left), new(&r, &model.right))
                })
            }
        };
        // Nothing to go by, or a random start was asked for: small random columns.
        let (left, right) = found.unwrap_or_else(|| {
            let spread = entries.mean_square(model.center).sqrt().max(1e-3);
            let scale = (spread / (more as f64).sqrt()).sqrt() * 0.3;
            let column = |rows: usize, side: u64| {
                Mat::from_fn(rows, more, |i, j| {
                    scale * normal_at(self.seed, side, i as u64, (k + j) as u64)
                })
            };
            (
                crate::manifold::beside(&model.left, &column(n, 2)),
                crate::manifold::beside(&model.right, &column(m, 3)),
            )
        });
        Fitted {
            left,
            right,
            ..model
        }
    }

    /// Costs of ALS and of subspaces are sums over entries, others are means.
    fn limits(&self, entries: View<'_>, center: f64, iterations: usize) -> Limits {
        let count = match self.learner {
            CompletionLearner::Als | CompletionLearner::Grassmann => entries.count as f64,
            _ => 1.0,
        };
        Limits {
            iterations,
            decrease: self.tolerance,
            cost: 0.5 * count * entries.mean_square(center) * EXACT * EXACT,
            ..Limits::default()
        }
    }

    /// Solves at the rank that the model has.
    fn run(
        &self,
        entries: View<'_>,
        model: Fitted,
        iterations: usize,
        state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Fit> {
        let problem = Completion {
            entries,
            center: model.center,
            threads: self.threads,
        };
        let limits = self.limits(entries, model.center, iterations);
        match self.learner {
            CompletionLearner::Als => {
                let als = Als {
                    entries,
                    lambda: self.lambda,
                    power: self.power,
                    threads: self.threads,
                };
                let mut each =
                    |sweep: &Iteration<'_, Fitted>| tell(&mut *observer, sweep, &Fitted::clone);
                let solved = match state {
                    None => als.solve(model, limits, &mut each),
                    Some(state) => als.resume(model.rank(), state, limits, &mut each)?,
                };
                Ok(fit_of(solved, |fitted| fitted))
            }
            CompletionLearner::Polar => {
                let polar = Polar {
                    retraction: self.retraction,
                };
                self.geometry(problem, polar, model, limits, state, observer)
            }
            CompletionLearner::Balanced => {
                self.geometry(problem, Balanced, model, limits, state, observer)
            }
            CompletionLearner::Embedded => {
                self.geometry(problem, Embedded, model, limits, state, observer)
            }
            CompletionLearner::Gradient => {
                self.geometry(problem, Factors, model, limits, state, observer)
            }
            CompletionLearner::Grassmann => self.subspace(entries, model, limits, state, observer),
            CompletionLearner::Svp => {
                let start = (model.left.clone(), model.right.clone());
                let with = |left: &Mat<f64>, right: &Mat<f64>| Fitted {
                    left: left.clone(),
                    right: right.clone(),
                    ..model.clone()
                };
                let with = |(left, right): &(Mat<f64>, Mat<f64>)| with(left, right);
                let mut each = |step: &Iteration<'_, _>| tell(&mut *observer, step, &with);
                let svp = Svp { problem };
                let solved = match state {
                    None => svp.solve(start, limits, &mut each),
                    Some(state) => svp.resume(model.rank(), state, limits, &mut each)?,
                };
                Ok(fit_of(solved, |point| with(&point)))
            }
            CompletionLearner::OptSpace => {
                let objective = OptSpace { problem };
                let start = orthonormal(&model.left).zip(orthonormal(&model.right));
                let Some((u, v)) = start else {
                    return Ok(unsolved(model));
                };
                let with = |at: &Blocks| Fitted {
                    left: &at[0] * objective.core(&at[0], &at[1]),
                    right: at[1].clone(),
                    ..model.clone()
                };
                let start = Start::new(vec![u, v], model.rank(), state);
                self.solve(&objective, start, limits, &with, observer)
            }
            CompletionLearner::Auto | CompletionLearner::Bayes | CompletionLearner::Loreta => {
                unreachable!("not solved by stages")
            }
        }
    }

    fn solver(&self) -> Solver {
        match self.solver {
            CompletionSolver::Descent => Solver::Descent(Armijo {
                longest: self.first_step,
                ..Armijo::default()
            }),
            CompletionSolver::TrustRegion => Solver::TrustRegion,
            _ => Solver::ConjugateGradient {
                precondition: self.start == CompletionInit::Continuation,
            },
        }
    }

    fn geometry<M: FixedRank>(
        &self,
        problem: Completion<'_>,
        manifold: M,
        model: Fitted,
        limits: Limits,
        state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Fit> {
        let Some(mut start) = manifold.point(&model.left, &model.right) else {
            return Ok(unsolved(model));
        };
        let count = problem.entries.count.max(1) as f64;
        // Biases have the ridge of so many entries, as in biases alone.
        let ridge = 4.0 / count;
        let weights = model.biases.as_ref().map(|biases| {
            let column = |b: &Vec<f64>| Mat::from_fn(b.len(), 1, |i, _| b[i]);
            start.extend(biases.iter().map(column));
            [problem.entries.rows, problem.entries.columns].map(|lines| {
                let weight = |i| lines.count(i) as f64 / count + ridge;
                (0..lines.len()).map(weight).collect()
            })
        });
        let regression = Regression {
            problem,
            space: Biased {
                inner: manifold,
                weights,
            },
            penalty: match self.learner {
                CompletionLearner::Gradient => Penalty::Factors(self.lambda),
                _ => Penalty::Matrix(self.lambda),
            },
            ridge,
        };
        let with = |at: &Blocks| {
            let (w, biases) = regression.space.parts(at);
            let (left, right) = regression.space.inner.factors(w);
            let column = |b: &Mat<f64>| (0..b.nrows()).map(|i| b[(i, 0)]).collect();
            Fitted {
                left,
                right,
                biases: match biases {
                    [b, c] => Some([column(b), column(c)]),
                    _ => None,
                },
                center: model.center,
            }
        };
        let start = Start::new(start, model.rank(), state);
        self.solve(&regression, start, limits, &with, observer)
    }

    fn subspace(
        &self,
        entries: View<'_>,
        model: Fitted,
        limits: Limits,
        state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Fit> {
        // The subspace is that of the side with fewer lines.
        let flip = entries.rows.len() > entries.columns.len();
        let problem = Subspace {
            entries: if flip { entries.transposed() } else { entries },
            center: 0.0,
            lambda: self.lambda,
            ridge: Ridge::OffMask,
            threads: self.threads,
        };
        let with = |at: &Blocks| {
            let (u, w) = (at[0].clone(), problem.weights(&at[0]));
            let (left, right) = if flip { (w, u) } else { (u, w) };
            Fitted {
                left,
                right,
                ..model.clone()
            }
        };
        let side = if flip { &model.right } else { &model.left };
        let Some(start) = orthonormal(side) else {
            return Ok(unsolved(model));
        };
        let start = Start::new(vec![start], model.rank(), state);
        self.solve(&problem, start, limits, &with, observer)
    }

    /// Solves a problem on a manifold, from a start or from a state.
    fn solve<O: Objective>(
        &self,
        objective: &O,
        start: Start<'_>,
        limits: Limits,
        model: &dyn Fn(&Blocks) -> Fitted,
        observer: Observer<'_>,
    ) -> Result<Fit> {
        let mut each = |step: &Iteration<'_>| tell(&mut *observer, step, model);
        let solved = match start {
            Start::At(point) => self.solver().solve(objective, point, limits, &mut each),
            Start::From(rank, state) => {
                let solver = self.solver();
                solver.resume(objective, rank, state, limits, &mut each)?
            }
        };
        Ok(fit_of(solved, |point| model(&point)))
    }
}

/// Where a solver on a manifold begins.
enum Start<'a> {
    At(Blocks),
    /// At this rank, from this state.
    From(usize, &'a SolverState),
}

impl<'a> Start<'a> {
    fn new(point: Blocks, rank: usize, state: Option<&'a SolverState>) -> Self {
        match state {
            None => Start::At(point),
            Some(state) => Start::From(rank, state),
        }
    }
}

fn fit_of<P>(solved: Solved<P>, model: impl FnOnce(P) -> Fitted) -> Fit {
    Fit {
        fitted: model(solved.point),
        iterations: solved.iterations,
        ended: solved.ended,
        noise: None,
        sureness: None,
    }
}

/// The center and the biases of a place.
fn bias_at(model: &Fitted, i: usize, j: usize) -> f64 {
    model.center + model.biases.as_ref().map_or(0.0, |[b, c]| b[i] + c[j])
}

fn orthonormal(m: &Mat<f64>) -> Option<Mat<f64>> {
    qf(m).or_else(|| crate::manifold::thin_qr(m).map(|(q, _)| q))
}

/// A start that has lost rank cannot be improved on.
fn unsolved(model: Fitted) -> Fit {
    Fit {
        fitted: model,
        iterations: 0,
        ended: Ended::Converged,
        noise: None,
        sureness: None,
    }
}
