//! A model that Python asks and that goes on learning.

use crate::by_precision;
use crate::convert::{array, object};
use crate::data::{Data, InPrecision};
use crate::errors::raised;
use crate::fit::row_numbers;
use crate::with_rows;
use numpy::{PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rankfold::data::{Features, Labelled};
use rankfold::eval::{Scorer, nearest, nearest_among};
use rankfold::form::Side;
use rankfold::model::{Distances, Knowledge, Precise, Prepared, RatingFactors, unit_rows};
use rankfold::task::{
    ChoiceLearner, Evaluate, Online, RatingLearner, Recommendations, TaskLearner,
};
use rankfold::{Error, Ids, Real, Result, Score};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

/// A model at rest or at work. It changes from one to the other without a copy.
pub enum State {
    Rest(Box<rankfold::Model>),
    Online32(Box<Online<f32>>),
    Online64(Box<Online<f64>>),
    Ratings32(Box<RatingLearner<f32>>),
    Ratings64(Box<RatingLearner<f64>>),
    Tasks(Box<TaskLearner>),
    Choices(Box<ChoiceLearner>),
}

/// An error, and the state as it was.
type Unchanged = Box<(Error, State)>;

impl State {
    /// The model at rest.
    fn into_rest(self) -> std::result::Result<rankfold::Model, Unchanged> {
        match self {
            State::Rest(model) => Ok(*model),
            State::Online32(learner) => Ok(learner.into_model()),
            State::Online64(learner) => Ok(learner.into_model()),
            State::Ratings32(learner) => Ok(learner.into_model()),
            State::Ratings64(learner) => Ok(learner.into_model()),
            State::Tasks(learner) => learner
                .to_model()
                .map_err(|error| Box::new((error, State::Tasks(learner)))),
            State::Choices(learner) => learner
                .to_model()
                .map_err(|error| Box::new((error, State::Choices(learner)))),
        }
    }
}

/// The model at work, as its task does it.
fn into_work(model: rankfold::Model) -> Result<State> {
    let single = matches!(model.form, Precise::F32(_));
    match &model.knowledge {
        Knowledge::Completion(_) if single => model
            .into_rating_learner()
            .map(|l| State::Ratings32(Box::new(l))),
        Knowledge::Completion(_) => model
            .into_rating_learner()
            .map(|l| State::Ratings64(Box::new(l))),
        Knowledge::Multitask(_) => model.into_task_learner().map(|l| State::Tasks(Box::new(l))),
        Knowledge::Recommend(_) => model
            .into_choice_learner()
            .map(|l| State::Choices(Box::new(l))),
        _ if single => model.into_learner().map(|l| State::Online32(Box::new(l))),
        _ => model.into_learner().map(|l| State::Online64(Box::new(l))),
    }
}

/// A model of any task.
#[pyclass(frozen, module = "rankfold._rankfold")]
pub struct Model {
    /// Empty only while a state becomes another.
    state: RwLock<Option<State>>,
}

fn lost<T>(_: PoisonError<T>) -> Error {
    Error::failure("the model was lost in an error")
}

pub fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Scores, and standard deviations where they are asked for.
type Scored<'py> = (Bound<'py, PyArray1<f64>>, Option<Bound<'py, PyArray1<f64>>>);

/// Scores or distances, and row numbers.
pub type Neighbors<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<i64>>);

fn score_named(name: Option<&str>) -> PyResult<Option<Score>> {
    let parsed = name.map(|name| name.parse::<Score>());
    let parsed = parsed.transpose();
    parsed.map_err(|expected| PyValueError::new_err(format!("`score` must be {expected}")))
}

impl Model {
    pub fn new(model: rankfold::Model) -> Self {
        Model {
            state: RwLock::new(Some(State::Rest(Box::new(model)))),
        }
    }

    /// Asks the model, without holding the interpreter.
    pub fn ask<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&rankfold::Model) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            loop {
                let state = self.state.read().map_err(lost)?;
                if let Some(State::Rest(model)) = &*state {
                    return ask(model);
                }
                drop(state);
                let mut state = self.state.write().map_err(lost)?;
                let before = state.take().ok_or_else(|| lost(PoisonError::new(())))?;
                match before.into_rest() {
                    Ok(model) => *state = Some(State::Rest(Box::new(model))),
                    Err(failed) => {
                        let (error, before) = *failed;
                        *state = Some(before);
                        return Err(error);
                    }
                }
            }
        })
        .map_err(raised)
    }

    /// Works on the model, without holding the interpreter. After an error the model is
    /// what it was, also where it had grown or learned by then.
    pub fn work<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut State) -> Result<T> + Send,
    ) -> PyResult<T> {
        let worked = |state: &mut Option<State>| {
            let (before, model) = match state.take().map(State::into_rest) {
                Some(Ok(model)) => (model.clone(), model),
                Some(Err(failed)) => {
                    let (error, before) = *failed;
                    *state = Some(before);
                    return Err(error);
                }
                None => return Err(lost(PoisonError::new(()))),
            };
            let worked = into_work(model).and_then(|mut after| {
                let found = work(&mut after)?;
                Ok((found, after))
            });
            let (found, after) = match worked {
                Ok((found, after)) => (Ok(found), after),
                Err(error) => (Err(error), State::Rest(Box::new(before))),
            };
            *state = Some(after);
            found
        };
        py.detach(|| worked(&mut *self.state.write().map_err(lost)?))
            .map_err(raised)
    }

    /// A step that is shorter than to let the interpreter go, and that does all or
    /// nothing.
    pub fn work_here<T>(&self, work: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.state.write().map_err(lost)?;
        if let Some(State::Rest(model)) = &*state {
            // Making a learner takes the model, and may fail.
            *state = Some(into_work((**model).clone())?);
        }
        work(state.as_mut().ok_or_else(|| lost(PoisonError::new(())))?)
    }

    /// Puts another model in the place of this one.
    pub fn replace(&self, model: rankfold::Model) -> PyResult<()> {
        let mut state = self.state.write().map_err(|e| raised(lost(e)))?;
        *state = Some(State::Rest(Box::new(model)));
        Ok(())
    }
}

fn prepared<R: InPrecision>(
    model: &rankfold::Model,
    data: &Data,
    side: Side,
) -> Result<Prepared<R>> {
    let data = data.get::<R>()?;
    model.prepare_side(data.rows.clone(), &data.features, side)
}

fn side_named(name: &str) -> PyResult<Side> {
    match name {
        "left" => Ok(Side::Left),
        "right" => Ok(Side::Right),
        other => Err(PyValueError::new_err(format!(
            "`side` must be \"left\" or \"right\", found \"{other}\""
        ))),
    }
}

/// The entries of an array of any order, row by row.
pub fn flat(array: &PyReadonlyArray2<'_, f64>) -> Vec<f64> {
    array.as_array().iter().copied().collect()
}

fn names(ids: &Ids) -> Vec<String> {
    ids.iter().map(str::to_owned).collect()
}

/// Lists of the same length, one a query.
#[derive(Default)]
pub struct Lists {
    pub scores: Vec<f64>,
    pub rows: Vec<i64>,
    length: usize,
}

impl Lists {
    pub fn push(&mut self, found: impl ExactSizeIterator<Item = (usize, f64)>) {
        self.length = found.len();
        for (row, score) in found {
            self.scores.push(score);
            self.rows.push(row as i64);
        }
    }

    pub fn arrays(self, py: Python<'_>) -> PyResult<Neighbors<'_>> {
        let length = self.length;
        Ok((
            array(py, self.scores, length)?,
            array(py, self.rows, length)?,
        ))
    }
}

#[pymethods]
impl Model {
    /// Reads a model from its file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let model = py.detach(|| rankfold::Model::load(path));
        model.map(Model::new).map_err(raised)
    }

    /// A model of ratings from the factors of users and items.
    #[staticmethod]
    #[pyo3(signature = (users, items, factors, mean=0.0, bias=None, scale=None, precision="f32"))]
    fn of_ratings(
        users: Vec<String>,
        items: Vec<String>,
        factors: (PyReadonlyArray2<'_, f64>, PyReadonlyArray2<'_, f64>),
        mean: f64,
        bias: Option<(Vec<f64>, Vec<f64>)>,
        scale: Option<(f64, f64)>,
        precision: &str,
    ) -> PyResult<Self> {
        let ids = |names: Vec<String>| names.iter().collect::<Ids>();
        let given = RatingFactors {
            ids: (ids(users), ids(items)),
            rank: factors.0.as_array().ncols(),
            factors: [flat(&factors.0), flat(&factors.1)],
            mean,
            bias: bias.map(|(users, items)| [users, items]),
            scale,
        };
        let model = match precision {
            "f64" => rankfold::Model::from_rating_factors::<f64>(given),
            _ => rankfold::Model::from_rating_factors::<f32>(given),
        };
        model.map(Model::new).map_err(raised)
    }

    /// A metric from what each feature becomes, a row each.
    #[staticmethod]
    #[pyo3(signature = (factor, distances=None, precision="f64"))]
    fn of_metric(
        factor: PyReadonlyArray2<'_, f64>,
        distances: Option<(f64, f64)>,
        precision: &str,
    ) -> PyResult<Self> {
        let rank = factor.as_array().ncols();
        let values = flat(&factor);
        let distances = distances.map(|(near, far)| Distances { near, far });
        let model = match precision {
            "f64" => rankfold::Model::from_metric_factor::<f64>(&values, rank, distances),
            _ => rankfold::Model::from_metric_factor::<f32>(&values, rank, distances),
        };
        model.map(Model::new).map_err(raised)
    }

    /// Reads a model from the bytes of its file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let model = py.detach(|| rankfold::Model::from_bytes(bytes));
        model.map(Model::new).map_err(raised)
    }

    /// Writes the model to its file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.ask(py, |model| model.save(path))
    }

    /// The bytes of the file of the model.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.ask(py, rankfold::Model::to_bytes)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// What the model says about itself.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let told = self.ask(py, |model| {
            let mut told = json!(model.card);
            told["task"] = json!(model.task());
            told["rank"] = json!(model.rank());
            told["precision"] = json!(model.precision());
            told["columns"] = json!([model.columns_of(Side::Left), model.columns_of(Side::Right)]);
            told["objects"] = json!(model.objects.is_some());
            told["confidence"] = json!(model.has_confidence());
            told["map"] = json!(matches!(model.knowledge, Knowledge::Map(_)));
            told["space"] = json!(model.check_space("").is_ok());
            Ok(told)
        })?;
        object(py, &told)
    }

    /// The names of the features of a side; `None` where they are numbers.
    fn names(&self, py: Python<'_>, side: &str) -> PyResult<Option<Vec<String>>> {
        let side = side_named(side)?;
        self.ask(py, |model| {
            Ok(match model.side(side).0 {
                Features::Named(ids) | Features::Columns(ids) => Some(names(ids)),
                _ => None,
            })
        })
    }

    /// The singular values of W, falling; `None` for a full matrix.
    fn singular_values<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray1<f64>>>> {
        let found = self.ask(py, rankfold::Model::singular_values)?;
        Ok(found.map(|values| PyArray1::from_vec(py, values)))
    }

    /// What the features of a side become, before preprocessing: a row each.
    fn components<'py>(&self, py: Python<'py>, side: &str) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let side = side_named(side)?;
        let (values, rank) = self.ask(py, |model| {
            by_precision!(model.form, R => {
                let unit: Ids = (0..model.columns_of(side)).collect();
                let (_, rows) = unit_rows::<R>(&unit);
                let found = model.embed(&rows, side)?;
                let values: Vec<f64> = found.values.iter().map(|v| v.to_f64()).collect();
                Ok((values, found.rank))
            })
        })?;
        array(py, values, rank)
    }

    /// Rows in the learned space.
    #[pyo3(signature = (data, side="left"))]
    fn transform<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, Data>,
        side: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        fn embedded<R: InPrecision>(
            model: &rankfold::Model,
            data: &Data,
            side: Side,
        ) -> Result<(Vec<R>, usize)> {
            let found = model.embed(&prepared::<R>(model, data, side)?, side)?;
            Ok((found.values, found.rank))
        }
        let (side, data) = (side_named(side)?, data.get());
        match &data.rows {
            crate::data::Precise::F32(_) => {
                let (values, rank) = self.ask(py, |model| embedded::<f32>(model, data, side))?;
                Ok(array(py, values, rank)?.into_any())
            }
            crate::data::Precise::F64(_) => {
                let (values, rank) = self.ask(py, |model| embedded::<f64>(model, data, side))?;
                Ok(array(py, values, rank)?.into_any())
            }
        }
    }

    /// The scores or distances of row i of `left` with row i of `right`, and their
    /// standard deviations where they are asked for.
    #[pyo3(signature = (left, right, score=None, deviations=false))]
    fn pair_scores<'py>(
        &self,
        py: Python<'py>,
        left: &Bound<'py, Data>,
        right: &Bound<'py, Data>,
        score: Option<&str>,
        deviations: bool,
    ) -> PyResult<Scored<'py>> {
        fn scored<R: InPrecision>(
            model: &rankfold::Model,
            (left, right): (&Data, &Data),
            score: Option<Score>,
            deviations: bool,
        ) -> Result<(Vec<f64>, Option<Vec<f64>>)> {
            let one = prepared::<R>(model, left, Side::Left)?;
            let two = prepared::<R>(model, right, Side::Right)?;
            let count = one.rows.len();
            if two.rows.len() != count {
                let found = two.rows.len();
                return Err(Error::input(format!("{count} rows beside {found} rows")));
            }
            let projection = model.project_between(&one, &two, score)?;
            let scores = (0..count).map(|i| projection.score(i, i)).collect();
            let sure = deviations.then(|| {
                let confidence = model.confidence(&one, Some(&two))?;
                Ok((0..count).map(|i| confidence.deviation(i, i)).collect())
            });
            Ok((scores, sure.transpose()?))
        }
        let score = score_named(score)?;
        let data = (left.get(), right.get());
        let (scores, sure) = self.ask(
            py,
            |model| by_precision!(model.form, R => scored::<R>(model, data, score, deviations)),
        )?;
        let sure = sure.map(|sure| PyArray1::from_vec(py, sure));
        Ok((PyArray1::from_vec(py, scores), sure))
    }

    /// The scores or distances of pairs of a row and an object, by number.
    fn scores_at<'py>(
        &self,
        py: Python<'py>,
        left: &Bound<'py, Data>,
        right: &Bound<'py, Data>,
        pairs: PyReadonlyArray2<'py, i64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        fn scored<R: InPrecision>(
            model: &rankfold::Model,
            (left, right): (&Data, &Data),
            pairs: &[[u32; 2]],
        ) -> Result<Vec<f64>> {
            let one = prepared::<R>(model, left, Side::Left)?;
            let two = prepared::<R>(model, right, Side::Right)?;
            let projection = model.project_between(&one, &two, None)?;
            let pairs = pairs.iter();
            Ok(pairs
                .map(|&[i, j]| projection.score(i as usize, j as usize))
                .collect())
        }
        let data = (left.get(), right.get());
        let size = |data: &Data| with_rows!(data, d => d.rows.len());
        let pairs = row_numbers(&pairs, "pairs", [size(data.0), size(data.1)])?;
        let scores = self.ask(
            py,
            |model| by_precision!(model.form, R => scored::<R>(model, data, &pairs)),
        )?;
        Ok(PyArray1::from_vec(py, scores))
    }

    /// The best candidates of each query, best first: scores or distances, and row
    /// numbers. Without candidates these are the queries themselves, each without
    /// itself.
    #[pyo3(signature = (queries, candidates=None, k=10, score=None, threads=None))]
    fn neighbors<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, Data>,
        candidates: Option<&Bound<'py, Data>>,
        k: usize,
        score: Option<&str>,
        threads: Option<usize>,
    ) -> PyResult<Neighbors<'py>> {
        fn found<R: InPrecision>(
            model: &rankfold::Model,
            (queries, candidates): (&Data, Option<&Data>),
            (k, score, threads): (usize, Option<Score>, usize),
        ) -> Result<Lists> {
            let left = prepared::<R>(model, queries, Side::Left)?;
            let right = candidates.map(|data| prepared::<R>(model, data, Side::Right));
            let right = right.transpose()?;
            let projection = match &right {
                None => model.project(&left, score)?,
                Some(right) => model.project_between(&left, right, score)?,
            };
            let distances = score.unwrap_or(model.card.score) == Score::Distance;
            let all: Vec<usize> = (0..left.rows.len()).collect();
            let mut lists = Lists::default();
            let each = |query: usize, found: &[(usize, f64)]| {
                // Of a metric the scorer orders by squares; users meet distances.
                lists.push(found.iter().map(|&(row, score)| match distances {
                    true => (row, projection.score(query, row)),
                    false => (row, score),
                }));
                Ok::<(), Error>(())
            };
            match &right {
                None => nearest(&projection.scorer(), &all, k, threads, each)?,
                Some(_) => nearest_among(&projection.scorer(), &all, k, threads, each)?,
            }
            Ok(lists)
        }
        let score = score_named(score)?;
        let how = (k, score, self::threads(threads));
        let data = (queries.get(), candidates.map(|data| data.get()));
        let lists = self.ask(
            py,
            |model| by_precision!(model.form, R => found::<R>(model, data, how)),
        )?;
        lists.arrays(py)
    }

    /// What the model reaches on labelled rows, with simple models beside it.
    #[pyo3(signature = (data, train=None, k=3, score=None, threads=None))]
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, Data>,
        train: Option<&Bound<'py, Data>>,
        k: usize,
        score: Option<&str>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        fn evaluated<R: InPrecision>(
            model: &rankfold::Model,
            (data, train): (&Data, Option<&Data>),
            (k, score, threads): (usize, Option<Score>, usize),
        ) -> Result<Value> {
            let data = data.get::<R>()?.clone();
            let train: Option<Labelled<R>> = train.map(|t| t.get::<R>().cloned()).transpose()?;
            let go_on = |_: usize| true;
            let found = match &model.knowledge {
                Knowledge::Metric => model.evaluate_metric(data, train, k, threads)?,
                Knowledge::Ranking(_) => model.evaluate_labels(data, None, threads, &go_on)?,
                _ => Evaluate {
                    score,
                    precision_at: &[],
                    threads,
                    progress: &go_on,
                }
                .rows(model, data)?,
            };
            let baselines = found.baselines.iter();
            let baselines: Value = baselines
                .map(|b| (b.name.clone(), json!(b.metrics)))
                .collect();
            Ok(json!({
                "metrics": found.metrics,
                "baselines": baselines,
                "rows": found.rows,
                "skipped": found.skipped,
                "notes": found.notes,
            }))
        }
        let score = score_named(score)?;
        let how = (k, score, self::threads(threads));
        let data = (data.get(), train.map(|data| data.get()));
        let told = self.ask(
            py,
            |model| by_precision!(model.form, R => evaluated::<R>(model, data, how)),
        )?;
        object(py, &told)
    }

    /// Scores of all labels for each row; a column a label, in the order of
    /// `names("right")`, and one more for a label that the model does not know.
    fn label_scores<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, Data>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let data = data.get();
        let (values, labels) = self.ask(py, |model| {
            let labels = model.label_names()?.len();
            let unseen = model.label_bias(None)?;
            let mut values = vec![0.0; with_rows!(data, d => d.rows.len()) * (labels + 1)];
            by_precision!(model.form, R => {
                let rows = prepared::<R>(model, data, Side::Left)?;
                let scores = model.label_scores(&rows)?;
                for (i, row) in values.chunks_exact_mut(labels + 1).enumerate() {
                    scores.of(i, &mut row[..labels]);
                    row[labels] = unseen;
                }
                Ok(())
            })?;
            Ok((values, labels + 1))
        })?;
        array(py, values, labels)
    }

    /// Ratings of pairs of a user and an item, by name; what is known of one where the
    /// other is not. With `sure` also their standard deviations, else an empty array.
    #[allow(clippy::type_complexity)]
    fn ratings<'py>(
        &self,
        py: Python<'py>,
        users: (Vec<String>, PyReadonlyArray1<'py, i64>),
        items: (Vec<String>, PyReadonlyArray1<'py, i64>),
        sure: bool,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>)> {
        let (of_users, of_items) = (users.1.as_slice()?, items.1.as_slice()?);
        let (found, deviations) = self.ask(py, |model| {
            if sure {
                model.check_rating_estimates()?;
            }
            let (user_ids, item_ids) = model.rating_ids()?;
            let find = |names: &[String], ids: &Ids| -> Vec<Option<u32>> {
                names.iter().map(|name| ids.find(name)).collect()
            };
            let (known_users, known_items) = (find(&users.0, user_ids), find(&items.0, item_ids));
            let predictor = model.rating_predictor()?;
            let (mut found, mut deviations) = (Vec::new(), Vec::new());
            for (&u, &i) in of_users.iter().zip(of_items) {
                let (user, item) = (known_users[u as usize], known_items[i as usize]);
                found.push(predictor.rating(user, item));
                if sure {
                    let estimate = predictor.estimate(user, item);
                    deviations.push(estimate.map_or(f64::NAN, |e| e.sd));
                }
            }
            Ok((found, deviations))
        })?;
        let array = |values| PyArray1::from_vec(py, values);
        Ok((array(found), array(deviations)))
    }

    /// The best items of users by number: ratings, and item numbers; -1 where nothing
    /// is left.
    #[pyo3(signature = (users, k, leave_out, threads=None))]
    fn recommend<'py>(
        &self,
        py: Python<'py>,
        users: Vec<usize>,
        k: usize,
        leave_out: PyReadonlyArray2<'py, i64>,
        threads: Option<usize>,
    ) -> PyResult<Neighbors<'py>> {
        let sizes = self.ask(py, |model| {
            let (users, items) = model.rating_ids()?;
            Ok([users.len(), items.len()])
        })?;
        let left_out = row_numbers(&leave_out, "exclude", sizes)?;
        let lists = self.ask(py, |model| {
            let mut scorer = Recommendations::new(model)?;
            if let Some(user) = users.iter().find(|&&user| user >= scorer.rows()) {
                return Err(Error::input(format!("there is no user number {user}")));
            }
            for [user, item] in left_out {
                scorer.leave_out(user, item);
            }
            let mut lists = Lists::default();
            let each = |_: usize, found: &[(usize, f64)]| {
                // What was left out has no score.
                lists.length = found.len();
                for &(item, score) in found {
                    let known = !score.is_nan();
                    lists
                        .scores
                        .push(if known { scorer.rating(score) } else { score });
                    lists.rows.push(if known { item as i64 } else { -1 });
                }
                Ok::<(), Error>(())
            };
            nearest_among(&scorer, &users, k, self::threads(threads), each)?;
            Ok(lists)
        })?;
        lists.arrays(py)
    }

    /// Targets of rows in their tasks, by name.
    fn targets<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, Data>,
        tasks: (Vec<String>, PyReadonlyArray1<'py, i64>),
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (data, codes) = (data.get(), tasks.1.as_slice()?);
        let found = self.ask(py, |model| {
            let (_, known) = model.task_ids()?;
            let find = tasks.0.iter().map(|name| known.find(name));
            let find: Vec<Option<u32>> = find.collect();
            let data = data.get::<f64>()?;
            let rows = model
                .side(Side::Left)
                .0
                .align(data.rows.clone(), &data.features)?;
            let mut predictor = model.task_predictor()?;
            let pairs = rows.iter().zip(codes);
            let target = |(row, &code)| predictor.target(find[code as usize], row);
            Ok(pairs.map(target).collect::<Vec<f64>>())
        })?;
        Ok(PyArray1::from_vec(py, found))
    }

    /// Coordinates of the items of a kernel or a map.
    fn coordinates<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (values, rank) = self.ask(py, |model| {
            by_precision!(model.form, R => {
                let found = model.item_coordinates::<R>()?;
                let values: Vec<f64> = found.values.iter().map(|v| v.to_f64()).collect();
                Ok((values, found.rank))
            })
        })?;
        array(py, values, rank)
    }

    /// What a copy of the model is made of.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let made = slf.get_type().getattr("from_bytes")?;
        Ok((made, (slf.get().to_bytes(slf.py())?,)))
    }
}
