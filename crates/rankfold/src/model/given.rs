//! Models from factors that another program learned.

use super::{
    Card, CompletionCard, Distances, Knowledge, Model, Precise, Preprocess, Rated, RatingBiases,
};
use crate::data::Features;
use crate::form::{Factored, Form, Psd, Tall};
use crate::online::folds;
use crate::{Error, Ids, Real, Result, Score};

/// What cards call the learner of given factors.
const LEARNER: &str = "given";

/// The root mean square of the residuals of factors whose ratings nobody has: it sets
/// how far one new rating moves a row.
const RESIDUAL: f64 = 1.0;

/// Factors of users and items: rating = mean + biases + left · right.
#[derive(Debug, Clone, PartialEq)]
pub struct RatingFactors {
    /// Users and items.
    pub ids: (Ids, Ids),
    /// Rows of users and rows of items, one behind the other.
    pub factors: [Vec<f64>; 2],
    /// The length of a row.
    pub rank: usize,
    /// What all ratings have in common.
    pub mean: f64,
    /// Biases of users and items, where there are some.
    pub bias: Option<[Vec<f64>; 2]>,
    /// The range to which predictions are clipped.
    pub scale: Option<(f64, f64)>,
}

fn tall<R: Real>(values: &[f64], k: usize, rows: usize, what: &str) -> Result<Tall<R>> {
    if k == 0 || Some(values.len()) != rows.checked_mul(k) {
        let found = values.len();
        return Err(Error::input(format!(
            "{found} numbers for {rows} {what} of rank {k}"
        )));
    }
    if values.iter().any(|v| !R::from_f64(*v).to_f64().is_finite()) {
        return Err(Error::input(format!("a factor of {what} is not finite")));
    }
    Tall::from_fn(rows, k, |i, j| values[i * k + j])
}

impl Model {
    /// A model of ratings from given factors. New ratings are folded in as if every
    /// user had rated every item.
    ///
    /// ```
    /// use rankfold::model::RatingFactors;
    ///
    /// let ids = |names: &[&str]| names.iter().copied().collect();
    /// let model = rankfold::Model::from_rating_factors::<f32>(RatingFactors {
    ///     ids: (ids(&["ann", "bob"]), ids(&["alien", "brazil"])),
    ///     factors: [vec![1.0, -1.0], vec![0.5, 2.0]],
    ///     rank: 1,
    ///     mean: 3.0,
    ///     bias: None,
    ///     scale: None,
    /// })?;
    /// assert_eq!(model.rating_predictor()?.rating(Some(1), Some(1)), 1.0);
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub fn from_rating_factors<R: Real>(given: RatingFactors) -> Result<Self> {
        let sizes = [given.ids.0.len(), given.ids.1.len()];
        let biases = given.bias.iter().flatten();
        let fits = biases.zip(sizes).all(|(bias, size)| bias.len() == size);
        let numbers = given.bias.iter().flatten().flatten().chain([&given.mean]);
        if !fits || numbers.into_iter().any(|v| !v.is_finite()) {
            return Err(Error::input(
                "expected a finite mean, and a finite bias for each user and item",
            ));
        }
        let form = Factored::new(
            tall::<R>(&given.factors[0], given.rank, sizes[0], "users")?,
            tall::<R>(&given.factors[1], given.rank, sizes[1], "items")?,
        );
        let count = [
            vec![sizes[1] as u64; sizes[0]],
            vec![sizes[0] as u64; sizes[1]],
        ];
        let none = || [vec![0.0; sizes[0]], vec![0.0; sizes[1]]];
        let card = CompletionCard {
            solver: LEARNER.into(),
            regularization: None,
            penalty_power: None,
            mean: given.mean,
            baseline_mean: given.mean,
            scale: given.scale,
            residual: RESIDUAL,
            noise: None,
            columns: None,
        };
        card.check().map_err(Error::input)?;
        let biases = RatingBiases {
            folds: folds(
                &form,
                [&count[0], &count[1]],
                given.bias.is_some(),
                RESIDUAL,
            ),
            baseline: given.bias.clone().unwrap_or_else(none),
            bias: given.bias,
            count,
            variances: None,
        };
        Model::completion(
            LEARNER,
            Form::Factored(form),
            given.ids,
            Rated { card, biases },
        )
    }

    /// A metric W = G Gᵀ from the rows of G, one behind the other, each of this rank.
    /// It goes on learning where it is told what is near and far.
    pub fn from_metric_factor<R: Real>(
        factor: &[f64],
        rank: usize,
        distances: Option<Distances>,
    ) -> Result<Self> {
        let rows = factor.len().checked_div(rank).unwrap_or(0);
        let card = Card {
            score: Score::Distance,
            distances,
            ..Card::new(LEARNER)
        };
        card.check().map_err(Error::input)?;
        Ok(Model {
            card,
            form: Precise::new(Form::Psd(Psd::new(tall::<R>(
                factor, rank, rows, "features",
            )?))),
            features: Features::Numbered,
            preprocess: Preprocess::default(),
            objects: None,
            knowledge: Knowledge::Metric,
        })
    }
}
