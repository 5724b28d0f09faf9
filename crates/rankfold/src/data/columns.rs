//! The rows of a file of any format, as lines to copy and as columns to ask.

use std::borrow::Cow;
use std::path::Path;

use super::fields::json_fields;
use super::format::LineFormat;
use super::number::{number, shown};
use super::open::{Lines, without_end};
use super::records::{Fields, Records};
use super::svmlight::{is_skipped, label_field};
use crate::{Error, Result};

/// The data rows of a file, as bytes and as columns.
pub(super) struct Source {
    records: Records,
    kind: LineFormat,
    /// How the fields of a table or of ratings are separated.
    separator: Separator,
    header: Option<Vec<u8>>,
    header_line: u64,
    /// How many fields the first record of a table or of ratings has: all others must
    /// have as many.
    width: usize,
    /// The row just read, with its line end.
    row: Vec<u8>,
    /// Whether `row` was read ahead, in search of a header.
    ahead: bool,
    fields: Fields,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Separator {
    Delimiter(u8),
    Colons,
    Spaces,
}

/// Where three columns stand in a file of plain lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub separator: Separator,
    /// Whether a quote means something.
    pub quotes: bool,
    /// Fields of each line.
    pub width: usize,
    pub numbers: [usize; 3],
    /// Lines before the first record.
    pub skip: u64,
}

/// A column, found once.
pub(super) enum Column {
    Number(usize, String),
    Name(String),
    Label,
}

impl Source {
    pub(super) fn new(lines: Lines, kind: LineFormat) -> Result<Self> {
        // Only tables have quotes: elsewhere no byte may open one.
        let separator = match kind {
            LineFormat::Table(delimiter) => Separator::Delimiter(delimiter),
            _ => Separator::Spaces,
        };
        let mut out = Source {
            records: match kind {
                LineFormat::Table(delimiter) => Records::new(lines, delimiter),
                _ => Records::unquoted(lines),
            },
            kind,
            separator,
            header: None,
            header_line: 0,
            width: 0,
            row: Vec::new(),
            ahead: false,
            fields: Fields::default(),
        };
        match kind {
            LineFormat::Table(_) => {
                if let Some(record) = out.records.header()? {
                    out.row.extend_from_slice(record);
                    out.ahead = true;
                }
                out.split();
                out.width = out.fields.len();
                let first = out.fields.get(0).unwrap_or(b"").trim_ascii();
                if out.ahead && number::<f64>(first).is_err() {
                    out.header = Some(std::mem::take(&mut out.row));
                    out.header_line = out.records.line();
                    out.ahead = false;
                }
            }
            LineFormat::Ratings => {
                out.ahead = out.advance()?;
                out.separator = if out.row.windows(2).any(|pair| pair == b"::") {
                    Separator::Colons
                } else if out.row.contains(&b'\t') {
                    Separator::Delimiter(b'\t')
                } else if out.row.contains(&b',') {
                    Separator::Delimiter(b',')
                } else {
                    Separator::Spaces
                };
                out.split();
                out.width = out.fields.len();
            }
            LineFormat::Svmlight | LineFormat::Jsonl => {}
        }
        Ok(out)
    }

    /// Where columns stand, in a file of plain lines.
    pub(super) fn plain(&self, columns: [&Column; 3]) -> Option<Columns> {
        let number = |column: &Column| match column {
            Column::Number(number, _) => Some(*number),
            _ => None,
        };
        let [a, b, c] = columns.map(number);
        let quoted = self.header.iter().flatten().any(|&byte| byte == b'"');
        (!quoted).then_some(Columns {
            separator: self.separator,
            quotes: matches!(self.kind, LineFormat::Table(_)),
            width: self.width,
            numbers: [a?, b?, c?],
            skip: self.header_line,
        })
    }

    /// The header line, with its end.
    pub(super) fn header(&self) -> Option<&[u8]> {
        self.header.as_deref()
    }

    pub(super) fn path(&self) -> &Path {
        self.records.path()
    }

    /// An input error at the row just read.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        self.records.error(message)
    }

    /// Goes to the next row; false after the last.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.ahead) {
            return Ok(true);
        }
        while let Some(line) = self.records.next_raw()? {
            let skipped = match self.kind {
                LineFormat::Svmlight => is_skipped(line),
                LineFormat::Jsonl => line.trim_ascii().is_empty(),
                LineFormat::Table(_) | LineFormat::Ratings => false,
            };
            if !skipped {
                self.row.clear();
                self.row.extend_from_slice(line);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The row just read, with its line end where it has one.
    pub(super) fn raw(&self) -> &[u8] {
        &self.row
    }

    fn split(&mut self) {
        match self.separator {
            Separator::Delimiter(delimiter) => self.fields.split(&self.row, delimiter),
            Separator::Colons => {
                let text = without_end(&self.row);
                self.fields.set(ColonFields(Some(text)));
            }
            Separator::Spaces => {
                let words = self.row.split(u8::is_ascii_whitespace);
                self.fields.set(words.filter(|word| !word.is_empty()));
            }
        }
    }

    /// Finds a column by its name; without a header `user`, `item` and
    /// `rating` are the first three, and any may be named by its number.
    pub(super) fn column(&mut self, name: &str) -> Result<Column> {
        let unknown = |known: &str| {
            let message = format!("no column is called `{name}`: expected {known}");
            Err(Error::input(message).in_file(self.records.path()))
        };
        match self.kind {
            LineFormat::Jsonl => return Ok(Column::Name(name.to_owned())),
            LineFormat::Svmlight if name == "label" => return Ok(Column::Label),
            LineFormat::Svmlight => return unknown("`label`"),
            LineFormat::Table(_) | LineFormat::Ratings => {}
        }
        let found = match &self.header {
            Some(header) => {
                let Separator::Delimiter(delimiter) = self.separator else {
                    unreachable!("only tables have headers");
                };
                let mut columns = Fields::default();
                columns.split(header, delimiter);
                let named = |c: &[u8]| c.trim_ascii() == name.as_bytes();
                let found = columns.iter().position(named);
                if columns.iter().filter(|c| named(c)).count() > 1 {
                    let message = format!("column `{name}` stands twice");
                    let error = Error::input(message).in_file(self.records.path());
                    return Err(error.at_line(self.header_line));
                }
                if found.is_none() {
                    let known = columns.iter().map(shown).collect::<Vec<_>>();
                    return unknown(&format!("one of {}", known.join(", ")));
                }
                found
            }
            None => {
                let known = ["user", "item", "rating"].iter().position(|k| *k == name);
                let number = || name.parse::<usize>().ok()?.checked_sub(1);
                known.or_else(number)
            }
        };
        match found {
            Some(number) => Ok(Column::Number(number, name.to_owned())),
            None => unknown("a number, as the file has no header"),
        }
    }

    /// The first of these columns that a header names; in JSON lines the first of them,
    /// which a line may lack. Without a header only a `rating` in the third field is known.
    pub(super) fn column_if_there(&mut self, names: &[&str]) -> Option<Column> {
        let there = match (&self.header, self.kind) {
            (_, LineFormat::Jsonl) => names.first() != Some(&"rating"),
            (Some(_), _) => true,
            (None, _) => self.width >= 3,
        };
        let found = |name: &&str| self.column(name).ok();
        names.iter().filter(|_| there).find_map(found)
    }

    /// The same as [`Source::value`], and `None` where a line of JSON has no such field.
    pub(super) fn value_if_there(&mut self, column: &Column) -> Result<Option<Cow<'_, [u8]>>> {
        if let Column::Name(name) = column {
            let found = json_fields(without_end(&self.row), [Some(name)]);
            let [value] = found.map_err(|message| self.records.error(message))?;
            return Ok(value.map(|value| value.into_owned().into_bytes().into()));
        }
        self.value(column).map(Some)
    }

    /// Splits the row just read, which must have as many fields as the first one.
    fn take_apart(&mut self) -> Result<()> {
        self.split();
        match (self.width, self.fields.len()) {
            (width, found) if width == found => Ok(()),
            (width, found) => Err(self
                .records
                .error(format!("expected {width} fields, found {found}"))),
        }
    }

    /// A field of the row that was taken apart.
    fn field(&self, number: usize, name: &str) -> Result<&[u8]> {
        let found = self.fields.get(number).map(<[u8]>::trim_ascii);
        found.ok_or_else(|| {
            self.records.error(format!(
                "expected `{name}` in field {}, found {} fields",
                number + 1,
                self.fields.len()
            ))
        })
    }

    /// The values of some columns in the row just read, which is taken apart once.
    pub(super) fn values<const N: usize>(
        &mut self,
        columns: [&Column; N],
    ) -> Result<[Cow<'_, [u8]>; N]> {
        if !columns.iter().all(|c| matches!(c, Column::Number(..))) {
            let mut out: [Cow<'_, [u8]>; N] = std::array::from_fn(|_| Cow::default());
            for (out, column) in out.iter_mut().zip(columns) {
                *out = self.value(column)?.into_owned().into();
            }
            return Ok(out);
        }
        self.take_apart()?;
        let mut out: [Cow<'_, [u8]>; N] = std::array::from_fn(|_| Cow::default());
        for (out, column) in out.iter_mut().zip(columns) {
            if let Column::Number(number, name) = column {
                *out = self.field(*number, name)?.into();
            }
        }
        Ok(out)
    }

    /// The value of a column in the row just read.
    pub(super) fn value(&mut self, column: &Column) -> Result<Cow<'_, [u8]>> {
        match column {
            Column::Label => Ok(label_field(without_end(&self.row)).into()),
            Column::Number(number, name) => {
                self.take_apart()?;
                Ok(self.field(*number, name)?.into())
            }
            Column::Name(name) => {
                let found = json_fields(without_end(&self.row), [Some(name)]);
                let [value] = found.map_err(|message| self.records.error(message))?;
                match value {
                    Some(value) => Ok(value.into_owned().into_bytes().into()),
                    None => Err(self.records.error(format!("expected a field `{name}`"))),
                }
            }
        }
    }
}

/// Fields separated by `::`.
pub(super) struct ColonFields<'a>(pub Option<&'a [u8]>);

impl<'a> Iterator for ColonFields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.0?;
        let end = text.windows(2).position(|pair| pair == b"::");
        self.0 = end.map(|at| &text[at + 2..]);
        Some(&text[..end.unwrap_or(text.len())])
    }
}
