//! Learning together without a center: agents that own parts of the data agree on a
//! subspace, and tell each other nothing else (Mishra and others, 2019).
//!
//! ```text
//! minimize Σ f_i(U_i) + ρ/2 Σ dist²(U_i, U_j) over the edges (i, j) of a graph
//! ```
//!
//! A [`Graph`] says who talks to whom. An [`Agent`] has [`Work`], columns of a matrix
//! ([`Columns`]) or regression tasks ([`Regressions`]), and is a state machine: a
//! [`Message`] is all that goes in and out. A [`Simulation`] lets agents run in one
//! process, over a network that may lose, delay and repeat messages. [`Euclidean`] is
//! the baseline without geometry.

mod agent;
mod alone;
mod columns;
mod euclidean;
mod graph;
mod message;
mod own;
mod regressions;
mod simulation;
#[cfg(test)]
mod tests;
mod work;

pub use agent::{Agent, Counters, Received};
pub use alone::alone;
pub use columns::Columns;
pub use euclidean::Euclidean;
pub use graph::Graph;
pub use message::{LAST_ROUND, Message, Refusal, message_size};
pub use regressions::Regressions;
pub use simulation::{Cut, Death, Faults, Schedule, Settings, Simulation, Status, Steps};
pub use work::{Local, Work};

/// a/(1 + bk).
fn pace((a, b): (f64, f64), k: u64) -> f64 {
    a / (1.0 + b * k as f64)
}
