//! Sums over all agents without a center: push-sum averaging, kept as flows so that lost
//! and repeated messages and restarts cost time only [Kempe 2003; Jesus 2009].
//!
//! ```text
//! estimate_i = own_i − Σ_j flow_ij              flow_ji = −flow_ij
//! ```
//!
//! Agent i tells j its flow and its estimate. Agent j takes the flow over with the other
//! sign, moves half of the difference of estimates along the edge, and answers the same
//! way. What flows along an edge is told, not what was added, so that the next message
//! repairs what the last one lost. All estimates go to the mean of what agents own.
//!
//! An agent must know when all others are there as well. Its depth is one more than the
//! least of its neighbors' while its estimates agree with theirs, and else 0. At depth d
//! everybody within d edges has agreed, so at the depth [`HOPS`] a stage is over. Stages
//! follow each other; who is behind is told the result.
//!
//! The first stage has no numbers. It finds the least of all names, and the agent that
//! bears it counts as 1 in the mean of the second: that is how all know how many they are.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// More edges than there are between any two agents.
pub const HOPS: u64 = 64;

/// Estimates that differ by less than this share are the same.
const SAME: f64 = 1e-9;

/// What agents say about a stage.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// What has flowed from the sender to the receiver, and the estimate of the sender.
    Flow {
        /// The flow.
        flow: Vec<f64>,
        /// The estimate.
        estimate: Vec<f64>,
    },
    /// What the stage came to.
    Result(Vec<f64>),
}

/// What an agent tells a neighbor.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The stage that the sender is at.
    pub stage: u64,
    /// How far around it agents agree.
    pub depth: u64,
    /// The least name that it has heard of, as a number.
    pub least: u64,
    /// The stage that is spoken of, and what is said.
    pub about: Option<(u64, Content)>,
}

#[derive(Debug, Clone, Default)]
struct Stage {
    own: Option<Vec<f64>>,
    flows: BTreeMap<u64, Vec<f64>>,
    result: Option<Vec<f64>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    stage: u64,
    depth: u64,
    /// Whether it had numbers of its stage.
    begun: bool,
    /// Whether it agreed when the two last spoke of the stage at hand.
    near: bool,
}

/// How far an agent is with the numbers that concern all.
#[derive(Debug, Clone)]
pub struct Accord {
    least: u64,
    depth: u64,
    stages: Vec<Stage>,
    neighbors: BTreeMap<u64, Seen>,
}

impl Accord {
    /// An agent that has spoken to nobody.
    pub fn new(id: u64) -> Self {
        Accord {
            least: id,
            depth: 0,
            stages: Vec::new(),
            neighbors: BTreeMap::new(),
        }
    }

    /// An agent for which these stages are over.
    pub fn restore(id: u64, least: u64, results: Vec<Vec<f64>>) -> Self {
        let stage = |result| Stage {
            result: Some(result),
            ..Stage::default()
        };
        Accord {
            least: least.min(id),
            stages: results.into_iter().map(stage).collect(),
            ..Accord::new(id)
        }
    }

    /// The least name so far.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// How many stages are over.
    pub fn stage(&self) -> u64 {
        self.stages
            .iter()
            .take_while(|s| s.result.is_some())
            .count() as u64
    }

    /// What stages came to.
    pub fn results(&self) -> Vec<Vec<f64>> {
        self.stages.iter().map_while(|s| s.result.clone()).collect()
    }

    /// What a stage came to.
    pub fn result(&self, stage: u64) -> Option<&[f64]> {
        self.stages.get(stage as usize)?.result.as_deref()
    }

    /// Whether a neighbor has not begun the stage at hand when it last spoke.
    pub fn is_behind(&self, neighbor: u64) -> bool {
        let seen = self.neighbors.get(&neighbor);
        seen.is_some_and(|seen| seen.stage < self.stage() || !seen.begun)
    }

    /// Waits for this neighbor from now on.
    pub fn invite(&mut self, neighbor: u64) {
        if let Entry::Vacant(place) = self.neighbors.entry(neighbor) {
            place.insert(Seen::default());
            self.depth = 0;
        }
    }

    /// Goes on without this neighbor: what flowed to it and back is taken back.
    pub fn forget(&mut self, neighbor: u64) {
        self.neighbors.remove(&neighbor);
        for stage in self.stages.iter_mut().filter(|s| s.result.is_none()) {
            stage.flows.remove(&neighbor);
        }
        self.depth = 0;
        self.advance();
    }

    /// Something has changed that all must hear of before the stage may end.
    pub fn disturb(&mut self) {
        self.depth = 0;
        self.neighbors
            .values_mut()
            .for_each(|seen| seen.near = false);
    }

    /// Begins the next stage with what the agent itself has.
    pub fn begin(&mut self, own: Vec<f64>) {
        let at = self.stage() as usize;
        if self.stages.len() == at {
            self.stages.push(Stage::default());
        }
        self.stages[at].own = Some(own);
        self.disturb();
        self.advance();
    }

    fn estimate(stage: &Stage) -> Option<Vec<f64>> {
        let mut out = stage.own.clone()?;
        for flow in stage.flows.values() {
            out.iter_mut().zip(flow).for_each(|(e, f)| *e -= f);
        }
        Some(out)
    }

    /// What to tell a neighbor.
    pub fn offer(&self, to: u64) -> Statement {
        let at = self.stage();
        let theirs = self.neighbors.get(&to).map_or(at, |seen| seen.stage);
        let about = match self.result(theirs).filter(|_| theirs < at) {
            Some(result) => Some((theirs, Content::Result(result.to_vec()))),
            None => self.stages.get(at as usize).and_then(|stage| {
                let estimate = Self::estimate(stage)?;
                let flow = stage.flows.get(&to).cloned();
                let flow = flow.unwrap_or_else(|| vec![0.0; estimate.len()]);
                Some((at, Content::Flow { flow, estimate }))
            }),
        };
        Statement {
            stage: at,
            depth: self.depth,
            least: self.least,
            about,
        }
    }

    /// Takes what a neighbor asks with, and gives the answer. False where its numbers do
    /// not fit.
    pub fn answer(&mut self, from: u64, heard: &Statement) -> (Statement, bool) {
        let fits = self.hear(from, heard, true);
        let mut reply = self.offer(from);
        // Who is ahead hears nothing of what it knows.
        if heard.stage > reply.stage {
            reply.about = None;
        }
        (reply, fits)
    }

    /// Takes the answer of a neighbor. False where its numbers do not fit.
    pub fn settle(&mut self, from: u64, heard: &Statement) -> bool {
        self.hear(from, heard, false)
    }

    fn hear(&mut self, from: u64, heard: &Statement, asked: bool) -> bool {
        let at = self.stage();
        self.invite(from);
        if heard.least < self.least && at == 0 {
            self.least = heard.least;
            self.disturb();
        }
        let seen = self.neighbors.entry(from).or_default();
        seen.stage = heard.stage;
        seen.begun = heard.about.is_some();
        seen.depth = match heard.stage.cmp(&at) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => heard.depth.min(HOPS),
            std::cmp::Ordering::Greater => HOPS,
        };
        if self.stages.len() == at as usize {
            self.stages.push(Stage::default());
        }
        let stage = &mut self.stages[at as usize];
        let before = Self::estimate(stage);
        let length = before.as_ref().map(Vec::len);
        let numbers = |values: &[f64]| {
            length.is_none_or(|length| length == values.len())
                && values.iter().all(|v| v.is_finite())
        };
        match (&heard.about, before) {
            // Also before the own numbers are there: who comes late need not count.
            (Some((about, Content::Result(result))), _) if *about == at => {
                if !numbers(result) {
                    return false;
                }
                stage.result = Some(result.clone());
                if at == 0 {
                    self.least = self.least.min(heard.least);
                }
                self.depth = 0;
                self.neighbors
                    .values_mut()
                    .for_each(|seen| seen.near = false);
                return true;
            }
            (Some((about, Content::Flow { flow, estimate })), Some(before)) if *about == at => {
                if !numbers(flow) || !numbers(estimate) {
                    return false;
                }
                stage.flows.insert(from, flow.iter().map(|f| -f).collect());
                let own = Self::estimate(stage).unwrap_or_default();
                let scale = |k: usize| {
                    let all = [own[k], estimate[k], flow[k], before[k]];
                    all.into_iter().fold(0.0, |m: f64, v| m.max(v.abs()))
                };
                let same = |k: usize| (own[k] - estimate[k]).abs() <= SAME * scale(k);
                seen.near = (0..own.len()).all(same) && heard.least == self.least;
                if asked {
                    let flow = stage.flows.get_mut(&from).expect("it was put there");
                    for k in 0..own.len() {
                        flow[k] += 0.5 * (own[k] - estimate[k]);
                    }
                }
            }
            // A neighbor that has not begun, or is further.
            _ => seen.near = heard.stage > at,
        }
        self.advance();
        true
    }

    /// Finds the depth, and ends the stage where all are there.
    fn advance(&mut self) {
        let near = self.neighbors.values().all(|seen| seen.near);
        let least = self.neighbors.values().map(|seen| seen.depth).min();
        self.depth = match near {
            true => least.map_or(HOPS, |least| (least + 1).min(HOPS)),
            false => 0,
        };
        let at = self.stage() as usize;
        if self.depth < HOPS {
            return;
        }
        if let Some(stage) = self.stages.get_mut(at)
            && let Some(estimate) = Self::estimate(stage)
        {
            stage.result = Some(estimate);
            self.depth = 0;
            self.neighbors
                .values_mut()
                .for_each(|seen| seen.near = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Agents on a path, with so many out of a hundred messages lost each way.
    fn path(
        values: &[Vec<f64>],
        lost: usize,
        mut after: impl FnMut(usize, &mut Vec<Accord>),
    ) -> Vec<Accord> {
        let n = values.len();
        let mut agents: Vec<Accord> = (0..n).map(|i| Accord::new(100 - i as u64)).collect();
        for (i, agent) in agents.iter_mut().enumerate() {
            (0..n)
                .filter(|j| j.abs_diff(i) == 1)
                .for_each(|j| agent.invite(100 - j as u64));
            agent.begin(Vec::new());
        }
        let mut random = Random::new(3, 0x0061_6363);
        for turn in 0..100_000 {
            let i = random.below(n - 1);
            let (a, b) = (100 - i as u64, 100 - (i + 1) as u64);
            let ask = agents[i].offer(b);
            if random.below(100) >= lost {
                let (reply, fits) = agents[i + 1].answer(a, &ask);
                assert!(fits);
                if random.below(100) >= lost {
                    assert!(agents[i].settle(b, &reply));
                }
            }
            for (agent, value) in agents.iter_mut().zip(values) {
                let at = agent.stage() as usize;
                if at == 1 && agent.stages.get(1).is_none_or(|s| s.own.is_none()) {
                    agent.begin(value.clone());
                }
            }
            after(turn, &mut agents);
            if agents.iter().all(|agent| agent.stage() == 2) {
                return agents;
            }
        }
        panic!(
            "{:?}",
            agents
                .iter()
                .map(|a| (a.stage(), a.depth))
                .collect::<Vec<_>>()
        );
    }

    fn values(n: usize) -> Vec<Vec<f64>> {
        (0..n)
            .map(|i| vec![i as f64, 1e6 - 3.0 * (i * i) as f64, -(i as f64)])
            .collect()
    }

    fn check(agents: &[Accord], values: &[Vec<f64>]) {
        for k in 0..3 {
            let mean = values.iter().map(|v| v[k]).sum::<f64>() / values.len() as f64;
            for agent in agents {
                let found = agent.result(1).unwrap()[k];
                assert!(
                    (found - mean).abs() <= 1e-6 * mean.abs().max(1.0),
                    "{found} {mean}"
                );
            }
        }
    }

    #[test]
    fn all_come_to_the_mean_and_to_the_least_name() {
        for n in [2, 3, 7] {
            let values = values(n);
            let agents = path(&values, 0, |_, _| {});
            check(&agents, &values);
            assert!(
                agents
                    .iter()
                    .all(|agent| agent.least() == 100 - (n as u64 - 1))
            );
        }
    }

    #[test]
    fn lost_messages_and_restarts_cost_time_only() {
        let values = values(5);
        check(&path(&values, 30, |_, _| {}), &values);
        // An agent forgets everything in the middle of a stage.
        let agents = path(&values, 10, |turn, agents| {
            if turn == 700 && agents[2].stage() < 2 {
                let stage = agents[2].stage() as usize;
                let results = agents[2].results();
                let least = agents[2].least();
                agents[2] = Accord::restore(98, least, results);
                agents[2].invite(99);
                agents[2].invite(97);
                let own = if stage == 0 {
                    Vec::new()
                } else {
                    values[2].clone()
                };
                agents[2].begin(own);
            }
        });
        check(&agents, &values);
    }

    #[test]
    fn who_comes_late_is_told_and_who_is_alone_is_done() {
        let mut alone = Accord::new(1);
        alone.begin(Vec::new());
        alone.begin(vec![4.0]);
        assert_eq!(alone.result(1), Some(&[4.0][..]));
        let mut late = Accord::new(2);
        late.invite(1);
        late.begin(Vec::new());
        for _ in 0..4 {
            if late.stage() == 1 {
                late.begin(vec![10.0]);
            }
            let (reply, _) = alone.answer(2, &late.offer(1));
            late.settle(1, &reply);
        }
        assert_eq!((late.result(1), late.least()), (Some(&[4.0][..]), 1));
    }

    #[test]
    fn numbers_that_do_not_fit_change_nothing() {
        let mut agent = Accord::new(1);
        agent.invite(2);
        agent.begin(vec![1.0, 2.0]);
        for flow in [vec![1.0], vec![f64::NAN, 1.0], vec![1.0; 3]] {
            let estimate = flow.clone();
            let told = Statement {
                stage: 0,
                depth: u64::MAX,
                least: 0,
                about: Some((0, Content::Flow { flow, estimate })),
            };
            assert!(!agent.answer(2, &told).1);
        }
        assert_eq!(agent.stage(), 0);
        assert_eq!(Accord::estimate(&agent.stages[0]), Some(vec![1.0, 2.0]));
    }
}
