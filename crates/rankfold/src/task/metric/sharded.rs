//! Pairs that are cut into shards, and the metric of all of them.
//!
//! The cost of a metric is a sum over pairs, and so are its slope and its curvature. The process that
//! has the rows scales them, makes the pairs and the start as in one process, and deals pairs out.
//! Then it searches, and asks the shards for these sums at factors of W. A shard knows its pairs and
//! their rows, and nothing else: one that was lost is made again and answers the same.

use super::engine::Bounded;
use super::fit::{ITERATIONS, SHRINKAGE, Setup};
use super::{Metric, MetricData, MetricInit, PairsFrom};
use crate::batch::{Asking, Bound, Bounds, Distances, Ended, Pair, PairLoss, Points, SeenPairs};
use crate::manifold::Split;
use crate::model::Model;
use crate::task::questions::{AskShards, ShardQuestion, flat};
use crate::{Error, Real, Result, Rows};
use faer::Mat;

/// The pairs of a shard, with their rows.
#[derive(Debug)]
pub struct MetricShard {
    distances: Distances<'static>,
    bounds: Bounds,
    /// The share of all pairs that it has.
    share: f64,
    /// What was made of the pairs last, to be used again while the questions allow it.
    seen: Option<(Vec<f64>, SeenPairs)>,
}

impl MetricShard {
    /// From rows as the model sees them, and pairs of these with what their squared distances
    /// should keep to; `all` is the number of pairs of all shards.
    pub fn new(
        rows: &Rows<f64>,
        pairs: &[(Pair, Bound, f64)],
        all: usize,
        threads: usize,
    ) -> Result<Self> {
        if pairs.len() > all {
            return Err(Error::input(format!(
                "a shard of {} pairs among {all}",
                pairs.len()
            )));
        }
        let points = Points::new(rows)?;
        let list = pairs.iter().map(|(pair, ..)| *pair).collect();
        Ok(MetricShard {
            distances: Distances::owning(points, list, threads)?,
            bounds: Bounds {
                list: pairs.iter().map(|&(_, bound, y)| (bound, y)).collect(),
            },
            share: pairs.len() as f64 / all.max(1) as f64,
            seen: None,
        })
    }

    /// The part of the shard in what is asked: `cost`, `local`, `curvature` and `hessian` at
    /// factors of W, and how many pairs are `violated`.
    pub fn answer(&mut self, what: &str, numbers: &[f64]) -> Result<Vec<f64>> {
        let d = self.distances.features();
        let wrong = || {
            let message = format!("a question of {} numbers does not fit", numbers.len());
            Error::input(message)
        };
        // The columns of Y and of C, and both.
        let [k, root, rest @ ..] = numbers else {
            return Err(wrong());
        };
        let (k, root) = (*k as usize, *root as usize);
        let along = matches!(what, "curvature" | "hessian");
        let sound = (1..=d).contains(&k) && (root == 0 || root == k);
        if !sound || rest.len() != d * k + root * k + if along { d * k } else { 0 } {
            return Err(wrong());
        }
        let matrix = |numbers: &[f64], rows: usize| {
            Mat::from_fn(rows, numbers.len() / rows, |i, j| numbers[j * rows + i])
        };
        let (basis, rest) = rest.split_at(d * k);
        let (root, direction) = rest.split_at(root * k);
        let key = &numbers[..numbers.len() - direction.len()];
        if self.seen.as_ref().is_none_or(|(known, _)| known != key) {
            let split = Split {
                basis: matrix(basis, d),
                root: (!root.is_empty()).then(|| matrix(root, k)),
            };
            self.seen = Some((key.to_vec(), SeenPairs::new(&self.distances, &split)));
        }
        let Some((_, seen)) = &self.seen else {
            return Err(Error::failure("pairs that were not seen"));
        };
        let (of, bounds) = (&self.distances, &self.bounds);
        let mut out = match what {
            "cost" => vec![bounds.cost(seen.distances())],
            "local" => {
                let (cost, product) = seen.slope(of, bounds);
                [vec![cost], flat([&product])].concat()
            }
            "curvature" => vec![seen.curvature(of, bounds, &matrix(direction, d))],
            "hessian" => flat([&seen.hessian(of, bounds, &matrix(direction, d))]),
            "violated" => return Ok(vec![bounds.violated(seen.distances()) as f64]),
            other => return Err(Error::input(format!("there is no question `{other}`"))),
        };
        // Its own cost is a mean over its pairs.
        out.iter_mut().for_each(|v| *v *= self.share);
        Ok(out)
    }
}

/// Who deals rows and pairs out to shards.
type Deal<'d, R> = dyn FnMut(&Rows<R>, &[(Pair, Bound, f64)]) -> Result<()> + 'd;

/// What shards came to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ShardedMetric {
    /// The model.
    pub model: Model,
    /// The cost of all pairs.
    pub cost: f64,
    /// How many pairs there are.
    pub constraints: usize,
    /// How many of them are not kept to.
    pub violated: usize,
    /// Whether the search ended by itself.
    pub converged: bool,
}

impl Metric {
    /// Refuses what has no meaning by shards. `given` says whether pairs are given, rather than made
    /// from labels.
    pub fn check_sharded(&self, given: bool) -> Result<()> {
        self.check()?;
        let usual = Metric::default();
        let chosen = "has no use by shards: nothing is chosen";
        let refused = [
            (
                "learner",
                self.learner.is_baseline(),
                "is a baseline: by shards expected a geometry, such as `flat` or `polar`",
            ),
            (
                "solver",
                self.is_online(),
                "is `online`, one pair after the other: by shards expected `cg`, `descent` or \
                 `trust-region`",
            ),
            (
                "init",
                self.init == Some(MetricInit::Model),
                "is a model: by shards a metric starts by itself",
            ),
            (
                "init",
                given && self.init == Some(MetricInit::ClassMeans),
                "is `class-means`: pairs that are given have no classes",
            ),
            (
                "valid_fraction",
                self.valid_fraction != usual.valid_fraction,
                chosen,
            ),
            ("patience", self.patience != usual.patience, chosen),
            (
                "curve_every",
                self.curve_every != usual.curve_every,
                "has no use by shards: every iteration is told",
            ),
            (
                "pairs_from",
                !given && self.pairs_from != Some(PairsFrom::Random),
                "must be given as `random` by shards: nearest rows are looked for again among all \
                 rows every few iterations",
            ),
            (
                "iterations",
                !given && self.iterations.is_none(),
                "is not chosen by shards: expected a number, such as `train metric` finds for some \
                 of the rows",
            ),
        ];
        match refused.into_iter().find(|(_, found, _)| *found) {
            Some((name, _, why)) => Err(Error::option(name, why.to_owned())),
            None => Ok(()),
        }
    }

    /// Learns from pairs that shards hold. `deal` gets rows as the model sees them and all pairs,
    /// before anything is asked; each shard takes some. `observer` gets each iteration and its cost,
    /// and says whether to go on.
    pub fn fit_sharded<R: Real>(
        &self,
        data: MetricData<'_, R>,
        deal: &mut Deal<'_, R>,
        ask: &mut AskShards<'_>,
        observer: &mut dyn FnMut(usize, f64) -> bool,
    ) -> Result<ShardedMetric> {
        let given = data.constraints.is_some();
        self.check_sharded(given)?;
        if data.valid.is_some() {
            return Err(Error::option(
                "valid",
                "has no use by shards: nothing is chosen",
            ));
        }
        // Where nothing else is asked for columns stay as they are, as for these pairs in one process.
        let setup = Setup::new(&self.scaled_as(false), data)?;
        let rank = setup.rank()?;
        let init = setup.starts(rank, given)[0];
        let (first, levels) = setup.first(&setup.train, init, rank, SHRINKAGE)?;
        let bounds: Vec<Bounded> = setup.bounds(&setup.train, data.constraints, levels)?;
        if bounds.is_empty() {
            return Err(Error::input("no constraint to learn from"));
        }
        deal(&setup.things.rows, &bounds)?;
        let mut asked = |what: &'static str, at: &[&[Mat<f64>]]| {
            let (basis, root) = (&at[0][0], at[0].get(1));
            let head = [basis.ncols() as f64, root.map_or(0.0, |c| c.ncols() as f64)];
            let matrices = flat(at.iter().copied().flatten());
            ask(&ShardQuestion {
                what,
                numbers: head.into_iter().chain(matrices).collect(),
                summed: true,
            })
        };
        let mut engine = setup.engine();
        engine.iterations = self.iterations.unwrap_or(ITERATIONS);
        let (mut factor, mut iterations, mut cost, mut ended) =
            (first, 0, f64::NAN, Ended::Iterations);
        if engine.iterations > 0 {
            let asking = Asking::new(&mut asked);
            let posed = (setup.train.points.features(), &asking);
            let lowered = engine.lower(posed, &factor, None, &mut |seen| {
                observer(seen.number, seen.cost)
            });
            let lowered = match asking.failure() {
                Some(error) => return Err(error),
                None => lowered?,
            };
            (factor, iterations) = (lowered.factor, lowered.iterations);
            (cost, ended) = (lowered.cost, lowered.ended);
        }
        let at = [factor];
        let violated = asked("violated", &[&at])?;
        let [factor] = at;
        Ok(ShardedMetric {
            model: setup.model(&factor, init, levels, iterations, Vec::new())?,
            cost,
            constraints: bounds.len(),
            violated: violated.first().copied().unwrap_or_default() as usize,
            converged: ended == Ended::Converged,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MetricLearner, MetricSolver};
    use super::*;
    use crate::SparseVec;
    use crate::data::{Constraint, Labelled, Labels, Relation};
    use crate::random::normal_at;
    use crate::task::Run;
    use std::sync::Mutex;

    /// Rows of three classes, which differ in the first two columns; with zeros where `sparse`.
    fn data(n: usize, d: usize, sparse: bool) -> Labelled<f64> {
        let mut rows = Rows::new();
        for i in 0..n {
            let at = |j: usize| {
                let noise = normal_at(3, 1, i as u64, j as u64);
                noise + if j < 2 { ((i + j) % 3) as f64 } else { 0.0 }
            };
            let kept = (0..d).filter(|j| !sparse || (i * 7 + j * 3) % 8 == 0);
            let entries = kept.map(|j| (j as u32, at(j))).collect();
            rows.push(SparseVec::from_entries(entries).as_row());
        }
        rows.widen(d);
        let labels = Labels::single((0..n).map(|i| i % 3));
        Labelled::new(rows).with_labels(labels).unwrap()
    }

    fn known(n: usize, count: usize) -> Vec<Constraint> {
        let pair = |t: usize| {
            let (left, right) = (t * 7 % n, (t * 5 + 1 + t / n) % n);
            let relation = match (t % 6, left % 3 == right % 3) {
                (0, _) => Relation::AtMost(2.0),
                (_, true) => Relation::Same,
                (_, false) => Relation::Different,
            };
            Constraint {
                left: left as u32,
                right: right as u32,
                relation,
            }
        };
        (0..count).map(pair).collect()
    }

    /// A shard, and what it is made of.
    struct Held {
        rows: Rows<f64>,
        pairs: Vec<(Pair, Bound, f64)>,
        all: usize,
        shard: MetricShard,
    }

    impl Held {
        fn new(rows: &Rows<f64>, pairs: &[(Pair, Bound, f64)], all: usize) -> Self {
            let mut used: Vec<u32> = (pairs.iter())
                .flat_map(|(p, ..)| [p.left, p.right])
                .collect();
            used.sort_unstable();
            used.dedup();
            let place = |i: u32| used.binary_search(&i).unwrap() as u32;
            let renamed = |&(pair, bound, y): &(Pair, Bound, f64)| {
                let (left, right) = (place(pair.left), place(pair.right));
                (Pair { left, right }, bound, y)
            };
            let pairs: Vec<_> = pairs.iter().map(renamed).collect();
            let mut own = rows.select(used.iter().map(|&i| i as usize));
            own.widen(rows.columns());
            Held {
                shard: MetricShard::new(&own, &pairs, all, 1).unwrap(),
                rows: own,
                pairs,
                all,
            }
        }
    }

    /// What shards come to; where `forgetful` every answer comes from a new shard.
    fn sharded(
        options: &Metric,
        data: MetricData<'_, f64>,
        shards: usize,
        forgetful: bool,
    ) -> Result<ShardedMetric> {
        let held: Mutex<Vec<Held>> = Mutex::new(Vec::new());
        let mut deal = |rows: &Rows<f64>, pairs: &[(Pair, Bound, f64)]| {
            let n = pairs.len();
            let own = |s: usize| &pairs[n * s / shards..n * (s + 1) / shards];
            *held.lock().unwrap() = (0..shards).map(|s| Held::new(rows, own(s), n)).collect();
            Ok(())
        };
        let mut ask = |question: &ShardQuestion| {
            let mut out: Vec<f64> = Vec::new();
            for held in held.lock().unwrap().iter_mut() {
                if forgetful {
                    held.shard = MetricShard::new(&held.rows, &held.pairs, held.all, 2)?;
                }
                let answer = held.shard.answer(question.what, &question.numbers)?;
                match out.is_empty() {
                    true => out = answer,
                    false => out.iter_mut().zip(answer).for_each(|(a, b)| *a += b),
                }
            }
            Ok(out)
        };
        options.fit_sharded(data, &mut deal, &mut ask, &mut |_, _| true)
    }

    fn given<'a>(rows: &'a Labelled<f64>, known: &'a [Constraint]) -> MetricData<'a, f64> {
        MetricData {
            constraints: Some(known),
            ..rows.into()
        }
    }

    fn options(learner: MetricLearner) -> Metric {
        let usual = Metric::new(learner).tolerance(0.0).threads(1);
        match learner.is_cone() {
            // Steps on a cone multiply what rounding differs by: a few keep it small.
            true => usual.iterations(5),
            false => usual.iterations(12).rank(2),
        }
    }

    /// W of a model.
    fn matrix(model: &Model) -> Mat<f64> {
        let form = model.form.as_precision::<f64>().unwrap();
        let [factor, _] = form.view().balanced_factors().unwrap();
        &factor * factor.transpose()
    }

    #[test]
    fn shards_of_pairs_come_to_the_metric_of_all_pairs() {
        let solvers = [
            MetricSolver::Cg,
            MetricSolver::Descent,
            MetricSolver::TrustRegion,
        ];
        for learner in [
            MetricLearner::Flat,
            MetricLearner::Polar,
            MetricLearner::ConeAffine,
            MetricLearner::ConeLog,
        ] {
            for (solver, (n, d, sparse)) in solvers
                .iter()
                .flat_map(|&solver| [(40, 6, false), (40, 9, true)].map(|size| (solver, size)))
            {
                let rows = data(n, d, sparse);
                let known = known(n, 90);
                let options = options(learner).solver(solver);
                for data in [given(&rows, &known), MetricData::from(&rows)] {
                    let options = match data.constraints {
                        Some(_) => options.clone(),
                        None => options
                            .clone()
                            .pairs_from(PairsFrom::Random)
                            .constraints(77),
                    };
                    let whole = options.fit_with(data, Run::default()).unwrap();
                    let want = matrix(&whole.model);
                    for shards in [1, 3, 200] {
                        let found = sharded(&options, data, shards, false).unwrap();
                        let off = (&matrix(&found.model) - &want).norm_l2() / want.norm_l2();
                        assert!(off < 1e-7, "{learner:?} {solver:?} {sparse} {shards} {off}");
                        let more = &whole.report.more;
                        assert_eq!(more["violated"], found.violated);
                        assert_eq!(more["constraints"], found.constraints);
                        assert_eq!(whole.model.preprocess, found.model.preprocess);
                    }
                }
            }
        }
    }

    #[test]
    fn a_shard_that_was_lost_answers_the_same() {
        let (rows, known) = (data(30, 5, false), known(30, 50));
        for learner in [MetricLearner::Flat, MetricLearner::Polar] {
            let bytes = |forgetful| {
                let found = sharded(&options(learner), given(&rows, &known), 4, forgetful);
                found.unwrap().model.to_bytes().unwrap()
            };
            assert_eq!(bytes(false), bytes(true));
        }
    }

    #[test]
    fn one_pair_is_enough_and_scaling_is_that_of_all_rows() {
        let rows = data(12, 4, false);
        let one = known(12, 1);
        let options = options(MetricLearner::Flat).standardize(crate::model::Scaling::Global);
        let whole = options
            .fit_with(given(&rows, &one), Run::default())
            .unwrap();
        for shards in [1, 2] {
            let found = sharded(&options, given(&rows, &one), shards, false).unwrap();
            let off = (&matrix(&found.model) - &matrix(&whole.model)).norm_l2();
            assert!(off < 1e-9, "{off}");
            assert_eq!(whole.model.preprocess, found.model.preprocess);
        }
        let none = sharded(&options, given(&rows, &[]), 2, false).unwrap_err();
        assert!(none.message.contains("no constraint"), "{none}");
    }

    #[test]
    fn what_has_no_meaning_by_shards_is_refused() {
        let (rows, known) = (data(12, 4, false), known(12, 9));
        let usual = options(MetricLearner::Flat);
        let refused = |options: Metric, labels: bool, what: &str| {
            let data = match labels {
                true => MetricData::from(&rows),
                false => given(&rows, &known),
            };
            let error = sharded(&options, data, 2, false).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        refused(Metric::new(MetricLearner::Itml), false, "is a baseline");
        refused(
            Metric::default().solver(MetricSolver::Online),
            false,
            "one pair after the other",
        );
        refused(
            usual.clone().init(MetricInit::ClassMeans),
            false,
            "have no classes",
        );
        refused(usual.clone().valid_fraction(0.2), true, "nothing is chosen");
        refused(usual.clone().curve_every(3), false, "every iteration");
        refused(usual.clone(), true, "must be given as `random`");
        let open = Metric::default().pairs_from(PairsFrom::Random);
        refused(open, true, "is not chosen by shards");
        let mut shard = Held::new(&rows.rows, &[], 0).shard;
        for (what, numbers) in [
            ("cost", vec![]),
            ("cost", vec![1.0, 0.0, 1.0]),
            ("cost", vec![5.0, 0.0]),
            ("local", vec![2.0, 1.0]),
            ("hessian", vec![1.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
            ("other", vec![1.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
        ] {
            assert!(shard.answer(what, &numbers).is_err(), "{what}");
        }
        let at = vec![1.0, 0.0, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(shard.answer("local", &at).unwrap(), vec![0.0; 5]);
    }
}
