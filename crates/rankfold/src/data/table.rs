//! Dense rows in CSV or TSV: a header names the columns.
//!
//! `label` holds the label (any text), `id` the name of the row, unless other
//! columns are named for them; `fold`, `split` and `domain` are never features; all
//! other columns are numbers, but for categories, whose values become features. An empty
//! cell is missing, and so are `NA`, `nan`, `null` and `?`; it is stored as NaN. Zeros are
//! not stored. Where no column is called `label`, one is recognized by its name, or because
//! it alone holds texts.

use std::collections::VecDeque;
use std::path::Path;

use super::columnar::LeftOut;
use super::number::{NoNumber, is_missing, number, shown};
use super::open::Lines;
use super::records::{Fields, Records};
use super::text::Documents;
use super::{Condition, Features, Labelled, Labels, RowIds};
use crate::{Error, Ids, Real, Result, Rows, SparseVec};

/// Reads a table with a header; `delimiter` is `,` or a tab.
pub fn read_table<R: Real>(path: impl AsRef<Path>, delimiter: u8) -> Result<Labelled<R>> {
    read_named(&Documents::new(path), delimiter)
}

/// The same with other columns for labels and ids, and rows of one value only.
pub(super) fn read_named<R: Real>(source: &Documents, delimiter: u8) -> Result<Labelled<R>> {
    let lines = Lines::open_with(&source.path, &source.reading)?;
    read(Records::new(lines, delimiter), source)
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// A text: a label, or the name of a task.
    Label,
    Id,
    Ignored,
    /// The number to learn.
    Target,
    /// A category, whose values are features.
    Category,
    Feature(u32),
}

/// What a column of labelled rows holds by its name; `None` is a feature.
pub(super) fn usual(name: &str) -> Option<Column> {
    match name {
        "label" => Some(Column::Label),
        "id" => Some(Column::Id),
        "fold" | "split" | "domain" => Some(Column::Ignored),
        _ => None,
    }
}

/// Columns that hold labels where none is called `label`, the clearest first.
pub(super) const LABELS: [&str; 6] = ["label", "class", "species", "target", "category", "y"];

/// Records that tell which columns hold texts.
const LOOKED_AT: usize = 3;

/// What the columns of a table are for.
struct Layout {
    names: Ids,
    columns: Vec<Column>,
    features: Ids,
    /// Features of categories are added as they come, unless all are known.
    grows: bool,
}

impl Layout {
    /// Decides by the header, and by the first records what holds texts.
    fn new(
        source: &Documents,
        header_fields: &Fields,
        first: &VecDeque<(u64, Fields)>,
        records: &Records,
    ) -> std::result::Result<Self, String> {
        let reading = records.reading();
        let texts = match records.is_columnar() {
            true => names(header_fields)?,
            false => column_names(header_fields, source.no_header)?,
        };
        let has = |name: &str| texts.iter().any(|text| text == name);
        let missing = |name: &str, option: &str| {
            let found: Vec<String> = texts.iter().take(12).map(|t| format!("`{t}`")).collect();
            let more = if texts.len() > 12 { ", …" } else { "" };
            Err(format!(
                "no column is called `{name}`: found {}{more}; see --{option}",
                found.join(", ")
            ))
        };
        let (mut label, mut id) = ("label", "id");
        let named = [
            (&mut label, Some(&source.label), "label"),
            (&mut id, source.id.as_ref(), "id"),
        ];
        for (column, name, option) in named {
            match name {
                Some(name) if has(name) => *column = name.as_str(),
                Some(name) if source.strict && name != *column => return missing(name, option),
                _ => {}
            }
        }
        for (names, option) in [(&source.drop, "drop"), (&source.categories, "categories")] {
            let is_there = |name: &str| {
                has(name) || option == "drop" && records.left_out().iter().any(|c| c.name == name)
            };
            if let Some(name) = names.iter().find(|name| source.strict && !is_there(name)) {
                return missing(name, option);
            }
        }
        let known = source.known.as_ref();
        let dropped = |name: &str| source.drop.iter().any(|drop| drop == name);
        let mut left_out = records.left_out().iter();
        let is_used = |column: &&LeftOut| !column.is_index() && !dropped(&column.name);
        if let Some(LeftOut { name, holds }) = left_out.find(is_used).filter(|_| known.is_none()) {
            return Err(format!(
                "column `{name}` holds {holds}, expected numbers; --drop leaves it out"
            ));
        }
        let is_known = |name: &str| known.is_some_and(|known| known.iter().any(|k| k == name));
        let is_category = |name: &str| {
            let prefix = format!("{name}=");
            let of_model = |known: &Vec<String>| known.iter().any(|k| k.starts_with(&prefix));
            source.categories.iter().any(|c| c == name) || known.is_some_and(of_model)
        };
        let is_text = |at: usize| {
            let mut cells = first.iter().filter_map(|(_, record)| record.get(at));
            let is_text = |cell: &[u8]| {
                let cell = cell.trim_ascii();
                // An infinity is a number that went wrong.
                let infinite =
                    std::str::from_utf8(cell).is_ok_and(|text| text.parse::<f64>().is_ok());
                is_missing(cell) || (number::<f64>(cell) == Err(NoNumber::Syntax) && !infinite)
            };
            let mut known = cells.clone().filter(|cell| !is_missing(cell.trim_ascii()));
            known.next().is_some() && cells.all(is_text)
        };
        let free = |at: &usize| {
            let name = texts[*at].as_str();
            usual(name).is_none()
                && name != id
                && !is_known(name)
                && !is_category(name)
                && !dropped(name)
        };
        let mut guessed = None;
        if !has(label) && label == "label" {
            let free: Vec<usize> = (0..texts.len()).filter(free).collect();
            let named = LABELS.iter().find_map(|known| {
                let called = |at: &&usize| texts[**at].eq_ignore_ascii_case(known);
                free.iter().find(called).copied()
            });
            let named = named.filter(|at| source.labelled || is_text(*at));
            let mut of_text = free.iter().copied().filter(|at| is_text(*at));
            // A table of labels alone has nothing to learn from.
            let only = of_text
                .next()
                .filter(|_| of_text.next().is_none() && free.len() > 1);
            guessed = named.or(only);
        }
        if let Some(at) = guessed {
            let path = source.path.display();
            let name = &texts[at];
            reading.note(format!(
                "{path}: labels in `{name}`; --label names another column"
            ));
        }
        let role = |at: usize, name: &str| match usual(name) {
            _ if name == label || guessed == Some(at) => Some(Column::Label),
            _ if name == id => Some(Column::Id),
            _ if dropped(name) => Some(Column::Ignored),
            _ if is_category(name) => Some(Column::Category),
            Some(_) => Some(Column::Ignored),
            // What the model does not know may hold anything.
            None if known.is_some() && !is_known(name) && is_text(at) => Some(Column::Ignored),
            None => None,
        };
        let (names, columns, mut features) = roles(&texts, role)?;
        if let Some(known) = known {
            let of_categories = known.iter().filter(|name| {
                let column = |c: &str| name.strip_prefix(c).is_some_and(|v| v.starts_with('='));
                texts.iter().any(|text| column(text)) && names.find(name).is_none()
            });
            of_categories.for_each(|name| _ = features.intern(name));
        }
        Ok(Layout {
            names,
            columns,
            features,
            grows: known.is_none(),
        })
    }

    /// The feature of a value of a category; `None` for one that is missing or not known.
    fn category(&mut self, column: &str, cell: &[u8]) -> std::result::Result<Option<u32>, String> {
        if is_missing(cell.trim_ascii()) {
            return Ok(None);
        }
        let name = format!("{column}={}", text(cell, column)?);
        Ok(match self.grows {
            true => Some(self.features.intern(&name)),
            false => self.features.find(&name),
        })
    }
}

pub(super) fn read<R: Real>(mut records: Records, source: &Documents) -> Result<Labelled<R>> {
    let header_fields = records.names()?;
    if source.no_header && records.is_columnar() {
        let message = "does not apply: the file names its columns";
        return Err(Error::option("no_header", message).in_file(records.path()));
    }
    let delimiter = records.delimiter();
    // Some records are looked at before they are read: what holds texts is no feature.
    let (mut fields, mut ahead) = (Fields::default(), VecDeque::new());
    if source.no_header {
        ahead.push_back((records.line(), header_fields.clone()));
    }
    while ahead.len() < LOOKED_AT
        && let Some(record) = records.next_raw()?
    {
        let mut one = Fields::default();
        one.split(record, delimiter);
        ahead.push_back((records.line(), one));
    }
    let reading = records.reading().clone();
    let layout = Layout::new(source, &header_fields, &ahead, &records);
    let mut layout = layout.map_err(|m| match source.no_header {
        true => records.error(m),
        false => records.error_at(records.header_line(), m),
    })?;
    let condition = match &source.condition {
        None => None,
        Some(condition) => match layout.names.find(&condition.field) {
            Some(column) => Some((column as usize, condition)),
            None => {
                let message = format!("no column is called `{}`", condition.field);
                return Err(records.error_at(records.header_line(), message));
            }
        },
    };

    let mut data = Labelled {
        rows: Rows::new(),
        labels: Labels::default(),
        ids: RowIds::Positions,
        features: Features::Numbered,
    };
    let mut row_names = Vec::new();
    let mut row = SparseVec::<R>::new();
    let (mut entries, mut unknown) = (Vec::<(u32, R)>::new(), 0_u64);
    let has_categories = layout.columns.contains(&Column::Category);
    loop {
        match ahead.pop_front() {
            Some((line, one)) => {
                records.go_back(line);
                fields = one;
            }
            None => match records.next_raw()? {
                None => break,
                Some(record) => fields.split(record, delimiter),
            },
        }
        if fields.len() != layout.columns.len() {
            let (want, found) = (layout.columns.len(), fields.len());
            records.bad(format!("expected {want} fields, found {found}"))?;
            continue;
        }
        let cell = |column: usize| fields.iter().nth(column).unwrap_or_default().trim_ascii();
        if condition.is_some_and(|(column, c)| cell(column) != c.value.as_bytes()) {
            continue;
        }
        entries.clear();
        let (mut label, mut id) = (None, None);
        let mut take = || -> std::result::Result<(), String> {
            for (at, cell) in fields.iter().enumerate() {
                let name = layout.names.get(at as u32);
                match layout.columns[at] {
                    Column::Label => label = Some(text(cell, name)?),
                    Column::Id => id = Some(text(cell, name)?),
                    Column::Ignored | Column::Target => {}
                    Column::Category => {
                        let name = name.to_owned();
                        match layout.category(&name, cell)? {
                            Some(index) => entries.push((index, R::from_f64(1.0))),
                            None if is_missing(cell.trim_ascii()) => {}
                            None => unknown += 1,
                        }
                    }
                    Column::Feature(index) => {
                        let value = value(cell, name).map_err(|message| hint(message, source))?;
                        if value != R::default() {
                            entries.push((index, value));
                        }
                    }
                }
            }
            Ok(())
        };
        if let Err(message) = take() {
            records.bad(message)?;
            continue;
        }
        if has_categories {
            entries.sort_unstable_by_key(|entry| entry.0);
        }
        row.clear();
        entries
            .iter()
            .for_each(|&(index, value)| row.push(index, value));
        row_names.extend(id.map(str::to_owned));
        data.labels.push(label.filter(|label| !label.is_empty()));
        data.rows.push(row.as_row());
    }
    if data.rows.is_empty() {
        return Err(no_rows(source).in_file(records.path()));
    }
    if unknown > 0 {
        let path = source.path.display();
        reading.note(format!(
            "{path}: {unknown} values of categories are not known to the model; they count for nothing"
        ));
    }
    data.rows.widen(layout.features.len());
    data.rows.shrink();
    data.features = Features::Columns(layout.features);
    if layout.columns.contains(&Column::Id) {
        data.ids = RowIds::Named(row_names);
    }
    Ok(data)
}

/// A message about a cell that is no number, with what else its column might be.
fn hint(message: String, source: &Documents) -> String {
    match message.contains("expected a number, found") && source.known.is_none() {
        true => format!("{message}; --label, --id, --drop and --categories name columns of texts"),
        false => message,
    }
}

/// The names in a header, or the numbers of columns where there is none.
fn column_names(record: &Fields, no_header: bool) -> std::result::Result<Vec<String>, String> {
    if no_header {
        return Ok((1..=record.len()).map(|n| n.to_string()).collect());
    }
    if record
        .iter()
        .all(|cell| number::<f64>(cell.trim_ascii()).is_ok())
    {
        return Err(
            "expected a header that names the columns, found numbers; --no-header says that \
             there is none"
                .into(),
        );
    }
    names(record)
}

/// The names in a header, whatever they are.
fn names(record: &Fields) -> std::result::Result<Vec<String>, String> {
    let name = |(i, cell): (usize, &[u8])| {
        let cell = cell.trim_ascii();
        let name = std::str::from_utf8(cell)
            .map_err(|_| format!("the name of column {} is not UTF-8 text", i + 1))?;
        match (name, i) {
            ("", 1..) => Err(format!("column {} has no name", i + 1)),
            _ => Ok(name.to_owned()),
        }
    };
    record.iter().enumerate().map(name).collect()
}

/// What each column holds, by its place and name, and the features among them.
fn roles(
    texts: &[String],
    role: impl Fn(usize, &str) -> Option<Column>,
) -> std::result::Result<(Ids, Vec<Column>, Ids), String> {
    let (mut names, mut columns, mut features) = (Ids::new(), Vec::new(), Ids::new());
    for (i, name) in texts.iter().enumerate() {
        if names.find(name).is_some() {
            return Err(format!("column {} stands twice", shown(name.as_bytes())));
        }
        names.intern(name);
        columns.push(match role(i, name) {
            Some(column) => column,
            // The index that pandas writes has no name.
            None if name.is_empty() => Column::Ignored,
            None => Column::Feature(features.intern(name)),
        });
    }
    Ok((names, columns, features))
}

/// The error of a file without a row, or without one that was asked for.
pub(super) fn no_rows(source: &Documents) -> Error {
    match &source.condition {
        None => Error::input("no rows"),
        Some(Condition { field, value }) => {
            Error::input(format!("no row has the value `{value}` in `{field}`"))
        }
    }
}

/// The columns by name: all names, what each holds, and the features among them.
pub(super) fn header(
    record: &Fields,
    role: impl Fn(&str) -> Option<Column>,
) -> std::result::Result<(Ids, Vec<Column>, Ids), String> {
    roles(&column_names(record, false)?, |_, name| role(name))
}

pub(super) fn text<'a>(cell: &'a [u8], column: &str) -> std::result::Result<&'a str, String> {
    std::str::from_utf8(cell.trim_ascii()).map_err(|_| {
        format!(
            "column `{column}`: expected UTF-8 text, found {}",
            shown(cell)
        )
    })
}

pub(super) fn value<R: Real>(cell: &[u8], column: &str) -> std::result::Result<R, String> {
    let cell = cell.trim_ascii();
    if is_missing(cell) {
        return Ok(R::from_f64(f64::NAN));
    }
    number(cell).map_err(|problem| match problem {
        NoNumber::Syntax => {
            format!(
                "column `{column}`: expected a number, found {}",
                shown(cell)
            )
        }
        NoNumber::TooLarge => {
            format!(
                "column `{column}`: {} is too large for {}",
                shown(cell),
                R::NAME
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from<R: Real>(text: &str) -> Result<Labelled<R>> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        let records = Records::new(Lines::new(Box::new(source), "t.csv"), b',');
        read(records, &Documents::new("t.csv"))
    }

    #[test]
    fn good_and_awkward_tables() {
        let text =
            "split,label,\"a, b\",id,c\r\ntrain,x,1, r1 ,\r\n\ntest,\"y\n z\",0,r2,-2e3\n,,0,r2,0";
        let data = from::<f64>(text).unwrap();
        assert_eq!(data.rows.columns(), 2);
        assert_eq!(data.rows.row(0).indices, [0, 1]);
        assert_eq!(data.rows.row(0).values[0], 1.0);
        assert!(data.rows.row(0).values[1].is_nan());
        assert_eq!(data.rows.row(1).iter().collect::<Vec<_>>(), [(1, -2000.0)]);
        assert!(data.rows.row(2).is_empty());
        let Features::Columns(features) = &data.features else {
            panic!("columns have names");
        };
        assert_eq!(features.iter().collect::<Vec<_>>(), ["a, b", "c"]);
        assert_eq!(data.labels.names.iter().collect::<Vec<_>>(), ["x", "y\n z"]);
        assert_eq!(data.labels.of(2), [0u32; 0]);
        assert_eq!(
            data.ids,
            RowIds::Named(["r1", "r2", "r2"].map(String::from).into())
        );
    }

    fn with(text: &str, change: impl FnOnce(&mut Documents)) -> Result<Labelled<f64>> {
        let bytes = std::io::Cursor::new(text.as_bytes().to_vec());
        let mut source = Documents::new("t.csv");
        change(&mut source);
        let lines = Lines::new(Box::new(bytes), "t.csv").read_by(&source.reading);
        read(Records::new(lines, b','), &source)
    }

    fn features(data: &Labelled<f64>) -> Vec<&str> {
        match &data.features {
            Features::Columns(names) => names.iter().collect(),
            _ => panic!("columns have names"),
        }
    }

    #[test]
    fn labels_are_recognized_by_name_or_because_they_are_texts() {
        let labels = |data: &Labelled<f64>| -> Vec<String> {
            data.labels.names.iter().map(str::to_owned).collect()
        };
        for text in ["a,Species\n1,x\n2,y\n", "kind,a\nx,1\ny,2\n"] {
            let data = with(text, |_| ()).unwrap();
            assert_eq!(
                (features(&data), labels(&data)),
                (vec!["a"], vec!["x".into(), "y".into()])
            );
        }
        // A number is a label only where labels are needed.
        let text = "x,y\n1,2\n";
        assert_eq!(features(&with(text, |_| ()).unwrap()), ["x", "y"]);
        let data = with(text, |source| source.labelled = true).unwrap();
        assert_eq!(
            (features(&data), labels(&data)),
            (vec!["x"], vec!["2".into()])
        );
        let unclear = with("a,b,c\n1,x,y\n", |_| ()).unwrap_err().to_string();
        assert_eq!(
            unclear,
            "t.csv:2: column `b`: expected a number, found `x`; --label, --id, --drop and \
             --categories name columns of texts"
        );
        let data = with("1,2,x\n3,4,y\n", |source| source.no_header = true).unwrap();
        assert_eq!((features(&data), data.rows.len()), (vec!["1", "2"], 2));
    }

    #[test]
    fn categories_become_features_and_missing_cells_have_words() {
        let text = "color,n,note,label\nred,1,a b,x\nblue,NA,c,y\n?,2,,x\n";
        let data = with(text, |source| {
            source.categories = vec!["color".into()];
            source.drop = vec!["note".into()];
        })
        .unwrap();
        assert_eq!(features(&data), ["n", "color=red", "color=blue"]);
        assert_eq!(
            data.rows.row(0).iter().collect::<Vec<_>>(),
            [(0, 1.0), (1, 1.0)]
        );
        assert!(data.rows.row(1).values[0].is_nan());
        assert_eq!(data.rows.row(2).indices, [0]);
        // New rows are encoded as the known features say.
        let new = with("n,color,note\n3,green,x\n4,blue,y\n", |source| {
            source.known = Some(["n", "color=red", "color=blue"].map(String::from).into());
        })
        .unwrap();
        assert_eq!(features(&new), ["n", "color=red", "color=blue"]);
        assert_eq!(new.rows.row(0).iter().collect::<Vec<_>>(), [(0, 3.0)]);
        assert_eq!(
            new.rows.row(1).iter().collect::<Vec<_>>(),
            [(0, 4.0), (2, 1.0)]
        );
        let error = with(text, |source| source.drop = vec!["nota".into()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "t.csv:1: no column is called `nota`: found `color`, `n`, `note`, `label`; see --drop"
        );
    }

    #[test]
    fn bad_lines_are_left_out_where_that_is_asked() {
        let reading = crate::data::Reading::new(None, crate::data::OnBadLine::Skip).unwrap();
        let text = "a,b,label\n1,2,x\n1,2\n1,oops,x\n3,4,y\n";
        let data = with(text, |source| source.reading = reading.clone()).unwrap();
        assert_eq!((data.rows.len(), reading.skipped()), (2, 2));
        let first = reading.first_skipped().unwrap().to_string();
        assert_eq!(first, "t.csv:3: expected 3 fields, found 2");
    }

    #[test]
    fn many_columns_take_no_more_than_their_share_of_time() {
        let names: Vec<String> = (0..300_000).map(|i| format!("c{i}")).collect();
        let zeros = vec!["0"; names.len()];
        let text = format!("{}\n{}\n", names.join(","), zeros.join(","));
        let start = std::time::Instant::now();
        assert_eq!(from::<f32>(&text).unwrap().rows.columns(), names.len());
        // Each column against all others would take minutes.
        assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    }

    #[test]
    fn a_header_has_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv.gz");
        let part = "a,".repeat(1 << 19);
        let write = |out: &mut dyn std::io::Write| -> std::io::Result<()> {
            (0..17).try_for_each(|_| out.write_all(part.as_bytes()))
        };
        crate::data::write_atomically(&path, write).unwrap();
        let error = read_table::<f32>(&path, b',').unwrap_err();
        let want = ("the header is longer than 16 MiB", Some(1));
        assert_eq!((error.message.as_str(), error.line), want);
    }

    #[test]
    fn every_bad_table_says_what_is_wrong() {
        let cases = [
            ("", "t.csv: no header"),
            ("label,a\n", "t.csv: no rows"),
            (
                "1,2\n",
                "t.csv:1: expected a header that names the columns, found numbers; --no-header says \
                 that there is none",
            ),
            ("a,b,a\n", "t.csv:1: column `a` stands twice"),
            ("label,b,label\n", "t.csv:1: column `label` stands twice"),
            ("split,b,split\n", "t.csv:1: column `split` stands twice"),
            ("a,,b\n", "t.csv:1: column 2 has no name"),
            ("a,b\n1,2\n1\n", "t.csv:3: expected 2 fields, found 1"),
            ("a,b\n1,2,3\n", "t.csv:2: expected 2 fields, found 3"),
            (
                "label,b\n1,2\n\nx,abc\n",
                "t.csv:4: column `b`: expected a number, found `abc`; --label, --id, --drop and \
                 --categories name columns of texts",
            ),
            (
                "a\n-inf\n",
                "t.csv:2: column `a`: expected a number, found `-inf`; --label, --id, --drop and \
                 --categories name columns of texts",
            ),
            (
                "a\n1e39\n",
                "t.csv:2: column `a`: `1e39` is too large for f32",
            ),
        ];
        for (text, want) in cases {
            assert_eq!(from::<f32>(text).unwrap_err().to_string(), want);
        }
    }
}
