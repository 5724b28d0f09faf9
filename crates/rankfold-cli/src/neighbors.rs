//! `rankfold neighbors`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use rankfold::data::RowIds;
use rankfold::eval::{nearest, nearest_among};
use rankfold::form::Side;
use rankfold::model::{Estimate, Knowledge, Precise};
use rankfold::{Error, Model, Real, Result, Score};

use crate::given::FIELDS;
use crate::item_neighbors::ItemNeighbors;
use crate::listed::{Entry, Listed};
use crate::output::{Output, not_finite};
use crate::paths;
use crate::rows::{Fields, NamedRows, Queries, ScoreName, needs_objects, scores_rows};
use crate::transform::SideName;
use crate::uncertainty::{Exploration, Uncertainty};

/// List the rows most like a row
///
/// Prints a line `query rank id score` for each neighbor, separated by tabs,
/// best first; of equal scores the earlier row comes first. A row is no
/// neighbor of itself. With --objects the neighbors are objects. With
/// --uncertainty a line is `query rank id score sd low high`. For a metric the score
/// is the distance, the nearest first.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold neighbors model.safetensors rows.svm --query 17 --query 4
      rows without ids are named by their position, from 0
  rankfold neighbors model.safetensors rows.csv -k 3 > neighbors.tsv
      the three best of every row
  rankfold neighbors metric.safetensors test.csv --objects train.csv -k 5
      the nearest rows of another file, for a model of `train metric`
  rankfold neighbors shop.safetensors --query m17
      items like an item of a model of `train recommend` or `train completion`; with --side left users
  rankfold neighbors kernel.safetensors --query a -k 3
      items of a model of `train kernel`, which needs no rows
  rankfold neighbors model.safetensors people.csv --objects films.csv --query ann
      the objects that score best with a row
  rankfold neighbors model.safetensors news.jsonl --query-text 'engine oil for an old car'
      the documents most like a text, for a model that was trained with --vocabulary
  rankfold neighbors aroma.safetensors rows.svm --query 17 --uncertainty --rank-by upper
      what may be alike, as far as a model of AROMA can tell, with how sure it is")]
pub struct Neighbors {
    /// The model
    model: PathBuf,

    /// Rows, queries and candidates alike: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst), .parquet, .arrow or .npz;
    /// not for a kernel, which has its own items
    data: Option<PathBuf>,

    /// The candidates: the objects of a model that has some, or other rows like those of DATA
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

    #[command(flatten)]
    queries: Queries,

    #[command(flatten)]
    fields: Fields,

    /// How two rows are scored [default: as the model says]
    #[arg(long, value_enum)]
    score: Option<ScoreName>,

    #[command(flatten)]
    uncertainty: Uncertainty,

    #[command(flatten)]
    exploration: Exploration,

    /// Items like an item (right) or users like a user (left), for a model of recommendations or
    /// ratings
    #[arg(long, value_enum, default_value_t = SideName::Right)]
    side: SideName,

    /// How rows are searched: all of them, by an approximate index (hnsw), or by an index above
    /// 200,000 rows (auto); which rows an index misses may differ from run to run
    #[cfg(feature = "serve")]
    #[arg(long, value_enum, default_value_t = crate::serve::IndexName::Exact)]
    index: crate::serve::IndexName,

    /// Threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl Neighbors {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        self.exploration.deviations()?;
        paths::one_stdin(&[self.data.as_deref(), self.objects.as_deref()])?;
        let model = Model::load(&self.model)?;
        if matches!(
            model.knowledge,
            Knowledge::Recommend(_) | Knowledge::Completion(_)
        ) {
            if let Some(data) = &self.data {
                let message = "the model has users and items of its own: leave DATA out";
                return Err(Error::input(message).in_file(data));
            }
            let always = ["model", "query", "k", "threads", "side"];
            output.given.only(&model, &always, &[])?;
            let neighbors = ItemNeighbors {
                model: &model,
                model_file: &self.model,
                queries: &self.queries.query,
                side: self.side.into(),
                k: self.queries.k as usize,
                threads: crate::threads(self.threads),
                start,
            };
            return neighbors.run(output);
        }
        scores_rows(&model, &self.model)?;
        let rows = [
            "objects",
            "query_text",
            "score",
            "uncertainty",
            "level",
            "rank_by",
            "explore",
            "index",
        ];
        let own: &[&str] = match &model.knowledge {
            Knowledge::Kernel(_) | Knowledge::Map(_) => &["data"],
            Knowledge::Metric => &["data", "objects", "query_text", "index"],
            _ => &[&["data"][..], &rows].concat(),
        };
        let fields: &[&str] = match model.items() {
            Ok(_) => &[],
            Err(_) => &FIELDS,
        };
        let always = ["model", "query", "k", "threads"];
        output
            .given
            .only(&model, &always, &[own, fields].concat())?;
        needs_objects(&model, &self.model, self.objects.as_ref())?;
        match &model.form {
            Precise::F32(_) => self.list::<f32>(&model, start, output),
            Precise::F64(_) => self.list::<f64>(&model, start, output),
        }
    }

    fn list<R: Real>(&self, model: &Model, start: Instant, output: &Output) -> Result<()> {
        let rows = match (&self.data, model.items().is_ok()) {
            (data, true) => NamedRows::<R>::items(model, data.as_deref())?,
            (Some(data), false) => {
                let (source, texts) = (
                    self.fields.of(data, output),
                    self.queries.query_text.clone(),
                );
                NamedRows::<R>::read_with_texts(model, &source, texts, output)?
            }
            (None, false) => return Err(Error::input("DATA is needed: the rows to look among")),
        };
        let place = self.data.as_ref().unwrap_or(&self.model);
        let queries = queries(&self.queries.query, &rows)
            .and_then(|queries| match output.is_json() {
                true => Ok(queries),
                false => fits_a_line(&rows).map(|()| queries),
            })
            .map_err(|e| e.in_file(place))?;
        let objects = match &self.objects {
            None => None,
            Some(path) => {
                let source = self.fields.of_all(path, output);
                let objects = NamedRows::<R>::read(model, &source, Side::Right, output)?;
                if !output.is_json() {
                    fits_a_line(&objects).map_err(|e| e.in_file(path))?;
                }
                Some(objects)
            }
        };
        let candidates = objects.as_ref().unwrap_or(&rows);
        let score = self.score.map(Into::into);
        let projection = match &objects {
            None => model.project(&rows.prepared, score),
            Some(objects) => model.project_between(&rows.prepared, &objects.prepared, score),
        };
        let projection = projection.map_err(|e| e.in_file(&self.model))?;
        let (k, threads) = (self.queries.k as usize, crate::threads(self.threads));
        let explore = self.exploration.deviations()?;
        let upper = explore.is_some();
        let distances = model.card.score == Score::Distance;
        let confidence = match self.uncertainty.wanted || upper {
            true => {
                let found = model.confidence(&rows.prepared, objects.as_ref().map(|o| &o.prepared));
                Some(found.map_err(|e| e.in_file(&self.model))?)
            }
            false => None,
        };
        let scorer = match (&confidence, explore) {
            (Some(confidence), Some(explore)) => Box::new(confidence.upper(explore)),
            _ => projection.scorer(),
        };
        // Texts stand behind the rows, and are no neighbors of each other.
        let count = candidates.len();
        let wide = k.saturating_add(candidates.texts.len());
        #[cfg(feature = "serve")]
        let index = self.index(model, &rows, candidates, output)?;
        #[cfg(feature = "serve")]
        if index.is_some() && upper {
            return Err(Error::option("index", "does not go with `--rank-by upper`"));
        }
        let search = |each: &mut Each<'_>| match &objects {
            #[cfg(feature = "serve")]
            _ if index.is_some() => {
                let Some(index) = &index else { return Ok(()) };
                for &query in &queries {
                    let mut best = rankfold::eval::Best::new(wide);
                    for row in index.candidates(&rows.prepared.rows.select([query]), wide)? {
                        if objects.is_some() || row != query {
                            let score = projection.score(query, row);
                            // Of two distances the smaller one is better.
                            best.offer(row, if distances { -score } else { score });
                        }
                    }
                    each(query, &best.into_list())?;
                }
                Ok(())
            }
            None => nearest(&scorer, &queries, wide, threads, each),
            Some(_) => nearest_among(&scorer, &queries, wide, threads, each),
        };
        let listed = |query: usize, found: &[(usize, f64)]| -> Result<Vec<Neighbor>> {
            let of_file = found.iter().copied().filter(|&(row, _)| row < count);
            let neighbor = |(row, score)| {
                // Ranked by upper bounds or by how near rows are, that is not the score.
                let mean = if upper || distances {
                    projection.score(query, row)
                } else {
                    score
                };
                let sure = confidence.as_ref().filter(|_| self.uncertainty.wanted);
                let sd = sure.map(|confidence| confidence.deviation(query, row));
                Neighbor {
                    row,
                    score: mean,
                    estimate: sd.map(|sd| Estimate { mean, sd }),
                }
            };
            let known = |found: Neighbor| match found.is_finite() {
                true => Ok(found),
                false => {
                    let (one, other) = (rows.name(query), candidates.ids.name(found.row));
                    Err(not_finite(&format!("`{one}` and `{other}`")).in_file(place))
                }
            };
            of_file.take(k).map(neighbor).map(known).collect()
        };

        let score = score.unwrap_or(model.card.score).name();
        let mut out = Listed::scored(output, model.task(), Some(score), k, "neighbors")?;
        search(&mut |query, found| {
            let found = listed(query, found)?;
            let ids: Vec<_> = found.iter().map(|f| candidates.ids.name(f.row)).collect();
            let entry = |i: usize| {
                let (found, id): (&Neighbor, &str) = (&found[i], &ids[i]);
                let estimate = found.estimate.as_ref();
                let sure = estimate.map(|estimate| self.uncertainty.fields(estimate));
                Entry {
                    id,
                    score: found.score,
                    more: sure.into_iter().flatten().collect(),
                }
            };
            out.put(&rows.name(query), (0..found.len()).map(entry))
        })?;
        out.end(start, output)
    }
}

#[cfg(feature = "serve")]
impl Neighbors {
    /// The index that is asked for, with a note on what it finds.
    fn index<R: Real>(
        &self,
        model: &Model,
        rows: &NamedRows<R>,
        candidates: &NamedRows<R>,
        output: &Output,
    ) -> Result<Option<rankfold_serve::Index>> {
        use crate::serve::IndexName;
        let most = rankfold_serve::options::Options::AUTO_ROWS;
        match self.index {
            IndexName::Exact => return Ok(None),
            IndexName::Auto if candidates.len() <= most => return Ok(None),
            IndexName::Auto | IndexName::Hnsw => {}
        }
        if self.score.is_some() {
            return Err(Error::option(
                "index",
                "searches with the score of the model only",
            ));
        }
        let model = std::sync::Arc::new(model.clone());
        let rows = (&rows.prepared.rows, &candidates.prepared.rows);
        let index = rankfold_serve::Index::build(model, rows, 0)?;
        let Some(index) = index else {
            return Err(Error::option("index", "needs a low-rank model"));
        };
        output.note(&format!(
            "index: built in {:.1} s, finds {:.1} % of the ten best of a sample",
            index.seconds,
            100.0 * index.recall()
        ));
        Ok(Some(index))
    }
}

/// The rows that are asked for: those named and all texts, or every row.
pub fn queries<R: Real>(named: &[String], rows: &NamedRows<R>) -> Result<Vec<usize>> {
    if named.is_empty() && rows.texts.is_empty() {
        return Ok((0..rows.len()).collect());
    }
    let lookup = rows.lookup();
    let named = named.iter().map(|id| lookup.find(id));
    let texts = (rows.len()..rows.prepared.rows.len()).map(Ok);
    named.chain(texts).collect()
}

/// A line of a list.
struct Neighbor {
    row: usize,
    score: f64,
    /// How sure the model is of the score, where that is asked for.
    estimate: Option<Estimate>,
}

impl Neighbor {
    fn is_finite(&self) -> bool {
        self.score.is_finite() && self.estimate.is_none_or(|e| e.sd.is_finite())
    }
}

/// What is done with each query and its list.
type Each<'a> = dyn FnMut(usize, &[(usize, f64)]) -> Result<()> + 'a;

/// Ids that would break the lines apart are known before the first is written.
pub fn fits_a_line<R>(rows: &NamedRows<R>) -> Result<()> {
    let names = match &rows.ids {
        RowIds::Named(names) => &names[..],
        RowIds::Positions => &[],
    };
    fits_lines(names.iter().chain(&rows.texts).map(String::as_str))
}

/// The same for any names.
pub fn fits_lines<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<()> {
    match names.find(|name| name.contains(['\t', '\n', '\r'])) {
        None => Ok(()),
        Some(name) => Err(Error::input(format!(
            "the id `{}` has a tab or a line break, which lines cannot hold: use --json",
            name.escape_debug()
        ))),
    }
}
