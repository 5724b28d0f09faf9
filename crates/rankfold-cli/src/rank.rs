//! `rankfold rank`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use rankfold::eval::nearest_among;
use rankfold::model::Precise;
use rankfold::{Model, Real, Result};

use crate::listed::{Entry, Listed};
use crate::neighbors::{fits_a_line, fits_lines, queries};
use crate::output::{Output, not_finite};
use crate::rows::{Fields, NamedRows, Queries};

/// List the best labels of rows
///
/// Prints a line `query rank id score` for each label, separated by tabs, best
/// first; of equal scores the label that the model knew first comes first. All
/// labels are scored. The model is one of `train ranking`.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold rank model.safetensors rows.svm --query 17 --query 4
      rows without ids are named by their position, from 0
  rankfold rank model.safetensors rows.svm -k 3 > labels.tsv
      the three best labels of every row
  rankfold rank model.safetensors news.jsonl --query-text 'engine oil for an old car'
      for a model that was trained with --vocabulary")]
pub struct Rank {
    /// The model
    model: PathBuf,

    /// Rows: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst), .parquet, .arrow or .npz; `-` is svmlight from stdin
    #[arg(default_value = "-")]
    data: PathBuf,

    #[command(flatten)]
    queries: Queries,

    #[command(flatten)]
    fields: Fields,

    /// Threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl Rank {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        let model = Model::load(&self.model)?;
        model.label_names().map_err(|e| e.in_file(&self.model))?;
        match &model.form {
            Precise::F32(_) => self.list::<f32>(&model, start, output),
            Precise::F64(_) => self.list::<f64>(&model, start, output),
        }
    }

    fn list<R: Real>(&self, model: &Model, start: Instant, output: &Output) -> Result<()> {
        let (source, texts) = (
            self.fields.of(&self.data, output),
            self.queries.query_text.clone(),
        );
        let rows = NamedRows::<R>::read_with_texts(model, &source, texts, output)?;
        let queries = queries(&self.queries.query, &rows).map_err(|e| e.in_file(&self.data))?;
        let names = model.label_names()?;
        if !output.is_json() {
            fits_a_line(&rows).map_err(|e| e.in_file(&self.data))?;
            fits_lines(names.iter()).map_err(|e| e.in_file(&self.model))?;
        }
        let scores = model.label_scores(&rows.prepared);
        let scores = scores.map_err(|e| e.in_file(&self.model))?;
        let told = |query: usize, found: &[(usize, f64)]| match found
            .iter()
            .find(|(_, score)| !score.is_finite())
        {
            None => Ok(()),
            Some(&(label, _)) => {
                let (row, label) = (rows.name(query), names.get(label as u32));
                Err(not_finite(&format!("`{row}` and `{label}`")).in_file(&self.data))
            }
        };
        let (k, threads) = (self.queries.k as usize, crate::threads(self.threads));

        let mut out = Listed::new(output, model.task(), k, "labels")?;
        nearest_among(&scores, &queries, k, threads, |query, found| {
            told(query, found)?;
            let entry = |&(label, score): &(usize, f64)| Entry {
                id: names.get(label as u32),
                score,
                more: Vec::new(),
            };
            out.put(&rows.name(query), found.iter().map(entry))
        })?;
        out.end(start, output)
    }
}
