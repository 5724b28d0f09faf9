//! `train recommend` and what its models are asked.

use serde_json::{Value, json};

use crate::support::Place;

/// Two tastes of six items each, by twenty users; the last choice of each user is the latest.
fn clicks() -> String {
    let mut text = String::from("user,item,time\n");
    for user in 0..20 {
        for item in 0..6 {
            if (user * 7 + item * 5) % 4 != 0 {
                let of_taste = item + if user % 2 == 0 { 0 } else { 6 };
                text += &format!("u{user},i{of_taste},{}\n", item * 10 + user);
            }
        }
    }
    text
}

fn trained() -> Place {
    let place = Place::new();
    place.write("clicks.csv", clicks());
    let said = place.run(&[
        "train",
        "recommend",
        "clicks.csv",
        "-o",
        "m.safetensors",
        "--rank",
        "2",
        "--json",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.json()["task"], "recommend");
    place
}

#[test]
fn lists_leave_out_what_was_chosen_and_keep_to_the_taste() {
    let place = trained();
    let said = place.run(&["recommend", "m.safetensors", "--query", "u0", "-k", "2"]);
    let lines: Vec<Vec<&str>> = said
        .stdout
        .lines()
        .map(|l| l.split('\t').collect())
        .collect();
    assert_eq!(lines.len(), 2);
    let clicks = clicks();
    for line in &lines {
        assert!(
            !clicks.contains(&format!("u0,{},", line[2])),
            "{}",
            said.stdout
        );
    }
    let item: usize = lines[0][2][1..].parse().unwrap();
    assert!(item < 6, "{}", said.stdout);
    // The same from a file of what somebody new chose.
    place.write("new.csv", "user,item\nnew,i7\nnew,i8\n");
    let said = place.run(&["recommend", "m.safetensors", "new.csv", "-k", "3"]);
    let items = said
        .stdout
        .lines()
        .map(|l| l.split('\t').nth(2).unwrap()[1..].parse::<usize>());
    assert!(
        items
            .map(Result::unwrap)
            .all(|item| item >= 6 && item != 7 && item != 8)
    );
}

#[test]
fn titles_reasons_and_limits_are_told() {
    let place = trained();
    let titles: String = (0..12).map(|i| format!("i{i},\"Title, {i}\"\n")).collect();
    place.write("names.csv", format!("item,title\n{titles}"));
    place.write("only.txt", "i1\ni2\ni3\nnobody\n");
    let said = place.run(&[
        "recommend",
        "m.safetensors",
        "--query",
        "u1",
        "--item-names",
        "names.csv",
        "--because",
        "1",
        "-k",
        "1",
        "--only",
        "only.txt",
        "--json",
    ]);
    let found = said.json();
    let list = found["queries"][0]["items"].as_array().unwrap();
    assert_eq!(list.len(), 1);
    assert!(["i1", "i2", "i3"].contains(&list[0]["id"].as_str().unwrap()));
    assert!(list[0]["title"].as_str().unwrap().starts_with("Title, "));
    assert!(list[0]["because"].is_array());
    // All of a taste, where what was seen is shown as well.
    let all = place.run(&[
        "recommend",
        "m.safetensors",
        "--query",
        "u1",
        "-k",
        "12",
        "--exclude",
        "none",
    ]);
    assert_eq!(all.stdout.lines().count(), 12);
    place.write("more.csv", "user,item\nu1,i0\n");
    let less = place.run(&[
        "recommend",
        "m.safetensors",
        "--query",
        "u1",
        "-k",
        "12",
        "--exclude",
        "more.csv",
    ]);
    assert!(!less.stdout.contains("\ti0\t"), "{}", less.stdout);
    let varied = place.run(&[
        "recommend",
        "m.safetensors",
        "-k",
        "3",
        "--diversity",
        "0.9",
    ]);
    assert_eq!((varied.code, varied.stdout.lines().count()), (0, 60));
    let bad = place.run(&["recommend", "m.safetensors", "--diversity", "2"]);
    assert_eq!(bad.code, 2);
}

#[test]
fn eval_stands_beside_popularity_and_counts_strangers() {
    let place = Place::new();
    place.write("clicks.csv", clicks());
    let said = place.run(&[
        "split",
        "clicks.csv",
        "-o",
        "c",
        "--by",
        "user",
        "--last",
        "1",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(place.read("c.test.csv").lines().count(), 21);
    place.run(&[
        "train",
        "recommend",
        "c.train.csv",
        "-o",
        "m.safetensors",
        "--rank",
        "2",
        "-q",
    ]);
    let found = place.run(&[
        "eval",
        "m.safetensors",
        "c.test.csv",
        "--train",
        "c.train.csv",
        "--json",
    ]);
    let found = found.json();
    let (model, popular) = (&found["metrics"], &found["baseline"]["metrics"]);
    assert!(
        model["ndcg_at_10"].as_f64() > popular["ndcg_at_10"].as_f64(),
        "{found}"
    );
    assert_eq!(found["rows"], json!(20));
    let short = place
        .run(&[
            "eval",
            "m.safetensors",
            "c.test.csv",
            "--top",
            "3",
            "--json",
        ])
        .json();
    assert!(short["metrics"]["hit_rate_at_3"].is_number());
    let compared = [
        "eval",
        "m.safetensors",
        "c.test.csv",
        "--baselines",
        "ease,neighbors",
        "--json",
    ];
    let compared = place.run(&compared).json();
    let names: Vec<&Value> = compared["baselines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|baseline| &baseline["name"])
        .collect();
    assert_eq!(names, ["ease", "neighbors"]);
    // A model of ratings is measured by lists where --train is given.
    place.write(
        "r.csv",
        "user,item,rating\na,x,5\na,y,1\nb,x,4\nb,z,2\nc,y,3\nc,z,5\n",
    );
    place.write("t.csv", "user,item,rating\na,z,3\n");
    place.run(&[
        "train",
        "completion",
        "r.csv",
        "-o",
        "r.safetensors",
        "--learner",
        "als",
        "--regularization",
        "1",
        "--rank",
        "1",
        "-q",
    ]);
    let rated = place
        .run(&[
            "eval",
            "r.safetensors",
            "t.csv",
            "--train",
            "r.csv",
            "--json",
        ])
        .json();
    assert!(rated["metrics"]["rmse"].is_number() && rated["metrics"]["ndcg_at_10"].is_number());
    assert_eq!(rated["baselines"][1]["name"], "popularity");
    let plain = place
        .run(&["eval", "r.safetensors", "t.csv", "--json"])
        .json();
    assert_eq!(plain["metrics"]["ndcg_at_10"], Value::Null);
}

#[test]
fn streams_add_users_and_items() {
    let place = trained();
    let lines: String = (0..20)
        .step_by(2)
        .map(|user| format!("{{\"user\":\"u{user}\",\"item\":\"fresh\"}}\n"))
        .chain([
            "{\"user\":\"new\",\"item\":\"i0\"}\n".into(),
            "{\"user\":\"new\",\"item\":\"i2\",\"weight\":2}\n".into(),
        ])
        .collect();
    let said = place.run_with(
        &["update", "m.safetensors", "-o", "u.safetensors", "--json"],
        &lines,
    );
    let found = said.json();
    assert_eq!(
        (&found["steps"], &found["new_users"], &found["new_items"]),
        (&json!(12), &json!(1), &json!(1))
    );
    assert!(found["ndcg_at_10"].is_number());
    let said = place.run(&["recommend", "u.safetensors", "--query", "new", "-k", "5"]);
    assert!(said.stdout.contains("\tfresh\t"), "{}", said.stdout);
    // A bad line ends it, with what came before kept.
    let broken =
        "{\"user\":\"a\",\"item\":\"i1\"}\n{\"user\":\"a\",\"item\":\"i1\",\"weight\":-1}\n";
    let said = place.run_with(&["update", "m.safetensors", "-o", "b.safetensors"], broken);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("line 2") || said.stderr.contains(":2"),
        "{}",
        said.stderr
    );
    let said = place.run(&["info", "b.safetensors", "--json"]).stdout;
    let found: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(found["users"], json!(21));
}

#[test]
fn neighbors_transform_and_predict_know_users_and_items() {
    let place = trained();
    let said = place.run(&["neighbors", "m.safetensors", "--query", "i0", "-k", "3"]);
    let near: Vec<usize> = said
        .stdout
        .lines()
        .map(|l| l.split('\t').nth(2).unwrap()[1..].parse().unwrap())
        .collect();
    assert!(
        near.iter().filter(|i| **i < 6).count() >= 2,
        "{}",
        said.stdout
    );
    let said = place.run(&[
        "neighbors",
        "m.safetensors",
        "--query",
        "u0",
        "-k",
        "3",
        "--side",
        "left",
    ]);
    assert!(
        said.stdout.lines().all(|l| l.starts_with("u0\t")),
        "{}",
        said.stdout
    );
    for side in ["left", "right"] {
        let out = format!("{side}.csv");
        let said = place.run(&["transform", "m.safetensors", "-o", &out, "--side", side]);
        assert_eq!(said.code, 0, "{}", said.stderr);
    }
    assert_eq!(place.read("left.csv").lines().count(), 21);
    place.write("pairs.csv", "user,item\nu0,i1\nu0,i7\nnobody,i1\n");
    let said = place.run(&["predict", "m.safetensors", "pairs.csv"]);
    let scores: Vec<f64> = said.stdout.lines().map(|l| l.parse().unwrap()).collect();
    assert!(scores[0] > scores[1] && scores[2] == 0.0, "{scores:?}");
    assert_eq!(
        place
            .run(&["predict", "m.safetensors", "pairs.csv", "--strict"])
            .code,
        2
    );
    // Flags of other models are refused.
    let said = place.run(&["neighbors", "m.safetensors", "clicks.csv", "--query", "i0"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert_eq!(place.run(&["rank", "m.safetensors", "clicks.csv"]).code, 2);
}

#[test]
fn bad_input_says_what_helps() {
    let place = Place::new();
    place.write("r.csv", "user,item,rating\na,x,5\nb,x,1\n");
    let said = place.run(&["train", "recommend", "r.csv", "-o", "m.safetensors"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("--liked-from"), "{}", said.stderr);
    let said = place.run(&[
        "train",
        "recommend",
        "r.csv",
        "-o",
        "m.safetensors",
        "--liked-from",
        "4",
    ]);
    assert!(
        said.stderr.contains("1 lines have a lower rating"),
        "{}",
        said.stderr
    );
    for (name, text, what) in [
        ("empty.csv", "user,item\n", "no choices"),
        (
            "columns.csv",
            "who,what\na,b\n",
            "name them with `--columns USER,ITEM",
        ),
        (
            "weight.csv",
            "user,item,weight\na,x,0\n",
            "a weight above 0",
        ),
        ("rows.npy", "", "choices are read from"),
    ] {
        place.write(name, text);
        let said = place.run(&["train", "recommend", name, "-o", "n.safetensors"]);
        assert_eq!(said.code, 2, "{name}: {}", said.stderr);
        assert!(said.stderr.contains(what), "{name}: {}", said.stderr);
        assert!(!place.path("n.safetensors").exists());
    }
    let said = place.run(&[
        "train",
        "recommend",
        "r.csv",
        "-o",
        "m.safetensors",
        "--rank",
        "9",
    ]);
    assert!(
        said.code == 2 && said.stderr.contains("above the number of items"),
        "{}",
        said.stderr
    );
    let said = place.run(&["split", "r.csv", "-o", "p", "--last", "1"]);
    assert_eq!(said.code, 2);
}

#[test]
fn users_without_a_choice_are_known_by_their_features() {
    let place = Place::new();
    place.write("clicks.csv", clicks());
    let mut rows = "id,even,odd\n".to_owned();
    for user in 0..24 {
        rows += &format!("u{user},{},{}\n", (user + 1) % 2, user % 2);
    }
    place.write("people.csv", rows);
    let train = |people: &str| {
        let run = ["train", "recommend", "clicks.csv", "-o", "m.safetensors"];
        let more = ["--rank", "2", "--user-rows", people, "--json"];
        place.run(&[&run[..], &more].concat())
    };
    let said = train("people.csv").json();
    assert_eq!(said["users_without_choice"], 4, "{said}");
    // The first two items are of the taste.
    for user in 20..24 {
        let name = format!("u{user}");
        let run = [
            "recommend",
            "m.safetensors",
            "-k",
            "2",
            "--json",
            "--query",
            &name,
        ];
        let said = place.run(&run).json();
        for item in said["queries"][0]["items"].as_array().unwrap() {
            let item: usize = item["id"].as_str().unwrap()[1..].parse().unwrap();
            assert_eq!(item / 6, user % 2, "{said}");
        }
    }
    place.write("strangers.csv", "id,a,b\nx,0,1\ny,1,0\n");
    let said = train("strangers.csv");
    let message = "no row of features is of a user who chose something";
    assert!(said.stderr.contains(message), "{}", said.stderr);
    let said = place.run(&["recommend", "m.safetensors", "--rank-by", "upper"]);
    assert_eq!(said.code, 2);
    let message = "--rank-by does not apply to";
    assert!(said.stderr.contains(message), "{}", said.stderr);
}

#[test]
fn a_table_of_choices_may_be_wide() {
    let place = Place::new();
    place.write(
        "wide.csv",
        "user,a,b,c,d\nann,1,0,,2\nbob,x,yes,no,\ncarl,,1,1,0\ndora,1,1,,1\n",
    );
    place.write(
        "long.csv",
        "user,item,weight\nann,a,1\nann,d,2\nbob,a,1\nbob,b,1\ncarl,b,1\ncarl,c,1\ndora,a,1\ndora,b,1\ndora,d,1\n",
    );
    let train = |data: &str, more: &[&str]| {
        let mut words = vec!["train", "recommend", data, "-o", "out", "--rank", "1"];
        words.extend(more);
        let said = place.run(&words);
        assert_eq!(said.code, 0, "{}", said.stderr);
        std::fs::read(place.path("out")).expect("a model")
    };
    assert!(train("wide.csv", &["--wide"]) == train("long.csv", &[]));
}
