//! `rankfold vectorize`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use rankfold::Result;
use rankfold::data::Condition;
use rankfold::data::text::{
    Alphabet, Documents, FitOptions, Lengths, StopWords, Strip, TermFrequency, TermRules,
    Vocabulary, fit_file, vectorize_file,
};
use serde_json::json;

use crate::output::Output;
use crate::paths;

/// Turn texts into sparse rows, weighted by tf-idf
///
/// Words have at least two letters and are lower-cased, without the usual 318 English stop words.
/// They are those of the Unicode standard, or of plain English text. `--fit` learns the vocabulary: the words of at least
/// `--min-df` documents, ordered by the information they give about the
/// labels. `--vocabulary` uses one again, so that other documents get the same
/// columns. Rows have length 1.
///
/// Labels that are numbers are written as they are. Other labels become class
/// numbers in alphabetical order, which the vocabulary keeps; a label that it
/// does not know is an error. In JSON lines `labels` may be a list, from which
/// unknown labels are left out with a note.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold vectorize news.jsonl -o train.svm --where split=train --fit news.json --features 10000
  rankfold vectorize news.jsonl -o test.svm --where split=test --vocabulary news.json")]
pub struct Vectorize {
    /// JSON lines, one document each, or a table with a column of texts in .csv or .tsv, plain, .gz
    /// or .zst, .parquet or .arrow; `-` is stdin
    #[arg(value_name = "IN.jsonl")]
    input: PathBuf,

    /// The svmlight file to write, plain, .gz or .zst; `-` is stdout
    #[arg(short, long, value_name = "OUT.svm")]
    output: PathBuf,

    /// Learn a vocabulary from the documents, and write it here
    #[arg(
        long,
        value_name = "V.json",
        required_unless_present = "vocabulary",
        conflicts_with = "vocabulary"
    )]
    fit: Option<PathBuf>,

    /// Use the vocabulary in this file
    #[arg(long, value_name = "V.json")]
    vocabulary: Option<PathBuf>,

    /// Keep the N terms that tell most about the labels [default: all]
    #[arg(long, value_name = "N", conflicts_with = "vocabulary",
        value_parser = clap::value_parser!(u32).range(1..))]
    features: Option<u32>,

    /// Keep terms that stand in at least N documents [default: 2]
    #[arg(long, alias = "min-documents", value_name = "N", conflicts_with = "vocabulary",
        value_parser = clap::value_parser!(u32).range(1..))]
    min_df: Option<u32>,

    /// Leave out terms that stand in more than this share of the documents, above 0 and up to 1
    #[arg(long, value_name = "SHARE", conflicts_with = "vocabulary", value_parser = share)]
    max_documents: Option<f64>,

    /// Words that are no terms: `english`, `none`, or a file with one a line [default: english]
    #[arg(long, value_name = "english|none|FILE", conflicts_with = "vocabulary")]
    stop_words: Option<String>,

    /// The letters of words: `plain` is a to z, `unicode` all of them [default: unicode, unless fewer
    /// than one in a hundred documents has other letters than a to z]
    #[arg(long, value_name = "plain|unicode", conflicts_with = "vocabulary")]
    alphabet: Option<Alphabet>,

    /// Leave out accents: `café` is `cafe`
    #[arg(long, conflicts_with = "vocabulary")]
    fold_accents: bool,

    /// Terms are so many words in a row, such as 1..2 [default: 1]
    #[arg(long, value_name = "A..B", conflicts_with = "vocabulary")]
    ngrams: Option<Lengths>,

    /// Terms are so many letters in a row instead, such as 2..4: for languages without spaces, and
    /// for misspelled words
    #[arg(long, value_name = "A..B", conflicts_with_all = ["vocabulary", "ngrams", "stop_words"])]
    characters: Option<Lengths>,

    /// Count a term tf times, or 1 + ln tf times [default: log]
    #[arg(long, conflicts_with = "vocabulary")]
    tf: Option<Tf>,

    /// Leave out parts of mail and news: headers, footers, quotes
    #[arg(
        long,
        value_name = "PARTS",
        value_delimiter = ',',
        conflicts_with = "vocabulary"
    )]
    strip: Vec<Strip>,

    /// Only documents with this value
    #[arg(long = "where", id = "condition", value_name = "FIELD=VALUE")]
    condition: Option<Condition>,

    /// The field or column of the text
    #[arg(long, value_name = "FIELD", default_value = "text")]
    text: String,

    /// The field or column of the label
    #[arg(long, value_name = "FIELD", default_value = "label")]
    label: String,

    /// Name the rows by this field, at the end of each line
    #[arg(long, value_name = "FIELD")]
    id: Option<String>,
}

fn share(text: &str) -> std::result::Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= 1.0);
    share.ok_or_else(|| "expected a share above 0, up to 1".to_owned())
}

#[derive(Clone, Copy, ValueEnum)]
enum Tf {
    Raw,
    Log,
}

impl Vectorize {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        paths::check(
            &[Some(&self.output), self.fit.as_deref()],
            &[Some(&self.input), self.vocabulary.as_deref()],
        )?;
        let documents = Documents {
            text: self.text,
            label: self.label,
            id: self.id,
            condition: self.condition,
            reading: output.reading.clone(),
            ..Documents::new(self.input)
        };
        let bar = output.progress("documents");
        let mut progress = |count| bar.set_position(count);
        let made = if let Some(path) = &self.vocabulary {
            let vocabulary = Vocabulary::load(path)?;
            vectorize_file(&documents, &vocabulary, &self.output, &mut progress)
        } else {
            let options = FitOptions {
                features: self.features.map(|n| n as usize),
                min_df: self.min_df.unwrap_or(2),
                tf: match self.tf {
                    Some(Tf::Raw) => TermFrequency::Raw,
                    Some(Tf::Log) | None => TermFrequency::Log,
                },
                strip: self.strip,
                max_share: self.max_documents,
                alphabet: self.alphabet,
                rules: TermRules {
                    alphabet: Alphabet::default(),
                    fold: self.fold_accents,
                    stop_words: StopWords::read(self.stop_words.as_deref().unwrap_or("english"))?,
                    words: self.ngrams.unwrap_or_default(),
                    letters: self.characters,
                },
            };
            let path = self.fit.as_deref().expect("clap asks for it");
            fit_file(&documents, options, path, &self.output, &mut progress)
        };
        bar.finish_and_clear();
        let made = made?;
        let json = json!({
            "format": 1,
            "rows": made.rows,
            "features": made.features,
            "nnz": made.nnz,
            "skipped": made.skipped,
            "seconds": start.elapsed().as_secs_f64(),
            "output": self.output.display().to_string(),
        });
        let text = format!(
            "{} rows, {} features, {} non-zeros, {} documents left out",
            made.rows, made.features, made.nnz, made.skipped
        );
        if self.output == Path::new("-") {
            output.result_beside_data(&json, &text);
            return Ok(());
        }
        output.result(&json, &text)
    }
}
