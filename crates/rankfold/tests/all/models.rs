//! Model files: what is saved comes back exactly, and files written once load
//! forever.

use crate::common::{rules, similarity};
use rankfold::data::{
    Features, RatingColumns, Ratings, TaskColumns, TaskRows, read_labelled, read_values,
};
use rankfold::model::Precise;
use rankfold::model::{CompletionCard, Knowledge, RatingBiases};
use rankfold::online::Rule;
use rankfold::sample::Triplet;
use rankfold::task::{Checkpoint, Evaluate, Event, Init, Negatives};
use rankfold::{Model, Real, Similarity, SparseVec};
use std::path::{Path, PathBuf};

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/models")
        .join(name)
}

fn map_of(model: &Model, data: &str) -> f64 {
    let evaluate = Evaluate {
        precision_at: &[],
        score: None,
        threads: 1,
        progress: &|_| true,
    };
    evaluate.file(model, kept(data)).unwrap().metrics["map"]
}

fn form_of(model: &Model) -> &'static str {
    match &model.form {
        Precise::F32(form) => form.view().name(),
        Precise::F64(form) => form.view().name(),
    }
}

#[test]
fn models_of_format_1_load() {
    let model = Model::load(kept("psd-f32.safetensors")).unwrap();
    assert_eq!(
        (model.rank(), model.columns(), model.precision()),
        (3, 20, "f32")
    );
    assert_eq!(
        (model.card.learner.as_str(), model.card.counters.updates),
        ("loreta-psd", 69)
    );
    assert!(model.preprocess.steps.tfidf && model.preprocess.steps.normalize);
    assert_eq!(model.card.history.len(), 20);
    assert!((map_of(&model, "kept.svm") - 0.9995).abs() < 1e-4);

    let model = Model::load(kept("factored-f64.safetensors")).unwrap();
    assert_eq!((model.rank(), model.precision()), (2, "f64"));
    let Features::Columns(names) = &model.features else {
        panic!("columns of a table");
    };
    assert_eq!(
        names.iter().collect::<Vec<_>>(),
        ["width", "height", "weight"]
    );
    assert!(map_of(&model, "kept.csv") > 0.99);
}

#[test]
fn distributions_of_format_1_load() {
    let model = Model::load(kept("aroma-factored-f32.safetensors")).unwrap();
    assert!(model.has_confidence() && model.card.variance_scale.is_some());
    assert_eq!(model.card.step_size, 1.0);
    assert!(map_of(&model, "kept.svm") > 0.9);
    let mut learner = model.into_learner::<f32>().unwrap();
    let row = SparseVec::from_entries(vec![(0, 1.0), (30, 1.0)]);
    let triplet = Triplet {
        query: row.as_row(),
        positive: row.as_row(),
        negative: row.as_row(),
    };
    learner.learn(&triplet).unwrap();
    assert_eq!(learner.columns(), 31);

    let model = Model::load(kept("aroma-diagonal-f64.safetensors")).unwrap();
    assert!(model.has_confidence() && model.card.variance_scale.is_none());
    assert!(map_of(&model, "kept.csv") > 0.9);
}

fn rated(model: &Model) -> (&RatingBiases, &CompletionCard) {
    match &model.knowledge {
        Knowledge::Completion(known) => (&known.biases, &known.card),
        other => panic!("a model for {}", other.task()),
    }
}

#[test]
fn models_of_ratings_of_format_1_load() {
    let ratings = Ratings::read(kept("kept-ratings.csv"), &RatingColumns::default()).unwrap();
    let model = Model::load(kept("completion-als-f32.safetensors")).unwrap();
    let (biases, card) = rated(&model);
    assert!(biases.bias.is_some() && card.regularization == Some(0.3));
    assert_eq!((model.rank(), card.scale), (2, Some((1.5, 5.0))));
    let found = model.evaluate_ratings(&ratings).unwrap();
    assert!((found.metrics["rmse"] - 0.16484).abs() < 1e-5);
    assert!((found.baselines[0].metrics["rmse"] - 0.58102).abs() < 1e-5);
    let mut learner = model.into_rating_learner::<f32>().unwrap();
    assert_eq!(learner.rule(), "fold-in");
    learner.learn("new", "i3", 4.0).unwrap();
    assert_eq!(learner.shape(), (13, 9));

    let model = Model::load(kept("completion-polar-f64.safetensors")).unwrap();
    assert_eq!((model.precision(), form_of(&model)), ("f64", "polar"));
    assert!(rated(&model).0.bias.is_none());
    let found = model.evaluate_ratings(&ratings).unwrap();
    assert!((found.metrics["rmse"] - 0.40366).abs() < 1e-5);
    let mut learner = model.into_rating_learner::<f64>().unwrap();
    assert_eq!(learner.rule(), "polar");
    learner.learn("u1", "new", 4.0).unwrap();
    assert_eq!(learner.shape(), (12, 10));
}

#[test]
fn models_of_pairs_of_format_1_load() {
    let model = Model::load(kept("pairs-polar-f32.safetensors")).unwrap();
    assert_eq!((model.rank(), form_of(&model)), (2, "polar"));
    let data = read_labelled::<f32>(kept("kept.csv")).unwrap();
    let pairs = read_values(kept("kept-pairs.tsv"), &data.lookup(), &data.lookup()).unwrap();
    let found = model.evaluate_pairs(&data, None, &pairs, None).unwrap();
    assert!((found.metrics["rmse"] - 0.38238).abs() < 1e-5);
}

#[test]
fn symmetric_polar_models_of_format_1_load() {
    let model = Model::load(kept("similarity-polar-psd-f64.safetensors")).unwrap();
    assert_eq!((model.rank(), form_of(&model)), (3, "polar-psd"));
    assert!(map_of(&model, "kept.svm") > 0.9);
    let mut learner = model.into_learner::<f64>().unwrap();
    let row = SparseVec::from_entries(vec![(0, 1.0), (30, 1.0)]);
    let other = SparseVec::from_entries(vec![(1, 1.0)]);
    let triplet = Triplet {
        query: row.as_row(),
        positive: row.as_row(),
        negative: other.as_row(),
    };
    learner.learn(&triplet).unwrap();
    assert_eq!(learner.columns(), 31);
}

#[test]
fn a_checkpoint_of_format_1_resumes() {
    let checkpoint = Checkpoint::load(kept("checkpoint-f32.safetensors")).unwrap();
    let options: Similarity = checkpoint.options().unwrap();
    let options = options.steps(2_000);
    assert_eq!(checkpoint.model().unwrap().card.counters.steps, 1_800);
    let data = read_labelled::<f32>(kept("kept.svm")).unwrap();
    let mut session = options.resume(&data, &checkpoint).unwrap();
    while !matches!(session.advance(7).unwrap(), Event::Finished(_)) {}
    assert_eq!(session.counters().steps, 2_000);
    let (resumed, whole) = (session.into_model().unwrap(), options.fit(&data).unwrap());
    assert_eq!(resumed.card.counters, whole.card.counters);
}

fn saves_and_comes_back<R: Real>(options: &Similarity, data: &str) {
    let data = read_labelled::<R>(kept(data)).unwrap();
    let model = options.fit(&data).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a"), folder.path().join("b"));
    model.save(&first).unwrap();
    let loaded = Model::load(&first).unwrap();
    assert_eq!(loaded, model);
    loaded.save(&second).unwrap();
    assert_eq!(
        std::fs::read(&first).unwrap(),
        std::fs::read(&second).unwrap()
    );
    assert!(matches!(loaded.form, Precise::F32(_)) == (R::NAME == "f32"));
}

#[test]
fn what_is_saved_comes_back_exactly() {
    for data in ["kept.svm", "kept.csv"] {
        for rule in rules::<Similarity>() {
            let options = similarity(rule, 2).steps(300);
            saves_and_comes_back::<f32>(&options, data);
            saves_and_comes_back::<f64>(&options, data);
        }
    }
}

/// A run that is saved and resumed at odd places gives the bytes of one that is
/// not, with every learner and option.
#[test]
fn resumed_runs_give_the_same_bytes() {
    let data = read_labelled::<f32>(kept("kept.svm")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, path) = (folder.path().join("c"), folder.path().join("m"));
    let every = rules::<Similarity>().into_iter();
    let mut all: Vec<Similarity> = every.map(|rule| similarity(rule, 2)).collect();
    for psd in [Rule::LoretaPsd, Rule::Loreta].map(|rule| similarity(rule, 2)) {
        all.push(psd.clone().batch(7));
        all.push(psd.clone().negatives(Negatives::Hard).candidates(5));
        all.push(psd.clone().average(true).batch(3));
        all.push(psd.clone().decay(500.0).init(Init::Zero));
        all.push(psd.average(true).valid_fraction(0.3).curve_every(400));
    }
    for options in all {
        let options = options.steps(2_500).seed(4);
        let bytes = |stops: &[u64]| {
            let mut session = options.session(&data).unwrap();
            for &stop in stops {
                while session.counters().steps < stop {
                    session.advance(stop - session.counters().steps).unwrap();
                }
                session.save_checkpoint(&checkpoint, 0.0).unwrap();
                let back = Checkpoint::load(&checkpoint).unwrap();
                session = options.resume(&data, &back).unwrap();
            }
            while !matches!(session.advance(u64::MAX).unwrap(), Event::Finished(_)) {}
            session.into_model().unwrap().save(&path).unwrap();
            std::fs::read(&path).unwrap()
        };
        assert!(bytes(&[]) == bytes(&[1, 333, 1_999]), "{options:?}");
    }
}

#[test]
fn models_of_all_other_kinds_of_format_1_load() {
    let load = |name: &str| Model::load(kept(&format!("{name}.safetensors"))).unwrap();
    let labels = load("ranking-f32");
    assert_eq!((labels.task(), labels.rank()), ("ranking", 2));
    let rows = read_labelled::<f32>(kept("kept-labels.svm")).unwrap();
    let found = labels.evaluate_labels(rows, None, 1, &|_| true).unwrap();
    assert_eq!(found.metrics["map"], 1.0);

    let metric = load("metric-flat-f64");
    let rows = read_labelled::<f64>(kept("kept.csv")).unwrap();
    let found = metric.evaluate_metric(rows, None, 5, 1).unwrap();
    assert_eq!((metric.task(), found.metrics["knn_error"]), ("metric", 0.0));

    let kernel = load("kernel-polar-f64");
    assert!(matches!(kernel.knowledge, Knowledge::Kernel(_)));
    assert_eq!(kernel.items().unwrap().len(), 40);
    let map = load("map-f64");
    assert!(matches!(map.knowledge, Knowledge::Map(_)));
    let points = map.item_coordinates::<f64>().unwrap();
    let far = |i: usize, j: usize| {
        let squares = points.row(i).iter().zip(points.row(j));
        squares.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    };
    // From Ulm to Rome, as the file has it.
    assert!((far(0, 1) - 5.0990).abs() < 1e-2, "{}", far(0, 1));

    for name in ["multitask-f64", "gossip-multitask"] {
        let model = load(name);
        let rows = TaskRows::read(kept("kept-tasks.csv"), &TaskColumns::default()).unwrap();
        let found = model.evaluate_tasks(&rows, None, 1).unwrap();
        assert!(
            found.metrics["nmse"] < 0.2,
            "{name}: {}",
            found.metrics["nmse"]
        );
        assert_eq!(model.card.gossip.is_some(), name == "gossip-multitask");
    }
    let model = load("gossip-completion");
    let ratings = Ratings::read(kept("kept-ratings.csv"), &RatingColumns::default()).unwrap();
    let found = model.evaluate_ratings(&ratings).unwrap();
    assert!((found.metrics["rmse"] - 0.310403).abs() < 1e-5);
}

/// Whatever byte of a model file is damaged, loading it says so or gives a
/// model, and never panics.
#[test]
fn damaged_bytes_never_panic() {
    for name in [
        "factored-f64",
        "aroma-diagonal-f64",
        "aroma-factored-f32",
        "completion-als-f32",
        "completion-polar-f64",
        "pairs-polar-f32",
        "similarity-polar-psd-f64",
        "ranking-f32",
        "metric-flat-f64",
        "kernel-polar-f64",
        "map-f64",
        "multitask-f64",
        "gossip-completion",
        "gossip-multitask",
    ] {
        damage(&std::fs::read(kept(&format!("{name}.safetensors"))).unwrap());
    }
}

fn damage(whole: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    // Thousands of places of the larger files, all of the smaller ones.
    for at in (0..whole.len()).step_by(1 + whole.len() / 3_000) {
        let mut damaged = whole.to_vec();
        damaged[at] ^= 0x55;
        std::fs::write(&path, &damaged).unwrap();
        let _ = Model::load(&path);
        if at % 41 == 0 {
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(Model::load(&path).is_err(), "cut at {at}");
        }
    }
}
