//! `rankfold predict`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use rankfold::data::Pairs;
use rankfold::form::Side;
use rankfold::model::Precise;
use rankfold::{Model, Real, Result};
use serde_json::json;

use crate::output::Output;
use crate::paths;
use crate::predict_labels::RowsAndLabels;
use crate::rows::{Fields, NamedRows, check_objects, not_for_ranking};
use crate::train::ScoreName;

/// Score pairs of rows
///
/// Reads lines `left right` of row ids, separated by a tab or by spaces, and
/// prints the score of each pair on a line of its own, in their order. Of a row
/// that is not in DATA nothing is known, so its scores are 0; such pairs are
/// counted. With --objects a pair is a row of DATA and an object.
///
/// For a model that ranks labels a pair is a row of DATA and a label. A row that is
/// not there scores the bias of the label, an unknown label that of a label never
/// seen.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold predict model.safetensors pairs.txt --rows rows.svm
  rankfold predict model.safetensors pairs.txt --rows people.csv --objects films.csv
  rankfold predict labels.safetensors row-label.txt --rows rows.svm
      for a model of `train ranking`
  echo '17 4' | rankfold predict model.safetensors - --rows rows.svm --strict")]
pub struct Predict {
    /// The model
    model: PathBuf,

    /// Pairs of row ids, `left right` a line; `-` is stdin
    input: PathBuf,

    /// The rows that are named: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst) or .npz
    #[arg(long, value_name = "DATA")]
    rows: PathBuf,

    /// What the right names of pairs mean: the objects of a model that has some, or other rows
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

    #[command(flatten)]
    fields: Fields,

    /// How two rows are scored [default: as the model says]
    #[arg(long, value_enum)]
    score: Option<ScoreName>,

    /// An id that no row has is an error
    #[arg(long)]
    strict: bool,
}

impl Predict {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        paths::one_stdin(&[Some(&self.input), Some(&self.rows), self.objects.as_deref()])?;
        let model = Model::load(&self.model)?;
        if model.prior.is_some() {
            not_for_ranking(&[
                ("--objects", self.objects.is_some()),
                (
                    "--score cosine",
                    matches!(self.score, Some(ScoreName::Cosine)),
                ),
            ])?;
            return self.labels(&model, start).run(output);
        }
        check_objects(&model, &self.model, self.objects.as_ref())?;
        match &model.form {
            Precise::F32(_) => self.score_pairs::<f32>(&model, start, output),
            Precise::F64(_) => self.score_pairs::<f64>(&model, start, output),
        }
    }

    /// What a model that ranks labels is asked for.
    fn labels<'a>(&'a self, model: &'a Model, start: Instant) -> RowsAndLabels<'a> {
        RowsAndLabels {
            model,
            input: &self.input,
            rows: self.fields.of(&self.rows),
            strict: self.strict,
            start,
        }
    }

    fn score_pairs<R: Real>(&self, model: &Model, start: Instant, output: &Output) -> Result<()> {
        let rows = NamedRows::<R>::read(model, &self.fields.of(&self.rows), Side::Left, output)?;
        let objects = self.objects.as_ref().map(|path| {
            NamedRows::<R>::read(model, &self.fields.of_all(path), Side::Right, output)
        });
        let objects = objects.transpose()?;
        let lookup = rows.lookup();
        let of_objects = objects
            .as_ref()
            .map(|objects| objects.lookup().of_objects());
        let of_objects = of_objects.as_ref().unwrap_or(&lookup);
        let score = self.score.map(Into::into);
        let projection = match &objects {
            None => model.project(&rows.prepared, score),
            Some(objects) => model.project_between(&rows.prepared, &objects.prepared, score),
        };
        let projection = projection.map_err(|e| e.in_file(&self.model))?;

        let mut pairs = Pairs::open(&self.input)?;
        let mut unknown = 0_u64;
        let mut next = || -> Result<Option<f64>> {
            let Some(named) = pairs.next().transpose()? else {
                return Ok(None);
            };
            let pair = if self.strict {
                let found = pairs.resolve_between(&named, &lookup, of_objects)?;
                found.map(Some)
            } else {
                pairs.resolve_known_between(&named, &lookup, of_objects)?
            };
            Ok(Some(match pair {
                [Some(left), Some(right)] => projection.score(left, right),
                _ => {
                    unknown += 1;
                    0.0
                }
            }))
        };
        if output.is_json() {
            let mut scores = Vec::new();
            while let Some(score) = next()? {
                scores.push(score);
            }
            let report = json!({
                "format": 1,
                "task": model.card.task,
                "score": score.unwrap_or(model.card.score).name(),
                "scores": scores,
                "unknown": unknown,
                "seconds": start.elapsed().as_secs_f64(),
            });
            return output.result(&report, "");
        }
        let mut out = output.stream()?;
        while let Some(score) = next()? {
            out.put(format!("{score}\n").as_bytes())?;
        }
        out.commit()?;
        if unknown > 0 {
            output.note(&format!(
                "{unknown} pairs name a row that is not there; their score is 0"
            ));
        }
        Ok(())
    }
}
