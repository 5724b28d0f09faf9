//! The page of a training run.

use std::collections::BTreeSet;

use rankfold::Model;
use rankfold::task::{Baseline, CurvePoint, Fit, Report, Trial, Unit};
use serde_json::Value;

use super::figures::exact;
use super::maps::spectrum;
use super::{Chart, Line, Lines, Page, Section, Table, metrics};
use crate::chart::words::{count, duration};

/// What a curve counts, and does not measure.
const COUNTED: [&str; 2] = ["messages", "bytes"];

/// The most settings of a table.
const TRIALS: usize = 12;

/// The page of a run, before what is particular to the task.
pub fn page(fit: &Fit, task: &str, command: &str, seconds: f64, points: &[CurvePoint]) -> Page {
    let (model, report) = (&fit.model, &fit.report);
    let card = &model.card;
    let shape = model.storage().shape;
    let steps = format!("{} {}", count(report.counters.steps), report.unit);
    let mut facts = vec![
        ("learner".to_owned(), card.learner.clone()),
        ("rank".into(), model.rank().to_string()),
        (
            "size of W".into(),
            format!("{} × {}", count(shape.0 as u64), count(shape.1 as u64)),
        ),
        (
            "length".into(),
            format!("{steps}, ended by {}", ended(report)),
        ),
    ];
    if report.unit == Unit::Steps {
        facts.push(("updates".into(), count(report.counters.updates)));
        facts.push(("refused steps".into(), count(report.counters.refused)));
    }
    facts.push(("seed".into(), card.seed.to_string()));
    facts.push(("time".into(), duration(seconds)));
    for (name, value) in &report.metrics {
        let simple = report.baseline.as_ref().and_then(|simple| {
            let reached = simple.metrics.get(name)?;
            Some(format!(", {} {}", simple.name, exact(*reached)))
        });
        facts.push((
            format!("validation {}", metrics::words(name).0),
            exact(*value) + &simple.unwrap_or_default(),
        ));
    }
    let mut page = Page {
        kicker: match task {
            "gossip" => "gossip run".into(),
            task => format!("train {task}"),
        },
        title: title(model, task).into(),
        lead: lead(fit, &steps, seconds),
        facts,
        command: command.to_owned(),
        sections: Vec::new(),
    };
    page.add(curve(points, report));
    page.add(trials(&report.trials));
    page
}

fn ended(report: &Report) -> &'static str {
    use rankfold::task::Stop;
    match report.stopped {
        Stop::Steps => "their number",
        Stop::Patience => "patience: validation improved no more",
        Stop::Converged => "convergence",
        Stop::Interrupted => "an interrupt",
    }
}

fn title(model: &Model, task: &str) -> &'static str {
    use rankfold::model::Knowledge;
    match &model.knowledge {
        _ if task == "gossip" => "What agents learned together",
        Knowledge::Similarity(_) => "A similarity of rows",
        Knowledge::Metric => "A distance between rows",
        Knowledge::Ranking(_) => "A ranking of labels",
        Knowledge::Pairs { .. } => "Values of pairs",
        Knowledge::Completion(_) => "Ratings of items by users",
        Knowledge::Recommend(_) => "What to show to whom",
        Knowledge::Kernel(_) => "A kernel of items",
        Knowledge::Map(_) => "A map of items",
        Knowledge::Multitask(_) => "Regressions that share a subspace",
    }
}

fn lead(fit: &Fit, steps: &str, seconds: f64) -> String {
    let (card, report) = (&fit.model.card, &fit.report);
    let mut text = format!(
        "A model of rank {} was learned by {} with {steps} in {}.",
        fit.model.rank(),
        card.learner,
        duration(seconds)
    );
    let reached = report
        .metrics
        .iter()
        .map(|(name, value)| format!("{} {}", metrics::words(name).0, exact(*value)));
    let reached: Vec<String> = reached.collect();
    if !reached.is_empty() {
        text += &format!(" On held-out data it reaches {}.", reached.join(", "));
    }
    if !report.trials.is_empty() {
        let tried = report.trials.len();
        text += &format!(" {tried} settings were tried on held-out data before.");
    }
    text
}

/// What was measured on the way, a chart for each number.
fn curve(points: &[CurvePoint], report: &Report) -> Section {
    let unit = report.unit;
    let dashed = match &report.baseline {
        None => "the first measurement".to_owned(),
        Some(simple) => format!(
            "a simple model, `{}`, or the first measurement",
            simple.name
        ),
    };
    let mut section = Section::new(
        "How it learned",
        format!(
            "Measured on the way; the dashed line is {dashed}. With validation data the best model is \
             kept, which need not be the last."
        ),
    );
    let names = points.iter().flat_map(|p| p.metrics.keys());
    let names: BTreeSet<&String> = names
        .filter(|name| !COUNTED.contains(&name.as_str()))
        .collect();
    let mut series: Vec<(String, Vec<(f64, f64)>)> = names
        .into_iter()
        .map(|name| {
            let points = points.iter().filter_map(|p| {
                let value = p.metrics.get(name)?;
                Some((p.counters.steps as f64, *value))
            });
            (name.clone(), points.collect())
        })
        .collect();
    let loss: Vec<(f64, f64)> = points
        .iter()
        .map(|p| (p.counters.steps as f64, p.loss))
        .collect();
    // A cost may stand under both names, and some learners measure none.
    let measured = loss.iter().any(|(_, value)| *value != 0.0);
    if measured && !series.iter().any(|(_, own)| *own == loss) {
        series.push(("loss".into(), loss));
    }
    for (name, points) in series {
        let (called, meaning) = metrics::words(&name);
        let finite = points.iter().filter(|p| p.1.is_finite()).count();
        let Some(first) = points.iter().find(|p| p.1.is_finite()) else {
            continue;
        };
        let deck = [meaning, metrics::direction(&name)];
        let deck: Vec<&str> = deck.into_iter().filter(|text| !text.is_empty()).collect();
        let lines = Lines {
            x: unit.name().into(),
            y: called.clone(),
            level: match report.baseline.as_ref() {
                Some(Baseline {
                    name: simple,
                    metrics,
                    ..
                }) if metrics.contains_key(&name) => Some((simple.clone(), metrics[&name])),
                _ => (finite > 1).then(|| ("first".to_owned(), first.1)),
            },
            lines: vec![Line {
                marked: points.len() <= 12,
                points,
                ..Line::default()
            }],
            ..Lines::default()
        };
        section.draw(
            &format!("{called}, by {unit}"),
            deck.join("; "),
            Chart::Lines(lines),
        );
    }
    section
}

/// The settings that were tried, a table for each kind.
fn trials(trials: &[Trial]) -> Section {
    let mut section = Section::new(
        "What was tried",
        "Settings tried on held-out data, the best of each table first. What is not in the command \
         was chosen so; a simpler setting is kept where another is not clearly better.",
    );
    let mut rest: Vec<&Trial> = trials.iter().collect();
    while let Some(first) = rest.first().copied() {
        let keys = |trial: &Trial| trial.settings.keys().cloned().collect::<Vec<_>>();
        let own = |trial: &&Trial| keys(trial) == keys(first) && trial.metric == first.metric;
        let (same, others): (Vec<&Trial>, Vec<&Trial>) = rest.into_iter().partition(own);
        rest = others;
        section.tables.push(table(&same));
    }
    section
}

fn table(trials: &[&Trial]) -> Table {
    let first = trials[0];
    let mut head: Vec<String> = first
        .settings
        .keys()
        .map(|name| name.replace('_', " "))
        .collect();
    head.push(metrics::words(&first.metric).0);
    let steps = trials.iter().any(|trial| trial.steps > 0);
    if steps {
        head.push("steps".into());
    }
    let mut sorted = trials.to_vec();
    // What was not measured is last.
    let value = |trial: &Trial, worst: f64| trial.value.filter(|v| !v.is_nan()).unwrap_or(worst);
    match metrics::more_is_better(&first.metric) {
        Some(true) => sorted
            .sort_by(|a, b| value(b, f64::NEG_INFINITY).total_cmp(&value(a, f64::NEG_INFINITY))),
        _ => sorted.sort_by(|a, b| value(a, f64::INFINITY).total_cmp(&value(b, f64::INFINITY))),
    }
    let rows = sorted.iter().take(TRIALS).map(|trial| {
        let mut row: Vec<String> = trial.settings.values().map(plain).collect();
        row.push(exact(trial.value.unwrap_or(f64::NAN)));
        if steps {
            row.push(count(trial.steps));
        }
        row
    });
    let caption = match trials.len() > TRIALS {
        true => format!("The best {TRIALS} of {} settings", trials.len()),
        false => String::new(),
    };
    Table {
        caption,
        head,
        rows: rows.collect(),
        folded: false,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.to_string().len() <= 8 => number.to_string(),
        Value::Number(number) => exact(number.as_f64().unwrap_or(f64::NAN)),
        Value::Null => "none".into(),
        other => other.to_string(),
    }
}

/// The last section of a run: what W looks like, and what else the run has to say.
pub fn add_rest(page: &mut Page, fit: &Fit) {
    let model = &fit.model;
    let mut section = Section::new("What was learned", "");
    section.figures.extend(spectrum(model));
    let more = fit.report.more.iter().filter_map(|(name, value)| {
        let shown = match value {
            Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
            Value::Array(_) | Value::Object(_) => return None,
            other => plain(other),
        };
        Some(vec![name.replace('_', " "), shown])
    });
    let rows: Vec<Vec<String>> = more.collect();
    if !rows.is_empty() {
        section.tables.push(Table {
            caption: "What the run says".into(),
            head: vec!["name".into(), "value".into()],
            rows,
            folded: true,
        });
    }
    page.add(section);
}
