//! Kernels, for `rankfold eval`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rankfold::data::{Labelled, Labels, read_constraints, read_labels};
use rankfold::task::{Control, KernelTruth};
use rankfold::{Error, Model, Result};
use serde_json::json;

use crate::output::Output;
use crate::rows::{Fields, read_rows};

/// What a kernel is measured on.
pub struct EvalKernel<'a> {
    pub model: &'a Model,
    pub data: Option<&'a Path>,
    pub labels: Option<&'a PathBuf>,
    pub pairs: Option<&'a Path>,
    pub clusters: Option<usize>,
    pub fields: &'a Fields,
    pub threads: usize,
    pub start: Instant,
}

impl EvalKernel<'_> {
    pub fn run(&self, output: &Output) -> Result<()> {
        let items = self.model.items()?;
        let rows = match self.data {
            None => None,
            Some(data) => {
                let rows = read_rows::<f64>(&self.fields.of(data), None, self.labels)?;
                Some(self.ordered(rows).map_err(|e| e.in_file(data))?)
            }
        };
        let labels = match (&rows, self.labels) {
            (Some(_), _) => None,
            (None, Some(path)) => Some(read_labels(path, items.len())?),
            (None, None) => {
                return Err(Error::input(
                    "labels are needed: give DATA, the items with their labels, or --labels FILE",
                ));
            }
        };
        let known = match self.pairs {
            None => None,
            Some(path) => Some(read_constraints(path, &mut |name| {
                let found = items.find(name);
                found.ok_or_else(|| Error::input(format!("no item is called `{name}`")))
            })?),
        };
        let labels: &Labels = match (&rows, &labels) {
            (Some(rows), _) => &rows.labels,
            (None, Some(labels)) => labels,
            (None, None) => unreachable!("labels were asked for"),
        };
        let found = self.model.evaluate_kernel(KernelTruth {
            labels,
            rows: rows.as_ref(),
            constraints: known.as_deref(),
            clusters: self.clusters,
            threads: self.threads,
        });
        let place = self.data.or(self.labels.map(PathBuf::as_path));
        let found = found.map_err(|e| match place {
            Some(path) => e.in_file(path),
            None => e,
        })?;
        let seconds = self.start.elapsed().as_secs_f64();
        let control = |c: &Control| json!({ "name": c.name, "metrics": c.metrics });
        let report = json!({
            "format": 1,
            "task": self.model.card.task,
            "score": self.model.card.score.name(),
            "clusters": found.clusters,
            "metrics": found.model,
            "control": found.controls.first().map(control),
            "controls": found.controls.iter().map(control).collect::<Vec<_>>(),
            "rows": found.items,
            "skipped": 0,
            "seconds": seconds,
        });
        let mut text = format!("{:<16} {:>9}", "", "model");
        for control in &found.controls {
            text += &format!(" {:>9}", control.name);
        }
        for (name, value) in &found.model {
            text += &format!("\n{name:<16} {value:>9.4}");
            for control in &found.controls {
                text += &format!(" {:>9.4}", control.metrics[name]);
            }
        }
        text += &format!(
            "\n{} items in {} clusters, {seconds:.1} s",
            found.items, found.clusters
        );
        output.result(&report, &text)
    }

    /// The rows of the items, in the order of the items.
    fn ordered(&self, rows: Labelled<f64>) -> Result<Labelled<f64>> {
        let items = self.model.items()?;
        let places: Result<Vec<usize>> = {
            let lookup = rows.lookup();
            items.iter().map(|name| lookup.find(name)).collect()
        };
        let places = places.map_err(|e| Error {
            message: format!("{}, as an item of the kernel is", e.message),
            ..e
        })?;
        if places.iter().enumerate().all(|(i, row)| i == *row) && rows.rows.len() == places.len() {
            return Ok(rows);
        }
        let mut labels = Labels::default();
        for &row in &places {
            let of = rows.labels.of(row).iter();
            labels.push(of.map(|&label| rows.labels.names.get(label)));
        }
        let mut chosen = rows.rows.select(places.iter().copied());
        chosen.widen(rows.rows.columns());
        Ok(Labelled {
            rows: chosen,
            labels,
            ids: rankfold::data::RowIds::Named(items.iter().map(str::to_owned).collect()),
            features: rows.features.clone(),
        })
    }
}
