//! Lists of items for some users.

use rankfold::data::{Choices, Ratings};
use rankfold::eval::nearest_among;
use rankfold::sparse::Part;
use rankfold::task::{Recommendations, UserLists};
use rankfold::{Model, Result};

use super::{Each, LONG, asked};
use crate::page::figures::exact;
use crate::page::maps::{Titles, title};
use crate::page::{Entry, Listing, Section, short};

const DECK: &str = "Five users at equal distances in the file.";

/// Lists of a model of ratings, beside what users said in the test data.
pub fn rated(
    model: &Model,
    test: &Ratings,
    train: Option<&Ratings>,
    titles: Option<&Titles>,
    threads: usize,
) -> Result<Section> {
    let (users, items) = model.rating_ids()?;
    let predictor = model.rating_predictor()?;
    let mut scores = Recommendations::new(model)?;
    let known = |row: usize| users.find(test.users.get(row as u32));
    let rows = test.entries.part(Part::All).rows;
    let queries = asked(test.users.len(), |row| {
        known(row).is_some() && rows.count(row) > 0
    });
    if let Some(train) = train {
        let rows = train.entries.part(Part::All).rows;
        for &row in &queries {
            let (Some(user), Some(at)) = (known(row), train.users.find(test.users.get(row as u32)))
            else {
                continue;
            };
            for &item in rows.line(at as usize).0 {
                if let Some(item) = items.find(train.items.get(item)) {
                    scores.leave_out(user, item);
                }
            }
        }
    }
    let seen = match train {
        Some(_) => "what they rated in training is left out",
        None => "give --train to leave out what they rated in training",
    };
    let mut section = Section::new(
        "Lists of some users",
        format!(
            "{DECK} On one side the items with the best predicted ratings; {seen}. On the other what \
             they rated in the test data, with what the model predicts."
        ),
    );
    let name = |id: &str| short(title(titles, id));
    let places: Vec<usize> = queries
        .iter()
        .filter_map(|&row| known(row))
        .map(|u| u as usize)
        .collect();
    let mut lists = Vec::new();
    let mut each = |_: usize, found: &[(usize, f64)]| {
        let shown = found.iter().filter(|(_, score)| !score.is_nan());
        let shown = shown.map(|&(item, score)| Entry {
            text: name(items.get(item as u32)),
            note: exact(scores.rating(score)),
            right: None,
        });
        lists.push(shown.collect::<Vec<_>>());
        Ok(())
    };
    nearest_among(&scores, &places, LONG, threads, &mut each as &mut Each<'_>)?;
    for (&row, shown) in queries.iter().zip(lists) {
        let (index, value) = rows.line(row);
        let mut said: Vec<(f64, &str)> = value
            .iter()
            .zip(index)
            .map(|(&value, &item)| (value, test.items.get(item)))
            .collect();
        said.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let said = said.into_iter().take(LONG).map(|(value, id)| {
            let found = predictor.rating(known(row), items.find(id));
            Entry {
                text: name(id),
                note: format!("said {}, predicted {}", exact(value), exact(found)),
                right: None,
            }
        });
        section.lists.push(Listing {
            title: format!("User {}", short(test.users.get(row as u32))),
            note: String::new(),
            lists: vec![
                ("Best predictions".into(), shown),
                ("Rated in the test data".into(), said.collect()),
            ],
        });
    }
    Ok(section)
}

/// Lists of a model of choices, beside what users chose in the test data.
pub fn choices(
    model: &Model,
    test: &Choices,
    train: Option<&Choices>,
    titles: Option<&Titles>,
    threads: usize,
) -> Result<Section> {
    let (known, items) = (model.recommended()?, model.recommended_items()?);
    let users = train.map_or(&known.users, |train| &train.users);
    let place = |row: usize| users.find(test.users.get(row as u32));
    let queries = asked(test.users.len(), |row| {
        place(row).is_some() && !test.weights.row(row).is_empty()
    });
    let places = || {
        queries
            .iter()
            .filter_map(|&row| place(row))
            .map(|user| user as usize)
    };
    let mut histories = match train {
        None => known.histories.select(places()),
        Some(train) => model.histories_of(train)?.0.select(places()),
    };
    histories.widen(items.len());
    let recommender = model.recommender()?;
    let ids = places().map(|user| users.get(user as u32));
    let numbers: Vec<Option<u32>> = ids.map(|id| known.users.find(id)).collect();
    let number = |i: usize| numbers[i];
    let lists = UserLists::new(&recommender, known, &number, &histories, true, threads);
    let name = |id: &str| short(title(titles, id));
    let mut section = Section::new(
        "Lists of some users",
        format!("{DECK} ✓ was chosen in the test data. What they chose before is left out."),
    );
    let plain = |id: &str| Entry {
        text: name(id),
        ..Entry::default()
    };
    let mut each = |at: usize, found: &[(usize, f64)]| {
        let row = queries[at];
        let wanted: Vec<&str> = test
            .weights
            .row(row)
            .indices
            .iter()
            .map(|&i| test.items.get(i))
            .collect();
        let shown = found.iter().filter(|(_, score)| !score.is_nan());
        let shown = shown.map(|&(item, _)| {
            let id = items.get(item as u32);
            Entry {
                text: name(id),
                note: String::new(),
                right: wanted.contains(&id).then_some(true),
            }
        });
        let mut before: Vec<(u32, f32)> = histories.row(at).iter().collect();
        before.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let before = before
            .iter()
            .take(LONG)
            .map(|(item, _)| plain(items.get(*item)));
        section.lists.push(Listing {
            title: format!("User {}", short(test.users.get(row as u32))),
            note: format!(
                "{} choices before, {} in the test data",
                histories.row(at).len(),
                wanted.len()
            ),
            lists: vec![
                ("Shown".into(), shown.collect()),
                (
                    "Chosen in the test data".into(),
                    wanted.iter().take(LONG).map(|id| plain(id)).collect(),
                ),
                ("Some chosen before".into(), before.collect()),
            ],
        });
        Ok(())
    };
    let all: Vec<usize> = (0..histories.len()).collect();
    nearest_among(&lists, &all, LONG, threads, &mut each as &mut Each<'_>)?;
    Ok(section)
}
