//! Cuts a data file into a train and a test part.
//!
//! Every row has a key, `splitmix64((seed << 40) + row)` with the 0-based data
//! row, and the smallest keys are the test part: the same everywhere, in any
//! language. Lines are copied byte for byte. The file is read twice; memory is
//! a few bytes a row, whatever the length of the rows.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::columnar::Kind;
use super::columns::Source;
use super::format::{Format, extension};
use super::number::{moment, shown};
use super::open::{Replay, is_dash};
use super::output::Output;
use super::reading::named;
use crate::random::splitmix64;
use crate::{Error, Ids, Result};

/// Which rows are the test part.
#[derive(Debug, Clone, PartialEq)]
pub enum TestPart {
    /// A share of the rows, or of each group of rows.
    Share {
        /// floor(fraction · rows) rows; in 0 to 1.
        fraction: f64,
        /// Chooses among the splits; below 2²⁴.
        seed: u64,
        /// The column whose values are the groups.
        by: Option<String>,
    },
    /// The last rows of each group.
    Last {
        /// So many; a group always keeps one row at least.
        count: usize,
        /// The column whose values are the groups.
        by: String,
        /// The column of the time; by default `time` or `timestamp`, or the order of the rows
        /// where there is none.
        time: Option<String>,
    },
    /// The rows with this value.
    Where(Condition),
}

/// `COLUMN=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The column or field.
    pub field: String,
    /// Its value.
    pub value: String,
}

impl std::str::FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once('=') {
            Some((field, value)) if !field.is_empty() => Ok(Condition {
                field: field.into(),
                value: value.into(),
            }),
            _ => Err(format!("expected NAME=VALUE, found `{text}`")),
        }
    }
}

/// What a split made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitSummary {
    /// All rows.
    pub rows: u64,
    /// Rows of the train part.
    pub train_rows: u64,
    /// Rows of the test part.
    pub test_rows: u64,
    /// The file of the train part.
    pub train: PathBuf,
    /// The file of the test part.
    pub test: PathBuf,
}

/// The key of a data row, counted from 0.
pub fn split_key(seed: u64, row: u64) -> u64 {
    splitmix64((seed << 40).wrapping_add(row))
}

/// The files that [`split`] writes: `PREFIX.train.EXT` and `PREFIX.test.EXT`, where EXT
/// is the whole extension of `data`; `format` gives the extension where `data` is `-`.
pub fn split_files(data: &Path, format: Option<&str>, prefix: &Path) -> Result<[PathBuf; 2]> {
    let named = format_of(data, format)?;
    // Records of a column file are written as a table.
    let ending = match Kind::of(&named) {
        Some(_) => "csv",
        None => extension(&named).1,
    };
    Ok(["train", "test"].map(|name| {
        let mut path = prefix.as_os_str().to_owned();
        path.push(format!(".{name}.{ending}"));
        PathBuf::from(path)
    }))
}

/// A name whose extension says the format.
fn format_of(data: &Path, format: Option<&str>) -> Result<PathBuf> {
    match format {
        None if is_dash(data) => Err(Error::input(
            "stdin has no extension: the format must be named with `--format`",
        )),
        None => Ok(data.to_owned()),
        Some(format) => named(format),
    }
}

/// Writes the train and the test part into [`split_files`].
pub fn split(
    data: &Path,
    format: Option<&str>,
    prefix: &Path,
    part: &TestPart,
) -> Result<SplitSummary> {
    let named = format_of(data, format)?;
    let Format::Lines(kind) = Format::of(&named)? else {
        let message = "cannot split: rows are copied line by line, and here they are no lines; \
            expected .svm, .csv, .tsv, .jsonl or .dat";
        return Err(Error::input(message).in_file(data));
    };
    let source = Replay::new(data, &named)?;
    let rows = || source.lines().and_then(|lines| Source::new(lines, kind));
    let is_test = choose(rows()?, part)?;

    let files = split_files(data, format, prefix)?;
    let same = |place: &PathBuf| {
        place
            .canonicalize()
            .is_ok_and(|p| data.canonicalize().is_ok_and(|d| d == p))
    };
    if let Some(place) = files.iter().find(|place| same(place)) {
        let message = "cannot write: this file is the one that is split";
        return Err(Error::input(message).in_file(place));
    }
    let mut train = Output::create(&files[0])?;
    let mut test = Output::create(&files[1])?;
    let mut rows = rows()?;
    if let Some(header) = rows.header() {
        put_line(&mut train, header)?;
        put_line(&mut test, header)?;
    }
    let mut chosen = is_test.iter();
    while rows.advance()? {
        let &is_test = chosen.next().ok_or_else(|| changed(data))?;
        put_line(if is_test { &mut test } else { &mut train }, rows.raw())?;
    }
    if chosen.next().is_some() {
        return Err(changed(data));
    }
    train.commit()?;
    test.commit()?;
    let test_rows = is_test.iter().filter(|&&t| t).count() as u64;
    let [train, test] = files;
    Ok(SplitSummary {
        rows: is_test.len() as u64,
        train_rows: is_test.len() as u64 - test_rows,
        test_rows,
        train,
        test,
    })
}

fn changed(data: &Path) -> Error {
    Error::failure("the file changed while it was read").in_file(data)
}

/// A last line may come without its end, and go into the middle.
fn put_line(out: &mut Output, line: &[u8]) -> Result<()> {
    out.put(line)?;
    if line.ends_with(b"\n") {
        Ok(())
    } else {
        out.put(b"\n")
    }
}

/// Whether each row is in the test part.
fn choose(mut rows: Source, part: &TestPart) -> Result<Vec<bool>> {
    let mut is_test = Vec::new();
    match part {
        TestPart::Where(condition) => {
            let column = rows.column(&condition.field)?;
            while rows.advance()? {
                is_test.push(rows.value(&column)?.as_ref() == condition.value.as_bytes());
            }
            if !is_test.contains(&true) && !is_test.is_empty() {
                let Condition { field, value } = condition;
                let message = format!("no row has the value `{value}` in `{field}`");
                return Err(Error::input(message).in_file(rows.path()));
            }
        }
        TestPart::Last { count, by, time } => {
            let column = rows.column(by)?;
            let time = match time {
                Some(time) => Some(rows.column(time)?),
                None => rows.column_if_there(&["time", "timestamp"]),
            };
            let (mut names, mut groups, mut times) = (Ids::new(), Vec::new(), Vec::new());
            while rows.advance()? {
                groups.push(names.intern(&String::from_utf8_lossy(&rows.value(&column)?)));
                let Some(time) = &time else { continue };
                let Some(field) = rows.value_if_there(time)?.map(Cow::into_owned) else {
                    continue;
                };
                match moment(&field) {
                    Some(time) => times.push(time),
                    None => {
                        let message = format!(
                            "expected a time as a number or a date, found {}",
                            shown(&field)
                        );
                        return Err(rows.error(message));
                    }
                }
            }
            if !times.is_empty() && times.len() < groups.len() {
                let message = "some rows have a time and others have none";
                return Err(Error::input(message).in_file(rows.path()));
            }
            is_test = last(&groups, &times, *count);
        }
        TestPart::Share { fraction, seed, by } => {
            if !(0.0..=1.0).contains(fraction) {
                let message = format!("the test share must be in 0 to 1, found {fraction}");
                return Err(Error::input(message));
            }
            if *seed >= 1 << 24 {
                let message = format!("the seed of a split must be below 16777216, found {seed}");
                return Err(Error::input(message));
            }
            let column = by.as_deref().map(|by| rows.column(by)).transpose()?;
            let (mut names, mut groups) = (Ids::new(), Vec::<u32>::new());
            while rows.advance()? {
                groups.push(match &column {
                    Some(column) => names.intern(&String::from_utf8_lossy(&rows.value(column)?)),
                    None => 0,
                });
            }
            is_test = smallest(&groups, *fraction, *seed);
        }
    }
    if is_test.is_empty() {
        return Err(Error::input("no rows").in_file(rows.path()));
    }
    Ok(is_test)
}

/// Marks the last rows of each group, by time where there are times; one row stays.
fn last(groups: &[u32], times: &[f64], count: usize) -> Vec<bool> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    let time = |row: usize| times.get(row).copied().unwrap_or(0.0);
    order.sort_by(|&a, &b| {
        let group = groups[a].cmp(&groups[b]);
        group.then(time(a).total_cmp(&time(b))).then(a.cmp(&b))
    });
    let mut is_test = vec![false; groups.len()];
    for group in order.chunk_by(|&a, &b| groups[a] == groups[b]) {
        let kept = group.len().saturating_sub(count).max(1);
        group[kept..].iter().for_each(|&row| is_test[row] = true);
    }
    is_test
}

/// Marks the floor(fraction · n) smallest keys of each group of n rows.
fn smallest(groups: &[u32], fraction: f64, seed: u64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_unstable_by_key(|&row| (groups[row], split_key(seed, row as u64), row));
    let mut is_test = vec![false; groups.len()];
    for group in order.chunk_by(|&a, &b| groups[a] == groups[b]) {
        // The product of 0.29 and 100 is a little below 29.
        let count = (fraction * group.len() as f64 + 1e-9).floor() as usize;
        for &row in &group[..count.min(group.len())] {
            is_test[row] = true;
        }
    }
    is_test
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Lines;

    fn share(fraction: f64, by: Option<&str>) -> TestPart {
        let by = by.map(str::to_owned);
        TestPart::Share {
            fraction,
            seed: 0,
            by,
        }
    }

    fn with(condition: &str) -> TestPart {
        TestPart::Where(condition.parse().unwrap())
    }

    /// The two parts of a file, as text.
    fn parts(name: &str, text: &str, part: &TestPart) -> Result<(String, String)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let made = split(&path, None, &dir.path().join("out"), part).map_err(|mut e| {
            e.file = e.file.map(|f| f.file_name().unwrap().into());
            e
        })?;
        assert_eq!(made.rows, made.train_rows + made.test_rows);
        let read = |path| std::fs::read_to_string(path).unwrap();
        Ok((read(made.train), read(made.test)))
    }

    #[test]
    fn keys_are_those_of_splitmix64() {
        // The first outputs of the published generator with seed 0.
        assert_eq!(split_key(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(split_key(0, 0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
        assert_ne!(split_key(1, 0), split_key(0, 0));
    }

    #[test]
    fn a_share_is_rounded_down_in_each_group() {
        let groups: Vec<u32> = (0..100).map(|i| u32::from(i >= 29)).collect();
        let count = |marks: &[bool]| marks.iter().filter(|&&m| m).count();
        assert_eq!(count(&smallest(&[0; 100], 0.29, 0)), 29);
        let marks = smallest(&groups, 0.2, 7);
        assert_eq!((count(&marks[..29]), count(&marks[29..])), (5, 14));
        assert_eq!(count(&smallest(&groups, 1.0, 0)), 100);
        assert_eq!(count(&smallest(&groups, 0.0, 0)), 0);
    }

    #[test]
    fn the_last_of_each_group_go_by_time_or_by_place() {
        let part = |count| TestPart::Last {
            count,
            by: "user".into(),
            time: None,
        };
        let timed = "user,item,time\nu,a,9\nu,b,5\nv,c,1\nu,d,7\n";
        let (train, test) = parts("a.csv", timed, &part(1)).unwrap();
        assert_eq!(test, "user,item,time\nu,a,9\n");
        assert_eq!(train, "user,item,time\nu,b,5\nv,c,1\nu,d,7\n");
        let plain = "user,item\nu,a\nu,b\nv,c\nu,d\n";
        let (train, test) = parts("a.csv", plain, &part(5)).unwrap();
        assert_eq!(
            (train.as_str(), test.as_str()),
            ("user,item\nu,a\nv,c\n", "user,item\nu,b\nu,d\n")
        );
        let bad = parts("a.csv", "user,time\nu,1\nu,noon\n", &part(1)).unwrap_err();
        assert_eq!(
            (bad.line, bad.message.contains("a time as a number")),
            (Some(3), true)
        );
        assert!(parts("a.csv", "person\nu\n", &part(1)).is_err());
    }

    #[test]
    fn tables_keep_their_header_and_their_bytes() {
        let text = "user,note\r\n1,\"a\nb\"\r\n\r\n2, x\n1,\"\"\"\"";
        let (train, test) = parts("t.csv", text, &with("user=1")).unwrap();
        assert_eq!(train, "user,note\r\n2, x\n");
        assert_eq!(test, "user,note\r\n1,\"a\nb\"\r\n1,\"\"\"\"\n");
        let (_, test) = parts("t.csv", text, &with("note=a\nb")).unwrap();
        assert_eq!(test, "user,note\r\n1,\"a\nb\"\r\n");
        let (_, test) = parts("t.csv", text, &share(0.5, Some("user"))).unwrap();
        assert_eq!(test.lines().next(), Some("user,note"));
    }

    #[test]
    fn other_formats_are_split_by_line() {
        let (train, test) = parts("r.dat", "1::2::3\n2::2::3\n", &with("user=2")).unwrap();
        assert_eq!((train.as_str(), test.as_str()), ("1::2::3\n", "2::2::3\n"));
        let (_, test) = parts("r.tsv", "1\t7\n2\t8\n", &with("2=7")).unwrap();
        assert_eq!(test, "1\t7\n");
        let (_, test) = parts("r.data", "1 7\n2  8\n", &with("item=8")).unwrap();
        assert_eq!(test, "2  8\n");
        let text = "# note\n1 1:2 # \"x\n\n2 1:3\n 1:4\n";
        let (train, test) = parts("s.svm", text, &with("label=2")).unwrap();
        assert_eq!(
            (train.as_str(), test.as_str()),
            ("1 1:2 # \"x\n 1:4\n", "2 1:3\n")
        );
        let text = "{\"s\":\"a\"}\n\n{\"s\":1}\n";
        let (train, test) = parts("j.jsonl", text, &with("s=1")).unwrap();
        assert_eq!(
            (train.as_str(), test.as_str()),
            ("{\"s\":\"a\"}\n", "{\"s\":1}\n")
        );
    }

    #[test]
    fn compressed_files_stay_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.b.csv.gz");
        crate::data::write_atomically(&path, |w| w.write_all(b"a\nx\ny\n")).unwrap();
        let made = split(&path, None, &dir.path().join("p.q"), &share(0.5, None)).unwrap();
        assert_eq!(made.test, dir.path().join("p.q.test.csv.gz"));
        let mut lines = Lines::open(&made.test).unwrap();
        assert_eq!(lines.next_line().unwrap(), Some(&b"a"[..]));
        assert!(lines.next_line().unwrap().is_some());
        assert!(lines.next_line().unwrap().is_none());
    }

    #[test]
    fn what_is_refused() {
        let message = |name: &str, text: &str, part: &TestPart| {
            parts(name, text, part).unwrap_err().to_string()
        };
        let cases = [
            ("", share(0.1, None), "t.csv: no rows"),
            ("a,b\n", share(0.1, None), "t.csv: no rows"),
            (
                "a,b\nx,y\n",
                share(0.1, Some("c")),
                "t.csv: no column is called `c`: expected one of `a`, `b`",
            ),
            (
                "1,2\n",
                share(0.1, Some("c")),
                "t.csv: no column is called `c`: expected a number, as the file has no header",
            ),
            (
                "a,b\n\nx\n",
                share(0.1, Some("b")),
                "t.csv:3: expected 2 fields, found 1",
            ),
            (
                "a\nx\n",
                with("a=z"),
                "t.csv: no row has the value `z` in `a`",
            ),
            (
                "a\nx\n",
                share(1.5, None),
                "the test share must be in 0 to 1, found 1.5",
            ),
            (
                "a\n\"x\n",
                share(0.5, None),
                "t.csv:2: a quote is opened and never closed",
            ),
        ];
        for (text, part, want) in cases {
            assert_eq!(message("t.csv", text, &part), want);
        }
        let want = "t.svm: no column is called `user`: expected `label`";
        assert_eq!(message("t.svm", "1 1:1\n", &share(0.1, Some("user"))), want);
        let want = "t.jsonl:1: expected a field `user`";
        assert_eq!(message("t.jsonl", "{}\n", &share(0.1, Some("user"))), want);
        let error = split(Path::new("-"), None, Path::new("p"), &share(0.1, None)).unwrap_err();
        assert_eq!(
            error.message,
            "stdin has no extension: the format must be named with `--format`"
        );
        for format in [
            "../x", "../x.csv", "a/b", "", ".", "csv/", "a.csv", "xls", "gz",
        ] {
            let error = split(
                Path::new("-"),
                Some(format),
                Path::new("p"),
                &share(0.1, None),
            );
            let want = format!(
                "unknown format `{format}`: expected svm, csv, tsv, jsonl, dat, parquet, arrow, mtx, npy or npz"
            );
            assert_eq!(error.unwrap_err().message, want);
        }
        let error = split(
            Path::new("-"),
            Some("npy"),
            Path::new("p"),
            &share(0.1, None),
        );
        let message = error.unwrap_err().message;
        assert!(message.starts_with("cannot split: "), "{message}");
        assert_eq!(
            "x".parse::<Condition>().unwrap_err(),
            "expected NAME=VALUE, found `x`"
        );
    }
}
