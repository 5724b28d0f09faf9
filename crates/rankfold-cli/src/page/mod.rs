//! Pages of `--report`: one HTML file that needs nothing but itself.
//!
//! [`Page`] is plain data: titled sections of charts, tables and lists. [`Page::html`] makes the
//! file. In between, `figures.rs` and its neighbors turn numbers into places; `page.html` says
//! what a page looks like and `draw.html` how a chart is drawn from places. Text comes from data
//! files, so all of it goes through [`clean`] and is escaped by the template.

mod bars;
pub mod figures;
mod graph;
mod lines;
mod scatter;
#[cfg(test)]
mod tests;

pub mod examples;
pub mod gossip;
pub mod maps;
pub mod measured;
pub mod metrics;
pub mod sure;
pub mod trained;

pub use bars::{Bar, Bars};
pub use graph::Graph;
pub use lines::{Line, Lines};
pub use scatter::{Mark, Scatter};

use std::path::Path;

use minijinja::{Environment, Value, context};
use rankfold::{Error, Result, data};

use crate::chart::COLORS;

/// The longest name that is shown whole.
const LONGEST: usize = 90;

/// All that a page shows.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// What the page is about, above the title.
    pub kicker: String,
    pub title: String,
    /// Some sentences for those who read nothing else.
    pub lead: String,
    /// What was used and what came out, by name.
    pub facts: Vec<(String, String)>,
    /// The command as it was typed.
    pub command: String,
    pub sections: Vec<Section>,
}

/// Charts, tables and lists under one title.
#[derive(Debug, Clone, Default)]
pub struct Section {
    pub title: String,
    /// What is seen, and how it was chosen.
    pub deck: String,
    pub figures: Vec<Figure>,
    pub tables: Vec<Table>,
    pub lists: Vec<Listing>,
}

/// A chart with its title.
#[derive(Debug, Clone)]
pub struct Figure {
    pub title: String,
    /// What the axes are, and what else is to be said.
    pub deck: String,
    pub chart: Chart,
}

/// What a figure draws.
#[derive(Debug, Clone)]
pub enum Chart {
    Lines(Lines),
    Bars(Bars),
    /// Upright bars, numbered from one.
    Columns(Vec<f64>),
    Scatter(Scatter),
    Graph(Graph),
}

/// A table whose first column names its rows.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub caption: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Whether it is shown on request only.
    pub folded: bool,
}

/// An example: something that was asked for, and lists of what was found.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    pub title: String,
    pub note: String,
    pub lists: Vec<(String, Vec<Entry>)>,
}

/// A line of a list.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    pub text: String,
    pub note: String,
    /// Whether it is right, where that is known.
    pub right: Option<bool>,
}

impl Section {
    pub fn new(title: &str, deck: impl Into<String>) -> Self {
        Section {
            title: title.into(),
            deck: deck.into(),
            ..Section::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.figures.is_empty() && self.tables.is_empty() && self.lists.is_empty()
    }

    /// Adds a chart.
    pub fn draw(&mut self, title: &str, deck: impl Into<String>, chart: Chart) {
        self.figures.push(Figure {
            title: title.into(),
            deck: deck.into(),
            chart,
        });
    }
}

impl Page {
    /// Adds a section unless nothing is in it.
    pub fn add(&mut self, section: Section) {
        if !section.is_empty() {
            self.sections.push(section);
        }
    }

    /// The file. An error is a fault in the templates: no data can cause one.
    pub fn html(&self) -> Result<String> {
        self.render()
            .map_err(|e| Error::failure(format!("cannot make the report: {e}")))
    }

    /// Writes the file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let html = self.html()?;
        data::write_atomically(path, |out| std::io::Write::write_all(out, html.as_bytes()))
    }

    fn render(&self) -> std::result::Result<String, minijinja::Error> {
        let mut templates = Environment::new();
        // Only names that end in .html are escaped; style sheets must not be.
        templates.add_template("style.css", include_str!("style.css"))?;
        templates.add_template("page.css", include_str!("page.css"))?;
        templates.add_template("charts.html", include_str!("charts.html"))?;
        templates.add_template("draw.html", include_str!("draw.html"))?;
        templates.add_template("page.html", include_str!("page.html"))?;
        templates.get_template("page.html")?.render(self.view())
    }

    fn view(&self) -> Value {
        let mut number = 0;
        let sections: Vec<Value> = self
            .sections
            .iter()
            .map(|section| section.view(&mut number))
            .collect();
        let facts = self.facts.iter();
        let facts =
            facts.map(|(name, value)| context! { name => clean(name), value => clean(value) });
        context! {
            version => env!("CARGO_PKG_VERSION"),
            colors => COLORS.to_vec(),
            kicker => clean(&self.kicker),
            title => clean(&self.title),
            lead => clean(&self.lead),
            facts => facts.collect::<Vec<_>>(),
            command => clean(&self.command),
            sections,
        }
    }
}

impl Section {
    /// What the template sees. Figures without a finite number are left out.
    fn view(&self, number: &mut usize) -> Value {
        let (mut figures, mut tables) = (Vec::new(), Vec::new());
        for figure in &self.figures {
            let Some(drawn) = figures::view(figure, *number + 1) else {
                continue;
            };
            *number += 1;
            figures.push(drawn);
            tables.extend(figures::numbers(figure));
        }
        let (own, folded): (Vec<&Table>, Vec<&Table>) =
            self.tables.iter().partition(|table| !table.folded);
        context! {
            title => clean(&self.title),
            deck => clean(&self.deck),
            figures,
            tables => own.into_iter().map(Table::view).collect::<Vec<_>>(),
            folded => folded.into_iter().chain(&tables).map(Table::view).collect::<Vec<_>>(),
            lists => self.lists.iter().map(Listing::view).collect::<Vec<_>>(),
        }
    }
}

impl Table {
    fn view(&self) -> Value {
        let cells = |row: &Vec<String>| row.iter().map(|cell| clean(cell)).collect::<Vec<_>>();
        context! {
            caption => clean(&self.caption),
            head => cells(&self.head),
            rows => self.rows.iter().map(cells).collect::<Vec<_>>(),
        }
    }
}

impl Listing {
    fn view(&self) -> Value {
        let entry = |entry: &Entry| {
            context! {
                text => clean(&entry.text),
                note => clean(&entry.note),
                mark => entry.right.map(|right| if right { "right" } else { "wrong" }),
            }
        };
        let list = |(name, entries): &(String, Vec<Entry>)| {
            context! { name => clean(name), entries => entries.iter().map(entry).collect::<Vec<_>>() }
        };
        context! {
            title => clean(&self.title),
            note => clean(&self.note),
            lists => self.lists.iter().map(list).collect::<Vec<_>>(),
        }
    }
}

/// Text of others without what no page can hold: control characters, and endless length. Names
/// that change the direction of writing could hide what stands around them.
pub fn clean(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let kept = text.chars().map(|c| match c.is_control() || turns(c) {
        true => ' ',
        false => c,
    });
    kept.collect()
}

/// A name that is shown among others: cut where it is too long.
pub fn short(name: &str) -> String {
    match name.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// The numbers of things that are shown, evenly spread, where there are too many for a picture.
pub fn sample(count: usize, most: usize) -> Vec<usize> {
    match count > most {
        true => (0..most)
            .map(|i| (i as u128 * count as u128 / most as u128) as usize)
            .collect(),
        false => (0..count).collect(),
    }
}
