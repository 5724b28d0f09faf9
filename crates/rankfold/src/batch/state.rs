//! The state of a solver between two iterations, as named matrices and numbers.
//!
//! An observer takes it from an [`Iteration`](super::Iteration), and the solver resumes
//! from it. The law: n + m iterations at once give the bits of n iterations and m more
//! from the state, and end for the same reason. A state holds what the solver learned
//! on its way. It does not hold the data or the options, which the caller gives again.

use crate::manifold::Blocks;
use crate::{Error, Result};
use faer::Mat;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a solver needs to go on, between two iterations.
///
/// Serde writes all but the blocks, which are stored as tensors under their names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SolverState {
    /// The solver that it belongs to.
    pub solver: String,
    /// Iterations done.
    pub iteration: usize,
    /// Finite numbers; one that is infinite is absent.
    pub numbers: BTreeMap<String, f64>,
    /// Matrices, all finite.
    #[serde(skip)]
    pub blocks: BTreeMap<String, Mat<f64>>,
    /// The state of a solver that has a format of its own.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

impl SolverState {
    pub(crate) fn new(solver: &str, iteration: usize) -> Self {
        SolverState {
            solver: solver.to_owned(),
            iteration,
            numbers: BTreeMap::new(),
            blocks: BTreeMap::new(),
            bytes: Vec::new(),
        }
    }

    /// The same with these bytes.
    pub(crate) fn with_bytes(self, bytes: Vec<u8>) -> Self {
        SolverState { bytes, ..self }
    }

    /// The same with one number more.
    pub fn with_number(mut self, name: &str, value: f64) -> Self {
        if value.is_finite() {
            self.numbers.insert(name.to_owned(), value);
        }
        self
    }

    /// The same with one matrix more.
    pub fn with_block(mut self, name: &str, block: Mat<f64>) -> Self {
        self.blocks.insert(name.to_owned(), block);
        self
    }

    /// The same with a list of matrices, which are numbered from 0.
    pub fn with_blocks(mut self, name: &str, blocks: &[Mat<f64>]) -> Self {
        for (i, block) in blocks.iter().enumerate() {
            self = self.with_block(&format!("{name}.{i}"), block.clone());
        }
        self
    }

    /// A column.
    pub(super) fn with_column(self, name: &str, column: &[f64]) -> Self {
        let block = Mat::from_fn(column.len(), 1, |i, _| column[i]);
        self.with_block(name, block)
    }

    /// That it belongs to this solver and is finite.
    pub(super) fn check(&self, solver: &str) -> Result<()> {
        if self.solver != solver {
            return Err(Error::input(format!(
                "expected the state of `{solver}`, found that of `{}`",
                self.solver
            )));
        }
        let numbers = self.numbers.iter().filter(|(_, v)| !v.is_finite());
        let blocks = self.blocks.iter().filter(|(_, b)| !b.is_all_finite());
        let names = numbers.map(|(name, _)| name);
        match names.chain(blocks.map(|(name, _)| name)).next() {
            None => Ok(()),
            Some(name) => Err(self.wrong(format!("`{name}` is not finite"))),
        }
    }

    fn wrong(&self, what: String) -> Error {
        Error::input(format!("the state of `{}`: {what}", self.solver))
    }

    /// A number that must be there.
    pub(crate) fn number(&self, name: &str) -> Result<f64> {
        let found = self.numbers.get(name).copied();
        found.ok_or_else(|| self.wrong(format!("`{name}` is missing")))
    }

    /// A number that is infinite where it is absent.
    pub(super) fn number_or_infinity(&self, name: &str) -> f64 {
        self.numbers.get(name).copied().unwrap_or(f64::INFINITY)
    }

    /// A matrix of this shape.
    pub(crate) fn block(&self, name: &str, shape: (usize, usize)) -> Result<&Mat<f64>> {
        let found = self.blocks.get(name);
        let block = found.ok_or_else(|| self.wrong(format!("`{name}` is missing")))?;
        match (block.nrows(), block.ncols()) == shape {
            true => Ok(block),
            false => Err(self.wrong(format!(
                "`{name}` is {} by {}, expected {} by {}",
                block.nrows(),
                block.ncols(),
                shape.0,
                shape.1
            ))),
        }
    }

    /// A list of matrices of these shapes.
    pub(super) fn blocks(&self, name: &str, shapes: &[(usize, usize)]) -> Result<Blocks> {
        let block = |(i, &shape)| self.block(&format!("{name}.{i}"), shape).cloned();
        shapes.iter().enumerate().map(block).collect()
    }

    /// A column of this length.
    pub(super) fn column(&self, name: &str, rows: usize) -> Result<Vec<f64>> {
        let block = self.block(name, (rows, 1))?;
        Ok((0..rows).map(|i| block[(i, 0)]).collect())
    }
}
