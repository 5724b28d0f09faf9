//! Rows of tasks, for `rankfold update`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{FeatureMap, TaskColumns, TaskLines};
use rankfold::task::TaskLearner;
use rankfold::{Model, Result};
use serde_json::json;

use crate::drive::{save, save_on_the_way};
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

/// Rows between two looks at the clock.
const STRIDE: u64 = 1_000;

impl UpdateTasks<'_> {
    pub fn run(&self, model: Model, output: &Output) -> Result<()> {
        let features = model.task_ids()?.0.clone();
        let learner = model.into_task_learner();
        let mut learner = learner.map_err(|e| e.in_file(self.model))?;
        output
            .note("rows are folded into their tasks by least squares; the subspace stays as it is");
        let before = learner.counters();
        let interrupt = Interrupt::watch();
        let mut lines = match self.stream == Path::new("-") {
            true => TaskLines::from_lines(patient::lines(self.stream, &interrupt)?),
            false => TaskLines::open(self.stream, &self.columns, true)?,
        };
        let map = FeatureMap::new(&features, lines.features(), lines.is_table());
        let mut map = map.map_err(|e| e.in_file(self.stream))?;
        note_absent(output, map.absent());
        let bar = output.counter("rows");
        let broken = loop {
            match lines.advance() {
                Ok(true) => {}
                Ok(false) => break None,
                // The line was cut when the stream was.
                Err(_) if interrupt.requested() => break None,
                Err(error) => break Some(error),
            }
            let line = lines.line();
            let row = map.align(line.row, lines.features());
            learner.learn(line.task, row, line.target)?;
            let done = learner.counters().steps - before.steps;
            if done.is_multiple_of(STRIDE) {
                bar.set_position(done);
            }
            if self.save_every.is_some_and(|n| done.is_multiple_of(n)) {
                save_on_the_way(learner.save(self.output), output);
            }
            if interrupt.requested() {
                break None;
            }
        };
        bar.finish_and_clear();
        save(self.output, |path| learner.save(path))?;
        crate::rows::note_unknown(output, map.unknown);
        let done = learner.counters().since(&before);
        if let Some(error) = broken {
            output.note(&format!(
                "`{}` holds what was learned from the {} rows before",
                self.output.display(),
                done.steps
            ));
            return Err(error);
        }
        self.report(&learner, &done, interrupt.requested(), output)
    }

    fn report(
        &self,
        learner: &TaskLearner,
        done: &rankfold::model::Counters,
        interrupted: bool,
        output: &Output,
    ) -> Result<()> {
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
            "stopped": if interrupted { "interrupted" } else { "end" },
            "seconds": seconds,
            "model": path,
        });
        let mut text = format!(
            "{}{} rows, {} new tasks, {} refused",
            if interrupted { "interrupted: " } else { "" },
            done.steps,
            done.new_object_features,
            done.refused,
        );
        if let Some(rmse) = rmse {
            text += &format!(", rmse before each row {rmse:.4}");
        }
        text += &format!(", {seconds:.1} s\n{path}");
        output.learned(self.output, &report, &text, interrupted)
    }
}
