//! Low-rank matrix models, learned online or in batch.
//!
//! A model is a matrix W of rank k that scores pairs of sparse rows, leftᵀ W right, or
//! whose entries are ratings of items by users. Where to look:
//!
//! - Tasks: [`Similarity`] of rows from labels or triplets, [`Ranking`] of labels,
//!   [`Pairs`] with values, [`Metric`] for distances, [`Kernel`] and [`task::Map`] of
//!   items, [`Completion`] of ratings, [`Multitask`] regression, and [`Gossip`] between
//!   agents that keep their data.
//! - All tasks have the same shape: options with setters, `fit` for a whole data set,
//!   `fit_with` (`fit_agents` for gossip) with validation data and a [`task::Run`], which
//!   observes, saves and resumes. [`task::Session`] lets you drive a run that learns step
//!   by step, and `begin` starts a learner that has seen nothing.
//! - [`data`] reads files and makes data of values in memory.
//! - [`Model`] stands alone in one file, scores rows and finds neighbors, and learns more
//!   as a [`task::Online`], a [`task::RatingLearner`] or a [`task::TaskLearner`].
//! - [`task::Evaluation`] is what every evaluation returns, with baselines.
//! - [`mod@options`] declares options, [`online`] has the learners, [`form`] how W is stored,
//!   [`batch`] the solvers on the geometries of [`manifold`], [`gossip`] the agents.
//! - [`check`] holds losses, learners, sources, geometries and tasks of your own to their
//!   laws.
//!
//! ```no_run
//! use rankfold::{Similarity, data};
//!
//! let train = data::read_labelled::<f32>("train.svm.gz")?;
//! let model = Similarity::default().rank(30).steps(500_000).seed(1).fit(&train)?;
//! for (row, score) in model.neighbors(&train, 17, 10)? {
//!     println!("{row}\t{score:.3}");
//! }
//! model.save("similarity.safetensors")?;
//! # Ok::<(), rankfold::Error>(())
//! ```
#![warn(missing_docs)]

mod aligned;
pub mod batch;
pub mod check;
pub mod data;
mod error;
pub mod eval;
pub mod form;
pub mod gossip;
mod ids;
mod kernel;
pub mod linalg;
mod loss;
pub mod manifold;
#[doc(hidden)]
pub mod memory;
pub mod model;
mod normal;
pub mod online;
pub mod options;
mod parallel;
pub mod random;
mod real;
pub mod sample;
pub mod sparse;
pub mod task;

/// The linear algebra whose matrices stand in signatures.
pub use faer;

pub use error::{Error, ErrorKind, Result};
pub use ids::Ids;
pub use loss::Loss;
pub use model::{Model, Score};
pub use real::Real;
pub use sparse::{Rows, SparseRow, SparseVec};
pub use task::{
    Completion, Gossip, Kernel, Metric, Multitask, Pairs, Ranking, Recommend, Similarity,
};
