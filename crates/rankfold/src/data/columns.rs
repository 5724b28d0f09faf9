//! The rows of a file of any format, as lines to copy and as columns to ask.

use std::borrow::Cow;
use std::path::Path;

use super::fields::json_fields;
use super::format::LineFormat;
use super::number::{number, shown};
use super::open::{Lines, without_end};
use super::reading::Reading;
use super::recognize::names_columns;
use super::records::{Fields, Records};
use super::stream::keys;
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
                out.separator = Separator::Delimiter(out.records.delimiter());
                out.split();
                out.width = out.fields.len();
                let first = out.fields.get(0).unwrap_or(b"").trim_ascii();
                if out.ahead && (out.records.is_columnar() || number::<f64>(first).is_err()) {
                    out.header = Some(std::mem::take(&mut out.row));
                    out.header_line = out.records.line();
                    out.ahead = false;
                }
            }
            LineFormat::Ratings => {
                out.ahead = out.advance()?;
                let has = |byte: &&u8| out.row.contains(byte);
                out.separator = if out.row.windows(2).any(|pair| pair == b"::") {
                    Separator::Colons
                } else if let Some(&delimiter) = b"\t,;|".iter().find(has) {
                    Separator::Delimiter(delimiter)
                } else {
                    Separator::Spaces
                };
                out.split();
                out.width = out.fields.len();
                if names_columns(&out.texts()) {
                    out.take_header();
                }
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
        // A column file has no lines to cut it at.
        (!quoted && !self.records.is_columnar()).then_some(Columns {
            separator: self.separator,
            quotes: matches!(self.separator, Separator::Delimiter(_)),
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
        separate(self.separator, &self.row, &mut self.fields);
    }

    /// The fields that were split last, as texts.
    fn texts(&self) -> Vec<String> {
        let text = |field: &[u8]| String::from_utf8_lossy(field.trim_ascii()).into_owned();
        self.fields.iter().map(text).collect()
    }

    /// The row that was read ahead names the columns.
    fn take_header(&mut self) {
        self.header = Some(std::mem::take(&mut self.row));
        self.header_line = self.records.line();
        self.ahead = false;
    }

    /// Takes a first line of a table back that names no columns, because numbers stand in it.
    pub(super) fn header_is_data(&mut self) -> bool {
        let is_number = |field: &[u8]| number::<f64>(field.trim_ascii()).is_ok();
        let Some(header) = self.header.as_ref().filter(|_| !self.records.is_columnar()) else {
            return false;
        };
        separate(self.separator, header, &mut self.fields);
        if !self.fields.iter().any(is_number) {
            return false;
        }
        self.row = self.header.take().unwrap_or_default();
        (self.ahead, self.header_line) = (true, 0);
        true
    }

    /// The names of the columns: those of the header, or the fields of the first line of JSON.
    /// `None` where there are none.
    pub(super) fn names(&mut self) -> Result<Option<Vec<String>>> {
        if let Some(header) = &self.header {
            separate(self.separator, header, &mut self.fields);
            return Ok(Some(self.texts()));
        }
        if self.kind != LineFormat::Jsonl {
            return Ok(None);
        }
        if !self.ahead {
            self.ahead = self.advance()?;
        }
        Ok(Some(keys(without_end(&self.row))).filter(|_| self.ahead))
    }

    /// How many fields each row of a table has; 0 where there is no row.
    pub(super) fn width(&self) -> usize {
        if self.ahead { self.width } else { 0 }
    }

    /// Whether rows are lines of JSON.
    pub(super) fn is_json(&self) -> bool {
        self.kind == LineFormat::Jsonl
    }

    /// How the file is read.
    pub(super) fn reading(&self) -> &Reading {
        self.records.reading()
    }

    /// The error of the row just read, unless bad lines are left out.
    pub(super) fn bad(&self, message: impl Into<String>) -> Result<()> {
        self.records.bad(message)
    }

    /// The row just read, taken apart into fields, which must be as many as in the first one.
    pub(super) fn row_fields(&mut self) -> std::result::Result<&Fields, String> {
        self.split();
        match (self.width, self.fields.len()) {
            (width, found) if width == found => Ok(&self.fields),
            (width, found) => Err(format!("expected {width} fields, found {found}")),
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
        if self.ahead && self.kind == LineFormat::Ratings && name.parse::<usize>().is_err() {
            // A first line with the name that is asked for is a header.
            self.split();
            if self
                .fields
                .iter()
                .any(|field| field.trim_ascii() == name.as_bytes())
            {
                self.take_header();
            }
        }
        let unknown = |known: &str| {
            let message = format!("no column is called `{name}`: expected {known}");
            Err(Error::input(message).in_file(self.records.path()))
        };
        let found = match &self.header {
            Some(header) => {
                let mut columns = Fields::default();
                separate(self.separator, header, &mut columns);
                let named = |c: &[u8]| c.trim_ascii() == name.as_bytes();
                let found = columns.iter().position(named);
                if columns.iter().filter(|c| named(c)).count() > 1 {
                    let message = format!("column `{name}` stands twice");
                    return Err(self.records.error_at(self.header_line, message));
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

    /// The same as [`Source::values`]; what is wrong has no place.
    pub(super) fn fields<const N: usize>(
        &mut self,
        columns: [&Column; N],
    ) -> std::result::Result<[Cow<'_, [u8]>; N], String> {
        self.values(columns).map_err(|error| error.message)
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

fn separate(separator: Separator, row: &[u8], fields: &mut Fields) {
    match separator {
        Separator::Delimiter(delimiter) => fields.split(row, delimiter),
        Separator::Colons => fields.set(ColonFields(Some(without_end(row)))),
        Separator::Spaces => {
            let words = row.split(u8::is_ascii_whitespace);
            fields.set(words.filter(|word| !word.is_empty()));
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
