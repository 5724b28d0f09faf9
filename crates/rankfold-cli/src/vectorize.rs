//! `rankfold vectorize`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use rankfold::Result;
use rankfold::data::Condition;
use rankfold::data::text::{
    Documents, FitOptions, Strip, TermFrequency, Vocabulary, fit_file, vectorize_file,
};
use serde_json::json;

use crate::output::Output;
use crate::paths;

/// Turn texts into sparse rows, weighted by tf-idf
///
/// Words are runs of at least two letters, lower-cased, without the usual 318
/// English stop words. `--fit` learns the vocabulary: the words of at least
/// `--min-df` documents, ordered by the information they give about the
/// labels. `--vocabulary` uses one again, so that other documents get the same
/// columns. Rows have length 1.
///
/// Labels that are numbers are written as they are. Other labels become class
/// numbers in alphabetical order, which the vocabulary keeps; a label that it
/// does not know is an error.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold vectorize news.jsonl -o train.svm --where split=train --fit news.json --features 10000
  rankfold vectorize news.jsonl -o test.svm --where split=test --vocabulary news.json")]
pub struct Vectorize {
    /// JSON lines, one document each, plain, .gz or .zst; `-` is stdin
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
    #[arg(long, value_name = "N", conflicts_with = "vocabulary",
        value_parser = clap::value_parser!(u32).range(1..))]
    min_df: Option<u32>,

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

    /// The field of the text
    #[arg(long, value_name = "FIELD", default_value = "text")]
    text: String,

    /// The field of the label
    #[arg(long, value_name = "FIELD", default_value = "label")]
    label: String,

    /// Name the rows by this field, at the end of each line
    #[arg(long, value_name = "FIELD")]
    id: Option<String>,
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
            path: self.input,
            text: self.text,
            label: self.label,
            id: self.id,
            condition: self.condition,
            strict: true,
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
