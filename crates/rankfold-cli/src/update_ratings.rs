//! Ratings as a stream, for `rankfold update`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{RatingColumns, RatingLines};
use rankfold::model::Precise;
use rankfold::task::RatingLearner;
use rankfold::{Model, Real, Result};
use serde_json::json;

use crate::follow::{Follow, Followed};
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
        let interrupt = Interrupt::watch();
        let lines = patient::lines(self.stream, &self.columns.reading, &interrupt)?;
        let mut lines = RatingLines::stream(lines, self.columns)?;
        let follow = Follow {
            model: self.output,
            save_every: self.save_every,
            interrupt: &interrupt,
            output,
            noun: "ratings",
            before: learner.counters(),
        };
        let followed = follow.run(&mut learner, |learner| {
            Ok(learner.follow(&mut lines)?.then_some(true))
        })?;
        self.report(&learner, &followed, output)
    }

    fn report<R: Real>(
        &self,
        learner: &RatingLearner<R>,
        followed: &Followed,
        output: &Output,
    ) -> Result<()> {
        let Followed { done, interrupted } = followed;
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
            "stopped": followed.stopped(),
            "seconds": seconds,
            "model": path,
        });
        let mut text = format!(
            "{}{} by {}: {} ratings, {} new users, {} new items, {} refused",
            if *interrupted { "interrupted: " } else { "" },
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
        output.learned(self.output, &report, &text, *interrupted)
    }
}
