//! Where the ranking of labels starts.

use super::choose::Decided;
use super::violation::multilabel_hinge;
use crate::batch::{LabelFit, LabelRidge, Reduced};
use crate::form::{Factored, Form, SparseSum, Tall};
use crate::model::{Prior, Subgradient};
use crate::random::normal_at;
use crate::{Error, Real, Result, Rows, SparseRow, SparseVec};
use faer::{Mat, MatRef};
use hashbrown::HashSet;

/// Steps of a start from zero, at most, as a multiple of the rank.
const MOST_STEPS: usize = 8;

/// Rows looked at for a start from zero, as a multiple of those it needs.
const PATIENCE: usize = 100;

/// Pairs of a feature and a label that are counted, at most.
const MOST_PAIRS: usize = 8_000_000;

/// Gradient steps on the multilabel hinge loss from W = 0, each judged by what
/// those before it have made of W: 2k rows at least, then the best matrix of
/// rank k. `size` is the step, by default as long as a typical row needs to reach
/// its margin.
pub(super) fn from_zero<'a, R: Real>(
    rows: impl Iterator<Item = (SparseRow<'a, R>, &'a [u32])>,
    shape: (usize, usize),
    k: usize,
    bias: &[f64],
    gradient: Subgradient,
    size: Option<f64>,
) -> Result<Form<R>> {
    let mut sum = SparseSum::new();
    let mut wanted = 2 * k;
    let mut scores = Vec::new();
    let (mut mean, mut steps) = (0.0, 0.0);
    for (seen, (row, positives)) in (1..=PATIENCE.saturating_mul(wanted)).zip(rows) {
        scores.clear();
        scores.extend_from_slice(bias);
        sum.add_columns(row, &mut scores);
        let mut right = SparseVec::new();
        multilabel_hinge(&scores, positives, gradient, &mut right);
        let squared = row.squared_norm() * right.as_row().squared_norm();
        if squared > 0.0 {
            steps += 1.0;
            mean += (squared - mean) / steps;
            let mut left = SparseVec::new();
            row.iter().for_each(|(j, v)| left.push(j, v));
            sum.push(left, right, size.unwrap_or(1.0 / mean));
        }
        if seen >= wanted && sum.len() >= k {
            match sum.factored(shape, k)? {
                Some(form) => return Ok(form),
                None if wanted < MOST_STEPS * k => wanted *= 2,
                None => break,
            }
        }
    }
    Err(Error::input(format!(
        "the rows do not span rank {k} from zero: choose a smaller rank or another start"
    )))
}

/// The typical spread of the scores of a row after the closed form: a margin of 1 is a
/// few times that.
const SPREAD: f64 = 0.4;

/// Rows that the spread is measured on.
const SPREAD_ROWS: usize = 500;

/// The length of directions that the closed form does not have, beside the others.
const FILLER: f64 = 1e-3;

/// The closed form of some rows, at a rank.
pub(super) struct Closed {
    fit: LabelFit,
    reduced: Reduced,
    rank: usize,
    unseen: f64,
}

impl Closed {
    /// At the rank that is given, or at the one that was decided, as far as the rows and
    /// labels span it.
    pub fn new(ridge: &LabelRidge, decided: &Decided, given: Option<usize>) -> Result<Self> {
        let fit = decided.fit(ridge);
        let reduced = ridge.reduced(&fit).ok_or_else(too_large)?;
        let spanned = decided.rank.unwrap_or(usize::MAX).min(reduced.rank);
        Ok(Closed {
            rank: given.unwrap_or(spanned.max(1)),
            unseen: ridge.unseen(decided.shape()),
            fit,
            reduced,
        })
    }

    /// The same after logistic regression on its directions, with the rows and labels that
    /// it was made of. `None` where it cannot be.
    pub fn logistic<'a, R: Real>(
        &self,
        ridge: &LabelRidge,
        rows: &Rows<R>,
        labels: impl Fn(usize) -> &'a [u32] + Sync,
        penalty: f64,
        threads: usize,
    ) -> Result<Option<Self>> {
        let k = self.rank.min(self.reduced.rank);
        if k == 0 {
            return Ok(None);
        }
        let found = ridge.logistic(&self.reduced, k, rows, labels, penalty, threads)?;
        Ok(found.map(|(fit, reduced)| Closed {
            fit,
            reduced,
            rank: self.rank,
            unseen: ridge.logit(0.0),
        }))
    }

    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The scores of rows with all labels, a column a row, by their coordinates.
    pub fn scores(&self, ridge: &LabelRidge, coordinates: &Mat<f64>, threads: usize) -> Mat<f64> {
        let k = self.rank.min(self.reduced.rank);
        ridge.scores_of_rank(&self.fit, &self.reduced, k, coordinates, threads)
    }

    /// W, and biases that make up for the means of rows and labels. Directions that the
    /// closed form does not have are random and next to nothing.
    pub fn form<R: Real>(
        &self,
        ridge: &LabelRidge,
        rows: &Rows<R>,
        seed: u64,
        threads: usize,
    ) -> Result<(Form<R>, Prior)> {
        let k = self.rank.min(self.reduced.rank);
        let mut some = rows.select(0..rows.len().min(SPREAD_ROWS));
        some.widen(rows.columns());
        let coordinates = ridge.coordinates(&some, threads)?;
        let scores = self.scores(ridge, &coordinates, threads);
        let scale = match spread(&scores) {
            spread if spread > 0.0 && spread.is_finite() => SPREAD / spread,
            _ => 1.0,
        };
        let left = ridge.to_features(self.reduced.left.subcols(0, k), threads);
        let right = self.reduced.right.subcols(0, k);
        let at_mean = ridge.at_mean(&left);
        let bias = |y: usize| {
            let mean: f64 = (0..k).map(|j| at_mean[j] * right[(y, j)]).sum();
            scale * (self.fit.offset[y] - mean)
        };
        let labels = self.fit.offset.len();
        let prior = Prior {
            bias: (0..labels).map(bias).collect(),
            unseen: scale * self.unseen,
            ..Prior::default()
        };
        let root = scale.sqrt();
        let tall = |side: u64, factor: MatRef<'_, f64>| {
            // As long as the shortest direction there is.
            let least = factor.col_iter().map(|c| c.norm_l2()).reduce(f64::min);
            let filler = FILLER * least.unwrap_or(1.0) / (factor.nrows() as f64).sqrt();
            let tall = Tall::from_fn(factor.nrows(), self.rank, |i, j| match j < k {
                true => root * factor[(i, j)],
                false => root * filler * normal_at(seed, side, i as u64, j as u64),
            })?;
            match tall.is_finite() {
                true => Ok(tall),
                false => Err(too_large()),
            }
        };
        let form = Factored::new(tall(0, left.as_ref())?, tall(1, right)?);
        Ok((Form::Factored(form), prior))
    }
}

fn too_large() -> Error {
    Error::input(
        "the values of the rows are too large or too small for ridge regression: scale them",
    )
}

/// The mean over columns of their standard deviations.
fn spread(scores: &Mat<f64>) -> f64 {
    let labels = scores.nrows() as f64;
    let deviation = |column: faer::ColRef<'_, f64>| {
        let mean = column.iter().sum::<f64>() / labels;
        let squares = column.iter().map(|s| (s - mean).powi(2));
        (squares.sum::<f64>() / labels).sqrt()
    };
    scores.col_iter().map(deviation).sum::<f64>() / scores.ncols() as f64
}

/// Column j of the factors is a feature and a label that go together.
pub(super) fn paired<R: Real>(
    pairs: &[(u32, u32)],
    (features, labels): (usize, usize),
) -> Result<Form<R>> {
    let tall = |rows: usize, of: fn(&(u32, u32)) -> u32| {
        let mut place = vec![usize::MAX; rows];
        for (j, pair) in pairs.iter().enumerate() {
            place[of(pair) as usize] = j;
        }
        Tall::from_fn(rows, pairs.len(), |i, j| f64::from(u8::from(place[i] == j)))
    };
    let (left, right) = (tall(features, |p| p.0)?, tall(labels, |p| p.1)?);
    Ok(Form::Factored(Factored::new(left, right)))
}

/// Independent normal entries of variance 1/k.
pub(super) fn gaussian<R: Real>(
    seed: u64,
    (features, labels): (usize, usize),
    k: usize,
) -> Result<Form<R>> {
    let tall = |side: u64, rows: usize| {
        Tall::from_fn(rows, k, |i, j| {
            normal_at(seed, side, i as u64, j as u64) / (k as f64).sqrt()
        })
    };
    let (left, right) = (tall(0, features)?, tall(1, labels)?);
    Ok(Form::Factored(Factored::new(left, right)))
}

/// The k pairs of a feature and a label that say most about each other, each
/// feature and each label in one pair at most; then the features and labels that
/// are left over, the most frequent first.
pub(super) fn informative_pairs<'a, R: Real>(
    rows: &Rows<R>,
    labelled: impl Iterator<Item = (u32, &'a [u32])> + Clone,
    labels: usize,
    k: usize,
) -> Vec<(u32, u32)> {
    let mut of_feature = vec![0_u64; rows.columns()];
    let mut of_label = vec![0_u64; labels];
    let mut seen = 0_u64;
    let mut together: Vec<u64> = Vec::new();
    for (row, positives) in labelled {
        seen += 1;
        positives.iter().for_each(|&y| of_label[y as usize] += 1);
        let full = together.len() >= MOST_PAIRS;
        for (j, v) in rows.row(row as usize).iter() {
            if v == R::default() {
                continue;
            }
            of_feature[j as usize] += 1;
            if !full {
                let pairs = positives.iter().map(|&y| u64::from(j) << 32 | u64::from(y));
                together.extend(pairs);
            }
        }
    }
    together.sort_unstable();
    let mut gains: Vec<(f64, u32, u32)> = together
        .chunk_by(|a, b| a == b)
        .filter_map(|same| {
            let (j, y) = ((same[0] >> 32) as u32, same[0] as u32);
            let both = same.len() as f64;
            let (n, a, b) = (
                seen as f64,
                of_feature[j as usize] as f64,
                of_label[y as usize] as f64,
            );
            // Only pairs that come together more often than by chance.
            (both * n > a * b).then(|| (mutual_information(n, a, b, both), j, y))
        })
        .collect();
    gains.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let (mut features, mut taken) = (HashSet::new(), HashSet::new());
    let mut out = Vec::with_capacity(k);
    for (_, j, y) in gains {
        if out.len() == k {
            break;
        }
        if !features.contains(&j) && !taken.contains(&y) {
            features.insert(j);
            taken.insert(y);
            out.push((j, y));
        }
    }
    let by_frequency = |counts: &[u64], used: &HashSet<u32>| {
        let mut rest: Vec<u32> = (0..counts.len() as u32)
            .filter(|i| !used.contains(i))
            .collect();
        rest.sort_by_key(|&i| (std::cmp::Reverse(counts[i as usize]), i));
        rest
    };
    let missing = k - out.len();
    let rest = by_frequency(&of_feature, &features);
    let rest = rest.into_iter().zip(by_frequency(&of_label, &taken));
    out.extend(rest.take(missing));
    out
}

/// Mutual information, in nats, of two events that occur a and b times in n
/// rows, and together in `both`.
fn mutual_information(n: f64, a: f64, b: f64, both: f64) -> f64 {
    let term = |joint: f64, x: f64, y: f64| match joint > 0.0 {
        true => joint / n * (joint * n / (x * y)).ln(),
        false => 0.0,
    };
    term(both, a, b)
        + term(a - both, a, n - b)
        + term(b - both, n - a, b)
        + term(n - a - b + both, n - a, n - b)
}

/// The reader of the reference cases.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../tests/all/golden.rs"]
mod golden;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_multilabel_start_from_zero() {
        let case = golden::Golden::read("multilabel");
        let rows = case.matrix("/inputs/x");
        let rows: Vec<_> = rows.iter().map(|x| SparseVec::from_dense(x)).collect();
        let positives: Vec<Vec<u32>> = case
            .matrix("/inputs/positives")
            .iter()
            .map(|labels| {
                let mut labels: Vec<u32> = labels.iter().map(|&y| y as u32).collect();
                labels.sort_unstable();
                labels
            })
            .collect();
        let examples = rows.iter().zip(&positives);
        let examples = examples.map(|(x, y)| (x.as_row(), &y[..]));
        let want = case.matrix("/outputs/W_zero_init");
        let (labels, features) = (want.len(), want[0].len());
        let k = case.number("/params/k") as usize;
        let start = from_zero::<f64>(
            examples,
            (features, labels),
            k,
            &vec![0.0; labels],
            Subgradient::Summed,
            Some(case.number("/params/eta")),
        );
        let Form::Factored(start) = start.unwrap() else {
            panic!("a start of low rank");
        };
        let got = start.to_dense();
        let got: Vec<f64> = (0..labels)
            .flat_map(|y| got.iter().map(move |row| row[y]))
            .collect();
        case.same("W_zero_init", &got, &want.concat());
    }

    #[test]
    fn features_and_labels_that_go_together_are_paired() {
        // Feature 2 names label 1, feature 0 label 0; feature 1 is everywhere.
        let dense: [[f64; 4]; 5] = [
            [1.0, 1.0, 0.0, 0.0],
            [1.0, 1.0, 0.0, 0.0],
            [0.0, 1.0, 1.0, 0.0],
            [0.0, 1.0, 1.0, 0.0],
            [0.0, 1.0, 0.0, 1.0],
        ];
        let rows: Vec<_> = dense.iter().map(|x| SparseVec::from_dense(x)).collect();
        let rows: Rows<f64> = rows.iter().map(SparseVec::as_row).collect();
        let labels: [&[u32]; 5] = [&[0], &[0], &[1], &[1], &[2]];
        let pairs = informative_pairs(&rows, (0..).zip(labels), 4, 4);
        assert_eq!(pairs, [(0, 0), (2, 1), (3, 2), (1, 3)]);
        let Form::Factored(form) = paired::<f64>(&pairs, (4, 4)).unwrap() else {
            panic!("two factors");
        };
        assert_eq!(form.to_dense()[2], [0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn mutual_information_of_known_tables() {
        assert!((mutual_information(4.0, 2.0, 2.0, 2.0) - 2f64.ln()).abs() < 1e-15);
        assert!(mutual_information(4.0, 2.0, 2.0, 1.0).abs() < 1e-15);
    }
}
