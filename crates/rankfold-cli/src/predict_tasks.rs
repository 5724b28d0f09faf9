//! Targets of rows of tasks, for `rankfold predict`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{FeatureMap, TaskColumns, TaskLines};
use rankfold::{ErrorKind, Model, Result};

use crate::output::Output;
use crate::rows::note_unknown;
use crate::scores::Scores;
use crate::task_columns::note_absent;

/// What a model of tasks is asked for.
pub struct TasksAndRows<'a> {
    pub model: &'a Model,
    pub model_file: &'a Path,
    pub input: &'a Path,
    pub columns: TaskColumns,
    pub strict: bool,
    pub start: Instant,
}

impl TasksAndRows<'_> {
    pub fn run(&self, output: &Output) -> Result<()> {
        let predictor = self.model.task_predictor();
        let mut predictor = predictor.map_err(|e| e.in_file(self.model_file))?;
        let (features, tasks) = self.model.task_ids()?;
        let mut lines = TaskLines::open(self.input, &self.columns, false)?;
        let map = FeatureMap::new(features, lines.features(), lines.is_table());
        let mut map = map.map_err(|e| e.in_file(self.input))?;
        note_absent(output, map.absent());
        let mut scores = Scores::new(self.model, output)?;
        let mut unknown = 0usize;
        while lines.advance()? {
            let line = lines.line();
            let task = tasks.find(line.task);
            if task.is_none() && self.strict {
                let message = format!("the model knows no task `{}`", line.task);
                return Err(lines.error(message));
            }
            unknown += usize::from(task.is_none());
            let row = map.align(line.row, lines.features());
            let put = scores.put(predictor.target(task, row));
            put.map_err(|e| match e.kind {
                ErrorKind::Input => lines.error(e.message),
                _ => e,
            })?;
        }
        let count = scores.count;
        scores.end("rows", unknown, self.start, output)?;
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
