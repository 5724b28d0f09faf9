use std::process::Stdio;

use crate::support::Place;

#[test]
fn help_teaches_by_example() {
    for verb in [
        "vectorize",
        "split",
        "train similarity",
        "update",
        "eval",
        "predict",
        "neighbors",
        "transform",
        "info",
        "completions",
        "man",
    ] {
        let words: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
        let said = Place::new().run(&words);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""));
        assert!(
            said.stdout.contains(&format!("  rankfold {verb} ")),
            "{verb}"
        );
        assert!(said.stdout.contains("Example"), "{verb}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let place = Place::new();
    for arguments in [
        &["nonsense"][..],
        &["split", "a.csv"],
        &["train", "similarity", "a.svm"],
        &["train", "nonsense", "a.svm", "-o", "m"],
        &[
            "train",
            "similarity",
            "a.svm",
            "-o",
            "m",
            "--learner",
            "nonsense",
        ],
        &["update", "m"],
        &["update", "m", "s.jsonl", "-o", "n", "--save-every", "x"],
        &["eval", "m"],
        &["predict", "m", "-"],
        &["neighbors", "m"],
        &["neighbors", "m", "a.svm", "-k", "0"],
        &["transform", "m", "a.svm"],
        &["transform", "m", "a.svm", "-o", "p.npy", "--side", "top"],
        &["split", "a.csv", "-o", "p", "--test", "x"],
        &["split", "a.csv", "-o", "p", "--where", "x"],
        &["vectorize", "a.jsonl", "-o", "b.svm"],
        &[
            "vectorize",
            "a",
            "-o",
            "b",
            "--fit",
            "v",
            "--vocabulary",
            "w",
        ],
        &[
            "vectorize",
            "a",
            "-o",
            "b",
            "--vocabulary",
            "w",
            "--features",
            "3",
        ],
        &["vectorize", "a", "-o", "b", "--fit", "v", "--features", "0"],
        &[
            "vectorize",
            "a",
            "-o",
            "b",
            "--fit",
            "v",
            "--strip",
            "heads",
        ],
    ] {
        let said = place.run(arguments);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(said.stderr.starts_with("error: "), "{}", said.stderr);
    }
    let said = place.run(&["--json", "nonsense"]);
    let want = "{\"error\":{\"file\":null,\"line\":null,\"message\":\"unrecognized subcommand 'nonsense'\"}}\n";
    assert_eq!((said.code, said.stderr.as_str()), (2, want));
}

#[test]
fn completions_and_manual_pages_are_printed() {
    let place = Place::new();
    let said = place.run(&["completions", "bash"]);
    assert!(said.code == 0 && said.stdout.contains("vectorize"));
    let said = place.run(&["man", "split"]);
    assert!(said.code == 0 && said.stdout.contains("PREFIX"));
    place.run(&["man", "x"]).refused("no command is called `x`");
}

#[test]
fn a_reader_that_goes_is_no_error() {
    let place = Place::new();
    let line = "{\"text\":\"apple banana\",\"label\":1}\n";
    place.write("a.jsonl", line.repeat(20_000));
    let child = place
        .command(&["vectorize", "a.jsonl", "-o", "-", "--fit", "v.json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("the binary runs");
    drop(child.stdout.take());
    let out = child.wait_with_output().expect("the binary ends");
    assert_eq!(
        (out.status.code(), out.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}
