use serde_json::json;

use crate::support::Place;

const RATINGS: &str = "user,item,rating\n1,1,5\n1,2,4\n2,1,3\n2,2,2\n";

#[test]
fn a_share_of_the_rows_is_the_test_part() {
    let place = Place::new();
    place.write("r.csv", RATINGS);
    let said = place.run(&["split", "r.csv", "-o", "p", "--test", "0.5", "--by", "user"]);
    let want = "p.train.csv\t2 rows\np.test.csv\t2 rows\n";
    assert_eq!(
        (said.code, said.stdout.as_str(), said.stderr.as_str()),
        (0, want, "")
    );
    let (train, test) = (place.read("p.train.csv"), place.read("p.test.csv"));
    let mut rows: Vec<&str> = train.lines().chain(test.lines()).collect();
    rows.sort_unstable();
    rows.dedup();
    let mut all: Vec<&str> = RATINGS.lines().collect();
    all.sort_unstable();
    assert_eq!(rows, all);
    assert_eq!(test.lines().filter(|l| l.starts_with("1,")).count(), 1);
}

#[test]
fn stdin_is_split_when_its_format_is_named() {
    let place = Place::new();
    let arguments = ["split", "-", "-o", "p", "--where", "user=2", "--json"];
    let want = "{\"error\":{\"file\":null,\"line\":null,\"message\":\"stdin has no extension: the format must be named with `--format`\"}}\n";
    let said = place.run_with(&arguments, RATINGS);
    assert_eq!((said.code, said.stderr.as_str()), (2, want));
    let said = place.run_with(
        &[&arguments[..], &["--format", "csv.zst"]].concat(),
        RATINGS,
    );
    assert_eq!(
        said.json(),
        json!({
            "format": 1, "rows": 4, "train_rows": 2, "test_rows": 2,
            "train": "p.train.csv.zst", "test": "p.test.csv.zst",
        })
    );
    assert_eq!(
        place.read("p.test.csv.zst"),
        "user,item,rating\n2,1,3\n2,2,2\n"
    );
}

#[test]
fn bad_input_changes_nothing() {
    let place = Place::new();
    place.write("p.train.csv", "old");
    place.write("p.test.csv", "old");
    place.write("empty.csv", "");
    place.write("r.csv", RATINGS);
    place.write("quote.csv", "a\n\"b\n");
    rankfold::data::write_atomically(place.path("cut.csv.gz"), |w| {
        (0..99_999u64).try_for_each(|i| writeln!(w, "{}", i * i * i % 7919))
    })
    .expect("a file is written");
    let whole = std::fs::read(place.path("cut.csv.gz")).expect("a file is there");
    place.write("cut.csv.gz", &whole[..whole.len() / 2]);
    let split = |file: &str| place.run(&["split", file, "-o", "p", "--test", "0.5"]);

    split("none.csv").refused("none.csv: cannot read: No such file or directory (os error 2)");
    split("empty.csv").refused("empty.csv: no rows");
    split("quote.csv").refused("quote.csv:2: a quote is opened and never closed");
    split("r.xls").refused(
        "r.xls: unknown extension: expected .svm, .csv, .tsv, .jsonl, .mtx or .npy, plain or with .gz or .zst, .parquet, .arrow or .npz; --format names the format of other files",
    );
    for name in ["m.mtx.gz", "m.npy", "m.npz"] {
        split(name).refused(&format!(
            "{name}: cannot split: rows are copied line by line, and here they are no lines; expected .svm, .csv, .tsv, .jsonl or .dat"
        ));
    }
    let said = split("cut.csv.gz");
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.starts_with("error: cut.csv.gz:"),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr
            .ends_with(": the compressed data ends too early\n"),
        "{}",
        said.stderr
    );
    let said = place.run(&["split", "r.csv", "-o", "p", "--test", "0.5", "--by", "task"]);
    said.refused("r.csv: no column is called `task`: expected one of `user`, `item`, `rating`");
    let said = place.run(&["split", "-", "-o", "p", "--format", "../x"]);
    said.refused("unknown format `../x`: expected svm, csv, tsv, jsonl, dat, parquet, arrow, mtx, npy or npz");
    let said = place.run(&["split", "r.csv", "-o", "no/p", "--test", "0.5"]);
    said.refused("no/p.train.csv: cannot write: its folder does not exist");

    assert_eq!(
        (place.read("p.train.csv"), place.read("p.test.csv")),
        ("old".into(), "old".into())
    );
    let names = [
        "cut.csv.gz",
        "empty.csv",
        "p.test.csv",
        "p.train.csv",
        "quote.csv",
        "r.csv",
    ];
    assert_eq!(place.names(), names);
}
