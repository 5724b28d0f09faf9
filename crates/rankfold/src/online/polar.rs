//! The polar geometry of W = U B Vᵀ: gradient steps on two factors with orthonormal
//! columns, and a geodesic of the positive definite B, at sparse cost.
//!
//! With z̄ = Uᵀz, x̄ = Vᵀx, σ̄ = Bx̄ and η the step times the slope of the loss, the dense
//! algorithm takes U to the orthonormal factor of UT − η z σ̄ᵀ, T = I + η Sym(z̄σ̄ᵀ), and V
//! likewise: [`turn`](super::turn) has that step at sparse cost.
//!
//! B = RRᵀ moves by R ← R exp(−½η Sym(σρᵀ)), σ = Rᵀx̄ and ρ = Rᵀz̄, again in a plane; with a
//! regularizer λ/2 ‖W‖² the exponent gains −½sλ(RᵀR)², and the exponential costs k³.
//!
//! Cost: O((nnz z + nnz x) k + k²). Reference: [Meyer2011], algorithm 2.

use super::guard::{self, Kernel, not_beyond, spectral_norm, symmetric_products};
use super::loreta_batch::{count_rows, products, projections};
use super::plane::{self, Plane, UNIT};
use super::turn::{Column, Half, Inside, LARGEST_EXPONENT, Planned, blend, factorize, plan_root};
use super::{
    Attempt, Learned, Learner, Mixed, RankOne, Retract, Step, descend, descend_mixed, descend_sum,
};
use crate::form::{Orthonormal, Polar as PolarForm};
use crate::kernel::{dot, padded};
use crate::linalg::{Retraction, Square, symmetric};
use crate::{Loss, Real, Result};
use faer::Mat;

/// Online learning in the polar geometry of matrices of rank k.
#[derive(Debug, Clone)]
pub struct Polar<R> {
    form: PolarForm<R>,
    retraction: Retraction,
    regularization: f64,
    /// Size of the step over the number of its examples.
    size: f64,
    /// Size of the step times λ.
    shrink: f64,
    scratch: Scratch<R>,
}

#[derive(Debug, Clone)]
struct Scratch<R> {
    left: Half,
    right: Half,
    plane: Plane,
    vectors: [Vec<f64>; 4],
    squares: [Square; 4],
    row: Vec<R>,
}

impl<R: Real> Polar<R> {
    /// Starts from a form, with the retraction `uf` and no regularizer.
    pub fn new(form: PolarForm<R>) -> Self {
        let k = form.rank();
        let zeros = || vec![0.0; padded(k)];
        let zero = || Square::zero(k);
        let scratch = Scratch {
            left: Half::new(k),
            right: Half::new(k),
            plane: Plane::new(padded(k)),
            vectors: [zeros(), zeros(), zeros(), zeros()],
            squares: [zero(), zero(), zero(), zero()],
            row: vec![R::default(); padded(k)],
        };
        Polar {
            form,
            retraction: Retraction::Uf,
            regularization: 0.0,
            size: 0.0,
            shrink: 0.0,
            scratch,
        }
    }

    /// The same with the regularizer λ/2 ‖W‖².
    pub fn regularized(mut self, lambda: f64) -> Self {
        self.regularization = lambda;
        self
    }

    /// The same with another way back to orthonormal columns.
    pub fn retracted(mut self, retraction: Retraction) -> Self {
        self.retraction = retraction;
        self
    }

    form_access!(mut PolarForm<R>);

    learn_sum!(R);
}

impl<R: Real> Learner<R> for Polar<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        let Scratch { left, right, .. } = &mut self.scratch;
        let form = &self.form;
        form.left.tall.expect(example.left);
        form.right.tall.expect(example.right);
        left.project(&form.left, &form.root, example.left);
        right.project(&form.right, &form.root, example.right);
        dot(&left.rooted, &right.rooted)
    }

    descends!(R, grow);
}

impl<R: Real> Retract<R> for Polar<R> {
    fn prepare(&mut self, size: f64, examples: usize) {
        self.size = size / examples as f64;
        self.shrink = size * self.regularization;
    }

    fn unguard(&mut self) {
        self.size = 0.0;
    }

    fn retract(&mut self, example: RankOne<'_, R>, scale: f64, limit: f64) -> Attempt {
        let (regularized, retraction) = (self.is_regularized(), self.retraction);
        let Scratch {
            left,
            right,
            plane,
            vectors: [a, b, s, t],
            squares,
            row,
        } = &mut self.scratch;
        let form = &mut self.form;
        let mut eta = -scale;
        let (rho, sigma) = (&left.rooted, &right.rooted);
        let squared = [dot(rho, rho), dot(sigma, sigma)];
        if squared == [0.0; 2] && !regularized {
            return Attempt::Idle;
        }
        form.root.multiply(&mut left.direction, sigma);
        form.root.multiply(&mut right.direction, rho);
        let (zz, xx) = (example.left.squared_norm(), example.right.squared_norm());
        // How far U, V and the logarithm of B move.
        let turn_left = (zz * dot(&left.direction, &left.direction)).sqrt();
        let turn_right = (xx * dot(&right.direction, &right.direction)).sqrt();
        let stretch = 0.5 * (dot(rho, sigma).abs() + (squared[0] * squared[1]).sqrt());
        let relative = turn_left.max(turn_right).max(stretch);
        let product = dot(rho, sigma);
        let pace = turn_left * turn_left
            + turn_right * turn_right
            + 0.5 * (squared[0] * squared[1] + product * product);
        eta *= not_beyond(self.size, pace, limit);
        if eta.abs() * relative > limit {
            eta = limit.copysign(eta) / relative;
        }
        let finite = (eta * relative).is_finite();
        if !finite || (eta * stretch).abs() > LARGEST_EXPONENT {
            return Attempt::Refused;
        }

        // All is planned before anything is written.
        let mut bent = UNIT;
        if regularized {
            blend(a, rho, 0.5 * eta, rho, 0.0);
            blend(b, sigma, 0.5 * eta, sigma, 0.0);
            squares[0].combine(0.0, 0.0, &form.root);
            squares[0].add_outer([sigma, rho], [a, b]);
            if !plan_root::<R>(&form.root, self.shrink, squares) {
                return Attempt::Refused;
            }
        } else {
            plane.set(sigma, rho);
            bent = plane::plus(plane::exp(-0.5 * eta, plane.symmetric()), -1.0, UNIT);
        }
        let easy_left = left.plan(&form.left, zz, eta, Inside::Symmetric, retraction);
        let easy_right = right.plan(&form.right, xx, eta, Inside::Symmetric, retraction);
        let fits = left.fits(&form.left, zz, eta, easy_left)
            && right.fits(&form.right, xx, eta, easy_right)
            && bent.iter().flatten().all(|v| v.is_finite());
        if !fits {
            return Attempt::Refused;
        }

        if regularized {
            form.root.assign(&squares[3]);
        } else {
            let [p, q] = &plane.basis;
            form.root.multiply(a, p);
            form.root.multiply(b, q);
            blend(s, p, bent[0][0], q, bent[0][1]);
            blend(t, p, bent[1][0], q, bent[1][1]);
            form.root.add_outer([a, b], [s, t]);
        }
        let sides = [
            (&mut form.left, left, example.left, zz, easy_left),
            (&mut form.right, right, example.right, xx, easy_right),
        ];
        for (side, half, x, squared, easy) in sides {
            if easy {
                half.write(side, x, squared, row, [s, t]);
                if retraction == Retraction::Qf {
                    factorize(side, squares);
                }
            } else {
                half.write_densely(side, x, eta, row, retraction);
            }
        }
        let exact = retraction == Retraction::Qf;
        form.after_update(example.left.len() + example.right.len(), exact);
        Attempt::Moved
    }

    fn retract_batch(&mut self, gradient: &[(RankOne<'_, R>, f64)], limit: f64) -> Attempt {
        let (regularized, retraction) = (self.is_regularized(), self.retraction);
        let form = &mut self.form;
        let (k, r) = (form.rank(), gradient.len());
        let mut left: Vec<_> = gradient.iter().map(|(e, c)| (e.left, -c)).collect();
        let mut right: Vec<_> = gradient.iter().map(|(e, c)| (e.right, -c)).collect();
        let project = |side: &Orthonormal<R>, columns: &[Column<'_, R>]| {
            projections(&side.tall, columns.iter().map(|&(x, _)| (x, 1.0)), r)
        };
        let (u, v) = (project(&form.left, &left), project(&form.right, &right));
        let root = form.root.to_faer();
        let rho = root.transpose() * (form.left.map.to_faer().transpose() * &u);
        let sigma = root.transpose() * (form.right.map.to_faer().transpose() * &v);
        if rho.norm_l2() == 0.0 && sigma.norm_l2() == 0.0 && !regularized {
            return Attempt::Idle;
        }
        let (left_directions, right_directions) = (&root * &sigma, &root * &rho);
        let scaled = Mat::from_fn(k, r, |i, j| left[j].1 * sigma[(i, j)]);
        let mut exponent = symmetric::part(&(scaled * rho.transpose()));
        // As for one example: how far U, V and the logarithm of B move.
        let kernel = |columns: &[Column<'_, R>], d: &Mat<f64>| {
            let unit: Vec<_> = columns.iter().map(|&(x, _)| (x, 1.0)).collect();
            Kernel::of(&products(&unit), &(d.transpose() * d))
        };
        let turns = [
            kernel(&left, &left_directions),
            kernel(&right, &right_directions),
        ];
        let c: Vec<f64> = gradient.iter().map(|(_, c)| *c).collect();
        let stretch = spectral_norm(&exponent);
        let change = turns[0].length(&c).max(turns[1].length(&c)).max(stretch);
        if !(change + stretch).is_finite() {
            return Attempt::Refused;
        }
        let whole = &turns[0].0 + &turns[1].0 + symmetric_products(&rho, &sigma);
        let shorter = guard::shortened(self.size, Kernel(whole).pace(&c), limit, change, limit);
        for (_, eta) in left.iter_mut().chain(&mut right) {
            *eta *= shorter;
        }
        exponent *= faer::Scale(shorter);
        let squares = &mut self.scratch.squares;
        squares[0] = Square::from_faer(&exponent);
        if !plan_root::<R>(&form.root, self.shrink, squares) {
            return Attempt::Refused;
        }
        let plan = |side, columns: &[_], projected, directions| {
            Planned::new(
                side,
                columns,
                projected,
                directions,
                Inside::Symmetric,
                retraction,
            )
        };
        let planned_left = plan(&form.left, &left, &u, &left_directions);
        let planned_right = plan(&form.right, &right, &v, &right_directions);
        let (Some(planned_left), Some(planned_right)) = (planned_left, planned_right) else {
            return Attempt::Refused;
        };
        form.root.assign(&squares[3]);
        planned_left.write(&mut form.left, &left, retraction);
        planned_right.write(&mut form.right, &right, retraction);
        form.after_update(count_rows(&left) + count_rows(&right), true);
        Attempt::Moved
    }

    fn renew(&mut self) -> bool {
        false
    }

    fn is_regularized(&self) -> bool {
        self.regularization > 0.0
    }
}
