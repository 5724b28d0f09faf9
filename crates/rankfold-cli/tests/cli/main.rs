//! The command line, as users and scripts meet it.

mod after;
mod completion;
mod confidence;
mod demo;
mod docs;
mod edit;
mod given;
mod gossip;
mod hostile;
mod init;
mod kernel;
mod learners;
mod matrices;
mod merge;
mod metric;
mod metric_online;
mod multitask;
mod objects;
mod pairs;
mod plot;
mod ranking;
mod raw_files;
mod recommend;
mod report;
mod split;
#[path = "../support/mod.rs"]
mod support;
mod texts;
mod train;
mod update;
mod update_formats;
mod usage;
mod vectorize;
