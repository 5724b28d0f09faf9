//! Tasks by shards: a shard that answers questions, and a search that asks them of somebody.

use crate::data::{Coded, Data};
use crate::errors::raised;
use crate::fit::rows_of_tasks;
use crate::model::Model;
use crate::questions::{Raised, answers, observer};
use crate::tables::{Given, parse};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use rankfold::{Ids, Multitask, task};

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
    #[pyo3(signature = (what, numbers, sums=None))]
    fn answer<'py>(
        &mut self,
        py: Python<'py>,
        what: &str,
        numbers: PyReadonlyArray1<'py, f64>,
        sums: Option<PyReadonlyArray1<'py, f64>>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let numbers = numbers.as_slice()?;
        let sums = sums.as_ref().map_or(Ok(&[][..]), |sums| sums.as_slice())?;
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
    let failed = Raised::default();
    let found = py.detach(|| {
        let (mut ask, mut told) = (answers(&ask, &failed), observer(&told, &failed));
        options.fit_sharded((features, tasks), &mut ask, &mut told)
    });
    failed.check()?;
    let (model, cost) = found.map_err(raised)?;
    Ok((Model::new(model), cost))
}
