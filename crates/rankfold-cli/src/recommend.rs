//! `rankfold recommend`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use rankfold::data::{ChoiceLines, Choices, RatingLines, read_names};
use rankfold::eval::nearest_among;
use rankfold::model::{Knowledge, Recommender};
use rankfold::task::{Recommendations, UserLists};
use rankfold::{Error, Ids, Model, Result, Rows, SparseRow};
use serde_json::{Value, json};

use crate::listed::{Entry, Listed};
use crate::neighbors::fits_lines;
use crate::output::{Output, not_finite};
use crate::paths;
use crate::rows::{choice_columns, rating_columns};
use crate::uncertainty::Exploration;
use crate::unknown::Known;

/// Items for each place of a list that diversity chooses from.
const POOL: usize = 10;

/// List the items to show to users
///
/// Prints a line `user rank item score` for each item, separated by tabs, best first; of
/// equal scores the item that the model knew first comes first. All items are scored.
///
/// A model of `train recommend` leaves out what a user chose before. Users are those that it
/// was trained on, or those of DATA: what a user chose there is all that it needs to know of
/// them. A user of whom nothing is known gets what was chosen most.
///
/// A model of `train completion` orders items by the predicted rating, and leaves out the
/// ratings of DATA. With --rank-by upper a line is `user rank item score sd`.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold recommend shop.safetensors --query ann
      what ann should be shown, without what she chose before
  rankfold recommend shop.safetensors new-users.csv --item-names movies.csv --because 2
      users that were not in training, with titles and reasons
  rankfold recommend shop.safetensors -k 3 --only in-stock.txt > best.tsv
      the three best items in stock for every user
  rankfold recommend ratings.safetensors ratings.csv --query 17
      for a model of `train completion`: items that user 17 has not rated yet
  rankfold recommend ratings.safetensors ratings.csv --query 17 --rank-by upper --explore 2
      the same, with what the model knows little of further up")]
pub struct Recommend {
    /// The model
    model: PathBuf,

    /// What users chose, for a model of `train recommend`; for one of `train completion` ratings, or
    /// pairs of a user and an item, that are left out: .csv, .tsv, .jsonl, .dat, .parquet or .arrow;
    /// `-` is .dat from stdin
    data: Option<PathBuf>,

    /// The columns of users and items [default: user,item]
    #[arg(long, value_name = "USER,ITEM,…")]
    columns: Option<String>,

    /// DATA is a table with a row for each user and a column for each item
    #[arg(long)]
    wide: bool,

    /// A user, may be given again [default: all users]
    #[arg(long, value_name = "ID")]
    query: Vec<String>,

    /// Items of each user
    #[arg(short, value_name = "K", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..))]
    k: u32,

    /// What is left out: `seen` is what a user chose before, `none` is nothing, and a file of pairs of
    /// a user and an item is left out beside what was seen [default: seen]
    #[arg(long, value_name = "seen|none|FILE")]
    exclude: Option<String>,

    /// Items that may be shown, one a line
    #[arg(long, value_name = "FILE")]
    only: Option<PathBuf>,

    /// Titles of items, printed in one more column: a table with the columns `item` and `title`
    #[arg(long, value_name = "FILE")]
    item_names: Option<PathBuf>,

    /// How much a list should vary, from 0 to 1: an item loses by how like it is to those before it
    /// [default: 0]
    #[arg(long, value_name = "D", value_parser = share)]
    diversity: Option<f64>,

    /// Add the N choices of a user that speak most for an item, in one more column
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    because: Option<u32>,

    #[command(flatten)]
    exploration: Exploration,

    /// Threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

fn share(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|d| (0.0..=1.0).contains(d));
    number.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

impl Recommend {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        let explore = self.exploration.deviations()?;
        paths::one_stdin(&[self.data.as_deref(), self.only.as_deref()])?;
        let model = Model::load(&self.model)?;
        let always = [
            "model",
            "data",
            "columns",
            "wide",
            "query",
            "k",
            "only",
            "item_names",
            "exclude",
            "threads",
        ];
        let own: &[&str] = match &model.knowledge {
            Knowledge::Recommend(_) => &["diversity", "because"],
            _ => &["rank_by", "explore"],
        };
        model_lists(&model).map_err(|e| e.in_file(&self.model))?;
        output.given.only(&model, &always, own)?;
        let names = self.item_names.as_ref();
        let names = names.map(read_names).transpose()?;
        let title = |id: &str| -> Vec<(&'static str, Value)> {
            let title = names.as_ref().map(|names| names.get(id));
            let title = title.map(|title| ("title", json!(title.map_or("", |t| t))));
            title.into_iter().collect()
        };
        match &model.knowledge {
            Knowledge::Recommend(_) => self.choices(&model, &title, start, output),
            _ => self.ratings(&model, explore, &title, start, output),
        }
    }

    /// The file that `--exclude` names.
    fn excluded(&self) -> Option<&Path> {
        match self.exclude.as_deref() {
            None | Some("seen" | "none") => None,
            Some(path) => Some(Path::new(path)),
        }
    }

    /// The numbers of the users that are asked for.
    fn queries(&self, users: &Ids) -> Result<Vec<usize>> {
        if self.query.is_empty() {
            return Ok((0..users.len()).collect());
        }
        let find = |query: &String| {
            let found = users.find(query).map(|user| user as usize);
            found.ok_or_else(|| {
                Error::input(format!("the model knows no user `{query}`")).in_file(&self.model)
            })
        };
        self.query.iter().map(find).collect()
    }

    /// The numbers of the items that may be shown, and a note about others.
    fn allowed(&self, items: &Ids, output: &Output) -> Result<Option<Vec<u32>>> {
        let Some(path) = &self.only else {
            return Ok(None);
        };
        let named = rankfold::data::read_label_names(path)?;
        let found: Vec<u32> = named.iter().filter_map(|id| items.find(id)).collect();
        if found.len() < named.len() {
            let unknown = named.len() - found.len();
            output.note(&format!(
                "{unknown} items of --only are not known to the model"
            ));
        }
        Ok(Some(found))
    }

    /// Lists of a model of choices.
    fn choices(
        &self,
        model: &Model,
        title: &dyn Fn(&str) -> Vec<(&'static str, Value)>,
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        let in_model = |e: Error| e.in_file(&self.model);
        let (known, items) = (model.recommended()?, model.recommended_items()?);
        let columns = choice_columns(self.columns.as_deref(), self.wide, Some(model), output)?;
        let (k, threads) = (self.k as usize, crate::threads(self.threads));
        let data = match &self.data {
            None => None,
            Some(path) => {
                let choices = Choices::read(path, &columns, known.card.liked_from)?;
                let met = Known::new(&known.users, items).ids(&choices.users, &choices.items);
                met.check(true, output).map_err(|e| e.in_file(path))?;
                let (histories, unknown) = model.histories_of(&choices)?;
                if unknown > 0 {
                    output.note(&format!(
                        "{unknown} choices of DATA are of items that the model does not know"
                    ));
                }
                Some((choices.users, histories))
            }
        };
        let (users, histories) = match &data {
            Some((users, histories)) => (users, histories),
            None => (&known.users, &known.histories),
        };
        let queries = self.queries(users)?;
        if !output.is_json() {
            fits_lines(users.iter().chain(items.iter())).map_err(in_model)?;
        }
        // Only those that are asked for are made.
        let asked: Rows<f32> = {
            let mut rows = histories.select(queries.iter().copied());
            rows.widen(items.len());
            rows
        };
        let recommender = model.recommender().map_err(in_model)?;
        let seen = self.exclude.as_deref() != Some("none");
        let ids = queries.iter().map(|&user| users.get(user as u32));
        let numbers: Vec<Option<u32>> = ids.map(|id| known.users.find(id)).collect();
        let number = |i: usize| numbers[i];
        let mut lists = UserLists::new(&recommender, known, &number, &asked, seen, threads);
        if let Some(only) = self.allowed(items, output)? {
            lists.only(only);
        }
        if let Some(path) = self.excluded() {
            let places: HashMap<&str, usize> = (0..)
                .zip(&queries)
                .map(|(at, &user)| (users.get(user as u32), at))
                .collect();
            let mut lines = ChoiceLines::open(path, &columns, None)?;
            while lines.advance()? {
                lines.choice(|choice| {
                    if let (Some(&user), Some(item)) =
                        (places.get(choice.user), items.find(choice.item))
                    {
                        lists.leave_out(user, item);
                    }
                });
            }
        }
        let diversity = self.diversity.unwrap_or(0.0);
        let wide = match diversity > 0.0 {
            true => k.saturating_mul(POOL),
            false => k,
        };
        let places: Vec<usize> = (0..queries.len()).collect();
        let mut out = Listed::new(output, model.task(), k, "items")?;
        nearest_among(&lists, &places, wide, threads, |place, found| {
            let user = users.get(queries[place] as u32);
            // What was left out has no score.
            let found: Vec<(u32, f64)> = found
                .iter()
                .filter(|(_, score)| !score.is_nan())
                .map(|&(item, score)| (item as u32, score))
                .collect();
            if let Some((item, _)) = found.iter().find(|(_, score)| !score.is_finite()) {
                let pair = format!("`{user}` and `{}`", items.get(*item));
                return Err(in_model(not_finite(&pair)));
            }
            let found = match diversity > 0.0 {
                true => varied(&recommender, &found, diversity, k),
                false => found,
            };
            let history = asked.row(place);
            let entry = |&(item, score): &(u32, f64)| {
                let id = items.get(item);
                let mut more = title(id);
                if let Some(count) = self.because {
                    more.push((
                        "because",
                        self.because(&recommender, history, item, count, items, title),
                    ));
                }
                Entry { id, score, more }
            };
            out.put(user, found.iter().map(entry))
        })?;
        out.end(start, output)
    }

    /// The choices that speak most for an item, by title where there is one.
    fn because(
        &self,
        recommender: &Recommender<'_>,
        history: SparseRow<'_, f32>,
        item: u32,
        count: u32,
        items: &Ids,
        title: &dyn Fn(&str) -> Vec<(&'static str, Value)>,
    ) -> Value {
        let reasons = recommender.reasons(history, item);
        let reasons = reasons
            .iter()
            .filter(|(chosen, said)| *said > 0.0 && *chosen != item);
        let shown = reasons.take(count as usize).map(|&(chosen, _)| {
            let id = items.get(chosen);
            match title(id).first() {
                Some((_, Value::String(title))) if !title.is_empty() => json!(title),
                _ => json!(id),
            }
        });
        Value::Array(shown.collect())
    }

    /// Lists of a model of ratings.
    fn ratings(
        &self,
        model: &Model,
        explore: Option<f64>,
        title: &dyn Fn(&str) -> Vec<(&'static str, Value)>,
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        let (users, items) = model.rating_ids().map_err(|e| e.in_file(&self.model))?;
        let queries = self.queries(users)?;
        let recommendations = Recommendations::new(model);
        let mut recommendations = recommendations.map_err(|e| e.in_file(&self.model))?;
        if let Some(explore) = explore {
            let found = recommendations.by_upper(explore);
            found.map_err(|e| e.in_file(&self.model))?;
        }
        if self.exclude.as_deref() == Some("none") && self.data.is_some() {
            let message = "says that nothing is left out: leave DATA away";
            return Err(Error::option("exclude", message));
        }
        let text = self.columns.as_deref();
        let columns = rating_columns(text, self.wide, Some(model), output)?;
        for data in self.data.as_deref().into_iter().chain(self.excluded()) {
            let mut lines = RatingLines::open_pairs(data, &columns)?;
            let mut met = Known::new(users, items);
            while lines.advance()? {
                let known = lines.pair(|user, item| {
                    met.line(user, item);
                    users.find(user).zip(items.find(item))
                });
                if let Some((user, item)) = known {
                    recommendations.leave_out(user, item);
                }
            }
            met.check(true, output).map_err(|e| e.in_file(data))?;
        }
        if let Some(only) = self.allowed(items, output)? {
            recommendations.only(only);
        }
        if !output.is_json() {
            fits_lines(users.iter().chain(items.iter())).map_err(|e| e.in_file(&self.model))?;
        }
        let (k, threads) = (self.k as usize, crate::threads(self.threads));
        let mut out = Listed::new(output, model.task(), k, "items")?;
        nearest_among(&recommendations, &queries, k, threads, |query, found| {
            let user = users.get(query as u32);
            // What was left out has no score.
            let listed = found.iter().filter(|(_, score)| !score.is_nan());
            let listed = listed.map(|&(item, score)| {
                let id = items.get(item as u32);
                // Ranked by upper bounds, the score is not what ranks.
                let sure = explore.and_then(|_| recommendations.estimate(query, item));
                let score = match sure {
                    Some(sure) => sure.mean,
                    None => recommendations.rating(score),
                };
                if !score.is_finite() {
                    let pair = format!("`{user}` and `{id}`");
                    return Err(not_finite(&pair).in_file(&self.model));
                }
                let sd = sure.map(|sure| ("sd", json!(sure.sd)));
                let more = sd.into_iter().chain(title(id)).collect();
                Ok(Entry { id, score, more })
            });
            out.put(user, listed.collect::<Result<Vec<_>>>()?.into_iter())
        })?;
        out.end(start, output)
    }
}

/// An error for a model that lists no items.
fn model_lists(model: &Model) -> Result<()> {
    match &model.knowledge {
        Knowledge::Recommend(_) => Ok(()),
        _ => model.rating_ids().map(|_| ()),
    }
}

/// The best items, where one loses by how like it is to those before it: maximal marginal
/// relevance, with scores scaled to 0 to 1 and the cosine of items.
fn varied(
    recommender: &Recommender<'_>,
    found: &[(u32, f64)],
    diversity: f64,
    k: usize,
) -> Vec<(u32, f64)> {
    let (Some(first), Some(last)) = (found.first(), found.last()) else {
        return Vec::new();
    };
    let range = (first.1 - last.1).max(f64::MIN_POSITIVE);
    let vectors: Vec<Vec<f64>> = found
        .iter()
        .map(|&(item, _)| {
            let row: Vec<f64> = recommender
                .item(item)
                .iter()
                .map(|v| f64::from(*v))
                .collect();
            let norm = row.iter().map(|v| v * v).sum::<f64>().sqrt();
            row.iter()
                .map(|v| if norm > 0.0 { v / norm } else { 0.0 })
                .collect()
        })
        .collect();
    let mut nearest = vec![0.0_f64; found.len()];
    let mut left: Vec<usize> = (0..found.len()).collect();
    let mut out = Vec::new();
    while out.len() < k && !left.is_empty() {
        let merit = |&at: &usize| {
            (1.0 - diversity) * (found[at].1 - last.1) / range - diversity * nearest[at]
        };
        // Of equal merits the better score comes first.
        let best = (0..left.len())
            .reduce(|a, b| {
                if merit(&left[b]) > merit(&left[a]) {
                    b
                } else {
                    a
                }
            })
            .expect("an item is left");
        let taken = left.remove(best);
        out.push(found[taken]);
        for &at in &left {
            let cosine: f64 = vectors[at]
                .iter()
                .zip(&vectors[taken])
                .map(|(a, b)| a * b)
                .sum();
            nearest[at] = nearest[at].max(cosine);
        }
    }
    out
}
