//! Targets of rows of tasks, for `rankfold predict`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{FeatureMap, TaskColumns, TaskLines};
use rankfold::{Model, Result};
use serde_json::json;

use crate::output::Output;
use crate::rows::note_unknown;
use crate::task_columns::note_absent;

/// What a model of tasks is asked for.
pub struct TasksAndRows<'a> {
    pub model: &'a Model,
    pub input: &'a Path,
    pub columns: TaskColumns,
    pub strict: bool,
    pub start: Instant,
}

impl TasksAndRows<'_> {
    pub fn run(&self, output: &Output) -> Result<()> {
        let mut predictor = self.model.task_predictor()?;
        let (features, tasks) = self.model.task_ids()?;
        let mut lines = TaskLines::open(self.input, &self.columns, false)?;
        let map = FeatureMap::new(features, lines.features(), lines.is_table());
        let mut map = map.map_err(|e| e.in_file(self.input))?;
        note_absent(output, map.absent());
        let mut out = output.stream()?;
        if output.is_json() {
            let task = json!(self.model.card.task);
            out.put(format!("{{\"format\":1,\"task\":{task},\"scores\":[").as_bytes())?;
        }
        let (mut count, mut unknown) = (0usize, 0usize);
        while lines.advance()? {
            let line = lines.line();
            let task = tasks.find(line.task);
            if task.is_none() && self.strict {
                let message = format!("the model knows no task `{}`", line.task);
                return Err(lines.error(message));
            }
            unknown += usize::from(task.is_none());
            let row = map.align(line.row, lines.features());
            let target = predictor.target(task, row);
            let piece = match (output.is_json(), count) {
                (false, _) => format!("{target}\n"),
                (true, 0) => json!(target).to_string(),
                (true, _) => format!(",{}", json!(target)),
            };
            out.put(piece.as_bytes())?;
            count += 1;
        }
        if output.is_json() {
            let seconds = self.start.elapsed().as_secs_f64();
            let tail = format!(
                "],\"rows\":{count},\"unknown\":{unknown},\"seconds\":{}}}\n",
                json!(seconds)
            );
            out.put(tail.as_bytes())?;
        }
        out.commit()?;
        note_unknown(output, map.unknown);
        if unknown > 0 {
            output.note(&format!(
                "{unknown} of {count} rows are of tasks that the model does not know: what is \
                 common was used"
            ));
        }
        Ok(())
    }
}
