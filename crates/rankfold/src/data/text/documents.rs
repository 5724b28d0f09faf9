//! Files of documents: JSON lines or tables with a text, and perhaps a label and an id.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::fit::{FitOptions, Fitter};
use super::vocabulary::Vocabulary;
use crate::data::fields::json_lists;
use crate::data::format::{Format, LineFormat};
use crate::data::jsonl::Listed;
use crate::data::lookup::NamesRead;
use crate::data::number::{label_name, shown};
use crate::data::open::{Lines, Replay, is_dash};
use crate::data::output::Output;
use crate::data::reading::Reading;
use crate::data::records::{Fields, Records};
use crate::data::split::Condition;
use crate::data::svmlight::write_svmlight_row;
use crate::data::table::LABELS;
use crate::data::{Features, Labelled, Labels};
use crate::{Error, Real, Result, Rows};

/// Which file holds the documents, or rows, and what its fields or columns mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documents {
    /// The file; `-` is stdin.
    pub path: PathBuf,
    /// The field of the text.
    pub text: String,
    /// The field of the label; a document without it has none.
    pub label: String,
    /// The field of the row id, when rows should have one.
    pub id: Option<String>,
    /// Only documents with this value.
    pub condition: Option<Condition>,
    /// Whether rows must have what is named here. A second file may have other columns: it
    /// is then read by the usual names.
    pub strict: bool,
    /// Columns of a table that are left out.
    pub drop: Vec<String>,
    /// Columns of a table that hold categories: each value becomes a feature `COLUMN=VALUE`.
    pub categories: Vec<String>,
    /// Whether a table has no header; its columns are then called 1, 2, ….
    pub no_header: bool,
    /// Whether labels are needed, so that a column may be taken for them by its name alone.
    pub labelled: bool,
    /// The features that are known, where there are some: other columns of a table may hold
    /// anything, and categories become these features.
    pub known: Option<Vec<String>>,
    /// The format of the file, and what is done with bad lines.
    pub reading: Reading,
}

/// What came out of a vectorized file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VectorizeSummary {
    /// Documents written, each one row.
    pub rows: u64,
    /// Terms of the vocabulary.
    pub features: u64,
    /// Entries of all rows.
    pub nnz: u64,
    /// Documents left out by the condition.
    pub skipped: u64,
}

impl Documents {
    /// Documents in a file with the usual fields, `text` and `label`.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Documents {
            path: path.as_ref().to_owned(),
            text: "text".into(),
            label: "label".into(),
            id: None,
            condition: None,
            strict: true,
            drop: Vec::new(),
            categories: Vec::new(),
            no_header: false,
            labelled: false,
            known: None,
            reading: Reading::default(),
        }
    }

    /// The same where features are known: names of the columns of a table.
    pub fn knowing(mut self, features: &Features) -> Self {
        if let Features::Columns(names) = features {
            self.known = Some(names.iter().map(str::to_owned).collect());
        }
        self
    }

    /// The first option that names something unusual, of those that only documents have
    /// or of all.
    pub(crate) fn unusual(&self, of_documents: bool) -> Option<&'static str> {
        let usual = Documents::new("");
        let all = [
            ("text", self.text != usual.text),
            ("where", !of_documents && self.condition.is_some()),
            ("label", !of_documents && self.label != usual.label),
            ("id", !of_documents && self.id.is_some()),
            ("drop", !of_documents && !self.drop.is_empty()),
            ("categories", !of_documents && !self.categories.is_empty()),
            ("no_header", !of_documents && self.no_header),
        ];
        all.into_iter()
            .find(|(_, named)| *named)
            .map(|(name, _)| name)
    }

    /// Reads documents as rows over a vocabulary, with the same numbers as
    /// [`vectorize_file`] writes. Labels stay as they are. Documents are named by
    /// their field `id`, unless another is named; those without it by their
    /// position.
    pub fn read<R: Real>(&self, vocabulary: &Vocabulary) -> Result<Labelled<R>> {
        let mut rows = Rows::new();
        rows.widen(vocabulary.len());
        let (mut labels, mut names) = (Labels::default(), NamesRead::default());
        self.for_each(
            Lines::open_with(&self.path, &self.reading)?,
            Some("id"),
            |text, found, id| {
                // Numbers have one spelling, as in a file of rows.
                let plain = vocabulary.classes().is_none();
                let spelled = |label| match plain.then(|| label_name(str::as_bytes(label))) {
                    Some(Some(name)) => name,
                    _ => label.into(),
                };
                let spelled: Vec<_> = found.iter().map(spelled).collect();
                labels.push(spelled.iter().map(AsRef::as_ref));
                if let Some(id) = id {
                    names.put(rows.len(), id);
                }
                rows.push(vocabulary.row(text).as_row());
                Ok(())
            },
        )?;
        Ok(names.rows(rows, labels, Features::Numbered))
    }

    /// The texts of the documents with these names, which are their ids or positions as
    /// [`Documents::read`] gives them; each is cut after some hundred characters.
    pub fn texts(&self, wanted: &HashSet<String>) -> Result<HashMap<String, String>> {
        const LONGEST: usize = 400;
        let (mut out, mut at) = (HashMap::new(), 0_usize);
        let lines = Lines::open_with(&self.path, &self.reading.uncounted())?;
        self.for_each(lines, Some("id"), |text, _, id| {
            let name = id.map_or_else(|| at.to_string(), str::to_owned);
            at += 1;
            if wanted.contains(&name) {
                let words = text.split_whitespace().take(LONGEST / 2);
                let text = words.collect::<Vec<_>>().join(" ");
                out.insert(name, text.chars().take(LONGEST).collect());
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Calls `each` with text, labels and id of every document that fits the
    /// condition; gives the number of those that do not. Where no field is named
    /// for ids, those in `usual_id` are taken, and may be absent.
    fn for_each(
        &self,
        lines: Lines,
        usual_id: Option<&str>,
        mut each: impl FnMut(&str, &Tags, Option<&str>) -> std::result::Result<(), Problem>,
    ) -> Result<u64> {
        let condition = self.condition.as_ref();
        let mut documents = DocumentLines::new(self, lines, usual_id)?;
        let (mut seen, mut skipped) = (0u64, 0);
        while let Some(fields) = documents.next()? {
            seen += 1;
            let fields = fields.map_err(Problem::Line);
            let done = fields.and_then(|found| {
                if condition.is_some_and(|c| !found.values.contains(&c.value)) {
                    skipped += 1;
                    return Ok(());
                }
                let missing = |name: &str| Problem::Line(format!("expected a field `{name}`"));
                let text = found.text.ok_or_else(|| missing(&self.text))?;
                if let (Some(name), None) = (&self.id, &found.id) {
                    return Err(missing(name));
                }
                each(&text, &found.tags, found.id.as_deref())
            });
            match done {
                Ok(()) => {}
                Err(Problem::Line(message)) => {
                    seen -= 1;
                    documents.bad(message)?;
                }
                Err(Problem::Other(error)) => return Err(error),
            }
        }
        if seen == skipped {
            let message = match condition {
                Some(Condition { field, value }) if seen > 0 => {
                    format!("no document has the value `{value}` in `{field}`")
                }
                _ => "no documents".into(),
            };
            return Err(Error::input(message).in_file(&self.path));
        }
        Ok(skipped)
    }
}

/// What a document has of the fields that are read.
#[derive(Default)]
struct Document {
    text: Option<String>,
    tags: Tags,
    id: Option<String>,
    /// Of the condition.
    values: Vec<String>,
}

/// The labels of a document.
#[derive(Default)]
struct Tags {
    names: Vec<String>,
    /// Whether they stand in a list, which may be of any length.
    is_list: bool,
}

impl Tags {
    fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// Names in their order, without those that came before.
fn once_each(mut names: Vec<String>) -> Vec<String> {
    if names.len() > 1 {
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
    }
    names
}

impl Document {
    /// Fields of a JSON line: only labels may be several.
    fn from_json(line: &[u8], names: [Option<&str>; 5]) -> std::result::Result<Self, String> {
        let [text, label, labels, id, value] = json_lists(line, names)?;
        let several = match (label, labels) {
            (Some(_), Some(_)) => return Err("both `label` and `labels` are given".into()),
            (label, labels) => label.or(labels),
        };
        let owned = |field: Option<Listed<'_>>| {
            let texts = field.into_iter().flat_map(|listed| listed.texts);
            texts.map(Cow::into_owned).collect::<Vec<String>>()
        };
        let single = |field: Option<Listed<'_>>, name: Option<&str>| match field {
            Some(listed) if listed.is_list => Err(format!(
                "`{}` is a list: expected a text or a number",
                name.unwrap_or_default()
            )),
            field => Ok(owned(field).pop()),
        };
        Ok(Document {
            text: single(text, names[0])?,
            tags: Tags {
                is_list: several.as_ref().is_some_and(|listed| listed.is_list),
                names: once_each(owned(several)),
            },
            id: single(id, names[3])?,
            values: owned(value),
        })
    }

    /// Cells of a table: text, label, id and the value of the condition.
    fn from_cells([text, label, id, value]: [Option<String>; 4]) -> Self {
        Document {
            text,
            tags: Tags {
                names: Vec::from_iter(label),
                is_list: false,
            },
            id,
            values: Vec::from_iter(value),
        }
    }
}

/// The documents of a file, one by one.
enum DocumentLines<'a> {
    Json {
        lines: Lines,
        names: [Option<&'a str>; 5],
    },
    Table {
        records: Records,
        fields: Fields,
        columns: [Option<usize>; 4],
        width: usize,
    },
}

/// Columns that hold texts where none is called `text`, the clearest first.
const TEXTS: [&str; 9] = [
    "text",
    "body",
    "content",
    "document",
    "review",
    "reviewText",
    "message",
    "comment",
    "description",
];

impl<'a> DocumentLines<'a> {
    fn new(source: &'a Documents, lines: Lines, usual_id: Option<&'a str>) -> Result<Self> {
        let id = source.id.as_deref().or(usual_id);
        let condition = source.condition.as_ref().map(|c| c.field.as_str());
        let names = [
            Some(source.text.as_str()),
            Some(source.label.as_str()),
            // As rows in JSON lines have them.
            (source.label == "label").then_some("labels"),
            id,
            condition,
        ];
        let named = source.reading.format().is_some() || !is_dash(&source.path);
        let format = source.reading.format_of(&source.path);
        let Ok(Format::Lines(LineFormat::Table(delimiter))) = format else {
            return Ok(DocumentLines::Json { lines, names });
        };
        if !named {
            return Ok(DocumentLines::Json { lines, names });
        }
        let mut records = Records::new(lines, delimiter);
        let header = records.names()?;
        let exact = |name: &str| {
            let mut cells = header.iter();
            cells.position(|cell| cell.trim_ascii() == name.as_bytes())
        };
        let usual = |names: &[&str]| {
            names.iter().find_map(|name| {
                let mut cells = header.iter();
                cells.position(|cell| cell.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
            })
        };
        let missing = |name: &str, option: &str| {
            let found = header.iter().take(12).map(shown).collect::<Vec<_>>();
            records.error(format!(
                "no column is called `{name}`: found {}; see --{option}",
                found.join(", ")
            ))
        };
        let text = exact(&source.text).or_else(|| usual(&TEXTS).filter(|_| source.text == "text"));
        let text = text.ok_or_else(|| missing(&source.text, "text"))?;
        let label = exact(&source.label)
            .or_else(|| usual(&LABELS).filter(|at| source.label == "label" && *at != text));
        let id = id.and_then(exact);
        if let (Some(name), None) = (&source.id, id) {
            return Err(missing(name, "id"));
        }
        let condition = match condition {
            Some(name) => Some(exact(name).ok_or_else(|| missing(name, "where"))?),
            None => None,
        };
        let called = |at: usize| header.get(at).map(shown).unwrap_or_default();
        if exact(&source.text).is_none() || label.is_some() && exact(&source.label).is_none() {
            let labels = label.map_or_else(String::new, |at| format!(", labels in {}", called(at)));
            let (path, text) = (source.path.display(), called(text));
            source
                .reading
                .note(format!("{path}: texts in {text}{labels}"));
        }
        Ok(DocumentLines::Table {
            records,
            columns: [Some(text), label, id, condition],
            width: header.len(),
            fields: Fields::default(),
        })
    }

    /// The next document, or what is wrong with its line.
    fn next(&mut self) -> Result<Option<std::result::Result<Document, String>>> {
        match self {
            DocumentLines::Json { lines, names } => {
                while let Some(line) = lines.next_line()? {
                    if !line.trim_ascii().is_empty() {
                        return Ok(Some(Document::from_json(line, *names)));
                    }
                }
                Ok(None)
            }
            DocumentLines::Table {
                records,
                fields,
                columns,
                width,
            } => {
                let delimiter = records.delimiter();
                match records.next_raw()? {
                    None => return Ok(None),
                    Some(record) => fields.split(record, delimiter),
                }
                if fields.len() != *width {
                    let found = fields.len();
                    return Ok(Some(Err(format!("expected {width} fields, found {found}"))));
                }
                let cell = |column: &Option<usize>| {
                    let cell = column.and_then(|at| fields.get(at)).map(<[u8]>::trim_ascii);
                    let text = cell.map(|cell| std::str::from_utf8(cell).map(str::to_owned));
                    text.transpose()
                        .map_err(|_| "expected UTF-8 text".to_owned())
                };
                let mut out = [const { None }; 4];
                for (at, (place, column)) in out.iter_mut().zip(&*columns).enumerate() {
                    match cell(column) {
                        // An empty text is a text, but an empty label is none.
                        Ok(text) => *place = text.filter(|text| at == 0 || !text.is_empty()),
                        Err(message) => return Ok(Some(Err(message))),
                    }
                }
                Ok(Some(Ok(Document::from_cells(out))))
            }
        }
    }

    /// The error of the line just read, unless bad lines are left out.
    fn bad(&self, message: String) -> Result<()> {
        match self {
            DocumentLines::Json { lines, .. } => lines.bad(message),
            DocumentLines::Table { records, .. } => records.bad(message),
        }
    }
}

/// What stops the reading: the line itself, or something else.
enum Problem {
    Line(String),
    Other(Error),
}

/// Learns a vocabulary from a file, and then writes the same documents as
/// svmlight rows. Both files take their place together, at the end.
/// `progress` is called with the number of documents read so far in both passes.
pub fn fit_file(
    documents: &Documents,
    options: FitOptions,
    vocabulary: &Path,
    output: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<VectorizeSummary> {
    if vocabulary == output {
        let message = "the vocabulary and the rows cannot go to the same file";
        return Err(Error::input(message).in_file(output));
    }
    let name = match is_dash(&documents.path) && documents.reading.format().is_none() {
        true => documents.path.clone(),
        false => documents.reading.name_of(&documents.path)?,
    };
    let source = Replay::new(&documents.path, &name)?;
    let mut fitter = Fitter::new(options);
    let mut read = 0;
    documents.for_each(
        source.lines()?.read_by(&documents.reading),
        None,
        |text, tags, _| {
            fitter.add(text, tags.iter());
            read += 1;
            progress(read);
            Ok(())
        },
    )?;
    if let Some(foreign) = fitter.foreign() {
        let path = documents.path.display();
        documents.reading.note(format!(
            "{path}: {foreign} of {read} texts have other letters than a to z, which end words there; \
             --alphabet unicode makes words of them"
        ));
    }
    let learned = fitter
        .finish()
        .map_err(|error| error.in_file(&documents.path))?;
    let mut vocabulary = Output::create(vocabulary)?;
    let mut text = Vec::new();
    learned
        .write(&mut text)
        .map_err(|e| Error::writing(vocabulary.path(), &e))?;
    vocabulary.put(&text)?;
    let mut rows = Output::create(output)?;
    let mut later = |done| progress(read + done);
    // Bad lines were counted in the first pass.
    let again = documents.reading.uncounted();
    let lines = source.lines()?.read_by(&again);
    let summary = write_rows(documents, lines, &learned, &mut rows, &mut later)?;
    rows.commit()?;
    vocabulary.commit()?;
    Ok(summary)
}

/// Writes documents as svmlight rows over a vocabulary that is known.
pub fn vectorize_file(
    documents: &Documents,
    vocabulary: &Vocabulary,
    output: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<VectorizeSummary> {
    let lines = Lines::open_with(&documents.path, &documents.reading)?;
    let mut rows = Output::create(output)?;
    let summary = write_rows(documents, lines, vocabulary, &mut rows, progress)?;
    rows.commit()?;
    Ok(summary)
}

fn write_rows(
    documents: &Documents,
    lines: Lines,
    vocabulary: &Vocabulary,
    output: &mut Output,
    progress: &mut dyn FnMut(u64),
) -> Result<VectorizeSummary> {
    let mut summary = VectorizeSummary {
        features: vocabulary.len() as u64,
        ..Default::default()
    };
    let mut line = Vec::new();
    let mut unknown = 0_u64;
    summary.skipped = documents.for_each(lines, None, |text, tags, id| {
        let mut numbers = Vec::new();
        for name in tags.iter() {
            match vocabulary.label_number(name) {
                Ok(number) => numbers.push(number),
                // Other labels of the list still say something.
                Err(_) if tags.is_list => unknown += 1,
                Err(message) => return Err(Problem::Line(message)),
            }
        }
        let labels: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let row = vocabulary.vectorize::<f32>(text);
        line.clear();
        write_svmlight_row(&mut line, &labels, row.as_row(), id)
            .map_err(|e| Problem::Line(e.to_string()))?;
        output.put(&line).map_err(Problem::Other)?;
        summary.rows += 1;
        summary.nnz += row.as_row().len() as u64;
        progress(summary.rows);
        Ok(())
    })?;
    if unknown > 0 {
        documents.reading.note(format!(
            "{}: {unknown} labels in lists were left out, because the vocabulary does not know them",
            documents.path.display()
        ));
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::RowIds;

    #[test]
    fn documents_are_read_as_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let text = r#"{"text":"apple pie","label":"b","s":"x"}
{"text":"apple apple tree pie","label":"a","id":"two","s":"x"}
{"text":"","s":"x"}
{"text":"tree","s":"y"}
"#;
        std::fs::write(at("d.jsonl"), text).unwrap();
        let mut documents = Documents::new(at("d.jsonl"));
        let options = FitOptions {
            min_df: 1,
            ..FitOptions::default()
        };
        let (v, out) = (at("v.json"), at("o.svm"));
        fit_file(&documents, options, &v, &out, &mut |_| ()).unwrap();
        let vocabulary = Vocabulary::load(&v).unwrap();
        let data = documents.read::<f64>(&vocabulary).unwrap();
        let written = crate::data::read_svmlight::<f64>(&out).unwrap();
        assert_eq!(data.rows, written.rows);
        assert_eq!(data.labels.names.iter().collect::<Vec<_>>(), ["b", "a"]);
        let labels = |data: &Labelled<f64>| -> Vec<Vec<u32>> {
            (0..4).map(|i| data.labels.of(i).to_vec()).collect()
        };
        assert_eq!(labels(&data), labels(&written));
        let names = ["0", "two", "2", "3"].map(String::from);
        assert_eq!(data.ids, RowIds::Named(names.into()));

        documents.condition = Some("s=y".parse().unwrap());
        let data = documents.read::<f32>(&vocabulary).unwrap();
        assert_eq!((data.rows.len(), data.ids), (1, RowIds::Positions));
        documents.id = Some("id".into());
        let error = documents.read::<f32>(&vocabulary).unwrap_err();
        assert_eq!(
            (error.message.as_str(), error.line),
            ("expected a field `id`", Some(4))
        );
    }

    #[test]
    fn documents_have_any_number_of_labels() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str| {
            std::fs::write(at(name), text).unwrap();
            Documents::new(at(name))
        };
        let text = r#"{"text":"apple pie","labels":["sweet","fruit","sweet"]}
{"text":"apple tree","label":["fruit",{"name":"wood","id":7}]}
{"text":"pie","labels":[],"label":null}
{"text":"tree","label":"wood"}
"#;
        let documents = write("d.jsonl", text);
        let options = FitOptions {
            min_df: 1,
            ..FitOptions::default()
        };
        let (v, out) = (at("v.json"), at("o.svm"));
        fit_file(&documents, options, &v, &out, &mut |_| ()).unwrap();
        let rows = std::fs::read_to_string(&out).unwrap();
        let labels: Vec<&str> = rows
            .lines()
            .map(|row| row.split(' ').next().unwrap())
            .collect();
        assert_eq!(labels, ["1,0", "0,2", "", "2"]);
        let vocabulary = Vocabulary::load(&v).unwrap();
        let data = documents.read::<f64>(&vocabulary).unwrap();
        let names = |i: usize| {
            let numbers = data.labels.of(i).iter();
            let names = numbers.map(|&n| data.labels.names.get(n));
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(0), "sweet fruit");
        assert_eq!(names(1), "fruit wood");
        assert_eq!(names(2), "");

        // A label in a list may be unknown, one that stands alone may not.
        let more = write("e.jsonl", r#"{"text":"tree","labels":["stone","wood"]}"#);
        vectorize_file(&more, &vocabulary, &out, &mut |_| ()).unwrap();
        assert!(std::fs::read_to_string(&out).unwrap().starts_with("2 "));
        let notes = more.reading.take_notes();
        assert!(
            notes[0].contains("1 labels in lists were left out"),
            "{notes:?}"
        );
        let alone = write("f.jsonl", r#"{"text":"tree","labels":"stone"}"#);
        let error = vectorize_file(&alone, &vocabulary, &out, &mut |_| ()).unwrap_err();
        assert!(error.message.starts_with("label `stone` is none"));
        for (bad, why) in [
            (
                r#"{"text":["a"]}"#,
                "`text` is a list: expected a text or a number",
            ),
            (
                r#"{"text":"a","label":1,"labels":[2]}"#,
                "both `label` and `labels` are given",
            ),
        ] {
            let documents = write("g.jsonl", bad);
            let error = documents.read::<f64>(&vocabulary).unwrap_err();
            assert_eq!((error.message.as_str(), error.line), (why, Some(1)));
        }
        // Conditions are met by any value of a list.
        let mut some = write("d.jsonl", text);
        some.label = "none".into();
        some.condition = Some("labels=fruit".parse().unwrap());
        assert_eq!(some.read::<f64>(&vocabulary).unwrap().rows.len(), 1);
    }

    #[test]
    fn a_file_is_fitted_and_another_one_follows() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let text = r#"{"text":"apple pie","label":"b","s":"train","n":7}
{"text":"apple tree","label":"a","s":"train","n":8}
{"text":"tree pie","label":"c","s":"test","n":9}
"#;
        std::fs::write(at("d.jsonl"), text).unwrap();
        let mut documents = Documents::new(at("d.jsonl"));
        documents.condition = Some("s=train".parse().unwrap());
        let options = FitOptions {
            min_df: 1,
            ..FitOptions::default()
        };
        let mut steps = Vec::new();
        let mut progress = |n| steps.push(n);
        let (v, out) = (at("v.json"), at("o.svm"));
        let made = fit_file(&documents, options, &v, &out, &mut progress).unwrap();
        assert_eq!(
            (made.rows, made.features, made.nnz, made.skipped),
            (2, 3, 2, 1)
        );
        assert_eq!(steps, [1, 2, 3, 4]);
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "1 1:1\n0 2:1\n");

        let vocabulary = Vocabulary::load(&v).unwrap();
        documents.condition = Some("s=test".parse().unwrap());
        let error = vectorize_file(&documents, &vocabulary, &out, &mut |_| ()).unwrap_err();
        let want = "label `c` is none of the 2 classes the vocabulary was fitted with";
        assert_eq!((error.message.as_str(), error.line), (want, Some(3)));
        documents.label = "no such field".into();
        documents.id = Some("n".into());
        vectorize_file(&documents, &vocabulary, &out, &mut |_| ()).unwrap();
        let rows = std::fs::read_to_string(&out).unwrap();
        assert_eq!(rows, " 1:0.70710677 2:0.70710677 # 9\n");

        documents.condition = Some("s=none".parse().unwrap());
        let error = vectorize_file(&documents, &vocabulary, &out, &mut |_| ()).unwrap_err();
        assert_eq!(error.message, "no document has the value `none` in `s`");
        documents.condition = None;
        documents.text = "body".into();
        let error = vectorize_file(&documents, &vocabulary, &out, &mut |_| ()).unwrap_err();
        assert_eq!(
            (error.message.as_str(), error.line),
            ("expected a field `body`", Some(1))
        );
        assert_eq!(std::fs::read_to_string(&out).unwrap(), rows);
    }
}
