//! Regression on positive semi-definite matrices: the algorithms by their definition,
//! and what the tests of all geometries need.

mod cone;
mod laws;
mod oja;
mod pretraining;
mod reference;
mod sparse;

use crate::common::*;
use crate::golden::Golden;
use crate::oracle::*;
use faer::Scale;
use rankfold::form::{Full, PolarPsd as PolarPsdForm, Psd};
use rankfold::linalg::{Retraction, Square, qf, symmetric};
use rankfold::online::{
    Cone, ConeUpdate, Flat, Learned, Learner, Mixed, Oja, Outcome, PolarPsd, RankOne, Step,
    StepRule, Terms,
};
use rankfold::{Loss, Real, SparseVec, check};

/// An example p ⊗ q with its target and loss; p is q for most.
#[derive(Clone)]
struct Case {
    p: Vec<f64>,
    q: Vec<f64>,
    y: f64,
    loss: Loss,
}

impl Case {
    fn square(x: &[f64], y: f64) -> Self {
        Case {
            p: x.to_vec(),
            q: x.to_vec(),
            y,
            loss: Loss::Squared,
        }
    }

    fn nudged(&self) -> Self {
        let nudge = |v: &[f64]| v.iter().map(|v| v * (1.0 + 1e-15)).collect();
        Case {
            p: nudge(&self.p),
            q: nudge(&self.q),
            ..self.clone()
        }
    }
}

fn narrow<R: Real>(v: &[f64]) -> SparseVec<R> {
    SparseVec::from_dense(&v.iter().map(|&v| R::from_f64(v)).collect::<Vec<_>>())
}

/// Learns a batch; one example goes the way of single ones.
fn learn<R: Real>(learner: &mut impl Learner<R>, batch: &[Case], step: Step) -> Learned {
    let rows: Vec<_> = batch
        .iter()
        .map(|c| (narrow::<R>(&c.p), narrow::<R>(&c.q)))
        .collect();
    let mixed = rows.iter().zip(batch).map(|((p, q), case)| Mixed {
        example: RankOne {
            left: p.as_row(),
            right: q.as_row(),
        },
        target: case.y,
        loss: case.loss,
    });
    let mixed: Vec<_> = mixed.collect();
    match &mixed[..] {
        [only] => learner.learn(only.example, only.target, only.loss, step),
        _ => learner.learn_mixed(&mixed, step),
    }
}

fn learn_one<R: Real>(learner: &mut impl Learner<R>, case: &Case, step: Step) -> Learned {
    learn(learner, std::slice::from_ref(case), step)
}

/// M = mean e Sym(p qᵀ).
fn gradient(w: &M, batch: &[Case]) -> M {
    let mut sum = M::zeros(w.nrows(), w.ncols());
    for case in batch {
        let (p, q) = (column(&case.p), column(&case.q));
        let score = (p.transpose() * w * &q)[(0, 0)];
        let e = case.loss.at(score, case.y).1 / batch.len() as f64;
        sum += Scale(e) * symmetric::part(&(p * q.transpose()));
    }
    sum
}

/// W = GGᵀ by its definition.
#[derive(Clone)]
struct PlainFlat {
    g: M,
}

impl PlainFlat {
    fn w(&self) -> M {
        &self.g * self.g.transpose()
    }

    fn step(&mut self, batch: &[Case], size: f64) {
        let m = gradient(&self.w(), batch);
        self.g = &self.g - Scale(2.0 * size) * (m * &self.g);
    }
}

/// W = U R Rᵀ Uᵀ by its definition.
#[derive(Clone)]
struct PlainPolar {
    u: M,
    r: M,
    lambda: f64,
    retraction: Retraction,
}

impl PlainPolar {
    fn new(u: &M, r: &M, lambda: f64, retraction: Retraction) -> Self {
        PlainPolar {
            u: u.clone(),
            r: r.clone(),
            lambda,
            retraction,
        }
    }

    fn w(&self) -> M {
        let g = &self.u * &self.r;
        &g * g.transpose()
    }

    fn step(&mut self, batch: &[Case], size: f64) {
        self.step_along(&gradient(&self.w(), batch), size);
    }

    fn step_along(&mut self, m: &M, size: f64) {
        let (u, r) = (&self.u, &self.r);
        let mub = m * u * (r * r.transpose());
        let outside = &mub - u * (u.transpose() * &mub);
        let inner = symmetric::part(&(r.transpose() * u.transpose() * m * u * r));
        let moved = u - Scale(2.0 * self.lambda * size) * outside;
        let hessian_product =
            symmetric::exp(&(Scale(-0.5 * (1.0 - self.lambda) * size) * inner)).unwrap();
        self.r = r * hessian_product;
        self.u = self.retraction.apply(&moved).unwrap();
    }
}

fn square(m: &M) -> Square {
    Square::from_fn(m.nrows(), |i, j| m[(i, j)])
}

fn polar<R: Real>(u: &M, r: &M) -> PolarPsd<R> {
    PolarPsd::new(PolarPsdForm::new(tall(u), &square(r)).unwrap())
}

fn flat<R: Real>(g: &M) -> Flat<R> {
    Flat::new(Psd::new(tall(g)))
}

/// The updates of the cone by their definition: W after a step of this size along −M.
fn plain_cone(update: ConeUpdate, w: &M, m: &M, size: f64) -> M {
    let log = || symmetric::map(w, f64::ln).unwrap();
    let exp = |s: &M| symmetric::exp(&symmetric::part(s)).unwrap();
    match update {
        ConeUpdate::Flat => {
            let g = w.llt(faer::Side::Lower).unwrap().L().to_owned();
            let g = &g - Scale(2.0 * size) * (m * &g);
            &g * g.transpose()
        }
        ConeUpdate::Affine => {
            let half = symmetric::power(w, 0.5).unwrap();
            &half * exp(&(Scale(-size) * (&half * m * &half))) * &half
        }
        ConeUpdate::LogDet => w - Scale(size) * (w * m * w),
        ConeUpdate::VonNeumann => exp(&(log() - Scale(size) * m)),
        ConeUpdate::Log => {
            // ∫₀¹ e^{τS} M e^{(1−τ)S} dτ by Gauss and Legendre with five points on 64 parts.
            let (nodes, weights) = (
                [0.0, 0.5384693101056831, 0.906179845938664],
                [0.5688888888888889, 0.47862867049936647, 0.23692688505618908],
            );
            let (log, mut sum) = (log(), M::zeros(w.nrows(), w.nrows()));
            for part in 0..64 {
                for (i, sign) in [(0, 1.0), (1, 1.0), (1, -1.0), (2, 1.0), (2, -1.0)] {
                    let t = (part as f64 + 0.5 + 0.5 * sign * nodes[i]) / 64.0;
                    let ends = exp(&(Scale(t) * &log)) * m * exp(&(Scale(1.0 - t) * &log));
                    sum += Scale(0.5 * weights[i] / 64.0) * ends;
                }
            }
            exp(&(log - Scale(size) * sum))
        }
    }
}

fn full<R: Real>(w: &M) -> Full<R> {
    let n = w.nrows();
    let rows: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| w[(i, j)]).collect())
        .collect();
    Full::from_rows(&rows).unwrap()
}

/// The state of a learner as a matrix.
trait Seen {
    fn w(&self) -> M;
}

impl<R: Real> Seen for Flat<R> {
    fn w(&self) -> M {
        from_rows(&self.form().to_dense())
    }
}

impl<R: Real> Seen for PolarPsd<R> {
    fn w(&self) -> M {
        from_rows(&self.form().to_dense())
    }
}

impl<R: Real> Seen for Cone<R> {
    fn w(&self) -> M {
        from_rows(&self.form().to_dense())
    }
}

/// A planted matrix, and examples of it.
struct Planted {
    random: Random,
    w: M,
    nnz: usize,
    noise: f64,
}

impl Planted {
    fn new(seed: u64, (n, k): (usize, usize), nnz: usize) -> Self {
        let mut random = Random::new(seed);
        let g = random.matrix(n, k);
        Planted {
            random,
            w: &g * g.transpose(),
            nnz,
            noise: 0.1,
        }
    }

    fn square(&mut self) -> Case {
        let x = self.random.sparse(self.w.nrows(), self.nnz);
        let y = (column(&x).transpose() * &self.w * column(&x))[(0, 0)];
        Case::square(&x, y * (1.0 + self.noise * self.random.normal()))
    }

    /// Examples of all kinds: squares mostly, and of two rows where `mixed`.
    fn batch(&mut self, size: usize, mixed: bool) -> Vec<Case> {
        let losses = [Loss::Squared, Loss::AtMost, Loss::AtLeast];
        let mut draw = |_| {
            let mut case = self.square();
            if mixed {
                case.loss = losses[self.random.below(3)];
                if self.random.below(3) == 0 {
                    case.q = self.random.sparse(self.w.nrows(), self.nnz);
                }
            }
            case
        };
        (0..size).map(&mut draw).collect()
    }
}

/// Sizes that break things: rank 1, rank of W, one feature.
const SHAPES: [(usize, usize); 6] = [(7, 2), (5, 1), (4, 4), (1, 1), (30, 5), (9, 8)];

fn start(random: &mut Random, (n, k): (usize, usize)) -> (M, M) {
    let u = qf(&random.matrix(n, k)).unwrap();
    (u, random.matrix(k, k) + Scale(2.0) * M::identity(k, k))
}

/// A step that is safe for these sizes.
fn safe((n, k): (usize, usize), nnz: usize) -> f64 {
    let length = nnz.min(n) as f64;
    0.003 / (length * length * k as f64)
}
