//! `rankfold gossip keys`.

use std::path::PathBuf;

use clap::Args;
use rankfold::{Error, Result};
use serde_json::json;

use crate::output::Output;

/// Make a trial authority, and a certificate and a key for each agent
///
/// Writes DIR/authority.pem, and NAME.pem and NAME.key for each name. DIR/authority.key signs
/// more names when the command runs again; nobody else needs it. Organizations that have an
/// authority of their own bring their PEM files instead: the name of an agent must be a DNS
/// name in its certificate.
#[derive(Args)]
#[command(after_help = "Example:
  rankfold gossip keys keys --name a --name b --name c
      then give authority.pem to all, and a.pem and a.key to the machine of agent a only")]
pub struct Keys {
    /// The folder to write to
    dir: PathBuf,

    /// The name of an agent; once for each
    #[arg(long, value_name = "NAME", required = true)]
    name: Vec<String>,

    /// Days for which the certificates hold
    #[arg(long, value_name = "N", default_value_t = 365)]
    days: u32,
}

impl Keys {
    pub fn run(self, output: &Output) -> Result<()> {
        if !(1..=36_500).contains(&self.days) {
            let message = format!("must be from 1 to 36500, found {}", self.days);
            return Err(Error::option("days", message));
        }
        let written = rankfold_agent::make(&self.dir, &self.name, self.days)?;
        let written: Vec<String> = written.iter().map(|p| p.display().to_string()).collect();
        let json = json!({ "format": 1, "names": self.name, "files": written });
        output.result(&json, &written.join("\n"))
    }
}
