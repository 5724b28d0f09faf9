//! Shortest paths between subspaces: where they lead, how long they are, what
//! they carry along, and the middle of several points.
//!
//! All of it is written in functions that are smooth at zero, of r×r matrices, so
//! that nothing is divided by a small singular value and no tall matrix is taken
//! apart: cos, sin x/x and (1 − cos x)/x² are smooth in ξᵀξ, and θ/sin θ is in
//! the cosines UᵀT.

use super::{Grassmann, dot, gram};
use crate::linalg::{qf, svd, symmetric};
use faer::Mat;

/// sin √x / √x.
fn sinc(x: f64) -> f64 {
    match x < 1e-8 {
        true => 1.0 - x.max(0.0) / 6.0,
        false => x.sqrt().sin() / x.sqrt(),
    }
}

/// (1 − cos √x) / x, by half the angle so that nothing cancels.
fn cosc(x: f64) -> f64 {
    let half = sinc(x / 4.0);
    0.5 * half * half
}

/// T seen from U, by the singular value decomposition A cos Θ Bᵀ of UᵀT.
struct View {
    /// A.
    near: Mat<f64>,
    /// (T − UUᵀT) B, with columns of length sin θ.
    rest: Mat<f64>,
    /// The angles: from sines where they are small, from cosines where they are
    /// large.
    angles: Vec<f64>,
}

impl View {
    fn new(u: &Mat<f64>, t: &Mat<f64>) -> Option<View> {
        let (near, cosines, b) = svd(&(u.transpose() * t))?;
        let there = t * b;
        // Once more, for what the first projection leaves by rounding.
        let rest = Grassmann::project(u, &Grassmann::project(u, &there));
        let lengths = rest.col_iter().map(|column| column.norm_l2());
        let angles = lengths
            .zip(&cosines)
            .map(|(sine, cosine)| sine.atan2(*cosine));
        Some(View {
            angles: angles.collect(),
            near,
            rest,
        })
    }
}

impl Grassmann {
    /// The end of the geodesic that leaves U along a tangent vector; `None` where
    /// that is not finite.
    pub fn exp(u: &Mat<f64>, along: &Mat<f64>) -> Option<Mat<f64>> {
        let squares = gram(along);
        let cos = symmetric::map(&squares, |x| x.max(0.0).sqrt().cos())?;
        let sin = symmetric::map(&squares, sinc)?;
        // The same subspace, and orthonormal to the last bit.
        qf(&(u * cos + along * sin))
    }

    /// The tangent vector at U whose geodesic leads to T, a shortest one; `None`
    /// where a number is not finite. At a right angle there are several of equal
    /// length, and one of them is given.
    pub fn log(u: &Mat<f64>, t: &Mat<f64>) -> Option<Mat<f64>> {
        let View {
            near,
            mut rest,
            angles,
        } = View::new(u, t)?;
        for (mut column, angle) in rest.col_iter_mut().zip(angles) {
            if angle > 1e-8 {
                column *= faer::Scale(angle / angle.sin());
            }
        }
        Some(rest * near.transpose())
    }

    /// The principal angles between two subspaces, rising; accurate for tiny ones
    /// and for those near a right angle.
    pub fn angles(u: &Mat<f64>, t: &Mat<f64>) -> Option<Vec<f64>> {
        let view = View::new(u, t)?;
        // Angles too small for their cosines to differ share a space, in which
        // only the sines tell them apart.
        let (_, sines, _) = svd(&view.rest)?;
        let (_, cosines, _) = svd(&(u.transpose() * t))?;
        let pairs = sines.iter().rev().zip(&cosines);
        Some(pairs.map(|(sine, cosine)| sine.atan2(*cosine)).collect())
    }

    /// The length of the shortest path between two subspaces; not a number where
    /// an entry is not finite.
    pub fn distance(u: &Mat<f64>, t: &Mat<f64>) -> f64 {
        let length = |view: View| view.angles.iter().map(|a| a * a).sum::<f64>().sqrt();
        View::new(u, t).map_or(f64::NAN, length)
    }

    /// A tangent vector of U, carried in parallel to the end of the geodesic along
    /// another one, in the basis that [`exp`](Grassmann::exp) gives there.
    pub fn carry(u: &Mat<f64>, along: &Mat<f64>, vector: &Mat<f64>) -> Option<Mat<f64>> {
        let squares = gram(along);
        let common = along.transpose() * vector;
        let turned = symmetric::map(&squares, sinc)? * &common;
        let bent = symmetric::map(&squares, cosc)? * &common;
        Some(vector - u * turned - along * bent)
    }

    /// The subspace with the least sum of squared distances to these; `None` where
    /// there are none of them, or one is not finite.
    ///
    /// It is unique where the points lie within a ball of radius π/4. Elsewhere it
    /// is a point whose first-order conditions hold.
    pub fn mean(points: &[Mat<f64>]) -> Option<Mat<f64>> {
        let mut mean = Grassmann::chordal_mean(points)?;
        let (mut step, mut before) = (1.0, f64::INFINITY);
        for _ in 0..500 {
            let mut pull = Mat::<f64>::zeros(mean.nrows(), mean.ncols());
            for point in points {
                pull += Grassmann::log(&mean, point)?;
            }
            pull *= faer::Scale(1.0 / points.len() as f64);
            let size = dot(&pull, &pull).sqrt();
            if size < 1e-12 {
                break;
            }
            // Points that are far apart hessian_product the space: then shorter steps.
            if size > before {
                step *= 0.5;
            }
            before = size;
            mean = Grassmann::exp(&mean, &(faer::Scale(step) * &pull))?;
        }
        Some(mean)
    }

    /// The r leading eigenvectors of the sum of projectors, by way of the matrix
    /// of all cosines, which is small.
    fn chordal_mean(points: &[Mat<f64>]) -> Option<Mat<f64>> {
        let first = points.first()?;
        let (m, r) = (first.nrows(), first.ncols());
        let mut all = Mat::zeros(m, r * points.len());
        for (i, point) in points.iter().enumerate() {
            all.subcols_mut(i * r, r).copy_from(point);
        }
        let (_, vectors) = symmetric::eigen(&gram(&all))?;
        qf(&(&all * vectors.subcols(vectors.ncols() - r, r)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifold::tests::matrix;

    /// U, and T at these angles from it, each in some basis.
    fn at_angles(m: usize, angles: &[f64]) -> (Mat<f64>, Mat<f64>) {
        let r = angles.len();
        let both = qf(&matrix(m, 2 * r, 1)).unwrap();
        let (u, out) = (both.subcols(0, r), both.subcols(r, r));
        let t = Mat::from_fn(m, r, |i, j| {
            u[(i, j)] * angles[j].cos() + out[(i, j)] * angles[j].sin()
        });
        let turn = |seed| qf(&matrix(r, r, seed)).unwrap();
        (u * turn(2), t * turn(3))
    }

    #[test]
    fn tiny_and_large_angles_are_told_to_rounding() {
        let right = std::f64::consts::FRAC_PI_2;
        for angles in [
            [1e-14, 1e-9, 1e-3],
            [1e-12, 1e-8, 1.0],
            [0.0, 0.5, right - 1e-9],
            [0.2, 0.7, right],
        ] {
            let (u, t) = at_angles(12, &angles);
            let found = Grassmann::angles(&u, &t).unwrap();
            for (found, angle) in found.iter().zip(angles) {
                assert!((found - angle).abs() < 3e-15, "{angles:?} {found} {angle}");
            }
            let length = angles.iter().map(|a| a * a).sum::<f64>().sqrt();
            assert!((Grassmann::distance(&u, &t) - length).abs() < 3e-15);
            let log = Grassmann::log(&u, &t).unwrap();
            assert!((log.norm_l2() - length).abs() < 1e-14);
            let there = Grassmann::exp(&u, &log).unwrap();
            assert!(Grassmann::distance(&there, &t) < 1e-14, "{angles:?}");
        }
    }

    #[test]
    fn nothing_depends_on_the_basis() {
        let (u, t) = at_angles(9, &[0.1, 0.9]);
        let turn = qf(&matrix(2, 2, 7)).unwrap();
        let (log, other) = (
            Grassmann::log(&u, &t).unwrap(),
            Grassmann::log(&(&u * &turn), &(&t * turn.transpose())).unwrap(),
        );
        assert!((&log * &turn - other).norm_max() < 1e-14);
        let (a, b) = (
            Grassmann::exp(&u, &log).unwrap(),
            Grassmann::exp(&(&u * &turn), &(&log * &turn)).unwrap(),
        );
        assert!(Grassmann::distance(&a, &b) < 1e-14);
    }

    #[test]
    fn the_mean_of_two_is_halfway_and_of_one_itself() {
        let (u, t) = at_angles(10, &[0.3, 0.8, 1.2]);
        let mean = Grassmann::mean(&[u.clone(), t.clone()]).unwrap();
        let half = 0.5 * Grassmann::distance(&u, &t);
        assert!((Grassmann::distance(&u, &mean) - half).abs() < 1e-12);
        assert!((Grassmann::distance(&t, &mean) - half).abs() < 1e-12);
        let same = Grassmann::mean(&[u.clone(), u.clone()]).unwrap();
        assert!(Grassmann::distance(&u, &same) < 1e-14);
        assert!(Grassmann::mean(&[]).is_none());
    }

    #[test]
    fn scattered_points_have_a_stationary_mean() {
        for seed in 0..20 {
            let points: Vec<_> = (0..5)
                .map(|i| qf(&matrix(6, 2, 100 * seed + i)).unwrap())
                .collect();
            let mean = Grassmann::mean(&points).unwrap();
            let mut pull = Mat::<f64>::zeros(6, 2);
            for point in &points {
                pull += Grassmann::log(&mean, point).unwrap();
            }
            assert!(pull.norm_l2() < 1e-9, "{seed}: {}", pull.norm_l2());
        }
    }

    #[test]
    fn a_whole_space_has_one_subspace_of_full_rank() {
        let (u, t) = (qf(&matrix(3, 3, 1)).unwrap(), qf(&matrix(3, 3, 2)).unwrap());
        assert!(Grassmann::distance(&u, &t) < 1e-14);
        assert!(Grassmann::log(&u, &t).unwrap().norm_max() < 1e-14);
        assert!(Grassmann::distance(&u, &(faer::Scale(f64::NAN) * &t)).is_nan());
        assert!(Grassmann::exp(&u, &(faer::Scale(f64::INFINITY) * &t)).is_none());
    }
}
