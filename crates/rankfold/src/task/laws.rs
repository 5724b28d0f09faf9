//! The laws that every task keeps, as a check for any [`Learn`].

use super::Learn;
use super::checkpoint::Checkpoint;
use super::run::{Event, Run};
use crate::data::{Relation, StreamRow};
use crate::form::Side;
use crate::model::{Knowledge, Model, Precise};
use crate::options::{Effect, Kind, OptionSpec};
use crate::sample::Triplet;
use crate::{Error, ErrorKind, Real, Result, Rows, SparseVec};
use std::ops::Range;
use std::path::Path;

/// Holds a task to the laws of tasks, and gives those that it breaks, in words.
///
/// - The same options give the same bytes, with any number of threads.
/// - A run that is stopped and resumed gives the bytes of one that is not.
/// - A run that is stopped leaves a whole model, or none and an error of the kind
///   `Interrupted`.
/// - A model that is saved, loaded and updated gives the bytes of one that goes on in
///   memory.
/// - Every option has a value that changes the bytes or is refused. `without_effect`
///   names options that need not, for these data.
/// - `extreme` data are refused or leave a finite model.
///
/// The task should take a second at most: it is run some dozens of times.
pub fn task<T: Learn<D>, D: Clone>(
    task: &T,
    data: D,
    extreme: Option<D>,
    without_effect: &[&str],
) -> Result<Vec<String>> {
    let folder = tempfile::tempdir().map_err(|e| Error::failure(e.to_string()))?;
    let laws = Laws {
        task,
        data,
        folder: folder.path(),
    };
    let whole = laws.bytes(task)?;
    let mut broken = Vec::new();
    if laws.bytes(task)? != whole {
        broken.push("the same options give other bytes".to_owned());
    }
    laws.threads(&whole, &mut broken)?;
    laws.stops(&whole, &mut broken)?;
    laws.sittings(&mut broken)?;
    laws.options(&whole, without_effect, &mut broken)?;
    if let Some(extreme) = extreme {
        let found = task.learn(extreme, Run::default());
        let path = laws.folder.join("extreme");
        match found.map(|fit| fit.model.save(&path)) {
            Ok(Ok(())) => {}
            Err(error) if error.kind == ErrorKind::Input => {}
            Ok(Err(error)) | Err(error) => {
                broken.push(format!("extreme data leave no finite model: {error}"));
            }
        }
    }
    Ok(broken)
}

/// Examples of a sitting.
const SITTING: usize = 5;

/// The model after examples of its own kind, those of these numbers; an input error where
/// it takes none.
fn goes_on(model: Model, examples: Range<usize>) -> Result<Model> {
    match &model.knowledge {
        Knowledge::Completion(_) => match &model.form {
            Precise::F32(_) => rated::<f32>(model, examples),
            Precise::F64(_) => rated::<f64>(model, examples),
        },
        Knowledge::Recommend(_) => {
            let mut learner = model.into_choice_learner()?;
            for i in examples {
                let (user, item) = (format!("new {}", i % 2), format!("{}", i % 5));
                learner.learn(&user, &item, 1.0 + i as f64)?;
            }
            learner.to_model()
        }
        Knowledge::Multitask(_) => {
            let columns = model.columns();
            let mut learner = model.into_task_learner()?;
            for i in examples {
                let row = SparseVec::from_entries(row(i, columns));
                learner.learn(&format!("new {}", i % 2), row.as_row(), i as f64)?;
            }
            learner.to_model()
        }
        _ => match &model.form {
            Precise::F32(_) => streamed::<f32>(model, examples),
            Precise::F64(_) => streamed::<f64>(model, examples),
        },
    }
}

fn rated<R: Real>(model: Model, examples: Range<usize>) -> Result<Model> {
    let mut learner = model.into_rating_learner::<R>()?;
    for i in examples {
        let (user, item) = (format!("new {}", i % 2), format!("new {}", i % 3));
        learner.learn(&user, &item, i as f64)?;
    }
    Ok(learner.into_model())
}

fn streamed<R: Real>(model: Model, examples: Range<usize>) -> Result<Model> {
    let knowledge = model.knowledge.clone();
    let mut learner = model.into_learner::<R>()?;
    for i in examples {
        let [left, right] = [Side::Left, Side::Right].map(|side| learner.columns_of(side));
        let rows =
            [row(i, left), row(i + 1, right), row(i + 3, right)].map(SparseVec::from_entries);
        let [query, positive, negative] = rows.each_ref().map(SparseVec::as_row);
        match &knowledge {
            Knowledge::Ranking(_) => {
                learner.learn_labels(query, &[(i % learner.label_count()) as u32])?;
            }
            Knowledge::Pairs { .. } => {
                learner.learn_rows(query, positive, i as f64)?;
            }
            Knowledge::Metric => {
                let known = [query, positive].map(|row| row.iter().collect::<Vec<_>>());
                let pair = known
                    .each_ref()
                    .map(|known| StreamRow::Features { known, new: &[] });
                learner.learn_distance(pair, Relation::AtMost(0.5), &Rows::new())?;
            }
            _ => {
                let triplet = Triplet {
                    query,
                    positive,
                    negative,
                };
                learner.learn(&triplet)?;
            }
        }
    }
    Ok(learner.into_model())
}

/// Entries of a row that depend on a number.
fn row<R: Real>(number: usize, columns: usize) -> Vec<(u32, R)> {
    let columns = columns.max(1);
    let entry = |step: usize| ((number * step + step) % columns) as u32;
    let mut entries = vec![(entry(1), R::from_f64(1.0)), (entry(2), R::from_f64(0.5))];
    entries.sort_by_key(|entry| entry.0);
    entries.dedup_by_key(|entry| entry.0);
    entries
}

struct Laws<'a, T, D> {
    task: &'a T,
    data: D,
    folder: &'a Path,
}

impl<T: Learn<D>, D: Clone> Laws<'_, T, D> {
    fn saved(&self, model: &Model) -> Result<Vec<u8>> {
        let path = self.folder.join("model");
        model.save(&path)?;
        std::fs::read(&path).map_err(|e| Error::reading(&path, &e))
    }

    /// The bytes of what these options learn.
    fn bytes(&self, task: &T) -> Result<Vec<u8>> {
        let fit = task.learn(self.data.clone(), Run::default())?;
        self.saved(&fit.model)
    }

    fn threads(&self, whole: &[u8], broken: &mut Vec<String>) -> Result<()> {
        for count in ["1", "3"] {
            let mut task = self.task.clone();
            if task.set("threads", count).is_ok() && self.bytes(&task)? != whole {
                broken.push(format!("{count} threads give other bytes"));
            }
        }
        Ok(())
    }

    /// Stops at some events, and goes on from the checkpoint.
    fn stops(&self, whole: &[u8], broken: &mut Vec<String>) -> Result<()> {
        let mut events = 0;
        let run = Run::default().observed(|_| {
            events += 1;
            true
        });
        self.task.learn(self.data.clone(), run)?;
        let mut at: Vec<usize> = vec![1, 2, events / 3, events / 2, events.saturating_sub(2)];
        at.retain(|&at| at > 0 && at < events);
        at.sort_unstable();
        at.dedup();
        for stop in at {
            let path = self.folder.join(format!("checkpoint-{stop}"));
            let mut seen = 0;
            let run = Run::default()
                .observed(|event| {
                    let counts = !matches!(event, Event::Saved(_) | Event::Finished(_));
                    seen += usize::from(counts);
                    seen < stop
                })
                .rescue(&path);
            match self.task.learn(self.data.clone(), run) {
                Ok(fit) => _ = self.saved(&fit.model)?,
                Err(error) if error.kind == ErrorKind::Interrupted => {}
                Err(error) => broken.push(format!("a stop at event {stop} is an error: {error}")),
            }
            if !path.exists() {
                // It was stopped before there was anything to save, or had ended.
                continue;
            }
            let run = Run::default().resume(Checkpoint::load(&path)?);
            let fit = self.task.learn(self.data.clone(), run)?;
            if self.saved(&fit.model)? != whole {
                broken.push(format!("a run stopped at event {stop} and resumed differs"));
            }
        }
        Ok(())
    }

    /// Goes on from the model in one sitting, and in two with files before each.
    fn sittings(&self, broken: &mut Vec<String>) -> Result<()> {
        let model = self.task.learn(self.data.clone(), Run::default())?.model;
        let reloaded = |model: &Model| -> Result<Model> {
            self.saved(model)?;
            Model::load(self.folder.join("model"))
        };
        if self.saved(&reloaded(&model)?)? != self.saved(&model)? {
            broken.push("a model that is loaded is saved with other bytes".to_owned());
        }
        let at_once = match goes_on(model.clone(), 0..2 * SITTING) {
            Ok(found) => found,
            // Not every model takes examples one at a time.
            Err(error) if error.kind == ErrorKind::Input => return Ok(()),
            Err(error) => return Err(error),
        };
        let half = goes_on(reloaded(&model)?, 0..SITTING)?;
        let whole = goes_on(reloaded(&half)?, SITTING..2 * SITTING)?;
        if self.saved(&at_once)? != self.saved(&whole)? {
            broken.push("a model that is saved, loaded and updated differs".to_owned());
        }
        Ok(())
    }

    fn options(
        &self,
        whole: &[u8],
        without_effect: &[&str],
        broken: &mut Vec<String>,
    ) -> Result<()> {
        for spec in T::specs() {
            if without_effect.contains(&spec.name) || spec.effect == Effect::Time {
                continue;
            }
            // One value may be what the default comes to; all of them cannot be.
            let mut idle = Vec::new();
            let values = self.others(spec);
            for value in &values {
                let mut task = self.task.clone();
                // A value that is refused keeps the law.
                if task.set(spec.name, value).is_err() {
                    continue;
                }
                match self.bytes(&task) {
                    Err(error) if error.kind == ErrorKind::Input => {}
                    Err(error) => broken.push(format!("`{}` = {value}: {error}", spec.name)),
                    Ok(bytes) if bytes == whole => idle.push(value.as_str()),
                    Ok(_) => {}
                }
            }
            if !idle.is_empty() && idle.len() == values.len() {
                broken.push(format!(
                    "`{}` is taken and has no effect: {}",
                    spec.name,
                    idle.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// Values that differ from the present one.
    fn others(&self, spec: &OptionSpec) -> Vec<String> {
        let now = self.task.get(spec.name);
        let number = now.as_ref().and_then(|text| text.parse::<f64>().ok());
        let values: Vec<String> = match spec.kind {
            Kind::Flag => vec!["true".into()],
            Kind::Choice(_) => spec.choices().iter().map(|c| c.name.to_owned()).collect(),
            Kind::Integer => vec![
                (number.unwrap_or(1.0) + 1.0).to_string(),
                "1".into(),
                "2".into(),
            ],
            Kind::Number => vec![(0.5 * number.unwrap_or(1.0)).to_string(), "0.25".into()],
            _ => Vec::new(),
        };
        let differs = |value: &String| now.as_ref() != Some(value);
        values.into_iter().filter(differs).collect()
    }
}
