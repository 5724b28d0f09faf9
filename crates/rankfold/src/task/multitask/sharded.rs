//! Tasks that are cut into shards, and the subspace of all of them.
//!
//! The cost of a subspace is a sum over tasks, and so are its slope and its curvature. So are all
//! numbers that scales and biases follow from. Whoever runs shards asks all of them one
//! [`ShardQuestion`] at a time.
//!
//! All that a shard knows of the others is the list of sums by which scales were found. It comes with
//! every question, so a shard that was lost is made again from its rows and answers the same.

use super::fit::{Learned, completed};
use super::frame::{Beyond, Frame, Framing};
use super::{Multitask, MultitaskLearner, RANK, TaskFits, turned};
use crate::batch::{
    Asking, Common, Limits, Seen, SharedSubspace, SummedSubspace, Tasks, from_upper, leading,
    solve_with_ridge,
};
use crate::data::TaskRows;
use crate::gossip::Sums;
use crate::linalg::qf;
use crate::model::{Model, Moments, Standardize, TaskFit, TaskPrior};
use crate::task::questions::{AskShards, ShardQuestion, flat};
use crate::task::start::StartInit;
use crate::{Error, Ids, Result, Rows, memory};
use faer::Mat;

/// The tasks of a shard.
#[derive(Debug)]
pub struct TaskShard {
    options: Multitask,
    data: TaskRows,
    framed: Option<Framed>,
}

/// What was made of the rows last, to be used again while the questions allow it.
struct Framed {
    sums: Vec<f64>,
    frame: Frame,
    tasks: Tasks,
    seen: Option<(Vec<f64>, Seen)>,
}

impl std::fmt::Debug for Framed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Framed({} tasks)", self.tasks.len())
    }
}

/// Sums that were found before, each behind its length; what is asked next stays open.
struct Replay<'s> {
    rest: &'s [f64],
    open: Option<Vec<f64>>,
}

impl Sums for Replay<'_> {
    fn sum(
        &mut self,
        what: &'static str,
        count: usize,
        own: &mut dyn FnMut() -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        let Some((length, rest)) = self.rest.split_first() else {
            self.open = Some(own()?);
            return Err(Error::input(format!("{what} are not known yet")));
        };
        if *length != count as f64 || rest.len() < count {
            return Err(Error::input(format!(
                "sums of other tasks: expected {count} numbers for {what}"
            )));
        }
        let (sum, rest) = rest.split_at(count);
        self.rest = rest;
        Ok(sum.to_vec())
    }

    fn agents(&self) -> usize {
        1
    }
}

fn upper(m: &Mat<f64>) -> Vec<f64> {
    let rows = (0..m.nrows()).flat_map(|i| (i..m.nrows()).map(move |j| (i, j)));
    rows.map(|at| m[at]).collect()
}

impl TaskShard {
    /// From its rows, with the options and the features of all shards.
    pub fn new(options: Multitask, data: TaskRows) -> Result<Self> {
        options.check_sharded()?;
        Ok(TaskShard {
            options,
            data,
            framed: None,
        })
    }

    fn framing(&self) -> Framing {
        self.options.framing()
    }

    /// The part of the shard in what is asked. `sums` are the numbers of the question `framed`.
    pub fn answer(&mut self, what: &str, sums: &[f64], numbers: &[f64]) -> Result<Vec<f64>> {
        let all: Vec<u32> = (0..self.data.len() as u32).collect();
        if what == "frame" {
            let mut replay = Replay {
                rest: numbers,
                open: None,
            };
            let mut beyond: Beyond<'_> = Some(&mut replay);
            let made = Frame::beyond(&self.data, &all, self.framing(), &mut beyond);
            return match (replay.open, made) {
                (Some(open), _) => Ok(open),
                (None, Err(error)) => Err(error),
                (None, Ok(_)) => Err(Error::input("all sums over tasks are known")),
            };
        }
        if self
            .framed
            .as_ref()
            .is_none_or(|framed| framed.sums != sums)
        {
            let mut replay = Replay {
                rest: sums,
                open: None,
            };
            let mut beyond: Beyond<'_> = Some(&mut replay);
            let frame = Frame::beyond(&self.data, &all, self.framing(), &mut beyond)?;
            self.framed = Some(Framed {
                sums: sums.to_vec(),
                tasks: frame.tasks()?,
                frame,
                seen: None,
            });
        }
        let (options, framed) = (&self.options, &mut self.framed);
        match framed {
            Some(framed) => framed.answer(options, what, numbers),
            None => Err(Error::failure("a shard without its tasks")),
        }
    }
}

impl Framed {
    fn answer(&mut self, options: &Multitask, what: &str, numbers: &[f64]) -> Result<Vec<f64>> {
        let (m, threads) = (self.tasks.features(), options.thread_count());
        let wrong = || {
            let message = format!("a question of {} numbers does not fit", numbers.len());
            Error::input(message)
        };
        match what {
            "products" => return self.tasks.products(threads),
            "pulls" => {
                let common = match numbers.len() {
                    0 => None,
                    n if n == m => Some(Mat::from_fn(m, 1, |i, _| numbers[i])),
                    _ => return Err(wrong()),
                };
                let pulls = self.tasks.pulls(common.as_ref());
                return Ok(upper(&(&pulls * pulls.transpose())));
            }
            _ => {}
        }
        // λ, the rank, and matrices column by column.
        let [lambda, rank, rest @ ..] = numbers else {
            return Err(wrong());
        };
        let columns = (*rank as usize).min(m);
        let sizes = [
            columns,
            usize::from(options.common_ridge_or_none().is_some()),
        ];
        let count = m * (sizes[0] + sizes[1]);
        let along = what == "hessian";
        if columns == 0 || rest.len() != count * if along { 2 } else { 1 } {
            return Err(wrong());
        }
        let blocks = |numbers: &[f64]| -> Vec<Mat<f64>> {
            let (u, c) = numbers.split_at(m * columns);
            let u = Mat::from_fn(m, columns, |i, j| u[j * m + i]);
            let c = (!c.is_empty()).then(|| Mat::from_fn(m, 1, |i, _| c[i]));
            [u].into_iter().chain(c).collect()
        };
        let at = blocks(&rest[..count]);
        if what == "fits" {
            return Ok(self.fits(*lambda, at));
        }
        let problem = SharedSubspace {
            tasks: &self.tasks,
            lambda: *lambda,
            common: None,
            threads,
        };
        let key = &numbers[..2 + count];
        if self.seen.as_ref().is_none_or(|(known, _)| known != key) {
            self.seen = Some((key.to_vec(), problem.seen(&at)));
        }
        let Some((_, seen)) = &self.seen else {
            return Err(Error::failure("tasks that were not seen"));
        };
        match what {
            "cost" => Ok(vec![problem.part_of_cost(seen)]),
            "local" => {
                let sums = [problem.part_of_slope(seen), problem.part_of_usual(seen)];
                let cost = vec![problem.part_of_cost(seen)];
                Ok([cost, flat(&sums)].concat())
            }
            "hessian" => {
                let direction = blocks(&rest[count..]);
                Ok(flat([&problem.part_of_hessian(seen, &direction)]))
            }
            other => Err(Error::input(format!("there is no question `{other}`"))),
        }
    }

    /// Of each task scale, bias, weights, and moments; then by what its features are multiplied.
    fn fits(&self, lambda: f64, at: Vec<Mat<f64>>) -> Vec<f64> {
        let learned = Learned {
            at,
            prior: TaskPrior {
                ridge: lambda,
                ..self.frame.prior
            },
            cost: 0.0,
            iterations: 0,
            ended: crate::batch::Ended::Iterations,
        };
        let (moments, fits) = learned.tasks(&self.frame, 0..self.frame.tasks_count());
        let mut out = Vec::new();
        for (t, (moments, fit)) in moments.iter().zip(fits).enumerate() {
            out.extend([fit.scale, fit.bias]);
            out.extend(fit.weights);
            out.push(moments.count);
            out.extend(&moments.mean);
            out.extend(&moments.products);
            out.extend(self.frame.factors_of(Some(t)).unwrap_or_default());
        }
        out
    }
}

/// Reads what shards say of all tasks.
fn read_fits(numbers: &[f64], tasks: usize, rank: usize, factors: usize) -> Result<TaskFits> {
    let d = rank + 2;
    let each = 2 + rank + 1 + d + d * d + factors;
    if numbers.len() != tasks * each {
        return Err(Error::input(format!(
            "{} numbers of {tasks} tasks: expected {}",
            numbers.len(),
            tasks * each
        )));
    }
    let mut out = TaskFits {
        moments: Vec::with_capacity(tasks),
        fits: Vec::with_capacity(tasks),
        factors: (factors > 0).then(Vec::new),
    };
    for task in numbers.chunks_exact(each) {
        let (fit, rest) = task.split_at(2 + rank);
        let (moments, own) = rest.split_at(1 + d + d * d);
        out.fits.push(TaskFit {
            scale: fit[0],
            bias: fit[1],
            weights: fit[2..].to_vec(),
        });
        out.moments.push(Moments {
            count: moments[0],
            mean: moments[1..=d].to_vec(),
            products: moments[1 + d..].to_vec(),
        });
        if let Some(factors) = &mut out.factors {
            factors.extend(own);
        }
    }
    Ok(out)
}

/// Sums over all shards, of someone who has no tasks.
struct OverShards<'a, 's> {
    ask: &'a mut AskShards<'s>,
    found: Vec<f64>,
}

impl Sums for OverShards<'_, '_> {
    fn sum(
        &mut self,
        what: &'static str,
        count: usize,
        _: &mut dyn FnMut() -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        let question = ShardQuestion {
            what: "frame",
            numbers: self.found.clone(),
            summed: true,
        };
        let sum = (self.ask)(&question)?;
        if sum.len() != count {
            return Err(Error::input(format!(
                "an answer of {} numbers: expected {count} for {what}",
                sum.len()
            )));
        }
        self.found.push(count as f64);
        self.found.extend(&sum);
        Ok(sum)
    }

    fn agents(&self) -> usize {
        1
    }
}

impl Multitask {
    fn framing(&self) -> Framing {
        Framing {
            standardize: self.standardize.unwrap_or_default(),
            bias: !self.no_bias,
            common: self.common_ridge_or_none(),
            threads: self.thread_count(),
        }
    }

    /// Refuses what has no meaning by shards.
    pub fn check_sharded(&self) -> Result<()> {
        self.check()?;
        let usual = Multitask::default();
        let refused = |name: &str, found: bool, why: &str| match found {
            true => Err(Error::option(name, why.to_owned())),
            false => Ok(()),
        };
        let mixed = self.learner == MultitaskLearner::Mixed;
        refused(
            "learner",
            mixed,
            "is `mixed`: by shards expected `grassmann`",
        )?;
        let init = self.init != StartInit::Own;
        refused(
            "init",
            init,
            "is a model: by shards a subspace starts by itself",
        )?;
        let held = self.valid_fraction != usual.valid_fraction;
        refused(
            "valid-fraction",
            held,
            "has no use by shards: nothing is chosen",
        )?;
        let curve = self.curve_every != usual.curve_every;
        refused(
            "curve-every",
            curve,
            "has no use by shards: every iteration is told",
        )?;
        let open = !self.regularization.is_some_and(|lambda| lambda > 0.0);
        let why = "is not chosen by shards: expected a number above 0, such as `train multitask` \
                   finds for some of the tasks";
        refused("regularization", open, why)
    }

    /// Learns from tasks that shards hold, in the order of shards. `observer` gets each iteration
    /// and its cost, and says whether to go on. Gives the model and the cost.
    pub fn fit_sharded(
        &self,
        (features, tasks): (Ids, Ids),
        ask: &mut AskShards<'_>,
        observer: &mut dyn FnMut(usize, f64) -> bool,
    ) -> Result<(Model, f64)> {
        self.check_sharded()?;
        let (m, count) = (features.len(), tasks.len());
        let most = m.min(count);
        let rank = self.rank.unwrap_or(RANK.min(most.max(1)));
        if rank > most {
            return Err(Error::option(
                "rank",
                format!("is {rank}, above the smaller of n_features = {m} and {count} tasks"),
            ));
        }
        memory::require(4 * 8 * (m * m) as u128, "products of all features")?;
        let nobody = TaskRows {
            names: Ids::new(),
            task: Vec::new(),
            rows: Rows::new(),
            targets: Vec::new(),
            features: features.clone(),
            table: false,
        };
        let mut sums = OverShards {
            ask,
            found: Vec::new(),
        };
        let mut beyond: Beyond<'_> = Some(&mut sums);
        let frame = Frame::beyond(&nobody, &[], self.framing(), &mut beyond)?;
        let OverShards { ask, found } = sums;
        let mut asked = |what: &'static str, numbers: Vec<f64>, summed: bool| {
            let question = ShardQuestion {
                what,
                numbers,
                summed,
            };
            ask(&question)
        };
        asked("framed", found, true)?;
        let lambda = self.regularization.unwrap_or_default();
        let (mut common, mut weights) = (None, None);
        let upper = m * (m + 1) / 2;
        let of_length = |numbers: Vec<f64>, length: usize| match numbers.len() == length
            && numbers.iter().all(|v| v.is_finite())
        {
            true => Ok(numbers),
            false => Err(Error::input(format!(
                "a shard answered with {} numbers, expected {length} that are finite",
                numbers.len()
            ))),
        };
        if let Some(mu) = self.common_ridge_or_none() {
            let products = of_length(asked("products", Vec::new(), true)?, upper + m)?;
            let (gram, right) = from_upper(&products, m);
            weights = Some(solve_with_ridge(gram.clone(), &right, mu));
            common = Some(Common::of_gram(mu, gram)?);
        }
        let pulls = asked("pulls", flat(&weights), true)?;
        let mut pulls = of_length(pulls, upper)?;
        pulls.extend(vec![0.0; m]);
        let start = leading(&from_upper(&pulls, m).0, rank);
        let start = completed(start.and_then(|u| qf(&u)), rank, self.seed)?;
        let at: Vec<Mat<f64>> = [start].into_iter().chain(weights).collect();
        let told = |at: &[&[Mat<f64>]]| {
            let head = vec![lambda, at[0][0].ncols() as f64];
            [head, flat(at.iter().copied().flatten())].concat()
        };
        let limits = Limits {
            iterations: self.iterations,
            decrease: self.tolerance,
            ..Limits::default()
        };
        let solved = {
            let mut over_tasks =
                |what: &'static str, at: &[&[Mat<f64>]]| asked(what, told(at), true);
            let asking = Asking::new(&mut over_tasks);
            let problem = SummedSubspace::new(m, common.as_ref(), &asking);
            let solver = self.solver.solver();
            let solved = solver.solve(&problem, at, limits, &mut |step| {
                observer(step.number, step.cost)
            });
            match asking.failure() {
                Some(error) => return Err(error),
                None => solved,
            }
        };
        let mut learned = Learned {
            at: solved.point,
            prior: TaskPrior {
                ridge: lambda,
                ..frame.prior
            },
            cost: solved.cost,
            iterations: solved.iterations,
            ended: solved.ended,
        };
        let standardize = self.standardize.unwrap_or_default();
        let factors = if standardize == Standardize::Task {
            m
        } else {
            0
        };
        let fits = turned(&mut learned, |learned| {
            read_fits(
                &asked("fits", told(&[&learned.at]), false)?,
                count,
                learned.at[0].ncols(),
                factors,
            )
        })?;
        let scaled = (&frame.preprocess, frame.usual_factors.clone(), standardize);
        let model = self.model_of(&learned, fits, (features, tasks), scaled, None)?;
        Ok((model, learned.cost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_at;

    /// Tasks of unlike sizes, with biases and scales of their own.
    fn data(tasks: usize, m: usize) -> TaskRows {
        let normal = |stream: u64, i: usize, j: usize| normal_at(4, stream, i as u64, j as u64);
        let (mut names, mut rows, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for t in 0..tasks {
            for i in 0..3 + 5 * (t % 4) {
                let at = 100 * t + i;
                let x: Vec<f64> = (0..m).map(|j| 0.5 + normal(1, at, j)).collect();
                let weight = |j: usize| normal(2, j, 0) + normal(3, t, j % 2) * normal(4, j, 1);
                let own: f64 = (0..m).map(|j| x[j] * weight(j)).sum();
                let scale = 1.0 + (t % 3) as f64;
                targets.push(7.0 + scale * (own + normal(5, t, 0) + 0.3 * normal(6, at, 0)));
                names.push(format!("t{t}"));
                rows.push(x);
            }
        }
        TaskRows::new(names, Rows::from_dense(&rows).unwrap(), targets).unwrap()
    }

    fn cut(data: &TaskRows, shards: usize) -> Vec<TaskRows> {
        let count = data.names.len();
        let part = |s: usize| {
            let own = count * s / shards..count * (s + 1) / shards;
            let rows =
                (0..data.len() as u32).filter(|&i| own.contains(&(data.task[i as usize] as usize)));
            let rows: Vec<u32> = rows.collect();
            let names: Vec<&str> = rows
                .iter()
                .map(|&i| data.names.get(data.task[i as usize]))
                .collect();
            let kept = data.select(&rows);
            TaskRows::new(names, kept.rows, kept.targets).unwrap()
        };
        (0..shards).map(part).collect()
    }

    /// The model by shards; where `forgetful` every answer comes from a new shard.
    fn sharded(
        options: &Multitask,
        data: &TaskRows,
        shards: usize,
        forgetful: bool,
    ) -> Result<Model> {
        let parts = cut(data, shards);
        let make = |part: &TaskRows| TaskShard::new(options.clone(), part.clone());
        let mut all = parts.iter().map(make).collect::<Result<Vec<_>>>()?;
        let mut sums = Vec::new();
        let mut ask = |question: &ShardQuestion| {
            if question.what == "framed" {
                sums.clone_from(&question.numbers);
                return Ok(Vec::new());
            }
            let mut out: Vec<f64> = Vec::new();
            for (shard, part) in all.iter_mut().zip(&parts) {
                if forgetful {
                    *shard = make(part)?;
                }
                let answer = shard.answer(question.what, &sums, &question.numbers)?;
                match question.summed && !out.is_empty() {
                    true => out.iter_mut().zip(answer).for_each(|(a, b)| *a += b),
                    false => out.extend(answer),
                }
            }
            Ok(out)
        };
        let names = (data.features.clone(), data.names.clone());
        Ok(options.fit_sharded(names, &mut ask, &mut |_, _| true)?.0)
    }

    fn options() -> Multitask {
        Multitask {
            rank: Some(2),
            regularization: Some(0.5),
            threads: Some(1),
            ..Multitask::default()
        }
    }

    #[test]
    fn shards_of_tasks_come_to_the_model_of_all_tasks() {
        for (tasks, m) in [(23, 6), (5, 8)] {
            let data = data(tasks, m);
            for how in [Standardize::None, Standardize::Global, Standardize::Task] {
                for (no_bias, no_common) in [(false, false), (true, false), (false, true)] {
                    let options = Multitask {
                        standardize: Some(how),
                        no_bias,
                        no_common,
                        ..options()
                    };
                    let whole = options.fit(&data).unwrap();
                    for shards in [1, 3] {
                        let found = sharded(&options, &data, shards, false).unwrap();
                        let [mut a, mut b] =
                            [&whole, &found].map(|model| model.task_predictor().unwrap());
                        for i in 0..data.len() {
                            let task = Some(data.task[i]);
                            let row = data.rows.row(i);
                            let (one, two) = (a.target(task, row), b.target(task, row));
                            // Both stop when an iteration lowers the cost by 1e-10 of it.
                            assert!(
                                (one - two).abs() < 1e-4 * (1.0 + one.abs()),
                                "{tasks} {how:?} {one} {two}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_shard_that_was_lost_answers_the_same() {
        let data = data(9, 4);
        let bytes = |forgetful| {
            let model = sharded(&options(), &data, 3, forgetful).unwrap();
            model.to_bytes().unwrap()
        };
        assert_eq!(bytes(false), bytes(true));
    }

    #[test]
    fn what_has_no_meaning_by_shards_is_refused() {
        let data = data(5, 4);
        let refused = |options: Multitask, what: &str| {
            let error = sharded(&options, &data, 2, false).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        let usual = options();
        refused(
            Multitask {
                regularization: None,
                ..usual.clone()
            },
            "not chosen by shards",
        );
        refused(
            Multitask {
                rank: Some(5),
                ..usual.clone()
            },
            "above the smaller",
        );
        refused(
            Multitask {
                valid_fraction: 0.3,
                ..usual.clone()
            },
            "nothing is chosen",
        );
        let mixed = Multitask {
            learner: MultitaskLearner::Mixed,
            ..Multitask::default()
        };
        refused(mixed, "expected `grassmann`");
        let mut shard = TaskShard::new(usual, data).unwrap();
        for (what, sums, numbers) in [
            ("frame", vec![], vec![3.0, 1.0]),
            ("cost", vec![1.0, 2.0], vec![]),
        ] {
            assert!(shard.answer(what, &sums, &numbers).is_err());
        }
    }
}
