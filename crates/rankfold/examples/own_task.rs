//! A task of your own: which of two rows comes first, such as "this page is read before
//! that one". The order need not be symmetric, so W is any matrix of rank k.
//!
//! A task is an option table, a way to turn data into examples, and `Learn`. In return it
//! gets setters, checks, documentation of its options, and the laws of all tasks.

use rankfold::data::Features;
use rankfold::form::{Factored, Form, Tall};
use rankfold::online::{Learner, Loreta, Outcome, RankOne, Step};
use rankfold::options::Options;
use rankfold::random::{Random, normal_at};
use rankfold::task::{Checkpoint, Event, Fit, Learn, Report, Run, Stop};
use rankfold::{Error, Loss, Model, Result, Rows, check, options};

options! {
    /// Learns orders of rows from pairs of which the first comes before the second.
    pub struct Before: "before" {
        /// Rank of W.
        rank: usize = 3, in Range::COUNT;
        /// Number of pairs to learn from.
        steps: u64 = 4_000, in Range::COUNT, effect Length;
        /// Step size.
        step_size: f64 = 0.5, in Range::POSITIVE;
        shared seed;
    }
}

/// Rows, and pairs of which the first comes before the second.
#[derive(Clone, Copy)]
struct Ordered<'a> {
    rows: &'a Rows<f64>,
    pairs: &'a [(usize, usize)],
}

impl Before {
    /// W at the start: small normal factors.
    fn start(&self, features: usize) -> Result<Form<f64>> {
        if self.rank > features {
            let message = format!("is {}, above n_features = {features}", self.rank);
            return Err(Error::option("rank", message));
        }
        let tall = |side: u64| {
            Tall::from_fn(features, self.rank, |i, j| {
                0.3 * normal_at(self.seed, side, i as u64, j as u64)
            })
        };
        Ok(Form::Factored(Factored::new(tall(0)?, tall(1)?)))
    }
}

impl<'a> Learn<Ordered<'a>> for Before {
    fn learn(&self, data: Ordered<'a>, mut run: Run<'_>) -> Result<Fit> {
        self.check_table()?;
        let features = data.rows.columns();
        let resumed = run.take_checkpoint();
        let mut model = match &resumed {
            Some(checkpoint) => {
                checkpoint.check_options(self)?;
                checkpoint.model()?
            }
            None => Model::new("loreta", self.start(features)?, Features::Numbered),
        };
        let Form::Factored(form) = model.form.into_precision::<f64>()? else {
            return Err(Error::input("expected two factors"));
        };
        let mut learner = Loreta::new(form);
        let mut stopped = Stop::Steps;
        let mut counters = model.card.counters;
        while counters.steps < self.steps {
            // Which pair comes next follows from the number of the step alone, so that a
            // resumed run goes on with the same pairs.
            let at = Random::new(self.seed, 1 + counters.steps).below(data.pairs.len());
            let (first, second) = data.pairs[at];
            let example = RankOne {
                left: data.rows.row(first),
                right: data.rows.row(second),
            };
            let learned = learner.learn(example, 1.0, Loss::Hinge, Step::new(self.step_size));
            counters.steps += 1;
            counters.updates += u64::from(learned.outcome == Outcome::Moved);
            let (done, total) = (counters.steps, self.steps);
            if done % 500 == 0 && !run.tell(&Event::Progress { done, total }) {
                stopped = Stop::Interrupted;
                break;
            }
        }
        let mut fresh = Model::new(
            "loreta",
            Form::Factored(learner.into_form()),
            Features::Numbered,
        );
        fresh.card.counters = counters;
        fresh.card.seed = self.seed;
        fresh.card.step_size = self.step_size;
        model = fresh;
        if stopped == Stop::Interrupted {
            run.save_interrupted(&mut |path, seconds| {
                Checkpoint::write(path, self, &(), seconds, &model)
            })?;
        }
        Ok(Fit::new(model, Report::new(stopped, counters)))
    }
}

fn main() -> Result<()> {
    // Row i has a one at i; the first four rows come before the last four.
    let unit = |i: usize| -> [f64; 8] { std::array::from_fn(|j| f64::from(u8::from(i == j))) };
    let rows = Rows::from_dense((0..8).map(unit))?;
    let pairs: Vec<(usize, usize)> = (0..16).map(|i| (i % 4, 4 + i / 4)).collect();
    let data = Ordered {
        rows: &rows,
        pairs: &pairs,
    };
    let fit = Before::default()
        .rank(2)
        .seed(1)
        .learn(data, Run::default())?;
    let prepared = fit.model.prepare(rows.clone(), &Features::Numbered)?;
    let scores = fit.model.project(&prepared, None)?;
    let (before, after) = (scores.score(1, 5), scores.score(5, 1));
    println!("row 1 before row 5: {before:.3}, after it: {after:.3}");
    assert!(before > after + 0.5);

    let error = Before::default()
        .step_size(-1.0)
        .learn(data, Run::default())
        .unwrap_err();
    println!("refused: {error}");

    let broken = check::task(&Before::default(), data, None, &[])?;
    assert!(broken.is_empty(), "{broken:?}");
    println!("it keeps the laws of tasks");
    Ok(())
}
