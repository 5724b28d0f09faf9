//! `train pairs` and what follows it.

use serde_json::{Value, json};

use crate::support::{Place, Said};

/// People and films with three features each, and values u(person) · v(film) of rank 2.
fn place() -> Place {
    let place = Place::new();
    let (mut people, mut films) = (
        "id,age,calm,odd\n".to_owned(),
        "id,loud,long,old\n".to_owned(),
    );
    let person = |i: usize| (1.0 + (i % 5) as f64, (i % 3) as f64 - 1.0);
    let film = |j: usize| ((j % 4) as f64 - 1.5, 1.0 + (j % 2) as f64);
    for i in 0..15 {
        let (age, calm) = person(i);
        people += &format!("p{i},{age},{calm},{}\n", i % 2);
    }
    for j in 0..8 {
        let (loud, long) = film(j);
        films += &format!("f{j},{loud},{long},{}\n", j % 3);
    }
    let (mut train, mut test) = ("left,right,value\n".to_owned(), String::new());
    for i in 0..15 {
        for j in 0..8 {
            let ((age, calm), (loud, long)) = (person(i), film(j));
            let value = 0.5 * age * loud - 2.0 * calm * long;
            match (i + 3 * j) % 7 {
                0 => test += &format!("p{i}\tf{j}\t{value}\n"),
                _ => train += &format!("p{i},f{j},{value}\n"),
            }
        }
    }
    place.write("people.csv", people);
    place.write("films.csv", films);
    place.write("train.csv", train);
    place.write("test.tsv", test);
    place
}

const RUN: [&str; 9] = [
    "train",
    "pairs",
    "people.csv",
    "--objects",
    "films.csv",
    "--pairs",
    "train.csv",
    "--seed",
    "3",
];

fn train(place: &Place, more: &[&str]) -> Said {
    // An option of `more` takes the place of that of `RUN`.
    let rank = match more.contains(&"--rank") {
        true => &[][..],
        false => &["--rank", "2"],
    };
    place.run(&[&RUN[..], rank, &["-o", "m"], more].concat())
}

const EVAL: [&str; 7] = [
    "eval",
    "m",
    "people.csv",
    "--objects",
    "films.csv",
    "--pairs",
    "test.tsv",
];

#[test]
fn pairs_go_through_every_command() {
    let place = place();
    let more = ["--epochs", "50", "--step-size", "0.01", "--json"];
    let trained = train(&place, &more).json();
    let want = json!({
        "format": 1, "task": "pairs", "learner": "balanced", "rank": 2, "steps": 5100,
        "updates": trained["updates"], "refused": 0, "step_size": 0.01, "seed": 3,
        "stopped": "steps", "model": "m", "metrics": {}, "trials": [],
    });
    assert_eq!(trained, want);

    let found = place.run(&[&EVAL[..], &["--json"]].concat()).json();
    assert_eq!(
        (&found["task"], &found["rows"]),
        (&json!("pairs"), &json!(18))
    );
    assert_eq!(found["baseline"]["name"], "mean");
    let rmse = |found: &Value| found["metrics"]["rmse"].as_f64().unwrap();
    assert!(rmse(&found) < 0.02, "{found}");
    assert!(rmse(&found["baseline"]) > 2.0, "{found}");
    assert!(found["metrics"]["mae"].as_f64().unwrap() <= rmse(&found));
    let said = place.run(&EVAL);
    assert!(said.stdout.contains("rmse") && said.stdout.contains("18 pairs"));
    let beside = place.run(&[&EVAL[..], &["--train", "train.csv", "--json"]].concat());
    let beside = beside.json();
    let name = |i: usize| beside["baselines"][i]["name"].as_str().unwrap().to_owned();
    assert_eq!((name(0), name(1)), ("mean".into(), "sides".into()));
    assert_eq!(beside["metrics"], found["metrics"]);
    let sides = rmse(&beside["baselines"][1]);
    assert!(sides.is_finite() && sides != rmse(&beside["baselines"][0]));

    let predict = |input: &str, more: &[&str]| {
        let run = [
            "predict",
            "m",
            "-",
            "--rows",
            "people.csv",
            "--objects",
            "films.csv",
        ];
        place.run_with(&[&run[..], more].concat(), input)
    };
    let said = predict("p0 f0\np4 f3\nnobody f0\n", &[]);
    let values: Vec<f64> = said.stdout.lines().map(|l| l.parse().unwrap()).collect();
    assert!((values[0] - 1.25).abs() < 0.05, "{values:?}");
    assert!((values[1] - 3.75).abs() < 0.05, "{values:?}");
    let info = place.run(&["info", "m", "--json"]).json_without_seconds();
    assert_eq!(Some(values[2]), info["target_mean"].as_f64());
    assert!(said.stderr.contains("1 pairs name a row that is not there"));
    predict("nobody f0\n", &["--strict"]).refused("-:1: no row is called `nobody`");

    assert_eq!(
        (&info["form"], &info["shape"]),
        (&json!("factored"), &json!([3, 3]))
    );
    assert_eq!(info["singular_values"].as_array().unwrap().len(), 2);
    let said = place.run(&[
        "neighbors",
        "m",
        "people.csv",
        "--objects",
        "films.csv",
        "--query",
        "p0",
        "-k",
        "1",
    ]);
    assert!(said.stdout.starts_with("p0\t1\tf"), "{}", said.stdout);
    let said = place.run(&[
        "transform",
        "m",
        "films.csv",
        "-o",
        "t.csv",
        "--side",
        "right",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
}

#[test]
fn every_learner_and_option_learns() {
    let place = place();
    for more in [
        &["--learner", "polar"][..],
        &[
            "--learner",
            "polar",
            "--retraction",
            "qf",
            "--precision",
            "f64",
        ],
        &["--learner", "loreta"],
        &["--learner", "gradient"],
        &[
            "--learner",
            "balanced",
            "--decay",
            "10000",
            "--precision",
            "f64",
        ],
        &["--learner", "balanced", "--regularization", "0.0001"],
        &["--learner", "polar", "--regularization", "0.0001"],
        &["--learner", "gradient", "--regularization", "0.0001"],
    ] {
        // The step size is chosen, and printed.
        let said = train(&place, &[more, &["--epochs", "60"]].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert!(
            said.stderr.contains("tried step size ") && said.stderr.contains(": rmse "),
            "{}",
            said.stderr
        );
        let found = place.run(&[&EVAL[..], &["--json"]].concat()).json();
        let rmse = found["metrics"]["rmse"].as_f64().unwrap();
        assert!(rmse < 0.3, "{more:?}: {found}");
        let info = place.run(&["info", "m", "--json"]).json_without_seconds();
        let regularized = more.contains(&"--regularization");
        assert_eq!(info.get("regularization").is_some(), regularized);
        assert_eq!(info.get("retraction").is_some(), more.contains(&"polar"));
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_a_resumed_run_too() {
    let place = place();
    for learner in ["balanced", "polar", "loreta", "gradient"] {
        let options = [
            "--learner",
            learner,
            "--epochs",
            "8",
            "--step-size",
            "0.01",
            "--valid-fraction",
            "0.1",
        ];
        let more: &[&str] = match learner {
            "loreta" => &[],
            _ => &["--regularization", "0.01"],
        };
        let options = [&options[..], more].concat();
        assert_eq!(train(&place, &options).code, 0);
        let whole = std::fs::read(place.path("m")).unwrap();
        train(&place, &options);
        assert_eq!(std::fs::read(place.path("m")).unwrap(), whole, "{learner}");
        // Half of the run, then the rest.
        let _ = std::fs::remove_file(place.path("c"));
        let half = [&options[..2], &["--epochs", "4"], &options[4..]].concat();
        let half = [
            &half[..],
            &[
                "--curve-every",
                "37",
                "--checkpoint",
                "c",
                "--checkpoint-every",
                "100",
            ],
        ]
        .concat();
        assert_eq!(train(&place, &half).code, 0);
        let rest = [&options[..], &["--resume", "c", "--curve-every", "37"]].concat();
        let said = train(&place, &rest);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let resumed = std::fs::read(place.path("m")).unwrap();
        train(&place, &[&options[..], &["--curve-every", "37"]].concat());
        assert_eq!(
            std::fs::read(place.path("m")).unwrap(),
            resumed,
            "{learner}"
        );
    }
    train(&place, &["--resume", "c"])
        .refused("c: the checkpoint was made with learner = gradient, this run asks for balanced");
}

#[test]
fn validation_keeps_the_best_and_patience_stops() {
    let place = place();
    let more = [
        "--epochs",
        "200",
        "--step-size",
        "0.02",
        "--valid",
        "test.tsv",
        "--patience",
        "3",
        "--curve",
        "curve.jsonl",
        "--curve-every",
        "103",
        "--json",
    ];
    let found = train(&place, &more).json();
    assert_eq!(found["stopped"], "patience");
    let kept = found["metrics"]["rmse"].as_f64().unwrap();
    let curve = place.read("curve.jsonl");
    let errors: Vec<f64> = curve
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["rmse"]
                .as_f64()
                .unwrap()
        })
        .collect();
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(kept, least);
    assert!(errors.len() > 4 && errors[errors.len() - 1] >= least);
    let eval = place.run(&[&EVAL[..], &["--json"]].concat()).json();
    assert!((eval["metrics"]["rmse"].as_f64().unwrap() - kept).abs() < 1e-5);
}

#[test]
fn a_model_goes_on_learning_with_new_features() {
    let place = place();
    for learner in ["balanced", "polar"] {
        train(
            &place,
            &[
                "--learner",
                learner,
                "--epochs",
                "20",
                "--step-size",
                "0.01",
            ],
        );
        let stream = "{\"left\":\"p1\",\"right\":\"f1\",\"value\":-2}\n\
                      {\"left\":{\"age\":1,\"tall\":1},\"right\":{\"loud\":1},\"value\":3}\n\
                      {\"left\":{\"new\":1},\"right\":{\"newer\":1},\"value\":1}\n";
        let update = [
            "update",
            "m",
            "s.jsonl",
            "-o",
            "n",
            "--rows",
            "people.csv",
            "--objects",
            "films.csv",
            "--json",
        ];
        place.write("s.jsonl", stream.repeat(30));
        let found = place.run(&update).json();
        assert_eq!(
            (&found["task"], &found["steps"]),
            (&json!("pairs"), &json!(90))
        );
        assert_eq!(
            (&found["new_features"], &found["new_object_features"]),
            (&json!(2), &json!(1))
        );
        assert_eq!(found["seeded"], 1);
        assert_eq!(found["refused"], 0, "{found}");
        // Two sittings give the bytes of one.
        place.write("s.jsonl", stream.repeat(15));
        place.run(&update);
        let again = [
            "update",
            "n",
            "s.jsonl",
            "-o",
            "n",
            "--rows",
            "people.csv",
            "--objects",
            "films.csv",
        ];
        place.run(&update[..update.len() - 1]);
        place.run(&again);
        let two = std::fs::read(place.path("n")).unwrap();
        place.write("s.jsonl", stream.repeat(30));
        place.run(&update);
        assert_eq!(std::fs::read(place.path("n")).unwrap(), two, "{learner}");
    }
    place.write(
        "bad.jsonl",
        "{\"left\":\"p1\",\"right\":\"f1\",\"value\":1}\n{\"left\":\"p1\",\"right\":\"f1\"}\n",
    );
    let said = place.run(&[
        "update",
        "m",
        "bad.jsonl",
        "-o",
        "n",
        "--rows",
        "people.csv",
        "--objects",
        "films.csv",
    ]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.ends_with("error: bad.jsonl:2: expected the fields `left`, `right` and `value` of a pair, found `left`, `right`\n"), "{}", said.stderr);
}

#[test]
fn rows_may_be_paired_with_each_other() {
    let place = Place::new();
    place.write("rows.svm", "0 1:1\n0 2:1\n0 3:1\n0 4:1\n");
    place.write("p.txt", "0 1 2\n1 2 -1\n2 0 4\n1 0 0.5\n0 0 1\n");
    let run = [
        "train", "pairs", "rows.svm", "--pairs", "p.txt", "-o", "m", "--rank", "2", "--epochs",
        "2000",
    ];
    let said = place.run(&run);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let found = place
        .run(&["eval", "m", "rows.svm", "--pairs", "p.txt", "--json"])
        .json();
    assert!(found["metrics"]["rmse"].as_f64().unwrap() < 0.1, "{found}");
    // W is not symmetric.
    let said = place.run_with(&["predict", "m", "-", "--rows", "rows.svm"], "0 1\n1 0\n");
    let values: Vec<f64> = said.stdout.lines().map(|l| l.parse().unwrap()).collect();
    assert!(
        (values[0] - 2.0).abs() < 0.2 && (values[1] - 0.5).abs() < 0.2,
        "{values:?}"
    );
}

#[test]
fn bad_input_says_what_is_wrong() {
    let place = place();
    place.write("m", "kept");
    let pairs = |text: &str| {
        place.write("bad.csv", text);
        let run = [
            "train",
            "pairs",
            "people.csv",
            "--objects",
            "films.csv",
            "--pairs",
            "bad.csv",
            "-o",
            "m",
            "--rank",
            "2",
        ];
        place.run(&run)
    };
    pairs("p0,f0,1\np0,f0,high\n").refused("bad.csv:2: expected a number as value, found `high`");
    pairs("p0,f0,NaN\n").refused("bad.csv:1: expected a number as value, found `NaN`");
    pairs("p0,f0,1e999\n").refused("bad.csv:1: the value `1e999` is too large");
    pairs("p0,f0\n").refused("bad.csv:1: expected 3 fields (left right value), found 2");
    pairs("p0,f9,1\n").refused("bad.csv:1: no object is called `f9`");
    pairs("p99,f0,1\n").refused("bad.csv:1: no row is called `p99`");
    pairs("").refused("bad.csv: expected lines `left right value`, found none");
    pairs("left,right,value\n").refused("bad.csv: expected lines `left right value`, found none");
    train(&place, &["--rank", "4"]).refused("people.csv: --rank is 4, above n_features = 3");
    place.write("wide.csv", "id,a,b,c,d\np0,1,2,3,4\n");
    let run = [
        "train",
        "pairs",
        "wide.csv",
        "--objects",
        "films.csv",
        "--pairs",
        "one.csv",
        "-o",
        "m",
        "--rank",
        "4",
    ];
    place.write("one.csv", "p0,f0,1\n");
    place
        .run(&run)
        .refused("films.csv: --rank is 4, above n_features = 3");
    train(&place, &["--rank", "0"]).refused("--rank must be at least 1, found 0");
    train(&place, &["--regularization=-1"])
        .refused("--regularization must be at least 0, found -1");
    train(&place, &["--learner", "loreta", "--regularization", "1"])
        .refused("--regularization applies only to learners other than `loreta`");
    train(&place, &["--retraction", "qf"])
        .refused("--retraction applies only to `--learner polar`");
    train(&place, &["--valid-fraction", "0.001"]).refused(
        "people.csv: --valid-fraction of 0.001 leaves none of the 102 pairs for validation",
    );
    train(&place, &["--patience", "2"])
        .refused("people.csv: --patience needs validation data: a share of the rows, or others");
    assert_eq!(place.read("m"), "kept");

    assert_eq!(
        train(&place, &["--steps", "10", "--step-size", "0.01"]).code,
        0
    );
    place
        .run(&["eval", "m", "people.csv", "--objects", "films.csv"])
        .refused("m: the model predicts values of pairs: give them with --pairs FILE");
    place
        .run(&["eval", "m", "people.csv", "--pairs", "test.tsv"])
        .refused("m: the model scores rows with objects: give them with --objects FILE");
    place.write("rows.svm", "0 1:1\n0 1:1 2:1\n1 3:1\n1 3:1 2:1\n");
    place.run(&[
        "train",
        "similarity",
        "rows.svm",
        "-o",
        "s",
        "--rank",
        "1",
        "--steps",
        "10",
        "--step-size",
        "1",
    ]);
    place
        .run(&["eval", "s", "rows.svm", "--pairs", "test.tsv"])
        .refused("--pairs does not apply to similarity models");
}

#[test]
fn no_steps_and_huge_values_leave_a_sound_model() {
    let place = place();
    assert_eq!(train(&place, &["--steps", "0"]).code, 0);
    place.write("huge.csv", "p0,f0,1e300\np1,f1,-1e300\np2,f2,1e-300\n");
    for learner in ["balanced", "polar", "loreta", "gradient"] {
        let run = [
            "train",
            "pairs",
            "people.csv",
            "--objects",
            "films.csv",
            "--pairs",
            "huge.csv",
            "-o",
            "m",
            "--rank",
            "2",
            "--learner",
            learner,
            "--steps",
            "50",
        ];
        let said = place.run(&run);
        assert!(said.code == 0 || said.code == 2, "{}", said.stderr);
        if said.code == 0 {
            let info = place.run(&["info", "m", "--json"]).json_without_seconds();
            let finite = |v: &Value| v.as_f64().is_some_and(f64::is_finite);
            assert!(
                info["singular_values"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(finite),
                "{info}"
            );
        }
    }
}

#[test]
fn batch_solvers_find_the_matrix() {
    let place = place();
    for (learner, solver, most) in [
        ("balanced", "cg", 1e-5),
        ("balanced", "descent", 0.2),
        ("polar", "cg", 1e-5),
        ("polar", "trust-region", 1e-5),
        ("loreta", "trust-region", 1e-5),
        ("gradient", "cg", 1e-3),
    ] {
        let more = [
            "--learner",
            learner,
            "--solver",
            solver,
            "--precision",
            "f64",
            "--valid",
            "test.tsv",
            "--curve",
            "curve.jsonl",
            "--json",
        ];
        let found = train(&place, &more).json();
        let want = json!({
            "format": 1, "task": "pairs", "learner": learner, "rank": 2, "steps": found["steps"],
            "updates": found["steps"], "refused": 0, "step_size": found["step_size"], "seed": 3,
            "stopped": found["stopped"], "model": "m", "metrics": found["metrics"],
            "trials": found["trials"],
        });
        assert_eq!(found, want);
        let rmse = found["metrics"]["rmse"].as_f64().unwrap();
        assert!(rmse < most, "{learner} {solver}: {found}");
        let stopped = found["stopped"].as_str().unwrap();
        assert!(["converged", "steps"].contains(&stopped));
        let points = place.read("curve.jsonl").lines().count() as u64;
        assert_eq!(Some(points), found["steps"].as_u64());
        // The same bytes again.
        let bytes = std::fs::read(place.path("m")).unwrap();
        train(&place, &more);
        assert_eq!(std::fs::read(place.path("m")).unwrap(), bytes);
        let eval = place.run(&[&EVAL[..], &["--json"]].concat()).json();
        assert!((eval["metrics"]["rmse"].as_f64().unwrap() - rmse).abs() < 1e-9);
        // It goes on online.
        let line = "{\"left\":{\"age\":1},\"right\":{\"loud\":1},\"value\":0.5}\n";
        let said = place.run_with(&["update", "m", "-o", "n", "--json"], line);
        assert_eq!(said.json()["steps"], 1);
    }
    let refused = [
        (
            ["--decay", "9"],
            "--decay applies only to `--solver online`",
        ),
        (
            ["--epochs", "9"],
            "--epochs applies only to `--solver online`",
        ),
        (
            ["--steps", "9"],
            "--steps applies only to `--solver online`",
        ),
    ];
    for (more, message) in refused {
        train(&place, &[&more[..], &["--solver", "cg"]].concat()).refused(message);
    }
    train(&place, &["--iterations", "9"])
        .refused("--iterations applies only to solvers other than `online`");
}

#[test]
fn the_first_step_of_descent_can_be_given() {
    let place = place();
    let after = |more: &[&str]| {
        let solver = ["--solver", "descent", "--iterations", "2", "--quiet"];
        let said = train(&place, &[&solver[..], more].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        std::fs::read(place.path("m")).unwrap()
    };
    let usual = after(&[]);
    assert!(after(&["--first-step", "0.001"]) != usual);
    train(&place, &["--solver", "cg", "--first-step", "1"])
        .refused("--first-step applies only to `--solver descent`");
}
