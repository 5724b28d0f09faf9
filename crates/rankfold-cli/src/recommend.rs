//! `rankfold recommend`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use rankfold::data::{RatingColumns, RatingLines};
use rankfold::eval::nearest_among;
use rankfold::task::Recommendations;
use rankfold::{Error, Model, Result};
use serde_json::json;

use crate::neighbors::fits_lines;
use crate::output::{Output, not_finite};

/// List the items that users would rate best
///
/// Prints a line `user rank item rating` for each item, separated by tabs, best
/// first; of equal ratings the item that the model knew first comes first. All items
/// are scored; those that the user has in DATA are left out. The model is one of
/// `train completion`.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold recommend model.safetensors ratings.csv --query 17
      items that user 17 has not rated yet
  rankfold recommend model.safetensors ratings.csv -k 3 > best.tsv
      the three best new items of every user
  rankfold recommend model.safetensors --query 17
      items that were rated already are listed too")]
pub struct Recommend {
    /// The model
    model: PathBuf,

    /// Ratings, or pairs of a user and an item, that are left out: .csv, .tsv, .jsonl or .dat, plain,
    /// .gz or .zst; `-` is .dat from stdin
    data: Option<PathBuf>,

    /// The columns of users and items
    #[arg(
        long,
        value_name = "USER,ITEM,RATING",
        default_value = "user,item,rating"
    )]
    columns: RatingColumns,

    /// A user, may be given again [default: all users]
    #[arg(long, value_name = "ID")]
    query: Vec<String>,

    /// Items of each user
    #[arg(short, value_name = "K", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..))]
    k: u32,

    /// Threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl Recommend {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        let model = Model::load(&self.model)?;
        let (users, items) = model.rating_ids().map_err(|e| e.in_file(&self.model))?;
        let queries: Vec<usize> = match self.query.is_empty() {
            true => (0..users.len()).collect(),
            false => {
                let find = |query: &String| {
                    let found = users.find(query).map(|u| u as usize);
                    found.ok_or_else(|| {
                        Error::input(format!("the model knows no user `{query}`"))
                            .in_file(&self.model)
                    })
                };
                self.query.iter().map(find).collect::<Result<_>>()?
            }
        };
        let recommendations = Recommendations::new(&model);
        let mut recommendations = recommendations.map_err(|e| e.in_file(&self.model))?;
        if let Some(data) = &self.data {
            let mut lines = RatingLines::open_pairs(data, &self.columns)?;
            while lines.advance()? {
                let known = lines.pair(|user, item| users.find(user).zip(items.find(item)))?;
                if let Some((user, item)) = known {
                    recommendations.leave_out(user, item);
                }
            }
        }
        if !output.is_json() {
            fits_lines(users.iter().chain(items.iter())).map_err(|e| e.in_file(&self.model))?;
        }
        let (k, threads) = (self.k as usize, crate::threads(self.threads));
        let mut out = output.stream()?;
        if output.is_json() {
            let head = format!("{{\"format\":1,\"task\":\"completion\",\"k\":{k},\"queries\":[");
            out.put(head.as_bytes())?;
        }
        let mut separator = "";
        nearest_among(&recommendations, &queries, k, threads, |query, found| {
            let user = users.get(query as u32);
            // What was left out has no score.
            let listed = found.iter().filter(|(_, score)| !score.is_nan());
            let listed = listed.map(|&(item, score)| {
                let (item, rating) = (items.get(item as u32), recommendations.rating(score));
                match rating.is_finite() {
                    true => Ok((item, rating)),
                    false => {
                        Err(not_finite(&format!("`{user}` and `{item}`")).in_file(&self.model))
                    }
                }
            });
            let listed = listed.collect::<Result<Vec<_>>>()?.into_iter();
            if output.is_json() {
                let listed: Vec<_> = listed
                    .map(|(item, rating)| json!({ "id": item, "score": rating }))
                    .collect();
                let piece = json!({ "query": user, "items": listed });
                out.put(format!("{separator}{piece}").as_bytes())?;
                separator = ",";
                return Ok(());
            }
            let mut lines = String::new();
            for (rank, (item, rating)) in (1..).zip(listed) {
                lines += &format!("{user}\t{rank}\t{item}\t{rating}\n");
            }
            out.put(lines.as_bytes())
        })?;
        if output.is_json() {
            let seconds = start.elapsed().as_secs_f64();
            out.put(format!("],\"seconds\":{}}}\n", json!(seconds)).as_bytes())?;
        }
        out.commit()
    }
}
