//! Learners that have seen nothing: random factors and a card, without any data.
//!
//! A run on data chooses where it starts and how long its steps are. A learner that
//! begins without data has normal factors, and a step size that the guard of steps
//! keeps from doing harm.

use super::online::Online;
use super::{Init, Pairs, Ranking, Similarity, StartInit, rank_for};
use crate::data::Features;
use crate::form::{Diagonal, Factored, Form, Full, Gaussian, Psd, Shape, Tall};
use crate::model::{Knowledge, Model, Objects, Preprocess, Prior, Ranked};
use crate::online::Rule;
use crate::random::normal_at;
use crate::{Error, Ids, Real, Result, memory};

/// The step size where none is given.
const STEP: f64 = 0.1;

/// An error for a learner that is to begin from a model: that is a learner already.
fn check_start(from_model: bool) -> Result<()> {
    match from_model {
        false => Ok(()),
        true => Err(Error::option(
            "init",
            "cannot be a model for a learner that begins without data: go on with the model itself",
        )),
    }
}

/// Where learners begin, as cards call it.
const INIT: &str = "gaussian";

impl Similarity {
    /// Begins to learn without data, for rows of this many features; more are added as
    /// they come.
    ///
    /// ```
    /// use rankfold::{Similarity, SparseVec, sample::Triplet};
    ///
    /// let mut learner = Similarity::default().rank(2).begin::<f32>(4)?;
    /// let rows = [[0, 1], [0, 2], [3, 4]].map(|row| SparseVec::from_entries(row.map(|j| (j, 1.0)).to_vec()));
    /// let [query, positive, negative] = rows.each_ref().map(SparseVec::as_row);
    /// learner.learn(&Triplet { query, positive, negative })?;
    /// assert!(learner.score(query, positive)?.is_finite());
    /// assert_eq!(learner.into_model().columns(), 5);
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub fn begin<R: Real>(&self, columns: usize) -> Result<Online<R>> {
        self.check()?;
        check_start(self.init == Some(Init::Model))?;
        let this = self.published();
        let rule = this.rule();
        if rule == Rule::Lego {
            let message = "cannot be `lego`, which needs data to learn what is near and far";
            return Err(Error::option("learner", message));
        }
        let size = match rule {
            _ if rule.is_passive_aggressive() => self.aggressiveness,
            _ if rule.is_aroma() => self.confidence_r,
            _ => self.step_size.unwrap_or(STEP),
        };
        let form: Form<R> = match rule.shape() {
            Shape::Full => Form::Full(Full::diagonal(columns, columns, 1.0)?),
            Shape::Diagonal => Form::Diagonal(Diagonal::new(columns, columns, 1.0)),
            Shape::Gaussian => Form::Gaussian(Gaussian::new(columns, columns, 1.0)?),
            shape => {
                let k = self.rank.or_usual(super::similarity::RANK, columns)?;
                normal(self.seed, (columns, columns), k, shape)?
            }
        };
        let mut model = Model::new(rule.name(), form, Features::Numbered);
        model.card = this.card(size, None);
        model.card.init = INIT.into();
        model.into_learner()
    }
}

impl Pairs {
    /// Begins to learn without data, for rows of this many features on both sides; more
    /// are added as they come. Values are learned as they are, around zero.
    pub fn begin<R: Real>(&self, columns: usize) -> Result<Online<R>> {
        self.check()?;
        check_start(self.init == StartInit::Model)?;
        let k = rank_for(self, self.rank, columns)?;
        let form: Form<R> = normal(self.seed, (columns, columns), k, self.learner.shape())?;
        let mut model = Model::new(self.learner.name(), form, Features::Numbered);
        model.card = self.card(self.step_size.unwrap_or(STEP));
        model.knowledge = Knowledge::Pairs { target_mean: 0.0 };
        model.into_learner()
    }
}

impl Ranking {
    /// Begins to learn without data, for rows of this many features and these labels;
    /// more of both are added as they come.
    pub fn begin<R: Real>(
        &self,
        columns: usize,
        labels: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Online<R>> {
        self.check()?;
        check_start(self.init == Init::Model)?;
        let mut names = Ids::new();
        for label in labels {
            names.intern(label.as_ref());
        }
        let form: Form<R> = match self.learner.is_low_rank() {
            false => Form::Full(Full::diagonal(columns, names.len(), 0.0)?),
            true => {
                let k = self.plain_rank(columns, names.len())?;
                normal(self.seed, (columns, names.len()), k, Shape::Factored)?
            }
        };
        let count = names.len();
        let mut model = Model::new(self.learner.name(), form, Features::Numbered);
        model.card = self.card(self.step_size.unwrap_or(STEP));
        model.card.init = INIT.into();
        model.objects = Some(Objects {
            features: Features::Named(names),
            preprocess: Preprocess::default(),
        });
        model.knowledge = Knowledge::Ranking(Ranked {
            rule: self.learned(),
            prior: Prior::new(vec![0; count], 0, 0.0),
        });
        model.into_learner()
    }
}

/// Factors of independent normal entries of variance 1/k, in a form of this shape.
fn normal<R: Real>(seed: u64, (n, m): (usize, usize), k: usize, shape: Shape) -> Result<Form<R>> {
    let room = (n as u128 + m as u128) * k as u128 * size_of::<R>() as u128;
    memory::require(
        room,
        &format!("a model of {n} by {m} features and rank {k}"),
    )?;
    let tall = |side: u64, rows: usize| {
        let scale = (k as f64).sqrt();
        Tall::from_fn(rows, k, |i, j| {
            normal_at(seed, side, i as u64, j as u64) / scale
        })
    };
    let left = tall(0, n)?;
    let form = match shape {
        Shape::Psd | Shape::PolarPsd => Form::Psd(Psd::new(left)),
        _ => Form::Factored(Factored::new(left, tall(1, m)?)),
    };
    form.shaped(shape)
}
