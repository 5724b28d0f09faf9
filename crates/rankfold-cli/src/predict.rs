//! `rankfold predict`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use rankfold::data::text::Documents;
use rankfold::data::{PairsOrTriplets, Relations, RowLookup};
use rankfold::form::Side;
use rankfold::model::{Estimate, Knowledge, Precise};
use rankfold::{Error, Model, Real, Result, Score};
use serde_json::json;

use crate::given::fields_of;
use crate::output::{Output, not_finite};
use crate::paths;
use crate::predict_choices::ScoredChoices;
use crate::predict_classes::RowsAndClasses;
use crate::predict_labels::RowsAndLabels;
use crate::predict_ratings::UsersAndItems;
use crate::predict_tasks::TasksAndRows;
use crate::rows::{Fields, NamedRows, ScoreName, choice_columns, needs_objects, rating_columns};
use crate::task_columns::ColumnsOfTasks;
use crate::uncertainty::Uncertainty;

/// Score pairs of rows, triplets, or rows with labels
///
/// Reads lines `left right` of row ids, separated by a tab or by spaces, and
/// prints the score of each pair on a line of its own, in their order. Of a row
/// that is not in DATA nothing is known, so its scores are 0; such pairs are
/// counted. With --objects a pair is a row of DATA and an object. A model of `train
/// pairs` predicts values; of unknown rows the mean of those in training.
///
/// For a metric the score is the distance of the two rows; that of an unknown row is
/// not a number. With --train the input has rows, and a line is printed for each: its id, the
/// class that most of its nearest training rows have, and their share. A kernel has distances as well, of its own items, and needs no rows.
///
/// Where lines have three ids, `query positive negative`, the score is by how much
/// the positive is above the negative. The first line tells which it is.
///
/// For a model that ranks labels a pair is a row of DATA and a label. A row that is
/// not there scores the bias of the label, an unknown label that of a label never
/// seen.
///
/// For a model of ratings a line is `user item`, in any of the forms that ratings
/// have, and what comes after is ignored. Of a user or an item that the model does
/// not know, what it knows of the other is printed; such lines are counted.
///
/// For a model of tasks the lines are rows with their task, as in training, and the target of
/// each is printed. Of a task that the model does not know, what tasks have in common is used; such
/// rows are counted.
///
/// With --uncertainty, for models of AROMA and ratings of `bayes`, a line is `score sd
/// low high`, and for triplets `score sd low high probability`: the probability that
/// the positive ranks above the negative. For ratings `sd` is that of what the user
/// would say, noise included.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold predict model.safetensors pairs.txt --rows rows.svm
  rankfold predict aroma.safetensors triplets.txt --rows rows.svm --uncertainty
  rankfold predict model.safetensors pairs.txt --rows people.csv --objects films.csv
  rankfold predict labels.safetensors row-label.txt --rows rows.svm
      for a model of `train ranking`
  rankfold predict ratings.safetensors user-item.csv
      for a model of `train completion`
  rankfold predict metric.safetensors pairs.txt --rows rows.csv
      distances, for a model of `train metric`
  rankfold predict metric.safetensors new.csv --train rows.csv
      classes of new rows by their 5 nearest training rows
  rankfold predict kernel.safetensors pairs.txt
      distances of items, for a model of `train kernel`
  rankfold predict tasks.safetensors rows.csv
      targets, for a model of `train multitask`
  echo '17 4' | rankfold predict model.safetensors - --rows rows.svm --strict")]
pub struct Predict {
    /// The model
    model: PathBuf,

    /// Pairs of row ids, `left right` a line, or triplets `query positive negative`; `-` is stdin
    input: PathBuf,

    /// The rows that are named: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst), .parquet, .arrow or .npz
    /// [needed for all models but those of ratings and kernels]
    #[arg(long, value_name = "DATA")]
    rows: Option<PathBuf>,

    /// Rows with classes, for a metric: the lines of the input are then rows, and the class of each
    /// is what most of its nearest rows here have
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rows", "objects", "strict"])]
    train: Option<PathBuf>,

    /// Nearest rows that vote, with --train [default: 5]
    #[arg(long, value_name = "K", requires = "train",
        value_parser = clap::value_parser!(u32).range(1..))]
    neighbors: Option<u32>,

    /// What the right names of pairs mean: the objects of a model that has some, or other rows
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

    #[command(flatten)]
    fields: Fields,

    /// How two rows are scored [default: as the model says]
    #[arg(long, value_enum)]
    score: Option<ScoreName>,

    /// The columns of users and items, for a model of ratings or recommendations [default: user,item]
    #[arg(long, value_name = "USER,ITEM,…")]
    columns: Option<String>,

    #[command(flatten)]
    tasks: ColumnsOfTasks,

    #[command(flatten)]
    uncertainty: Uncertainty,

    /// An id that no row has is an error
    #[arg(long)]
    strict: bool,
}

impl Predict {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        paths::one_stdin(&[
            Some(&self.input),
            self.rows.as_deref(),
            self.objects.as_deref(),
            self.train.as_deref(),
        ])?;
        let model = Model::load(&self.model)?;
        let own: &[&str] = match &model.knowledge {
            Knowledge::Similarity(_) | Knowledge::Pairs { .. } => {
                &["rows", "objects", "score", "uncertainty", "level"]
            }
            Knowledge::Metric => &["rows", "objects", "train", "neighbors"],
            Knowledge::Ranking(_) => &["rows"],
            Knowledge::Kernel(_) | Knowledge::Map(_) => &["rows"],
            Knowledge::Completion(_) => &["columns", "uncertainty", "level"],
            Knowledge::Recommend(_) => &["columns"],
            Knowledge::Multitask(_) => &["task_column", "target_column", "ignore_column"],
        };
        let fields = fields_of(&model);
        let always = ["model", "input", "strict"];
        output
            .given
            .only(&model, &always, &[own, fields].concat())?;
        let rows = || {
            self.rows
                .as_deref()
                .ok_or_else(|| Error::input("--rows is needed: it has the rows that are named"))
        };
        match &model.knowledge {
            Knowledge::Recommend(_) => {
                let columns = choice_columns(self.columns.as_deref(), false, Some(&model), output)?;
                let pairs = ScoredChoices {
                    model: &model,
                    model_file: &self.model,
                    input: &self.input,
                    columns: &columns,
                    strict: self.strict,
                    start,
                };
                pairs.run(output)
            }
            Knowledge::Completion(_) => {
                let text = self.columns.as_deref();
                let columns = rating_columns(text, false, Some(&model), output)?;
                let pairs = UsersAndItems {
                    model: &model,
                    model_file: &self.model,
                    input: &self.input,
                    columns: &columns,
                    uncertainty: &self.uncertainty,
                    strict: self.strict,
                    start,
                };
                pairs.run(output)
            }
            Knowledge::Multitask(known) => {
                let rows = TasksAndRows {
                    model: &model,
                    model_file: &self.model,
                    input: &self.input,
                    columns: self.tasks.or(Some(&known.card), output),
                    strict: self.strict,
                    start,
                };
                rows.run(output)
            }
            Knowledge::Ranking(_) => self.labels(&model, rows()?, start, output).run(output),
            Knowledge::Kernel(_) | Knowledge::Map(_) => {
                self.score_pairs_of(&model, None, start, output)
            }
            Knowledge::Metric if self.train.is_some() => {
                let train = self.train.as_deref().expect("checked above");
                let classes = RowsAndClasses {
                    model: &model,
                    rows: self.fields.of(&self.input, output),
                    train: Documents {
                        labelled: true,
                        ..self.fields.of_all(train, output)
                    },
                    neighbors: self.neighbors.unwrap_or(5) as usize,
                    start,
                };
                classes.run(output)
            }
            Knowledge::Similarity(_) | Knowledge::Metric | Knowledge::Pairs { .. } => {
                let rows = rows()?;
                needs_objects(&model, &self.model, self.objects.as_ref())?;
                self.score_pairs_of(&model, Some(rows), start, output)
            }
        }
    }

    fn score_pairs_of(
        &self,
        model: &Model,
        rows: Option<&Path>,
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        match &model.form {
            Precise::F32(_) => self.score_pairs::<f32>(model, rows, start, output),
            Precise::F64(_) => self.score_pairs::<f64>(model, rows, start, output),
        }
    }

    /// What a model that ranks labels is asked for.
    fn labels<'a>(
        &'a self,
        model: &'a Model,
        rows: &Path,
        start: Instant,
        output: &Output,
    ) -> RowsAndLabels<'a> {
        RowsAndLabels {
            model,
            input: &self.input,
            rows: self.fields.of(rows, output),
            strict: self.strict,
            start,
        }
    }

    fn score_pairs<R: Real>(
        &self,
        model: &Model,
        data: Option<&Path>,
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        let rows = match data {
            Some(data) => {
                NamedRows::<R>::read(model, &self.fields.of(data, output), Side::Left, output)?
            }
            None => NamedRows::<R>::items(model, self.rows.as_deref())?,
        };
        let objects = self.objects.as_ref().map(|path| {
            NamedRows::<R>::read(
                model,
                &self.fields.of_all(path, output),
                Side::Right,
                output,
            )
        });
        let objects = objects.transpose()?;
        let lookup = match data {
            Some(_) => rows.lookup(),
            None => rows.lookup().of_items(),
        };
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

        let confidence = match self.uncertainty.wanted {
            true => {
                let found = model.confidence(&rows.prepared, objects.as_ref().map(|o| &o.prepared));
                Some(found.map_err(|e| e.in_file(&self.model))?)
            }
            false => None,
        };

        let mut lines = PairsOrTriplets::open(&self.input)?;
        // What is predicted where nothing is known.
        let distances = model.card.score == Score::Distance;
        let otherwise = match distances {
            true => f64::NAN,
            false => model.target_mean().unwrap_or(0.0),
        };
        let triplets = matches!(lines, PairsOrTriplets::Triplets(_));
        let mut unknown = 0_u64;
        let mut next = || -> Result<Option<(f64, Option<Estimate>)>> {
            let known = match &mut lines {
                PairsOrTriplets::Pairs(pairs) => {
                    let found = self.rows_of(pairs, &lookup, of_objects)?;
                    found.map(|(line, named)| {
                        (
                            line,
                            match named {
                                [Some(left), Some(right)] => {
                                    let mean = projection.score(left, right);
                                    let sd = confidence.as_ref().map(|c| c.deviation(left, right));
                                    Some((mean, sd.map(|sd| Estimate { mean, sd })))
                                }
                                _ => None,
                            },
                        )
                    })
                }
                PairsOrTriplets::Triplets(triplets) => {
                    let found = self.rows_of(triplets, &lookup, of_objects)?;
                    found.map(|(line, named)| {
                        (
                            line,
                            match named {
                                [Some(query), Some(positive), Some(negative)] => Some((
                                    {
                                        let [p, n] = [positive, negative]
                                            .map(|row| projection.score(query, row));
                                        // The nearer of two is above the other.
                                        if distances { n - p } else { p - n }
                                    },
                                    confidence
                                        .as_ref()
                                        .map(|c| c.triplet(query, positive, negative)),
                                )),
                                _ => None,
                            },
                        )
                    })
                }
            };
            match known {
                None => Ok(None),
                Some((_, None)) => {
                    unknown += 1;
                    Ok(Some((otherwise, None)))
                }
                Some((_, Some((score, estimate))))
                    if score.is_finite() && estimate.is_none_or(|e| e.sd.is_finite()) =>
                {
                    Ok(Some((score, estimate)))
                }
                Some((line, _)) => Err(not_finite("this line").in_file(&self.input).at_line(line)),
            }
        };
        if output.is_json() {
            let (mut scores, mut estimates) = (Vec::new(), Vec::new());
            while let Some((score, estimate)) = next()? {
                scores.push(score);
                estimates.push(estimate);
            }
            let mut report = json!({
                "format": 1,
                "task": model.task(),
                "score": score.unwrap_or(model.card.score).name(),
                "scores": scores,
                "unknown": unknown,
                "seconds": start.elapsed().as_secs_f64(),
            });
            if self.uncertainty.wanted {
                let column = |of: &dyn Fn(Estimate) -> f64| -> Vec<Option<f64>> {
                    estimates.iter().map(|e| e.map(of)).collect()
                };
                report["sd"] = json!(column(&|e| e.sd));
                report["low"] = json!(column(&|e| self.uncertainty.interval(&e).0));
                report["high"] = json!(column(&|e| self.uncertainty.interval(&e).1));
                if triplets {
                    report["probability"] = json!(column(&|e| e.above_zero()));
                }
            }
            return output.result(&report, "");
        }
        let mut out = output.stream()?;
        while let Some((score, estimate)) = next()? {
            let mut line = score.to_string();
            if self.uncertainty.wanted {
                line += &match estimate {
                    Some(estimate) => self.uncertainty.columns(&estimate),
                    // Nothing is known of a row that is not there.
                    None => "\tinf\t-inf\tinf".to_owned(),
                };
                if triplets {
                    let probability = estimate.map_or(0.5, |e| e.above_zero());
                    line += &format!("\t{probability}");
                }
            }
            line.push('\n');
            out.put(line.as_bytes())?;
        }
        out.commit()?;
        if unknown > 0 {
            let what = if triplets { "triplets" } else { "pairs" };
            let thing = if data.is_some() { "a row" } else { "an item" };
            output.note(&format!(
                "{unknown} {what} name {thing} that is not there; their score is {otherwise}"
            ));
        }
        Ok(())
    }

    /// The next line and the rows that it names, `None` at the end of the file.
    fn rows_of<const N: usize>(
        &self,
        lines: &mut Relations<N>,
        rows: &RowLookup<'_>,
        objects: &RowLookup<'_>,
    ) -> Result<Option<(u64, [Option<usize>; N])>> {
        let Some(named) = lines.next().transpose()? else {
            return Ok(None);
        };
        let found = match self.strict {
            true => lines.resolve_between(&named, rows, objects)?.map(Some),
            false => lines.resolve_known_between(&named, rows, objects)?,
        };
        Ok(Some((named.line, found)))
    }
}
