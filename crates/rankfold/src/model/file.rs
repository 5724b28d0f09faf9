//! Tensors in and out of safetensors files. Nothing read is trusted.

use crate::linalg::Square;
use crate::{Error, Real, Result, memory};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorInfo, TensorView};
use std::collections::HashMap;
use std::fs::File;
use std::hash::Hasher;
use std::io::{Read, Write};
use std::path::Path;
use twox_hash::XxHash64;

/// The one metadata key: the crate writes several in random order.
const KEY: &str = "rankfold";

/// The last tensor of a file: the XXH64 of all bytes before it, little-endian. Files of
/// earlier versions have none.
const CHECKSUM: &str = "checksum";
const CHECKSUM_BYTES: usize = 8;

/// The longest header that a file may have, which is that of safetensors.
const LONGEST_HEADER: u64 = 100_000_000;

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

    pub fn u32s(values: Vec<u32>) -> Self {
        Tensor {
            dtype: Dtype::U32,
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
    let header = header(card, &mut tensors).map_err(|e| e.in_file(path))?;
    crate::data::write_atomically(path, |out| put(out, &header, &tensors))
}

/// The bytes of such a file.
pub(crate) fn bytes(card: String, mut tensors: Tensors<'_>) -> Result<Vec<u8>> {
    let header = header(card, &mut tensors)?;
    let mut out = Vec::new();
    put(&mut out, &header, &tensors).map_err(|e| Error::failure(format!("cannot write: {e}")))?;
    Ok(out)
}

/// Puts tensors into the order of the file, and describes them.
fn header(card: String, tensors: &mut Tensors<'_>) -> Result<Vec<u8>> {
    // Wide types first, so that every tensor is aligned; then by name.
    let size = |tensor: &Tensor<'_>| tensor.dtype.bitsize() / 8;
    tensors.sort_by(|(a, s), (b, t)| size(t).cmp(&size(s)).then_with(|| a.cmp(b)));
    // It comes after all that it is the checksum of; its bytes are made below.
    let checksum = Tensor {
        dtype: Dtype::U8,
        shape: vec![CHECKSUM_BYTES],
        write: Box::new(|_| Ok(())),
    };
    tensors.push((CHECKSUM.to_owned(), checksum));
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
    metadata
        .map_err(|e| e.to_string())
        .and_then(|metadata| serde_json::to_vec(&metadata).map_err(|e| e.to_string()))
        .map_err(|e| Error::failure(format!("cannot write: {e}")))
}

fn put(out: &mut dyn Write, header: &[u8], tensors: &Tensors<'_>) -> std::io::Result<()> {
    let mut out = Summed {
        out,
        sum: XxHash64::with_seed(0),
    };
    // The header is padded with spaces to keep the data aligned.
    let padding = header.len().next_multiple_of(8) - header.len();
    out.write_all(&((header.len() + padding) as u64).to_le_bytes())?;
    out.write_all(header)?;
    out.write_all(&b"       "[..padding])?;
    tensors
        .iter()
        .try_for_each(|(_, tensor)| (tensor.write)(&mut out))?;
    let sum = out.sum.finish();
    out.write_all(&sum.to_le_bytes())
}

/// Sums what passes.
struct Summed<'a> {
    out: &'a mut dyn Write,
    sum: XxHash64,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.sum.write(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Reads a whole file, after a look at its start: what is no safetensors file is
/// refused before the rest is read, whatever its size.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let reading = |e: std::io::Error| Error::reading(path, &e);
    let mut file = File::open(path).map_err(reading)?;
    let mut bytes = Vec::new();
    // The length of the header, and its first byte.
    let start = Read::by_ref(&mut file).take(9).read_to_end(&mut bytes);
    start.map_err(reading)?;
    let length = bytes
        .first_chunk()
        .map(|length| u64::from_le_bytes(*length));
    let header = length.filter(|length| *length <= LONGEST_HEADER);
    if header.is_none() || bytes.get(8) != Some(&b'{') {
        return Err(
            Error::input("not a whole model file: it has no safetensors header").in_file(path),
        );
    }
    let size = file.metadata().map_err(reading)?.len();
    memory::require(u128::from(size), "the model file").map_err(|e| e.in_file(path))?;
    let room = usize::try_from(size).unwrap_or(usize::MAX);
    let more = room.saturating_sub(bytes.len());
    memory::fallibly(|| bytes.try_reserve_exact(more))
        .map_err(|_| Error::failure("no memory for the model file").in_file(path))?;
    file.read_to_end(&mut bytes).map_err(reading)?;
    Ok(bytes)
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
        if tensors.tensor(CHECKSUM).is_ok() {
            let (summed, stored) = bytes.split_at(bytes.len().saturating_sub(CHECKSUM_BYTES));
            let mut sum = XxHash64::with_seed(0);
            sum.write(summed);
            if stored != sum.finish().to_le_bytes() {
                let message = "the file is damaged: its checksum is another";
                return Err(Error::input(message).in_file(path));
            }
        }
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

    pub fn u32s(&self, name: &str) -> Result<Vec<u32>> {
        let view = self.view(name, Dtype::U32)?;
        let bytes = view.data().chunks_exact(4);
        Ok(bytes
            .map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")))
            .collect())
    }

    pub fn u8s(&self, name: &str) -> Result<Vec<u8>> {
        Ok(self.view(name, Dtype::U8)?.data().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damaged_byte_behind_the_header_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        let values = (0..40).map(f64::from).collect();
        let tensors = vec![
            ("a".into(), Tensor::f64s(values)),
            ("zz".into(), Tensor::u8s(b"text".to_vec())),
        ];
        write(&path, "{}".into(), tensors).unwrap();
        let whole = read(&path).unwrap();
        let file = TensorFile::parse(&path, &whole).unwrap();
        assert_eq!(file.f64s("a", 40).unwrap()[39], 39.0);
        let header = u64::from_le_bytes(*whole.first_chunk().unwrap()) as usize + 8;
        for at in header..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                assert!(TensorFile::parse(&path, &damaged).is_err(), "{at}");
            }
        }
    }

    /// A large file that is no model costs nothing but a look at its start.
    #[test]
    fn what_is_no_model_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        let file = File::create(&path).unwrap();
        // With holes, so that it takes no room on the disk.
        file.set_len(1 << 42).unwrap();
        let error = read(&path).unwrap_err();
        assert_eq!(
            error.message,
            "not a whole model file: it has no safetensors header"
        );
        std::fs::write(&path, "short").unwrap();
        assert!(read(&path).is_err());
        std::fs::write(&path, "").unwrap();
        assert!(read(&path).is_err());
    }
}
