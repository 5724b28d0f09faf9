//! `rankfold train similarity`.

use std::path::{Path, PathBuf};

use clap::Args;
use rankfold::data::text::{Documents, Vocabulary};
use rankfold::data::{Labelled, Triplets};
use rankfold::options::Options;
use rankfold::sample::{Given, Triplet};
use rankfold::task::{SimilarityData, TrainingData};
use rankfold::{Error, Real, Result, Similarity};

use crate::drive::Drive;
use crate::output::Output;
use crate::page::maps;
use crate::rows::{Fields, placed, read_rows};
use crate::shared_options::{Precision, RunFiles, in_precision};
use crate::table::Table;

/// Learn which rows are alike
///
/// Learns a low-rank matrix W that scores pairs of rows, score = leftᵀ W right,
/// from triplets "the query is more like the positive than like the negative".
/// Triplets are drawn from the labels of the rows, or read with --triplets.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train similarity train.svm -o model.safetensors
      rank 30, or more where there are more classes; triplets from the labels; the start, the
      score and the length chosen on held-out rows
  rankfold train similarity train.svm -o m.safetensors --rank 10 --steps 500000 --seed 1 \\
      --valid-fraction 0.1 --patience 3 --curve curve.jsonl
      keeps the best model by mAP on a tenth of the rows, stops when it no longer improves
  rankfold train similarity train.svm -o m.safetensors --negatives hard --decay 100000
      learns from the rows that are easily taken for alike, with a step that shrinks
  rankfold train similarity train.svm -o m.safetensors --checkpoint run.ckpt --resume run.ckpt
      goes on where it was stopped; the first time it starts from the beginning
  rankfold train similarity rows.csv -o m.safetensors --standardize global --triplets clicks.txt
  rankfold train similarity news.jsonl -o m.safetensors --vocabulary news.json --where split=train
      documents; the model keeps the vocabulary, so that later commands take documents as well
  rankfold train similarity rows.npy -o m.safetensors --labels labels.txt --normalize l2
      an array from NumPy; .npz may hold the labels itself, as `y`
  rankfold train similarity train.svm -o m.safetensors --learner aroma-factored --valid-fraction 0.1
      learns how sure it is as well: see --uncertainty of predict and neighbors
  rankfold train similarity people.csv --objects films.csv -o m.safetensors --rank 10 --triplets likes.txt
      two kinds of things: lines such as `ann alien titanic`, a row and two objects")]
pub struct TrainSimilarity {
    /// Labeled rows: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst), .parquet, .arrow or .npz; `-` is svmlight from stdin
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

    /// Positives and negatives, when they are other things than the rows of DATA: rows in any
    /// format of DATA, with features of their own; labels are matched by name
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

    /// The labels of the objects, as with --labels
    #[arg(long, value_name = "FILE", requires = "objects")]
    object_labels: Option<PathBuf>,

    /// Learn from these triplets of row ids, `query positive negative` a line; `-` is stdin. With
    /// --objects the last two are ids of objects
    #[arg(long, value_name = "FILE")]
    triplets: Option<PathBuf>,

    /// The labels of the validation rows, as with --labels
    #[arg(long, value_name = "FILE", requires = "valid")]
    valid_labels: Option<PathBuf>,

    /// How tall factors are stored
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,

    #[command(flatten)]
    files: RunFiles,

    #[command(flatten)]
    options: Table<Similarity>,
}

impl TrainSimilarity {
    pub fn run(self, output: &Output) -> Result<()> {
        in_precision!(self.precision, self.train(output))
    }

    fn train<R: Real>(self, output: &Output) -> Result<()> {
        let drive = Drive::new(output, &self.output, &self.files, Similarity::TASK)
            .starting(self.options.1.as_ref());
        let options = &self.options.0;
        self.files.check(
            &self.output,
            &[
                Some(&self.data),
                self.triplets.as_deref(),
                self.labels.as_deref(),
                self.valid_labels.as_deref(),
                self.vocabulary.as_deref(),
                self.objects.as_deref(),
                self.object_labels.as_deref(),
                self.options.start_file(),
            ],
        )?;
        options.check()?;
        let vocabulary = self.vocabulary.as_ref().map(Vocabulary::load).transpose()?;
        let source = match self.labels.is_some() || self.triplets.is_some() {
            true => self.fields.of(&self.data, output),
            false => self.fields.of_labelled(&self.data, output),
        };
        let mut rows = read_rows::<R>(&source, vocabulary.as_ref(), self.labels.as_ref())?;
        let objects = self.objects.as_ref().map(|path| {
            let source = self.fields.of_all(path, output);
            read_rows::<R>(&source, None, self.object_labels.as_ref())
        });
        let objects = objects.transpose()?;
        let listed = self.triplets.as_ref();
        let listed = listed.map(|path| read_triplets(path, &rows, objects.as_ref()));
        let listed = listed.transpose()?;
        let valid = self.files.valid.as_ref().map(|path| {
            let source = Documents {
                labelled: self.valid_labels.is_none(),
                ..self.fields.of_all(path, output).knowing(&rows.features)
            };
            read_rows::<R>(&source, vocabulary.as_ref(), self.valid_labels.as_ref())
        });
        let valid = valid.transpose()?;
        if let Some(vocabulary) = vocabulary {
            let with = rows.with_vocabulary(vocabulary);
            rows = with.map_err(|e| e.in_file(&self.data))?;
        }
        let data = SimilarityData {
            data: TrainingData {
                rows: &rows,
                objects: objects.as_ref(),
            },
            triplets: listed.map(Given::List),
            valid: valid.as_ref(),
        };
        drive.run_showing(
            |run| options.fit_with(data, run),
            |e| placed(e, &self.data, self.objects.as_ref()),
            |model| Ok(vec![maps::of_rows(model, &rows, rows.rows.len())?]),
        )
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
