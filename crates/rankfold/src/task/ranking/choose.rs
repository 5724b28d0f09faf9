//! What a run from the start `ridge` decides before its first step: preprocessing, the
//! penalty and the shape of the closed form, the rank, whether logistic regression goes on
//! from there, the step size and the length.
//!
//! All is judged on held-out training rows, in this order, each with what was decided
//! before it. Then the closed form is made anew of all rows, and the chosen number of
//! passes is taken over all rows, so that the model learns from those held out as well.
//! Where there are few rows, several shares take turns in being held out.

use super::evaluation::LabelScores;
use super::labels::Positives;
use super::session::Stepper;
use super::start::Closed;
use super::{Order, Ranking};
use crate::batch::{LabelFit, LabelRidge, Shape};
use crate::data::{Features, Labelled};
use crate::eval::Scorer;
use crate::eval::metrics::average_precision_listed;
use crate::form::Form;
use crate::model::{Preprocess, Prior, Steps};
use crate::parallel::map_blocks;
use crate::random::splitmix64;
use crate::task::average::Average;
use crate::task::run::Trial;
use crate::task::{preprocessing, threads};
use crate::{Error, Real, Result, Rows};
use faer::Mat;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Rows that judge, at most, and as a share of all.
const JUDGING: usize = 1_000;
const SHARE: usize = 5;

/// Rows that judge in all turns together, where there are so many.
const ENOUGH: usize = 500;
const TURNS: usize = 5;

/// Rows that trials learn from, at most.
const LEARNING: usize = 10_000;

/// Scores that a trial holds, at most.
const SCORES: usize = 1 << 22;

/// The share of directions in trials of preprocessing, in large data.
const FEW: f64 = 0.5;

/// Shapes of the closed form that are tried; the first is ridge regression.
const SHAPES: [Shape; 7] = [
    shape(0.0, 0.0),
    shape(0.0, 0.25),
    shape(0.125, 0.375),
    shape(0.25, 0.5),
    shape(0.5, 0.5),
    shape(0.5, 0.75),
    shape(0.75, 0.75),
];

/// The shapes by which preprocessing is judged: ridge regression, and one in the middle. What is
/// best for one of them alone can be far from the best for the other.
const JUDGES: [Shape; 2] = [SHAPES[0], SHAPES[3]];

const fn shape(penalty: f64, scale: f64) -> Shape {
    Shape { penalty, scale }
}

/// Penalties, as multiples of the one of generalized cross-validation: powers of this.
const FACTOR: f64 = 2.5;
const POWERS: i32 = 8;

/// How much worse than the best a smaller rank may be, as a share of the mAP.
const ABOUT: f64 = 0.0002;

/// Passes after which the steps are measured: all sizes after the first of them, the best
/// after the others.
const FIRST_PASSES: [u64; 2] = [1, 2];
const PASSES: [u64; 4] = [3, 5, 7, 10];

/// Measurements without a gain after which no more passes are tried.
const PATIENCE: usize = 2;

/// The work of a trial, at most, counted in products of two numbers.
const WORK: f64 = 7e8;

/// The same of logistic regression in all turns.
const LOGISTIC_WORK: f64 = 5e10;

/// Step sizes that are tried, for rows of length one: scores have about one size after
/// the closed form.
const STEP_SIZES: [f64; 2] = [0.1, 0.3];

/// A run that loses this share of the mAP at first is not worth more passes.
const LOSS: f64 = 0.02;

/// Standard errors up to which a gain is chance.
const CHANCE: f64 = 1.5;

/// What was decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Decided {
    /// Preprocessing.
    pub steps: Steps,
    /// The penalty; `None` for that of generalized cross-validation.
    pub penalty: Option<f64>,
    /// The exponents of the shape of the closed form.
    pub shape: (f64, f64),
    /// `None` where it is given.
    pub rank: Option<usize>,
    /// The penalty of logistic regression on the directions of the closed form, where it
    /// is worth its time.
    pub logistic: Option<f64>,
    pub step_size: f64,
    /// Passes over the rows.
    pub passes: u64,
}

impl Decided {
    pub fn shape(&self) -> Shape {
        shape(self.shape.0, self.shape.1)
    }

    /// The closed form that was decided on.
    pub fn fit(&self, ridge: &LabelRidge) -> LabelFit {
        let penalty = self.penalty.unwrap_or_else(|| ridge.penalty());
        ridge.fit(penalty, self.shape())
    }

    /// What the user should know, in words.
    pub fn note(&self, given_length: bool) -> String {
        let steps: Vec<String> = self
            .steps
            .names()
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let logistic = match self.logistic {
            Some(_) => ", logistic regression after ridge regression",
            None => "",
        };
        let length = match (given_length, self.passes) {
            (true, _) => String::new(),
            (false, 0) => ", no steps after the start: they gain nothing".to_owned(),
            (false, 1) => ", one pass of steps after the start".to_owned(),
            (false, n) => format!(", {n} passes of steps after the start"),
        };
        let steps = steps.join(", ");
        format!("chosen on held-out rows: {steps}{logistic}{length}")
    }
}

/// Sees every trial; false ends the run.
pub(super) type Tell<'a> = &'a mut dyn FnMut(&Trial) -> bool;

/// The rows that a run learns from.
#[derive(Clone, Copy)]
pub(super) struct Known<'a, R> {
    pub data: &'a Labelled<R>,
    /// Rows with labels, but not all of them.
    pub members: &'a [u32],
    pub positives: &'a Positives,
}

/// Some rows held out, and the closed form of others.
struct Turn<R> {
    learning: Vec<u32>,
    judging: Positives,
    /// Rows as a model would see them.
    rows: Rows<R>,
    held_out: Rows<R>,
    ridge: LabelRidge,
    /// By generalized cross-validation.
    penalty: f64,
    coordinates: Mat<f64>,
}

impl<R: Real> Turn<R> {
    /// The average precision of each row held out.
    fn judged(&self, scorer: &impl Scorer, threads: usize) -> Vec<f64> {
        let rows = scorer.rows();
        let blocks = map_blocks(rows, 16, threads, |range| {
            let mut scores = vec![0.0; scorer.candidates() * range.len()];
            scorer.scores(&mut scores, range.start, range.len());
            let lists = scores.chunks_exact(scorer.candidates());
            range
                .zip(lists)
                .map(|(row, scores)| average_precision_listed(scores, self.judging.of(row)))
                .collect::<Vec<f64>>()
        });
        blocks.concat()
    }
}

/// The average precision of each row held out.
#[derive(Debug, Clone)]
struct Judged(Vec<f64>);

impl Judged {
    fn map(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Whether it is better by more than chance: by more than so many standard errors of
    /// the difference.
    fn beats(&self, other: &Judged) -> bool {
        let n = self.0.len() as f64;
        let gain = self.map() - other.map();
        let pairs = self.0.iter().zip(&other.0);
        let squares = pairs.map(|(a, b)| (a - b - gain).powi(2)).sum::<f64>();
        gain > CHANCE * (squares / n / (n - 1.0).max(1.0)).sqrt()
    }
}

/// A column of scores for each row.
struct Columns(Mat<f64>);

impl Scorer for Columns {
    fn rows(&self) -> usize {
        self.0.ncols()
    }

    fn candidates(&self) -> usize {
        self.0.nrows()
    }

    fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
        let lists = out.chunks_exact_mut(self.candidates());
        for (row, out) in (first..first + queries).zip(lists) {
            let column = out.iter_mut().zip(self.0.col(row).iter());
            column.for_each(|(out, score)| *out = *score);
        }
    }
}

/// A run of trials.
struct Choice<'a, 't, R> {
    options: &'a Ranking,
    known: Known<'a, R>,
    labels: usize,
    threads: usize,
    trials: Vec<Trial>,
    tell: Tell<'t>,
}

/// Decides what the options leave open; gives the trials as well.
pub(super) fn decide<R: Real>(
    options: &Ranking,
    known: Known<'_, R>,
    tell: Tell<'_>,
) -> Result<(Decided, Vec<Trial>)> {
    let mut choice = Choice {
        options,
        known,
        labels: known.data.labels.names.len(),
        threads: threads(options.threads),
        trials: Vec::new(),
        tell,
    };
    let decided = choice.decide()?;
    Ok((decided, choice.trials))
}

impl<R: Real> Choice<'_, '_, R> {
    fn decide(&mut self) -> Result<Decided> {
        let options = self.options;
        let asked = (options.weight, options.normalize, options.standardize);
        let candidates = preprocessing::candidates(asked, &self.known.data.rows);
        let mut decided = Decided {
            steps: candidates[0],
            penalty: None,
            shape: (0.0, 0.0),
            rank: None,
            logistic: None,
            step_size: options.step_size.unwrap_or(STEP_SIZES[0]),
            passes: 0,
        };
        if !options.has_steps() {
            decided.step_size = options.aggressiveness;
        }
        let turns = self.turns();
        if turns.is_empty() {
            return Ok(decided);
        }
        if candidates.len() > 1 {
            decided.steps = self.preprocessing(&turns, &candidates)?;
        }
        let mut made = Vec::new();
        for turn in &turns {
            made.push(self.turn(turn, decided.steps, 1.0)?);
        }
        let plain = self.closed_form(&made, &mut decided)?;
        let rank = match options.rank.given() {
            Some(rank) => Some(rank),
            None => self.rank(&made, &mut decided)?,
        };
        let Some(rank) = rank else {
            return Ok(decided);
        };
        let starts = self.logistic(&made, plain, &mut decided)?;
        let size_is_open = options.has_steps() && options.step_size.is_none();
        if options.chooses_length() || size_is_open {
            self.steps(&made, starts, rank, &mut decided)?;
        }
        Ok(decided)
    }

    /// Rows to learn from and rows to judge by, in turns.
    fn turns(&self) -> Vec<(Vec<u32>, Vec<u32>)> {
        let key = |row: u32| splitmix64(splitmix64(self.options.seed) ^ u64::from(row));
        let mut order = self.known.members.to_vec();
        order.sort_by_cached_key(|&row| (key(row), row));
        let n = order.len();
        if n < 2 {
            return Vec::new();
        }
        let most = (SCORES / self.labels).clamp(20, JUDGING);
        let held = n.div_ceil(SHARE).min(most);
        let turns = ENOUGH.div_ceil(held).min(TURNS).min(n / held);
        let turn = |t: usize| {
            let range = t * held..(t + 1) * held;
            let mut judging = order[range.clone()].to_vec();
            let rest = order[..range.start].iter().chain(&order[range.end..]);
            let mut learning: Vec<u32> = rest.take(LEARNING).copied().collect();
            learning.sort_unstable();
            judging.sort_unstable();
            (learning, judging)
        };
        (0..turns).map(turn).collect()
    }

    fn turn(
        &self,
        (learning, judging): &(Vec<u32>, Vec<u32>),
        steps: Steps,
        directions: f64,
    ) -> Result<Turn<R>> {
        let Known {
            data, positives, ..
        } = self.known;
        let fill = matches!(data.features, Features::Named(_) | Features::Columns(_));
        let preprocess = Preprocess::fit(steps, fill, &data.rows, learning);
        let columns = data.rows.columns();
        let ready = |members: &[u32]| {
            let mut some = data.rows.select(members.iter().map(|&row| row as usize));
            some.widen(columns);
            match preprocess.passes(&some) {
                true => Ok(some),
                false => preprocess.apply(&some, columns),
            }
        };
        let (rows, held_out) = (ready(learning)?, ready(judging)?);
        let labels = |i: usize| positives.of(learning[i] as usize);
        let (count, seed) = (self.labels, self.options.seed);
        let ridge = LabelRidge::new(&rows, labels, count, directions, seed, self.threads)?;
        let mut of_judging = Positives::default();
        for &row in judging {
            of_judging.push(positives.of(row as usize).iter().copied());
        }
        Ok(Turn {
            learning: learning.clone(),
            judging: of_judging,
            penalty: ridge.penalty(),
            coordinates: ridge.coordinates(&held_out, self.threads)?,
            rows,
            held_out,
            ridge,
        })
    }

    fn note(&mut self, settings: Map<String, Value>, map: f64) -> Result<()> {
        let trial = Trial {
            settings,
            metric: "map".into(),
            value: Some(map).filter(|map| map.is_finite()),
            steps: 0,
        };
        let goes_on = (self.tell)(&trial);
        self.trials.push(trial);
        match goes_on {
            true => Ok(()),
            false => Err(Error::interrupted("interrupted before the first step")),
        }
    }

    /// What the closed form reaches on all rows held out.
    fn judged(&self, turns: &[Turn<R>], penalty: f64, shape: Shape) -> Judged {
        let judged = |turn: &Turn<R>| {
            let fit = turn.ridge.fit(penalty * turn.penalty, shape);
            let scores = turn.ridge.scores(&fit, &turn.coordinates, self.threads);
            turn.judged(&Columns(scores), self.threads)
        };
        Judged(turns.iter().flat_map(judged).collect())
    }

    fn preprocessing(
        &mut self,
        turns: &[(Vec<u32>, Vec<u32>)],
        candidates: &[Steps],
    ) -> Result<Steps> {
        let mut best: Option<(f64, Steps)> = None;
        for &steps in candidates {
            let made: Result<Vec<Turn<R>>> = turns
                .iter()
                .map(|turn| self.turn(turn, steps, FEW))
                .collect();
            // Values that are too large as they are may do when they are scaled.
            let Ok(made) = made else { continue };
            let maps = JUDGES.map(|shape| self.climb(&made, shape).0.map());
            let map = maps.into_iter().fold(0.0, f64::max);
            let names = steps
                .names()
                .map(|(name, value)| (name.into(), json!(value)));
            self.note(Map::from_iter(names), map)?;
            if best.is_none_or(|(top, _)| map > top) {
                best = Some((map, steps));
            }
        }
        Ok(best.map_or(candidates[0], |(_, steps)| steps))
    }

    /// The best that a shape reaches and the penalty that does, as a multiple of that of
    /// generalized cross-validation: it goes up or down while that helps.
    fn climb(&self, turns: &[Turn<R>], shape: Shape) -> (Judged, f64) {
        let at = |power: i32| FACTOR.powi(power);
        let mut top = (self.judged(turns, at(0), shape), 0_i32);
        for direction in [1_i32, -1] {
            let mut power = direction;
            while power.abs() <= POWERS {
                let judged = self.judged(turns, at(power), shape);
                if judged.map() <= top.0.map() {
                    break;
                }
                top = (judged, power);
                power += direction;
            }
            if top.1 != 0 {
                break;
            }
        }
        (top.0, at(top.1))
    }

    /// Penalty and shape: ridge regression, unless another is better by more than chance.
    /// Gives the penalty of ridge regression.
    fn closed_form(&mut self, turns: &[Turn<R>], decided: &mut Decided) -> Result<f64> {
        let logs = turns.iter().map(|turn| turn.penalty.ln()).sum::<f64>();
        let middle = (logs / turns.len() as f64).exp();
        let mut tried = Vec::new();
        for shape in SHAPES {
            let (judged, multiple) = self.climb(turns, shape);
            let settings = [
                ("penalty", middle * multiple),
                ("shape_of_penalty", shape.penalty),
                ("shape_of_scale", shape.scale),
            ];
            let settings = settings.map(|(name, value)| (name.to_owned(), json!(value)));
            self.note(Map::from_iter(settings), judged.map())?;
            tried.push((judged, shape, middle * multiple));
        }
        let best = (1..tried.len()).fold(0, |best, i| {
            let better = tried[i].0.map() > tried[best].0.map();
            if better { i } else { best }
        });
        let chosen = match tried[best].0.beats(&tried[0].0) {
            true => best,
            false => 0,
        };
        let (_, shape, penalty) = tried[chosen];
        decided.penalty = Some(penalty);
        decided.shape = (shape.penalty, shape.scale);
        Ok(tried[0].2)
    }

    /// The smallest rank that does about as well as the best.
    fn rank(&mut self, turns: &[Turn<R>], decided: &mut Decided) -> Result<Option<usize>> {
        let mut reduced = Vec::new();
        for turn in turns {
            let fit = decided.fit(&turn.ridge);
            let Some(all) = turn.ridge.reduced(&fit) else {
                return Ok(None);
            };
            reduced.push((fit, all));
        }
        let most = reduced.iter().map(|(_, all)| all.rank).min().unwrap_or(0);
        let mut tried = Vec::new();
        for k in ranks(most) {
            let judged = turns.iter().zip(&reduced).flat_map(|(turn, (fit, all))| {
                let (ridge, threads) = (&turn.ridge, self.threads);
                let scores = ridge.scores_of_rank(fit, all, k, &turn.coordinates, threads);
                turn.judged(&Columns(scores), threads)
            });
            tried.push((k, Judged(judged.collect()).map()));
        }
        for &(k, map) in &tried {
            self.note(Map::from_iter([("rank".to_owned(), json!(k))]), map)?;
        }
        let best = tried.iter().map(|t| t.1).fold(0.0, f64::max);
        let good = tried.iter().find(|t| t.1 >= (1.0 - ABOUT) * best);
        // All directions of these rows may be fewer than those of all rows.
        decided.rank = match good {
            Some(&(k, _)) if k == most => Some(usize::MAX),
            Some(&(k, _)) => Some(k),
            None => None,
        };
        Ok(good.map(|t| t.0))
    }

    /// The closed form of each turn, after logistic regression where that is better by more
    /// than chance. Its penalty is that of ridge regression, by what a first step of
    /// Newton's method would make of it.
    fn logistic(
        &mut self,
        turns: &[Turn<R>],
        plain: f64,
        decided: &mut Decided,
    ) -> Result<Vec<Closed>> {
        let (given, positives) = (self.options.rank.given(), self.known.positives);
        let mut starts = Vec::new();
        for turn in turns {
            starts.push(Closed::new(&turn.ridge, decided, given)?);
        }
        let work = turns.iter().zip(&starts);
        let work = work.map(|(turn, closed)| turn.ridge.logistic_work(closed.rank()));
        if work.sum::<f64>() > LOGISTIC_WORK {
            return Ok(starts);
        }
        let logs: f64 = turns.iter().map(|turn| turn.ridge.typical().ln()).sum();
        let penalty = plain * (logs / turns.len() as f64).exp();
        let mut others = Vec::new();
        for (turn, closed) in turns.iter().zip(&starts) {
            let of = |i: usize| positives.of(turn.learning[i] as usize);
            let (ridge, rows) = (&turn.ridge, &turn.rows);
            match closed.logistic(ridge, rows, of, penalty, self.threads)? {
                Some(other) => others.push(other),
                None => return Ok(starts),
            }
        }
        let judged = |starts: &[Closed]| {
            let pairs = turns.iter().zip(starts);
            let judged = pairs.flat_map(|(turn, closed)| {
                let scores = closed.scores(&turn.ridge, &turn.coordinates, self.threads);
                turn.judged(&Columns(scores), self.threads)
            });
            Judged(judged.collect())
        };
        let (before, after) = (judged(&starts), judged(&others));
        let settings = Map::from_iter([("logistic_penalty".to_owned(), json!(penalty))]);
        self.note(settings, after.map())?;
        if after.beats(&before) {
            decided.logistic = Some(penalty);
            return Ok(others);
        }
        Ok(starts)
    }

    /// Step size and passes: the closed form as it is, unless steps are better by more than
    /// chance.
    fn steps(
        &mut self,
        turns: &[Turn<R>],
        closed: Vec<Closed>,
        rank: usize,
        decided: &mut Decided,
    ) -> Result<()> {
        let options = self.options;
        let mut starts = Vec::new();
        for (turn, closed) in turns.iter().zip(&closed) {
            let (ridge, seed) = (&turn.ridge, options.seed);
            let (form, prior) = closed.form::<R>(ridge, &turn.rows, seed, self.threads)?;
            let count = vec![0; self.labels];
            starts.push((form, Prior { count, ..prior }));
        }
        let sizes = match options.step_size {
            _ if !options.has_steps() => vec![options.aggressiveness],
            Some(size) => vec![size],
            None => {
                let unit = 1.0 / squared_length(&turns[0].rows);
                STEP_SIZES.map(|size| size * unit).to_vec()
            }
        };
        let rows: usize = turns.iter().map(|turn| turn.rows.len()).sum();
        let entries: usize = turns.iter().map(|turn| turn.rows.nnz()).sum();
        let work = rows as f64 * (rank * rank) as f64 + (entries * rank) as f64;
        let most = (WORK / work) as u64;
        let start = turns.iter().zip(&starts).flat_map(|(turn, (form, prior))| {
            let scorer = LabelScores::new(form.view(), prior, &turn.held_out, None, 0);
            turn.judged(&scorer, self.threads)
        });
        let start = Judged(start.collect());
        // A length that is given is taken, whether it helps or not.
        let open = options.chooses_length();
        let mut best: Option<Course<'_, R>> = None;
        for size in sizes {
            let mut course = Course::new(options, self.known.positives, turns, &starts, size)?;
            for passes in FIRST_PASSES {
                self.go_on(&mut course, passes, most)?;
                if open && course.last < (1.0 - LOSS) * start.map() {
                    break;
                }
            }
            let map = |course: &Course<'_, R>| course.best.map();
            if best.as_ref().is_none_or(|best| map(&course) > map(best)) {
                best = Some(course);
            }
            // Longer steps do not help where short ones do not.
            let gains = |course: &Course<'_, R>| map(course) > start.map();
            if open && !best.as_ref().is_some_and(gains) {
                break;
            }
        }
        let Some(mut course) = best else {
            return Ok(());
        };
        decided.step_size = course.size;
        if open && course.best.map() > start.map() {
            for passes in PASSES {
                if course.without_gain < PATIENCE {
                    self.go_on(&mut course, passes, most)?;
                }
            }
            if course.best.beats(&start) {
                decided.passes = course.passes;
            }
        }
        Ok(())
    }

    /// Takes a course to so many passes and measures it, unless they are too many.
    fn go_on(&mut self, course: &mut Course<'_, R>, passes: u64, most: u64) -> Result<()> {
        if passes > most {
            return Ok(());
        }
        let judged = course.measured(passes, self.threads);
        let size = course.size;
        let settings = [("step_size", json!(size)), ("epochs", json!(passes))];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        self.note(Map::from_iter(settings), judged.map())?;
        course.last = judged.map();
        match course.best.map() < judged.map() {
            true => {
                (course.best, course.passes) = (judged, passes);
                course.without_gain = 0;
            }
            false => course.without_gain += 1,
        }
        Ok(())
    }
}

/// The mean squared length of rows, 1 where all are zero.
fn squared_length<R: Real>(rows: &Rows<R>) -> f64 {
    let squares = rows.iter().map(|row| row.squared_norm());
    let mean = squares.sum::<f64>() / rows.len().max(1) as f64;
    if mean > 0.0 && mean.is_finite() {
        mean
    } else {
        1.0
    }
}

/// Steps of one size from the closed form, in each turn.
struct Course<'a, R: Real> {
    options: &'a Ranking,
    positives: &'a Positives,
    turns: &'a [Turn<R>],
    size: f64,
    runs: Vec<(Stepper<R>, Option<Average<R>>)>,
    done: Vec<u64>,
    /// What was reached at best, and after how many passes.
    best: Judged,
    passes: u64,
    last: f64,
    without_gain: usize,
}

impl<'a, R: Real> Course<'a, R> {
    fn new(
        options: &'a Ranking,
        positives: &'a Positives,
        turns: &'a [Turn<R>],
        starts: &[(Form<R>, Prior)],
        size: f64,
    ) -> Result<Self> {
        let run = |(form, prior): &(Form<R>, Prior)| {
            let stepper = options.stepper(form.clone(), prior.clone(), 0, size)?;
            Ok((stepper, None))
        };
        Ok(Course {
            options,
            positives,
            turns,
            size,
            runs: starts.iter().map(run).collect::<Result<_>>()?,
            done: vec![0; turns.len()],
            best: Judged(Vec::new()),
            passes: 0,
            last: f64::INFINITY,
            without_gain: 0,
        })
    }

    /// Steps to so many passes, and what is reached there.
    fn measured(&mut self, passes: u64, threads: usize) -> Judged {
        let mut out = Vec::new();
        let turns = self.turns.iter().zip(&mut self.runs).zip(&mut self.done);
        for ((turn, (stepper, average)), done) in turns {
            let rows = turn.learning.len() as u64;
            let every = snapshot_every(turn.learning.len());
            let mut places = order(self.options, &turn.learning, *done / rows);
            while *done < passes * rows {
                let (pass, at) = (*done / rows, (*done % rows) as usize);
                if at == 0 {
                    places = order(self.options, &turn.learning, pass);
                }
                let place = places[at] as usize;
                let labels = self.positives.of(turn.learning[place] as usize);
                stepper.take((turn.rows.row(place), labels), *done);
                *done += 1;
                if done.is_multiple_of(every) {
                    let bias = Some(&stepper.prior.bias[..]);
                    Average::add(average, stepper.learner.form(), bias, *done);
                }
            }
            let mut prior = stepper.prior.clone();
            let form = match average {
                None => stepper.learner.form(),
                Some(Average { snapshot, .. }) => {
                    prior
                        .bias
                        .clone_from(snapshot.bias.as_ref().unwrap_or(&prior.bias.clone()));
                    snapshot.form.view()
                }
            };
            let scorer = LabelScores::new(form, &prior, &turn.held_out, None, 0);
            out.extend(turn.judged(&scorer, threads));
        }
        Judged(out)
    }
}

/// Steps between two snapshots of the average: two a pass.
pub(super) fn snapshot_every(rows: usize) -> u64 {
    rows.div_ceil(2).max(1) as u64
}

/// The places of rows in a pass of a trial.
fn order(options: &Ranking, rows: &[u32], pass: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    if options.order == Order::Shuffled {
        let key = super::inputs::pass_key(options.seed, pass);
        order.sort_by_key(|&i| (splitmix64(key ^ u64::from(rows[i as usize])), i));
    }
    order
}

/// Ranks that are tried, up to the largest.
fn ranks(most: usize) -> impl Iterator<Item = usize> {
    let grid = [
        1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 400, 500,
    ];
    let below = grid.into_iter().take_while(move |k| *k < most);
    below.chain((most > 0).then_some(most))
}
