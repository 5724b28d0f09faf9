//! Rows of items from their features: for items that nobody chose yet, and a little for those
//! that few did.

use crate::batch::{Points, ridge};
use crate::data::Labelled;
use crate::model::{Normalize, Preprocess, Scaling, Steps, Weight};
use crate::random::splitmix64;
use crate::task::preprocessing::candidates;
use crate::{Error, Ids, Result, Rows, SparseVec};
use faer::Mat;

/// Choices after which an item counts half by itself and half by its features.
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

/// The weights of a ridge regression of rows of `targets` on the features of items.
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

/// Learns what items are from their features, and adds the items that have no choice.
pub(super) fn by_features(
    (encoder, decoder): (Mat<f64>, Mat<f64>),
    popularity: &[f64],
    items: &mut Ids,
    data: &Labelled<f32>,
    threads: usize,
) -> Result<ByFeatures> {
    let known = items.len();
    // Rows of a table are scaled, others weighted by how rare their features are.
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
    let names: Vec<String> = (0..rows.len())
        .map(|i| data.ids.name(i).into_owned())
        .collect();
    let numbers: Vec<u32> = names.iter().map(|name| items.intern(name)).collect();
    let learned: Vec<u32> = members
        .iter()
        .copied()
        .filter(|&row| {
            let item = numbers[row as usize] as usize;
            item < known && popularity[item] > 0.0
        })
        .collect();
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
    // The penalty that does best on a fifth of the items.
    let (held, kept): (Vec<u32>, Vec<u32>) = learned
        .iter()
        .partition(|&&row| splitmix64(u64::from(row)).is_multiple_of(5));
    let mut best = (PENALTIES[1], f64::NEG_INFINITY);
    if !held.is_empty() && !kept.is_empty() {
        let (targets, weights) = of(&kept);
        let (truth, of_held) = of(&held);
        for penalty in PENALTIES {
            let found = regressed(&rows, &kept, &weights, &targets, penalty, threads)?;
            let (mut error, mut all) = (0.0, 0.0);
            for (i, &row) in held.iter().enumerate() {
                for (j, v) in said(&rows, row, &found).iter().enumerate().skip(k) {
                    error += (of_held[i] * (v - truth[(i, j)])).powi(2);
                    all += (of_held[i] * truth[(i, j)]).powi(2);
                }
            }
            let explained = 1.0 - error / all;
            if explained > best.1 {
                best = (penalty, explained);
            }
        }
    }
    let (targets, weights) = of(&learned);
    let found = regressed(&rows, &learned, &weights, &targets, best.0, threads)?;
    let total = items.len();
    let mut sides = [encoder, decoder]
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
        explained: best.1,
    })
}
