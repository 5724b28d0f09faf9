//! `train ranking` and what follows it.

use serde_json::{Value, json};

use crate::support::{Place, Said};

/// Rows whose features tell their labels: feature 1 label 0, and so on; the last
/// rows have no labels, and all.
fn place() -> Place {
    let place = Place::new();
    let mut train = String::new();
    for i in 0..120 {
        let (a, b) = (i % 6, (i / 6) % 6);
        let labels = match a.cmp(&b) {
            std::cmp::Ordering::Less => format!("{a},{b}"),
            std::cmp::Ordering::Equal => a.to_string(),
            std::cmp::Ordering::Greater => format!("{b},{a}"),
        };
        let (low, high) = (a.min(b) + 1, a.max(b) + 1);
        let features = match low == high {
            true => format!("{low}:1"),
            false => format!("{low}:1 {high}:1"),
        };
        train += &format!("{labels} {features} {}:0.2\n", 7 + i % 5);
    }
    let test = "0,3 1:1 4:1 # a\n5 6:1 # b\n 2:1 # no labels\n1,2 2:1 3:1 8:1 # c\n";
    place.write("train.svm", format!("{train} 1:1 2:1\n0,1,2,3,4,5 3:1\n"));
    place.write("test.svm", test);
    place.write("names.txt", "sea\nsky\nsun\ntree\nhouse\ndog\n");
    place
}

fn train(place: &Place, more: &[&str]) -> Said {
    let run = [
        "train",
        "ranking",
        "train.svm",
        "-o",
        "m",
        "--seed",
        "3",
        "--rank",
        "5",
        "--step-size",
        "0.3",
        "--init",
        "zero",
    ];
    place.run(&[&run[..], more].concat())
}

const NAMES: [&str; 2] = ["--label-names", "names.txt"];

fn metrics(found: &Value) -> Vec<&String> {
    found.as_object().unwrap().keys().collect()
}

#[test]
fn a_ranking_goes_through_every_command() {
    let place = place();
    let trained = train(&place, &[&NAMES[..], &["--json"]].concat()).json();
    let want = json!({
        "format": 1, "task": "ranking", "learner": "loreta", "rank": 5, "steps": 1200,
        "updates": trained["updates"], "refused": 0, "step_size": 0.3, "seed": 3,
        "stopped": "steps", "model": "m", "metrics": {}, "skipped": 2, "trials": [],
    });
    assert_eq!(trained, want);

    let found = place.run(&["eval", "m", "test.svm", "--json"]).json();
    let names = ["map", "precision_at_1", "precision_at_10"];
    assert_eq!(metrics(&found["metrics"]), names);
    assert_eq!(found["baseline"]["name"], "popularity");
    assert_eq!(metrics(&found["baseline"]["metrics"]), names);
    assert_eq!((&found["rows"], &found["skipped"]), (&json!(3), &json!(1)));
    assert_eq!(found["task"], "ranking");
    assert_eq!(found["metrics"]["map"], 1.0);
    let said = place.run(&["eval", "m", "test.svm"]);
    assert!(said.stdout.contains("popularity"), "{}", said.stdout);
    assert!(said.stdout.contains("3 rows, 1 skipped"), "{}", said.stdout);

    let said = place.run(&[
        "rank", "m", "test.svm", "--query", "b", "--query", "a", "-k", "2",
    ]);
    let lines: Vec<Vec<&str>> = said
        .stdout
        .lines()
        .map(|l| l.split('\t').collect())
        .collect();
    let first: Vec<&[&str]> = lines.iter().map(|line| &line[..3]).collect();
    assert_eq!(first[0], ["b", "1", "dog"]);
    assert_eq!((first.len(), first[2][..2].to_vec()), (4, vec!["a", "1"]));
    let (mut best, mut scores) = ([first[2][2], first[3][2]], Vec::new());
    best.sort_unstable();
    assert_eq!(best, ["sea", "tree"]);
    for line in &lines {
        scores.push(line[3].parse::<f64>().unwrap());
    }
    // Rows that have no labels are ranked for as well, from stdin too.
    let said = place.run_with(&["rank", "m", "-k", "1"], " 2:1 8:0.2\n");
    assert!(said.stdout.starts_with("0\t1\tsky\t"), "{}", said.stdout);
    let found = place.run(&["rank", "m", "test.svm", "--query", "b", "-k", "1", "--json"]);
    let found = found.json();
    let want = json!({
        "format": 1, "task": "ranking", "k": 1,
        "queries": [{"query": "b", "labels": [{"id": "dog", "score": scores[0]}]}],
    });
    assert_eq!(found, want);

    // Labels by name or by number; what is not there gets its bias.
    place.write("pairs.txt", "b dog\nb\t5\nnobody dog\nb cat\n");
    let predict = ["predict", "m", "pairs.txt", "--rows", "test.svm"];
    let found = place.run(&[&predict[..], &["--json"]].concat()).json();
    assert_eq!(
        (&found["unknown"], &found["task"]),
        (&json!(2), &json!("ranking"))
    );
    assert_eq!(found["scores"][0], scores[0]);
    assert_eq!(found["scores"][1], scores[0]);
    assert!(found["scores"][2].as_f64() > found["scores"][3].as_f64());
    let said = place.run(&predict);
    assert_eq!(said.stdout.lines().count(), 4);
    assert_eq!(
        said.stderr,
        "2 pairs name a row or a label that is not there; their score is the bias of the label\n"
    );
    place.write("strict.txt", "b cat\n");
    place
        .run(&[
            "predict",
            "m",
            "strict.txt",
            "--rows",
            "test.svm",
            "--strict",
        ])
        .refused("strict.txt:1: no label is called `cat`");

    let info = place.run(&["info", "m", "--json"]).json_without_seconds();
    assert_eq!(info["task"], "ranking");
    assert_eq!(
        (&info["shape"], &info["labels"]),
        (&json!([11, 6]), &json!(6))
    );
    assert_eq!(
        (&info["sampler"], &info["gradient"]),
        (&json!("top"), &json!("single"))
    );
    assert_eq!(info["singular_values"].as_array().unwrap().len(), 5);
    let said = place.run(&["transform", "m", "test.svm", "-o", "points.csv"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
}

#[test]
fn streams_bring_new_labels_and_features() {
    let place = place();
    assert_eq!(train(&place, &NAMES).code, 0);
    place.write(
        "more.jsonl",
        "{\"row\":\"b\",\"labels\":[5]}\n\
         {\"row\":{\"20\":1},\"labels\":[\"cat\",\"dog\"]}\n\
         {\"row\":{\"1\":1},\"labels\":[]}\n\
         {\"row\":{\"1\":1},\"labels\":[0,1,2,3,4,5,\"cat\"]}\n",
    );
    let update = [
        "update",
        "m",
        "more.jsonl",
        "--rows",
        "test.svm",
        "-o",
        "m2",
    ];
    let found = place.run(&[&update[..], &["--json"]].concat()).json();
    for (name, want) in [
        ("task", json!("ranking")),
        ("lines", json!(4)),
        ("steps", json!(2)),
        ("new_features", json!(9)),
        ("new_labels", json!(1)),
        ("labels", json!(7)),
        ("skipped", json!(2)),
        ("stopped", json!("end")),
        ("total_steps", json!(1202)),
    ] {
        assert_eq!(found[name], want, "{name}");
    }
    let said = place.run(&["rank", "m2", "test.svm", "--query", "b", "-k", "7"]);
    assert_eq!(said.stdout.lines().count(), 7);
    assert!(said.stdout.contains("\tcat\t"));
    for (line, want) in [
        (
            "{\"query\":1,\"positive\":2,\"negative\":3}",
            "expected the fields `row` and `labels`, found `query`, `positive`, `negative`",
        ),
        (
            "{\"row\":{\"1\":1},\"labels\":[6]}",
            "label 6 has no name: expected a number from 0 to 5, or a text",
        ),
        (
            "{\"row\":{\"1\":1},\"labels\":[\"6\"]}",
            "label 6 has no name: expected a number from 0 to 5, or a text",
        ),
        (
            "{\"row\":{\"1\":1},\"labels\":[\"\"]}",
            "expected the name of a label, found an empty text",
        ),
        (
            "{\"row\":\"x\",\"labels\":[\"sea\"]}",
            "column 10: no row is called `x`",
        ),
        (
            "{\"row\":{\"1\":1e99},\"labels\":[0]}",
            "column 17: the value 1e99 is too large for f32",
        ),
    ] {
        place.write(
            "bad.jsonl",
            format!("{{\"row\":{{\"1\":1}},\"labels\":[0]}}\n{line}\n"),
        );
        let said = place.run(&["update", "m", "bad.jsonl", "--rows", "test.svm", "-o", "m3"]);
        let note = "`m3` holds what was learned from the 1 rows before\n";
        let want = format!("{note}error: bad.jsonl:2: {want}\n");
        assert_eq!((said.code, said.stderr), (2, want), "{line}");
    }
}

#[test]
fn a_resumed_run_and_two_sittings_give_the_same_bytes() {
    let place = place();
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    let more = ["--valid-fraction", "0.2", "--average", "--sampler", "warp"];
    assert_eq!(train(&place, &more).code, 0);
    let whole = bytes("m");
    let checkpoint = ["--checkpoint", "c", "--checkpoint-every", "70"];
    assert_eq!(train(&place, &[&more[..], &checkpoint].concat()).code, 0);
    assert!(bytes("m") == whole);
    // The last checkpoint is not the end of the run.
    assert_eq!(
        train(&place, &[&more[..], &["--resume", "c"]].concat()).code,
        0
    );
    assert!(bytes("m") == whole);
    train(&place, &["--resume", "c"])
        .refused("c: the checkpoint was made with sampler = warp, this run asks for none");
    place
        .run(&[
            "train",
            "similarity",
            "test.svm",
            "-o",
            "x",
            "--resume",
            "c",
        ])
        .refused("c: a checkpoint of `train ranking`, expected one of `train similarity`");

    let given = ["--order", "given", "--popularity", "0", "--epochs", "1"];
    let given = [&NAMES[..], &given].concat();
    let all = place.read("train.svm");
    let lines: Vec<&str> = all.lines().take(120).collect();
    place.write("train.svm", lines.join("\n"));
    assert_eq!(train(&place, &given).code, 0);
    let whole = bytes("m");
    place.write("train.svm", lines[..90].join("\n"));
    assert_eq!(train(&place, &given).code, 0);
    place.write("rest.svm", lines[90..].join("\n"));
    let stream: String = (0..30)
        .map(|i| {
            let labels = lines[90 + i].split(' ').next().unwrap();
            format!("{{\"row\":{i},\"labels\":[{labels}]}}\n")
        })
        .collect();
    let said = place.run_with(&["update", "m", "-o", "m", "--rows", "rest.svm"], &stream);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(bytes("m") == whole);
}

#[test]
fn every_learner_and_option_learns() {
    let place = place();
    for options in [
        &["--learner", "passive-aggressive", "--aggressiveness", "1"][..],
        &["--learner", "perceptron", "--step-size", "0.3"],
        &["--learner", "group-perceptron", "--step-size", "0.3"],
        &[
            "--sampler",
            "top",
            "--gradient",
            "summed",
            "--init",
            "zero",
            "--step-size",
            "0.1",
        ],
        &["--step-size", "0.3"],
        &["--sampler", "warp", "--epochs", "30", "--step-size", "1"],
        &["--init", "identity", "--step-size", "0.3"],
        &["--init", "gaussian", "--step-size", "0.3"],
        &["--average", "--epochs", "10", "--step-size", "0.3"],
        &["--seed", "1"],
        &[
            "--init",
            "zero",
            "--bias-step",
            "0",
            "--popularity",
            "0",
            "--precision",
            "f64",
        ],
        &["--weight", "tfidf", "--normalize", "l2"],
    ] {
        let run = ["train", "ranking", "train.svm", "-o", "m", "--quiet"];
        let rank = match options[1].ends_with("perceptron") {
            true => &[][..],
            false => &["--rank", "5"],
        };
        let said = place.run(&[&run[..], rank, options].concat());
        assert_eq!(said.code, 0, "{options:?}: {}", said.stderr);
        let found = place.run(&["eval", "m", "test.svm", "--json"]).json();
        let map = |side: &Value| side["metrics"]["map"].as_f64().unwrap();
        let (model, baseline) = (map(&found), map(&found["baseline"]));
        assert!(
            model > baseline + 0.1,
            "{options:?}: {model} and {baseline}"
        );
    }
}

#[test]
fn bad_input_is_refused_and_old_files_stay() {
    let place = place();
    place.write("m", "old");
    let with = |text: &str, more: &[&str]| {
        place.write("bad.svm", text);
        let run = ["train", "ranking", "bad.svm", "-o", "m", "--step-size", "1"];
        // A full matrix has no rank to choose.
        let rank = match more.contains(&"perceptron") {
            true => &[][..],
            false => &["--rank", "1"],
        };
        place.run(&[&run[..], rank, more].concat())
    };
    with("0 1:1\n0,6 2:1\n", &NAMES)
        .refused("bad.svm: row `1` has label 6, expected a number from 0 to 5: there are 6 names");
    with("0 1:1\n-1 2:1\n", &NAMES)
        .refused("bad.svm: row `1` has label -1, expected a number from 0 to 5: there are 6 names");
    with("", &[]).refused("bad.svm: no rows");
    with(" 1:1\n", &[]).refused("bad.svm: a ranking needs two labels at least, found 0");
    with(" 1:1\n", &NAMES)
        .refused("bad.svm: no row to learn from: each has either no labels or all of them");
    with("0,1 1:1\n1,0 2:1\n", &[])
        .refused("bad.svm: no row to learn from: each has either no labels or all of them");
    with("0 1:nan\n", &[]).refused("bad.svm:1: expected a number for feature 1, found `nan`");
    with("0 1:1\n1 1:1\n", &["--rank", "3"])
        .refused("the argument '--rank <VALUE>' cannot be used multiple times\n\nUsage: rankfold train ranking [OPTIONS] --output <MODEL> <DATA>\n\nFor more information, try '--help'.");
    let wide = [
        "train",
        "ranking",
        "bad.svm",
        "-o",
        "m",
        "--rank",
        "3",
        "--step-size",
        "1",
    ];
    place
        .run(&wide)
        .refused("bad.svm: --rank is 3, above n_features = 1");
    place.write("bad.svm", "0 1:1 9:1\n1 2:1\n");
    place
        .run(&wide)
        .refused("bad.svm: --rank is 3, above the number of labels, 2");
    for (names, want) in [
        ("a\nb\na\n", "bad.txt:3: the label `a` stands twice"),
        (
            "a\n\nb\n",
            "bad.txt:2: expected the name of a label, found an empty line",
        ),
        ("", "bad.txt: no names of labels"),
    ] {
        place.write("bad.txt", names);
        with("0 1:1\n", &["--label-names", "bad.txt"]).refused(want);
    }
    for (options, want) in [
        (
            &["--sampler", "warp", "--gradient", "summed"][..],
            "--gradient applies only to `--sampler top`",
        ),
        (
            &["--bias-step", "nan"],
            "--bias-step must be at least 0, found NaN",
        ),
        (
            &["--learner", "perceptron", "--init", "identity"],
            "--init applies only to `loreta` and `passive-aggressive`",
        ),
        (
            &["--learner", "perceptron", "--rank", "2"],
            "--rank applies only to `loreta` and `passive-aggressive`",
        ),
        (
            &["--learner", "passive-aggressive"],
            "--step-size applies only to learners other than `passive-aggressive`",
        ),
        (
            &["--popularity", "1"],
            "--popularity applies only to starts other than `ridge` and models, which have biases",
        ),
        (
            &["--patience", "3"],
            "bad.svm: --patience needs validation data: a share of the rows, or others",
        ),
    ] {
        with("0 1:1\n1 2:1\n", options).refused(want);
    }
    assert_eq!(place.read("m"), "old");
}

#[test]
fn models_of_other_tasks_are_told_apart() {
    let place = place();
    assert_eq!(train(&place, &[]).code, 0);
    for verb in [
        &["neighbors", "m", "test.svm"][..],
        &["eval", "m", "test.svm", "--objects", "test.svm"],
        &["eval", "m", "test.svm", "--score", "cosine"],
        &[
            "update",
            "m",
            "test.svm",
            "-o",
            "x",
            "--objects",
            "test.svm",
        ],
    ] {
        let said = place.run(verb);
        assert_eq!(said.code, 2, "{verb:?}");
        assert!(said.stderr.contains("rank"), "{verb:?}: {}", said.stderr);
    }
    place.write("one.svm", "0 1:1\n0 1:1 2:1\n1 3:1\n1 3:1 2:1\n");
    let said = place.run(&[
        "train",
        "similarity",
        "one.svm",
        "-o",
        "s",
        "--rank",
        "1",
        "--steps",
        "5",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    place
        .run(&["rank", "s", "test.svm"])
        .refused("s: a model for similarity ranks no labels: expected one for ranking");
    // Labels that the model has not seen rank as such.
    place.write("odd.svm", "77 1:1\n0,78 1:1\n");
    let said = place.run(&["eval", "m", "odd.svm"]);
    assert_eq!(
        said.stderr,
        "2 labels are not known to the model; they rank as labels never seen\n"
    );
    place.write("none.svm", " 1:1\n");
    place
        .run(&["eval", "m", "none.svm"])
        .refused("none.svm: no row has labels: there is nothing to measure");
}
