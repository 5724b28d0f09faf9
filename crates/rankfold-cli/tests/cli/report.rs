//! Pages of `--report`: every task has one from `train` and one from `eval`.

use crate::support::Place;

/// A name that would be markup if it were not escaped.
const HOSTILE: &str = "<b>&x";

/// Numbers between −1 and 1 that look random.
fn noise(i: usize) -> f64 {
    let x = (i as f64 * 12.9898).sin() * 43_758.547;
    2.0 * (x - x.floor()) - 1.0
}

/// Labeled rows of three classes around three corners, one with a hostile name.
fn rows(first: usize, count: usize) -> String {
    let mut out = "id,label,a,b,c,d\n".to_owned();
    for i in first..first + count {
        let class = i % 3;
        let value = |j: usize| f64::from(u8::from(j == class)) * 2.0 + 0.5 * noise(10 * i + j);
        let label = ["one", HOSTILE, "three"][class];
        let id = if i % 7 == 0 {
            format!("{HOSTILE}{i}")
        } else {
            format!("r{i}")
        };
        let cells: Vec<String> = (0..4).map(|j| format!("{:.4}", value(j))).collect();
        out += &format!("{id},{label},{}\n", cells.join(","));
    }
    out
}

/// Ratings from 1 to 5 of 30 users for 20 items; a fifth of them for the test.
fn ratings(test: bool) -> String {
    let mut out = "user,item,rating\n".to_owned();
    for (u, i) in (0..30).flat_map(|u| (0..20).map(move |i| (u, i))) {
        let value = 3.0 + 1.5 * noise(u) * noise(500 + i) + 0.5 * noise(900 + i);
        if noise(31 * u + 7 * i) > -0.2 && ((u + 3 * i) % 5 == 0) == test {
            let item = if i == 4 {
                HOSTILE.to_owned()
            } else {
                format!("i{i}")
            };
            out += &format!("u{u},{item},{:.0}\n", value.clamp(1.0, 5.0));
        }
    }
    out
}

fn tasks(first: usize, count: usize) -> String {
    let mut out = "task,target,a,b,c\n".to_owned();
    for t in 0..8 {
        let name = if t == 2 {
            HOSTILE.to_owned()
        } else {
            format!("t{t}")
        };
        for i in first..first + count {
            let x: Vec<f64> = (0..3).map(|j| noise(1000 * t + 10 * i + j)).collect();
            let y = 5.0 + noise(t) * (x[0] - x[1]) + x[2] + 0.1 * noise(77 * t + i);
            out += &format!("{name},{y:.4},{:.4},{:.4},{:.4}\n", x[0], x[1], x[2]);
        }
    }
    out
}

/// Runs a command that writes `page.html` twice, and gives the page: well-formed, without what
/// is not a number, names escaped, and the same both times but for the time it took.
#[track_caller]
fn page(place: &Place, command: &[&str], sections: &[&str]) -> String {
    let typed = [command, &["--report", "page.html"]].concat();
    let once = || {
        let said = place.run(&typed);
        assert_eq!(said.code, 0, "{}", said.stderr);
        place.read("page.html")
    };
    let (first, second) = (once(), once());
    assert_eq!(untimed(&first), untimed(&second), "the same bytes");
    assert!(first.starts_with("<!doctype html>"));
    balanced(&first);
    for odd in ["NaN", ">inf", ">-inf", "<b>&x", "<script", "http", "src="] {
        assert!(!first.contains(odd), "{odd} in the page of {command:?}");
    }
    for section in sections {
        let there = first.contains(&format!("<h2>{section}</h2>"));
        assert!(there, "no section {section} in the page of {command:?}");
    }
    assert!(
        first.contains("--report page.html</pre>"),
        "it says how it was made"
    );
    first
}

/// The page without the words for seconds.
fn untimed(page: &str) -> String {
    let mut out = String::new();
    for line in page.lines() {
        let mut line = line.replace("less than 0.1 seconds", "0.1 seconds");
        for word in [" seconds", " min "] {
            while let Some(at) = line.find(word) {
                let start = line[..at].rfind(|c: char| !c.is_ascii_digit() && c != '.');
                line.replace_range(start.map_or(0, |s| s + 1)..at + word.len(), "");
            }
        }
        out += &line;
    }
    out
}

#[track_caller]
fn balanced(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let (_, body) = page.split_once("</style>").expect("a style sheet");
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag
            .split([' ', '/'])
            .find(|part| !part.is_empty())
            .expect("a name");
        if !tag.starts_with('/') && !tag.ends_with('/') {
            open.push(name);
        } else if tag.starts_with('/') && name != "head" && name != "html" {
            assert_eq!(open.pop(), Some(name), "</{name}>");
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

#[test]
fn rows_have_pages() {
    let place = Place::new();
    place.write("train.csv", rows(0, 60));
    place.write("test.csv", rows(60, 30));
    let train = [
        "train",
        "similarity",
        "train.csv",
        "-o",
        "m",
        "--rank",
        "2",
        "--steps",
        "400",
        "--step-size",
        "0.1",
        "--valid-fraction",
        "0.2",
    ];
    let sections = ["How it learned", "A map of the rows", "What was learned"];
    let made = page(&place, &train, &sections);
    assert!(made.contains("mAP, by steps") && made.contains("Singular values"));
    assert!(made.contains("the dashed line is a simple model, `cosine`"));
    assert!(
        made.contains("<title>&lt;b&gt;&amp;x0: one</title>"),
        "names on hover"
    );
    let sections = [
        "Beside simple models",
        "By class",
        "Nearest of some",
        "A map of the rows",
    ];
    let made = page(&place, &["eval", "m", "test.csv"], &sections);
    assert!(made.contains("10 queries") && made.contains("By the cosine"));
    assert_eq!(made.matches("<div class=\"listing\">").count(), 5);

    let train = ["train", "metric", "train.csv", "-o", "d", "--rank", "2"];
    page(&place, &train, &["A map of the rows"]);
    let eval = ["eval", "d", "test.csv", "--train", "train.csv"];
    let made = page(
        &place,
        &eval,
        &["Beside simple models", "By class", "Nearest of some"],
    );
    assert!(made.contains("k-NN error by class"));

    let train = [
        "train",
        "kernel",
        "train.csv",
        "-o",
        "k",
        "--rank",
        "2",
        "--constraints",
        "80",
    ];
    page(&place, &train, &["A map of the items"]);
    page(
        &place,
        &["eval", "k", "train.csv"],
        &["By label", "Nearest of some"],
    );
}

#[test]
fn a_distribution_shows_how_sure_it_is() {
    let place = Place::new();
    place.write("train.csv", rows(0, 60));
    let train = [
        "train",
        "similarity",
        "train.csv",
        "-o",
        "m",
        "--learner",
        "aroma-factored",
        "--steps",
        "300",
        "--valid-fraction",
        "0.2",
    ];
    page(&place, &train, &["How it learned"]);
    let made = page(
        &place,
        &["eval", "m", "train.csv"],
        &["How sure it is", "By class"],
    );
    assert!(made.contains("Reliability") && made.contains("Accuracy against coverage"));
    assert!(made.contains("before calibration"));
}

#[test]
fn maps_have_a_shepard_diagram() {
    let place = Place::new();
    let at = |i: usize| (noise(i), noise(100 + i));
    let mut text = String::new();
    for (i, j) in (0..12).flat_map(|j| (0..j).map(move |i| (i, j))) {
        let apart = f64::hypot(at(i).0 - at(j).0, at(i).1 - at(j).1);
        text += &format!("{HOSTILE}{i} p{j} {apart:.4}\n");
    }
    place.write("far.txt", text);
    let train = ["train", "kernel", "--mds", "far.txt", "-o", "m"];
    let made = page(&place, &train, &["The map"]);
    assert!(made.contains("Shepard diagram") && made.contains("distance on the map"));
}

#[test]
fn ratings_and_choices_have_pages() {
    let place = Place::new();
    place.write("train.csv", ratings(false));
    place.write("test.csv", ratings(true));
    place.write(
        "titles.csv",
        format!("item,title\ni1,{HOSTILE} Alien\ni2,Brazil\n"),
    );
    let named = ["--item-names", "titles.csv"];
    let train = ["train", "completion", "train.csv", "-o", "r", "--rank", "2"];
    let made = page(
        &place,
        &[&train[..], &named].concat(),
        &["How it learned", "A map of the items"],
    );
    assert!(made.contains("<title>Brazil</title>"), "titles on hover");
    let sections = [
        "Beside simple models",
        "By ratings of the user in training",
        "By ratings of the item in training",
        "Predicted and true",
        "How sure it is",
        "Lists of some users",
    ];
    let made = page(
        &place,
        &[
            &["eval", "r", "test.csv", "--train", "train.csv"][..],
            &named,
        ]
        .concat(),
        &sections,
    );
    assert!(made.contains("said ") && made.contains("&lt;b&gt;&amp;x Alien"));

    let train = ["train", "recommend", "train.csv", "-o", "c", "--rank", "4"];
    page(&place, &train, &["A map of the items"]);
    let eval = [
        "eval",
        "c",
        "test.csv",
        "--train",
        "train.csv",
        "--item-names",
        "titles.csv",
    ];
    let sections = ["By choices of the user before", "Lists of some users"];
    let made = page(&place, &eval, &sections);
    assert!(made.contains("Chosen in the test data") && made.contains("NDCG@10"));
}

#[test]
fn labels_pairs_and_tasks_have_pages() {
    let place = Place::new();
    let mut text = String::new();
    for i in 0..60 {
        let (one, other) = (i % 4, 4 + i % 5);
        text += &format!("{one},{other} {}:1 {}:1\n", 1 + one, 1 + other);
    }
    place.write("labels.svm", text);
    let names: String = (0..9).map(|i| format!("{HOSTILE}{i}\n")).collect();
    place.write("names.txt", names);
    let train = [
        "train",
        "ranking",
        "labels.svm",
        "-o",
        "l",
        "--rank",
        "3",
        "--label-names",
        "names.txt",
    ];
    page(&place, &train, &["A map of the labels"]);
    let sections = [
        "Best labels of some rows",
        "By frequency of the label in training",
    ];
    let made = page(&place, &["eval", "l", "labels.svm"], &sections);
    assert!(
        made.contains("<b>✓</b> &lt;b&gt;&amp;x0"),
        "right ones are marked"
    );

    place.write("rows.csv", rows(0, 30));
    let value = |i: usize, j: usize| format!("r{i} r{j} {:.3}\n", noise(i) * noise(j));
    let listed: String = (1..6)
        .flat_map(|i| (15..20).map(move |j| value(i, j)))
        .collect();
    place.write("pairs.txt", listed);
    let train = [
        "train",
        "pairs",
        "rows.csv",
        "--pairs",
        "pairs.txt",
        "-o",
        "p",
        "--rank",
        "2",
        "--epochs",
        "20",
    ];
    page(&place, &train, &["How it learned", "A map of the rows"]);
    let eval = ["eval", "p", "rows.csv", "--pairs", "pairs.txt"];
    page(&place, &eval, &["By value", "Predicted and true"]);

    place.write("train.csv", tasks(0, 20));
    place.write("test.csv", tasks(20, 10));
    let train = ["train", "multitask", "train.csv", "-o", "t", "--rank", "2"];
    let made = page(&place, &train, &["What was tried", "A map of the tasks"]);
    // Errors of the first table: the least one stands first.
    let table = made.split("What was tried").nth(1).unwrap();
    let (head, rows) = table.split_once("<tbody>").unwrap();
    let column = head.split("NMSE").next().unwrap().matches("<th ").count();
    let errors: Vec<f64> = rows
        .split("</tbody>")
        .next()
        .unwrap()
        .lines()
        .filter(|row| row.starts_with("<tr>"))
        .map(|row| row.split("</t").nth(column - 1).unwrap())
        .map(|cell| cell.rsplit('>').next().unwrap().parse().unwrap())
        .collect();
    assert!(errors.len() > 1 && errors.is_sorted(), "{errors:?}");
    let eval = ["eval", "t", "test.csv", "--train", "train.csv"];
    let made = page(&place, &eval, &["By task", "Predicted and true"]);
    assert!(
        made.contains("NMSE by task") && made.contains(">10 rows") || made.contains(" 10 rows")
    );
}

#[test]
fn agents_show_who_talks_to_whom() {
    let place = Place::new();
    place.write("train.csv", ratings(false));
    let run = [
        "gossip",
        "run",
        "completion",
        "train.csv",
        "--agents",
        "4",
        "--graph",
        "ring",
        "--rank",
        "2",
        "-o",
        "m",
        "--mean-only",
    ];
    let made = page(
        &place,
        &run,
        &[
            "How it learned",
            "Who talks to whom",
            "What agents gain by talking",
            "A map of the items",
        ],
    );
    assert!(made.contains("distance of neighbors, by slots") && made.contains("cost, by slots"));
    assert_eq!(made.matches("class=\"node\"").count(), 4);
    assert_eq!(made.matches("class=\"edge\"").count(), 4);
    // Four agents and their mean, each together, alone and in one place.
    assert!(made.contains(">mean</th>") && made.contains("in one place"));
    place.write("tasks.csv", tasks(0, 20));
    let run = [
        "gossip",
        "run",
        "multitask",
        "tasks.csv",
        "--agents",
        "2",
        "--rank",
        "1",
        "-o",
        "m",
        "--mean-only",
    ];
    let made = page(&place, &run, &["What agents gain by talking"]);
    assert!(made.contains(">mean</th>"));
}

#[test]
fn simple_models_stand_beside_what_is_reached_on_validation_data() {
    let place = Place::new();
    place.write("rows.csv", rows(0, 90));
    place.write("ratings.csv", ratings(false));
    place.write("tasks.csv", tasks(0, 20));
    for (task, data, simple) in [
        ("metric", "rows.csv", "euclid"),
        ("recommend", "ratings.csv", "popularity"),
        ("multitask", "tasks.csv", "mean"),
    ] {
        let train = ["train", task, data, "-o", "m", "--rank", "2"];
        let held = ["--valid-fraction", "0.2", "--report", "page.html"];
        let said = place.run(&[&train[..], &held].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        let page = place.read("page.html");
        let fact = format!(", {simple} ");
        assert!(page.contains(&fact), "no {fact} for {task}");
    }
}

#[test]
fn a_page_needs_a_file_of_its_own_and_never_costs_the_model() {
    let place = Place::new();
    place.write("train.csv", rows(0, 30));
    let train = [
        "train",
        "similarity",
        "train.csv",
        "-o",
        "m",
        "--rank",
        "2",
        "--steps",
        "50",
    ];
    let with = |report: &str| place.run(&[&train[..], &["--report", report]].concat());
    with("-").refused("--report needs a file, not `-`");
    with("train.csv").refused("train.csv: cannot write: this file is read by the same command");
    with("m").refused("m: cannot write: two outputs have this name");
    with("no/page.html").refused("no/page.html: cannot write: its folder does not exist");
    assert_eq!(place.names(), ["train.csv"]);
    if cfg!(target_os = "linux") {
        let said = with("/dev/full");
        assert_ne!(said.code, 0);
        let kept = "the model is in `m`, only the report is missing";
        assert!(said.stderr.contains(kept), "{}", said.stderr);
        assert_eq!(place.names(), ["m", "train.csv"]);
    }
    assert_eq!(place.run(&train).code, 0);
    let eval = |report: &str| place.run(&["eval", "m", "train.csv", "--report", report]);
    eval("-").refused("--report needs a file, not `-`");
    eval("m").refused("m: cannot write: this file is read by the same command");
    let said = place.run(&["eval", "m", "train.csv", "--item-names", "x.csv"]);
    assert_eq!(said.code, 2);
}
