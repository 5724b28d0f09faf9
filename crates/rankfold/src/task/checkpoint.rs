//! A checkpoint is a model file with the state of the run beside it. A run in batch
//! that has no model yet leaves one that holds the state only.

use super::average::AverageState;
use crate::form::Upkeep;
use crate::model::file::{self, Tensor, TensorFile, Tensors};
use crate::model::{Counters, FORMAT, Model};
use crate::options::{Effect, Options};
use crate::sample::Position;
use crate::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The tensor that holds the state, as JSON.
const TRAINING: &str = "state.training";

/// The names of the best model's tensors start with this.
pub(super) const BEST: &str = "state.best.";

/// And those of the average with this.
pub(super) const AVERAGE: &str = "state.average.";

/// The biases of labels, behind either.
pub(super) const BIAS: &str = "labels.bias";

/// What a checkpoint of a run step by step keeps beside the model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State {
    pub options: Value,
    pub fingerprint: u64,
    /// The same of the objects, where there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Where examples are drawn, unless the counters say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// What was decided before the first step, as the task describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Value>,
    pub window: Window,
    /// The step of the last point of the curve.
    pub measured: u64,
    pub without_gain: u32,
    pub seconds: f64,
    pub best: Option<BestState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<AverageState>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BestState {
    pub counters: Counters,
    /// By which it is the best; mAP at first, so the name in files.
    pub map: f64,
    pub upkeep: Option<Upkeep>,
}

/// Losses since the last point of the curve.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Window {
    pub loss: f64,
    pub steps: u64,
}

/// A run that was stopped, read back from its file.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    path: PathBuf,
    bytes: Vec<u8>,
    task: String,
    state: Value,
}

impl Checkpoint {
    /// Reads a checkpoint. A finished model is not one.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        #[derive(Deserialize)]
        struct Header {
            format: u32,
            task: String,
        }
        let path = path.as_ref();
        let bytes = file::read(path)?;
        let file = TensorFile::parse(path, &bytes)?;
        let damaged = |e: serde_json::Error| file.error(format!("the metadata is damaged: {e}"));
        let header: Header = serde_json::from_str(&file.card).map_err(damaged)?;
        if header.format > FORMAT {
            return Err(file.error(format!(
                "written in format {}, this version of rankfold reads up to {FORMAT}: update rankfold",
                header.format
            )));
        }
        if !file.has(TRAINING) {
            return Err(file.error("a finished model, not a checkpoint: it cannot be resumed"));
        }
        let state: Value = serde_json::from_slice(&file.u8s(TRAINING)?)
            .map_err(|e| file.error(format!("the training state is damaged: {e}")))?;
        // The model of a task of one's own is for another task.
        let own = state["task"].as_str().map(str::to_owned);
        Ok(Checkpoint {
            task: own.unwrap_or(header.task),
            state,
            path: path.to_owned(),
            bytes,
        })
    }

    /// Writes the state of a run with its options, for [`Checkpoint::state`] to give
    /// back, and the model as it is now.
    pub fn write<O: Options>(
        path: impl AsRef<Path>,
        options: &O,
        state: &impl Serialize,
        seconds: f64,
        model: &Model,
    ) -> Result<()> {
        let tensor = own_state((O::TASK, &json(options)?), state, seconds)?;
        model.save_with(path.as_ref(), vec![tensor])
    }

    /// The same for a run that has no model yet, with tensors of its own.
    pub(super) fn write_state(
        path: &Path,
        (task, options): (&str, &Value),
        state: &impl Serialize,
        seconds: f64,
        mut tensors: Tensors<'_>,
    ) -> Result<()> {
        let card = json!({ "format": FORMAT, "task": task, "unfinished": true });
        tensors.push(own_state((task, options), state, seconds)?);
        file::write(path, card.to_string(), tensors)
    }

    /// The name of its task.
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Seconds of the run up to it, as the caller counted them.
    pub fn seconds(&self) -> f64 {
        self.state["seconds"].as_f64().unwrap_or(0.0)
    }

    /// The options of the run.
    pub fn options<O: Options>(&self) -> Result<O> {
        if self.task != O::TASK {
            return Err(self.error(format!(
                "a checkpoint of `train {}`, expected one of `train {}`",
                self.task,
                O::TASK
            )));
        }
        serde_json::from_value(self.state["options"].clone())
            .map_err(|e| self.error(format!("the options are damaged: {e}")))
    }

    /// What the task keeps of the run.
    pub fn state<S: DeserializeOwned>(&self) -> Result<S> {
        let own = self.state.get("own").unwrap_or(&self.state);
        serde_json::from_value(own.clone())
            .map_err(|e| self.error(format!("the training state is damaged: {e}")))
    }

    /// What a run step by step decided before its first step.
    pub(super) fn decided<D: DeserializeOwned>(&self) -> Result<Option<D>> {
        let decided = self.state.get("decided").cloned();
        let decided = decided.map(serde_json::from_value).transpose();
        decided.map_err(|e| self.error(format!("the training state is damaged: {e}")))
    }

    /// The model as it was when the checkpoint was written.
    pub fn model(&self) -> Result<Model> {
        Model::from_file(&self.file()?)
    }

    /// The tensors of the file.
    pub(crate) fn file(&self) -> Result<TensorFile<'_>> {
        TensorFile::parse(&self.path, &self.bytes)
    }

    /// An error about the file.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::input(message).in_file(&self.path)
    }

    /// An error that names an option of this run that is not the one of the checkpoint.
    /// What changes nothing of what was learned so far may differ. A step size that was
    /// chosen need not be given again.
    pub fn check_options<O: Options>(&self, options: &O) -> Result<()> {
        let old: O = self.options()?;
        for spec in O::specs().iter().filter(|s| s.effect == Effect::Model) {
            let (mine, theirs) = (options.get(spec.name), old.get(spec.name));
            let chosen = spec.name == "step_size" && (mine.is_none() || theirs.is_none());
            if mine == theirs || chosen && self.step_size_is(mine.as_deref()) {
                continue;
            }
            let shown = |value: Option<String>| value.unwrap_or_else(|| "none".into());
            return Err(self.error(format!(
                "the checkpoint was made with {} = {}, this run asks for {}",
                spec.name,
                shown(theirs),
                shown(mine)
            )));
        }
        Ok(())
    }

    fn step_size_is(&self, given: Option<&str>) -> bool {
        let Some(given) = given.and_then(|text| text.parse::<f64>().ok()) else {
            return given.is_none();
        };
        let model = self.model();
        model.is_ok_and(|model| model.card.step_size == given)
    }
}

/// Options as JSON.
pub(super) fn json(options: &impl Serialize) -> Result<Value> {
    serde_json::to_value(options)
        .map_err(|e| Error::failure(format!("cannot describe the options: {e}")))
}

fn own_state<'a>(
    (task, options): (&str, &Value),
    state: &impl Serialize,
    seconds: f64,
) -> Result<(String, Tensor<'a>)> {
    state_tensor(&json!({
        "task": task,
        "options": options,
        "seconds": seconds,
        "own": json(state)?,
    }))
}

/// The state as it goes into the file.
pub(super) fn state_tensor<'a>(state: &impl Serialize) -> Result<(String, Tensor<'a>)> {
    let bytes = serde_json::to_vec(state)
        .map_err(|e| Error::failure(format!("cannot describe the training state: {e}")))?;
    Ok((TRAINING.to_owned(), Tensor::u8s(bytes)))
}

/// Biases that go with a form beside the one at work.
pub(super) fn bias_tensor<'a>(prefix: &str, bias: Option<&[f64]>) -> Option<(String, Tensor<'a>)> {
    let bias = bias?.to_vec();
    Some((format!("{prefix}{BIAS}"), Tensor::f64s(bias)))
}
