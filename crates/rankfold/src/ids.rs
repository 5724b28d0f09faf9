//! The user's names for rows, features and classes, and the way back.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::fmt::{Display, Write};
use std::hash::BuildHasher;

/// A list of distinct strings, numbered in the order they came.
///
/// The text lies in one buffer, so a million ids cost their bytes and about
/// twenty more each; the same two arrays go into the model file.
#[derive(Debug, Clone, Default)]
pub struct Ids {
    bytes: Vec<u8>,
    /// Where each id ends; its start is the end of the one before.
    ends: Vec<u64>,
    lookup: HashTable<u32>,
    /// Another in every run, so that nobody can choose ids that meet in one place of the
    /// table. Nothing follows from the order of the table.
    keyed: DefaultHashBuilder,
}

/// FNV-1a, which is the same on every machine. It is easy to find ids that it takes for
/// the same, so nothing is looked up by it.
fn fixed_hash(id: &[u8]) -> u64 {
    id.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn slice<'a>(bytes: &'a [u8], ends: &[u64], i: u32) -> &'a [u8] {
    let i = i as usize;
    let start = if i == 0 { 0 } else { ends[i - 1] as usize };
    &bytes[start..ends[i] as usize]
}

impl Ids {
    /// No ids.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of an id, new or known.
    pub fn intern(&mut self, id: &str) -> u32 {
        let Ids {
            bytes,
            ends,
            lookup,
            keyed,
        } = self;
        let found = lookup.entry(
            keyed.hash_one(id.as_bytes()),
            |&i| slice(bytes, ends, i) == id.as_bytes(),
            |&i| keyed.hash_one(slice(bytes, ends, i)),
        );
        match found {
            hashbrown::hash_table::Entry::Occupied(entry) => *entry.get(),
            hashbrown::hash_table::Entry::Vacant(entry) => {
                let number = u32::try_from(ends.len()).expect("fewer than 2³² ids");
                entry.insert(number);
                bytes.extend_from_slice(id.as_bytes());
                ends.push(bytes.len() as u64);
                number
            }
        }
    }

    /// The number of a known id.
    pub fn find(&self, id: &str) -> Option<u32> {
        let same = |&i: &u32| slice(&self.bytes, &self.ends, i) == id.as_bytes();
        let hash = self.keyed.hash_one(id.as_bytes());
        self.lookup.find(hash, same).copied()
    }

    /// A hash of the id with this number: the same on every machine, whatever
    /// the order in which ids came.
    #[track_caller]
    pub(crate) fn hash_of(&self, number: u32) -> u64 {
        fixed_hash(slice(&self.bytes, &self.ends, number))
    }

    /// The id with this number.
    #[track_caller]
    pub fn get(&self, number: u32) -> &str {
        std::str::from_utf8(slice(&self.bytes, &self.ends, number)).expect("ids are text")
    }

    /// All ids in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len() as u32).map(|i| self.get(i))
    }

    /// Ids that must all differ; the first that stands twice is the error.
    pub(crate) fn distinct<D: Display>(ids: impl IntoIterator<Item = D>) -> Result<Self, String> {
        let (mut out, mut text) = (Ids::new(), IdText::default());
        for (i, id) in ids.into_iter().enumerate() {
            let id = text.of(id);
            if out.intern(id) as usize != i {
                return Err(id.to_owned());
            }
        }
        Ok(out)
    }

    /// The two arrays of the model file: all text, and where each id starts
    /// (with one more entry, the end of the last).
    pub fn to_parts(&self) -> (Vec<u8>, Vec<u64>) {
        let offsets = std::iter::once(0)
            .chain(self.ends.iter().copied())
            .collect();
        (self.bytes.clone(), offsets)
    }

    /// From the two arrays of a model file, which is not trusted.
    pub fn from_parts(bytes: &[u8], offsets: &[u64]) -> Result<Self, String> {
        if offsets.first() != Some(&0) || offsets.last() != Some(&(bytes.len() as u64)) {
            return Err("id offsets do not span the id text".into());
        }
        let mut out = Ids::new();
        for pair in offsets.windows(2) {
            if pair[0] > pair[1] || pair[1] > bytes.len() as u64 {
                return Err("id offsets do not increase".into());
            }
            let text = std::str::from_utf8(&bytes[pair[0] as usize..pair[1] as usize])
                .map_err(|_| "an id is not UTF-8 text")?;
            let number = out.intern(text);
            if number as usize != out.len() - 1 || out.len() as u64 > u64::from(u32::MAX) {
                return Err(format!("id `{text}` stands twice"));
            }
        }
        if out.len() != offsets.len() - 1 {
            return Err("an id stands twice".into());
        }
        Ok(out)
    }
}

impl PartialEq for Ids {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.ends == other.ends
    }
}

/// Texts, numbers, or anything else that can be written.
impl<D: Display> FromIterator<D> for Ids {
    fn from_iter<I: IntoIterator<Item = D>>(iter: I) -> Self {
        let (mut out, mut text) = (Ids::new(), IdText::default());
        for id in iter {
            out.intern(text.of(id));
        }
        out
    }
}

/// Writes ids of any type as text, into memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct IdText(String);

impl IdText {
    pub fn of(&mut self, id: impl Display) -> &str {
        self.0.clear();
        write!(self.0, "{id}").expect("memory takes any text");
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_in_order_and_are_found() {
        let ids: Ids = ["b", "a", "", "b", "ü"].into_iter().collect();
        assert_eq!(ids.iter().collect::<Vec<_>>(), ["b", "a", "", "ü"]);
        assert_eq!(ids.find("ü"), Some(3));
        assert_eq!(ids.find("c"), None);
        let (bytes, offsets) = ids.to_parts();
        assert_eq!(Ids::from_parts(&bytes, &offsets).unwrap(), ids);
        let numbers: Ids = [7, -1, 7].into_iter().collect();
        assert_eq!(numbers.iter().collect::<Vec<_>>(), ["7", "-1"]);
        assert_eq!(Ids::distinct(["7", "-1"]), Ok(numbers));
        assert_eq!(Ids::distinct([1, 2, 3, 2, 3]), Err("2".to_owned()));
        assert_eq!(Ids::distinct([""; 0]), Ok(Ids::new()));
    }

    #[test]
    fn nobody_can_choose_ids_that_meet_in_the_table() {
        // The low bits of FNV-1a follow from the low bits of its state. So parts that lead
        // to one state can be strung together: 2ⁿ ids of n parts meet.
        const LOW: u64 = (1 << 20) - 1;
        let texts = (0..200_000u32).map(|i| format!("{i:x}"));
        let mut parts: Vec<[String; 2]> = Vec::new();
        let mut before = String::new();
        for _ in 0..10 {
            let mut seen = hashbrown::HashMap::new();
            let pair = texts.clone().find_map(|text| {
                let low = fixed_hash(format!("{before}{text}").as_bytes()) & LOW;
                let other: Option<String> = seen.insert(low, text.clone());
                other.map(|other| [other, text])
            });
            parts.push(pair.expect("more texts than states"));
            before.push_str(&parts[parts.len() - 1][0]);
        }
        let ids: Vec<String> = (0..1usize << parts.len())
            .map(|n| {
                (0..)
                    .zip(&parts)
                    .map(|(b, two)| two[n >> b & 1].as_str())
                    .collect()
            })
            .collect();
        let distinct = |hash: &dyn Fn(&[u8]) -> u64| {
            let low: hashbrown::HashSet<u64> =
                ids.iter().map(|id| hash(id.as_bytes()) & LOW).collect();
            low.len()
        };
        assert_eq!(distinct(&fixed_hash), 1);
        let keyed = Ids::new().keyed;
        assert!(distinct(&|id| keyed.hash_one(id)) > ids.len() / 2);
        // Another table has another key.
        let other = Ids::new().keyed;
        assert!(
            ids.iter()
                .any(|id| keyed.hash_one(id) != other.hash_one(id))
        );
        let found: Ids = ids.iter().collect();
        assert_eq!(found.len(), ids.len());
        assert_eq!(found.hash_of(0), fixed_hash(ids[0].as_bytes()));
    }

    #[test]
    fn the_fixed_hash_is_that_of_the_standard() {
        assert_eq!(fixed_hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fixed_hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fixed_hash(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn damaged_parts_are_refused() {
        assert!(Ids::from_parts(b"ab", &[0, 3]).is_err());
        assert!(Ids::from_parts(b"ab", &[0, 2, 1, 2]).is_err());
        assert!(Ids::from_parts(b"aa", &[0, 1, 2]).is_err());
        assert!(Ids::from_parts(b"\xff", &[0, 1]).is_err());
        assert!(Ids::from_parts(b"", &[]).is_err());
    }
}
