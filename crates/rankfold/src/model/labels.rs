//! What a model that ranks labels knows beside W: what is learned from a row, and what
//! is known of labels before a row comes.

use super::file::{Tensor, TensorFile, Tensors};
use crate::form::MOST;
use crate::{Error, Result, choices, memory};
use serde::{Deserialize, Serialize};

/// The tensors of a prior.
const BIAS: &str = "labels.bias";
const COUNT: &str = "labels.count";
const UNSEEN: &str = "labels.unseen";
const NUMBERED: &str = "labels.numbered";

choices! {
    /// Which wrong label is learned from.
    pub enum Sampler {
        /// The wrong label with the best score; of equal ones the first
        Top = "top",
        /// The first of some random labels that violates the margin
        Warp = "warp",
    }
}

impl Sampler {
    /// Steps of biases as a share of those of W that go well with it. The best wrong
    /// label is a popular one often enough, so that biases need little help.
    pub fn bias(self) -> f64 {
        match self {
            Sampler::Top => 0.001,
            Sampler::Warp => 0.01,
        }
    }

    /// The weight of the popularity of labels at the start that goes well with it.
    pub fn popularity(self) -> f64 {
        match self {
            Sampler::Top => 0.05,
            Sampler::Warp => 0.2,
        }
    }
}

choices! {
    /// How the wrong label weighs beside several right ones.
    pub enum Subgradient {
        /// Once, as the paper prints it
        Single = "single",
        /// Once for each violated right label: the subgradient of the loss
        Summed = "summed",
    }
}

/// What is learned from a row, beside the step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RankingRule {
    /// Which wrong label.
    pub sampler: Sampler,
    /// How it weighs.
    pub gradient: Subgradient,
    /// Length of the steps of biases, as a share of those of W; 0 for no biases.
    pub bias: f64,
}

/// A bias for each label, which scores of all rows have, and how often it was
/// seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prior {
    /// Part of every score of the label.
    pub bias: Vec<f64>,
    /// Rows with this label that were learned from, each counted once.
    pub count: Vec<u64>,
    /// The bias of a label that was never seen.
    pub unseen: f64,
    /// So many labels, the first ones, have a number in files beside their name.
    pub numbered: usize,
}

impl Prior {
    /// Labels that occur so often, with biases `start` · ln of the share of rows
    /// that have them (each counted once more than it occurs).
    pub fn new(count: Vec<u64>, rows: usize, start: f64) -> Self {
        let bias = |count: u64| start * ((count as f64 + 1.0) / (rows as f64 + 1.0)).ln();
        Prior {
            bias: count.iter().map(|&count| bias(count)).collect(),
            unseen: bias(0),
            count,
            numbered: 0,
        }
    }

    /// Makes room for labels up to this number.
    pub(crate) fn reserve(&mut self, labels: usize) -> Result<()> {
        let what = format!("biases of {labels} labels");
        if labels > self.bias.capacity() || labels > self.count.capacity() {
            // Room doubles, so that labels coming one by one cost little each.
            memory::require(labels as u128 * 32, &what)?;
            let more = labels.saturating_sub(self.bias.len());
            let no_memory = |_| Error::failure(format!("no memory for {what}"));
            memory::fallibly(|| self.bias.try_reserve(more)).map_err(no_memory)?;
            memory::fallibly(|| self.count.try_reserve(more)).map_err(no_memory)?;
        }
        Ok(())
    }

    /// Adds labels up to this number, never seen so far.
    pub(crate) fn grow(&mut self, labels: usize) {
        let labels = labels.max(self.bias.len());
        self.bias.resize(labels, self.unseen);
        self.count.resize(labels, 0);
    }

    pub(crate) fn tensors(&self) -> Tensors<'_> {
        vec![
            (BIAS.into(), Tensor::f64s(self.bias.clone())),
            (COUNT.into(), Tensor::u64s(self.count.clone())),
            (UNSEEN.into(), Tensor::f64s(vec![self.unseen])),
            (NUMBERED.into(), Tensor::u64s(vec![self.numbered as u64])),
        ]
    }

    /// Reads what [`Prior::tensors`] gave, for so many labels.
    pub(crate) fn read(file: &TensorFile<'_>, labels: usize) -> Result<Self> {
        let count = file.u64s(COUNT)?;
        let numbered = file.u64s(NUMBERED)?;
        let numbered = match numbered[..] {
            [n] if n <= labels as u64 => n as usize,
            _ => return Err(file.error("impossible numbers of labels")),
        };
        if count
            .iter()
            .any(|count| *count > MOST / labels.max(1) as u64)
        {
            return Err(file.error("an impossible count of labels"));
        }
        if count.len() != labels {
            return Err(file.error(format!("{} counts for {labels} labels", count.len())));
        }
        Ok(Prior {
            bias: file.f64s(BIAS, labels)?,
            count,
            unseen: file.f64s(UNSEEN, 1)?[0],
            numbered,
        })
    }
}
