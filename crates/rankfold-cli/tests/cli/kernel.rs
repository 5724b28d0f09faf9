//! `train kernel` and what follows it.

use serde_json::{Value, json};

use crate::support::Place;

/// Forty rows of two classes, which differ in the column that varies least.
fn place() -> Place {
    let place = Place::new();
    let mut rows = "id,label,a,b\n".to_owned();
    let mut labels = String::new();
    for i in 0..40 {
        let class = ["x", "y"][i % 2];
        rows += &format!("r{i},{class},{},{}\n", i * 7 % 40, i % 2 * 3 + i % 3);
        labels += &format!("{class}\n");
    }
    place.write("rows.csv", rows);
    place.write("labels.txt", labels);
    place.write(
        "known.txt",
        "r0 r2 same\nr0 r1 different\nr4 r6 <= 0.5\nr4 r5 >= 30\n",
    );
    place
}

/// Towns on a grid of two roads, with all their distances.
fn towns() -> (Place, Vec<(f64, f64)>) {
    let place = Place::new();
    let town = |i: usize| ((i % 4) as f64 * 3.0, (i / 4) as f64 * 2.0 + (i % 2) as f64);
    let towns: Vec<(f64, f64)> = (0..12).map(town).collect();
    let mut lines = String::new();
    for (i, a) in towns.iter().enumerate() {
        for (j, b) in towns.iter().enumerate().take(i) {
            lines += &format!("t{j} t{i} {}\n", (a.0 - b.0).hypot(a.1 - b.1));
        }
    }
    place.write("towns.txt", lines);
    (place, towns)
}

const TRAIN: [&str; 5] = ["train", "kernel", "rows.csv", "-o", "k"];

#[test]
fn a_kernel_is_learned_measured_and_asked() {
    let place = place();
    let said = place.run(&[&TRAIN[..], &["--constraints", "200", "--json"]].concat());
    let report = said.json();
    assert_eq!(report["task"], "kernel");
    assert_eq!(
        (&report["learner"], &report["rank"], &report["items"]),
        (&json!("polar"), &json!(2), &json!(40))
    );
    assert_eq!(report["constraints"], 200);
    let found = place.run(&["eval", "k", "rows.csv", "--json"]).json();
    let nmi = |of: &Value| of["nmi"].as_f64().unwrap();
    assert!(nmi(&found["metrics"]) > nmi(&found["baseline"]["metrics"]));
    assert_eq!(found["baseline"]["name"], "start");
    assert_eq!(found["baselines"][1]["name"], "must-link");
    assert_eq!(
        (&found["clusters"], &found["rows"]),
        (&json!(2), &json!(40))
    );
    // Labels alone give no baselines, and clusters may be another number.
    let alone = place
        .run(&["eval", "k", "--labels", "labels.txt", "--json"])
        .json();
    assert_eq!(alone["metrics"], found["metrics"]);
    assert_eq!(
        (&alone["baseline"], &alone["baselines"]),
        (&Value::Null, &json!([]))
    );
    let three = place
        .run(&["eval", "k", "rows.csv", "--clusters", "3", "--json"])
        .json();
    assert_eq!(three["clusters"], 3);

    // Distances, neighbors and coordinates agree.
    let points = place.run(&["transform", "k", "-o", "points.csv"]);
    assert_eq!(points.code, 0, "{}", points.stderr);
    let text = place.read("points.csv");
    let point = |id: &str| -> Vec<f64> {
        let line = text
            .lines()
            .find(|l| l.starts_with(&format!("{id},")))
            .unwrap();
        line.split(',')
            .skip(1)
            .map(|v| v.parse().unwrap())
            .collect()
    };
    let (a, b) = (point("r3"), point("r8"));
    let want = a
        .iter()
        .zip(&b)
        .map(|(a, b)| (a - b).powi(2))
        .sum::<f64>()
        .sqrt();
    let said = place.run_with(&["predict", "k", "-"], "r3 r8\nr3 zz\n");
    let lines: Vec<f64> = said.stdout.lines().map(|l| l.parse().unwrap()).collect();
    assert!((lines[0] - want).abs() < 1e-9 && lines[1].is_nan());
    assert_eq!(
        said.stderr,
        "1 pairs name an item that is not there; their score is NaN\n"
    );
    place
        .run_with(&["predict", "k", "-", "--strict"], "r3 zz\n")
        .refused("-:1: no item is called `zz`");
    let near = place.run(&["neighbors", "k", "--query", "r3", "-k", "39"]);
    let line = near.stdout.lines().find(|l| l.contains("\tr8\t")).unwrap();
    let distance: f64 = line.rsplit('\t').next().unwrap().parse().unwrap();
    assert!((distance - want).abs() < 1e-9);
    let info = place.run(&["info", "k", "--json"]).json_without_seconds();
    assert_eq!(
        (&info["task"], &info["init"]),
        (&json!("kernel"), &json!("linear"))
    );
    assert_eq!((&info["items"], &info["alpha"]), (&json!(40), &json!(0.25)));

    // The same bytes again, whatever the threads.
    let bytes = std::fs::read(place.path("k")).unwrap();
    place.run(&[&TRAIN[..], &["--constraints", "200", "--threads", "1"]].concat());
    assert_eq!(std::fs::read(place.path("k")).unwrap(), bytes);
}

#[test]
fn all_starts_and_learners_learn() {
    let place = place();
    let train = |more: &[&str]| {
        let said = place.run(&[&["train", "kernel", "-o", "m", "--json"], more].concat());
        said.json()
    };
    let rows = ["rows.csv", "--pairs", "known.txt"];
    for more in [
        &["--learner", "flat"][..],
        &[
            "--learner",
            "flat",
            "--init",
            "range",
            "--solver",
            "trust-region",
        ],
        &["--subspace-weight", "0"],
        &["--kernel", "gaussian", "--alpha", "0.1"],
        &[
            "--kernel",
            "gaussian",
            "--gamma",
            "0.01",
            "--precision",
            "f32",
            "--rank",
            "3",
        ],
    ] {
        let report = train(&[&rows[..], more].concat());
        assert_eq!(report["constraints"], 4, "{more:?}");
    }
    // From names alone, at low and at full rank.
    place.write("pairs.txt", "a b same\nc d same\na c different\nb d >= 2\n");
    for more in [
        &["--rank", "2"][..],
        &["--learner", "cone-affine"],
        &["--learner", "flat", "--rank", "4"],
    ] {
        let report = train(&[&["--pairs", "pairs.txt"], more].concat());
        assert_eq!(
            (&report["items"], &report["violated"]),
            (&json!(4), &json!(0)),
            "{more:?}"
        );
    }
    // From a matrix, by pairs or by labels.
    place.write("k.csv", "id,a,b,c\na,2,1,0\nb,1,2,0\nc,0,0,1\n");
    place.write("three.txt", "x\nx\ny\n");
    place.write("ab.txt", "a b different\na c 3\n");
    let report = train(&["--matrix", "k.csv", "--pairs", "ab.txt", "--rank", "2"]);
    assert_eq!(report["constraints"], 2);
    let report = train(&[
        "--matrix",
        "k.csv",
        "--labels",
        "three.txt",
        "--constraints",
        "9",
    ]);
    assert_eq!(
        (&report["rank"], &report["constraints"]),
        (&json!(3), &json!(9))
    );
    // Contradictions are counted.
    place.write("odd.txt", "a b same\na b different\n");
    let report = train(&["--matrix", "k.csv", "--pairs", "odd.txt"]);
    assert_eq!(
        (&report["violated"], &report["stopped"]),
        (&json!(2), &json!("converged"))
    );
}

#[test]
fn what_cannot_be_learned_from_is_refused() {
    let place = place();
    place.write("rect.csv", "a,b\n1,0\n");
    place.write("skew.csv", "a,b\n1,0.5\n0.2,1\n");
    place.write("indefinite.csv", "a,b\n1,2\n2,1\n");
    place.write("hole.csv", "a,b\n1,\n,1\n");
    place.write("nan.csv", "a,b\n1,oops\n0,1\n");
    place.write("zero.csv", "a,b\n0,0\n0,0\n");
    place.write("empty.txt", "");
    place.write("ab.txt", "a b same\n");
    place.write("az.txt", "a b same\na z same\n");
    place.write("self.txt", "a a same\n");
    place.write("bare.csv", "id,a\nr,1\ns,2\n");
    place.write("huge.csv", "label,a\nx,1e200\ny,2\n");
    place.write("one.csv", "label,a\nx,1\n");
    place.write("k", "old");
    let matrix = |file: &'static str| vec!["--matrix", file, "--pairs", "ab.txt"];
    for (more, message) in [
        (
            matrix("rect.csv"),
            "rect.csv: expected a square matrix, found 1 × 2",
        ),
        (
            matrix("skew.csv"),
            "skew.csv: expected a symmetric matrix, found 0.5 for `a` and `b` but 0.2 for `b` and `a`",
        ),
        (
            matrix("indefinite.csv"),
            "indefinite.csv: expected a positive semi-definite matrix, found an eigenvalue of \
             -1.0000e0 beside a largest one of 3.0000e0",
        ),
        (
            matrix("hole.csv"),
            "hole.csv: expected a number for `a` and `b`, found none",
        ),
        (
            matrix("nan.csv"),
            "nan.csv:2: column `b`: expected a number, found `oops`; --label, --id, --drop and \
             --categories name columns of texts",
        ),
        (
            matrix("zero.csv"),
            "zero.csv: the kernel is zero: the items do not differ",
        ),
        (
            vec!["rows.csv", "--pairs", "empty.txt"],
            "empty.txt: expected lines `left right same`, `left right different`, \
             `left right <= v`, `left right >= v` or `left right v`, found none",
        ),
        (
            vec!["rows.csv", "--pairs", "az.txt"],
            "az.txt:1: no item is called `a`",
        ),
        (
            vec!["--pairs", "self.txt"],
            "a kernel is learned from two items at least, found 1",
        ),
        (
            vec!["--pairs", "ab.txt", "--rank", "3"],
            "--rank is 3, above the number of items, 2",
        ),
        (
            vec!["rows.csv", "--rank", "3"],
            "rows.csv: --rank is 3, above n_features = 2",
        ),
        (
            vec!["rows.csv", "--learner", "cone-log"],
            "rows.csv: the kernel has rank 2, and 40 is asked for",
        ),
        (
            vec!["bare.csv"],
            "bare.csv: row `r` has 0 labels, expected exactly one",
        ),
        (
            vec!["huge.csv"],
            "huge.csv: row `0` has values beyond the range of kernels",
        ),
        (
            vec!["one.csv"],
            "one.csv: a kernel is learned from two items at least, found 1",
        ),
        (
            vec![],
            "nothing is known of distances: give labels with DATA or --labels, or --pairs FILE",
        ),
        (
            vec!["rows.csv", "--alpha", "1"],
            "--alpha must be at least 0 and below 1, found 1",
        ),
        (
            vec!["rows.csv", "--gamma", "1"],
            "--gamma applies only to `--kernel gaussian`",
        ),
        (
            vec!["rows.csv", "--kernel", "gaussian", "--gamma", "0"],
            "--gamma must be above 0, found 0",
        ),
        (
            vec!["rows.csv", "--valid", "rows.csv"],
            "--valid does not apply to kernels, which know their own items only",
        ),
    ] {
        let said = place.run(&[&["train", "kernel", "-o", "k"], &more[..]].concat());
        said.refused(message);
    }
    assert_eq!(place.read("k"), "old");
}

#[test]
fn later_commands_say_what_a_kernel_needs() {
    let place = place();
    place.run(&[&TRAIN[..], &["--constraints", "50"]].concat());
    place.write("few.csv", "id,label,a,b\nr0,x,1,2\n");
    place.write("few.txt", "x\ny\n");
    for (arguments, message) in [
        (
            &["eval", "k"][..],
            "labels are needed: give DATA, the items with their labels, or --labels FILE",
        ),
        (
            &["eval", "k", "few.csv"],
            "few.csv: no row is called `r1`, as an item of the kernel is",
        ),
        (
            &["eval", "k", "--labels", "few.txt"],
            "few.txt: 2 labels for 40 items",
        ),
        (
            &["eval", "k", "rows.csv", "--clusters", "41"],
            "rows.csv: 41 clusters of 40 items",
        ),
        (
            &["transform", "k", "rows.csv", "-o", "p.csv"],
            "rows.csv: a kernel knows its own items only: leave the rows out",
        ),
        (
            &["neighbors", "k", "--query", "zz"],
            "k: no row is called `zz`",
        ),
        (
            &["update", "k", "known.txt", "-o", "k2"],
            "k: a kernel that was learned in batch does not go on learning: train it again with \
             all that is known, or make a map with `train kernel --mds`",
        ),
    ] {
        place.run(arguments).refused(message);
    }
    // Other models still need their rows.
    place.run(&[
        "train",
        "metric",
        "rows.csv",
        "-o",
        "m",
        "--iterations",
        "5",
    ]);
    for (arguments, message) in [
        (
            &["eval", "m"][..],
            "DATA is needed: what the model is measured on",
        ),
        (
            &["neighbors", "m"],
            "DATA is needed: the rows to look among",
        ),
        (
            &["transform", "m", "-o", "p.csv"],
            "DATA is needed: the rows to transform",
        ),
        (
            &["eval", "m", "rows.csv", "--clusters", "3"],
            "--clusters does not apply to metrics",
        ),
    ] {
        place.run(arguments).refused(message);
    }
}

#[test]
fn a_map_is_made_and_goes_on() {
    let (place, towns) = towns();
    let said = place.run(&[
        "train",
        "kernel",
        "--mds",
        "towns.txt",
        "-o",
        "map",
        "--coordinates",
        "map.csv",
        "--json",
    ]);
    let report = said.json();
    assert_eq!(
        (&report["items"], &report["rank"], &report["pairs"]),
        (&json!(12), &json!(2), &json!(66))
    );
    assert!(report["stress"].as_f64().unwrap() < 1e-3);
    let points = |file: &str| -> Vec<Vec<f64>> {
        let text = place.read(file);
        let numbers = |l: &str| l.split(',').skip(1).map(|v| v.parse().unwrap()).collect();
        text.lines().skip(1).map(numbers).collect()
    };
    let first = points("map.csv");
    for (i, a) in towns.iter().enumerate() {
        for (j, b) in towns.iter().enumerate() {
            let want = (a.0 - b.0).hypot(a.1 - b.1);
            let found = (first[i][0] - first[j][0]).hypot(first[i][1] - first[j][1]);
            assert!((found - want).abs() < 0.01, "{found} {want}");
        }
    }
    place.run(&["transform", "map", "-o", "again.csv"]);
    assert_eq!(points("again.csv"), first);

    // A new town in the middle of four others; the rest stays where it is.
    let place_of = (4.0, 3.0);
    let lines: String = (0..8)
        .map(|i| {
            let (x, y) = towns[i];
            let value = (x - place_of.0).hypot(y - place_of.1);
            format!("{{\"left\":\"t{i}\",\"right\":\"new\",\"value\":{value}}}\n")
        })
        .collect();
    let report = place
        .run_with(&["update", "map", "-o", "map2", "--json"], &lines)
        .json();
    assert_eq!(
        (&report["added"], &report["changed"], &report["new_items"]),
        (&json!(8), &json!(0), &json!(1))
    );
    assert!(report["stress"].as_f64().unwrap() < 1e-3);
    place.run(&["transform", "map2", "-o", "second.csv"]);
    let second = points("second.csv");
    assert_eq!(second.len(), 13);
    for (a, b) in first.iter().zip(&second) {
        assert!((a[0] - b[0]).hypot(a[1] - b[1]) < 0.02, "{a:?} {b:?}");
    }
    let said = place.run_with(&["predict", "map2", "-"], "t0 new\n");
    let found: f64 = said.stdout.trim().parse().unwrap();
    assert!((found - 5.0).abs() < 0.02, "{found}");
    let info = place
        .run(&["info", "map2", "--json"])
        .json_without_seconds();
    assert_eq!(
        (&info["map"], &info["constraints"]),
        (&json!(true), &json!(74))
    );

    place
        .run_with(&["update", "map", "-o", "map3"], "t0 t1 1\nt0 t1 x\n")
        .refused("-:2: expected a dissimilarity, found `x`");
    assert!(!place.names().contains(&"map3".to_owned()));
    place
        .run_with(&["update", "map", "-o", "map3", "--rows", "towns.txt"], "")
        .refused("--rows does not apply to maps");
}

#[test]
fn what_cannot_be_mapped_is_refused() {
    let (place, _) = towns();
    place.write("empty.txt", "");
    place.write("one.txt", "a a 0\n");
    place.write("two.txt", "a b 1\n");
    place.write("zeros.txt", "a b 0\nb c 0\n");
    place.write("huge.txt", "a b 1e200\n");
    place.write("skew.csv", "a,b,c\n0,1,2\n9,0,3\n2,3,0\n");
    let train =
        |more: &[&str]| place.run(&[&["train", "kernel", "-o", "m", "--mds"], more].concat());
    for (more, message) in [
        (
            &["empty.txt"][..],
            "empty.txt: expected lines `left right value`, found none",
        ),
        (
            &["one.txt"],
            "one.txt: expected lines `left right value`, found none",
        ),
        (
            &["two.txt"],
            "two.txt: --rank must be at most 1 for 2 items, found 2",
        ),
        (
            &["zeros.txt", "--rank", "1"],
            "zeros.txt: all dissimilarities are 0",
        ),
        (
            &["huge.txt", "--rank", "1"],
            "huge.txt:1: expected a dissimilarity from 0 to 1e75, found `1e200`",
        ),
        (
            &["skew.csv"],
            "skew.csv: expected a symmetric matrix, found 1 for `a` and `b` but 9 for `b` and `a`",
        ),
        (
            &["towns.txt", "--coordinates", "map.xyz"],
            "map.xyz: unknown extension: expected .npy, or .csv, .txt or .vec, these also with \
             .gz or .zst",
        ),
    ] {
        train(more).refused(message);
    }
    // Notes on what is doubtful.
    place.write("thin.txt", "a b 1\nb c 1\nc d 1\na b 2\ne f 1\n");
    let said = train(&["thin.txt"]);
    let notes = "1 pairs came again; the last of a pair counts\n\
         the items fall into 2 parts that no pair connects: where these lie to each other \
         means nothing\n\
         4 pairs are few for so many items: fewer than 15 hardly determine the map\n";
    assert!(said.stderr.ends_with(notes), "{}", said.stderr);
    assert_eq!(said.code, 0);
}
