//! Predictions of `rankfold predict` that are written as they come: a line each, or one
//! JSON object with all of them.

use std::time::Instant;

use rankfold::model::Estimate;
use rankfold::{Model, Result};
use serde_json::json;

use crate::output::{Output, Stream, not_finite};
use crate::uncertainty::Uncertainty;

pub struct Scores {
    out: Stream,
    json: bool,
    /// How many there are.
    pub count: usize,
    /// Standard deviations and the ends of intervals, for JSON.
    sure: [Vec<f64>; 3],
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
            sure: Default::default(),
        })
    }

    /// Adds a prediction. One that is not finite is an error without a place.
    pub fn put(&mut self, score: f64) -> Result<()> {
        self.put_with(score, "")
    }

    /// The same with how sure the model is of it.
    pub fn put_estimate(&mut self, estimate: &Estimate, asked: &Uncertainty) -> Result<()> {
        if !estimate.sd.is_finite() {
            return Err(not_finite("this line"));
        }
        if !self.json {
            return self.put_with(estimate.mean, &asked.columns(estimate));
        }
        let (low, high) = asked.interval(estimate);
        for (list, value) in self.sure.iter_mut().zip([estimate.sd, low, high]) {
            list.push(value);
        }
        self.put_with(estimate.mean, "")
    }

    fn put_with(&mut self, score: f64, more: &str) -> Result<()> {
        if !score.is_finite() {
            return Err(not_finite("this line"));
        }
        let piece = match (self.json, self.count) {
            (false, _) => format!("{score}{more}\n"),
            (true, 0) => json!(score).to_string(),
            (true, _) => format!(",{}", json!(score)),
        };
        self.count += 1;
        self.out.put(piece.as_bytes())
    }

    /// Ends the list: `what` it counts, how many of these were not known, and how long
    /// it took.
    pub fn end(
        mut self,
        what: &str,
        unknown: usize,
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        let more = output.end_of_stream();
        if self.json {
            let (count, seconds) = (self.count, json!(start.elapsed().as_secs_f64()));
            let named = ["sd", "low", "high"].iter().zip(&self.sure);
            let sure = named.filter(|(_, list)| !list.is_empty());
            let sure: String = sure
                .map(|(name, list)| format!("\"{name}\":{},", json!(list)))
                .collect();
            let tail = format!(
                "],{sure}{more}\"{what}\":{count},\"unknown\":{unknown},\"seconds\":{seconds}}}\n"
            );
            self.out.put(tail.as_bytes())?;
        }
        self.out.commit()
    }
}
