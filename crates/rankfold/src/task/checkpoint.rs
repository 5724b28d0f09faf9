//! Checkpoints: a model file with the state of its training beside it.

use super::average::AverageState;
use super::inputs::Inputs;
use super::similarity::Similarity;
use crate::data::Features;
use crate::form::{Form, Side, Upkeep};
use crate::model::file::{Tensor, TensorFile, Tensors};
use crate::model::{Counters, Knowledge, Model, Precise, forms};
use crate::sample::Position;
use crate::{Error, Real, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The tensor that holds the state, as JSON.
const TRAINING: &str = "state.training";

/// The names of the best form's tensors start with this.
const BEST: &str = "state.best.";

/// And those of the average with this.
const AVERAGE: &str = "state.average.";

/// The biases of labels, behind either.
const BIAS: &str = "labels.bias";

/// The best model so far, by validation.
#[derive(Debug, Clone)]
pub(super) struct Best<R> {
    pub form: Form<R>,
    pub counters: Counters,
    pub map: f64,
}

/// What a checkpoint keeps beside the model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State<O> {
    pub options: O,
    pub fingerprint: u64,
    /// The same of the objects, where there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Where triplets are drawn; labels need none, the step says it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
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
    pub map: f64,
    pub upkeep: Option<Upkeep>,
}

/// Losses since the last point of the curve.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Window {
    pub loss: f64,
    pub steps: u64,
}

/// The options of a task, which a checkpoint keeps.
pub trait TaskOptions: Serialize + DeserializeOwned {
    /// What cards call the task.
    const TASK: &'static str;
}

impl TaskOptions for Similarity {
    const TASK: &'static str = "similarity";
}

/// A training run read back from a file.
#[derive(Debug, Clone)]
pub struct Checkpoint<O = Similarity> {
    /// The model as it was when the checkpoint was written.
    pub model: Model,
    pub(super) state: State<O>,
    pub(super) best: Option<Precise>,
    pub(super) average: Option<Precise>,
    /// The biases that go with these two, where labels have some.
    pub(super) best_bias: Option<Vec<f64>>,
    pub(super) average_bias: Option<Vec<f64>>,
}

impl<O: TaskOptions> Checkpoint<O> {
    /// Reads a checkpoint. A finished model is not one.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|e| Error::reading(path, &e))?;
        let file = TensorFile::parse(path, &bytes)?;
        let model = Model::from_file(&file)?;
        if !file.has(TRAINING) {
            return Err(file.error("a finished model, not a checkpoint: it cannot be resumed"));
        }
        if model.task() != O::TASK {
            let (found, wanted) = (model.task(), O::TASK);
            return Err(file.error(format!(
                "a checkpoint of `train {found}`, expected one of `train {wanted}`"
            )));
        }
        let state: State<O> = serde_json::from_slice(&file.u8s(TRAINING)?)
            .map_err(|e| file.error(format!("the training state is damaged: {e}")))?;
        let kept = state.best.as_ref().map(|kept| &kept.upkeep);
        let best = read_like(&file, &model.form, kept, BEST)?;
        let kept = state.average.as_ref().map(|kept| &kept.upkeep);
        let average = read_like(&file, &model.form, kept, AVERAGE)?;
        let labels = match &model.knowledge {
            Knowledge::Ranking(known) => Some(known.prior.bias.len()),
            _ => None,
        };
        let bias = |prefix: &str| {
            let name = format!("{prefix}{BIAS}");
            let labels = labels.filter(|_| file.has(&name));
            labels.map(|labels| file.f64s(&name, labels)).transpose()
        };
        Ok(Checkpoint {
            best_bias: bias(BEST)?,
            average_bias: bias(AVERAGE)?,
            model,
            state,
            best,
            average,
        })
    }

    /// The options it was made with.
    pub fn options(&self) -> &O {
        &self.state.options
    }

    /// Seconds of training up to it, as the caller counted them.
    pub fn seconds(&self) -> f64 {
        self.state.seconds
    }
}

/// A form beside the one at work, stored like it; `kept` are its counters.
fn read_like(
    file: &TensorFile<'_>,
    like: &Precise,
    kept: Option<&Option<Upkeep>>,
    prefix: &str,
) -> Result<Option<Precise>> {
    fn read<R: Real>(
        file: &TensorFile<'_>,
        like: &Form<R>,
        kept: Option<Upkeep>,
        prefix: &str,
    ) -> Result<Precise> {
        let view = like.view();
        forms::read::<R>(file, view.name(), view.rank(), kept, prefix).map(Precise::new)
    }
    let Some(kept) = kept.cloned() else {
        return Ok(None);
    };
    let form = match like {
        Precise::F32(form) => read(file, form, kept, prefix),
        Precise::F64(form) => read(file, form, kept, prefix),
    };
    form.map(Some)
}

/// What goes into the file beside the model.
pub(super) fn tensors<'a, R: Real>(
    state: &State<impl Serialize>,
    best: Option<&'a Form<R>>,
    average: Option<&'a Form<R>>,
) -> Result<Tensors<'a>> {
    let json = serde_json::to_vec(state)
        .map_err(|e| Error::failure(format!("cannot describe the training state: {e}")))?;
    let mut out = vec![(TRAINING.to_owned(), Tensor::u8s(json))];
    if let Some(best) = best {
        out.extend(forms::tensors(best.view(), BEST));
    }
    if let Some(average) = average {
        out.extend(forms::tensors(average.view(), AVERAGE));
    }
    Ok(out)
}

/// The biases of the best labels so far, and of their average.
pub(super) fn bias_tensors<'a>(
    best: Option<&[f64]>,
    average: Option<&[f64]>,
) -> impl Iterator<Item = (String, Tensor<'a>)> {
    let both = [(BEST, best), (AVERAGE, average)];
    let given = both.map(|(prefix, bias)| {
        let bias = bias?.to_vec();
        Some((format!("{prefix}{BIAS}"), Tensor::f64s(bias)))
    });
    given.into_iter().flatten()
}

/// An error that names an option of this run that is not the one wanted.
pub(super) fn same_options<O: TaskOptions + PartialEq>(options: &O, wanted: &O) -> Result<()> {
    if wanted == options {
        return Ok(());
    }
    let (mine, theirs) = (json(options), json(wanted));
    let differing = mine
        .iter()
        .find(|(key, value)| theirs.get(*key) != Some(value));
    let (key, value) = differing.expect("the options differ");
    Err(Error::input(format!(
        "the checkpoint was made with {key} = {}, this run asks for {value}",
        theirs.get(key).unwrap_or(&serde_json::Value::Null)
    )))
}

impl<O> Checkpoint<O> {
    /// Whether this run stores its numbers alike and has the same vocabulary.
    pub(super) fn check_model<R: Real>(&self, features: &Features) -> Result<()> {
        if self.model.precision() != R::NAME {
            return Err(Error::input(format!(
                "the checkpoint was made with precision {}, this run asks for {}",
                self.model.precision(),
                R::NAME
            )));
        }
        if features.vocabulary() != self.model.vocabulary() {
            let message = match self.model.vocabulary() {
                Some(_) => "the checkpoint was made with another vocabulary",
                None => "the checkpoint was made without a vocabulary",
            };
            return Err(Error::input(message));
        }
        Ok(())
    }
}

impl Checkpoint {
    /// Whether this run is the one that was interrupted.
    pub(super) fn check<R: Real>(
        &self,
        options: &Similarity,
        inputs: &Inputs<'_, R>,
    ) -> Result<()> {
        let old = &self.state.options;
        let mut wanted = old.clone();
        // What may differ without changing what was learned so far.
        wanted.steps = options.steps;
        wanted.epochs = options.epochs;
        wanted.patience = options.patience;
        wanted.curve_every = options.curve_every;
        wanted.threads = options.threads;
        if options.step_size.is_none() || options.step_size == Some(self.model.card.step_size) {
            wanted.step_size = options.step_size;
        }
        same_options(options, &wanted)?;
        self.check_model::<R>(inputs.rows.features)?;
        let columns = inputs.rows.rows.columns();
        if inputs.fingerprint != self.state.fingerprint || columns != self.model.columns() {
            return Err(Error::input("the checkpoint was made with other data"));
        }
        let columns = inputs.right().rows.columns();
        if inputs.objects_fingerprint != self.state.objects
            || columns != self.model.columns_of(Side::Right)
        {
            return Err(Error::input(match self.state.objects {
                Some(_) => "the checkpoint was made with other objects",
                None => "the checkpoint was made without objects",
            }));
        }
        Ok(())
    }
}

fn json(options: &impl Serialize) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(options) {
        Ok(serde_json::Value::Object(map)) => map,
        _ => unreachable!("options are an object"),
    }
}
