//! Biases, counts and variances of ratings, joined.
//!
//! A rating is μ + b_u + c_i + W. The mean may be moved into the biases, and a constant from those
//! of users to those of items, without a change of any rating. So all models get the same μ, and
//! each the constant by which the biases of common users and items agree best; then biases are
//! means by counts. Ratings among the ids of one model alone stay what they were.

use super::super::{CompletionCard, Knowledge, Model, Rated, RatingBiases, with_form};
use super::MergeOptions;
use super::union::Union;
use crate::batch::Variances;
use crate::form::{Factored, Form};
use crate::online::folds;
use crate::{Error, Result};

/// Biases of one model: users, items.
type Biases<'a> = [&'a [f64]; 2];

/// What each id was learned from in one model: users, items.
type Counts = [Vec<f64>; 2];

pub(super) fn joined(
    models: &[&Model],
    sides: [&Union; 2],
    options: &MergeOptions,
    notes: &mut Vec<String>,
) -> Result<Rated> {
    let known = models.iter().map(|model| match &model.knowledge {
        Knowledge::Completion(known) => Ok(known),
        other => Err(other.expected("completion")),
    });
    let known: Vec<&Rated> = known.collect::<Result<_>>()?;
    let given = |i: usize| options.weights.as_ref().map_or(1.0, |w| w[i]);
    let counts: Vec<Counts> = (0..)
        .zip(&known)
        .map(|(i, known)| {
            let side = |s: usize| {
                let count = known.biases.count[s].iter();
                count.map(|&n| given(i) * (n as f64).max(1e-3)).collect()
            };
            [side(0), side(1)]
        })
        .collect();
    let totals: Vec<f64> = counts.iter().map(|c| c[0].iter().sum()).collect();
    let all: f64 = totals.iter().sum();
    let mean = |value: &dyn Fn(&CompletionCard) -> f64| -> f64 {
        let each = known.iter().zip(&totals);
        each.map(|(known, total)| total / all * value(&known.card))
            .sum()
    };
    let first = &known[0].card;
    let same = |value: fn(&CompletionCard) -> Option<f64>| {
        let found = value(first);
        found.filter(|_| known.iter().all(|known| value(&known.card) == found))
    };
    let noises: Option<Vec<f64>> = known.iter().map(|known| known.card.noise).collect();
    let scale = known.iter().map(|known| known.card.scale);
    let scale = scale.reduce(|a, b| a.zip(b).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))));
    let card = CompletionCard {
        solver: first.solver.clone(),
        regularization: same(|card| card.regularization),
        penalty_power: same(|card| card.penalty_power),
        mean: mean(&|card| card.mean),
        baseline_mean: mean(&|card| card.baseline_mean),
        scale: scale.flatten(),
        residual: mean(&|card| card.residual * card.residual).sqrt(),
        noise: noises.map(|_| mean(&|card| card.noise.unwrap_or(0.0).powi(2)).sqrt()),
        // Names of columns are kept where all models have them from alike files.
        columns: first.columns.clone().filter(|columns| {
            known
                .iter()
                .all(|k| k.card.columns.as_ref() == Some(columns))
        }),
    };
    let join = Join {
        sides,
        counts: &counts,
    };
    let biased = known.iter().any(|known| known.biases.bias.is_some());
    let zeros: Vec<[Vec<f64>; 2]> = counts
        .iter()
        .map(|c| [vec![0.0; c[0].len()], vec![0.0; c[1].len()]])
        .collect();
    let bias = biased.then(|| {
        let biases = known.iter().zip(&zeros).map(|(known, zeros)| {
            let [users, items] = known.biases.bias.as_ref().unwrap_or(zeros);
            [&users[..], &items[..]]
        });
        let means = known.iter().map(|known| known.card.mean - card.mean);
        join.levelled(&biases.collect::<Vec<_>>(), &means.collect::<Vec<_>>())
    });
    let baselines = known.iter().map(|known| {
        let [users, items] = &known.biases.baseline;
        [&users[..], &items[..]]
    });
    let means = known
        .iter()
        .map(|known| known.card.baseline_mean - card.baseline_mean);
    let baseline = join.levelled(&baselines.collect::<Vec<_>>(), &means.collect::<Vec<_>>());
    let count = |side: usize| {
        let mut out = vec![0_u64; sides[side].size];
        for (known, at) in known.iter().zip(&sides[side].at) {
            for (n, &at) in known.biases.count[side].iter().zip(at) {
                out[at as usize] = out[at as usize].saturating_add(*n);
            }
        }
        out
    };
    let sure: Option<Vec<&[Variances; 2]>> = known
        .iter()
        .map(|known| known.biases.variances.as_ref())
        .collect();
    if sure.is_none() && known.iter().any(|known| known.biases.variances.is_some()) {
        notes.push("how sure ratings are is not known to all models, and was left out".into());
    }
    let variances = sure.map(|sure| [0, 1].map(|side| join.variances(&sure, side, &totals)));
    Ok(Rated {
        card,
        biases: RatingBiases {
            bias,
            baseline,
            count: [count(0), count(1)],
            // Made by `folded` when W is there.
            folds: known[0].biases.folds.clone(),
            variances,
        },
    })
}

/// The same with what folding in goes by, for the W of the merged model.
pub(super) fn folded(mut known: Rated, model: &Model) -> Result<Rated> {
    let biases = &mut known.biases;
    let count = [&biases.count[0][..], &biases.count[1][..]];
    let (biased, residual) = (biases.bias.is_some(), known.card.residual);
    biases.folds = with_form!(&model.form, form => match form {
        Form::Factored(form) => folds(form, count, biased, residual),
        other => {
            let ([left, right], _) = other.view().balanced(model.rank(), 0)?;
            folds(&Factored::new(left, right), count, biased, residual)
        }
    });
    known.card.check().map_err(Error::input)?;
    Ok(known)
}

struct Join<'a> {
    sides: [&'a Union; 2],
    counts: &'a [Counts],
}

impl Join<'_> {
    /// Sums of weighted values over models, and of weights; users and items.
    fn empty(&self) -> [Vec<(f64, f64)>; 2] {
        [0, 1].map(|s| vec![(0.0, 0.0); self.sides[s].size])
    }

    fn add(
        &self,
        sums: &mut [Vec<(f64, f64)>; 2],
        model: usize,
        biases: Biases<'_>,
        shift: [f64; 2],
    ) {
        for side in 0..2 {
            let counts = &self.counts[model][side];
            for ((&at, b), n) in self.sides[side].at[model]
                .iter()
                .zip(biases[side])
                .zip(counts)
            {
                let sum = &mut sums[side][at as usize];
                sum.0 += n * (b + shift[side]);
                sum.1 += n;
            }
        }
    }

    /// The biases of all models, where `means` are their own means less the common one.
    fn levelled(&self, biases: &[Biases<'_>], means: &[f64]) -> [Vec<f64>; 2] {
        let mut sums = self.empty();
        for (model, (own, mean)) in biases.iter().zip(means).enumerate() {
            // x goes to users and mean − x to items: least squares over common ids.
            let (mut top, mut weight) = (0.0, 0.0);
            for side in 0..2 {
                let counts = &self.counts[model][side];
                for ((&at, b), n) in self.sides[side].at[model].iter().zip(own[side]).zip(counts) {
                    let (sum, other) = sums[side][at as usize];
                    if other > 0.0 {
                        let share = n * other / (n + other);
                        let off = sum / other - b;
                        top += share * if side == 0 { off } else { mean - off };
                        weight += share;
                    }
                }
            }
            let x = if weight > 0.0 {
                top / weight
            } else {
                0.5 * mean
            };
            self.add(&mut sums, model, *own, [x, mean - x]);
        }
        sums.map(|side| {
            side.into_iter()
                .map(|(sum, n)| sum / n.max(f64::MIN_POSITIVE))
                .collect()
        })
    }

    /// Of a weighted mean of independent rows the variance is Σ share² · variance.
    fn variances(&self, sure: &[&[Variances; 2]], side: usize, totals: &[f64]) -> Variances {
        let union = self.sides[side];
        let mut weight = vec![0.0; union.size];
        let each = || union.at.iter().zip(self.counts).zip(sure);
        for ((at, counts), _) in each() {
            for (&at, n) in at.iter().zip(&counts[side]) {
                weight[at as usize] += n;
            }
        }
        let all: f64 = totals.iter().sum();
        let mut out = Variances {
            line: vec![0.0; union.size],
            noise: vec![0.0; union.size],
            unknown: sure
                .iter()
                .zip(totals)
                .map(|(v, t)| t / all * v[side].unknown)
                .sum(),
        };
        for ((at, counts), sure) in each() {
            for (i, (&at, n)) in at.iter().zip(&counts[side]).enumerate() {
                let (at, own) = (at as usize, &sure[side]);
                let share = n / weight[at];
                out.line[at] += share * share * own.line[i];
                out.noise[at] += share * own.noise[i];
            }
        }
        out
    }
}
