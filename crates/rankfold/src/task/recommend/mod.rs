//! Recommendation: lists of items for users, from what users chose.
//!
//! score(user, item) = Σ strength · (E Dᵀ)[chosen, item] over what the user chose. W = E Dᵀ is
//! a matrix of items by items and of fixed rank, so that a new user needs no training.

mod baselines;
mod evaluation;
mod features;
mod fit;
mod judge;
mod online;
mod walk;

pub use baselines::ListBaseline;
pub use evaluation::UserLists;
pub(super) use evaluation::list_metrics;
pub use online::ChoiceLearner;

use super::course::Course;
use super::driver::Driver;
use super::hold_out::hold_out_some;
use super::inputs::Fingerprint;
use super::run::{Fit, Run};
use super::start::{self, Side, Start, StartInit};
use super::{Learn, Rank, check_validation, threads};
use crate::batch::{Ended, Implicit};
use crate::data::{Choices, Features, Labelled};
use crate::eval::Wanted;
use crate::form::{Form, Tall};
use crate::linalg::svd;
use crate::model::{Model, Own, Preprocess, RecommendCard, Recommended, WeightScale};
use crate::options::Options;
use crate::random::splitmix64;
use crate::{Error, Ids, Result, Rows, SparseVec, choices, options};
use faer::Mat;
use features::UserFeatures;
use fit::{Decided, Fitting};
use judge::Judge;
use std::borrow::Cow;

choices! {
    /// How W is learned.
    pub enum RecommendLearner {
        /// The one of `items` and `als` that does best on held-out choices
        Auto = "auto",
        /// A regression of every item on all others, without what an item says of itself
        Items = "items",
        /// Least squares on all pairs of users and items, in turn for both sides
        Als = "als",
        /// Steps of LORETA on W from `items`: a chosen item above one that was not
        Loreta = "loreta",
    }
}

choices! {
    /// Whether `items` learns the lists of a regression of full rank.
    pub enum Teacher {
        /// `full` for up to 5,000 items, and 10¹¹ choices times items, unless that is clearly worse
        /// on held-out choices
        Auto = "auto",
        /// Fit the heads of the lists of a regression of full rank (EASE with the weights and
        /// penalties of `items`), whose work grows with the cube of the items
        Full = "full",
        /// Fit what was chosen
        None = "none",
    }
}

/// The rank unless another is asked for.
const RANK: usize = 64;

/// The share of choices that settings are chosen on, where nothing else was asked for.
const TENTH: u64 = 10;

/// Users whose choices are held out for that, at most.
const JUDGING_USERS: usize = 5_000;

options! {
    /// Learns what to show to whom: options with their defaults, then [`Recommend::fit`].
    ///
    /// ```
    /// use rankfold::Recommend;
    /// use rankfold::data::Choices;
    ///
    /// let choices = Choices::from_entries((0..60).map(|i| (i % 10, (i * 7) % 12, 1.0)))?;
    /// let model = Recommend::default().rank(2).fit(&choices)?;
    /// assert_eq!(model.recommended_items()?.len(), 12);
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub struct Recommend: "recommend" {
        /// Learning algorithm.
        learner: RecommendLearner = RecommendLearner::Auto;
        /// Rank of W; `auto` is 64, or less where there are few users or items.
        rank: Rank = Rank::AUTO, in Range::COUNT;
        /// Penalty λ [default: chosen on held-out choices].
        regularization: Option<f64> = None, in Range::POSITIVE,
            for "`items`, `als` and `loreta`" if |o| o.learner != RecommendLearner::Auto;
        /// What a pair that was not chosen weighs beside one that was.
        unchosen_weight: f64 = 0.3, in Range::POSITIVE,
            for "`als`" if |o| o.learner == RecommendLearner::Als;
        /// Users who chose n items weigh n to minus this, so that those who chose very much do
        /// not decide alone.
        damping: f64 = 0.5, in Range::NOT_NEGATIVE,
            for "learners other than `als`" if |o| o.learner != RecommendLearner::Als;
        /// The share of a user that is solved for, to explain best what they chose; the rest is
        /// the sum of what they chose [default: 0 or 0.3, chosen on held-out choices].
        own_share: Option<f64> = None, in Range::UNIT,
            for "`items`" if |o| o.learner == RecommendLearner::Items;
        /// What `items` is fitted to in the end.
        teacher: Teacher = Teacher::Auto,
            for "`items`" if |o| o.learner == RecommendLearner::Items;
        /// What weights mean, and how often an item was chosen.
        weights: WeightScale = WeightScale::Log;
        /// After how many choices of a user an earlier one counts half [default: never].
        half_life: Option<f64> = None, in Range::POSITIVE;
        /// Iterations [default: 6 of `items`, or 3 after trials; 12 of `als`]. A teacher adds 3.
        iterations: Option<usize> = None, in Range::COUNT, effect Length;
        /// Steps of LORETA [default: as many as there are choices].
        steps: Option<u64> = None,
            for "`loreta`" if |o| o.learner == RecommendLearner::Loreta;
        /// Step size of LORETA [default: the best of a few on held-out choices].
        step_size: Option<f64> = None, in Range::POSITIVE,
            for "`loreta`" if |o| o.learner == RecommendLearner::Loreta;
        shared init;
        shared valid_fraction;
        shared seed;
        shared threads;
        shared curve_every;
    }
}

/// What recommendations are learned from.
#[derive(Debug, Clone)]
pub struct RecommendData<'a> {
    /// What users chose.
    pub choices: Cow<'a, Choices>,
    /// What they chose beside that, to validate by.
    pub valid: Option<&'a Choices>,
    /// Features of items, by id: items that nobody chose can then be shown as well.
    pub item_rows: Option<&'a Labelled<f32>>,
    /// Features of users, by id: users who chose nothing yet then get lists of their own.
    pub user_rows: Option<&'a Labelled<f32>>,
    /// The rating from which an item counted as chosen, to be kept in the model.
    pub liked_from: Option<f64>,
}

impl<'a> From<&'a Choices> for RecommendData<'a> {
    fn from(choices: &'a Choices) -> Self {
        RecommendData {
            choices: Cow::Borrowed(choices),
            valid: None,
            item_rows: None,
            user_rows: None,
            liked_from: None,
        }
    }
}

/// How strong choices are: their weights, with what is long ago counting less.
fn strengths(choices: &Choices, scale: WeightScale, half_life: Option<f64>) -> Rows<f32> {
    let mut later = choices.later.iter();
    let mut out = Rows::new();
    let mut line = SparseVec::new();
    for row in choices.weights.iter() {
        line.clear();
        for (item, weight) in row.iter() {
            let later = f64::from(*later.next().expect("one a choice"));
            let faded = half_life.map_or(1.0, |half_life| (-later / half_life).exp2());
            let strength = scale.strength(f64::from(weight)) * faded;
            line.push(item, strength.max(f64::from(f32::MIN_POSITIVE)) as f32);
        }
        out.push(line.as_row());
    }
    out.widen(choices.items.len());
    // Solvers and models keep copies of it.
    out.shrink();
    out.share();
    out
}

/// The rows without some entries, and those entries by row.
fn without(rows: &Rows<f32>, held: impl Fn(usize, usize) -> bool) -> (Rows<f32>, Vec<Wanted>) {
    let (mut kept, mut line) = (Rows::new(), SparseVec::new());
    let mut wanted = Vec::with_capacity(rows.len());
    let mut number = 0;
    for (user, row) in rows.iter().enumerate() {
        line.clear();
        let mut items = Vec::new();
        for (item, strength) in row.iter() {
            match held(user, number) {
                true => items.push(item),
                false => line.push(item, strength),
            }
            number += 1;
        }
        kept.push(line.as_row());
        wanted.push(Wanted { items, missing: 0 });
    }
    kept.widen(rows.columns());
    kept.share();
    (kept, wanted)
}

impl Recommend {
    /// By the name of the learner.
    pub fn new(learner: RecommendLearner) -> Self {
        Self::default().learner(learner)
    }

    /// Checks the options.
    pub fn check(&self) -> Result<()> {
        self.check_table()
    }

    /// Learns from choices.
    pub fn fit<'a>(&self, data: impl Into<RecommendData<'a>>) -> Result<Model> {
        Ok(self.fit_with(data.into(), Run::default())?.model)
    }

    fn rank_for(&self, users: usize, items: usize) -> Result<usize> {
        match self.rank.given() {
            None => Ok(RANK.min(users / 2).min(items / 2).max(1)),
            Some(k) if k > items => Err(Error::option(
                "rank",
                format!("is {k}, above the number of items, {items}"),
            )),
            Some(k) if k > users => Err(Error::option(
                "rank",
                format!("is {k}, above the number of users, {users}"),
            )),
            Some(k) => Ok(k),
        }
    }

    /// Whether something is chosen on held-out choices.
    fn chooses(&self) -> bool {
        match self.learner {
            RecommendLearner::Auto => true,
            RecommendLearner::Items => {
                self.regularization.is_none()
                    || self.own_share.is_none()
                    || self.teacher == Teacher::Auto
            }
            RecommendLearner::Als => self.regularization.is_none(),
            RecommendLearner::Loreta => self.regularization.is_none() || self.step_size.is_none(),
        }
    }

    /// The same with validation data, an observer and checkpoints. Without validation data
    /// settings are chosen on a tenth of the choices, which are learned from afterwards.
    pub fn fit_with(&self, data: RecommendData<'_>, run: Run<'_>) -> Result<Fit> {
        self.check()?;
        check_validation(data.valid.is_some(), self.valid_fraction)?;
        let choices = &*data.choices;
        let all = strengths(choices, self.weights, self.half_life);
        let mut hash = Fingerprint(0);
        hash.rows(&all);
        hash.ids(&choices.users);
        hash.ids(&choices.items);
        let described = [data.item_rows, data.user_rows];
        described
            .iter()
            .flatten()
            .for_each(|rows| hash.rows(&rows.rows));
        let described = data
            .user_rows
            .map(|rows| UserFeatures::new(rows, &choices.users, threads(self.threads)))
            .transpose()?;
        // What is judged by: validation data, a share that was asked for, or nothing.
        let (learned, judge) = match data.valid {
            Some(valid) => {
                hash.rows(&valid.weights);
                let wanted = wanted_of(valid, &choices.users, &choices.items);
                (Cow::Borrowed(&all), Some(wanted))
            }
            None if self.valid_fraction > 0.0 => {
                let groups: Vec<u32> = (0_u32..)
                    .zip(all.iter())
                    .flat_map(|(user, row)| std::iter::repeat_n(user, row.len()))
                    .collect();
                let (count, fraction) = (all.nnz(), self.valid_fraction);
                let (_, held) =
                    hold_out_some("choices", count, Some(&groups), fraction, self.seed)?;
                let (kept, wanted) = without(&all, |_, number| {
                    held.binary_search(&(number as u32)).is_ok()
                });
                (Cow::Owned(kept), Some(wanted))
            }
            None => (Cow::Borrowed(&all), None),
        };
        let judge = judge.map(|wanted| Judge::new(&learned, wanted, threads(self.threads)));
        let iterations = self.iterations.unwrap_or(match self.learner {
            RecommendLearner::Als => fit::ALS_SWEEPS,
            _ => fit::ITEM_SWEEPS,
        });
        let course = Course::new(iterations as u64, self.curve_every.or(Some(1)))
            .judged_by(|metrics| metrics.get("ndcg_at_10").copied().unwrap_or(f64::NAN));
        let mut driver: Driver<'_, (Mat<f64>, Mat<f64>)> = Driver::new(run, course, self, hash.0)?;
        let resumed = driver.resume(self)?;
        let given = driver.started::<Recommend>(self.init == StartInit::Model, |start| {
            self.started_from(start, choices)
        })?;
        let rank = match &given {
            Some(given) => given[0].ncols(),
            None => self.rank_for(choices.users.len(), choices.items.len())?,
        };
        let fitting = Fitting {
            options: self,
            rank,
            given: given.as_deref(),
            threads: threads(self.threads),
            described: described.as_ref(),
        };
        let (decided, start) = match &resumed {
            Some(resumed) => (resumed.stage::<Decided>()?, None),
            None if !self.chooses() => (fitting.given(&learned), None),
            None => match &judge {
                Some(judge) => fitting.decide(&learned, judge, &mut driver)?,
                None => {
                    let (kept, wanted) = self.tenth(&learned);
                    let judge = Judge::new(&kept, wanted, threads(self.threads));
                    fitting.decide(&kept, &judge, &mut driver)?
                }
            },
        };
        driver.check_interrupted()?;
        driver.decided(&decided)?;
        let state = resumed.map(|resumed| resumed.solver);
        let (encoder, decoder) = fitting.solve(
            &learned,
            &decided,
            start,
            state,
            judge.as_ref(),
            &mut driver,
        )?;
        let mut report = driver.finish(Ended::Iterations)?;
        if driver.run.compares {
            report.baseline = judge.as_ref().and_then(|judge| judge.popularity().ok());
        }
        let counters = driver.counters();
        let (encoder, decoder) = match self.rank.given() {
            Some(_) => (encoder, decoder),
            None => spanned(encoder, decoder, &popularity(&learned)),
        };
        let mut items = choices.items.clone();
        let mut learned = learned.into_owned();
        let (mut encoder, mut decoder) = (encoder, decoder);
        let mut items_described = None;
        if let Some(rows) = data.item_rows {
            let counts = popularity(&learned);
            let threads = threads(self.threads);
            let found =
                features::by_features((encoder, decoder), &counts, &mut items, rows, threads)?;
            (encoder, decoder) = found.factors;
            items_described = Some((found.new, found.explained));
            learned.widen(items.len());
        }
        let encoder = tall(&encoder)?;
        let decoder = tall(&decoder)?;
        let mut users = choices.users.clone();
        let (mut beginnings, mut users_described) = (Vec::new(), None);
        if let Some(described) = &described {
            let explained;
            (beginnings, explained) = decided.beginnings(described, &learned, &encoder)?;
            users_described = Some((described.ids.len() - users.len(), explained));
            users = described.ids.clone();
            for _ in learned.len()..users.len() {
                learned.push(SparseVec::new().as_row());
            }
        }
        let known = Recommended {
            card: RecommendCard {
                regularization: decided.lambda,
                damping: self.damping,
                weight_scale: weight_scale(&learned, self.damping),
                weights: self.weights,
                own: decided.own(&decoder),
                half_life: self.half_life,
                liked_from: data.liked_from,
                columns: choices.columns.clone(),
            },
            users,
            beginnings,
            grams: decided.grams(
                &learned,
                &encoder,
                &decoder,
                self.damping,
                threads(self.threads),
            ),
            prior: decided.prior_of(&learned, &encoder),
            popularity: popularity(&learned),
            histories: learned,
        };
        let name = decided.learner.name();
        let mut model = Model::recommendations(name, encoder, decoder, items.clone(), known)?;
        model.card.seed = self.seed;
        model.card.step_size = decided.step_size.unwrap_or(0.0);
        model.card.regularization = Some(decided.lambda);
        model.card.init = match self.init {
            StartInit::Own => "spectral".into(),
            StartInit::Model => self.init.name().into(),
        };
        model.card.counters = counters;
        model.card.history = driver.course.history.clone();
        let repeated = choices.repeated;
        let report = report
            .with("regularization", decided.lambda)
            .with("own_share", decided.share)
            .with("prior", decided.prior)
            .with("users", choices.users.len())
            .with("items", items.len())
            .with("choices", choices.weights.nnz())
            .noting(repeated, || {
                format!("{repeated} choices repeat an earlier one: their weights were added")
            });
        let report = match items_described {
            None => report,
            Some((new, explained)) => report
                .with("items_without_choice", new)
                .with("explained_by_features", explained),
        };
        let report = match users_described {
            None => report,
            Some((new, explained)) => report
                .with("users_without_choice", new)
                .with("explained_by_user_features", explained),
        };
        Ok(Fit::new(model, report))
    }

    /// Encoder and decoder of a model for these items, and what to tell of it.
    fn started_from(
        &self,
        start: &Start,
        choices: &Choices,
    ) -> Result<(Vec<Mat<f64>>, Vec<String>)> {
        let form = start.model().form.as_precision::<f32>()?;
        let Form::Factored(form) = form else {
            return Err(start.error("expected the factors of a model of choices"));
        };
        let features = Features::Named(choices.items.clone());
        let plain = Preprocess::default();
        let side = Side {
            side: crate::form::Side::Right,
            features: &features,
            preprocess: &plain,
            size: choices.items.len(),
            what: "items",
        };
        let found = start.found(&side)?;
        let rows = |tall: &Tall<f32>| {
            Mat::from_fn(tall.rows(), tall.rank(), |i, j| f64::from(tall.row(i)[j]))
        };
        let encoder = rows(form.left()) * form.core.to_faer();
        let factors = [
            found.rows(&encoder, (self.seed, 0)),
            found.rows(&rows(form.right()), (self.seed, 1)),
        ];
        let shape = (choices.items.len(), choices.users.len());
        let rank = start.rank_of(self.rank.given(), shape)?;
        // Users are solved for in the coordinates of the decoder, which stay where they can.
        let factors = match rank == encoder.ncols() {
            true => Some(factors),
            false => start::resized(factors, false, rank, self.seed),
        };
        let zero = || start.error("W is zero on what model and run have in common");
        Ok((factors.ok_or_else(zero)?.into(), found.note(&side)))
    }

    /// Holds out a tenth of the choices of some users.
    fn tenth(&self, rows: &Rows<f32>) -> (Rows<f32>, Vec<Wanted>) {
        let users = rows.len();
        let salt = splitmix64(self.seed ^ 0x7265_636f_6d6d);
        let share = (JUDGING_USERS as f64 / users as f64).min(1.0);
        let judged = |user: usize| {
            let key = splitmix64(salt ^ user as u64) >> 11;
            key as f64 / (1_u64 << 53) as f64 <= share
        };
        without(rows, |user, number| {
            judged(user) && splitmix64(splitmix64(salt) ^ number as u64).is_multiple_of(TENTH)
        })
    }
}

/// The mean of n^−damping over all choices.
fn weight_scale(rows: &Rows<f32>, damping: f64) -> f64 {
    let sum: f64 = rows
        .iter()
        .map(|row| (row.len() as f64).powf(1.0 - damping))
        .sum();
    sum / rows.nnz().max(1) as f64
}

/// How often each item was chosen.
fn popularity(rows: &Rows<f32>) -> Vec<f64> {
    let mut out = vec![0.0; rows.columns()];
    for row in rows.iter() {
        row.indices
            .iter()
            .for_each(|&item| out[item as usize] += 1.0);
    }
    out
}

/// The same W without what it does not span, where choices are few. Where nothing follows from
/// any choice, all get what was chosen most.
fn spanned(encoder: Mat<f64>, decoder: Mat<f64>, popularity: &[f64]) -> (Mat<f64>, Mat<f64>) {
    let items = encoder.nrows();
    let found = svd(&decoder).map(|(_, sigma, turn)| {
        let most = sigma.first().copied().unwrap_or(0.0);
        // Single precision, as factors are stored.
        let rank = sigma
            .iter()
            .filter(|s| **s > 1e-5 * most && **s > 1e-30)
            .count();
        (turn, rank)
    });
    match found {
        Some((_, rank)) if rank == decoder.ncols() => (encoder, decoder),
        Some((turn, rank)) if rank > 0 => {
            let turn = turn.subcols(0, rank);
            (&encoder * turn, &decoder * turn)
        }
        _ => {
            let total = popularity.iter().sum::<f64>().max(1.0);
            let said = Mat::from_fn(items, 1, |_, _| 1.0 / (items as f64).sqrt());
            (said, Mat::from_fn(items, 1, |i, _| popularity[i] / total))
        }
    }
}

fn tall(m: &Mat<f64>) -> Result<Tall<f32>> {
    let made = Tall::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)]);
    made.map_err(|_| {
        Error::input(format!(
            "the choices do not span rank {}: choose a smaller rank",
            m.ncols()
        ))
    })
}

/// What each of these users chose elsewhere, by the numbers of these items.
fn wanted_of(choices: &Choices, users: &Ids, items: &Ids) -> Vec<Wanted> {
    let mut out = vec![Wanted::default(); users.len()];
    for (user, row) in choices.weights.iter().enumerate() {
        let Some(user) = users.find(choices.users.get(user as u32)) else {
            continue;
        };
        let wanted = &mut out[user as usize];
        for &item in row.indices {
            match items.find(choices.items.get(item)) {
                Some(item) => wanted.items.push(item),
                None => wanted.missing += 1,
            }
        }
        wanted.items.sort_unstable();
    }
    out
}

impl<'a> Learn<RecommendData<'a>> for Recommend {
    fn learn(&self, data: RecommendData<'a>, run: Run<'_>) -> Result<Fit> {
        self.fit_with(data, run)
    }
}

impl Decided {
    /// What is solved for in users, at the scale of the decoder.
    fn own(&self, decoder: &Tall<f32>) -> Option<Own> {
        let problem = match self.learner {
            RecommendLearner::Als => Implicit {
                alpha: self.alpha,
                lambda: self.lambda,
            },
            _ => fit::own_problem(decoder),
        };
        (self.share > 0.0).then_some(Own {
            share: self.share,
            problem,
        })
    }
}
