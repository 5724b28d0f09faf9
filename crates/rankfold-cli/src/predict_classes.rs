//! Classes of rows by their nearest training rows, for `rankfold predict` with a metric.

use std::path::Path;
use std::time::Instant;

use rankfold::data::text::Documents;
use rankfold::model::Precise;
use rankfold::{Error, Model, Real, Result};
use serde_json::json;

use crate::neighbors::fits_lines;
use crate::output::Output;
use crate::unknown::check_entries;

/// What a metric is asked for.
pub struct RowsAndClasses<'a> {
    pub model: &'a Model,
    pub rows: Documents,
    pub train: Documents,
    pub neighbors: usize,
    pub start: Instant,
}

impl RowsAndClasses<'_> {
    pub fn run(&self, output: &Output) -> Result<()> {
        match &self.model.form {
            Precise::F32(_) => self.classify::<f32>(output),
            Precise::F64(_) => self.classify::<f64>(output),
        }
    }

    fn classify<R: Real>(&self, output: &Output) -> Result<()> {
        let rows: &Path = &self.rows.path;
        let data = self.model.read::<R>(&self.rows)?;
        let train = self.model.read::<R>(&self.train)?;
        let (ids, count) = (data.ids.clone(), data.rows.nnz());
        let found = self
            .model
            .classify(data, train, self.neighbors, crate::threads(None));
        let found = found.map_err(|e| match e.about {
            Some("training rows") => Error { about: None, ..e }.in_file(&self.train.path),
            _ => e.in_file(rows),
        })?;
        check_entries(found.unknown_entries, count, output).map_err(|e| e.in_file(rows))?;
        let named = found.rows.iter().enumerate();
        let named = named.map(|(i, (class, share))| (ids.name(i), found.names.get(*class), share));
        let list = |(id, class, share)| json!({ "id": id, "class": class, "share": share });
        let report = json!({
            "format": 1,
            "task": self.model.task(),
            "rows": found.rows.len(),
            "neighbors": self.neighbors,
            "classes": named.clone().map(list).collect::<Vec<_>>(),
            "unknown_entries": found.unknown_entries,
            "seconds": self.start.elapsed().as_secs_f64(),
        });
        if !output.is_json() {
            let names = named.clone().map(|(id, _, _)| id.into_owned());
            let names: Vec<String> = names.collect();
            let all = names.iter().map(String::as_str).chain(found.names.iter());
            fits_lines(all).map_err(|e| e.in_file(rows))?;
        }
        let lines = named.map(|(id, class, share)| format!("{id}\t{class}\t{share}"));
        output.result(&report, &lines.collect::<Vec<_>>().join("\n"))
    }
}
