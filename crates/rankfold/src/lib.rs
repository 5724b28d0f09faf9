//! Low-rank matrix models, learned online, one example at a time, or in batch.
//!
//! A model is a matrix W of rank k that scores pairs of sparse rows,
//! leftᵀ W right, or whose entries are ratings of items by users. Where to look:
//!
//! - [`data`] reads rows, labels and triplets, and turns text into rows; a model
//!   that keeps its vocabulary reads texts itself ([`Model::read`]);
//! - [`Similarity`] learns which rows are alike, from labels or triplets: options
//!   in a builder, [`Similarity::fit`] for a whole data set, a [`task::Session`]
//!   to drive the training yourself;
//! - [`Ranking`] learns which labels belong to a row, where rows carry several:
//!   the same shape, with a [`task::RankingSession`];
//! - [`Pairs`] learns the values of pairs, such as how much a person likes a film,
//!   with features on both sides; a [`task::PairsSession`];
//! - [`Completion`] learns ratings of items by users, or fills the holes of a
//!   matrix ([`Completion::complete`]); [`data::Ratings`] reads them,
//!   [`task::Recommendations`] lists items, and a [`task::RatingLearner`] takes
//!   new ratings one after the other;
//! - [`Gossip`] learns ratings or tasks by agents that keep their data, and send each
//!   other subspaces only; [`gossip`] has the agents, to carry them over any network;
//! - [`Model`] stands alone in one file, scores rows and finds neighbours, and
//!   goes on learning as a [`task::Online`];
//! - [`task::Evaluate`] measures a model, with plain cosine beside it;
//! - [`online`] has the learners and the seam that examples come through,
//!   [`form`] how W is stored, [`check`] what a form claims about itself, and the
//!   laws for a loss, a learner or a source of triplets of your own;
//! - [`batch`] has solvers that learn from all data at once, on the geometries of
//!   [`manifold`].
//!
//! ```no_run
//! use rankfold::{Similarity, data};
//!
//! let train = data::read_labelled::<f32>("train.svm.gz")?;
//! let model = Similarity::loreta_psd().rank(30).steps(500_000).seed(1).fit(&train)?;
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
mod memory;
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

pub use error::{Error, ErrorKind, Result};
pub use ids::Ids;
pub use loss::Loss;
pub use model::{Model, Score};
pub use real::Real;
pub use sparse::{Rows, SparseRow, SparseVec};
pub use task::{Completion, Gossip, Kernel, Metric, Multitask, Pairs, Ranking, Similarity};
