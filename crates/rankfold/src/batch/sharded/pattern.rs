//! What the pattern of known entries tells, as in [`crate::batch::pattern`], where nobody has all of
//! it.
//!
//! Let B be 1 where an entry is known, P = N^-½ B for the counts N of rows, and Q = M^-½ Bᵀ for those
//! of columns. Rows are expected at F C + P y and columns at F C + Q z, where F are powers of counts.
//! y has a row for each column, and is part of the state. z has one for each row of W, which are too
//! many to be sent. But conjugate gradients that start from zero never leave the range of Qᵀ: with
//! z = Qᵀ w and residuals Qᵀ s all they need are products with K = Q Qᵀ = M^-½ BᵀB M^-½.
//!
//! So a step of both sides is one question to all shards, with a direction of y and the residual s:
//! each answers with Bᵀ N⁻¹ B and BᵀB times these, for its own rows. The steps are those of the
//! single process, up to rounding. What rows are expected at follows from sums over shards as well.

use super::state::State;
use crate::batch::bayes::{PATTERN_RIDGE, certain_up_to};
use crate::batch::pattern::{
    COUNT_RIDGE, POWERS, STEPS, add_columns, column_dots, line_sums, ratios, scale_rows,
};
use crate::batch::rowwise::Rowwise;
use crate::linalg::symmetric;
use crate::sparse::View;
use faer::Mat;

/// What is learned of the pattern for one side.
#[derive(Debug, Clone)]
pub(super) struct Told {
    /// y of rows, or w of columns: a row for each column.
    pub weights: Rowwise,
    /// PᵀP y, or K w.
    pub product: Rowwise,
}

impl Told {
    pub fn zero(columns: usize, d: usize) -> Self {
        Told {
            weights: Rowwise::zero(columns, d),
            product: Rowwise::zero(columns, d),
        }
    }

    /// The same for rows times a small matrix.
    pub fn turned(&self, map: &Mat<f64>) -> Self {
        Told {
            weights: self.weights.times(map),
            product: self.product.times(map),
        }
    }
}

/// Sums over the rows M of one side that have entries, from which its prior is learned.
#[derive(Debug, Clone)]
pub(super) struct SideSums {
    /// Of covariances.
    pub covariance: Mat<f64>,
    /// FᵀM; with one power alone the sums of M.
    pub powers: Mat<f64>,
    /// MᵀM.
    pub products: Mat<f64>,
    /// FᵀF.
    pub gram: Mat<f64>,
}

impl SideSums {
    /// C, by ridge regression.
    pub fn common(&self) -> Mat<f64> {
        let used = self.gram.nrows();
        let gram = Mat::from_fn(used, used, |i, j| match i == j && i > 0 {
            true => self.gram[(i, j)] + COUNT_RIDGE,
            false => self.gram[(i, j)],
        });
        let inverse = symmetric::map(&gram, |value| 1.0 / value.max(1e-9));
        let zero = Mat::zeros(used, self.powers.ncols());
        inverse.map_or(zero, |inverse| inverse * &self.powers)
    }

    /// C, and the precision of the prior where there is one.
    pub fn learned(&self) -> (Mat<f64>, Option<Mat<f64>>) {
        let common = self.common();
        let across = self.powers.transpose() * &common;
        let around = &self.products - &across - across.transpose()
            + common.transpose() * &self.gram * &common;
        let rows = faer::Scale(1.0 / self.gram[(0, 0)].max(1.0));
        let spread = rows * symmetric::part(&(&self.covariance + around));
        (common, certain_up_to(&spread))
    }
}

/// Sums over rows that shards have beside [`SideSums`].
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// PᵀM.
    pub means: Rowwise,
    /// PᵀF.
    pub powers: Rowwise,
}

/// Sums of two rows of numbers, aᵀb.
fn inner(a: &Rowwise, b: &Rowwise, (p, q): (usize, usize)) -> Mat<f64> {
    let mut out = Mat::<f64>::zeros(p, q);
    for i in 0..a.rows() {
        let (a, b) = (a.row(i), b.row(i));
        for j in 0..q {
            for (i, a) in a[..p].iter().enumerate() {
                out[(i, j)] += a * b[j];
            }
        }
    }
    out
}

/// Sums over rows, less what the pattern tells of each: of M − P y instead of M.
pub(super) fn without_pattern(sums: &SideSums, seen: &Seen, told: &Told) -> SideSums {
    let d = sums.products.nrows();
    let across = inner(&seen.means, &told.weights, (d, d));
    let own = inner(&told.weights, &told.product, (d, d));
    SideSums {
        covariance: sums.covariance.clone(),
        powers: &sums.powers - inner(&seen.powers, &told.weights, (POWERS, d)),
        products: &sums.products - &across - across.transpose() + symmetric::part(&own),
        gram: sums.gram.clone(),
    }
}

/// The answer of a shard to a question: Bᵀ N⁻¹ B and BᵀB times the halves of its columns, d of each.
pub(super) fn answer(view: View<'_>, question: &[f64], d: usize, threads: usize) -> Vec<f64> {
    let asked = from_flat(question, 2 * d);
    let mut rows = line_sums(view.rows, &asked, threads);
    let width = rows.width;
    for (i, row) in rows.data.chunks_exact_mut(width).enumerate() {
        let count = view.rows.count(i).max(1) as f64;
        row[..d].iter_mut().for_each(|v| *v /= count);
    }
    flat(&line_sums(view.columns, &rows, threads), 2 * d)
}

pub(super) fn from_flat(numbers: &[f64], d: usize) -> Rowwise {
    let mut out = Rowwise::zero(numbers.len() / d, d);
    let width = out.width;
    let rows = out.data.chunks_exact_mut(width);
    rows.zip(numbers.chunks_exact(d))
        .for_each(|(to, from)| to[..d].copy_from_slice(from));
    out
}

pub(super) fn flat(rows: &Rowwise, d: usize) -> Vec<f64> {
    let each = rows.data.chunks_exact(rows.width);
    each.flat_map(|row| &row[..d]).copied().collect()
}

/// Conjugate gradients of one side, between two questions.
#[derive(Debug, Clone)]
struct Steps {
    residual: Rowwise,
    direction: Rowwise,
    /// PᵀP times the direction, or K times it.
    product: Rowwise,
    /// The squares of residuals of the regression, by columns.
    square: Vec<f64>,
}

/// A sweep whose patterns are being learned.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    /// Questions that were answered.
    answered: usize,
    sides: [Steps; 2],
    /// M^-½, and 0 for columns without entries.
    lengths: Vec<f64>,
    sums: SideSums,
    seen: Seen,
    /// Covariances of columns, summed.
    covariance: Mat<f64>,
    d: usize,
}

/// A new direction: the residual, and of the old direction so much of each column.
fn turn(direction: &mut Rowwise, residual: &Rowwise, kept: &[f64]) {
    let width = residual.width;
    let pairs = direction.data.chunks_exact_mut(width);
    for (d, r) in pairs.zip(residual.data.chunks_exact(width)) {
        for ((d, r), k) in d.iter_mut().zip(r).zip(kept) {
            *d = r + k * *d;
        }
    }
}

impl Asking {
    /// Opens the questions of a sweep. `columns` are the means of columns.
    pub fn new(
        state: &State,
        told: &[Told; 2],
        (sums, seen): (SideSums, Seen),
        (columns, covariance): (&Rowwise, Mat<f64>),
    ) -> Self {
        let d = sums.products.nrows();
        // Rows: r = PᵀM − PᵀF C − PᵀP y − κ y.
        let common = without_pattern(&sums, &seen, &told[0]).common();
        let mut left = seen.means.clone();
        for (j, row) in left.data.chunks_exact_mut(columns.width).enumerate() {
            let (f, h, y) = (
                seen.powers.row(j),
                told[0].product.row(j),
                told[0].weights.row(j),
            );
            for (a, r) in row[..d].iter_mut().enumerate() {
                let counts: f64 = (0..POWERS).map(|p| f[p] * common[(p, a)]).sum();
                *r -= counts + h[a] + PATTERN_RIDGE[0] * y[a];
            }
        }
        // Columns: s = M − F C − K w − κ w.
        let common = column_sums(state, Some(&told[1]), columns, &covariance).common();
        let mut right = columns.clone();
        for (j, row) in right.data.chunks_exact_mut(columns.width).enumerate() {
            if state.counts[j] == 0.0 {
                row.fill(0.0);
                continue;
            }
            let f = state.powers[1].of(state.counts[j] as usize);
            let (h, w) = (told[1].product.row(j), told[1].weights.row(j));
            for (a, r) in row[..d].iter_mut().enumerate() {
                let counts: f64 = (0..POWERS).map(|p| f[p] * common[(p, a)]).sum();
                *r -= counts + h[a] + PATTERN_RIDGE[1] * w[a];
            }
        }
        let zero = || Rowwise::zero(columns.rows(), d);
        let steps = |residual: Rowwise, square: Vec<f64>| Steps {
            direction: zero(),
            product: zero(),
            residual,
            square,
        };
        let square = column_dots(&left, &left);
        let mut sides = [steps(left, square), steps(right, Vec::new())];
        sides[0].direction = sides[0].residual.clone();
        let length = |&n: &f64| if n > 0.0 { 1.0 / n.sqrt() } else { 0.0 };
        Asking {
            answered: 0,
            sides,
            lengths: state.counts.iter().map(length).collect(),
            sums,
            seen,
            covariance,
            d,
        }
    }

    /// The direction of y beside M^-½ s, column by column.
    pub fn question(&self) -> Vec<f64> {
        let [left, right] = &self.sides;
        let mut out = Vec::with_capacity(self.lengths.len() * 2 * self.d);
        for (j, length) in self.lengths.iter().enumerate() {
            out.extend(&left.direction.row(j)[..self.d]);
            out.extend(right.residual.row(j)[..self.d].iter().map(|s| s * length));
        }
        out
    }

    /// A step of both sides, from the answers of all shards added up; whether it was the last.
    pub fn hear(&mut self, told: &mut [Told; 2], answer: &[f64]) -> bool {
        let d = self.d;
        let halves = [0, d].map(|at| {
            let part = answer.chunks_exact(2 * d).flat_map(|row| &row[at..at + d]);
            from_flat(&part.copied().collect::<Vec<_>>(), d)
        });
        let [turned, mut bent] = halves;
        scale_rows(&mut bent, &self.lengths);
        let [left, right] = &mut self.sides;

        // Of rows: turned = PᵀP times the direction.
        let mut bend = turned.clone();
        add_columns(
            &mut bend,
            &left.direction,
            &vec![1.0; turned.width],
            PATTERN_RIDGE[0],
        );
        let step = ratios(&left.square, &column_dots(&left.direction, &bend));
        add_columns(&mut told[0].weights, &left.direction, &step, 1.0);
        add_columns(&mut told[0].product, &turned, &step, 1.0);
        add_columns(&mut left.residual, &bend, &step, -1.0);
        let next = column_dots(&left.residual, &left.residual);
        let kept = ratios(&next, &left.square);
        turn(&mut left.direction, &left.residual, &kept);
        left.square = next;

        // Of columns: bent = K s, and so K times the direction.
        let next = column_dots(&right.residual, &bent);
        let kept = match right.square.is_empty() {
            true => vec![0.0; bent.width],
            false => ratios(&next, &right.square),
        };
        turn(&mut right.direction, &right.residual, &kept);
        turn(&mut right.product, &bent, &kept);
        let mut bend = right.product.clone();
        add_columns(
            &mut bend,
            &right.direction,
            &vec![1.0; bent.width],
            PATTERN_RIDGE[1],
        );
        let step = ratios(&next, &column_dots(&right.product, &bend));
        add_columns(&mut told[1].weights, &right.direction, &step, 1.0);
        add_columns(&mut told[1].product, &right.product, &step, 1.0);
        add_columns(&mut right.residual, &bend, &step, -1.0);
        right.square = next;
        self.answered += 1;
        self.answered == STEPS
    }

    /// Sums over rows and over columns less what the patterns tell, when all is answered.
    pub fn sums(&self, state: &State, told: &[Told; 2], columns: &Rowwise) -> [SideSums; 2] {
        [
            without_pattern(&self.sums, &self.seen, &told[0]),
            column_sums(state, Some(&told[1]), columns, &self.covariance),
        ]
    }

    /// MᵀM of rows.
    pub fn products(&self) -> &Mat<f64> {
        &self.sums.products
    }
}

/// Sums over columns, less what the pattern tells of them.
pub(super) fn column_sums(
    state: &State,
    told: Option<&Told>,
    columns: &Rowwise,
    covariance: &Mat<f64>,
) -> SideSums {
    let (d, used) = (covariance.nrows(), told.map_or(1, |_| POWERS));
    let mut out = SideSums {
        covariance: covariance.clone(),
        powers: Mat::zeros(used, d),
        products: Mat::zeros(d, d),
        gram: Mat::zeros(used, used),
    };
    let mut own = vec![0.0; d];
    for (j, &count) in state.counts.iter().enumerate() {
        if count == 0.0 {
            continue;
        }
        own.copy_from_slice(&columns.row(j)[..d]);
        if let Some(told) = told {
            let pattern = told.product.row(j);
            own.iter_mut().zip(pattern).for_each(|(o, p)| *o -= p);
        }
        let f = state.powers[1].of(count as usize);
        for a in 0..used {
            (0..used).for_each(|b| out.gram[(a, b)] += f[a] * f[b]);
            (0..d).for_each(|b| out.powers[(a, b)] += f[a] * own[b]);
        }
        for b in 0..d {
            (0..d).for_each(|a| out.products[(a, b)] += own[a] * own[b]);
        }
    }
    out
}
