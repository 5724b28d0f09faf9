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
//! process, over a network that may lose, delay and repeat messages. [`Elsewhere`] has agents that
//! live apart, each a [`Seat`], in the same slots. [`Euclidean`] is the baseline without geometry.
//!
//! On a real network a [`Letter`] is all that goes from one agent to another: what it
//! says in an [`Accord`] on numbers that concern all, names of items, and a subspace as a
//! [`Parcel`].

mod accord;
mod agent;
mod alone;
mod columns;
mod elsewhere;
mod euclidean;
mod graph;
mod letter;
mod members;
mod message;
mod own;
mod parcel;
mod regressions;
mod rehearsal;
mod seat;
mod simulation;
mod sums;
#[cfg(test)]
mod tests;
mod work;

pub use accord::{Accord, Content, Statement};
pub use agent::{Agent, Counters, Received, checkpoint_subspace};
pub use alone::alone;
pub use columns::Columns;
pub(crate) use elsewhere::Away;
pub use elsewhere::Elsewhere;
#[cfg(test)]
pub(crate) use elsewhere::Village;
pub use euclidean::Euclidean;
pub use graph::Graph;
pub use letter::{Letter, name_id};
pub use message::{LAST_ROUND, Message, Refusal, message_size};
pub use parcel::{Limits, MessagePrecision, Parcel, Snapshot};
pub use regressions::Regressions;
pub use rehearsal::{Absence, Rehearsal, Separation, Slowness};
pub(crate) use seat::Sent;
pub use seat::{Seat, Turn};
pub use simulation::{Cut, Death, Faults, Schedule, Settings, Simulation, Status, Steps};
pub use sums::{Alone, Sums};
pub use work::{Local, Work};

/// a/(1 + bk).
fn pace((a, b): (f64, f64), k: u64) -> f64 {
    a / (1.0 + b * k as f64)
}
