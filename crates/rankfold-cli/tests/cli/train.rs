use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Place, sealed};

/// Rows of five classes: two features of their class each, among many that
/// mean nothing, so that learning has something to find.
fn rows(count: usize, seed: u64) -> String {
    let mut state = seed;
    let mut below = |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut text = String::new();
    for i in 0..count {
        let class = i as u64 % 5;
        let mut features = vec![1 + 4 * class + below(4)];
        features.extend((0..6).map(|_| 21 + below(40)));
        features.sort_unstable();
        features.dedup();
        let listed: Vec<String> = features
            .iter()
            .map(|f| format!("{f}:{}", 1 + below(3)))
            .collect();
        text += &format!("{class} {}\n", listed.join(" "));
    }
    text
}

pub fn place_with_data() -> Place {
    let place = Place::new();
    place.write("train.svm", rows(300, 1));
    place.write("test.svm", rows(200, 2));
    place
}

/// The options that most tests share.
const RUN: [&str; 9] = [
    "train",
    "similarity",
    "train.svm",
    "--rank",
    "6",
    "--step-size",
    "1",
    "--seed",
    "3",
];

fn bytes(place: &Place, name: &str) -> Vec<u8> {
    std::fs::read(place.path(name)).expect("a file is there")
}

fn leftovers(place: &Place) -> Vec<String> {
    place
        .names()
        .into_iter()
        .filter(|name| name.starts_with(".rankfold"))
        .collect()
}

#[test]
fn a_similarity_is_trained_evaluated_and_described() {
    let place = place_with_data();
    for learner in ["loreta-psd", "loreta"] {
        let said = place.run(&[
            "train",
            "similarity",
            "train.svm",
            "-o",
            "m",
            "--learner",
            learner,
            "--rank",
            "6",
            "--steps",
            "8000",
            "--normalize",
            "l2",
            "--valid-fraction",
            "0.2",
            "--curve",
            "c.jsonl",
            "--json",
        ]);
        let trained = said.json();
        for (key, want) in [
            ("task", "similarity"),
            ("learner", learner),
            ("stopped", "steps"),
            ("model", "m"),
        ] {
            assert_eq!(trained[key], want, "{key}");
        }
        assert_eq!(
            (trained["format"].as_u64(), trained["rank"].as_u64()),
            (Some(1), Some(6))
        );
        assert_eq!(
            (trained["steps"].as_u64(), trained["refused"].as_u64()),
            (Some(8000), Some(0))
        );
        assert!(
            trained["updates"]
                .as_u64()
                .is_some_and(|u| u > 0 && u <= 8000)
        );
        assert!(trained["step_size"].as_f64().is_some_and(|s| s > 0.0));
        assert!(trained["metrics"]["map"].as_f64().is_some_and(|m| m > 0.0));

        let curve = place.read("c.jsonl");
        let points: Vec<serde_json::Value> = curve
            .lines()
            .map(|l| serde_json::from_str(l).expect("JSON"))
            .collect();
        assert_eq!(points.len(), 20);
        for key in [
            "steps",
            "updates",
            "seconds",
            "loss",
            "map",
            "precision_at_1",
            "precision_at_10",
        ] {
            assert!(points[19][key].is_number(), "{key}");
        }
        let best = points
            .iter()
            .filter_map(|p| p["map"].as_f64())
            .fold(0.0, f64::max);
        assert_eq!(trained["metrics"]["map"].as_f64(), Some(best));

        let found = place.run(&["eval", "m", "test.svm", "--json"]).json();
        let (map, baseline) = (
            found["metrics"]["map"].as_f64().unwrap(),
            found["baseline"]["metrics"]["map"].as_f64().unwrap(),
        );
        assert!(
            map > baseline + 0.1,
            "{learner}: {map} against cosine {baseline}"
        );
        assert_eq!(
            (found["rows"].as_u64(), found["skipped"].as_u64()),
            (Some(200), Some(0))
        );
        assert_eq!(found["baseline"]["name"], "cosine");
        let one = place
            .run(&["eval", "m", "test.svm", "--json", "--threads", "1"])
            .json();
        assert_eq!(one, found);

        let info = place.run(&["info", "m", "--json"]);
        let info: serde_json::Value = serde_json::from_str(&info.stdout).expect("JSON");
        let sigma: Vec<f64> = info["singular_values"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|v| v.as_f64())
            .collect();
        assert_eq!(sigma.len(), 6);
        assert!(sigma.iter().all(|&s| s > 0.0) && sigma.is_sorted_by(|a, b| a >= b));
        assert_eq!(info["learner"], learner);
        assert_eq!(info["preprocess"]["normalize"], true);
    }
}

#[test]
fn early_stopping_keeps_the_best_model() {
    let place = place_with_data();
    let said = place.run(&[
        "train",
        "similarity",
        "train.svm",
        "-o",
        "m",
        "--rank",
        "6",
        "--step-size",
        "30",
        "--steps",
        "400000",
        "--curve-every",
        "500",
        "--valid",
        "test.svm",
        "--patience",
        "3",
        "--json",
    ]);
    let trained = said.json();
    assert_eq!(trained["stopped"], "patience");
    assert!(trained["steps"].as_u64().is_some_and(|s| s < 400_000));
    let found = place.run(&["eval", "m", "test.svm", "--json"]).json();
    assert_eq!(found["metrics"], trained["metrics"]);
}

#[test]
fn runs_with_checkpoints_kills_and_other_threads_give_the_same_bytes() {
    let place = place_with_data();
    let run = |more: &[&str]| {
        let said = place.run(
            &[
                &RUN[..],
                &["--steps", "30000", "--valid-fraction", "0.1"],
                more,
            ]
            .concat(),
        );
        assert_eq!(said.code, 0, "{}", said.stderr);
    };
    run(&["-o", "plain", "--threads", "1"]);
    run(&["-o", "threads", "--threads", "2"]);
    run(&[
        "-o",
        "checkpoints",
        "--checkpoint",
        "ck",
        "--checkpoint-every",
        "700",
    ]);
    assert_eq!(bytes(&place, "plain"), bytes(&place, "threads"));
    assert_eq!(bytes(&place, "plain"), bytes(&place, "checkpoints"));
    // The last checkpoint before the end, gone on with.
    run(&["-o", "resumed", "--resume", "ck"]);
    assert_eq!(bytes(&place, "plain"), bytes(&place, "resumed"));

    // Killed without warning at several moments, and gone on with.
    let started = std::time::Instant::now();
    run(&["-o", "timed"]);
    let whole = started.elapsed();
    let arguments = [
        &RUN[..],
        &[
            "--steps",
            "30000",
            "--valid-fraction",
            "0.1",
            "-o",
            "killed",
            "--checkpoint",
            "k",
            "--checkpoint-every",
            "300",
            "--resume",
            "k",
        ],
    ]
    .concat();
    for part in 1..=5 {
        let mut child = place
            .command(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        std::thread::sleep(whole * part / 8);
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }
    let said = place.run(&arguments);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(bytes(&place, "plain"), bytes(&place, "killed"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_loses_nothing() {
    let place = place_with_data();
    let arguments = [&RUN[..], &["--steps", "400000", "--curve-every", "1000"]].concat();
    let said = place.run(&[&arguments[..], &["-o", "plain"]].concat());
    assert_eq!(said.code, 0);
    // Checkpoints so rare that only the interrupt can write one.
    let interrupted = [
        &arguments[..],
        &[
            "-o",
            "m",
            "--json",
            "--curve",
            "c.jsonl",
            "--checkpoint-every",
            "1000000",
            "--checkpoint",
            "ck",
        ],
    ]
    .concat();
    let child = place
        .command(&interrupted)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // Once the curve has a point, training is under way.
    let started = std::time::Instant::now();
    while std::fs::read(place.path("c.jsonl")).map_or(true, |curve| curve.is_empty()) {
        assert!(started.elapsed() < Duration::from_secs(60), "no curve");
        std::thread::sleep(Duration::from_millis(5));
    }
    let signalled = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(signalled.expect("kill runs").success());
    let out = child.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(130));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(
        (&report["stopped"], &report["model"]),
        (&"interrupted".into(), &"ck".into())
    );
    assert!(!place.path("m").exists());
    let said = place.run(&[&arguments[..], &["-o", "m", "--resume", "ck"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(bytes(&place, "plain"), bytes(&place, "m"));
}

#[test]
fn listed_triplets_train_in_their_order() {
    let place = place_with_data();
    // Row i has class i mod 5.
    let lines: String = (0..250)
        .map(|i| format!("{i} {} {}\n", i + 5, i + 6))
        .collect();
    place.write("t.txt", &lines);
    let run = |more: &[&str], stdin: &str| {
        let said = place.run_with(&[&RUN[..], more].concat(), stdin);
        assert_eq!(said.code, 0, "{}", said.stderr);
    };
    run(&["-o", "a", "--triplets", "t.txt", "--epochs", "3"], "");
    run(&["-o", "b", "--triplets", "-", "--steps", "750"], &lines);
    assert_eq!(bytes(&place, "a"), bytes(&place, "b"));
    run(&["-o", "c", "--triplets", "t.txt"], "");
    let info = place.run(&["info", "c", "--json"]);
    let info: serde_json::Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["steps"], 250);
}

#[test]
fn tables_with_missing_cells_are_filled_and_standardized() {
    let place = Place::new();
    let mut table = String::from("label,a,b,c\n");
    for i in 0..60 {
        let class = i % 3;
        let a = if i % 7 == 0 {
            String::new()
        } else {
            format!("{}", 100 * class + i % 5)
        };
        table += &format!("class {class},{a},{},{}\n", (i * 37) % 11, (i * 17) % 13);
    }
    place.write("d.csv", &table);
    let said = place.run(&[
        "train",
        "similarity",
        "d.csv",
        "-o",
        "m",
        "--rank",
        "2",
        "--standardize",
        "global",
        "--steps",
        "3000",
        "--json",
    ]);
    assert_eq!(said.json()["refused"], 0);
    let found = place.run(&["eval", "m", "d.csv", "--json"]).json();
    assert!(found["metrics"]["map"].as_f64() > found["baseline"]["metrics"]["map"].as_f64());
    // Columns may stand in another order, but none may be missing.
    place.write("e.csv", "c,label,a,extra\n1,x,2,3\n2,x,3,4\n");
    place
        .run(&["eval", "m", "e.csv"])
        .refused("e.csv: the column `b` that the model knows is missing");
}

#[test]
fn bad_rows_are_refused_with_their_line() {
    let place = place_with_data();
    place.write("m", "old");
    let refused = |text: &str, message: &str| {
        place.write("bad.svm", text);
        let said = place.run(&["train", "similarity", "bad.svm", "-o", "m", "--rank", "1"]);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""));
        assert!(
            said.stderr.starts_with(&format!("error: {message}")),
            "{}",
            said.stderr
        );
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
        assert_eq!(place.read("m"), "old");
        assert!(leftovers(&place).is_empty());
    };
    refused("", "bad.svm: no rows");
    refused("0 1:1\n1 2", "bad.svm:2:");
    refused("0 1:1\n1 2:", "bad.svm:2:");
    refused("0 1:1\n1 0:1\n", "bad.svm:2:");
    refused("0 1:1\n1 4000000000:1\n", "bad.svm:2:");
    refused("0 1:1\n1 2:nan\n", "bad.svm:2:");
    refused("0 1:1\nx 2:1\n", "bad.svm:2:");
    refused(
        "0 1:1\n0 2:1\n",
        "bad.svm: triplets need rows of at least two classes, found 1",
    );
    refused(
        "0 1:1\n1 2:1\n",
        "bad.svm: triplets need a class with at least two rows",
    );
    refused(
        "0,1 1:1\n1 2:1\n",
        "bad.svm: row `0` has 2 labels, expected exactly one",
    );

    place
        .run(&["train", "similarity", "none.svm", "-o", "m"])
        .refused("none.svm: cannot read: No such file or directory (os error 2)");
    place
        .run(&[
            "train",
            "similarity",
            "train.svm",
            "-o",
            "m",
            "--rank",
            "61",
        ])
        .refused("train.svm: --rank is 61, above n_features = 60");
    place
        .run(&["train", "similarity", "train.svm", "-o", "no/m"])
        .refused("no/m: cannot write: its folder does not exist");
    place.write("t.txt", "0 5 1\n0 5 900\n");
    place
        .run(&[
            "train",
            "similarity",
            "train.svm",
            "-o",
            "m",
            "--triplets",
            "t.txt",
        ])
        .refused("t.txt:2: no row is called `900`");
    for option in [
        ["--rank", "0"],
        ["--step-size", "0"],
        ["--step-size", "nan"],
        ["--valid-fraction", "1"],
    ] {
        let said = place.run(
            &[
                &["train", "similarity", "train.svm", "-o", "m"],
                &option[..],
            ]
            .concat(),
        );
        assert_eq!(said.code, 2, "{option:?}");
    }
    assert_eq!(place.read("m"), "old");
}

#[test]
fn a_cut_gzip_is_refused() {
    let place = place_with_data();
    rankfold::data::write_atomically(place.path("cut.svm.gz"), |out| {
        out.write_all(rows(5000, 4).as_bytes())
    })
    .expect("a file is written");
    let whole = bytes(&place, "cut.svm.gz");
    place.write("cut.svm.gz", &whole[..whole.len() / 2]);
    let said = place.run(&["train", "similarity", "cut.svm.gz", "-o", "m"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.starts_with("error: cut.svm.gz:"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("ends too early"), "{}", said.stderr);
    assert!(!place.path("m").exists());
}

#[test]
fn damaged_and_newer_models_are_refused() {
    let place = place_with_data();
    let said = place.run(
        &[
            &RUN[..],
            &[
                "--steps",
                "100",
                "-o",
                "m",
                "--checkpoint",
                "ck",
                "--checkpoint-every",
                "50",
            ],
        ]
        .concat(),
    );
    assert_eq!(said.code, 0, "{}", said.stderr);
    let whole = bytes(&place, "m");
    let refused = |content: &[u8], part: &str| {
        place.write("bad", content);
        for verb in [&["info", "bad"][..], &["eval", "bad", "test.svm"]] {
            let said = place.run(verb);
            assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{part}");
            assert!(
                said.stderr.starts_with("error: bad: ") && said.stderr.contains(part),
                "{}",
                said.stderr
            );
        }
    };
    refused(&whole[..whole.len() / 2], "not a whole model file");
    refused(&whole[..5], "not a whole model file");
    refused(b"", "not a whole model file");
    let replaced = |from: &str, to: &str| {
        let at = whole
            .windows(from.len())
            .position(|w| w == from.as_bytes())
            .expect("it is there");
        let mut out = whole.clone();
        out.splice(at..at + from.len(), to.bytes());
        sealed(out)
    };
    refused(
        &replaced("\\\"format\\\":1", "\\\"format\\\":2"),
        "written in format 2",
    );
    refused(
        &replaced("\\\"rank\\\":6", "\\\"rank\\\":7"),
        "expected 7 columns",
    );
    refused(
        &replaced("\"rankfold\"", "\"another_\""),
        "not one that rankfold wrote",
    );
    // The last tensor before the checksum holds f32 rows: all ones is not a number.
    let mut poisoned = whole.clone();
    let end = poisoned.len() - 8;
    poisoned[end - 4..end].fill(0xff);
    refused(&sealed(poisoned), "not finite");

    let resume = |path: &str, more: &[&str]| {
        place.run(
            &[
                &RUN[..],
                &["--steps", "200", "-o", "n", "--resume", path],
                more,
            ]
            .concat(),
        )
    };
    resume("m", &[]).refused("m: a finished model, not a checkpoint: it cannot be resumed");
    resume("ck", &["--init", "gaussian"])
        .refused("ck: the checkpoint was made with init = none, this run asks for gaussian");
    place.write("train.svm", rows(300, 9));
    resume("ck", &[]).refused("ck: the checkpoint was made with other data");
    resume("none", &[]).refused("none: cannot read: No such file or directory (os error 2)");
    assert!(!place.path("n").exists());
}

#[test]
fn rank_one_and_full_rank_both_train() {
    let place = Place::new();
    place.write("d.svm", "0 1:1 2:.5\n0 1:.9 3:1\n1 2:1 3:.2\n1 2:.8 1:.1\n");
    for rank in ["1", "3"] {
        for learner in ["loreta", "loreta-psd"] {
            for precision in ["f32", "f64"] {
                for init in ["identity", "gaussian"] {
                    let said = place.run(&[
                        "train",
                        "similarity",
                        "d.svm",
                        "-o",
                        "m",
                        "--rank",
                        rank,
                        "--learner",
                        learner,
                        "--precision",
                        precision,
                        "--init",
                        init,
                        "--steps",
                        "500",
                    ]);
                    assert_eq!(said.code, 0, "{}", said.stderr);
                    let found = place.run(&["eval", "m", "d.svm", "--json"]).json();
                    assert_eq!(found["rows"], 4);
                }
            }
        }
    }
}

#[test]
fn cells_missing_in_later_files_only_get_the_training_mean() {
    let place = Place::new();
    let mut table = String::from("label,a,b\n");
    for i in 0..40 {
        table += &format!("c{},{},{}\n", i % 2, 10 * (i % 2) + i % 3, 5 + i % 4);
    }
    place.write("train.csv", &table);
    let said = place.run(&[
        "train",
        "similarity",
        "train.csv",
        "-o",
        "m",
        "--rank",
        "2",
        "--standardize",
        "global",
        "--steps",
        "2000",
        "--json",
    ]);
    assert_eq!(said.json()["steps"], 2000);
    // The mean of b over the training rows is 6.5.
    let (mut empty, mut filled) = (String::from("label,a,b\n"), String::from("label,a,b\n"));
    for i in 0..12 {
        let start = format!("c{},{}", i % 2, 10 * (i % 2) + i % 3);
        empty += &format!("{start},\n");
        filled += &format!("{start},6.5\n");
    }
    place.write("empty.csv", &empty);
    place.write("filled.csv", &filled);
    let eval = |file: &str| place.run(&["eval", "m", file, "--json"]).json();
    assert_eq!(eval("empty.csv"), eval("filled.csv"));
}

#[test]
fn validation_without_a_pair_is_refused() {
    let place = place_with_data();
    place.write("v.svm", "0 1:1\n1 2:1\n2 3:1\n");
    place
        .run(&[
            "train",
            "similarity",
            "train.svm",
            "-o",
            "m",
            "--valid",
            "v.svm",
        ])
        .refused("train.svm: validation needs two rows of the same class at least, found none");
    for (option, value) in [("--patience", "0"), ("--curve-every", "0")] {
        let said = place.run(&[
            "train",
            "similarity",
            "train.svm",
            "-o",
            "m",
            "--valid-fraction",
            "0.5",
            option,
            value,
        ]);
        assert_eq!(said.code, 2, "{option}");
    }
    assert!(!place.path("m").exists());
}

#[test]
fn no_command_replaces_what_it_reads() {
    let place = place_with_data();
    let before = place.read("train.svm");
    let refused = |arguments: &[&str], message: &str| {
        place.run(arguments).refused(message);
        assert_eq!(place.read("train.svm"), before);
    };
    let train = ["train", "similarity", "train.svm", "-o"];
    refused(
        &[&train[..], &["./train.svm"]].concat(),
        "./train.svm: cannot write: this file is read by the same command",
    );
    for option in ["--curve", "--checkpoint"] {
        let message = "train.svm: cannot write: this file is read by the same command";
        refused(&[&train[..], &["m", option, "train.svm"]].concat(), message);
    }
    refused(
        &[&train[..], &["m", "--checkpoint", "m"]].concat(),
        "m: cannot write: two outputs have this name",
    );
    refused(
        &[&train[..], &["."]].concat(),
        ".: cannot write: this is a directory",
    );
    place.write("x.train.svm", &before);
    place
        .run(&["split", "x.train.svm", "-o", "x"])
        .refused("x.train.svm: cannot write: this file is read by the same command");
    place.write("rows.csv", "label,a\nx,1\nx,2\ny,3\ny,4\n");
    let said = place.run(&[
        "train",
        "similarity",
        "rows.csv",
        "-o",
        "t",
        "--rank",
        "1",
        "--steps",
        "10",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    place
        .run(&["transform", "t", "rows.csv", "-o", "rows.csv"])
        .refused("rows.csv: cannot write: this file is read by the same command");
    place.write("d.jsonl", "{\"text\":\"a b\",\"label\":\"x\"}\n");
    place
        .run(&["vectorize", "d.jsonl", "-o", "d.jsonl", "--fit", "v.json"])
        .refused("d.jsonl: cannot write: this file is read by the same command");
}

#[test]
fn triplets_that_change_nothing_are_no_updates() {
    let place = Place::new();
    place.write("d.svm", "0 1:1\n0 1:1\n1 1:1\n1 1:1\n");
    let said = place.run(&[
        "train",
        "similarity",
        "d.svm",
        "-o",
        "m",
        "--rank",
        "1",
        "--steps",
        "200",
        "--json",
    ]);
    let trained = said.json();
    assert_eq!(
        (&trained["steps"], &trained["updates"]),
        (&200.into(), &0.into())
    );
}

#[test]
fn rows_and_models_go_through_pipes() {
    let place = place_with_data();
    let said = place.run(&[&RUN[..], &["--steps", "500", "-o", "m"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let rows = place.read("train.svm");
    let piped = [
        "train",
        "similarity",
        "-",
        "--rank",
        "6",
        "--step-size",
        "1",
        "--seed",
        "3",
        "--steps",
        "500",
        "-o",
        "n",
    ];
    let said = place.run_with(&piped, &rows);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(bytes(&place, "m"), bytes(&place, "n"));
    let test = place.read("test.svm");
    let found = place.run_with(&["eval", "m", "-", "--json"], &test).json();
    assert_eq!(
        found,
        place.run(&["eval", "m", "test.svm", "--json"]).json()
    );

    let out = place
        .command(&[&RUN[..], &["--steps", "500", "-o", "-", "--quiet"]].concat())
        .output()
        .expect("the binary runs");
    assert_eq!(
        (out.status.code(), out.stdout),
        (Some(0), bytes(&place, "m"))
    );
}
