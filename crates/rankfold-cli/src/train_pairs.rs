//! `rankfold train pairs`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use rankfold::data::{Labelled, RowLookup, ValuedPair, read_values};
use rankfold::linalg::Retraction;
use rankfold::online::Rule;
use rankfold::task::{CurvePoint, PairsSession, PairsSolver, TrainingData};
use rankfold::{Pairs, Real, Result};
use serde_json::json;

use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::rows::{Fields, placed, read_rows};
use crate::shared_options::{Precision, SharedOptions};

/// Learn the values of pairs
///
/// Learns a low-rank matrix W, value = leftᵀ W right, from pairs with given values and
/// squared loss, one pair after the other. The left of a pair is a row of DATA, the
/// right an object of --objects, or another row of DATA. There is no constant term:
/// give both sides a feature that is always 1 where values are not around 0.
///
/// --valid names a file of pairs of the same rows; the model with the least error on
/// them is kept.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train pairs people.csv --objects films.csv --pairs likes.tsv -o model.safetensors
      lines such as `ann alien 4.5`; rank 10, ten passes, the step size chosen by a short trial
  rankfold train pairs rows.svm --pairs values.csv -o m.safetensors --rank 5 --seed 1 \\
      --valid-fraction 0.1 --patience 3 --curve curve.jsonl
      pairs of rows; keeps the best model by its error on a tenth of the pairs
  rankfold train pairs rows.svm --pairs values.csv -o m.safetensors --learner polar \\
      --regularization 0.01
  rankfold train pairs rows.svm --pairs values.csv -o m.safetensors --solver cg --precision f64
      all pairs at once, for data of moderate size: fewer passes, the last digits
  rankfold train pairs rows.svm --pairs values.csv -o m.safetensors --checkpoint run.ckpt \\
      --resume run.ckpt
      goes on where it was stopped; the first time it starts from the beginning")]
pub struct TrainPairs {
    /// The rows on the left: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst) or .npz; `-` is svmlight from stdin
    data: PathBuf,

    /// Pairs and their values, lines `left right value` of ids and a number, separated by tabs, commas
    /// or spaces; a header `left,right,value` is welcome; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pairs: PathBuf,

    /// The objects on the right, in any format of DATA, with features of their own [default: the rows
    /// of DATA]
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    #[command(flatten)]
    fields: Fields,

    /// The geometry, or a baseline
    #[arg(long, value_enum, default_value_t = PairsLearner::Balanced)]
    learner: PairsLearner,

    /// How it learns: online, or in batch, which takes no checkpoints
    #[arg(long, value_enum, default_value_t = SolverName::Online)]
    solver: SolverName,

    /// Rank of W, at most the number of features of either side
    #[arg(long, default_value_t = 10)]
    rank: usize,

    /// Pairs to learn from, one after the other [default: 10 passes]; iterations in batch [default: 200]
    #[arg(long, conflicts_with = "epochs")]
    steps: Option<u64>,

    /// The same in passes over the pairs
    #[arg(long)]
    epochs: Option<u64>,

    /// Step size [default: the best of several in a short pre-training run]
    #[arg(long, value_name = "S")]
    step_size: Option<f64>,

    /// Largest relative change of W that one step may make; `inf` for none
    #[arg(long, value_name = "S", default_value_t = rankfold::online::Step::LIMIT)]
    step_limit: f64,

    /// Let the step shrink: after T pairs it is half as long, after 2T a third
    #[arg(long, value_name = "T")]
    decay: Option<f64>,

    /// λ of the regulariser λ/2 ‖W‖², for `gradient` λ/2 (‖G‖² + ‖H‖²); not for `loreta`
    #[arg(long, value_name = "L", default_value_t = 0.0)]
    regularization: f64,

    /// The way back to orthonormal columns of `polar`: the nearest ones, or the Q of a QR
    /// factorisation, as in the paper
    #[arg(long, value_enum, default_value_t = RetractionName::Uf)]
    retraction: RetractionName,

    /// Where W starts: random factors that make scores half as large as the values
    #[arg(long, value_enum, default_value_t = PairsInit::Gaussian)]
    init: PairsInit,

    #[command(flatten)]
    shared: SharedOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum PairsLearner {
    /// The balanced geometry of two factors
    Balanced,
    /// The polar geometry: two orthonormal factors and a positive definite core
    Polar,
    /// LORETA on all matrices of rank k
    Loreta,
    /// Gradient descent on two factors
    Gradient,
}

impl From<PairsLearner> for Rule {
    fn from(name: PairsLearner) -> Self {
        match name {
            PairsLearner::Balanced => Rule::Balanced,
            PairsLearner::Polar => Rule::Polar,
            PairsLearner::Loreta => Rule::Loreta,
            PairsLearner::Gradient => Rule::Gradient,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum SolverName {
    /// One pair after the other
    Online,
    /// All pairs at once: steps along the gradient, found by halving
    Descent,
    /// All pairs at once: conjugate gradients
    Cg,
    /// All pairs at once: Gauss–Newton steps in a trust region
    TrustRegion,
}

impl From<SolverName> for PairsSolver {
    fn from(name: SolverName) -> Self {
        match name {
            SolverName::Online => PairsSolver::Online,
            SolverName::Descent => PairsSolver::Descent,
            SolverName::Cg => PairsSolver::Cg,
            SolverName::TrustRegion => PairsSolver::TrustRegion,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum RetractionName {
    Uf,
    Qf,
}

#[derive(Clone, Copy, ValueEnum)]
enum PairsInit {
    Gaussian,
}

impl TrainPairs {
    pub fn run(self, output: &Output) -> Result<()> {
        match self.shared.precision.unwrap_or(Precision::F32) {
            Precision::F32 => self.train::<f32>(output),
            Precision::F64 => self.train::<f64>(output),
        }
    }

    fn options(&self) -> Pairs {
        let mut options = Pairs::new(self.learner.into())
            .solver(self.solver.into())
            .rank(self.rank)
            .regularization(self.regularization)
            .retraction(match self.retraction {
                RetractionName::Uf => Retraction::Uf,
                RetractionName::Qf => Retraction::Qf,
            })
            .seed(self.shared.seed)
            .step_limit((self.step_limit != f64::INFINITY).then_some(self.step_limit))
            .valid_fraction(self.shared.valid_fraction)
            .preprocess(self.shared.preprocess());
        if let Some(steps) = self.steps {
            options = options.steps(steps);
        }
        if let Some(epochs) = self.epochs {
            options = options.epochs(epochs);
        }
        if let Some(size) = self.step_size {
            options = options.step_size(size);
        }
        if let Some(pairs) = self.decay {
            options = options.decay(pairs);
        }
        if let Some(checks) = self.shared.patience {
            options = options.patience(checks);
        }
        if let Some(steps) = self.shared.curve_every {
            options = options.curve_every(steps);
        }
        options
    }

    fn check(&self) -> Result<()> {
        if !matches!(self.solver, SolverName::Online) {
            self.shared.no_checkpoints()?;
        }
        self.shared.check(
            &self.output,
            &[Some(&self.data), Some(&self.pairs), self.objects.as_deref()],
        )
    }

    fn train<R: Real>(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        self.check()?;
        let options = self.options();
        options.check()?;
        let PairsInit::Gaussian = self.init;
        let rows = read_rows::<R>(&self.fields.of(&self.data), None, None)?;
        let objects = self.objects.as_ref();
        let objects = objects.map(|path| read_rows::<R>(&self.fields.of_all(path), None, None));
        let objects = objects.transpose()?;
        let pairs = read_pairs(&self.pairs, &rows, objects.as_ref())?;
        let valid = self.shared.valid.as_ref();
        let valid = valid.map(|path| read_pairs(path, &rows, objects.as_ref()));
        let valid = valid.transpose()?;
        let data = TrainingData {
            rows: &rows,
            objects: objects.as_ref(),
        };
        if !matches!(self.solver, SolverName::Online) {
            let fit = Fit {
                options: &options,
                data: &self.data,
                objects: self.objects.as_ref(),
                model: &self.output,
                shared: &self.shared,
                start,
            };
            return fit.run(data, &pairs, valid.as_deref(), output);
        }
        let resumed = self.shared.resumed(output)?;
        let mut earlier = 0.0;
        let session = match resumed {
            Some((path, checkpoint)) => {
                earlier = checkpoint.seconds();
                PairsSession::resume(&options, data, &pairs, valid.as_deref(), checkpoint)
                    .map_err(|e| e.in_file(path))?
            }
            None => PairsSession::new(&options, data, &pairs, valid.as_deref())
                .map_err(|e| placed(e, &self.data, self.objects.as_ref()))?,
        };
        drop((pairs, valid));
        let trials = session.step_trials();
        if !trials.is_empty() {
            let listed = trials
                .iter()
                .map(|(size, rmse)| format!("{size:.2e}: {rmse:.4}"));
            let listed: Vec<String> = listed.collect();
            output.note(&format!(
                "step size {:.2e} chosen; error on held-out pairs: {}",
                session.step_size(),
                listed.join(", ")
            ));
        }
        let times = (start, earlier);
        let drive = self
            .shared
            .drive(output, &self.output, options.rule(), None, times);
        drive.run(session)
    }
}

/// A run in batch.
struct Fit<'a> {
    options: &'a Pairs,
    data: &'a Path,
    objects: Option<&'a PathBuf>,
    model: &'a Path,
    shared: &'a SharedOptions,
    start: Instant,
}

impl Fit<'_> {
    fn run<R: Real>(
        &self,
        data: TrainingData<'_, R>,
        pairs: &[ValuedPair],
        valid: Option<&[ValuedPair]>,
        output: &Output,
    ) -> Result<()> {
        let interrupt = Interrupt::watch();
        let mut curve = self.shared.open_curve()?;
        let mut failed = None;
        let seconds = || self.start.elapsed().as_secs_f64();
        let mut see = |point: &CurvePoint| {
            let pushed = curve.as_mut().map(|curve| curve.push(point, seconds()));
            failed = pushed.and_then(Result::err);
            failed.is_none() && !interrupt.requested()
        };
        let fitted = self.options.fit_batch(data, pairs, valid, &mut see);
        let fitted = fitted.map_err(|e| placed(e, self.data, self.objects))?;
        if let Some(error) = failed {
            return Err(error);
        }
        if fitted.stopped == "interrupted" {
            output.note("interrupted: no model was written, a run in batch has no checkpoints");
            std::process::exit(130);
        }
        fitted.model.save(self.model)?;
        let (learner, rank, seconds) = (
            self.options.rule().name(),
            fitted.model.rank(),
            self.start.elapsed().as_secs_f64(),
        );
        let report = json!({
            "format": 1,
            "task": "pairs",
            "learner": learner,
            "rank": rank,
            "steps": fitted.iterations,
            "updates": fitted.iterations,
            "refused": 0,
            "step_size": fitted.model.card.step_size,
            "seed": self.shared.seed,
            "stopped": fitted.stopped,
            "seconds": seconds,
            "model": self.model.display().to_string(),
            "metrics": fitted.metrics,
        });
        let mut text = format!(
            "{learner} of rank {rank}: {} iterations, {}, {seconds:.1} s",
            fitted.iterations, fitted.stopped
        );
        for (name, value) in &fitted.metrics {
            text += &format!("\nvalidation {name}: {value:.4}");
        }
        text += &format!("\n{}", self.model.display());
        match self.model == Path::new("-") {
            true => {
                output.result_beside_data(&report, &text);
                Ok(())
            }
            false => output.result(&report, &text),
        }
    }
}

/// Pairs of these rows, or of rows and objects.
pub fn read_pairs<R: Real>(
    path: &Path,
    rows: &Labelled<R>,
    objects: Option<&Labelled<R>>,
) -> Result<Vec<ValuedPair>> {
    let of_rows = rows.lookup();
    let of_objects: Option<RowLookup<'_>> = objects.map(|objects| objects.lookup().of_objects());
    read_values(path, &of_rows, of_objects.as_ref().unwrap_or(&of_rows))
}
