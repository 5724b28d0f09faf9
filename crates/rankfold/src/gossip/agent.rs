//! An agent: a state machine with data of its own. Messages go in and come out as
//! bytes; it knows nothing of time, threads, files or networks.
//!
//! Rounds order the messages of a sender. A round is a step of the sender, and clocks
//! never fall behind what they hear [Lamport 1978]. So an agent that comes back from
//! an old checkpoint, and would say again what is known to be late, is ahead of
//! itself as soon as it has heard from a neighbor.

use super::message::{LAST_ROUND, Message, Reader, Refusal, Writer};
use super::own::{Course, curvature};
use super::seat::Portrait;
use super::work::{Local, Work};
use crate::linalg::symmetric;
use crate::manifold::Grassmann;
use crate::{Error, Result};
use faer::Mat;

const MAGIC: &[u8; 8] = b"rkagent1";

/// What an agent did and met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Steps that moved it.
    pub steps: u64,
    /// Steps that could not be taken, and changed nothing.
    pub refused_steps: u64,
    /// Messages sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages taken.
    pub accepted: u64,
    /// Messages that were late, or came twice.
    pub stale: u64,
    /// Messages that were none, or not for this agent.
    pub rejected: u64,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// It is the newest of its sender.
    Accepted,
    /// A newer one, or the same, came before.
    Stale,
    /// It was refused.
    Rejected(Refusal),
}

/// The last that was heard from a neighbor.
#[derive(Debug, Clone)]
pub(super) struct Neighbor {
    pub(super) id: usize,
    pub(super) heard: Option<(u64, Mat<f64>)>,
}

/// An agent.
#[derive(Debug, Clone)]
pub struct Agent<W> {
    id: usize,
    pub(super) work: W,
    pub(super) rho: f64,
    /// How far a neighbor's pull grows with its distance.
    pub(super) trust: f64,
    pub(super) local: Local,
    pub(super) neighbors: Vec<Neighbor>,
    round: u64,
    pub(super) course: Course,
    pub(super) counters: Counters,
}

impl<W: Work> Agent<W> {
    /// An agent with its number, its neighbors, ρ, and the subspace it starts from.
    pub fn new(
        id: usize,
        work: W,
        neighbors: &[usize],
        rho: f64,
        start: &Mat<f64>,
    ) -> Result<Self> {
        let m = work.dimension();
        if start.nrows() != m || start.ncols() > m {
            return Err(Error::input(format!(
                "expected a subspace of {m}-dimensional space, found a matrix of {} by {}",
                start.nrows(),
                start.ncols()
            )));
        }
        let local = work.local(start, None);
        if !local.cost.is_finite() {
            return Err(Error::failure(format!(
                "the cost of agent {id} is not finite where it starts"
            )));
        }
        let neighbor = |&id: &usize| Neighbor { id, heard: None };
        Ok(Agent {
            id,
            work,
            rho,
            trust: f64::INFINITY,
            local,
            neighbors: neighbors.iter().map(neighbor).collect(),
            round: 0,
            course: Course::default(),
            counters: Counters::default(),
        })
    }

    /// Its number.
    pub fn id(&self) -> usize {
        self.id
    }

    /// What it owns.
    pub fn work(&self) -> &W {
        &self.work
    }

    /// Where it is, and what it knows there.
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// Its subspace.
    pub fn subspace(&self) -> &Mat<f64> {
        &self.local.u
    }

    /// f(U), without what its first steps add to it.
    pub fn cost(&self) -> f64 {
        match self.course.prior {
            None => self.local.cost,
            Some(_) => self.work.local(&self.local.u, None).cost,
        }
    }

    /// The largest curvature of f for a usual row of U: what ρ and steps are measured
    /// by.
    pub fn curvature(&self) -> f64 {
        curvature(&self.work, &self.local)
    }

    /// What it did and met.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Its subspace, for any neighbor; counted as sent.
    pub fn message(&mut self) -> Vec<u8> {
        let message = Message {
            sender: self.id,
            round: self.round,
            subspace: self.local.u.clone(),
        };
        let bytes = message.encode();
        self.counters.sent += 1;
        self.counters.sent_bytes += bytes.len() as u64;
        bytes
    }

    /// Takes a message; any bytes may come.
    pub fn receive(&mut self, bytes: &[u8]) -> Received {
        let size = (self.local.u.nrows(), self.local.u.ncols());
        let message = match Message::decode(bytes, size) {
            Ok(message) => message,
            Err(refusal) => return self.reject(refusal),
        };
        let found = self.neighbors.iter_mut().find(|n| n.id == message.sender);
        let Some(neighbor) = found else {
            return self.reject(Refusal::Stranger(message.sender as u64));
        };
        self.round = self.round.max(message.round);
        match &neighbor.heard {
            Some((round, _)) if message.round <= *round => {
                self.counters.stale += 1;
                Received::Stale
            }
            _ => {
                neighbor.heard = Some((message.round, message.subspace));
                self.counters.accepted += 1;
                Received::Accepted
            }
        }
    }

    fn reject(&mut self, refusal: Refusal) -> Received {
        self.counters.rejected += 1;
        Received::Rejected(refusal)
    }

    /// A step that it chooses by itself; false where none was possible.
    pub fn own_step(&mut self) -> bool {
        let heard: Vec<&Mat<f64>> = self
            .neighbors
            .iter()
            .filter_map(|n| n.heard.as_ref().map(|(_, u)| u))
            .collect();
        let moved = self
            .course
            .step(&self.work, &mut self.local, &heard, self.rho, self.trust);
        self.count(moved)
    }

    /// A step of a given size on the cost of its pair with a neighbor
    /// [Mishra2019, algorithm 1]:
    ///
    /// ```text
    /// ξ = α grad f − ρ Log_U(Ũ)      ξ ← ξ (WᵀW + ρI)⁻¹ if preconditioned
    /// U ← Exp_U(−γξ)
    /// ```
    ///
    /// Without anything heard from the neighbor it is a step on its own cost. False
    /// where it was not possible.
    pub fn pair_step(&mut self, with: usize, size: f64, precondition: bool) -> bool {
        let moved = match self.pair_target(with, size, precondition) {
            Some(local) => {
                self.local = local;
                true
            }
            None => false,
        };
        self.count(moved)
    }

    fn pair_target(&self, with: usize, size: f64, precondition: bool) -> Option<Local> {
        let (u, k) = (&self.local.u, self.local.u.ncols());
        let weight = 1.0 / self.neighbors.len().max(1) as f64;
        let mut slope = faer::Scale(weight) * &self.local.gradient;
        let neighbor = self.neighbors.iter().find(|n| n.id == with);
        if let Some((_, there)) = neighbor.and_then(|n| n.heard.as_ref()) {
            slope -= faer::Scale(self.rho) * Grassmann::log(u, there)?;
        }
        if precondition {
            let ridge = faer::Scale(self.rho) * Mat::<f64>::identity(k, k);
            slope = slope * symmetric::power(&(&self.local.gram + ridge), -1.0)?;
        }
        let there = Grassmann::exp(u, &(faer::Scale(-size) * slope))?;
        let local = self.work.local(&there, None);
        local.cost.is_finite().then_some(local)
    }

    fn count(&mut self, moved: bool) -> bool {
        match moved {
            true => self.counters.steps += 1,
            false => self.counters.refused_steps += 1,
        }
        self.round = (self.round + 1).min(LAST_ROUND);
        moved
    }

    /// All that it knows beside its data, as bytes.
    pub fn checkpoint(&self) -> Vec<u8> {
        let (m, k) = (self.local.u.nrows(), self.local.u.ncols());
        let mut out = Writer::new(MAGIC, 8 * (30 + m * k * (1 + self.neighbors.len())));
        let c = self.counters;
        for word in [
            self.id as u64,
            m as u64,
            k as u64,
            self.neighbors.len() as u64,
            self.round,
            c.steps,
            c.refused_steps,
            c.sent,
            c.sent_bytes,
            c.accepted,
            c.stale,
            c.rejected,
            self.course.steps,
            self.course.level.to_bits(),
            self.course.before.to_bits(),
            self.course.residuals.to_bits(),
            self.course.still,
            self.course.share.to_bits(),
            u64::from(self.course.prior.is_some()),
        ] {
            out.word(word);
        }
        if let Some(prior) = &self.course.prior {
            out.matrix(prior);
        }
        out.matrix(&self.local.u);
        for neighbor in &self.neighbors {
            out.word(neighbor.id as u64);
            // 0 where nothing was heard, else the round and one more.
            out.word(neighbor.heard.as_ref().map_or(0, |(round, _)| round + 1));
            if let Some((_, u)) = &neighbor.heard {
                out.matrix(u);
            }
        }
        out.finish()
    }

    /// The agent of a checkpoint, with its data and what it was made with. It goes on
    /// as if it had never stopped.
    pub fn restore(
        id: usize,
        work: W,
        neighbors: &[usize],
        rho: f64,
        rank: usize,
        checkpoint: &[u8],
    ) -> Result<Self> {
        let found = Self::parse(id, &work, neighbors, rank, checkpoint);
        let (u, heard, round, course, counters) = found.ok_or_else(|| {
            Error::input(format!("this is no checkpoint of agent {id} in this run"))
        })?;
        let local = work.local(&u, course.prior.as_ref());
        let neighbor = |(&id, heard)| Neighbor { id, heard };
        Ok(Agent {
            id,
            rho,
            trust: f64::INFINITY,
            local,
            neighbors: neighbors.iter().zip(heard).map(neighbor).collect(),
            round,
            course,
            counters,
            work,
        })
    }

    #[allow(clippy::type_complexity)]
    fn parse(
        id: usize,
        work: &W,
        neighbors: &[usize],
        rank: usize,
        bytes: &[u8],
    ) -> Option<(
        Mat<f64>,
        Vec<Option<(u64, Mat<f64>)>>,
        u64,
        Course,
        Counters,
    )> {
        let mut words = Reader::checked(MAGIC, bytes)?;
        let m = work.dimension();
        let want = [id as u64, m as u64, rank as u64, neighbors.len() as u64];
        for want in want {
            (words.word()? == want).then_some(())?;
        }
        let round = words.word().filter(|&round| round <= LAST_ROUND)?;
        let counters = counters(&mut words)?;
        let mut course = Course {
            steps: words.word()?,
            level: f64::from_bits(words.word()?),
            before: f64::from_bits(words.word()?),
            residuals: f64::from_bits(words.word()?),
            still: words.word()?,
            share: f64::from_bits(words.word()?),
            prior: None,
        };
        let sound = course.level > 0.0
            && course.level.is_finite()
            && (0.0..=1.0).contains(&course.share)
            && !course.before.is_nan()
            && !course.residuals.is_nan();
        sound.then_some(())?;
        if words.word()? == 1 {
            let prior = words.matrix(rank, rank)?;
            prior.is_all_finite().then_some(())?;
            course.prior = Some(prior);
        }
        let u = words.subspace(m, rank)?;
        let mut heard = Vec::with_capacity(neighbors.len());
        for &id in neighbors {
            (words.word()? == id as u64).then_some(())?;
            heard.push(match words.word()? {
                0 => None,
                next => Some((next - 1, words.subspace(m, rank)?)),
            });
        }
        words
            .is_empty()
            .then_some((u, heard, round, course, counters))
    }

    /// Its data, at the end of its life.
    pub fn into_work(self) -> W {
        self.work
    }
}

/// The subspace in the checkpoint of any agent.
pub fn checkpoint_subspace(bytes: &[u8]) -> Option<Mat<f64>> {
    portrait(bytes).map(|found| found.subspace)
}

/// What the checkpoint of any agent says of it to others.
pub(super) fn portrait(bytes: &[u8]) -> Option<Portrait> {
    let mut words = Reader::checked(MAGIC, bytes)?;
    let id = usize::try_from(words.word()?).ok()?;
    let (m, k) = (words.word()?, words.word()?);
    let (m, k) = (usize::try_from(m).ok()?, usize::try_from(k).ok()?);
    let _neighbors = words.word()?;
    let round = words.word()?;
    let counters = counters(&mut words)?;
    // The course, up to whether there is a prior.
    for _ in 0..6 {
        words.word()?;
    }
    if words.word()? == 1 {
        words.matrix(k, k)?;
    }
    Some(Portrait {
        id,
        round,
        counters,
        subspace: words.subspace(m, k)?,
    })
}

fn counters(words: &mut Reader<'_>) -> Option<Counters> {
    Some(Counters {
        steps: words.word()?,
        refused_steps: words.word()?,
        sent: words.word()?,
        sent_bytes: words.word()?,
        accepted: words.word()?,
        stale: words.word()?,
        rejected: words.word()?,
    })
}
