//! Maps of what a model has names for: two principal directions of the learned vectors.

use std::collections::HashMap;
use std::path::PathBuf;

use rankfold::data::{Labelled, read_names};
use rankfold::form::Side;
use rankfold::linalg::principal_coordinates;
use rankfold::model::{Knowledge, Mapped, Precise, unit_rows};
use rankfold::{Ids, Model, Real, Result};

use super::{Chart, Figure, Lines, Mark, Scatter, Section, sample};
use crate::chart::words::count;

/// The most points of a map.
pub const MOST: usize = 1000;

/// Titles of things by their ids, where the user gave some.
pub type Titles = HashMap<String, String>;

/// The titles of a file, where one is named.
pub fn read_titles(path: Option<&PathBuf>) -> Result<Option<Titles>> {
    let read = path.map(read_names).transpose()?;
    Ok(read.map(|names| names.into_iter().collect()))
}

/// The title of a thing, or its id.
pub fn title<'a>(titles: Option<&'a Titles>, id: &'a str) -> &'a str {
    let found = titles.and_then(|titles| titles.get(id));
    found.map_or(id, String::as_str)
}

/// The map of items, labels or tasks of a model; an empty section where it has no such names, or
/// no space.
pub fn of_model(model: &Model, titles: Option<&Titles>) -> Result<Section> {
    let by = |ids: &Ids, weights: Vec<f64>, what: &str| chosen(ids, &weights, what);
    match &model.knowledge {
        Knowledge::Completion(known) => {
            if model.check_space("a map").is_err() {
                return Ok(Section::default());
            }
            let (ids, vectors) = model.vectors(Side::Right, 1)?;
            let weights = known.biases.count[1].iter().map(|&n| n as f64).collect();
            let chosen = by(ids, weights, "ratings");
            let row = |i: usize| wide(vectors.row(i));
            Ok(named_map("items", ids, titles, &chosen, row))
        }
        Knowledge::Recommend(known) => {
            let (ids, vectors) = model.vectors(Side::Right, 1)?;
            let chosen = by(ids, known.popularity.clone(), "choices");
            let row = |i: usize| wide(vectors.row(i));
            Ok(named_map("items", ids, titles, &chosen, row))
        }
        Knowledge::Ranking(known) => {
            let ids = model.label_names()?;
            let weights = known.prior.count.iter().map(|&n| n as f64).collect();
            let chosen = by(ids, weights, "rows");
            let vectors = match &model.form {
                _ if model.check_space("a map").is_err() => return Ok(Section::default()),
                Precise::F32(_) => units::<f32>(model, ids)?,
                Precise::F64(_) => units::<f64>(model, ids)?,
            };
            let rank = vectors.len() / ids.len().max(1);
            let row = |i: usize| vectors[i * rank..][..rank].to_vec();
            Ok(named_map("labels", ids, titles, &chosen, row))
        }
        Knowledge::Multitask(_) => {
            let ((_, ids), (_, weights)) = (model.task_ids()?, model.task_factors()?);
            let chosen = (sample(ids.len(), MOST), spread_note(ids.len(), "tasks"));
            let row = |i: usize| (0..weights.ncols()).map(|j| weights[(i, j)]).collect();
            Ok(named_map("tasks", ids, titles, &chosen, row))
        }
        Knowledge::Kernel(_) => {
            let (ids, points, rank) = items(model)?;
            let chosen = (sample(ids.len(), MOST), spread_note(ids.len(), "items"));
            let row = |i: usize| points[i * rank..][..rank].to_vec();
            Ok(named_map("items", ids, titles, &chosen, row))
        }
        Knowledge::Map(known) => shepard(model, known, titles),
        Knowledge::Similarity(_) | Knowledge::Metric | Knowledge::Pairs { .. } => {
            Ok(Section::default())
        }
    }
}

/// The map of rows of a file that has so many, colored by their labels where they have one each.
pub fn of_rows<R: Real>(model: &Model, data: &Labelled<R>, all: usize) -> Result<Section> {
    let what = "rows";
    let chosen = sample(data.rows.len(), MOST);
    let mut rows = data.rows.select(chosen.iter().copied());
    rows.widen(data.rows.columns());
    let prepared = model.prepare(rows, &data.features)?;
    let Some(space) = model.coordinates()? else {
        return Ok(Section::default());
    };
    let members: Vec<u32> = (0..chosen.len() as u32).collect();
    let values = model.coordinates_of(&space, &prepared.rows, &members, Side::Left)?;
    let values: Vec<f64> = values.iter().map(|v| v.to_f64()).collect();
    let single = (0..data.labels.len()).all(|i| data.labels.of(i).len() <= 1);
    let marks = chosen.iter().map(|&i| {
        let own = data.labels.of(i).first().filter(|_| single);
        let label = own.map(|&label| data.labels.names.get(label).to_owned());
        (data.ids.name(i).into_owned(), label)
    });
    let note = spread_note(all, what);
    Ok(section(what, &note, map(&values, space.rank(), marks)))
}

/// The things with the most of something, where there are too many, and a sentence about that.
fn chosen(ids: &Ids, weights: &[f64], of: &str) -> (Vec<usize>, String) {
    let mut order: Vec<usize> = (0..ids.len()).collect();
    if ids.len() <= MOST {
        return (order, String::new());
    }
    let weight = |i: usize| weights.get(i).copied().unwrap_or(0.0);
    order.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)).then(a.cmp(&b)));
    order.truncate(MOST);
    let all = count(ids.len() as u64);
    (
        order,
        format!(
            "Of {all}, the {} with the most {of} are shown.",
            count(MOST as u64)
        ),
    )
}

fn spread_note(all: usize, what: &str) -> String {
    match all > MOST {
        true => format!(
            "Of {} {what}, {} at equal distances in the file are shown.",
            count(all as u64),
            count(MOST as u64)
        ),
        false => String::new(),
    }
}

fn named_map(
    what: &str,
    ids: &Ids,
    titles: Option<&Titles>,
    (chosen, note): &(Vec<usize>, String),
    row: impl Fn(usize) -> Vec<f64>,
) -> Section {
    let rows: Vec<Vec<f64>> = chosen.iter().map(|&i| row(i)).collect();
    let rank = rows.first().map_or(0, Vec::len);
    let marks = chosen.iter();
    let marks = marks.map(|&i| (title(titles, ids.get(i as u32)).to_owned(), None));
    section(what, note, map(&rows.concat(), rank, marks))
}

/// Points in the plane of their two principal directions.
fn map(
    values: &[f64],
    rank: usize,
    marks: impl Iterator<Item = (String, Option<String>)>,
) -> Option<Scatter> {
    let plane = match rank {
        0 => return None,
        1 => values.iter().flat_map(|v| [*v, 0.0]).collect(),
        _ => principal_coordinates(values, rank, 2)?,
    };
    let marks = plane.chunks_exact(2).zip(marks);
    Some(Scatter {
        x: "first principal direction".into(),
        y: "second".into(),
        marks: marks
            .map(|(p, (name, group))| Mark {
                x: p[0],
                y: p[1],
                name,
                group,
            })
            .collect(),
        map: true,
        diagonal: false,
    })
}

fn section(what: &str, note: &str, scatter: Option<Scatter>) -> Section {
    let mut section = Section::new(
        &format!("A map of the {what}"),
        format!(
            "Near means alike in the learned space, though two directions show only a part of it. \
             Point at a mark to read its name. {note}"
        ),
    );
    if let Some(scatter) = scatter {
        let deck = "First principal direction of the learned vectors across, second upwards";
        section.draw(&capital(what), deck, Chart::Scatter(scatter));
    }
    section
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn wide(row: &[f32]) -> Vec<f64> {
    row.iter().map(|v| f64::from(*v)).collect()
}

/// Vectors of the things on the right side of W.
fn units<R: Real>(model: &Model, ids: &Ids) -> Result<Vec<f64>> {
    let (_, prepared) = unit_rows::<R>(ids);
    let found = model.embed(&prepared, Side::Right)?;
    Ok(found.values.iter().map(|v| v.to_f64()).collect())
}

/// Items of a kernel or a map with their coordinates.
fn items(model: &Model) -> Result<(&Ids, Vec<f64>, usize)> {
    let (values, rank) = match &model.form {
        Precise::F32(_) => {
            let found = model.item_coordinates::<f32>()?;
            (wide(&found.values), found.rank)
        }
        Precise::F64(_) => {
            let found = model.item_coordinates::<f64>()?;
            (found.values, found.rank)
        }
    };
    Ok((model.items()?, values, rank))
}

/// A map of dissimilarities as it stands, and its distances against them.
fn shepard(model: &Model, known: &Mapped, titles: Option<&Titles>) -> Result<Section> {
    let (ids, points, rank) = items(model)?;
    let at = |i: usize| &points[i * rank..][..rank];
    let shown = sample(ids.len(), MOST);
    let mut section = Section::new(
        "The map",
        format!(
            "Distances on the map stand for dissimilarities. {} {}",
            match rank {
                0..=2 => "",
                _ => "The first two of its dimensions are shown.",
            },
            spread_note(ids.len(), "items")
        ),
    );
    let marks = shown.iter().map(|&i| Mark {
        x: at(i)[0],
        y: at(i).get(1).copied().unwrap_or(0.0),
        name: title(titles, ids.get(i as u32)).to_owned(),
        group: None,
    });
    let scatter = Scatter {
        x: "first dimension".into(),
        y: "second".into(),
        marks: marks.collect(),
        map: true,
        diagonal: false,
    };
    let deck = "Both dimensions in the unit of the dissimilarities";
    section.draw("Items", deck, Chart::Scatter(scatter));
    let list = &known.dissimilarities.list;
    let pairs = sample(list.len(), MOST);
    let marks = pairs.iter().map(|&p| {
        let (left, right) = (list[p].left, list[p].right);
        let apart = at(left as usize).iter().zip(at(right as usize));
        let name = |i: u32| title(titles, ids.get(i));
        Mark {
            x: list[p].value,
            y: apart.map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt(),
            name: format!("{} and {}", name(left), name(right)),
            group: None,
        }
    });
    let scatter = Scatter {
        x: "dissimilarity".into(),
        y: "distance on the map".into(),
        marks: marks.collect(),
        map: false,
        diagonal: true,
    };
    let note = match list.len() > MOST {
        true => format!(
            "Pairs on the dashed line are shown true; {} of {} pairs",
            count(MOST as u64),
            count(list.len() as u64)
        ),
        false => "Pairs on the dashed line are shown true".into(),
    };
    section.draw("Shepard diagram", note, Chart::Scatter(scatter));
    Ok(section)
}

/// Singular values as a figure.
pub fn spectrum(model: &Model) -> Option<Figure> {
    let values = model.singular_values().ok()??;
    // A bar needs a pixel or two; beyond that a line says the same.
    let chart = match values.len() > 60 {
        false => Chart::Columns(values),
        true => Chart::Lines(Lines {
            x: "number".into(),
            y: "singular value".into(),
            lines: vec![super::Line {
                points: (1..).map(f64::from).zip(values).collect(),
                ..super::Line::default()
            }],
            ..Lines::default()
        }),
    };
    Some(Figure {
        title: "Singular values of W".into(),
        deck: "Learned directions across, by number; how much each counts upwards".into(),
        chart,
    })
}
