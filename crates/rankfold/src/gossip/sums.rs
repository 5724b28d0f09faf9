//! Sums over the data of all agents, asked for by one of them.

use crate::Result;

/// What agents that keep their data can still know together.
pub trait Sums {
    /// The sums over all agents of `count` numbers that each of them has. `own` gives those
    /// of this agent, and is not asked where the sums are known already. All agents ask
    /// for the same things in the same order; `what` names one of them.
    fn sum(
        &mut self,
        what: &'static str,
        count: usize,
        own: &mut dyn FnMut() -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>>;

    /// How many agents there are.
    fn agents(&self) -> usize;
}

/// An agent without others: sums are its own numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Sums for Alone {
    fn sum(
        &mut self,
        _: &'static str,
        _: usize,
        own: &mut dyn FnMut() -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        own()
    }

    fn agents(&self) -> usize {
        1
    }
}
