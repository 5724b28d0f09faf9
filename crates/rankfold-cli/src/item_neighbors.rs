//! Items like an item and users like a user, for `rankfold neighbors`.

use std::path::Path;
use std::time::Instant;

use rankfold::eval::{Embedded, nearest};
use rankfold::form::Side;
use rankfold::{Error, Model, Result};

use crate::listed::{Entry, Listed};
use crate::neighbors::fits_lines;
use crate::output::Output;

/// What a model of choices or ratings is asked for.
pub struct ItemNeighbors<'a> {
    pub model: &'a Model,
    pub model_file: &'a Path,
    pub queries: &'a [String],
    pub side: Side,
    pub k: usize,
    pub threads: usize,
    pub start: Instant,
}

impl ItemNeighbors<'_> {
    pub fn run(&self, output: &Output) -> Result<()> {
        let in_model = |e: Error| e.in_file(self.model_file);
        let (ids, mut points) = self
            .model
            .vectors(self.side, self.threads)
            .map_err(in_model)?;
        let what = match self.side {
            Side::Left => "user",
            Side::Right => "item",
        };
        let find = |query: &String| {
            let found = ids.find(query).map(|number| number as usize);
            found.ok_or_else(|| {
                in_model(Error::input(format!("the model knows no {what} `{query}`")))
            })
        };
        let queries: Vec<usize> = match self.queries.is_empty() {
            true => (0..ids.len()).collect(),
            false => self.queries.iter().map(find).collect::<Result<_>>()?,
        };
        if !output.is_json() {
            fits_lines(ids.iter()).map_err(in_model)?;
        }
        // The cosine: what is chosen much is not like everything.
        points.normalize();
        let scorer = Embedded::new(&points.values, &points.values, points.rank);
        let mut out = Listed::new(output, self.model.task(), self.k, "neighbors")?;
        nearest(&scorer, &queries, self.k, self.threads, |query, found| {
            let entry = |&(row, score): &(usize, f64)| Entry {
                id: ids.get(row as u32),
                score,
                more: Vec::new(),
            };
            out.put(ids.get(query as u32), found.iter().map(entry))
        })?;
        out.end(self.start, output)
    }
}
