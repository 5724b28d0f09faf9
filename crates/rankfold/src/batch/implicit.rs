//! Least squares on all pairs of users and items: 1 where something was chosen, with the
//! strength of the choice as weight, and 0 everywhere else, with the weight α.
//!
//! Σ xᵤᵢ (pᵤ·qᵢ − 1)² + α Σ (pᵤ·qᵢ)² + Σ λᵤ ‖pᵤ‖² + Σ λᵢ ‖qᵢ‖², where λᵤ = λ √(n + α m) for
//! a user with n of the m items. The sum over all pairs is the Gram matrix of the other
//! side, so that a user costs the items chosen and k². Each side is solved for by some
//! steps of conjugate gradients from where it was. References: [Hu2008], [Rendle2022].

use super::chosen::Chosen;
use super::rowwise::Rowwise;
use crate::kernel::{dot, padded, sum_scaled};
use crate::linalg::Square;
use crate::parallel::{map_blocks, map_rows};
use crate::random::normal_at;
use crate::{Real, Rows, SparseRow};
use faer::Mat;

/// Rows of a block of work.
const BLOCK: usize = 64;

/// Steps of conjugate gradients in a sweep, from where a row was, and for a row that
/// starts from zero.
const SWEEP_STEPS: usize = 3;
const FOLD_STEPS: usize = 12;

/// The weight of what was not chosen, and the penalty.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Implicit {
    /// α: what a pair that was not chosen weighs beside one that was.
    pub alpha: f64,
    /// λ.
    pub lambda: f64,
}

/// One side, given the rows of the other.
#[derive(Debug, Clone)]
pub struct FoldIn<'a> {
    problem: Implicit,
    rows: &'a [f32],
    width: usize,
    count: usize,
    /// α RᵀR.
    gram: Square,
}

/// Room for conjugate gradients.
#[derive(Debug, Clone)]
struct Room {
    residual: Vec<f64>,
    direction: Vec<f64>,
    product: Vec<f64>,
}

impl<'a> FoldIn<'a> {
    /// From rows of k numbers, each padded with zeros to whole registers.
    pub(crate) fn new(problem: Implicit, rows: &'a [f32], k: usize, threads: usize) -> Self {
        let width = padded(k);
        let count = rows.len() / width;
        let parts = map_blocks(count, 1 << 12, threads, |range| {
            let mut part = Square::zero(k);
            let mut x = vec![0.0; width];
            for row in rows[range.start * width..range.end * width].chunks_exact(width) {
                x.iter_mut().zip(row).for_each(|(x, v)| *x = f64::from(*v));
                part.add_outer([&x], [&x]);
            }
            part
        });
        let mut gram = Square::zero(k);
        for part in &parts {
            gram.combine(1.0, 1.0, part);
        }
        Self::with_gram(problem, rows, gram)
    }

    /// The same, where the Gram matrix RᵀR is known.
    pub(crate) fn with_gram(problem: Implicit, rows: &'a [f32], mut gram: Square) -> Self {
        let width = padded(gram.size());
        let count = rows.len() / width;
        gram.combine(0.0, problem.alpha, &gram.clone());
        FoldIn {
            problem,
            rows,
            width,
            count,
            gram,
        }
    }

    /// The row of somebody who chose these, from zero.
    pub fn solve(&self, chosen: SparseRow<'_, f32>) -> Vec<f64> {
        let mut out = vec![0.0; self.width];
        self.improve(chosen, &mut out, FOLD_STEPS, &mut self.room());
        out
    }

    fn room(&self) -> Room {
        let zeros = vec![0.0; self.width];
        Room {
            residual: zeros.clone(),
            direction: zeros.clone(),
            product: zeros,
        }
    }

    fn row(&self, i: u32) -> &[f32] {
        &self.rows[i as usize * self.width..][..self.width]
    }

    /// (α RᵀR + Σ x r rᵀ + ridge) v.
    fn apply(&self, chosen: SparseRow<'_, f32>, ridge: f64, v: &[f64], out: &mut [f64]) {
        self.gram.multiply(out, v);
        for (out, v) in out.iter_mut().zip(v) {
            *out += ridge * v;
        }
        for (i, x) in chosen.iter() {
            let row = self.row(i);
            let said: f64 = row.iter().zip(v).map(|(r, v)| f64::from(*r) * v).sum();
            sum_scaled(out, row, f64::from(x) * said);
        }
    }

    /// Steps of conjugate gradients.
    fn improve(&self, chosen: SparseRow<'_, f32>, p: &mut [f64], steps: usize, room: &mut Room) {
        let Room {
            residual,
            direction,
            product,
        } = room;
        let Implicit { alpha, lambda } = self.problem;
        let ridge = lambda * (chosen.len() as f64 + alpha * self.count as f64).sqrt();
        residual.fill(0.0);
        for (i, x) in chosen.iter() {
            sum_scaled(residual, self.row(i), f64::from(x));
        }
        self.apply(chosen, ridge, p, product);
        for (r, a) in residual.iter_mut().zip(product.iter()) {
            *r -= a;
        }
        direction.copy_from_slice(residual);
        let mut rr = dot(residual, residual);
        let least = 1e-20 * rr;
        for _ in 0..steps {
            self.apply(chosen, ridge, direction, product);
            let curvature = dot(direction, product);
            if !(rr > least && curvature > 0.0) {
                return;
            }
            let length = rr / curvature;
            for j in 0..p.len() {
                p[j] += length * direction[j];
                residual[j] -= length * product[j];
            }
            let next = dot(residual, residual);
            for (d, r) in direction.iter_mut().zip(residual.iter()) {
                *d = r + next / rr * *d;
            }
            rr = next;
        }
    }

    /// Improves the rows of this side.
    fn sweep(&self, chosen: &Rows<f32>, own: &mut Rowwise<f32>, threads: usize) {
        let width = own.width;
        map_rows(&mut own.data, width, BLOCK, threads, |first, rows| {
            let (mut room, mut p) = (self.room(), vec![0.0; width]);
            for (i, row) in (first..).zip(rows.chunks_exact_mut(width)) {
                p.iter_mut()
                    .zip(row.iter())
                    .for_each(|(p, v)| *p = f64::from(*v));
                self.improve(chosen.row(i), &mut p, SWEEP_STEPS, &mut room);
                row.iter_mut()
                    .zip(&p)
                    .for_each(|(v, p)| *v = f32::from_f64(*p));
            }
        });
    }
}

/// Factors of both sides.
#[derive(Debug, Clone)]
pub struct ImplicitFactors {
    users: Rowwise<f32>,
    items: Rowwise<f32>,
    rank: usize,
}

impl ImplicitFactors {
    /// Users at zero, and small items.
    pub fn start(chosen: &Chosen, rank: usize, seed: u64) -> Self {
        let mut items: Rowwise<f32> = Rowwise::zero(chosen.items(), rank);
        let (width, scale) = (items.width, 0.1 / (rank as f64).sqrt());
        for (i, row) in items.data.chunks_exact_mut(width).enumerate() {
            for (j, v) in row[..rank].iter_mut().enumerate() {
                *v = f32::from_f64(scale * normal_at(seed, 31, i as u64, j as u64));
            }
        }
        ImplicitFactors {
            users: Rowwise::zero(chosen.by_user().len(), rank),
            items,
            rank,
        }
    }

    /// From matrices, as [`ImplicitFactors::matrices`] gives them.
    pub fn from_matrices([users, items]: [&Mat<f64>; 2]) -> Self {
        ImplicitFactors {
            users: super::chosen::single(users),
            items: super::chosen::single(items),
            rank: items.ncols(),
        }
    }

    /// The factors of users and items.
    pub fn matrices(&self) -> [Mat<f64>; 2] {
        [&self.users, &self.items].map(|side| super::chosen::double(side, self.rank))
    }

    /// The factors of items.
    pub fn items(&self) -> Mat<f64> {
        super::chosen::double(&self.items, self.rank)
    }
}

impl Implicit {
    /// Solves for users and then for items, about.
    pub fn sweep(&self, chosen: &Chosen, factors: &mut ImplicitFactors, threads: usize) {
        let ImplicitFactors { users, items, rank } = factors;
        let fold = FoldIn::new(*self, &items.data, *rank, threads);
        fold.sweep(chosen.by_user(), users, threads);
        let fold = FoldIn::new(*self, &users.data, *rank, threads);
        fold.sweep(chosen.by_item(), items, threads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::invert_definite;

    fn chosen() -> Chosen {
        let rows: Vec<Vec<f32>> = (0..20_usize)
            .map(|u| {
                let entry = |i: usize| match (u * 3 + i * i + u * i) % 7 {
                    0 | 1 => 1.0,
                    2 => 2.5,
                    _ => 0.0,
                };
                (0..9).map(entry).collect()
            })
            .collect();
        Chosen::new(Rows::from_dense(&rows).unwrap(), 0.0)
    }

    /// The cost over all pairs, as it is written.
    fn plain_cost(problem: Implicit, chosen: &Chosen, factors: &ImplicitFactors) -> f64 {
        let [p, q] = factors.matrices();
        let (n, m) = (p.nrows(), q.nrows());
        let said = &p * q.transpose();
        let mut cost = 0.0;
        for u in 0..n {
            for i in 0..m {
                let x = chosen.by_user().row(u).iter().find(|e| e.0 == i as u32);
                let x = x.map_or(0.0, |e| f64::from(e.1));
                let score: f64 = said[(u, i)];
                cost += x * (score - 1.0).powi(2) + problem.alpha * score * score;
            }
        }
        let mut penalty = |rows: &Rows<f32>, side: &Mat<f64>, others: usize| {
            for i in 0..side.nrows() {
                let n = rows.row(i).len() as f64 + problem.alpha * others as f64;
                cost += problem.lambda * n.sqrt() * side.row(i).squared_norm_l2();
            }
        };
        penalty(chosen.by_user(), &p, m);
        penalty(chosen.by_item(), &q, n);
        cost
    }

    #[test]
    fn sweeps_lower_the_cost_over_all_pairs() {
        let chosen = chosen();
        for rank in [1, 3, 9] {
            let problem = Implicit {
                alpha: 0.3,
                lambda: 0.2,
            };
            let mut factors = ImplicitFactors::start(&chosen, rank, 1);
            let mut before = f64::INFINITY;
            for _ in 0..30 {
                problem.sweep(&chosen, &mut factors, 2);
                let cost = plain_cost(problem, &chosen, &factors);
                assert!(cost <= before * (1.0 + 1e-5));
                before = cost;
            }
            let mut other = ImplicitFactors::start(&chosen, rank, 1);
            (0..30).for_each(|_| problem.sweep(&chosen, &mut other, 1));
            assert_eq!(*other.items.data, *factors.items.data);
        }
    }

    #[test]
    fn folding_in_solves_the_normal_equations() {
        let chosen = chosen();
        let (problem, k) = (
            Implicit {
                alpha: 0.1,
                lambda: 0.5,
            },
            4,
        );
        let factors = ImplicitFactors::start(&chosen, k, 3);
        let fold = FoldIn::new(problem, &factors.items.data, k, 2);
        let q = factors.items();
        for user in 0..20 {
            let row = chosen.by_user().row(user);
            let mut a = faer::Scale(problem.alpha) * (q.transpose() * &q);
            let mut b = Mat::<f64>::zeros(k, 1);
            let ridge = problem.lambda * (row.len() as f64 + problem.alpha * 9.0).sqrt();
            for j in 0..k {
                a[(j, j)] += ridge;
            }
            for (i, x) in row.iter() {
                let item = q.row(i as usize);
                a += faer::Scale(f64::from(x)) * (item.transpose() * item);
                b += faer::Scale(f64::from(x)) * item.transpose().as_mat();
            }
            let exact = invert_definite(&Square::from_faer(&a)).unwrap().to_faer() * b;
            let found = fold.solve(row);
            for j in 0..k {
                assert!((found[j] - exact[(j, 0)]).abs() < 1e-6 * exact.norm_max().max(1e-3));
            }
        }
    }
}
