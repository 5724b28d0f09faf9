//! Averages of matrices that keep their rank: (1−a) W̄ + a W, cut back to rank k.
//!
//! The sum of two matrices of rank k is a product of factors with 2k columns.
//! Its best approximation of rank k follows from their Gram matrices, so it
//! costs a few passes over the rows, O((n + m) k²), and k³.

use super::{Factored, Form, FormRef, Full, Gauge, PolarPsd, Psd, Tall};
use crate::linalg::{Square, svd};
use crate::{Real, Result};
use faer::Mat;

/// (1−share) · average + share · form. `None` when one of them has lost rank to
/// working precision, or they are of different kinds.
pub(crate) fn blend<R: Real>(
    average: &Form<R>,
    form: FormRef<'_, R>,
    share: f64,
) -> Result<Option<Form<R>>> {
    Ok(match (average, form) {
        (Form::Psd(average), FormRef::Psd(form)) => {
            let (old, new) = (average.gauge(), form.gauge());
            psd([average.factor(), form.factor()], [old, new], share)?.map(Form::Psd)
        }
        (Form::PolarPsd(average), FormRef::PolarPsd(form)) => {
            let (old, new) = (average.gauge(), form.gauge());
            let sum = psd([average.factor(), form.factor()], [old, new], share)?;
            sum.and_then(PolarPsd::from_psd).map(Form::PolarPsd)
        }
        (Form::Factored(average), FormRef::Factored(form)) => {
            factored(average, form, share)?.map(Form::Factored)
        }
        (Form::Full(average), FormRef::Full(form)) => Some(Form::Full(full(average, form, share)?)),
        _ => None,
    })
}

/// Two tall factors side by side, each mapped by a k×k matrix.
struct Pair<'a, R> {
    talls: [&'a Tall<R>; 2],
    maps: [Mat<f64>; 2],
}

impl<R: Real> Pair<'_, R> {
    /// The Gram matrix of all 2k columns.
    fn gram(&self) -> Mat<f64> {
        let [first, second] = self.talls;
        let [s, t] = &self.maps;
        let k = first.rank();
        let cross = s.transpose() * first.cross_gram(second).to_faer() * t;
        let own =
            |tall: &Tall<R>, map: &Mat<f64>| map.transpose() * tall.gram_now().to_faer() * map;
        let (a, b) = (own(first, s), own(second, t));
        Mat::from_fn(2 * k, 2 * k, |i, j| match (i < k, j < k) {
            (true, true) => a[(i, j)],
            (true, false) => cross[(i, j - k)],
            (false, true) => cross[(j, i - k)],
            (false, false) => b[(i - k, j - k)],
        })
    }

    /// The columns times a 2k×k matrix.
    fn multiplied(&self, t: &Mat<f64>) -> Result<Tall<R>> {
        let k = self.talls[0].rank();
        let half = |from: usize| Mat::from_fn(k, k, |i, j| t[(from + i, j)]);
        let maps = [&self.maps[0] * half(0), &self.maps[1] * half(k)];
        self.talls[0].combined(
            &Square::from_faer(&maps[0]),
            self.talls[1],
            &Square::from_faer(&maps[1]),
        )
    }
}

/// V and Λ^½ of a Gram matrix, without what is zero to working precision.
fn root(gram: &Mat<f64>) -> Option<(Mat<f64>, Vec<f64>)> {
    let eigen = gram.self_adjoint_eigen(faer::Side::Lower).ok()?;
    let values: Vec<f64> = eigen.S().column_vector().iter().copied().collect();
    let n = values.len();
    let largest = values.last()?.max(0.0);
    let kept = (0..n).rev().filter(|&j| values[j] > 1e-14 * largest);
    let kept: Vec<usize> = kept.collect();
    let vectors = Mat::from_fn(n, kept.len(), |i, j| eigen.U()[(i, kept[j])]);
    let roots = kept.iter().map(|&j| values[j].sqrt()).collect();
    largest.is_finite().then_some((vectors, roots))
}

fn psd<R: Real>(
    talls: [&Tall<R>; 2],
    gauges: [Option<Gauge>; 2],
    share: f64,
) -> Result<Option<Psd<R>>> {
    let [Some(old), Some(new)] = gauges else {
        return Ok(None);
    };
    let k = talls[0].rank();
    let pair = Pair {
        talls,
        maps: [
            faer::Scale((1.0 - share).sqrt()) * old.left.to_faer(),
            faer::Scale(share.sqrt()) * new.left.to_faer(),
        ],
    };
    let Some((vectors, roots)) = root(&pair.gram()) else {
        return Ok(None);
    };
    if roots.len() < k {
        return Ok(None);
    }
    // [Ȳ Y] V has orthogonal columns, the longest first.
    let top = Mat::from_fn(2 * k, k, |i, j| vectors[(i, j)]);
    let factor = pair.multiplied(&top)?;
    Ok(Some(Psd::new(factor)))
}

fn factored<R: Real>(
    average: &Factored<R>,
    form: &Factored<R>,
    share: f64,
) -> Result<Option<Factored<R>>> {
    let (Some(old), Some(new)) = (average.gauge(), form.gauge()) else {
        return Ok(None);
    };
    let k = form.rank();
    let scaled = |a: &Square, b: &Square| {
        [
            faer::Scale((1.0 - share).sqrt()) * a.to_faer(),
            faer::Scale(share.sqrt()) * b.to_faer(),
        ]
    };
    let left = Pair {
        talls: [average.left(), form.left()],
        maps: scaled(&old.left, &new.left),
    };
    let right = Pair {
        talls: [average.right(), form.right()],
        maps: scaled(&old.right, &new.right),
    };
    let (Some((u, s)), Some((v, t))) = (root(&left.gram()), root(&right.gram())) else {
        return Ok(None);
    };
    // W = L Rᵀ, L = (L U S⁻¹) S Uᵀ: the SVD of S Uᵀ V T is that of W.
    let scaled_u = Mat::from_fn(2 * k, s.len(), |i, j| u[(i, j)] * s[j]);
    let scaled_v = Mat::from_fn(2 * k, t.len(), |i, j| v[(i, j)] * t[j]);
    let Some((p, sigma, q)) = svd(&(scaled_u.transpose() * scaled_v)) else {
        return Ok(None);
    };
    if sigma.len() < k || sigma[k - 1] <= 0.0 {
        return Ok(None);
    }
    let map = |u: &Mat<f64>, s: &[f64], p: &Mat<f64>| {
        let unscaled = Mat::from_fn(2 * k, s.len(), |i, j| u[(i, j)] / s[j]);
        let top = Mat::from_fn(s.len(), k, |i, j| p[(i, j)] * sigma[j].sqrt());
        unscaled * top
    };
    let (left, right) = (
        left.multiplied(&map(&u, &s, &p))?,
        right.multiplied(&map(&v, &t, &q))?,
    );
    Ok(Some(Factored::new(left, right)))
}

fn full<R: Real>(average: &Full<R>, form: &Full<R>, share: f64) -> Result<Full<R>> {
    let mut out = form.clone();
    let (rows, _) = average.shape();
    // Rows of W itself: an average has no groups.
    out.groups = None;
    for i in 0..rows {
        let (old, new) = ((1.0 - share) * average.weight(i), share * form.weight(i));
        for (to, from) in out.row_mut(i).iter_mut().zip(average.row(i)) {
            *to = R::from_f64(old * from.to_f64() + new * to.to_f64());
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tall(n: usize, k: usize, seed: usize) -> Tall<f64> {
        Tall::from_fn(n, k, |i, j| (((i + 2) * (j + 3) * (seed + 7)) as f64).sin()).unwrap()
    }

    fn dense(form: &Form<f64>) -> Mat<f64> {
        let rows = match form {
            Form::Psd(form) => form.to_dense(),
            Form::Factored(form) => form.to_dense(),
            Form::PolarPsd(form) => form.to_dense(),
            Form::Full(form) => form.to_dense(),
            _ => unreachable!("not blended here"),
        };
        Mat::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
    }

    /// The best approximation of rank k.
    fn truncated(w: &Mat<f64>, k: usize) -> Mat<f64> {
        let (p, sigma, q) = svd(w).unwrap();
        let p = Mat::from_fn(w.nrows(), k, |i, j| p[(i, j)] * sigma[j]);
        let q = Mat::from_fn(w.ncols(), k, |i, j| q[(i, j)]);
        &p * q.transpose()
    }

    #[test]
    fn a_blend_is_the_best_matrix_of_its_rank() {
        for k in [1, 3] {
            let forms = |seed: usize| {
                [
                    Form::Psd(Psd::new(tall(11, k, seed))),
                    Form::PolarPsd(PolarPsd::from_psd(Psd::new(tall(11, k, seed))).unwrap()),
                    Form::Factored(Factored::new(tall(11, k, seed), tall(8, k, seed + 1))),
                ]
            };
            for (a, b) in forms(1).into_iter().zip(forms(4)) {
                let blended = blend(&a, b.view(), 0.3).unwrap().unwrap();
                let sum = faer::Scale(0.7) * dense(&a) + faer::Scale(0.3) * dense(&b);
                let off = dense(&blended) - truncated(&sum, k);
                assert!(off.norm_l2() < 1e-10 * sum.norm_l2(), "{}", off.norm_l2());
                assert_eq!(blended.view().rank(), k);
                // Blended with itself a matrix stays what it is.
                let same = blend(&a, a.view(), 0.5).unwrap().unwrap();
                assert!((dense(&same) - dense(&a)).norm_l2() < 1e-7 * dense(&a).norm_l2());
            }
        }
    }

    #[test]
    fn full_matrices_blend_entry_by_entry() {
        let a = Form::Full(Full::<f64>::diagonal(2, 3, 1.0).unwrap());
        let b = Full::diagonal(2, 3, 5.0).unwrap();
        let blended = blend(&a, FormRef::Full(&b), 0.25).unwrap().unwrap();
        assert_eq!(dense(&blended)[(1, 1)], 2.0);
        assert_eq!(dense(&blended)[(0, 1)], 0.0);
    }
}
