//! Models that go on learning: the steps of `rankfold update`.

use crate::data::{Coded, Data, InPrecision, LabelCodes, Precise};
use crate::errors::raised;
use crate::fit::{Relations, constraints, dissimilarities, row_numbers};
use crate::model::{Model, State};
use crate::tables::{Given, parse};
use crate::watch::Watch;
use crate::{by_precision, with_rows};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rankfold::data::{Features, LabelName, StreamRow};
use rankfold::form::Side;
use rankfold::options::Options;
use rankfold::sample::Triplet;
use rankfold::task::{Online, Run, Sides};
use rankfold::{Error, Pairs, Ranking, Real, Result, Rows, Similarity};

/// Steps between two looks for Ctrl-C.
const STRIDE: usize = 256;

pub fn no_such_work() -> Error {
    Error::input("the model does not learn from this kind of example")
}

/// A learner in the precision of its rows.
trait AtWork: InPrecision {
    fn online(state: &mut State) -> Result<&mut Online<Self>>;
}

impl AtWork for f32 {
    fn online(state: &mut State) -> Result<&mut Online<f32>> {
        match state {
            State::Online32(learner) => Ok(learner),
            _ => Err(no_such_work()),
        }
    }
}

impl AtWork for f64 {
    fn online(state: &mut State) -> Result<&mut Online<f64>> {
        match state {
            State::Online64(learner) => Ok(learner),
            _ => Err(no_such_work()),
        }
    }
}

/// Rows as the model sees them; their features are added to those it knows.
fn ready<R: InPrecision>(learner: &mut Online<R>, side: Side, data: &Data) -> Result<Rows<R>> {
    let data = data.get::<R>()?;
    learner.prepare_side(side, data.rows.clone(), &data.features)
}

/// Rows and objects as the model sees them; without objects the rows are on both sides.
fn both<R: InPrecision>(
    learner: &mut Online<R>,
    rows: &Data,
    objects: Option<&Data>,
) -> Result<(Rows<R>, Option<Rows<R>>)> {
    let left = ready(learner, Side::Left, rows)?;
    let right = objects.map(|objects| ready(learner, Side::Right, objects));
    Ok((left, right.transpose()?))
}

/// Sets the step size from here on, where one is given.
fn sized<R: Real>(learner: &mut Online<R>, size: Option<f64>) -> Result<()> {
    size.map_or(Ok(()), |size| learner.set_step_size(size))
}

/// Takes so many steps, until somebody stops it; says how many were taken.
pub fn steps(
    watch: &Watch,
    count: usize,
    mut step: impl FnMut(usize) -> Result<()>,
) -> Result<usize> {
    for i in 0..count {
        if i.is_multiple_of(STRIDE) && watch.stops() {
            return Ok(i);
        }
        step(i)?;
    }
    Ok(count)
}

/// The number of steps, or what was raised on the way.
pub fn taken(watch: Watch, count: usize) -> PyResult<usize> {
    match watch.finish().1 {
        Some(error) => Err(error),
        None => Ok(count),
    }
}

/// A model that has seen nothing, for rows of so many features: it learns from what comes.
#[pyfunction]
#[pyo3(signature = (task, options, columns, precision, names=None, labels=None))]
pub fn begin(
    task: &str,
    options: Given,
    columns: usize,
    precision: &str,
    names: Option<Vec<String>>,
    labels: Option<Vec<String>>,
) -> PyResult<Model> {
    fn begun<R: Real>(
        task: &str,
        options: &Given,
        columns: usize,
        labels: Vec<String>,
    ) -> Result<rankfold::Model> {
        let learner: Online<R> = match task {
            Similarity::TASK => parse::<Similarity>(options)?.begin(columns)?,
            Pairs::TASK => parse::<Pairs>(options)?.begin(columns)?,
            Ranking::TASK => parse::<Ranking>(options)?.begin(columns, labels)?,
            other => {
                let message = format!("a model of `{other}` needs data to begin");
                return Err(Error::input(message));
            }
        };
        Ok(learner.into_model())
    }
    let labels = labels.unwrap_or_default();
    let model = match precision {
        "f64" => begun::<f64>(task, &options, columns, labels),
        _ => begun::<f32>(task, &options, columns, labels),
    };
    let mut model = model.map_err(raised)?;
    if let Some(names) = names {
        model.features = Features::columns(names).map_err(raised)?;
    }
    Ok(Model::new(model))
}

/// Learns triplets of row numbers.
#[pyfunction]
#[pyo3(signature = (model, rows, triplets, objects=None, step_size=None))]
pub fn learn_triplets(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    rows: &Bound<'_, Data>,
    triplets: PyReadonlyArray2<'_, i64>,
    objects: Option<&Bound<'_, Data>>,
    step_size: Option<f64>,
) -> PyResult<usize> {
    let (rows, objects) = (rows.get(), objects.map(|objects| objects.get()));
    let size = |data: &Data| with_rows!(data, d => d.rows.len());
    let (left, right) = (size(rows), objects.map_or(size(rows), size));
    let list = row_numbers(&triplets, "triplets", [left, right, right])?;
    let watch = Watch::new(None);
    let count = by_precision!(rows.rows, R => model.get().work(py, |state| {
        let learner = R::online(state)?;
        let (left, right) = both(learner, rows, objects)?;
        sized(learner, step_size)?;
        let sides = Sides { left: &left, right: right.as_ref().unwrap_or(&left) };
        steps(&watch, list.len(), |i| {
            let [query, positive, negative] = list[i].map(|row| StreamRow::Row(row as usize));
            let triplet = Triplet { query, positive, negative };
            learner.learn_line(&triplet, sides).map(drop)
        })
    }))?;
    taken(watch, count)
}

/// Learns triplets that are drawn from the classes of rows, one a row.
#[pyfunction]
#[pyo3(signature = (model, rows, step_size=None))]
pub fn learn_classes(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    rows: &Bound<'_, Data>,
    step_size: Option<f64>,
) -> PyResult<usize> {
    let rows = rows.get();
    let watch = Watch::new(None);
    let count = by_precision!(rows.rows, R => model.get().work(py, |state| {
        let learner = R::online(state)?;
        let labels = &rows.get::<R>()?.labels;
        let mut source = learner.triplets_of(labels)?;
        let ready = ready(learner, Side::Left, rows)?;
        sized(learner, step_size)?;
        steps(&watch, ready.len(), |i| {
            if let [class] = labels.of(i) {
                learner.add_to_class(ready.row(i), labels.names.get(*class))?;
            }
            let drawn = source.draw();
            let [query, positive, negative] =
                [drawn.query, drawn.positive, drawn.negative].map(|i| StreamRow::Row(i as usize));
            let triplet = Triplet { query, positive, negative };
            learner.learn_line(&triplet, &ready).map(drop)
        })
    }))?;
    taken(watch, count)
}

/// Learns rows with labels.
#[pyfunction]
#[pyo3(signature = (model, rows, labels, step_size=None))]
pub fn learn_labels(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    rows: &Bound<'_, Data>,
    labels: LabelCodes<'_>,
    step_size: Option<f64>,
) -> PyResult<usize> {
    let rows = rows.get();
    let labels = crate::data::labels(labels)?;
    let count = with_rows!(rows, d => d.rows.len());
    if labels.len() != count {
        let message = format!("{count} rows, {} rows of labels", labels.len());
        return Err(PyValueError::new_err(message));
    }
    let watch = Watch::new(None);
    let count = by_precision!(rows.rows, R => model.get().work(py, |state| {
        let learner = R::online(state)?;
        let ready = ready(learner, Side::Left, rows)?;
        sized(learner, step_size)?;
        let mut names = Vec::new();
        steps(&watch, count, |i| {
            names.clear();
            let of_row = labels.of(i).iter();
            names.extend(of_row.map(|&l| LabelName::Name(labels.names.get(l).to_owned())));
            learner.learn_labelled(StreamRow::Row(i), &names, &ready).map(drop)
        })
    }))?;
    taken(watch, count)
}

/// Learns what is known of the distances of pairs of rows.
#[pyfunction]
#[pyo3(signature = (model, rows, relations, step_size=None))]
pub fn learn_distances(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    rows: &Bound<'_, Data>,
    relations: Relations<'_>,
    step_size: Option<f64>,
) -> PyResult<usize> {
    let rows = rows.get();
    let known = constraints(&relations, with_rows!(rows, d => d.rows.len()))?;
    let watch = Watch::new(None);
    let count = by_precision!(rows.rows, R => model.get().work(py, |state| {
        let learner = R::online(state)?;
        let ready = ready(learner, Side::Left, rows)?;
        sized(learner, step_size)?;
        steps(&watch, known.len(), |i| {
            let pair = [known[i].left, known[i].right].map(|row| StreamRow::Row(row as usize));
            learner.learn_distance(pair, known[i].relation, &ready).map(drop)
        })
    }))?;
    taken(watch, count)
}

/// Learns the values of pairs of rows, or of rows and objects.
#[pyfunction]
#[pyo3(signature = (model, rows, pairs, values, objects=None, step_size=None))]
pub fn learn_values(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    rows: &Bound<'_, Data>,
    pairs: PyReadonlyArray2<'_, i64>,
    values: PyReadonlyArray1<'_, f64>,
    objects: Option<&Bound<'_, Data>>,
    step_size: Option<f64>,
) -> PyResult<usize> {
    let (rows, objects) = (rows.get(), objects.map(|objects| objects.get()));
    let size = |data: &Data| with_rows!(data, d => d.rows.len());
    let sizes = [size(rows), objects.map_or(size(rows), size)];
    let list = row_numbers(&pairs, "pairs", sizes)?;
    let values = values.as_slice()?;
    if list.len() != values.len() || values.iter().any(|value| !value.is_finite()) {
        return Err(PyValueError::new_err("expected one finite value a pair"));
    }
    let watch = Watch::new(None);
    let count = by_precision!(rows.rows, R => model.get().work(py, |state| {
        let learner = R::online(state)?;
        let (left, right) = both(learner, rows, objects)?;
        sized(learner, step_size)?;
        let sides = Sides { left: &left, right: right.as_ref().unwrap_or(&left) };
        steps(&watch, list.len(), |i| {
            let pair = list[i].map(|row| StreamRow::Row(row as usize));
            learner.learn_value(pair, values[i], sides).map(drop)
        })
    }))?;
    taken(watch, count)
}

/// Learns ratings.
#[pyfunction]
#[pyo3(signature = (model, users, items, ratings, step_size=None))]
pub fn learn_ratings(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    users: Coded<'_>,
    items: Coded<'_>,
    ratings: PyReadonlyArray1<'_, f64>,
    step_size: Option<f64>,
) -> PyResult<usize> {
    let (of_users, of_items) = (users.1.as_slice()?, items.1.as_slice()?);
    let ratings = ratings.as_slice()?;
    let known = |codes: &[i64], names: &[String]| {
        let fits = |code: &i64| (0..names.len() as i64).contains(code);
        codes.len() == ratings.len() && codes.iter().all(fits)
    };
    if !(known(of_users, &users.0) && known(of_items, &items.0)) {
        return Err(PyValueError::new_err(
            "expected a user and an item a rating",
        ));
    }
    // Nothing is learned from a list with a rating that would be refused.
    let wild = |rating: &&f64| !(rating.abs() <= rankfold::data::LARGEST_RATING);
    if let Some(rating) = ratings.iter().find(wild) {
        let message = format!("expected a rating, found {rating}");
        return Err(PyValueError::new_err(message));
    }
    let watch = Watch::new(None);
    let count = model.get().work(py, |state| {
        match (step_size, &mut *state) {
            (Some(size), State::Ratings32(learner)) => learner.set_step_size(size)?,
            (Some(size), State::Ratings64(learner)) => learner.set_step_size(size)?,
            _ => {}
        }
        steps(&watch, ratings.len(), |i| {
            let (user, item) = (
                &users.0[of_users[i] as usize],
                &items.0[of_items[i] as usize],
            );
            match state {
                State::Ratings32(learner) => learner.learn(user, item, ratings[i]).map(drop),
                State::Ratings64(learner) => learner.learn(user, item, ratings[i]).map(drop),
                _ => Err(no_such_work()),
            }
        })
    })?;
    taken(watch, count)
}

/// Learns rows of tasks.
#[pyfunction]
pub fn learn_tasks(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    rows: &Bound<'_, Data>,
    tasks: Coded<'_>,
    targets: PyReadonlyArray1<'_, f64>,
) -> PyResult<usize> {
    let (rows, codes, targets) = (rows.get(), tasks.1.as_slice()?, targets.as_slice()?);
    let names = codes.iter().map(|&code| {
        let name = usize::try_from(code)
            .ok()
            .and_then(|code| tasks.0.get(code));
        name.ok_or_else(|| PyValueError::new_err("a task has no name"))
    });
    let names = names.collect::<PyResult<Vec<_>>>()?;
    let count = with_rows!(rows, d => d.rows.len());
    if names.len() != count || targets.len() != count {
        return Err(PyValueError::new_err("expected a task and a target a row"));
    }
    let watch = Watch::new(None);
    let count = model.get().work(py, |state| {
        let State::Tasks(learner) = state else {
            return Err(no_such_work());
        };
        let data = rows.get::<f64>()?;
        let known = Features::Columns(learner.features()?.clone());
        let aligned = known.align(data.rows.clone(), &data.features)?;
        steps(&watch, count, |i| {
            learner
                .learn(names[i], aligned.row(i), targets[i])
                .map(drop)
        })
    })?;
    taken(watch, count)
}

/// Replaces and adds dissimilarities of a map; `items` are those of the map and new
/// ones behind them.
#[pyfunction]
#[pyo3(signature = (model, items, pairs, values, threads=None))]
pub fn learn_map(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    items: Vec<String>,
    pairs: PyReadonlyArray2<'_, i64>,
    values: PyReadonlyArray1<'_, f64>,
    threads: Option<usize>,
) -> PyResult<usize> {
    let (items, news) = dissimilarities(Some(&items), Some(&pairs), Some(&values))?;
    let threads =
        threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let watch = Watch::new(None);
    let made = model.get().ask(py, |model| {
        let stop = || watch.stops();
        let run = Run::default().stopped_by(&stop);
        model.update_map(&items, &news, threads, run)
    });
    if let Some(error) = watch.finish().1 {
        return Err(error);
    }
    model.get().replace(made?.fit.model)?;
    Ok(news.len())
}

/// Learns one triplet after the other of the same rows, which are checked once.
#[pyfunction]
pub fn learner(model: &Bound<'_, Model>, rows: &Bound<'_, Data>) -> PyResult<Learner> {
    let data = rows.get();
    let rows = by_precision!(data.rows, R => model.get().work(model.py(), |state| {
        Ok(R::kept(ready(R::online(state)?, Side::Left, data)?))
    }))?;
    Ok(Learner {
        model: model.clone().unbind(),
        rows,
    })
}

/// Rows that are ready, in their precision.
enum Ready {
    F32(Rows<f32>),
    F64(Rows<f64>),
}

trait Kept: Real {
    fn kept(rows: Rows<Self>) -> Ready;
}

impl Kept for f32 {
    fn kept(rows: Rows<f32>) -> Ready {
        Ready::F32(rows)
    }
}

impl Kept for f64 {
    fn kept(rows: Rows<f64>) -> Ready {
        Ready::F64(rows)
    }
}

/// Learns one triplet at a time.
#[pyclass(frozen, module = "rankfold._rankfold")]
pub struct Learner {
    model: Py<Model>,
    rows: Ready,
}

fn learn_one<R: AtWork>(state: &mut State, rows: &Rows<R>, triplet: [usize; 3]) -> Result<bool> {
    if let Some(row) = triplet.iter().find(|&&row| row >= rows.len()) {
        let count = rows.len();
        return Err(Error::input(format!(
            "row {row} is out of bounds for {count} rows"
        )));
    }
    let [query, positive, negative] = triplet.map(StreamRow::Row);
    let triplet = Triplet {
        query,
        positive,
        negative,
    };
    let learned = R::online(state)?.learn_line(&triplet, rows)?;
    Ok(learned.outcome == rankfold::online::Outcome::Moved)
}

#[pymethods]
impl Learner {
    /// Learns that row `query` is more like row `positive` than like row `negative`;
    /// says whether the model moved.
    fn learn(&self, query: usize, positive: usize, negative: usize) -> PyResult<bool> {
        let triplet = [query, positive, negative];
        let learned = self.model.get().work_here(|state| match &self.rows {
            Ready::F32(rows) => learn_one(state, rows, triplet),
            Ready::F64(rows) => learn_one(state, rows, triplet),
        });
        learned.map_err(raised)
    }
}
