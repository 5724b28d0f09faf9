//! Finds rows by the user's names.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::{Features, Labelled, Labels, RowIds};
use crate::{Error, Result, Rows};

/// The names of rows that are read one after the other. Rows without one are called by
/// their positions, where any has a name.
#[derive(Default)]
pub(super) struct NamesRead(Vec<String>);

impl NamesRead {
    /// Names row `i`, which comes behind all that have a name.
    pub fn put(&mut self, i: usize, name: impl Into<String>) {
        self.0.extend((self.0.len()..i).map(|i| i.to_string()));
        self.0.push(name.into());
    }

    /// What was read: rows with their labels and these names.
    pub fn rows<R: crate::Real>(
        mut self,
        mut rows: Rows<R>,
        labels: Labels,
        features: Features,
    ) -> Labelled<R> {
        rows.shrink();
        let ids = match self.0.is_empty() {
            true => RowIds::Positions,
            false => {
                let rest = (self.0.len()..rows.len()).map(|i| i.to_string());
                self.0.extend(rest);
                RowIds::Named(self.0)
            }
        };
        Labelled {
            rows,
            labels,
            ids,
            features,
        }
    }
}

impl RowIds {
    /// The name of row `i`.
    pub fn name(&self, i: usize) -> Cow<'_, str> {
        match self {
            RowIds::Positions => i.to_string().into(),
            RowIds::Named(names) => names[i].as_str().into(),
        }
    }
}

impl<R: crate::Real> Labelled<R> {
    /// A way to find rows by name.
    pub fn lookup(&self) -> RowLookup<'_> {
        RowLookup::new(&self.ids, self.rows.len())
    }
}

/// Rows by name, built once.
#[derive(Debug)]
pub struct RowLookup<'a> {
    /// `None` where rows are named by their positions; in it, `None` where a
    /// name stands twice.
    names: Option<HashMap<&'a str, Option<usize>>>,
    rows: usize,
    /// What errors call a row.
    noun: &'static str,
}

impl<'a> RowLookup<'a> {
    /// For so many rows with these names.
    pub fn new(ids: &'a RowIds, rows: usize) -> Self {
        let noun = "row";
        let RowIds::Named(named) = ids else {
            let names = None;
            return RowLookup { names, rows, noun };
        };
        let mut names = HashMap::with_capacity(named.len());
        for (i, name) in named.iter().enumerate() {
            let known = names.entry(name.as_str());
            known.and_modify(|row| *row = None).or_insert(Some(i));
        }
        RowLookup {
            names: Some(names),
            rows,
            noun,
        }
    }

    /// The same rows, called objects in errors.
    pub fn of_objects(self) -> Self {
        RowLookup {
            noun: "object",
            ..self
        }
    }

    /// The same rows, called items in errors.
    pub fn of_items(self) -> Self {
        RowLookup {
            noun: "item",
            ..self
        }
    }

    /// The row with this name.
    pub fn find(&self, name: &str) -> Result<usize> {
        let found = self.find_any(name)?;
        let noun = self.noun;
        found.ok_or_else(|| Error::input(format!("no {noun} is called `{name}`")))
    }

    /// The row whose name is this number.
    pub fn find_number(&self, number: u64) -> Result<usize> {
        match usize::try_from(number) {
            Ok(row) if self.names.is_none() && row < self.rows => Ok(row),
            _ => self.find(&number.to_string()),
        }
    }

    /// The row with this name, if there is one; more than one is an error.
    pub fn find_any(&self, name: &str) -> Result<Option<usize>> {
        let found = match &self.names {
            Some(names) => names.get(name).copied(),
            None => name.parse().ok().filter(|&i| i < self.rows).map(Some),
        };
        match found {
            Some(None) => Err(Error::input(format!(
                "more than one {} is called `{name}`",
                self.noun
            ))),
            found => Ok(found.flatten()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_position_or_name() {
        let lookup = RowLookup::new(&RowIds::Positions, 3);
        assert_eq!(lookup.find("2"), Ok(2));
        assert_eq!(
            lookup.find("3").unwrap_err().message,
            "no row is called `3`"
        );
        assert_eq!(lookup.find_number(2), Ok(2));
        assert_eq!(lookup.find_number(3), lookup.find("3").map(|_| 0));
        let objects = RowLookup::new(&RowIds::Positions, 3).of_objects();
        let message = objects.find("3").unwrap_err().message;
        assert_eq!(message, "no object is called `3`");
        let ids = RowIds::Named(["a", "b", "7"].map(String::from).into());
        assert_eq!(RowLookup::new(&ids, 3).find_number(7), Ok(2));
        assert!(RowLookup::new(&ids, 3).find_number(1).is_err());
        let ids = RowIds::Named(["a", "b", "a"].map(String::from).into());
        let lookup = RowLookup::new(&ids, 3);
        assert_eq!(lookup.find("b"), Ok(1));
        let message = lookup.find("a").unwrap_err().message;
        assert_eq!(message, "more than one row is called `a`");
        assert_eq!(lookup.find_any("a").unwrap_err().message, message);
        assert_eq!(lookup.find_any("c"), Ok(None));
        assert_eq!(
            lookup.find("0").unwrap_err().message,
            "no row is called `0`"
        );
        assert_eq!(
            (RowIds::Positions.name(7), ids.name(1)),
            ("7".into(), "b".into())
        );
    }
}
