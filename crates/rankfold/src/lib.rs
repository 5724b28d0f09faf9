//! Low-rank matrix models: similarities, metrics, kernels, ratings and label
//! rankings, learned online.
#![warn(missing_docs)]

pub mod data;
mod error;
pub mod eval;
mod ids;
mod real;
pub mod sparse;

pub use error::{Error, ErrorKind, Result};
pub use ids::Ids;
pub use real::Real;
pub use sparse::{Rows, SparseRow, SparseVec};
