//! Similarity: score(left, right) = leftᵀ W right, learned from triplets "the
//! query is more like this than like that".

mod calibrate;
mod choose;
mod evaluation;
mod informative;
mod online;
mod session;
mod step_size;
mod stepper;

pub use calibrate::Calibration;
pub(super) use calibrate::standard_margins;
pub use evaluation::Evaluate;
pub use session::SimilaritySession;

use super::inputs::{Inputs, TrainingData};
use super::run::{Fit, Run};
use super::start::{self, Start};
use super::triplet::{Sides, TripletRows};
use super::{LARGEST_BATCH, Learn, Rank, check_length, threads};
use crate::data::{Labelled, Labels};
use crate::eval::{self, Retrieval};
use crate::form::{self, Diagonal, Factored, Form, FormRef, Full, Gaussian, Psd, SparseSum, Tall};
use crate::model::{Metrics, Model, Normalize, Projection, Reading, Scaling, Score, Weight};
use crate::online::{AromaOptions, InnerSteps, Rule, Shape, Step, UpdateOn};
use crate::options::{Options, Range};
use crate::random::normal_at;
use crate::sample::{Given, Triplets};
use crate::{Error, Real, Result, Rows, SparseVec, choices, memory, options};
use choose::Choice;
use informative::pairs;

/// The better way to read the scores of a rule. Where both sides are projected
/// alike the cosine undoes the favor that the dot product does to long rows;
/// where they are not, it costs precision at the first places. A full matrix
/// has no space to project rows into.
pub(super) fn default_score(rule: Rule) -> Score {
    match rule.shape() {
        Shape::Psd | Shape::PolarPsd => Score::Cosine,
        _ => Score::Dot,
    }
}

choices! {
    /// Where training starts.
    pub enum Init {
        /// The identity on the k most informative features (the most frequent ones without
        /// labels), zero elsewhere
        Identity = "identity",
        /// Independent normal entries of variance 1/k: W is the identity on average
        Gaussian = "gaussian",
        /// The best matrix of rank k near what gradient steps from zero give; zero for a full
        /// matrix
        Zero = "zero",
        /// A ridge regression on the classes or labels in closed form; where it has fewer than k
        /// directions, principal ones beside it
        Ridge = "ridge",
        /// The W of a model: give its file
        Model = "model",
    }
}

choices! {
    /// Which negatives are learned from.
    pub enum Negatives {
        /// Any row of another class
        Random = "random",
        /// The row of another class with the best score, of a few random ones
        Hard = "hard",
    }
}

choices! {
    /// Which triplets are learned from.
    pub enum Select {
        /// Any
        Random = "random",
        /// Of a few triplets the one whose order AROMA is least sure of
        Uncertain = "uncertain",
    }
}

choices! {
    /// The covariances by which AROMA moves its mean.
    pub enum Covariance {
        /// Those before the step, as the paper runs it
        Old = "old",
        /// Those after the step, as the paper analyzes it
        New = "new",
    }
}

/// Candidates of a hard negative, unless others are asked for.
const HARD_CANDIDATES: usize = 20;

/// Candidates of an uncertain triplet: more of them gain little and cost much.
const UNCERTAIN_CANDIDATES: usize = 5;

options! {
    /// Learns a similarity: options with their defaults, then [`Similarity::fit`] for a
    /// whole data set, or [`Similarity::session`] to drive the training.
    ///
    /// ```
    /// use rankfold::data::{Labelled, Labels};
    /// use rankfold::{Rows, Similarity};
    ///
    /// let rows = [[0, 1], [0, 2], [3, 4], [3, 5]].map(|row| row.map(|j| (j, 1.0_f32)));
    /// let train = Labelled::new(Rows::from_sparse(rows).unwrap());
    /// let train = train.with_labels(Labels::single([0, 0, 1, 1])).unwrap();
    ///
    /// let model = Similarity::default().rank(2).steps(1_000).seed(1).fit(&train).unwrap();
    /// assert_eq!(model.rank(), 2);
    /// ```
    pub struct Similarity: "similarity" {
        /// Learning algorithm [default: loreta-psd, with objects loreta].
        learner: Option<Rule> = None, among [
            "loreta-psd", "loreta", "aroma-factored", "aroma-diagonal", "oasis",
            "passive-aggressive", "gradient", "gradient-psd", "manifold-identification", "lego",
            "balanced", "polar", "flat", "polar-psd", "cone-flat", "cone-affine", "cone-logdet",
            "cone-log", "cone-von-neumann",
        ];
        /// Rank of W, at most the number of features, and of those of the objects. `auto` is 30;
        /// after the start `ridge` it is one less than the classes where these are more, up to 64.
        rank: Rank = Rank::AUTO, in Range::COUNT,
            for "low-rank learners, such as `loreta-psd`" if |o| o.rule().is_low_rank();
        /// Number of triplets to learn from [default: 50 a row, at least 20,000, and fewer
        /// where held-out rows say so; one pass over listed triplets].
        steps: Option<u64> = None, effect Length;
        /// Number of passes over the rows, or over listed triplets, instead of `steps`.
        epochs: Option<u64> = None, effect Length;
        /// Step size [default: the best of seven in a short trial].
        step_size: Option<f64> = None, in Range::POSITIVE,
            for "learners that do not choose their own steps: not `oasis`, `passive-aggressive` and AROMA"
            if Similarity::has_steps;
        /// Largest relative change of W that one step may make; `inf` for none.
        step_limit: f64 = Step::LIMIT, in Range::LIMIT,
            for "learners on a manifold, such as `loreta-psd`" if |o| o.rule().has_limit();
        /// Steps on the core matrix between two full steps, s in the paper.
        inner_steps: u64 = 3, in Range::COUNT,
            for "`manifold-identification`" if Similarity::has_inner_steps;
        /// Size of these steps, η₂ in the paper [default: the best of seven in a short trial].
        inner_size: Option<f64> = None, in Range::POSITIVE,
            for "`manifold-identification`" if Similarity::has_inner_steps;
        /// Let the step shrink: it is half as long after this many triplets, and a third after
        /// twice as many.
        decay: Option<f64> = None, in Range::POSITIVE,
            for "learners that do not choose their own steps: not `oasis`, `passive-aggressive` and AROMA"
            if Similarity::has_steps;
        /// Longest step of passive-aggressive learners, C in the papers.
        aggressiveness: f64 = 0.1, in Range::POSITIVE,
            for "`oasis` and `passive-aggressive`" if |o| o.rule().is_passive_aggressive();
        /// AROMA's noise parameter r. Smaller values commit sooner.
        confidence_r: f64 = 1.0, in Range::POSITIVE,
            for "`aroma-factored` and `aroma-diagonal`" if |o| o.rule().is_aroma();
        /// Which triplets AROMA learns from.
        update_on: UpdateOn = UpdateOn::Margin,
            for "`aroma-factored` and `aroma-diagonal`" if |o| o.rule().is_aroma();
        /// The covariances by which `aroma-factored` moves its mean.
        covariance: Covariance = Covariance::Old,
            for "`aroma-factored`" if |o| o.rule() == Rule::AromaFactored;
        /// Keep the diagonal of the inverse covariance.
        inverse_diagonal: bool = false,
            for "`aroma-diagonal`" if |o| o.rule() == Rule::AromaDiagonal;
        /// Which triplets are learned from.
        select: Select = Select::Random,
            for "`aroma-factored` and `aroma-diagonal`" if |o| o.rule().is_aroma();
        /// Which negatives are learned from.
        negatives: Negatives = Negatives::Random;
        /// Candidates of a hard negative or of an uncertain triplet [default: 20 rows, 5
        /// triplets].
        candidates: Option<usize> = None, in Range::COUNT,
            for "`--negatives hard` and `--select uncertain`" if Similarity::has_candidates;
        /// Triplets that make one step together; the steps are rounded up to whole batches.
        batch: usize = 1, within Range::between(1.0, LARGEST_BATCH as f64),
            for "learners with mini-batches, such as `loreta-psd` and `loreta`"
            if |o| o.rule().has_batches();
        /// Keep the average of W over the run, later matrices weighing more, not the last W.
        average: bool = false, for "learners other than AROMA" if |o| !o.rule().is_aroma();
        /// Where W starts [default: chosen on held-out rows where `steps` is not given, for
        /// `loreta-psd` and `loreta`; else identity, for AROMA zero].
        init: Option<Init> = None;
        /// How the model scores two rows; can be overridden later [default: as `init`, chosen
        /// on held-out rows; else cosine for symmetric low-rank learners such as `loreta-psd`,
        /// dot for the others].
        score: Option<Score> = None, among ["dot", "cosine", "classes"];
        /// Learn as the papers print it: from the identity, without a limit of steps, scored by
        /// the dot product, and nothing chosen but the step size. Other options still hold.
        as_published: bool = false,
            for "learners on a manifold, such as `loreta-psd`" if |o| o.rule().has_limit();
        shared seed;
        shared threads;
        /// Weight features by how rare they are; the model keeps the weights.
        weight: Weight = Weight::None, among ["none", "tfidf"];
        /// Scale rows to length one; the model does so too.
        normalize: Normalize = Normalize::None, among ["none", "l2"];
        /// Subtract column means and divide by standard deviations; the model keeps them.
        /// `auto` is chosen for tables where `steps` is not given, and else none.
        standardize: Scaling = Scaling::Auto;
        shared valid_fraction;
        shared patience;
        shared curve_every;
    }
}

impl Similarity {
    /// By the name of the learner.
    pub fn new(learner: Rule) -> Self {
        Self::default().learner(learner)
    }

    pub(super) fn rule(&self) -> Rule {
        self.learner.unwrap_or(Rule::LoretaPsd)
    }

    fn has_steps(&self) -> bool {
        !(self.rule().is_passive_aggressive() || self.rule().is_aroma())
    }

    fn has_inner_steps(&self) -> bool {
        self.rule() == Rule::ManifoldIdentification
    }

    fn has_candidates(&self) -> bool {
        self.negatives == Negatives::Hard || self.select == Select::Uncertain
    }

    fn candidates_or_default(&self) -> usize {
        self.candidates.unwrap_or(match self.select {
            Select::Random => HARD_CANDIDATES,
            Select::Uncertain => UNCERTAIN_CANDIDATES,
        })
    }

    /// Where W starts: as given, or as suits the learner. A distribution that knows
    /// nothing yet has mean zero.
    fn init_or_default(&self) -> Init {
        self.init.unwrap_or(match self.rule().is_aroma() {
            true => Init::Zero,
            false => Init::Identity,
        })
    }

    fn score_or_default(&self) -> Score {
        self.score.unwrap_or_else(|| default_score(self.rule()))
    }

    fn aroma(&self) -> AromaOptions {
        AromaOptions {
            update_on: self.update_on,
            new_covariance: self.covariance == Covariance::New,
            inverse_diagonal: self.inverse_diagonal,
        }
    }

    /// The steps between full ones of this size, where nothing was tried.
    fn inner(&self, step_size: f64) -> InnerSteps {
        let usual = InnerSteps::default();
        InnerSteps {
            count: self.inner_steps,
            size: match self.inner_size {
                Some(size) if step_size > 0.0 => size / step_size,
                _ => usual.size,
            },
        }
    }

    /// The options with what `as_published` stands for, where nothing else is asked for.
    pub(super) fn published(&self) -> Self {
        if !self.as_published {
            return self.clone();
        }
        let usual = Self::default();
        let mut options = self.clone();
        if self.step_limit == usual.step_limit {
            options.step_limit = f64::INFINITY;
        }
        if self.standardize == usual.standardize {
            options.standardize = Scaling::None;
        }
        options.init = self.init.or(Some(Init::Identity));
        options.score = self.score.or(Some(Score::Dot));
        options
    }

    /// The options with the learner that these data are learned by.
    fn for_data<R>(&self, data: &TrainingData<'_, R>) -> Self {
        self.published()
            .learner(match (self.learner, data.objects) {
                (None, Some(_)) => Rule::Loreta,
                _ => self.rule(),
            })
    }

    /// Checks all options at once; a session does so too.
    pub fn check(&self) -> Result<()> {
        self.check_table()?;
        check_length(self.steps, self.epochs)?;
        let (name, init) = (self.rule(), self.init_or_default());
        let full = !self.rule().is_low_rank();
        if full && self.score.is_some_and(|score| score != Score::Dot) {
            return Err(Error::option(
                "score",
                format!(
                    "must be dot: `{name}` learns a full matrix, which has no space to project rows into"
                ),
            ));
        }
        let definite = self.rule() == Rule::Lego || self.rule().cone().is_some();
        if definite && !matches!(init, Init::Identity | Init::Model) {
            return Err(Error::option(
                "init",
                format!("must be identity or a model for `{name}`"),
            ));
        }
        if name.is_aroma() && init == Init::Model {
            return Err(start::refused_for_aroma());
        }
        if full && matches!(init, Init::Gaussian | Init::Ridge) {
            let starts = match name.is_aroma() {
                true => "identity or zero",
                false => "identity, zero or a model",
            };
            return Err(Error::option(
                "init",
                format!("must be {starts} for `{name}`, which learns a full matrix"),
            ));
        }
        if self.update_on == UpdateOn::StrictMistake && init == Init::Zero {
            return Err(Error::option(
                "update_on",
                "must be margin or mistake with a start from zero, where no triplet is in the wrong order; or start with `--init identity`",
            ));
        }
        if self.select == Select::Uncertain && self.candidates_or_default() < 2 {
            return Err(Error::option(
                "candidates",
                "must be at least 2 for `--select uncertain`",
            ));
        }
        if self.select == Select::Uncertain && self.negatives == Negatives::Hard {
            return Err(Error::option(
                "select",
                "must be random with `--negatives hard`: choose one of the two",
            ));
        }
        Ok(())
    }

    /// Checks that the learner can score rows with other things; a session with
    /// objects does so too.
    pub fn check_objects(&self) -> Result<()> {
        match self.rule().is_symmetric() {
            false => Ok(()),
            true => Err(Error::input(format!(
                "`{}` learns a symmetric matrix, in which rows and objects have the same features: use another learner with objects, such as `loreta`",
                self.rule().name()
            ))),
        }
    }

    /// Learns from labelled rows.
    pub fn fit<R: Real>(&self, data: &Labelled<R>) -> Result<Model> {
        Ok(self.fit_with(data.into(), Run::default())?.model)
    }

    /// The same from triplets or with objects, with validation rows, an observer and
    /// checkpoints.
    pub fn fit_with<R: Real>(&self, data: SimilarityData<'_, R>, mut run: Run<'_>) -> Result<Fit> {
        let session = match run.take_checkpoint() {
            Some(checkpoint) => self.resume(data, &checkpoint)?,
            None => self.begun(data, &mut run)?,
        };
        session.drive(run)
    }

    /// The form at the start of training, and what to tell of it.
    fn start<R: Real>(
        &self,
        inputs: &Inputs<'_, R>,
        choice: &Choice,
        start: Option<&Start>,
    ) -> Result<(Form<R>, Vec<String>)> {
        let Some(start) = start else {
            return Ok((self.own_start(inputs, choice)?, Vec::new()));
        };
        let rule = self.rule();
        let definite = rule == Rule::Lego || rule.cone().is_some();
        let left = inputs.rows.side(form::Side::Left, "features");
        let right = inputs.objects.as_ref();
        let right = right.map(|things| things.side(form::Side::Right, "features of objects"));
        let rank = self.rank.given();
        let sides = (&left, right.as_ref());
        start.form((rule.shape(), definite), sides, rank, self.seed)
    }

    /// The same for starts that need nothing but data.
    fn own_start<R: Real>(&self, inputs: &Inputs<'_, R>, choice: &Choice) -> Result<Form<R>> {
        let Sides { left, right } = inputs.sides();
        let (n, m) = (left.columns(), right.columns());
        let (shape, init) = (self.rule().shape(), choice.init);
        let diagonal = f64::from(u8::from(init == Init::Identity));
        match shape {
            Shape::Full => return Full::diagonal(n, m, diagonal).map(Form::Full),
            Shape::Diagonal => return Ok(Form::Diagonal(Diagonal::new(n, m, diagonal))),
            Shape::Gaussian => return Gaussian::new(n, m, diagonal).map(Form::Gaussian),
            Shape::Factored | Shape::Psd | Shape::Polar | Shape::PolarPsd => {}
        }
        // What tells classes apart has one direction less than there are classes.
        let usual = match init {
            Init::Ridge => inputs.class_count().clamp(RANK + 1, MOST_CLASSES) - 1,
            _ => RANK,
        };
        let mut k = self.rank.or_usual(usual, n)?;
        if inputs.objects.is_some() {
            let right = self.rank.or_usual(usual, m);
            k = k.min(right.map_err(|e| e.about("objects"))?);
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
        if init == Init::Zero {
            return from_zero(inputs.sides(), inputs.triplets.clone(), shape, k);
        }
        if init == Init::Ridge {
            let start = inputs.class_ridge(k, choice.penalty, threads(self.threads))?;
            let tall = || Tall::from_fn(n, k, |i, j| start[(i, j)]);
            return match shape {
                Shape::Psd | Shape::PolarPsd => Form::Psd(Psd::new(tall()?)).shaped(shape),
                _ => Form::Factored(Factored::new(tall()?, tall()?)).shaped(shape),
            };
        }
        // Column j of the factors is one feature of each side.
        let paired = match init {
            Init::Identity => pairs(&inputs.rows, inputs.objects.as_ref(), k),
            _ => Vec::new(),
        };
        let tall = |side: u64, rows: usize, features: &dyn Fn(&(u32, u32)) -> u32| {
            let mut place = vec![usize::MAX; if paired.is_empty() { 0 } else { rows }];
            for (j, pair) in paired.iter().enumerate() {
                place[features(pair) as usize] = j;
            }
            Tall::from_fn(rows, k, |i, j| match init {
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

/// The rank where nothing else is asked for.
pub(super) const RANK: usize = 30;

/// Classes that raise it, at most: a step costs the square of the rank.
const MOST_CLASSES: usize = 65;

/// Steps of a start from zero, at most, as a multiple of the rank.
const MOST_STEPS: usize = 8;

/// Triplets drawn for a start from zero, as a multiple of those it needs.
const PATIENCE: usize = 100;

/// What a similarity is learned from.
#[derive(Debug, Clone)]
pub struct SimilarityData<'a, R> {
    /// Rows, and the objects that they are scored with where these are other things.
    pub data: TrainingData<'a, R>,
    /// Triplets of rows, or of a row and two objects; without them they are drawn from
    /// labels.
    pub triplets: Option<Given>,
    /// Labelled rows to validate by.
    pub valid: Option<&'a Labelled<R>>,
}

impl<'a, R> From<&'a Labelled<R>> for SimilarityData<'a, R> {
    fn from(rows: &'a Labelled<R>) -> Self {
        TrainingData::from(rows).into()
    }
}

impl<'a, R> From<TrainingData<'a, R>> for SimilarityData<'a, R> {
    fn from(data: TrainingData<'a, R>) -> Self {
        SimilarityData {
            data,
            triplets: None,
            valid: None,
        }
    }
}

impl<'a, R: Real> Learn<SimilarityData<'a, R>> for Similarity {
    fn learn(&self, data: SimilarityData<'a, R>, run: Run<'_>) -> Result<Fit> {
        self.fit_with(data, run)
    }
}

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

/// The one class of each row; a row with several, or with none, is an error.
pub(super) fn classes(labels: &Labels, name: impl Fn(usize) -> String) -> Result<Vec<u32>> {
    (0..labels.len())
        .map(|i| match labels.of(i) {
            [class] => Ok(*class),
            other => Err(Error::input(format!(
                "row `{}` has {} labels, expected exactly one",
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
    reading: Reading<'_>,
    threads: usize,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Result<Option<Retrieval>> {
    let queries = Classified {
        rows,
        members,
        classes,
    };
    evaluate_at(form, queries, reading, &[], threads, progress)
}

/// The same with the precision among so many best rows, for each of these numbers.
pub(super) fn evaluate_at<R: Real>(
    form: FormRef<'_, R>,
    queries: Classified<'_, R>,
    reading: Reading<'_>,
    at: &[usize],
    threads: usize,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Result<Option<Retrieval>> {
    let projection = Projection::new(form, queries.rows, queries.members, reading)?;
    let (scorer, classes) = (projection.scorer(), queries.classes);
    Ok(eval::retrieval_at(
        &scorer, classes, None, at, threads, progress,
    ))
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
    reading: Reading<'_>,
    at: &[usize],
    threads: usize,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Result<Option<Retrieval>> {
    let (left, right) = (
        (queries.rows, queries.members),
        (objects.rows, objects.members),
    );
    let projection = Projection::between(form, left, right, reading)?;
    let (scorer, classes) = (projection.scorer(), objects.classes);
    Ok(eval::retrieval_at(
        &scorer,
        queries.classes,
        Some(classes),
        at,
        threads,
        progress,
    ))
}

/// The metrics of this task by name.
pub(super) fn metrics(found: &Retrieval) -> Metrics {
    let asked = found.precision_at.iter();
    let asked = asked.map(|&(k, precision)| (format!("precision_at_{k}"), precision));
    let usual = [
        ("map".to_owned(), found.map),
        ("precision_at_1".to_owned(), found.precision_at_1),
        ("precision_at_10".to_owned(), found.precision_at_10),
    ];
    asked.chain(usual).collect()
}
