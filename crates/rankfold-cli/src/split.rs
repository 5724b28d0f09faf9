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
  rankfold split clicks.csv -o clicks --by user --last 1
      the last row of each user, by time
  rankfold split usps.csv.gz -o usps --where split=test
      the rows whose column `split` says `test`")]
pub struct Split {
    /// The data: .csv, .tsv, .svm, .jsonl or .dat, plain, .gz or .zst, .parquet or .arrow, whose parts are .csv; `-` is stdin
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

    /// The last N rows of each group of --by are the test part: by `time` or `timestamp`, or as they
    /// stand in the file where there is no such column. A group keeps one row at least
    #[arg(long, value_name = "N", requires = "by", conflicts_with_all = ["test", "seed", "condition"],
        value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,

    /// The column of the time, with --last
    #[arg(long, value_name = "COLUMN", requires = "last")]
    time: Option<String>,

    /// The rows with this value are the test part
    #[arg(
        long = "where",
        id = "condition",
        value_name = "COLUMN=VALUE",
        conflicts_with_all = ["test", "by"]
    )]
    condition: Option<Condition>,
}

impl Split {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        let part = match (self.condition, self.last, self.by) {
            (Some(condition), _, _) => TestPart::Where(condition),
            (None, Some(count), Some(by)) => TestPart::Last {
                count: count as usize,
                by,
                time: self.time,
            },
            (None, _, by) => TestPart::Share {
                fraction: self.test,
                seed: self.seed,
                by,
            },
        };
        let files = split_files(&self.data, output.reading.format(), &self.output)?;
        let [train, test] = files.each_ref().map(|file| Some(file.as_path()));
        paths::check(&[train, test], &[Some(&self.data)])?;
        let made = rankfold::data::split(&self.data, output.reading.format(), &self.output, &part)?;
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
