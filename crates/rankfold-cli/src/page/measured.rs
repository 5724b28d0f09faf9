//! The page of an evaluation: the model beside simple ones, and parts of the data.

use rankfold::Model;
use rankfold::task::{Evaluation, Group, Grouping};

use super::figures::exact;
use super::{Bar, Bars, Chart, Page, Section, Table, metrics, sure};
use crate::chart::scale::bounds;
use crate::chart::words::{count, duration};

/// The most groups that are drawn, and that are listed.
const DRAWN: usize = 24;
const LISTED: usize = 300;

/// The page of an evaluation, before what is particular to the task.
pub fn page(model: &Model, found: &Evaluation, command: &str, seconds: f64) -> Page {
    let mut page = Page {
        kicker: format!("eval of a model for {}", model.task()),
        title: "How good the model is".into(),
        lead: lead(found, seconds),
        facts: vec![
            ("task".into(), model.task().into()),
            ("learner".into(), model.card.learner.clone()),
            ("rank".into(), model.rank().to_string()),
            (format!("{} measured", found.unit), count(found.rows as u64)),
            ("skipped".into(), count(found.skipped as u64)),
            ("time".into(), duration(seconds)),
        ],
        command: command.to_owned(),
        sections: Vec::new(),
    };
    page.add(metrics_of(found));
    for grouping in &found.groupings {
        page.add(groups(grouping));
    }
    if let Some(calibration) = &found.calibration {
        page.add(sure::of_triplets(calibration));
    }
    page
}

fn lead(found: &Evaluation, seconds: f64) -> String {
    let mut text = format!(
        "Measured on {} {} in {}.",
        count(found.rows as u64),
        found.unit,
        duration(seconds)
    );
    if let Some(baseline) = found.baseline() {
        let both = |name: &String| {
            let (value, other) = (found.metrics.get(name)?, baseline.metrics.get(name)?);
            Some((name.clone(), *value, *other))
        };
        // What models are chosen by comes first.
        let main = ["ndcg", "nmse", "rmse", "map", "knn_error", "nmi"];
        let place = |name: &String| {
            let base = name.split("_at_").next();
            let found = main.iter().position(|one| Some(*one) == base);
            found.unwrap_or(main.len())
        };
        let mut names: Vec<&String> = found.metrics.keys().collect();
        names.sort_by_key(|name| place(name));
        let both = names.into_iter().find_map(both);
        if let Some((name, value, other)) = both {
            let (called, _) = metrics::words(&name);
            text += &format!(
                " The {called} is {}; that of the baseline ({}) is {}.",
                exact(value),
                baseline.name,
                exact(other)
            );
        }
    }
    for note in &found.notes {
        let mut letters = note.chars();
        let first = letters.next().map(|c| c.to_uppercase().to_string());
        text += &format!(" {}{}.", first.unwrap_or_default(), letters.as_str());
    }
    text
}

/// All metrics beside those of the baselines.
fn metrics_of(found: &Evaluation) -> Section {
    let deck = match found.baselines.is_empty() {
        true => "There is no baseline for these data.",
        false => {
            "The same data by the model and by simple ones. Bars of a metric have a scale of their own."
        }
    };
    let mut section = Section::new("Beside simple models", deck);
    let mut head = vec!["metric".to_owned(), "model".into()];
    head.extend(found.baselines.iter().map(|one| one.name.clone()));
    let rows = found.metrics.iter().map(|(name, value)| {
        let (called, _) = metrics::words(name);
        let mut row = vec![called, exact(*value)];
        let others = found.baselines.iter();
        row.extend(others.map(|one| one.metrics.get(name).map_or("–".into(), |v| exact(*v))));
        row
    });
    section.tables.push(Table {
        head,
        rows: rows.collect(),
        ..Table::default()
    });
    let mut series = vec!["model".to_owned()];
    series.extend(found.baselines.iter().map(|one| one.name.clone()));
    let bar = |(name, value): (&String, &f64)| {
        let (called, _) = metrics::words(name);
        let number =
            |metrics: &rankfold::model::Metrics| metrics.get(name).copied().unwrap_or(f64::NAN);
        let mut values = vec![*value];
        values.extend(found.baselines.iter().map(|one| number(&one.metrics)));
        Bar {
            name: called,
            note: metrics::direction(name).into(),
            values,
        }
    };
    // Two columns where there are many.
    let groups: Vec<Bar> = found.metrics.iter().map(bar).collect();
    let half = if groups.len() > 4 {
        groups.len().div_ceil(2)
    } else {
        groups.len()
    };
    for part in groups.chunks(half.max(1)) {
        let bars = Bars {
            series: series.clone(),
            groups: part.to_vec(),
            own_scales: true,
            most: None,
        };
        let (first, last) = (&part[0].name, &part[part.len() - 1].name);
        let title = match part.len() {
            1 => first.clone(),
            _ => format!("{first} to {last}"),
        };
        section.draw(&title, "", Chart::Bars(bars));
    }
    section
}

/// The parts of the data, the first ones and those that go worst and best where there are many.
pub fn groups(grouping: &Grouping) -> Section {
    let (called, meaning) = metrics::words(&grouping.metric);
    let mut all = grouping.groups.clone();
    // Classes that are numbers go by their value.
    let numbers = all.iter().map(|group| group.name.parse::<f64>());
    if numbers
        .clone()
        .all(|number| number.is_ok_and(f64::is_finite))
    {
        all.sort_by(|a, b| {
            let of = |group: &Group| group.name.parse::<f64>().unwrap_or(0.0);
            of(a).total_cmp(&of(b))
        });
    }
    let all = &all;
    let mut series = vec!["model".to_owned()];
    series.extend(grouping.baseline.clone());
    let few: Vec<&Group> = match all.len() > DRAWN {
        false => all.iter().collect(),
        true => {
            let mut order: Vec<&Group> = all.iter().filter(|g| g.value.is_finite()).collect();
            order.sort_by(|a, b| {
                a.value
                    .total_cmp(&b.value)
                    .then_with(|| a.name.cmp(&b.name))
            });
            if metrics::more_is_better(&grouping.metric) == Some(false) {
                order.reverse();
            }
            let (low, high) = (DRAWN / 2, order.len().saturating_sub(DRAWN / 2));
            let chosen = order
                .iter()
                .take(low)
                .chain(&order[high.max(low.min(order.len()))..]);
            chosen.copied().collect()
        }
    };
    let chosen = match all.len() > DRAWN {
        true => format!(
            " Of {} the {} worst and the {} best are drawn, the worst first.",
            count(all.len() as u64),
            DRAWN / 2,
            DRAWN / 2
        ),
        false => String::new(),
    };
    let bars = |groups: &[&Group]| Bars {
        series: series.clone(),
        groups: groups
            .iter()
            .map(|group| {
                let mut values = vec![group.value];
                if grouping.baseline.is_some() {
                    values.push(group.baseline.unwrap_or(f64::NAN));
                }
                Bar {
                    name: group.name.clone(),
                    note: format!("{} {}", count(group.count as u64), grouping.unit),
                    values,
                }
            })
            .collect(),
        own_scales: false,
        most: bounds(
            few.iter()
                .flat_map(|g| [Some(g.value), g.baseline])
                .flatten(),
        )
        .map(|ends| ends.1),
    };
    let mut section = Section::new(
        &format!("By {}", grouping.by),
        format!(
            "{called}, {meaning}; {}.{chosen}",
            metrics::direction(&grouping.metric)
        ),
    );
    let half = if few.len() > 6 {
        few.len().div_ceil(2)
    } else {
        few.len()
    };
    let parts = few.chunks(half.max(1)).enumerate();
    for (i, part) in parts {
        let title = match i {
            0 => format!("{called} by {}", grouping.by),
            _ => format!("{called} by {}, continued", grouping.by),
        };
        section.draw(&title, "", Chart::Bars(bars(part)));
    }
    section.tables.push(Table {
        caption: match all.len() > LISTED {
            true => format!("The first {LISTED} of {}", count(all.len() as u64)),
            false => String::new(),
        },
        head: [grouping.by.clone(), grouping.unit.into(), "model".into()]
            .into_iter()
            .chain(grouping.baseline.clone())
            .collect(),
        rows: all
            .iter()
            .take(LISTED)
            .map(|group| {
                let mut row = vec![
                    group.name.clone(),
                    count(group.count as u64),
                    exact(group.value),
                ];
                row.extend(group.baseline.map(exact));
                row
            })
            .collect(),
        folded: true,
    });
    section
}
