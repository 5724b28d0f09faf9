//! `rankfold eval`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use rankfold::data::text::Documents;
use rankfold::data::{
    Choices, Labelled, Labels, Ratings, RowIds, TaskRows, read_constraints, read_labels,
};
use rankfold::form::Side;
use rankfold::model::{Knowledge, Metrics, Precise};
use rankfold::task::{Baseline, Evaluate, Evaluation, KernelTruth, ListBaseline};
use rankfold::{Error, Ids, Model, Real, Result, Score};
use serde_json::{Value, json};

use crate::given::FIELDS;
use crate::interrupt::Interrupt;
use crate::output::{Output, shown};
use crate::page::examples::{self, Found, Kept};
use crate::page::maps::{self, Titles};
use crate::page::{Section, measured};
use crate::paths;
use crate::rows::{
    Fields, ScoreName, choice_columns, needs_objects, placed, rating_columns, read_rows,
};
use crate::task_columns::ColumnsOfTasks;
use crate::train_pairs::read_pairs;
use crate::unknown::Known;

/// Measure a model on held-out data, with a simple baseline beside it
///
/// Every row is a query against all other rows; rows with its label should
/// come first. Ties count against the model. The baseline is the cosine between
/// the rows themselves, after the preprocessing that the model keeps.
///
/// A ranking of labels is measured by where the labels of each row stand among
/// all; rows without labels are skipped and counted. The baseline is how often
/// labels occurred in training; with --train also ridge regression on those rows.
///
/// A model of ratings is measured by the root mean squared and the mean absolute
/// error of its predictions. The baseline is a mean and biases alone.
///
/// Recommendations are measured by lists of the --top best items of each user, of all items but those
/// that the user chose before: in --train, or in what the model was trained on. Baselines are how
/// often items were chosen, and how often of late where --train has times; --baselines names
/// others. Models of ratings are measured so as well where --train is given.
///
/// A model of pairs is measured by how far its values are from those of --pairs: the
/// root of the mean squared error, and the mean absolute one. The baseline is the mean
/// of the values in training; with --train also the means of the two sides.
///
/// A metric is measured by its k-NN error: how often the class of a row is not that of
/// most of its nearest rows of --train, or of DATA itself without --train. The baselines
/// are Euclidean distances, and principal (PCA) and discriminant (LDA) directions, as
/// many as the rank.
///
/// A kernel is measured by the normalized mutual information (nmi) of the labels of its items
/// and the clusters that k-means finds, and by its k-NN error: how often the label of an item is
/// not that of most of its nearest other items. The baselines are the kernel of the rows of DATA
/// before learning, and clusters with items that training knew to be alike taken for one.
///
/// A model of tasks is measured by its nmse: the mean squared error of a task as a share of the
/// variance of all its targets, averaged over tasks. The baseline is the mean target of each task;
/// with --train also a ridge regression for all tasks (pooled), one for each task (ridge), and the
/// alternating minimization of Argyriou, Evgeniou and Pontil, all fitted to those rows.
///
/// With --objects every row is a query against all objects, and objects with its
/// label should come first. Where rows and objects have features of their own,
/// there is no baseline.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold eval model.safetensors test.svm
  rankfold eval model.safetensors test.svm --score dot --json
  rankfold eval model.safetensors test.svm --precision-at 1,2,5,10,20,50
  rankfold eval model.safetensors test.npy --labels test-labels.txt
  rankfold eval model.safetensors people.csv --objects films.csv
  rankfold eval ratings.safetensors test.csv
      for a model of `train completion`
  rankfold eval shop.safetensors test.csv --train train.csv --baselines popularity,neighbors,ease
      for a model of `train recommend`
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

    /// Labeled rows: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst), .parquet, .arrow or .npz; `-` is svmlight from stdin;
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
    /// what it was trained on, of which the baseline is made
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,

    /// The rows whose nearest vote for a class, for a metric [default: the other rows of DATA]; those
    /// that baselines learn from, for a ranking and a model of tasks; for a model of pairs the
    /// pairs that they learn from
    #[arg(long, value_name = "FILE")]
    train: Option<PathBuf>,

    /// Nearest rows that vote, for a metric; nearest items, for a kernel
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

    /// The columns of users, items and ratings, for a model of ratings [default: user,item,rating]; of
    /// users, items, weights and times for recommendations
    #[arg(long, value_name = "USER,ITEM,…")]
    columns: Option<String>,

    /// Ratings or choices stand in a table with a row for each user and a column for each item
    #[arg(long)]
    wide: bool,

    /// The length of the lists of recommendations
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,

    /// What recommendations are compared with: what was chosen most (`popularity`), and of late
    /// (`recent`), items near those chosen (`neighbors`), a regression of full rank (`ease`, whose work
    /// grows with the cube of the items) [default: popularity, and recent where --train has times]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    baselines: Vec<ListBaseline>,

    /// How two rows are scored [default: as the model says]
    #[arg(long, value_enum)]
    score: Option<ScoreName>,

    /// Measure the precision among so many best rows too, such as 1,2,5,20,50, for similarities
    #[arg(long, value_name = "K,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..))]
    precision_at: Vec<u32>,

    /// Write a page with pictures of the result here, one .html file that needs no other
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Titles of items for --report, for ratings and recommendations: a table with the columns `item`
    /// and `title`
    #[arg(long, value_name = "FILE", requires = "report")]
    item_names: Option<PathBuf>,

    /// Threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Options that apply to any model.
const ALWAYS: [&str; 4] = ["model", "data", "threads", "report"];

impl Eval {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        if self.report.as_deref() == Some(Path::new("-")) {
            return Err(Error::option("report", "needs a file, not `-`"));
        }
        let inputs = [
            Some(self.model.as_path()),
            self.data.as_deref(),
            self.labels.as_deref(),
            self.objects.as_deref(),
            self.object_labels.as_deref(),
            self.pairs.as_deref(),
            self.train.as_deref(),
            self.item_names.as_deref(),
        ];
        paths::check(&[self.report.as_deref()], &inputs)?;
        let model = Model::load(&self.model)?;
        let own: &[&str] = match &model.knowledge {
            Knowledge::Similarity(_) => &[
                "labels",
                "objects",
                "object_labels",
                "score",
                "precision_at",
            ],
            Knowledge::Metric => &["labels", "train", "neighbors"],
            Knowledge::Ranking(_) => &["labels", "train"],
            Knowledge::Pairs { .. } => &["objects", "pairs", "train"],
            Knowledge::Kernel(_) | Knowledge::Map(_) => {
                &["labels", "pairs", "clusters", "neighbors"]
            }
            Knowledge::Completion(_) => &["columns", "wide", "train", "top", "item_names"],
            Knowledge::Recommend(_) => {
                &["columns", "wide", "train", "top", "baselines", "item_names"]
            }
            Knowledge::Multitask(_) => &[
                "train",
                "per_task",
                "task_column",
                "target_column",
                "ignore_column",
            ],
        };
        let rows: &[&str] = match &model.knowledge {
            Knowledge::Completion(_) | Knowledge::Recommend(_) | Knowledge::Multitask(_) => &[],
            _ => &FIELDS,
        };
        output.given.only(&model, &ALWAYS, &[own, rows].concat())?;
        let items = matches!(model.knowledge, Knowledge::Kernel(_) | Knowledge::Map(_));
        if self.data.is_none() && !items {
            return Err(Error::input(
                "DATA is needed: what the model is measured on",
            ));
        }
        let titles = maps::read_titles(self.item_names.as_ref())?;
        let show = Show {
            wanted: self.report.is_some(),
            titles: titles.as_ref(),
        };
        let (found, sections) = match &model.form {
            Precise::F32(_) => self.measure::<f32>(&model, &show, output),
            Precise::F64(_) => self.measure::<f64>(&model, &show, output),
        }?;
        self.check_finite(&found, output)?;
        for note in &found.notes {
            output.note(note);
        }
        let seconds = start.elapsed().as_secs_f64();
        self.tell(&model, &found, seconds, output)?;
        let Some(path) = &self.report else {
            return Ok(());
        };
        let mut page = measured::page(&model, &found, &output.command, seconds);
        sections.into_iter().for_each(|section| page.add(section));
        page.write(path)
    }

    /// An error of the model itself, in its file.
    fn in_model(&self, error: Error) -> Error {
        match error.about {
            Some("model") => error.in_file(&self.model),
            _ => error,
        }
    }

    /// A metric that is not a number, such as the mean over nothing, is told as `null` with
    /// a note. One that is infinite is refused: values are too large for it.
    fn check_finite(&self, found: &Evaluation, output: &Output) -> Result<()> {
        if let Some((name, _)) = found.metrics.iter().find(|(_, v)| v.is_infinite()) {
            let message = format!("`{name}` is infinite: some values are too large");
            return Err(Error::input(message).in_file(self.data()));
        }
        if let Some((name, _)) = found.metrics.iter().find(|(_, v)| v.is_nan()) {
            output.note(&format!(
                "`{name}` is not known: nothing could be measured, or some values are too large"
            ));
        }
        Ok(())
    }

    /// What the model is measured on, where it must be there.
    fn data(&self) -> &Path {
        self.data.as_deref().unwrap_or(Path::new("-"))
    }

    /// Measures the model, with examples where a page is wanted.
    fn measure<R: Real>(
        &self,
        model: &Model,
        show: &Show<'_>,
        output: &Output,
    ) -> Result<(Evaluation, Vec<Section>)> {
        let mut sections = Vec::new();
        let interrupt = Interrupt::watch();
        let bar = output.progress("measured");
        let progress = |done: usize| {
            bar.set_position(done as u64);
            !interrupt.requested()
        };
        let threads = crate::threads(self.threads);
        let rows = |labels: Option<&PathBuf>| {
            let source = match labels.is_some() {
                true => self.fields.of(self.data(), output),
                false => self.fields.of_labelled(self.data(), output),
            };
            let source = source.knowing(&model.features);
            read_rows::<R>(&source, model.vocabulary(), labels)
        };
        let of_train = |path: &PathBuf| {
            let source = Documents {
                labelled: true,
                ..self.fields.of_all(path, output).knowing(&model.features)
            };
            read_rows::<R>(&source, model.vocabulary(), None)
        };
        let in_data = |e: Error| self.in_model(e).in_file(self.data());
        let in_train = |e: Error| match (e.about, &self.train) {
            (Some("training rows"), Some(path)) => Error { about: None, ..e }.in_file(path),
            _ => in_data(e),
        };
        let found = match &model.knowledge {
            Knowledge::Similarity(_) => {
                needs_objects(model, &self.model, self.objects.as_ref())?;
                if self.score == Some(ScoreName::Cosine) {
                    let space = model.check_space("the projected cosine");
                    space.map_err(|e| e.in_file(&self.model))?;
                }
                let at: Vec<usize> = self.precision_at.iter().map(|&k| k as usize).collect();
                let evaluate = Evaluate {
                    score: self.score.map(Into::into),
                    precision_at: &at,
                    threads,
                    progress: &progress,
                };
                let data = rows(self.labels.as_ref())?;
                let kept = show.wanted.then(|| Kept::of(&data));
                let mut nearest = |among: Option<&Kept<R>>| -> Result<()> {
                    if let Some(rows) = &kept {
                        let texts = self.texts(model, rows, among, output)?;
                        let found = Found {
                            rows,
                            among,
                            score: self.score.map(Into::into),
                            texts: &|id| texts.get(id).cloned(),
                        };
                        sections.push(examples::nearest_rows(model, &found, threads)?);
                        sections.push(maps::of_rows(model, &rows.data, rows.all)?);
                    }
                    Ok(())
                };
                match &self.objects {
                    None => {
                        let found = evaluate.rows(model, data).map_err(in_data)?;
                        nearest(None).map_err(in_data)?;
                        Ok(found)
                    }
                    Some(path) => {
                        let features = &model.side(Side::Right).0;
                        let source = self.fields.of_all(path, output).knowing(features);
                        let labels = self.object_labels.as_ref();
                        let objects = read_rows(&source, features.vocabulary(), labels)?;
                        let others = show.wanted.then(|| Kept::of(&objects));
                        let found = evaluate.rows_among(model, data, objects);
                        let placed =
                            |e| placed(self.in_model(e), self.data(), self.objects.as_ref());
                        let found = found.map_err(placed)?;
                        nearest(others.as_ref()).map_err(placed)?;
                        Ok(found)
                    }
                }
            }
            Knowledge::Metric => {
                let train = self.train.as_ref().map(of_train);
                let (data, train) = (rows(self.labels.as_ref())?, train.transpose()?);
                let kept = show.wanted.then(|| Kept::of(&data));
                let voters = train.as_ref().filter(|_| show.wanted).map(Kept::of);
                let found = model.evaluate_metric(data, train, self.k as usize, threads);
                let found = found.map_err(in_train)?;
                if let Some(rows) = &kept {
                    let asked = Found {
                        rows,
                        among: voters.as_ref(),
                        score: None,
                        texts: &|_| None,
                    };
                    sections.push(examples::nearest_rows(model, &asked, threads)?);
                    sections.push(maps::of_rows(model, &rows.data, rows.all)?);
                }
                Ok(found)
            }
            Knowledge::Ranking(_) => {
                let train = self.train.as_ref().map(of_train);
                let (data, train) = (rows(self.labels.as_ref())?, train.transpose()?);
                let kept = show.wanted.then(|| Kept::of(&data));
                let found = model.evaluate_labels(data, train, threads, &progress);
                let found = found.map_err(in_train)?;
                if let Some(rows) = &kept {
                    let texts = self.texts(model, rows, None, output)?;
                    let text = |id: &str| texts.get(id).cloned();
                    sections.extend(examples::labels(model, rows, &text, threads)?);
                    sections.push(maps::of_model(model, None)?);
                }
                Ok(found)
            }
            Knowledge::Pairs { .. } => self.pairs::<R>(model, show, &mut sections, output),
            Knowledge::Completion(_) => {
                let text = self.columns.as_deref();
                let columns = rating_columns(text, self.wide, Some(model), output)?;
                let ratings = Ratings::read(self.data(), &columns)?;
                let (users, items) = model.rating_ids()?;
                let met = Known::new(users, items).ids(&ratings.users, &ratings.items);
                met.check(false, output).map_err(in_data)?;
                let train = self.train.as_ref();
                let train = train
                    .map(|path| Ratings::read(path, &columns))
                    .transpose()?;
                let found = model.evaluate_ratings(&ratings).map_err(in_data)?;
                if show.wanted {
                    sections.extend(examples::ratings(model, &ratings, show.titles)?);
                    let train = train.as_ref();
                    let lists = examples::rated(model, &ratings, train, show.titles, threads);
                    sections.push(lists?);
                    sections.push(maps::of_model(model, show.titles)?);
                }
                match train {
                    None => Ok(found),
                    Some(train) => model
                        .evaluate_rating_lists(found, &ratings, &train, self.top as usize, threads)
                        .map_err(in_data),
                }
            }
            Knowledge::Recommend(known) => {
                let columns =
                    choice_columns(self.columns.as_deref(), self.wide, Some(model), output)?;
                let liked = known.card.liked_from;
                let test = Choices::read(self.data(), &columns, liked)?;
                let items = model.recommended_items()?;
                let met = Known::new(&known.users, items).ids(&test.users, &test.items);
                met.check(true, output).map_err(in_data)?;
                let train = self.train.as_ref();
                let train = train.map(|path| Choices::read(path, &columns, liked));
                let (train, top) = (train.transpose()?, self.top as usize);
                let go_on = || !interrupt.requested();
                let recent = train.as_ref().is_some_and(|train| train.recent.is_some());
                let baselines: &[ListBaseline] = match (&self.baselines[..], recent) {
                    ([], false) => &[ListBaseline::Popularity],
                    ([], true) => &[ListBaseline::Popularity, ListBaseline::Recent],
                    (asked, _) => asked,
                };
                let train = train.as_ref();
                let found =
                    model.evaluate_lists(&test, train, baselines, top, Some(threads), &go_on);
                let found = found.map_err(in_data)?;
                if show.wanted {
                    let lists = examples::choices(model, &test, train, show.titles, threads);
                    sections.push(lists?);
                    sections.push(maps::of_model(model, show.titles)?);
                }
                Ok(found)
            }
            Knowledge::Kernel(_) | Knowledge::Map(_) => {
                self.items(model, show, &mut sections, threads, output)
            }
            Knowledge::Multitask(known) => {
                let columns = self.tasks.or(Some(&known.card), output);
                let data = TaskRows::read(self.data(), &columns)?;
                let train = self.train.as_ref();
                let train = train
                    .map(|path| TaskRows::read(path, &columns))
                    .transpose()?;
                let found = model.evaluate_tasks(&data, train.as_ref(), threads);
                let found = found.map_err(in_data)?;
                if show.wanted {
                    sections.push(examples::tasks(model, &data)?);
                    sections.push(maps::of_model(model, None)?);
                }
                Ok(found)
            }
        };
        bar.finish_and_clear();
        Ok((found?, sections))
    }

    /// Values of pairs are compared with those given.
    fn pairs<R: Real>(
        &self,
        model: &Model,
        show: &Show<'_>,
        sections: &mut Vec<Section>,
        output: &Output,
    ) -> Result<Evaluation> {
        needs_objects(model, &self.model, self.objects.as_ref())?;
        let Some(pairs) = &self.pairs else {
            let message = "the model predicts values of pairs: give them with --pairs FILE";
            return Err(Error::input(message).in_file(&self.model));
        };
        let rows = model.read_side::<R>(&self.fields.of(self.data(), output), Side::Left)?;
        let objects = self.objects.as_ref();
        let objects = objects
            .map(|path| model.read_side::<R>(&self.fields.of_all(path, output), Side::Right));
        let objects = objects.transpose()?;
        let pairs = read_pairs(pairs, &rows, objects.as_ref())?;
        let train = self.train.as_ref();
        let train = train.map(|path| read_pairs(path, &rows, objects.as_ref()));
        let train = train.transpose()?;
        let found = model.evaluate_pairs(&rows, objects.as_ref(), &pairs, train.as_deref());
        let found =
            found.map_err(|e| placed(self.in_model(e), self.data(), self.objects.as_ref()))?;
        if show.wanted {
            sections.push(examples::pairs(model, &rows, objects.as_ref(), &pairs)?);
            sections.push(maps::of_rows(model, &rows, rows.rows.len())?);
        }
        Ok(found)
    }

    /// Clusters of items are compared with their labels.
    fn items(
        &self,
        model: &Model,
        show: &Show<'_>,
        sections: &mut Vec<Section>,
        threads: usize,
        output: &Output,
    ) -> Result<Evaluation> {
        let items = model.items()?;
        let rows = match &self.data {
            None => None,
            Some(data) => {
                let rows =
                    read_rows::<f64>(&self.fields.of(data, output), None, self.labels.as_ref())?;
                Some(ordered(items, rows).map_err(|e| e.in_file(data))?)
            }
        };
        let read = match (&rows, &self.labels) {
            (Some(_), _) => None,
            (None, Some(path)) => Some(read_labels(path, items.len())?),
            (None, None) => {
                return Err(Error::input(
                    "labels are needed: give DATA, the items with their labels, or --labels FILE",
                ));
            }
        };
        let labels: &Labels = match (&rows, &read) {
            (Some(rows), _) => &rows.labels,
            (None, Some(labels)) => labels,
            (None, None) => unreachable!("labels were asked for"),
        };
        let known = self.pairs.as_ref().map(|path| {
            read_constraints(path, &mut |name| {
                let found = items.find(name);
                found.ok_or_else(|| Error::input(format!("no item is called `{name}`")))
            })
        });
        let known = known.transpose()?;
        let found = model.evaluate_kernel(KernelTruth {
            labels,
            rows: rows.as_ref(),
            constraints: known.as_deref(),
            clusters: self.clusters,
            neighbors: self.k as usize,
            threads,
        });
        let place = self.data.as_ref().or(self.labels.as_ref());
        if show.wanted && found.is_ok() {
            sections.push(examples::items(model, labels, threads)?);
            sections.push(maps::of_model(model, None)?);
        }
        found.map_err(|e| match place {
            Some(path) => self.in_model(e).in_file(path),
            None => self.in_model(e),
        })
    }

    /// The texts of the rows that examples may show, by their names, where they are documents.
    fn texts<R: Real>(
        &self,
        model: &Model,
        rows: &Kept<R>,
        among: Option<&Kept<R>>,
        output: &Output,
    ) -> Result<HashMap<String, String>> {
        // Stdin was read already, and rows that are no documents have no texts.
        if model.vocabulary().is_none() || self.data() == Path::new("-") || among.is_some() {
            return Ok(HashMap::new());
        }
        let names = (0..rows.data.rows.len()).map(|i| rows.data.ids.name(i).into_owned());
        self.fields.of(self.data(), output).texts(&names.collect())
    }

    fn tell(&self, model: &Model, found: &Evaluation, seconds: f64, output: &Output) -> Result<()> {
        let score = self.score.map_or(model.card.score, Score::from).name();
        let baseline = |one: &Baseline| {
            let mut json = json!({ "name": one.name, "metrics": numbers(&one.metrics) });
            if let Some(lambda) = one.regularization {
                json["regularization"] = json!(lambda);
            }
            json
        };
        let mut report = json!({
            "format": 1,
            "task": model.task(),
            "metrics": numbers(&found.metrics),
            "baseline": found.baseline().map(baseline),
            "baselines": found.baselines.iter().map(baseline).collect::<Vec<_>>(),
            "rows": found.rows,
            "skipped": found.skipped,
            "seconds": seconds,
        });
        if !matches!(
            model.knowledge,
            Knowledge::Completion(_) | Knowledge::Recommend(_) | Knowledge::Multitask(_)
        ) {
            report["score"] = json!(score);
        }
        for (name, value) in &found.more {
            report[name] = value.clone();
        }
        let mut text = format!("{:<16} {:>10}", "", "model");
        for one in &found.baselines {
            text += &format!(" {:>11}", one.name);
        }
        for (name, value) in &found.metrics {
            text += &format!("\n{name:<16} {:>10}", known(Some(value)));
            for one in &found.baselines {
                text += &format!(" {:>11}", known(one.metrics.get(name)));
            }
        }
        if let Some(found) = &found.calibration {
            report["calibration"] = json!({
                "triplets": found.triplets,
                "variance_scale": found.variance_scale,
                "error": found.error,
                "raw_error": found.raw_error,
                "bins": found.bins,
                "raw_bins": found.raw_bins,
            });
            text += &format!("\n{:<17}{:>10.4}", "calibration_error", found.error);
            if found.variance_scale.is_some() {
                text += &format!(", {:.4} before calibration", found.raw_error);
            }
        }
        if found.baselines.is_empty() {
            text += "\nno baseline: rows and objects have features of their own";
        }
        if self.per_task
            && let Some(tasks) = found.more.get("tasks").and_then(Value::as_array)
        {
            text += "\n\ntask\trows\tnmse\trmse";
            for task in tasks {
                let number = |name: &str| task[name].as_f64().map_or("none".into(), shown);
                let name = task["task"].as_str().unwrap_or_default();
                let (rows, nmse, rmse) = (&task["rows"], number("nmse"), number("rmse"));
                text += &format!("\n{name}\t{rows}\t{nmse}\t{rmse}");
            }
            text += "\n";
        }
        text += &format!("\n{} {}, {} skipped", found.rows, found.unit, found.skipped);
        if matches!(model.knowledge, Knowledge::Similarity(_)) {
            text += &format!(", {score} scores");
        }
        text += &format!(", {seconds:.1} s");
        output.result(&report, &text)
    }
}

/// What a page is to show.
struct Show<'a> {
    wanted: bool,
    titles: Option<&'a Titles>,
}

/// The rows of the items, in the order of the items.
fn ordered(items: &Ids, rows: Labelled<f64>) -> Result<Labelled<f64>> {
    let places: Result<Vec<usize>> = {
        let lookup = rows.lookup();
        items.iter().map(|name| lookup.find(name)).collect()
    };
    let places = places.map_err(|e| Error {
        message: format!("{}, as an item of the kernel is", e.message),
        ..e
    })?;
    if places.iter().enumerate().all(|(i, row)| i == *row) && rows.rows.len() == places.len() {
        return Ok(rows);
    }
    Ok(Labelled {
        ids: RowIds::Named(items.iter().map(str::to_owned).collect()),
        ..examples::chosen(&rows, &places)
    })
}

/// A metric, or that there is none.
fn known(value: Option<&f64>) -> String {
    match value {
        Some(value) if value.is_finite() => format!("{value:.4}"),
        _ => "none".into(),
    }
}

/// Not-a-number, the mean over nothing, is `null`.
fn numbers(metrics: &Metrics) -> Value {
    metrics
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect()
}
