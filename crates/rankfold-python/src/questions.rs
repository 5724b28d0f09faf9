//! Questions to shards that Python passes on, and what its functions raise on the way.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rankfold::task::ShardQuestion;
use rankfold::{Error, Result};
use std::sync::Mutex;

/// The first error that a function of Python raised.
#[derive(Default)]
pub struct Raised(Mutex<Option<PyErr>>);

impl Raised {
    /// Keeps an error, unless there was one.
    pub fn keep(&self, error: PyErr) {
        let mut first = self.0.lock().unwrap_or_else(|e| e.into_inner());
        first.get_or_insert(error);
    }

    /// An error where there was one.
    pub fn check(self) -> PyResult<()> {
        let first = self.0.into_inner().unwrap_or_else(|e| e.into_inner());
        first.map_or(Ok(()), Err)
    }
}

/// The answers of `ask`, which gets what is asked, numbers, and whether answers are added up.
pub fn answers<'a>(
    ask: &'a Py<PyAny>,
    raised: &'a Raised,
) -> impl FnMut(&ShardQuestion) -> Result<Vec<f64>> + Send + 'a {
    move |question| {
        let answer = Python::attach(|py| {
            let numbers = question.numbers.clone().into_pyarray(py);
            let answer = ask.call1(py, (question.what, numbers, question.summed))?;
            let answer: PyReadonlyArray1<'_, f64> = answer
                .extract(py)
                .map_err(|_| PyValueError::new_err("an answer is no array of numbers"))?;
            PyResult::Ok(answer.as_slice()?.to_vec())
        });
        answer.map_err(|error| {
            raised.keep(error);
            Error::failure("a question to shards was not answered")
        })
    }
}

/// Tells `told` each iteration with its cost; False ends the search.
pub fn observer<'a>(
    told: &'a Py<PyAny>,
    raised: &'a Raised,
) -> impl FnMut(usize, f64) -> bool + Send + 'a {
    move |number, cost| {
        let goes_on = Python::attach(|py| {
            let answer = told.call1(py, (number, cost))?;
            PyResult::Ok(!answer.bind(py).is(pyo3::types::PyBool::new(py, false)))
        });
        goes_on.unwrap_or_else(|error| {
            raised.keep(error);
            false
        })
    }
}
