//! `rankfold predict` for models that rank labels: scores of rows with labels.

use std::path::Path;
use std::time::Instant;

use rankfold::data::Pairs;
use rankfold::data::text::Documents;
use rankfold::form::Side;
use rankfold::model::Precise;
use rankfold::{Error, Model, Real, Result};
use serde_json::json;

use crate::output::{Output, not_finite};
use crate::rows::NamedRows;

/// What is to be scored.
pub struct RowsAndLabels<'a> {
    pub model: &'a Model,
    /// Lines `row label`.
    pub input: &'a Path,
    pub rows: Documents,
    /// Whether a name that is not known is an error.
    pub strict: bool,
    pub start: Instant,
}

impl RowsAndLabels<'_> {
    pub fn run(&self, output: &Output) -> Result<()> {
        match &self.model.form {
            Precise::F32(_) => self.score::<f32>(output),
            Precise::F64(_) => self.score::<f64>(output),
        }
    }

    fn score<R: Real>(&self, output: &Output) -> Result<()> {
        let model = self.model;
        let rows = NamedRows::<R>::read(model, &self.rows, Side::Left, output)?;
        let (lookup, labels) = (rows.lookup(), model.label_scores(&rows.prepared)?);
        let mut pairs = Pairs::of_labels(self.input)?;
        let mut unknown = 0_u64;
        let mut next = || -> Result<Option<f64>> {
            let Some(named) = pairs.next().transpose()? else {
                return Ok(None);
            };
            let place = |e: Error| e.in_file(self.input).at_line(named.line);
            let [row, label] = &named.names;
            let row = match self.strict {
                true => lookup.find(row).map(Some),
                false => lookup.find_any(row),
            };
            let (row, found) = (row.map_err(place)?, model.find_label(label)?);
            if self.strict && found.is_none() {
                let message = format!("no label is called `{label}`");
                return Err(place(Error::input(message)));
            }
            unknown += u64::from(row.is_none() || found.is_none());
            let score = match row {
                Some(row) => labels.one(row, found),
                None => model.label_bias(found)?,
            };
            match score.is_finite() {
                true => Ok(Some(score)),
                false => Err(place(not_finite("this line"))),
            }
        };
        if output.is_json() {
            let mut scores = Vec::new();
            while let Some(score) = next()? {
                scores.push(score);
            }
            let report = json!({
                "format": 1,
                "task": model.task(),
                "score": model.card.score.name(),
                "scores": scores,
                "unknown": unknown,
                "seconds": self.start.elapsed().as_secs_f64(),
            });
            return output.result(&report, "");
        }
        let mut out = output.stream()?;
        while let Some(score) = next()? {
            out.put(format!("{score}\n").as_bytes())?;
        }
        out.commit()?;
        if unknown > 0 {
            output.note(&format!(
                "{unknown} pairs name a row or a label that is not there; their score is the bias of the label"
            ));
        }
        Ok(())
    }
}
