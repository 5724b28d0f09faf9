//! Low-rank matrix models: similarities, metrics, kernels, ratings and label
//! rankings, learned online.
#![warn(missing_docs)]

mod aligned;
pub mod check;
pub mod data;
mod error;
pub mod eval;
pub mod form;
mod ids;
mod kernel;
pub mod linalg;
mod loss;
mod memory;
pub mod model;
pub mod online;
pub mod random;
mod real;
pub mod sample;
pub mod sparse;
pub mod task;

pub use error::{Error, ErrorKind, Result};
pub use ids::Ids;
pub use loss::Loss;
pub use model::{Model, Score};
pub use real::Real;
pub use sparse::{Rows, SparseRow, SparseVec};
pub use task::Similarity;
