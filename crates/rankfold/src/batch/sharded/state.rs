//! What all shards are told: the columns, and what is common to all.

use super::pattern::{self, Asking, Told};
use super::{als, bayes};
use crate::aligned::Aligned;
use crate::batch::bayes::{LEAST_SWEEPS, first_precision};
use crate::batch::moments::{Layout, random_start};
use crate::batch::pattern::{POWERS, Powers, log_count};
use crate::random::normal_at;
use crate::{Error, Result};
use faer::Mat;
use serde::{Deserialize, Serialize};

/// How it is learned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Method {
    /// Alternating least squares with the penalty λ nᵖ.
    Als {
        /// λ.
        lambda: f64,
        /// p.
        power: f64,
    },
    /// Variational Bayes.
    Bayes {
        /// Whether factors that explain nothing are dropped.
        prune: bool,
        /// Whether the pattern of known entries tells of rows and columns.
        implicit: bool,
    },
}

/// The prior of rows or of columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Prior {
    /// What counts tell of rows: one times d, or a line for each power.
    pub mean: Vec<f64>,
    /// d×d, row by row.
    pub precision: Vec<f64>,
}

impl Prior {
    pub fn first(layout: Layout, used: usize) -> Self {
        let (d, first) = (layout.d, first_precision(layout));
        Prior {
            mean: vec![0.0; used * d],
            precision: (0..d * d).map(|i| first[(i / d, i % d)]).collect(),
        }
    }

    pub fn matrix(&self, d: usize) -> Mat<f64> {
        Mat::from_fn(d, d, |i, j| self.precision[i * d + j])
    }
}

/// A factorization of entries that shards have.
#[derive(Debug, Clone)]
pub struct State {
    /// How it is learned.
    pub method: Method,
    /// k.
    pub rank: usize,
    /// Whether rows and columns have biases.
    pub biases: bool,
    /// What all entries have in common.
    pub center: f64,
    /// How many entries there are.
    pub entries: f64,
    /// How many entries each column has.
    pub counts: Vec<f64>,
    /// Sweeps that were made.
    pub iteration: usize,
    /// The cost after each sweep, or the noise.
    pub costs: Vec<f64>,
    pub(super) spread: f64,
    pub(super) tau: f64,
    pub(super) before: f64,
    /// Of rows and of columns.
    pub(super) priors: [Prior; 2],
    pub(super) powers: [Powers; 2],
    /// What the pattern tells of rows and of columns, where it counts.
    pub(super) told: Option<[Told; 2]>,
    /// Questions that are open in the middle of a sweep.
    pub(super) asking: Option<Box<Asking>>,
    /// Factors of columns, and biases at last; of ALS.
    pub(super) columns: Vec<f64>,
    /// Moments and weights of columns; of Bayes.
    pub(super) moments: Aligned<f32>,
    pub(super) weights: Vec<f32>,
}

/// The numbers of a state that are not long.
#[derive(Serialize, Deserialize)]
struct Head {
    method: Method,
    rank: usize,
    biases: bool,
    center: f64,
    entries: f64,
    iteration: usize,
    costs: Vec<f64>,
    spread: f64,
    tau: f64,
    /// Without it there was none.
    before: Option<f64>,
    priors: [Prior; 2],
    powers: [Powers; 2],
    columns: usize,
}

const MAGIC: &[u8; 8] = b"rfshard2";

impl State {
    /// Before the first sweep. `counts` are those of [`Shard::counts`](super::Shard::counts), added
    /// up, and `squares` those around the center.
    pub fn new(
        method: Method,
        (rank, biases): (usize, bool),
        counts: &[f64],
        squares: f64,
        seed: u64,
    ) -> Result<Self> {
        let [entries, sum, seen, logs, squared, each @ ..] = counts else {
            return Err(Error::input("counts of no columns"));
        };
        if rank == 0 || *entries < 1.0 || each.is_empty() {
            return Err(Error::input("expected entries, and a rank of 1 at least"));
        }
        let layout = Layout::new(rank, biases);
        let implicit = matches!(method, Method::Bayes { implicit: true, .. });
        let used = if implicit { POWERS } else { 1 };
        let columns = counts_of(each.iter().map(|n| *n as usize));
        let powers = [[*seen, *logs, *squared], columns].map(|[seen, sum, squares]| {
            let mean = sum / seen.max(1.0);
            Powers::new(mean, squares / seen.max(1.0) - mean * mean)
        });
        let told = || Told::zero(each.len(), layout.d);
        let spread = (squares / entries).sqrt();
        let spread = if spread > 0.0 { spread } else { 1.0 };
        let mut out = State {
            method,
            rank,
            biases,
            center: if biases { sum / entries } else { 0.0 },
            entries: *entries,
            counts: each.to_vec(),
            iteration: 0,
            costs: Vec::new(),
            spread,
            tau: 1.0,
            before: f64::INFINITY,
            priors: [Prior::first(layout, used), Prior::first(layout, used)],
            powers,
            told: implicit.then(|| [told(), told()]),
            asking: None,
            columns: Vec::new(),
            moments: Aligned::new(),
            weights: Vec::new(),
        };
        match method {
            Method::Als { .. } => {
                let scale = (spread / (rank as f64).sqrt()).sqrt();
                let entry = |t: usize| match (t / layout.d, t % layout.d) {
                    (j, a) if a < rank => scale * normal_at(seed, 3, j as u64, a as u64),
                    _ => 0.0,
                };
                out.columns = (0..each.len() * layout.d).map(entry).collect();
            }
            Method::Bayes { .. } => {
                if !out.moments.grow(each.len() * layout.width) {
                    return Err(Error::failure("no memory for the moments of columns"));
                }
                random_start(&mut out.moments, layout, seed);
                out.weights = vec![1.0; each.len()];
            }
        }
        Ok(out)
    }

    /// How many numbers an answer of a shard has.
    pub fn answer_len(&self) -> usize {
        let columns = self.counts.len();
        match self.method {
            Method::Als { .. } => columns * als::length(self.layout().d) + 1,
            Method::Bayes { .. } => columns * bayes::length(self) + bayes::tail(self),
        }
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.rank, self.biases)
    }

    /// How many powers of counts tell of rows.
    pub(super) fn used(&self) -> usize {
        self.told.as_ref().map_or(1, |_| POWERS)
    }

    /// Room for an expected row.
    pub(super) fn expected_width(&self) -> usize {
        let told = self.told.as_ref();
        told.map_or(self.layout().d, |told| told[0].weights.width)
    }

    /// Adds what a count tells of a row, or of a column.
    pub(super) fn add_common(&self, side: usize, count: usize, expected: &mut [f64]) {
        let d = self.layout().d;
        let powers = self.powers[side].of(count);
        let lines = self.priors[side].mean.chunks_exact(d);
        for (f, line) in powers.iter().zip(lines) {
            expected.iter_mut().zip(line).for_each(|(e, c)| *e += f * c);
        }
    }

    /// One sweep, from the answers of all shards added up. Gives the cost of ALS, or the noise
    /// that Bayes found. The sweep goes on while there is a [`State::question`].
    pub fn step(&mut self, answer: &[f64], threads: usize) -> Result<f64> {
        if self.has_question() {
            return Err(Error::input("a question of the sweep before is open"));
        }
        check_answer(answer, self.answer_len())?;
        let cost = match self.method {
            Method::Als { .. } => {
                self.iteration += 1;
                als::step(self, answer, threads)
            }
            Method::Bayes { .. } => bayes::step(self, answer, threads),
        };
        self.costs.push(cost);
        match cost.is_finite() {
            true => Ok(cost),
            false => Err(Error::failure(
                "the fit ended with numbers that are not finite: more regularization may help",
            )),
        }
    }

    /// Whether the sweep is not done yet.
    pub fn has_question(&self) -> bool {
        self.asking.is_some()
    }

    /// What all shards are asked before the sweep is done, if anything: a line for each column.
    pub fn question(&self) -> Option<Vec<f64>> {
        self.asking.as_ref().map(|asking| asking.question())
    }

    /// Goes on from the answers of all shards to the question, added up.
    pub fn hear(&mut self, answer: &[f64]) -> Result<()> {
        if !self.has_question() {
            return Err(Error::input("an answer to no question"));
        }
        check_answer(answer, 2 * self.layout().d * self.counts.len())?;
        bayes::hear(self, answer);
        Ok(())
    }

    /// Whether a sweep changes next to nothing: the cost by less than this share, or the noise.
    pub fn is_settled(&self, tolerance: f64) -> bool {
        match (self.method, &self.costs[..]) {
            (Method::Als { .. }, [.., before, last]) => before - last < tolerance * before,
            (Method::Bayes { .. }, [_, ..]) => {
                let change = ((self.before / self.tau).sqrt() - 1.0).abs();
                self.iteration >= LEAST_SWEEPS && change < tolerance
            }
            _ => false,
        }
    }

    /// Factors of all columns, and their biases.
    pub fn factors(&self) -> (Vec<f64>, Option<Vec<f64>>) {
        let (k, layout) = (self.rank, Layout::new(self.rank, self.biases));
        match self.method {
            Method::Als { .. } => {
                let each = || self.columns.chunks_exact(layout.d);
                let bias = self.biases.then(|| each().map(|c| c[k]).collect());
                (each().flat_map(|c| c[..k].to_vec()).collect(), bias)
            }
            Method::Bayes { .. } => {
                let (root, each) = (self.spread.sqrt(), || {
                    self.moments.chunks_exact(layout.width)
                });
                let factors = each().flat_map(|c| c[..k].iter().map(|v| root * f64::from(*v)));
                let bias = || each().map(|c| self.spread * f64::from(c[k])).collect();
                (factors.collect(), self.biases.then(bias))
            }
        }
    }

    /// The noise that was found, where that is part of the method.
    pub fn noise(&self) -> Option<f64> {
        match self.method {
            Method::Als { .. } => None,
            Method::Bayes { .. } => self.costs.last().copied(),
        }
    }

    /// The bytes that shards are sent, and from which a run goes on. Not in the middle of a sweep.
    #[track_caller]
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(!self.has_question(), "a question of the sweep is open");
        let head = Head {
            method: self.method,
            rank: self.rank,
            biases: self.biases,
            center: self.center,
            entries: self.entries,
            iteration: self.iteration,
            costs: self.costs.clone(),
            spread: self.spread,
            tau: self.tau,
            before: self.before.is_finite().then_some(self.before),
            priors: self.priors.clone(),
            powers: self.powers,
            columns: self.counts.len(),
        };
        let head = serde_json::to_vec(&head).unwrap_or_default();
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&(head.len() as u64).to_le_bytes());
        out.extend_from_slice(&head);
        let f64s = self.counts.iter().chain(&self.columns);
        f64s.for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
        for told in self.told.iter().flatten() {
            for rows in [&told.weights, &told.product] {
                let numbers = pattern::flat(rows, self.layout().d);
                let bytes = numbers.iter().flat_map(|v| v.to_le_bytes());
                out.extend(bytes);
            }
        }
        let f32s = self.weights.iter().chain(self.moments.iter());
        f32s.for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
        out
    }

    /// Reads what [`State::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let broken = || Error::input("not the whole state of a factorization by shards");
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(broken)?;
        let (size, rest) = rest.split_first_chunk::<8>().ok_or_else(broken)?;
        let size = usize::try_from(u64::from_le_bytes(*size)).map_err(|_| broken())?;
        let head = rest.get(..size).ok_or_else(broken)?;
        let rest = &rest[size..];
        let head: Head = serde_json::from_slice(head).map_err(|_| broken())?;
        if head.rank == 0 || head.rank > 1 << 16 {
            return Err(broken());
        }
        let layout = Layout::new(head.rank, head.biases);
        let d = layout.d;
        let implicit = matches!(head.method, Method::Bayes { implicit: true, .. });
        let used = if implicit { POWERS } else { 1 };
        let sound = |p: &Prior| p.mean.len() == used * d && p.precision.len() == d * d;
        let (n, als) = (head.columns, matches!(head.method, Method::Als { .. }));
        // Sizes are checked against the bytes that are there before anything is allocated.
        let (long, short) = match als {
            true => (1 + d, 0),
            false => (1 + if implicit { 4 * d } else { 0 }, 1 + layout.width),
        };
        let wanted = n.checked_mul(8 * long + 4 * short);
        if !head.priors.iter().all(sound) || wanted != Some(rest.len()) {
            return Err(broken());
        }
        let (f64s, f32s) = rest.split_at(8 * n * long);
        let f64s: Vec<f64> = f64s
            .as_chunks()
            .0
            .iter()
            .map(|b| f64::from_le_bytes(*b))
            .collect();
        let f32s: Vec<f32> = f32s
            .as_chunks()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect();
        let finite = f64s.iter().all(|v| v.is_finite()) && f32s.iter().all(|v| v.is_finite());
        let numbers = [head.center, head.entries, head.spread, head.tau];
        let possible = head.spread > 0.0 && head.tau > 0.0 && head.entries > 0.0;
        if !(finite && possible && numbers.iter().all(|v| v.is_finite())) {
            return Err(broken());
        }
        let mut moments = Aligned::new();
        if !als {
            if !moments.grow(n * layout.width) {
                return Err(Error::failure("no memory for the moments of columns"));
            }
            moments.copy_from_slice(&f32s[n..]);
        }
        let told = |at: usize| {
            let rows = |at: usize| pattern::from_flat(&f64s[n + at * n * d..][..n * d], d);
            Told {
                weights: rows(at),
                product: rows(at + 1),
            }
        };
        Ok(State {
            method: head.method,
            rank: head.rank,
            biases: head.biases,
            center: head.center,
            entries: head.entries,
            counts: f64s[..n].to_vec(),
            iteration: head.iteration,
            costs: head.costs,
            spread: head.spread,
            tau: head.tau,
            before: head.before.unwrap_or(f64::INFINITY),
            priors: head.priors,
            powers: head.powers,
            told: implicit.then(|| [told(0), told(2)]),
            asking: None,
            columns: f64s[n..if als { f64s.len() } else { n }].to_vec(),
            weights: f32s[..if als { 0 } else { n }].to_vec(),
            moments,
        })
    }
}

fn check_answer(answer: &[f64], expected: usize) -> Result<()> {
    match answer.len() == expected && answer.iter().all(|v| v.is_finite()) {
        true => Ok(()),
        false => Err(Error::input(format!(
            "an answer of {} numbers: expected {expected} finite ones",
            answer.len()
        ))),
    }
}

/// How many lines have entries, and sums of the logarithms of how many, and of their squares.
pub(super) fn counts_of(lines: impl Iterator<Item = usize>) -> [f64; 3] {
    let logs = lines.filter(|n| *n > 0).map(log_count);
    logs.fold([0.0; 3], |[seen, sum, squares], log| {
        [seen + 1.0, sum + log, squares + log * log]
    })
}
