//! Goes through a journal from a number on: what counts, without what was undone.

use std::collections::HashSet;
use std::path::Path;

use rankfold::{Error, Result};

use super::record::{Entry, Origin};
use super::scan::{Next, Reader, Segment};

/// The entries of a journal that count, from one number up to another.
pub struct Replay {
    segments: std::vec::IntoIter<Segment>,
    origin: Origin,
    reader: Option<Reader>,
    /// Entries of the last record that were not given yet.
    pending: std::vec::IntoIter<Entry>,
    number: u64,
    from: u64,
    end: u64,
    undone: HashSet<u64>,
    /// Examples that count.
    pub examples: u64,
}

impl Replay {
    /// Entries from `from` up to `end`. `None` where an example before `from` was undone later:
    /// what was made of it cannot be gone on from.
    pub fn new(folder: &Path, origin: &Origin, from: u64, end: u64) -> Result<Option<Self>> {
        let mut all = Self::plain(folder, origin, from, end)?;
        // Numbers of examples that count so far.
        let (mut stack, mut undone) = (Vec::new(), HashSet::new());
        while let Some((number, entry)) = all.next_plain()? {
            match entry {
                Entry::Example(_) => stack.push(number),
                Entry::Undo(_) => match stack.pop() {
                    Some(number) => {
                        undone.insert(number);
                    }
                    None => return Ok(None),
                },
                Entry::Row(_) => {}
            }
        }
        let mut replay = Self::plain(folder, origin, from, end)?;
        replay.examples = stack.len() as u64;
        replay.undone = undone;
        Ok(Some(replay))
    }

    fn plain(folder: &Path, origin: &Origin, from: u64, end: u64) -> Result<Self> {
        let mut segments = Segment::all(folder)?;
        // The last file that begins at or before `from` holds it.
        let start = segments.partition_point(|segment| segment.first <= from);
        let segments = segments.split_off(start.saturating_sub(1));
        Ok(Replay {
            segments: segments.into_iter(),
            origin: origin.clone(),
            reader: None,
            pending: Vec::new().into_iter(),
            number: 0,
            from,
            end,
            undone: HashSet::new(),
            examples: 0,
        })
    }

    fn next_plain(&mut self) -> Result<Option<(u64, Entry)>> {
        loop {
            if let Some(entry) = self.pending.next() {
                let number = self.number;
                if number >= self.end {
                    return Ok(None);
                }
                self.number += 1;
                if number >= self.from {
                    return Ok(Some((number, entry)));
                }
                continue;
            }
            let Some(reader) = &mut self.reader else {
                let Some(segment) = self.segments.next() else {
                    return Ok(None);
                };
                if segment.first >= self.end && segment.first > 0 {
                    return Ok(None);
                }
                self.reader = Reader::open(&segment, &self.origin)?;
                if self.reader.is_none() {
                    return Ok(None);
                }
                self.number = segment.first;
                continue;
            };
            match reader.next()? {
                Next::Record(record) => {
                    self.number = record.first;
                    self.pending = record.entries.into_iter();
                }
                Next::End => self.reader = None,
                // A record that is being written now ends what there is.
                Next::Bad { .. } if self.number >= self.end => return Ok(None),
                Next::Bad { .. } => return Err(Error::failure("the journal ends too early")),
            }
        }
    }

    /// The next entry that counts: an example or a row.
    pub fn next(&mut self) -> Result<Option<Entry>> {
        while let Some((number, entry)) = self.next_plain()? {
            match entry {
                Entry::Undo(_) => {}
                Entry::Example(_) if self.undone.contains(&number) => {}
                other => return Ok(Some(other)),
            }
        }
        Ok(None)
    }
}

/// All examples that count, up to a number, in their order.
pub fn examples(folder: &Path, origin: &Origin, end: u64) -> Result<Replay> {
    let all = Replay::new(folder, origin, 0, end)?;
    all.ok_or_else(|| Error::failure("the journal undoes more than it has"))
}
