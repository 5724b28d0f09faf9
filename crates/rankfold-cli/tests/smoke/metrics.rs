//! A metric on Isolet: the letters of new speakers by their nearest neighbors.

use crate::support::Place;

pub fn isolet_metric_has_the_error_of_a_large_margin([path]: [&str; 1]) {
    let place = Place::new();
    let said = place.run(&["split", path, "-o", "iso", "--where", "fold=5"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    // The first column says the fold, and is no feature.
    for part in ["train", "test"] {
        let text = place.read(&format!("iso.{part}.csv.gz"));
        let rows = text.lines().filter_map(|line| line.split_once(','));
        let rows: Vec<&str> = rows.map(|(_, row)| row).collect();
        place.write(&format!("{part}.csv"), rows.join("\n") + "\n");
    }
    let said = place.run(&[
        "train",
        "metric",
        "train.csv",
        "-o",
        "m",
        "--rank",
        "20",
        "--standardize",
        "global",
        "--quiet",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = place.run(&["eval", "m", "test.csv", "--train", "train.csv", "--json"]);
    let found = said.json();
    let error =
        |value: &serde_json::Value| value["metrics"]["knn_error"].as_f64().expect("a number");
    // Euclid and PCA are .089 and .162 in all programs.
    let baselines: Vec<f64> = found["baselines"]
        .as_array()
        .expect("some")
        .iter()
        .map(error)
        .collect();
    assert!((baselines[0] - 0.089).abs() < 0.001 && (baselines[1] - 0.162).abs() < 0.001);
    assert!(error(&found) <= 0.061, "{}", error(&found));
}
