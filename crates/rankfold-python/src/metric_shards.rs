//! Metrics by shards: pairs that answer questions, and a search that asks them of somebody.

use crate::convert::array;
use crate::data::{Data, InPrecision, Precise};
use crate::errors::raised;
use crate::fit::{Relations, constraints, row_numbers};
use crate::model::Model;
use crate::questions::{Raised, answers, observer};
use crate::tables::{Given, parse};
use crate::{by_precision, with_rows};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rankfold::batch::{self, Pair};
use rankfold::task::{self, MetricData, ShardedMetric};
use rankfold::{Error, Metric, Real, Result, Rows};

/// The share of entries above which rows are handed out with their zeros.
const DENSE: f64 = 0.25;

/// Bounds by their numbers.
const BOUNDS: [batch::Bound; 3] = {
    use batch::Bound::{AtLeast, AtMost, Equal};
    [Equal, AtMost, AtLeast]
};

/// The pairs of a shard.
#[pyclass(module = "rankfold._rankfold")]
pub struct MetricShard {
    shard: task::MetricShard,
}

#[pymethods]
impl MetricShard {
    /// From its rows and pairs, as `deal` of `fit_metric_shards` got them; `all` is the number of pairs
    /// of all shards.
    #[new]
    fn new(
        rows: &Bound<'_, Data>,
        pairs: PyReadonlyArray2<'_, i64>,
        kinds: PyReadonlyArray1<'_, i64>,
        targets: PyReadonlyArray1<'_, f64>,
        all: usize,
        threads: usize,
    ) -> PyResult<Self> {
        let rows = &rows.get().get::<f64>().map_err(raised)?.rows;
        let pairs = row_numbers(&pairs, "pairs", [rows.len(); 2])?;
        let (kinds, targets) = (kinds.as_slice()?, targets.as_slice()?);
        if pairs.len() != kinds.len() || pairs.len() != targets.len() {
            let message = format!("{} pairs, {} kinds", pairs.len(), kinds.len());
            return Err(PyValueError::new_err(message));
        }
        let bounded = |((&[left, right], &kind), &target): ((&[u32; 2], &i64), &f64)| {
            let bound = usize::try_from(kind).ok().and_then(|kind| BOUNDS.get(kind));
            let bound = bound.ok_or_else(|| PyValueError::new_err(format!("bound {kind}")))?;
            Ok((Pair { left, right }, *bound, target))
        };
        let list = pairs.iter().zip(kinds).zip(targets).map(bounded);
        let list = list.collect::<PyResult<Vec<_>>>()?;
        let shard = task::MetricShard::new(rows, &list, all, threads).map_err(raised)?;
        Ok(MetricShard { shard })
    }

    /// The part of the shard in what is asked.
    fn answer<'py>(
        &mut self,
        py: Python<'py>,
        what: &str,
        numbers: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let numbers = numbers.as_slice()?;
        let answer = py.detach(|| self.shard.answer(what, numbers));
        Ok(answer.map_err(raised)?.into_pyarray(py))
    }
}

/// Rows as an array, or as the arrays of a CSR matrix with its number of columns.
fn handed<R: Real>(py: Python<'_>, rows: &Rows<R>) -> PyResult<Py<PyAny>> {
    let (n, d) = (rows.len(), rows.columns());
    if rows.nnz() as f64 > DENSE * n as f64 * d as f64 {
        let mut values = vec![0.0; n * d];
        for (row, out) in rows.iter().zip(values.chunks_exact_mut(d)) {
            row.iter().for_each(|(j, v)| out[j as usize] = v.to_f64());
        }
        return Ok(array(py, values, d)?.into_any().unbind());
    }
    let (mut starts, mut indices, mut values) = (vec![0_i64], Vec::new(), Vec::new());
    for row in rows.iter() {
        for (j, v) in row.iter() {
            indices.push(i64::from(j));
            values.push(v.to_f64());
        }
        starts.push(values.len() as i64);
    }
    let arrays = (
        starts.into_pyarray(py),
        indices.into_pyarray(py),
        values.into_pyarray(py),
        d,
    );
    Ok(arrays.into_pyobject(py)?.into_any().unbind())
}

fn dealt<R: Real>(
    deal: &Py<PyAny>,
    rows: &Rows<R>,
    pairs: &[(Pair, batch::Bound, f64)],
) -> PyResult<()> {
    Python::attach(|py| {
        let ends = pairs.iter().flat_map(|(p, ..)| [p.left, p.right]);
        let ends = array(py, ends.map(i64::from).collect(), 2)?;
        let kind =
            |bound: &batch::Bound| BOUNDS.iter().position(|b| b == bound).unwrap_or(0) as i64;
        let kinds: Vec<i64> = pairs.iter().map(|(_, bound, _)| kind(bound)).collect();
        let targets: Vec<f64> = pairs.iter().map(|(.., target)| *target).collect();
        let given = (
            handed(py, rows)?,
            ends,
            kinds.into_pyarray(py),
            targets.into_pyarray(py),
        );
        deal.call1(py, given).map(|_| ())
    })
}

fn fitted<R: InPrecision>(
    options: &Metric,
    rows: &Data,
    known: Option<&[rankfold::data::Constraint]>,
    (deal, ask, told): (&Py<PyAny>, &Py<PyAny>, &Py<PyAny>),
    failed: &Raised,
) -> Result<ShardedMetric> {
    let data = MetricData {
        rows: rows.get::<R>()?,
        constraints: known,
        valid: None,
    };
    let mut deal = |rows: &Rows<R>, pairs: &[(Pair, batch::Bound, f64)]| {
        dealt(deal, rows, pairs).map_err(|error| {
            failed.keep(error);
            Error::failure("pairs were not dealt")
        })
    };
    let (mut ask, mut told) = (answers(ask, failed), observer(told, failed));
    options.fit_sharded(data, &mut deal, &mut ask, &mut told)
}

/// Learns from pairs that shards hold: given ones, or those that labels make. `deal` gets the rows and
/// all pairs, with their bounds and targets; `ask` what is asked, numbers, and whether answers are added
/// up; `told` each iteration with its cost, and ends the search with False. Gives the model, the cost,
/// the number of pairs, how many are violated, and whether the search converged.
#[pyfunction]
pub fn fit_metric_shards(
    py: Python<'_>,
    options: Given,
    rows: &Bound<'_, Data>,
    relations: Option<Relations<'_>>,
    deal: Py<PyAny>,
    ask: Py<PyAny>,
    told: Py<PyAny>,
) -> PyResult<(Model, f64, usize, usize, bool)> {
    let options: Metric = parse(&options).map_err(raised)?;
    let rows = rows.get();
    let count = with_rows!(rows, data => data.rows.len());
    let known = relations
        .map(|known| constraints(&known, count))
        .transpose()?;
    let failed = Raised::default();
    let found = py.detach(|| {
        let calls = (&deal, &ask, &told);
        by_precision!(rows.rows, R => fitted::<R>(&options, rows, known.as_deref(), calls, &failed))
    });
    failed.check()?;
    let found = found.map_err(raised)?;
    Ok((
        Model::new(found.model),
        found.cost,
        found.constraints,
        found.violated,
        found.converged,
    ))
}
