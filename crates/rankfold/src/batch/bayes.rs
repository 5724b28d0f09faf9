//! Variational Bayes: a distribution for each row of both factors, whose means
//! are the model.
//!
//! Every row of L, with its bias, has a normal distribution of its own; so has
//! every row of R. In turn each side is set to what is best given the other
//! [Lim and Teh 2007]: least squares as in ALS, except that the other side counts
//! with its uncertainty, and the penalty is a prior that is learned from the
//! rows, together with the noise. So nothing is left to choose by validation.
//!
//! Some rows are noisier than others [Lakshminarayanan et al. 2011]: the entry of
//! row i and column j has the precision τ u_i v_j, where u and v have gamma
//! distributions around 1.
//!
//! The mean of the prior of a row may depend on which entries are known in its
//! line (see [`super::pattern`]). It is used to learn only: the model is of rank k
//! with biases, like any other.
//!
//! Factors that explain nothing can be dropped on the way, so that the rank is
//! learned too: the prior draws them to zero, and they cost time only.

use super::fitted::Fitted;
use super::moments::{
    Gathered, Layout, RowUpdate, Sums, Tiles, random_start, turn_rows, whole_turn,
};
use super::pass::BLOCK;
use super::pattern::Pattern;
use super::rowwise::Rowwise;
use super::solve::{Limits, Observer, Run, Solved};
use super::state::SolverState;
use super::variances::{Sureness, Variances};
use crate::Result;
use crate::aligned::Aligned;
use crate::linalg::symmetric;
use crate::manifold::svd_of_product;
use crate::parallel::{map_blocks, map_rows};
use crate::sparse::{Lines, View};
use faer::Mat;

/// A model with distributions for its rows.
#[derive(Debug, Clone, Copy)]
pub struct Bayes<'a> {
    /// The known entries.
    pub entries: View<'a>,
    /// k, at most.
    pub rank: usize,
    /// Whether factors that explain nothing are dropped.
    pub prune: bool,
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

/// Before so many sweeps a still noise is a plateau rather than the end.
pub(super) const LEAST_SWEEPS: usize = 15;

/// The sweep from which on the pattern counts: before it rows mean little.
pub(super) const PATTERN_FROM: usize = 3;

/// The sweep from which on rows have a noise of their own.
pub(super) const NOISE_FROM: usize = 5;

/// The ridge of what patterns tell of rows, and of columns: half of what rows have in
/// common with others of the same pattern is explained by it at 1. A compromise on
/// held-out ratings: MovieLens 1M would have a little more of both, 100K has not.
pub(super) const PATTERN_RIDGE: [f64; 2] = [1.5, 0.5];

/// Factors are dropped at every so many sweeps, and not before twice as many.
pub(super) const PRUNE_EVERY: usize = 4;

/// One side: what is known of its rows, and their prior.
#[derive(Debug)]
struct Side<'a> {
    lines: Lines<'a>,
    layout: Layout,
    moments: Aligned<f32>,
    /// What the precision of the entries of each row is multiplied by.
    weights: Vec<f32>,
    /// Prior means, a row each.
    expected: Rowwise,
    /// Prior precision, d×d.
    precision: Mat<f64>,
    /// Posterior covariances, summed over rows that have entries.
    covariance: Mat<f64>,
    /// Rows that have entries.
    seen: usize,
    pattern: Pattern<'a>,
    threads: usize,
}

impl<'a> Side<'a> {
    fn new(lines: Lines<'a>, layout: Layout, pattern: Pattern<'a>, threads: usize) -> Self {
        let d = layout.d;
        let mut moments = Aligned::new();
        let room = moments.grow(lines.len() * layout.width);
        assert!(room, "memory for the moments of {} rows", lines.len());
        Side {
            lines,
            layout,
            moments,
            weights: vec![1.0; lines.len()],
            expected: Rowwise::zero(lines.len(), d),
            precision: first_precision(layout),
            covariance: Mat::zeros(d, d),
            seen: (0..lines.len()).filter(|&i| lines.count(i) > 0).count(),
            pattern,
            threads,
        }
    }

    /// A random start: small means, hardly uncertain.
    fn start(&mut self, seed: u64) {
        random_start(&mut self.moments, self.layout, seed);
    }

    /// Sets the distributions of all rows to what follows from the other side at
    /// noise of precision τ, and then their weights where these `vary`. Returns the
    /// weighted squared error of all entries that is expected then.
    fn update(
        &mut self,
        other: &Side<'_>,
        (center, scale): (f64, f64),
        tau: f64,
        vary: bool,
    ) -> f64 {
        let (layout, lines) = (self.layout, self.lines);
        let (d, width) = (layout.d, layout.width);
        let (expected, precision, weights) = (&self.expected, &self.precision, &self.weights);
        let from = Gathered {
            line: (&[], &[]),
            center,
            scale,
            moments: &other.moments,
            weights: &other.weights,
        };
        let tiles = Tiles::new(other.lines.len(), layout);
        let work = |first: usize, rows: &mut [f32]| {
            let mut row_update = RowUpdate::new(layout);
            let together = tiles.lines.min(rows.len() / width);
            let mut sums: Vec<Sums> = (0..together).map(|_| Sums::new(layout)).collect();
            let mut covariance = vec![0.0; d * d];
            let (mut total, mut found_weights) = (0.0, Vec::new());
            let groups = rows.chunks_mut(together * width);
            for (first, rows) in (first..).step_by(together).zip(groups) {
                let sums = &mut sums[..rows.len() / width];
                tiles.gather(sums, lines, first, from);
                for ((i, row), sums) in (first..).zip(rows.chunks_exact_mut(width)).zip(sums) {
                    std::mem::swap(&mut row_update.sums, sums);
                    let prior = (&expected.row(i)[..d], precision);
                    let weight = f64::from(weights[i]);
                    let count = lines.count(i);
                    let entries = vary.then_some(count);
                    let (inverse, error, weight) =
                        row_update.settle(prior, tau, weight, entries, row);
                    found_weights.push(weight as f32);
                    total += weight * error;
                    if count > 0 {
                        for (sum, c) in covariance.iter_mut().zip(&inverse) {
                            *sum += c;
                        }
                    }
                }
            }
            (covariance, total, found_weights)
        };
        let pieces = map_rows(&mut self.moments, width, tiles.block(), self.threads, work);
        self.covariance = Mat::zeros(d, d);
        let mut total = 0.0;
        self.weights.clear();
        for (covariance, error, weights) in pieces {
            self.covariance += Mat::from_fn(d, d, |i, j| covariance[i * d + j]);
            total += error;
            self.weights.extend(weights);
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

    /// Adds it to a state. All but the covariance follows from these, and the next sweep
    /// computes that anew.
    fn put(&self, name: &str, state: SolverState) -> SolverState {
        let (width, count) = (self.layout.width, self.layout.second(self.layout.d, 0));
        let moment = |i, j| f64::from(self.moments[i * width + j]);
        let weights: Vec<f64> = self.weights.iter().map(|w| f64::from(*w)).collect();
        let state = state
            .with_block(&format!("{name}.precision"), self.precision.clone())
            .with_block(
                &format!("{name}.moments"),
                Mat::from_fn(self.lines.len(), count, moment),
            )
            .with_column(&format!("{name}.weights"), &weights);
        self.pattern.put(name, state)
    }

    /// Takes it from a state.
    fn take(&mut self, name: &str, state: &SolverState) -> Result<()> {
        let (d, width) = (self.layout.d, self.layout.width);
        let (rows, count) = (self.lines.len(), self.layout.second(d, 0));
        let precision = state.block(&format!("{name}.precision"), (d, d))?;
        let moments = state.block(&format!("{name}.moments"), (rows, count))?;
        let weights = state.column(&format!("{name}.weights"), rows)?;
        self.precision = precision.clone();
        self.weights = weights.iter().map(|w| *w as f32).collect();
        for (i, row) in self.moments.chunks_exact_mut(width).enumerate() {
            (0..count).for_each(|j| row[j] = moments[(i, j)] as f32);
        }
        self.pattern.take(name, state)?;
        self.expected = self.pattern.expected(&self.means());
        Ok(())
    }

    /// Learns the prior from the rows as they are.
    fn learn_prior(&mut self, with_pattern: bool) {
        let (d, means) = (self.layout.d, self.means());
        if with_pattern {
            self.pattern.learn(&means);
        }
        self.expected = self.pattern.expected(&means);
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
        if let Some(precision) = certain_up_to(&spread) {
            self.precision = precision;
        }
    }

    /// The second moments of what multiplies the other side, for the row of a typical
    /// entry: of the distributions, or of their means alone.
    fn moment(&self, whole: bool) -> Mat<f64> {
        let Layout { d, width, .. } = self.layout;
        let last = self.layout.rank();
        let mut sum = Mat::<f64>::zeros(d, d);
        let mut entries = 0.0;
        for (i, row) in self.moments.chunks_exact(width).enumerate() {
            let count = self.lines.count(i) as f64;
            entries += count;
            for a in 0..d {
                for b in 0..=a {
                    let value = match (a == last, b == last) {
                        (true, true) => 1.0,
                        (true, false) => row[b],
                        _ if whole => row[self.layout.second(a, b)],
                        _ => row[a] * row[b],
                    };
                    sum[(a, b)] += count * f64::from(value);
                }
            }
        }
        let scale = if entries > 0.0 { 1.0 / entries } else { 0.0 };
        Mat::from_fn(d, d, |i, j| scale * sum[(i.max(j), i.min(j))])
    }

    /// The variances of predictions, given the moments of the other side and of this.
    fn variances(&self, other: &Mat<f64>, own: &Mat<f64>, spread: f64) -> Variances {
        let Layout { d, width, .. } = self.layout;
        let pairs = || (0..d).flat_map(|a| (0..d).map(move |b| (a, b)));
        let square = spread * spread;
        let line = |row: &[f32]| {
            let covariance = |a: usize, b: usize| {
                f64::from(row[self.layout.second(a, b)]) - f64::from(row[a]) * f64::from(row[b])
            };
            let sum: f64 = pairs().map(|(a, b)| covariance(a, b) * other[(a, b)]).sum();
            square * sum.max(0.0)
        };
        // Of a line of which nothing is known the bias is missing too.
        let last = self.layout.rank();
        let bias: f64 = match self.layout.biases {
            true => {
                let rows = self.moments.chunks_exact(width);
                let squares = rows.map(|row| f64::from(row[self.layout.second(last, last)]));
                squares.sum::<f64>() / self.lines.len().max(1) as f64
            }
            false => 0.0,
        };
        let factors = pairs().filter(|&(a, b)| a < last && b < last);
        let factors: f64 = factors.map(|(a, b)| own[(a, b)] * other[(a, b)]).sum();
        Variances {
            line: self.moments.chunks_exact(width).map(line).collect(),
            noise: self.weights.iter().map(|w| 1.0 / f64::from(*w)).collect(),
            unknown: square * (factors + bias).max(0.0),
        }
    }

    /// The same rows with their factors times T, k×k'.
    fn turned(&self, t: &Mat<f64>) -> Side<'a> {
        let layout = Layout::new(t.ncols(), self.layout.biases);
        let whole = whole_turn(t, self.layout, layout);
        let pattern = self.pattern.turned(&whole);
        let mut out = Side::new(self.lines, layout, pattern, self.threads);
        out.weights.clone_from(&self.weights);
        turn_rows(&mut out.moments, layout, &self.moments, self.layout, &whole);
        out.expected = out.pattern.expected(&out.means());
        if let Some(precision) = turned_precision(&self.precision, &whole) {
            out.precision = precision;
        }
        out
    }
}

/// The precision of rows times a small matrix.
pub(super) fn turned_precision(precision: &Mat<f64>, whole: &Mat<f64>) -> Option<Mat<f64>> {
    let spread = certain_up_to(precision)?;
    certain_up_to(&symmetric::part(&(whole.transpose() * spread * whole)))
}

/// The precision of a prior before anything was learned.
pub(super) fn first_precision(layout: Layout) -> Mat<f64> {
    let d = layout.d;
    let first = |i: usize| match layout.biases && i + 1 == d {
        true => 5.0,
        false => 10.0,
    };
    Mat::from_fn(d, d, |i, j| if i == j { first(i) } else { 0.0 })
}

/// The inverse of a covariance. Where rows all agree the prior would become certain: it
/// keeps a width.
pub(super) fn certain_up_to(spread: &Mat<f64>) -> Option<Mat<f64>> {
    let inverse = symmetric::map(spread, |value| 1.0 / value.max(1e-9));
    inverse.map(|inverse| symmetric::part(&inverse))
}

/// The distributions of all rows, after a sweep.
#[derive(Debug)]
pub struct Posterior<'a> {
    left: Side<'a>,
    right: Side<'a>,
    center: f64,
    spread: f64,
    /// The precision of entries, in units of their spread, and that of the sweep before.
    tau: f64,
    before: f64,
}

impl Posterior<'_> {
    /// k.
    pub fn rank(&self) -> usize {
        self.left.layout.rank()
    }

    /// The root mean square of the noise of entries.
    pub fn noise(&self) -> f64 {
        self.spread / self.tau.sqrt()
    }

    /// The model: the means of all rows.
    pub fn model(&self) -> Fitted {
        let (k, root) = (self.rank(), self.spread.sqrt());
        let factor = |side: &Side<'_>| faer::Scale(root) * side.means().to_mat(k);
        let bias = |side: &Side<'_>| {
            let means = side.means();
            (0..side.lines.len())
                .map(|i| self.spread * means.row(i)[k])
                .collect()
        };
        let biases = self.left.layout.biases;
        Fitted {
            left: factor(&self.left),
            right: factor(&self.right),
            biases: biases.then(|| [bias(&self.left), bias(&self.right)]),
            center: self.center,
        }
    }

    /// How sure the model is of entries that it has not seen.
    pub fn sureness(&self) -> Sureness {
        let (left, right) = (self.left.moment(true), self.right.moment(true));
        let sides = [
            self.left.variances(&right, &left, self.spread),
            self.right
                .variances(&self.left.moment(false), &right, self.spread),
        ];
        let scale = self.scale(&sides);
        Sureness { sides, scale }
    }

    /// The factor at which errors are as large as their variances say, in the mean.
    /// Known entries were learned from: without entry t its error would be e / (1 − h)
    /// and its variance σ² / (1 − h), where h is the share of the noise that is not
    /// known of its lines.
    fn scale(&self, [users, items]: &[Variances; 2]) -> f64 {
        let (left, right) = (self.left.lines, &self.right);
        let (d, k, noise) = (self.left.layout.d, self.rank(), self.noise().powi(2));
        let pieces = map_blocks(left.len(), BLOCK, self.left.threads, |rows| {
            let (mut sum, mut count) = (0.0, 0usize);
            for i in rows {
                let (index, value) = left.line(i);
                let l = &self.left.moments[i * self.left.layout.width..][..d];
                for (&j, &y) in index.iter().zip(value) {
                    let j = j as usize;
                    let r = &right.moments[j * right.layout.width..][..d];
                    let factors: f32 = l[..k].iter().zip(&r[..k]).map(|(l, r)| l * r).sum();
                    let biases = if d > k { l[k] + r[k] } else { 0.0 };
                    let found = self.center + self.spread * f64::from(factors + biases);
                    let own = noise * users.noise[i] * items.noise[j];
                    let share = ((users.line[i] + items.line[j]) / own.max(f64::MIN_POSITIVE))
                        .min(MOST_SHARE);
                    sum += (y - found).powi(2) / (own * (1.0 - share)).max(f64::MIN_POSITIVE);
                    count += 1;
                }
            }
            (sum, count)
        });
        let count: usize = pieces.iter().map(|p| p.1).sum();
        let scale = pieces.iter().map(|p| p.0).sum::<f64>() / count.max(1) as f64;
        if scale.is_finite() && scale > 0.0 {
            scale
        } else {
            1.0
        }
    }

    /// Drops the factors of W, in the order of its singular values, whose mean square is
    /// below the given share of that of the noise.
    fn prune(&mut self, share: f64) {
        let k = self.rank();
        let (left, right) = (self.left.means().to_mat(k), self.right.means().to_mat(k));
        let Some((p, sigma, q)) = svd_of_product(&left, &right, k) else {
            return;
        };
        let places = (self.left.seen * self.right.seen).max(1) as f64;
        let least = share / self.tau.min(PRUNE_NOISE);
        let kept = sigma.iter().filter(|&&s| s * s > least * places).count();
        // Without biases something must be left.
        let kept = kept.max(usize::from(!self.left.layout.biases));
        if kept >= k {
            return;
        }
        let root = |m: Mat<f64>| Mat::from_fn(k, kept, |i, j| m[(i, j)] / sigma[j].sqrt());
        let maps = [
            root(right.transpose() * q.subcols(0, kept)),
            root(left.transpose() * p.subcols(0, kept)),
        ];
        if maps.iter().all(|map| map.is_all_finite()) {
            self.left = self.left.turned(&maps[0]);
            self.right = self.right.turned(&maps[1]);
        }
    }
}

/// An entry is never taken for that of a line by itself to more than this share.
const MOST_SHARE: f64 = 0.9;

/// Factors below this share of the noise are dropped. On held-out ratings of MovieLens
/// 100K ten times as much costs .001.
pub(super) const PRUNE_SHARE: f64 = 3e-6;

/// The precision, in units of the spread of entries, beyond which noise is none.
pub(super) const PRUNE_NOISE: f64 = 1e6;

impl<'a> Bayes<'a> {
    /// Sweeps over both sides, at most so many; it stops earlier when the noise
    /// changes by less than the given share. The cost that the observer sees is the
    /// noise that a sweep found.
    pub fn solve(
        &self,
        sweeps: usize,
        tolerance: f64,
        observer: Observer<'_, Posterior<'a>>,
    ) -> Solved<Posterior<'a>> {
        let mut start = self.start(self.rank);
        start.right.start(self.seed);
        self.run(start, None, sweeps, tolerance, observer)
    }

    /// More sweeps from the state of one; an error where it does not fit the entries.
    pub fn resume(
        &self,
        state: &SolverState,
        sweeps: usize,
        tolerance: f64,
        observer: Observer<'_, Posterior<'a>>,
    ) -> Result<Solved<Posterior<'a>>> {
        state.check(NAME)?;
        let factors = state.number("factors")?;
        let rank = (0..=self.rank).find(|&k| k as f64 == factors);
        let rank = rank.ok_or_else(|| crate::Error::input("the state has another rank"))?;
        let mut start = self.start(rank);
        start.left.take("left", state)?;
        start.right.take("right", state)?;
        (start.tau, start.before) = (state.number("tau")?, state.number("tau_before")?);
        Ok(self.run(start, Some(state), sweeps, tolerance, observer))
    }

    /// Before the first sweep.
    fn start(&self, rank: usize) -> Posterior<'a> {
        let layout = Layout::new(rank, self.biases);
        let View { rows, columns, .. } = self.entries;
        let center = if self.biases {
            self.entries.mean()
        } else {
            0.0
        };
        // In units of the spread of the values, so that the start suits any scale.
        let spread = self.entries.mean_square(center).sqrt();
        let side = |lines: Lines<'a>, across: Lines<'a>, ridge: f64| {
            let ridge = self.implicit.then_some(ridge);
            let pattern = Pattern::new(lines, across, layout.d, ridge, self.threads);
            Side::new(lines, layout, pattern, self.threads)
        };
        Posterior {
            left: side(rows, columns, PATTERN_RIDGE[0]),
            right: side(columns, rows, PATTERN_RIDGE[1]),
            center,
            spread: if spread > 0.0 { spread } else { 1.0 },
            tau: 1.0,
            before: f64::INFINITY,
        }
    }

    fn run(
        &self,
        mut at: Posterior<'a>,
        state: Option<&SolverState>,
        sweeps: usize,
        tolerance: f64,
        observer: Observer<'_, Posterior<'a>>,
    ) -> Solved<Posterior<'a>> {
        let units = (at.center, 1.0 / at.spread);
        let count = self.entries.count.max(1) as f64;
        let limits = Limits {
            iterations: sweeps,
            ..Limits::default()
        };
        let mut run = Run::new(NAME, state, at.noise(), limits, observer);
        let settled = |sweeps: usize, at: &Posterior<'_>| {
            let change = ((at.before / at.tau).sqrt() - 1.0).abs();
            sweeps >= LEAST_SWEEPS && change < tolerance
        };
        while run.goes_on_unless(settled(run.iterations, &at)) {
            let sweep = run.iterations + 1;
            let (pattern, vary) = (sweep >= PATTERN_FROM, sweep >= NOISE_FROM);
            let Posterior {
                left, right, tau, ..
            } = &mut at;
            left.update(right, units, *tau, vary);
            left.learn_prior(pattern);
            let error = right.update(left, units, *tau, vary);
            right.learn_prior(pattern);
            at.before = std::mem::replace(tau, count / error.max(1e-12 * count));
            if self.prune && sweep >= 2 * PRUNE_EVERY && sweep.is_multiple_of(PRUNE_EVERY) {
                at.prune(PRUNE_SHARE);
            }
            run.moved(&at, at.noise(), &|state| {
                let state = at.right.put("right", at.left.put("left", state));
                state
                    .with_number("factors", at.rank() as f64)
                    .with_number("tau", at.tau)
                    .with_number("tau_before", at.before)
            });
        }
        run.solved(at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::moments::NOISE_SHAPE;
    use super::super::{Observed, Part};
    use super::*;
    use crate::manifold::tests::matrix;
    use crate::random::{normal_at, splitmix64};

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
                prune: false,
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
            let found = solved.point.model();
            let square = (0..n * m)
                .map(|t| (found.predict(t / m, t % m) - truth.predict(t / m, t % m)).powi(2))
                .sum::<f64>();
            let error = (square / (n * m) as f64).sqrt();
            assert!(error < 0.05, "{error}");
            let last = noise.last().unwrap();
            assert!((last - 0.1).abs() < 0.01, "{noise:?}");
        }
    }

    fn bayes(entries: View<'_>, rank: usize, prune: bool) -> Bayes<'_> {
        Bayes {
            entries,
            rank,
            prune,
            biases: true,
            implicit: true,
            seed: 1,
            threads: 2,
        }
    }

    /// The update of a row as its formula has it: all second moments of what multiplies
    /// the row are written out, and the equations are inverted.
    #[test]
    fn rows_are_set_to_what_the_formula_says() {
        let (_, observed) = planted(9, 7, 2, 0.3);
        let view = observed.part(Part::All);
        let solved = bayes(view, 2, false).solve(6, 0.0, &mut |_| true);
        let Posterior {
            mut left,
            right,
            center,
            spread,
            tau,
            ..
        } = solved.point;
        let (d, layout) = (3, left.layout);
        let before: Vec<f64> = left.weights.iter().map(|w| f64::from(*w)).collect();
        left.update(&right, (center, 1.0 / spread), tau, true);
        for i in 0..9 {
            let prior = &left.precision;
            let mut a = prior.clone();
            let mut b = Mat::from_fn(d, 1, |p, _| {
                (0..d)
                    .map(|q| prior[(p, q)] * left.expected.row(i)[q])
                    .sum::<f64>()
            });
            let (index, value) = view.rows.line(i);
            let entry = |j: usize| {
                let row = &right.moments[j * layout.width..][..layout.width];
                let second = |p: usize, q: usize| f64::from(row[layout.second(p, q)]);
                let mean = |p: usize| if p == 2 { 1.0 } else { f64::from(row[p]) };
                // Of (r, 1), and of (r, 1) times the bias.
                let square = Mat::from_fn(d, d, |p, q| match (p == 2, q == 2) {
                    (false, false) => second(p, q),
                    _ => mean(p) * mean(q),
                });
                let bias = Mat::from_fn(d, 1, |p, _| match p == 2 {
                    true => f64::from(row[2]),
                    false => second(p, 2),
                });
                let first = Mat::from_fn(d, 1, |p, _| mean(p));
                (square, bias, first, second(2, 2))
            };
            let weight = |j: usize| f64::from(right.weights[j]);
            for (&j, &y) in index.iter().zip(value) {
                let (square, bias, first, _) = entry(j as usize);
                let own = tau * before[i] * weight(j as usize);
                a += faer::Scale(own) * square;
                b += faer::Scale(own) * (faer::Scale((y - center) / spread) * first - bias);
            }
            let covariance = symmetric::map(&a, |v| 1.0 / v).unwrap();
            let mean = &covariance * b;
            let second = &covariance + &mean * mean.transpose();
            let row = &left.moments[i * layout.width..][..layout.width];
            let near =
                |got: f32, want: f64| (f64::from(got) - want).abs() < 1e-4 * (1.0 + want.abs());
            let mut error = 0.0;
            for p in 0..d {
                assert!(
                    near(row[p], mean[(p, 0)]),
                    "{i} {p}: {} {}",
                    row[p],
                    mean[(p, 0)]
                );
                for q in 0..=p {
                    assert!(near(row[layout.second(p, q)], second[(p, q)]));
                }
            }
            for (&j, &y) in index.iter().zip(value) {
                let (square, bias, first, bias_square) = entry(j as usize);
                let v = (y - center) / spread;
                let left_on = |m: &Mat<f64>| (mean.transpose() * m)[(0, 0)];
                let products: f64 = (0..d)
                    .flat_map(|p| (0..d).map(move |q| (p, q)))
                    .map(|(p, q)| second[(p, q)] * square[(p, q)])
                    .sum();
                let right_bias = bias[(2, 0)];
                let expected = v * v - 2.0 * v * (left_on(&first) + right_bias)
                    + products
                    + bias_square
                    + 2.0 * left_on(&bias);
                error += weight(j as usize) * expected;
            }
            let want = (NOISE_SHAPE + 0.5 * index.len() as f64) / (NOISE_SHAPE + 0.5 * tau * error);
            assert!(
                near(left.weights[i], want),
                "{i}: {} {want}",
                left.weights[i]
            );
        }
    }

    #[test]
    fn factors_that_explain_nothing_are_dropped() {
        for k in [0, 1, 3] {
            let (truth, observed) = planted(150, 120, k, 0.3);
            let solved = bayes(observed.part(Part::All), 12, true).solve(30, 0.0, &mut |_| true);
            // The shadow of one more may be left.
            let rank = solved.point.rank();
            assert!((k..=k + 1).contains(&rank), "{k}: {rank}");
            let found = solved.point.model();
            let gap = |t: usize| found.predict(t / 120, t % 120) - truth.predict(t / 120, t % 120);
            let square: f64 = (0..150 * 120).map(|t| gap(t).powi(2)).sum();
            let error = (square / (150.0 * 120.0)).sqrt();
            assert!(error < 0.12, "{k}: {error}");
        }
    }

    #[test]
    fn noise_and_doubt_are_found_where_they_are() {
        let (n, m) = (200, 80);
        let (truth, observed) = planted(n, m, 2, 0.0);
        // The last rows are noisier, and every third row has few entries.
        let size = |i: usize| if i < 150 { 0.4 } else { 0.6 };
        let noisy = |i: usize, j: usize| {
            truth.predict(i, j) + size(i) * normal_at(9, 0, i as u64, j as u64)
        };
        let known = observed.part(Part::All).rows;
        let entries = (0..n).flat_map(|i| {
            let kept = if i % 3 == 0 { 8 } else { 80 };
            let (index, _) = known.line(i);
            index.iter().take(kept).map(move |&j| (i, j))
        });
        let entries = entries.map(|(i, j)| (i as u32, j, noisy(i, j as usize)));
        let (seen, _) = Observed::new((n, m), entries.collect()).unwrap();
        let solved = bayes(seen.part(Part::All), 6, true).solve(30, 0.0, &mut |_| true);
        let (model, sure) = (solved.point.model(), solved.point.sureness());
        let [rows, columns] = &sure.sides;
        let noise = solved.point.noise().powi(2);
        // Entries that were not seen, among quiet and noisy rows, known well or not.
        let mut ratios = Vec::new();
        for group in 0..4 {
            let (mut sum, mut count) = (0.0, 0);
            for i in
                (0..n).filter(|&i| usize::from(i >= 150) + 2 * usize::from(i % 3 == 0) == group)
            {
                let (index, _) = seen.part(Part::All).rows.line(i);
                for j in (0..m).filter(|&j| !index.contains(&(j as u32))) {
                    let own =
                        rows.line[i] + columns.line[j] + noise * rows.noise[i] * columns.noise[j];
                    sum += (noisy(i, j) - model.predict(i, j)).powi(2) / (sure.scale * own);
                    count += 1;
                }
            }
            ratios.push(sum / f64::from(count));
        }
        // The prior of weights keeps them near each other.
        let held = ratios.iter().all(|r| (0.5..2.0).contains(r));
        assert!(held, "{ratios:?}");
        assert!(rows.noise[151] > rows.noise[1], "{:?}", rows.noise);
        assert!(rows.unknown > rows.line[1] && rows.line[0] > rows.line[1]);
    }

    #[test]
    fn results_do_not_depend_on_threads_or_on_the_scale_of_values() {
        let (_, observed) = planted(70, 90, 3, 0.3);
        let fit = |observed: &Observed, threads: usize, biases: bool| {
            let bayes = Bayes {
                entries: observed.part(Part::All),
                rank: 3,
                prune: false,
                biases,
                implicit: true,
                seed: 1,
                threads,
            };
            bayes.solve(6, 0.0, &mut |_| true).point.model()
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
                prune: false,
                biases: true,
                implicit: true,
                seed: 1,
                threads: 1,
            };
            let solved = bayes.solve(10, 0.0, &mut |_| true);
            assert!(solved.point.model().is_finite());
        }
    }
}
