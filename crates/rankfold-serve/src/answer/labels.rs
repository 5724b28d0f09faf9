//! Rankings: labels for rows.

use std::sync::Arc;

use rankfold::eval::nearest_among;
use rankfold::form::Side;
use rankfold::{Model, Real, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::asks::{any_row, raw_id, row_of, side_of};
use super::rows::{ids_of, row_json};
use super::{Answer, Found, PredictAsk, RowAsk, Rows, TransformAsk, View, not_finite};
use crate::book::Book;
use crate::error::Refused;

pub struct LabelView<R: 'static> {
    model: Arc<Model>,
    book: Book<R>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabelInput {
    row: Box<RawValue>,
    label: Box<RawValue>,
}

impl<R: Real> LabelView<R> {
    pub fn new(model: Arc<Model>, rows: &Rows<R>) -> Result<Self> {
        let book = Book::new(rows.left, rows.added[0].clone(), &model, Side::Left)?;
        Ok(LabelView { model, book })
    }
}

impl<R: Real> View for LabelView<R> {
    fn model(&self) -> &Arc<Model> {
        &self.model
    }

    fn rank(&self, ask: &RowAsk) -> Answer<Vec<Found>> {
        let given = (ask.id.as_deref(), ask.row.as_deref(), ask.text.as_deref());
        let (row, _) = row_of(&self.model, &self.book, Side::Left, given)?;
        let (names, scores) = (self.model.label_names()?, self.model.label_scores(&row)?);
        let mut out = Vec::new();
        nearest_among(&scores, &[0], ask.k, 1, |_, found| {
            for &(label, score) in found {
                let label = names.get(label as u32);
                if !score.is_finite() {
                    return Err(not_finite(&format!("the query and `{label}`")));
                }
                out.push(Found::new(label, score));
            }
            Ok(())
        })?;
        Ok(out)
    }

    fn predict(&self, ask: &PredictAsk) -> Answer<(Vec<Value>, usize)> {
        if ask.uncertainty == Some(true) {
            return Err(Refused::input(
                "`uncertainty` does not apply to models that rank labels",
            ));
        }
        let (mut out, mut unknown) = (Vec::new(), 0);
        for raw in &ask.inputs {
            let input: LabelInput = serde_json::from_str(raw.get())?;
            let row = any_row(&self.model, &self.book, Side::Left, &input.row)?;
            let label = self.model.find_label(&raw_id(&input.label)?)?;
            unknown += usize::from(row.is_none() || label.is_none());
            let score = match row {
                Some(row) => self.model.label_scores(&row)?.one(0, label),
                None => self.model.label_bias(label)?,
            };
            if !score.is_finite() {
                return Err(not_finite("this input"));
            }
            out.push(json!({ "score": score }));
        }
        Ok((out, unknown))
    }

    fn transform(&self, ask: &TransformAsk) -> Answer<Vec<Vec<f64>>> {
        if side_of(ask.side.as_deref(), Side::Left)? == Side::Right {
            return Err(Refused::input(
                "labels are no rows: expected the side `left`",
            ));
        }
        let mut out = Vec::new();
        for input in &ask.inputs {
            let given = (
                input.id.as_deref(),
                input.row.as_deref(),
                input.text.as_deref(),
            );
            let (row, _) = row_of(&self.model, &self.book, Side::Left, given)?;
            let point = self.model.embed(&row, Side::Left)?;
            out.push(point.row(0).iter().map(|v| v.to_f64()).collect());
        }
        Ok(out)
    }

    fn rows(&self) -> usize {
        self.book.len()
    }

    fn ids(&self, prefix: &str, limit: usize) -> Vec<(String, Option<String>)> {
        ids_of(&self.book, prefix, limit)
    }

    fn names_rows(&self) -> bool {
        true
    }

    fn file_row(&self, field: &str, id: &str) -> Option<String> {
        let row = self.book.base.lookup.find_any(id).ok().flatten();
        row.filter(|_| field == "row")
            .map(|row| self.book.base.by_value(row))
    }

    fn row(&self, id: &str) -> Answer<Value> {
        row_json(&self.book, id)
    }
}
