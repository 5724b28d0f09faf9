//! Options that all tasks of `train` share.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rankfold::model::Steps;
use rankfold::{Error, Result};

use crate::curve::Curve;
use crate::paths;
use crate::shared_options::Precision;

/// How a run is validated, watched, stopped and gone on with, and what is done to
/// rows first.
#[derive(Args)]
pub struct SharedOptions {
    /// Seed of everything random; the same seed gives the same bytes
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Validation rows, or pairs: the model that does best on them is kept
    #[arg(long, value_name = "FILE", conflicts_with = "valid_fraction")]
    pub valid: Option<PathBuf>,

    /// Hold out this share of the rows, or pairs, for validation
    #[arg(long, value_name = "F", default_value_t = 0.0)]
    pub valid_fraction: f64,

    /// Stop after N measurements without a better validation result
    #[arg(long, value_name = "N")]
    pub patience: Option<u32>,

    /// Write the learning curve here, a JSON object a line
    #[arg(long, value_name = "FILE")]
    curve: Option<PathBuf>,

    /// Steps between two points of the curve [default: a twentieth of the steps]
    #[arg(long, value_name = "N")]
    pub curve_every: Option<u64>,

    /// Save the whole state of training here now and then
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,

    /// Steps between two checkpoints [default: a twentieth of the steps]
    #[arg(long, value_name = "N", requires = "checkpoint")]
    checkpoint_every: Option<u64>,

    /// Go on from this checkpoint of the same command
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,

    /// How the tall factors are stored [default: f32; for metrics f64, but f32 online without cones]
    #[arg(long, value_enum)]
    pub precision: Option<Precision>,

    /// Weight features by how rare they are; the model keeps the weights
    #[arg(long, value_enum, default_value_t = Weight::None)]
    weight: Weight,

    /// Scale rows to length one; the model does so too
    #[arg(long, value_enum, default_value_t = Normalize::None)]
    normalize: Normalize,

    /// Subtract column means and divide by standard deviations; the model keeps them
    #[arg(long)]
    standardize: bool,

    /// Threads for validation [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Weight {
    None,
    Tfidf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Normalize {
    None,
    L2,
}

impl SharedOptions {
    /// Checks what the library does not know of: files, and options that need each
    /// other. `inputs` are the files that the run reads besides validation rows.
    pub fn check(&self, model: &Path, inputs: &[Option<&Path>]) -> Result<()> {
        if self.patience.is_some() && self.valid.is_none() && self.valid_fraction == 0.0 {
            return Err(Error::input("--patience needs --valid or --valid-fraction"));
        }
        if self.checkpoint_every == Some(0) {
            return Err(Error::input("--checkpoint-every must be at least 1 step"));
        }
        for (name, path) in [("--curve", &self.curve), ("--checkpoint", &self.checkpoint)] {
            if path.as_deref() == Some(Path::new("-")) {
                return Err(Error::input(format!("{name} needs a file, not `-`")));
            }
        }
        let outputs = [
            Some(model),
            self.curve.as_deref(),
            self.checkpoint.as_deref(),
        ];
        let inputs: Vec<_> = inputs
            .iter()
            .copied()
            .chain([self.valid.as_deref()])
            .collect();
        paths::check(&outputs, &inputs)
    }

    /// An error where checkpoints are asked of a run that has none.
    pub fn no_checkpoints(&self) -> Result<()> {
        let asked = [
            ("--checkpoint", self.checkpoint.is_some()),
            ("--resume", self.resume.is_some()),
        ];
        match asked.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((name, _)) => Err(Error::input(format!("{name} is for --solver online"))),
        }
    }

    /// The file of the learning curve, where one is asked for.
    pub fn open_curve(&self) -> Result<Option<Curve>> {
        self.curve
            .as_ref()
            .map(|path| Curve::open(path, false))
            .transpose()
    }

    /// What is done to rows first.
    pub fn preprocess(&self) -> Steps {
        Steps {
            tfidf: matches!(self.weight, Weight::Tfidf),
            standardize: self.standardize,
            normalize: matches!(self.normalize, Normalize::L2),
        }
    }

    /// Threads to use.
    pub fn threads(&self) -> usize {
        crate::threads(self.threads)
    }
}
