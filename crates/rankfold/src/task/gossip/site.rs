//! One agent of a network: its own data in, its own model out, and nothing of anybody
//! else's but sums and subspaces.
//!
//! A [`Site`] has the options, a [`Member`] is the agent at work. What concerns all agents
//! (the mean of ratings, scales and common weights of tasks, ρ and λ) it asks [`Sums`] for,
//! in the same order as all others. Items and features stand in the order of a list that
//! all have, or are added at its end as they become known.

use super::member::{Member, Owned};
use super::site_ratings::RatingSite;
use super::site_tasks::TaskSite;
use super::{Gossip, GossipInit, GossipTask, SHARE_OF_CURVATURE};
use crate::data::{Ratings, TaskColumns, TaskRows};
use crate::gossip::{Agent, MessagePrecision, Sums, Work, alone};
use crate::linalg::qf;
use crate::model::Standardize;
use crate::options::Options;
use crate::random::normal_at;
use crate::task::Clip;
use crate::{Error, Ids, Result, memory, options};
use faer::Mat;

/// How far a neighbor may pull, unless told otherwise.
pub(super) const TRUST: f64 = 0.5;

/// The side of random numbers that starts are made of.
const START: u64 = 0x6764;

options! {
    /// One agent of a network.
    pub struct Site: "agent" {
        /// What the agents learn.
        task: GossipTask = GossipTask::Completion;
        /// Dimension of the subspace, the same for all agents.
        rank: usize = 5, in Range::COUNT;
        /// Where the agent starts; one that joins a running network starts from its neighbor.
        init: GossipInit = GossipInit::Own;
        /// ρ of ρ/2 Σ dist² between neighbors [default: a tenth of the mean curvature of all
        /// agents, which they agree on].
        rho: Option<f64> = None, in Range::NOT_NEGATIVE;
        /// Penalty λ [default: what held-out data of all agents chooses, each by itself].
        regularization: Option<f64> = None, in Range::NOT_NEGATIVE;
        /// Subtract this number from all ratings [default: the mean of all agents' ratings,
        /// which they agree on].
        center: Option<f64> = None, in Range::FINITE, for "`completion`" if Site::is_completion;
        /// The range to which predictions are clipped: that of the own ratings, none, or a
        /// given one.
        clip: Clip = Clip::Auto, for "`completion`" if Site::is_completion;
        /// How features and targets are scaled [default: global or task, chosen by
        /// validation].
        standardize: Option<Standardize> = None, for "`multitask`" if |o| !o.is_completion();
        /// Learn no biases: without features a target is 0.
        no_bias: bool = false, for "`multitask`" if |o| !o.is_completion();
        /// Learn no common weights: tasks share the subspace only.
        no_common: bool = false, for "`multitask`" if |o| !o.is_completion();
        /// μ of μ/2 ‖c‖², the ridge of the common weights, which are learned before the run.
        common_ridge: f64 = 1.0, in Range::NOT_NEGATIVE,
            for "`multitask` without `--no-common`" if |o| !o.is_completion() && !o.no_common;
        /// Cap the pull of a neighbor as if its subspace were never farther than this, in
        /// radians: what a hostile one can do is bounded.
        trust: f64 = TRUST, in Range::POSITIVE;
        /// How subspaces are sent.
        message_precision: MessagePrecision = MessagePrecision::F64;
        shared seed;
        shared threads;
    }
}

/// What one agent learns from.
#[expect(clippy::large_enum_variant, reason = "there is one of them in a run")]
pub enum SiteData<'a> {
    /// Ratings of its users.
    Ratings(Ratings),
    /// Rows of its tasks, and the names of their columns, which the model keeps.
    Tasks(&'a TaskRows, &'a TaskColumns),
}

impl SiteData<'_> {
    /// The names of its items or features.
    pub fn names(&self) -> &Ids {
        match self {
            SiteData::Ratings(ratings) => &ratings.items,
            SiteData::Tasks(rows, _) => &rows.features,
        }
    }
}

/// What an agent goes on from: the neighbors it had, and its bytes.
pub struct SiteState<'a> {
    /// Neighbors by their numbers, in their order then.
    pub neighbors: &'a [u64],
    /// The checkpoint of the agent.
    pub bytes: &'a [u8],
}

impl Site {
    pub(super) fn is_completion(&self) -> bool {
        self.task == GossipTask::Completion
    }

    /// What the agents learn.
    pub fn kind(&self) -> GossipTask {
        self.task
    }

    /// The dimension of subspaces.
    pub fn dimension(&self) -> usize {
        self.rank
    }

    /// How subspaces are sent.
    pub fn sent_in(&self) -> MessagePrecision {
        self.message_precision
    }

    /// The same as options of a whole run.
    pub(super) fn of_run(&self, agents: usize) -> Gossip {
        Gossip {
            task: self.task,
            agents: agents.max(2),
            rank: self.rank,
            init: self.init,
            rho: self.rho,
            regularization: self.regularization,
            center: self.center,
            clip: self.clip,
            standardize: self.standardize,
            no_bias: self.no_bias,
            no_common: self.no_common,
            common_ridge: self.common_ridge,
            trust: Some(self.trust),
            seed: self.seed,
            threads: self.threads,
            ..Gossip::default()
        }
    }

    /// Whether the options make sense, before any data is read.
    pub fn check(&self) -> Result<()> {
        self.check_table()?;
        self.of_run(2).check()
    }

    /// An agent with its number, in the items or features of a list, from its start or from
    /// where it was.
    pub fn member<'a>(
        &self,
        id: u64,
        data: SiteData<'a>,
        list: &Ids,
        sums: &mut dyn Sums,
        state: Option<SiteState<'_>>,
    ) -> Result<Member<'a>> {
        self.check()?;
        if self.rank > list.len() {
            let of = match self.task {
                GossipTask::Completion => "items",
                GossipTask::Multitask => "features",
            };
            let message = format!("is {}, above the {} {of}", self.rank, list.len());
            return Err(Error::option("rank", message));
        }
        let room = 8 * (list.len() * self.rank) as u128 * 12;
        memory::require(room, "the subspaces of an agent and its neighbors")?;
        let (owned, rho) = match (data, self.task) {
            (SiteData::Ratings(ratings), GossipTask::Completion) => {
                let (site, rho) = RatingSite::new(self, id, ratings, list, sums, state)?;
                (Owned::Ratings(Box::new(site)), rho)
            }
            (SiteData::Tasks(rows, columns), GossipTask::Multitask) => {
                let (site, rho) = TaskSite::new(self, id, (rows, columns), list, sums, state)?;
                (Owned::Tasks(Box::new(site)), rho)
            }
            (_, task) => {
                let message = format!("is `{task}`, which does not learn from such data");
                return Err(Error::option("task", message));
            }
        };
        Ok(Member::new(self.clone(), owned, rho, sums.agents()))
    }

    /// ρ, given or by the squares of all agents.
    pub(super) fn usual_rho(&self, squares: f64, agents: usize) -> f64 {
        let curvature = squares / (agents.max(1) * self.rank) as f64;
        self.rho.unwrap_or(SHARE_OF_CURVATURE * curvature)
    }

    /// The agent of this work.
    pub(super) fn agent<W: Work>(
        &self,
        id: u64,
        work: W,
        rho: f64,
        state: Option<SiteState<'_>>,
    ) -> Result<Agent<W>> {
        let id = id as usize;
        let mut agent = match state {
            Some(state) => {
                let neighbors: Vec<usize> = state.neighbors.iter().map(|&id| id as usize).collect();
                Agent::restore(id, work, &neighbors, rho, self.rank, state.bytes)?
            }
            None => {
                let start = self.start(id as u64, &work);
                let start =
                    start.ok_or_else(|| Error::failure("no subspace to start from was found"))?;
                Agent::new(id, work, &[], rho, &start)?
            }
        };
        agent.set_trust(self.trust);
        Ok(agent)
    }

    fn start<W: Work>(&self, id: u64, work: &W) -> Option<Mat<f64>> {
        let random = |side: u64| {
            let entry = |i, j| normal_at(self.seed, side, i as u64, j as u64);
            qf(&Mat::from_fn(work.dimension(), self.rank, entry))
        };
        match self.init {
            GossipInit::Own => alone(work, self.rank, self.seed),
            GossipInit::Shared => random(START),
            GossipInit::Random => random(START ^ (id << 16)),
        }
    }
}
