//! Digits as pen strokes, searches as strips of them, and rows as maps.

use minijinja::{Value, context};

use super::{Digit, Example, MapPoint};
use crate::chart::scale::{Scale, bounds};
use crate::chart::words::place;

/// A drawing is 100 units wide and high, the stroke within this margin of it.
const MARGIN: f64 = 14.0;

/// A search: the query and the two strips of what was found.
pub fn example(example: &Example) -> Value {
    let wanted = example.query.label;
    context! {
        query => drawing(&example.query, wanted),
        before => strip(&example.before, wanted),
        after => strip(&example.after, wanted),
    }
}

fn strip(found: &[Digit], wanted: u8) -> Value {
    context! {
        found => found.iter().map(|digit| drawing(digit, wanted)).collect::<Vec<_>>(),
        right => found.iter().filter(|digit| digit.label == wanted).count(),
        count => found.len(),
    }
}

fn drawing(digit: &Digit, wanted: u8) -> Value {
    let across = Scale::new((0.0, 100.0), (MARGIN, 100.0 - MARGIN));
    // On paper y grows downwards, under the pen upwards.
    let down = Scale::new((100.0, 0.0), (MARGIN, 100.0 - MARGIN));
    let points: Vec<(String, String)> = digit
        .points
        .chunks_exact(2)
        .filter(|point| point.iter().all(|number| number.is_finite()))
        .map(|point| (place(across.at(point[0])), place(down.at(point[1]))))
        .collect();
    let stroke: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
    context! {
        label => digit.label,
        wrong => digit.label != wanted,
        stroke => stroke.join(" "),
        start => points.first().map(|(x, y)| context! { x => x.as_str(), y => y.as_str() }),
    }
}

/// The two maps and the digits they have in common; none without points.
pub fn maps(before: &[MapPoint], after: &[MapPoint]) -> Value {
    let mut labels: Vec<u8> = before
        .iter()
        .chain(after)
        .map(|point| point.label)
        .collect();
    labels.sort_unstable();
    labels.dedup();
    if labels.is_empty() {
        return Value::from(());
    }
    context! {
        labels => labels.into_iter().map(mark).collect::<Vec<_>>(),
        before => map(before),
        after => map(after),
    }
}

/// A digit and the number of its color.
fn mark(label: u8) -> Value {
    context! { label, color => label % 10 }
}

/// The points in a box, with one unit the same length both ways: distances in
/// the map are what it is about.
fn map(points: &[MapPoint]) -> Value {
    let (width, height, margin) = (480.0, 420.0, 14.0);
    let middle_and_span = |values: Vec<f64>| {
        let (low, high) = bounds(values).unwrap_or((0.0, 0.0));
        (low / 2.0 + high / 2.0, high - low)
    };
    let (x, x_span) = middle_and_span(points.iter().map(|p| p.x).collect());
    let (y, y_span) = middle_and_span(points.iter().map(|p| p.y).collect());
    let unit = f64::min(
        (width - 2.0 * margin) / x_span.max(f64::MIN_POSITIVE),
        (height - 2.0 * margin) / y_span.max(f64::MIN_POSITIVE),
    );
    // Points that all coincide, or lie absurdly far apart, sit in the middle.
    let unit = if unit.is_finite() { unit } else { 0.0 };
    let marks = points
        .iter()
        .filter(|p| p.x.is_finite() && p.y.is_finite())
        .map(|p| {
            context! {
                x => place(width / 2.0 + (p.x - x) * unit),
                y => place(height / 2.0 - (p.y - y) * unit),
                ..mark(p.label)
            }
        });
    context! { width, height, marks => marks.collect::<Vec<_>>() }
}
