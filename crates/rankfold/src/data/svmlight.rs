//! svmlight text: `LABELS index:value index:value … [# row id]`.
//!
//! The first field is one number, or several separated by commas; a line that
//! starts with a space has no labels. Features are counted from 1. Empty lines
//! and lines that start with `#` are skipped. Memory: the rows themselves.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use super::lookup::NamesRead;
use super::number::{NoNumber, label_name, number, shown};
use super::open::Lines;
use super::{Features, Labelled, Labels, RowIds};
use crate::sparse::MAX_INDEX;
use crate::{Error, Real, Result, Rows, SparseRow};

/// Reads a file of svmlight rows.
pub fn read_svmlight<R: Real>(path: impl AsRef<Path>) -> Result<Labelled<R>> {
    read_lines(Lines::open(path)?)
}

pub(super) fn read_lines<R: Real>(mut lines: Lines) -> Result<Labelled<R>> {
    let mut rows = Rows::new();
    let mut labels = Labels::default();
    let mut names = NamesRead::default();
    let mut entries: Vec<(u32, R)> = Vec::new();
    let (mut indices, mut values) = (Vec::new(), Vec::new());
    while let Some(line) = lines.next_line()? {
        if is_skipped(line) {
            continue;
        }
        let (fields, id) = split_comment(line);
        let parsed = parse(fields, &mut entries);
        let parsed = parsed.and_then(|found| Ok((label_names(found)?, id.map(text).transpose()?)));
        let (found, id) = match parsed {
            Ok(parsed) => parsed,
            Err(message) => {
                lines.bad(message)?;
                continue;
            }
        };
        labels.push(found.iter().map(AsRef::as_ref));
        if let Some(id) = id {
            names.put(rows.len(), id);
        }
        if let Some(&(last, _)) = entries.last() {
            rows.widen(last as usize + 1);
        }
        indices.clear();
        values.clear();
        for &(index, value) in entries.iter().filter(|e| e.1 != R::default()) {
            indices.push(index);
            values.push(value);
        }
        rows.push(SparseRow {
            indices: &indices,
            values: &values,
        });
    }
    if rows.is_empty() {
        return Err(Error::input("no rows").in_file(lines.path()));
    }
    Ok(names.rows(rows, labels, Features::Numbered))
}

/// Whether a line holds no row.
pub(super) fn is_skipped(line: &[u8]) -> bool {
    line.is_empty() || line[0] == b'#'
}

/// The fields of a line, and the row id after `#`.
fn split_comment(line: &[u8]) -> (&[u8], Option<&[u8]>) {
    match line.iter().position(|&b| b == b'#') {
        Some(at) => {
            let id = line[at + 1..].trim_ascii();
            (&line[..at], Some(id).filter(|id| !id.is_empty()))
        }
        None => (line, None),
    }
}

fn text(id: &[u8]) -> std::result::Result<&str, String> {
    std::str::from_utf8(id).map_err(|_| "the row id is not UTF-8 text".to_string())
}

/// The field that holds the labels: all before the first space.
pub(super) fn label_field(line: &[u8]) -> &[u8] {
    let end = line.iter().position(u8::is_ascii_whitespace);
    &line[..end.unwrap_or(line.len())]
}

/// Puts the features of a line into `entries`, sorted, and gives the label field.
fn parse<'a, R: Real>(
    line: &'a [u8],
    entries: &mut Vec<(u32, R)>,
) -> std::result::Result<&'a [u8], String> {
    entries.clear();
    let labels = label_field(line);
    let mut sorted = true;
    for field in line[labels.len()..].split(u8::is_ascii_whitespace) {
        if field.is_empty() {
            continue;
        }
        let (index, value) = entry(field)?;
        sorted &= entries.last().is_none_or(|last| last.0 < index);
        entries.push((index, value));
    }
    if !sorted {
        entries.sort_by_key(|e| e.0);
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("feature {} stands twice", pair[0].0 + 1));
        }
    }
    Ok(labels)
}

fn entry<R: Real>(field: &[u8]) -> std::result::Result<(u32, R), String> {
    let colon = field.iter().position(|&b| b == b':');
    let Some((index, value)) = colon.map(|at| (&field[..at], &field[at + 1..])) else {
        let found = shown(field);
        return Err(format!(
            "expected index:value, found {found}; is the line cut short?"
        ));
    };
    let index = match index_number(index) {
        Some(0) => return Err("feature index 0: indices start at 1".into()),
        Some(index) if index - 1 > u64::from(MAX_INDEX) => {
            let largest = u64::from(MAX_INDEX) + 1;
            return Err(format!(
                "feature index {index} is above the largest one, {largest}"
            ));
        }
        Some(index) => (index - 1) as u32,
        None => return Err(format!("expected index:value, found {}", shown(field))),
    };
    let value = number(value).map_err(|problem| match problem {
        NoNumber::Syntax => {
            let (feature, found) = (index + 1, shown(value));
            format!("expected a number for feature {feature}, found {found}")
        }
        NoNumber::TooLarge => {
            let (feature, found) = (index + 1, shown(value));
            format!(
                "the value of feature {feature} is too large for {}: {found}",
                R::NAME
            )
        }
    })?;
    Ok((index, value))
}

/// A whole number without sign; any that is too long for `u64` is as good as
/// the largest.
pub(super) fn index_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    })
}

fn label_names(field: &[u8]) -> std::result::Result<Vec<Cow<'_, str>>, String> {
    let mut out: Vec<Cow<'_, str>> = Vec::new();
    if field.is_empty() {
        return Ok(out);
    }
    for label in field.split(|&b| b == b',') {
        let name = label_name(label).ok_or_else(|| {
            let hint = if label.contains(&b':') {
                "; a row without labels starts with a space"
            } else {
                ""
            };
            format!("expected a label number, found {}{hint}", shown(label))
        })?;
        out.push(name);
    }
    Ok(out)
}

/// Writes one row; labels and id are written as they are.
pub fn write_svmlight_row<R: Real>(
    out: &mut dyn Write,
    labels: &[&str],
    row: SparseRow<'_, R>,
    id: Option<&str>,
) -> std::io::Result<()> {
    let bad = |text: &str| text.contains(['\n', '\r']);
    if id.is_some_and(bad) || labels.iter().any(|l| bad(l)) {
        return Err(std::io::Error::other(
            "a row id or label holds a line break",
        ));
    }
    for (i, label) in labels.iter().enumerate() {
        write!(out, "{}{label}", if i == 0 { "" } else { "," })?;
    }
    if labels.is_empty() && row.is_empty() {
        out.write_all(b" ")?;
    }
    for (index, value) in row.iter() {
        write!(out, " {}:{value}", u64::from(index) + 1)?;
    }
    if let Some(id) = id {
        write!(out, " # {id}")?;
    }
    out.write_all(b"\n")
}

/// Writes rows with their labels, and their names where they have some.
/// Values are printed so that they come back exactly.
pub fn write_svmlight<R: Real>(out: &mut dyn Write, data: &Labelled<R>) -> std::io::Result<()> {
    for (i, row) in data.rows.iter().enumerate() {
        let numbers = data.labels.of(i);
        let labels: Vec<&str> = numbers.iter().map(|&n| data.labels.names.get(n)).collect();
        let id = match &data.ids {
            RowIds::Positions => None,
            RowIds::Named(names) => Some(names[i].as_str()),
        };
        write_svmlight_row(out, &labels, row, id)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<R: Real>(text: &str) -> Result<Labelled<R>> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        read_lines(Lines::new(Box::new(source), "f.svm"))
    }

    fn message(text: &str) -> String {
        read::<f32>(text).unwrap_err().to_string()
    }

    #[test]
    fn good_and_awkward_rows() {
        let text = "# a comment\n+1 1:0.5 3:-2e1\n\n1.0,-1,1\t7:1  2:.5 \n 2:1\n4\n \r\n5 9:0\n";
        let data = read::<f64>(text).unwrap();
        let rows: Vec<Vec<(u32, f64)>> = data.rows.iter().map(|r| r.iter().collect()).collect();
        assert_eq!(
            rows,
            [
                vec![(0, 0.5), (2, -20.0)],
                vec![(1, 0.5), (6, 1.0)],
                vec![(1, 1.0)],
                vec![],
                vec![],
                vec![]
            ]
        );
        assert_eq!(data.rows.columns(), 9);
        let labels: Vec<&[u32]> = (0..6).map(|i| data.labels.of(i)).collect();
        assert_eq!(labels, [&[0][..], &[0, 1], &[], &[2], &[], &[3]]);
        assert_eq!(
            data.labels.names.iter().collect::<Vec<_>>(),
            ["1", "-1", "4", "5"]
        );
        assert_eq!(data.ids, RowIds::Positions);
    }

    #[test]
    fn a_comment_at_the_end_is_the_row_id() {
        let data = read::<f32>("1 1:1\n1 1:1 # b c #d\n1 1:1 #\n").unwrap();
        let names = ["0", "b c #d", "2"].map(String::from);
        assert_eq!(data.ids, RowIds::Named(names.into()));
    }

    #[test]
    fn every_bad_line_says_what_is_wrong() {
        let cases = [
            ("x 1:1", "expected a label number, found `x`"),
            ("nan 1:1", "expected a label number, found `nan`"),
            ("1,,2 1:1", "expected a label number, found ``"),
            (
                "1:1 2:1",
                "expected a label number, found `1:1`; a row without labels starts with a space",
            ),
            ("1 0:1", "feature index 0: indices start at 1"),
            (
                "1 4000000000:1",
                "feature index 4000000000 is above the largest one, 2147483647",
            ),
            (
                "1 99999999999999999999999:1",
                "feature index 18446744073709551615 is above the largest one, 2147483647",
            ),
            ("1 3:1 2:1 3:2", "feature 3 stands twice"),
            (
                "1 1:1 12",
                "expected index:value, found `12`; is the line cut short?",
            ),
            ("1 1:1 12:", "expected a number for feature 12, found ``"),
            ("1 -1:1", "expected index:value, found `-1:1`"),
            ("1 qid:1", "expected index:value, found `qid:1`"),
            ("1 1:nan", "expected a number for feature 1, found `nan`"),
            ("1 1:inf", "expected a number for feature 1, found `inf`"),
            (
                "1 1:a\u{7}b",
                "expected a number for feature 1, found `a\\u{7}b`",
            ),
            (
                "1 1:1e39",
                "the value of feature 1 is too large for f32: `1e39`",
            ),
        ];
        for (line, want) in cases {
            assert_eq!(
                message(&format!("1 1:1\n{line}\n")),
                format!("f.svm:2: {want}")
            );
        }
        assert_eq!(message(""), "f.svm: no rows");
        assert_eq!(message("\n# only a comment\n"), "f.svm: no rows");
    }

    #[test]
    fn many_labels_take_no_more_than_their_share_of_time() {
        let labels: Vec<String> = (0..400_000).map(|i| i.to_string()).collect();
        let start = std::time::Instant::now();
        let data = read::<f32>(&format!("{},7 1:1\n", labels.join(","))).unwrap();
        assert_eq!(data.labels.of(0).len(), labels.len());
        // Each label against all others would take minutes.
        assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    }

    #[test]
    fn the_largest_index_is_read() {
        let data = read::<f32>("1 2147483647:1\n").unwrap();
        assert_eq!(data.rows.row(0).indices, [MAX_INDEX]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]
        #[test]
        fn written_rows_come_back(
            rows in prop::collection::vec(
                (
                    prop::collection::btree_set(-3i32..9, 0..4),
                    prop::collection::btree_map(0u32..1000, any::<f32>(), 0..8),
                ),
                1..9,
            ),
            named in any::<bool>(),
        ) {
            let mut data = Labelled::<f32> {
                rows: Rows::new(),
                labels: Labels::default(),
                ids: RowIds::Positions,
                features: Features::Numbered,
            };
            for (labels, entries) in &rows {
                let labels: Vec<String> = labels.iter().map(i32::to_string).collect();
                data.labels.push(labels.iter().map(String::as_str));
                let kept = entries.iter().filter(|e| e.1.is_finite() && *e.1 != 0.0);
                let (indices, values): (Vec<u32>, Vec<f32>) = kept.map(|(&i, &v)| (i, v)).unzip();
                data.rows.push(SparseRow { indices: &indices, values: &values });
            }
            if named {
                data.ids = RowIds::Named((0..rows.len()).map(|i| format!("row {i}")).collect());
            }
            let mut text = Vec::new();
            write_svmlight(&mut text, &data).unwrap();
            let back = read::<f32>(std::str::from_utf8(&text).unwrap()).unwrap();
            prop_assert_eq!(&back.rows, &data.rows);
            prop_assert_eq!(&back.labels, &data.labels);
            prop_assert_eq!(&back.ids, &data.ids);
        }
    }
}
