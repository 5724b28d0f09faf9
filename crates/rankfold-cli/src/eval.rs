//! `rankfold eval`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use rankfold::data::{Labelled, RatingColumns, Ratings};
use rankfold::form::Side;
use rankfold::model::Knowledge;
use rankfold::model::Precise;
use rankfold::task::{
    Control, Evaluate, Evaluation, LabelEvaluation, MetricEvaluation, PairsEvaluation,
};
use rankfold::{Error, Model, Real, Result};
use serde_json::{Value, json};

use crate::eval_kernel::EvalKernel;
use crate::eval_tasks::EvalTasks;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::paths;
use crate::rows::{Fields, check_objects, not_for_ranking, note_unknown, placed, read_rows};
use crate::task_columns::{ColumnsOfTasks, not_for_tasks, only_for_tasks};
use crate::train::ScoreName;
use crate::train_completion::not_for_ratings;
use crate::train_pairs::read_pairs;

/// Measure a model on held-out data, with a simple control beside it
///
/// Every row is a query against all other rows; rows with its label should
/// come first. Ties count against the model. The control is the cosine between
/// the rows themselves, after the preprocessing that the model keeps.
///
/// A ranking of labels is measured by where the labels of each row stand among
/// all; rows without labels are skipped and counted. The control is how often
/// labels occurred in training.
///
/// A model of ratings is measured by the root mean squared and the mean absolute
/// error of its predictions. The control is a mean and biases alone.
///
/// A model of pairs is measured by how far its values are from those of --pairs: the
/// root of the mean squared error, and the mean absolute one. The control is the mean
/// of the values in training.
///
/// A metric is measured by its k-NN error: how often the class of a row is not that of
/// most of its nearest rows of --train, or of DATA itself without --train. The controls
/// are Euclidean distances, and principal (PCA) and discriminant (LDA) directions, as
/// many as the rank.
///
/// A kernel is measured by the normalised mutual information (nmi) of the labels of its items
/// and the clusters that k-means finds. The controls are the kernel of the rows of DATA before
/// learning, and the same with items that training knew to be alike taken for one.
///
/// A model of tasks is measured by its nmse: the mean squared error of a task as a share of the
/// variance of all its targets, averaged over tasks. The control is the mean target of each task;
/// with --train also a ridge regression for all tasks (pooled), one for each task (ridge), and the
/// alternating minimisation of Argyriou, Evgeniou and Pontil, all fitted to those rows.
///
/// With --objects every row is a query against all objects, and objects with its
/// label should come first. Where rows and objects have features of their own,
/// there is no control.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold eval model.safetensors test.svm
  rankfold eval model.safetensors test.svm --score dot --json
  rankfold eval model.safetensors test.npy --labels test-labels.txt
  rankfold eval model.safetensors people.csv --objects films.csv
  rankfold eval ratings.safetensors test.csv
      for a model of `train completion`
  rankfold eval values.safetensors people.csv --objects films.csv --pairs test.tsv
      for a model of `train pairs`
  rankfold eval metric.safetensors test.csv --train train.csv
      for a model of `train metric`
  rankfold eval kernel.safetensors digits.csv
  rankfold eval kernel.safetensors --labels labels.txt --clusters 3
      for a model of `train kernel`: the items with their labels
  rankfold eval tasks.safetensors test.csv --train train.csv --per-task
      for a model of `train multitask`
  rankfold eval model.safetensors news.jsonl --where split=test
      documents, for a model that was trained with --vocabulary")]
pub struct Eval {
    /// The model
    model: PathBuf,

    /// Labelled rows: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst) or .npz; `-` is svmlight from stdin;
    /// for a kernel its items, or --labels instead
    data: Option<PathBuf>,

    /// The labels of the rows, one a line or in an .npy array, instead of those in DATA
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,

    /// What the rows look for: the objects of a model that has some, or other rows like those of DATA
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

    /// The labels of the objects, as with --labels
    #[arg(long, value_name = "FILE", requires = "objects")]
    object_labels: Option<PathBuf>,

    /// Pairs and their values, lines `left right value`, for a model of `train pairs`; for a kernel
    /// what it was trained on, of which the control is made
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,

    /// The rows whose nearest vote for a class, for a metric [default: the other rows of DATA]; those
    /// that controls learn from, for a model of tasks
    #[arg(long, value_name = "FILE")]
    train: Option<PathBuf>,

    /// Nearest rows that vote, for a metric
    #[arg(short, long = "neighbors", value_name = "K", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..))]
    k: u32,

    /// Clusters of the items of a kernel [default: as many as there are labels]
    #[arg(long, value_name = "N")]
    clusters: Option<usize>,

    #[command(flatten)]
    tasks: ColumnsOfTasks,

    /// Print the error of each task as well, for a model of tasks
    #[arg(long)]
    per_task: bool,

    #[command(flatten)]
    fields: Fields,

    /// The columns of users, items and ratings, for a model of ratings
    #[arg(
        long,
        value_name = "USER,ITEM,RATING",
        default_value = "user,item,rating"
    )]
    columns: RatingColumns,

    /// How two rows are scored [default: as the model says]
    #[arg(long, value_enum)]
    score: Option<ScoreName>,

    /// Threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl Eval {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        paths::one_stdin(&[
            self.data.as_deref(),
            self.labels.as_deref(),
            self.objects.as_deref(),
            self.object_labels.as_deref(),
            self.pairs.as_deref(),
            self.train.as_deref(),
        ])?;
        let model = Model::load(&self.model)?;
        if model.items().is_ok() {
            return self.kernel(&model, start, output);
        }
        if self.clusters.is_some() {
            let message = "--clusters is for models of `train kernel`";
            return Err(Error::input(message).in_file(&self.model));
        }
        if self.data.is_none() {
            return Err(Error::input(
                "DATA is needed: what the model is measured on",
            ));
        }
        if let Ok((_, card)) = model.task_parts() {
            self.only_for_pairs()?;
            not_for_tasks(&[
                ("--labels", self.labels.is_some()),
                ("--objects", self.objects.is_some()),
                ("--score", self.score.is_some()),
            ])?;
            let eval = EvalTasks {
                model: &model,
                data: self.data(),
                train: self.train.as_deref(),
                columns: self.tasks.or(Some(card)),
                per_task: self.per_task,
                threads: crate::threads(self.threads),
                start,
            };
            return eval.run(output);
        }
        only_for_tasks(&self.tasks)?;
        if self.per_task {
            return Err(Error::input(
                "--per-task is for models of `train multitask`",
            ));
        }
        if model.knowledge == Knowledge::Metric {
            self.only_for_pairs()?;
            return self.metric(&model, start, output);
        }
        if self.train.is_some() {
            let message = "--train is for models of `train metric` and `train multitask`";
            return Err(Error::input(message).in_file(&self.model));
        }
        if matches!(model.knowledge, Knowledge::Ranking(_)) {
            self.only_for_pairs()?;
            return self.ranking(&model, start, output);
        }
        if matches!(model.knowledge, Knowledge::Completion(_)) {
            self.only_for_pairs()?;
            return self.ratings(&model, start, output);
        }
        if model.target_mean().is_some() {
            return self.values(&model, start, output);
        }
        self.only_for_pairs()?;
        check_objects(&model, &self.model, self.objects.as_ref())?;
        if matches!(self.score, Some(ScoreName::Cosine)) {
            let space = model.check_space("the projected cosine");
            space.map_err(|e| e.in_file(&self.model))?;
        }
        let interrupt = Interrupt::watch();
        let bar = output.progress("queries");
        let progress = |done: usize| {
            bar.set_position(done as u64);
            !interrupt.requested()
        };
        let evaluate = Evaluate {
            score: self.score.map(Into::into),
            threads: crate::threads(self.threads),
            progress: &progress,
        };
        let found = match &model.form {
            Precise::F32(_) => self.evaluate::<f32>(&evaluate, &model),
            Precise::F64(_) => self.evaluate::<f64>(&evaluate, &model),
        }?;
        bar.finish_and_clear();
        let Some(found) = found else {
            std::process::exit(130);
        };
        note_unknown(output, found.unknown_entries);
        let seconds = start.elapsed().as_secs_f64();
        let score = evaluate.score.unwrap_or(model.card.score).name();
        let mut report = json!({
            "format": 1,
            "task": model.task(),
            "score": score,
            "metrics": numbers(&found.model),
            "control": found.control.as_ref().map(|metrics| {
                json!({ "name": "cosine", "metrics": numbers(metrics) })
            }),
            "rows": found.rows,
            "skipped": found.skipped,
            "unknown_entries": found.unknown_entries,
            "seconds": seconds,
        });
        if let Some(found) = &found.calibration {
            report["calibration"] = json!({
                "triplets": found.triplets,
                "variance_scale": found.variance_scale,
                "error": found.error,
                "raw_error": found.raw_error,
                "bins": found.bins,
                "raw_bins": found.raw_bins,
            });
        }
        let mut text = format!("{:<16} {:>9}", "", "model");
        if found.control.is_some() {
            text += &format!(" {:>9}", "cosine");
        }
        for (name, value) in &found.model {
            text += &format!("\n{name:<16} {value:>9.4}");
            if let Some(control) = &found.control {
                text += &format!(" {:>9.4}", control[name]);
            }
        }
        if let Some(found) = &found.calibration {
            let name = "calibration_error";
            text += &format!("\n{name:<17}{:>9.4}", found.error);
            if found.variance_scale.is_some() {
                text += &format!(", {:.4} before calibration", found.raw_error);
            }
        }
        text += match found.control {
            Some(_) => "\n",
            None => "\nno control: rows and objects have features of their own\n",
        };
        text += &format!(
            "{} queries, {} skipped, {score} scores, {seconds:.1} s",
            found.rows, found.skipped
        );
        output.result(&report, &text)
    }
}

impl Eval {
    fn only_for_pairs(&self) -> Result<()> {
        match &self.pairs {
            None => Ok(()),
            Some(_) => {
                let message = "--pairs is for models of `train pairs`";
                Err(Error::input(message).in_file(&self.model))
            }
        }
    }

    /// What the model is measured on, where it must be there.
    fn data(&self) -> &Path {
        self.data.as_deref().unwrap_or(Path::new("-"))
    }

    /// Clusters of items are compared with their labels.
    fn kernel(&self, model: &Model, start: Instant, output: &Output) -> Result<()> {
        for (option, given) in [
            ("--objects", self.objects.is_some()),
            ("--train", self.train.is_some()),
            ("--score", self.score.is_some()),
        ] {
            if given {
                return Err(Error::input(format!("{option} is not for kernels")));
            }
        }
        let kernel = EvalKernel {
            model,
            data: self.data.as_deref(),
            labels: self.labels.as_ref(),
            pairs: self.pairs.as_deref(),
            clusters: self.clusters,
            fields: &self.fields,
            threads: crate::threads(self.threads),
            start,
        };
        kernel.run(output)
    }

    /// Values of pairs are compared with those given.
    fn values(&self, model: &Model, start: Instant, output: &Output) -> Result<()> {
        check_objects(model, &self.model, self.objects.as_ref())?;
        for (option, given) in [
            ("--labels", self.labels.is_some()),
            ("--object-labels", self.object_labels.is_some()),
            (
                "--score cosine",
                matches!(self.score, Some(ScoreName::Cosine)),
            ),
        ] {
            if given {
                let message = format!("{option} is not for models of pairs");
                return Err(Error::input(message));
            }
        }
        let Some(pairs) = &self.pairs else {
            let message = "the model predicts values of pairs: give them with --pairs FILE";
            return Err(Error::input(message).in_file(&self.model));
        };
        let found = match &model.form {
            Precise::F32(_) => self.evaluate_values::<f32>(model, pairs),
            Precise::F64(_) => self.evaluate_values::<f64>(model, pairs),
        }?;
        note_unknown(output, found.unknown_entries);
        let seconds = start.elapsed().as_secs_f64();
        let report = json!({
            "format": 1,
            "task": model.task(),
            "score": model.card.score.name(),
            "metrics": numbers(&found.model),
            "control": { "name": "mean", "metrics": numbers(&found.control) },
            "rows": found.pairs,
            "skipped": 0,
            "unknown_entries": found.unknown_entries,
            "seconds": seconds,
        });
        let mut text = format!("{:<16} {:>10} {:>10}", "", "model", "mean");
        for (name, value) in &found.model {
            text += &format!("\n{name:<16} {value:>10.4} {:>10.4}", found.control[name]);
        }
        text += &format!("\n{} pairs, {seconds:.1} s", found.pairs);
        output.result(&report, &text)
    }

    fn evaluate_values<R: Real>(&self, model: &Model, pairs: &Path) -> Result<PairsEvaluation> {
        let rows = model.read_side::<R>(&self.fields.of(self.data()), Side::Left)?;
        let objects = self.objects.as_ref();
        let objects =
            objects.map(|path| model.read_side::<R>(&self.fields.of_all(path), Side::Right));
        let objects = objects.transpose()?;
        let pairs = read_pairs(pairs, &rows, objects.as_ref())?;
        let found = model.evaluate_pairs(&rows, objects.as_ref(), &pairs);
        found.map_err(|e| placed(e, self.data(), self.objects.as_ref()))
    }

    /// Nearest rows vote for classes.
    fn metric(&self, model: &Model, start: Instant, output: &Output) -> Result<()> {
        for (option, given) in [
            ("--objects", self.objects.is_some()),
            ("--score", self.score.is_some()),
        ] {
            if given {
                return Err(Error::input(format!("{option} is not for metrics")));
            }
        }
        let found = match &model.form {
            Precise::F32(_) => self.evaluate_metric::<f32>(model),
            Precise::F64(_) => self.evaluate_metric::<f64>(model),
        }?;
        note_unknown(output, found.unknown_entries);
        let seconds = start.elapsed().as_secs_f64();
        let control = |control: &Control| {
            let metrics = numbers(&control.metrics);
            json!({ "name": control.name, "metrics": metrics })
        };
        let report = json!({
            "format": 1,
            "task": model.task(),
            "score": model.card.score.name(),
            "neighbors": self.k,
            "metrics": numbers(&found.model),
            "control": found.controls.first().map(control),
            "controls": found.controls.iter().map(control).collect::<Vec<_>>(),
            "rows": found.rows,
            "skipped": 0,
            "unknown_entries": found.unknown_entries,
            "seconds": seconds,
        });
        let mut text = format!("{:<16} {:>9}", "", "model");
        for control in &found.controls {
            text += &format!(" {:>9}", control.name);
        }
        for (name, value) in &found.model {
            text += &format!("\n{name:<16} {value:>9.4}");
            for control in &found.controls {
                text += &format!(" {:>9.4}", control.metrics[name]);
            }
        }
        text += &format!(
            "\n{} rows, {} nearest vote, {seconds:.1} s",
            found.rows, self.k
        );
        output.result(&report, &text)
    }

    fn evaluate_metric<R: Real>(&self, model: &Model) -> Result<MetricEvaluation> {
        let data = read_rows::<R>(&self.fields.of(self.data()), None, self.labels.as_ref())?;
        let train = self.train.as_ref();
        let train = train.map(|path| read_rows::<R>(&self.fields.of_all(path), None, None));
        let threads = crate::threads(self.threads);
        let found = model.evaluate_metric(data, train.transpose()?, self.k as usize, threads);
        found.map_err(
            |e| match (e.message.strip_prefix("training rows: "), &self.train) {
                (Some(message), Some(path)) => Error::input(message).in_file(path),
                _ => e.in_file(self.data()),
            },
        )
    }

    /// All ratings are predicted.
    fn ratings(&self, model: &Model, start: Instant, output: &Output) -> Result<()> {
        not_for_ratings(&[
            ("--labels", self.labels.is_some()),
            ("--objects", self.objects.is_some()),
            ("--score", self.score.is_some()),
        ])?;
        let ratings = Ratings::read(self.data(), &self.columns)?;
        let found = model.evaluate_ratings(&ratings);
        let found = found.map_err(|e| e.in_file(self.data()))?;
        for (count, what) in [
            (found.unknown_users, "users"),
            (found.unknown_items, "items"),
        ] {
            if count > 0 {
                output.note(&format!(
                    "{count} ratings are of {what} that the model does not know"
                ));
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let report = json!({
            "format": 1,
            "task": model.task(),
            "metrics": numbers(&found.model),
            "control": { "name": "biases", "metrics": numbers(&found.control) },
            "rows": found.rows,
            "skipped": 0,
            "repeated": ratings.repeated,
            "unknown_users": found.unknown_users,
            "unknown_items": found.unknown_items,
            "seconds": seconds,
        });
        let mut text = format!("{:<16} {:>9} {:>9}", "", "model", "biases");
        for (name, value) in &found.model {
            text += &format!("\n{name:<16} {value:>9.4} {:>9.4}", found.control[name]);
        }
        text += &format!("\n{} ratings, {seconds:.1} s", found.rows);
        output.result(&report, &text)
    }

    /// Every row of a ranking is scored with all labels.
    fn ranking(&self, model: &Model, start: Instant, output: &Output) -> Result<()> {
        not_for_ranking(&[
            ("--objects", self.objects.is_some()),
            (
                "--score cosine",
                matches!(self.score, Some(ScoreName::Cosine)),
            ),
        ])?;
        let interrupt = Interrupt::watch();
        let bar = output.progress("rows");
        let progress = |done: usize| {
            bar.set_position(done as u64);
            !interrupt.requested()
        };
        let found = match &model.form {
            Precise::F32(_) => self.evaluate_labels::<f32>(model, &progress),
            Precise::F64(_) => self.evaluate_labels::<f64>(model, &progress),
        }?;
        bar.finish_and_clear();
        let Some(found) = found else {
            std::process::exit(130);
        };
        note_unknown(output, found.unknown_entries);
        if found.unknown_labels > 0 {
            output.note(&format!(
                "{} labels are not known to the model; they rank as labels never seen",
                found.unknown_labels
            ));
        }
        let seconds = start.elapsed().as_secs_f64();
        let report = json!({
            "format": 1,
            "task": model.task(),
            "score": model.card.score.name(),
            "metrics": numbers(&found.model),
            "control": { "name": "popularity", "metrics": numbers(&found.control) },
            "rows": found.rows,
            "skipped": found.skipped,
            "unknown_entries": found.unknown_entries,
            "unknown_labels": found.unknown_labels,
            "seconds": seconds,
        });
        let mut text = format!("{:<16} {:>10} {:>10}", "", "model", "popularity");
        for (name, value) in &found.model {
            text += &format!("\n{name:<16} {value:>10.4} {:>10.4}", found.control[name]);
        }
        text += &format!(
            "\n{} rows, {} without labels skipped, {seconds:.1} s",
            found.rows, found.skipped
        );
        output.result(&report, &text)
    }

    fn evaluate_labels<R: Real>(
        &self,
        model: &Model,
        progress: &(dyn Fn(usize) -> bool + Sync),
    ) -> Result<Option<LabelEvaluation>> {
        let source = self.fields.of(self.data());
        let data = read_rows::<R>(&source, model.vocabulary(), self.labels.as_ref())?;
        let found = model.evaluate_labels(data, crate::threads(self.threads), progress);
        found.map_err(|e| e.in_file(self.data()))
    }

    fn evaluate<R: Real>(
        &self,
        evaluate: &Evaluate<'_>,
        model: &Model,
    ) -> Result<Option<Evaluation>> {
        let source = self.fields.of(self.data());
        let data = read_rows::<R>(&source, model.vocabulary(), self.labels.as_ref())?;
        let Some(objects) = &self.objects else {
            let found = evaluate.rows(model, data);
            return found.map_err(|e| e.in_file(self.data()));
        };
        let (vocabulary, labels) = (
            model.side(Side::Right).0.vocabulary(),
            self.object_labels.as_ref(),
        );
        let objects: Labelled<R> = read_rows(&self.fields.of_all(objects), vocabulary, labels)?;
        let found = evaluate.rows_among(model, data, objects);
        found.map_err(|e| placed(e, self.data(), self.objects.as_ref()))
    }
}

/// Not-a-number, the mean over nothing, is `null`.
pub fn numbers(metrics: &rankfold::model::Metrics) -> Value {
    metrics
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect()
}
