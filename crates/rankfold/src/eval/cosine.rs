//! The baseline for similarities: the cosine between the rows as they came.
//!
//! An inverted index lists, for each column in use, the rows that have it. A
//! query adds up the lists of its own columns, so that its cost is the number
//! of entries it has in common with other rows. Memory is that of the rows
//! again, however wide they are.

use super::Scorer;
use crate::{Real, Rows, SparseRow};

/// Cosines between sparse rows. A zero row has cosine 0 with every row.
#[derive(Debug, Clone)]
pub struct Cosine<'a, R> {
    queries: &'a Rows<R>,
    /// ‖query‖, or 1 for a zero row.
    norms: Vec<f64>,
    candidates: usize,
    /// The columns in use, rising.
    columns: Vec<u32>,
    /// Where the list of each of `columns` starts, with the end at last.
    starts: Vec<usize>,
    /// Row and normalized value, rows rising in each list.
    postings: Vec<(u32, R)>,
}

impl<'a, R: Real> Cosine<'a, R> {
    /// Builds the inverted index of the rows.
    #[track_caller]
    pub fn new(rows: &'a Rows<R>) -> Self {
        let norms: Vec<f64> = rows.iter().map(norm).collect();
        Self::index(rows, norms.clone(), rows, &norms)
    }

    /// Cosines of queries with candidates in the same columns.
    #[track_caller]
    pub fn between(queries: &'a Rows<R>, candidates: &Rows<R>) -> Self {
        let norms = candidates.iter().map(norm).collect::<Vec<f64>>();
        Self::index(
            queries,
            queries.iter().map(norm).collect(),
            candidates,
            &norms,
        )
    }

    fn index(queries: &'a Rows<R>, of_queries: Vec<f64>, rows: &Rows<R>, norms: &[f64]) -> Self {
        let count = u32::try_from(rows.len()).expect("fewer than 2³² rows");

        let mut columns: Vec<u32> = rows.iter().flat_map(|row| row.indices).copied().collect();
        columns.sort_unstable();
        let mut starts = vec![0];
        for column in columns.chunk_by(|a, b| a == b) {
            starts.push(starts[starts.len() - 1] + column.len());
        }
        columns.dedup();

        let mut free = starts.clone();
        let mut postings = vec![(0, R::default()); rows.nnz()];
        for i in 0..count {
            for (column, value) in rows.row(i as usize).iter() {
                let list = columns.binary_search(&column).expect("a column in use");
                let value = value.to_f64() / norms[i as usize];
                postings[free[list]] = (i, R::from_f64(value));
                free[list] += 1;
            }
        }
        Cosine {
            queries,
            norms: of_queries,
            candidates: rows.len(),
            columns,
            starts,
            postings,
        }
    }
}

impl<R: Real> Scorer for Cosine<'_, R> {
    fn rows(&self) -> usize {
        self.queries.len()
    }

    fn candidates(&self) -> usize {
        self.candidates
    }

    fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
        out.fill(0.0);
        let outs = out.chunks_exact_mut(self.candidates.max(1));
        for (query, out) in (first..first + queries).zip(outs) {
            for (column, value) in self.queries.row(query).iter() {
                let Ok(list) = self.columns.binary_search(&column) else {
                    continue;
                };
                let value = value.to_f64() / self.norms[query];
                for &(row, other) in &self.postings[self.starts[list]..self.starts[list + 1]] {
                    out[row as usize] += value * other.to_f64();
                }
            }
        }
    }
}

/// ‖row‖ without overflow on the way, and 1 for a zero row.
fn norm<R: Real>(row: SparseRow<'_, R>) -> f64 {
    let values = || row.values.iter().map(|v| v.to_f64());
    let largest = values().fold(0.0, |largest: f64, v| largest.max(v.abs()));
    let scale = if largest > 0.0 { largest } else { 1.0 };
    let norm = scale * values().map(|v| (v / scale).powi(2)).sum::<f64>().sqrt();
    if norm == 0.0 { 1.0 } else { norm }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SparseVec;

    fn all_scores<R: Real>(rows: &Rows<R>) -> Vec<f64> {
        let mut out = vec![f64::NAN; rows.len() * rows.len()];
        Cosine::new(rows).scores(&mut out, 0, rows.len());
        out
    }

    #[test]
    fn cosines_of_awkward_rows() {
        let entries: [&[(u32, f64)]; 5] = [
            &[(0, 3e300), (crate::sparse::MAX_INDEX, 4e300)],
            &[(0, 2e-300)],
            &[],
            &[(5, 0.0)],
            &[(crate::sparse::MAX_INDEX, -7.0)],
        ];
        let rows: Vec<_> = entries
            .map(|row| SparseVec::from_entries(row.to_vec()))
            .into();
        let scores = all_scores(&rows.iter().map(SparseVec::as_row).collect());
        let want = [
            [1.0, 0.6, 0.0, 0.0, -0.8],
            [0.6, 1.0, 0.0, 0.0, 0.0],
            [0.0; 5],
            [0.0; 5],
            [-0.8, 0.0, 0.0, 0.0, 1.0],
        ];
        for (got, want) in scores.iter().zip(want.as_flattened()) {
            assert!((got - want).abs() < 1e-15, "{got} is not {want}");
        }
    }

    #[test]
    fn cosines_are_normalized_dot_products() {
        let mut rows = Rows::<f32>::new();
        for i in 0..30_u32 {
            let entries = (0..i % 7).map(|t| ((i * t * t) % 11 + 11 * t, (i + t) as f32 - 9.5));
            rows.push(SparseVec::from_entries(entries.collect()).as_row());
        }
        let norm = |i: usize| rows.row(i).squared_norm().sqrt().max(f64::MIN_POSITIVE);
        for (at, got) in all_scores(&rows).into_iter().enumerate() {
            let (i, j) = (at / rows.len(), at % rows.len());
            let want = rows.row(i).dot(rows.row(j)) / (norm(i) * norm(j)).max(f64::MIN_POSITIVE);
            // The index holds rounded values, and Σ|xᵢyᵢ| ≤ ‖x‖‖y‖ = 1.
            assert!((got - want).abs() <= f64::from(f32::EPSILON));
        }
        // Candidates of their own: the same numbers, where queries have columns
        // that no candidate has.
        let few = rows.select([3, 20, 1]);
        let mut some = vec![f64::NAN; rows.len() * 3];
        Cosine::between(&rows, &few).scores(&mut some, 0, rows.len());
        let all = all_scores(&rows);
        for (at, got) in some.into_iter().enumerate() {
            assert_eq!(got, all[at / 3 * rows.len() + [3, 20, 1][at % 3]]);
        }
    }
}
