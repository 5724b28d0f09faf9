//! Completion from a model: its W and its biases, for users and items of the same names.

use super::fit::biases_only;
use super::{Completion, CompletionLearner, Ranks};
use crate::batch::{Fitted, Lines, Observed, Part, View};
use crate::data::Features;
use crate::form::Side;
use crate::linalg::symmetric;
use crate::model::{Knowledge, Preprocess};
use crate::task::start::{Side as SideOf, Start};
use crate::{Error, Ids, Result};
use faer::Mat;

/// What a fit starts from.
pub(super) struct Given {
    pub fitted: Fitted,
    /// The rank of the fit, at least that of the start.
    pub rank: usize,
}

impl Given {
    /// As a checkpoint keeps it: both factors, the biases as columns, and the rank.
    pub fn new(blocks: Vec<Mat<f64>>, entries: &Observed) -> Result<Self> {
        let damaged = || Error::input("the checkpoint is damaged: its start is incomplete");
        let column = |m: &Mat<f64>| (0..m.nrows()).map(|i| m[(i, 0)]).collect();
        let (left, right, biases, rank) = match &blocks[..] {
            [left, right, rank] => (left, right, None, rank),
            [left, right, users, items, rank] => {
                (left, right, Some([column(users), column(items)]), rank)
            }
            _ => return Err(damaged()),
        };
        let shape = (left.nrows(), right.nrows());
        let sound = (rank.nrows(), rank.ncols()) == (1, 1) && left.ncols() == right.ncols();
        if !sound || shape != entries.shape() {
            return Err(damaged());
        }
        Ok(Given {
            fitted: Fitted {
                left: left.clone(),
                right: right.clone(),
                center: center(entries, biases.is_some()),
                biases,
            },
            rank: rank[(0, 0)] as usize,
        })
    }
}

/// What all entries have, where there are biases.
fn center(entries: &Observed, biased: bool) -> f64 {
    match biased {
        true => entries.part(Part::All).mean(),
        false => 0.0,
    }
}

impl Completion {
    /// The start of a fit from a model, and what to tell of it. Predictions for users and
    /// items that the model knows are those of the model.
    pub(super) fn started_from(
        &self,
        start: &Start,
        (users, items): (&Ids, &Ids),
        entries: &Observed,
    ) -> Result<(Vec<Mat<f64>>, Vec<String>)> {
        let Knowledge::Completion(known) = &start.model().knowledge else {
            return Err(start.model().knowledge.expected("completion"));
        };
        let biased = !self.no_bias;
        if known.biases.bias.is_some() != biased {
            let shown = |biased: bool| if biased { "biases" } else { "no biases" };
            return Err(start.error(format!(
                "the model has {}, this run has {}: expected the same, see --no-bias",
                shown(!biased),
                shown(biased)
            )));
        }
        let plain = Preprocess::default();
        let names = [users, items].map(|ids| Features::Named(ids.clone()));
        let side = |at: usize, side: Side, what| SideOf {
            side,
            features: &names[at],
            preprocess: &plain,
            size: [users, items][at].len(),
            what,
        };
        let sides = [side(0, Side::Left, "users"), side(1, Side::Right, "items")];
        let asked = match self.rank {
            Ranks::Auto => None,
            Ranks::Between(first, _) => Some(first),
        };
        let rank = start.rank_of(asked, entries.shape())?;
        // What the model lacks is grown from what it leaves of the entries.
        let of_model = rank.min(start.model().rank());
        let found = start.factors(&sides[0], Some(&sides[1]), of_model, self.seed)?;
        let mut blocks = Vec::from(found.factors);
        if self.learner == CompletionLearner::Als {
            self.take_least_penalty(&mut blocks, entries);
        }
        if let Some(theirs) = &known.biases.bias {
            let usual = biases_only(entries.part(Part::All), true, self.thread_count());
            let usual = usual.biases.expect("asked for biases");
            // The center of the run is that of its entries.
            let shift = known.card.mean - center(entries, true);
            for (at, side) in sides.iter().enumerate() {
                let found = start.found(side)?;
                let bias = |i: usize| match found.at[i] {
                    Some(there) if at == 0 => theirs[0][there as usize] + shift,
                    Some(there) => theirs[1][there as usize],
                    None => usual[at][i],
                };
                blocks.push(Mat::from_fn(found.at.len(), 1, |i, _| bias(i)));
            }
        }
        blocks.push(Mat::from_fn(1, 1, |_, _| rank as f64));
        Ok((blocks, found.note))
    }

    /// Turns factors L and R of W to those of the same W with the least penalty Σ nᵖ ‖row‖², where
    /// least squares ends: L G and R G⁻¹ with G² A G² = B for A = LᵀNL and B = RᵀNR.
    fn take_least_penalty(&self, factors: &mut [Mat<f64>], entries: &Observed) {
        let View { rows, columns, .. } = entries.part(Part::All);
        let penalty = |m: &Mat<f64>, lines: Lines<'_>| {
            let weight = |i: usize| (lines.count(i) as f64).powf(self.penalty_power);
            let weighted = Mat::from_fn(m.nrows(), m.ncols(), |i, j| match lines.count(i) {
                0 => 0.0,
                _ => weight(i) * m[(i, j)],
            });
            symmetric::part(&(m.transpose() * weighted))
        };
        let [left, right] = factors else { return };
        let (a, b) = (penalty(left, rows), penalty(right, columns));
        let turn = || {
            let (root, inverse) = (symmetric::power(&a, 0.5)?, symmetric::power(&a, -0.5)?);
            let middle = symmetric::power(&symmetric::part(&(&root * &b * &root)), 0.5)?;
            let square = symmetric::part(&(&inverse * middle * &inverse));
            Some((
                symmetric::power(&square, 0.5)?,
                symmetric::power(&square, -0.5)?,
            ))
        };
        // Without full rank any factors are as good.
        if let Some((turn, back)) = turn() {
            (*left, *right) = (&*left * turn, &*right * back);
        }
    }
}
