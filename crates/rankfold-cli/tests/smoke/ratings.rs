//! Ratings of MovieLens.

use crate::support::Place;

pub fn movielens_100k_is_split_as_published([path]: [&str; 1]) {
    let place = Place::new();
    let said = place.run(&["split", path, "-o", "k", "--test", "0.1", "--json"]);
    assert_eq!(said.json()["test_rows"], 10_000);
    let test = place.read("k.test.csv.gz");
    let rating = |line: &str| line.split(',').nth(2)?.parse::<u32>().ok();
    assert_eq!(test.lines().skip(1).filter_map(rating).sum::<u32>(), 35_480);
}

pub fn movielens_1m_is_split_as_published([path]: [&str; 1]) {
    let place = Place::new();
    let said = place
        .run(&["split", path, "-o", "m", "--test", "0.1", "--json"])
        .json();
    assert_eq!(
        (&said["rows"], &said["test_rows"]),
        (&1_000_209.into(), &100_020.into())
    );
    let test = place.read("m.test.csv.gz");
    let rating = |line: &str| line.split(',').nth(2)?.parse::<u32>().ok();
    assert_eq!(
        test.lines().skip(1).filter_map(rating).sum::<u32>(),
        358_652
    );
    let mut first: Vec<(u64, u64)> = (0..1_000_209)
        .map(|row| (rankfold::data::split_key(0, row), row))
        .collect();
    first.sort_unstable();
    first.truncate(100_020);
    let mut rows: Vec<u64> = first.into_iter().map(|(_, row)| row).collect();
    rows.sort_unstable();
    assert_eq!(rows[..3], [10, 18, 21]);
}

pub fn movielens_100k_is_predicted_better_than_by_biases([path]: [&str; 1]) {
    let place = Place::new();
    let split = ["split", path, "-o", "m", "--test", "0.1", "--seed", "0"];
    assert_eq!(place.run(&split).code, 0);
    for (learner, most) in [("auto", 0.88), ("als", 0.906)] {
        let run = ["train", "completion", "m.train.csv.gz", "-o", "model"];
        let how = ["--rank", "10", "--learner", learner, "--quiet", "--json"];
        let trained = place.run(&[&run[..], &how].concat()).json();
        assert_eq!(trained["ratings"], 90_000);
        let eval = ["eval", "model", "m.test.csv.gz", "--quiet", "--json"];
        let found = place.run(&eval).json();
        let rmse = |side: &serde_json::Value| side["metrics"]["rmse"].as_f64().expect("a number");
        assert!(rmse(&found) <= most, "{learner}: {found}");
        assert!((rmse(&found["baseline"]) - 0.945).abs() < 0.003, "{found}");
    }
    // Nobody is recommended what they have rated.
    let run = ["recommend", "model", "m.train.csv.gz", "-k", "2000"];
    let listed = place.run(&run).stdout.lines().count();
    assert_eq!(listed, 943 * 1_669 - 90_000);
}

/// Linear models of full rank have .34 here, and what is most popular .13.
pub fn lists_of_movielens_100k_are_better_than_popularity([path]: [&str; 1]) {
    let place = Place::new();
    let split = ["split", path, "-o", "c", "--test", "0.1", "--by", "user"];
    assert_eq!(place.run(&split).code, 0);
    let train = ["train", "recommend", "c.train.csv.gz", "-o", "model", "-q"];
    assert_eq!(place.run(&train).code, 0);
    let found = place
        .run(&["eval", "model", "c.test.csv.gz", "--json"])
        .json();
    let ndcg = |side: &serde_json::Value| side["metrics"]["ndcg_at_10"].as_f64().unwrap();
    assert!(ndcg(&found) > 0.335, "{found}");
    assert!(ndcg(&found["baseline"]) < 0.16, "{found}");
}
