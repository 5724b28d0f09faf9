//! How files are read where their names do not say it, and what there is to tell about it.
//!
//! A library prints nothing: readers leave notes here, and whoever asked for the reading
//! takes them.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::format::{Format, extension};
use super::number::shown;
use crate::{Error, Result};

/// What is done with a line that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadLine {
    /// It is an error.
    #[default]
    Error,
    /// It is left out and counted.
    Skip,
}

impl FromStr for OnBadLine {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "error" => Ok(OnBadLine::Error),
            "skip" => Ok(OnBadLine::Skip),
            _ => Err(format!("expected `error` or `skip`, found `{text}`")),
        }
    }
}

/// How files are read. Copies of it share what is told.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The extension that names the format, whatever the files are called.
    format: Option<String>,
    on_bad_line: OnBadLine,
    told: Arc<Mutex<Told>>,
}

/// What readers have told.
#[derive(Debug, Default)]
struct Told {
    notes: Vec<String>,
    /// Notes that were taken: each is told once.
    taken: Vec<String>,
    skipped: u64,
    first: Option<Error>,
}

/// What is told does not matter.
impl PartialEq for Reading {
    fn eq(&self, other: &Self) -> bool {
        (&self.format, self.on_bad_line) == (&other.format, other.on_bad_line)
    }
}

impl Eq for Reading {}

impl Reading {
    /// Files in the format of this extension, such as `csv`, or as their names say.
    pub fn new(format: Option<&str>, on_bad_line: OnBadLine) -> Result<Self> {
        if let Some(format) = format {
            named(format)?;
        }
        Ok(Reading {
            format: format.map(str::to_owned),
            on_bad_line,
            told: Arc::default(),
        })
    }

    /// The format that was named.
    pub fn format(&self) -> Option<&str> {
        self.format.as_deref()
    }

    /// How many lines were left out.
    pub fn skipped(&self) -> u64 {
        self.told().skipped
    }

    /// What is wrong with the first line that was left out.
    pub fn first_skipped(&self) -> Option<Error> {
        self.told().first.clone()
    }

    /// Whether bad lines are left out.
    pub fn skips(&self) -> bool {
        self.on_bad_line == OnBadLine::Skip
    }

    /// The same for a second look at a file: nothing is told or counted again.
    pub(super) fn uncounted(&self) -> Self {
        Reading {
            told: Arc::default(),
            ..self.clone()
        }
    }

    /// What was told since the last time, each note once.
    pub fn take_notes(&self) -> Vec<String> {
        let mut told = self.told();
        let new = std::mem::take(&mut told.notes);
        told.taken.extend(new.iter().cloned());
        new
    }

    /// Tells something that the user may want to know.
    pub(crate) fn note(&self, text: impl Into<String>) {
        let (mut told, text) = (self.told(), text.into());
        if !told.notes.contains(&text) && !told.taken.contains(&text) {
            told.notes.push(text);
        }
    }

    /// The error of a bad line, unless such lines are left out.
    pub(super) fn bad(&self, error: Error) -> Result<()> {
        if !self.skips() {
            return Err(error);
        }
        let mut told = self.told();
        told.skipped += 1;
        told.first.get_or_insert(error);
        Ok(())
    }

    /// The format of a file: the one that was named, or that of its extension.
    pub(super) fn format_of(&self, path: &Path) -> Result<Format> {
        Format::of(&self.name_of(path)?)
    }

    /// A name whose extension says the format.
    pub(super) fn name_of(&self, path: &Path) -> Result<PathBuf> {
        match &self.format {
            None => Ok(path.to_owned()),
            Some(format) => named(format),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        // What was told stays true where a thread has panicked since.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name with this extension: one that is known, and nothing else.
pub(super) fn named(format: &str) -> Result<PathBuf> {
    let named = PathBuf::from(format!("data.{format}"));
    match Format::of(&named).is_ok() && extension(&named).1 == format {
        true => Ok(named),
        false => Err(Error::input(format!(
            "unknown format {}: expected svm, csv, tsv, jsonl, dat, parquet, arrow, mtx, npy or npz",
            shown(format.as_bytes())
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::format::LineFormat;

    #[test]
    fn a_named_format_wins_over_the_name() {
        let reading = Reading::new(Some("tsv"), OnBadLine::Error).unwrap();
        let table = Format::Lines(LineFormat::Table(b'\t'));
        assert_eq!(reading.format_of(Path::new("a.csv")), Ok(table));
        let by_name = Reading::default();
        assert!(by_name.format_of(Path::new("a.xls")).is_err());
        let message = Reading::new(Some("xls"), OnBadLine::Error).unwrap_err();
        assert!(message.message.starts_with("unknown format `xls`"));
    }

    #[test]
    fn skipped_lines_are_counted_and_notes_told_once() {
        let reading = Reading::new(None, OnBadLine::Skip).unwrap();
        let copy = reading.clone();
        copy.bad(Error::input("first")).unwrap();
        copy.bad(Error::input("second")).unwrap();
        assert_eq!(reading.skipped(), 2);
        assert_eq!(reading.first_skipped(), Some(Error::input("first")));
        copy.note("a");
        copy.note("a");
        assert_eq!(reading.take_notes(), ["a"]);
        copy.note("a");
        assert!(reading.take_notes().is_empty());
        let strict = Reading::default();
        assert_eq!(strict.bad(Error::input("bad")), Err(Error::input("bad")));
    }
}
