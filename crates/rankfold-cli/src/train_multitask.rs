//! `rankfold train multitask`.

use std::path::PathBuf;

use clap::Args;
use rankfold::data::TaskRows;
use rankfold::options::Options;
use rankfold::task::TaskData;
use rankfold::{Multitask, Result};

use crate::drive::Drive;
use crate::output::Output;
use crate::shared_options::RunFiles;
use crate::table::Table;
use crate::task_columns::ColumnsOfTasks;

/// Learn many regressions that share a subspace of their features
///
/// Each row belongs to a task (a school, a patient, a shop) and has a number to learn.
/// All tasks share weights c and a subspace U of the features; each has a few weights w
/// in it, a bias and a scale: target = mean + scale · (bias + xᵀ(c + U w)). Tasks with
/// few rows borrow from the others, and a new task needs only a few: see `update`.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train multitask pupils.csv -o m.safetensors --rank 3 --task-column school --target-column score
      all other columns are features; scaling and ridge are chosen on a fifth of each task
  rankfold train multitask updrs.csv -o m.safetensors --rank 5 --task-column 'subject#' \\
      --target-column total_UPDRS --ignore-column motor_UPDRS
      leaves a column out
  rankfold train multitask tasks.csv -o m.safetensors --rank 5 --standardize none --no-bias \\
      --no-common --regularization 0.1
      the plain problem: a subspace and nothing beside it
  rankfold eval m.safetensors test.csv --train pupils.csv
      errors of each task, with simpler models beside them
  rankfold update m.safetensors new-school.csv -o m.safetensors
      fits a new task from a few rows")]
pub struct TrainMultitask {
    /// Rows of all tasks: .csv, .tsv, or .jsonl with lines {"task":…,"row":{…},"target":…}, plain,
    /// .gz or .zst, .parquet or .arrow; `-` is .jsonl from stdin
    data: PathBuf,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    #[command(flatten)]
    columns: ColumnsOfTasks,

    #[command(flatten)]
    files: RunFiles,

    #[command(flatten)]
    options: Table<Multitask>,
}

impl TrainMultitask {
    pub fn run(self, output: &Output) -> Result<()> {
        let drive = Drive::new(output, &self.output, &self.files, Multitask::TASK)
            .starting(self.options.1.as_ref());
        let options = &self.options.0;
        self.files
            .check(&self.output, &[Some(&self.data), self.options.start_file()])?;
        options.check()?;
        let columns = self.columns.or(None, output);
        let rows = TaskRows::read(&self.data, &columns)?;
        let valid = self.files.valid.as_ref();
        let valid = valid.map(|path| TaskRows::read(path, &columns));
        let valid = valid.transpose()?;
        let data = TaskData {
            rows: &rows,
            columns: Some(&columns),
            valid: valid.as_ref(),
        };
        drive.run(|run| options.fit_with(data, run), |e| e.in_file(&self.data))
    }
}
