//! Ratings one after the other: online solvers, and models that go on learning.

use super::learner::CompletionLearner;
use crate::batch::Fitted;
use crate::data::LARGEST_RATING;
use crate::form::{Factored, Form, Newcomer, Polar, Tall};
use crate::model::{Card, Counters, Knowledge, Model, Objects, Precise, Rated};
use crate::online::{AnyLearner, BIAS_RIDGE, FoldIn, Learner, Outcome, RankOne, Rule, Step};
use crate::random::normal_at;
use crate::{Error, Ids, Loss, Real, Result, SparseRow};
use faer::Mat;
use std::path::Path;

/// How W moves.
enum Mover<R> {
    /// By an online rule of its geometry.
    Rule(Box<AnyLearner<R>>),
    /// By least squares for the rows of the rating.
    FoldIn(Box<FoldIn<R>>),
}

/// A model of ratings that takes one rating after the other.
pub struct RatingLearner<R> {
    mover: Mover<R>,
    card: Card,
    known: Rated,
    users: Ids,
    items: Ids,
    /// Users and items when training ended.
    trained: (usize, usize),
}

/// The online rule of a learner, where it has one.
pub(super) fn rule_of(learner: CompletionLearner) -> Option<Rule> {
    match learner {
        CompletionLearner::Balanced => Some(Rule::Balanced),
        CompletionLearner::Polar => Some(Rule::Polar),
        CompletionLearner::Gradient => Some(Rule::Gradient),
        CompletionLearner::Loreta => Some(Rule::Loreta),
        _ => None,
    }
}

/// A form for a rule, from the factors of W.
pub(super) fn form_for<R: Real>(rule: Option<Rule>, form: Factored<R>) -> Result<Form<R>> {
    match rule {
        Some(Rule::Polar) => {
            let polar = Polar::from_factored(form).ok_or_else(crate::model::rank_lost)?;
            Ok(Form::Polar(polar))
        }
        _ => Ok(Form::Factored(form)),
    }
}

/// How much the prediction for a usual place changes by a step of size one with a
/// residual of one.
pub(super) fn gain(learner: CompletionLearner, model: &Fitted) -> f64 {
    let lines = [model.left.nrows(), model.right.nrows()];
    let per_line = lines.map(|n| 1.0 / n.max(1) as f64).iter().sum::<f64>();
    let (g, h) = (
        crate::manifold::gram(&model.left),
        crate::manifold::gram(&model.right),
    );
    let size = match learner {
        CompletionLearner::Loreta => model.rank() as f64,
        CompletionLearner::Gradient => {
            let trace = |m: &Mat<f64>| (0..m.nrows()).map(|i| m[(i, i)]).sum::<f64>();
            (trace(&g) * trace(&h)).sqrt()
        }
        _ => crate::manifold::dot(&g, &h),
    };
    size * per_line
}

/// The place of a rating as an example.
fn place<'a, R: Real>(user: &'a u32, item: &'a u32, one: &'a [R; 1]) -> RankOne<'a, R> {
    let row = |index| SparseRow {
        indices: std::slice::from_ref(index),
        values: one,
    };
    RankOne {
        left: row(user),
        right: row(item),
    }
}

/// One step on the rating of a place: W by its rule, then the biases by ridge
/// regression on what has come so far. Returns the squared error before.
pub(super) fn step_on<R: Real>(
    learner: &mut AnyLearner<R>,
    bias: Option<&mut [Vec<f64>; 2]>,
    counts: [f64; 2],
    (user, item, rating): (u32, u32, f64),
    center: f64,
    step: f64,
) -> (f64, Outcome) {
    let one = [R::from_f64(1.0)];
    let example = place(&user, &item, &one);
    let (u, i) = (user as usize, item as usize);
    let offset = bias.as_ref().map_or(0.0, |[b, c]| b[u] + c[i]);
    let target = rating - center - offset;
    let learned = learner.learn(example, target, Loss::Squared, Step::new(step));
    let error = learned.score - target;
    if let Some([b, c]) = bias {
        b[u] -= error / (counts[0] + BIAS_RIDGE);
        c[i] -= error / (counts[1] + BIAS_RIDGE);
    }
    (learned.loss, learned.outcome)
}

impl Model {
    /// Goes on learning from ratings; an error for models of other tasks.
    pub fn into_rating_learner<R: Real>(self) -> Result<RatingLearner<R>> {
        self.rating_ids()?;
        let Knowledge::Completion(known) = self.knowledge else {
            return Err(self.knowledge.expected("completion"));
        };
        let names = |features| match features {
            crate::data::Features::Named(names) => names,
            _ => Ids::new(),
        };
        let users = names(self.features);
        let items = self.objects.map_or(Ids::new(), |o| names(o.features));
        let form: Form<R> = self.form.into_precision()?;
        let learner = self.card.learner.parse::<CompletionLearner>().ok();
        let rule = learner
            .and_then(rule_of)
            .filter(|_| self.card.step_size > 0.0);
        let (counters, shape) = (&self.card.counters, form.view().shape());
        let before = |now: usize, new: u64| now.saturating_sub(new as usize);
        let trained = (
            before(shape.0, counters.new_features),
            before(shape.1, counters.new_object_features),
        );
        let mover = match rule {
            Some(rule) => {
                let lambda = known.card.regularization.unwrap_or(0.0);
                let online = known.card.solver == "online";
                let learner = AnyLearner::new(rule, form, self.card.counters.steps)?
                    .regularized(if online { lambda } else { 0.0 })
                    .retracted(self.card.retraction.unwrap_or_default());
                Mover::Rule(Box::new(learner))
            }
            None => {
                let fold_in = FoldIn::new(form, known.biases.folds.clone())?;
                Mover::FoldIn(Box::new(fold_in))
            }
        };
        Ok(RatingLearner {
            mover,
            card: self.card,
            known,
            users,
            items,
            trained,
        })
    }
}

/// A rating so many times as far from the mean as those of training is no rating: it
/// would cost W its rank.
const WILD: f64 = 1e5;

impl<R: Real> RatingLearner<R> {
    /// How W moves: the name of an online rule, or `fold-in`.
    pub fn rule(&self) -> &'static str {
        match &self.mover {
            Mover::Rule(_) => {
                let learner = self.card.learner.parse::<CompletionLearner>().ok();
                learner.map_or("", CompletionLearner::name)
            }
            Mover::FoldIn(_) => "fold-in",
        }
    }

    /// What has been done.
    pub fn counters(&self) -> Counters {
        self.card.counters
    }

    /// What the model says about itself.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Users and items.
    pub fn shape(&self) -> (usize, usize) {
        (self.users.len(), self.items.len())
    }

    /// Sets the step from here on.
    pub fn set_step_size(&mut self, size: f64) -> Result<()> {
        if !(size > 0.0 && size.is_finite()) {
            return Err(Error::input(format!(
                "the step size must be above 0, found {size}"
            )));
        }
        match self.mover {
            Mover::Rule(_) => {
                self.card.step_size = size;
                Ok(())
            }
            Mover::FoldIn(_) => Err(Error::input(
                "the model folds ratings in by least squares, which have no step size",
            )),
        }
    }

    /// Whether a rating is out of all proportion to those of training.
    fn is_wild(&self, rating: f64) -> bool {
        let card = &self.known.card;
        let range = card.scale.map_or(0.0, |(low, high)| high - low);
        let usual = card.mean.abs().max(card.residual).max(range);
        (rating - card.mean).abs() > WILD * usual.max(f64::MIN_POSITIVE)
    }

    /// Learns from a rating; new users and items are welcome. One that is more than
    /// 100,000 times as large as those of training is refused and counted. Returns the error of
    /// the prediction before.
    pub fn learn(&mut self, user: &str, item: &str, rating: f64) -> Result<f64> {
        if !(rating.abs() <= LARGEST_RATING) {
            return Err(Error::input(format!("expected a rating, found {rating}")));
        }
        if self.is_wild(rating) {
            // Nothing changes but the count: no row of W could hold such a value beside
            // the others.
            let counters = &mut self.card.counters;
            counters.steps += 1;
            counters.refused += 1;
            return Ok((rating - self.known.card.mean).abs());
        }
        let (u, i) = (self.users.intern(user), self.items.intern(item));
        let (users, items) = (self.users.len(), self.items.len());
        let known = self.known.biases.count[0].len() + self.known.biases.count[1].len();
        if users + items > known {
            match &mut self.mover {
                Mover::Rule(learner) => learner.grow(users, items)?,
                Mover::FoldIn(fold_in) => fold_in.grow(users, items)?,
            }
            let new = (users - self.known.biases.count[0].len()) as u64;
            self.card.counters.new_features += new;
            self.card.counters.new_object_features += (users + items - known) as u64 - new;
            self.known.biases.grow(users, items);
        }
        let counts = [
            self.known.biases.count[0][u as usize] as f64,
            self.known.biases.count[1][i as usize] as f64,
        ];
        let center = self.known.card.mean;
        let (loss, outcome) = match &mut self.mover {
            Mover::Rule(learner) => {
                if u as usize >= self.trained.0 && i as usize >= self.trained.1 {
                    let seed = self.card.seed;
                    let one = [R::from_f64(1.0)];
                    let place = place(&u, &i, &one);
                    let newcomer = Newcomer {
                        left: place.left,
                        right: place.right,
                        rows: self.trained.0,
                        normal: &|row, column| normal_at(seed, 5, u64::from(row), column as u64),
                    };
                    self.card.counters.seeded += u64::from(learner.seed(&newcomer));
                }
                step_on(
                    learner,
                    self.known.biases.bias.as_mut(),
                    counts,
                    (u, i, rating),
                    center,
                    self.card.step_size,
                )
            }
            Mover::FoldIn(fold_in) => {
                let bias = self.known.biases.bias.as_mut();
                fold_in.learn((u, i), rating - center, bias, counts)
            }
        };
        // What biases alone would predict goes on too.
        let [users, items] = &mut self.known.biases.baseline;
        let baseline = self.known.card.baseline_mean + users[u as usize] + items[i as usize];
        users[u as usize] -= (baseline - rating) / (counts[0] + 1.0 + BIAS_RIDGE);
        items[i as usize] -= (baseline - rating) / (counts[1] + 1.0 + BIAS_RIDGE);
        for (side, at) in [u, i].into_iter().enumerate() {
            self.known.biases.count[side][at as usize] += 1;
        }
        if let Some(variances) = &mut self.known.biases.variances {
            let numbers = self.known.biases.folds[0].usual.len().isqrt();
            let noise = self.known.card.noise.unwrap_or(0.0).powi(2);
            variances[0].learned(u as usize, numbers, noise);
            variances[1].learned(i as usize, numbers, noise);
        }
        let counters = &mut self.card.counters;
        counters.steps += 1;
        counters.updates += u64::from(outcome == Outcome::Moved);
        counters.refused += u64::from(outcome == Outcome::Refused);
        counters.add_loss(loss);
        Ok((2.0 * loss).sqrt())
    }

    fn into_form(self) -> (Form<R>, Card, Rated, Ids, Ids) {
        let form = match self.mover {
            Mover::Rule(learner) => learner.into_form(),
            Mover::FoldIn(fold_in) => fold_in.into_form(),
        };
        (form, self.card, self.known, self.users, self.items)
    }

    /// The model, with all that was learned.
    pub fn into_model(self) -> Model {
        let (form, card, known, users, items) = self.into_form();
        Model {
            form: Precise::new(form),
            card,
            features: crate::data::Features::Named(users),
            preprocess: Default::default(),
            objects: Some(Objects {
                features: crate::data::Features::Named(items),
                preprocess: Default::default(),
            }),
            knowledge: Knowledge::Completion(known),
        }
    }

    /// A copy of the model as it is now: what [`RatingLearner::save`] writes.
    pub fn to_model(&self) -> Result<Model> {
        let form = match &self.mover {
            Mover::Rule(learner) => learner.form(),
            Mover::FoldIn(fold_in) => fold_in.form(),
        };
        crate::model::check_usable(form)?;
        let plain = crate::model::Preprocess::default();
        Ok(Model {
            form: Precise::new(form.to_form()),
            card: self.card.clone(),
            features: crate::data::Features::Named(self.users.clone()),
            preprocess: plain.clone(),
            objects: Some(Objects {
                features: crate::data::Features::Named(self.items.clone()),
                preprocess: plain,
            }),
            knowledge: Knowledge::Completion(self.known.clone()),
        })
    }

    /// Writes the model as it is now.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let features = crate::data::Features::Named(self.users.clone());
        let objects = crate::data::Features::Named(self.items.clone());
        let plain = crate::model::Preprocess::default();
        let form = match &self.mover {
            Mover::Rule(learner) => learner.form(),
            Mover::FoldIn(fold_in) => fold_in.form(),
        };
        crate::model::check_usable(form).map_err(|e| e.in_file(&path))?;
        crate::model::save_parts(
            path.as_ref(),
            (&self.card, &Knowledge::Completion(self.known.clone())),
            form,
            (&features, &plain),
            Some((&objects, &plain)),
            Vec::new(),
        )
    }
}

/// W of a fit as tall factors.
pub(super) fn tall_factors<R: Real>(model: &Fitted) -> Result<Factored<R>> {
    let tall = |m: &Mat<f64>| Tall::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)]);
    Ok(Factored::new(tall(&model.left)?, tall(&model.right)?))
}

/// The factors of a form in the balanced gauge.
pub(super) fn factors_of<R: Real>(learner: &AnyLearner<R>) -> Option<(Mat<f64>, Mat<f64>)> {
    learner.form().balanced_factors().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::super::{Completion, CompletionLearner, CompletionSolver};
    use super::*;
    use crate::data::Ratings;
    use crate::random::splitmix64;

    /// Ratings of a planted model, and what it says of other places.
    fn planted(users: usize, items: usize) -> (Ratings, impl Fn(usize, usize) -> f64) {
        let truth = |u: usize, i: usize| {
            let row = |side: u64, at: usize, j: u64| normal_at(7, side, at as u64, j);
            let bias = 0.3 * row(2, u, 0) + 0.3 * row(3, i, 0);
            3.0 + bias + 0.6 * (0..2).map(|j| row(0, u, j) * row(1, i, j)).sum::<f64>()
        };
        let (mut names, mut things) = (Ids::new(), Ids::new());
        for u in 0..users {
            names.intern(&format!("u{u}"));
        }
        for i in 0..items {
            things.intern(&format!("i{i}"));
        }
        let known = (0..users * items).filter(|&t| splitmix64(t as u64) % 10 < 4);
        let entries = known.map(|t| {
            let (u, i) = (t / items, t % items);
            let noise = 0.1 * normal_at(8, 0, u as u64, i as u64);
            (u as u32, i as u32, truth(u, i) + noise)
        });
        (
            Ratings::new(names, things, entries.collect()).unwrap(),
            truth,
        )
    }

    fn rmse(model: &Model, users: usize, items: usize, truth: impl Fn(usize, usize) -> f64) -> f64 {
        let predictor = model.rating_predictor().unwrap();
        let (mut sum, mut count) = (0.0, 0.0);
        for u in 0..users {
            for i in 0..items {
                let found = predictor.raw(Some(u as u32), Some(i as u32));
                sum += (found - truth(u, i)).powi(2);
                count += 1.0;
            }
        }
        f64::sqrt(sum / count)
    }

    #[test]
    fn online_solvers_learn_ratings() {
        for learner in [
            CompletionLearner::Balanced,
            CompletionLearner::Polar,
            CompletionLearner::Gradient,
            CompletionLearner::Loreta,
        ] {
            let (ratings, truth) = planted(80, 60);
            let options = Completion::new(learner)
                .solver(CompletionSolver::Online)
                .rank(2)
                .clip(super::super::Clip::None)
                .iterations(60);
            let model = options.fit::<f64>(ratings).unwrap();
            let error = rmse(&model, 80, 60, &truth);
            assert!(error < 0.15, "{learner:?} {error}");
            assert!(model.card.step_size > 0.0);
        }
    }

    #[test]
    fn new_users_and_items_are_learned_whatever_the_learner() {
        for learner in [
            CompletionLearner::Bayes,
            CompletionLearner::Als,
            CompletionLearner::Polar,
            CompletionLearner::Balanced,
            CompletionLearner::Gradient,
        ] {
            let (ratings, truth) = planted(80, 60);
            let mut options = Completion::new(learner)
                .rank(2)
                .clip(super::super::Clip::None);
            if learner == CompletionLearner::Als {
                options = options.regularization(0.1);
            }
            let model = options.fit::<f64>(ratings).unwrap();
            let before = rmse(&model, 80, 60, &truth);
            let mut learner_of = model.into_rating_learner::<f64>().unwrap();
            // A new user with the taste of user 3 rates all but ten items, many times
            // where steps are small.
            let passes = if learner_of.rule() == "fold-in" {
                1
            } else {
                30
            };
            for _ in 0..passes {
                for i in 0..50 {
                    learner_of
                        .learn("new", &format!("i{i}"), truth(3, i))
                        .unwrap();
                }
            }
            learner_of.learn("new", "new item", 3.0).unwrap();
            learner_of.learn("newer", "newer item", 3.0).unwrap();
            assert_eq!(learner_of.shape(), (82, 62));
            assert_eq!(learner_of.counters().new_features, 2);
            let model = learner_of.into_model();
            let predictor = model.rating_predictor().unwrap();
            let square: f64 = (50..60)
                .map(|i| (predictor.raw(Some(80), Some(i as u32)) - truth(3, i)).powi(2))
                .sum();
            let error = (square / 10.0).sqrt();
            assert!(error < 0.35, "{learner:?}: {error}");
            let after = rmse(&model, 80, 60, &truth);
            assert!(after < before + 0.1, "{learner:?}: {before} {after}");
        }
    }

    #[test]
    fn a_wild_rating_changes_nothing() {
        for learner in [
            CompletionLearner::Bayes,
            CompletionLearner::Als,
            CompletionLearner::Gradient,
        ] {
            let (ratings, _) = planted(30, 25);
            let mut options = Completion::new(learner).rank(2);
            if learner != CompletionLearner::Bayes {
                options = options.regularization(1e-3);
            }
            let model = options.fit::<f32>(ratings).unwrap();
            // As a learner that learned nothing leaves it.
            let model = model.into_rating_learner::<f32>().unwrap().into_model();
            for wild in [3e9, -1e10, 1e30] {
                let mut learner_of = model.clone().into_rating_learner::<f32>().unwrap();
                learner_of.learn("new", "i1", wild).unwrap();
                learner_of.learn("u1", "i1", wild).unwrap();
                let mut after = learner_of.into_model();
                assert_eq!(after.card.counters.refused, 2, "{learner:?} {wild}");
                after.card.counters = model.card.counters;
                assert!(after == model, "{learner:?} {wild}");
            }
        }
    }

    #[test]
    fn a_stream_in_two_sittings_gives_the_same_model() {
        for learner in [CompletionLearner::Bayes, CompletionLearner::Balanced] {
            let (ratings, truth) = planted(30, 25);
            let mut options = Completion::new(learner).rank(2);
            if learner == CompletionLearner::Balanced {
                options = options.regularization(1e-6);
            }
            let model = options.fit::<f32>(ratings).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name);
            let stream: Vec<_> = (0..40).map(|t| (25 + t % 10, (t * 7) % 30)).collect();
            let learn = |model: Model, part: &[(usize, usize)], name: &str| {
                let mut learner = model.into_rating_learner::<f32>().unwrap();
                for &(u, i) in part {
                    let rating = truth(u, i).clamp(1.0, 5.0);
                    learner
                        .learn(&format!("u{u}"), &format!("i{i}"), rating)
                        .unwrap();
                }
                learner.save(path(name)).unwrap();
            };
            learn(model.clone(), &stream, "whole");
            learn(model, &stream[..17], "half");
            learn(Model::load(path("half")).unwrap(), &stream[17..], "rest");
            let bytes = |name: &str| std::fs::read(path(name)).unwrap();
            assert!(bytes("whole") == bytes("rest"), "{learner:?}");
        }
    }
}
