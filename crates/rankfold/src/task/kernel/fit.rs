//! A run of [`Kernel`].

use super::source::Source;
use super::{Kernel, KernelData, KernelInit};
use crate::batch::{Armijo, Bound, Bounds, Distances, Ended, Pair, PairLoss, Points};
use crate::data::{Constraint, Features, Labels, Relation};
use crate::form::Side;
use crate::linalg::svd;
use crate::model::{Card, KernelCard, Knowledge, Model, Precise, Preprocess, Score};
use crate::random::Random;
use crate::task::course::Course;
use crate::task::driver::{Driver, Resumed};
use crate::task::inputs::Fingerprint;
use crate::task::metric::{Bounded, Engine, Lowered, MetricLearner, MetricSolver, stored};
use crate::task::run::{Fit, Run};
use crate::task::similarity::classes;
use crate::task::start::{Side as SideOf, Start};
use crate::{Error, Real, Result, memory};
use faer::Mat;

/// The stream of random numbers that draws pairs.
const PAIRS: u64 = 22;

/// Violations by less than this share of the mean distance are rounding.
const KEPT: f64 = 1e-4;

/// Steps of descent: the longest that lowers the cost at all, of those that are half
/// as long each.
const LONG_STEPS: Armijo = Armijo {
    share: 1e-4,
    longest: Some(100.0),
};

/// Singular values below this share of the largest are raised to it between the two
/// parts of a run: a subspace that is to turn must have all its directions.
const LEAST: f64 = 1e-6;

/// What is known of distances.
#[derive(Debug, Clone, Copy)]
pub enum KernelConstraints<'a> {
    /// The labels of the items, of which random pairs are made.
    Labels(&'a Labels),
    /// What a file says, by the numbers of the items.
    Given(&'a [Constraint]),
}

/// Random pairs of items that are not the same, the first so many of a stream, with
/// what their classes say of them.
pub(super) fn drawn(classes: &[u32], count: usize, seed: u64) -> Vec<Constraint> {
    let n = classes.len();
    let mut random = Random::new(seed, PAIRS);
    let pair = |_| {
        let left = random.below(n);
        let right = (left + 1 + random.below(n - 1)) % n;
        Constraint {
            left: left as u32,
            right: right as u32,
            relation: match classes[left] == classes[right] {
                true => Relation::Same,
                false => Relation::Different,
            },
        }
    };
    (0..count).map(pair).collect()
}

impl Kernel {
    /// Learns from a start and what is known of distances, with an observer and
    /// checkpoints.
    pub fn fit_with<R: Real>(&self, data: KernelData<'_, R>, run: Run<'_>) -> Result<Fit> {
        self.check()?;
        let KernelData { start, truth } = data;
        let items = start.items()?;
        let n = items.len();
        if n < 2 {
            return Err(Error::input(format!(
                "a kernel is learned from two items at least, found {n}"
            )));
        }
        let source = Source::new(start, self.function(), self.steps_of_rows())?;
        let (known, drawn) = self.known(&items, truth)?;
        let bounds = self.bounds(&source, &known)?;
        let scale = match unit(&source, &known, &bounds) {
            Some(unit) => unit * scale(&source, &bounds),
            None => scale(&source, &bounds),
        };
        if !(scale.is_finite() && bounds.iter().all(|(.., y)| y.is_finite())) {
            return Err(Error::input(
                "the distances leave the range of numbers: scale the features or the distances",
            ));
        }
        let full = self.learner.is_cone();
        let mut first = source.factor(self.rank_given(), full, self.thread_count())?;
        if let Some(unit) = unit(&source, &known, &bounds) {
            first = faer::Scale(unit.sqrt()) * first;
        }
        let normal: Vec<Bounded> = bounds.iter().map(|&(p, b, y)| (p, b, y / scale)).collect();
        let first = faer::Scale(1.0 / scale.sqrt()) * first;
        let total = 2 * self.iterations as u64;
        let course = Course::new(total, Some(self.curve_every.unwrap_or(1)));
        let mut driver = Driver::new(run, course, self, fingerprint(&items, &normal, &first))?;
        let resumed = driver.resume(self)?;
        let features = Features::Named(items.clone());
        let given = driver.started::<Kernel>(self.init == Some(KernelInit::Model), |start| {
            self.started_from(start, &features, scale)
        })?;
        let first = given.and_then(|g| g.into_iter().next()).unwrap_or(first);
        let run = self.learn(&normal, &first, resumed, &mut driver)?;
        let distances = Distances::new(&run.points, pairs(&normal), self.thread_count())?;
        let found = distances.of(&distances.project(&run.lowered.factor));
        let list = normal.iter().map(|&(_, bound, y)| (bound, y)).collect();
        let pair_loss = Bounds { list };
        let violated = violated(&pair_loss, &found);
        let cost = pair_loss.cost(&found);
        let factor = faer::Scale(scale.sqrt()) * &run.lowered.factor;
        let polar = self.learner == MetricLearner::Polar;
        let card = KernelCard {
            map: false,
            function: source.function(),
            preprocess: self.steps_of_rows(),
            alpha: self.alpha,
            drawn,
            constraints: bounds.len(),
            violated,
            cost,
        };
        let init = match (&source, card.function) {
            _ if self.init == Some(KernelInit::Model) => KernelInit::Model.name(),
            (_, Some(function)) => function.name(),
            (Source::Identity(_), _) => "identity",
            _ => "matrix",
        };
        let model = Model {
            card: Card {
                score: Score::Distance,
                seed: self.seed,
                retraction: polar.then_some(self.retraction),
                init: init.into(),
                counters: driver.course.counters,
                ..Card::new(self.learner.name())
            },
            form: Precise::new(stored::<R>(&factor)?),
            features,
            preprocess: Preprocess::default(),
            objects: None,
            knowledge: Knowledge::Kernel(card),
        };
        let report = driver
            .finish(run.lowered.ended)?
            .with("items", n)
            .with("constraints", bounds.len())
            .with("violated", violated)
            .with("cost", cost);
        Ok(Fit { model, report })
    }

    /// The factor of the kernel of a model, in the units of the run, and what to tell of it.
    fn started_from(
        &self,
        start: &Start,
        items: &Features,
        scale: f64,
    ) -> Result<(Vec<Mat<f64>>, Vec<String>)> {
        let plain = Preprocess::default();
        let n = items.names().map_or(0, |names| names.len());
        let side = SideOf {
            side: Side::Left,
            features: items,
            preprocess: &plain,
            size: n,
            what: "items",
        };
        let rank = start.rank_of(self.rank_given(), (n, n))?;
        if self.learner.is_cone() && rank < n {
            return Err(start.error(format!(
                "the model has rank {rank}: `{}` expects a kernel of full rank, {n} here",
                self.learner
            )));
        }
        let found = start.factors(&side, None, rank, self.seed)?;
        let [factor, _] = found.factors;
        Ok((vec![faer::Scale(1.0 / scale.sqrt()) * factor], found.note))
    }

    /// What is known, and how many pairs were drawn from labels.
    fn known(
        &self,
        items: &crate::Ids,
        truth: KernelConstraints<'_>,
    ) -> Result<(Vec<Constraint>, Option<usize>)> {
        let n = items.len();
        match truth {
            KernelConstraints::Given(known) => {
                let beyond = |c: &&Constraint| c.left as usize >= n || c.right as usize >= n;
                match known.iter().find(beyond) {
                    None => Ok((known.to_vec(), None)),
                    Some(c) => Err(Error::input(format!(
                        "a constraint of items {} and {} among {n}",
                        c.left, c.right
                    ))),
                }
            }
            KernelConstraints::Labels(labels) => {
                let name = |i: usize| items.get(i as u32).to_owned();
                if labels.len() != n {
                    return Err(Error::input(format!(
                        "{} labels for {n} items",
                        labels.len()
                    )));
                }
                let found = classes(labels, name)?;
                let most = n.saturating_mul(10).min(100_000);
                let count = self.constraints.unwrap_or(most);
                memory::require(count as u128 * 96, &format!("{count} constraints"))?;
                Ok((drawn(&found, count, self.seed), Some(count)))
            }
        }
    }

    /// What is known as bounds on squared distances.
    fn bounds(&self, source: &Source, known: &[Constraint]) -> Result<Vec<Bounded>> {
        memory::require(known.len() as u128 * 96, "constraints")?;
        let bounded = |c: &Constraint| {
            let y = source.distance(c.left as usize, c.right as usize);
            let (bound, target) = match c.relation {
                Relation::Same => (Bound::AtMost, y * (1.0 - self.alpha)),
                Relation::Different => (Bound::AtLeast, y * (1.0 + self.alpha)),
                Relation::AtMost(v) => (Bound::AtMost, v * v),
                Relation::AtLeast(v) => (Bound::AtLeast, v * v),
                Relation::Equal(v) => (Bound::Equal, v * v),
            };
            let (left, right) = (c.left, c.right);
            (Pair { left, right }, bound, target)
        };
        Ok(known.iter().map(bounded).collect())
    }

    /// Learns T of G₀ T in the range of the start first, where that is wanted, and
    /// then G itself.
    fn learn(
        &self,
        bounds: &[Bounded],
        first: &Mat<f64>,
        resumed: Option<Resumed>,
        driver: &mut Driver<'_, ()>,
    ) -> Result<Learned> {
        let (n, rank) = (first.nrows(), first.ncols());
        let points = Points::unit(n);
        let mut engine = Engine {
            learner: self.learner,
            solver: self.solver.unwrap_or(MetricSolver::Cg),
            subspace_weight: self.subspace_weight,
            retraction: self.retraction,
            iterations: self.iterations,
            armijo: LONG_STEPS,
            tolerance: self.tolerance,
            threads: self.thread_count(),
        };
        let mut factor = first.clone();
        if bounds.is_empty() {
            return Ok(Learned::still(points, factor));
        }
        let part: usize = resumed.as_ref().map_or(Ok(0), Resumed::stage)?;
        let mut state = resumed.map(|resumed| resumed.solver);
        if part == 0 && self.is_warm() && (rank < n || self.is_fixed_range()) {
            driver.decided(&0)?;
            let range = Points::dense(first.clone());
            let learner = std::mem::replace(&mut engine.learner, MetricLearner::Flat);
            let identity = Mat::identity(rank, rank);
            let state = state.take();
            let lowered =
                engine.bounds(&range, bounds, &identity, state.as_ref(), &mut |seen| {
                    driver.iteration(seen.cost, || None, || (), Some(seen.state))
                })?;
            engine.learner = learner;
            factor = raised(first * &lowered.factor)?;
            if self.is_fixed_range() || driver.is_interrupted() {
                let lowered = Lowered { factor, ..lowered };
                return Ok(Learned { points, lowered });
            }
        }
        engine.solver = self.solver.unwrap_or(match self.learner.is_cone() {
            true => MetricSolver::Cg,
            false => MetricSolver::Descent,
        });
        driver.decided(&1)?;
        if let Some(state) = &state {
            factor = state.block("begun", (n, rank))?.clone();
        }
        let begun = factor.clone();
        let lowered = engine.bounds(&points, bounds, &factor, state.as_ref(), &mut |seen| {
            let state = || (seen.state)().with_block("begun", begun.clone());
            driver.iteration(seen.cost, || None, || (), Some(&state))
        })?;
        Ok(Learned { points, lowered })
    }
}

/// Changes when the items, what is known of them, or the start do.
fn fingerprint(items: &crate::Ids, bounds: &[Bounded], first: &Mat<f64>) -> u64 {
    let mut hash = Fingerprint(0);
    hash.ids(items);
    hash.numbers(bounds.iter().map(|(pair, ..)| pair.left));
    hash.numbers(bounds.iter().map(|(pair, ..)| pair.right));
    bounds.iter().for_each(|(.., y)| hash.value(*y));
    first
        .col_iter()
        .for_each(|c| c.iter().for_each(|v| hash.value(*v)));
    hash.0
}

/// Where a run came to.
struct Learned {
    points: Points,
    lowered: Lowered,
}

impl Learned {
    /// Nothing to learn from.
    fn still(points: Points, factor: Mat<f64>) -> Self {
        let lowered = Lowered {
            factor,
            iterations: 0,
            cost: 0.0,
            ended: Ended::Converged,
        };
        Learned { points, lowered }
    }
}

fn pairs(bounds: &[Bounded]) -> Vec<Pair> {
    bounds.iter().map(|(pair, ..)| *pair).collect()
}

/// The mean of squared distances that the constraints are about: what is learned
/// does not depend on units.
fn scale(source: &Source, bounds: &[Bounded]) -> f64 {
    let mean = |sum: f64| sum / bounds.len().max(1) as f64;
    let distance = |pair: &Pair| source.distance(pair.left as usize, pair.right as usize);
    let own = mean(bounds.iter().map(|(pair, ..)| distance(pair)).sum());
    let asked = mean(bounds.iter().map(|(.., y)| *y).sum());
    match (own > 0.0, asked > 0.0) {
        (true, _) => own,
        (false, true) => asked,
        _ => 1.0,
    }
}

/// Where all distances are given as numbers, what squared distances of the start are
/// to be multiplied with to be as large: the kernel may have other units.
fn unit(source: &Source, known: &[Constraint], bounds: &[Bounded]) -> Option<f64> {
    let relative = |c: &Constraint| matches!(c.relation, Relation::Same | Relation::Different);
    if known.iter().any(relative) {
        return None;
    }
    let (mut own, mut asked) = (0.0, 0.0);
    for (pair, _, y) in bounds {
        own += source.distance(pair.left as usize, pair.right as usize);
        asked += y;
    }
    let unit = asked / own;
    (unit.is_finite() && unit > 0.0).then_some(unit)
}

/// The same without directions that are lost.
fn raised(factor: Mat<f64>) -> Result<Mat<f64>> {
    let lost = || Error::failure("the solver left a matrix that is not finite, or zero");
    let (p, sigma, q) = svd(&factor).ok_or_else(lost)?;
    let largest = sigma.first().copied().filter(|s| *s > 0.0);
    let least = LEAST * largest.ok_or_else(lost)?;
    if sigma.iter().all(|s| *s >= least) {
        return Ok(factor);
    }
    let (n, k) = (factor.nrows(), factor.ncols());
    Ok(Mat::from_fn(n, k, |i, j| p[(i, j)] * sigma[j].max(least)) * q.transpose())
}

/// How many bounds are not kept to, beyond rounding.
fn violated(pair_loss: &Bounds, distances: &[f64]) -> usize {
    let pairs = pair_loss.list.iter().zip(distances);
    let by = |((bound, target), d): &(&(Bound, f64), &f64)| match bound {
        Bound::Equal => (*d - target).abs() > KEPT,
        Bound::AtMost => *d - target > KEPT,
        Bound::AtLeast => target - *d > KEPT,
    };
    pairs.filter(by).count()
}

#[cfg(test)]
mod tests {
    use super::super::{KernelInit, KernelStart};
    use super::*;
    use crate::data::{Labelled, RowIds};
    use crate::random::normal_at;
    use crate::task::run::Stop;
    use crate::{Rows, SparseVec};

    /// Two classes that differ in a column that varies less than others.
    fn rows(n: usize) -> Labelled<f64> {
        let mut rows = Rows::new();
        let mut labels = Labels::default();
        for i in 0..n {
            let noise = |j| normal_at(1, 7, i as u64, j);
            let class = (i % 2) as f64;
            let values = [5.0 * noise(0), 4.0 * noise(1), 2.0 * class + 0.3 * noise(2)];
            rows.push(SparseVec::from_dense(&values).as_row());
            labels.push([["a", "b"][i % 2]]);
        }
        rows.widen(3);
        Labelled {
            rows,
            labels,
            ids: RowIds::Positions,
            features: Features::Numbered,
        }
    }

    fn pair(left: u32, right: u32, relation: Relation) -> Constraint {
        Constraint {
            left,
            right,
            relation,
        }
    }

    fn flat() -> Kernel {
        Kernel::new(MetricLearner::Flat)
    }

    fn coordinates(fit: &Fit) -> Vec<f64> {
        fit.model.item_coordinates::<f64>().unwrap().values
    }

    fn fit(kernel: &Kernel, data: &Labelled<f64>, known: &[Constraint]) -> Fit {
        let data = KernelData {
            start: KernelStart::Rows(data),
            truth: KernelConstraints::Given(known),
        };
        kernel.fit_with(data, Run::default()).unwrap()
    }

    fn violated(fit: &Fit) -> u64 {
        fit.report.more["violated"].as_u64().unwrap()
    }

    fn distance(points: &[f64], rank: usize, i: usize, j: usize) -> f64 {
        let squares = (0..rank).map(|c| (points[i * rank + c] - points[j * rank + c]).powi(2));
        squares.sum()
    }

    #[test]
    fn a_warm_start_reaches_items_that_no_pair_names() {
        let data = rows(30);
        let known = drawn(&[0; 10], 0, 1);
        assert!(known.is_empty());
        // Pairs of the first ten items alone.
        let classes: Vec<u32> = (0..10).map(|i| i % 2).collect();
        let known = drawn(&classes, 40, 1);
        let still = fit(&flat().rank(3), &data, &[]);
        let cold = fit(&flat().rank(3), &data, &known);
        let warm = fit(&Kernel::default().rank(3), &data, &known);
        let fixed = Kernel::default().rank(3).subspace_weight(0.0);
        let fixed = fit(&fixed, &data, &known);
        let [start, cold, warm, fixed] = [still, cold, warm, fixed].map(|f| coordinates(&f));
        let changed =
            |of: &[f64]| (distance(of, 3, 20, 23) / distance(&start, 3, 20, 23) - 1.0).abs();
        assert!(changed(&cold) < 1e-9, "{}", changed(&cold));
        assert!(changed(&warm) > 0.05 && changed(&fixed) > 0.05);
        // In the range of the start a distance is that of the rows under some metric:
        // the parallelogram law holds among all items.
        let mixed = |of: &[f64], i: usize, j: usize| {
            let (a, b) = (&of[i * 3..][..3], &of[j * 3..][..3]);
            (0..3).map(|c| a[c] * b[c]).sum::<f64>()
        };
        let gram = |of: &[f64]| Mat::from_fn(30, 30, |i, j| mixed(of, i, j));
        let (_, _, v) = crate::linalg::svd(&gram(&start)).unwrap();
        let outside = gram(&fixed) * v.subcols(3, 27);
        assert!(outside.norm_max() < 1e-8 * gram(&fixed).norm_max());
    }

    #[test]
    fn contradictions_converge_and_are_counted() {
        let data = rows(6);
        let mut known = vec![
            pair(0, 1, Relation::Same),
            pair(0, 1, Relation::Different),
            pair(2, 3, Relation::AtMost(1.0)),
            pair(2, 3, Relation::AtLeast(2.0)),
        ];
        for learner in [flat(), Kernel::default()] {
            let found = fit(&learner.clone().rank(2), &data, &known);
            let report = &found.report;
            assert_eq!((report.stopped, violated(&found)), (Stop::Converged, 4));
            assert!(report.more["cost"].as_f64().unwrap() > 0.0);
        }
        known.truncate(1);
        let found = fit(&Kernel::default().rank(2), &data, &known);
        assert_eq!(violated(&found), 0);
        assert_eq!(found.report.more["constraints"], 1);
    }

    #[test]
    fn targets_are_met_in_the_units_of_the_user() {
        let data = rows(8);
        for unit in [1e-3, 1.0, 1e6] {
            let known = [
                pair(0, 1, Relation::Equal(2.0 * unit)),
                pair(1, 2, Relation::AtMost(0.5 * unit)),
                pair(0, 3, Relation::AtLeast(9.0 * unit)),
            ];
            for learner in [flat(), Kernel::default(), flat().init(KernelInit::Range)] {
                let found = fit(&learner.rank(3), &data, &known);
                assert_eq!(violated(&found), 0, "{unit}");
                let points = coordinates(&found);
                let near = distance(&points, 3, 0, 1).sqrt() / unit;
                assert!((near - 2.0).abs() < 1e-2, "{near}");
            }
        }
    }

    #[test]
    fn full_rank_is_learned_from_names_alone() {
        let mut items = crate::Ids::new();
        for name in ["a", "b", "c", "d"] {
            items.intern(name);
        }
        let known = [
            pair(0, 1, Relation::Same),
            pair(2, 3, Relation::Same),
            pair(0, 2, Relation::Different),
        ];
        for learner in [
            MetricLearner::ConeAffine,
            MetricLearner::ConeLogdet,
            MetricLearner::ConeLog,
            MetricLearner::ConeFlat,
        ] {
            let start: KernelStart<'_, f64> = KernelStart::Identity(&items);
            let truth = KernelConstraints::Given(&known);
            let data = KernelData { start, truth };
            let found = Kernel::new(learner).fit_with(data, Run::default());
            let found = found.unwrap();
            assert_eq!(
                (violated(&found), found.model.rank()),
                (0, 4),
                "{learner:?}"
            );
        }
        let drawn = drawn(&[0, 0, 1], 500, 3);
        assert!(drawn.iter().all(|c| c.left != c.right));
        assert_eq!(drawn[..9], super::drawn(&[0, 0, 1], 9, 3));
    }
}
