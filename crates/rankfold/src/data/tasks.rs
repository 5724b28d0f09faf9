//! Examples of regression tasks: each the name of its task, a row of features, and
//! the number to learn. Tables name them by column, JSON lines as
//! `{"task":…,"row":{…},"target":…}`.

use std::fmt::Display;
use std::path::Path;

use serde::Deserialize;

use super::about;
use super::columnar::LeftOut;
use super::features::{Features, check_names};
use super::format::{Format, LineFormat};
use super::jsonl::{Entries, Scalar, message, object};
use super::number::shown;
use super::open::Lines;
use super::reading::Reading;
use super::records::{Fields, Records};
use super::stream::other_shape;
use super::table::{Column, header, text, usual, value};
use crate::ids::IdText;
use crate::{Error, Ids, Result, Rows, SparseRow, SparseVec};

/// Numbers beyond this leave no room to square them.
const LARGEST: f64 = 1e100;

/// The columns of a table of tasks. All others are features, but for `id`, `fold`,
/// `split` and `domain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskColumns {
    /// The column with the name of the task.
    pub task: String,
    /// The column with the number to learn.
    pub target: String,
    /// Columns that are not to be used.
    pub ignored: Vec<String>,
    /// Whether these may be missing.
    pub lenient: bool,
    /// The format of files, and what is done with bad lines.
    pub reading: Reading,
}

impl Default for TaskColumns {
    fn default() -> Self {
        TaskColumns {
            task: "task".into(),
            target: "target".into(),
            ignored: Vec::new(),
            lenient: false,
            reading: Reading::default(),
        }
    }
}

impl TaskColumns {
    fn role(&self, name: &str) -> Option<Column> {
        match name {
            _ if name == self.task => Some(Column::Label),
            _ if name == self.target => Some(Column::Target),
            _ if self.ignored.iter().any(|ignored| ignored == name) => Some(Column::Ignored),
            "label" => None,
            _ => usual(name),
        }
    }
}

/// One example.
#[derive(Debug, Clone, Copy)]
pub struct TaskLine<'a> {
    /// The name of the task.
    pub task: &'a str,
    /// The features, by their number in [`TaskLines::features`]; missing cells are NaN.
    pub row: SparseRow<'a, f64>,
    /// The number to learn; NaN where it was not asked for.
    pub target: f64,
}

enum Source {
    Table {
        records: Records,
        fields: Fields,
        names: Ids,
        columns: Vec<Column>,
    },
    Jsonl(Lines),
}

/// Examples read one by one.
pub struct TaskLines {
    source: Source,
    targets: bool,
    features: Ids,
    /// Features of JSON lines that are not to be used.
    ignored: Vec<String>,
    task: String,
    target: f64,
    row: SparseVec<f64>,
    /// The line of the last example.
    line: u64,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    task: Option<Scalar<'a>>,
    #[serde(borrow)]
    row: Option<Entries<'a>>,
    target: Option<f64>,
}

impl TaskLines {
    /// Opens a table or JSON lines; `-` is JSON lines from stdin. `targets` says
    /// whether targets are needed; else there may be none.
    pub fn open(path: impl AsRef<Path>, columns: &TaskColumns, targets: bool) -> Result<Self> {
        let path = path.as_ref();
        let reading = &columns.reading;
        let format = match path == Path::new("-") && reading.format().is_none() {
            true => Format::Lines(LineFormat::Jsonl),
            false => reading.format_of(path)?,
        };
        let lines = || Lines::open_with(path, reading);
        match format {
            Format::Lines(LineFormat::Table(delimiter)) => {
                Self::table(Records::new(lines()?, delimiter), columns, targets)
            }
            Format::Lines(LineFormat::Jsonl) => {
                let mut lines = Self::jsonl(lines()?, targets);
                lines.ignored = columns.ignored.clone();
                Ok(lines)
            }
            _ => {
                let message = "tasks are read from .csv, .tsv or .jsonl, plain or with .gz or .zst, .parquet or .arrow";
                Err(Error::input(message).in_file(path))
            }
        }
    }

    fn new(source: Source, features: Ids, targets: bool) -> Self {
        TaskLines {
            source,
            targets,
            features,
            ignored: Vec::new(),
            task: String::new(),
            target: f64::NAN,
            row: SparseVec::new(),
            line: 0,
        }
    }

    fn table(mut records: Records, wanted: &TaskColumns, targets: bool) -> Result<Self> {
        let fields = records.names()?;
        let read = header(&fields, |name| wanted.role(name));
        let (names, columns, features) = read.map_err(|m| records.error(m))?;
        let missing = |what: &str, name: &str, hint: &str| {
            let found: Vec<_> = names.iter().take(8).map(|n| format!("`{n}`")).collect();
            let more = if names.len() > 8 { ", …" } else { "" };
            records.error(format!(
                "expected a column `{name}` with {what}, found {}{more}{hint}",
                found.join(", ")
            ))
        };
        if wanted.task == wanted.target {
            return Err(records.error(format!(
                "column `{}` cannot be both the task and the number to learn",
                wanted.task
            )));
        }
        if !columns.contains(&Column::Label) {
            let what = "the task of each row";
            return Err(missing(what, &wanted.task, "; --task-column names it"));
        }
        if targets && !columns.contains(&Column::Target) {
            let what = "the number to learn";
            return Err(missing(what, &wanted.target, "; --target-column names it"));
        }
        for name in &wanted.ignored {
            let left_out = records.left_out().iter().any(|column| column.name == *name);
            if names.find(name).is_none() && !left_out && !wanted.lenient {
                return Err(missing("what is to be ignored", name, ""));
            }
        }
        let is_used = |column: &&LeftOut| {
            !column.is_index() && wanted.role(&column.name) != Some(Column::Ignored)
        };
        if let Some(LeftOut { name, holds }) = records.left_out().iter().find(is_used) {
            return Err(records.error(format!(
                "column `{name}` holds {holds}, expected numbers; --ignore-column leaves it out"
            )));
        }
        if features.is_empty() {
            return Err(records.error("expected columns of features, found none"));
        }
        let source = Source::Table {
            records,
            fields,
            names,
            columns,
        };
        Ok(Self::new(source, features, targets))
    }

    /// Examples with targets from any JSON lines.
    pub fn from_lines(lines: Lines) -> Self {
        Self::jsonl(lines, true)
    }

    /// Examples from any JSON lines, whose targets are not asked for.
    pub fn inputs(lines: Lines) -> Self {
        Self::jsonl(lines, false)
    }

    fn jsonl(lines: Lines, targets: bool) -> Self {
        Self::new(Source::Jsonl(lines), Ids::new(), targets)
    }

    /// The features met so far.
    pub fn features(&self) -> &Ids {
        &self.features
    }

    /// Whether the features are all known from the start, so that one that is not among
    /// them is missing. In JSON lines it is 0.
    pub fn is_table(&self) -> bool {
        matches!(self.source, Source::Table { .. })
    }

    /// Reads the next example; false after the last.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            match self.next_line()? {
                None => return Ok(false),
                Some(Ok(())) => return Ok(true),
                Some(Err(message)) => {
                    let error = self.error(message);
                    match &self.source {
                        Source::Table { records, .. } => records.reading().bad(error)?,
                        Source::Jsonl(lines) => lines.reading().bad(error)?,
                    }
                }
            }
        }
    }

    /// Reads a line: what is wrong with it, or `None` after the last.
    fn next_line(&mut self) -> Result<Option<std::result::Result<(), String>>> {
        let found = match &mut self.source {
            Source::Table {
                records,
                fields,
                names,
                columns,
            } => {
                let delimiter = records.delimiter();
                match records.next_raw()? {
                    None => return Ok(None),
                    Some(record) => fields.split(record, delimiter),
                }
                self.line = records.line();
                self.row.clear();
                self.target = f64::NAN;
                let mut read = || -> std::result::Result<(), String> {
                    if fields.len() != columns.len() {
                        let (want, found) = (columns.len(), fields.len());
                        return Err(format!("expected {want} fields, found {found}"));
                    }
                    for ((cell, column), name) in fields.iter().zip(&*columns).zip(names.iter()) {
                        match column {
                            Column::Label => {
                                self.task.clear();
                                self.task.push_str(text(cell, name)?);
                            }
                            Column::Target if self.targets => {
                                self.target = value(cell, name)?;
                                if self.target.is_nan() {
                                    return Err(format!(
                                        "column `{name}`: expected a number to learn, found nothing"
                                    ));
                                }
                            }
                            Column::Feature(index) => {
                                let value: f64 = value(cell, name)?;
                                if value != 0.0 {
                                    self.row.push(*index, value);
                                }
                            }
                            _ => {}
                        }
                    }
                    Ok(())
                };
                read()
            }
            Source::Jsonl(lines) => {
                let line = loop {
                    match lines.next_line()? {
                        None => return Ok(None),
                        Some(line) if line.trim_ascii().is_empty() => {}
                        Some(line) => break line,
                    }
                };
                let found = parse(line, self.targets, &mut self.features, &self.ignored);
                let found = found.map(|(task, row, target)| {
                    (self.task, self.row, self.target) = (task, row, target);
                });
                self.line = lines.number();
                found
            }
        };
        Ok(Some(found.and_then(|()| match &self.task {
            task if task.is_empty() => Err(NO_TASK.into()),
            _ => check_sizes(&self.features, self.line()),
        })))
    }

    /// The example that was read last.
    pub fn line(&self) -> TaskLine<'_> {
        TaskLine {
            task: &self.task,
            row: self.row.as_row(),
            target: self.target,
        }
    }

    /// An error at that line.
    pub fn error(&self, message: impl Into<String>) -> Error {
        match &self.source {
            Source::Table { records, .. } => records.error_at(self.line, message),
            Source::Jsonl(lines) => lines.error_at(self.line, message),
        }
    }

    fn path(&self) -> &Path {
        match &self.source {
            Source::Table { records, .. } => records.path(),
            Source::Jsonl(lines) => lines.path(),
        }
    }
}

const NO_TASK: &str = "expected the name of a task, found nothing";

fn check_sizes(features: &Ids, line: TaskLine<'_>) -> std::result::Result<(), String> {
    let large = |v: f64| v.abs() > LARGEST;
    match line.row.iter().find(|&(_, v)| large(v)) {
        Some((j, v)) => {
            let name = shown(features.get(j).as_bytes());
            Err(format!("feature {name}: {v:e} is too large to be squared"))
        }
        None if large(line.target) => {
            let target = line.target;
            Err(format!("a target of {target:e} is too large to be squared"))
        }
        None => Ok(()),
    }
}

type Parsed = (String, SparseVec<f64>, f64);

fn parse(
    line: &[u8],
    targets: bool,
    features: &mut Ids,
    ignored: &[String],
) -> std::result::Result<Parsed, String> {
    let read = serde_json::from_slice::<Line<'_>>(object(line)?);
    let Line { task, row, target } = read.map_err(|e| message(&e))?;
    let (task, row, target) = match (task, row, target) {
        (Some(task), Some(row), Some(target)) => (task, row, target),
        (Some(task), Some(row), None) if !targets => (task, row, f64::NAN),
        _ => {
            let wanted = match targets {
                true => "the fields `task`, `row` and `target`",
                false => "the fields `task` and `row`",
            };
            return Err(other_shape(wanted, line));
        }
    };
    let mut entries: Vec<(u32, f64)> = row
        .0
        .iter()
        .filter(|(name, _)| !ignored.iter().any(|ignored| *ignored == **name))
        .map(|(name, value)| (features.intern(name), value.unwrap_or(f64::NAN)))
        .filter(|&(_, value)| value != 0.0)
        .collect();
    entries.sort_by_key(|entry| entry.0);
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let name = shown(features.get(pair[0].0).as_bytes());
        return Err(format!("feature {name} stands twice"));
    }
    Ok((
        task.0.into_owned(),
        SparseVec::from_entries(entries),
        target,
    ))
}

/// Puts rows of one file into the features of a model.
#[derive(Debug)]
pub struct FeatureMap<'a> {
    features: &'a Ids,
    /// The feature of the model for each of the file, where it has one.
    map: Vec<Option<u32>>,
    /// Features of the model that a table does not have: missing cells in every row.
    absent: Vec<u32>,
    row: SparseVec<f64>,
    entries: Vec<(u32, f64)>,
    /// Entries of features that the model does not know.
    pub unknown: usize,
}

impl<'a> FeatureMap<'a> {
    /// To these features, from those of a file: of all of a table, or of JSON lines, of
    /// which more come later. A table with none of the features is an error.
    pub fn new(features: &'a Ids, file: &Ids, table: bool) -> Result<Self> {
        let is_absent = |&j: &u32| file.find(features.get(j)).is_none();
        let absent: Vec<u32> = match table {
            true => (0..features.len() as u32).filter(is_absent).collect(),
            false => Vec::new(),
        };
        if table && absent.len() == features.len() {
            let some: Vec<_> = features.iter().take(3).map(|n| format!("`{n}`")).collect();
            let more = if features.len() > 3 { ", …" } else { "" };
            return Err(Error::input(format!(
                "expected some of the features of the model, {}{more}, found none",
                some.join(", ")
            )));
        }
        Ok(FeatureMap {
            features,
            map: Vec::new(),
            absent,
            row: SparseVec::new(),
            entries: Vec::new(),
            unknown: 0,
        })
    }

    /// Features of the model that a table does not have.
    pub fn absent(&self) -> impl Iterator<Item = &str> {
        self.absent.iter().map(|&j| self.features.get(j))
    }

    /// A row in the features of the model, where `from` names those of the file.
    pub fn align(&mut self, row: SparseRow<'_, f64>, from: &Ids) -> SparseRow<'_, f64> {
        let new = self.map.len()..from.len();
        let find = |i: usize| self.features.find(from.get(i as u32));
        self.map.extend(new.map(find));
        self.entries.clear();
        let missing = self.absent.iter().map(|&j| (j, f64::NAN));
        self.entries.extend(missing);
        for (j, value) in row.iter() {
            match self.map[j as usize] {
                Some(known) => self.entries.push((known, value)),
                None => self.unknown += 1,
            }
        }
        self.entries.sort_by_key(|entry| entry.0);
        self.row.clear();
        self.entries.iter().for_each(|&(j, v)| self.row.push(j, v));
        self.row.as_row()
    }
}

/// Examples of tasks: those of a file, or from memory.
#[derive(Debug, Clone)]
pub struct TaskRows {
    /// The names of the tasks, in the order they first came.
    pub names: Ids,
    /// The task of each row.
    pub task: Vec<u32>,
    /// The features of each row; missing cells are NaN.
    pub rows: Rows<f64>,
    /// The number to learn of each row.
    pub targets: Vec<f64>,
    /// The names of the features.
    pub features: Ids,
    /// Whether they come from a table, where a feature that is not there is missing.
    pub table: bool,
}

impl TaskRows {
    /// From the task, the features and the number to learn of each row. Features are
    /// called by their numbers from 1 unless [`TaskRows::with_features`] names them.
    /// Missing cells are NaN, as [`Rows::from_cells`] makes them. No rows are an error.
    ///
    /// ```
    /// use rankfold::Rows;
    /// use rankfold::data::{Features, TaskRows};
    ///
    /// let rows = Rows::from_dense([[1.0, 0.0], [2.0, 1.0], [0.0, 3.0]])?;
    /// let data = TaskRows::new(["north", "south", "north"], rows, vec![0.5, 1.5, 2.5])?
    ///     .with_features(Features::columns(["age", "size"])?)?;
    /// assert_eq!((data.names.len(), data.task.as_slice()), (2, &[0, 1, 0][..]));
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub fn new<T: Display>(
        tasks: impl IntoIterator<Item = T>,
        rows: Rows<f64>,
        targets: Vec<f64>,
    ) -> Result<Self> {
        let (mut names, mut text) = (Ids::new(), IdText::default());
        let task: Vec<u32> = tasks
            .into_iter()
            .map(|name| names.intern(text.of(name)))
            .collect();
        for (what, found) in [("tasks", task.len()), ("targets", targets.len())] {
            if found != rows.len() {
                return Err(Error::input(format!(
                    "expected {} {what}, one a row, found {found}",
                    rows.len()
                )));
            }
        }
        if rows.is_empty() {
            return Err(Error::input("no rows"));
        }
        let features: Ids = (1..=rows.columns()).collect();
        for (i, &target) in targets.iter().enumerate() {
            let task = names.get(task[i]);
            let row = rows.row(i);
            let checked = match target.is_nan() {
                _ if task.is_empty() => Err(NO_TASK.into()),
                true => Err("expected a number to learn, found NaN".into()),
                false => check_sizes(&features, TaskLine { task, row, target }),
            };
            checked.map_err(|message| about("row", i, Error::input(message)))?;
        }
        Ok(TaskRows {
            names,
            task,
            rows,
            targets,
            features,
            table: false,
        })
    }

    /// The same rows, whose columns have these names. [`Features::Columns`] are those of
    /// a table: where they are compared with others, one that is not there is missing.
    pub fn with_features(mut self, features: Features) -> Result<Self> {
        let (names, table) = match features {
            Features::Columns(names) => (names, true),
            Features::Named(names) => (names, false),
            Features::Numbered => return Ok(self),
            Features::Terms(_) => {
                return Err(Error::input(
                    "expected names of features, found a vocabulary",
                ));
            }
        };
        check_names(&self.rows, &names)?;
        self.rows.widen(names.len());
        Ok(TaskRows {
            features: names,
            table,
            ..self
        })
    }

    /// Reads all examples of a file. A file without any is an error.
    pub fn read(path: impl AsRef<Path>, columns: &TaskColumns) -> Result<Self> {
        Self::collect(TaskLines::open(path, columns, true)?)
    }

    fn collect(mut lines: TaskLines) -> Result<Self> {
        let mut out = TaskRows {
            names: Ids::new(),
            task: Vec::new(),
            rows: Rows::new(),
            targets: Vec::new(),
            features: Ids::new(),
            table: lines.is_table(),
        };
        while lines.advance()? {
            let line = lines.line();
            out.task.push(out.names.intern(line.task));
            out.rows.push(line.row);
            out.targets.push(line.target);
        }
        if out.task.is_empty() {
            return Err(Error::input("no rows").in_file(lines.path()));
        }
        out.rows.widen(lines.features.len());
        out.rows.shrink();
        out.features = lines.features;
        Ok(out)
    }

    /// Some of the rows, by number; all tasks and features keep theirs.
    pub(crate) fn select(&self, members: &[u32]) -> Self {
        let numbers = members.iter().map(|&i| i as usize);
        TaskRows {
            names: self.names.clone(),
            features: self.features.clone(),
            task: numbers.clone().map(|i| self.task[i]).collect(),
            rows: self.rows.select(numbers.clone()),
            targets: numbers.map(|i| self.targets[i]).collect(),
            table: self.table,
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.task.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.task.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Lines {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        Lines::new(Box::new(source), "t")
    }

    fn table(text: &str) -> Result<TaskRows> {
        let columns = TaskColumns {
            target: "y".into(),
            ignored: vec!["z".into()],
            ..TaskColumns::default()
        };
        let records = Records::new(lines(text), b',');
        TaskRows::collect(TaskLines::table(records, &columns, true)?)
    }

    fn jsonl(text: &str) -> Result<TaskRows> {
        TaskRows::collect(TaskLines::jsonl(lines(text), true))
    }

    #[test]
    fn tables_and_lines_say_the_same() {
        let a = table("a,task,z,y,b,split\n1,s,x,2,,train\n0,t,,-1.5,3,test\n0,s,,0,0,test\n");
        let a = a.unwrap();
        let b = jsonl(
            "{\"task\":\"s\",\"row\":{\"a\":1,\"b\":null},\"target\":2}\n\n\
             {\"target\":-1.5,\"row\":{\"b\":3},\"task\":\"t\"}\n{\"task\":\"s\",\"row\":{},\"target\":0,\"x\":[]}",
        );
        let b = b.unwrap();
        for rows in [&a, &b] {
            assert_eq!(rows.names.iter().collect::<Vec<_>>(), ["s", "t"]);
            assert_eq!(rows.features.iter().collect::<Vec<_>>(), ["a", "b"]);
            assert_eq!(rows.task, [0, 1, 0]);
            assert_eq!(rows.targets, [2.0, -1.5, 0.0]);
            assert_eq!(rows.rows.row(0).values[0], 1.0);
            assert!(rows.rows.row(0).values[1].is_nan());
            assert_eq!(rows.rows.row(1).iter().collect::<Vec<_>>(), [(1, 3.0)]);
            assert!(rows.rows.row(2).is_empty());
        }
    }

    #[test]
    fn rows_come_from_memory() {
        let file = table("a,task,z,y,b\n1,s,,2,\n0,t,,-1.5,3\n").unwrap();
        let cells = [[Some(1.0), None], [Some(0.0), Some(3.0)]];
        let make = |targets: Vec<f64>, tasks: &[&str]| {
            TaskRows::new(tasks, Rows::from_cells(cells).unwrap(), targets)
        };
        let memory = make(vec![2.0, -1.5], &["s", "t"]).unwrap();
        assert_eq!(memory.features.iter().collect::<Vec<_>>(), ["1", "2"]);
        assert!(!memory.table);
        let features = Features::columns(["a", "b"]).unwrap();
        let memory = memory.with_features(features).unwrap();
        assert_eq!((&memory.names, &memory.task), (&file.names, &file.task));
        assert_eq!(memory.targets, file.targets);
        assert_eq!((&memory.features, memory.table), (&file.features, true));
        for (one, other) in memory.rows.iter().zip(file.rows.iter()) {
            assert_eq!(one.indices, other.indices);
            let bits =
                |values: &[f64]| -> Vec<u64> { values.iter().map(|v| v.to_bits()).collect() };
            assert_eq!(bits(one.values), bits(other.values));
        }
        let few = Features::named(["a"]).unwrap();
        let large = Rows::from_dense([[0.0, 1e200]]).unwrap();
        let none = TaskRows::new([0; 0], Rows::new(), Vec::new());
        for (found, message) in [
            (
                make(vec![1.0], &["s", "t"]),
                "expected 2 targets, one a row, found 1",
            ),
            (
                make(vec![1.0; 2], &["s"]),
                "expected 2 tasks, one a row, found 1",
            ),
            (
                make(vec![1.0, f64::NAN], &["s", "t"]),
                "row 1: expected a number to learn, found NaN",
            ),
            (
                make(vec![f64::INFINITY, 1.0], &["s", "t"]),
                "row 0: a target of inf is too large to be squared",
            ),
            (
                make(vec![1.0; 2], &["s", ""]),
                "row 1: expected the name of a task, found nothing",
            ),
            (none, "no rows"),
            (
                TaskRows::new([7], large, vec![1.0]),
                "row 0: feature `2`: 1e200 is too large to be squared",
            ),
            (
                memory.with_features(few),
                "expected 2 names of features, one a column, found 1",
            ),
        ] {
            assert_eq!(found.unwrap_err().message, message);
        }
    }

    #[test]
    fn every_bad_file_says_what_is_wrong() {
        for (text, message) in [
            ("", "t: no header"),
            ("task,y,z,a\n", "t: no rows"),
            (
                "school,y,z,a\n",
                "t:1: expected a column `task` with the task of each row, found `school`, `y`, `z`, `a`; --task-column names it",
            ),
            (
                "task,z,a\n",
                "t:1: expected a column `y` with the number to learn, found `task`, `z`, `a`; --target-column names it",
            ),
            (
                "task,y,a\n",
                "t:1: expected a column `z` with what is to be ignored, found `task`, `y`, `a`",
            ),
            (
                "task,y,z\n",
                "t:1: expected columns of features, found none",
            ),
            (
                "task,y,z,a\ns,,,1\n",
                "t:2: column `y`: expected a number to learn, found nothing",
            ),
            (
                "task,y,z,a\ns,1,,1\n,1,,1\n",
                "t:3: expected the name of a task, found nothing",
            ),
            (
                "task,y,z,a\ns,nan,,1\n",
                "t:2: column `y`: expected a number to learn, found nothing",
            ),
            (
                "task,y,z,a\ns,1,,1e200\n",
                "t:2: feature `a`: 1e200 is too large to be squared",
            ),
            ("task,y,z,a\ns,1,2\n", "t:2: expected 4 fields, found 3"),
        ] {
            assert_eq!(table(text).unwrap_err().to_string(), message, "{text:?}");
        }
        for (text, message) in [
            ("\n", "t: no rows"),
            (
                "{\"task\":1,\"row\":{\"a\":1}}",
                "t:1: expected the fields `task`, `row` and `target`, found `task`, `row`",
            ),
            (
                "{\"task\":1,\"row\":{\"a\":1,\"a\":2},\"target\":1}",
                "t:1: feature `a` stands twice",
            ),
            ("[]", "t:1: expected a JSON object, found `[]`"),
        ] {
            assert_eq!(jsonl(text).unwrap_err().to_string(), message, "{text:?}");
        }
    }
}
