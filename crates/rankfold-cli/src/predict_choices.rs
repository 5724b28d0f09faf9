//! Scores of users and items, for `rankfold predict`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{ChoiceColumns, ChoiceLines};
use rankfold::{ErrorKind, Model, Result};

use crate::output::Output;
use crate::predict_ratings::missing;
use crate::scores::Scores;
use crate::unknown::Known;

/// What a model of choices is asked for.
pub struct ScoredChoices<'a> {
    pub model: &'a Model,
    pub model_file: &'a Path,
    pub input: &'a Path,
    pub columns: &'a ChoiceColumns,
    pub strict: bool,
    pub start: Instant,
}

impl ScoredChoices<'_> {
    pub fn run(&self, output: &Output) -> Result<()> {
        let in_model = |e: rankfold::Error| e.in_file(self.model_file);
        let known = self.model.recommended().map_err(in_model)?;
        let items = self.model.recommended_items().map_err(in_model)?;
        let recommender = self.model.recommender().map_err(in_model)?;
        let mut lines = ChoiceLines::open(self.input, self.columns, None)?;
        let mut scores = Scores::new(self.model, output)?;
        // Lines of one user often stand together.
        let mut last: (Option<u32>, Vec<f64>) = (None, vec![0.0; recommender.rank()]);
        let (mut unknown, mut met) = (0_usize, Known::new(&known.users, items));
        while lines.advance()? {
            let (user, item, missing) = lines.choice(|choice| {
                met.line(choice.user, choice.item);
                let (user, item) = (known.users.find(choice.user), items.find(choice.item));
                let missing = missing(self.strict, (choice.user, user), (choice.item, item));
                (user, item, missing)
            });
            if let Some(message) = missing {
                return Err(lines.error(message));
            }
            unknown += usize::from(user.is_none() || item.is_none());
            let score = match (user, item) {
                (Some(user), Some(item)) => {
                    if last.0 != Some(user) {
                        last = (Some(user), recommender.known_user(user));
                    }
                    recommender.score(&last.1, item)
                }
                // Nothing speaks for what is not known.
                _ => 0.0,
            };
            scores.put(score).map_err(|e| match e.kind {
                ErrorKind::Input => lines.error(e.message),
                _ => e,
            })?;
        }
        let count = scores.count;
        met.check(true, output).map_err(|e| e.in_file(self.input))?;
        scores.end("pairs", unknown, self.start, output)?;
        if unknown > 0 {
            output.note(&format!(
                "{unknown} of {count} pairs have a user or an item that the model does not know: \
                 their score is 0"
            ));
        }
        Ok(())
    }
}
