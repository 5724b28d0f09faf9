//! Some columns of a matrix with holes, the share of one agent in completion.
//!
//! ```text
//! f(U) = min_W ½‖P(UWᵀ) − P(Y)‖² + λ/2 ‖UWᵀ − P(UWᵀ)‖²
//! ((1−λ) U_jᵀU_j + λI) w_j = U_jᵀ y_j         gradient: [(1−λ)P(UWᵀ) − P(Y)] W
//! ```
//!
//! Entries are kept by columns only, and a pass reads each of them once while its
//! column is at hand: O(|Ω|r² + nr³). It is [`crate::batch::Subspace`] on one thread, in
//! half of the memory: agents run beside each other.

use super::message::{Reader, Writer};
use super::seat::Sent;
use super::work::{Local, Passed, Work};
use crate::batch::View;
use crate::batch::normal::Normal;
use crate::batch::pass::{by_width, dot_row};
use crate::batch::rowwise::Rowwise;
use crate::kernel::vectorized;
use crate::{Result, memory};
use faer::Mat;
use std::ops::Range;

/// Columns of known entries.
#[derive(Debug, Clone)]
pub struct Columns {
    rows: usize,
    starts: Vec<usize>,
    index: Vec<u32>,
    value: Vec<f64>,
    lambda: f64,
}

impl Columns {
    /// Some of the columns of a matrix, with `center` subtracted from all entries; λ
    /// is from 0 to 1.
    pub fn new(
        entries: View<'_>,
        columns: Range<usize>,
        center: f64,
        lambda: f64,
    ) -> Result<Columns> {
        let count: usize = columns.clone().map(|j| entries.columns.count(j)).sum();
        memory::require(12 * count as u128, &format!("a copy of {count} entries"))?;
        let mut out = Columns {
            rows: entries.rows.len(),
            starts: vec![0],
            index: Vec::with_capacity(count),
            value: Vec::with_capacity(count),
            lambda,
        };
        for j in columns {
            let (index, value) = entries.columns.line(j);
            out.index.extend_from_slice(index);
            out.value.extend(value.iter().map(|y| y - center));
            out.starts.push(out.index.len());
        }
        Ok(out)
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn line(&self, j: usize) -> (&[u32], &[f64]) {
        let range = self.starts[j]..self.starts[j + 1];
        (&self.index[range.clone()], &self.value[range])
    }

    /// What is added to the normal equations of all columns: λ UᵀU, and the prior; by
    /// rows.
    fn beside(&self, u: &Mat<f64>, prior: Option<&Mat<f64>>, width: usize) -> Vec<f64> {
        let mut sum = faer::Scale(self.lambda) * crate::manifold::gram(u);
        if let Some(prior) = prior {
            sum += prior;
        }
        let mut out = vec![0.0; width * width];
        for (i, j) in (0..u.ncols()).flat_map(|i| (0..u.ncols()).map(move |j| (i, j))) {
            out[i * width + j] = sum[(i, j)];
        }
        out
    }

    /// The slope is without λUWᵀW, which lies in the subspace.
    fn pass(&self, u: &Mat<f64>, rows: &Rowwise, prior: Option<&Mat<f64>>) -> Passed {
        let (k, width) = (u.ncols(), rows.width);
        let beside = self.beside(u, prior, width);
        let known = 1.0 - self.lambda;
        let ridge = self.lambda != 0.0 || prior.is_some();
        let mut slope = Rowwise::zero(self.rows, k);
        let mut weights = Rowwise::zero(self.len(), k);
        let mut factors = Vec::with_capacity(self.len() * k * (k + 1) / 2);
        let mut normal = Normal::new(width);
        // Squares of residuals, of what is predicted there, and of all that is
        // predicted, with the prior.
        let (mut sums, mut all) = ([0.0; 2], 0.0);
        for (j, w) in weights.data.chunks_exact_mut(width).enumerate() {
            let line = self.line(j);
            if line.0.is_empty() {
                factors.extend(std::iter::repeat_n(0.0, k * (k + 1) / 2));
                continue;
            }
            normal.gather(line, &rows.data, k, 0.0, None);
            for (a, b) in normal.a[..k * width].iter_mut().zip(&beside) {
                *a = known * *a + b;
            }
            let singular = !ridge && line.0.len() < k;
            normal.solve_least(k, singular);
            w[..k].copy_from_slice(&normal.b[..k]);
            for i in 0..k {
                factors.extend_from_slice(&normal.a[i * width..][i..k]);
            }
            by_width!(
                width,
                spread(&mut sums, &mut slope.data, line, &rows.data, w, known)
            );
            if ridge {
                let pairs = (0..k).flat_map(|a| (0..k).map(move |b| (a, b)));
                let term = |(a, b): (usize, usize)| w[a] * w[b] * beside[a * width + b];
                all += pairs.map(term).sum::<f64>();
            }
        }
        Passed {
            cost: 0.5 * (sums[0] + all - self.lambda * sums[1]),
            residuals: 0.5 * sums[0],
            slope,
            weights,
            factors,
        }
    }
}

vectorized! {
    /// Adds the products of a column's residuals with its weights to rows of the
    /// slope, and squares to the sums.
    fn spread<; W>(sums: &mut [f64; 2], slope: &mut [f64], line: (&[u32], &[f64]), rows: &[f64], weights: &[f64], known: f64) {
        let w = if W == 0 { weights.len() } else { W };
        let weights = &weights[..w];
        let (mut residuals, mut predicted) = (0.0, 0.0);
        for (&i, &y) in line.0.iter().zip(line.1) {
            let at = i as usize * w;
            let x = dot_row(&rows[at..][..w], weights);
            residuals += (x - y) * (x - y);
            predicted += x * x;
            let g = known * x - y;
            for (s, v) in slope[at..][..w].iter_mut().zip(weights) {
                *s += g * v;
            }
        }
        sums[0] += residuals;
        sums[1] += predicted;
    }
}

vectorized! {
    /// Σ (row of `along` · weights) row of U, over the entries of a column.
    fn draw<; W>(out: &mut [f64], index: &[u32], rows: &[f64], along: &[f64], weights: &[f64]) {
        let w = if W == 0 { weights.len() } else { W };
        let (weights, out) = (&weights[..w], &mut out[..w]);
        for &i in index {
            let at = i as usize * w;
            let x = dot_row(&along[at..][..w], weights);
            for (o, u) in out.iter_mut().zip(&rows[at..][..w]) {
                *o += x * u;
            }
        }
    }
}

vectorized! {
    /// Adds (row of `along` · weights − row of U · change) weights to the rows of a
    /// column.
    fn turn<; W>(out: &mut [f64], index: &[u32], rows: &[f64], along: &[f64], weights: &[f64], change: &[f64]) {
        let w = if W == 0 { weights.len() } else { W };
        let (weights, change) = (&weights[..w], &change[..w]);
        for &i in index {
            let at = i as usize * w;
            let x = dot_row(&along[at..][..w], weights) - dot_row(&rows[at..][..w], change);
            for (o, v) in out[at..][..w].iter_mut().zip(weights) {
                *o += x * v;
            }
        }
    }
}

vectorized! {
    /// Adds w wᵀ, its upper part by rows, to the blocks of the rows of a column.
    fn square<>(blocks: &mut [f64], index: &[u32], weights: &[f64]) {
        let k = weights.len();
        for &i in index {
            let block = &mut blocks[i as usize * k * k..][..k * k];
            for a in 0..k {
                for b in a..k {
                    block[a * k + b] += weights[a] * weights[b];
                }
            }
        }
    }
}

const MAGIC: &[u8; 8] = b"rkcolmn1";

impl Sent for Columns {
    const KIND: u64 = 1;

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(MAGIC, 0);
        for word in [self.rows as u64, self.lambda.to_bits(), self.len() as u64] {
            out.word(word);
        }
        self.starts.iter().for_each(|&start| out.word(start as u64));
        let index = self.index.iter().flat_map(|i| i.to_le_bytes());
        out.bytes(&index.collect::<Vec<u8>>());
        self.value
            .iter()
            .for_each(|value| out.word(value.to_bits()));
        out.finish()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut words = Reader::checked(MAGIC, bytes)?;
        let rows = usize::try_from(words.word()?).ok()?;
        let lambda = f64::from_bits(words.word()?);
        let count = words.word()?;
        let mut starts = Vec::new();
        for _ in 0..=count {
            starts.push(usize::try_from(words.word()?).ok()?);
        }
        let (index, _) = words.bytes()?.as_chunks::<4>();
        let index: Vec<u32> = index.iter().map(|i| u32::from_le_bytes(*i)).collect();
        let mut value = Vec::with_capacity(index.len());
        for _ in 0..index.len() {
            value.push(f64::from_bits(words.word()?));
        }
        let sound = words.is_empty()
            && starts.is_sorted()
            && starts[0] == 0
            && starts.last() == Some(&index.len())
            && index.iter().all(|&i| (i as usize) < rows)
            && value.iter().all(|v| v.is_finite())
            && (0.0..=1.0).contains(&lambda);
        sound.then_some(Columns {
            rows,
            starts,
            index,
            value,
            lambda,
        })
    }
}

impl Work for Columns {
    fn dimension(&self) -> usize {
        self.rows
    }

    fn observations(&self) -> usize {
        self.index.len()
    }

    fn density(&self) -> f64 {
        let places = (self.rows * self.len()).max(1) as f64;
        (1.0 - self.lambda) * self.index.len() as f64 / places + self.lambda
    }

    fn left_over(&self, at: Option<&Local>, v: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.rows];
        let mut left = Vec::new();
        for j in 0..self.len() {
            let (index, value) = self.line(j);
            left.clear();
            match at {
                None => left.extend_from_slice(value),
                Some(at) => {
                    let w = at.weights.row(j);
                    let rest = |(&i, y): (&u32, &f64)| y - dot_row(at.rows.row(i as usize), w);
                    left.extend(index.iter().zip(value).map(rest));
                }
            }
            let entries = index.iter().zip(&left);
            let sum: f64 = entries.map(|(&i, e)| e * v[i as usize]).sum();
            for (&i, e) in index.iter().zip(&left) {
                out[i as usize] += sum * e;
            }
        }
        out
    }

    fn local(&self, u: &Mat<f64>, prior: Option<&Mat<f64>>) -> Local {
        let rows = Rowwise::from_mat(u);
        let passed = self.pass(u, &rows, prior);
        Local::new(u, rows, passed)
    }

    /// With the weights following U: their change solves the same normal equations
    /// [Kaufman 1975].
    fn hessian_product(&self, at: &Local, along: &Mat<f64>) -> Mat<f64> {
        let (k, width) = (at.u.ncols(), at.rows.width);
        let eta = Rowwise::from_mat(along);
        let mut out = Rowwise::zero(self.rows, k);
        let mut normal = Normal::new(width);
        let known = 1.0 - self.lambda;
        for j in 0..self.len() {
            let (index, w) = (self.line(j).0, at.weights.row(j));
            if !at.unpack(j, &mut normal) {
                continue;
            }
            normal.b.fill(0.0);
            let rows = &at.rows.data;
            by_width!(width, draw(&mut normal.b, index, rows, &eta.data, w));
            normal.b.iter_mut().for_each(|b| *b *= known);
            normal.solve(k);
            let change = &normal.b[..];
            by_width!(
                width,
                turn(&mut out.data, index, rows, &eta.data, w, change)
            );
        }
        faer::Scale(known) * out.to_mat(k) + faer::Scale(self.lambda) * (along * &at.gram)
    }

    fn blocks(&self, at: &Local) -> (Vec<f64>, Mat<f64>) {
        let k = at.u.ncols();
        let mut blocks = vec![0.0; self.rows * k * k];
        for j in 0..self.len() {
            square(&mut blocks, self.line(j).0, &at.weights.row(j)[..k]);
        }
        blocks.iter_mut().for_each(|b| *b *= 1.0 - self.lambda);
        (blocks, faer::Scale(self.lambda) * &at.gram)
    }

    fn misfit(&self, at: &Local, other: &Columns) -> (f64, usize) {
        let mut sum = 0.0;
        for j in 0..other.len() {
            let (index, value) = other.line(j);
            for (&i, y) in index.iter().zip(value) {
                let found = dot_row(at.rows.row(i as usize), at.weights.row(j));
                sum += (found - y).powi(2);
            }
        }
        (sum, other.observations())
    }

    fn plain(&self, u: &Mat<f64>) -> (f64, Mat<f64>) {
        let k = u.ncols();
        let passed = self.pass(u, &Rowwise::from_mat(u), None);
        let gram = crate::manifold::gram(&passed.weights.to_mat(k));
        let slope = passed.slope.to_mat(k) + faer::Scale(self.lambda) * (u * gram);
        (passed.cost, slope)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::batch::{Local as _, Objective, Observed, Part, Ridge, Subspace};
    use crate::linalg::qf;
    use crate::manifold::Grassmann;
    use crate::manifold::tests::matrix;

    /// Known entries of a matrix, some columns of which have few or none.
    pub fn observed(rows: usize, columns: usize) -> Observed {
        let truth = &matrix(rows, 2, 11) * matrix(columns, 2, 12).transpose();
        let mut entries = Vec::new();
        for t in 0..rows * columns {
            let (i, j) = (t % rows, t / rows);
            let kept = match j {
                1 => i == 2,
                2 => false,
                _ => (t * 7919) % 100 < 60,
            };
            if kept {
                let noise = 0.3 * ((t * t) as f64).sin();
                entries.push((i as u32, j as u32, truth[(i, j)] + noise));
            }
        }
        Observed::new((rows, columns), entries).unwrap().0
    }

    #[test]
    fn columns_are_the_batch_problem() {
        let observed = observed(13, 17);
        for k in [1, 2, 3, 5, 9] {
            for lambda in [0.0, 0.01, 0.3, 1.0] {
                let problem = Subspace {
                    entries: observed.part(Part::All),
                    center: 0.2,
                    lambda,
                    ridge: Ridge::OffMask,
                    threads: 1,
                };
                let own = Columns::new(observed.part(Part::All), 0..17, 0.2, lambda).unwrap();
                let u = qf(&matrix(13, k, 1)).unwrap();
                let (local, want) = (own.local(&u, None), problem.local(std::slice::from_ref(&u)));
                let scale = 1.0 + want.cost();
                assert!(
                    (local.cost - want.cost()).abs() < 1e-11 * scale,
                    "{k} {lambda}"
                );
                let gap = &local.gradient - &want.gradient()[0];
                assert!(
                    gap.norm_max() < 1e-10 * scale,
                    "{k} {lambda}: {}",
                    gap.norm_max()
                );
                assert!((local.weights() - want.weights()).norm_max() < 1e-9 * scale);
                let eta = Grassmann::project(&u, &matrix(13, k, 2));
                let bent = Grassmann::project(&u, &own.hessian_product(&local, &eta));
                let want = &want.hessian(std::slice::from_ref(&eta))[0];
                assert!((bent - want).norm_max() < 1e-8 * (1.0 + want.norm_max()));
            }
        }
    }

    #[test]
    fn plain_slopes_agree_with_differences() {
        let own = Columns::new(observed(9, 12).part(Part::All), 3..12, 0.0, 0.2).unwrap();
        let u = matrix(9, 2, 4);
        let (_, slope) = own.plain(&u);
        let h = 1e-6;
        for (i, j) in (0..9).flat_map(|i| (0..2).map(move |j| (i, j))) {
            let moved = |h: f64| {
                let mut u = u.clone();
                u[(i, j)] += h;
                own.plain(&u).0
            };
            let measured = (moved(h) - moved(-h)) / (2.0 * h);
            assert!((slope[(i, j)] - measured).abs() < 1e-6, "{i} {j}");
        }
    }

    /// The blocks are what the Hessian has on its diagonal while weights are held.
    #[test]
    fn blocks_are_sums_of_squares_of_weights() {
        let own = Columns::new(observed(9, 12).part(Part::All), 0..12, 0.0, 0.1).unwrap();
        let local = own.local(&qf(&matrix(9, 3, 1)).unwrap(), None);
        let (blocks, all) = own.blocks(&local);
        let w = local.weights();
        let mut want = vec![0.0; 9 * 9];
        for j in 0..12 {
            for &i in own.line(j).0 {
                for a in 0..3 {
                    for b in a..3 {
                        want[i as usize * 9 + a * 3 + b] += 0.9 * w[(j, a)] * w[(j, b)];
                    }
                }
            }
        }
        for (found, want) in blocks.iter().zip(want) {
            assert!((found - want).abs() < 1e-12);
        }
        assert!((all - faer::Scale(0.1) * &local.gram).norm_max() < 1e-12);
    }
}
