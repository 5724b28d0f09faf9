//! Dense rows in CSV or TSV: a header names the columns.
//!
//! `label` holds the label (any text), `id` the name of the row, unless other
//! columns are named for them; `fold`, `split` and `domain` are never features; all
//! other columns are numbers. An empty cell is missing and stored as NaN; zeros are
//! not stored.

use std::path::Path;

use super::number::{NoNumber, number, shown};
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
    read(Records::new(Lines::open(&source.path)?, delimiter), source)
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

/// What a column holds where labels and ids may have other names. The usual columns for
/// them are no features then.
fn role(name: &str, label: &str, id: &str) -> Option<Column> {
    match usual(name) {
        _ if name == label => Some(Column::Label),
        _ if name == id => Some(Column::Id),
        Some(_) => Some(Column::Ignored),
        None => None,
    }
}

pub(super) fn read<R: Real>(mut records: Records, source: &Documents) -> Result<Labelled<R>> {
    let delimiter = records.delimiter();
    let mut fields = Fields::default();
    match records.header()? {
        Some(record) => fields.split(record, delimiter),
        None => return Err(Error::input("no header").in_file(records.path())),
    }
    let has = |name: &str| {
        fields
            .iter()
            .any(|cell| cell.trim_ascii() == name.as_bytes())
    };
    let missing = |name: &str| Err(records.error(format!("no column is called `{name}`")));
    let (mut label, mut id) = ("label", "id");
    let named = [
        (&mut label, Some(&source.label)),
        (&mut id, source.id.as_ref()),
    ];
    for (column, name) in named {
        match name {
            Some(name) if has(name) => *column = name.as_str(),
            Some(name) if source.strict && name != *column => return missing(name),
            _ => {}
        }
    }
    let of_name = |name: &str| role(name, label, id);
    let (names, columns, features) = header(&fields, of_name).map_err(|m| records.error(m))?;
    let condition = match &source.condition {
        None => None,
        Some(condition) => match names.find(&condition.field) {
            Some(column) => Some((column as usize, condition)),
            None => return missing(&condition.field),
        },
    };

    let mut data = Labelled {
        rows: Rows::new(),
        labels: Labels::default(),
        ids: RowIds::Positions,
        features: Features::Numbered,
    };
    data.rows.widen(features.len());
    let mut row_names = Vec::new();
    let mut row = SparseVec::<R>::new();
    while let Some(record) = records.next_raw()? {
        fields.split(record, delimiter);
        let bad = |message: String| records.error(message);
        if fields.len() != columns.len() {
            let (want, found) = (columns.len(), fields.len());
            return Err(bad(format!("expected {want} fields, found {found}")));
        }
        let cell = |column: usize| fields.iter().nth(column).unwrap_or_default().trim_ascii();
        if condition.is_some_and(|(column, c)| cell(column) != c.value.as_bytes()) {
            continue;
        }
        row.clear();
        let mut label = None;
        for ((cell, column), name) in fields.iter().zip(&columns).zip(names.iter()) {
            match column {
                Column::Label => label = Some(text(cell, name).map_err(bad)?),
                Column::Id => row_names.push(text(cell, name).map_err(bad)?.to_owned()),
                Column::Ignored | Column::Target => {}
                Column::Feature(index) => {
                    let value = value(cell, name).map_err(bad)?;
                    if value != R::default() {
                        row.push(*index, value);
                    }
                }
            }
        }
        data.labels.push(label.filter(|label| !label.is_empty()));
        data.rows.push(row.as_row());
    }
    if data.rows.is_empty() {
        return Err(no_rows(source).in_file(records.path()));
    }
    data.rows.shrink();
    data.features = Features::Columns(features);
    if columns.iter().any(|c| matches!(c, Column::Id)) {
        data.ids = RowIds::Named(row_names);
    }
    Ok(data)
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
    if record
        .iter()
        .all(|cell| number::<f64>(cell.trim_ascii()).is_ok())
    {
        return Err("expected a header that names the columns, found numbers".into());
    }
    let (mut names, mut columns, mut features) = (Ids::new(), Vec::new(), Ids::new());
    for (i, cell) in record.iter().enumerate() {
        let cell = cell.trim_ascii();
        let name = std::str::from_utf8(cell)
            .map_err(|_| format!("the name of column {} is not UTF-8 text", i + 1))?;
        if name.is_empty() {
            return Err(format!("column {} has no name", i + 1));
        }
        if names.find(name).is_some() {
            return Err(format!("column {} stands twice", shown(cell)));
        }
        names.intern(name);
        columns.push(match role(name) {
            Some(column) => column,
            None => Column::Feature(features.intern(name)),
        });
    }
    Ok((names, columns, features))
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
    if cell.is_empty() {
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
                "t.csv:1: expected a header that names the columns, found numbers",
            ),
            ("a,b,a\n", "t.csv:1: column `a` stands twice"),
            ("label,b,label\n", "t.csv:1: column `label` stands twice"),
            ("split,b,split\n", "t.csv:1: column `split` stands twice"),
            ("a,,b\n", "t.csv:1: column 2 has no name"),
            ("a,b\n1,2\n1\n", "t.csv:3: expected 2 fields, found 1"),
            ("a,b\n1,2,3\n", "t.csv:2: expected 2 fields, found 3"),
            (
                "label,b\n1,2\n\nx,abc\n",
                "t.csv:4: column `b`: expected a number, found `abc`",
            ),
            (
                "a\nNaN\n",
                "t.csv:2: column `a`: expected a number, found `NaN`",
            ),
            (
                "a\n-inf\n",
                "t.csv:2: column `a`: expected a number, found `-inf`",
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
