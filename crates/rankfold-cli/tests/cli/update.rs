//! `update`: a stream of triplets, whole or broken, short or endless.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Place, Said, sealed};
use crate::train::place_with_data;

fn bytes(place: &Place, name: &str) -> Vec<u8> {
    std::fs::read(place.path(name)).expect("a file is there")
}

/// Triplets of row numbers: row i has class i mod 5.
fn triplets(range: std::ops::Range<usize>) -> Vec<[usize; 3]> {
    let of = |i: usize| {
        [
            i % 300,
            (i * 7 + 5 * (i % 9) + 10) % 300,
            (i * 11 + 3) % 300,
        ]
    };
    range.map(of).collect()
}

fn as_text(list: &[[usize; 3]]) -> String {
    let line = |[q, p, n]: &[usize; 3]| format!("{q} {p} {n}\n");
    list.iter().map(line).collect()
}

fn as_ids(list: &[[usize; 3]]) -> String {
    // Numbers and texts are both ids.
    let line = |[q, p, n]: &[usize; 3]| {
        format!("{{\"query\":{q},\"positive\":\"{p}\",\"negative\":{n}}}\n")
    };
    list.iter().map(line).collect()
}

/// The rows of an svmlight text as objects of features.
fn as_values(list: &[[usize; 3]], rows: &str) -> String {
    let object = |row: &str| -> Value {
        let fields = row.split(' ').skip(1);
        let entries = fields.map(|field| {
            let (name, value) = field.split_once(':').expect("a feature");
            (
                name.to_owned(),
                json!(value.parse::<f64>().expect("a number")),
            )
        });
        Value::Object(entries.collect())
    };
    let objects: Vec<Value> = rows.lines().map(object).collect();
    let line = |[q, p, n]: &[usize; 3]| {
        let [query, positive, negative] = [q, p, n].map(|row| &objects[*row]);
        let line = json!({ "query": query, "positive": positive, "negative": negative });
        format!("{line}\n")
    };
    list.iter().map(line).collect()
}

#[track_caller]
fn good(said: &Said) {
    assert_eq!(said.code, 0, "{}", said.stderr);
}

fn train(place: &Place, output: &str, list: &[[usize; 3]], more: &[&str]) {
    place.write("t.txt", as_text(list));
    let run = [
        "train",
        "similarity",
        "train.svm",
        "-o",
        output,
        "--triplets",
        "t.txt",
        "--rank",
        "6",
        "--step-size",
        "0.7",
        "--seed",
        "3",
        "--quiet",
    ];
    good(&place.run(&[&run[..], more].concat()));
}

/// A place with a model `m` of the first triplets.
fn place_with_model() -> Place {
    let place = place_with_data();
    train(&place, "m", &triplets(0..300), &[]);
    place
}

#[test]
fn two_sittings_give_the_bytes_of_one() {
    let (first, second) = (triplets(0..700), triplets(700..1400));
    for more in [
        &["--learner", "loreta-psd"][..],
        &["--learner", "loreta", "--precision", "f64"],
        &["--weight", "tfidf", "--normalize", "l2"],
        &["--standardize", "global"],
    ] {
        let place = place_with_data();
        train(&place, "whole", &triplets(0..1400), more);
        train(&place, "half", &first, more);
        let whole = bytes(&place, "whole");
        let by_id = as_ids(&second);
        let by_value = as_values(&second, &place.read("train.svm"));

        let run = ["update", "half", "-o", "a", "--rows", "train.svm"];
        let said = place.run_with(&run, &by_id.replace("}\n", "}\r\n\n"));
        assert_eq!((said.code, said.stderr.as_str()), (0, ""));
        assert!(bytes(&place, "a") == whole, "ids, {more:?}");
        good(&place.run_with(&["update", "half", "-", "-o", "b"], &by_value));
        assert!(bytes(&place, "b") == whole, "values, {more:?}");

        // In pieces, each over the model itself, from files of all kinds, with
        // saves on the way.
        std::fs::copy(place.path("half"), place.path("c")).expect("a copy");
        for (name, part) in ["p.jsonl", "p.jsonl.gz", "p.jsonl.zst"].iter().zip([
            &second[..200],
            &second[200..201],
            &second[201..],
        ]) {
            let text = as_ids(part);
            let path = place.path(name);
            rankfold::data::write_atomically(path, |out| out.write_all(text.as_bytes()))
                .expect("a stream");
            let run = ["update", "c", name, "-o", "c", "--rows", "train.svm"];
            good(&place.run(&[&run[..], &["--save-every", "7"]].concat()));
        }
        assert!(bytes(&place, "c") == whole, "pieces, {more:?}");
    }
}

/// The second half brings features that the first one lacks: the model scores
/// as the one that knew them all along. Rows have no labels, so W starts on the
/// most frequent features, which all rows share.
#[test]
fn features_that_come_late_are_as_good_as_known_ones() {
    let place = Place::new();
    let row = |i: usize| {
        // Every row has two of features 1 to 4; late rows have some from 21 to 40.
        let (a, b) = (1 + i % 4, 1 + (i + 1 + i / 4 % 3) % 4);
        let from = if i < 100 { 5 } else { 21 };
        let (c, d) = (from + i * 7 % 16, from + (i * 5 + 1) % 16);
        let mut features = vec![a, b, c, d];
        features.sort_unstable();
        features.dedup();
        let value = |f: &usize| format!(" {f}:{}", 1.0 + ((i * 31 + f * 17) % 10) as f64 / 8.0);
        features.iter().map(value).collect::<String>() + "\n"
    };
    let early: String = (0..100).map(row).collect();
    let all: String = (0..200).map(row).collect();
    place.write("early.svm", early);
    place.write("all.svm", &all);
    let list = |rows: usize, from: usize| -> Vec<[usize; 3]> {
        let of = |i: usize| [i, i * 3 + 1, i * 7 + 5].map(|row| from + row % rows);
        (0..400).map(of).collect()
    };
    let (first, second) = (list(100, 0), list(100, 100));
    for learner in ["loreta-psd", "loreta"] {
        let train = |data: &str, output: &str, list: &[[usize; 3]]| {
            place.write("t.txt", as_text(list));
            let run = [
                "train",
                "similarity",
                data,
                "-o",
                output,
                "--triplets",
                "t.txt",
                "--rank",
                "4",
                "--step-size",
                "0.3",
                "--precision",
                "f64",
                "--learner",
                learner,
                "--quiet",
            ];
            good(&place.run(&run));
        };
        train("all.svm", "whole", &[&first[..], &second].concat());
        train("early.svm", "half", &first);
        for (output, stream) in [
            ("by_id", as_ids(&second)),
            ("by_value", as_values(&second, &all)),
        ] {
            let run = [
                "update", "half", "-o", output, "--rows", "all.svm", "--json",
            ];
            let got = place.run_with(&run, &stream).json();
            assert!(got["new_features"].as_u64().is_some_and(|n| n >= 15));
            assert!(got["updates"].as_u64().is_some_and(|n| n > 50));
            let pairs: String = (0..200)
                .map(|i| format!("{i} {}\n", i * 13 % 200))
                .collect();
            let scores = |model: &str| -> Vec<f64> {
                let run = ["predict", model, "-", "--rows", "all.svm", "--score", "dot"];
                let said = place.run_with(&run, &pairs);
                good(&said);
                said.stdout.lines().map(|s| s.parse().unwrap()).collect()
            };
            let (want, got) = (scores("whole"), scores(output));
            let largest = want.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
            for (want, got) in want.iter().zip(&got) {
                assert!((want - got).abs() < 1e-9 * largest, "{want} {got}");
            }
        }
    }
}

#[test]
fn the_result_is_told_to_people_and_scripts() {
    let place = place_with_model();
    let stream = as_ids(&triplets(300..400));
    let run = ["update", "m", "-o", "new", "--rows", "train.svm"];
    let said = place.run_with(&[&run[..], &["--json"]].concat(), &stream);
    let got = said.json();
    for (key, want) in [
        ("format", json!(1)),
        ("task", json!("similarity")),
        ("learner", json!("loreta-psd")),
        ("rank", json!(6)),
        ("lines", json!(100)),
        ("steps", json!(100)),
        ("refused", json!(0)),
        ("new_features", json!(0)),
        ("seeded", json!(0)),
        ("features", json!(60)),
        ("total_steps", json!(400)),
        ("step_size", json!(0.7)),
        ("stopped", json!("end")),
        ("model", json!("new")),
    ] {
        assert_eq!(got[key], want, "{key}");
    }
    let updates = got["updates"].as_u64().expect("a count");
    assert!(updates > 0 && got["loss"].as_f64().is_some_and(|loss| loss > 0.0));

    let said = place.run_with(&[&run[..], &["--step-size", "0.1"]].concat(), &stream);
    let start = "loreta-psd of rank 6: 100 steps, ";
    assert!(said.stdout.starts_with(start), "{}", said.stdout);
    assert!(said.stdout.ends_with(" s\nnew\n"), "{}", said.stdout);
    let info: Value = serde_json::from_str(&place.run(&["info", "new", "--json"]).stdout).unwrap();
    assert_eq!(
        (&info["step_size"], &info["steps"]),
        (&json!(0.1), &json!(400))
    );

    // An empty stream changes nothing.
    let said = place.run_with(&["update", "m", "-o", "same", "--json"], "\n\n");
    assert_eq!(
        (&said.json()["steps"], &said.json()["loss"]),
        (&json!(0), &Value::Null)
    );
    assert!(bytes(&place, "same") == bytes(&place, "m"));
    // A model on stdout has its result on stderr.
    let said = place
        .command(&["update", "m", "-o", "-"])
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    assert!(said.stdout == bytes(&place, "m") && !said.stderr.is_empty());
}

#[test]
fn new_features_are_learned() {
    let place = Place::new();
    let rows = "id,label,sour,sweet,round,long
lemon,x,1,0,1,0
lime,x,1,0,0.9,0.1
banana,y,0,1,0,1
kiwi,y,0.2,1,0.4,0.6
";
    place.write("fruit.csv", rows);
    let run = [
        "train",
        "similarity",
        "fruit.csv",
        "-o",
        "m",
        "--rank",
        "2",
        "--steps",
        "200",
        "--step-size",
        "0.5",
        "--quiet",
    ];
    good(&place.run(&run));
    // `green` comes with old features; `red` and `small` only with each other.
    let stream = r#"{"query":"lime","positive":{"green":1,"sour":1},"negative":"banana"}
{"query":{"green":2},"positive":"lime","negative":"kiwi"}
{"query":{"red":1},"positive":{"small":1},"negative":{"huge":1}}
"#
    .repeat(200);
    let run = ["update", "m", "-o", "m", "--rows", "fruit.csv", "--json"];
    let got = place.run_with(&run, &stream).json();
    assert_eq!(
        (&got["new_features"], &got["seeded"], &got["features"]),
        (&json!(4), &json!(1), &json!(8))
    );
    let pairs = "a b\na c\nd lime\nd kiwi\n";
    let named = r#"{"id":"a","row":{"red":1}}
{"id":"b","row":{"small":1}}
{"id":"c","row":{"huge":1}}
{"id":"d","row":{"green":1}}
{"id":"lime","row":{"sour":1,"round":0.9,"long":0.1}}
{"id":"kiwi","row":{"sour":0.2,"sweet":1,"round":0.4,"long":0.6}}
"#;
    place.write("named.jsonl", named);
    let run = [
        "predict",
        "m",
        "-",
        "--rows",
        "named.jsonl",
        "--score",
        "dot",
    ];
    let said = place.run_with(&run, pairs);
    let scores: Vec<f64> = said.stdout.lines().map(|s| s.parse().unwrap()).collect();
    assert!(scores[0] > scores[1] && scores[2] > scores[3], "{scores:?}");
    // The old table can still be read, though it lacks the new columns.
    good(&place.run(&["eval", "m", "fruit.csv"]));
    let info: Value = serde_json::from_str(&place.run(&["info", "m", "--json"]).stdout).unwrap();
    assert_eq!(info["features"], "named");
    assert_eq!(
        (&info["new_features"], &info["seeded"]),
        (&json!(4), &json!(1))
    );
}

/// Whatever is wrong with a line, all before it is learned and written.
#[test]
fn a_broken_line_is_told_and_what_came_before_is_kept() {
    let place = place_with_model();
    let list = triplets(300..340);
    good(&place.run_with(
        &["update", "m", "-o", "want", "--rows", "train.svm"],
        &as_ids(&list),
    ));
    let want = bytes(&place, "want");
    let before = bytes(&place, "m");
    let shape = "expected the fields `query`, `positive` and `negative` of a triplet";
    let cases = [
        (
            "{\"query\":1,\"positive\":2".to_owned(),
            "column 23: EOF while parsing an object; is the line cut short?".to_owned(),
        ),
        (
            "nonsense".into(),
            "expected a JSON object, found `nonsense`".into(),
        ),
        (
            "{\"user\":\"u\",\"item\":\"i\",\"rating\":4}".into(),
            format!("{shape}, found `user`, `item`, `rating`"),
        ),
        (
            "{\"query\":1,\"positive\":\"mango\",\"negative\":2}".into(),
            "column 29: no row is called `mango`".into(),
        ),
        (
            "{\"query\":1,\"positive\":300,\"negative\":2}".into(),
            "column 25: no row is called `300`".into(),
        ),
        (
            "{\"query\":1,\"positive\":{\"3\":1e999},\"negative\":2}".into(),
            "column 32: number out of range".into(),
        ),
        (
            "{\"query\":1,\"positive\":{\"3\":1e39},\"negative\":2}".into(),
            "column 32: the value 1e39 is too large for f32".into(),
        ),
        (
            "{\"query\":1,\"positive\":{\"4000000000\":1},\"negative\":2}".into(),
            "column 38: expected the number of a feature, from 1 to 2147483647, found `4000000000`"
                .into(),
        ),
        (
            "{\"query\":1,\"positive\":{\"red\":1},\"negative\":2}".into(),
            "column 31: expected the number of a feature, from 1 to 2147483647, found `red`".into(),
        ),
    ];
    let run = ["update", "m", "-o", "out", "--rows", "train.svm"];
    let quiet = [&run[..], &["--quiet"]].concat();
    for (line, message) in cases {
        // Line 41, behind forty good ones; the last is never reached.
        let stream = format!("{}{line}\n{}", as_ids(&list), as_ids(&list[..1]));
        let said = place.run_with(&quiet, &stream);
        said.refused(&format!("-:41: {message}"));
        assert!(bytes(&place, "out") == want, "{line}");
        // A first line: the model is written as it was.
        let said = place.run_with(&quiet, &line);
        said.refused(&format!("-:1: {message}"));
        assert!(bytes(&place, "out") == before, "{line}");
    }
    let said = place.run_with(&run, &format!("{}x\n", as_ids(&list)));
    let note = "`out` holds what was learned from the 40 triplets before\n";
    let error = "error: -:41: expected a JSON object, found `x`\n";
    assert_eq!((said.code, said.stderr), (2, format!("{note}{error}")));
    place.write("s.jsonl", "{}\n");
    let said = place.run(&["update", "m", "s.jsonl", "-o", "out", "--json"]);
    let error: Value = serde_json::from_str(&said.stderr).expect("JSON");
    assert_eq!(
        error,
        json!({ "error": { "file": "s.jsonl", "line": 1, "message": format!("{shape}, found none") } })
    );
    // More memory than there is: a failure, with its line and the rest kept.
    let huge = "{\"query\":1,\"positive\":{\"2147483647\":1},\"negative\":2}\n";
    let said = place.run_with(&quiet, &format!("{}{huge}", as_ids(&list)));
    let start = "error: -:41: a factor of 2147483647 rows and rank 6 needs 64.0 GiB of memory, ";
    assert!(
        said.code == 1 && said.stderr.starts_with(start),
        "{}",
        said.stderr
    );
    assert!(bytes(&place, "out") == want);
}

#[test]
fn what_cannot_be_updated_is_refused_and_nothing_written() {
    let place = place_with_model();
    let before = place.names();
    place
        .run(&["update", "m", "none.jsonl", "-o", "out"])
        .refused("none.jsonl: cannot read: No such file or directory (os error 2)");
    place
        .run(&["update", "none", "-o", "out"])
        .refused("none: cannot read: No such file or directory (os error 2)");
    place
        .run(&["update", "m", "-o", "train.svm", "--rows", "train.svm"])
        .refused("train.svm: cannot write: this file is read by the same command");
    place
        .run(&["update", "m", "-o", "out", "--save-every", "0"])
        .refused("--save-every must be at least 1 example");
    place
        .run(&["update", "m", "-o", "-", "--save-every", "5"])
        .refused("--save-every needs a file, not `-o -`");
    place
        .run(&["update", "m", "-o", "out", "--step-size", "0"])
        .refused("the step size must be above 0, found 0");
    place
        .run(&["update", "m", "-o", "out", "--rows", "-"])
        .refused("`-` stands for two inputs, but stdin can be read once");
    place.write("rows.csv", "id,red\na,1\n");
    place
        .run(&["update", "m", "-o", "out", "--rows", "rows.csv"])
        .refused("rows.csv: the model's features are numbers, these rows call theirs by name");
    let id = "{\"query\":1,\"positive\":2,\"negative\":3}\n";
    place
        .run_with(&["update", "m", "-o", "m", "--quiet"], id)
        .refused("-:1: column 10: expected an object of features, found the row id `1` and no rows to look it up in");
    // Another task, by a card that says so.
    let model = bytes(&place, "m");
    let at = |text: &[u8]| model.windows(text.len()).position(|w| w == text);
    let start = at(br#"similarity\""#).expect("the task");
    let mut other = model.clone();
    other[start..start + 10].copy_from_slice(b"completion");
    place.write("other", sealed(other));
    place
        .run(&["update", "other", "-o", "out"])
        .refused("other: the part of the metadata for completion is missing");
    let mut after = place.names();
    after.retain(|name| name != "rows.csv" && name != "other");
    assert_eq!(after, before);
}

fn start(place: &Place, more: &[&str]) -> Child {
    let run = ["update", "m", "--rows", "train.svm"];
    place
        .command(&[&run[..], more].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs")
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A stream that never ends: lines are learned as they come, saves are whole
/// models, and Ctrl-C writes the rest even while the stream is silent.
#[cfg(unix)]
#[test]
fn an_endless_stream_is_saved_on_the_way_and_at_ctrl_c() {
    let place = place_with_model();
    let list = triplets(300..360);
    let update = |output: &str, list: &[[usize; 3]]| {
        let run = ["update", "m", "-o", output, "--rows", "train.svm"];
        good(&place.run_with(&run, &as_ids(list)));
        bytes(&place, output)
    };
    let (fifty, sixty) = (update("fifty", &list[..50]), update("sixty", &list));
    let mut child = start(&place, &["-o", "out", "--save-every", "50", "--json"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(as_ids(&list).as_bytes()).expect("lines");
    // Half of a line that will never be whole.
    stdin.write_all(b"{\"query\":1,").expect("half a line");
    stdin.flush().expect("sent");
    wait_for("a save", || place.path("out").exists());
    assert!(bytes(&place, "out") == fifty);
    // The folder is synced after the file has its name, and ten lines are left to learn.
    std::thread::sleep(Duration::from_millis(500));
    let signalled = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(signalled.expect("kill runs").success());
    let out = child.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(
        (&report["stopped"], &report["steps"]),
        (&json!("interrupted"), &json!(60))
    );
    assert!(bytes(&place, "out") == sixty);
    drop(stdin);
}

/// Killed without warning, the old model or a whole newer one is there.
#[test]
fn a_killed_update_leaves_a_whole_model() {
    let place = place_with_model();
    let before = bytes(&place, "m");
    let mut child = start(&place, &["-o", "m"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    let lines = as_ids(&triplets(300..3000));
    stdin.write_all(lines.as_bytes()).expect("lines");
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    assert!(bytes(&place, "m") == before);

    for pause in [5, 20, 60] {
        let mut child = start(&place, &["-o", "m", "--save-every", "1"]);
        let mut stdin = child.stdin.take().expect("a pipe");
        let lines = as_ids(&triplets(300..900));
        stdin.write_all(lines.as_bytes()).expect("lines");
        std::thread::sleep(Duration::from_millis(pause));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        good(&place.run(&["info", "m"]));
    }
}
