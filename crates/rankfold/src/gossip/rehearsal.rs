//! A rehearsal: what goes wrong in a run, told in shares of it, so that one script serves a
//! simulation and processes on a network.

use super::graph::Graph;
use super::simulation::{Cut, Death, Faults};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The most that an agent may be slowed down.
const SLOWEST: u64 = 1000;

/// What goes wrong. Times are shares of the run: 0 is its start and 1 its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rehearsal {
    /// The chance that a message is lost. On a network, that a piece of a connection of at most
    /// 64 kB ends it halfway.
    pub loss: f64,
    /// Steps that a message is late, at most. On a network, these many times `pace`.
    pub delay: u64,
    /// Agents that stop at once, and come back from what they saved.
    pub absent: Vec<Absence>,
    /// Neighbors that do not reach each other for a while.
    pub cut: Vec<Separation>,
    /// Agents that take longer for a step than others.
    pub slow: Vec<Slowness>,
    /// Milliseconds that a step takes at least on a network, so that there is time for all
    /// this on small data. A simulation has no clock.
    pub pace: u64,
}

/// An agent that stops and comes back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absence {
    /// Who, from 0.
    pub agent: usize,
    /// When it stops; 0 for an agent that comes late.
    pub from: f64,
    /// When it is back.
    pub until: f64,
}

/// Two neighbors that do not reach each other for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Separation {
    /// Who, from 0.
    pub between: [usize; 2],
    /// From when.
    pub from: f64,
    /// To when.
    pub until: f64,
    /// On a network, whether connections stay open and carry nothing, so that only deadlines
    /// end them. In a simulation both are the same.
    #[serde(default)]
    pub silent: bool,
}

/// An agent that is slower than others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slowness {
    /// Who, from 0.
    pub agent: usize,
    /// How many times as long a step takes.
    pub times: u64,
}

impl Default for Rehearsal {
    fn default() -> Self {
        Rehearsal {
            loss: 0.0,
            delay: 0,
            absent: Vec::new(),
            cut: Vec::new(),
            slow: Vec::new(),
            pace: 5,
        }
    }
}

impl Rehearsal {
    /// Reads a script: a JSON object with the names of the fields.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| {
            let message = e.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            Error::input(format!("not a script of faults: {message}")).at_line(e.line() as u64)
        })
    }

    /// An error where the script does not fit the agents.
    pub fn check(&self, graph: &Graph) -> Result<()> {
        if !(0.0..1.0).contains(&self.loss) {
            let message = format!("`loss` must be from 0 to below 1, found {}", self.loss);
            return Err(Error::input(message));
        }
        let agents = graph.agents();
        let known = |agent: usize| match agent < agents {
            true => Ok(()),
            false => Err(Error::input(format!(
                "there is no agent {agent}: the last one is {}",
                agents - 1
            ))),
        };
        for (i, absence) in self.absent.iter().enumerate() {
            known(absence.agent)?;
            span(absence.from, absence.until)?;
            let meets = |other: &&Absence| {
                other.agent == absence.agent
                    && other.from <= absence.until
                    && absence.from <= other.until
            };
            if self.absent[..i].iter().find(meets).is_some() {
                let message = format!("agent {} is absent twice at once", absence.agent);
                return Err(Error::input(message));
            }
        }
        for separation in &self.cut {
            span(separation.from, separation.until)?;
            edge(graph, separation.between)?;
        }
        for slow in &self.slow {
            known(slow.agent)?;
            if !(1..=SLOWEST).contains(&slow.times) {
                let message = format!("`times` must be from 1 to {SLOWEST}, found {}", slow.times);
                return Err(Error::input(message));
            }
        }
        for (name, found, most) in [("pace", self.pace, 10_000), ("delay", self.delay, SLOWEST)] {
            if found > most {
                let message = format!("`{name}` must be at most {most}, found {found}");
                return Err(Error::input(message));
            }
        }
        Ok(())
    }

    /// The same for a simulation of so many slots.
    pub(crate) fn faults(&self, graph: &Graph, slots: u64) -> Result<Faults> {
        self.check(graph)?;
        let slot = |share: f64| (share * slots as f64).round() as u64;
        let deaths = self.absent.iter().map(|absence| Death {
            agent: absence.agent,
            checkpoint: slot(absence.from),
            from: slot(absence.from),
            until: slot(absence.until),
        });
        let cuts = self.cut.iter().map(|cut| {
            Ok(Cut {
                edges: vec![edge(graph, cut.between)?],
                from: slot(cut.from),
                until: slot(cut.until),
            })
        });
        Ok(Faults {
            loss: self.loss,
            delay: self.delay,
            deaths: deaths.collect(),
            cuts: cuts.collect::<Result<_>>()?,
            slow: self.slow.iter().map(|s| (s.agent, s.times)).collect(),
            ..Faults::default()
        })
    }

    /// How many times as long a step of this agent takes.
    pub fn slowness(&self, agent: usize) -> u64 {
        let own = self.slow.iter().filter(|slow| slow.agent == agent);
        own.map(|slow| slow.times).max().unwrap_or(1)
    }
}

fn span(from: f64, until: f64) -> Result<()> {
    match 0.0 <= from && from < until && until < 1.0 {
        true => Ok(()),
        false => Err(Error::input(format!(
            "`from` and `until` are shares of the run, with 0 <= from < until < 1: found {from} \
             and {until}"
        ))),
    }
}

/// The number of the edge between two agents.
fn edge(graph: &Graph, [a, b]: [usize; 2]) -> Result<usize> {
    let same = |&(i, j): &(usize, usize)| (i, j) == (a, b) || (j, i) == (a, b);
    let found = graph.edges().iter().position(same);
    found.ok_or_else(|| Error::input(format!("agents {a} and {b} are no neighbors")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = r#"{"loss": 0.1, "absent": [{"agent": 2, "from": 0.25, "until": 0.5}],
        "cut": [{"between": [1, 0], "from": 0.1, "until": 0.2}], "slow": [{"agent": 1, "times": 10}]}"#;

    #[test]
    fn shares_become_slots() {
        let graph = Graph::path(3).unwrap();
        let script = Rehearsal::parse(SCRIPT).unwrap();
        let faults = script.faults(&graph, 200).unwrap();
        assert_eq!((faults.loss, &faults.slow[..]), (0.1, &[(1, 10)][..]));
        assert_eq!(
            faults.deaths,
            [Death {
                agent: 2,
                checkpoint: 50,
                from: 50,
                until: 100
            }]
        );
        assert_eq!(
            (
                &faults.cuts[0].edges[..],
                faults.cuts[0].from,
                faults.cuts[0].until
            ),
            (&[0][..], 20, 40)
        );
        assert_eq!(
            (script.slowness(1), script.slowness(0), script.pace),
            (10, 1, 5)
        );
    }

    #[test]
    fn scripts_that_do_not_fit_are_refused() {
        let graph = Graph::path(3).unwrap();
        let refused = |text: &str| {
            let read = Rehearsal::parse(text).and_then(|script| script.check(&graph));
            read.unwrap_err().message
        };
        assert!(refused(r#"{"lost": 1}"#).contains("unknown field `lost`"));
        assert!(refused(r#"{"loss": 1}"#).contains("below 1"));
        assert!(refused(r#"{"absent":[{"agent":3,"from":0,"until":0.5}]}"#).contains("no agent 3"));
        assert!(refused(r#"{"absent":[{"agent":0,"from":0.5,"until":0.5}]}"#).contains("shares"));
        assert!(
            refused(r#"{"cut":[{"between":[0,2],"from":0,"until":0.5}]}"#).contains("neighbors")
        );
        assert!(refused(r#"{"slow":[{"agent":0,"times":0}]}"#).contains("`times`"));
        let twice =
            r#"{"absent":[{"agent":0,"from":0.1,"until":0.5},{"agent":0,"from":0.5,"until":0.6}]}"#;
        assert!(refused(twice).contains("twice"));
    }
}
