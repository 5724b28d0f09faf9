//! Lines over a common axis: curves, and how sure a model is.

use minijinja::{Value, context};

use super::figures::{LEFT, RIGHT, WIDTH, exact, ticks};
use super::{Table, clean, sample};
use crate::chart::scale::{Scale, Ticks, bounds};
use crate::chart::words::{fixed, place};
use crate::chart::{COLORS, DASHES, path, spread};

const TOP: f64 = 30.0;
const BOTTOM: f64 = 226.0;
const HEIGHT: f64 = 272.0;

/// The most points of a line that are drawn, and that are listed in a table.
const DRAWN: usize = 600;
const LISTED: usize = 50;

/// A line through its points.
#[derive(Debug, Clone, Default)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Whether the points are marked, where there are few.
    pub marked: bool,
}

/// Lines in one frame.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    /// What the axes are, with units.
    pub x: String,
    pub y: String,
    pub lines: Vec<Line>,
    /// A dashed line across, by name.
    pub level: Option<(String, f64)>,
    /// A dashed line where both axes have the same number.
    pub diagonal: bool,
    /// The ends of both axes, where they are known.
    pub ends: Option<[(f64, f64); 2]>,
}

impl Lines {
    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.lines.iter().flat_map(|line| &line.points)
    }
}

/// Values that fall by orders of magnitude need a logarithmic axis.
fn is_wide(low: f64, high: f64) -> bool {
    low > 0.0 && high / low > 1000.0 && (high / low).is_finite()
}

pub fn view(lines: &Lines) -> Option<Value> {
    let finite = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite();
    let level = lines.level.as_ref().filter(|level| level.1.is_finite());
    let values = lines.points().filter(finite).map(|p| p.1);
    let (low, high) = bounds(values.chain(level.map(|level| level.1)))?;
    let (first, last) = bounds(lines.points().filter(finite).map(|p| p.0))?;
    let log = lines.ends.is_none() && is_wide(low, high);
    let on = |value: f64| if log { value.log10() } else { value };
    let y_ticks = match (lines.ends, log) {
        (Some([_, ends]), _) => Ticks::around(ends.0, ends.1, 5),
        (None, true) => Ticks::around(on(low).floor(), on(high).ceil(), 4),
        (None, false) => {
            let near = low > 0.0 && low < 0.5 * high;
            Ticks::around(if near { 0.0 } else { low }, high, 5)
        }
    };
    let (x_ends, y_ends) = match lines.ends {
        Some([x, y]) => (x, y),
        None => {
            let first = if first > 0.0 && first < 0.3 * last {
                0.0
            } else {
                first
            };
            let last = if last > first { last } else { first + 1.0 };
            ((first, last), y_ticks.ends())
        }
    };
    let x = Scale::new(x_ends, (LEFT, RIGHT));
    let y = Scale::new(y_ends, (BOTTOM, TOP));
    let x_ticks = Ticks::around(x_ends.0, x_ends.1, 4);
    let y_shown = match log {
        false => ticks(&y_ticks, &y, y_ends),
        true => {
            let whole = y_ticks.values.iter().filter(|v| v.fract() == 0.0);
            let text = |v: f64| match v {
                v if (-3.0..0.0).contains(&v) => fixed(10f64.powf(v), -v as usize),
                v if (0.0..=5.0).contains(&v) => exact(10f64.powf(v)),
                v => format!("1e{}", fixed(v, 0)),
            };
            whole
                .map(|v| context! { at => place(y.at(*v)), text => text(*v) })
                .collect()
        }
    };
    let end = |line: &Line| line.points.iter().rev().find(finite).copied();
    let ends = lines
        .lines
        .iter()
        .map(|line| end(line).map_or(f64::NAN, |p| y.at(on(p.1))));
    let beside = spread(&ends.collect::<Vec<_>>());
    let drawn = lines.lines.iter().enumerate().map(|(i, line)| {
        let shown = sample(line.points.len(), DRAWN);
        let places = || {
            let points = shown.iter().map(|&at| line.points[at]);
            points.map(|p| (x.at(p.0), y.at(on(p.1))))
        };
        let marks = places().filter(|p| line.marked && p.0.is_finite() && p.1.is_finite());
        context! {
            color => i % COLORS.len(),
            dashes => DASHES[i / COLORS.len() % DASHES.len()],
            name => clean(&line.name),
            path => path(places()),
            marks => marks.map(|p| context! { x => place(p.0), y => place(p.1) }).collect::<Vec<_>>(),
            end => end(line).map(|p| context! {
                x => place(x.at(p.0)), y => place(y.at(on(p.1))),
                text_y => place(beside[i] + 4.0), text => exact(p.1),
            }),
        }
    });
    let level = level.map(|(name, value)| {
        let at = y.at(on(*value));
        // The words go to the side where the first line is not.
        let above = lines.lines.first().and_then(end).is_none_or(|p| p.1 < *value);
        let down = if above || at + 20.0 > BOTTOM { -7.0 } else { 17.0 };
        context! { y => place(at), text_y => place(at + down), name => clean(name), text => exact(*value) }
    });
    let diagonal = lines.diagonal.then(|| {
        let (low, high) = (x_ends.0.max(y_ends.0), x_ends.1.min(y_ends.1));
        context! {
            x1 => place(x.at(low)), y1 => place(y.at(low)),
            x2 => place(x.at(high)), y2 => place(y.at(high)),
        }
    });
    Some(context! {
        width => WIDTH, height => HEIGHT, left => LEFT, right => RIGHT, top => TOP, bottom => BOTTOM,
        x_name => clean(&lines.x),
        y_name => match log {
            true => format!("{}, on a logarithmic axis", clean(&lines.y)),
            false => clean(&lines.y),
        },
        x_ticks => ticks(&x_ticks, &x, x_ends), y_ticks => y_shown,
        lines => drawn.collect::<Vec<_>>(),
        several => lines.lines.len() > 1,
        level, diagonal,
    })
}

pub fn describe(lines: &Lines) -> String {
    let mut text = format!("{} over {}.", lines.y, lines.x);
    for line in &lines.lines {
        let ends = line.points.first().zip(line.points.last());
        if let Some((first, last)) = ends {
            let name = if line.name.is_empty() {
                "The line"
            } else {
                &line.name
            };
            text += &format!(" {name} goes from {} to {}.", exact(first.1), exact(last.1));
        }
    }
    if let Some((name, value)) = &lines.level {
        text += &format!(" A dashed line, {name}, is at {}.", exact(*value));
    }
    text
}

/// The points as a table, a row for each place on the axis.
pub fn numbers(lines: &Lines) -> Table {
    let mut places: Vec<f64> = lines
        .points()
        .map(|p| p.0)
        .filter(|x| x.is_finite())
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut head = vec![lines.x.clone()];
    head.extend(lines.lines.iter().map(|line| match line.name.is_empty() {
        true => lines.y.clone(),
        false => line.name.clone(),
    }));
    let kept = sample(places.len(), LISTED);
    let rows = kept.into_iter().map(|at| {
        let x = places[at];
        let mut row = vec![exact(x)];
        row.extend(lines.lines.iter().map(|line| {
            let found = line.points.iter().find(|p| p.0 == x);
            found.map_or_else(String::new, |p| exact(p.1))
        }));
        row
    });
    Table {
        head,
        rows: rows.collect(),
        ..Table::default()
    }
}
