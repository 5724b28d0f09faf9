//! `update` takes the format of training as well as JSON lines: both give the same bytes.

use crate::support::Place;

/// Rows of two classes, some triplets, pairs, constraints and ratings.
fn place() -> Place {
    let place = Place::new();
    let mut rows = "id,label,a,b,c\n".to_owned();
    for i in 0..24 {
        let class = i % 2;
        let x = |j: i32| f64::from((7 * i + 5 * j) % 11) / 10.0;
        rows += &format!(
            "r{i},{class},{},{},{}\n",
            x(1) + f64::from(class),
            x(2),
            x(3)
        );
    }
    place.write("rows.csv", rows);
    let svm = |from: i32| -> String {
        let row = |i: i32| format!("{} 1:{} {}:1\n", i % 3, i % 5, 2 + i % 3);
        (from..from + 30).map(row).collect()
    };
    place.write("rows.svm", svm(0));
    place.write("more.svm", svm(7));
    let mut ratings = "userId,movieId,rating\n".to_owned();
    for i in 0..90 {
        ratings += &format!("u{},m{},{}\n", i % 9, i * 7 % 11, 1 + i * i % 5);
    }
    place.write("ratings.csv", ratings);
    place
}

fn run(place: &Place, command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let said = place.run(&words);
    assert_eq!(said.code, 0, "{command}: {}", said.stderr);
}

#[track_caller]
fn same(place: &Place, model: &str, options: &str, json: (&str, &str), plain: (&str, &str)) {
    let mut bytes = Vec::new();
    for (file, text) in [json, plain] {
        if !text.is_empty() {
            place.write(file, text);
        }
        run(
            place,
            &format!("update {model} {file} -o new.st --quiet {options}"),
        );
        bytes.push(std::fs::read(place.path("new.st")).unwrap());
    }
    assert!(bytes[0] == bytes[1], "{} and {}", json.0, plain.0);
    assert!(bytes[0] != std::fs::read(place.path(model)).unwrap());
}

#[test]
fn ids_are_separated_as_in_training() {
    let place = place();
    let seed = "--rank 2 --seed 1 --quiet";
    run(
        &place,
        &format!("train similarity rows.csv -o s.st --steps 200 {seed}"),
    );
    let triplets = (
        "t.jsonl",
        "{\"query\":\"r0\",\"positive\":\"r2\",\"negative\":\"r3\"}\n{\"query\":\"r1\",\"positive\":\"r3\",\"negative\":\"r4\"}\n",
    );
    same(
        &place,
        "s.st",
        "--rows rows.csv",
        triplets,
        ("t.txt", "r0 r2 r3\n\nr1\tr3\tr4\n"),
    );

    place.write(
        "known.csv",
        "left,right,value\nr0,r1,2\nr2,r3,1\nr4,r5,3\nr1,r6,0\nr7,r9,2\n",
    );
    run(
        &place,
        &format!("train pairs rows.csv --pairs known.csv -o p.st --epochs 5 {seed}"),
    );
    let pairs = (
        "p.jsonl",
        "{\"left\":\"r0\",\"right\":\"r1\",\"value\":1.5}\n",
    );
    same(
        &place,
        "p.st",
        "--rows rows.csv",
        pairs,
        ("p.csv", "Left,right,value\nr0,r1,1.5\n"),
    );

    run(
        &place,
        &format!("train metric rows.csv -o m.st --iterations 3 {seed}"),
    );
    let known = (
        "d.jsonl",
        "{\"left\":\"r0\",\"right\":\"r1\",\"same\":true}\n{\"left\":\"r0\",\"right\":\"r3\",\"at_least\":4}\n",
    );
    same(
        &place,
        "m.st",
        "--rows rows.csv",
        known,
        ("d.txt", "r0 r1 same\nr0 r3 >= 4\n"),
    );
}

#[test]
fn labelled_rows_and_ratings_are_files_of_training() {
    let place = place();
    let columns = "--columns userId,movieId,rating";
    run(
        &place,
        "train ranking rows.svm -o r.st --rank 2 --epochs 3 --seed 1 --init zero --quiet",
    );
    let line = |i: i32| {
        let label = i % 3;
        format!(
            "{{\"row\":{{\"1\":{},\"{}\":1}},\"labels\":[\"{label}\"]}}\n",
            i % 5,
            2 + i % 3
        )
    };
    let lines: String = (7..37).map(line).collect();
    same(&place, "r.st", "", ("r.jsonl", &lines), ("more.svm", ""));

    run(
        &place,
        &format!("train completion ratings.csv -o c.st --rank 2 --quiet {columns}"),
    );
    let new = "userId,movieId,rating\nu1,m0,5\nnew,m3,2\n";
    let lines = "{\"userId\":\"u1\",\"movieId\":\"m0\",\"rating\":5}\n{\"userId\":\"new\",\"movieId\":\"m3\",\"rating\":2}\n";
    same(&place, "c.st", columns, ("c.jsonl", lines), ("c.csv", new));
}

#[test]
fn bad_lines_of_ids_are_told_exactly() {
    let place = place();
    run(
        &place,
        "train similarity rows.csv -o s.st --rank 2 --steps 50 --quiet",
    );
    place.write("t.txt", "r0 r1\n");
    let update = [
        "update", "s.st", "t.txt", "-o", "x.st", "--rows", "rows.csv", "--quiet",
    ];
    let said = place.run(&update);
    assert_eq!(said.code, 2);
    let message = "t.txt:1: expected 3 fields (query positive negative), found 2";
    assert!(said.stderr.contains(message), "{}", said.stderr);
    place.write("t.txt", "r0 r1 r2\n");
    let said = place.run(&update[..5]);
    let message = "t.txt:1: found the row id `r0` and no rows to look it up in: give --rows";
    assert!(said.stderr.contains(message), "{}", said.stderr);
    place
        .run(&[
            "update",
            "s.st",
            "t.txt",
            "-o",
            "x.st",
            "--columns",
            "a,b,c",
        ])
        .refused("--columns does not apply to similarity models");
}

#[test]
fn rows_with_classes_are_files_of_training() {
    let place = place();
    let (head, tail) = ("--rank 2 --seed 1 --quiet", "--where fold=2");
    let text = place.read("rows.csv");
    let folds = text.lines().enumerate().map(|(i, line)| match i {
        0 => format!("fold,{line}\n"),
        _ => format!("{},{line}\n", 1 + usize::from(i > 16)),
    });
    place.write("folds.csv", folds.collect::<String>());
    for (train, steps) in [
        ("similarity rows.csv --steps 200", 8),
        ("metric rows.csv --iterations 3", 16),
    ] {
        run(&place, &format!("train {train} -o m.st {head}"));
        let update = |output: &str| {
            let line = format!("update m.st folds.csv -o {output} --json {tail}");
            place.run(&line.split(' ').collect::<Vec<_>>()).json()
        };
        let said = update("a.st");
        assert_eq!(
            (&said["steps"], &said["lines"]),
            (&steps.into(), &8.into()),
            "{train}"
        );
        update("b.st");
        let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
        assert!(bytes("a.st") == bytes("b.st") && bytes("a.st") != bytes("m.st"));
    }
    place.write("one.csv", "label,a,b,c\n0,1,2,3\n0,1,2,4\n");
    place
        .run(&["update", "m.st", "one.csv", "-o", "m.st"])
        .refused("one.csv: triplets need rows of at least two classes, found 1");
}
