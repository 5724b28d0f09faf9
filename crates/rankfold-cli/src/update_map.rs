//! Maps of dissimilarities, for `rankfold update`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::read_dissimilarities;
use rankfold::model::Knowledge;
use rankfold::task::Map;
use rankfold::{Error, Model, Result};
use serde_json::json;

use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::train_kernel::note_map;

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
        let found = model.update_map(items, news, crate::threads(None), &mut |done| {
            bar.set_position(done as u64);
            !interrupt.requested()
        });
        bar.finish_and_clear();
        let found = found.map_err(|e| e.in_file(self.stream))?;
        let fit = &found.fit;
        if fit.interrupted {
            output.note("interrupted: the map was not written");
            std::process::exit(130);
        }
        note_map(fit, Map::new().rank(fit.model.rank()).few_pairs(n), output);
        fit.model.save(self.output)?;
        let seconds = self.start.elapsed().as_secs_f64();
        let path = self.output.display().to_string();
        let report = json!({
            "format": 1,
            "task": "kernel",
            "learner": fit.model.card.learner,
            "rule": "map",
            "added": found.added,
            "changed": found.changed,
            "new_items": found.new_items,
            "items": n,
            "pairs": fit.pairs,
            "parts": fit.parts,
            "lifted": found.lifted,
            "moved": found.moved,
            "cost": fit.cost,
            "stress": fit.stress,
            "steps": fit.iterations,
            "stopped": "end",
            "seconds": seconds,
            "model": path,
        });
        let text = format!(
            "map of {n} items: {} pairs added, {} changed, {} new items, stress {:.4}; \
             other items moved by {:.4}, {seconds:.1} s\n{path}",
            found.added, found.changed, found.new_items, fit.stress, found.moved
        );
        if self.output == Path::new("-") {
            output.result_beside_data(&report, &text);
            return Ok(());
        }
        output.result(&report, &text)
    }
}
