//! The text that describes an array: a Python dictionary such as
//! `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.

use crate::data::number::shown;

/// What the items of an array are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Float,
    Int,
    Unsigned,
    Bool,
    /// Characters of four bytes, padded with zeros.
    Text,
    /// Bytes, padded with zeros.
    Bytes,
}

/// The type of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dtype {
    pub kind: Kind,
    /// Bytes of an item.
    pub size: usize,
    pub big_endian: bool,
}

/// What an array is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub dtype: Dtype,
    /// Whether the first index runs fastest.
    pub fortran: bool,
    pub shape: Vec<u64>,
}

/// Longer texts in an array are refused: one item is held in memory.
const LONGEST_TEXT: usize = 1 << 20;

impl Header {
    /// Reads the text, which is not trusted.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let mut parser = Parser { text, at: 0 };
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        parser.expect(b'{')?;
        while !parser.eat(b'}') {
            let key = parser.quoted()?;
            parser.expect(b':')?;
            let again = match key {
                b"descr" => descr.replace(dtype(&mut parser)?).is_some(),
                b"fortran_order" => fortran.replace(parser.truth()?).is_some(),
                b"shape" => shape.replace(parser.tuple()?).is_some(),
                _ => return Err(format!("the header has an unknown key {}", shown(key))),
            };
            if again {
                return Err(format!("the header has the key {} twice", shown(key)));
            }
            if !parser.eat(b',') {
                parser.expect(b'}')?;
                break;
            }
        }
        parser.end()?;
        match (descr, fortran, shape) {
            (Some(dtype), Some(fortran), Some(shape)) => Ok(Header {
                dtype,
                fortran,
                shape,
            }),
            _ => Err("the header must have `descr`, `fortran_order` and `shape`".into()),
        }
    }

    /// How many items, and how many bytes they take; `None` where no file
    /// could hold them.
    pub fn size(&self) -> Option<(u64, u64)> {
        let items = self
            .shape
            .iter()
            .try_fold(1u64, |n, &side| n.checked_mul(side))?;
        Some((items, items.checked_mul(self.dtype.size as u64)?))
    }
}

fn dtype(parser: &mut Parser<'_>) -> Result<Dtype, String> {
    if parser.peek() == Some(b'[') {
        return Err("an array of records: expected an array of plain numbers".into());
    }
    let text = parser.quoted()?;
    let refuse = || {
        format!(
            "items of type {} are not supported: expected f4, f8, i1 to i8, u1 to u8 or b1",
            shown(text)
        )
    };
    let (&order, rest) = text.split_first().ok_or_else(refuse)?;
    let (&kind, count) = rest.split_first().ok_or_else(refuse)?;
    let count = std::str::from_utf8(count).ok();
    let count: usize = count.and_then(|c| c.parse().ok()).ok_or_else(refuse)?;
    let (kind, size) = match (kind, count) {
        (b'f', 4 | 8) => (Kind::Float, count),
        (b'i', 1 | 2 | 4 | 8) => (Kind::Int, count),
        (b'u', 1 | 2 | 4 | 8) => (Kind::Unsigned, count),
        (b'b', 1) => (Kind::Bool, 1),
        (b'U', 0..=LONGEST_TEXT) => (Kind::Text, 4 * count),
        (b'S', 0..=LONGEST_TEXT) => (Kind::Bytes, count),
        _ => return Err(refuse()),
    };
    let big_endian = match order {
        b'<' => false,
        b'>' => true,
        b'|' if size == 1 || kind == Kind::Bytes => false,
        _ => return Err(refuse()),
    };
    Ok(Dtype {
        kind,
        size,
        big_endian,
    })
}

/// As much of Python's literals as a header may have.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn broken<T>(&self, expected: &str) -> Result<T, String> {
        let rest = &self.text[self.at..];
        Err(format!(
            "damaged header: expected {expected}, found {}",
            shown(&rest[..rest.len().min(20)])
        ))
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.eat(byte) {
            Ok(())
        } else {
            self.broken(&format!("`{}`", byte as char))
        }
    }

    fn word(&mut self) -> &'a [u8] {
        self.peek();
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|b| !b.is_ascii_alphanumeric());
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn quoted(&mut self) -> Result<&'a [u8], String> {
        let Some(quote @ (b'\'' | b'"')) = self.peek() else {
            return self.broken("a quoted text");
        };
        let rest = &self.text[self.at + 1..];
        match rest.iter().position(|&b| b == quote) {
            Some(end) => {
                self.at += end + 2;
                Ok(&rest[..end])
            }
            None => self.broken("a quote that is closed"),
        }
    }

    /// An error at a word just read.
    fn wrong<T>(&mut self, word: &[u8], expected: &str) -> Result<T, String> {
        self.at -= word.len();
        self.broken(expected)
    }

    fn truth(&mut self) -> Result<bool, String> {
        match self.word() {
            b"True" => Ok(true),
            b"False" => Ok(false),
            word => self.wrong(word, "`True` or `False`"),
        }
    }

    fn tuple(&mut self) -> Result<Vec<u64>, String> {
        self.expect(b'(')?;
        let mut out = Vec::new();
        while !self.eat(b')') {
            let word = self.word();
            // Python 2 wrote long numbers with an L.
            let digits = word.strip_suffix(b"L").unwrap_or(word);
            match std::str::from_utf8(digits).ok().map(str::parse) {
                Some(Ok(side)) if !digits.is_empty() => out.push(side),
                _ => return self.wrong(word, "a size"),
            }
            if !self.eat(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(out)
    }

    fn end(&mut self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.broken("the end of the header"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_as_numpy_writes_them() {
        let header = |text: &str| Header::parse(text.as_bytes()).unwrap();
        let got = header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 30), }    \n");
        let float = Dtype {
            kind: Kind::Float,
            size: 4,
            big_endian: false,
        };
        let want = Header {
            dtype: float,
            fortran: false,
            shape: vec![2, 30],
        };
        assert_eq!((got.size(), got), (Some((60, 240)), want));
        let got = header("{\"shape\":(7L,),\"fortran_order\":True,\"descr\":\">U3\"}");
        assert_eq!(got.shape, [7]);
        assert_eq!((got.dtype.kind, got.dtype.size), (Kind::Text, 12));
        assert!(got.fortran && got.dtype.big_endian);
        let got = header("{'descr': '|S3', 'fortran_order': False, 'shape': ()}");
        assert_eq!((got.size(), got.shape.len()), (Some((1, 3)), 0));
        let huge = "{'descr': '<i8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}";
        assert_eq!(header(huge).size(), None);
    }

    #[test]
    fn every_bad_header_says_what_is_wrong() {
        let whole = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}";
        let cases = [
            (
                "'<f4'",
                "'<c8'",
                "items of type `<c8` are not supported: expected f4, f8, i1 to i8, u1 to u8 or b1",
            ),
            (
                "'<f4'",
                "'|O'",
                "items of type `|O` are not supported: expected f4, f8, i1 to i8, u1 to u8 or b1",
            ),
            (
                "'<f4'",
                "'|f4'",
                "items of type `|f4` are not supported: expected f4, f8, i1 to i8, u1 to u8 or b1",
            ),
            (
                "'<f4'",
                "''",
                "items of type `` are not supported: expected f4, f8, i1 to i8, u1 to u8 or b1",
            ),
            (
                "'<f4'",
                "[('a', '<f4')]",
                "an array of records: expected an array of plain numbers",
            ),
            (
                "'<f4'",
                "'<f4",
                "items of type `<f4, ` are not supported: expected f4, f8, i1 to i8, u1 to u8 or b1",
            ),
            (
                "False",
                "0",
                "damaged header: expected `True` or `False`, found `0, \\'shape\\': (2, 3)}`",
            ),
            (
                "(2, 3)",
                "(2, -3)",
                "damaged header: expected a size, found `-3)}`",
            ),
            (
                "(2, 3)",
                "(2, 99999999999999999999)",
                "damaged header: expected a size, found `99999999999999999999`",
            ),
            ("(2, 3)", "2", "damaged header: expected `(`, found `2}`"),
            (
                "(2, 3)}",
                "(2, 3)",
                "damaged header: expected `}`, found ``",
            ),
            (
                "(2, 3)}",
                "(2, 3)} x",
                "damaged header: expected the end of the header, found `x`",
            ),
            (
                "'shape'",
                "'descr'",
                "damaged header: expected a quoted text, found `(2, 3)}`",
            ),
            ("'shape'", "'size'", "the header has an unknown key `size`"),
            (
                ", 'shape': (2, 3)",
                "",
                "the header must have `descr`, `fortran_order` and `shape`",
            ),
            (
                ", 'shape'",
                ", 'shape': (1,), 'shape'",
                "the header has the key `shape` twice",
            ),
        ];
        for (old, new, want) in cases {
            let text = whole.replace(old, new);
            let got = Header::parse(text.as_bytes()).unwrap_err();
            assert_eq!(got, want, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn nothing_panics(text in "[{}()\\[\\]'\", :0-9LTFadefshpr_<>|]{0,60}") {
            let _ = Header::parse(text.as_bytes());
        }
    }
}
