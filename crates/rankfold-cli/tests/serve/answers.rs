//! Every task answers as the command line does, and learns as `update` does.

use serde_json::{Value, json};

use crate::client::{Service, similarity, updated};
use crate::support::Place;

/// Runs a command that must succeed, and gives what it prints.
fn run(place: &Place, arguments: &[&str]) -> String {
    let said = place.run(arguments);
    assert_eq!(said.code, 0, "{arguments:?}: {}", said.stderr);
    said.stdout
}

/// Lists of the service, as the lines of the command line have them.
fn listed(query: &str, answer: &Value) -> String {
    let results = answer["results"].as_array().unwrap();
    let line = |(rank, one): (usize, &Value)| {
        let id = one["id"].as_str().unwrap();
        format!(
            "{query}\t{}\t{id}\t{}\n",
            rank + 1,
            one["score"].as_f64().unwrap()
        )
    };
    results.iter().enumerate().map(line).collect()
}

/// Learns lines in a service, and holds the model against that of `update`.
fn learns(place: &Place, service: &Service, lines: &[String], more: &[&str]) {
    for line in lines {
        service.ask("/v1/feedback", line);
    }
    let want = updated(place, "m.safetensors", lines, more);
    assert_eq!(service.get("/v1/model/file").body, want);
    let stream = String::from_utf8(service.get("/v1/journal").body).unwrap();
    let stream: Vec<String> = stream.lines().map(str::to_owned).collect();
    assert_eq!(updated(place, "m.safetensors", &stream, more), want);
}

fn start(place: &Place, rows: bool) -> Service {
    let mut arguments = vec!["m.safetensors", "--learn", "--journal", "j"];
    if rows {
        arguments.extend(["--rows", "rows.csv"]);
    }
    Service::start(place, &arguments)
}

#[test]
fn similarities_have_the_bits_of_the_command_line() {
    let place = similarity();
    let service = start(&place, true);
    let answer = service.ask("/v1/neighbors", r#"{"id":"r4","k":7}"#);
    let want = run(
        &place,
        &[
            "neighbors",
            "m.safetensors",
            "rows.csv",
            "--query",
            "r4",
            "-k",
            "7",
        ],
    );
    assert_eq!(listed("r4", &answer), want);
    // By value the row itself is found, too.
    let row = service.get("/v1/rows/r4").json();
    let ask = json!({ "row": row["row"], "k": 8 }).to_string();
    let found = service.ask("/v1/neighbors", &ask);
    assert_eq!(found["results"][0]["id"], "r4");
    assert_eq!(
        found["results"].as_array().unwrap()[1..],
        answer["results"].as_array().unwrap()[..]
    );

    place.write("pairs.txt", "r1 r2\nr3 nobody\n");
    let want = run(
        &place,
        &[
            "predict",
            "m.safetensors",
            "pairs.txt",
            "--rows",
            "rows.csv",
        ],
    );
    let inputs = r#"{"inputs":[{"left":"r1","right":"r2"},{"left":"r3","right":"nobody"}]}"#;
    let answer = service.ask("/v1/predict", inputs);
    let scores: String = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{}\n", one["score"].as_f64().unwrap()))
        .collect();
    assert_eq!((scores, answer["unknown"].as_u64()), (want, Some(1)));

    run(
        &place,
        &["transform", "m.safetensors", "rows.csv", "-o", "points.csv"],
    );
    let points = place.read("points.csv");
    let first: Vec<f64> = points
        .lines()
        .find(|line| line.starts_with("r0,"))
        .unwrap()
        .split(',')
        .skip(1)
        .map(|v| v.parse().unwrap())
        .collect();
    let answer = service.ask("/v1/transform", r#"{"inputs":[{"id":"r0"}]}"#);
    let vector = answer["results"][0]["vector"].as_array().unwrap();
    for (a, b) in vector.iter().zip(first) {
        assert!((a.as_f64().unwrap() - b).abs() < 1e-6);
    }
    for (path, words) in [
        ("/v1/rank", "/v1/rank does not apply: the model scores rows"),
        (
            "/v1/recommend",
            "/v1/recommend does not apply: the model scores rows",
        ),
    ] {
        let answer = service.post(path, r#"{"k":3}"#);
        assert!(answer.message().contains(words), "{}", answer.message());
    }
    let answer = service.post("/v1/neighbors", r#"{"text":"car"}"#);
    assert!(
        answer
            .message()
            .contains("the model has no vocabulary to read texts with")
    );
    let answer = service.post("/v1/neighbors", r#"{"id":"r1","uncertainty":true}"#);
    assert!(answer.message().contains("does not learn how sure it is"));
}

#[test]
fn models_that_know_how_sure_they_are_say_so() {
    let place = similarity();
    run(
        &place,
        &[
            "train",
            "similarity",
            "rows.csv",
            "-o",
            "m.safetensors",
            "--learner",
            "aroma-diagonal",
            "--steps",
            "300",
        ],
    );
    let service = start(&place, true);
    let answer = service.ask("/v1/neighbors", r#"{"id":"r4","k":3}"#);
    let want = run(
        &place,
        &[
            "neighbors",
            "m.safetensors",
            "rows.csv",
            "--query",
            "r4",
            "-k",
            "3",
            "--uncertainty",
        ],
    );
    for (one, line) in answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .zip(want.lines())
    {
        let columns: Vec<&str> = line.split('\t').collect();
        assert_eq!(one["id"], columns[2]);
        assert_eq!(one["score"].as_f64().unwrap().to_string(), columns[3]);
        assert_eq!(one["sd"].as_f64().unwrap().to_string(), columns[4]);
    }
    let lines = crate::client::triplets(5);
    learns(&place, &service, &lines, &["--rows", "rows.csv"]);
}

#[test]
fn metrics_and_pairs_answer_and_learn() {
    let place = similarity();
    run(
        &place,
        &[
            "train",
            "metric",
            "rows.csv",
            "-o",
            "m.safetensors",
            "--rank",
            "3",
        ],
    );
    let service = start(&place, true);
    let answer = service.ask("/v1/neighbors", r#"{"id":"r4","k":5}"#);
    let want = run(
        &place,
        &[
            "neighbors",
            "m.safetensors",
            "rows.csv",
            "--query",
            "r4",
            "-k",
            "5",
        ],
    );
    assert_eq!(listed("r4", &answer), want);
    let lines = [
        r#"{"left":"r1","right":"r4","same":true}"#,
        r#"{"left":"r1","right":{"a":1.5},"same":false}"#,
        r#"{"left":"r2","right":"r9","at_least":3}"#,
    ];
    learns(
        &place,
        &service,
        &lines.map(String::from),
        &["--rows", "rows.csv"],
    );
    service.kill();

    let values: String = (0..60)
        .map(|i| format!("r{i} r{} {}\n", (i * 7 + 1) % 90, f64::from(i % 5) - 2.0))
        .collect();
    place.write("values.txt", values);
    run(
        &place,
        &[
            "train",
            "pairs",
            "rows.csv",
            "--pairs",
            "values.txt",
            "-o",
            "m.safetensors",
            "--rank",
            "2",
        ],
    );
    std::fs::remove_dir_all(place.path("j")).unwrap();
    let service = start(&place, true);
    let answer = service.ask("/v1/neighbors", r#"{"id":"r4","k":5}"#);
    let want = run(
        &place,
        &[
            "neighbors",
            "m.safetensors",
            "rows.csv",
            "--query",
            "r4",
            "-k",
            "5",
        ],
    );
    assert_eq!(listed("r4", &answer), want);
    let lines = [r#"{"left":"r1","right":"r4","value":2.5}"#.to_owned()];
    learns(&place, &service, &lines, &["--rows", "rows.csv"]);
}

#[test]
fn rankings_list_labels_and_learn() {
    let place = Place::new();
    let rows: String = (0..40)
        .map(|i| {
            format!(
                "{},{} {}:1 {}:0.5\n",
                i % 3,
                3 + i % 2,
                1 + i % 3,
                4 + i % 2
            )
        })
        .collect();
    place.write("rows.svm", rows);
    run(
        &place,
        &[
            "train",
            "ranking",
            "rows.svm",
            "-o",
            "m.safetensors",
            "--epochs",
            "2",
        ],
    );
    let arguments = [
        "m.safetensors",
        "--rows",
        "rows.svm",
        "--learn",
        "--journal",
        "j",
    ];
    let service = Service::start(&place, &arguments);
    let answer = service.ask("/v1/rank", r#"{"id":5,"k":4}"#);
    let want = run(
        &place,
        &[
            "rank",
            "m.safetensors",
            "rows.svm",
            "--query",
            "5",
            "-k",
            "4",
        ],
    );
    assert_eq!(listed("5", &answer), want);
    let answer = service.ask("/v1/predict", r#"{"inputs":[{"row":{"1":1},"label":"0"}]}"#);
    assert!(answer["results"][0]["score"].is_number());
    let lines = [
        r#"{"row":7,"labels":["1"]}"#,
        r#"{"row":{"9":1},"labels":["2","5"]}"#,
    ];
    learns(
        &place,
        &service,
        &lines.map(String::from),
        &["--rows", "rows.svm"],
    );
}

#[test]
fn ratings_and_recommendations_answer_and_learn() {
    let place = Place::new();
    let ratings: String = (0..200)
        .map(|i| format!("u{},m{},{}\n", i % 20, (i * 7) % 15, 1 + (i * i) % 5))
        .collect();
    place.write("ratings.csv", format!("user,item,rating\n{ratings}"));
    run(
        &place,
        &[
            "train",
            "completion",
            "ratings.csv",
            "-o",
            "m.safetensors",
            "--learner",
            "als",
            "--rank",
            "2",
        ],
    );
    let service = start(&place, false);
    let answer = service.ask("/v1/recommend", r#"{"user":"u3","k":4}"#);
    let want = run(
        &place,
        &["recommend", "m.safetensors", "--query", "u3", "-k", "4"],
    );
    assert_eq!(listed("u3", &answer), want);
    let answer = service.ask("/v1/neighbors", r#"{"id":"m3","k":3}"#);
    let want = run(
        &place,
        &["neighbors", "m.safetensors", "--query", "m3", "-k", "3"],
    );
    assert_eq!(listed("m3", &answer), want);
    let answer = service.ask(
        "/v1/predict",
        r#"{"inputs":[{"user":"u1","item":"m1"},{"user":"?","item":"m1"}]}"#,
    );
    assert_eq!(answer["unknown"], 1);
    let lines = [
        r#"{"user":"u1","item":"m3","rating":5}"#,
        r#"{"user":"new","item":"other","rating":1}"#,
    ];
    learns(&place, &service, &lines.map(String::from), &[]);
    service.kill();

    run(
        &place,
        &[
            "train",
            "recommend",
            "ratings.csv",
            "-o",
            "m.safetensors",
            "--rank",
            "3",
        ],
    );
    std::fs::remove_dir_all(place.path("j")).unwrap();
    let service = start(&place, false);
    let answer = service.ask("/v1/recommend", r#"{"user":"u3","k":4}"#);
    let want = run(
        &place,
        &["recommend", "m.safetensors", "--query", "u3", "-k", "4"],
    );
    assert_eq!(listed("u3", &answer), want);
    let answer = service.ask("/v1/recommend", r#"{"items":["m1","m4"],"k":2}"#);
    assert_eq!(answer["results"].as_array().unwrap().len(), 2);
    let lines = [
        r#"{"user":"u1","item":"m3"}"#,
        r#"{"user":"new","item":"other"}"#,
    ];
    learns(&place, &service, &lines.map(String::from), &[]);
}

#[test]
fn tasks_predict_targets_and_learn() {
    let place = Place::new();
    let rows: String = (0..90)
        .map(|i| {
            let (x, y) = (f64::from(i % 7) - 3.0, f64::from(i % 11) - 5.0);
            format!("t{},{x},{y},{}\n", i % 3, 2.0 * x - y + f64::from(i % 3))
        })
        .collect();
    place.write("tasks.csv", format!("task,x,y,target\n{rows}"));
    run(
        &place,
        &[
            "train",
            "multitask",
            "tasks.csv",
            "-o",
            "m.safetensors",
            "--rank",
            "1",
        ],
    );
    let service = start(&place, false);
    place.write("ask.jsonl", "{\"task\":\"t1\",\"row\":{\"x\":1,\"y\":2}}\n");
    let want = run(&place, &["predict", "m.safetensors", "ask.jsonl"]);
    let answer = service.ask(
        "/v1/predict",
        r#"{"inputs":[{"task":"t1","row":{"x":1,"y":2}}]}"#,
    );
    assert_eq!(
        answer["results"][0]["score"].as_f64().unwrap().to_string(),
        want.trim()
    );
    let lines = [
        r#"{"task":"t1","row":{"x":1,"y":2},"target":3}"#,
        r#"{"task":"new","row":{"x":-1},"target":0.5}"#,
    ];
    learns(&place, &service, &lines.map(String::from), &[]);
}

#[test]
fn an_index_finds_most_of_the_best_here_and_on_the_command_line() {
    let place = similarity();
    let arguments = ["m.safetensors", "--rows", "rows.csv", "--index", "hnsw"];
    let service = Service::start(&place, &arguments);
    let model = service.get("/v1/model").json();
    assert_eq!(model["index"], "hnsw");
    assert!(model["recall"].as_f64().unwrap() >= 0.95, "{model}");
    let found = service.ask("/v1/neighbors", r#"{"id":"r4","k":5}"#);
    let exact = service.ask("/v1/neighbors", r#"{"id":"r4","k":5,"exact":true}"#);
    assert_eq!(found["results"][0], exact["results"][0]);
    let command = [
        "neighbors",
        "m.safetensors",
        "rows.csv",
        "--query",
        "r4",
        "-k",
        "1",
    ];
    let exact = run(&place, &command);
    assert_eq!(
        run(&place, &[&command[..], &["--index", "hnsw"]].concat()),
        exact
    );
}

#[test]
fn kernels_are_refused_in_words() {
    let place = similarity();
    place.write("pairs.txt", "r1 r4 same\nr1 r2 different\n");
    let said = place.run(&[
        "train",
        "kernel",
        "rows.csv",
        "--pairs",
        "pairs.txt",
        "-o",
        "m.safetensors",
        "--rank",
        "2",
    ]);
    if said.code == 0 {
        let refused = Service::try_start(&place, &["m.safetensors"])
            .err()
            .unwrap();
        assert!(
            refused.contains("a kernel knows its own items only"),
            "{refused}"
        );
    }
}
