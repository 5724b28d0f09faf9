//! How far predicted values are from given ones.

use super::inputs::check;
use crate::data::{Labelled, ValuedPair};
use crate::form::Side;
use crate::model::{Knowledge, Metrics, Model};
use crate::task::groups::{Group, Grouping};
use crate::task::run::{Baseline, Evaluation};
use crate::{Error, Real, Result};

/// `rmse` and `mae` from predictions beside values; not a number without any.
pub(super) fn errors(pairs: impl Iterator<Item = (f64, f64)>) -> Metrics {
    let (mut squares, mut sizes, mut count) = (0.0, 0.0, 0_u64);
    for (found, wanted) in pairs {
        let error = found - wanted;
        squares += error * error;
        sizes += error.abs();
        count += 1;
    }
    let count = count as f64;
    [("rmse", (squares / count).sqrt()), ("mae", sizes / count)]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

/// Passes over the pairs: the means of the two sides depend on each other.
const PASSES: usize = 10;

/// Values from the mean of known ones and how far those of either thing lie from it, drawn
/// to it as if each thing had one more pair there. Things of one kind have one such number,
/// on whichever side they stand.
struct SideMeans {
    mean: f64,
    /// Where the numbers of the right side begin.
    right: usize,
    numbers: Vec<f64>,
}

impl SideMeans {
    fn new(known: &[ValuedPair], left: usize, objects: Option<usize>) -> Self {
        let total: f64 = known.iter().map(|pair| pair.value).sum();
        let mut means = SideMeans {
            mean: total / known.len() as f64,
            right: objects.map_or(0, |_| left),
            numbers: vec![0.0; left + objects.unwrap_or(0)],
        };
        let mut pass = |sides: &[usize]| {
            let mut sums = vec![(0.0, 1.0); means.numbers.len()];
            for pair in known {
                let places = means.places(pair);
                let rest = pair.value - means.value(pair);
                for &side in sides {
                    let (sum, count) = &mut sums[places[side]];
                    *sum += rest + means.numbers[places[side]];
                    *count += 1.0;
                }
            }
            for (number, (sum, count)) in means.numbers.iter_mut().zip(sums) {
                // The other side keeps its numbers.
                if count > 1.0 {
                    *number = sum / count;
                }
            }
        };
        for _ in 0..PASSES {
            match objects {
                Some(_) => [[0], [1]].iter().for_each(|side| pass(side)),
                None => pass(&[0, 1]),
            }
        }
        means
    }

    fn places(&self, pair: &ValuedPair) -> [usize; 2] {
        [pair.left as usize, self.right + pair.right as usize]
    }

    fn value(&self, pair: &ValuedPair) -> f64 {
        let [left, right] = self.places(pair);
        self.mean + self.numbers[left] + self.numbers[right]
    }
}

/// Errors of pairs with small and with large values: a quarter of the pairs each.
fn by_value(pairs: &[ValuedPair], score: impl Fn(&ValuedPair) -> f64, mean: f64) -> Grouping {
    let mut sorted: Vec<&ValuedPair> = pairs.iter().collect();
    sorted.sort_by(|a, b| a.value.total_cmp(&b.value));
    let mut out = Grouping::new("value", "rmse", "pairs", Some("mean"));
    let quarter = |i: usize| sorted.len() * i / 4;
    for part in (0..4).map(|i| &sorted[quarter(i)..quarter(i + 1)]) {
        if let (Some(first), Some(last)) = (part.first(), part.last()) {
            let rmse = |found: &dyn Fn(&ValuedPair) -> f64| {
                errors(part.iter().map(|pair| (found(pair), pair.value)))["rmse"]
            };
            out.groups.push(Group {
                name: format!("{:.4} to {:.4}", first.value, last.value),
                count: part.len(),
                value: rmse(&score),
                baseline: Some(rmse(&|_| mean)),
            });
        }
    }
    out
}

impl Model {
    /// The mean of the values that a model of pairs was trained on: what it predicts
    /// of a row it knows nothing of.
    pub fn target_mean(&self) -> Option<f64> {
        match self.knowledge {
            Knowledge::Pairs { target_mean } => Some(target_mean),
            _ => None,
        }
    }

    /// Measures a model of pairs on pairs of these rows, or of rows and objects. With pairs
    /// that it learned from, the means of both sides are a baseline as well.
    pub fn evaluate_pairs<R: Real>(
        &self,
        rows: &Labelled<R>,
        objects: Option<&Labelled<R>>,
        pairs: &[ValuedPair],
        train: Option<&[ValuedPair]>,
    ) -> Result<Evaluation> {
        let Some(mean) = self.target_mean() else {
            return Err(Error::input(format!(
                "a model for {} predicts no values of pairs",
                self.task()
            )));
        };
        if self.objects.is_some() && objects.is_none() {
            return Err(Error::input(
                "the model scores rows with objects, found none",
            ));
        }
        let right = objects.unwrap_or(rows).rows.len();
        check(pairs, rows.rows.len(), right)?;
        if let Some(train) = train {
            check(train, rows.rows.len(), right).map_err(|e| e.about("training pairs"))?;
        }
        let prepare = |data: &Labelled<R>, side| {
            self.prepare_side::<R>(data.rows.clone(), &data.features, side)
        };
        let left = prepare(rows, Side::Left)?;
        let other = match objects {
            Some(objects) => Some(prepare(objects, Side::Right).map_err(|e| e.about("objects"))?),
            None => None,
        };
        let projection = match &other {
            Some(right) => self.project_between(&left, right, None)?,
            None => self.project(&left, None)?,
        };
        let score = |pair: &ValuedPair| projection.score(pair.left as usize, pair.right as usize);
        let model = errors(pairs.iter().map(|pair| (score(pair), pair.value)));
        let usual = errors(pairs.iter().map(|pair| (mean, pair.value)));
        let unknown = left.unknown_entries + other.as_ref().map_or(0, |o| o.unknown_entries);
        let mut found = Evaluation::new(model, pairs.len(), "pairs");
        found.baselines.push(Baseline::new("mean", usual));
        found.groupings = vec![by_value(pairs, score, mean)];
        if let Some(train) = train {
            let means = SideMeans::new(train, rows.rows.len(), objects.map(|o| o.rows.len()));
            let sides = errors(pairs.iter().map(|pair| (means.value(pair), pair.value)));
            found.baselines.push(Baseline::new("sides", sides));
        }
        Ok(found.unknown_entries(unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(left: u32, right: u32, value: f64) -> ValuedPair {
        ValuedPair { left, right, value }
    }

    #[test]
    fn the_means_of_two_sides_explain_sums_up_to_what_they_are_drawn_back() {
        let value = |i: u32, j: u32| 10.0 + f64::from(i) - 2.0 * f64::from(j);
        let known: Vec<_> = (0..400)
            .filter(|n| n % 7 != 3)
            .map(|n| (n / 20, n % 20))
            .map(|(i, j)| pair(i, j, value(i, j)))
            .collect();
        let means = SideMeans::new(&known, 21, Some(20));
        for n in (0..400).filter(|n| n % 7 == 3) {
            let (i, j) = (n / 20, n % 20);
            let found = means.value(&pair(i, j, 0.0));
            assert!((found - value(i, j)).abs() < 2.0, "{i} {j}: {found}");
        }
        // Of row 20 nothing is known: the mean, and what is known of the other side.
        let unknown = means.value(&pair(20, 4, 0.0)) - means.numbers[21 + 4];
        assert!((unknown - means.mean).abs() < 1e-9);
    }

    #[test]
    fn things_of_one_kind_have_one_number() {
        let value = |i: u32, j: u32| f64::from(i) + f64::from(j);
        let known: Vec<_> = (0..100)
            .map(|n| (n / 10, n % 10))
            .filter(|(i, j)| i < j)
            .map(|(i, j)| pair(i, j, value(i, j)))
            .collect();
        let means = SideMeans::new(&known, 10, None);
        let turned = means.value(&pair(7, 2, 0.0));
        assert!((turned - 9.0).abs() < 0.5, "{turned}");
    }
}
