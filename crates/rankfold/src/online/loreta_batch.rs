//! LORETA-r: one step along the sum of several rank-one gradients, for
//! mini-batches, at the same sparse cost an example.
//!
//! With G₁ = [c₁p₁ … c_rp_r] and G₂ = [q₁ … q_r] the step along G₁G₂ᵀ is that of
//! LORETA-1 with r×r matrices in place of its numbers. The columns of G₁ and G₂
//! stay sparse: example i changes its own rows by its own k-vector. The Gram
//! matrices are factorized anew, k³ a batch.
//!
//! For r ≥ 2 the matrix P = I − ½Q + ⅜Q² may be singular, so it is looked at.
//! The symmetric case is the same with D = [p … q …] and Π = ½[[0, I], [I, 0]].
//!
//! Cost: O(Σ(nnz pᵢ + nnz qᵢ) k + k²r + k³ + r³). Reference: [Shalit2012],
//! algorithm 3.

use super::loreta::row_fits;
use super::{Attempt, RankOne};
use crate::form::{Factored, Psd, Tall};
use crate::kernel::padded;
use crate::linalg::{Square, svd};
use crate::{Real, SparseRow};
use faer::linalg::solvers::{DenseSolveCore, SelfAdjointEigen};
use faer::{Mat, Scale};

/// P counts as singular below this ratio of its extreme singular values.
const SINGULAR: f64 = 1e-8;

/// The columns Ãᵀ cᵢxᵢ.
pub(super) fn projections<'a, R: Real>(
    tall: &Tall<R>,
    columns: impl Iterator<Item = (SparseRow<'a, R>, f64)>,
    count: usize,
) -> Mat<f64> {
    let mut out = Mat::zeros(tall.rank(), count);
    let mut wide = vec![0.0; padded(tall.rank())];
    for (i, (x, c)) in columns.enumerate() {
        tall.project(&mut wide, x);
        for j in 0..tall.rank() {
            out[(j, i)] = c * wide[j];
        }
    }
    out
}

/// The products of sparse columns with each other.
///
/// A table by feature finds the entries of earlier columns that an entry meets: most meet none.
/// Every sum has the order of [`SparseRow::dot`], and its bits.
pub(super) fn products<R: Real>(columns: &[(SparseRow<'_, R>, f64)]) -> Mat<f64> {
    const FREE: u32 = u32::MAX;
    /// An entry, and the one of the same feature before it.
    struct Met {
        index: u32,
        column: usize,
        value: f64,
        before: u32,
    }
    let count = count_rows(columns);
    // At most half of the places are taken.
    let places = (2 * count).next_power_of_two().max(2);
    let shift = 32 - places.trailing_zeros().min(31);
    let mut table = vec![FREE; places];
    let mut met: Vec<Met> = Vec::with_capacity(count);
    let mut out = Mat::zeros(columns.len(), columns.len());
    for (column, (x, _)) in columns.iter().enumerate() {
        for (&index, value) in x.indices.iter().zip(x.values) {
            let value = value.to_f64();
            let mut place = (index.wrapping_mul(0x9E37_79B1) >> shift) as usize;
            while table[place] != FREE && met[table[place] as usize].index != index {
                place = (place + 1) & (places - 1);
            }
            out[(column, column)] += value * value;
            let before = table[place];
            let mut at = before;
            while at != FREE {
                let earlier = &met[at as usize];
                out[(column, earlier.column)] += value * earlier.value;
                at = earlier.before;
            }
            table[place] = met.len() as u32;
            met.push(Met {
                index,
                column,
                value,
                before,
            });
        }
    }
    for i in 0..columns.len() {
        for j in 0..=i {
            let product = columns[i].1 * columns[j].1 * out[(i, j)];
            (out[(i, j)], out[(j, i)]) = (product, product);
        }
    }
    out
}

/// The projections of the examples of a batch, kept from when they were scored.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    sides: [Vec<f64>; 2],
    count: usize,
}

impl Kept {
    pub fn clear(&mut self) {
        self.sides.iter_mut().for_each(Vec::clear);
        self.count = 0;
    }

    /// Keeps Ãᵀ left and B̃ᵀ right of the next example.
    pub fn push(&mut self, left: &[f64], right: &[f64]) {
        self.sides[0].extend(left);
        self.sides[1].extend(right);
        self.count += 1;
    }

    /// The columns Ãᵀ cᵢxᵢ of a side; projected anew where they were not kept.
    fn columns<R: Real>(
        &self,
        side: usize,
        tall: &Tall<R>,
        columns: &[(SparseRow<'_, R>, f64)],
    ) -> Mat<f64> {
        let (r, width) = (columns.len(), padded(tall.rank()));
        match self.count == r && r > 0 {
            false => projections(tall, columns.iter().copied(), r),
            true => Mat::from_fn(tall.rank(), r, |j, i| {
                columns[i].1 * self.sides[side][i * width + j]
            }),
        }
    }
}

fn inverse_if_regular(p: &Mat<f64>) -> Option<Mat<f64>> {
    let inverse = p.partial_piv_lu().inverse();
    // Lengths bound the ratio of singular values from above, and cost no decomposition.
    if SINGULAR * p.norm_l2() * inverse.norm_l2() < 1.0 {
        return Some(inverse);
    }
    let (_, sigma, _) = svd(p)?;
    let (largest, least) = (sigma.first()?, sigma.last()?);
    (*least > SINGULAR * largest).then_some(inverse)
}

/// One side after the step Ã += Σ cᵢ xᵢ lᵢᵀ, computed but not yet written.
pub(super) struct After {
    pub gram: Square,
    gram_inverse: Square,
    /// The change of the rows of each example, before its coefficient.
    rows: Mat<f64>,
}

impl After {
    /// S' = S + UL + LᵀUᵀ + Lᵀ(GᵀG)L with its inverse; `None` where it is not
    /// positive definite or leaves the precision of the rows.
    pub fn new<R: Real>(
        tall: &Tall<R>,
        columns: &[(SparseRow<'_, R>, f64)],
        u: &Mat<f64>,
        rows: Mat<f64>,
    ) -> Option<Self> {
        let ul = u * &rows;
        let gram = tall.gram.to_faer()
            + &ul
            + ul.transpose()
            + rows.transpose() * products(columns) * &rows;
        let mut gram = Square::from_faer(&gram);
        gram.symmetrize();
        let fits = columns.iter().enumerate().all(|(i, &(_, c))| {
            let row: Vec<f64> = (0..tall.rank()).map(|j| rows[(i, j)]).collect();
            row_fits::<R>(&row, c)
        });
        if !fits || !gram.norm().is_finite() || !Tall::<R>::in_range(gram.trace()) {
            return None;
        }
        let gram_inverse = crate::linalg::invert_definite(&gram)?;
        Some(After {
            gram,
            gram_inverse,
            rows,
        })
    }

    pub fn condition(&self) -> f64 {
        let k = self.gram.size() as f64;
        self.gram.trace() / k * (self.gram_inverse.trace() / k)
    }

    pub fn write<R: Real>(self, tall: &mut Tall<R>, columns: &[(SparseRow<'_, R>, f64)]) {
        let mut row = vec![R::default(); padded(tall.rank())];
        for (i, &(x, c)) in columns.iter().enumerate() {
            for j in 0..tall.rank() {
                row[j] = R::from_f64(c * self.rows[(i, j)]);
            }
            tall.add_outer(x, &row);
        }
        tall.gram = self.gram;
        tall.gram_inverse = self.gram_inverse;
    }
}

fn beside(one: &Mat<f64>, two: &Mat<f64>) -> Mat<f64> {
    let mut out = Mat::zeros(one.nrows(), one.ncols() + two.ncols());
    out.subcols_mut(0, one.ncols()).copy_from(one);
    out.subcols_mut(one.ncols(), two.ncols()).copy_from(two);
    out
}

fn unit(size: usize) -> Mat<f64> {
    Mat::identity(size, size)
}

pub(super) fn count_rows<R>(columns: &[(SparseRow<'_, R>, f64)]) -> usize {
    columns.iter().map(|(x, _)| x.indices.len()).sum()
}

/// Moves W = Ã K B̃ᵀ along Σ cᵢ leftᵢ ⊗ rightᵢ and retracts.
pub(super) fn retract<R: Real>(
    form: &mut Factored<R>,
    gradient: &[(RankOne<'_, R>, f64)],
    kept: &Kept,
    limit: f64,
) -> Attempt {
    let r = gradient.len();
    let mut left: Vec<_> = gradient.iter().map(|(e, c)| (e.left, *c)).collect();
    let right: Vec<_> = gradient.iter().map(|(e, _)| (e.right, 1.0)).collect();
    let mut u = kept.columns(0, &form.left, &left);
    let v = kept.columns(1, &form.right, &right);
    let a = form.left.gram_inverse.to_faer() * &u;
    let b = form.right.gram_inverse.to_faer() * &v;
    let inverse = form.core_inverse.to_faer();
    let (mut a, b) = (a, b);
    let mut x = &inverse * &a;
    let y = inverse.transpose() * &b;
    if x.norm_l2() == 0.0 && y.norm_l2() == 0.0 {
        return Attempt::Idle;
    }
    let mut q = b.transpose() * &x;
    let size = q.norm_l2();
    if size > limit {
        // All on the left is linear in the step.
        let shorter = limit / size;
        for m in [&mut u, &mut a, &mut x, &mut q] {
            *m *= Scale(shorter);
        }
        left.iter_mut().for_each(|(_, c)| *c *= shorter);
    }
    let theta = Scale(-0.5) * unit(r) + Scale(0.375) * &q;
    let Some(p_inverse) = inverse_if_regular(&(unit(r) + &q * &theta)) else {
        return Attempt::Refused;
    };
    let f = (unit(r) - Scale(0.5) * &q) * &p_inverse;
    let e = Scale(2.0) * &theta + &theta * &q * &theta;
    // I + QE = P², so E(I + QE)⁻¹ is E P⁻².
    let e_inverse = &e * &p_inverse * &p_inverse;
    let after_left = After::new(&form.left, &left, &u, &f * y.transpose());
    let after_right = After::new(&form.right, &right, &v, f.transpose() * x.transpose());
    let (Some(after_left), Some(after_right)) = (after_left, after_right) else {
        return Attempt::Worn;
    };
    let core = Square::from_faer(&(form.core.to_faer() + &a * &e * b.transpose()));
    let core_inverse = Square::from_faer(&(inverse - &x * &e_inverse * y.transpose()));
    if !(core.norm() * core_inverse.norm()).is_finite() {
        return Attempt::Refused;
    }
    let condition = (after_left.condition() * after_right.condition()).sqrt()
        * core.norm()
        * core_inverse.norm()
        / form.rank() as f64;
    let worst = after_left.condition().max(after_right.condition());
    let size = (after_left.gram.trace() * after_right.gram.trace()).sqrt();
    let now = crate::form::Health { condition, size };
    if !now.is_regular(worst) {
        return Attempt::Worn;
    }
    after_left.write(&mut form.left, &left);
    after_right.write(&mut form.right, &right);
    form.core = core;
    form.core_inverse = core_inverse;
    form.after_update(count_rows(&left) + count_rows(&right), now);
    Attempt::Moved
}

/// Moves W = Ỹ K Ỹᵀ along the symmetric part of Σ cᵢ leftᵢ ⊗ rightᵢ and retracts.
pub(super) fn retract_psd<R: Real>(
    form: &mut Psd<R>,
    gradient: &[(RankOne<'_, R>, f64)],
    kept: &Kept,
    limit: f64,
) -> Attempt {
    let r = gradient.len();
    let pi = Mat::from_fn(2 * r, 2 * r, |i, j| match i.abs_diff(j) == r {
        true => 0.5,
        false => 0.0,
    });
    let lefts = gradient.iter().map(|(e, c)| (e.left, *c));
    let mut columns: Vec<_> = lefts
        .chain(gradient.iter().map(|(e, _)| (e.right, 1.0)))
        .collect();
    let [lefts, rights] = [&columns[..r], &columns[r..]];
    let mut u = beside(
        &kept.columns(0, &form.factor, lefts),
        &kept.columns(1, &form.factor, rights),
    );
    let mut h = form.factor.gram_inverse.to_faer() * &u;
    let inverse = form.core_inverse.to_faer();
    let mut x = &inverse * &h;
    if x.norm_l2() == 0.0 {
        return Attempt::Idle;
    }
    let mut gamma = h.transpose() * &x;
    // Half of its length is never less than the radius, and costs nothing.
    let largest = match 0.5 * gamma.norm_l2() {
        bound if bound <= limit => Some(bound),
        _ => spectral_radius(&gamma, &pi),
    };
    let Some(largest) = largest else {
        return Attempt::Refused;
    };
    if largest > limit {
        let shorter = limit / largest;
        for m in [&mut u, &mut h, &mut x] {
            for i in 0..r {
                (0..m.nrows()).for_each(|j| m[(j, i)] *= shorter);
            }
        }
        columns[..r].iter_mut().for_each(|(_, c)| *c *= shorter);
        gamma = h.transpose() * &x;
    }
    let theta = Scale(-0.5) * &pi + Scale(0.375) * (&pi * &gamma * &pi);
    let Some(p_inverse) = inverse_if_regular(&(unit(2 * r) + &gamma * &theta)) else {
        return Attempt::Refused;
    };
    let f = (unit(2 * r) - Scale(0.5) * (&gamma * &pi)) * &p_inverse;
    let phi = &pi * &f;
    let e = Scale(2.0) * &theta + &theta * &gamma * &theta;
    let e_inverse = &e * &p_inverse * &p_inverse;
    let Some(after) = After::new(&form.factor, &columns, &u, &phi * x.transpose()) else {
        return Attempt::Worn;
    };
    let mut core = Square::from_faer(&(form.core.to_faer() + &h * &e * h.transpose()));
    let mut core_inverse = Square::from_faer(&(inverse - &x * &e_inverse * x.transpose()));
    core.symmetrize();
    core_inverse.symmetrize();
    if !(core.norm() * core_inverse.norm()).is_finite() {
        return Attempt::Refused;
    }
    let k = form.rank() as f64;
    let now = crate::form::Health {
        condition: after.condition() * (core.trace() / k) * (core_inverse.trace() / k),
        size: after.gram.trace(),
    };
    if !now.is_regular(after.condition()) {
        return Attempt::Worn;
    }
    after.write(&mut form.factor, &columns);
    form.core = core;
    form.core_inverse = core_inverse;
    form.after_update(count_rows(&columns), now);
    Attempt::Moved
}

/// The largest magnitude of an eigenvalue of ΓΠ, which are those of Γ^½ΠΓ^½.
fn spectral_radius(gamma: &Mat<f64>, pi: &Mat<f64>) -> Option<f64> {
    let n = gamma.nrows();
    let eigen = SelfAdjointEigen::new(gamma.as_ref(), faer::Side::Lower).ok()?;
    let root = |j: usize| eigen.S().column_vector()[j].max(0.0).sqrt();
    let half = Mat::from_fn(n, n, |i, j| eigen.U()[(i, j)] * root(j));
    let middle = half.transpose() * pi * &half;
    let eigen = SelfAdjointEigen::new(middle.as_ref(), faer::Side::Lower).ok()?;
    let values = eigen.S().column_vector();
    Some(values.iter().fold(0.0, |m: f64, v| m.max(v.abs())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SparseVec;
    use crate::random::Random;

    /// Sparse, dense, empty and equal columns: one product each is the oracle.
    #[test]
    fn products_have_the_bits_of_one_dot_each() {
        let mut random = Random::new(5, 0);
        for (features, count) in [(1, 1), (3, 4), (40, 9), (1000, 6)] {
            let row = |random: &mut Random| {
                let share = random.below(100);
                let mut entries = Vec::new();
                for j in 0..features {
                    if random.below(100) < share {
                        entries.push((j, random.below(1000) as f32 / 1000.0 - 0.5));
                    }
                }
                SparseVec::from_entries(entries)
            };
            let mut rows: Vec<SparseVec<f32>> = (0..count).map(|_| row(&mut random)).collect();
            rows.push(SparseVec::new());
            rows.push(rows[0].clone());
            let columns: Vec<_> = (1..)
                .zip(&rows)
                .map(|(i, row)| (row.as_row(), 0.3 * f64::from(i) - 1.0))
                .collect();
            let found = products(&columns);
            for (i, &(x, c)) in columns.iter().enumerate() {
                for (j, &(y, d)) in columns.iter().enumerate() {
                    let (c, d) = if i < j { (d, c) } else { (c, d) };
                    assert_eq!(found[(i, j)], c * d * x.dot(y), "{i} {j}");
                }
            }
        }
    }
}
