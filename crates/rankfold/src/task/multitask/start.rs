//! Regressions from the subspace of a model, for features of the same names.

use super::Multitask;
use crate::data::{Features, TaskRows};
use crate::model::{Knowledge, Preprocess, Standardize};
use crate::task::start::{Side, Start};
use crate::{Error, Result};
use faer::Mat;

/// What a walk starts from.
pub(super) struct Given {
    /// U on features as they are in files: its rows times what the model multiplies them with.
    pub subspace: Mat<f64>,
    /// The weights that all tasks share, on the same features, where the model has some.
    pub common: Option<Mat<f64>>,
    pub rank: usize,
    /// How the model scales features and targets.
    pub standardize: Standardize,
}

impl Given {
    /// The subspace and the common weights.
    pub fn parts(&self) -> (Mat<f64>, Option<Mat<f64>>) {
        (self.subspace.clone(), self.common.clone())
    }

    /// As a checkpoint keeps it: U, the rank and the place of the scaling, and common weights.
    pub fn new(blocks: Vec<Mat<f64>>) -> Result<Self> {
        let damaged = || Error::input("the checkpoint is damaged: its start is incomplete");
        let (subspace, numbers, common) = match &blocks[..] {
            [subspace, numbers] => (subspace, numbers, None),
            [subspace, numbers, common] => (subspace, numbers, Some(common)),
            _ => return Err(damaged()),
        };
        let of_features = |m: &&Mat<f64>| (m.nrows(), m.ncols()) == (subspace.nrows(), 1);
        if (numbers.nrows(), numbers.ncols()) != (2, 1) || !common.iter().all(of_features) {
            return Err(damaged());
        }
        let how = Standardize::ALL.get(numbers[(1, 0)] as usize);
        Ok(Given {
            subspace: subspace.clone(),
            common: common.cloned(),
            rank: numbers[(0, 0)] as usize,
            standardize: how.copied().ok_or_else(damaged)?,
        })
    }
}

impl Multitask {
    /// The subspace of a model on these features, and what to tell of it.
    pub(super) fn started_from(
        &self,
        start: &Start,
        data: &TaskRows,
    ) -> Result<(Vec<Mat<f64>>, Vec<String>)> {
        let model = start.model();
        let Knowledge::Multitask(known) = &model.knowledge else {
            return Err(model.knowledge.expected("multitask"));
        };
        if model.card.learner == super::MultitaskLearner::Mixed.name() {
            return Err(start.error("`mixed` learned no subspace: expected a model of `grassmann`"));
        }
        let theirs = known.card.standardize;
        if let Some(asked) = self.standardize.filter(|asked| *asked != theirs) {
            return Err(start.error(format!(
                "the model scales features by `--standardize {theirs}`, this run by `{asked}`: expected the same"
            )));
        }
        let features = Features::Columns(data.features.clone());
        // Rows of U are multiplied by what the model multiplies features with.
        let plain = Preprocess::default();
        let side = Side {
            side: crate::form::Side::Left,
            features: &features,
            preprocess: &plain,
            size: data.features.len(),
            what: "features",
        };
        let found = start.found(&side)?;
        let (u, _) = model.task_factors()?;
        let subspace = found.rows(&u, (self.seed, 0));
        let rank = start.rank_of(self.rank, (data.features.len(), data.names.len()))?;
        let place = Standardize::ALL.iter().position(|how| *how == theirs);
        let numbers = [rank as f64, place.unwrap_or(0) as f64];
        let numbers = Mat::from_fn(2, 1, |i, _| numbers[i]);
        let mut blocks = vec![subspace, numbers];
        if let Some(common) = &known.space.common {
            // A feature that the model does not know has no weight yet.
            let weight = |i: usize| found.at[i].map_or(0.0, |at| common[at as usize]);
            let scaled = |i: usize| found.scale_of(i) * weight(i);
            blocks.push(Mat::from_fn(found.at.len(), 1, |i, _| scaled(i)));
        }
        Ok((blocks, found.note(&side)))
    }
}
