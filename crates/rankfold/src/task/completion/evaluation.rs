//! How well ratings are predicted.

use super::Recommendations;
use crate::batch::Part;
use crate::data::Ratings;
use crate::eval::{Hidden, Popularity, Scorer, Wanted, lists};
use crate::model::{Knowledge, Metrics, Model};
use crate::task::given_up;
use crate::task::groups::{COUNTS, Group, Grouping, name_of_part, part_of_count};
use crate::task::recommend::list_metrics;
use crate::task::run::{Baseline, Evaluation};
use crate::{Error, Result};

/// Errors on their way to metrics.
#[derive(Clone, Default)]
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

/// Errors of the model and of the biases, by how much is known of a user or an item.
struct ByCount(Vec<[Errors; 2]>);

impl ByCount {
    fn new() -> Self {
        ByCount(vec![Default::default(); COUNTS])
    }

    fn add(&mut self, known: u64, model: f64, biases: f64) {
        let [of_model, of_biases] = &mut self.0[part_of_count(known)];
        of_model.add(model);
        of_biases.add(biases);
    }

    fn grouping(&self, by: &str) -> Grouping {
        let mut out = Grouping::new(by, "rmse", "ratings", Some("biases"));
        for (part, [model, biases]) in self.0.iter().enumerate() {
            if model.count > 0 {
                out.groups.push(Group {
                    name: name_of_part(part),
                    count: model.count,
                    value: model.metrics()["rmse"],
                    baseline: Some(biases.metrics()["rmse"]),
                });
            }
        }
        out
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
        let [users_known, items_known] = match &self.knowledge {
            Knowledge::Completion(known) => &known.biases.count,
            _ => return Err(self.knowledge.expected("completion")),
        };
        let (mut by_user, mut by_item) = (ByCount::new(), ByCount::new());
        let (mut unknown_users, mut unknown_items) = (0, 0);
        for (row, user) in ratings.users.iter().enumerate() {
            let user = users.find(user);
            let (index, value) = rows.line(row);
            for (&j, &y) in index.iter().zip(value) {
                let item = item[j as usize];
                unknown_users += usize::from(user.is_none());
                unknown_items += usize::from(item.is_none());
                let error = predictor.rating(user, item) - y;
                let usual = predictor.baseline(user, item) - y;
                model.add(error);
                biases.add(usual);
                by_user.add(user.map_or(0, |i| users_known[i as usize]), error, usual);
                by_item.add(item.map_or(0, |j| items_known[j as usize]), error, usual);
            }
        }
        if model.count == 0 {
            return Err(Error::input("no ratings"));
        }
        let mut found = Evaluation::new(model.metrics(), model.count, "ratings");
        found
            .baselines
            .push(Baseline::new("biases", biases.metrics()));
        found.groupings = vec![
            by_user.grouping("ratings of the user in training"),
            by_item.grouping("ratings of the item in training"),
        ];
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

    /// Adds how good lists are that are ordered by predicted rating: what users rated in
    /// `test` is looked for, what they rated in `train` is left out.
    pub fn evaluate_rating_lists(
        &self,
        mut found: Evaluation,
        test: &Ratings,
        train: &Ratings,
        k: usize,
        threads: usize,
    ) -> Result<Evaluation> {
        let (users, items) = self.rating_ids()?;
        let mut wanted = vec![Wanted::default(); users.len()];
        let mut scorer = Recommendations::new(self)?;
        let mut popularity = vec![0.0; items.len()];
        let mut seen = vec![Vec::new(); users.len()];
        for_each(train, |user, item| {
            let Some(item) = items.find(item) else { return };
            popularity[item as usize] += 1.0;
            if let Some(user) = users.find(user) {
                scorer.leave_out(user, item);
                seen[user as usize].push(item);
            }
        });
        let mut strangers = 0;
        for_each(test, |user, item| {
            match (users.find(user), items.find(item)) {
                (None, _) => strangers += 1,
                (Some(user), Some(item)) => wanted[user as usize].items.push(item),
                (Some(user), None) => wanted[user as usize].missing += 1,
            }
        });
        wanted
            .iter_mut()
            .for_each(|wanted| wanted.items.sort_unstable());
        let lists_of = |scorer: &dyn Scorer| {
            let found = lists(scorer, &wanted, k, threads, &|| true);
            found
                .map(|found| list_metrics(&found, k))
                .ok_or_else(given_up)
        };
        found.metrics.extend(lists_of(&scorer)?);
        let control = lists_of(&Popularity {
            counts: &popularity,
            hidden: Hidden::of(seen),
        })?;
        found.baselines.push(Baseline::new("popularity", control));
        Ok(found
            .noting(1, || {
                "lists are ordered by predicted rating, which is no guess of what a user chooses \
                 next: `train recommend` learns that"
                    .into()
            })
            .noting(strangers, || {
                format!("{strangers} ratings are of users without a list: the model knows them not")
            }))
    }
}

/// Calls with the user and the item of each rating.
fn for_each(ratings: &Ratings, mut each: impl FnMut(&str, &str)) {
    let rows = ratings.entries.part(Part::All).rows;
    for (row, user) in ratings.users.iter().enumerate() {
        for &item in rows.line(row).0 {
            each(user, ratings.items.get(item));
        }
    }
}
