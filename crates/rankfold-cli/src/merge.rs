//! `rankfold merge`.

use std::path::{Path, PathBuf};

use clap::Args;
use rankfold::model::MergeOptions;
use rankfold::{Error, Model, Result};
use serde_json::json;

use crate::output::{Output, shown};
use crate::paths;

/// Make one model of several that were trained on different parts
///
/// All are of one task. W is their mean, after each model was turned to the others by what they
/// have in common; a user, an item, a label or a feature that only one of them has keeps what that
/// model knows of it. Ratings, labels and rows of tasks count by how many each was learned from. Nothing is
/// learned, so no data is needed. `lost` is what the rank cut off, as a share of the norm of the mean.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold merge monday.safetensors tuesday.safetensors -o week.safetensors
  rankfold merge north.safetensors south.safetensors --rank 40 -o all.safetensors
  rankfold merge a.safetensors b.safetensors --weights 3,1 -o m.safetensors
      where b had a third of the data of a, and its learner does not know that")]
pub struct Merge {
    /// The models
    #[arg(required = true, num_args = 2.., value_name = "MODEL")]
    models: Vec<PathBuf>,

    /// The model file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// The rank that it gets; that of the first model by default, of models of tasks the largest
    #[arg(long, value_name = "K")]
    rank: Option<usize>,

    /// How much each model counts, beside what it knows of its data
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    weights: Option<Vec<f64>>,

    /// What new directions are drawn from, where the rank is above that of the models
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Merge {
    pub fn run(self, output: &Output) -> Result<()> {
        if self.output == Path::new("-") {
            return Err(Error::option(
                "output",
                "is a model file: `-` is not possible",
            ));
        }
        let inputs: Vec<Option<&Path>> = self.models.iter().map(|m| Some(m.as_path())).collect();
        paths::check(&[Some(&self.output)], &inputs)?;
        let models = self.models.iter().map(Model::load);
        let models: Vec<Model> = models.collect::<Result<_>>()?;
        let options = MergeOptions::default()
            .rank(self.rank)
            .weights(self.weights)
            .seed(self.seed);
        let all: Vec<&Model> = models.iter().collect();
        let merged = Model::merge(&all, &options)?;
        for note in &merged.notes {
            output.note(note);
        }
        merged.model.save(&self.output)?;
        let path = self.output.to_string_lossy();
        let (rows, columns) = merged.model.storage().shape;
        let rank = merged.model.rank();
        let json = json!({
            "format": 1, "task": merged.model.task(), "models": models.len(), "rank": rank,
            "rows": rows, "columns": columns, "lost": merged.lost, "notes": merged.notes,
            "model": path,
        });
        let text = format!(
            "{} models to one of {rows} by {columns}, rank {rank}: lost {} of the norm of the mean\n{path}",
            models.len(),
            shown(merged.lost)
        );
        output.result(&json, &text)
    }
}
