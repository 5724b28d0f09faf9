//! `train completion` and what follows it.

use serde_json::{Value, json};

use crate::support::{Place, Said};

/// What a user thinks of an item: biases, a matrix of rank 2, and a little noise.
fn truth(u: usize, i: usize) -> f64 {
    let (x, y) = (u as f64, i as f64);
    let level = 3.0 + 0.2 * ((u % 5) as f64 - 2.0) + 0.3 * ((i % 4) as f64 - 1.5);
    let taste = 0.8 * x.sin() * (2.0 * y).cos() + 0.6 * (3.0 * x).cos() * y.sin();
    let key = rankfold::data::split_key(0, (1009 * u + i) as u64) >> 40;
    level + taste + 0.2 * (key as f64 / f64::from(1 << 24) - 0.5)
}

fn line(u: usize, i: usize) -> String {
    format!("u{u},i{i},{:.3}\n", truth(u, i))
}

/// Ratings of 30 items by 40 users: most in `train.csv`, a tenth in `test.csv`, a
/// tenth nowhere.
fn place() -> Place {
    let place = Place::new();
    let head = "user,item,rating\n".to_owned();
    let (mut train, mut test) = (head.clone(), head);
    for u in 0..40 {
        for i in 0..30 {
            match (7 * u + 11 * i) % 10 {
                0 => test += &line(u, i),
                1 => {}
                _ => train += &line(u, i),
            }
        }
    }
    place.write("train.csv", train);
    place.write("test.csv", test);
    place
}

fn train(place: &Place, more: &[&str]) -> Said {
    // An option of `more` takes the place of the one here.
    let rank = match more.contains(&"--rank") {
        true => &[][..],
        false => &["--rank", "2"],
    };
    let run = ["train", "completion", "train.csv", "-o", "m", "--quiet"];
    place.run(&[&run[..], rank, more].concat())
}

#[track_caller]
fn trained(place: &Place, more: &[&str]) {
    let said = train(place, more);
    assert_eq!(said.code, 0, "{more:?}: {}", said.stderr);
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

fn test_rmse(place: &Place) -> f64 {
    let found = place.run(&["eval", "m", "test.csv", "--json"]).json();
    number(&found["metrics"]["rmse"])
}

fn numbers(said: &Said) -> Vec<f64> {
    assert_eq!(said.code, 0, "{}", said.stderr);
    said.stdout.lines().map(|l| l.parse().unwrap()).collect()
}

fn info(place: &Place, model: &str) -> Value {
    place.run(&["info", model, "--json"]).json_without_seconds()
}

fn bytes(place: &Place, name: &str) -> Vec<u8> {
    std::fs::read(place.path(name)).unwrap()
}

/// Ratings as a stream of JSON lines.
fn stream(ratings: &[(&str, &str, f64)]) -> String {
    let line = |&(user, item, rating): &(&str, &str, f64)| {
        json!({ "user": user, "item": item, "rating": rating }).to_string() + "\n"
    };
    ratings.iter().map(line).collect()
}

#[test]
fn ratings_go_through_every_command() {
    let place = place();
    let said = train(&place, &["--json", "--seed", "5"]).json();
    let want = json!({
        "format": 1, "task": "completion", "learner": "bayes", "solver": "own", "rank": 2,
        "refused": 0, "step_size": null, "regularization": null, "seed": 5,
        "users": 40, "items": 30, "ratings": 960, "repeated": 0, "model": "m",
    });
    for (name, value) in want.as_object().unwrap() {
        assert_eq!(&said[name], value, "{name}");
    }
    assert_eq!(said["steps"], said["updates"]);
    assert!(["steps", "converged"].contains(&said["stopped"].as_str().unwrap()));
    assert!(number(&said["noise"]) < 0.12, "{said}");
    assert!(said["metrics"].is_object());

    let found = place.run(&["eval", "m", "test.csv", "--json"]).json();
    let keys: Vec<&String> = found.as_object().unwrap().keys().collect();
    let want = [
        "baseline",
        "baselines",
        "format",
        "metrics",
        "repeated",
        "rows",
        "skipped",
        "task",
        "unknown_items",
        "unknown_users",
    ];
    assert_eq!(keys, want);
    for (name, value) in [
        ("format", 1),
        ("rows", 120),
        ("skipped", 0),
        ("repeated", 0),
    ] {
        assert_eq!(found[name], value, "{name}");
    }
    assert_eq!(found["task"], "completion");
    assert_eq!(found["baseline"]["name"], "biases");
    for side in [&found["metrics"], &found["baseline"]["metrics"]] {
        assert!(number(&side["mae"]) <= number(&side["rmse"]));
    }
    assert!(number(&found["metrics"]["rmse"]) < 0.15, "{found}");
    assert!(
        number(&found["baseline"]["metrics"]["rmse"]) > 0.4,
        "{found}"
    );
    let said = place.run(&["eval", "m", "test.csv"]);
    assert!(said.stdout.contains("biases") && said.stdout.contains("120 ratings"));

    let card = info(&place, "m");
    let want = json!({
        "task": "completion", "learner": "bayes", "solver": "own", "users": 40, "items": 30,
        "ratings": 960, "biases": true, "shape": [40, 30], "rank": 2, "form": "factored",
        "precision": "f32", "regularization": null, "penalty_power": null, "seed": 5,
        // (40 + 30) · 2 − 2²
        "parameters": 136,
    });
    for (name, value) in want.as_object().unwrap() {
        assert_eq!(&card[name], value, "{name}");
    }
    assert_eq!(card["singular_values"].as_array().unwrap().len(), 2);
    assert!((number(&card["mean"]) - 3.0).abs() < 0.3);
    assert!(card["scale"].as_str().unwrap().contains(" to "));
    let said = place.run(&["info", "m"]);
    assert!(
        said.stdout.contains("users            40"),
        "{}",
        said.stdout
    );
}

#[test]
fn every_learner_predicts() {
    let place = place();
    for (more, most) in [
        (&["--learner", "bayes", "--no-implicit"][..], 0.15),
        (&["--learner", "als"], 0.15),
        (
            &[
                "--learner",
                "als",
                "--regularization",
                "0.1",
                "--penalty-power",
                "1",
            ],
            0.25,
        ),
        (&["--learner", "polar"], 0.2),
        (
            &[
                "--learner",
                "polar",
                "--retraction",
                "qf",
                "--solver",
                "trust-region",
            ],
            0.2,
        ),
        (&["--learner", "balanced"], 0.2),
        (&["--learner", "balanced", "--solver", "descent"], 0.25),
        (&["--learner", "gradient"], 0.2),
        (&["--learner", "grassmann"], 0.2),
        (&["--learner", "embedded"], 0.2),
        (&["--learner", "svp"], 0.2),
        (&["--learner", "optspace"], 0.2),
        (&["--learner", "loreta"], 0.15),
        (&["--learner", "polar", "--solver", "online"], 0.15),
        (&["--learner", "balanced", "--solver", "online"], 0.15),
        (
            &[
                "--learner",
                "gradient",
                "--solver",
                "online",
                "--step-size",
                "0.1",
            ],
            0.2,
        ),
        (&["--precision", "f64", "--valid-fraction", "0.2"], 0.15),
        (&["--learner", "als", "--init", "random"], 0.15),
        (&["--learner", "als", "--init", "continuation"], 0.15),
    ] {
        trained(&place, more);
        let rmse = test_rmse(&place);
        assert!(rmse < most, "{more:?}: {rmse}");
        let card = info(&place, "m");
        if let Some(at) = more.iter().position(|&o| o == "--learner") {
            assert_eq!(card["learner"], more[at + 1]);
        }
        if let Some(at) = more.iter().position(|&o| o == "--solver") {
            assert_eq!(card["solver"], more[at + 1]);
        }
        if let Some(at) = more.iter().position(|&o| o == "--precision") {
            assert_eq!(card["precision"], more[at + 1]);
        }
    }
    // Biases are a part of W then, so that it takes two ranks more.
    for learner in ["als", "grassmann", "balanced"] {
        let start = ["--init", "continuation", "--rank", "4"];
        trained(
            &place,
            &[&["--learner", learner, "--no-bias"][..], &start].concat(),
        );
        let rmse = test_rmse(&place);
        assert!(rmse < 0.3, "{learner}: {rmse}");
        assert_eq!(info(&place, "m")["biases"], false);
    }
}

#[test]
fn choices_are_made_on_validation_ratings() {
    let place = place();
    let said = train(&place, &["--learner", "als", "--rank", "1..4", "--json"]).json();
    assert!([2, 3].map(Value::from).contains(&said["rank"]), "{said}");
    let trials = said["trials"].as_array().unwrap();
    assert!(trials.iter().any(|t| t["settings"]["rank"] == 1), "{said}");
    assert!(number(&said["metrics"]["rmse"]) < 0.15, "{said}");

    let more = ["--learner", "als", "--valid", "test.csv", "--json"];
    let said = train(&place, &more).json();
    assert!((number(&said["metrics"]["rmse"]) - test_rmse(&place)).abs() < 1e-6);
    let history = &info(&place, "m")["history"];
    assert_eq!(history[0]["metrics"]["rmse"], said["metrics"]["rmse"]);
    // Nothing to choose, nothing held out.
    let more = ["--learner", "als", "--regularization", "0.1", "--json"];
    let said = train(&place, &more).json();
    assert_eq!(
        (&said["trials"], &said["metrics"]),
        (&json!([]), &json!({}))
    );
    assert_eq!(said["regularization"], 0.1);
    place.write("valid.csv", "user,item,rating\nu1,i1,x\n");
    train(&place, &["--valid", "valid.csv"]).refused("valid.csv:2: expected a rating, found `x`");
}

#[test]
fn predictions_are_clipped() {
    let place = place();
    place.write("all.csv", bytes(&place, "train.csv"));
    let ends = |place: &Place| {
        let found = numbers(&place.run(&["predict", "m", "all.csv"]));
        let low = found.iter().copied().fold(f64::INFINITY, f64::min);
        (low, found.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    };
    trained(&place, &["--clip", "2.5,3.5"]);
    assert_eq!(ends(&place), (2.5, 3.5));
    assert_eq!(info(&place, "m")["scale"], "2.5 to 3.5");
    trained(&place, &["--clip", "-1,2.75"]);
    assert_eq!(ends(&place).1, 2.75);
    trained(&place, &["--clip", "none"]);
    assert_eq!(info(&place, "m")["scale"], Value::Null);
    // Items that are clipped alike are told apart in recommendations.
    trained(&place, &["--clip", "0,1"]);
    let clipped = place
        .run(&["recommend", "m", "--query", "u4", "-k", "5"])
        .stdout;
    trained(&place, &["--clip", "none"]);
    let plain = place
        .run(&["recommend", "m", "--query", "u4", "-k", "5"])
        .stdout;
    let items = |text: &str| -> Vec<String> {
        let item = |line: &str| line.split('\t').nth(2).unwrap().to_owned();
        text.lines().map(item).collect()
    };
    assert_eq!(items(&clipped), items(&plain));
    assert!(
        clipped.lines().all(|line| line.ends_with("\t1")),
        "{clipped}"
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_with_any_number_of_threads() {
    let place = place();
    for more in [
        &[][..],
        &["--learner", "als"],
        &["--learner", "polar", "--precision", "f64"],
        &["--learner", "grassmann"],
        &[
            "--learner",
            "balanced",
            "--solver",
            "online",
            "--step-size",
            "0.1",
        ],
    ] {
        let run = |name: &str, threads: &str, seed: &str| {
            let run = ["train", "completion", "train.csv", "--quiet", "--rank", "2"];
            let how = ["-o", name, "--threads", threads, "--seed", seed];
            let said = place.run(&[&run[..], &how, more].concat());
            assert_eq!(said.code, 0, "{}", said.stderr);
        };
        run("a", "1", "7");
        run("b", "3", "7");
        run("c", "1", "8");
        assert!(bytes(&place, "a") == bytes(&place, "b"), "{more:?}");
        assert!(bytes(&place, "a") != bytes(&place, "c"), "{more:?}");
    }
    let lists = ["1", "3"].map(|threads| {
        let run = ["recommend", "a", "train.csv", "--threads", threads];
        place.run(&run).stdout
    });
    assert_eq!(lists[0], lists[1]);
}

#[test]
fn predictions_keep_their_order_and_say_what_is_unknown() {
    let place = place();
    trained(&place, &[]);
    place.write(
        "p.csv",
        "item,user\ni0,u0\ni0,nobody\nnothing,u0\nnothing,nobody\ni7,u3\n",
    );
    let said = place.run(&["predict", "m", "p.csv"]);
    let found = numbers(&said);
    assert!((found[0] - truth(0, 0)).abs() < 0.3, "{found:?}");
    assert!((found[4] - truth(3, 7)).abs() < 0.3, "{found:?}");
    // A stranger gets the mean and what is known of the item.
    assert!((found[3] - number(&info(&place, "m")["mean"])).abs() < 1e-12);
    assert!(found[1] != found[3] && found[2] != found[3], "{found:?}");
    assert_eq!(
        said.stderr,
        "3 of 5 pairs have a user or an item that the model does not know\n"
    );
    let said = place
        .run(&["predict", "m", "p.csv", "--json", "--quiet"])
        .json();
    let want = json!({
        "format": 1, "task": "completion", "scores": found, "pairs": 5, "unknown": 3,
    });
    assert_eq!(said, want);
    // What came before the line is written already.
    let strict = |line: &str, message: &str| {
        place.write("p.csv", format!("user,item\nu0,i0\n{line}\n"));
        let said = place.run(&["predict", "m", "p.csv", "--strict"]);
        let message = format!("error: p.csv:3: {message}\n");
        assert_eq!((said.code, said.stderr), (2, message));
        assert_eq!(said.stdout, format!("{}\n", found[0]));
    };
    strict("nobody,i0", "the model knows no user `nobody`");
    strict("u0,nothing", "the model knows no item `nothing`");
    // Without a header from stdin; a rating beside the pair changes nothing.
    let said = place.run_with(&["predict", "m", "-"], "u0::i0::3\nu3::i7::4\n");
    assert_eq!(numbers(&said), [found[0], found[4]]);
    place.write("p.csv", "user,item\nu0,\n");
    place
        .run(&["predict", "m", "p.csv"])
        .refused("p.csv:2: expected an item, found nothing");
    // Nothing asked, nothing answered.
    place.write("p.csv", "user,item\n");
    assert_eq!(numbers(&place.run(&["predict", "m", "p.csv"])), [0.0; 0]);
    let more = ["predict", "m", "p.csv", "--rows", "train.csv"];
    place
        .run(&more)
        .refused("--rows does not apply to rating models");

    // Without biases a stranger gets those that would be used without W.
    trained(&place, &["--no-bias", "--rank", "4", "--learner", "als"]);
    place.write("p.csv", "user,item\nnobody,nothing\nnobody,i0\n");
    let found = numbers(&place.run(&["predict", "m", "p.csv", "--quiet"]));
    assert!((found[0] - 3.0).abs() < 0.3, "{found:?}");
}

#[test]
fn predictions_say_how_sure_they_are() {
    let place = place();
    trained(&place, &[]);
    let ask = |more: &[&str]| place.run(&[&["predict", "m", "test.csv"][..], more].concat());
    let plain = numbers(&ask(&[]));
    let said = ask(&["--uncertainty"]);
    let rows: Vec<Vec<f64>> = said
        .stdout
        .lines()
        .map(|line| line.split('\t').map(|v| v.parse().unwrap()).collect())
        .collect();
    assert_eq!(rows.iter().map(|r| r[0]).collect::<Vec<_>>(), plain);
    assert!(
        rows.iter()
            .all(|r| r[1] > 0.0 && r[2] < r[0] && r[0] < r[3])
    );
    // About as many ratings lie in the intervals as should.
    let test = std::fs::read_to_string(place.path("test.csv")).unwrap();
    let truth = test.lines().skip(1).map(|l| l.rsplit(',').next().unwrap());
    let inside = truth.zip(&rows).filter(|(y, r)| {
        let y: f64 = y.parse().unwrap();
        (r[2]..r[3]).contains(&y)
    });
    let share = inside.count() as f64 / rows.len() as f64;
    assert!(share > 0.88, "{share}");
    let json = ask(&["--uncertainty", "--level", "0.5", "--json"]).json();
    assert_eq!(json["sd"][3], rows[3][1]);
    assert!(number(&json["high"][3]) < rows[3][3]);
    // Of a stranger less is known, and of new ratings something.
    place.write("p.csv", "user,item\nu3,i4\nnobody,i4\nnobody,nothing\n");
    let sd = |model: &str| -> Vec<f64> {
        let run = [
            "predict",
            model,
            "p.csv",
            "--uncertainty",
            "--json",
            "--quiet",
        ];
        let said = place.run(&run).json();
        said["sd"].as_array().unwrap().iter().map(number).collect()
    };
    let found = sd("m");
    assert!(found[0] < found[1] && found[1] < found[2], "{found:?}");
    place.write(
        "new.jsonl",
        stream(&[("nobody", "i4", 3.0), ("nobody", "i7", 4.0)]),
    );
    assert_eq!(place.run(&["update", "m", "new.jsonl", "-o", "n"]).code, 0);
    assert!(sd("n")[1] < found[1]);
    // Lists by upper bounds, with the ratings and how sure they are.
    let list = |more: &[&str]| -> Vec<(String, f64, f64)> {
        let run = ["recommend", "m", "--query", "u3", "-k", "99", "--json"];
        let said = place.run(&[&run[..], more].concat()).json();
        let items = said["queries"][0]["items"].as_array().unwrap().clone();
        let one = |item: &Value| {
            let sd = item["sd"].as_f64().unwrap_or(0.0);
            (item["id"].to_string(), number(&item["score"]), sd)
        };
        items.iter().map(one).collect()
    };
    let (plain, upper) = (
        list(&[]),
        list(&["--rank-by", "upper", "--explore", "1000"]),
    );
    let bound = |item: &(String, f64, f64)| item.1 + 1000.0 * item.2;
    assert!(upper.iter().all(|item| item.2 > 0.0));
    // Ratings are clipped, and what ranks is not.
    let inside = |item: &&(String, f64, f64)| item.1 > 1.01 && item.1 < 4.99;
    let kept: Vec<_> = upper.iter().filter(inside).collect();
    assert!(
        kept.windows(2)
            .all(|two| bound(two[0]) >= bound(two[1]) - 1e-6)
    );
    let sorted = |list: &[(String, f64, f64)]| {
        let mut out: Vec<_> = list.iter().map(|i| (i.0.clone(), i.1.to_bits())).collect();
        out.sort();
        out
    };
    assert_eq!(sorted(&plain), sorted(&upper));
    let ids = |list: &[(String, f64, f64)]| list.iter().map(|i| i.0.clone()).collect::<Vec<_>>();
    assert_ne!(ids(&plain), ids(&upper));
    assert_eq!(
        ids(&plain),
        ids(&list(&["--rank-by", "upper", "--explore", "0"]))
    );
    trained(&place, &["--learner", "als", "--regularization", "0.5"]);
    place
        .run(&["recommend", "m", "--rank-by", "upper"])
        .refused("m: `als` does not learn how sure it is: expected a model of `bayes`");
    place
        .run(&["recommend", "m", "--explore", "2"])
        .refused("--explore applies only to `--rank-by upper`");
    ask(&["--uncertainty"])
        .refused("m: `als` does not learn how sure it is: expected a model of `bayes`");
}

#[test]
fn the_rank_is_chosen() {
    let place = place();
    let said = train(&place, &["--rank", "auto", "--json"]).json();
    assert!((2.0..=4.0).contains(&number(&said["rank"])), "{said}");
    assert!(test_rmse(&place) < 0.15);
    // Biases and noise alone: nothing is left to explain.
    let mut text = "user,item,rating\n".to_owned();
    for (u, i) in (0..300).map(|t| (t % 10, t / 10)) {
        let key = rankfold::data::split_key(1, (1009 * u + i) as u64) >> 40;
        let noise = key as f64 / f64::from(1 << 24) - 0.5;
        text += &format!("u{u},i{i},{:.3}\n", u as f64 * 0.1 + (i % 3) as f64 + noise);
    }
    place.write("train.csv", &text);
    let said = train(&place, &["--rank", "auto"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let found = place.run(&["eval", "m", "train.csv", "--json"]).json();
    let [model, biases] = [&found["metrics"], &found["baseline"]["metrics"]];
    assert!(
        number(&model["rmse"]) < 1.1 * number(&biases["rmse"]),
        "{found}"
    );
}

#[test]
fn exact_matrices_are_told_from_noise() {
    let place = Place::new();
    let value = |r: usize, c: usize| {
        let (x, y) = (r as f64, c as f64);
        (1.7 * x).sin() * (0.9 * y).cos() + 2.0 * (0.3 * x + 1.0).cos() * (2.1 * y).sin()
    };
    let (mut train, mut test) = (
        "user,item,rating\n".to_owned(),
        "user,item,rating\n".to_owned(),
    );
    for (r, c) in (0..600).map(|t| (t / 20, t % 20)) {
        let line = format!("{r},{c},{:.15}\n", value(r, c));
        match rankfold::data::split_key(3, (20 * r + c) as u64) % 100 < 55 {
            true => train += &line,
            false => test += &line,
        }
    }
    place.write("train.csv", train);
    place.write("test.csv", test);
    let run = [
        "train",
        "completion",
        "train.csv",
        "-o",
        "m",
        "--clip",
        "none",
    ];
    let said = place
        .run(&[&run[..], &["--precision", "f64", "--json"]].concat())
        .json();
    assert_eq!(
        (&said["learner"], &said["rank"]),
        (&json!("grassmann"), &json!(2))
    );
    assert!(test_rmse(&place) < 1e-6, "{}", test_rmse(&place));
}

#[test]
fn recommendations_leave_out_what_is_known() {
    let place = place();
    trained(&place, &["--clip", "none"]);
    let run = |more: &[&str]| {
        let said = place.run(&[&["recommend", "m"][..], more].concat());
        assert_eq!((said.code, said.stderr.as_str()), (0, ""));
        let fields = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        said.stdout.lines().map(fields).collect::<Vec<_>>()
    };
    let new = run(&["train.csv", "--query", "u3", "--query", "u1", "-k", "2"]);
    assert_eq!(new.len(), 4);
    assert_eq!(
        (&new[0][..2], &new[1][..2]),
        (
            &["u3", "1"].map(String::from)[..],
            &["u3", "2"].map(String::from)[..]
        )
    );
    assert_eq!(new[2][0], "u1");
    let data = place.read("train.csv");
    for line in &new {
        assert!(
            !data.contains(&format!("\n{},{},", line[0], line[2])),
            "{line:?}"
        );
    }
    let score = |line: &Vec<String>| line[3].parse::<f64>().unwrap();
    assert!(score(&new[0]) >= score(&new[1]));
    // Of everything the first is the best there is, whatever was rated.
    let all = run(&["--query", "u3", "-k", "100"]);
    assert_eq!(all.len(), 30);
    assert!(score(&all[0]) >= score(&new[0]));
    let liked = |line: &Vec<String>| truth(3, line[2][1..].parse().unwrap());
    let most = (0..30).map(|i| truth(3, i)).fold(0.0, f64::max);
    assert!(liked(&all[0]) > most - 0.3 && liked(&all[29]) < most - 1.0);
    // All users, in the order in which they came; six items each are new.
    let everybody = run(&["train.csv", "-k", "100"]);
    assert_eq!(everybody.len(), 40 * 6);
    assert_eq!(
        (everybody[0][0].as_str(), everybody[239][0].as_str()),
        ("u0", "u39")
    );
    // Pairs will do, and others than the model knows are no error.
    place.write(
        "seen.csv",
        format!("user,item\nu3,{}\nnobody,i1\nu3,nothing\n", all[0][2]),
    );
    let rest = run(&["seen.csv", "--query", "u3", "-k", "100"]);
    assert_eq!(rest.len(), 29);
    assert_eq!(rest[0][2], all[1][2]);

    let json = place
        .run(&["recommend", "m", "--query", "u3", "-k", "1", "--json"])
        .json();
    let want = json!({
        "format": 1, "task": "completion", "k": 1,
        "queries": [{ "query": "u3", "items": [{ "id": all[0][2], "score": score(&all[0]) }] }],
    });
    assert_eq!(json, want);
    let said = place.run(&["recommend", "m", "--query", "nobody"]);
    said.refused("m: the model knows no user `nobody`");
    let said = place.run(&["recommend", "m", "-k", "0"]);
    assert_eq!(said.code, 2);
}

const NEWS: [(&str, &str, f64); 4] = [
    ("new", "i0", 4.0),
    ("u1", "novel", 2.0),
    ("new", "novel", 2.5),
    ("newer", "newest", 3.5),
];

#[test]
fn models_go_on_with_new_ratings() {
    let place = place();
    place.write("s.jsonl", stream(&NEWS));
    for (more, rule) in [
        (&[][..], "fold-in"),
        (&["--learner", "als"], "fold-in"),
        (&["--learner", "grassmann"], "fold-in"),
        (&["--learner", "polar"], "polar"),
        (&["--learner", "balanced"], "balanced"),
        (&["--learner", "gradient"], "gradient"),
        (
            &[
                "--learner",
                "balanced",
                "--solver",
                "online",
                "--step-size",
                "0.1",
            ],
            "balanced",
        ),
        (&["--learner", "loreta", "--step-size", "0.1"], "loreta"),
    ] {
        trained(&place, more);
        let before = bytes(&place, "m");
        let run = ["update", "m", "s.jsonl", "-o", "more", "--quiet", "--json"];
        let said = place.run(&run).json();
        assert!(before == bytes(&place, "m"));
        for (name, value) in [
            ("steps", 4),
            ("refused", 0),
            ("new_users", 2),
            ("new_items", 2),
            ("users", 42),
            ("items", 32),
        ] {
            assert_eq!(said[name], value, "{more:?} {name}");
        }
        assert_eq!(
            (&said["rule"], &said["stopped"]),
            (&json!(rule), &json!("end"))
        );
        let card = info(&place, "more");
        assert_eq!(
            (&card["shape"], &card["ratings"]),
            (&json!([42, 32]), &json!(964))
        );
        assert_eq!(card["rank"], 2);
        let rmse = |model: &str| {
            let found = place.run(&["eval", model, "test.csv", "--json"]).json();
            number(&found["metrics"]["rmse"])
        };
        assert!(rmse("more") < rmse("m") + 0.05, "{more:?}");
        // Those who were new are recommended to.
        let said = place.run(&["recommend", "more", "s.jsonl", "--query", "new", "-k", "99"]);
        assert_eq!((said.code, said.stdout.lines().count()), (0, 30));

        // Two sittings give the bytes of one, and a model may be replaced.
        place.write("first.jsonl", stream(&NEWS[..1]));
        place.write("rest.jsonl", stream(&NEWS[1..]));
        place.run(&["update", "m", "first.jsonl", "-o", "m"]);
        place.run(&["update", "m", "rest.jsonl", "-o", "m"]);
        assert!(bytes(&place, "m") == bytes(&place, "more"), "{more:?}");
    }
}

#[test]
fn what_a_new_user_likes_is_learned() {
    let place = place();
    trained(&place, &["--learner", "als", "--clip", "none"]);
    // A new user with the taste of user 4.
    let names: Vec<String> = (0..30).map(|i| format!("i{i}")).collect();
    let ratings: Vec<_> = (0..20)
        .map(|i| ("twin", names[i].as_str(), truth(4, i)))
        .collect();
    place.run_with(&["update", "m", "-o", "m"], &stream(&ratings));
    let pairs: String = (20..30).map(|i| format!("twin i{i}\n")).collect();
    let found = numbers(&place.run_with(&["predict", "m", "-"], &pairs));
    let error: f64 = (20..30)
        .map(|i| (found[i - 20] - truth(4, i)).powi(2))
        .sum();
    assert!((error / 10.0).sqrt() < 0.25, "{found:?}");
}

#[test]
fn a_broken_line_keeps_what_was_learned_before() {
    let place = place();
    trained(&place, &[]);
    place.write("s.jsonl", stream(&NEWS));
    place.run(&["update", "m", "s.jsonl", "-o", "want"]);
    let note = "ratings are folded in by least squares for their users and items\n\
        `m2` holds what was learned from the 4 ratings before\n";
    for (line, message) in [
        (
            "{\"user\":\"x\",\"item\":\"y\"}",
            "expected a field `rating`",
        ),
        (
            "{\"user\":\"x\",\"item\":\"y\",\"rating\":\"good\"}",
            "expected a rating, found `good`",
        ),
        (
            "{\"user\":\"x\",\"item\":\"y\",\"rating\":1e300}",
            "the rating `1000000000000000000000000000000000000000…` is too large",
        ),
        (
            "{\"user\":\"x\",\"item\":\"y\",\"rating\":1e999}",
            "column 37: number out of range",
        ),
        ("x", "expected a JSON object, found `x`"),
    ] {
        place.write("bad.jsonl", stream(&NEWS) + line + "\n" + &stream(&NEWS));
        let said = place.run(&["update", "m", "bad.jsonl", "-o", "m2"]);
        let want = format!("{note}error: bad.jsonl:5: {message}\n");
        assert_eq!((said.code, said.stderr.as_str()), (2, want.as_str()));
        assert!(bytes(&place, "m2") == bytes(&place, "want"), "{message}");
    }
    let more = ["update", "m", "s.jsonl", "-o", "m3"];
    let with = |option: [&str; 2]| place.run(&[&more[..], &option].concat());
    with(["--step-size", "3"])
        .refused("the model folds ratings in by least squares, which have no step size");
    with(["--rows", "train.csv"]).refused("--rows does not apply to rating models");
    assert!(!place.names().contains(&"m3".to_owned()));
}

#[test]
fn of_repeated_ratings_the_last_counts() {
    let place = place();
    let data = place.read("train.csv");
    place.write("train.csv", data.clone() + "u0,i2,1\nu0,i2,4\n");
    let run = ["train", "completion", "train.csv", "-o", "m", "--rank", "2"];
    let said = place.run(&run);
    assert!(
        said.stderr
            .contains("2 ratings were replaced by later ones of the same user and item\n"),
        "{}",
        said.stderr
    );
    let said = train(&place, &["--json"]).json();
    assert_eq!(
        (&said["repeated"], &said["ratings"]),
        (&json!(2), &json!(960))
    );
    let once = data.lines().map(|line| match line.starts_with("u0,i2,") {
        true => "u0,i2,4\n".to_owned(),
        false => format!("{line}\n"),
    });
    place.write("train.csv", once.collect::<String>());
    let twice = bytes(&place, "m");
    trained(&place, &[]);
    assert!(twice == bytes(&place, "m"));
}

#[test]
fn few_ratings_and_equal_ones_are_no_trouble() {
    let place = place();
    let learners = [
        "auto",
        "als",
        "polar",
        "balanced",
        "gradient",
        "grassmann",
        "embedded",
        "svp",
        "optspace",
        "loreta",
    ];
    // One rating only.
    let all = place.read("train.csv");
    place.write("train.csv", "user,item,rating\nann,x,4\n");
    for learner in learners {
        let said = train(&place, &["--learner", learner, "--rank", "1"]);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{learner}");
        assert_eq!(
            numbers(&place.run(&["predict", "m", "train.csv"])),
            [4.0],
            "{learner}"
        );
    }
    // All alike.
    let equal = |line: &str| match line.rsplit_once(',') {
        Some((pair, _)) if line.starts_with('u') && !line.starts_with("user") => {
            format!("{pair},3\n")
        }
        _ => format!("{line}\n"),
    };
    place.write("train.csv", all.lines().map(equal).collect::<String>());
    for learner in learners {
        trained(&place, &["--learner", learner, "--clip", "none"]);
        let found = numbers(&place.run(&["predict", "m", "train.csv"]));
        let off = found.iter().map(|r| (r - 3.0).abs()).fold(0.0, f64::max);
        assert!(off < 1e-3, "{learner}: {off}");
    }
    // A user with one rating, and an item that only the test has.
    place.write("train.csv", all + "lonely,i1,4\n");
    place.write(
        "test.csv",
        "user,item,rating\nlonely,i2,3\nlonely,unseen,3\nu1,unseen,3\n",
    );
    for learner in learners {
        trained(&place, &["--learner", learner]);
        let said = place
            .run(&["eval", "m", "test.csv", "--json", "--quiet"])
            .json();
        assert_eq!(
            (&said["rows"], &said["unknown_items"]),
            (&json!(3), &json!(2))
        );
        assert!(number(&said["metrics"]["rmse"]) < 1.5, "{learner}: {said}");
    }
    let said = place.run(&["eval", "m", "test.csv"]);
    assert_eq!(
        said.stderr,
        "2 ratings are of items that the model does not know\n"
    );
}

#[test]
fn ratings_come_in_other_columns_and_formats() {
    let place = place();
    trained(&place, &["--learner", "als", "--regularization", "0.1"]);
    let want = bytes(&place, "m");
    let data = place.read("train.csv");
    let rows = data
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>());
    let dat: String = rows
        .clone()
        .map(|r| format!("{}::{}::{}::99\n", r[0], r[1], r[2]))
        .collect();
    let odd: String = rows
        .map(|r| format!("{}\t9\t{}\t{}\n", r[2], r[0], r[1]))
        .collect();
    place.write("a.dat", dat);
    place.write("a.tsv", format!("stars\ttime\tperson\tfilm\n{odd}"));
    for (file, more) in [
        ("a.dat", &[][..]),
        ("a.tsv", &["--columns", "person,film,stars"]),
    ] {
        let run = [
            "train",
            "completion",
            file,
            "-o",
            "m",
            "--rank",
            "2",
            "--quiet",
        ];
        let how = ["--learner", "als", "--regularization", "0.1"];
        let said = place.run(&[&run[..], &how, more].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        // The names of columns are kept in the model.
        assert_eq!(bytes(&place, "m") == want, more.is_empty(), "{file}");
    }
    let said = place.run(&["eval", "m", "a.tsv"]);
    assert!(said.stdout.contains("960 ratings"), "{}", said.stdout);
}

#[test]
fn bad_input_is_refused() {
    let place = place();
    for (text, message) in [
        (
            "user,item,rating\na,x,good\n",
            "bad.csv:2: expected a rating, found `good`",
        ),
        (
            "user,item,rating\na,x,3\na,y,NaN\n",
            "bad.csv:3: expected a rating, found `NaN`",
        ),
        (
            "user,item,rating\na,x,inf\n",
            "bad.csv:2: expected a rating, found `inf`",
        ),
        (
            "user,item,rating\na,x,1e31\n",
            "bad.csv:2: the rating `1e31` is too large",
        ),
        (
            "user,item,rating\n,x,1\n",
            "bad.csv:2: expected a user, found nothing",
        ),
        (
            "user,item\na,x\n",
            "bad.csv: found the columns `user`, `item`, and it is not clear which has the ratings; name \
             them with `--columns USER,ITEM,RATING`",
        ),
        (
            "user,item,rating\na,x\n",
            "bad.csv:2: expected 3 fields, found 2",
        ),
        ("", "bad.csv: no ratings"),
        ("user,item,rating\n", "bad.csv: no ratings"),
    ] {
        place.write("bad.csv", text);
        place
            .run(&["train", "completion", "bad.csv", "-o", "n"])
            .refused(message);
    }
    place
        .run(&["eval", "m", "bad.csv"])
        .refused("m: cannot read: No such file or directory (os error 2)");
    let rank = "--rank is 31, above the 30 that a matrix of 40 by 30 has";
    train(&place, &["--rank", "31"]).refused(&format!("train.csv: {rank}"));
    train(&place, &["--rank", "2..31"]).refused(&format!("train.csv: {rank}"));
    for (option, value, want) in [
        (
            "--rank",
            "0",
            "`auto`, a rank of at least 1, or a rising range `FIRST..LAST`",
        ),
        (
            "--rank",
            "5..2",
            "`auto`, a rank of at least 1, or a rising range `FIRST..LAST`",
        ),
        (
            "--clip",
            "5,1",
            "`auto`, `none` or a rising range `LOW,HIGH`",
        ),
        (
            "--clip",
            "1,inf",
            "`auto`, `none` or a rising range `LOW,HIGH`",
        ),
    ] {
        train(&place, &[option, value])
            .refused(&format!("{option}: expected {want}, found `{value}`"));
    }
    train(&place, &["--columns", "user,item"])
        .refused("--columns expected three names, USER,ITEM,RATING, found `user,item`");
    for (more, message) in [
        (
            &["--learner", "als", "--regularization=-1"][..],
            "--regularization must be at least 0, found -1",
        ),
        (
            &["--learner", "grassmann", "--regularization", "2"],
            "--regularization must be at most 1 for `grassmann`, found 2",
        ),
        (
            &["--regularization", "1"],
            "--regularization applies only to learners with a penalty: not `auto`, `bayes`, `svp`, `optspace` and `loreta`",
        ),
        (
            &["--learner", "als", "--step-size", "1"],
            "--step-size applies only to `--solver online`",
        ),
        (
            &["--learner", "als", "--penalty-power", "2"],
            "--penalty-power must be at least 0 and at most 1, found 2",
        ),
        (
            &["--valid-fraction", "1"],
            "--valid-fraction must be at least 0 and below 1, found 1",
        ),
        (
            &["--iterations", "0"],
            "--iterations must be at least 1, found 0",
        ),
        (
            &["--learner", "als", "--solver", "online"],
            "--solver cannot be `online` for `als`",
        ),
        (
            &["--learner", "bayes", "--solver", "cg"],
            "--solver cannot be `cg` for `bayes`",
        ),
        (
            &["--learner", "grassmann", "--solver", "online"],
            "--solver cannot be `online` for `grassmann`",
        ),
        (
            &["--learner", "loreta", "--solver", "cg"],
            "--solver cannot be `cg` for `loreta`",
        ),
    ] {
        train(&place, more).refused(message);
    }
    let data = bytes(&place, "train.csv");
    place
        .run(&["train", "completion", "train.csv", "-o", "train.csv"])
        .refused("train.csv: cannot write: this file is read by the same command");
    assert!(data == bytes(&place, "train.csv"));
    assert_eq!(place.names(), ["bad.csv", "test.csv", "train.csv"]);
}

#[test]
fn models_of_other_tasks_are_told_apart() {
    let place = place();
    trained(&place, &[]);
    place
        .run(&["neighbors", "m", "train.csv", "--query", "u0"])
        .refused("train.csv: the model has users and items of its own: leave DATA out");
    place
        .run(&["rank", "m", "train.csv", "--query", "u0"])
        .refused("m: a model for completion ranks no labels: expected one for ranking");
    place
        .run(&["eval", "m", "train.csv", "--pairs", "test.csv"])
        .refused("--pairs does not apply to rating models");
    place
        .run(&["eval", "m", "train.csv", "--labels", "x"])
        .refused("--labels does not apply to rating models");
    place.write("r.svm", "1 1:1\n1 1:1 2:1\n2 2:1\n2 2:2\n");
    let run = [
        "train",
        "similarity",
        "r.svm",
        "-o",
        "s",
        "--rank",
        "1",
        "--steps",
        "10",
    ];
    place.run(&[&run[..], &["--step-size", "1"]].concat());
    place
        .run(&["recommend", "s", "train.csv"])
        .refused("s: expected a model of `train completion`, found one of `train similarity`");
}

#[test]
fn the_first_step_of_descent_can_be_given() {
    let place = place();
    let descent = [
        "--learner",
        "polar",
        "--solver",
        "descent",
        "--iterations",
        "2",
        "--regularization",
        "1",
    ];
    trained(&place, &descent);
    let usual = test_rmse(&place);
    trained(&place, &[&descent[..], &["--first-step", "1e-6"]].concat());
    assert!(test_rmse(&place) != usual);
    train(&place, &["--learner", "polar", "--first-step", "1"])
        .refused("--first-step applies only to `--solver descent`");
}
