//! `rankfold train multitask`.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use rankfold::batch::Ended;
use rankfold::data::TaskRows;
use rankfold::task::{MultitaskEvent, MultitaskFit, MultitaskSolver, TaskTrial};
use rankfold::{Multitask, Result};
use serde_json::json;

use crate::interrupt::Interrupt;
use crate::output::{Output, shown};
use crate::paths;
use crate::task_columns::ColumnsOfTasks;
use crate::task_options::TaskOptions;

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
    /// Rows of all tasks: .csv, .tsv, or .jsonl with lines {\"task\":…,\"row\":{…},\"target\":…}, plain,
    /// .gz or .zst; `-` is .jsonl from stdin
    data: PathBuf,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    #[command(flatten)]
    columns: ColumnsOfTasks,

    /// Who learns
    #[arg(long, value_enum, default_value_t = LearnerName::Grassmann)]
    learner: LearnerName,

    /// How the subspace is searched for
    #[arg(long, value_enum, default_value_t = SolverName::TrustRegion)]
    solver: SolverName,

    /// The dimension of the subspace
    #[arg(long, value_name = "R", default_value_t = 3)]
    rank: usize,

    /// λ of λ/2 ‖w‖² a task, beside half of its squared errors [default: chosen by validation]
    #[arg(long, value_name = "L")]
    regularization: Option<f64>,

    #[command(flatten)]
    tasks: TaskOptions,

    /// Iterations at most, for each ridge on the way down
    #[arg(long, value_name = "N", default_value_t = 200)]
    iterations: usize,

    /// Stop when an iteration lowers the cost by at most this share
    #[arg(long, value_name = "T", default_value_t = 1e-10)]
    tolerance: f64,

    /// Rows to make choices on; all of DATA is learned from then
    #[arg(long, value_name = "FILE", conflicts_with = "valid_fraction")]
    valid: Option<PathBuf>,

    /// Make choices on this share of each task, which is learned from in the end [default: .2 where
    /// there is something to choose]
    #[arg(long, value_name = "F")]
    valid_fraction: Option<f64>,

    /// Seed of everything random; the same seed gives the same bytes
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LearnerName {
    /// A subspace, with least squares for the weights of each task
    Grassmann,
}

#[derive(Clone, Copy, ValueEnum)]
enum SolverName {
    /// Gauss–Newton steps in a trust region
    TrustRegion,
    /// Along conjugate directions
    Cg,
    /// Along the gradient, with steps found by halving
    Descent,
}

impl TrainMultitask {
    fn options(&self) -> Multitask {
        // The only one.
        let LearnerName::Grassmann = self.learner;
        let mut options = self
            .tasks
            .multitask(self.rank)
            .solver(match self.solver {
                SolverName::TrustRegion => MultitaskSolver::TrustRegion,
                SolverName::Cg => MultitaskSolver::Cg,
                SolverName::Descent => MultitaskSolver::Descent,
            })
            .iterations(self.iterations)
            .tolerance(self.tolerance)
            .seed(self.seed)
            .threads(crate::threads(self.threads));
        if let Some(lambda) = self.regularization {
            options = options.regularization(lambda);
        }
        if let Some(fraction) = self.valid_fraction {
            options = options.valid_fraction(fraction);
        }
        options
    }

    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        let options = self.options();
        options.check()?;
        let inputs = [Some(self.data.as_path()), self.valid.as_deref()];
        paths::check(&[Some(&self.output)], &inputs)?;
        let columns = self.columns.or(None);
        let data = TaskRows::read(&self.data, &columns)?;
        let valid = self.valid.as_ref();
        let valid = valid
            .map(|path| TaskRows::read(path, &columns))
            .transpose()?;
        let interrupt = Interrupt::watch();
        let bar = output.progress("iterations");
        let mut done = 0;
        let mut watch = |event: MultitaskEvent<'_>| {
            match event {
                MultitaskEvent::Iteration(..) => {
                    done += 1;
                    bar.set_position(done);
                }
                MultitaskEvent::Tried(trial) => output.milestone(
                    &bar,
                    &format!(
                        "scaling `{}`, regularization {}: validation nmse {:.4} after {} iterations",
                        trial.standardize.name(),
                        shown(trial.regularization),
                        trial.nmse,
                        trial.iterations
                    ),
                ),
            }
            !interrupt.requested()
        };
        let found = options.fit(&data, &columns, valid.as_ref(), &mut watch);
        bar.finish_and_clear();
        let Some(found) = found.map_err(|e| e.in_file(&self.data))? else {
            output.note("interrupted while choosing: there is no model yet");
            std::process::exit(130);
        };
        if let Some(asked) = found.lost_rank {
            output.note(&format!(
                "the tasks use a subspace of dimension {} only, not {asked}",
                found.model.rank()
            ));
        }
        if found.constant_tasks > 0 {
            output.note(&format!(
                "the targets of {} tasks are all the same: there is little to learn from them",
                found.constant_tasks
            ));
        }
        found.model.save(&self.output)?;
        self.report(&found, &data, start, output)
    }

    fn report(
        &self,
        found: &MultitaskFit,
        data: &TaskRows,
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        let seconds = start.elapsed().as_secs_f64();
        let (_, card) = found.model.task_parts()?;
        let stopped = match found.ended {
            Ended::Converged => "converged",
            Ended::Iterations => "steps",
            Ended::Told => "interrupted",
        };
        let trial = |t: &TaskTrial| {
            json!({
                "standardize": t.standardize.name(),
                "regularization": t.regularization,
                "iterations": t.iterations,
                "nmse": t.nmse,
            })
        };
        let (tasks, features) = (data.names.len(), data.features.len());
        let (rank, scaling) = (found.model.rank(), card.standardize.name());
        let report = json!({
            "format": 1,
            "task": "multitask",
            "learner": found.model.card.learner,
            "solver": card.solver,
            "rank": rank,
            "steps": found.iterations,
            "updates": found.iterations,
            "refused": 0,
            "step_size": null,
            "regularization": card.prior.ridge,
            "bias_ridge": card.prior.bias_ridge,
            "standardize": scaling,
            "seed": self.seed,
            "stopped": stopped,
            "tasks": tasks,
            "features": features,
            "rows": data.len(),
            "cost": found.cost,
            "trials": found.trials.iter().map(trial).collect::<Vec<_>>(),
            "seconds": seconds,
            "model": self.output.display().to_string(),
            "metrics": found.metrics,
        });
        let mut text = format!(
            "{}subspace of dimension {rank} for {tasks} tasks: {} rows of {features} features, {} \
             iterations, scaling `{scaling}`, regularization {}, {seconds:.1} s",
            if found.ended == Ended::Told {
                "interrupted: "
            } else {
                ""
            },
            data.len(),
            found.iterations,
            shown(card.prior.ridge),
        );
        for (name, value) in &found.metrics {
            text += &format!("\nvalidation {name}: {value:.4}");
        }
        text += &format!("\n{}", self.output.display());
        output.learned(&self.output, &report, &text, found.ended == Ended::Told)
    }
}
