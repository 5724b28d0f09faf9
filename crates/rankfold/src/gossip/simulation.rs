//! Agents and the network between them in one process: who speaks when, and what
//! happens to messages on their way.
//!
//! In a slot the agents of some edges send each other their subspaces, the network
//! delivers what is due, and then these agents step. The edges, the faults and the
//! order of messages are functions of the seed, and agents do not see each other: the
//! same bits come out for any number of threads.

use super::agent::{Agent, Counters};
use super::message::{LAST_ROUND, Reader, Writer};
use super::work::Work;
use super::{Graph, pace};
use crate::manifold::Grassmann;
use crate::parallel::{map_blocks, map_rows};
use crate::random::Random;
use crate::{Error, Result, choices};
use faer::Mat;

const MAGIC: &[u8; 8] = b"rksimul1";

/// Streams of random numbers: edges, and what happens to messages.
pub(super) const EDGES: u64 = 0x6762;
pub(super) const FAULTS: u64 = 0x6763;

choices! {
    /// Which edges a slot uses.
    pub enum Schedule {
        /// One random edge
        Stochastic = "stochastic",
        /// Edges that share no agent, a random group of them: red or black on a path
        Parallel = "parallel" (default),
    }
}

impl Schedule {
    /// The numbers of the edges of a slot.
    pub(super) fn draw(
        self,
        graph: &Graph,
        matchings: &[Vec<usize>],
        random: &mut Random,
    ) -> Vec<usize> {
        match self {
            Schedule::Stochastic => vec![random.below(graph.edges().len())],
            Schedule::Parallel => matchings[random.below(matchings.len())].clone(),
        }
    }
}

/// How long steps are.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Steps {
    /// Agents choose them.
    #[default]
    Own,
    /// a/(1 + bk) in slot k, on the cost of a pair.
    Given {
        /// a.
        a: f64,
        /// b.
        b: f64,
        /// Whether directions are scaled by (WᵀW + ρI)⁻¹.
        precondition: bool,
    },
}

/// What goes wrong, by the number of slots from 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Faults {
    /// The share of messages that are lost.
    pub loss: f64,
    /// The share that comes twice.
    pub duplication: f64,
    /// Slots that a message may be late, at most; each number is as likely, so that
    /// messages overtake each other.
    pub delay: u64,
    /// Agents that stop and come back.
    pub deaths: Vec<Death>,
    /// Edges that carry nothing for a while.
    pub cuts: Vec<Cut>,
    /// Agents that step in one of so many slots only.
    pub slow: Vec<(usize, u64)>,
}

/// An agent that stops, forgets all, and comes back from a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// Who.
    pub agent: usize,
    /// When its checkpoint was written.
    pub checkpoint: u64,
    /// When it stops.
    pub from: u64,
    /// When it is back.
    pub until: u64,
}

/// Edges that carry nothing for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Their numbers.
    pub edges: Vec<usize>,
    /// From this slot.
    pub from: u64,
    /// To before this one.
    pub until: u64,
}

/// What a simulation goes by.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Which edges a slot uses.
    pub schedule: Schedule,
    /// How long steps are.
    pub steps: Steps,
    /// The seed of edges and faults.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
    /// What goes wrong.
    pub faults: Faults,
    /// The distance beyond which a neighbor pulls no more than there, where that is capped.
    pub trust: Option<f64>,
}

/// A message on its way.
pub(super) struct Letter {
    due: u64,
    to: usize,
    bytes: Vec<u8>,
}

/// What decides how a simulation goes on beside its state: a checkpoint of another one
/// is refused.
pub(super) fn identity(graph: &Graph, rho: f64, rank: usize, settings: &Settings) -> Vec<u64> {
    let mut out = vec![graph.agents() as u64, rank as u64, rho.to_bits()];
    let mut list = |words: Vec<u64>| {
        out.push(words.len() as u64);
        out.extend(words);
    };
    let edges = graph.edges().iter();
    list(edges.flat_map(|&(i, j)| [i as u64, j as u64]).collect());
    list(match settings.steps {
        Steps::Own => vec![],
        Steps::Given { a, b, precondition } => {
            vec![a.to_bits(), b.to_bits(), u64::from(precondition)]
        }
    });
    let faults = &settings.faults;
    list(vec![
        u64::from(settings.schedule == Schedule::Stochastic),
        settings.seed,
        faults.loss.to_bits(),
        faults.duplication.to_bits(),
        faults.delay,
        faults.deaths.len() as u64,
        faults.cuts.len() as u64,
    ]);
    for death in &faults.deaths {
        list(vec![
            death.agent as u64,
            death.checkpoint,
            death.from,
            death.until,
        ]);
    }
    for cut in &faults.cuts {
        list(cut.edges.iter().map(|&edge| edge as u64).collect());
        list(vec![cut.from, cut.until]);
    }
    for &(agent, times) in &faults.slow {
        list(vec![agent as u64, times]);
    }
    out
}

/// A checkpoint: of each agent whether it is alive, its own checkpoint, and the one that it comes
/// back from, which has no bytes where nothing was saved.
pub(super) fn written<'a>(
    identity: &[u64],
    slots: u64,
    random: [&Random; 2],
    agents: impl Iterator<Item = (bool, Vec<u8>, &'a [u8])>,
    letters: &[Letter],
) -> Vec<u8> {
    let mut out = Writer::new(MAGIC, 0);
    identity.iter().for_each(|&word| out.word(word));
    out.word(slots);
    for random in random {
        out.bytes(&serde_json::to_vec(random).expect("a generator is four numbers"));
    }
    for (alive, agent, saved) in agents {
        out.word(u64::from(alive));
        out.bytes(&agent);
        out.bytes(saved);
    }
    out.word(letters.len() as u64);
    for letter in letters {
        out.word(letter.due);
        out.word(letter.to as u64);
        out.bytes(&letter.bytes);
    }
    out.finish()
}

/// What a checkpoint holds.
pub(super) struct Parsed<'a> {
    pub slots: u64,
    pub random: [Random; 2],
    pub agents: Vec<&'a [u8]>,
    alive: Vec<bool>,
    saved: Vec<Option<Vec<u8>>>,
    letters: Vec<Letter>,
}

impl<'a> Parsed<'a> {
    pub fn read(bytes: &'a [u8], identity: &[u64], agents: usize) -> Option<Self> {
        let mut words = Reader::checked(MAGIC, bytes)?;
        for want in identity {
            (words.word()? == *want).then_some(())?;
        }
        let slots = words.word().filter(|&slots| slots <= LAST_ROUND)?;
        let mut random = || serde_json::from_slice(words.bytes()?).ok();
        let mut out = Parsed {
            slots,
            random: [random()?, random()?],
            agents: Vec::new(),
            alive: Vec::new(),
            saved: Vec::new(),
            letters: Vec::new(),
        };
        for _ in 0..agents {
            out.alive.push(words.word()? == 1);
            out.agents.push(words.bytes()?);
            let saved = words.bytes()?;
            out.saved.push((!saved.is_empty()).then(|| saved.to_vec()));
        }
        for _ in 0..words.word()? {
            out.letters.push(Letter {
                due: words.word()?,
                to: usize::try_from(words.word()?)
                    .ok()
                    .filter(|&to| to < agents)?,
                bytes: words.bytes()?.to_vec(),
            });
        }
        words.is_empty().then_some(out)
    }
}

/// How far agents have come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// Slots so far.
    pub slots: u64,
    /// Σ f_i(U_i) + ρ/2 Σ dist²(U_i, U_j).
    pub cost: f64,
    /// The largest distance between neighbors.
    pub consensus: f64,
    /// What all agents did and met.
    pub counters: Counters,
}

/// How far agents have come, by their own costs, their subspaces, and what each did and met.
pub(super) fn status(
    slots: u64,
    graph: &Graph,
    rho: f64,
    own: &[f64],
    subspaces: &[&Mat<f64>],
    counters: impl Iterator<Item = Counters>,
    threads: usize,
) -> Status {
    let edges = graph.edges();
    let distances = map_blocks(edges.len(), 1, threads, |at| {
        let (i, j) = edges[at.start];
        Grassmann::distance(subspaces[i], subspaces[j])
    });
    let squares: f64 = distances.iter().map(|d| d * d).sum();
    let mut sum = Counters::default();
    for c in counters {
        sum.steps += c.steps;
        sum.refused_steps += c.refused_steps;
        sum.sent += c.sent;
        sum.sent_bytes += c.sent_bytes;
        sum.accepted += c.accepted;
        sum.stale += c.stale;
        sum.rejected += c.rejected;
    }
    Status {
        slots,
        cost: own.iter().sum::<f64>() + 0.5 * rho * squares,
        consensus: distances.into_iter().fold(0.0, f64::max),
        counters: sum,
    }
}

/// Agents and the network between them.
pub struct Simulation<W> {
    agents: Vec<Agent<W>>,
    alive: Vec<bool>,
    /// Checkpoints of agents that will stop, or have.
    saved: Vec<Option<Vec<u8>>>,
    graph: Graph,
    matchings: Vec<Vec<usize>>,
    rho: f64,
    rank: usize,
    settings: Settings,
    letters: Vec<Letter>,
    edges: Random,
    faults: Random,
    slots: u64,
}

/// An error where there is not a share of the data for each agent, or a start for each or for all.
pub(super) fn check_starts(agents: usize, shares: usize, starts: usize) -> Result<()> {
    match shares == agents && (starts == 1 || starts == agents) {
        true => Ok(()),
        false => Err(Error::input(format!(
            "{shares} shares of the data and {starts} starts for {agents} agents"
        ))),
    }
}

impl<W: Work + Clone> Simulation<W> {
    /// Agents with their work on a graph, from one subspace each, or from one that
    /// all share.
    pub fn new(
        works: Vec<W>,
        graph: Graph,
        rho: f64,
        starts: &[Mat<f64>],
        settings: Settings,
    ) -> Result<Self> {
        let n = graph.agents();
        check_starts(n, works.len(), starts.len())?;
        let rank = starts[0].ncols();
        Self::made(works, graph, rho, rank, settings, |i, work, neighbors| {
            let start = &starts[i.min(starts.len() - 1)];
            Agent::new(i, work, neighbors, rho, start)
        })
    }

    /// A simulation whose agents are made on several threads.
    fn made(
        works: Vec<W>,
        graph: Graph,
        rho: f64,
        rank: usize,
        settings: Settings,
        agent: impl Fn(usize, W, &[usize]) -> Result<Agent<W>> + Sync,
    ) -> Result<Self> {
        if !(rho >= 0.0 && rho.is_finite()) {
            return Err(Error::input(format!(
                "rho must be a number that is 0 or above, found {rho}"
            )));
        }
        let n = graph.agents();
        let mut works: Vec<Option<W>> = works.into_iter().map(Some).collect();
        let agents = map_rows(&mut works, 1, 1, settings.threads, |i, work| {
            let work = work[0].take().expect("each is taken once");
            let mut agent = agent(i, work, graph.neighbors(i))?;
            agent.set_trust(settings.trust.unwrap_or(f64::INFINITY));
            Ok(agent)
        });
        Ok(Simulation {
            agents: agents.into_iter().collect::<Result<_>>()?,
            alive: vec![true; n],
            saved: vec![None; n],
            matchings: graph.matchings(),
            graph,
            rho,
            rank,
            letters: Vec::new(),
            edges: Random::new(settings.seed, EDGES),
            faults: Random::new(settings.seed, FAULTS),
            settings,
            slots: 0,
        })
    }

    /// The whole simulation beside the data, as bytes: agents, messages on their way,
    /// and random streams.
    pub fn checkpoint(&self) -> Vec<u8> {
        let identity = identity(&self.graph, self.rho, self.rank, &self.settings);
        let agents = self.agents.iter().zip(&self.alive).zip(&self.saved);
        let agents = agents.map(|((agent, alive), saved)| {
            (
                *alive,
                agent.checkpoint(),
                saved.as_deref().unwrap_or_default(),
            )
        });
        let random = [&self.edges, &self.faults];
        written(&identity, self.slots, random, agents, &self.letters)
    }

    /// The simulation of a checkpoint, with the data and what it was made with. It goes
    /// on as if it had never stopped.
    pub fn restore(
        works: Vec<W>,
        graph: Graph,
        rho: f64,
        rank: usize,
        settings: Settings,
        checkpoint: &[u8],
    ) -> Result<Self> {
        let n = graph.agents();
        if works.len() != n {
            return Err(Error::input(format!(
                "{} shares of the data for {n} agents",
                works.len()
            )));
        }
        let expected = identity(&graph, rho, rank, &settings);
        let parsed = Parsed::read(checkpoint, &expected, n)
            .ok_or_else(|| Error::input("this is no checkpoint of this simulation"))?;
        let mut out = Self::made(works, graph, rho, rank, settings, |i, work, neighbors| {
            Agent::restore(i, work, neighbors, rho, rank, parsed.agents[i])
        })?;
        out.slots = parsed.slots;
        [out.edges, out.faults] = parsed.random;
        out.alive = parsed.alive;
        out.saved = parsed.saved;
        out.letters = parsed.letters;
        Ok(out)
    }

    /// The agents.
    pub fn agents(&self) -> &[Agent<W>] {
        &self.agents
    }

    /// One slot, by the schedule.
    pub fn slot(&mut self) -> Result<()> {
        let schedule = self.settings.schedule;
        let edges = schedule.draw(&self.graph, &self.matchings, &mut self.edges);
        self.slot_with(&edges)
    }

    /// One slot with given edges, by their numbers.
    ///
    /// # Panics
    /// Where edges share an agent.
    pub fn slot_with(&mut self, edges: &[usize]) -> Result<()> {
        self.live_and_die()?;
        let now = self.slots;
        let mut with = vec![None; self.agents.len()];
        for &edge in edges {
            let (i, j) = self.graph.edges()[edge];
            assert!(
                with[i].is_none() && with[j].is_none(),
                "edges share no agent"
            );
            (with[i], with[j]) = (Some(j), Some(i));
            let cut = |cut: &Cut| cut.edges.contains(&edge) && (cut.from..cut.until).contains(&now);
            let cut = self.settings.faults.cuts.iter().any(cut);
            for (from, to) in [(i, j), (j, i)] {
                if self.alive[from] {
                    let bytes = self.agents[from].message();
                    if !cut {
                        self.post(to, bytes);
                    }
                }
            }
        }
        self.deliver();
        self.step(&with);
        self.slots += 1;
        Ok(())
    }

    fn live_and_die(&mut self) -> Result<()> {
        let now = self.slots;
        for death in self.settings.faults.deaths.clone() {
            let i = death.agent;
            if death.checkpoint == now {
                self.saved[i] = Some(self.agents[i].checkpoint());
            }
            if death.from == now {
                self.alive[i] = false;
            }
            if death.until == now
                && let Some(bytes) = self.saved[i].take()
            {
                let work = self.agents[i].work().clone();
                let neighbors = self.graph.neighbors(i);
                let mut agent = Agent::restore(i, work, neighbors, self.rho, self.rank, &bytes)?;
                agent.set_trust(self.settings.trust.unwrap_or(f64::INFINITY));
                self.agents[i] = agent;
                self.alive[i] = true;
            }
        }
        Ok(())
    }

    fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && ((self.faults.bits() >> 11) as f64) < share * (1u64 << 53) as f64
    }

    /// Gives a message to the network.
    fn post(&mut self, to: usize, bytes: Vec<u8>) {
        let faults = &self.settings.faults;
        let (loss, duplication, delay) = (faults.loss, faults.duplication, faults.delay);
        let copies = 1 + usize::from(self.chance(duplication));
        for _ in 0..copies {
            if self.chance(loss) {
                continue;
            }
            let late = match delay {
                0 => 0,
                most => self.faults.below(most as usize + 1) as u64,
            };
            self.letters.push(Letter {
                due: self.slots + late,
                to,
                bytes: bytes.clone(),
            });
        }
    }

    /// Delivers what is due; late messages come in any order.
    fn deliver(&mut self) {
        let all = std::mem::take(&mut self.letters);
        let (mut due, later): (Vec<Letter>, Vec<Letter>) =
            all.into_iter().partition(|letter| letter.due <= self.slots);
        self.letters = later;
        if self.settings.faults.delay > 0 {
            for i in (1..due.len()).rev() {
                due.swap(i, self.faults.below(i + 1));
            }
        }
        let mut boxes: Vec<Vec<Vec<u8>>> = vec![Vec::new(); self.agents.len()];
        for letter in due {
            if self.alive[letter.to] {
                boxes[letter.to].push(letter.bytes);
            }
        }
        let mut work: Vec<_> = self.agents.iter_mut().zip(boxes).collect();
        map_rows(&mut work, 1, 1, self.settings.threads, |_, work| {
            for (agent, letters) in work {
                for bytes in letters.iter() {
                    agent.receive(bytes);
                }
            }
        });
    }

    /// Lets the agents step that are alive and have somebody to step with.
    fn step(&mut self, with: &[Option<usize>]) {
        let (slow, now) = (&self.settings.faults.slow, self.slots);
        let rests = |i: usize| {
            slow.iter()
                .any(|&(agent, times)| agent == i && now % times != 0)
        };
        let agents = self.agents.iter_mut().zip(with).zip(&self.alive);
        let mut turns: Vec<(&mut Agent<W>, usize)> = agents
            .enumerate()
            .filter(|(i, (_, alive))| **alive && !rests(*i))
            .map(|(_, turn)| turn)
            .filter_map(|((agent, with), _)| with.map(|with| (agent, with)))
            .collect();
        let (steps, slots) = (self.settings.steps, self.slots);
        map_rows(&mut turns, 1, 1, self.settings.threads, |_, turns| {
            for (agent, with) in turns {
                match steps {
                    Steps::Own => agent.own_step(),
                    Steps::Given { a, b, precondition } => {
                        agent.pair_step(*with, pace((a, b), slots), precondition)
                    }
                };
            }
        });
    }

    /// How far it has come; of agents that have stopped, where they were.
    pub fn status(&self) -> Status {
        let own = map_blocks(self.agents.len(), 1, self.settings.threads, |at| {
            self.agents[at.start].cost()
        });
        let subspaces: Vec<&Mat<f64>> = self.agents.iter().map(Agent::subspace).collect();
        let counters = self.agents.iter().map(Agent::counters);
        let threads = self.settings.threads;
        status(
            self.slots,
            &self.graph,
            self.rho,
            &own,
            &subspaces,
            counters,
            threads,
        )
    }

    /// The costs of all pairs, α_i f_i + α_j f_j + ρ/2 dist²(U_i, U_j): they add up to
    /// the cost of all agents.
    pub fn pair_costs(&self) -> Vec<f64> {
        let own: Vec<f64> = self.agents.iter().map(Agent::cost).collect();
        let pair = |&(i, j): &(usize, usize)| {
            let (u, v) = (self.agents[i].subspace(), self.agents[j].subspace());
            let apart = Grassmann::distance(u, v).powi(2);
            self.graph.weight(i) * own[i] + self.graph.weight(j) * own[j] + 0.5 * self.rho * apart
        };
        self.graph.edges().iter().map(pair).collect()
    }

    /// The Fréchet mean of all agents: the subspace that the run ends with.
    pub fn mean(&self) -> Result<Mat<f64>> {
        let points: Vec<Mat<f64>> = self.agents.iter().map(|a| a.subspace().clone()).collect();
        Grassmann::mean(&points)
            .ok_or_else(|| Error::failure("the subspaces of the agents have no mean"))
    }
}
