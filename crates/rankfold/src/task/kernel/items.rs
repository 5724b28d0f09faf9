//! Items of a kernel: rows that are their own features.

use crate::data::{Features, RowIds};
use crate::form::{Form, Side};
use crate::model::{Embedding, Model, Prepared};
use crate::{Error, Ids, Real, Result, Rows, SparseVec};

impl Model {
    /// The names of the items of a kernel.
    pub fn items(&self) -> Result<&Ids> {
        match (&self.card.kernel, &self.features) {
            (Some(_), Features::Named(items)) => Ok(items),
            _ => Err(Error::input(format!(
                "a model for {} has no items of its own",
                self.card.task
            ))),
        }
    }

    /// The items of a kernel as rows, with their names.
    pub fn item_rows<R: Real>(&self) -> Result<(RowIds, Prepared<R>)> {
        let items = self.items()?;
        let mut rows = Rows::new();
        let mut one = SparseVec::new();
        for i in 0..items.len() as u32 {
            one.clear();
            one.push(i, R::from_f64(1.0));
            rows.push(one.as_row());
        }
        rows.widen(items.len());
        let names = items.iter().map(str::to_owned).collect();
        let unknown_entries = 0;
        Ok((
            RowIds::Named(names),
            Prepared {
                rows,
                unknown_entries,
            },
        ))
    }

    /// Coordinates of the items of a kernel: those of a map as they stand, so that
    /// two maps of one history can be laid over each other, and others along their
    /// principal axes.
    pub fn item_coordinates<R: Real>(&self) -> Result<Embedding<R>> {
        let (_, prepared) = self.item_rows::<R>()?;
        let Form::Psd(form) = self.form.as_precision::<R>()? else {
            return Err(Error::input("a kernel that is not stored by a factor"));
        };
        if self.dissimilarities.is_none() {
            return self.embed(&prepared, Side::Left);
        }
        let (factor, rank) = (form.factor(), form.rank());
        let rows = (0..factor.rows()).flat_map(|i| factor.row(i)[..rank].iter().copied());
        Ok(Embedding {
            values: rows.collect(),
            rank,
        })
    }
}
