//! Tags of bibtex.

use crate::support::Place;

pub fn bibtex_is_ranked_after_one_pass_and_a_resumed_run_is_the_same(
    [train, test, names]: [&str; 3],
) {
    let place = Place::new();
    let run = |more: &[&str]| {
        let options = [
            "train",
            "ranking",
            train,
            "--label-names",
            names,
            "--weight",
            "tfidf",
            "--normalize",
            "l2",
            "--rank",
            "50",
            "--step-size",
            "0.3",
            "--seed",
            "1",
            "--json",
        ];
        place.run(&[&options[..], more].concat()).json()
    };
    let trained = run(&["-o", "m", "--steps", "4880"]);
    assert_eq!(
        (&trained["steps"], &trained["skipped"]),
        (&4880.into(), &0.into())
    );
    let found = place.run(&["eval", "m", test, "--json"]).json();
    let map = |side: &serde_json::Value| side["metrics"]["map"].as_f64().expect("a number");
    assert!(map(&found) > 0.51, "{found}");
    assert!((map(&found["baseline"]) - 0.142).abs() < 0.003, "{found}");
    let checkpoint = ["--checkpoint", "c", "--checkpoint-every", "1000"];
    run(&[&["-o", "half", "--steps", "2500"][..], &checkpoint].concat());
    run(&["-o", "again", "--steps", "4880", "--resume", "c"]);
    let bytes = |name: &str| std::fs::read(place.path(name)).expect("a model");
    assert!(bytes("m") == bytes("again"));
}
