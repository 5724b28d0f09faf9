//! Tensors in and out of safetensors files. Nothing read is trusted.

use crate::linalg::Square;
use crate::{Error, Real, Result};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorInfo, TensorView};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

/// The one metadata key: the crate writes several in random order.
const KEY: &str = "rankfold";

/// A tensor whose bytes are made as they are written, so that saving takes no
/// memory to speak of.
pub(crate) struct Tensor<'a> {
    dtype: Dtype,
    shape: Vec<usize>,
    write: Box<WriteBytes<'a>>,
}

type WriteBytes<'a> = dyn Fn(&mut dyn Write) -> std::io::Result<()> + 'a;

impl<'a> Tensor<'a> {
    /// Values given piece by piece: the bytes of one piece are held at a time.
    fn pieces<R: Real, I: IntoIterator<Item = R>>(
        shape: Vec<usize>,
        pieces: usize,
        piece: impl Fn(usize) -> I + 'a,
    ) -> Self {
        Tensor {
            dtype: dtype::<R>(),
            shape,
            write: Box::new(move |out| {
                let mut bytes = Vec::new();
                for i in 0..pieces {
                    bytes.clear();
                    piece(i).into_iter().for_each(|v| v.put(&mut bytes));
                    out.write_all(&bytes)?;
                }
                Ok(())
            }),
        }
    }

    /// Unpadded rows of a tall factor, made row by row.
    pub fn rows<R: Real>(rows: usize, k: usize, row: impl Fn(usize) -> &'a [R] + 'a) -> Self {
        Self::pieces(vec![rows, k], rows, move |i| row(i).iter().copied())
    }

    /// A matrix made entry by entry.
    pub fn entries<R: Real>(
        rows: usize,
        columns: usize,
        entry: impl Fn(u32, u32) -> R + 'a,
    ) -> Self {
        Self::pieces(vec![rows, columns], rows, move |i| {
            let row = (0..columns as u32).map(|j| entry(i as u32, j));
            row.collect::<Vec<R>>()
        })
    }

    /// Rows of so many columns that nobody else holds.
    pub fn owned<R: Real>(columns: usize, values: Vec<R>) -> Self {
        let shape = vec![values.len() / columns, columns];
        Self::pieces(shape, 1, move |_| values.clone())
    }

    pub fn square(matrix: &'a Square) -> Self {
        let k = matrix.size();
        Tensor {
            shape: vec![k, k],
            ..Tensor::f64s(matrix.to_vec())
        }
    }

    pub fn f64s(values: Vec<f64>) -> Self {
        Self::pieces(vec![values.len()], 1, move |_| values.clone())
    }

    pub fn u64s(values: Vec<u64>) -> Self {
        Tensor {
            dtype: Dtype::U64,
            shape: vec![values.len()],
            write: Box::new(move |out| {
                values
                    .iter()
                    .try_for_each(|v| out.write_all(&v.to_le_bytes()))
            }),
        }
    }

    pub fn u8s(values: Vec<u8>) -> Self {
        Tensor {
            dtype: Dtype::U8,
            shape: vec![values.len()],
            write: Box::new(move |out| out.write_all(&values)),
        }
    }
}

fn dtype<R: Real>() -> Dtype {
    if R::NAME == "f32" {
        Dtype::F32
    } else {
        Dtype::F64
    }
}

/// Named tensors on their way into a file.
pub(crate) type Tensors<'a> = Vec<(String, Tensor<'a>)>;

/// Writes a file that is either complete or not there, tensor by tensor.
pub(crate) fn write(path: &Path, card: String, mut tensors: Tensors<'_>) -> Result<()> {
    // Wide types first, so that every tensor is aligned; then by name.
    let size = |tensor: &Tensor<'_>| tensor.dtype.bitsize() / 8;
    tensors.sort_by(|(a, s), (b, t)| size(t).cmp(&size(s)).then_with(|| a.cmp(b)));
    let mut end = 0;
    let infos = tensors.iter().map(|(name, tensor)| {
        let start = end;
        end += tensor.shape.iter().product::<usize>() * size(tensor);
        let info = TensorInfo {
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            data_offsets: (start, end),
        };
        (name.clone(), info)
    });
    let metadata = Metadata::new(
        Some(HashMap::from([(KEY.to_owned(), card)])),
        infos.collect(),
    );
    let header = metadata
        .map_err(|e| e.to_string())
        .and_then(|metadata| serde_json::to_vec(&metadata).map_err(|e| e.to_string()))
        .map_err(|e| Error::failure(format!("cannot write: {e}")).in_file(path))?;
    crate::data::write_atomically(path, |out| {
        // The header is padded with spaces to keep the data aligned.
        let padding = header.len().next_multiple_of(8) - header.len();
        out.write_all(&((header.len() + padding) as u64).to_le_bytes())?;
        out.write_all(&header)?;
        out.write_all(&b"       "[..padding])?;
        tensors
            .iter()
            .try_for_each(|(_, tensor)| (tensor.write)(out))
    })
}

/// A safetensors file held in memory.
pub(crate) struct TensorFile<'a> {
    tensors: SafeTensors<'a>,
    /// The JSON of the one metadata key.
    pub card: String,
    path: &'a Path,
}

impl<'a> TensorFile<'a> {
    /// Parses the bytes of a file.
    pub fn parse(path: &'a Path, bytes: &'a [u8]) -> Result<Self> {
        let broken = |e: safetensors::SafeTensorError| {
            Error::input(format!("not a whole model file: {e}")).in_file(path)
        };
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(broken)?;
        let card = metadata
            .metadata()
            .as_ref()
            .and_then(|m| m.get(KEY))
            .cloned();
        let card = card.ok_or_else(|| {
            Error::input("a safetensors file, but not one that rankfold wrote").in_file(path)
        })?;
        Ok(TensorFile {
            tensors,
            card,
            path,
        })
    }

    /// An error about this file.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::input(message).in_file(self.path)
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    /// The names that start so, sorted.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let names = self.tensors.names().into_iter();
        let mut found: Vec<String> = names
            .filter(|name| name.starts_with(prefix))
            .map(|name| name.to_string())
            .collect();
        found.sort_unstable();
        found
    }

    fn view(&self, name: &str, dtype: Dtype) -> Result<TensorView<'_>> {
        let view = self
            .tensors
            .tensor(name)
            .map_err(|_| self.error(format!("the tensor `{name}` is missing")))?;
        if view.dtype() != dtype {
            return Err(self.error(format!(
                "the tensor `{name}` holds {:?}, expected {dtype:?}",
                view.dtype()
            )));
        }
        Ok(view)
    }

    fn finite(&self, name: &str, mut values: impl Iterator<Item = f64>) -> Result<()> {
        if values.all(f64::is_finite) {
            Ok(())
        } else {
            Err(self.error(format!(
                "the tensor `{name}` holds a value that is not finite"
            )))
        }
    }

    /// A matrix of rows with `k` columns, row by row.
    pub fn rows<R: Real>(&self, name: &str, k: usize) -> Result<Vec<R>> {
        let (columns, values) = self.matrix(name)?;
        if columns != k {
            return Err(self.error(format!(
                "the tensor `{name}` has {columns} columns, expected {k} columns"
            )));
        }
        Ok(values)
    }

    /// A matrix row by row, after its number of columns.
    pub fn matrix<R: Real>(&self, name: &str) -> Result<(usize, Vec<R>)> {
        let view = self.view(name, dtype::<R>())?;
        let &[_, columns] = view.shape() else {
            return Err(self.error(format!(
                "the tensor `{name}` has shape {:?}, expected a matrix",
                view.shape()
            )));
        };
        let values: Vec<R> = view
            .data()
            .chunks_exact(size_of::<R>())
            .map(R::take)
            .collect();
        self.finite(name, values.iter().map(|v| v.to_f64()))?;
        Ok((columns, values))
    }

    /// A k×k matrix.
    pub fn square(&self, name: &str, k: usize) -> Result<Square> {
        let values: Vec<f64> = self.rows(name, k)?;
        if values.len() != k * k {
            return Err(self.error(format!("the tensor `{name}` is not {k}×{k}")));
        }
        Ok(Square::from_fn(k, |i, j| values[i * k + j]))
    }

    /// A vector of finite numbers.
    pub fn f64s(&self, name: &str, len: usize) -> Result<Vec<f64>> {
        let view = self.view(name, Dtype::F64)?;
        let values: Vec<f64> = view.data().chunks_exact(8).map(f64::take).collect();
        if values.len() != len {
            return Err(self.error(format!(
                "the tensor `{name}` has {} values, expected {len}",
                values.len()
            )));
        }
        self.finite(name, values.iter().copied())?;
        Ok(values)
    }

    pub fn u64s(&self, name: &str) -> Result<Vec<u64>> {
        let view = self.view(name, Dtype::U64)?;
        let bytes = view.data().chunks_exact(8);
        Ok(bytes
            .map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")))
            .collect())
    }

    pub fn u8s(&self, name: &str) -> Result<Vec<u8>> {
        Ok(self.view(name, Dtype::U8)?.data().to_vec())
    }
}
