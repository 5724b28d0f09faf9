//! Completion as a search for a subspace: the best weights of each column follow
//! from U, and only U is left to find.

use super::normal::Normal;
use super::pass::{BLOCK, Pass};
use super::rowwise::Rowwise;
use super::solve::{Local, Objective};
use crate::linalg::symmetric;
use crate::manifold::{Blocks, Grassmann, dot};
use crate::parallel::map_rows;
use crate::sparse::View;
use faer::Mat;

/// What is kept small beside the residuals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ridge {
    /// λ/2 ‖·‖² of what is predicted where nothing is known.
    #[default]
    OffMask,
    /// λ/2 ‖·‖² of all that is predicted.
    Full,
}

/// f(U) = min_W ½‖P(UWᵀ) − P(Y)‖² + λ/2 ‖UWᵀ‖², the last where the ridge says so,
/// on subspaces of the columns; P keeps known entries.
#[derive(Debug, Clone, Copy)]
pub struct Subspace<'a> {
    /// The known entries.
    pub entries: View<'a>,
    /// A number beside UWᵀ that all entries have.
    pub center: f64,
    /// λ.
    pub lambda: f64,
    /// Where it counts.
    pub ridge: Ridge,
    /// Threads; results have the same bits for any number of them.
    pub threads: usize,
}

impl Subspace<'_> {
    /// What the known entries weigh in the normal equations.
    fn known(&self) -> f64 {
        match self.ridge {
            Ridge::OffMask => 1.0 - self.lambda,
            Ridge::Full => 1.0,
        }
    }

    /// The weights of each column, with the Cholesky factors of their normal
    /// equations; the smallest weights where they are not unique.
    fn fit(&self, u: &Rowwise, k: usize) -> (Rowwise, Vec<f64>) {
        let columns = self.entries.columns;
        let width = u.width;
        // A row of weights, then the factor of A.
        let piece = width + width * width;
        let mut all = vec![0.0; columns.len() * piece];
        map_rows(&mut all, piece, BLOCK, self.threads, |first, pieces| {
            let mut normal = Normal::new(width);
            for (j, piece) in (first..).zip(pieces.chunks_exact_mut(piece)) {
                let line = columns.line(j);
                if line.0.is_empty() && self.lambda == 0.0 {
                    continue;
                }
                normal.gather(line, &u.data, k, self.center, None);
                for a in &mut normal.a[..k * width] {
                    *a *= self.known();
                }
                for i in 0..k {
                    normal.a[i * width + i] += self.lambda;
                }
                normal.solve_least(k, self.lambda == 0.0 && line.0.len() < k);
                piece[..k].copy_from_slice(&normal.b[..k]);
                piece[width..].copy_from_slice(&normal.a);
            }
        });
        let mut weights = Rowwise::zero(columns.len(), k);
        let mut factors = Vec::with_capacity(columns.len() * width * width);
        for (row, piece) in weights
            .data
            .chunks_exact_mut(width)
            .zip(all.chunks_exact(piece))
        {
            row.copy_from_slice(&piece[..width]);
            factors.extend_from_slice(&piece[width..]);
        }
        (weights, factors)
    }

    /// The weights of all columns for a subspace.
    pub fn weights(&self, u: &Mat<f64>) -> Mat<f64> {
        self.fit(&Rowwise::from_mat(u), u.ncols())
            .0
            .to_mat(u.ncols())
    }

    fn pass<'a>(
        &'a self,
        lines: super::Lines<'a>,
        own: &'a Rowwise,
        other: &'a Rowwise,
    ) -> Pass<'a> {
        Pass {
            lines,
            center: self.center,
            own,
            other,
            threads: self.threads,
        }
    }

    /// The cost of U with these weights.
    fn total(&self, residuals: f64, u: &Rowwise, weights: &Rowwise, w: &Mat<f64>) -> f64 {
        let beside = match (self.lambda, self.ridge) {
            (0.0, _) => 0.0,
            (_, Ridge::Full) => dot(w, w),
            (_, Ridge::OffMask) => {
                let pass = self.pass(self.entries.columns, weights, u);
                dot(w, w) - pass.squares()
            }
        };
        0.5 * (residuals + self.lambda * beside)
    }
}

/// A subspace and its neighborhood.
pub struct LocalSubspace<'a> {
    problem: Subspace<'a>,
    u: Rowwise,
    basis: Mat<f64>,
    weights: Rowwise,
    w: Mat<f64>,
    factors: Vec<f64>,
    /// (WᵀW)⁻¹, where there is one.
    inverse: Option<Mat<f64>>,
    cost: f64,
    gradient: Blocks,
}

impl LocalSubspace<'_> {
    /// The weights of all columns.
    pub fn weights(&self) -> &Mat<f64> {
        &self.w
    }
}

impl Local for LocalSubspace<'_> {
    fn cost(&self) -> f64 {
        self.cost
    }

    fn gradient(&self) -> &Blocks {
        &self.gradient
    }

    /// ξ (WᵀW)⁻¹, which has no part in the subspace if ξ has none.
    fn precondition(&self, vector: &[Mat<f64>]) -> Blocks {
        match &self.inverse {
            Some(inverse) => vec![&vector[0] * inverse],
            None => vector.to_vec(),
        }
    }

    fn curvature(&self, along: &[Mat<f64>]) -> f64 {
        dot(&self.hessian(along)[0], &along[0])
    }

    /// Gauss–Newton with the weights following U: their change solves the same
    /// normal equations [Kaufman 1975].
    fn hessian(&self, along: &[Mat<f64>]) -> Blocks {
        let (problem, k) = (&self.problem, self.basis.ncols());
        let eta = Rowwise::from_mat(&along[0]);
        let (columns, width) = (problem.entries.columns, self.u.width);
        // Uᵀ P(η Wᵀ), column by column; then minus the change of the weights.
        let pass = problem.pass(columns, &self.weights, &eta);
        let (_, mut change) = pass.product(&self.u);
        map_rows(
            &mut change.data,
            width,
            BLOCK,
            problem.threads,
            |first, rows| {
                let mut normal = Normal::new(width);
                for (j, row) in (first..).zip(rows.chunks_exact_mut(width)) {
                    let area = width * width;
                    normal.a.copy_from_slice(&self.factors[j * area..][..area]);
                    for i in 0..k {
                        normal.b[i] = problem.known() * row[i];
                    }
                    match normal.a[0] > 0.0 {
                        true => normal.solve(k),
                        false => normal.b.fill(0.0),
                    }
                    row[..k].copy_from_slice(&normal.b[..k]);
                }
            },
        );
        // P(η Wᵀ − U δWᵀ) W: one pass with doubled factors.
        let delta = faer::Scale(-1.0) * change.to_mat(k);
        let left = Rowwise::from_mat(&crate::manifold::beside(&along[0], &self.basis));
        let right = Rowwise::from_mat(&crate::manifold::beside(&self.w, &delta));
        let pass = problem.pass(problem.entries.rows, &left, &right);
        let (_, moved) = pass.product(&self.weights);
        let ridge = &along[0] * crate::manifold::gram(&self.w);
        let out =
            faer::Scale(problem.known()) * moved.to_mat(k) + faer::Scale(problem.lambda) * ridge;
        vec![Grassmann::project(&self.basis, &out)]
    }
}

impl<'b> Objective for Subspace<'b> {
    type Space = Grassmann;
    type Local<'a>
        = LocalSubspace<'b>
    where
        Self: 'a;

    fn space(&self) -> &Grassmann {
        &Grassmann
    }

    fn shapes(&self, rank: usize) -> Vec<(usize, usize)> {
        vec![(self.entries.rows.len(), rank)]
    }

    fn cost(&self, at: &[Mat<f64>]) -> f64 {
        let u = Rowwise::from_mat(&at[0]);
        let (weights, _) = self.fit(&u, at[0].ncols());
        let residuals = self.pass(self.entries.columns, &weights, &u).cost();
        self.total(residuals, &u, &weights, &weights.to_mat(at[0].ncols()))
    }

    fn local<'a>(&'a self, at: &[Mat<f64>]) -> LocalSubspace<'b> {
        let basis = at[0].clone();
        let k = basis.ncols();
        let u = Rowwise::from_mat(&basis);
        let (weights, factors) = self.fit(&u, k);
        let w = weights.to_mat(k);
        let (residuals, mut slope) = {
            let (residuals, slope) = self.pass(self.entries.rows, &u, &weights).slope();
            (residuals, slope.to_mat(k))
        };
        if self.ridge == Ridge::OffMask && self.lambda != 0.0 {
            // (1−λ)P(UWᵀ) − P(Y): the rest of λ U WᵀW lies in the subspace.
            let pass = Pass {
                center: 0.0,
                ..self.pass(self.entries.rows, &u, &weights)
            };
            slope -= faer::Scale(self.lambda) * pass.product(&weights).1.to_mat(k);
        }
        let cost = self.total(residuals, &u, &weights, &w);
        LocalSubspace {
            inverse: symmetric::power(&crate::manifold::gram(&w), -1.0),
            problem: *self,
            gradient: vec![Grassmann::project(&basis, &slope)],
            cost,
            u,
            basis,
            weights,
            w,
            factors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::tests::observed;
    use super::super::{Armijo, Limits, Observed, Part, Solver};
    use super::*;
    use crate::linalg::qf;
    use crate::manifold::tests::matrix;
    use crate::manifold::{Manifold, scaled};

    #[test]
    fn gradients_and_hessians_agree_with_differences() {
        let observed = observed(12, 15);
        for ridge in [Ridge::OffMask, Ridge::Full] {
            for lambda in [0.0, 0.01, 0.3, 1.0] {
                let problem = Subspace {
                    entries: observed.part(Part::All),
                    center: 0.1,
                    lambda,
                    ridge,
                    threads: 1,
                };
                let at = vec![qf(&matrix(12, 3, 1)).unwrap()];
                let local = problem.local(&at);
                assert!((local.cost() - problem.cost(&at)).abs() < 1e-12);
                let eta = Grassmann.transport(&at, &at, &[matrix(12, 3, 2)]);
                let slope = dot(&local.gradient()[0], &eta[0]);
                let h = 1e-5;
                let cost =
                    |t: f64| problem.cost(&Grassmann.retract(&at, &scaled(t, &eta)).unwrap());
                let measured = (cost(h) - cost(-h)) / (2.0 * h);
                assert!(
                    (slope - measured).abs() < 1e-7 * (1.0 + slope.abs()),
                    "{ridge:?} {lambda}: {slope} {measured}"
                );
                let xi = Grassmann.transport(&at, &at, &[matrix(12, 3, 3)]);
                let (a, b) = (
                    dot(&local.hessian(&eta)[0], &xi[0]),
                    dot(&local.hessian(&xi)[0], &eta[0]),
                );
                assert!((a - b).abs() < 1e-10 * (1.0 + a.abs()), "{a} {b}");
                assert!(local.curvature(&eta) >= 0.0);
            }
        }
    }

    #[test]
    fn every_solver_recovers_a_planted_matrix() {
        let (n, m, k) = (40, 60, 2);
        let truth = &matrix(n, k, 1) * matrix(m, k, 2).transpose();
        let entries = (0..n * m).filter(|t| (t * 7919) % 100 < 50);
        let entries =
            entries.map(|t| ((t / m) as u32, (t % m) as u32, truth[(t / m, t % m)] + 2.0));
        let (observed, _) = Observed::new((n, m), entries.collect()).unwrap();
        let problem = Subspace {
            entries: observed.part(Part::All),
            center: 2.0,
            lambda: 0.0,
            ridge: Ridge::OffMask,
            threads: 2,
        };
        let start = matrix(n, k, 1) + faer::Scale(0.3) * matrix(n, k, 5);
        let limits = Limits {
            iterations: 2000,
            decrease: 0.0,
            cost: 1e-19,
            ..Limits::default()
        };
        let descent = Solver::Descent(Armijo::default());
        let cg = |precondition| Solver::ConjugateGradient { precondition };
        for solver in [descent, cg(false), cg(true), Solver::TrustRegion] {
            let start = vec![qf(&start).unwrap()];
            let solved = solver.solve(&problem, start, limits, &mut |_| true);
            let w = &solved.point[0] * problem.weights(&solved.point[0]).transpose();
            let error = (w - &truth).norm_l2() / truth.norm_l2();
            assert!(error < 1e-8, "{solver:?} {error} {}", solved.iterations);
            if solver == Solver::TrustRegion {
                assert!(solved.iterations < 12, "{}", solved.iterations);
            }
        }
    }

    #[test]
    fn columns_with_fewer_entries_than_the_rank_get_the_smallest_weights() {
        let entries = vec![(0, 0, 1.0), (1, 0, 2.0), (2, 1, 3.0), (3, 0, 1.0)];
        let (observed, _) = Observed::new((4, 3), entries).unwrap();
        let problem = Subspace {
            entries: observed.part(Part::All),
            center: 0.0,
            lambda: 0.0,
            ridge: Ridge::OffMask,
            threads: 1,
        };
        let u = qf(&matrix(4, 2, 1)).unwrap();
        let w = problem.weights(&u);
        let row = Mat::from_fn(1, 2, |_, j| u[(2, j)]);
        let want = faer::Scale(3.0 / row.squared_norm_l2()) * &row;
        assert!((w.subrows(1, 1) - want).norm_l2() < 1e-12);
        assert_eq!(w.subrows(2, 1).norm_l2(), 0.0);
        assert!(problem.local(&[u]).cost().is_finite());
    }
}
