//! The metrics themselves, written as they are defined.
//!
//! The two ranking metrics sort all candidates. [`retrieval`](super::retrieval())
//! gets the same numbers without the sort and is tested against these.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Mean, over the positions r that hold a positive, of the share of positives
/// among the first r candidates.
///
/// Candidates stand by falling score, negatives before positives of the same
/// score, NaN last. The result is NaN without a positive.
#[track_caller]
pub fn average_precision(scores: &[f64], relevant: &[bool]) -> f64 {
    let (mut hits, mut sum) = (0.0, 0.0);
    for (position, hit) in ranking(scores, relevant).into_iter().enumerate() {
        if hit {
            hits += 1.0;
            sum += hits / (position + 1) as f64;
        }
    }
    sum / hits
}

/// The same where few of many candidates are relevant and listed by number, each once:
/// without sorting all of them.
pub fn average_precision_listed(scores: &[f64], relevant: &[u32]) -> f64 {
    let mut wanted: Vec<f64> = relevant.iter().map(|&j| scores[j as usize]).collect();
    wanted.sort_by(|a, b| b.total_cmp(a));
    // How many candidates score at least as much as the i-th, and more than none before it.
    let mut at_least = vec![0usize; wanted.len() + 1];
    for score in scores {
        at_least[wanted.partition_point(|w| w > score)] += 1;
    }
    let (mut above, mut sum) = (0, 0.0);
    for (i, score) in wanted.iter().enumerate() {
        above += at_least[i];
        let relevant = wanted.partition_point(|w| w >= score);
        sum += (i + 1) as f64 / (i + 1 + above.saturating_sub(relevant)) as f64;
    }
    sum / wanted.len() as f64
}

/// The positives among the first `k` candidates, divided by `k`, in the order
/// of [`average_precision`].
#[track_caller]
pub fn precision_at(k: usize, scores: &[f64], relevant: &[bool]) -> f64 {
    assert!(k > 0, "precision needs at least one place");
    let ranking = ranking(scores, relevant);
    let hits = ranking.into_iter().take(k).filter(|&hit| hit).count();
    hits as f64 / k as f64
}

/// Which places hold a positive, best place first.
#[track_caller]
fn ranking(scores: &[f64], relevant: &[bool]) -> Vec<bool> {
    assert_same_length(scores.len(), relevant.len());
    let mut candidates: Vec<(f64, bool)> = scores
        .iter()
        .copied()
        .zip(relevant.iter().copied())
        .collect();
    candidates.sort_by(|&(a, a_hit), &(b, b_hit)| {
        let falling = b.partial_cmp(&a).unwrap_or(Ordering::Equal);
        let numbers_first = a.is_nan().cmp(&b.is_nan());
        numbers_first.then(falling).then(a_hit.cmp(&b_hit))
    });
    candidates.into_iter().map(|(_, hit)| hit).collect()
}

/// Root of the mean squared error.
#[track_caller]
pub fn rmse(predictions: &[f64], targets: &[f64]) -> f64 {
    mean_error(predictions, targets, |error| error * error).sqrt()
}

/// Mean absolute error.
#[track_caller]
pub fn mae(predictions: &[f64], targets: &[f64]) -> f64 {
    mean_error(predictions, targets, f64::abs)
}

/// Mean squared error divided by the population variance of the targets: 1 is
/// what their mean, as a prediction, would get.
#[track_caller]
pub fn nmse(predictions: &[f64], targets: &[f64]) -> f64 {
    let mean = targets.iter().sum::<f64>() / targets.len() as f64;
    let variance =
        targets.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / targets.len() as f64;
    mean_error(predictions, targets, |error| error * error) / variance
}

#[track_caller]
fn mean_error(predictions: &[f64], targets: &[f64], size: impl Fn(f64) -> f64) -> f64 {
    assert_same_length(predictions.len(), targets.len());
    let errors = predictions.iter().zip(targets).map(|(p, y)| size(p - y));
    errors.sum::<f64>() / targets.len() as f64
}

/// Normalized mutual information of two partitions, 2 I(C;T) / (H(C) + H(T)):
/// from 0, independent, to 1, the same up to names.
///
/// Two partitions into one part each are the same: 1.
#[track_caller]
pub fn nmi(clusters: &[u32], labels: &[u32]) -> f64 {
    assert_same_length(clusters.len(), labels.len());
    if clusters.is_empty() {
        return f64::NAN;
    }
    let both = entropy(clusters.iter().zip(labels));
    let (c, t) = (entropy(clusters), entropy(labels));
    if c + t == 0.0 {
        return 1.0;
    }
    // I(C;T) = H(C) + H(T) − H(C,T), which rounding can leave below 0.
    2.0 * (c + t - both).max(0.0) / (c + t)
}

/// Entropy of the observed values, in nats.
fn entropy<T: Ord>(values: impl IntoIterator<Item = T>) -> f64 {
    let mut counts = BTreeMap::new();
    let mut total = 0.0;
    for value in values {
        *counts.entry(value).or_insert(0.0) += 1.0;
        total += 1.0;
    }
    counts
        .values()
        .map(|count: &f64| -count / total * (count / total).ln())
        .sum()
}

/// Dense points with a label each.
#[derive(Debug, Clone, Copy)]
pub struct Points<'a> {
    /// One point after the other.
    pub coordinates: &'a [f64],
    /// Coordinates of one point.
    pub dimension: usize,
    /// One label a point.
    pub labels: &'a [u32],
}

impl<'a> Points<'a> {
    #[track_caller]
    fn iter(self) -> impl Iterator<Item = (&'a [f64], u32)> {
        assert!(self.dimension > 0, "points need at least one coordinate");
        assert_same_length(self.coordinates.len(), self.labels.len() * self.dimension);
        let points = self.coordinates.chunks_exact(self.dimension);
        points.zip(self.labels.iter().copied())
    }
}

/// The share of test points whose label is not the most frequent one among
/// their `k` nearest training points.
///
/// Distances are Euclidean: for ‖Gᵀ(x − x')‖ give the projected points Gᵀx.
/// Equally frequent labels: the smallest wins. Equally near points: the first.
#[track_caller]
pub fn knn_error(k: usize, train: Points<'_>, test: Points<'_>) -> f64 {
    assert!(k > 0, "the vote needs at least one neighbor");
    assert_eq!(train.dimension, test.dimension, "dimensions differ");
    let train: Vec<(&[f64], u32)> = train.iter().collect();
    let mut nearest: Vec<(f64, usize)> = Vec::with_capacity(train.len());
    let mut wrong = 0;
    for (point, label) in test.iter() {
        nearest.clear();
        nearest.extend(train.iter().enumerate().map(|(i, (other, _))| {
            let squares = point.iter().zip(*other).map(|(a, b)| (a - b) * (a - b));
            // A distance that is not a number is as far as can be.
            (squares.sum::<f64>().min(f64::INFINITY), i)
        }));
        if k < nearest.len() {
            nearest.select_nth_unstable_by(k - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            nearest.truncate(k);
        }
        let mut votes = BTreeMap::new();
        for &(_, i) in &nearest {
            *votes.entry(train[i].1).or_insert(0) += 1;
        }
        // The last of several maxima wins, so the smallest label must come last.
        let winner = votes.iter().rev().max_by_key(|&(_, &votes)| votes);
        wrong += usize::from(winner.is_none_or(|(&winner, _)| winner != label));
    }
    wrong as f64 / test.labels.len() as f64
}

#[track_caller]
fn assert_same_length(left: usize, right: usize) {
    assert_eq!(left, right, "lengths differ");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_precision_is_that_of_sorting() {
        let mut random = crate::random::Random::new(1, 2);
        for n in [1, 2, 7, 40] {
            for levels in [1, 3, 1000] {
                let scores: Vec<f64> = (0..n).map(|_| random.below(levels) as f64).collect();
                let relevant: Vec<bool> = (0..n).map(|_| random.below(3) == 0).collect();
                let listed: Vec<u32> = (0..n as u32).filter(|&j| relevant[j as usize]).collect();
                if !listed.is_empty() {
                    let want = average_precision(&scores, &relevant);
                    let got = average_precision_listed(&scores, &listed);
                    assert!((got - want).abs() < 1e-15, "{got} {want}");
                }
            }
        }
    }

    #[test]
    fn ties_count_against_the_positive_and_nan_ranks_last() {
        let scores = [1.0, 1.0, f64::NAN, f64::NEG_INFINITY];
        let relevant = [true, false, false, true];
        // Negative, positive, positive at −∞, negative at NaN.
        let want = (1.0 / 2.0 + 2.0 / 3.0) / 2.0;
        assert_eq!(average_precision(&scores, &relevant), want);
        assert_eq!(precision_at(1, &scores, &relevant), 0.0);
        assert_eq!(precision_at(10, &scores, &relevant), 0.2);
        assert_eq!(average_precision(&[-0.0, 0.0], &[false, true]), 0.5);
        assert_eq!(average_precision(&[f64::NAN; 2], &[true, false]), 0.5);
    }

    #[test]
    fn a_metric_over_nothing_is_nan() {
        assert!(average_precision(&[1.0], &[false]).is_nan());
        assert!(rmse(&[], &[]).is_nan() && mae(&[], &[]).is_nan() && nmse(&[], &[]).is_nan());
        assert!(nmi(&[], &[]).is_nan());
    }

    #[test]
    fn errors_of_a_small_example() {
        let (predictions, targets) = ([1.0, 2.0, 5.0], [1.0, 4.0, 4.0]);
        assert_eq!(rmse(&predictions, &targets), (5.0_f64 / 3.0).sqrt());
        assert_eq!(mae(&predictions, &targets), 1.0);
        let of_the_mean = nmse(&[3.0; 3], &targets);
        assert!((of_the_mean - 1.0).abs() < 1e-15);
    }

    #[test]
    fn nmi_ignores_names_and_knows_independence() {
        assert!((nmi(&[0, 0, 1, 2], &[5, 5, 9, 7]) - 1.0).abs() < 1e-15);
        assert!(nmi(&[0, 0, 1, 1], &[0, 1, 0, 1]) < 1e-15);
        assert_eq!(nmi(&[3, 3], &[4, 4]), 1.0);
        assert_eq!(nmi(&[3, 3], &[4, 5]), 0.0);
    }

    #[test]
    fn neighbors_vote_and_ties_go_to_the_smallest_label() {
        let train = Points {
            coordinates: &[0.0, 1.0, 2.0, 10.0],
            dimension: 1,
            labels: &[4, 3, 4, 1],
        };
        let test = |labels| Points {
            coordinates: &[0.9, 9.0],
            dimension: 1,
            labels,
        };
        assert_eq!(knn_error(1, train, test(&[3, 1])), 0.0);
        // Two neighbors: labels 3 and 4 tie for the first point, 1 and 4 for the second.
        assert_eq!(knn_error(2, train, test(&[3, 4])), 0.5);
        assert_eq!(knn_error(9, train, test(&[4, 4])), 0.0);
        let damaged = Points {
            coordinates: &[f64::NAN, -f64::NAN, f64::INFINITY, 10.0],
            ..train
        };
        assert_eq!(knn_error(1, damaged, test(&[1, 1])), 0.0);
    }
}
