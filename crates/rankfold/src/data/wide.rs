//! Ratings or choices that stand in a matrix of users by items: a wide table with holes, or the entries
//! of a sparse matrix.

use std::path::{Path, PathBuf};

use super::choices::weight_in_range;
use super::columns::Source;
use super::format::Format;
use super::number::{is_missing, number, shown};
use super::ratings::{put, rating, text};
use super::reading::Reading;
use super::recognize::Role;
use super::{RowIds, read_mtx, read_npz};
use crate::{Error, Result, Rows};

/// A table with a row for each user and a column for each item.
pub(super) struct WideTable {
    source: Source,
    /// The column of users.
    user: usize,
    items: Vec<String>,
    /// Values of the row that were not given yet, the last one first.
    waiting: Vec<(usize, f64)>,
    name: String,
    value: Cell,
}

/// The value of a cell that is not missing; `None` where it says nothing.
type Cell = fn(&[u8]) -> std::result::Result<Option<f64>, String>;

impl WideTable {
    /// A table of ratings, whose users stand in this column where it is there.
    pub(super) fn of_ratings(source: Source, user: &str) -> Result<Self> {
        Self::new(source, user, |cell| rating(cell).map(Some))
    }

    /// A table of choices: the weight of each, and 0 or the like where nothing was chosen.
    pub(super) fn of_choices(source: Source, user: &str) -> Result<Self> {
        Self::new(source, user, |cell| {
            let is = |words: &[&str]| {
                let mut words = words.iter();
                words.any(|word| cell.eq_ignore_ascii_case(word.as_bytes()))
            };
            match number::<f64>(cell) {
                Ok(0.0) => Ok(None),
                Ok(weight) => weight_in_range(weight, || shown(cell)).map(Some),
                Err(_) if is(&["x", "y", "yes", "true"]) => Ok(Some(1.0)),
                Err(_) if is(&["-", "n", "no", "false"]) => Ok(None),
                Err(_) => Err(format!(
                    "expected a number, yes or no, found {}",
                    shown(cell)
                )),
            }
        })
    }

    fn new(mut source: Source, user: &str, value: Cell) -> Result<Self> {
        let names = match source.is_json() {
            true => None,
            false => source.names()?,
        };
        let Some(items) = names else {
            let message = "--wide expects a table whose first line names the items";
            return Err(Error::input(message).in_file(source.path()));
        };
        let exact = items.iter().position(|name| name == user);
        // The first column has the users where none is called so.
        let user = exact.or_else(|| Role::User.find(&items)).unwrap_or(0);
        let count = items.len() - 1;
        if count == 0 {
            let message = "--wide expects a column for each item, found none";
            return Err(Error::input(message).in_file(source.path()));
        }
        let path = source.path().display();
        source.reading().note(format!(
            "{path}: users in column {}, and {count} columns of items",
            user + 1
        ));
        Ok(WideTable {
            source,
            user,
            items,
            waiting: Vec::new(),
            name: String::new(),
            value,
        })
    }

    /// Goes to the next known cell.
    pub(super) fn advance(
        &mut self,
        user: &mut String,
        item: &mut String,
        value: &mut f64,
    ) -> Result<bool> {
        loop {
            if let Some((column, found)) = self.waiting.pop() {
                put(user, &self.name);
                put(item, &self.items[column]);
                *value = found;
                return Ok(true);
            }
            if !self.source.advance()? {
                return Ok(false);
            }
            if let Err(message) = self.read() {
                self.waiting.clear();
                self.source.bad(message)?;
            }
        }
    }

    fn read(&mut self) -> std::result::Result<(), String> {
        let fields = self.source.row_fields()?;
        for (column, cell) in fields.iter().enumerate() {
            let cell = cell.trim_ascii();
            if column == self.user {
                put(&mut self.name, text(cell, "a user")?);
            } else if !is_missing(cell) {
                let name = &self.items[column];
                let value = (self.value)(cell).map_err(|m| format!("column `{name}`: {m}"))?;
                self.waiting.extend(value.map(|value| (column, value)));
            }
        }
        self.waiting.reverse();
        Ok(())
    }

    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        self.source.error(message)
    }
}

/// The entries of a matrix file, row by row.
pub(super) struct MatrixEntries {
    path: PathBuf,
    rows: Rows<f64>,
    ids: RowIds,
    /// The number of the first row and column.
    first: usize,
    row: usize,
    at: usize,
}

impl MatrixEntries {
    /// Reads `.npz`, where rows and columns count from 0 as in Python, or `.mtx`, where they
    /// count from 1.
    pub(super) fn read(path: &Path, reading: &Reading) -> Result<Self> {
        let (read, first) = match reading.format_of(path)? {
            Format::MatrixMarket => (read_mtx::<f64>(path)?, 1),
            _ => (read_npz::<f64>(path)?, 0),
        };
        let who = match read.ids {
            RowIds::Named(_) => "by `ids`".to_owned(),
            RowIds::Positions => format!("rows from {first}"),
        };
        reading.note(format!(
            "{}: users are {who}, items columns from {first}",
            path.display()
        ));
        Ok(MatrixEntries {
            path: path.to_owned(),
            rows: read.rows,
            ids: read.ids,
            first,
            row: 0,
            at: 0,
        })
    }

    pub(super) fn advance(
        &mut self,
        user: &mut String,
        item: &mut String,
        value: &mut f64,
    ) -> Result<bool> {
        while self.row < self.rows.len() {
            let row = self.rows.row(self.row);
            let Some((&index, &found)) = row.indices.get(self.at).zip(row.values.get(self.at))
            else {
                (self.row, self.at) = (self.row + 1, 0);
                continue;
            };
            self.at += 1;
            match &self.ids {
                RowIds::Named(names) => put(user, &names[self.row]),
                RowIds::Positions => put(user, &(self.row + self.first).to_string()),
            }
            put(item, &(index as usize + self.first).to_string());
            if user.is_empty() {
                return Err(self.error(format!("row {} has an empty id", self.row)));
            }
            if found.abs() > super::ratings::LARGEST_RATING {
                return Err(self.error(format!("the rating `{found:e}` is too large")));
            }
            *value = found;
            return Ok(true);
        }
        Ok(false)
    }

    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        Error::input(message).in_file(&self.path)
    }
}
