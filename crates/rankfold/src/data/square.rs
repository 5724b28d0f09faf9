//! Square matrices of items by items, from memory or from a file: `.csv` or `.tsv` whose columns are named after
//! the items, with their names in a column `id` as well or not at all, `.npy`, and
//! any other format of rows.

use std::fmt::Display;
use std::path::Path;

use super::dissimilarities::in_range;
use super::{Features, Labelled, RowIds, read_labelled};
use crate::sparse::Dissimilarity;
use crate::sparse::bad_number;
use crate::{Error, Ids, Real, Result, memory};

/// A matrix of items by items.
#[derive(Debug, Clone, PartialEq)]
pub struct SquareMatrix {
    /// The names of the items: their positions where the file names none.
    pub items: Ids,
    /// The entries, row by row. A missing one is NaN.
    pub values: Vec<f64>,
}

impl SquareMatrix {
    /// From its rows. Items are named by their positions; NaN is a missing entry.
    ///
    /// ```
    /// use rankfold::data::SquareMatrix;
    ///
    /// let kernel = SquareMatrix::from_dense([[2.0, 1.0], [1.0, 3.0]])?.with_items(["a", "b"])?;
    /// assert_eq!((kernel.at(0, 1), kernel.items.find("b")), (1.0, Some(1)));
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub fn from_dense<C: AsRef<[f64]>>(rows: impl IntoIterator<Item = C>) -> Result<Self> {
        let (mut values, mut count, mut width) = (Vec::new(), 0, None);
        for row in rows {
            let row = row.as_ref();
            let width = *width.get_or_insert(row.len());
            if row.len() != width {
                return Err(Error::input(format!(
                    "row {count}: expected {width} values, found {}",
                    row.len()
                )));
            }
            values.extend_from_slice(row);
            count += 1;
        }
        Self::new(count, width.unwrap_or(0), values)
    }

    /// The same from rows that lie behind each other.
    pub fn from_flat(values: Vec<f64>) -> Result<Self> {
        let side = values.len().isqrt();
        match side * side == values.len() {
            true => Self::new(side, side, values),
            false => Err(Error::input(format!(
                "expected a square matrix, found {} values",
                values.len()
            ))),
        }
    }

    fn new(rows: usize, columns: usize, values: Vec<f64>) -> Result<Self> {
        square(rows, columns)?;
        if let Some(at) = values.iter().position(|v| v.is_infinite()) {
            let what = format!("is {}: expected a finite number", values[at]);
            return Err(Error::input(bad_number(at / rows, at % rows, &what)));
        }
        let items = (0..rows).collect();
        Ok(SquareMatrix { items, values })
    }

    /// The same matrix of items with these names, which must differ.
    pub fn with_items<D: Display>(self, names: impl IntoIterator<Item = D>) -> Result<Self> {
        let items = Ids::distinct(names)
            .map_err(|name| Error::input(format!("the item `{name}` stands twice")))?;
        match items.len() == self.len() {
            true => Ok(SquareMatrix { items, ..self }),
            false => Err(Error::input(format!(
                "expected {} items, one a row, found {}",
                self.len(),
                items.len()
            ))),
        }
    }

    /// Reads a matrix and checks that it is square.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::from_labelled(&read_labelled::<f64>(path)?).map_err(|e| e.in_file(path))
    }

    /// From rows whose columns are the items, which rows or columns name.
    pub fn from_labelled<R: Real>(data: &Labelled<R>) -> Result<Self> {
        let columns = match &data.features {
            Features::Columns(names) | Features::Named(names) => Some(names),
            _ => None,
        };
        let n = data.rows.len();
        square(n, columns.map_or(data.rows.columns(), Ids::len))?;
        let name = |i: usize| match (&data.ids, columns) {
            (RowIds::Positions, Some(names)) => names.get(i as u32).into(),
            _ => data.ids.name(i),
        };
        if let Some(columns) = columns {
            let other = (0..n).find(|&i| columns.get(i as u32) != name(i));
            if let Some(i) = other {
                return Err(Error::input(format!(
                    "row {} is of `{}`, but column {} is of `{}`",
                    i + 1,
                    name(i),
                    i + 1,
                    columns.get(i as u32)
                )));
            }
        }
        let mut values = vec![0.0; n * n];
        for (i, row) in data.rows.iter().enumerate() {
            row.iter()
                .for_each(|(j, v)| values[i * n + j as usize] = v.to_f64());
        }
        Self::new(n, n, values)?.with_items((0..n).map(name))
    }

    /// How many items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An entry.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.values[i * self.len() + j]
    }

    /// What is known of two items, where the entries are dissimilarities: those below the
    /// diagonal that are there. Items that are not among the names yet are added to
    /// them.
    pub fn dissimilarities(&self, items: &mut Ids) -> Result<Vec<Dissimilarity>> {
        self.check_symmetric(1e-9)?;
        let numbers: Vec<u32> = self.items.iter().map(|name| items.intern(name)).collect();
        let mut out = Vec::new();
        for i in 0..self.len() {
            let own = self.at(i, i);
            if !(own.is_nan() || own == 0.0) {
                let name = self.items.get(i as u32);
                return Err(Error::input(format!(
                    "expected 0 for `{name}` and itself, found {own}"
                )));
            }
            for j in 0..i {
                let value = self.at(i, j);
                if !value.is_nan() {
                    let value = in_range(value, &value.to_string())?;
                    let (left, right) = (numbers[j], numbers[i]);
                    out.push(Dissimilarity { left, right, value });
                }
            }
        }
        match out.is_empty() {
            true => Err(Error::input(
                "expected dissimilarities of two items, found none",
            )),
            false => Ok(out),
        }
    }

    /// An error where two mirrored entries differ by more than this share of the
    /// largest, or only one of them is there.
    pub fn check_symmetric(&self, share: f64) -> Result<()> {
        let largest = self.values.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
        let n = self.len();
        for (i, j) in (0..n).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let (a, b) = (self.at(i, j), self.at(j, i));
            let same = (a.is_nan() && b.is_nan()) || (a - b).abs() <= share * largest;
            if !same {
                let shown = |v: f64| match v.is_nan() {
                    true => "nothing".to_owned(),
                    false => v.to_string(),
                };
                let name = |i: usize| self.items.get(i as u32);
                return Err(Error::input(format!(
                    "expected a symmetric matrix, found {} for `{}` and `{}` but {} for `{}` and `{}`",
                    shown(b),
                    name(j),
                    name(i),
                    shown(a),
                    name(i),
                    name(j)
                )));
            }
        }
        Ok(())
    }
}

/// An error where a matrix is not square, or too large for the memory that is free.
fn square(rows: usize, columns: usize) -> Result<()> {
    if columns != rows {
        return Err(Error::input(format!(
            "expected a square matrix, found {rows} × {columns}"
        )));
    }
    memory::require(
        8 * rows as u128 * rows as u128,
        "a matrix of items by items",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rows;

    const NAN: f64 = f64::NAN;

    #[test]
    fn matrices_come_from_rows_of_all_kinds() {
        let dense = [[0.0, 2.0], [2.0, 0.0]];
        let want = SquareMatrix::from_dense(dense).unwrap();
        assert_eq!((want.len(), want.at(1, 0)), (2, 2.0));
        assert_eq!(want.items.iter().collect::<Vec<_>>(), ["0", "1"]);
        let flat = dense.as_flattened().to_vec();
        assert_eq!(SquareMatrix::from_flat(flat), Ok(want.clone()));
        let rows = Rows::from_dense(dense).unwrap();
        let data = Labelled::new(rows);
        assert_eq!(SquareMatrix::from_labelled(&data), Ok(want.clone()));
        let named = want.with_items(["a", "b"]).unwrap();
        let names = || Features::columns(["a", "b"]).unwrap();
        let data = data.with_features(names()).unwrap();
        assert_eq!(SquareMatrix::from_labelled(&data), Ok(named.clone()));
        let data = data.with_ids(["a", "b"]).unwrap();
        assert_eq!(SquareMatrix::from_labelled(&data), Ok(named));

        let none: [[f64; 0]; 0] = [];
        let empty = SquareMatrix::from_dense(none).unwrap();
        assert!(empty.is_empty() && empty.check_symmetric(0.0).is_ok());
        assert_eq!(SquareMatrix::from_flat(Vec::new()), Ok(empty));
        let one = SquareMatrix::from_dense([[3.0]]).unwrap();
        assert_eq!((one.len(), one.at(0, 0)), (1, 3.0));
    }

    #[test]
    fn entries_below_the_diagonal_are_dissimilarities() {
        let matrix = [[0.0, 1.5, NAN], [1.5, NAN, 2.0], [NAN, 2.0, 0.0]];
        let matrix = SquareMatrix::from_dense(matrix).unwrap();
        let mut items: Ids = ["x", "1"].into_iter().collect();
        let found = matrix.dissimilarities(&mut items).unwrap();
        let found: Vec<_> = found.iter().map(|d| (d.left, d.right, d.value)).collect();
        assert_eq!(found, [(2, 1, 1.5), (1, 3, 2.0)]);
        assert_eq!(items.iter().collect::<Vec<_>>(), ["x", "1", "0", "2"]);
    }

    #[test]
    fn what_is_refused() {
        let make = |rows: Vec<Vec<f64>>| SquareMatrix::from_dense(rows);
        let two = || make(vec![vec![0.0, 1.0], vec![1.0, 0.0]]).unwrap();
        let data = |ids: [&str; 2], columns: [&str; 2]| {
            let rows = Rows::from_dense([[0.0, 1.0], [1.0, 0.0]]).unwrap();
            let data = Labelled::new(rows).with_ids(ids).unwrap();
            let data = data.with_features(Features::columns(columns).unwrap());
            SquareMatrix::from_labelled(&data.unwrap())
        };
        let twins = Labelled::new(Rows::from_dense([[0.0, 1.0], [1.0, 0.0]]).unwrap());
        let twins = SquareMatrix::from_labelled(&twins.with_ids(["a", "a"]).unwrap());
        let known = |rows| make(rows)?.dissimilarities(&mut Ids::new()).map(|_| two());
        let cases = [
            (
                make(vec![vec![1.0, 2.0]]),
                "expected a square matrix, found 1 × 2",
            ),
            (
                make(vec![vec![1.0, 2.0], vec![1.0]]),
                "row 1: expected 2 values, found 1",
            ),
            (
                make(vec![vec![1.0, 2.0], vec![1.0, -f64::INFINITY]]),
                "the number at row 1, column 1 (both from 0) is -inf: expected a finite number",
            ),
            (
                SquareMatrix::from_flat(vec![0.0; 5]),
                "expected a square matrix, found 5 values",
            ),
            (
                two().with_items(["a"]),
                "expected 2 items, one a row, found 1",
            ),
            (two().with_items(["a", "a"]), "the item `a` stands twice"),
            (twins, "the item `a` stands twice"),
            (
                data(["a", "b"], ["a", "c"]),
                "row 2 is of `b`, but column 2 is of `c`",
            ),
            (
                known(vec![]),
                "expected dissimilarities of two items, found none",
            ),
            (
                known(vec![vec![1.0]]),
                "expected 0 for `0` and itself, found 1",
            ),
            (
                known(vec![vec![0.0, -1.0], vec![-1.0, 0.0]]),
                "expected a dissimilarity from 0 to 1e75, found `-1`",
            ),
            (
                known(vec![vec![0.0, 1.0], vec![NAN, 0.0]]),
                "expected a symmetric matrix, found 1 for `0` and `1` but nothing for `1` and `0`",
            ),
        ];
        for (found, message) in cases {
            assert_eq!(found.unwrap_err().message, message);
        }
    }
}
