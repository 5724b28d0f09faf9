//! Tables that are stored by columns: Parquet files, and Arrow IPC files and streams.
//!
//! Whatever reads tables reads records of text. So a column file is given as records: the
//! names of its columns first, then a record for each row, batch by batch. It means what the
//! same table means in CSV, for every command, and the two give the same bytes.
//!
//! | column | cell |
//! |---|---|
//! | whole numbers, decimals | all digits |
//! | floats | the shortest decimal that gives the number back; NaN is a missing cell |
//! | booleans | 1 or 0 |
//! | texts, bytes, dictionaries of them | as they are |
//! | dates and timestamps | `2015-03-31`, `2015-03-31T23:59:01Z` |
//! | null | a missing cell |
//!
//! Other columns, such as lists, are left out; [`Records::left_out`] names them.

#[cfg(feature = "parquet")]
mod batches;
#[cfg(feature = "parquet")]
mod cells;
#[cfg(feature = "parquet")]
mod messages;
#[cfg(feature = "parquet")]
mod pages;

use std::path::Path;

use super::format::extension;
use crate::Result;

/// A format of column files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Parquet,
    Arrow,
}

impl Kind {
    /// By the extension of a name.
    pub(super) fn of(name: &Path) -> Option<Kind> {
        match extension(name).0 {
            "parquet" => Some(Kind::Parquet),
            "arrow" | "feather" | "ipc" => Some(Kind::Arrow),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Parquet => "Parquet",
            Kind::Arrow => "Arrow",
        }
    }
}

/// A column that cannot be given as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub name: String,
    /// What it holds, such as "lists".
    pub holds: String,
}

/// The index of rows that pandas stores as a column.
const INDEX: &str = "__index_level_";

impl LeftOut {
    /// Whether it is the index of pandas, which nobody learns from.
    pub(super) fn is_index(&self) -> bool {
        self.name.starts_with(INDEX)
    }
}

/// The records of a table, one after the other.
pub(super) trait Records: Send {
    /// Appends the next record, without a line end; false after the last.
    fn next(&mut self, record: &mut Vec<u8>) -> Result<bool>;

    /// The columns that are left out.
    fn left_out(&self) -> &[LeftOut];
}

/// Opens a column file; stdin, pipes and compressed files are copied to a temporary file.
#[cfg(feature = "parquet")]
pub(super) fn open(path: &Path, kind: Kind) -> Result<Box<dyn Records>> {
    batches::open(path, kind)
}

/// Says what is missing.
#[cfg(not(feature = "parquet"))]
pub(super) fn open(path: &Path, kind: Kind) -> Result<Box<dyn Records>> {
    let message = format!(
        "{} files need the feature `parquet`, which this build leaves out",
        kind.name()
    );
    Err(crate::Error::input(message).in_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_kind() {
        let kind = |name: &str| Kind::of(Path::new(name));
        assert_eq!(kind("a.parquet"), Some(Kind::Parquet));
        for name in ["a.arrow", "a.feather", "b.ipc", "a.arrow.gz"] {
            assert_eq!(kind(name), Some(Kind::Arrow), "{name}");
        }
        assert_eq!(kind("parquet.csv"), None);
    }

    #[cfg(not(feature = "parquet"))]
    #[test]
    fn a_build_without_the_feature_names_it() {
        let error = super::super::read_labelled::<f32>("a.parquet").unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.parquet: Parquet files need the feature `parquet`, which this build leaves out"
        );
    }
}
