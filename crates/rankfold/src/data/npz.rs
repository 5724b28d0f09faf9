//! NumPy's archives of arrays, `.npz`: sparse matrices as SciPy's `save_npz`
//! writes them, and dense ones from `np.savez`.
//!
//! Beside the matrix, `y` or `labels` gives the labels of the rows and `ids`
//! their ids. What the archive says about sizes is checked before memory is
//! taken for it.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use zip::ZipArchive;
use zip::read::ZipFile;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::labels::labels_of;
use super::npy::{self, Array, Place};
use super::open::Compression;
use super::output::write_atomically;
use super::{Labelled, RowIds};
use crate::sparse::{Entries, Shape};
use crate::{Error, Real, Result, Rows, memory};

/// Reads a `.npz` file.
pub fn read_npz<R: Real>(path: impl AsRef<Path>) -> Result<Labelled<R>> {
    let path = path.as_ref();
    if Compression::of(path) != Compression::None {
        let message = "a .npz file is compressed already: expected it without .gz or .zst";
        return Err(Error::input(message).in_file(path));
    }
    let file = File::open(path).map_err(|e| Error::reading(path, &e))?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(Error::input("cannot read: this is a directory").in_file(path));
    }
    let zip = ZipArchive::new(BufReader::new(file)).map_err(|e| damaged(path, &e))?;
    let mut archive = Archive { zip, path };
    let rows = if archive.has("format") {
        sparse(&mut archive)?
    } else {
        let name = archive.matrix()?;
        npy::rows(archive.array(&name)?)?
    };
    let mut data = Labelled::new(rows);
    let labels = ["y", "labels"].map(|name| archive.has(name).then_some(name));
    let labels = match labels {
        [Some(_), Some(_)] => {
            let message = "both `y` and `labels` are in the archive: expected one of them";
            return Err(Error::input(message).in_file(path));
        }
        [found, None] | [None, found] => found,
    };
    if let Some(name) = labels {
        let mut array = archive.array(name)?;
        archive_length(&array, data.rows.len(), "labels")?;
        data.labels = labels_of(&mut array)?;
        array.finish()?;
    }
    if archive.has("ids") {
        let mut array = archive.array("ids")?;
        archive_length(&array, data.rows.len(), "ids")?;
        let names = (0..data.rows.len()).map(|_| array.next_name());
        data.ids = RowIds::Named(names.collect::<Result<_>>()?);
        array.finish()?;
    }
    Ok(data)
}

/// Reads the matrices of an archive that have these names.
pub fn read_npz_arrays<R: Real>(path: impl AsRef<Path>, names: &[&str]) -> Result<Vec<Rows<R>>> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|e| Error::reading(path, &e))?;
    let zip = ZipArchive::new(BufReader::new(file)).map_err(|e| damaged(path, &e))?;
    let mut archive = Archive { zip, path };
    let each = names.iter().map(|name| npy::rows(archive.array(name)?));
    each.collect()
}

/// Writes matrices of so many columns under these names.
pub fn write_npz_arrays<R: Real>(
    path: impl AsRef<Path>,
    arrays: &[(&str, &[R])],
    columns: usize,
) -> Result<()> {
    write_atomically(path, |out| {
        // In memory first: an archive needs to go back, and a pipe cannot.
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        // Arrays beyond 4 GB need the larger numbers of the format.
        let plain = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true);
        for (name, values) in arrays {
            zip.start_file(format!("{name}.npy"), plain)?;
            npy::write(&mut zip, values, columns)?;
        }
        out.write_all(&zip.finish()?.into_inner())
    })
}

fn damaged(path: &Path, error: &ZipError) -> Error {
    match error {
        ZipError::Io(source) if source.raw_os_error().is_some() => Error::reading(path, source),
        _ => Error::input(format!("not a whole .npz archive: {error}")).in_file(path),
    }
}

fn archive_length(array: &Array<'_, impl Read>, rows: usize, what: &str) -> Result<()> {
    let found = array.vector(what)?;
    if found == rows as u64 {
        Ok(())
    } else {
        Err(array.error(format!("expected {rows} {what}, one a row, found {found}")))
    }
}

struct Archive<'a> {
    zip: ZipArchive<BufReader<File>>,
    path: &'a Path,
}

impl<'a> Archive<'a> {
    fn has(&self, name: &str) -> bool {
        self.zip.index_for_name(&format!("{name}.npy")).is_some()
    }

    /// The one array that can be meant by the rows.
    fn matrix(&self) -> Result<String> {
        if self.has("X") {
            return Ok("X".into());
        }
        let names = self.zip.file_names().flatten();
        let names = names.filter_map(|name| name.strip_suffix(".npy").map(str::to_owned));
        let mut names: Vec<String> = names
            .filter(|name| !["y", "labels", "ids"].contains(&name.as_str()))
            .collect();
        names.sort_unstable();
        match &names[..] {
            [name] => Ok(name.clone()),
            [] => Err(Error::input("no array that can hold rows").in_file(self.path)),
            _ => {
                let listed: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
                Err(Error::input(format!(
                    "expected an array `X`, or one array beside labels and ids, found {}",
                    listed.join(", ")
                ))
                .in_file(self.path))
            }
        }
    }

    fn array<'n>(
        &'n mut self,
        name: &'n str,
    ) -> Result<Array<'n, BufReader<ZipFile<'n, BufReader<File>>>>>
    where
        'a: 'n,
    {
        let place = Place {
            path: self.path,
            name: Some(name),
        };
        let Some(index) = self.zip.index_for_name(&format!("{name}.npy")) else {
            return Err(place.error("is missing"));
        };
        let entry = self.zip.by_index(index);
        let entry = entry.map_err(|e| place.error(format!("cannot be read: {e}")))?;
        let size = entry.size();
        Array::open(BufReader::new(entry), place, Some(size))
    }

    /// Whole numbers from 0, with what the caller thinks of each.
    fn indices<T>(
        &mut self,
        name: &str,
        accept: impl Fn(u64) -> std::result::Result<T, String>,
    ) -> Result<Vec<T>> {
        let mut array = self.array(name)?;
        let count = array.vector("numbers")?;
        let bytes = u128::from(count) * size_of::<T>() as u128;
        memory::require(bytes, &format!("the array `{name}`"))?;
        let mut out = Vec::new();
        for _ in 0..count {
            let value = array.next_index()?;
            out.push(accept(value).map_err(|message| array.error(message))?);
        }
        array.finish()?;
        Ok(out)
    }
}

/// A matrix as `save_npz` writes it.
fn sparse<R: Real>(archive: &mut Archive<'_>) -> Result<Rows<R>> {
    let path = archive.path;
    let format = archive.array("format")?.next_name()?;
    let sizes = archive.indices("shape", Ok)?;
    let [rows, columns] = sizes[..] else {
        return Err(Error::input(format!(
            "expected a matrix with rows and columns, found the shape {sizes:?}"
        ))
        .in_file(path));
    };
    let shape = Shape::of_file(rows, columns).map_err(|e| e.in_file(path))?;
    let below = |side: usize| move |index: u64| Shape::index(index, side);
    let (row, column) = match format.as_str() {
        "csr" => {
            let column = archive.indices("indices", below(shape.columns))?;
            (majors(archive, shape.rows, column.len())?, column)
        }
        "csc" => {
            let row = archive.indices("indices", below(shape.rows))?;
            let column = majors(archive, shape.columns, row.len())?;
            (row, column)
        }
        "coo" => (
            archive.indices("row", below(shape.rows))?,
            archive.indices("col", below(shape.columns))?,
        ),
        other => {
            return Err(Error::input(format!(
                "a sparse matrix in the format `{other}`: expected csr, csc or coo"
            ))
            .in_file(path));
        }
    };
    let mut data = archive.array("data")?;
    let count = data.vector("numbers")?;
    if row.len() != column.len() || count != row.len() as u64 {
        return Err(data.error(format!(
            "{count} numbers for {} rows and {} columns",
            row.len(),
            column.len()
        )));
    }
    let each = 16 + 2 * size_of::<R>() as u128;
    memory::require(u128::from(count) * each, "the sparse matrix")?;
    let mut entries = Entries::new();
    for (&row, &column) in row.iter().zip(&column) {
        let (row, column) = (row as usize, column as usize);
        entries.push(row, column, npy::finite(&mut data, row, column)?);
    }
    data.finish()?;
    entries.into_rows(shape).map_err(|e| e.in_file(path))
}

/// `indptr`, written out: the row of each entry, or its column.
fn majors(archive: &mut Archive<'_>, side: usize, entries: usize) -> Result<Vec<u32>> {
    let starts = archive.indices("indptr", Ok)?;
    let place = Place {
        path: archive.path,
        name: Some("indptr"),
    };
    Shape::starts(&starts, side, entries).map_err(|message| place.error(message))?;
    let mut out = Vec::with_capacity(entries);
    for (i, pair) in starts.windows(2).enumerate() {
        out.extend((pair[0]..pair[1]).map(|_| i as u32));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::npy::fixture::{array, texts};
    use super::*;
    use std::io::Write;
    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    type Arrays<'a> = Vec<(&'a str, Vec<u8>)>;

    fn zipped(arrays: &Arrays<'_>, method: CompressionMethod) -> Vec<u8> {
        let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(method);
        for (name, bytes) in arrays {
            zip.start_file(format!("{name}.npy"), options).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn read_bytes(bytes: &[u8]) -> Result<Labelled<f32>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        std::fs::write(&path, bytes).unwrap();
        read_npz(&path)
    }

    fn read(arrays: &Arrays<'_>) -> Result<Labelled<f32>> {
        let stored = read_bytes(&zipped(arrays, CompressionMethod::Stored));
        let deflated = read_bytes(&zipped(arrays, CompressionMethod::Deflated));
        let text = |r: &Result<_>| r.as_ref().err().map(|e: &Error| e.message.clone());
        assert_eq!(text(&stored), text(&deflated));
        stored
    }

    fn ints(values: &[i32]) -> Vec<u8> {
        let items: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        array("<i4", false, &format!("({},)", values.len()), &items)
    }

    fn longs(values: &[i64]) -> Vec<u8> {
        let items: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        array("<i8", false, &format!("({},)", values.len()), &items)
    }

    fn floats(values: &[f64]) -> Vec<u8> {
        let items: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        array("<f8", false, &format!("({},)", values.len()), &items)
    }

    fn format(name: &str) -> Vec<u8> {
        array("|S3", false, "()", name.as_bytes())
    }

    /// 1 0 2 / 0 0 0 / 0 3 0, with an entry that stands twice.
    fn csr() -> Arrays<'static> {
        vec![
            ("format", format("csr")),
            ("shape", longs(&[3, 3])),
            ("indptr", ints(&[0, 3, 3, 4])),
            ("indices", ints(&[2, 0, 2, 1])),
            ("data", floats(&[1.5, 1.0, 0.5, 3.0])),
        ]
    }

    fn with(mut arrays: Arrays<'static>, name: &'static str, bytes: Vec<u8>) -> Arrays<'static> {
        arrays.retain(|array| array.0 != name);
        arrays.push((name, bytes));
        arrays
    }

    fn message(arrays: &Arrays<'_>) -> String {
        read(arrays).unwrap_err().message
    }

    #[test]
    fn sparse_matrices_of_every_format() {
        let csc = vec![
            ("format", array("<U3", false, "()", &texts(&["csc"], 3))),
            ("shape", longs(&[3, 3])),
            ("indptr", longs(&[0, 1, 2, 4])),
            ("indices", longs(&[0, 2, 0, 0])),
            ("data", floats(&[1.0, 3.0, 0.5, 1.5])),
        ];
        let coo = vec![
            ("format", format("coo")),
            ("_is_array", array("|b1", false, "()", &[1])),
            ("shape", longs(&[3, 3])),
            ("row", ints(&[2, 0, 0, 0])),
            ("col", ints(&[1, 2, 0, 2])),
            ("data", array("|i1", false, "(4,)", &[3, 1, 1, 1])),
        ];
        let want = [vec![(0, 1.0), (2, 2.0)], vec![], vec![(1, 3.0)]];
        for arrays in [csr(), csc, coo] {
            let data = read(&arrays).unwrap();
            let got = data.rows.iter().map(|row| row.iter().collect());
            assert_eq!(got.collect::<Vec<Vec<_>>>(), want);
            assert_eq!(data.rows.columns(), 3);
            assert_eq!(data.labels.len(), 3);
            assert_eq!(data.ids, RowIds::Positions);
        }
    }

    #[test]
    fn dense_matrices_with_labels_and_ids() {
        let matrix = || array("|u1", false, "(2, 2)", &[1, 0, 0, 2]);
        let data = read(&vec![("arr_0", matrix())]).unwrap();
        assert_eq!((data.rows.nnz(), data.rows.columns()), (2, 2));
        let arrays = vec![
            ("other", ints(&[1])),
            ("y", array("<U2", false, "(2,)", &texts(&["ü", ""], 2))),
            ("ids", ints(&[70, -7])),
            ("X", matrix()),
        ];
        let data = read(&arrays).unwrap();
        assert_eq!(data.labels.names.iter().collect::<Vec<_>>(), ["ü"]);
        assert_eq!((data.labels.of(0), data.labels.of(1)), (&[0][..], &[][..]));
        let names = ["70", "-7"].map(String::from);
        assert_eq!(data.ids, RowIds::Named(names.into()));
        let arrays = with(csr(), "labels", longs(&[5, 3, 5]));
        let data = read(&arrays).unwrap();
        assert_eq!(data.labels.names.iter().collect::<Vec<_>>(), ["5", "3"]);
        assert_eq!(data.labels.of(2), [0]);
    }

    #[test]
    fn every_bad_archive_says_what_is_wrong() {
        let cases = [
            (
                with(csr(), "format", format("bsr")),
                "a sparse matrix in the format `bsr`: expected csr, csc or coo",
            ),
            (
                with(csr(), "shape", longs(&[3])),
                "expected a matrix with rows and columns, found the shape [3]",
            ),
            (
                with(csr(), "shape", longs(&[3, 1 << 40])),
                "1099511627776 columns are more than the 2147483647 there may be",
            ),
            (
                with(csr(), "shape", longs(&[-3, 3])),
                "array `shape`: expected a number from 0, found -3",
            ),
            (
                with(csr(), "shape", longs(&[3, 2])),
                "array `indices`: index 2 is beyond the last one, 1",
            ),
            (
                with(csr(), "indices", ints(&[2, 0, -1, 1])),
                "array `indices`: expected a number from 0, found -1",
            ),
            (
                with(csr(), "indices", floats(&[0.0])),
                "array `indices`: expected whole numbers",
            ),
            (
                with(csr(), "indptr", ints(&[0, 4])),
                "array `indptr`: expected 4 numbers, found 2",
            ),
            (
                with(csr(), "indptr", ints(&[0, 4, 3, 4])),
                "array `indptr`: expected numbers that rise from 0 to 4",
            ),
            (
                with(csr(), "indptr", ints(&[0, 3, 3, 5])),
                "array `indptr`: expected numbers that rise from 0 to 4",
            ),
            (
                with(csr(), "data", floats(&[1.0])),
                "array `data`: 1 numbers for 4 rows and 4 columns",
            ),
            (
                with(csr(), "data", floats(&[1.0, f64::NAN, 1.0, 1.0])),
                "array `data`: the number at row 0, column 0 (both from 0) is NaN: expected a finite number",
            ),
            (
                with(csr(), "data", array("<f8", false, "(4,)", &[0; 24])),
                "array `data`: an array of shape [4] has 32 bytes of items, found 24",
            ),
            (
                with(csr(), "data", array("|O", false, "(4,)", &[0; 24])),
                "array `data`: items of type `|O` are not supported: expected f4, f8, i1 to i8, u1 to u8 or b1",
            ),
            (
                with(csr(), "y", ints(&[1, 2])),
                "array `y`: expected 3 labels, one a row, found 2",
            ),
            (
                with(csr(), "ids", ints(&[1, 2])),
                "array `ids`: expected 3 ids, one a row, found 2",
            ),
            (
                with(csr(), "y", array("|i1", false, "(3, 1)", &[0; 3])),
                "array `y`: expected labels, one after the other, found an array of shape [3, 1]",
            ),
            (
                with(
                    with(csr(), "y", ints(&[1, 2, 3])),
                    "labels",
                    ints(&[1, 2, 3]),
                ),
                "both `y` and `labels` are in the archive: expected one of them",
            ),
            (
                csr().split_off(1),
                "expected an array `X`, or one array beside labels and ids, found `data`, `indices`, `indptr`, `shape`",
            ),
            (csr().drain(..4).collect(), "array `data`: is missing"),
            (vec![], "no array that can hold rows"),
            (
                vec![("X", ints(&[1]))],
                "array `X`: expected an array with rows and columns, found one of shape [1]",
            ),
        ];
        for (arrays, want) in cases {
            assert_eq!(message(&arrays), want);
        }
        let error = read_npz::<f32>("a.npz.gz").unwrap_err().to_string();
        let want = "a.npz.gz: a .npz file is compressed already: expected it without .gz or .zst";
        assert_eq!(error, want);
    }

    #[test]
    fn damaged_archives_are_errors_and_never_panics() {
        let whole = zipped(&csr(), CompressionMethod::Deflated);
        for end in 0..whole.len() {
            assert!(read_bytes(&whole[..end]).is_err(), "{end} bytes");
        }
        let want = read_bytes(&whole).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            // Some bytes, such as dates, do not matter; all others are noticed.
            if let Ok(got) = read_bytes(&damaged) {
                assert_eq!(got, want, "byte {at}");
            }
        }
    }

    #[test]
    fn an_array_of_zeros_takes_no_memory() {
        let header = array("|u1", false, "(1000, 1000000)", &[]);
        let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
        zip.start_file("X.npy", SimpleFileOptions::default())
            .unwrap();
        zip.write_all(&header).unwrap();
        zip.write_all(&vec![0; 1_000_000]).unwrap();
        let bytes = zip.finish().unwrap().into_inner();
        // It says it has a thousand times what is there.
        let want = "array `X`: an array of shape [1000, 1000000] has 1000000000 bytes of items, found 1000000";
        assert_eq!(read_bytes(&bytes).unwrap_err().message, want);
    }
}
