//! Real data, in full; run in release mode.

mod metrics;
mod newsgroups;
mod ratings;
#[path = "../support/mod.rs"]
mod support;
mod tasks;

use rankfold::data::{Features, read_labelled};
use support::{Place, data};

#[test]
fn newsgroups_data_has_the_published_vocabulary() {
    let Some(path) = data("20newsgroups/20news-bydate.jsonl.gz") else {
        return;
    };
    let place = Place::new();
    let fit = [
        "vectorize",
        &path,
        "--where",
        "split=train",
        "--fit",
        "v.json",
        "--json",
        "-o",
    ];
    let all = place.run(&[&fit[..], &["all.svm"]].concat()).json();
    assert_eq!(
        (&all["rows"], &all["features"]),
        (&11_314.into(), &46_508.into())
    );
    let some = place
        .run(&[&fit[..], &["train.svm", "--features", "16660"]].concat())
        .json();
    let per_document = some["nnz"].as_f64().expect("a number") / 11_314.0;
    assert!((90.0..92.0).contains(&per_document), "{per_document}");

    let test = place.run(&[
        "vectorize",
        &path,
        "--where",
        "split=test",
        "--vocabulary",
        "v.json",
        "--json",
        "-o",
        "test.svm",
    ]);
    assert_eq!(test.json()["rows"], 7_532);
    let rows = read_labelled::<f32>(place.path("test.svm")).expect("a good file");
    assert_eq!((rows.rows.len(), rows.labels.names.len()), (7_532, 20));
    let long = |norm: f64| norm == 0.0 || (norm - 1.0).abs() < 1e-5;
    assert!(rows.rows.iter().all(|row| long(row.squared_norm())));
}

#[test]
fn movielens_1m_data_is_split_as_published() {
    let Some(path) = data("movielens/ml-1m.csv.gz") else {
        return;
    };
    let place = Place::new();
    let said = place
        .run(&["split", &path, "-o", "m", "--test", "0.1", "--json"])
        .json();
    assert_eq!(
        (&said["rows"], &said["test_rows"]),
        (&1_000_209.into(), &100_020.into())
    );
    let test = place.read("m.test.csv.gz");
    let rating = |line: &str| line.split(',').nth(2)?.parse::<u32>().ok();
    assert_eq!(
        test.lines().skip(1).filter_map(rating).sum::<u32>(),
        358_652
    );
    let mut first: Vec<(u64, u64)> = (0..1_000_209)
        .map(|row| (rankfold::data::split_key(0, row), row))
        .collect();
    first.sort_unstable();
    first.truncate(100_020);
    let mut rows: Vec<u64> = first.into_iter().map(|(_, row)| row).collect();
    rows.sort_unstable();
    assert_eq!(rows[..3], [10, 18, 21]);
}

#[test]
fn data_sets_are_read_whole() {
    // File, rows, columns, stored entries, labels; missing cells are stored.
    let sets = [
        (
            "delicious/delicious-train.svm.gz",
            12_920,
            500,
            239_549,
            983,
        ),
        ("bibtex/bibtex-train.svm.gz", 4_880, 1_836, 334_250, 159),
        ("corel5k/corel5k-train.svm.gz", 4_500, 499, 36_794, 371),
        ("isolet/isolet.csv.gz", 7_797, 617, 4_793_621, 26),
        ("usps/usps.csv.gz", 9_298, 256, 976_429, 10),
        ("uci/iris.csv.gz", 150, 4, 600, 3),
        ("uci/soybean.csv.gz", 683, 35, 8_806 + 2_337, 19),
        (
            "office_caltech10_surf/office_caltech10_surf.csv.gz",
            2_533,
            800,
            287_872,
            10,
        ),
    ];
    for (name, rows, columns, entries, labels) in sets {
        let Some(path) = data(name) else {
            continue;
        };
        let set = read_labelled::<f32>(path).expect("a good file");
        let got = (
            set.rows.len(),
            set.rows.columns(),
            set.rows.nnz(),
            set.labels.names.len(),
        );
        assert_eq!(got, (rows, columns, entries, labels), "{name}");
        if let Features::Named(names) = &set.features {
            assert_eq!(names.len(), columns, "{name}");
        }
    }
}

#[test]
fn bibtex_data_is_ranked_after_one_pass_and_a_resumed_run_is_the_same() {
    let (Some(train), Some(test), Some(names)) = (
        data("bibtex/bibtex-train.svm.gz"),
        data("bibtex/bibtex-test.svm.gz"),
        data("bibtex/bibtex.labels.txt"),
    ) else {
        return;
    };
    let place = Place::new();
    let run = |more: &[&str]| {
        let options = [
            "train",
            "ranking",
            &train,
            "--label-names",
            &names,
            "--weight",
            "tfidf",
            "--normalize",
            "l2",
            "--rank",
            "50",
            "--step-size",
            "0.3",
            "--seed",
            "1",
            "--json",
        ];
        place.run(&[&options[..], more].concat()).json()
    };
    let trained = run(&["-o", "m", "--steps", "4880"]);
    assert_eq!(
        (&trained["steps"], &trained["skipped"]),
        (&4880.into(), &0.into())
    );
    let found = place.run(&["eval", "m", &test, "--json"]).json();
    let map = |side: &serde_json::Value| side["metrics"]["map"].as_f64().expect("a number");
    assert!(map(&found) > 0.51, "{found}");
    assert!((map(&found["control"]) - 0.142).abs() < 0.003, "{found}");
    let checkpoint = ["--checkpoint", "c", "--checkpoint-every", "1000"];
    run(&[&["-o", "half", "--steps", "2500"][..], &checkpoint].concat());
    run(&["-o", "again", "--steps", "4880", "--resume", "c"]);
    let bytes = |name: &str| std::fs::read(place.path(name)).expect("a model");
    assert!(bytes("m") == bytes("again"));
}
