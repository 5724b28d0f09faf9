//! Writes dense rows with their names, in what other programs read.

use std::io::{self, Write};
use std::path::Path;

use super::format::extension;
use super::output::write_atomically;
use super::{RowIds, npy};
use crate::{Error, Real, Result};

/// A format of dense rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorFormat {
    /// NumPy's array format; it has no room for names.
    Npy,
    /// A table with the columns `id`, `x1`, `x2`, ….
    Csv,
    /// The text format of word2vec: a line with the number of rows and of
    /// columns, then a line a row with its name first.
    Word2Vec,
}

impl VectorFormat {
    /// By the name of the file: `.npy`, or `.csv`, `.txt`, `.vec`, these also
    /// with `.gz` or `.zst`.
    pub fn of(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        match extension(path) {
            ("npy", "npy") => Ok(VectorFormat::Npy),
            ("npy", _) => {
                let message = "NumPy reads no compressed .npy: expected .npy alone";
                Err(Error::input(message).in_file(path))
            }
            ("csv", _) => Ok(VectorFormat::Csv),
            ("txt" | "vec", _) => Ok(VectorFormat::Word2Vec),
            _ => {
                let message = "unknown extension: expected .npy, or .csv, .txt or .vec, \
                    these also with .gz or .zst";
                Err(Error::input(message).in_file(path))
            }
        }
    }
}

/// Writes rows of `columns` values each to a file, by its extension (see
/// [`VectorFormat::of`]): whole, or not at all. Numbers in text have as many
/// digits as it takes to read them back exactly.
#[track_caller]
pub fn write_vectors<R: Real>(
    path: impl AsRef<Path>,
    ids: &RowIds,
    values: &[R],
    columns: usize,
) -> Result<()> {
    assert!(columns > 0, "rows need at least one column");
    assert_eq!(
        values.len() % columns,
        0,
        "whole rows of {columns} values each"
    );
    let path = path.as_ref();
    let rows = values.len() / columns;
    if let RowIds::Named(names) = ids {
        assert_eq!(names.len(), rows, "a name a row");
    }
    match VectorFormat::of(path)? {
        VectorFormat::Npy => write_atomically(path, |out| npy::write(out, values, columns)),
        VectorFormat::Csv => write_atomically(path, |out| write_csv(out, ids, values, columns)),
        VectorFormat::Word2Vec => {
            for i in 0..rows {
                let name = ids.name(i);
                if name.is_empty() || name.contains(char::is_whitespace) {
                    let message = format!(
                        "the id `{}` is empty or has a space, which word2vec text cannot hold: \
                         write .csv instead",
                        name.escape_debug()
                    );
                    return Err(Error::input(message).in_file(path));
                }
            }
            write_atomically(path, |out| write_word2vec(out, ids, values, columns))
        }
    }
}

fn write_csv<R: Real>(
    out: &mut dyn Write,
    ids: &RowIds,
    values: &[R],
    columns: usize,
) -> io::Result<()> {
    write!(out, "id")?;
    for j in 1..=columns {
        write!(out, ",x{j}")?;
    }
    writeln!(out)?;
    for (i, row) in values.chunks_exact(columns).enumerate() {
        let name = ids.name(i);
        if name.contains([',', '"', '\n', '\r']) {
            write!(out, "\"{}\"", name.replace('"', "\"\""))?;
        } else {
            write!(out, "{name}")?;
        }
        for value in row {
            write!(out, ",{value}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_word2vec<R: Real>(
    out: &mut dyn Write,
    ids: &RowIds,
    values: &[R],
    columns: usize,
) -> io::Result<()> {
    writeln!(out, "{} {columns}", values.len() / columns)?;
    for (i, row) in values.chunks_exact(columns).enumerate() {
        write!(out, "{}", ids.name(i))?;
        for value in row {
            write!(out, " {value}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::read_table;

    fn named(names: &[&str]) -> RowIds {
        RowIds::Named(names.iter().map(|name| name.to_string()).collect())
    }

    #[test]
    fn tables_come_back_exactly() {
        let dir = tempfile::tempdir().unwrap();
        let ids = named(&["plain", "a,b", "say \"no\"", "two\nlines", "", "ü"]);
        let values: Vec<f32> = (0..12).map(|i| 1e20 / 7_f32.powi(4 * i) - 3e-9).collect();
        for name in ["v.csv", "v.csv.gz", "v.csv.zst"] {
            let path = dir.path().join(name);
            write_vectors(&path, &ids, &values, 2).unwrap();
            let back = read_table::<f32>(&path, b',').unwrap();
            assert_eq!(back.ids, ids, "{name}");
            let rows = back.rows.iter().flat_map(|row| row.values.to_vec());
            assert_eq!(rows.collect::<Vec<_>>(), values);
        }
    }

    #[test]
    fn word2vec_text_has_a_line_of_sizes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.vec");
        write_vectors(&path, &named(&["a", "ü"]), &[0.1, -2.0, 1e-7, 3e9], 2).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "2 2\na 0.1 -2\nü 0.0000001 3000000000\n");
        for bad in ["a b", "a\tb", ""] {
            let error = write_vectors(&path, &named(&[bad]), &[1.0], 1).unwrap_err();
            assert_eq!(
                error.message,
                format!(
                    "the id `{}` is empty or has a space, which word2vec text cannot hold: \
                     write .csv instead",
                    bad.escape_debug()
                )
            );
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn names_tell_the_format() {
        assert_eq!(VectorFormat::of("a.npy"), Ok(VectorFormat::Npy));
        assert_eq!(VectorFormat::of("a.csv.zst"), Ok(VectorFormat::Csv));
        assert_eq!(VectorFormat::of("a.txt.gz"), Ok(VectorFormat::Word2Vec));
        assert_eq!(
            VectorFormat::of("a.npy.gz").unwrap_err().to_string(),
            "a.npy.gz: NumPy reads no compressed .npy: expected .npy alone"
        );
        assert_eq!(
            VectorFormat::of("a.svm").unwrap_err().to_string(),
            "a.svm: unknown extension: expected .npy, or .csv, .txt or .vec, these also with .gz or .zst"
        );
    }
}
