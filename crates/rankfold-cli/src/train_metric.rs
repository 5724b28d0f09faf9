//! `rankfold train metric`.

use std::path::PathBuf;

use clap::Args;
use rankfold::data::read_constraints;
use rankfold::data::text::Documents;
use rankfold::options::Options;
use rankfold::task::MetricData;
use rankfold::{Metric, Real, Result};

use crate::drive::Drive;
use crate::output::Output;
use crate::page::maps;
use crate::rows::{Fields, read_rows};
use crate::shared_options::{Precision, RunFiles, in_precision};
use crate::table::Table;

/// Learn a distance between rows
///
/// Learns a low-rank matrix W for distances √((x − y)ᵀ W (x − y)): small between rows
/// of one class, large between classes. Or, with --pairs, distances that keep to what a
/// file says of them. All features are seen; nothing is reduced first.
///
/// With --solver online it learns from one pair after the other, or a few at once, and
/// needs no memory for constraints.
///
/// --valid names labelled rows; the W whose neighbors vote best for their classes is
/// kept.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train metric train.csv -o metric.safetensors --standardize global
      from the labels of the rows; rank 20, or that of all features where they are fewer
  rankfold train metric train.csv -o m.safetensors --rank 5 --pairs-from random --constraints 50000
      from random pairs, as the paper does
  rankfold train metric rows.svm -o m.safetensors --pairs known.txt
      lines `a b same`, `a c different`, `a d <= 2.5`, `b d >= 4` of row ids
  rankfold train metric train.csv -o m.safetensors --learner polar --subspace-weight 0
      the distance alone is learned, in the subspace of the principal directions
  rankfold train metric train.csv -o m.safetensors --solver online --steps 1000000
      always new random pairs, one after the other; --batch 32 takes 32 a step
  rankfold train metric train.csv -o m.safetensors --learner itml --rank 20
      a baseline: ITML after PCA; without --rank on all features")]
pub struct TrainMetric {
    /// Labelled rows: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst), .parquet, .arrow or .npz; `-` is svmlight from stdin
    data: PathBuf,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// The labels of the rows, one a line or in an .npy array, instead of those in DATA
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,

    /// What is known of distances, instead of labels: lines `left right same`, `left right different`,
    /// `left right <= v`, `left right >= v` or `left right v` of row ids; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pairs_from", "constraints"])]
    pairs: Option<PathBuf>,

    #[command(flatten)]
    fields: Fields,

    /// How tall factors are stored [default: f64; f32 for --solver online without cones]
    #[arg(long, value_enum)]
    precision: Option<Precision>,

    #[command(flatten)]
    files: RunFiles,

    #[command(flatten)]
    options: Table<Metric>,
}

impl TrainMetric {
    pub fn run(self, output: &Output) -> Result<()> {
        // A full matrix in single precision soon is not positive definite any more.
        let usual = match self.options.0.stores_f32() {
            true => Precision::F32,
            false => Precision::F64,
        };
        in_precision!(self.precision.unwrap_or(usual), self.train(output))
    }

    fn train<R: Real>(self, output: &Output) -> Result<()> {
        let drive = Drive::new(output, &self.output, &self.files, Metric::TASK)
            .starting(self.options.1.as_ref());
        let options = &self.options.0;
        self.files.check(
            &self.output,
            &[
                Some(&self.data),
                self.pairs.as_deref(),
                self.labels.as_deref(),
                self.options.start_file(),
            ],
        )?;
        options.check()?;
        let source = match self.labels.is_some() || self.pairs.is_some() {
            true => self.fields.of(&self.data, output),
            false => self.fields.of_labelled(&self.data, output),
        };
        let rows = read_rows::<R>(&source, None, self.labels.as_ref())?;
        let constraints = self.pairs.as_ref().map(|path| {
            let lookup = rows.lookup();
            let mut find = |name: &str| lookup.find(name).map(|row| row as u32);
            read_constraints(path, &mut find)
        });
        let constraints = constraints.transpose()?;
        let valid = self.files.valid.as_ref();
        let valid = valid.map(|path| {
            let source = Documents {
                labelled: true,
                ..self.fields.of_all(path, output).knowing(&rows.features)
            };
            read_rows::<R>(&source, None, None)
        });
        let valid = valid.transpose()?;
        let data = MetricData {
            rows: &rows,
            constraints: constraints.as_deref(),
            valid: valid.as_ref(),
        };
        drive.run_showing(
            |run| options.fit_with(data, run),
            |e| e.in_file(&self.data),
            |model| Ok(vec![maps::of_rows(model, &rows, rows.rows.len())?]),
        )
    }
}
