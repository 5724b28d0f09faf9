//! What happened, on the disk before it is acknowledged: an append-only journal with checksums,
//! and snapshots of the model to start from.
//!
//! The folder holds `journal-FIRST.jsonl`, one file after the other, and
//! `snapshot-NUMBER.safetensors` with a `.json` beside it. A snapshot counts only where its
//! `.json` is there and fits, so that one that was being written is never read. Snapshots save
//! time only: the journal alone, with the model that it began from, gives the same bytes.

mod record;
mod replay;
mod scan;
mod snapshot;

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rankfold::data::WriteLock;
use rankfold::{Error, Result};

pub use record::{Entry, Origin, RowEntry, RowSide, Undo, checksum};
pub use replay::{Replay, examples};
pub use snapshot::Snapshot;

use record::{FORMAT, Header, Record, line};
use scan::{Next, Reader, Segment};

/// When an example counts as durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The disk has it: it outlives the machine.
    #[default]
    Fsync,
    /// The system has it: it outlives the service, and not a loss of power.
    Os,
}

/// A journal that is written.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    origin: Origin,
    file: File,
    segment: Segment,
    /// Bytes of the file that are whole records.
    length: u64,
    /// The number of the next entry.
    next: u64,
    durability: Durability,
    segment_bytes: u64,
    /// Bytes of a torn record that were cut at the start.
    pub cut: u64,
    /// Held as long as the service runs.
    _lock: WriteLock,
}

impl Journal {
    /// Opens the journal of a folder, which is made where it is not there. A record that was
    /// being written when the service ended is cut.
    pub fn open(
        folder: &Path,
        origin: Origin,
        durability: Durability,
        segment_bytes: u64,
    ) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|e| Error::writing(folder, &e))?;
        let Some(lock) = WriteLock::take(folder.join("journal"))? else {
            let message = "another `rankfold serve` uses this journal: stop it first";
            return Err(Error::failure(message).in_file(folder));
        };
        rankfold::data::remove_leftovers(folder);
        let mut segments = Segment::all(folder)?;
        let mut cut = 0;
        let last = loop {
            let Some(segment) = segments.pop() else {
                break None;
            };
            match Reader::open(&segment, &origin)? {
                Some(reader) => break Some((segment, reader)),
                // Its header was being written: nothing can be in it.
                None => {
                    cut += std::fs::metadata(&segment.path).map_or(0, |m| m.len());
                    let removed = std::fs::remove_file(&segment.path);
                    removed.map_err(|e| Error::writing(&segment.path, &e))?;
                }
            }
        };
        // Files before the last one were closed; only their origin is looked at here.
        for segment in &segments {
            if Reader::open(segment, &origin)?.is_none() {
                let message = "the header is damaged: restore the journal from a copy";
                return Err(Error::input(message).in_file(&segment.path));
            }
        }
        let (segment, length, next) = match last {
            None => {
                let segment = Segment::new(folder, 0);
                let length = begin(folder, &segment, &origin)?;
                (segment, length, 0)
            }
            Some((segment, mut reader)) => {
                let length = loop {
                    match reader.next()? {
                        Next::Record(_) => {}
                        Next::End => break reader.length(),
                        Next::Bad { at } => {
                            if reader.valid_follows()? {
                                return Err(reader.damaged());
                            }
                            cut += reader.length() - at;
                            break at;
                        }
                    }
                };
                (segment, length, reader.next_entry())
            }
        };
        let opened = File::options().read(true).write(true).open(&segment.path);
        let mut file = opened.map_err(|e| Error::writing(&segment.path, &e))?;
        let ready = file.set_len(length).and_then(|()| file.sync_all());
        let ready = ready.and_then(|()| file.seek(SeekFrom::Start(length)));
        ready.map_err(|e| Error::writing(&segment.path, &e))?;
        Ok(Journal {
            folder: folder.to_owned(),
            origin,
            file,
            segment,
            length,
            next,
            durability,
            segment_bytes,
            cut,
            _lock: lock,
        })
    }

    /// The number of the entry that comes next.
    pub fn number(&self) -> u64 {
        self.next
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where it began.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Makes entries durable, all or none. After an error the file is as it was.
    pub fn append(&mut self, entries: Vec<Entry>) -> Result<()> {
        if self.length >= self.segment_bytes {
            self.rotate()?;
        }
        let count = entries.len() as u64;
        let record = Record {
            first: self.next,
            entries,
        };
        let line = line(&record)?;
        let written = self.file.write_all(&line).and_then(|()| self.flush());
        if let Err(error) = written {
            // What was written of it must not stand before the next record.
            let back = self.file.set_len(self.length);
            let _ = back.and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
            return Err(Error::failure(format!("cannot write the journal: {error}")));
        }
        self.length += line.len() as u64;
        self.next += count;
        Ok(())
    }

    fn flush(&self) -> std::io::Result<()> {
        match self.durability {
            Durability::Fsync => self.file.sync_data(),
            Durability::Os => Ok(()),
        }
    }

    /// Whether there is room to write: what a full disk answers is known before anything is
    /// learned.
    pub fn probe(&mut self) -> Result<()> {
        let room = [b'\n'; 1 << 16];
        let written = self.file.write_all(&room).and_then(|()| self.flush());
        let back = self.file.set_len(self.length);
        let back = back.and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
        written
            .and(back.map(|_| ()))
            .map_err(|e| Error::failure(format!("cannot write the journal: {e}")))
    }

    /// Goes on in a new file.
    fn rotate(&mut self) -> Result<()> {
        let failed = |e: std::io::Error| Error::failure(format!("cannot write the journal: {e}"));
        self.file.sync_all().map_err(failed)?;
        let segment = Segment::new(&self.folder, self.next);
        let length = begin(&self.folder, &segment, &self.origin)?;
        let opened = File::options().read(true).write(true).open(&segment.path);
        let mut file = opened.map_err(failed)?;
        file.seek(SeekFrom::Start(length)).map_err(failed)?;
        (self.file, self.segment, self.length) = (file, segment, length);
        Ok(())
    }

    /// Makes sure that all is on the disk.
    pub fn close(&self) -> Result<()> {
        let synced = self.file.sync_all();
        synced.map_err(|e| Error::failure(format!("cannot write the journal: {e}")))
    }
}

/// Begins a file of the journal, and gives its length.
fn begin(folder: &Path, segment: &Segment, origin: &Origin) -> Result<u64> {
    let header = line(&Header {
        rankfold: "journal".into(),
        format: FORMAT,
        origin: origin.clone(),
        first: segment.first,
    })?;
    let mut options = File::options();
    let opened = options
        .write(true)
        .create(true)
        .truncate(true)
        .open(&segment.path);
    let written = opened.and_then(|mut file| {
        file.write_all(&header)?;
        file.sync_all()
    });
    // The name is on the disk when its folder is.
    let written = written.and_then(|()| File::open(folder)?.sync_all());
    if let Err(error) = written {
        let _ = std::fs::remove_file(&segment.path);
        return Err(Error::failure(format!("cannot write the journal: {error}")));
    }
    Ok(header.len() as u64)
}

#[cfg(test)]
mod tests;
