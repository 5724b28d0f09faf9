//! Dense rows from an array of two indices. Zeros are not stored, so the
//! memory is that of the non-zeros.

use std::io::Read;
use std::path::Path;

use super::array::{Array, Place};
use crate::data::Labelled;
use crate::data::open::{Compression, open};
use crate::sparse::{Entries, Shape, bad_number};
use crate::{Real, Result, Rows, SparseVec};

/// Reads the rows of a `.npy` file; they have no labels and no ids.
pub fn read_npy<R: Real>(path: impl AsRef<Path>) -> Result<Labelled<R>> {
    let array = open_file(path.as_ref())?;
    Ok(Labelled::new(rows(array)?))
}

/// Opens a file with one array, whose length is known unless it is compressed.
pub fn open_file(path: &Path) -> Result<Array<'_, impl Read + use<>>> {
    let plain = Compression::of(path) == Compression::None;
    let length = std::fs::metadata(path)
        .ok()
        .filter(|m| plain && m.is_file());
    let place = Place { path, name: None };
    Array::open(open(path)?, place, length.map(|m| m.len()))
}

/// The rows of an array of two indices.
pub fn rows<R: Real>(mut array: Array<'_, impl Read>) -> Result<Rows<R>> {
    let [rows, columns] = array.header.shape[..] else {
        return Err(array.error(format!(
            "expected an array with rows and columns, found one of shape {:?}",
            array.header.shape
        )));
    };
    let shape = Shape::of_file(rows, columns).map_err(|e| array.located(e))?;
    let out = if array.header.fortran {
        // Column by column.
        let mut entries = Entries::new();
        for column in 0..shape.columns {
            for row in 0..shape.rows {
                entries.push(row, column, finite(&mut array, row, column)?);
            }
        }
        entries.into_rows(shape)?
    } else {
        let mut out = Rows::new();
        out.widen(shape.columns);
        let mut cells = SparseVec::new();
        for row in 0..shape.rows {
            cells.clear();
            for column in 0..shape.columns {
                let value = finite(&mut array, row, column)?;
                if value != R::default() {
                    cells.push(column as u32, value);
                }
            }
            out.push(cells.as_row());
        }
        out.shrink();
        out
    };
    array.finish()?;
    Ok(out)
}

/// The next number, which belongs to this place of the matrix.
#[inline]
pub fn finite<R: Real>(array: &mut Array<'_, impl Read>, row: usize, column: usize) -> Result<R> {
    let value: R = array.next_number()?;
    if value.to_f64().is_finite() {
        return Ok(value);
    }
    let what = if array.was_finite() {
        format!("is too large for {}", R::NAME)
    } else {
        format!("is {value}: expected a finite number")
    };
    Err(array.error(bad_number(row, column, &what)))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::array;
    use super::*;
    use crate::data::Features;

    fn read<R: Real>(bytes: &[u8], name: &str) -> Result<Labelled<R>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        crate::data::write_atomically(&path, |out| out.write_all(bytes)).unwrap();
        read_npy(&path)
    }

    fn message<R: Real>(bytes: &[u8]) -> String {
        read::<R>(bytes, "a.npy").unwrap_err().message
    }

    fn floats(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn both_orders_give_the_rows_of_a_table() {
        let by_rows = array(
            "<f8",
            false,
            "(3, 2)",
            &floats(&[1.0, 0.0, 0.0, 0.0, 0.1, -3e5]),
        );
        let by_columns = array(
            "<f8",
            true,
            "(3, 2)",
            &floats(&[1.0, 0.0, 0.1, 0.0, 0.0, -3e5]),
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, "a,b\n1,0\n0,0\n0.1,-3e5\n").unwrap();
        let table = crate::data::read_table::<f32>(&path, b',').unwrap();
        for bytes in [by_rows, by_columns] {
            for name in ["a.npy", "a.npy.gz", "a.npy.zst"] {
                let got = read::<f32>(&bytes, name).unwrap();
                assert_eq!(got.rows, table.rows);
                assert_eq!(got.features, Features::Numbered);
                assert_eq!((got.labels.len(), got.labels.of(2)), (3, &[][..]));
            }
        }
    }

    #[test]
    fn what_is_refused() {
        let shape = |shape: &str| message::<f32>(&array("|u1", false, shape, &[1; 6]));
        let want = |shape: &str| {
            format!("expected an array with rows and columns, found one of shape {shape}")
        };
        assert_eq!(shape("(6,)"), want("[6]"));
        assert_eq!(shape("(1, 2, 3)"), want("[1, 2, 3]"));
        let empty = |shape: &str| message::<f32>(&array("|u1", false, shape, &[]));
        assert_eq!(empty("(0, 3)"), "no rows");
        assert_eq!(empty("(1000000000000, 0)"), "no columns");
        let long = read::<f32>(&array("|u1", false, "(1, 4294967296)", &[1]), "a.npy.gz");
        let want = "4294967296 columns are more than the 2147483647 there may be";
        assert_eq!(long.unwrap_err().message, want);
        for (value, found) in [
            (f64::NAN, "is NaN: expected a finite number"),
            (f64::NEG_INFINITY, "is -inf: expected a finite number"),
            (1e39, "is too large for f32"),
        ] {
            for (fortran, place) in [(false, "row 1, column 0"), (true, "row 0, column 1")] {
                let bytes = array("<f8", fortran, "(2, 2)", &floats(&[1.0, 2.0, value, 4.0]));
                let want = format!("the number at {place} (both from 0) {found}");
                assert_eq!(message::<f32>(&bytes), want);
            }
        }
        let text = array("<U1", false, "(1, 1)", &[65, 0, 0, 0]);
        assert_eq!(message::<f32>(&text), "expected numbers, found texts");
        let cut = read::<f32>(&array("<f8", false, "(2, 2)", &[0; 24]), "a.npy.zst");
        let want = "the array ends too early: expected 4 items, found 3";
        assert_eq!(cut.unwrap_err().message, want);
    }
}
