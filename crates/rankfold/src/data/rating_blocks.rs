//! Ratings of plain files, read in blocks of lines by several threads.
//!
//! A block numbers its users and items by itself; blocks are joined in the order of the
//! file, each when those before it are, so that ids are numbered as they first come, whatever the threads did. A
//! block with anything but plain lines gives up: the file is then read line by line,
//! which knows of quotes, and finds the line of an error.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::Mutex;

use super::columns::{ColonFields, Columns, Separator};
use super::number::number;
use super::open::{open, without_end};
use super::ratings::LARGEST_RATING;
use crate::parallel::share;
use crate::{Ids, Result};

/// The size of a block in bytes, up to the end of its last line.
const BLOCK: usize = 1 << 22;

/// Ratings by number.
pub(super) type Entries = Vec<(u32, u32, f64)>;

/// What a file of ratings holds, or a block of it.
#[derive(Default)]
pub(super) struct Block {
    pub users: Ids,
    pub items: Ids,
    pub entries: Entries,
}

impl Block {
    /// Adds the next block.
    fn join(&mut self, next: Block) {
        let users: Vec<u32> = next.users.iter().map(|id| self.users.intern(id)).collect();
        let items: Vec<u32> = next.items.iter().map(|id| self.items.intern(id)).collect();
        let entries = next.entries.into_iter();
        self.entries.extend(
            entries
                .map(|(user, item, rating)| (users[user as usize], items[item as usize], rating)),
        );
    }
}

/// Blocks that were joined, and those whose turn has not come.
#[derive(Default)]
struct Joined {
    whole: Block,
    count: usize,
    waiting: BTreeMap<usize, Block>,
}

/// Reads a file whose fields stand as `columns` says; `None` where it is not plain.
pub(super) fn read(path: &Path, columns: &Columns) -> Result<Option<Block>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut source = open(path)?;
    let mut skipped = Vec::new();
    for _ in 0..columns.skip {
        if source.read_until(b'\n', &mut skipped).is_err() {
            return Ok(None);
        }
        skipped.clear();
    }
    Ok(joined(source, columns, BLOCK, threads))
}

/// A file on its way into blocks.
struct Cutter<R> {
    source: R,
    /// The start of a line whose end comes with the next block.
    rest: Vec<u8>,
    number: usize,
    done: bool,
}

impl<R: BufRead> Cutter<R> {
    /// The next block with its number; an error where it has no end.
    fn next(&mut self, size: usize) -> std::result::Result<Option<(usize, Vec<u8>)>, ()> {
        if self.done {
            return Ok(None);
        }
        let mut block = std::mem::take(&mut self.rest);
        let wanted = size.saturating_sub(block.len()).max(1) as u64;
        let read = self.source.by_ref().take(wanted).read_to_end(&mut block);
        self.done = (read.map_err(|_| ())? as u64) < wanted;
        if !self.done {
            let end = block.iter().rposition(|&byte| byte == b'\n').ok_or(())?;
            self.rest = block.split_off(end + 1);
        }
        self.number += 1;
        Ok(Some((self.number - 1, block)))
    }
}

fn joined(
    source: impl BufRead + Send,
    columns: &Columns,
    size: usize,
    threads: usize,
) -> Option<Block> {
    let cutter = Mutex::new(Some(Cutter {
        source,
        rest: Vec::new(),
        number: 0,
        done: false,
    }));
    let joined = Mutex::new(Joined::default());
    share(threads, || {
        loop {
            let mut held = cutter.lock().expect("no thread panicked");
            let Some(from) = held.as_mut() else { return };
            let next = from.next(size);
            if next.is_err() {
                *held = None;
            }
            drop(held);
            let Ok(Some((number, block))) = next else {
                return;
            };
            match parse(&block, columns) {
                Some(block) => {
                    let mut joined = joined.lock().expect("no thread panicked");
                    let Joined {
                        whole,
                        count,
                        waiting,
                    } = &mut *joined;
                    waiting.insert(number, block);
                    while let Some(next) = waiting.remove(count) {
                        whole.join(next);
                        *count += 1;
                    }
                }
                None => *cutter.lock().expect("no thread panicked") = None,
            }
        }
    });
    cutter.into_inner().expect("no thread panicked")?;
    Some(joined.into_inner().expect("no thread panicked").whole)
}

/// The ratings of a block; `None` where a line is not plain, or wrong.
fn parse(block: &[u8], columns: &Columns) -> Option<Block> {
    if columns.quotes && block.contains(&b'"') {
        return None;
    }
    let (mut users, mut items, mut entries) = (Ids::new(), Ids::new(), Entries::new());
    // Ratings of a user often stand together.
    let (mut last_user, mut last): (&[u8], u32) = (b"", 0);
    for line in block.split(|&byte| byte == b'\n') {
        let line = without_end(line);
        if line.is_empty() {
            continue;
        }
        let [user, item, rating] = columns.fields(line)?;
        if user != last_user || user.is_empty() {
            let text = std::str::from_utf8(user).ok().filter(|t| !t.is_empty())?;
            (last_user, last) = (user, users.intern(text));
        }
        let text = std::str::from_utf8(item).ok().filter(|t| !t.is_empty())?;
        let value = number::<f64>(rating).ok()?;
        if !(value.abs() <= LARGEST_RATING) {
            return None;
        }
        entries.push((last, items.intern(text), value));
    }
    Some(Block {
        users,
        items,
        entries,
    })
}

impl Columns {
    /// The three fields of a line; `None` where it has another number of fields.
    fn fields<'a>(&self, line: &'a [u8]) -> Option<[&'a [u8]; 3]> {
        match self.separator {
            Separator::Delimiter(delimiter) => self.pick(
                line.split(|&byte| byte == delimiter)
                    .map(<[u8]>::trim_ascii),
            ),
            Separator::Spaces => {
                let words = line.split(u8::is_ascii_whitespace);
                self.pick(words.filter(|word| !word.is_empty()))
            }
            Separator::Colons => self.pick(ColonFields(Some(line)).map(<[u8]>::trim_ascii)),
        }
    }

    fn pick<'a>(&self, fields: impl Iterator<Item = &'a [u8]>) -> Option<[&'a [u8]; 3]> {
        let mut out: [&[u8]; 3] = [b""; 3];
        let mut count = 0;
        for field in fields {
            for (out, at) in out.iter_mut().zip(self.numbers) {
                if at == count {
                    *out = field;
                }
            }
            count += 1;
        }
        let inside = self.numbers.iter().all(|&at| at < count);
        (count == self.width && inside).then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(separator: Separator, quotes: bool) -> Columns {
        Columns {
            separator,
            quotes,
            width: 4,
            numbers: [1, 0, 2],
            skip: 0,
        }
    }

    #[test]
    fn blocks_of_any_size_and_any_threads_give_the_same() {
        let comma = Separator::Delimiter(b',');
        let line = |t: usize| format!("i{},u{},{}.5,9\n", t * 7 % 13, t * t % 11, t % 5);
        let text: String = (0..200).map(line).collect::<String>() + "\r\n i1 , u0 ,2,x";
        let whole = |size, threads| {
            joined(text.as_bytes(), &columns(comma, true), size, threads).expect("plain lines")
        };
        let want = whole(1 << 20, 1);
        assert_eq!((want.users.get(0), want.items.get(1)), ("u0", "i7"));
        let all = &want.entries;
        assert_eq!(
            (all.len(), all[0], all[200]),
            (201, (0, 0, 0.5), (0, 2, 2.0))
        );
        for (size, threads) in [(20, 1), (64, 2), (500, 3)] {
            let got = whole(size, threads);
            assert_eq!((&got.users, &got.items), (&want.users, &want.items));
            assert_eq!(&got.entries, all);
        }
    }

    #[test]
    fn anything_else_gives_up() {
        let comma = Separator::Delimiter(b',');
        let read = |text: &str, separator, quotes| {
            joined(text.as_bytes(), &columns(separator, quotes), 16, 2).is_some()
        };
        assert!(read("a,b,3,x\nc,d,4,y\n", comma, true));
        for text in [
            "a,b,3,x\n\"c\",d,4,y\n",
            "a,b,3,x\na,b,3\n",
            "a,b,3,x\na,b,,x\n",
            "a,b,3,x\n,b,3,x\n",
            "a,b,3,x\na,,3,x\n",
            "a,b,1e31,x\n",
            "a,b,nan,x\n",
            "a,b,3,a line without an end in reach of the block\n",
        ] {
            assert!(!read(text, comma, true), "{text}");
        }
        assert!(read("a::\"b::3::x\n", Separator::Colons, false));
        assert!(read("  a b\t3 x \n", Separator::Spaces, false));
    }
}
