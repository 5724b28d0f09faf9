//! Two kinds of things: rows on the left of W, objects on the right.

use crate::common::similarity;
use crate::oracle::Random;
use rankfold::data::{Features, Labelled, Labels, RowIds};
use rankfold::eval::metrics::{average_precision, precision_at};
use rankfold::eval::{Embedded, Scorer, nearest_among, retrieval_among};
use rankfold::form::{Form, Side};
use rankfold::model::{Normalize, Scaling};
use rankfold::online::Rule;
use rankfold::sample::Triplet;
use rankfold::task::{
    Checkpoint, Evaluate, Event, Init, Negatives, Sides, SimilarityData, SimilaritySession,
    TrainingData, TripletRows,
};
use rankfold::{Ids, Model, Real, Rows, Score, Similarity, SparseVec};

/// Rows of `classes` classes, each with features of its own and some noise; every
/// label is the name of a class.
fn things<R: Real>(count: usize, classes: usize, columns: usize, seed: u64) -> Labelled<R> {
    let mut random = Random::new(seed);
    let (mut rows, mut labels) = (Rows::new(), Labels::default());
    for i in 0..count {
        let class = (i * 7 + seed as usize) % classes;
        let own = (0..3).map(|t| class + t * classes);
        let noise = (0..2).map(|_| random.below(columns)).collect::<Vec<_>>();
        let mut columns: Vec<usize> = own.filter(|j| *j < columns).chain(noise).collect();
        columns.sort_unstable();
        columns.dedup();
        let entry = |j: &usize| (*j as u32, R::from_f64(0.3 + 0.7 * random.normal().abs()));
        rows.push(SparseVec::from_entries(columns.iter().map(entry).collect()).as_row());
        labels.push([format!("class {class}").as_str()]);
    }
    rows.widen(columns);
    Labelled {
        rows,
        labels,
        ids: RowIds::Positions,
        features: Features::Numbered,
    }
}

/// The same with names of features.
fn named<R: Real>(mut data: Labelled<R>, word: &str) -> Labelled<R> {
    let names: Ids = (0..data.rows.columns())
        .map(|j| format!("{word} {j}"))
        .collect::<Vec<_>>()
        .iter()
        .map(String::as_str)
        .collect();
    data.features = Features::Named(names);
    data
}

fn triplets(count: usize, rows: usize, objects: usize, seed: u64) -> Vec<Triplet> {
    let mut random = Random::new(seed);
    let draw = |_| Triplet {
        query: random.below(rows) as u32,
        positive: random.below(objects) as u32,
        negative: random.below(objects) as u32,
    };
    (0..count).map(draw).collect()
}

fn finish<R: Real>(mut session: SimilaritySession<'_, R>) -> Model {
    while !matches!(session.advance(u64::MAX).unwrap(), Event::Finished(_)) {}
    session.into_model().unwrap()
}

fn between<'a, R>(rows: &'a Labelled<R>, objects: &'a Labelled<R>) -> SimilarityData<'a, R> {
    let objects = Some(objects);
    TrainingData { rows, objects }.into()
}

/// The same with triplets from a list.
fn listed<'a, R>(
    data: impl Into<SimilarityData<'a, R>>,
    list: &[Triplet],
) -> SimilarityData<'a, R> {
    SimilarityData {
        triplets: Some(list.to_vec().into()),
        ..data.into()
    }
}

const LEARNERS: [Rule; 7] = [
    Rule::Loreta,
    Rule::ManifoldIdentification,
    Rule::Oasis,
    Rule::PassiveAggressive,
    Rule::Gradient,
    Rule::AromaFactored,
    Rule::AromaDiagonal,
];

fn options(learner: Rule) -> Similarity {
    let options = similarity(learner, 4).seed(5);
    match learner {
        Rule::ManifoldIdentification => options.step_size(0.3).inner_size(0.003),
        _ if learner.is_passive_aggressive() || learner.is_aroma() => options,
        _ => options.step_size(0.3),
    }
}

fn bytes(model: &Model) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    model.save(&path).unwrap();
    let written = std::fs::read(&path).unwrap();
    Model::load(&path).unwrap().save(&path).unwrap();
    assert!(std::fs::read(path).unwrap() == written);
    written
}

fn copies_learn_as_one_kind<R: Real>() {
    let data = things::<R>(50, 5, 18, 3);
    let copy = data.clone();
    let list = triplets(400, 50, 50, 9);
    for learner in LEARNERS {
        for init in [Init::Identity, Init::Gaussian, Init::Zero] {
            let options = options(learner).init(init);
            if options.check().is_err() {
                continue;
            }
            let one = options.session(listed(&data, &list)).unwrap();
            let two = options.session(listed(between(&data, &copy), &list));
            let (one, two) = (finish(one), finish(two.unwrap()));
            assert!(one.card.counters.updates > 20);
            assert_eq!(
                one.form,
                two.form,
                "{} from {}",
                learner.name(),
                init.name()
            );
            assert_eq!(one.card, two.card);
            assert!(one.objects.is_none() && two.objects.is_some());
        }
    }
}

#[test]
fn two_copies_of_the_same_rows_learn_what_one_kind_does() {
    copies_learn_as_one_kind::<f32>();
    copies_learn_as_one_kind::<f64>();
}

/// Every way to learn gives a matrix of n × m whose scores are leftᵀ W right.
#[test]
fn scores_are_those_of_the_dense_matrix() {
    let (rows, objects) = (things::<f64>(60, 5, 17, 1), things::<f64>(12, 5, 9, 2));
    for learner in LEARNERS {
        let tried = [
            options(learner).init(Init::Identity),
            options(learner).init(Init::Gaussian).steps(50),
            options(learner).init(Init::Zero),
            options(learner).negatives(Negatives::Hard).candidates(4),
            options(learner).average(true),
            options(learner).batch(8),
        ];
        for options in tried.into_iter().filter(|o| o.check().is_ok()) {
            let options = options.steps(1500);
            let session = options.session(between(&rows, &objects)).unwrap();
            let model = finish(session);
            let w = match model.form.as_precision::<f64>().unwrap() {
                Form::Factored(form) => form.to_dense(),
                Form::Full(form) => form.to_dense(),
                Form::Gaussian(form) => form.to_dense()[0].clone(),
                Form::Diagonal(form) => form.to_dense()[0].clone(),
                Form::Psd(_) | Form::Polar(_) | Form::PolarPsd(_) => {
                    unreachable!("not among these")
                }
            };
            assert_eq!((w.len(), w[0].len()), (17, 9));
            let left = model.prepare(rows.rows.clone(), &rows.features).unwrap();
            let right = model
                .prepare_side(objects.rows.clone(), &objects.features, Side::Right)
                .unwrap();
            let projection = model
                .project_between(&left, &right, Some(Score::Dot))
                .unwrap();
            let (mut largest, mut apart) = (0.0_f64, 0.0_f64);
            for i in 0..rows.rows.len() {
                for j in 0..objects.rows.len() {
                    let want: f64 = rows
                        .rows
                        .row(i)
                        .iter()
                        .flat_map(|(a, x)| objects.rows.row(j).iter().map(move |b| (a, x, b)))
                        .map(|(a, x, (b, y))| x * w[a as usize][b as usize] * y)
                        .sum();
                    let off = (projection.score(i, j) - want).abs();
                    (largest, apart) = (largest.max(want.abs()), apart.max(off));
                }
            }
            assert!(largest > 0.0 && apart <= 1e-10 * largest, "{apart}");
            let best = model.neighbors_among(&rows, 3, &objects, 4).unwrap();
            assert_eq!(best.len(), 4);
            for (object, score) in best {
                assert_eq!(score, projection.score(3, object));
            }
        }
    }
}

#[test]
fn objects_of_the_class_are_found_after_training() {
    let (rows, objects) = (things::<f32>(300, 6, 30, 1), things::<f32>(40, 6, 20, 2));
    let fresh = things::<f32>(100, 6, 30, 7);
    let evaluate = Evaluate {
        precision_at: &[],
        score: None,
        threads: 2,
        progress: &|_| true,
    };
    let random = similarity(Rule::Loreta, 6).normalize(Normalize::L2);
    let random = random.steps(20_000).valid_fraction(0.2);
    let hard = random.clone().negatives(Negatives::Hard).candidates(5);
    for options in [random, hard] {
        let session = options.session(between(&rows, &objects)).unwrap();
        let model = finish(session);
        assert!(model.card.history.last().unwrap().metrics["map"] > 0.9);
        let found = evaluate.rows_among(&model, fresh.clone(), objects.clone());
        let found = found.unwrap();
        assert!(found.metrics["map"] > 0.9, "{:?}", found.metrics);
        assert_eq!((found.rows, found.skipped), (100, 0));
        assert!(found.baselines.is_empty());
        let error = evaluate.rows(&model, fresh.clone()).unwrap_err();
        let want =
            "the model scores rows with objects, and not with each other: objects are needed";
        assert_eq!(error.message, want);
        assert_eq!(model.neighbors(&fresh, 0, 3).unwrap_err().message, want);
    }
}

#[test]
fn a_catalog_of_the_same_kind_has_a_baseline() {
    let (rows, others) = (things::<f32>(80, 4, 16, 1), things::<f32>(30, 4, 16, 2));
    let model = Similarity::default().rank(4).steps(4000).fit(&rows);
    let model = model.unwrap();
    let evaluate = Evaluate {
        precision_at: &[],
        score: None,
        threads: 1,
        progress: &|_| true,
    };
    let found = evaluate.rows_among(&model, rows.clone(), others.clone());
    let found = found.unwrap();
    assert!(found.metrics["map"] > 0.9 && found.baselines[0].metrics["map"] > 0.5);
    // A row finds itself among candidates that are other things.
    let itself = model.neighbors_among(&rows, 5, &rows, 80).unwrap();
    assert_eq!(itself.len(), 80);
    assert!(itself.iter().any(|&(row, _)| row == 5));
}

#[test]
fn queries_and_candidates_of_any_number_are_ranked_as_defined() {
    let mut random = Random::new(4);
    for (queries, candidates) in [(0, 3), (3, 0), (1, 1), (9, 4), (20, 33), (17, 8)] {
        let points = |random: &mut Random, n: usize| -> Vec<f64> {
            (0..n * 2).map(|_| random.below(4) as f64).collect()
        };
        let (left, right) = (
            points(&mut random, queries),
            points(&mut random, candidates),
        );
        let scorer = Embedded::new(&left, &right, 2);
        let mut draw = |n: usize| (0..n).map(|_| random.below(3) as u32).collect::<Vec<_>>();
        let (asked, classes) = (draw(queries), draw(candidates));
        let (mut count, mut sums) = (0, [0.0; 2]);
        let mut lists = Vec::new();
        for (query, &class) in asked.iter().enumerate() {
            let mut scores = vec![0.0; candidates];
            scorer.scores(&mut scores, query, 1);
            let relevant: Vec<bool> = classes.iter().map(|&c| c == class).collect();
            if relevant.contains(&true) {
                count += 1;
                sums[0] += average_precision(&scores, &relevant);
                sums[1] += precision_at(10, &scores, &relevant);
            }
            let mut best: Vec<(usize, f64)> = scores.into_iter().enumerate().collect();
            best.sort_by(|a, b| b.1.total_cmp(&a.1));
            best.truncate(5);
            lists.push(best);
        }
        for threads in [1, 3] {
            let found = retrieval_among(&scorer, &asked, &classes, threads, &|_| true).unwrap();
            assert_eq!((found.rows, found.skipped), (queries, queries - count));
            if count > 0 {
                let means = sums.map(|sum: f64| sum / count as f64);
                assert_eq!([found.map, found.precision_at_10], means);
            }
            let all: Vec<usize> = (0..queries).collect();
            let mut seen = Vec::new();
            nearest_among(&scorer, &all, 5, threads, |_, found| {
                seen.push(found.to_vec());
                Ok::<_, ()>(())
            })
            .unwrap();
            assert_eq!(seen, lists);
        }
    }
}

#[test]
fn features_that_are_called_alike_start_together() {
    let rows = named(things::<f64>(60, 4, 12, 1), "f");
    let mut objects = named(things::<f64>(20, 4, 10, 2), "g");
    let names = [
        "g 0", "f 7", "g 2", "f 11", "g 4", "g 5", "f 0", "g 7", "g 8", "g 9",
    ];
    objects.features = Features::Named(names.iter().collect());
    let start = |rank: usize| {
        let options = similarity(Rule::Loreta, rank).steps(0).step_size(1.0);
        let model = finish(options.session(between(&rows, &objects)).unwrap());
        match model.form.as_precision::<f64>().unwrap() {
            Form::Factored(form) => form.to_dense(),
            _ => unreachable!("loreta"),
        }
    };
    let ones = |w: &[Vec<f64>]| -> Vec<(usize, usize)> {
        let at = |i: usize| (0..10).map(move |j| (i, j));
        let places = (0..12).flat_map(at).collect::<Vec<_>>();
        places
            .into_iter()
            .filter(|&(i, j)| w[i][j] == 1.0)
            .collect()
    };
    assert_eq!(ones(&start(3)), [(0, 6), (7, 1), (11, 3)]);
    let more = start(7);
    let more = ones(&more);
    assert_eq!(more.len(), 7);
    assert!([(0, 6), (7, 1), (11, 3)].iter().all(|p| more.contains(p)));
}

fn standardized(rows: &Labelled<f32>, objects: &Labelled<f32>) -> (Similarity, Model) {
    let options = similarity(Rule::Loreta, 4).seed(2);
    let options = options
        .standardize(Scaling::Global)
        .normalize(Normalize::L2);
    let options = options.steps(3000).step_size(0.5);
    let session = options.session(between(rows, objects)).unwrap();
    (options, finish(session))
}

#[test]
fn models_of_two_kinds_come_back_from_their_files() {
    let (rows, objects) = (things::<f32>(60, 5, 15, 1), things::<f32>(20, 5, 8, 2));
    for (rows, objects) in [
        (rows.clone(), objects.clone()),
        (named(rows.clone(), "a"), objects.clone()),
        (rows.clone(), named(objects.clone(), "b")),
        (named(rows, "a"), named(objects, "b")),
    ] {
        let (_, model) = standardized(&rows, &objects);
        let whole = bytes(&model);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        model.save(&path).unwrap();
        assert_eq!(Model::load(&path).unwrap(), model);
        let known = model.objects.as_ref().unwrap();
        assert_eq!(known.features, objects.features);
        assert_ne!(known.preprocess, model.preprocess);
        // Damaged, a file is refused or read, and nothing panics.
        for at in (0..whole.len()).step_by(23) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            std::fs::write(&path, &damaged).unwrap();
            let _ = Model::load(&path);
        }
    }
}

#[test]
fn a_run_with_objects_resumes_to_the_same_bytes() {
    let (rows, objects) = (things::<f32>(90, 5, 15, 1), things::<f32>(20, 5, 8, 2));
    let options = similarity(Rule::Loreta, 4).steps(2000).curve_every(250);
    let options = options.valid_fraction(0.3).average(true);
    let whole = finish(options.session(between(&rows, &objects)).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c");
    let mut session = options.session(between(&rows, &objects)).unwrap();
    while session.counters().steps < 1130 {
        session.advance(113).unwrap();
    }
    session.save_checkpoint(&path, 0.0).unwrap();
    let load = || Checkpoint::load(&path).unwrap();
    let resumed = options.resume(between(&rows, &objects), &load());
    assert_eq!(bytes(&finish(resumed.unwrap())), bytes(&whole));

    let mut relabelled = objects.clone();
    relabelled.labels = Labels::default();
    (0..20).for_each(|i| relabelled.labels.push([["class 0", "class 1"][i % 2]]));
    for other in [things::<f32>(20, 5, 8, 3), things(20, 5, 9, 2), relabelled] {
        let error = options.resume(between(&rows, &other), &load());
        let want = "the checkpoint was made with other objects";
        assert_eq!(error.unwrap_err().message, want);
    }
    let error = options.resume(&rows, &load()).unwrap_err();
    assert_eq!(error.message, "the checkpoint was made with other objects");

    let session = options.session(&rows).unwrap();
    session.save_checkpoint(&path, 0.0).unwrap();
    let error = options.resume(between(&rows, &objects), &load());
    let want = "the checkpoint was made without objects";
    assert_eq!(error.unwrap_err().message, want);
}

fn learn<R: Real>(model: Model, rows: &Rows<R>, objects: &Rows<R>, list: &[Triplet]) -> Model {
    let mut learner = model.into_learner::<R>().unwrap();
    for &triplet in list {
        let sides = Sides {
            left: rows,
            right: objects,
        };
        let rows = TripletRows::of(sides, triplet);
        let triplet = Triplet {
            query: rows.query,
            positive: rows.positive,
            negative: rows.negative,
        };
        learner.learn(&triplet).unwrap();
    }
    learner.into_model()
}

#[test]
fn two_sittings_give_the_same_bytes() {
    let (rows, objects) = (things::<f32>(60, 5, 15, 1), things::<f32>(20, 5, 8, 2));
    let (rows, objects) = (named(rows, "a"), named(objects, "b"));
    let list = triplets(600, 60, 20, 6);
    for learner in LEARNERS {
        let options = options(learner).standardize(Scaling::Global);
        let train = |list: &[Triplet]| {
            let data = listed(between(&rows, &objects), list);
            finish(options.session(data).unwrap())
        };
        let whole = train(&list);
        let half = train(&list[..300]);
        let later = learn(half, &rows.rows, &objects.rows, &list[300..]);
        assert_eq!(bytes(&later), bytes(&whole), "{}", learner.name());
    }
}

#[test]
fn each_side_grows_by_itself() {
    let (rows, objects) = (things::<f64>(60, 5, 15, 1), things::<f64>(20, 5, 8, 2));
    let list = triplets(200, 60, 20, 6);
    for learner in LEARNERS {
        let options = options(learner);
        let data = listed(between(&rows, &objects), &list);
        let model = finish(options.session(data).unwrap());
        let mut learner = model.into_learner::<f64>().unwrap();
        let row = |entries: &[(u32, f64)]| SparseVec::from_entries(entries.to_vec());
        let wide = row(&[(19, 1.0)]);
        let (near, far) = (row(&[(30, 1.0)]), row(&[(31, 1.0)]));
        for _ in 0..600 {
            let triplet = Triplet {
                query: wide.as_row(),
                positive: near.as_row(),
                negative: far.as_row(),
            };
            learner.learn(&triplet).unwrap();
        }
        let counters = learner.counters();
        let grown = (counters.new_features, counters.new_object_features);
        assert_eq!(grown, (5, 24));
        let columns = (learner.columns(), learner.columns_of(Side::Right));
        assert_eq!(columns, (20, 32));
        let model = learner.into_model();
        bytes(&model);
        let form = model.form.as_precision::<f64>().unwrap().view();
        let score = |object: &SparseVec<f64>| form.score(wide.as_row(), object.as_row());
        assert!(score(&near) > score(&far) + 0.5, "{}", model.card.learner);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let (rows, objects) = (things::<f32>(30, 5, 15, 1), things::<f32>(20, 5, 8, 2));
    let refused = |options: &Similarity, objects: &Labelled<f32>| {
        let session = options.session(between(&rows, objects));
        session.unwrap_err().to_string()
    };
    for name in ["loreta-psd", "gradient-psd", "lego"] {
        let message = refused(&Similarity::new(Rule::from_name(name).unwrap()), &objects);
        let want = format!(
            "`{name}` learns a symmetric matrix, in which rows and objects have the same features: use another learner with objects, such as `loreta`"
        );
        assert_eq!(message, want);
    }
    let loreta = Similarity::new(Rule::Loreta).step_size(1.0).steps(10);
    let message = refused(&loreta.clone().rank(9), &objects);
    assert_eq!(message, "objects: option `rank` is 9, above n_features = 8");
    let message = refused(&loreta.clone().rank(16), &objects);
    assert_eq!(message, "option `rank` is 16, above n_features = 15");
    let loreta = loreta.rank(2);
    let unlabelled = Labelled::new(objects.rows.clone());
    let message = refused(&loreta, &unlabelled);
    let want = "objects: row `0` has 0 labels, expected exactly one";
    assert_eq!(message, want);
    let relabel = |names: [&str; 2]| {
        let mut other = objects.clone();
        other.labels = Labels::default();
        (0..20).for_each(|i| other.labels.push([names[i % 2]]));
        other
    };
    let message = refused(&loreta, &relabel(["x", "y"]));
    let want = "triplets need a row and an object of the same class, found none";
    assert_eq!(message, want);
    let message = refused(&loreta, &relabel(["class 1", "class 1"]));
    let want = "triplets need objects of at least two classes, found 1";
    assert_eq!(message, want);
    let some = relabel(["class 4", "y"]);
    let session = loreta.session(between(&rows, &some)).unwrap();
    assert_eq!(session.skipped(), 24);

    let list = triplets(20, 30, 20, 1);
    let odd = relabel(["x", "y"]);
    let session = loreta.session(SimilarityData {
        valid: Some(&rows),
        ..listed(between(&rows, &odd), &list)
    });
    let want = "validation needs a row and an object of the same class, found none";
    assert_eq!(session.unwrap_err().message, want);
    // Triplets from a list need no labels.
    let session = loreta.session(listed(between(&rows, &unlabelled), &list));
    assert_eq!(finish(session.unwrap()).columns_of(Side::Right), 8);
}
