//! Texts as rows.

use crate::errors::raised;
use numpy::{PyArray1, ToPyArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rankfold::data::text::{self, FitOptions, TermFrequency};
use rankfold::{Error, SparseVec};

/// Terms and how to weigh them: a text becomes a row of length 1.
#[pyclass(frozen, module = "rankfold._rankfold")]
pub struct Vocabulary(text::Vocabulary);

/// The three arrays of compressed sparse rows.
type Csr<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i32>>,
    Bound<'py, PyArray1<f32>>,
);

#[pymethods]
impl Vocabulary {
    /// Learns the terms that tell most about the labels, or the most frequent ones.
    #[staticmethod]
    #[pyo3(signature = (texts, labels=None, features=None, min_df=2, tf="log", strip=None))]
    fn fit(
        py: Python<'_>,
        texts: Vec<String>,
        labels: Option<Vec<String>>,
        features: Option<usize>,
        min_df: u32,
        tf: &str,
        strip: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let tf = match tf {
            "raw" => TermFrequency::Raw,
            "log" => TermFrequency::Log,
            other => {
                let message = format!("`tf` must be \"raw\" or \"log\", found \"{other}\"");
                return Err(PyValueError::new_err(message));
            }
        };
        let strip = strip.unwrap_or_default();
        let strip = strip
            .iter()
            .map(|part| part.parse().map_err(PyValueError::new_err));
        let strip = strip.collect::<PyResult<Vec<_>>>()?;
        let options = FitOptions {
            features,
            min_df,
            tf,
            strip,
            ..FitOptions::default()
        };
        if labels
            .as_ref()
            .is_some_and(|labels| labels.len() != texts.len())
        {
            return Err(PyValueError::new_err("one label a text is expected"));
        }
        let fitted = py.detach(|| {
            let label = |i: usize| labels.as_ref().map(|labels| labels[i].as_str());
            let documents = texts.iter().enumerate();
            let documents = documents.map(|(i, text)| (text.as_str(), label(i)));
            text::Vocabulary::fit(documents, options)
        });
        fitted.map(Vocabulary).map_err(raised)
    }

    /// The rows of texts.
    fn rows<'py>(&self, py: Python<'py>, texts: Vec<String>) -> Csr<'py> {
        let rows: Vec<SparseVec<f32>> =
            py.detach(|| texts.iter().map(|text| self.0.row(text)).collect());
        let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in &rows {
            let row = row.as_row();
            indices.extend(row.indices.iter().map(|&j| j as i32));
            values.extend_from_slice(row.values);
            starts.push(indices.len() as i64);
        }
        (
            starts.to_pyarray(py),
            indices.to_pyarray(py),
            values.to_pyarray(py),
        )
    }

    /// The terms, in the order of columns.
    #[getter]
    fn terms(&self) -> Vec<String> {
        self.0.terms().map(str::to_owned).collect()
    }

    /// The text of its file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = Vec::new();
        self.0.write(&mut out)?;
        Ok(PyBytes::new(py, &out))
    }

    /// What a copy of the vocabulary is made of.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let made = slf.get_type().getattr("from_bytes")?;
        Ok((made, (slf.get().to_bytes(slf.py())?,)))
    }

    /// From the text of its file.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let parsed = text::Vocabulary::parse(bytes);
        parsed
            .map(Vocabulary)
            .map_err(|message| raised(Error::input(message)))
    }
}
