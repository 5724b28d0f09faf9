//! Rows of a data file as a model sees them.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rankfold::data::text::{Documents, Vocabulary};
use rankfold::data::{
    ChoiceColumns, Condition, Labelled, RatingColumns, RowIds, RowLookup, read_labels, read_with,
};
use rankfold::form::Side;
use rankfold::model::{Knowledge, Prepared};
use rankfold::{Error, Model, Real, Result, Score};

use crate::output::Output;
use crate::unknown::check_entries;

/// Which rows of a file are read, and what its columns or fields mean.
#[derive(Args)]
pub struct Fields {
    /// Only rows with this value in a column or field; DATA is .csv, .tsv, .jsonl, .parquet or .arrow
    #[arg(long = "where", id = "condition", value_name = "FIELD=VALUE")]
    condition: Option<Condition>,

    /// The field of a document's text, for models with a vocabulary
    #[arg(long, value_name = "FIELD", default_value = "text")]
    text: String,

    /// The column or field of the label, in .csv, .tsv, .jsonl, .parquet or .arrow
    #[arg(long, value_name = "FIELD", default_value = "label")]
    label: String,

    /// The column or field of the id, in .csv, .tsv, .jsonl, .parquet or .arrow [default: `id`, where it is there]
    #[arg(long, value_name = "FIELD")]
    id: Option<String>,

    /// Columns of a table that are left out
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    drop: Vec<String>,

    /// Columns of a table that hold categories: each value becomes a feature, and the model keeps
    /// them
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    categories: Vec<String>,

    /// A table has no header: its columns are called 1, 2, …
    #[arg(long)]
    no_header: bool,
}

impl Fields {
    /// The rows or documents of a file.
    pub fn of(&self, path: &Path, output: &Output) -> Documents {
        Documents {
            path: path.to_owned(),
            text: self.text.clone(),
            label: self.label.clone(),
            id: self.id.clone(),
            condition: self.condition.clone(),
            strict: true,
            drop: self.drop.clone(),
            categories: self.categories.clone(),
            no_header: self.no_header,
            labelled: false,
            known: None,
            reading: output.reading.clone(),
        }
    }

    /// The same where every row needs a label.
    pub fn of_labelled(&self, path: &Path, output: &Output) -> Documents {
        Documents {
            labelled: true,
            ..self.of(path, output)
        }
    }

    /// All rows of another file, which may have other columns.
    pub fn of_all(&self, path: &Path, output: &Output) -> Documents {
        Documents {
            condition: None,
            strict: false,
            ..self.of(path, output)
        }
    }
}

/// The rows that are asked about, and how many answers each gets.
#[derive(Args)]
pub struct Queries {
    /// The id of a row to answer for, may be given again [default: all rows]
    #[arg(long, value_name = "ID")]
    pub query: Vec<String>,

    /// A text to answer for, may be given again; the model must have a vocabulary
    #[arg(long, value_name = "TEXT")]
    pub query_text: Vec<String>,

    /// Answers for each query
    #[arg(short, value_name = "K", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub k: u32,
}

/// `--score` of several commands.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScoreName {
    /// The projected cosine
    Cosine,
    /// leftᵀ W right
    Dot,
    /// By classes, where the model was trained with them
    Classes,
}

impl From<ScoreName> for Score {
    fn from(name: ScoreName) -> Score {
        match name {
            ScoreName::Cosine => Score::Cosine,
            ScoreName::Dot => Score::Dot,
            ScoreName::Classes => Score::Classes,
        }
    }
}

/// An error at the start where a model needs objects and none are given.
pub fn needs_objects(model: &Model, path: &Path, objects: Option<&PathBuf>) -> Result<()> {
    match model.objects.is_some() && objects.is_none() {
        true => {
            let message = "the model scores rows with objects: give them with --objects FILE";
            Err(Error::input(message).in_file(path))
        }
        false => Ok(()),
    }
}

/// An error for a model that scores no pairs of rows; it says which command answers.
pub fn scores_rows(model: &Model, path: &Path) -> Result<()> {
    let message = match &model.knowledge {
        Knowledge::Similarity(_)
        | Knowledge::Metric
        | Knowledge::Pairs { .. }
        | Knowledge::Kernel(_)
        | Knowledge::Map(_) => return Ok(()),
        Knowledge::Multitask(_) => "the model predicts targets: use `rankfold predict`",
        Knowledge::Completion(_) => {
            "the model predicts ratings: use `rankfold recommend` or `predict`"
        }
        Knowledge::Recommend(_) => "the model lists items for users: use `rankfold recommend`",
        Knowledge::Ranking(_) => "the model ranks labels: use `rankfold rank` or `predict`",
    };
    Err(Error::input(message).in_file(path))
}

/// The columns of ratings that were typed, or those that a model keeps.
pub fn rating_columns(
    text: Option<&str>,
    wide: bool,
    model: Option<&Model>,
    output: &Output,
) -> Result<RatingColumns> {
    let kept = match model.map(|model| &model.knowledge) {
        Some(Knowledge::Completion(known)) => known.card.columns.as_deref(),
        _ => None,
    };
    let columns = match text {
        // Ratings need not follow.
        Some(text) if text.split(',').count() == 2 && model.is_some() => {
            format!("{text},rating").parse()
        }
        Some(text) => text.parse(),
        None => Ok(RatingColumns::kept(kept)),
    };
    Ok(RatingColumns {
        wide,
        reading: output.reading.clone(),
        ..columns.map_err(|message| Error::option("columns", message))?
    })
}

/// The columns of choices that were typed, or those that a model keeps.
pub fn choice_columns(
    text: Option<&str>,
    wide: bool,
    model: Option<&Model>,
    output: &Output,
) -> Result<ChoiceColumns> {
    let kept = match model.map(|model| &model.knowledge) {
        Some(Knowledge::Recommend(known)) => known.card.columns.as_deref(),
        _ => None,
    };
    let columns = match text {
        Some(text) => text.parse(),
        None => Ok(ChoiceColumns::kept(kept)),
    };
    Ok(ChoiceColumns {
        wide,
        reading: output.reading.clone(),
        ..columns.map_err(|message| Error::option("columns", message))?
    })
}

/// An error in the file that it is about.
pub fn placed(error: Error, data: &Path, objects: Option<&PathBuf>) -> Error {
    match (error.about, objects) {
        (Some("objects"), Some(objects)) => Error {
            about: None,
            ..error
        }
        .in_file(objects),
        _ => error.in_file(data),
    }
}

/// Reads rows or documents, with the labels of another file instead of their
/// own where one is named.
pub fn read_rows<R: Real>(
    source: &Documents,
    vocabulary: Option<&Vocabulary>,
    labels: Option<&PathBuf>,
) -> Result<Labelled<R>> {
    let data = read_with::<R>(source, vocabulary)?;
    match labels {
        None => Ok(data),
        Some(file) => {
            let labels = read_labels(file, data.rows.len())?;
            data.with_labels(labels).map_err(|e| e.in_file(file))
        }
    }
}

/// Prepared rows and their names, and texts behind them that are no rows of
/// the file.
pub struct NamedRows<R> {
    pub ids: RowIds,
    pub texts: Vec<String>,
    pub prepared: Prepared<R>,
}

impl<R: Real> NamedRows<R> {
    /// Reads a file in the features of a side, with a note on what the model does
    /// not know.
    pub fn read(model: &Model, source: &Documents, side: Side, output: &Output) -> Result<Self> {
        let data = model.read_side::<R>(source, side)?;
        Self::prepared(model, source, data, side, Vec::new(), output)
    }

    /// The same for the left side, with texts made into rows behind those of the
    /// file.
    pub fn read_with_texts(
        model: &Model,
        source: &Documents,
        texts: Vec<String>,
        output: &Output,
    ) -> Result<Self> {
        let mut data = model.read::<R>(source)?;
        let rows = &mut data.rows;
        for text in &texts {
            let row = model.text_row(text)?;
            rows.push(row.as_row());
        }
        Self::prepared(model, source, data, Side::Left, texts, output)
    }

    /// The items of a kernel, which has no use for other rows.
    pub fn items(model: &Model, data: Option<&Path>) -> Result<Self> {
        if let Some(data) = data {
            let message = "a kernel knows its own items only: leave the rows out";
            return Err(Error::input(message).in_file(data));
        }
        let (ids, prepared) = model.item_rows::<R>()?;
        Ok(NamedRows {
            ids,
            texts: Vec::new(),
            prepared,
        })
    }

    /// The users of a rating model, or its items: rows that are their own features.
    pub fn users_or_items(model: &Model, side: Side) -> Result<Self> {
        let (users, items) = model.rating_ids()?;
        let ids = match side {
            Side::Left => users,
            Side::Right => items,
        };
        let (ids, prepared) = rankfold::model::unit_rows::<R>(ids);
        Ok(NamedRows {
            ids,
            texts: Vec::new(),
            prepared,
        })
    }

    fn prepared(
        model: &Model,
        source: &Documents,
        data: Labelled<R>,
        side: Side,
        texts: Vec<String>,
        output: &Output,
    ) -> Result<Self> {
        let Labelled {
            rows,
            ids,
            features,
            ..
        } = data;
        let in_file = |e: Error| e.in_file(&source.path);
        let count = rows.nnz();
        let prepared = model.prepare_side(rows, &features, side).map_err(in_file)?;
        check_entries(prepared.unknown_entries, count, output).map_err(in_file)?;
        Ok(NamedRows {
            ids,
            texts,
            prepared,
        })
    }

    /// How many rows of the file.
    pub fn len(&self) -> usize {
        self.prepared.rows.len() - self.texts.len()
    }

    /// The name of a row, or the text behind the rows.
    pub fn name(&self, i: usize) -> std::borrow::Cow<'_, str> {
        match i.checked_sub(self.len()) {
            None => self.ids.name(i),
            Some(text) => self.texts[text].as_str().into(),
        }
    }

    pub fn lookup(&self) -> RowLookup<'_> {
        RowLookup::new(&self.ids, self.len())
    }
}

/// Says how many entries were left out.
pub fn note_unknown(output: &Output, entries: usize) {
    if entries > 0 {
        output.note(&format!(
            "{entries} entries have features that the model does not know; they count for nothing"
        ));
    }
}
