//! `rankfold update`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use rankfold::data::{LabelName, Relation, RowIds, RowLookup, StreamRow, WriteLock, holds_rows};
use rankfold::form::Side;
use rankfold::model::{Knowledge, Precise};
use rankfold::sample::Triplet;
use rankfold::task::{ExampleStream, NamedSides, Online, Sides};
use rankfold::{Error, Model, Real, Result, Rows};
use serde_json::json;

use crate::follow::{Follow, Followed};
use crate::given::fields_of;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::rows::{Fields, choice_columns, rating_columns, read_rows};
use crate::task_columns::ColumnsOfTasks;
use crate::update_choices::UpdateChoices;
use crate::update_map::UpdateMap;
use crate::update_ratings::UpdateRatings;
use crate::update_tasks::UpdateTasks;
use crate::{paths, patient};

/// Go on learning from more examples, one at a time
///
/// Reads JSON lines, or the format of training. R is the id of a row of --rows, or features
/// by value, {"feature":value,…}, called as in the training data: by number (from 1) or by
/// name. New features are welcome. Other fields are ignored.
///
/// Similarity models read {"query":R,"positive":R,"negative":R}: the query is more like the
/// positive than like the negative; or lines `query positive negative` of ids; or, without
/// --rows, a file of labelled rows (.svm, .csv, …), with a triplet for each row. Positives and
/// negatives are ids or features of --objects for a model that has objects.
///
/// Ranking models read {"row":R,"labels":[…]}, or a file of labelled rows (.svm, .csv, …).
/// Labels are names, or numbers where the labels of training were; new ones are welcome.
/// Rows without labels, or with all of them, are skipped and counted.
///
/// Models of pairs read {"left":R,"right":R,"value":…}, or lines `left right value` of ids; the
/// right is an object for a model that has objects.
///
/// Metrics read {"left":R,"right":R,"same":true}, or false, or a distance as "value",
/// "at_most" or "at_least"; or lines `left right same`, `left right different`,
/// `left right <= v` of ids; or, without --rows, a file of labelled rows. Polar metrics take polar steps, others flat ones. A metric
/// trained in batch moves a tenth of the way to where a pair should be.
///
/// Rating models read {"user":…,"item":…,"rating":…}, or ratings as in training (.csv, .tsv,
/// .dat, .parquet, with --columns); new users and items are welcome. Models of `polar`, `balanced`,
/// `gradient` and `loreta` take a step for each rating, others solve least squares for its
/// user and item.
///
/// Multitask models read {"task":…,"row":R,"target":…}, or a table as in training.
///
/// Maps of `train kernel --mds` read {"left":…,"right":…,"value":…} of item ids, or lines
/// `left right value`. New values replace old ones, new items are welcome, and items without
/// news stay in place. All lines are read first.
///
/// A broken line stops the command with an error; what was learned before it is written.
/// Ctrl-C ends the stream and writes the model, too.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold update model.safetensors clicks.jsonl --rows rows.svm -o model.safetensors
      lines such as {\"query\":17,\"positive\":4,\"negative\":52}, rows by position
  echo '{\"query\":{\"red\":1},\"positive\":{\"red\":2,\"round\":1},\"negative\":{\"long\":1}}' |
      rankfold update model.safetensors -o better.safetensors
  tail -f clicks.jsonl | rankfold update m.safetensors --rows rows.csv -o m.safetensors \\
      --save-every 100000
      an endless stream: the model is written now and then, and at Ctrl-C
  rankfold update model.safetensors more.csv -o model.safetensors
      more rows with labels, for a model of `train similarity` or `train metric`; a triplet a row
  echo '{\"row\":{\"17\":1,\"4\":2},\"labels\":[\"sea\",\"sky\"]}' |
      rankfold update labels.safetensors -o labels.safetensors
      a row for a model of `train ranking`
  echo '{\"left\":{\"age\":31},\"right\":{\"drama\":1},\"value\":4.5}' |
      rankfold update values.safetensors -o values.safetensors
      a pair for a model of `train pairs`
  echo '{\"left\":\"rome\",\"right\":\"pisa\",\"value\":264}' | rankfold update map.safetensors -o map.safetensors
      a distance for a map of `train kernel --mds`
  echo '{\"left\":17,\"right\":4,\"same\":true}' |
      rankfold update metric.safetensors --rows rows.csv -o metric.safetensors
      a pair for a model of `train metric`
  rankfold update tasks.safetensors new-school.csv -o tasks.safetensors
      rows of tasks, known or new, for a model of `train multitask`; a table as in training, or lines
      such as {\"task\":\"s7\",\"row\":{\"age\":11},\"target\":31}
  rankfold update shop.safetensors clicks.jsonl -o shop.safetensors
      lines such as {\"user\":\"ann\",\"item\":\"m17\"}, for a model of `train recommend`
  rankfold update ratings.safetensors new-ratings.jsonl -o ratings.safetensors
      lines such as {\"user\":\"ann\",\"item\":\"m17\",\"rating\":4}, for a model of `train
      completion`
  rankfold update ratings.safetensors new.csv --columns userId,movieId,rating -o ratings.safetensors
      ratings in the format of training")]
pub struct Update {
    /// The model
    model: PathBuf,

    /// Examples as JSON lines or in the format of training, plain, .gz or .zst; `-` is stdin
    #[arg(default_value = "-")]
    stream: PathBuf,

    /// The model file to write; may be MODEL itself
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// The rows that ids name, in any format of rows; documents (.jsonl) for a model with a vocabulary
    #[arg(long, value_name = "DATA")]
    rows: Option<PathBuf>,

    /// The rows that the ids of positives and negatives name, where these are not those of --rows
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

    /// Step size from here on; the model keeps it [default: that of its training]
    #[arg(long, value_name = "S")]
    step_size: Option<f64>,

    /// Write the model after every N examples, too
    #[arg(long, value_name = "N")]
    save_every: Option<u64>,

    /// The columns of users, items and ratings: names, or numbers where there is no header; applies to
    /// rating models [default: user,item,rating]; of users, items, weights and times for
    /// recommendations
    #[arg(long, value_name = "USER,ITEM,…")]
    columns: Option<String>,

    /// Ratings or choices stand in a table with a row for each user and a column for each item
    #[arg(long)]
    wide: bool,

    /// After how many choices of a user an earlier one counts half, from here on, for a model of
    /// recommendations; the model keeps it
    #[arg(long, value_name = "N")]
    half_life: Option<f64>,

    #[command(flatten)]
    tasks: ColumnsOfTasks,

    #[command(flatten)]
    fields: Fields,
}

/// What a stream held.
struct Read {
    lines: u64,
    /// Lines that there was nothing to learn from, where the task may have some.
    skipped: Option<u64>,
}

impl Update {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        if self.save_every == Some(0) {
            return Err(Error::input("--save-every must be at least 1 example"));
        }
        if self.save_every.is_some() && self.output == Path::new("-") {
            return Err(Error::input("--save-every needs a file, not `-o -`"));
        }
        // The model itself may be replaced: it is read before it is written.
        paths::check(
            &[Some(&self.output)],
            &[
                Some(&self.stream),
                self.rows.as_deref(),
                self.objects.as_deref(),
            ],
        )?;
        // Held until the end: of two updates of one model at once, one would be lost.
        let _lock = match paths::is_file_or_nothing(&self.output) {
            false => None,
            true => match WriteLock::take(&self.output)? {
                Some(lock) => Some(lock),
                None => {
                    let message =
                        "another `rankfold update` is writing this model: wait until it ends";
                    return Err(Error::failure(message).in_file(&self.output));
                }
            },
        };
        let model = Model::load(&self.model)?;
        let own: &[&str] = match &model.knowledge {
            Knowledge::Similarity(_) | Knowledge::Pairs { .. } | Knowledge::Metric => {
                &["rows", "objects", "step_size", "save_every"]
            }
            Knowledge::Ranking(_) => &["rows", "step_size", "save_every"],
            Knowledge::Completion(_) => &["columns", "wide", "step_size", "save_every"],
            Knowledge::Recommend(_) => &["columns", "wide", "half_life", "save_every"],
            Knowledge::Multitask(_) => &[
                "save_every",
                "task_column",
                "target_column",
                "ignore_column",
            ],
            Knowledge::Kernel(_) | Knowledge::Map(_) => &[],
        };
        let fields = fields_of(&model);
        let always = ["model", "stream", "output"];
        output
            .given
            .only(&model, &always, &[own, fields].concat())?;
        match &model.knowledge {
            Knowledge::Completion(_) => {
                let text = self.columns.as_deref();
                let columns = rating_columns(text, self.wide, Some(&model), output)?;
                let update = UpdateRatings {
                    model: &self.model,
                    stream: &self.stream,
                    output: &self.output,
                    columns: &columns,
                    step_size: self.step_size,
                    save_every: self.save_every,
                    start,
                };
                update.run(model, output)
            }
            Knowledge::Recommend(_) => {
                let columns =
                    choice_columns(self.columns.as_deref(), self.wide, Some(&model), output)?;
                let update = UpdateChoices {
                    model: &self.model,
                    stream: &self.stream,
                    output: &self.output,
                    columns: &columns,
                    half_life: self.half_life,
                    save_every: self.save_every,
                    start,
                };
                update.run(model, output)
            }
            Knowledge::Multitask(known) => {
                let update = UpdateTasks {
                    model: &self.model,
                    stream: &self.stream,
                    output: &self.output,
                    columns: self.tasks.or(Some(&known.card), output),
                    save_every: self.save_every,
                    start,
                };
                update.run(model, output)
            }
            Knowledge::Kernel(_) | Knowledge::Map(_) => {
                let update = UpdateMap {
                    model: &self.model,
                    stream: &self.stream,
                    output: &self.output,
                    start,
                };
                update.run(&model, output)
            }
            Knowledge::Similarity(_)
            | Knowledge::Metric
            | Knowledge::Pairs { .. }
            | Knowledge::Ranking(_) => match &model.form {
                Precise::F32(_) => self.learn::<f32>(model, start, output),
                Precise::F64(_) => self.learn::<f64>(model, start, output),
            },
        }
    }

    fn learn<R: Real>(self, model: Model, start: Instant, output: &Output) -> Result<()> {
        let (two_kinds, knowledge) = (model.objects.is_some(), model.knowledge.clone());
        let learner = model.into_learner::<R>();
        let mut learner = learner.map_err(|e| e.in_file(&self.model))?;
        if let Some(size) = self.step_size {
            learner.set_step_size(size)?;
        }
        let before = learner.counters();
        let (ids, rows) = match &self.rows {
            Some(path) => self.read_rows(&mut learner, path, Side::Left, output)?,
            None => (RowIds::Positions, Rows::new()),
        };
        let lookup = RowLookup::new(&ids, rows.len());
        let lookup = self.rows.is_some().then_some(&lookup);
        let objects = match &self.objects {
            Some(path) => Some(self.read_rows(&mut learner, path, Side::Right, output)?),
            None => None,
        };
        let of_objects = objects
            .as_ref()
            .map(|(ids, objects)| RowLookup::new(ids, objects.len()).of_objects());
        let of_objects = match &of_objects {
            // Positives and negatives are rows like the query.
            None if !two_kinds => lookup,
            found => found.as_ref(),
        };
        let named = NamedSides {
            rows: lookup,
            objects: of_objects,
            sides: Sides {
                left: &rows,
                right: objects.as_ref().map_or(&rows, |(_, objects)| objects),
            },
        };

        let interrupt = Interrupt::watch();
        let follow = |noun: &'static str| Follow {
            model: &self.output,
            save_every: self.save_every,
            interrupt: &interrupt,
            output,
            noun,
            before,
        };
        // Ids of rows need --rows; a file of rows without it has labels to learn from.
        let is_file = holds_rows(&self.stream, &output.reading);
        let of_rows = is_file && self.rows.is_none() && !two_kinds;
        match &knowledge {
            Knowledge::Ranking(_) if is_file => {
                return self.learn_rows(learner, &follow("rows"), start);
            }
            Knowledge::Similarity(_) | Knowledge::Metric if of_rows => {
                return self.learn_classes(learner, &knowledge, &follow("rows"), start);
            }
            Knowledge::Metric => {
                let trained = &learner.card().learner;
                if learner.rule() != trained && learner.rule() == "flat" {
                    output.note(&format!("a metric of `{trained}` goes on with flat steps"));
                }
            }
            _ => {}
        }
        let lines = patient::lines(&self.stream, &output.reading, &interrupt)?;
        let lines = lines.read_by(&output.reading);
        let mut stream = learner.stream(lines)?;
        let (may_skip, mut skipped) = (matches!(stream, ExampleStream::Labels(_)), 0);
        let followed = follow(stream.noun()).run(&mut learner, |learner| {
            let learned = learner.follow(&mut stream, &named);
            let learned = learned.map_err(|e| stream.place(e))?;
            skipped += u64::from(learned == Some(false));
            Ok(learned)
        })?;
        let read = Read {
            lines: stream.line(),
            skipped: may_skip.then_some(skipped),
        };
        self.report(&learner, &followed, &read, start, output)
    }

    /// Learns a file of rows with classes, as training reads it: one triplet for each row.
    fn learn_classes<R: Real>(
        &self,
        mut learner: Online<R>,
        knowledge: &Knowledge,
        follow: &Follow<'_>,
        start: Instant,
    ) -> Result<()> {
        let source = self.fields.of(&self.stream, follow.output);
        let mut data = read_rows::<R>(&source, learner.features().vocabulary(), None)?;
        let in_stream = |e: Error| e.in_file(&self.stream);
        let mut triplets = learner.triplets_of(&data.labels).map_err(in_stream)?;
        let rows = learner.prepare(std::mem::take(&mut data.rows), &data.features);
        let rows = rows.map_err(in_stream)?;
        let mut at = 0;
        let followed = follow.run(&mut learner, |learner| {
            if at == rows.len() {
                return Ok(None);
            }
            if let [class] = data.labels.of(at) {
                learner.add_to_class(rows.row(at), data.labels.names.get(*class))?;
            }
            at += 1;
            let drawn = triplets.draw();
            let numbers = [drawn.query, drawn.positive, drawn.negative];
            let [query, positive, negative] = numbers.map(|row| StreamRow::Row(row as usize));
            if let Knowledge::Metric = knowledge {
                learner.learn_distance([query, positive], Relation::Same, &rows)?;
                learner.learn_distance([query, negative], Relation::Different, &rows)?;
                return Ok(Some(true));
            }
            let triplet = Triplet {
                query,
                positive,
                negative,
            };
            learner.learn_line(&triplet, &rows).map(|_| Some(true))
        })?;
        let read = Read {
            lines: at as u64,
            skipped: None,
        };
        self.report(&learner, &followed, &read, start, follow.output)
    }

    /// Learns a file of labelled rows, as `train ranking` reads it, row by row.
    fn learn_rows<R: Real>(
        &self,
        mut learner: Online<R>,
        follow: &Follow<'_>,
        start: Instant,
    ) -> Result<()> {
        let source = self.fields.of(&self.stream, follow.output);
        let data = read_rows::<R>(&source, learner.features().vocabulary(), None)?;
        let rows = learner.prepare(data.rows, &data.features);
        let rows = rows.map_err(|e| e.in_file(&self.stream))?;
        let (mut at, mut skipped) = (0, 0);
        let followed = follow.run(&mut learner, |learner| {
            if at == rows.len() {
                return Ok(None);
            }
            let names = data.labels.of(at).iter();
            let names = names.map(|&label| LabelName::Name(data.labels.names.get(label).into()));
            let names: Vec<LabelName> = names.collect();
            let learned = learner.learn_labelled(StreamRow::Row(at), &names, &rows);
            let learned = learned.map_err(|e| {
                let message = format!("row `{}`: {}", data.ids.name(at), e.message);
                Error { message, ..e }.in_file(&self.stream)
            })?;
            at += 1;
            skipped += u64::from(learned.is_none());
            Ok(Some(learned.is_some()))
        })?;
        let read = Read {
            lines: at as u64,
            skipped: Some(skipped),
        };
        self.report(&learner, &followed, &read, start, follow.output)
    }

    /// The rows that ids name, as the model sees them; their features are added
    /// to those it knows.
    fn read_rows<R: Real>(
        &self,
        learner: &mut Online<R>,
        path: &Path,
        side: Side,
        output: &Output,
    ) -> Result<(RowIds, Rows<R>)> {
        let vocabulary = learner.features_of(side).vocabulary();
        let source = match side {
            Side::Left => self.fields.of(path, output),
            Side::Right => self.fields.of_all(path, output),
        };
        let data = read_rows::<R>(&source, vocabulary, None)?;
        let rows = learner.prepare_side(side, data.rows, &data.features);
        Ok((data.ids, rows.map_err(|e| e.in_file(path))?))
    }

    fn report<R: Real>(
        &self,
        learner: &Online<R>,
        followed: &Followed,
        read: &Read,
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        let Followed { done, interrupted } = followed;
        let rank = learner.rank();
        let (card, seconds) = (learner.card(), start.elapsed().as_secs_f64());
        let path = self.output.display().to_string();
        let loss = (done.steps > 0).then(|| done.mean_loss());
        let mut report = json!({
            "format": 1,
            "task": learner.task(),
            "learner": card.learner,
            "rank": rank,
            "lines": read.lines,
            "steps": done.steps,
            "updates": done.updates,
            "refused": done.refused,
            "new_features": done.new_features,
            "seeded": done.seeded,
            "features": learner.columns(),
            "loss": loss,
            "step_size": card.step_size,
            "total_steps": card.counters.steps,
            "stopped": followed.stopped(),
            "seconds": seconds,
            "model": path,
        });
        let mut grown = format!("{} new features", done.new_features);
        if let Some(skipped) = read.skipped {
            report["new_labels"] = json!(done.new_object_features);
            report["labels"] = json!(learner.label_count());
            report["skipped"] = json!(skipped);
            grown += &format!(
                ", {} new labels, {skipped} skipped",
                done.new_object_features
            );
        } else if learner.has_objects() {
            report["new_object_features"] = json!(done.new_object_features);
            report["object_features"] = json!(learner.columns_of(Side::Right));
            grown += &format!(", {} of objects", done.new_object_features);
        }
        let mut text = format!(
            "{}{} of rank {rank}: {} steps, {} updates, {} refused, {grown}, {} seeded",
            if *interrupted { "interrupted: " } else { "" },
            card.learner,
            done.steps,
            done.updates,
            done.refused,
            done.seeded
        );
        match loss {
            Some(loss) if loss < 1e4 => text += &format!(", mean loss {loss:.4}"),
            Some(loss) => text += &format!(", mean loss {loss:.3e}"),
            None => {}
        }
        text += &format!(", {seconds:.1} s\n{path}");
        output.learned(&self.output, &report, &text, *interrupted)
    }
}
