//! The best matrix of another rank.
//!
//! With W = P Σ Qᵀ, the nearest matrix of a lower rank r keeps the r largest singular values
//! (Eckart and Young). A higher rank keeps W and adds directions at right angles to it, whose
//! singular values are 1e-6 of the largest: learners need exact rank, and W should not change.
//! Costs (n + m) k r.

use super::{Factored, Form, FormRef, Polar, PolarPsd, Psd, Tall};
use crate::linalg::Square;
use crate::random::normal_at;
use crate::{Error, Real, Result};
use faer::Mat;

/// New singular values, as a share of the largest.
pub(crate) const GROWN: f64 = 1e-6;

impl<R: Real> FormRef<'_, R> {
    /// The nearest matrix of this rank in the same form, and its distance from W as a share of
    /// the norm of W. New directions are functions of the seed.
    pub fn with_rank(self, rank: usize, seed: u64) -> Result<(Form<R>, f64)> {
        let ([left, right], lost) = self.balanced(rank, seed)?;
        Ok((self.rebuilt(left, right)?, lost))
    }

    /// A form of the same kind from balanced factors.
    pub(crate) fn rebuilt(self, left: Tall<R>, right: Tall<R>) -> Result<Form<R>> {
        let rank = left.rank();
        let apart = || {
            Error::input(format!(
                "rank {rank} cannot be told apart in this precision"
            ))
        };
        Ok(match self {
            FormRef::Psd(before) => {
                let mut form = Psd::new(left);
                form.trace = before.trace.map(|_| form.trace());
                Form::Psd(form)
            }
            FormRef::PolarPsd(_) => {
                Form::PolarPsd(PolarPsd::from_psd(Psd::new(left)).ok_or_else(apart)?)
            }
            FormRef::Polar(_) => {
                let form = Polar::from_factored(Factored::new(left, right));
                Form::Polar(form.ok_or_else(apart)?)
            }
            _ => Form::Factored(Factored::new(left, right)),
        })
    }

    /// P Σ^½ and Q Σ^½; `None` where W is stored in full or has lost rank.
    pub(crate) fn balanced_factors(self) -> Option<[Mat<f64>; 2]> {
        let (left, right) = self.factors()?;
        let gauge = self.gauge()?;
        let mapped = |tall: &Tall<R>, map: &Square| {
            let mut out = Mat::zeros(tall.rows(), tall.rank());
            let mut i = 0;
            tall.for_each_mapped(map, |row| {
                (0..tall.rank()).for_each(|j| out[(i, j)] = row[j]);
                i += 1;
            });
            out
        };
        Some([mapped(left, &gauge.left), mapped(right, &gauge.right)])
    }

    /// The same as P Σ^½ and Q Σ^½.
    pub(crate) fn balanced(self, rank: usize, seed: u64) -> Result<([Tall<R>; 2], f64)> {
        let (rows, columns) = self.shape();
        let most = rows.min(columns);
        if rank == 0 || rank > most {
            let message = format!("is {rank}: expected 1 to {most}, the smaller side of W");
            return Err(Error::option("rank", message));
        }
        let Some((left, right)) = self.factors() else {
            return Err(Error::input(
                "W is stored in full: it has no rank to change",
            ));
        };
        let gauge = self.gauge();
        let gauge = gauge.ok_or_else(|| Error::input("W has lost rank: train it again"))?;
        let sigma = &gauge.singular_values;
        let side = |tall: &Tall<R>, map: &Square, stream: u64| -> Result<Tall<R>> {
            let columns = columns_of(tall, map, sigma, rank, (seed, stream));
            Tall::from_fn(tall.rows(), rank, |i, j| columns[j][i])
        };
        let square = |values: &[f64]| values.iter().map(|s| s * s).sum::<f64>();
        let (all, cut) = (square(sigma), &sigma[rank.min(sigma.len())..]);
        let sides = [side(left, &gauge.left, 41)?, side(right, &gauge.right, 43)?];
        Ok((sides, (square(cut) / all).sqrt()))
    }
}

/// The columns of P Σ^½, cut to a rank or with new ones at right angles to them.
fn columns_of<R: Real>(
    tall: &Tall<R>,
    map: &Square,
    sigma: &[f64],
    rank: usize,
    (seed, stream): (u64, u64),
) -> Vec<Vec<f64>> {
    let rows = tall.rows();
    let entry = |i: usize, j: usize| -> f64 {
        let row = tall.row(i).iter().enumerate();
        row.map(|(t, v)| v.to_f64() * map.get(t, j)).sum()
    };
    let mut out: Vec<Vec<f64>> = (0..rank.min(sigma.len()))
        .map(|j| (0..rows).map(|i| entry(i, j)).collect())
        .collect();
    let size = (GROWN * sigma.first().copied().unwrap_or(1.0)).sqrt();
    grow_columns(&mut out, rows, rank, size, (seed, stream));
    out
}

/// Adds columns of this length at right angles to all others, up to a rank.
pub(crate) fn grow_columns(
    columns: &mut Vec<Vec<f64>>,
    rows: usize,
    rank: usize,
    size: f64,
    (seed, stream): (u64, u64),
) {
    while columns.len() < rank {
        let j = columns.len() as u64;
        let mut new: Vec<f64> = (0..rows as u64)
            .map(|i| normal_at(seed, stream, i, j))
            .collect();
        // Twice, because once leaves rounding errors of the size of what is taken away.
        for _ in 0..2 {
            for other in &*columns {
                let share = dot(&new, other) / dot(other, other);
                new.iter_mut().zip(other).for_each(|(v, o)| *v -= share * o);
            }
        }
        let scale = size / dot(&new, &new).sqrt();
        new.iter_mut().for_each(|v| *v *= scale);
        columns.push(new);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tall(rows: usize, k: usize, seed: u64) -> Tall<f64> {
        Tall::from_fn(rows, k, |i, j| normal_at(seed, 1, i as u64, j as u64)).unwrap()
    }

    fn forms() -> Vec<Form<f64>> {
        let factored = || Factored::new(tall(9, 4, 1), tall(7, 4, 2));
        vec![
            Form::Factored(factored()),
            Form::Polar(Polar::from_factored(factored()).unwrap()),
            Form::Psd(Psd::new(tall(8, 4, 3))),
            Form::PolarPsd(PolarPsd::from_psd(Psd::new(tall(8, 4, 4))).unwrap()),
        ]
    }

    fn dense(form: &Form<f64>) -> Vec<Vec<f64>> {
        let (rows, columns) = form.view().shape();
        let unit = |i: usize| crate::SparseVec::from_entries(vec![(i as u32, 1.0)]);
        let entry = |i: usize, j: usize| form.view().score(unit(i).as_row(), unit(j).as_row());
        let row = |i: usize| (0..columns).map(|j| entry(i, j)).collect();
        (0..rows).map(row).collect()
    }

    fn distance(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
        let pairs = a.iter().flatten().zip(b.iter().flatten());
        pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn a_lower_rank_is_the_nearest_one() {
        for form in forms() {
            let w = dense(&form);
            let sigma = form.view().gauge().unwrap().singular_values;
            let norm = sigma.iter().map(|s| s * s).sum::<f64>().sqrt();
            for rank in 1..=4 {
                let (cut, lost) = form.view().with_rank(rank, 7).unwrap();
                let rest = sigma[rank..].iter().map(|s| s * s).sum::<f64>().sqrt();
                let far = distance(&w, &dense(&cut));
                assert!((far - rest).abs() < 1e-12 * norm * 100.0, "{far} {rest}");
                assert!((lost - rest / norm).abs() < 1e-12);
                assert_eq!(cut.view().rank(), rank);
                assert_eq!(
                    std::mem::discriminant(&cut),
                    std::mem::discriminant(&form),
                    "the same form"
                );
            }
        }
    }

    #[test]
    fn up_and_down_again_is_the_same_matrix() {
        for form in forms() {
            let w = dense(&form);
            let sigma = form.view().gauge().unwrap().singular_values;
            let (up, lost) = form.view().with_rank(7, 7).unwrap();
            assert_eq!((up.view().rank(), lost), (7, 0.0));
            let added = up.view().gauge().unwrap().singular_values;
            for new in &added[4..] {
                assert!((new / sigma[0] - GROWN).abs() < 1e-9, "{new}");
            }
            let (down, lost) = up.view().with_rank(4, 7).unwrap();
            assert!(lost < 3.0 * GROWN);
            assert!(distance(&w, &dense(&down)) < 1e-12 * 100.0 * sigma[0]);
            for wrong in [0, 10] {
                assert!(form.view().with_rank(wrong, 7).is_err());
            }
        }
    }
}
