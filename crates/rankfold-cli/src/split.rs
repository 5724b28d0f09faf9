//! `rankfold split`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use rankfold::Result;
use rankfold::data::{Condition, TestPart, split_files};
use serde_json::json;

use crate::output::Output;
use crate::paths;

/// Cut a data file into a train and a test part
///
/// Every row has a key that depends on the seed and on its place in the file
/// only, and the rows with the smallest keys are the test part: the same split
/// on every machine and in every language. Lines are copied byte for byte, and
/// a header goes into both parts.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold split ratings.csv -o ratings --test 0.1 --seed 0
      a tenth of all rows: ratings.train.csv and ratings.test.csv
  rankfold split ratings.csv -o ratings --test 0.2 --by user
      a fifth of the rows of each user
  rankfold split usps.csv.gz -o usps --where split=test
      the rows whose column `split` says `test`")]
pub struct Split {
    /// The data: .csv, .tsv, .svm, .jsonl or .dat, plain, .gz or .zst; `-` is stdin
    data: PathBuf,

    /// Write PREFIX.train.EXT and PREFIX.test.EXT
    #[arg(short, long, value_name = "PREFIX")]
    output: PathBuf,

    /// The share of the test part, in 0 to 1
    #[arg(long, value_name = "F", default_value_t = 0.1)]
    test: f64,

    /// Which of the random splits
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Take the share from each group of rows with the same value here
    #[arg(long, value_name = "COLUMN")]
    by: Option<String>,

    /// The rows with this value are the test part
    #[arg(
        long = "where",
        id = "condition",
        value_name = "COLUMN=VALUE",
        conflicts_with_all = ["test", "by"]
    )]
    condition: Option<Condition>,

    /// The extension that names the format, where the name of the file does not
    #[arg(long, value_name = "EXT")]
    format: Option<String>,
}

impl Split {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        let part = match self.condition {
            Some(condition) => TestPart::Where(condition),
            None => TestPart::Share {
                fraction: self.test,
                seed: self.seed,
                by: self.by,
            },
        };
        let files = split_files(&self.data, self.format.as_deref(), &self.output)?;
        let [train, test] = files.each_ref().map(|file| Some(file.as_path()));
        paths::check(&[train, test], &[Some(&self.data)])?;
        let made = rankfold::data::split(&self.data, self.format.as_deref(), &self.output, &part)?;
        let (train, test) = (made.train.display(), made.test.display());
        let json = json!({
            "format": 1,
            "rows": made.rows,
            "train_rows": made.train_rows,
            "test_rows": made.test_rows,
            "train": train.to_string(),
            "test": test.to_string(),
            "seconds": start.elapsed().as_secs_f64(),
        });
        let (train_rows, test_rows) = (made.train_rows, made.test_rows);
        let text = format!("{train}\t{train_rows} rows\n{test}\t{test_rows} rows");
        output.result(&json, &text)
    }
}
