//! Ratings of users for items.

use std::sync::{Arc, OnceLock};

use rankfold::eval::Best;
use rankfold::form::Side;
use rankfold::model::{Embedding, RatingPoints};
use rankfold::{Ids, Model, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::asks::{raw_id, side_of};
use super::map::{Dot, plane};
use super::{
    Answer, Found, NeighborsAsk, PredictAsk, RecommendAsk, TransformAsk, View, not_finite,
};
use crate::error::Refused;

pub struct RatingView {
    model: Arc<Model>,
    points: RatingPoints,
    alike: Alike,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserItem {
    pub user: Box<RawValue>,
    pub item: Box<RawValue>,
}

/// Users and items as vectors of length one, made when somebody asks what is alike.
#[derive(Default)]
pub struct Alike {
    sides: [OnceLock<Option<Embedding<f32>>>; 2],
}

impl Alike {
    /// The vectors of a side, and its ids.
    fn of<'a>(&'a self, model: &'a Model, side: Side) -> Answer<(&'a Ids, &'a Embedding<f32>)> {
        let cell = &self.sides[usize::from(side == Side::Right)];
        let made = cell.get_or_init(|| {
            let (_, mut points) = model.vectors(side, 1).ok()?;
            // The cosine: what is chosen much is not like everything.
            points.normalize();
            Some(points)
        });
        let ids = ids_of(model, side)?;
        let points = made.as_ref();
        let points = points.ok_or_else(|| Refused::unavailable("the model has lost rank"))?;
        Ok((ids, points))
    }

    /// What is most like an item or a user.
    pub fn neighbors(&self, model: &Model, ask: &NeighborsAsk) -> Answer<Vec<Found>> {
        if ask.row.is_some() || ask.text.is_some() || ask.stroke.is_some() {
            return Err(Refused::input(
                "the model has users and items of its own: expected `id`",
            ));
        }
        if ask.uncertainty == Some(true) {
            return Err(Refused::input(
                "`uncertainty` does not apply to items like an item",
            ));
        }
        let side = side_of(ask.side.as_deref(), Side::Right)?;
        let id = ask.id.as_deref();
        let id = raw_id(id.ok_or_else(|| Refused::input("expected `id`, found none"))?)?;
        let (ids, points) = self.of(model, side)?;
        let what = match side {
            Side::Left => "user",
            Side::Right => "item",
        };
        let query = ids.find(&id);
        let query =
            query.ok_or_else(|| Refused::input(format!("the model knows no {what} `{id}`")))?;
        let row = points.row(query as usize);
        let mut best = Best::new(ask.k);
        for other in (0..points.len()).filter(|&other| other != query as usize) {
            let pairs = row.iter().zip(points.row(other));
            best.offer(
                other,
                pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum(),
            );
        }
        let found = best.into_list().into_iter();
        Ok(found
            .map(|(row, score)| Found::new(ids.get(row as u32), score))
            .collect())
    }

    /// Items in the plane.
    pub fn map(&self, model: &Model, limit: usize) -> Answer<Vec<Dot>> {
        let (ids, points) = self.of(model, Side::Right)?;
        let step = points.len().div_ceil(limit.max(1)).max(1);
        let shown: Vec<usize> = (0..points.len()).step_by(step).collect();
        let all = shown
            .iter()
            .flat_map(|&i| points.row(i).iter().map(|v| f64::from(*v)));
        let all: Vec<f64> = all.collect();
        let names = shown.iter().map(|&i| (ids.get(i as u32).to_owned(), None));
        plane(&all, points.rank, names)
    }
}

/// Users or items of a model that has them.
fn ids_of(model: &Model, side: Side) -> Answer<&Ids> {
    if let Ok((users, items)) = model.rating_ids() {
        return Ok(match side {
            Side::Left => users,
            Side::Right => items,
        });
    }
    Ok(match side {
        Side::Left => &model.recommended()?.users,
        Side::Right => model.recommended_items()?,
    })
}

/// Ids that begin so.
pub fn beginning(ids: &Ids, prefix: &str, limit: usize) -> Vec<(String, Option<String>)> {
    let fitting = ids.iter().filter(|id| id.starts_with(prefix));
    fitting
        .take(limit)
        .map(|id| (id.to_owned(), None))
        .collect()
}

/// Users or items as points.
pub fn points_of(model: &Model, ask: &TransformAsk) -> Answer<Vec<Vec<f64>>> {
    let side = side_of(ask.side.as_deref(), Side::Left)?;
    let (ids, points) = model.vectors(side, 1)?;
    let mut out = Vec::new();
    for input in &ask.inputs {
        let (Some(id), None, None) = (&input.id, &input.row, &input.text) else {
            return Err(Refused::input(
                "the model has users and items of its own: expected `id`",
            ));
        };
        let id = raw_id(id)?;
        let what = match side {
            Side::Left => "user",
            Side::Right => "item",
        };
        let found = ids.find(&id);
        let found =
            found.ok_or_else(|| Refused::input(format!("the model knows no {what} `{id}`")))?;
        let row = points.row(found as usize);
        out.push(row.iter().map(|v| f64::from(*v)).collect());
    }
    Ok(out)
}

impl RatingView {
    pub fn new(model: Arc<Model>) -> Result<Self> {
        Ok(RatingView {
            points: model.rating_points()?,
            model,
            alike: Alike::default(),
        })
    }
}

impl View for RatingView {
    fn model(&self) -> &Arc<Model> {
        &self.model
    }

    fn neighbors(&self, asks: &[NeighborsAsk]) -> Vec<Answer<Vec<Found>>> {
        let one = |ask| self.alike.neighbors(&self.model, ask);
        asks.iter().map(one).collect()
    }

    fn recommend(&self, ask: &RecommendAsk) -> Answer<Vec<Found>> {
        if ask.items.is_some() {
            return Err(Refused::input(
                "`items` does not apply to rating models: expected `user`",
            ));
        }
        if !matches!(ask.exclude.as_deref(), None | Some("none")) {
            return Err(Refused::input(
                "the model does not know what was rated: `exclude` can be `none` only",
            ));
        }
        let user = ask.user.as_deref();
        let user = raw_id(user.ok_or_else(|| Refused::input("expected `user`, found none"))?)?;
        let (users, items) = self.model.rating_ids()?;
        let found = users.find(&user);
        let found =
            found.ok_or_else(|| Refused::input(format!("the model knows no user `{user}`")))?;
        let predictor = self.model.rating_predictor_from(&self.points)?;
        let mut best = Best::new(ask.k);
        for item in 0..items.len() as u32 {
            best.offer(item as usize, predictor.raw(Some(found), Some(item)));
        }
        let one = |(item, score): (usize, f64)| {
            let id = items.get(item as u32);
            let rating = predictor.clip(score);
            if !rating.is_finite() {
                return Err(not_finite(&format!("`{user}` and `{id}`")));
            }
            let sd = predictor
                .estimate(Some(found), Some(item as u32))
                .map(|e| e.sd);
            Ok(Found {
                sd,
                ..Found::new(id, rating)
            })
        };
        best.into_list().into_iter().map(one).collect()
    }

    fn predict(&self, ask: &PredictAsk) -> Answer<(Vec<Value>, usize)> {
        if ask.uncertainty == Some(true) {
            self.model.check_rating_estimates()?;
        }
        let predictor = self.model.rating_predictor_from(&self.points)?;
        let (users, items) = self.model.rating_ids()?;
        let (mut out, mut unknown) = (Vec::new(), 0);
        for raw in &ask.inputs {
            let input: UserItem = serde_json::from_str(raw.get())?;
            let user = users.find(&raw_id(&input.user)?);
            let item = items.find(&raw_id(&input.item)?);
            unknown += usize::from(user.is_none() || item.is_none());
            let rating = predictor.rating(user, item);
            if !rating.is_finite() {
                return Err(not_finite("this input"));
            }
            let mut one = json!({ "score": rating });
            if ask.uncertainty != Some(false)
                && let Some(estimate) = predictor.estimate(user, item)
            {
                one["sd"] = json!(estimate.sd);
            }
            out.push(one);
        }
        Ok((out, unknown))
    }

    fn transform(&self, ask: &TransformAsk) -> Answer<Vec<Vec<f64>>> {
        points_of(&self.model, ask)
    }

    fn rows(&self) -> usize {
        self.model.rating_ids().map_or(0, |(_, items)| items.len())
    }

    fn ids(&self, prefix: &str, limit: usize) -> Vec<(String, Option<String>)> {
        let ids = self.model.rating_ids();
        ids.map_or_else(|_| Vec::new(), |(users, _)| beginning(users, prefix, limit))
    }

    fn map(&self, limit: usize) -> Answer<Vec<Dot>> {
        self.alike.map(&self.model, limit)
    }
}
