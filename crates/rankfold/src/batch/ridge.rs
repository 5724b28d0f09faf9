//! Ridge regression of several targets on points, and the start that it gives to
//! models that tell classes apart.
//!
//! (XᵀX + Λ) W = XᵀT with a diagonal Λ is solved by conjugate gradients for all columns of T side by
//! side, so that X is read twice an iteration and nothing of d × d is made. Where points
//! have few features, the Gram matrix and its Cholesky factor cost less.

use super::points::Points;
use super::rowwise::Rowwise;
use crate::linalg::{qf, svd, symmetric};
use crate::random::normal_at;
use crate::{Error, Result, memory};
use faer::linalg::solvers::Solve;
use faer::{Mat, Side};

/// Features up to which the Gram matrix may be made.
const SMALL: usize = 2000;

/// Iterations of conjugate gradients at most: with a penalty of the size of a row they
/// have done their work long before.
const ITERATIONS: usize = 60;

/// The residual at which a column is solved, as a share of its right side.
const SOLVED: f64 = 1e-6;

/// The length of the principal directions beside those of the classes: long enough to
/// order rows that the classes do not, and no longer.
const BESIDE: f64 = 0.2;

/// Passes of the subspace iteration that finds them: they need not be exact.
const PASSES: usize = 4;

/// Directions beside those asked for that make it converge.
const MORE: usize = 8;

/// XᵀX Y.
fn gram_times(points: &Points, y: &Mat<f64>, threads: usize) -> Mat<f64> {
    points.back(&points.times(y, threads), y.ncols(), threads)
}

/// The weights of a ridge regression, one column for each target. Every feature has a
/// penalty of its own, above 0.
pub fn ridge(
    points: &Points,
    targets: &Mat<f64>,
    penalties: &[f64],
    threads: usize,
) -> Result<Mat<f64>> {
    let (d, m) = (points.features(), targets.ncols());
    assert_eq!(penalties.len(), d, "a penalty for each feature");
    memory::require(64 * d as u128 * m as u128, "a ridge regression")?;
    // In features of which each has the penalty one: W = D V with D² the inverse of the
    // penalties.
    let scales: Vec<f64> = penalties.iter().map(|p| 1.0 / p.sqrt()).collect();
    let scaled = |mut y: Mat<f64>| {
        for column in y.col_iter_mut() {
            column.iter_mut().zip(&scales).for_each(|(v, s)| *v *= s);
        }
        y
    };
    let right = scaled(points.back(&Rowwise::from_mat(targets), m, threads));
    let times = |y: &Mat<f64>| scaled(gram_times(points, &scaled(y.clone()), threads)) + y;
    // A product with the Gram matrix reads X twice for m columns; the matrix itself takes
    // d columns once.
    let solution = match d <= SMALL && d <= 2 * ITERATIONS * m {
        true => direct(times, &right)?,
        false => conjugate_gradient(times, right),
    };
    Ok(scaled(solution))
}

/// Solves A W = B by the factor of A, which is made in panels, so that products with
/// sparse points stay small.
fn direct(times: impl Fn(&Mat<f64>) -> Mat<f64>, right: &Mat<f64>) -> Result<Mat<f64>> {
    let d = right.nrows();
    let mut whole = Mat::zeros(d, d);
    for first in (0..d).step_by(64) {
        let count = 64.min(d - first);
        let unit = Mat::from_fn(d, count, |i, j| f64::from(u8::from(i == first + j)));
        whole.subcols_mut(first, count).copy_from(&times(&unit));
    }
    let factor = symmetric::part(&whole).llt(Side::Lower);
    let factor = factor.map_err(|_| Error::input("features that are not finite"))?;
    Ok(factor.solve(right))
}

/// Solves A W = B for a positive definite A that is known by its products, each column by
/// itself.
fn conjugate_gradient(times: impl Fn(&Mat<f64>) -> Mat<f64>, right: Mat<f64>) -> Mat<f64> {
    let (d, m) = (right.nrows(), right.ncols());
    let dots = |a: &Mat<f64>, b: &Mat<f64>| -> Vec<f64> {
        (0..m)
            .map(|c| {
                a.col(c)
                    .iter()
                    .zip(b.col(c).iter())
                    .map(|(a, b)| a * b)
                    .sum()
            })
            .collect()
    };
    let mut solution = Mat::zeros(d, m);
    let mut direction = right.clone();
    let mut residual = right;
    let first = dots(&residual, &residual);
    let mut squares = first.clone();
    for _ in 0..ITERATIONS {
        let open = |c: usize| squares[c] > SOLVED * SOLVED * first[c];
        if !(0..m).any(open) {
            break;
        }
        let image = times(&direction);
        let along = dots(&direction, &image);
        for c in (0..m).filter(|&c| open(c) && along[c] > 0.0) {
            let step = squares[c] / along[c];
            for i in 0..d {
                solution[(i, c)] += step * direction[(i, c)];
                residual[(i, c)] -= step * image[(i, c)];
            }
        }
        let after = dots(&residual, &residual);
        for c in 0..m {
            let turn = if squares[c] > 0.0 {
                after[c] / squares[c]
            } else {
                0.0
            };
            for i in 0..d {
                direction[(i, c)] = residual[(i, c)] + turn * direction[(i, c)];
            }
        }
        squares = after;
    }
    solution
}

/// A start that knows the classes of points, of d × `count`. Its first columns are the
/// principal axes of a ridge regression on the classes, at most one fewer than there are
/// classes; the others are principal directions of the points beside them. The points
/// have length one on average along the first, and a fifth of that along the others.
///
/// The penalty is a multiple of the mean square of a point. It is higher for features of
/// large values, by the root of their size: half of the way to features of one size.
pub fn class_ridge(
    points: &Points,
    classes: &[u32],
    count: usize,
    penalty: f64,
    threads: usize,
) -> Result<Mat<f64>> {
    let (n, d) = (points.len(), points.features());
    let many = classes.iter().max().map_or(0, |&c| c as usize + 1);
    let mut sizes = vec![0_usize; many];
    classes.iter().for_each(|&c| sizes[c as usize] += 1);
    let targets = Mat::from_fn(n, many, |i, c| {
        f64::from(u8::from(classes[i] as usize == c)) - sizes[c] as f64 / n as f64
    });
    let penalties = penalties(points, penalty)?;
    let weights = ridge(points, &targets, &penalties, threads)?;
    let fitted = points.product(&weights, threads);
    let not_finite = || Error::input("features that are not finite");
    let (values, axes) = symmetric::eigen(&symmetric::part(&(fitted.transpose() * &fitted)))
        .ok_or_else(not_finite)?;
    // Targets add up to zero, so that one direction less than there are classes is left;
    // fewer where classes cannot be told apart.
    let largest = values.last().copied().unwrap_or(0.0);
    let told = values
        .iter()
        .filter(|v| **v > 1e-9 * largest && **v > 0.0)
        .count();
    let own = told.min(many.saturating_sub(1)).min(count);
    if own == 0 {
        return Err(Error::input("classes that no feature tells apart"));
    }
    let axes = Mat::from_fn(many, own, |i, c| axes[(i, many - 1 - c)]);
    let scale = |total: f64| (n as f64 / total.max(f64::MIN_POSITIVE)).sqrt();
    let total: f64 = values.iter().rev().take(own).sum();
    let first = faer::Scale(scale(total)) * (weights * axes);
    let mut out = Mat::zeros(d, count);
    out.subcols_mut(0, own).copy_from(&first);
    if count > own {
        let basis = qf(&first).ok_or_else(not_finite)?;
        let (beside, total) = beside(points, &basis, count - own, threads)?;
        let beside = faer::Scale(BESIDE * scale(total)) * beside;
        out.subcols_mut(own, count - own).copy_from(&beside);
    }
    Ok(out)
}

/// The penalties of features by the size of their values.
fn penalties(points: &Points, penalty: f64) -> Result<Vec<f64>> {
    let (n, squares) = (points.len() as f64, points.squares());
    let sizes: Vec<f64> = squares.iter().map(|s| (s / n).sqrt()).collect();
    let present = sizes.iter().filter(|s| **s > 0.0).count();
    let mean = sizes.iter().sum::<f64>() / present.max(1) as f64;
    let mean_square: f64 = sizes
        .iter()
        .map(|s| s * s / (s / mean).sqrt().max(1e-6))
        .sum();
    if !(mean > 0.0 && mean_square.is_finite()) {
        return Err(Error::input("rows without features, or too large"));
    }
    let of = |size: &f64| penalty * mean_square * (size / mean).sqrt().max(1e-6);
    Ok(sizes.iter().map(of).collect())
}

/// Leading directions of points that are orthogonal to a basis, orthonormal, and the
/// squares of the points along them, added up.
fn beside(
    points: &Points,
    basis: &Mat<f64>,
    count: usize,
    threads: usize,
) -> Result<(Mat<f64>, f64)> {
    let d = points.features();
    let k = (count + MORE).min(d - basis.ncols());
    memory::require(40 * d as u128 * k as u128, "principal directions")?;
    let without = |y: Mat<f64>| {
        let along = basis.transpose() * &y;
        y - basis * along
    };
    let lost = || Error::input(format!("rows that differ in fewer than {count} directions"));
    let start = Mat::from_fn(d, k, |i, j| normal_at(0, 2, i as u64, j as u64));
    let mut q = qf(&without(start)).ok_or_else(lost)?;
    for _ in 0..PASSES {
        let next = without(gram_times(points, &q, threads));
        // Where points have no more directions, those that are there stay.
        let size = next.norm_l2();
        let next = next + faer::Scale(1e-9 * size) * &q;
        q = qf(&without(next)).ok_or_else(lost)?;
    }
    let seen = points.product(&q, threads);
    let (_, sigma, turn) = svd(&seen).ok_or_else(lost)?;
    let found = Mat::from_fn(k, count, |i, c| turn[(i, c)]);
    Ok((q * found, sigma.iter().take(count).map(|s| s * s).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifold::tests::matrix;
    use crate::{Rows, SparseVec};

    /// Points of which most entries are zero, and all their entries.
    fn sparse(n: usize, d: usize) -> (Points, Mat<f64>) {
        let m = matrix(n, d, 1);
        let kept = |i: usize, j: usize| (i * 7 + j * 3).is_multiple_of(10);
        let mut rows = Rows::new();
        for i in 0..n {
            let entries = (0..d).filter(|&j| kept(i, j));
            let entries = entries.map(|j| (j as u32, m[(i, j)])).collect();
            rows.push(SparseVec::from_entries(entries).as_row());
        }
        rows.widen(d);
        let x = Mat::from_fn(n, d, |i, j| if kept(i, j) { m[(i, j)] } else { 0.0 });
        (Points::new(&rows).unwrap(), x)
    }

    fn plain(x: &Mat<f64>, targets: &Mat<f64>, penalties: &[f64]) -> Mat<f64> {
        let d = x.ncols();
        let mut gram = x.transpose() * x;
        (0..d).for_each(|j| gram[(j, j)] += penalties[j]);
        gram.partial_piv_lu().solve(x.transpose() * targets)
    }

    #[test]
    fn both_ways_solve_the_normal_equations() {
        // Few features and many targets go the direct way, the others do not.
        for (n, d, m) in [
            (40, 7, 3),
            (1, 1, 1),
            (60, 300, 2),
            (5, 400, 1),
            (300, 130, 1),
        ] {
            let (points, x) = sparse(n, d);
            let targets = matrix(n, m, 4);
            for penalty in [0.1, 1.0, 30.0] {
                let penalties: Vec<f64> = (0..d).map(|j| penalty * (1 + j % 3) as f64).collect();
                let want = plain(&x, &targets, &penalties);
                for threads in [1, 3] {
                    let found = ridge(&points, &targets, &penalties, threads).unwrap();
                    let error = (&found - &want).norm_l2();
                    assert!(
                        error <= 1e-5 * (1e-9 + want.norm_l2()),
                        "{n} {d} {m}: {error}"
                    );
                    assert_eq!(found, ridge(&points, &targets, &penalties, 1).unwrap());
                }
            }
        }
    }

    #[test]
    fn a_start_has_its_lengths_and_its_rank() {
        let (n, d) = (120, 30);
        let classes: Vec<u32> = (0..n as u32).map(|i| i % 4).collect();
        let noise = matrix(n, d, 2);
        let x = Mat::from_fn(n, d, |i, j| {
            noise[(i, j)] + f64::from(u8::from(j == classes[i] as usize)) * 3.0
        });
        let points = Points::dense(x.clone());
        for count in [1, 2, 3, 10, 30] {
            let start = class_ridge(&points, &classes, count, 0.1, 2).unwrap();
            let (_, sigma, _) = svd(&start).unwrap();
            assert!(sigma[count - 1] > 1e-6 * sigma[0], "{count}: {sigma:?}");
            let seen = &x * &start;
            let square = |from: usize, to: usize| -> f64 {
                let columns = (from..to).map(|c| seen.col(c).squared_norm_l2());
                columns.sum::<f64>() / n as f64
            };
            let own = count.min(3);
            assert!((square(0, own) - 1.0).abs() < 1e-9);
            if count > own {
                assert!((square(own, count) - BESIDE * BESIDE).abs() < 1e-9);
            }
            // Classes lie apart: the mean of one is far from that of another.
            let mean = |class: u32, c: usize| -> f64 {
                let rows = (0..n).filter(|&i| classes[i] == class);
                rows.map(|i| seen[(i, c)]).sum::<f64>() / (n / 4) as f64
            };
            let apart: f64 = (0..own).map(|c| (mean(0, c) - mean(1, c)).powi(2)).sum();
            assert!(count < 3 || apart > 1.0, "{apart}");
        }
    }

    #[test]
    fn nothing_to_tell_apart_is_an_error() {
        let points = Points::dense(matrix(6, 3, 1));
        assert!(class_ridge(&points, &[0; 6], 2, 0.1, 1).is_err());
        let points = Points::dense(Mat::zeros(6, 3));
        assert!(class_ridge(&points, &[0, 1, 0, 1, 0, 1], 2, 0.1, 1).is_err());
    }
}
