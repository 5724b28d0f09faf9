//! Parquet and Arrow files, made by pyarrow (`make.py`): each gives the same bytes as the same
//! table in text.

mod damage;
#[path = "../support/mod.rs"]
mod support;

use rankfold::data::text::Documents;
use rankfold::data::{Features, read_with};
use std::path::{Path, PathBuf};
use support::Place;

pub fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parquet/files")
}

/// A place with these files.
fn place(names: &[&str]) -> Place {
    let place = Place::new();
    for name in names {
        let bytes = std::fs::read(files().join(name)).expect("a file of the tests");
        place.write(name, bytes);
    }
    place
}

/// Runs a command on each of the files, of which the first is the oracle: what it writes to
/// `out` must have the same bytes.
#[track_caller]
fn same(names: &[&str], command: impl Fn(&str) -> Vec<String>) {
    let place = place(names);
    let mut want = None;
    for name in names {
        let words = command(name);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = place.run(&words);
        assert_eq!(said.code, 0, "{name}: {}", said.stderr);
        let got = std::fs::read(place.path("out")).expect("an output");
        match &want {
            None => want = Some(got),
            Some(want) => assert!(*want == got, "{name} gives other bytes"),
        }
    }
}

fn words(command: &str, data: &str) -> Vec<String> {
    let command = command.replace("DATA", data);
    command.split_whitespace().map(str::to_owned).collect()
}

const ROWS: [&str; 13] = [
    "rows.csv",
    "rows-none.parquet",
    "rows-snappy.parquet",
    "rows-gzip.parquet",
    "rows-zstd.parquet",
    "rows-lz4.parquet",
    "rows-v2.parquet",
    "rows-dictionary.parquet",
    "rows-uncompressed.feather",
    "rows-lz4.feather",
    "rows-zstd.feather",
    "rows-stream.arrow",
    "rows-dictionary.arrow",
];

#[test]
fn rows_of_every_encoding_give_the_model_of_the_table() {
    same(&ROWS, |data| {
        words(
            "train similarity DATA -o out --rank 2 --steps 200 --seed 1",
            data,
        )
    });
    same(&["rows.csv", "rows-view.arrow"], |data| {
        words("train metric DATA -o out --rank 2 --seed 1", data)
    });
}

#[test]
fn ratings_choices_and_tasks_give_the_model_of_the_table() {
    let ratings = ["ratings.csv", "ratings.parquet", "ratings.arrow"];
    same(&ratings, |data| {
        words("train completion DATA -o out --rank 2 --seed 1", data)
    });
    same(&ratings, |data| {
        words("train recommend DATA -o out --rank 2 --seed 1", data)
    });
    same(&["tasks.csv", "tasks.parquet"], |data| {
        words("train multitask DATA -o out --rank 1 --seed 1", data)
    });
}

#[test]
fn documents_give_the_rows_of_json_lines() {
    same(&["texts.jsonl", "texts.parquet"], |data| {
        words("vectorize DATA -o out --fit v.json --min-df 1", data)
    });
}

#[test]
fn a_stream_of_ratings_is_learned_from() {
    let place = place(&["ratings.csv", "ratings.parquet"]);
    let said = place.run(&[
        "train",
        "completion",
        "ratings.csv",
        "-o",
        "m",
        "--rank",
        "2",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    for (data, out) in [("ratings.csv", "a"), ("ratings.parquet", "b")] {
        let said = place.run(&["update", "m", data, "-o", out]);
        assert_eq!(said.code, 0, "{}", said.stderr);
    }
    let bytes = |name: &str| std::fs::read(place.path(name)).expect("a model");
    assert!(bytes("a") == bytes("b"));
}

#[test]
fn a_split_writes_tables() {
    let place = place(&["ratings.csv", "ratings.parquet", "ratings.arrow"]);
    let text = place.run(&["split", "ratings.csv", "-o", "t", "--test", "0.2"]);
    let columns = place.run(&["split", "ratings.arrow", "-o", "c", "--test", "0.2"]);
    assert_eq!((text.code, columns.code), (0, 0), "{}", columns.stderr);
    let ids = |name: &str| {
        let text = place.read(name);
        let id = |line: &str| line.split(',').take(2).collect::<Vec<_>>().join(",");
        text.lines().map(id).collect::<Vec<_>>()
    };
    assert_eq!(ids("t.test.csv"), ids("c.test.csv"));
    assert_eq!(ids("t.train.csv"), ids("c.train.csv"));
    let last = [
        "split",
        "ratings.parquet",
        "-o",
        "l",
        "--last",
        "1",
        "--by",
        "userId",
    ];
    let said = place.run(&last);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(place.read("l.test.csv").lines().count(), 21);
}

#[test]
fn files_of_any_name_and_from_pipes_are_read() {
    let place = place(&["ratings.parquet"]);
    let bytes = std::fs::read(place.path("ratings.parquet")).expect("a file");
    place.write("ratings.bin", &bytes);
    let train = |data: &str, out: &str| {
        let words = [
            "train",
            "completion",
            data,
            "-o",
            out,
            "--rank",
            "2",
            "--format",
            "parquet",
        ];
        let said = place.run(&words);
        assert_eq!(said.code, 0, "{}", said.stderr);
        std::fs::read(place.path(out)).expect("a model")
    };
    assert!(train("ratings.parquet", "a") == train("ratings.bin", "b"));
    let words = [
        "train",
        "completion",
        "-",
        "-o",
        "c",
        "--rank",
        "2",
        "--format",
        "parquet",
    ];
    let said = place.run_with_bytes(&words, &bytes);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(train("ratings.parquet", "a") == std::fs::read(place.path("c")).expect("a model"));
}

/// Runs on a file of the tests, which is refused with this message.
#[track_caller]
fn refused(command: &str, name: &str, message: &str) {
    let place = place(&[name]);
    let words = words(command, name);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = place.run(&words);
    assert_eq!(said.code, 2, "{name}: {}", said.stderr);
    let want = format!("error: {name}: {message}");
    assert!(
        said.stderr.contains(&want),
        "expected {want}\n   found {}",
        said.stderr
    );
}

#[test]
fn what_cannot_be_read_is_refused_in_words() {
    let similarity = "train similarity DATA -o out --rank 1 --steps 10";
    refused(
        "train completion DATA -o out",
        "hole.parquet",
        "row 5: expected a rating, found ``",
    );
    refused(
        similarity,
        "some-lists.parquet",
        "column `tags` holds lists, expected numbers; --drop leaves it out",
    );
    refused(
        similarity,
        "lists.parquet",
        "no column can be read: `tags` holds lists",
    );
    refused(similarity, "empty.parquet", "no rows");
    refused(
        similarity,
        "old.feather",
        "cannot read this Arrow file: it is of version 1 of Feather, expected version 2",
    );
    refused(
        similarity,
        "rows-brotli.parquet",
        "cannot read this Parquet file: ",
    );
    refused(
        "train similarity DATA -o out --no-header",
        "rows-none.parquet",
        "--no-header does not apply: the file names its columns",
    );
    refused(
        "train similarity DATA -o out --label nome",
        "rows-none.parquet",
        "no column is called `nome`: found `id`, `label`, `a`, `b`, `c`, `d`, `e`, `f`; see --label",
    );
}

#[test]
fn notes_name_what_is_left_out() {
    let place = place(&["ratings.parquet", "tasks.parquet"]);
    let said = place.run(&[
        "train",
        "completion",
        "ratings.parquet",
        "-o",
        "out",
        "--rank",
        "2",
    ]);
    let note = "ratings.parquet: column `genres` holds lists and is left out";
    assert!(said.stderr.contains(note), "{}", said.stderr);
    let said = place.run(&[
        "train",
        "multitask",
        "tasks.parquet",
        "-o",
        "out",
        "--rank",
        "1",
    ]);
    let note =
        "tasks.parquet: column `__index_level_0__` holds the index of pandas and is left out";
    assert!(said.stderr.contains(note), "{}", said.stderr);
}

#[test]
fn names_may_be_numbers_and_lists_may_be_dropped() {
    let names = |file: &str, drop: &[&str]| {
        let mut source = Documents::new(files().join(file));
        source.drop = drop.iter().map(|name| (*name).to_owned()).collect();
        let read = read_with::<f32>(&source, None).expect("a table");
        match read.features {
            Features::Columns(names) => names.iter().map(str::to_owned).collect::<Vec<_>>(),
            other => panic!("expected columns, found {other:?}"),
        }
    };
    assert_eq!(names("numbers.parquet", &[]), ["0", "1"]);
    assert_eq!(names("some-lists.parquet", &["tags"]), ["a"]);
}
