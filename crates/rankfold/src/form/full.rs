//! W itself, entry by entry: for the learners that do not keep its rank low.

use super::groups::Groups;
use crate::kernel::{add_scaled, sum_scaled};
use crate::{Error, Real, Result, SparseRow, memory};
use faer::Mat;

/// A dense n×m matrix.
#[derive(Debug, Clone)]
pub struct Full<R> {
    columns: usize,
    rows: usize,
    /// Numbers from one row to the next: more than the columns while it grows.
    stride: usize,
    data: Vec<R>,
    /// What W has on its diagonal where nothing was learned: features that come
    /// later find W as if they had been there from the start.
    diagonal: f64,
    /// What the stored rows weigh in W, where a learner groups them.
    pub(crate) groups: Option<Groups>,
}

impl<R: Real> Full<R> {
    /// A diagonal matrix. Refused when it does not fit in memory.
    pub fn diagonal(rows: usize, columns: usize, diagonal: f64) -> Result<Self> {
        let mut out = Full {
            columns: 0,
            rows: 0,
            stride: 0,
            data: Vec::new(),
            diagonal,
            groups: None,
        };
        out.grow(rows, columns)?;
        Ok(out)
    }

    /// From dense rows, with zeros where features come later. Refused where rows differ
    /// in length, an entry is not finite, or the matrix does not fit in memory.
    pub fn from_rows(rows: &[Vec<f64>]) -> Result<Self> {
        let columns = rows.first().map_or(0, Vec::len);
        let mut out = Self::diagonal(rows.len(), columns, 0.0)?;
        for (i, from) in rows.iter().enumerate() {
            let sound = from.len() == columns && from.iter().all(|v| v.is_finite());
            if !sound {
                return Err(Error::input(format!(
                    "row {i} of a full matrix: expected {columns} finite numbers"
                )));
            }
            for (entry, &v) in out.row_mut(i).iter_mut().zip(from) {
                *entry = R::from_f64(v);
            }
        }
        Ok(out)
    }

    /// From the parts of a model file: entries row by row.
    pub(crate) fn from_parts(columns: usize, data: Vec<R>, diagonal: f64) -> Self {
        Full {
            columns,
            rows: data.len().checked_div(columns).unwrap_or(0),
            stride: columns,
            data,
            diagonal,
            groups: None,
        }
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// The diagonal where nothing was learned.
    pub(crate) fn unlearned(&self) -> f64 {
        self.diagonal
    }

    /// Groups rows. Norms of all rows count then, so features to come are zero,
    /// which leaves scores as they are.
    pub(crate) fn set_groups(&mut self, groups: Groups) {
        self.diagonal = 0.0;
        self.groups = Some(groups);
    }

    /// What row i as it is stored weighs in W.
    pub(crate) fn weight(&self, i: usize) -> f64 {
        self.groups.as_ref().map_or(1.0, |groups| groups.weight(i))
    }

    /// Row i as it is stored: that of W, except where rows are grouped.
    pub fn row(&self, i: usize) -> &[R] {
        &self.data[i * self.stride..][..self.columns]
    }

    pub(crate) fn row_mut(&mut self, i: usize) -> &mut [R] {
        &mut self.data[i * self.stride..][..self.columns]
    }

    /// Grows to at least this many rows and columns. New entries are what they
    /// would have been at the start.
    pub fn grow(&mut self, rows: usize, columns: usize) -> Result<()> {
        let (rows, columns) = (rows.max(self.rows), columns.max(self.columns));
        if (rows, columns) == self.shape() {
            return Ok(());
        }
        let stride = if columns <= self.stride {
            self.stride
        } else if self.stride == 0 {
            columns
        } else {
            // Room for more, so that features coming one by one cost little each.
            columns + columns / 4
        };
        let count = rows as u128 * stride as u128;
        let what = format!("a full matrix of {rows} × {columns}");
        let no_memory = || Error::failure(format!("no memory for {what}"));
        memory::require(count * size_of::<R>() as u128, &what)?;
        let count = usize::try_from(count).map_err(|_| no_memory())?;
        if stride == self.stride {
            let more = count.saturating_sub(self.data.len());
            memory::fallibly(|| self.data.try_reserve(more)).map_err(|_| no_memory())?;
            self.data.resize(count, R::default());
        } else {
            let mut data = Vec::new();
            memory::fallibly(|| data.try_reserve_exact(count)).map_err(|_| no_memory())?;
            data.resize(count, R::default());
            for i in 0..self.rows {
                data[i * stride..][..self.columns].copy_from_slice(self.row(i));
            }
            self.data = data;
        }
        self.stride = stride;
        let known = self.rows.min(self.columns);
        (self.rows, self.columns) = (rows, columns);
        if let Some(groups) = &mut self.groups {
            groups.grow(rows);
        }
        for i in known..rows.min(columns) {
            self.row_mut(i)[i] = R::from_f64(self.diagonal);
        }
        Ok(())
    }

    /// Takes growth back: the entries beyond are those of features that are not
    /// there.
    pub(crate) fn cut(&mut self, rows: usize, columns: usize) {
        (self.rows, self.columns) = (rows.min(self.rows), columns.min(self.columns));
    }

    /// leftᵀ W right, at the cost of its non-zeros on both sides. Here and below
    /// unseen features weigh nothing.
    pub fn score(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        let right = right.below(self.columns);
        let of_row = |(i, v): (u32, R)| {
            let row = self.row(i as usize);
            let entries = right
                .iter()
                .map(|(j, w)| row[j as usize].to_f64() * w.to_f64());
            v.to_f64() * self.weight(i as usize) * entries.sum::<f64>()
        };
        left.below(self.rows).iter().map(of_row).sum()
    }

    /// `out = Wᵀ x`.
    pub(crate) fn project(&self, out: &mut [f64], x: SparseRow<'_, R>) {
        out.fill(0.0);
        for (i, v) in x.below(self.rows).iter() {
            let weight = v.to_f64() * self.weight(i as usize);
            sum_scaled(out, self.row(i as usize), weight);
        }
    }

    /// `W += c · left rightᵀ`.
    pub(crate) fn add_outer(&mut self, left: SparseRow<'_, R>, right: SparseRow<'_, R>, c: f64) {
        for (i, v) in left.iter() {
            let c = R::from_f64(c * v.to_f64());
            let row = self.row_mut(i as usize);
            for (j, w) in right.iter() {
                row[j as usize] = row[j as usize].mul_plus(c, w);
            }
        }
    }

    /// `W += c · x xᵀ` with dense x.
    pub(crate) fn add_square(&mut self, x: &[R], c: f64) {
        for i in 0..self.rows {
            let c = R::from_f64(c * x[i].to_f64());
            add_scaled(self.row_mut(i), x, c);
        }
    }

    /// `W += a bᵀ + b aᵀ` with dense vectors, for a symmetric W, which stays so to the
    /// last bit.
    pub(crate) fn add_symmetric(&mut self, a: &[f64], b: &[f64]) {
        for i in 0..self.rows {
            let (x, y) = (a[i], b[i]);
            for ((w, a), b) in self.row_mut(i).iter_mut().zip(a).zip(b) {
                *w = R::from_f64(w.to_f64() + (x * b + y * a));
            }
        }
    }

    /// W as a matrix of `f64`.
    pub(crate) fn to_faer(&self) -> Mat<f64> {
        Mat::from_fn(self.rows, self.columns, |i, j| {
            self.weight(i) * self.row(i)[j].to_f64()
        })
    }

    /// Becomes a symmetric matrix of its shape, which it is read from by its lower half.
    pub(crate) fn assign(&mut self, w: &Mat<f64>) {
        for i in 0..self.rows {
            for (j, entry) in self.row_mut(i).iter_mut().enumerate() {
                *entry = R::from_f64(w[(i.max(j), i.min(j))]);
            }
        }
    }

    /// `W += A B` for vectors of its height in A, of its width in B, one after the
    /// other.
    pub(crate) fn add_product(&mut self, a: &[R], b: &[R]) {
        let (rows, columns) = self.shape();
        R::add_product(&mut self.data, self.stride, (rows, columns), a, b);
    }

    /// `W −= Aᵀ A` for a symmetric W and vectors of its height in A.
    pub(crate) fn subtract_gram(&mut self, a: &[R]) {
        R::subtract_gram(&mut self.data, self.stride, self.rows, a);
        // Half of the products are enough; the other half is a mirror. Tile by tile,
        // because a column has a cache line for each of its entries.
        const TILE: usize = 16;
        let (n, stride) = (self.rows, self.stride);
        for top in (0..n).step_by(TILE) {
            let bottom = n.min(top + TILE);
            for left in (0..=top).step_by(TILE) {
                for j in left..bottom.min(left + TILE) {
                    for i in top.max(j + 1)..bottom {
                        self.data[j * stride + i] = self.data[i * stride + j];
                    }
                }
            }
        }
    }

    /// W as dense rows.
    pub fn to_dense(&self) -> Vec<Vec<f64>> {
        let wide = |i: usize| {
            let weight = self.weight(i);
            self.row(i).iter().map(|v| weight * v.to_f64()).collect()
        };
        (0..self.rows).map(wide).collect()
    }

    pub(crate) fn is_finite(&self) -> bool {
        (0..self.rows).all(|i| self.row(i).iter().all(|v| v.to_f64().is_finite()))
    }
}

/// Room kept for features to come does not count.
impl<R: PartialEq> PartialEq for Full<R> {
    fn eq(&self, other: &Self) -> bool {
        let row = |full: &'_ Self, i: usize| i * full.stride..i * full.stride + full.columns;
        (self.rows, self.columns, self.diagonal) == (other.rows, other.columns, other.diagonal)
            && self.groups == other.groups
            && (0..self.rows).all(|i| self.data[row(self, i)] == other.data[row(other, i)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SparseVec;

    #[test]
    fn a_matrix_grown_line_by_line_is_one_that_was_there_from_the_start() {
        let mut grown = Full::<f32>::diagonal(1, 2, 1.0).unwrap();
        let mut whole = Full::<f32>::diagonal(40, 30, 1.0).unwrap();
        let x = SparseVec::from_entries(vec![(0, 2.0)]);
        let y = SparseVec::from_entries(vec![(0, 1.0), (1, -3.0)]);
        grown.add_outer(x.as_row(), y.as_row(), 0.5);
        whole.add_outer(x.as_row(), y.as_row(), 0.5);
        for i in 2..=40 {
            grown.grow(i, i.min(30)).unwrap();
        }
        assert_eq!(grown, whole);
        assert_eq!(whole.row(29)[29], 1.0);
        let mut again = grown.clone();
        again.grow(50, 45).unwrap();
        again.cut(40, 30);
        assert_eq!(again, whole);
        again.grow(50, 45).unwrap();
        grown.grow(50, 45).unwrap();
        assert_eq!(again, grown);
        grown.cut(40, 30);
        assert!(grown.grow(1 << 40, 1 << 40).is_err());
        assert_eq!(grown.shape(), (40, 30));
    }

    #[test]
    fn products_are_plain_sums() {
        for (n, m, b) in [(1, 1, 1), (3, 5, 2), (17, 9, 64), (40, 40, 70)] {
            let numbers = |count: usize, seed: usize| -> Vec<f64> {
                (0..count)
                    .map(|i| (((i + 1) * seed) as f64).sin())
                    .collect()
            };
            let (a, c) = (numbers(b * n, 3), numbers(b * m, 7));
            let mut w = Full::<f64>::diagonal(1, 1, 1.0).unwrap();
            w.grow(n, m).unwrap();
            w.add_product(&a, &c);
            let mut s = Full::<f64>::diagonal(n, n, 1.0).unwrap();
            s.subtract_gram(&a);
            for i in 0..n {
                for j in 0..m {
                    let sum: f64 = (0..b).map(|t| a[t * n + i] * c[t * m + j]).sum();
                    let want = f64::from(u8::from(i == j)) + sum;
                    assert!((w.row(i)[j] - want).abs() < 1e-12, "W {n} {m} {b}: {i} {j}");
                }
                for j in 0..n {
                    let sum: f64 = (0..b).map(|t| a[t * n + i] * a[t * n + j]).sum();
                    let want = f64::from(u8::from(i == j)) - sum;
                    assert!((s.row(i)[j] - want).abs() < 1e-12, "S {n} {b}: {i} {j}");
                }
            }
        }
    }

    #[test]
    fn scores_and_projections_are_plain_sums_and_unseen_features_weigh_nothing() {
        let mut w = Full::<f64>::diagonal(3, 2, 1.0).unwrap();
        let x = SparseVec::from_entries(vec![(1, 2.0), (2, 1.0), (9, 5.0)]);
        let y = SparseVec::from_entries(vec![(0, 1.0), (1, 3.0), (7, 1.0)]);
        let known = SparseVec::from_entries(vec![(2, 4.0)]);
        let first = SparseVec::from_entries(vec![(0, 0.25)]);
        w.add_outer(known.as_row(), first.as_row(), 1.0);
        // W = [[1,0],[0,1],[1,0]].
        assert_eq!(w.score(x.as_row(), y.as_row()), 2.0 * 3.0 + 1.0);
        let mut out = [0.0; 2];
        w.project(&mut out, x.as_row());
        assert_eq!(out, [1.0, 2.0]);
    }
}
