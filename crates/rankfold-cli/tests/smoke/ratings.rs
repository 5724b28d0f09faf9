//! Ratings of MovieLens 100K.

use crate::support::{Place, data};

#[test]
fn movielens_100k_is_predicted_better_than_by_biases() {
    let Some(path) = data("movielens/ml-100k.csv.gz") else {
        return;
    };
    let place = Place::new();
    let split = ["split", &path, "-o", "m", "--test", "0.1", "--seed", "0"];
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
        assert!((rmse(&found["control"]) - 0.945).abs() < 0.003, "{found}");
    }
    // Nobody is recommended what they have rated.
    let run = ["recommend", "model", "m.train.csv.gz", "-k", "2000"];
    let listed = place.run(&run).stdout.lines().count();
    assert_eq!(listed, 943 * 1_669 - 90_000);
}
