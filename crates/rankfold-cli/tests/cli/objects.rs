//! Two kinds of things: `--objects` of every command.

use serde_json::{Value, json};

use crate::support::{Place, Said};

const FRUIT: &str = "id,label,sour,sweet,juicy
lemon,drink,1,0,1
lime,drink,1,0.1,0.9
banana,cake,0,1,0
date,cake,0.1,1,0
leek,soup,0.2,0,0.1
";

const DISHES: &str = "id,label,cold,baked
lemonade,drink,1,0
sorbet,drink,0.9,0
bread,cake,0,1
muffin,cake,0.1,0.9
";

fn place_with_dishes() -> Place {
    let place = Place::new();
    place.write("fruit.csv", FRUIT);
    place.write("dishes.csv", DISHES);
    place
}

const RUN: [&str; 14] = [
    "train",
    "similarity",
    "fruit.csv",
    "--objects",
    "dishes.csv",
    "-o",
    "m",
    "--rank",
    "2",
    "--steps",
    "400",
    "--step-size",
    "0.5",
    "--quiet",
];

fn train(place: &Place, more: &[&str]) -> Said {
    place.run(&[&RUN[..], more].concat())
}

fn trained() -> Place {
    let place = place_with_dishes();
    let said = train(&place, &[]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    place
}

#[test]
fn rows_find_their_objects_through_the_whole_chain() {
    let place = place_with_dishes();
    let found = train(&place, &["--json"]).json();
    assert_eq!(
        (&found["learner"], &found["skipped"], &found["steps"]),
        (&json!("loreta"), &json!(1), &json!(400))
    );
    let run: Vec<&str> = RUN.into_iter().filter(|a| *a != "--quiet").collect();
    let said = place.run(&run);
    assert!(
        said.stderr
            .contains("1 rows are no queries: no object has their label\n"),
        "{}",
        said.stderr
    );

    let found = place.run(&["info", "m", "--json"]).json_without_seconds();
    assert_eq!(
        (&found["shape"], &found["features"], &found["objects"]),
        (&json!([3, 2]), &json!("columns"), &json!("columns"))
    );

    let found = place.run(&[
        "eval",
        "m",
        "fruit.csv",
        "--objects",
        "dishes.csv",
        "--json",
    ]);
    let found = found.json();
    assert_eq!(
        (&found["metrics"]["map"], &found["baseline"]),
        (&json!(1.0), &Value::Null)
    );
    assert_eq!(
        (&found["rows"], &found["skipped"], &found["score"]),
        (&json!(4), &json!(1), &json!("dot"))
    );
    let said = place.run(&["eval", "m", "fruit.csv", "--objects", "dishes.csv"]);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(
        &lines[..5],
        [
            "                      model",
            "map                  1.0000",
            "precision_at_1       1.0000",
            "precision_at_10      0.2000",
            "no baseline: rows and objects have features of their own",
        ]
    );
    for score in ["dot", "cosine"] {
        let said = place.run(&[
            "neighbors",
            "m",
            "fruit.csv",
            "--objects",
            "dishes.csv",
            "--query",
            "lime",
            "--query",
            "date",
            "-k",
            "9",
            "--score",
            score,
        ]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let lists: Vec<Vec<&str>> = said
            .stdout
            .lines()
            .map(|l| l.split('\t').collect())
            .collect();
        assert_eq!(lists.len(), 8);
        let best = |query: &str| -> Vec<&str> {
            let of_query = lists.iter().filter(|line| line[0] == query);
            of_query.take(2).map(|line| line[2]).collect()
        };
        assert!(best("lime").contains(&"sorbet") && best("lime").contains(&"lemonade"));
        assert!(best("date").contains(&"bread") && best("date").contains(&"muffin"));

        place.write(
            "pairs.txt",
            "lime sorbet\nlime bread\nlime mango\nsorbet lime\n",
        );
        let pairs = [
            "predict",
            "m",
            "pairs.txt",
            "--rows",
            "fruit.csv",
            "--objects",
            "dishes.csv",
            "--score",
            score,
        ];
        let said = place.run(&pairs);
        let note = "2 pairs name a row that is not there; their score is 0\n";
        assert_eq!((said.code, said.stderr.as_str()), (0, note));
        let scores: Vec<&str> = said.stdout.lines().collect();
        let listed = |object: &str| {
            let line = lists.iter().find(|l| l[0] == "lime" && l[2] == object);
            line.expect("a line")[3]
        };
        assert_eq!(scores, [listed("sorbet"), listed("bread"), "0", "0"]);
        let said = place.run(&[&pairs[..], &["--strict"]].concat());
        assert_eq!(said.code, 2);
        assert_eq!(
            said.stderr,
            "error: pairs.txt:3: no object is called `mango`\n"
        );
    }
    // Points of both sides multiply to scores.
    for (data, side) in [("fruit.csv", "left"), ("dishes.csv", "right")] {
        let out = format!("{side}.csv");
        let said = place.run(&[
            "transform",
            "m",
            data,
            "-o",
            &out,
            "--side",
            side,
            "--quiet",
        ]);
        assert_eq!(said.code, 0, "{}", said.stderr);
    }
    let point = |file: &str, id: &str| -> Vec<f64> {
        let text = place.read(file);
        let line = text.lines().find(|l| l.starts_with(&format!("{id},")));
        let fields = line.expect("a line").split(',').skip(1);
        fields.map(|v| v.parse().expect("a number")).collect()
    };
    let (lime, sorbet) = (point("left.csv", "lime"), point("right.csv", "sorbet"));
    let product: f64 = lime.iter().zip(&sorbet).map(|(a, b)| a * b).sum();
    let said = place.run_with(
        &[
            "predict",
            "m",
            "-",
            "--rows",
            "fruit.csv",
            "--objects",
            "dishes.csv",
        ],
        "lime sorbet\n",
    );
    let score: f64 = said.stdout.trim().parse().expect("a number");
    assert!(
        (product - score).abs() < 1e-5 * score.abs(),
        "{product} {score}"
    );
}

#[test]
fn triplets_name_a_row_and_two_objects() {
    let place = place_with_dishes();
    place.write("t.txt", "lemon sorbet bread\ndate muffin sorbet\n");
    let found = train(&place, &["--triplets", "t.txt", "--json"]).json();
    assert_eq!(found["skipped"], 0);
    place.write("t.txt", "lemon sorbet bread\nlemon lime bread\n");
    train(&place, &["--triplets", "t.txt"]).refused("t.txt:2: no object is called `lime`");
    place.write("t.txt", "lemon sorbet bread\n\nsorbet sorbet bread\n");
    train(&place, &["--triplets", "t.txt"]).refused("t.txt:3: no row is called `sorbet`");
}

#[test]
fn what_cannot_be_is_said() {
    let place = place_with_dishes();
    // A full matrix has no rank to choose.
    let full: Vec<&str> = RUN
        .into_iter()
        .filter(|a| !["--rank", "2"].contains(a))
        .collect();
    for (run, learner) in [
        (&RUN[..], "loreta-psd"),
        (&RUN, "gradient-psd"),
        (&full, "lego"),
    ] {
        let said = place.run(&[run, &["--learner", learner]].concat());
        said.refused(&format!(
            "fruit.csv: `{learner}` learns a symmetric matrix, in which rows and objects have the same features: use another learner with objects, such as `loreta`"
        ));
    }
    let rank = |rank: &'static str| {
        let with = |a: &&'static str| if *a == "2" { rank } else { a };
        let run: Vec<&str> = RUN.iter().map(with).collect();
        place.run(&run)
    };
    rank("3").refused("dishes.csv: --rank is 3, above n_features = 2");
    rank("4").refused("fruit.csv: --rank is 4, above n_features = 3");
    place.write("dishes.csv", "id,cold,baked\nsorbet,1,0\nbread,0,1\n");
    train(&place, &[]).refused("dishes.csv: row `sorbet` has 0 labels, expected exactly one");
    place.write("l.txt", "drink\n");
    train(&place, &["--object-labels", "l.txt"])
        .refused("l.txt: expected 2 labels, one a row, found 1");
    place.write("l.txt", "stew\npie\n");
    train(&place, &["--object-labels", "l.txt"])
        .refused("fruit.csv: triplets need a row and an object of the same class, found none");
    place.write("l.txt", "cake\ncake\n");
    train(&place, &["--object-labels", "l.txt"])
        .refused("fruit.csv: triplets need objects of at least two classes, found 1");
    place.write("l.txt", "drink\ncake\n");
    let found = train(&place, &["--object-labels", "l.txt", "--json"]).json();
    assert_eq!(found["skipped"], 1);
    let run: Vec<&str> = RUN
        .into_iter()
        .map(|a| {
            if a == "dishes.csv" || a == "fruit.csv" {
                "-"
            } else {
                a
            }
        })
        .collect();
    place
        .run(&run)
        .refused("`-` stands for two inputs, but stdin can be read once");
}

#[test]
fn a_model_with_objects_asks_for_them() {
    let place = trained();
    place.write("p.txt", "lime sorbet\n");
    let needed = "m: the model scores rows with objects: give them with --objects FILE";
    for command in [
        &["eval", "m", "fruit.csv"][..],
        &["neighbors", "m", "fruit.csv"],
        &["predict", "m", "p.txt", "--rows", "fruit.csv"],
    ] {
        place.run(command).refused(needed);
    }
    place.write("dishes.svm", "0 1:1 2:1 # sorbet\n");
    for command in [
        &["eval", "m", "fruit.csv", "--objects", "dishes.svm"][..],
        &["neighbors", "m", "fruit.csv", "--objects", "dishes.svm"],
        &[
            "transform",
            "m",
            "dishes.svm",
            "-o",
            "p.csv",
            "--side",
            "right",
        ],
        &["update", "m", "--objects", "dishes.svm", "-o", "m2"],
    ] {
        place.run(command).refused(
            "dishes.svm: the model's features have names, these rows call theirs by number",
        );
    }
    // The two sides are not the same.
    let swapped = place.run(&["eval", "m", "dishes.csv", "--objects", "fruit.csv"]);
    swapped.refused("dishes.csv: the column `sour` that the model knows is missing");
    let right = place.run(&[
        "transform",
        "m",
        "fruit.csv",
        "-o",
        "p.csv",
        "--side",
        "right",
    ]);
    right.refused("fruit.csv: the column `cold` that the model knows is missing");
}

#[test]
fn objects_of_the_same_kind_are_other_candidates() {
    let place = place_with_dishes();
    let said = place.run(&[
        "train",
        "similarity",
        "fruit.csv",
        "-o",
        "m",
        "--rank",
        "2",
        "--steps",
        "400",
        "--step-size",
        "0.5",
        "--quiet",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    place.write(
        "more.csv",
        "id,label,juicy,sour,sweet\nyuzu,drink,1,0.9,0\nfig,cake,0.1,0,1\n",
    );
    let found = place.run(&["eval", "m", "fruit.csv", "--objects", "more.csv", "--json"]);
    let found = found.json();
    assert_eq!(found["metrics"]["map"], 1.0);
    assert_eq!(found["baseline"]["name"], "cosine");
    assert_eq!(found["baseline"]["metrics"]["map"], 1.0);
    let said = place.run(&[
        "neighbors",
        "m",
        "fruit.csv",
        "--objects",
        "more.csv",
        "-k",
        "1",
    ]);
    let best: Vec<String> = said
        .stdout
        .lines()
        .map(|line| line.split('\t').take(3).collect::<Vec<_>>().join(" "))
        .collect();
    let want = ["lemon 1 yuzu", "lime 1 yuzu", "banana 1 fig", "date 1 fig"];
    assert_eq!(best[..4], want);
    let said = place.run_with(
        &[
            "update",
            "m",
            "--rows",
            "fruit.csv",
            "--objects",
            "more.csv",
            "-o",
            "m2",
            "--json",
        ],
        "{\"query\":\"lemon\",\"positive\":\"yuzu\",\"negative\":\"fig\"}\n",
    );
    assert_eq!(said.json()["steps"], 1);
    let said = place.run_with(
        &[
            "update",
            "m",
            "--rows",
            "fruit.csv",
            "--objects",
            "more.csv",
            "-o",
            "m2",
            "--quiet",
        ],
        "{\"query\":\"lemon\",\"positive\":\"lime\",\"negative\":\"fig\"}\n",
    );
    said.refused("-:1: column 34: no object is called `lime`");
}

#[test]
fn a_stopped_run_with_objects_gives_the_same_bytes() {
    let place = trained();
    let whole = std::fs::read(place.path("m")).expect("a model");
    let first = ["--checkpoint", "c", "--checkpoint-every", "150"];
    let run: Vec<&str> = RUN
        .into_iter()
        .map(|a| if a == "400" { "300" } else { a })
        .collect();
    assert_eq!(place.run(&[&run[..], &first].concat()).code, 0);
    assert_eq!(train(&place, &["--resume", "c"]).code, 0);
    assert_eq!(std::fs::read(place.path("m")).expect("a model"), whole);
    place.write("dishes.csv", DISHES.replace("0.9", "0.8"));
    train(&place, &["--resume", "c"]).refused("c: the checkpoint was made with other objects");
    let alone: Vec<&str> = RUN
        .into_iter()
        .filter(|a| *a != "--objects" && *a != "dishes.csv")
        .chain(["--learner", "loreta", "--resume", "c"])
        .collect();
    place
        .run(&alone)
        .refused("c: the checkpoint was made with other objects");
}

#[test]
fn a_stream_teaches_both_sides() {
    let place = trained();
    let update = |more: &[&str], stream: &str| {
        let run = [
            &["update", "m", "-o", "m2", "--rows", "fruit.csv"][..],
            more,
        ]
        .concat();
        place.run_with(&run, stream)
    };
    let stream = "{\"query\":\"leek\",\"positive\":{\"hot\":1},\"negative\":\"bread\"}
{\"query\":{\"green\":1},\"positive\":{\"hot\":1,\"cold\":null},\"negative\":\"sorbet\"}
";
    let found = update(&["--objects", "dishes.csv", "--json"], stream).json();
    assert_eq!(
        (&found["features"], &found["object_features"]),
        (&json!(4), &json!(3))
    );
    assert_eq!(
        (&found["new_features"], &found["new_object_features"]),
        (&json!(1), &json!(1))
    );
    let found = place.run(&["info", "m2", "--json"]).json_without_seconds();
    assert_eq!(
        (&found["shape"], &found["new_object_features"]),
        (&json!([4, 3]), &json!(1))
    );
    let said = update(&["--objects", "dishes.csv"], stream);
    assert!(
        said.stdout.contains(", 1 new features, 1 of objects, "),
        "{}",
        said.stdout
    );
    update(&["--quiet"], stream).refused(
        "-:1: column 55: expected an object of features, found the object id `bread` and no objects to look it up in",
    );
    let said = update(
        &["--quiet", "--objects", "dishes.csv"],
        &stream.replace("bread", "stew"),
    );
    said.refused("-:1: column 54: no object is called `stew`");
}

#[test]
fn documents_find_objects() {
    let place = Place::new();
    let text = "{\"text\":\"sour lemon juice\",\"label\":\"drink\",\"split\":\"a\"}
{\"text\":\"sour lime juice\",\"label\":\"drink\",\"split\":\"a\"}
{\"text\":\"sweet banana\",\"label\":\"cake\",\"split\":\"a\"}
{\"text\":\"sweet date\",\"label\":\"cake\",\"split\":\"a\"}
{\"text\":\"juice\",\"label\":\"drink\",\"split\":\"b\"}
";
    place.write("docs.jsonl", text);
    place.write("dishes.csv", DISHES);
    let said = place.run(&[
        "vectorize",
        "docs.jsonl",
        "-o",
        "docs.svm",
        "--fit",
        "v.json",
        "--quiet",
        "--where",
        "split=a",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = place.run(&[
        "train",
        "similarity",
        "docs.jsonl",
        "--where",
        "split=a",
        "--vocabulary",
        "v.json",
        "--objects",
        "dishes.csv",
        "-o",
        "m",
        "--rank",
        "2",
        "--step-size",
        "1",
        "--quiet",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = place.run(&[
        "neighbors",
        "m",
        "docs.jsonl",
        "--objects",
        "dishes.csv",
        "--query-text",
        "sour juice",
        "-k",
        "1",
    ]);
    let best: Vec<&str> = said.stdout.split('\t').collect();
    assert!(
        best[0] == "sour juice" && ["lemonade", "sorbet"].contains(&best[2]),
        "{}",
        said.stdout
    );
    let found = place.run(&[
        "eval",
        "m",
        "docs.jsonl",
        "--where",
        "split=b",
        "--objects",
        "dishes.csv",
        "--json",
    ]);
    let found = found.json();
    assert_eq!(
        (&found["rows"], &found["metrics"]["map"]),
        (&json!(1), &json!(1.0))
    );
}
