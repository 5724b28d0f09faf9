//! Square matrices of items by items: `.csv` or `.tsv` whose columns are named after
//! the items, with their names in a column `id` as well or not at all, `.npy`, and
//! any other format of rows.

use std::path::Path;

use super::{Features, RowIds, read_labelled};
use crate::{Error, Ids, Result, memory};

/// A matrix of items by items.
#[derive(Debug, Clone, PartialEq)]
pub struct SquareMatrix {
    /// The names of the items: their positions where the file names none.
    pub items: Ids,
    /// The entries, row by row. A missing one is NaN.
    pub values: Vec<f64>,
}

impl SquareMatrix {
    /// Reads a matrix and checks that it is square.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let data = read_labelled::<f64>(path)?;
        let bad = |message: String| Err(Error::input(message).in_file(path));
        let columns = match &data.features {
            Features::Columns(names) | Features::Named(names) => Some(names),
            _ => None,
        };
        let n = data.rows.len();
        let width = columns.map_or(data.rows.columns(), Ids::len);
        if width != n {
            return bad(format!("expected a square matrix, found {n} × {width}"));
        }
        let mut items = Ids::new();
        for i in 0..n {
            let name = match (&data.ids, columns) {
                (RowIds::Positions, Some(names)) => names.get(i as u32).into(),
                _ => data.ids.name(i),
            };
            if items.intern(&name) as usize != i {
                return bad(format!("the item `{name}` stands twice"));
            }
            let column = columns.map(|names| names.get(i as u32));
            if let Some(column) = column.filter(|column| *column != name) {
                return bad(format!(
                    "row {} is of `{name}`, but column {} is of `{column}`",
                    i + 1,
                    i + 1
                ));
            }
        }
        memory::require(8 * n as u128 * n as u128, "a matrix of items by items")?;
        let mut values = vec![0.0; n * n];
        for (i, row) in data.rows.iter().enumerate() {
            row.iter().for_each(|(j, v)| values[i * n + j as usize] = v);
        }
        Ok(SquareMatrix { items, values })
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
