//! Examples of an evaluation: what the model answers to a few rows, users or pairs.
//!
//! Rows that are measured are given away, so some are kept before: never more than [`KEPT`].

mod labels;
mod numbers;
mod rows;
mod users;

pub use labels::labels;
pub use numbers::{pairs, ratings, tasks};
pub use rows::{Found, items, nearest_rows};
pub use users::{choices, rated};

use rankfold::data::{Labelled, Labels, RowIds};
use rankfold::{Real, Result};

use super::sample;
use crate::chart::words::count;

/// The most rows that examples are taken from.
pub const KEPT: usize = 5000;
/// How many things are asked about, and how long the answers are.
pub const ASKED: usize = 5;
pub const LONG: usize = 8;
/// The most points of a picture.
pub const POINTS: usize = 1000;

/// Rows with these numbers, by their names and labels.
pub fn chosen<R: Real>(data: &Labelled<R>, places: &[usize]) -> Labelled<R> {
    let mut labels = Labels::default();
    for &row in places {
        let of = data.labels.of(row).iter();
        labels.push(of.map(|&label| data.labels.names.get(label)));
    }
    let mut rows = data.rows.select(places.iter().copied());
    rows.widen(data.rows.columns());
    let names = places.iter().map(|&row| data.ids.name(row).into_owned());
    Labelled {
        rows,
        labels,
        ids: RowIds::Named(names.collect()),
        features: data.features.clone(),
    }
}

/// Rows that examples are taken from.
pub struct Kept<R> {
    pub data: Labelled<R>,
    /// How many there were.
    pub all: usize,
}

impl<R: Real> Kept<R> {
    pub fn of(data: &Labelled<R>) -> Self {
        Kept {
            data: chosen(data, &sample(data.rows.len(), KEPT)),
            all: data.rows.len(),
        }
    }

    /// What is to be said of the choice.
    pub fn note(&self, what: &str) -> String {
        match self.all > self.data.rows.len() {
            true => format!(
                " They are looked for among {} of {} {what}, at equal distances in the file.",
                count(self.data.rows.len() as u64),
                count(self.all as u64)
            ),
            false => String::new(),
        }
    }
}

/// The first of some things that do, spread over all of them.
pub fn asked(count: usize, does: impl Fn(usize) -> bool) -> Vec<usize> {
    let fit: Vec<usize> = (0..count).filter(|&i| does(i)).collect();
    sample(fit.len(), ASKED)
        .into_iter()
        .map(|at| fit[at])
        .collect()
}

/// How things are listed that cannot fail.
pub type Each<'a> = dyn FnMut(usize, &[(usize, f64)]) -> Result<()> + 'a;
