//! Files of pairs with values: lines `left right value`, separated by tabs, by
//! commas, or by spaces. A first line `left right value` names the columns.

use std::fmt::Display;
use std::path::Path;

use super::number::{NoNumber, number, shown};
use super::open::Lines;
use super::records::Fields;
use super::{LARGEST_RATING, RowLookup, about};
use crate::ids::IdText;
use crate::sparse::ValuedPair;
use crate::{Error, Result};

/// The columns, as a header calls them.
const COLUMNS: [&str; 3] = ["left", "right", "value"];

/// The largest value of a pair, by size: squares of it, and sums of those, are finite
/// in double precision, and itself in single.
pub const LARGEST_VALUE: f64 = LARGEST_RATING;

/// Reads pairs of rows and their values; `-` is stdin. A file without pairs is an
/// error.
pub fn read_values(
    path: impl AsRef<Path>,
    rows: &RowLookup<'_>,
    objects: &RowLookup<'_>,
) -> Result<Vec<ValuedPair>> {
    values(Lines::open(path)?, rows, objects)
}

/// Makes pairs of a list `(left, right, value)`, whose ids are found in the rows and
/// the objects. By number they are found in `RowLookup::new(&RowIds::Positions, count)`.
///
/// ```
/// use rankfold::data::{Labelled, valued_pairs};
/// use rankfold::Rows;
///
/// let data = Labelled::new(Rows::from_dense([[1.0], [2.0]])?).with_ids(["ann", "bob"])?;
/// let pairs = valued_pairs([("bob", "ann", 0.5)], &data.lookup(), &data.lookup())?;
/// assert_eq!((pairs[0].left, pairs[0].right), (1, 0));
/// # Ok::<(), rankfold::Error>(())
/// ```
pub fn valued_pairs<L: Display, R: Display>(
    list: impl IntoIterator<Item = (L, R, f64)>,
    rows: &RowLookup<'_>,
    objects: &RowLookup<'_>,
) -> Result<Vec<ValuedPair>> {
    let mut text = IdText::default();
    let mut pair = |(left, right, value): (L, R, f64)| {
        if !(value.abs() <= LARGEST_VALUE) {
            let message = match value.is_finite() {
                true => format!("the value `{value:e}` is too large"),
                false => format!("expected a number as value, found `{value}`"),
            };
            return Err(Error::input(message));
        }
        Ok(ValuedPair {
            left: rows.find(text.of(left))? as u32,
            right: objects.find(text.of(right))? as u32,
            value,
        })
    };
    let list = list.into_iter().enumerate();
    list.map(|(i, given)| pair(given).map_err(|e| about("pair", i, e)))
        .collect()
}

fn values(
    mut lines: Lines,
    rows: &RowLookup<'_>,
    objects: &RowLookup<'_>,
) -> Result<Vec<ValuedPair>> {
    let mut out = Vec::new();
    let mut fields = Fields::default();
    let mut first = true;
    while let Some(line) = lines.next_line()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        separate(&mut fields, line);
        let read = match &fields.iter().map(<[u8]>::trim_ascii).collect::<Vec<_>>()[..] {
            [left, right, value] => {
                let header = [left, right, value]
                    .iter()
                    .zip(COLUMNS)
                    .all(|(field, name)| field.eq_ignore_ascii_case(name.as_bytes()));
                if first && header {
                    first = false;
                    continue;
                }
                pair([left, right, value], rows, objects)
            }
            found => Err(Error::input(format!(
                "expected 3 fields (left right value), found {}",
                found.len()
            ))),
        };
        first = false;
        match read {
            Ok(pair) => out.push(pair),
            Err(error) => return Err(lines.error(error.message)),
        }
    }
    match out.is_empty() {
        true => {
            Err(Error::input("expected lines `left right value`, found none").in_file(lines.path()))
        }
        false => Ok(out),
    }
}

pub(super) fn separate(fields: &mut Fields, line: &[u8]) {
    match [b'\t', b','].into_iter().find(|d| line.contains(d)) {
        Some(delimiter) => fields.split(line, delimiter),
        None => {
            let words = line.split(u8::is_ascii_whitespace);
            fields.set(words.filter(|word| !word.is_empty()));
        }
    }
}

fn pair(
    [left, right, value]: [&[u8]; 3],
    rows: &RowLookup<'_>,
    objects: &RowLookup<'_>,
) -> Result<ValuedPair> {
    let find = |name: &[u8], lookup: &RowLookup<'_>| {
        let name = std::str::from_utf8(name).map_err(|_| Error::input("expected UTF-8 text"))?;
        lookup.find(name).map(|row| row as u32)
    };
    Ok(ValuedPair {
        left: find(left, rows)?,
        right: find(right, objects)?,
        value: value_of(value)?,
    })
}

/// The value of a pair.
pub(super) fn value_of(value: &[u8]) -> Result<f64> {
    match number::<f64>(value) {
        Ok(found) if found.abs() <= LARGEST_VALUE => Ok(found),
        Err(NoNumber::Syntax) => {
            let message = format!("expected a number as value, found {}", shown(value));
            Err(Error::input(message))
        }
        Ok(_) | Err(NoNumber::TooLarge) => {
            let message = format!("the value {} is too large", shown(value));
            Err(Error::input(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::RowIds;

    fn read(text: &str) -> Result<Vec<ValuedPair>> {
        let ids = RowIds::Named(["a b", "c", "d,e"].map(String::from).into());
        let rows = RowLookup::new(&ids, 3);
        let objects = RowLookup::new(&RowIds::Positions, 4).of_objects();
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        values(Lines::new(Box::new(source), "v.csv"), &rows, &objects)
    }

    #[test]
    fn all_separators_and_a_header_are_read() {
        let want = |left, right, value| ValuedPair { left, right, value };
        let text = "Left,right,value\n\"d,e\",3,-1.5\n\na b\t0\t2e3\r\nc 1 7\n";
        let got = read(text).unwrap();
        let wanted = [want(2, 3, -1.5), want(0, 0, 2000.0), want(1, 1, 7.0)];
        assert_eq!(got, wanted);
    }

    #[test]
    fn lists_are_checked_as_files_are() {
        let ids = RowIds::Named(["a", "b", "b"].map(String::from).into());
        let rows = RowLookup::new(&ids, 3);
        let objects = RowLookup::new(&RowIds::Positions, 2).of_objects();
        let pairs = |list: &[(&'static str, u8, f64)]| {
            valued_pairs(list.iter().copied(), &rows, &objects).map_err(|e| e.message)
        };
        assert_eq!(pairs(&[]), Ok(Vec::new()));
        let want = ValuedPair {
            left: 0,
            right: 1,
            value: -2.5,
        };
        assert_eq!(pairs(&[("a", 1, -2.5)]), Ok(vec![want]));
        for (list, message) in [
            (
                ("a", 1, f64::NAN),
                "expected a number as value, found `NaN`",
            ),
            (
                ("a", 1, f64::INFINITY),
                "expected a number as value, found `inf`",
            ),
            (("c", 1, 0.0), "no row is called `c`"),
            (("b", 1, 0.0), "more than one row is called `b`"),
            (("a", 2, 0.0), "no object is called `2`"),
        ] {
            let found = pairs(&[("a", 0, 1.0), list]).unwrap_err();
            assert_eq!(found, format!("pair 1: {message}"));
        }
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        for (text, message) in [
            ("c 1 x\n", "v.csv:1: expected a number as value, found `x`"),
            (
                "c 1 nan\n",
                "v.csv:1: expected a number as value, found `nan`",
            ),
            (
                "c 1 inf\n",
                "v.csv:1: expected a number as value, found `inf`",
            ),
            ("c 1 1e999\n", "v.csv:1: the value `1e999` is too large"),
            ("c 1 -1e31\n", "v.csv:1: the value `-1e31` is too large"),
            (
                "c 1\n",
                "v.csv:1: expected 3 fields (left right value), found 2",
            ),
            (
                "c,1,2\nc,1,2,3\n",
                "v.csv:2: expected 3 fields (left right value), found 4",
            ),
            ("x 1 2\n", "v.csv:1: no row is called `x`"),
            ("c 4 2\n", "v.csv:1: no object is called `4`"),
            ("", "v.csv: expected lines `left right value`, found none"),
            (
                "left,right,value\n",
                "v.csv: expected lines `left right value`, found none",
            ),
            (
                "c 1 2\nleft right value\n",
                "v.csv:2: no row is called `left`",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }
}
