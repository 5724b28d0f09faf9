//! Items and users from their features: those without a choice, and a little those with few.
//!
//! Rows of the encoder and the decoder are regressed on the features of items. What one choice
//! of a user says in the mean, Eᵀx / n, is regressed on the features of users; it takes the place
//! of the choices of the average user that a user begins with.

use crate::batch::{Points, ridge};
use crate::data::Labelled;
use crate::form::Tall;
use crate::model::{Normalize, Preprocess, Scaling, Steps, Weight};
use crate::random::splitmix64;
use crate::task::preprocessing::candidates;
use crate::{Error, Ids, Result, Rows, SparseRow, SparseVec};
use faer::Mat;

/// Choices after which an item counts half by itself and half by its features, and a user half in
/// the regression.
const HALF: f64 = 3.0;

/// Penalties that are tried, as multiples of the mean square of a row of features.
const PENALTIES: [f64; 4] = [0.03, 0.3, 3.0, 30.0];

/// The penalty of the constant beside the features.
const CONSTANT: f64 = 1e-3;

/// Encoder and decoder side by side, with what their rows are by features.
pub(super) struct ByFeatures {
    /// E and D for all items, those without a choice behind the others.
    pub factors: (Mat<f64>, Mat<f64>),
    /// Items that came with the features.
    pub new: usize,
    /// The share of the square of D that features explain, on items that were held out.
    pub explained: f64,
}

/// Rows of features, weighted, with a constant behind them.
fn weighted(rows: &Rows<f64>, members: &[u32], weights: &[f64]) -> Rows<f64> {
    let (mut out, mut line) = (Rows::new(), SparseVec::new());
    let columns = rows.columns();
    for (&row, &weight) in members.iter().zip(weights) {
        line.clear();
        let entries = rows.row(row as usize).iter();
        entries.for_each(|(j, v)| line.push(j, weight * v));
        line.push(columns as u32, weight);
        out.push(line.as_row());
    }
    out.widen(columns + 1);
    out
}

/// The weights of a ridge regression of rows of `targets` on features.
fn regressed(
    rows: &Rows<f64>,
    members: &[u32],
    weights: &[f64],
    targets: &Mat<f64>,
    penalty: f64,
    threads: usize,
) -> Result<Mat<f64>> {
    let points = Points::new(&weighted(rows, members, weights))?;
    let targets = Mat::from_fn(members.len(), targets.ncols(), |i, j| {
        weights[i] * targets[(i, j)]
    });
    let squares: f64 = members
        .iter()
        .map(|&row| rows.row(row as usize).squared_norm())
        .sum();
    let mean = (squares / members.len().max(1) as f64).max(1e-12);
    let mut penalties = vec![penalty * mean; rows.columns()];
    penalties.push(CONSTANT);
    ridge(&points, &targets, &penalties, threads)
}

fn said(rows: &Rows<f64>, row: u32, weights: &Mat<f64>) -> Vec<f64> {
    let constant = weights.nrows() - 1;
    let mut out: Vec<f64> = (0..weights.ncols())
        .map(|j| weights[(constant, j)])
        .collect();
    for (feature, v) in rows.row(row as usize).iter() {
        for (j, out) in out.iter_mut().enumerate() {
            *out += v * weights[(feature as usize, j)];
        }
    }
    out
}

/// Rows of features as they are regressed on. Rows of a table are scaled, others weighted by how
/// rare their features are.
fn prepared(data: &Labelled<f32>) -> Result<Rows<f64>> {
    let open = (Weight::Auto, Normalize::Auto, Scaling::Auto);
    let steps: Steps = candidates(open, &data.rows)
        .last()
        .copied()
        .unwrap_or_default();
    let members: Vec<u32> = (0..data.rows.len() as u32).collect();
    let preprocess = Preprocess::fit(steps, true, &data.rows, &members);
    let prepared = preprocess.apply(&data.rows, data.rows.columns())?;
    let mut rows: Rows<f64> = Rows::new();
    for row in prepared.iter() {
        let entries = row.iter().map(|(j, v)| (j, f64::from(v)));
        rows.push(SparseVec::from_entries(entries.collect()).as_row());
    }
    rows.widen(prepared.columns());
    Ok(rows)
}

/// The numbers of the rows among these ids, to which new ones are added.
fn numbered(data: &Labelled<f32>, ids: &mut Ids) -> Vec<u32> {
    let rows = 0..data.rows.len();
    rows.map(|i| ids.intern(&data.ids.name(i))).collect()
}

/// Whether a row is one of the fifth that penalties are chosen on.
fn is_held(row: u32) -> bool {
    splitmix64(u64::from(row)).is_multiple_of(5)
}

/// The penalty that does best on a fifth of the rows, and the share of the squares of the targets
/// from column `judged` on that features then explain. `of` has targets and weights of rows.
fn best_penalty(
    rows: &Rows<f64>,
    learned: &[u32],
    of: &impl Fn(&[u32]) -> (Mat<f64>, Vec<f64>),
    judged: usize,
    threads: usize,
) -> Result<(f64, f64)> {
    let (held, kept): (Vec<u32>, Vec<u32>) = learned.iter().partition(|&&row| is_held(row));
    let mut best = (PENALTIES[1], f64::NEG_INFINITY);
    if held.is_empty() || kept.is_empty() {
        return Ok(best);
    }
    let (targets, weights) = of(&kept);
    let (truth, of_held) = of(&held);
    for penalty in PENALTIES {
        let found = regressed(rows, &kept, &weights, &targets, penalty, threads)?;
        let (mut error, mut all) = (0.0, 0.0);
        for (i, &row) in held.iter().enumerate() {
            for (j, v) in said(rows, row, &found).iter().enumerate().skip(judged) {
                error += (of_held[i] * (v - truth[(i, j)])).powi(2);
                all += (of_held[i] * truth[(i, j)]).powi(2);
            }
        }
        let explained = 1.0 - error / all;
        if explained > best.1 {
            best = (penalty, explained);
        }
    }
    Ok(best)
}

/// Learns what items are from their features, and adds the items that have no choice.
pub(super) fn by_features(
    (encoder, decoder): (Mat<f64>, Mat<f64>),
    popularity: &[f64],
    items: &mut Ids,
    data: &Labelled<f32>,
    threads: usize,
) -> Result<ByFeatures> {
    let known = items.len();
    let rows = prepared(data)?;
    let numbers = numbered(data, items);
    let is_learned = |&row: &u32| {
        let item = numbers[row as usize] as usize;
        item < known && popularity[item] > 0.0
    };
    let learned: Vec<u32> = (0..rows.len() as u32).filter(is_learned).collect();
    if learned.is_empty() {
        return Err(Error::input(
            "no row of features is of an item that somebody chose",
        ));
    }
    let k = decoder.ncols();
    let of = |rows: &[u32]| -> (Mat<f64>, Vec<f64>) {
        let item = |i: usize| numbers[rows[i] as usize] as usize;
        let targets = Mat::from_fn(rows.len(), 2 * k, |i, j| match j < k {
            true => encoder[(item(i), j)],
            false => decoder[(item(i), j - k)],
        });
        let weight = |i: usize| (popularity[item(i)] / (popularity[item(i)] + HALF)).sqrt();
        (targets, (0..rows.len()).map(weight).collect())
    };
    let (penalty, explained) = best_penalty(&rows, &learned, &of, k, threads)?;
    let (targets, weights) = of(&learned);
    let found = regressed(&rows, &learned, &weights, &targets, penalty, threads)?;
    let total = items.len();
    let mut sides = [&encoder, &decoder]
        .map(|side| Mat::from_fn(total, k, |i, j| if i < known { side[(i, j)] } else { 0.0 }));
    for (row, &item) in numbers.iter().enumerate() {
        let item = item as usize;
        let n = popularity.get(item).copied().unwrap_or(0.0);
        let share = HALF / (HALF + n);
        let said = said(&rows, row as u32, &found);
        for (side, said) in sides.iter_mut().zip(said.chunks_exact(k)) {
            for (j, said) in said.iter().enumerate() {
                side[(item, j)] += share * (said - side[(item, j)]);
            }
        }
    }
    let [encoder, decoder] = sides;
    Ok(ByFeatures {
        factors: (encoder, decoder),
        new: total - known,
        explained,
    })
}

/// Features of users, by the numbers of the users.
pub(super) struct UserFeatures {
    rows: Rows<f64>,
    /// The user of each row; behind the users who chose something come those who did not.
    users: Vec<u32>,
    /// All of them.
    pub ids: Ids,
    threads: usize,
}

impl UserFeatures {
    /// Of these users, to whom those are added who are in `data` alone.
    pub fn new(data: &Labelled<f32>, users: &Ids, threads: usize) -> Result<Self> {
        let mut ids = users.clone();
        let numbers = numbered(data, &mut ids);
        if !numbers.iter().any(|&user| (user as usize) < users.len()) {
            return Err(Error::input(
                "no row of features is of a user who chose something",
            ));
        }
        Ok(UserFeatures {
            rows: prepared(data)?,
            users: numbers,
            ids,
            threads,
        })
    }

    /// What one choice of a user says by their features, a row for each user, zeros for those
    /// without features; and the share of it that features explain on users who were held out.
    ///
    /// Where it is `crossed`, the regression for one half of the users is learned from the other,
    /// so that it can be judged by what they chose.
    pub fn say(
        &self,
        histories: &Rows<f32>,
        encoder: &Tall<f32>,
        crossed: bool,
    ) -> Result<(Vec<f32>, f64)> {
        let k = encoder.rank();
        let chosen = |row: u32| match self.users[row as usize] as usize {
            user if user < histories.len() => histories.row(user),
            _ => SparseRow {
                indices: &[],
                values: &[],
            },
        };
        let of = |rows: &[u32]| -> (Mat<f64>, Vec<f64>) {
            let mut targets = Mat::zeros(rows.len(), k);
            for (i, &row) in rows.iter().enumerate() {
                let history = chosen(row);
                let n = history.len() as f64;
                for (item, strength) in history.iter() {
                    for (j, v) in encoder.row(item as usize).iter().enumerate() {
                        targets[(i, j)] += f64::from(strength) * f64::from(*v) / n;
                    }
                }
            }
            let weight = |&row: &u32| {
                let n = chosen(row).len() as f64;
                (n / (n + HALF)).sqrt()
            };
            (targets, rows.iter().map(weight).collect())
        };
        let all: Vec<u32> = (0..self.rows.len() as u32).collect();
        let learned: Vec<u32> = all
            .iter()
            .copied()
            .filter(|&row| !chosen(row).is_empty())
            .collect();
        let (penalty, explained) = best_penalty(&self.rows, &learned, &of, 0, self.threads)?;
        let mut out = vec![0.0; self.ids.len() * k];
        let half = |row: u32| splitmix64(!u64::from(row)).is_multiple_of(2);
        let parts: &[Option<bool>] = match crossed {
            true => &[Some(false), Some(true)],
            false => &[None],
        };
        for &part in parts {
            let from: Vec<u32> = learned
                .iter()
                .copied()
                .filter(|&row| part.is_none_or(|part| half(row) != part))
                .collect();
            if from.is_empty() {
                continue;
            }
            let (targets, weights) = of(&from);
            let threads = self.threads;
            let found = regressed(&self.rows, &from, &weights, &targets, penalty, threads)?;
            for &row in &all {
                if part.is_some_and(|part| half(row) != part) {
                    continue;
                }
                let to = &mut out[self.users[row as usize] as usize * k..][..k];
                let said = said(&self.rows, row, &found);
                to.iter_mut().zip(said).for_each(|(to, v)| *to = v as f32);
            }
        }
        Ok((out, explained))
    }
}
