//! What users chose, as a sparse matrix X of users by items, and products with it.

use super::rowwise::Rowwise;
use crate::kernel::gather;
use crate::parallel::map_rows;
use crate::{Real, Rows, SparseRow};
use faer::Mat;

/// Rows of a block of work.
const BLOCK: usize = 256;

/// X by users and by items, with a weight for each user.
#[derive(Debug, Clone)]
pub struct Chosen {
    by_user: Rows<f32>,
    by_item: Rows<f32>,
    weight: Vec<f64>,
}

impl Chosen {
    /// Users who chose n items weigh n to this power, less than 0 where those who chose
    /// much shall not decide alone. The weights leave the sum of all choices as it is.
    pub fn new(by_user: Rows<f32>, power: f64) -> Self {
        let count = |row: SparseRow<'_, f32>| row.len().max(1) as f64;
        let mut weight: Vec<f64> = by_user.iter().map(|row| count(row).powf(power)).collect();
        let weighed = by_user.iter().zip(&weight);
        let sum: f64 = weighed.map(|(row, weight)| row.len() as f64 * weight).sum();
        let scale = by_user.nnz() as f64 / sum;
        if scale.is_finite() && scale > 0.0 {
            weight.iter_mut().for_each(|weight| *weight *= scale);
        }
        Chosen {
            by_item: by_user.transposed(),
            by_user,
            weight,
        }
    }

    /// What each user chose.
    pub fn by_user(&self) -> &Rows<f32> {
        &self.by_user
    }

    /// Who chose each item.
    pub fn by_item(&self) -> &Rows<f32> {
        &self.by_item
    }

    /// How many items there are.
    pub fn items(&self) -> usize {
        self.by_item.len()
    }

    /// The diagonal of XᵀDX, where D has the weights of users.
    pub fn squares(&self) -> Vec<f64> {
        let square = |row: SparseRow<'_, f32>| {
            let entry = |(user, x): (u32, f32)| self.weight[user as usize] * f64::from(x).powi(2);
            row.iter().map(entry).sum()
        };
        self.by_item.iter().map(square).collect()
    }

    /// The weights of users.
    pub fn weights(&self) -> &[f64] {
        &self.weight
    }

    /// XᵀDX itself, row by row. Costs the sum of the squares of all histories.
    pub(crate) fn dense_gram(&self, threads: usize) -> Vec<f64> {
        let items = self.items();
        let mut out = vec![0.0; items * items];
        map_rows(&mut out, items.max(1), 16, threads, |first, block| {
            for (item, sums) in (first..).zip(block.chunks_exact_mut(items)) {
                for (user, own) in self.by_item.row(item).iter() {
                    let own = self.weight[user as usize] * f64::from(own);
                    for (other, x) in self.by_user.row(user as usize).iter() {
                        sums[other as usize] += own * f64::from(x);
                    }
                }
            }
        });
        out
    }

    /// XᵀDX M, without XᵀDX.
    pub fn gram(&self, m: &Mat<f64>, threads: usize) -> Mat<f64> {
        let users = times(
            &self.by_user,
            &single(m),
            m.ncols(),
            Some(&self.weight),
            threads,
        );
        let items = times(&self.by_item, &users, m.ncols(), None, threads);
        double(&items, m.ncols())
    }
}

/// The matrix row by row in single precision.
pub(crate) fn single(m: &Mat<f64>) -> Rowwise<f32> {
    let mut out = Rowwise::zero(m.nrows(), m.ncols());
    let width = out.width;
    for j in 0..m.ncols() {
        for (i, &v) in m.col(j).iter().enumerate() {
            out.data[i * width + j] = v as f32;
        }
    }
    out
}

/// The first `k` columns in double precision.
pub(crate) fn double(m: &Rowwise<f32>, k: usize) -> Mat<f64> {
    Mat::from_fn(m.rows(), k, |i, j| f64::from(m.data[i * m.width + j]))
}

/// Sparse rows times a tall matrix of `k` columns; row i is scaled by `scale[i]`.
pub(crate) fn times(
    rows: &Rows<f32>,
    m: &Rowwise<f32>,
    k: usize,
    scale: Option<&[f64]>,
    threads: usize,
) -> Rowwise<f32> {
    let mut out: Rowwise<f32> = Rowwise::zero(rows.len(), k);
    let width = out.width;
    map_rows(&mut out.data, width, BLOCK, threads, |first, block| {
        let mut sum = vec![0.0; width];
        for (i, to) in (first..).zip(block.chunks_exact_mut(width)) {
            gather(&mut sum, &m.data, width, rows.row(i));
            let scale = scale.map_or(1.0, |scale| scale[i]);
            for (to, sum) in to.iter_mut().zip(&sum) {
                *to = f32::from_f64(scale * sum);
            }
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_that_of_dense_matrices() {
        let dense: Vec<[f32; 4]> = vec![
            [1.0, 0.0, 2.0, 0.0],
            [0.0; 4],
            [0.0, 1.0, 1.0, 0.0],
            [3.0, 0.0, 0.0, 0.0],
        ];
        let rows = Rows::from_dense(&dense).unwrap();
        for power in [0.0, -0.5, -1.0] {
            let chosen = Chosen::new(rows.clone(), power);
            let weight = &chosen.weight;
            let kept: f64 = weight
                .iter()
                .zip([2.0, 0.0, 2.0, 1.0])
                .map(|(w, n)| w * n)
                .sum();
            assert!((kept - 5.0).abs() < 1e-12);
            let m = Mat::from_fn(4, 3, |i, j| (i as f64 - 1.0) * (j as f64 + 0.5));
            let gram = Mat::from_fn(4, 4, |i, j| -> f64 {
                let entry = |u: usize| weight[u] * f64::from(dense[u][i] * dense[u][j]);
                (0..4).map(entry).sum()
            });
            let wanted = &gram * &m;
            for threads in [1, 3] {
                let found = chosen.gram(&m, threads);
                assert!((&found - &wanted).norm_max() < 1e-5 * wanted.norm_max());
                let dense = chosen.dense_gram(threads);
                let same = |i: usize, j: usize| (dense[4 * i + j] - gram[(i, j)]).abs() < 1e-12;
                assert!((0..4).all(|i| (0..4).all(|j| same(i, j))));
            }
            let diagonal: Vec<f64> = (0..4).map(|i| gram[(i, i)]).collect();
            let squares = chosen.squares();
            assert!(
                squares
                    .iter()
                    .zip(&diagonal)
                    .all(|(a, b)| (a - b).abs() < 1e-6)
            );
        }
    }
}
