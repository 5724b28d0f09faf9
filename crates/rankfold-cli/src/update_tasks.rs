//! Rows of tasks, for `rankfold update`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{FeatureMap, TaskColumns, TaskLines};
use rankfold::task::TaskLearner;
use rankfold::{Model, Result};
use serde_json::json;

use crate::follow::{Follow, Followed};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::patient;
use crate::task_columns::note_absent;

/// What a model of tasks goes on with.
pub struct UpdateTasks<'a> {
    pub model: &'a Path,
    pub stream: &'a Path,
    pub output: &'a Path,
    pub columns: TaskColumns,
    pub save_every: Option<u64>,
    pub start: Instant,
}

impl UpdateTasks<'_> {
    pub fn run(&self, model: Model, output: &Output) -> Result<()> {
        let features = model.task_ids()?.0.clone();
        let learner = model.into_task_learner();
        let mut learner = learner.map_err(|e| e.in_file(self.model))?;
        output
            .note("rows are folded into their tasks by least squares; the subspace stays as it is");
        let interrupt = Interrupt::watch();
        let reading = &self.columns.reading;
        let mut lines = match self.stream == Path::new("-") && reading.format().is_none() {
            true => TaskLines::from_lines(patient::lines(self.stream, reading, &interrupt)?),
            false => TaskLines::open(self.stream, &self.columns, true)?,
        };
        let map = FeatureMap::new(&features, lines.features(), lines.is_table());
        let mut map = map.map_err(|e| e.in_file(self.stream))?;
        note_absent(output, map.absent());
        let follow = Follow {
            model: self.output,
            save_every: self.save_every,
            interrupt: &interrupt,
            output,
            noun: "rows",
            before: learner.counters(),
        };
        let followed = follow.run(&mut learner, |learner| {
            Ok(learner.follow(&mut lines, &mut map)?.then_some(true))
        });
        crate::rows::note_unknown(output, map.unknown);
        self.report(&learner, &followed?, output)
    }

    fn report(&self, learner: &TaskLearner, followed: &Followed, output: &Output) -> Result<()> {
        let Followed { done, interrupted } = followed;
        let (card, seconds) = (learner.card(), self.start.elapsed().as_secs_f64());
        let path = self.output.display().to_string();
        let rmse = (done.updates > 0).then(|| (2.0 * done.total_loss / done.updates as f64).sqrt());
        let report = json!({
            "format": 1,
            "task": "multitask",
            "learner": card.learner,
            "rule": "fold-in",
            "steps": done.steps,
            "updates": done.updates,
            "refused": done.refused,
            "new_tasks": done.new_object_features,
            "tasks": learner.tasks(),
            "rmse": rmse,
            "total_steps": card.counters.steps,
            "stopped": followed.stopped(),
            "seconds": seconds,
            "model": path,
        });
        let mut text = format!(
            "{}{} rows, {} new tasks, {} refused",
            if *interrupted { "interrupted: " } else { "" },
            done.steps,
            done.new_object_features,
            done.refused,
        );
        if let Some(rmse) = rmse {
            text += &format!(", rmse before each row {rmse:.4}");
        }
        text += &format!(", {seconds:.1} s\n{path}");
        output.learned(self.output, &report, &text, *interrupted)
    }
}
