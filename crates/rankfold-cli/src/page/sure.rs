//! How sure a model is, and whether it knows that.

use rankfold::task::Calibration;

use super::{Chart, Line, Lines, Section};
use crate::chart::words::count;

/// Predictions with their errors and standard deviations.
pub type Sure = Vec<(f64, f64)>;

/// How sure the order of triplets is, against how often it is right.
pub fn of_triplets(found: &Calibration) -> Section {
    let mut section = Section::new(
        "How sure it is",
        format!(
            "{} triplets were drawn from the rows. The model says with which probability it puts two \
             rows in the right order; the labels say whether it did.",
            count(found.triplets as u64)
        ),
    );
    let points = |bins: &[rankfold::eval::calibration::Bin]| {
        bins.iter()
            .map(|bin| (bin.confidence, bin.accuracy))
            .collect()
    };
    let mut lines = vec![Line {
        name: "as it says".into(),
        points: points(&found.bins),
        marked: true,
    }];
    if found.variance_scale.is_some() {
        lines.push(Line {
            name: "before calibration".into(),
            points: points(&found.raw_bins),
            marked: true,
        });
    }
    let reliability = Lines {
        x: "probability that it says".into(),
        y: "share that was right".into(),
        lines,
        diagonal: true,
        ends: Some([(0.5, 1.0), (0.0, 1.0)]),
        level: None,
    };
    let deck = "On the dashed line it is as sure as it should be; below it, too sure";
    section.draw("Reliability", deck, Chart::Lines(reliability));
    // The surest first: bins are of equal size, and rise.
    let (mut taken, mut right, mut points) = (0.0, 0.0, Vec::new());
    for bin in found.bins.iter().rev() {
        taken += bin.triplets as f64;
        right += bin.accuracy * bin.triplets as f64;
        points.push((taken / found.triplets as f64, right / taken));
    }
    let lines = Lines {
        x: "share of triplets, the surest first".into(),
        y: "share that was right".into(),
        lines: vec![Line {
            points,
            marked: true,
            ..Line::default()
        }],
        ..Lines::default()
    };
    let deck = "Where it answers only when it is sure, it is right more often";
    section.draw("Accuracy against coverage", deck, Chart::Lines(lines));
    section
}

/// Levels of intervals.
const LEVELS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// The same for predicted numbers: `inside` says for each level how many of all were in their
/// interval, and `sure` has the standard deviation and the error of each.
pub fn of_numbers(inside: &[usize], mut sure: Sure, unit: &str) -> Section {
    let all = sure.len();
    let mut section = Section::new(
        "How sure it is",
        format!(
            "The model gives each of {} {unit} an interval that should hold the truth so often.",
            count(all as u64)
        ),
    );
    if all == 0 {
        return section;
    }
    let levels = LEVELS.iter().zip(inside);
    let points = levels.map(|(level, &inside)| (*level, inside as f64 / all as f64));
    let reliability = Lines {
        x: "probability of the interval".into(),
        y: "share inside".into(),
        lines: vec![Line {
            points: points.collect(),
            marked: true,
            ..Line::default()
        }],
        diagonal: true,
        ends: Some([(0.0, 1.0), (0.0, 1.0)]),
        level: None,
    };
    let deck = "On the dashed line it is as sure as it should be; below it, too sure";
    section.draw("Reliability", deck, Chart::Lines(reliability));
    sure.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut squares, mut points) = (0.0, Vec::new());
    let mut next = 1;
    for (i, (_, error)) in sure.iter().enumerate() {
        squares += error * error;
        if (i + 1) * 10 >= next * all {
            points.push((
                (i + 1) as f64 / all as f64,
                (squares / (i + 1) as f64).sqrt(),
            ));
            next += 1;
        }
    }
    let lines = Lines {
        x: format!("share of {unit}, the surest first"),
        y: "RMSE".into(),
        lines: vec![Line {
            points,
            marked: true,
            ..Line::default()
        }],
        ..Lines::default()
    };
    let deck = "Where it answers only when it is sure, it errs less";
    section.draw("Error against coverage", deck, Chart::Lines(lines));
    section
}

/// The levels of intervals that [`of_numbers`] wants to know of.
pub fn levels() -> impl Iterator<Item = f64> {
    LEVELS.into_iter()
}
