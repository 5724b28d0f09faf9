//! Learning together without a centre: agents that own parts of the data agree on a
//! subspace, and tell each other nothing else.
//!
//! ```text
//! minimise Σ f_i(U_i) + ρ/2 Σ dist²(U_i, U_j) over the edges (i, j) of a graph
//! ```
mod columns;
mod graph;
mod message;
mod work;

pub use columns::Columns;
pub use graph::Graph;
pub use message::{LAST_ROUND, Message, Refusal, message_size};
pub use work::{Local, Work};
