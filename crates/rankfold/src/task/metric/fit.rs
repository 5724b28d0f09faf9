//! A run of [`Metric`] on rows.

use super::constraints::{given, random, squared_distance_levels};
use super::engine::{Bounded, Engine, Observer, Seen};
use super::evaluation::MOST_FEATURES;
use super::session::fingerprint;
use super::start::{Given, means, start};
use super::{Metric, MetricData, MetricInit, MetricLearner, MetricSolver};
use crate::batch::{
    Armijo, Bounds, Directions, Distances, Ended, PairLoss, Points, SolverState, nearby, singles,
    star,
};
use crate::data::Constraint;
use crate::eval::{Neighbors, Votes, votes};
use crate::form::{Form, Psd, Tall};
use crate::model::{
    Card, Counters, Distances as Levels, Knowledge, Metrics, Model, Precise, Score, Steps,
};
use crate::online::Shape;
use crate::random::splitmix64;
use crate::task::course::Course;
use crate::task::driver::Driver;
use crate::task::hold_out::hold_out_some;
use crate::task::inputs::{Things, renamed};
use crate::task::rank_for;
use crate::task::run::{Baseline, CurvePoint, Fit, Run, Trial};
use crate::task::similarity::classes;
use crate::task::{check_patience, check_validation};
use crate::{Error, Real, Result, memory};
use faer::Mat;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Iterations on given constraints unless others are asked for.
pub(super) const ITERATIONS: usize = 200;

/// Iterations on random pairs that are chosen from: stopping early is what keeps a
/// metric from fitting pairs instead of classes.
const STEPS: [usize; 9] = [0, 5, 10, 15, 20, 30, 50, 75, 100];

/// The same for steps in a trust region, which go farther.
const LONG_STEPS: [usize; 7] = [0, 2, 5, 10, 15, 20, 30];

/// Shares of the scatter inside classes that a start from class means replaces, and the
/// one where nothing is tried.
const SHRINKAGES: [f64; 3] = [0.02, 0.1, 0.4];
pub(super) const SHRINKAGE: f64 = 0.1;

/// Iterations between two looks for the nearest rows, and looks at most.
const ROUND: usize = 5;
const ROUNDS: usize = 6;

/// Nearest rows of other classes that a row is held away from.
const FAR: usize = 20;

/// What a start and a length are judged by: the k-NN error and the share of strangers among
/// the nearest rows.
const DISORDER: &str = "disorder";

/// Neighbors that vote in validation.
const VOTES: usize = 5;

/// Iterations where rows are too few to choose by.
const FEW_STEPS: usize = 10;

/// Rows are held out in so many parts, one after the other, until so many have been
/// judged; small data are parted anew several times.
const PARTS: usize = 5;
const ENOUGH: usize = 1000;
const FEW: usize = 500;
const ANEW: usize = 4;

/// Held-out rows of a part that are judged at most.
const MOST_JUDGED: usize = 2000;

/// Rows as the model sees them, with their classes where these are known.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub points: Points,
    pub classes: Option<Vec<u32>>,
}

/// Where a run starts, and how long it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Plan {
    init: MetricInit,
    /// Of a start from class means.
    shrinkage: f64,
    steps: usize,
}

/// A plan, with G at its start on each part of the rows.
type Begun = (Plan, Vec<Mat<f64>>);

/// What a run works on.
#[derive(Debug)]
pub(super) struct Setup<'a, R: Real> {
    pub options: Metric,
    pub things: Things<'a, R>,
    pub train: Part,
    pub validation: Option<Part>,
    /// Changes when any of the data does.
    pub fingerprint: u64,
    /// What the run starts from, where that is a model.
    pub given: Option<Given>,
}

/// The smaller the error, the better.
pub(super) fn merit(metrics: &Metrics) -> f64 {
    -metrics.get("knn_error").copied().unwrap_or(f64::NAN)
}

impl Metric {
    /// Learns in batch.
    pub(super) fn fit_batch<R: Real>(
        &self,
        data: MetricData<'_, R>,
        mut run: Run<'_>,
    ) -> Result<Fit> {
        check_patience(
            self.patience,
            data.valid.is_some() || self.valid_fraction > 0.0,
        )?;
        let setup = self.scaled(data, &mut run)?;
        setup.fit(data.constraints, run)
    }
}

impl<'a, R: Real> Setup<'a, R> {
    pub fn new(
        options: &Metric,
        MetricData {
            rows: data,
            constraints,
            valid,
        }: MetricData<'a, R>,
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
            true => Some(classes(&data.labels, name)?),
            false => None,
        };
        check_validation(valid.is_some(), options.valid_fraction)?;
        if constraints.is_some() && options.valid_fraction > 0.0 {
            return Err(Error::input(
                "constraints may name any row, so none can be held out: give validation rows in a file",
            ));
        }
        let fraction = options.valid_fraction;
        let (members, out) = hold_out_some("rows", n, all.as_deref(), fraction, options.seed)?;
        let steps = Steps::of(options.weight, options.normalize, options.standardize);
        let things = Things::new(steps, data, all.clone(), members.clone())?;
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
                let found = classes(&valid.labels, name)?;
                let mut names = data.labels.names.clone();
                let found = renamed(&mut names, &valid.labels, found);
                let same = data.features.align(valid.rows.clone(), &valid.features)?;
                let prepared = things.preprocess.apply(&same, rows.columns())?;
                Some(Part {
                    points: Points::new(&prepared)?,
                    classes: Some(found),
                })
            }
            None if !out.is_empty() => Some(Part {
                points: of(&out)?,
                classes: pick(&out),
            }),
            None => None,
        };
        let train = Part {
            classes: pick(&members),
            points,
        };
        Ok(Setup {
            options: options.clone(),
            things,
            train,
            validation,
            fingerprint: fingerprint(data, constraints, valid),
            given: None,
        })
    }

    /// The rank of W.
    pub fn rank(&self) -> Result<usize> {
        let d = self.train.points.features();
        if d == 0 {
            return Err(Error::input("rows without features have no metric"));
        }
        let options = &self.options;
        let rank = match &self.given {
            Some(given) => given.factor.ncols(),
            None if options.learner.is_cone() => d,
            None => rank_for(options, options.rank, d)?,
        };
        let what = format!("a metric of {d} features and rank {rank}");
        memory::require(d as u128 * rank as u128 * 64, &what)?;
        Ok(rank)
    }

    pub fn engine(&self) -> Engine {
        let options = &self.options;
        Engine {
            learner: options.learner,
            solver: options.solver_or_default(),
            subspace_weight: options.subspace_weight,
            retraction: options.retraction,
            iterations: ITERATIONS,
            armijo: Armijo::default(),
            tolerance: options.tolerance,
            threads: options.thread_count(),
        }
    }

    /// Constraints that a file gives, or random ones.
    pub fn bounds(
        &self,
        part: &Part,
        constraints: Option<&[Constraint]>,
        levels: Levels,
    ) -> Result<Vec<Bounded>> {
        if let Some(constraints) = constraints {
            let n = part.points.len() as u32;
            let beyond = constraints.iter().position(|c| c.left >= n || c.right >= n);
            if let Some(i) = beyond {
                return Err(Error::input(format!(
                    "constraint {i} names a row that is not there"
                )));
            }
            return Ok(given(constraints, levels));
        }
        let classes = part.classes.as_deref().unwrap_or_default();
        let usual = usual(classes)?;
        let count = self.options.constraints.unwrap_or(usual);
        memory::require(count as u128 * 64, &format!("{count} constraints"))?;
        Ok(random(classes, count, levels, self.options.seed))
    }

    /// Where W starts for a part of the rows, and the distances to aim at.
    pub fn first(
        &self,
        part: &Part,
        init: MetricInit,
        rank: usize,
        shrinkage: f64,
    ) -> Result<(Mat<f64>, Levels)> {
        let directions = Directions::new(&part.points, self.options.thread_count());
        let first = self.factor(part, &directions, init, rank, shrinkage)?;
        let levels = self.levels(part, &first)?;
        Ok((first, levels))
    }

    /// G at the start.
    fn factor(
        &self,
        part: &Part,
        directions: &Directions<'_>,
        init: MetricInit,
        rank: usize,
        shrinkage: f64,
    ) -> Result<Mat<f64>> {
        match &self.given {
            Some(given) => Ok(given.factor.clone()),
            None => start(init, directions, part.classes.as_deref(), rank, shrinkage),
        }
    }

    /// The distances to aim at.
    fn levels(&self, part: &Part, first: &Mat<f64>) -> Result<Levels> {
        let given = self.given.as_ref().and_then(|given| given.levels);
        let (seed, threads) = (self.options.seed, self.options.thread_count());
        given.map_or_else(
            || squared_distance_levels(&part.points, first, seed, threads),
            Ok,
        )
    }

    /// Learns from a part of the rows for so many steps, from a start. The observer sees the
    /// start as well, as iteration 0.
    fn learn(
        &self,
        part: &Part,
        constraints: Option<&[Constraint]>,
        (first, steps): (Mat<f64>, usize),
        state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Learned> {
        let options = &self.options;
        let threads = options.thread_count();
        let at_start = Seen {
            number: 0,
            cost: f64::NAN,
            factor: &first,
            state: &|| SolverState::new("start", 0),
        };
        if !observer(&at_start) || steps == 0 {
            return Ok(Learned::at(first));
        }
        if constraints.is_none() && options.uses_neighbors() {
            return self.learn_neighbors(part, first, steps, state, observer);
        }
        let levels = self.levels(part, &first)?;
        let bounds = self.bounds(part, constraints, levels)?;
        let mut engine = self.engine();
        engine.iterations = steps;
        let lowered = match options.learner {
            MetricLearner::Itml => self.itml(part, &first, &bounds, state, observer)?,
            MetricLearner::Lego => self.lego(part, &first, &bounds)?,
            _ => engine.bounds(&part.points, &bounds, &first, state, observer)?,
        };
        let pairs = bounds.iter().map(|(pair, ..)| *pair).collect();
        let distances = Distances::new(&part.points, pairs, threads)?;
        let pair_loss = Bounds {
            list: bounds.iter().map(|&(_, bound, y)| (bound, y)).collect(),
        };
        let found = distances.of(&distances.project(&lowered.factor));
        Ok(Learned {
            factor: lowered.factor,
            iterations: lowered.iterations,
            ended: lowered.ended,
            violated: pair_loss.violated(&found),
            constraints: found.len(),
            cost: pair_loss.cost(&found),
        })
    }

    /// Looks for the nearest rows, learns for some iterations that those of other
    /// classes are to be farther, and looks again.
    fn learn_neighbors(
        &self,
        part: &Part,
        first: Mat<f64>,
        steps: usize,
        mut state: Option<&SolverState>,
        observer: Observer<'_>,
    ) -> Result<Learned> {
        let threads = self.options.thread_count();
        let classes = part.classes.as_deref().unwrap_or_default();
        let star = star(classes, self.options.neighbors, FAR)?;
        let mut engine = self.engine();
        let shape = (first.nrows(), first.ncols());
        let mut out = Learned::at(first);
        let (mut done, mut on, mut scale) = (0, true, None);
        if let Some(state) = state {
            done = state.number("before")? as usize;
            scale = Some(state.number("scale")?);
            out.factor = state.block("round", shape)?.clone();
        }
        while on && done < steps {
            let begun = out.factor.clone();
            let (pairs, mut margins) = nearby(&part.points, classes, &out.factor, star, threads);
            // Each round has a scale of its own, and nothing holds W to the one before:
            // it is brought back to the first, which leaves all neighbors as they are.
            let first = *scale.get_or_insert(margins.scale);
            out.factor *= faer::Scale((first / margins.scale).sqrt());
            margins = margins.of_scale(first);
            let distances = Distances::new(&part.points, pairs, threads)?;
            engine.iterations = ROUND.min(steps - done);
            let lowered = engine.lower(
                (distances.clone(), margins.clone()),
                &out.factor,
                state.take(),
                &mut |seen| {
                    // The round can be found again from where it began.
                    let state = || {
                        let state = (seen.state)().with_block("round", begun.clone());
                        let state = state.with_number("before", done as f64);
                        state.with_number("scale", first)
                    };
                    on = observer(&Seen {
                        number: done + seen.number,
                        state: &state,
                        ..*seen
                    });
                    on
                },
            )?;
            let found = distances.of(&distances.project(&lowered.factor));
            (out.violated, out.constraints) = margins.violated(&found);
            out.cost = lowered.cost;
            out.ended = Ended::Iterations;
            out.factor = lowered.factor;
            if lowered.iterations == 0 {
                out.ended = Ended::Converged;
                break;
            }
            done += lowered.iterations;
            out.iterations = done;
        }
        Ok(out)
    }

    /// Starts that are chosen from.
    pub fn starts(&self, rank: usize, given: bool) -> Vec<MetricInit> {
        let plain = match rank == self.train.points.features() {
            true => MetricInit::Identity,
            false => MetricInit::Pca,
        };
        match self.options.init {
            Some(init) => vec![init],
            None if given || !self.options.uses_neighbors() => vec![plain],
            None => vec![plain, MetricInit::ClassMeans],
        }
    }

    /// Where to start and how long to go on. What is not given is chosen by how well
    /// the nearest rows vote for held-out ones.
    fn plan(&self, rank: usize, given: bool, driver: &mut Driver<'_, Mat<f64>>) -> Result<Plan> {
        let options = &self.options;
        let starts = self.starts(rank, given);
        let all = match (options.iterations, options.uses_neighbors()) {
            (Some(steps), _) => vec![steps],
            (None, true) => (0..=ROUNDS).map(|round| round * ROUND).collect(),
            (None, false) => match options.solver_or_default() {
                MetricSolver::TrustRegion => LONG_STEPS.to_vec(),
                _ => STEPS.to_vec(),
            },
        };
        let most = all.last().copied().unwrap_or(0);
        let fixed = |init| Plan {
            init,
            shrinkage: SHRINKAGE,
            steps: most,
        };
        if given || options.learner.is_baseline() {
            let steps = options.iterations.unwrap_or(ITERATIONS);
            return Ok(Plan {
                steps,
                ..fixed(starts[0])
            });
        }
        // With rows that judge, the best iteration is found on the way.
        if starts.len() == 1 && (all.len() == 1 || self.validation.is_some()) {
            return Ok(fixed(starts[0]));
        }
        let parts = self.held_out()?;
        if parts.is_empty() {
            // Rows too few to hold any out: not far, and not from class means.
            let steps = options.iterations.unwrap_or(FEW_STEPS);
            return Ok(Plan {
                steps,
                ..fixed(starts[0])
            });
        }
        let starts = self.shrunk(starts, rank, fixed, &parts, driver)?;
        let mut scores = vec![vec![0.0; all.len()]; starts.len()];
        let count = parts.len();
        for ((plan, firsts), scores) in starts.iter().zip(&mut scores) {
            let init = plan.init.name();
            for (part, ((train, test), first)) in (1..).zip(parts.iter().zip(firsts)) {
                driver.trying(format!("start {init} on part {part} of {count}"));
                let mut at = 0;
                let mut last = f64::NAN;
                let from = (first.clone(), plan.steps);
                self.learn(train, None, from, None, &mut |seen| {
                    if all.get(at) == Some(&seen.number) {
                        last = self.disorder(train, test, seen.factor);
                        scores[at] += last;
                        at += 1;
                    }
                    driver.goes_on()
                })?;
                driver.check_interrupted()?;
                // A run that converged stays where it is.
                scores[at..].iter_mut().for_each(|score| *score += last);
            }
            for (&iterations, score) in all.iter().zip(&*scores) {
                let mut trial = Trial::of("init", init, DISORDER, score / count as f64);
                trial
                    .settings
                    .insert("iterations".into(), iterations.into());
                driver.tried(trial);
            }
        }
        let mut best = (f64::INFINITY, starts[0].0);
        for ((plan, _), scores) in starts.iter().zip(&scores) {
            for (&steps, &score) in all.iter().zip(scores) {
                if score < best.0 {
                    best = (score, Plan { steps, ..*plan });
                }
            }
        }
        let mut plan = best.1;
        if self.validation.is_some() {
            plan.steps = most;
        }
        Ok(plan)
    }

    /// The starts with their G on each part, that from class means with the shrinkage that
    /// held-out rows like best at the start: the start itself costs little.
    fn shrunk(
        &self,
        starts: Vec<MetricInit>,
        rank: usize,
        fixed: impl Fn(MetricInit) -> Plan,
        parts: &[(Cow<'_, Part>, Cow<'_, Part>)],
        driver: &mut Driver<'_, Mat<f64>>,
    ) -> Result<Vec<Begun>> {
        let shrinkages = |init| match init {
            MetricInit::ClassMeans => &SHRINKAGES[..],
            _ => &[SHRINKAGE],
        };
        let mut plans: Vec<Plan> = Vec::new();
        for &init in &starts {
            plans.extend(shrinkages(init).iter().map(|&shrinkage| Plan {
                shrinkage,
                ..fixed(init)
            }));
        }
        // What a start has in common with others of its part is made once.
        let mut firsts = vec![Vec::with_capacity(parts.len()); plans.len()];
        let mut scores = vec![0.0; plans.len()];
        for (number, (train, test)) in (1..).zip(parts) {
            driver.trying(format!("starts on part {number} of {}", parts.len()));
            let directions = Directions::new(&train.points, self.options.thread_count());
            let (mut known, mut plain) = (None, None);
            for ((plan, firsts), score) in plans.iter().zip(&mut firsts).zip(&mut scores) {
                if plan.init != MetricInit::ClassMeans || self.given.is_some() {
                    let first = self.factor(train, &directions, plan.init, rank, plan.shrinkage)?;
                    plain = Some(first.clone());
                    firsts.push(first);
                    continue;
                }
                let made = || means(&directions, train.classes.as_deref(), rank);
                let means = known.get_or_insert_with(made).as_ref();
                let first = means.map_err(Error::clone);
                let first = match (first.and_then(|means| means.start(plan.shrinkage)), &plain) {
                    (Ok(first), _) => first,
                    (Err(error), None) => return Err(error),
                    // Rows that do not differ at all are told of first.
                    (Err(error), Some(plain)) => {
                        return Err(self.levels(train, plain).err().unwrap_or(error));
                    }
                };
                if !driver.goes_on() {
                    driver.check_interrupted()?;
                }
                *score += self.disorder(train, test, &first);
                firsts.push(first);
            }
        }
        let mut out: Vec<(f64, Begun)> = Vec::new();
        for ((plan, firsts), score) in plans.into_iter().zip(firsts).zip(scores) {
            if plan.init == MetricInit::ClassMeans {
                let mean = score / parts.len() as f64;
                driver.tried(Trial::of("shrinkage", plan.shrinkage, DISORDER, mean));
            }
            match out
                .last_mut()
                .filter(|(_, (last, _))| last.init == plan.init)
            {
                Some((best, _)) if *best <= score => {}
                Some(best) => *best = (score, (plan, firsts)),
                None => out.push((score, (plan, firsts))),
            }
        }
        Ok(out.into_iter().map(|(_, start)| start).collect())
    }

    /// How wrong the nearest rows of held-out ones are at the best start; nothing where rows
    /// are of one class, too few to hold any out, or have no start.
    pub fn promise(&self, run: &mut Run<'_>) -> Option<f64> {
        let classes = self.train.classes.as_deref().unwrap_or_default();
        if classes.iter().all(|c| *c == classes[0]) {
            return None;
        }
        let rank = self.rank().ok()?;
        let mut scores: Vec<f64> = Vec::new();
        for (train, test) in self.held_out().ok()? {
            if !run.goes_on() {
                return None;
            }
            let directions = Directions::new(&train.points, self.options.thread_count());
            let mut starts = Vec::new();
            for init in self.starts(rank, false) {
                if init != MetricInit::ClassMeans {
                    starts.push(
                        self.factor(&train, &directions, init, rank, SHRINKAGE)
                            .ok()?,
                    );
                    continue;
                }
                let means = means(&directions, train.classes.as_deref(), rank).ok()?;
                for shrinkage in SHRINKAGES {
                    starts.push(means.start(shrinkage).ok()?);
                }
            }
            scores.resize(starts.len(), 0.0);
            for (score, start) in scores.iter_mut().zip(&starts) {
                *score += self.disorder(&train, &test, start);
            }
        }
        scores.into_iter().reduce(f64::min)
    }

    /// Parts to learn from, each with rows that judge it: those given, or some of its own.
    fn held_out(&self) -> Result<Vec<(Cow<'_, Part>, Cow<'_, Part>)>> {
        if let Some(validation) = &self.validation {
            return Ok(vec![(
                Cow::Borrowed(&self.train),
                Cow::Borrowed(validation),
            )]);
        }
        let classes = self.train.classes.as_deref().unwrap_or_default();
        let n = classes.len();
        let parts = ENOUGH.div_ceil((n / PARTS).max(1)).clamp(1, PARTS);
        let times = if n < FEW { ANEW } else { 1 };
        let mut out = Vec::new();
        for time in 0..times as u64 {
            // The rows of a class, in an order of their own, go to one part after the other.
            let key = splitmix64(splitmix64(self.options.seed ^ 0x666f_6c64) ^ time);
            let mut order: Vec<u32> = (0..n as u32).collect();
            order.sort_by_cached_key(|&i| (classes[i as usize], splitmix64(key ^ u64::from(i)), i));
            for part in 0..parts {
                let place = |at: usize| at % PARTS == part;
                let pick = |held: bool, most: usize| -> Result<Part> {
                    let mut rows: Vec<u32> = (order.iter().enumerate())
                        .filter(|&(at, _)| place(at) == held)
                        .map(|(_, &i)| i)
                        .collect();
                    if rows.len() > most {
                        rows.sort_by_cached_key(|&i| splitmix64(key ^ u64::from(i)));
                        rows.truncate(most);
                    }
                    rows.sort_unstable();
                    Ok(Part {
                        points: self.train.points.select(&rows)?,
                        classes: Some(rows.iter().map(|&i| classes[i as usize]).collect()),
                    })
                };
                let (train, test) = (pick(false, usize::MAX)?, pick(true, MOST_JUDGED)?);
                let known = train.classes.as_deref().unwrap_or_default();
                let several = known.iter().any(|c| *c != known[0]);
                let pairs = !self.options.uses_neighbors() || star(known, 1, 1).is_ok();
                if several && pairs && !test.points.is_empty() {
                    out.push((Cow::Owned(train), Cow::Owned(test)));
                }
            }
        }
        Ok(out)
    }

    fn fit(mut self, constraints: Option<&[Constraint]>, run: Run<'_>) -> Result<Fit> {
        if constraints.is_none() {
            let classes = self.train.classes.as_deref().unwrap_or_default();
            if classes.iter().all(|c| *c == classes[0]) {
                return Err(one_class());
            }
        }
        let options = self.options.clone();
        let every = Some(options.curve_every.unwrap_or(1));
        let course = Course::new(0, every).judged_by(merit);
        let driver = Driver::new(run, course, &options, self.fingerprint)?;
        let mut driver = driver.patient(options.patience, self.validation.is_some())?;
        let resumed = driver.resume(&options)?;
        let wanted = options.init == Some(MetricInit::Model);
        let given = driver.started::<Metric>(wanted, |start| {
            let (given, notes) = self.started_from(start)?;
            Ok((given.to_blocks(), notes))
        })?;
        self.given = given.and_then(Given::from_blocks);
        let rank = self.rank()?;
        let plan: Plan = match &resumed {
            Some(resumed) => resumed.stage()?,
            None => self.plan(rank, constraints.is_some(), &mut driver)?,
        };
        driver.decided(&plan)?;
        driver.course.total = plan.steps as u64;
        let metrics = |factor: &Mat<f64>| -> Option<Metrics> {
            let error = self.knn_error(self.validation.as_ref()?, factor);
            Some([("knn_error".to_owned(), error)].into())
        };
        let baseline = options.learner.is_baseline();
        let state = resumed.as_ref().map(|resumed| &resumed.solver);
        let (first, levels) = self.first(&self.train, plan.init, rank, plan.shrinkage)?;
        let learned = self.learn(
            &self.train,
            constraints,
            (first, plan.steps),
            state,
            &mut |seen: &Seen<'_>| {
                // Baselines have no W to show on the way.
                let now = || metrics(seen.factor).filter(|_| !baseline);
                let factor = || seen.factor.clone();
                seen.number == 0 || driver.iteration(seen.cost, now, factor, Some(seen.state))
            },
        )?;
        driver.check_interrupted()?;
        if baseline {
            driver.course.counters.steps = learned.iterations as u64;
            driver.course.counters.updates = learned.iterations as u64;
            driver.measure(metrics(&learned.factor), || learned.factor.clone());
        }
        let features = self.train.points.features();
        let plain = (driver.run.compares && features <= MOST_FEATURES)
            .then(|| metrics(&Mat::identity(features, features)))
            .flatten();
        let mut report = driver
            .finish(learned.ended)?
            .with("constraints", learned.constraints)
            .with("violated", learned.violated)
            .with("cost", learned.cost);
        report.baseline = plain.map(|found| Baseline::new("euclid", found));
        let done = driver.course.counters.steps as usize;
        let Course { best, history, .. } = driver.course;
        let factor = best.map_or(learned.factor, |best| best.model);
        // A start that was kept was never measured on the way.
        if report.metrics.is_empty() {
            report.metrics = metrics(&factor).unwrap_or_default();
        }
        let model = self.model(&factor, plan.init, levels, done, history)?;
        Ok(Fit { model, report })
    }

    /// How the nearest rows of a part vote for those of another under W = G Gᵀ.
    fn votes(&self, train: &Part, test: &Part, factor: &Mat<f64>) -> Votes {
        let threads = self.options.thread_count();
        let rank = factor.ncols();
        let (values, _) = singles([&train.points, &test.points], factor, threads);
        let [train, test] = [(train, &values[0]), (test, &values[1])].map(|(part, values)| {
            let classes = part.classes.as_deref().unwrap_or_default();
            Neighbors {
                values: &values[..],
                classes,
                rank,
            }
        });
        votes(VOTES, Some(train), test, threads)
    }

    /// The share of rows that their nearest training rows are wrong about.
    pub fn knn_error(&self, judged: &Part, factor: &Mat<f64>) -> f64 {
        self.votes(&self.train, judged, factor).wrong as f64 / judged.points.len() as f64
    }

    /// The k-NN error and the share of strangers among the nearest: smoother than the
    /// error alone.
    fn disorder(&self, train: &Part, test: &Part, factor: &Mat<f64>) -> f64 {
        let found = self.votes(train, test, factor);
        let strangers = found.strangers as f64 / VOTES.min(train.points.len()) as f64;
        (found.wrong as f64 + strangers) / test.points.len() as f64
    }

    /// The model of W = G Gᵀ.
    pub fn model(
        &self,
        factor: &Mat<f64>,
        init: MetricInit,
        levels: Levels,
        iterations: usize,
        history: Vec<CurvePoint>,
    ) -> Result<Model> {
        let options = &self.options;
        let polar = options.learner == MetricLearner::Polar;
        let form = stored::<R>(factor)?;
        let form = match polar {
            true => form.shaped(Shape::PolarPsd)?,
            false => form,
        };
        Ok(Model {
            card: Card {
                score: Score::Distance,
                seed: options.seed,
                distances: Some(levels),
                retraction: polar.then_some(options.retraction),
                subspace_weight: polar.then_some(options.subspace_weight),
                init: init.name().into(),
                counters: counters(iterations),
                history,
                ..Card::new(options.learner.name())
            },
            form: Precise::new(form),
            features: self.things.features.clone(),
            preprocess: self.things.preprocess.clone(),
            objects: None,
            knowledge: Knowledge::Metric,
        })
    }
}

/// What a part of a run came to.
struct Learned {
    factor: Mat<f64>,
    iterations: usize,
    ended: Ended,
    violated: usize,
    constraints: usize,
    cost: f64,
}

impl Learned {
    fn at(factor: Mat<f64>) -> Self {
        Learned {
            factor,
            iterations: 0,
            ended: Ended::Iterations,
            violated: 0,
            constraints: 0,
            cost: f64::NAN,
        }
    }
}

/// How many random pairs are learned from unless another number is asked for.
pub(super) fn usual(classes: &[u32]) -> Result<usize> {
    let mut different = classes.to_vec();
    different.sort_unstable();
    different.dedup();
    let c = different.len();
    if c < 2 {
        return Err(one_class());
    }
    let more = classes.len().saturating_mul(10).min(100_000);
    Ok(more.max(c.saturating_mul(c - 1).saturating_mul(40)))
}

fn one_class() -> Error {
    Error::input("all rows are of one class: a metric needs two classes at least, or constraints")
}

fn counters(iterations: usize) -> Counters {
    Counters {
        steps: iterations as u64,
        updates: iterations as u64,
        ..Counters::default()
    }
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
