//! Ratings as a stream, for `rankfold update`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{RatingColumns, RatingLines};
use rankfold::model::Precise;
use rankfold::task::RatingLearner;
use rankfold::{Error, Model, Real, Result};
use serde_json::json;

use crate::drive::{save, save_on_the_way};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::patient;

/// What a model of ratings goes on with.
pub struct UpdateRatings<'a> {
    pub model: &'a Path,
    pub stream: &'a Path,
    pub output: &'a Path,
    pub columns: &'a RatingColumns,
    pub step_size: Option<f64>,
    pub save_every: Option<u64>,
    pub start: Instant,
}

/// Ratings between two looks at the clock.
const STRIDE: u64 = 1_000;

impl UpdateRatings<'_> {
    pub fn run(&self, model: Model, output: &Output) -> Result<()> {
        match &model.form {
            Precise::F32(_) => self.learn::<f32>(model, output),
            Precise::F64(_) => self.learn::<f64>(model, output),
        }
    }

    fn learn<R: Real>(&self, model: Model, output: &Output) -> Result<()> {
        let learner = model.into_rating_learner::<R>();
        let mut learner = learner.map_err(|e| e.in_file(self.model))?;
        if let Some(size) = self.step_size {
            learner.set_step_size(size)?;
        }
        output.note(match learner.rule() {
            "fold-in" => "ratings are folded in by least squares for their users and items",
            _ => "each rating is a step of the online rule of the model",
        });
        let before = learner.counters();
        let interrupt = Interrupt::watch();
        let lines = patient::lines(self.stream, &interrupt)?;
        let mut lines = RatingLines::stream(lines, self.columns)?;
        let bar = output.counter("ratings");
        let broken = loop {
            match self.learn_line(&mut lines, &mut learner) {
                Ok(true) => {}
                Ok(false) => break None,
                // The line was cut when the stream was.
                Err(_) if interrupt.requested() => break None,
                Err(error) => break Some(error),
            }
            let done = learner.counters().steps - before.steps;
            if done.is_multiple_of(STRIDE) {
                bar.set_position(done);
            }
            if self.save_every.is_some_and(|n| done.is_multiple_of(n)) {
                save_on_the_way(learner.save(self.output), output);
            }
            if interrupt.requested() {
                break None;
            }
        };
        bar.finish_and_clear();
        save(self.output, |path| learner.save(path))?;
        let done = learner.counters().since(&before);
        if let Some(error) = broken {
            output.note(&format!(
                "`{}` holds what was learned from the {} ratings before",
                self.output.display(),
                done.steps
            ));
            return Err(error);
        }
        self.report(&learner, &done, interrupt.requested(), output)
    }

    /// False at the end of the stream.
    fn learn_line<R: Real>(
        &self,
        lines: &mut RatingLines,
        learner: &mut RatingLearner<R>,
    ) -> Result<bool> {
        if !lines.advance()? {
            return Ok(false);
        }
        let learned = lines.rating(|user, item, rating| learner.learn(user, item, rating))?;
        learned.map_err(|e: Error| lines.error(e.message))?;
        Ok(true)
    }

    fn report<R: Real>(
        &self,
        learner: &RatingLearner<R>,
        done: &rankfold::model::Counters,
        interrupted: bool,
        output: &Output,
    ) -> Result<()> {
        let (card, seconds) = (learner.card(), self.start.elapsed().as_secs_f64());
        let (users, items) = learner.shape();
        let path = self.output.display().to_string();
        let rmse = (done.steps > 0).then(|| (2.0 * done.mean_loss()).sqrt());
        let report = json!({
            "format": 1,
            "task": "completion",
            "learner": card.learner,
            "rule": learner.rule(),
            "steps": done.steps,
            "updates": done.updates,
            "refused": done.refused,
            "new_users": done.new_features,
            "new_items": done.new_object_features,
            "seeded": done.seeded,
            "users": users,
            "items": items,
            "rmse": rmse,
            "step_size": card.step_size,
            "total_steps": card.counters.steps,
            "stopped": if interrupted { "interrupted" } else { "end" },
            "seconds": seconds,
            "model": path,
        });
        let mut text = format!(
            "{}{} by {}: {} ratings, {} new users, {} new items, {} refused",
            if interrupted { "interrupted: " } else { "" },
            card.learner,
            learner.rule(),
            done.steps,
            done.new_features,
            done.new_object_features,
            done.refused,
        );
        if let Some(rmse) = rmse {
            text += &format!(", rmse before each step {rmse:.4}");
        }
        text += &format!(", {seconds:.1} s\n{path}");
        output.learned(self.output, &report, &text, interrupted)
    }
}
