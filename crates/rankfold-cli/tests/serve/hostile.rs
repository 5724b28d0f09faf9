//! Requests that mean harm: refused in words, without a panic, and without growth.
//! `RANKFOLD_REQUESTS=100000` sends so many broken bodies.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::client::{Service, similarity, triplets};

const LEARN: [&str; 6] = [
    "m.safetensors",
    "--rows",
    "rows.csv",
    "--learn",
    "--journal",
    "j",
];

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

const SEEDS: [&str; 8] = [
    r#"{"id":"r1","k":3}"#,
    r#"{"row":{"a":1,"b":-2.5},"k":2,"uncertainty":false}"#,
    r#"{"inputs":[{"left":"r1","right":{"c":1}}]}"#,
    r#"{"inputs":[{"id":"r2"},{"row":{"a":null}}]}"#,
    r#"{"query":"r1","positive":"r2","negative":"r3"}"#,
    r#"[{"query":{"a":1},"positive":"r2","negative":"r3"}]"#,
    r#"{"row":{"a":1}}"#,
    r#"{"user":"u","items":[1,2]}"#,
];

const PIECES: [&str; 16] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "1e999",
    "-1",
    "4000000000",
    "\\u0000",
    "\u{fe0f}",
    "18446744073709551616",
    "\"k\":",
    "\u{0}",
];

fn broken(dice: &mut Dice) -> Vec<u8> {
    let mut body = SEEDS[dice.roll(SEEDS.len())].as_bytes().to_vec();
    // Some stay whole, so that good ones are among them.
    for _ in 0..dice.roll(5) {
        let at = dice.roll(body.len() + 1);
        match dice.roll(5) {
            0 => body.truncate(at),
            1 => drop(body.splice(at..at, PIECES[dice.roll(PIECES.len())].bytes())),
            2 if at < body.len() => body[at] = dice.roll(256) as u8,
            3 if at < body.len() => drop(body.remove(at)),
            _ => {
                let copy = body.clone();
                body.splice(at..at, copy.into_iter().take(64));
            }
        }
    }
    body
}

#[test]
fn broken_bodies_are_refused_and_the_service_goes_on() {
    let count: usize = std::env::var("RANKFOLD_REQUESTS").map_or(3000, |n| n.parse().unwrap());
    let place = similarity();
    let service = Service::start(&place, &[&LEARN[..], &["--max-size", "2000"]].concat());
    let paths = [
        ("POST", "/v1/neighbors"),
        ("POST", "/v1/rank"),
        ("POST", "/v1/recommend"),
        ("POST", "/v1/predict"),
        ("POST", "/v1/transform"),
        ("POST", "/v1/feedback"),
        ("POST", "/v1/undo"),
        ("PUT", "/v1/rows/x"),
    ];
    let (mut dice, mut statuses) = (Dice(1), std::collections::BTreeMap::<u16, usize>::new());
    let mut stream = TcpStream::connect(&service.address).unwrap();
    let mut early = 0;
    for i in 0..count {
        let (method, path) = paths[dice.roll(paths.len())];
        let body = broken(&mut dice);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            service.address,
            body.len()
        );
        // In one piece: two small ones would wait for each other.
        stream
            .write_all(&[head.as_bytes(), &body].concat())
            .unwrap();
        let (status, answer) = read_answer(&mut stream);
        let words = String::from_utf8_lossy(&answer);
        assert!(
            status < 500,
            "{status} {path} {:?}: {words}",
            String::from_utf8_lossy(&body)
        );
        assert!(
            !words.contains("/tmp") && !words.contains(".rs:"),
            "{words}"
        );
        *statuses.entry(status).or_default() += 1;
        if i == count / 3 {
            early = service.memory_kb();
        }
    }
    println!("{statuses:?}");
    assert!(statuses[&400] > count / 4, "{statuses:?}");
    let late = service.memory_kb();
    assert!(
        late < early + 100_000,
        "memory went from {early} to {late} kB"
    );
    assert_eq!(
        service.ask("/v1/neighbors", r#"{"id":"r1"}"#)["results"]
            .as_array()
            .unwrap()
            .len(),
        10
    );
}

/// One answer of a connection that stays open.
fn read_answer(stream: &mut TcpStream) -> (u16, Vec<u8>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "the service has gone");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap();
    let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

#[test]
fn limits_hold() {
    let place = similarity();
    let more = ["--max-body", "5000", "--max-batch", "3", "--max-time", "2s"];
    let service = Service::start(&place, &[&LEARN[..], &more].concat());
    let says = |path: &str, body: &str, status: u16, words: &str| {
        let answer = service.post(path, body);
        assert_eq!(
            answer.status,
            status,
            "{}",
            String::from_utf8_lossy(&answer.body)
        );
        assert!(answer.message().contains(words), "{}", answer.message());
    };
    says(
        "/v1/neighbors",
        r#"{"id":"r1","k":1001}"#,
        400,
        "`k` must be from 1 to 1000, found 1001",
    );
    says(
        "/v1/neighbors",
        r#"{"id":"r1","k":0}"#,
        400,
        "`k` must be from 1 to 1000",
    );
    says(
        "/v1/neighbors",
        r#"{"id":"r1","k":-1}"#,
        400,
        "expected JSON",
    );
    says(
        "/v1/neighbors",
        &" ".repeat(5001),
        413,
        "longer than 5000 bytes",
    );
    says(
        "/v1/neighbors",
        &format!("{{\"row\":{}", "[".repeat(4000)),
        400,
        "expected JSON",
    );
    says(
        "/v1/feedback",
        &format!("{{\"query\":{}", "{\"a\":".repeat(900)),
        400,
        "expected JSON",
    );
    says(
        "/v1/feedback",
        &format!("[{}]", triplets(4).join(",")),
        400,
        "up to 3 examples, found 4",
    );
    let inputs = r#"{"inputs":[{"id":"r1"},{"id":"r1"},{"id":"r1"},{"id":"r1"}]}"#;
    says("/v1/transform", inputs, 400, "up to 3 inputs, found 4");
    says(
        "/v1/neighbors",
        r#"{"id":"r1","after":7}"#,
        400,
        "`after` is 7, and there are 0 examples",
    );
    let huge = r#"{"query":{"a":1e300},"positive":"r1","negative":"r2"}"#;
    says("/v1/feedback", huge, 400, "too large");

    // Who sends nothing, or half of it, is left after a while.
    let mut slow = TcpStream::connect(&service.address).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let head = format!(
        "POST /v1/neighbors HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        service.address
    );
    slow.write_all(head.as_bytes()).unwrap();
    let (status, _) = read_answer(&mut slow);
    assert_eq!(status, 408);
    let mut silent = TcpStream::connect(&service.address).unwrap();
    silent
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    silent.write_all(b"GET /healthz HTTP/1.1\r\nHost:").unwrap();
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    assert_eq!(service.get("/healthz").status, 200);
}

#[test]
fn strangers_are_kept_out() {
    let place = similarity();
    let (reader, teacher) = ("reader-0123456789", "teacher-0123456789");
    place.write(
        "tokens.txt",
        format!("# who may\n{reader} read\n{teacher} read, teach\n"),
    );
    let service = Service::start(&place, &[&LEARN[..], &["--tokens", "tokens.txt"]].concat());
    let line = triplets(1).remove(0);
    let status = |path: &str, body: &str, headers: &[(&str, &str)]| {
        service
            .request("POST", path, Some(body.as_bytes()), headers)
            .status
    };
    let bearer = |token: &str| format!("Bearer {token}");
    let (reads, teaches) = (bearer(reader), bearer(teacher));
    let ask = r#"{"id":"r1"}"#;
    assert_eq!(status("/v1/neighbors", ask, &[]), 401);
    assert_eq!(
        status("/v1/neighbors", ask, &[("Authorization", "Bearer wrong")]),
        401
    );
    assert_eq!(
        status("/v1/neighbors", ask, &[("Authorization", &reads)]),
        200
    );
    assert_eq!(
        status("/v1/feedback", &line, &[("Authorization", &reads)]),
        403
    );
    assert_eq!(
        status("/v1/feedback", &line, &[("Authorization", &teaches)]),
        200
    );
    assert_eq!(service.get("/healthz").status, 200);
    assert_eq!(service.get("/metrics").status, 401);
    let with = [
        ("Authorization", &*teaches),
        ("Origin", "http://evil.example"),
    ];
    assert_eq!(status("/v1/feedback", &line, &with), 403);
    let with = [("Authorization", &*teaches), ("Host", "evil.example")];
    assert_eq!(status("/v1/feedback", &line, &with), 421);
    let with = [("Authorization", &*teaches), ("Content-Type", "text/plain")];
    assert_eq!(status("/v1/feedback", &line, &with), 415);
    for path in [
        "/v1/rows/..%2F..%2Fetc%2Fpasswd",
        "/../etc/passwd",
        "/v1//model",
        "/%2e%2e/x",
    ] {
        let answer = service.request("GET", path, None, &[("Authorization", &reads)]);
        assert!(
            (400..500).contains(&answer.status),
            "{path}: {}",
            answer.status
        );
        assert!(!String::from_utf8_lossy(&answer.body).contains("root:"));
    }
    let refused = |arguments: &[&str]| {
        let said =
            place.run(&[&["serve", "m.safetensors", "--rows", "rows.csv"], arguments].concat());
        assert_eq!(said.code, 2, "{}", said.stderr);
        said.stderr
    };
    assert!(refused(&["--listen", "0.0.0.0:0"]).contains("can be reached from outside"));
    place.write("short.txt", "abc read\n");
    assert!(refused(&["--tokens", "short.txt"]).contains("at least 16 characters"));
}
