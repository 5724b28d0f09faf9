//! Predicted numbers against true ones.

use rankfold::data::{FeatureMap, Labelled, Ratings, TaskRows, ValuedPair};
use rankfold::form::Side;
use rankfold::sparse::Part;
use rankfold::{Model, Real, Result};

use super::{POINTS, chosen};
use crate::chart::words::count;
use crate::page::figures::exact;
use crate::page::maps::{Titles, title};
use crate::page::{Chart, Mark, Scatter, Section, sample, sure};

/// Predictions that say how sure they are; enough to judge that.
const SURE: usize = 200_000;

/// A picture of predictions.
fn picture(marks: Vec<Mark>, all: usize, unit: &str, x: &str) -> Section {
    let mut section = Section::new(
        "Predicted and true",
        format!(
            "What is predicted right lies on the dashed line.{}",
            match all > POINTS {
                true => format!(
                    " {} of {} {unit} are drawn, at equal distances in the file.",
                    count(POINTS as u64),
                    count(all as u64)
                ),
                false => String::new(),
            }
        ),
    );
    let scatter = Scatter {
        x: x.into(),
        y: "predicted".into(),
        marks,
        map: false,
        diagonal: true,
    };
    let deck = "True values across, predicted ones upwards; point at a mark to read what it is";
    section.draw("Predicted against true", deck, Chart::Scatter(scatter));
    section
}

/// Marks of true and predicted numbers. Where few different numbers are true, marks are moved
/// a little to the side, by the golden ratio, so that they do not cover each other.
fn marks(found: Vec<(f64, f64, String)>) -> Vec<Mark> {
    let mut values: Vec<f64> = found.iter().map(|f| f.0).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let steps = values.windows(2).map(|pair| pair[1] - pair[0]);
    let step = steps.reduce(f64::min).filter(|_| values.len() <= 20);
    let aside = |i: usize| step.map_or(0.0, |s| s * 0.6 * ((i as f64 * 0.618_034).fract() - 0.5));
    let mark = |(i, (x, y, name)): (usize, (f64, f64, String))| Mark {
        x: x + aside(i),
        y,
        name: format!("{name}: true {}, predicted {}", exact(x), exact(y)),
        group: None,
    };
    found.into_iter().enumerate().map(mark).collect()
}

/// Ratings, and how sure the model is of them where it says so.
pub fn ratings(model: &Model, test: &Ratings, titles: Option<&Titles>) -> Result<Vec<Section>> {
    let predictor = model.rating_predictor()?;
    let (users, items) = model.rating_ids()?;
    let rows = test.entries.part(Part::All).rows;
    let all: usize = (0..test.users.len()).map(|i| rows.count(i)).sum();
    let drawn = sample(all, POINTS);
    let every = all.div_ceil(SURE).max(1);
    let (mut found, mut known) = (Vec::new(), Vec::new());
    let levels: Vec<f64> = sure::levels().collect();
    let mut inside = vec![0; levels.len()];
    let (mut at, mut next) = (0, 0);
    for (row, user) in test.users.iter().enumerate() {
        let number = users.find(user);
        let (index, value) = rows.line(row);
        for (&j, &y) in index.iter().zip(value) {
            let id = test.items.get(j);
            if drawn.get(next) == Some(&at) {
                next += 1;
                let name = format!("{user}, {}", title(titles, id));
                found.push((y, predictor.rating(number, items.find(id)), name));
            }
            if at % every == 0
                && let Some(estimate) = predictor.estimate(number, items.find(id))
            {
                known.push((estimate.sd, estimate.mean - y));
                for (level, inside) in levels.iter().zip(&mut inside) {
                    let (low, high) = estimate.interval(*level);
                    *inside += usize::from((low..=high).contains(&y));
                }
            }
            at += 1;
        }
    }
    let mut out = vec![picture(marks(found), all, "ratings", "true rating")];
    if !known.is_empty() {
        out.push(sure::of_numbers(&inside, known, "ratings"));
    }
    Ok(out)
}

/// Values of pairs.
pub fn pairs<R: Real>(
    model: &Model,
    rows: &Labelled<R>,
    objects: Option<&Labelled<R>>,
    pairs: &[ValuedPair],
) -> Result<Section> {
    let drawn: Vec<&ValuedPair> = sample(pairs.len(), POINTS)
        .into_iter()
        .map(|i| &pairs[i])
        .collect();
    let lefts: Vec<usize> = drawn.iter().map(|pair| pair.left as usize).collect();
    let rights: Vec<usize> = drawn.iter().map(|pair| pair.right as usize).collect();
    let others = objects.unwrap_or(rows);
    let (left, right) = (chosen(rows, &lefts), chosen(others, &rights));
    let prepared = (
        model.prepare(left.rows, &left.features)?,
        model.prepare_side(right.rows, &right.features, Side::Right)?,
    );
    let projection = model.project_between(&prepared.0, &prepared.1, None)?;
    let found = drawn.iter().enumerate().map(|(i, pair)| {
        let name = format!("{}, {}", left.ids.name(i), right.ids.name(i));
        (pair.value, projection.score(i, i), name)
    });
    Ok(picture(
        marks(found.collect()),
        pairs.len(),
        "pairs",
        "true value",
    ))
}

/// Targets of tasks.
pub fn tasks(model: &Model, data: &TaskRows) -> Result<Section> {
    let mut predictor = model.task_predictor()?;
    let (features, names) = model.task_ids()?;
    let mut map = FeatureMap::new(features, &data.features, data.table)?;
    let found = sample(data.len(), POINTS).into_iter().map(|i| {
        let task = data.names.get(data.task[i]);
        let row = map.align(data.rows.row(i), &data.features);
        let target = predictor.target(names.find(task), row);
        (data.targets[i], target, format!("row {} of {task}", i + 1))
    });
    Ok(picture(
        marks(found.collect()),
        data.len(),
        "rows",
        "true target",
    ))
}
