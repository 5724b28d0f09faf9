//! `rankfold train ranking`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use rankfold::data::text::Vocabulary;
use rankfold::data::{Labelled, read_label_names};
use rankfold::model::{Sampler, Subgradient};
use rankfold::online::Rule;
use rankfold::task::{Init, Order, RankingSession};
use rankfold::{Ids, Ranking, Real, Result};

use crate::output::Output;
use crate::rows::{Fields, read_rows};
use crate::shared_options::{Precision, SharedOptions};
use crate::train::InitName;

/// Learn to rank labels
///
/// Learns a low-rank matrix W and a bias a label, score = rowᵀ W label + bias, from
/// rows that carry several labels each, one row after the other: labels of a row
/// should score above all others. Rows without labels are counted and left out.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train ranking train.svm -o model.safetensors --weight tfidf --normalize l2
      labels are comma-separated numbers; rank 50, ten passes, the step size chosen by a short trial
  rankfold train ranking train.svm -o m.safetensors --label-names labels.txt --rank 100 --seed 1 \\
      --valid-fraction 0.1 --patience 3 --curve curve.jsonl
      label 0 has the name in the first line of labels.txt; keeps the best model by mAP on a tenth
      of the rows, stops when it no longer improves
  rankfold train ranking train.svm -o m.safetensors --sampler warp --average
      does not score all labels at every step: for many labels
  rankfold train ranking train.svm -o m.safetensors --learner perceptron --step-size 0.1
      a full matrix, to compare with")]
pub struct TrainRanking {
    /// Rows with labels: .svm, .csv, .tsv, .jsonl, .npz (all but .npz plain, .gz or .zst); `-` is svmlight from stdin
    data: PathBuf,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// Names of the labels, one a line: that of label 0, of label 1, and so on; labels of DATA are
    /// numbers then
    #[arg(long, value_name = "FILE")]
    label_names: Option<PathBuf>,

    /// Keep this vocabulary of `vectorize` in the model, so that it reads texts: DATA is .jsonl
    /// documents, or rows that were made with it
    #[arg(long, value_name = "V.json")]
    vocabulary: Option<PathBuf>,

    #[command(flatten)]
    fields: Fields,

    /// The geometry, or a baseline
    #[arg(long, value_enum, default_value_t = RankingLearner::Loreta)]
    learner: RankingLearner,

    /// Rank of W, at most the number of features and that of labels
    #[arg(long, default_value_t = 50)]
    rank: usize,

    /// Rows to learn from, one after the other [default: 10 passes]
    #[arg(long, conflicts_with = "epochs")]
    steps: Option<u64>,

    /// The same in passes over the rows
    #[arg(long)]
    epochs: Option<u64>,

    /// Step size, not for `passive-aggressive` [default: the best of seven in a short pre-training
    /// run]
    #[arg(long, value_name = "S")]
    step_size: Option<f64>,

    /// Largest relative change of W that one step may make; `inf` for none
    #[arg(long, value_name = "S", default_value_t = rankfold::online::Step::LIMIT)]
    step_limit: f64,

    /// Let the step shrink: after T rows it is half as long, after 2T a third; not for
    /// `passive-aggressive`
    #[arg(long, value_name = "T")]
    decay: Option<f64>,

    /// Longest step of `passive-aggressive`, which chooses its own
    #[arg(long, value_name = "C", default_value_t = 0.1)]
    aggressiveness: f64,

    /// The wrong label that is learned from: the best scoring one, or one drawn at random that
    /// violates the margin
    #[arg(long, value_enum, default_value_t = SamplerName::Top)]
    sampler: SamplerName,

    /// How the wrong label weighs where several right ones score too low: once, or once for each
    #[arg(long, value_enum, default_value_t = GradientName::Single)]
    gradient: GradientName,

    /// Steps of the biases, as a share of those of W; 0 leaves them where they start [default: .001,
    /// with WARP .01]
    #[arg(long, value_name = "B")]
    bias: Option<f64>,

    /// Biases start at P times the logarithm of the share of rows with the label [default: .05, with
    /// WARP .2]
    #[arg(long, value_name = "P")]
    popularity: Option<f64>,

    /// Keep the average of W and the biases over the run, later ones weighing more, not the last ones
    #[arg(long)]
    average: bool,

    /// Where W starts: gradient steps from zero cut to the rank, pairs of features and labels that go
    /// together, or random
    #[arg(long, value_enum, default_value_t = InitName::Zero)]
    init: InitName,

    /// The order of the rows: another one in each pass, or as in DATA
    #[arg(long, value_enum, default_value_t = OrderName::Shuffled)]
    order: OrderName,

    #[command(flatten)]
    shared: SharedOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum RankingLearner {
    /// LORETA on all matrices of rank k
    Loreta,
    /// Passive-aggressive steps on two factors
    PassiveAggressive,
    /// Gradient steps on a full matrix
    Perceptron,
    /// Mirror descent on a full matrix whose rows are groups
    GroupPerceptron,
}

impl From<RankingLearner> for Rule {
    fn from(name: RankingLearner) -> Self {
        match name {
            RankingLearner::Loreta => Rule::Loreta,
            RankingLearner::PassiveAggressive => Rule::PassiveAggressive,
            RankingLearner::Perceptron => Rule::Perceptron,
            RankingLearner::GroupPerceptron => Rule::GroupPerceptron,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum SamplerName {
    /// The best scoring wrong label
    Top,
    /// Wrong labels are drawn until one violates the margin
    Warp,
}

#[derive(Clone, Copy, ValueEnum)]
enum GradientName {
    /// The wrong label weighs once
    Single,
    /// It weighs as often as there are violated right ones
    Summed,
}

#[derive(Clone, Copy, ValueEnum)]
enum OrderName {
    Shuffled,
    Given,
}

impl TrainRanking {
    pub fn run(self, output: &Output) -> Result<()> {
        match self.shared.precision.unwrap_or(Precision::F32) {
            Precision::F32 => self.train::<f32>(output),
            Precision::F64 => self.train::<f64>(output),
        }
    }

    fn options(&self) -> Ranking {
        let mut options = Ranking::new(self.learner.into())
            .rank(self.rank)
            .aggressiveness(self.aggressiveness)
            .sampler(match self.sampler {
                SamplerName::Top => Sampler::Top,
                SamplerName::Warp => Sampler::Warp,
            })
            .gradient(match self.gradient {
                GradientName::Single => Subgradient::Single,
                GradientName::Summed => Subgradient::Summed,
            })
            .average(self.average)
            .init(match self.init {
                InitName::Identity => Init::Identity,
                InitName::Gaussian => Init::Gaussian,
                InitName::Zero => Init::Zero,
            })
            .order(match self.order {
                OrderName::Shuffled => Order::Shuffled,
                OrderName::Given => Order::Given,
            })
            .seed(self.shared.seed)
            .step_limit((self.step_limit != f64::INFINITY).then_some(self.step_limit))
            .valid_fraction(self.shared.valid_fraction)
            .threads(self.shared.threads())
            .preprocess(self.shared.preprocess());
        if let Some(share) = self.bias {
            options = options.bias(share);
        }
        if let Some(weight) = self.popularity {
            options = options.popularity(weight);
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
        if let Some(rows) = self.decay {
            options = options.decay(rows);
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
        self.shared.check(
            &self.output,
            &[
                Some(&self.data),
                self.label_names.as_deref(),
                self.vocabulary.as_deref(),
            ],
        )
    }

    fn train<R: Real>(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        self.check()?;
        let options = self.options();
        options.check()?;
        let vocabulary = self.vocabulary.as_ref().map(Vocabulary::load).transpose()?;
        let names = self
            .label_names
            .as_ref()
            .map(read_label_names)
            .transpose()?;
        let source = self.fields.of(&self.data);
        let data = read_rows::<R>(&source, vocabulary.as_ref(), None)?;
        let mut data = named(data, names.as_ref(), &self.data)?;
        let valid = self.shared.valid.as_ref().map(|path| {
            let source = self.fields.of_all(path);
            let valid = read_rows::<R>(&source, vocabulary.as_ref(), None)?;
            named(valid, names.as_ref(), path)
        });
        let valid = valid.transpose()?;
        if let Some(vocabulary) = vocabulary {
            let with = data.with_vocabulary(vocabulary);
            data = with.map_err(|e| e.in_file(&self.data))?;
        }
        let resumed = self.shared.resumed(output)?;
        let mut earlier = 0.0;
        let session = match resumed {
            Some((path, checkpoint)) => {
                earlier = checkpoint.seconds();
                RankingSession::resume(&options, &data, valid.as_ref(), checkpoint)
                    .map_err(|e| e.in_file(path))?
            }
            None => RankingSession::new(&options, &data, valid.as_ref())
                .map_err(|e| e.in_file(&self.data))?,
        };
        drop(valid);
        let skipped = session.skipped();
        if skipped > 0 {
            output.note(&format!(
                "{skipped} rows are not learned from: they have no labels, or all of them"
            ));
        }
        let trials = session.step_trials();
        if !trials.is_empty() {
            let listed = trials.iter().map(|(size, map)| format!("{size}: {map:.4}"));
            let listed: Vec<String> = listed.collect();
            output.note(&format!(
                "step size {} chosen; mAP on held-out rows: {}",
                session.step_size(),
                listed.join(", ")
            ));
        }
        let (rule, skipped) = (options.rule(), Some(skipped));
        let times = (start, earlier);
        let drive = self
            .shared
            .drive(output, &self.output, rule, skipped, times);
        drive.run(session)
    }
}

/// The same rows with names for their labels, where there are some.
fn named<R: Real>(data: Labelled<R>, names: Option<&Ids>, path: &Path) -> Result<Labelled<R>> {
    match names {
        None => Ok(data),
        Some(names) => {
            let data = data.with_label_names(names.clone());
            data.map_err(|e| e.in_file(path))
        }
    }
}
