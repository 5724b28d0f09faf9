//! The live service, as its clients meet it.

mod answers;
mod client;
mod crash;
#[path = "../cli/docs.rs"]
mod docs;
mod guide;
mod hostile;
mod learning;
mod openapi;
#[path = "../support/mod.rs"]
mod support;
