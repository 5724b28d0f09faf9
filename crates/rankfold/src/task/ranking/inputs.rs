//! The data of a run, ready for it.

use super::choose::Known;
use super::labels::{LabelNames, Positives};
use super::{Order, Ranking, RankingData};
use crate::data::Labelled;
use crate::model::{Prior, Steps};
use crate::random::splitmix64;
use crate::task::check_validation;
use crate::task::hold_out::hold_out_some;
use crate::task::inputs::{Fingerprint, Things};
use crate::{Error, Ids, Real, Result, Rows, SparseRow};

/// Keys of the order of rows in a pass.
const SHUFFLE: u64 = 5;

/// Rows that are not learned from, with their labels.
#[derive(Debug)]
pub(super) struct Held<R> {
    /// Rows as the model sees them; `None` when they are training rows held out.
    pub rows: Option<Rows<R>>,
    pub members: Vec<u32>,
    pub positives: Positives,
    /// Labels that training does not know.
    pub unknown: usize,
}

#[derive(Debug)]
pub(super) struct Inputs<'a, R: Real> {
    /// All rows; its members are those that are learned from.
    pub things: Things<'a, R>,
    pub names: &'a Ids,
    pub positives: Positives,
    pub validation: Option<Held<R>>,
    /// Rows without labels, and rows that have all of them.
    pub skipped: usize,
    pub numbered: usize,
    pub fingerprint: u64,
}

impl<'a, R: Real> Inputs<'a, R> {
    /// The data of a run; `decide` says how rows are made ready, of those that are
    /// learned from and the labels of all.
    pub fn new(
        options: &Ranking,
        RankingData { rows: data, valid }: RankingData<'a, R>,
        decide: impl FnOnce(Known<'_, R>) -> Result<Steps>,
    ) -> Result<Self> {
        check_validation(valid.is_some(), options.valid_fraction)?;
        let names = &data.labels.names;
        if names.len() < 2 {
            return Err(Error::input(format!(
                "a ranking needs two labels at least, found {}",
                names.len()
            )));
        }
        let positives = Positives::new(&data.labels);
        let numbered = match data.labels.numbered {
            true => names.len(),
            false => 0,
        };
        let (rows, fraction) = (data.rows.len(), options.valid_fraction);
        let (members, held_out) = hold_out_some("rows", rows, None, fraction, options.seed)?;
        let teaches = |row: &u32| (1..names.len()).contains(&positives.of(*row as usize).len());
        let taught: Vec<u32> = members.iter().copied().filter(teaches).collect();
        if taught.is_empty() {
            return Err(Error::input(
                "no row to learn from: each has either no labels or all of them",
            ));
        }
        let skipped = members.len() - taught.len();
        let steps = decide(Known {
            data,
            members: &taught,
            positives: &positives,
        })?;
        let mut things = Things::new(steps, data, None, members)?;
        things.members = taught;
        let known = LabelNames { names, numbered };
        let validation = match valid {
            None if held_out.is_empty() => None,
            None => {
                let mut of_held = Positives::default();
                for &i in &held_out {
                    of_held.push(positives.of(i as usize).iter().copied());
                }
                Some(Held {
                    rows: None,
                    members: held_out,
                    positives: of_held,
                    unknown: 0,
                })
            }
            Some(valid) => {
                let held = foreign(valid, &things, known);
                Some(held.map_err(|e| e.about("validation rows"))?)
            }
        };
        if let Some(held) = &validation
            && (0..held.members.len()).all(|i| held.positives.of(i).is_empty())
        {
            return Err(Error::input(
                "validation needs a row with labels at least, found none",
            ));
        }
        let fingerprint = fingerprint(data, &positives, &validation);
        Ok(Inputs {
            things,
            names,
            positives,
            validation,
            skipped,
            numbered,
            fingerprint,
        })
    }

    /// Features and labels.
    pub fn shape(&self) -> (usize, usize) {
        (self.things.rows.columns(), self.names.len())
    }

    /// A row and its labels.
    pub fn example(&self, row: u32) -> (SparseRow<'_, R>, &[u32]) {
        let row = row as usize;
        (self.things.rows.row(row), self.positives.of(row))
    }

    /// What is known of the labels before training; each of its rows counts.
    pub fn prior(&self, options: &Ranking) -> Prior {
        let mut count = vec![0; self.names.len()];
        for &row in &self.things.members {
            let labels = self.positives.of(row as usize);
            labels.iter().for_each(|&y| count[y as usize] += 1);
        }
        Prior {
            numbered: self.numbered,
            ..Prior::new(count, self.things.members.len(), options.start_popularity())
        }
    }

    /// The rows of one pass, in order.
    pub fn order(&self, options: &Ranking, epoch: u64) -> Vec<u32> {
        let mut order = self.things.members.clone();
        if options.order == Order::Shuffled {
            let key = pass_key(options.seed, epoch);
            order.sort_by_key(|&row| (splitmix64(key ^ u64::from(row)), row));
        }
        order
    }
}

/// The key of the order of rows in a pass.
pub(super) fn pass_key(seed: u64, pass: u64) -> u64 {
    splitmix64(splitmix64(seed ^ SHUFFLE << 32) ^ pass)
}

fn foreign<R: Real>(
    valid: &Labelled<R>,
    training: &Things<'_, R>,
    names: LabelNames<'_>,
) -> Result<Held<R>> {
    let rows = valid.rows.clone();
    let rows = training.features.align(rows, &valid.features)?;
    let rows = match training.preprocess.passes(&rows) {
        true => rows,
        false => training.preprocess.apply(&rows, training.rows.columns())?,
    };
    let (positives, unknown) = Positives::known(&valid.labels, names);
    Ok(Held {
        members: (0..rows.len() as u32).collect(),
        rows: Some(rows),
        positives,
        unknown,
    })
}

/// A number that changes when any of the data of a run does.
fn fingerprint<R: Real>(
    data: &Labelled<R>,
    positives: &Positives,
    validation: &Option<Held<R>>,
) -> u64 {
    let mut hash = Fingerprint(0);
    hash.rows(&data.rows);
    hash.names(&data.features);
    hash.ids(&data.labels.names);
    for i in 0..data.rows.len() {
        hash.numbers(positives.of(i).iter().copied());
    }
    if let Some(valid) = validation {
        valid.rows.iter().for_each(|rows| hash.rows(rows));
        for i in 0..valid.members.len() {
            hash.numbers(valid.positives.of(i).iter().copied());
        }
    }
    hash.0
}
