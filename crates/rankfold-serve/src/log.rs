//! Events on stderr, as text or as JSON.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::options::Log;

/// Tells what happens.
#[derive(Debug, Clone, Copy)]
pub struct Logger(Log);

impl Logger {
    pub fn new(log: Log) -> Self {
        Logger(log)
    }

    /// An event that belongs to the usual course of things.
    pub fn info(self, event: &str, fields: Value) {
        self.tell("info", event, fields);
    }

    /// Something that someone should look at.
    pub fn error(self, event: &str, fields: Value) {
        self.tell("error", event, fields);
    }

    fn tell(self, level: &str, event: &str, fields: Value) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0.0, |d| d.as_millis() as f64 / 1000.0);
        let line = match self.0 {
            Log::None => return,
            Log::Json => {
                let mut line = json!({ "time": now, "level": level, "event": event });
                if let Value::Object(fields) = fields {
                    for (name, value) in fields {
                        line[name] = value;
                    }
                }
                line.to_string()
            }
            Log::Text => {
                let mut line = match level {
                    "error" => format!("error: {event}"),
                    _ => event.to_owned(),
                };
                if let Value::Object(fields) = fields {
                    for (name, value) in fields {
                        line += &match value {
                            Value::String(text) => format!(" {name}={text}"),
                            other => format!(" {name}={other}"),
                        };
                    }
                }
                line
            }
        };
        // Stderr may be closed.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
