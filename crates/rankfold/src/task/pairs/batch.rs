//! Values of pairs learned in batch: all pairs at once, by a solver on the geometry
//! that the learner is named after.

use super::inputs::Inputs;
use super::session::PairsSession;
use super::{Pairs, PairsSolver};
use crate::batch::{Armijo, Ended, Limits, Penalty, Regression, Solver, SparsePairs};
use crate::data::ValuedPair;
use crate::form::{Factored, Form, Tall};
use crate::manifold::{Balanced, Blocks, Embedded, Factors, FixedRank, Polar, svd_of_product};
use crate::model::{Metrics, Model};
use crate::online::Rule;
use crate::task::course::Course;
use crate::task::inputs::TrainingData;
use crate::task::session::CurvePoint;
use crate::{Error, Real, Result};
use faer::Mat;

/// Iterations unless others are asked for.
const ITERATIONS: u64 = 200;

/// How a batch run ended.
#[derive(Debug, Clone)]
pub struct PairsBatch {
    /// The model: the best one by validation, or the last one.
    pub model: Model,
    /// Iterations done.
    pub iterations: u64,
    /// `converged`, `steps`, `patience` or `interrupted`.
    pub stopped: &'static str,
    /// Validation metrics of the model, where there were validation pairs.
    pub metrics: Metrics,
}

/// The two factors of W after an iteration.
type Pair = (Mat<f64>, Mat<f64>);

/// What a solver is watched by.
struct Watcher<'a, 'd, R: Real> {
    inputs: &'a Inputs<'d, R>,
    course: Course<Pair>,
    patience: Option<u32>,
    see: &'a mut dyn FnMut(&CurvePoint) -> bool,
    stopped: Option<&'static str>,
}

impl<R: Real> Watcher<'_, '_, R> {
    /// Looks at an iteration; false ends the run.
    fn iteration(&mut self, cost: f64, factors: impl Fn() -> Pair) -> bool {
        let counters = &mut self.course.counters;
        counters.steps += 1;
        counters.updates += 1;
        counters.total_loss += cost;
        self.course.window.loss += cost;
        self.course.window.steps += 1;
        if !self.course.is_due() {
            return true;
        }
        let validated = !self.inputs.validation.is_empty();
        let metrics = validated.then(|| {
            let (left, right) = factors();
            self.inputs.errors(&left, &right)
        });
        let point = self.course.measured(metrics, &factors);
        if !(self.see)(&point) {
            self.stopped = Some("interrupted");
        } else if validated && self.course.without_gain >= self.patience.unwrap_or(u32::MAX) {
            self.stopped = Some("patience");
        }
        self.stopped.is_none()
    }
}

impl Pairs {
    /// Learns from all pairs at once until the solver converges, or has done as many
    /// iterations as there are steps (200 by default). `see` is called at each point
    /// of the curve, by default each iteration, and ends the run when it says false.
    pub fn fit_batch<'a, R: Real>(
        &self,
        data: impl Into<TrainingData<'a, R>>,
        pairs: &[ValuedPair],
        valid: Option<&[ValuedPair]>,
        see: &mut dyn FnMut(&CurvePoint) -> bool,
    ) -> Result<PairsBatch> {
        let solver = match self.solver {
            PairsSolver::Online => {
                return Err(Error::input("the solver `online` does not learn in batch"));
            }
            PairsSolver::Descent => Solver::Descent(Armijo::default()),
            PairsSolver::Cg => Solver::ConjugateGradient {
                precondition: false,
            },
            PairsSolver::TrustRegion => Solver::TrustRegion,
        };
        // Its start is that of online learning, and so is the step size of later
        // updates.
        let session = PairsSession::new(self, data.into(), pairs, valid)?;
        let start = session.start_factors();
        let total = self.steps.unwrap_or(ITERATIONS);
        let mut watcher = Watcher {
            inputs: session.inputs(),
            course: Course::new(total, Some(self.curve_every.unwrap_or(1)))
                .judged_by(super::session::merit),
            patience: self.patience,
            see,
            stopped: None,
        };
        let solve = Solve {
            solver,
            lambda: self.regularization,
            limits: Limits {
                iterations: usize::try_from(total).unwrap_or(usize::MAX),
                ..Limits::default()
            },
        };
        let (last, ended) = match self.learner {
            Rule::Polar => {
                let retraction = self.retraction;
                solve.on(Polar { retraction }, Penalty::Matrix, start, &mut watcher)
            }
            Rule::Loreta => solve.on(Embedded, Penalty::Matrix, start, &mut watcher),
            Rule::Gradient => solve.on(Factors, Penalty::Factors, start, &mut watcher),
            _ => solve.on(Balanced, Penalty::Matrix, start, &mut watcher),
        }?;
        let Watcher {
            mut course,
            stopped,
            ..
        } = watcher;
        let stopped = stopped.unwrap_or(match ended {
            Ended::Converged => "converged",
            _ => "steps",
        });
        let metrics = course.metrics();
        let iterations = course.counters.steps;
        let best = course.best.take();
        let counters = best.as_ref().map_or(course.counters, |best| best.counters);
        let factors = best.map_or(last, |best| best.model);
        let form = stored::<R>(&factors)?.shaped(self.learner.shape())?;
        Ok(PairsBatch {
            model: session.into_model_of(form, counters, course.history),
            iterations,
            stopped,
            metrics,
        })
    }
}

struct Solve {
    solver: Solver,
    lambda: f64,
    limits: Limits,
}

impl Solve {
    fn on<M: FixedRank, R: Real>(
        &self,
        manifold: M,
        penalty: fn(f64) -> Penalty,
        (left, right): Pair,
        watcher: &mut Watcher<'_, '_, R>,
    ) -> Result<(Pair, Ended)> {
        let inputs = watcher.inputs;
        let problem = SparsePairs {
            left: &inputs.rows.rows,
            right: &inputs.right().rows,
            pairs: &inputs.training,
        };
        let regression = Regression::new(problem, manifold, penalty(self.lambda));
        let space = &regression.space.inner;
        let start: Blocks = space
            .point(&left, &right)
            .ok_or_else(|| Error::input("the start has lost rank to working precision"))?;
        let solved = self
            .solver
            .solve(&regression, start, self.limits, &mut |step| {
                watcher.iteration(step.cost, || space.factors(step.at))
            });
        Ok((space.factors(&solved.point), solved.ended))
    }
}

/// Singular values below this share of the largest are raised to it, so that a
/// solver that came near to a smaller rank leaves a matrix of the rank asked for.
const LEAST: f64 = 1e-6;

/// W as online learners store it: P Σ^½ and Q Σ^½ of its SVD.
fn stored<R: Real>((left, right): &Pair) -> Result<Form<R>> {
    let lost = || Error::failure("the solver left a matrix that is not finite, or zero");
    let (p, sigma, q) = svd_of_product(left, right, left.ncols()).ok_or_else(lost)?;
    let largest = sigma.first().copied().filter(|&s| s > 0.0);
    let least = LEAST * largest.ok_or_else(lost)?;
    let tall = |m: &Mat<f64>| {
        Tall::from_fn(m.nrows(), m.ncols(), |i, j| {
            m[(i, j)] * sigma[j].max(least).sqrt()
        })
    };
    Ok(Form::Factored(Factored::new(tall(&p)?, tall(&q)?)))
}
