//! Rows of arrays, read in place where the library can.

use crate::errors::raised;
use numpy::{Element, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use rankfold::data::{Features, Labelled, Labels};
use rankfold::sparse::Lent;
use rankfold::{Error, Ids, Real, Result, Rows};
use std::fmt::Display;
use std::sync::Arc;

/// Rows in the precision of their array.
pub enum Precise {
    F32(Labelled<f32>),
    F64(Labelled<f64>),
}

/// Runs the same expression on rows of either precision.
#[macro_export]
macro_rules! with_rows {
    ($data:expr, $rows:ident => $body:expr) => {
        match &$data.rows {
            $crate::data::Precise::F32($rows) => $body,
            $crate::data::Precise::F64($rows) => $body,
        }
    };
}

/// Runs the same expression with a name for the precision of rows, or of the form of a model.
/// `Precise` is the enum of that name in the file that asks.
#[macro_export]
macro_rules! by_precision {
    ($precise:expr, $real:ident => $body:expr) => {
        match &$precise {
            Precise::F32(_) => {
                type $real = f32;
                $body
            }
            Precise::F64(_) => {
                type $real = f64;
                $body
            }
        }
    };
}

/// Rows with their labels and the names of their columns.
#[pyclass(frozen, module = "rankfold._rankfold")]
pub struct Data {
    pub rows: Precise,
}

/// Rows in a precision that is known where it is used.
pub trait InPrecision: Real {
    fn of(data: &Data) -> Option<&Labelled<Self>>;
    fn wrap(rows: Labelled<Self>) -> Precise;
}

macro_rules! in_precision {
    ($real:ty, $variant:ident) => {
        impl InPrecision for $real {
            fn of(data: &Data) -> Option<&Labelled<Self>> {
                match &data.rows {
                    Precise::$variant(rows) => Some(rows),
                    _ => None,
                }
            }
            fn wrap(rows: Labelled<Self>) -> Precise {
                Precise::$variant(rows)
            }
        }
    };
}
in_precision!(f32, F32);
in_precision!(f64, F64);

impl Data {
    /// The rows in this precision, which is that of the model.
    pub fn get<R: InPrecision>(&self) -> Result<&Labelled<R>> {
        R::of(self).ok_or_else(|| Error::input(format!("expected an array of {}", R::NAME)))
    }
}

/// Memory of an array, which is kept as long as it is read.
struct Held<T> {
    start: *const T,
    length: usize,
    _array: Py<PyAny>,
}

// The array is neither changed nor freed while it is held.
unsafe impl<T: Sync> Send for Held<T> {}
unsafe impl<T: Sync> Sync for Held<T> {}

impl<T> AsRef<[T]> for Held<T> {
    fn as_ref(&self) -> &[T] {
        // `start` and `length` are those of a slice of the array.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

/// The numbers of a slice of an array.
fn held<T: Sync + Send + 'static>(slice: &[T], array: &Bound<'_, PyAny>) -> Lent<T> {
    Arc::new(Held {
        start: slice.as_ptr(),
        length: slice.len(),
        _array: array.clone().unbind(),
    })
}

/// Names of labels, the number of the label of each entry, and where rows start unless
/// each has one.
pub type LabelCodes<'py> = (
    Vec<String>,
    PyReadonlyArray1<'py, i64>,
    Option<PyReadonlyArray1<'py, i64>>,
);

/// The labels of rows, in the order in which they first come.
pub fn labels((names, codes, starts): LabelCodes<'_>) -> PyResult<Labels> {
    let codes = codes.as_slice()?;
    let name = |code: &i64| {
        let name = usize::try_from(*code).ok().and_then(|code| names.get(code));
        let message = || format!("label {code} has no name: there are {}", names.len());
        name.map(String::as_str)
            .ok_or_else(|| PyValueError::new_err(message()))
    };
    let mut out = Labels::default();
    match starts {
        None => {
            for code in codes {
                out.push([name(code)?]);
            }
        }
        Some(starts) => {
            for ends in starts.as_slice()?.windows(2) {
                let of_row = usize::try_from(ends[0])
                    .ok()
                    .zip(usize::try_from(ends[1]).ok())
                    .and_then(|(start, end)| codes.get(start..end))
                    .ok_or_else(|| PyValueError::new_err("starts of labels must rise"))?;
                let of_row = of_row.iter().map(name).collect::<PyResult<Vec<_>>>()?;
                out.push(of_row);
            }
        }
    }
    Ok(out)
}

fn finished<R: InPrecision>(
    rows: Rows<R>,
    names: Option<Vec<String>>,
    codes: Option<LabelCodes<'_>>,
) -> PyResult<Data> {
    let mut rows = rows;
    rows.share();
    let columns = rows.columns();
    let mut data = Labelled::new(rows);
    if let Some(codes) = codes {
        data = data.with_labels(labels(codes)?).map_err(raised)?;
    }
    if let Some(names) = names {
        if names.len() != columns {
            let message = format!("{} names for {columns} columns", names.len());
            return Err(PyValueError::new_err(message));
        }
        let features = Features::columns(names).map_err(raised)?;
        data = data.with_features(features).map_err(raised)?;
    }
    Ok(Data {
        rows: R::wrap(data),
    })
}

fn dense<R: InPrecision + Element>(array: &Bound<'_, PyAny>) -> Option<PyResult<Rows<R>>> {
    let found = array.extract::<PyReadonlyArray2<'_, R>>().ok()?;
    // A slice of an array in Fortran order would be its columns.
    if !found.is_c_contiguous() {
        let message = "expected an array in C order: use numpy.ascontiguousarray";
        return Some(Err(PyValueError::new_err(message)));
    }
    let columns = found.shape()[1];
    Some(found.as_slice().map_err(PyErr::from).and_then(|values| {
        if columns == 0 {
            let rows = (0..found.shape()[0]).map(|_| [] as [R; 0]);
            return Rows::from_dense(rows).map_err(raised);
        }
        Rows::lent_flat(held(values, array), columns).map_err(raised)
    }))
}

type Array1<'py, T> = PyReadonlyArray1<'py, T>;

fn sparse<R: InPrecision + Element>(
    indptr: &Bound<'_, PyAny>,
    indices: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
    columns: usize,
) -> Option<PyResult<Rows<R>>> {
    let found = values.extract::<Array1<'_, R>>().ok()?;
    let rows = || {
        let lent = held(found.as_slice()?, values);
        match indptr.extract::<Array1<'_, i32>>() {
            Ok(starts) => with_indices(starts.as_slice()?, indices, lent, columns),
            Err(_) => {
                let starts = indptr.extract::<Array1<'_, i64>>()?;
                with_indices(starts.as_slice()?, indices, lent, columns)
            }
        }
    };
    Some(rows())
}

fn with_indices<R: Real, P: Copy + Display + TryInto<u64>>(
    starts: &[P],
    indices: &Bound<'_, PyAny>,
    values: Lent<R>,
    columns: usize,
) -> PyResult<Rows<R>> {
    if let Ok(found) = indices.extract::<Array1<'_, i32>>() {
        let found = found.as_slice()?;
        if found.iter().any(|&index| index < 0) {
            let copied = Rows::from_csr(starts, found, (*values).as_ref(), columns);
            return copied.map_err(raised);
        }
        // Numbers from 0 have the same bytes with and without a sign.
        let unsigned =
            unsafe { std::slice::from_raw_parts(found.as_ptr().cast::<u32>(), found.len()) };
        return Rows::lent_csr(starts, held(unsigned, indices), values, columns).map_err(raised);
    }
    let found = indices.extract::<Array1<'_, i64>>()?;
    let found = found.as_slice()?;
    let narrow: Option<Vec<u32>> = found.iter().map(|&index| index.try_into().ok()).collect();
    match narrow {
        Some(narrow) => Rows::lent_csr(starts, Arc::new(narrow), values, columns),
        None => Rows::from_csr(starts, found, (*values).as_ref(), columns),
    }
    .map_err(raised)
}

fn no_array() -> PyErr {
    PyTypeError::new_err("expected an array of float32 or float64")
}

#[pymethods]
impl Data {
    /// Rows of a two-dimensional array in C order.
    #[staticmethod]
    #[pyo3(signature = (array, names=None, labels=None))]
    fn dense(
        array: &Bound<'_, PyAny>,
        names: Option<Vec<String>>,
        labels: Option<LabelCodes<'_>>,
    ) -> PyResult<Self> {
        if let Some(rows) = dense::<f32>(array) {
            return finished(rows?, names, labels);
        }
        finished(dense::<f64>(array).ok_or_else(no_array)??, names, labels)
    }

    /// Compressed sparse rows: the arrays of a CSR matrix of SciPy.
    #[staticmethod]
    #[pyo3(signature = (indptr, indices, values, columns, names=None, labels=None))]
    fn csr(
        indptr: &Bound<'_, PyAny>,
        indices: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        columns: usize,
        names: Option<Vec<String>>,
        labels: Option<LabelCodes<'_>>,
    ) -> PyResult<Self> {
        if let Some(rows) = sparse::<f32>(indptr, indices, values, columns) {
            return finished(rows?, names, labels);
        }
        let rows = sparse::<f64>(indptr, indices, values, columns);
        finished(rows.ok_or_else(no_array)??, names, labels)
    }

    /// How many rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        with_rows!(self, data => (data.rows.len(), data.rows.columns()))
    }

    /// `f32` or `f64`.
    #[getter]
    fn precision(&self) -> &'static str {
        match &self.rows {
            Precise::F32(_) => f32::NAME,
            Precise::F64(_) => f64::NAME,
        }
    }

    /// The address of the first value.
    #[getter]
    fn address(&self) -> usize {
        with_rows!(self, data => match data.rows.is_empty() {
            true => 0,
            false => data.rows.row(0).values.as_ptr() as usize,
        })
    }
}

/// Names with the number of the name of each entry.
pub type Coded<'py> = (Vec<String>, PyReadonlyArray1<'py, i64>);

/// The names in the order in which they first come, and the numbers by that order.
pub fn by_appearance((names, codes): &Coded<'_>) -> PyResult<(Ids, Vec<u32>)> {
    let mut numbers: Vec<Option<u32>> = vec![None; names.len()];
    let mut ids = Ids::new();
    let mut out = Vec::with_capacity(codes.len());
    for &code in codes.as_slice()? {
        let code = usize::try_from(code)
            .ok()
            .filter(|&code| code < names.len());
        let code = code.ok_or_else(|| PyValueError::new_err("a name has no number"))?;
        out.push(*numbers[code].get_or_insert_with(|| ids.intern(&names[code])));
    }
    Ok((ids, out))
}
