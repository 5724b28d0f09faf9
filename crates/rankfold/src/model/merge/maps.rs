//! Several maps in one: each is turned, mirrored and shifted to the others by the points that they
//! have in common, and a point lies at the mean of where the maps have it, weighted by the
//! dissimilarities that each knows of it. Distances of points of one map alone stay exact.
//! Dissimilarities of the same pair are averaged. Nothing is learned: `update` goes on from it.

use super::super::{Card, Dissimilarities, KernelCard, Knowledge, Mapped, Model, Precise};
use super::{MergeOptions, Merged};
use crate::batch::{Bound, Bounds, PairLoss};
use crate::data::{Dissimilarity, Features};
use crate::form::{Form, Psd, Tall};
use crate::linalg::svd;
use crate::{Error, Ids, Result};
use faer::Mat;
use std::collections::BTreeMap;

/// One map on the union of items.
struct Part<'a> {
    points: Mat<f64>,
    /// Where its points are in the union.
    at: Vec<usize>,
    /// How much each counts.
    weight: Vec<f64>,
    known: &'a [Dissimilarity],
    given: f64,
}

/// Sums of points, and of their weights.
struct Sums {
    points: Mat<f64>,
    weights: Vec<f64>,
}

impl Sums {
    fn add(&mut self, part: &Part<'_>, points: &Mat<f64>) {
        for (i, &at) in part.at.iter().enumerate() {
            self.weights[at] += part.weight[i];
            for c in 0..points.ncols() {
                self.points[(at, c)] += part.weight[i] * points[(i, c)];
            }
        }
    }

    /// The points of a map that are here already.
    fn common(&self, part: &Part<'_>) -> Vec<usize> {
        let here = |i: &usize| self.weights[part.at[*i]] > 0.0;
        (0..part.at.len()).filter(here).collect()
    }

    /// The points of a map where those that are here already lie as near as can be to them
    /// [Schönemann 1966].
    fn aligned(&self, part: &Part<'_>, common: &[usize]) -> Option<Mat<f64>> {
        let k = part.points.ncols();
        let there = |i: usize, c: usize| {
            let at = part.at[i];
            self.points[(at, c)] / self.weights[at]
        };
        let weight = |i: usize| {
            let (own, other) = (part.weight[i], self.weights[part.at[i]]);
            own * other / (own + other)
        };
        let total: f64 = common.iter().map(|&i| weight(i)).sum();
        let mean = |value: &dyn Fn(usize, usize) -> f64, c: usize| {
            let sum: f64 = common.iter().map(|&i| weight(i) * value(i, c)).sum();
            sum / total
        };
        let own = |i: usize, c: usize| part.points[(i, c)];
        let means: Vec<(f64, f64)> = (0..k).map(|c| (mean(&own, c), mean(&there, c))).collect();
        let mut overlap = Mat::<f64>::zeros(k, k);
        for &i in common {
            for a in 0..k {
                for b in 0..k {
                    let (x, y) = (own(i, a) - means[a].0, there(i, b) - means[b].1);
                    overlap[(a, b)] += weight(i) * x * y;
                }
            }
        }
        let (u, _, v) = svd(&overlap)?;
        let turn = u * v.transpose();
        let shifted = Mat::from_fn(part.at.len(), k, |i, c| own(i, c) - means[c].0);
        let turned = shifted * turn;
        Some(Mat::from_fn(part.at.len(), k, |i, c| {
            turned[(i, c)] + means[c].1
        }))
    }
}

pub(super) fn merged(models: &[&Model], options: &MergeOptions, card: Card) -> Result<Merged> {
    let rank = models[0].rank();
    if let Some(other) = models.iter().find(|model| model.rank() != rank) {
        return Err(Error::input(format!(
            "one map has {rank} coordinates, another {}: expected the same",
            other.rank()
        )));
    }
    if let Some(asked) = options.rank.filter(|asked| *asked != rank) {
        let message = format!("is {asked}: maps keep their {rank} coordinates");
        return Err(Error::option("rank", message));
    }
    let mut items = Ids::new();
    let mut parts = Vec::with_capacity(models.len());
    for (i, model) in models.iter().enumerate() {
        parts.push(part(
            model,
            options.weights.as_ref().map_or(1.0, |w| w[i]),
            &mut items,
        )?);
    }
    let lost = || Error::failure("the points of the maps are not finite");
    let mut sums = Sums {
        points: Mat::zeros(items.len(), rank),
        weights: vec![0.0; items.len()],
    };
    let mut waiting = parts.iter().collect::<Vec<_>>();
    let first = waiting.remove(0);
    sums.add(first, &first.points);
    while !waiting.is_empty() {
        let common = waiting.iter().map(|part| sums.common(part));
        let (at, common) = common
            .enumerate()
            .max_by_key(|(at, common)| (common.len(), usize::MAX - at))
            .unwrap_or_default();
        if common.len() <= rank {
            return Err(Error::input(format!(
                "a map has {} items in common with the others: expected more than its {rank} \
                 coordinates, to lay them over each other",
                common.len()
            )));
        }
        let part = waiting.remove(at);
        let points = sums.aligned(part, &common).ok_or_else(lost)?;
        sums.add(part, &points);
    }
    let points = Mat::from_fn(items.len(), rank, |i, c| {
        sums.points[(i, c)] / sums.weights[i]
    });
    if !points.is_all_finite() {
        return Err(lost());
    }
    let known = joined(&parts);
    let knowledge = Knowledge::Map(Mapped {
        card: KernelCard {
            map: true,
            function: None,
            preprocess: Default::default(),
            alpha: 0.0,
            drawn: None,
            constraints: known.len(),
            violated: 0,
            cost: cost(&points, &known),
        },
        dissimilarities: Dissimilarities { list: known },
    });
    let tall = Tall::from_fn(items.len(), rank, |i, c| points[(i, c)])?;
    let model = Model {
        card,
        form: Precise::F64(Form::Psd(Psd::new(tall))),
        features: Features::Named(items),
        preprocess: models[0].preprocess.clone(),
        objects: None,
        knowledge,
    };
    Ok(Merged {
        model,
        lost: 0.0,
        notes: Vec::new(),
    })
}

/// A map whose items are added to the union.
fn part<'a>(model: &'a Model, given: f64, items: &mut Ids) -> Result<Part<'a>> {
    let Knowledge::Map(known) = &model.knowledge else {
        return Err(Error::input("expected a map"));
    };
    let points = model.item_coordinates::<f64>()?;
    let own = model.items()?;
    let known = &known.dissimilarities.list[..];
    // A point that nothing is known of counts a little, so that it stays somewhere.
    let mut weight = vec![1e-3 * given; own.len()];
    for d in known {
        weight[d.left as usize] += given;
        weight[d.right as usize] += given;
    }
    Ok(Part {
        points: Mat::from_fn(own.len(), points.rank, |i, c| points.row(i)[c]),
        at: own.iter().map(|name| items.intern(name) as usize).collect(),
        weight,
        known,
        given,
    })
}

/// The dissimilarities of all maps, each pair once.
fn joined(parts: &[Part<'_>]) -> Vec<Dissimilarity> {
    let mut all: BTreeMap<(u32, u32), (f64, f64)> = BTreeMap::new();
    for part in parts {
        for d in part.known {
            let [a, b] = [d.left, d.right].map(|i| part.at[i as usize] as u32);
            let (sum, weight) = all.entry((a.min(b), a.max(b))).or_default();
            *sum += part.given * d.value;
            *weight += part.given;
        }
    }
    let one = |((left, right), (sum, weight)): ((u32, u32), (f64, f64))| Dissimilarity {
        left,
        right,
        value: sum / weight,
    };
    all.into_iter().map(one).collect()
}

/// Squared stress, of dissimilarities that are 1 on average.
fn cost(points: &Mat<f64>, known: &[Dissimilarity]) -> f64 {
    let mean = known.iter().map(|d| d.value).sum::<f64>() / known.len().max(1) as f64;
    let mean = if mean > 0.0 { mean } else { 1.0 };
    let square = |d: &Dissimilarity| {
        let (i, j) = (d.left as usize, d.right as usize);
        let terms = (0..points.ncols()).map(|c| ((points[(i, c)] - points[(j, c)]) / mean).powi(2));
        terms.sum::<f64>()
    };
    let distances: Vec<f64> = known.iter().map(square).collect();
    let target = |d: &Dissimilarity| (Bound::Equal, (d.value / mean).powi(2));
    let list = known.iter().map(target).collect();
    Bounds { list }.cost(&distances)
}
