//! Files of dissimilarities: lines `left right value`, JSON lines
//! `{"left":…,"right":…,"value":…}`, or a square symmetric matrix, in which an empty
//! cell is not known.

use std::fmt::Display;
use std::io::{Cursor, Read};
use std::path::Path;

use serde_json::Value;

use super::about;
use super::format::extension;
use super::number::{NoNumber, number, shown};
use super::open::{Limit, Lines, is_dash, without_end};
use super::records::{Fields, Records};
use super::square::SquareMatrix;
use super::table;
use super::text::Documents;
use super::values::separate;
use crate::ids::IdText;
use crate::sparse::Dissimilarity;
use crate::{Error, Ids, Result};

/// Largest dissimilarity that is read: its fourth power is still a number.
const LARGEST: f64 = 1e75;

/// Reads dissimilarities; `-` is stdin. Items that are not among the names yet are
/// added to them. A file without any is an error.
pub fn read_dissimilarities(path: impl AsRef<Path>, items: &mut Ids) -> Result<Vec<Dissimilarity>> {
    let path = path.as_ref();
    let of_matrix = |matrix: SquareMatrix, items: &mut Ids| {
        let found = matrix.dissimilarities(items);
        found.map_err(|e| e.in_file(path))
    };
    let delimiter = match extension(path).0 {
        _ if is_dash(path) => return lines(Lines::open(path)?, items),
        "npy" | "npz" | "mtx" => return of_matrix(SquareMatrix::read(path)?, items),
        "csv" => b',',
        "tsv" => b'\t',
        _ => return lines(Lines::open(path)?, items),
    };
    // The file may be a pipe, which is read once: what was read ahead is put back.
    let mut ahead = Lines::open(path)?;
    let (mut start, mut is_matrix) = (Vec::new(), false);
    ahead.set_limit(Limit::Header);
    while let Some(line) = ahead.next_raw()? {
        start.extend_from_slice(line);
        if !line.trim_ascii().is_empty() {
            is_matrix = is_header_of_matrix(line);
            break;
        }
    }
    let all = Lines::new(
        Box::new(Cursor::new(start).chain(ahead.into_source())),
        path,
    );
    match is_matrix {
        true => {
            let table = table::read::<f64>(Records::new(all, delimiter), &Documents::new(path))?;
            let matrix = SquareMatrix::from_labelled(&table).map_err(|e| e.in_file(path))?;
            of_matrix(matrix, items)
        }
        false => lines(all, items),
    }
}

/// Whether the first line of a table is that of a matrix. Lines of three fields are
/// `left right value`.
fn is_header_of_matrix(line: &[u8]) -> bool {
    let mut fields = Fields::default();
    separate(&mut fields, without_end(line));
    let found: Vec<&[u8]> = fields.iter().map(<[u8]>::trim_ascii).collect();
    match &found[..] {
        [left, right, value] => {
            *left == b"id" || !(named(left, right) || number::<f64>(value).is_ok())
        }
        _ => true,
    }
}

fn named(left: &[u8], right: &[u8]) -> bool {
    left.eq_ignore_ascii_case(b"left") && right.eq_ignore_ascii_case(b"right")
}

/// Makes dissimilarities of a list `(left, right, value)`. Items that are not among the
/// names yet are added to them. An item and itself are not listed.
///
/// ```
/// use rankfold::Ids;
/// use rankfold::data::dissimilarities;
///
/// let mut items = Ids::new();
/// let known = dissimilarities([("a", "b", 1.5), ("c", "a", 2.0)], &mut items)?;
/// assert_eq!((items.len(), known[1].left, known[1].right), (3, 2, 0));
/// # Ok::<(), rankfold::Error>(())
/// ```
pub fn dissimilarities<L: Display, R: Display>(
    list: impl IntoIterator<Item = (L, R, f64)>,
    items: &mut Ids,
) -> Result<Vec<Dissimilarity>> {
    let [mut one, mut two] = [IdText::default(), IdText::default()];
    let mut make = |(left, right, value): (L, R, f64)| {
        let value = in_range(value, &value.to_string())?;
        pair(one.of(left), two.of(right), value, items)
    };
    let list = list.into_iter().enumerate();
    list.filter_map(|(i, given)| {
        let made = make(given).map_err(|e| about("dissimilarity", i, e));
        made.transpose()
    })
    .collect()
}

fn lines(mut lines: Lines, items: &mut Ids) -> Result<Vec<Dissimilarity>> {
    let mut out = Vec::new();
    let mut fields = Fields::default();
    let mut first = true;
    while let Some(line) = lines.next_line()? {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let is_first = std::mem::take(&mut first);
        let read = if line.starts_with(b"{") {
            object(line, items)
        } else {
            separate(&mut fields, line);
            match &fields.iter().map(<[u8]>::trim_ascii).collect::<Vec<_>>()[..] {
                [left, right, value] => {
                    if is_first && named(left, right) && number::<f64>(value).is_err() {
                        continue;
                    }
                    plain([left, right, value], items)
                }
                found => Err(Error::input(format!(
                    "expected 3 fields (left right value), found {}",
                    found.len()
                ))),
            }
        };
        match read {
            Ok(Some(found)) => out.push(found),
            Ok(None) => {}
            Err(error) => return Err(lines.error(error.message)),
        }
    }
    match out.is_empty() {
        true => {
            Err(Error::input("expected lines `left right value`, found none").in_file(lines.path()))
        }
        false => Ok(out),
    }
}

fn plain([left, right, value]: [&[u8]; 3], items: &mut Ids) -> Result<Option<Dissimilarity>> {
    let text = |name: &[u8]| -> Result<String> {
        let name = std::str::from_utf8(name).map_err(|_| Error::input("expected UTF-8 text"))?;
        Ok(name.to_owned())
    };
    let read = number::<f64>(value).map_err(|why| {
        Error::input(match why {
            NoNumber::Syntax => format!("expected a dissimilarity, found {}", shown(value)),
            NoNumber::TooLarge => format!("the dissimilarity {} is too large", shown(value)),
        })
    })?;
    let value = in_range(read, &String::from_utf8_lossy(value))?;
    pair(&text(left)?, &text(right)?, value, items)
}

fn object(line: &[u8], items: &mut Ids) -> Result<Option<Dissimilarity>> {
    let expected = "expected {\"left\":…,\"right\":…,\"value\":…}";
    let parsed: Value = serde_json::from_slice(line)
        .map_err(|e| Error::input(format!("{expected}, found no JSON: {e}")))?;
    let name = |field: &str| -> Result<String> {
        match parsed.get(field) {
            Some(Value::String(name)) => Ok(name.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            _ => Err(Error::input(format!(
                "{expected}: `{field}` must be the id of an item"
            ))),
        }
    };
    let value = parsed.get("value").and_then(Value::as_f64);
    let value = value
        .ok_or_else(|| Error::input(format!("{expected}: `value` must be a number")))
        .and_then(|value| in_range(value, &value.to_string()))?;
    pair(&name("left")?, &name("right")?, value, items)
}

pub(super) fn in_range(value: f64, shown: &str) -> Result<f64> {
    match (0.0..LARGEST).contains(&value) {
        true => Ok(value),
        false => Err(Error::input(format!(
            "expected a dissimilarity from 0 to 1e75, found `{shown}`"
        ))),
    }
}

/// An item is not unlike itself, and says no more than that.
fn pair(left: &str, right: &str, value: f64, items: &mut Ids) -> Result<Option<Dissimilarity>> {
    if left == right && value != 0.0 {
        return Err(Error::input(format!(
            "expected 0 for `{left}` and itself, found {value}"
        )));
    }
    let (left, right) = (items.intern(left), items.intern(right));
    Ok((left != right).then_some(Dissimilarity { left, right, value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(u32, u32, f64)>> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        let found = lines(Lines::new(Box::new(source), "d.txt"), &mut Ids::new())?;
        Ok(found.iter().map(|d| (d.left, d.right, d.value)).collect())
    }

    #[test]
    fn lines_of_both_kinds_are_read() {
        let text = "left,right,value\na,b,1.5\n\nb\tc\t0\na a 0\n\
            {\"left\":\"c\",\"right\":7,\"value\":2,\"note\":1}\n";
        assert_eq!(read(text).unwrap(), [(0, 1, 1.5), (1, 2, 0.0), (2, 3, 2.0)]);
    }

    #[test]
    fn lists_are_checked_as_files_are() {
        let make = |list: &[(&'static str, u8, f64)]| {
            let found = dissimilarities(list.iter().copied(), &mut Ids::new());
            let found = found.map_err(|e| e.message)?;
            Ok(found.iter().map(|d| (d.left, d.right, d.value)).collect())
        };
        assert_eq!(make(&[]), Ok(Vec::new()));
        let list = [("a", 1, 1.5), ("1", 1, 0.0), ("1", 2, 0.0)];
        assert_eq!(make(&list), Ok(vec![(0, 1, 1.5), (1, 2, 0.0)]));
        let range =
            |found: &str| format!("expected a dissimilarity from 0 to 1e75, found `{found}`");
        for (given, message) in [
            (("a", 1, f64::NAN), range("NaN")),
            (("a", 1, -1.0), range("-1")),
            (("a", 1, f64::INFINITY), range("inf")),
            (
                ("1", 1, 2.0),
                "expected 0 for `1` and itself, found 2".into(),
            ),
        ] {
            let want: std::result::Result<Vec<_>, _> = Err(format!("dissimilarity 1: {message}"));
            assert_eq!(make(&[list[0], given]), want);
        }
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        for (text, message) in [
            ("", "d.txt: expected lines `left right value`, found none"),
            (
                "a b\n",
                "d.txt:1: expected 3 fields (left right value), found 2",
            ),
            ("a b x\n", "d.txt:1: expected a dissimilarity, found `x`"),
            (
                "a b nan\n",
                "d.txt:1: expected a dissimilarity, found `nan`",
            ),
            (
                "a b 1\na b -1\n",
                "d.txt:2: expected a dissimilarity from 0 to 1e75, found `-1`",
            ),
            (
                "a b 1e80\n",
                "d.txt:1: expected a dissimilarity from 0 to 1e75, found `1e80`",
            ),
            ("a a 3\n", "d.txt:1: expected 0 for `a` and itself, found 3"),
            (
                "{\"left\":1,\"value\":2}\n",
                "d.txt:1: expected {\"left\":…,\"right\":…,\"value\":…}: `right` must be the id of an item",
            ),
            (
                "{\"left\":1,\"right\":2}\n",
                "d.txt:1: expected {\"left\":…,\"right\":…,\"value\":…}: `value` must be a number",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_read_once() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        for (name, text, count) in [
            ("m.csv", "id,a,b\na,0,2\nb,2,0\n", 1),
            ("l.tsv", "left\tright\tvalue\na\tb\t2\nb\tc\t1\n", 2),
        ] {
            let path = folder.path().join(name);
            let made = std::process::Command::new("mkfifo").arg(&path).status();
            assert!(made.unwrap().success());
            let to = path.clone();
            let writer = std::thread::spawn(move || {
                let mut pipe = std::fs::File::options().write(true).open(to).unwrap();
                pipe.write_all(text.as_bytes()).unwrap();
            });
            let (done, waited) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let found = read_dissimilarities(&path, &mut Ids::new());
                done.send(found.map(|found| found.len())).unwrap();
            });
            let found = waited.recv_timeout(std::time::Duration::from_secs(30));
            assert_eq!(found, Ok(Ok(count)), "{name}");
            writer.join().unwrap();
        }
    }

    #[test]
    fn a_matrix_is_read_where_it_is_square_and_symmetric() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut items = Ids::new();
            let found = read_dissimilarities(&path, &mut items);
            found.map(|found| (found.len(), items.len()))
        };
        assert_eq!(read("id,a,b\na,0,2\nb,2,0\n").unwrap(), (1, 2));
        assert_eq!(read("a,b,c\n0,1,\n1,0,3\n,3,0\n").unwrap(), (2, 3));
        assert_eq!(read("x,y,3\ny,z,4\n").unwrap(), (2, 3));
        assert_eq!(read("\n\nx,y,3\ny,z,4\n").unwrap(), (2, 3));
        assert_eq!(read("\na,b,c\n0,1,\n1,0,3\n,3,0\n").unwrap(), (2, 3));
        let place = path.display();
        for (text, message) in [
            ("a,b\n0,1\n", "expected a square matrix, found 1 × 2"),
            (
                "a,b\n0,1\n2,0\n",
                "expected a symmetric matrix, found 1 for `a` and `b` but 2 for `b` and `a`",
            ),
            (
                "a,b\n0,1\n,0\n",
                "expected a symmetric matrix, found 1 for `a` and `b` but nothing for `b` and `a`",
            ),
            ("a,b\n0,1\n1,5\n", "expected 0 for `b` and itself, found 5"),
            (
                "id,a,b\nb,0,1\na,1,0\n",
                "row 1 is of `b`, but column 1 is of `a`",
            ),
            (
                "a,b\n0,-1\n-1,0\n",
                "expected a dissimilarity from 0 to 1e75, found `-1`",
            ),
            (
                "a,b\n0,\n,0\n",
                "expected dissimilarities of two items, found none",
            ),
        ] {
            assert_eq!(
                read(text).unwrap_err().to_string(),
                format!("{place}: {message}")
            );
        }
    }
}
