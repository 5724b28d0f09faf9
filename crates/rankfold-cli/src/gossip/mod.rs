//! `rankfold gossip`.

#[cfg(feature = "network")]
mod agent;
#[cfg(feature = "network")]
mod keys;
#[cfg(feature = "network")]
mod processes;
#[cfg(feature = "network")]
mod proxy;
#[cfg(feature = "network")]
mod rehearse;
mod run;
#[cfg(feature = "network")]
mod status;

use clap::{Args, Subcommand};
use rankfold::Result;

use crate::output::Output;

/// Learn by agents that keep their data and agree on a subspace
#[derive(Args)]
pub struct GossipCommand {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    Run(Box<run::RunAgents>),
    #[cfg(feature = "network")]
    Agent(Box<agent::RunAgent>),
    #[cfg(feature = "network")]
    Keys(keys::Keys),
    #[cfg(feature = "network")]
    Status(status::Status),
}

impl GossipCommand {
    pub fn run(self, output: &Output) -> Result<()> {
        match self.command {
            What::Run(run) => run.run(output),
            #[cfg(feature = "network")]
            What::Agent(agent) => agent.run(output),
            #[cfg(feature = "network")]
            What::Keys(keys) => keys.run(output),
            #[cfg(feature = "network")]
            What::Status(status) => status.run(output),
        }
    }
}
