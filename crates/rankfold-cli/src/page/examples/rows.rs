//! The nearest rows of some rows, by the model and by what it is compared with.

use rankfold::data::{Labels, RowIds};
use rankfold::eval::{Cosine, Scorer, nearest, nearest_among};
use rankfold::form::Side;
use rankfold::model::{Knowledge, Precise};
use rankfold::{Model, Real, Result, Score};

use super::{Each, Kept, LONG, asked};
use crate::page::figures::exact;
use crate::page::{Entry, Listing, Section, short};

/// What is looked through.
pub struct Found<'a, R> {
    pub rows: &'a Kept<R>,
    /// Other things that rows look for, where they do not look among themselves.
    pub among: Option<&'a Kept<R>>,
    pub score: Option<Score>,
    /// The texts of the rows, where they are documents.
    pub texts: &'a dyn Fn(&str) -> Option<String>,
}

/// The nearest rows of five.
pub fn nearest_rows<R: Real>(
    model: &Model,
    found: &Found<'_, R>,
    threads: usize,
) -> Result<Section> {
    let data = &found.rows.data;
    let left = model.prepare(data.rows.clone(), &data.features)?;
    let right = found.among.map(|kept| {
        let data = &kept.data;
        model.prepare_side(data.rows.clone(), &data.features, Side::Right)
    });
    let right = right.transpose()?;
    let projection = match &right {
        None => model.project(&left, found.score)?,
        Some(right) => model.project_between(&left, right, found.score)?,
    };
    let among = found.among.map_or(data, |kept| &kept.data);
    let list = Listed {
        queries: (&data.ids, &data.labels),
        among: (&among.ids, &among.labels),
        alone: found.among.is_none(),
        texts: found.texts,
    };
    let queries = asked(data.rows.len(), |i| !data.labels.of(i).is_empty());
    let scored = |query: usize, row: usize, _: f64| exact(projection.score(query, row));
    let scorer = projection.scorer();
    let mut columns = vec![(
        "By the model".to_owned(),
        list.of(&scorer, &queries, threads, &scored)?,
    )];
    // A metric is compared with other distances, and things of two kinds with nothing.
    let similar = matches!(model.knowledge, Knowledge::Similarity(_));
    if similar && model.sides_share_features() {
        let cosine = match &right {
            None => Cosine::new(&left.rows),
            Some(right) => Cosine::between(&left.rows, &right.rows),
        };
        let plain = list.of(&cosine, &queries, threads, &|_, _, score| exact(score))?;
        columns.push(("By the cosine".into(), plain));
    }
    let what = if found.among.is_some() {
        "things to find"
    } else {
        "rows"
    };
    let note = found.among.unwrap_or(found.rows).note(what);
    let deck = format!(
        "The nearest of five rows, at equal distances in the file, with {}. ✓ has a label of the \
         row that asks, ✕ has another.{note}",
        match model.card.score {
            Score::Distance => "their distances",
            _ => "their scores",
        }
    );
    Ok(list.section(&deck, &queries, columns))
}

/// The nearest items of five items of a kernel.
pub fn items(model: &Model, labels: &Labels, threads: usize) -> Result<Section> {
    match &model.form {
        Precise::F32(_) => items_in::<f32>(model, labels, threads),
        Precise::F64(_) => items_in::<f64>(model, labels, threads),
    }
}

fn items_in<R: Real>(model: &Model, labels: &Labels, threads: usize) -> Result<Section> {
    let (ids, prepared) = model.item_rows::<R>()?;
    let projection = model.project(&prepared, None)?;
    let list = Listed {
        queries: (&ids, labels),
        among: (&ids, labels),
        alone: true,
        texts: &|_| None,
    };
    let queries = asked(projection.len(), |i| !labels.of(i).is_empty());
    let scored = |query: usize, row: usize, _: f64| exact(projection.score(query, row));
    let found = list.of(&projection.scorer(), &queries, threads, &scored)?;
    let deck = "The nearest of five items, with their distances. ✓ has the label of the item that \
                asks, ✕ has another.";
    Ok(list.section(deck, &queries, vec![("By the kernel".into(), found)]))
}

/// Rows that ask, and those that answer.
struct Listed<'a> {
    queries: (&'a RowIds, &'a Labels),
    among: (&'a RowIds, &'a Labels),
    /// Whether they are the same.
    alone: bool,
    texts: &'a dyn Fn(&str) -> Option<String>,
}

impl Listed<'_> {
    /// The lists of all queries by one scorer.
    fn of(
        &self,
        scorer: &(impl Scorer + ?Sized),
        queries: &[usize],
        threads: usize,
        scored: &dyn Fn(usize, usize, f64) -> String,
    ) -> Result<Vec<Vec<Entry>>> {
        let mut out = Vec::new();
        let mut each = |query: usize, found: &[(usize, f64)]| {
            let entry = |&(row, score): &(usize, f64)| Entry {
                text: self.named(self.among, row),
                note: scored(query, row, score),
                right: self.right(query, row),
            };
            out.push(found.iter().map(entry).collect());
            Ok(())
        };
        let each: &mut Each<'_> = &mut each;
        match self.alone {
            true => nearest(scorer, queries, LONG, threads, each)?,
            false => nearest_among(scorer, queries, LONG, threads, each)?,
        }
        Ok(out)
    }

    /// Whether two rows have a label in common.
    fn right(&self, query: usize, row: usize) -> Option<bool> {
        let of = |(_, labels): (&RowIds, &Labels), i: usize| -> Vec<String> {
            let own = labels.of(i).iter();
            own.map(|&label| labels.names.get(label).to_owned())
                .collect()
        };
        let (one, other) = (of(self.queries, query), of(self.among, row));
        (!other.is_empty()).then(|| other.iter().any(|label| one.contains(label)))
    }

    /// A row by its text or its name, with its labels.
    fn named(&self, (ids, labels): (&RowIds, &Labels), row: usize) -> String {
        let id = ids.name(row);
        let own = labels.of(row).iter().take(3);
        let own: Vec<&str> = own.map(|&label| labels.names.get(label)).collect();
        let text = (self.texts)(&id);
        match text {
            Some(text) => format!("{}: {}", own.join(", "), short(&text)),
            None if own.is_empty() => format!("row {}", short(&id)),
            None => format!("{}, row {}", short(&own.join(", ")), short(&id)),
        }
    }

    fn section(
        &self,
        deck: &str,
        queries: &[usize],
        columns: Vec<(String, Vec<Vec<Entry>>)>,
    ) -> Section {
        let mut section = Section::new("Nearest of some", deck);
        for (at, &query) in queries.iter().enumerate() {
            section.lists.push(Listing {
                title: self.named(self.queries, query),
                note: String::new(),
                lists: columns
                    .iter()
                    .map(|(name, lists)| (name.clone(), lists[at].clone()))
                    .collect(),
            });
        }
        section
    }
}
