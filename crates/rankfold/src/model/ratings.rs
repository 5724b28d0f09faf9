//! What a model of ratings knows beside W: biases and counts of users and items.

use std::borrow::Cow;

use super::file::{Tensor, TensorFile, Tensors};
use super::{Estimate, Knowledge, Model, Objects, Precise, Preprocess, Rated, with_form};
use crate::batch::Variances;
use crate::data::Features;
use crate::form::{Form, MOST};
use crate::kernel::dot;
use crate::online::Fold;
use crate::{Error, Ids, Real, Result};
use serde::{Deserialize, Serialize};

/// The two sides in the names of tensors.
const SIDES: [&str; 2] = ["left", "right"];

/// What completion says about itself in the card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompletionCard {
    /// How it was solved.
    pub solver: String,
    /// The penalty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regularization: Option<f64>,
    /// p of the penalty λ nᵖ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub penalty_power: Option<f64>,
    /// What all predictions have in common.
    pub mean: f64,
    /// The same for biases alone.
    #[serde(rename = "control_mean")]
    pub baseline_mean: f64,
    /// The range to which predictions are clipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<(f64, f64)>,
    /// The root of the mean squared residual of training.
    pub residual: f64,
    /// The noise of ratings, where it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// The columns of users, items and ratings in the file that it was trained on, where they
    /// had other than the usual names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
}

/// Biases and counts of users and of items.
#[derive(Debug, Clone, PartialEq)]
pub struct RatingBiases {
    /// Biases beside W, where the model has some.
    pub bias: Option<[Vec<f64>; 2]>,
    /// Biases that would be used without W: what the model is compared with.
    pub baseline: [Vec<f64>; 2],
    /// How many ratings were learned from.
    pub count: [Vec<u64>; 2],
    /// What folding in new ratings goes by.
    pub folds: [Fold; 2],
    /// How sure predictions are, where that was learned.
    pub variances: Option<[Variances; 2]>,
}

impl CompletionCard {
    /// What a card of a file cannot say, in words.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        if let Some((low, high)) = self.scale
            && !(low <= high)
        {
            return Err(format!("ratings from {low} to {high} are not possible"));
        }
        if let Some(columns) = &self.columns
            && columns.len() != 3
        {
            let count = columns.len();
            return Err(format!("{count} columns of ratings are not possible"));
        }
        let sizes = [
            ("regularization", self.regularization),
            ("penalty power", self.penalty_power),
            ("residual", Some(self.residual)),
            ("noise", self.noise),
        ];
        for (name, size) in sizes {
            if let Some(size) = size
                && !(size >= 0.0)
            {
                return Err(format!("a {name} of {size} is not possible"));
            }
        }
        Ok(())
    }
}

/// The most ratings of one user or item, so that sums over all of them stay numbers.
fn most_ratings(shape: (usize, usize)) -> u64 {
    MOST / (shape.0 + shape.1).max(1) as u64
}

impl RatingBiases {
    pub(crate) fn tensors(&self) -> Tensors<'_> {
        let mut out = Tensors::new();
        let most = most_ratings((self.count[0].len(), self.count[1].len()));
        for (side, name) in SIDES.iter().enumerate() {
            if let Some(bias) = &self.bias {
                let bias = Tensor::f64s(bias[side].clone());
                out.push((format!("levels.{name}.bias"), bias));
            }
            let baseline = Tensor::f64s(self.baseline[side].clone());
            out.push((format!("levels.{name}.control"), baseline));
            // A model that learns on must load again, however large its counts were before.
            let count = self.count[side].iter().map(|count| *count.min(&most));
            let count = Tensor::u64s(count.collect());
            out.push((format!("levels.{name}.count"), count));
            let Fold { usual, ridge } = &self.folds[side];
            out.push((format!("levels.{name}.usual"), Tensor::f64s(usual.clone())));
            out.push((format!("levels.{name}.ridge"), Tensor::f64s(vec![*ridge])));
            if let Some(variances) = &self.variances {
                let Variances {
                    line,
                    noise,
                    unknown,
                } = &variances[side];
                let parts = [
                    ("variance", line.clone()),
                    ("noise", noise.clone()),
                    ("unknown", vec![*unknown]),
                ];
                for (part, values) in parts {
                    out.push((format!("levels.{name}.{part}"), Tensor::f64s(values)));
                }
            }
        }
        out
    }

    /// Reads what [`RatingBiases::tensors`] gave, for so many users and items.
    pub(crate) fn read(file: &TensorFile<'_>, shape: (usize, usize), rank: usize) -> Result<Self> {
        let sizes = [shape.0, shape.1];
        // So that the sum over all is a count as well.
        let most = most_ratings(shape);
        let both = |name: &str| -> Result<[Vec<f64>; 2]> {
            let side = |i: usize| file.f64s(&format!("levels.{}.{name}", SIDES[i]), sizes[i]);
            Ok([side(0)?, side(1)?])
        };
        let count = |i: usize| -> Result<Vec<u64>> {
            let found = file.u64s(&format!("levels.{}.count", SIDES[i]))?;
            if found.iter().any(|count| *count > most) {
                return Err(file.error("an impossible count of ratings"));
            }
            match found.len() == sizes[i] {
                true => Ok(found),
                false => Err(file.error(format!("{} counts for {}", found.len(), sizes[i]))),
            }
        };
        let biased = file.has("levels.left.bias");
        let fold = |i: usize| -> Result<Fold> {
            let (name, d) = (SIDES[i], rank + usize::from(biased));
            let ridge = file.f64s(&format!("levels.{name}.ridge"), 1)?[0];
            if !(ridge > 0.0) {
                return Err(file.error(format!("a ridge of {ridge} is not possible")));
            }
            Ok(Fold {
                usual: file.f64s(&format!("levels.{name}.usual"), d * d)?,
                ridge,
            })
        };
        let variances = |i: usize| -> Result<Variances> {
            let part = |part: &str, size: usize| {
                let found = file.f64s(&format!("levels.{}.{part}", SIDES[i]), size)?;
                match found.iter().all(|v| *v >= 0.0) {
                    true => Ok(found),
                    false => Err(file.error(format!("a {part} below 0 is not possible"))),
                }
            };
            Ok(Variances {
                line: part("variance", sizes[i])?,
                noise: part("noise", sizes[i])?,
                unknown: part("unknown", 1)?[0],
            })
        };
        let sure = file.has("levels.left.variance");
        Ok(RatingBiases {
            variances: match sure {
                true => Some([variances(0)?, variances(1)?]),
                false => None,
            },
            bias: match biased {
                true => Some(both("bias")?),
                false => None,
            },
            folds: [fold(0)?, fold(1)?],
            baseline: both("control")?,
            count: [count(0)?, count(1)?],
        })
    }

    /// Adds users and items up to these numbers.
    pub(crate) fn grow(&mut self, users: usize, items: usize) {
        for (side, size) in [users, items].into_iter().enumerate() {
            let size = size.max(self.count[side].len());
            if let Some(bias) = &mut self.bias {
                bias[side].resize(size, 0.0);
            }
            self.baseline[side].resize(size, 0.0);
            self.count[side].resize(size, 0);
            if let Some(variances) = &mut self.variances {
                variances[side].grow(size);
            }
        }
    }
}

/// Coordinates of users and items whose products are the entries of W.
#[derive(Debug, Clone)]
pub struct RatingPoints {
    left: Vec<f64>,
    right: Vec<f64>,
    k: usize,
}

/// Predicts ratings by number.
pub struct RatingPredictor<'a> {
    biases: &'a RatingBiases,
    card: &'a CompletionCard,
    points: Cow<'a, RatingPoints>,
    /// The factor on all variances.
    scale: f64,
}

impl RatingPredictor<'_> {
    fn clipped(&self, rating: f64) -> f64 {
        match self.card.scale {
            Some((low, high)) => rating.clamp(low, high),
            None => rating,
        }
    }

    fn row(values: &[f64], k: usize, i: u32) -> &[f64] {
        &values[i as usize * k..][..k]
    }

    /// A rating without clipping: of a user or an item that is not known, what is
    /// known of the other.
    pub fn raw(&self, user: Option<u32>, item: Option<u32>) -> f64 {
        let mut rating = self.card.mean;
        if let Some(bias) = &self.biases.bias {
            rating += user.map_or(0.0, |u| bias[0][u as usize]);
            rating += item.map_or(0.0, |i| bias[1][i as usize]);
        }
        match (user, item) {
            (Some(u), Some(i)) => {
                let RatingPoints { left, right, k } = &*self.points;
                let (left, right) = (Self::row(left, *k, u), Self::row(right, *k, i));
                rating + dot(left, right)
            }
            _ if self.biases.bias.is_none() => self.raw_baseline(user, item),
            _ => rating,
        }
    }

    /// A rating.
    pub fn rating(&self, user: Option<u32>, item: Option<u32>) -> f64 {
        self.clipped(self.raw(user, item))
    }

    /// A rating, and the standard deviation of what the user would say; `None` where the
    /// model has not learned how sure it is.
    pub fn estimate(&self, user: Option<u32>, item: Option<u32>) -> Option<Estimate> {
        let [users, items] = self.biases.variances.as_ref()?;
        let ((u, p), (v, q)) = (users.of(user), items.of(item));
        let noise = self.card.noise.unwrap_or(0.0).powi(2);
        Some(Estimate {
            mean: self.rating(user, item),
            sd: (self.scale * (u + v + noise * p * q)).sqrt(),
        })
    }

    /// A rating without clipping, and the standard deviation of what it is in the mean: without
    /// the noise of what a user says, which more ratings would not take away.
    pub fn expected(&self, user: Option<u32>, item: Option<u32>) -> Option<Estimate> {
        let [users, items] = self.biases.variances.as_ref()?;
        let ((u, _), (v, _)) = (users.of(user), items.of(item));
        Some(Estimate {
            mean: self.raw(user, item),
            sd: (self.scale * (u + v)).sqrt(),
        })
    }

    fn raw_baseline(&self, user: Option<u32>, item: Option<u32>) -> f64 {
        let [users, items] = &self.biases.baseline;
        self.card.baseline_mean
            + user.map_or(0.0, |u| users[u as usize])
            + item.map_or(0.0, |i| items[i as usize])
    }

    /// The rating that biases alone predict.
    pub fn baseline(&self, user: Option<u32>, item: Option<u32>) -> f64 {
        self.clipped(self.raw_baseline(user, item))
    }

    /// Clips a rating as all predictions are.
    pub fn clip(&self, rating: f64) -> f64 {
        self.clipped(rating)
    }
}

impl Model {
    /// A model of ratings: rows of W are users, columns are items.
    pub fn completion<R: Real>(
        learner: &str,
        form: Form<R>,
        (users, items): (Ids, Ids),
        known: Rated,
    ) -> Result<Self> {
        let shape = form.view().shape();
        let sizes = [users.len(), items.len()];
        let count = &known.biases.count;
        let counted = [count[0].len(), count[1].len()];
        if [shape.0, shape.1] != sizes || counted != sizes {
            return Err(Error::input(format!(
                "{} users and {} items for a matrix of {} by {}",
                sizes[0], sizes[1], shape.0, shape.1
            )));
        }
        let mut model = Model::new(learner, form, Features::Named(users));
        model.objects = Some(Objects {
            features: Features::Named(items),
            preprocess: Preprocess::default(),
        });
        model.knowledge = Knowledge::Completion(known);
        Ok(model)
    }

    fn rated(&self) -> Result<&Rated> {
        match &self.knowledge {
            Knowledge::Completion(known) => Ok(known),
            other => Err(other.expected("completion")),
        }
    }

    /// The ids of users and of items.
    pub fn rating_ids(&self) -> Result<(&Ids, &Ids)> {
        self.rated()?;
        match (&self.features, self.objects.as_ref().map(|o| &o.features)) {
            (Features::Named(users), Some(Features::Named(items))) => Ok((users, items)),
            _ => Err(Error::input("users and items have no names")),
        }
    }

    /// An error where a model of ratings has not learned how sure it is.
    pub fn check_rating_estimates(&self) -> Result<()> {
        match self.rated()?.biases.variances {
            Some(_) => Ok(()),
            None => Err(Error::input(format!(
                "`{}` does not learn how sure it is: expected a model of `bayes`",
                self.card.learner
            ))),
        }
    }

    /// Users and items of a model of ratings as points: what a predictor is made of, to be kept
    /// where there are many of them.
    pub fn rating_points(&self) -> Result<RatingPoints> {
        self.rated()?;
        let (left, right, k) = match &self.form {
            Precise::F32(_) | Precise::F64(_) => with_form!(&self.form, form => {
                let gauge = form.view().gauge().ok_or_else(super::rank_lost)?;
                let (left, right) = form.view().factors().ok_or_else(super::rank_lost)?;
                let rows = |tall: &crate::form::Tall<_>, map: &crate::linalg::Square| {
                    let mut out = Vec::with_capacity(tall.rows() * tall.rank());
                    tall.for_each_mapped(map, |row| out.extend_from_slice(row));
                    out
                };
                (rows(left, &gauge.left), rows(right, &gauge.right), form.view().rank())
            }),
        };
        Ok(RatingPoints { left, right, k })
    }

    /// Makes a predictor of ratings.
    pub fn rating_predictor(&self) -> Result<RatingPredictor<'_>> {
        self.predictor_of(Cow::Owned(self.rating_points()?))
    }

    /// The same from points that [`Model::rating_points`] gave, at no cost.
    pub fn rating_predictor_from<'a>(
        &'a self,
        points: &'a RatingPoints,
    ) -> Result<RatingPredictor<'a>> {
        self.predictor_of(Cow::Borrowed(points))
    }

    fn predictor_of<'a>(&'a self, points: Cow<'a, RatingPoints>) -> Result<RatingPredictor<'a>> {
        let Rated { biases, card } = self.rated()?;
        Ok(RatingPredictor {
            biases,
            card,
            points,
            scale: self.card.variance_scale.unwrap_or(1.0),
        })
    }
}
