//! Items for users: all are scored, except those that are left out.

use crate::Result;
use crate::eval::{Hidden, Scorer};
use crate::model::{Model, RatingPredictor};

/// Scores of all items for each user.
pub struct Recommendations<'a> {
    predictor: RatingPredictor<'a>,
    users: usize,
    items: usize,
    hidden: Hidden,
}

impl<'a> Recommendations<'a> {
    /// Of a model of ratings.
    pub fn new(model: &'a Model) -> Result<Self> {
        let (users, items) = model.rating_ids()?;
        let (users, items) = (users.len(), items.len());
        Ok(Recommendations {
            predictor: model.rating_predictor()?,
            users,
            items,
            hidden: Hidden::nothing(users),
        })
    }

    /// Leaves an item out of the list of a user.
    pub fn leave_out(&mut self, user: u32, item: u32) {
        self.hidden.leave_out(user as usize, item);
    }

    /// Shows no other items than these.
    pub fn only(&mut self, items: impl IntoIterator<Item = u32>) {
        self.hidden.all_but(self.items, items);
    }

    /// The rating that a score stands for: scores are not clipped, so that they
    /// tell items apart that all get the best rating.
    pub fn rating(&self, score: f64) -> f64 {
        self.predictor.clip(score)
    }
}

impl Scorer for Recommendations<'_> {
    fn rows(&self) -> usize {
        self.users
    }

    fn candidates(&self) -> usize {
        self.items
    }

    fn scores(&self, out: &mut [f64], first: usize, count: usize) {
        for (user, out) in (first..first + count).zip(out.chunks_exact_mut(self.items)) {
            for (item, score) in out.iter_mut().enumerate() {
                *score = self.predictor.raw(Some(user as u32), Some(item as u32));
            }
            self.hidden.hide(user, out);
        }
    }
}
