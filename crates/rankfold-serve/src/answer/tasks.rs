//! Targets of rows of tasks.

use std::io::Cursor;
use std::sync::Arc;

use rankfold::data::{FeatureMap, Lines, TaskLines};
use rankfold::{Model, Result};
use serde_json::{Value, json};

use super::ratings::beginning;
use super::{Answer, PredictAsk, View, not_finite};
use crate::error::Refused;

pub struct TaskAnswers {
    model: Arc<Model>,
}

impl TaskAnswers {
    pub fn new(model: Arc<Model>) -> Result<Self> {
        model.task_predictor()?;
        Ok(TaskAnswers { model })
    }
}

impl View for TaskAnswers {
    fn model(&self) -> &Arc<Model> {
        &self.model
    }

    fn predict(&self, ask: &PredictAsk) -> Answer<(Vec<Value>, usize)> {
        if ask.uncertainty == Some(true) {
            return Err(Refused::input(
                "`uncertainty` does not apply to multitask models",
            ));
        }
        let mut predictor = self.model.task_predictor()?;
        let (features, tasks) = self.model.task_ids()?;
        let (mut out, mut unknown) = (Vec::new(), 0);
        for raw in &ask.inputs {
            let text = raw.get().replace(['\n', '\r'], " ");
            let lines = Lines::new(Box::new(Cursor::new(text.into_bytes())), "-");
            let mut lines = TaskLines::inputs(lines);
            if !lines.advance()? {
                return Err(Refused::input("expected the fields `task` and `row`"));
            }
            let mut map = FeatureMap::new(features, lines.features(), false)?;
            let line = lines.line();
            let task = tasks.find(line.task);
            unknown += usize::from(task.is_none());
            let target = predictor.target(task, map.align(line.row, lines.features()));
            if !target.is_finite() {
                return Err(not_finite("this input"));
            }
            out.push(json!({ "score": target }));
        }
        Ok((out, unknown))
    }

    fn rows(&self) -> usize {
        self.model.task_ids().map_or(0, |(_, tasks)| tasks.len())
    }

    fn ids(&self, prefix: &str, limit: usize) -> Vec<(String, Option<String>)> {
        let ids = self.model.task_ids();
        ids.map_or_else(|_| Vec::new(), |(_, tasks)| beginning(tasks, prefix, limit))
    }
}
