//! `rankfold edit`.

use std::path::{Path, PathBuf};

use clap::Args;
use rankfold::{Error, Model, Result};
use serde_json::json;

use crate::output::Output;
use crate::paths;

/// Give a model another rank
///
/// A lower rank keeps the largest singular values of W: the nearest matrix of that rank. A higher
/// rank keeps W and adds directions of relative size 1e-6, from which `update` can go on.
/// Nothing is learned, so no data is needed. `lost` is the distance from the old W as a share
/// of its norm.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold edit model.safetensors --rank 10 -o small.safetensors
  rankfold info model.safetensors
      shows the singular values, which say what a rank would lose")]
pub struct Edit {
    /// The model
    model: PathBuf,

    /// The rank that it gets
    #[arg(long, value_name = "K")]
    rank: usize,

    /// The model file to write; may be MODEL itself
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// What new directions are drawn from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Edit {
    pub fn run(self, output: &Output) -> Result<()> {
        if self.output == Path::new("-") {
            return Err(Error::option(
                "output",
                "is a model file: `-` is not possible",
            ));
        }
        let onto_itself = self.output == self.model;
        let inputs = [Some(self.model.as_path()).filter(|_| !onto_itself)];
        paths::check(&[Some(&self.output)], &inputs)?;
        let model = Model::load(&self.model)?;
        let before = model.rank();
        let resized = model.with_rank(self.rank, self.seed);
        let resized = resized.map_err(|e| e.in_file(&self.model))?;
        for note in &resized.notes {
            output.note(note);
        }
        resized.model.save(&self.output)?;
        let path = self.output.to_string_lossy();
        let json = json!({
            "format": 1, "task": model.task(), "from_rank": before, "rank": self.rank,
            "lost": resized.lost, "model": path,
        });
        let text = format!(
            "rank {before} to {}: lost {} of the norm of W\n{path}",
            self.rank,
            crate::output::shown(resized.lost)
        );
        output.result(&json, &text)
    }
}
