//! The best labels of some rows, and how well labels are found by how often they occur.

use rankfold::eval::nearest_among;
use rankfold::model::Knowledge;
use rankfold::task::{COUNTS, Group, Grouping, name_of_part, part_of_count};
use rankfold::{Model, Real, Result};

use super::{Each, Kept, LONG, asked};
use crate::page::figures::exact;
use crate::page::{Entry, Listing, Section, measured, short};

/// Labels among which a label of a row should be.
const FIRST: usize = 10;

/// Lists of labels, and a chart by their frequency.
pub fn labels<R: Real>(
    model: &Model,
    kept: &Kept<R>,
    texts: &dyn Fn(&str) -> Option<String>,
    threads: usize,
) -> Result<Vec<Section>> {
    let Knowledge::Ranking(known) = &model.knowledge else {
        return Ok(Vec::new());
    };
    let (names, counts) = (model.label_names()?, &known.prior.count);
    let data = &kept.data;
    let prepared = model.prepare(data.rows.clone(), &data.features)?;
    let scores = model.label_scores(&prepared)?;
    // The labels of each row as the model numbers them; none for those that it does not know.
    let numbers: Vec<Option<u32>> = data
        .labels
        .names
        .iter()
        .map(|name| model.find_label(name))
        .collect::<Result<_>>()?;
    let own = |row: usize| {
        data.labels
            .of(row)
            .iter()
            .map(|&label| (label, numbers[label as usize]))
    };
    let queries = asked(data.rows.len(), |row| !data.labels.of(row).is_empty());
    let mut section = Section::new(
        "Best labels of some rows",
        "Five rows at equal distances in the file. ✓ is a label of the row, ✕ is none; the number is \
         the score.",
    );
    let mut each = |row: usize, found: &[(usize, f64)]| {
        let best = found.iter().map(|&(label, score)| Entry {
            text: short(names.get(label as u32)),
            note: exact(score),
            right: Some(own(row).any(|(_, number)| number == Some(label as u32))),
        });
        let truth = own(row).map(|(label, number)| Entry {
            // By the name of the model, where files have numbers.
            text: short(number.map_or(data.labels.names.get(label), |n| names.get(n))),
            note: match number {
                Some(number) => format!("in {} rows of training", counts[number as usize]),
                None => "not known to the model".into(),
            },
            right: None,
        });
        let id = data.ids.name(row);
        let text = texts(&id);
        section.lists.push(Listing {
            title: format!("Row {}", short(&id)),
            note: text.map(|text| short(&text)).unwrap_or_default(),
            lists: vec![
                ("Best labels".into(), best.collect()),
                ("Its labels".into(), truth.collect()),
            ],
        });
        Ok(())
    };
    nearest_among(&scores, &queries, LONG, threads, &mut each as &mut Each<'_>)?;

    let all: Vec<usize> = (0..data.rows.len())
        .filter(|&row| !data.labels.of(row).is_empty())
        .collect();
    let mut popular: Vec<u32> = (0..counts.len() as u32).collect();
    popular.sort_by_key(|&label| (std::cmp::Reverse(counts[label as usize]), label));
    popular.truncate(FIRST);
    let mut parts = vec![(0_usize, 0_usize, 0_usize); COUNTS];
    let mut tally = |row: usize, found: &[(usize, f64)]| {
        for (_, number) in own(row) {
            let seen = number.map_or(0, |number| counts[number as usize]);
            let (all, hits, usual) = &mut parts[part_of_count(seen)];
            *all += 1;
            let among = |number: u32| found.iter().any(|(label, _)| *label == number as usize);
            *hits += usize::from(number.is_some_and(among));
            *usual += usize::from(number.is_some_and(|number| popular.contains(&number)));
        }
        Ok(())
    };
    nearest_among(&scores, &all, FIRST, threads, &mut tally as &mut Each<'_>)?;
    let by = "frequency of the label in training";
    let metric = format!("recall_at_{FIRST}");
    let mut grouping = Grouping::new(by, &metric, "labels of rows", Some("popularity"));
    for (part, (all, hits, usual)) in parts.into_iter().enumerate().filter(|(_, p)| p.0 > 0) {
        grouping.groups.push(Group {
            name: format!("in {} rows", name_of_part(part)),
            count: all,
            value: hits as f64 / all as f64,
            baseline: Some(usual as f64 / all as f64),
        });
    }
    let mut by_count = measured::groups(&grouping);
    by_count.deck += &kept.note("rows");
    Ok(vec![section, by_count])
}
