//! Tasks by shards: a shard that answers questions, and a search that asks them of somebody.

use crate::data::{Coded, Data};
use crate::errors::raised;
use crate::fit::rows_of_tasks;
use crate::model::Model;
use crate::tables::{Given, parse};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rankfold::{Error, Ids, Multitask, task};
use std::sync::Mutex;

/// The tasks of a shard.
#[pyclass(module = "rankfold._rankfold")]
pub struct TaskShard {
    shard: task::TaskShard,
}

#[pymethods]
impl TaskShard {
    /// From its rows, with the options of all shards.
    #[new]
    fn new(
        options: Given,
        rows: &Bound<'_, Data>,
        tasks: Coded<'_>,
        targets: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let options: Multitask = parse(&options).map_err(raised)?;
        let data = rows_of_tasks(rows.get(), &tasks, &targets)?;
        let shard = task::TaskShard::new(options, data).map_err(raised)?;
        Ok(TaskShard { shard })
    }

    /// The part of the shard in what is asked; `sums` came with the question `framed`.
    fn answer<'py>(
        &mut self,
        py: Python<'py>,
        what: &str,
        sums: PyReadonlyArray1<'py, f64>,
        numbers: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (sums, numbers) = (sums.as_slice()?, numbers.as_slice()?);
        let answer = py.detach(|| self.shard.answer(what, sums, numbers));
        Ok(answer.map_err(raised)?.into_pyarray(py))
    }
}

/// Learns from tasks that shards hold. `ask` gets what is asked, numbers, and whether answers are
/// added up; `told` each iteration with its cost, and ends the search with False.
#[pyfunction]
pub fn fit_task_shards(
    py: Python<'_>,
    options: Given,
    features: Vec<String>,
    tasks: Vec<String>,
    ask: Py<PyAny>,
    told: Py<PyAny>,
) -> PyResult<(Model, f64)> {
    let options: Multitask = parse(&options).map_err(raised)?;
    let (features, tasks): (Ids, Ids) = (features.iter().collect(), tasks.iter().collect());
    let stopped: Mutex<Option<PyErr>> = Mutex::new(None);
    let fail = |error: PyErr| {
        let mut stopped = stopped.lock().unwrap_or_else(|e| e.into_inner());
        stopped.get_or_insert(error);
    };
    let mut asked = |question: &task::TaskQuestion| {
        let answer = Python::attach(|py| {
            let numbers = question.numbers.clone().into_pyarray(py);
            let answer = ask.call1(py, (question.what, numbers, question.summed))?;
            let answer: PyReadonlyArray1<'_, f64> = answer
                .extract(py)
                .map_err(|_| PyValueError::new_err("an answer is no array of numbers"))?;
            PyResult::Ok(answer.as_slice()?.to_vec())
        });
        answer.map_err(|error| {
            fail(error);
            Error::failure("a question to shards was not answered")
        })
    };
    let mut observer = |number: usize, cost: f64| {
        let goes_on = Python::attach(|py| {
            let answer = told.call1(py, (number, cost))?;
            PyResult::Ok(!answer.bind(py).is(pyo3::types::PyBool::new(py, false)))
        });
        goes_on.unwrap_or_else(|error| {
            fail(error);
            false
        })
    };
    let found = py.detach(|| options.fit_sharded((features, tasks), &mut asked, &mut observer));
    if let Some(error) = stopped.into_inner().unwrap_or_else(|e| e.into_inner()) {
        return Err(error);
    }
    let (model, cost) = found.map_err(raised)?;
    Ok((Model::new(model), cost))
}
