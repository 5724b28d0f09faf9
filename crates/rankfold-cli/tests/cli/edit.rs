//! Models of another rank.

use crate::support::Place;
use serde_json::Value;

/// Rows of three classes with six features.
fn rows() -> String {
    let row = |i: usize| {
        let cell = |j: usize| 1.0 + ((i * 7 + j * 3) % 5) as f64 + 6.0 * f64::from(i % 3 == j % 3);
        let cells = (0..6).map(|j| format!(" {}:{}", j + 1, cell(j)));
        format!("{}{}\n", i % 3, cells.collect::<String>())
    };
    (0..30).map(row).collect()
}

fn ratings() -> String {
    let rating = |u: usize, i: usize| 1 + (u * i + u + 2 * i) % 5;
    let all = (0..14).flat_map(|u| (0..9).map(move |i| (u, i)));
    let lines = all.filter(|(u, i)| (u * 5 + i * 3) % 4 != 0);
    let lines = lines.map(|(u, i)| format!("u{u},i{i},{}\n", rating(u, i)));
    format!("user,item,rating\n{}", lines.collect::<String>())
}

fn edited(place: &Place, rank: &str) -> Value {
    let told = place.run(&["edit", "m", "-o", "e", "--rank", rank, "--json"]);
    assert_eq!(told.code, 0, "{}", told.stderr);
    serde_json::from_str(&told.stdout).unwrap()
}

fn map(place: &Place, model: &str) -> f64 {
    let found = place
        .run(&["eval", model, "rows.svm", "--json", "-q"])
        .json();
    found["metrics"]["map"].as_f64().unwrap()
}

#[test]
fn a_similarity_goes_up_and_down_and_learns_on() {
    let place = Place::new();
    place.write("rows.svm", rows());
    for learner in ["loreta-psd", "loreta", "gradient-psd"] {
        let train = ["train", "similarity", "rows.svm", "-o", "m", "--rank", "3"];
        let train = [&train[..], &["--steps", "200", "-q", "--learner", learner]].concat();
        place.run(&train);
        assert_eq!(edited(&place, "5")["lost"], 0.0);
        assert!((map(&place, "m") - map(&place, "e")).abs() < 1e-4);
        // The new directions are there to be learned.
        let stream = "{\"query\":\"0\",\"positive\":\"3\",\"negative\":\"1\"}\n".repeat(5);
        let update = ["update", "e", "-o", "u", "--rows", "rows.svm", "--json"];
        let told: Value = serde_json::from_str(&place.run_with(&update, &stream).stdout).unwrap();
        assert_eq!(told["refused"], 0, "{told}");
        let info: Value =
            serde_json::from_str(&place.run(&["info", "u", "--json"]).stdout).unwrap();
        assert_eq!(info["rank"], 5);
        let down = edited(&place, "1");
        assert!(down["lost"].as_f64().unwrap() > 0.0);
        // Onto itself, and back to the matrix of before.
        place.run(&["edit", "m", "-o", "m2", "--rank", "5"]);
        place.run(&["edit", "m2", "-o", "m2", "--rank", "3"]);
        assert!((map(&place, "m") - map(&place, "m2")).abs() < 1e-4);
    }
}

#[test]
fn ratings_keep_their_predictions_and_take_new_ones() {
    let place = Place::new();
    place.write("r.csv", ratings());
    place.write("pairs.csv", "user,item\nu1,i2\nu3,i8\n");
    for learner in ["als", "polar", "bayes"] {
        let train = [
            "train",
            "completion",
            "r.csv",
            "-o",
            "m",
            "--rank",
            "3",
            "-q",
        ];
        place.run(&[&train[..], &["--learner", learner]].concat());
        edited(&place, "4");
        let predicted = |model: &str| {
            let said = place.run(&["predict", model, "pairs.csv", "-q"]);
            let last = |line: &str| {
                line.split('\t')
                    .next_back()
                    .unwrap()
                    .parse::<f64>()
                    .unwrap()
            };
            said.stdout.lines().map(last).collect::<Vec<f64>>()
        };
        for (before, after) in predicted("m").iter().zip(predicted("e")) {
            assert!((before - after).abs() < 1e-3, "{learner}: {before} {after}");
        }
        let stream = "{\"user\":\"new\",\"item\":\"i2\",\"rating\":5}\n";
        let told = place.run_with(&["update", "e", "-o", "u", "-q"], stream);
        assert_eq!(told.code, 0, "{learner}: {}", told.stderr);
    }
    let told = place.run(&["edit", "m", "-o", "e", "--rank", "1"]);
    assert!(
        told.stderr.contains("how sure ratings are"),
        "{}",
        told.stderr
    );
    let sure = place.run(&["predict", "e", "pairs.csv", "--uncertainty"]);
    assert_eq!(sure.code, 2);
}

#[test]
fn what_has_no_other_rank_is_refused_in_words() {
    let place = Place::new();
    place.write("rows.svm", rows());
    let refused = |arguments: &[&str], message: &str| {
        let said = place.run(&[&["edit"][..], arguments].concat());
        assert_eq!((said.code, said.stdout.as_str()), (2, ""));
        assert!(said.stderr.contains(message), "{}", said.stderr);
        assert!(!place.path("e").exists());
    };
    place.run(&[
        "train",
        "similarity",
        "rows.svm",
        "-o",
        "m",
        "--rank",
        "2",
        "--steps",
        "9",
        "-q",
    ]);
    refused(&["m", "-o", "e", "--rank", "7"], "expected 1 to 6");
    refused(&["m", "-o", "e", "--rank", "0"], "expected 1 to 6");
    refused(&["m", "-o", "-", "--rank", "1"], "`-` is not possible");
    refused(&["rows.svm", "-o", "e", "--rank", "1"], "rows.svm");
    let full = [
        "train",
        "similarity",
        "rows.svm",
        "-o",
        "f",
        "--learner",
        "oasis",
    ];
    place.run(&[&full[..], &["--steps", "9", "-q"]].concat());
    refused(&["f", "-o", "e", "--rank", "1"], "stored in full");
    place.write("d.txt", "a b 1\na c 2\nb c 1.5\na d 2\nb d 2\nc d 1\n");
    place.run(&["train", "kernel", "--mds", "d.txt", "-o", "p", "-q"]);
    refused(&["p", "-o", "e", "--rank", "1"], "train it again");
    let clicks: String = (0..40)
        .map(|i| format!("u{},i{}\n", i % 8, (i * 3 + i / 8) % 10))
        .collect();
    place.write("c.csv", format!("user,item\n{clicks}"));
    place.run(&[
        "train",
        "recommend",
        "c.csv",
        "-o",
        "c",
        "--rank",
        "2",
        "-q",
    ]);
    refused(&["c", "-o", "e", "--rank", "1"], "train it again");
}
