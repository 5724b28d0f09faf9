//! Gossip agents on a network: gRPC over TLS 1.3, with certificates on both sides.
//!
//! [`run`] lives the life of one agent, [`make`] makes keys for a trial, and [`status`]
//! asks a running agent how it is. The learning is in [`rankfold::task::Member`] and the
//! rules of talking in [`rankfold::gossip`]; here are sockets, clocks, files and signals.
#![warn(missing_docs)]

mod client;
mod keys;
mod life;
mod line;
mod logs;
mod metrics;
mod pieces;
mod server;
mod shared;
mod state;
mod sums;
#[cfg(test)]
mod tests;
mod tls;

/// The protocol.
mod proto {
    #![allow(missing_docs, clippy::all)]
    tonic::include_proto!("rankfold.gossip.v1");
}

pub use keys::{check_name, files, make};
pub use life::{Outcome, Settings, neighbor, run};
pub use line::Line;
pub use logs::{LogFormat, start_logs};
pub use shared::list_id;
pub use tls::Identity;

use rankfold::faer::Mat;
use rankfold::{Error, Result};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// How an agent is that answers on this address.
pub fn status(identity: &Identity, address: &str, deadline: Duration) -> Result<Value> {
    let tls = identity.load(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::failure(format!("no runtime: {e}")))?;
    runtime.block_on(client::status(tls, address, deadline))
}

/// The subspace of the agent that has ended in this state directory.
pub fn subspace_of(folder: &Path) -> Result<Mat<f64>> {
    let bytes = state::agent_bytes(folder)?;
    rankfold::gossip::checkpoint_subspace(&bytes)
        .ok_or_else(|| Error::input("this is no state of an agent").in_file(folder))
}
