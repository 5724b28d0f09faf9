//! A run of [`Metric`] on rows.

use super::constraints::{given, levels, random};
use super::engine::{Bounded, Engine, Lowered};
use super::start::start;
use super::{Metric, MetricInit, MetricLearner, RANK};
use crate::batch::{Bounds, Distances, Ended, Itml, Points, Wish, principal};
use crate::data::{Constraint, Labelled};
use crate::eval::{Neighbours, knn_wrong};
use crate::form::{Form, Full, Psd, Tall};
use crate::linalg::symmetric;
use crate::model::{Card, Counters, Distances as Levels, Metrics, Model, Precise, Score};
use crate::online::{Learner, Lego, RankOne, Step};
use crate::random::splitmix64;
use crate::task::inputs::{Things, renamed};
use crate::task::session::CurvePoint;
use crate::task::similarity::classes;
use crate::{Error, Real, Result, SparseVec, memory};
use faer::Mat;

/// Iterations unless others are asked for.
const ITERATIONS: usize = 200;

/// Neighbours that vote in validation.
const VOTES: usize = 5;

/// How a run ended.
#[derive(Debug, Clone)]
pub struct MetricFit {
    /// The model: the best one by validation, or the last one.
    pub model: Model,
    /// Iterations done.
    pub iterations: usize,
    /// `converged`, `steps`, `patience` or `interrupted`.
    pub stopped: &'static str,
    /// Validation metrics of the model, where there were validation rows.
    pub metrics: Metrics,
    /// Constraints that were learned from.
    pub constraints: usize,
    /// Those that the model does not keep to.
    pub violated: usize,
    /// The cost at the end.
    pub cost: f64,
}

/// Rows that judge, as the model sees them.
struct Validation {
    points: Points,
    classes: Vec<u32>,
}

/// What a run works on.
struct Run<'a, R: Real> {
    options: &'a Metric,
    things: Things<'a, R>,
    points: Points,
    classes: Option<Vec<u32>>,
    validation: Option<Validation>,
}

/// How the run goes on, and the best W so far.
struct Course<'a> {
    see: &'a mut dyn FnMut(&CurvePoint) -> bool,
    done: usize,
    every: usize,
    patience: Option<u32>,
    without_gain: u32,
    best: Option<(f64, Mat<f64>, usize)>,
    history: Vec<CurvePoint>,
    stopped: Option<&'static str>,
}

impl Metric {
    /// Learns from rows, and from constraints on their distances where they are given;
    /// else from their classes. `see` is told of the points of the curve and ends the
    /// run when it says false.
    pub fn fit_with<R: Real>(
        &self,
        data: &Labelled<R>,
        constraints: Option<&[Constraint]>,
        valid: Option<&Labelled<R>>,
        see: &mut dyn FnMut(&CurvePoint) -> bool,
    ) -> Result<MetricFit> {
        self.check()?;
        let run = Run::new(self, data, constraints, valid)?;
        run.fit(constraints, see)
    }
}

impl<'a, R: Real> Run<'a, R> {
    fn new(
        options: &'a Metric,
        data: &'a Labelled<R>,
        constraints: Option<&[Constraint]>,
        valid: Option<&Labelled<R>>,
    ) -> Result<Self> {
        let n = data.rows.len();
        if n < 2 {
            return Err(Error::input(format!(
                "a metric is learned from two rows at least, found {n}"
            )));
        }
        let name = |i: usize| data.ids.name(i).into_owned();
        let judged = valid.is_some() || options.valid_fraction > 0.0;
        let wanted =
            constraints.is_none() || judged || options.init == Some(MetricInit::ClassMeans);
        let all = match wanted {
            true => Some(classes(&data.labels, name).map_err(needs_one_label)?),
            false => None,
        };
        if valid.is_some() && options.valid_fraction > 0.0 {
            return Err(Error::input(
                "validation rows and a validation fraction exclude each other",
            ));
        }
        if constraints.is_some() && options.valid_fraction > 0.0 {
            return Err(Error::input(
                "constraints may name any row, so none can be held out: give validation rows in a file",
            ));
        }
        let held = |i: u32| {
            let share = splitmix64(splitmix64(options.seed ^ 0x6d65) ^ u64::from(i)) >> 11;
            (share as f64) < options.valid_fraction * (1_u64 << 53) as f64
        };
        let (out, members): (Vec<u32>, Vec<u32>) = (0..n as u32).partition(|&i| held(i));
        let things = Things::new(options.preprocess, data, all.clone(), members.clone())?;
        let finite = |v: &R| v.to_f64().is_finite();
        let rows = &*things.rows;
        if let Some(i) = (0..n).find(|&i| !rows.row(i).values.iter().all(finite)) {
            return Err(Error::input(format!(
                "row `{}` has values beyond the range of {}",
                name(i),
                R::NAME
            )));
        }
        let of = |members: &[u32]| Points::new(&rows.select(members.iter().map(|&i| i as usize)));
        let pick = |members: &[u32]| -> Option<Vec<u32>> {
            let all = all.as_ref()?;
            Some(members.iter().map(|&i| all[i as usize]).collect())
        };
        let points = if out.is_empty() {
            Points::new(rows)?
        } else {
            of(&members)?
        };
        let validation = match valid {
            Some(valid) => {
                let name = |i: usize| valid.ids.name(i).into_owned();
                let found = classes(&valid.labels, name).map_err(needs_one_label)?;
                let mut names = data.labels.names.clone();
                let found = renamed(&mut names, &valid.labels, found);
                let same = data.features.align(valid.rows.clone(), &valid.features)?;
                let prepared = things.preprocess.apply(&same, rows.columns())?;
                Some(Validation {
                    points: Points::new(&prepared)?,
                    classes: found,
                })
            }
            None if !out.is_empty() => Some(Validation {
                points: of(&out)?,
                classes: pick(&out).unwrap_or_default(),
            }),
            None => None,
        };
        Ok(Run {
            options,
            classes: pick(&members),
            things,
            points,
            validation,
        })
    }

    /// The rank, and whether it is full.
    fn rank(&self) -> Result<usize> {
        let d = self.points.features();
        if d == 0 {
            return Err(Error::input("rows without features have no metric"));
        }
        let options = self.options;
        let full = options.learner.is_cone();
        let rank = options.rank.unwrap_or(if full { d } else { RANK.min(d) });
        if rank > d {
            return Err(Error::input(format!(
                "rank {rank} is above the number of features, {d}"
            )));
        }
        let what = format!("a metric of {d} features and rank {rank}");
        memory::require(d as u128 * rank as u128 * 64, &what)?;
        Ok(rank)
    }

    fn engine(&self) -> Engine {
        let options = self.options;
        Engine {
            learner: options.learner,
            solver: options.solver,
            subspace_weight: options.subspace_weight,
            retraction: options.retraction,
            iterations: options.iterations.unwrap_or(ITERATIONS),
            tolerance: options.tolerance,
            threads: options.threads,
        }
    }

    /// The constraints of the whole run.
    fn bounds(&self, constraints: Option<&[Constraint]>, levels: Levels) -> Result<Vec<Bounded>> {
        if let Some(constraints) = constraints {
            let n = self.points.len() as u32;
            let beyond = constraints.iter().position(|c| c.left >= n || c.right >= n);
            if let Some(i) = beyond {
                return Err(Error::input(format!(
                    "constraint {i} names a row that is not there"
                )));
            }
            return Ok(given(constraints, levels));
        }
        let classes = self.classes.as_deref().unwrap_or_default();
        let mut different = classes.to_vec();
        different.sort_unstable();
        different.dedup();
        let c = different.len();
        if c < 2 {
            return Err(Error::input(
                "all rows are of one class: a metric needs two classes at least, or constraints",
            ));
        }
        let usual = 40 * c * (c - 1);
        let count = self.options.constraints.unwrap_or_else(|| {
            let more = classes.len().saturating_mul(10).min(100_000);
            usual.max(more)
        });
        memory::require(count as u128 * 64, &format!("{count} constraints"))?;
        Ok(random(classes, count, levels, self.options.seed))
    }

    fn fit(
        &self,
        constraints: Option<&[Constraint]>,
        see: &mut dyn FnMut(&CurvePoint) -> bool,
    ) -> Result<MetricFit> {
        let options = self.options;
        let (k, d) = (self.rank()?, self.points.features());
        let init = options.init.unwrap_or(match k == d {
            true => MetricInit::Identity,
            false => MetricInit::Pca,
        });
        let classes = self.classes.as_deref();
        let first = start(init, &self.points, classes, k, options.threads)?;
        let levels = levels(&self.points, &first, options.seed, options.threads)?;
        let bounds = self.bounds(constraints, levels)?;
        let mut course = Course {
            see,
            done: 0,
            every: usize::try_from(options.curve_every.unwrap_or(1)).unwrap_or(usize::MAX),
            patience: options.patience,
            without_gain: 0,
            best: None,
            history: Vec::new(),
            stopped: None,
        };
        let lowered = match options.learner {
            MetricLearner::Itml => self.itml(&first, &bounds, &mut course)?,
            MetricLearner::Lego => self.lego(&first, &bounds, &mut course)?,
            _ => {
                let mut told = |_, cost, g: &Mat<f64>| self.told(&mut course, cost, g);
                self.engine()
                    .bounds(&self.points, &bounds, &first, &mut told)?
            }
        };
        let stopped = course.stopped.unwrap_or(match lowered.ended {
            Ended::Converged => "converged",
            _ => "steps",
        });
        let (factor, iterations, metrics) = match course.best.take() {
            Some((_, factor, at)) => {
                let point = course
                    .history
                    .iter()
                    .find(|p| p.counters.steps == at as u64);
                (factor, course.done, point.map(|p| p.metrics.clone()))
            }
            None => (lowered.factor, course.done, None),
        };
        let distances = {
            let pairs = bounds.iter().map(|(pair, ..)| *pair).collect();
            Distances::new(&self.points, pairs, options.threads)?
        };
        let found = distances.of(&distances.project(&factor));
        let wish = Bounds {
            list: bounds.iter().map(|&(_, bound, y)| (bound, y)).collect(),
        };
        let model = self.model(&factor, init, levels, iterations, course.history)?;
        Ok(MetricFit {
            model,
            iterations,
            stopped,
            metrics: metrics.unwrap_or_default(),
            constraints: bounds.len(),
            violated: wish.violated(&found),
            cost: wish.cost(&found),
        })
    }

    /// Looks at W after an iteration; false ends the run.
    fn told(&self, course: &mut Course<'_>, cost: f64, factor: &Mat<f64>) -> bool {
        course.done += 1;
        if !course.done.is_multiple_of(course.every) {
            return true;
        }
        let mut point = point(course.done, cost);
        if let Some(validation) = &self.validation {
            let error = self.knn_error(validation, factor);
            point.metrics.insert("knn_error".into(), error);
            course.history.push(point.clone());
            if course.best.as_ref().is_none_or(|best| error < best.0) {
                course.best = Some((error, factor.clone(), course.done));
                course.without_gain = 0;
            } else {
                course.without_gain += 1;
            }
        }
        if !(course.see)(&point) {
            course.stopped = Some("interrupted");
        } else if course.without_gain >= course.patience.unwrap_or(u32::MAX) {
            course.stopped = Some("patience");
        }
        course.stopped.is_none()
    }

    fn knn_error(&self, validation: &Validation, factor: &Mat<f64>) -> f64 {
        let threads = self.options.threads;
        let rank = factor.ncols();
        let project = |points: &Points| points.embedded(factor, threads);
        let (train, test) = (project(&self.points), project(&validation.points));
        let rows = |values, classes| Neighbours {
            values,
            classes,
            rank,
        };
        let known = self.classes.as_deref().unwrap_or_default();
        let wrong = knn_wrong(
            VOTES,
            Some(rows(&train, known)),
            rows(&test, &validation.classes),
            threads,
        );
        wrong as f64 / validation.classes.len() as f64
    }

    /// Principal directions, and the points in them, where the rank is not full.
    fn reduced(&self, first: &Mat<f64>) -> Result<(Option<Mat<f64>>, Mat<f64>)> {
        let (k, d) = (first.ncols(), self.points.features());
        let threads = self.options.threads;
        memory::require(self.points.len() as u128 * k as u128 * 16, "projected rows")?;
        match k == d {
            true => {
                let all = Mat::identity(d, d);
                Ok((None, self.points.product(&all, threads)))
            }
            false => {
                let (directions, _) = principal(&self.points, k, threads)?;
                let reduced = self.points.product(&directions, threads);
                Ok((Some(directions), reduced))
            }
        }
    }

    /// ITML at full rank, or after PCA.
    fn itml(
        &self,
        first: &Mat<f64>,
        bounds: &[Bounded],
        course: &mut Course<'_>,
    ) -> Result<Lowered> {
        let (directions, x) = self.reduced(first)?;
        let itml = Itml {
            slack: self.options.slack,
            rounds: self.options.iterations.unwrap_or(Itml::default().rounds),
            ..Itml::default()
        };
        let mut stopped = false;
        let (w, rounds) = itml.learn(&x, bounds, &mut |round| {
            course.done = round;
            stopped = !(course.see)(&point(round, f64::NAN));
            !stopped
        })?;
        if stopped {
            course.stopped = Some("interrupted");
        }
        let ended = match rounds < itml.rounds {
            true => Ended::Converged,
            false => Ended::Iterations,
        };
        lowered(directions, &w, rounds, ended)
    }

    /// One pass of LEGO over the constraints, at full rank or after PCA, with the best
    /// of several step sizes by the cost at its end.
    fn lego(
        &self,
        first: &Mat<f64>,
        bounds: &[Bounded],
        course: &mut Course<'_>,
    ) -> Result<Lowered> {
        let (directions, x) = self.reduced(first)?;
        let sizes: Vec<f64> = match self.options.step_size {
            Some(size) => vec![size],
            None => (-10..=3).map(|power| 10_f64.powi(power)).collect(),
        };
        let passes = self.options.iterations.unwrap_or(1);
        let mut best: Option<(f64, Mat<f64>)> = None;
        for size in sizes {
            let w = lego(&x, bounds, size, passes)?;
            let cost = cost_of(&x, bounds, &w);
            if cost.is_finite() && best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, w));
            }
        }
        let (_, w) = best.ok_or_else(|| Error::failure("LEGO left the range of numbers"))?;
        course.done = passes;
        lowered(directions, &w, passes, Ended::Iterations)
    }

    /// The model of W = G Gᵀ.
    fn model(
        &self,
        factor: &Mat<f64>,
        init: MetricInit,
        levels: Levels,
        iterations: usize,
        history: Vec<CurvePoint>,
    ) -> Result<Model> {
        let options = self.options;
        let form = stored::<R>(factor)?;
        let polar = options.learner == MetricLearner::Polar;
        Ok(Model {
            card: Card {
                score: Score::Distance,
                seed: options.seed,
                distances: Some(levels),
                retraction: polar.then_some(options.retraction),
                init: init.name().into(),
                counters: counters(iterations),
                history,
                ..Card::new("metric", options.learner.name())
            },
            form: Precise::new(form),
            features: self.things.features.clone(),
            preprocess: self.things.preprocess.clone(),
            objects: None,
            prior: None,
            levels: None,
        })
    }
}

pub(super) fn needs_one_label(error: Error) -> Error {
    let message = error.message.replace("similarity needs", "a metric needs");
    Error { message, ..error }
}

/// A point of the curve without metrics.
fn point(iterations: usize, cost: f64) -> CurvePoint {
    CurvePoint {
        counters: counters(iterations),
        loss: cost,
        metrics: Metrics::new(),
    }
}

fn counters(iterations: usize) -> Counters {
    Counters {
        steps: iterations as u64,
        updates: iterations as u64,
        ..Counters::default()
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

/// Singular values below this share of the largest are raised to it, so that a
/// solver that came near to a smaller rank leaves a matrix of the rank asked for.
const LEAST: f64 = 1e-6;

/// W as forms store it: the eigenvectors of W with the roots of its eigenvalues.
pub(crate) fn stored<R: Real>(factor: &Mat<f64>) -> Result<Form<R>> {
    let lost = || Error::failure("the solver left a matrix that is not finite, or zero");
    let k = factor.ncols();
    let (p, sigma, _) = crate::linalg::svd(factor).ok_or_else(lost)?;
    let largest = sigma
        .first()
        .copied()
        .filter(|&s| s > 0.0)
        .ok_or_else(lost)?;
    let tall = Tall::from_fn(factor.nrows(), k, |i, j| {
        p[(i, j)] * sigma[j].max(LEAST * largest)
    })?;
    Ok(Form::Psd(Psd::new(tall)))
}
