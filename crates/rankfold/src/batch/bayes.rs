//! Variational Bayes: a distribution for each row of both factors, whose means
//! are the model.
//!
//! Every row of L, with its bias, has a normal distribution of its own; so has
//! every row of R. In turn each side is set to what is best given the other
//! [Lim and Teh 2007]: least squares as in ALS, except that the other side counts
//! with its uncertainty, and the penalty is a prior that is learned from the
//! rows, together with the noise. So nothing is left to choose by validation.
//!
//! The mean of the prior of a row may depend on which entries are known in its
//! line: what somebody rated tells of them, whatever the rating was
//! [Koren 2008]. It is a linear function of the pattern, itself learned, and used
//! to learn only: the model is of rank k with biases, like any other.

use super::fitted::Fitted;
use super::normal::Normal;
use super::pass::BLOCK;
use super::rowwise::Rowwise;
use super::solve::{Limits, Observer, Run, Solved};
use super::state::SolverState;
use crate::Result;
use crate::aligned::Aligned;
use crate::kernel::{prefetch, vectorized};
use crate::linalg::symmetric;
use crate::parallel::map_rows;
use crate::random::normal_at;
use crate::sparse::{Lines, View};
use faer::Mat;

/// A model with distributions for its rows.
#[derive(Debug, Clone, Copy)]
pub struct Bayes<'a> {
    /// The known entries.
    pub entries: View<'a>,
    /// k.
    pub rank: usize,
    /// Whether rows and columns have biases; then all entries share a center too.
    pub biases: bool,
    /// Whether the pattern of known entries tells of rows and columns.
    pub implicit: bool,
    /// Of the start.
    pub seed: u64,
    /// Threads; results have the same bits for any number of them.
    pub threads: usize,
}

const NAME: &str = "bayes";

/// Half of what rows have in common with others of the same pattern is explained
/// by it at this weight, as the rows of the pattern have length one.
const PATTERN_RIDGE: f64 = 1.0;

/// Conjugate gradient steps for the pattern in each sweep; they go on where those
/// of the last sweep ended.
const PATTERN_STEPS: usize = 3;

/// Before so many sweeps a still noise is a plateau rather than the end.
const LEAST_SWEEPS: usize = 15;

/// The sweep from which on the pattern counts: before it rows mean little.
const PATTERN_FROM: usize = 3;

/// Where the moments of a row stand: its mean, then the lower triangle of its
/// second moments row by row. In single precision: they are statistics of few
/// entries, and all sums over them are in double.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Numbers of a row: its factors, and its bias at last.
    d: usize,
    biases: bool,
    width: usize,
}

impl Layout {
    fn new(rank: usize, biases: bool) -> Self {
        let d = rank + usize::from(biases);
        Layout {
            d,
            biases,
            width: (d + d * (d + 1) / 2).next_multiple_of(8),
        }
    }

    /// Where the second moment of two parts of a row is.
    fn second(&self, a: usize, b: usize) -> usize {
        let (a, b) = (a.max(b), a.min(b));
        self.d + a * (a + 1) / 2 + b
    }
}

vectorized! {
    /// The sum of the moments of a line, and that of its means times the values.
    fn add_moments<>(sum: &mut [f64], weighted: &mut [f64], line: (&[u32], &[f64]), center: f64, moments: &[f32]) {
        let (width, (index, value)) = (sum.len(), line);
        for (at, (&j, &y)) in index.iter().zip(value).enumerate() {
            if let Some(&later) = index.get(at + 4) {
                prefetch(moments, later as usize * width, width);
            }
            let v = y - center;
            let row = &moments[j as usize * width..][..width];
            let (sums, rest) = sum.as_chunks_mut::<8>();
            let (rows, _) = row.as_chunks::<8>();
            debug_assert!(rest.is_empty());
            for (s, r) in sums.iter_mut().zip(rows) {
                for j in 0..8 {
                    s[j] += f64::from(r[j]);
                }
            }
            for (w, r) in weighted.iter_mut().zip(row) {
                *w += v * f64::from(*r);
            }
        }
    }
}

vectorized! {
    /// The sum of the rows of a line.
    fn add_rows<>(out: &mut [f64], index: &[u32], rows: &[f64]) {
        let width = out.len();
        for &j in index {
            for (o, r) in out.iter_mut().zip(&rows[j as usize * width..][..width]) {
                *o += r;
            }
        }
    }
}

/// One side: what is known of its rows, and their prior.
#[derive(Debug)]
struct Side<'a> {
    lines: Lines<'a>,
    /// The same entries seen from the other side.
    across: Lines<'a>,
    layout: Layout,
    moments: Aligned<f32>,
    /// Prior means, a row each.
    expected: Rowwise,
    /// Prior precision, d×d.
    precision: Mat<f64>,
    /// Posterior covariances, summed over rows that have entries.
    covariance: Mat<f64>,
    /// Rows that have entries.
    seen: usize,
    /// What each place of a pattern adds to the prior mean, and what the patterns
    /// of all rows add.
    weights: Rowwise,
    pattern: Rowwise,
    threads: usize,
}

impl<'a> Side<'a> {
    fn new(lines: Lines<'a>, across: Lines<'a>, layout: Layout, threads: usize) -> Self {
        let d = layout.d;
        let mut moments = Aligned::new();
        let room = moments.grow(lines.len() * layout.width);
        assert!(room, "memory for the moments of {} rows", lines.len());
        let first = |i: usize| match layout.biases && i + 1 == d {
            true => 5.0,
            false => 10.0,
        };
        Side {
            lines,
            across,
            layout,
            moments,
            expected: Rowwise::zero(lines.len(), d),
            precision: Mat::from_fn(d, d, |i, j| if i == j { first(i) } else { 0.0 }),
            covariance: Mat::zeros(d, d),
            seen: (0..lines.len()).filter(|&i| lines.count(i) > 0).count(),
            weights: Rowwise::zero(across.len(), d),
            pattern: Rowwise::zero(lines.len(), d),
            threads,
        }
    }

    /// A random start: small means, hardly uncertain.
    fn start(&mut self, seed: u64) {
        let layout = self.layout;
        let factors = layout.d - usize::from(layout.biases);
        for (i, row) in self.moments.chunks_exact_mut(layout.width).enumerate() {
            for a in 0..factors {
                row[a] = 0.1 * normal_at(seed, 1, i as u64, a as u64) as f32;
            }
            for a in 0..layout.d {
                for b in 0..=a {
                    let own = if a == b { 1e-3 } else { 0.0 };
                    row[layout.second(a, b)] = row[a] * row[b] + own;
                }
            }
        }
    }

    /// Sets the distributions of all rows to what follows from the other side at
    /// noise of precision τ. Returns the squared error of all entries that is
    /// expected then.
    fn update(&mut self, other: &Aligned<f32>, center: f64, scale: f64, tau: f64) -> f64 {
        let (layout, lines) = (self.layout, self.lines);
        let (d, width) = (layout.d, layout.width);
        let (expected, precision) = (&self.expected, &self.precision);
        let pieces = map_rows(
            &mut self.moments,
            width,
            BLOCK,
            self.threads,
            |first, rows| {
                let mut row_update = RowUpdate::new(layout);
                let mut covariance = vec![0.0; d * d];
                let mut error = 0.0;
                for (i, row) in (first..).zip(rows.chunks_exact_mut(width)) {
                    let (index, value) = lines.line(i);
                    row_update.gather((index, value), center, scale, other);
                    let prior = (&expected.row(i)[..d], precision);
                    let (inverse, found) = row_update.solve(index.len(), prior, tau, row);
                    error += found;
                    if !index.is_empty() {
                        for (sum, c) in covariance.iter_mut().zip(&inverse) {
                            *sum += c;
                        }
                    }
                }
                (covariance, error)
            },
        );
        self.covariance = Mat::zeros(d, d);
        let mut total = 0.0;
        for (covariance, error) in pieces {
            self.covariance += Mat::from_fn(d, d, |i, j| covariance[i * d + j]);
            total += error;
        }
        total
    }

    /// The means of all rows.
    fn means(&self) -> Rowwise {
        let (d, width) = (self.layout.d, self.layout.width);
        let mut out = Rowwise::zero(self.lines.len(), d);
        let padded = out.width;
        let rows = self.moments.chunks_exact(width);
        for (to, from) in out.data.chunks_exact_mut(padded).zip(rows) {
            for j in 0..d {
                to[j] = f64::from(from[j]);
            }
        }
        out
    }

    /// The mean of `means` − `less` over rows that have entries.
    fn center(&self, means: &Rowwise, less: &Rowwise) -> Vec<f64> {
        let mut out = vec![0.0; means.width];
        for i in (0..self.lines.len()).filter(|&i| self.lines.count(i) > 0) {
            for ((o, m), l) in out.iter_mut().zip(means.row(i)).zip(less.row(i)) {
                *o += m - l;
            }
        }
        out.iter_mut().for_each(|o| *o /= self.seen.max(1) as f64);
        out
    }

    /// Sets the prior means: what rows have in common, and what their patterns add.
    fn expect(&mut self, means: &Rowwise) {
        let center = self.center(means, &self.pattern);
        let width = means.width;
        for (i, row) in self.expected.data.chunks_exact_mut(width).enumerate() {
            for ((e, c), p) in row.iter_mut().zip(&center).zip(self.pattern.row(i)) {
                *e = c + p;
            }
        }
    }

    /// Adds it to a state. All but the covariance follows from these, and the next sweep
    /// computes that anew.
    fn put(&self, name: &str, implicit: bool, state: SolverState) -> SolverState {
        let (width, count) = (self.layout.width, self.layout.second(self.layout.d, 0));
        let moment = |i, j| f64::from(self.moments[i * width + j]);
        let state = state
            .with_block(&format!("{name}.precision"), self.precision.clone())
            .with_block(
                &format!("{name}.moments"),
                Mat::from_fn(self.lines.len(), count, moment),
            );
        match implicit {
            true => {
                let weights = self.weights.to_mat(self.layout.d);
                state.with_block(&format!("{name}.weights"), weights)
            }
            false => state,
        }
    }

    /// Takes it from a state.
    fn take(&mut self, name: &str, implicit: bool, state: &SolverState) -> Result<()> {
        let (d, width) = (self.layout.d, self.layout.width);
        let (rows, count) = (self.lines.len(), self.layout.second(d, 0));
        let precision = state.block(&format!("{name}.precision"), (d, d))?;
        let moments = state.block(&format!("{name}.moments"), (rows, count))?;
        self.precision = precision.clone();
        for (i, row) in self.moments.chunks_exact_mut(width).enumerate() {
            (0..count).for_each(|j| row[j] = moments[(i, j)] as f32);
        }
        if implicit {
            let weights = state.block(&format!("{name}.weights"), (self.across.len(), d))?;
            self.weights = Rowwise::from_mat(weights);
            self.pattern = self.spread(&self.weights, &self.lengths());
        }
        self.expect(&self.means());
        Ok(())
    }

    /// Learns the prior from the rows as they are.
    fn learn_prior(&mut self, with_pattern: bool) {
        let (d, means) = (self.layout.d, self.means());
        if with_pattern {
            self.learn_pattern(&means);
        }
        self.expect(&means);
        let mut spread = self.covariance.clone();
        for i in (0..self.lines.len()).filter(|&i| self.lines.count(i) > 0) {
            let (m, e) = (means.row(i), self.expected.row(i));
            for a in 0..d {
                for b in 0..d {
                    spread[(a, b)] += (m[a] - e[a]) * (m[b] - e[b]);
                }
            }
        }
        let spread = faer::Scale(1.0 / self.seen.max(1) as f64) * symmetric::part(&spread);
        // Where rows all agree the prior would become certain: it keeps a width.
        let inverse = symmetric::map(&spread, |value| 1.0 / value.max(1e-9));
        if let Some(inverse) = inverse {
            self.precision = symmetric::part(&inverse);
        }
    }

    /// 1/√n for each row.
    fn lengths(&self) -> Vec<f64> {
        let length = |i: usize| 1.0 / (self.lines.count(i).max(1) as f64).sqrt();
        (0..self.lines.len()).map(length).collect()
    }

    /// Sums over lines.
    fn sums(&self, lines: Lines<'_>, rows: &Rowwise) -> Rowwise {
        let mut out = Rowwise::zero(lines.len(), self.layout.d);
        let width = out.width;
        map_rows(&mut out.data, width, BLOCK, self.threads, |first, out| {
            for (i, out) in (first..).zip(out.chunks_exact_mut(width)) {
                add_rows(out, lines.line(i).0, &rows.data);
            }
        });
        out
    }

    /// Z ↦ P Z for the pattern P, whose rows have length one.
    fn spread(&self, z: &Rowwise, lengths: &[f64]) -> Rowwise {
        let mut out = self.sums(self.lines, z);
        scale_rows(&mut out, lengths);
        out
    }

    /// X ↦ Pᵀ X.
    fn collect(&self, mut x: Rowwise, lengths: &[f64]) -> Rowwise {
        scale_rows(&mut x, lengths);
        self.sums(self.across, &x)
    }

    /// A few steps towards the Y of least ‖M − P Y‖² + κ‖Y‖², where M are the
    /// means less their common part; each column is a problem of its own.
    fn learn_pattern(&mut self, means: &Rowwise) {
        let (lengths, width) = (self.lengths(), means.width);
        let center = self.center(means, &self.pattern);
        let mut left = means.clone();
        for row in left.data.chunks_exact_mut(width) {
            for (r, c) in row.iter_mut().zip(&center) {
                *r -= c;
            }
        }
        let normal = |side: &Self, z: &Rowwise| {
            let mut out = side.collect(side.spread(z, &lengths), &lengths);
            for (o, z) in out.data.iter_mut().zip(&z.data[..]) {
                *o += PATTERN_RIDGE * z;
            }
            out
        };
        let mut residual = self.collect(left, &lengths);
        let started = normal(self, &self.weights);
        for (r, s) in residual.data.iter_mut().zip(&started.data[..]) {
            *r -= s;
        }
        let mut direction = residual.clone();
        let mut square = column_dots(&residual, &residual);
        for _ in 0..PATTERN_STEPS {
            let turned = normal(self, &direction);
            let curvature = column_dots(&direction, &turned);
            let step = ratios(&square, &curvature);
            add_columns(&mut self.weights, &direction, &step, 1.0);
            add_columns(&mut residual, &turned, &step, -1.0);
            let next = column_dots(&residual, &residual);
            let kept = ratios(&next, &square);
            for (d, r) in direction
                .data
                .chunks_exact_mut(width)
                .zip(residual.data.chunks_exact(width))
            {
                for ((d, r), k) in d.iter_mut().zip(r).zip(&kept) {
                    *d = r + k * *d;
                }
            }
            square = next;
        }
        self.pattern = self.spread(&self.weights, &lengths);
    }
}

fn scale_rows(rows: &mut Rowwise, scales: &[f64]) {
    let width = rows.width;
    for (row, scale) in rows.data.chunks_exact_mut(width).zip(scales) {
        row.iter_mut().for_each(|r| *r *= scale);
    }
}

fn column_dots(a: &Rowwise, b: &Rowwise) -> Vec<f64> {
    let mut out = vec![0.0; a.width];
    for (a, b) in a
        .data
        .chunks_exact(a.width)
        .zip(b.data.chunks_exact(a.width))
    {
        for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
            *o += a * b;
        }
    }
    out
}

/// a/b, and 0 where b is not above 0.
fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    let pairs = a.iter().zip(b);
    pairs
        .map(|(a, b)| if *b > 0.0 { a / b } else { 0.0 })
        .collect()
}

fn add_columns(to: &mut Rowwise, from: &Rowwise, scales: &[f64], sign: f64) {
    let width = to.width;
    let rows = to.data.chunks_exact_mut(width);
    for (to, from) in rows.zip(from.data.chunks_exact(width)) {
        for ((t, f), s) in to.iter_mut().zip(from).zip(scales) {
            *t += sign * s * f;
        }
    }
}

/// The normal equations of one row.
struct RowUpdate {
    layout: Layout,
    sum: Vec<f64>,
    weighted: Vec<f64>,
    values: f64,
    squares: f64,
    normal: Normal,
}

impl RowUpdate {
    fn new(layout: Layout) -> Self {
        RowUpdate {
            layout,
            sum: vec![0.0; layout.width],
            weighted: vec![0.0; layout.d],
            values: 0.0,
            squares: 0.0,
            normal: Normal::new(crate::kernel::row_width::<f64>(layout.d)),
        }
    }

    fn gather(&mut self, line: (&[u32], &[f64]), center: f64, scale: f64, other: &[f32]) {
        self.sum.fill(0.0);
        self.weighted.fill(0.0);
        add_moments(&mut self.sum, &mut self.weighted, line, center, other);
        self.weighted.iter_mut().for_each(|w| *w *= scale);
        let centered = || line.1.iter().map(|y| (y - center) * scale);
        self.values = centered().sum();
        self.squares = centered().map(|v| v * v).sum();
    }

    /// E[x xᵀ] summed over the line, where x is what multiplies part a or b of
    /// this row: the factors of the other side, and 1 for the bias.
    fn gram(&self, a: usize, b: usize, entries: usize) -> f64 {
        let last = self.layout.d - 1;
        match (
            self.layout.biases && a == last,
            self.layout.biases && b == last,
        ) {
            (false, false) => self.sum[self.layout.second(a, b)],
            (false, true) => self.sum[a],
            (true, false) => self.sum[b],
            (true, true) => entries as f64,
        }
    }

    /// E[(value − bias of the other side) x], summed.
    fn target(&self, a: usize) -> f64 {
        let last = self.layout.d - 1;
        match self.layout.biases {
            false => self.weighted[a],
            true if a == last => self.values - self.sum[last],
            true => self.weighted[a] - self.sum[self.layout.second(last, a)],
        }
    }

    /// Writes the moments of the row. Returns its covariance, and the squared
    /// error of its entries that is expected then.
    fn solve(
        &mut self,
        entries: usize,
        (expected, precision): (&[f64], &Mat<f64>),
        tau: f64,
        row: &mut [f32],
    ) -> (Vec<f64>, f64) {
        let (layout, d) = (self.layout, self.layout.d);
        let width = self.normal.width;
        for a in 0..d {
            for b in a..d {
                self.normal.a[a * width + b] = tau * self.gram(a, b, entries) + precision[(a, b)];
            }
            let prior: f64 = (0..d).map(|b| precision[(a, b)] * expected[b]).sum();
            self.normal.b[a] = tau * self.target(a) + prior;
        }
        if !self.normal.factor(d) {
            // Beyond working precision; the row stays as it was.
            return (vec![0.0; d * d], self.squares);
        }
        self.normal.solve(d);
        let covariance = self.normal.inverse(d);
        let mean = &self.normal.b[..d];
        let last = d - 1;
        let mut error = match layout.biases {
            false => self.squares,
            true => self.squares - 2.0 * self.weighted[last] + self.sum[layout.second(last, last)],
        };
        for a in 0..d {
            row[a] = mean[a] as f32;
            for b in 0..=a {
                let second = covariance[a * d + b] + mean[a] * mean[b];
                row[layout.second(a, b)] = second as f32;
                let twice = if a == b { 1.0 } else { 2.0 };
                error += twice * self.gram(a, b, entries) * second;
            }
            error -= 2.0 * self.target(a) * mean[a];
        }
        (covariance, error.max(0.0))
    }
}

/// The distributions of all rows, after a sweep.
#[derive(Debug)]
pub struct Posterior<'a> {
    left: Side<'a>,
    right: Side<'a>,
    rank: usize,
    biases: bool,
    center: f64,
    spread: f64,
}

impl Posterior<'_> {
    /// The model: the means of all rows.
    pub fn model(&self) -> Fitted {
        let (k, root) = (self.rank, self.spread.sqrt());
        let factor = |side: &Side<'_>| faer::Scale(root) * side.means().to_mat(k);
        let bias = |side: &Side<'_>| {
            let means = side.means();
            (0..side.lines.len())
                .map(|i| self.spread * means.row(i)[k])
                .collect()
        };
        Fitted {
            left: factor(&self.left),
            right: factor(&self.right),
            biases: self.biases.then(|| [bias(&self.left), bias(&self.right)]),
            center: self.center,
        }
    }
}

impl<'a> Bayes<'a> {
    /// Sweeps over both sides, at most so many; it stops earlier when the noise
    /// changes by less than the given share. The cost that the observer sees is the
    /// noise that a sweep found.
    pub fn solve(
        &self,
        sweeps: usize,
        tolerance: f64,
        observer: Observer<'_, Posterior<'a>>,
    ) -> Solved<Fitted> {
        let mut start = self.start();
        start.right.start(self.seed);
        self.run(
            start,
            [1.0, f64::INFINITY],
            None,
            sweeps,
            tolerance,
            observer,
        )
    }

    /// More sweeps from the state of one; an error where it does not fit the entries.
    pub fn resume(
        &self,
        state: &SolverState,
        sweeps: usize,
        tolerance: f64,
        observer: Observer<'_, Posterior<'a>>,
    ) -> Result<Solved<Fitted>> {
        state.check(NAME)?;
        let mut start = self.start();
        start.left.take("left", self.implicit, state)?;
        start.right.take("right", self.implicit, state)?;
        let taus = [state.number("tau")?, state.number("tau_before")?];
        Ok(self.run(start, taus, Some(state), sweeps, tolerance, observer))
    }

    /// Before the first sweep.
    fn start(&self) -> Posterior<'a> {
        let layout = Layout::new(self.rank, self.biases);
        let View { rows, columns, .. } = self.entries;
        let center = if self.biases {
            self.entries.mean()
        } else {
            0.0
        };
        // In units of the spread of the values, so that the start suits any scale.
        let spread = self.entries.mean_square(center).sqrt();
        Posterior {
            left: Side::new(rows, columns, layout, self.threads),
            right: Side::new(columns, rows, layout, self.threads),
            rank: self.rank,
            biases: self.biases,
            center,
            spread: if spread > 0.0 { spread } else { 1.0 },
        }
    }

    fn run(
        &self,
        mut posterior: Posterior<'a>,
        [mut tau, mut before]: [f64; 2],
        state: Option<&SolverState>,
        sweeps: usize,
        tolerance: f64,
        observer: Observer<'_, Posterior<'a>>,
    ) -> Solved<Fitted> {
        let (center, spread) = (posterior.center, posterior.spread);
        let count = self.entries.count.max(1) as f64;
        let limits = Limits {
            iterations: sweeps,
            ..Limits::default()
        };
        let noise = |tau: f64| spread / tau.sqrt();
        let mut run = Run::new(NAME, state, noise(tau), limits, observer);
        let settled = |sweeps: usize, before: f64, tau: f64| {
            let change = ((before / tau).sqrt() - 1.0).abs();
            sweeps >= LEAST_SWEEPS && change < tolerance
        };
        while run.goes_on_unless(settled(run.iterations, before, tau)) {
            let Posterior { left, right, .. } = &mut posterior;
            let pattern = self.implicit && run.iterations + 1 >= PATTERN_FROM;
            left.update(&right.moments, center, 1.0 / spread, tau);
            left.learn_prior(pattern);
            let error = right.update(&left.moments, center, 1.0 / spread, tau);
            before = std::mem::replace(&mut tau, count / error.max(1e-12 * count));
            right.learn_prior(pattern);
            run.moved(&posterior, noise(tau), &|state| {
                let state = posterior.left.put("left", self.implicit, state);
                let state = posterior.right.put("right", self.implicit, state);
                let state = state.with_number("tau", tau);
                state.with_number("tau_before", before)
            });
        }
        run.solved(posterior.model())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Observed, Part};
    use super::*;
    use crate::manifold::tests::matrix;
    use crate::random::splitmix64;

    fn planted(n: usize, m: usize, k: usize, noise: f64) -> (Fitted, Observed) {
        let mut truth = Fitted::empty((n, m), 3.0, true);
        (truth.left, truth.right) = (matrix(n, k, 1), matrix(m, k, 2));
        truth.biases = Some([
            (0..n).map(|i| (i as f64).sin()).collect(),
            (0..m).map(|j| (j as f64).cos()).collect(),
        ]);
        let known = (0..n * m).filter(|&t| splitmix64(t as u64) % 10 < 5);
        let entries = known.map(|t| {
            let (i, j) = (t / m, t % m);
            let value = truth.predict(i, j) + noise * normal_at(3, 0, i as u64, j as u64);
            (i as u32, j as u32, value)
        });
        let (observed, _) = Observed::new((n, m), entries.collect()).unwrap();
        (truth, observed)
    }

    #[test]
    fn planted_models_are_found_with_their_noise() {
        let (n, m, k) = (120, 90, 2);
        let (truth, observed) = planted(n, m, k, 0.1);
        for implicit in [false, true] {
            let bayes = Bayes {
                entries: observed.part(Part::All),
                rank: k,
                biases: true,
                implicit,
                seed: 1,
                threads: 2,
            };
            let mut noise = Vec::new();
            let solved = bayes.solve(60, 0.0, &mut |sweep| {
                noise.push(sweep.cost);
                true
            });
            let found = solved.point;
            let square = (0..n * m)
                .map(|t| (found.predict(t / m, t % m) - truth.predict(t / m, t % m)).powi(2))
                .sum::<f64>();
            let error = (square / (n * m) as f64).sqrt();
            assert!(error < 0.05, "{error}");
            let last = noise.last().unwrap();
            assert!((last - 0.1).abs() < 0.01, "{noise:?}");
        }
    }

    #[test]
    fn results_do_not_depend_on_threads_or_on_the_scale_of_values() {
        let (_, observed) = planted(70, 90, 3, 0.3);
        let fit = |observed: &Observed, threads: usize, biases: bool| {
            let bayes = Bayes {
                entries: observed.part(Part::All),
                rank: 3,
                biases,
                implicit: true,
                seed: 1,
                threads,
            };
            bayes.solve(6, 0.0, &mut |_| true).point
        };
        for biases in [false, true] {
            assert_eq!(fit(&observed, 1, biases), fit(&observed, 3, biases));
        }
        let view = observed.part(Part::All);
        let scaled = (0..70).flat_map(|i| {
            let (index, value) = view.rows.line(i);
            let pairs = index.iter().zip(value);
            pairs.map(move |(&j, &v)| (i as u32, j, 64.0 * v))
        });
        let (larger, _) = Observed::new((70, 90), scaled.collect()).unwrap();
        let (a, b) = (fit(&observed, 1, true), fit(&larger, 1, true));
        let gap = 64.0 * a.predict(3, 4) - b.predict(3, 4);
        assert!(gap.abs() < 1e-3, "{gap}");
    }

    #[test]
    fn degenerate_entries_give_finite_models() {
        let cases: [Vec<(u32, u32, f64)>; 4] = [
            vec![],
            vec![(0, 0, 3.0)],
            (0..12).map(|t| (t / 4, t % 4, 3.0)).collect(),
            (0..12)
                .map(|t| (t / 4, t % 4, 1e150 * f64::from(t)))
                .collect(),
        ];
        for entries in cases {
            let (observed, _) = Observed::new((3, 4), entries).unwrap();
            let bayes = Bayes {
                entries: observed.part(Part::All),
                rank: 3,
                biases: true,
                implicit: true,
                seed: 1,
                threads: 1,
            };
            let solved = bayes.solve(10, 0.0, &mut |_| true);
            assert!(solved.point.is_finite());
        }
    }
}
