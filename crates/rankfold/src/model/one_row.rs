//! One row at a time, where there is no file that it comes from.

use super::{Model, Prepared};
use crate::data::{Features, StreamRow};
use crate::form::Side;
use crate::{Error, Real, Result, Rows, SparseRow, SparseVec};

impl Model {
    /// A row of a stream as the model sees it, in rows of their own. Features that it does not
    /// know are left out and counted. The id of a row is an error: there are no rows to look in.
    pub fn prepare_row<R: Real>(&self, side: Side, row: StreamRow<'_, R>) -> Result<Prepared<R>> {
        let StreamRow::Features { known, new } = row else {
            return Err(Error::input("expected features by value, found an id"));
        };
        let raw = SparseVec::from_entries(known.to_vec());
        let mut prepared = self.prepare_raw(side, raw.as_row());
        prepared.unknown_entries += new.len();
        Ok(prepared)
    }

    /// A text as the model sees it; an error where the model has no vocabulary, or none of its
    /// words is in there.
    pub fn prepare_text<R: Real>(&self, text: &str) -> Result<Prepared<R>> {
        let row = self.text_row(text)?;
        Ok(self.prepare_raw(Side::Left, row.as_row()))
    }

    /// The words of a text as features, before they are weighted.
    pub fn text_row<R: Real>(&self, text: &str) -> Result<SparseVec<R>> {
        let Some(vocabulary) = self.vocabulary() else {
            return Err(Error::input(
                "the model has no vocabulary to read texts with: train it with --vocabulary",
            ));
        };
        let row = vocabulary.row(text);
        match row.as_row().is_empty() {
            true => Err(Error::input(format!(
                "no word of `{text}` is in the vocabulary of the model"
            ))),
            false => Ok(row),
        }
    }

    fn prepare_raw<R: Real>(&self, side: Side, raw: SparseRow<'_, R>) -> Prepared<R> {
        let columns = self.columns_of(side);
        let unknown = raw.iter().filter(|&(j, _)| j as usize >= columns).count();
        let (mut out, mut wide) = (SparseVec::new(), Vec::new());
        self.side(side)
            .1
            .apply_row(&mut out, raw, columns, &mut wide);
        let mut rows = Rows::new();
        rows.push(out.as_row());
        rows.widen(columns);
        Prepared {
            rows,
            unknown_entries: unknown,
        }
    }

    /// What a side calls the feature of a column, as rows by value name it.
    pub fn feature_name(&self, side: Side, column: u32) -> String {
        match self.side(side).0 {
            Features::Named(ids) | Features::Columns(ids) if (column as usize) < ids.len() => {
                ids.get(column).to_owned()
            }
            Features::Terms(vocabulary) => match vocabulary.term(column) {
                Some(term) => term.to_owned(),
                None => (u64::from(column) + 1).to_string(),
            },
            _ => (u64::from(column) + 1).to_string(),
        }
    }
}
