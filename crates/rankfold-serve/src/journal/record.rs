//! Records of a journal: a line each, `CHECKSUM JSON`, so that a journal can be read with any
//! tool for text. A record holds what was made durable by one flush, whole or not at all.

use std::hash::Hasher;

use rankfold::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use twox_hash::XxHash64;

/// The version of the journal that this code writes.
pub const FORMAT: u32 = 1;

/// Where a journal began: nothing of it means the same elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The hash of the bytes of the model file.
    pub model: String,
    /// The hash of the file of rows, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
    /// The hash of the file of objects, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<String>,
}

/// The first line of a file of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Always `journal`.
    pub rankfold: String,
    pub format: u32,
    pub origin: Origin,
    /// The number of the first entry of the file.
    pub first: u64,
}

/// Which side of the model a row stands on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowSide {
    /// Rows, which ask.
    #[default]
    Left,
    /// Objects, which are asked for.
    Right,
}

/// What happened, one thing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// An example that was learned, as a stream of `rankfold update` has it.
    Example(Box<RawValue>),
    /// The last example that counts does not count any more.
    Undo(Undo),
    /// A row was added or replaced.
    Row(RowEntry),
}

/// Nothing more is to be said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {}

/// A row by value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RowEntry {
    pub id: String,
    #[serde(default)]
    pub side: RowSide,
    pub features: Box<RawValue>,
}

/// What one flush makes durable.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    /// The number of its first entry, from 0.
    pub first: u64,
    pub entries: Vec<Entry>,
}

/// The checksum of bytes.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut hash = XxHash64::with_seed(0x7261_6e6b_666f_6c64);
    hash.write(bytes);
    hash.finish()
}

/// A line of the journal, with its end.
pub fn line(value: &impl Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(value);
    let json = json.map_err(|e| Error::failure(format!("cannot write a record: {e}")))?;
    let mut line = format!("{:016x} ", checksum(&json)).into_bytes();
    line.extend_from_slice(&json);
    line.push(b'\n');
    Ok(line)
}

/// The JSON of a line, where its checksum is right and its end is there.
pub fn checked(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\n")?;
    let (sum, json) = line.split_at_checked(17)?;
    let sum = std::str::from_utf8(sum.strip_suffix(b" ")?).ok()?;
    let found = u64::from_str_radix(sum, 16).ok()?;
    (found == checksum(json)).then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_touched_is_no_record() {
        let raw = RawValue::from_string(r#"{"user":"a\n","item":1}"#.into()).unwrap();
        let record = Record {
            first: 7,
            entries: vec![Entry::Example(raw), Entry::Undo(Undo {})],
        };
        let written = line(&record).unwrap();
        let read: Record = serde_json::from_slice(checked(&written).unwrap()).unwrap();
        assert_eq!((read.first, read.entries.len()), (7, 2));
        for at in 0..written.len() {
            assert!(checked(&written[..at]).is_none(), "cut at {at}");
            let mut other = written.clone();
            other[at] ^= 1;
            assert!(checked(&other).is_none(), "changed at {at}");
        }
    }
}
