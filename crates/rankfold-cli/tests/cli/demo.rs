use crate::support::Place;

#[test]
fn the_demo_improves_the_search_and_writes_its_report() {
    let place = Place::new();
    let shown = place.run(&["demo", "--json", "--report", "r.html"]).json();
    for metric in ["map", "precision_at_1", "precision_at_10"] {
        let value = |part: &str| shown[part][metric].as_f64().expect("a number");
        assert!(value("after") > value("before"), "{metric}: {shown}");
    }
    assert!(shown["after"]["map"].as_f64() > Some(0.9), "{shown}");
    let page = place.read("r.html");
    assert!(page.contains("<svg") && page.contains("CC BY 4.0") && !page.contains("<script"));
    let said = place.run(&["demo"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert!(
        said.stdout.contains("before") && said.stdout.contains("precision_at_10"),
        "{}",
        said.stdout
    );
}

#[test]
fn the_shop_is_learned_and_its_choices_can_be_used() {
    let place = Place::new();
    let words = ["demo", "recommend", "--json", "--data", "clicks.csv"];
    let shown = place.run(&words).json();
    for metric in ["ndcg_at_10", "recall_at_10", "hit_rate_at_10"] {
        let value = |part: &str| shown[part][metric].as_f64().expect("a number");
        assert!(value("after") > 1.5 * value("before"), "{metric}: {shown}");
    }
    assert_eq!(shown["lists"].as_array().map(Vec::len), Some(3), "{shown}");
    assert!(
        place
            .read("clicks.csv")
            .starts_with("user,item\ncustomer-0,")
    );
    let split = [
        "split",
        "clicks.csv",
        "-o",
        "c",
        "--by",
        "user",
        "--test",
        "0.2",
    ];
    assert_eq!(place.run(&split).code, 0);
    let said = place.run(&["demo", "recommend", "--report", "r.html"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let page = place.read("r.html");
    assert!(page.contains("<svg") && page.contains("sleeping bag") && !page.contains("<script"));
}

#[test]
fn the_digits_can_be_used() {
    let place = Place::new();
    let shown = place
        .run(&["demo", "--json", "--data", "digits.csv"])
        .json();
    assert_eq!(shown["data"], "digits.csv");
    for words in [
        "split digits.csv -o d --where split=test",
        "train metric d.train.csv -o m --rank 5 --quiet",
        "eval m d.test.csv --train d.train.csv --quiet",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let said = place.run(&words);
        assert_eq!(said.code, 0, "{}", said.stderr);
    }
}
