//! `rankfold gossip status`.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rankfold::{Error, Result};
use rankfold_agent::Identity;
use serde_json::{Value, json};

use crate::interrupt::Interrupt;
use crate::output::{Output, shown};

/// The files that say who somebody is.
#[derive(Args)]
pub struct Keyring {
    /// The certificate of the authority that all agents have, in PEM
    #[arg(long, value_name = "FILE")]
    pub authority: PathBuf,

    /// The own certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub certificate: PathBuf,

    /// The own key, in PEM
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
}

impl Keyring {
    pub fn identity(&self) -> Identity {
        Identity {
            authority: self.authority.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }
}

/// Ask a running agent how it is
///
/// Answers come to neighbors of the agent, to the agent's own certificate, and to names that
/// it was given with `--observer`.
#[derive(Args)]
#[command(after_help = "Example:
  rankfold gossip status 127.0.0.1:7001 --authority keys/authority.pem \\
      --certificate keys/a.pem --key keys/a.key --watch")]
pub struct Status {
    /// Where the agent answers; several are shown one after the other
    #[arg(value_name = "HOST:PORT", required = true)]
    address: Vec<String>,

    #[command(flatten)]
    keys: Keyring,

    /// Ask again every second, and plot cost and agreement
    #[arg(long, conflicts_with = "json")]
    watch: bool,

    /// Seconds to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    deadline: f64,
}

/// Points of the plots.
const POINTS: usize = 60;

impl Status {
    pub fn run(self, output: &Output) -> Result<()> {
        if !(self.deadline > 0.0 && self.deadline <= 3600.0) {
            let message = format!("must be from 0 to 3600, found {}", self.deadline);
            return Err(Error::option("deadline", message));
        }
        match self.watch {
            true => self.watched(output),
            false => {
                let all = self.ask()?;
                let json = match &all[..] {
                    [one] => one.clone(),
                    _ => json!({ "format": 1, "agents": all }),
                };
                let text: Vec<String> = all.iter().map(described).collect();
                output.result(&json, &text.join("\n\n"))
            }
        }
    }

    fn ask(&self) -> Result<Vec<Value>> {
        let identity = self.keys.identity();
        let deadline = Duration::from_secs_f64(self.deadline);
        let one = |address: &String| rankfold_agent::status(&identity, address, deadline);
        self.address.iter().map(one).collect()
    }

    fn watched(&self, output: &Output) -> Result<()> {
        let interrupt = Interrupt::watch();
        let clear = std::io::stdout().is_terminal();
        let mut history: Vec<[VecDeque<f64>; 2]> = vec![Default::default(); self.address.len()];
        loop {
            let all = self.ask()?;
            let mut page = String::new();
            for (status, [costs, distances]) in all.iter().zip(&mut history) {
                push(costs, status["cost"].as_f64());
                push(distances, largest_distance(status));
                page += &described(status);
                page += &format!("\ncost      {}", plot(costs));
                page += &format!("\ndistance  {}\n\n", plot(distances));
            }
            if clear {
                page = format!("\x1b[2J\x1b[H{page}");
            }
            output.raw(page.as_bytes())?;
            std::io::stdout().flush().ok();
            for _ in 0..10 {
                if interrupt.requested() {
                    return Err(Error::interrupted(""));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

fn push(points: &mut VecDeque<f64>, value: Option<f64>) {
    if let Some(value) = value {
        points.push_back(value);
        if points.len() > POINTS {
            points.pop_front();
        }
    }
}

/// A row of bars from the least to the largest, on a logarithmic scale where that is
/// possible.
fn plot(points: &VecDeque<f64>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let positive = points.iter().all(|&v| v > 0.0);
    let scaled = |v: f64| if positive { v.ln() } else { v };
    let values: Vec<f64> = points.iter().map(|&v| scaled(v)).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let range = values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    let bar = |v: &f64| match range > 0.0 {
        true => BARS[(((v - least) / range) * 7.0).round().clamp(0.0, 7.0) as usize],
        false => BARS[0],
    };
    let bars: String = values.iter().map(bar).collect();
    let last = points
        .back()
        .map_or(String::new(), |v| format!("  {}", shown(*v)));
    bars + &last
}

fn largest_distance(status: &Value) -> Option<f64> {
    let neighbors = status["neighbors"].as_object()?.values();
    neighbors
        .filter_map(|n| n["distance"].as_f64())
        .reduce(f64::max)
}

fn described(status: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    };
    let number = |value: &Value| value.as_f64().map_or("-".into(), shown);
    let mut out = format!(
        "{}: {}, round {}, cost {}, {} letters of {} bytes",
        text(&status["name"]),
        text(&status["phase"]),
        text(&status["round"]),
        number(&status["cost"]),
        text(&status["messages"]),
        text(&status["bytes"]),
    );
    for (name, n) in status["neighbors"].as_object().into_iter().flatten() {
        let done = match (n["leaving"].as_bool(), n["done"].as_bool()) {
            (Some(true), _) => ", has left",
            (_, Some(true)) => ", done",
            _ => "",
        };
        out += &format!(
            "\n  {name}: distance {}, round {}, sent {}, received {}, failed {}{done}",
            number(&n["distance"]),
            text(&n["last_round"]),
            text(&n["sent_bytes"]),
            text(&n["received_bytes"]),
            text(&n["failed"]),
        );
    }
    let refused = status["refused"].as_object().into_iter().flatten();
    let refused: Vec<String> = refused.map(|(why, n)| format!("{why} {n}")).collect();
    match refused.is_empty() {
        true => out + "\n  nothing was refused",
        false => format!("{out}\n  refused: {}", refused.join(", ")),
    }
}
