//! `rankfold transform`.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use rankfold::data::{RowIds, VectorFormat, write_vectors};
use rankfold::form::Side;
use rankfold::model::{Embedding, Knowledge, Precise};
use rankfold::{Error, Model, Real, Result};
use serde_json::json;

use crate::given::FIELDS;
use crate::output::Output;
use crate::paths;
use crate::rows::{Fields, NamedRows};

/// Write rows as points of the learned space
///
/// A row becomes as many numbers as the model has ranks. The dot product of a
/// left row and a right row is their score `dot`, the cosine between them their
/// score `cosine`. With loreta-psd both sides are the same.
///
/// For a kernel the rows are its items, and DATA is left out; distances between the points
/// are its distances.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold transform model.safetensors rows.svm -o points.npy
  rankfold transform model.safetensors rows.csv -o points.csv.gz
  rankfold transform kernel.safetensors -o points.csv
      the items of a model of `train kernel`
  rankfold transform model.safetensors rows.csv -o points.vec --side right
      text as word2vec writes it, for programs that search such files")]
pub struct Transform {
    /// The model
    model: PathBuf,

    /// Rows: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst), .parquet, .arrow or .npz; not for a kernel, which
    /// has its own items
    data: Option<PathBuf>,

    /// The file to write: .npy, or .csv, .txt or .vec, these also with .gz or .zst
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    #[command(flatten)]
    fields: Fields,

    /// The side of the score that the rows are meant for; `right` is that of objects
    #[arg(long, value_enum, default_value_t = SideName::Left)]
    side: SideName,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum SideName {
    /// Queries
    Left,
    /// Candidates
    Right,
}

impl From<SideName> for Side {
    fn from(name: SideName) -> Side {
        match name {
            SideName::Left => Side::Left,
            SideName::Right => Side::Right,
        }
    }
}

impl Transform {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        // A name that cannot be written should be known before the work.
        VectorFormat::of(&self.output)?;
        paths::check(
            &[Some(&self.output)],
            &[Some(&self.model), self.data.as_deref()],
        )?;
        let model = Model::load(&self.model)?;
        let space = model.check_space("a transformation");
        space.map_err(|e| e.in_file(&self.model))?;
        let own: &[&str] = match &model.knowledge {
            Knowledge::Similarity(_)
            | Knowledge::Metric
            | Knowledge::Pairs { .. }
            | Knowledge::Ranking(_) => &[&["side"][..], &FIELDS].concat(),
            Knowledge::Kernel(_) | Knowledge::Map(_) => &[],
            Knowledge::Completion(_) | Knowledge::Recommend(_) => &["side"],
            Knowledge::Multitask(_) => {
                let message =
                    "multitask models have no space of their own for rows: use `rankfold predict`";
                return Err(Error::input(message).in_file(&self.model));
            }
        };
        let always = ["model", "data", "output"];
        output.given.only(&model, &always, own)?;
        if matches!(model.knowledge, Knowledge::Recommend(_)) {
            return self.write_known(&model, start, output);
        }
        match &model.form {
            Precise::F32(_) => self.write::<f32>(&model, start, output),
            Precise::F64(_) => self.write::<f64>(&model, start, output),
        }
    }

    /// The users or items of a model of recommendations.
    fn write_known(&self, model: &Model, start: Instant, output: &Output) -> Result<()> {
        if let Some(data) = &self.data {
            let message =
                "a model of recommendations has users and items of its own: leave DATA out";
            return Err(Error::input(message).in_file(data));
        }
        let found = model.vectors(self.side.into(), crate::threads(None));
        let (ids, points) = found.map_err(|e| e.in_file(&self.model))?;
        let ids = RowIds::Named(ids.iter().map(str::to_owned).collect());
        self.report(model, &ids, &points, start, output)
    }

    fn write<R: Real>(&self, model: &Model, start: Instant, output: &Output) -> Result<()> {
        let (rows, points) = match (&self.data, &model.knowledge) {
            (data, Knowledge::Kernel(_) | Knowledge::Map(_)) => {
                let rows = NamedRows::<R>::items(model, data.as_deref())?;
                let points = model.item_coordinates::<R>();
                (rows, points.map_err(|e| e.in_file(&self.model))?)
            }
            (Some(data), Knowledge::Completion(_)) => {
                let message = "a rating model knows its own users and items only: leave DATA out";
                return Err(Error::input(message).in_file(data));
            }
            (None, Knowledge::Completion(_)) => {
                let side = self.side.into();
                let rows = NamedRows::<R>::users_or_items(model, side)?;
                let points = model.embed(&rows.prepared, side);
                (rows, points.map_err(|e| e.in_file(&self.model))?)
            }
            (Some(data), _) => {
                let (source, side) = (self.fields.of(data, output), self.side.into());
                let rows = NamedRows::<R>::read(model, &source, side, output)?;
                let points = model.embed(&rows.prepared, side);
                (rows, points.map_err(|e| e.in_file(data))?)
            }
            (None, _) => return Err(Error::input("DATA is needed: the rows to transform")),
        };
        self.report(model, &rows.ids, &points, start, output)
    }

    fn report<R: Real>(
        &self,
        model: &Model,
        ids: &RowIds,
        points: &Embedding<R>,
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        write_vectors(&self.output, ids, &points.values, points.rank)?;
        let report = json!({
            "format": 1,
            "task": model.task(),
            "rows": points.len(),
            "columns": points.rank,
            "precision": model.precision(),
            "output": self.output.display().to_string(),
            "seconds": start.elapsed().as_secs_f64(),
        });
        let text = format!(
            "{} rows, {} columns\n{}",
            points.len(),
            points.rank,
            self.output.display()
        );
        output.result(&report, &text)
    }
}
