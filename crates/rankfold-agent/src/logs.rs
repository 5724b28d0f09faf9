//! What an agent tells while it runs: lines on stderr, as text or as JSON.

use std::io;

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}

/// Writes lines from now on; with `detail`, why letters were refused and exchanges failed
/// as well.
pub fn start_logs(format: LogFormat, detail: bool) {
    let level = match detail {
        true => tracing::Level::DEBUG,
        false => tracing::Level::INFO,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false);
    // A second start in one process changes nothing.
    let _ = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
