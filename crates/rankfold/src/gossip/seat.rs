//! An agent on its own: for whoever lets agents run apart, each where its data is.
//!
//! A [`Seat`] is made of bytes, of which all that it is made follows, and takes one turn after the
//! other: it hears a neighbor, steps, and gives all that it knows beside its data. With that it goes
//! on anywhere else, to the same bits.

use super::agent::{Agent, Counters};
use super::alone::alone;
use super::columns::Columns;
use super::message::{Message, Reader, Writer};
use super::regressions::Regressions;
use super::work::Work;
use crate::{Error, Result};
use faer::Mat;

const MAGIC: &[u8; 8] = b"rkplace1";

/// Work that is sent to where an agent lives, once.
pub(crate) trait Sent: Work + Sized {
    /// Tells kinds of work apart.
    const KIND: u64;

    /// The data.
    fn to_bytes(&self) -> Vec<u8>;

    /// Data from bytes; `None` where they are not sound.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

/// What an agent is made with beside its data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    pub id: usize,
    pub neighbors: Vec<usize>,
    pub rho: f64,
    pub rank: usize,
    pub trust: f64,
    pub seed: u64,
    /// Whether given steps are scaled.
    pub precondition: bool,
    /// Where it starts, unless its own data says that.
    pub start: Option<Mat<f64>>,
}

impl Place {
    /// The agent with its data, as bytes.
    pub fn with<W: Sent>(&self, work: &W) -> Vec<u8> {
        let mut out = Writer::new(MAGIC, 0);
        for word in [
            W::KIND,
            self.id as u64,
            self.rho.to_bits(),
            self.rank as u64,
            self.trust.to_bits(),
            self.seed,
            u64::from(self.precondition),
            self.neighbors.len() as u64,
        ] {
            out.word(word);
        }
        self.neighbors.iter().for_each(|&id| out.word(id as u64));
        out.word(self.start.as_ref().map_or(0, |start| start.nrows() as u64));
        if let Some(start) = &self.start {
            out.matrix(start);
        }
        out.bytes(&work.to_bytes());
        out.finish()
    }

    /// The place, the kind of work, and its bytes.
    fn read(bytes: &[u8]) -> Option<(Self, u64, &[u8])> {
        let mut words = Reader::checked(MAGIC, bytes)?;
        let kind = words.word()?;
        let mut number = || words.word();
        let (id, rho, rank) = (number()?, number()?, usize::try_from(number()?).ok()?);
        let (trust, seed, precondition, count) = (number()?, number()?, number()?, number()?);
        let mut neighbors = Vec::new();
        for _ in 0..count {
            neighbors.push(usize::try_from(words.word()?).ok()?);
        }
        let start = match usize::try_from(words.word()?).ok()? {
            0 => None,
            rows => Some(words.subspace(rows, rank)?),
        };
        let work = words.bytes()?;
        let place = Place {
            id: usize::try_from(id).ok()?,
            neighbors,
            rho: f64::from_bits(rho),
            rank,
            trust: f64::from_bits(trust),
            seed,
            precondition: precondition == 1,
            start,
        };
        words.is_empty().then_some((place, kind, work))
    }
}

/// An agent, or its data as long as it is not known where it is.
#[derive(Debug)]
enum Sitting<W> {
    Waiting(W),
    Agent(Box<Agent<W>>),
}

#[derive(Debug)]
struct Seated<W> {
    place: Place,
    sitting: Option<Sitting<W>>,
}

impl<W: Sent> Seated<W> {
    fn new(place: Place, bytes: &[u8]) -> Option<Self> {
        let sitting = Some(Sitting::Waiting(W::from_bytes(bytes)?));
        Some(Seated { place, sitting })
    }

    /// Makes the agent anew of its data.
    fn made(&mut self, make: impl FnOnce(&Place, W) -> Result<Agent<W>>) -> Result<&mut Agent<W>> {
        let work = match self.sitting.take() {
            Some(Sitting::Waiting(work)) => work,
            Some(Sitting::Agent(agent)) => agent.into_work(),
            None => return Err(Error::failure("an agent that was lost")),
        };
        let mut agent = make(&self.place, work)?;
        agent.set_trust(self.place.trust);
        let sitting = self.sitting.insert(Sitting::Agent(Box::new(agent)));
        match sitting {
            Sitting::Agent(agent) => Ok(agent),
            Sitting::Waiting(_) => Err(Error::failure("an agent that was lost")),
        }
    }

    fn begin(&mut self) -> Result<Vec<u8>> {
        let agent = self.made(|place, work| {
            let own = || alone(&work, place.rank, place.seed);
            let start = place.start.clone().or_else(own);
            let start =
                start.ok_or_else(|| Error::failure("no subspace to start from was found"))?;
            Agent::new(place.id, work, &place.neighbors, place.rho, &start)
        })?;
        Ok(agent.checkpoint())
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.made(|place, work| {
            let Place { id, rho, rank, .. } = *place;
            Agent::restore(id, work, &place.neighbors, rho, rank, state)
        })?;
        Ok(())
    }

    fn agent(&mut self) -> Result<&mut Agent<W>> {
        match &mut self.sitting {
            Some(Sitting::Agent(agent)) => Ok(agent),
            _ => Err(Error::input("an agent that has not begun")),
        }
    }

    fn turn(&mut self, turn: &Turn) -> Result<Vec<u8>> {
        let precondition = self.place.precondition;
        let agent = self.agent()?;
        // It has spoken as it was before.
        agent.message();
        agent.receive(&turn.message);
        match turn.size {
            None => agent.own_step(),
            Some(size) => agent.pair_step(turn.with, size, precondition),
        };
        Ok(agent.checkpoint())
    }
}

/// A turn of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Whose it is.
    pub agent: usize,
    /// The neighbor that it meets.
    pub with: usize,
    /// What that says.
    pub message: Vec<u8>,
    /// How long its step is, where it does not choose that.
    pub size: Option<f64>,
}

/// An agent on its own.
#[derive(Debug)]
pub struct Seat(Kind);

#[derive(Debug)]
enum Kind {
    Columns(Seated<Columns>),
    Regressions(Seated<Regressions>),
}

/// Asks the agent, whatever it owns.
macro_rules! seated {
    ($seat:expr, $seated:ident => $what:expr) => {
        match &mut $seat.0 {
            Kind::Columns($seated) => $what,
            Kind::Regressions($seated) => $what,
        }
    };
}

impl Seat {
    /// From the bytes that an [`Elsewhere`](super::Elsewhere) was dealt.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let found = Place::read(bytes).and_then(|(place, kind, work)| match kind {
            Columns::KIND => Some(Kind::Columns(Seated::new(place, work)?)),
            Regressions::KIND => Some(Kind::Regressions(Seated::new(place, work)?)),
            _ => None,
        });
        let found = found.ok_or_else(|| Error::input("these bytes are no agent with its data"))?;
        Ok(Seat(found))
    }

    /// Goes to its start; gives its state there.
    pub fn begin(&mut self) -> Result<Vec<u8>> {
        seated!(self, seated => seated.begin())
    }

    /// Goes to where it was in a state.
    pub fn restore(&mut self, state: &[u8]) -> Result<()> {
        seated!(self, seated => seated.restore(state))
    }

    /// Hears a neighbor and steps; gives its state after that.
    pub fn turn(&mut self, turn: &Turn) -> Result<Vec<u8>> {
        seated!(self, seated => seated.turn(turn))
    }

    /// Its own cost f(U).
    pub fn cost(&mut self) -> Result<f64> {
        seated!(self, seated => Ok(seated.agent()?.cost()))
    }
}

/// What a state says of its agent to others.
#[derive(Debug)]
pub(super) struct Portrait {
    pub id: usize,
    pub round: u64,
    pub counters: Counters,
    pub subspace: Mat<f64>,
}

impl Portrait {
    /// What the agent would say to a neighbor.
    pub fn message(&self) -> Vec<u8> {
        let message = Message {
            sender: self.id,
            round: self.round,
            subspace: self.subspace.clone(),
        };
        message.encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Observed, Part, Tasks};
    use crate::manifold::tests::matrix;

    fn place() -> Place {
        Place {
            id: 1,
            neighbors: vec![0, 2],
            rho: 0.5,
            rank: 2,
            trust: f64::INFINITY,
            seed: 7,
            precondition: false,
            start: None,
        }
    }

    fn columns() -> Columns {
        let entries = (0..30).map(|t| (t * 7 % 5, t % 6, f64::from(t % 4) - 1.5));
        let entries = Observed::new((5, 6), entries.collect()).unwrap().0;
        let view = entries.part(Part::All).transposed();
        Columns::new(view, 1..5, 0.25, 0.1).unwrap()
    }

    fn regressions() -> Regressions {
        let rows: Vec<(Vec<f64>, Vec<f64>)> = [9, 2, 1]
            .map(|n| {
                let x = matrix(n, 4, n);
                let rows = (0..4 * n).map(|at| x[(at / 4, at % 4)]);
                (
                    rows.collect(),
                    (0..n).map(|i| i as f64 - x[(i, 1)]).collect(),
                )
            })
            .to_vec();
        let tasks = Tasks::new(4, rows.iter().map(|(x, y)| (&x[..], &y[..])));
        Regressions::new(tasks.unwrap(), 0.3)
    }

    #[test]
    fn work_comes_back_to_the_bit_and_damage_is_refused() {
        let all = [place().with(&columns()), place().with(&regressions())];
        for bytes in all {
            let (found, kind, work) = Place::read(&bytes).unwrap();
            assert_eq!(found, place());
            let again = match kind {
                Columns::KIND => found.with(&Columns::from_bytes(work).unwrap()),
                _ => found.with(&Regressions::from_bytes(work).unwrap()),
            };
            assert_eq!(again, bytes);
            for end in 0..bytes.len() {
                assert!(Seat::new(&bytes[..end]).is_err());
            }
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 0x41;
                assert!(Seat::new(&changed).is_err(), "byte {at}");
            }
        }
    }

    #[test]
    fn an_agent_begins_first_and_goes_on_from_its_own_states_only() {
        let bytes = place().with(&columns());
        let mut seat = Seat::new(&bytes).unwrap();
        let turn = Turn {
            agent: 1,
            with: 0,
            message: Vec::new(),
            size: None,
        };
        assert!(seat.turn(&turn).is_err() && seat.cost().is_err());
        let first = seat.begin().unwrap();
        let cost = seat.cost().unwrap();
        let second = seat.turn(&turn).unwrap();
        let mut other = Seat::new(&bytes).unwrap();
        other.restore(&first).unwrap();
        assert_eq!(other.cost().unwrap(), cost);
        assert_eq!(other.turn(&turn).unwrap(), second);
        let mut stranger = Seat::new(&Place { id: 2, ..place() }.with(&columns())).unwrap();
        assert!(stranger.restore(&first).is_err());
        assert!(other.restore(&first[..50]).is_err());
    }
}
