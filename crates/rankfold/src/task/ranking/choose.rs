//! What a run from the start `ridge` decides before its first step: preprocessing, the
//! penalty and the shape of the closed form, the rank, the step size and the length.
//!
//! All is judged on held-out training rows, in this order, each with what was decided
//! before it. Then the closed form is made anew of all rows, and the chosen number of
//! passes is taken over all rows, so that the model learns from those held out as well.
//! Where there are few rows, several shares take turns in being held out.

use super::evaluation::{LabelScores, measure};
use super::labels::Positives;
use super::start::Closed;
use super::{Order, Ranking};
use crate::batch::{LabelFit, LabelRidge, Shape};
use crate::data::{Features, Labelled};
use crate::eval::Scorer;
use crate::form::FormRef;
use crate::model::{Preprocess, Prior, Steps};
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
const SCORES: usize = 1 << 24;

/// Directions of the trials of preprocessing, in large data.
const FEW_DIRECTIONS: usize = 320;

/// Shapes of the closed form that are tried; the first is ridge regression.
const SHAPES: [Shape; 6] = [
    shape(0.0, 0.0),
    shape(0.0, 0.25),
    shape(0.25, 0.5),
    shape(0.5, 0.5),
    shape(0.5, 0.75),
    shape(0.75, 0.75),
];

/// The shape by which preprocessing is judged.
const MIDDLE: Shape = SHAPES[2];

const fn shape(penalty: f64, scale: f64) -> Shape {
    Shape { penalty, scale }
}

/// Penalties, as multiples of the one of generalized cross-validation: powers of this.
const FACTOR: f64 = 2.5;
const POWERS: i32 = 8;

/// How much worse than the best a smaller rank may be, as a share of the mAP.
const ABOUT: f64 = 0.001;

/// Passes after which the steps are measured.
const PASSES: [u64; 6] = [1, 2, 3, 5, 7, 10];

/// Measurements without a gain after which no more passes are tried.
const PATIENCE: usize = 2;

/// Steps of a trial, at most.
const STEPS: usize = 200_000;

/// Step sizes that are tried, for rows of length one: scores have about one size after
/// the closed form.
const STEP_SIZES: [f64; 2] = [0.1, 0.3];

/// A run that loses this share of the mAP at first is not worth more passes.
const LOSS: f64 = 0.02;

/// Gains below this share of the mAP are chance.
const GAIN: f64 = 0.001;

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
        let length = match (given_length, self.passes) {
            (true, _) => String::new(),
            (false, 0) => ", the closed form kept as it is: steps gain nothing".to_owned(),
            (false, 1) => ", one pass of steps after it".to_owned(),
            (false, n) => format!(", {n} passes of steps after it"),
        };
        format!("chosen on held-out rows: {}{length}", steps.join(", "))
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
    /// The mAP of a model on the rows held out.
    fn measured(&self, form: FormRef<'_, R>, prior: &Prior, threads: usize) -> f64 {
        let scorer = LabelScores::new(form, prior, &self.held_out, None, 0);
        let found = measure(&scorer, &self.judging, threads, &|_| true);
        found.map_or(0.0, |found| found.map)
    }
}

/// A column of scores for each row.
pub(super) struct Columns(pub Mat<f64>);

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
            made.push(self.turn(turn, decided.steps, None)?);
        }
        self.closed_form(&made, &mut decided)?;
        let rank = match options.rank.given() {
            Some(rank) => Some(rank),
            None => self.rank(&made, &mut decided)?,
        };
        let length_is_open = options.steps.is_none() && options.epochs.is_none();
        let size_is_open = options.has_steps() && options.step_size.is_none();
        if let (Some(rank), true) = (rank, length_is_open || size_is_open) {
            self.steps(&made[0], rank, &mut decided)?;
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
        directions: Option<usize>,
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

    /// The mAP of the closed form in all turns.
    fn judged(&self, turns: &[Turn<R>], penalty: f64, shape: Shape) -> f64 {
        let judged = |turn: &Turn<R>| {
            let fit = turn.ridge.fit(penalty * turn.penalty, shape);
            let scores = turn.ridge.scores(&fit, &turn.coordinates, self.threads);
            self.map_of(scores, &turn.judging)
        };
        turns.iter().map(judged).sum::<f64>() / turns.len() as f64
    }

    fn map_of(&self, scores: Mat<f64>, judging: &Positives) -> f64 {
        let found = measure(&Columns(scores), judging, self.threads, &|_| true);
        found.map_or(0.0, |found| found.map)
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
                .map(|turn| self.turn(turn, steps, Some(FEW_DIRECTIONS)))
                .collect();
            // Values that are too large as they are may do when they are scaled.
            let Ok(made) = made else { continue };
            let (map, _) = self.climb(&made, MIDDLE);
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

    /// The best mAP of a shape and the penalty that has it, as a multiple of that of
    /// generalized cross-validation: it goes up or down while that helps.
    fn climb(&self, turns: &[Turn<R>], shape: Shape) -> (f64, f64) {
        let at = |power: i32| FACTOR.powi(power);
        let mut top = (self.judged(turns, at(0), shape), 0_i32);
        for direction in [1_i32, -1] {
            let mut power = direction;
            while power.abs() <= POWERS {
                let map = self.judged(turns, at(power), shape);
                if map <= top.0 {
                    break;
                }
                top = (map, power);
                power += direction;
            }
            if top.1 != 0 {
                break;
            }
        }
        (top.0, at(top.1))
    }

    /// Penalty and shape.
    fn closed_form(&mut self, turns: &[Turn<R>], decided: &mut Decided) -> Result<()> {
        let mut best = f64::NEG_INFINITY;
        let logs = turns.iter().map(|turn| turn.penalty.ln()).sum::<f64>();
        let middle = (logs / turns.len() as f64).exp();
        for shape in SHAPES {
            let (map, multiple) = self.climb(turns, shape);
            let settings = [
                ("penalty", middle * multiple),
                ("shape_of_penalty", shape.penalty),
                ("shape_of_scale", shape.scale),
            ];
            let settings = settings.map(|(name, value)| (name.to_owned(), json!(value)));
            self.note(Map::from_iter(settings), map)?;
            if map > best {
                best = map;
                decided.penalty = Some(middle * multiple);
                decided.shape = (shape.penalty, shape.scale);
            }
        }
        Ok(())
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
            let judged = turns.iter().zip(&reduced).map(|(turn, (fit, all))| {
                let scores =
                    turn.ridge
                        .scores_of_rank(fit, all, k, &turn.coordinates, self.threads);
                self.map_of(scores, &turn.judging)
            });
            tried.push((k, judged.sum::<f64>() / turns.len() as f64));
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

    /// Step size and passes, by the first turn.
    fn steps(&mut self, turn: &Turn<R>, rank: usize, decided: &mut Decided) -> Result<()> {
        let options = self.options;
        let closed = Closed::new(&turn.ridge, decided, Some(rank))?;
        let Some(closed) = closed else { return Ok(()) };
        let (form, prior) = closed.form::<R>(&turn.ridge, &turn.rows, self.threads)?;
        let prior = Prior {
            count: vec![0; self.labels],
            ..prior
        };
        let threads = self.threads;
        let first = turn.measured(form.view(), &prior, threads);
        let sizes = match options.step_size {
            _ if !options.has_steps() => vec![options.aggressiveness],
            Some(size) => vec![size],
            None => {
                let squares = turn.rows.iter().map(|row| row.squared_norm());
                let mean = squares.sum::<f64>() / turn.rows.len() as f64;
                let unit = if mean > 0.0 { 1.0 / mean } else { 1.0 };
                STEP_SIZES.map(|size| size * unit).to_vec()
            }
        };
        // A gain that is chance is not worth its steps; a length that is given is.
        let length_is_open = options.steps.is_none() && options.epochs.is_none();
        let mut best = match length_is_open {
            true => first * (1.0 + GAIN),
            false => f64::NEG_INFINITY,
        };
        let n = turn.learning.len();
        for size in sizes {
            let stepper = options.stepper(form.clone(), prior.clone(), 0, size);
            let mut stepper = stepper?;
            let mut average: Option<Average<R>> = None;
            let (mut done, mut top, mut without_gain) = (0_u64, f64::NEG_INFINITY, 0);
            let mut places = Vec::new();
            let every = snapshot_every(n);
            for passes in PASSES {
                if passes as usize * n > STEPS || without_gain >= PATIENCE {
                    break;
                }
                while done < passes * n as u64 {
                    let (pass, at) = (done / n as u64, (done % n as u64) as usize);
                    if at == 0 {
                        places = order(options, &turn.learning, pass);
                    }
                    let place = places[at] as usize;
                    let labels = self.known.positives.of(turn.learning[place] as usize);
                    stepper.take((turn.rows.row(place), labels), done);
                    done += 1;
                    if done.is_multiple_of(every) {
                        let bias = Some(&stepper.prior.bias[..]);
                        Average::add(&mut average, stepper.learner.form(), bias, done);
                    }
                }
                let map = match &average {
                    None => turn.measured(stepper.learner.form(), &stepper.prior, threads),
                    Some(Average { snapshot, .. }) => {
                        let bias = snapshot.bias.clone().unwrap_or_default();
                        let prior = Prior {
                            bias,
                            ..prior.clone()
                        };
                        turn.measured(snapshot.form.view(), &prior, threads)
                    }
                };
                let settings = [("step_size", json!(size)), ("epochs", json!(passes))];
                let settings = settings.map(|(name, value)| (name.to_owned(), value));
                self.note(Map::from_iter(settings), map)?;
                if map > best {
                    best = map;
                    (decided.step_size, decided.passes) = (size, passes);
                }
                match map > top {
                    true => (top, without_gain) = (map, 0),
                    false => without_gain += 1,
                }
                if length_is_open && map < (1.0 - LOSS) * first {
                    break;
                }
            }
            // Longer steps do not help where short ones do not.
            if length_is_open && decided.passes == 0 {
                break;
            }
        }
        Ok(())
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
