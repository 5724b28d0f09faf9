//! Records of delimited text, whose quoted fields may hold delimiters, quotes
//! (written twice) and line breaks.
//!
//! Records are found in the lines of the file rather than by a reader of its
//! own, so that they can be copied byte for byte and every error has its line.

use super::columnar::LeftOut;
use super::open::{Limit, Lines, without_end};
use super::reading::Reading;
use crate::Result;

/// Where in a record a byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Plain,
    Quoted,
    /// After a quote in a quoted field: its end, or half of a doubled quote.
    Quote,
}

#[inline]
fn step(state: State, byte: u8, delimiter: u8) -> State {
    match (state, byte) {
        (State::Start | State::Quote, b'"') => State::Quoted,
        (State::Quoted, b'"') => State::Quote,
        (State::Quoted, _) => State::Quoted,
        (_, byte) if byte == delimiter => State::Start,
        _ => State::Plain,
    }
}

/// Reads records one by one; empty lines are skipped.
pub(super) struct Records {
    lines: Lines,
    delimiter: u8,
    quotes: bool,
    /// Where the record just read starts.
    line: u64,
    /// Where the header starts.
    header_line: u64,
}

impl Records {
    /// Records without quotes: every line is one.
    pub(super) fn unquoted(lines: Lines) -> Self {
        Records {
            quotes: false,
            ..Records::new(lines, b',')
        }
    }

    pub(super) fn new(lines: Lines, delimiter: u8) -> Self {
        Records {
            lines,
            delimiter,
            quotes: true,
            line: 0,
            header_line: 0,
        }
    }

    /// The first record, which names the columns; it must be shorter than others. Where it has
    /// no delimiter but another one that is usual, that one counts.
    pub(super) fn header(&mut self) -> Result<Option<&[u8]>> {
        self.lines.set_limit(Limit::Header);
        let found = self.next_raw()?.is_some();
        self.lines.set_limit(Limit::Line);
        self.header_line = self.line;
        let record = self.lines.current();
        let sure = self.lines.is_table();
        if self.quotes && found && !sure && !record.contains(&self.delimiter) {
            let other = b";\t|,".iter().find(|other| record.contains(other));
            if let Some(&other) = other {
                self.delimiter = other;
                let reading = self.lines.reading();
                reading.note(format!(
                    "{}: columns are separated by {}",
                    self.lines.path().display(),
                    delimiter_name(other)
                ));
            }
        }
        Ok(found.then(|| self.lines.current()))
    }

    /// The fields of the first record, which names the columns.
    pub(super) fn names(&mut self) -> Result<Fields> {
        let mut fields = Fields::default();
        let header = self.header()?.map(<[u8]>::to_vec);
        match header {
            Some(record) => fields.split(&record, self.delimiter),
            None => return Err(crate::Error::input("no header").in_file(self.path())),
        }
        Ok(fields)
    }

    /// The next record byte for byte, with its line end.
    pub(super) fn next_raw(&mut self) -> Result<Option<&[u8]>> {
        loop {
            match self.lines.next_raw()? {
                None => return Ok(None),
                Some(line) if without_end(line).is_empty() => {}
                Some(_) => break,
            }
        }
        self.line = self.lines.number();
        let (mut state, mut seen) = (State::Start, 0);
        while self.quotes && (seen > 0 || self.lines.current().contains(&b'"')) {
            let record = self.lines.current();
            let new = record[seen..].iter();
            state = new.fold(state, |state, &byte| step(state, byte, self.delimiter));
            seen = record.len();
            if state != State::Quoted {
                break;
            }
            if !self.lines.append_raw()? {
                return Err(self.error("a quote is opened and never closed"));
            }
        }
        Ok(Some(self.lines.current()))
    }

    /// An input error at the record just read.
    pub(super) fn error(&self, message: impl Into<String>) -> crate::Error {
        self.error_at(self.line, message)
    }

    /// An input error at the record that starts at this line.
    pub(super) fn error_at(&self, line: u64, message: impl Into<String>) -> crate::Error {
        self.lines.error_at(line, message)
    }

    /// Whether these are rows of a column file, which names its columns.
    pub(super) fn is_columnar(&self) -> bool {
        self.lines.is_table()
    }

    /// Columns of a column file that cannot be given.
    pub(super) fn left_out(&self) -> &[LeftOut] {
        self.lines.left_out()
    }

    /// The error of the record just read, unless bad lines are left out.
    pub(super) fn bad(&self, message: impl Into<String>) -> Result<()> {
        self.lines.reading().bad(self.error(message))
    }

    /// How they are read.
    pub(super) fn reading(&self) -> &Reading {
        self.lines.reading()
    }

    /// The line at which the record just read starts.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Errors are again about an earlier record, which starts at this line.
    pub(super) fn go_back(&mut self, line: u64) {
        self.line = line;
    }

    /// The line at which the header starts.
    pub(super) fn header_line(&self) -> u64 {
        self.header_line
    }

    pub(super) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    pub(super) fn path(&self) -> &std::path::Path {
        self.lines.path()
    }
}

/// What a delimiter is called.
pub(super) fn delimiter_name(delimiter: u8) -> String {
    match delimiter {
        b'\t' => "tabs".into(),
        other => format!("`{}`", char::from(other)),
    }
}

/// The fields of a record, unquoted, in memory that is used again.
#[derive(Debug, Default, Clone)]
pub(super) struct Fields {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    pub(super) fn split(&mut self, record: &[u8], delimiter: u8) {
        self.text.clear();
        self.ends.clear();
        let mut state = State::Start;
        for &byte in without_end(record) {
            let next = step(state, byte, delimiter);
            match (state, next) {
                (_, State::Start) => self.ends.push(self.text.len()),
                (State::Start, State::Quoted) | (_, State::Quote) => {}
                _ => self.text.push(byte),
            }
            state = next;
        }
        self.ends.push(self.text.len());
    }

    /// Takes fields that are separated already.
    pub(super) fn set<'a>(&mut self, fields: impl Iterator<Item = &'a [u8]>) {
        self.text.clear();
        self.ends.clear();
        for field in fields {
            self.text.extend_from_slice(field);
            self.ends.push(self.text.len());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)?;
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        Some(&self.text[start..end])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(text: &str) -> Result<Vec<(u64, Vec<Vec<u8>>)>> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        let mut records = Records::new(Lines::new(Box::new(source), "t.csv"), b',');
        let (mut fields, mut out) = (Fields::default(), Vec::new());
        while let Some(record) = records.next_raw()? {
            fields.split(record, b',');
            out.push((records.line, fields.iter().map(<[u8]>::to_vec).collect()));
        }
        Ok(out)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn fields_are_those_of_the_csv_crate(text in "[ab,\"\n]{0,24}") {
            // A quote left open is an error here, and the end of the field there.
            if let Ok(got) = records(&text) {
                let mut reader = csv::ReaderBuilder::new()
                    .has_headers(false)
                    .flexible(true)
                    .from_reader(text.as_bytes());
                let want = reader.byte_records().map(|r| {
                    r.unwrap().iter().map(<[u8]>::to_vec).collect::<Vec<_>>()
                });
                let got: Vec<_> = got.into_iter().map(|(_, fields)| fields).collect();
                prop_assert_eq!(got, want.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn records_know_their_first_line() {
        let got = records("a,\"b\n\"\"c\"\r\n\n\r\nd\n").unwrap();
        let fields = |texts: &[&str]| texts.iter().map(|t| t.as_bytes().to_vec()).collect();
        assert_eq!(got, [(1, fields(&["a", "b\n\"c"])), (5, fields(&["d"]))]);
        let error = records("a\n\n\"b\nc\n").unwrap_err().to_string();
        assert_eq!(error, "t.csv:3: a quote is opened and never closed");
    }
}
