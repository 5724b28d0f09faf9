//! Looks at the headers of all pages of a Parquet file before any is decoded: a decoder takes
//! the memory that a header asks for, and a header may be damaged.
//!
//! Headers are structures of Thrift in its compact form, of which three numbers matter: how
//! many bytes a page has, compressed and not, and how many words a dictionary.

use std::io::Read;

use parquet::file::reader::ChunkReader;

/// Pages of so many bytes are read whatever they say.
pub(super) const LARGE: u64 = 1 << 26;

/// Larger ones are compressed to no less than such a part.
pub(super) const RATIO: u64 = 64;

/// The longest header: it holds the least and the largest value of the page.
const LONGEST: usize = 1 << 24;

/// Structures within structures.
const DEEPEST: u32 = 8;

type Result<T> = std::result::Result<T, String>;

/// Checks the pages of a column, which lie in these bytes.
pub(super) fn check(source: &impl ChunkReader, start: u64, length: u64) -> Result<()> {
    let end = start.checked_add(length).filter(|end| *end <= source.len());
    let end = end.ok_or("a column lies beyond the end of the file")?;
    let mut at = start;
    while at < end {
        // Old files say a little less than the length of a column.
        let (header, used) = read(source, at, source.len() - at)?;
        let (plain, packed) = (header.plain, header.packed);
        if plain > LARGE && plain / RATIO > packed {
            return Err(format!("a page of {packed} bytes says that it has {plain}"));
        }
        if header.words > plain {
            return Err(format!(
                "a dictionary of {plain} bytes says {} words",
                header.words
            ));
        }
        at = at.saturating_add(used as u64).saturating_add(packed);
    }
    Ok(())
}

/// What matters of a header.
#[derive(Default)]
struct Header {
    plain: u64,
    packed: u64,
    /// Of a dictionary.
    words: u64,
}

/// The header at a place, and its length.
fn read(source: &impl ChunkReader, at: u64, rest: u64) -> Result<(Header, usize)> {
    let mut longest = 256;
    loop {
        let mut bytes = Vec::new();
        let reader = source.get_read(at).map_err(|e| e.to_string())?;
        let read = reader
            .take(rest.min(longest as u64))
            .read_to_end(&mut bytes);
        read.map_err(|e| e.to_string())?;
        let mut fields = Compact {
            bytes: &bytes,
            at: 0,
        };
        match fields.header() {
            Some(header) => return Ok((header, fields.at)),
            None if bytes.len() == longest && longest < LONGEST => longest *= 16,
            None => return Err("the header of a page is damaged".into()),
        }
    }
}

/// Reads values one after the other; `None` where bytes are missing or make no sense.
struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Compact<'_> {
    fn header(&mut self) -> Option<Header> {
        let mut out = Header::default();
        let mut number = 0;
        while let Some(kind) = self.field(&mut number)? {
            match (number, kind) {
                (2, 5) => out.plain = self.size()?,
                (3, 5) => out.packed = self.size()?,
                (7, 12) => {
                    let mut number = 0;
                    while let Some(kind) = self.field(&mut number)? {
                        match (number, kind) {
                            (1, 5) => out.words = self.size()?,
                            _ => self.skip(kind, DEEPEST)?,
                        }
                    }
                }
                _ => self.skip(kind, DEEPEST)?,
            }
        }
        Some(out)
    }

    /// The type of the next field, whose number goes on from the last one; `None` at the end
    /// of the structure.
    fn field(&mut self, number: &mut i64) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *number = match byte >> 4 {
            0 => self.signed()?,
            more => number.checked_add(i64::from(more))?,
        };
        Some(Some(byte & 15))
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    fn whole(&mut self) -> Option<u64> {
        let mut out = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            out |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(out);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let zigzag = self.whole()?;
        Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    /// A number of bytes or values.
    fn size(&mut self) -> Option<u64> {
        self.signed()?.try_into().ok()
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        let at = self.at.checked_add(usize::try_from(count).ok()?)?;
        self.at = Some(at).filter(|at| *at <= self.bytes.len())?;
        Some(())
    }

    /// Passes a value of this type.
    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            // The value of a flag is its type.
            1 | 2 => Some(()),
            3 => self.pass(1),
            4..=6 => self.whole().map(drop),
            7 => self.pass(8),
            8 => {
                let length = self.whole()?;
                self.pass(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.whole()?,
                    count => u64::from(count),
                };
                for _ in 0..count {
                    match head & 15 {
                        1 | 2 => self.pass(1)?,
                        kind => self.skip(kind, depth)?,
                    }
                }
                Some(())
            }
            12 => {
                let mut number = 0;
                while let Some(kind) = self.field(&mut number)? {
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            _ => None,
        }
    }
}
