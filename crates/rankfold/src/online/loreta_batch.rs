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

use super::loreta::{row_fits, set_row};
use super::{Attempt, RankOne};
use crate::form::{Factored, Psd, Tall};
use crate::kernel::padded;
use crate::linalg::{Dense, Square, svd};
use crate::{Real, SparseRow};
use faer::Mat;
use faer::linalg::solvers::SelfAdjointEigen;

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
pub(super) fn products<R: Real>(columns: &[(SparseRow<'_, R>, f64)]) -> Mat<f64> {
    let found = Overlaps::default().of(columns);
    Mat::from_fn(columns.len(), columns.len(), |i, j| found[(i, j)])
}

/// Room for the products of sparse columns with each other.
///
/// A table by feature finds the entries of earlier columns that an entry meets: most meet none.
/// Every sum has the order of [`SparseRow::dot`], and its bits.
#[derive(Debug, Clone, Default)]
pub(super) struct Overlaps {
    /// A feature, and the last entry of it; [`FREE`] where there is none.
    table: Vec<(u32, u32)>,
    met: Vec<Met>,
}

/// No entry.
const FREE: u32 = u32::MAX;

/// An entry, and the one of the same feature before it.
#[derive(Debug, Clone, Copy)]
struct Met {
    value: f64,
    column: u32,
    before: u32,
}

impl Overlaps {
    fn of<R: Real>(&mut self, columns: &[(SparseRow<'_, R>, f64)]) -> Dense {
        // At most half of the places are taken.
        let places = (2 * count_rows(columns)).next_power_of_two().max(2);
        let shift = 32 - places.trailing_zeros().min(31);
        self.table.clear();
        self.table.resize(places, (0, FREE));
        self.met.clear();
        let mut out = Dense::zero(columns.len(), columns.len());
        for (column, (x, _)) in columns.iter().enumerate() {
            let row = out.row_mut(column);
            for (&index, value) in x.indices.iter().zip(x.values) {
                let value = value.to_f64();
                let mut place = (index.wrapping_mul(0x9E37_79B1) >> shift) as usize;
                while self.table[place].1 != FREE && self.table[place].0 != index {
                    place = (place + 1) & (places - 1);
                }
                let before = self.table[place].1;
                self.table[place] = (index, self.met.len() as u32);
                row[column] += value * value;
                let mut at = before;
                while at != FREE {
                    let earlier = self.met[at as usize];
                    row[earlier.column as usize] += value * earlier.value;
                    at = earlier.before;
                }
                self.met.push(Met {
                    value,
                    column: column as u32,
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
}

/// The projections of the examples of a batch, kept from when they were scored.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    sides: [Vec<f64>; 2],
    count: usize,
    overlaps: Overlaps,
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

    /// Takes the projections of a batch of one example, where they were kept.
    pub fn take_one(&mut self, left: &mut [f64], right: &mut [f64]) -> bool {
        let kept = self.count == 1;
        if kept {
            left.copy_from_slice(&self.sides[0]);
            right.copy_from_slice(&self.sides[1]);
        }
        self.clear();
        kept
    }

    /// The vectors Ãᵀ cᵢxᵢ of a side, a row each; projected anew where they were not kept.
    fn rows<R: Real>(
        &self,
        side: usize,
        tall: &Tall<R>,
        columns: &[(SparseRow<'_, R>, f64)],
    ) -> Dense {
        let (r, k, width) = (columns.len(), tall.rank(), padded(tall.rank()));
        let mut out = Dense::zero(r, k);
        let mut wide = vec![0.0; width];
        for (i, &(x, c)) in columns.iter().enumerate() {
            let found = match self.count == r {
                true => &self.sides[side][i * width..][..k],
                false => {
                    tall.project(&mut wide, x);
                    &wide[..k]
                }
            };
            let pairs = out.row_mut(i).iter_mut().zip(found);
            pairs.for_each(|(out, v)| *out = c * v);
        }
        out
    }
}

fn inverse_if_regular(p: &Dense) -> Option<Dense> {
    let inverse = p.inverse(false)?;
    // Lengths bound the ratio of singular values from above, and cost no decomposition.
    if SINGULAR * p.norm() * inverse.norm() < 1.0 {
        return Some(inverse);
    }
    let (_, sigma, _) = svd(&p.to_faer())?;
    let (largest, least) = (sigma.first()?, sigma.last()?);
    (*least > SINGULAR * largest).then_some(inverse)
}

/// What the retraction makes of Q, the step inside of the range of W: polynomials of Q.
struct Curve {
    /// (I − ½Q) P⁻¹, with P = I + QΘ and Θ = −½ + ⅜Q.
    f: Dense,
    /// 2Θ + ΘQΘ.
    e: Dense,
    /// E(I + QE)⁻¹, where I + QE is P².
    e_inverse: Dense,
}

impl Curve {
    fn new(q: &Dense) -> Option<Self> {
        let turned = q.clone().scaled(-0.5).plus(0.375, &q.times(q));
        let p_inverse = inverse_if_regular(&turned.clone().plus_unit(1.0))?;
        let theta = q.clone().scaled(0.375).plus_unit(-0.5);
        let f = q.clone().scaled(-0.5).plus_unit(1.0).times(&p_inverse);
        let e = theta.times(&turned).plus(2.0, &theta);
        let e_inverse = e.times(&p_inverse).times(&p_inverse);
        Some(Curve { f, e, e_inverse })
    }
}

/// One side after the step Ã += Σ cᵢ xᵢ lᵢᵀ, computed but not yet written.
pub(super) struct After {
    pub gram: Square,
    gram_inverse: Square,
    /// The change of the rows of each example, before its coefficient.
    rows: Dense,
}

impl After {
    /// S' = S + UL + LᵀUᵀ + Lᵀ(GᵀG)L with its inverse, from Uᵀ and L; `None` where it is not
    /// positive definite or leaves the precision of the rows.
    pub fn new<R: Real>(
        tall: &Tall<R>,
        columns: &[(SparseRow<'_, R>, f64)],
        (u, rows): (Dense, Dense),
        overlaps: &mut Overlaps,
    ) -> Option<Self> {
        let overlaps = overlaps.of(columns);
        // Half of the change, which is this and its transpose.
        let half = rows.transposed_times(&u.plus(0.5, &overlaps.times(&rows)));
        let k = tall.rank();
        let change = |i, j| half[(i, j)] + half[(j, i)];
        let gram = Dense::from_fn(k, k, |i, j| tall.gram.get(i, j) + change(i, j));
        let mut row = vec![0.0; k];
        let fits = columns.iter().enumerate().all(|(i, &(_, c))| {
            row.copy_from_slice(rows.row(i));
            row_fits::<R>(&row, c)
        });
        let trace = (0..k).map(|i| gram[(i, i)]).sum();
        if !fits || !gram.norm().is_finite() || !Tall::<R>::in_range(trace) {
            return None;
        }
        let mut gram_inverse = gram.inverse(true)?.to_square();
        gram_inverse.symmetrize();
        Some(After {
            gram: gram.to_square(),
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
            set_row(&mut row, self.rows.row(i), c);
            tall.add_outer(x, &row);
        }
        tall.gram = self.gram;
        tall.gram_inverse = self.gram_inverse;
    }
}

pub(super) fn count_rows<R>(columns: &[(SparseRow<'_, R>, f64)]) -> usize {
    columns.iter().map(|(x, _)| x.indices.len()).sum()
}

/// Moves W = Ã K B̃ᵀ along Σ cᵢ leftᵢ ⊗ rightᵢ and retracts. Vectors of an example are rows.
pub(super) fn retract<R: Real>(
    form: &mut Factored<R>,
    gradient: &[(RankOne<'_, R>, f64)],
    kept: &mut Kept,
    limit: f64,
) -> Attempt {
    let mut left: Vec<_> = gradient.iter().map(|(e, c)| (e.left, *c)).collect();
    let right: Vec<_> = gradient.iter().map(|(e, _)| (e.right, 1.0)).collect();
    let mut u = kept.rows(0, &form.left, &left);
    let v = kept.rows(1, &form.right, &right);
    let mut a = u.times(&Dense::from_square(&form.left.gram_inverse));
    let b = v.times(&Dense::from_square(&form.right.gram_inverse));
    let inverse = Dense::from_square(&form.core_inverse);
    let mut x = a.times(&inverse.transposed());
    let y = b.times(&inverse);
    if x.norm() == 0.0 && y.norm() == 0.0 {
        return Attempt::Idle;
    }
    let mut q = b.times(&x.transposed());
    let size = q.norm();
    if size > limit {
        // All on the left is linear in the step.
        let shorter = limit / size;
        [u, a, x, q] = [u, a, x, q].map(|m| m.scaled(shorter));
        left.iter_mut().for_each(|(_, c)| *c *= shorter);
    }
    let Some(Curve { f, e, e_inverse }) = Curve::new(&q) else {
        return Attempt::Refused;
    };
    let (rows_left, rows_right) = (f.times(&y), f.transposed_times(&x));
    let overlaps = &mut kept.overlaps;
    let after_left = After::new(&form.left, &left, (u, rows_left), overlaps);
    let after_right = After::new(&form.right, &right, (v, rows_right), overlaps);
    let (Some(after_left), Some(after_right)) = (after_left, after_right) else {
        return Attempt::Worn;
    };
    let core = Dense::from_square(&form.core).plus(1.0, &a.transposed_times(&e.times(&b)));
    let core_inverse = inverse.plus(-1.0, &x.transposed_times(&e_inverse.times(&y)));
    let (core, core_inverse) = (core.to_square(), core_inverse.to_square());
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

/// Π times a matrix of 2r rows: half of it with both halves of its rows exchanged.
fn exchanged(m: &Dense) -> Dense {
    let (rows, r) = (m.rows(), m.rows() / 2);
    let mut out = Dense::zero(rows, m.columns());
    for i in 0..rows {
        let pairs = out.row_mut((i + r) % rows).iter_mut().zip(m.row(i));
        pairs.for_each(|(out, v)| *out = 0.5 * v);
    }
    out
}

/// Moves W = Ỹ K Ỹᵀ along the symmetric part of Σ cᵢ leftᵢ ⊗ rightᵢ and retracts. With
/// Q = ΓΠ all is as above up to a Π before it.
pub(super) fn retract_psd<R: Real>(
    form: &mut Psd<R>,
    gradient: &[(RankOne<'_, R>, f64)],
    kept: &mut Kept,
    limit: f64,
) -> Attempt {
    let (r, k) = (gradient.len(), form.rank());
    let lefts = gradient.iter().map(|(e, c)| (e.left, *c));
    let mut columns: Vec<_> = lefts
        .chain(gradient.iter().map(|(e, _)| (e.right, 1.0)))
        .collect();
    let [lefts, rights] = [&columns[..r], &columns[r..]];
    let mut u = Dense::zero(2 * r, k);
    for (side, columns) in [lefts, rights].into_iter().enumerate() {
        let rows = kept.rows(side, &form.factor, columns);
        (0..r).for_each(|i| u.row_mut(side * r + i).copy_from_slice(rows.row(i)));
    }
    let inverse = Dense::from_square(&form.core_inverse);
    let mut h = u.times(&Dense::from_square(&form.factor.gram_inverse));
    let mut x = h.times(&inverse);
    if x.norm() == 0.0 {
        return Attempt::Idle;
    }
    let mut gamma = h.times(&x.transposed());
    // This is never less than the radius, and costs nothing.
    let largest = match radius_at_most(&gamma) {
        bound if bound <= limit => Some(bound),
        _ => spectral_radius(&gamma),
    };
    let Some(largest) = largest else {
        return Attempt::Refused;
    };
    if largest > limit {
        let shorter = limit / largest;
        for m in [&mut u, &mut h, &mut x, &mut gamma] {
            for i in 0..r {
                m.row_mut(i).iter_mut().for_each(|v| *v *= shorter);
            }
        }
        for i in 0..2 * r {
            let lefts = &mut gamma.row_mut(i)[..r];
            lefts.iter_mut().for_each(|v| *v *= shorter);
        }
        columns[..r].iter_mut().for_each(|(_, c)| *c *= shorter);
    }
    // ΓΠ, for Γ is symmetric.
    let q = exchanged(&gamma.transposed()).transposed();
    let Some(Curve { f, e, e_inverse }) = Curve::new(&q) else {
        return Attempt::Refused;
    };
    let moved = (u, exchanged(&f.times(&x)));
    let Some(after) = After::new(&form.factor, &columns, moved, &mut kept.overlaps) else {
        return Attempt::Worn;
    };
    let change = h.transposed_times(&exchanged(&e.times(&h)));
    let inverse_change = x.transposed_times(&exchanged(&e_inverse.times(&x)));
    let mut core = Dense::from_square(&form.core)
        .plus(1.0, &change)
        .to_square();
    let mut core_inverse = inverse.plus(-1.0, &inverse_change).to_square();
    core.symmetrize();
    core_inverse.symmetrize();
    if !(core.norm() * core_inverse.norm()).is_finite() {
        return Attempt::Refused;
    }
    let k = k as f64;
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

/// No less than the largest magnitude of an eigenvalue of ΓΠ: half of the length of Γ, after
/// the scaling of its first half by t and of its second by 1/t that makes it least. Eigenvalues
/// do not see such a scaling.
fn radius_at_most(gamma: &Dense) -> f64 {
    let r = gamma.rows() / 2;
    let length = |rows: usize, columns: usize| -> f64 {
        let rows = (rows * r..(rows + 1) * r).map(|i| &gamma.row(i)[columns * r..][..r]);
        rows.flatten().map(|v| v * v).sum()
    };
    let squares = 2.0 * (length(0, 0) * length(1, 1)).sqrt() + length(0, 1) + length(1, 0);
    0.5 * squares.sqrt()
}

/// The largest magnitude of an eigenvalue of ΓΠ, which are those of Γ^½ΠΓ^½.
fn spectral_radius(gamma: &Dense) -> Option<f64> {
    let (n, gamma) = (gamma.rows(), gamma.to_faer());
    let pi = Mat::from_fn(n, n, |i, j| match i.abs_diff(j) == n / 2 {
        true => 0.5,
        false => 0.0,
    });
    let eigen = SelfAdjointEigen::new(gamma.as_ref(), faer::Side::Lower).ok()?;
    let root = |j: usize| eigen.S().column_vector()[j].max(0.0).sqrt();
    let half = Mat::from_fn(n, n, |i, j| eigen.U()[(i, j)] * root(j));
    let middle = half.transpose() * &pi * &half;
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
