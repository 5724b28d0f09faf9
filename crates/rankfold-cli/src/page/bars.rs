//! Lying bars, one under the other for each thing that is compared.

use minijinja::{Value, context};

use super::figures::{WIDTH, exact};
use super::{clean, short};
use crate::chart::COLORS;
use crate::chart::scale::{Scale, bounds};
use crate::chart::words::place;

/// Thickness of a bar and room for the name above its group.
const BAR: f64 = 18.0;
const NAME: f64 = 22.0;
const GAP: f64 = 12.0;
/// The longest bar; the rest is for its number.
const LONGEST: f64 = 396.0;

/// A group of bars.
#[derive(Debug, Clone, Default)]
pub struct Bar {
    pub name: String,
    /// How many things are in it, or what the name means.
    pub note: String,
    /// A number for each series; not a number where there is none.
    pub values: Vec<f64>,
}

/// Groups of bars, the same series in each.
#[derive(Debug, Clone, Default)]
pub struct Bars {
    /// What the bars of a group are; the first is the model.
    pub series: Vec<String>,
    pub groups: Vec<Bar>,
    /// Whether each group has a scale of its own, as different metrics need.
    pub own_scales: bool,
    /// What the longest bar stands for, where charts share a scale [default: the largest].
    pub most: Option<f64>,
}

pub fn view(bars: &Bars) -> Option<Value> {
    let all = bars.groups.iter().flat_map(|group| &group.values).copied();
    let (_, high) = bounds(all)?;
    let high = bars.most.unwrap_or(high);
    let mut top = 0.0;
    let groups: Vec<Value> = bars
        .groups
        .iter()
        .map(|group| {
            let own = bounds(group.values.iter().copied()).map_or(1.0, |ends| ends.1);
            let high = if bars.own_scales { own } else { high };
            let scale = Scale::new((0.0, high.max(f64::MIN_POSITIVE)), (0.0, LONGEST));
            let first = top + NAME;
            // What was not measured has no bar, unless that is the model itself.
            let known = group.values.iter().enumerate();
            let known = known.filter(|(i, value)| *i == 0 || value.is_finite());
            let drawn = known.enumerate().map(|(at, (i, value))| {
                let length = match value.is_finite() {
                    true => scale.at(value.max(0.0)).clamp(0.0, LONGEST),
                    false => 0.0,
                };
                let y = first + BAR * at as f64;
                context! {
                    y => place(y), length => place(length.max(1.0)), color => color(i),
                    text_x => place(length + 7.0), text_y => place(y + BAR - 4.5),
                    text => exact(*value), main => i == 0,
                    series => bars.series.get(i).map(|name| clean(name)),
                }
            });
            let drawn: Vec<Value> = drawn.collect();
            let text_y = top + NAME - 6.0;
            top = first + BAR * drawn.len() as f64 + GAP;
            context! {
                name => clean(&short(&group.name)), note => clean(&group.note),
                text_y => place(text_y), bars => drawn,
            }
        })
        .collect();
    let legend = bars.series.iter().enumerate();
    let legend = legend.map(|(i, name)| context! { name => clean(name), color => color(i) });
    Some(context! {
        width => WIDTH, height => top.max(1.0), bar_height => BAR - 2.0, groups,
        legend => match bars.series.len() > 1 {
            true => legend.collect::<Vec<_>>(),
            false => Vec::new(),
        },
    })
}

/// The model has the first color, its baseline grey, others the colors that follow.
fn color(series: usize) -> String {
    match series {
        0 => "c0".into(),
        1 => "grey".into(),
        n => format!("c{}", (n - 1) % COLORS.len()),
    }
}

pub fn describe(bars: &Bars) -> String {
    let groups = bars.groups.iter().map(|group| {
        let values = bars.series.iter().zip(&group.values);
        let values = values.map(|(name, value)| format!("{name} {}", exact(*value)));
        format!(
            "{}: {}",
            short(&group.name),
            values.collect::<Vec<_>>().join(", ")
        )
    });
    format!("Bars. {}.", groups.collect::<Vec<_>>().join("; "))
}
