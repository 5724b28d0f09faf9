//! Files of relations between rows: a line names some rows, separated by tabs
//! where the line has a tab, else by spaces.

use std::fmt::Display;
use std::path::Path;

use super::open::Lines;
use super::{RowLookup, about};
use crate::ids::IdText;
use crate::sample::Triplet;
use crate::{Error, Result};

/// Lines that name `N` rows each, streamed; empty lines are skipped.
pub struct Relations<const N: usize> {
    lines: Lines,
    /// What the fields are called in errors.
    fields: [&'static str; N],
    /// A line that was looked at already.
    ahead: Option<NamedRows<N>>,
}

/// Lines `query positive negative`.
pub type Triplets = Relations<3>;

/// Lines `left right`.
pub type Pairs = Relations<2>;

/// One line of a file of relations, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRows<const N: usize> {
    /// The names of the rows.
    pub names: [String; N],
    /// The line, from 1.
    pub line: u64,
}

/// One line of a triplet file: the names of query, positive and negative row.
pub type NamedTriplet = NamedRows<3>;

impl Triplets {
    /// Opens a triplet file; `-` is stdin.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Lines::open(path).map(Triplets::new)
    }

    /// Triplets from any lines.
    pub fn new(lines: Lines) -> Self {
        Relations {
            lines,
            fields: ["query", "positive", "negative"],
            ahead: None,
        }
    }
}

impl Pairs {
    /// Opens a file of pairs; `-` is stdin.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Lines::open(path).map(Pairs::new)
    }

    /// Pairs from any lines.
    pub fn new(lines: Lines) -> Self {
        Relations {
            lines,
            fields: ["left", "right"],
            ahead: None,
        }
    }

    /// Opens a file of rows and labels.
    pub fn of_labels(path: impl AsRef<Path>) -> Result<Self> {
        let fields = ["row", "label"];
        Lines::open(path).map(|lines| Relations {
            lines,
            fields,
            ahead: None,
        })
    }
}

/// Makes triplets of a list `(query, positive, negative)`, whose ids are found in the
/// rows and the objects. By number they are found in
/// `RowLookup::new(&RowIds::Positions, count)`.
///
/// ```
/// use rankfold::data::{RowIds, RowLookup, triplets};
///
/// let rows = RowLookup::new(&RowIds::Positions, 4);
/// let list = triplets([(0, 1, 3), (2, 3, 0)], &rows, &rows)?;
/// assert_eq!((list[1].query, list[1].positive, list[1].negative), (2, 3, 0));
/// # Ok::<(), rankfold::Error>(())
/// ```
pub fn triplets<Q: Display, P: Display, N: Display>(
    list: impl IntoIterator<Item = (Q, P, N)>,
    rows: &RowLookup<'_>,
    objects: &RowLookup<'_>,
) -> Result<Vec<Triplet>> {
    let mut text = IdText::default();
    let mut triplet = |(query, positive, negative): (Q, P, N)| -> Result<Triplet> {
        Ok(Triplet {
            query: rows.find(text.of(query))? as u32,
            positive: objects.find(text.of(positive))? as u32,
            negative: objects.find(text.of(negative))? as u32,
        })
    };
    let list = list.into_iter().enumerate();
    list.map(|(i, given)| triplet(given).map_err(|e| about("triplet", i, e)))
        .collect()
}

/// Pairs or triplets, whichever the first line of a file is.
pub enum PairsOrTriplets {
    /// Lines `left right`; a file without lines is one of these.
    Pairs(Pairs),
    /// Lines `query positive negative`.
    Triplets(Triplets),
}

impl PairsOrTriplets {
    /// Opens a file and looks at its first line; `-` is stdin.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let mut lines = Lines::open(path)?;
        let Some(fields) = next_fields(&mut lines)? else {
            return Ok(PairsOrTriplets::Pairs(Pairs::new(lines)));
        };
        let line = lines.number();
        match fields.len() {
            2 => {
                let mut pairs = Pairs::new(lines);
                pairs.ahead = named(fields, line);
                Ok(PairsOrTriplets::Pairs(pairs))
            }
            3 => {
                let mut triplets = Triplets::new(lines);
                triplets.ahead = named(fields, line);
                Ok(PairsOrTriplets::Triplets(triplets))
            }
            found => Err(lines.error(format!(
                "expected 2 fields (left right) or 3 (query positive negative), found {found}"
            ))),
        }
    }
}

/// The fields of the next line that has some.
fn next_fields(lines: &mut Lines) -> Result<Option<Vec<String>>> {
    while let Some(line) = lines.next_line()? {
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(lines.error("expected UTF-8 text"));
        };
        if line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = if line.contains('\t') {
            line.split('\t').collect()
        } else {
            line.split_whitespace().collect()
        };
        return Ok(Some(fields.iter().map(|f| f.trim().to_owned()).collect()));
    }
    Ok(None)
}

fn named<const N: usize>(fields: Vec<String>, line: u64) -> Option<NamedRows<N>> {
    let names = fields.try_into().ok()?;
    Some(NamedRows { names, line })
}

impl<const N: usize> Relations<N> {
    /// The row numbers of a line.
    pub fn resolve(&self, named: &NamedRows<N>, rows: &RowLookup<'_>) -> Result<[usize; N]> {
        self.resolve_between(named, rows, rows)
    }

    /// The numbers of a line whose first name is that of a row, and all others
    /// those of objects.
    pub fn resolve_between(
        &self,
        named: &NamedRows<N>,
        rows: &RowLookup<'_>,
        objects: &RowLookup<'_>,
    ) -> Result<[usize; N]> {
        let mut out = [0; N];
        let lookups = std::iter::once(rows).chain(std::iter::repeat(objects));
        for ((row, name), lookup) in out.iter_mut().zip(&named.names).zip(lookups) {
            *row = lookup.find(name).map_err(|e| self.place(named, e))?;
        }
        Ok(out)
    }

    /// The row numbers of a line, `None` where no row has the name. A name
    /// that more than one row has is an error.
    pub fn resolve_known(
        &self,
        named: &NamedRows<N>,
        rows: &RowLookup<'_>,
    ) -> Result<[Option<usize>; N]> {
        self.resolve_known_between(named, rows, rows)
    }

    /// The same where the first name is that of a row, and all others those of
    /// objects.
    pub fn resolve_known_between(
        &self,
        named: &NamedRows<N>,
        rows: &RowLookup<'_>,
        objects: &RowLookup<'_>,
    ) -> Result<[Option<usize>; N]> {
        let mut out = [None; N];
        let lookups = std::iter::once(rows).chain(std::iter::repeat(objects));
        for ((row, name), lookup) in out.iter_mut().zip(&named.names).zip(lookups) {
            *row = lookup.find_any(name).map_err(|e| self.place(named, e))?;
        }
        Ok(out)
    }

    fn place(&self, named: &NamedRows<N>, error: Error) -> Error {
        error.in_file(self.lines.path()).at_line(named.line)
    }

    fn read(&mut self) -> Result<Option<NamedRows<N>>> {
        if let Some(first) = self.ahead.take() {
            return Ok(Some(first));
        }
        let Some(fields) = next_fields(&mut self.lines)? else {
            return Ok(None);
        };
        let found = fields.len();
        let line = named(fields, self.lines.number());
        line.map(Some).ok_or_else(|| {
            let expected = self.fields.join(" ");
            self.lines
                .error(format!("expected {N} fields ({expected}), found {found}"))
        })
    }
}

impl<const N: usize> Iterator for Relations<N> {
    type Item = Result<NamedRows<N>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::RowIds;

    fn triplets(text: &str) -> Triplets {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        Triplets::new(Lines::new(Box::new(source), "t.tsv"))
    }

    #[test]
    fn rows_are_found_and_unknown_ones_named() {
        let ids = RowIds::Named(["a b", "c", "d"].map(String::from).into());
        let lookup = RowLookup::new(&ids, 3);
        let mut source = triplets("c\ta b\td\r\n\nd c  d\nd c x\n");
        let first = source.next().unwrap().unwrap();
        assert_eq!(source.resolve(&first, &lookup), Ok([1, 0, 2]));
        let second = source.next().unwrap().unwrap();
        assert_eq!(source.resolve(&second, &lookup), Ok([2, 1, 2]));
        let third = source.next().unwrap().unwrap();
        let error = source.resolve(&third, &lookup).unwrap_err();
        assert_eq!(error.to_string(), "t.tsv:4: no row is called `x`");
        assert!(source.next().is_none());
    }

    #[test]
    fn lists_are_checked_as_files_are() {
        let ids = RowIds::Named(["a", "b"].map(String::from).into());
        let rows = RowLookup::new(&ids, 2);
        let objects = RowLookup::new(&RowIds::Positions, 3).of_objects();
        let none: [(&str, u8, u8); 0] = [];
        assert_eq!(super::triplets(none, &rows, &objects), Ok(Vec::new()));
        let want = Triplet {
            query: 1,
            positive: 2,
            negative: 0,
        };
        let list = super::triplets([("b", 2, 0)], &rows, &objects);
        assert_eq!(list, Ok(vec![want]));
        for (list, message) in [
            (("x", 0, 1), "triplet 0: no row is called `x`"),
            (("a", 3, 1), "triplet 0: no object is called `3`"),
            (("a", 0, -1), "triplet 0: no object is called `-1`"),
        ] {
            let error = super::triplets([list], &rows, &objects).unwrap_err();
            assert_eq!(error.message, message);
        }
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        let error = triplets("1 2\n").next().unwrap().unwrap_err();
        let want = "t.tsv:1: expected 3 fields (query positive negative), found 2";
        assert_eq!(error.to_string(), want);
    }

    #[test]
    fn unknown_rows_of_a_pair_may_be_asked_for() {
        let ids = RowIds::Named(["a", "b", "b"].map(String::from).into());
        let lookup = RowLookup::new(&ids, 3);
        let source = std::io::Cursor::new(b"x a\na b\na\n".to_vec());
        let mut pairs = Pairs::new(Lines::new(Box::new(source), "p.txt"));
        let pair = pairs.next().unwrap().unwrap();
        assert_eq!(pairs.resolve_known(&pair, &lookup), Ok([None, Some(0)]));
        let pair = pairs.next().unwrap().unwrap();
        let error = pairs.resolve_known(&pair, &lookup).unwrap_err();
        assert_eq!(
            error.to_string(),
            "p.txt:2: more than one row is called `b`"
        );
        let error = pairs.next().unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "p.txt:3: expected 2 fields (left right), found 1"
        );
    }
}
