//! The native module of the Python package: arrays in, arrays out, and nothing that
//! learns. Options come from the tables of the library, so that a new option of a task
//! needs no code here.

mod choices;
mod convert;
mod data;
mod errors;
mod fit;
mod learn;
mod metric_shards;
mod model;
mod questions;
mod seats;
mod shards;
mod tables;
mod task_shards;
mod text;
mod watch;

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command `rankfold` with these arguments, the name of the program first, and
/// gives its exit code.
#[pyfunction]
fn command(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| rankfold_cli::run(args))
}

#[pymodule]
fn _rankfold(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<data::Data>()?;
    m.add_class::<model::Model>()?;
    m.add_class::<learn::Learner>()?;
    m.add_class::<text::Vocabulary>()?;
    m.add_class::<shards::Shards>()?;
    m.add_class::<task_shards::TaskShard>()?;
    m.add_class::<metric_shards::MetricShard>()?;
    m.add_class::<seats::GossipSeat>()?;
    m.add_function(wrap_pyfunction!(tables::tables, m)?)?;
    m.add_function(wrap_pyfunction!(tables::check, m)?)?;
    m.add_function(wrap_pyfunction!(tables::precision, m)?)?;
    m.add_function(wrap_pyfunction!(fit::fit, m)?)?;
    m.add_function(wrap_pyfunction!(learn::begin, m)?)?;
    m.add_function(wrap_pyfunction!(learn::learn_classes, m)?)?;
    m.add_function(wrap_pyfunction!(learn::learn_triplets, m)?)?;
    m.add_function(wrap_pyfunction!(learn::learn_labels, m)?)?;
    m.add_function(wrap_pyfunction!(learn::learn_distances, m)?)?;
    m.add_function(wrap_pyfunction!(learn::learn_values, m)?)?;
    m.add_function(wrap_pyfunction!(learn::learn_ratings, m)?)?;
    m.add_function(wrap_pyfunction!(choices::learn_choices, m)?)?;
    m.add_function(wrap_pyfunction!(choices::choosers, m)?)?;
    m.add_function(wrap_pyfunction!(choices::choice_vectors, m)?)?;
    m.add_function(wrap_pyfunction!(choices::choice_lists, m)?)?;
    m.add_function(wrap_pyfunction!(choices::choice_ndcg, m)?)?;
    m.add_function(wrap_pyfunction!(learn::learn_tasks, m)?)?;
    m.add_function(wrap_pyfunction!(learn::learn_map, m)?)?;
    m.add_function(wrap_pyfunction!(learn::learner, m)?)?;
    m.add_function(wrap_pyfunction!(task_shards::fit_task_shards, m)?)?;
    m.add_function(wrap_pyfunction!(metric_shards::fit_metric_shards, m)?)?;
    m.add_function(wrap_pyfunction!(shards::merge, m)?)?;
    m.add_function(wrap_pyfunction!(shards::shard_add, m)?)?;
    m.add_function(wrap_pyfunction!(shards::shard_answer, m)?)?;
    m.add_function(wrap_pyfunction!(shards::shard_biases, m)?)?;
    m.add_function(wrap_pyfunction!(shards::shard_counts, m)?)?;
    m.add_function(wrap_pyfunction!(shards::shard_pattern, m)?)?;
    m.add_function(wrap_pyfunction!(shards::shard_rows, m)?)?;
    m.add_function(wrap_pyfunction!(shards::shard_squares, m)?)?;
    m.add_function(wrap_pyfunction!(command, m)?)
}
