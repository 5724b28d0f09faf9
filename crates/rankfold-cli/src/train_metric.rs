//! `rankfold train metric`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use rankfold::data::read_constraints;
use rankfold::data::{Constraint, Labelled};
use rankfold::linalg::Retraction;
use rankfold::online::StepRule;
use rankfold::task::{
    CurvePoint, MetricFit, MetricInit, MetricLearner, MetricSession, MetricSolver, PairsFrom,
    StepSchedule,
};
use rankfold::{Metric, Real, Result};
use serde_json::json;

use crate::drive::Drive;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::rows::{Fields, read_rows};
use crate::shared_options::{Precision, SharedOptions};

/// Learn a distance between rows
///
/// Learns a low-rank matrix W for distances √((x − y)ᵀ W (x − y)): small between rows
/// of one class, large between classes. Or, with --pairs, distances that keep to what a
/// file says of them. All features are seen; nothing is reduced first.
///
/// With --solver online it learns from one pair after the other, or a few at once, and
/// needs no memory for constraints.
///
/// --valid names labelled rows; the W whose neighbours vote best for their classes is
/// kept.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train metric train.csv -o metric.safetensors --standardize
      from the labels of the rows; rank 20, or that of all features where they are fewer
  rankfold train metric train.csv -o m.safetensors --rank 5 --pairs-from random --constraints 50000
      from random pairs, as the paper does
  rankfold train metric rows.svm -o m.safetensors --pairs known.txt
      lines `a b same`, `a c different`, `a d <= 2.5`, `b d >= 4` of row ids
  rankfold train metric train.csv -o m.safetensors --learner polar --subspace-weight 0
      the distance alone is learned, in the subspace of the principal directions
  rankfold train metric train.csv -o m.safetensors --solver online --steps 1000000
      always new random pairs, one after the other; --batch 32 takes 32 a step
  rankfold train metric train.csv -o m.safetensors --learner itml --rank 20
      a baseline: ITML after PCA; without --rank on all features")]
pub struct TrainMetric {
    /// Labelled rows: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst) or .npz; `-` is svmlight from stdin
    data: PathBuf,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// The labels of the rows, one a line or in an .npy array, instead of those in DATA
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,

    /// What is known of distances, instead of labels: lines `left right same`, `left right different`,
    /// `left right <= v`, `left right >= v` or `left right v` of row ids; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pairs_from", "constraints"])]
    pairs: Option<PathBuf>,

    /// How pairs are made from labels
    /// [default: neighbors; random for the baselines]
    #[arg(long, value_enum)]
    pairs_from: Option<PairsFromName>,

    /// Pairs to learn from, with --pairs-from random [default: 40 c (c − 1) for c classes, and at least 10
    /// a row up to 100,000]
    #[arg(long, value_name = "N")]
    constraints: Option<usize>,

    /// Nearest rows of its class that a row is to keep near, with --pairs-from neighbors
    #[arg(long, value_name = "N", default_value_t = 5)]
    neighbors: usize,

    #[command(flatten)]
    fields: Fields,

    /// The geometry, or a baseline
    #[arg(long, value_enum, default_value_t = MetricLearnerName::Flat)]
    learner: MetricLearnerName,

    /// How it learns [default: trust-region for `polar`, cg for others]
    #[arg(long, value_enum)]
    solver: Option<SolverName>,

    /// Rank of W [default: 20, or the number of features where that is less; all for cones and baselines]
    #[arg(long)]
    rank: Option<usize>,

    /// Iterations [default: as many as do best on held-out rows; with --pairs, until the cost no longer
    /// falls]; pairs with --solver online [10 times the usual number, or 10 passes over --pairs]; rounds of
    /// `itml` [1000], passes of `lego` [1]
    #[arg(long, value_name = "N")]
    steps: Option<usize>,

    /// Stop when an iteration lowers the cost, or moves W, by at most this share
    #[arg(long, value_name = "E", default_value_t = 1e-5)]
    tolerance: f64,

    /// λ of `polar`: 0 learns the distance in a fixed subspace, 1 the subspace alone
    #[arg(long, value_name = "L", default_value_t = 0.5)]
    subspace_weight: f64,

    /// The way back to orthonormal columns of `polar`
    #[arg(long, value_enum, default_value_t = RetractionName::Uf)]
    retraction: RetractionName,

    /// Where W starts [default: principal directions, at full rank the identity; with nearest rows also
    /// class means, whichever does better on held-out rows]
    #[arg(long, value_enum)]
    init: Option<InitName>,

    /// What `itml` pays for slack: large values give none
    #[arg(long, value_name = "G", default_value_t = 1.0)]
    slack: f64,

    /// s of the rule of online steps, or η of `lego` [default: the best of several, by short runs]
    #[arg(long, value_name = "S")]
    step_size: Option<f64>,

    /// How online steps fall [default: falling]
    #[arg(long, value_enum)]
    step_rule: Option<StepRuleName>,

    /// Pairs of one step, with --solver online
    #[arg(long, value_name = "P", default_value_t = 1)]
    batch: usize,

    #[command(flatten)]
    shared: SharedOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum PairsFromName {
    /// Random pairs: below the 5th percentile of distances inside a class, above the 95th between classes
    Random,
    /// Nearest rows: those of the own class nearer than those of others, by a margin
    Neighbors,
}

#[derive(Clone, Copy, ValueEnum)]
enum StepRuleName {
    /// s/μ · n t₀ / (n t₀ + t), with μ the usual gradient at the start
    Falling,
    /// s t₀ / (t₀ + t) / max(Tr W, 1), which is proved to converge
    Convergent,
    /// Always s
    Constant,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum MetricLearnerName {
    /// W = U B Uᵀ: a subspace and a distance in it
    Polar,
    /// W = G Gᵀ
    Flat,
    /// Full rank, affine-invariant
    ConeAffine,
    /// Full rank, affine-invariant with steps of first order (LogDet)
    ConeLogdet,
    /// Full rank, log-Euclidean
    ConeLog,
    /// Full rank, W = G Gᵀ
    ConeFlat,
    /// Full rank, by the von Neumann divergence; online only
    ConeVonNeumann,
    /// Baseline: information-theoretic metric learning
    Itml,
    /// Baseline: LogDet steps, one pair after the other
    Lego,
}

impl From<MetricLearnerName> for MetricLearner {
    fn from(name: MetricLearnerName) -> Self {
        match name {
            MetricLearnerName::Polar => MetricLearner::Polar,
            MetricLearnerName::Flat => MetricLearner::Flat,
            MetricLearnerName::ConeAffine => MetricLearner::ConeAffine,
            MetricLearnerName::ConeLogdet => MetricLearner::ConeLogdet,
            MetricLearnerName::ConeLog => MetricLearner::ConeLog,
            MetricLearnerName::ConeFlat => MetricLearner::ConeFlat,
            MetricLearnerName::ConeVonNeumann => MetricLearner::ConeVonNeumann,
            MetricLearnerName::Itml => MetricLearner::Itml,
            MetricLearnerName::Lego => MetricLearner::Lego,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum SolverName {
    /// One pair after the other, or --batch at once
    Online,
    /// Steps along the gradient, found by halving
    Descent,
    /// Conjugate gradients
    Cg,
    /// Gauss–Newton steps in a trust region
    TrustRegion,
}

impl From<SolverName> for MetricSolver {
    fn from(name: SolverName) -> Self {
        match name {
            SolverName::Online => MetricSolver::Online,
            SolverName::Descent => MetricSolver::Descent,
            SolverName::Cg => MetricSolver::Cg,
            SolverName::TrustRegion => MetricSolver::TrustRegion,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum RetractionName {
    Uf,
    Qf,
}

#[derive(Clone, Copy, ValueEnum)]
enum InitName {
    /// The top principal directions
    Pca,
    /// Directions in which class means differ, against how rows differ inside classes
    ClassMeans,
    /// The identity; of the features that vary most where the rank is not full
    Identity,
}

impl TrainMetric {
    pub fn run(self, output: &Output) -> Result<()> {
        // A full matrix in single precision soon is not positive definite any more.
        let cone = MetricLearner::from(self.learner).is_cone();
        let usual = match self.is_online() && !cone {
            true => Precision::F32,
            false => Precision::F64,
        };
        match self.shared.precision.unwrap_or(usual) {
            Precision::F32 => self.train::<f32>(output),
            Precision::F64 => self.train::<f64>(output),
        }
    }

    fn is_online(&self) -> bool {
        matches!(self.solver, Some(SolverName::Online))
    }

    fn options(&self) -> Metric {
        let mut options = Metric::new(self.learner.into())
            .neighbours(self.neighbors)
            .tolerance(self.tolerance)
            .retraction(match self.retraction {
                RetractionName::Uf => Retraction::Uf,
                RetractionName::Qf => Retraction::Qf,
            })
            .subspace_weight(self.subspace_weight)
            .slack(self.slack)
            .batch(self.batch)
            .seed(self.shared.seed)
            .threads(self.shared.threads())
            .valid_fraction(self.shared.valid_fraction)
            .preprocess(self.shared.preprocess());
        if let Some(from) = self.pairs_from {
            options = options.pairs_from(match from {
                PairsFromName::Random => PairsFrom::Random,
                PairsFromName::Neighbors => PairsFrom::Neighbors,
            });
        }
        if let Some(solver) = self.solver {
            options = options.solver(solver.into());
        }
        if let Some(rank) = self.rank {
            options = options.rank(rank);
        }
        if let Some(count) = self.constraints {
            options = options.constraints(count);
        }
        if let Some(init) = self.init {
            options = options.init(match init {
                InitName::Pca => MetricInit::Pca,
                InitName::ClassMeans => MetricInit::ClassMeans,
                InitName::Identity => MetricInit::Identity,
            });
        }
        if let Some(steps) = self.steps {
            options = options.iterations(steps);
        }
        if let Some(rule) = self.step_rule {
            options = options.step_rule(match rule {
                StepRuleName::Falling => StepSchedule::Falling,
                StepRuleName::Convergent => StepSchedule::Convergent,
                StepRuleName::Constant => StepSchedule::Constant,
            });
        }
        if let Some(size) = self.step_size {
            options = options.step_size(size);
        }
        if let Some(checks) = self.shared.patience {
            options = options.patience(checks);
        }
        if let Some(every) = self.shared.curve_every {
            options = options.curve_every(every);
        }
        options
    }

    fn train<R: Real>(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        if !self.is_online() {
            self.shared.no_checkpoints()?;
        }
        self.shared.check(
            &self.output,
            &[
                Some(&self.data),
                self.pairs.as_deref(),
                self.labels.as_deref(),
            ],
        )?;
        let options = self.options();
        options.check()?;
        let rows = read_rows::<R>(&self.fields.of(&self.data), None, self.labels.as_ref())?;
        let constraints = match &self.pairs {
            None => None,
            Some(path) => {
                let lookup = rows.lookup();
                let mut find = |name: &str| lookup.find(name).map(|row| row as u32);
                Some(read_constraints(path, &mut find)?)
            }
        };
        let valid = self.shared.valid.as_ref();
        let valid = valid.map(|path| read_rows::<R>(&self.fields.of_all(path), None, None));
        let valid = valid.transpose()?;
        if self.is_online() {
            let given = (constraints.as_deref(), valid.as_ref());
            return self.online(&options, &rows, given, start, output);
        }
        let interrupt = Interrupt::watch();
        let mut curve = self.shared.open_curve()?;
        let mut failed = None;
        let bar = output.progress("iterations");
        let mut see = |point: &CurvePoint| {
            bar.set_position(point.counters.steps);
            let pushed = curve
                .as_mut()
                .map(|curve| curve.push(point, start.elapsed().as_secs_f64()));
            failed = pushed.and_then(Result::err);
            failed.is_none() && !interrupt.requested()
        };
        let fitted = options.fit_with(&rows, constraints.as_deref(), valid.as_ref(), &mut see);
        bar.finish_and_clear();
        let fitted = fitted.map_err(|e| e.in_file(&self.data))?;
        if let Some(error) = failed {
            return Err(error);
        }
        if fitted.stopped == "interrupted" {
            output.note("interrupted: no model was written, a run in batch has no checkpoints");
            std::process::exit(130);
        }
        fitted.model.save(&self.output)?;
        self.report(&options, &fitted, start, output)
    }

    /// Learns from one pair after the other.
    fn online<R: Real>(
        &self,
        options: &Metric,
        rows: &Labelled<R>,
        (constraints, valid): (Option<&[Constraint]>, Option<&Labelled<R>>),
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        let mut earlier = 0.0;
        let session = match self.shared.resumed(output)? {
            Some((path, checkpoint)) => {
                earlier = checkpoint.seconds();
                MetricSession::resume(options, rows, constraints, valid, checkpoint)
                    .map_err(|e| e.in_file(path))?
            }
            None => MetricSession::new(options, rows, constraints, valid)
                .map_err(|e| e.in_file(&self.data))?,
        };
        if let Some(chosen) = session.chosen() {
            output.note(&format!(
                "{} chosen by {} short runs: mean loss {:.4e} on held-out pairs, {:.4e} at the start",
                shown(session.step_rule()),
                chosen.trials.len(),
                chosen.cost,
                chosen.start
            ));
        }
        let learner = options.learner();
        let rule = learner.rule().expect("a session has a rule");
        let times = (start, earlier);
        let drive = self.shared.drive(output, &self.output, rule, None, times);
        let drive = Drive {
            learner: learner.name(),
            ..drive
        };
        drive.run(session)
    }

    fn report(
        &self,
        options: &Metric,
        fitted: &MetricFit,
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        let (learner, rank, seconds) = (
            options.learner().name(),
            fitted.model.rank(),
            start.elapsed().as_secs_f64(),
        );
        let report = json!({
            "format": 1,
            "task": "metric",
            "learner": learner,
            "rank": rank,
            "steps": fitted.iterations,
            "updates": fitted.iterations,
            "refused": 0,
            "step_size": fitted.model.card.step_size,
            "seed": self.shared.seed,
            "constraints": fitted.constraints,
            "violated": fitted.violated,
            "cost": fitted.cost,
            "stopped": fitted.stopped,
            "seconds": seconds,
            "model": self.output.display().to_string(),
            "metrics": fitted.metrics,
        });
        let mut text = format!(
            "{learner} of rank {rank}: {} iterations, {}, {} of {} constraints violated, {seconds:.1} s",
            fitted.iterations, fitted.stopped, fitted.violated, fitted.constraints
        );
        if fitted.iterations == 0 && fitted.stopped == "steps" {
            text += "\nthe start does best on held-out rows";
        }
        for (name, value) in &fitted.metrics {
            text += &format!("\nvalidation {name}: {value:.4}");
        }
        text += &format!("\n{}", self.output.display());
        match self.output == Path::new("-") {
            true => {
                output.result_beside_data(&report, &text);
                Ok(())
            }
            false => output.result(&report, &text),
        }
    }
}

/// A rule of steps in words.
fn shown(rule: StepRule) -> String {
    match rule {
        StepRule::Constant(size) => format!("step size {size:.3e}"),
        StepRule::Falling {
            size, half_life, ..
        } => format!("step size {size}, half of it after {half_life} passes,"),
        StepRule::Convergent { size, half_life } => {
            format!("step size {size:.3e}, half of it after {half_life} pairs,")
        }
    }
}
