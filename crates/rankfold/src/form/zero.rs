//! A start without prejudice: gradient steps from W = 0 until their sum has rank
//! k, then its best approximation of that rank.
//!
//! The sum Σ cᵢ leftᵢ ⊗ rightᵢ is never formed. Its SVD follows from the Gram
//! matrices of its sparse columns. Reference: [Shalit2012], section 7.

use super::{Factored, Form, Psd, Tall};
use crate::linalg::svd;
use crate::{Real, Result, SparseRow, SparseVec, memory};
use faer::Mat;

/// A sum of weighted rank-one matrices with sparse sides.
#[derive(Debug, Clone, Default)]
pub(crate) struct SparseSum<R> {
    terms: Vec<(SparseVec<R>, SparseVec<R>, f64)>,
}

impl<R: Real> SparseSum<R> {
    pub fn new() -> Self {
        SparseSum { terms: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.terms.len()
    }

    pub fn push(&mut self, left: SparseVec<R>, right: SparseVec<R>, weight: f64) {
        self.terms.push((left, right, weight));
    }

    /// leftᵀ W right.
    pub fn score(&self, left: &SparseVec<R>, right: &SparseVec<R>) -> f64 {
        let term = |(l, r, c): &(SparseVec<R>, SparseVec<R>, f64)| {
            c * l.as_row().dot(left.as_row()) * r.as_row().dot(right.as_row())
        };
        self.terms.iter().map(term).sum()
    }

    /// Adds leftᵀ W to `out`.
    pub fn add_columns(&self, left: SparseRow<'_, R>, out: &mut [f64]) {
        for (l, r, c) in &self.terms {
            let c = c * l.as_row().dot(left);
            for (j, v) in r.as_row().iter() {
                out[j as usize] += c * v.to_f64();
            }
        }
    }

    /// The best approximation of rank k, with rows for so many features; `None`
    /// while the sum has a lower rank.
    pub fn factored(&self, shape: (usize, usize), k: usize) -> Result<Option<Form<R>>> {
        let lefts: Vec<&SparseVec<R>> = self.terms.iter().map(|(l, _, _)| l).collect();
        let rights: Vec<&SparseVec<R>> = self.terms.iter().map(|(_, r, _)| r).collect();
        let (Some(left), Some(right)) = (Basis::new(&lefts), Basis::new(&rights)) else {
            return Ok(None);
        };
        let weights = Mat::from_fn(self.len(), self.len(), |i, j| match i == j {
            true => self.terms[i].2,
            false => 0.0,
        });
        let core = left.coordinates() * weights * right.coordinates().transpose();
        let Some((p, sigma, q)) = svd(&core) else {
            return Ok(None);
        };
        if sigma.len() < k || sigma[k - 1] <= 1e-7 * sigma[0] {
            return Ok(None);
        }
        let scaled = |m: &Mat<f64>| Mat::from_fn(m.nrows(), k, |i, j| m[(i, j)] * sigma[j].sqrt());
        let (a, b) = (
            left.tall(shape.0, &scaled(&p))?,
            right.tall(shape.1, &scaled(&q))?,
        );
        Ok(Some(Form::Factored(Factored::new(a, b))))
    }

    /// The best symmetric positive semi-definite approximation of rank k of the
    /// symmetric part; `None` while fewer eigenvalues are positive.
    pub fn psd(&self, rows: usize, k: usize) -> Result<Option<Form<R>>> {
        let t = self.len();
        let lefts = self.terms.iter().map(|(l, _, _)| l);
        let columns: Vec<_> = lefts.chain(self.terms.iter().map(|(_, r, _)| r)).collect();
        let Some(basis) = Basis::new(&columns) else {
            return Ok(None);
        };
        let middle = Mat::from_fn(2 * t, 2 * t, |i, j| match i.abs_diff(j) == t {
            true => 0.5 * self.terms[i.min(j)].2,
            false => 0.0,
        });
        let coordinates = basis.coordinates();
        let core = &coordinates * middle * coordinates.transpose();
        let Ok(eigen) = core.self_adjoint_eigen(faer::Side::Lower) else {
            return Ok(None);
        };
        let values = eigen.S().column_vector();
        let size = values.nrows();
        if size < k || values[size - k] <= 1e-7 * values[size - 1].abs() {
            return Ok(None);
        }
        let scaled = Mat::from_fn(size, k, |i, j| {
            let at = size - 1 - j;
            eigen.U()[(i, at)] * values[at].sqrt()
        });
        Ok(Some(Form::Psd(Psd::new(basis.tall(rows, &scaled)?))))
    }
}

/// An orthonormal basis of the span of sparse columns X, as X V Λ^-½.
struct Basis<'a, R> {
    columns: &'a [&'a SparseVec<R>],
    vectors: Mat<f64>,
    roots: Vec<f64>,
}

impl<'a, R: Real> Basis<'a, R> {
    fn new(columns: &'a [&'a SparseVec<R>]) -> Option<Self> {
        let n = columns.len();
        let gram = Mat::from_fn(n, n, |i, j| columns[i].as_row().dot(columns[j].as_row()));
        let eigen = gram.self_adjoint_eigen(faer::Side::Lower).ok()?;
        let values = eigen.S().column_vector();
        let largest = values.iter().fold(0.0_f64, |m, v| m.max(*v));
        // A column that repeats others leaves an eigenvalue of rounding errors.
        let kept: Vec<usize> = (0..n).filter(|&j| values[j] > 1e-12 * largest).collect();
        Some(Basis {
            columns,
            vectors: Mat::from_fn(n, kept.len(), |i, j| eigen.U()[(i, kept[j])]),
            roots: kept.iter().map(|&j| values[j].sqrt()).collect(),
        })
    }

    /// The columns in the basis: Λ^½ Vᵀ.
    fn coordinates(&self) -> Mat<f64> {
        let (n, kept) = (self.columns.len(), self.roots.len());
        Mat::from_fn(kept, n, |i, j| self.roots[i] * self.vectors[(j, i)])
    }

    /// The tall factor with these coordinates in the basis.
    fn tall(&self, rows: usize, coordinates: &Mat<f64>) -> Result<Tall<R>> {
        let unscaled = Mat::from_fn(self.columns.len(), self.roots.len(), |i, j| {
            self.vectors[(i, j)] / self.roots[j]
        });
        let weights = unscaled * coordinates;
        let k = weights.ncols();
        let bytes = rows as u128 * k as u128 * (8 + size_of::<R>() as u128);
        memory::require(
            bytes,
            &format!("a start from zero of {rows} rows and rank {k}"),
        )?;
        let mut dense = vec![0.0; rows * k];
        for (i, column) in self.columns.iter().enumerate() {
            for (feature, value) in column.as_row().iter() {
                let row = &mut dense[feature as usize * k..][..k];
                for (j, entry) in row.iter_mut().enumerate() {
                    *entry += value.to_f64() * weights[(i, j)];
                }
            }
        }
        Tall::from_fn(rows, k, |i, j| dense[i * k + j])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(terms: usize, n: usize, m: usize) -> (SparseSum<f64>, Mat<f64>) {
        let mut sum = SparseSum::new();
        let mut dense = Mat::zeros(n, m);
        for t in 0..terms {
            let vector = |n: usize, seed: usize| {
                let entry = |i: usize| (i as u32, (((i + 1) * (t + seed)) as f64).sin());
                let chosen = (0..n).filter(|i| !(i + t + seed).is_multiple_of(3));
                SparseVec::from_entries(chosen.map(entry).collect())
            };
            let (left, right) = (vector(n, 2), vector(m, 5));
            let weight = 0.5 + t as f64;
            for (i, x) in left.as_row().iter() {
                for (j, y) in right.as_row().iter() {
                    dense[(i as usize, j as usize)] += weight * x * y;
                }
            }
            sum.push(left, right, weight);
        }
        (sum, dense)
    }

    #[test]
    fn the_start_is_the_truncated_svd_of_the_sum() {
        let (sum, dense) = sum(7, 12, 9);
        for k in [1, 3, 7] {
            let Some(Form::Factored(form)) = sum.factored((12, 9), k).unwrap() else {
                panic!("rank 7 holds rank {k}");
            };
            let (p, sigma, q) = svd(&dense).unwrap();
            let got = form.to_dense();
            for i in 0..12 {
                for j in 0..9 {
                    let want: f64 = (0..k).map(|t| p[(i, t)] * sigma[t] * q[(j, t)]).sum();
                    assert!((got[i][j] - want).abs() < 1e-9 * sigma[0]);
                }
            }
        }
        assert!(sum.factored((12, 9), 8).unwrap().is_none());
    }

    #[test]
    fn the_symmetric_start_keeps_the_largest_eigenvalues() {
        let (sum, dense) = sum(5, 10, 10);
        let symmetric = faer::Scale(0.5) * (&dense + dense.transpose());
        let eigen = symmetric.self_adjoint_eigen(faer::Side::Lower).unwrap();
        let values = eigen.S().column_vector();
        let Some(Form::Psd(form)) = sum.psd(10, 3).unwrap() else {
            panic!("five terms have three positive eigenvalues");
        };
        let got = form.to_dense();
        for i in 0..10 {
            for j in 0..10 {
                let term = |t: usize| values[t] * eigen.U()[(i, t)] * eigen.U()[(j, t)];
                let want: f64 = (7..10).map(term).sum();
                assert!((got[i][j] - want).abs() < 1e-9 * values[9]);
            }
        }
    }
}
