//! One test binary: every binary links the linear algebra once more.

mod allocations;
mod aroma;
mod baselines;
mod batch;
mod begin;
mod common;
mod dense_bench;
mod golden;
mod golden_metrics;
mod gossip;
mod kernel;
mod layers;
mod loreta;
mod minibatch;
mod models;
mod multitask;
mod objects;
mod oracle;
mod projection;
mod psd;
mod psd_batch;
mod ranking;
mod regression;
mod retrieval;
mod tasks;
mod update;
