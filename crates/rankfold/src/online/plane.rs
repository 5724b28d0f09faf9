//! Symmetric functions of matrices of rank two: all that happens, happens in the
//! plane of two vectors.

use crate::kernel::dot;

/// A symmetric 2×2 matrix by its entries, or any 2×2 matrix by rows.
pub(super) type Tiny = [[f64; 2]; 2];

pub(super) const UNIT: Tiny = [[1.0, 0.0], [0.0, 1.0]];

pub(super) fn times(a: Tiny, b: Tiny) -> Tiny {
    std::array::from_fn(|i| std::array::from_fn(|j| a[i][0] * b[0][j] + a[i][1] * b[1][j]))
}

pub(super) fn plus(a: Tiny, c: f64, b: Tiny) -> Tiny {
    std::array::from_fn(|i| std::array::from_fn(|j| a[i][j] + c * b[i][j]))
}

fn determinant(a: Tiny) -> f64 {
    a[0][0] * a[1][1] - a[0][1] * a[1][0]
}

/// The inverse of a matrix that is not singular.
pub(super) fn inverse(a: Tiny) -> Tiny {
    let d = determinant(a);
    [[a[1][1] / d, -a[0][1] / d], [-a[1][0] / d, a[0][0] / d]]
}

/// The root of a positive definite matrix.
pub(super) fn root(a: Tiny) -> Tiny {
    let s = determinant(a).max(0.0).sqrt();
    let t = (a[0][0] + a[1][1] + 2.0 * s).sqrt();
    std::array::from_fn(|i| std::array::from_fn(|j| (a[i][j] + s * UNIT[i][j]) / t))
}

/// Half the difference of the eigenvalues of a symmetric matrix.
fn spread(a: Tiny) -> f64 {
    (0.5 * (a[0][0] - a[1][1])).hypot(a[0][1])
}

/// The eigenvalues of a symmetric matrix.
pub(super) fn eigenvalues(a: Tiny) -> [f64; 2] {
    let (mean, half) = (0.5 * (a[0][0] + a[1][1]), spread(a));
    [mean - half, mean + half]
}

/// exp(t a) for a symmetric matrix.
pub(super) fn exp(t: f64, a: Tiny) -> Tiny {
    let (mean, half) = (0.5 * (a[0][0] + a[1][1]), spread(a));
    let x = t * half;
    // sinh(x)/x · t, whose limit is t.
    let ratio = if x.abs() < 1e-4 {
        t * (1.0 + x * x / 6.0)
    } else {
        x.sinh() / half
    };
    let scale = (t * mean).exp();
    let away = plus(a, -mean, UNIT);
    std::array::from_fn(|i| {
        std::array::from_fn(|j| scale * (x.cosh() * UNIT[i][j] + ratio * away[i][j]))
    })
}

/// The plane of two k-vectors a and b: an orthonormal basis, and both in it. Where
/// they are parallel the second basis vector is zero, or next to any direction and
/// met by a coordinate at the size of rounding.
#[derive(Debug, Clone)]
pub(super) struct Plane {
    pub basis: [Vec<f64>; 2],
    /// The coordinate of a along the first basis vector; along the second it is 0.
    pub a: f64,
    pub b: [f64; 2],
}

impl Plane {
    pub fn new(padded: usize) -> Self {
        Plane {
            basis: [vec![0.0; padded], vec![0.0; padded]],
            a: 0.0,
            b: [0.0; 2],
        }
    }

    pub fn set(&mut self, a: &[f64], b: &[f64]) {
        let [first, second] = &mut self.basis;
        self.a = dot(a, a).sqrt();
        // A plane of b alone where a is zero.
        let length = dot(b, b).sqrt();
        let (from, size) = if self.a > 0.0 {
            (a, self.a)
        } else {
            (b, length)
        };
        let inverse = if size > 0.0 { 1.0 / size } else { 0.0 };
        for (q, x) in first.iter_mut().zip(from) {
            *q = inverse * x;
        }
        second.copy_from_slice(b);
        self.b = [0.0; 2];
        // Twice is enough for a direction that is orthogonal to working precision.
        for _ in 0..2 {
            let along = dot(first, second);
            self.b[0] += along;
            for (s, f) in second.iter_mut().zip(first.iter()) {
                *s -= along * f;
            }
        }
        let rest = dot(second, second).sqrt();
        let inverse = if rest > 1e-17 * length {
            1.0 / rest
        } else {
            0.0
        };
        second.iter_mut().for_each(|s| *s *= inverse);
        self.b[1] = if inverse > 0.0 { rest } else { 0.0 };
    }

    /// a bᵀ in the plane.
    pub fn outer(&self) -> Tiny {
        [[self.a * self.b[0], self.a * self.b[1]], [0.0, 0.0]]
    }

    /// Sym(a bᵀ) in the plane.
    pub fn symmetric(&self) -> Tiny {
        let off = 0.5 * self.a * self.b[1];
        [[self.a * self.b[0], off], [off, 0.0]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::symmetric;
    use faer::Mat;

    fn wide(a: Tiny) -> Mat<f64> {
        Mat::from_fn(2, 2, |i, j| a[i][j])
    }

    fn near(a: Tiny, b: &Mat<f64>) {
        assert!((wide(a) - b).norm_l2() < 1e-13 * b.norm_l2(), "{a:?} {b:?}");
    }

    #[test]
    fn functions_are_those_of_matrices() {
        for (x, y, z) in [(0.3, 0.2, -1.4), (1.0, 0.0, 1.0), (2.0, -1e-9, 2.0)] {
            let a = [[x, y], [y, z]];
            for t in [0.0, 1e-6, -0.7, 3.0] {
                near(
                    exp(t, a),
                    &symmetric::exp(&(faer::Scale(t) * wide(a))).unwrap(),
                );
            }
            let squared = plus(times(a, a), 0.1, UNIT);
            near(
                root(squared),
                &symmetric::power(&wide(squared), 0.5).unwrap(),
            );
            near(
                inverse(squared),
                &symmetric::power(&wide(squared), -1.0).unwrap(),
            );
            let (values, _) = symmetric::eigen(&wide(a)).unwrap();
            let found = eigenvalues(a);
            assert!((values[0] - found[0]).abs() + (values[1] - found[1]).abs() < 1e-14);
        }
    }

    #[test]
    fn a_plane_holds_its_vectors() {
        let cases: [[[f64; 4]; 2]; 5] = [
            [[1.0, 2.0, -3.0, 0.0], [0.5, 0.0, 2.0, 0.0]],
            [[1.0, 2.0, -3.0, 0.0], [-2.0, -4.0, 6.0, 0.0]],
            [[1.0, 2.0, -3.0, 0.0], [1.0, 2.0, -3.0 + 1e-14, 0.0]],
            [[0.0; 4], [0.5, 0.0, 2.0, 0.0]],
            [[1.0, 2.0, -3.0, 0.0], [0.0; 4]],
        ];
        for [a, b] in cases {
            let mut plane = Plane::new(4);
            plane.set(&a, &b);
            let [p, q] = &plane.basis;
            assert!(dot(p, q).abs() < 1e-15);
            for i in 0..4 {
                assert!((a[i] - plane.a * p[i]).abs() < 1e-15);
                let found = plane.b[0] * p[i] + plane.b[1] * q[i];
                assert!((b[i] - found).abs() < 1e-14, "{b:?} {plane:?}");
            }
        }
    }
}
