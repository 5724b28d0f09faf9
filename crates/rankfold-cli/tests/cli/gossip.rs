//! `gossip run` and what follows it.

use serde_json::Value;

use crate::support::{Place, Said};

/// A rating: a matrix of rank 2 around 3, and a little noise.
fn rating(u: usize, i: usize) -> f64 {
    let (x, y) = (u as f64, i as f64);
    let taste = 0.8 * x.sin() * (2.0 * y).cos() + 0.6 * (3.0 * x).cos() * y.sin();
    let key = rankfold::data::split_key(0, (1009 * u + i) as u64) >> 40;
    3.0 + taste + 0.1 * (key as f64 / f64::from(1 << 24) - 0.5)
}

/// Ratings of 30 items by 40 users in `train.csv` and `test.csv`; tasks of ten rows in
/// `tasks.csv`.
fn place() -> Place {
    let place = Place::new();
    let head = "user,item,rating\n".to_owned();
    let (mut train, mut test) = (head.clone(), head);
    for (u, i) in (0..40).flat_map(|u| (0..30).map(move |i| (u, i))) {
        let line = format!("u{u},i{i},{:.3}\n", rating(u, i));
        match (7 * u + 11 * i) % 10 {
            0 => test += &line,
            _ => train += &line,
        }
    }
    place.write("train.csv", train);
    place.write("test.csv", test);
    let mut tasks = "task,target,a,b,c,d\n".to_owned();
    for (t, row) in (0..12).flat_map(|t| (0..10).map(move |row| (t, row))) {
        let x: [f64; 4] = std::array::from_fn(|j| ((7 * t + 3 * row + 5 * j * row) as f64).sin());
        let y = (t as f64).cos() * (x[0] + x[1]) + (2.0 * t as f64).sin() * (x[2] - x[3]);
        tasks += &format!("t{t},{y:.6},{},{},{},{}\n", x[0], x[1], x[2], x[3]);
    }
    place.write("tasks.csv", tasks);
    place
}

const RATINGS: [&str; 7] = [
    "gossip",
    "run",
    "completion",
    "train.csv",
    "-o",
    "m.safetensors",
    "--quiet",
];
const SMALL: [&str; 6] = ["--rank", "2", "--regularization", "0.01", "--slots", "60"];

fn run(place: &Place, more: &[&str]) -> Said {
    place.run(&[&RATINGS[..], more].concat())
}

#[track_caller]
fn ran(place: &Place, more: &[&str]) -> Value {
    let said = run(place, &[&SMALL[..], more, &["--json"]].concat());
    said.json()
}

fn rmse(place: &Place, model: &str) -> f64 {
    let said = place.run(&["eval", model, "test.csv", "--json"]).json();
    said["metrics"]["rmse"].as_f64().unwrap()
}

#[test]
fn agents_agree_on_a_model_that_all_commands_take() {
    let place = place();
    let report = ran(&place, &["--agents", "4", "--curve", "c.jsonl"]);
    for (name, value) in [
        ("task", "completion"),
        ("solver", "gossip"),
        ("graph", "path"),
        ("schedule", "parallel"),
        ("stopped", "steps"),
    ] {
        assert_eq!(report[name], value, "{report}");
    }
    assert_eq!(
        (&report["agents"], &report["slots"]),
        (&4.into(), &60.into())
    );
    // Two agents send at each edge; a message has 56 bytes beside 30 × 2 numbers.
    let (messages, bytes) = (&report["messages"], &report["bytes"]);
    let messages = messages.as_u64().unwrap();
    assert_eq!(bytes.as_u64().unwrap(), messages * (56 + 30 * 2 * 8));
    assert!(report["consensus"].as_f64().unwrap() < 0.1, "{report}");
    assert!(rmse(&place, "m.safetensors") < 0.08);
    let curve = place.read("c.jsonl");
    let points: Vec<Value> = curve
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let cost = |point: &Value| point["cost"].as_f64().unwrap();
    assert!(points.len() > 40 && cost(&points[0]) > cost(&points[points.len() - 1]));
    // What follows.
    let info = place.run(&["info", "m.safetensors", "--json"]);
    let info = info.json_without_seconds();
    assert_eq!((&info["agents"], &info["agent"]), (&4.into(), &Value::Null));
    assert_eq!(info["users"], 40);
    let predicted = place.run_with(&["predict", "m.safetensors", "-"], "u3 i4\n");
    let predicted: f64 = predicted.stdout.trim().parse().unwrap();
    assert!((predicted - rating(3, 4)).abs() < 0.3);
    let best = place.run(&[
        "recommend",
        "m.safetensors",
        "train.csv",
        "--query",
        "u3",
        "-k",
        "2",
    ]);
    assert_eq!(best.stdout.lines().count(), 2);
    // An agent knows its own users.
    let info = place.run(&["info", "m.agent-1.safetensors", "--json"]);
    let info = info.json_without_seconds();
    assert_eq!((&info["agent"], &info["users"]), (&1.into(), &10.into()));
    let other = place.run_with(
        &["predict", "m.agent-1.safetensors", "-", "--strict"],
        "u3 i4\n",
    );
    assert_eq!(other.code, 2);
    assert!(other.stderr.contains("the model knows no user `u3`"));
    let own = place.run_with(
        &["predict", "m.agent-1.safetensors", "-", "--strict"],
        "u12 i4\n",
    );
    assert_eq!(own.code, 0);
}

#[test]
fn graphs_schedules_and_steps_can_be_chosen() {
    let place = place();
    place.write(
        "edges.txt",
        "# a triangle with a tail\n0 1\n1,2\n2\t0\n\n2 3\n",
    );
    for more in [
        &["--graph", "ring"][..],
        &["--graph", "grid", "--schedule", "stochastic"],
        &["--graph", "star"],
        &["--graph", "random"],
        &["--edges", "edges.txt"],
        &["--step-a", "0.002", "--step-b", "0.001", "--slots", "300"],
        &["--precondition", "--step-a", "1", "--slots", "300"],
    ] {
        // The last of repeated options would be an error.
        let slots = if more.contains(&"--slots") { 4 } else { 6 };
        let options = [&SMALL[..slots], &["--agents", "4", "--mean-only"], more].concat();
        let said = run(&place, &options);
        assert_eq!(said.code, 0, "{more:?}: {}", said.stderr);
        assert!(rmse(&place, "m.safetensors") < 0.4, "{more:?}");
    }
    assert!(!place.path("m.agent-0.safetensors").exists());
}

#[test]
fn the_same_bytes_for_any_number_of_threads() {
    let place = place();
    let bytes = |threads: &str| {
        ran(&place, &["--agents", "4", "--threads", threads]);
        ["m.safetensors", "m.agent-2.safetensors"]
            .map(|name| std::fs::read(place.path(name)).unwrap())
    };
    assert!(bytes("1") == bytes("3"));
}

/// Each agent has a basis of its own, which means something to matrices and nothing to
/// subspaces.
#[test]
fn random_starts_do_harm_to_plain_matrices_only() {
    let place = place();
    let steps = [
        "--agents",
        "4",
        "--step-a",
        "0.004",
        "--slots",
        "400",
        "--schedule",
        "stochastic",
        "--rho",
        "50",
        "--json",
    ];
    let with = |init: &str, geometry: &str| {
        let more = ["--init", init, "--geometry", geometry];
        let report = run(&place, &[&SMALL[..4], &steps, &more].concat()).json();
        assert_eq!(report["geometry"], geometry);
        assert_eq!(report["init"], init);
        let info = place.run(&["info", "m.safetensors", "--json"]);
        assert_eq!(info.json_without_seconds()["geometry"], geometry);
        let consensus = report["consensus"].as_f64().unwrap();
        (consensus, rmse(&place, "m.safetensors"))
    };
    let (subspaces, matrices) = (with("random", "grassmann"), with("random", "euclidean"));
    assert!(
        subspaces.0 < 0.5 * matrices.0 && subspaces.1 < matrices.1,
        "{subspaces:?} {matrices:?}"
    );
    // From one start for all, the bases agree from the beginning.
    let shared = with("shared", "euclidean");
    assert!(shared.0 < matrices.0, "{shared:?} {matrices:?}");
}

/// Scaled steps are about 1/density long where few entries are known.
#[test]
fn the_grid_of_scaled_steps_follows_the_density() {
    let place = Place::new();
    let (items, users) = (400, 2_500);
    let normal = |side: u64, i: usize| rankfold::random::normal_at(1, side, i as u64, 0);
    let mut ratings = "user,item,rating\n".to_owned();
    for t in 0..6 * (items + users) {
        let draw = |side: u64, n: usize| {
            let key = rankfold::data::split_key(side, t as u64);
            (key % n as u64) as usize
        };
        let (u, i) = (draw(1, users), draw(2, items));
        ratings += &format!("{u},{i},{}\n", normal(1, u) * normal(2, i));
    }
    place.write("train.csv", ratings);
    let options = [
        "--agents",
        "2",
        "--rank",
        "1",
        "--regularization",
        "0",
        "--center",
        "0",
        "--clip",
        "none",
        "--rho",
        "1",
        "--schedule",
        "stochastic",
        "--slots",
        "40",
        "--precondition",
        "--cross-validate",
        "3",
        "--mean-only",
        "--json",
    ];
    let report = run(&place, &options).json();
    assert!(report["step_a"].as_f64().unwrap() > 64.0, "{report}");
}

#[test]
fn what_is_not_given_is_chosen_on_what_is_held_out() {
    let place = place();
    let agents = ["--agents", "3", "--rank", "2", "--slots", "20", "--json"];
    let report = run(&place, &agents).json();
    assert_eq!(report["trials"].as_array().unwrap().len(), 6);
    let more = ["--cross-validate", "2", "--regularization", "0.01"];
    let report = run(&place, &[&agents[..], &more].concat()).json();
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 25);
    let least = trials.iter().min_by(|a, b| {
        let error = |t: &Value| t["value"].as_f64().unwrap();
        error(a).total_cmp(&error(b))
    });
    assert_eq!(report["step_a"], least.unwrap()["settings"]["step_a"]);
}

#[test]
fn a_resumed_run_gives_the_same_bytes() {
    let place = place();
    let tasks = [
        "gossip",
        "run",
        "multitask",
        "tasks.csv",
        "-o",
        "m.safetensors",
        "--quiet",
    ];
    let small = ["--agents", "3", "--rank", "2", "--slots", "20"];
    let euclidean = ["--geometry", "euclidean", "--step-a", "0.01"];
    for (command, steps) in [
        (&RATINGS, &[][..]),
        (&tasks, &[]),
        (&RATINGS, &euclidean),
        (&tasks, &euclidean),
    ] {
        let run = |more: &[&str]| {
            let said = place.run(&[&command[..], &small, steps, more].concat());
            assert_eq!(said.code, 0, "{}", said.stderr);
            ["m.safetensors", "m.agent-2.safetensors"]
                .map(|name| std::fs::read(place.path(name)).unwrap())
        };
        let whole = run(&["--curve", "whole.jsonl"]);
        // The last checkpoint is that of slot 14.
        let saving = ["--checkpoint", "run.ckpt", "--checkpoint-every", "7"];
        run(&saving);
        let resumed = run(&["--resume", "run.ckpt", "--curve", "rest.jsonl"]);
        assert!(whole == resumed);
        let slots = |name: &str| -> Vec<u64> {
            let points = place.read(name);
            let points = points
                .lines()
                .map(|line| serde_json::from_str(line).unwrap());
            points
                .map(|p: Value| p["steps"].as_u64().unwrap())
                .collect()
        };
        assert_eq!(slots("whole.jsonl"), (0..=20).collect::<Vec<u64>>());
        assert_eq!(slots("rest.jsonl"), (15..=20).collect::<Vec<u64>>());
        let other = [&command[..], &["--agents", "4", "--resume", "run.ckpt"]].concat();
        let said = place.run(&other);
        assert_eq!(said.code, 2);
        assert!(said.stderr.contains("agents"), "{}", said.stderr);
    }
}

#[test]
fn flags_of_the_other_kind_of_data_are_refused() {
    let place = place();
    let tasks = ["gossip", "run", "multitask", "tasks.csv", "-o", "t"];
    let with = |more: &[&str]| place.run(&[&tasks[..], more].concat());
    with(&["--columns", "a,b,c"]).refused("--columns applies only to `completion`");
    with(&["--precision", "f64"]).refused("--precision applies only to `completion`");
    with(&["--clip", "none"]).refused("--clip applies only to `completion`");
    let task = ["--task-column", "a"];
    run(&place, &task).refused("--task-column applies only to `multitask`");
    run(&place, &["--no-common"]).refused("--no-common applies only to `multitask`");
    run(&place, &["--valid", "test.csv"])
        .refused("--valid does not apply to gossip: agents hold out a part of their own data");
}

#[test]
fn tasks_are_divided_as_well() {
    let place = place();
    let run = |more: &[&str]| {
        let command = [
            "gossip",
            "run",
            "multitask",
            "tasks.csv",
            "-o",
            "t",
            "--agents",
            "3",
        ];
        let rank = ["--rank", "2", "--slots", "80", "--json"];
        place.run(&[&command[..], &rank, more].concat())
    };
    let plain = ["--standardize", "none", "--no-common", "--no-bias"];
    let report = run(&[&["--regularization", "0.001"], &plain[..]].concat()).json();
    assert_eq!(
        (&report["tasks"], &report["task"]),
        (&12.into(), &"multitask".into())
    );
    let nmse = |model: &str| {
        let said = place.run(&["eval", model, "tasks.csv", "--json"]).json();
        said["metrics"]["nmse"].as_f64().unwrap()
    };
    assert!(nmse("t") < 0.01, "{}", nmse("t"));
    let info = place.run(&["info", "t.agent-2", "--json"]);
    let info = info.json_without_seconds();
    assert_eq!((&info["agent"], &info["agents"]), (&2.into(), &3.into()));
    // With choices as in batch.
    let chosen = run(&[]).json();
    assert!(chosen["trials"].as_array().unwrap().len() > 1);
}

#[test]
fn bad_input_is_told_exactly() {
    let place = place();
    let refused = |more: &[&str], message: &str| {
        run(&place, &[&SMALL[..], more].concat()).refused(message);
        assert!(!place.path("m.safetensors").exists());
    };
    refused(
        &["--agents", "41"],
        "train.csv: --agents is 41, above the 40 users to divide",
    );
    refused(&["--agents", "1"], "--agents must be at least 2, found 1");
    refused(
        &["--agents", "4", "--rho", "-1"],
        "--rho must be at least 0, found -1",
    );
    refused(
        &["--agents", "4", "--rho", "nan"],
        "--rho must be at least 0, found NaN",
    );
    refused(
        &["--agents", "4", "--precondition"],
        "--precondition applies only to subspaces with `--step-a` or `--cross-validate`, because \
         agents scale their own steps",
    );
    refused(
        &["--agents", "4", "--geometry", "euclidean"],
        "--geometry applies only to runs with `--step-a` or `--cross-validate`",
    );
    refused(
        &[
            "--agents",
            "4",
            "--geometry",
            "euclidean",
            "--step-a",
            "1",
            "--precondition",
        ],
        "--precondition applies only to subspaces with `--step-a` or `--cross-validate`, because \
         agents scale their own steps",
    );
    refused(
        &["--agents", "4", "--step-a", "0"],
        "--step-a must be above 0, found 0",
    );
    refused(
        &["--agents", "4", "--cross-validate", "1"],
        "--cross-validate must be at least 2, found 1",
    );
    for (edges, message) in [
        (
            "0 1\n2 3\n",
            "edges.txt: the graph is not connected, its parts are {0, 1} and {2, 3}",
        ),
        (
            "0 1\n1 2\n2 7\n",
            "edges.txt: an edge names agent 7, expected numbers from 0 to 3",
        ),
        (
            "0 1\n1 1\n",
            "edges.txt:2: an edge leads from agent 1 to itself",
        ),
        (
            "0 1\n\n1 two\n",
            "edges.txt:3: expected the numbers of two agents, found `1 two`",
        ),
        (
            "0 1 2\n",
            "edges.txt:1: expected the numbers of two agents, found `0 1 2`",
        ),
        (
            "-1 2\n",
            "edges.txt:1: expected the numbers of two agents, found `-1 2`",
        ),
        (
            "",
            "edges.txt: the graph is not connected, its parts are {0}, {1}, {2} and {3}",
        ),
    ] {
        place.write("edges.txt", edges);
        refused(&["--agents", "4", "--edges", "edges.txt"], message);
    }
    let rank = ["--agents", "4", "--rank", "31", "--regularization", "0"];
    run(&place, &rank)
        .refused("train.csv: --rank is 31, above the smaller of 30 items and 40 users");
    let lambda = ["--agents", "4", "--regularization", "1.5"];
    run(&place, &lambda).refused("--regularization must be at most 1 for `completion`, found 1.5");
    place.write("same.csv", "user,item,rating\na,b,3\nc,d,3\ne,f,3\n");
    let same = [
        "gossip",
        "run",
        "completion",
        "same.csv",
        "-o",
        "m.safetensors",
        "--agents",
        "2",
        "--rank",
        "1",
    ];
    place
        .run(&same)
        .refused("same.csv: the ratings are all the same: there is nothing to learn");
    place.write("one.csv", "task,target,a\nx,1,2\ny,3,4\n");
    let tasks = [
        "gossip",
        "run",
        "multitask",
        "one.csv",
        "-o",
        "m.safetensors",
        "--agents",
        "3",
        "--rank",
        "1",
    ];
    place
        .run(&tasks)
        .refused("one.csv: --agents is 3, above the 2 tasks to divide");
}

#[test]
fn agents_run_as_in_the_paper() {
    let place = place();
    let small = ["--agents", "3", "--rank", "2", "--regularization", "0.01"];
    let report = |more: &[&str]| run(&place, &[&small[..], more, &["--json"]].concat()).json();
    let published = report(&["--as-published", "--slots", "10"]);
    assert_eq!(published["schedule"], "stochastic");
    assert_eq!(published["init"], "random");
    assert_eq!(published["trials"].as_array().unwrap().len(), 25);
    // Options that say something else hold, and others follow from it.
    let given = [
        "--as-published",
        "--init",
        "shared",
        "--step-a",
        "0.002",
        "--geometry",
        "euclidean",
    ];
    let given = report(&given);
    assert_eq!(
        (&given["init"], &given["slots"]),
        (&"shared".into(), &400.into())
    );
    assert!(given["trials"].as_array().is_none_or(Vec::is_empty));
}

/// An array of doubles with these rows.
fn array(rows: &[[f64; 2]]) -> Vec<u8> {
    let shape = format!("({}, 2)", rows.len());
    let text = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.bytes());
    out.extend(rows.as_flattened().iter().flat_map(|v| v.to_le_bytes()));
    out
}

/// The last point of a curve.
fn last_point(place: &Place, name: &str) -> Value {
    let curve = place.read(name);
    serde_json::from_str(curve.lines().last().unwrap()).unwrap()
}

#[test]
fn the_curve_tells_the_error_and_the_angle_of_each_agent() {
    let place = place();
    let train = place.read("train.csv");
    let mut items: Vec<&str> = Vec::new();
    for line in train.lines().skip(1) {
        let item = line.split(',').nth(1).unwrap();
        if !items.contains(&item) {
            items.push(item);
        }
    }
    let basis: Vec<[f64; 2]> = items
        .iter()
        .map(|item| item[1..].parse::<f64>().unwrap())
        .map(|y| [(2.0 * y).cos(), y.sin()])
        .collect();
    place.write("basis.npy", array(&basis));
    let plain = ["--agents", "4", "--curve", "plain.jsonl"];
    ran(&place, &plain);
    let bytes = std::fs::read(place.path("m.safetensors")).unwrap();
    let watch = ["--curve-test", "test.csv", "--curve-subspace", "basis.npy"];
    let watched = [&["--agents", "4", "--curve", "c.jsonl"][..], &watch].concat();
    ran(&place, &watched);
    // Who is looked at learns the same.
    assert!(std::fs::read(place.path("m.safetensors")).unwrap() == bytes);
    assert_eq!(last_point(&place, "plain.jsonl")["rmse_0"], Value::Null);
    let point = last_point(&place, "c.jsonl");
    let test = place.read("test.csv");
    for agent in 0..4 {
        let own = test.lines().filter(|line| {
            let user = line.split(',').next().unwrap();
            user == "user" || user[1..].parse::<usize>().unwrap() / 10 == agent
        });
        place.write("test.csv", own.collect::<Vec<_>>().join("\n"));
        let error = rmse(&place, &format!("m.agent-{agent}.safetensors"));
        assert_eq!(point[format!("rmse_{agent}")], error, "{point}");
        let angle = point[format!("angle_{agent}")].as_f64().unwrap();
        assert!((1e-6..0.2).contains(&angle), "{point}");
    }
    let curve = place.read("c.jsonl");
    let first: Value = serde_json::from_str(curve.lines().next().unwrap()).unwrap();
    assert!(first["angle_0"].as_f64() > point["angle_0"].as_f64());
}

#[test]
fn the_curve_of_tasks_tells_the_error_of_each_agent() {
    let place = place();
    let tasks = place.read("tasks.csv");
    let part = |keep: fn(usize) -> bool| {
        let lines = tasks.lines().enumerate();
        let lines = lines.filter(|&(i, _)| i == 0 || keep(i));
        lines.map(|(_, line)| line).collect::<Vec<_>>().join("\n")
    };
    place.write("learn.csv", part(|i| i % 5 != 0));
    place.write("held.csv", part(|i| i % 5 == 0));
    let command = [
        &[
            "gossip",
            "run",
            "multitask",
            "learn.csv",
            "-o",
            "m.safetensors",
            "--agents",
            "3",
        ][..],
        &[
            "--task-column",
            "task",
            "--target-column",
            "target",
            "--rank",
            "2",
            "--slots",
            "30",
        ],
        &["--regularization", "0.1", "--json", "--quiet"],
        &["--curve", "c.jsonl", "--curve-test", "held.csv"],
    ];
    place.run(&command.concat()).json();
    let point = last_point(&place, "c.jsonl");
    let held = place.read("held.csv");
    for agent in 0..3 {
        let own = held.lines().filter(|line| {
            let task = line.split(',').next().unwrap();
            task == "task" || task[1..].parse::<usize>().unwrap() / 4 == agent
        });
        place.write("own.csv", own.collect::<Vec<_>>().join("\n"));
        let model = format!("m.agent-{agent}.safetensors");
        let found = place.run(&["eval", &model, "own.csv", "--json"]).json();
        assert_eq!(point[format!("nmse_{agent}")], found["metrics"]["nmse"]);
    }
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let place = place();
    let refused = |more: &[&str], message: &str| {
        let given = [&SMALL[..], &["--agents", "4", "--curve", "c.jsonl"], more].concat();
        run(&place, &given).refused(message);
    };
    place.write("narrow.npy", array(&[[1.0, 0.0]; 3]));
    refused(
        &["--curve-subspace", "narrow.npy"],
        "narrow.npy: has 3 rows and 2 columns, expected 30, one for each of the items, and 2, the rank",
    );
    place.write("flat.npy", array(&[[1.0, 2.0]; 30]));
    refused(
        &["--curve-subspace", "flat.npy"],
        "flat.npy: its columns depend on each other",
    );
    place.write("others.csv", "user,item,rating\nzz,i1,3\n");
    refused(
        &["--curve-test", "others.csv"],
        "others.csv: none of its users or tasks is in the data of the agents",
    );
    let said = run(
        &place,
        &[&SMALL[..], &["--curve-test", "test.csv"]].concat(),
    );
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("--curve"), "{}", said.stderr);
    let network = [
        "--agents",
        "4",
        "--curve-test",
        "test.csv",
        "--curve",
        "c.jsonl",
        "--network",
    ];
    let said = run(&place, &[&SMALL[..], &network].concat());
    assert_eq!(said.code, 2, "{}", said.stderr);
}
