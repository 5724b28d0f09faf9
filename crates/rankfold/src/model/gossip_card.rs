//! What a model of gossip says about the run.

use serde::{Deserialize, Serialize};

/// How agents agreed on a subspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GossipCard {
    /// How many there were.
    pub agents: u64,
    /// Who talked to whom.
    pub graph: String,
    /// The weight of squared distances between neighbors.
    pub rho: f64,
    /// Which edges a slot used.
    pub schedule: String,
    /// a and b of the steps a/(1 + bk), where agents did not choose themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<(f64, f64)>,
    /// Whether these were scaled.
    pub precondition: bool,
    /// Whether agents had plain matrices instead of subspaces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub euclidean: bool,
    /// Slots.
    pub slots: u64,
    /// The cost of all agents at the end.
    pub cost: f64,
    /// The largest distance between neighbors at the end.
    pub consensus: f64,
    /// Messages sent.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whose model this is; without it, that of the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<u64>,
    /// The name of the agent, where agents talked over a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
