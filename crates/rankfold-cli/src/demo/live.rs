//! The digits in the browser: `rankfold demo --serve`.

use std::net::SocketAddr;
use std::time::Duration;

use rankfold::data::text::Documents;
use rankfold::data::write_svmlight;
use rankfold::{Error, Model, Result};
use rankfold_serve::options::{Access, Durability, IndexKind, Learning, Limits, Log, Options};
use rankfold_serve::{Drawings, start_with};

use super::data::Digit;
use super::features::Basis;
use crate::interrupt::Interrupt;
use crate::output::Output;

/// How many steps of training a click is worth.
const CLICK: f64 = 10.0;

/// The strokes of the digits that are searched.
struct Strokes {
    basis: Basis,
    digits: Vec<Digit>,
}

impl Drawings for Strokes {
    fn row(&self, stroke: &[f64]) -> Option<String> {
        let points: [f64; 16] = stroke.try_into().ok()?;
        if !points.iter().all(|v| (0.0..=100.0).contains(v)) {
            return None;
        }
        let row = self.basis.row(&Digit { label: 0, points });
        let entries = row.as_row().iter();
        let named = entries.map(|(j, v)| ((j + 1).to_string(), serde_json::json!(v)));
        let row: serde_json::Map<_, _> = named.collect();
        // A dot has no direction, and so no features.
        let finite = row.values().all(serde_json::Value::is_number);
        finite.then(|| serde_json::Value::Object(row).to_string())
    }

    fn stroke(&self, id: &str) -> Option<Vec<f64>> {
        let digit = self.digits.get(id.parse::<usize>().ok()?)?;
        Some(digit.points.to_vec())
    }
}

/// Serves the test digits until Ctrl-C; what is learned is gone then.
pub fn run(
    model: &Model,
    basis: Basis,
    digits: Vec<Digit>,
    listen: SocketAddr,
    threads: usize,
    output: &Output,
) -> Result<()> {
    let folder = tempfile::tempdir();
    let folder = folder.map_err(|e| Error::failure(format!("cannot make a folder: {e}")))?;
    let path = folder.path().join("digits.safetensors");
    let mut model = model.clone();
    // Training was many small steps; a click should be seen.
    model.card.step_size *= CLICK;
    model.save(&path)?;
    let rows = folder.path().join("digits.svm");
    let data = basis.labelled(&digits);
    rankfold::data::write_atomically(&rows, |out| write_svmlight(out, &data))?;
    let options = Options {
        model: path,
        rows: Some(Documents::new(&rows)),
        objects: None,
        names: None,
        learning: Some(Learning {
            journal: folder.path().join("journal"),
            durability: Durability::Os,
            snapshot_every: 1000,
            segment_bytes: 1 << 24,
        }),
        listen,
        access: Access::default(),
        limits: Limits::default(),
        index: IndexKind::Exact,
        visible_within: Duration::from_millis(100),
        threads,
        log: Log::None,
        log_requests: false,
    };
    let interrupt = Interrupt::watch();
    let running = start_with(&options, Some(Box::new(Strokes { basis, digits })))?;
    output.note("draw a digit in the browser, and teach the model; Ctrl-C ends it");
    crate::serve::follow(running, false, &interrupt, output)
}
