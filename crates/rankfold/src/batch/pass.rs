//! Passes over known entries, row by row: residuals, and their products with
//! factors. Nothing of the size of the matrix is ever made.

use super::rowwise::Rowwise;
use crate::kernel::{prefetch, vectorized};
use crate::parallel::{map_blocks, map_rows};
use crate::sparse::Lines;
use std::ops::Range;

/// Rows handled by one thread at a time.
pub(crate) const BLOCK: usize = 64;

/// Entries of a line ahead of which memory is asked for.
pub(crate) const AHEAD: usize = 8;

/// a·b in a fixed order, for rows of whole registers.
#[inline(always)]
pub(crate) fn dot_row(a: &[f64], b: &[f64]) -> f64 {
    let (whole_a, rest_a) = a.as_chunks::<4>();
    let (whole_b, rest_b) = b.as_chunks::<4>();
    let mut lanes = [0.0; 4];
    for (x, y) in whole_a.iter().zip(whole_b) {
        for j in 0..4 {
            lanes[j] += x[j] * y[j];
        }
    }
    let tail: f64 = rest_a.iter().zip(rest_b).map(|(x, y)| x * y).sum();
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]) + tail
}

/// Calls a kernel with the width as a constant where it is a usual one, and with
/// 0, which stands for any width, where it is not.
macro_rules! by_width {
    ($width:expr, $f:ident($($arg:expr),* $(,)?)) => {
        match $width {
            4 => $f::<4>($($arg),*),
            8 => $f::<8>($($arg),*),
            12 => $f::<12>($($arg),*),
            16 => $f::<16>($($arg),*),
            20 => $f::<20>($($arg),*),
            24 => $f::<24>($($arg),*),
            32 => $f::<32>($($arg),*),
            _ => $f::<0>($($arg),*),
        }
    };
}
pub(crate) use by_width;

/// What a pass over some lines needs.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub lines: Lines<'a>,
    /// Subtracted from the values.
    pub center: f64,
    /// One row a line.
    pub own: &'a Rowwise,
    /// One row a place in a line.
    pub other: &'a Rowwise,
    pub threads: usize,
}

vectorized! {
    /// For each line, the residuals own·other + center − value times the rows of
    /// the other side; and the sum of their squares.
    fn slope_lines<; W>(cost: &mut f64, out: &mut [f64], first: usize, pass: Pass<'_>) {
        let w = if W == 0 { pass.own.width } else { W };
        let (own, other) = (&pass.own.data[..], &pass.other.data[..]);
        let mut total = 0.0;
        for (i, out) in (first..).zip(out.chunks_exact_mut(w)) {
            let (index, value) = pass.lines.line(i);
            let own = &own[i * w..][..w];
            let mut sum = 0.0;
            for (at, (&j, &y)) in index.iter().zip(value).enumerate() {
                if let Some(&later) = index.get(at + AHEAD) {
                    prefetch(other, later as usize * w, w);
                }
                let row = &other[j as usize * w..][..w];
                let e = dot_row(own, row) + pass.center - y;
                sum += e * e;
                for (o, r) in out.iter_mut().zip(row) {
                    *o += e * r;
                }
            }
            total += sum;
        }
        *cost = total;
    }
}

vectorized! {
    /// The sum of squared residuals of some lines.
    fn cost_lines<; W>(cost: &mut f64, first: usize, last: usize, pass: Pass<'_>) {
        let w = if W == 0 { pass.own.width } else { W };
        let (own, other) = (&pass.own.data[..], &pass.other.data[..]);
        let mut total = 0.0;
        for i in first..last {
            let (index, value) = pass.lines.line(i);
            let own = &own[i * w..][..w];
            let mut sum = 0.0;
            for (at, (&j, &y)) in index.iter().zip(value).enumerate() {
                if let Some(&later) = index.get(at + AHEAD) {
                    prefetch(other, later as usize * w, w);
                }
                let e = dot_row(own, &other[j as usize * w..][..w]) + pass.center - y;
                sum += e * e;
            }
            total += sum;
        }
        *cost = total;
    }
}

vectorized! {
    /// The sum of squares of the products own·other at the entries of some lines.
    fn square_lines<; W>(sum: &mut f64, first: usize, last: usize, pass: Pass<'_>) {
        let w = if W == 0 { pass.own.width } else { W };
        let (own, other) = (&pass.own.data[..], &pass.other.data[..]);
        let mut total = 0.0;
        for i in first..last {
            let (index, _) = pass.lines.line(i);
            let own = &own[i * w..][..w];
            for (at, &j) in index.iter().enumerate() {
                if let Some(&later) = index.get(at + AHEAD) {
                    prefetch(other, later as usize * w, w);
                }
                let e = dot_row(own, &other[j as usize * w..][..w]);
                total += e * e;
            }
        }
        *sum = total;
    }
}

vectorized! {
    /// For each line, the products own·other at its entries times the rows of
    /// `onto`; and the sum of their squares.
    fn product_lines<; W>(cost: &mut f64, out: &mut [f64], first: usize, pass: Pass<'_>, onto: &Rowwise) {
        let w = if W == 0 { pass.own.width } else { W };
        let (own, other, v) = (&pass.own.data[..], &pass.other.data[..], onto.width);
        let mut total = 0.0;
        for (i, out) in (first..).zip(out.chunks_exact_mut(v)) {
            let (index, _) = pass.lines.line(i);
            let own = &own[i * w..][..w];
            for &j in index {
                let e = dot_row(own, &other[j as usize * w..][..w]);
                total += e * e;
                for (o, r) in out.iter_mut().zip(&onto.data[j as usize * v..][..v]) {
                    *o += e * r;
                }
            }
        }
        *cost = total;
    }
}

impl Pass<'_> {
    /// E R for the residuals E of a side, and the sum of their squares.
    pub fn slope(self) -> (f64, Rowwise) {
        let mut out = Rowwise::zero(self.lines.len(), self.own.width);
        let width = self.own.width;
        let costs = map_rows(&mut out.data, width, BLOCK, self.threads, |first, out| {
            let mut cost = 0.0;
            by_width!(width, slope_lines(&mut cost, out, first, self));
            cost
        });
        (costs.iter().sum(), out)
    }

    /// The sum of squared residuals.
    pub fn cost(self) -> f64 {
        self.sum(|sum, range| {
            by_width!(
                self.own.width,
                cost_lines(sum, range.start, range.end, self)
            );
        })
    }

    /// The sum of squares of what the rows predict, whatever the values are.
    pub fn squares(self) -> f64 {
        self.sum(|sum, range| {
            by_width!(
                self.own.width,
                square_lines(sum, range.start, range.end, self)
            );
        })
    }

    fn sum(self, add: impl Fn(&mut f64, Range<usize>) + Sync) -> f64 {
        let sums = map_blocks(self.lines.len(), BLOCK, self.threads, |range| {
            let mut sum = 0.0;
            add(&mut sum, range);
            sum
        });
        sums.iter().sum()
    }

    /// P R for the products P of the own and the other rows at the entries; and
    /// the sum of the squares of P.
    pub fn product(self, onto: &Rowwise) -> (f64, Rowwise) {
        let mut out = Rowwise::zero(self.lines.len(), onto.width);
        let width = self.own.width;
        let costs = map_rows(
            &mut out.data,
            onto.width,
            BLOCK,
            self.threads,
            |first, out| {
                let mut cost = 0.0;
                by_width!(width, product_lines(&mut cost, out, first, self, onto));
                cost
            },
        );
        (costs.iter().sum(), out)
    }
}
