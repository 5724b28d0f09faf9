//! What can go wrong, where it happened, and what was expected.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of anything that reads, writes or checks.
pub type Result<T> = std::result::Result<T, Error>;

/// Whose fault an [`Error`] is: it decides the exit code of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file, an option or an argument is not what it should be.
    Input,
    /// The input was fine, but the work could not be done: a full disk, too little memory.
    Failure,
    /// Someone asked the work to stop before it had a result.
    Interrupted,
}

/// An error with its place: `ratings.tsv:1841: expected 3 fields, found 2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Whose fault it is.
    pub kind: ErrorKind,
    /// What was found and what was expected, without the place.
    pub message: String,
    /// The file that was read or written.
    pub file: Option<PathBuf>,
    /// The line in that file, from 1.
    pub line: Option<u64>,
    /// The option that the error is about, in words joined by `_`. A caller names it as
    /// its users do; the message goes on from there.
    pub option: Option<String>,
    /// What the error is about, where that is not the main data: `objects`.
    pub about: Option<&'static str>,
}

impl Error {
    /// Bad input that belongs to no file.
    pub fn input(message: impl Into<String>) -> Self {
        Error {
            kind: ErrorKind::Input,
            message: message.into(),
            file: None,
            line: None,
            option: None,
            about: None,
        }
    }

    /// A bad option. The message continues its name: "must be above 0, found -1".
    pub fn option(name: impl Into<String>, message: impl Into<String>) -> Self {
        Error {
            option: Some(name.into()),
            ..Error::input(message)
        }
    }

    /// Work that could not be done.
    pub fn failure(message: impl Into<String>) -> Self {
        Error {
            kind: ErrorKind::Failure,
            ..Error::input(message)
        }
    }

    /// Work that was stopped before it had a result.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Error {
            kind: ErrorKind::Interrupted,
            ..Error::input(message)
        }
    }

    /// The same error, about something else than the main data (kept when it is said).
    pub fn about(mut self, what: &'static str) -> Self {
        self.about.get_or_insert(what);
        self
    }

    /// The same error, in this file (kept when a file is already named).
    pub fn in_file(mut self, file: impl AsRef<Path>) -> Self {
        self.file.get_or_insert_with(|| file.as_ref().to_owned());
        self
    }

    /// The same error, at this line (kept when a line is already named).
    pub fn at_line(mut self, line: u64) -> Self {
        self.line.get_or_insert(line);
        self
    }

    /// A file that could not be read.
    pub fn reading(file: impl AsRef<Path>, source: &std::io::Error) -> Self {
        Error::input(format!("cannot read: {source}")).in_file(file)
    }

    /// A file that could not be written.
    pub fn writing(file: impl AsRef<Path>, source: &std::io::Error) -> Self {
        Error::failure(format!("cannot write: {source}")).in_file(file)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{}:{line}: ", file.display())?,
            (Some(file), None) => write!(f, "{}: ", file.display())?,
            (None, _) => {}
        }
        if let Some(about) = self.about {
            write!(f, "{about}: ")?;
        }
        if let Some(option) = &self.option {
            write!(f, "option `{option}` ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
