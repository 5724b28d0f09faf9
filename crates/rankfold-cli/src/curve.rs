//! The learning curve as JSON lines.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use rankfold::task::CurvePoint;
use rankfold::{Error, Result, data};
use serde_json::{Value, json};

/// A curve that is written point by point, so that a killed run leaves what it had
/// measured.
pub struct Curve {
    path: PathBuf,
    /// Of a resumed run, the file is left alone until the first point comes.
    file: Option<File>,
}

impl Curve {
    /// Starts a curve. A resumed run keeps the points up to its first new one, because
    /// it measures the later ones again.
    pub fn open(path: &Path, resumed: bool) -> Result<Self> {
        let file = match resumed {
            true => None,
            false => Some(File::create(path).map_err(|e| Error::writing(path, &e))?),
        };
        Ok(Curve {
            path: path.to_owned(),
            file,
        })
    }

    /// Adds a point.
    pub fn push(&mut self, point: &CurvePoint, seconds: f64) -> Result<()> {
        if self.file.is_none() {
            self.file = Some(self.continued(point.counters.steps)?);
        }
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
        let file = self.file.as_mut().expect("opened above");
        writeln!(file, "{line}").map_err(|e| Error::writing(&self.path, &e))
    }

    /// The file with the points before this step, written beside and renamed.
    fn continued(&self, steps: u64) -> Result<File> {
        let old = std::fs::read_to_string(&self.path).unwrap_or_default();
        let kept = old.lines().filter(|line| {
            let point: Option<Value> = serde_json::from_str(line).ok();
            point.is_some_and(|p| p["steps"].as_u64().is_some_and(|at| at < steps))
        });
        let text: String = kept.map(|line| format!("{line}\n")).collect();
        data::write_atomically(&self.path, |out| out.write_all(text.as_bytes()))?;
        let file = OpenOptions::new().append(true).open(&self.path);
        file.map_err(|e| Error::writing(&self.path, &e))
    }
}
