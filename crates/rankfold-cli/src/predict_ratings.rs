//! Ratings of users and items, for `rankfold predict`.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{RatingColumns, RatingLines};
use rankfold::{Model, Result};
use serde_json::json;

use crate::output::Output;

/// What a model of ratings is asked for.
pub struct UsersAndItems<'a> {
    pub model: &'a Model,
    pub input: &'a Path,
    pub columns: &'a RatingColumns,
    pub strict: bool,
    pub start: Instant,
}

impl UsersAndItems<'_> {
    pub fn run(&self, output: &Output) -> Result<()> {
        let predictor = self.model.rating_predictor()?;
        let (users, items) = self.model.rating_ids()?;
        let mut lines = RatingLines::open_pairs(self.input, self.columns)?;
        let mut out = output.stream()?;
        if output.is_json() {
            let task = json!(self.model.card.task);
            out.put(format!("{{\"format\":1,\"task\":{task},\"scores\":[").as_bytes())?;
        }
        let (mut count, mut unknown) = (0usize, 0usize);
        while lines.advance()? {
            let (u, i, missing) = lines.pair(|user, item| {
                let (u, i) = (users.find(user), items.find(item));
                let missing = match (u, i) {
                    _ if !self.strict => None,
                    (None, _) => Some(format!("the model knows no user `{user}`")),
                    (_, None) => Some(format!("the model knows no item `{item}`")),
                    _ => None,
                };
                (u, i, missing)
            })?;
            if let Some(message) = missing {
                return Err(lines.error(message));
            }
            unknown += usize::from(u.is_none() || i.is_none());
            let rating = predictor.rating(u, i);
            let piece = match (output.is_json(), count) {
                (false, _) => format!("{rating}\n"),
                (true, 0) => json!(rating).to_string(),
                (true, _) => format!(",{}", json!(rating)),
            };
            out.put(piece.as_bytes())?;
            count += 1;
        }
        if output.is_json() {
            let seconds = self.start.elapsed().as_secs_f64();
            let tail = format!(
                "],\"pairs\":{count},\"unknown\":{unknown},\"seconds\":{}}}\n",
                json!(seconds)
            );
            out.put(tail.as_bytes())?;
        }
        out.commit()?;
        if unknown > 0 {
            output.note(&format!(
                "{unknown} of {count} pairs have a user or an item that the model does not know"
            ));
        }
        Ok(())
    }
}
