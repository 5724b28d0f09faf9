//! Models of parts, merged; and factors of other programs.

use crate::support::Place;
use serde_json::Value;

/// Ratings of these users.
fn ratings(users: std::ops::Range<usize>) -> String {
    let rating = |u: usize, i: usize| 1 + (u * i + u + 2 * i) % 5;
    let all = users.flat_map(|u| (0..9).map(move |i| (u, i)));
    let lines = all.filter(|(u, i)| (u * 5 + i * 3) % 4 != 0);
    let lines = lines.map(|(u, i)| format!("u{u},i{i},{}\n", rating(u, i)));
    format!("user,item,rating\n{}", lines.collect::<String>())
}

fn rows(seed: usize) -> String {
    let row = |i: usize| {
        let cell =
            |j: usize| 1.0 + ((i * 7 + j * 3 + seed) % 5) as f64 + 6.0 * f64::from(i % 3 == j % 3);
        let cells = (0..6).map(|j| format!(" {}:{}", j + 1, cell(j)));
        format!("{}{}\n", i % 3, cells.collect::<String>())
    };
    (0..30).map(row).collect()
}

#[track_caller]
fn json(place: &Place, arguments: &[&str]) -> Value {
    let said = place.run(&[arguments, &["--json", "-q"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    serde_json::from_str(&said.stdout).unwrap()
}

fn predicted(place: &Place, model: &str) -> Vec<f64> {
    let said = place.run(&["predict", model, "pairs.csv", "-q"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let last = |line: &str| line.rsplit([',', '\t']).next().unwrap().parse().ok();
    said.stdout.lines().filter_map(last).collect()
}

#[test]
fn ratings_of_two_halves_become_one_model_that_learns_on() {
    let place = Place::new();
    place.write("a.csv", ratings(0..10));
    place.write("b.csv", ratings(10..20));
    for name in ["a", "b"] {
        let file = format!("{name}.csv");
        json(
            &place,
            &["train", "completion", &file, "-o", name, "--rank", "2"],
        );
    }
    let told = json(&place, &["merge", "a", "b", "-o", "m"]);
    assert_eq!((&told["rows"], &told["columns"]), (&20.into(), &9.into()));
    assert_eq!((&told["rank"], &told["models"]), (&2.into(), &2.into()));
    // A model merged with itself says the same.
    place.write("pairs.csv", ratings(0..10));
    json(&place, &["merge", "a", "a", "-o", "same"]);
    let (one, two) = (predicted(&place, "a"), predicted(&place, "same"));
    assert!(one.len() > 60, "{}", one.len());
    for (one, two) in one.iter().zip(&two) {
        assert!((one - two).abs() < 1e-4, "{one} {two}");
    }
    place.write("more.csv", "user,item,rating\nu3,i1,5\nnew,i2,1\n");
    json(&place, &["update", "m", "more.csv", "-o", "n"]);
    assert_eq!(json(&place, &["info", "n"])["task"], "completion");
}

#[test]
fn every_kind_that_has_a_mean_is_merged() {
    let place = Place::new();
    place.write("a.svm", rows(0));
    place.write("b.svm", rows(1));
    let kinds: [&[&str]; 6] = [
        &[
            "similarity",
            "--learner",
            "loreta-psd",
            "--rank",
            "2",
            "--steps",
            "60",
        ],
        &[
            "similarity",
            "--learner",
            "loreta",
            "--rank",
            "2",
            "--steps",
            "60",
        ],
        &["similarity", "--learner", "oasis", "--steps", "60"],
        &[
            "similarity",
            "--score",
            "classes",
            "--rank",
            "2",
            "--steps",
            "60",
        ],
        &["metric", "--rank", "2"],
        &["ranking", "--rank", "2"],
    ];
    for kind in kinds {
        for name in ["a", "b"] {
            let file = format!("{name}.svm");
            let train = [&["train", kind[0], &file, "-o", name], &kind[1..]].concat();
            json(&place, &train);
        }
        json(&place, &["merge", "a", "b", "-o", "m"]);
        json(&place, &["merge", "a", "a", "-o", "same"]);
        let measured = |model: &str| {
            let found = json(&place, &["eval", model, "a.svm"]);
            let metrics = found["metrics"].as_object().unwrap().clone();
            metrics
                .values()
                .filter_map(Value::as_f64)
                .collect::<Vec<f64>>()
        };
        let (one, same) = (measured("a"), measured("same"));
        for (one, same) in one.iter().zip(&same) {
            assert!((one - same).abs() < 2e-2, "{kind:?}: {one} {same}");
        }
        assert!(measured("m").iter().all(|v| v.is_finite()), "{kind:?}");
    }
}

#[test]
fn distributions_add_up_what_they_learned() {
    let place = Place::new();
    place.write("a.svm", rows(0));
    place.write("b.svm", rows(1));
    place.write("pairs.txt", "0 1\n2 7\n4 4\n");
    for learner in ["aroma-factored", "aroma-diagonal"] {
        for name in ["a", "b"] {
            let file = format!("{name}.svm");
            let train = ["train", "similarity", &file, "-o", name, "--steps", "60"];
            json(&place, &[&train[..], &["--learner", learner]].concat());
        }
        json(&place, &["merge", "a", "a", "-o", "same"]);
        json(&place, &["merge", "a", "b", "-o", "m"]);
        // Scores and their deviations.
        let known = |model: &str| -> Vec<(f64, f64)> {
            let asked = [
                "predict",
                model,
                "pairs.txt",
                "--rows",
                "a.svm",
                "--uncertainty",
            ];
            let said = place.run(&[&asked[..], &["-q"]].concat());
            assert_eq!(said.code, 0, "{}", said.stderr);
            let numbers = |line: &str| {
                let mut cells = line.split('\t').filter_map(|cell| cell.parse::<f64>().ok());
                let numbers: Vec<f64> = cells.by_ref().collect();
                (numbers[0], numbers[1])
            };
            said.stdout.lines().map(numbers).collect()
        };
        let (one, same, both) = (known("a"), known("same"), known("m"));
        assert_eq!(one.len(), 3);
        for ((one, same), both) in one.iter().zip(&same).zip(&both) {
            assert!(
                (one.0 - same.0).abs() < 1e-4 * (1.0 + one.0.abs()),
                "{one:?} {same:?}"
            );
            assert!(
                same.1 < one.1 && both.1 < one.1,
                "{one:?} {same:?} {both:?}"
            );
        }
        json(&place, &["update", "m", "b.svm", "-o", "n"]);
    }
}

/// Rows of these tasks: what two features weigh follows from the task.
fn tasks(tasks: std::ops::Range<usize>, seed: usize) -> String {
    let cell = |i: usize, j: usize| ((i * 7 + j * 5 + seed * 3 + i * i * j) % 11) as f64;
    let row = |t: usize, i: usize| {
        let own = (t % 3) as f64;
        let target = t as f64 + cell(i, 0) + own * cell(i, 1) - cell(i, 2);
        let target = target + 0.1 * cell(i + t, 3);
        format!(
            "s{t},{},{},{},{target}\n",
            cell(i, 0),
            cell(i, 1),
            cell(i, 2)
        )
    };
    let lines = tasks.flat_map(|t| (0..15).map(move |i| row(t, i)));
    format!("task,a,b,c,target\n{}", lines.collect::<String>())
}

#[test]
fn tasks_of_two_parts_become_one_model_that_learns_on() {
    let place = Place::new();
    place.write("a.csv", tasks(0..5, 0));
    place.write("b.csv", tasks(3..8, 1));
    for (name, scaling) in [("a", "global"), ("b", "task")] {
        let file = format!("{name}.csv");
        let train = ["train", "multitask", &file, "-o", name, "--rank", "1"];
        let options = ["--regularization", "1", "--standardize", scaling];
        json(&place, &[&train[..], &options].concat());
    }
    let told = json(&place, &["merge", "a", "b", "-o", "m", "--rank", "3"]);
    assert_eq!((&told["rows"], &told["columns"]), (&3.into(), &8.into()));
    assert!(told["lost"].as_f64().unwrap() < 1e-9, "{told}");
    // Tasks of one model alone keep what it says of them.
    let agree = |one: &str, two: &str, tolerance: f64| {
        let (one, two) = (predicted(&place, one), predicted(&place, two));
        assert!(one.len() >= 30, "{}", one.len());
        for (one, two) in one.iter().zip(&two) {
            assert!((one - two).abs() < tolerance, "{one} {two}");
        }
    };
    place.write("pairs.csv", tasks(0..3, 2));
    agree("a", "m", 1e-4);
    place.write("pairs.csv", tasks(5..8, 2));
    agree("b", "m", 1e-4);
    json(&place, &["merge", "b", "b", "-o", "same"]);
    agree("b", "same", 1e-4);
    place.write("more.csv", tasks(2..10, 4));
    let told = json(&place, &["update", "m", "more.csv", "-o", "n"]);
    assert_eq!(
        told["counters"]["refused"].as_u64().unwrap_or(0),
        0,
        "{told}"
    );
    json(&place, &["merge", "n", "a", "-o", "again"]);
    assert_eq!(json(&place, &["info", "again"])["init"], "merge");
    let plain = [
        "--rank",
        "1",
        "--regularization",
        "1",
        "--standardize",
        "none",
    ];
    json(
        &place,
        &[&["train", "multitask", "a.csv", "-o", "p"][..], &plain].concat(),
    );
    let said = place.run(&["merge", "a", "p", "-o", "x"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("expected the same"), "{}", said.stderr);
}

#[test]
fn what_cannot_be_merged_is_refused_in_words() {
    let place = Place::new();
    place.write("a.svm", rows(0));
    place.write("r.csv", ratings(0..10));
    let train = [
        "train",
        "similarity",
        "a.svm",
        "-o",
        "s",
        "--rank",
        "2",
        "--steps",
        "9",
    ];
    json(&place, &train);
    json(
        &place,
        &["train", "completion", "r.csv", "-o", "r", "--rank", "2"],
    );
    let refused = |arguments: &[&str], message: &str| {
        let said = place.run(&[&["merge"][..], arguments].concat());
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (2, ""),
            "{}",
            said.stderr
        );
        assert!(said.stderr.contains(message), "{}", said.stderr);
        assert!(!place.path("m").exists());
    };
    refused(&["s", "r", "-o", "m"], "expected one task");
    refused(&["s", "s", "-o", "-"], "`-` is not possible");
    refused(&["s", "s", "-o", "s"], "read by the same command");
    refused(&["s", "s", "-o", "m", "--rank", "7"], "expected 1 to 6");
    refused(
        &["s", "s", "-o", "m", "--weights", "1"],
        "for each of 2 models",
    );
    refused(&["s", "a.svm", "-o", "m"], "a.svm");
}

#[test]
fn factors_go_to_other_programs_and_come_back() {
    let place = Place::new();
    place.write("r.csv", ratings(0..10));
    place.write("pairs.csv", ratings(0..10));
    let train = [
        "train",
        "completion",
        "r.csv",
        "-o",
        "r",
        "--rank",
        "2",
        "--clip",
        "none",
    ];
    let als = ["--learner", "als", "--regularization", "0.1"];
    json(&place, &[&train[..], &als].concat());
    let want = predicted(&place, "r");
    let names = ["--user-ids", "u.txt", "--item-ids", "i.txt"];
    let ways: [&[&str]; 4] = [
        &["f.npz"],
        &["f.libmf"],
        &["u.npy", "i.npy"],
        &["u.vec", "i.vec"],
    ];
    for files in ways {
        let to = [&["convert", "r", "-o"], files, &names].concat();
        json(&place, &to);
        let back = [&["convert"], files, &["-o", "back"], &names].concat();
        assert_eq!(json(&place, &back)["rank"], 4);
        let found = predicted(&place, "back");
        assert_eq!(found.len(), want.len());
        for (found, want) in found.iter().zip(&want) {
            assert!((found - want).abs() < 1e-4, "{files:?}: {found} {want}");
        }
    }
    place.write("w.vec", "3 2\nking 1 0\nqueen 0.9 0.1\ncar 0 1\n");
    json(&place, &["convert", "w.vec", "-o", "w"]);
    assert_eq!(json(&place, &["info", "w"])["task"], "similarity");
    json(&place, &["convert", "w", "-o", "back.vec"]);
    assert!(place.read("back.vec").starts_with("3 2\nking "));
    let refused = |arguments: &[&str], message: &str| {
        let said = place.run(&[&["convert"][..], arguments].concat());
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (2, ""),
            "{}",
            said.stderr
        );
        assert!(said.stderr.contains(message), "{}", said.stderr);
    };
    refused(&["w.vec", "-o", "x.npz"], "expected a model on one side");
    refused(&["u.npy", "-o", "x"], "two .npy files");
    refused(&["r", "-o", "x.npy"], "needs 2 files");
    refused(&["r", "-o", "x"], "is needed where no file ends with");
    refused(&["w", "-o", "x.libmf"], "one kind of things");
    refused(&["f.libmf", "-o", "x", "--user-ids", "i.txt"], "i.txt");
}

#[test]
fn maps_are_laid_over_each_other_and_go_on() {
    let place = Place::new();
    let line = |from: usize, to: usize| {
        let pairs = (from..to).flat_map(|i| (from..i).map(move |j| (i, j)));
        let lines = pairs.map(|(i, j)| format!("p{i} p{j} {}\n", i - j));
        lines.collect::<String>()
    };
    for (name, from, to) in [("a", 0, 6), ("b", 3, 9)] {
        let file = format!("{name}.txt");
        place.write(&file, line(from, to));
        let train = ["train", "kernel", "--mds", &file, "-o", name, "--rank", "1"];
        json(&place, &train);
    }
    let told = json(&place, &["merge", "a", "b", "-o", "m"]);
    assert_eq!((&told["rows"], &told["rank"]), (&9.into(), &1.into()));
    let info = json(&place, &["info", "m"]);
    assert_eq!(
        (&info["init"], &info["task"]),
        (&"merge".into(), &"kernel".into())
    );
    place.write("more.txt", "p0 p8 8\n");
    json(&place, &["update", "m", "more.txt", "-o", "n"]);
}
