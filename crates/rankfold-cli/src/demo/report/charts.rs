//! Lines and bars: from numbers to the positions that `charts.html` draws.
//!
//! Every chart is laid out 480 units wide, close to its size on the page, so
//! that the type in it stays legible on a phone. A chart without a single
//! finite number is none, and the page leaves it out.

use minijinja::{Value, context};

use super::DigitPrecision;
use crate::chart::path;
use crate::chart::scale::{Scale, Ticks, bounds};
use crate::chart::words::{fixed, place, signed, tick};
use crate::page::figures::bars;

const WIDTH: f64 = 480.0;
/// Room for the numbers at the left of a line chart.
const LEFT: f64 = 40.0;
/// Where the plot ends, so that the last value can be written beside it.
const RIGHT: f64 = 424.0;
const TOP: f64 = 12.0;
/// Thickness of a lying bar.
const BAR: f64 = 18.0;

/// A line over the steps 0 to `last`, with a dashed line at `level`.
pub fn line(points: &[(f64, f64)], last: f64, level: Option<f64>, height: f64) -> Value {
    let level = level.filter(|level| level.is_finite());
    let Some((low, high)) = bounds(points.iter().map(|p| p.1)) else {
        return Value::from(());
    };
    // Values that may not be negative start at zero unless far from it, where
    // the interesting part would be squeezed flat.
    let (low, high) = level.map_or((low, high), |level| (low.min(level), high.max(level)));
    let low = if low > 0.0 && low < 0.5 * high {
        0.0
    } else {
        low
    };
    let y_ticks = Ticks::around(low, high, if height > 200.0 { 5 } else { 3 });
    let x_ticks = Ticks::around(0.0, last, 5);
    let bottom = height - 28.0;
    // The last tick may lie beyond the last step: the line uses the full width.
    let x = Scale::new((0.0, if last > 0.0 { last } else { 1.0 }), (LEFT, RIGHT));
    let y = Scale::new(y_ticks.ends(), (bottom, TOP));

    let placed = |value: f64, scale: &Scale, decimals| {
        context! { at => place(scale.at(value)), text => tick(value, decimals) }
    };
    let end = points.iter().rev().find(|p| p.1.is_finite());
    context! {
        width => WIDTH, height, left => LEFT, right => RIGHT, top => TOP, bottom,
        path => path(points.iter().map(|p| (x.at(p.0), y.at(p.1)))),
        x_ticks => x_ticks.values.iter().filter(|v| **v <= last)
            .map(|v| placed(*v, &x, x_ticks.decimals)).collect::<Vec<_>>(),
        y_ticks => y_ticks.values.iter()
            .map(|v| placed(*v, &y, y_ticks.decimals)).collect::<Vec<_>>(),
        end => end.map(|p| context! {
            x => place(x.at(p.0)), y => place(y.at(p.1)),
            text_x => place(x.at(p.0) + 8.0), text_y => place(y.at(p.1) + 4.0),
            text => fixed(p.1, 3),
        }),
        level => level.map(|level| {
            // The words go to the side of the dashed line where the curve is not.
            let below = end.is_none_or(|p| p.1 >= level) && y.at(level) + 18.0 < bottom;
            context! {
                y => place(y.at(level)),
                text_y => place(y.at(level) + if below { 15.0 } else { -7.0 }),
                text => fixed(level, 3),
            }
        }),
    }
}

/// Upright bars from zero, numbered from one.
pub fn columns(values: &[f64]) -> Value {
    let high = values.iter().copied().fold(0.0, f64::max);
    let decimals = if high < 10.0 { 2 } else { 1 };
    bars(values, 170.0, 32.0, |value| fixed(value, decimals)).unwrap_or_else(|| Value::from(()))
}

/// Two lying bars for each digit, from 0 to 1.
pub fn pairs(digits: &[DigitPrecision]) -> Value {
    if bounds(digits.iter().flat_map(|d| [d.before, d.after])).is_none() {
        return Value::from(());
    }
    let (left, right, top, row) = (24.0, 430.0, 6.0, 54.0);
    let x = Scale::new((0.0, 1.0), (left, right));
    let bar = |value: f64, y: f64| {
        let length = if value.is_finite() {
            x.at(value.clamp(0.0, 1.0)) - left
        } else {
            0.0
        };
        context! {
            y => place(y),
            length => place(length),
            text_x => place(left + length + 6.0),
            text_y => place(y + BAR - 4.0),
            text => fixed(value, 2),
        }
    };
    let bottom = top + row * digits.len() as f64;
    let rows = digits.iter().enumerate().map(|(i, digit)| {
        let y = top + row * i as f64;
        context! {
            label => digit.label,
            text_y => place(y + 3.0 + BAR + 5.0),
            before => bar(digit.before, y + 3.0),
            after => bar(digit.after, y + 3.0 + BAR + 1.0),
            change => signed(digit.after - digit.before, 2),
        }
    });
    let ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
        .map(|value| context! { at => place(x.at(value)), text => fixed(value, 2) });
    context! {
        width => WIDTH, height => bottom + 24.0, left, top, bottom,
        bar_height => BAR,
        rows => rows.collect::<Vec<_>>(),
        ticks => ticks.to_vec(),
    }
}
