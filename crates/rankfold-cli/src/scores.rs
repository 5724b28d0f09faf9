//! Predictions of `rankfold predict` that are written as they come: a line each, or one
//! JSON object with all of them.

use std::time::Instant;

use rankfold::{Model, Result};
use serde_json::json;

use crate::output::{Output, Stream, not_finite};

pub struct Scores {
    out: Stream,
    json: bool,
    /// How many there are.
    pub count: usize,
}

impl Scores {
    pub fn new(model: &Model, output: &Output) -> Result<Self> {
        let (mut out, json) = (output.stream()?, output.is_json());
        if json {
            let task = json!(model.task());
            out.put(format!("{{\"format\":1,\"task\":{task},\"scores\":[").as_bytes())?;
        }
        Ok(Scores {
            out,
            json,
            count: 0,
        })
    }

    /// Adds a prediction. One that is not finite is an error without a place.
    pub fn put(&mut self, score: f64) -> Result<()> {
        if !score.is_finite() {
            return Err(not_finite("this line"));
        }
        let piece = match (self.json, self.count) {
            (false, _) => format!("{score}\n"),
            (true, 0) => json!(score).to_string(),
            (true, _) => format!(",{}", json!(score)),
        };
        self.count += 1;
        self.out.put(piece.as_bytes())
    }

    /// Ends the list: `what` it counts, how many of these were not known, and how long
    /// it took.
    pub fn end(mut self, what: &str, unknown: usize, start: Instant) -> Result<()> {
        if self.json {
            let (count, seconds) = (self.count, json!(start.elapsed().as_secs_f64()));
            let tail =
                format!("],\"{what}\":{count},\"unknown\":{unknown},\"seconds\":{seconds}}}\n");
            self.out.put(tail.as_bytes())?;
        }
        self.out.commit()
    }
}
