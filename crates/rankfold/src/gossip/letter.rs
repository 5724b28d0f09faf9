//! All that goes from one agent to another on a network, in one piece.
//!
//! ```text
//! rkletter │ version │ boot │ round │ flags │ list │ rank │ what is known of the receiver │
//! accord │ names │ parcel │ checksum
//! ```
//!
//! Letters of one process are in order by their round, and `boot` tells one process from
//! the next: an agent that restarts from an old state is heard at once. Numbers are of
//! eight bytes, little endian.

use super::accord::{Content, Statement};
use super::message::{Reader, Refusal, Writer};
use crate::random::splitmix64;

const MAGIC: &[u8; 8] = b"rkletter";
const VERSION: u64 = 1;

/// A name as a number: agents know each other by it.
pub fn name_id(name: &str) -> u64 {
    let start = name.len() as u64 ^ 0x6e61_6d65;
    let id = name.bytes().fold(start, |id, byte| {
        splitmix64(id ^ u64::from(byte.to_ascii_lowercase()))
    });
    // Fits the counters of a simulation on any machine.
    id >> 1
}

/// A letter.
#[derive(Debug, Clone, PartialEq)]
pub struct Letter {
    /// Another one for each start of the sender.
    pub boot: u64,
    /// The number of this letter since then.
    pub number: u64,
    /// The round of the sender.
    pub round: u64,
    /// Whether the sender has made its rounds.
    pub done: bool,
    /// Whether the sender goes for good.
    pub leaving: bool,
    /// What identifies the list of names; 0 where names are exchanged.
    pub list: u64,
    /// The rank of the sender.
    pub rank: u64,
    /// The newest letter of the receiver that the sender holds a subspace of: boot and number.
    pub holds: (u64, u64),
    /// How many names of the receiver the sender knows.
    pub knows: u64,
    /// What is said about numbers that concern all.
    pub statement: Statement,
    /// The number of the first name that is told.
    pub first_name: u64,
    /// Names.
    pub names: Vec<String>,
    /// The subspace, as a [`super::Parcel`], and the number of the letter that it is on top of.
    pub parcel: Option<(u64, Vec<u8>)>,
}

impl Letter {
    /// The letter as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let parcel = self.parcel.as_ref();
        let room = 400 + parcel.map_or(0, |(_, bytes)| bytes.len());
        let mut out = Writer::new(MAGIC, room);
        for word in [
            VERSION,
            self.boot,
            self.number,
            self.round,
            u64::from(self.done) | u64::from(self.leaving) << 1,
            self.list,
            self.rank,
            self.holds.0,
            self.holds.1,
            self.knows,
            self.statement.stage,
            self.statement.depth,
            self.statement.least,
        ] {
            out.word(word);
        }
        let numbers = |out: &mut Writer, values: &[f64]| {
            out.word(values.len() as u64);
            values.iter().for_each(|v| out.word(v.to_bits()));
        };
        match &self.statement.about {
            None => out.word(0),
            Some((stage, Content::Flow { flow, estimate })) => {
                out.word(1);
                out.word(*stage);
                numbers(&mut out, flow);
                numbers(&mut out, estimate);
            }
            Some((stage, Content::Result(result))) => {
                out.word(2);
                out.word(*stage);
                numbers(&mut out, result);
            }
        }
        out.word(self.first_name);
        out.word(self.names.len() as u64);
        for name in &self.names {
            out.bytes(name.as_bytes());
        }
        match parcel {
            None => out.word(0),
            Some((base, bytes)) => {
                out.word(1);
                out.word(*base);
                out.bytes(bytes);
            }
        }
        out.finish()
    }

    /// The letter that bytes hold. Any bytes may be given: what is allocated is never
    /// more than what they are long.
    pub fn decode(bytes: &[u8]) -> Result<Letter, Refusal> {
        if !bytes.starts_with(MAGIC) {
            return Err(Refusal::Foreign);
        }
        let mut words = Reader::checked(MAGIC, bytes).ok_or(Refusal::Checksum)?;
        if words.word() != Some(VERSION) {
            return Err(Refusal::Foreign);
        }
        Self::read(&mut words).ok_or(Refusal::Length(bytes.len(), 0))
    }

    fn read(words: &mut Reader<'_>) -> Option<Letter> {
        let (boot, number, round) = (words.word()?, words.word()?, words.word()?);
        let flags = words.word().filter(|flags| *flags < 4)?;
        let (list, rank) = (words.word()?, words.word()?);
        let holds = (words.word()?, words.word()?);
        let knows = words.word()?;
        let (stage, depth, least) = (words.word()?, words.word()?, words.word()?);
        let about = match words.word()? {
            0 => None,
            1 => {
                let about = words.word()?;
                let (flow, estimate) = (words.numbers()?, words.numbers()?);
                Some((about, Content::Flow { flow, estimate }))
            }
            2 => Some((words.word()?, Content::Result(words.numbers()?))),
            _ => return None,
        };
        let first_name = words.word()?;
        let count = words.word()?;
        let mut names = Vec::new();
        for _ in 0..count {
            let name = std::str::from_utf8(words.bytes()?).ok()?;
            // Names are ids of items: some text.
            (!name.is_empty()).then_some(())?;
            names.push(name.to_owned());
        }
        let parcel = match words.word()? {
            0 => None,
            1 => Some((words.word()?, words.bytes()?.to_vec())),
            _ => return None,
        };
        let letter = Letter {
            boot,
            number,
            round,
            done: flags & 1 != 0,
            leaving: flags & 2 != 0,
            list,
            rank,
            holds,
            knows,
            statement: Statement {
                stage,
                depth,
                least,
                about,
            },
            first_name,
            names,
            parcel,
        };
        words.is_empty().then_some(letter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gossip::message::checksum;
    use crate::random::Random;

    fn letter(about: Option<(u64, Content)>) -> Letter {
        Letter {
            boot: 7,
            number: 8,
            round: 9,
            done: true,
            leaving: false,
            list: 11,
            rank: 5,
            holds: (1, 2),
            knows: 3,
            statement: Statement {
                stage: 2,
                depth: 4,
                least: 6,
                about,
            },
            first_name: 3,
            names: vec!["a".into(), "a longer name, with ü".into()],
            parcel: Some((4, vec![1, 2, 3])),
        }
    }

    fn letters() -> Vec<Letter> {
        let flow = Content::Flow {
            flow: vec![1.0, 2.0],
            estimate: vec![3.0, 4.0],
        };
        vec![
            letter(None),
            letter(Some((2, flow))),
            letter(Some((1, Content::Result(vec![5.0])))),
        ]
    }

    #[test]
    fn letters_come_back() {
        for letter in letters() {
            let bytes = letter.encode();
            assert_eq!(Letter::decode(&bytes), Ok(letter));
            for end in 0..bytes.len() {
                assert!(Letter::decode(&bytes[..end]).is_err());
            }
        }
    }

    /// Half of the damaged letters have a checksum that holds.
    #[test]
    fn garbage_letters_are_refused_or_harmless() {
        let sound: Vec<Vec<u8>> = letters().iter().map(Letter::encode).collect();
        let mut random = Random::new(1, 0x6c65_7474);
        for case in 0..20_000 {
            let mut bytes = sound[case % 3].clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = random.bits() as u8;
            }
            if case % 2 == 0 {
                let end = (random.below(bytes.len() - 8) + 8) / 8 * 8;
                bytes.truncate(end);
                let sum = checksum(&bytes).to_le_bytes();
                bytes.extend_from_slice(&sum);
            }
            let _ = Letter::decode(&bytes);
        }
        assert_eq!(Letter::decode(b"hello"), Err(Refusal::Foreign));
    }

    #[test]
    fn names_are_told_apart_without_case() {
        assert_eq!(name_id("Ward-1"), name_id("ward-1"));
        assert_ne!(name_id("ward-1"), name_id("ward-2"));
        assert_ne!(name_id(""), name_id("\0"));
    }
}
