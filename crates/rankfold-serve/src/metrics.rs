//! Numbers for who watches the service, in the text format of Prometheus.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::core::Core;

/// Upper ends of the buckets of times, in seconds.
const BUCKETS: [f64; 11] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0,
];

/// How often something took how long.
#[derive(Debug, Default)]
struct Times {
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Times {
    fn add(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        for (bucket, end) in self.buckets.iter().zip(BUCKETS) {
            if seconds <= end {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        for (bucket, end) in self.buckets.iter().zip(BUCKETS) {
            let count = bucket.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{end}\"}} {count}");
        }
        let count = self.count.load(Ordering::Relaxed);
        let seconds = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}");
        let braces = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{labels}}}")
        };
        let _ = writeln!(
            out,
            "{name}_sum{braces} {seconds}\n{name}_count{braces} {count}"
        );
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests by path of the table and status.
    requests: Mutex<std::collections::BTreeMap<(&'static str, u16), u64>>,
    answered: Times,
    flushes: Times,
    examples: AtomicU64,
    failures: AtomicU64,
}

impl Metrics {
    pub fn answered(&self, path: &'static str, status: u16, time: Duration) {
        if let Ok(mut requests) = self.requests.lock() {
            *requests.entry((path, status)).or_default() += 1;
        }
        self.answered.add(time);
    }

    pub fn flushed(&self, time: Duration) {
        self.flushes.add(time);
    }

    pub fn learned(&self, examples: u64) {
        self.examples.fetch_add(examples, Ordering::Relaxed);
    }

    pub fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// The text.
    pub fn text(core: &Core) -> String {
        let metrics = &core.metrics;
        let mut out = String::new();
        let head = |out: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        head(
            &mut out,
            "rankfold_requests_total",
            "counter",
            "Requests by path and status.",
        );
        if let Ok(requests) = metrics.requests.lock() {
            for ((path, status), count) in requests.iter() {
                let _ = writeln!(
                    out,
                    "rankfold_requests_total{{path=\"{path}\",status=\"{status}\"}} {count}"
                );
            }
        }
        let name = "rankfold_request_seconds";
        head(
            &mut out,
            name,
            "histogram",
            "Time of a request, its body included.",
        );
        metrics.answered.write(&mut out, name, "");
        let name = "rankfold_journal_flush_seconds";
        head(
            &mut out,
            name,
            "histogram",
            "Time to make a group of feedback durable.",
        );
        metrics.flushes.write(&mut out, name, "");
        let published = core.published();
        let numbers = [
            (
                "rankfold_feedback_total",
                "counter",
                "Examples that were learned since the start.",
                metrics.examples.load(Ordering::Relaxed) as f64,
            ),
            (
                "rankfold_journal_failures_total",
                "counter",
                "Groups of feedback that could not be written.",
                metrics.failures.load(Ordering::Relaxed) as f64,
            ),
            (
                "rankfold_sequence",
                "gauge",
                "Examples of the model that are durable.",
                core.sequence() as f64,
            ),
            (
                "rankfold_visible_sequence",
                "gauge",
                "Examples of the model that answers know of.",
                published.sequence as f64,
            ),
            (
                "rankfold_visible_lag_seconds",
                "gauge",
                "How long the last new examples had to wait until answers knew of them.",
                published.lag.as_secs_f64(),
            ),
            (
                "rankfold_rows",
                "gauge",
                "Rows, items or tasks that are served.",
                published.view.rows() as f64,
            ),
            (
                "rankfold_journal_cut_bytes",
                "gauge",
                "Bytes of a torn record that were cut at the start.",
                core.facts.cut as f64,
            ),
        ];
        for (name, kind, help, value) in numbers {
            head(&mut out, name, kind, help);
            let _ = writeln!(out, "{name} {value}");
        }
        out
    }
}
