//! Rows from values in memory, checked: dense cells, compressed sparse rows, and
//! entries in any order.
//!
//! Zeros are not stored. Rows and columns count from 0 in errors.

use super::store::{Lent, Store};
use super::{Layout, MAX_INDEX, Rows, SparseRow, SparseVec};
use crate::{Error, Real, Result, memory};
use std::fmt::Display;

/// How many rows and columns a matrix has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub rows: usize,
    pub columns: usize,
}

impl Shape {
    /// Checks sizes before anything is allocated.
    pub fn new(rows: u64, columns: u64) -> Result<Self> {
        let (most_rows, most_columns) = (u64::from(u32::MAX), u64::from(MAX_INDEX) + 1);
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
        // Rows and their labels have eight bytes each, three times as much while their room
        // doubles, and entries are sorted by as many counters.
        memory::require(u128::from(rows) * 56, &format!("a matrix of {rows} rows"))?;
        Ok(Shape {
            rows: rows as usize,
            columns: columns as usize,
        })
    }

    /// The same for a file, which must hold something.
    pub fn of_file(rows: u64, columns: u64) -> Result<Self> {
        if rows == 0 || columns == 0 {
            let what = if rows == 0 { "rows" } else { "columns" };
            return Err(Error::input(format!("no {what}")));
        }
        Self::new(rows, columns)
    }

    /// An index as one of so many.
    pub fn index(index: u64, side: usize) -> std::result::Result<u32, String> {
        match (index < side as u64, side) {
            (true, _) => Ok(index as u32),
            (false, 0) => Err(format!(
                "index {index} is beyond the last one: there are none"
            )),
            (false, _) => Err(format!(
                "index {index} is beyond the last one, {}",
                side - 1
            )),
        }
    }

    /// Where the lines of a compressed matrix start, and the last one ends.
    pub fn starts(starts: &[u64], lines: usize, entries: usize) -> std::result::Result<(), String> {
        if starts.len() != lines + 1 {
            return Err(format!(
                "expected {} numbers, found {}",
                lines + 1,
                starts.len()
            ));
        }
        let rises = starts.is_sorted() && starts[0] == 0 && starts[lines] == entries as u64;
        match rises {
            true => Ok(()),
            false => Err(format!("expected numbers that rise from 0 to {entries}")),
        }
    }
}

/// What is wrong with a number of a matrix.
pub(crate) fn bad_number(row: usize, column: usize, what: &str) -> String {
    format!("the number at row {row}, column {column} (both from 0) {what}")
}

fn finite<R: Real>(row: usize, column: usize, value: R) -> Result<R> {
    match value.to_f64().is_finite() {
        true => Ok(value),
        false => {
            let what = format!("is {value}: expected a finite number");
            Err(Error::input(bad_number(row, column, &what)))
        }
    }
}

/// An index or a start, which must not be negative.
fn whole<I: Copy + Display + TryInto<u64>>(array: &str, index: I) -> Result<u64> {
    let message = || format!("array `{array}`: expected a number from 0, found {index}");
    index.try_into().map_err(|_| Error::input(message()))
}

/// Whether all values are so. Blocks are tested without branches, several values at a
/// time: rows that are lent are tested again at every call.
pub(crate) fn all_of<T: Copy>(values: &[T], is: impl Fn(T) -> bool) -> bool {
    let block = |block: &[T]| block.iter().fold(true, |all, &value| all & is(value));
    values.chunks(4096).all(block)
}

impl<R: Real> Rows<R> {
    /// From dense rows, all of one length. A number that is not finite is an error;
    /// [`Rows::from_cells`] takes missing ones.
    ///
    /// ```
    /// use rankfold::Rows;
    ///
    /// let rows = Rows::from_dense([[1.0_f32, 0.0, 2.0], [0.0, 0.0, 0.0]]).unwrap();
    /// assert_eq!((rows.len(), rows.columns(), rows.nnz()), (2, 3, 2));
    /// ```
    pub fn from_dense<C: AsRef<[R]>>(rows: impl IntoIterator<Item = C>) -> Result<Self> {
        dense(rows, |row, column, value: R| finite(row, column, value))
    }

    /// The same from rows that lie behind each other in one slice.
    pub fn from_flat(values: &[R], columns: usize) -> Result<Self> {
        if values.len().checked_rem(columns).unwrap_or(values.len()) != 0 {
            return Err(Error::input(format!(
                "expected rows of {columns} values, found {} values in all",
                values.len()
            )));
        }
        let mut out = Self::from_dense(values.chunks_exact(columns.max(1)))?;
        out.widen(columns);
        Ok(out)
    }

    /// From dense rows in which some cells are missing. A missing cell is stored as
    /// NaN, until preprocessing fills it with the mean of its column.
    pub fn from_cells<C: AsRef<[Option<R>]>>(rows: impl IntoIterator<Item = C>) -> Result<Self> {
        dense(rows, |row, column, value: Option<R>| match value {
            Some(value) => finite(row, column, value),
            None => Ok(R::from_f64(f64::NAN)),
        })
    }

    /// From compressed sparse rows, as SciPy has them: where each row starts, with
    /// the end of the last, and the column and the value of each entry. Indices may
    /// stand in any order; entries of one place are added up.
    ///
    /// ```
    /// use rankfold::Rows;
    ///
    /// let rows = Rows::from_csr(&[0_i64, 2, 2], &[2_i32, 0], &[5.0_f32, 1.0], 3).unwrap();
    /// assert_eq!(rows.row(0).iter().collect::<Vec<_>>(), [(0, 1.0), (2, 5.0)]);
    /// ```
    pub fn from_csr<P, I>(indptr: &[P], indices: &[I], values: &[R], columns: usize) -> Result<Self>
    where
        P: Copy + Display + TryInto<u64>,
        I: Copy + Display + TryInto<u64>,
    {
        let rows = indptr.len().checked_sub(1).ok_or_else(|| {
            Error::input("array `indptr`: expected the starts of rows and the end, found nothing")
        })?;
        let shape = Shape::new(rows as u64, columns as u64)?;
        if indices.len() != values.len() {
            return Err(Error::input(format!(
                "{} numbers for {} indices",
                values.len(),
                indices.len()
            )));
        }
        let starts = indptr.iter().map(|&start| whole("indptr", start));
        let starts = starts.collect::<Result<Vec<u64>>>()?;
        let about =
            |array: &str, message: String| Error::input(format!("array `{array}`: {message}"));
        Shape::starts(&starts, rows, indices.len()).map_err(|m| about("indptr", m))?;
        let mut out = RowBuilder::new(shape.columns);
        for (row, ends) in starts.windows(2).enumerate() {
            for at in ends[0] as usize..ends[1] as usize {
                let index = whole("indices", indices[at])?;
                let column = Shape::index(index, columns).map_err(|m| about("indices", m))?;
                out.add(column, finite(row, column as usize, values[at])?);
            }
            out.end_row(row)?;
        }
        out.finish()
    }

    /// From compressed sparse rows in the memory of somebody else, which are read in
    /// place where their indices rise and no value is zero. Otherwise they are copied
    /// as [`Rows::from_csr`] does.
    pub fn lent_csr<P>(
        indptr: &[P],
        indices: Lent<u32>,
        values: Lent<R>,
        columns: usize,
    ) -> Result<Self>
    where
        P: Copy + Display + TryInto<u64>,
    {
        let (js, vs) = ((*indices).as_ref(), (*values).as_ref());
        let starts = indptr.iter().map(|&start| start.try_into().ok());
        let starts: Option<Vec<u64>> = starts.collect();
        let rows = (indptr.len() as u64).saturating_sub(1);
        let starts = starts.filter(|starts| {
            Shape::new(rows, columns as u64).is_ok()
                && js.len() == vs.len()
                && Shape::starts(starts, rows as usize, js.len()).is_ok()
                && all_of(vs, |v| v.to_f64().is_finite() & (v != R::default()))
                && starts.windows(2).all(|ends| {
                    let row = &js[ends[0] as usize..ends[1] as usize];
                    let fits = row.last().is_none_or(|&last| (last as usize) < columns);
                    let pairs = row.iter().zip(row.iter().skip(1));
                    fits && pairs.fold(true, |rises, (a, b)| rises & (a < b))
                })
        });
        match starts {
            None => Self::from_csr(indptr, js, vs, columns),
            Some(starts) => Ok(Rows {
                layout: Layout::Each(starts.into_iter().map(|start| start as usize).collect()),
                indices: Store::Lent(indices),
                values: Store::Lent(values),
                columns,
            }),
        }
    }

    /// From dense rows that lie behind each other in the memory of somebody else. They
    /// are read in place where no value is zero. Otherwise they are copied as
    /// [`Rows::from_flat`] does.
    pub fn lent_flat(values: Lent<R>, columns: usize) -> Result<Self> {
        let vs = (*values).as_ref();
        let in_place = columns > 0
            && vs.len() % columns == 0
            && Shape::new((vs.len() / columns) as u64, columns as u64).is_ok()
            && all_of(vs, |v| v.to_f64().is_finite() & (v != R::default()));
        match in_place {
            false => Self::from_flat(vs, columns),
            true => Ok(Rows {
                layout: Layout::All(columns),
                indices: Store::Own((0..columns as u32).collect()),
                values: Store::Lent(values),
                columns,
            }),
        }
    }

    /// From entries `(row, column, value)` in any order; those of one place are added
    /// up.
    pub fn from_entries(
        rows: usize,
        columns: usize,
        entries: impl IntoIterator<Item = (usize, usize, R)>,
    ) -> Result<Self> {
        let shape = Shape::new(rows as u64, columns as u64)?;
        let mut out = Entries::new();
        for (row, column, value) in entries {
            let about = |what: &str, message| Error::input(format!("{what}: {message}"));
            Shape::index(row as u64, rows).map_err(|m| about("row", m))?;
            Shape::index(column as u64, columns).map_err(|m| about("column", m))?;
            out.push(row, column, finite(row, column, value)?);
        }
        out.into_rows(shape)
    }

    /// From the entries `(column, value)` of one row after the other, in any order. A
    /// column that stands twice in a row is an error.
    pub fn from_sparse<E: IntoIterator<Item = (u32, R)>>(
        rows: impl IntoIterator<Item = E>,
    ) -> Result<Self> {
        let mut out = RowBuilder::new(0);
        let mut entries: Vec<(u32, R)> = Vec::new();
        for (row, given) in rows.into_iter().enumerate() {
            entries.clear();
            entries.extend(given);
            entries.sort_by_key(|entry| entry.0);
            if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                let column = pair[0].0;
                let message = format!("row {row}, column {column} (both from 0) stands twice");
                return Err(Error::input(message));
            }
            if let Some(&(last, _)) = entries.last() {
                let side = MAX_INDEX as usize + 1;
                Shape::index(last.into(), side)
                    .map_err(|m| Error::input(format!("row {row}, column: {m}")))?;
                out.rows.widen(last as usize + 1);
            }
            for &(column, value) in &entries {
                out.add(column, finite(row, column as usize, value)?);
            }
            out.end_row(row)?;
        }
        out.finish()
    }
}

fn dense<R: Real, V: Copy, C: AsRef<[V]>>(
    rows: impl IntoIterator<Item = C>,
    value: impl Fn(usize, usize, V) -> Result<R>,
) -> Result<Rows<R>> {
    let mut out = RowBuilder::new(0);
    for (row, given) in rows.into_iter().enumerate() {
        let given = given.as_ref();
        let columns = out.rows.columns();
        if row == 0 {
            Shape::new(1, given.len() as u64)?;
            out.rows.widen(given.len());
        } else if given.len() != columns {
            let found = given.len();
            return Err(Error::input(format!(
                "row {row}: expected {columns} values, found {found}"
            )));
        }
        for (column, &cell) in given.iter().enumerate() {
            out.add(column as u32, value(row, column, cell)?);
        }
        out.end_row(row)?;
    }
    out.finish()
}

/// Rows that are filled one after the other, with entries in any order.
struct RowBuilder<R> {
    rows: Rows<R>,
    indices: Vec<u32>,
    values: Vec<R>,
}

impl<R: Real> RowBuilder<R> {
    fn new(columns: usize) -> Self {
        let mut rows = Rows::new();
        rows.widen(columns);
        RowBuilder {
            rows,
            indices: Vec::new(),
            values: Vec::new(),
        }
    }

    fn add(&mut self, column: u32, value: R) {
        if value != R::default() {
            self.indices.push(column);
            self.values.push(value);
        }
    }

    fn end_row(&mut self, row: usize) -> Result<()> {
        let RowBuilder {
            rows,
            indices,
            values,
        } = self;
        if indices.is_sorted_by(|a, b| a < b) {
            rows.push(SparseRow { indices, values });
        } else {
            rows.push(added_up(row, indices, values)?.as_row());
        }
        indices.clear();
        values.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Rows<R>> {
        Shape::new(self.rows.len() as u64, self.rows.columns() as u64)?;
        self.rows.shrink();
        Ok(self.rows)
    }
}

/// Entries on their way into rows, in any order. Beside the rows this holds them once:
/// 8 bytes and a value each.
pub(crate) struct Entries<R> {
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
        let mut out = RowBuilder::new(shape.columns);
        let mut start = 0;
        for (i, &end) in ends[..shape.rows].iter().enumerate() {
            for &at in &order[start..end] {
                out.add(self.columns[at], self.values[at]);
            }
            start = end;
            out.end_row(i)?;
        }
        out.finish()
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
    use std::sync::Arc;

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
        let message = |rows, columns| Shape::of_file(rows, columns).unwrap_err().message;
        assert_eq!(message(0, 1), "no rows");
        assert_eq!(message(1, 0), "no columns");
        let want = "4294967296 rows are more than the 4294967295 there may be";
        assert_eq!(message(1 << 32, 1), want);
        let want = "2147483648 columns are more than the 2147483647 there may be";
        assert_eq!(message(1, 1 << 31), want);
    }

    #[test]
    fn lent_rows_are_read_in_place_where_they_can_be() {
        let lent = |values: &[f32]| -> Lent<f32> { Arc::new(values.to_vec()) };
        let csr = |starts: &[i64], indices: &[u32], values: &[f32]| {
            Rows::lent_csr(starts, Arc::new(indices.to_vec()), lent(values), 3)
        };
        let same = |starts: &[i64], indices: &[u32], values: &[f32]| {
            Rows::from_csr(starts, indices, values, 3)
        };
        for (in_place, starts, indices, values) in [
            (true, vec![0, 2, 2, 3], vec![0, 2, 1], vec![1.0, 2.0, 3.0]),
            (false, vec![0, 2, 2, 3], vec![2, 0, 1], vec![1.0, 2.0, 3.0]),
            (false, vec![0, 2, 2, 3], vec![0, 2, 1], vec![1.0, 0.0, 3.0]),
            (false, vec![0, 2, 2, 3], vec![2, 2, 1], vec![1.0, 1.0, 3.0]),
            (false, vec![0, 2, 2, 3], vec![0, 3, 1], vec![1.0, 1.0, 3.0]),
            (
                false,
                vec![0, 2, 2, 3],
                vec![0, 2, 1],
                vec![1.0, f32::NAN, 3.0],
            ),
            (false, vec![0, 2, 2], vec![0, 2, 1], vec![1.0, 2.0, 3.0]),
        ] {
            let got = csr(&starts, &indices, &values);
            assert_eq!(got.as_ref().is_ok_and(Rows::is_lent), in_place);
            assert_eq!(got, same(&starts, &indices, &values));
        }
        let flat = Rows::lent_flat(lent(&[1.0, 2.0, 3.0, 4.0]), 2).unwrap();
        assert!(flat.is_lent());
        assert_eq!(flat, Rows::from_dense([[1.0, 2.0], [3.0, 4.0]]).unwrap());
        assert!(!Rows::lent_flat(lent(&[1.0, 0.0]), 2).unwrap().is_lent());
        for columns in [0, 3] {
            let error = Rows::lent_flat(lent(&[1.0; 4]), columns).unwrap_err();
            assert_eq!(error, Rows::from_flat(&[1.0; 4], columns).unwrap_err());
        }
        // What is added to lent rows is added to a copy.
        let mut more = flat.clone();
        more.push(SparseVec::from_dense(&[0.0, 5.0, 6.0]).as_row());
        let want = [[1.0, 2.0, 0.0], [3.0, 4.0, 0.0], [0.0, 5.0, 6.0]];
        assert_eq!(more, Rows::from_dense(want).unwrap());
        assert_eq!((flat.len(), flat.nnz()), (2, 4));
    }

    fn entries(rows: &Rows<f32>) -> Vec<Vec<(u32, f32)>> {
        rows.iter().map(|row| row.iter().collect()).collect()
    }

    #[test]
    fn all_ways_give_the_same_rows() {
        let dense = [[1.0, 0.0, 2.5], [0.0; 3], [0.0, -3.0, 0.0]];
        let want = Rows::from_dense(dense).unwrap();
        assert_eq!(
            (entries(&want), want.columns()),
            (vec![vec![(0, 1.0), (2, 2.5)], vec![], vec![(1, -3.0)]], 3)
        );
        let lists: Vec<Vec<f32>> = dense.iter().map(|row| row.to_vec()).collect();
        assert_eq!(Rows::from_dense(&lists), Ok(want.clone()));
        assert_eq!(Rows::from_flat(dense.as_flattened(), 3), Ok(want.clone()));
        let cells = dense.map(|row| row.map(Some));
        assert_eq!(Rows::from_cells(cells), Ok(want.clone()));
        let listed = [
            (2, 1, -3.0),
            (0, 2, 2.0),
            (1, 0, 0.0),
            (0, 0, 1.0),
            (0, 2, 0.5),
        ];
        assert_eq!(Rows::from_entries(3, 3, listed), Ok(want.clone()));
        let sparse = [vec![(2, 2.5), (0, 1.0)], vec![], vec![(1, -3.0), (2, 0.0)]];
        assert_eq!(Rows::from_sparse(sparse), Ok(want.clone()));
        // Indices out of order, a place that stands twice, and a zero.
        let values = [0.5, 1.0, 2.0, 0.0, -3.0];
        let indices = [2, 0, 2, 0, 1];
        let starts = [0u32, 3, 4, 5];
        let got = Rows::from_csr(&starts, &indices, &values, 3);
        assert_eq!(got, Ok(want.clone()));
        let got = Rows::from_csr(&starts.map(u64::from), &indices.map(i64::from), &values, 3);
        assert_eq!(got, Ok(want.clone()));
        let got = Rows::from_csr(
            &starts.map(i64::from),
            &indices.map(|i| i as usize),
            &values,
            3,
        );
        assert_eq!(got, Ok(want));
    }

    #[test]
    fn no_rows_and_no_columns_are_rows_too() {
        let none: [[f32; 4]; 0] = [];
        assert_eq!(Rows::from_dense(none), Ok(Rows::new()));
        let empty = Rows::<f32>::from_dense([[], []]).unwrap();
        assert_eq!((empty.len(), empty.columns()), (2, 0));
        for columns in [0, 4] {
            let flat = Rows::<f32>::from_flat(&[], columns).unwrap();
            assert_eq!((flat.len(), flat.columns()), (0, columns));
            let csr = Rows::<f32>::from_csr(&[0], &[0i32; 0], &[], columns).unwrap();
            assert_eq!((csr.len(), csr.columns()), (0, columns));
            let listed = Rows::<f32>::from_entries(1, columns, []).unwrap();
            assert_eq!((listed.len(), listed.columns()), (1, columns));
        }
        let none: [[(u32, f32); 0]; 0] = [];
        assert_eq!(Rows::from_sparse(none), Ok(Rows::new()));
    }

    #[test]
    fn missing_cells_are_stored_as_nan() {
        let rows = Rows::from_cells([[Some(1.0_f64), None], [Some(0.0), Some(2.0)]]).unwrap();
        assert_eq!(rows.row(0).indices, [0, 1]);
        assert!(rows.row(0).values[1].is_nan());
        assert_eq!(rows.row(1).iter().collect::<Vec<_>>(), [(1, 2.0)]);
    }

    #[test]
    fn what_is_refused() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let at = |row, column, value: &str| {
            bad_number(
                row,
                column,
                &format!("is {value}: expected a finite number"),
            )
        };
        let csr = |starts: &[i64], indices: &[i32], values: &[f32]| {
            Rows::from_csr(starts, indices, values, 3)
        };
        let wild = MAX_INDEX + 1;
        let cases = [
            (Rows::from_dense([[1.0, nan]]), at(0, 1, "NaN")),
            (Rows::from_dense([[1.0], [-inf]]), at(1, 0, "-inf")),
            (
                Rows::from_dense([vec![1.0, 2.0], vec![1.0]]),
                "row 1: expected 2 values, found 1".into(),
            ),
            (
                Rows::from_flat(&[1.0; 5], 2),
                "expected rows of 2 values, found 5 values in all".into(),
            ),
            (
                Rows::from_flat(&[1.0; 5], 0),
                "expected rows of 0 values, found 5 values in all".into(),
            ),
            (Rows::from_cells([[Some(nan)]]), at(0, 0, "NaN")),
            (Rows::from_entries(2, 2, [(0, 1, inf)]), at(0, 1, "inf")),
            (
                Rows::from_entries(2, 2, [(2, 1, 1.0)]),
                "row: index 2 is beyond the last one, 1".into(),
            ),
            (
                Rows::from_entries(2, 0, [(1, 0, 1.0)]),
                "column: index 0 is beyond the last one: there are none".into(),
            ),
            (
                Rows::from_entries(1, 1, [(0, 0, f32::MAX), (0, 0, f32::MAX)]),
                "the entries at row 0, column 0 (both from 0) add up to more than f32 holds".into(),
            ),
            (Rows::from_sparse([[(7, nan)]]), at(0, 7, "NaN")),
            (
                Rows::from_sparse([vec![], vec![(1, 1.0), (0, 2.0), (1, 3.0)]]),
                "row 1, column 1 (both from 0) stands twice".into(),
            ),
            (
                Rows::from_sparse([[(wild, 1.0)]]),
                "row 0, column: index 2147483647 is beyond the last one, 2147483646".into(),
            ),
            (
                csr(&[], &[], &[]),
                "array `indptr`: expected the starts of rows and the end, found nothing".into(),
            ),
            (
                csr(&[0, 1], &[0, 1], &[1.0, 1.0]),
                "array `indptr`: expected numbers that rise from 0 to 2".into(),
            ),
            (
                csr(&[0, 2, 1, 2], &[0, 1], &[1.0, 1.0]),
                "array `indptr`: expected numbers that rise from 0 to 2".into(),
            ),
            (
                csr(&[-1, 2], &[0, 1], &[1.0, 1.0]),
                "array `indptr`: expected a number from 0, found -1".into(),
            ),
            (
                csr(&[0, 2], &[0, 1], &[1.0]),
                "1 numbers for 2 indices".into(),
            ),
            (
                csr(&[0, 1], &[3], &[1.0]),
                "array `indices`: index 3 is beyond the last one, 2".into(),
            ),
            (
                csr(&[0, 1], &[-3], &[1.0]),
                "array `indices`: expected a number from 0, found -3".into(),
            ),
            (csr(&[0, 0, 1], &[2], &[nan]), at(1, 2, "NaN")),
            (
                Rows::from_entries(1, 1 << 31, []),
                "2147483648 columns are more than the 2147483647 there may be".into(),
            ),
        ];
        for (got, want) in cases {
            assert_eq!(got.unwrap_err().message, want);
        }
    }
}
