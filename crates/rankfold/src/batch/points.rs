//! Points that distances are learned between: rows of a matrix X that passes
//! multiply from both sides.

use super::rowwise::Rowwise;
use crate::kernel::gather;
use crate::parallel::{map_blocks, map_rows};
use crate::{Error, Real, Result, Rows, SparseVec, memory};
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatRef, Par};

/// Share of entries that are not zero above which X is stored with all of them.
const DENSE: f64 = 0.25;

/// Rows in a block of a dense product: a few hundred kilobytes of Isolet.
const BLOCK: usize = 512;

/// Most partial sums of Xᵀ V, which have the size of V's product each.
const PARTS: usize = 16;

/// The rows of X, as passes need them.
#[derive(Debug, Clone)]
pub struct Points(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// All entries.
    Dense(Mat<f64>),
    /// By rows, and by columns.
    Sparse(Rows<f64>, Rows<f64>),
    /// X = I: a point is its own feature.
    Unit(usize),
}

impl Points {
    /// Points that are features themselves, so that W is a kernel matrix.
    pub fn unit(count: usize) -> Self {
        Points(Kind::Unit(count))
    }

    /// Points that are given by all their entries.
    pub fn dense(x: Mat<f64>) -> Self {
        Points(Kind::Dense(x))
    }

    /// These rows, with all entries or without the zeros, whichever is faster.
    pub fn new<R: Real>(rows: &Rows<R>) -> Result<Self> {
        let (n, d) = (rows.len(), rows.columns());
        let places = n as u128 * d as u128;
        if rows.nnz() as f64 > DENSE * places as f64 {
            memory::require(8 * places, "rows with all their entries")?;
            let mut x = Mat::zeros(n, d);
            for (i, row) in rows.iter().enumerate() {
                row.iter()
                    .for_each(|(j, v)| x[(i, j as usize)] = v.to_f64());
            }
            return Ok(Points(Kind::Dense(x)));
        }
        memory::require(24 * rows.nnz() as u128, "rows and their transpose")?;
        let mut wide = SparseVec::new();
        let mut by_rows = Rows::new();
        for row in rows.iter() {
            wide.clear();
            row.iter().for_each(|(j, v)| wide.push(j, v.to_f64()));
            by_rows.push(wide.as_row());
        }
        by_rows.widen(d);
        let by_columns = transposed(&by_rows)?;
        Ok(Points(Kind::Sparse(by_rows, by_columns)))
    }

    /// Some of the points; not of those that are features themselves.
    pub fn select(&self, rows: &[u32]) -> Result<Self> {
        let kind = match &self.0 {
            Kind::Dense(x) => {
                memory::require(
                    8 * rows.len() as u128 * x.ncols() as u128,
                    "some of the rows",
                )?;
                let row = |i: usize, j: usize| x[(rows[i] as usize, j)];
                Kind::Dense(Mat::from_fn(rows.len(), x.ncols(), row))
            }
            Kind::Sparse(all, _) => {
                let mut some = all.select(rows.iter().map(|&i| i as usize));
                some.widen(all.columns());
                let columns = transposed(&some)?;
                Kind::Sparse(some, columns)
            }
            Kind::Unit(_) => {
                return Err(Error::input("points that are features cannot be held out"));
            }
        };
        Ok(Points(kind))
    }

    /// How many points.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Dense(x) => x.nrows(),
            Kind::Sparse(rows, _) => rows.len(),
            Kind::Unit(count) => *count,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Features of a point: rows of W.
    pub fn features(&self) -> usize {
        match &self.0 {
            Kind::Dense(x) => x.ncols(),
            Kind::Sparse(rows, _) => rows.columns(),
            Kind::Unit(count) => *count,
        }
    }

    /// X Y.
    pub fn product(&self, y: &Mat<f64>, threads: usize) -> Mat<f64> {
        self.times(y, threads).to_mat(y.ncols())
    }

    /// X Y, one row after the other without padding.
    pub fn embedded(&self, y: &Mat<f64>, threads: usize) -> Vec<f64> {
        let (z, k) = (self.times(y, threads), y.ncols());
        let rows = z.data.chunks_exact(z.width);
        rows.flat_map(|row| row[..k].iter().copied()).collect()
    }

    /// How much each feature varies.
    pub fn variances(&self) -> Vec<f64> {
        let n = self.len().max(1) as f64;
        let from = |sum: f64, squares: f64| (squares / n - (sum / n).powi(2)).max(0.0);
        match &self.0 {
            Kind::Unit(count) => vec![from(1.0, 1.0); *count],
            Kind::Dense(x) => {
                let columns = x.col_iter();
                columns
                    .map(|c| from(c.iter().sum(), c.iter().map(|v| v * v).sum()))
                    .collect()
            }
            Kind::Sparse(_, columns) => {
                let column = |c: crate::SparseRow<'_, f64>| {
                    from(c.values.iter().sum(), c.values.iter().map(|v| v * v).sum())
                };
                columns.iter().map(column).collect()
            }
        }
    }

    /// The mean of each feature.
    pub(crate) fn means(&self) -> Vec<f64> {
        let n = self.len().max(1) as f64;
        match &self.0 {
            Kind::Unit(count) => vec![1.0 / n; *count],
            Kind::Dense(x) => x.col_iter().map(|c| c.iter().sum::<f64>() / n).collect(),
            Kind::Sparse(_, columns) => {
                let columns = columns.iter();
                columns.map(|c| c.values.iter().sum::<f64>() / n).collect()
            }
        }
    }

    /// Subtracts this from every point, where all entries are stored; else says false,
    /// and leaves the zeros as they are.
    pub(crate) fn subtract(&mut self, mean: &[f64]) -> bool {
        let Kind::Dense(x) = &mut self.0 else {
            return false;
        };
        for (column, mean) in x.col_iter_mut().zip(mean) {
            column.iter_mut().for_each(|v| *v -= mean);
        }
        true
    }

    /// Xᵀ X, its lower half at least.
    pub(crate) fn gram(&self, threads: usize) -> Mat<f64> {
        match &self.0 {
            Kind::Unit(count) => Mat::identity(*count, *count),
            Kind::Sparse(rows, columns) => products(columns, rows, threads),
            Kind::Dense(x) => {
                let block = BLOCK.max(x.nrows().div_ceil(PARTS));
                let parts = map_blocks(x.nrows(), block, threads, |range| {
                    let block = x.subrows(range.start, range.len());
                    lower_products(block.transpose(), block)
                });
                let zero = Mat::zeros(x.ncols(), x.ncols());
                parts.into_iter().fold(zero, |sum, part| sum + part)
            }
        }
    }

    /// (X − 1 mᵀ)ᵀ (X − 1 mᵀ), where all entries are stored.
    pub(crate) fn centered_gram(&self, mean: &[f64], threads: usize) -> Option<Mat<f64>> {
        let Kind::Dense(x) = &self.0 else {
            return None;
        };
        let d = x.ncols();
        let block = BLOCK.max(x.nrows().div_ceil(PARTS));
        let parts = map_blocks(x.nrows(), block, threads, |range| {
            let first = range.start;
            let block = Mat::from_fn(range.len(), d, |i, j| x[(first + i, j)] - mean[j]);
            lower_products(block.transpose(), block.as_ref())
        });
        let zero = Mat::zeros(d, d);
        let sum = parts.into_iter().fold(zero, |sum, part| sum + part);
        Some(Mat::from_fn(d, d, |i, j| sum[(i.max(j), i.min(j))]))
    }

    /// X Xᵀ, its lower half at least.
    pub(crate) fn outer(&self, threads: usize) -> Mat<f64> {
        match &self.0 {
            Kind::Unit(count) => Mat::identity(*count, *count),
            Kind::Sparse(rows, columns) => products(rows, columns, threads),
            Kind::Dense(x) => lower_products(x.as_ref(), x.transpose()),
        }
    }

    /// The sum of the points of each label: a column a label.
    pub(crate) fn sums<'a>(&self, labels: &impl Fn(usize) -> &'a [u32], count: usize) -> Mat<f64> {
        let mut out = Mat::zeros(self.features(), count);
        for i in 0..self.len() {
            for &y in labels(i) {
                let mut column = out.col_mut(y as usize);
                match &self.0 {
                    Kind::Unit(_) => column[i] += 1.0,
                    Kind::Sparse(rows, _) => {
                        let row = rows.row(i).iter();
                        row.for_each(|(j, v)| column[j as usize] += v);
                    }
                    Kind::Dense(x) => {
                        let row = column.iter_mut().zip(x.row(i).iter());
                        row.for_each(|(o, v)| *o += v);
                    }
                }
            }
        }
        out
    }

    /// The squared length of each feature over all points.
    pub fn squares(&self) -> Vec<f64> {
        let square = |v: &f64| v * v;
        match &self.0 {
            Kind::Unit(count) => vec![1.0; *count],
            Kind::Dense(x) => x.col_iter().map(|c| c.iter().map(square).sum()).collect(),
            Kind::Sparse(_, columns) => {
                let columns = columns.iter();
                columns.map(|c| c.values.iter().map(square).sum()).collect()
            }
        }
    }

    /// X Y, row by row.
    pub(crate) fn times(&self, y: &Mat<f64>, threads: usize) -> Rowwise {
        let k = y.ncols();
        match &self.0 {
            Kind::Unit(_) => Rowwise::from_mat(y),
            Kind::Sparse(rows, _) => gathered(rows, &Rowwise::from_mat(y), k, threads),
            Kind::Dense(x) => {
                let mut out = Rowwise::zero(x.nrows(), k);
                let width = out.width;
                map_rows(&mut out.data, width, BLOCK, threads, |first, rows| {
                    let count = rows.len() / width;
                    let mut product = Mat::zeros(count, k);
                    let block = x.subrows(first, count);
                    matmul(&mut product, Accum::Replace, block, y, 1.0, Par::Seq);
                    for j in 0..k {
                        let column = product.col(j);
                        column
                            .iter()
                            .enumerate()
                            .for_each(|(i, &v)| rows[i * width + j] = v);
                    }
                });
                out
            }
        }
    }

    /// Xᵀ V.
    pub(crate) fn back(&self, v: &Rowwise, k: usize, threads: usize) -> Mat<f64> {
        match &self.0 {
            Kind::Unit(_) => v.to_mat(k),
            Kind::Sparse(_, columns) => gathered(columns, v, k, threads).to_mat(k),
            Kind::Dense(x) => {
                let block = BLOCK.max(x.nrows().div_ceil(PARTS));
                let parts = map_blocks(x.nrows(), block, threads, |range| {
                    let rows = Mat::from_fn(range.len(), k, |i, j| v.row(range.start + i)[j]);
                    let mut product = Mat::zeros(x.ncols(), k);
                    let block = x.subrows(range.start, range.len());
                    let block = block.transpose();
                    matmul(&mut product, Accum::Replace, block, &rows, 1.0, Par::Seq);
                    product
                });
                let zero = Mat::zeros(x.ncols(), k);
                parts.into_iter().fold(zero, |sum, part| sum + part)
            }
        }
    }
}

/// Each sparse row times the rows of a tall matrix.
fn gathered(rows: &Rows<f64>, from: &Rowwise, k: usize, threads: usize) -> Rowwise {
    let mut out = Rowwise::zero(rows.len(), k);
    let width = out.width;
    map_rows(&mut out.data, width, 256, threads, |first, block| {
        for (i, out) in block.chunks_exact_mut(width).enumerate() {
            gather(out, &from.data, width, rows.row(first + i));
        }
    });
    out
}

/// The products of all sparse rows of a matrix with each other, by way of its columns.
fn products(rows: &Rows<f64>, columns: &Rows<f64>, threads: usize) -> Mat<f64> {
    let n = rows.len();
    let mut out = vec![0.0; n * n];
    map_rows(&mut out, n.max(1), 16, threads, |first, block| {
        for (i, out) in block.chunks_exact_mut(n).enumerate() {
            for (j, v) in rows.row(first + i).iter() {
                let column = columns.row(j as usize);
                column.iter().for_each(|(i, w)| out[i as usize] += v * w);
            }
        }
    });
    Mat::from_fn(n, n, |i, j| out[i * n + j])
}

/// The lower half of a symmetric product.
fn lower_products(left: MatRef<'_, f64>, right: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(left.nrows(), right.ncols());
    triangular::matmul(
        &mut out,
        BlockStructure::TriangularLower,
        Accum::Replace,
        left,
        BlockStructure::Rectangular,
        right,
        BlockStructure::Rectangular,
        1.0,
        Par::Seq,
    );
    out
}

/// The columns of a matrix as rows.
fn transposed(rows: &Rows<f64>) -> Result<Rows<f64>> {
    let mut lists: Vec<Vec<(u32, f64)>> = vec![Vec::new(); rows.columns()];
    let count = u32::try_from(rows.len());
    count.map_err(|_| Error::input("more than 4,294,967,295 rows"))?;
    for (i, row) in (0..).zip(rows.iter()) {
        row.iter().for_each(|(j, v)| lists[j as usize].push((i, v)));
    }
    let mut column = SparseVec::new();
    let mut out = Rows::new();
    for list in lists {
        column.clear();
        list.into_iter().for_each(|(i, v)| column.push(i, v));
        out.push(column.as_row());
    }
    out.widen(rows.len());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifold::tests::matrix;

    /// Rows of which a share is zero.
    fn rows(n: usize, d: usize, keep: usize) -> Rows<f64> {
        let m = matrix(n, d, 1);
        let mut out = Rows::new();
        for i in 0..n {
            let entries = (0..d).filter(|j| (i * 7 + j * 3) % 10 < keep);
            let entries = entries.map(|j| (j as u32, m[(i, j)])).collect();
            out.push(SparseVec::from_entries(entries).as_row());
        }
        out.widen(d);
        out
    }

    #[test]
    fn products_are_those_of_the_matrix_for_any_threads() {
        for (n, d, keep) in [(1500, 9, 10), (1500, 9, 2), (3, 40, 1), (1, 1, 10)] {
            let rows = rows(n, d, keep);
            let points = Points::new(&rows).unwrap();
            assert_eq!((points.len(), points.features()), (n, d));
            let mut x = Mat::<f64>::zeros(n, d);
            for (i, row) in rows.iter().enumerate() {
                row.iter().for_each(|(j, v)| x[(i, j as usize)] = v);
            }
            let k = 3;
            let (y, v) = (matrix(d, k, 2), matrix(n, k, 3));
            for threads in [1, 2, 3] {
                let product = points.times(&y, threads).to_mat(k);
                let back = points.back(&Rowwise::from_mat(&v), k, threads);
                assert!((&product - &x * &y).norm_max() < 1e-13);
                assert!((&back - x.transpose() * &v).norm_max() < 1e-11);
                assert_eq!(product, points.times(&y, 1).to_mat(k));
                assert_eq!(back, points.back(&Rowwise::from_mat(&v), k, 1));
                let lower = |m: Mat<f64>| {
                    Mat::from_fn(m.nrows(), m.ncols(), |i, j| match i < j {
                        true => 0.0,
                        false => m[(i, j)],
                    })
                };
                let (gram, outer) = (points.gram(threads), points.outer(threads));
                assert_eq!((&gram, &outer), (&points.gram(1), &points.outer(1)));
                let want = lower(x.transpose() * &x);
                assert!((lower(gram) - want).norm_max() < 1e-11);
                assert!((lower(outer) - lower(&x * x.transpose())).norm_max() < 1e-12);
            }
            let mean = points.means();
            let want = |j: usize| x.col(j).iter().sum::<f64>() / n as f64;
            assert!((0..d).all(|j| (mean[j] - want(j)).abs() < 1e-13));
        }
        let unit = Points::unit(5);
        assert_eq!(unit.means(), [0.2; 5]);
        assert_eq!(unit.times(&matrix(5, 2, 1), 2).to_mat(2), matrix(5, 2, 1));
    }
}
