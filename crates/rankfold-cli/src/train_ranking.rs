//! `rankfold train ranking`.

use std::path::{Path, PathBuf};

use clap::Args;
use rankfold::data::text::{Documents, Vocabulary};
use rankfold::data::{Labelled, read_label_names};
use rankfold::options::Options;
use rankfold::task::RankingData;
use rankfold::{Ids, Ranking, Real, Result};

use crate::drive::Drive;
use crate::output::Output;
use crate::rows::{Fields, read_rows};
use crate::shared_options::{Precision, RunFiles, in_precision};
use crate::table::Table;

/// Learn to rank labels
///
/// Learns a low-rank matrix W and a bias a label, score = rowᵀ W label + bias, from
/// rows that carry several labels each: labels of a row should score above all others.
/// It starts from ridge regression in closed form and goes on with one row after the
/// other; what is not given is chosen on held-out rows. Rows without labels are counted
/// and left out.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train ranking train.svm -o model.safetensors
      labels are comma-separated numbers; weights, scales, rank and length are chosen
  rankfold train ranking train.svm -o m.safetensors --label-names labels.txt --rank 100 --seed 1 \\
      --valid-fraction 0.1 --curve curve.jsonl
      label 0 has the name in the first line of labels.txt; keeps the best model by mAP on a tenth
      of the rows
  rankfold train ranking train.svm -o m.safetensors --init zero --sampler warp --average --epochs 40
      from nothing, one row after the other
  rankfold train ranking train.svm -o m.safetensors --learner perceptron --step-size 0.1
      a full matrix, to compare with")]
pub struct TrainRanking {
    /// Rows with labels: .svm, .csv, .tsv, .jsonl (plain, .gz or .zst), .parquet, .arrow or .npz; `-` is svmlight from stdin
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

    /// How tall factors are stored
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,

    #[command(flatten)]
    files: RunFiles,

    #[command(flatten)]
    options: Table<Ranking>,
}

impl TrainRanking {
    pub fn run(self, output: &Output) -> Result<()> {
        in_precision!(self.precision, self.train(output))
    }

    fn train<R: Real>(self, output: &Output) -> Result<()> {
        let drive = Drive::new(output, &self.output, &self.files, Ranking::TASK)
            .starting(self.options.1.as_ref());
        let options = &self.options.0;
        self.files.check(
            &self.output,
            &[
                Some(&self.data),
                self.label_names.as_deref(),
                self.vocabulary.as_deref(),
                self.options.start_file(),
            ],
        )?;
        options.check()?;
        let vocabulary = self.vocabulary.as_ref().map(Vocabulary::load).transpose()?;
        let names = self.label_names.as_ref().map(read_label_names);
        let names = names.transpose()?;
        let source = self.fields.of_labelled(&self.data, output);
        let rows = read_rows::<R>(&source, vocabulary.as_ref(), None)?;
        let mut rows = named(rows, names.as_ref(), &self.data)?;
        let valid = self.files.valid.as_ref().map(|path| {
            let source = Documents {
                labelled: true,
                ..self.fields.of_all(path, output).knowing(&rows.features)
            };
            let valid = read_rows::<R>(&source, vocabulary.as_ref(), None)?;
            named(valid, names.as_ref(), path)
        });
        let valid = valid.transpose()?;
        if let Some(vocabulary) = vocabulary {
            let with = rows.with_vocabulary(vocabulary);
            rows = with.map_err(|e| e.in_file(&self.data))?;
        }
        let data = RankingData {
            rows: &rows,
            valid: valid.as_ref(),
        };
        drive.run(|run| options.fit_with(data, run), |e| e.in_file(&self.data))
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
