use serde_json::json;

use crate::support::Place;

const NEWS: &str = r#"{"id":"a","label":"fruit","split":"train","text":"Apple and banana: apple pie"}
{"id":"b","label":"car","split":"train","text":"engine, banana. wheel!"}
{"id":"c","label":"car","split":"train","text":"engine wheel pie"}
{"id":"d","label":"fruit","split":"test","text":"An apple engine"}
"#;

#[test]
fn a_vocabulary_is_fitted_and_used_again() {
    let place = Place::new();
    place.write("n.jsonl", NEWS);
    let said = place.run(&[
        "vectorize",
        "n.jsonl",
        "-o",
        "train.svm",
        "--where",
        "split=train",
        "--fit",
        "v.json",
        "--json",
    ]);
    let want = json!({
        "format": 1, "rows": 3, "features": 4, "nnz": 8, "skipped": 1, "output": "train.svm",
    });
    assert_eq!(said.json(), want);
    let vocabulary: serde_json::Value = serde_json::from_str(&place.read("v.json")).expect("JSON");
    assert_eq!(
        vocabulary,
        json!({
            "format": 1, "documents": 3, "tf": "log", "strip": [], "classes": ["car", "fruit"],
            "terms": ["engine", "wheel", "banana", "pie"], "df": [2, 2, 2, 2],
        })
    );
    let said = place.run(&[
        "vectorize",
        "n.jsonl",
        "-o",
        "-",
        "--where",
        "split=test",
        "--vocabulary",
        "v.json",
        "--id",
        "id",
    ]);
    let note = "1 rows, 4 features, 1 non-zeros, 3 documents left out\n";
    let got = (said.code, said.stdout.as_str(), said.stderr.as_str());
    assert_eq!(got, (0, "1 1:1 # d\n", note));
}

#[test]
fn stdin_is_fitted_too() {
    let place = Place::new();
    let arguments = [
        "vectorize",
        "-",
        "-o",
        "o.svm.gz",
        "--fit",
        "v.json",
        "--features",
        "1",
        "--tf",
        "log",
        "--min-df",
        "1",
        "--strip",
        "headers,quotes",
        "--label",
        "none",
        "-q",
    ];
    let text = "{\"text\":\"From: x\\n\\n> old\\nnew new\"}\n{\"text\":\"no header\"}\n";
    let said = place.run_with(&arguments, text);
    let want = "2 rows, 1 features, 1 non-zeros, 0 documents left out\n";
    assert_eq!(
        (said.code, said.stdout.as_str(), said.stderr.as_str()),
        (0, want, "")
    );
    assert_eq!(place.read("o.svm.gz"), " 1:1\n \n");
    assert!(
        place
            .read("v.json")
            .contains("\"strip\":[\"headers\",\"quotes\"]")
    );
}

#[test]
fn bad_input_changes_nothing() {
    let place = Place::new();
    place.write("o.svm", "old");
    place.write("v.json", "old");
    place.write("empty.jsonl", "\n");
    place.write("cut.jsonl", &NEWS[..NEWS.len() - 9]);
    place.write("n.jsonl", NEWS);
    place.write("newer.json", "{\"format\":2}");
    place.write(
        "words.json",
        "{\"format\":1,\"documents\":1,\"tf\":\"raw\",\"strip\":[],\"terms\":[\"pie\"],\"df\":[1]}",
    );
    let fit = |file: &str, more: &[&str]| {
        let first = ["vectorize", file, "-o", "o.svm", "--fit", "v.json"];
        place.run(&[&first[..], more].concat())
    };
    fit("none.jsonl", &[])
        .refused("none.jsonl: cannot read: No such file or directory (os error 2)");
    fit("empty.jsonl", &[]).refused("empty.jsonl: no documents");
    fit("cut.jsonl", &[])
        .refused("cut.jsonl:4: column 58: EOF while parsing a string; is the line cut short?");
    fit("n.jsonl", &["--text", "body"]).refused("n.jsonl:1: expected a field `body`");
    fit("n.jsonl", &["--id", "name"]).refused("n.jsonl:1: expected a field `name`");
    fit("n.jsonl", &["--where", "split=dev"])
        .refused("n.jsonl: no document has the value `dev` in `split`");
    fit("n.jsonl", &["--min-df", "9"])
        .refused("n.jsonl: no word stands in at least 9 of the 4 documents");
    let apply = |vocabulary: &str| {
        place.run(&[
            "vectorize",
            "n.jsonl",
            "-o",
            "o.svm",
            "--vocabulary",
            vocabulary,
        ])
    };
    apply("none.json").refused("none.json: cannot read: No such file or directory (os error 2)");
    apply("newer.json")
        .refused("newer.json: vocabulary format 2 is not supported: this version reads format 1");
    apply("words.json")
        .refused("n.jsonl:1: label `fruit` is no number, and the vocabulary has no classes");
    assert_eq!(
        (place.read("o.svm"), place.read("v.json")),
        ("old".into(), "old".into())
    );
    let said = place.run(&[
        "vectorize",
        "n.jsonl",
        "-o",
        "x/o",
        "--vocabulary",
        "words.json",
    ]);
    said.refused("x/o: cannot write: its folder does not exist");
    place
        .run(&["vectorize", "n.jsonl", "-o", "-", "--fit", "-"])
        .refused("cannot write: `-` stands for two outputs");
    assert_eq!(place.names().len(), 7);
}

#[test]
fn errors_are_json_when_asked() {
    let place = Place::new();
    place.write("n.jsonl", "{\"text\":1}\n[]\n");
    let said = place.run(&["--json", "vectorize", "n.jsonl", "-o", "o", "--fit", "v"]);
    let want = json!({"error": {
        "message": "expected a JSON object, found `[]`", "file": "n.jsonl", "line": 2,
    }});
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&said.stderr).expect("JSON"),
        want
    );
}
