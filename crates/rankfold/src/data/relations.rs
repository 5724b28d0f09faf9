//! Triplet files: a line `query positive negative` of row names, separated by
//! tabs where the line has a tab, else by spaces.

use std::path::Path;

use super::RowLookup;
use super::open::Lines;
use crate::{Error, Result};

/// A streamed triplet file; empty lines are skipped.
pub struct Triplets {
    lines: Lines,
}

/// One line of a triplet file, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTriplet {
    /// The names of query, positive and negative row.
    pub names: [String; 3],
    /// The line, from 1.
    pub line: u64,
}

impl Triplets {
    /// Opens a triplet file; `-` is stdin.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Lines::open(path).map(Triplets::new)
    }

    /// Triplets from any lines.
    pub fn new(lines: Lines) -> Self {
        Triplets { lines }
    }

    /// The row numbers of query, positive and negative.
    pub fn resolve(&self, triplet: &NamedTriplet, rows: &RowLookup<'_>) -> Result<[usize; 3]> {
        let place = |error: Error| error.in_file(self.lines.path()).at_line(triplet.line);
        let [query, positive, negative] = triplet.names.each_ref().map(|name| rows.find(name));
        Ok([
            query.map_err(place)?,
            positive.map_err(place)?,
            negative.map_err(place)?,
        ])
    }

    fn read(&mut self) -> Result<Option<NamedTriplet>> {
        while let Some(line) = self.lines.next_line()? {
            let Ok(line) = std::str::from_utf8(line) else {
                return Err(self.lines.error("expected UTF-8 text"));
            };
            if line.trim().is_empty() {
                continue;
            }
            let fields: Vec<&str> = if line.contains('\t') {
                line.split('\t').collect()
            } else {
                line.split_whitespace().collect()
            };
            let Ok(names) = <[&str; 3]>::try_from(&fields[..]) else {
                let message = format!(
                    "expected 3 fields (query positive negative), found {}",
                    fields.len()
                );
                return Err(self.lines.error(message));
            };
            let names = names.map(str::to_owned);
            let line = self.lines.number();
            return Ok(Some(NamedTriplet { names, line }));
        }
        Ok(None)
    }
}

impl Iterator for Triplets {
    type Item = Result<NamedTriplet>;

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
    fn a_bad_line_says_what_is_wrong() {
        let error = triplets("1 2\n").next().unwrap().unwrap_err();
        let want = "t.tsv:1: expected 3 fields (query positive negative), found 2";
        assert_eq!(error.to_string(), want);
    }
}
