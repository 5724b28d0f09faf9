//! What Python sees of long work: a callback for every event, and Ctrl-C.

use crate::convert::object;
use pyo3::prelude::*;
use rankfold::task::Event;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Milliseconds between two looks for signals.
const EVERY: u64 = 50;

pub struct Watch {
    callback: Option<Py<PyAny>>,
    start: Instant,
    looked: AtomicU64,
    stop: AtomicBool,
    raised: Mutex<Option<PyErr>>,
    curve: Mutex<Vec<Value>>,
}

impl Watch {
    pub fn new(callback: Option<Py<PyAny>>) -> Self {
        Watch {
            callback,
            start: Instant::now(),
            looked: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            raised: Mutex::new(None),
            curve: Mutex::new(Vec::new()),
        }
    }

    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn fail(&self, error: PyErr) {
        self.stop.store(true, Ordering::Relaxed);
        let mut raised = self.raised.lock().unwrap_or_else(|e| e.into_inner());
        raised.get_or_insert(error);
    }

    /// Whether the work is to stop. Signals are handled by the main thread only.
    pub fn stops(&self) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return true;
        }
        let now = self.start.elapsed().as_millis() as u64;
        if now.saturating_sub(self.looked.load(Ordering::Relaxed)) >= EVERY {
            self.looked.store(now, Ordering::Relaxed);
            if let Err(error) = Python::attach(|py| py.check_signals()) {
                self.fail(error);
            }
        }
        self.stop.load(Ordering::Relaxed)
    }

    /// Tells an event; says whether the work goes on.
    pub fn tell(&self, event: &Event) -> bool {
        if let Event::Measured(point) = event {
            let mut curve = self.curve.lock().unwrap_or_else(|e| e.into_inner());
            curve.push(json!(point));
        }
        if let (Some(callback), Some(told)) = (&self.callback, described(event)) {
            let answer = Python::attach(|py| {
                let answer = callback.call1(py, (object(py, &told)?,))?;
                Ok::<bool, PyErr>(answer.bind(py).is(pyo3::types::PyBool::new(py, false)))
            });
            match answer {
                Ok(false) => {}
                Ok(true) => self.stop.store(true, Ordering::Relaxed),
                Err(error) => self.fail(error),
            }
        }
        !self.stops()
    }

    /// The points of the curve, and what was raised on the way.
    pub fn finish(self) -> (Vec<Value>, Option<PyErr>) {
        let curve = self.curve.into_inner().unwrap_or_else(|e| e.into_inner());
        let raised = self.raised.into_inner().unwrap_or_else(|e| e.into_inner());
        (curve, raised)
    }
}

fn described(event: &Event) -> Option<Value> {
    let (name, mut told) = match event {
        Event::Progress { done, total } => ("progress", json!({ "done": done, "total": total })),
        Event::Measured(point) => ("measured", json!(point)),
        Event::Trying(text) => ("trying", json!({ "text": text })),
        Event::Tried(trial) => ("tried", json!(trial)),
        Event::Note(text) => ("note", json!({ "text": text })),
        Event::Saved(path) => ("saved", json!({ "path": path })),
        Event::Finished(stop) => ("finished", json!({ "stopped": stop.name() })),
        _ => return None,
    };
    told["event"] = json!(name);
    Some(told)
}
