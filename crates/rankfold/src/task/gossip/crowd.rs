//! Agents of either geometry, as a run sees them.

use crate::Result;
use crate::gossip::{Euclidean, Simulation, Status, Work};
use faer::Mat;

/// The agents of a run.
pub(super) enum Crowd<W> {
    /// With subspaces.
    Grassmann(Simulation<W>),
    /// With plain matrices.
    Euclidean(Euclidean<W>),
}

impl<W: Work + Clone> Crowd<W> {
    /// One slot, by the schedule.
    pub fn slot(&mut self) -> Result<()> {
        match self {
            Crowd::Grassmann(agents) => agents.slot(),
            Crowd::Euclidean(agents) => {
                agents.slot();
                Ok(())
            }
        }
    }

    /// How far they have come.
    pub fn status(&self) -> Status {
        match self {
            Crowd::Grassmann(agents) => agents.status(),
            Crowd::Euclidean(agents) => agents.status(),
        }
    }

    /// All that they know beside the data.
    pub fn checkpoint(&self) -> Vec<u8> {
        match self {
            Crowd::Grassmann(agents) => agents.checkpoint(),
            Crowd::Euclidean(agents) => agents.checkpoint(),
        }
    }

    /// The subspace that the run ends with.
    pub fn mean(&self) -> Result<Mat<f64>> {
        match self {
            Crowd::Grassmann(agents) => agents.mean(),
            Crowd::Euclidean(agents) => agents.mean(),
        }
    }

    /// The subspace of each agent.
    pub fn subspaces(&self) -> Result<Vec<Mat<f64>>> {
        match self {
            Crowd::Grassmann(agents) => {
                let agents = agents.agents().iter();
                Ok(agents.map(|agent| agent.subspace().clone()).collect())
            }
            Crowd::Euclidean(agents) => agents.subspaces(),
        }
    }

    /// What each agent owns.
    pub fn works(&self) -> Vec<&W> {
        match self {
            Crowd::Grassmann(agents) => agents.agents().iter().map(|a| a.work()).collect(),
            Crowd::Euclidean(agents) => agents.works().iter().collect(),
        }
    }
}
