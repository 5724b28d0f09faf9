//! A service that answers from a model over HTTP, and learns from what it is told.
//!
//! One thread learns (`learner`), and makes what it learned durable (`journal`). Another
//! makes of it what readers see (`publish`), and others answer from that (`answer`,
//! `workers`). `http` is between them and the world.
#![warn(rust_2018_idioms)]

mod answer;
mod book;
mod core;
mod error;
mod example;
mod export;
mod http;
mod index;
mod journal;
mod learner;
mod log;
mod metrics;
mod mind;
pub mod options;
mod progress;
mod publish;
mod start;
mod workers;

pub use crate::core::Drawings;
pub use index::Index;
pub use start::{Running, start, start_with};
