//! Matrix Market text: `%%MatrixMarket matrix FORMAT FIELD SYMMETRY`, comments
//! that start with `%`, a line of sizes, then the entries.
//!
//! A `coordinate` matrix lists `row column value`, counted from 1 and in any
//! order; entries of one place are added up, as other readers do. An `array`
//! lists all values column by column. Of a symmetric matrix only the part on
//! and below the diagonal stands in the file.

use std::path::Path;

use super::Labelled;
use super::number::{NoNumber, number, shown};
use super::open::{Limit, Lines};
use crate::sparse::{Entries, Shape};
use crate::{Real, Result, Rows};

type Fallible<T> = std::result::Result<T, String>;

/// Reads the rows of a `.mtx` file; they have no labels and no ids.
pub fn read_mtx<R: Real>(path: impl AsRef<Path>) -> Result<Labelled<R>> {
    let rows = read_lines(Lines::open(path)?)?;
    Ok(Labelled::new(rows))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Symmetry {
    General,
    Symmetric,
    Skew,
}

/// The first line.
#[derive(Debug, Clone, Copy)]
struct Banner {
    coordinate: bool,
    /// Whether entries have no values: each is 1.
    pattern: bool,
    symmetry: Symmetry,
}

fn banner(line: &[u8]) -> Fallible<Banner> {
    let words: Vec<String> = fields(line)
        .map(|word| String::from_utf8_lossy(word).to_ascii_lowercase())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["%%matrixmarket", object, format, field, symmetry] = words[..] else {
        return Err(format!(
            "expected `%%MatrixMarket matrix …` and three more words, found {}",
            shown(line)
        ));
    };
    let refuse = |found: &str, expected: &str| Err(format!("expected {expected}, found `{found}`"));
    if object != "matrix" {
        return refuse(object, "a `matrix`");
    }
    let coordinate = match format {
        "coordinate" => true,
        "array" => false,
        _ => return refuse(format, "`coordinate` or `array`"),
    };
    let pattern = match field {
        "real" | "double" | "integer" | "unsigned-integer" => false,
        "pattern" if coordinate => true,
        _ => return refuse(field, "`real`, `integer` or, with coordinates, `pattern`"),
    };
    let symmetry = match symmetry {
        "general" => Symmetry::General,
        "symmetric" => Symmetry::Symmetric,
        "skew-symmetric" if !pattern => Symmetry::Skew,
        _ => {
            let expected = "`general`, `symmetric` or, with numbers, `skew-symmetric`";
            return refuse(symmetry, expected);
        }
    };
    Ok(Banner {
        coordinate,
        pattern,
        symmetry,
    })
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty())
}

/// So many fields and no others.
fn exactly<'a, const N: usize>(line: &'a [u8], names: &str) -> Fallible<[&'a [u8]; N]> {
    let mut out = [&b""[..]; N];
    let mut count = 0;
    for field in fields(line) {
        if let Some(place) = out.get_mut(count) {
            *place = field;
        }
        count += 1;
    }
    if count == N {
        Ok(out)
    } else {
        Err(format!("expected {N} fields ({names}), found {count}"))
    }
}

fn size(field: &[u8]) -> Fallible<u64> {
    let digits = field.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(field).ok().filter(|_| digits);
    let size = text.and_then(|text| text.parse().ok());
    size.ok_or_else(|| format!("expected a whole number, found {}", shown(field)))
}

/// An index of the file, from 1, as one from 0.
fn index(field: &[u8], what: &str, most: usize) -> Fallible<usize> {
    match size(field)? {
        0 => Err(format!("{what} 0: rows and columns start at 1")),
        index if index > most as u64 => {
            Err(format!("{what} {index} of a matrix with {most} {what}s"))
        }
        index => Ok(index as usize - 1),
    }
}

fn value<R: Real>(field: &[u8]) -> Fallible<R> {
    number(field).map_err(|problem| match problem {
        NoNumber::Syntax => format!("expected a number, found {}", shown(field)),
        NoNumber::TooLarge => format!("{} is too large for {}", shown(field), R::NAME),
    })
}

/// Goes to the next line that holds something.
fn advance(lines: &mut Lines) -> Result<bool> {
    while let Some(line) = lines.next_line()? {
        let line = line.trim_ascii();
        if !line.is_empty() && line[0] != b'%' {
            return Ok(true);
        }
    }
    Ok(false)
}

fn current(lines: &Lines) -> &[u8] {
    lines.current().trim_ascii()
}

fn read_lines<R: Real>(mut lines: Lines) -> Result<Rows<R>> {
    lines.set_limit(Limit::Header);
    let first = lines.next_line()?.unwrap_or_default();
    let banner = banner(first).map_err(|m| lines.error(m))?;
    if !advance(&mut lines)? {
        return Err(lines.error("expected a line of sizes, found the end of the file"));
    }
    lines.set_limit(Limit::Line);
    let (rows, columns, listed) = sizes(current(&lines), banner).map_err(|m| lines.error(m))?;
    let located = |lines: &Lines, e: crate::Error| e.in_file(lines.path()).at_line(lines.number());
    let shape = Shape::of_file(rows, columns).map_err(|e| located(&lines, e))?;
    if banner.symmetry != Symmetry::General && shape.rows != shape.columns {
        return Err(lines.error(format!(
            "a symmetric matrix has as many rows as columns, found {rows} and {columns}"
        )));
    }
    let mut entries = Entries::new();
    let mut add = |row: usize, column: usize, value: R| {
        entries.push(row, column, value);
        match banner.symmetry {
            Symmetry::General => {}
            _ if row == column => {}
            Symmetry::Symmetric => entries.push(column, row, value),
            Symmetry::Skew => entries.push(column, row, value.negated()),
        }
    };
    let mut next = Cell::first(banner.symmetry);
    let mut count = 0;
    while advance(&mut lines)? {
        if count == listed {
            return Err(lines.error(format!(
                "more than the {listed} entries of the line of sizes"
            )));
        }
        count += 1;
        let line = current(&lines);
        let entry = if banner.coordinate {
            coordinates(line, banner, shape)
        } else {
            let found = exactly(line, "value").and_then(|[field]| Ok((next, value(field)?)));
            next = next.below(banner.symmetry, shape);
            found
        };
        let (cell, value) = entry.map_err(|m| lines.error(m))?;
        add(cell.row, cell.column, value);
    }
    if count < listed {
        return Err(lines.error(format!(
            "expected {listed} entries, found {count}; is the file cut short?"
        )));
    }
    let path = lines.path();
    entries.into_rows(shape).map_err(|e| e.in_file(path))
}

/// Rows, columns and entries that the file says it has.
fn sizes(line: &[u8], banner: Banner) -> Fallible<(u64, u64, u64)> {
    if banner.coordinate {
        let [rows, columns, entries] = exactly(line, "rows columns entries")?;
        return Ok((size(rows)?, size(columns)?, size(entries)?));
    }
    let [rows, columns] = exactly(line, "rows columns")?;
    let (rows, columns) = (size(rows)?, size(columns)?);
    let all = u128::from(rows) * u128::from(columns);
    // A triangle has half of the square, with its diagonal or without.
    let listed = match banner.symmetry {
        Symmetry::General => all,
        Symmetry::Symmetric => all.saturating_add(rows.into()) / 2,
        Symmetry::Skew => all.saturating_sub(rows.into()) / 2,
    };
    let listed = u64::try_from(listed);
    let listed = listed.map_err(|_| format!("{rows} × {columns} values are too many"))?;
    Ok((rows, columns, listed))
}

/// A place in a matrix, from 0.
#[derive(Debug, Clone, Copy)]
struct Cell {
    row: usize,
    column: usize,
}

impl Cell {
    /// The first one of an array.
    fn first(symmetry: Symmetry) -> Self {
        Cell {
            row: usize::from(symmetry == Symmetry::Skew),
            column: 0,
        }
    }

    /// The next one of an array: down the column, then on to the next.
    fn below(self, symmetry: Symmetry, shape: Shape) -> Self {
        if self.row + 1 < shape.rows {
            return Cell {
                row: self.row + 1,
                ..self
            };
        }
        let column = self.column + 1;
        let row = match symmetry {
            Symmetry::General => 0,
            Symmetry::Symmetric => column,
            Symmetry::Skew => column + 1,
        };
        Cell { row, column }
    }
}

fn coordinates<R: Real>(line: &[u8], banner: Banner, shape: Shape) -> Fallible<(Cell, R)> {
    let (row, column, value) = if banner.pattern {
        let [row, column] = exactly(line, "row column")?;
        (row, column, R::from_f64(1.0))
    } else {
        let [row, column, field] = exactly(line, "row column value")?;
        (row, column, value(field)?)
    };
    let cell = Cell {
        row: index(row, "row", shape.rows)?,
        column: index(column, "column", shape.columns)?,
    };
    let (row, column) = (cell.row + 1, cell.column + 1);
    match banner.symmetry {
        Symmetry::Symmetric if row < column => Err(format!(
            "row {row}, column {column} is above the diagonal, which a symmetric matrix leaves out"
        )),
        Symmetry::Skew if row <= column => Err(format!(
            "row {row}, column {column} is not below the diagonal, as in a skew-symmetric matrix"
        )),
        _ => Ok((cell, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Rows<f32>> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        read_lines(Lines::new(Box::new(source), "m.mtx"))
    }

    fn dense(text: &str) -> Vec<Vec<f32>> {
        let rows = read(text).unwrap();
        let full = |row: crate::SparseRow<'_, f32>| {
            let mut out = vec![0.0; rows.columns()];
            row.iter().for_each(|(j, v)| out[j as usize] = v);
            out
        };
        rows.iter().map(full).collect()
    }

    #[test]
    fn coordinates_in_any_order() {
        let text = "%%MatrixMarket matrix coordinate real general\n% a comment\n\n 3 2  4\n\
            3 2 -1e2\r\n1\t1 .5\n% another\n3 2 1\n1 2 0\n\n";
        assert_eq!(dense(text), [[0.5, 0.0], [0.0, 0.0], [0.0, -99.0]]);
        let text = "%%matrixmarket MATRIX Coordinate Pattern General\n2 2 2\n2 1\n1 2";
        assert_eq!(dense(text), [[0.0, 1.0], [1.0, 0.0]]);
        let empty = "%%MatrixMarket matrix coordinate integer general\n2 1 0\n";
        assert_eq!(dense(empty), [[0.0], [0.0]]);
    }

    #[test]
    fn triangles_are_mirrored() {
        let body = "\n2 2 2\n2 1 3\n2 2 4\n";
        let text = format!("%%MatrixMarket matrix coordinate integer symmetric{body}");
        assert_eq!(dense(&text), [[0.0, 3.0], [3.0, 4.0]]);
        let text = "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 3\n";
        assert_eq!(dense(text), [[0.0, -3.0], [3.0, 0.0]]);
        let text = "%%MatrixMarket matrix array real symmetric\n3 3\n1\n2\n3\n4\n5\n6\n";
        let want = [[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]];
        assert_eq!(dense(text), want);
        let text = "%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n";
        let want = [[0.0, -1.0, -2.0], [1.0, 0.0, -3.0], [2.0, 3.0, 0.0]];
        assert_eq!(dense(text), want);
        let text = "%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6\n";
        assert_eq!(dense(text), [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]);
    }

    #[test]
    fn every_bad_line_says_what_is_wrong() {
        let real = "%%MatrixMarket matrix coordinate real general\n";
        let cases = [
            (
                "".to_owned(),
                "m.mtx:1: expected `%%MatrixMarket matrix …` and three more words, found ``",
            ),
            (
                "2 2 1\n1 1 1\n".into(),
                "m.mtx:1: expected `%%MatrixMarket matrix …` and three more words, found `2 2 1`",
            ),
            (
                real.replace("real", "complex"),
                "m.mtx:1: expected `real`, `integer` or, with coordinates, `pattern`, found `complex`",
            ),
            (
                real.replace("general", "hermitian"),
                "m.mtx:1: expected `general`, `symmetric` or, with numbers, `skew-symmetric`, found `hermitian`",
            ),
            (
                real.replace("coordinate", "sparse"),
                "m.mtx:1: expected `coordinate` or `array`, found `sparse`",
            ),
            (
                "%%MatrixMarket matrix array pattern general\n".into(),
                "m.mtx:1: expected `real`, `integer` or, with coordinates, `pattern`, found `pattern`",
            ),
            (
                "%%MatrixMarket vector coordinate real general\n".into(),
                "m.mtx:1: expected a `matrix`, found `vector`",
            ),
            (
                real.into(),
                "m.mtx:2: expected a line of sizes, found the end of the file",
            ),
            (
                format!("{real}2 2\n"),
                "m.mtx:2: expected 3 fields (rows columns entries), found 2",
            ),
            (
                format!("{real}2 -2 1\n"),
                "m.mtx:2: expected a whole number, found `-2`",
            ),
            (format!("{real}0 2 0\n"), "m.mtx:2: no rows"),
            (
                format!("{real}2 9999999999 1\n"),
                "m.mtx:2: 9999999999 columns are more than the 2147483647 there may be",
            ),
            (
                format!("{real}2 2 1\n1 1\n"),
                "m.mtx:3: expected 3 fields (row column value), found 2",
            ),
            (
                format!("{real}2 2 1\n0 1 1\n"),
                "m.mtx:3: row 0: rows and columns start at 1",
            ),
            (
                format!("{real}2 2 1\n1 3 1\n"),
                "m.mtx:3: column 3 of a matrix with 2 columns",
            ),
            (
                format!("{real}2 2 1\n1 1 nan\n"),
                "m.mtx:3: expected a number, found `nan`",
            ),
            (
                format!("{real}2 2 1\n1 1 1e39\n"),
                "m.mtx:3: `1e39` is too large for f32",
            ),
            (
                format!("{real}2 2 1\n1 1 1\n\n1 2 1\n"),
                "m.mtx:5: more than the 1 entries of the line of sizes",
            ),
            (
                format!("{real}2 2 3\n1 1 1\n"),
                "m.mtx:4: expected 3 entries, found 1; is the file cut short?",
            ),
            (
                format!("{real}2 2 2\n1 1 3e38\n1 1 3e38\n"),
                "m.mtx: the entries at row 0, column 0 (both from 0) add up to more than f32 holds",
            ),
            (
                "%%MatrixMarket matrix array real symmetric\n2 3\n".into(),
                "m.mtx:2: a symmetric matrix has as many rows as columns, found 2 and 3",
            ),
            (
                "%%MatrixMarket matrix array real general\n2 2\n1 2\n".into(),
                "m.mtx:3: expected 1 fields (value), found 2",
            ),
            (
                "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 1\n".into(),
                "m.mtx:3: row 1, column 2 is above the diagonal, which a symmetric matrix leaves out",
            ),
            (
                "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 2 1\n".into(),
                "m.mtx:3: row 2, column 2 is not below the diagonal, as in a skew-symmetric matrix",
            ),
        ];
        for (text, want) in cases {
            assert_eq!(read(&text).unwrap_err().to_string(), want, "{text}");
        }
        // So many values that no memory is taken for them ahead.
        let text = "%%MatrixMarket matrix array real general\n3000000 2000000000\n1\n";
        let want = "m.mtx:4: expected 6000000000000000 entries, found 1; is the file cut short?";
        assert_eq!(read(text).unwrap_err().to_string(), want);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn nothing_panics(
            words in "(coordinate|array) (real|pattern) (general|symmetric|skew-symmetric)",
            body in "[0-4 \n%-]{0,40}",
        ) {
            let _ = read(&format!("%%MatrixMarket matrix {words}\n{body}"));
        }
    }
}
