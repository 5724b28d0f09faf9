//! The contract of tasks: every task keeps the laws of `check::task`, and the check finds
//! tasks that do not.

use rankfold::data::{
    Choices, Constraint, Dissimilarity, Labelled, Labels, Ratings, Relation, TaskRows, ValuedPair,
};
use rankfold::form::{Factored, Form, Tall};
use rankfold::model::Knowledge;
use rankfold::online::Rule;
use rankfold::options::Options;
use rankfold::random::normal_at;
use rankfold::task::{
    Checkpoint, CompletionInit, CompletionLearner, Event, Fit, Gossip, GossipData, GossipGeometry,
    GossipTask, Init, KernelData, Learn, Map, MapData, MetricData, MetricSolver, MultitaskSolver,
    PairsData, PairsSolver, RankingData, RatingData, RecommendData, RecommendLearner, Report, Run,
    SimilarityData, Stop, TaskData, TrainingData,
};
use rankfold::{
    Completion, Ids, Kernel, Metric, Model, Multitask, Pairs, Ranking, Recommend, Result, Rows,
    Similarity, check, options,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of two classes, some features of which tell them apart.
pub fn rows(n: usize) -> Labelled<f64> {
    let value = |i: usize, j: usize| {
        let class = (i % 2) as f64;
        normal_at(5, 1, i as u64, j as u64) + if j < 3 { 1.5 * class } else { 0.0 }
    };
    let rows = Rows::from_dense((0..n).map(|i| (0..6).map(|j| value(i, j)).collect::<Vec<_>>()));
    let labels = Labels::single((0..n).map(|i| i % 2));
    Labelled::new(rows.unwrap()).with_labels(labels).unwrap()
}

fn extreme() -> Labelled<f64> {
    let rows = Rows::from_dense((0..12).map(|i| {
        let huge = if i == 3 { 1e300 } else { 1e-300 };
        vec![huge, f64::from(i % 2), -huge]
    }));
    let labels = Labels::single((0..12).map(|i| i % 2));
    Labelled::new(rows.unwrap()).with_labels(labels).unwrap()
}

#[track_caller]
pub fn holds<T: Learn<D>, D: Clone>(
    task: &T,
    data: D,
    extreme: Option<D>,
    without_effect: &[&str],
) {
    let broken = check::task(task, data, extreme, without_effect).unwrap();
    assert!(broken.is_empty(), "{}: {broken:#?}", T::TASK);
}

#[test]
fn similarity_keeps_the_laws() {
    let (data, wild) = (rows(30), extreme());
    // Rows that are held out and judged say nothing where only the last W is kept.
    let quiet = ["curve_every", "patience"];
    for learner in [
        Rule::LoretaPsd,
        Rule::AromaFactored,
        Rule::ManifoldIdentification,
    ] {
        let task = Similarity::new(learner)
            .rank(2)
            .steps(1_500)
            .valid_fraction(0.2);
        let task = match learner {
            Rule::LoretaPsd | Rule::ManifoldIdentification => task,
            _ => Similarity::new(learner).steps(1_500),
        };
        holds(
            &task,
            SimilarityData::from(&data),
            Some((&wild).into()),
            &quiet,
        );
    }
}

/// With rows enough to hold some out, start, score and length are chosen first.
#[test]
fn a_similarity_that_chooses_keeps_the_laws() {
    let (data, few) = (rows(150), extreme());
    let wild = Labelled::new(few.rows.select((0..150).map(|i| i % 12)));
    let wild = wild.with_labels(Labels::single((0..150).map(|i| i % 12 % 2)));
    let task = Similarity::default().rank(3);
    // Where no step is taken, there is nothing to average.
    let quiet = ["curve_every", "patience", "average"];
    let wild = wild.unwrap();
    holds(
        &task,
        SimilarityData::from(&data),
        Some((&wild).into()),
        &quiet,
    );
}

#[test]
fn ranking_keeps_the_laws() {
    let (data, wild) = (rows(24), extreme());
    let task = Ranking::default().rank(2).epochs(60).init(Init::Gaussian);
    let quiet = ["curve_every", "patience"];
    holds(
        &task,
        RankingData::from(&data),
        Some((&wild).into()),
        &quiet,
    );
    // The closed form, with steps after it and with what is chosen: that may be no steps,
    // whose order is nothing then, and they are averaged anyway.
    let steps = Ranking::default().epochs(30);
    holds(
        &steps,
        RankingData::from(&data),
        Some((&wild).into()),
        &quiet,
    );
    let chosen = [&quiet[..], &["order", "average"]].concat();
    holds(
        &Ranking::default(),
        RankingData::from(&data),
        Some((&wild).into()),
        &chosen,
    );
}

/// Three tastes: items of a taste are chosen together.
pub fn choices(users: usize, items: usize) -> Choices {
    let chosen = |u: usize, i: usize| {
        let same = u % 3 == i % 3;
        let draw = normal_at(9, 2, u as u64, i as u64);
        draw > if same { 0.0 } else { 1.2 }
    };
    let pairs = (0..users).flat_map(|u| (0..items).map(move |i| (u, i)));
    let pairs = pairs.filter(|&(u, i)| chosen(u, i));
    Choices::from_entries(pairs.map(|(u, i)| (u, i, 1.0 + ((u + i) % 3) as f64))).unwrap()
}

#[test]
fn recommendations_keep_the_laws() {
    let data = choices(40, 15);
    let wild = [
        ("a", "x", 1e9),
        ("a", "y", 1e-9),
        ("b", "x", 1.0),
        ("b", "z", 1e9),
    ];
    let wild = Choices::from_entries(wild).unwrap();
    for learner in [
        RecommendLearner::Auto,
        RecommendLearner::Items,
        RecommendLearner::Als,
        RecommendLearner::Loreta,
    ] {
        let task = Recommend::new(learner).rank(3);
        let task = match learner {
            RecommendLearner::Items => task.regularization(2.0).own_share(0.2),
            RecommendLearner::Als => task.regularization(0.2),
            RecommendLearner::Loreta => task.regularization(2.0).step_size(0.01).steps(800),
            RecommendLearner::Auto => task,
        };
        let (data, wild) = (RecommendData::from(&data), RecommendData::from(&wild));
        let wild = (learner == RecommendLearner::Items).then_some(wild);
        let task = match wild.is_some() {
            true => task.rank(1),
            false => task,
        };
        // The curve is measured on validation data only, of which there are none.
        holds(&task, data, wild, &["curve_every"]);
    }
}

#[test]
fn pairs_keep_the_laws() {
    let (data, wild) = (rows(12), extreme());
    let pair = |i: u32| ValuedPair {
        left: i % 12,
        right: i * 5 % 12,
        value: f64::from(i * i % 7),
    };
    let pairs: Vec<ValuedPair> = (0..60).map(pair).collect();
    let of = |rows| PairsData {
        data: TrainingData {
            rows,
            objects: None,
        },
        pairs: &pairs,
        valid: None,
    };
    let quiet = ["curve_every", "patience"];
    let online = Pairs::default().rank(2).epochs(40);
    holds(&online, of(&data), Some(of(&wild)), &quiet);
    // A step size in batch is kept for later updates.
    let batch = Pairs::default()
        .rank(2)
        .solver(PairsSolver::Cg)
        .iterations(30);
    holds(&batch, of(&data), Some(of(&wild)), &quiet);
}

#[test]
fn metrics_keep_the_laws() {
    let (data, wild) = (rows(40), extreme());
    let quiet = ["curve_every", "patience", "tolerance"];
    let batch = Metric::default().rank(2).iterations(12);
    holds(
        &batch,
        MetricData::from(&data),
        Some((&wild).into()),
        &quiet,
    );
    let online = Metric::default()
        .rank(2)
        .solver(MetricSolver::Online)
        .steps(1_500);
    holds(&online, MetricData::from(&data), None, &quiet);
    let constraints = [
        (0, 1, Relation::Different),
        (0, 2, Relation::Same),
        (1, 3, Relation::AtMost(0.5)),
    ];
    let constraints = constraints.map(|(left, right, relation)| Constraint {
        left,
        right,
        relation,
    });
    let given = MetricData {
        constraints: Some(&constraints),
        ..(&data).into()
    };
    let broken = check::task(&Metric::default().rank(2).iterations(10), given, None, &[]).unwrap();
    let stops = broken.iter().filter(|law| !law.contains("no effect"));
    assert_eq!(stops.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn kernels_and_maps_keep_the_laws() {
    let data = rows(16);
    let quiet = ["curve_every", "tolerance"];
    let task = Kernel::default().rank(2).constraints(40).iterations(15);
    holds(&task, KernelData::from(&data), None, &quiet);

    let mut items = Ids::new();
    (0..8).for_each(|i| _ = items.intern(&format!("i{i}")));
    let mut known = Vec::new();
    for left in 0..8_u32 {
        for right in 0..left {
            let value = f64::from(left - right) + 0.1 * f64::from(left * right % 3);
            known.push(Dissimilarity { left, right, value });
        }
    }
    let data = MapData {
        items: &items,
        known: &known,
    };
    // The classical start wins on these, whatever the seed of the other.
    holds(&Map::default(), data, None, &["curve_every", "seed"]);
}

pub fn ratings() -> Ratings {
    let rating = |i: u32| {
        let (user, item) = (i % 20, i * 7 % 13);
        (
            format!("u{user}"),
            format!("i{item}"),
            f64::from(1 + (user * item + i) % 5),
        )
    };
    Ratings::from_entries((0..180).map(rating)).unwrap()
}

#[test]
fn completion_keeps_the_laws() {
    let ratings = ratings();
    let wild = (0..30).map(|i| {
        (
            format!("u{}", i % 5),
            format!("i{i}"),
            if i == 3 { 1e9 } else { 1e-9 },
        )
    });
    let wild = Ratings::from_entries(wild).unwrap();
    let quiet = ["curve_every", "tolerance", "init", "iterations"];
    let task = Completion::default().rank(2);
    holds(
        &task,
        RatingData::from(&ratings),
        Some((&wild).into()),
        &quiet,
    );
}

pub fn regressions() -> TaskRows {
    let labelled = rows(60);
    let names: Vec<String> = (0..60).map(|i| format!("t{}", i % 5)).collect();
    let targets: Vec<f64> = (0..60)
        .map(|i| normal_at(9, 2, i, 0) + (i % 5) as f64)
        .collect();
    TaskRows::new(names, labelled.rows, targets).unwrap()
}

#[test]
fn multitask_keeps_the_laws() {
    let tasks = regressions();
    let quiet = ["curve_every", "tolerance", "iterations"];
    holds(
        &Multitask::default().rank(2),
        TaskData::from(&tasks),
        None,
        &quiet,
    );
}

/// Stops a run when it has done so many iterations, and goes on from the checkpoint. The
/// iterations that are counted then, and whether both models have the same bytes.
fn resumed<T: Learn<D>, D: Clone>(task: &T, data: D, stop: u64) -> (Vec<u64>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let bytes = |fit: Fit| {
        let path = folder.path().join("model");
        fit.model.save(&path).unwrap();
        std::fs::read(path).unwrap()
    };
    let whole = bytes(task.learn(data.clone(), Run::default()).unwrap());
    let run = Run::default()
        .observed(|event| !matches!(event, Event::Progress { done, .. } if *done == stop))
        .checkpoint(&path, None);
    task.learn(data.clone(), run).unwrap_err();
    let mut counted = Vec::new();
    let run = Run::default()
        .observed(|event| {
            assert!(!matches!(event, Event::Tried(_)), "nothing is chosen again");
            if let Event::Progress { done, .. } = event {
                counted.push(*done);
            }
            true
        })
        .resume(Checkpoint::load(&path).unwrap());
    let again = bytes(task.learn(data, run).unwrap());
    (counted, again == whole)
}

#[test]
fn a_resumed_fit_does_not_start_again() {
    let ratings = ratings();
    use CompletionLearner::*;
    let (spectral, continuation) = (CompletionInit::Spectral, CompletionInit::Continuation);
    // The stages of a continuation are six sweeps of `als` and four steps in a trust region.
    let cases = [
        Bayes, Als, Polar, Balanced, Embedded, Grassmann, Gradient, Svp, OptSpace,
    ];
    let cases = cases.map(|learner| (learner, spectral, 2));
    let staged = [(Als, continuation, 9), (Grassmann, continuation, 6)];
    for (learner, init, stop) in cases.into_iter().chain(staged) {
        let mut task = Completion::new(learner)
            .rank(2)
            .iterations(9)
            .tolerance(0.0);
        if learner != Bayes {
            task = task.init(init);
        }
        if learner.has_penalty() {
            task = task.regularization(1e-3);
        }
        let (counted, same) = resumed(&task, RatingData::from(&ratings), stop);
        assert!(same, "{learner} {init}");
        assert!(
            counted.iter().all(|done| *done > stop),
            "{learner} {init}: {counted:?}"
        );
    }
    // The rank is not given: folds come before the fit, and factors are dropped in it.
    let task = Completion::new(Bayes).iterations(12).tolerance(0.0);
    let (counted, same) = resumed(&task, RatingData::from(&ratings), 10);
    assert!(same && counted.iter().all(|done| *done > 10), "{counted:?}");
    let tasks = regressions();
    for solver in [MultitaskSolver::TrustRegion, MultitaskSolver::Cg] {
        let task = Multitask::default().rank(2).solver(solver);
        let (counted, same) = resumed(&task, TaskData::from(&tasks), 4);
        assert!(same, "{solver}");
        assert!(
            counted.iter().all(|done| *done > 4),
            "{solver}: {counted:?}"
        );
    }
}

#[test]
fn a_share_that_is_held_out_is_not_learned_from() {
    let ratings = ratings();
    let task = Completion::new(CompletionLearner::Als)
        .rank(2)
        .valid_fraction(0.25);
    let model = task.fit::<f64>(ratings.clone()).unwrap();
    let Knowledge::Completion(known) = &model.knowledge else {
        panic!("a model of ratings");
    };
    let learned: u64 = known.biases.count[0].iter().sum();
    assert_eq!(learned, 3 * ratings.entries.count() as u64 / 4);
    assert!(model.card.history[0].metrics["rmse"].is_finite());

    let tasks = regressions();
    let task = Multitask::default().rank(2).valid_fraction(0.25);
    let fit = task.fit_with((&tasks).into(), Run::default()).unwrap();
    let (space, _) = fit.model.task_parts().unwrap();
    let learned: f64 = space.moments.iter().map(|moments| moments.count).sum();
    assert_eq!(learned, 45.0);
    assert!(fit.report.metrics["nmse"].is_finite());
}

#[test]
fn gossip_keeps_the_laws() {
    let ratings = ratings();
    let task = Gossip::default().agents(3).rank(2).slots(12);
    let quiet = ["curve_every"];
    holds(&task, GossipData::from(&ratings), None, &quiet);
    let tasks = regressions();
    let task = task.task(GossipTask::Multitask);
    holds(&task, TaskData::from(&tasks).into(), None, &quiet);
    let task = Gossip::default().agents(3).rank(2).slots(12).step_a(0.01);
    let task = task.geometry(GossipGeometry::Euclidean);
    holds(&task, GossipData::from(&ratings), None, &quiet);
}

options! {
    /// A task with faults, to see whether they are found.
    pub struct Faulty: "faulty" {
        /// An option that nothing reads.
        idle: f64 = 1.0;
        /// Whether the model depends on how often it was learned.
        moody: bool = false;
        shared seed;
        shared threads;
    }
}

static LEARNED: AtomicU64 = AtomicU64::new(0);

impl Learn<()> for Faulty {
    fn learn(&self, (): (), mut run: Run<'_>) -> Result<Fit> {
        let threads: f64 = self.get("threads").map_or(0.0, |t| t.parse().unwrap());
        let moody = self.get("moody").as_deref() == Some("true");
        let times = LEARNED.fetch_add(1, Ordering::SeqCst) as f64;
        let seed: f64 = self.get("seed").unwrap().parse().unwrap();
        let value = 1.0 + threads + seed + if moody { times } else { 0.0 };
        (1..=5).for_each(|done| _ = run.tell(&Event::Progress { done, total: 5 }));
        let tall = |_| Tall::<f64>::from_fn(2, 1, |_, _| value);
        let form = Form::Factored(Factored::new(tall(0)?, tall(1)?));
        let model = Model::new("faulty", form, rankfold::data::Features::Numbered);
        Ok(Fit::new(
            model,
            Report::new(Stop::Steps, Default::default()),
        ))
    }
}

#[test]
fn faults_of_tasks_are_found() {
    let broken = check::task(&Faulty::default(), (), None, &["moody"]).unwrap();
    let all = broken.join("\n");
    assert!(all.contains("1 threads give other bytes"), "{all}");
    assert!(all.contains("`idle` is taken and has no effect"), "{all}");
    assert!(!all.contains("`seed`"), "{all}");
    let broken = check::task(&Faulty::default().moody(true), (), None, &["idle"]).unwrap();
    assert!(broken.contains(&"the same options give other bytes".to_owned()));
}
