//! Goes on with choices as they come: new users and items are welcome.
//!
//! A user is a function of what they chose, so a choice changes its user at once and
//! exactly. What an item is, is moved by one step of the least squares that the model
//! solves: in the regression of `items` the target of one user turns from 0 to the strength
//! of the choice, which adds C⁻¹z to the decoder of the item, where C is the Gram matrix of
//! users. What an item says (its row of the encoder) takes the mean of what its users have
//! beside what is said of them. Models of `loreta` take its steps instead.

use super::RecommendLearner;
use super::walk::Stepper;
use crate::batch::FoldIn;
use crate::data::{Features, WEIGHTS};
use crate::eval::gain;
use crate::form::{Factored, Form, FormRef, Query};
use crate::kernel::padded;
use crate::linalg::{Square, invert_definite};
use crate::model::{Card, Knowledge, Model, Objects, Precise, Preprocess, Recommended};
use crate::online::{Learned, Outcome, Step};
use crate::task::course::count;
use crate::task::ranking::draws;
use crate::{Error, Ids, Result, Rows, SparseRow, SparseVec};

/// A model of choices that goes on learning.
#[derive(Debug)]
pub struct ChoiceLearner {
    card: Card,
    items: Ids,
    users: Ids,
    histories: Vec<SparseVec<f32>>,
    known: Recommended,
    state: State,
    query: Query,
}

#[derive(Debug)]
enum State {
    /// Rows are moved one by one.
    Rows(Box<Factored<f32>>),
    /// Steps of LORETA.
    Loreta(Box<Stepper>),
}

impl State {
    fn view(&self) -> FormRef<'_, f32> {
        match self {
            State::Rows(form) => FormRef::Factored(form),
            State::Loreta(stepper) => stepper.learner.form(),
        }
    }
}

impl Model {
    /// Makes a model of choices go on.
    pub fn into_choice_learner(self) -> Result<ChoiceLearner> {
        let items = self.recommended_items()?.clone();
        let Knowledge::Recommend(mut known) = self.knowledge else {
            return Err(self.knowledge.expected("recommend"));
        };
        let Form::Factored(form) = self.form.into_precision::<f32>()? else {
            return Err(Error::input(
                "a model of choices that is not stored by factors",
            ));
        };
        let own = |row: SparseRow<'_, f32>| SparseVec::from_entries(row.iter().collect());
        let histories = known.histories.iter().map(own).collect();
        known.histories = Rows::new();
        let state = match self.card.learner == RecommendLearner::Loreta.name() {
            true => State::Loreta(Box::new(Stepper::new(form)?)),
            false => {
                let mut form = form;
                form.left.untrack();
                form.right.untrack();
                State::Rows(Box::new(form))
            }
        };
        Ok(ChoiceLearner {
            card: self.card,
            items,
            users: std::mem::take(&mut known.users),
            histories,
            known,
            state,
            query: Query::default(),
        })
    }
}

impl ChoiceLearner {
    /// What was done so far.
    pub fn counters(&self) -> crate::model::Counters {
        self.card.counters
    }

    /// Who learned the model.
    pub fn learner(&self) -> &str {
        &self.card.learner
    }

    /// From here on what a user chose so many choices ago counts half; the model keeps it.
    pub fn set_half_life(&mut self, half_life: f64) -> Result<()> {
        if !(half_life > 0.0 && half_life.is_finite()) {
            return Err(Error::option(
                "half_life",
                format!("must be above 0, found {half_life}"),
            ));
        }
        self.known.card.half_life = Some(half_life);
        Ok(())
    }

    /// Writes the model as it is now.
    pub fn save(&self, path: impl AsRef<std::path::Path>) -> Result<()> {
        let model = self.to_model()?;
        crate::model::with_form!(&model.form, form => crate::model::check_usable(form.view()))?;
        model.save(path)
    }

    /// How many users and items there are.
    pub fn sizes(&self) -> (usize, usize) {
        (self.users.len(), self.items.len())
    }

    /// A user in the coordinates of the decoder.
    fn user(&mut self, number: Option<u32>, history: SparseRow<'_, f32>) -> Vec<f64> {
        let form = self.state.view();
        form.ask(&mut self.query, history);
        let k = form.rank();
        let mut user = self.query.projected()[..k].to_vec();
        self.known.begin(&mut user, number, history.len());
        let own = self.known.card.own.filter(|_| !history.is_empty());
        if let (Some(own), State::Rows(form)) = (own, &self.state) {
            let rows = form.right().padded_rows();
            let fold = FoldIn::with_gram(own.problem, rows, self.known.grams[1].clone());
            for (v, solved) in user.iter_mut().zip(fold.solve(history)) {
                *v += own.share * (solved - *v);
            }
        }
        user
    }

    /// Where an item would stand in the list of a user now, from 1; `None` where it would
    /// not be listed, because either is not known or the user has it already.
    pub fn rank_of(&mut self, user: &str, item: &str) -> Option<usize> {
        let item = self.items.find(item)?;
        let number = self.users.find(user);
        let history = number.map(|user| self.histories[user as usize].clone());
        let history = history.unwrap_or_default();
        let chosen = history.as_row().indices;
        if chosen.binary_search(&item).is_ok() {
            return None;
        }
        let vector = self.user(number, history.as_row());
        let mut scores = vec![0.0; self.items.len()];
        if vector.iter().all(|v| *v == 0.0) {
            scores.copy_from_slice(&self.known.popularity);
        } else {
            let right = self.state.view().factors().expect("factors").1;
            let mut padded_user = vec![0.0; padded(vector.len())];
            padded_user[..vector.len()].copy_from_slice(&vector);
            right.multiply_rows(&mut scores, 0, &padded_user);
        }
        let own = scores[item as usize];
        // Ties count against the model.
        let at_least = scores.iter().filter(|score| **score >= own).count();
        let seen = chosen
            .iter()
            .filter(|&&i| scores[i as usize] >= own)
            .count();
        Some(at_least - seen)
    }

    /// The gain of NDCG@10 that an item brings now: 0 where it is not among the first ten.
    pub fn gain_of(&mut self, user: &str, item: &str) -> Option<f64> {
        let rank = self.rank_of(user, item)?;
        Some(if rank <= 10 { gain(rank) } else { 0.0 })
    }

    /// Learns one choice of this weight.
    pub fn learn(&mut self, user: &str, item: &str, weight: f64) -> Result<Learned> {
        if !WEIGHTS.contains(&weight) {
            return Err(Error::input(format!(
                "expected a weight above 0, from 1e-9 to 1e9, found {weight}"
            )));
        }
        let user = self.users.intern(user) as usize;
        if user == self.histories.len() {
            self.histories.push(SparseVec::new());
            if !self.known.beginnings.is_empty() {
                let zeros = std::iter::repeat_n(0.0, self.known.prior.len());
                self.known.beginnings.extend(zeros);
            }
        }
        let item = self.items.intern(item);
        if item as usize == self.known.popularity.len() {
            self.grow()?;
        }
        let strength = self.known.card.weights.strength(weight);
        let history = std::mem::take(&mut self.histories[user]);
        let before = self.user(Some(user as u32), history.as_row());
        let learned = self.step(history.as_row(), &before, item, strength);
        count(&mut self.card.counters, 1, &learned);
        self.remember(user, &history, item, strength);
        self.turn(history.as_row().len(), &before, user);
        Ok(learned)
    }

    /// The weight of a user who chose so many items.
    fn weight_of(&self, chosen: usize) -> f64 {
        let card = &self.known.card;
        match card.own.is_some_and(|own| own.share >= 1.0) {
            true => 1.0,
            false => (chosen.max(1) as f64).powf(-card.damping) / card.weight_scale.max(1e-300),
        }
    }

    /// Follows a user in the Gram matrix of all.
    fn turn(&mut self, chosen: usize, before: &[f64], user: usize) {
        if matches!(self.state, State::Loreta(_)) {
            return;
        }
        let history = std::mem::take(&mut self.histories[user]);
        let after = self.user(Some(user as u32), history.as_row());
        let (old, new) = (
            self.weight_of(chosen),
            self.weight_of(history.as_row().len()),
        );
        let scaled = |v: &[f64], c: f64| padded_to(&v.iter().map(|v| c * v).collect::<Vec<_>>());
        let [plus, minus] = [(&after[..], new), (before, -old)].map(|(v, c)| scaled(v, c));
        let mut gram = self.known.grams[0].clone();
        gram.add_outer([&plus, &minus], [&padded_to(&after), &padded_to(before)]);
        if gram.norm().is_finite() {
            self.known.grams[0] = gram;
        }
        self.histories[user] = history;
    }

    /// Makes room for one item more.
    fn grow(&mut self) -> Result<()> {
        let items = self.items.len();
        match &mut self.state {
            State::Rows(form) => form.grow(items, items)?,
            State::Loreta(stepper) => {
                use crate::online::Learner;
                stepper.learner.grow(items, items)?;
            }
        }
        self.known.popularity.push(0.0);
        self.card.counters.new_features += 1;
        Ok(())
    }

    /// The history of a user after a choice.
    fn remember(&mut self, user: usize, before: &SparseVec<f32>, item: u32, strength: f64) {
        let fade = self.known.card.half_life.map_or(1.0, |h| (-1.0 / h).exp2());
        let mut entries: Vec<(u32, f32)> = before.as_row().iter().collect();
        for (_, strength) in &mut entries {
            *strength = (*strength * fade as f32).max(f32::MIN_POSITIVE);
        }
        match entries.iter_mut().find(|entry| entry.0 == item) {
            // Weights were added before their logarithm was taken.
            Some((_, now)) => {
                let scale = self.known.card.weights;
                let weight = scale.weight(f64::from(*now)) + scale.weight(strength);
                *now = scale.strength(weight.min(*WEIGHTS.end())) as f32;
            }
            None => {
                entries.push((item, strength as f32));
                self.known.popularity[item as usize] += 1.0;
            }
        }
        self.histories[user] = SparseVec::from_entries(entries);
    }

    fn step(
        &mut self,
        history: SparseRow<'_, f32>,
        user: &[f64],
        item: u32,
        strength: f64,
    ) -> Learned {
        let idle = Learned {
            score: 0.0,
            loss: 0.0,
            outcome: Outcome::Idle,
        };
        if history.is_empty() || history.indices.binary_search(&item).is_ok() {
            // Nothing says anything about the item.
            return idle;
        }
        if let State::Loreta(stepper) = &mut self.state {
            let mut chosen = history.indices.to_vec();
            chosen.push(item);
            chosen.sort_unstable();
            let step = Step {
                size: self.card.step_size,
                limit: Step::LIMIT,
            };
            let mut random = draws(self.card.seed, (1 << 40) + self.card.counters.steps);
            let items = self.items.len();
            return stepper.take(history, &chosen, item, items, step, &mut random);
        }
        self.least_squares(history, user, item, strength)
    }

    /// One step of least squares on the rows of an item.
    fn least_squares(
        &mut self,
        history: SparseRow<'_, f32>,
        user: &[f64],
        item: u32,
        strength: f64,
    ) -> Learned {
        let (k, j) = (user.len(), item as usize);
        let State::Rows(form) = &mut self.state else {
            unreachable!("rows are moved one by one");
        };
        let row: Vec<f64> = form.right.row(j).iter().map(|v| f64::from(*v)).collect();
        let score: f64 = row.iter().zip(user).map(|(r, u)| r * u).sum();
        let refused = Learned {
            score,
            loss: (strength - score).powi(2),
            outcome: Outcome::Refused,
        };
        let n = self.known.popularity[j];
        let solved = self.known.card.own.filter(|own| own.share >= 1.0);
        // What the item is solved by, and how far its target is from what is said.
        let (mut gram, residual) = match solved {
            Some(own) => {
                let users = self.histories.len().max(1) as f64;
                let mut gram = self.known.grams[0].clone();
                let alpha = own.problem.alpha;
                gram.combine(0.0, alpha + n / users, &gram.clone());
                let ridge = own.problem.lambda * (n + alpha * users).sqrt();
                gram.add_diagonal(ridge);
                (gram, strength * (1.0 - score))
            }
            None => {
                let weight = self.weight_of(history.len());
                (self.known.grams[0].clone(), weight * strength)
            }
        };
        if solved.is_some() {
            gram.add_outer([&padded_to(user)], [&padded_to(user)]);
        }
        let Some(inverse) = invert_definite(&gram) else {
            return refused;
        };
        let mut change = vec![0.0; padded(k)];
        inverse.multiply(&mut change, &padded_to(user));
        let moved: Vec<f64> = row
            .iter()
            .zip(&change)
            .map(|(r, c)| r + residual * c)
            .collect();
        let largest = |row: &[f64]| row.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        if !(largest(&moved) < 1e15) {
            return refused;
        }
        let mut items = self.known.grams[1].clone();
        let (old, new) = (padded_to(&row), padded_to(&moved));
        let minus: Vec<f64> = old.iter().map(|v| -v).collect();
        items.add_outer([&new, &minus], [&new, &old]);
        let says = match solved {
            Some(own) => own_encoder(&items, own.problem, self.items.len(), &moved),
            None => self.says(history, user, &items, n),
        };
        let Some(says) = says.filter(|row| largest(row) < 1e15) else {
            return refused;
        };
        let State::Rows(form) = &mut self.state else {
            unreachable!("rows are moved one by one");
        };
        for (to, v) in form.right.row_mut(j).iter_mut().zip(&moved) {
            *to = *v as f32;
        }
        let before: Vec<f64> = form.left.row(j).iter().map(|v| f64::from(*v)).collect();
        for ((to, v), before) in form.left.row_mut(j).iter_mut().zip(&says).zip(&before) {
            let taken = match solved {
                Some(_) => *v,
                None => before + v,
            };
            *to = taken as f32;
        }
        self.known.grams[1] = items;
        Learned {
            outcome: Outcome::Moved,
            ..refused
        }
    }

    /// The change of what an item says: what its user has beside what is said of them, in the
    /// space of the decoder, less the more choices the item has.
    fn says(
        &self,
        history: SparseRow<'_, f32>,
        user: &[f64],
        items: &Square,
        n: f64,
    ) -> Option<Vec<f64>> {
        let k = user.len();
        let mut ridged = items.clone();
        ridged.add_diagonal(1e-6 * items.trace() / k as f64 + f64::MIN_POSITIVE);
        let inverse = invert_definite(&ridged)?;
        let State::Rows(form) = &self.state else {
            return None;
        };
        let mut sum = vec![0.0; padded(k)];
        for (chosen, strength) in history.iter() {
            let row = form.right.row(chosen as usize);
            for (sum, v) in sum.iter_mut().zip(row) {
                *sum += f64::from(strength) * f64::from(*v);
            }
        }
        let mut has = vec![0.0; padded(k)];
        inverse.multiply(&mut has, &sum);
        let rate = 1.0 / (n + 1.0 + self.known.card.regularization);
        let change = has.iter().zip(user).map(|(has, said)| rate * (has - said));
        Some(change.collect())
    }

    /// The model as it is now.
    pub fn to_model(&self) -> Result<Model> {
        let mut histories: Rows<f32> = Rows::new();
        self.histories
            .iter()
            .for_each(|row| histories.push(row.as_row()));
        histories.widen(self.items.len());
        let known = Recommended {
            users: self.users.clone(),
            histories,
            ..self.known.clone()
        };
        Ok(Model {
            card: self.card.clone(),
            form: Precise::new(self.state.view().to_form()),
            features: Features::Named(self.items.clone()),
            preprocess: Preprocess::default(),
            objects: Some(Objects {
                features: Features::Named(self.items.clone()),
                preprocess: Preprocess::default(),
            }),
            knowledge: Knowledge::Recommend(known),
        })
    }
}

fn padded_to(v: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; padded(v.len())];
    out[..v.len()].copy_from_slice(v);
    out
}

/// What choosing an item says, where users are solved for: the start of the solution.
fn own_encoder(
    items: &Square,
    problem: crate::batch::Implicit,
    count: usize,
    decoder: &[f64],
) -> Option<Vec<f64>> {
    let mut gram = items.clone();
    gram.combine(0.0, problem.alpha, &items.clone());
    gram.add_diagonal(problem.lambda * (problem.alpha * count as f64 + 1.0).sqrt());
    let mut out = vec![0.0; padded(decoder.len())];
    invert_definite(&gram)?.multiply(&mut out, &padded_to(decoder));
    out.truncate(decoder.len());
    Some(out)
}
