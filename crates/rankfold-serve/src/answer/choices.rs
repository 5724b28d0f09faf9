//! Recommendations: items for users, made of what they chose.

use std::sync::Arc;

use rankfold::eval::Best;
use rankfold::{Model, Result, SparseVec};
use serde_json::{Value, json};

use super::asks::raw_id;
use super::map::Dot;
use super::ratings::{Alike, UserItem, beginning, points_of};
use super::{
    Answer, Found, NeighborsAsk, PredictAsk, RecommendAsk, TransformAsk, View, not_finite,
};
use crate::error::Refused;

pub struct ChoiceView {
    model: Arc<Model>,
    alike: Alike,
}

impl ChoiceView {
    pub fn new(model: Arc<Model>) -> Result<Self> {
        model.recommender()?;
        Ok(ChoiceView {
            model,
            alike: Alike::default(),
        })
    }

    /// The number of the one who asks, where they have one, and what they chose.
    fn history(&self, ask: &RecommendAsk) -> Answer<(Option<u32>, SparseVec<f32>)> {
        let (known, items) = (self.model.recommended()?, self.model.recommended_items()?);
        match (&ask.user, &ask.items) {
            (Some(user), None) => {
                let user = raw_id(user)?;
                let found = known.users.find(&user);
                let found = found
                    .ok_or_else(|| Refused::input(format!("the model knows no user `{user}`")))?;
                let row = known.histories.row(found as usize);
                Ok((Some(found), SparseVec::from_entries(row.iter().collect())))
            }
            (None, Some(chosen)) => {
                let strength = known.card.weights.strength(1.0) as f32;
                let mut entries = Vec::new();
                for id in chosen {
                    let id = raw_id(id)?;
                    let found = items.find(&id);
                    let found = found
                        .ok_or_else(|| Refused::input(format!("the model knows no item `{id}`")))?;
                    entries.push((found, strength));
                }
                entries.sort_unstable_by_key(|entry| entry.0);
                entries.dedup_by_key(|entry| entry.0);
                Ok((None, SparseVec::from_entries(entries)))
            }
            (None, None) => Err(Refused::input("expected `user` or `items`, found none")),
            _ => Err(Refused::input(
                "expected one of `user` and `items`, found both",
            )),
        }
    }
}

impl View for ChoiceView {
    fn model(&self) -> &Arc<Model> {
        &self.model
    }

    fn neighbors(&self, asks: &[NeighborsAsk]) -> Vec<Answer<Vec<Found>>> {
        let one = |ask| self.alike.neighbors(&self.model, ask);
        asks.iter().map(one).collect()
    }

    fn recommend(&self, ask: &RecommendAsk) -> Answer<Vec<Found>> {
        let seen = match ask.exclude.as_deref() {
            None | Some("seen") => true,
            Some("none") => false,
            Some(other) => {
                return Err(Refused::input(format!(
                    "expected `seen` or `none` as `exclude`, found `{other}`"
                )));
            }
        };
        let (number, history) = self.history(ask)?;
        let (recommender, items) = (self.model.recommender()?, self.model.recommended_items()?);
        // Rounded as lists of the command line are.
        let user = recommender.user(number, history.as_row());
        let user: Vec<f64> = user.iter().map(|v| f64::from(*v as f32)).collect();
        let left_out = history.as_row().indices;
        let mut best = Best::new(ask.k);
        for item in 0..items.len() as u32 {
            if !(seen && left_out.binary_search(&item).is_ok()) {
                best.offer(item as usize, recommender.score(&user, item));
            }
        }
        let one = |(item, score): (usize, f64)| {
            let id = items.get(item as u32);
            match score.is_finite() {
                true => Ok(Found::new(id, score)),
                false => Err(not_finite(&format!("the user and `{id}`"))),
            }
        };
        best.into_list().into_iter().map(one).collect()
    }

    fn predict(&self, ask: &PredictAsk) -> Answer<(Vec<Value>, usize)> {
        if ask.uncertainty == Some(true) {
            return Err(Refused::input(
                "`uncertainty` does not apply to recommendations",
            ));
        }
        let (known, items) = (self.model.recommended()?, self.model.recommended_items()?);
        let recommender = self.model.recommender()?;
        let (mut out, mut unknown) = (Vec::new(), 0);
        for raw in &ask.inputs {
            let input: UserItem = serde_json::from_str(raw.get())?;
            let user = known.users.find(&raw_id(&input.user)?);
            let item = items.find(&raw_id(&input.item)?);
            let score = match (user, item) {
                (Some(user), Some(item)) => recommender.score(&recommender.known_user(user), item),
                // Nothing speaks for what is not known.
                _ => {
                    unknown += 1;
                    0.0
                }
            };
            if !score.is_finite() {
                return Err(not_finite("this input"));
            }
            out.push(json!({ "score": score }));
        }
        Ok((out, unknown))
    }

    fn transform(&self, ask: &TransformAsk) -> Answer<Vec<Vec<f64>>> {
        points_of(&self.model, ask)
    }

    fn rows(&self) -> usize {
        self.model
            .recommended_items()
            .map_or(0, |items| items.len())
    }

    fn ids(&self, prefix: &str, limit: usize) -> Vec<(String, Option<String>)> {
        let known = self.model.recommended();
        known.map_or_else(
            |_| Vec::new(),
            |known| beginning(&known.users, prefix, limit),
        )
    }

    fn map(&self, limit: usize) -> Answer<Vec<Dot>> {
        self.alike.map(&self.model, limit)
    }
}
