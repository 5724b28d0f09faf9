//! `rankfold train pairs`.

use std::path::{Path, PathBuf};

use clap::Args;
use rankfold::data::{Labelled, RowLookup, ValuedPair, read_values};
use rankfold::options::Options;
use rankfold::task::{PairsData, TrainingData};
use rankfold::{Pairs, Real, Result};

use crate::drive::Drive;
use crate::output::Output;
use crate::page::maps;
use crate::rows::{Fields, placed, read_rows};
use crate::shared_options::{Precision, RunFiles, in_precision};
use crate::table::Table;

/// Learn the values of pairs
///
/// Learns a low-rank matrix W, value = leftᵀ W right, from pairs with given values and
/// squared loss, one pair after the other. The left of a pair is a row of DATA, the
/// right an object of --objects, or another row of DATA. There is no constant term:
/// give both sides a feature that is always 1 where values are not around 0.
///
/// --valid names a file of pairs of the same rows; the model with the least error on
/// them is kept.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train pairs people.csv --objects films.csv --pairs likes.tsv -o model.safetensors
      lines such as `ann alien 4.5`; rank 10, ten passes, the step size chosen by a short trial
  rankfold train pairs rows.svm --pairs values.csv -o m.safetensors --rank 5 --seed 1 \\
      --valid-fraction 0.1 --patience 3 --curve curve.jsonl
      pairs of rows; keeps the best model by its error on a tenth of the pairs
  rankfold train pairs rows.svm --pairs values.csv -o m.safetensors --learner polar \\
      --regularization 0.01
  rankfold train pairs rows.svm --pairs values.csv -o m.safetensors --solver cg --precision f64
      all pairs at once, for data of moderate size: fewer passes, the last digits
  rankfold train pairs rows.svm --pairs values.csv -o m.safetensors --checkpoint run.ckpt \\
      --resume run.ckpt
      goes on where it was stopped; the first time it starts from the beginning")]
pub struct TrainPairs {
    /// The rows on the left: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst), .parquet, .arrow or .npz; `-` is svmlight from stdin
    data: PathBuf,

    /// Pairs and their values, lines `left right value` of ids and a number, separated by tabs, commas
    /// or spaces; a header `left,right,value` is welcome; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pairs: PathBuf,

    /// The objects on the right, in any format of DATA, with features of their own [default: the rows
    /// of DATA]
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    #[command(flatten)]
    fields: Fields,

    /// How tall factors are stored
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,

    #[command(flatten)]
    files: RunFiles,

    #[command(flatten)]
    options: Table<Pairs>,
}

impl TrainPairs {
    pub fn run(self, output: &Output) -> Result<()> {
        in_precision!(self.precision, self.train(output))
    }

    fn train<R: Real>(self, output: &Output) -> Result<()> {
        let drive = Drive::new(output, &self.output, &self.files, Pairs::TASK)
            .starting(self.options.1.as_ref());
        let options = &self.options.0;
        self.files.check(
            &self.output,
            &[
                Some(&self.data),
                Some(&self.pairs),
                self.objects.as_deref(),
                self.options.start_file(),
            ],
        )?;
        options.check()?;
        let rows = read_rows::<R>(&self.fields.of(&self.data, output), None, None)?;
        let objects = self.objects.as_ref();
        let objects =
            objects.map(|path| read_rows::<R>(&self.fields.of_all(path, output), None, None));
        let objects = objects.transpose()?;
        let pairs = read_pairs(&self.pairs, &rows, objects.as_ref())?;
        let valid = self.files.valid.as_ref();
        let valid = valid.map(|path| read_pairs(path, &rows, objects.as_ref()));
        let valid = valid.transpose()?;
        let data = PairsData {
            data: TrainingData {
                rows: &rows,
                objects: objects.as_ref(),
            },
            pairs: &pairs,
            valid: valid.as_deref(),
        };
        drive.run_showing(
            |run| options.fit_with(data, run),
            |e| placed(e, &self.data, self.objects.as_ref()),
            |model| Ok(vec![maps::of_rows(model, &rows, rows.rows.len())?]),
        )
    }
}

/// Pairs of these rows, or of rows and objects.
pub fn read_pairs<R: Real>(
    path: &Path,
    rows: &Labelled<R>,
    objects: Option<&Labelled<R>>,
) -> Result<Vec<ValuedPair>> {
    let of_rows = rows.lookup();
    let of_objects: Option<RowLookup<'_>> = objects.map(|objects| objects.lookup().of_objects());
    read_values(path, &of_rows, of_objects.as_ref().unwrap_or(&of_rows))
}
