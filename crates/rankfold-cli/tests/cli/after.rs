//! What a trained similarity is for: neighbors, scores of pairs, points.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::support::Place;
use crate::train::place_with_data;

/// A place with a model `m` of rank 6 and the rows it was trained on.
fn place_with_model(learner: &str, precision: &str) -> Place {
    let place = place_with_data();
    train(&place, "train.svm", learner, precision, "6");
    place
}

fn train(place: &Place, data: &str, learner: &str, precision: &str, rank: &str) {
    let said = place.run(&[
        "train",
        "similarity",
        data,
        "-o",
        "m",
        "--learner",
        learner,
        "--precision",
        precision,
        "--rank",
        rank,
        "--steps",
        "2000",
        "--step-size",
        "1",
        "--normalize",
        "l2",
        "--quiet",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
}

/// Rows with ids of their own.
const FRUIT: &str = "id,label,sour,sweet,round,long
lemon,x,1,0,1,0
lime,x,1,0,0.9,0.1
banana,y,0,1,0,1
kiwi,y,0.2,1,0.4,0.6
date,y,0.1,1,0.1,0.9
";

fn place_with_fruit() -> Place {
    let place = Place::new();
    place.write("fruit.csv", FRUIT);
    train(&place, "fruit.csv", "loreta-psd", "f32", "2");
    place
}

/// The lists of `neighbors`: by query, the ids and their scores.
fn lists(stdout: &str) -> Vec<(String, Vec<(String, f64)>)> {
    let mut out: Vec<(String, Vec<(String, f64)>)> = Vec::new();
    for line in stdout.lines() {
        let [query, rank, id, score] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("four fields: {line}");
        };
        if rank == "1" {
            out.push((query.into(), Vec::new()));
        }
        let (last, list) = out.last_mut().expect("a first rank");
        list.push((id.into(), score.parse().expect("a score")));
        assert_eq!((last.as_str(), rank), (query, &*list.len().to_string()));
    }
    out
}

/// The rows of a table of points, by id, in the precision they were printed in.
fn table(text: &str, precision: &str) -> Vec<(String, Vec<f64>)> {
    let number = |text: &str| match precision {
        "f32" => f64::from(text.parse::<f32>().expect("a number")),
        _ => text.parse().expect("a number"),
    };
    let lines = text.lines().skip(1).map(|line| {
        let mut fields = line.split(',');
        let id = fields.next().expect("an id").to_owned();
        (id, fields.map(number).collect())
    });
    lines.collect()
}

fn points(place: &Place, precision: &str, side: &str) -> Vec<(String, Vec<f64>)> {
    let said = place.run(&["transform", "m", "test.svm", "-o", "p.csv", "--side", side]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    table(&place.read("p.csv"), precision)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let length = |v: &[f64]| dot(v, v).sqrt().max(f64::MIN_POSITIVE);
    dot(a, b) / length(a) / length(b)
}

/// Brute force over the rows of a transform gives the lists of `neighbors`.
#[test]
fn neighbors_are_those_of_the_transformed_rows() {
    for (learner, precision, epsilon) in [
        ("loreta-psd", "f32", f64::from(f32::EPSILON)),
        ("loreta", "f32", f64::from(f32::EPSILON)),
        ("loreta", "f64", f64::EPSILON),
    ] {
        let place = place_with_model(learner, precision);
        let left = points(&place, precision, "left");
        let right = points(&place, precision, "right");
        assert_eq!(left == right, learner == "loreta-psd");
        let numbers: HashMap<&str, usize> = (0..).zip(&left).map(|(i, p)| (&*p.0, i)).collect();
        for score in ["dot", "cosine"] {
            let said = place.run(&["neighbors", "m", "test.svm", "-k", "5", "--score", score]);
            assert_eq!((said.code, said.stderr.as_str()), (0, ""));
            let found = lists(&said.stdout);
            assert_eq!(found.len(), left.len());
            for (query, (name, list)) in found.iter().enumerate() {
                assert_eq!(*name, left[query].0);
                let brute = |row: usize| match score {
                    "dot" => dot(&left[query].1, &right[row].1),
                    _ => cosine(&left[query].1, &right[row].1),
                };
                let mut want: Vec<(usize, f64)> = (0..right.len())
                    .filter(|&row| row != query)
                    .map(|row| (row, brute(row)))
                    .collect();
                want.sort_by(|a, b| b.1.total_cmp(&a.1));
                for ((id, got), (row, best)) in list.iter().zip(want) {
                    if score == "dot" {
                        assert_eq!((numbers[&**id], *got), (row, best), "{learner}");
                    } else {
                        // Scaling to length one rounds each coordinate; rows closer
                        // than that may change places.
                        let tolerance = 4.0 * epsilon;
                        assert!((got - best).abs() <= tolerance, "{got} {best}");
                        assert!((got - brute(numbers[&**id])).abs() <= tolerance);
                    }
                }
            }
        }
    }
}

#[test]
fn neighbors_do_not_depend_on_threads_or_company() {
    let place = place_with_model("loreta", "f32");
    let all = place.run(&["neighbors", "m", "train.svm", "--threads", "1"]);
    assert_eq!(all.stdout.lines().count(), 300 * 10);
    for threads in ["2", "7"] {
        let said = place.run(&["neighbors", "m", "train.svm", "--threads", threads]);
        assert!(said.stdout == all.stdout, "{threads} threads");
    }
    let some = [
        "neighbors",
        "m",
        "train.svm",
        "--query",
        "41",
        "--query",
        "7",
    ];
    let of = |query: &str| -> String {
        let lines = all.stdout.lines();
        let of = lines.filter(|line| line.starts_with(&format!("{query}\t")));
        of.map(|line| format!("{line}\n")).collect()
    };
    assert_eq!(place.run(&some).stdout, of("41") + &of("7"));
}

#[test]
fn neighbors_by_the_users_ids() {
    let place = place_with_fruit();
    let said = place.run(&["neighbors", "m", "fruit.csv", "--query", "lime", "-k", "99"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let found = lists(&said.stdout);
    let [(query, list)] = &found[..] else {
        panic!("one query: {found:?}");
    };
    assert_eq!((query.as_str(), list.len()), ("lime", 4));
    assert_eq!(list[0].0, "lemon");
    let run = ["neighbors", "m", "fruit.csv", "--query", "lime", "--json"];
    let neighbors: Vec<Value> = list
        .iter()
        .map(|(id, score)| json!({ "id": id, "score": score }))
        .collect();
    let want = json!({
        "format": 1,
        "task": "similarity",
        "score": "cosine",
        "k": 10,
        "queries": [{ "query": "lime", "neighbors": neighbors }],
    });
    assert_eq!(place.run(&run).json(), want);
    let all = place.run(&["neighbors", "m", "fruit.csv", "-k", "1", "--json"]);
    assert_eq!(all.json()["queries"].as_array().map(Vec::len), Some(5));

    place
        .run(&["neighbors", "m", "fruit.csv", "--query", "mango"])
        .refused("fruit.csv: no row is called `mango`");
    place.write("twice.csv", FRUIT.replace("lemon", "lime"));
    place
        .run(&["neighbors", "m", "twice.csv", "--query", "lime"])
        .refused("twice.csv: more than one row is called `lime`");
    place.write("broken.csv", FRUIT.replace("lemon", "\"lem\non\""));
    place.run(&["neighbors", "m", "broken.csv"]).refused(
        "broken.csv: the id `lem\\non` has a tab or a line break, which lines cannot hold: use --json",
    );
}

#[test]
fn pairs_are_scored_like_neighbors() {
    let place = place_with_fruit();
    for score in ["dot", "cosine"] {
        let said = place.run(&["neighbors", "m", "fruit.csv", "--score", score]);
        let (mut pairs, mut want) = (String::new(), String::new());
        for (query, list) in lists(&said.stdout) {
            for (id, score) in list {
                pairs += &format!("{query}\t{id}\n");
                want += &format!("{score}\n");
            }
        }
        place.write("pairs.tsv", &pairs);
        let run = ["predict", "m", "pairs.tsv", "--rows", "fruit.csv"];
        let said = place.run(&[&run[..], &["--score", score]].concat());
        assert_eq!((said.code, said.stderr.as_str()), (0, ""));
        assert_eq!(said.stdout, want);
    }
}

#[test]
fn unknown_rows_score_nothing_unless_strict() {
    let place = place_with_fruit();
    let run = ["predict", "m", "-", "--rows", "fruit.csv"];
    let strict = ["predict", "m", "-", "--rows", "fruit.csv", "--strict"];
    let input = "lemon lemon\n\nlemon mango\nmango\tpapaya\nkiwi kiwi\n";
    let said = place.run_with(&run, input);
    let scores: Vec<&str> = said.stdout.lines().collect();
    assert_eq!((scores.len(), &scores[1..3]), (4, &["0", "0"][..]));
    for score in [scores[0], scores[3]] {
        let score: f64 = score.parse().expect("a number");
        assert!((score - 1.0).abs() < 4.0 * f64::from(f32::EPSILON));
    }
    let note = "2 pairs name a row that is not there; their score is 0\n";
    assert_eq!((said.code, said.stderr.as_str()), (0, note));

    let said = place.run_with(&[&run[..], &["--json"]].concat(), input);
    let json = said.json();
    assert_eq!(json["unknown"], 2);
    assert_eq!(json["scores"].as_array().map(Vec::len), Some(4));
    assert_eq!(json["scores"][1], 0.0);

    let said = place.run_with(&strict, input);
    let message = "error: -:3: no row is called `mango`\n";
    assert_eq!((said.code, said.stderr.as_str()), (2, message));
    place
        .run_with(&run, "lemon\n")
        .refused("-:1: expected 2 fields (left right) or 3 (query positive negative), found 1");
    for (input, message) in [
        (
            "lemon lime\nlemon lime kiwi\n",
            "error: -:2: expected 2 fields (left right), found 3\n",
        ),
        (
            "lemon lime kiwi\nlemon lime\n",
            "error: -:2: expected 3 fields (query positive negative), found 2\n",
        ),
    ] {
        let said = place.run_with(&run, input);
        assert_eq!((said.code, said.stderr.as_str()), (2, message));
    }

    let said = place.run_with(&run, "");
    let nothing = (said.code, said.stdout.as_str(), said.stderr.as_str());
    assert_eq!(nothing, (0, "", ""));
    let said = place.run_with(&[&run[..], &["--json"]].concat(), "");
    assert_eq!(said.json()["scores"], json!([]));
}

#[test]
fn arrays_have_the_bytes_that_numpy_expects() {
    for (precision, size) in [("f32", 4), ("f64", 8)] {
        let place = place_with_model("loreta-psd", precision);
        let said = place.run(&["transform", "m", "test.svm", "-o", "p.npy"]);
        let text = "200 rows, 6 columns\np.npy\n";
        assert_eq!((said.code, said.stdout.as_str()), (0, text));
        let bytes = std::fs::read(place.path("p.npy")).expect("an array");
        let text = format!("{{'descr': '<f{size}', 'fortran_order': False, 'shape': (200, 6), }}");
        let mut header = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        header.extend_from_slice(text.as_bytes());
        header.resize(127, b' ');
        header.push(b'\n');
        assert_eq!(bytes[..128], header);
        let values: Vec<f64> = bytes[128..]
            .chunks(size)
            .map(|value| match value.try_into() {
                Ok(single) => f64::from(f32::from_le_bytes(single)),
                Err(_) => f64::from_le_bytes(value.try_into().expect("eight bytes")),
            })
            .collect();
        // What is printed comes back exactly, so both files hold the same rows.
        let printed = points(&place, precision, "left");
        assert_eq!(printed.len(), 200);
        let printed: Vec<f64> = printed.into_iter().flat_map(|(_, point)| point).collect();
        assert_eq!(values, printed);
    }
}

#[test]
fn points_as_text() {
    let place = place_with_fruit();
    let said = place.run(&["transform", "m", "fruit.csv", "-o", "p.csv", "--json"]);
    let want = json!({
        "format": 1,
        "task": "similarity",
        "rows": 5,
        "columns": 2,
        "precision": "f32",
        "output": "p.csv",
    });
    assert_eq!(said.json(), want);
    let csv = place.read("p.csv");
    assert!(csv.starts_with("id,x1,x2\nlemon,"), "{csv}");
    let lines: Vec<String> = csv.lines().skip(1).map(|l| l.replace(',', " ")).collect();
    let want = format!("5 2\n{}\n", lines.join("\n"));
    for name in ["p.txt", "p.vec", "p.txt.gz", "p.vec.zst"] {
        let said = place.run(&["transform", "m", "fruit.csv", "-o", name]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert_eq!(place.read(name), want, "{name}");
    }

    place.write("spaces.csv", FRUIT.replace("date", "medjool date"));
    let said = place.run(&["transform", "m", "spaces.csv", "-o", "p.vec"]);
    said.refused(
        "p.vec: the id `medjool date` is empty or has a space, which word2vec text cannot hold: write .csv instead",
    );
    assert_eq!(place.read("p.vec"), want);
    place
        .run(&["transform", "m", "fruit.csv", "-o", "p.npy.gz"])
        .refused("p.npy.gz: NumPy reads no compressed .npy: expected .npy alone");
    place.run(&["transform", "m", "fruit.csv", "-o", "-"]).refused(
        "-: unknown extension: expected .npy, or .csv, .txt or .vec, these also with .gz or .zst",
    );
    assert!(
        !place
            .names()
            .iter()
            .any(|name| name.starts_with(".rankfold"))
    );
}

#[test]
fn bad_models_and_rows_are_refused() {
    let place = place_with_fruit();
    place.write("bad", "no model");
    place.write("empty.csv", "id,sour,sweet,round,long\n");
    place.write("other.svm", "1 1:1\n");
    place.write("narrow.csv", "id,sour\na,1\n");
    for (model, data, message) in [
        (
            "fruit.csv",
            "fruit.csv",
            "fruit.csv: not a whole model file: ",
        ),
        ("none", "fruit.csv", "none: cannot read: "),
        ("m", "none.csv", "none.csv: cannot read: "),
        ("m", "empty.csv", "empty.csv: no rows"),
        (
            "m",
            "other.svm",
            "other.svm: the model's features have names, these rows call theirs by number",
        ),
        (
            "m",
            "narrow.csv",
            "narrow.csv: the column `sweet` that the model knows is missing",
        ),
    ] {
        for run in [
            &["neighbors", model, data][..],
            &["predict", model, "-", "--rows", data],
            &["transform", model, data, "-o", "p.npy"],
        ] {
            let said = place.run(run);
            assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{run:?}");
            let want = format!("error: {message}");
            assert!(said.stderr.starts_with(&want), "{run:?}: {}", said.stderr);
        }
    }
    assert!(!place.path("p.npy").exists());
}

#[test]
fn features_that_the_model_does_not_know_are_counted() {
    let place = place_with_model("loreta-psd", "f32");
    place.write("new.svm", "0 1:1 500:2\n1 5:1\n");
    let note = "1 entries have features that the model does not know; they count for nothing\n";
    for run in [
        &["neighbors", "m", "new.svm"][..],
        &["predict", "m", "-", "--rows", "new.svm"],
        &["transform", "m", "new.svm", "-o", "p.npy"],
    ] {
        let said = place.run(run);
        assert_eq!((said.code, said.stderr.as_str()), (0, note), "{run:?}");
    }
}
