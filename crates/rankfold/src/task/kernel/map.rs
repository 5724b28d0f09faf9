//! Maps: points whose distances are as near as can be to given dissimilarities, by
//! squared stress in the flat geometry.
//!
//! Squared stress has many minima in the plane, so it is lowered with three more
//! coordinates first, from two starts ([`super::starts`], [`super::lift`]).

use super::source::signed;
use crate::batch::{
    Bound, Bounds, Distances, Ended, Iteration, Lifted, Limits, Pair, Points, PsdRegression,
    Solver, SolverState, classical,
};
use crate::data::{Dissimilarity, Features};
use crate::form::{Form, Psd, Tall};
use crate::linalg::svd;
use crate::manifold::Flat;
use crate::model::{
    Card, Counters, Dissimilarities, KernelCard, Knowledge, Mapped, Model, Precise, Preprocess,
    Score,
};
use crate::options::Options;
use crate::random::normal_at;
use crate::task::course::Course;
use crate::task::driver::{Driver, Resumed};
use crate::task::inputs::Fingerprint;
use crate::task::run::{Event, Fit, Report, Run, Stop};
use crate::task::start::{Side, Start, StartInit};
use crate::task::{Learn, threads};
use crate::{Error, Ids, Result, memory, options};
use faer::Mat;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Coordinates beside those wanted in which points pass each other.
const BESIDE: usize = 3;

/// μ, one after the other.
const PRICES: [f64; 4] = [0.0, 0.02, 0.1, 0.5];

/// Iterations for each price, and with the coordinates wanted alone.
const LIFTED: (usize, f64) = (300, 1e-8);
const FLAT: (usize, f64) = (500, 1e-10);

/// The side of the normal deviates that random starts are made of.
const RANDOM: u64 = 0x6d6170;

/// A second map is taken when its cost is below this share of the first.
const BETTER: f64 = 0.99;

/// Columns shorter than this share of the longest are made so long, so that a map of
/// points on a line has the rank that was asked for.
const LEAST: f64 = 1e-6;

options! {
    /// Makes maps of dissimilarities.
    ///
    /// ```
    /// use rankfold::data::Dissimilarity;
    /// use rankfold::task::Map;
    ///
    /// // Three towns on a road.
    /// let mut items = rankfold::Ids::new();
    /// for name in ["a", "b", "c"] {
    ///     items.intern(name);
    /// }
    /// let known = [(0, 1, 3.0), (1, 2, 4.0), (0, 2, 7.0)];
    /// let known = known.map(|(left, right, value)| Dissimilarity { left, right, value });
    /// let map = Map::default().dimensions(1).fit(&items, &known).unwrap();
    /// let points = map.item_coordinates::<f64>().unwrap();
    /// assert!(((points.row(0)[0] - points.row(2)[0]).abs() - 7.0).abs() < 1e-6);
    /// ```
    pub struct Map: "map" {
        /// Coordinates of a point.
        dimensions: usize = 2, in Range::COUNT;
        shared init;
        shared seed;
        shared threads;
        shared curve_every;
    }
}

/// What a map is made from.
#[derive(Debug, Clone, Copy)]
pub struct MapData<'a> {
    /// The names of the items.
    pub items: &'a Ids,
    /// Dissimilarities of pairs of items; the last of a pair counts.
    pub known: &'a [Dissimilarity],
}

/// What an update of a map did.
#[derive(Debug, Clone)]
pub struct MapUpdate {
    /// The new map; points that nothing new is known of stay where they were, as far
    /// as the others let them.
    pub fit: Fit,
    /// Pairs that were not known before.
    pub added: usize,
    /// Pairs whose dissimilarity is another now.
    pub changed: usize,
    /// Items that were not there before.
    pub new_items: usize,
    /// Whether points had to pass each other.
    pub lifted: bool,
    /// How far items moved that nothing new is known of: the root of the mean square.
    pub moved: f64,
}

/// What is lowered: dissimilarities of so many items, scaled to a mean of 1.
struct Stress<'a> {
    points: Points,
    known: &'a [Dissimilarity],
    scale: f64,
    threads: usize,
}

/// Coordinates and their cost.
#[derive(Clone)]
struct Found {
    factor: Mat<f64>,
    cost: f64,
}

/// What observes a solver and can save its state: the cost and the state.
type Observe<'a> = &'a mut dyn FnMut(f64, &dyn Fn() -> SolverState) -> bool;

impl Map {
    /// Pairs below which a map of so many items is hardly determined: twice as many
    /// as it has free coordinates.
    pub fn few_pairs(&self, items: usize) -> usize {
        let free =
            (items * self.dimensions).saturating_sub(self.dimensions * (self.dimensions + 1) / 2);
        (2 * free).min(items * items.saturating_sub(1) / 2)
    }

    /// Makes a map of these items.
    pub fn fit(&self, items: &Ids, known: &[Dissimilarity]) -> Result<Model> {
        Ok(self
            .fit_with(MapData { items, known }, Run::default())?
            .model)
    }

    /// The same with an observer and checkpoints.
    pub fn fit_with(&self, data: MapData<'_>, run: Run<'_>) -> Result<Fit> {
        self.check_table()?;
        let (items, n) = (data.items, data.items.len());
        let known = unique(data.known);
        let from_model = self.init == StartInit::Model;
        if !from_model {
            self.check(n, &known)?;
        }
        let stress = Stress::new(n, &known, threads(self.threads))?;
        let own = match from_model {
            true => Vec::new(),
            false => self.own_starts(&stress),
        };
        let most = own.len().max(1) * (PRICES.len() * LIFTED.0 + FLAT.0);
        let course = Course::new(most as u64, Some(self.curve_every.unwrap_or(1)));
        let mut driver: Driver<'_, ()> =
            Driver::new(run, course, self, fingerprint(items, &known))?;
        let resumed = driver.resume(self)?;
        let given =
            driver.started::<Map>(from_model, |start| self.started_from(start, items, &stress))?;
        let given = given.and_then(|blocks| <[Mat<f64>; 2]>::try_from(blocks).ok());
        let map = Map {
            dimensions: given.as_ref().map_or(self.dimensions, |g| g[0].ncols()),
            ..self.clone()
        };
        map.check(n, &known)?;
        let rank = map.dimensions;
        let room = (rank + BESIDE).min(n);
        let starts = match &given {
            None => own,
            Some([points, _]) => vec![raised(points, room, self.seed)],
        };
        let at: Stage = resumed
            .as_ref()
            .map_or(Ok(Stage::default()), Resumed::stage)?;
        let mut state = resumed.map(|resumed| resumed.solver);
        let mut best: Option<Found> = None;
        if let (Some(state), Some(cost)) = (&state, at.best) {
            let factor = state.block("best", (n, rank))?.clone();
            best = Some(Found { factor, cost });
        }
        for (attempt, start) in starts.into_iter().enumerate().skip(at.attempt) {
            let mut factor = start;
            let first = if attempt == at.attempt { at.part } else { 0 };
            for part in first..=PRICES.len() {
                let here = Stage {
                    attempt,
                    part,
                    best: best.as_ref().map(|best| best.cost),
                };
                driver.decided(&here)?;
                if let Some(state) = &state {
                    factor = state.block("begun", (n, room))?.clone();
                }
                let (begun, kept) = (factor.clone(), best.clone());
                let found =
                    stress.part(&factor, rank, part, state.take(), &mut |cost, inner| {
                        let state = || {
                            let state = inner().with_block("begun", begun.clone());
                            match &kept {
                                Some(best) => state.with_block("best", best.factor.clone()),
                                None => state,
                            }
                        };
                        driver.iteration(cost, || None, || (), Some(&state))
                    })?;
                driver.check_interrupted()?;
                if part < PRICES.len() {
                    factor = found.factor;
                } else if best.as_ref().is_none_or(|best| found.cost < best.cost) {
                    best = Some(found);
                }
            }
        }
        let best = best.expect("there is a start");
        let mut factor = signed(principal(&best.factor, rank)?);
        if let Some([points, known]) = &given {
            // The picture is laid as that of the model.
            let stay: Vec<usize> = (0..n).filter(|&i| known[(i, 0)] > 0.0).collect();
            if stay.len() > rank {
                factor = aligned(&best.factor, points, &stay)?;
            }
        }
        let report = driver.finish(Ended::Converged)?;
        let repeated = data.known.len() - known.len();
        map.model(items, repeated, &stress, factor, best.cost, report)
    }

    /// Starts from the dissimilarities, and a random one.
    fn own_starts(&self, stress: &Stress<'_>) -> Vec<Mat<f64>> {
        let n = stress.points.len();
        let room = (self.dimensions + BESIDE).min(n);
        let random = Mat::from_fn(n, room, |i, j| {
            0.3 * normal_at(self.seed, RANDOM, i as u64, j as u64)
        });
        let classical = classical(n, &stress.scaled(), room);
        classical.into_iter().chain([random]).collect()
    }

    /// The points of a map, new ones amid those that they are nearest to, and which of them
    /// the map knows; with what to tell of it.
    fn started_from(
        &self,
        start: &Start,
        items: &Ids,
        stress: &Stress<'_>,
    ) -> Result<(Vec<Mat<f64>>, Vec<String>)> {
        let (features, plain) = (Features::Named(items.clone()), Preprocess::default());
        let side = Side {
            side: crate::form::Side::Left,
            features: &features,
            preprocess: &plain,
            size: items.len(),
            what: "items",
        };
        let found = start.found(&side)?;
        let old = start.model().item_coordinates::<f64>()?;
        let asked = (self.dimensions != Map::default().dimensions).then_some(self.dimensions);
        let n = items.len();
        let rank = start.rank_of(asked, (n, n.saturating_sub(1)))?;
        let points = Mat::from_fn(n, old.rank, |i, j| match found.at[i] {
            Some(at) => old.row(at as usize)[j],
            None => 0.0,
        });
        let known: Vec<bool> = found.at.iter().map(Option::is_some).collect();
        let points = with_new(points, &known, stress.known, stress.scale, self.seed);
        let points = match rank < old.rank {
            true => principal(&points, rank)?,
            false => Mat::from_fn(n, rank, |i, j| match j < old.rank {
                true => points[(i, j)],
                false => 0.0,
            }),
        };
        let known = Mat::from_fn(n, 1, |i, _| f64::from(u8::from(known[i])));
        let unknown = found.at.iter().filter(|at| at.is_none()).count();
        let notes = match unknown {
            0 => Vec::new(),
            _ => vec![format!(
                "the model does not know {unknown} of {n} items: they start amid those that they are nearest to"
            )],
        };
        let scaled = faer::Scale(1.0 / stress.scale) * points;
        Ok((vec![scaled, known], notes))
    }

    fn check(&self, n: usize, known: &[Dissimilarity]) -> Result<()> {
        if n < 2 {
            return Err(Error::input(format!(
                "a map is made of two items at least, found {n}"
            )));
        }
        if self.dimensions >= n {
            return Err(Error::option(
                "dimensions",
                format!(
                    "must be at most {} for {n} items, found {}",
                    n - 1,
                    self.dimensions
                ),
            ));
        }
        if !known.iter().any(|d| d.value > 0.0) {
            return Err(Error::input("all dissimilarities are 0"));
        }
        let numbers = (n * (self.dimensions + BESIDE) * 12) as u128;
        memory::require(8 * numbers, &format!("a map of {n} items"))
    }

    fn model(
        &self,
        items: &Ids,
        repeated: usize,
        stress: &Stress<'_>,
        factor: Mat<f64>,
        cost: f64,
        report: Report,
    ) -> Result<Fit> {
        let n = items.len();
        let factor = faer::Scale(stress.scale) * factor;
        let of_all = stress.of(&factor);
        let known = stress.known;
        let (mut wrong, mut all) = (0.0, 0.0);
        for (d, known) in of_all.iter().zip(known) {
            wrong += (d.sqrt() / stress.scale - known.value / stress.scale).powi(2);
            all += (known.value / stress.scale).powi(2);
        }
        let steps = report.counters.steps;
        let card = Card {
            score: Score::Distance,
            seed: self.seed,
            init: match self.init {
                StartInit::Own => "dissimilarities".into(),
                StartInit::Model => self.init.name().into(),
            },
            counters: Counters {
                steps,
                updates: steps,
                ..Counters::default()
            },
            ..Card::new("flat")
        };
        let form = Form::Psd(Psd::new(whole(&factor)?));
        let model = Model {
            card,
            form: Precise::F64(form),
            features: Features::Named(items.clone()),
            preprocess: Preprocess::default(),
            objects: None,
            knowledge: Knowledge::Map(Mapped {
                card: KernelCard {
                    map: true,
                    function: None,
                    preprocess: Default::default(),
                    alpha: 0.0,
                    drawn: None,
                    constraints: known.len(),
                    violated: 0,
                    cost,
                },
                dissimilarities: Dissimilarities {
                    list: known.to_vec(),
                },
            }),
        };
        let parts = parts(n, known);
        let mut report = report
            .with("items", n)
            .with("pairs", known.len())
            .with("repeated", repeated)
            .with("parts", parts)
            .with("cost", cost)
            .with("stress", (wrong / all).sqrt());
        report.notes = self.notes(n, known.len(), repeated, parts);
        Ok(Fit { model, report })
    }

    /// What users should know of the dissimilarities of a map.
    fn notes(&self, n: usize, pairs: usize, repeated: usize, parts: usize) -> Vec<String> {
        let mut notes = Vec::new();
        if repeated > 0 {
            notes.push(format!(
                "{repeated} pairs came again; the last of a pair counts"
            ));
        }
        if parts > 1 {
            notes.push(format!(
                "the items fall into {parts} parts that no pair connects: where these lie to each other means nothing"
            ));
        }
        let few = self.few_pairs(n);
        if pairs < few {
            notes.push(format!(
                "{pairs} pairs are few for so many items: fewer than {few} hardly determine the map"
            ));
        }
        notes
    }
}

/// Where a run stands: the start, the part of its way, and the cost of the best map.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Stage {
    attempt: usize,
    part: usize,
    best: Option<f64>,
}

/// Changes when the items or the dissimilarities do.
fn fingerprint(items: &Ids, known: &[Dissimilarity]) -> u64 {
    let mut hash = Fingerprint(0);
    hash.ids(items);
    hash.numbers(known.iter().map(|d| d.left));
    hash.numbers(known.iter().map(|d| d.right));
    known.iter().for_each(|d| hash.value(d.value));
    hash.0
}

impl<'a> Learn<MapData<'a>> for Map {
    fn learn(&self, data: MapData<'a>, run: Run<'_>) -> Result<Fit> {
        self.fit_with(data, run)
    }
}

impl Model {
    /// Goes on with a map: dissimilarities are replaced or added. `items` are the
    /// names of the map's items and of new ones behind them. The map starts from where
    /// its points are, lets them pass each other only where that lowers the cost by
    /// more than a hundredth, and is turned so that items of which nothing new is
    /// known stay where they were.
    pub fn update_map(
        &self,
        items: &Ids,
        news: &[Dissimilarity],
        threads: usize,
        mut run: Run<'_>,
    ) -> Result<MapUpdate> {
        let Knowledge::Map(known) = &self.knowledge else {
            return Err(Error::input(format!(
                "a model for {} is no map of dissimilarities",
                self.task()
            )));
        };
        let known = &known.dissimilarities;
        let old = self.item_coordinates::<f64>()?;
        let (before, n, rank) = (old.len(), items.len(), old.rank);
        let same = self.items()?.iter().zip(items.iter()).all(|(a, b)| a == b);
        if n < before || !same {
            return Err(Error::input("the items of the map are not the first ones"));
        }
        let mut all: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        all.extend(known.list.iter().map(|d| (place(d), d.value)));
        let given = news.len();
        let news = unique(news);
        let (mut added, mut changed) = (0, 0);
        let mut touched = vec![false; n];
        for d in &news {
            let was = all.insert(place(d), d.value);
            if was == Some(d.value) {
                continue;
            }
            match was {
                None => added += 1,
                Some(_) => changed += 1,
            }
            touched[d.left as usize] = true;
            touched[d.right as usize] = true;
        }
        let list = |((left, right), value)| Dissimilarity { left, right, value };
        let all: Vec<Dissimilarity> = all.into_iter().map(list).collect();
        let map = Map::default().dimensions(rank).seed(self.card.seed);
        map.check(n, &all)?;
        let stress = Stress::new(n, &all, threads)?;
        let (mut done, most) = (0, (PRICES.len() * LIFTED.0 + 2 * FLAT.0) as u64);
        let mut observe = |_: f64, _: &dyn Fn() -> SolverState| {
            done += 1;
            run.tell(&Event::Progress { done, total: most })
        };
        let old = Mat::from_fn(before, rank, |i, j| old.row(i)[j]);
        let mut start = Mat::zeros(n, rank);
        start.subrows_mut(0, before).copy_from(&old);
        let is_old: Vec<bool> = (0..n).map(|i| i < before).collect();
        let start = with_new(start, &is_old, &all, stress.scale, map.seed);
        let start = faer::Scale(1.0 / stress.scale) * start;
        let plain = stress.lower(start.clone(), (rank, 0.0), FLAT, None, &mut observe)?;
        let room = (rank + BESIDE).min(n);
        let mut factor = raised(&start, room, map.seed);
        let mut passed = plain.clone();
        for part in 0..=PRICES.len() {
            passed = stress.part(&factor, rank, part, None, &mut observe)?;
            factor.clone_from(&passed.factor);
        }
        if !run.goes_on() {
            return Err(run.no_model());
        }
        let lifted = passed.cost < BETTER * plain.cost;
        let best = if lifted { passed } else { plain };
        // What stays is what the picture is laid by; all that was there, where too
        // little stays.
        let mut stay: Vec<usize> = (0..before).filter(|&i| !touched[i]).collect();
        if stay.len() <= rank {
            stay = (0..before).collect();
        }
        let old = faer::Scale(1.0 / stress.scale) * old;
        let factor = aligned(&best.factor, &old, &stay)?;
        let squares = stay.iter().map(|&i| {
            let moved = |j: usize| (factor[(i, j)] - old[(i, j)]).powi(2);
            (0..rank).map(moved).sum::<f64>()
        });
        let moved = (squares.sum::<f64>() / stay.len().max(1) as f64).sqrt() * stress.scale;
        let repeated = given - news.len();
        let counters = Counters {
            steps: done,
            updates: done,
            ..Counters::default()
        };
        let report = Report::new(Stop::Converged, counters);
        let mut fit = map.model(items, repeated, &stress, factor, best.cost, report)?;
        let counters = &mut fit.model.card.counters;
        counters.steps += self.card.counters.steps;
        counters.updates += self.card.counters.updates;
        counters.new_features = self.card.counters.new_features + (n - before) as u64;
        Ok(MapUpdate {
            fit,
            added,
            changed,
            new_items: n - before,
            lifted,
            moved,
        })
    }
}

impl<'a> Stress<'a> {
    fn new(n: usize, known: &'a [Dissimilarity], threads: usize) -> Result<Self> {
        let sum: f64 = known.iter().map(|d| d.value).sum();
        let scale = sum / known.len().max(1) as f64;
        let beyond = |d: &&Dissimilarity| d.left as usize >= n || d.right as usize >= n;
        if let Some(d) = known.iter().find(beyond) {
            let message = format!("a pair of items {} and {} among {n}", d.left, d.right);
            return Err(Error::input(message));
        }
        Ok(Stress {
            points: Points::unit(n),
            known,
            scale,
            threads,
        })
    }

    fn scaled(&self) -> Vec<Dissimilarity> {
        let scaled = |d: &Dissimilarity| Dissimilarity {
            value: d.value / self.scale,
            ..*d
        };
        self.known.iter().map(scaled).collect()
    }

    fn distances(&self) -> Result<Distances<'_>> {
        let pairs = self.known.iter().map(|d| Pair {
            left: d.left,
            right: d.right,
        });
        Distances::new(&self.points, pairs.collect(), self.threads)
    }

    /// Squared distances of the known pairs.
    fn of(&self, factor: &Mat<f64>) -> Vec<f64> {
        let square = |d: &Dissimilarity| {
            let (i, j) = (d.left as usize, d.right as usize);
            let columns = 0..factor.ncols();
            columns
                .map(|c| (factor[(i, c)] - factor[(j, c)]).powi(2))
                .sum()
        };
        self.known.iter().map(square).collect()
    }

    /// Lowers squared stress with a price on the coordinates behind the first.
    fn lower(
        &self,
        start: Mat<f64>,
        (free, price): (usize, f64),
        (iterations, decrease): (usize, f64),
        state: Option<SolverState>,
        observe: Observe<'_>,
    ) -> Result<Found> {
        let square = |d: &Dissimilarity| (Bound::Equal, (d.value / self.scale).powi(2));
        let lifted = Lifted {
            stress: PsdRegression {
                distances: self.distances()?,
                pair_loss: Bounds {
                    list: self.known.iter().map(square).collect(),
                },
                space: Flat,
            },
            free,
            price: price / self.points.len() as f64,
        };
        let limits = Limits {
            iterations,
            cost: 0.0,
            decrease,
            gradient: 1e-12,
        };
        let solver = Solver::ConjugateGradient {
            precondition: false,
        };
        let rank = start.ncols();
        let mut observer = |step: &Iteration<'_>| observe(step.cost, &|| step.state());
        let solved = match &state {
            None => solver.solve(&lifted, vec![start], limits, &mut observer),
            Some(state) => solver.resume(&lifted, rank, state, limits, &mut observer)?,
        };
        let factor = solved.point.into_iter().next();
        let factor = factor.filter(|g| solved.cost.is_finite() && g.is_all_finite());
        let lost = || Error::input("the dissimilarities leave the range of numbers");
        Ok(Found {
            factor: factor.ok_or_else(lost)?,
            cost: solved.cost,
        })
    }

    /// One part of the way of a map: squared stress with room to pass, then with a
    /// growing price on it, and at last in the coordinates wanted.
    fn part(
        &self,
        factor: &Mat<f64>,
        rank: usize,
        part: usize,
        state: Option<SolverState>,
        observe: Observe<'_>,
    ) -> Result<Found> {
        match PRICES.get(part) {
            Some(&price) => {
                let axes = principal(factor, factor.ncols())?;
                self.lower(axes, (rank, price), LIFTED, state, observe)
            }
            None => {
                let axes = principal(factor, rank)?;
                self.lower(axes, (rank, 0.0), FLAT, state, observe)
            }
        }
    }
}

/// The two items of a pair, the smaller number first.
fn place(d: &Dissimilarity) -> (u32, u32) {
    (d.left.min(d.right), d.left.max(d.right))
}

/// Each pair once, with the last of its dissimilarities.
fn unique(known: &[Dissimilarity]) -> Vec<Dissimilarity> {
    let pairs: BTreeMap<(u32, u32), f64> = known.iter().map(|d| (place(d), d.value)).collect();
    let one = |((left, right), value)| Dissimilarity { left, right, value };
    pairs.into_iter().map(one).collect()
}

/// Points about their mean, along the first of their principal axes.
fn principal(g: &Mat<f64>, count: usize) -> Result<Mat<f64>> {
    let n = g.nrows();
    let means: Vec<f64> = g
        .col_iter()
        .map(|c| c.iter().sum::<f64>() / n as f64)
        .collect();
    let centered = Mat::from_fn(n, g.ncols(), |i, j| g[(i, j)] - means[j]);
    let lost = || Error::failure("the points leave the range of numbers");
    let (p, sigma, _) = svd(&centered).ok_or_else(lost)?;
    Ok(Mat::from_fn(n, count, |i, j| p[(i, j)] * sigma[j]))
}

/// The factor of a form: no column is lost.
fn whole(g: &Mat<f64>) -> Result<Tall<f64>> {
    let lost = || Error::failure("all points of the map are in one place");
    let (p, sigma, q) = svd(g).ok_or_else(lost)?;
    let largest = sigma.first().copied().filter(|s| *s > 0.0);
    let least = LEAST * largest.ok_or_else(lost)?;
    if sigma.iter().all(|s| *s >= least) {
        return Tall::from_fn(g.nrows(), g.ncols(), |i, j| g[(i, j)]);
    }
    let k = g.ncols();
    let raised = Mat::from_fn(g.nrows(), k, |i, j| p[(i, j)] * sigma[j].max(least));
    let raised = raised * q.transpose();
    Tall::from_fn(g.nrows(), k, |i, j| raised[(i, j)])
}

/// Points with room beside them to pass each other.
fn raised(points: &Mat<f64>, room: usize, seed: u64) -> Mat<f64> {
    Mat::from_fn(points.nrows(), room, |i, j| match j < points.ncols() {
        true => points[(i, j)],
        false => 0.05 * normal_at(seed, RANDOM, i as u64, j as u64),
    })
}

/// Old points, and new ones amid those that they are nearest to.
fn with_new(
    old: Mat<f64>,
    is_old: &[bool],
    known: &[Dissimilarity],
    scale: f64,
    seed: u64,
) -> Mat<f64> {
    let (n, rank) = (old.nrows(), old.ncols());
    let mut weights = vec![0.0; n];
    let mut out = old.clone();
    for d in known {
        let (mut i, mut j) = (d.left as usize, d.right as usize);
        if is_old[j] {
            std::mem::swap(&mut i, &mut j);
        }
        if is_old[i] && !is_old[j] {
            let weight = 1.0 / (d.value / scale + 0.1).powi(2);
            weights[j] += weight;
            (0..rank).for_each(|c| out[(j, c)] += weight * old[(i, c)]);
        }
    }
    for i in (0..n).filter(|&i| !is_old[i]) {
        for c in 0..rank {
            let noise = 0.1 * scale * normal_at(seed, RANDOM, i as u64, c as u64);
            out[(i, c)] = out[(i, c)] / f64::max(weights[i], f64::MIN_POSITIVE) + noise;
        }
    }
    out
}

/// Points turned, mirrored and shifted so that some of them lie as near as can be to
/// where they were [Schönemann 1966].
fn aligned(g: &Mat<f64>, old: &Mat<f64>, stay: &[usize]) -> Result<Mat<f64>> {
    let k = g.ncols();
    let mean = |m: &Mat<f64>, c: usize| {
        stay.iter().map(|&i| m[(i, c)]).sum::<f64>() / stay.len().max(1) as f64
    };
    let (new_mean, old_mean): (Vec<f64>, Vec<f64>) =
        (0..k).map(|c| (mean(g, c), mean(old, c))).unzip();
    let of =
        |m: &Mat<f64>, mean: &[f64]| Mat::from_fn(stay.len(), k, |i, c| m[(stay[i], c)] - mean[c]);
    let overlap = of(g, &new_mean).transpose() * of(old, &old_mean);
    let lost = || Error::failure("the points leave the range of numbers");
    let (u, _, v) = svd(&overlap).ok_or_else(lost)?;
    let turn = u * v.transpose();
    let shifted = Mat::from_fn(g.nrows(), k, |i, c| g[(i, c)] - new_mean[c]);
    let turned = shifted * turn;
    Ok(Mat::from_fn(g.nrows(), k, |i, c| {
        turned[(i, c)] + old_mean[c]
    }))
}

/// Parts that no pair connects.
fn parts(n: usize, known: &[Dissimilarity]) -> usize {
    let mut parent: Vec<usize> = (0..n).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        while parent[i] != i {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        i
    }
    let mut parts = n;
    for d in known {
        let a = root(&mut parent, d.left as usize);
        let b = root(&mut parent, d.right as usize);
        if a != b {
            parent[a] = b;
            parts -= 1;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::splitmix64;

    fn fit(map: Map, n: usize, known: &[Dissimilarity]) -> Result<Fit> {
        let items = &names(n);
        map.fit_with(MapData { items, known }, Run::default())
    }

    fn number(fit: &Fit, name: &str) -> f64 {
        fit.report.more[name].as_f64().unwrap()
    }

    fn names(n: usize) -> Ids {
        let mut out = Ids::new();
        (0..n).for_each(|i| {
            out.intern(&format!("p{i}"));
        });
        out
    }

    /// Points in a rectangle, and a share of their distances.
    fn plane(n: usize, percent: u64) -> (Mat<f64>, Vec<Dissimilarity>) {
        let unit = |i: usize, j: usize| {
            (splitmix64((i * 2 + j) as u64) >> 11) as f64 / (1_u64 << 53) as f64
        };
        let x = Mat::from_fn(n, 2, |i, j| 7.0 * (2 - j) as f64 * unit(i, j));
        let pairs = (0..n).flat_map(|i| (0..i).map(move |j| (j, i)));
        let some = pairs.filter(|(i, j)| splitmix64((i * n + j + 99) as u64) % 100 < percent);
        let known = some.map(|(i, j)| Dissimilarity {
            left: i as u32,
            right: j as u32,
            value: between(&x, i, j),
        });
        let known = known.collect();
        (x, known)
    }

    fn between(x: &Mat<f64>, i: usize, j: usize) -> f64 {
        let squares = (0..x.ncols()).map(|c| (x[(i, c)] - x[(j, c)]).powi(2));
        squares.sum::<f64>().sqrt()
    }

    fn coordinates(model: &Model) -> Mat<f64> {
        let found = model.item_coordinates::<f64>().unwrap();
        Mat::from_fn(found.len(), found.rank, |i, j| found.row(i)[j])
    }

    #[test]
    fn a_plane_is_recovered_from_a_third_of_its_distances() {
        for (n, percent) in [(60, 30), (60, 100), (25, 60)] {
            let (x, known) = plane(n, percent);
            let found = fit(Map::default(), n, &known).unwrap();
            let cost = number(&found, "cost");
            assert!(cost < 1e-8 && number(&found, "stress") < 1e-3, "{cost}");
            assert_eq!(number(&found, "parts"), 1.0);
            let g = coordinates(&found.model);
            for (i, j) in (0..n).flat_map(|i| (0..i).map(move |j| (i, j))) {
                let (got, want) = (between(&g, i, j), between(&x, i, j));
                assert!((got - want).abs() < 0.02, "{got} {want}");
            }
            // Centered, along principal axes.
            let gram = g.transpose() * &g;
            assert!(gram[(0, 1)].abs() < 1e-8 * gram[(0, 0)] && gram[(0, 0)] > gram[(1, 1)]);
            let sum: f64 = (0..n).map(|i| g[(i, 0)]).sum();
            assert!(sum.abs() < 1e-8);
        }
    }

    #[test]
    fn an_update_moves_what_changed_and_leaves_the_rest() {
        let n = 50;
        let (x, known) = plane(n, 40);
        let first = fit(Map::default(), n, &known).unwrap();
        let old = coordinates(&first.model);
        // Point 7 goes to another place, and a point comes.
        let mut moved = Mat::from_fn(n + 1, 2, |i, j| x[(i.min(n - 1), j)]);
        (moved[(7, 0)], moved[(7, 1)]) = (1.0, 6.0);
        (moved[(n, 0)], moved[(n, 1)]) = (9.0, 3.0);
        let of_seven = known.iter().filter(|d| d.left == 7 || d.right == 7);
        let mut news: Vec<Dissimilarity> = of_seven
            .map(|d| Dissimilarity {
                value: between(&moved, d.left as usize, d.right as usize),
                ..*d
            })
            .collect();
        let changed = news.len();
        news.extend((0..20).map(|i| Dissimilarity {
            left: i,
            right: n as u32,
            value: between(&moved, i as usize, n),
        }));
        let found = first
            .model
            .update_map(&names(n + 1), &news, 1, Run::default())
            .unwrap();
        assert_eq!(
            (found.changed, found.added, found.new_items),
            (changed, 20, 1)
        );
        let cost = number(&found.fit, "cost");
        assert!(cost < 1e-8, "{cost}");
        assert!(found.moved < 0.01, "{}", found.moved);
        let new = coordinates(&found.fit.model);
        for i in (0..n).filter(|&i| i != 7) {
            let away = (0..2).map(|c| (new[(i, c)] - old[(i, c)]).abs());
            assert!(away.fold(0.0, f64::max) < 0.05);
        }
        let way = |a: &Mat<f64>, b: &Mat<f64>| {
            ((a[(7, 0)] - b[(7, 0)]).powi(2) + (a[(7, 1)] - b[(7, 1)]).powi(2)).sqrt()
        };
        assert!((way(&new, &old) - way(&moved, &x)).abs() < 0.05);
    }

    #[test]
    fn what_cannot_be_mapped_is_refused_and_lines_are_no_trouble() {
        let pair = |left, right, value| Dissimilarity { left, right, value };
        let say = |found: Result<Fit>| found.unwrap_err().to_string();
        assert_eq!(
            say(fit(Map::default(), 1, &[])),
            "a map is made of two items at least, found 1"
        );
        assert_eq!(
            say(fit(Map::default(), 2, &[pair(0, 1, 1.0)])),
            "option `dimensions` must be at most 1 for 2 items, found 2"
        );
        assert_eq!(
            say(fit(Map::default().dimensions(1), 2, &[pair(0, 1, 0.0)])),
            "all dissimilarities are 0"
        );
        // Points on a line, in the plane; the last of two lines counts.
        let line = vec![
            pair(0, 1, 9.0),
            pair(1, 0, 1.0),
            pair(1, 2, 2.0),
            pair(0, 2, 3.0),
        ];
        let found = fit(Map::default(), 3, &line).unwrap();
        let counts = (number(&found, "pairs"), number(&found, "repeated"));
        assert_eq!(counts, (3.0, 1.0));
        assert!(
            number(&found, "stress") < 1e-3,
            "{}",
            number(&found, "stress")
        );
        assert!(found.model.singular_values().unwrap().unwrap()[1] > 0.0);
        // Huge and tiny values, parts that nothing connects.
        for unit in [1e-60, 1e60] {
            let known = vec![pair(0, 1, unit), pair(2, 3, 2.0 * unit), pair(1, 0, unit)];
            let found = fit(Map::default(), 4, &known).unwrap();
            assert_eq!(number(&found, "parts"), 2.0);
            assert!(
                number(&found, "stress") < 1e-3,
                "{}",
                number(&found, "stress")
            );
        }
    }
}
