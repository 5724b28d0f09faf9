//! One model of several that were trained on different parts of the data.
//!
//! W is their mean in the quotient geometry (see [`mean`]), on the union of their ids or features;
//! what they know beside W is joined by what it means: biases and priors by counts, counts and
//! sums of classes by adding, scales of ratings by the wider one. Costs a few passes over the
//! factors, (n + m) k² each. Distributions add up what they learned ([`diagonal`], [`gaussian`]),
//! and regressions that share a subspace have a mean of their own ([`tasks`]).

mod beside;
mod choices;
mod diagonal;
mod gaussian;
mod maps;
mod mean;
mod ratings;
mod tasks;
#[cfg(test)]
mod tests;
mod union;

use super::{Card, Counters, Knowledge, Model, Objects, Precise};
use crate::form::{Form, FormRef, Full, Tall};
use crate::linalg::svd_of_product;
use crate::{Error, Real, Result, memory};
use faer::Mat;
use mean::{Factor, Part};
use union::Union;
pub(crate) use union::multiplier;

/// A model made of several, and what that cost.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Merged {
    /// The model.
    pub model: Model,
    /// How far the mean is from the model, as a share of its norm: what the rank cut off.
    pub lost: f64,
    /// What was left out or could not be known, in sentences.
    pub notes: Vec<String>,
}

/// How models are merged.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct MergeOptions {
    /// The rank; where it is not given that of the first model, of models of tasks the largest.
    pub rank: Option<usize>,
    /// How much each model counts, times what its rows were learned from where it knows that.
    pub weights: Option<Vec<f64>>,
    /// Of new directions, where the rank is higher than that of the mean.
    pub seed: u64,
}

impl MergeOptions {
    /// Sets the rank.
    pub fn rank(mut self, rank: Option<usize>) -> Self {
        self.rank = rank;
        self
    }

    /// Sets how much each model counts.
    pub fn weights(mut self, weights: Option<Vec<f64>>) -> Self {
        self.weights = weights;
        self
    }

    /// Sets the seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// Singular values below this share of the largest are none.
const ZERO: f64 = 1e-11;

impl Model {
    /// One model of several of the same task, each of which learned from another part of the
    /// data. An id or a feature that only one of them has keeps what that model knows of it.
    ///
    /// ```
    /// use rankfold::Model;
    /// use rankfold::model::MergeOptions;
    ///
    /// let one = Model::from_metric_factor::<f64>(&[2.0, 0.0], 1, None)?;
    /// let two = Model::from_metric_factor::<f64>(&[-4.0, 0.0], 1, None)?;
    /// let merged = Model::merge(&[&one, &two], &MergeOptions::default())?;
    /// // The sign of a factor means nothing: it is turned first.
    /// assert!((merged.model.singular_values()?.unwrap()[0] - 9.0).abs() < 1e-12);
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub fn merge(models: &[&Model], options: &MergeOptions) -> Result<Merged> {
        check(models, options)?;
        if let Knowledge::Map(_) = &models[0].knowledge {
            let mut notes = Vec::new();
            let card = card(models, &vec![1.0; models.len()], &mut notes);
            let merged = maps::merged(models, options, card)?;
            return Ok(Merged { notes, ..merged });
        }
        match &models[0].form {
            Precise::F32(_) => merged::<f32>(models, options),
            Precise::F64(_) => merged::<f64>(models, options),
        }
    }
}

/// Refuses what cannot be merged.
fn check(models: &[&Model], options: &MergeOptions) -> Result<()> {
    let Some(first) = models.first() else {
        return Err(Error::input("expected at least one model, found none"));
    };
    if let Some(weights) = &options.weights {
        let sound = weights.iter().all(|w| *w > 0.0 && w.is_finite());
        if weights.len() != models.len() || !sound {
            return Err(Error::option(
                "weights",
                format!(
                    "expected a number above 0 for each of {} models, found {weights:?}",
                    models.len()
                ),
            ));
        }
    }
    let is_map = |model: &Model| matches!(model.knowledge, Knowledge::Map(_));
    for model in models {
        if model.task() == first.task() && is_map(model) != is_map(first) {
            return Err(Error::input(
                "a kernel cannot be merged with a map: expected models of one kind",
            ));
        }
        if model.task() != first.task() {
            return Err(Error::input(format!(
                "a model of `train {}` cannot be merged with one of `train {}`: expected one task",
                first.task(),
                model.task()
            )));
        }
        let differs = |what: &str, one: &str, two: &str| match one == two {
            true => Ok(()),
            false => Err(Error::input(format!(
                "one model has the {what} `{one}`, another `{two}`: expected the same"
            ))),
        };
        differs("precision", first.precision(), model.precision())?;
        differs("form", first.storage().form, model.storage().form)?;
        differs("score", first.card.score.name(), model.card.score.name())?;
        if first.objects.is_some() != model.objects.is_some() {
            return Err(Error::input(
                "one model has objects of other features, another has not: expected the same",
            ));
        }
    }
    match first.knowledge {
        Knowledge::Recommend(_) => choices::check(models),
        Knowledge::Multitask(_) => tasks::check(models),
        _ => Ok(()),
    }
}

/// How much a model counts: rows of tasks, examples of online learners; the iterations of others
/// say nothing of how much data they had.
fn examples(model: &Model) -> f64 {
    match &model.knowledge {
        Knowledge::Multitask(known) => tasks::rows(&known.space).max(1.0),
        _ if model.card.step_size > 0.0 => model.card.counters.steps.max(1) as f64,
        _ => 1.0,
    }
}

fn merged<R: Real>(models: &[&Model], options: &MergeOptions) -> Result<Merged> {
    let given = |i: usize| options.weights.as_ref().map_or(1.0, |w| w[i]);
    let examples: Vec<f64> = (0..)
        .zip(models)
        .map(|(i, m)| given(i) * examples(m))
        .collect();
    let forms = models
        .iter()
        .map(|m| Ok(m.form.as_precision::<R>()?.view()));
    let forms: Vec<FormRef<'_, R>> = forms.collect::<Result<_>>()?;
    let side = |right: bool, what: &str| {
        // Models without objects have one side, but each may have grown by itself.
        let mut parts = Vec::with_capacity(models.len());
        for ((model, form), &examples) in models.iter().zip(&forms).zip(&examples) {
            let (features, preprocess) = match (right, &model.objects) {
                (true, Some(objects)) => (&objects.features, &objects.preprocess),
                _ => (&model.features, &model.preprocess),
            };
            let shape = form.shape();
            parts.push(union::Part {
                features,
                preprocess,
                size: if right { shape.1 } else { shape.0 },
                examples,
            });
        }
        Union::new(&parts, what)
    };
    let left = side(false, "rows")?;
    let right = side(true, "objects")?;
    if let Knowledge::Multitask(_) = &models[0].knowledge {
        let mut notes = Vec::new();
        let card = card(models, &examples, &mut notes);
        return tasks::joined(models, [&left, &right], &examples, options, (card, notes));
    }
    let counts = |i: usize, right: bool| -> Vec<f64> {
        let shape = forms[i].shape();
        let size = if right { shape.1 } else { shape.0 };
        let found = match &models[i].knowledge {
            Knowledge::Completion(known) => Some(&known.biases.count[usize::from(right)]),
            Knowledge::Ranking(known) if right => Some(&known.prior.count),
            Knowledge::Recommend(known) => {
                let often = known.popularity.iter();
                return often.map(|&n| given(i) * n.max(1e-3)).collect();
            }
            _ => None,
        };
        match found {
            // An id that nothing was learned of counts a little, so that it keeps its row.
            Some(count) => count
                .iter()
                .map(|&n| given(i) * (n as f64).max(1e-3))
                .collect(),
            None => vec![examples[i]; size],
        }
    };
    let shares: Vec<f64> = (0..models.len()).map(given).collect();
    let mut notes = Vec::new();
    let (form, lost) = match forms[0] {
        FormRef::Full(_) | FormRef::Diagonal(_) | FormRef::Gaussian(_)
            if options.rank.is_some() =>
        {
            let message = "is of no use for a full matrix: expected none";
            return Err(Error::option("rank", message));
        }
        FormRef::Full(_) => (full(&forms, [&left, &right], &examples)?, 0.0),
        FormRef::Diagonal(_) => {
            let found = diagonal::joined(&forms, [&left, &right], &shares)?;
            (Form::Diagonal(found), 0.0)
        }
        FormRef::Gaussian(_) => {
            let found = gaussian::joined(&forms, [&left, &right], &shares)?;
            (Form::Gaussian(found), 0.0)
        }
        first => {
            let entries = (left.size + right.size) as u128 * first.rank() as u128;
            memory::require(
                24 * entries * models.len() as u128,
                "the factors of all models",
            )?;
            let two = !first.is_symmetric();
            let sizes = [left.size, right.size];
            let sizes = if two { &sizes[..] } else { &sizes[..1] };
            let part = |i: usize| {
                let ([l, r], _) = forms[i].balanced(forms[i].rank(), 0)?;
                let whole = |tall: Tall<R>, side: &Union, right: bool| Factor {
                    rows: Mat::from_fn(tall.rows(), tall.rank(), |row, j| {
                        let factor = side.factors.as_ref().map_or(1.0, |f| f[i][row]);
                        factor * tall.row(row)[j].to_f64()
                    }),
                    at: side.at[i].clone(),
                    weight: counts(i, right),
                };
                let mut factors = vec![whole(l, &left, false)];
                if two {
                    factors.push(whole(r, &right, true));
                }
                Ok(Part { factors })
            };
            let parts = (0..models.len()).map(part).collect::<Result<Vec<Part>>>()?;
            let mean = mean::mean(parts, sizes);
            let mean =
                mean.ok_or_else(|| Error::failure("the mean of the models is not finite"))?;
            if mean.groups > 1 {
                notes.push(format!(
                    "the models fall into {} groups that have no id in common: scores between \
                     them are those of biases alone, and ranks add up",
                    mean.groups
                ));
            } else if mean.common < first.rank() {
                notes.push(format!(
                    "a model has {} ids in common with the others, fewer than the rank of {}: \
                     scores between its own ids and theirs are not certain",
                    mean.common,
                    first.rank()
                ));
            }
            let usual = match mean.groups {
                1 => first.rank(),
                _ => mean.factors[0].ncols(),
            };
            cut(
                first,
                &mean.factors,
                options.rank.unwrap_or(usual),
                options.seed,
            )?
        }
    };
    let mut model = Model {
        card: card(models, &examples, &mut notes),
        form: Precise::new(form),
        features: left.features.clone(),
        preprocess: left.preprocess.clone(),
        objects: models[0].objects.as_ref().map(|_| Objects {
            features: right.features.clone(),
            preprocess: right.preprocess.clone(),
        }),
        knowledge: Knowledge::Metric,
    };
    model.knowledge = match &models[0].knowledge {
        Knowledge::Completion(_) => {
            let known = ratings::joined(models, [&left, &right], options, &mut notes)?;
            Knowledge::Completion(ratings::folded(known, &model)?)
        }
        Knowledge::Recommend(_) => {
            let (form, known) = choices::joined(models, &left, &model, options)?;
            model.form = form;
            Knowledge::Recommend(known)
        }
        _ => beside::joined(models, [&left, &right], &examples)?,
    };
    Ok(Merged { model, lost, notes })
}

/// Refuses a rank above the smaller side of W.
fn rank_within(rank: usize, most: usize) -> Result<()> {
    match (1..=most).contains(&rank) {
        true => Ok(()),
        false => Err(Error::option(
            "rank",
            format!("is {rank}: expected 1 to {most}, the smaller side of W"),
        )),
    }
}

/// The mean cut to a rank, in the form of the first model, and what was cut off.
fn cut<R: Real>(
    like: FormRef<'_, R>,
    factors: &[Mat<f64>],
    rank: usize,
    seed: u64,
) -> Result<(Form<R>, f64)> {
    let left = &factors[0];
    let right = factors.get(1).unwrap_or(left);
    let most = left.nrows().min(right.nrows());
    rank_within(rank, most)?;
    let whole = svd_of_product(left, right, left.ncols());
    let (p, sigma, q) = whole.ok_or_else(|| Error::failure("the mean has no singular values"))?;
    let used = sigma.iter().filter(|s| **s > ZERO * sigma[0]).count();
    if used == 0 {
        return Err(Error::input(
            "the mean of the models is zero: they contradict each other",
        ));
    }
    let kept = used.min(rank);
    // P Σ^½ of a symmetric matrix is the same on both sides.
    let tall = |m: &Mat<f64>| Tall::from_fn(m.nrows(), kept, |i, j| m[(i, j)] * sigma[j].sqrt());
    let form = like.rebuilt(tall(&p)?, tall(&q)?)?;
    let square = |values: &[f64]| values.iter().map(|s| s * s).sum::<f64>();
    // A sum of nothing is −0.
    let lost = (square(&sigma[kept..used]) / square(&sigma[..used]))
        .sqrt()
        .abs();
    match kept == rank {
        true => Ok((form, lost)),
        false => Ok((form.view().with_rank(rank, seed)?.0, lost)),
    }
}

/// The mean of full matrices over the models that know both the row and the column.
fn full<R: Real>(
    forms: &[FormRef<'_, R>],
    sides: [&Union; 2],
    examples: &[f64],
) -> Result<Form<R>> {
    let (n, m) = (sides[0].size, sides[1].size);
    memory::require(16 * n as u128 * m as u128, "the mean of full matrices")?;
    let (mut sum, mut weight) = (Mat::<f64>::zeros(n, m), Mat::<f64>::zeros(n, m));
    let mut unlearned = 0.0;
    for (at, (form, &examples)) in forms.iter().zip(examples).enumerate() {
        let FormRef::Full(form) = form else {
            continue;
        };
        unlearned += examples * form.unlearned();
        let factor = |side: &Union, i: usize| side.factors.as_ref().map_or(1.0, |f| f[at][i]);
        for (i, &to) in sides[0].at[at].iter().enumerate() {
            let scale = form.weight(i) * factor(sides[0], i);
            let row = form.row(i).iter().zip(&sides[1].at[at]);
            for (j, (v, &column)) in row.enumerate() {
                let entry = scale * factor(sides[1], j) * v.to_f64();
                sum[(to as usize, column as usize)] += examples * entry;
                weight[(to as usize, column as usize)] += examples;
            }
        }
    }
    let mut out = Full::diagonal(n, m, unlearned / examples.iter().sum::<f64>())?;
    for i in 0..n {
        for (j, entry) in out.row_mut(i).iter_mut().enumerate() {
            if weight[(i, j)] > 0.0 {
                *entry = R::from_f64(sum[(i, j)] / weight[(i, j)]);
            }
        }
    }
    Ok(Form::Full(out))
}

/// What the model says about itself: counters add up, curves of several runs are none of it.
fn card(models: &[&Model], examples: &[f64], notes: &mut Vec<String>) -> Card {
    let first = &models[0].card;
    let cards = || models.iter().map(|model| &model.card);
    if cards().any(|card| card.learner != first.learner) {
        notes.push(format!(
            "the models have different learners: the merged one goes on with `{}`",
            first.learner
        ));
    }
    let total = |count: fn(&Counters) -> u64| {
        cards().fold(0, |sum: u64, card| {
            sum.saturating_add(count(&card.counters))
        })
    };
    let loss: f64 = cards().map(|card| card.counters.total_loss).sum();
    let mean = |value: fn(&Card) -> Option<f64>| {
        let (mut sum, mut weight) = (0.0, 0.0);
        for (card, examples) in cards().zip(examples) {
            sum += examples * value(card)?;
            weight += examples;
        }
        Some(sum / weight)
    };
    let distances = mean(|c| c.distances.map(|d| d.near)).zip(mean(|c| c.distances.map(|d| d.far)));
    Card {
        counters: Counters {
            steps: total(|c| c.steps),
            updates: total(|c| c.updates),
            refused: total(|c| c.refused),
            new_features: total(|c| c.new_features),
            new_object_features: total(|c| c.new_object_features),
            seeded: total(|c| c.seeded),
            total_loss: if loss.is_finite() { loss } else { 0.0 },
        },
        variance_scale: mean(|card| card.variance_scale),
        distances: distances.map(|(near, far)| super::Distances { near, far }),
        gossip: None,
        init: "merge".into(),
        history: Vec::new(),
        ..first.clone()
    }
}
