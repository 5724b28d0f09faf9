//! What the columns of some rows are called, and how rows of one file find the
//! columns of another.

use crate::{Error, Ids, Real, Result, Rows, SparseVec};

/// What the columns of some rows are called.
#[derive(Debug, Clone, PartialEq)]
pub enum Features {
    /// Columns are numbers; the user counts them from 1, as svmlight does.
    Numbered,
    /// Columns have names, and rows name only those they have.
    Named(Ids),
    /// Columns of a table: every file must have all of them.
    Columns(Ids),
}

impl Features {
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
            (Features::Numbered, Features::Numbered) => return Ok(None),
            (Features::Numbered, _) => {
                return Err(Error::input(
                    "the model's features are numbers, these rows call theirs by name",
                ));
            }
            (_, Features::Numbered) => {
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

#[cfg(test)]
mod tests {
    use super::*;

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
