//! What is typed has an effect, or is refused: no option is ignored in silence.

use crate::support::Place;

/// Rows of two classes in the columns of a table with other names, and the same rows in
/// the usual columns.
fn place() -> Place {
    let place = Place::new();
    let mut other = String::from("name,kind,part,label,a,b\n");
    let mut usual = String::from("id,label,a,b\n");
    let mut lines = String::new();
    for i in 0..24 {
        let (kind, part) = (["x", "y"][i % 2], ["train", "test"][usize::from(i >= 16)]);
        let (a, b) = ((i % 2) as f64 + 0.01 * i as f64, 0.1 * (i % 5) as f64);
        other += &format!("r{i},{kind},{part},spare,{a},{b}\n");
        lines += &format!(
            "{{\"name\":\"r{i}\",\"kind\":\"{kind}\",\"part\":\"{part}\",\"row\":{{\"a\":{a},\"b\":{b}}}}}\n"
        );
        if i < 16 {
            usual += &format!("r{i},{kind},{a},{b}\n");
        }
    }
    place.write("other.csv", other.replace(",part,", ",split,"));
    place.write("other.jsonl", &lines);
    place.write("usual.csv", usual);
    place.write("rows.svm", "0 1:1\n0 1:2\n1 2:1\n1 2:2\n");
    place.write(
        "ratings.csv",
        "user,item,rating\na,x,1\na,y,2\nb,x,3\nb,y,5\nc,x,2\n",
    );
    place.write("tasks.csv", "task,target,a\ns,1,1\ns,2,2\nt,3,1\nt,5,2\n");
    place
}

fn train(place: &Place, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let said = place.run(&[&["train"], &words[..], &["--quiet"]].concat());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{line}");
}

#[test]
fn rows_may_be_chosen_and_their_columns_named() {
    let place = place();
    let run = "--rank 1 --steps 300 --step-size 0.1";
    let named = "--label kind --id name --where";
    train(&place, &format!("similarity usual.csv -o m {run}"));
    train(
        &place,
        &format!("similarity other.csv -o n {run} {named} split=train"),
    );
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert!(
        bytes("m") == bytes("n"),
        "the same rows give the same model"
    );
    train(
        &place,
        &format!("similarity other.jsonl -o j {run} {named} part=train"),
    );

    let eval = |model: &str, rest: &str| {
        let words: Vec<&str> = rest.split(' ').collect();
        place.run(&[&["eval", model], &words[..]].concat())
    };
    let rows = |model: &str, rest: String| eval(model, &(rest + " --json")).json()["rows"].clone();
    assert_eq!(rows("m", format!("other.csv {named} split=test")), 8);
    assert_eq!(rows("j", format!("other.jsonl {named} part=test")), 8);
    let line = "neighbors m other.csv --label kind --id name --query r3 -k 1";
    let said = place.run(&line.split(' ').collect::<Vec<_>>());
    assert!(said.stdout.starts_with("r3\t"), "{}", said.stdout);

    // Other files need not have these columns: validation data, objects.
    let valid = format!("similarity other.csv -o v {run} {named} split=train --valid usual.csv");
    train(&place, &valid);

    let refuse = |rest: &str, message: &str| eval("m", rest).refused(message);
    refuse(
        "other.csv --label none",
        "other.csv:1: no column is called `none`: found `name`, `kind`, `split`, `label`, `a`, `b`; see \
         --label",
    );
    refuse(
        "other.csv --id none",
        "other.csv:1: no column is called `none`: found `name`, `kind`, `split`, `label`, `a`, `b`; see \
         --id",
    );
    refuse(
        "other.csv --where none=1",
        "other.csv:1: no column is called `none`",
    );
    refuse(
        "other.csv --label kind --where split=none",
        "other.csv: no row has the value `none` in `split`",
    );
    refuse(
        "other.csv --text body",
        "other.csv: --text applies only to documents: JSON lines or tables, for a model with a vocabulary",
    );
    eval("j", "other.jsonl --id none").refused("other.jsonl:1: expected a field `none`");
    for flag in ["--label kind", "--id name", "--where split=test"] {
        let message = format!(
            "rows.svm: {} applies only to files with names: .csv, .tsv, .jsonl, .parquet and .arrow",
            &flag[..flag.find(' ').unwrap()]
        );
        refuse(&format!("rows.svm {flag}"), &message);
    }
}

#[test]
fn a_default_that_is_typed_where_it_does_not_apply_is_refused() {
    let place = place();
    for (line, message) in [
        (
            "metric usual.csv --learner flat --slack 1",
            "--slack applies only to `--learner itml`",
        ),
        (
            "similarity usual.csv --confidence-r 1",
            "--confidence-r applies only to `aroma-factored` and `aroma-diagonal`",
        ),
        (
            "metric usual.csv --learner flat --retraction uf",
            "--retraction applies only to `--learner polar`",
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let said = place.run(&[&["train"], &words[..], &["-o", "m"]].concat());
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{line}");
        assert!(said.stderr.contains(message), "{line}: {}", said.stderr);
    }
}

/// Each of these was once taken and had no effect.
#[test]
fn options_that_do_not_apply_are_refused() {
    let place = place();
    train(&place, "completion ratings.csv -o ratings --rank 1");
    train(
        &place,
        "multitask tasks.csv -o tasks --rank 1 --regularization 1 --standardize none",
    );
    train(
        &place,
        "similarity usual.csv -o rows --rank 1 --steps 50 --step-size 0.1",
    );
    train(
        &place,
        "similarity usual.csv -o aroma --learner aroma-diagonal --steps 50",
    );
    for line in [
        "eval ratings ratings.csv --where split=test",
        "eval tasks tasks.csv --where split=test",
        "predict tasks tasks.csv --where split=test",
        "eval ratings ratings.csv --label x",
        "eval ratings ratings.csv --id x",
        "eval ratings ratings.csv --text x",
        "eval tasks tasks.csv -k 3",
        "eval rows usual.csv --columns a,b,c",
        "eval tasks tasks.csv --columns a,b,c",
        "neighbors aroma usual.csv --explore 2",
        "train kernel --mds d.txt -o m --precision f32",
        "train kernel --mds d.txt -o m --standardize global",
        "train kernel --mds d.txt -o m --weight tfidf",
        "train kernel --mds d.txt -o m --normalize l2",
        "train metric usual.csv -o m --learner flat --step-size 1",
        "train metric usual.csv -o m --learner flat --slack 2",
        "train metric usual.csv -o m --learner flat --constraints 5",
        "train metric usual.csv -o m --learner flat --retraction qf",
        "train metric usual.csv -o m --learner flat --subspace-weight 0.3",
        "train similarity usual.csv -o m --candidates 5",
        "train similarity usual.csv -o m --confidence-r 2",
        "train similarity usual.csv -o m --aggressiveness 2",
        "train similarity usual.csv -o m --learner oasis --rank 2",
        "train completion ratings.csv -o m --learner bayes --penalty-power 1",
        "train completion ratings.csv -o m --learner bayes --init spectral",
        "train completion ratings.csv -o m --learner bayes --retraction qf",
        "train completion ratings.csv -o m --tolerance NaN",
        "train pairs usual.csv --pairs p.tsv -o m --threads 2",
        "train similarity usual.csv -o m --patience 0",
        "train similarity usual.csv -o m --threads 0",
        "train completion ratings.csv -o m --threads 0",
        "gossip run completion ratings.csv -o m --agents 2 --threads 0",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let said = place.run(&words);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{line}");
        let flag = words
            .iter()
            .rev()
            .find(|word| word.starts_with('-'))
            .unwrap();
        let flag = flag.replace("-k", "--neighbors");
        assert!(said.stderr.contains(&flag), "{line}: {}", said.stderr);
        assert!(!place.path("m").exists(), "{line}");
    }
}
