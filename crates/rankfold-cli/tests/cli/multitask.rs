//! `train multitask` and what follows it.

use serde_json::{Value, json};

use crate::support::{Place, Said};

/// Entries without a pattern, about normal.
fn noise(seed: usize) -> f64 {
    let mut sum = 0.0;
    for k in 0..4u64 {
        let x = (seed as u64 + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(17 + 7 * k as u32)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        sum += (x >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
    }
    sum * 1.7
}

/// Rows of so many tasks with five features: weights of a task are common ones and a
/// multiple of one direction, its level and scale are its own. Targets are not scaled
/// by what their deviation is, so that it takes a subspace of two dimensions.
fn rows(tasks: std::ops::Range<usize>, count: usize, first: usize) -> String {
    let mut out = String::new();
    for t in tasks {
        let (level, scale, own) = (
            20.0 + 5.0 * noise(t),
            1.0 + 0.5 * noise(t + 50),
            noise(t + 99),
        );
        for i in first..first + count {
            let x: Vec<f64> = (0..5).map(|j| 3.0 + noise(1000 * t + 10 * i + j)).collect();
            let common = x[0] - 2.0 * x[1];
            let special = own * (x[2] + x[3] - x[4]);
            let y = level + scale * (common + 2.0 * special + 0.3 * noise(7000 * t + 31 * i));
            let cell = |j: usize| match (i + t + j) % 40 {
                0 => String::new(),
                _ => format!("{:.6}", x[j]),
            };
            out += &format!(
                "s{t},{y:.6},{},{},{},{},{},{},unused\n",
                cell(0),
                cell(1),
                cell(2),
                cell(3),
                cell(4),
                7
            );
        }
    }
    out
}

const HEADER: &str = "school,score,a,b,c,d,e,constant,note\n";
const COLUMNS: [&str; 6] = [
    "--task-column",
    "school",
    "--target-column",
    "score",
    "--ignore-column",
    "note",
];

fn place() -> Place {
    let place = Place::new();
    place.write("train.csv", HEADER.to_owned() + &rows(0..30, 12, 0));
    place.write("test.csv", HEADER.to_owned() + &rows(0..30, 10, 50));
    place
}

fn train(place: &Place, more: &[&str]) -> Said {
    let start = ["train", "multitask", "train.csv", "-o", "m", "--rank", "2"];
    place.run(&[&start[..], &COLUMNS, more].concat())
}

fn nmse(report: &Value) -> f64 {
    report["metrics"]["nmse"].as_f64().unwrap()
}

#[test]
fn a_shared_subspace_beats_all_baselines() {
    let place = place();
    for solver in ["trust-region", "cg", "descent"] {
        let said = train(&place, &["--solver", solver, "--json"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let report = said.json();
        assert_eq!(report["task"], "multitask");
        assert_eq!(report["learner"], "grassmann");
        assert_eq!(report["tasks"], 30);
        assert_eq!(report["features"], 6);
        assert_eq!(report["trials"].as_array().unwrap().len(), 22);
        let said = place.run(&["eval", "m", "test.csv", "--train", "train.csv", "--json"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let found = said.json();
        let names: Vec<_> = found["baselines"].as_array().unwrap().iter().collect();
        let names: Vec<_> = names.iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["pooled", "ridge", "alternating", "mean"]);
        assert_eq!(found["baseline"]["name"], "pooled");
        assert_eq!(found["tasks"].as_array().unwrap().len(), 30);
        for baseline in found["baselines"].as_array().unwrap() {
            assert!(nmse(&found) < nmse(baseline), "{solver}: {found}");
        }
        assert!(nmse(&found) < 0.1, "{}", nmse(&found));
    }
    let said = place.run(&["eval", "m", "test.csv", "--per-task"]);
    assert!(said.stdout.contains("\ns17\t10\t0."), "{}", said.stdout);
    let info = serde_json::from_str::<Value>(&place.run(&["info", "m", "--json"]).stdout).unwrap();
    assert_eq!(info["tasks"], 30);
    assert_eq!(info["rows"], 360);
    assert_eq!(info["task_column"], "school");
    assert_eq!(info["ignored_columns"], "note");
    assert_eq!(info["common"], true);
    assert_eq!(info["singular_values"].as_array().unwrap().len(), 2);
}

#[test]
fn predictions_are_those_that_are_measured() {
    let place = place();
    assert_eq!(train(&place, &[]).code, 0);
    let said = place.run(&["predict", "m", "test.csv"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let targets: Vec<f64> = place
        .read("test.csv")
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(1).unwrap().parse().unwrap())
        .collect();
    let found: Vec<f64> = said.stdout.lines().map(|l| l.parse().unwrap()).collect();
    assert_eq!(found.len(), targets.len());
    let squares: f64 = found
        .iter()
        .zip(&targets)
        .map(|(a, b)| (a - b).powi(2))
        .sum();
    let rmse = (squares / found.len() as f64).sqrt();
    let measured = place.run(&["eval", "m", "test.csv", "--json"]).json();
    assert!((measured["metrics"]["rmse"].as_f64().unwrap() - rmse).abs() < 1e-9);
    // Without targets, in any order of columns, and as lines.
    place.write("ask.csv", "e,school,a\n1,s3,2\n,nobody,2\n");
    let said = place.run(&["predict", "m", "ask.csv"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stderr
            .contains("1 of 2 rows are of tasks that the model does not know")
    );
    place.write(
        "ask.jsonl",
        "{\"task\":\"s3\",\"row\":{\"a\":2,\"e\":1,\"b\":null,\"c\":null,\"d\":null,\"constant\":null}}\n",
    );
    let lines = place.run(&["predict", "m", "ask.jsonl"]);
    let of = |said: &Said| said.stdout.lines().next().unwrap().parse::<f64>().unwrap();
    assert!((of(&said) - of(&lines)).abs() < 1e-9);
    let said = place.run(&["predict", "m", "ask.csv", "--strict"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr
            .contains("ask.csv:3: the model knows no task `nobody`")
    );
}

#[test]
fn a_new_task_needs_a_few_rows() {
    let place = place();
    assert_eq!(train(&place, &[]).code, 0);
    place.write("few.csv", HEADER.to_owned() + &rows(40..60, 5, 0));
    place.write("rest.csv", HEADER.to_owned() + &rows(40..60, 20, 30));
    let before = nmse(&place.run(&["eval", "m", "rest.csv", "--json"]).json());
    let said = place.run(&["update", "m", "few.csv", "-o", "m2", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let report = said.json();
    assert_eq!(report["new_tasks"], 20);
    assert_eq!(report["steps"], 100);
    assert_eq!(report["tasks"], 50);
    let said = place.run(&["eval", "m2", "rest.csv", "--train", "few.csv", "--json"]);
    let found = said.json();
    let baseline = |name: &str| {
        let all = found["baselines"].as_array().unwrap();
        nmse(all.iter().find(|c| c["name"] == name).unwrap())
    };
    assert!(nmse(&found) < 0.5 * before, "{before} {}", nmse(&found));
    assert!(nmse(&found) < 0.5 * baseline("ridge"), "{found}");
    // In two sittings, as lines, in another order: the same model.
    let mut lines: Vec<String> = place
        .read("few.csv")
        .lines()
        .skip(1)
        .map(|line| {
            let f: Vec<&str> = line.split(',').collect();
            let value = |i: usize| match f[i] {
                "" => "null".to_owned(),
                v => v.to_owned(),
            };
            format!(
                "{{\"task\":\"{}\",\"target\":{},\"row\":{{\"a\":{},\"b\":{},\"c\":{},\"d\":{},\"e\":{},\"constant\":7}}}}\n",
                f[0], f[1], value(2), value(3), value(4), value(5), value(6)
            )
        })
        .collect();
    lines.reverse();
    place.write("one.jsonl", lines[..37].concat());
    place.write("two.jsonl", lines[37..].concat());
    assert_eq!(place.run(&["update", "m", "one.jsonl", "-o", "m3"]).code, 0);
    assert_eq!(
        place.run(&["update", "m3", "two.jsonl", "-o", "m3"]).code,
        0
    );
    let other = nmse(&place.run(&["eval", "m3", "rest.csv", "--json"]).json());
    assert!(
        (other - nmse(&found)).abs() < 1e-9,
        "{other} {}",
        nmse(&found)
    );
}

#[test]
fn rows_count_the_same_in_training_and_later() {
    let place = place();
    let fixed = ["--regularization", "10", "--standardize", "global"];
    assert_eq!(train(&place, &fixed).code, 0);
    let before = nmse(&place.run(&["eval", "m", "test.csv", "--json"]).json());
    place.write("more.csv", HEADER.to_owned() + &rows(0..30, 30, 12));
    assert_eq!(place.run(&["update", "m", "more.csv", "-o", "m"]).code, 0);
    let after = nmse(&place.run(&["eval", "m", "test.csv", "--json"]).json());
    assert!(after < before, "{before} {after}");
    let info = serde_json::from_str::<Value>(&place.run(&["info", "m", "--json"]).stdout).unwrap();
    assert_eq!(info["rows"], 30 * 42);
}

#[test]
fn equal_bytes_for_threads_and_for_a_second_run() {
    let place = place();
    assert_eq!(train(&place, &["--threads", "1"]).code, 0);
    let first = std::fs::read(place.path("m")).unwrap();
    for threads in ["1", "2", "5"] {
        assert_eq!(train(&place, &["--threads", threads]).code, 0);
        assert!(
            std::fs::read(place.path("m")).unwrap() == first,
            "{threads} threads"
        );
    }
}

#[test]
fn choices_can_be_made_on_other_rows() {
    let place = place();
    let said = train(&place, &["--valid", "test.csv", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let told = nmse(&said.json());
    let said = train(
        &place,
        &["--standardize", "task", "--valid-fraction", "0.3", "--json"],
    );
    assert_eq!(said.code, 0, "{}", said.stderr);
    let report = said.json();
    assert_eq!(report["standardize"], "task");
    assert!(told < 0.2 && nmse(&report) < 0.3);
    // Three tenths of the rows were not learned from.
    let found = place.run(&["eval", "m", "test.csv", "--json"]).json();
    assert!(nmse(&found) < 0.3, "{}", nmse(&found));
}

#[test]
fn bad_input_is_named() {
    let place = place();
    let rank = |rank: &'static str| vec!["--rank", rank];
    let plain = |more: &[&'static str]| {
        let mut all = vec!["--standardize", "none", "--no-common"];
        all.extend(more);
        all
    };
    place.write(
        "one-row.csv",
        HEADER.to_owned() + &rows(0..5, 9, 0) + &rows(7..8, 1, 0),
    );
    for (file, more, message) in [
        (
            "train.csv",
            rank("7"),
            "train.csv: --rank is 7, above the smaller of n_features = 6 and 30 tasks",
        ),
        ("train.csv", rank("0"), "--rank must be at least 1, found 0"),
        (
            "train.csv",
            vec!["--regularization=-1"],
            "--regularization must be at least 0, found -1",
        ),
        (
            "train.csv",
            vec!["--task-column", "class"],
            "train.csv:1: expected a column `class` with the task of each row, found `school`, `score`, `a`, `b`, `c`, `d`, `e`, `constant`, …; --task-column names it",
        ),
        (
            "train.csv",
            vec!["--target-column", "grade"],
            "train.csv:1: expected a column `grade` with the number to learn",
        ),
        (
            "one-row.csv",
            plain(&["--regularization", "0", "--rank", "2"]),
            "one-row.csv: task `s7` has 1 rows: without regularization, rank 2 and a bias need at least 3",
        ),
        (
            "train.svm",
            vec![],
            "train.svm: tasks are read from .csv, .tsv or .jsonl",
        ),
    ] {
        let start = ["train", "multitask", file, "-o", "none"];
        let columns = COLUMNS
            .chunks(2)
            .filter(|c| !more.contains(&c[0]))
            .flatten();
        let args: Vec<&str> = start
            .into_iter()
            .chain(columns.copied())
            .chain(more.iter().copied())
            .collect();
        let said = place.run(&args);
        assert_eq!(said.code, 2, "{file} {args:?}: {}", said.stdout);
        assert!(said.stderr.contains(message), "{message}: {}", said.stderr);
        assert!(!place.path("none").exists());
    }
    // A task with one row is learned from, as far as that goes.
    let start = [
        "train",
        "multitask",
        "one-row.csv",
        "-o",
        "m",
        "--rank",
        "1",
    ];
    let said = place.run(&[&start[..], &COLUMNS].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let found = place.run(&["eval", "m", "one-row.csv", "--json"]).json();
    assert_eq!(found["skipped"], 1);
    assert!(nmse(&found).is_finite());
}

#[test]
fn constant_targets_teach_little() {
    let place = place();
    let constant = |tasks: std::ops::Range<usize>| -> String {
        let lines = rows(tasks, 9, 0);
        let flat = |line: &str| {
            let mut f: Vec<&str> = line.split(',').collect();
            f[1] = "5";
            f.join(",") + "\n"
        };
        lines.lines().map(flat).collect()
    };
    let text = HEADER.to_owned() + &rows(0..20, 12, 0) + &constant(70..72);
    place.write("train.csv", text);
    let said = train(&place, &[]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stderr
            .contains("the targets of 2 tasks are all the same"),
        "{}",
        said.stderr
    );
    place.write("flat.csv", HEADER.to_owned() + &constant(70..72));
    let said = place.run(&["eval", "m", "flat.csv", "--json"]);
    let found = said.json();
    assert_eq!(found["metrics"]["nmse"], json!(null));
    assert_eq!(found["skipped"], 2);
    assert!(found["metrics"]["rmse"].as_f64().unwrap() < 1.0, "{found}");
    place.write("train.csv", HEADER.to_owned() + &constant(70..75));
    let said = train(&place, &[]);
    assert_eq!(said.code, 2);
    let message = "the targets of every task are all the same, or it has one row only";
    assert!(said.stderr.contains(message), "{}", said.stderr);
}

#[test]
fn other_models_refuse_the_columns_of_tasks() {
    let place = place();
    place.write("rows.csv", "label,a,b\nx,1,2\ny,2,1\nx,1,3\ny,3,1\n");
    let said = place.run(&["train", "metric", "rows.csv", "-o", "o", "--rank", "1"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = place.run(&["eval", "o", "rows.csv", "--task-column", "label"]);
    said.refused("--task-column does not apply to metrics");
    assert_eq!(train(&place, &[]).code, 0);
    for args in [
        vec!["neighbors", "m", "test.csv"],
        vec!["recommend", "m"],
        vec!["rank", "m", "test.csv"],
        vec!["eval", "m", "test.csv", "--labels", "x"],
        vec!["predict", "m", "test.csv", "--rows", "test.csv"],
        vec!["update", "m", "test.csv", "-o", "m", "--step-size", "1"],
    ] {
        let said = place.run(&args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.stdout);
    }
}

#[test]
fn a_table_without_a_feature_has_missing_cells() {
    let place = place();
    assert_eq!(train(&place, &[]).code, 0);
    let without = |columns: &[&str]| {
        let text = place.read("test.csv");
        let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let kept: Vec<usize> = (0..header.len())
            .filter(|&j| !columns.contains(&header[j]))
            .collect();
        let line = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            let cells: Vec<&str> = kept.iter().map(|&j| cells[j]).collect();
            cells.join(",") + "\n"
        };
        text.lines().map(line).collect::<String>()
    };
    // The feature without use may go, and so may what is ignored.
    place.write("some.csv", without(&["constant", "note"]));
    let whole = nmse(&place.run(&["eval", "m", "test.csv", "--json"]).json());
    let said = place.run(&["eval", "m", "some.csv"]);
    assert!(
        said.stderr
            .contains("there is no column `constant`: the mean of training is taken")
    );
    let some = place
        .run(&["eval", "m", "some.csv", "--json", "--quiet"])
        .json();
    assert!((nmse(&some) - whole).abs() < 1e-9);
    // Cells of a feature that counts are missing: worse, but no zeros.
    place.write("less.csv", without(&["a", "constant", "note"]));
    let said = place.run(&["eval", "m", "less.csv"]);
    assert!(
        said.stderr
            .contains("no columns for 2 features, such as `a`"),
        "{}",
        said.stderr
    );
    let less = place
        .run(&["eval", "m", "less.csv", "--json", "--quiet"])
        .json();
    assert!(nmse(&less) > whole && nmse(&less) < 1.0, "{}", nmse(&less));
    place.write(
        "none.csv",
        without(&["a", "b", "c", "d", "e", "constant"])
            .replace("note", "zzz")
            .replace("unused", "1"),
    );
    for args in [
        vec!["eval", "m", "none.csv"],
        vec!["predict", "m", "none.csv"],
        vec!["update", "m", "none.csv", "-o", "m"],
    ] {
        let said = place.run(&args);
        assert_eq!(said.code, 2, "{args:?}");
        let message =
            "none.csv: expected some of the features of the model, `a`, `b`, `c`, …, found none";
        assert!(said.stderr.contains(message), "{}", said.stderr);
    }
}

#[test]
fn lines_leave_out_what_is_ignored() {
    let place = place();
    let line = |t: usize, i: usize| {
        let (x, y) = (noise(100 * t + i), noise(t + 900 * i));
        let target = x * (1.0 + noise(t)) + 0.1 * y;
        format!("{{\"task\":{t},\"row\":{{\"x\":{x},\"leak\":{target}}},\"target\":{target}}}\n")
    };
    let all = (0..10).flat_map(|t| (0..12).map(move |i| (t, i)));
    place.write(
        "train.jsonl",
        all.map(|(t, i)| line(t, i)).collect::<String>(),
    );
    let start = [
        "train",
        "multitask",
        "train.jsonl",
        "-o",
        "m",
        "--rank",
        "1",
        "--json",
    ];
    let report = place
        .run(&[&start[..], &["--ignore-column", "leak"]].concat())
        .json();
    assert_eq!(report["features"], 1);
    assert_eq!(place.run(&start).json()["features"], 2);
}

#[test]
fn new_tasks_are_scaled_as_tasks_usually_are() {
    let place = Place::new();
    // Features that differ between tasks much more than within them.
    let rows = |tasks: std::ops::Range<usize>, count: usize, first: usize| -> String {
        let mut out = "task,target,x,z\n".to_owned();
        for t in tasks {
            for i in first..first + count {
                let (x, z) = (noise(100 * t + i), noise(31 * t + 77 * i + 5));
                let y = 10.0 * noise(t + 3) + (2.0 + noise(t + 7)) * x + 0.1 * noise(t + 19 * i);
                let (x, z) = (20.0 * noise(t) + x, 20.0 * noise(t + 11) + z);
                out += &format!("{t},{y},{x},{z}\n");
            }
        }
        out
    };
    place.write("train.csv", rows(0..40, 12, 0));
    place.write("few.csv", rows(50..70, 10, 0));
    place.write("rest.csv", rows(50..70, 20, 40));
    let start = ["train", "multitask", "train.csv", "-o", "m", "--rank", "1"];
    let said = place.run(&[&start[..], &["--standardize", "task"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(place.run(&["update", "m", "few.csv", "-o", "m"]).code, 0);
    let found = nmse(&place.run(&["eval", "m", "rest.csv", "--json"]).json());
    assert!(found < 0.3, "{found}");
}

#[test]
fn wild_targets_of_a_new_task_cost_nothing_else() {
    let place = place();
    assert_eq!(train(&place, &["--standardize", "none"]).code, 0);
    let wild = rows(40..41, 10, 0);
    let wild = wild.lines().map(|line| {
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        cells[1] = format!("{}e12", cells[1]);
        cells.join(",") + "\n"
    });
    place.write("wild.csv", HEADER.to_owned() + &wild.collect::<String>());
    let before = nmse(&place.run(&["eval", "m", "test.csv", "--json"]).json());
    let said = place.run(&["update", "m", "wild.csv", "-o", "m"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let after = nmse(&place.run(&["eval", "m", "test.csv", "--json"]).json());
    assert_eq!(before, after);
    assert_eq!(place.run(&["info", "m"]).code, 0);
}

#[test]
fn a_prior_for_each_feature_is_a_learner_of_its_own() {
    let place = place();
    let start = ["train", "multitask", "train.csv", "-o", "m"];
    let run = |more: &[&str]| place.run(&[&start[..], &COLUMNS, more].concat());
    let report = run(&["--learner", "mixed", "--json"]).json();
    assert_eq!(
        (&report["learner"], &report["solver"]),
        (&json!("mixed"), &json!("em"))
    );
    // One for each way to scale, and nothing else to choose.
    assert_eq!(report["trials"].as_array().unwrap().len(), 2);
    let found = place.run(&["eval", "m", "test.csv", "--json"]).json();
    assert!(nmse(&found) < 0.2, "{found}");
    run(&["--learner", "mixed", "--rank", "2"])
        .refused("--rank applies only to `auto` and `grassmann`");
    let report = run(&["--learner", "mixed", "--standardize", "global", "--json"]).json();
    assert_eq!(report["trials"], json!([]));
    // Rows that come later count as those of training do.
    let said = place.run(&["update", "m", "test.csv", "-o", "m2"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    // Without options both are tried, with one of a subspace only that.
    let tried = |more: &[&str]| {
        let report = run(&[more, &["--json"]].concat()).json();
        let trials = report["trials"].as_array().unwrap().clone();
        let mixed = |trial: &&Value| trial["settings"]["learner"] == "mixed";
        (trials.iter().filter(mixed).count(), trials.len())
    };
    let (mixed, all) = tried(&[]);
    assert!(mixed == 2 && all > 60, "{mixed} of {all}");
    assert_eq!(tried(&["--rank", "2"]), (0, 22));
    assert_eq!(tried(&["--learner", "grassmann"]).0, 0);
}
