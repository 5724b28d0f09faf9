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

/// What is known of how factors were learned.
#[derive(Debug, Clone, PartialEq)]
pub struct RatingsLearned {
    /// The learner, such as `als`.
    pub learner: String,
    /// Ratings of each user and of each item.
    pub count: [Vec<u64>; 2],
    /// Biases alone, and the mean beside them: what the model is compared with.
    pub baseline: [Vec<f64>; 2],
    /// The mean of the baseline.
    pub baseline_mean: f64,
    /// The root of the mean squared residual.
    pub residual: f64,
    /// The noise of ratings, where it was found.
    pub noise: Option<f64>,
    /// λ and p of the penalty λ nᵖ, where there is one.
    pub penalty: Option<(f64, f64)>,
    /// The seed.
    pub seed: u64,
    /// Iterations.
    pub iterations: u64,
}

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
        let none = || [vec![0.0; sizes[0]], vec![0.0; sizes[1]]];
        let learned = RatingsLearned {
            learner: LEARNER.into(),
            count: [
                vec![sizes[1] as u64; sizes[0]],
                vec![sizes[0] as u64; sizes[1]],
            ],
            baseline: given.bias.clone().unwrap_or_else(none),
            baseline_mean: given.mean,
            residual: RESIDUAL,
            noise: None,
            penalty: None,
            seed: 0,
            iterations: 0,
        };
        Self::from_learned_ratings::<R>(given, learned)
    }

    /// The same for factors of which more is known. W is stored in its balanced gauge.
    pub fn from_learned_ratings<R: Real>(
        given: RatingFactors,
        learned: RatingsLearned,
    ) -> Result<Self> {
        let sizes = [given.ids.0.len(), given.ids.1.len()];
        let sides = given.bias.iter().flatten().chain(&learned.baseline);
        let fits = sides.zip([0, 1].into_iter().cycle());
        let fits = fits.fold(true, |fits, (bias, side)| fits && bias.len() == sizes[side]);
        let counted = [0, 1]
            .iter()
            .all(|&side| learned.count[side].len() == sizes[side]);
        let numbers = given
            .bias
            .iter()
            .flatten()
            .chain(&learned.baseline)
            .flatten();
        let numbers = numbers.chain([&given.mean, &learned.baseline_mean, &learned.residual]);
        if !(fits && counted) || numbers.into_iter().any(|v| !v.is_finite()) {
            return Err(Error::input(
                "expected a finite mean, and a finite bias and a count for each user and item",
            ));
        }
        let form = Factored::new(
            tall::<R>(&given.factors[0], given.rank, sizes[0], "users")?,
            tall::<R>(&given.factors[1], given.rank, sizes[1], "items")?,
        );
        let card = CompletionCard {
            solver: if learned.learner == LEARNER {
                LEARNER
            } else {
                "own"
            }
            .into(),
            regularization: learned.penalty.map(|penalty| penalty.0),
            penalty_power: learned.penalty.map(|penalty| penalty.1),
            mean: given.mean,
            baseline_mean: learned.baseline_mean,
            scale: given.scale,
            residual: learned.residual,
            noise: learned.noise,
            columns: None,
        };
        card.check().map_err(Error::input)?;
        let biases = RatingBiases {
            folds: folds(
                &form,
                [&learned.count[0], &learned.count[1]],
                given.bias.is_some(),
                learned.residual,
            ),
            baseline: learned.baseline,
            bias: given.bias,
            count: learned.count,
            variances: None,
        };
        let mut model = Model::completion(
            &learned.learner,
            Form::Factored(form),
            given.ids,
            Rated { card, biases },
        )?;
        model.card.seed = learned.seed;
        model.card.counters.steps = learned.iterations;
        model.card.counters.updates = learned.iterations;
        Ok(model)
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
