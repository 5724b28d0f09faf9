//! The files of a training run, which all tasks share.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rankfold::task::Checkpoint;
use rankfold::{Error, Result};

use crate::output::Output;
use crate::paths;

/// How a run is validated, recorded, saved and resumed.
#[derive(Args, Default)]
pub struct RunFiles {
    /// Validation data in the format of DATA: the model that does best on them is kept
    #[arg(long, value_name = "FILE")]
    pub valid: Option<PathBuf>,

    /// Write the learning curve here, a JSON object a line
    #[arg(long, value_name = "FILE")]
    pub curve: Option<PathBuf>,

    /// Write a page with pictures of what was learned here, one .html file that needs no other
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Save the whole state of training here now and then
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,

    /// Steps or iterations between two checkpoints [default: a twentieth of the run]
    #[arg(long, value_name = "N", requires = "checkpoint")]
    pub checkpoint_every: Option<u64>,

    /// Go on from this checkpoint of the same command
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
}

/// How tall factors are stored.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    F32,
    F64,
}

/// Calls a method of `self` in this precision.
macro_rules! in_precision {
    ($precision:expr, $this:ident . $method:ident ( $($argument:expr),* )) => {
        match $precision {
            $crate::shared_options::Precision::F32 => $this.$method::<f32>($($argument),*),
            $crate::shared_options::Precision::F64 => $this.$method::<f64>($($argument),*),
        }
    };
}
pub(crate) use in_precision;

impl RunFiles {
    /// Checks what the library does not know of: files, and options that need each
    /// other. `inputs` are the files that the run reads besides validation data.
    pub fn check(&self, model: &Path, inputs: &[Option<&Path>]) -> Result<()> {
        if self.checkpoint_every == Some(0) {
            return Err(Error::option(
                "checkpoint_every",
                "must be at least 1, found 0",
            ));
        }
        for (name, path) in [
            ("curve", &self.curve),
            ("report", &self.report),
            ("checkpoint", &self.checkpoint),
        ] {
            if path.as_deref() == Some(Path::new("-")) {
                return Err(Error::option(name, "needs a file, not `-`"));
            }
        }
        let outputs = [
            Some(model),
            self.curve.as_deref(),
            self.report.as_deref(),
            self.checkpoint.as_deref(),
        ];
        let inputs: Vec<_> = inputs
            .iter()
            .copied()
            .chain([self.valid.as_deref()])
            .collect();
        paths::check(&outputs, &inputs)
    }

    /// The checkpoint to go on from.
    pub fn resumed(&self, output: &Output) -> Result<Option<Checkpoint>> {
        match &self.resume {
            // The first round of a loop that always says --resume.
            Some(path) if !path.exists() && self.checkpoint.as_ref() == Some(path) => {
                output.note(&format!(
                    "`{}` is not there yet: starting anew",
                    path.display()
                ));
                Ok(None)
            }
            Some(path) => Checkpoint::load(path).map(Some),
            None => Ok(None),
        }
    }
}
