//! Learning from a whole data set.

use crate::choices::{Chosen, choices};
use crate::convert::object;
use crate::data::{Coded, Data, InPrecision, LabelCodes, by_appearance};
use crate::errors::raised;
use crate::model::Model;
use crate::questions::Raised;
use crate::seats::Called;
use crate::tables::{Given, parse, start};
use crate::watch::Watch;
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rankfold::data::{
    Constraint, Dissimilarity, Labelled, Ratings, Relation, SquareMatrix, TaskRows, ValuedPair,
};
use rankfold::options::Options;
use rankfold::sample::{self, Triplet};
use rankfold::task::{
    Divided, Fit, GossipData, KernelConstraints, KernelData, KernelStart, Map, MapData, MetricData,
    PairsData, RankingData, RatingData, RecommendData, Run, SimilarityData, TaskData, TrainingData,
};
use rankfold::{
    Completion, Gossip, Ids, Kernel, Metric, Multitask, Pairs, Ranking, Recommend, Result,
    Similarity,
};
use serde_json::json;
use std::borrow::Cow;

/// Pairs of rows, what is known of each, and a number where it needs one.
pub type Relations<'py> = (
    PyReadonlyArray2<'py, i64>,
    Vec<String>,
    PyReadonlyArray1<'py, f64>,
);

/// Users, items and ratings.
pub type Rated<'py> = (Coded<'py>, Coded<'py>, PyReadonlyArray1<'py, f64>);

/// Ids, and rows of features in single precision.
type Described<'py> = (Vec<String>, Bound<'py, Data>);

fn described(given: Option<&Described<'_>>) -> PyResult<Option<Labelled<f32>>> {
    let rows = given.map(|(ids, rows)| {
        let rows = rows.get().get::<f32>()?;
        rows.clone().with_ids(ids)
    });
    rows.transpose().map_err(raised)
}

/// Row numbers, each below the number of rows on its side.
pub fn row_numbers<const N: usize>(
    array: &PyReadonlyArray2<'_, i64>,
    what: &str,
    sizes: [usize; N],
) -> PyResult<Vec<[u32; N]>> {
    let array = array.as_array();
    if array.ncols() != N {
        let message = format!("{what} must have {N} columns, found {}", array.ncols());
        return Err(PyValueError::new_err(message));
    }
    let number = |index: i64, size: usize| {
        let found = usize::try_from(index).ok().filter(|&row| row < size);
        found.map(|row| row as u32).ok_or_else(|| {
            let message = format!("{what}: row {index} is out of bounds for {size} rows");
            PyValueError::new_err(message)
        })
    };
    let rows = array.rows().into_iter().map(|row| {
        let mut out = [0; N];
        for i in 0..N {
            out[i] = number(row[i], sizes[i])?;
        }
        Ok(out)
    });
    rows.collect()
}

/// What is known of distances.
pub fn constraints(
    (pairs, kinds, values): &Relations<'_>,
    rows: usize,
) -> PyResult<Vec<Constraint>> {
    let pairs = row_numbers(pairs, "pairs", [rows, rows])?;
    let values = values.as_slice()?;
    if pairs.len() != kinds.len() || pairs.len() != values.len() {
        let message = format!("{} pairs, {} relations", pairs.len(), kinds.len());
        return Err(PyValueError::new_err(message));
    }
    let all = pairs.iter().zip(kinds).zip(values);
    all.map(|((&[left, right], kind), &value)| {
        let relation = match &kind[..] {
            "same" => Relation::Same,
            "different" => Relation::Different,
            _ if !(value.is_finite() && value >= 0.0) => {
                let message = format!("expected a distance from 0, found {value}");
                return Err(PyValueError::new_err(message));
            }
            "at_most" => Relation::AtMost(value),
            "at_least" => Relation::AtLeast(value),
            "equal" => Relation::Equal(value),
            other => {
                let message = format!("there is no relation `{other}`");
                return Err(PyValueError::new_err(message));
            }
        };
        Ok(Constraint {
            left,
            right,
            relation,
        })
    })
    .collect()
}

fn valued(
    pairs: &PyReadonlyArray2<'_, i64>,
    values: &PyReadonlyArray1<'_, f64>,
    sizes: [usize; 2],
) -> PyResult<Vec<ValuedPair>> {
    let (pairs, values) = (row_numbers(pairs, "pairs", sizes)?, values.as_slice()?);
    if pairs.len() != values.len() {
        let message = format!("{} pairs, {} values", pairs.len(), values.len());
        return Err(PyValueError::new_err(message));
    }
    let pair = |(&[left, right], &value): (&[u32; 2], &f64)| match value.is_finite() {
        true => Ok(ValuedPair { left, right, value }),
        false => Err(PyValueError::new_err(format!("a value is {value}"))),
    };
    pairs.iter().zip(values).map(pair).collect()
}

fn ratings((users, items, values): &Rated<'_>) -> PyResult<Ratings> {
    let ((users, of_users), (items, of_items)) = (by_appearance(users)?, by_appearance(items)?);
    let values = values.as_slice()?;
    if of_users.len() != values.len() || of_items.len() != values.len() {
        let (users, items) = (of_users.len(), of_items.len());
        let message = format!("{users} users, {items} items, {} ratings", values.len());
        return Err(PyValueError::new_err(message));
    }
    let entries = of_users.into_iter().zip(of_items).zip(values);
    let entries = entries.map(|((user, item), &rating)| (user, item, rating));
    Ratings::new(users, items, entries.collect()).map_err(raised)
}

/// What is learned from. Each task takes its own part of it, and the package gives no
/// other.
struct Inputs<'py> {
    rows: Option<Bound<'py, Data>>,
    objects: Option<Bound<'py, Data>>,
    valid: Option<Bound<'py, Data>>,
    triplets: Option<PyReadonlyArray2<'py, i64>>,
    relations: Option<Relations<'py>>,
    pairs: Option<PyReadonlyArray2<'py, i64>>,
    values: Option<PyReadonlyArray1<'py, f64>>,
    ratings: Option<Rated<'py>>,
    valid_ratings: Option<Rated<'py>>,
    choices: Option<Chosen<'py>>,
    valid_choices: Option<Chosen<'py>>,
    item_rows: Option<Described<'py>>,
    user_rows: Option<Described<'py>>,
    tasks: Option<Coded<'py>>,
    matrix: Option<PyReadonlyArray2<'py, f64>>,
    labels: Option<LabelCodes<'py>>,
    items: Option<Vec<String>>,
    shares: Option<Vec<usize>>,
    elsewhere: Option<Py<PyAny>>,
}

/// An item of a dictionary, where it is there.
macro_rules! item {
    ($inputs:expr, $name:literal) => {
        match $inputs.get_item($name)? {
            Some(value) => value.extract()?,
            None => None,
        }
    };
}

fn missing(what: &str) -> PyErr {
    PyValueError::new_err(format!("{what} are missing"))
}

impl<'py> Inputs<'py> {
    fn new(inputs: &Bound<'py, PyDict>) -> PyResult<Self> {
        Ok(Inputs {
            rows: item!(inputs, "rows"),
            objects: item!(inputs, "objects"),
            valid: item!(inputs, "valid"),
            triplets: item!(inputs, "triplets"),
            relations: item!(inputs, "relations"),
            pairs: item!(inputs, "pairs"),
            values: item!(inputs, "values"),
            ratings: item!(inputs, "ratings"),
            valid_ratings: item!(inputs, "valid_ratings"),
            choices: item!(inputs, "choices"),
            valid_choices: item!(inputs, "valid_choices"),
            item_rows: item!(inputs, "item_rows"),
            user_rows: item!(inputs, "user_rows"),
            tasks: item!(inputs, "tasks"),
            matrix: item!(inputs, "matrix"),
            labels: item!(inputs, "labels"),
            items: item!(inputs, "items"),
            shares: item!(inputs, "shares"),
            elsewhere: item!(inputs, "elsewhere"),
        })
    }

    fn rows(&self) -> PyResult<&Data> {
        Ok(self.rows.as_ref().ok_or_else(|| missing("rows"))?.get())
    }

    fn wide(&self) -> PyResult<bool> {
        Ok(matches!(self.rows()?.rows, crate::data::Precise::F64(_)))
    }
}

/// A model, what the run came to, what was raised on the way, and the models of agents.
type Outcome = (Option<Model>, Py<PyAny>, Option<PyErr>, Vec<Model>);

/// Learns a model of a task.
#[pyfunction]
#[pyo3(signature = (task, options, inputs, precision="f32", callback=None))]
pub fn fit(
    py: Python<'_>,
    task: &str,
    options: Given,
    inputs: &Bound<'_, PyDict>,
    precision: &str,
    callback: Option<Py<PyAny>>,
) -> PyResult<Outcome> {
    let inputs = Inputs::new(inputs)?;
    let wide = precision == "f64";
    let call = Call {
        py,
        options: &options,
        inputs: &inputs,
        callback,
    };
    match task {
        Similarity::TASK if inputs.wide()? => call.similarity::<f64>(),
        Similarity::TASK => call.similarity::<f32>(),
        Metric::TASK if inputs.wide()? => call.metric::<f64>(),
        Metric::TASK => call.metric::<f32>(),
        Ranking::TASK if inputs.wide()? => call.ranking::<f64>(),
        Ranking::TASK => call.ranking::<f32>(),
        Pairs::TASK if inputs.wide()? => call.pairs::<f64>(),
        Pairs::TASK => call.pairs::<f32>(),
        Recommend::TASK => call.recommend(),
        Completion::TASK if wide => call.completion::<f64>(),
        Completion::TASK => call.completion::<f32>(),
        Kernel::TASK if wide => call.kernel::<f64>(),
        Kernel::TASK => call.kernel::<f32>(),
        Map::TASK => call.map(),
        Multitask::TASK => call.multitask(),
        Gossip::TASK if wide => call.gossip::<f64>(),
        Gossip::TASK => call.gossip::<f32>(),
        other => Err(PyValueError::new_err(format!("there is no task `{other}`"))),
    }
}

struct Call<'a, 'py> {
    py: Python<'py>,
    options: &'a Given,
    inputs: &'a Inputs<'py>,
    callback: Option<Py<PyAny>>,
}

impl Call<'_, '_> {
    fn options<T: Options>(&self) -> PyResult<T> {
        parse(self.options).map_err(raised)
    }

    fn run(self, learn: impl FnOnce(Run<'_>) -> Result<Fit> + Send) -> PyResult<Outcome> {
        let py = self.py;
        let start = start(self.options).map_err(raised)?;
        let watch = Watch::new(self.callback);
        let fitted = py.detach(|| {
            let stop = || watch.stops();
            let mut run = Run::default()
                .observed(|event| watch.tell(event))
                .stopped_by(&stop)
                .timed_by(|| watch.seconds());
            if let Some(start) = start {
                run = run.start(start);
            }
            learn(run)
        });
        let seconds = watch.seconds();
        let (curve, error) = watch.finish();
        match fitted {
            Ok(fit) => {
                let report = &fit.report;
                let told = json!({
                    "stopped": report.stopped.name(),
                    "unit": report.unit.name(),
                    "counters": report.counters,
                    "metrics": report.metrics,
                    "trials": report.trials,
                    "notes": report.notes,
                    "more": report.more,
                    "curve": curve,
                    "seconds": seconds,
                });
                let told = object(py, &told)?.unbind();
                Ok((Some(Model::new(fit.model)), told, error, Vec::new()))
            }
            Err(_) if error.is_some() => Ok((None, py.None(), error, Vec::new())),
            Err(error) => Err(raised(error)),
        }
    }

    fn similarity<R: InPrecision>(self) -> PyResult<Outcome> {
        let options: Similarity = self.options()?;
        let rows = self.inputs.rows()?.get::<R>().map_err(raised)?;
        let objects = self.inputs.objects.as_ref().map(|o| o.get().get::<R>());
        let objects = objects.transpose().map_err(raised)?;
        let valid = self.inputs.valid.as_ref().map(|v| v.get().get::<R>());
        let valid = valid.transpose().map_err(raised)?;
        let (left, right) = (rows.rows.len(), objects.unwrap_or(rows).rows.len());
        let triplets = self.inputs.triplets.as_ref();
        let triplets = triplets.map(|t| row_numbers(t, "triplets", [left, right, right]));
        let triplets = triplets.transpose()?.map(|list| {
            let triplet = |[query, positive, negative]: [u32; 3]| Triplet {
                query,
                positive,
                negative,
            };
            sample::Given::List(list.into_iter().map(triplet).collect())
        });
        let data = TrainingData { rows, objects };
        let data = SimilarityData {
            data,
            triplets,
            valid,
        };
        self.run(|run| options.fit_with(data, run))
    }

    fn metric<R: InPrecision>(self) -> PyResult<Outcome> {
        let options: Metric = self.options()?;
        let rows = self.inputs.rows()?.get::<R>().map_err(raised)?;
        let valid = self.inputs.valid.as_ref().map(|v| v.get().get::<R>());
        let valid = valid.transpose().map_err(raised)?;
        let known = self.inputs.relations.as_ref();
        let known = known.map(|known| constraints(known, rows.rows.len()));
        let known = known.transpose()?;
        let constraints = known.as_deref();
        let data = MetricData {
            rows,
            constraints,
            valid,
        };
        self.run(|run| options.fit_with(data, run))
    }

    fn ranking<R: InPrecision>(self) -> PyResult<Outcome> {
        let options: Ranking = self.options()?;
        let rows = self.inputs.rows()?.get::<R>().map_err(raised)?;
        let valid = self.inputs.valid.as_ref().map(|v| v.get().get::<R>());
        let valid = valid.transpose().map_err(raised)?;
        let data = RankingData { rows, valid };
        self.run(|run| options.fit_with(data, run))
    }

    fn pairs<R: InPrecision>(self) -> PyResult<Outcome> {
        let options: Pairs = self.options()?;
        let rows = self.inputs.rows()?.get::<R>().map_err(raised)?;
        let objects = self.inputs.objects.as_ref().map(|o| o.get().get::<R>());
        let objects = objects.transpose().map_err(raised)?;
        let sizes = [rows.rows.len(), objects.unwrap_or(rows).rows.len()];
        let (pairs, values) = (&self.inputs.pairs, &self.inputs.values);
        let pairs = pairs.as_ref().ok_or_else(|| missing("pairs"))?;
        let values = values.as_ref().ok_or_else(|| missing("values"))?;
        let pairs = valued(pairs, values, sizes)?;
        let data = TrainingData { rows, objects };
        let data = PairsData {
            data,
            pairs: &pairs,
            valid: None,
        };
        self.run(|run| options.fit_with(data, run))
    }

    fn completion<R: InPrecision>(self) -> PyResult<Outcome> {
        let options: Completion = self.options()?;
        let given = self.inputs.ratings.as_ref();
        let given = ratings(given.ok_or_else(|| missing("ratings"))?)?;
        let valid = self
            .inputs
            .valid_ratings
            .as_ref()
            .map(ratings)
            .transpose()?;
        let data = RatingData {
            ratings: Cow::Owned(given),
            valid: valid.as_ref(),
        };
        self.run(|run| options.fit_with::<R>(data, run))
    }

    fn recommend(self) -> PyResult<Outcome> {
        let options: Recommend = self.options()?;
        let given = self.inputs.choices.as_ref();
        let given = choices(given.ok_or_else(|| missing("choices"))?)?;
        let valid = self.inputs.valid_choices.as_ref();
        let valid = valid.map(choices).transpose()?;
        let item_rows = described(self.inputs.item_rows.as_ref())?;
        let user_rows = described(self.inputs.user_rows.as_ref())?;
        let data = RecommendData {
            choices: Cow::Owned(given),
            valid: valid.as_ref(),
            item_rows: item_rows.as_ref(),
            user_rows: user_rows.as_ref(),
            liked_from: None,
        };
        self.run(|run| options.fit_with(data, run))
    }

    fn multitask(self) -> PyResult<Outcome> {
        let options: Multitask = self.options()?;
        let rows = task_rows(self.inputs)?;
        let data = TaskData {
            rows: &rows,
            columns: None,
            valid: None,
        };
        self.run(|run| options.fit_with(data, run))
    }

    fn gossip<R: InPrecision>(self) -> PyResult<Outcome> {
        let options: Gossip = self.options()?;
        let edges = self.inputs.pairs.as_ref();
        let edges = edges.map(|pairs| row_numbers(pairs, "edges", [u32::MAX as usize; 2]));
        let edges = edges.transpose()?;
        let edges: Option<Vec<(usize, usize)>> = edges.map(|edges| {
            let edge = |[a, b]: [u32; 2]| (a as usize, b as usize);
            edges.into_iter().map(edge).collect()
        });
        let (given, rows);
        let shared = match &self.inputs.ratings {
            Some(rated) => {
                given = ratings(rated)?;
                Divided::Ratings(Cow::Borrowed(&given))
            }
            None => {
                rows = task_rows(self.inputs)?;
                Divided::Tasks(TaskData {
                    rows: &rows,
                    columns: None,
                    valid: None,
                })
            }
        };
        let data = GossipData {
            shared,
            edges: edges.as_deref(),
            parts: self.inputs.shares.as_deref(),
            faults: None,
            watch: Default::default(),
        };
        let mut agents = Vec::new();
        let failed = Raised::default();
        let elsewhere = self.inputs.elsewhere.as_ref();
        let found = self.run(|run| {
            let found = match elsewhere {
                None => options.fit_agents::<R>(data, run)?,
                Some(agents) => {
                    let mut called = Called {
                        agents,
                        failed: &failed,
                    };
                    options.fit_elsewhere::<R>(data, &mut called, run)?
                }
            };
            agents = found.agents;
            Ok(found.fit)
        });
        // What agents elsewhere raised says more than that they did not answer.
        failed.check()?;
        let (model, report, error, _) = found?;
        let agents = agents.into_iter().map(Model::new).collect();
        Ok((model, report, error, agents))
    }

    fn kernel<R: InPrecision>(self) -> PyResult<Outcome> {
        let options: Kernel = self.options()?;
        let inputs = self.inputs;
        let no_truth = || missing("labels or pairs");
        let known = |rows| {
            let known = inputs
                .relations
                .as_ref()
                .map(|known| constraints(known, rows));
            known.transpose()
        };
        let labels = inputs.labels.as_ref().map(|(names, codes, starts)| {
            crate::data::labels((names.clone(), codes.clone(), starts.clone()))
        });
        let labels = labels.transpose()?;
        let (matrix, items);
        let start: KernelStart<'_, R> = match (&inputs.rows, &inputs.matrix) {
            (Some(rows), _) => KernelStart::Rows(rows.get().get::<R>().map_err(raised)?),
            (None, Some(given)) => {
                let values = given.as_array().iter().copied().collect();
                matrix = SquareMatrix::from_flat(values).map_err(raised)?;
                KernelStart::Matrix(&matrix)
            }
            (None, None) => {
                let named = inputs.items.as_ref().ok_or_else(|| missing("items"))?;
                items = named.iter().collect::<Ids>();
                KernelStart::Identity(&items)
            }
        };
        let count = match start {
            KernelStart::Rows(rows) => rows.rows.len(),
            KernelStart::Matrix(matrix) => matrix.len(),
            KernelStart::Identity(items) => items.len(),
        };
        let known = known(count)?;
        let of_rows = match start {
            KernelStart::Rows(rows) => Some(&rows.labels),
            _ => None,
        };
        let truth = match (&known, labels.as_ref().or(of_rows)) {
            (Some(known), _) => KernelConstraints::Given(known),
            (None, Some(labels)) => KernelConstraints::Labels(labels),
            (None, None) => return Err(no_truth()),
        };
        let data = KernelData { start, truth };
        self.run(|run| options.fit_with(data, run))
    }

    fn map(self) -> PyResult<Outcome> {
        let options: Map = self.options()?;
        let (items, known) = dissimilarities(
            self.inputs.items.as_deref(),
            self.inputs.pairs.as_ref(),
            self.inputs.values.as_ref(),
        )?;
        let data = MapData {
            items: &items,
            known: &known,
        };
        self.run(|run| options.fit_with(data, run))
    }
}

/// Dissimilarities of items by number.
pub fn dissimilarities(
    items: Option<&[String]>,
    pairs: Option<&PyReadonlyArray2<'_, i64>>,
    values: Option<&PyReadonlyArray1<'_, f64>>,
) -> PyResult<(Ids, Vec<Dissimilarity>)> {
    let items: Ids = items.ok_or_else(|| missing("items"))?.iter().collect();
    let pairs = pairs.ok_or_else(|| missing("pairs"))?;
    let values = values.ok_or_else(|| missing("values"))?.as_slice()?;
    let pairs = row_numbers(pairs, "pairs", [items.len(), items.len()])?;
    let named = pairs
        .iter()
        .zip(values)
        .map(|(&[left, right], &value)| (items.get(left), items.get(right), value));
    let mut names = items.clone();
    let known = rankfold::data::dissimilarities(named, &mut names).map_err(raised)?;
    Ok((items, known))
}

fn task_rows(inputs: &Inputs<'_>) -> PyResult<TaskRows> {
    let tasks = inputs.tasks.as_ref().ok_or_else(|| missing("tasks"))?;
    let values = inputs.values.as_ref().ok_or_else(|| missing("targets"))?;
    rows_of_tasks(inputs.rows()?, tasks, values)
}

/// Rows with the task and the target of each.
pub fn rows_of_tasks(
    rows: &Data,
    (names, codes): &Coded<'_>,
    targets: &PyReadonlyArray1<'_, f64>,
) -> PyResult<TaskRows> {
    let data = rows.get::<f64>().map_err(raised)?;
    let (codes, targets) = (codes.as_slice()?, targets.as_slice()?);
    let mut tasks = Vec::with_capacity(codes.len());
    for &code in codes {
        let name = usize::try_from(code).ok().and_then(|code| names.get(code));
        tasks.push(name.ok_or_else(|| missing("names of tasks"))?);
    }
    TaskRows::new(tasks, data.rows.clone(), targets.to_vec())
        .and_then(|rows| rows.with_features(data.features.clone()))
        .map_err(raised)
}
