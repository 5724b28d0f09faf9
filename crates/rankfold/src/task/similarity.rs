//! Similarity: score(left, right) = leftᵀ W right, learned from triplets "the
//! query is more like this than like that".

use super::informative::pairs;
use super::inputs::{Inputs, about};
use super::session::{Event, Session};
use super::triplet::{Sides, TripletRows};
use crate::data::{Labelled, Labels};
use crate::eval::{self, Retrieval};
use crate::form::{Diagonal, Factored, Form, FormRef, Full, Gaussian, Psd, SparseSum, Tall};
use crate::model::{Metrics, Model, Projection, Score, Steps};
use crate::online::{AromaOptions, Rule, Shape, Step, UpdateOn};
use crate::random::normal_at;
use crate::sample::Triplets;
use crate::{Error, Real, Result, Rows, SparseVec, memory};
use serde::{Deserialize, Serialize};

/// The better way to read the scores of a rule. Where both sides are projected
/// alike the cosine undoes the favour that the dot product does to long rows;
/// where they are not, it costs precision at the first places. A full matrix
/// has no space to project rows into.
pub(super) fn default_score(rule: Rule) -> Score {
    match rule.shape() {
        Shape::Psd | Shape::PolarPsd => Score::Cosine,
        _ => Score::Dot,
    }
}

/// Where a rule starts unless told otherwise: a distribution that knows nothing
/// yet has mean zero.
fn default_init(rule: Rule) -> Init {
    match rule.is_aroma() {
        true => Init::Zero,
        false => Init::Identity,
    }
}

/// Where training starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// The identity on the k most informative features (the most frequent ones
    /// where there are no labels), zero elsewhere.
    Identity,
    /// Independent normal entries of variance 1/k: W is the identity on average.
    Gaussian,
    /// The best matrix of rank k near what gradient steps from zero give, at
    /// least 2k of them. For a full matrix, zero.
    Zero,
}

impl Init {
    /// Its name on the command line and in model files.
    pub fn name(self) -> &'static str {
        match self {
            Init::Identity => "identity",
            Init::Gaussian => "gaussian",
            Init::Zero => "zero",
        }
    }
}

/// Which negatives are learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Negatives {
    /// Any row of another class.
    Random,
    /// Of so many rows of other classes the one that scores best.
    Hard(usize),
}

impl Negatives {
    /// Candidates of a hard negative, unless others are asked for.
    pub const CANDIDATES: usize = 20;
}

/// Which triplets are learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// Any.
    Random,
    /// Of so many the one whose order the model is least sure of.
    Uncertain(usize),
}

impl Select {
    /// Candidates of an uncertain triplet, unless others are asked for. More of
    /// them gain little and cost much.
    pub const CANDIDATES: usize = 5;
}

/// Learns a similarity: options with their defaults, then [`Similarity::fit`]
/// for a whole data set, or [`Similarity::session`] to drive the training.
///
/// ```
/// use rankfold::data::{Labelled, Labels};
/// use rankfold::{Rows, Similarity};
///
/// let rows = Rows::from_sparse([[0, 1], [0, 2], [3, 4], [3, 5]].map(|row| row.map(|j| (j, 1.0_f32))));
/// let train = Labelled::new(rows.unwrap());
/// let train = train.with_labels(Labels::single([0, 0, 1, 1])).unwrap();
///
/// let model = Similarity::loreta_psd().rank(2).steps(1_000).seed(1).fit(&train).unwrap();
/// assert_eq!(model.rank(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Similarity {
    pub(super) learner: Rule,
    pub(super) rank: usize,
    pub(super) steps: Option<u64>,
    pub(super) epochs: Option<u64>,
    pub(super) step_size: Option<f64>,
    /// `None` is the paper's rule: no limit.
    pub(super) step_limit: Option<f64>,
    pub(super) decay: Option<f64>,
    pub(super) aggressiveness: f64,
    pub(super) confidence_r: f64,
    pub(super) aroma: AromaOptions,
    pub(super) batch: usize,
    pub(super) negatives: Negatives,
    pub(super) select: Select,
    pub(super) average: bool,
    pub(super) init: Init,
    pub(super) seed: u64,
    pub(super) score: Score,
    pub(super) preprocess: Steps,
    pub(super) valid_fraction: f64,
    pub(super) patience: Option<u32>,
    pub(super) curve_every: Option<u64>,
    pub(super) threads: usize,
}

impl Default for Similarity {
    fn default() -> Self {
        Self::loreta_psd()
    }
}

impl Similarity {
    /// The default learner: symmetric positive semi-definite matrices.
    pub fn loreta_psd() -> Self {
        Self::new(Rule::LoretaPsd)
    }

    /// Any matrix of rank k: the two sides may differ.
    pub fn loreta() -> Self {
        Self::new(Rule::Loreta)
    }

    /// By the name of the learner.
    pub fn new(learner: Rule) -> Self {
        Similarity {
            learner,
            rank: 30,
            steps: None,
            epochs: None,
            step_size: None,
            step_limit: Some(Step::LIMIT),
            decay: None,
            aggressiveness: 0.1,
            confidence_r: 1.0,
            aroma: AromaOptions::default(),
            batch: 1,
            negatives: Negatives::Random,
            select: Select::Random,
            average: false,
            init: default_init(learner),
            seed: 0,
            score: default_score(learner),
            preprocess: Steps::default(),
            valid_fraction: 0.0,
            patience: None,
            curve_every: None,
            threads: 1,
        }
    }

    /// The rule that learns.
    pub fn rule(&self) -> Rule {
        self.learner
    }

    /// Rank of W, at most the number of features. Default 30.
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = rank;
        self
    }

    /// How many triplets to learn from. Default: fifty for each row, at least
    /// 20,000; one pass where triplets are listed.
    pub fn steps(mut self, steps: u64) -> Self {
        self.steps = Some(steps);
        self
    }

    /// The same in passes over the rows, or over the listed triplets.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = Some(epochs);
        self
    }

    /// Step size, above 0. Default: chosen by a short pre-training run.
    pub fn step_size(mut self, size: f64) -> Self {
        self.step_size = Some(size);
        self
    }

    /// Largest relative change one step may make. Default 2; `None` for the
    /// paper's rule.
    pub fn step_limit(mut self, limit: Option<f64>) -> Self {
        self.step_limit = limit;
        self
    }

    /// After so many triplets the step is half as long, after twice as many a
    /// third, and so on. Default: the step stays as it is.
    pub fn decay(mut self, triplets: f64) -> Self {
        self.decay = Some(triplets);
        self
    }

    /// The longest step of learners that choose their own: C of OASIS and of
    /// passive-aggressive learning. Default 0.1.
    pub fn aggressiveness(mut self, cap: f64) -> Self {
        self.aggressiveness = cap;
        self
    }

    /// How little AROMA trusts one example: r, above 0. A small r makes it sure
    /// soon. Default 1.
    pub fn confidence_r(mut self, r: f64) -> Self {
        self.confidence_r = r;
        self
    }

    /// Variants of AROMA. Default: as the paper runs it.
    pub fn aroma(mut self, options: AromaOptions) -> Self {
        self.aroma = options;
        self
    }

    /// Triplets that make one step together, along their mean gradient. Default 1.
    /// The steps are rounded up to whole batches.
    pub fn batch(mut self, triplets: usize) -> Self {
        self.batch = triplets;
        self
    }

    /// Which negatives to learn from. Default: random ones.
    pub fn negatives(mut self, negatives: Negatives) -> Self {
        self.negatives = negatives;
        self
    }

    /// Which triplets to learn from; only AROMA knows how sure it is. Default: any.
    pub fn select(mut self, select: Select) -> Self {
        self.select = select;
        self
    }

    /// Gives the average of W over the run, later ones weighing more, instead of
    /// the last one.
    pub fn average(mut self, average: bool) -> Self {
        self.average = average;
        self
    }

    /// Where training starts. Default: the truncated identity; zero for AROMA.
    pub fn init(mut self, init: Init) -> Self {
        self.init = init;
        self
    }

    /// Seed of everything random. Default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How the model's scores are read. Default: the projected cosine for
    /// `loreta-psd` and `gradient-psd`, the dot product for the others.
    pub fn score(mut self, score: Score) -> Self {
        self.score = score;
        self
    }

    /// What is done to rows first; the model keeps it. Default: nothing.
    pub fn preprocess(mut self, steps: Steps) -> Self {
        self.preprocess = steps;
        self
    }

    /// Share of the rows held out for validation, from 0 to below 1. Default 0.
    pub fn valid_fraction(mut self, fraction: f64) -> Self {
        self.valid_fraction = fraction;
        self
    }

    /// Stop after this many measurements without a better validation mAP.
    pub fn patience(mut self, checks: u32) -> Self {
        self.patience = Some(checks);
        self
    }

    /// Steps between two points of the learning curve, at which validation is
    /// measured. Default: a twentieth of the steps.
    pub fn curve_every(mut self, steps: u64) -> Self {
        self.curve_every = Some(steps);
        self
    }

    /// Threads for validation. Training itself uses one, by design; results do
    /// not depend on this. Default 1.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Checks all options at once; a session does so too.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::input(message));
        if self.rank == 0 {
            return refuse("the rank must be at least 1".into());
        }
        if let Some(size) = self.step_size
            && !(size.is_finite() && size > 0.0)
        {
            return refuse(format!("the step size must be above 0, found {size}"));
        }
        if let Some(limit) = self.step_limit
            && (limit.is_nan() || limit <= 0.0)
        {
            return refuse(format!("the step limit must be above 0, found {limit}"));
        }
        if let Some(triplets) = self.decay
            && !(triplets.is_finite() && triplets > 0.0)
        {
            return refuse(format!(
                "the decay must be above 0 triplets, found {triplets}"
            ));
        }
        let name = self.learner.name();
        if !(self.aggressiveness.is_finite() && self.aggressiveness > 0.0) {
            return refuse(format!(
                "the aggressiveness must be above 0, found {}",
                self.aggressiveness
            ));
        }
        if self.learner.is_passive_aggressive()
            && (self.step_size.is_some() || self.decay.is_some())
        {
            return refuse(format!(
                "`{name}` chooses its own steps: bound them by the aggressiveness"
            ));
        }
        if self.batch == 0 {
            return refuse("a batch needs at least 1 triplet".into());
        }
        if self.batch > LARGEST_BATCH {
            return refuse(format!(
                "a batch has at most {LARGEST_BATCH} triplets, found {}",
                self.batch
            ));
        }
        if self.batch > 1 && !self.learner.has_batches() {
            return refuse(format!("`{name}` learns from one triplet at a time"));
        }
        if self.negatives == Negatives::Hard(0) {
            return refuse("a hard negative needs at least 1 candidate".into());
        }
        self.check_aroma()?;
        let full = !self.learner.is_low_rank();
        if full && self.score == Score::Cosine {
            return refuse(format!(
                "`{name}` learns a full matrix, which has no space to project rows into: the score must be dot"
            ));
        }
        let definite = self.learner == Rule::Lego || self.learner.cone().is_some();
        if definite && self.init != Init::Identity {
            return refuse(format!("`{name}` starts from the identity"));
        }
        if full && self.init == Init::Gaussian {
            return refuse(format!("`{name}` starts from the identity or from zero"));
        }
        if !(0.0..1.0).contains(&self.valid_fraction) {
            return refuse(format!(
                "the validation fraction must be at least 0 and below 1, found {}",
                self.valid_fraction
            ));
        }
        if self.curve_every == Some(0) {
            return refuse("the interval of the curve must be at least 1 step".into());
        }
        if self.patience == Some(0) {
            return refuse("the patience must be at least 1".into());
        }
        if self.threads == 0 {
            return refuse("the number of threads must be at least 1".into());
        }
        Ok(())
    }

    fn check_aroma(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::input(message));
        let name = self.learner.name();
        if !(self.confidence_r.is_finite() && self.confidence_r > 0.0) {
            return refuse(format!(
                "r, the confidence parameter, must be above 0, found {}",
                self.confidence_r
            ));
        }
        if !self.learner.is_aroma() {
            if self.aroma != AromaOptions::default() {
                return refuse(format!(
                    "`{name}` has no covariance: variants of AROMA are for `aroma-factored` and `aroma-diagonal`"
                ));
            }
            if self.select != Select::Random {
                return refuse(format!(
                    "`{name}` does not know how sure it is: choose triplets with `aroma-factored` or `aroma-diagonal`"
                ));
            }
            return Ok(());
        }
        if self.step_size.is_some() || self.decay.is_some() {
            return refuse(format!(
                "`{name}` chooses its own steps: say by r how little one example is trusted"
            ));
        }
        if self.average {
            return refuse(format!(
                "`{name}` has no average: a mean without its covariance would be no model of it"
            ));
        }
        if self.aroma.new_covariance && self.learner == Rule::AromaDiagonal {
            return refuse(format!(
                "the step with new covariances is for `aroma-factored`, not for `{name}`"
            ));
        }
        if self.aroma.inverse_diagonal && self.learner == Rule::AromaFactored {
            return refuse(format!(
                "the inverse diagonal is for `aroma-diagonal`, not for `{name}`"
            ));
        }
        if self.aroma.update_on == UpdateOn::StrictMistake && self.init == Init::Zero {
            return refuse(
                "from zero no triplet is ever in the wrong order: update on `mistake`, where ties count, or start from the identity".into(),
            );
        }
        match (self.select, self.negatives) {
            (Select::Uncertain(0 | 1), _) => {
                refuse("an uncertain triplet is chosen from at least 2 candidates".into())
            }
            (Select::Uncertain(_), Negatives::Hard(_)) => {
                refuse("choose uncertain triplets or hard negatives, not both".into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that the learner can score rows with other things; a session with
    /// objects does so too.
    pub fn check_objects(&self) -> Result<()> {
        match self.learner.is_symmetric() {
            false => Ok(()),
            true => Err(Error::input(format!(
                "`{}` learns a symmetric matrix, in which rows and objects have the same features: use another learner with objects, such as `loreta`",
                self.learner.name()
            ))),
        }
    }

    /// Learns from labelled rows until the steps are done.
    pub fn fit<R: Real>(&self, data: &Labelled<R>) -> Result<Model> {
        let mut session = self.session(data)?;
        while !matches!(session.advance(u64::MAX)?, Event::Finished(_)) {}
        session.into_model()
    }

    /// A training run on labelled rows that the caller drives: with progress,
    /// interruptions and checkpoints.
    pub fn session<'a, R: Real>(&self, data: &'a Labelled<R>) -> Result<Session<'a, R>> {
        Session::new(self, data, None, None)
    }

    /// The form at the start of training.
    pub(super) fn start<R: Real>(&self, inputs: &Inputs<'_, R>) -> Result<Form<R>> {
        let Sides { left, right } = inputs.sides();
        let (n, m, k) = (left.columns(), right.columns(), self.rank);
        let shape = self.learner.shape();
        let diagonal = f64::from(u8::from(self.init == Init::Identity));
        match shape {
            Shape::Full => return Full::diagonal(n, m, diagonal).map(Form::Full),
            Shape::Diagonal => return Ok(Form::Diagonal(Diagonal::new(n, m, diagonal))),
            Shape::Gaussian => return Gaussian::new(n, m, diagonal).map(Form::Gaussian),
            Shape::Factored | Shape::Psd | Shape::Polar | Shape::PolarPsd => {}
        }
        if k > n {
            return Err(Error::input(format!(
                "rank {k} is above the number of features, {n}"
            )));
        }
        if k > m {
            let message = format!("rank {k} is above the number of features, {m}");
            return Err(about("objects", Error::input(message)));
        }
        // The factors, and what finding the most informative features takes.
        let factor = |rows: usize| rows as u128 * k as u128 * size_of::<R>() as u128;
        let factors = match shape {
            Shape::Psd | Shape::PolarPsd => factor(n),
            _ => factor(n) + factor(m),
        };
        let columns = inputs.objects.as_ref().map_or(n, |_| n.saturating_add(m));
        let what = format!("a model of {columns} features and rank {k}");
        memory::require(factors + columns as u128 * 40, &what)?;
        if self.init == Init::Zero {
            return from_zero(inputs.sides(), inputs.triplets.clone(), shape, k);
        }
        // Column j of the factors is one feature of each side.
        let paired = match self.init {
            Init::Identity => pairs(&inputs.rows, inputs.objects.as_ref(), k),
            _ => Vec::new(),
        };
        let tall = |side: u64, rows: usize, features: &dyn Fn(&(u32, u32)) -> u32| {
            let mut place = vec![usize::MAX; if paired.is_empty() { 0 } else { rows }];
            for (j, pair) in paired.iter().enumerate() {
                place[features(pair) as usize] = j;
            }
            Tall::from_fn(rows, k, |i, j| match self.init {
                Init::Identity => f64::from(u8::from(place[i] == j)),
                _ => normal_at(self.seed, side, i as u64, j as u64) / (k as f64).sqrt(),
            })
        };
        let left = tall(0, n, &|pair| pair.0)?;
        if matches!(shape, Shape::Psd | Shape::PolarPsd) {
            return Form::Psd(Psd::new(left)).shaped(shape);
        }
        let form = Factored::new(left, tall(1, m, &|pair| pair.1)?);
        Form::Factored(form).shaped(shape)
    }
}

/// The gradient of a batch has as many columns; what they do to each other costs
/// their number cubed.
const LARGEST_BATCH: usize = 1_024;

/// Steps of a start from zero, at most, as a multiple of the rank.
const MOST_STEPS: usize = 8;

/// Triplets drawn for a start from zero, as a multiple of those it needs.
const PATIENCE: usize = 100;

/// Gradient steps on the hinge loss from W = 0, at least 2k of them, then the
/// best matrix of rank k.
fn from_zero<R: Real>(
    rows: Sides<'_, R>,
    mut triplets: Triplets,
    shape: Shape,
    k: usize,
) -> Result<Form<R>> {
    let (n, m) = (rows.left.columns(), rows.right.columns());
    let mut sum = SparseSum::new();
    let mut wanted = 2 * k;
    // A step as long as a typical triplet needs to reach its margin.
    let mut size = 0.0;
    for drawn in 1..=PATIENCE.saturating_mul(wanted) {
        let TripletRows {
            query,
            positive,
            negative,
        } = TripletRows::of(rows, triplets.draw());
        let mut left = SparseVec::new();
        query.iter().for_each(|(j, v)| left.push(j, v));
        let mut right = SparseVec::new();
        right.set_difference(positive, negative);
        let squared = query.squared_norm() * right.as_row().squared_norm();
        size += (squared - size) / drawn as f64;
        if squared > 0.0 && sum.score(&left, &right) < 1.0 {
            sum.push(left, right, 1.0 / size);
        }
        if sum.len() >= wanted {
            let start = match shape {
                Shape::Psd | Shape::PolarPsd => sum.psd(n, k)?,
                _ => sum.factored((n, m), k)?,
            };
            match start {
                Some(form) => return form.shaped(shape),
                None if wanted < MOST_STEPS * k => wanted *= 2,
                None => break,
            }
        }
    }
    Err(Error::input(format!(
        "the triplets do not span rank {k} from zero: choose a smaller rank or another start"
    )))
}

/// The one class of each row; similarity has no use for rows with several.
pub(super) fn classes(labels: &Labels, name: impl Fn(usize) -> String) -> Result<Vec<u32>> {
    (0..labels.len())
        .map(|i| match labels.of(i) {
            [class] => Ok(*class),
            other => Err(Error::input(format!(
                "row `{}` has {} labels, similarity needs exactly one",
                name(i),
                other.len()
            ))),
        })
        .collect()
}

/// Measures a form on rows: every member is a query against all others.
/// `None` when `progress` said to stop.
pub fn evaluate<R: Real>(
    form: FormRef<'_, R>,
    rows: &Rows<R>,
    members: &[u32],
    classes: &[u32],
    score: Score,
    threads: usize,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Result<Option<Retrieval>> {
    let projection = Projection::new(form, rows, members, score)?;
    let scorer = projection.scorer();
    Ok(eval::retrieval(&scorer, classes, threads, progress))
}

/// Some of a set of rows, with the class of each of these.
#[derive(Debug, Clone, Copy)]
pub(super) struct Classified<'a, R> {
    pub rows: &'a Rows<R>,
    pub members: &'a [u32],
    pub classes: &'a [u32],
}

/// The same with other things: every query looks for the objects of its class.
pub(super) fn evaluate_among<R: Real>(
    form: FormRef<'_, R>,
    queries: Classified<'_, R>,
    objects: Classified<'_, R>,
    score: Score,
    threads: usize,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Result<Option<Retrieval>> {
    let (left, right) = (
        (queries.rows, queries.members),
        (objects.rows, objects.members),
    );
    let projection = Projection::between(form, left, right, score)?;
    let (scorer, classes) = (projection.scorer(), objects.classes);
    Ok(eval::retrieval_among(
        &scorer,
        queries.classes,
        classes,
        threads,
        progress,
    ))
}

/// The metrics of this task by name.
pub(super) fn metrics(found: &Retrieval) -> Metrics {
    Metrics::from([
        ("map".to_owned(), found.map),
        ("precision_at_1".to_owned(), found.precision_at_1),
        ("precision_at_10".to_owned(), found.precision_at_10),
    ])
}
