//! Similarity: score(left, right) = leftᵀ W right, learned from triplets "the
//! query is more like this than like that".

use super::informative::most_informative;
use super::session::{Event, Session};
use crate::data::{Labelled, Labels};
use crate::eval::{self, Retrieval};
use crate::form::{Factored, Form, FormRef, Full, Psd, Tall};
use crate::model::{Metrics, Model, Projection, Score, Steps};
use crate::online::{RankOne, Rule, Shape, Step};
use crate::random::normal_at;
use crate::sample::Triplet;
use crate::{Error, Real, Result, Rows, SparseVec, memory};
use serde::{Deserialize, Serialize};

/// The better way to read the scores of a rule. Where both sides are projected
/// alike the cosine undoes the favour that the dot product does to long rows;
/// where they are not, it costs precision at the first places. A full matrix
/// has no space to project rows into.
pub(super) fn default_score(rule: Rule) -> Score {
    match rule.shape() {
        Shape::Psd => Score::Cosine,
        Shape::Factored | Shape::Full => Score::Dot,
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
}

impl Init {
    /// Its name on the command line and in model files.
    pub fn name(self) -> &'static str {
        match self {
            Init::Identity => "identity",
            Init::Gaussian => "gaussian",
        }
    }
}

/// Learns a similarity: options with their defaults, then [`Similarity::fit`]
/// for a whole data set, or [`Similarity::session`] to drive the training.
///
/// ```
/// use rankfold::{Similarity, data};
///
/// let text = "0 1:1 2:1\n0 1:1 3:1\n1 4:1 5:1\n1 4:1 6:1\n";
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("train.svm");
/// std::fs::write(&path, text).unwrap();
///
/// let train = data::read_labelled::<f32>(&path).unwrap();
/// let model = Similarity::loreta_psd().rank(2).steps(1_000).seed(1).fit(&train).unwrap();
/// assert_eq!(model.rank(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Similarity {
    pub(super) learner: Rule,
    pub(super) rank: usize,
    pub(super) steps: Option<u64>,
    pub(super) epochs: Option<u64>,
    pub(super) step_size: Option<f64>,
    /// `None` is the paper's rule: no limit.
    pub(super) step_limit: Option<f64>,
    pub(super) init: Init,
    pub(super) seed: u64,
    pub(super) score: Score,
    pub(super) preprocess: Steps,
    pub(super) valid_fraction: f64,
    pub(super) patience: Option<u32>,
    pub(super) curve_every: Option<u64>,
    pub(super) threads: usize,
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
            init: Init::Identity,
            seed: 0,
            score: default_score(learner),
            preprocess: Steps::default(),
            valid_fraction: 0.0,
            patience: None,
            curve_every: None,
            threads: 1,
        }
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

    /// Where training starts. Default: the truncated identity.
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
    /// `loreta-psd`, the dot product for `loreta`.
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
    pub(super) fn start<R: Real>(
        &self,
        rows: &Rows<R>,
        members: &[u32],
        classes: Option<&[u32]>,
    ) -> Result<Form<R>> {
        let (n, k) = (rows.columns(), self.rank);
        let shape = self.learner.shape();
        if shape == Shape::Full {
            let diagonal = f64::from(u8::from(self.init == Init::Identity));
            return Full::diagonal(n, n, diagonal).map(Form::Full);
        }
        if k > n {
            return Err(Error::input(format!(
                "rank {k} is above the number of features, {n}"
            )));
        }
        let sides = if shape == Shape::Factored { 2 } else { 1 };
        // The factors, and what finding the most informative features takes.
        let bytes = n as u128 * (sides * k as u128 * size_of::<R>() as u128 + 40);
        memory::require(bytes, &format!("a model of {n} features and rank {k}"))?;
        let place: Vec<usize> = match self.init {
            Init::Identity => {
                let mut place = vec![usize::MAX; n];
                let features = most_informative(rows, members, classes, k);
                features
                    .iter()
                    .enumerate()
                    .for_each(|(j, &i)| place[i as usize] = j);
                place
            }
            Init::Gaussian => Vec::new(),
        };
        let tall = |side: u64| {
            Tall::from_fn(n, k, |i, j| match self.init {
                Init::Identity => f64::from(u8::from(place[i] == j)),
                Init::Gaussian => {
                    normal_at(self.seed, side, i as u64, j as u64) / (k as f64).sqrt()
                }
            })
        };
        Ok(match shape {
            Shape::Psd => Form::Psd(Psd::new(tall(0)?)),
            _ => Form::Factored(Factored::new(tall(0)?, tall(1)?)),
        })
    }
}

/// Turns triplets into rank-one examples: query ⊗ (positive − negative).
#[derive(Debug, Clone)]
pub(super) struct Examples<'a, R> {
    rows: &'a Rows<R>,
    difference: SparseVec<R>,
}

impl<'a, R: Real> Examples<'a, R> {
    pub fn new(rows: &'a Rows<R>) -> Self {
        Examples {
            rows,
            difference: SparseVec::new(),
        }
    }

    #[inline]
    pub fn make(&mut self, triplet: Triplet) -> RankOne<'_, R> {
        make_example(self.rows, &mut self.difference, triplet)
    }
}

/// The example of a triplet; `difference` is scratch.
#[inline]
pub(super) fn make_example<'s, R: Real>(
    rows: &'s Rows<R>,
    difference: &'s mut SparseVec<R>,
    triplet: Triplet,
) -> RankOne<'s, R> {
    let row = |i: u32| rows.row(i as usize);
    difference.set_difference(row(triplet.positive), row(triplet.negative));
    RankOne {
        left: row(triplet.query),
        right: difference.as_row(),
    }
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

/// The metrics of this task by name.
pub(super) fn metrics(found: &Retrieval) -> Metrics {
    Metrics::from([
        ("map".to_owned(), found.map),
        ("precision_at_1".to_owned(), found.precision_at_1),
        ("precision_at_10".to_owned(), found.precision_at_10),
    ])
}
