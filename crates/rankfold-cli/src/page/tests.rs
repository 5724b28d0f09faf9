use super::*;

/// Names as they may stand in anybody's file.
const HOSTILE: &str = "<script>alert(\"1\")</script> & 'more' \u{0}\u{7}\u{202e}end";

/// A page with every kind of block, all text and numbers from the caller.
fn every_kind(text: &str, number: f64) -> Page {
    let mut section = Section::new(text, text);
    section.draw(
        text,
        text,
        Chart::Lines(Lines {
            x: text.into(),
            y: text.into(),
            lines: vec![
                Line {
                    name: text.into(),
                    points: vec![(0.0, 1.0), (1.0, number), (2.0, 3.0)],
                    marked: true,
                },
                Line {
                    name: "other".into(),
                    points: vec![(number, 1.0)],
                    marked: false,
                },
            ],
            level: Some((text.into(), number)),
            ..Lines::default()
        }),
    );
    let group = |value: f64| Bar {
        name: text.into(),
        note: text.into(),
        values: vec![value, 0.5],
    };
    section.draw(
        text,
        text,
        Chart::Bars(Bars {
            series: vec![text.into(), "plain".into()],
            groups: vec![group(number), group(0.25)],
            own_scales: false,
            most: None,
        }),
    );
    section.draw(text, text, Chart::Columns(vec![number, 2.0, 1.0]));
    let mark = |x: f64, group: Option<&str>| Mark {
        x,
        y: 1.0,
        name: text.into(),
        group: group.map(str::to_owned),
    };
    for map in [true, false] {
        section.draw(
            text,
            text,
            Chart::Scatter(Scatter {
                x: text.into(),
                y: text.into(),
                marks: vec![
                    mark(number, Some(text)),
                    mark(1.0, Some("b")),
                    mark(2.0, None),
                ],
                map,
                diagonal: !map,
            }),
        );
    }
    section.draw(
        text,
        text,
        Chart::Graph(Graph {
            nodes: vec![text.into(), "b".into()],
            edges: vec![(0, 1, number), (0, 9, 1.0)],
            what: text.into(),
        }),
    );
    section.tables.push(Table {
        caption: text.into(),
        head: vec![text.into()],
        rows: vec![vec![text.into(), figures::exact(number)]],
        folded: true,
    });
    section.lists.push(Listing {
        title: text.into(),
        note: text.into(),
        lists: vec![(
            text.into(),
            vec![Entry {
                text: text.into(),
                note: text.into(),
                right: Some(false),
            }],
        )],
    });
    Page {
        kicker: text.into(),
        title: text.into(),
        lead: text.into(),
        facts: vec![(text.into(), text.into())],
        command: text.into(),
        sections: vec![section],
    }
}

/// Every tag that opens is closed, in order.
#[track_caller]
fn balanced(page: &str) {
    let mut open = Vec::new();
    let (head, rest) = page.split_once("<style>").expect("a style sheet");
    let (_, body) = rest.split_once("</style>").expect("its end");
    for tag in format!("{head}{body}").split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag
            .split([' ', '/'])
            .find(|part| !part.is_empty())
            .expect("a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "</{name}>");
        } else if !tag.ends_with('/') && !["!doctype", "meta"].contains(&name) {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

#[test]
fn any_name_is_shown_and_none_is_run() {
    let page = every_kind(HOSTILE, 1.5).html().unwrap();
    balanced(&page);
    assert!(!page.contains("<script"), "names are escaped");
    assert!(page.contains("&lt;script&gt;"));
    let odd = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!page.contains(odd), "no control characters");
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
        let page = every_kind("plain", odd).html().unwrap();
        balanced(&page);
        assert!(!page.contains("NaN") && !page.contains(">inf"), "{odd}");
    }
}

#[test]
fn nothing_is_loaded_and_ids_are_single() {
    let page = every_kind("plain", 2.0).html().unwrap();
    for loader in [
        "src=", "url(", "@import", "<link", "<script", "<img", "srcset", "href", "http",
    ] {
        assert!(!page.contains(loader), "{loader} in the page");
    }
    let mut ids: Vec<_> = page
        .split(" id=\"")
        .skip(1)
        .map(|rest| rest.split('"').next())
        .collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), count), (12, 12));
}

#[test]
fn a_page_without_anything_is_one() {
    let mut page = Page::default();
    page.add(Section::new("empty", "no"));
    let page = page.html().unwrap();
    balanced(&page);
    assert!(!page.contains("empty"));
    let section = Section {
        figures: vec![Figure {
            title: "gone".into(),
            deck: String::new(),
            chart: Chart::Columns(vec![f64::NAN]),
        }],
        ..Section::default()
    };
    let page = Page {
        sections: vec![section],
        ..Page::default()
    };
    assert!(!page.html().unwrap().contains("gone"), "nothing to draw");
}

#[test]
fn samples_are_even_and_whole_where_they_can_be() {
    assert_eq!(sample(3, 5), [0, 1, 2]);
    assert_eq!(sample(10, 5), [0, 2, 4, 6, 8]);
    assert_eq!(sample(0, 5), Vec::<usize>::new());
    assert_eq!(short(&"é".repeat(200)).chars().count(), LONGEST + 1);
}
