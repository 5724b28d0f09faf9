//! Data: made from values in memory, or read from files. Nothing here learns.
//!
//! | data | from memory | from a file |
//! |---|---|---|
//! | rows | [`Rows::from_dense`], [`Rows::from_csr`], … | |
//! | rows with labels | [`Labelled::new`] and `with_…` | [`read_labelled`] |
//! | ratings | [`Ratings::from_entries`] | [`Ratings::read`] |
//! | pairs with values | [`valued_pairs`] | [`read_values`] |
//! | constraints on distances | [`constraints()`] | [`read_constraints`] |
//! | triplets | [`triplets`] | [`Triplets`] |
//! | rows of tasks | [`TaskRows::new`] | [`TaskRows::read`] |
//! | matrices of items by items | [`SquareMatrix::from_dense`] | [`SquareMatrix::read`] |
//! | dissimilarities | [`dissimilarities()`] | [`read_dissimilarities`] |
//!
//! Ids and labels may be texts, numbers, or anything else that can be written. Both
//! ways check the same things with the same words. A list in memory has no lines: an
//! error names the place in the list, from 0.
//!
//! ```
//! use rankfold::Rows;
//! use rankfold::data::{Features, Labelled, Labels};
//!
//! let rows = Rows::from_dense([[5.1_f32, 3.5], [7.0, 3.2]])?;
//! let data = Labelled::new(rows)
//!     .with_labels(Labels::single(["setosa", "versicolor"]))?
//!     .with_features(Features::columns(["length", "width"])?)?
//!     .with_ids([17, 52])?;
//! assert_eq!(data.lookup().find("52")?, 1);
//! # Ok::<(), rankfold::Error>(())
//! ```

mod choices;
mod columnar;
mod columns;
mod constraints;
mod dissimilarities;
mod distance_stream;
mod edges;
mod features;
mod fields;
mod format;
mod jsonl;
mod label_stream;
mod labels;
mod lookup;
mod mtx;
mod names;
mod npy;
mod npz;
mod number;
mod open;
mod output;
mod pair_stream;
mod rating_blocks;
mod ratings;
mod reading;
mod recognize;
mod records;
mod relations;
mod roles;
mod split;
mod square;
mod stream;
mod svmlight;
mod table;
mod tasks;
mod temporary;
pub mod text;
mod value_stream;
mod values;
mod vectors;
mod wide;
mod zstd;

use std::path::Path;

use hashbrown::HashSet;

pub use choices::{Choice, ChoiceColumns, ChoiceLines, Choices, WEIGHTS};
pub use constraints::{Constraint, Relation, constraints, read_constraints};
pub use dissimilarities::{dissimilarities, read_dissimilarities};
pub use distance_stream::DistanceStream;
pub use edges::read_edges;
pub use features::Features;
pub use format::{holds_columns, holds_rows};
pub use jsonl::read_jsonl;
pub use label_stream::{LabelName, LabelStream};
pub use labels::{read_label_names, read_labels};
pub use lookup::RowLookup;
pub use mtx::read_mtx;
pub use names::read_names;
pub use npy::read_npy;
pub use npz::{read_npz, read_npz_arrays, write_npz_arrays};
pub use open::{Lines, open};
pub use output::{BROKEN_PIPE, Output, write_atomically, written_file};
pub use pair_stream::{PairStream, Said};
pub use ratings::{LARGEST_RATING, RatingColumns, RatingLines, Ratings};
pub use reading::{OnBadLine, Reading};
pub use relations::{
    NamedRows, NamedTriplet, Pairs, PairsOrTriplets, Relations, Triplets, triplets,
};
pub use split::{Condition, SplitSummary, TestPart, split, split_files, split_key};
pub use square::SquareMatrix;
pub use stream::{Names, RowReader, StreamRow, TripletStream};
pub use svmlight::{read_svmlight, write_svmlight, write_svmlight_row};
pub use table::read_table;
pub use tasks::{FeatureMap, TaskColumns, TaskLine, TaskLines, TaskRows};
pub use temporary::{WriteLock, remove_leftovers, remove_own};
pub use value_stream::ValueStream;
pub use values::{read_values, valued_pairs};
pub use vectors::{VectorFormat, write_vectors};

pub use crate::sparse::{Dissimilarity, ValuedPair};
use crate::{Error, Ids, Real, Result, Rows};
use format::{Format, LineFormat};
use text::{Documents, Vocabulary};

/// The names of rows.
#[derive(Debug, Clone, PartialEq)]
pub enum RowIds {
    /// Rows are named by their 0-based position.
    Positions,
    /// Rows bring names; a name may stand twice, but cannot be looked up then.
    Named(Vec<String>),
}

/// Labels of rows: any number a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Labels {
    /// The user's names of the labels, in the order they first came.
    pub names: Ids,
    /// Label numbers of all rows, one row after the other.
    numbers: Vec<u32>,
    /// Where the labels of each row start, with the end at last.
    starts: Vec<usize>,
    /// Whether files call them by their number among `names`.
    pub(crate) numbered: bool,
}

impl Default for Labels {
    fn default() -> Self {
        Labels {
            names: Ids::new(),
            numbers: Vec::new(),
            starts: vec![0],
            numbered: false,
        }
    }
}

impl Labels {
    /// How many rows have been added.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether no row has been added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a row with the labels named, each of which counts once.
    pub fn push<'a>(&mut self, labels: impl IntoIterator<Item = &'a str>) {
        /// Rows with more labels look them up.
        const FEW: usize = 16;
        let start = self.numbers.len();
        let mut many = HashSet::new();
        for label in labels {
            let number = self.names.intern(label);
            let of_row = &self.numbers[start..];
            let is_new = if of_row.len() < FEW {
                !of_row.contains(&number)
            } else {
                if many.is_empty() {
                    many.extend(of_row);
                }
                many.insert(number)
            };
            if is_new {
                self.numbers.push(number);
            }
        }
        self.starts.push(self.numbers.len());
    }

    /// The label numbers of row `i`.
    pub fn of(&self, i: usize) -> &[u32] {
        &self.numbers[self.starts[i]..self.starts[i + 1]]
    }
}

/// Rows with their labels and names: what a data file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled<R> {
    /// The features. A missing cell is stored as NaN until it is filled; no
    /// reader takes a NaN from a file.
    pub rows: Rows<R>,
    /// The labels of each row.
    pub labels: Labels,
    /// The names of the rows.
    pub ids: RowIds,
    /// The names of the columns.
    pub features: Features,
}

/// Reads rows and labels from a file, by its extension: `.svm` (also
/// `.svmlight`, `.libsvm`), `.csv`, `.tsv`, `.jsonl` (also `.ndjson`), `.mtx`,
/// `.npy`, `.parquet`, `.arrow` (also `.feather`, `.ipc`), each also with `.gz` or
/// `.zst`, and `.npz`. `-` is svmlight from stdin.
pub fn read_labelled<R: Real>(path: impl AsRef<Path>) -> Result<Labelled<R>> {
    let source = Documents::new(path);
    read_format(&source, format_of_rows(&source)?)
}

/// The format of a file of rows: stdin is svmlight where nothing else is said.
fn format_of_rows(source: &Documents) -> Result<Format> {
    match open::is_dash(&source.path) && source.reading.format().is_none() {
        true => Ok(Format::Lines(LineFormat::Svmlight)),
        false => source.reading.format_of(&source.path),
    }
}

fn read_format<R: Real>(source: &Documents, format: Format) -> Result<Labelled<R>> {
    let path = &source.path;
    match format {
        Format::Lines(LineFormat::Svmlight) => {
            svmlight::read_lines(Lines::open_with(path, &source.reading)?)
        }
        Format::Lines(LineFormat::Table(delimiter)) => table::read_named(source, delimiter),
        Format::Lines(LineFormat::Jsonl) => jsonl::read_named(source),
        Format::MatrixMarket => read_mtx(path),
        Format::Npy => read_npy(path),
        Format::Npz => read_npz(path),
        Format::Lines(LineFormat::Ratings) => Err(format::unknown(path)),
    }
}

/// Reads rows as [`read_labelled`] does, but JSON lines as documents where a
/// vocabulary is given that makes rows of them. The path and the fields are
/// those of `source`; what does not apply to the format is an error.
pub fn read_with<R: Real>(
    source: &Documents,
    vocabulary: Option<&Vocabulary>,
) -> Result<Labelled<R>> {
    let path = &source.path;
    let format = format_of_rows(source)?;
    let refuse = |named: Option<&'static str>, files: &str| match named {
        Some(name) if source.strict => {
            Err(Error::option(name, format!("applies only to {files}")).in_file(path))
        }
        _ => Ok(()),
    };
    const DOCUMENTS: &str = "documents: JSON lines or tables, for a model with a vocabulary";
    match (format, vocabulary) {
        (Format::Lines(LineFormat::Jsonl), Some(vocabulary)) => source.read(vocabulary),
        (Format::Lines(LineFormat::Jsonl), None) => {
            refuse(source.unusual(true), DOCUMENTS)?;
            jsonl::read_named(source)
        }
        (Format::Lines(LineFormat::Table(_)), Some(vocabulary)) => source.read(vocabulary),
        (Format::Lines(LineFormat::Table(_)), None) => {
            refuse(source.unusual(true), DOCUMENTS)?;
            read_format(source, format)
        }
        _ => {
            refuse(
                source.unusual(false),
                "files with names: .csv, .tsv, .jsonl, .parquet and .arrow",
            )?;
            read_format(source, format)
        }
    }
}

/// An error about one entry of a list.
fn about(noun: &str, number: usize, error: Error) -> Error {
    Error {
        message: format!("{noun} {number}: {}", error.message),
        ..error
    }
}
