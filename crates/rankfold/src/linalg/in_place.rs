//! Work of k³ on small matrices that allocates nothing, for steps that cannot do
//! without it.

use super::Square;

/// A pivot below this share of the largest counts as zero.
const SINGULAR: f64 = 1e-14;

/// How many terms of the exponential series are above rounding for a norm of at most
/// one half.
fn terms(norm: f64) -> usize {
    let (mut term, mut count) = (1.0, 0);
    while term > 1e-17 && count < 14 {
        count += 1;
        term *= norm / count as f64;
    }
    count
}

impl Square {
    fn swap_rows(&mut self, i: usize, j: usize) {
        let (one, two) = self.two_rows(i, j);
        one.swap_with_slice(two);
    }

    /// `row i += c · row j`.
    fn add_row(&mut self, i: usize, c: f64, j: usize) {
        let (to, from) = self.two_rows(i, j);
        for (t, f) in to.iter_mut().zip(from) {
            *t += c * *f;
        }
    }

    /// `out = self⁻¹` by elimination with row exchanges; `work` is overwritten.
    /// False where the matrix is singular to working precision.
    pub(crate) fn invert(&self, out: &mut Square, work: &mut Square) -> bool {
        let k = self.size();
        work.assign(self);
        out.combine(0.0, 0.0, self);
        out.add_diagonal(1.0);
        let mut largest = 0.0_f64;
        for c in 0..k {
            let mut pivot = c;
            for i in c + 1..k {
                if work.get(i, c).abs() > work.get(pivot, c).abs() {
                    pivot = i;
                }
            }
            let size = work.get(pivot, c).abs();
            largest = largest.max(size);
            if size.is_nan() || size <= SINGULAR * largest || !size.is_finite() {
                return false;
            }
            if pivot != c {
                work.swap_rows(pivot, c);
                out.swap_rows(pivot, c);
            }
            let inverse = 1.0 / work.get(c, c);
            for m in [&mut *work, &mut *out] {
                for j in 0..k {
                    *m.get_mut(c, j) *= inverse;
                }
            }
            for i in (0..k).filter(|&i| i != c) {
                let factor = -work.get(i, c);
                if factor != 0.0 {
                    work.add_row(i, factor, c);
                    out.add_row(i, factor, c);
                }
            }
        }
        true
    }

    /// Overwrites a positive definite S by R upper triangular with a positive
    /// diagonal and RᵀR = S. False where S is not positive definite.
    pub(crate) fn factorize(&mut self) -> bool {
        let k = self.size();
        for i in 0..k {
            for j in i..k {
                let mut sum = self.get(i, j);
                for l in 0..i {
                    sum -= self.get(l, i) * self.get(l, j);
                }
                if i == j {
                    if !(sum > 0.0 && sum.is_finite()) {
                        return false;
                    }
                    *self.get_mut(i, i) = sum.sqrt();
                } else {
                    *self.get_mut(i, j) = sum / self.get(i, i);
                }
            }
        }
        for i in 0..k {
            for j in 0..i {
                *self.get_mut(i, j) = 0.0;
            }
        }
        true
    }

    /// `out = self⁻¹` for an upper triangular matrix without zeros on its diagonal.
    pub(crate) fn invert_upper(&self, out: &mut Square) {
        let k = self.size();
        out.combine(0.0, 0.0, self);
        for j in 0..k {
            *out.get_mut(j, j) = 1.0 / self.get(j, j);
            for i in (0..j).rev() {
                let sum: f64 = (i + 1..=j).map(|l| self.get(i, l) * out.get(l, j)).sum();
                *out.get_mut(i, j) = -sum / self.get(i, i);
            }
        }
    }

    /// `out = exp(self)` by its series, scaled so that few terms are enough and
    /// squared back; the other two are overwritten.
    pub(crate) fn exp(&self, out: &mut Square, [scaled, next]: [&mut Square; 2]) {
        let norm = self.norm();
        let halvings = if norm > 0.5 && norm.is_finite() {
            (norm / 0.5).log2().ceil() as i32
        } else {
            0
        };
        let scale = 0.5_f64.powi(halvings);
        scaled.combine(0.0, scale, self);
        // Horner: I + X(I + X/2 (I + X/3 (…))).
        out.combine(0.0, 0.0, self);
        out.add_diagonal(1.0);
        for term in (1..=terms(scale * norm)).rev() {
            scaled.product(next, out);
            out.combine(0.0, 1.0 / term as f64, next);
            out.add_diagonal(1.0);
        }
        for _ in 0..halvings {
            out.product(next, out);
            out.assign(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::{cholesky_upper, symmetric};
    use faer::Mat;

    fn matrix(k: usize, seed: usize) -> Square {
        Square::from_fn(k, |i, j| (((i + 2) * (3 * j + seed + 1)) as f64).sin())
    }

    fn off(a: &Square, b: &Mat<f64>) -> f64 {
        (a.to_faer() - b).norm_l2() / b.norm_l2().max(1.0)
    }

    #[test]
    fn inverses_factors_and_exponentials_are_those_of_faer() {
        for k in [1, 2, 3, 7, 8, 13] {
            let mut a = matrix(k, 1);
            a.add_diagonal(0.3);
            let (mut out, mut work) = (Square::zero(k), Square::zero(k));
            assert!(a.invert(&mut out, &mut work));
            let unit = Mat::<f64>::identity(k, k);
            let product = a.to_faer() * out.to_faer();
            assert!((product - &unit).norm_l2() < 1e-9, "k = {k}");

            let mut s = Square::zero(k);
            a.transposed_product(&mut s, &a);
            s.add_diagonal(0.1);
            let mut r = s.clone();
            assert!(r.factorize());
            assert!(off(&r, &cholesky_upper(&s).unwrap()) < 1e-13);
            r.invert_upper(&mut out);
            assert!((r.to_faer() * out.to_faer() - &unit).norm_l2() < 1e-12);

            for scale in [0.0, 1e-3, 1.0, 20.0] {
                let mut x = s.clone();
                x.combine(-scale / s.norm(), 0.0, &s);
                let [mut one, mut two] = [Square::zero(k), Square::zero(k)];
                x.exp(&mut out, [&mut one, &mut two]);
                let want = symmetric::exp(&x.to_faer()).unwrap();
                assert!(off(&out, &want) < 1e-13, "k = {k}, {scale}");
            }
        }
    }

    #[test]
    fn singular_matrices_are_seen() {
        let k = 3;
        let (mut out, mut work) = (Square::zero(k), Square::zero(k));
        let flat = Square::from_fn(k, |i, j| ((i + 1) * (j + 1)) as f64);
        assert!(!flat.invert(&mut out, &mut work));
        assert!(!Square::from_fn(k, |_, _| f64::NAN).invert(&mut out, &mut work));
        assert!(!Square::from_fn(k, |_, _| -1.0).factorize());
    }
}
