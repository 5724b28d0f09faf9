//! Every learner and option of `train similarity` from end to end.

use serde_json::Value;

use crate::support::{Place, Said};
use crate::train::place_with_data;

const LEARNERS: [&str; 10] = [
    "loreta-psd",
    "loreta",
    "manifold-identification",
    "oasis",
    "passive-aggressive",
    "gradient",
    "gradient-psd",
    "lego",
    "aroma-factored",
    "aroma-diagonal",
];

fn train(place: &Place, more: &[&str]) -> Said {
    let run = [
        "train",
        "similarity",
        "train.svm",
        "-o",
        "m",
        "--seed",
        "3",
        "--normalize",
        "l2",
    ];
    place.run(&[&run[..], more].concat())
}

fn json(said: &Said) -> Value {
    assert_eq!(said.code, 0, "{}", said.stderr);
    serde_json::from_str(&said.stdout).unwrap()
}

fn is_full(learner: &str) -> bool {
    learner.starts_with("aroma") || matches!(learner, "oasis" | "lego")
}

/// A full matrix has no rank to choose.
fn rank(full: bool) -> &'static [&'static str] {
    match full {
        true => &[],
        false => &["--rank", "6"],
    }
}

fn map(place: &Place) -> (f64, f64) {
    let found = json(&place.run(&["eval", "m", "test.svm", "--json"]));
    let map = |side: &Value| side["metrics"]["map"].as_f64().unwrap();
    (map(&found), map(&found["baseline"]))
}

#[test]
fn every_learner_goes_through_every_command() {
    let place = place_with_data();
    for learner in LEARNERS {
        let full = is_full(learner);
        let options = ["--learner", learner, "--steps", "3000", "--json"];
        let trained = json(&train(&place, &[&options[..], rank(full)].concat()));
        assert_eq!(trained["learner"], learner);
        assert_eq!(trained["rank"], if full { 60 } else { 6 }, "{learner}");
        assert!(trained["updates"].as_u64().unwrap() > 100, "{trained}");
        let (model, baseline) = map(&place);
        // LEGO moves the metric by little on rows like these; the others learn.
        let gain = if learner == "lego" { -0.05 } else { 0.05 };
        assert!(model > baseline + gain, "{learner}: {model} and {baseline}");

        let info = json(&place.run(&["info", "m", "--json"]));
        assert_eq!(info["singular_values"].is_null(), full, "{learner}");
        assert_eq!(info["shape"], serde_json::json!([60, 60]));
        let said = place.run(&["neighbors", "m", "test.svm", "--query", "4", "-k", "3"]);
        assert_eq!(
            (said.code, said.stdout.lines().count()),
            (0, 3),
            "{learner}"
        );
        let said = place.run(&["transform", "m", "test.svm", "-o", "points.npy"]);
        if full {
            said.refused(
                "m: a transformation needs a low-rank model: a full matrix has no space \
                 to project rows into",
            );
            place
                .run(&["eval", "m", "test.svm", "--score", "cosine"])
                .refused(
                    "m: the projected cosine needs a low-rank model: a full matrix has no \
                     space to project rows into",
                );
        } else {
            assert_eq!(said.code, 0, "{learner}: {}", said.stderr);
        }
        // A new feature in the stream.
        let line = r#"{"query":{"1":1,"99":1},"positive":{"2":1},"negative":{"9":1}}"#;
        place.write("more.jsonl", format!("{line}\n"));
        let updated = json(&place.run(&["update", "m", "more.jsonl", "-o", "m2", "--json"]));
        assert_eq!(updated["new_features"], 39, "{learner}");
    }
}

#[test]
fn every_option_learns() {
    let place = place_with_data();
    for options in [
        &["--negatives", "hard", "--candidates", "5"][..],
        &["--negatives", "hard", "--learner", "oasis"],
        &["--batch", "8"],
        &["--batch", "8", "--learner", "loreta"],
        &["--decay", "1000"],
        &["--average"],
        &["--average", "--learner", "oasis"],
        &["--average", "--learner", "loreta", "--batch", "3"],
        &["--init", "zero"],
        &["--init", "zero", "--learner", "loreta"],
        &["--init", "zero", "--learner", "oasis"],
        &["--init", "gaussian"],
        &["--learner", "aroma-factored", "--covariance", "new"],
        &["--learner", "aroma-factored", "--update-on", "mistake"],
        &["--learner", "aroma-factored", "--negatives", "hard"],
        &["--learner", "aroma-diagonal", "--inverse-diagonal"],
        &["--learner", "aroma-diagonal", "--select", "uncertain"],
        &["--learner", "aroma-diagonal", "--confidence-r", "0.1"],
        &["--learner", "aroma-diagonal", "--init", "identity"],
    ] {
        let full = options.iter().any(|option| is_full(option));
        let run = [options, rank(full), &["--steps", "6000", "--quiet"]];
        let said = train(&place, &run.concat());
        assert_eq!(said.code, 0, "{options:?}: {}", said.stderr);
        let (model, baseline) = map(&place);
        assert!(
            model > baseline + 0.1,
            "{options:?}: {model} and {baseline}"
        );
    }
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let place = place_with_data();
    place.write("t.txt", "0 5 1\n");
    for (options, message) in [
        (
            &["--learner", "oasis", "--score", "cosine"][..],
            "--score must be dot: `oasis` learns a full matrix, which has no space to project rows into",
        ),
        (
            &["--learner", "oasis", "--step-size", "1"],
            "--step-size applies only to learners that do not choose their own steps: not `oasis`, `passive-aggressive` and AROMA",
        ),
        (
            &["--learner", "passive-aggressive", "--decay", "5"],
            "--decay applies only to learners that do not choose their own steps: not `oasis`, `passive-aggressive` and AROMA",
        ),
        (
            &["--learner", "lego", "--init", "zero"],
            "--init must be identity or a model for `lego`",
        ),
        (
            &["--learner", "oasis", "--init", "gaussian"],
            "--init must be identity, zero or a model for `oasis`, which learns a full matrix",
        ),
        (
            &["--learner", "gradient", "--batch", "2"],
            "--batch applies only to learners with mini-batches, such as `loreta-psd` and `loreta`",
        ),
        (
            &["--learner", "aroma-factored", "--confidence-r", "0"],
            "--confidence-r must be above 0, found 0",
        ),
        (
            &["--learner", "aroma-diagonal", "--confidence-r", "-1"],
            "--confidence-r must be above 0, found -1",
        ),
        (
            &["--learner", "aroma-diagonal", "--confidence-r", "nan"],
            "--confidence-r must be above 0, found NaN",
        ),
        (
            &["--learner", "aroma-factored", "--step-size", "1"],
            "--step-size applies only to learners that do not choose their own steps: not `oasis`, `passive-aggressive` and AROMA",
        ),
        (
            &["--learner", "aroma-factored", "--average"],
            "--average applies only to learners other than AROMA",
        ),
        (
            &["--learner", "aroma-factored", "--inverse-diagonal"],
            "--inverse-diagonal applies only to `aroma-diagonal`",
        ),
        (
            &["--learner", "aroma-diagonal", "--covariance", "new"],
            "--covariance applies only to `aroma-factored`",
        ),
        (
            &[
                "--learner",
                "aroma-diagonal",
                "--update-on",
                "strict-mistake",
            ],
            "--update-on must be margin or mistake with a start from zero, where no triplet is in the wrong order; or start with `--init identity`",
        ),
        (
            &["--learner", "aroma-diagonal", "--init", "gaussian"],
            "--init must be identity or zero for `aroma-diagonal`, which learns a full matrix",
        ),
        (
            &["--learner", "aroma-diagonal", "--score", "cosine"],
            "--score must be dot: `aroma-diagonal` learns a full matrix, which has no space to project rows into",
        ),
        (
            &["--update-on", "mistake"],
            "--update-on applies only to `aroma-factored` and `aroma-diagonal`",
        ),
        (
            &["--select", "uncertain"],
            "--select applies only to `aroma-factored` and `aroma-diagonal`",
        ),
        (
            &[
                "--learner",
                "aroma-diagonal",
                "--select",
                "uncertain",
                "--negatives",
                "hard",
            ],
            "--select must be random with `--negatives hard`: choose one of the two",
        ),
        (
            &[
                "--learner",
                "aroma-diagonal",
                "--select",
                "uncertain",
                "--candidates",
                "1",
            ],
            "--candidates must be at least 2 for `--select uncertain`",
        ),
        (
            &[
                "--learner",
                "aroma-diagonal",
                "--select",
                "uncertain",
                "--triplets",
                "t.txt",
            ],
            "train.svm: --select must be random with listed triplets, which are learned from in their order",
        ),
        (
            &["--batch", "0"],
            "--batch must be at least 1 and at most 1024, found 0",
        ),
        (&["--decay", "0"], "--decay must be above 0, found 0"),
        (
            &["--learner", "oasis", "--aggressiveness", "0"],
            "--aggressiveness must be above 0, found 0",
        ),
        (
            &["--aggressiveness", "0"],
            "--aggressiveness applies only to `oasis` and `passive-aggressive`",
        ),
        (
            &["--learner", "oasis", "--rank", "5"],
            "--rank applies only to low-rank learners, such as `loreta-psd`",
        ),
        (
            &["--confidence-r", "2"],
            "--confidence-r applies only to `aroma-factored` and `aroma-diagonal`",
        ),
        (
            &["--candidates", "3"],
            "--candidates applies only to `--negatives hard` and `--select uncertain`",
        ),
        (
            &["--steps", "3", "--epochs", "3"],
            "--epochs cannot be given beside `steps`",
        ),
        (&["--threads", "0"], "--threads must be at least 1, found 0"),
        (
            &["--negatives", "hard", "--candidates", "0"],
            "--candidates must be at least 1, found 0",
        ),
        (
            &["--negatives", "hard", "--triplets", "t.txt"],
            "train.svm: listed triplets bring their own negatives: hard ones are drawn from labels",
        ),
    ] {
        train(&place, options).refused(message);
    }
    assert!(!place.names().contains(&"m".to_owned()));
}

#[test]
fn a_start_from_zero_needs_triplets_that_span_the_rank() {
    let place = Place::new();
    place.write("train.svm", "0 1:1 9:0\n0 1:1\n1 2:1\n1 2:1\n");
    train(&place, &["--init", "zero", "--rank", "5"]).refused(
        "train.svm: the triplets do not span rank 5 from zero: choose a smaller rank or another start",
    );
}

#[test]
fn a_full_matrix_that_does_not_fit_is_refused() {
    let place = Place::new();
    place.write("train.svm", "0 1:1 2000000000:1\n0 1:1\n1 2:1\n1 2:1\n");
    let said = train(&place, &["--learner", "oasis"]);
    assert_eq!(said.code, 1);
    let start = "error: train.svm: a full matrix of 2000000000 × 2000000000 needs ";
    assert!(said.stderr.starts_with(start), "{}", said.stderr);
    let said = train(&place, &["--learner", "aroma-factored"]);
    assert_eq!(said.code, 1);
    let start = "error: train.svm: a Gaussian over matrices of 2000000000 × 2000000000 needs \
                 44703483581.5 GiB of memory, ";
    assert!(said.stderr.starts_with(start), "{}", said.stderr);
}

fn bytes(place: &Place) -> Vec<u8> {
    std::fs::read(place.path("m")).unwrap()
}

#[test]
fn the_last_matrix_is_part_of_the_average() {
    let place = place_with_data();
    let run = |steps: &str, more: &[&str]| {
        let options = [
            "--rank",
            "4",
            "--step-size",
            "1",
            "--quiet",
            "--steps",
            steps,
        ];
        let said = train(&place, &[&options[..], more].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        let info = json(&place.run(&["info", "m", "--json"]));
        (bytes(&place), info["singular_values"].clone())
    };
    // Shorter than the interval of looks, and just before the next look.
    assert_eq!(run("90", &["--average"]).1, run("90", &[]).1);
    assert_ne!(run("199", &["--average"]).1, run("100", &["--average"]).1);
    assert_ne!(run("199", &["--average"]).0, run("199", &[]).0);
}

#[test]
fn batches_are_whole_and_a_longer_run_is_the_longer_run() {
    let place = place_with_data();
    let options = [
        "--rank",
        "4",
        "--step-size",
        "8",
        "--batch",
        "64",
        "--average",
        "--quiet",
    ];
    let run = |more: &[&str]| json(&train(&place, &[&options[..], more, &["--json"]].concat()));
    let short = run(&["--steps", "1000", "--checkpoint", "c"]);
    assert_eq!(short["steps"], 1024);
    run(&["--steps", "3000", "--resume", "c"]);
    let resumed = bytes(&place);
    run(&["--steps", "3000"]);
    assert!(bytes(&place) == resumed);
    for (batch, shown) in [
        ("1025", "1025"),
        ("18446744073709551615", "18446744073709552000"),
    ] {
        train(&place, &["--batch", batch]).refused(&format!(
            "--batch must be at least 1 and at most 1024, found {shown}"
        ));
    }
}

#[test]
fn a_rank_that_is_out_of_reach_from_zero_is_refused_soon() {
    let place = Place::new();
    // Eighteen features, but rows are copies of six.
    let row = |i: usize| format!("{} {}:1 {}:1\n", i % 3, 1 + i % 6, 18 - i % 6);
    place.write("train.svm", (0..300).map(row).collect::<String>());
    train(&place, &["--init", "zero", "--rank", "10", "--step-size", "1"]).refused(
        "train.svm: the triplets do not span rank 10 from zero: choose a smaller rank or another start",
    );
}

#[test]
fn values_beyond_the_precision_move_no_matrix() {
    for learner in LEARNERS {
        let place = place_with_data();
        let options = ["--learner", learner, "--steps", "200", "--quiet"];
        let options = [&options[..], rank(is_full(learner))].concat();
        assert_eq!(train(&place, &options).code, 0);
        let good = r#"{"query":{"1":1},"positive":{"2":1},"negative":{"9":1}}"#;
        let huge = r#"{"query":{"1":3.4e38,"2":3.4e38,"3":3.4e38},"positive":{"2":3e38},"negative":{"9":1}}"#;
        place.write("s.jsonl", format!("{good}\n{huge}\n{good}\n"));
        let said = place.run(&["update", "m", "s.jsonl", "-o", "m2", "--json"]);
        assert_eq!(json(&said)["steps"], 3, "{learner}");
        assert_eq!(
            place
                .run(&["eval", "m2", "test.svm", "--score", "dot"])
                .code,
            0,
            "{learner}"
        );
    }
}

#[test]
fn stdin_and_stdout_serve_one_purpose() {
    let place = place_with_data();
    assert_eq!(
        train(&place, &["--rank", "2", "--steps", "50", "--quiet"]).code,
        0
    );
    let twice = "`-` stands for two inputs, but stdin can be read once";
    place
        .run(&["predict", "m", "-", "--rows", "-"])
        .refused(twice);
    place
        .run(&["eval", "m", "-", "--labels", "-"])
        .refused(twice);
    place
        .run(&["neighbors", "m", "-", "--objects", "-"])
        .refused(twice);
    train(&place, &["--labels", "-", "--triplets", "-"]).refused(twice);
    train(&place, &["--curve", "-"]).refused("--curve needs a file, not `-`");
    train(&place, &["--checkpoint", "-"]).refused("--checkpoint needs a file, not `-`");
}

#[test]
fn a_resumed_run_needs_the_same_names() {
    let place = Place::new();
    let table = |head: &str| {
        let row = |i: usize| format!("{},{},{},1\n", i % 2, i % 2 + i % 3, i % 5);
        format!("label,{head}\n{}", (0..40).map(row).collect::<String>())
    };
    place.write("a.csv", table("x,y,z"));
    place.write("b.csv", table("y,x,z"));
    let run = |data: &str, more: &[&str]| {
        let options = [
            "--rank",
            "2",
            "--step-size",
            "0.1",
            "--steps",
            "100",
            "-o",
            "m",
        ];
        place.run(&[&["train", "similarity", data][..], &options, more].concat())
    };
    assert_eq!(run("a.csv", &["--checkpoint", "c", "--quiet"]).code, 0);
    run("b.csv", &["--resume", "c", "--quiet"])
        .refused("c: the checkpoint was made with other data");
}

/// Rows of six classes: four in ten of their features are those of the class.
fn topics(place: &Place, name: &str, count: u64, seed: u64) {
    let mut text = String::new();
    for i in 0..count {
        let class = i % 6;
        let draw = |t: u64, below: u64| {
            rankfold::data::split_key(seed, (i * 100 + t) * 1_000 + below) % below
        };
        let feature = |t: u64| match draw(t, 10) < 4 {
            true => class * 10 + draw(t, 11).min(draw(t + 50, 11)).min(9),
            false => draw(t, 60),
        };
        let features: std::collections::BTreeSet<u64> = (0..8).map(feature).collect();
        text += &class.to_string();
        features
            .iter()
            .for_each(|j| text += &format!(" {}:1", j + 1));
        text.push('\n');
    }
    place.write(name, text);
}

/// Steps on the core matrix as long as those of LORETA would make it collapse. The size
/// that is chosen does not.
#[test]
fn manifold_identification_chooses_its_inner_steps() {
    let place = Place::new();
    topics(&place, "train.svm", 600, 1);
    topics(&place, "test.svm", 300, 2);
    let with = |more: &[&str]| {
        let options = ["--rank", "5", "--steps", "20000", "--step-size", "0.1"];
        let report = json(&train(&place, &[&options[..], more, &["--json"]].concat()));
        (report, map(&place).0)
    };
    let learner = ["--learner", "manifold-identification"];
    let (_, loreta) = with(&["--learner", "loreta"]);
    let (report, chosen) = with(&learner);
    assert!(chosen > 0.85 * loreta, "{chosen} {loreta}");
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 7);
    let tried = |t: &Value| t["settings"]["inner_size"] == report["inner_size"];
    assert!(trials.iter().any(tried), "{report}");
    let (report, collapsed) = with(&[&learner[..], &["--inner-size", "0.05"]].concat());
    assert_eq!(report["inner_size"], 0.05);
    assert!(collapsed < 0.6 * loreta, "{collapsed} {loreta}");
    // With one of them between full steps there are more of these.
    let (_, fewer) = with(&[&learner[..], &["--inner-steps", "1"]].concat());
    assert!(fewer != chosen);
    let info = json(&place.run(&["info", "m", "--json"]));
    assert_eq!(info["inner_steps"], 1);
    train(&place, &["--inner-size", "1"])
        .refused("--inner-size applies only to `manifold-identification`");
}

#[test]
fn learners_run_as_they_were_published() {
    let place = Place::new();
    topics(&place, "train.svm", 300, 1);
    let info = |more: &[&str]| {
        let said = train(&place, &[&["--rank", "5"], more].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        json(&place.run(&["info", "m", "--json"]))
    };
    let published = info(&["--as-published", "--learner", "loreta"]);
    assert_eq!(published["step_limit"], Value::Null);
    assert_eq!(published["init"], "identity");
    assert_eq!(published["score"], "dot");
    // Options that say something else hold.
    let other = info(&["--as-published", "--step-limit", "1", "--init", "gaussian"]);
    assert_eq!(
        (&other["step_limit"], &other["init"]),
        (&1.0.into(), &"gaussian".into())
    );
    train(&place, &["--learner", "oasis", "--as-published"])
        .refused("--as-published applies only to learners on a manifold, such as `loreta-psd`");
}
