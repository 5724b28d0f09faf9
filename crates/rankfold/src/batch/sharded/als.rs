//! Alternating least squares by shards, as in [`Als`](crate::batch::Als).
//!
//! The answer of a shard has for each column the upper triangle of A = Σ x xᵀ, b = Σ t x and Σ t²
//! over its entries, where t is the value less the center and the bias of the row; then the
//! penalty of its rows. The cost follows from the same sums: tᵀt − 2 bᵀx + xᵀA x.

use super::state::{Method, State};
use super::{Shard, ShardRows};
use crate::batch::normal::Normal;
use crate::batch::pass::BLOCK;
use crate::batch::rowwise::Rowwise;
use crate::parallel::map_rows;

/// Numbers of a column in an answer, for equations of this size.
pub(super) fn length(size: usize) -> usize {
    size * (size + 1) / 2 + size + 1
}

/// A row holds its k factors, and where there are biases a 1 and the bias.
fn layout(state: &State) -> (usize, usize, Option<usize>) {
    let k = state.rank;
    match state.biases {
        true => (k + 1, k + 2, Some(k + 1)),
        false => (k, k, None),
    }
}

fn columns_of(state: &State) -> Rowwise {
    let (size, wide, _) = layout(state);
    let mut out = Rowwise::zero(state.counts.len(), wide);
    let width = out.width;
    for (to, from) in out
        .data
        .chunks_exact_mut(width)
        .zip(state.columns.chunks_exact(size))
    {
        to[..state.rank].copy_from_slice(&from[..state.rank]);
        if state.biases {
            (to[state.rank], to[state.rank + 1]) = (1.0, from[state.rank]);
        }
    }
    out
}

/// Adds ridges, and solves in place. Without a penalty a short line has no unique solution: a
/// little on the diagonal gives one that is next to the smallest.
fn solve(normal: &mut Normal, size: usize, ridge: f64) {
    let width = normal.width;
    let whole = normal.clone();
    let mean = (0..size).map(|i| whole.a[i * width + i]).sum::<f64>() / size as f64;
    let mut more = 0.0;
    for _ in 0..4 {
        for i in 0..size {
            normal.a[i * width + i] += ridge + more * mean;
        }
        if normal.factor(size) {
            normal.solve(size);
            return;
        }
        normal.clone_from(&whole);
        more = 1e3 * f64::max(more, 1e-15);
    }
    normal.b.fill(0.0);
}

fn penalty(state: &State) -> (f64, f64) {
    match state.method {
        Method::Als { lambda, power } => (lambda, power),
        Method::Bayes { .. } => (0.0, 0.0),
    }
}

/// Solves for the rows of a shard, in the layout of the columns.
fn solved(shard: &Shard<'_>, state: &State) -> Rowwise {
    let (size, wide, offset) = layout(state);
    let (lambda, power) = penalty(state);
    let columns = columns_of(state);
    let lines = shard.entries.rows;
    let mut rows = Rowwise::zero(lines.len(), wide);
    let width = rows.width;
    map_rows(
        &mut rows.data,
        width,
        BLOCK,
        shard.threads,
        |first, rows| {
            let mut normal = Normal::new(width);
            for (i, row) in (first..).zip(rows.chunks_exact_mut(width)) {
                let line = lines.line(i);
                if offset.is_some() {
                    row[state.rank] = 1.0;
                }
                if line.0.is_empty() {
                    continue;
                }
                normal.gather(line, &columns.data, size, state.center, offset);
                solve(
                    &mut normal,
                    size,
                    lambda * (line.0.len() as f64).powf(power),
                );
                row[..state.rank].copy_from_slice(&normal.b[..state.rank]);
                if let Some(bias) = offset {
                    row[bias] = normal.b[state.rank];
                }
            }
        },
    );
    rows
}

pub(super) fn answer(shard: &Shard<'_>, state: &State) -> Vec<f64> {
    let (size, _, offset) = layout(state);
    let (lambda, power) = penalty(state);
    let rows = solved(shard, state);
    let (lines, each, width) = (shard.entries.columns, length(size), rows.width);
    let mut out = vec![0.0; lines.len() * each + 1];
    let last = lines.len() * each;
    map_rows(
        &mut out[..last],
        each,
        BLOCK,
        shard.threads,
        |first, out| {
            let mut normal = Normal::new(width);
            for (j, out) in (first..).zip(out.chunks_exact_mut(each)) {
                let line = lines.line(j);
                if line.0.is_empty() {
                    continue;
                }
                normal.gather(line, &rows.data, size, state.center, offset);
                let mut at = 0;
                for a in 0..size {
                    let upper = &normal.a[a * width + a..a * width + size];
                    out[at..at + upper.len()].copy_from_slice(upper);
                    at += upper.len();
                }
                out[at..at + size].copy_from_slice(&normal.b[..size]);
                let target = |(&i, y): (&u32, &f64)| {
                    y - state.center - offset.map_or(0.0, |at| rows.row(i as usize)[at])
                };
                let squares = line.0.iter().zip(line.1).map(target).map(|t| t * t);
                out[each - 1] = squares.sum();
            }
        },
    );
    let norms = (0..rows.rows()).map(|i| {
        let row = rows.row(i);
        let square = row[..state.rank].iter().map(|v| v * v).sum::<f64>();
        let bias = offset.map_or(0.0, |at| row[at] * row[at]);
        let ridge = lambda * (shard.entries.rows.count(i) as f64).powf(power);
        ridge * (square + bias)
    });
    out[last] = norms.sum();
    out
}

pub(super) fn rows(shard: &Shard<'_>, state: &State) -> ShardRows {
    let (_, _, offset) = layout(state);
    let rows = solved(shard, state);
    let columns = columns_of(state);
    let lines = shard.entries.rows;
    let predicted = |i: usize, j: u32| {
        let (row, column) = (rows.row(i), columns.row(j as usize));
        let dot: f64 = row[..state.rank]
            .iter()
            .zip(column)
            .map(|(a, b)| a * b)
            .sum();
        state.center + dot + offset.map_or(0.0, |at| row[at] + column[at])
    };
    let squares = (0..lines.len()).map(|i| {
        let (index, value) = lines.line(i);
        let each = index
            .iter()
            .zip(value)
            .map(|(&j, y)| (y - predicted(i, j)).powi(2));
        each.sum::<f64>()
    });
    ShardRows {
        squares: squares.sum(),
        factors: (0..rows.rows())
            .flat_map(|i| rows.row(i)[..state.rank].to_vec())
            .collect(),
        bias: offset.map(|at| (0..rows.rows()).map(|i| rows.row(i)[at]).collect()),
    }
}

/// Solves for all columns; the cost after it.
pub(super) fn step(state: &mut State, answer: &[f64], threads: usize) -> f64 {
    let (size, _, _) = layout(state);
    let (lambda, power) = penalty(state);
    let each = length(size);
    let counts = &state.counts;
    let costs = map_rows(
        &mut state.columns,
        size,
        BLOCK,
        threads,
        |first, columns| {
            let width = crate::kernel::row_width::<f64>(size);
            let mut normal = Normal::new(width);
            let mut cost = 0.0;
            for (j, column) in (first..).zip(columns.chunks_exact_mut(size)) {
                column.fill(0.0);
                if counts[j] == 0.0 {
                    continue;
                }
                let from = &answer[j * each..][..each];
                let fill = |normal: &mut Normal| {
                    let mut at = 0;
                    for a in 0..size {
                        normal.a[a * width + a..a * width + size]
                            .copy_from_slice(&from[at..at + size - a]);
                        at += size - a;
                    }
                    normal.b[..size].copy_from_slice(&from[at..at + size]);
                };
                fill(&mut normal);
                let ridge = lambda * counts[j].powf(power);
                solve(&mut normal, size, ridge);
                column.copy_from_slice(&normal.b[..size]);
                fill(&mut normal);
                let mut sum = from[each - 1];
                for a in 0..size {
                    sum -= 2.0 * normal.b[a] * column[a];
                    sum += (normal.a[a * width + a] + ridge) * column[a] * column[a];
                    for b in a + 1..size {
                        sum += 2.0 * normal.a[a * width + b] * column[a] * column[b];
                    }
                }
                cost += sum;
            }
            cost
        },
    );
    0.5 * (costs.iter().sum::<f64>() + answer[counts.len() * each])
}
