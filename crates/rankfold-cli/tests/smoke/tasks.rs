//! Tasks that share a subspace: the pupils of 139 schools, and 42 patients.

use serde_json::Value;

use crate::support::Place;

fn nmse(value: &Value) -> f64 {
    value["metrics"]["nmse"].as_f64().expect("a number")
}

/// Trains on four fifths of each task, and measures on the rest with all baselines.
fn measure(path: &str, rank: &str, columns: &[&str], more: &[&str]) -> Value {
    let place = Place::new();
    let by = [
        "split", path, "-o", "p", "--test", "0.2", "--by", columns[1],
    ];
    let said = place.run(&by);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let (train, test) = ("p.train.csv.gz", "p.test.csv.gz");
    let start = ["train", "multitask", train, "-o", "m", "--rank", rank];
    let said = place.run(&[&start[..], columns, more, &["--quiet"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    place
        .run(&["eval", "m", test, "--train", train, "--json"])
        .json()
}

pub fn schools_share_more_than_a_pooled_ridge_knows([path]: [&str; 1]) {
    let columns = ["--task-column", "task", "--target-column", "y"];
    let found = measure(path, "3", &columns, &[]);
    assert_eq!(found["rows"], 3023);
    for baseline in found["baselines"].as_array().expect("some") {
        assert!(nmse(&found) < nmse(baseline), "{} {baseline}", nmse(&found));
    }
    // The first split is harder than the mean of ten, .711.
    assert!(nmse(&found) < 0.725, "{}", nmse(&found));
}

pub fn patients_are_as_well_known_as_by_their_own_regressions([path]: [&str; 1]) {
    let columns = [
        "--task-column",
        "subject#",
        "--target-column",
        "total_UPDRS",
        "--ignore-column",
        "motor_UPDRS",
    ];
    let found = measure(path, "5", &columns, &[]);
    let baseline = |name: &str| {
        let all = found["baselines"].as_array().expect("some");
        nmse(all.iter().find(|c| c["name"] == name).expect("it"))
    };
    assert!(nmse(&found) < 0.4 * baseline("pooled"), "{}", nmse(&found));
    assert!(nmse(&found) < 0.342, "{}", nmse(&found));
    let plain = "--standardize none --no-bias --no-common --regularization 0.1";
    let plain: Vec<&str> = plain.split(' ').collect();
    let found = measure(path, "5", &columns, &plain);
    assert!(nmse(&found) < 0.342, "{}", nmse(&found));
}
