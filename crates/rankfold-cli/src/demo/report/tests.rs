use super::*;

/// A report small enough to check by eye, with a number of its own for
/// everything that is shown.
fn small() -> Report {
    let digit = |label: u8| Digit {
        label,
        points: std::array::from_fn(|i| (i * 5) as f64),
    };
    let point = |steps, loss, map| CurvePoint { steps, loss, map };
    let place = |x, y, label| MapPoint { x, y, label };
    Report {
        version: "9.8.7".to_owned(),
        command: "rankfold demo --report a.html".to_owned(),
        learner: "loreta-psd".to_owned(),
        rank: 3,
        steps: 12_345,
        seconds: 2.5,
        features: "16 numbers".to_owned(),
        train_rows: 1_500,
        test_rows: 1_000,
        before: Metrics {
            map: 0.5,
            precision_at_1: 0.625,
            precision_at_10: 0.71,
        },
        after: Metrics {
            map: 0.75,
            precision_at_1: 0.5,
            precision_at_10: 0.86,
        },
        curve: Curve {
            measured_on: "all test digits".to_owned(),
            before: 0.5,
            points: vec![
                point(0, f64::NAN, 0.4),
                point(6_000, 0.8, 0.65),
                point(12_345, 0.333, 0.75),
            ],
        },
        singular_values: vec![4.25, 1.5, 0.125],
        examples_note: "Chosen by lot.".to_owned(),
        examples: vec![Example {
            query: digit(3),
            before: vec![digit(8), digit(3)],
            after: vec![digit(3), digit(3)],
        }],
        map_before: vec![place(0.0, 0.0, 3), place(1.0, 2.0, 8)],
        map_after: vec![place(5.0, 5.0, 3), place(-5.0, 1.0, 8)],
        by_digit: vec![DigitPrecision {
            label: 3,
            before: 0.37,
            after: 0.93,
        }],
    }
}

fn page(report: &Report) -> String {
    let page = render(report).unwrap();
    assert_balanced(&page);
    assert!(!page.contains("NaN") && !page.contains("inf\""));
    page
}

/// Every tag that opens is closed, in order.
#[track_caller]
fn assert_balanced(page: &str) {
    let mut open = Vec::new();
    let body = page.split("<style>").next().unwrap().to_owned()
        + page.split("</style>").nth(1).expect("a style sheet");
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
        } else if !tag.ends_with('/') && !["!doctype", "meta", "br"].contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

#[test]
fn the_page_holds_the_numbers() {
    let page = page(&small());
    for text in [
        "rankfold 9.8.7",
        "2.5 seconds",
        "rank 3",
        "12,345",
        "1,500",
        "1,000",
        "each given as 16 numbers",
        "7.1 on average",
        "8.6.",
        ">0.500<",
        ">0.625<",
        ">0.750<",
        "+0.250",
        "−0.125",
        "+0.150",
        "before 0.500",
        ">0.333<",
        ">6,000<",
        "Measured on all test digits",
        ">4.25<",
        ">1.50<",
        ">0.37<",
        ">0.93<",
        "+0.56",
        "1 of 2 right",
        "2 of 2 right",
        "✕ 8",
        "a handwritten 8, wrong",
        "Chosen by lot.",
        "rankfold demo --report a.html",
        "Alpaydin",
        "CC BY 4.0",
        "rankfold train similarity",
    ] {
        assert!(page.contains(text), "no {text:?} in the page");
    }
}

#[test]
fn only_wrong_digits_are_marked_wrong() {
    assert_eq!(page(&small()).matches("<li class=\"wrong\">").count(), 1);
}

#[test]
fn a_stroke_is_drawn_upright_from_its_first_point() {
    let mut report = small();
    // From the lower left corner of the page to the upper right one.
    report.examples[0].query.points = std::array::from_fn(|i| if i < 2 { 0.0 } else { 100.0 });
    let page = page(&report);
    assert!(page.contains("points=\"14,86 86,14 "));
    assert!(page.contains("<circle cx=\"14\" cy=\"86\""));
}

#[test]
fn text_is_escaped() {
    let mut report = small();
    let text = "<script>alert(\"1\")</script> & more";
    for field in [
        &mut report.version,
        &mut report.command,
        &mut report.learner,
        &mut report.features,
        &mut report.examples_note,
        &mut report.curve.measured_on,
    ] {
        text.clone_into(field);
    }
    let page = page(&report);
    assert!(!page.contains("<script"));
    assert_eq!(
        page.matches("&lt;script&gt;").count(),
        7,
        "version is shown twice"
    );
}

#[test]
fn nothing_is_loaded() {
    let page = page(&small());
    for loader in [
        "src=", "url(", "@import", "<link", "<script", "<img", "srcset", "xlink",
    ] {
        assert!(!page.contains(loader), "{loader} in the page");
    }
    assert_eq!(
        page.matches("http").count(),
        page.matches("<a href=\"https://").count()
    );
}

#[test]
fn every_picture_has_a_title_and_its_id_once() {
    let page = page(&small());
    assert_eq!(
        page.matches("<svg").count(),
        page.split("<svg")
            .skip(1)
            .filter(|svg| svg.contains("<title"))
            .count()
    );
    let mut ids: Vec<_> = page
        .split(" id=\"")
        .skip(1)
        .map(|rest| rest.split('"').next())
        .collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn an_empty_report_is_a_page() {
    let mut report = small();
    report.curve.points.clear();
    report.singular_values.clear();
    report.examples.clear();
    report.map_before.clear();
    report.map_after.clear();
    report.by_digit.clear();
    let page = page(&report);
    assert!(page.contains("No measurement was recorded."));
    assert!(!page.contains("Search results") && !page.contains("<svg"));
}

#[test]
fn numbers_of_any_kind_give_a_page() {
    for odd in [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        -0.0,
        1e-310,
    ] {
        let mut report = small();
        let metrics = Metrics {
            map: odd,
            precision_at_1: odd,
            precision_at_10: odd,
        };
        (report.before, report.seconds, report.curve.before) = (metrics, odd, odd);
        report.curve.points[1].map = odd;
        report.curve.points[2].loss = odd;
        report.singular_values[1] = odd;
        report.examples[0].before[0].points = [odd; 16];
        report.map_before[0].x = odd;
        report.by_digit[0].after = odd;
        page(&report);
        report.singular_values = vec![odd];
        report.map_after = vec![
            MapPoint {
                x: odd,
                y: odd,
                label: 255
            };
            3
        ];
        report.curve.points = vec![CurvePoint {
            steps: 0,
            loss: odd,
            map: odd,
        }];
        report.examples[0].after.clear();
        page(&report);
    }
}

#[test]
fn a_gap_breaks_the_curve() {
    let mut report = small();
    report.curve.points.insert(
        2,
        CurvePoint {
            steps: 9_000,
            loss: 0.5,
            map: f64::NAN,
        },
    );
    let page = page(&report);
    let path = page.split("class=\"curve \" d=\"").nth(1).unwrap();
    assert_eq!(path.split('"').next().unwrap().matches('M').count(), 2);
}
