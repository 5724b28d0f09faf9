//! Rows from entries that come in any order, as files of matrices list them.
//!
//! Entries of one place are added up, and zeros left out. Beside the rows this
//! holds the entries once: 8 bytes and a value each.

use crate::sparse::MAX_INDEX;
use crate::{Error, Real, Result, Rows, SparseRow, SparseVec, memory};

/// How many rows and columns a matrix has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub rows: usize,
    pub columns: usize,
}

impl Shape {
    /// Checks the sizes that a file says it has, before anything is allocated.
    pub fn new(rows: u64, columns: u64) -> Result<Self> {
        let (most_rows, most_columns) = (u64::from(u32::MAX), u64::from(MAX_INDEX) + 1);
        if rows == 0 || columns == 0 {
            let what = if rows == 0 { "rows" } else { "columns" };
            return Err(Error::input(format!("no {what}")));
        }
        if rows > most_rows {
            return Err(Error::input(format!(
                "{rows} rows are more than the {most_rows} there may be"
            )));
        }
        if columns > most_columns {
            return Err(Error::input(format!(
                "{columns} columns are more than the {most_columns} there may be"
            )));
        }
        memory::require(u128::from(rows) * 16, &format!("a matrix of {rows} rows"))?;
        Ok(Shape {
            rows: rows as usize,
            columns: columns as usize,
        })
    }
}

/// Entries on their way into rows.
pub(super) struct Entries<R> {
    rows: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<R>,
}

impl<R: Real> Entries<R> {
    pub fn new() -> Self {
        Entries {
            rows: Vec::new(),
            columns: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Adds an entry, counted from 0.
    pub fn push(&mut self, row: usize, column: usize, value: R) {
        if value != R::default() {
            self.rows.push(row as u32);
            self.columns.push(column as u32);
            self.values.push(value);
        }
    }

    /// The rows, in order; an error where a sum leaves the range of `R`.
    pub fn into_rows(self, shape: Shape) -> Result<Rows<R>> {
        // Counting sort: where the entries of each row go.
        let mut ends = vec![0usize; shape.rows + 1];
        for &row in &self.rows {
            ends[row as usize + 1] += 1;
        }
        for i in 0..shape.rows {
            ends[i + 1] += ends[i];
        }
        let mut order = vec![0usize; self.rows.len()];
        // Afterwards `ends[row]` is the end of the row instead of its start.
        for (i, &row) in self.rows.iter().enumerate() {
            order[ends[row as usize]] = i;
            ends[row as usize] += 1;
        }
        let mut out = Rows::new();
        out.widen(shape.columns);
        let (mut start, mut indices, mut values) = (0, Vec::new(), Vec::new());
        for (i, &end) in ends[..shape.rows].iter().enumerate() {
            indices.clear();
            values.clear();
            for &at in &order[start..end] {
                indices.push(self.columns[at]);
                values.push(self.values[at]);
            }
            start = end;
            if indices.is_sorted_by(|a, b| a < b) {
                out.push(SparseRow {
                    indices: &indices,
                    values: &values,
                });
            } else {
                out.push(added_up(i, &indices, &values)?.as_row());
            }
        }
        out.shrink();
        Ok(out)
    }
}

fn added_up<R: Real>(row: usize, indices: &[u32], values: &[R]) -> Result<SparseVec<R>> {
    let entries = indices.iter().copied().zip(values.iter().copied());
    let sums = SparseVec::from_entries(entries.collect());
    let mut out = SparseVec::new();
    for (column, sum) in sums.as_row().iter() {
        if !sum.to_f64().is_finite() {
            return Err(Error::input(format!(
                "the entries at row {row}, column {column} (both from 0) add up to more than {} holds",
                R::NAME
            )));
        }
        if sum != R::default() {
            out.push(column, sum);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_in_any_order_become_rows() {
        let mut entries = Entries::<f32>::new();
        let listed = [
            (2, 1, 1.0),
            (0, 3, 2.0),
            (0, 0, 3.0),
            (2, 1, 0.5),
            (2, 0, 1.0),
            (2, 0, -1.0),
            (0, 1, 0.0),
        ];
        for (row, column, value) in listed {
            entries.push(row, column, value);
        }
        let rows = entries.into_rows(Shape::new(4, 5).unwrap()).unwrap();
        let got: Vec<Vec<(u32, f32)>> = rows.iter().map(|r| r.iter().collect()).collect();
        let want = [vec![(0, 3.0), (3, 2.0)], vec![], vec![(1, 1.5)], vec![]];
        assert_eq!((got, rows.columns()), (want.to_vec(), 5));
    }

    #[test]
    fn sums_and_sizes_have_their_limits() {
        let mut entries = Entries::<f32>::new();
        entries.push(0, 1, f32::MAX);
        entries.push(0, 1, f32::MAX);
        let error = entries.into_rows(Shape::new(1, 2).unwrap()).unwrap_err();
        assert_eq!(
            error.message,
            "the entries at row 0, column 1 (both from 0) add up to more than f32 holds"
        );
        let message = |rows, columns| Shape::new(rows, columns).unwrap_err().message;
        assert_eq!(message(0, 1), "no rows");
        assert_eq!(message(1, 0), "no columns");
        let want = "4294967296 rows are more than the 4294967295 there may be";
        assert_eq!(message(1 << 32, 1), want);
        let want = "2147483648 columns are more than the 2147483647 there may be";
        assert_eq!(message(1, 1 << 31), want);
    }
}
