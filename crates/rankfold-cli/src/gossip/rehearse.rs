//! The faults of a rehearsal among processes: bad lines between them, agents that are killed
//! and started again, and slow ones.

use std::process::Child;
use std::time::{Duration, Instant};

use rankfold::gossip::Rehearsal;
use rankfold::{Error, Result};
use rankfold_agent::Identity;

use super::proxy::{Proxy, Way};

/// Time between two questions how far the agents are.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(2);

/// Seconds that others wait for an agent that is late.
const LATE: &str = "2";

/// One agent as a rehearsal sees it.
pub struct Player {
    /// The process, where there is one.
    pub child: Option<Child>,
    /// Who may ask it for its status.
    pub identity: Identity,
    /// Where it answers.
    pub port: u16,
    /// The rounds that it is to make.
    pub rounds: u64,
}

/// Where an absence stands.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Ahead,
    Away,
    Over,
}

/// Brings about what a script says.
pub struct Director<'a> {
    script: &'a Rehearsal,
    lines: Vec<([usize; 2], Proxy)>,
    phases: Vec<Phase>,
    asked: Instant,
}

impl<'a> Director<'a> {
    /// For agents on these ports, with lines along these edges.
    pub fn new(script: &'a Rehearsal, edges: &[(usize, usize)], ports: &[u16]) -> Result<Self> {
        let mut lines = Vec::new();
        for &(a, b) in edges {
            for [from, to] in [[a, b], [b, a]] {
                let delay = Duration::from_millis(script.delay * script.pace);
                let line = Proxy::to(ports[to], script.loss, delay, from as u64);
                let line = line.map_err(|e| Error::failure(format!("no free port: {e}")))?;
                lines.push(([from, to], line));
            }
        }
        let late = |from: f64| match from == 0.0 {
            true => Phase::Away,
            false => Phase::Ahead,
        };
        Ok(Director {
            script,
            lines,
            phases: script.absent.iter().map(|a| late(a.from)).collect(),
            asked: Instant::now(),
        })
    }

    /// The port by which one agent reaches another.
    pub fn port(&self, from: usize, to: usize) -> Option<u16> {
        let line = self.lines.iter().find(|(ends, _)| *ends == [from, to]);
        line.map(|(_, proxy)| proxy.port())
    }

    /// Whether an agent is away now, and will come back.
    pub fn is_away(&self, agent: usize) -> bool {
        let absences = self.script.absent.iter().zip(&self.phases);
        absences
            .filter(|(absence, _)| absence.agent == agent)
            .any(|(_, phase)| *phase == Phase::Away)
    }

    /// More options of an agent.
    pub fn flags(&self, agent: usize) -> Vec<String> {
        let slow = self.script.pace * self.script.slowness(agent);
        let mut out = vec!["--slow".into(), slow.to_string()];
        out.extend(["--save-every".into(), "0.2".into()]);
        out.extend(["--deadline".into(), "2".into()]);
        if self.script.absent.iter().any(|absence| absence.from == 0.0) {
            out.extend(["--wait".into(), LATE.into()]);
        }
        out
    }

    /// Does what is due.
    pub fn act(
        &mut self,
        players: &mut [Player],
        start: &mut dyn FnMut(usize) -> Result<Child>,
    ) -> Result<()> {
        if self.asked.elapsed() < ASK_EVERY {
            return Ok(());
        }
        let share = progress(players);
        self.asked = Instant::now();
        for (ends, line) in &self.lines {
            let apart = self.script.cut.iter().find(|cut| {
                let [a, b] = cut.between;
                (*ends == [a, b] || *ends == [b, a]) && (cut.from..cut.until).contains(&share)
            });
            line.set(match apart {
                None => Way::Open,
                Some(cut) if cut.silent => Way::Silent,
                Some(_) => Way::Cut,
            });
        }
        for (absence, phase) in self.script.absent.iter().zip(&mut self.phases) {
            let player = &mut players[absence.agent];
            if *phase == Phase::Ahead && share >= absence.from {
                if let Some(child) = &mut player.child {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                player.child = None;
                *phase = Phase::Away;
            }
            if *phase == Phase::Away && share >= absence.until {
                player.child = Some(start(absence.agent)?);
                *phase = Phase::Over;
            }
        }
        Ok(())
    }
}

/// How far the agent has come that is ahead of the others, as a share of the run.
fn progress(players: &mut [Player]) -> f64 {
    let mut ahead: f64 = 0.0;
    let mut running = false;
    for player in players {
        let Some(child) = &mut player.child else {
            continue;
        };
        if !matches!(child.try_wait(), Ok(None)) {
            continue;
        }
        running = true;
        let address = format!("127.0.0.1:{}", player.port);
        let status = rankfold_agent::status(&player.identity, &address, ANSWER);
        let round = status.ok().and_then(|status| status["round"].as_u64());
        if let Some(round) = round {
            ahead = ahead.max(round as f64 / player.rounds.max(1) as f64);
        }
    }
    match running {
        true => ahead,
        false => 1.0,
    }
}
