//! Which format a file is in, by its name.

use std::path::Path;

use super::columnar::Kind;
use super::reading::Reading;
use crate::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Rows are lines of text.
    Lines(LineFormat),
    MatrixMarket,
    Npy,
    Npz,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineFormat {
    Svmlight,
    /// With its delimiter.
    Table(u8),
    Jsonl,
    /// Ratings or choices, with or without a header, separated by `::`, tabs, commas, `;`, `|`
    /// or spaces.
    Ratings,
}

impl Format {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let (extension, _) = extension(path);
        Ok(Format::Lines(match extension {
            "svm" | "svmlight" | "libsvm" => LineFormat::Svmlight,
            // Rows of column files are given as records of a table.
            "csv" | "parquet" | "arrow" | "feather" | "ipc" => LineFormat::Table(b','),
            "tsv" => LineFormat::Table(b'\t'),
            "jsonl" | "ndjson" => LineFormat::Jsonl,
            "dat" | "data" | "base" | "test" | "txt" | "inter" => LineFormat::Ratings,
            "mtx" => return Ok(Format::MatrixMarket),
            "npy" => return Ok(Format::Npy),
            "npz" => return Ok(Format::Npz),
            _ => return Err(unknown(path)),
        }))
    }
}

/// Whether the name of a file says that it holds rows, other than JSON lines.
pub fn holds_rows(path: impl AsRef<Path>, reading: &Reading) -> bool {
    match reading.format_of(path.as_ref()) {
        Ok(Format::Lines(kind)) => !matches!(kind, LineFormat::Jsonl | LineFormat::Ratings),
        Ok(_) => true,
        Err(_) => false,
    }
}

/// Whether a file is stored by columns, which are read from its end: Parquet or Arrow.
pub fn holds_columns(path: impl AsRef<Path>, reading: &Reading) -> bool {
    let name = reading.name_of(path.as_ref());
    name.is_ok_and(|name| Kind::of(&name).is_some())
}

const UNKNOWN: &str = "unknown extension: expected .svm, .csv, .tsv, .jsonl, .mtx or .npy, plain or \
    with .gz or .zst, .parquet, .arrow or .npz; --format names the format of other files";

pub(super) fn unknown(path: &Path) -> Error {
    Error::input(UNKNOWN).in_file(path)
}

/// The extension that names the format, and all of it with the compression:
/// `csv` and `csv.gz`.
pub(super) fn extension(path: &Path) -> (&str, &str) {
    // What stands before the extension need not be UTF-8.
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let plain = name.strip_suffix(b".gz").or(name.strip_suffix(b".zst"));
    let plain = plain.unwrap_or(name);
    let text = |bytes| std::str::from_utf8(bytes).unwrap_or("");
    match plain.iter().rposition(|&byte| byte == b'.') {
        Some(at) => (text(&plain[at + 1..]), text(&name[at + 1..])),
        None => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_format() {
        assert_eq!(extension(Path::new("a.b/c.d.csv.gz")), ("csv", "csv.gz"));
        assert_eq!(
            Format::of(Path::new("a.tsv.zst")),
            Ok(Format::Lines(LineFormat::Table(b'\t')))
        );
        assert_eq!(
            Format::of(Path::new("a.svm")),
            Ok(Format::Lines(LineFormat::Svmlight))
        );
        let error = crate::data::read_labelled::<f32>("a.xls").unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.xls: unknown extension: expected .svm, .csv, .tsv, .jsonl, .mtx or .npy, plain or with \
             .gz or .zst, .parquet, .arrow or .npz; --format names the format of other files"
        );
        assert!(Format::of(Path::new("noextension.gz")).is_err());
    }
}
