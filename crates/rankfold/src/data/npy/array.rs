//! Reads an array item by item, from any source.

use std::io::Read;
use std::path::Path;

use super::header::{Dtype, Header, Kind};
use crate::data::number::label_name;
use crate::data::open::reading;
use crate::{Error, Real, Result};

/// Bytes read at once, where an item is not longer.
const CHUNK: usize = 1 << 16;

/// Longer headers are refused; those of plain arrays have about 128 bytes.
const LONGEST_HEADER: usize = 1 << 16;

/// Where an array stands, as errors name it.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub path: &'a Path,
    /// Its name in an archive.
    pub name: Option<&'a str>,
}

impl Place<'_> {
    pub fn error(&self, message: impl std::fmt::Display) -> Error {
        let message = match self.name {
            Some(name) => format!("array `{name}`: {message}"),
            None => message.to_string(),
        };
        Error::input(message).in_file(self.path)
    }
}

/// An array whose header was read, and whose items come one after the other.
pub struct Array<'a, S> {
    source: S,
    place: Place<'a>,
    pub header: Header,
    items: u64,
    /// Items not yet in the buffer.
    left: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl<'a, S: Read> Array<'a, S> {
    /// Reads the header. `length` is the number of bytes in the source, where
    /// that is known.
    pub fn open(mut source: S, place: Place<'a>, length: Option<u64>) -> Result<Self> {
        let mut start = [0; 8];
        let whole = fill(&mut source, &mut start, place)? == start.len();
        if !whole || &start[..6] != b"\x93NUMPY" {
            return Err(place.error("not a .npy array: its first bytes are others"));
        }
        let mut size = [0; 4];
        let width = match start[6] {
            1 => 2,
            2 | 3 => 4,
            version => {
                return Err(place.error(format!(
                    "version {version} of the .npy format: expected 1, 2 or 3"
                )));
            }
        };
        let early = || place.error("the header ends too early");
        if fill(&mut source, &mut size[..width], place)? < width {
            return Err(early());
        }
        let size = u32::from_le_bytes(size) as usize;
        if size > LONGEST_HEADER {
            return Err(place.error(format!("a header of {size} bytes is too long")));
        }
        let mut text = vec![0; size];
        if fill(&mut source, &mut text, place)? < size {
            return Err(early());
        }
        let header = Header::parse(&text).map_err(|message| place.error(message))?;
        let Some((items, bytes)) = header.size() else {
            return Err(place.error(format!("the shape {:?} is too large", header.shape)));
        };
        let found = length.map(|length| length.saturating_sub((8 + width + size) as u64));
        if let Some(found) = found
            && found != bytes
        {
            return Err(place.error(format!(
                "an array of shape {:?} has {bytes} bytes of items, found {found}",
                header.shape
            )));
        }
        Ok(Array {
            source,
            place,
            header,
            items,
            left: items,
            buffer: Vec::new(),
            at: 0,
        })
    }

    /// An error about this array.
    pub fn error(&self, message: impl std::fmt::Display) -> Error {
        self.place.error(message)
    }

    /// The same error, in the file of this array.
    pub fn located(&self, error: Error) -> Error {
        match self.place.name {
            Some(name) => Error {
                message: format!("array `{name}`: {}", error.message),
                ..error
            },
            None => error,
        }
        .in_file(self.place.path)
    }

    /// Whether the item just read is finite in its own precision, though it was
    /// not in that of the rows.
    pub fn was_finite(&self) -> bool {
        let dtype = self.header.dtype;
        let value: f64 = number(dtype, &self.buffer[self.at - dtype.size..self.at]);
        value.is_finite()
    }

    /// The one length of an array with one index.
    pub fn vector(&self, what: &str) -> Result<u64> {
        match self.header.shape[..] {
            [length] => Ok(length),
            _ => Err(self.error(format!(
                "expected {what}, one after the other, found an array of shape {:?}",
                self.header.shape
            ))),
        }
    }

    fn next_bytes(&mut self) -> Result<&[u8]> {
        let size = self.header.dtype.size;
        if self.at == self.buffer.len() && size > 0 {
            let items = self.left.min((CHUNK / size).max(1) as u64) as usize;
            self.buffer.resize(items * size, 0);
            let found = fill(&mut self.source, &mut self.buffer, self.place)?;
            if found < self.buffer.len() || items == 0 {
                let whole = self.items - self.left + (found / size) as u64;
                let want = self.items;
                return Err(self.error(format!(
                    "the array ends too early: expected {want} items, found {whole}"
                )));
            }
            self.left -= items as u64;
            self.at = 0;
        }
        self.at += size;
        Ok(&self.buffer[self.at - size..self.at])
    }

    /// Says that all items were read and nothing may follow.
    pub fn finish(mut self) -> Result<()> {
        match fill(&mut self.source, &mut [0], self.place)? {
            0 => Ok(()),
            _ => Err(self.error("more bytes than the array has items for")),
        }
    }

    /// The next item as a number, which may be not finite.
    #[inline]
    pub fn next_number<R: Real>(&mut self) -> Result<R> {
        let dtype = self.header.dtype;
        if matches!(dtype.kind, Kind::Text | Kind::Bytes) {
            return Err(self.error("expected numbers, found texts"));
        }
        Ok(number(dtype, self.next_bytes()?))
    }

    /// The next item as a whole number that is not negative.
    pub fn next_index(&mut self) -> Result<u64> {
        let dtype = self.header.dtype;
        let value = match dtype.kind {
            Kind::Int => whole(dtype, self.next_bytes()?),
            Kind::Unsigned => i128::from(unsigned(dtype, self.next_bytes()?)),
            _ => return Err(self.error("expected whole numbers")),
        };
        u64::try_from(value)
            .map_err(|_| self.error(format!("expected a number from 0, found {value}")))
    }

    /// The next item as a label or an id: a text, or a number in its one spelling.
    pub fn next_name(&mut self) -> Result<String> {
        let dtype = self.header.dtype;
        let bytes = self.next_bytes()?;
        let named = match dtype.kind {
            Kind::Text => text(dtype, bytes),
            Kind::Bytes => {
                let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
                String::from_utf8(bytes[..end].to_vec()).ok()
            }
            Kind::Int => Some(whole(dtype, bytes).to_string()),
            Kind::Unsigned | Kind::Bool => Some(unsigned(dtype, bytes).to_string()),
            Kind::Float => {
                let value: f64 = number(dtype, bytes);
                label_name(value.to_string().as_bytes()).map(|name| name.into_owned())
            }
        };
        named.ok_or_else(|| match dtype.kind {
            Kind::Float => self.error("expected texts or finite numbers"),
            _ => self.error("an item is not Unicode text"),
        })
    }
}

/// Reads as many bytes as there are, up to the length of the buffer.
fn fill(source: &mut impl Read, buffer: &mut [u8], place: Place<'_>) -> Result<usize> {
    let mut at = 0;
    while at < buffer.len() {
        match source.read(&mut buffer[at..]) {
            Ok(0) => break,
            Ok(count) => at += count,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(reading(place.path, &e)),
        }
    }
    Ok(at)
}

/// An item, as a number without sign.
#[inline]
fn unsigned(dtype: Dtype, bytes: &[u8]) -> u64 {
    let join = |sum: u64, &byte: &u8| sum << 8 | u64::from(byte);
    if dtype.big_endian {
        bytes.iter().fold(0, join)
    } else {
        bytes.iter().rev().fold(0, join)
    }
}

/// An item, as a number with sign.
#[inline]
fn signed(dtype: Dtype, bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * dtype.size as u32;
    (unsigned(dtype, bytes) << unused).cast_signed() >> unused
}

fn whole(dtype: Dtype, bytes: &[u8]) -> i128 {
    signed(dtype, bytes).into()
}

/// An item as a number, rounded once.
#[inline]
fn number<R: Real>(dtype: Dtype, bytes: &[u8]) -> R {
    let single = R::NAME == "f32";
    R::from_f64(match (dtype.kind, dtype.size) {
        (Kind::Float, 4) => f32::from_bits(unsigned(dtype, bytes) as u32).into(),
        (Kind::Float, _) => f64::from_bits(unsigned(dtype, bytes)),
        (Kind::Int, _) if single => f64::from(signed(dtype, bytes) as f32),
        (Kind::Int, _) => signed(dtype, bytes) as f64,
        (Kind::Bool, _) => f64::from(u8::from(bytes[0] != 0)),
        _ if single => f64::from(unsigned(dtype, bytes) as f32),
        _ => unsigned(dtype, bytes) as f64,
    })
}

fn text(dtype: Dtype, bytes: &[u8]) -> Option<String> {
    let unit = Dtype { size: 4, ..dtype };
    let units = bytes.chunks_exact(4).map(|b| unsigned(unit, b) as u32);
    let mut units: Vec<u32> = units.collect();
    let end = units.iter().rposition(|&u| u != 0).map_or(0, |at| at + 1);
    units.truncate(end);
    units.into_iter().map(char::from_u32).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{array, of_version, texts};
    use super::*;

    fn open(bytes: &[u8], length: Option<u64>) -> Result<Array<'static, &[u8]>> {
        let place = Place {
            path: Path::new("a.npy"),
            name: None,
        };
        Array::open(bytes, place, length)
    }

    fn numbers(descr: &str, items: &[u8], count: usize) -> Vec<f64> {
        let bytes = array(descr, false, &format!("({count},)"), items);
        let mut array = open(&bytes, Some(bytes.len() as u64)).unwrap();
        let out = (0..count).map(|_| array.next_number().unwrap()).collect();
        array.finish().unwrap();
        out
    }

    #[test]
    fn numbers_of_every_type() {
        assert_eq!(numbers("|i1", &[1, 0xff, 0x80], 3), [1.0, -1.0, -128.0]);
        assert_eq!(numbers("|u1", &[1, 0xff], 2), [1.0, 255.0]);
        assert_eq!(numbers("|b1", &[0, 1], 2), [0.0, 1.0]);
        let both = |little: &str, big: &str, items: &[&[u8]], want: &[f64]| {
            assert_eq!(numbers(little, &items.concat(), want.len()), want);
            let turned: Vec<u8> = items.iter().flat_map(|b| b.iter().rev().copied()).collect();
            assert_eq!(numbers(big, &turned, want.len()), want);
        };
        both("<i2", ">i2", &[&(-2i16).to_le_bytes()], &[-2.0]);
        both("<u2", ">u2", &[&65535u16.to_le_bytes()], &[65535.0]);
        both("<i4", ">i4", &[&i32::MIN.to_le_bytes()], &[-2147483648.0]);
        both("<u4", ">u4", &[&u32::MAX.to_le_bytes()], &[4294967295.0]);
        let extremes = [i64::MIN.to_le_bytes(), (-7i64).to_le_bytes()];
        both(
            "<i8",
            ">i8",
            &[&extremes[0], &extremes[1]],
            &[-9223372036854775808.0, -7.0],
        );
        both(
            "<u8",
            ">u8",
            &[&u64::MAX.to_le_bytes()],
            &[18446744073709551615.0],
        );
        both("<f4", ">f4", &[&1.5f32.to_le_bytes()], &[1.5]);
        both("<f8", ">f8", &[&(-0.1f64).to_le_bytes()], &[-0.1]);
    }

    #[test]
    fn whole_numbers_are_rounded_once() {
        // Half way between two f32 and a little more, which f64 does not see.
        let value = (1u64 << 60) + (1 << 36) + 1;
        let bytes = array("<u8", false, "(1,)", &value.to_le_bytes());
        let got: f32 = open(&bytes, None).unwrap().next_number().unwrap();
        assert_eq!(got, value.to_string().parse::<f32>().unwrap());
        assert_ne!(got, value as f64 as f32);
    }

    #[test]
    fn names_are_texts_or_numbers() {
        let names = |descr: &str, items: &[u8]| -> Vec<String> {
            let bytes = array(descr, false, "(2,)", items);
            let mut array = open(&bytes, None).unwrap();
            (0..2).map(|_| array.next_name().unwrap()).collect()
        };
        assert_eq!(names("<U3", &texts(&["aü", ""], 3)), ["aü", ""]);
        assert_eq!(names("|S2", b"abc\0"), ["ab", "c"]);
        assert_eq!(names("|i1", &[0xff, 7]), ["-1", "7"]);
        let floats = [1.0f64.to_le_bytes(), 2.5f64.to_le_bytes()].concat();
        assert_eq!(names("<f8", &floats), ["1", "2.5"]);
        let bytes = array("<U1", false, "(1,)", &0xd800u32.to_le_bytes());
        let error = open(&bytes, None).unwrap().next_name().unwrap_err();
        assert_eq!(error.to_string(), "a.npy: an item is not Unicode text");
        let bytes = array("<f4", false, "(1,)", &f32::NAN.to_le_bytes());
        let error = open(&bytes, None).unwrap().next_name().unwrap_err();
        assert_eq!(error.message, "expected texts or finite numbers");
    }

    #[test]
    fn all_versions_and_damaged_files() {
        let text = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}";
        for version in 1..=3 {
            let bytes = of_version(version, text, &[3, 4]);
            let mut array = open(&bytes, Some(bytes.len() as u64)).unwrap();
            assert_eq!(array.next_index().unwrap(), 3);
            for end in 0..bytes.len() {
                // Cut anywhere: an error where the length is known, at the
                // latest on the way where it is not.
                let cut = &bytes[..end];
                assert!(open(cut, Some(end as u64)).is_err());
                let all = open(cut, None)
                    .and_then(|mut array| (0..2).try_for_each(|_| array.next_index().map(|_| ())));
                assert!(all.is_err(), "{end} bytes of version {version}");
            }
        }
        let message = |bytes: &[u8], length| open(bytes, length).err().unwrap().message;
        let bytes = of_version(4, text, &[3, 4]);
        assert_eq!(
            message(&bytes, None),
            "version 4 of the .npy format: expected 1, 2 or 3"
        );
        assert_eq!(
            message(b"PK\x03\x04", None),
            "not a .npy array: its first bytes are others"
        );
        let long = b"\x93NUMPY\x02\x00\xff\xff\xff\xff";
        assert_eq!(
            message(long, None),
            "a header of 4294967295 bytes is too long"
        );
        let bytes = array("<f8", false, "(1000000000, 1000)", &[0; 8]);
        let want = "an array of shape [1000000000, 1000] has 8000000000000 bytes of items, found 8";
        assert_eq!(message(&bytes, Some(bytes.len() as u64)), want);
        let bytes = array("<f8", false, "(4294967296, 4294967296)", &[]);
        assert_eq!(
            message(&bytes, None),
            "the shape [4294967296, 4294967296] is too large"
        );
        let bytes = array("|u1", false, "(1,)", &[1, 2]);
        let mut array = open(&bytes, None).unwrap();
        array.next_index().unwrap();
        let error = array.finish().unwrap_err();
        assert_eq!(error.message, "more bytes than the array has items for");
    }
}
