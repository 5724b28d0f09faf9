//! Values of pairs learned in batch: all pairs at once, by a solver on the geometry
//! that the learner is named after.

use super::inputs::Inputs;
use super::session::merit;
use super::{Pairs, PairsData, PairsSolver};
use crate::batch::{
    Armijo, Ended, Iteration, Limits, Penalty, Regression, Solver, SolverState, SparsePairs,
};
use crate::form::{Factored, Form, Tall};
use crate::manifold::{Balanced, Blocks, Embedded, Factors, FixedRank, Polar, svd_of_product};
use crate::online::Rule;
use crate::task::course::Course;
use crate::task::driver::Driver;
use crate::task::run::{Fit, Run};
use crate::task::session::Snapshot;
use crate::task::start::StartInit;
use crate::{Error, Real, Result};
use faer::Mat;

/// Iterations unless others are asked for.
const ITERATIONS: u64 = 200;

/// The two factors of W after an iteration.
type Pair = (Mat<f64>, Mat<f64>);

impl Pairs {
    /// Learns from all pairs at once until the solver converges or has done its
    /// iterations.
    pub(super) fn fit_batch<R: Real>(&self, data: PairsData<'_, R>, run: Run<'_>) -> Result<Fit> {
        let solver = match self.solver {
            PairsSolver::Online => {
                return Err(Error::input("the solver `online` does not learn in batch"));
            }
            PairsSolver::Descent => Solver::Descent(Armijo {
                longest: self.first_step,
                ..Armijo::default()
            }),
            PairsSolver::Cg => Solver::ConjugateGradient {
                precondition: false,
            },
            PairsSolver::TrustRegion => Solver::TrustRegion,
        };
        // Its start is that of online learning, and so is the step size of later
        // updates.
        let inputs = Inputs::new(self, data)?;
        let total = self.iterations.unwrap_or(ITERATIONS);
        let course = Course::new(total, Some(self.curve_every.unwrap_or(1))).judged_by(merit);
        let validated = !inputs.validation.is_empty();
        let fingerprint = inputs.fingerprint ^ inputs.objects_fingerprint.unwrap_or(0);
        let mut driver = Driver::new(run, course, self, fingerprint)?;
        driver = driver.patient(self.patience, validated)?;
        let resumed = driver.resume(self)?;
        let given = driver.started::<Pairs>(self.init == StartInit::Model, |start| {
            let found = self.started_from(&inputs, start)?;
            Ok((found.factors.into(), found.note))
        })?;
        let form = match given.as_deref() {
            Some([left, right]) => self.shaped(&[left.clone(), right.clone()])?,
            _ => super::session::start(self, &inputs)?,
        };
        let session = self.session_from(inputs, form)?;
        let work = session.work();
        let start = work.factors();
        if resumed.is_none() {
            driver.trials = session.trials().to_vec();
        }
        let solve = Solve {
            solver,
            lambda: self.regularization,
            state: resumed.as_ref().map(|resumed| &resumed.solver),
            limits: Limits {
                iterations: usize::try_from(total).unwrap_or(usize::MAX),
                ..Limits::default()
            },
        };
        let (last, ended) = match self.learner {
            Rule::Polar => {
                let retraction = self.retraction;
                solve.on(
                    Polar { retraction },
                    Penalty::Matrix,
                    (&work.inputs, start),
                    &mut driver,
                )
            }
            Rule::Loreta => solve.on(
                Embedded,
                Penalty::Matrix,
                (&work.inputs, start),
                &mut driver,
            ),
            Rule::Gradient => solve.on(
                Factors,
                Penalty::Factors,
                (&work.inputs, start),
                &mut driver,
            ),
            _ => solve.on(
                Balanced,
                Penalty::Matrix,
                (&work.inputs, start),
                &mut driver,
            ),
        }?;
        let report = driver.finish(ended)?;
        let counters = driver.counters();
        let Course { best, history, .. } = driver.course;
        let factors = best.map_or(last, |best| best.model);
        let form = stored::<R>(&factors)?.shaped(self.learner.shape())?;
        let kept = Snapshot { form, bias: None };
        let mut model = session.model_of(kept, counters)?;
        model.card.history = history;
        Ok(Fit { model, report })
    }
}

struct Solve<'s> {
    state: Option<&'s SolverState>,
    solver: Solver,
    lambda: f64,
    limits: Limits,
}

impl Solve<'_> {
    fn on<M: FixedRank, R: Real>(
        &self,
        manifold: M,
        penalty: fn(f64) -> Penalty,
        (inputs, (left, right)): (&Inputs<'_, R>, Pair),
        driver: &mut Driver<'_, Pair>,
    ) -> Result<(Pair, Ended)> {
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
        let rank = left.ncols();
        let mut observer = |step: &Iteration<'_>| {
            let metrics = || {
                let (left, right) = space.factors(step.at);
                let validated = !inputs.validation.is_empty();
                validated.then(|| inputs.errors(&left, &right))
            };
            let factors = || space.factors(step.at);
            driver.iteration(step.cost, metrics, factors, Some(&|| step.state()))
        };
        let (solver, limits) = (self.solver, self.limits);
        let solved = match self.state {
            Some(state) => solver.resume(&regression, rank, state, limits, &mut observer)?,
            None => solver.solve(&regression, start, limits, &mut observer),
        };
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
