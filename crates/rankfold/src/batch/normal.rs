//! Normal equations of one line: small least squares, many times.

use super::pass::by_width;
use crate::kernel::{prefetch, vectorized};
use crate::linalg::symmetric;
use faer::Mat;

/// A and b of A x = b, upper triangle of A by rows, `width` apart.
#[derive(Debug, Clone)]
pub(crate) struct Normal {
    pub width: usize,
    pub a: Vec<f64>,
    pub b: Vec<f64>,
}

impl Normal {
    pub fn new(width: usize) -> Self {
        Normal {
            width,
            a: vec![0.0; width * width],
            b: vec![0.0; width],
        }
    }

    /// A = Σ x xᵀ and b = Σ t x over the rows x of `other` that the line has, where
    /// t is the value less `center` and less column `offset` of the row. Only the
    /// first `size` rows of A are made.
    pub fn gather(
        &mut self,
        (index, value): (&[u32], &[f64]),
        other: &[f64],
        size: usize,
        center: f64,
        offset: Option<usize>,
    ) {
        let (width, line) = (self.width, (index, value));
        self.a[..size * width].fill(0.0);
        self.b.fill(0.0);
        by_width!(width, gather(self, line, other, size, center, offset));
    }

    /// A = RᵀR in place for the leading `size` rows and columns; false where A is
    /// not positive definite.
    pub fn factor(&mut self, size: usize) -> bool {
        let mut sound = true;
        factor(&mut sound, &mut self.a, self.width, size);
        sound
    }

    /// A⁻¹ from the factor R, full, row by row without padding.
    pub fn inverse(&self, size: usize) -> Vec<f64> {
        let (mut lower, mut out) = (vec![0.0; size * size], vec![0.0; size * size]);
        invert(&mut out, &mut lower, &self.a, self.width, size);
        out
    }

    /// b ← A⁻¹ b with the factor R.
    pub fn solve(&mut self, size: usize) {
        solve(&mut self.b, &self.a, self.width, size);
    }

    /// Factors and solves in place. Where A is singular to working precision, or
    /// known to be, it is factored with a little more on its diagonal and b gets
    /// the smallest solution.
    pub fn solve_least(&mut self, size: usize, singular: bool) {
        let (width, k) = (self.width, size);
        let a = Mat::from_fn(k, k, |i, j| self.a[i.min(j) * width + i.max(j)]);
        let largest = (0..k).map(|i| a[(i, i)]).fold(0.0, f64::max);
        let pivots_hold = |normal: &Normal| {
            let pivot = |i: usize| normal.a[i * width + i];
            (0..k).all(|i| pivot(i) * pivot(i) > 1e-14 * largest)
        };
        if !singular && self.factor(k) && pivots_hold(self) {
            self.solve(k);
            return;
        }
        let b = Mat::from_fn(k, 1, |i, _| self.b[i]);
        let inverse = symmetric::map(&a, |value| match value > 1e-13 * largest {
            true => 1.0 / value,
            false => 0.0,
        });
        let solution = inverse.map(|inverse| inverse * b);
        for i in 0..k {
            for j in i..k {
                self.a[i * width + j] = a[(i, j)];
            }
            self.a[i * width + i] += 1e-12 * largest.max(f64::MIN_POSITIVE);
            self.b[i] = solution.as_ref().map_or(0.0, |x| x[(i, 0)]);
        }
        if !self.factor(k) {
            for i in 0..k {
                self.a[i * width..(i + 1) * width].fill(0.0);
                self.a[i * width + i] = 1.0;
            }
        }
    }
}

vectorized! {
    fn gather<; W>(normal: &mut Normal, line: (&[u32], &[f64]), other: &[f64], size: usize, center: f64, offset: Option<usize>) {
        let w = if W == 0 { normal.width } else { W };
        let (index, value) = line;
        let target = |y: f64, x: &[f64]| y - center - offset.map_or(0.0, |at| x[at]);
        if w < 4 {
            for (&j, &y) in index.iter().zip(value) {
                let x = &other[j as usize * w..][..w];
                let t = target(y, x);
                for i in 0..size {
                    normal.b[i] += t * x[i];
                    for j in i..w {
                        normal.a[i * w + j] += x[i] * x[j];
                    }
                }
            }
            return;
        }
        // By registers of four, and four entries at a time, so that A is read and
        // written a quarter as often.
        let blocks = w / 4;
        let (a, _) = normal.a.as_chunks_mut::<4>();
        let (b, _) = normal.b.as_chunks_mut::<4>();
        let (rows, _) = other.as_chunks::<4>();
        let row = |j: u32| &rows[j as usize * blocks..][..blocks];
        let entry = |x: &[[f64; 4]], i: usize| x[i / 4][i % 4];
        let (fours, rest) = index.as_chunks::<4>();
        let (values, rest_values) = value.as_chunks::<4>();
        for (at, (js, ys)) in fours.iter().zip(values).enumerate() {
            if let Some(later) = fours.get(at + 2) {
                for &j in later {
                    prefetch(other, j as usize * w, w);
                }
            }
            let x = js.map(row);
            let t: [f64; 4] = std::array::from_fn(|r| target(ys[r], x[r].as_flattened()));
            add_four(&mut b[..blocks], t, x, 0, blocks);
            for i in 0..size {
                let c = [entry(x[0], i), entry(x[1], i), entry(x[2], i), entry(x[3], i)];
                add_four(&mut a[i * blocks..][..blocks], c, x, i / 4, blocks);
            }
        }
        for (&j, &y) in rest.iter().zip(rest_values) {
            let x = row(j);
            let t = target(y, x.as_flattened());
            for (b, x) in b.iter_mut().zip(x) {
                for l in 0..4 {
                    b[l] += t * x[l];
                }
            }
            for i in 0..size {
                let c = entry(x, i);
                let a = &mut a[i * blocks..][..blocks];
                for block in i / 4..blocks {
                    for l in 0..4 {
                        a[block][l] += c * x[block][l];
                    }
                }
            }
        }
    }
}

/// Adds four rows with a factor each, from a block on.
#[inline(always)]
fn add_four(to: &mut [[f64; 4]], c: [f64; 4], x: [&[[f64; 4]]; 4], from: usize, blocks: usize) {
    let to = &mut to[..blocks];
    let x = x.map(|x| &x[..blocks]);
    for block in from..blocks {
        let y = x.map(|x| x[block]);
        for l in 0..4 {
            to[block][l] += (c[0] * y[0][l] + c[1] * y[1][l]) + (c[2] * y[2][l] + c[3] * y[3][l]);
        }
    }
}

vectorized! {
    fn factor<>(sound: &mut bool, a: &mut [f64], width: usize, size: usize) {
        for i in 0..size {
            let (above, below) = a.split_at_mut((i + 1) * width);
            let row = &mut above[i * width..];
            let pivot = row[i];
            if !(pivot > 0.0 && pivot.is_finite()) {
                *sound = false;
                return;
            }
            let scale = 1.0 / pivot.sqrt();
            for entry in &mut row[i..size] {
                *entry *= scale;
            }
            for (r, other) in (i + 1..size).zip(below.chunks_exact_mut(width)) {
                let c = row[r];
                for (o, e) in other[r..size].iter_mut().zip(&row[r..size]) {
                    *o -= c * e;
                }
            }
        }
    }
}

vectorized! {
    /// Y = R⁻ᵀ is lower triangular, and A⁻¹ = YᵀY: both are made row by row.
    fn invert<>(out: &mut [f64], y: &mut [f64], r: &[f64], width: usize, size: usize) {
        for i in 0..size {
            let (above, below) = y.split_at_mut(i * size);
            let row = &mut below[..=i];
            for t in 0..i {
                let c = r[t * width + i];
                for (e, a) in row[..=t].iter_mut().zip(&above[t * size..][..=t]) {
                    *e -= c * a;
                }
            }
            row[i] = 1.0;
            let scale = 1.0 / r[i * width + i];
            row.iter_mut().for_each(|e| *e *= scale);
        }
        for row in y.chunks_exact(size) {
            for i in 0..size {
                let c = row[i];
                if c == 0.0 {
                    continue;
                }
                for (o, e) in out[i * size..][..=i].iter_mut().zip(&row[..=i]) {
                    *o += c * e;
                }
            }
        }
        for i in 0..size {
            for j in 0..i {
                out[j * size + i] = out[i * size + j];
            }
        }
    }
}

vectorized! {
    fn solve<>(b: &mut [f64], r: &[f64], width: usize, size: usize) {
        for i in 0..size {
            let row = &r[i * width..];
            b[i] /= row[i];
            let y = b[i];
            for (b, e) in b[i + 1..size].iter_mut().zip(&row[i + 1..size]) {
                *b -= y * e;
            }
        }
        for i in (0..size).rev() {
            let row = &r[i * width..];
            let known: f64 = b[i + 1..size].iter().zip(&row[i + 1..size]).map(|(b, e)| b * e).sum();
            b[i] = (b[i] - known) / row[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rowwise::Rowwise;
    use super::*;
    use crate::manifold::tests::matrix;

    #[test]
    fn small_least_squares_are_solved() {
        for k in [1, 2, 3, 5, 8, 10, 12, 13, 33, 50] {
            let (n, rows) = (4 * k + 3, matrix(4 * k + 9, k, 1));
            let index: Vec<u32> = (0..n as u32)
                .map(|i| (i * 5) % (4 * k as u32 + 9))
                .collect();
            let value: Vec<f64> = (0..n).map(|i| (i as f64).cos()).collect();
            let other = Rowwise::from_mat(&rows);
            let mut normal = Normal::new(other.width);
            normal.gather((&index, &value), &other.data, k, 0.5, Some(0));
            let mut a = Mat::<f64>::zeros(k, k);
            let mut b = Mat::<f64>::zeros(k, 1);
            for (&j, &y) in index.iter().zip(&value) {
                let x = Mat::from_fn(k, 1, |i, _| rows[(j as usize, i)]);
                a += &x * x.transpose();
                b += faer::Scale(y - 0.5 - x[(0, 0)]) * &x;
            }
            for i in 0..k {
                normal.a[i * other.width + i] += 0.1;
                a[(i, i)] += 0.1;
            }
            assert!(normal.factor(k));
            normal.solve(k);
            let inverse = normal.inverse(k);
            let inverse = Mat::from_fn(k, k, |i, j| inverse[i * k + j]);
            assert!((&a * inverse - Mat::<f64>::identity(k, k)).norm_max() < 1e-11);
            let x = Mat::from_fn(k, 1, |i, _| normal.b[i]);
            assert!(
                (&a * x - &b).norm_l2() < 1e-11 * (1.0 + b.norm_l2()),
                "k = {k}"
            );
        }
    }
}
