//! What is asked, as JSON. A field that is not known is an error, and not ignored.

use rankfold::data::{Names, RowReader, StreamRow};
use rankfold::form::Side;
use rankfold::model::Prepared;
use rankfold::{Model, Real};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Answer;
use crate::book::{Book, Place};
use crate::error::Refused;
use crate::options::Limits;

fn ten() -> usize {
    10
}

/// A row: by id, by its features, or as a text.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowAsk {
    pub id: Option<Box<RawValue>>,
    pub row: Option<Box<RawValue>>,
    pub text: Option<String>,
    #[serde(default = "ten")]
    pub k: usize,
    /// Examples that the answer must know of.
    #[serde(default)]
    pub after: u64,
}

/// What is most like something.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeighborsAsk {
    pub id: Option<Box<RawValue>>,
    pub row: Option<Box<RawValue>>,
    pub text: Option<String>,
    /// Eight positions of a pen, where digits are served.
    pub stroke: Option<Vec<f64>>,
    #[serde(default = "ten")]
    pub k: usize,
    /// Whether standard deviations are wanted; by default where the model has them.
    pub uncertainty: Option<bool>,
    /// Items like an item (`right`, the default), or users like a user (`left`).
    pub side: Option<String>,
    /// Whether all rows are to be scored, also where there is an index.
    #[serde(default)]
    pub exact: bool,
    #[serde(default)]
    pub after: u64,
}

/// Items for a user.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecommendAsk {
    pub user: Option<Box<RawValue>>,
    /// What somebody chose who is no user of the model.
    pub items: Option<Vec<Box<RawValue>>>,
    #[serde(default = "ten")]
    pub k: usize,
    /// `seen` leaves out what the user chose before, `none` nothing.
    pub exclude: Option<String>,
    #[serde(default)]
    pub after: u64,
}

/// Several inputs, in their order.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictAsk {
    pub inputs: Vec<Box<RawValue>>,
    pub uncertainty: Option<bool>,
    #[serde(default)]
    pub after: u64,
}

/// Rows as points of the learned space.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformAsk {
    pub inputs: Vec<OneInput>,
    pub side: Option<String>,
    #[serde(default)]
    pub after: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneInput {
    pub id: Option<Box<RawValue>>,
    pub row: Option<Box<RawValue>>,
    pub text: Option<String>,
}

/// What all questions have in common.
pub trait Ask: for<'de> Deserialize<'de> + Send + 'static {
    fn after(&self) -> u64;
    fn check(&self, limits: &Limits) -> Answer<()>;
}

fn within(name: &str, value: usize, least: usize, limit: usize) -> Answer<()> {
    match (least..=limit).contains(&value) {
        true => Ok(()),
        false => Err(Refused::input(format!(
            "`{name}` must be from {least} to {limit}, found {value}"
        ))),
    }
}

fn inputs(count: usize, limits: &Limits) -> Answer<()> {
    match count <= limits.batch {
        true => Ok(()),
        false => Err(Refused::input(format!(
            "expected up to {} inputs, found {count}",
            limits.batch
        ))),
    }
}

macro_rules! asks {
    ($($ask:ty: |$self:ident, $limits:ident| $check:expr;)*) => {$(
        impl Ask for $ask {
            fn after(&self) -> u64 {
                self.after
            }
            fn check(&self, $limits: &Limits) -> Answer<()> {
                let $self = self;
                $check
            }
        }
    )*};
}

asks! {
    RowAsk: |ask, limits| within("k", ask.k, 1, limits.k);
    NeighborsAsk: |ask, limits| within("k", ask.k, 1, limits.k);
    RecommendAsk: |ask, limits| {
        within("k", ask.k, 1, limits.k)?;
        inputs(ask.items.as_ref().map_or(0, Vec::len), limits)
    };
    PredictAsk: |ask, limits| inputs(ask.inputs.len(), limits);
    TransformAsk: |ask, limits| inputs(ask.inputs.len(), limits);
}

/// An id, a text or a number.
pub fn raw_id(raw: &RawValue) -> Answer<String> {
    let bad = || Refused::input(format!("expected an id, found `{}`", short(raw.get())));
    match serde_json::from_str::<serde_json::Value>(raw.get()) {
        Ok(serde_json::Value::String(text)) => Ok(text),
        Ok(serde_json::Value::Number(number)) => match (number.as_u64(), number.as_i64()) {
            (Some(n), _) => Ok(n.to_string()),
            (_, Some(n)) => Ok(n.to_string()),
            // Adding zero turns −0 into 0; a whole number has no point.
            _ => Ok(number
                .as_f64()
                .map_or_else(String::new, |v| (v + 0.0).to_string())),
        },
        _ => Err(bad()),
    }
}

/// The beginning of a text, for errors.
fn short(text: &str) -> String {
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(40).collect();
    match chars.next() {
        Some(_) => format!("{start}…"),
        None => start,
    }
}

/// A row that asks, and where it stands if it is one of those that are known.
pub fn row_of<R: Real>(
    model: &Model,
    book: &Book<R>,
    side: Side,
    (id, row, text): (Option<&RawValue>, Option<&RawValue>, Option<&str>),
) -> Answer<(Prepared<R>, Option<Place>)> {
    match (id, row, text) {
        (Some(id), None, None) => {
            let place = book.find(&raw_id(id)?)?;
            Ok((book.row(place), Some(place)))
        }
        (None, Some(row), None) => Ok((by_value(model, side, row)?, None)),
        (None, None, Some(text)) => Ok((model.prepare_text(text)?, None)),
        (None, None, None) => Err(Refused::input(
            "expected one of `id`, `row` and `text`, found none",
        )),
        _ => Err(Refused::input(
            "expected one of `id`, `row` and `text`, found more than one",
        )),
    }
}

/// A row by its features.
pub fn by_value<R: Real>(model: &Model, side: Side, row: &RawValue) -> Answer<Prepared<R>> {
    let mut reader = RowReader::<R>::default();
    let names = Names::new(model.side(side).0, None);
    let row = reader.read(row.get().as_bytes(), names)?;
    Ok(model.prepare_row(side, row)?)
}

/// A row as a field of an input gives it: an id, or features by value. `None` where the id is
/// not known.
pub fn any_row<R: Real>(
    model: &Model,
    book: &Book<R>,
    side: Side,
    raw: &RawValue,
) -> Answer<Option<Prepared<R>>> {
    if raw.get().trim_start().starts_with('{') {
        return by_value(model, side, raw).map(Some);
    }
    let place = book.find_any(&raw_id(raw)?)?;
    Ok(place.map(|place| book.row(place)))
}

/// The JSON of a row, checked and made one line: what the journal keeps of it.
pub fn kept_features<R: Real>(model: &Model, side: Side, row: &RawValue) -> Answer<String> {
    let mut reader = RowReader::<R>::default();
    let names = Names::new(model.side(side).0, None);
    let row: StreamRow<'_, R> = reader.read(row.get().as_bytes(), names)?;
    Ok(crate::book::features_of(model, side, row)?)
}

/// `left` or `right`.
pub fn side_of(side: Option<&str>, default: Side) -> Answer<Side> {
    match side {
        None => Ok(default),
        Some("left") => Ok(Side::Left),
        Some("right") => Ok(Side::Right),
        Some(other) => Err(Refused::input(format!(
            "expected `left` or `right` as `side`, found `{}`",
            short(other)
        ))),
    }
}
