//! What a model of choices knows beside W: who chose what, and how a user is made of it.
//!
//! W is items by items: E Dᵀ, what choosing an item says times who an item is for. A user
//! is the sum of what they chose, so that a new user needs no training.

use super::file::{Tensor, TensorFile, Tensors};
use super::{Embedding, Knowledge, Model, Objects, Precise, Preprocess};
use crate::batch::{FoldIn, Implicit};
use crate::data::Features;
use crate::form::{Factored, Form, FormRef, Query, Side, Tall};
use crate::linalg::Square;
use crate::parallel::map_blocks;
use crate::{Error, Ids, Real, Result, Rows, SparseRow, choices};
use serde::{Deserialize, Serialize};

choices! {
    /// What the weight of a choice means.
    pub enum WeightScale {
        /// log₂(1 + weight): ten plays say more than one, and not ten times as much
        Log = "log" (default),
        /// The weight itself
        Raw = "raw",
        /// Nothing: a choice is a choice
        None = "none",
    }
}

impl WeightScale {
    /// How strong a choice of this weight is.
    pub fn strength(self, weight: f64) -> f64 {
        match self {
            WeightScale::Log => (1.0 + weight).log2(),
            WeightScale::Raw => weight,
            WeightScale::None => 1.0,
        }
    }

    /// The weight that has this strength.
    pub fn weight(self, strength: f64) -> f64 {
        match self {
            WeightScale::Log => strength.exp2() - 1.0,
            WeightScale::Raw | WeightScale::None => strength,
        }
    }
}

/// The part of a user that is solved for: the row that explains best what they chose.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// Its share; the rest is the sum of what the user chose.
    pub share: f64,
    /// What it is solved by.
    pub problem: Implicit,
}

/// What recommendation says about itself in the card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecommendCard {
    /// λ.
    pub regularization: f64,
    /// Users who chose n items weigh n to minus this.
    pub damping: f64,
    /// What n to minus that is divided by, so that the sum of all choices stays as it is.
    pub weight_scale: f64,
    /// What weights of choices mean.
    pub weights: WeightScale,
    /// The part of a user that is solved for, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Own>,
    /// After how many choices of a user an earlier one counts half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_life: Option<f64>,
    /// The rating from which an item counts as chosen, where ratings were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liked_from: Option<f64>,
    /// The columns of users, items, weights and times in the file that it was trained on, where
    /// they had other than the usual names; an empty name is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
}

impl RecommendCard {
    fn check(&self) -> std::result::Result<(), String> {
        let own = self
            .own
            .map(|own| [own.share, own.problem.alpha, own.problem.lambda]);
        let sizes = [
            self.regularization,
            self.damping,
            self.weight_scale,
            self.half_life.unwrap_or(1.0),
        ];
        let all = sizes.into_iter().chain(own.into_iter().flatten());
        for size in all {
            if !(size >= 0.0) {
                return Err(format!("a size of {size} is not possible"));
            }
        }
        if let Some(columns) = &self.columns
            && columns.len() != 4
        {
            let count = columns.len();
            return Err(format!("{count} columns of choices are not possible"));
        }
        match self.half_life == Some(0.0) || self.own.is_some_and(|own| own.share > 1.0) {
            true => Err("a half-life of 0, or a share above 1, is not possible".into()),
            false => Ok(()),
        }
    }
}

/// What a model of choices knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommended {
    /// How it was learned.
    pub card: RecommendCard,
    /// The users.
    pub users: Ids,
    /// How strongly each user chose which items.
    pub histories: Rows<f32>,
    /// How often each item was chosen.
    pub popularity: Vec<f64>,
    /// What a user begins with, in the coordinates of the decoder: some choices of the average
    /// user, so that one choice does not decide alone.
    pub prior: Vec<f64>,
    /// What users begin with by their features, in the coordinates of the decoder: a row for
    /// each user, zeros for those without features. Empty where nobody has features.
    pub beginnings: Vec<f32>,
    /// Gram matrices of users, with what W is penalized by, and of items: what steps on
    /// new choices go by.
    pub grams: [Square; 2],
}

/// The names of the two in files.
const GRAMS: [&str; 2] = ["grams.users", "grams.items"];

/// The name of what users begin with by their features.
const BEGINNINGS: &str = "users.beginnings";

/// Choices after which what a user begins with counts half.
const BEGINNING: f64 = 10.0;

impl Recommended {
    /// Adds what a user begins with, less the more items they chose, to the sum of those. That
    /// is by their features, or else the average user. Of whom nothing is known begins with nothing.
    pub(crate) fn begin(&self, sum: &mut [f64], user: Option<u32>, chosen: usize) {
        let share = BEGINNING / (BEGINNING + chosen as f64);
        if let Some(beginning) = self.beginning(user, sum.len()) {
            let all = sum.iter_mut().zip(beginning);
            all.for_each(|(v, b)| *v += share * f64::from(*b));
        } else if chosen > 0 {
            sum.iter_mut()
                .zip(&self.prior)
                .for_each(|(v, p)| *v += share * p);
        }
    }

    /// What a user begins with by their features.
    fn beginning(&self, user: Option<u32>, rank: usize) -> Option<&[f32]> {
        let first = user? as usize * rank;
        let row = self.beginnings.get(first..first + rank)?;
        row.iter().any(|v| *v != 0.0).then_some(row)
    }

    /// Whether something is known of a user by their features.
    pub fn is_described(&self, user: Option<u32>) -> bool {
        self.beginning(user, self.prior.len()).is_some()
    }

    pub(super) fn tensors(&self) -> Tensors<'_> {
        let (bytes, offsets) = self.users.to_parts();
        let mut starts = vec![0_u64];
        let (mut items, mut strengths) = (Vec::new(), Vec::new());
        for row in self.histories.iter() {
            items.extend_from_slice(row.indices);
            strengths.extend_from_slice(row.values);
            starts.push(items.len() as u64);
        }
        let mut out: Tensors<'_> = vec![
            ("users.bytes".into(), Tensor::u8s(bytes)),
            ("users.offsets".into(), Tensor::u64s(offsets)),
            ("histories.starts".into(), Tensor::u64s(starts)),
            ("histories.items".into(), Tensor::u32s(items)),
            ("histories.strengths".into(), Tensor::owned(1, strengths)),
            ("popularity".into(), Tensor::f64s(self.popularity.clone())),
            ("prior".into(), Tensor::f64s(self.prior.clone())),
            (GRAMS[0].into(), Tensor::square(&self.grams[0])),
            (GRAMS[1].into(), Tensor::square(&self.grams[1])),
        ];
        if !self.beginnings.is_empty() {
            let beginnings = Tensor::owned(self.prior.len(), self.beginnings.clone());
            out.push((BEGINNINGS.into(), beginnings));
        }
        out
    }

    pub(super) fn read(
        file: &TensorFile<'_>,
        card: RecommendCard,
        items: usize,
        rank: usize,
    ) -> Result<Self> {
        card.check().map_err(|message| file.error(message))?;
        let (bytes, offsets) = (file.u8s("users.bytes")?, file.u64s("users.offsets")?);
        let users = Ids::from_parts(&bytes, &offsets).map_err(|e| file.error(e))?;
        let starts = file.u64s("histories.starts")?;
        let chosen = file.u32s("histories.items")?;
        let strengths: Vec<f32> = file.rows("histories.strengths", 1)?;
        if strengths.len() != chosen.len() || starts.len() != users.len() + 1 {
            return Err(file.error("the histories of users are incomplete"));
        }
        if !strengths.iter().all(|s| *s > 0.0) {
            return Err(file.error("a choice without strength is not possible"));
        }
        let histories = Rows::from_csr(&starts, &chosen, &strengths, items);
        let histories = histories.map_err(|e| file.error(e.message))?;
        let popularity = file.f64s("popularity", items)?;
        if !popularity.iter().all(|count| *count >= 0.0) {
            return Err(file.error("an item chosen less than never is not possible"));
        }
        let beginnings: Vec<f32> = match file.has(BEGINNINGS) {
            true => file.rows(BEGINNINGS, rank)?,
            false => Vec::new(),
        };
        if !beginnings.is_empty() && beginnings.len() != users.len() * rank {
            return Err(file.error("what users begin with is incomplete"));
        }
        Ok(Recommended {
            card,
            beginnings,
            users,
            histories,
            popularity,
            prior: file.f64s("prior", rank)?,
            grams: [file.square(GRAMS[0], rank)?, file.square(GRAMS[1], rank)?],
        })
    }
}

impl Model {
    /// A model of choices from an encoder and a decoder, each a row for every item.
    pub fn recommendations(
        learner: &str,
        encoder: Tall<f32>,
        decoder: Tall<f32>,
        items: Ids,
        known: Recommended,
    ) -> Result<Self> {
        let rows = [encoder.rows(), decoder.rows(), known.popularity.len()];
        if rows.iter().any(|&rows| rows != items.len())
            || known.histories.len() != known.users.len()
            || known.histories.columns() > items.len()
        {
            return Err(Error::input(format!(
                "{} items for {rows:?} rows, {} users for {} histories",
                items.len(),
                known.users.len(),
                known.histories.len()
            )));
        }
        let form = Form::Factored(Factored::new(encoder, decoder));
        let mut model = Model::new(learner, form, Features::Named(items.clone()));
        model.objects = Some(Objects {
            features: Features::Named(items),
            preprocess: Preprocess::default(),
        });
        model.knowledge = Knowledge::Recommend(known);
        Ok(model)
    }

    /// What a model of choices knows.
    pub fn recommended(&self) -> Result<&Recommended> {
        match &self.knowledge {
            Knowledge::Recommend(known) => Ok(known),
            other => Err(other.expected("recommend")),
        }
    }

    /// The items of a model of choices.
    pub fn recommended_items(&self) -> Result<&Ids> {
        self.recommended()?;
        match self.objects.as_ref().map(|objects| &objects.features) {
            Some(Features::Named(items)) => Ok(items),
            _ => Err(Error::input("items have no names")),
        }
    }

    /// Makes users of what they chose.
    pub fn recommender(&self) -> Result<Recommender<'_>> {
        let known = self.recommended()?;
        Recommender::new(self.form.as_precision()?.view(), known)
    }
}

/// Users, made of what they chose.
#[derive(Debug)]
pub struct Recommender<'a> {
    form: FormRef<'a, f32>,
    known: &'a Recommended,
    fold: Option<(f64, FoldIn<'a>)>,
}

impl<'a> Recommender<'a> {
    pub(crate) fn new(form: FormRef<'a, f32>, known: &'a Recommended) -> Result<Self> {
        let FormRef::Factored(factored) = form else {
            return Err(Error::input(
                "a model of choices that is not stored by factors",
            ));
        };
        let right = factored.right();
        let fold = known.card.own.filter(|own| own.share > 0.0).map(|own| {
            let fold = FoldIn::with_gram(own.problem, right.padded_rows(), known.grams[1].clone());
            (own.share, fold)
        });
        Ok(Recommender { form, known, fold })
    }

    /// How many items there are.
    pub fn items(&self) -> usize {
        self.known.popularity.len()
    }

    /// The rank of W.
    pub fn rank(&self) -> usize {
        self.form.rank()
    }

    /// A user who chose these items: as many numbers as the rank. What is known of them by
    /// features needs their number.
    pub fn user(&self, number: Option<u32>, history: SparseRow<'_, f32>) -> Vec<f64> {
        let mut query = Query::default();
        self.form.ask(&mut query, history);
        let mut user = query.projected()[..self.rank()].to_vec();
        self.known.begin(&mut user, number, history.len());
        if let Some((share, fold)) = self.fold.as_ref().filter(|_| !history.is_empty()) {
            let own = fold.solve(history);
            for (v, own) in user.iter_mut().zip(own) {
                *v += share * (own - *v);
            }
        }
        user
    }

    /// A user of the model, as it knows them.
    pub fn known_user(&self, user: u32) -> Vec<f64> {
        self.user(Some(user), self.known.histories.row(user as usize))
    }

    /// Who an item is for: its score is the product with a user.
    pub fn item(&self, item: u32) -> &'a [f32] {
        match self.form.factors() {
            Some((_, right)) => right.row(item as usize),
            None => &[],
        }
    }

    /// The score of an item for a user. Of whom nothing is known gets what is chosen most.
    pub fn score(&self, user: &[f64], item: u32) -> f64 {
        if user.iter().all(|v| *v == 0.0) {
            return self.known.popularity[item as usize];
        }
        let row = self.item(item).iter().zip(user);
        row.map(|(r, u)| f64::from(*r) * u).sum()
    }

    /// How much each choice of a history adds to the score of an item, in the part of the
    /// user that is the sum of what they chose.
    pub fn reasons(&self, history: SparseRow<'_, f32>, item: u32) -> Vec<(u32, f64)> {
        let mut query = Query::default();
        let mut one = crate::SparseVec::new();
        let mut part = |(chosen, strength): (u32, f32)| {
            one.clear();
            one.push(chosen, strength);
            self.form.ask(&mut query, one.as_row());
            let user = &query.projected()[..self.rank()];
            let row = self.item(item).iter().zip(user);
            (chosen, row.map(|(r, u)| f64::from(*r) * u).sum::<f64>())
        };
        let mut out: Vec<(u32, f64)> = history.iter().map(&mut part).collect();
        out.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        out
    }
}

impl Model {
    /// Users or items of a model of choices or ratings as vectors, whose products are the
    /// scores of items for users, up to biases of ratings.
    pub fn vectors(&self, side: Side, threads: usize) -> Result<(&Ids, Embedding<f32>)> {
        let known = match &self.knowledge {
            Knowledge::Completion(_) => {
                let (users, items) = self.rating_ids()?;
                let ids = match side {
                    Side::Left => users,
                    Side::Right => items,
                };
                let values = match &self.form {
                    Precise::F32(_) => self.embed_units::<f32>(ids, side)?,
                    Precise::F64(_) => self.embed_units::<f64>(ids, side)?,
                };
                return Ok((ids, values));
            }
            _ => self.recommended()?,
        };
        let ids = match side {
            Side::Left => &known.users,
            Side::Right => self.recommended_items()?,
        };
        let recommender = self.recommender()?;
        let rank = recommender.rank();
        let values = match side {
            Side::Right => (0..ids.len() as u32)
                .flat_map(|item| recommender.item(item).iter().copied())
                .collect(),
            Side::Left => {
                let blocks = map_blocks(ids.len(), 64, threads, |range| {
                    let users = range.flat_map(|i| recommender.known_user(i as u32));
                    users.map(|v| v as f32).collect::<Vec<f32>>()
                });
                blocks.into_iter().flatten().collect()
            }
        };
        Ok((ids, Embedding { values, rank }))
    }

    /// Rows that are their own features, in single precision.
    fn embed_units<R: Real>(&self, ids: &Ids, side: Side) -> Result<Embedding<f32>> {
        let (_, prepared) = super::unit_rows::<R>(ids);
        let points = self.embed(&prepared, side)?;
        Ok(Embedding {
            values: points.values.iter().map(|v| v.to_f64() as f32).collect(),
            rank: points.rank,
        })
    }
}
