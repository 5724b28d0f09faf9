//! The options of tasks, as the library declares them.

use crate::convert::object;
use crate::errors::raised;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rankfold::options::{Effect, Kind, OptionSpec, Options};
use rankfold::task::{Map, Start};
use rankfold::{
    Completion, Error, Gossip, Kernel, Metric, Multitask, Pairs, Ranking, Real, Recommend, Result,
    Similarity,
};
use serde_json::{Value, json};

/// Options by name, as texts.
pub type Given = Vec<(String, String)>;

/// Runs the same expression for the options of a task, by its name.
#[macro_export]
macro_rules! by_task {
    ($task:expr, $options:ident => $body:expr) => {
        $crate::by_task!(@ $task, $options => $body;
            Similarity, Metric, Ranking, Completion, Recommend, Pairs, Kernel, Map, Multitask, Gossip)
    };
    (@ $task:expr, $options:ident => $body:expr; $($name:ident),*) => {
        match $task {
            $( name if name == <$name as Options>::TASK => {
                type $options = $name;
                $body
            } )*
            other => Err(Error::input(format!("there is no task `{other}`"))),
        }
    };
}

const TASKS: [&str; 10] = [
    Similarity::TASK,
    Metric::TASK,
    Ranking::TASK,
    Completion::TASK,
    Recommend::TASK,
    Pairs::TASK,
    Kernel::TASK,
    Map::TASK,
    Multitask::TASK,
    Gossip::TASK,
];

fn described(spec: &OptionSpec) -> Value {
    let (kind, shape) = match spec.kind {
        Kind::Flag => ("flag", None),
        Kind::Integer => ("integer", None),
        Kind::Number => ("number", None),
        Kind::Choice(_) => ("choice", None),
        Kind::Text(shape) => ("text", Some(shape)),
        _ => ("text", None),
    };
    let choices: Vec<Value> = spec
        .choices()
        .iter()
        .map(|choice| json!([choice.name, choice.doc.trim()]))
        .collect();
    json!({
        "name": spec.name,
        "doc": spec.text(),
        "kind": kind,
        "shape": shape,
        "default": (spec.default)(),
        "range": spec.range.to_string(),
        "choices": choices,
        "applies_to": spec.applies_to,
        "effect": match spec.effect {
            Effect::Model => "model",
            Effect::Length => "length",
            Effect::Time => "time",
        },
    })
}

/// The options of all tasks, by the name of the task.
#[pyfunction]
pub fn tables(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let out = PyDict::new(py);
    for task in TASKS {
        let specs = by_task!(task, T => Ok(T::specs())).map_err(raised)?;
        let specs = specs.iter().map(|spec| object(py, &described(spec)));
        out.set_item(task, PyList::new(py, specs.collect::<PyResult<Vec<_>>>()?)?)?;
    }
    Ok(out)
}

/// The options of a task from texts.
pub fn parse<T: Options>(given: &Given) -> Result<T> {
    let mut options = T::default();
    for (name, text) in given {
        // A model file to start from: the run brings it.
        let file = name == "init" && Start::is_file(text);
        options.set(name, if file { "model" } else { text })?;
    }
    Ok(options)
}

/// The model to start from, where `init` is its file.
pub fn start(given: &Given) -> Result<Option<Start>> {
    let init = given.iter().find(|(name, _)| name == "init");
    let file = init.filter(|(_, text)| Start::is_file(text));
    file.map(|(_, path)| Start::load(path)).transpose()
}

/// Checks the options of a task.
#[pyfunction]
pub fn check(task: &str, options: Given) -> PyResult<()> {
    by_task!(task, T => parse::<T>(&options).and_then(|options| options.check_table()))
        .map_err(raised)
}

/// The precision in which a task stores tall factors where nobody says otherwise.
#[pyfunction]
pub fn precision(task: &str, options: Given) -> PyResult<&'static str> {
    let wide = match task {
        Metric::TASK => !parse::<Metric>(&options).map_err(raised)?.stores_f32(),
        Kernel::TASK | Map::TASK | Multitask::TASK => true,
        _ => false,
    };
    Ok(match wide {
        true => f64::NAME,
        false => f32::NAME,
    })
}
