//! How far predicted values are from given ones.

use super::inputs::check;
use crate::data::{Labelled, ValuedPair};
use crate::form::Side;
use crate::model::{Knowledge, Metrics, Model};
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

impl Model {
    /// The mean of the values that a model of pairs was trained on: what it predicts
    /// of a row it knows nothing of.
    pub fn target_mean(&self) -> Option<f64> {
        match self.knowledge {
            Knowledge::Pairs { target_mean } => Some(target_mean),
            _ => None,
        }
    }

    /// Measures a model of pairs on pairs of these rows, or of rows and objects.
    pub fn evaluate_pairs<R: Real>(
        &self,
        rows: &Labelled<R>,
        objects: Option<&Labelled<R>>,
        pairs: &[ValuedPair],
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
        let unknown = left.unknown_entries + other.map_or(0, |o| o.unknown_entries);
        let mut found = Evaluation::new(model, pairs.len(), "pairs");
        found.baselines.push(Baseline::new("mean", usual));
        Ok(found.unknown_entries(unknown))
    }
}
