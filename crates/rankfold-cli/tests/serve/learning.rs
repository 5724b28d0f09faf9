//! What was acknowledged is there, and is what `rankfold update` makes of it.

use crate::client::{Service, similarity, triplets, updated};

const LEARN: [&str; 6] = [
    "m.safetensors",
    "--rows",
    "rows.csv",
    "--learn",
    "--journal",
    "j",
];
const ROWS: [&str; 2] = ["--rows", "rows.csv"];

#[test]
fn a_model_that_was_stopped_killed_and_undone_has_the_bytes_of_update() {
    let place = similarity();
    let mut lines = triplets(40);
    lines[7] = r#"{"query":{"zz":1,"aa":2},"positive":"r1","negative":{"b":-1}}"#.into();
    let service = Service::start(&place, &LEARN);
    for line in &lines[..10] {
        service.ask("/v1/feedback", line);
    }
    let all = format!("[{}]", lines[10..30].join(",\n"));
    assert_eq!(service.ask("/v1/feedback", &all)["sequence"], 30);
    let file = service.get("/v1/model/file");
    assert!(file.head.contains("rankfold-sequence: 30"), "{}", file.head);
    assert_eq!(
        file.body,
        updated(&place, "m.safetensors", &lines[..30], &ROWS)
    );
    assert_eq!(service.stop(), 0);

    let service = Service::start(&place, &LEARN);
    assert_eq!(service.get("/v1/model").json()["sequence"], 30);
    for line in &lines[30..] {
        service.ask("/v1/feedback", line);
    }
    service.kill();

    let service = Service::start(&place, &LEARN);
    assert_eq!(service.get("/v1/model").json()["sequence"], 40);
    assert_eq!(
        service.get("/v1/model/file").body,
        updated(&place, "m.safetensors", &lines, &ROWS)
    );
    // Back behind the snapshot of the stop, and on from there.
    for left in (25..40).rev() {
        assert_eq!(service.ask("/v1/undo", "{}")["sequence"], left);
    }
    service.ask("/v1/feedback", &lines[0]);
    let mut kept = lines[..25].to_vec();
    kept.push(lines[0].clone());
    let want = updated(&place, "m.safetensors", &kept, &ROWS);
    assert_eq!(service.get("/v1/model/file").body, want);
    service.kill();
    let service = Service::start(&place, &LEARN);
    assert_eq!(service.get("/v1/model/file").body, want);

    // The stream that the service gives has rows by value, and makes the same bytes.
    let stream = String::from_utf8(service.get("/v1/journal").body).unwrap();
    let stream: Vec<String> = stream.lines().map(str::to_owned).collect();
    assert_eq!(stream.len(), 26);
    assert!(!stream.iter().any(|line| line.contains("\"r")));
    assert_eq!(updated(&place, "m.safetensors", &stream, &[]), want);
}

#[test]
fn rows_come_and_change_and_are_learned_by_value() {
    let place = similarity();
    let service = Service::start(&place, &LEARN);
    let put = |id: &str, body: &str| {
        let path = format!("/v1/rows/{id}");
        service.request("PUT", &path, Some(body.as_bytes()), &[])
    };
    assert_eq!(
        put("new%20one", r#"{"row":{"zz":1,"aa":3,"a":1}}"#).status,
        200
    );
    assert_eq!(put("r5", r#"{"row":{"a":9}}"#).status, 200);
    let taught = service.ask(
        "/v1/feedback",
        r#"{"query":"new one","positive":"r5","negative":"r2"}"#,
    );
    let after = taught["sequence"].as_u64().unwrap();
    let ask = format!("{{\"id\":\"new one\",\"k\":100,\"after\":{after}}}");
    let found = service.ask("/v1/neighbors", &ask);
    let ids: Vec<&str> = found["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 90, "90 rows and a new one, without itself");
    assert_eq!(ids.iter().filter(|id| **id == "r5").count(), 1);
    assert_eq!(service.get("/v1/model").json()["rows"], 91);
    assert_eq!(
        service.get("/v1/rows/r5").json()["row"],
        serde_json::json!({ "a": 9.0 })
    );
    assert_eq!(service.get("/v1/rows/none").status, 404);
    let stream = String::from_utf8(service.get("/v1/journal").body).unwrap();
    let stream: Vec<String> = stream.lines().map(str::to_owned).collect();
    let want = updated(&place, "m.safetensors", &stream, &ROWS);
    assert_eq!(service.get("/v1/model/file").body, want);
    service.kill();
    let service = Service::start(&place, &LEARN);
    assert_eq!(service.get("/v1/model/file").body, want);
    assert_eq!(service.ask("/v1/neighbors", &ask), found);
    assert_eq!(service.stop(), 0);
    // The snapshot has the rows, too.
    let service = Service::start(&place, &LEARN);
    assert_eq!(service.ask("/v1/neighbors", &ask), found);
}

#[test]
fn feedback_that_is_refused_changes_nothing() {
    let place = similarity();
    let service = Service::start(&place, &LEARN);
    let line = &triplets(1)[0];
    for (body, words) in [
        (
            "{\"query\":\"r1\"}",
            "expected the fields `query`, `positive` and `negative`",
        ),
        ("[1]", "example 1: expected a JSON object"),
        (
            "{\"query\":\"no\",\"positive\":\"r1\",\"negative\":\"r2\"}",
            "no row is called `no`",
        ),
        (
            "{\"query\":{\"a\":\"x\"},\"positive\":\"r1\",\"negative\":\"r2\"}",
            "invalid type",
        ),
        ("{", "expected JSON"),
        (
            &format!("[{line},{{\"query\":\"r1\"}}]"),
            "example 2: expected the fields",
        ),
    ] {
        let answer = service.post("/v1/feedback", body);
        assert_eq!(answer.status, 400, "{body}");
        assert!(
            answer.message().contains(words),
            "{body}: {}",
            answer.message()
        );
    }
    assert_eq!(service.get("/v1/model").json()["sequence"], 0);
    assert_eq!(service.get("/v1/journal").body, b"");
    assert_eq!(service.post("/v1/undo", "{}").status, 409);
    assert_eq!(service.ask("/v1/feedback", "[]")["accepted"], 0);
    let bytes = std::fs::read(place.path("m.safetensors")).unwrap();
    assert_eq!(service.get("/v1/model/file").body, bytes);
}

#[test]
fn other_models_other_rows_and_a_second_service_are_refused() {
    let place = similarity();
    let service = Service::start(&place, &LEARN);
    service.ask("/v1/feedback", &triplets(1)[0]);
    let refused = |arguments: &[&str]| Service::try_start(&place, arguments).err().unwrap();
    assert!(refused(&LEARN).contains("another `rankfold serve` uses this journal"));
    service.kill();
    let bytes = std::fs::read_to_string(place.path("rows.csv")).unwrap();
    place.write("more.csv", bytes + "r90,1,1,1,1,1,1\n");
    let more = [
        "m.safetensors",
        "--rows",
        "more.csv",
        "--learn",
        "--journal",
        "j",
    ];
    assert!(refused(&more).contains("the journal began with other rows"));
    let said = place.run(&[
        "train",
        "similarity",
        "rows.csv",
        "-o",
        "n.safetensors",
        "--rank",
        "2",
        "--steps",
        "50",
    ]);
    assert_eq!(said.code, 0);
    let other = [
        "n.safetensors",
        "--rows",
        "rows.csv",
        "--learn",
        "--journal",
        "j",
    ];
    assert!(refused(&other).contains("the journal began from another model"));
    assert!(refused(&["m.safetensors"]).contains("--rows is needed"));
    assert!(refused(&["m.safetensors", "--rows", "rows.csv", "--learn"]).contains("--journal"));
}

#[test]
fn a_service_without_learning_answers_and_says_so() {
    let place = similarity();
    let service = Service::start(&place, &["m.safetensors", "--rows", "rows.csv"]);
    let answer = service.post("/v1/feedback", &triplets(1)[0]);
    assert_eq!(answer.status, 409);
    assert!(answer.message().contains("--learn --journal DIR"));
    assert_eq!(service.get("/readyz").json()["learning"], false);
    assert_eq!(
        service.ask("/v1/neighbors", r#"{"id":"r1"}"#)["results"]
            .as_array()
            .unwrap()
            .len(),
        10
    );
}
