//! Variational Bayes by shards, as in [`Bayes`](crate::batch::Bayes).
//!
//! The answer of a shard has for each column the sums over its entries that set the distribution
//! of the column; then what the prior of rows is learned from: the covariances of its rows summed,
//! their means, the products of these, and how many rows have entries. Where the pattern of known
//! entries counts, there are sums for it too, and questions follow (see [`super::pattern`]).

use super::pattern::{Asking, Seen, SideSums, column_sums};
use super::state::{Method, Prior, State};
use super::{Shard, ShardRows};
use crate::aligned::Aligned;
use crate::batch::bayes::{
    NOISE_FROM, PATTERN_FROM, PRUNE_EVERY, PRUNE_NOISE, PRUNE_SHARE, turned_precision,
};
use crate::batch::moments::{Gathered, Layout, RowUpdate, turn_rows, whole_turn};
use crate::batch::pass::BLOCK;
use crate::batch::pattern::{POWERS, add_line};
use crate::batch::rowwise::Rowwise;
use crate::linalg::svd;
use crate::parallel::map_rows;
use faer::Mat;

/// Numbers of a column in an answer.
pub(super) fn length(state: &State) -> usize {
    let layout = state.layout();
    let pattern = state.told.as_ref().map_or(0, |_| layout.d + POWERS);
    layout.second(layout.d, 0) + layout.d + 3 + pattern
}

/// Numbers behind those of columns.
pub(super) fn tail(state: &State) -> usize {
    let (d, used) = (state.layout().d, state.used());
    2 * d * d + used * d + used * used
}

/// Moments and weights of the rows of a shard, and the sum of their covariances.
struct Updated {
    moments: Aligned<f32>,
    weights: Vec<f32>,
    covariance: Vec<f64>,
}

fn updated(shard: &Shard<'_>, state: &State, weights: &[f32]) -> Updated {
    let layout = state.layout();
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
        let mut expected = vec![0.0; state.expected_width()];
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
            expected.fill(0.0);
            if let Some([told, _]) = &state.told {
                add_line(&mut expected, line.0, &told.weights.data);
                let length = 1.0 / (line.0.len().max(1) as f64).sqrt();
                expected.iter_mut().for_each(|e| *e *= length);
            }
            state.add_common(0, line.0.len(), &mut expected);
            let known = (&expected[..d], &precision);
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
    let layout = state.layout();
    let (d, width, each) = (layout.d, layout.width, length(state));
    let rows = updated(shard, state, weights);
    let lines = shard.entries.columns;
    let last = lines.len() * each;
    let mut out = vec![0.0; last + tail(state)];
    let counted = |i: usize| state.powers[0].of(shard.entries.rows.count(i));
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
                out[used + d..][..3].copy_from_slice(&[sums.weight, sums.values, sums.squares]);
                if state.told.is_none() {
                    continue;
                }
                let (means, powers) = out[used + d + 3..].split_at_mut(d);
                for &i in lines.line(j).0 {
                    let i = i as usize;
                    let length = 1.0 / (shard.entries.rows.count(i) as f64).sqrt();
                    let row = &rows.moments[i * width..];
                    for (sum, mean) in means.iter_mut().zip(row) {
                        *sum += length * f64::from(*mean);
                    }
                    for (sum, f) in powers.iter_mut().zip(counted(i)) {
                        *sum += length * f;
                    }
                }
            }
        },
    );
    let used = state.used();
    let (covariance, rest) = out[last..].split_at_mut(d * d);
    let (powers, rest) = rest.split_at_mut(used * d);
    let (products, gram) = rest.split_at_mut(d * d);
    covariance.copy_from_slice(&rows.covariance);
    for (i, row) in rows.moments.chunks_exact(width).enumerate() {
        if shard.entries.rows.count(i) == 0 {
            continue;
        }
        let f = counted(i);
        for a in 0..used {
            (0..used).for_each(|b| gram[a * used + b] += f[a] * f[b]);
            (0..d).for_each(|b| powers[a * d + b] += f[a] * f64::from(row[b]));
        }
        for a in 0..d {
            for b in 0..d {
                products[a * d + b] += f64::from(row[a]) * f64::from(row[b]);
            }
        }
    }
    (out, rows.weights)
}

pub(super) fn rows(shard: &Shard<'_>, state: &State, weights: &[f32]) -> ShardRows {
    let layout = state.layout();
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

/// What an answer says of all rows.
fn of_rows(state: &State, answer: &[f64]) -> (SideSums, Option<Seen>) {
    let (d, used, each) = (state.layout().d, state.used(), length(state));
    let (columns, tail) = answer.split_at(state.counts.len() * each);
    let mut at = 0;
    let mut next = |rows: usize, columns: usize| {
        let from = &tail[at..];
        at += rows * columns;
        Mat::from_fn(rows, columns, |i, j| from[i * columns + j])
    };
    let sums = SideSums {
        covariance: next(d, d),
        powers: next(used, d),
        products: next(d, d),
        gram: next(used, used),
    };
    let seen = state.told.as_ref().map(|_| {
        let mut out = Seen {
            means: Rowwise::zero(state.counts.len(), d),
            powers: Rowwise::zero(state.counts.len(), POWERS),
        };
        let (wide, few) = (out.means.width, out.powers.width);
        let rows = out.means.data.chunks_exact_mut(wide);
        let rows = rows.zip(out.powers.data.chunks_exact_mut(few));
        for ((means, powers), from) in rows.zip(columns.chunks_exact(each)) {
            let from = &from[each - d - POWERS..];
            means[..d].copy_from_slice(&from[..d]);
            powers[..POWERS].copy_from_slice(&from[d..]);
        }
        out
    });
    (sums, seen)
}

/// Sets all columns; the noise after it, in the units of entries. Then the priors are learned, or
/// a question is open.
pub(super) fn step(state: &mut State, answer: &[f64], threads: usize) -> f64 {
    let layout = state.layout();
    let (d, width, each) = (layout.d, layout.width, length(state));
    let used = layout.second(d, 0);
    let vary = state.iteration + 1 >= NOISE_FROM;
    let precision = state.priors[1].matrix(d);
    let mut moments = std::mem::replace(&mut state.moments, Aligned::new());
    let known = &*state;
    let pieces = map_rows(&mut moments, width, BLOCK, threads, |first, columns| {
        let mut update = RowUpdate::new(layout);
        let (mut covariance, mut found, mut total) = (Mat::zeros(d, d), Vec::new(), 0.0);
        let mut expected = vec![0.0; known.expected_width()];
        for (j, column) in (first..).zip(columns.chunks_exact_mut(width)) {
            let from = &answer[j * each..][..each];
            update.sums.moments[..used].copy_from_slice(&from[..used]);
            update.sums.products[..d].copy_from_slice(&from[used..used + d]);
            let sums = &mut update.sums;
            (sums.weight, sums.values, sums.squares) =
                (from[used + d], from[used + d + 1], from[used + d + 2]);
            let count = known.counts[j] as usize;
            expected.fill(0.0);
            if let Some([_, told]) = &known.told {
                expected.copy_from_slice(told.product.row(j));
            }
            known.add_common(1, count, &mut expected);
            let prior = (&expected[..d], &precision);
            let weight = f64::from(known.weights[j]);
            let (inverse, error, weight) =
                update.settle(prior, known.tau, weight, vary.then_some(count), column);
            found.push(weight as f32);
            total += weight * error;
            if count > 0 {
                covariance += Mat::from_fn(d, d, |a, b| inverse[a * d + b]);
            }
        }
        (covariance, found, total)
    });
    state.moments = moments;
    let (mut covariance, mut total) = (Mat::zeros(d, d), 0.0);
    state.weights.clear();
    for (part, weights, error) in pieces {
        covariance += part;
        state.weights.extend(weights);
        total += error;
    }
    let entries = state.entries.max(1.0);
    state.before = std::mem::replace(&mut state.tau, entries / total.max(1e-12 * entries));
    let noise = state.spread / state.tau.sqrt();
    let (sums, seen) = of_rows(state, answer);
    let means = means(state);
    match (&state.told, seen) {
        (Some(told), Some(seen)) if state.iteration + 1 >= PATTERN_FROM => {
            let asking = Asking::new(state, told, (sums, seen), (&means, covariance));
            state.asking = Some(Box::new(asking));
        }
        (told, _) => {
            let columns = column_sums(state, told.as_ref().map(|t| &t[1]), &means, &covariance);
            finish(state, &sums.products, [&sums, &columns]);
        }
    }
    noise
}

/// The answer to an open question; the last one ends the sweep.
pub(super) fn hear(state: &mut State, answer: &[f64]) {
    let (Some(mut asking), Some(mut told)) = (state.asking.take(), state.told.take()) else {
        return;
    };
    let ends = asking.hear(&mut told, answer);
    if ends {
        let [rows, columns] = asking.sums(state, &told, &means(state));
        state.told = Some(told);
        finish(state, asking.products(), [&rows, &columns]);
    } else {
        (state.told, state.asking) = (Some(told), Some(asking));
    }
}

/// The means of all columns.
fn means(state: &State) -> Rowwise {
    let layout = state.layout();
    let mut out = Rowwise::zero(state.counts.len(), layout.d);
    let wide = out.width;
    let rows = state.moments.chunks_exact(layout.width);
    for (to, from) in out.data.chunks_exact_mut(wide).zip(rows) {
        for (to, from) in to[..layout.d].iter_mut().zip(from) {
            *to = f64::from(*from);
        }
    }
    out
}

/// Learns the priors of both sides, and drops factors. `products` are those of the means of rows.
fn finish(state: &mut State, products: &Mat<f64>, sums: [&SideSums; 2]) {
    for (prior, sums) in state.priors.iter_mut().zip(sums) {
        let (common, precision) = sums.learned();
        prior.mean = flat(&common);
        if let Some(precision) = precision {
            prior.precision = flat(&precision);
        }
    }
    let sweep = state.iteration + 1;
    let prune = matches!(state.method, Method::Bayes { prune: true, .. });
    if prune && sweep >= 2 * PRUNE_EVERY && sweep.is_multiple_of(PRUNE_EVERY) {
        drop_factors(state, products, sums[0].gram[(0, 0)] * sums[1].gram[(0, 0)]);
    }
    state.iteration += 1;
}

/// Row by row.
fn flat(m: &Mat<f64>) -> Vec<f64> {
    let (n, k) = (m.nrows(), m.ncols());
    (0..n * k).map(|i| m[(i / k, i % k)]).collect()
}

/// Drops the factors that explain next to nothing, from the Gram matrices of both sides.
fn drop_factors(state: &mut State, products: &Mat<f64>, places: f64) {
    let before = state.layout();
    let k = state.rank;
    let mut own = Mat::<f64>::zeros(k, k);
    for (column, count) in state.moments.chunks_exact(before.width).zip(&state.counts) {
        if *count > 0.0 {
            for b in 0..k {
                (0..k).for_each(|a| own[(a, b)] += f64::from(column[a]) * f64::from(column[b]));
            }
        }
    }
    // G = RᵀR with R = Λ^½ Vᵀ: any root will do.
    let root = |products: &Mat<f64>| {
        let gram = Mat::from_fn(k, k, |a, b| 0.5 * (products[(a, b)] + products[(b, a)]));
        let eigen = gram.self_adjoint_eigen(faer::Side::Lower).ok()?;
        let values: Vec<f64> = eigen.S().column_vector().iter().copied().collect();
        Some(Mat::from_fn(k, k, |i, j| {
            values[i].max(0.0).sqrt() * eigen.U()[(j, i)]
        }))
    };
    let [Some(left), Some(right)] = [products, &own].map(root) else {
        return;
    };
    let Some((p, sigma, q)) = svd(&(&left * right.transpose())) else {
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
    // Rows are turned by the inverse of that; they follow from the state, and only what is
    // known of all of them is turned here.
    let layout = Layout::new(kept, state.biases);
    let map = |root: &Mat<f64>, turn: &Mat<f64>| {
        let t = root.transpose() * turn.subcols(0, kept);
        let t = Mat::from_fn(k, kept, |i, j| t[(i, j)] / sigma[j].sqrt());
        t.is_all_finite().then(|| whole_turn(&t, before, layout))
    };
    let [Some(of_rows), Some(of_columns)] = [map(&right, &q), map(&left, &p)] else {
        return;
    };
    let mut moments = Aligned::new();
    let room = moments.grow(state.counts.len() * layout.width);
    assert!(
        room,
        "memory for the moments of {} columns",
        state.counts.len()
    );
    turn_rows(&mut moments, layout, &state.moments, before, &of_columns);
    state.moments = moments;
    state.rank = kept;
    let used = state.used();
    for (prior, map) in state.priors.iter_mut().zip([&of_rows, &of_columns]) {
        let common = Mat::from_fn(used, before.d, |i, j| prior.mean[i * before.d + j]);
        prior.mean = flat(&(common * map));
        prior.precision = match turned_precision(&prior.matrix(before.d), map) {
            Some(precision) => flat(&precision),
            None => Prior::first(layout, used).precision,
        };
    }
    if let Some([rows, columns]) = &mut state.told {
        (*rows, *columns) = (rows.turned(&of_rows), columns.turned(&of_columns));
    }
}
