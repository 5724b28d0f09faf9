//! `rankfold train completion`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use rankfold::batch::Ended;
use rankfold::data::{RatingColumns, Ratings};
use rankfold::linalg::Retraction;
use rankfold::task::{
    Clip, Completed, CompletionEvent, CompletionLearner, CompletionSolver, CompletionStart,
    RatingTrial,
};
use rankfold::{Completion, Error, Real, Result};
use serde_json::json;

use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::paths;
use crate::shared_options::Precision;

/// Learn to predict ratings, or the missing entries of a matrix
///
/// Learns rating = mean + bias of the user + bias of the item + an entry of a
/// low-rank matrix W, from ratings of items by users. Users are rows of W and items
/// are columns. Of repeated ratings the last counts.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train completion ratings.csv -o model.safetensors
      columns user, item, rating; rank 10, by the strongest learner for the data
  rankfold train completion ratings.csv -o m.safetensors --rank 2..12
      raises the rank while the error on a tenth of the ratings falls
  rankfold train completion ratings.dat -o m.safetensors --learner als --regularization 2
      alternating least squares with a given penalty; fields may be separated by `::`
  rankfold train completion entries.csv -o m.safetensors --columns row,column,value \\
      --learner grassmann --no-bias --regularization 0 --start continuation --clip none
      fills the holes of a matrix that has exactly this rank
  rankfold train completion ratings.csv -o m.safetensors --learner polar --no-bias
      one of the geometries by itself")]
pub struct TrainCompletion {
    /// Ratings: .csv, .tsv, .jsonl, or .dat with `::`, tabs or spaces, plain, .gz or .zst; `-` is .dat
    /// from stdin
    data: PathBuf,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// The columns of users, items and ratings: names, or numbers where there is no header
    #[arg(
        long,
        value_name = "USER,ITEM,RATING",
        default_value = "user,item,rating"
    )]
    columns: RatingColumns,

    /// Who learns
    #[arg(long, value_enum, default_value_t = LearnerName::Auto)]
    learner: LearnerName,

    /// How geometries are solved [default: trust-region for `grassmann`, else cg]
    #[arg(long, value_enum)]
    solver: Option<SolverName>,

    /// Rank of W, or a range such as 2..12 to choose from by validation
    #[arg(long, value_name = "K|A..B", default_value = "10", value_parser = ranks)]
    rank: (usize, usize),

    /// The penalty: λ of λ·n^P a row of `als`, of λ/2 ‖W‖² beside the halved mean squared error for
    /// geometries, of λ/2 (‖G‖² + ‖H‖²) for `gradient`, of the part that is not known for `grassmann`
    /// [default: chosen by validation]
    #[arg(long, value_name = "L")]
    regularization: Option<f64>,

    /// P of the penalty λ·n^P of a row with n ratings, for `als`
    #[arg(long, value_name = "P", default_value_t = 0.5)]
    penalty_power: f64,

    /// Nothing but W: no mean and no biases
    #[arg(long)]
    no_bias: bool,

    /// What somebody rated tells nothing beyond the ratings, for `bayes`
    #[arg(long)]
    no_implicit: bool,

    /// Iterations at most, or passes of `--solver online` [default: 25 for `bayes`, 20 online, 30 for `als`, 100 for trust-region, else 300]
    #[arg(long, value_name = "N")]
    iterations: Option<usize>,

    /// Stop when an iteration lowers the cost by at most this share [default: 1e-5 for `bayes` and
    /// `als`, 1e-7 for trust-region, else 1e-6]
    #[arg(long, value_name = "T")]
    tolerance: Option<f64>,

    /// Step of `--solver online`, as the share of an error that a usual step takes away [default:
    /// chosen by validation]
    #[arg(long, value_name = "S")]
    step_size: Option<f64>,

    /// Where it starts: with the leading singular vectors, from rank one up (for exact matrices: steps
    /// are then scaled for the ill-conditioned, too), or random
    #[arg(long, value_enum)]
    start: Option<StartName>,

    /// How factors of `polar` come back to orthonormal columns
    #[arg(long, value_enum, default_value_t = RetractionName::Uf)]
    retraction: RetractionName,

    /// The range to which predictions are clipped: `auto` is that of the ratings, `none`, or LOW,HIGH
    #[arg(long, value_name = "RANGE", default_value = "auto", value_parser = clip,
        allow_hyphen_values = true)]
    clip: Clip,

    /// Ratings to make choices on; all of DATA is learned from then
    #[arg(long, value_name = "FILE", conflicts_with = "valid_fraction")]
    valid: Option<PathBuf>,

    /// Make choices on this share of the ratings, which are learned from in the end [default: .1
    /// where there is something to choose]
    #[arg(long, value_name = "F")]
    valid_fraction: Option<f64>,

    /// Seed of everything random; the same seed gives the same bytes
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// How the factors are stored; they are learned in double precision
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,

    /// Threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LearnerName {
    /// The strongest for the data, which is then named
    Auto,
    /// Variational Bayes: finds penalty and noise itself, and learns from what was rated at all
    Bayes,
    /// Alternating least squares
    Als,
    /// The polar geometry U B Vᵀ
    Polar,
    /// The balanced geometry G Hᵀ
    Balanced,
    /// Matrices of the rank as they lie among all matrices
    Embedded,
    /// A subspace, with least squares for the rest
    Grassmann,
    /// Two factors as plain numbers (MMMF)
    Gradient,
    /// Singular value projection
    Svp,
    /// OptSpace: two subspaces, with least squares for the core
    Optspace,
    /// LORETA, one rating after the other
    Loreta,
}

impl From<LearnerName> for CompletionLearner {
    fn from(name: LearnerName) -> Self {
        match name {
            LearnerName::Auto => CompletionLearner::Auto,
            LearnerName::Bayes => CompletionLearner::Bayes,
            LearnerName::Als => CompletionLearner::Als,
            LearnerName::Polar => CompletionLearner::Polar,
            LearnerName::Balanced => CompletionLearner::Balanced,
            LearnerName::Embedded => CompletionLearner::Embedded,
            LearnerName::Grassmann => CompletionLearner::Grassmann,
            LearnerName::Gradient => CompletionLearner::Gradient,
            LearnerName::Svp => CompletionLearner::Svp,
            LearnerName::Optspace => CompletionLearner::OptSpace,
            LearnerName::Loreta => CompletionLearner::Loreta,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum SolverName {
    /// One rating after the other: `polar`, `balanced`, `gradient`, `loreta`
    Online,
    /// Along the gradient, with steps found by halving
    Descent,
    /// Along conjugate directions
    Cg,
    /// Gauss–Newton steps in a trust region
    TrustRegion,
}

impl From<SolverName> for CompletionSolver {
    fn from(name: SolverName) -> Self {
        match name {
            SolverName::Online => CompletionSolver::Online,
            SolverName::Descent => CompletionSolver::Descent,
            SolverName::Cg => CompletionSolver::Cg,
            SolverName::TrustRegion => CompletionSolver::TrustRegion,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum StartName {
    /// The leading singular vectors of the ratings
    Spectral,
    /// From rank one up, adding the leading singular pair of what is left
    Continuation,
    /// Random factors
    Random,
}

#[derive(Clone, Copy, ValueEnum)]
enum RetractionName {
    Uf,
    Qf,
}

fn ranks(text: &str) -> std::result::Result<(usize, usize), String> {
    let number = |part: &str| part.trim().parse::<usize>().ok().filter(|&k| k > 0);
    let found = match text.split_once("..") {
        None => number(text).map(|k| (k, k)),
        Some((first, last)) => number(first).zip(number(last.trim_start_matches('='))),
    };
    match found {
        Some((first, last)) if first <= last => Ok((first, last)),
        _ => Err("expected a rank such as 10, or a range such as 2..12".into()),
    }
}

pub fn clip(text: &str) -> std::result::Result<Clip, String> {
    match text {
        "auto" => return Ok(Clip::Auto),
        "none" => return Ok(Clip::None),
        _ => {}
    }
    let number = |part: &str| part.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    let ends = text
        .split_once(',')
        .and_then(|(low, high)| number(low).zip(number(high)));
    match ends {
        Some((low, high)) if low < high => Ok(Clip::To(low, high)),
        _ => Err("expected `auto`, `none`, or LOW,HIGH such as 1,5".into()),
    }
}

impl TrainCompletion {
    pub fn run(self, output: &Output) -> Result<()> {
        match self.precision {
            Precision::F32 => self.train::<f32>(output),
            Precision::F64 => self.train::<f64>(output),
        }
    }

    fn options(&self) -> Completion {
        let mut options = Completion::new(self.learner.into())
            .ranks(self.rank.0, self.rank.1)
            .penalty_power(self.penalty_power)
            .biases(!self.no_bias)
            .implicit(!self.no_implicit)
            .retraction(match self.retraction {
                RetractionName::Uf => Retraction::Uf,
                RetractionName::Qf => Retraction::Qf,
            })
            .clip(self.clip)
            .seed(self.seed)
            .threads(crate::threads(self.threads));
        if let Some(solver) = self.solver {
            options = options.solver(solver.into());
        }
        if let Some(lambda) = self.regularization {
            options = options.regularization(lambda);
        }
        if let Some(iterations) = self.iterations {
            options = options.iterations(iterations);
        }
        if let Some(share) = self.step_size {
            options = options.step_size(share);
        }
        if let Some(tolerance) = self.tolerance {
            options = options.tolerance(tolerance);
        }
        if let Some(start) = self.start {
            options = options.start(match start {
                StartName::Spectral => CompletionStart::Spectral,
                StartName::Continuation => CompletionStart::Continuation,
                StartName::Random => CompletionStart::Random,
            });
        }
        if let Some(fraction) = self.valid_fraction {
            options = options.valid_fraction(fraction);
        }
        options
    }

    fn train<R: Real>(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        let options = self.options();
        options.check()?;
        let inputs = [Some(self.data.as_path()), self.valid.as_deref()];
        paths::check(&[Some(&self.output)], &inputs)?;
        let ratings = Ratings::read(&self.data, &self.columns)?;
        let valid = self
            .valid
            .as_ref()
            .map(|path| Ratings::read(path, &self.columns));
        let valid = valid.transpose()?;
        let (users, items) = (ratings.users.len(), ratings.items.len());
        let (count, repeated) = (ratings.entries.count(), ratings.repeated);
        if repeated > 0 {
            output.note(&format!(
                "{repeated} ratings were replaced by later ones of the same user and item"
            ));
        }
        let read = start.elapsed().as_secs_f64();
        let interrupt = Interrupt::watch();
        let bar = output.progress("iterations");
        let mut done = 0;
        let mut watch = |event: CompletionEvent<'_>| {
            match event {
                CompletionEvent::Iteration(..) => {
                    done += 1;
                    bar.set_position(done);
                }
                CompletionEvent::Tried(trial) => {
                    let RatingTrial {
                        rank,
                        regularization,
                        iterations,
                        rmse,
                        step_size,
                    } = trial;
                    let setting = match step_size {
                        Some(share) => format!(", step size {}", shown(*share)),
                        // `bayes` has none.
                        None if *regularization == 0.0 => String::new(),
                        None => format!(", regularization {}", shown(*regularization)),
                    };
                    output.milestone(
                        &bar,
                        &format!(
                            "rank {rank}{setting}: validation rmse \
                             {rmse:.4} after {iterations} iterations"
                        ),
                    );
                }
                CompletionEvent::Chosen(learner, why) => {
                    output.milestone(&bar, &format!("learner `{}`: {why}", learner.name()));
                }
            }
            !interrupt.requested()
        };
        let found = options.fit::<R>(ratings, valid.as_ref(), &mut watch);
        bar.finish_and_clear();
        let Some(found) = found.map_err(|e| e.in_file(&self.data))? else {
            output.note("interrupted while choosing: there is no model yet");
            std::process::exit(130);
        };
        if let Some(asked) = found.lost_rank {
            output.note(&format!(
                "the ratings hold a matrix of rank {} only, not {asked}",
                found.model.rank()
            ));
        }
        found.model.save(&self.output)?;
        let sizes = [users, items, count, repeated];
        self.report(&found, sizes, read, start, output)?;
        match found.matrix.ended {
            Ended::Told => std::process::exit(130),
            _ => Ok(()),
        }
    }

    fn report(
        &self,
        found: &Completed,
        [users, items, count, repeated]: [usize; 4],
        read: f64,
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        let seconds = start.elapsed().as_secs_f64();
        let matrix = &found.matrix;
        let stopped = match matrix.ended {
            Ended::Converged => "converged",
            Ended::Iterations => "steps",
            Ended::Told => "interrupted",
        };
        let trial = |t: &RatingTrial| {
            json!({
                "rank": t.rank,
                "regularization": t.regularization,
                "step_size": t.step_size,
                "iterations": t.iterations,
                "rmse": t.rmse,
            })
        };
        let (learner, rank) = (matrix.learner.name(), found.model.rank());
        let report = json!({
            "format": 1,
            "task": "completion",
            "learner": learner,
            "solver": matrix.solver.name(),
            "rank": rank,
            "steps": matrix.iterations,
            "updates": matrix.iterations,
            "refused": 0,
            "step_size": matrix.step_size,
            "regularization": matrix.regularization,
            "noise": matrix.noise,
            "seed": self.seed,
            "stopped": stopped,
            "users": users,
            "items": items,
            "ratings": count,
            "repeated": repeated,
            "trials": matrix.trials.iter().map(trial).collect::<Vec<_>>(),
            "reading_seconds": read,
            "seconds": seconds,
            "model": self.output.display().to_string(),
            "metrics": found.metrics,
        });
        let mut text = format!(
            "{}{learner} of rank {rank}: {count} ratings of {items} items by {users} users, {} \
             iterations",
            if matrix.ended == Ended::Told {
                "interrupted: "
            } else {
                ""
            },
            matrix.iterations,
        );
        if let Some(lambda) = matrix.regularization {
            text += &format!(", regularization {}", shown(lambda));
        }
        if let Some(noise) = matrix.noise {
            text += &format!(", noise {noise:.4}");
        }
        text += &format!(", {seconds:.1} s");
        for (name, value) in &found.metrics {
            text += &format!("\nvalidation {name}: {value:.4}");
        }
        text += &format!("\n{}", self.output.display());
        if self.output == Path::new("-") {
            output.result_beside_data(&report, &text);
            return Ok(());
        }
        output.result(&report, &text)
    }
}

/// A number of any size, to four digits.
fn shown(value: f64) -> String {
    match value == 0.0 || value >= 1e-2 {
        true => format!("{value:.4}"),
        false => format!("{value:.3e}"),
    }
}
