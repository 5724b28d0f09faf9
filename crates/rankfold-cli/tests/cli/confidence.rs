//! Models of AROMA that say how sure they are.

use serde_json::{Value, json};

use crate::support::{Place, Said};
use crate::train::place_with_data;

const LEARNERS: [&str; 2] = ["aroma-factored", "aroma-diagonal"];

fn train(place: &Place, learner: &str, more: &[&str]) -> Said {
    let run = [
        "train",
        "similarity",
        "train.svm",
        "-o",
        "m",
        "--learner",
        learner,
        "--seed",
        "3",
        "--normalize",
        "l2",
        "--quiet",
    ];
    let steps: &[&str] = match more.contains(&"--steps") {
        true => &[],
        false => &["--steps", "3000"],
    };
    let said = place.run(&[&run[..], more, steps].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    said
}

/// Lines of numbers.
fn numbers(said: &Said) -> Vec<Vec<f64>> {
    assert_eq!(said.code, 0, "{}", said.stderr);
    let line = |line: &str| -> Vec<f64> {
        line.split('\t')
            .map(|text| text.parse().expect("a number"))
            .collect()
    };
    said.stdout.lines().map(line).collect()
}

fn info(place: &Place) -> Value {
    let said = place.run(&["info", "m", "--json"]);
    serde_json::from_str(&said.stdout).expect("JSON")
}

#[test]
fn pairs_and_triplets_have_intervals_and_probabilities() {
    let place = place_with_data();
    place.write("pairs.txt", "0 5\n0 1\n7 12\n");
    place.write("triplets.txt", "0 5 1\n0 1 5\n3 8 8\n");
    for learner in LEARNERS {
        train(&place, learner, &[]);
        let predict = |input: &str, more: &[&str]| {
            let run = ["predict", "m", input, "--rows", "test.svm"];
            place.run(&[&run[..], more].concat())
        };
        let scores = numbers(&predict("pairs.txt", &[]));
        let sure = numbers(&predict("pairs.txt", &["--uncertainty"]));
        let narrow = numbers(&predict("pairs.txt", &["--uncertainty", "--level", "0.5"]));
        for ((score, sure), narrow) in scores.iter().zip(&sure).zip(&narrow) {
            let &[mean, sd, low, high] = &sure[..] else {
                panic!("{sure:?}");
            };
            assert_eq!(mean, score[0]);
            assert!(sd > 0.0 && sd < 1.0, "{learner}: {sd}");
            assert!((high - mean - 1.959_963_984_540_054 * sd).abs() < 1e-9);
            assert!((mean - low - 1.959_963_984_540_054 * sd).abs() < 1e-9);
            assert!(narrow[2] > low && narrow[3] < high && narrow[1] == sd);
        }
        let triplets = numbers(&predict("triplets.txt", &["--uncertainty"]));
        let plain = numbers(&predict("triplets.txt", &[]));
        let [one, mirror, none] = &triplets[..] else {
            panic!("{triplets:?}");
        };
        assert!((one[0] - plain[0][0]).abs() < 1e-6 && plain[0].len() == 1);
        assert!((one[0] + mirror[0]).abs() < 1e-9 && (one[4] + mirror[4] - 1.0).abs() < 1e-9);
        assert!((one[4] > 0.5) == (one[0] > 0.0) && one[4] > 0.0 && one[4] < 1.0);
        // A row against itself: no margin, no variance, either order.
        assert_eq!((none[0], none[1], none[4]), (0.0, 0.0, 0.5));

        let said = predict("triplets.txt", &["--uncertainty", "--json"]);
        let found = said.json();
        for (column, name) in [
            (0, "scores"),
            (1, "sd"),
            (2, "low"),
            (3, "high"),
            (4, "probability"),
        ] {
            for (line, value) in triplets.iter().zip(found[name].as_array().expect(name)) {
                let value = value.as_f64().unwrap();
                assert!((value - line[column]).abs() < 1e-6, "{learner} {name}");
            }
        }
        // Of a row that is not there nothing is known.
        place.write("unknown.txt", "0 5 x\n");
        let said = predict("unknown.txt", &["--uncertainty"]);
        assert_eq!(said.stdout, "0\tinf\t-inf\tinf\t0.5\n");
        let said = predict("unknown.txt", &["--uncertainty", "--json"]);
        assert_eq!(said.json()["probability"], json!([Value::Null]));
    }
}

#[test]
fn neighbors_can_be_ranked_by_what_they_may_be() {
    let place = place_with_data();
    for learner in LEARNERS {
        train(&place, learner, &[]);
        let list = |more: &[&str]| {
            let run = ["neighbors", "m", "test.svm", "--query", "4", "-k", "199"];
            let said = place.run(&[&run[..], more].concat());
            numbers(&said)
        };
        let plain = list(&[]);
        let sure = list(&["--uncertainty"]);
        for (plain, sure) in plain.iter().zip(&sure) {
            assert_eq!(plain[..], sure[..4]);
            assert!(sure[4] > 0.0 && sure[5] < sure[3] && sure[3] < sure[6]);
        }
        // The same rows in the order of their upper bounds.
        let upper = list(&["--uncertainty", "--rank-by", "upper", "--explore", "2"]);
        let bound = |line: &Vec<f64>| line[3] + 2.0 * line[4];
        assert!(
            upper
                .windows(2)
                .all(|two| bound(&two[0]) >= bound(&two[1]) - 1e-9)
        );
        let mut best = sure.clone();
        best.sort_by(|a, b| bound(b).total_cmp(&bound(a)));
        assert!((bound(&best[0]) - bound(&upper[0])).abs() < 1e-9);
        assert_ne!(upper, sure);
        // Without standard deviations it is the score.
        let zero = list(&["--rank-by", "upper", "--explore", "0"]);
        assert_eq!(zero, plain);
        let run = [
            "neighbors",
            "m",
            "test.svm",
            "--query",
            "4",
            "-k",
            "2",
            "--uncertainty",
            "--json",
        ];
        let found = place.run(&run).json();
        let first = &found["queries"][0]["neighbors"][0];
        assert_eq!(first["sd"].as_f64(), Some(sure[0][4]));
        assert!(first["low"].as_f64() < first["high"].as_f64());
    }
}

#[test]
fn only_distributions_know_how_sure_they_are() {
    let place = place_with_data();
    train(&place, "oasis", &[]);
    place.write("pairs.txt", "0 5\n");
    let message = "m: `oasis` does not learn how sure it is: expected a model of \
                   `aroma-factored` or `aroma-diagonal`";
    place
        .run(&[
            "predict",
            "m",
            "pairs.txt",
            "--rows",
            "test.svm",
            "--uncertainty",
        ])
        .refused(message);
    for option in [&["--uncertainty"][..], &["--rank-by", "upper"]] {
        let run = ["neighbors", "m", "test.svm"];
        place.run(&[&run[..], option].concat()).refused(message);
    }
    for (option, value) in [("--level", "1"), ("--level", "x"), ("--explore", "-1")] {
        let said = place.run(&["neighbors", "m", "test.svm", option, value]);
        assert_eq!(said.code, 2, "{option} {value}: {}", said.stderr);
    }
}

#[test]
fn validation_rows_calibrate_the_variances() {
    let place = place_with_data();
    for learner in LEARNERS {
        let trained: Value = train(&place, learner, &["--valid", "test.svm", "--json"]).json();
        let scale = trained["variance_scale"].as_f64().expect("a factor");
        assert_eq!(trained["confidence_r"], 1.0);
        assert_eq!(trained["storage"], "dense");
        let said = info(&place);
        assert_eq!(said["variance_scale"].as_f64(), Some(scale));
        assert_eq!(
            (&said["update_on"], &said["confidence_r"]),
            (&json!("margin"), &json!(1.0))
        );
        let found = place.run(&["eval", "m", "test.svm", "--json"]).json();
        let calibration = &found["calibration"];
        assert_eq!(calibration["bins"].as_array().map(Vec::len), Some(10));
        let [error, raw] = ["error", "raw_error"].map(|name| calibration[name].as_f64().unwrap());
        assert!(error < 0.05 && error < raw, "{learner}: {error} and {raw}");
        // The standard deviation of predictions has the factor.
        place.write("pairs.txt", "0 5\n");
        let sd = |place: &Place| {
            let run = [
                "predict",
                "m",
                "pairs.txt",
                "--rows",
                "test.svm",
                "--uncertainty",
            ];
            numbers(&place.run(&run))[0][1]
        };
        let scaled = sd(&place);
        train(&place, learner, &[]);
        assert!((scaled / sd(&place) - scale.sqrt()).abs() < 1e-6 * scale.sqrt());
        let said = info(&place);
        assert_eq!(said["variance_scale"], Value::Null);
    }
}

#[test]
fn a_distribution_goes_on_where_it_stopped() {
    let bytes = |place: &Place, name: &str| std::fs::read(place.path(name)).expect("a file");
    for learner in LEARNERS {
        for more in [
            &[][..],
            &["--select", "uncertain"],
            &["--valid-fraction", "0.2", "--curve-every", "500"],
        ] {
            let place = place_with_data();
            let more = [more, &["--precision", "f64"]].concat();
            train(&place, learner, &more);
            let whole = bytes(&place, "m");
            let part = [
                "--steps",
                "1000",
                "--checkpoint",
                "c",
                "--checkpoint-every",
                "1000",
            ];
            train(&place, learner, &[&more[..], &part].concat());
            train(&place, learner, &[&more[..], &["--resume", "c"]].concat());
            assert!(bytes(&place, "m") == whole, "{learner} {more:?}");
        }
    }
}
