//! Going on with a model is training in two sittings: the same bytes where no
//! feature is new, the same scores where some are.

use crate::common::{rules, similarity};
use crate::oracle::Random;
use rankfold::data::{Features, Labelled, Labels, Lines, RowIds, StreamRow, TripletStream};
use rankfold::form::Form;
use rankfold::model::{Normalize, Precise, Scaling, Weight};
use rankfold::online::{Rule, UpdateOn};
use rankfold::options::Options;
use rankfold::sample::Triplet;
use rankfold::task::{Covariance, Event, Init, Online, SimilarityData};
use rankfold::{Model, Real, Rows, Similarity, SparseVec, check};

/// Rows that all have some of the first `common` features, and some of those
/// from there to `features`.
fn rows<R: Real>(count: usize, common: usize, features: usize, seed: u64) -> Rows<R> {
    let mut random = Random::new(seed);
    let mut out = Rows::new();
    for _ in 0..count {
        let mut entries: Vec<(u32, R)> = Vec::new();
        for (from, to, some) in [(0, common, 4), (common, features, 5)] {
            for _ in 0..some.min(to - from) {
                let column = from + random.below(to - from);
                let value = R::from_f64(0.25 + 0.5 * random.normal().abs());
                entries.push((column as u32, value));
            }
        }
        out.push(SparseVec::from_entries(entries).as_row());
    }
    out.widen(features);
    out
}

fn labelled<R: Real>(rows: Rows<R>, features: Features) -> Labelled<R> {
    let mut labels = Labels::default();
    (0..rows.len()).for_each(|_| labels.push([]));
    Labelled {
        rows,
        labels,
        ids: RowIds::Positions,
        features,
    }
}

fn triplets(count: usize, rows: std::ops::Range<usize>, seed: u64) -> Vec<Triplet> {
    let mut random = Random::new(seed);
    let mut row = || (rows.start + random.below(rows.len())) as u32;
    let draw = |_| Triplet {
        query: row(),
        positive: row(),
        negative: row(),
    };
    (0..count).map(draw).collect()
}

fn train<R: Real>(options: &Similarity, data: &Labelled<R>, list: &[Triplet]) -> Model {
    let data = SimilarityData {
        triplets: Some(list.to_vec().into()),
        ..data.into()
    };
    let mut session = options.session(data).unwrap();
    while !matches!(session.advance(u64::MAX).unwrap(), Event::Finished(_)) {}
    session.into_model().unwrap()
}

fn update<R: Real>(model: Model, raw: &Rows<R>, list: &[Triplet]) -> Model {
    let mut learner = model.into_learner::<R>().unwrap();
    for t in list {
        let row = |i: u32| raw.row(i as usize);
        let triplet = Triplet {
            query: row(t.query),
            positive: row(t.positive),
            negative: row(t.negative),
        };
        learner.learn(&triplet).unwrap();
    }
    learner.into_model()
}

fn bytes(model: &Model) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    model.save(&path).unwrap();
    std::fs::read(path).unwrap()
}

/// leftᵀ W right of all pairs of some rows, in the model's columns.
fn scores<R: Real>(model: &Model, rows: &Rows<R>) -> Vec<f64> {
    let form = model.form.as_precision::<R>().unwrap().view();
    let pairs = (0..rows.len()).flat_map(|i| (0..rows.len()).map(move |j| (i, j)));
    pairs
        .map(|(i, j)| form.score(rows.row(i), rows.row(j)))
        .collect()
}

#[track_caller]
fn assert_close(a: &[f64], b: &[f64], tolerance: f64) {
    let largest = a.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    let apart = a
        .iter()
        .zip(b)
        .fold(0.0_f64, |m, (x, y)| m.max((x - y).abs()));
    assert!(largest > 0.0 && a.len() == b.len());
    assert!(apart <= tolerance * largest, "{apart} of {largest}");
}

fn learners() -> [Similarity; 2] {
    [Rule::LoretaPsd, Rule::Loreta].map(|rule| similarity(rule, 4).step_size(0.5).seed(9))
}

fn rule_of(options: &Similarity) -> Rule {
    options.get("learner").unwrap().parse().unwrap()
}

/// Every rule, and a step that shrinks.
fn every_learner() -> Vec<Similarity> {
    let options = |rule: Rule| {
        let options = similarity(rule, 4).seed(9);
        match rule {
            _ if rule.is_passive_aggressive() => options.aggressiveness(0.2),
            _ if rule.is_aroma() => options.confidence_r(0.3),
            _ => options.step_size(0.05),
        }
    };
    let every = rules::<Similarity>().into_iter();
    let mut all: Vec<Similarity> = every.map(options).collect();
    all.extend(learners());
    all.extend(learners().map(|options| options.decay(200.0)));
    all.push(options(Rule::Oasis).init(Init::Zero));
    all.push(options(Rule::AromaFactored).update_on(UpdateOn::Mistake));
    all.push(options(Rule::AromaFactored).covariance(Covariance::New));
    all.push(options(Rule::AromaDiagonal).inverse_diagonal(true));
    all.push(options(Rule::AromaDiagonal).init(Init::Identity));
    all
}

fn two_sittings_give_the_same_bytes<R: Real>() {
    let data = labelled(rows::<R>(60, 6, 40, 1), Features::Numbered);
    let list = triplets(900, 0..60, 2);
    for options in every_learner() {
        let weighted = options.clone().weight(Weight::Tfidf);
        let sparse = weighted.normalize(Normalize::L2);
        let dense = options.clone().standardize(Scaling::Global);
        // Steps on the cone are slow, and see rows of any kind alike.
        let kinds = if rule_of(&options).cone().is_some() {
            1
        } else {
            3
        };
        for options in &[sparse, options, dense][..kinds] {
            let whole = train(options, &data, &list);
            // In the middle of a round and of a turn.
            let half = train(options, &data, &list[..449]);
            let again = update(half, &data.rows, &list[449..]);
            assert!(whole.card.counters.updates > 100, "{:?}", whole.card);
            assert_eq!(again.card, whole.card);
            assert!(bytes(&again) == bytes(&whole), "{options:?}");
        }
    }
}

#[test]
fn two_sittings_give_the_same_bytes_as_one() {
    two_sittings_give_the_same_bytes::<f32>();
    two_sittings_give_the_same_bytes::<f64>();
}

/// The curve is looked at every few steps, or not: the model does not tell.
#[test]
fn the_curve_leaves_no_trace_in_the_model() {
    let data = labelled(rows::<f32>(40, 6, 30, 1), Features::Numbered);
    let list = triplets(300, 0..40, 2);
    let options = Similarity::default().rank(3).step_size(0.5);
    let often = train(&options.clone().curve_every(7), &data, &list);
    let seldom = train(&options, &data, &list);
    assert!(often.card.history.is_empty() && bytes(&often) == bytes(&seldom));
    assert!(often.card.counters.total_loss > 0.0);
}

fn a_grown_model_is_the_one_that_had_all_features<R: Real>() {
    // Late rows have features that the early ones lack; all have the common
    // ones, which the start is made of.
    let (early, late) = (rows::<R>(50, 6, 30, 3), rows::<R>(50, 6, 60, 4));
    let all: Rows<R> = early.iter().chain(late.iter()).collect();
    assert!(all.columns() == 60 && early.columns() == 30);
    let mut list = triplets(300, 0..50, 5);
    list.extend(triplets(300, 50..100, 6));
    // What LEGO aims at depends on all rows there are, and the steps of factored AROMA
    // on the number of features.
    let differs =
        |options: &Similarity| matches!(rule_of(options), Rule::Lego | Rule::AromaFactored);
    for options in every_learner().into_iter().filter(|o| !differs(o)) {
        let whole = train(&options, &labelled(all.clone(), Features::Numbered), &list);
        let half = train(
            &options,
            &labelled(early.clone(), Features::Numbered),
            &list[..300],
        );
        let grown = update(half, &all, &list[300..]);
        assert_eq!((grown.columns(), whole.columns()), (60, 60));
        let counters = grown.card.counters;
        assert_eq!((counters.new_features, counters.seeded), (30, 0));
        assert_eq!(counters.updates, whole.card.counters.updates);
        assert_close(
            &scores(&whole, &late),
            &scores(&grown, &late),
            1e4 * R::EPSILON,
        );
    }
}

#[test]
fn a_grown_model_equals_one_that_had_all_features_from_the_start() {
    a_grown_model_is_the_one_that_had_all_features::<f32>();
    a_grown_model_is_the_one_that_had_all_features::<f64>();
}

fn names(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|i| format!("f{i}")).collect()
}

fn named_model(options: &Similarity) -> Model {
    let features = Features::Named(names(0, 30).iter().collect());
    let data = labelled(rows::<f64>(50, 6, 30, 3), features);
    train(options, &data, &triplets(300, 0..50, 5))
}

/// A triplet of nothing but new features, then one that mixes old and new.
const NEWS: [&str; 3] = [
    r#"{"query":{"f50":1,"f51":2},"positive":{"f52":1},"negative":{"f53":1}}"#,
    r#"{"query":{"f50":1},"positive":{"f52":1,"f1":1},"negative":{"f2":1,"f54":0.5}}"#,
    r#"{"query":{"f51":1},"positive":{"f50":1},"negative":{"f55":1}}"#,
];

fn learn_lines(learner: &mut Online<f64>, text: &str, rounds: usize) {
    let text = text.repeat(rounds);
    let source = std::io::Cursor::new(text.into_bytes());
    let mut stream = TripletStream::new(Lines::new(Box::new(source), "s"));
    while let Some(triplet) = stream.read(learner.features(), None).unwrap() {
        learner.learn_line(&triplet, &Rows::new()).unwrap();
    }
}

/// Scores of all pairs of features by name.
fn by_name(model: &Model, wanted: &[String]) -> Vec<f64> {
    let Features::Named(ids) = &model.features else {
        panic!("features have names");
    };
    let unit = |name: &String| {
        let column = ids.find(name).expect("a known feature");
        SparseVec::from_entries(vec![(column, 1.0)])
    };
    let units: Vec<SparseVec<f64>> = wanted.iter().map(unit).collect();
    scores(model, &units.iter().map(SparseVec::as_row).collect())
}

#[test]
fn the_order_in_which_features_arrive_does_not_matter() {
    let wanted = [names(0, 30), names(50, 56)].concat();
    for options in learners() {
        let model = named_model(&options);
        let learn = |order: &[String]| {
            let mut learner = model.clone().into_learner::<f64>().unwrap();
            for name in order {
                learner.column(name).unwrap();
            }
            learn_lines(&mut learner, &NEWS.join("\n"), 1);
            learn_lines(&mut learner, &format!("\n{}\n", NEWS.join("\n")), 30);
            learner.into_model()
        };
        let (mut order, one) = (names(50, 56), learn(&[]));
        order.reverse();
        let other = learn(&order);
        assert_eq!(one.card.counters.seeded, 1);
        assert!(one.card.counters.updates > model.card.counters.updates + 30);
        assert_eq!(one.card.counters.updates, other.card.counters.updates);
        assert_close(&by_name(&one, &wanted), &by_name(&other, &wanted), 1e-9);
        // And what is new on both sides is learned.
        let score = |model: &Model, a: &str, b: &str| by_name(model, &[a.into(), b.into()])[1];
        assert!(score(&one, "f50", "f52") > score(&one, "f50", "f53"));
    }
}

/// Learners of regression are given a start too, once, and go on from there.
#[test]
fn regression_learns_from_features_that_are_all_new() {
    for rule in [Rule::Flat, Rule::PolarPsd] {
        let model = named_model(&Similarity::new(rule).rank(4).step_size(0.3).seed(9));
        let text = format!("{}\n", NEWS.join("\n"));
        let sittings = |rounds: &[usize]| {
            let mut model = model.clone();
            for &count in rounds {
                let mut learner = model.into_learner::<f64>().unwrap();
                learn_lines(&mut learner, &text, count);
                model = learner.into_model();
            }
            model
        };
        let whole = sittings(&[40]);
        assert_eq!(whole.card.counters.seeded, 1);
        let score = |a: &str, b: &str| by_name(&whole, &[a.into(), b.into()])[1];
        assert!(score("f50", "f52") > score("f50", "f53") + 0.1, "{rule:?}");
        assert!(bytes(&whole) == bytes(&sittings(&[7, 33])), "{rule:?}");
    }
}

#[test]
fn updates_in_two_sittings_give_the_same_bytes_also_with_new_features() {
    for options in learners() {
        let model = named_model(&options);
        let text = format!("{}\n", NEWS.join("\n"));
        let mut whole = model.clone().into_learner::<f64>().unwrap();
        let mut first = model.into_learner::<f64>().unwrap();
        for learner in [&mut whole, &mut first] {
            learner.column("f53").unwrap();
            learner.column("f50").unwrap();
        }
        learn_lines(&mut whole, &text, 40);
        // Features that came in an earlier sitting and were not used are new still,
        // and those that were used are not.
        let mut second = first.into_model().into_learner::<f64>().unwrap();
        learn_lines(&mut second, &text, 15);
        let mut second = second.into_model().into_learner::<f64>().unwrap();
        learn_lines(&mut second, &text, 25);
        let (whole, second) = (whole.into_model(), second.into_model());
        assert_eq!(whole.card.counters.new_features, 6);
        assert!(bytes(&whole) == bytes(&second));
        assert_eq!(whole.card.counters.seeded, 1);
        assert_true_state(&second, 1e-10);
    }
}

/// The tracked Gram matrices and their inverses are those of the rows.
#[track_caller]
fn assert_true_state(model: &Model, tolerance: f64) {
    let report = match model.form.as_precision::<f64>().unwrap() {
        Form::Psd(form) => check::psd(form),
        Form::Factored(form) => check::factored(form),
        _ => unreachable!("a low-rank learner"),
    };
    let worst = report.gram.max(report.gram_inverse);
    assert!(worst < tolerance, "{report:?}");
}

/// Rows that get a start depend on the seed and on names, and the Gram matrices
/// with their inverses are those of the rows.
#[test]
fn a_start_is_deterministic_small_and_exact() {
    for options in learners() {
        let model = named_model(&options);
        let seeded = |model: &Model, text: &str| {
            let mut learner = model.clone().into_learner::<f64>().unwrap();
            // A step this small leaves the start as it was, to many digits.
            learner.set_step_size(1e-12).unwrap();
            learn_lines(&mut learner, text, 1);
            learner.into_model()
        };
        let row = |model: &Model, name: &str| -> Vec<f64> {
            let Features::Named(ids) = &model.features else {
                panic!("features have names");
            };
            let (left, _) = model
                .form
                .as_precision::<f64>()
                .unwrap()
                .view()
                .factors()
                .unwrap();
            left.row(ids.find(name).unwrap() as usize).to_vec()
        };
        let one = seeded(&model, NEWS[0]);
        let other = seeded(
            &model,
            r#"{"query":{"x":1,"f51":2},"positive":{"y":1},"negative":{}}"#,
        );
        assert_eq!((one.card.counters.seeded, one.columns()), (1, 34));
        assert_true_state(&model, 1e-11);
        assert_true_state(&one, 1e-11);
        let (a, b) = (row(&one, "f51"), row(&other, "f51"));
        assert_close(&a, &b, 1e-6);
        assert!(row(&one, "f50") != a);
        let norm = |row: &[f64]| row.iter().map(|v| v * v).sum::<f64>().sqrt();
        let usual = (0..30).map(|i| norm(&row(&one, &format!("f{i}"))).powi(2));
        let usual = (usual.sum::<f64>() / 30.0).sqrt();
        assert!(norm(&a) > 1e-3 * usual && norm(&a) < 0.05 * usual);
        let mut reseeded = model.clone();
        reseeded.card.seed = 77;
        assert!(row(&seeded(&reseeded, NEWS[0]), "f51") != a);
        // An old feature on either side: the ordinary rule, and no start.
        let mixed = seeded(&model, NEWS[1]);
        assert_eq!((mixed.card.counters.seeded, mixed.columns()), (0, 33));
    }
}

#[test]
fn wild_columns_are_refused_and_nothing_changes() {
    let data = labelled(rows::<f32>(40, 6, 30, 1), Features::Numbered);
    let options = Similarity::new(Rule::Loreta).rank(3).step_size(0.5);
    let model = train(&options, &data, &triplets(100, 0..40, 2));
    let before = bytes(&model);
    let mut learner = model.into_learner::<f32>().unwrap();
    for column in [u32::MAX, 4_000_000_000, i32::MAX as u32, 2_000_000_000] {
        let wild = SparseVec::from_entries(vec![(column, 1.0f32)]);
        let triplet = Triplet {
            query: data.rows.row(0),
            positive: wild.as_row(),
            negative: data.rows.row(1),
        };
        assert!(learner.learn(&triplet).is_err(), "{column}");
    }
    let infinite = SparseVec::from_entries(vec![(0, f32::INFINITY)]);
    let row = infinite.as_row();
    let triplet = Triplet {
        query: row,
        positive: row,
        negative: row,
    };
    assert!(learner.learn(&triplet).is_err());
    assert!(learner.column("0").is_err() && learner.column("x").is_err());
    assert!(learner.set_step_size(f64::NAN).is_err() && learner.set_step_size(0.0).is_err());
    assert!(bytes(&learner.into_model()) == before);
}

#[test]
fn names_without_a_column_are_the_callers_mistake() {
    let model = named_model(&learners()[0]);
    let mut learner = model.into_learner::<f64>().unwrap();
    let row = SparseVec::from_entries(vec![(30, 1.0)]);
    let triplet = Triplet {
        query: row.as_row(),
        positive: row.as_row(),
        negative: row.as_row(),
    };
    assert!(learner.learn(&triplet).is_err());
    assert_eq!(learner.column("thirty"), Ok(30));
    assert!(learner.learn(&triplet).is_ok());
}

/// A table demands its columns; once it has learned of others it does not.
#[test]
fn a_table_that_grows_demands_no_columns() {
    let features = Features::Columns(names(0, 30).iter().collect());
    let data = labelled(rows::<f64>(50, 6, 30, 3), features.clone());
    let model = train(&learners()[0], &data, &triplets(100, 0..50, 5));
    let mut learner = model.into_learner::<f64>().unwrap();
    learner.prepare(data.rows.clone(), &features).unwrap();
    assert_eq!(learner.features(), &features);
    let fewer = Features::Columns(names(0, 29).iter().collect());
    assert!(learner.prepare(Rows::new(), &fewer).is_err());
    let wider = Features::Columns(names(0, 31).iter().collect());
    learner.prepare(data.rows.clone(), &wider).unwrap();
    let model = learner.into_model();
    assert_eq!(model.columns(), 31);
    assert!(model.prepare(data.rows.clone(), &features).is_ok());
}

#[test]
fn only_known_tasks_go_on_and_precision_must_fit() {
    let mut model = named_model(&learners()[0]);
    assert!(model.clone().into_learner::<f32>().is_err());
    assert!(matches!(model.form, Precise::F64(_)));
    model.knowledge = rankfold::model::Knowledge::Kernel(Default::default());
    assert_eq!(
        model.into_learner::<f64>().unwrap_err().message,
        "a model for kernel cannot go on learning: expected one for similarity, ranking, pairs or metric"
    );
}

#[test]
fn a_learner_can_go_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    let mut learner = named_model(&learners()[0]).into_learner::<f64>().unwrap();
    is_send(&learner);
    let triplet = Triplet {
        query: StreamRow::Row(0),
        positive: StreamRow::Row(1),
        negative: StreamRow::Row(2),
    };
    let ready = rows::<f64>(3, 6, 30, 8);
    let moved = std::thread::spawn(move || learner.learn_line(&triplet, &ready).map(|l| l.score));
    assert!(moved.join().unwrap().is_ok());
}
