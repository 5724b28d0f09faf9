//! A tall matrix stored row by row, for passes that gather its rows.

use crate::Real;
use crate::aligned::Aligned;
use crate::kernel::row_width;
use faer::Mat;

/// Rows padded with zeros to whole registers.
#[derive(Debug, Clone)]
pub(crate) struct Rowwise<R = f64> {
    pub width: usize,
    pub data: Aligned<R>,
}

impl<R: Real> Rowwise<R> {
    /// Zeros.
    pub fn zero(rows: usize, k: usize) -> Self {
        let width = row_width::<R>(k);
        let mut data = Aligned::new();
        assert!(data.grow(rows * width), "memory for {rows} rows");
        Rowwise { width, data }
    }

    pub fn rows(&self) -> usize {
        self.data.len() / self.width
    }

    pub fn row(&self, i: usize) -> &[R] {
        &self.data[i * self.width..][..self.width]
    }
}

impl Rowwise {
    pub fn from_mat(m: &Mat<f64>) -> Self {
        let mut out = Self::zero(m.nrows(), m.ncols());
        let width = out.width;
        for j in 0..m.ncols() {
            for (i, &v) in m.col(j).iter().enumerate() {
                out.data[i * width + j] = v;
            }
        }
        out
    }

    pub fn to_mat(&self, k: usize) -> Mat<f64> {
        let rows = self.data.len() / self.width;
        Mat::from_fn(rows, k, |i, j| self.data[i * self.width + j])
    }

    /// This times a small matrix.
    pub fn times(&self, small: &Mat<f64>) -> Self {
        let (rows, k) = (self.data.len() / self.width, small.ncols());
        let mut out = Self::zero(rows, k);
        let across = Rowwise::from_mat(small);
        let width = out.width;
        let pairs = self.data.chunks_exact(self.width);
        for (from, to) in pairs.zip(out.data.chunks_exact_mut(width)) {
            for (v, line) in from.iter().zip(across.data.chunks_exact(width)) {
                to.iter_mut().zip(line).for_each(|(t, l)| *t += v * l);
            }
        }
        out
    }
}
