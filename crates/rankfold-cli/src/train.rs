//! `rankfold train`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand, ValueEnum};
use rankfold::data::text::Vocabulary;
use rankfold::data::{Labelled, Triplets};
use rankfold::online::{AromaOptions, Rule, UpdateOn};
use rankfold::sample::{Given, Triplet};
use rankfold::task::{Init, Negatives, Select, Session, TrainingData};
use rankfold::{Error, Real, Result, Score, Similarity};

use crate::output::Output;
use crate::rows::{Fields, placed, read_rows};
use crate::shared_options::{Precision, SharedOptions};
use crate::train_completion::TrainCompletion;
use crate::train_kernel::TrainKernel;
use crate::train_metric::TrainMetric;
use crate::train_multitask::TrainMultitask;
use crate::train_pairs::TrainPairs;
use crate::train_ranking::TrainRanking;

/// Learn a model from data
#[derive(Args)]
pub struct Train {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Similarity(Box<TrainSimilarity>),
    Ranking(Box<TrainRanking>),
    Completion(Box<TrainCompletion>),
    Pairs(Box<TrainPairs>),
    Metric(Box<TrainMetric>),
    Kernel(Box<TrainKernel>),
    Multitask(Box<TrainMultitask>),
}

impl Train {
    pub fn run(self, output: &Output) -> Result<()> {
        match self.task {
            Task::Similarity(train) => train.run(output),
            Task::Ranking(train) => train.run(output),
            Task::Completion(train) => train.run(output),
            Task::Pairs(train) => train.run(output),
            Task::Metric(train) => train.run(output),
            Task::Kernel(train) => train.run(output),
            Task::Multitask(train) => train.run(output),
        }
    }
}

/// Learn which rows are alike
///
/// Learns a low-rank matrix W that scores pairs of rows, score = leftᵀ W right,
/// from triplets "the query is more like the positive than like the negative".
/// Triplets are drawn from the labels of the rows, or read with --triplets.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train similarity train.svm -o model.safetensors
      rank 30, triplets from the labels, the step size chosen by a short trial
  rankfold train similarity train.svm -o m.safetensors --rank 10 --steps 500000 --seed 1 \\
      --valid-fraction 0.1 --patience 3 --curve curve.jsonl
      keeps the best model by mAP on a tenth of the rows, stops when it no longer improves
  rankfold train similarity train.svm -o m.safetensors --negatives hard --decay 100000
      learns from the rows that are easily taken for alike, with a step that shrinks
  rankfold train similarity train.svm -o m.safetensors --checkpoint run.ckpt --resume run.ckpt
      goes on where it was stopped; the first time it starts from the beginning
  rankfold train similarity rows.csv -o m.safetensors --standardize --triplets clicks.txt
  rankfold train similarity news.jsonl -o m.safetensors --vocabulary news.json --where split=train
      documents; the model keeps the vocabulary, so that later commands take documents as well
  rankfold train similarity rows.npy -o m.safetensors --labels labels.txt --normalize l2
      an array from NumPy; .npz may hold the labels itself, as `y`
  rankfold train similarity train.svm -o m.safetensors --learner aroma-factored --valid-fraction 0.1
      learns how sure it is as well: see --uncertainty of predict and neighbors
  rankfold train similarity people.csv --objects films.csv -o m.safetensors --rank 10 --triplets likes.txt
      two kinds of things: lines such as `ann alien titanic`, a row and two objects")]
pub struct TrainSimilarity {
    /// Labelled rows: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst) or .npz; `-` is svmlight from stdin
    data: PathBuf,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// The labels of the rows, one a line or in an .npy array, instead of those in DATA
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,

    /// Keep this vocabulary of `vectorize` in the model, so that it reads texts: DATA is .jsonl
    /// documents, or rows that were made with it
    #[arg(long, value_name = "V.json")]
    vocabulary: Option<PathBuf>,

    #[command(flatten)]
    fields: Fields,

    /// Positives and negatives are these, when they are other things than the rows of DATA: rows in
    /// any format of DATA, with features of their own; labels are matched by name
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

    /// The labels of the objects, as with --labels
    #[arg(long, value_name = "FILE", requires = "objects")]
    object_labels: Option<PathBuf>,

    /// The geometry: symmetric positive semi-definite, or any matrix [default: loreta-psd, with
    /// --objects loreta]
    #[arg(long, value_enum)]
    learner: Option<LearnerName>,

    /// Rank of W, at most the number of features, and of those of the objects
    #[arg(long, default_value_t = 30)]
    rank: usize,

    /// Triplets to learn from [default: 50 a row, at least 20,000; one pass with --triplets]
    #[arg(long, conflicts_with = "epochs")]
    steps: Option<u64>,

    /// The same in passes over the rows, or over the triplet file
    #[arg(long)]
    epochs: Option<u64>,

    /// Step size, not for `oasis`, `passive-aggressive` and AROMA [default: the best of seven in a short
    /// pre-training run]
    #[arg(long, value_name = "S")]
    step_size: Option<f64>,

    /// Largest relative change of W that one step may make; `inf` for none
    #[arg(long, value_name = "S", default_value_t = rankfold::online::Step::LIMIT)]
    step_limit: f64,

    /// Let the step shrink: after T triplets it is half as long, after 2T a third; not for `oasis`,
    /// `passive-aggressive` and AROMA
    #[arg(long, value_name = "T")]
    decay: Option<f64>,

    /// Longest step of `oasis` and `passive-aggressive`, which choose their own
    #[arg(long, value_name = "C", default_value_t = 0.1)]
    aggressiveness: f64,

    /// How little AROMA trusts one triplet; with a small R it is sure soon
    #[arg(
        long,
        value_name = "R",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    confidence_r: f64,

    /// Which triplets AROMA learns from
    #[arg(long, value_enum, default_value_t = UpdateOnName::Margin)]
    update_on: UpdateOnName,

    /// `aroma-factored` moves its mean by the covariances before the step, as the paper runs it, or
    /// after it, as the paper analyses it
    #[arg(long, value_enum, default_value_t = CovarianceName::Old)]
    covariance: CovarianceName,

    /// `aroma-diagonal` keeps the diagonal of the inverse covariance
    #[arg(long)]
    inverse_diagonal: bool,

    /// Learn from any triplet, or from the one of --candidates whose order AROMA is least sure of
    #[arg(long, value_enum, default_value_t = SelectName::Random)]
    select: SelectName,

    /// Triplets that make one step together (`loreta-psd`, `loreta`); --steps is rounded up to whole
    /// batches
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,

    /// Learn from any row of another class, or from the best scoring one of --candidates
    #[arg(long, value_enum, default_value_t = NegativesName::Random)]
    negatives: NegativesName,

    /// Rows that a hard negative is chosen from, or triplets that an uncertain one is [default: 20
    /// rows, 5 triplets]
    #[arg(long, value_name = "N")]
    candidates: Option<usize>,

    /// Keep the average of W over the run, later ones weighing more, not the last one
    #[arg(long)]
    average: bool,

    /// Where W starts: the identity on the most informative features, random, or from zero
    /// [default: identity, for AROMA zero]
    #[arg(long, value_enum)]
    init: Option<InitName>,

    /// Learn from these triplets of row ids, `query positive negative` a line; `-` is stdin. With
    /// --objects the last two are ids of objects
    #[arg(long, value_name = "FILE")]
    triplets: Option<PathBuf>,

    /// The labels of the validation rows, as with --labels
    #[arg(long, value_name = "FILE", requires = "valid")]
    valid_labels: Option<PathBuf>,

    /// How the model scores two rows; can be overridden later [default: cosine for
    /// loreta-psd and gradient-psd, dot for the others]
    #[arg(long, value_enum)]
    score: Option<ScoreName>,

    #[command(flatten)]
    shared: SharedOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum LearnerName {
    /// LORETA on symmetric positive semi-definite matrices of rank k
    LoretaPsd,
    /// LORETA on all matrices of rank k
    Loreta,
    /// LORETA with cheap steps on the small matrix in its middle
    ManifoldIdentification,
    /// Passive-aggressive steps on a full matrix
    Oasis,
    /// Passive-aggressive steps on two factors
    PassiveAggressive,
    /// Gradient descent on two factors
    Gradient,
    /// Gradient descent on the factor of a symmetric matrix
    GradientPsd,
    /// LogDet steps on a full metric
    Lego,
    /// AROMA: a Gaussian over matrices, with a covariance of each side
    AromaFactored,
    /// AROMA with a variance for each entry of W: cheaper, for sparse rows
    AromaDiagonal,
}

impl From<LearnerName> for Rule {
    fn from(name: LearnerName) -> Self {
        match name {
            LearnerName::LoretaPsd => Rule::LoretaPsd,
            LearnerName::Loreta => Rule::Loreta,
            LearnerName::ManifoldIdentification => Rule::ManifoldIdentification,
            LearnerName::Oasis => Rule::Oasis,
            LearnerName::PassiveAggressive => Rule::PassiveAggressive,
            LearnerName::Gradient => Rule::Gradient,
            LearnerName::GradientPsd => Rule::GradientPsd,
            LearnerName::Lego => Rule::Lego,
            LearnerName::AromaFactored => Rule::AromaFactored,
            LearnerName::AromaDiagonal => Rule::AromaDiagonal,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum InitName {
    /// The identity on the most informative features
    Identity,
    /// Random factors
    Gaussian,
    /// Gradient steps from zero, cut to the rank
    Zero,
}

#[derive(Clone, Copy, ValueEnum)]
enum NegativesName {
    Random,
    Hard,
}

#[derive(Clone, Copy, ValueEnum)]
enum UpdateOnName {
    /// Margin below 1
    Margin,
    /// Not in the right order
    Mistake,
    /// In the wrong order: ties do not count, so it cannot start from zero
    StrictMistake,
}

#[derive(Clone, Copy, ValueEnum)]
enum CovarianceName {
    Old,
    New,
}

#[derive(Clone, Copy, ValueEnum)]
enum SelectName {
    Random,
    Uncertain,
}

/// `--score` of several commands.
#[derive(Clone, Copy, ValueEnum)]
pub enum ScoreName {
    /// The projected cosine
    Cosine,
    /// leftᵀ W right
    Dot,
}

impl From<ScoreName> for Score {
    fn from(name: ScoreName) -> Score {
        match name {
            ScoreName::Cosine => Score::Cosine,
            ScoreName::Dot => Score::Dot,
        }
    }
}

impl TrainSimilarity {
    fn run(self, output: &Output) -> Result<()> {
        match self.shared.precision.unwrap_or(Precision::F32) {
            Precision::F32 => self.train::<f32>(output),
            Precision::F64 => self.train::<f64>(output),
        }
    }

    fn rule(&self) -> Rule {
        match (self.learner, &self.objects) {
            (Some(name), _) => name.into(),
            (None, Some(_)) => Rule::Loreta,
            (None, None) => Rule::LoretaPsd,
        }
    }

    fn options(&self) -> Similarity {
        let select = match self.select {
            SelectName::Random => Select::Random,
            SelectName::Uncertain => {
                Select::Uncertain(self.candidates.unwrap_or(Select::CANDIDATES))
            }
        };
        let negatives = match self.negatives {
            NegativesName::Random => Negatives::Random,
            NegativesName::Hard => {
                Negatives::Hard(self.candidates.unwrap_or(Negatives::CANDIDATES))
            }
        };
        let mut options = Similarity::new(self.rule())
            .rank(self.rank)
            .aggressiveness(self.aggressiveness)
            .batch(self.batch)
            .negatives(negatives)
            .confidence_r(self.confidence_r)
            .aroma(AromaOptions {
                update_on: match self.update_on {
                    UpdateOnName::Margin => UpdateOn::Margin,
                    UpdateOnName::Mistake => UpdateOn::Mistake,
                    UpdateOnName::StrictMistake => UpdateOn::StrictMistake,
                },
                new_covariance: matches!(self.covariance, CovarianceName::New),
                inverse_diagonal: self.inverse_diagonal,
            })
            .select(select)
            .average(self.average)
            .seed(self.shared.seed)
            .step_limit((self.step_limit != f64::INFINITY).then_some(self.step_limit))
            .valid_fraction(self.shared.valid_fraction)
            .threads(self.shared.threads())
            .preprocess(self.shared.preprocess());
        if let Some(init) = self.init {
            options = options.init(match init {
                InitName::Identity => Init::Identity,
                InitName::Gaussian => Init::Gaussian,
                InitName::Zero => Init::Zero,
            });
        }
        if let Some(score) = self.score {
            options = options.score(score.into());
        }
        if let Some(steps) = self.steps {
            options = options.steps(steps);
        }
        if let Some(epochs) = self.epochs {
            options = options.epochs(epochs);
        }
        if let Some(size) = self.step_size {
            options = options.step_size(size);
        }
        if let Some(triplets) = self.decay {
            options = options.decay(triplets);
        }
        if let Some(checks) = self.shared.patience {
            options = options.patience(checks);
        }
        if let Some(steps) = self.shared.curve_every {
            options = options.curve_every(steps);
        }
        options
    }

    fn train<R: Real>(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        self.shared.check(
            &self.output,
            &[
                Some(&self.data),
                self.triplets.as_deref(),
                self.labels.as_deref(),
                self.valid_labels.as_deref(),
                self.vocabulary.as_deref(),
                self.objects.as_deref(),
                self.object_labels.as_deref(),
            ],
        )?;
        let options = self.options();
        options.check()?;
        if self.objects.is_some() {
            options.check_objects()?;
        }
        let vocabulary = self.vocabulary.as_ref().map(Vocabulary::load).transpose()?;
        let source = self.fields.of(&self.data);
        let mut data = read_rows::<R>(&source, vocabulary.as_ref(), self.labels.as_ref())?;
        let objects = self.objects.as_ref().map(|path| {
            let source = self.fields.of_all(path);
            read_rows::<R>(&source, None, self.object_labels.as_ref())
        });
        let objects = objects.transpose()?;
        let listed = self
            .triplets
            .as_ref()
            .map(|path| read_triplets(path, &data, objects.as_ref()))
            .transpose()?
            .map(Given::List);
        let valid = self.shared.valid.as_ref();
        let valid = valid.map(|path| {
            let source = self.fields.of_all(path);
            read_rows::<R>(&source, vocabulary.as_ref(), self.valid_labels.as_ref())
        });
        let valid = valid.transpose()?;
        if let Some(vocabulary) = vocabulary {
            let with = data.with_vocabulary(vocabulary);
            data = with.map_err(|e| e.in_file(&self.data))?;
        }
        let resumed = self.shared.resumed(output)?;
        let training = TrainingData {
            rows: &data,
            objects: objects.as_ref(),
        };
        let mut earlier = 0.0;
        let session = match resumed {
            Some((path, checkpoint)) => {
                earlier = checkpoint.seconds();
                Session::resume(&options, training, listed, valid.as_ref(), checkpoint)
                    .map_err(|e| placed(e, path, self.objects.as_ref()))?
            }
            None => Session::new(&options, training, listed, valid.as_ref())
                .map_err(|e| placed(e, &self.data, self.objects.as_ref()))?,
        };
        drop(valid);
        let skipped = session.skipped();
        if skipped > 0 {
            output.note(&format!(
                "{skipped} rows are no queries: no object has their label"
            ));
        }
        self.describe_step(&session, output);
        if session.storage() == "sparse" {
            output.note("all entries of W do not fit in memory: only those that a triplet touches are stored");
        }
        let (rule, skipped) = (self.rule(), self.objects.as_ref().map(|_| skipped));
        let times = (start, earlier);
        let drive = self
            .shared
            .drive(output, &self.output, rule, skipped, times);
        drive.run(session)
    }

    fn describe_step<R: Real>(&self, session: &Session<'_, R>, output: &Output) {
        let trials = session.step_trials();
        if !trials.is_empty() {
            let listed: Vec<String> = trials
                .iter()
                .map(|(size, wrong)| format!("{size}: {:.1} %", 100.0 * wrong))
                .collect();
            output.note(&format!(
                "step size {} chosen; held-out triplets in the wrong order: {}",
                session.step_size(),
                listed.join(", ")
            ));
        }
    }
}

fn read_triplets<R: Real>(
    path: &Path,
    data: &Labelled<R>,
    objects: Option<&Labelled<R>>,
) -> Result<Vec<Triplet>> {
    let rows = data.lookup();
    let objects = objects.map(|objects| objects.lookup().of_objects());
    let objects = objects.as_ref().unwrap_or(&rows);
    let mut lines = Triplets::open(path)?;
    let mut out = Vec::new();
    while let Some(named) = lines.next() {
        let found = lines.resolve_between(&named?, &rows, objects)?;
        let [query, positive, negative] = found.map(|row| row as u32);
        out.push(Triplet {
            query,
            positive,
            negative,
        });
    }
    if out.is_empty() {
        return Err(Error::input("no triplets").in_file(path));
    }
    Ok(out)
}
