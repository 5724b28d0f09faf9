//! Snapshots of the model, to start from without learning everything again.

use std::path::{Path, PathBuf};

use rankfold::{Error, Model, Result};
use serde::{Deserialize, Serialize};

use super::record::{Origin, RowEntry, checksum};

/// How many are kept: the one before the last serves where the last example is undone.
const KEPT: usize = 2;

/// What is written beside the model.
#[derive(Debug, Serialize, Deserialize)]
struct Card {
    format: u32,
    origin: Origin,
    number: u64,
    sequence: u64,
    checksum: String,
    rows: Vec<RowEntry>,
}

/// A model, and where in the journal it stands.
#[derive(Debug)]
pub struct Snapshot {
    pub model: Model,
    /// The number of the entry that comes next.
    pub number: u64,
    /// Examples that it has learned.
    pub sequence: u64,
    /// Rows that were added or replaced.
    pub rows: Vec<RowEntry>,
}

fn place(folder: &Path, number: u64, extension: &str) -> PathBuf {
    folder.join(format!("snapshot-{number:020}.{extension}"))
}

/// The numbers of all snapshots, the last first.
pub fn numbers(folder: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let number = |name: String| {
        let name = name.strip_prefix("snapshot-")?.strip_suffix(".json")?;
        name.parse::<u64>().ok()
    };
    let mut found: Vec<u64> = names.filter_map(number).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

impl Snapshot {
    /// Writes a snapshot, and removes those that are not needed any more.
    pub fn write(
        folder: &Path,
        origin: &Origin,
        model: &Model,
        (number, sequence): (u64, u64),
        rows: Vec<RowEntry>,
    ) -> Result<()> {
        let bytes = model.to_bytes()?;
        let write = |extension: &str, bytes: &[u8]| {
            let path = place(folder, number, extension);
            rankfold::data::write_atomically(path, |out| out.write_all(bytes))
        };
        write("safetensors", &bytes)?;
        let card = Card {
            format: super::FORMAT,
            origin: origin.clone(),
            number,
            sequence,
            checksum: format!("{:016x}", checksum(&bytes)),
            rows,
        };
        let card = serde_json::to_vec(&card);
        let card = card.map_err(|e| Error::failure(format!("cannot write a snapshot: {e}")))?;
        write("json", &card)?;
        for old in numbers(folder).into_iter().skip(KEPT) {
            // The card first: without it the model beside it is nothing.
            for extension in ["json", "safetensors"] {
                let _ = std::fs::remove_file(place(folder, old, extension));
            }
        }
        Ok(())
    }

    /// Reads a snapshot; `None` where it is not whole, or of another origin.
    pub fn read(folder: &Path, origin: &Origin, number: u64) -> Option<Self> {
        let card = std::fs::read(place(folder, number, "json")).ok()?;
        let card: Card = serde_json::from_slice(&card).ok()?;
        if card.origin != *origin || card.number != number || card.format > super::FORMAT {
            return None;
        }
        let bytes = std::fs::read(place(folder, number, "safetensors")).ok()?;
        if card.checksum != format!("{:016x}", checksum(&bytes)) {
            return None;
        }
        Some(Snapshot {
            model: Model::from_bytes(&bytes).ok()?,
            number,
            sequence: card.sequence,
            rows: card.rows,
        })
    }

    /// The last one at or before a number that can be read, and for which `fits` finds what is
    /// to be replayed.
    pub fn last<T>(
        folder: &Path,
        origin: &Origin,
        end: u64,
        mut fits: impl FnMut(&Snapshot) -> Result<Option<T>>,
    ) -> Result<Option<(Snapshot, T)>> {
        for number in numbers(folder).into_iter().filter(|n| *n <= end) {
            if let Some(snapshot) = Self::read(folder, origin, number)
                && let Some(found) = fits(&snapshot)?
            {
                return Ok(Some((snapshot, found)));
            }
        }
        Ok(None)
    }
}
