//! Variational Bayes by shards, as in [`Bayes`](crate::batch::Bayes) without the pattern of known
//! entries.
//!
//! The answer of a shard has for each column the sums over its entries that set the distribution
//! of the column; then what the prior of rows is learned from: the covariances of its rows summed,
//! their means, the products of these, and how many rows have entries.

use super::state::{Method, Prior, State};
use super::{Shard, ShardRows};
use crate::aligned::Aligned;
use crate::batch::bayes::{
    NOISE_FROM, PRUNE_EVERY, PRUNE_NOISE, PRUNE_SHARE, certain_up_to, turned_precision,
};
use crate::batch::moments::{Gathered, Layout, RowUpdate, turn_rows, whole_turn};
use crate::batch::pass::BLOCK;
use crate::linalg::{svd, symmetric};
use crate::parallel::map_rows;
use faer::Mat;

/// Numbers of a column in an answer.
pub(super) fn length(layout: Layout) -> usize {
    layout.second(layout.d, 0) + layout.d + 3
}

/// Numbers behind those of columns.
pub(super) fn tail(layout: Layout) -> usize {
    2 * layout.d * layout.d + layout.d + 1
}

/// Moments and weights of the rows of a shard, and the sum of their covariances.
struct Updated {
    moments: Aligned<f32>,
    weights: Vec<f32>,
    covariance: Vec<f64>,
}

fn updated(shard: &Shard<'_>, state: &State, weights: &[f32]) -> Updated {
    let layout = Layout::new(state.rank, state.biases);
    let (d, width, lines) = (layout.d, layout.width, shard.entries.rows);
    let mut moments = Aligned::new();
    let room = moments.grow(lines.len() * width);
    assert!(room, "memory for the moments of {} rows", lines.len());
    let vary = state.iteration + 1 >= NOISE_FROM;
    let prior = &state.priors[0];
    let precision = prior.matrix(d);
    let pieces = map_rows(&mut moments, width, BLOCK, shard.threads, |first, rows| {
        let mut update = RowUpdate::new(layout);
        let (mut covariance, mut found) = (vec![0.0; d * d], Vec::new());
        for (i, row) in (first..).zip(rows.chunks_exact_mut(width)) {
            let line = lines.line(i);
            update.gather(&Gathered {
                line,
                center: state.center,
                scale: 1.0 / state.spread,
                moments: &state.moments,
                weights: &state.weights,
            });
            let weight = weights.get(i).map_or(1.0, |w| f64::from(*w));
            let entries = vary.then_some(line.0.len());
            let known = (&prior.mean[..], &precision);
            let (inverse, _, weight) = update.settle(known, state.tau, weight, entries, row);
            found.push(weight as f32);
            if !line.0.is_empty() {
                covariance
                    .iter_mut()
                    .zip(&inverse)
                    .for_each(|(s, c)| *s += c);
            }
        }
        (covariance, found)
    });
    let mut out = Updated {
        moments,
        weights: Vec::with_capacity(lines.len()),
        covariance: vec![0.0; d * d],
    };
    for (covariance, weights) in pieces {
        out.covariance
            .iter_mut()
            .zip(&covariance)
            .for_each(|(s, c)| *s += c);
        out.weights.extend(weights);
    }
    out
}

pub(super) fn answer(shard: &Shard<'_>, state: &State, weights: &[f32]) -> (Vec<f64>, Vec<f32>) {
    let layout = Layout::new(state.rank, state.biases);
    let (d, width, each) = (layout.d, layout.width, length(layout));
    let rows = updated(shard, state, weights);
    let lines = shard.entries.columns;
    let last = lines.len() * each;
    let mut out = vec![0.0; last + tail(layout)];
    let used = layout.second(d, 0);
    map_rows(
        &mut out[..last],
        each,
        BLOCK,
        shard.threads,
        |first, out| {
            let mut update = RowUpdate::new(layout);
            for (j, out) in (first..).zip(out.chunks_exact_mut(each)) {
                update.gather(&Gathered {
                    line: lines.line(j),
                    center: state.center,
                    scale: 1.0 / state.spread,
                    moments: &rows.moments,
                    weights: &rows.weights,
                });
                let sums = &update.sums;
                out[..used].copy_from_slice(&sums.moments[..used]);
                out[used..used + d].copy_from_slice(&sums.products[..d]);
                out[used + d..].copy_from_slice(&[sums.weight, sums.values, sums.squares]);
            }
        },
    );
    let tail = &mut out[last..];
    tail[..d * d].copy_from_slice(&rows.covariance);
    for (i, row) in rows.moments.chunks_exact(width).enumerate() {
        if shard.entries.rows.count(i) == 0 {
            continue;
        }
        for a in 0..d {
            let mean = f64::from(row[a]);
            tail[d * d + a] += mean;
            for b in 0..d {
                tail[d * d + d + a * d + b] += mean * f64::from(row[b]);
            }
        }
        tail[2 * d * d + d] += 1.0;
    }
    (out, rows.weights)
}

pub(super) fn rows(shard: &Shard<'_>, state: &State, weights: &[f32]) -> ShardRows {
    let layout = Layout::new(state.rank, state.biases);
    let (k, width, lines) = (state.rank, layout.width, shard.entries.rows);
    let rows = updated(shard, state, weights);
    let root = state.spread.sqrt();
    let mut squares = 0.0;
    for (i, row) in rows.moments.chunks_exact(width).enumerate() {
        let (index, value) = lines.line(i);
        for (&j, y) in index.iter().zip(value) {
            let column = &state.moments[j as usize * width..][..width];
            let terms = row[..k].iter().zip(column);
            let mut found: f64 = terms.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            if state.biases {
                found += f64::from(row[k]) + f64::from(column[k]);
            }
            squares += (y - state.center - state.spread * found).powi(2);
        }
    }
    let each = || rows.moments.chunks_exact(width);
    ShardRows {
        squares,
        factors: each()
            .flat_map(|row| row[..k].iter().map(|v| root * f64::from(*v)))
            .collect(),
        bias: state
            .biases
            .then(|| each().map(|row| state.spread * f64::from(row[k])).collect()),
    }
}

/// Learns a prior from sums over rows: covariances, means, products of means, rows.
fn learn(
    prior: &mut Prior,
    d: usize,
    covariance: &[f64],
    means: &[f64],
    products: &[f64],
    rows: f64,
) {
    let rows = rows.max(1.0);
    prior.mean = means.iter().map(|sum| sum / rows).collect();
    let spread = Mat::from_fn(d, d, |a, b| {
        let around = products[a * d + b] - rows * prior.mean[a] * prior.mean[b];
        (covariance[a * d + b] + around) / rows
    });
    if let Some(precision) = certain_up_to(&symmetric::part(&spread)) {
        prior.precision = (0..d * d).map(|i| precision[(i / d, i % d)]).collect();
    }
}

/// Sets all columns; the noise after it, in the units of entries.
pub(super) fn step(state: &mut State, answer: &[f64], threads: usize) -> f64 {
    let layout = Layout::new(state.rank, state.biases);
    let (d, width, each) = (layout.d, layout.width, length(layout));
    let used = layout.second(d, 0);
    let tail = &answer[state.counts.len() * each..];
    let (means, products) = (&tail[d * d..d * d + d], &tail[d * d + d..2 * d * d + d]);
    learn(
        &mut state.priors[0],
        d,
        &tail[..d * d],
        means,
        products,
        tail[2 * d * d + d],
    );
    let vary = state.iteration + 1 >= NOISE_FROM;
    let precision = state.priors[1].matrix(d);
    let (counts, weights, prior) = (&state.counts, &state.weights, &state.priors[1]);
    let tau = state.tau;
    let pieces = map_rows(
        &mut state.moments,
        width,
        BLOCK,
        threads,
        |first, columns| {
            let mut update = RowUpdate::new(layout);
            let (mut covariance, mut found, mut total) = (vec![0.0; d * d], Vec::new(), 0.0);
            for (j, column) in (first..).zip(columns.chunks_exact_mut(width)) {
                let from = &answer[j * each..][..each];
                update.sums.moments[..used].copy_from_slice(&from[..used]);
                update.sums.products[..d].copy_from_slice(&from[used..used + d]);
                let sums = &mut update.sums;
                (sums.weight, sums.values, sums.squares) =
                    (from[used + d], from[used + d + 1], from[used + d + 2]);
                let entries = vary.then_some(counts[j] as usize);
                let known = (&prior.mean[..], &precision);
                let weight = f64::from(weights[j]);
                let (inverse, error, weight) = update.settle(known, tau, weight, entries, column);
                found.push(weight as f32);
                total += weight * error;
                if counts[j] > 0.0 {
                    covariance
                        .iter_mut()
                        .zip(&inverse)
                        .for_each(|(s, c)| *s += c);
                }
            }
            (covariance, found, total)
        },
    );
    let (mut covariance, mut total) = (vec![0.0; d * d], 0.0);
    state.weights.clear();
    for (part, weights, error) in pieces {
        covariance.iter_mut().zip(&part).for_each(|(s, c)| *s += c);
        state.weights.extend(weights);
        total += error;
    }
    let (mut own_means, mut own_products, mut seen) = (vec![0.0; d], vec![0.0; d * d], 0.0);
    for (column, count) in state.moments.chunks_exact(width).zip(&state.counts) {
        if *count > 0.0 {
            for a in 0..d {
                own_means[a] += f64::from(column[a]);
                for b in 0..d {
                    own_products[a * d + b] += f64::from(column[a]) * f64::from(column[b]);
                }
            }
            seen += 1.0;
        }
    }
    learn(
        &mut state.priors[1],
        d,
        &covariance,
        &own_means,
        &own_products,
        seen,
    );
    let entries = state.entries.max(1.0);
    state.before = std::mem::replace(&mut state.tau, entries / total.max(1e-12 * entries));
    let sweep = state.iteration + 1;
    let prune = matches!(state.method, Method::Bayes { prune: true });
    if prune && sweep >= 2 * PRUNE_EVERY && sweep.is_multiple_of(PRUNE_EVERY) {
        let places = tail[2 * d * d + d] * seen;
        drop_factors(state, [products, &own_products], places);
    }
    state.spread / state.tau.sqrt()
}

/// Drops the factors that explain next to nothing, from the Gram matrices of both sides.
fn drop_factors(state: &mut State, products: [&[f64]; 2], places: f64) {
    let before = Layout::new(state.rank, state.biases);
    let (k, d) = (state.rank, before.d);
    // G = RᵀR with R = Λ^½ Vᵀ: any root will do.
    let root = |products: &[f64]| {
        let gram = Mat::from_fn(k, k, |a, b| {
            0.5 * (products[a * d + b] + products[b * d + a])
        });
        let eigen = gram.self_adjoint_eigen(faer::Side::Lower).ok()?;
        let values: Vec<f64> = eigen.S().column_vector().iter().copied().collect();
        Some(Mat::from_fn(k, k, |i, j| {
            values[i].max(0.0).sqrt() * eigen.U()[(j, i)]
        }))
    };
    let [Some(left), Some(right)] = products.map(root) else {
        return;
    };
    let Some((p, sigma, _)) = svd(&(&left * right.transpose())) else {
        return;
    };
    let least = PRUNE_SHARE / state.tau.min(PRUNE_NOISE);
    let kept = sigma
        .iter()
        .filter(|&&s| s * s > least * places.max(1.0))
        .count();
    let kept = kept.max(1);
    if kept >= k {
        return;
    }
    // Columns R become R (Lᵀ P) Σ^-½, so that their products with rows are Σ^½ on each side.
    let t = left.transpose() * p.subcols(0, kept);
    let t = Mat::from_fn(k, kept, |i, j| t[(i, j)] / sigma[j].sqrt());
    if !t.is_all_finite() {
        return;
    }
    let layout = Layout::new(kept, state.biases);
    let whole = whole_turn(&t, before, layout);
    let mut moments = Aligned::new();
    let room = moments.grow(state.counts.len() * layout.width);
    assert!(
        room,
        "memory for the moments of {} columns",
        state.counts.len()
    );
    turn_rows(&mut moments, layout, &state.moments, before, &whole);
    state.moments = moments;
    state.rank = kept;
    // Rows are turned by the inverse of what columns are: their prior is learned in the next
    // sweep, from what is known of the columns.
    let columns = &mut state.priors[1];
    let mean = Mat::from_fn(1, d, |_, j| columns.mean[j]) * &whole;
    let precision = turned_precision(&columns.matrix(d), &whole);
    let flat = |m: &Mat<f64>| {
        (0..m.nrows() * m.ncols())
            .map(|i| m[(i / m.ncols(), i % m.ncols())])
            .collect::<Vec<f64>>()
    };
    columns.mean = flat(&mean);
    columns.precision = match precision {
        Some(precision) => flat(&precision),
        None => Prior::first(layout).precision,
    };
    let (q, scale) = (
        right.transpose()
            * svd(&(&left * right.transpose()))
                .map_or_else(|| Mat::zeros(k, k), |s| s.2)
                .subcols(0, kept),
        &sigma,
    );
    let back = Mat::from_fn(k, kept, |i, j| q[(i, j)] / scale[j].sqrt());
    let back = whole_turn(&back, before, layout);
    let rows = &mut state.priors[0];
    let mean = Mat::from_fn(1, d, |_, j| rows.mean[j]) * &back;
    let precision = turned_precision(&rows.matrix(d), &back);
    rows.mean = flat(&mean);
    rows.precision = match precision {
        Some(precision) => flat(&precision),
        None => Prior::first(layout).precision,
    };
}
