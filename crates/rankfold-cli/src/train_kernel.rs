//! `rankfold train kernel`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use rankfold::data::{
    Constraint, SquareMatrix, VectorFormat, read_constraints, read_dissimilarities, read_labels,
    write_vectors,
};
use rankfold::linalg::Retraction;
use rankfold::task::{
    CurvePoint, Kernel, KernelConstraints, KernelFit, KernelFunction, KernelStart, Map, MapFit,
    MetricLearner,
};
use rankfold::{Error, Ids, Model, Real, Result};
use serde_json::json;

use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::paths;
use crate::rows::{Fields, read_rows};
use crate::shared_options::{Precision, SharedOptions};
use crate::train_metric::SolverName;

/// Learn a kernel of items, or a map of them
///
/// Learns a low-rank matrix K of items by items, so that distances √(K_ii + K_jj − 2 K_ij)
/// keep to what is known of them: items of one class come nearer, items of two classes move
/// apart. It starts from a kernel of the rows of DATA, from a kernel matrix (--matrix), or from
/// nothing but the names in --pairs. What is known is drawn from labels (--constraints) or
/// read with --pairs.
///
/// With --mds it makes a map instead: points whose distances are as near as can be to the
/// dissimilarities of a file.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train kernel digits.csv -o kernel.safetensors --rank 16 --standardize --constraints 500
      500 random pairs of rows, by their labels
  rankfold train kernel digits.csv -o k.safetensors --kernel gaussian --gamma 0.004 --pairs known.txt
      lines `a b same`, `a c different`, `a d <= 2.5`, `b d >= 4` of row ids
  rankfold train kernel -o k.safetensors --matrix kernel.npy --labels labels.txt --constraints 1000
      a kernel matrix that is given
  rankfold train kernel -o k.safetensors --pairs known.txt --learner flat --rank 10
      items of which nothing is known but pairs
  rankfold train kernel --mds distances.txt -o map.safetensors --coordinates map.csv
      a map in the plane of lines `left right distance`, or of a square matrix (.csv, .npy)")]
pub struct TrainKernel {
    /// Rows, an item each: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst) or .npz;
    /// `-` is svmlight from stdin
    #[arg(conflicts_with_all = ["matrix", "mds"])]
    data: Option<PathBuf>,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// A kernel matrix to start from: .npy, or .csv with the items as columns and in `id`
    #[arg(long, value_name = "FILE", conflicts_with = "mds")]
    matrix: Option<PathBuf>,

    /// Dissimilarities to make a map of: lines `left right value`, JSON lines, or a square
    /// symmetric matrix (.csv, .npy) in which an empty cell is not known; `-` is stdin
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["pairs", "labels", "constraints", "alpha", "warm_start", "learner",
            "solver", "steps", "tolerance", "subspace_weight", "retraction", "kernel", "gamma"])]
    mds: Option<PathBuf>,

    /// Write the coordinates of the map here: .csv, .npy, .txt or .vec
    #[arg(long, value_name = "OUT", requires = "mds")]
    coordinates: Option<PathBuf>,

    /// The labels of the items, one a line or in an .npy array, instead of those in DATA
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,

    /// What is known of distances, instead of labels: lines `left right same`, `left right different`,
    /// `left right <= v`, `left right >= v` or `left right v` of item ids; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "constraints")]
    pairs: Option<PathBuf>,

    /// Random pairs to learn from, by labels [default: 10 an item up to 100,000]
    #[arg(long, value_name = "N")]
    constraints: Option<usize>,

    /// By what share squared distances should shrink inside a class and grow between classes
    #[arg(long, value_name = "A", default_value_t = 0.25)]
    alpha: f64,

    /// The kernel of the rows of DATA
    #[arg(long, value_enum, default_value_t = KernelName::Linear)]
    kernel: KernelName,

    /// γ of the Gaussian kernel [default: 1 over the mean squared distance of two rows]
    #[arg(long, value_name = "G")]
    gamma: Option<f64>,

    #[command(flatten)]
    fields: Fields,

    /// The geometry
    #[arg(long, value_enum, default_value_t = KernelLearnerName::Polar)]
    learner: KernelLearnerName,

    /// How it learns [default: cg in the range of the start, descent by long steps after it]
    #[arg(long, value_enum)]
    solver: Option<SolverName>,

    /// Rank of K [default: 20, or that of the start where it is less; of a map 2; all for cones]
    #[arg(long)]
    rank: Option<usize>,

    /// Iterations at most, in the range of the start and after it
    #[arg(long, value_name = "N", default_value_t = 300)]
    steps: usize,

    /// Stop when an iteration lowers the cost, or moves K, by at most this share
    #[arg(long, value_name = "E", default_value_t = 1e-9)]
    tolerance: f64,

    /// λ of `polar`: 0 learns distances in the range of the start alone
    #[arg(long, value_name = "L", default_value_t = 0.5)]
    subspace_weight: f64,

    /// Whether distances in the range of the start are learned first [default: on for polar]
    #[arg(long, value_enum)]
    warm_start: Option<Switch>,

    /// The way back to orthonormal columns of `polar`
    #[arg(long, value_enum, default_value_t = RetractionName::Uf)]
    retraction: RetractionName,

    #[command(flatten)]
    shared: SharedOptions,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum KernelName {
    /// x · y
    Linear,
    /// exp(−γ ‖x − y‖²), centred
    Gaussian,
}

#[derive(Clone, Copy, ValueEnum)]
enum KernelLearnerName {
    /// K = U B Uᵀ: a subspace and a distance in it
    Polar,
    /// K = G Gᵀ
    Flat,
    /// Full rank, affine-invariant
    ConeAffine,
    /// Full rank, affine-invariant with steps of first order (LogDet)
    ConeLogdet,
    /// Full rank, log-Euclidean
    ConeLog,
    /// Full rank, K = G Gᵀ
    ConeFlat,
}

impl From<KernelLearnerName> for MetricLearner {
    fn from(name: KernelLearnerName) -> Self {
        match name {
            KernelLearnerName::Polar => MetricLearner::Polar,
            KernelLearnerName::Flat => MetricLearner::Flat,
            KernelLearnerName::ConeAffine => MetricLearner::ConeAffine,
            KernelLearnerName::ConeLogdet => MetricLearner::ConeLogdet,
            KernelLearnerName::ConeLog => MetricLearner::ConeLog,
            KernelLearnerName::ConeFlat => MetricLearner::ConeFlat,
        }
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
enum RetractionName {
    Uf,
    Qf,
}

impl TrainKernel {
    pub fn run(self, output: &Output) -> Result<()> {
        self.shared.no_checkpoints().map_err(|e| {
            let message = e
                .message
                .replace("is for --solver online", "is not for kernels");
            Error { message, ..e }
        })?;
        for (option, given) in [
            ("--valid", self.shared.valid.is_some()),
            ("--valid-fraction", self.shared.valid_fraction != 0.0),
            ("--patience", self.shared.patience.is_some()),
        ] {
            if given {
                let message =
                    format!("{option} is not for kernels: they know their own items only");
                return Err(Error::input(message));
            }
        }
        let inputs = [
            self.data.as_deref(),
            self.matrix.as_deref(),
            self.mds.as_deref(),
            self.pairs.as_deref(),
            self.labels.as_deref(),
        ];
        self.shared.check(&self.output, &inputs)?;
        if let Some(mds) = &self.mds {
            return self.map(mds, output);
        }
        match self.shared.precision.unwrap_or(Precision::F64) {
            Precision::F32 => self.train::<f32>(output),
            Precision::F64 => self.train::<f64>(output),
        }
    }

    fn options(&self) -> Result<Kernel> {
        let function = match (self.kernel, self.gamma) {
            (KernelName::Linear, None) => KernelFunction::Linear,
            (KernelName::Gaussian, gamma) => KernelFunction::Gaussian { gamma },
            (KernelName::Linear, Some(_)) => {
                return Err(Error::input("--gamma is for --kernel gaussian"));
            }
        };
        if self.data.is_none() && self.kernel == KernelName::Gaussian {
            return Err(Error::input("--kernel is for rows: DATA is needed"));
        }
        let mut options = Kernel::new(self.learner.into())
            .function(function)
            .alpha(self.alpha)
            .iterations(self.steps)
            .tolerance(self.tolerance)
            .subspace_weight(self.subspace_weight)
            .retraction(match self.retraction {
                RetractionName::Uf => Retraction::Uf,
                RetractionName::Qf => Retraction::Qf,
            })
            .seed(self.shared.seed)
            .threads(self.shared.threads())
            .preprocess(self.shared.preprocess());
        if let Some(rank) = self.rank {
            options = options.rank(rank);
        }
        if let Some(count) = self.constraints {
            options = options.constraints(count);
        }
        if let Some(solver) = self.solver {
            options = options.solver(solver.into());
        }
        if let Some(warm) = self.warm_start {
            options = options.warm(warm == Switch::On);
        }
        options.check()?;
        Ok(options)
    }

    fn train<R: Real>(&self, output: &Output) -> Result<()> {
        let start = Instant::now();
        let options = self.options()?;
        let fitted = self.fit::<R>(&options, start, output)?;
        if fitted.stopped == "interrupted" {
            output.note("interrupted: no model was written, a run in batch has no checkpoints");
            std::process::exit(130);
        }
        fitted.model.save(&self.output)?;
        self.report(&options, &fitted, start, output)
    }

    fn fit<R: Real>(&self, options: &Kernel, start: Instant, output: &Output) -> Result<KernelFit> {
        let no_truth = || {
            Error::input(
                "nothing is known of distances: give labels with DATA or --labels, or --pairs FILE",
            )
        };
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
        let known =
            |items: &mut dyn FnMut(&str) -> Result<u32>| -> Result<Option<Vec<Constraint>>> {
                let pairs = self.pairs.as_ref();
                pairs.map(|path| read_constraints(path, items)).transpose()
            };
        let labels = |items: &Ids| {
            let read = |path| read_labels(path, items.len());
            self.labels.as_ref().map(read).transpose()
        };
        let fitted = match (&self.data, &self.matrix) {
            (Some(data), _) => {
                let rows = read_rows::<R>(&self.fields.of(data), None, self.labels.as_ref())?;
                let lookup = rows.lookup().of_items();
                let known = known(&mut |name| lookup.find(name).map(|row| row as u32))?;
                let truth = match &known {
                    Some(known) => KernelConstraints::Given(known),
                    None => KernelConstraints::Labels(&rows.labels),
                };
                let fitted = options.fit_with(KernelStart::Rows(&rows), truth, &mut see);
                fitted.map_err(|e| e.in_file(data))
            }
            (None, Some(path)) => {
                let matrix = SquareMatrix::read(path)?;
                let found = |name: &str| {
                    let found = matrix.items.find(name);
                    found.ok_or_else(|| Error::input(format!("no item is called `{name}`")))
                };
                let known = known(&mut |name| found(name))?;
                let labels = labels(&matrix.items)?;
                let truth = match (&known, &labels) {
                    (Some(known), _) => KernelConstraints::Given(known),
                    (None, Some(labels)) => KernelConstraints::Labels(labels),
                    (None, None) => return Err(no_truth()),
                };
                let start: KernelStart<'_, R> = KernelStart::Matrix(&matrix);
                let fitted = options.fit_with(start, truth, &mut see);
                fitted.map_err(|e| e.in_file(path))
            }
            (None, None) => {
                let mut items = Ids::new();
                let Some(known) = known(&mut |name| Ok(items.intern(name)))? else {
                    return Err(no_truth());
                };
                let start: KernelStart<'_, R> = KernelStart::Identity(&items);
                options.fit_with(start, KernelConstraints::Given(&known), &mut see)
            }
        };
        bar.finish_and_clear();
        match failed {
            Some(error) => Err(error),
            None => fitted,
        }
    }

    fn report(
        &self,
        options: &Kernel,
        fitted: &KernelFit,
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        let (learner, rank, items) = (
            options.learner().name(),
            fitted.model.rank(),
            fitted.model.columns(),
        );
        let seconds = start.elapsed().as_secs_f64();
        let report = json!({
            "format": 1,
            "task": "kernel",
            "learner": learner,
            "rank": rank,
            "items": items,
            "steps": fitted.iterations,
            "updates": fitted.iterations,
            "refused": 0,
            "step_size": 0.0,
            "seed": self.shared.seed,
            "constraints": fitted.constraints,
            "violated": fitted.violated,
            "cost": fitted.cost,
            "stopped": fitted.stopped,
            "seconds": seconds,
            "model": self.output.display().to_string(),
            "metrics": {},
        });
        let text = format!(
            "{learner} of rank {rank}, {items} items: {} iterations, {}, {} of {} constraints violated, \
             {seconds:.1} s\n{}",
            fitted.iterations,
            fitted.stopped,
            fitted.violated,
            fitted.constraints,
            self.output.display()
        );
        say(&self.output, &report, &text, output)
    }

    fn map(&self, mds: &Path, output: &Output) -> Result<()> {
        let start = Instant::now();
        if let Some(path) = &self.coordinates {
            VectorFormat::of(path)?;
            paths::check(&[Some(path), Some(&self.output)], &[Some(mds)])?;
        }
        let mut map = Map::new()
            .seed(self.shared.seed)
            .threads(self.shared.threads());
        if let Some(rank) = self.rank {
            map = map.rank(rank);
        }
        let mut items = Ids::new();
        let known = read_dissimilarities(mds, &mut items)?;
        let n = items.len();
        let interrupt = Interrupt::watch();
        let bar = output.counter("iterations");
        let fitted = map.fit(items, known, &mut |done| {
            bar.set_position(done as u64);
            !interrupt.requested()
        });
        bar.finish_and_clear();
        let fitted = fitted.map_err(|e| e.in_file(mds))?;
        if fitted.interrupted {
            output.note("interrupted: no model was written, a run in batch has no checkpoints");
            std::process::exit(130);
        }
        note_map(&fitted, map.few_pairs(n), output);
        if let Some(path) = &self.coordinates {
            write_map(&fitted.model, path)?;
        }
        fitted.model.save(&self.output)?;
        let seconds = start.elapsed().as_secs_f64();
        let rank = fitted.model.rank();
        let report = json!({
            "format": 1,
            "task": "kernel",
            "learner": "flat",
            "rank": rank,
            "items": n,
            "steps": fitted.iterations,
            "updates": fitted.iterations,
            "refused": 0,
            "step_size": 0.0,
            "seed": self.shared.seed,
            "pairs": fitted.pairs,
            "repeated": fitted.repeated,
            "parts": fitted.parts,
            "cost": fitted.cost,
            "stress": fitted.stress,
            "stopped": "converged",
            "seconds": seconds,
            "model": self.output.display().to_string(),
            "coordinates": self.coordinates.as_ref().map(|path| path.display().to_string()),
            "metrics": {},
        });
        let mut text = format!(
            "map of {n} items in {rank} dimensions from {} pairs: stress {:.4}, {seconds:.1} s",
            fitted.pairs, fitted.stress
        );
        for path in self.coordinates.iter().chain([&self.output]) {
            text += &format!("\n{}", path.display());
        }
        say(&self.output, &report, &text, output)
    }
}

/// What users should know of the dissimilarities of a map.
pub fn note_map(fitted: &MapFit, few: usize, output: &Output) {
    if fitted.repeated > 0 {
        let count = fitted.repeated;
        output.note(&format!(
            "{count} pairs came again; the last of a pair counts"
        ));
    }
    if fitted.parts > 1 {
        output.note(&format!(
            "the items fall into {} parts that no pair connects: where these lie to each other \
             means nothing",
            fitted.parts
        ));
    }
    if fitted.pairs < few {
        output.note(&format!(
            "{} pairs are few for so many items: the map is hardly determined by less than {few}",
            fitted.pairs
        ));
    }
}

/// Writes the coordinates of the items.
pub fn write_map(model: &Model, path: &Path) -> Result<()> {
    let (ids, _) = model.item_rows::<f64>()?;
    let points = model.item_coordinates::<f64>()?;
    write_vectors(path, &ids, &points.values, points.rank)
}

fn say(path: &Path, report: &serde_json::Value, text: &str, output: &Output) -> Result<()> {
    match path == Path::new("-") {
        true => {
            output.result_beside_data(report, text);
            Ok(())
        }
        false => output.result(report, text),
    }
}
