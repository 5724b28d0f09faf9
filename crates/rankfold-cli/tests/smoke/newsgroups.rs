//! 20 Newsgroups from raw text to a trained and evaluated similarity.

use rankfold::data::read_labelled;
use serde_json::Value;

use crate::support::Place;

pub fn the_vocabulary_is_the_published_one([path]: [&str; 1]) {
    let place = Place::new();
    let fit = [
        "vectorize",
        path,
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
        path,
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

fn vectorize(place: &Place, source: &str, features: &str) {
    for (part, vocabulary) in [("train", "--fit"), ("test", "--vocabulary")] {
        let (filter, output) = (format!("split={part}"), format!("{part}.svm"));
        let mut arguments = vec![
            "vectorize",
            source,
            "-o",
            &output,
            "--where",
            &filter,
            vocabulary,
            "v.json",
            "--json",
        ];
        if part == "train" {
            arguments.extend(["--features", features, "--tf", "raw"]);
        }
        assert!(
            place.run(&arguments).json()["rows"]
                .as_u64()
                .is_some_and(|n| n > 7_000)
        );
    }
}

fn map(found: &Value, of: &str) -> f64 {
    found
        .pointer(&format!("{of}/map"))
        .and_then(Value::as_f64)
        .expect("a number")
}

pub fn figures_are_the_known_ones_and_resumed_runs_give_the_same_bytes([source]: [&str; 1]) {
    let place = Place::new();
    let run = |steps: &str, more: &[&str]| {
        let arguments = [
            "train",
            "similarity",
            "train.svm",
            "--seed",
            "1",
            "--json",
            "--steps",
            steps,
        ];
        place.run(&[&arguments[..], more].concat())
    };

    vectorize(&place, source, "1000");
    run("1", &["-o", "m", "--step-size", "1"]).json();
    let found = place.run(&["eval", "m", "test.svm", "--json"]).json();
    let cosine = map(&found, "/baseline/metrics");
    assert!(
        (cosine - 0.226).abs() < 0.003,
        "cosine with 1,000 terms: {cosine}"
    );

    // AROMA after 10,000 triplets; others reach .42 and .43.
    for (learner, least) in [("aroma-diagonal", 0.415), ("aroma-factored", 0.42)] {
        let options = ["-o", "m", "--learner", learner, "--valid-fraction", "0.1"];
        run(
            "10000",
            &[&options[..], &["--curve-every", "10000"]].concat(),
        )
        .json();
        let found = place.run(&["eval", "m", "test.svm", "--json"]).json();
        let (reached, calibration) = (map(&found, "/metrics"), &found["calibration"]);
        assert!(reached > least, "{learner}: {reached}");
        let error = calibration["error"].as_f64().expect("a number");
        assert!(error < 0.05, "{learner}: calibration error {error}");
    }

    vectorize(&place, source, "16660");
    let trained = run("50000", &["-o", "m"]).json();
    assert_eq!(
        (&trained["refused"], &trained["steps"]),
        (&0.into(), &50_000.into())
    );
    let found = place
        .run(&["eval", "m", "test.svm", "--score", "dot", "--json"])
        .json();
    let cosine = map(&found, "/baseline/metrics");
    assert!(
        (cosine - 0.208).abs() < 0.003,
        "cosine with 16,660 terms: {cosine}"
    );
    let dot = map(&found, "/metrics");
    // Others reach .559 here with the best step; the seed moves it by about .01.
    assert!(dot > 0.54, "LORETA-PSD, rank 30, 50,000 triplets: {dot}");
    let projected = map(
        &place.run(&["eval", "m", "test.svm", "--json"]).json(),
        "/metrics",
    );
    assert!(
        projected > dot + 0.04,
        "projected cosine {projected} against {dot}"
    );

    // Stopped after a part of the steps and gone on with: the same bytes.
    run("50000", &["-o", "a", "--step-size", "10"]).json();
    run(
        "50000",
        &[
            "-o",
            "b",
            "--step-size",
            "10",
            "--checkpoint",
            "ck",
            "--checkpoint-every",
            "17000",
            "--threads",
            "1",
        ],
    )
    .json();
    run("50000", &["-o", "c", "--step-size", "10", "--resume", "ck"]).json();
    let bytes = |name: &str| std::fs::read(place.path(name)).expect("a file is there");
    assert!(bytes("a") == bytes("b") && bytes("a") == bytes("c"));

    // Documents instead of rows: the same bytes, and the same figures.
    let with = ["--step-size", "10", "--vocabulary", "v.json"];
    run("50000", &[&["-o", "rows"], &with[..]].concat()).json();
    let mut arguments = vec!["train", "similarity", source, "--where", "split=train"];
    arguments.extend([
        "--rank", "30", "--seed", "1", "--steps", "50000", "-o", "text",
    ]);
    place
        .run(&[&arguments[..], &with, &["--json"]].concat())
        .json();
    assert!(bytes("rows") == bytes("text"));
    let rows = place.run(&["eval", "text", "test.svm", "--json"]).json();
    let test = ["--where", "split=test", "--json"];
    let text = place.run(&[&["eval", "text", source], &test[..]].concat());
    assert_eq!(text.json(), rows);
}

/// Without any option: ahead of a linear SVM whose margins go through a tuned softmax, which
/// has a mAP of .79.
pub fn the_default_is_ahead_of_a_linear_classifier([source]: [&str; 1]) {
    let place = Place::new();
    for (part, vocabulary) in [("train", "--fit"), ("test", "--vocabulary")] {
        let (filter, output) = (format!("split={part}"), format!("{part}.svm"));
        let words = ["vectorize", source, "-o", &output, "--where", &filter];
        place.run(&[&words[..], &[vocabulary, "v.json", "--json"]].concat());
    }
    place
        .run(&["train", "similarity", "train.svm", "-o", "m", "--json"])
        .json();
    let found = place.run(&["eval", "m", "test.svm", "--json"]).json();
    let reached = map(&found, "/metrics");
    assert!(reached > 0.81, "the default: {reached}");
}
