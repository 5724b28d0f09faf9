//! Choices as a stream, for `rankfold update`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{ChoiceColumns, ChoiceLines};
use rankfold::task::ChoiceLearner;
use rankfold::{Model, Result};
use serde_json::json;

use crate::follow::{Follow, Followed};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::patient;

/// Items up to which every choice is measured before it is learned; with more of them a
/// share of the choices is, so that measuring does not take longer than learning.
const MEASURED_ITEMS: usize = 20_000;

/// What a model of choices goes on with.
pub struct UpdateChoices<'a> {
    pub model: &'a Path,
    pub stream: &'a Path,
    pub output: &'a Path,
    pub columns: &'a ChoiceColumns,
    pub half_life: Option<f64>,
    pub save_every: Option<u64>,
    pub start: Instant,
}

/// Gains of choices that were measured before they were learned.
#[derive(Default)]
struct Measured {
    gain: f64,
    count: u64,
}

impl UpdateChoices<'_> {
    pub fn run(&self, model: Model, output: &Output) -> Result<()> {
        let liked = model.recommended()?.card.liked_from;
        let learner = model.into_choice_learner();
        let mut learner = learner.map_err(|e| e.in_file(self.model))?;
        if let Some(half_life) = self.half_life {
            learner.set_half_life(half_life)?;
        }
        let interrupt = Interrupt::watch();
        let lines = patient::lines(self.stream, &self.columns.reading, &interrupt)?;
        let mut lines = ChoiceLines::stream(lines, self.columns, liked)?;
        let follow = Follow {
            model: self.output,
            save_every: self.save_every,
            interrupt: &interrupt,
            output,
            noun: "choices",
            before: learner.counters(),
        };
        let (before, mut measured, mut number) = (learner.sizes(), Measured::default(), 0_usize);
        let followed = follow.run(&mut learner, |learner| {
            number += 1;
            let every = learner.sizes().1.div_ceil(MEASURED_ITEMS).max(1);
            let learned = learner.follow(&mut lines, number.is_multiple_of(every), |gain| {
                measured.gain += gain;
                measured.count += 1;
            })?;
            Ok(learned.then_some(true))
        })?;
        self.report(&learner, before, &measured, &followed, output)
    }

    fn report(
        &self,
        learner: &ChoiceLearner,
        before: (usize, usize),
        measured: &Measured,
        followed: &Followed,
        output: &Output,
    ) -> Result<()> {
        let Followed { done, interrupted } = followed;
        let seconds = self.start.elapsed().as_secs_f64();
        let (users, items) = learner.sizes();
        let path = self.output.display().to_string();
        let ndcg = (measured.count > 0).then(|| measured.gain / measured.count as f64);
        let (new_users, new_items) = (users - before.0, items - before.1);
        let report = json!({
            "format": 1,
            "task": "recommend",
            "learner": learner.learner(),
            "steps": done.steps,
            "updates": done.updates,
            "refused": done.refused,
            "new_users": new_users,
            "new_items": new_items,
            "users": users,
            "items": items,
            "ndcg_at_10": ndcg,
            "measured": measured.count,
            "total_steps": learner.counters().steps,
            "stopped": followed.stopped(),
            "seconds": seconds,
            "model": path,
        });
        let mut text = format!(
            "{}{}: {} choices, {new_users} new users, {new_items} new items, {} refused",
            if *interrupted { "interrupted: " } else { "" },
            learner.learner(),
            done.steps,
            done.refused,
        );
        if let Some(ndcg) = ndcg {
            text += &format!(
                ", ndcg_at_10 before each step {ndcg:.4} ({} new to their users)",
                measured.count
            );
        }
        text += &format!(", {seconds:.1} s\n{path}");
        output.learned(self.output, &report, &text, *interrupted)
    }
}
