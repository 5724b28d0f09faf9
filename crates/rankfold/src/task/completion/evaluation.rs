//! How well ratings are predicted.

use crate::batch::Part;
use crate::data::Ratings;
use crate::model::{Metrics, Model};
use crate::task::run::{Baseline, Evaluation};
use crate::{Error, Result};

/// Errors on their way to metrics.
#[derive(Default)]
struct Errors {
    squares: f64,
    sizes: f64,
    count: usize,
}

impl Errors {
    fn add(&mut self, error: f64) {
        self.squares += error * error;
        self.sizes += error.abs();
        self.count += 1;
    }

    fn metrics(&self) -> Metrics {
        let mean = |sum: f64| sum / self.count as f64;
        Metrics::from([
            ("rmse".to_owned(), mean(self.squares).sqrt()),
            ("mae".to_owned(), mean(self.sizes)),
        ])
    }
}

impl Model {
    /// Measures a model of ratings on others.
    pub fn evaluate_ratings(&self, ratings: &Ratings) -> Result<Evaluation> {
        let predictor = self.rating_predictor()?;
        let (users, items) = self.rating_ids()?;
        let item: Vec<Option<u32>> = ratings.items.iter().map(|i| items.find(i)).collect();
        let rows = ratings.entries.part(Part::All).rows;
        let (mut model, mut biases) = (Errors::default(), Errors::default());
        let (mut unknown_users, mut unknown_items) = (0, 0);
        for (row, user) in ratings.users.iter().enumerate() {
            let user = users.find(user);
            let (index, value) = rows.line(row);
            for (&j, &y) in index.iter().zip(value) {
                let item = item[j as usize];
                unknown_users += usize::from(user.is_none());
                unknown_items += usize::from(item.is_none());
                model.add(predictor.rating(user, item) - y);
                biases.add(predictor.baseline(user, item) - y);
            }
        }
        if model.count == 0 {
            return Err(Error::input("no ratings"));
        }
        let mut found = Evaluation::new(model.metrics(), model.count, "ratings");
        found
            .baselines
            .push(Baseline::new("biases", biases.metrics()));
        let note = |count: usize, what: &str| {
            format!("{count} ratings are of {what} that the model does not know")
        };
        Ok(found
            .with("repeated", ratings.repeated)
            .with("unknown_users", unknown_users)
            .with("unknown_items", unknown_items)
            .noting(unknown_users, || note(unknown_users, "users"))
            .noting(unknown_items, || note(unknown_items, "items")))
    }
}
