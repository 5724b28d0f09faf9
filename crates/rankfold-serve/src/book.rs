//! Rows that ids name: those of the file, and those that were added or replaced since.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rankfold::data::{Features, RowIds, RowLookup, StreamRow};
use rankfold::form::Side;
use rankfold::model::Prepared;
use rankfold::{Error, Model, Real, Result, Rows};
use serde_json::value::RawValue;

use crate::example::features;

/// Rows of a file. They stay as they are as long as the process runs, and are shared by the
/// learner and by all who answer; so they are never dropped.
#[derive(Debug)]
pub struct Base<R: 'static> {
    pub ids: RowIds,
    /// As the model sees them.
    pub prepared: Prepared<R>,
    /// As the file has them, with what it calls its features.
    pub raw: Rows<R>,
    pub features: Features,
    pub lookup: RowLookup<'static>,
    /// The labels of each row, to be shown.
    pub labels: Option<rankfold::data::Labels>,
}

impl<R: Real> Base<R> {
    /// Keeps rows for good.
    pub fn keep(
        ids: RowIds,
        prepared: Prepared<R>,
        raw: Rows<R>,
        features: Features,
        labels: Option<rankfold::data::Labels>,
    ) -> &'static Self {
        let ids_kept: &'static RowIds = Box::leak(Box::new(ids.clone()));
        let lookup = RowLookup::new(ids_kept, prepared.rows.len());
        Box::leak(Box::new(Base {
            ids,
            prepared,
            raw,
            features,
            lookup,
            labels,
        }))
    }

    /// No rows, for models that need none.
    pub fn none() -> &'static Self {
        let empty = || Rows::new();
        let prepared = Prepared {
            rows: empty(),
            unknown_entries: 0,
        };
        let ids = RowIds::Named(Vec::new());
        Self::keep(ids, prepared, empty(), Features::Numbered, None)
    }

    pub fn len(&self) -> usize {
        self.prepared.rows.len()
    }

    /// A row by value, as `{"feature":value,…}`.
    pub fn by_value(&self, row: usize) -> String {
        let name = |column: u32| match &self.features {
            Features::Named(ids) | Features::Columns(ids) => ids.get(column).to_owned(),
            // A term has letters only, so that its number means it, too.
            Features::Numbered | Features::Terms(_) => (u64::from(column) + 1).to_string(),
        };
        let entries = self.raw.row(row).iter();
        features(entries.map(|(column, value)| (name(column), value.to_f64())))
    }
}

/// Rows that were added or replaced.
#[derive(Debug, Clone, Default)]
pub struct Added {
    pub ids: Vec<String>,
    places: HashMap<String, usize>,
    pub features: Vec<Box<RawValue>>,
}

impl Added {
    pub fn find(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied()
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds a row, or replaces the one of this id.
    pub fn put(&mut self, id: &str, features: Box<RawValue>) {
        match self.find(id) {
            Some(at) => self.features[at] = features,
            None => {
                self.places.insert(id.to_owned(), self.ids.len());
                self.ids.push(id.to_owned());
                self.features.push(features);
            }
        }
    }
}

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Base(usize),
    Added(usize),
}

/// The rows of one side as they are at some moment, for one model.
pub struct Book<R: 'static> {
    pub base: &'static Base<R>,
    pub added: Arc<Added>,
    /// The added rows as the model sees them.
    pub prepared: Prepared<R>,
    /// Rows of the file that were replaced.
    replaced: HashSet<usize>,
    noun: &'static str,
}

impl<R: Real> Book<R> {
    pub fn new(
        base: &'static Base<R>,
        added: Arc<Added>,
        model: &Model,
        side: Side,
    ) -> Result<Self> {
        let mut rows = Rows::new();
        let mut reader = rankfold::data::RowReader::<R>::default();
        let names = rankfold::data::Names::new(model.side(side).0, None);
        for features in &added.features {
            let row = reader.read(features.get().as_bytes(), names)?;
            rows.push(model.prepare_row(side, row)?.rows.row(0));
        }
        rows.widen(model.columns_of(side));
        let found = added.ids.iter();
        let found = found.filter_map(|id| base.lookup.find_any(id).ok().flatten());
        Ok(Book {
            base,
            replaced: found.collect(),
            added,
            prepared: Prepared {
                rows,
                unknown_entries: 0,
            },
            noun: "row",
        })
    }

    /// The same, called objects in errors.
    pub fn of_objects(self) -> Self {
        Book {
            noun: "object",
            ..self
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.base.len() + self.added.len() - self.replaced.len()
    }

    /// Whether a row of the file does not count any more.
    pub fn is_replaced(&self, row: usize) -> bool {
        !self.replaced.is_empty() && self.replaced.contains(&row)
    }

    /// How many rows of the file do not count any more.
    pub fn replaced(&self) -> usize {
        self.replaced.len()
    }

    pub fn find_any(&self, id: &str) -> Result<Option<Place>> {
        if let Some(at) = self.added.find(id) {
            return Ok(Some(Place::Added(at)));
        }
        Ok(self.base.lookup.find_any(id)?.map(Place::Base))
    }

    pub fn find(&self, id: &str) -> Result<Place> {
        let noun = self.noun;
        let found = self.find_any(id)?;
        found.ok_or_else(|| Error::input(format!("no {noun} is called `{id}`")))
    }

    pub fn name(&self, place: Place) -> String {
        match place {
            Place::Base(row) => self.base.ids.name(row).into_owned(),
            Place::Added(at) => self.added.ids[at].clone(),
        }
    }

    /// The row of a place, in rows of its own.
    pub fn row(&self, place: Place) -> Prepared<R> {
        let row = match place {
            Place::Base(row) => self.base.prepared.rows.row(row),
            Place::Added(at) => self.prepared.rows.row(at),
        };
        let mut rows = Rows::new();
        rows.push(row);
        Prepared {
            rows,
            unknown_entries: 0,
        }
    }

    /// The row of a place by value, as JSON.
    pub fn by_value(&self, place: Place) -> String {
        match place {
            Place::Base(row) => self.base.by_value(row),
            Place::Added(at) => self.added.features[at].get().to_owned(),
        }
    }

    /// The label of a row, where the file has one.
    pub fn label(&self, place: Place) -> Option<&str> {
        let (Place::Base(row), Some(labels)) = (place, &self.base.labels) else {
            return None;
        };
        let first = labels.of(row).first();
        first.map(|&label| labels.names.get(label))
    }
}

/// What a feedback says of rows: a text `{"feature":value,…}` of a row by value.
pub fn features_of<R: Real>(model: &Model, side: Side, row: StreamRow<'_, R>) -> Result<String> {
    let StreamRow::Features { known, new } = row else {
        return Err(Error::input("expected features by value, found an id"));
    };
    let name = |column: u32| match model.side(side).0 {
        Features::Terms(_) => (u64::from(column) + 1).to_string(),
        _ => model.feature_name(side, column),
    };
    let known = known
        .iter()
        .map(|&(column, value)| (name(column), value.to_f64()));
    let new = new
        .iter()
        .map(|(name, value)| (name.clone(), value.to_f64()));
    Ok(features(known.chain(new)))
}
