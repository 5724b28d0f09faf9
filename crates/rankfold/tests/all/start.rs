//! Runs that start from a model: they keep its fit, match names, and keep the laws of tasks.

use crate::tasks::{choices, holds, ratings, regressions, rows};
use rankfold::data::{Dissimilarity, Features, Labelled, Labels, Ratings, ValuedPair};
use rankfold::form::FormRef;
use rankfold::model::{Knowledge, Precise};
use rankfold::online::Rule;
use rankfold::task::{
    CompletionInit, CompletionLearner, CompletionSolver, Event, Fit, Init, KernelData, KernelInit,
    Learn, Map, MapData, MetricData, MetricInit, MetricLearner, MetricSolver, PairsData,
    PairsSolver, RankingData, RatingData, RecommendData, RecommendLearner, Run, SimilarityData,
    Start, StartInit, TaskData, Teacher, TrainingData,
};
use rankfold::{
    Completion, Error, Ids, Kernel, Metric, Model, Multitask, Pairs, Ranking, Real, Recommend,
    Result, Rows, Similarity, SparseVec,
};

/// Data, and the model that runs on them start from where `init` is `model`.
#[derive(Clone)]
struct From<D>(D, Model);

macro_rules! learns_from_models {
    ($($task:ty, $data:ty;)*) => {$(
        impl<'a> Learn<From<$data>> for $task {
            fn learn(&self, From(data, model): From<$data>, run: Run<'_>) -> Result<Fit> {
                use rankfold::options::Options;
                let run = match self.get("init").as_deref() == Some("model") {
                    true => run.start(model),
                    false => run,
                };
                Learn::<$data>::learn(self, data, run)
            }
        }
    )*};
}

learns_from_models! {
    Similarity, SimilarityData<'a, f64>;
    Ranking, RankingData<'a, f64>;
    Pairs, PairsData<'a, f64>;
    Metric, MetricData<'a, f64>;
    Completion, RatingData<'a>;
    Recommend, RecommendData<'a>;
    Multitask, TaskData<'a>;
    Kernel, KernelData<'a, f64>;
    Map, MapData<'a>;
}

fn entry<R: Real>(form: FormRef<'_, R>, i: usize, j: usize) -> f64 {
    let unit = |i: usize| SparseVec::from_entries(vec![(i as u32, R::from_f64(1.0))]);
    form.score(unit(i).as_row(), unit(j).as_row())
}

/// W, entry by entry.
fn dense(model: &Model) -> Vec<Vec<f64>> {
    let (rows, columns) = model.storage().shape;
    let entry = |i: usize, j: usize| match &model.form {
        Precise::F32(form) => entry(form.view(), i, j),
        Precise::F64(form) => entry(form.view(), i, j),
    };
    (0..rows)
        .map(|i| (0..columns).map(|j| entry(i, j)).collect())
        .collect()
}

#[track_caller]
fn near(a: &[Vec<f64>], b: &[Vec<f64>], share: f64) {
    let norm = |m: &[Vec<f64>]| m.iter().flatten().map(|v| v * v).sum::<f64>().sqrt();
    let both = a.iter().flatten().zip(b.iter().flatten());
    let far = both.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    assert!(far <= share * norm(a), "{far} of {}", norm(a));
}

fn from(model: &Model) -> Run<'static> {
    Run::default().start(model.clone())
}

fn notes<T: Learn<D>, D>(task: &T, data: D, model: &Model) -> (Fit, Vec<String>) {
    let mut told = Vec::new();
    let run = from(model).observed(|event| {
        if let Event::Note(note) = event {
            told.push(note.clone());
        }
        true
    });
    let fit = task.learn(data, run).unwrap();
    (fit, told)
}

fn error<T: Learn<D>, D>(task: &T, data: D, run: Run<'_>) -> Error {
    task.learn(data, run).unwrap_err()
}

#[test]
fn without_steps_a_similarity_is_that_of_the_model() {
    let data = rows(30);
    for learner in [
        Rule::LoretaPsd,
        Rule::Loreta,
        Rule::Polar,
        Rule::PolarPsd,
        Rule::Balanced,
        Rule::PassiveAggressive,
        Rule::Oasis,
        Rule::Lego,
        Rule::ConeAffine,
    ] {
        let mut task = Similarity::new(learner).steps(60);
        if learner.is_low_rank() {
            task = task.rank(3);
        }
        let model = task.fit(&data).unwrap();
        let task = task.init(Init::Model).steps(0);
        let fit = task.fit_with((&data).into(), from(&model)).unwrap();
        near(&dense(&model), &dense(&fit.model), 1e-9);
        assert_eq!(fit.model.card.init, "model", "{learner}");
        assert_eq!(fit.model.rank(), model.rank());
    }
}

/// The same rows with names for their columns, the columns in this order.
fn named(n: usize, order: &[usize]) -> Labelled<f64> {
    let plain = rows(n);
    let cells = (0..n).map(|i| {
        let row = plain.rows.row(i);
        let cell = |j: usize| row.iter().find(|e| e.0 as usize == j).map_or(0.0, |e| e.1);
        order.iter().map(|&j| cell(j)).collect::<Vec<f64>>()
    });
    let names = order.iter().map(|j| format!("f{j}"));
    let out = Labelled::new(Rows::from_dense(cells).unwrap());
    let out = out.with_features(Features::columns(names).unwrap());
    let labels = Labels::single((0..n).map(|i| i % 2));
    out.unwrap().with_labels(labels).unwrap()
}

#[test]
fn features_are_found_by_name_and_scaled_alike() {
    let order = [4, 0, 5, 2, 1, 3];
    let (plain, other) = (named(30, &[0, 1, 2, 3, 4, 5]), named(30, &order));
    let task = Similarity::default().rank(2).steps(40);
    for standardize in [
        rankfold::model::Scaling::None,
        rankfold::model::Scaling::Global,
    ] {
        let task = task.clone().standardize(standardize);
        let model = task.fit(&plain).unwrap();
        // How columns are scaled follows the model where it is not given.
        let task = Similarity::default().steps(0).init(Init::Model);
        let fit = task.fit_with((&other).into(), from(&model)).unwrap();
        assert_eq!(fit.model.preprocess.steps, model.preprocess.steps);
        assert_eq!(fit.model.rank(), 2);
        let (w, found) = (dense(&model), dense(&fit.model));
        let there = |i: usize, j: usize| w[order[i]][order[j]];
        let want: Vec<Vec<f64>> = (0..6)
            .map(|i| (0..6).map(|j| there(i, j)).collect())
            .collect();
        near(&want, &found, 1e-9);
    }
    // Another scaling than that of the model is refused.
    let model = task.fit(&plain).unwrap();
    let task = Similarity::default()
        .init(Init::Model)
        .standardize(rankfold::model::Scaling::Global);
    assert_eq!(
        error(&task, SimilarityData::from(&plain), from(&model)).to_string(),
        "the model prepares rows by `--weight none --normalize none --standardize none`, this run \
         by `--weight none --normalize none --standardize global`: expected the same"
    );
}

#[test]
fn features_that_the_model_does_not_know_are_counted_and_start_small() {
    let (few, all) = (named(30, &[0, 1, 2, 3]), named(30, &[5, 3, 2, 1, 0, 4]));
    for learner in [Rule::LoretaPsd, Rule::Loreta, Rule::Oasis] {
        let mut task = Similarity::new(learner).steps(40);
        if learner.is_low_rank() {
            task = task.rank(2);
        }
        let model = task.fit(&few).unwrap();
        let task = Similarity::new(learner).steps(0).init(Init::Model);
        let (fit, told) = notes(&task, SimilarityData::from(&all), &model);
        let note = "the model does not know 2 of 6 features: they start from small random numbers";
        assert_eq!(told, [note], "{learner}");
        let (w, found) = (dense(&model), dense(&fit.model));
        let known: Vec<Vec<f64>> = (1..5)
            .map(|i| (1..5).map(|j| found[i][j]).collect())
            .collect();
        let want: Vec<Vec<f64>> = (0..4)
            .map(|i| (0..4).map(|j| w[3 - i][3 - j]).collect())
            .collect();
        near(&want, &known, 1e-9);
        let size = want.iter().flatten().fold(0.0, |a: f64, b| a.max(b.abs()));
        assert!(
            found[0][1..5].iter().all(|v| v.abs() <= 0.1 * size),
            "{found:?}"
        );
    }
    let model = Similarity::default().rank(2).steps(9).fit(&few).unwrap();
    let other = named(30, &[4, 5]);
    let task = Similarity::default().init(Init::Model).steps(0);
    assert_eq!(
        error(&task, SimilarityData::from(&other), from(&model)).to_string(),
        "the model knows none of the 2 features of this run: expected some in common"
    );
}

#[test]
fn the_rank_is_that_of_the_model_unless_it_is_given() {
    let data = rows(30);
    let model = Similarity::default().rank(3).steps(60).fit(&data).unwrap();
    let task = Similarity::default().steps(0).init(Init::Model);
    let learn = |task: &Similarity, start: Start| {
        let run = Run::default().start(start);
        task.fit_with((&data).into(), run).map(|fit| fit.model)
    };
    assert_eq!(learn(&task, model.clone().into()).unwrap().rank(), 3);
    let higher = learn(&task.clone().rank(5), model.clone().into()).unwrap();
    assert_eq!(higher.rank(), 5);
    near(&dense(&model), &dense(&higher), 1e-5);
    let lower = learn(&task.clone().rank(1), model.clone().into()).unwrap();
    near(
        &dense(&model.with_rank(1, 0).unwrap().model),
        &dense(&lower),
        1e-9,
    );
    // The default, where it is asked for: 30 is more than there are features.
    let start = Start::from(model.clone()).rank(Some(30));
    assert_eq!(
        learn(&task, start).unwrap_err().to_string(),
        "option `rank` is 30: expected 1 to 6, the smaller side of W"
    );
}

#[test]
fn starts_that_do_not_fit_are_refused() {
    let data = rows(30);
    let metric = Metric::default().rank(2).iterations(5).fit(&data).unwrap();
    let loreta = Similarity::new(Rule::Loreta).rank(2).steps(20);
    let loreta = loreta.fit(&data).unwrap();
    let task = Similarity::default().steps(0).init(Init::Model);
    let refused =
        |task: &Similarity, run: Run<'_>| error(task, SimilarityData::from(&data), run).to_string();
    assert_eq!(
        refused(&task, from(&metric)),
        "expected a model of `train similarity`, found one of `train metric`"
    );
    assert_eq!(
        refused(&task, Run::default()),
        "option `init` is `model`, but no model was given to start from: give its file, such as \
         `model.safetensors`"
    );
    assert_eq!(
        refused(&Similarity::default().steps(0), from(&loreta)),
        "option `init` must be `model` for a run that starts from a model"
    );
    assert_eq!(
        refused(&task, from(&loreta)),
        "`loreta` learned a matrix that need not be positive semi-definite: expected a model of \
         `loreta-psd`, `flat` or another such learner"
    );
    let aroma = Similarity::new(Rule::AromaFactored).init(Init::Model);
    assert_eq!(
        refused(&aroma, from(&loreta)),
        "option `init` cannot be a model for AROMA, whose start also says how sure it is: go on \
         with `rankfold update`"
    );
    let bayes = Completion::default().init(CompletionInit::Model);
    let ratings = ratings();
    assert_eq!(
        error(&bayes, RatingData::from(&ratings), Run::default()).to_string(),
        "option `init` cannot be a model for `auto`, which has no start: choose another learner, \
         such as `als`"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.safetensors");
    std::fs::write(&path, "no model").unwrap();
    let told = Start::load(&path).unwrap_err();
    assert_eq!(told.file.as_deref(), Some(path.as_path()));
}

#[test]
fn rankings_start_with_the_biases_of_the_model() {
    let data = rows(24);
    let task = Ranking::default().rank(2).steps(50);
    let model = task.fit(&data).unwrap();
    let task = Ranking::default().steps(0).init(Init::Model);
    let fit = task.fit_with((&data).into(), from(&model)).unwrap();
    near(&dense(&model), &dense(&fit.model), 1e-9);
    let (Knowledge::Ranking(one), Knowledge::Ranking(two)) =
        (&model.knowledge, &fit.model.knowledge)
    else {
        panic!("models of rankings");
    };
    assert_eq!(one.prior.bias, two.prior.bias);
    assert_eq!(model.preprocess.steps, fit.model.preprocess.steps);
}

fn pairs() -> Vec<ValuedPair> {
    let pair = |i: u32| ValuedPair {
        left: i % 12,
        right: i * 5 % 12,
        value: f64::from(i * i % 7),
    };
    (0..60).map(pair).collect()
}

fn of_pairs<'a>(rows: &'a Labelled<f64>, pairs: &'a [ValuedPair]) -> PairsData<'a, f64> {
    PairsData {
        data: TrainingData {
            rows,
            objects: None,
        },
        pairs,
        valid: None,
    }
}

#[test]
fn pairs_go_on_from_their_own_solution() {
    let (data, pairs) = (rows(12), pairs());
    let task = Pairs::default().rank(2).epochs(20).step_size(1e-3);
    let model = task.fit(&data, &pairs).unwrap();
    let task = Pairs::default().step_size(1e-3).init(StartInit::Model);
    let learn = |task: &Pairs| {
        task.fit_with(of_pairs(&data, &pairs), from(&model))
            .unwrap()
    };
    near(
        &dense(&model),
        &dense(&learn(&task.clone().steps(0)).model),
        1e-9,
    );
    // In batch the cost falls from where the model has it.
    let batch = task.solver(PairsSolver::Cg).iterations(0);
    near(&dense(&model), &dense(&learn(&batch).model), 1e-9);
}

#[test]
fn metrics_start_from_the_distances_of_the_model() {
    let data = rows(40);
    for learner in [
        MetricLearner::Flat,
        MetricLearner::Polar,
        MetricLearner::ConeAffine,
    ] {
        let mut task = Metric::new(learner).iterations(8);
        if learner != MetricLearner::ConeAffine {
            task = task.rank(2);
        }
        let model = task.fit(&data).unwrap();
        let task = Metric::new(learner).iterations(0).init(MetricInit::Model);
        let fit = task.fit_with((&data).into(), from(&model)).unwrap();
        near(&dense(&model), &dense(&fit.model), 1e-9);
        assert_eq!(model.card.distances, fit.model.card.distances);
        assert_eq!(fit.model.card.init, "model");
    }
    let online = Metric::default().rank(2).solver(MetricSolver::Online);
    let model = online.clone().steps(200).fit(&data).unwrap();
    let task = online.steps(0).init(MetricInit::Model);
    let fit = task.fit_with((&data).into(), from(&model)).unwrap();
    near(&dense(&model), &dense(&fit.model), 1e-9);
}

fn predictions(model: &Model, ratings: &Ratings) -> Vec<Vec<f64>> {
    let predictor = model.rating_predictor().unwrap();
    let (users, items) = model.rating_ids().unwrap();
    let rating = |user: &str, item: &str| predictor.raw(users.find(user), items.find(item));
    let row = |user: &str| {
        ratings
            .items
            .iter()
            .map(|item| rating(user, item))
            .collect()
    };
    ratings.users.iter().map(row).collect()
}

/// The same ratings, the last first: users and items come in another order.
fn turned() -> Ratings {
    let rating = |i: u32| {
        let (user, item) = (i % 20, i * 7 % 13);
        (
            format!("u{user}"),
            format!("i{item}"),
            f64::from(1 + (user * item + i) % 5),
        )
    };
    Ratings::from_entries((0..180).rev().map(rating)).unwrap()
}

#[test]
fn completion_goes_on_from_its_own_solution() {
    let ratings = ratings();
    use CompletionLearner::{Als, Balanced, Embedded, Gradient, Grassmann, OptSpace, Polar, Svp};
    for learner in [
        Als, Polar, Balanced, Embedded, Gradient, Grassmann, Svp, OptSpace,
    ] {
        let mut task = Completion::new(learner)
            .rank(2)
            .iterations(2_000)
            .tolerance(1e-12);
        if learner.has_penalty() {
            task = task.regularization(if learner == Als { 0.5 } else { 1e-3 });
        }
        let model = task.fit::<f64>(ratings.clone()).unwrap();
        let before = predictions(&model, &ratings);
        let task = task.iterations(1).init(CompletionInit::Model);
        let fit = task
            .fit_with::<f64>((&ratings).into(), from(&model))
            .unwrap();
        assert_eq!((fit.model.rank(), &fit.model.card.init[..]), (2, "model"));
        // The fit before ended where an iteration lowers the cost by 1e-12 of it.
        let most = 1e-6;
        near(&before, &predictions(&fit.model, &ratings), most);
        // Ids in another order are the same start.
        let other = turned();
        let again = task.fit_with::<f64>((&other).into(), from(&model)).unwrap();
        near(&before, &predictions(&again.model, &ratings), most);
    }
    let online = Completion::new(Balanced)
        .solver(CompletionSolver::Online)
        .rank(2)
        .regularization(0.0)
        .step_size(0.02);
    let model = online
        .clone()
        .iterations(30)
        .fit::<f64>(ratings.clone())
        .unwrap();
    let task = online.iterations(1).init(CompletionInit::Model);
    let fit = task
        .fit_with::<f64>((&ratings).into(), from(&model))
        .unwrap();
    near(
        &predictions(&model, &ratings),
        &predictions(&fit.model, &ratings),
        0.02,
    );
}

#[test]
fn a_start_of_completion_may_have_other_users_and_another_rank() {
    let some = Ratings::from_entries((0..180).filter(|i| i % 20 < 15).map(|i: u32| {
        let (user, item) = (i % 20, i * 7 % 13);
        let value = f64::from(1 + (user * item + i) % 5);
        (format!("u{user}"), format!("i{item}"), value)
    }));
    let ratings = ratings();
    let task = Completion::new(CompletionLearner::Als).regularization(0.5);
    let model = task.clone().rank(2).fit::<f64>(some.unwrap()).unwrap();
    let task = task.init(CompletionInit::Model);
    let (fit, told) = notes(&task, RatingData::from(&ratings), &model);
    let note = "the model does not know 5 of 20 users: they start from small random numbers";
    assert!(told.iter().any(|told| told == note), "{told:?}");
    assert_eq!((fit.model.rank(), fit.model.storage().shape.0), (2, 20));
    for rank in [1, 4] {
        let fit = task
            .clone()
            .rank(rank)
            .fit_with::<f64>((&ratings).into(), from(&model));
        assert_eq!(fit.unwrap().model.rank(), rank);
    }
    assert_eq!(
        error(
            &task.clone().no_bias(true),
            RatingData::from(&ratings),
            from(&model)
        )
        .to_string(),
        "the model has biases, this run has no biases: expected the same, see --no-bias"
    );
    assert_eq!(
        error(&task.ranks(1, 3), RatingData::from(&ratings), from(&model)).to_string(),
        "option `rank` must be one rank with a start from a model, found 1..3"
    );
}

#[test]
fn kernels_and_maps_start_where_the_model_is() {
    let data = rows(16);
    let task = Kernel::default().rank(2).constraints(40).iterations(40);
    let model = task.fit(&data).unwrap();
    let cost = |fit: &Fit| fit.report.more["cost"].as_f64().unwrap();
    let whole = task.fit_with((&data).into(), Run::default()).unwrap();
    let task = Kernel::default().constraints(40).init(KernelInit::Model);
    let fit = task
        .iterations(1)
        .fit_with((&data).into(), from(&model))
        .unwrap();
    assert!(
        cost(&fit) <= cost(&whole) * (1.0 + 1e-6),
        "{} {}",
        cost(&fit),
        cost(&whole)
    );
    assert_eq!((fit.model.rank(), &fit.model.card.init[..]), (2, "model"));

    let (items, known) = line(8);
    let data = MapData {
        items: &items,
        known: &known,
    };
    let map = Map::default();
    let model = map.fit_with(data, Run::default()).unwrap().model;
    let fit = map
        .init(StartInit::Model)
        .fit_with(data, from(&model))
        .unwrap();
    let points = |model: &Model| model.item_coordinates::<f64>().unwrap().values;
    let far = |a: Vec<f64>, b: Vec<f64>| {
        let squares = a.iter().zip(&b).map(|(a, b)| (a - b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    // The picture stays as it lies.
    assert!(far(points(&model), points(&fit.model)) < 1e-3);
}

/// Items on a line, nearly.
fn line(n: u32) -> (Ids, Vec<Dissimilarity>) {
    let mut items = Ids::new();
    (0..n).for_each(|i| _ = items.intern(&format!("i{i}")));
    let mut known = Vec::new();
    for left in 0..n {
        for right in 0..left {
            let value = f64::from(left - right) + 0.1 * f64::from(left * right % 3);
            known.push(Dissimilarity { left, right, value });
        }
    }
    (items, known)
}

#[test]
fn subspaces_and_encoders_of_models_are_starts() {
    let tasks = regressions();
    let task = Multitask::default().rank(2).regularization(3.0);
    let whole = task.fit_with((&tasks).into(), Run::default()).unwrap();
    let cost = |fit: &Fit| fit.report.more["cost"].as_f64().unwrap();
    let task = Multitask::default()
        .regularization(3.0)
        .init(StartInit::Model);
    let task = task.iterations(1);
    let fit = task.fit_with((&tasks).into(), from(&whole.model)).unwrap();
    assert!(
        cost(&fit) <= cost(&whole) * (1.0 + 1e-6),
        "{} {}",
        cost(&fit),
        cost(&whole)
    );
    assert_eq!((fit.model.rank(), &fit.model.card.init[..]), (2, "model"));

    let data = choices(40, 15);
    for learner in [RecommendLearner::Items, RecommendLearner::Als] {
        let task = Recommend::new(learner);
        let task = match learner {
            RecommendLearner::Items => task
                .regularization(0.2)
                .own_share(0.0)
                .teacher(Teacher::None),
            _ => task.regularization(0.02),
        };
        let long = task.clone().rank(3).iterations(200);
        let model = long.fit(&data).unwrap();
        let task = task.iterations(1).init(StartInit::Model);
        let fit = task.fit_with((&data).into(), from(&model)).unwrap();
        assert_eq!((fit.model.rank(), &fit.model.card.init[..]), (3, "model"));
        near(&dense(&model), &dense(&fit.model), 0.02);
    }
}

#[test]
fn runs_from_models_keep_the_laws() {
    let quiet = ["curve_every", "patience", "tolerance", "iterations", "seed"];
    let data = rows(30);
    let model = Similarity::default().rank(2).steps(200).fit(&data).unwrap();
    let task = Similarity::default().steps(1_500).init(Init::Model);
    holds(
        &task,
        From(SimilarityData::from(&data), model),
        None,
        &quiet,
    );

    let model = Ranking::default().rank(2).steps(50).fit(&data).unwrap();
    let task = Ranking::default().epochs(40).init(Init::Model);
    holds(&task, From(RankingData::from(&data), model), None, &quiet);

    let (few, pairs) = (rows(12), pairs());
    let model = Pairs::default()
        .rank(2)
        .epochs(3)
        .fit(&few, &pairs)
        .unwrap();
    let online = Pairs::default().epochs(30).init(StartInit::Model);
    let of = || From(of_pairs(&few, &pairs), model.clone());
    holds(&online, of(), None, &quiet);
    let batch = Pairs::default().solver(PairsSolver::Cg).iterations(20);
    holds(&batch.init(StartInit::Model), of(), None, &quiet);

    let model = Metric::default().rank(2).iterations(3).fit(&data).unwrap();
    let task = Metric::default().iterations(9).init(MetricInit::Model);
    let of = || From(MetricData::from(&data), model.clone());
    holds(&task, of(), None, &quiet);
    let task = Metric::default().solver(MetricSolver::Online).steps(900);
    holds(&task.init(MetricInit::Model), of(), None, &quiet);
}

#[test]
fn batch_runs_from_models_keep_the_laws() {
    let quiet = [
        "curve_every",
        "tolerance",
        "iterations",
        "seed",
        "subspace_weight",
        "kernel",
    ];
    let ratings = ratings();
    let als = Completion::new(CompletionLearner::Als);
    let model = als.rank(2).iterations(2).regularization(2.0);
    let model = model.fit::<f32>(ratings.clone()).unwrap();
    for learner in [CompletionLearner::Als, CompletionLearner::Grassmann] {
        let task = Completion::new(learner).init(CompletionInit::Model);
        holds(
            &task,
            From(RatingData::from(&ratings), model.clone()),
            None,
            &quiet,
        );
    }
    let tasks = regressions();
    let model = Multitask::default()
        .rank(2)
        .iterations(3)
        .regularization(30.0);
    let model = model.fit(&tasks).unwrap();
    let task = Multitask::default().init(StartInit::Model);
    holds(&task, From(TaskData::from(&tasks), model), None, &quiet);

    let data = choices(40, 15);
    let model = Recommend::default()
        .rank(3)
        .iterations(1)
        .fit(&data)
        .unwrap();
    let task = Recommend::new(RecommendLearner::Items).init(StartInit::Model);
    holds(&task, From(RecommendData::from(&data), model), None, &quiet);

    let rows = rows(16);
    let model = Kernel::default().rank(2).constraints(20).iterations(3);
    let model = model.fit(&rows).unwrap();
    let task = Kernel::default().constraints(40).iterations(15);
    let task = task.init(KernelInit::Model);
    holds(&task, From(KernelData::from(&rows), model), None, &quiet);

    let (items, known) = line(8);
    let data = MapData {
        items: &items,
        known: &known,
    };
    let model = Map::default().fit(&items, &known[..20]).unwrap();
    let task = Map::default().init(StartInit::Model);
    holds(&task, From(data, model), None, &quiet);
}
