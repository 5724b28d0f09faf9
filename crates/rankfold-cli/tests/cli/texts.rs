//! Models that keep a vocabulary, and so read texts.

use crate::support::{Place, Said, sealed};

/// Documents of four classes, with ids: words of their class among common ones.
fn documents(count: usize, start: usize) -> String {
    let words = [
        ["engine", "wheel", "brake", "gear"],
        ["orbit", "moon", "rocket", "launch"],
        ["puck", "goal", "skate", "coach"],
        ["court", "police", "crime", "judge"],
    ];
    let common = ["time", "people", "question", "answer", "number", "place"];
    let document = |i: usize| {
        let n = start + i;
        let (class, part) = (n % 4, if n.is_multiple_of(3) { "test" } else { "train" });
        let own = (words[class][n / 4 % 4], words[class][n / 16 % 4]);
        let other = (common[n * n % 6], common[n * 5 / 3 % 6]);
        format!(
            "{{\"id\":\"d{n}\",\"label\":\"class {class}\",\"split\":\"{part}\",\"text\":\"{} {} {} {} {}\"}}\n",
            own.0, other.0, own.1, other.1, other.0
        )
    };
    (0..count).map(document).collect()
}

/// A place with documents, their vocabulary `v.json` and the rows of both parts.
fn place_with_documents() -> Place {
    let place = Place::new();
    place.write("d.jsonl", documents(120, 0));
    for (part, vocabulary) in [("train", "--fit"), ("test", "--vocabulary")] {
        let said = place.run(&[
            "vectorize",
            "d.jsonl",
            "-o",
            &format!("{part}.svm"),
            "--where",
            &format!("split={part}"),
            vocabulary,
            "v.json",
            "--id",
            "id",
        ]);
        assert_eq!(said.code, 0, "{}", said.stderr);
    }
    place
}

fn train(place: &Place, data: &str, model: &str, more: &[&str]) -> Said {
    let run = [
        "train",
        "similarity",
        data,
        "-o",
        model,
        "--rank",
        "4",
        "--steps",
        "2000",
        "--step-size",
        "1",
        "--seed",
        "2",
        "--quiet",
    ];
    place.run(&[&run[..], more].concat())
}

const WITH: [&str; 2] = ["--vocabulary", "v.json"];
const TRAIN: [&str; 2] = ["--where", "split=train"];
const TEST: [&str; 2] = ["--where", "split=test"];

fn bytes(place: &Place, name: &str) -> Vec<u8> {
    std::fs::read(place.path(name)).expect("a file is there")
}

#[test]
fn documents_and_their_rows_give_the_same_model_and_the_same_answers() {
    for precision in ["f32", "f64"] {
        let place = place_with_documents();
        let precise = [&WITH[..], &["--precision", precision]].concat();
        let from_rows = train(&place, "train.svm", "rows", &precise);
        let from_text = train(&place, "d.jsonl", "text", &[&precise[..], &TRAIN].concat());
        assert_eq!(
            (from_rows.code, from_text.code),
            (0, 0),
            "{}",
            from_text.stderr
        );
        assert!(
            bytes(&place, "rows") == bytes(&place, "text"),
            "{precision}"
        );

        let both = |run: &[&str]| {
            let of_rows: Vec<&str> = run
                .iter()
                .map(|&a| if a == "DATA" { "test.svm" } else { a })
                .collect();
            let of_text: Vec<&str> = run
                .iter()
                .map(|&a| if a == "DATA" { "d.jsonl" } else { a })
                .collect();
            let rows = place.run(&of_rows);
            let text = place.run(&[&of_text[..], &TEST].concat());
            assert_eq!((text.code, text.stderr.as_str()), (0, ""));
            (rows, text)
        };
        let (rows, text) = both(&["eval", "text", "DATA", "--json"]);
        assert_eq!(rows.json(), text.json());
        assert!(
            text.json()["metrics"]["map"].as_f64()
                > text.json()["baseline"]["metrics"]["map"].as_f64()
        );
        let (rows, text) = both(&["neighbors", "text", "DATA", "-k", "3"]);
        assert_eq!(rows.stdout, text.stdout);
        assert!(text.stdout.starts_with("d0\t1\td"), "{}", text.stdout);
        place.write("pairs.txt", "d0 d12\nd3 d0\n");
        let (rows, text) = both(&["predict", "text", "pairs.txt", "--rows", "DATA"]);
        assert_eq!(rows.stdout, text.stdout);
        both(&["transform", "text", "DATA", "-o", "p.csv"]);
        let points = place.read("p.csv");
        place.run(&["transform", "text", "test.svm", "-o", "q.csv"]);
        assert_eq!(points, place.read("q.csv"));
    }
}

#[test]
fn a_text_finds_its_neighbors() {
    let place = place_with_documents();
    train(&place, "d.jsonl", "m", &[&WITH[..], &TRAIN].concat());
    let run = ["neighbors", "m", "d.jsonl", "-k", "9"];
    let ask = |more: &[&str]| place.run(&[&run[..], more].concat());
    let text = "The orbit of a Rocket";
    let said = ask(&["--query-text", text]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert_eq!(said.stdout.lines().count(), 9);
    for line in said.stdout.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!(fields[0], text);
        let number: usize = fields[2][1..].parse().expect("an id");
        assert_eq!(number % 4, 1, "{line}");
    }
    // Rows will do as well, and queries do not see each other.
    let rows = ["neighbors", "m", "train.svm", "-k", "9", "--query-text"];
    let alone = place.run(&[&rows[..], &[text]].concat()).stdout;
    let more = ["--query-text", "police", "--query", "d5"];
    let several = place.run(&[&rows[..], &[text], &more[..]].concat()).stdout;
    assert!(several.contains(&alone), "{alone}\n{several}");
    assert_eq!(several.lines().count(), 27);
    assert!(several.starts_with("d5\t1\t"), "{several}");
    let json = ask(&["--query-text", text, "--json"]).json();
    assert_eq!(json["queries"][0]["query"], text);
    assert_eq!(
        json["queries"][0]["neighbors"].as_array().map(Vec::len),
        Some(9)
    );

    ask(&["--query-text", "nothing known"])
        .refused("no word of `nothing known` is in the vocabulary of the model");
    ask(&["--query-text", "two\tmoons on the moon"]).refused(
        "d.jsonl: the id `two\\tmoons on the moon` has a tab or a line break, which lines cannot hold: use --json",
    );
    train(&place, "train.svm", "plain", &[]);
    place
        .run(&["neighbors", "plain", "train.svm", "--query-text", text])
        .refused("the model has no vocabulary to read texts with: train it with --vocabulary");
}

#[test]
fn checkpoints_keep_the_vocabulary() {
    let place = place_with_documents();
    let run = |model: &str, more: &[&str]| {
        let said = train(
            &place,
            "d.jsonl",
            model,
            &[&WITH[..], &TRAIN, more].concat(),
        );
        assert_eq!(said.code, 0, "{}", said.stderr);
    };
    run("whole", &[]);
    run("a", &["--checkpoint", "ck", "--checkpoint-every", "900"]);
    let info = |name: &str| place.run(&["info", name, "--json"]).stdout;
    let terms = place.read("v.json").matches("\",\"").count();
    assert!(terms > 16);
    for name in ["whole", "ck"] {
        let info: serde_json::Value = serde_json::from_str(&info(name)).expect("JSON");
        assert_eq!(info["features"], "terms");
        assert_eq!(info["vocabulary"], info["shape"][0]);
    }
    run("b", &["--resume", "ck"]);
    assert!(bytes(&place, "whole") == bytes(&place, "a"));
    assert!(bytes(&place, "whole") == bytes(&place, "b"));
    let found = place.run(&["eval", "ck", "d.jsonl", "--json"]);
    assert_eq!(found.json()["rows"], 120);
    train(&place, "train.svm", "c", &["--resume", "ck"])
        .refused("ck: the checkpoint was made with another vocabulary");
    let plain = ["--checkpoint", "ck2"];
    assert_eq!(train(&place, "train.svm", "c", &plain).code, 0);
    train(
        &place,
        "train.svm",
        "c",
        &[&WITH[..], &["--resume", "ck2"]].concat(),
    )
    .refused("ck2: the checkpoint was made without a vocabulary");
}

#[test]
fn fields_may_have_other_names_and_validation_may_be_text() {
    let place = place_with_documents();
    let renamed = |text: String| {
        let text = text
            .replace("\"text\"", "\"body\"")
            .replace("\"label\"", "\"topic\"");
        text.replace("\"id\"", "\"key\"")
    };
    place.write("n.jsonl", renamed(documents(120, 0)));
    place.write("v.jsonl", documents(60, 300));
    place.write("vn.jsonl", renamed(documents(60, 300)));
    let names = ["--text", "body", "--label", "topic", "--id", "key"];
    let more = [&WITH[..], &TRAIN].concat();
    let usual = train(
        &place,
        "d.jsonl",
        "a",
        &[&more[..], &["--valid", "v.jsonl"]].concat(),
    );
    assert_eq!((usual.code, usual.stderr.as_str()), (0, ""));
    let other = [&more[..], &names, &["--valid", "vn.jsonl"]].concat();
    assert_eq!(train(&place, "n.jsonl", "b", &other).code, 0);
    assert!(bytes(&place, "a") == bytes(&place, "b"));
    let eval = |data: &str, more: &[&str]| {
        let run = ["eval", "a", data, "--json"];
        place.run(&[&run[..], more].concat())
    };
    assert_eq!(eval("n.jsonl", &names).json(), eval("d.jsonl", &[]).json());
    // Classes that the vocabulary does not know are as good as others.
    place.write("new.jsonl", documents(120, 0).replace("class", "new class"));
    assert_eq!(eval("new.jsonl", &[]).json(), eval("d.jsonl", &[]).json());
}

#[test]
fn what_is_refused() {
    let place = place_with_documents();
    place.write("wide.svm", "1 1:1\n0 99:1 # last\n");
    place.write("t.csv", "label,a\n1,1\n");
    place.write("m", "old");
    train(&place, "wide.svm", "m", &WITH)
        .refused("wide.svm: row `last` has feature 99, the vocabulary has 22 terms");
    train(&place, "t.csv", "m", &WITH)
        .refused("t.csv:1: no column is called `text`: found `label`, `a`; see --text");
    train(&place, "train.svm", "m", &[&WITH[..], &TRAIN].concat())
        .refused("train.svm: --where applies only to files with names: .csv, .tsv, .jsonl, .parquet and .arrow");
    // Without the vocabulary the documents are taken for rows.
    train(&place, "d.jsonl", "m", &TRAIN).refused(
        "d.jsonl:2: expected a field `row` or `embedding`, found `id`, `label`, `split`, `text`",
    );
    train(&place, "d.jsonl", "m", &["--vocabulary", "d.jsonl"])
        .refused("d.jsonl: not a vocabulary: missing field `format` at line 1 column 82");
    train(
        &place,
        "d.jsonl",
        "m",
        &[&WITH[..], &["--text", "body"]].concat(),
    )
    .refused("d.jsonl:1: expected a field `body`");
    train(
        &place,
        "d.jsonl",
        "m",
        &[&WITH[..], &["--label", "none"]].concat(),
    )
    .refused("d.jsonl: row `d0` has 0 labels, expected exactly one");
    train(&place, "d.jsonl", "v.json", &WITH)
        .refused("v.json: cannot write: this file is read by the same command");
    assert_eq!(bytes(&place, "m"), b"old");

    // A damaged vocabulary in a model.
    assert_eq!(train(&place, "d.jsonl", "m", &WITH).code, 0);
    let model = bytes(&place, "m");
    let at = |text: &[u8]| model.windows(text.len()).position(|w| w == text);
    let at = at(b"\"terms\":[\"").expect("a vocabulary in the model") + 10;
    let mut damaged = model.clone();
    damaged[at] = b'"';
    place.write("damaged", sealed(damaged));
    let said = place.run(&["eval", "damaged", "d.jsonl"]);
    assert_eq!(said.code, 2);
    let start = "error: damaged: not a vocabulary: ";
    assert!(said.stderr.starts_with(start), "{}", said.stderr);
}

/// Ids of a stream name documents as they name rows, and terms may be given by
/// themselves or by number.
#[test]
fn streams_name_documents() {
    let place = place_with_documents();
    let said = train(&place, "train.svm", "m", &WITH);
    assert_eq!(said.code, 0, "{}", said.stderr);
    place.write(
        "s.jsonl",
        "{\"query\":\"d1\",\"positive\":\"d5\",\"negative\":\"d2\"}\n\
         {\"query\":{\"engine\":1},\"positive\":\"d4\",\"negative\":{\"orbit\":0.5,\"time\":1}}\n",
    );
    for (rows, model) in [("d.jsonl", "a"), ("train.svm", "b")] {
        let where_ = if rows == "d.jsonl" { &TRAIN[..] } else { &[] };
        let run = [
            "update", "m", "s.jsonl", "--rows", rows, "-o", model, "--quiet",
        ];
        let said = place.run(&[&run[..], where_].concat());
        assert_eq!(said.code, 0, "{rows}: {}", said.stderr);
    }
    assert!(bytes(&place, "a") == bytes(&place, "b"));
    place.write(
        "bad.jsonl",
        "{\"query\":{\"zebra\":1},\"positive\":\"d4\",\"negative\":\"d2\"}\n",
    );
    let said = place.run(&["update", "m", "bad.jsonl", "--rows", "train.svm", "-o", "c"]);
    assert_eq!(said.code, 2);
    let part = "expected a term of the model's vocabulary or its number, found `zebra`";
    assert!(said.stderr.contains(part), "{}", said.stderr);
}
