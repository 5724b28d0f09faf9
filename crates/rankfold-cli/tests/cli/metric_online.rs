//! `train metric --solver online`, and metrics that go on learning.

use serde_json::{Value, json};

use crate::support::{Place, Said};

/// Rows of three classes: `b` and `d` tell them apart, `a` and `c` are loud.
fn place() -> Place {
    let place = Place::new();
    let mut rows = "id,label,a,b,c,d\n".to_owned();
    for i in 0..60_usize {
        let class = i % 3;
        let noise = |k: usize, of: usize| ((i * k + i * i) % of) as f64 / of as f64;
        rows += &format!(
            "r{i},k{class},{:.3},{:.3},{:.3},{:.3}\n",
            8.0 * noise(7, 31),
            class as f64 + 0.3 * noise(5, 17),
            6.0 * noise(11, 29),
            (class == 1) as u8 as f64 + 0.3 * noise(3, 13),
        );
    }
    place.write("rows.csv", rows);
    place
}

const RUN: [&str; 9] = [
    "train", "metric", "rows.csv", "--solver", "online", "--rank", "2", "--seed", "3",
];

fn train(place: &Place, more: &[&str]) -> Said {
    place.run(&[&RUN[..], &["-o", "m"], more].concat())
}

/// The report, whatever notes there are.
#[track_caller]
fn report(said: &Said) -> Value {
    assert_eq!(said.code, 0, "{}", said.stderr);
    serde_json::from_str(&said.stdout).expect("JSON")
}

fn knn_error(place: &Place, model: &str) -> (f64, f64) {
    let found = place.run(&["eval", model, "rows.csv", "--json"]);
    let found = report(&found);
    let of = |v: &Value| v["metrics"]["knn_error"].as_f64().unwrap();
    (of(&found), of(&found["baselines"][0]))
}

#[test]
fn all_learners_do_better_than_euclid_one_pair_after_the_other() {
    let place = place();
    for learner in [
        "flat",
        "polar",
        "cone-flat",
        "cone-affine",
        "cone-logdet",
        "cone-log",
        "cone-von-neumann",
    ] {
        let more = ["-o", "m", "--learner", learner, "--steps", "4000", "--json"];
        let rank = match learner.starts_with("cone") {
            true => &[][..],
            false => &["--rank", "3"],
        };
        let said = place.run(&[&RUN[..5], &more, rank].concat());
        let trained = report(&said);
        assert_eq!(trained["learner"], learner);
        assert_eq!(
            (&trained["task"], &trained["steps"]),
            (&json!("metric"), &json!(4000))
        );
        let refused = trained["refused"].as_u64().unwrap();
        assert!(refused < 100, "{learner}: {refused}");
        let (learned, euclid) = knn_error(&place, "m");
        assert!(learned < 0.75 * euclid, "{learner}: {learned} {euclid}");
        let info = place.run(&["info", "m", "--json"]).json_without_seconds();
        let cone = learner.starts_with("cone");
        assert_eq!(info["precision"], if cone { "f64" } else { "f32" });
        let form = if learner == "polar" {
            "polar-psd"
        } else {
            "psd"
        };
        assert_eq!(info["form"], form);
    }
}

#[test]
fn batches_are_whole_and_rules_of_steps_can_be_chosen() {
    let place = place();
    let steps =
        |more: &[&str]| report(&train(&place, &[more, &["--json"]].concat()))["steps"].clone();
    assert_eq!(steps(&["--batch", "32", "--steps", "100"]), 128);
    let said = train(&place, &["--steps", "100"]);
    assert!(
        said.stderr
            .contains("tried half life 1.0, step size 1.0: loss "),
        "{}",
        said.stderr
    );
    assert_eq!(steps(&["--step-rule", "convergent", "--steps", "100"]), 100);
    let constant = [
        "--step-rule",
        "constant",
        "--step-size",
        "0.01",
        "--steps",
        "10",
        "--json",
    ];
    let said = train(&place, &constant);
    assert_eq!(said.stderr, "");
    assert_eq!(report(&said)["step_size"], 0.01);
    // Of three classes of 20 rows: 10 times the larger of 240 and 600.
    assert_eq!(steps(&["--step-size", "1"]), 6000);
    assert_eq!(steps(&["--step-size", "1", "--constraints", "50"]), 500);

    let refused = |more: &[&str], message: &str| train(&place, more).refused(message);
    for count in ["0", "9999"] {
        let range = "--batch must be at least 1 and at most 1024";
        refused(&["--batch", count], &format!("{range}, found {count}"));
    }
    refused(
        &["--pairs-from", "neighbors"],
        "--pairs-from must be random for `--solver online`: pairs of neighbors are for batch solvers",
    );
    refused(
        &["--learner", "itml"],
        "--solver applies only to learners other than `itml` and `lego`",
    );
    refused(
        &["--learner", "cone-log"],
        "--rank applies only to `polar`, `flat`, `itml` and `lego`",
    );
    refused(
        &["--learner", "polar", "--subspace-weight", "2"],
        "--subspace-weight must be at least 0 and at most 1, found 2",
    );
    let batch = |more: &[&str], message: &str| {
        let run = ["train", "metric", "rows.csv", "-o", "n"];
        place.run(&[&run[..], more].concat()).refused(message);
    };
    batch(
        &["--batch", "4"],
        "--batch applies only to `--solver online`",
    );
    batch(
        &["--step-rule", "constant"],
        "--step-rule applies only to `--solver online`",
    );
    batch(
        &["--learner", "cone-von-neumann"],
        "--solver must be online for `cone-von-neumann`, which learns one pair after the other",
    );
    batch(
        &["--steps", "9"],
        "--steps applies only to `--solver online`",
    );
}

#[test]
fn a_resumed_run_is_the_run() {
    let place = place();
    for (learner, batch) in [("flat", "1"), ("polar", "4"), ("cone-logdet", "1")] {
        let run = |model: &str, more: &[&str]| {
            let start = [
                "--learner",
                learner,
                "--batch",
                batch,
                "--valid-fraction",
                "0.3",
            ];
            let run = [&RUN[..5], &["--seed", "3", "-o", model], &start, more].concat();
            let said = place.run(&run);
            assert_eq!(said.code, 0, "{}", said.stderr);
        };
        run("whole", &["--steps", "2000"]);
        run(
            "half",
            &[
                "--steps",
                "1000",
                "--curve-every",
                "100",
                "--checkpoint",
                "c",
            ],
        );
        run(
            "more",
            &["--steps", "2000", "--curve-every", "100", "--resume", "c"],
        );
        run("same", &["--steps", "2000", "--curve-every", "100"]);
        let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
        assert!(bytes("more") == bytes("same"), "{learner}");
        assert!(bytes("half") != bytes("same"));
    }
    let other = [&RUN[..], &["-o", "n", "--resume", "c", "--learner", "flat"]].concat();
    place
        .run(&other)
        .refused("c: the checkpoint was made with learner = cone-logdet, this run asks for flat");
}

#[test]
fn given_pairs_may_contradict_each_other() {
    let place = place();
    place.write("pairs.txt", "r0 r1 <= 1\nr0 r1 >= 2\nr6 r8 1.5\n");
    for learner in ["flat", "polar"] {
        let more = [
            "--pairs",
            "pairs.txt",
            "--learner",
            learner,
            "--steps",
            "20000",
            "--json",
        ];
        let trained = report(&train(&place, &more));
        assert_eq!(trained["refused"], 0);
        let said = place.run_with(
            &["predict", "m", "-", "--rows", "rows.csv"],
            "r0 r1\nr6 r8\n",
        );
        let found: Vec<f64> = said.stdout.lines().map(|l| l.parse().unwrap()).collect();
        // Between what two lines ask for, and at what one asks for.
        assert!(found[0] > 1.0 && found[0] < 2.0, "{learner}: {found:?}");
        assert!((found[1] - 1.5).abs() < 0.2, "{learner}: {found:?}");
    }
    place.write("both.txt", "r3 r4 same\nr3 r4 different\n");
    let trained = report(&train(&place, &["--pairs", "both.txt", "--json"]));
    assert_eq!(
        (&trained["steps"], &trained["refused"]),
        (&json!(20), &json!(0))
    );
    place.write("empty.txt", "");
    train(&place, &["--pairs", "empty.txt"]).refused(
        "empty.txt: expected lines `left right same`, `left right different`, `left right <= v`, \
         `left right >= v` or `left right v`, found none",
    );
}

/// A stream of true classes, and of features by value, some of them new.
fn stream(lines: std::ops::Range<usize>) -> String {
    let line = |i: usize| match i % 5 {
        4 => format!(
            "{{\"left\":{{\"a\":{i},\"new{}\":1}},\"right\":\"r{}\",\"at_least\":2}}\n",
            i % 15,
            i % 60
        ),
        3 => format!(
            "{{\"left\":\"r{}\",\"right\":\"r{}\",\"value\":1.25}}\n",
            i % 60,
            (i * 7 + 1) % 60
        ),
        _ => {
            let (left, right) = (i % 60, (i * 11 + 5) % 60);
            let same = left % 3 == right % 3;
            format!("{{\"left\":\"r{left}\",\"right\":\"r{right}\",\"same\":{same}}}\n")
        }
    };
    lines.map(line).collect()
}

#[test]
fn two_sittings_are_one() {
    let place = place();
    let batch = ["train", "metric", "rows.csv", "-o", "m", "--rank", "2"];
    for (more, note) in [
        (&["--solver", "online", "--steps", "500"][..], ""),
        (
            &["--solver", "online", "--learner", "polar", "--steps", "500"],
            "",
        ),
        (&["--iterations", "3"], ""),
        (
            &[
                "--learner",
                "polar",
                "--iterations",
                "3",
                "--precision",
                "f32",
            ],
            "",
        ),
        (
            &["--learner", "itml", "--iterations", "3"],
            "a metric of `itml` goes on with flat steps\n",
        ),
    ] {
        let said = place.run(&[&batch[..], more].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        let update = |from: &str, to: &str, lines: &str| {
            let run = [
                "update", from, "-", "-o", to, "--rows", "rows.csv", "--json",
            ];
            let said = place.run_with(&run, lines);
            assert_eq!((said.code, &said.stderr[..]), (0, ""));
            report(&said)
        };
        let run = ["update", "m", "-", "-o", "none", "--rows", "rows.csv"];
        assert_eq!(place.run_with(&run, "").stderr, note);
        let all = update("m", "once", &stream(0..400));
        assert_eq!(
            (&all["task"], &all["steps"]),
            (&json!("metric"), &json!(400))
        );
        assert_eq!(
            (&all["new_features"], &all["refused"]),
            (&json!(3), &json!(0))
        );
        assert!(all["updates"].as_u64().unwrap() > 100, "{all}");
        update("m", "half", &stream(0..150));
        update("half", "twice", &stream(150..400));
        let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
        assert!(bytes("once") == bytes("twice"), "{more:?}");
        assert!(bytes("once") != bytes("m"));
    }
}

#[test]
fn a_stream_moves_pairs_to_where_they_should_be() {
    let place = place();
    let said = place.run(&["train", "metric", "rows.csv", "-o", "m", "--rank", "2"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let far = |model: &str| {
        let run = ["predict", model, "-", "--rows", "rows.csv"];
        let said = place.run_with(&run, "r0 r4\n");
        said.stdout.trim().parse::<f64>().unwrap()
    };
    for (field, wanted) in [
        ("\"value\":9", 8.9..9.1),
        ("\"at_most\":0.01", 0.0..0.02),
        ("\"at_least\":7", 6.9..f64::INFINITY),
    ] {
        let line = format!("{{\"left\":\"r0\",\"right\":\"r4\",{field}}}\n");
        let run = ["update", "m", "-", "-o", "n", "--rows", "rows.csv"];
        let said = place.run_with(&run, &line.repeat(200));
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert!(
            wanted.contains(&far("n")),
            "{field}: {} to {}",
            far("m"),
            far("n")
        );
    }
    // Nothing but new features: a start of their own makes them count.
    let lines = "{\"left\":{\"x\":1},\"right\":{\"y\":1},\"at_least\":3}\n".repeat(200);
    let run = ["update", "m", "-", "-o", "n", "--json"];
    let all = report(&place.run_with(&run, &lines));
    assert_eq!(
        (&all["new_features"], &all["seeded"]),
        (&json!(2), &json!(1))
    );
    assert!(all["loss"].as_f64().unwrap() < 15.0, "{all}");
}

#[test]
fn a_bad_line_stops_the_stream_and_keeps_what_was_learned() {
    let place = place();
    let more = ["--steps", "100", "--step-size", "1"];
    assert_eq!(train(&place, &more).code, 0);
    let good = "{\"left\":\"r0\",\"right\":\"r4\",\"same\":false}\n";
    for (bad, message) in [
        (
            "{\"left\":\"r0\",\"right\":\"r4\"}",
            "s.jsonl:2: expected the fields `left`, `right` and one of `same`, `value`, `at_most`, `at_least`, found `left`, `right`",
        ),
        (
            "{\"left\":\"r0\",\"right\":\"r99\",\"same\":true}",
            "s.jsonl:2: column 26: no row is called `r99`",
        ),
        (
            "{\"left\":{\"a\":1e300},\"right\":\"r0\",\"same\":true}",
            "s.jsonl:2: column 19: the value 1e300 is too large for f32",
        ),
        (
            "{\"left\":\"r0\",\"right\":\"r1\",\"value\":-2}",
            "s.jsonl:2: column 37: expected a distance from 0 to 1e150, found -2.0",
        ),
        (
            "{\"left\":\"r0\",",
            "s.jsonl:2: column 13: EOF while parsing a value; is the line cut short?",
        ),
    ] {
        place.write("s.jsonl", format!("{good}{bad}\n{good}"));
        let said = place.run(&["update", "m", "s.jsonl", "-o", "n", "--rows", "rows.csv"]);
        let want =
            format!("`n` holds what was learned from the 1 pairs before\nerror: {message}\n");
        assert_eq!((said.code, said.stderr), (2, want));
        place.write("good.jsonl", good);
        let said = place.run(&["update", "m", "good.jsonl", "-o", "g", "--rows", "rows.csv"]);
        assert_eq!(said.code, 0);
        let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
        assert!(bytes("n") == bytes("g"));
    }
    place
        .run_with(&["update", "m", "-", "-o", "n", "--step-size", "0"], good)
        .refused("the step size must be above 0, found 0");
}
