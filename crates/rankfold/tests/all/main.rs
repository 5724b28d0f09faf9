//! One test binary: every binary links the linear algebra once more.

mod golden;
mod golden_metrics;
mod loreta;
mod oracle;
mod retrieval;
