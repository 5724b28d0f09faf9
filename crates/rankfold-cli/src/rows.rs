//! Rows of a data file as a model sees them.

use std::path::Path;

use rankfold::data::{Labelled, RowIds, RowLookup, read_labelled, read_labels};
use rankfold::model::Prepared;
use rankfold::{Model, Real, Result};

use crate::output::Output;

/// Reads rows, with the labels of another file instead of their own where one
/// is named.
pub fn read_rows<R: Real>(path: &Path, labels: Option<&Path>) -> Result<Labelled<R>> {
    let data = read_labelled::<R>(path)?;
    match labels {
        None => Ok(data),
        Some(file) => {
            let labels = read_labels(file)?;
            data.with_labels(labels).map_err(|e| e.in_file(file))
        }
    }
}

/// Prepared rows and their names.
pub struct NamedRows<R> {
    pub ids: RowIds,
    pub prepared: Prepared<R>,
}

impl<R: Real> NamedRows<R> {
    /// Reads a file in the model's features, with a note on what it does not know.
    pub fn read(model: &Model, path: &Path, output: &Output) -> Result<Self> {
        let data = read_labelled::<R>(path)?;
        let prepared = model.prepare(data.rows, &data.features);
        let prepared = prepared.map_err(|e| e.in_file(path))?;
        note_unknown(output, prepared.unknown_entries);
        let ids = data.ids;
        Ok(NamedRows { ids, prepared })
    }

    pub fn len(&self) -> usize {
        self.prepared.rows.len()
    }

    pub fn lookup(&self) -> RowLookup<'_> {
        RowLookup::new(&self.ids, self.len())
    }
}

/// Says how many entries were left out.
pub fn note_unknown(output: &Output, entries: usize) {
    if entries > 0 {
        output.note(&format!(
            "{entries} entries have features that the model does not know; they count for nothing"
        ));
    }
}
