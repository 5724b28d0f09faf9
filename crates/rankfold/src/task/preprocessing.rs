//! The choice of preprocessing: which settings are worth a trial for these rows. What
//! judges them is up to the task.

use crate::model::{Normalize, Scaling, Steps, Weight};
use crate::{Real, Rows};

/// Share of entries that are not zero above which rows are a table: features are scaled
/// there, and weighted by how rare they are elsewhere.
const TABLE: f64 = 0.25;

/// Entries of the rows up to which scaling, which leaves no zeros, is tried.
const MOST_ENTRIES: f64 = 1e8;

/// Whether scaling is worth a trial: rows are a table, and have no more entries than that.
pub(super) fn is_table<R: Real>(rows: &Rows<R>) -> bool {
    let values = rows.iter().flat_map(|row| row.values.iter());
    let filled = values.filter(|v| v.to_f64() != 0.0).count() as f64;
    let entries = rows.len() as f64 * rows.columns() as f64;
    filled > TABLE * entries && entries <= MOST_ENTRIES
}

/// The settings that may be what was asked for, the plainest first.
pub(super) fn candidates<R: Real>(
    (weight, normalize, standardize): (Weight, Normalize, Scaling),
    rows: &Rows<R>,
) -> Vec<Steps> {
    let values = || rows.iter().flat_map(|row| row.values.iter());
    let filled = values().filter(|v| v.to_f64() != 0.0).count() as f64;
    let entries = rows.len() as f64 * rows.columns() as f64;
    let table = filled > TABLE * entries;
    let counts = !values().any(|v| v.to_f64() < 0.0);
    let weights = match weight {
        Weight::Auto if !table && counts => &[Weight::None, Weight::Tfidf][..],
        Weight::Auto | Weight::None => &[Weight::None],
        Weight::Tfidf => &[Weight::Tfidf],
    };
    let scalings = match standardize {
        Scaling::Auto if is_table(rows) => &[Scaling::None, Scaling::Global][..],
        Scaling::Auto | Scaling::None => &[Scaling::None],
        Scaling::Global => &[Scaling::Global],
    };
    let lengths = match normalize {
        Normalize::Auto => &[Normalize::None, Normalize::L2][..],
        Normalize::None => &[Normalize::None],
        Normalize::L2 => &[Normalize::L2],
    };
    let mut out = Vec::new();
    for &weight in weights {
        for &scaling in scalings {
            out.extend(lengths.iter().map(|&l| Steps::of(weight, l, scaling)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(asked: (Weight, Normalize, Scaling), dense: &[[f64; 4]]) -> Vec<[&'static str; 3]> {
        let rows = Rows::from_dense(dense).unwrap();
        let found = candidates(asked, &rows).into_iter();
        found.map(|steps| steps.names().map(|(_, v)| v)).collect()
    }

    #[test]
    fn counts_are_weighted_and_tables_scaled() {
        let open = (Weight::Auto, Normalize::Auto, Scaling::Auto);
        let sparse = [[1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]];
        let none = ["none"; 3];
        let want = [
            none,
            ["none", "l2", "none"],
            ["tfidf", "none", "none"],
            ["tfidf", "l2", "none"],
        ];
        assert_eq!(tried(open, &sparse), want);
        let negative = [[-1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]];
        assert_eq!(tried(open, &negative), want[..2]);
        let table = [[1.0, 2.0, 3.0, 4.0]; 2];
        let want = [
            none,
            ["none", "l2", "none"],
            ["none", "none", "global"],
            ["none", "l2", "global"],
        ];
        assert_eq!(tried(open, &table), want);
        let asked = (Weight::Tfidf, Normalize::None, Scaling::Auto);
        assert_eq!(tried(asked, &sparse), [["tfidf", "none", "none"]]);
    }
}
