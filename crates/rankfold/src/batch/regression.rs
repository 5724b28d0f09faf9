//! A problem on a geometry of fixed rank, with a penalty, and with biases where
//! they are wanted.

use super::problem::{Problem, Slope, with_biases};
use super::solve::{Local, Objective};
use crate::manifold::{Biased, Blocks, FixedRank, dot, gram};
use faer::Mat;

/// What large models cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Penalty {
    /// λ/2 ‖W‖².
    Matrix(f64),
    /// λ/2 (‖L‖² + ‖R‖²): it depends on the factors, not on W alone.
    Factors(f64),
}

/// A cost on a geometry: that of a problem, the penalty, and half of `ridge`
/// times the squared biases.
#[derive(Debug, Clone)]
pub struct Regression<P, M> {
    /// What W should explain.
    pub problem: P,
    /// Where W lives.
    pub space: Biased<M>,
    /// What W costs.
    pub penalty: Penalty,
    /// What biases cost.
    pub ridge: f64,
}

impl<P: Problem, M: FixedRank> Regression<P, M> {
    /// Without biases.
    pub fn new(problem: P, manifold: M, penalty: Penalty) -> Self {
        Regression {
            problem,
            space: Biased {
                inner: manifold,
                weights: None,
            },
            penalty,
            ridge: 0.0,
        }
    }

    /// The factors that the problem sees: of W, or of W and its biases.
    fn seen(&self, at: &[Mat<f64>]) -> (Mat<f64>, Mat<f64>) {
        let (w, biases) = self.space.parts(at);
        let (left, right) = self.space.inner.factors(w);
        match biases {
            [] => (left, right),
            biases => with_biases(&left, &right, biases),
        }
    }

    fn penalized(&self, at: &[Mat<f64>], left: &Mat<f64>, right: &Mat<f64>) -> f64 {
        let k = left.ncols() - self.space.parts(at).1.len();
        let (left, right) = (
            left.subcols(0, k).to_owned(),
            right.subcols(0, k).to_owned(),
        );
        let w = match self.penalty {
            Penalty::Matrix(lambda) => lambda * dot(&gram(&left), &gram(&right)),
            Penalty::Factors(lambda) => lambda * (dot(&left, &left) + dot(&right, &right)),
        };
        0.5 * (w + self.ridge * self.space.bias_norm(at))
    }

    /// The gradient from products with the factors that the problem sees.
    fn gradient(
        &self,
        at: &[Mat<f64>],
        direction: Option<(&Mat<f64>, &Mat<f64>)>,
        slope: &Slope,
        (left, right): (&Mat<f64>, &Mat<f64>),
        bias_direction: &[Mat<f64>],
    ) -> Blocks {
        let biases = self.space.parts(at).1;
        let k = left.ncols() - biases.len();
        let head = |m: &Mat<f64>| m.subcols(0, k).to_owned();
        let (l, r) = (head(left), head(right));
        let (mut er, mut el) = (head(&slope.er), head(&slope.el));
        match (self.penalty, direction) {
            // λW, and λD for a direction D: both as products with the factors.
            (Penalty::Matrix(lambda), None) => {
                er += faer::Scale(lambda) * (&l * gram(&r));
                el += faer::Scale(lambda) * (&r * gram(&l));
            }
            (Penalty::Matrix(lambda), Some((dl, dr))) => {
                er += faer::Scale(lambda) * (dl * (dr.transpose() * &r));
                el += faer::Scale(lambda) * (dr * (dl.transpose() * &l));
            }
            (Penalty::Factors(lambda), None) => {
                er += faer::Scale(lambda) * &l;
                el += faer::Scale(lambda) * &r;
            }
            (Penalty::Factors(lambda), Some((dl, dr))) => {
                // The direction is [ξ_L, L] [R, ξ_R]ᵀ.
                er += faer::Scale(lambda) * dl.subcols(0, k);
                el += faer::Scale(lambda) * dr.subcols(dr.ncols() - k, k);
            }
        }
        if biases.is_empty() {
            return self.space.inner.gradient(at, &er, &el);
        }
        // The slope of a bias is the sum of its residuals: E times a column of ones.
        let ridge = faer::Scale(self.ridge);
        let column = |m: &Mat<f64>, j: usize| m.subcols(j, 1).to_owned();
        let rows = column(&slope.er, k) + ridge * &bias_direction[0];
        let columns = column(&slope.el, k + 1) + ridge * &bias_direction[1];
        self.space.gradient(at, &er, &el, [&rows, &columns])
    }
}

/// A regression at a point.
pub struct LocalRegression<'a, P, M> {
    regression: &'a Regression<P, M>,
    at: Blocks,
    factors: (Mat<f64>, Mat<f64>),
    cost: f64,
    gradient: Blocks,
}

impl<P: Problem, M: FixedRank> LocalRegression<'_, P, M> {
    /// The direction of W alone, and that of W and biases together.
    fn directions(&self, along: &[Mat<f64>]) -> [(Mat<f64>, Mat<f64>); 2] {
        let space = &self.regression.space;
        let (w, _) = space.parts(&self.at);
        let (xi, biases) = space.parts(along);
        let (left, right) = space.inner.ambient(w, xi);
        let all = match biases {
            [] => (left.clone(), right.clone()),
            biases => with_biases(&left, &right, biases),
        };
        [(left, right), all]
    }
}

impl<P: Problem, M: FixedRank> Local for LocalRegression<'_, P, M> {
    fn cost(&self) -> f64 {
        self.cost
    }

    fn gradient(&self) -> &Blocks {
        &self.gradient
    }

    fn precondition(&self, vector: &[Mat<f64>]) -> Blocks {
        let space = &self.regression.space;
        let ((w, _), (xi, biases)) = (space.parts(&self.at), space.parts(vector));
        let mut out = space.inner.precondition(w, xi);
        // The metric of biases is about their Hessian; that of W is one over the
        // share of places that are known.
        let (n, m) = self.regression.problem.shape();
        if !biases.is_empty() {
            let places = faer::Scale(1.0 / (n * m) as f64);
            out.extend(biases.iter().map(|b| places * b));
        }
        out
    }

    fn curvature(&self, along: &[Mat<f64>]) -> f64 {
        let [(left, right), (all_left, all_right)] = self.directions(along);
        let regression = self.regression;
        let data = regression.problem.curvature((&all_left, &all_right));
        let w = match regression.penalty {
            Penalty::Matrix(lambda) => lambda * dot(&gram(&left), &gram(&right)),
            Penalty::Factors(lambda) => {
                let (xi, _) = regression.space.parts(along);
                lambda * xi.iter().map(|x| dot(x, x)).sum::<f64>()
            }
        };
        data + w + regression.ridge * regression.space.bias_norm(along)
    }

    fn hessian(&self, along: &[Mat<f64>]) -> Blocks {
        let [(left, right), (all_left, all_right)] = self.directions(along);
        let (l, r) = (&self.factors.0, &self.factors.1);
        let regression = self.regression;
        let hessian_product = regression
            .problem
            .hessian_product((&all_left, &all_right), l, r);
        let biases = regression.space.parts(along).1;
        regression.gradient(
            &self.at,
            Some((&left, &right)),
            &hessian_product,
            (l, r),
            biases,
        )
    }
}

impl<P: Problem, M: FixedRank> Objective for Regression<P, M> {
    type Space = Biased<M>;
    type Local<'a>
        = LocalRegression<'a, P, M>
    where
        Self: 'a;

    fn space(&self) -> &Biased<M> {
        &self.space
    }

    fn shapes(&self, rank: usize) -> Vec<(usize, usize)> {
        let biases = self.space.weights.iter().flatten();
        let mut out = self.space.inner.shapes(self.problem.shape(), rank);
        out.extend(biases.map(|weights| (weights.len(), 1)));
        out
    }

    fn cost(&self, at: &[Mat<f64>]) -> f64 {
        let (left, right) = self.seen(at);
        self.problem.cost(&left, &right) + self.penalized(at, &left, &right)
    }

    fn local<'a>(&'a self, at: &[Mat<f64>]) -> Self::Local<'a> {
        let (left, right) = self.seen(at);
        let slope = self.problem.slope(&left, &right);
        let biases = self.space.parts(at).1;
        LocalRegression {
            regression: self,
            cost: slope.cost + self.penalized(at, &left, &right),
            gradient: self.gradient(at, None, &slope, (&left, &right), biases),
            factors: (left, right),
            at: at.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::tests::observed;
    use super::super::{Armijo, Completion, Limits, Part, Solver};
    use super::*;
    use crate::linalg::Retraction;
    use crate::manifold::tests::matrix;
    use crate::manifold::{Balanced, Embedded, Factors, Manifold, Polar, scaled};

    fn biased<M: FixedRank>(problem: Completion<'_>, manifold: M) -> Regression<Completion<'_>, M> {
        let weights = [problem.entries.rows, problem.entries.columns].map(|lines| {
            let weight = |i| (lines.count(i) as f64 + 0.3) / problem.entries.count as f64;
            (0..lines.len()).map(weight).collect()
        });
        Regression {
            problem,
            space: Biased {
                inner: manifold,
                weights: Some(weights),
            },
            penalty: Penalty::Matrix(0.01),
            ridge: 0.02,
        }
    }

    fn differences<M: FixedRank>(regression: &Regression<Completion<'_>, M>) {
        let mut at = regression
            .space
            .inner
            .point(&matrix(12, 3, 1), &matrix(9, 3, 2))
            .unwrap();
        if regression.space.weights.is_some() {
            at.extend([matrix(12, 1, 3), matrix(9, 1, 4)]);
        }
        let local = regression.local(&at);
        assert!((local.cost() - regression.cost(&at)).abs() < 1e-13);
        let other: Blocks = at
            .iter()
            .map(|b| matrix(b.nrows(), b.ncols(), b.nrows() + 7))
            .collect();
        let eta = regression.space.transport(&at, &at, &other);
        let slope = regression.space.inner(&at, local.gradient(), &eta);
        let h = 1e-5;
        let cost =
            |t: f64| regression.cost(&regression.space.retract(&at, &scaled(t, &eta)).unwrap());
        let measured = (cost(h) - cost(-h)) / (2.0 * h);
        assert!(
            (slope - measured).abs() < 1e-7 * (1.0 + slope.abs()),
            "{slope} {measured}"
        );
        // The Hessian is symmetric and agrees with the curvature.
        let bent = local.hessian(&eta);
        let curvature = regression.space.inner(&at, &bent, &eta);
        assert!((curvature - local.curvature(&eta)).abs() < 1e-11 * curvature);
        let xi = local.gradient();
        let (a, b) = (
            regression.space.inner(&at, &bent, xi),
            regression.space.inner(&at, &local.hessian(xi), &eta),
        );
        assert!((a - b).abs() < 1e-11 * (1.0 + a.abs()), "{a} {b}");
    }

    #[test]
    fn gradients_agree_with_differences_on_every_geometry() {
        let observed = observed(12, 9);
        let problem = Completion {
            entries: observed.part(Part::All),
            center: 0.1,
            threads: 1,
        };
        let polar = Polar {
            retraction: Retraction::Uf,
        };
        differences(&biased(problem, Balanced));
        differences(&biased(problem, polar));
        differences(&biased(problem, Embedded));
        for lambda in [0.0, 1e-3, 1.0] {
            let matrix = Penalty::Matrix(lambda);
            differences(&Regression::new(problem, Balanced, matrix));
            differences(&Regression::new(problem, polar, matrix));
            differences(&Regression::new(problem, Embedded, matrix));
            differences(&Regression::new(problem, Factors, matrix));
            differences(&Regression::new(problem, Factors, Penalty::Factors(lambda)));
        }
    }

    fn recovers<M: FixedRank>(manifold: M, solver: Solver) {
        let (n, m, k) = (40, 30, 2);
        let truth = &matrix(n, k, 1) * matrix(m, k, 2).transpose();
        let entries = (0..n * m).filter(|t| (t * 7919) % 100 < 60);
        let entries = entries.map(|t| {
            let (i, j) = (t / m, t % m);
            (i as u32, j as u32, truth[(i, j)])
        });
        let (observed, _) = super::super::Observed::new((n, m), entries.collect()).unwrap();
        let problem = Completion {
            entries: observed.part(Part::All),
            center: 0.0,
            threads: 1,
        };
        let regression = Regression::new(problem, manifold, Penalty::Matrix(0.0));
        let (left, right) = (
            matrix(n, k, 1) + faer::Scale(0.3) * matrix(n, k, 5),
            matrix(m, k, 2) + faer::Scale(0.3) * matrix(m, k, 6),
        );
        let start = regression.space.inner.point(&left, &right).unwrap();
        let limits = Limits {
            iterations: 3000,
            decrease: 0.0,
            cost: 1e-20,
            ..Limits::default()
        };
        let mut costs = vec![regression.cost(&start)];
        let solved = solver.solve(&regression, start, limits, &mut |step| {
            costs.push(step.cost);
            true
        });
        assert!(
            costs.is_sorted_by(|a, b| a >= b),
            "every step lowers the cost"
        );
        let (l, r) = regression.space.inner.factors(&solved.point);
        let error = (l * r.transpose() - &truth).norm_l2() / truth.norm_l2();
        assert!(error < 1e-8, "{solver:?} {error} {}", solved.iterations);
    }

    #[test]
    fn every_solver_recovers_a_planted_matrix_on_every_geometry() {
        let descent = Solver::Descent(Armijo::default());
        let cg = |precondition| Solver::ConjugateGradient { precondition };
        for solver in [descent, cg(false), cg(true), Solver::TrustRegion] {
            recovers(Balanced, solver);
            recovers(Embedded, solver);
            recovers(Factors, solver);
            for retraction in [Retraction::Uf, Retraction::Qf] {
                recovers(Polar { retraction }, solver);
            }
        }
    }
}
