//! Maps of dissimilarities, for `rankfold update`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::read_dissimilarities;
use rankfold::model::Knowledge;
use rankfold::task::{Event, Run};
use rankfold::{Error, Model, Result};
use serde_json::json;

use crate::drive::save;
use crate::interrupt::Interrupt;
use crate::output::Output;

/// What a map goes on with.
pub struct UpdateMap<'a> {
    pub model: &'a Path,
    pub stream: &'a Path,
    pub output: &'a Path,
    pub start: Instant,
}

impl UpdateMap<'_> {
    pub fn run(&self, model: &Model, output: &Output) -> Result<()> {
        if !matches!(model.knowledge, Knowledge::Map(_)) {
            let message = "a kernel that was learned in batch does not go on learning: train it \
                again with all that is known, or make a map with `train kernel --mds`";
            return Err(Error::input(message).in_file(self.model));
        }
        let mut items = model.items()?.clone();
        let news = read_dissimilarities(self.stream, &mut items)?;
        let n = items.len();
        let interrupt = Interrupt::watch();
        let bar = output.counter("iterations");
        let run = Run::default().observed(|event| {
            if let Event::Progress { done, .. } = event {
                bar.set_position(*done);
            }
            !interrupt.requested()
        });
        let found = model.update_map(&items, &news, crate::threads(None), run);
        bar.finish_and_clear();
        let found = found.map_err(|e| e.in_file(self.stream))?;
        let fit = &found.fit;
        for note in &fit.report.notes {
            output.note(note);
        }
        save(self.output, |path| fit.model.save(path))?;
        let seconds = self.start.elapsed().as_secs_f64();
        let path = self.output.display().to_string();
        let more = &fit.report.more;
        let report = json!({
            "format": 1,
            "task": "kernel",
            "learner": fit.model.card.learner,
            "rule": "map",
            "added": found.added,
            "changed": found.changed,
            "new_items": found.new_items,
            "items": n,
            "pairs": more["pairs"],
            "parts": more["parts"],
            "lifted": found.lifted,
            "moved": found.moved,
            "cost": more["cost"],
            "stress": more["stress"],
            "steps": fit.report.counters.steps,
            "stopped": "end",
            "seconds": seconds,
            "model": path,
        });
        let text = format!(
            "map of {n} items: {} pairs added, {} changed, {} new items, stress {:.4}; \
             other items moved by {:.4}, {seconds:.1} s\n{path}",
            found.added,
            found.changed,
            found.new_items,
            more["stress"].as_f64().unwrap_or(f64::NAN),
            found.moved
        );
        if self.output == Path::new("-") {
            output.result_beside_data(&report, &text);
            return Ok(());
        }
        output.result(&report, &text)
    }
}
