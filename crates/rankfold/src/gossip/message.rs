//! What agents tell each other: a subspace, with the number of its round.
//!
//! ```text
//! rkgossip │ version │ sender │ round │ m │ r │ U, column by column │ checksum
//! ```
//!
//! Numbers are of eight bytes, little endian. The checksum mixes all words before
//! it, each by a bijection, so that a change of any one word is always found. A
//! decoder knows the size that it expects, and allocates nothing for others.

use crate::random::splitmix64;
use faer::Mat;
use std::fmt;

const MAGIC: &[u8; 8] = b"rkgossip";
const VERSION: u64 = 1;

/// Bytes beside the subspace.
const FRAME: usize = 7 * 8;

/// How far UᵀU may be from the identity.
const ORTHONORMAL: f64 = 1e-9;

/// The largest round: clocks follow what they hear, and must not be led to the end
/// of numbers.
pub const LAST_ROUND: u64 = 1 << 48;

/// A subspace of m-dimensional space, from an agent at one of its rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who sends it.
    pub sender: usize,
    /// When, by its own clock.
    pub round: u64,
    /// U, orthonormal.
    pub subspace: Mat<f64>,
}

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// Bytes that are no message, or of another version.
    Foreign,
    /// A subspace of another size, m and r as found and as expected.
    Size([u64; 2], [u64; 2]),
    /// Fewer or more bytes than the size calls for.
    Length(usize, usize),
    /// Bytes that were changed on their way.
    Checksum,
    /// A round that no clock comes to.
    Round(u64),
    /// Numbers that are not finite, or columns that are not orthonormal.
    NotASubspace,
    /// A sender that is no neighbor.
    Stranger(u64),
    /// Changes of a subspace that is not known.
    Unfounded,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Foreign => write!(f, "expected a message of version {VERSION}, found others"),
            Refusal::Size(found, expected) => write!(
                f,
                "expected a subspace of {} by {}, found one of {} by {}",
                expected[0], expected[1], found[0], found[1]
            ),
            Refusal::Length(found, expected) => {
                write!(f, "expected {expected} bytes, found {found}")
            }
            Refusal::Checksum => f.write_str("the checksum is not that of the message"),
            Refusal::Round(round) => write!(f, "round {round} is beyond {LAST_ROUND}"),
            Refusal::NotASubspace => f.write_str("the columns are not orthonormal"),
            Refusal::Stranger(sender) => write!(f, "agent {sender} is no neighbor"),
            Refusal::Unfounded => f.write_str("changes of a subspace that is not known here"),
        }
    }
}

/// The checksum of whole words.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0x5eed, |sum, word| {
        splitmix64(sum ^ u64::from_le_bytes(*word))
    })
}

/// How many bytes a message with a subspace of this size has.
pub fn message_size(rows: usize, rank: usize) -> usize {
    rows.saturating_mul(rank)
        .saturating_mul(8)
        .saturating_add(FRAME)
}

/// Puts words and matrices into bytes, with a checksum at the end.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub fn new(magic: &[u8; 8], size: usize) -> Self {
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(magic);
        Writer(bytes)
    }

    pub fn word(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    pub fn matrix(&mut self, matrix: &Mat<f64>) {
        for column in matrix.col_iter() {
            for value in column.iter() {
                self.word(value.to_bits());
            }
        }
    }

    /// Any bytes, after their number and filled up to whole words.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }

    pub fn finish(mut self) -> Vec<u8> {
        let sum = checksum(&self.0);
        self.word(sum);
        self.0
    }
}

/// Takes words and matrices from bytes; `None` where they have ended.
pub(super) struct Reader<'a>(&'a [[u8; 8]]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes.as_chunks().0)
    }

    /// What is between the magic and the checksum; `None` where these do not hold.
    pub fn checked(magic: &[u8; 8], bytes: &'a [u8]) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
        let body = body.strip_prefix(magic)?;
        let whole = &bytes[..bytes.len() - 8];
        (sum == checksum(whole).to_le_bytes()).then(|| Reader::new(body))
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.word()?).ok()?;
        let (words, rest) = self.0.split_at_checked(length.div_ceil(8))?;
        self.0 = rest;
        Some(&words.as_flattened()[..length])
    }

    pub fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    /// Numbers, after how many there are.
    pub fn numbers(&mut self) -> Option<Vec<f64>> {
        let count = usize::try_from(self.word()?).ok()?;
        let (words, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        let number = |word: &[u8; 8]| f64::from_bits(u64::from_le_bytes(*word));
        Some(words.iter().map(number).collect())
    }

    pub fn matrix(&mut self, rows: usize, columns: usize) -> Option<Mat<f64>> {
        let count = rows.checked_mul(columns).filter(|&n| n <= self.0.len())?;
        let (words, rest) = self.0.split_at(count);
        self.0 = rest;
        let value = |i, j| f64::from_bits(u64::from_le_bytes(words[j * rows + i]));
        Some(Mat::from_fn(rows, columns, value))
    }

    /// An orthonormal matrix.
    pub fn subspace(&mut self, rows: usize, rank: usize) -> Option<Mat<f64>> {
        let u = self.matrix(rows, rank)?;
        let gap = u.transpose() * &u - Mat::<f64>::identity(rank, rank);
        // Also false where a number is not finite.
        let sound = gap
            .col_iter()
            .all(|c| c.iter().all(|v| v.abs() <= ORTHONORMAL));
        sound.then_some(u)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Message {
    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (rows, rank) = (self.subspace.nrows(), self.subspace.ncols());
        let mut out = Writer::new(MAGIC, message_size(rows, rank));
        for word in [VERSION, self.sender as u64, self.round] {
            out.word(word);
        }
        out.word(rows as u64);
        out.word(rank as u64);
        out.matrix(&self.subspace);
        out.finish()
    }

    /// The message that bytes hold, if it has a subspace of this size. Any bytes
    /// may be given.
    pub fn decode(bytes: &[u8], (rows, rank): (usize, usize)) -> Result<Message, Refusal> {
        let mut words = Reader::new(bytes);
        let magic = words.word().map(u64::to_le_bytes);
        if magic.as_ref() != Some(MAGIC) || words.word() != Some(VERSION) {
            return Err(Refusal::Foreign);
        }
        let mut next = || words.word().ok_or(Refusal::Length(bytes.len(), FRAME));
        let (sender, round, size) = (next()?, next()?, [next()?, next()?]);
        if size != [rows as u64, rank as u64] {
            return Err(Refusal::Size(size, [rows as u64, rank as u64]));
        }
        let expected = message_size(rows, rank);
        if bytes.len() != expected {
            return Err(Refusal::Length(bytes.len(), expected));
        }
        let (body, sum) = bytes.split_at(expected - 8);
        if sum != checksum(body).to_le_bytes() {
            return Err(Refusal::Checksum);
        }
        if round > LAST_ROUND {
            return Err(Refusal::Round(round));
        }
        let Ok(sender) = usize::try_from(sender) else {
            return Err(Refusal::Stranger(sender));
        };
        let subspace = words.subspace(rows, rank);
        Ok(Message {
            sender,
            round,
            subspace: subspace.ok_or(Refusal::NotASubspace)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::qf;
    use crate::manifold::tests::matrix;
    use crate::random::Random;

    fn message() -> Message {
        Message {
            sender: 3,
            round: 77,
            subspace: qf(&matrix(9, 2, 1)).unwrap(),
        }
    }

    #[test]
    fn messages_come_back_to_the_bit() {
        for (m, r) in [(1, 1), (5, 5), (9, 2), (300, 7)] {
            let message = Message {
                subspace: qf(&matrix(m, r, 1)).unwrap(),
                ..message()
            };
            let bytes = message.encode();
            assert_eq!(bytes.len(), message_size(m, r));
            assert_eq!(Message::decode(&bytes, (m, r)), Ok(message));
        }
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_found() {
        let bytes = message().encode();
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Message::decode(&changed, (9, 2)).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(Message::decode(&bytes[..end], (9, 2)).is_err());
        }
        let longer = [&bytes[..], &[0; 8]].concat();
        assert_eq!(
            Message::decode(&longer, (9, 2)),
            Err(Refusal::Length(bytes.len() + 8, bytes.len()))
        );
    }

    #[test]
    fn other_sizes_and_other_numbers_are_refused_with_words() {
        let bytes = message().encode();
        let refused = |found: Result<Message, Refusal>| found.unwrap_err().to_string();
        assert_eq!(
            refused(Message::decode(&bytes, (9, 3))),
            "expected a subspace of 9 by 3, found one of 9 by 2"
        );
        assert_eq!(
            refused(Message::decode(b"hello", (9, 3))),
            "expected a message of version 1, found others"
        );
        for (factor, round) in [
            (f64::NAN, 1),
            (1.001, 1),
            (f64::INFINITY, 1),
            (1.0, u64::MAX),
        ] {
            let message = Message {
                subspace: faer::Scale(factor) * message().subspace,
                round,
                ..message()
            };
            assert!(Message::decode(&message.encode(), (9, 2)).is_err());
        }
    }

    /// A size that would overflow, or fill the memory, is compared before it is used.
    #[test]
    fn absurd_sizes_allocate_nothing() {
        let mut bytes = message().encode();
        bytes[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        bytes[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(
            Message::decode(&bytes, (9, 2)),
            Err(Refusal::Size([u64::MAX, u64::MAX], [9, 2]))
        ));
    }

    /// More cases with `RANKFOLD_GARBAGE=1000000`.
    #[test]
    fn garbage_is_refused() {
        let cases = std::env::var("RANKFOLD_GARBAGE").ok();
        let cases: usize = cases.and_then(|n| n.parse().ok()).unwrap_or(10_000);
        let sound = message().encode();
        let mut random = Random::new(1, 0x6761_7262);
        let mut refused = 0;
        for case in 0..cases {
            let mut bytes = match case % 3 {
                0 => (0..random.below(300))
                    .map(|_| random.bits() as u8)
                    .collect(),
                1 => sound[..random.below(sound.len())].to_vec(),
                _ => sound.clone(),
            };
            for _ in 0..1 + random.below(4) {
                if !bytes.is_empty() {
                    let at = random.below(bytes.len());
                    bytes[at] ^= 1 + random.below(255) as u8;
                }
            }
            // Half of them with a checksum that holds.
            if case % 2 == 0 && bytes.len() >= 16 {
                let end = (bytes.len() - 8) / 8 * 8;
                let sum = checksum(&bytes[..end]).to_le_bytes();
                bytes.truncate(end);
                bytes.extend_from_slice(&sum);
            }
            match Message::decode(&bytes, (9, 2)) {
                // A small change of a number may leave columns orthonormal.
                Ok(found) => assert!(found.subspace.is_all_finite()),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > cases * 9 / 10, "{refused} of {cases}");
    }
}
