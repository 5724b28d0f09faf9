//! Factorization by shards: pure functions of arrays, so that whoever runs them may lose any of
//! them and run it again.

use crate::errors::raised;
use crate::model::{Model, flat};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rankfold::batch::Lines;
use rankfold::batch::sharded::{Method, Shard, State, add};
use rankfold::model::{RatingFactors, RatingsLearned};

/// Lines: where each starts, with the end at last, and places and values of all entries.
type Arrays<'py> = (
    PyReadonlyArray1<'py, u64>,
    PyReadonlyArray1<'py, u32>,
    PyReadonlyArray1<'py, f64>,
);

/// A shard in the memory of Python, which may be a file that is mapped.
struct Lent<'a> {
    starts: [Vec<usize>; 2],
    rows: &'a Arrays<'a>,
    columns: &'a Arrays<'a>,
}

impl<'a> Lent<'a> {
    fn new(rows: &'a Arrays<'a>, columns: &'a Arrays<'a>) -> PyResult<Self> {
        let starts = |lines: &Arrays<'_>| -> PyResult<Vec<usize>> {
            Ok(lines.0.as_slice()?.iter().map(|s| *s as usize).collect())
        };
        Ok(Lent {
            starts: [starts(rows)?, starts(columns)?],
            rows,
            columns,
        })
    }

    fn shard(&self, threads: usize) -> PyResult<Shard<'_>> {
        let many = |side: usize| self.starts[side].len().saturating_sub(1);
        let lines = |side: usize, arrays: &'a Arrays<'a>, places: usize| -> PyResult<Lines<'_>> {
            let (index, value) = (arrays.1.as_slice()?, arrays.2.as_slice()?);
            Lines::lent(&self.starts[side], index, value, places).map_err(raised)
        };
        let rows = lines(0, self.rows, many(1))?;
        let columns = lines(1, self.columns, many(0))?;
        Shard::new(rows, columns, threads.max(1)).map_err(raised)
    }
}

/// Two arrays.
type Two<'py, A, B> = (Bound<'py, PyArray1<A>>, Bound<'py, PyArray1<B>>);

/// How many entries a shard has, and their sum; rows that have some, and their counts as logarithms
/// and squares of these summed; and how many entries each column has.
#[pyfunction]
pub fn shard_counts<'py>(
    py: Python<'py>,
    rows: Arrays<'py>,
    columns: Arrays<'py>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    Ok(Lent::new(&rows, &columns)?
        .shard(1)?
        .counts()
        .into_pyarray(py))
}

/// The squares of the entries of a shard less a center, summed.
#[pyfunction]
pub fn shard_squares(rows: Arrays<'_>, columns: Arrays<'_>, center: f64) -> PyResult<f64> {
    Ok(Lent::new(&rows, &columns)?.shard(1)?.squares(center))
}

/// Biases of the rows of a shard alone, and what they leave of each column, summed.
#[pyfunction]
pub fn shard_biases<'py>(
    py: Python<'py>,
    rows: Arrays<'py>,
    columns: Arrays<'py>,
    center: f64,
    biases: PyReadonlyArray1<'py, f64>,
    ridge: f64,
) -> PyResult<Two<'py, f64, f64>> {
    let lent = Lent::new(&rows, &columns)?;
    let (shard, biases) = (lent.shard(1)?, biases.as_slice()?);
    if biases.len() != shard.entries.columns.len() {
        return Err(PyValueError::new_err("a bias for each column is needed"));
    }
    let own = shard.row_biases(center, biases, ridge);
    let rests = shard.column_rests(center, &own);
    Ok((own.into_pyarray(py), rests.into_pyarray(py)))
}

/// The answer of a shard to a state, and the weights of its rows.
#[pyfunction]
pub fn shard_answer<'py>(
    py: Python<'py>,
    rows: Arrays<'py>,
    columns: Arrays<'py>,
    state: PyReadonlyArray1<'py, u8>,
    weights: PyReadonlyArray1<'py, f32>,
    threads: usize,
) -> PyResult<Two<'py, f64, f32>> {
    let lent = Lent::new(&rows, &columns)?;
    let (shard, state, weights) = (lent.shard(threads)?, state.as_slice()?, weights.as_slice()?);
    let answered = py.detach(|| shard.answer(&State::from_bytes(state)?, weights));
    let (answer, weights) = answered.map_err(raised)?;
    Ok((answer.into_pyarray(py), weights.into_pyarray(py)))
}

/// The part of a shard in what follows from a question of a state.
#[pyfunction]
pub fn shard_pattern<'py>(
    py: Python<'py>,
    rows: Arrays<'py>,
    columns: Arrays<'py>,
    question: PyReadonlyArray1<'py, f64>,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let lent = Lent::new(&rows, &columns)?;
    let (shard, question) = (lent.shard(threads)?, question.as_slice()?);
    let answer = py.detach(|| shard.pattern(question)).map_err(raised)?;
    Ok(answer.into_pyarray(py))
}

/// What `shard_rows` gives: factors, biases, and what is left of the entries.
type Rows<'py> = (
    Bound<'py, PyArray1<f64>>,
    Option<Bound<'py, PyArray1<f64>>>,
    f64,
);

/// The rows of a shard that follow from a state: factors one behind the other, biases where there
/// are some, and what is left of the entries, squared and summed.
#[pyfunction]
pub fn shard_rows<'py>(
    py: Python<'py>,
    rows: Arrays<'py>,
    columns: Arrays<'py>,
    state: PyReadonlyArray1<'py, u8>,
    weights: PyReadonlyArray1<'py, f32>,
    threads: usize,
) -> PyResult<Rows<'py>> {
    let lent = Lent::new(&rows, &columns)?;
    let (shard, state, weights) = (lent.shard(threads)?, state.as_slice()?, weights.as_slice()?);
    let found = py.detach(|| shard.rows(&State::from_bytes(state)?, weights));
    let found = found.map_err(raised)?;
    let bias = found.bias.map(|bias| bias.into_pyarray(py));
    Ok((found.factors.into_pyarray(py), bias, found.squares))
}

/// Adds the answer of another shard, or of several, to one.
#[pyfunction]
pub fn shard_add(
    mut to: PyReadwriteArray1<'_, f64>,
    other: PyReadonlyArray1<'_, f64>,
) -> PyResult<()> {
    add(to.as_slice_mut()?, other.as_slice()?).map_err(raised)
}

/// A factorization of entries that shards have.
#[pyclass(module = "rankfold._rankfold")]
pub struct Shards {
    state: State,
}

#[pymethods]
impl Shards {
    /// Before the first sweep, from the counts of all shards added up.
    #[new]
    #[pyo3(signature = (learner, rank, biases, counts, squares, seed=0, regularization=0.0, penalty_power=0.5, prune=false, implicit=false))]
    #[allow(
        clippy::too_many_arguments,
        reason = "each is an option of the learner"
    )]
    fn new(
        learner: &str,
        rank: usize,
        biases: bool,
        counts: PyReadonlyArray1<'_, f64>,
        squares: f64,
        seed: u64,
        regularization: f64,
        penalty_power: f64,
        prune: bool,
        implicit: bool,
    ) -> PyResult<Self> {
        let method = match learner {
            "als" => Method::Als {
                lambda: regularization,
                power: penalty_power,
            },
            "bayes" => Method::Bayes { prune, implicit },
            other => {
                let message = format!("expected the learner 'als' or 'bayes', found {other:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        let state = State::new(method, (rank, biases), counts.as_slice()?, squares, seed);
        Ok(Shards {
            state: state.map_err(raised)?,
        })
    }

    /// From the bytes of a state.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let state = State::from_bytes(bytes).map_err(raised)?;
        Ok(Shards { state })
    }

    /// What shards are sent, and from which a run goes on.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        match self.state.has_question() {
            true => Err(PyValueError::new_err("a question of the sweep is open")),
            false => Ok(PyBytes::new(py, &self.state.to_bytes())),
        }
    }

    /// One sweep, from the answers of all shards added up: the cost of ALS, or the noise. The sweep
    /// goes on while there is a question.
    fn step(
        &mut self,
        py: Python<'_>,
        answer: PyReadonlyArray1<'_, f64>,
        threads: usize,
    ) -> PyResult<f64> {
        let (state, answer) = (&mut self.state, answer.as_slice()?);
        py.detach(|| state.step(answer, threads.max(1)))
            .map_err(raised)
    }

    /// What all shards are asked before the sweep is done.
    fn question<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.state.question().map(|asked| asked.into_pyarray(py))
    }

    /// Goes on from the answers of all shards to the question, added up.
    fn hear(&mut self, answer: PyReadonlyArray1<'_, f64>) -> PyResult<()> {
        self.state.hear(answer.as_slice()?).map_err(raised)
    }

    /// Whether a sweep changes next to nothing.
    fn settled(&self, tolerance: f64) -> bool {
        self.state.is_settled(tolerance)
    }

    /// Sweeps that were made.
    #[getter]
    fn iteration(&self) -> usize {
        self.state.iteration
    }

    /// The rank, which falls where factors are dropped.
    #[getter]
    fn rank(&self) -> usize {
        self.state.rank
    }

    /// What all entries have in common.
    #[getter]
    fn center(&self) -> f64 {
        self.state.center
    }

    /// The cost after each sweep, or the noise.
    #[getter]
    fn costs(&self) -> Vec<f64> {
        self.state.costs.clone()
    }

    /// How many numbers an answer has.
    #[getter]
    fn answer_len(&self) -> usize {
        self.state.answer_len()
    }

    /// Factors of all columns, one behind the other, and biases where there are some.
    fn factors<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, PyArray1<f64>>, Option<Bound<'py, PyArray1<f64>>>) {
        let (factors, bias) = self.state.factors();
        (
            factors.into_pyarray(py),
            bias.map(|bias| bias.into_pyarray(py)),
        )
    }

    /// The model of ratings, when the rows of all shards are known.
    #[allow(clippy::too_many_arguments, reason = "all that a model of ratings has")]
    fn model(
        &self,
        users: Vec<String>,
        items: Vec<String>,
        user_factors: PyReadonlyArray2<'_, f64>,
        user_bias: Option<Vec<f64>>,
        user_count: Vec<u64>,
        baseline: (Vec<f64>, Vec<f64>),
        squares: f64,
        scale: Option<(f64, f64)>,
        seed: u64,
        precision: &str,
    ) -> PyResult<Model> {
        let state = &self.state;
        let (factors, bias) = state.factors();
        let rank = user_factors.as_array().ncols();
        if rank != state.rank {
            let message = format!("users of rank {rank} for items of rank {}", state.rank);
            return Err(PyValueError::new_err(message));
        }
        let (learner, penalty) = match state.method {
            Method::Als { lambda, power } => ("als", Some((lambda, power))),
            Method::Bayes { .. } => ("bayes", None),
        };
        let given = RatingFactors {
            ids: (users.iter().collect(), items.iter().collect()),
            factors: [flat(&user_factors), factors],
            rank,
            mean: state.center,
            bias: user_bias.zip(bias).map(|(users, items)| [users, items]),
            scale,
        };
        let learned = RatingsLearned {
            learner: learner.into(),
            count: [user_count, state.counts.iter().map(|n| *n as u64).collect()],
            baseline: [baseline.0, baseline.1],
            baseline_mean: state.center,
            residual: (squares / state.entries).sqrt(),
            noise: state.noise(),
            penalty,
            seed,
            iterations: state.iteration as u64,
        };
        let model = match precision {
            "f64" => rankfold::Model::from_learned_ratings::<f64>(given, learned),
            _ => rankfold::Model::from_learned_ratings::<f32>(given, learned),
        };
        model.map(Model::new).map_err(raised)
    }
}

/// One model of several, and what is to be said about it.
#[pyfunction]
#[pyo3(signature = (models, rank=None, weights=None, seed=0))]
pub fn merge(
    py: Python<'_>,
    models: Vec<Bound<'_, Model>>,
    rank: Option<usize>,
    weights: Option<Vec<f64>>,
    seed: u64,
) -> PyResult<(Model, f64, Vec<String>)> {
    let mut all = Vec::with_capacity(models.len());
    for model in &models {
        all.push(model.get().ask(py, |model| Ok(model.clone()))?);
    }
    let options = rankfold::model::MergeOptions::default()
        .rank(rank)
        .weights(weights)
        .seed(seed);
    let merged = py.detach(|| {
        let all: Vec<&rankfold::Model> = all.iter().collect();
        rankfold::Model::merge(&all, &options)
    });
    let merged = merged.map_err(raised)?;
    Ok((Model::new(merged.model), merged.lost, merged.notes))
}
