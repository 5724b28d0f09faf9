//! Files of what is known about distances: lines `left right same`,
//! `left right different`, `left right <= v`, `left right >= v` or
//! `left right = v`, where `=` may be left out; separated by tabs, commas or spaces.

use std::fmt::Display;
use std::path::Path;

use super::number::{NoNumber, number, shown};
use super::open::Lines;
use super::records::Fields;
use super::values::separate;
use super::{RowLookup, about};
use crate::ids::IdText;
use crate::{Error, Result};

/// What is known about the distance of two things.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Relation {
    /// They are alike.
    Same,
    /// They are not.
    Different,
    /// It is at most so much.
    AtMost(f64),
    /// It is at least so much.
    AtLeast(f64),
    /// It is so much.
    Equal(f64),
}

/// Two things and what is known about their distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constraint {
    /// One of them, by number.
    pub left: u32,
    /// The other.
    pub right: u32,
    /// What is known.
    pub relation: Relation,
}

/// Reads constraints; `-` is stdin. `find` gives the number of a name. A file
/// without constraints is an error.
pub fn read_constraints(
    path: impl AsRef<Path>,
    find: &mut dyn FnMut(&str) -> Result<u32>,
) -> Result<Vec<Constraint>> {
    read(Lines::open(path)?, find)
}

/// What a distance may be: the squares of larger ones could not be added up.
pub(super) const DISTANCES: std::ops::Range<f64> = 0.0..1e150;

const EXPECTED: &str = "`left right same`, `left right different`, `left right <= v`, \
    `left right >= v` or `left right v`";

/// Makes constraints of a list `(left, right, relation)`, whose ids are found in the
/// rows. By number they are found in `RowLookup::new(&RowIds::Positions, count)`.
///
/// ```
/// use rankfold::data::{Relation, RowIds, RowLookup, constraints};
///
/// let rows = RowLookup::new(&RowIds::Positions, 3);
/// let known = constraints([(0, 1, Relation::Same), (0, 2, Relation::AtLeast(1.5))], &rows)?;
/// assert_eq!(known[1].right, 2);
/// # Ok::<(), rankfold::Error>(())
/// ```
pub fn constraints<L: Display, R: Display>(
    list: impl IntoIterator<Item = (L, R, Relation)>,
    rows: &RowLookup<'_>,
) -> Result<Vec<Constraint>> {
    let mut text = IdText::default();
    let mut constraint = |(left, right, relation): (L, R, Relation)| {
        if let Relation::AtMost(v) | Relation::AtLeast(v) | Relation::Equal(v) = relation {
            in_range(v, format!("`{v}`"))?;
        }
        Ok(Constraint {
            left: rows.find(text.of(left))? as u32,
            right: rows.find(text.of(right))? as u32,
            relation,
        })
    };
    let list = list.into_iter().enumerate();
    list.map(|(i, given)| constraint(given).map_err(|e| about("constraint", i, e)))
        .collect()
}

fn read(mut lines: Lines, find: &mut dyn FnMut(&str) -> Result<u32>) -> Result<Vec<Constraint>> {
    let mut out = Vec::new();
    let mut fields = Fields::default();
    let mut first = true;
    while let Some(line) = lines.next_line()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        separate(&mut fields, line);
        let found: Vec<&[u8]> = fields.iter().map(<[u8]>::trim_ascii).collect();
        let is_header = std::mem::take(&mut first) && header(&found);
        if is_header {
            continue;
        }
        match constraint(&found, find) {
            Ok(constraint) => out.push(constraint),
            Err(error) => return Err(lines.error(error.message)),
        }
    }
    match out.is_empty() {
        true => Err(
            Error::input(format!("expected lines {EXPECTED}, found none")).in_file(lines.path()),
        ),
        false => Ok(out),
    }
}

/// Whether a first line names columns: `left,right,…`.
pub(super) fn header(fields: &[&[u8]]) -> bool {
    let names = [&b"left"[..], b"right"];
    let named = fields.iter().zip(names);
    fields.len() >= 3
        && named.fold(true, |all, (field, name)| {
            all && field.eq_ignore_ascii_case(name)
        })
        && !matches!(fields[2], b"same" | b"different" | b"<=" | b">=" | b"=")
        && number::<f64>(fields[2]).is_err()
}

fn constraint(fields: &[&[u8]], find: &mut dyn FnMut(&str) -> Result<u32>) -> Result<Constraint> {
    let [left, right, said @ ..] = fields else {
        return Err(Error::input(format!(
            "expected {EXPECTED}, found {} fields",
            fields.len()
        )));
    };
    let relation = relation(said)?;
    let mut named = |name: &[u8]| {
        let name = std::str::from_utf8(name).map_err(|_| Error::input("expected UTF-8 text"))?;
        find(name)
    };
    Ok(Constraint {
        left: named(left)?,
        right: named(right)?,
        relation,
    })
}

/// What a line says after the names of both rows.
pub(super) fn relation(said: &[&[u8]]) -> Result<Relation> {
    Ok(match said {
        [b"same"] => Relation::Same,
        [b"different"] => Relation::Different,
        [b"<=", v] => Relation::AtMost(distance(v)?),
        [b">=", v] => Relation::AtLeast(distance(v)?),
        [b"=", v] | [v] => Relation::Equal(distance(v)?),
        [word, _] => {
            return Err(Error::input(format!(
                "expected `<=`, `>=` or `=`, found {}",
                shown(word)
            )));
        }
        found => {
            return Err(Error::input(format!(
                "expected {EXPECTED}, found {} fields",
                found.len() + 2
            )));
        }
    })
}

fn distance(field: &[u8]) -> Result<f64> {
    let read = number::<f64>(field).map_err(|why| {
        Error::input(match why {
            NoNumber::Syntax => format!(
                "expected `same`, `different` or a distance, found {}",
                shown(field)
            ),
            NoNumber::TooLarge => format!("the distance {} is too large", shown(field)),
        })
    })?;
    in_range(read, shown(field))
}

fn in_range(distance: f64, shown: String) -> Result<f64> {
    match DISTANCES.contains(&distance) {
        true => Ok(distance),
        false => Err(Error::input(format!(
            "expected a distance from 0 to 1e150, found {shown}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::RowIds;

    fn read(text: &str) -> Result<Vec<Constraint>> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        let lines = Lines::new(Box::new(source), "c.txt");
        super::read(lines, &mut |name| {
            let known = ["a", "b c", "left"].iter().position(|known| *known == name);
            known
                .map(|i| i as u32)
                .ok_or_else(|| Error::input(format!("no row is called `{name}`")))
        })
    }

    #[test]
    fn all_relations_and_separators_are_read() {
        let text = "left,right,distance\na\tb c\tsame\r\n\na,left,different\na left <= 2\n\
            a left >= 0\nleft a = 1.5\na,\"b c\",3\n";
        let relations: Vec<_> = read(text)
            .unwrap()
            .into_iter()
            .map(|c| (c.left, c.right, c.relation))
            .collect();
        let want = [
            (0, 1, Relation::Same),
            (0, 2, Relation::Different),
            (0, 2, Relation::AtMost(2.0)),
            (0, 2, Relation::AtLeast(0.0)),
            (2, 0, Relation::Equal(1.5)),
            (0, 1, Relation::Equal(3.0)),
        ];
        assert_eq!(relations, want);
    }

    #[test]
    fn lists_are_checked_as_files_are() {
        let rows = RowLookup::new(&RowIds::Positions, 2);
        let make = |list: &[(u8, &'static str, Relation)]| {
            constraints(list.iter().copied(), &rows).map_err(|e| e.message)
        };
        assert_eq!(make(&[]), Ok(Vec::new()));
        let relations = [
            Relation::Same,
            Relation::Different,
            Relation::AtMost(2.0),
            Relation::AtLeast(0.0),
            Relation::Equal(1.5),
        ];
        for relation in relations {
            let want = Constraint {
                left: 1,
                right: 0,
                relation,
            };
            assert_eq!(make(&[(1, "0", relation)]), Ok(vec![want]));
        }
        let range = |found: &str| format!("expected a distance from 0 to 1e150, found `{found}`");
        for (given, message) in [
            ((0, "1", Relation::AtMost(f64::NAN)), range("NaN")),
            ((0, "1", Relation::AtLeast(-1.0)), range("-1")),
            ((0, "1", Relation::Equal(f64::INFINITY)), range("inf")),
            ((2, "1", Relation::Same), "no row is called `2`".into()),
            ((0, "x", Relation::Same), "no row is called `x`".into()),
        ] {
            let found = make(&[(0, "1", Relation::Same), given]).unwrap_err();
            assert_eq!(found, format!("constraint 1: {message}"));
        }
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        for (text, message) in [
            (
                "a left alike\n",
                "c.txt:1: expected `same`, `different` or a distance, found `alike`",
            ),
            (
                "a left < 2\n",
                "c.txt:1: expected `<=`, `>=` or `=`, found `<`",
            ),
            (
                "a left 1\na left <= nan\n",
                "c.txt:2: expected `same`, `different` or a distance, found `nan`",
            ),
            (
                "a left -1\n",
                "c.txt:1: expected a distance from 0 to 1e150, found `-1`",
            ),
            (
                "a left 1e999\n",
                "c.txt:1: the distance `1e999` is too large",
            ),
            ("a x same\n", "c.txt:1: no row is called `x`"),
            (
                "a left\n",
                "c.txt:1: expected `left right same`, `left right different`, \
                 `left right <= v`, `left right >= v` or `left right v`, found 2 fields",
            ),
            (
                "\n",
                "c.txt: expected lines `left right same`, `left right different`, \
                 `left right <= v`, `left right >= v` or `left right v`, found none",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }
}
