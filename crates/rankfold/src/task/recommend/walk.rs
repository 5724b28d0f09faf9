//! Steps of LORETA on what users chose: an item that a user chose, seen from what else they
//! chose, shall score above one that they did not, found by WARP.

use crate::form::{Factored, Form, Query, Tall};
use crate::online::{AnyLearner, Learned, Learner, RankOne, Rule, Step};
use crate::random::Random;
use crate::task::average::{self, Average};
use crate::task::ranking::{draws, warp_of};
use crate::{Loss, Real, Result, Rows, SparseRow, SparseVec};
use faer::Mat;

/// Users whose scores say how long W is.
const SCALE_USERS: usize = 500;

/// Learns from one choice after the other.
#[derive(Debug)]
pub(super) struct Stepper {
    pub learner: AnyLearner<f32>,
    query: Query,
    direction: SparseVec<f32>,
}

impl Stepper {
    pub fn new(form: Factored<f32>) -> Result<Self> {
        Ok(Stepper {
            learner: AnyLearner::new(Rule::Loreta, Form::Factored(form), 0)?,
            query: Query::default(),
            direction: SparseVec::new(),
        })
    }

    /// A step on `item`, chosen by somebody with this history; `chosen` are all of their
    /// items, which rise.
    pub fn take(
        &mut self,
        history: SparseRow<'_, f32>,
        chosen: &[u32],
        item: u32,
        items: usize,
        step: Step,
        random: &mut Random,
    ) -> Learned {
        let form = self.learner.form();
        form.ask(&mut self.query, history);
        let query = &self.query;
        let found = warp_of(items, chosen, item, random, |item| {
            form.column(query, item as usize)
        });
        self.direction.clear();
        let Some(found) = found else {
            let nothing = RankOne {
                left: SparseRow::default(),
                right: SparseRow::default(),
            };
            return self.learner.learn(nothing, 0.0, Loss::Margin, step);
        };
        let mut pair = [(found.positive, 1.0), (found.negative, -1.0)];
        pair.sort_by_key(|entry| entry.0);
        pair.iter().for_each(|&(i, v)| self.direction.push(i, v));
        let example = RankOne {
            left: history,
            right: self.direction.as_row(),
        };
        let step = Step {
            size: found.weight * step.size,
            ..step
        };
        let target = found.loss + self.learner.score(example);
        let learned = self.learner.learn(example, target, Loss::Margin, step);
        Learned {
            loss: found.loss,
            ..learned
        }
    }
}

/// A run over the choices of all users, with the average of W.
pub(super) struct Walk {
    stepper: Stepper,
    average: Option<Average<f32>>,
    every: u64,
    size: f64,
    seed: u64,
    pub done: u64,
    rest: SparseVec<f32>,
}

/// The decoder times what makes the scores of chosen items about 1 above others: the margin
/// of LORETA is 1, and the order of items does not see lengths.
fn to_margin(rows: &Rows<f32>, form: &Factored<f32>) -> Result<Factored<f32>> {
    let view = crate::form::FormRef::Factored(form);
    let (mut query, mut sum, mut count) = (Query::default(), 0.0, 0.0);
    let step = (rows.len() / SCALE_USERS).max(1);
    for row in rows.iter().step_by(step).filter(|row| !row.is_empty()) {
        view.ask(&mut query, row);
        for &item in row.indices {
            sum += view.column(&query, item as usize);
            count += 1.0;
        }
    }
    let mean: f64 = sum / count;
    let scale = match mean.is_finite() && mean > 0.0 {
        true => 1.0 / mean,
        false => 1.0,
    };
    let (left, right) = (form.left(), form.right());
    let encoder = Tall::from_fn(left.rows(), left.rank(), |i, j| left.row(i)[j].to_f64())?;
    let decoder = Tall::from_fn(right.rows(), right.rank(), |i, j| {
        scale * right.row(i)[j].to_f64()
    })?;
    Ok(Factored::new(encoder, decoder))
}

impl Walk {
    /// From a fit, whose core is the identity.
    pub fn new(rows: &Rows<f32>, start: &Factored<f32>, size: f64, seed: u64) -> Result<Self> {
        let form = to_margin(rows, start)?;
        Ok(Walk {
            every: average::interval(form.left().rows().max(40 * form.rank()), 1),
            stepper: Stepper::new(form)?,
            average: None,
            size,
            seed,
            done: 0,
            rest: SparseVec::new(),
        })
    }

    /// Takes so many steps more.
    pub fn take(&mut self, rows: &Rows<f32>, steps: u64) {
        for _ in 0..steps {
            let mut random = draws(self.seed, self.done);
            let row = rows.row(random.below(rows.len()));
            self.done += 1;
            if row.len() < 2 {
                continue;
            }
            let item = row.indices[random.below(row.len())];
            self.rest.clear();
            let others = row.iter().filter(|entry| entry.0 != item);
            others.for_each(|(i, v)| self.rest.push(i, v));
            let step = Step {
                size: self.size,
                limit: Step::LIMIT,
            };
            let items = rows.columns();
            self.stepper.take(
                self.rest.as_row(),
                row.indices,
                item,
                items,
                step,
                &mut random,
            );
            if self.done.is_multiple_of(self.every) {
                Average::add(
                    &mut self.average,
                    self.stepper.learner.form(),
                    None,
                    self.done,
                );
            }
        }
    }

    /// The average of W, or W.
    pub fn form(&self) -> Factored<f32> {
        let form = match &self.average {
            Some(average) => average.snapshot.form.clone(),
            None => self.stepper.learner.form().to_form(),
        };
        match form {
            Form::Factored(form) => form,
            _ => unreachable!("LORETA keeps its form"),
        }
    }

    /// Encoder and decoder.
    pub fn factors(&self) -> (Mat<f64>, Mat<f64>) {
        let form = self.form();
        let (left, right) = (form.left(), form.right());
        let k = form.rank();
        let tall = |side: &Tall<f32>| Mat::from_fn(side.rows(), k, |i, j| side.row(i)[j].to_f64());
        (tall(left) * form.core.to_faer(), tall(right))
    }
}
