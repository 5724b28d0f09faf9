//! `rankfold train completion`.

use std::borrow::Cow;
use std::path::PathBuf;

use clap::Args;
use rankfold::data::Ratings;
use rankfold::options::Options;
use rankfold::task::RatingData;
use rankfold::{Completion, Result};

use crate::drive::Drive;
use crate::output::Output;
use crate::page::maps;
use crate::rows::rating_columns;
use crate::shared_options::{Precision, RunFiles};
use crate::table::Table;

/// Learn to predict ratings, or the missing entries of a matrix
///
/// Learns rating = mean + bias of the user + bias of the item + an entry of a
/// low-rank matrix W, from ratings of items by users. Users are rows of W and items
/// are columns. Of repeated ratings the last counts.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train completion ratings.csv -o model.safetensors
      columns user, item, rating, or as people call them; by the strongest learner for the data, which chooses the rank
  rankfold train completion ratings.csv -o m.safetensors --rank 2..12
      raises the rank while the error on a tenth of the ratings falls
  rankfold train completion ratings.dat -o m.safetensors --learner als --regularization 2
      alternating least squares with a given penalty; fields may be separated by `::`
  rankfold train completion entries.csv -o m.safetensors --columns row,column,value \\
      --learner grassmann --no-bias --regularization 0 --init continuation --clip none
      fills the holes of a matrix that has exactly this rank
  rankfold train completion ratings.csv -o m.safetensors --learner polar --no-bias
      one of the geometries by itself")]
pub struct TrainCompletion {
    /// Ratings: .csv, .tsv, .jsonl, or .dat with `::`, tabs or spaces (also .data, .base, .txt, .inter),
    /// plain, .gz or .zst, .parquet or .arrow, or a matrix in .npz or .mtx; `-` is .dat from stdin
    data: PathBuf,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// The columns of users, items and ratings: names, or numbers where there is no header [default:
    /// those that are called as people call them; the model keeps them]
    #[arg(long, value_name = "USER,ITEM,RATING")]
    columns: Option<String>,

    /// DATA is a table with a row for each user and a column for each item; empty cells are unknown
    #[arg(long)]
    wide: bool,

    /// How tall factors are stored
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,

    /// Titles of items for --report: a table with the columns `item` and `title`
    #[arg(long, value_name = "FILE", requires = "report")]
    item_names: Option<PathBuf>,

    #[command(flatten)]
    files: RunFiles,

    #[command(flatten)]
    options: Table<Completion>,
}

impl TrainCompletion {
    pub fn run(self, output: &Output) -> Result<()> {
        let drive = Drive::new(output, &self.output, &self.files, Completion::TASK)
            .starting(self.options.1.as_ref());
        let options = &self.options.0;
        self.files.check(
            &self.output,
            &[
                Some(&self.data),
                self.item_names.as_deref(),
                self.options.start_file(),
            ],
        )?;
        options.check()?;
        let titles = maps::read_titles(self.item_names.as_ref())?;
        let columns = rating_columns(self.columns.as_deref(), self.wide, None, output)?;
        let ratings = Ratings::read(&self.data, &columns)?;
        let valid = self.files.valid.as_ref();
        let valid = valid.map(|path| Ratings::read(path, &columns));
        let valid = valid.transpose()?;
        let data = RatingData {
            ratings: Cow::Owned(ratings),
            valid: valid.as_ref(),
        };
        drive.run_showing(
            |run| match self.precision {
                Precision::F32 => options.fit_with::<f32>(data, run),
                Precision::F64 => options.fit_with::<f64>(data, run),
            },
            |e| e.in_file(&self.data),
            |model| Ok(vec![maps::of_model(model, titles.as_ref())?]),
        )
    }
}
