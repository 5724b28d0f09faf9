//! The learning curve as JSON lines.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use rankfold::task::CurvePoint;
use rankfold::{Error, Result};
use serde_json::{Value, json};

/// A curve that is written point by point, so that a killed run leaves what it
/// had measured.
pub struct Curve {
    path: PathBuf,
    file: File,
}

impl Curve {
    /// Starts a curve; of a curve that is there already, the points up to
    /// `steps` are kept, because a resumed run measures the later ones again.
    pub fn open(path: &Path, steps: u64) -> Result<Self> {
        let old = if steps > 0 {
            std::fs::read_to_string(path).unwrap_or_default()
        } else {
            String::new()
        };
        let kept = old.lines().filter(|line| {
            let point: Option<Value> = serde_json::from_str(line).ok();
            point.is_some_and(|p| p["steps"].as_u64().is_some_and(|at| at <= steps))
        });
        let text: String = kept.map(|line| format!("{line}\n")).collect();
        let file = File::create(path)
            .and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file))
            .map_err(|e| Error::writing(path, &e))?;
        Ok(Curve {
            path: path.to_owned(),
            file,
        })
    }

    /// Adds a point.
    pub fn push(&mut self, point: &CurvePoint, seconds: f64) -> Result<()> {
        let mut line = json!({
            "steps": point.counters.steps,
            "updates": point.counters.updates,
            "refused": point.counters.refused,
            "seconds": seconds,
            "loss": point.loss,
        });
        for (name, value) in &point.metrics {
            line[name] = json!(value);
        }
        writeln!(self.file, "{line}").map_err(|e| Error::writing(&self.path, &e))
    }
}
