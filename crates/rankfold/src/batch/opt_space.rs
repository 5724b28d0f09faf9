//! OptSpace [Keshavan, Montanari and Oh 2010]: a search for the subspaces of rows
//! and columns, where the r×r core between them follows by least squares.

use super::problem::Problem;
use super::solve::{Local, Objective};
use crate::manifold::{Blocks, Grassmann, GrassmannPair, beside, dot};
use faer::Mat;

/// f(U, V) = min_S cost(U S Vᵀ), for a problem whose cost is a sum of squares.
#[derive(Debug, Clone)]
pub struct OptSpace<P> {
    /// The problem of W = U S Vᵀ.
    pub problem: P,
}

impl<P: Problem> OptSpace<P> {
    /// The best core, by its normal equations, or by conjugate gradients on them: they are
    /// well conditioned, because U and V are orthonormal.
    pub fn core(&self, u: &Mat<f64>, v: &Mat<f64>) -> Mat<f64> {
        let short = self.problem.core(u, v);
        short.unwrap_or_else(|| self.searched(u, v))
    }

    fn searched(&self, u: &Mat<f64>, v: &Mat<f64>) -> Mat<f64> {
        let k = u.ncols();
        let zero = Mat::zeros(u.nrows(), k);
        let mut residual = faer::Scale(-1.0) * (u.transpose() * self.problem.slope(&zero, v).er);
        let mut core = Mat::zeros(k, k);
        let mut direction = residual.clone();
        let mut square = dot(&residual, &residual);
        let wanted = 1e-26 * square;
        for _ in 0..4 * k * k + 10 {
            if !(square > wanted) {
                break;
            }
            let hessian_product = self.problem.hessian_product((&(u * &direction), v), u, v);
            let turned = u.transpose() * hessian_product.er;
            let length = square / dot(&direction, &turned);
            if !length.is_finite() {
                break;
            }
            core += faer::Scale(length) * &direction;
            residual -= faer::Scale(length) * &turned;
            let next = dot(&residual, &residual);
            direction = &residual + faer::Scale(next / square) * &direction;
            square = next;
        }
        core
    }
}

/// OptSpace at a point.
pub struct LocalOptSpace<'a, P> {
    problem: &'a P,
    at: Blocks,
    core: Mat<f64>,
    cost: f64,
    gradient: Blocks,
}

impl<P: Problem> LocalOptSpace<'_, P> {
    fn direction(&self, along: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>) {
        let us = &self.at[0] * &self.core;
        (
            beside(&(&along[0] * &self.core), &us),
            beside(&self.at[1], &along[1]),
        )
    }
}

impl<P: Problem> Local for LocalOptSpace<'_, P> {
    fn cost(&self) -> f64 {
        self.cost
    }

    fn gradient(&self) -> &Blocks {
        &self.gradient
    }

    fn curvature(&self, along: &[Mat<f64>]) -> f64 {
        let (left, right) = self.direction(along);
        self.problem.curvature((&left, &right))
    }

    fn hessian(&self, along: &[Mat<f64>]) -> Blocks {
        let (left, right) = self.direction(along);
        let (u, v) = (&self.at[0], &self.at[1]);
        let hessian_product = self.problem.hessian_product((&left, &right), u, v);
        vec![
            Grassmann::project(u, &(&hessian_product.er * self.core.transpose())),
            Grassmann::project(v, &(&hessian_product.el * &self.core)),
        ]
    }
}

impl<P: Problem> Objective for OptSpace<P> {
    type Space = GrassmannPair;
    type Local<'a>
        = LocalOptSpace<'a, P>
    where
        Self: 'a;

    fn space(&self) -> &GrassmannPair {
        &GrassmannPair
    }

    fn shapes(&self, rank: usize) -> Vec<(usize, usize)> {
        let (n, m) = self.problem.shape();
        vec![(n, rank), (m, rank)]
    }

    fn cost(&self, at: &[Mat<f64>]) -> f64 {
        let core = self.core(&at[0], &at[1]);
        self.problem.cost(&(&at[0] * core), &at[1])
    }

    fn local<'a>(&'a self, at: &[Mat<f64>]) -> LocalOptSpace<'a, P> {
        let core = self.core(&at[0], &at[1]);
        let slope = self.problem.slope(&(&at[0] * &core), &at[1]);
        LocalOptSpace {
            problem: &self.problem,
            gradient: vec![
                Grassmann::project(&at[0], &(&slope.er * core.transpose())),
                Grassmann::project(&at[1], &slope.el),
            ],
            at: at.to_vec(),
            core,
            cost: slope.cost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Completion, Limits, Observed, Part, Solver, Svp, trimmed_start};
    use super::*;
    use crate::linalg::qf;
    use crate::manifold::tests::matrix;
    use crate::manifold::{Manifold, scaled};

    fn planted(n: usize, m: usize, k: usize) -> (Mat<f64>, Observed) {
        let truth = &matrix(n, k, 1) * matrix(m, k, 2).transpose();
        let entries = (0..n * m).filter(|t| (t * 7919) % 100 < 60);
        let entries = entries.map(|t| ((t / m) as u32, (t % m) as u32, truth[(t / m, t % m)]));
        let observed = Observed::new((n, m), entries.collect()).unwrap().0;
        (truth, observed)
    }

    #[test]
    fn the_core_is_the_best_and_gradients_agree_with_differences() {
        let (_, observed) = planted(20, 15, 3);
        let problem = OptSpace {
            problem: Completion {
                entries: observed.part(Part::All),
                center: 0.3,
                threads: 1,
            },
        };
        let at = vec![
            qf(&matrix(20, 3, 8)).unwrap(),
            qf(&matrix(15, 3, 9)).unwrap(),
        ];
        let core = problem.core(&at[0], &at[1]);
        let cost = |core: &Mat<f64>| problem.problem.cost(&(&at[0] * core), &at[1]);
        for t in 0..9 {
            let mut other = core.clone();
            other[(t / 3, t % 3)] += 1e-4;
            assert!(cost(&other) > cost(&core));
        }
        let local = problem.local(&at);
        let eta = GrassmannPair.transport(&at, &at, &[matrix(20, 3, 4), matrix(15, 3, 5)]);
        let slope = GrassmannPair.inner(&at, local.gradient(), &eta);
        let h = 1e-5;
        let cost = |t: f64| problem.cost(&GrassmannPair.retract(&at, &scaled(t, &eta)).unwrap());
        let measured = (cost(h) - cost(-h)) / (2.0 * h);
        assert!(
            (slope - measured).abs() < 1e-7 * (1.0 + slope.abs()),
            "{slope} {measured}"
        );
        let bent = local.hessian(&eta);
        let curvature = GrassmannPair.inner(&at, &bent, &eta);
        assert!((curvature - local.curvature(&eta)).abs() < 1e-11 * curvature);
    }

    #[test]
    fn normal_equations_and_conjugate_gradients_find_the_same_core() {
        for (n, m, k) in [
            (1, 1, 1),
            (20, 15, 1),
            (700, 40, 3),
            (60, 90, 5),
            (40, 40, 16),
        ] {
            let (_, observed) = planted(n, m, k.min(n));
            let of = |threads| OptSpace {
                problem: Completion {
                    entries: observed.part(Part::All),
                    center: -0.7,
                    threads,
                },
            };
            let (u, v) = (qf(&matrix(n, k, 8)).unwrap(), qf(&matrix(m, k, 9)).unwrap());
            let short = of(1).problem.core(&u, &v);
            let short = short.expect("known entries span the core");
            let long = of(1).searched(&u, &v);
            let size = long.norm_l2();
            assert!((&short - &long).norm_l2() <= 1e-9 * size, "{n} {m} {k}");
            assert_eq!(short, of(3).problem.core(&u, &v).unwrap());
        }
        // One entry says nothing of four numbers.
        let observed = Observed::new((3, 3), vec![(1, 2, 5.0)]).unwrap().0;
        let problem = Completion {
            entries: observed.part(Part::All),
            center: 0.0,
            threads: 1,
        };
        let (u, v) = (qf(&matrix(3, 2, 1)).unwrap(), qf(&matrix(3, 2, 2)).unwrap());
        let found = OptSpace { problem }.core(&u, &v);
        let w = &u * found * v.transpose();
        assert!((w[(1, 2)] - 5.0).abs() < 1e-6, "{}", w[(1, 2)]);
    }

    #[test]
    fn baselines_recover_a_planted_matrix() {
        let (n, m, k) = (40, 30, 2);
        let (truth, observed) = planted(n, m, k);
        let entries = observed.part(Part::All);
        let problem = Completion {
            entries,
            center: 0.0,
            threads: 1,
        };
        let counts = [entries.rows, entries.columns]
            .map(|lines| (0..lines.len()).map(|i| lines.count(i)).collect());
        let (left, right) = trimmed_start(&problem, k, counts, 0).unwrap();
        let limits = Limits {
            iterations: 2000,
            decrease: 0.0,
            cost: 1e-20,
            ..Limits::default()
        };
        let error = |w: Mat<f64>| (w - &truth).norm_l2() / truth.norm_l2();
        let start = (left.clone(), right.clone());
        let svp = Svp { problem };
        let found = svp.solve(start, limits, &mut |_| true);
        let (l, r) = found.point;
        assert!(error(l * r.transpose()) < 1e-8, "{}", found.iterations);
        let objective = OptSpace {
            problem: svp.problem,
        };
        let start = vec![qf(&left).unwrap(), qf(&right).unwrap()];
        let solved = Solver::ConjugateGradient {
            precondition: false,
        }
        .solve(&objective, start, limits, &mut |_| true);
        let (u, v) = (&solved.point[0], &solved.point[1]);
        let w = u * objective.core(u, v) * v.transpose();
        assert!(error(w) < 1e-8, "{}", solved.iterations);
    }
}
