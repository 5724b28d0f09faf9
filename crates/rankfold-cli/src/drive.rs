//! Drives a training run of any task: progress, the curve, checkpoints, Ctrl-C,
//! and the report at the end.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rankfold::model::{Counters, Metrics};
use rankfold::online::Rule;
use rankfold::task::{Event, MetricSession, PairsSession, RankingSession, Session, Stopped};
use rankfold::{Model, Real, Result};
use serde_json::json;

use crate::curve::Curve;
use crate::interrupt::Interrupt;
use crate::output::Output;

/// Steps between two looks at the keyboard.
const STRIDE: u64 = 1_000;

/// A training run that can be driven.
pub trait Run {
    const TASK: &'static str;
    fn advance(&mut self, at_most: u64, go_on: &(dyn Fn() -> bool + Sync)) -> Result<Event>;
    fn counters(&self) -> Counters;
    fn metrics(&self) -> Metrics;
    fn total_steps(&self) -> u64;
    fn step_size(&self) -> f64;
    fn rank(&self) -> usize;
    fn storage(&self) -> &'static str;
    fn save_checkpoint(&self, path: &Path, seconds: f64) -> Result<()>;
    fn into_model(self) -> Result<Model>;
}

/// Passes the calls on.
macro_rules! run {
    ($session:ident, $task:literal) => {
        impl<R: Real> Run for $session<'_, R> {
            const TASK: &'static str = $task;
            fn advance(
                &mut self,
                at_most: u64,
                go_on: &(dyn Fn() -> bool + Sync),
            ) -> Result<Event> {
                self.advance_while(at_most, go_on)
            }
            fn counters(&self) -> Counters {
                $session::counters(self)
            }
            fn metrics(&self) -> Metrics {
                $session::metrics(self)
            }
            fn total_steps(&self) -> u64 {
                $session::total_steps(self)
            }
            fn step_size(&self) -> f64 {
                $session::step_size(self)
            }
            fn rank(&self) -> usize {
                $session::rank(self)
            }
            fn storage(&self) -> &'static str {
                $session::storage(self)
            }
            fn save_checkpoint(&self, path: &Path, seconds: f64) -> Result<()> {
                $session::save_checkpoint(self, path, seconds)
            }
            fn into_model(self) -> Result<Model> {
                $session::into_model(self)
            }
        }
    };
}

run!(Session, "similarity");
run!(RankingSession, "ranking");
run!(PairsSession, "pairs");
run!(MetricSession, "metric");

/// What a run is driven with.
pub struct Drive<'a> {
    pub output: &'a Output,
    /// The model file to write.
    pub model: &'a Path,
    pub curve: Option<&'a PathBuf>,
    pub checkpoint: Option<&'a PathBuf>,
    pub checkpoint_every: Option<u64>,
    pub rule: Rule,
    /// What the command line calls the learner.
    pub learner: &'static str,
    pub seed: u64,
    /// Rows that nothing is learned from, where the task may have some.
    pub skipped: Option<usize>,
    pub start: Instant,
    /// Seconds before the checkpoint that the run goes on from.
    pub earlier: f64,
}

impl Drive<'_> {
    /// Runs to the end, writes the model and reports.
    pub fn run<T: Run>(&self, mut session: T) -> Result<()> {
        let output = self.output;
        let mut curve = match self.curve {
            Some(path) => Some(Curve::open(path, session.counters().steps)?),
            None => None,
        };
        let seconds = || self.earlier + self.start.elapsed().as_secs_f64();
        let every = self
            .checkpoint_every
            .unwrap_or(session.total_steps().div_ceil(20).max(1));
        let interrupt = Interrupt::watch();
        let bar = output.bar(session.total_steps());
        let stopped = loop {
            let done = session.counters().steps;
            bar.set_position(done);
            if interrupt.requested() {
                break None;
            }
            let to_checkpoint = every - done % every;
            match session.advance(STRIDE.min(to_checkpoint), &|| !interrupt.requested())? {
                Event::Progress => {}
                Event::Measured(point) => {
                    let mut line = format!(
                        "step {} of {}: loss {:.4}",
                        point.counters.steps,
                        session.total_steps(),
                        point.loss
                    );
                    for (name, value) in &point.metrics {
                        line += &format!(", {name} {value:.4}");
                    }
                    output.milestone(&bar, &line);
                    if let Some(curve) = &mut curve {
                        curve.push(&point, seconds())?;
                    }
                }
                Event::Finished(stopped) => break Some(stopped),
            }
            if let Some(path) = self.checkpoint
                && session.counters().steps / every > done / every
            {
                session.save_checkpoint(path, seconds())?;
            }
        };
        bar.finish_and_clear();

        let (counters, metrics) = (session.counters(), session.metrics());
        let (step_size, rank) = (session.step_size(), session.rank());
        let (aroma, storage) = (self.rule.is_aroma(), session.storage());
        let mut variance_scale = None;
        if counters.refused > counters.steps / 10 {
            let advice = match storage {
                "sparse" => "there is no memory for more entries of W, use fewer features",
                _ if aroma => "a larger --confidence-r or --precision f64 may help",
                _ => "a smaller --step-size or --rank may be enough",
            };
            output.note(&format!(
                "{} of {} steps were refused: {advice}",
                counters.refused, counters.steps
            ));
        }
        let (stopped, written) = match stopped {
            Some(stopped) => {
                let model = session.into_model()?;
                variance_scale = model.card.variance_scale;
                model.save(self.model)?;
                let stopped = match stopped {
                    Stopped::Steps => "steps",
                    Stopped::Patience => "patience",
                };
                (stopped, self.model.to_owned())
            }
            None => {
                let path = self.checkpoint.cloned();
                let path = path.unwrap_or_else(|| beside(self.model));
                session.save_checkpoint(&path, seconds())?;
                output.note(&format!(
                    "interrupted: `{}` holds all that was learned; go on with --resume {0}",
                    path.display()
                ));
                ("interrupted", path)
            }
        };
        let (learner, seconds) = (self.learner, seconds());
        let mut report = json!({
            "format": 1,
            "task": T::TASK,
            "learner": learner,
            "rank": rank,
            "steps": counters.steps,
            "updates": counters.updates,
            "refused": counters.refused,
            "step_size": step_size,
            "seed": self.seed,
            "stopped": stopped,
            "seconds": seconds,
            "model": written.display().to_string(),
            "metrics": metrics,
        });
        if aroma {
            report["confidence_r"] = json!(step_size);
            report["storage"] = json!(storage);
            report["variance_scale"] = json!(variance_scale);
        }
        if let Some(skipped) = self.skipped {
            report["skipped"] = json!(skipped);
        }
        let mut text = format!(
            "{}{learner} of rank {}: {} steps, {} updates, {} refused, {} {step_size}, {seconds:.1} s",
            if stopped == "interrupted" {
                "interrupted: "
            } else {
                ""
            },
            rank,
            counters.steps,
            counters.updates,
            counters.refused,
            if aroma { "r" } else { "step size" },
        );
        for (name, value) in &metrics {
            text += &format!("\nvalidation {name}: {value:.4}");
        }
        text += &format!("\n{}", written.display());
        if written == Path::new("-") {
            output.result_beside_data(&report, &text);
        } else {
            output.result(&report, &text)?;
        }
        match stopped {
            "interrupted" => std::process::exit(130),
            _ => Ok(()),
        }
    }
}

/// Where an interrupted run goes when no checkpoint was asked for.
fn beside(model: &Path) -> PathBuf {
    let mut name = model.as_os_str().to_owned();
    name.push(".checkpoint");
    PathBuf::from(name)
}
