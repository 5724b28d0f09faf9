//! Items for users: all are scored, except those that are left out. They are ranked by the
//! predicted rating, or by its upper bound: what a model knows little of may be better than it
//! looks, and to show it is how to find out.

use crate::Result;
use crate::eval::{Hidden, Scorer};
use crate::model::{Estimate, Model, RatingPredictor};

/// Scores of all items for each user.
pub struct Recommendations<'a> {
    predictor: RatingPredictor<'a>,
    users: usize,
    items: usize,
    hidden: Hidden,
    /// Standard deviations that are added to a rating.
    explore: f64,
    model: &'a Model,
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
            explore: 0.0,
            model,
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

    /// Ranks by the rating and so many standard deviations of it; an error where the model has
    /// not learned how sure it is.
    pub fn by_upper(&mut self, explore: f64) -> Result<()> {
        self.model.check_rating_estimates()?;
        self.explore = explore;
        Ok(())
    }

    /// The rating of an item, and how sure that is.
    pub fn estimate(&self, user: usize, item: usize) -> Option<Estimate> {
        let expected = self
            .predictor
            .expected(Some(user as u32), Some(item as u32))?;
        let mean = self.rating(expected.mean);
        Some(Estimate { mean, ..expected })
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
            let rated = Some(user as u32);
            for (item, score) in (0..).zip(out.iter_mut()) {
                let expected = match self.explore > 0.0 {
                    true => self.predictor.expected(rated, Some(item)),
                    false => None,
                };
                *score = match expected {
                    Some(expected) => expected.mean + self.explore * expected.sd,
                    None => self.predictor.raw(rated, Some(item)),
                };
            }
            self.hidden.hide(user, out);
        }
    }
}
