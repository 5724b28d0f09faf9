//! What a run of [`Similarity`] works on: rows as the model will see them,
//! which of them train and which judge, and where triplets come from.

use super::similarity::{Negatives, Similarity, classes};
use crate::data::{Features, Labelled};
use crate::model::{Distances, Preprocess};
use crate::random::{Random, splitmix64};
use crate::sample::{LabelTriplets, ListedTriplets, Triplet, Triplets};
use crate::{Error, Real, Result, Rows, SparseVec};
use std::borrow::Cow;

/// The stream of random numbers that draws the triplets of training; other
/// purposes have other streams.
const TRIPLETS: u64 = 0;
const DISTANCES: u64 = 4;

/// Pairs of rows whose distances are looked at.
const DISTANCE_PAIRS: usize = 10_000;

/// Held-out rows with their classes.
#[derive(Debug)]
pub(super) struct Validation<R> {
    /// Rows as the model sees them; `None` when they are training rows held out.
    pub rows: Option<Rows<R>>,
    pub members: Vec<u32>,
    /// The class of each member.
    pub classes: Vec<u32>,
}

/// The data of a run, ready for it.
#[derive(Debug)]
pub(super) struct Inputs<'a, R: Real> {
    pub rows: Cow<'a, Rows<R>>,
    pub features: &'a Features,
    pub preprocess: Preprocess,
    /// The class of each row, where rows have one.
    pub classes: Option<Vec<u32>>,
    /// The rows that training may use.
    pub members: Vec<u32>,
    pub validation: Option<Validation<R>>,
    pub triplets: Triplets,
    /// Triplets in one pass.
    pub epoch: u64,
    /// Changes when any of the data does.
    pub fingerprint: u64,
}

impl<'a, R: Real> Inputs<'a, R> {
    pub fn new(
        options: &Similarity,
        data: &'a Labelled<R>,
        listed: Option<Vec<Triplet>>,
        valid: Option<&Labelled<R>>,
    ) -> Result<Self> {
        if valid.is_some() && options.valid_fraction > 0.0 {
            return Err(Error::input(
                "validation rows and a validation fraction exclude each other",
            ));
        }
        if listed.is_some() && options.valid_fraction > 0.0 {
            return Err(Error::input(
                "listed triplets may name any row, so none can be held out: give validation rows in a file",
            ));
        }
        if listed.is_some() && options.negatives != Negatives::Random {
            return Err(Error::input(
                "listed triplets bring their own negatives: hard ones are drawn from labels",
            ));
        }
        let known = if listed.is_none() {
            Some(classes(&data.labels, |i| data.ids.name(i).into_owned())?)
        } else {
            // Labels are welcome here, but nothing depends on them.
            classes(&data.labels, |_| String::new()).ok()
        };
        let (members, held_out) = hold_out(data.rows.len(), options.valid_fraction, options.seed)?;
        // Only named columns can have missing cells, in this file or in a later one.
        let fill = matches!(data.features, Features::Named(_) | Features::Columns(_));
        let preprocess = Preprocess::fit(options.preprocess, fill, &data.rows, &members);
        let rows = if preprocess.passes(&data.rows) {
            Cow::Borrowed(&data.rows)
        } else {
            Cow::Owned(preprocess.apply(&data.rows, data.rows.columns())?)
        };
        let validation = match (valid, &known) {
            (Some(valid), _) => {
                let columns = rows.columns();
                let prepared = foreign(valid, &data.features, &preprocess, columns);
                Some(prepared.map_err(|e| Error {
                    message: format!("validation rows: {}", e.message),
                    ..e
                })?)
            }
            (None, Some(known)) if !held_out.is_empty() => Some(Validation {
                classes: held_out.iter().map(|&i| known[i as usize]).collect(),
                members: held_out,
                rows: None,
            }),
            (None, _) => None,
        };
        if let Some(valid) = &validation {
            let mut sorted = valid.classes.clone();
            sorted.sort_unstable();
            if sorted.windows(2).all(|pair| pair[0] != pair[1]) {
                return Err(Error::input(
                    "validation needs two rows of the same class at least, found none",
                ));
            }
        }
        let fingerprint = fingerprint(&data.rows, known.as_deref(), listed.as_deref(), &validation);
        let (triplets, epoch) = match (listed, &known) {
            (Some(list), _) => {
                let source = ListedTriplets::new(list)?;
                let epoch = source.len() as u64;
                (Triplets::Listed(source), epoch)
            }
            (None, known) => {
                let known = known.as_deref().expect("classes were asked for");
                let random = Random::new(options.seed, TRIPLETS);
                let source = LabelTriplets::new(known, &members, random)?;
                (Triplets::Labels(source), members.len() as u64)
            }
        };
        Ok(Inputs {
            rows,
            features: &data.features,
            preprocess,
            classes: known,
            members,
            validation,
            triplets,
            epoch,
            fingerprint,
        })
    }

    /// Triplets of a whole run.
    pub fn steps(&self, options: &Similarity) -> u64 {
        match (options.steps, options.epochs, &self.triplets) {
            (Some(steps), _, _) => steps,
            (None, Some(epochs), _) => epochs.saturating_mul(self.epoch),
            (None, None, Triplets::Listed(_)) => self.epoch,
            (None, None, Triplets::Labels(_)) => (50 * self.epoch).max(20_000),
        }
    }
}

impl<R: Real> Inputs<'_, R> {
    /// What LEGO aims at: the 5th and the 95th percentile of the squared
    /// distances between rows as they are.
    pub fn distances(&self, seed: u64) -> Distances {
        let mut random = Random::new(seed, DISTANCES);
        let mut difference = SparseVec::new();
        let mut row = || self.members[random.below(self.members.len())] as usize;
        let mut found: Vec<f64> = (0..DISTANCE_PAIRS)
            .map(|_| {
                let (a, b) = (row(), row());
                difference.set_difference(self.rows.row(a), self.rows.row(b));
                difference.as_row().squared_norm()
            })
            .filter(|d| *d > 0.0)
            .collect();
        found.sort_by(f64::total_cmp);
        let percentile = |share: f64| {
            let at = share * found.len().saturating_sub(1) as f64;
            found.get(at.round() as usize).copied().unwrap_or(1.0)
        };
        Distances {
            near: percentile(0.05),
            far: percentile(0.95),
        }
    }
}

/// Splits row numbers into training and validation by keys of seed and row.
fn hold_out(rows: usize, fraction: f64, seed: u64) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut order: Vec<u32> = (0..rows as u32).collect();
    let count = (rows as f64 * fraction + 1e-9) as usize;
    if count == 0 {
        return if fraction > 0.0 {
            let message = format!(
                "a validation fraction of {fraction} leaves none of the {rows} rows for it"
            );
            Err(Error::input(message))
        } else {
            Ok((order, Vec::new()))
        };
    }
    order.sort_by_key(|&row| splitmix64(splitmix64(seed) ^ u64::from(row)));
    let mut members = order.split_off(count);
    members.sort_unstable();
    order.sort_unstable();
    Ok((members, order))
}

/// Validation rows from another file, in the columns of the training rows.
fn foreign<R: Real>(
    valid: &Labelled<R>,
    features: &Features,
    preprocess: &Preprocess,
    columns: usize,
) -> Result<Validation<R>> {
    let rows = features.align(valid.rows.clone(), &valid.features)?;
    let rows = if preprocess.passes(&rows) {
        rows
    } else {
        preprocess.apply(&rows, columns)?
    };
    let classes = classes(&valid.labels, |i| valid.ids.name(i).into_owned())?;
    Ok(Validation {
        members: (0..rows.len() as u32).collect(),
        rows: Some(rows),
        classes,
    })
}

/// A number that changes when any of the data of a run does.
fn fingerprint<R: Real>(
    rows: &Rows<R>,
    classes: Option<&[u32]>,
    listed: Option<&[Triplet]>,
    validation: &Option<Validation<R>>,
) -> u64 {
    let mut hash = Fingerprint(0);
    hash.rows(rows);
    hash.numbers(classes.unwrap_or_default().iter().copied());
    for t in listed.unwrap_or_default() {
        hash.numbers([t.query, t.positive, t.negative].into_iter());
    }
    if let Some(valid) = validation {
        valid.rows.iter().for_each(|rows| hash.rows(rows));
        hash.numbers(valid.classes.iter().copied());
    }
    hash.0
}

struct Fingerprint(u64);

impl Fingerprint {
    fn mix(&mut self, value: u64) {
        self.0 = splitmix64(self.0 ^ value);
    }

    fn rows<R: Real>(&mut self, rows: &Rows<R>) {
        self.mix(rows.len() as u64);
        for row in rows.iter() {
            self.mix(row.len() as u64);
            for (j, v) in row.iter() {
                self.mix(v.to_f64().to_bits() ^ (u64::from(j) << 32));
            }
        }
    }

    fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = u32>) {
        self.mix(numbers.len() as u64);
        numbers.for_each(|n| self.mix(u64::from(n)));
    }
}
