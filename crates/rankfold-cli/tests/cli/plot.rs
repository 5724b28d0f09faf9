//! Pictures of learning curves.

use crate::support::Place;

const CURVE: &str = "{\"steps\":100,\"seconds\":0.5,\"loss\":2.5,\"map\":0.31,\"updates\":9}
{\"steps\":200,\"seconds\":1.0,\"loss\":null,\"map\":0.5,\"agents\":[1,2]}

{\"steps\":300,\"seconds\":1.5,\"loss\":0.5,\"map\":0.62}
";

#[test]
fn a_curve_becomes_a_picture() {
    let place = Place::new();
    place.write("a <b>.jsonl", CURVE);
    let said = place.run(&["plot", "a <b>.jsonl", "-o", "c.svg"]);
    assert!(
        said.stderr.contains("`agents` is not a number"),
        "{}",
        said.stderr
    );
    let said = place.run(&["plot", "a <b>.jsonl", "-o", "c.svg", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(told["metrics"], serde_json::json!(["loss", "map"]));
    assert_eq!(told["points"], 3);
    let picture = place.read("c.svg");
    assert!(picture.starts_with("<svg xmlns="), "{picture}");
    assert!(picture.contains("a &lt;b&gt;"), "names are escaped");
    // The line of the loss has a hole where nothing was measured.
    assert_eq!(picture.matches("<path d=\"M").count(), 2);
    let holes = picture
        .lines()
        .filter(|line| line.contains("<path"))
        .map(|line| line.matches('M').count());
    assert_eq!(holes.collect::<Vec<_>>(), [2, 1]);
    assert!(picture.contains(">0.6200<") && picture.contains(">steps<"));
}

#[test]
fn curves_share_panels_and_axes() {
    let place = Place::new();
    place.write("a.jsonl", CURVE);
    place.write("b.jsonl", CURVE.replace("0.62", "0.615"));
    let asked = [
        "plot", "a.jsonl", "b.jsonl", "-o", "-", "--metric", "map", "--x", "seconds", "--log",
    ];
    let said = place.run(&asked);
    assert_eq!(said.stdout.matches("<path d=").count(), 2);
    assert!(said.stdout.contains(">seconds<") && said.stdout.contains(">1e"));
    assert_eq!(place.names(), ["a.jsonl", "b.jsonl"]);
}

#[test]
fn what_cannot_be_drawn_is_refused_in_words() {
    let place = Place::new();
    place.write("a.jsonl", CURVE);
    place.write("bad.jsonl", "{\"steps\":1,\"map\":1}\nnothing\n");
    place.write("empty.jsonl", "\n");
    place.write("counts.jsonl", "{\"steps\":1,\"updates\":1}\n");
    place.write("zero.jsonl", "{\"steps\":0,\"loss\":0}\n");
    let refused = |arguments: &[&str], message: &str| {
        let said = place.run(&[&["plot"][..], arguments].concat());
        assert_eq!((said.code, said.stdout.as_str()), (2, ""));
        assert!(said.stderr.contains(message), "{}", said.stderr);
    };
    refused(
        &["bad.jsonl", "-o", "c.svg"],
        "bad.jsonl:2: expected a point of --curve",
    );
    refused(&["empty.jsonl", "-o", "c.svg"], "no points");
    refused(&["counts.jsonl", "-o", "c.svg"], "measures nothing");
    refused(
        &["zero.jsonl", "-o", "c.svg", "--log"],
        "values of 0 or below",
    );
    refused(&["a.jsonl", "-o", "c.png"], "must end in `.svg`");
    refused(
        &["a.jsonl", "-o", "c.svg", "--metric", "rmse"],
        "there are `loss`, `map`",
    );
    refused(&["a.jsonl", "-o", "a.jsonl"], "read by the same command");
    assert!(!place.path("c.svg").exists());
    // One point, at zero, is a dot.
    place.run(&["plot", "zero.jsonl", "-o", "c.svg"]);
    assert!(place.read("c.svg").contains("<circle"));
}
