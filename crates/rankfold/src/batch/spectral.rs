//! Leading singular vectors of what a model leaves unexplained, and starts made
//! of them.

use super::problem::Problem;
use crate::linalg::svd;
use crate::manifold::{beside, thin_qr};
use crate::random::normal_at;
use faer::Mat;

/// Power iterations for one pair, which a rank is grown by, and for several at once:
/// directions are wanted, not digits.
const ITERATIONS: [usize; 2] = [8, 3];

/// Weights that keep lines with very many entries from deciding alone.
pub(super) type Trim<'a> = Option<&'a [Vec<f64>; 2]>;

fn weighted(m: &Mat<f64>, weights: Option<&Vec<f64>>) -> Mat<f64> {
    match weights {
        None => m.clone(),
        Some(w) => Mat::from_fn(m.nrows(), m.ncols(), |i, j| w[i] * m[(i, j)]),
    }
}

/// The leading singular triplets P, σ, Q of −E, minus the gradient at W = L Rᵀ.
pub(super) fn leading(
    problem: &impl Problem,
    (left, right): (&Mat<f64>, &Mat<f64>),
    count: usize,
    trim: Trim<'_>,
    seed: u64,
) -> Option<(Mat<f64>, Vec<f64>, Mat<f64>)> {
    let ((n, m), k) = (problem.shape(), left.ncols());
    let [rows, columns] = [0, 1].map(|side| trim.map(|trim| &trim[side]));
    // Beside the factors stand columns that meet zeros on the other side: W is
    // as it was, and the products with E come with those of the factors.
    let forward = |q: &Mat<f64>| {
        let q = weighted(q, columns);
        let er = problem.er(&beside(left, &Mat::zeros(n, count)), &beside(right, &q));
        let out = faer::Scale(-1.0) * er.subcols(k, count);
        weighted(&out, rows)
    };
    let backward = |p: &Mat<f64>| {
        let p = weighted(p, rows);
        let el = problem.el(&beside(left, &p), &beside(right, &Mat::zeros(m, count)));
        let out = faer::Scale(-1.0) * el.subcols(k, count);
        weighted(&out, columns)
    };
    let start = Mat::from_fn(m, count, |i, j| normal_at(seed, 17, i as u64, j as u64));
    let mut q = thin_qr(&start)?.0;
    for _ in 0..ITERATIONS[usize::from(count > 1)] {
        let p = thin_qr(&forward(&q))?.0;
        q = thin_qr(&backward(&p))?.0;
    }
    let p = forward(&q);
    let (basis, r) = thin_qr(&p)?;
    let (inner, sigma, turn) = svd(&r)?;
    Some((basis * inner, sigma, q * turn))
}

/// W = L Rᵀ with the leading singular pairs of what it leaves added, as many as
/// asked for and as long as lowers the cost most; `None` where nothing is left.
pub fn grow(
    problem: &impl Problem,
    left: &Mat<f64>,
    right: &Mat<f64>,
    count: usize,
    seed: u64,
) -> Option<(Mat<f64>, Mat<f64>)> {
    let (p, sigma, q) = leading(problem, (left, right), count, None, seed)?;
    extend(problem, (left, right), (p, sigma, q))
}

/// A start with the leading singular pairs of the known entries, where lines with
/// more than twice the mean number of entries weigh no more than that.
pub fn trimmed_start(
    problem: &impl Problem,
    rank: usize,
    counts: [Vec<usize>; 2],
    seed: u64,
) -> Option<(Mat<f64>, Mat<f64>)> {
    let (n, m) = problem.shape();
    let weights = counts.map(|counts| {
        let mean = counts.iter().sum::<usize>() as f64 / counts.len().max(1) as f64;
        let weight = |&count: &usize| (2.0 * mean / count.max(1) as f64).min(1.0);
        counts.iter().map(weight).collect::<Vec<f64>>()
    });
    let nothing = (&Mat::zeros(n, 0), &Mat::zeros(m, 0));
    let found = leading(problem, nothing, rank, Some(&weights), seed)?;
    extend(problem, nothing, found)
}

fn extend(
    problem: &impl Problem,
    (left, right): (&Mat<f64>, &Mat<f64>),
    (p, sigma, q): (Mat<f64>, Vec<f64>, Mat<f64>),
) -> Option<(Mat<f64>, Mat<f64>)> {
    let scaled =
        |m: &Mat<f64>| Mat::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)] * sigma[j].sqrt());
    let (p, q) = (scaled(&p), scaled(&q));
    // ⟨−E, PΣQᵀ⟩ over its second derivative.
    let slope: f64 = {
        let er = problem.er(
            &beside(left, &Mat::zeros(p.nrows(), q.ncols())),
            &beside(right, &q),
        );
        -crate::manifold::dot(&er.subcols(left.ncols(), q.ncols()).to_owned(), &p)
    };
    let hessian_product = problem.curvature((&p, &q));
    let length = (slope / hessian_product).sqrt();
    (length.is_finite() && length > 0.0).then(|| {
        let scale = faer::Scale(length);
        (beside(left, &(scale * p)), beside(right, &(scale * q)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Completion, Observed, Part};
    use super::*;
    use crate::manifold::tests::matrix;

    #[test]
    fn a_full_matrix_is_its_own_spectral_start() {
        let (n, m, k) = (20, 15, 3);
        let truth = &matrix(n, k, 1) * matrix(m, k, 2).transpose();
        let entries = (0..n * m).map(|t| ((t / m) as u32, (t % m) as u32, truth[(t / m, t % m)]));
        let (observed, _) = Observed::new((n, m), entries.collect()).unwrap();
        let problem = Completion {
            entries: observed.part(Part::All),
            center: 0.0,
            threads: 1,
        };
        let counts = [vec![m; n], vec![n; m]];
        let (l, r) = trimmed_start(&problem, k, counts, 0).unwrap();
        assert!((l * r.transpose() - &truth).norm_l2() < 1e-6 * truth.norm_l2());
        // One pair after the other comes to the same, up to the power iterations.
        let (mut l, mut r) = (Mat::zeros(n, 0), Mat::zeros(m, 0));
        for rank in 1..=k {
            (l, r) = grow(&problem, &l, &r, 1, 0).unwrap();
            assert_eq!(l.ncols(), rank);
        }
        assert!((l * r.transpose() - &truth).norm_l2() < 0.05 * truth.norm_l2());
        assert!(
            grow(&problem, &matrix(n, k, 1), &matrix(m, k, 2), 1, 0).is_none_or(|(l, r)| (l * r
                .transpose()
                - &truth)
                .norm_l2()
                < 1e-6 * truth.norm_l2())
        );
    }
}
