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
