//! Follows a stream in any model that learns one example at a time: progress, saves on
//! the way, Ctrl-C, and what is kept at a broken line.

use std::path::Path;

use rankfold::model::Counters;
use rankfold::task::{ChoiceLearner, Online, RatingLearner, TaskLearner};
use rankfold::{Real, Result};

use crate::drive::{save, save_on_the_way};
use crate::interrupt::Interrupt;
use crate::output::Output;

/// Examples between two looks at the clock.
const STRIDE: u64 = 1_000;

/// A model that goes on learning.
pub trait Learns {
    fn counters(&self) -> Counters;
    fn save(&self, path: &Path) -> Result<()>;
}

macro_rules! learns {
    ($(($($generics:tt)*) $learner:ty;)*) => {$(
        impl $($generics)* Learns for $learner {
            fn counters(&self) -> Counters {
                self.counters()
            }
            fn save(&self, path: &Path) -> Result<()> {
                self.save(path)
            }
        }
    )*};
}

learns! {
    (<R: Real>) Online<R>;
    (<R: Real>) RatingLearner<R>;
    () TaskLearner;
    () ChoiceLearner;
}

/// How a stream is followed.
pub struct Follow<'a> {
    /// The model file to write.
    pub model: &'a Path,
    pub save_every: Option<u64>,
    pub interrupt: &'a Interrupt,
    pub output: &'a Output,
    /// What examples are called.
    pub noun: &'static str,
    /// What the model had done before; rows that ids name may have added features since.
    pub before: Counters,
}

/// What was done when the stream ended.
pub struct Followed {
    pub done: Counters,
    pub interrupted: bool,
}

impl Followed {
    /// Why the stream was left, as reports call it.
    pub fn stopped(&self) -> &'static str {
        match self.interrupted {
            true => "interrupted",
            false => "end",
        }
    }
}

impl Follow<'_> {
    /// Learns until the stream ends, breaks or is left, and writes the model. `learn`
    /// says whether the next example was learned from, and `None` at the end.
    pub fn run<L: Learns>(
        &self,
        learner: &mut L,
        mut learn: impl FnMut(&mut L) -> Result<Option<bool>>,
    ) -> Result<Followed> {
        let bar = self.output.counter(self.noun);
        let before = self.before;
        let broken = loop {
            let learned = match learn(learner) {
                Ok(None) => break None,
                Ok(Some(learned)) => learned,
                // The line was cut when the stream was.
                Err(_) if self.interrupt.requested() => break None,
                Err(error) => break Some(error),
            };
            let done = learner.counters().steps - before.steps;
            if done.is_multiple_of(STRIDE) {
                bar.set_position(done);
            }
            if learned && self.save_every.is_some_and(|n| done.is_multiple_of(n)) {
                save_on_the_way(learner.save(self.model), self.output);
            }
            if self.interrupt.requested() {
                break None;
            }
        };
        bar.finish_and_clear();
        save(self.model, |path| learner.save(path))?;
        let done = learner.counters().since(&before);
        match broken {
            Some(error) => {
                self.output.note(&format!(
                    "`{}` holds what was learned from the {} {} before",
                    self.model.display(),
                    done.steps,
                    self.noun
                ));
                Err(error)
            }
            None => Ok(Followed {
                done,
                interrupted: self.interrupt.requested(),
            }),
        }
    }
}
