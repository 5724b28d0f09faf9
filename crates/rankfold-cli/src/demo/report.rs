//! The demo's report: one HTML page that needs nothing but itself.
//!
//! [`Report`] is the plain data, [`render`] the page. In between, the children
//! turn numbers into positions and words; `template.html` says what the page
//! looks like and `charts.html` how a chart is drawn from positions.

mod charts;
mod pictures;
#[cfg(test)]
mod tests;

use minijinja::{Environment, Value, context};
use serde::Serialize;

use super::data::Digit;
use crate::chart::words;

/// All that the page shows. Numbers that are not finite are shown as missing,
/// and empty lists leave their chart out.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of rankfold, as in `0.1.0`.
    pub version: String,
    /// The command that made the page, as typed.
    pub command: String,
    /// The learner by its name on the command line, as in `loreta-psd`.
    pub learner: String,
    /// Rank of W.
    pub rank: usize,
    /// Triplets learned from.
    pub steps: u64,
    /// Wall-clock time of the learning.
    pub seconds: f64,
    /// What the learner is told of a row, to follow "each given as", as in
    /// `the 16 coordinates of its pen stroke`.
    pub features: String,
    /// Number of training rows.
    pub train_rows: usize,
    /// Number of test rows; each is a query against all the others.
    pub test_rows: usize,
    /// On the test rows, by the cosine of standardized rows.
    pub before: Metrics,
    /// On the test rows, by the learned similarity.
    pub after: Metrics,
    /// How the similarity improved as it learned.
    pub curve: Curve,
    /// Singular values of W, largest first.
    pub singular_values: Vec<f64>,
    /// How the searches to show were chosen, a whole sentence: a reader must
    /// know whether they flatter.
    pub examples_note: String,
    /// Searches shown as drawings.
    pub examples: Vec<Example>,
    /// The test rows in their first two principal directions.
    pub map_before: Vec<MapPoint>,
    /// The test rows in the first two principal directions of the learned space.
    pub map_after: Vec<MapPoint>,
    /// How the search does for each digit, in the order to show.
    pub by_digit: Vec<DigitPrecision>,
}

/// Quality of a search, each number from 0 to 1, averaged over queries.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Metrics {
    /// Mean average precision.
    pub map: f64,
    /// Share of queries whose nearest row is the same digit.
    pub precision_at_1: f64,
    /// Share of the ten nearest rows that are the same digit.
    pub precision_at_10: f64,
}

/// Progress while learning.
#[derive(Debug, Clone, Serialize)]
pub struct Curve {
    /// The rows that mAP was measured on, to follow "measured on", as in
    /// `the 1,000 test digits`.
    pub measured_on: String,
    /// mAP on the same rows by cosine.
    pub before: f64,
    /// In the order of steps.
    pub points: Vec<CurvePoint>,
}

/// The state of learning after some triplets.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CurvePoint {
    /// Triplets seen.
    pub steps: u64,
    /// Running mean of the loss; not a number before the first step.
    pub loss: f64,
    /// Mean average precision; not a number where it was not measured.
    pub map: f64,
}

/// One search, before and after.
#[derive(Debug, Clone, Serialize)]
pub struct Example {
    /// What was searched for.
    pub query: Digit,
    /// The nearest test rows by cosine, nearest first, without the query.
    pub before: Vec<Digit>,
    /// The nearest test rows by the learned similarity, in the same way.
    pub after: Vec<Digit>,
}

/// A test row as a place in the plane.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MapPoint {
    /// First coordinate.
    pub x: f64,
    /// Second coordinate.
    pub y: f64,
    /// The digit.
    pub label: u8,
}

/// Precision at 10 over the queries of one digit.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct DigitPrecision {
    /// The digit.
    pub label: u8,
    /// By cosine.
    pub before: f64,
    /// By the learned similarity.
    pub after: f64,
}

/// The report as one self-contained HTML page. An error is a fault in the
/// templates: no data can cause one.
pub fn render(report: &Report) -> Result<String, minijinja::Error> {
    let mut templates = Environment::new();
    // Only names that end in .html are escaped; the style sheet must not be.
    templates.add_template("style.css", include_str!("../page/style.css"))?;
    templates.add_template("charts.html", include_str!("../page/charts.html"))?;
    templates.add_template("template.html", include_str!("template.html"))?;
    templates
        .get_template("template.html")?
        .render(view(report))
}

/// What the template sees: words and positions only, no arithmetic left to do.
fn view(report: &Report) -> Value {
    context! {
        version => report.version.as_str(),
        command => report.command.as_str(),
        learner => report.learner.as_str(),
        rank => report.rank,
        features => report.features.as_str(),
        examples_note => report.examples_note.as_str(),
        steps => words::count(report.steps),
        duration => words::duration(report.seconds),
        train_rows => words::count(report.train_rows as u64),
        test_rows => words::count(report.test_rows as u64),
        right_before => words::fixed(10.0 * report.before.precision_at_10, 1),
        right_after => words::fixed(10.0 * report.after.precision_at_10, 1),
        metrics => metric_rows(&report.before, &report.after),
        curve => curve_view(report),
        spectrum => charts::columns(&report.singular_values),
        examples => report.examples.iter().map(pictures::example).collect::<Vec<_>>(),
        maps => pictures::maps(&report.map_before, &report.map_after),
        by_digit => charts::pairs(&report.by_digit),
    }
}

fn metric_rows(before: &Metrics, after: &Metrics) -> Vec<Value> {
    [
        (
            "mAP",
            "mean average precision: how far up the whole list the right digits stand",
            before.map,
            after.map,
        ),
        (
            "precision@1",
            "how often the nearest row is the right digit",
            before.precision_at_1,
            after.precision_at_1,
        ),
        (
            "precision@10",
            "share of right digits among the ten nearest",
            before.precision_at_10,
            after.precision_at_10,
        ),
    ]
    .into_iter()
    .map(|(name, meaning, before, after)| {
        context! {
            name,
            meaning,
            before => words::fixed(before, 3),
            after => words::fixed(after, 3),
            change => words::signed(after - before, 3),
        }
    })
    .collect()
}

fn curve_view(report: &Report) -> Value {
    let curve = &report.curve;
    let series = |value: fn(&CurvePoint) -> f64| -> Vec<(f64, f64)> {
        let points = curve.points.iter();
        points.map(|p| (p.steps as f64, value(p))).collect()
    };
    let rows = curve.points.iter().map(|point| {
        context! {
            steps => words::count(point.steps),
            loss => words::fixed(point.loss, 3),
            map => words::fixed(point.map, 3),
        }
    });
    // The loss stands under the mAP: the same steps must be at the same place.
    let last = curve.points.iter().map(|p| p.steps).max().unwrap_or(0) as f64;
    context! {
        measured_on => curve.measured_on.as_str(),
        before => words::fixed(curve.before, 3),
        map => charts::line(&series(|p| p.map), last, Some(curve.before), 240.0),
        loss => charts::line(&series(|p| p.loss), last, None, 150.0),
        rows => rows.collect::<Vec<_>>(),
    }
}
