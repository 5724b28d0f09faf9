//! The polar geometry of W = U B Uᵀ: a step of the range of W and a geodesic of the
//! positive definite B on it, at sparse cost.
//!
//! In the metric (1/λ) Tr ξᵀξ + 1/(1−λ) Tr(B⁻¹ζB⁻¹ζ) and with M the gradient of the loss,
//! U goes to the orthonormal factor of U − 2λs(I − UUᵀ)MUB, and B = RRᵀ moves by
//! R ← R exp(−½(1−λ)s RᵀUᵀMUR). λ says how much of a step goes to the range of W: with 0
//! it stays as it is, and with 1 only the range moves.
//!
//! For an example x ⊗ x with slope e of the loss M = e xxᵀ. With x̄ = Uᵀx, ρ = Rᵀx̄, whose
//! squared norm is the score ŷ, and m = Rρ, the first is a [`turn`](super::turn) along
//! m with η = 2λse, whose T = I + η x̄mᵀ has the determinant δ = 1 + ηŷ. δ may be 0: that
//! one step is then taken on all rows. The second is
//! R ← R + expm1(−½(1−λ)seŷ)/ŷ · mρᵀ.
//!
//! Examples of two different rows, mini-batches and examples of any rank are sums of
//! such terms, at k³ a step besides.
//!
//! Cost: O(nnz x · k + k²). Reference: [Meyer2011b], section 6, with R not symmetric.

use super::guard::{self, Kernel, not_beyond, spectral_norm, symmetric_products};
use super::loreta_batch::{count_rows, products};
use super::turn::{Column, Half, Inside, LARGEST_EXPONENT, Planned, factorize, plan_root};
use super::{
    Attempt, Learned, Learner, Mixed, RankOne, Retract, Step, descend, descend_mixed, descend_sum,
};
use crate::form::{PolarPsd as PolarPsdForm, Tall};
use crate::kernel::{dot, padded};
use crate::linalg::{Retraction, Square, symmetric};
use crate::{Loss, Real, Result};
use faer::{Mat, Scale};

/// Online learning in the polar geometry of positive semi-definite matrices of rank k.
#[derive(Debug, Clone)]
pub struct PolarPsd<R> {
    form: PolarPsdForm<R>,
    retraction: Retraction,
    /// λ.
    weight: f64,
    /// Size of the step over the number of its examples.
    size: f64,
    /// Both sides of an example; the first one alone where they are the same.
    halves: [Half; 2],
    vectors: [Vec<f64>; 2],
    squares: [Square; 4],
    row: Vec<R>,
}

impl<R: Real> PolarPsd<R> {
    /// Starts from a form, with the retraction `uf` and λ = ½.
    pub fn new(form: PolarPsdForm<R>) -> Self {
        let k = form.rank();
        let zeros = || vec![0.0; padded(k)];
        let zero = || Square::zero(k);
        PolarPsd {
            form,
            retraction: Retraction::Uf,
            weight: 0.5,
            size: 0.0,
            halves: [Half::new(k), Half::new(k)],
            vectors: [zeros(), zeros()],
            squares: [zero(), zero(), zero(), zero()],
            row: vec![R::default(); padded(k)],
        }
    }

    /// The same with another way back to orthonormal columns.
    pub fn retracted(mut self, retraction: Retraction) -> Self {
        self.retraction = retraction;
        self
    }

    /// The same with another λ: with 0 the range of W never moves, with 1 nothing else
    /// does.
    #[track_caller]
    pub fn subspace_weight(mut self, lambda: f64) -> Self {
        assert!((0.0..=1.0).contains(&lambda), "λ = {lambda} is not a share");
        self.weight = lambda;
        self
    }

    form_access!(mut PolarPsdForm<R>);

    learn_sum!(R);

    /// The squared norm of the gradient in the metric for a slope of one: how fast the
    /// score of the example just scored moves. Leaves the directions in the halves.
    fn pace(&mut self, example: RankOne<'_, R>) -> f64 {
        let root = &self.form.root;
        let [a, b] = &mut self.halves;
        let outside = |squared: f64, turned: &[f64]| (squared - dot(turned, turned)).max(0.0);
        let pp = example.left.squared_norm();
        let (turn, stretch) = if example.is_square() {
            let score = dot(&a.rooted, &a.rooted);
            root.multiply(&mut a.direction, &a.rooted);
            let along = dot(&a.direction, &a.direction);
            (4.0 * outside(pp, &a.turned) * along, score * score)
        } else {
            root.multiply(&mut a.direction, &b.rooted);
            root.multiply(&mut b.direction, &a.rooted);
            let qq = example.right.squared_norm();
            let across = example.left.dot(example.right) - dot(&a.turned, &b.turned);
            let score = dot(&a.rooted, &b.rooted);
            let squares = dot(&a.rooted, &a.rooted) * dot(&b.rooted, &b.rooted);
            (
                outside(pp, &a.turned) * dot(&a.direction, &a.direction)
                    + outside(qq, &b.turned) * dot(&b.direction, &b.direction)
                    + 2.0 * across * dot(&a.direction, &b.direction),
                0.5 * (squares + score * score),
            )
        };
        self.weight * turn.max(0.0) + (1.0 - self.weight) * stretch
    }
}

/// Whether the range of W can move: it cannot where it is all of the space.
fn can_turn<R: Real>(form: &PolarPsdForm<R>) -> bool {
    form.factor().rows() > form.rank()
}

impl<R: Real> Learner<R> for PolarPsd<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        let PolarPsdForm { factor, root, .. } = &self.form;
        let [a, b] = &mut self.halves;
        factor.tall.expect(example.left);
        a.project(factor, root, example.left);
        if example.is_square() {
            return dot(&a.rooted, &a.rooted);
        }
        b.project(factor, root, example.right);
        dot(&a.rooted, &b.rooted)
    }

    descends!(R);

    fn gradient_norm(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss) -> f64 {
        let (_, slope) = loss.at(self.score(example), target);
        slope.abs() * self.pace(example).sqrt()
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left.max(right))
    }
}

impl<R: Real> Retract<R> for PolarPsd<R> {
    fn prepare(&mut self, size: f64, examples: usize) {
        self.size = size / examples as f64;
    }

    fn unguard(&mut self) {
        self.size = 0.0;
    }

    fn retract(&mut self, example: RankOne<'_, R>, mut scale: f64, limit: f64) -> Attempt {
        if !example.is_square() {
            return self.retract_batch(&[(example, scale)], limit);
        }
        let pace = self.pace(example);
        let (lambda, retraction, size) = (self.weight, self.retraction, self.size);
        let PolarPsd {
            form,
            halves: [half, _],
            vectors: [s, t],
            squares,
            row,
            ..
        } = self;
        let (score, along) = (
            dot(&half.rooted, &half.rooted),
            dot(&half.direction, &half.direction),
        );
        if score == 0.0 {
            return Attempt::Idle;
        }
        // How far U and the logarithm of B move for each unit of scale.
        let xx = example.left.squared_norm();
        let outside = (xx - dot(&half.turned, &half.turned)).max(0.0);
        let turn = 2.0 * lambda * (outside * along).sqrt();
        let stretch = (1.0 - lambda) * score;
        let (relative, reach) = (turn.max(stretch), 0.5 * limit);
        scale *= not_beyond(size, pace, limit);
        if scale.abs() * relative > reach {
            scale = reach.copysign(scale) / relative;
        }
        let finite = (scale * (turn + stretch + xx * along)).is_finite();
        if !finite || (scale * stretch).abs() > LARGEST_EXPONENT {
            return Attempt::Refused;
        }

        // All is planned before anything is written.
        let eta = -2.0 * lambda * scale;
        let bent = (0.5 * (1.0 - lambda) * scale * score).exp_m1() / score;
        let trace = form.trace() + bent * along * (2.0 + bent * score);
        let turns = eta != 0.0 && can_turn(form);
        if !turns && bent == 0.0 {
            return Attempt::Idle;
        }
        let easy = turns && half.plan(&form.factor, xx, eta, Inside::All, retraction);
        let fits = Tall::<R>::in_range(trace) && (!turns || half.fits(&form.factor, xx, eta, easy));
        if !fits {
            return Attempt::Refused;
        }
        if bent != 0.0 {
            for (s, r) in s.iter_mut().zip(&half.rooted) {
                *s = bent * r;
            }
            form.root.add_outer([&half.direction], [s]);
        }
        if turns {
            if easy {
                half.write(&mut form.factor, example.left, xx, row, [s, t]);
                if retraction == Retraction::Qf {
                    factorize(&mut form.factor, squares);
                }
            } else {
                half.write_densely(&mut form.factor, example.left, eta, row, retraction);
            }
            form.after_update(example.left.len(), !easy || retraction == Retraction::Qf);
        }
        Attempt::Moved
    }

    fn retract_batch(&mut self, gradient: &[(RankOne<'_, R>, f64)], limit: f64) -> Attempt {
        let (lambda, k, r) = (self.weight, self.form.rank(), gradient.len());
        // Of each side of each example: x, Ũᵀx, x̄, d, and the example with the share of
        // its gradient.
        let (mut columns, mut owners) = (Vec::new(), Vec::new());
        let (mut projected, mut turned, mut directions) = (Vec::new(), Vec::new(), Vec::new());
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        for (i, &(example, _)) in gradient.iter().enumerate() {
            self.score(example);
            self.pace(example);
            let [a, b] = &self.halves;
            let (other, sides) = match example.is_square() {
                true => (a, &[(a, example.left, 2.0)][..]),
                false => (b, &[(a, example.left, 1.0), (b, example.right, 1.0)][..]),
            };
            lefts.extend_from_slice(&a.rooted[..k]);
            rights.extend_from_slice(&other.rooted[..k]);
            for &(half, x, share) in sides {
                columns.push((x, 1.0));
                owners.push((i, share));
                projected.extend_from_slice(&half.projected[..k]);
                turned.extend_from_slice(&half.turned[..k]);
                directions.extend_from_slice(&half.direction[..k]);
            }
        }
        if directions.iter().all(|&d| d == 0.0) {
            return Attempt::Idle;
        }
        let matrix = |data: &[f64]| Mat::from_fn(k, data.len() / k, |i, j| data[j * k + i]);
        let [projected, turned, directions] = [projected, turned, directions].map(|d| matrix(&d));
        let [lefts, rights] = [lefts, rights].map(|d| matrix(&d));
        let c: Vec<f64> = gradient.iter().map(|(_, c)| *c).collect();
        let scaled = Mat::from_fn(k, r, |i, j| -(1.0 - lambda) * c[j] * lefts[(i, j)]);
        let exponent = symmetric::part(&(scaled * rights.transpose()));
        // As for one example: how far U and the logarithm of B move.
        let outside = products(&columns) - turned.transpose() * &turned;
        let turns = Kernel::of(&outside, &(directions.transpose() * &directions));
        let turns = turns.summed(&owners, r);
        let stretch = spectral_norm(&exponent);
        let change = (lambda * turns.length(&c)).max(stretch);
        if !(change + stretch + turns.0.norm_l2() + projected.norm_l2()).is_finite() {
            return Attempt::Refused;
        }
        let whole =
            Scale(lambda) * turns.0 + Scale(1.0 - lambda) * symmetric_products(&lefts, &rights);
        let pace = Kernel(whole).pace(&c);
        let shorter = guard::shortened(self.size, pace, limit, change, 0.5 * limit);
        for ((_, eta), (i, share)) in columns.iter_mut().zip(&owners) {
            *eta = -share * lambda * c[*i] * shorter;
        }
        let columns: &[Column<'_, R>] = &columns;
        let turns = lambda > 0.0 && can_turn(&self.form);
        if !turns && lambda == 1.0 {
            return Attempt::Idle;
        }
        if lambda < 1.0 {
            self.squares[0] = Square::from_faer(&(Scale(shorter) * exponent));
            if !plan_root::<R>(&self.form.root, 0.0, &mut self.squares) {
                return Attempt::Refused;
            }
        }
        let (side, way) = (&self.form.factor, self.retraction);
        let planned = match turns {
            true => Planned::new(side, columns, &projected, &directions, Inside::All, way),
            false => None,
        };
        if turns && planned.is_none() {
            return Attempt::Refused;
        }
        if lambda < 1.0 {
            self.form.root.assign(&self.squares[3]);
        }
        if let Some(planned) = planned {
            planned.write(&mut self.form.factor, columns, way);
            self.form.after_update(count_rows(columns), true);
        }
        Attempt::Moved
    }

    fn renew(&mut self) -> bool {
        false
    }
}
