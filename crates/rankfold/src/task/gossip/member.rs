//! An agent of a network at work: it steps, hears, grows, and makes its model.

use super::site::Site;
use super::site_ratings::RatingSite;
use super::site_tasks::TaskSite;
use crate::gossip::{Counters, Snapshot};
use crate::model::GossipCard;
use crate::task::run::{Fit, Report, Stop, Unit};
use crate::{Ids, Real, Result};
use faer::Mat;

/// What an agent owns, and the agent itself.
pub(super) enum Owned<'a> {
    Ratings(Box<RatingSite>),
    Tasks(Box<TaskSite<'a>>),
}

/// Asks the agent, whatever it owns.
macro_rules! agent {
    ($this:expr, $agent:ident => $what:expr) => {
        match &$this.owned {
            Owned::Ratings(site) => {
                let $agent = &site.agent;
                $what
            }
            Owned::Tasks(site) => {
                let $agent = &site.agent;
                $what
            }
        }
    };
    (mut $this:expr, $agent:ident => $what:expr) => {
        match &mut $this.owned {
            Owned::Ratings(site) => {
                let $agent = &mut site.agent;
                $what
            }
            Owned::Tasks(site) => {
                let $agent = &mut site.agent;
                $what
            }
        }
    };
}

/// How a run of an agent ended, for its model and its report.
#[derive(Debug, Clone)]
pub struct Ending {
    /// Its name.
    pub name: String,
    /// How many neighbors it had.
    pub neighbors: usize,
    /// Why it ended.
    pub stopped: Stop,
    /// Its rounds.
    pub rounds: u64,
    /// Messages sent.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// An agent of a network.
pub struct Member<'a> {
    options: Site,
    owned: Owned<'a>,
    rho: f64,
    agents: usize,
}

impl<'a> Member<'a> {
    pub(super) fn new(options: Site, owned: Owned<'a>, rho: f64, agents: usize) -> Self {
        Member {
            options,
            owned,
            rho,
            agents,
        }
    }

    /// ρ.
    pub fn rho(&self) -> f64 {
        self.rho
    }

    /// λ.
    pub fn regularization(&self) -> f64 {
        match &self.owned {
            Owned::Ratings(site) => site.lambda,
            Owned::Tasks(site) => site.shares.regularization,
        }
    }

    /// Who it talks to from now on.
    pub fn set_neighbors(&mut self, ids: &[u64]) {
        let ids: Vec<usize> = ids.iter().map(|&id| id as usize).collect();
        agent!(mut self, agent => agent.set_neighbors(&ids));
    }

    /// One step that it chooses; false where none was possible.
    pub fn step(&mut self) -> bool {
        agent!(mut self, agent => agent.own_step())
    }

    /// Takes what a neighbor came to at one of its rounds, in the order of the own list; false
    /// where it does not fit.
    pub fn hear(&mut self, from: u64, round: u64, subspace: Mat<f64>) -> bool {
        agent!(mut self, agent => agent.hear(from as usize, round, subspace))
    }

    /// Starts where a neighbor is; false where that does not fit.
    pub fn start_from(&mut self, subspace: &Mat<f64>) -> bool {
        agent!(mut self, agent => agent.start_from(subspace))
    }

    /// Its subspace, ready to be sent.
    pub fn snapshot(&self) -> Snapshot {
        agent!(self, agent => Snapshot::new(agent.subspace(), self.options.sent_in()))
    }

    /// Its own cost, without neighbors.
    pub fn cost(&self) -> f64 {
        agent!(self, agent => agent.cost())
    }

    /// How far a neighbor was when it was last heard.
    pub fn distance_to(&self, neighbor: u64) -> Option<f64> {
        agent!(self, agent => agent.distance_to(neighbor as usize))
    }

    /// What it did and met.
    pub fn counters(&self) -> Counters {
        agent!(self, agent => agent.counters())
    }

    /// All that it knows beside its data and its list.
    pub fn checkpoint(&self) -> Vec<u8> {
        agent!(self, agent => agent.checkpoint())
    }

    /// How many items or features its subspace has.
    pub fn dimension(&self) -> usize {
        agent!(self, agent => agent.subspace().nrows())
    }

    /// Goes on with a longer list, whose beginning is the one it has.
    pub fn grow(&mut self, list: &Ids) -> Result<()> {
        match &mut self.owned {
            Owned::Ratings(site) => site.grow(list),
            Owned::Tasks(site) => site.grow(list),
        }
    }

    /// The model of its own users or tasks, and what was done.
    pub fn fit<R: Real>(&self, ending: &Ending) -> Result<Fit> {
        let (cost, consensus) = agent!(self, agent => agent.cost_with_neighbors());
        let card = GossipCard {
            agents: self.agents as u64,
            graph: "network".into(),
            rho: self.rho,
            schedule: "own".into(),
            steps: None,
            precondition: false,
            euclidean: false,
            slots: ending.rounds,
            cost,
            consensus,
            messages: ending.messages,
            bytes: ending.bytes,
            agent: None,
            name: Some(ending.name.clone()),
        };
        let counters = self.counters();
        let (model, lost_rank, more) = match &self.owned {
            Owned::Ratings(site) => site.model::<R>(&self.options, &card)?,
            Owned::Tasks(site) => site.model(&self.options, &card)?,
        };
        let done = crate::model::Counters {
            steps: ending.rounds,
            updates: counters.steps,
            refused: counters.refused_steps,
            ..Default::default()
        };
        let mut report = Report::new(ending.stopped, done);
        report.unit = Unit::Slots;
        super::talk::describe(&mut report, &self.options.of_run(self.agents), &card);
        report = report
            .with("agents", self.agents)
            .with("regularization", self.regularization())
            .with("name", ending.name.as_str())
            .with("neighbors", ending.neighbors);
        for (name, value) in more {
            report.more.insert(name.into(), value);
        }
        if let Some(asked) = lost_rank {
            report.notes.push(format!(
                "the model has rank {} only, not {asked}: its own users or tasks need no more",
                model.rank()
            ));
        }
        Ok(Fit::new(model, report))
    }
}
