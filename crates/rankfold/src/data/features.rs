//! What the columns of some rows are called, and how rows of one file find the
//! columns of another.

use super::Labelled;
use super::text::Vocabulary;
use crate::{Error, Ids, Real, Result, Rows, SparseVec};
use std::fmt::Display;

/// What the columns of some rows are called.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are one or two of them a model"
)]
pub enum Features {
    /// Columns are numbers; the user counts them from 1, as svmlight does.
    Numbered,
    /// Columns are the terms of a vocabulary; rows call them by number, and
    /// texts become rows.
    Terms(Vocabulary),
    /// Columns have names, and rows name only those they have.
    Named(Ids),
    /// Columns of a table: every file must have all of them.
    Columns(Ids),
}

impl Features {
    /// Columns of a table, which all later rows must have. Names must differ.
    pub fn columns<N: Display>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        distinct("column", names).map(Features::Columns)
    }

    /// Columns with names, of which later rows may lack some: those are zero. Names must
    /// differ.
    pub fn named<N: Display>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        distinct("feature", names).map(Features::Named)
    }

    /// What model files call this kind of features.
    pub fn kind(&self) -> &'static str {
        match self {
            Features::Numbered => "numbered",
            Features::Terms(_) => "terms",
            Features::Named(_) => "named",
            Features::Columns(_) => "columns",
        }
    }

    /// The vocabulary whose terms the columns are.
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        match self {
            Features::Terms(vocabulary) => Some(vocabulary),
            _ => None,
        }
    }

    /// The names of the columns, where they have some.
    pub(crate) fn names(&self) -> Option<Vec<&str>> {
        match self {
            Features::Numbered => None,
            Features::Terms(vocabulary) => Some(vocabulary.terms().collect()),
            Features::Named(ids) | Features::Columns(ids) => Some(ids.iter().collect()),
        }
    }

    /// Puts rows whose columns are called `theirs` into the columns of `self`.
    /// Entries that `self` has no column for are dropped, or keep a number
    /// beyond its columns where these are numbers.
    pub fn align<R: Real>(&self, rows: Rows<R>, theirs: &Features) -> Result<Rows<R>> {
        let Some((mine, names)) = self.matched(theirs)? else {
            return Ok(rows);
        };
        if mine == names {
            return Ok(rows);
        }
        let columns: Vec<Option<u32>> = names.iter().map(|name| mine.find(name)).collect();
        let mut out = Rows::new();
        out.widen(mine.len());
        for row in rows.iter() {
            let known = row
                .iter()
                .filter_map(|(j, v)| Some((columns[j as usize]?, v)));
            out.push(SparseVec::from_entries(known.collect()).as_row());
        }
        Ok(out)
    }

    /// The names of both where columns have names; an error where rows whose
    /// columns are called `theirs` do not go with those of `self`.
    pub(crate) fn matched<'a>(
        &'a self,
        theirs: &'a Features,
    ) -> Result<Option<(&'a Ids, &'a Ids)>> {
        let (mine, names) = match (self, theirs) {
            (Features::Terms(mine), Features::Terms(theirs)) if mine != theirs => {
                return Err(Error::input(
                    "these rows were made with another vocabulary than the model's",
                ));
            }
            (Features::Numbered | Features::Terms(_), Features::Numbered | Features::Terms(_)) => {
                return Ok(None);
            }
            (Features::Numbered | Features::Terms(_), _) => {
                return Err(Error::input(
                    "the model's features are numbers, these rows call theirs by name",
                ));
            }
            (_, Features::Numbered | Features::Terms(_)) => {
                return Err(Error::input(
                    "the model's features have names, these rows call theirs by number",
                ));
            }
            (
                Features::Named(mine) | Features::Columns(mine),
                Features::Named(names) | Features::Columns(names),
            ) => (mine, names),
        };
        if let (Features::Columns(_), Features::Columns(_)) = (self, theirs)
            && let Some(missing) = mine.iter().find(|name| names.find(name).is_none())
        {
            return Err(Error::input(format!(
                "the column `{missing}` that the model knows is missing"
            )));
        }
        Ok(Some((mine, names)))
    }
}

fn distinct<N: Display>(noun: &str, names: impl IntoIterator<Item = N>) -> Result<Ids> {
    let names = Ids::distinct(names)
        .map_err(|name| Error::input(format!("{noun} `{name}` stands twice")))?;
    match names.find("") {
        Some(i) => Err(Error::input(format!("{noun} {} has no name", i + 1))),
        None => Ok(names),
    }
}

impl<R: Real> Labelled<R> {
    /// The same rows, whose columns have these names: at least one for each.
    pub fn with_features(mut self, features: Features) -> Result<Self> {
        match features {
            Features::Terms(vocabulary) => return self.with_vocabulary(vocabulary),
            Features::Numbered => {}
            Features::Named(ref names) | Features::Columns(ref names) => {
                check_names(&self.rows, names)?;
                self.rows.widen(names.len());
            }
        }
        self.features = features;
        Ok(self)
    }

    /// The same rows, whose columns are the terms of this vocabulary: as many,
    /// and a model that learns from them keeps it.
    pub fn with_vocabulary(mut self, vocabulary: Vocabulary) -> Result<Self> {
        let terms = vocabulary.len();
        if matches!(self.features, Features::Named(_) | Features::Columns(_)) {
            return Err(Error::input(
                "these rows call their features by name, expected the numbers of terms",
            ));
        }
        let beyond = |row: crate::SparseRow<'_, R>| {
            let last = row.indices.last().map(|&j| j as usize);
            last.filter(|&j| j >= terms)
        };
        let found = (0..self.rows.len()).find_map(|i| Some((i, beyond(self.rows.row(i))?)));
        if let Some((i, column)) = found {
            return Err(Error::input(format!(
                "row `{}` has feature {}, the vocabulary has {terms} terms",
                self.ids.name(i),
                column + 1
            )));
        }
        if self.rows.columns() > terms {
            return Err(Error::input(format!(
                "the rows have {} columns, the vocabulary has {terms} terms",
                self.rows.columns()
            )));
        }
        self.rows.widen(terms);
        self.features = Features::Terms(vocabulary);
        Ok(self)
    }
}

/// An error where columns are left without a name.
pub(super) fn check_names<R: Real>(rows: &Rows<R>, names: &Ids) -> Result<()> {
    let (columns, found) = (rows.columns(), names.len());
    match found < columns {
        true => Err(Error::input(format!(
            "expected {columns} names of features, one a column, found {found}"
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::text::FitOptions;

    #[test]
    fn rows_get_the_columns_of_a_vocabulary() {
        let fit = |text| {
            let options = FitOptions {
                min_df: 1,
                ..FitOptions::default()
            };
            Vocabulary::fit([(text, None), ("sour lime", None)], options).unwrap()
        };
        let rows = |width: usize| {
            let mut rows = Rows::<f32>::new();
            rows.push(SparseVec::new().as_row());
            rows.push(SparseVec::from_dense(&vec![1.0; width]).as_row());
            Labelled::new(rows)
        };
        let (four, other) = (fit("apple pie"), fit("lemon pie"));
        let data = rows(2).with_vocabulary(four.clone()).unwrap();
        assert_eq!(data.rows.columns(), 4);
        assert_eq!(data.features.vocabulary(), Some(&four));
        let error = rows(5).with_vocabulary(four.clone()).unwrap_err();
        let want = "row `1` has feature 5, the vocabulary has 4 terms";
        assert_eq!(error.message, want);
        let mut wide = rows(2);
        wide.rows.widen(5);
        let error = wide.with_vocabulary(four.clone()).unwrap_err();
        let want = "the rows have 5 columns, the vocabulary has 4 terms";
        assert_eq!(error.message, want);
        let mut named = rows(2);
        named.features = columns(&["a", "b"]);
        let error = named.with_vocabulary(four.clone()).unwrap_err();
        let want = "these rows call their features by name, expected the numbers of terms";
        assert_eq!(error.message, want);

        let (terms, others) = (Features::Terms(four), Features::Terms(other));
        for theirs in [&Features::Numbered, &terms] {
            assert_eq!(terms.align(data.rows.clone(), theirs).unwrap(), data.rows);
        }
        let error = terms.align(data.rows.clone(), &others).unwrap_err();
        let want = "these rows were made with another vocabulary than the model's";
        assert_eq!(error.message, want);
        assert!(terms.align(data.rows, &columns(&["a"])).is_err());
    }

    fn columns(names: &[&str]) -> Features {
        Features::Columns(names.iter().collect())
    }

    #[test]
    fn columns_find_each_other_by_name() {
        let mut rows = Rows::<f64>::new();
        rows.push(SparseVec::from_dense(&[1.0, 2.0, 3.0]).as_row());
        let aligned = columns(&["c", "a"])
            .align(rows.clone(), &columns(&["a", "b", "c"]))
            .unwrap();
        assert_eq!(aligned.row(0).indices, [0, 1]);
        assert_eq!(aligned.row(0).values, [3.0, 1.0]);
        let error = columns(&["a", "d"]).align(rows.clone(), &columns(&["a", "b", "c"]));
        assert_eq!(
            error.unwrap_err().message,
            "the column `d` that the model knows is missing"
        );
        assert!(
            Features::Numbered
                .align(rows, &columns(&["a", "b", "c"]))
                .is_err()
        );
    }
}
