//! Recommendations: what users chose, lists of items, and going on.

use crate::convert::array;
use crate::data::{Coded, by_appearance};
use crate::errors::raised;
use crate::fit::row_numbers;
use crate::learn::{no_such_work, steps, taken};
use crate::model::{Lists, Model, Neighbors, State};
use crate::watch::Watch;
use numpy::{PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rankfold::data::Choices;
use rankfold::eval::nearest_among;
use rankfold::form::Side;
use rankfold::task::UserLists;
use rankfold::{Error, Rows, SparseVec};

/// Users, items and weights, all of the same length.
pub type Chosen<'py> = (Coded<'py>, Coded<'py>, PyReadonlyArray1<'py, f64>);

/// Choices, in the order in which they were made.
pub fn choices((users, items, weights): &Chosen<'_>) -> PyResult<Choices> {
    let ((users, of_users), (items, of_items)) = (by_appearance(users)?, by_appearance(items)?);
    let weights = weights.as_slice()?;
    if of_users.len() != weights.len() || of_items.len() != weights.len() {
        let (users, items) = (of_users.len(), of_items.len());
        let message = format!("{users} users, {items} items, {} weights", weights.len());
        return Err(PyValueError::new_err(message));
    }
    let entries = of_users.iter().zip(&of_items).zip(weights);
    let entries = entries.map(|((&u, &i), &w)| (users.get(u), items.get(i), w));
    Choices::from_entries(entries).map_err(raised)
}

/// Learns choices, one after the other.
#[pyfunction]
pub fn learn_choices(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    users: Coded<'_>,
    items: Coded<'_>,
    weights: PyReadonlyArray1<'_, f64>,
) -> PyResult<usize> {
    let given = (users, items, weights);
    // Nothing is learned from a list with a choice that would be refused.
    choices(&given)?;
    let (users, items, weights) = given;
    let (of_users, of_items) = (users.1.as_slice()?, items.1.as_slice()?);
    let weights = weights.as_slice()?;
    let watch = Watch::new(None);
    let count = model.get().work(py, |state| {
        let State::Choices(learner) = state else {
            return Err(no_such_work());
        };
        steps(&watch, weights.len(), |i| {
            let (user, item) = (
                &users.0[of_users[i] as usize],
                &items.0[of_items[i] as usize],
            );
            learner.learn(user, item, weights[i]).map(drop)
        })
    })?;
    taken(watch, count)
}

/// The names of the users of a model of choices.
#[pyfunction]
pub fn choosers(py: Python<'_>, model: &Bound<'_, Model>) -> PyResult<Vec<String>> {
    model.get().ask(py, |model| {
        Ok(model
            .recommended()?
            .users
            .iter()
            .map(str::to_owned)
            .collect())
    })
}

/// The vectors of users (left) or items (right) of a model of choices.
#[pyfunction]
#[pyo3(signature = (model, side, threads=None))]
pub fn choice_vectors<'py>(
    py: Python<'py>,
    model: &Bound<'py, Model>,
    side: &str,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let side = match side {
        "left" => Side::Left,
        _ => Side::Right,
    };
    let (values, rank) = model.get().ask(py, |model| {
        let (_, points) = model.vectors(side, crate::model::threads(threads))?;
        let values: Vec<f64> = points.values.iter().map(|v| f64::from(*v)).collect();
        Ok((values, points.rank))
    })?;
    array(py, values, rank)
}

/// The best items of users by number, or of one who chose `history`: scores and item
/// numbers; -1 where nothing is left.
#[pyfunction]
#[pyo3(signature = (model, users, history, k, leave_out, seen, threads=None))]
#[allow(clippy::too_many_arguments)]
pub fn choice_lists<'py>(
    py: Python<'py>,
    model: &Bound<'py, Model>,
    users: Vec<usize>,
    history: Option<Vec<u32>>,
    k: usize,
    leave_out: PyReadonlyArray2<'py, i64>,
    seen: bool,
    threads: Option<usize>,
) -> PyResult<Neighbors<'py>> {
    let items = model
        .get()
        .ask(py, |model| Ok(model.recommended_items()?.len()))?;
    let rows = match &history {
        Some(_) => 1,
        None => users.len(),
    };
    let left_out = row_numbers(&leave_out, "exclude", [rows, items])?;
    let lists = model.get().ask(py, |model| {
        let known = model.recommended()?;
        let mut rows: Rows<f32> = match &history {
            Some(history) => {
                let strength = known.card.weights.strength(1.0) as f32;
                let entries = history.iter().map(|&item| (item, strength)).collect();
                [SparseVec::from_entries(entries).as_row()]
                    .into_iter()
                    .collect()
            }
            None => {
                let count = known.users.len();
                if let Some(user) = users.iter().find(|&&user| user >= count) {
                    return Err(Error::input(format!("there is no user number {user}")));
                }
                known.histories.select(users.iter().copied())
            }
        };
        rows.widen(items);
        let recommender = model.recommender()?;
        let threads = crate::model::threads(threads);
        let number = |i: usize| history.is_none().then(|| users[i] as u32);
        let mut scorer = UserLists::new(&recommender, known, &number, &rows, seen, threads);
        for [user, item] in left_out {
            scorer.leave_out(user as usize, item);
        }
        let mut lists = Lists::default();
        let places: Vec<usize> = (0..rows.len()).collect();
        nearest_among(&scorer, &places, k, threads, |_, found| {
            lists.push(found.iter().map(|&(item, score)| (item, score)));
            Ok::<(), Error>(())
        })?;
        // What was left out has no score.
        for (row, score) in lists.rows.iter_mut().zip(&lists.scores) {
            if score.is_nan() {
                *row = -1;
            }
        }
        Ok(lists)
    })?;
    lists.arrays(py)
}

/// NDCG of the ten best items of each user, by what they chose beside their history.
#[pyfunction]
pub fn choice_ndcg(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    users: Coded<'_>,
    items: Coded<'_>,
) -> PyResult<f64> {
    let ((users, of_users), (items, of_items)) = (by_appearance(&users)?, by_appearance(&items)?);
    let pairs = of_users.iter().zip(&of_items);
    let pairs = pairs.map(|(&u, &i)| (users.get(u), items.get(i), 1.0));
    let test = Choices::from_entries(pairs).map_err(raised)?;
    model.get().ask(py, |model| {
        let found = model.evaluate_lists(&test, None, &[], 10, None, &|| true)?;
        Ok(found.metrics["ndcg_at_10"])
    })
}
