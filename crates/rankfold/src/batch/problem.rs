//! Costs of a matrix W that solvers can lower.

use super::core_equations;
use super::pass::Pass;
use super::rowwise::Rowwise;
use crate::manifold::beside;
use crate::sparse::View;
use faer::Mat;

/// What a cost says of itself at W = L Rᵀ, where E is its gradient.
#[derive(Debug, Clone)]
pub struct Slope {
    /// The cost.
    pub cost: f64,
    /// E R.
    pub er: Mat<f64>,
    /// Eᵀ L.
    pub el: Mat<f64>,
}

/// A sum of squares that depends on W: it sees factors of W only, and never has
/// an array of the size of W.
pub trait Problem: Sync {
    /// Rows and columns of W.
    fn shape(&self) -> (usize, usize);

    /// The cost at W = L Rᵀ.
    fn cost(&self, left: &Mat<f64>, right: &Mat<f64>) -> f64;

    /// The cost and the products of its gradient.
    fn slope(&self, left: &Mat<f64>, right: &Mat<f64>) -> Slope;

    /// E R alone.
    fn er(&self, left: &Mat<f64>, right: &Mat<f64>) -> Mat<f64> {
        self.slope(left, right).er
    }

    /// Eᵀ L alone.
    fn el(&self, left: &Mat<f64>, right: &Mat<f64>) -> Mat<f64> {
        self.slope(left, right).el
    }

    /// The second derivative along a direction of W that is given by two factors.
    fn curvature(&self, direction: (&Mat<f64>, &Mat<f64>)) -> f64;

    /// The same as `cost`, with the products (HD) R and (HD)ᵀ L for the direction
    /// D, where H is the second derivative.
    fn hessian_product(
        &self,
        direction: (&Mat<f64>, &Mat<f64>),
        left: &Mat<f64>,
        right: &Mat<f64>,
    ) -> Slope;

    /// The S with the least cost at W = U S Vᵀ, where the problem has a shorter way to it than
    /// conjugate gradients.
    fn core(&self, _left: &Mat<f64>, _right: &Mat<f64>) -> Option<Mat<f64>> {
        None
    }
}

/// Completion: 1/(2N) Σ (W_ij + center − y_ij)² over N known entries.
#[derive(Debug, Clone, Copy)]
pub struct Completion<'a> {
    /// The known entries.
    pub entries: View<'a>,
    /// A number beside W that all entries have.
    pub center: f64,
    /// Threads; results have the same bits for any number of them.
    pub threads: usize,
}

impl<'a> Completion<'a> {
    fn passes(&self, left: &'a Rowwise, right: &'a Rowwise) -> [Pass<'a>; 2] {
        let of = |lines, own, other| Pass {
            lines,
            center: self.center,
            own,
            other,
            threads: self.threads,
        };
        [
            of(self.entries.rows, left, right),
            of(self.entries.columns, right, left),
        ]
    }

    fn scale(&self) -> f64 {
        1.0 / self.entries.count.max(1) as f64
    }
}

impl Problem for Completion<'_> {
    fn shape(&self) -> (usize, usize) {
        (self.entries.rows.len(), self.entries.columns.len())
    }

    fn cost(&self, left: &Mat<f64>, right: &Mat<f64>) -> f64 {
        let (l, r) = (Rowwise::from_mat(left), Rowwise::from_mat(right));
        let [rows, _] = self.passes(&l, &r);
        0.5 * self.scale() * rows.cost()
    }

    fn slope(&self, left: &Mat<f64>, right: &Mat<f64>) -> Slope {
        let (l, r) = (Rowwise::from_mat(left), Rowwise::from_mat(right));
        let [rows, columns] = self.passes(&l, &r);
        let ((cost, er), (_, el)) = (rows.slope(), columns.slope());
        let (k, scale) = (left.ncols(), self.scale());
        Slope {
            cost: 0.5 * scale * cost,
            er: faer::Scale(scale) * er.to_mat(k),
            el: faer::Scale(scale) * el.to_mat(k),
        }
    }

    fn er(&self, left: &Mat<f64>, right: &Mat<f64>) -> Mat<f64> {
        let (l, r) = (Rowwise::from_mat(left), Rowwise::from_mat(right));
        let [rows, _] = self.passes(&l, &r);
        faer::Scale(self.scale()) * rows.slope().1.to_mat(left.ncols())
    }

    fn el(&self, left: &Mat<f64>, right: &Mat<f64>) -> Mat<f64> {
        let (l, r) = (Rowwise::from_mat(left), Rowwise::from_mat(right));
        let [_, columns] = self.passes(&l, &r);
        faer::Scale(self.scale()) * columns.slope().1.to_mat(left.ncols())
    }

    fn curvature(&self, direction: (&Mat<f64>, &Mat<f64>)) -> f64 {
        let zero = Completion {
            center: 0.0,
            ..*self
        };
        let (l, r) = (
            Rowwise::from_mat(direction.0),
            Rowwise::from_mat(direction.1),
        );
        let [rows, _] = zero.passes(&l, &r);
        self.scale() * rows.squares()
    }

    fn hessian_product(
        &self,
        direction: (&Mat<f64>, &Mat<f64>),
        left: &Mat<f64>,
        right: &Mat<f64>,
    ) -> Slope {
        let (dl, dr) = (
            Rowwise::from_mat(direction.0),
            Rowwise::from_mat(direction.1),
        );
        let (l, r) = (Rowwise::from_mat(left), Rowwise::from_mat(right));
        let [rows, columns] = self.passes(&dl, &dr);
        let ((cost, er), (_, el)) = (rows.product(&r), columns.product(&l));
        let (k, scale) = (left.ncols(), self.scale());
        Slope {
            cost: scale * cost,
            er: faer::Scale(scale) * er.to_mat(k),
            el: faer::Scale(scale) * el.to_mat(k),
        }
    }

    fn core(&self, left: &Mat<f64>, right: &Mat<f64>) -> Option<Mat<f64>> {
        let rows = self.entries.rows;
        core_equations::core(rows, self.center, (left, right), self.threads)
    }
}

/// Learning on pairs, or from general data: 1/(2N) Σ (Tr(W X_t) − y_t)², where
/// each X_tᵀ is a product of two factors; for a pair those are its two rows.
#[derive(Debug, Clone)]
pub struct Examples {
    /// Rows and columns of W.
    pub shape: (usize, usize),
    /// A_t and B_t with X_tᵀ = A_t B_tᵀ, and the target.
    pub data: Vec<(Mat<f64>, Mat<f64>, f64)>,
}

impl Examples {
    /// Σ c_t X_tᵀ applied to both factors, with the coefficients that `weigh`
    /// gives for scores of W = P Qᵀ and targets.
    fn pass(
        &self,
        (p, q): (&Mat<f64>, &Mat<f64>),
        (l, r): (&Mat<f64>, &Mat<f64>),
        weigh: impl Fn(f64, f64) -> f64,
    ) -> Slope {
        let mut out = Slope {
            cost: 0.0,
            er: Mat::zeros(self.shape.0, r.ncols()),
            el: Mat::zeros(self.shape.1, l.ncols()),
        };
        let scale = 1.0 / self.data.len().max(1) as f64;
        for (a, b, y) in &self.data {
            let score = crate::manifold::dot(&(p.transpose() * a), &(q.transpose() * b));
            let e = weigh(score, *y);
            out.cost += scale * e * e;
            out.er += faer::Scale(scale * e) * (a * (b.transpose() * r));
            out.el += faer::Scale(scale * e) * (b * (a.transpose() * l));
        }
        out
    }
}

impl Problem for Examples {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn cost(&self, left: &Mat<f64>, right: &Mat<f64>) -> f64 {
        let square = |(a, b, y): &(Mat<f64>, Mat<f64>, f64)| {
            let score = crate::manifold::dot(&(left.transpose() * a), &(right.transpose() * b));
            (score - y).powi(2)
        };
        self.data.iter().map(square).sum::<f64>() * 0.5 / self.data.len().max(1) as f64
    }

    fn slope(&self, left: &Mat<f64>, right: &Mat<f64>) -> Slope {
        let found = self.pass((left, right), (left, right), |score, y| score - y);
        Slope {
            cost: 0.5 * found.cost,
            ..found
        }
    }

    fn curvature(&self, (left, right): (&Mat<f64>, &Mat<f64>)) -> f64 {
        let square = |(a, b, _): &(Mat<f64>, Mat<f64>, f64)| {
            crate::manifold::dot(&(left.transpose() * a), &(right.transpose() * b)).powi(2)
        };
        self.data.iter().map(square).sum::<f64>() / self.data.len().max(1) as f64
    }

    fn hessian_product(
        &self,
        direction: (&Mat<f64>, &Mat<f64>),
        left: &Mat<f64>,
        right: &Mat<f64>,
    ) -> Slope {
        self.pass(direction, (left, right), |score, _| score)
    }
}

/// [L b 1] and [R 1 c]: W + b 1ᵀ + 1 cᵀ as a product.
pub(crate) fn with_biases(
    left: &Mat<f64>,
    right: &Mat<f64>,
    biases: &[Mat<f64>],
) -> (Mat<f64>, Mat<f64>) {
    let ones = |n: usize| Mat::from_fn(n, 1, |_, _| 1.0);
    (
        beside(&beside(left, &biases[0]), &ones(left.nrows())),
        beside(&beside(right, &ones(right.nrows())), &biases[1]),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::manifold::tests::matrix;
    use crate::sparse::{Observed, Part};

    /// Entries of a matrix with holes.
    pub fn observed(n: usize, m: usize) -> Observed {
        let entries = (0..n as u32).flat_map(|i| (0..m as u32).map(move |j| (i, j)));
        let some = entries.filter(|&(i, j)| (i * 7 + j * 3) % 5 < 3);
        let entries = some.map(|(i, j)| (i, j, f64::from(i * 3 + j).sin()));
        Observed::new((n, m), entries.collect()).unwrap().0
    }

    #[test]
    fn passes_equal_dense_sums_at_every_width_and_for_any_threads() {
        let (n, m) = (150, 40);
        let observed = observed(n, m);
        let view = observed.part(Part::All);
        for k in [1, 2, 3, 5, 9, 10, 12, 17, 30, 41] {
            let (l, r) = (matrix(n, k, 1), matrix(m, k, 2));
            let (dl, dr) = (matrix(n, 2 * k, 3), matrix(m, 2 * k, 4));
            let dense = |a: &Mat<f64>, b: &Mat<f64>, residual: bool| {
                let w = a * b.transpose();
                let mut e = Mat::<f64>::zeros(n, m);
                for i in 0..n {
                    let (index, value) = view.rows.line(i);
                    for (&j, &y) in index.iter().zip(value) {
                        let y = if residual { y - 0.25 } else { 0.0 };
                        e[(i, j as usize)] = w[(i, j as usize)] - y;
                    }
                }
                e
            };
            let scale = 1.0 / view.count as f64;
            for threads in [1, 3] {
                let problem = Completion {
                    entries: view,
                    center: 0.25,
                    threads,
                };
                let e = dense(&l, &r, true);
                let found = problem.slope(&l, &r);
                let want = 0.5 * scale * e.squared_norm_l2();
                let near = |a: f64, b: f64| (a - b).abs() < 1e-12 * (1.0 + b.abs());
                assert!(near(found.cost, want) && near(problem.cost(&l, &r), want));
                let close = |a: &Mat<f64>, b: Mat<f64>| {
                    (a - faer::Scale(scale) * b).norm_l2() < 1e-12 * a.norm_l2()
                };
                assert!(close(&found.er, &e * &r) && close(&found.el, e.transpose() * &l));
                assert_eq!(problem.er(&l, &r), found.er);
                assert_eq!(problem.el(&l, &r), found.el);
                let d = dense(&dl, &dr, false);
                let hessian_product = problem.hessian_product((&dl, &dr), &l, &r);
                assert!(near(hessian_product.cost, scale * d.squared_norm_l2()));
                assert!(near(problem.curvature((&dl, &dr)), hessian_product.cost));
                assert!(
                    close(&hessian_product.er, &d * &r)
                        && close(&hessian_product.el, d.transpose() * &l)
                );
            }
        }
    }

    #[test]
    fn known_entries_are_examples_of_units() {
        let observed = observed(9, 7);
        let view = observed.part(Part::All);
        let unit = |n: usize, at: usize| Mat::from_fn(n, 1, |i, _| f64::from(i == at));
        let data = (0..9).flat_map(|i| {
            let (index, value) = view.rows.line(i);
            let pairs = index.iter().zip(value);
            pairs.map(move |(&j, &y)| (unit(9, i), unit(7, j as usize), y))
        });
        let examples = Examples {
            shape: (9, 7),
            data: data.collect(),
        };
        let problem = Completion {
            entries: view,
            center: 0.0,
            threads: 1,
        };
        let (l, r) = (matrix(9, 3, 1), matrix(7, 3, 2));
        let (a, b) = (examples.slope(&l, &r), problem.slope(&l, &r));
        assert!((a.cost - b.cost).abs() < 1e-13);
        assert!((a.er - b.er).norm_l2() < 1e-13 && (a.el - b.el).norm_l2() < 1e-13);
        assert!((examples.cost(&l, &r) - b.cost).abs() < 1e-13);
        let (a, b) = (
            examples.hessian_product((&l, &r), &l, &r),
            problem.hessian_product((&l, &r), &l, &r),
        );
        assert!((a.cost - b.cost).abs() < 1e-13 && (a.er - b.er).norm_l2() < 1e-13);
        assert!((examples.curvature((&l, &r)) - a.cost).abs() < 1e-13);
    }
}
