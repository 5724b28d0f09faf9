//! Sums over all agents, asked for over the network: see [`rankfold::gossip::Accord`].

use crate::life::Network;
use rankfold::gossip::Sums;
use rankfold::{Error, Result};
use std::time::{Duration, Instant};

/// How long to leave a neighbor alone that has not begun what others are at.
const BUSY: Duration = Duration::from_millis(30);

/// How long to wait for a neighbor that should ask, before asking it.
const TURN: Duration = Duration::from_millis(300);

/// The sums of a network.
pub(crate) struct NetworkSums<'n> {
    network: &'n Network<'n>,
    agents: usize,
    /// The next stage.
    stage: u64,
    /// Whether others had agreed before.
    pub told: bool,
}

impl<'n> NetworkSums<'n> {
    /// Meets the neighbors, and finds out how many agents there are.
    pub fn meet(network: &'n Network<'n>) -> Result<Self> {
        let mut out = NetworkSums {
            network,
            agents: 1,
            stage: 0,
            told: false,
        };
        out.means("names", 0, &mut || Ok(Vec::new()))?;
        let shared = &network.shared;
        let means = out.means("the number of agents", 1, &mut || {
            let first = shared.lock().accord.least() == shared.fixed.id;
            Ok(vec![if first { 1.0 } else { 0.0 }])
        })?;
        let agents = (1.0 / means[0]).round();
        out.agents = match (1.0..1e6).contains(&agents) {
            true => agents as usize,
            false => 1,
        };
        Ok(out)
    }

    /// The means of all agents' numbers.
    fn means(
        &mut self,
        what: &'static str,
        count: usize,
        own: &mut dyn FnMut() -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        let stage = self.stage;
        self.stage += 1;
        let shared = &self.network.shared;
        // Who comes late is told by the first neighbor that it asks.
        if shared.lock().accord.result(stage).is_none() && stage > 0 {
            self.network.ask_all()?;
        }
        let known = shared.lock().accord.result(stage).is_some();
        self.told |= known;
        if !known {
            let own = own()?;
            shared.lock().accord.begin(own);
            tracing::info!("agreeing on {what}");
            self.drive(stage)?;
        }
        let inner = shared.lock();
        let found = inner.accord.result(stage).unwrap_or_default();
        match found.len() == count {
            true => Ok(found.to_vec()),
            false => Err(Error::input(format!(
                "the neighbors agreed on {} numbers where {count} are expected for {what}: all \
                 agents need the same options",
                found.len()
            ))),
        }
    }

    fn drive(&self, stage: u64) -> Result<()> {
        let (network, shared) = (self.network, &self.network.shared);
        let since = Instant::now();
        loop {
            network.go_on()?;
            let (mut ask, mut gone) = (Vec::new(), Vec::new());
            {
                let inner = shared.lock();
                if inner.accord.result(stage).is_some() {
                    return Ok(());
                }
                for neighbor in inner.neighbors.values() {
                    if neighbor.silent(since, network.settings.wait) || neighbor.leaving {
                        gone.push(neighbor.id);
                    }
                    // One end of an edge asks, so that two exchanges do not cross.
                    let turn = shared.fixed.id < neighbor.id || neighbor.silent(since, TURN);
                    if turn && !neighbor.in_flight && neighbor.next_try <= Instant::now() {
                        ask.push(neighbor.name.clone());
                    }
                }
            }
            network.check_lists(since)?;
            for id in gone {
                shared.lock().accord.forget(id);
            }
            for name in &ask {
                network.spawn_exchange(name);
                let behind = {
                    let inner = shared.lock();
                    let id = inner.neighbors.get(name).map(|n| n.id);
                    id.is_some_and(|id| inner.accord.is_behind(id))
                };
                if behind {
                    shared.put_off(name, BUSY);
                }
            }
            let inner = shared.lock();
            if inner.accord.result(stage).is_none() {
                shared.wait(inner, Duration::from_millis(5));
            }
        }
    }
}

impl Sums for NetworkSums<'_> {
    fn sum(
        &mut self,
        what: &'static str,
        count: usize,
        own: &mut dyn FnMut() -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        let agents = self.agents as f64;
        let means = self.means(what, count, own)?;
        Ok(means.into_iter().map(|mean| mean * agents).collect())
    }

    fn agents(&self) -> usize {
        self.agents
    }
}
