//! Drives a training run of any task: progress, the curve, checkpoints, Ctrl-C, and the
//! report at the end.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rankfold::online::Rule;
use rankfold::task::{CurvePoint, Event, Fit, Run, Stop, Unit};
use rankfold::{Error, ErrorKind, Model, Result};
use serde_json::{Value, json};

use crate::curve::Curve;
use crate::interrupt::Interrupt;
use crate::output::{Output, shown};
use crate::page::{Section, maps, trained};
use crate::paths;
use crate::shared_options::RunFiles;
use crate::table::StartFile;

/// What a run is driven with.
pub struct Drive<'a> {
    output: &'a Output,
    /// The model file to write.
    model: &'a Path,
    files: &'a RunFiles,
    task: &'static str,
    /// The model file to start from.
    from: Option<&'a StartFile>,
    start: Instant,
}

impl<'a> Drive<'a> {
    /// Starts the clock of a run that writes this model.
    pub fn new(
        output: &'a Output,
        model: &'a Path,
        files: &'a RunFiles,
        task: &'static str,
    ) -> Self {
        Drive {
            output,
            model,
            files,
            task,
            from: None,
            start: Instant::now(),
        }
    }

    /// The same from a model, where `--init` names a file.
    pub fn starting(mut self, from: Option<&'a StartFile>) -> Self {
        self.from = from;
        self
    }

    /// Runs to the end, writes the model and reports. Errors of the library are placed
    /// in the file that they are about.
    pub fn run(
        &self,
        fit: impl FnOnce(Run<'_>) -> Result<Fit>,
        placed: impl Fn(Error) -> Error,
    ) -> Result<()> {
        let show = |model: &Model| Ok(vec![maps::of_model(model, None)?]);
        self.run_showing(fit, placed, show)
    }

    /// The same with what a page shows of the model, where one is asked for.
    pub fn run_showing(
        &self,
        fit: impl FnOnce(Run<'_>) -> Result<Fit>,
        placed: impl Fn(Error) -> Error,
        show: impl FnOnce(&Model) -> Result<Vec<Section>>,
    ) -> Result<()> {
        let (output, files) = (self.output, self.files);
        output.tell_reading();
        let resumed = files.resumed(output)?;
        if let Some(checkpoint) = &resumed {
            let (found, wanted) = (checkpoint.task(), self.task);
            // Maps are made by `train kernel`.
            if found != wanted && (found, wanted) != ("map", "kernel") {
                return Err(checkpoint.error(format!(
                    "a checkpoint of `train {found}`, expected one of `train {wanted}`"
                )));
            }
        }
        let earlier = resumed
            .as_ref()
            .map_or(0.0, |checkpoint| checkpoint.seconds());
        let seconds = || self.start.elapsed().as_secs_f64();
        let curve = files.curve.as_ref();
        let mut curve = curve
            .map(|path| Curve::open(path, resumed.is_some()))
            .transpose()?;
        let interrupt = Interrupt::watch();
        let bar = output.bar(0);
        let saved = RefCell::new(None);
        // Batch solvers measure every iteration: lines are for a twentieth of the run.
        let (mut whole, mut said) = (0, 0);
        let points = RefCell::new(Points::default());
        let observer = |event: &Event| {
            match event {
                Event::Progress { done, total } => {
                    whole = *total;
                    bar.set_length(*total);
                    bar.set_position(*done);
                }
                Event::Measured(point) => {
                    if files.report.is_some() {
                        points.borrow_mut().push(point);
                    }
                    let mut line =
                        format!("step {}: loss {}", point.counters.steps, shown(point.loss));
                    for (name, value) in &point.metrics {
                        line += &format!(", {name} {value:.4}");
                    }
                    let steps = point.counters.steps;
                    if steps.saturating_sub(said) >= whole / 20 || steps == whole {
                        said = steps;
                        output.milestone(&bar, &line);
                    }
                    if let Some(curve) = &mut curve
                        && let Err(error) = curve.push(point, earlier + seconds())
                    {
                        output.note(&format!("a point of the curve was lost: {error}"));
                    }
                }
                // Beside a bar only: what came of it is told below.
                Event::Trying(what) => bar.set_message(format!("trying {what}")),
                Event::Tried(trial) => output.milestone(&bar, &format!("tried {trial}")),
                Event::Note(text) => output.note(text),
                Event::Saved(path) => *saved.borrow_mut() = Some(path.clone()),
                _ => {}
            }
            !interrupt.requested()
        };
        let stop = || interrupt.requested();
        let mut run = Run::default()
            .observed(observer)
            .stopped_by(&stop)
            .timed_by(seconds);
        // Nothing is put beside a device or a pipe.
        if paths::is_file_or_nothing(self.model) {
            run = run.rescue(beside(self.model));
        }
        if files.report.is_some() {
            run = run.compared();
        }
        if let Some(path) = &files.checkpoint {
            run = run.checkpoint(path, files.checkpoint_every);
        }
        match (resumed, self.from) {
            // A checkpoint has the start of its run.
            (Some(checkpoint), _) => run = run.resume(checkpoint),
            (None, Some(file)) => run = run.start(file.load()?),
            (None, None) => {}
        }
        let fitted = fit(run);
        bar.finish_and_clear();
        let saved = saved.into_inner();
        match fitted {
            Ok(fit) if fit.report.stopped == Stop::Interrupted => {
                let written = self.interrupted(saved);
                self.report(&fit, written.as_deref(), earlier + seconds())?;
                Err(Error::interrupted(""))
            }
            Ok(fit) => {
                save(self.model, |path| fit.model.save(path))?;
                let seconds = earlier + seconds();
                self.report(&fit, Some(self.model), seconds)?;
                self.page(&fit, seconds, points.into_inner(), show)
            }
            Err(error) if error.kind == ErrorKind::Interrupted => {
                self.interrupted(saved);
                Err(Error::interrupted(""))
            }
            Err(error) => Err(placed(error)),
        }
    }

    fn interrupted(&self, saved: Option<PathBuf>) -> Option<PathBuf> {
        match &saved {
            Some(path) => self.output.note(&format!(
                "interrupted: `{}` holds all that was learned; go on with --resume {0}",
                path.display()
            )),
            None => self.output.note("interrupted: nothing was written"),
        }
        if let Some(path) = &self.files.report {
            self.output.note(&format!(
                "`{}` was not written: a page is made at the end of a run",
                path.display()
            ));
        }
        saved
    }

    /// Writes the page that was asked for. The model is in its file by then.
    fn page(
        &self,
        fit: &Fit,
        seconds: f64,
        points: Points,
        show: impl FnOnce(&Model) -> Result<Vec<Section>>,
    ) -> Result<()> {
        let Some(path) = &self.files.report else {
            return Ok(());
        };
        // A resumed run has measured only the later points.
        let history = &fit.model.card.history;
        let points = match history.len() > points.kept.len() {
            true => history,
            false => &points.kept,
        };
        let command = &self.output.command;
        let written = show(&fit.model).and_then(|sections| {
            let mut page = trained::page(fit, self.task, command, seconds, points);
            sections.into_iter().for_each(|section| page.add(section));
            trained::add_rest(&mut page, fit);
            page.write(path)
        });
        written.map_err(|e| Error {
            message: format!(
                "{}; the model is in `{}`, only the report is missing",
                e.message,
                self.model.display()
            ),
            ..e
        })
    }

    /// Tells what was learned, and where it is.
    pub fn report(&self, fit: &Fit, written: Option<&Path>, seconds: f64) -> Result<()> {
        let (model, report) = (&fit.model, &fit.report);
        for note in &report.notes {
            self.output.note(note);
        }
        let (card, counters) = (&model.card, &report.counters);
        let (learner, rank) = (&card.learner, model.rank());
        let aroma = learner.parse().is_ok_and(Rule::is_aroma);
        if counters.refused > counters.steps / 10 {
            let advice = match report.more.get("storage").and_then(Value::as_str) {
                Some("sparse") => "there is no memory for more entries of W, use fewer features",
                _ if aroma => "a larger --confidence-r or --precision f64 may help",
                _ => "a smaller --step-size or --rank may be enough",
            };
            self.output.note(&format!(
                "{} of {} steps were refused: {advice}",
                counters.refused, counters.steps
            ));
        }
        let path = written.map(|path| path.display().to_string());
        let mut json = json!({
            "format": 1,
            "task": self.task,
            "learner": learner,
            "rank": rank,
            "steps": counters.steps,
            "updates": counters.updates,
            "refused": counters.refused,
            "step_size": Some(card.step_size).filter(|size| *size > 0.0),
            "seed": card.seed,
            "stopped": report.stopped.name(),
            "seconds": seconds,
            "model": path,
            "metrics": report.metrics,
            "trials": report.trials,
        });
        for (name, value) in &report.more {
            json[name] = value.clone();
        }
        if aroma {
            json["variance_scale"] = json!(card.variance_scale);
        }
        let mut text = match report.stopped == Stop::Interrupted {
            true => "interrupted: ".to_owned(),
            false => String::new(),
        };
        text += &format!(
            "{learner} of rank {rank}: {} {}",
            counters.steps, report.unit
        );
        text += &match report.unit {
            Unit::Steps => format!(
                ", {} updates, {} refused, {} {}",
                counters.updates,
                counters.refused,
                if aroma { "r" } else { "step size" },
                card.step_size
            ),
            _ => format!(", {}", report.stopped),
        };
        text += &format!(", {seconds:.1} s");
        for (name, value) in &report.more {
            if !value.is_object() && !value.is_array() {
                text += &format!("\n{}: {}", name.replace('_', " "), plain(value));
            }
        }
        for (name, value) in &report.metrics {
            text += &format!("\nvalidation {name}: {value:.4}");
        }
        text += &format!("\n{}", path.as_deref().unwrap_or("nothing was written"));
        if self.model == Path::new("-") && report.stopped != Stop::Interrupted {
            self.output.result_beside_data(&json, &text);
            return Ok(());
        }
        self.output.result(&json, &text)
    }
}

/// The points of a curve for a page: every second one is dropped when there are too many.
#[derive(Default)]
struct Points {
    kept: Vec<CurvePoint>,
    /// Points that are left out after one that is kept.
    between: usize,
    skipped: usize,
}

impl Points {
    const MOST: usize = 2000;

    fn push(&mut self, point: &CurvePoint) {
        if self.skipped < self.between {
            self.skipped += 1;
            return;
        }
        self.skipped = 0;
        self.kept.push(point.clone());
        if self.kept.len() == Self::MOST {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.between = 2 * self.between + 1;
            self.skipped = self.between / 2;
        }
    }
}

/// Writes a model at the end. Where that fails, what was learned is kept elsewhere.
pub fn save(place: &Path, write: impl Fn(&Path) -> Result<()>) -> Result<()> {
    let Err(error) = write(place) else {
        return Ok(());
    };
    if place == Path::new("-") {
        return Err(error);
    }
    let name = place.file_name().unwrap_or_default().to_owned();
    let rescue = std::env::temp_dir().join(name);
    if rescue.exists() || write(&rescue).is_err() {
        return Err(error);
    }
    let message = format!(
        "{}; the model is in `{}` instead",
        error.message,
        rescue.display()
    );
    Err(Error { message, ..error })
}

/// Writes a model on the way. Where that fails, the run goes on, and the next time may be
/// better.
pub fn save_on_the_way(written: Result<()>, output: &Output) {
    if let Err(error) = written {
        output.note(&format!(
            "the model was not saved, learning goes on: {error}"
        ));
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => shown(number.as_f64().unwrap_or(f64::NAN)),
        Value::Null => "none".into(),
        other => other.to_string(),
    }
}

/// Where an interrupted run goes when no checkpoint was asked for.
fn beside(model: &Path) -> PathBuf {
    let mut name = model.as_os_str().to_owned();
    name.push(".checkpoint");
    PathBuf::from(name)
}
