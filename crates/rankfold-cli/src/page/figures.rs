//! What all figures share: measures on paper, numbers on axes, and the tables behind charts.

use minijinja::{Value, context};

use super::{Chart, Figure, Table, bars, clean, graph, lines, scatter};
use crate::chart::scale::{Scale, Ticks, bounds};
use crate::chart::words::{count, fixed, place, tick};

/// Every chart is laid out this wide, close to its size on the page, so that its type stays
/// legible on a phone.
pub const WIDTH: f64 = 480.0;
/// Room for the numbers at the left.
pub const LEFT: f64 = 66.0;
/// Where the plot ends.
pub const RIGHT: f64 = 412.0;

/// What the template sees of a figure; none where nothing can be drawn.
pub fn view(figure: &Figure, number: usize) -> Option<Value> {
    let (kind, chart, description) = match &figure.chart {
        Chart::Lines(lines) => ("lines", lines::view(lines)?, lines::describe(lines)),
        Chart::Bars(bars) => ("bars", bars::view(bars)?, bars::describe(bars)),
        Chart::Columns(values) => ("columns", columns(values)?, describe_columns(values)),
        Chart::Scatter(scatter) => {
            let description = scatter::describe(scatter);
            ("scatter", scatter::view(scatter)?, description)
        }
        Chart::Graph(graph) => ("graph", graph::view(graph)?, graph::describe(graph)),
    };
    Some(context! {
        id => format!("figure-{number}"),
        kind, chart,
        title => clean(&figure.title),
        deck => clean(&figure.deck),
        description => clean(&description),
    })
}

/// The numbers of a chart as a table, for those who cannot see it or want them all.
pub fn numbers(figure: &Figure) -> Option<Table> {
    let mut table = match &figure.chart {
        Chart::Lines(lines) => lines::numbers(lines),
        Chart::Columns(values) => Table {
            head: vec!["number".into(), "value".into()],
            rows: (1..)
                .zip(values)
                .map(|(i, value): (usize, &f64)| vec![i.to_string(), exact(*value)])
                .collect(),
            ..Table::default()
        },
        Chart::Bars(_) | Chart::Scatter(_) | Chart::Graph(_) => return None,
    };
    table.caption.clone_from(&figure.title);
    table.folded = true;
    Some(table)
}

/// A number with four digits that count.
pub fn exact(value: f64) -> String {
    if !value.is_finite() {
        return fixed(value, 0);
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e9).contains(&size) {
        return format!("{value:.2e}").replace('-', "−");
    }
    if value == value.trunc() {
        let sign = if value < 0.0 { "−" } else { "" };
        return format!("{sign}{}", count(size as u64));
    }
    let decimals = match size {
        _ if size >= 1000.0 => 1,
        _ if size >= 100.0 => 2,
        _ if size >= 1.0 => 3,
        _ if size >= 0.01 => 4,
        _ => 6,
    };
    fixed(value, decimals)
}

/// Numbers on an axis with their places.
pub fn ticks(ticks: &Ticks, scale: &Scale, within: (f64, f64)) -> Vec<Value> {
    let slack = (within.1 - within.0).abs() * 1e-9;
    let kept = ticks
        .values
        .iter()
        .filter(|v| **v >= within.0 - slack && **v <= within.1 + slack);
    kept.map(|v| {
        let text = match ticks.decimals > 4 || v.abs() >= 1e7 {
            true if *v != 0.0 => format!("{v:.0e}").replace('-', "−"),
            _ => tick(*v, ticks.decimals.min(4)),
        };
        context! { at => place(scale.at(*v)), text }
    })
    .collect()
}

/// Upright bars from zero, numbered from one.
fn columns(values: &[f64]) -> Option<Value> {
    // As many labels as there is room for on a phone.
    bars(values, 190.0, 56.0, compact)
}

/// Bars of a picture of this height, each with room for its number; a label needs this width.
pub fn bars(
    values: &[f64],
    height: f64,
    label: f64,
    text: impl Fn(f64) -> String,
) -> Option<Value> {
    let (_, high) = bounds(values.iter().copied())?;
    let (top, bottom) = (26.0, 142.0);
    let slot = WIDTH / values.len() as f64;
    let width = (slot * 0.72).min(44.0);
    let y = Scale::new((0.0, high), (bottom, top));
    // As many labels as there is room for, and always the first.
    let every = (label / slot).ceil().max(1.0) as usize;
    let bars = values.iter().enumerate().map(|(i, value)| {
        let up = match value.is_finite() {
            true => y.at(value.max(0.0)),
            false => bottom,
        };
        let middle = (i as f64 + 0.5) * slot;
        context! {
            x => place(middle - width / 2.0),
            y => place(up),
            height => place(bottom - up),
            middle => place(middle),
            text_y => place(up - 6.0),
            number => i + 1,
            text => text(*value),
            labelled => i % every == 0,
        }
    });
    Some(context! {
        width => WIDTH, height, bottom,
        bar_width => place(width),
        bars => bars.collect::<Vec<_>>(),
    })
}

/// A number that stands above a bar.
pub fn compact(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => fixed(value, 0),
        size if size != 0.0 && !(0.001..1e5).contains(&size) => {
            format!("{value:.0e}").replace('-', "−")
        }
        size if size >= 100.0 => fixed(value, 0),
        size if size >= 10.0 => fixed(value, 1),
        _ => fixed(value, 2),
    }
}

fn describe_columns(values: &[f64]) -> String {
    match (values.first(), values.last()) {
        (Some(first), Some(last)) => format!(
            "{} bars, from {} to {}.",
            values.len(),
            exact(*first),
            exact(*last)
        ),
        _ => String::new(),
    }
}
