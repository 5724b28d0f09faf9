//! The baseline without geometry: agents with plain matrices, which are pulled
//! together by ρ/2 ‖U_i − U_j‖².
//!
//! It is not made of [`Agent`](super::Agent)s, because what it would send are no subspaces.

use super::agent::Counters;
use super::message::{LAST_ROUND, Reader, Writer, message_size};
use super::simulation::{EDGES, Faults, Settings, Status, Steps, check_starts, identity};
use super::work::Work;
use super::{Graph, pace};
use crate::linalg::qf;
use crate::manifold::Grassmann;
use crate::parallel::map_blocks;
use crate::random::Random;
use crate::{Error, Result};
use faer::Mat;

const MAGIC: &[u8; 8] = b"rkeucli1";

/// Agents on a graph, each with a matrix.
#[derive(Debug, Clone)]
pub struct Euclidean<W> {
    works: Vec<W>,
    graph: Graph,
    matchings: Vec<Vec<usize>>,
    rho: f64,
    points: Vec<Mat<f64>>,
    settings: Settings,
    /// a and b of the steps a/(1 + bk).
    steps: (f64, f64),
    edges: Random,
    /// Slots so far: k.
    slots: u64,
    counters: Counters,
}

impl<W: Work> Euclidean<W> {
    /// Agents with their work on a graph, from one matrix each, or from one that all
    /// share. Their steps are given and not scaled, and no message is lost.
    pub fn new(
        works: Vec<W>,
        graph: Graph,
        rho: f64,
        starts: &[Mat<f64>],
        settings: Settings,
    ) -> Result<Self> {
        let n = graph.agents();
        check_starts(n, works.len(), starts.len())?;
        let Steps::Given {
            a,
            b,
            precondition: false,
        } = settings.steps
        else {
            return Err(Error::input(
                "agents without geometry need given steps that are not scaled",
            ));
        };
        if settings.faults != Faults::default() {
            return Err(Error::input("agents without geometry know no faults"));
        }
        Ok(Euclidean {
            works,
            matchings: graph.matchings(),
            graph,
            rho,
            points: (0..n)
                .map(|i| starts[i.min(starts.len() - 1)].clone())
                .collect(),
            edges: Random::new(settings.seed, EDGES),
            settings,
            steps: (a, b),
            slots: 0,
            counters: Counters::default(),
        })
    }

    /// What each agent owns.
    pub fn works(&self) -> &[W] {
        &self.works
    }

    /// The matrix of each agent.
    pub fn points(&self) -> &[Mat<f64>] {
        &self.points
    }

    /// One slot, by the schedule.
    pub fn slot(&mut self) {
        let schedule = self.settings.schedule;
        let edges = schedule.draw(&self.graph, &self.matchings, &mut self.edges);
        self.slot_with(&edges);
    }

    /// A slot with these edges, which share no agent. Where a step is not finite, the
    /// agent stays where it is.
    pub fn slot_with(&mut self, edges: &[usize]) {
        let pairs = edges.iter().map(|&e| self.graph.edges()[e]);
        let turns: Vec<(usize, usize)> = pairs.flat_map(|(i, j)| [(i, j), (j, i)]).collect();
        let size = pace(self.steps, self.slots);
        let moved = map_blocks(turns.len(), 1, self.settings.threads, |at| {
            let (i, j) = turns[at.start];
            let (u, there) = (&self.points[i], &self.points[j]);
            let (_, slope) = self.works[i].plain(u);
            let slope =
                faer::Scale(self.graph.weight(i)) * slope + faer::Scale(self.rho) * (u - there);
            u - faer::Scale(size) * slope
        });
        for ((i, _), u) in turns.into_iter().zip(moved) {
            self.counters.sent += 1;
            self.counters.accepted += 1;
            self.counters.sent_bytes += message_size(u.nrows(), u.ncols()) as u64;
            match u.is_all_finite() {
                true => {
                    self.points[i] = u;
                    self.counters.steps += 1;
                }
                false => self.counters.refused_steps += 1,
            }
        }
        self.slots += 1;
    }

    /// How far it has come: Σ f_i(U_i) + ρ/2 Σ ‖U_i − U_j‖², and the largest distance
    /// between what neighbors span.
    pub fn status(&self) -> Status {
        let own = map_blocks(self.works.len(), 1, self.settings.threads, |at| {
            let i = at.start;
            (self.works[i].plain(&self.points[i]).0, qf(&self.points[i]))
        });
        let (mut apart, mut consensus) = (0.0, 0.0_f64);
        for &(i, j) in self.graph.edges() {
            apart += (&self.points[i] - &self.points[j]).squared_norm_l2();
            // A matrix that has lost rank spans nothing to compare.
            let distance = match (&own[i].1, &own[j].1) {
                (Some(u), Some(v)) => Grassmann::distance(u, v),
                _ => f64::INFINITY,
            };
            consensus = consensus.max(distance);
        }
        Status {
            slots: self.slots,
            cost: own.iter().map(|o| o.0).sum::<f64>() + 0.5 * self.rho * apart,
            consensus,
            counters: self.counters,
        }
    }

    /// An orthonormal basis of what the mean of all matrices spans.
    pub fn mean(&self) -> Result<Mat<f64>> {
        let mut sum = self.points[0].clone();
        self.points[1..].iter().for_each(|u| sum += u);
        qf(&sum).ok_or_else(|| Error::failure("the mean of the agents has lost rank"))
    }

    /// An orthonormal basis of what the matrix of each agent spans.
    pub fn subspaces(&self) -> Result<Vec<Mat<f64>>> {
        let basis = |(i, u)| {
            qf(u).ok_or_else(|| Error::failure(format!("the matrix of agent {i} has lost rank")))
        };
        self.points.iter().enumerate().map(basis).collect()
    }

    fn identity(&self) -> Vec<u64> {
        let rank = self.points[0].ncols();
        identity(&self.graph, self.rho, rank, &self.settings)
    }

    /// All that it knows beside the data, as bytes.
    pub fn checkpoint(&self) -> Vec<u8> {
        let mut out = Writer::new(MAGIC, 0);
        for word in self.identity() {
            out.word(word);
        }
        let c = self.counters;
        for word in [self.slots, c.steps, c.refused_steps, c.sent, c.sent_bytes] {
            out.word(word);
        }
        out.bytes(&serde_json::to_vec(&self.edges).expect("a generator is four numbers"));
        self.points.iter().for_each(|u| out.matrix(u));
        out.finish()
    }

    /// These agents as they were at a checkpoint of the same run.
    pub fn restored(mut self, checkpoint: &[u8]) -> Result<Self> {
        match self.read(checkpoint) {
            Some(()) => Ok(self),
            None => Err(Error::input("this is no checkpoint of this simulation")),
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Option<()> {
        let mut words = Reader::checked(MAGIC, bytes)?;
        for want in self.identity() {
            (words.word()? == want).then_some(())?;
        }
        self.slots = words.word().filter(|&slots| slots <= LAST_ROUND)?;
        let c = &mut self.counters;
        for counter in [
            &mut c.steps,
            &mut c.refused_steps,
            &mut c.sent,
            &mut c.sent_bytes,
        ] {
            *counter = words.word()?;
        }
        c.accepted = c.sent;
        self.edges = serde_json::from_slice(words.bytes()?).ok()?;
        for u in &mut self.points {
            *u = words.matrix(u.nrows(), u.ncols())?;
            u.is_all_finite().then_some(())?;
        }
        words.is_empty().then_some(())
    }
}
