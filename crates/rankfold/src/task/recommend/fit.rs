//! Fits encoder and decoder, and chooses on held-out choices what is left open.

use super::features::UserFeatures;
use super::judge::{Judge, gain, mean};
use super::walk::Walk;
use super::{Recommend, RecommendLearner, Teacher, popularity, tall};
use crate::batch::{
    Chosen, FoldIn, Implicit, ImplicitFactors, ItemFactors, ItemRegression, SolverState,
};
use crate::form::{Factored, Tall};
use crate::linalg::{Square, invert_definite};
use crate::model::Own;
use crate::task::driver::Driver;
use crate::task::run::Trial;
use crate::{Error, Result, Rows};
use faer::Mat;
use serde::{Deserialize, Serialize};
use serde_json::Map;

/// Sweeps of a fit without trials, after trials, and of a trial.
pub(super) const ITEM_SWEEPS: usize = 6;
const SWEEPS_AFTER_TRIALS: usize = 3;
const TRIAL_SWEEPS: usize = 3;
/// The same for alternating least squares.
pub(super) const ALS_SWEEPS: usize = 12;
const ALS_TRIAL_SWEEPS: usize = 6;

/// The same for what a regression of full rank teaches.
const TAUGHT_SWEEPS: usize = 3;
const TAUGHT_TRIAL_SWEEPS: usize = 2;

/// Standard errors by which a teacher that nobody asked for may be worse in trials, which learn
/// from less than the last fit and so are to the disadvantage of full rank.
const CLEARLY: f64 = 2.0;

/// Items of a full regression that nobody asked for, at most, and choices times items.
const TEACHER_ITEMS: usize = 5_000;
const TEACHER_HEADS: f64 = 1e11;

/// The penalty of a choice of strength 1, and how it falls where choices are few: on held-out
/// choices of MovieLens 100K and 1M the best is between 300 and 600.
const LAMBDA: f64 = 300.0;
/// How much more the penalty is for items that are chosen often. On held-out choices of MovieLens
/// 100K and 1M, of bibtex and of delicious 0.2 gained .001 NDCG at rank 64; 0.4 lost on delicious.
const DROPOUT: f64 = 0.2;
/// The next penalty that is tried.
const FACTOR: f64 = 3.162_277_660_168_379_5;
/// Penalties that are tried in one direction, at most.
const TRIALS: usize = 4;

/// The penalty of alternating least squares.
const ALS_LAMBDA: f64 = 0.3;

/// The share of a user that is solved for, where it helps, and the penalty of that, as a
/// multiple of the mean square of the decoder.
const OWN_SHARE: f64 = 0.3;
const OWN_LAMBDA: f64 = 30.0;
const OWN_ALPHA: f64 = 0.3;

/// Step sizes of LORETA that are tried.
const STEP_SIZES: [f64; 4] = [0.003, 0.01, 0.03, 0.1];

/// Choices of the average user that a user begins with: what is tried, and what is taken where
/// nothing is tried.
const PRIORS: [f64; 6] = [0.0, 0.5, 2.0, 4.0, 8.0, 16.0];
const PRIOR: f64 = 8.0;
/// What is taken is at most this share of what users chose on average.
const PRIOR_SHARE: f64 = 0.1;

/// Choices that features of a user count as, at least.
const LEAST_PRIOR: f64 = 1e-3;

/// Users are judged for that as if they had chosen so few items.
const FEW: [usize; 3] = [1, 2, 5];

const ITEMS: &str = "items";
const ALS: &str = "als";

/// What was decided before the last fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Decided {
    pub learner: RecommendLearner,
    /// λ.
    pub lambda: f64,
    /// α of `als`.
    pub alpha: f64,
    /// The share of users that is solved for.
    pub share: f64,
    /// The step size of LORETA.
    pub step_size: Option<f64>,
    /// Choices of the average user that a user begins with.
    pub prior: f64,
    /// Whether a regression of full rank teaches `items`.
    pub taught: bool,
    /// Whether the last fit starts from a trial.
    tried: bool,
}

/// What is solved for in users beside the sum of what they chose.
pub(super) fn own_problem(decoder: &Tall<f32>) -> Implicit {
    let entries = (decoder.rows() * decoder.rank()).max(1) as f64;
    let rows = (0..decoder.rows()).flat_map(|i| decoder.row(i));
    let square: f64 = rows.map(|v| f64::from(*v).powi(2)).sum();
    Implicit {
        alpha: OWN_ALPHA,
        lambda: OWN_LAMBDA * square / entries,
    }
}

/// What features say of users, as this many choices. It is never nothing, so that users without
/// a choice have their list.
fn scaled(said: &[f32], choices: f64) -> Vec<f32> {
    let scale = choices.max(LEAST_PRIOR) as f32;
    said.iter().map(|v| scale * v).collect()
}

/// The part of users that is solved for, where there is one.
fn own_part(share: f64, decoder: &Tall<f32>) -> Option<Own> {
    (share > 0.0).then(|| Own {
        share,
        problem: own_problem(decoder),
    })
}

impl Decided {
    /// What users begin with by their features, and the share of it that is explained.
    pub fn beginnings(
        &self,
        described: &UserFeatures,
        rows: &Rows<f32>,
        encoder: &Tall<f32>,
    ) -> Result<(Vec<f32>, f64)> {
        let (said, explained) = described.say(rows, encoder, false)?;
        Ok((scaled(&said, self.prior), explained))
    }

    /// What a user begins with, in the coordinates of the decoder.
    pub fn prior_of(&self, rows: &Rows<f32>, encoder: &Tall<f32>) -> Vec<f64> {
        average_choice(rows, encoder)
            .iter()
            .map(|v| self.prior * v)
            .collect()
    }

    /// The Gram matrices of users and items that steps on new choices go by.
    pub fn grams(
        &self,
        rows: &Rows<f32>,
        encoder: &Tall<f32>,
        decoder: &Tall<f32>,
        damping: f64,
        threads: usize,
    ) -> [Square; 2] {
        let k = decoder.rank();
        let items = decoder.gram_now().into_owned();
        let mut users = Square::zero(k);
        if self.learner == RecommendLearner::Als {
            let problem = Implicit {
                alpha: self.alpha,
                lambda: self.lambda,
            };
            let fold = FoldIn::with_gram(problem, decoder.padded_rows(), items.clone());
            let parts = crate::parallel::map_blocks(rows.len(), 256, threads, |range| {
                let mut part = Square::zero(k);
                for i in range {
                    let user = fold.solve(rows.row(i));
                    part.add_outer([&user], [&user]);
                }
                part
            });
            parts.iter().for_each(|part| users.combine(1.0, 1.0, part));
        } else {
            let chosen = Chosen::new(rows.clone(), -damping);
            let encoder = Mat::from_fn(encoder.rows(), k, |i, j| f64::from(encoder.row(i)[j]));
            let problem = ItemRegression {
                chosen: &chosen,
                lambda: self.lambda,
                dropout: DROPOUT,
                threads,
            };
            let gram = chosen.gram(&encoder, threads);
            users = Square::from_faer(&problem.penalized(&encoder, &gram));
            users.symmetrize();
        }
        [users, items]
    }
}

/// The penalty that trials begin with.
pub(super) fn usual_penalty(rows: &Rows<f32>) -> f64 {
    let squares = rows.iter().map(|row| row.squared_norm()).sum::<f64>();
    let count = rows.nnz().max(1) as f64;
    LAMBDA * (count / 50_000.0).clamp(0.003, 1.0) * squares / count
}

/// What one choice of the average user says.
fn average_choice(rows: &Rows<f32>, encoder: &Tall<f32>) -> Vec<f64> {
    let (mut sum, mut total) = (vec![0.0; encoder.rank()], 0.0);
    for (item, count) in popularity(rows).iter().enumerate() {
        total += count;
        for (sum, v) in sum.iter_mut().zip(encoder.row(item)) {
            *sum += count * f64::from(*v);
        }
    }
    let strength: f64 = rows
        .iter()
        .flat_map(|row| row.values)
        .map(|v| f64::from(*v))
        .sum();
    let scale = strength / rows.nnz().max(1) as f64 / f64::max(total, 1.0);
    sum.iter().map(|v| scale * v).collect()
}

/// Where the last fit starts.
pub(super) enum Start {
    Items(Mat<f64>),
    Als(ImplicitFactors),
}

type Drive<'r> = Driver<'r, (Mat<f64>, Mat<f64>)>;

/// A fit of these options.
pub(super) struct Fitting<'a> {
    pub options: &'a Recommend,
    pub rank: usize,
    /// Encoder and decoder to start from, where a model has them.
    pub given: Option<&'a [Mat<f64>]>,
    pub threads: usize,
    /// Features of users.
    pub described: Option<&'a UserFeatures>,
}

impl Fitting<'_> {
    /// What is given, where nothing is to be chosen.
    pub fn given(&self, rows: &Rows<f32>) -> Decided {
        let options = self.options;
        let als = options.learner == RecommendLearner::Als;
        Decided {
            learner: match options.learner {
                RecommendLearner::Auto => RecommendLearner::Items,
                learner => learner,
            },
            lambda: options.regularization.unwrap_or(match als {
                true => ALS_LAMBDA,
                false => usual_penalty(rows),
            }),
            alpha: options.unchosen_weight,
            share: match als {
                true => 1.0,
                false => options.own_share.unwrap_or(0.0),
            },
            step_size: options.step_size,
            // Steps of LORETA change the coordinates of users, and `als` solves for all of them.
            prior: match options.learner {
                RecommendLearner::Als | RecommendLearner::Loreta => 0.0,
                _ => PRIOR.min(PRIOR_SHARE * rows.nnz() as f64 / rows.len().max(1) as f64),
            },
            taught: options.teacher == Teacher::Full,
            tried: false,
        }
    }

    /// Tries what is left open.
    pub fn decide(
        &self,
        rows: &Rows<f32>,
        judge: &Judge,
        driver: &mut Drive<'_>,
    ) -> Result<(Decided, Option<Start>)> {
        let options = self.options;
        let mut decided = self.given(rows);
        if judge.is_empty() {
            driver
                .run
                .note("too few choices to hold some out: nothing was tried");
            return Ok((decided, None));
        }
        let chosen = Chosen::new(rows.clone(), -options.damping);
        decided.tried = true;
        if options.learner == RecommendLearner::Als {
            let (lambda, _, factors) = self.try_als(&chosen, judge, &decided, driver)?;
            decided.lambda = lambda;
            return Ok((decided, factors.map(Start::Als)));
        }
        let (mut best, factors) = self.try_penalties(&chosen, judge, &mut decided, driver)?;
        if driver.is_interrupted() {
            return Ok((decided, None));
        }
        if options.learner == RecommendLearner::Loreta {
            if options.step_size.is_none() {
                decided.step_size = self.try_steps(rows, judge, &factors, driver)?;
            }
            return Ok((decided, Some(Start::Items(factors.encoder))));
        }
        let encoder = factors.encoder.clone();
        let mut factors = factors;
        if let Some((reached, taught)) =
            self.try_teacher(&chosen, judge, &mut decided, &factors, driver)?
        {
            // A teacher may be a little worse in trials; `als` is not better for that.
            if !(mean(&reached) <= mean(&best)) {
                best = reached;
            }
            factors = taught;
        }
        if !driver.is_interrupted() {
            decided.prior = self.try_priors(rows, judge, &factors, decided.share, driver)?;
        }
        if options.learner == RecommendLearner::Auto && !driver.is_interrupted() {
            let other = Decided {
                learner: RecommendLearner::Als,
                lambda: ALS_LAMBDA,
                share: 1.0,
                prior: 0.0,
                taught: false,
                ..decided
            };
            let (_, reached, start) = self.try_als(&chosen, judge, &other, driver)?;
            let (gain, error) = gain(&reached, &best);
            let is_better = gain > error || mean(&best).is_nan() && !mean(&reached).is_nan();
            if is_better {
                return Ok((other, start.map(Start::Als)));
            }
        }
        Ok((decided, Some(Start::Items(encoder))))
    }

    fn regression<'c>(&self, chosen: &'c Chosen, lambda: f64) -> ItemRegression<'c> {
        ItemRegression {
            chosen,
            lambda,
            dropout: DROPOUT,
            threads: self.threads,
        }
    }

    /// The encoder that item regression starts from.
    fn item_start(&self, problem: &ItemRegression<'_>) -> Option<Mat<f64>> {
        match self.given {
            Some(given) => given.first().cloned(),
            None => problem.start(self.rank, self.options.seed),
        }
    }

    /// The factors that alternating least squares starts from; it solves for users first.
    fn als_start(&self, chosen: &Chosen) -> ImplicitFactors {
        match self.given {
            Some([_, items]) => {
                let users = Mat::zeros(chosen.by_user().len(), self.rank);
                ImplicitFactors::from_matrices([&users, items])
            }
            _ => ImplicitFactors::start(chosen, self.rank, self.options.seed),
        }
    }

    /// Raises or lowers the penalty as long as that is better.
    fn try_penalties(
        &self,
        chosen: &Chosen,
        judge: &Judge,
        decided: &mut Decided,
        driver: &mut Drive<'_>,
    ) -> Result<(Vec<f64>, ItemFactors)> {
        let measure = |lambda: f64, share: f64, factors: &ItemFactors, driver: &mut Drive<'_>| {
            let each = judged(judge, share, factors);
            driver.tried(trial(ITEMS, lambda, share, mean(&each)));
            driver.goes_on();
            each
        };
        let first = self.regression(chosen, decided.lambda);
        let start = self.item_start(&first);
        let mut best = start
            .and_then(|start| first.decode(start))
            .ok_or_else(lost)?;
        for _ in 0..TRIAL_SWEEPS {
            if driver.is_interrupted() {
                break;
            }
            let Some(next) = first.sweep(&best) else {
                break;
            };
            best = next;
            driver.goes_on();
        }
        let mut each = measure(decided.lambda, decided.share, &best, driver);
        // The best penalty depends on the share: the share that is better here goes along, and
        // the other one is tried once more where that ends.
        let open =
            self.options.own_share.is_none() && self.options.learner != RecommendLearner::Loreta;
        let try_other = |decided: &mut Decided,
                         each: &mut Vec<f64>,
                         best: &ItemFactors,
                         driver: &mut Drive<'_>| {
            let other = match decided.share > 0.0 {
                true => 0.0,
                false => OWN_SHARE,
            };
            if open && !driver.is_interrupted() {
                let found = measure(decided.lambda, other, best, driver);
                if is_preferred((other, &found), (decided.share, each)) {
                    (*each, decided.share) = (found, other);
                }
            }
        };
        try_other(decided, &mut each, &best, driver);
        let mut reached = mean(&each);
        if self.options.regularization.is_some() {
            return Ok((each, best));
        }
        let first = decided.lambda;
        for factor in [FACTOR, 1.0 / FACTOR] {
            let mut moved = false;
            for _ in 0..TRIALS {
                if driver.is_interrupted() {
                    return Ok((each, best));
                }
                let lambda = decided.lambda * factor;
                let Some(next) = self.regression(chosen, lambda).sweep(&best) else {
                    break;
                };
                let found = measure(lambda, decided.share, &next, driver);
                if !(mean(&found) > reached) {
                    break;
                }
                (each, best, decided.lambda, moved) = (found, next, lambda, true);
                reached = mean(&each);
            }
            if moved {
                break;
            }
        }
        if decided.lambda != first {
            try_other(decided, &mut each, &best, driver);
        }
        Ok((each, best))
    }

    /// Tries what a regression of full rank teaches, with the penalty that was chosen. Its lists
    /// are learned unless they are clearly worse.
    fn try_teacher(
        &self,
        chosen: &Chosen,
        judge: &Judge,
        decided: &mut Decided,
        factors: &ItemFactors,
        driver: &mut Drive<'_>,
    ) -> Result<Option<(Vec<f64>, ItemFactors)>> {
        let auto = self.options.teacher == Teacher::Auto;
        let heads = chosen.by_user().nnz() as f64 * chosen.items() as f64;
        let too_many = auto && (chosen.items() > TEACHER_ITEMS || heads > TEACHER_HEADS);
        if self.options.teacher == Teacher::None || too_many || !driver.goes_on() {
            return Ok(None);
        }
        let taught = match self.regression(chosen, decided.lambda).taught() {
            Err(error) if auto => {
                driver.run.note(format!("no teacher was tried: {error}"));
                return Ok(None);
            }
            taught => taught?,
        };
        let Some(mut found) = taught.decode(factors.encoder.clone()) else {
            return Ok(None);
        };
        for _ in 0..TAUGHT_TRIAL_SWEEPS {
            if !driver.goes_on() {
                return Ok(None);
            }
            match taught.sweep(&found) {
                None => break,
                Some(next) => found = next,
            }
        }
        let mut shares = vec![decided.share];
        if self.options.own_share.is_none() && decided.share > 0.0 {
            shares.push(0.0);
        }
        let mut best: Option<(f64, Vec<f64>)> = None;
        for share in shares {
            let each = judged(judge, share, &found);
            let mut trial = trial(ITEMS, decided.lambda, share, mean(&each));
            trial
                .settings
                .insert("teacher".into(), Teacher::Full.name().into());
            driver.tried(trial);
            let is_better =
                |(than, of): &(f64, Vec<f64>)| is_preferred((share, &each), (*than, of));
            if best.as_ref().is_none_or(is_better) {
                best = Some((share, each));
            }
        }
        let Some((share, each)) = best else {
            return Ok(None);
        };
        let (gain, error) = gain(&each, &judged(judge, decided.share, factors));
        decided.taught = !auto || gain >= -CLEARLY * error;
        if !decided.taught {
            return Ok(None);
        }
        decided.share = share;
        Ok(Some((each, found)))
    }

    /// Tries penalties of alternating least squares, or the one that is given.
    fn try_als(
        &self,
        chosen: &Chosen,
        judge: &Judge,
        decided: &Decided,
        driver: &mut Drive<'_>,
    ) -> Result<(f64, Vec<f64>, Option<ImplicitFactors>)> {
        let alone = self.options.learner == RecommendLearner::Als;
        let lambdas = match self.options.regularization {
            Some(lambda) => vec![lambda],
            None if alone => vec![ALS_LAMBDA, ALS_LAMBDA * FACTOR, ALS_LAMBDA / FACTOR],
            None => vec![ALS_LAMBDA],
        };
        let mut best = (decided.lambda, Vec::new(), None);
        for lambda in lambdas {
            let problem = Implicit {
                alpha: decided.alpha,
                lambda,
            };
            let mut factors = self.als_start(chosen);
            for _ in 0..ALS_TRIAL_SWEEPS {
                if !driver.goes_on() {
                    return Ok(best);
                }
                problem.sweep(chosen, &mut factors, self.threads);
            }
            let own = |_: &Tall<f32>| {
                Some(Own {
                    share: 1.0,
                    problem,
                })
            };
            let reached = match linear(&factors, problem) {
                None => Vec::new(),
                Some((encoder, decoder)) => judge.each(&encoder, &decoder, own),
            };
            driver.tried(trial(ALS, lambda, 1.0, mean(&reached)));
            if mean(&reached) > mean(&best.1) || best.2.is_none() && !reached.is_empty() {
                best = (lambda, reached, Some(factors));
            }
        }
        Ok(best)
    }

    /// Tries how many choices of the average user a user begins with, on users as if they had
    /// chosen few items and on users as they are.
    fn try_priors(
        &self,
        rows: &Rows<f32>,
        judge: &Judge,
        factors: &ItemFactors,
        share: f64,
        driver: &mut Drive<'_>,
    ) -> Result<f64> {
        // Few choices may not span the rank, and then say nothing of users.
        let (Ok(encoder), Ok(decoder)) = (tall(&factors.encoder), tall(&factors.decoder)) else {
            return Ok(0.0);
        };
        let average = average_choice(rows, &encoder);
        // Features are judged by users that they were not learned from.
        let said = match self.described {
            Some(described) => described.say(rows, &encoder, true)?.0,
            None => Vec::new(),
        };
        let own = own_part(share, &decoder);
        let form = Factored::new(encoder, decoder);
        let few: Vec<Judge> = FEW.map(|count| judge.with_few(count)).into_iter().collect();
        let few = few.iter().filter(|few| !few.is_empty());
        let judges: Vec<&Judge> = few.chain([judge]).collect();
        let mut tried: Vec<(f64, Vec<f64>)> = Vec::new();
        for prior in PRIORS {
            if !driver.goes_on() {
                break;
            }
            let begin: Vec<f64> = average.iter().map(|v| prior * v).collect();
            let begun = scaled(&said, prior);
            let each = judges
                .iter()
                .flat_map(|judge| judge.each_beginning(&form, own, begin.clone(), begun.clone()));
            let each: Vec<f64> = each.collect();
            driver.tried(Trial::of("prior", prior, "ndcg_at_10", mean(&each)));
            tried.push((prior, each));
        }
        let most = tried
            .iter()
            .max_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
        let Some((_, most)) = most else {
            return Ok(0.0);
        };
        // The least one that is not clearly worse than the best.
        let holds = |(_, each): &&(f64, Vec<f64>)| {
            let (gain, error) = gain(each, most);
            gain >= -error
        };
        Ok(tried.iter().find(holds).map_or(0.0, |(prior, _)| *prior))
    }

    /// Tries step sizes of LORETA; `None` where the start is better than all of them.
    fn try_steps(
        &self,
        rows: &Rows<f32>,
        judge: &Judge,
        factors: &ItemFactors,
        driver: &mut Drive<'_>,
    ) -> Result<Option<f64>> {
        let start = Factored::new(tall(&factors.encoder)?, tall(&factors.decoder)?);
        let mut best = (None, judge.ndcg_of(&start));
        driver.tried(Trial::of("step_size", 0.0, "ndcg_at_10", best.1));
        let steps = self.steps(rows).min(200_000);
        for size in STEP_SIZES {
            let mut walk = Walk::new(rows, &start, size, self.options.seed)?;
            while walk.done < steps {
                if !driver.goes_on() {
                    return Ok(best.0);
                }
                walk.take(rows, (steps - walk.done).min(10_000));
            }
            let reached = judge.ndcg_of(&walk.form());
            driver.tried(Trial::of("step_size", size, "ndcg_at_10", reached));
            if reached > best.1 {
                best = (Some(size), reached);
            }
        }
        Ok(best.0)
    }

    fn steps(&self, rows: &Rows<f32>) -> u64 {
        self.options.steps.unwrap_or(rows.nnz() as u64)
    }

    /// The last fit.
    pub fn solve(
        &self,
        rows: &Rows<f32>,
        decided: &Decided,
        start: Option<Start>,
        resumed: Option<SolverState>,
        judge: Option<&Judge>,
        driver: &mut Drive<'_>,
    ) -> Result<(Mat<f64>, Mat<f64>)> {
        let chosen = Chosen::new(rows.clone(), -self.options.damping);
        match decided.learner {
            RecommendLearner::Als => {
                let start = match start {
                    Some(Start::Als(factors)) => Some(factors),
                    _ => None,
                };
                self.solve_als(&chosen, decided, start, resumed, judge, driver)
            }
            learner => {
                let start = match start {
                    Some(Start::Items(encoder)) => Some(encoder),
                    _ => None,
                };
                let found = self.solve_items(&chosen, decided, start, resumed, judge, driver)?;
                match (learner, decided.step_size) {
                    (RecommendLearner::Loreta, Some(size)) => self.walk(rows, found, size, driver),
                    _ => Ok(found),
                }
            }
        }
    }

    fn solve_items(
        &self,
        chosen: &Chosen,
        decided: &Decided,
        start: Option<Mat<f64>>,
        resumed: Option<SolverState>,
        judge: Option<&Judge>,
        driver: &mut Drive<'_>,
    ) -> Result<(Mat<f64>, Mat<f64>)> {
        let problem = self.regression(chosen, decided.lambda);
        let sweeps = self.options.iterations.unwrap_or(match decided.tried {
            true => SWEEPS_AFTER_TRIALS,
            false => ITEM_SWEEPS,
        });
        let extra = if decided.taught { TAUGHT_SWEEPS } else { 0 };
        driver.course.total = (sweeps + extra) as u64;
        let done = resumed.as_ref().map_or(0, |state| state.iteration);
        let encoder = match resumed {
            Some(state) => state.blocks.get(ITEMS).cloned(),
            None => start.or_else(|| self.item_start(&problem)),
        };
        let encoder = encoder.filter(|e| e.nrows() == chosen.items() && e.ncols() == self.rank);
        let encoder = encoder.ok_or_else(lost)?;
        let mut taught = None;
        let begun = match done > sweeps {
            false => problem.decode(encoder),
            true => taught.insert(problem.taught()?).decode(encoder),
        };
        let mut now = begun.ok_or_else(lost)?;
        for number in done + 1..=sweeps + extra {
            let next = match (number > sweeps, &taught) {
                // Where choices say nothing of each other, there is nothing to turn.
                (false, _) => Some(problem.sweep(&now).unwrap_or_else(|| now.clone())),
                (true, Some(taught)) => taught.sweep(&now),
                (true, None) => {
                    let taught = taught.insert(problem.taught()?);
                    let begun = taught.decode(now.encoder.clone());
                    begun.and_then(|begun| taught.sweep(&begun))
                }
            };
            let Some(next) = next else {
                break;
            };
            now = next;
            let cost = match number > sweeps {
                true => problem.cost(&now.encoder, &now.decoder),
                false => now.cost,
            };
            let measured = || {
                let (encoder, decoder) = (tall(&now.encoder).ok()?, tall(&now.decoder).ok()?);
                let own = decided.own(&decoder);
                Some(judge?.measure((encoder, decoder), own))
            };
            let state = || SolverState::new(ITEMS, number).with_block(ITEMS, now.encoder.clone());
            let kept = || (now.encoder.clone(), now.decoder.clone());
            if !driver.iteration(cost, measured, kept, Some(&state)) {
                break;
            }
        }
        driver.check_interrupted()?;
        let best = driver.course.best.as_ref().map(|best| best.model.clone());
        Ok(best.unwrap_or((now.encoder, now.decoder)))
    }

    fn solve_als(
        &self,
        chosen: &Chosen,
        decided: &Decided,
        start: Option<ImplicitFactors>,
        resumed: Option<SolverState>,
        judge: Option<&Judge>,
        driver: &mut Drive<'_>,
    ) -> Result<(Mat<f64>, Mat<f64>)> {
        let problem = Implicit {
            alpha: decided.alpha,
            lambda: decided.lambda,
        };
        let sweeps = self.options.iterations.unwrap_or(match decided.tried {
            true => ALS_SWEEPS - ALS_TRIAL_SWEEPS,
            false => ALS_SWEEPS,
        });
        driver.course.total = sweeps as u64;
        let done = resumed.as_ref().map_or(0, |state| state.iteration);
        let resumed = resumed.as_ref().and_then(|state| {
            let side = |name: &str| state.blocks.get(&format!("{ALS}.{name}"));
            Some(ImplicitFactors::from_matrices([side("0")?, side("1")?]))
        });
        let mut now = resumed.or(start).unwrap_or_else(|| self.als_start(chosen));
        for number in done + 1..=sweeps {
            problem.sweep(chosen, &mut now, self.threads);
            let measured = || {
                let (encoder, decoder) = linear(&now, problem)?;
                let (encoder, decoder) = (tall(&encoder).ok()?, tall(&decoder).ok()?);
                let own = Own {
                    share: 1.0,
                    problem,
                };
                Some(judge?.measure((encoder, decoder), Some(own)))
            };
            let state = || SolverState::new(ALS, number).with_blocks(ALS, &now.matrices());
            let kept = || linear(&now, problem).unwrap_or((now.items(), now.items()));
            if !driver.iteration(f64::NAN, measured, kept, Some(&state)) {
                break;
            }
        }
        driver.check_interrupted()?;
        let best = driver.course.best.as_ref().map(|best| best.model.clone());
        best.or_else(|| linear(&now, problem)).ok_or_else(lost)
    }

    /// Steps of LORETA from a fit.
    fn walk(
        &self,
        rows: &Rows<f32>,
        (encoder, decoder): (Mat<f64>, Mat<f64>),
        size: f64,
        driver: &mut Drive<'_>,
    ) -> Result<(Mat<f64>, Mat<f64>)> {
        let start = Factored::new(tall(&encoder)?, tall(&decoder)?);
        let mut walk = Walk::new(rows, &start, size, self.options.seed)?;
        let steps = self.steps(rows);
        while walk.done < steps {
            if !driver.goes_on() {
                break;
            }
            walk.take(rows, (steps - walk.done).min(10_000));
        }
        driver.check_interrupted()?;
        Ok(walk.factors())
    }
}

/// The linear map that stands for the solution in users near zero, and the items.
fn linear(factors: &ImplicitFactors, problem: Implicit) -> Option<(Mat<f64>, Mat<f64>)> {
    let items = factors.items();
    let mut gram = Square::from_faer(&(items.transpose() * &items));
    gram.combine(0.0, problem.alpha, &gram.clone());
    gram.add_diagonal(problem.lambda * (problem.alpha * items.nrows() as f64 + 1.0).sqrt());
    let inverse = invert_definite(&gram)?.to_faer();
    Some((&items * inverse, items))
}

/// NDCG of each user who is judged.
fn judged(judge: &Judge, share: f64, factors: &ItemFactors) -> Vec<f64> {
    let own = |decoder: &Tall<f32>| own_part(share, decoder);
    judge.each(&factors.encoder, &factors.decoder, own)
}

/// Whether a share is taken instead of another one: a part that is solved for only where it is
/// better by more than a standard error.
fn is_preferred((share, each): (f64, &[f64]), (than, of): (f64, &[f64])) -> bool {
    let (gain, error) = gain(each, of);
    match share < than {
        true => gain >= -error,
        false => gain > error,
    }
}

fn trial(learner: &str, lambda: f64, share: f64, reached: f64) -> Trial {
    let settings = [
        ("learner".to_owned(), learner.into()),
        ("regularization".to_owned(), lambda.into()),
        ("own_share".to_owned(), share.into()),
    ];
    Trial {
        settings: Map::from_iter(settings),
        ..Trial::of("regularization", lambda, "ndcg_at_10", reached)
    }
}

fn lost() -> Error {
    Error::input("the choices do not span this rank: choose a smaller rank")
}
