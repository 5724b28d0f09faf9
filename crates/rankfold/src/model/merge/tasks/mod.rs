//! Models of regressions that share a subspace, joined.
//!
//! On rows of one scale, each model says y = a + s (c + U w)ᵀx of a task. Bringing a model to
//! that scale changes none of its predictions. Then
//!
//! - **the prior**: c and what else is said of an unknown task are means, by the rows behind each
//!   model. A task of a random model has the variance U Uᵀ of its own model, plus that of c
//!   between models. The columns of the merged U have this variance.
//! - **a task** of one model keeps its weights. One of several models gets their mean, and each
//!   counts by what it knows of each direction: the moments of its rows, and the ridge once.
//! - **the rank**: of W those directions are kept by which targets change most, as the moments of
//!   rows have it. What is left of a task is as near as can be for its own rows.
//! - **the moments** of a task are those of all its rows, as the merged subspace sees them, so
//!   that `update` goes on from them ([`moments`]).
//!
//! Costs O(features · k²) for k columns of all U together, and O(k³) a task.

mod moments;
mod part;
#[cfg(test)]
mod tests;

use super::super::{Card, Model, MultitaskCard, Standardize, TaskFit, TaskSpace};
use super::choices::map_between;
use super::union::Union;
use super::{MergeOptions, Merged, ZERO, rank_within};
use crate::data::Features;
use crate::linalg::{beside, qf, svd, symmetric};
use crate::model::{Moments, TaskPrior, principal};
use crate::{Error, Ids, Result, memory};
use faer::Mat;
use moments::Seen;
use part::Part;

/// Directions below this share of the largest are none.
const NONE: f64 = 1e-10;

/// What a rank cuts off of the weights is told from this share on.
const NOTED: f64 = 0.1;

/// Refuses models that say different kinds of things of a task.
pub(super) fn check(models: &[&Model]) -> Result<()> {
    let first = models[0].task_parts()?.1;
    for model in models {
        let own = model.task_parts()?.1;
        if own.prior.bias_ridge.is_some() != first.prior.bias_ridge.is_some() {
            return Err(Error::input(
                "one model learns a bias for each task, another does not: expected the same",
            ));
        }
        let centered = model.preprocess.mean != models[0].preprocess.mean;
        if first.prior.bias_ridge.is_none() && centered {
            return Err(Error::input(
                "the models have no biases and center features at different means, so that their \
                 predictions differ by constants: expected `--standardize none`, or biases",
            ));
        }
    }
    Ok(())
}

/// The rows that a model learned from.
pub(super) fn rows(space: &TaskSpace) -> f64 {
    space.moments.iter().map(|moments| moments.count).sum()
}

/// The mean of the values of all models by their shares.
fn mean(parts: &[Part<'_>], value: impl Fn(&Part<'_>) -> f64) -> f64 {
    parts.iter().map(|part| part.share * value(part)).sum()
}

/// The ridge whose prior variance is the mean of those of the models.
fn ridge(parts: &[Part<'_>], value: impl Fn(&Part<'_>) -> f64) -> f64 {
    1.0 / mean(parts, |part| 1.0 / value(part))
}

/// What is known of a task before its rows, and c.
fn prior(parts: &[Part<'_>]) -> (TaskPrior, Vec<f64>) {
    let variance = parts.iter().map(|part| part.prior.variance);
    let variance = variance.collect::<Option<Vec<_>>>().map(|variances| {
        let mean = |value: &dyn Fn((f64, f64)) -> f64| -> f64 {
            let each = parts.iter().zip(&variances);
            each.map(|(part, own)| part.share * value(*own)).sum()
        };
        // Variances of tasks differ by 2 / rows in logarithms, and from model to model.
        let middle = mean(&|(usual, _)| usual.ln());
        let spread = mean(&|(usual, rows)| 1.0 / rows + 0.5 * (usual.ln() - middle).powi(2));
        (mean(&|(usual, _)| usual), 1.0 / spread)
    });
    let scale = variance.map_or(1.0, |(usual, _)| usual.sqrt());
    // What is predicted for an unknown task is the mean of what the models predict.
    let relative = |part: &Part<'_>| part.usual_scale() / scale;
    let offset = |part: &Part<'_>| {
        let moved = part.moved(None)[part.rank()];
        relative(part) * (part.prior.offset + moved)
    };
    let biased = parts[0].prior.bias_ridge.is_some();
    let prior = TaskPrior {
        ridge: ridge(parts, |part| part.prior.ridge),
        bias_ridge: biased.then(|| ridge(parts, |part| part.prior.bias_ridge.unwrap_or(0.0))),
        target_mean: mean(parts, |part| part.prior.target_mean),
        offset: mean(parts, offset),
        variance,
    };
    let entry = |j: usize| mean(parts, |part| relative(part) * part.sight[(j, part.rank())]);
    (prior, (0..parts[0].sight.nrows()).map(entry).collect())
}

/// All directions that a task of any model may have, with their prior variance.
struct Span {
    /// U of all models together.
    u: Mat<f64>,
    /// Maps a vector of features to its coordinates in U.
    inverse: Mat<f64>,
}

impl Span {
    fn new(parts: &[Part<'_>], prior: &TaskPrior, common: &[f64]) -> Option<Self> {
        let n = common.len();
        // The ridge is the noise over the variance of weights; targets have the variance of both.
        let squares = |part: &Part<'_>| {
            let tasks = part.space.moments.iter().zip(&part.space.scale);
            let squares = tasks.map(|(m, s)| m.count * m.variance(part.rank() + 1) / (s * s));
            squares.sum::<f64>() / rows(part.space).max(1.0)
        };
        let noise = mean(parts, squares);
        let between = match prior.ridge > 0.0 && noise > 0.0 {
            true => prior.ridge / noise,
            false => 1.0,
        };
        let mut all = Mat::zeros(n, 0);
        for part in parts {
            let (r, own) = (part.rank(), part.prior.ridge);
            let relative = if prior.ridge > 0.0 {
                prior.ridge / own
            } else {
                1.0
            };
            let columns = Mat::from_fn(n, r + 1, |j, k| match k < r {
                true => (part.share * relative).sqrt() * part.sight[(j, k)],
                false => (part.share * between).sqrt() * (part.sight[(j, r)] - common[j]),
            });
            all = beside(&all, &columns);
        }
        let (b, sigma, _) = svd(&all)?;
        let largest = sigma.first().copied().unwrap_or(0.0);
        let kept = sigma.iter().filter(|&&s| s > NONE * largest).count();
        Some(Span {
            u: Mat::from_fn(n, kept, |j, k| b[(j, k)] * sigma[k]),
            inverse: Mat::from_fn(kept, n, |k, j| b[(j, k)] / sigma[k]),
        })
    }

    fn rank(&self) -> usize {
        self.u.ncols()
    }

    /// U of at most this rank, by which targets of all rows change least, and how many directions
    /// tasks have.
    fn cut(&self, tasks: &[Task], rank: usize) -> Option<(Mat<f64>, usize)> {
        let r = self.rank();
        let mut metric = Mat::<f64>::zeros(r, r);
        for Task { precision: own, .. } in tasks {
            // The bias follows the weights.
            let around = |i, j| own[(i, j)] - own[(i, r)] * own[(r, j)] / own[(r, r)];
            metric += Mat::from_fn(r, r, around);
        }
        let metric = symmetric::part(&metric);
        let least = NONE * NONE * metric.norm_max();
        let root = symmetric::map(&metric, |v| v.max(least).sqrt())?;
        let back = symmetric::map(&metric, |v| 1.0 / v.max(least).sqrt())?;
        let weights = Mat::from_fn(r, tasks.len(), |k, t| {
            tasks[t].rows.max(1.0).sqrt() * tasks[t].fit[(k, 0)]
        });
        let (q, sigma, _) = svd(&(root * weights))?;
        let largest = sigma.first().copied().unwrap_or(0.0);
        let used = sigma.iter().filter(|&&s| s > ZERO * largest && s > 0.0);
        let used = used.count();
        let b = qf(&(&self.u * (back * q.subcols(0, used.min(rank)))))?;
        // The prior variance of what a task has in this subspace.
        let inside = b.transpose() * &self.u;
        let variance = symmetric::part(&(&inside * inside.transpose()));
        Some((b * symmetric::map(&variance, |v| v.max(0.0).sqrt())?, used))
    }
}

/// The mean of a task over the models that know it, in the coordinates of a span.
struct Task {
    /// The models, and where it is in each.
    known: Vec<(usize, usize)>,
    scale: f64,
    factors: Option<Vec<f64>>,
    /// Weights, and the bias behind them.
    fit: Mat<f64>,
    /// How well these are known.
    precision: Mat<f64>,
    rows: f64,
}

struct Joint<'a> {
    parts: &'a [Part<'a>],
    /// Whether features are.
    scaled: bool,
    prior: TaskPrior,
    common: Vec<f64>,
    span: Span,
}

impl Joint<'_> {
    fn task(&self, known: Vec<(usize, usize)>, seen: &[Seen]) -> Option<Task> {
        let (n, r) = (self.common.len(), self.span.rank());
        let count = |&(m, t): &(usize, usize)| {
            let part = &self.parts[m];
            // A task without rows counts a little, so that it has a mean.
            part.given * part.space.moments[t].count.max(1e-3)
        };
        let all: f64 = known.iter().map(count).sum();
        let mean = |value: &dyn Fn(&Part<'_>, usize) -> f64| -> f64 {
            let each = known.iter();
            each.map(|at| count(at) / all * value(&self.parts[at.0], at.1))
                .sum()
        };
        let scale = mean(&|part, t| part.space.scale[t]);
        // Deviations within the task are pooled.
        let factors = self.parts[0].factors.is_some().then(|| {
            let factor = |j: usize| 1.0 / mean(&|p, t| p.factor(Some(t), j).powi(-2)).sqrt();
            (0..n).map(factor).collect::<Vec<f64>>()
        });
        let biased = self.prior.bias_ridge.is_some();
        let fit = |part: &Part<'_>, t: usize| {
            let own = part.direction(t);
            let relative = part.space.scale[t] / scale;
            let off = Mat::from_fn(n, 1, |j, _| {
                let factor = |f: &Vec<f64>| part.factor(Some(t), j) / f[j];
                relative * factors.as_ref().map_or(1.0, factor) * own[j] - self.common[j]
            });
            let weights = &self.span.inverse * off;
            let bias = (part.constant(t) - self.prior.target_mean) / scale - self.prior.offset;
            let bias = if biased { bias } else { 0.0 };
            Mat::from_fn(r + 1, 1, |k, _| if k < r { weights[(k, 0)] } else { bias })
        };
        let fits: Vec<Mat<f64>> = known.iter().map(|&(m, t)| fit(&self.parts[m], t)).collect();
        let mut usual = Mat::zeros(r + 1, 1);
        for (fit, at) in fits.iter().zip(&known) {
            usual += faer::Scale(count(at) / all) * fit;
        }
        let mut precision = Mat::zeros(r + 1, r + 1);
        let mut off = Mat::zeros(r + 1, 1);
        for (fit, &(m, t)) in fits.iter().zip(&known) {
            let part = &self.parts[m];
            let moments = seen[m].moved(part, t);
            let own = moments.precision(&self.prior) + seen[m].unseen(moments.count);
            let own = faer::Scale(part.given) * own;
            off += &own * (fit - &usual);
            precision += own;
        }
        // Features that are not scaled do not say how long rows are where a model does not see
        // them: then models of different subspaces count by rows alone.
        if !self.scaled && known.iter().any(|&(m, _)| !seen[m].sees_all()) {
            off.fill(0.0);
        }
        Some(Task {
            rows: known
                .iter()
                .map(|&(m, t)| self.parts[m].space.moments[t].count)
                .sum(),
            // Of directions that no rows and no ridge tell, the mean by rows is known.
            fit: usual + pseudo_inverse(&precision)? * off,
            known,
            scale,
            factors,
            precision,
        })
    }

    /// Weights and bias in another subspace, as near as can be for the rows of the task.
    fn within(&self, task: &Task, u: &Mat<f64>) -> Option<TaskFit> {
        let (r, k) = (self.span.rank(), u.ncols());
        // u = (U of the span) · X.
        let x = &self.span.inverse * u;
        let wide = Mat::from_fn(r + 1, k + 1, |i, j| match (i < r, j < k) {
            (true, true) => x[(i, j)],
            (false, false) => 1.0,
            _ => 0.0,
        });
        let plain = map_between(&wide, &task.fit)?;
        let left = &task.fit - &wide * &plain;
        let weighted = wide.transpose() * &task.precision;
        let inverse = pseudo_inverse(&(&weighted * &wide))?;
        let fit = plain + inverse * (weighted * left);
        Some(TaskFit {
            scale: task.scale,
            bias: fit[(k, 0)],
            weights: (0..k).map(|i| fit[(i, 0)]).collect(),
        })
    }

    /// How far weights in another subspace are from the mean, as a share of it.
    fn lost(&self, tasks: &[Task], u: &Mat<f64>, fits: &[TaskFit]) -> f64 {
        let (mut off, mut all) = (0.0, 0.0);
        for (task, fit) in tasks.iter().zip(fits) {
            let whole = &self.span.u * task.fit.subrows(0, self.span.rank());
            let kept = u * Mat::from_fn(u.ncols(), 1, |k, _| fit.weights[k]);
            for (j, c) in self.common.iter().enumerate() {
                off += task.rows.max(1.0) * (whole[(j, 0)] - kept[(j, 0)]).powi(2);
                all += task.rows.max(1.0) * (whole[(j, 0)] + c).powi(2);
            }
        }
        if all > 0.0 { (off / all).sqrt() } else { 0.0 }
    }
}

fn pseudo_inverse(m: &Mat<f64>) -> Option<Mat<f64>> {
    let m = symmetric::part(m);
    let largest = (0..m.nrows()).map(|i| m[(i, i)]).fold(0.0, f64::max);
    symmetric::map(&m, |v| if v > 1e-12 * largest { 1.0 / v } else { 0.0 })
}

/// The merged model, whose rows and tasks are those of these sides.
pub(super) fn joined(
    models: &[&Model],
    sides: [&Union; 2],
    examples: &[f64],
    options: &MergeOptions,
    (card, mut notes): (Card, Vec<String>),
) -> Result<Merged> {
    let failed = || Error::failure("the mean of the models is not finite");
    let cards = models.iter().map(|model| Ok(model.task_parts()?.1));
    let cards: Vec<&MultitaskCard> = cards.collect::<Result<_>>()?;
    let within = cards
        .iter()
        .any(|card| card.standardize == Standardize::Task);
    let total: f64 = examples.iter().sum();
    let parts = models.iter().enumerate().map(|(m, model)| {
        let part = Part::new(model, m, sides, within)?;
        Ok(Part {
            given: options.weights.as_ref().map_or(1.0, |w| w[m]),
            share: examples[m] / total,
            ..part
        })
    });
    let parts: Vec<Part<'_>> = parts.collect::<Result<_>>()?;
    let (features, tasks) = (sides[0].size, sides[1].size);
    let usual = parts.iter().map(Part::rank).max().unwrap_or(1);
    let rank = options.rank.unwrap_or(usual);
    if options.rank.is_some() {
        rank_within(rank, features.min(tasks))?;
    }
    let all: usize = parts.iter().map(|part| part.rank() + 1).sum();
    let size = 16 * tasks as u128 * (all.min(features) as u128 + 2).pow(2);
    memory::require(size, "the moments of all tasks")?;

    let (prior, common) = prior(&parts);
    let span = Span::new(&parts, &prior, &common).ok_or_else(failed)?;
    let joint = Joint {
        parts: &parts,
        scaled: models[0].preprocess.steps.standardize,
        prior,
        common,
        span,
    };
    let mut known = vec![Vec::new(); tasks];
    for (m, part) in parts.iter().enumerate() {
        (0..)
            .zip(part.at)
            .for_each(|(t, &to)| known[to as usize].push((m, t)));
    }
    let seen = Seen::all(&parts, &joint.span.u, &joint.common).ok_or_else(failed)?;
    let means = known.into_iter().map(|known| joint.task(known, &seen));
    let means: Vec<Task> = means.collect::<Option<_>>().ok_or_else(failed)?;
    let (u, used) = joint.span.cut(&means, rank).ok_or_else(failed)?;
    if used == 0 {
        return Err(Error::input(
            "the mean of the models is zero: they contradict each other",
        ));
    }
    if let Some(asked) = options.rank.filter(|asked| *asked > used) {
        notes.push(format!(
            "the tasks use a subspace of dimension {used} only, not {asked}"
        ));
    }
    let fits = |u: &Mat<f64>| -> Option<(Vec<TaskFit>, Mat<f64>)> {
        let fits = means.iter().map(|task| joint.within(task, u));
        let fits: Vec<TaskFit> = fits.collect::<Option<_>>()?;
        let weights = Mat::from_fn(tasks, u.ncols(), |t, k| fits[t].weights[k]);
        Some((fits, weights))
    };
    let (_, weights) = fits(&u).ok_or_else(failed)?;
    let (u, _) = principal(&u, &weights).ok_or_else(failed)?;
    let (fits, weights) = fits(&u).ok_or_else(failed)?;
    let seen = Seen::all(&parts, &u, &joint.common).ok_or_else(failed)?;
    let moments = means.iter().zip(&fits).map(|(task, fit)| {
        let mut all = Moments::new(u.ncols() + 2);
        for &(m, t) in &task.known {
            all.join(&seen[m].moved(&parts[m], t));
        }
        all.explain(&joint.prior, fit);
        all
    });
    let moments: Vec<Moments> = moments.collect();
    let finite = u.is_all_finite() && weights.is_all_finite();
    if !finite || !moments.iter().all(Moments::is_finite) {
        return Err(failed());
    }
    let lost = joint.lost(&means, &u, &fits);
    if lost > NOTED && used > rank {
        notes.push(format!(
            "rank {rank} cuts off {:.0} % of the weights of the tasks: rank {used} would keep all",
            100.0 * lost
        ));
    }
    let usual_factors = within.then(|| {
        let factor = |j| 1.0 / mean(&parts, |part| part.factor(None, j).powi(-2)).sqrt();
        (0..features).map(factor).collect()
    });
    let factors = means.into_iter().filter_map(|task| task.factors);
    let has_common = parts.iter().any(|part| part.space.common.is_some());
    let space = TaskSpace {
        moments,
        bias: fits.iter().map(|fit| fit.bias).collect(),
        scale: fits.iter().map(|fit| fit.scale).collect(),
        factors: within.then(|| factors.flatten().collect()),
        usual_factors,
        common: has_common.then_some(joint.common),
    };
    let own = MultitaskCard {
        standardize: match within {
            true => Standardize::Task,
            false => cards[0].standardize,
        },
        common_ridge: has_common.then(|| {
            let ridges = cards.iter().filter_map(|card| card.common_ridge);
            ridges.fold(0.0, f64::max)
        }),
        prior: joint.prior,
        ..cards[0].clone()
    };
    let columns = |card: &MultitaskCard| (card.task_column.clone(), card.target_column.clone());
    if cards.iter().any(|card| columns(card) != columns(cards[0])) {
        notes.push(format!(
            "the models learned from tables with different columns: the merged one reads `{}` and \
             `{}`",
            own.task_column, own.target_column
        ));
    }
    let preprocess = sides[0].preprocess.clone();
    let mut model = Model::multitask(&u, &weights, names(sides)?, preprocess, space, own)?;
    model.card = Card {
        regularization: Some(joint.prior.ridge),
        ..card
    };
    Ok(Merged { model, lost, notes })
}

/// The names of features and of tasks.
fn names(sides: [&Union; 2]) -> Result<(Ids, Ids)> {
    match sides.map(|side| &side.features) {
        [Features::Columns(features), Features::Named(tasks)] => {
            Ok((features.clone(), tasks.clone()))
        }
        _ => Err(Error::input("features and tasks have no names")),
    }
}
