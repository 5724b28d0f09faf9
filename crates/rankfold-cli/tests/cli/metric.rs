//! `train metric` and what follows it.

use serde_json::json;

use crate::support::{Place, Said};

/// Rows of three classes that differ in `b` and `c`; `a` varies more and says nothing,
/// `d` is constant. Some cells are missing.
fn place() -> Place {
    let place = Place::new();
    let row = |i: usize| {
        let class = i % 3;
        let noise = |seed: usize| ((i * seed) % 17) as f64 / 17.0 - 0.5;
        let (b, c) = ([0.0, 2.0, 4.0][class], [3.0, 0.0, 3.0][class]);
        let b = match i % 11 {
            10 => String::new(),
            _ => format!("{}", b + noise(5)),
        };
        let label = ["x", "y", "z"][class];
        format!("r{i},{label},{},{b},{},7\n", 90.0 * noise(7), c + noise(3))
    };
    let rows = |range: std::ops::Range<usize>| -> String {
        "id,label,a,b,c,d\n".to_owned() + &range.map(row).collect::<String>()
    };
    place.write("train.csv", rows(0..60));
    place.write("test.csv", rows(60..90));
    place
}

fn train(place: &Place, more: &[&str]) -> Said {
    place.run(&[&["train", "metric", "train.csv", "-o", "m"], more].concat())
}

fn error_of(place: &Place) -> (f64, f64) {
    let said = place.run(&["eval", "m", "test.csv", "--train", "train.csv", "--json"]);
    let found = said.json();
    assert_eq!(found["baseline"]["name"], "euclid");
    let of = |value: &serde_json::Value| value["metrics"]["knn_error"].as_f64().unwrap();
    (of(&found), of(&found["baseline"]))
}

#[test]
fn new_rows_get_classes_by_their_neighbors() {
    let place = place();
    assert_eq!(
        train(&place, &["--learner", "flat", "--rank", "2", "-q"]).code,
        0
    );
    let ask = ["predict", "m", "test.csv", "--train", "train.csv"];
    let said = place.run(&ask);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let truth = place.read("test.csv");
    let truth = truth.lines().skip(1).map(|l| l.split(',').nth(1).unwrap());
    let lines: Vec<Vec<&str>> = said
        .stdout
        .lines()
        .map(|l| l.split('\t').collect())
        .collect();
    assert_eq!((lines.len(), lines[0][0]), (30, "r60"));
    let wrong = lines
        .iter()
        .zip(truth)
        .filter(|(l, truth)| l[1] != *truth)
        .count();
    assert!(
        (wrong as f64 / 30.0 - error_of(&place).0).abs() < 1e-12,
        "{}",
        said.stdout
    );
    let share = |line: &Vec<&str>| line[2].parse::<f64>().unwrap();
    assert!(lines.iter().all(|l| (0.2..=1.0).contains(&share(l))));
    let said = place
        .run(&[&ask[..], &["--neighbors", "1", "--json"]].concat())
        .json();
    assert_eq!(
        (
            said["neighbors"].clone(),
            said["classes"][0]["share"].clone()
        ),
        (1.into(), 1.0.into())
    );
    let many = place.run(&[&ask[..], &["--neighbors", "61"]].concat());
    assert!(
        many.stderr.contains("61 neighbors among 60 rows"),
        "{}",
        many.stderr
    );
}

#[test]
fn columns_of_tables_are_standardized_where_that_is_better() {
    let place = Place::new();
    // The class is in the first column, and the second has noise of another unit.
    let noise = |i: usize| (i * 7919 % 101) as f64 / 101.0 - 0.5;
    let table = |first: usize| -> String {
        let row = |i: usize| {
            let class = i % 2;
            let signal = class as f64 + 0.2 * noise(i);
            format!("{class},{signal:.4},{:.2}\n", 1e4 * noise(i + 1000))
        };
        let rows: String = (first..first + 60).map(row).collect();
        format!("label,signal,noise\n{rows}")
    };
    place.write("train.csv", table(0));
    place.write("test.csv", table(60));
    let command = ["train", "metric", "train.csv", "-o", "m", "--rank", "1"];
    let told = "columns are standardized, which is better on held-out rows";
    let said = place.run(&command);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains(told), "{}", said.stderr);
    let eval = ["eval", "m", "test.csv", "--train", "train.csv", "--json"];
    let error = |found: &str| place.run(&eval).json()["metrics"][found].as_f64().unwrap();
    assert!(error("knn_error") < 0.05);
    let said = place.run(&[&command[..], &["--standardize", "none"]].concat());
    assert!(
        said.code == 0 && !said.stderr.contains(told),
        "{}",
        said.stderr
    );
    // One class, and classes of one row each, leave nothing to choose by.
    place.write("few.csv", "label,signal,noise\na,1,2\nb,2,1\n");
    let said = place.run(&["train", "metric", "few.csv", "-o", "f"]);
    assert!(
        said.code <= 2 && !said.stderr.contains(told),
        "{}",
        said.stderr
    );
}

#[test]
fn every_learner_beats_euclidean_distances() {
    let place = place();
    for learner in [
        "--learner flat --rank 2",
        "--learner polar --rank 2",
        "--learner polar --rank 2 --retraction qf --pairs-from random --iterations 50",
        "--learner flat --rank 2 --pairs-from random",
        "--learner flat --rank 4 --solver descent",
        "--learner flat --rank 1 --solver trust-region --init class-means",
        "--learner cone-flat",
        "--learner cone-affine --pairs-from random",
        "--learner cone-logdet --pairs-from random",
        "--learner cone-log --pairs-from random",
        "--learner itml",
        "--learner lego",
    ] {
        let more: Vec<&str> = learner.split(' ').collect();
        // Columns of one scale would leave Euclidean distances nothing to lose.
        let raw = ["--standardize", "none", "--json"];
        let said = train(&place, &[&more[..], &raw].concat());
        assert_eq!(said.code, 0, "{learner}: {}", said.stderr);
        let report = said.json();
        assert_eq!(report["task"], "metric");
        assert_eq!(report["learner"], more[1]);
        let (model, baseline) = error_of(&place);
        assert!(model < baseline, "{learner}: {model} {baseline}");
    }
}

#[test]
fn what_follows_training_speaks_of_the_same_distances() {
    let place = place();
    let said = train(&place, &["--rank", "2", "--standardize", "global"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = place.run(&["transform", "m", "test.csv", "-o", "z.csv"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let points: Vec<(String, Vec<f64>)> = place
        .read("z.csv")
        .lines()
        .skip(1)
        .map(|line| {
            let mut fields = line.split(',');
            let id = fields.next().unwrap().to_owned();
            (id, fields.map(|v| v.parse().unwrap()).collect())
        })
        .collect();
    let between = |a: &[f64], b: &[f64]| -> f64 {
        let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f64>().sqrt()
    };
    let said = place.run_with(
        &["predict", "m", "-", "--rows", "test.csv"],
        "r60 r61\nr62 nobody\nr60 r60\n",
    );
    let lines: Vec<f64> = said.stdout.lines().map(|v| v.parse().unwrap()).collect();
    let want = between(&points[0].1, &points[1].1);
    assert!((lines[0] - want).abs() < 1e-12 * want, "{lines:?} {want}");
    assert!(lines[1].is_nan() && lines[2] == 0.0);
    assert!(said.stderr.contains("1 pairs name a row that is not there"));
    // The nearest first, and as far as `predict` says.
    let said = place.run(&["neighbors", "m", "test.csv", "--query", "r60", "-k", "29"]);
    let listed: Vec<f64> = said
        .stdout
        .lines()
        .map(|line| line.split('\t').nth(3).unwrap().parse().unwrap())
        .collect();
    assert!(listed.is_sorted() && listed.len() == 29);
    let mut all: Vec<f64> = points[1..]
        .iter()
        .map(|(_, point)| between(&points[0].1, point))
        .collect();
    all.sort_by(f64::total_cmp);
    let near = all.iter().zip(&listed).all(|(a, b)| (a - b).abs() < 1e-9);
    assert!(near, "{all:?} {listed:?}");
    // A triplet: by how much the positive is nearer.
    let said = place.run_with(
        &["predict", "m", "-", "--rows", "test.csv"],
        "r60 r61 r62\n",
    );
    let found: f64 = said.stdout.trim().parse().unwrap();
    let want = between(&points[0].1, &points[2].1) - between(&points[0].1, &points[1].1);
    assert!((found - want).abs() < 1e-12);
    let info: serde_json::Value =
        serde_json::from_str(&place.run(&["info", "m", "--json"]).stdout).unwrap();
    assert_eq!(
        [&info["task"], &info["rank"], &info["score"]],
        [&json!("metric"), &json!(2), &json!("distance")]
    );
}

#[test]
fn given_constraints_are_kept_where_they_can_be() {
    let place = place();
    place.write(
        "pairs.txt",
        "left,right,relation\nr0,r3,same\nr0\tr1\tdifferent\nr6 r9 <= 1\nr6 r10 >= 5\nr1 r2 3\n",
    );
    let options = "--pairs pairs.txt --rank 3 --standardize global --tolerance 1e-9 --json";
    let said = train(&place, &options.split(' ').collect::<Vec<_>>());
    let report = said.json();
    assert_eq!(
        [&report["constraints"], &report["stopped"]],
        [&json!(5), &json!("converged")]
    );
    let said = place.run_with(
        &["predict", "m", "-", "--rows", "train.csv"],
        "r6 r9\nr6 r10\nr1 r2\n",
    );
    let found: Vec<f64> = said.stdout.lines().map(|v| v.parse().unwrap()).collect();
    assert!(
        found[0] < 1.02 && found[1] > 4.98 && (found[2] - 3.0).abs() < 0.05,
        "{found:?}"
    );
    // Contradictions end in between, and are counted.
    place.write("against.txt", "r0 r3 <= 1\nr0 r3 >= 3\nr0 r3 >= 3\n");
    let said = train(&place, &["--pairs", "against.txt", "--rank", "2"]);
    for part in ["converged", "\nconstraints: 3\n", "\nviolated: 3\n"] {
        assert!(said.stdout.contains(part), "{}", said.stdout);
    }
    // Rows need no labels then.
    place.write("rows.svm", " 1:1 3:2\n 1:2\n 2:5 3:1\n");
    place.write("svm.txt", "0 1 same\n1 2 different\n");
    let said = place.run(&[
        "train", "metric", "rows.svm", "-o", "s", "--pairs", "svm.txt", "--rank", "1",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
}

/// Few rows, a constant column, classes far apart: whatever is learned stays in range.
#[test]
fn tiny_tables_are_learned_by_all_learners() {
    let place = Place::new();
    let rows = "label,a,b\nx,1,5\ny,2,5\nx,0,5\ny,3,5\nx,.5,5\ny,2.5,5\nx,.1,5\ny,2.2,5\n";
    place.write("train.csv", rows);
    for learner in [
        "flat",
        "polar",
        "cone-affine",
        "cone-logdet",
        "cone-log",
        "itml",
        "lego",
    ] {
        let length = match learner {
            "lego" => ["--epochs", "30"],
            _ => ["--iterations", "30"],
        };
        for more in [&[][..], &length] {
            let said = train(&place, &[&["--learner", learner][..], more].concat());
            assert_eq!(said.code, 0, "{learner}: {}", said.stderr);
            let said = place.run(&["eval", "m", "train.csv", "-k", "3", "--json"]);
            assert_eq!(said.json()["metrics"]["knn_error"], 0.0, "{learner}");
        }
    }
}

#[test]
fn equal_seeds_give_equal_bytes_for_any_threads() {
    let place = place();
    for learner in ["flat", "polar"] {
        let bytes = |threads: &str| {
            let said = train(&place, &["--learner", learner, "--threads", threads]);
            assert_eq!(said.code, 0, "{}", said.stderr);
            std::fs::read(place.path("m")).unwrap()
        };
        assert!(bytes("1") == bytes("3"));
    }
}

#[test]
fn validation_keeps_the_best_and_is_told_in_the_curve() {
    let place = place();
    let said = train(
        &place,
        &[
            "--rank",
            "2",
            "--valid",
            "test.csv",
            "--patience",
            "4",
            "--curve",
            "curve.jsonl",
            "--json",
        ],
    );
    let report = said.json();
    let kept = report["metrics"]["knn_error"].as_f64().unwrap();
    let curve = place.read("curve.jsonl");
    let errors = curve.lines().map(|line| {
        let point: serde_json::Value = serde_json::from_str(line).unwrap();
        point["knn_error"].as_f64().unwrap()
    });
    assert_eq!(errors.fold(f64::INFINITY, f64::min), kept);
    assert_eq!(error_of(&place).0, kept);
    // Baselines have no W on the way: the last one is judged and kept.
    for learner in ["itml", "lego"] {
        let said = train(
            &place,
            &["--learner", learner, "--valid", "test.csv", "--json"],
        );
        let (model, baseline) = error_of(&place);
        assert_eq!(said.json()["metrics"]["knn_error"], model, "{learner}");
        assert!(model < baseline, "{learner}: {model} {baseline}");
    }
    let said = train(&place, &["--valid-fraction", "0.3", "--json"]);
    assert!(said.json()["metrics"]["knn_error"].is_number());
}

#[test]
fn bad_input_is_refused_and_the_old_model_stays() {
    let place = place();
    assert_eq!(train(&place, &[]).code, 0);
    let before = std::fs::read(place.path("m")).unwrap();
    place.write("one.csv", "label,a\nx,1\nx,2\nx,4\n");
    place.write("none.csv", "label,a\n,1\ny,2\nx,4\n");
    place.write("same.csv", "label,a\nx,1\ny,1\nx,1\ny,1\n");
    place.write("alone.csv", "label,a\nx,1\ny,2\nz,4\n");
    place.write("few.csv", "label,a,b,c,d\nx,1,2,1,1\ny,2,1,3,1\n");
    place.write("huge.csv", "label,a\nx,1e300\ny,-1e300\nx,1e299\ny,0\n");
    place.write("nan.csv", "label,a\nx,oops\ny,1\n");
    place.write("bad.txt", "r0 r1 same\nr0 nobody different\n");
    place.write("empty.txt", "");
    let metric = |file: &str, more: &[&str]| {
        place.run(&[&["train", "metric", file, "-o", "m"], more].concat())
    };
    for (file, more, message) in [
        (
            "one.csv",
            "",
            "one.csv: all rows are of one class: a metric needs two classes at least, or constraints",
        ),
        (
            "none.csv",
            "",
            "none.csv: row `0` has 0 labels, expected exactly one",
        ),
        (
            "same.csv",
            "",
            "same.csv: rows do not differ, or their distances leave the range of numbers",
        ),
        (
            "huge.csv",
            "",
            "huge.csv: rows do not differ, or their distances leave the range of numbers",
        ),
        (
            "alone.csv",
            "",
            "alone.csv: neighbors of both kinds need two classes, and two rows in one of them at least",
        ),
        (
            "nan.csv",
            "",
            "nan.csv:2: column `a`: expected a number, found `oops`; --label, --id, --drop and \
             --categories name columns of texts",
        ),
        (
            "train.csv",
            "--rank 5",
            "train.csv: --rank is 5, above n_features = 4",
        ),
        (
            "train.csv",
            "--rank 0",
            "--rank must be at least 1, found 0",
        ),
        (
            "train.csv",
            "--learner cone-log --rank 2",
            "--rank applies only to `polar`, `flat`, `itml` and `lego`",
        ),
        (
            "train.csv",
            "--learner polar --subspace-weight 1.5",
            "--subspace-weight must be at least 0 and at most 1, found 1.5",
        ),
        (
            "train.csv",
            "--learner itml --pairs-from neighbors",
            "--pairs-from must be random for `itml`",
        ),
        (
            "train.csv",
            "--learner lego --solver cg",
            "--solver applies only to learners other than `itml` and `lego`",
        ),
        (
            "train.csv",
            "--pairs bad.txt",
            "bad.txt:2: no row is called `nobody`",
        ),
        (
            "train.csv",
            "--pairs empty.txt",
            "empty.txt: expected lines `left right same`, `left right different`, \
             `left right <= v`, `left right >= v` or `left right v`, found none",
        ),
        (
            "train.csv",
            "--patience 2",
            "train.csv: --patience needs validation data: a share of the rows, or others",
        ),
        (
            "train.csv",
            "--pairs-from random --constraints 0",
            "--constraints must be at least 1, found 0",
        ),
        (
            "train.csv",
            "--constraints 9",
            "--constraints applies only to random pairs: `--pairs-from random`",
        ),
    ] {
        let more: Vec<&str> = more.split_whitespace().collect();
        metric(file, &more).refused(message);
    }
    assert!(std::fs::read(place.path("m")).unwrap() == before);
    // Fewer rows than neighbors.
    let said = place.run(&["eval", "m", "few.csv"]);
    said.refused("few.csv: 5 neighbors among 2 rows: give fewer neighbors or more rows");
    let said = place.run(&["eval", "m", "few.csv", "--train", "train.csv", "-k", "3"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    place
        .run(&["neighbors", "m", "test.csv", "--score", "dot"])
        .refused("--score does not apply to metrics");
    place
        .run(&["eval", "m", "test.csv", "--train", "none.csv", "-k", "1"])
        .refused("none.csv: row `0` has 0 labels, expected exactly one");
}

/// The last features of one part need not occur in the other.
#[test]
fn parts_with_different_last_features_are_measured() {
    let place = Place::new();
    let row = |i: usize, last: usize| {
        let (class, far) = (1 + i % 2, 3 * (i % 2) + i % 3);
        format!("{class} 1:{} 2:{far} {last}:1\n", i * 7 % 12)
    };
    place.write("long.svm", (0..12).map(|i| row(i, 9)).collect::<String>());
    place.write("short.svm", (0..12).map(|i| row(i, 3)).collect::<String>());
    for (train, test) in [("long.svm", "short.svm"), ("short.svm", "long.svm")] {
        let said = place.run(&["train", "metric", train, "-o", "m", "--rank", "2"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let said = place.run(&["eval", "m", test, "--train", train, "-k", "3"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
    }
}
