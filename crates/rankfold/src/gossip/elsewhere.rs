//! A run of agents that live elsewhere: the slots of a [`Simulation`], the same edges in the same
//! order, and agents that are asked for their turns. All that is here are their states.
//!
//! An agent is asked once a slot. It gets what its neighbor said and gives its state, which has the
//! subspace that its neighbors will hear; its data stays where it is.
//!
//! [`Simulation`]: super::Simulation

use super::agent::portrait;
use super::graph::Graph;
use super::pace;
use super::seat::{Place, Portrait, Sent, Turn};
use super::simulation::{
    EDGES, FAULTS, Parsed, Settings, Status, Steps, identity, status, written,
};
use crate::manifold::Grassmann;
use crate::random::Random;
use crate::{Error, Result};
use faer::Mat;
use std::sync::Mutex;

/// Where agents live, by their numbers. Each is a [`Seat`](super::Seat).
pub trait Elsewhere: Send {
    /// Gives each agent its bytes, before anything is asked.
    fn deal(&mut self, places: Vec<Vec<u8>>) -> Result<()>;

    /// The states of all agents at their starts.
    fn begin(&mut self) -> Result<Vec<Vec<u8>>>;

    /// Sets all agents to these states.
    fn restore(&mut self, states: &[Vec<u8>]) -> Result<()>;

    /// Lets some agents take their turns, all at once; their states after that.
    fn turns(&mut self, turns: Vec<Turn>) -> Result<Vec<Vec<u8>>>;

    /// The own costs of all agents where they are.
    fn costs(&mut self) -> Result<Vec<f64>>;
}

/// Agents that live elsewhere.
pub(crate) struct Away<'e> {
    elsewhere: Mutex<&'e mut dyn Elsewhere>,
    states: Vec<Vec<u8>>,
    seen: Vec<Portrait>,
    graph: Graph,
    matchings: Vec<Vec<usize>>,
    rho: f64,
    rank: usize,
    settings: Settings,
    edges: Random,
    slots: u64,
    /// Why costs were not given.
    failed: Mutex<Option<Error>>,
}

impl<'e> Away<'e> {
    /// Agents with their work on a graph, from one subspace each, from one that all share, or where
    /// there is none from that of their own data; or from a checkpoint.
    pub fn new<W: Sent>(
        elsewhere: &'e mut dyn Elsewhere,
        works: &[W],
        (graph, rho, rank): (Graph, f64, usize),
        (starts, seed): (&[Mat<f64>], u64),
        settings: Settings,
        checkpoint: Option<&[u8]>,
    ) -> Result<Self> {
        let precondition = match settings.steps {
            Steps::Own => false,
            Steps::Given { precondition, .. } => precondition,
        };
        let place = |i: usize| Place {
            id: i,
            neighbors: graph.neighbors(i).to_vec(),
            rho,
            rank,
            trust: settings.trust.unwrap_or(f64::INFINITY),
            seed,
            precondition,
            start: starts.get(i.min(starts.len().max(1) - 1)).cloned(),
        };
        let places = works.iter().enumerate();
        elsewhere.deal(places.map(|(i, work)| place(i).with(work)).collect())?;
        let mut edges = Random::new(settings.seed, EDGES);
        let (states, slots) = match checkpoint {
            None => (elsewhere.begin()?, 0),
            Some(bytes) => {
                let expected = identity(&graph, rho, rank, &settings);
                let parsed = Parsed::read(bytes, &expected, works.len());
                let parsed = parsed
                    .ok_or_else(|| Error::input("this is no checkpoint of this simulation"))?;
                edges = parsed.random[0].clone();
                let states: Vec<Vec<u8>> = parsed.agents.iter().map(|s| s.to_vec()).collect();
                elsewhere.restore(&states)?;
                (states, parsed.slots)
            }
        };
        if states.len() != works.len() {
            return Err(Error::input(format!(
                "{} states of {} agents",
                states.len(),
                works.len()
            )));
        }
        let seen = states.iter().enumerate().map(|(i, state)| seen(i, state));
        Ok(Away {
            seen: seen.collect::<Result<_>>()?,
            elsewhere: Mutex::new(elsewhere),
            states,
            matchings: graph.matchings(),
            graph,
            rho,
            rank,
            settings,
            edges,
            slots,
            failed: Mutex::new(None),
        })
    }

    /// One slot, by the schedule.
    pub fn slot(&mut self) -> Result<()> {
        self.check()?;
        let schedule = self.settings.schedule;
        let edges = schedule.draw(&self.graph, &self.matchings, &mut self.edges);
        let size = match self.settings.steps {
            Steps::Own => None,
            Steps::Given { a, b, .. } => Some(pace((a, b), self.slots)),
        };
        let mut turns = Vec::with_capacity(2 * edges.len());
        for (i, j) in edges.into_iter().map(|edge| self.graph.edges()[edge]) {
            for (agent, with) in [(i, j), (j, i)] {
                turns.push(Turn {
                    agent,
                    with,
                    message: self.seen[with].message(),
                    size,
                });
            }
        }
        let agents: Vec<usize> = turns.iter().map(|turn| turn.agent).collect();
        let elsewhere = self.elsewhere.get_mut().unwrap_or_else(|e| e.into_inner());
        let states = elsewhere.turns(turns)?;
        if states.len() != agents.len() {
            let message = format!("{} states after {} turns", states.len(), agents.len());
            return Err(Error::input(message));
        }
        for (i, state) in agents.into_iter().zip(states) {
            self.seen[i] = seen(i, &state)?;
            self.states[i] = state;
        }
        self.slots += 1;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let failed = self.failed.lock().unwrap_or_else(|e| e.into_inner());
        failed.clone().map_or(Ok(()), Err)
    }

    /// How far they have come. Where costs were not given the run goes no further.
    pub fn status(&self) -> Status {
        let mut elsewhere = self.elsewhere.lock().unwrap_or_else(|e| e.into_inner());
        let costs = elsewhere.costs().unwrap_or_else(|error| {
            let mut failed = self.failed.lock().unwrap_or_else(|e| e.into_inner());
            failed.get_or_insert(error);
            vec![f64::NAN]
        });
        let subspaces: Vec<&Mat<f64>> = self.seen.iter().map(|seen| &seen.subspace).collect();
        let counters = self.seen.iter().map(|seen| seen.counters);
        let threads = self.settings.threads;
        status(
            self.slots,
            &self.graph,
            self.rho,
            &costs,
            &subspaces,
            counters,
            threads,
        )
    }

    /// All of it beside the data, as a simulation of the same agents has it.
    pub fn checkpoint(&self) -> Vec<u8> {
        let identity = identity(&self.graph, self.rho, self.rank, &self.settings);
        let random = [&self.edges, &Random::new(self.settings.seed, FAULTS)];
        let agents = self
            .states
            .iter()
            .map(|state| (true, state.clone(), &[][..]));
        written(&identity, self.slots, random, agents, &[])
    }

    /// The subspace that the run ends with.
    pub fn mean(&self) -> Result<Mat<f64>> {
        self.check()?;
        Grassmann::mean(&self.subspaces())
            .ok_or_else(|| Error::failure("the subspaces of the agents have no mean"))
    }

    /// The subspace of each agent.
    pub fn subspaces(&self) -> Vec<Mat<f64>> {
        self.seen.iter().map(|seen| seen.subspace.clone()).collect()
    }
}

fn seen(agent: usize, state: &[u8]) -> Result<Portrait> {
    let found = portrait(state).filter(|found| found.id == agent);
    found.ok_or_else(|| Error::input(format!("this is no state of agent {agent}")))
}

/// Agents on their own in one process, for tests: where `forgetful`, each is made anew for every
/// question and goes on from its last state.
#[cfg(test)]
pub(crate) struct Village {
    places: Vec<Vec<u8>>,
    seats: Vec<super::seat::Seat>,
    states: Vec<Vec<u8>>,
    forgetful: bool,
}

#[cfg(test)]
impl Village {
    pub fn new(forgetful: bool) -> Self {
        Village {
            places: Vec::new(),
            seats: Vec::new(),
            states: Vec::new(),
            forgetful,
        }
    }

    fn seat(&mut self, i: usize) -> Result<&mut super::seat::Seat> {
        if self.forgetful {
            self.seats[i] = super::seat::Seat::new(&self.places[i])?;
            self.seats[i].restore(&self.states[i])?;
        }
        Ok(&mut self.seats[i])
    }
}

#[cfg(test)]
impl Elsewhere for Village {
    fn deal(&mut self, places: Vec<Vec<u8>>) -> Result<()> {
        let seats = places.iter().map(|place| super::seat::Seat::new(place));
        self.seats = seats.collect::<Result<_>>()?;
        self.places = places;
        Ok(())
    }

    fn begin(&mut self) -> Result<Vec<Vec<u8>>> {
        let states = self.seats.iter_mut().map(|seat| seat.begin());
        self.states = states.collect::<Result<_>>()?;
        Ok(self.states.clone())
    }

    fn restore(&mut self, states: &[Vec<u8>]) -> Result<()> {
        self.states = states.to_vec();
        let mut seats = self.seats.iter_mut().zip(states);
        seats.try_for_each(|(seat, state)| seat.restore(state))
    }

    fn turns(&mut self, turns: Vec<Turn>) -> Result<Vec<Vec<u8>>> {
        let mut out = Vec::new();
        for turn in turns {
            let state = self.seat(turn.agent)?.turn(&turn)?;
            self.states[turn.agent] = state.clone();
            out.push(state);
        }
        Ok(out)
    }

    fn costs(&mut self) -> Result<Vec<f64>> {
        (0..self.seats.len())
            .map(|i| self.seat(i)?.cost())
            .collect()
    }
}
