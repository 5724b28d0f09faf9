//! Files of pairs with values: lines `left right value`, separated by tabs, by
//! commas, or by spaces. A first line `left right value` names the columns.

use std::path::Path;

use super::RowLookup;
use super::number::{NoNumber, number, shown};
use super::open::Lines;
use super::records::Fields;
use crate::sparse::ValuedPair;
use crate::{Error, Result};

/// The columns, as a header calls them.
const COLUMNS: [&str; 3] = ["left", "right", "value"];

/// Reads pairs of rows and their values; `-` is stdin. A file without pairs is an
/// error.
pub fn read_values(
    path: impl AsRef<Path>,
    rows: &RowLookup<'_>,
    objects: &RowLookup<'_>,
) -> Result<Vec<ValuedPair>> {
    values(Lines::open(path)?, rows, objects)
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
        value: number::<f64>(value).map_err(|why| {
            Error::input(match why {
                NoNumber::Syntax => format!("expected a number as value, found {}", shown(value)),
                NoNumber::TooLarge => format!("the value {} is too large", shown(value)),
            })
        })?,
    })
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
