//! `train --init FILE`: runs that start from a model file.

use crate::support::Place;
use serde_json::Value;

fn ratings(reversed: bool) -> String {
    let rating = |u: usize, i: usize| 1 + (u * i + u + 2 * i) % 5;
    let all = (0..15).flat_map(|u| (0..9).map(move |i| (u, i)));
    let lines = all.filter(|(u, i)| (u * 5 + i * 3) % 4 != 0);
    let lines = lines.map(|(u, i)| format!("u{u},i{i},{}\n", rating(u, i)));
    let mut lines: Vec<String> = lines.collect();
    if reversed {
        lines.reverse();
    }
    format!("user,item,rating\n{}", lines.concat())
}

fn rows() -> String {
    let row = |i: usize| {
        let cell = |j: usize| 1.0 + ((i * 7 + j * 3) % 5) as f64 + f64::from(i % 3 == j % 3);
        let cells = (0..6).map(|j| format!(" {}:{}", j + 1, cell(j)));
        format!("{}{}\n", i % 3, cells.collect::<String>())
    };
    (0..45).map(row).collect()
}

#[track_caller]
fn json(place: &Place, arguments: &[&str]) -> Value {
    let said = place.run(&[arguments, &["--json", "-q"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    serde_json::from_str(&said.stdout).unwrap()
}

const ALS: [&str; 8] = [
    "train",
    "completion",
    "r.csv",
    "--learner",
    "als",
    "--regularization",
    "0.5",
    "-o",
];

#[test]
fn ratings_start_from_a_file_and_are_resumed_without_it() {
    let place = Place::new();
    place.write("r.csv", ratings(false));
    json(&place, &[&ALS[..], &["m.st", "--rank", "2"]].concat());
    let more = ["--init", "m.st", "--tolerance", "0", "--iterations"];
    json(&place, &[&ALS[..], &["whole.st"], &more, &["7"]].concat());
    assert_eq!(json(&place, &["info", "whole.st"])["init"], "model");
    // A shorter run leaves a checkpoint, and the longer one needs no model then.
    let saved = ["--checkpoint", "run.ckpt", "--checkpoint-every", "1"];
    json(
        &place,
        &[&ALS[..], &["short.st"], &more, &["3"], &saved].concat(),
    );
    std::fs::remove_file(place.path("m.st")).unwrap();
    let resume = ["--resume", "run.ckpt"];
    json(
        &place,
        &[&ALS[..], &["long.st"], &more, &["7"], &resume].concat(),
    );
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert_eq!(bytes("whole.st"), bytes("long.st"));
    // A run that did not start from a model is another run.
    let said = place.run(
        &[
            &ALS[..],
            &["no.st", "--iterations", "7", "--tolerance", "0", "-q"],
            &resume,
        ]
        .concat(),
    );
    said.refused("run.ckpt: the checkpoint was made with init = model, this run asks for none");
}

#[test]
fn the_order_of_lines_does_not_matter_to_the_start() {
    let place = Place::new();
    place.write("r.csv", ratings(false));
    json(&place, &[&ALS[..], &["m.st", "--rank", "2"]].concat());
    let more = ["--init", "m.st", "--iterations", "1", "--precision", "f64"];
    json(&place, &[&ALS[..], &["one.st"], &more].concat());
    place.write("r.csv", ratings(true));
    json(&place, &[&ALS[..], &["two.st"], &more].concat());
    let predicted = |model: &str| -> Vec<f64> {
        let said = place.run(&["predict", model, "r.csv", "-q"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let last = |line: &str| line.rsplit([',', '\t']).next().unwrap().parse().ok();
        said.stdout.lines().filter_map(last).collect()
    };
    let (one, two) = (predicted("one.st"), predicted("two.st"));
    assert!(one.len() > 80);
    for (one, two) in one.iter().zip(&two) {
        assert!((one - two).abs() < 1e-6, "{one} {two}");
    }
}

#[test]
fn files_that_are_no_start_are_refused_by_name() {
    let place = Place::new();
    place.write("r.csv", ratings(false));
    place.write("a.svm", rows());
    json(&place, &[&ALS[..], &["m.st", "--rank", "2"]].concat());
    let train = |more: &[&str]| {
        let usual = ["train", "similarity", "a.svm", "-o", "s.st", "-q"];
        place.run(&[&usual, more].concat())
    };
    train(&["--init", "m.st"])
        .refused("m.st: expected a model of `train similarity`, found one of `train completion`");
    train(&["--init", "./none"])
        .refused("./none: cannot read: No such file or directory (os error 2)");
    train(&["--init", "a.svm"])
        .refused("a.svm: not a whole model file: it has no safetensors header");
    train(&["--init", "model"]).refused(
        "a.svm: --init is `model`, but no model was given to start from: give its file, such as \
         `model.safetensors`",
    );
    let bytes = std::fs::read(place.path("m.st")).unwrap();
    place.write("half.st", &bytes[..bytes.len() / 2]);
    let said = train(&["--init", "half.st"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.starts_with("error: half.st: "),
        "{}",
        said.stderr
    );
    place
        .run(&[&ALS[..], &["m.st", "--init", "m.st", "-q"]].concat())
        .refused("m.st: cannot write: this file is read by the same command");
    place
        .run(
            &[
                &ALS[..],
                &["n.st", "--init", "m.st", "--rank", "auto", "-q"],
            ]
            .concat(),
        )
        .refused("--rank must be a number with a start from a model, which has a rank of its own");
    let bayes = ["train", "completion", "r.csv", "-o", "n.st", "-q"];
    place.run(&[&bayes[..], &["--init", "m.st"]].concat()).refused(
        "--init cannot be a model for `auto`, which has no start: choose another learner, such as \
         `als`",
    );
    let perceptron = ["train", "ranking", "a.svm", "-o", "n.st", "--init", "m.st"];
    let said = place.run(&[&perceptron[..], &["--learner", "perceptron", "-q"]].concat());
    assert_eq!(said.code, 2);
    let applies = "--init applies only to `loreta` and `passive-aggressive`";
    assert!(said.stderr.contains(applies), "{}", said.stderr);
}

/// A rank that is typed counts, also where it is the default of the task.
#[test]
fn every_task_starts_from_its_own_models() {
    let place = Place::new();
    place.write("r.csv", ratings(false));
    place.write("a.svm", rows());
    place.write(
        "p.txt",
        (0..40)
            .map(|i| format!("{} {} {}\n", i % 9 + 1, i * 5 % 9 + 1, i * i % 7))
            .collect::<String>(),
    );
    let mut tasks = String::from("task,target,x,y,z\n");
    for i in 0..60 {
        let (a, b) = (i % 7, i * 3 % 5);
        let target = a + 2 * b + i % 4;
        tasks += &format!("t{},{target},{a},{b},{}\n", i % 4, i % 3);
    }
    place.write("t.csv", tasks);
    let mut far = String::new();
    for i in 0..7 {
        for j in 0..i {
            far += &format!("i{i} i{j} {}\n", i - j);
        }
    }
    place.write("d.txt", far);
    let kinds: [(&str, &[&str]); 8] = [
        ("2", &["similarity", "a.svm"]),
        ("2", &["ranking", "a.svm"]),
        ("2", &["metric", "a.svm"]),
        ("2", &["pairs", "a.svm", "--pairs", "p.txt"]),
        ("2", &["recommend", "r.csv"]),
        ("2", &["multitask", "t.csv", "--learner", "grassmann"]),
        ("2", &["kernel", "a.svm"]),
        ("3", &["kernel", "--mds", "d.txt"]),
    ];
    for (rank, kind) in kinds {
        let train = |more: &[&str]| json(&place, &[&["train"], kind, more].concat());
        train(&["-o", "m.st", "--rank", rank]);
        let told = train(&["-o", "n.st", "--init", "m.st"]);
        assert_eq!(told["rank"].to_string(), rank, "{kind:?}");
        let info = json(&place, &["info", "n.st"]);
        assert_eq!(info["init"], "model", "{kind:?}");
        let told = train(&["-o", "n.st", "--init", "m.st", "--rank", "1"]);
        assert_eq!(told["rank"], 1, "{kind:?}");
    }
}
