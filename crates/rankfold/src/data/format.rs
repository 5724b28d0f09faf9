//! Which format a file is in, by its name.

use std::path::Path;

use crate::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Svmlight,
    /// With its delimiter.
    Table(u8),
    Jsonl,
    /// Ratings without a header, separated by `::`, tabs or spaces.
    Ratings,
}

impl Format {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let (extension, _) = extension(path);
        Ok(match extension {
            "svm" | "svmlight" | "libsvm" => Format::Svmlight,
            "csv" => Format::Table(b','),
            "tsv" => Format::Table(b'\t'),
            "jsonl" | "ndjson" => Format::Jsonl,
            "dat" | "data" => Format::Ratings,
            _ => return Err(unknown(path)),
        })
    }
}

pub(super) fn unknown(path: &Path) -> Error {
    let message =
        "unknown extension: expected .svm, .csv, .tsv or .jsonl, plain or with .gz or .zst";
    Error::input(message).in_file(path)
}

/// The extension that names the format, and all of it with the compression:
/// `csv` and `csv.gz`.
pub(super) fn extension(path: &Path) -> (&str, &str) {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
    let plain = name.strip_suffix(".gz").or(name.strip_suffix(".zst"));
    let plain = plain.unwrap_or(name);
    match plain.rfind('.') {
        Some(at) => (&plain[at + 1..], &name[at + 1..]),
        None => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_format() {
        assert_eq!(extension(Path::new("a.b/c.d.csv.gz")), ("csv", "csv.gz"));
        assert_eq!(Format::of(Path::new("a.tsv.zst")), Ok(Format::Table(b'\t')));
        assert_eq!(Format::of(Path::new("a.svm")), Ok(Format::Svmlight));
        let error = crate::data::read_labelled::<f32>("a.xls").unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.xls: unknown extension: expected .svm, .csv, .tsv or .jsonl, plain or with .gz or .zst"
        );
        assert!(Format::of(Path::new("noextension.gz")).is_err());
    }
}
