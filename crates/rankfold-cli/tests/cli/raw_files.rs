//! Files as people have them: each is read, or refused with a message that names the option
//! to use. docs/files.md has the same table.

use crate::support::Place;

/// What should happen.
enum Want {
    /// It is read, with this in the notes.
    Read(&'static str),
    /// It is refused with exit code 2, and this is said.
    Refused(&'static str),
}

use Want::{Read, Refused};

/// A line for each rating of 12 users and 8 items.
fn ratings(line: impl Fn(usize, usize, f64, usize) -> String) -> String {
    let mut out = String::new();
    for user in 1..=12 {
        for item in 1..=8 {
            if (user + item) % 3 > 0 {
                let rating = 1.0 + ((user * item) % 5) as f64;
                out += &line(user, item, rating, 978_300_000 + 60 * (user + item));
            }
        }
    }
    out
}

fn joined(separator: &str) -> String {
    ratings(|u, i, r, t| format!("{u}{separator}{}{separator}{r}{separator}{t}\n", 100 + i))
}

fn with(header: &str, lines: &str) -> String {
    format!("{header}\n{lines}")
}

/// A table with a row for each user; `hole` stands where nothing is known.
fn wide(head: &str, hole: &str) -> String {
    let mut out = format!("{head},m1,m2,m3,m4\n");
    for user in 1..=9 {
        out += &format!("u{user}");
        for item in 1..=4 {
            out += &match (user + item) % 4 {
                0 => format!(",{hole}"),
                n => format!(",{}", n + item % 2),
            };
        }
        out.push('\n');
    }
    out
}

fn matrix() -> String {
    let lines = ratings(|u, i, r, _| format!("{u} {i} {r}\n"));
    let count = lines.lines().count();
    format!("%%MatrixMarket matrix coordinate real general\n12 8 {count}\n{lines}")
}

#[track_caller]
fn tried(name: &str, text: &str, command: &[&str], want: &Want) {
    let place = Place::new();
    if name.ends_with(".gz") {
        let write = |out: &mut dyn std::io::Write| out.write_all(text.as_bytes());
        rankfold::data::write_atomically(place.path(name), write).unwrap();
    } else {
        place.write(name, text);
    }
    let said = place.run(command);
    match want {
        Read(note) => {
            assert_eq!(said.code, 0, "{name}: {}", said.stderr);
            assert!(
                said.stderr.contains(note),
                "{name}: {note}: {}",
                said.stderr
            );
        }
        Refused(message) => {
            assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{name}");
            let known = said.stderr.contains(message);
            assert!(known, "{name}: {message}: {}", said.stderr);
        }
    }
}

const COMPLETION: [&str; 8] = [
    "-o",
    "m",
    "--learner",
    "als",
    "--rank",
    "1",
    "--regularization",
    "1",
];

#[track_caller]
fn rated(name: &str, text: &str, more: &[&str], want: Want) {
    let command = [&["train", "completion", name], &COMPLETION[..], more].concat();
    tried(name, text, &command, &want);
}

#[test]
fn ratings_with_names_that_people_use() {
    let (comma, tab) = (joined(","), joined("\t"));
    rated(
        "ratings.csv",
        &with("userId,movieId,rating,timestamp", &comma),
        &[],
        Read("users in `userId`, items in `movieId`, ratings in `rating`"),
    );
    rated(
        "ratings.tsv",
        &with("user_id\titem_id\tstars\ttime", &tab),
        &[],
        Read("users in `user_id`, items in `item_id`, ratings in `stars`"),
    );
    rated(
        "ml-100k.inter",
        &with(
            "user_id:token\titem_id:token\trating:float\ttimestamp:float",
            &tab,
        ),
        &[],
        Read("users in `user_id:token`"),
    );
    let crossing = ratings(|u, i, r, _| format!("\"{u}\";\"0{i}X\";\"{r}\"\n"));
    rated(
        "BX-Book-Ratings.csv",
        &with("\"User-ID\";\"ISBN\";\"Book-Rating\"", &crossing),
        &[],
        Read("ratings in `Book-Rating`"),
    );
    let amazon = ratings(|u, i, r, t| {
        format!(
            "{{\"reviewerID\":\"A{u}\",\"asin\":\"B{i}\",\"overall\":{r},\"unixReviewTime\":{t}}}\n"
        )
    });
    rated("reviews.jsonl", &amazon, &[], Read("items in `asin`"));
    rated(
        "ratings.csv.gz",
        &with("UID,Product ID,Score,t", &comma),
        &[],
        Read("ratings in `Score`"),
    );
    rated(
        "piped.txt",
        &with("uid|iid|rating|ts", &joined("|")),
        &[],
        Read("users in `uid`"),
    );
    rated(
        "plain.txt",
        &with("user item rating when", &joined(" ")),
        &[],
        Read(""),
    );
}

#[test]
fn ratings_without_a_header() {
    let note = "no header, so users in column 1, items in column 2, ratings in column 3";
    rated("u.data", &joined("\t"), &[], Read(note));
    rated("u1.base", &joined("\t"), &[], Read(note));
    rated("ratings.dat", &joined("::"), &[], Read(note));
    rated("ratings.txt", &joined(" "), &[], Read(note));
    rated("numbers.csv", &joined(","), &[], Read(note));
    let amazon = ratings(|u, i, r, t| format!("A{u}Q,B00{i},{r},{t}\n"));
    rated("ratings_Books.csv", &amazon, &[], Read(note));
    let swapped = ratings(|u, i, r, _| format!("{r};m{i};u{u}\n"));
    rated("odd.dat", &swapped, &["--columns", "3,2,1"], Read(""));
}

#[test]
fn ratings_in_a_matrix() {
    rated(
        "wide.csv",
        &wide("user", ""),
        &["--wide"],
        Read("4 columns of items"),
    );
    rated(
        "pivot.csv",
        &wide("", "NaN"),
        &["--wide"],
        Read("4 columns of items"),
    );
    rated(
        "wide.csv",
        &wide("user", ""),
        &[],
        Refused("--columns USER,ITEM,RATING"),
    );
    rated("ratings.mtx", &matrix(), &[], Read("users are rows from 1"));
}

#[test]
fn ratings_that_are_not_clear() {
    let text = with("a,b,c,d", &joined(","));
    rated(
        "unclear.csv",
        &text,
        &[],
        Refused(
            "found the columns `a`, `b`, `c`, `d`, and it is not clear which has the users and which \
             the items and which the ratings; name them with `--columns USER,ITEM,RATING`",
        ),
    );
    rated("unclear.csv", &text, &["--columns", "a,b,c"], Read(""));
    let yelp =
        ratings(|u, i, r, _| format!("{{\"user_id\":{u},\"business_id\":{i},\"stars\":{r}}}\n"));
    rated("yelp.json", &yelp, &[], Refused("--format"));
    rated(
        "yelp.json",
        &yelp,
        &["--format", "jsonl"],
        Read("items in `business_id`"),
    );
    rated("ratings.xls", "x", &[], Refused("--format"));
    rated(
        "ratings.csv",
        &text,
        &["--format", "xls"],
        Refused("unknown format `xls`"),
    );
    let holes = with("userId,movieId,rating,timestamp", &joined(",")) + "1,101,,978300000\nx,y\n";
    rated(
        "holes.csv",
        &holes,
        &[],
        Refused("expected a rating, found"),
    );
    rated(
        "holes.csv",
        &holes,
        &["--on-bad-line", "skip"],
        Read("2 lines were left out, the first: holes.csv:"),
    );
}

#[track_caller]
fn chosen(name: &str, text: &str, more: &[&str], want: Want) {
    let head = ["train", "recommend", name, "-o", "m", "--rank", "1"];
    tried(name, text, &[&head[..], more].concat(), &want);
}

#[test]
fn choices_as_people_have_them() {
    let tab = ratings(|u, i, r, _| format!("{u}\t{i}\t{}\n", 10.0 * r));
    chosen(
        "user_artists.dat",
        &with("userID\tartistID\tweight", &tab),
        &[],
        Read("items in `artistID`, weights in `weight`"),
    );
    let dated = ratings(|u, i, _, _| format!("{u},{i},2015-03-{:02} 10:00:00\n", 1 + u + i));
    chosen(
        "clicks.csv",
        &with("visitorid,itemid,timestamp", &dated),
        &[],
        Read("times in `timestamp`"),
    );
    chosen(
        "ratings.csv",
        &with("userId,movieId,rating,timestamp", &joined(",")),
        &["--liked-from", "3"],
        Read("have a lower rating and were left out"),
    );
    chosen("counts.mtx", &matrix(), &[], Read("items columns from 1"));
    chosen(
        "baskets.csv",
        &wide("customer", "0"),
        &["--wide"],
        Read("users in column 1, and 4 columns of items"),
    );
    chosen(
        "baskets.csv",
        &wide("customer", "maybe"),
        &["--wide"],
        Refused("column `m3`: expected a number, yes or no, found `maybe`"),
    );
    chosen(
        "unclear.csv",
        &with("a,b", "x,y\n"),
        &[],
        Refused("--columns USER,ITEM"),
    );
}

/// Rows of two classes in two numbers.
fn rows(line: impl Fn(f64, f64, &str) -> String) -> String {
    let row = |n: usize| {
        let (class, shift) = if n.is_multiple_of(2) {
            ("x", 0.0)
        } else {
            ("y", 3.0)
        };
        line(shift + (n % 7) as f64 / 7.0, (n % 5) as f64 - shift, class)
    };
    (0..24).map(row).collect()
}

#[track_caller]
fn classed(name: &str, text: &str, more: &[&str], want: Want) {
    let head = ["train", "similarity", name, "-o", "m", "--rank", "1"];
    let steps = ["--steps", "50", "--step-size", "1"];
    tried(name, text, &[&head[..], &steps, more].concat(), &want);
}

#[test]
fn tables_whose_labels_have_other_names() {
    let last = rows(|a, b, class| format!("{a},{b},{class}\n"));
    classed(
        "iris.csv",
        &with("length,width,Species", &last),
        &[],
        Read("labels in `Species`"),
    );
    classed(
        "kinds.csv",
        &with("length,width,kind", &last),
        &[],
        Read("labels in `kind`"),
    );
    let number =
        rows(|a, b, class| format!("{},{a},{b}\n", class.len() + usize::from(class == "x")));
    classed(
        "wine.csv",
        &with("class,alcohol,acid", &number),
        &[],
        Read("labels in `class`"),
    );
    classed(
        "any.csv",
        &with("group,a,b", &number),
        &["--label", "group"],
        Read(""),
    );
    classed(
        "any.csv",
        &with("group,a,b", &number),
        &["--label", "grup"],
        Refused("see --label"),
    );
    classed("iris.data", &last, &[], Refused("--format"));
    let raw = ["--format", "csv", "--no-header"];
    classed("iris.data", &last, &raw, Read("labels in `3`"));
    let numbers = rows(|a, b, _| format!("{a},{b}\n"));
    classed("numbers.csv", &numbers, &[], Refused("--no-header"));
    let semicolons = rows(|a, b, class| format!("\"{class}\";{a};{b}\n"));
    classed(
        "wine.csv",
        &with("\"label\";\"a\";\"b\"", &semicolons),
        &[],
        Read("separated by `;`"),
    );
    let indexed = rows(|a, b, class| format!("7,{a},{b},{class}\n"));
    classed("frame.csv", &with(",a,b,label", &indexed), &[], Read(""));
}

#[test]
fn tables_with_texts_and_holes() {
    let holes = rows(|a, b, class| format!("{a},{b},{class}\n")) + "NA,?,x\nnan,,y\nN/A,null,x\n";
    classed("holes.csv", &with("a,b,label", &holes), &[], Read(""));
    let texts = rows(|a, b, class| format!("some name,{a},{b},c{class},{class}\n"));
    let table = with("name,a,b,color,label", &texts);
    classed("texts.csv", &table, &[], Refused("--drop and --categories"));
    let sorted = ["--drop", "name", "--categories", "color"];
    classed("texts.csv", &table, &sorted, Read(""));
    classed(
        "texts.csv",
        &table,
        &["--drop", "nome"],
        Refused("see --drop"),
    );
    let bad = with(
        "a,b,label",
        &rows(|a, b, class| format!("{a},{b},{class}\n")),
    ) + "1,oops,x\n";
    classed(
        "bad.csv",
        &bad,
        &[],
        Refused("expected a number, found `oops`"),
    );
    let note = "1 line was left out, the first: bad.csv:26: column `b`";
    classed("bad.csv", &bad, &["--on-bad-line", "skip"], Read(note));
}

#[test]
fn rows_of_json() {
    let lists = rows(|a, b, class| format!("{{\"row\":[{a},{b}],\"label\":\"{class}\"}}\n"));
    classed("lists.jsonl", &lists, &[], Read(""));
    let objects = rows(|a, b, class| {
        format!("{{\"embedding\":[{a},{b}],\"labels\":[{{\"name\":\"{class}\"}}]}}\n")
    });
    classed("vectors.jsonl", &objects, &[], Read(""));
    classed(
        "bad.jsonl",
        "{\"vector\":[1],\"label\":1}\n",
        &[],
        Refused("`row` or `embedding`"),
    );
}

#[track_caller]
fn vectorized(name: &str, text: &str, more: &[&str], want: Want) {
    let head = [
        "vectorize",
        name,
        "-o",
        "rows.svm",
        "--fit",
        "v.json",
        "--min-df",
        "1",
    ];
    tried(name, text, &[&head[..], more].concat(), &want);
}

#[test]
fn documents_in_tables_and_in_other_languages() {
    let text = "id,category,body\n1,a,\"red, green\"\n2,b,blue sea\n";
    vectorized(
        "posts.csv",
        text,
        &[],
        Read("texts in `body`, labels in `category`"),
    );
    vectorized(
        "posts.csv",
        text,
        &["--text", "bodi"],
        Refused("see --text"),
    );
    let place = Place::new();
    let text = "{\"text\":\"Zürich Straße café 日本\"}\n";
    place.write("d.jsonl", text);
    let fit = [
        "vectorize",
        "d.jsonl",
        "-o",
        "d.svm",
        "--fit",
        "v.json",
        "--min-df",
        "1",
    ];
    let terms = |more: &[&str]| -> Vec<String> {
        let said = place.run(&[&fit[..], more].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        let stored: serde_json::Value = serde_json::from_str(&place.read("v.json")).unwrap();
        let terms = stored["terms"].as_array().unwrap().iter();
        terms
            .map(|term| term.as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(terms(&[]), ["café", "straße", "zürich", "日", "本"]);
    assert_eq!(
        terms(&["--fold-accents"]),
        ["cafe", "strasse", "zurich", "日", "本"]
    );
    assert!(terms(&["--ngrams", "1..2"]).contains(&"zürich straße".to_owned()));
    assert!(terms(&["--characters", "2..3"]).contains(&"日本".to_owned()));
    // The vocabulary keeps how its terms are made.
    let again = [
        "vectorize",
        "d.jsonl",
        "-o",
        "e.svm",
        "--vocabulary",
        "v.json",
    ];
    assert_eq!(place.run(&again).code, 0);
    assert_eq!(place.read("d.svm"), place.read("e.svm"));
}

#[test]
fn a_model_keeps_what_was_recognized() {
    let place = Place::new();
    let header = "movieId,rating,userId,timestamp";
    let lines = ratings(|u, i, r, t| format!("m{i},{r},u{u},{t}\n"));
    place.write("ratings.csv", with(header, &lines));
    let command = [&["train", "completion", "ratings.csv"], &COMPLETION[..]].concat();
    assert_eq!(place.run(&command).code, 0);
    let tested = place.run(&["eval", "m", "ratings.csv", "--json"]).json();
    assert_eq!(tested["unknown_users"], 0);
    let asked = place.run(&["predict", "m", "ratings.csv"]);
    assert_eq!((asked.code, asked.stderr.as_str()), (0, ""));
    let listed = place.run(&["recommend", "m", "ratings.csv", "--query", "u1"]);
    assert_eq!((listed.code, listed.stderr.as_str()), (0, ""));
    let updated = place
        .run(&["update", "m", "ratings.csv", "-o", "n", "--json"])
        .json();
    assert_eq!(
        (updated["new_users"].clone(), updated["new_items"].clone()),
        (0.into(), 0.into())
    );
    // Names of their own, that nobody would recognize.
    place.write("odd.csv", with("was,wie,wer,wann", &lines));
    let named = [
        &command[..2],
        &["odd.csv"],
        &command[3..],
        &["--columns", "wer,was,wie"],
    ]
    .concat();
    assert_eq!(place.run(&named).code, 0);
    let tested = place.run(&["eval", "m", "odd.csv", "--json"]).json();
    assert_eq!(tested["unknown_users"], 0);
    let tested = place.run(&["eval", "m", "ratings.csv", "--json"]).json();
    assert_eq!(tested["unknown_items"], 0);
}

#[test]
fn strangers_are_told_aloud() {
    let place = Place::new();
    let lines = ratings(|u, i, r, _| format!("u{u},m{i},{r}\n"));
    place.write("train.csv", with("user,item,rating", &lines));
    let command = [&["train", "completion", "train.csv"], &COMPLETION[..]].concat();
    assert_eq!(place.run(&command).code, 0);
    place.write("swapped.csv", with("item,user,rating", &lines));
    for verb in ["eval", "predict"] {
        let said = place.run(&[verb, "m", "swapped.csv"]);
        assert_eq!(said.code, 2, "{verb}: {}", said.stderr);
        let reason = "the columns seem to be swapped; --columns USER,ITEM";
        assert!(said.stderr.contains(reason), "{verb}: {}", said.stderr);
    }
    place.write("new.csv", "user,item,rating\nu1,m1,3\nv1,w1,3\nv2,w2,3\n");
    let said = place.run(&["predict", "m", "new.csv"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stderr
            .contains("warning: the model does not know 2 of 3 items")
    );
    place.write("other.csv", "user,item,rating\nv1,w1,3\n");
    let said = place.run(&["predict", "m", "other.csv", "--json"]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (2, ""),
        "{}",
        said.stderr
    );
}

#[test]
fn new_rows_are_encoded_as_in_training() {
    let place = Place::new();
    let texts = rows(|a, b, class| format!("note {a},{a},{b},c{class},{class}\n"));
    place.write("train.csv", with("note,a,b,color,kind", &texts));
    let columns = ["--label", "kind", "--drop", "note", "--categories", "color"];
    let train = [
        "train",
        "similarity",
        "train.csv",
        "-o",
        "m",
        "--rank",
        "1",
        "--steps",
        "50",
    ];
    let said = place.run(&[&train[..], &columns].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    // Without a word about columns: texts that the model does not know are no features.
    place.write("new.csv", "color,note,b,a\ncx,hello,1,2\nnew,you,1,2\n");
    let said = place.run(&["transform", "m", "new.csv", "-o", "p.csv"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let note = "1 values of categories are not known to the model";
    assert!(said.stderr.contains(note), "{}", said.stderr);
    // A header, and two rows.
    assert_eq!(place.read("p.csv").lines().count(), 3);
}
