//! `rankfold eval` for models of `train multitask`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{TaskColumns, TaskRows};
use rankfold::task::{TaskControl, TaskScore};
use rankfold::{Model, Result};
use serde_json::{Value, json};

use crate::eval::numbers;
use crate::output::Output;
use crate::rows::note_unknown;
use crate::task_columns::note_absent;

/// What a model of tasks is measured on.
pub struct EvalTasks<'a> {
    pub model: &'a Model,
    pub data: &'a Path,
    pub train: Option<&'a Path>,
    pub columns: TaskColumns,
    pub per_task: bool,
    pub threads: usize,
    pub start: Instant,
}

impl EvalTasks<'_> {
    pub fn run(&self, output: &Output) -> Result<()> {
        let data = TaskRows::read(self.data, &self.columns)?;
        let train = self.train.map(|path| TaskRows::read(path, &self.columns));
        let train = train.transpose()?;
        let found = self
            .model
            .evaluate_tasks(&data, train.as_ref(), self.threads);
        let found = found.map_err(|e| e.in_file(self.data))?;
        note_unknown(output, found.unknown_entries);
        note_absent(output, found.absent.iter().map(String::as_str));
        if self.train.is_some() && found.controls.len() < 4 {
            output.note(
                "there are too many tasks and features for the controls `ridge` and `alternating`",
            );
        }
        if found.unknown > 0 {
            output.note(&format!(
                "{} of {} rows are of tasks that the model does not know: what is common was used",
                found.unknown, found.rows
            ));
        }
        let seconds = self.start.elapsed().as_secs_f64();
        let control = |control: &TaskControl| {
            json!({
                "name": control.name,
                "regularization": control.regularization,
                "metrics": numbers(&control.metrics),
            })
        };
        let task = |score: &TaskScore| -> Value {
            json!({
                "task": score.task,
                "rows": score.rows,
                "nmse": score.nmse,
                "rmse": score.rmse,
            })
        };
        let report = json!({
            "format": 1,
            "task": self.model.task(),
            "metrics": numbers(&found.model),
            "control": found.controls.first().map(control),
            "controls": found.controls.iter().map(control).collect::<Vec<_>>(),
            "tasks": found.tasks.iter().map(task).collect::<Vec<_>>(),
            "rows": found.rows,
            "skipped": found.constant_tasks,
            "unknown": found.unknown,
            "unknown_entries": found.unknown_entries,
            "seconds": seconds,
        });
        let mut text = format!("{:<8} {:>10}", "", "model");
        for control in &found.controls {
            text += &format!(" {:>11}", control.name);
        }
        for (name, value) in &found.model {
            text += &format!("\n{name:<8} {value:>10.4}");
            for control in &found.controls {
                text += &format!(" {:>11.4}", control.metrics[name]);
            }
        }
        if self.per_task {
            text += "\n\ntask\trows\tnmse\trmse";
            for score in &found.tasks {
                let nmse = score
                    .nmse
                    .map_or("none".into(), |nmse| format!("{nmse:.4}"));
                let TaskScore {
                    task, rows, rmse, ..
                } = score;
                text += &format!("\n{task}\t{rows}\t{nmse}\t{rmse:.4}");
            }
        }
        text += &format!(
            "\n{} rows of {} tasks, {seconds:.1} s",
            found.rows,
            found.tasks.len()
        );
        if found.constant_tasks > 0 {
            text += &format!(
                "; {} tasks have no nmse: their targets are all the same",
                found.constant_tasks
            );
        }
        output.result(&report, &text)
    }
}
