//! Agents that live elsewhere: each on its own, and a run that asks somebody for their turns.

use crate::errors::raised;
use crate::questions::Raised;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyList;
use rankfold::gossip::{Elsewhere, Seat, Turn};
use rankfold::{Error, Result};

/// Bytes as Python has them.
type Bytes<'py> = Bound<'py, PyArray1<u8>>;

/// An agent on its own.
#[pyclass(module = "rankfold._rankfold")]
pub struct GossipSeat {
    seat: Seat,
}

#[pymethods]
impl GossipSeat {
    /// From the bytes that an agent was dealt.
    #[new]
    fn new(py: Python<'_>, place: PyReadonlyArray1<'_, u8>) -> PyResult<Self> {
        let place = place.as_slice()?;
        let seat = py.detach(|| Seat::new(place)).map_err(raised)?;
        Ok(GossipSeat { seat })
    }

    /// Goes to its start; gives its state there.
    fn begin<'py>(&mut self, py: Python<'py>) -> PyResult<Bytes<'py>> {
        let state = py.detach(|| self.seat.begin());
        Ok(state.map_err(raised)?.into_pyarray(py))
    }

    /// Goes to where it was in a state.
    fn restore(&mut self, py: Python<'_>, state: PyReadonlyArray1<'_, u8>) -> PyResult<()> {
        let state = state.as_slice()?;
        py.detach(|| self.seat.restore(state)).map_err(raised)
    }

    /// Hears the neighbor `other` and steps; gives its state after that.
    #[pyo3(signature = (other, message, size=None))]
    fn turn<'py>(
        &mut self,
        py: Python<'py>,
        other: usize,
        message: PyReadonlyArray1<'py, u8>,
        size: Option<f64>,
    ) -> PyResult<Bytes<'py>> {
        let turn = Turn {
            agent: 0,
            with: other,
            message: message.as_slice()?.to_vec(),
            size,
        };
        let state = py.detach(|| self.seat.turn(&turn));
        Ok(state.map_err(raised)?.into_pyarray(py))
    }

    /// Its own cost.
    fn cost(&mut self, py: Python<'_>) -> PyResult<f64> {
        py.detach(|| self.seat.cost()).map_err(raised)
    }
}

/// Agents that an object of Python knows, by its methods `deal`, `begin`, `restore`, `turns` and
/// `costs`.
pub struct Called<'a> {
    pub agents: &'a Py<PyAny>,
    pub failed: &'a Raised,
}

impl Called<'_> {
    fn call<T>(&self, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
        Python::attach(call).map_err(|error| {
            self.failed.keep(error);
            Error::failure("agents elsewhere did not answer")
        })
    }

    fn states(&self, py: Python<'_>, found: Py<PyAny>) -> PyResult<Vec<Vec<u8>>> {
        let found: Vec<PyReadonlyArray1<'_, u8>> = found.extract(py)?;
        found
            .iter()
            .map(|state| Ok(state.as_slice()?.to_vec()))
            .collect()
    }
}

fn arrays(py: Python<'_>, all: Vec<Vec<u8>>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, all.into_iter().map(|bytes| bytes.into_pyarray(py)))
}

impl Elsewhere for Called<'_> {
    fn deal(&mut self, places: Vec<Vec<u8>>) -> Result<()> {
        self.call(|py| {
            let places = arrays(py, places)?;
            self.agents.call_method1(py, "deal", (places,)).map(|_| ())
        })
    }

    fn begin(&mut self) -> Result<Vec<Vec<u8>>> {
        self.call(|py| self.states(py, self.agents.call_method0(py, "begin")?))
    }

    fn restore(&mut self, states: &[Vec<u8>]) -> Result<()> {
        self.call(|py| {
            let states = arrays(py, states.to_vec())?;
            self.agents
                .call_method1(py, "restore", (states,))
                .map(|_| ())
        })
    }

    fn turns(&mut self, turns: Vec<Turn>) -> Result<Vec<Vec<u8>>> {
        self.call(|py| {
            let turn = |turn: Turn| {
                let message = turn.message.into_pyarray(py);
                (turn.agent, turn.with, message, turn.size)
            };
            let turns = PyList::new(py, turns.into_iter().map(turn))?;
            self.states(py, self.agents.call_method1(py, "turns", (turns,))?)
        })
    }

    fn costs(&mut self) -> Result<Vec<f64>> {
        self.call(|py| self.agents.call_method0(py, "costs")?.extract(py))
    }
}
