//! What models of labels, classes, pairs and kernels know beside W, joined.

use super::super::{ClassScore, Classes, Knowledge, Model, Prior, Ranked};
use super::union::{Union, multiplier};
use crate::{Error, Ids, Result, SparseVec};

pub(super) fn joined(models: &[&Model], sides: [&Union; 2], examples: &[f64]) -> Result<Knowledge> {
    let total: f64 = examples.iter().sum();
    let mean = |value: &dyn Fn(&Model) -> f64| -> f64 {
        let each = models.iter().zip(examples);
        each.map(|(model, n)| n / total * value(model)).sum()
    };
    match &models[0].knowledge {
        Knowledge::Similarity(None) => {
            match models
                .iter()
                .all(|m| matches!(m.knowledge, Knowledge::Similarity(None)))
            {
                true => Ok(Knowledge::Similarity(None)),
                false => Err(Error::input(
                    "one model compares rows by classes, another does not: expected the same",
                )),
            }
        }
        Knowledge::Similarity(Some(_)) => {
            Ok(Knowledge::Similarity(Some(classes(models, sides[0])?)))
        }
        Knowledge::Metric => Ok(Knowledge::Metric),
        Knowledge::Pairs { .. } => Ok(Knowledge::Pairs {
            target_mean: mean(&|model| match model.knowledge {
                Knowledge::Pairs { target_mean } => target_mean,
                _ => 0.0,
            }),
        }),
        Knowledge::Ranking(_) => labels(models, sides[1], examples).map(Knowledge::Ranking),
        Knowledge::Kernel(card) => {
            let mut card = card.clone();
            for model in &models[1..] {
                let Knowledge::Kernel(other) = &model.knowledge else {
                    return Err(Error::input(
                        "a kernel cannot be merged with a map: expected one kind",
                    ));
                };
                card.constraints += other.constraints;
                card.violated += other.violated;
                card.drawn = card.drawn.zip(other.drawn).map(|(a, b)| a + b);
                if card.function != other.function {
                    card.function = None;
                }
            }
            Ok(Knowledge::Kernel(card))
        }
        Knowledge::Completion(_)
        | Knowledge::Recommend(_)
        | Knowledge::Map(_)
        | Knowledge::Multitask(_) => Err(Error::input("these models cannot be merged")),
    }
}

/// Biases of labels are means by counts.
fn labels(models: &[&Model], union: &Union, examples: &[f64]) -> Result<Ranked> {
    let known = models.iter().map(|model| match &model.knowledge {
        Knowledge::Ranking(known) => Ok(known),
        other => Err(other.expected("ranking")),
    });
    let known: Vec<&Ranked> = known.collect::<Result<_>>()?;
    let mut prior = Prior {
        bias: vec![0.0; union.size],
        count: vec![0; union.size],
        unseen: 0.0,
        numbered: known.iter().map(|k| k.prior.numbered).max().unwrap_or(0),
    };
    let mut weight = vec![0.0; union.size];
    let total: f64 = examples.iter().sum();
    for ((known, at), n) in known.iter().zip(&union.at).zip(examples) {
        let own = &known.prior;
        // Where files call labels by number, a number must mean one label.
        let moved = (0..own.numbered).find(|&i| at[i] as usize != i);
        if let Some(i) = moved {
            return Err(Error::input(format!(
                "label number {i} of one model is another label in the first: \
                 expected models of files that number labels alike"
            )));
        }
        prior.unseen += n / total * own.unseen;
        for (i, &at) in at.iter().enumerate() {
            let at = at as usize;
            let share = (own.count[i] as f64).max(1e-3);
            prior.bias[at] += share * own.bias[i];
            weight[at] += share;
            prior.count[at] = prior.count[at].saturating_add(own.count[i]);
        }
    }
    let biases = prior.bias.iter_mut().zip(weight);
    biases.for_each(|(bias, weight)| *bias /= weight.max(f64::MIN_POSITIVE));
    Ok(Ranked {
        rule: known[0].rule,
        prior,
    })
}

/// Sums of classes add up, in the coordinates of the joined preprocessing.
fn classes(models: &[&Model], union: &Union) -> Result<Classes> {
    let mut names = Ids::new();
    let mut wide: Vec<Vec<f64>> = Vec::new();
    let mut counts: Vec<u64> = Vec::new();
    let (mut temperature, mut mixture, mut rows) = (0.0, 0.0, 0.0);
    for (model, at) in models.iter().zip(&union.at) {
        let Knowledge::Similarity(Some(own)) = &model.knowledge else {
            return Err(Error::input(
                "one model compares rows by classes, another does not: expected the same",
            ));
        };
        let n = own.counts.iter().sum::<u64>().max(1) as f64;
        temperature += n * own.score.temperature;
        mixture += n * own.score.mixture;
        rows += n;
        let mean = |p: &super::super::Preprocess, j: usize| p.mean.as_ref().map_or(0.0, |m| m[j]);
        let scale = |p: &super::super::Preprocess, j: usize| p.scale.as_ref().map_or(1.0, |s| s[j]);
        for (c, name) in own.names.iter().enumerate() {
            let to = names.intern(name) as usize;
            if to == wide.len() {
                wide.push(vec![0.0; union.size]);
                counts.push(0);
            }
            counts[to] = counts[to].saturating_add(own.counts[c]);
            for (j, v) in own.sums()[c].as_row().iter() {
                let (i, j) = (j as usize, at[j as usize] as usize);
                let own = multiplier(&model.preprocess, i);
                let ratio = match own == 0.0 {
                    true => 1.0,
                    false => multiplier(&union.preprocess, j) / own,
                };
                wide[to][j] += ratio * v;
            }
            if union.preprocess.mean.is_some() && !union.preprocess.steps.normalize {
                for (i, &j) in at.iter().enumerate() {
                    let off = mean(&model.preprocess, i) - mean(&union.preprocess, j as usize);
                    let scale = scale(&union.preprocess, j as usize);
                    wide[to][j as usize] += own.counts[c] as f64 * off * scale;
                }
            }
        }
    }
    if names.len() > Classes::MOST {
        return Err(Error::input(format!(
            "the models have {} classes together: expected {} at most",
            names.len(),
            Classes::MOST
        )));
    }
    let score = ClassScore {
        temperature: temperature / rows,
        mixture: mixture / rows,
    };
    let sums = wide.iter().map(|sum| {
        let entries = (0..).zip(sum).filter(|(_, v)| **v != 0.0);
        SparseVec::from_entries(entries.map(|(j, v)| (j, *v)).collect())
    });
    Ok(Classes::of_sums(names, counts, sums.collect(), score))
}
