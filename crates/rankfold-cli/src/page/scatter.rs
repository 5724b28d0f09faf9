//! Points in a plane: maps with names on hover, and predictions against the truth.

use std::collections::HashMap;

use minijinja::{Value, context};

use super::figures::{LEFT, RIGHT, WIDTH, ticks};
use super::{clean, short};
use crate::chart::COLORS;
use crate::chart::scale::{Scale, Ticks, bounds};
use crate::chart::words::{count, place};

/// Groups beyond these cannot be told apart: so many colors in three shapes.
const GROUPS: usize = COLORS.len() * 3;
/// Names that are written beside points.
const NAMED: usize = 16;

/// A point.
#[derive(Debug, Clone, Default)]
pub struct Mark {
    pub x: f64,
    pub y: f64,
    /// Shown on hover.
    pub name: String,
    /// What it belongs to, where there are groups.
    pub group: Option<String>,
}

/// Points in one frame.
#[derive(Debug, Clone, Default)]
pub struct Scatter {
    pub x: String,
    pub y: String,
    pub marks: Vec<Mark>,
    /// Whether it is a map: one unit is as long both ways, and numbers on axes mean nothing.
    pub map: bool,
    /// A dashed line where both axes have the same number.
    pub diagonal: bool,
}

/// Where points lie on paper.
struct Plane {
    x: Scale,
    y: Scale,
    height: f64,
    ends: Option<[(Ticks, (f64, f64)); 2]>,
}

impl Plane {
    fn new(scatter: &Scatter, marks: &[&Mark]) -> Option<Self> {
        let x = bounds(marks.iter().map(|mark| mark.x))?;
        let y = bounds(marks.iter().map(|mark| mark.y))?;
        if !scatter.map {
            let (x, y) = match scatter.diagonal {
                true => ((x.0.min(y.0), x.1.max(y.1)), (x.0.min(y.0), x.1.max(y.1))),
                false => (x, y),
            };
            let (x_ticks, y_ticks) = (Ticks::around(x.0, x.1, 4), Ticks::around(y.0, y.1, 4));
            let (x, y) = (x_ticks.ends(), y_ticks.ends());
            return Some(Plane {
                x: Scale::new(x, (LEFT, RIGHT)),
                y: Scale::new(y, (340.0, 30.0)),
                height: 386.0,
                ends: Some([(x_ticks, x), (y_ticks, y)]),
            });
        }
        let (width, height, margin) = (WIDTH, 420.0, 22.0);
        let unit = f64::min(
            (width - 2.0 * margin) / (x.1 - x.0).max(f64::MIN_POSITIVE),
            (height - 2.0 * margin) / (y.1 - y.0).max(f64::MIN_POSITIVE),
        );
        // Points that all coincide, or lie absurdly far apart, sit in the middle.
        let unit = if unit.is_finite() { unit } else { 0.0 };
        let around = |(low, high): (f64, f64), middle: f64, sign: f64| {
            let center = low / 2.0 + high / 2.0;
            Scale::new((center, center + 1.0), (middle, middle + sign * unit))
        };
        Some(Plane {
            x: around(x, width / 2.0, 1.0),
            y: around(y, height / 2.0, -1.0),
            height,
            ends: None,
        })
    }
}

pub fn view(scatter: &Scatter) -> Option<Value> {
    let marks = scatter.marks.iter();
    let marks = marks.filter(|mark| mark.x.is_finite() && mark.y.is_finite());
    let marks: Vec<&Mark> = marks.collect();
    let plane = Plane::new(scatter, &marks)?;
    let groups = groups(&marks);
    let place_of = |group: &Option<String>| group.as_ref().and_then(|name| groups.get(name));
    let at = |mark: &Mark| (plane.x.at(mark.x), plane.y.at(mark.y));
    let drawn = marks.iter().map(|mark| {
        let ((x, y), group) = (at(mark), place_of(&mark.group));
        let name = match &mark.group {
            Some(group) if !mark.name.is_empty() => format!("{}: {group}", mark.name),
            Some(group) => group.clone(),
            None => mark.name.clone(),
        };
        context! {
            shape => shape(group.map_or(0, |g| g / COLORS.len()), x, y),
            color => color(group, mark.group.is_some()),
            name => clean(&short(&name)),
        }
    });
    let named = match (groups.is_empty(), scatter.map) {
        (_, false) => Vec::new(),
        (true, true) => {
            let (x, y) = (WIDTH / 2.0, plane.height / 2.0);
            let mut far: Vec<(f64, &Mark)> = marks
                .iter()
                .map(|mark| ((at(mark).0 - x).hypot(at(mark).1 - y), *mark))
                .collect();
            far.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
            let far = far.into_iter().filter(|(_, mark)| !mark.name.is_empty());
            let wanted = far.map(|(_, mark)| (at(mark), mark.name.clone(), None));
            labels(wanted, plane.height)
        }
        (false, true) => {
            let mut by_size: Vec<(&String, usize)> = groups.iter().map(|(n, g)| (n, *g)).collect();
            by_size.sort_by_key(|(_, place)| *place);
            let wanted = by_size.into_iter().map(|(name, place)| {
                let own = marks
                    .iter()
                    .filter(|mark| mark.group.as_ref() == Some(name));
                let (mut xs, mut ys): (Vec<f64>, Vec<f64>) = own.map(|mark| at(mark)).unzip();
                (
                    (middle(&mut xs), middle(&mut ys)),
                    name.clone(),
                    Some(place),
                )
            });
            labels(wanted, plane.height)
        }
    };
    let mut legend: Vec<(&String, usize)> = groups.iter().map(|(n, g)| (n, *g)).collect();
    legend.sort_by_key(|(_, place)| *place);
    let legend = legend.into_iter().map(|(name, place)| {
        context! {
            name => clean(&short(name)), shape => shape(place / COLORS.len(), 7.0, 7.0),
            color => color(Some(&place), true),
        }
    });
    let others = marks
        .iter()
        .any(|m| m.group.is_some() && place_of(&m.group).is_none());
    let axes = plane.ends.as_ref().map(|[x, y]| {
        let (low, high) = (x.1.0.max(y.1.0), x.1.1.min(y.1.1));
        context! {
            left => LEFT, right => RIGHT, top => 30.0, bottom => 340.0,
            x_ticks => ticks(&x.0, &plane.x, x.1), y_ticks => ticks(&y.0, &plane.y, y.1),
            diagonal => scatter.diagonal.then(|| context! {
                x1 => place(plane.x.at(low)), y1 => place(plane.y.at(low)),
                x2 => place(plane.x.at(high)), y2 => place(plane.y.at(high)),
            }),
        }
    });
    Some(context! {
        width => WIDTH, height => plane.height,
        x_name => clean(&scatter.x), y_name => clean(&scatter.y),
        marks => drawn.collect::<Vec<_>>(), named,
        legend => legend.collect::<Vec<_>>(), others, axes,
    })
}

/// The places of groups, the largest first. Where every point has a group of its own there are
/// none: the names of the points say the same.
fn groups(marks: &[&Mark]) -> HashMap<String, usize> {
    let mut sizes: HashMap<&String, usize> = HashMap::new();
    for group in marks.iter().filter_map(|mark| mark.group.as_ref()) {
        *sizes.entry(group).or_default() += 1;
    }
    if sizes.len() < 2 {
        return HashMap::new();
    }
    let mut sizes: Vec<(&String, usize)> = sizes.into_iter().collect();
    sizes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let kept = sizes.into_iter().take(GROUPS).enumerate();
    kept.map(|(i, (name, _))| (name.clone(), i)).collect()
}

fn color(group: Option<&usize>, grouped: bool) -> String {
    match group {
        Some(place) => format!("c{}", place % COLORS.len()),
        None if grouped => "grey".into(),
        None => "c0".into(),
    }
}

/// A disc, a square or a triangle as a path.
fn shape(kind: usize, x: f64, y: f64) -> String {
    match kind {
        0 => format!(
            "M{} {}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
            place(x - 4.0),
            place(y)
        ),
        1 => format!("M{} {}h7v7h-7z", place(x - 3.5), place(y - 3.5)),
        _ => format!("M{} {}l4.6 8h-9.2z", place(x), place(y - 5.0)),
    }
}

/// The middle one of some numbers.
fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Names beside their places: those that cover none before them, and stay on the paper.
fn labels(
    wanted: impl Iterator<Item = ((f64, f64), String, Option<usize>)>,
    height: f64,
) -> Vec<Value> {
    let mut taken: Vec<[f64; 4]> = Vec::new();
    let mut out = Vec::new();
    for ((x, y), name, group) in wanted {
        let text: String = match name.chars().count() > 28 {
            true => name.chars().take(27).chain(['…']).collect(),
            false => name,
        };
        // Wide enough for the larger type of small screens.
        let width = 9.0 * text.chars().count() as f64;
        let middle = x.clamp(
            width / 2.0 + 2.0,
            (WIDTH - width / 2.0 - 2.0).max(width / 2.0 + 2.0),
        );
        let base = if group.is_some() { y + 5.0 } else { y - 8.0 };
        let base = base.clamp(20.0, height - 6.0);
        let own = [
            middle - width / 2.0,
            middle + width / 2.0,
            base - 16.0,
            base + 5.0,
        ];
        let covers =
            |b: &[f64; 4]| own[0] < b[1] && b[0] < own[1] && own[2] < b[3] && b[2] < own[3];
        if taken.iter().any(covers) {
            continue;
        }
        taken.push(own);
        out.push(context! { x => place(middle), y => place(base), text => clean(&text) });
        if out.len() == NAMED {
            break;
        }
    }
    out
}

pub fn describe(scatter: &Scatter) -> String {
    let points = count(scatter.marks.len() as u64);
    format!(
        "{points} points: {} across, {} upwards.",
        scatter.x, scatter.y
    )
}
