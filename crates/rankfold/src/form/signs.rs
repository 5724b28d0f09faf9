//! Signs of the balanced gauge, which an SVD leaves open.
//!
//! With P Σ Qᵀ also (P D) Σ (Q D)ᵀ is an SVD of W for any diagonal D of ±1. The
//! signs are fixed by the largest entry of each column of P: it is positive.
//! Left and right columns flip together, so scores keep every bit. The cost is
//! a pass over the left factor, O(n k²), which scores can do without.

use super::{FormRef, Gauge};
use crate::Real;

impl<R: Real> FormRef<'_, R> {
    /// The balanced SVD gauge of W with its signs fixed: the entry of largest
    /// magnitude in each left singular vector is positive, that of the smaller
    /// feature where magnitudes are equal.
    pub fn signed_gauge(self) -> Option<Gauge> {
        let mut gauge = self.gauge()?;
        let (left, _) = self.factors()?;
        let k = self.rank();
        // Magnitudes that agree to half their digits are equal: which of them
        // is larger would be decided by rounding, and so by how W is stored.
        let clearly = 1.0 + R::EPSILON.sqrt();
        let mut largest = vec![0.0_f64; k];
        left.for_each_mapped(&gauge.left, |row| {
            for (largest, &entry) in largest.iter_mut().zip(row) {
                if entry.abs() > clearly * largest.abs() {
                    *largest = entry;
                }
            }
        });
        for j in (0..k).filter(|&j| largest[j] < 0.0) {
            for map in [&mut gauge.left, &mut gauge.right] {
                for i in 0..k {
                    *map.get_mut(i, j) = -map.get(i, j);
                }
            }
        }
        Some(gauge)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Factored, Form, PolarPsd, Psd, Side, Tall};
    use super::*;
    use crate::{Rows, SparseVec};

    const FEATURES: usize = 23;

    fn tall<R: Real>(k: usize, seed: usize) -> Tall<R> {
        let entry = |i: usize, j: usize| {
            // Columns of different lengths keep the singular values apart.
            (((i + 3) * (j + 2) * (seed + 5)) as f64).sin() * (1.0 + j as f64)
        };
        Tall::from_fn(FEATURES, k, entry).unwrap()
    }

    fn forms<R: Real>(k: usize) -> [Form<R>; 3] {
        [
            Form::Psd(Psd::new(tall(k, 1))),
            Form::PolarPsd(PolarPsd::from_psd(Psd::new(tall(k, 1))).unwrap()),
            Form::Factored(Factored::new(tall(k, 1), tall(k, 2))),
        ]
    }

    fn refresh<R: Real>(form: &mut Form<R>) {
        assert!(match form {
            Form::Psd(form) => form.refresh(),
            Form::PolarPsd(form) => form.refresh(),
            Form::Factored(form) => form.refresh(),
            _ => false,
        });
    }

    /// One row a feature: its coordinates are the rows of P Σ^½ or Q Σ^½.
    fn units<R: Real>() -> Rows<R> {
        let unit = |i: u32| SparseVec::from_entries(vec![(i, R::from_f64(1.0))]);
        let units: Vec<SparseVec<R>> = (0..FEATURES as u32).map(unit).collect();
        units.iter().map(SparseVec::as_row).collect()
    }

    fn embedded<R: Real>(form: &Form<R>, side: Side) -> Vec<f64> {
        let gauge = form.view().signed_gauge().unwrap();
        let members: Vec<u32> = (0..FEATURES as u32).collect();
        let values = form.view().embed(&gauge, &units(), &members, side);
        values.into_iter().map(R::to_f64).collect()
    }

    fn unchanged_by_a_refresh<R: Real>() {
        for k in [1, 2, 5] {
            for mut form in forms::<R>(k) {
                let before = [Side::Left, Side::Right].map(|side| embedded(&form, side));
                refresh(&mut form);
                let after = [Side::Left, Side::Right].map(|side| embedded(&form, side));
                let largest = before[0].iter().fold(0.0_f64, |m, v| m.max(v.abs()));
                let tolerance = 1e3 * R::EPSILON * largest;
                for (before, after) in before.iter().flatten().zip(after.iter().flatten()) {
                    assert!((before - after).abs() <= tolerance, "{before} {after}");
                }
            }
        }
    }

    #[test]
    fn coordinates_do_not_depend_on_how_w_is_stored() {
        unchanged_by_a_refresh::<f32>();
        unchanged_by_a_refresh::<f64>();
    }

    #[test]
    fn the_largest_left_entry_is_positive_and_products_are_scores() {
        let k = 5;
        for form in forms::<f64>(k) {
            let [left, right] = [Side::Left, Side::Right].map(|side| embedded(&form, side));
            for j in 0..k {
                let column = left.iter().skip(j).step_by(k);
                let largest = column.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap();
                assert!(*largest > 0.0, "column {j}: {largest}");
            }
            let units = units();
            for (i, left) in left.chunks_exact(k).enumerate() {
                for (j, right) in right.chunks_exact(k).enumerate() {
                    let product: f64 = left.iter().zip(right).map(|(a, b)| a * b).sum();
                    let score = form.view().score(units.row(i), units.row(j));
                    assert!((product - score).abs() < 1e-11, "{product} {score}");
                }
            }
        }
    }

    #[test]
    fn of_equal_magnitudes_the_first_is_positive() {
        for sign in [1.0, -1.0] {
            let column = [0.5, -3.0, 3.0, 3.0 * (1.0 + 1e-12), 0.0];
            let factor = Tall::<f64>::from_fn(5, 1, |i, _| sign * column[i]).unwrap();
            let form = Form::Psd(Psd::new(factor));
            let gauge = form.view().signed_gauge().unwrap();
            let mut entries = Vec::new();
            let (left, _) = form.view().factors().unwrap();
            left.for_each_mapped(&gauge.left, |row| entries.push(row[0]));
            assert!(entries[1] > 0.0 && entries[2] < 0.0, "{entries:?}");
        }
    }
}
