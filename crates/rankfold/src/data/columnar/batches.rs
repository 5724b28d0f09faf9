//! Reads column files batch by batch with the packages of Apache Arrow.
//!
//! Files are not trusted. What lies beyond the end of the file is not asked for, batches are
//! small, and a panic of a decoder is an error of the file.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, Schema};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::{INDEX, Kind, LeftOut, Records, cells, messages, pages};
use crate::data::open::{self, Compression, is_dash};
use crate::{Error, Result};

/// Rows that are decoded at a time.
const ROWS: usize = 1_024;

type Batches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send>;

pub(super) fn open(path: &Path, kind: Kind) -> Result<Box<dyn Records>> {
    let file = seekable(path)?;
    let opened = guarded(|| match kind {
        Kind::Parquet => parquet(file),
        Kind::Arrow => arrow(file),
    });
    let (schema, batches) = opened.map_err(|message| damaged(path, kind, &message))?;
    let (columns, left_out) = choose(&schema);
    // Columns of nothing may be of any length.
    let is_null = |&column: &usize| schema.field(column).data_type().is_null();
    if columns.iter().all(is_null) {
        let message = match left_out.first() {
            None => "the file has no columns with values".to_owned(),
            Some(LeftOut { name, holds }) => {
                format!("no column can be read: `{name}` holds {holds}")
            }
        };
        return Err(Error::input(message).in_file(path));
    }
    let mut header = Vec::new();
    for (at, &column) in columns.iter().enumerate() {
        if at > 0 {
            header.push(b',');
        }
        cells::text(schema.field(column).name().as_bytes(), &mut header);
    }
    Ok(Box::new(Table {
        path: path.to_owned(),
        kind,
        batches: Some(batches),
        columns: columns.len(),
        header: Some(header),
        left_out,
        batch: RecordBatch::new_empty(schema.into()),
        row: 0,
    }))
}

/// The file, where one can go to any place in it.
fn seekable(path: &Path) -> Result<File> {
    let is_file = std::fs::metadata(path).map_or(true, |data| data.is_file() || data.is_dir());
    if is_file && !is_dash(path) && Compression::of(path) == Compression::None {
        return File::open(path).map_err(|e| Error::reading(path, &e));
    }
    let failed = |e: io::Error| Error::failure(format!("cannot copy the stream to a file: {e}"));
    let mut copy = tempfile::tempfile().map_err(failed)?;
    let mut source = open::open(path)?;
    io::copy(&mut source, &mut copy).map_err(|e| open::reading(path, &e))?;
    copy.seek(SeekFrom::Start(0)).map_err(failed)?;
    Ok(copy)
}

/// Which columns are given, and which are left out.
fn choose(schema: &Schema) -> (Vec<usize>, Vec<LeftOut>) {
    let (mut columns, mut left_out) = (Vec::new(), Vec::new());
    for (at, field) in schema.fields().iter().enumerate() {
        let holds = match cells::refused(field.data_type()) {
            None if field.name().starts_with(INDEX) => "the index of pandas",
            None => {
                columns.push(at);
                continue;
            }
            Some(holds) => holds,
        };
        left_out.push(LeftOut {
            name: field.name().clone(),
            holds: holds.to_owned(),
        });
    }
    (columns, left_out)
}

fn parquet(file: File) -> std::result::Result<(Schema, Batches), String> {
    let text = |e: ParquetError| e.to_string();
    let length = file.metadata().map_err(|e| e.to_string())?.len();
    let source = Bounded { file, length };
    let again = source.file.try_clone().map_err(|e| e.to_string())?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(source).map_err(text)?;
    let source = Bounded {
        file: again,
        length,
    };
    for group in builder.metadata().row_groups() {
        for column in group.columns() {
            let first = column.dictionary_page_offset();
            let start = first.unwrap_or(column.data_page_offset());
            let [Ok(start), Ok(length)] = [start, column.compressed_size()].map(u64::try_from)
            else {
                return Err("the place of a column is negative".into());
            };
            pages::check(&source, start, length)?;
        }
    }
    let schema = Schema::clone(builder.schema());
    let mask = ProjectionMask::roots(builder.parquet_schema(), choose(&schema).0);
    let reader = builder.with_projection(mask).with_batch_size(ROWS).build();
    Ok((schema, Box::new(reader.map_err(text)?)))
}

fn arrow(file: File) -> std::result::Result<(Schema, Batches), String> {
    let text = |e: ArrowError| e.to_string();
    let mut file = BufReader::new(file);
    let mut start = Vec::new();
    let read = file.by_ref().take(6).read_to_end(&mut start);
    let back = read.and_then(|_| file.seek(SeekFrom::Start(0)));
    back.map_err(|e| e.to_string())?;
    if start.starts_with(b"FEA1") {
        return Err("it is of version 1 of Feather, expected version 2".into());
    }
    // A file has a list of its batches, a stream has them one after the other.
    if start == b"ARROW1" {
        messages::check_file(&mut file)?;
        let schema = FileReader::try_new(&mut file, None).map_err(text)?.schema();
        file.seek(SeekFrom::Start(0)).map_err(|e| e.to_string())?;
        let given = choose(&schema).0;
        let reader = FileReader::try_new(file, Some(given)).map_err(text)?;
        return Ok((Schema::clone(&schema), Box::new(reader)));
    }
    messages::check_stream(&mut file)?;
    file.seek(SeekFrom::Start(0)).map_err(|e| e.to_string())?;
    let schema = StreamReader::try_new(&mut file, None)
        .map_err(text)?
        .schema();
    file.seek(SeekFrom::Start(0)).map_err(|e| e.to_string())?;
    let given = choose(&schema).0;
    let reader = StreamReader::try_new(file, Some(given)).map_err(text)?;
    Ok((Schema::clone(&schema), Box::new(reader)))
}

/// Does what a decoder does; a panic is an error, too.
fn guarded<T>(
    work: impl FnOnce() -> std::result::Result<T, String>,
) -> std::result::Result<T, String> {
    // What was in use is not looked at again.
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err("it is damaged".into()))
}

fn damaged(path: &Path, kind: Kind, message: &str) -> Error {
    let message = format!("cannot read this {} file: {message}", kind.name());
    Error::input(message).in_file(path)
}

struct Table {
    path: PathBuf,
    kind: Kind,
    /// `None` after the last one, and after an error.
    batches: Option<Batches>,
    /// How many are given.
    columns: usize,
    /// The names of the columns, until they are given.
    header: Option<Vec<u8>>,
    left_out: Vec<LeftOut>,
    batch: RecordBatch,
    /// The next row of the batch.
    row: usize,
}

impl Records for Table {
    fn next(&mut self, record: &mut Vec<u8>) -> Result<bool> {
        if let Some(header) = self.header.take() {
            record.extend_from_slice(&header);
            return Ok(true);
        }
        while self.row >= self.batch.num_rows() {
            let Some(mut batches) = self.batches.take() else {
                return Ok(false);
            };
            let next = guarded(|| match batches.next() {
                None => Ok(None),
                Some(Ok(batch)) => Ok(Some((batch, batches))),
                Some(Err(error)) => Err(error.to_string()),
            });
            match next.map_err(|message| damaged(&self.path, self.kind, &message))? {
                None => return Ok(false),
                Some((batch, _)) if batch.num_columns() != self.columns => {
                    let message = "its batches have other columns than it says";
                    return Err(damaged(&self.path, self.kind, message));
                }
                Some((batch, batches)) => {
                    (self.batch, self.row) = (batch, 0);
                    self.batches = Some(batches);
                }
            }
        }
        let start = record.len();
        for (at, column) in self.batch.columns().iter().enumerate() {
            if at > 0 {
                record.push(b',');
            }
            cells::put(column, self.row, record);
        }
        // An empty record is a row, other than an empty line.
        if record.len() == start {
            record.extend_from_slice(b"\"\"");
        }
        self.row += 1;
        Ok(true)
    }

    fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }
}

/// A file that is asked only for what it has.
struct Bounded {
    file: File,
    length: u64,
}

impl Bounded {
    fn at(&self, start: u64, length: u64) -> std::result::Result<File, ParquetError> {
        match start.checked_add(length) {
            Some(end) if end <= self.length => {
                let mut file = self.file.try_clone()?;
                file.seek(SeekFrom::Start(start))?;
                Ok(file)
            }
            _ => Err(ParquetError::EOF(format!(
                "expected {length} bytes at {start}, but the file has {}",
                self.length
            ))),
        }
    }
}

impl Length for Bounded {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Bounded {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> std::result::Result<Self::T, ParquetError> {
        self.at(start, 0).map(BufReader::new)
    }

    fn get_bytes(&self, start: u64, length: usize) -> std::result::Result<Bytes, ParquetError> {
        let file = self.at(start, length as u64)?;
        let mut bytes = Vec::with_capacity(length);
        file.take(length as u64).read_to_end(&mut bytes)?;
        match bytes.len() == length {
            true => Ok(bytes.into()),
            false => Err(ParquetError::EOF("the file became shorter".into())),
        }
    }
}
