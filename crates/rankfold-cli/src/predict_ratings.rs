//! Ratings of users and items, for `rankfold predict`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{RatingColumns, RatingLines};
use rankfold::{ErrorKind, Model, Result};

use crate::output::Output;
use crate::scores::Scores;
use crate::uncertainty::Uncertainty;
use crate::unknown::Known;

/// What a model of ratings is asked for.
pub struct UsersAndItems<'a> {
    pub model: &'a Model,
    pub model_file: &'a Path,
    pub input: &'a Path,
    pub columns: &'a RatingColumns,
    pub uncertainty: &'a Uncertainty,
    pub strict: bool,
    pub start: Instant,
}

/// What is said of a user or an item that is not known, where that is an error.
pub fn missing(
    strict: bool,
    (user, u): (&str, Option<u32>),
    (item, i): (&str, Option<u32>),
) -> Option<String> {
    match (u, i) {
        _ if !strict => None,
        (None, _) => Some(format!("the model knows no user `{user}`")),
        (_, None) => Some(format!("the model knows no item `{item}`")),
        _ => None,
    }
}

impl UsersAndItems<'_> {
    pub fn run(&self, output: &Output) -> Result<()> {
        let predictor = self.model.rating_predictor();
        let predictor = predictor.map_err(|e| e.in_file(self.model_file))?;
        if self.uncertainty.wanted {
            let known = self.model.check_rating_estimates();
            known.map_err(|e| e.in_file(self.model_file))?;
        }
        let (users, items) = self.model.rating_ids()?;
        let mut lines = RatingLines::open_pairs(self.input, self.columns)?;
        let mut scores = Scores::new(self.model, output)?;
        let (mut unknown, mut known) = (0usize, Known::new(users, items));
        while lines.advance()? {
            let (u, i, missing) = lines.pair(|user, item| {
                known.line(user, item);
                let (u, i) = (users.find(user), items.find(item));
                (u, i, missing(self.strict, (user, u), (item, i)))
            });
            if let Some(message) = missing {
                return Err(lines.error(message));
            }
            unknown += usize::from(u.is_none() || i.is_none());
            let estimate = self.uncertainty.wanted.then(|| predictor.estimate(u, i));
            let put = match estimate.flatten() {
                Some(estimate) => scores.put_estimate(&estimate, self.uncertainty),
                None => scores.put(predictor.rating(u, i)),
            };
            put.map_err(|e| match e.kind {
                ErrorKind::Input => lines.error(e.message),
                _ => e,
            })?;
        }
        let count = scores.count;
        known
            .check(true, output)
            .map_err(|e| e.in_file(self.input))?;
        scores.end("pairs", unknown, self.start, output)?;
        if unknown > 0 {
            output.note(&format!(
                "{unknown} of {count} pairs have a user or an item that the model does not know"
            ));
        }
        Ok(())
    }
}
