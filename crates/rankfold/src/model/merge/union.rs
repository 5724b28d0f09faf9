//! One side of several models: the union of their features, and one preprocessing for all.
//!
//! A model multiplies feature j by d_j, so its factors say nothing to a model that multiplies by
//! another number. Row j of a factor is therefore multiplied by d_j of its own model over d_j of
//! the union, and xᵀ W x stays what it was. Means of columns are pooled; where rows are centered
//! the scores move by as much as the means of the parts differ.

use super::super::Preprocess;
use crate::data::Features;
use crate::{Error, Ids, Result};

/// One side of one model.
pub(super) struct Part<'a> {
    pub features: &'a Features,
    pub preprocess: &'a Preprocess,
    /// Rows of the side.
    pub size: usize,
    /// How many examples stand behind it.
    pub examples: f64,
}

/// One side of all models.
pub(super) struct Union {
    pub features: Features,
    pub preprocess: Preprocess,
    pub size: usize,
    /// Where the rows of each model are in the union.
    pub at: Vec<Vec<u32>>,
    /// By what the rows of the factors of each model are multiplied, where that is not 1.
    pub factors: Option<Vec<Vec<f64>>>,
}

impl Union {
    pub fn new(parts: &[Part<'_>], what: &str) -> Result<Self> {
        let (features, at) = joined(parts, what)?;
        let size = match &features {
            Features::Named(ids) | Features::Columns(ids) => ids.len(),
            _ => parts.iter().map(|part| part.size).max().unwrap_or(0),
        };
        let steps = parts[0].preprocess.steps;
        if let Some(other) = parts.iter().find(|part| part.preprocess.steps != steps) {
            let [one, two] = [steps, other.preprocess.steps].map(|steps| {
                let names = steps
                    .names()
                    .map(|(option, value)| format!("--{option} {value}"));
                names.join(" ")
            });
            return Err(Error::input(format!(
                "the models prepare {what} in different ways, `{one}` and `{two}`: expected the same"
            )));
        }
        let pooled = Pooled {
            parts,
            at: &at,
            size,
        };
        let mean = pooled.mean(|p| &p.mean, |_, v| v);
        let scale = pooled.mean(
            |p| &p.scale,
            |(part, i, j), scale| {
                // 1/σ² of all is pooled from what rows deviate from the common mean.
                let own = part.preprocess.mean.as_ref().map_or(0.0, |m| m[i]);
                let all = mean.as_ref().map_or(0.0, |m| m[j]);
                1.0 / scale.max(f64::MIN_POSITIVE).powi(2) + (own - all).powi(2)
            },
        );
        let preprocess = Preprocess {
            steps,
            fill: pooled.mean(|p| &p.fill, |_, v| v),
            weight: pooled.mean(|p| &p.weight, |_, v| v),
            scale: scale.map(|all| all.into_iter().map(|v: f64| 1.0 / v.sqrt()).collect()),
            mean,
        };
        let factors = (steps.tfidf || steps.standardize).then(|| {
            let factor = |(part, at): (&Part<'_>, &Vec<u32>)| {
                let ratio = |(i, &j): (usize, &u32)| {
                    let (own, all) = (
                        multiplier(part.preprocess, i),
                        multiplier(&preprocess, j as usize),
                    );
                    if all == 0.0 { 1.0 } else { own / all }
                };
                at.iter().enumerate().map(ratio).collect()
            };
            parts.iter().zip(&at).map(factor).collect()
        });
        Ok(Union {
            features,
            preprocess,
            size,
            at,
            factors,
        })
    }
}

/// By what a feature is multiplied.
pub(crate) fn multiplier(preprocess: &Preprocess, j: usize) -> f64 {
    let of = |values: &Option<Vec<f64>>| values.as_ref().map_or(1.0, |values| values[j]);
    of(&preprocess.weight) * of(&preprocess.scale)
}

/// The features of all models in the order in which they come, and where each has its own.
fn joined(parts: &[Part<'_>], what: &str) -> Result<(Features, Vec<Vec<u32>>)> {
    let first = parts[0].features;
    for part in &parts[1..] {
        let (one, two) = (first.kind(), part.features.kind());
        if one != two {
            return Err(Error::input(format!(
                "the {what} of one model are {one}, those of another {two}: expected the same kind"
            )));
        }
    }
    let in_order = |part: &Part<'_>| (0..part.size as u32).collect::<Vec<u32>>();
    let names = |features: &'_ Features| match features {
        Features::Named(ids) | Features::Columns(ids) => ids.clone(),
        _ => Ids::new(),
    };
    match first {
        Features::Numbered => Ok((Features::Numbered, parts.iter().map(in_order).collect())),
        Features::Terms(_) => match parts.iter().all(|part| part.features == first) {
            true => Ok((first.clone(), parts.iter().map(in_order).collect())),
            false => Err(Error::input(
                "the models have different vocabularies, so that a number means different terms: \
                 expected models trained with one `--vocabulary`",
            )),
        },
        Features::Named(_) | Features::Columns(_) => {
            let mut all = Ids::new();
            let at = parts.iter().map(|part| {
                let names = names(part.features);
                names.iter().map(|name| all.intern(name)).collect()
            });
            let at: Vec<Vec<u32>> = at.collect();
            if let Features::Columns(_) = first {
                // A table must have all columns of a model, so a union would fit no table.
                if let Some(short) = at.iter().find(|at| at.len() < all.len()) {
                    let missing = (0..all.len() as u32).find(|j| !short.contains(j));
                    let name = missing.map_or("", |j| all.get(j));
                    return Err(Error::input(format!(
                        "the column `{name}` is not known to all models: expected the same columns"
                    )));
                }
                return Ok((Features::Columns(all), at));
            }
            Ok((Features::Named(all), at))
        }
    }
}

/// Means over the models that know a feature, weighted by their examples.
struct Pooled<'a> {
    parts: &'a [Part<'a>],
    at: &'a [Vec<u32>],
    size: usize,
}

impl Pooled<'_> {
    fn mean(
        &self,
        vector: impl Fn(&Preprocess) -> &Option<Vec<f64>>,
        value: impl Fn((&Part<'_>, usize, usize), f64) -> f64,
    ) -> Option<Vec<f64>> {
        let mut sums = vec![0.0; self.size];
        let mut weights = vec![0.0; self.size];
        for (part, at) in self.parts.iter().zip(self.at) {
            let values = vector(part.preprocess).as_ref()?;
            for (i, &j) in at.iter().enumerate() {
                let j = j as usize;
                sums[j] += part.examples * value((part, i, j), values[i]);
                weights[j] += part.examples;
            }
        }
        let sums = sums.into_iter().zip(weights);
        Some(
            sums.map(|(s, w)| if w > 0.0 { s / w } else { 0.0 })
                .collect(),
        )
    }
}
