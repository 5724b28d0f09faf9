//! What models of tasks have beside their subspace, as batch and gossip are told.

use clap::{Args, ValueEnum};
use rankfold::Multitask;
use rankfold::model::Standardize;

#[derive(Args)]
pub struct TaskOptions {
    /// How features and targets are scaled [default: `global` or `task`, chosen by validation]
    #[arg(long, value_enum)]
    standardize: Option<StandardizeName>,

    /// No biases: without features a target is 0
    #[arg(long)]
    no_bias: bool,

    /// No weights in common: tasks share the subspace only
    #[arg(long)]
    no_common: bool,

    /// μ of μ/2 ‖c‖², the ridge of the common weights; for gossip these are found before the run
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    common_ridge: f64,
}

#[derive(Clone, Copy, ValueEnum)]
enum StandardizeName {
    /// Features and targets as they are
    None,
    /// Each feature to mean 0 and deviation 1, the targets of each task to deviation 1
    Global,
    /// The same, and each feature to deviation 1 within each task
    Task,
}

impl TaskOptions {
    /// So many dimensions, and what was asked for.
    pub fn multitask(&self, rank: usize) -> Multitask {
        let options = Multitask::new()
            .rank(rank)
            .no_bias(self.no_bias)
            .no_common(self.no_common)
            .common_ridge(self.common_ridge);
        match self.standardize {
            None => options,
            Some(how) => options.standardize(match how {
                StandardizeName::None => Standardize::None,
                StandardizeName::Global => Standardize::Global,
                StandardizeName::Task => Standardize::Task,
            }),
        }
    }
}
