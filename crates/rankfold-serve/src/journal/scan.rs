//! Reads the files of a journal, and tells a record that was being written from damage.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use rankfold::{Error, Result};

use super::record::{FORMAT, Header, Origin, Record, checked};

/// A file of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub path: PathBuf,
    /// The number of its first entry.
    pub first: u64,
}

const PREFIX: &str = "journal-";
const SUFFIX: &str = ".jsonl";

impl Segment {
    pub fn new(folder: &Path, first: u64) -> Self {
        Segment {
            path: folder.join(format!("{PREFIX}{first:020}{SUFFIX}")),
            first,
        }
    }

    /// All files of a journal, in order.
    pub fn all(folder: &Path) -> Result<Vec<Segment>> {
        let mut found = Vec::new();
        let entries = std::fs::read_dir(folder).map_err(|e| Error::reading(folder, &e))?;
        for entry in entries {
            let entry = entry.map_err(|e| Error::reading(folder, &e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name
                .strip_prefix(PREFIX)
                .and_then(|n| n.strip_suffix(SUFFIX));
            if let Some(first) = number.and_then(|n| n.parse().ok()) {
                found.push(Segment {
                    path: entry.path(),
                    first,
                });
            }
        }
        found.sort_by_key(|segment| segment.first);
        Ok(found)
    }
}

/// Reads the records of one file in their order.
pub struct Reader {
    source: BufReader<File>,
    segment: Segment,
    line: Vec<u8>,
    number: u64,
    /// Where the next line starts.
    at: u64,
    next: u64,
}

/// What a file holds next.
pub enum Next {
    Record(Record),
    End,
    /// A line that is no record: the rest of the file starts here.
    Bad {
        at: u64,
    },
}

impl Reader {
    /// Opens a file; its header must name this origin. `None` where the header itself was being
    /// written when the service ended.
    pub fn open(segment: &Segment, origin: &Origin) -> Result<Option<Self>> {
        let file = File::open(&segment.path).map_err(|e| Error::reading(&segment.path, &e))?;
        let mut reader = Reader {
            source: BufReader::with_capacity(1 << 17, file),
            segment: segment.clone(),
            line: Vec::new(),
            number: 0,
            at: 0,
            next: segment.first,
        };
        reader.read_line()?;
        let Some(json) = checked(&reader.line) else {
            return match reader.valid_follows()? {
                false => Ok(None),
                true => Err(reader.damaged()),
            };
        };
        let header: Header = serde_json::from_slice(json).map_err(|_| reader.damaged())?;
        if header.format > FORMAT {
            return Err(reader.error(format!(
                "written in format {}, this version of rankfold reads up to {FORMAT}: update rankfold",
                header.format
            )));
        }
        if header.origin.model != origin.model {
            return Err(Error::input(
                "the journal began from another model: give the model that it began from, or \
                 another --journal DIR",
            ));
        }
        if header.origin.rows != origin.rows || header.origin.objects != origin.objects {
            return Err(Error::input(
                "the journal began with other rows: give the files that it began with, or another \
                 --journal DIR",
            ));
        }
        if header.first != segment.first {
            return Err(reader.damaged());
        }
        Ok(Some(reader))
    }

    fn read_line(&mut self) -> Result<usize> {
        self.line.clear();
        self.number += 1;
        let read = self.source.read_until(b'\n', &mut self.line);
        let count = read.map_err(|e| Error::reading(&self.segment.path, &e))?;
        self.at += count as u64;
        Ok(count)
    }

    /// The next record.
    pub fn next(&mut self) -> Result<Next> {
        let start = self.at;
        if self.read_line()? == 0 {
            return Ok(Next::End);
        }
        let Some(json) = checked(&self.line) else {
            return Ok(Next::Bad { at: start });
        };
        let record: Record = serde_json::from_slice(json).map_err(|_| self.damaged())?;
        if record.first != self.next {
            return Err(self.error(format!(
                "expected entry {}, found {}: some of the journal is missing",
                self.next, record.first
            )));
        }
        self.next += record.entries.len() as u64;
        Ok(Next::Record(record))
    }

    /// Whether a good line comes after a bad one: then it was not cut, it is damaged.
    pub fn valid_follows(&mut self) -> Result<bool> {
        while self.read_line()? > 0 {
            if checked(&self.line).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The number of the entry that comes next.
    pub fn next_entry(&self) -> u64 {
        self.next
    }

    /// The length of the file up to here.
    pub fn length(&self) -> u64 {
        self.at
    }

    fn error(&self, message: impl Into<String>) -> Error {
        let error = Error::input(message);
        error.in_file(&self.segment.path).at_line(self.number)
    }

    /// What is said of damage in the middle, where nothing may be left out in silence.
    pub fn damaged(&self) -> Error {
        self.error("the record is damaged, and good ones follow: restore the journal from a copy")
    }
}
