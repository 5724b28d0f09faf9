//! Pairs of sparse rows with given values, at the cost of their non-zeros.

use super::problem::{Problem, Slope};
use crate::sparse::ValuedPair;
use crate::{Real, Rows};
use faer::Mat;

/// 1/(2N) Σ (leftᵀ W right − value)² over N pairs. Rows are projected once for all
/// pairs that they are in, so a pass costs (nnz + N) k.
#[derive(Debug, Clone, Copy)]
pub struct SparsePairs<'a, R> {
    /// The rows on the left, and on the right.
    pub left: &'a Rows<R>,
    /// See `left`.
    pub right: &'a Rows<R>,
    /// What they should come to.
    pub pairs: &'a [ValuedPair],
}

/// k numbers for each row.
struct Projected {
    k: usize,
    data: Vec<f64>,
}

impl Projected {
    fn zero(rows: usize, k: usize) -> Self {
        Projected {
            k,
            data: vec![0.0; rows * k],
        }
    }

    /// X M for sparse rows X.
    fn new<R: Real>(rows: &Rows<R>, m: &Mat<f64>) -> Self {
        let k = m.ncols();
        // By rows, so that a feature is k numbers beside each other.
        let wide: Vec<f64> = (0..m.nrows())
            .flat_map(|i| (0..k).map(move |j| (i, j)))
            .map(|at| m[at])
            .collect();
        let mut out = Self::zero(rows.len(), k);
        for (row, to) in rows.iter().zip(out.data.chunks_exact_mut(k)) {
            for (i, v) in row.iter() {
                let from = &wide[i as usize * k..][..k];
                let v = v.to_f64();
                to.iter_mut().zip(from).for_each(|(t, f)| *t += v * f);
            }
        }
        out
    }

    fn row(&self, i: u32) -> &[f64] {
        &self.data[i as usize * self.k..][..self.k]
    }

    fn add(&mut self, i: u32, c: f64, from: &[f64]) {
        let to = &mut self.data[i as usize * self.k..][..self.k];
        to.iter_mut().zip(from).for_each(|(t, f)| *t += c * f);
    }

    /// c Xᵀ times this.
    fn back<R: Real>(&self, rows: &Rows<R>, columns: usize, c: f64) -> Mat<f64> {
        let mut sums = Self::zero(columns, self.k);
        for (row, from) in rows.iter().zip(self.data.chunks_exact(self.k)) {
            for (i, v) in row.iter() {
                sums.add(i, c * v.to_f64(), from);
            }
        }
        Mat::from_fn(columns, self.k, |i, j| sums.data[i * self.k + j])
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl<R: Real> SparsePairs<'_, R> {
    fn scale(&self) -> f64 {
        1.0 / self.pairs.len().max(1) as f64
    }

    /// Both sides times the factors of a matrix.
    fn projected(&self, left: &Mat<f64>, right: &Mat<f64>) -> [Projected; 2] {
        [
            Projected::new(self.left, left),
            Projected::new(self.right, right),
        ]
    }

    /// 1/N Σ e² with e = score + share · value of W = P Qᵀ, and the products of
    /// 1/N Σ e · left ⊗ right with L and R.
    fn pass(
        &self,
        (p, q): (&Mat<f64>, &Mat<f64>),
        factors: Option<(&Mat<f64>, &Mat<f64>)>,
        share: f64,
    ) -> Slope {
        let [one, two] = self.projected(p, q);
        let other = factors.map(|(l, r)| self.projected(l, r));
        let [l, r] = match &other {
            Some([l, r]) => [l, r],
            None => [&one, &two],
        };
        let mut along_left = Projected::zero(self.left.len(), r.k);
        let mut along_right = Projected::zero(self.right.len(), l.k);
        let mut cost = 0.0;
        for pair in self.pairs {
            let score = dot(one.row(pair.left), two.row(pair.right));
            let e = score + share * pair.value;
            cost += e * e;
            along_left.add(pair.left, e, r.row(pair.right));
            along_right.add(pair.right, e, l.row(pair.left));
        }
        let (n, m) = self.shape();
        Slope {
            cost: self.scale() * cost,
            er: along_left.back(self.left, n, self.scale()),
            el: along_right.back(self.right, m, self.scale()),
        }
    }

    fn squares(&self, left: &Mat<f64>, right: &Mat<f64>, share: f64) -> f64 {
        let [one, two] = self.projected(left, right);
        let square = |pair: &ValuedPair| {
            let score = dot(one.row(pair.left), two.row(pair.right));
            (score + share * pair.value).powi(2)
        };
        self.scale() * self.pairs.iter().map(square).sum::<f64>()
    }
}

impl<R: Real> Problem for SparsePairs<'_, R> {
    fn shape(&self) -> (usize, usize) {
        (self.left.columns(), self.right.columns())
    }

    fn cost(&self, left: &Mat<f64>, right: &Mat<f64>) -> f64 {
        0.5 * self.squares(left, right, -1.0)
    }

    fn slope(&self, left: &Mat<f64>, right: &Mat<f64>) -> Slope {
        let found = self.pass((left, right), None, -1.0);
        Slope {
            cost: 0.5 * found.cost,
            ..found
        }
    }

    fn curvature(&self, (left, right): (&Mat<f64>, &Mat<f64>)) -> f64 {
        self.squares(left, right, 0.0)
    }

    fn hessian_product(
        &self,
        direction: (&Mat<f64>, &Mat<f64>),
        left: &Mat<f64>,
        right: &Mat<f64>,
    ) -> Slope {
        self.pass(direction, Some((left, right)), 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Examples;
    use super::*;
    use crate::SparseVec;
    use crate::manifold::tests::matrix;

    #[test]
    fn sparse_pairs_are_examples_of_two_rows() {
        let rows = |count: usize, columns: usize, seed: usize| -> Rows<f64> {
            let m = matrix(count, columns, seed);
            let row = |i: usize| {
                let entries = (0..columns).filter(|j| !(i * 7 + j * 3 + seed).is_multiple_of(4));
                SparseVec::from_entries(entries.map(|j| (j as u32, m[(i, j)])).collect())
            };
            let all: Vec<_> = (0..count).map(row).collect();
            let mut rows: Rows<f64> = all.iter().map(SparseVec::as_row).collect();
            rows.widen(columns);
            rows
        };
        let (left, right) = (rows(9, 6, 1), rows(7, 5, 2));
        let pairs: Vec<ValuedPair> = (0..30_u32)
            .map(|t| ValuedPair {
                left: (t * 5) % 9,
                right: (t * 3) % 7,
                value: f64::from(t).sin(),
            })
            .collect();
        let dense = |rows: &Rows<f64>, i: u32| {
            let mut out = Mat::zeros(rows.columns(), 1);
            rows.row(i as usize)
                .iter()
                .for_each(|(j, v)| out[(j as usize, 0)] = v);
            out
        };
        let plain = Examples {
            shape: (6, 5),
            data: pairs
                .iter()
                .map(|p| (dense(&left, p.left), dense(&right, p.right), p.value))
                .collect(),
        };
        let fast = SparsePairs {
            left: &left,
            right: &right,
            pairs: &pairs,
        };
        let (l, r) = (matrix(6, 2, 3), matrix(5, 2, 4));
        let direction = (&matrix(6, 3, 5), &matrix(5, 3, 6));
        assert_eq!(plain.shape(), fast.shape());
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()), "{a} {b}");
        near(fast.cost(&l, &r), plain.cost(&l, &r));
        near(fast.curvature(direction), plain.curvature(direction));
        for (got, want) in [
            (fast.slope(&l, &r), plain.slope(&l, &r)),
            (
                fast.hessian_product(direction, &l, &r),
                plain.hessian_product(direction, &l, &r),
            ),
        ] {
            near(got.cost, want.cost);
            assert!((got.er - want.er).norm_l2() < 1e-12);
            assert!((got.el - want.el).norm_l2() < 1e-12);
        }
    }
}
