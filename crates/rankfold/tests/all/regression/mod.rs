//! Linear regression in the balanced and the polar geometry: the algorithms by their
//! definition, and what the tests of both need.

mod laws;
mod reference;
mod sparse;

use crate::common::*;
use crate::golden::Golden;
use crate::oracle::*;
use faer::Scale;
use rankfold::form::{Factored, Polar as PolarForm};
use rankfold::linalg::{Retraction, Square, symmetric};
use rankfold::manifold::balance;
use rankfold::online::{Balanced, Gradient, Learned, Learner, Outcome, Polar, RankOne, Step};
use rankfold::{Loss, Real, SparseVec, check};

fn square(m: &M) -> Square {
    Square::from_fn(m.nrows(), |i, j| m[(i, j)])
}

fn factored<R: Real>(g: &M, h: &M) -> Factored<R> {
    Factored::new(tall(g), tall(h))
}

/// B = I·b of the paper needs a root only.
fn polar_form<R: Real>(u: &M, b: &M, v: &M) -> PolarForm<R> {
    let root = symmetric::power(b, 0.5).unwrap();
    PolarForm::new(tall(u), &square(&root), tall(v)).unwrap()
}

/// One step of squared loss; z is left, x is right.
fn learn<R: Real>(
    learner: &mut impl Learner<R>,
    z: &[f64],
    x: &[f64],
    y: f64,
    step: Step,
) -> Learned {
    let narrow = |v: &[f64]| {
        let v: Vec<R> = v.iter().map(|&v| R::from_f64(v)).collect();
        SparseVec::from_dense(&v)
    };
    let (left, right) = (narrow(z), narrow(x));
    let example = RankOne {
        left: left.as_row(),
        right: right.as_row(),
    };
    learner.learn(example, y, Loss::Squared, step)
}

/// The gradient of the data term, e Xᵀ = Σ eᵢ zᵢ xᵢᵀ / b, and the squared loss.
fn data_gradient(w: &M, batch: &[(Vec<f64>, Vec<f64>, f64)]) -> M {
    let mut sum = M::zeros(w.nrows(), w.ncols());
    for (z, x, y) in batch {
        let (z, x) = (column(z), column(x));
        let e = (z.transpose() * w * &x)[(0, 0)] - y;
        sum += Scale(e / batch.len() as f64) * (z * x.transpose());
    }
    sum
}

/// Algorithm 1 by its definition: both factors from the old pair.
#[derive(Clone)]
struct PlainBalanced {
    g: M,
    h: M,
    lambda: f64,
}

impl PlainBalanced {
    fn w(&self) -> M {
        &self.g * self.h.transpose()
    }

    fn step(&mut self, batch: &[(Vec<f64>, Vec<f64>, f64)], size: f64) {
        let (g, h) = (&self.g, &self.h);
        let gradient = data_gradient(&self.w(), batch);
        let (s, r) = (g.transpose() * g, h.transpose() * h);
        let on_g = (&gradient * h + Scale(self.lambda) * (g * &r)) * &s;
        let on_h = (gradient.transpose() * g + Scale(self.lambda) * (h * &s)) * &r;
        self.g = g - Scale(size) * on_g;
        self.h = h - Scale(size) * on_h;
    }
}

/// Algorithm 2 by its definition.
#[derive(Clone)]
struct PlainPolar {
    u: M,
    b: M,
    v: M,
    lambda: f64,
    retraction: Retraction,
}

impl PlainPolar {
    fn w(&self) -> M {
        &self.u * &self.b * self.v.transpose()
    }

    fn step(&mut self, batch: &[(Vec<f64>, Vec<f64>, f64)], size: f64) {
        let (u, b, v) = (&self.u, &self.b, &self.v);
        let gradient = data_gradient(&self.w(), batch);
        let y = &gradient * v * b;
        let z = gradient.transpose() * u * b;
        let on_u = &y - u * symmetric::part(&(u.transpose() * &y));
        let on_v = &z - v * symmetric::part(&(v.transpose() * &z));
        let half = symmetric::power(b, 0.5).unwrap();
        let psi = symmetric::part(&(v.transpose() * gradient.transpose() * u));
        let inner = &half * (psi + Scale(self.lambda) * b) * &half;
        let moved = &half * symmetric::exp(&(Scale(-size) * inner)).unwrap() * &half;
        self.u = self.retraction.apply(&(u - Scale(size) * on_u)).unwrap();
        self.v = self.retraction.apply(&(v - Scale(size) * on_v)).unwrap();
        self.b = symmetric::part(&moved);
    }
}

/// Gradient descent on the factors with λ/2(‖G‖² + ‖H‖²).
#[derive(Clone)]
struct PlainFactors {
    g: M,
    h: M,
    lambda: f64,
}

impl PlainFactors {
    fn w(&self) -> M {
        &self.g * self.h.transpose()
    }

    fn step(&mut self, batch: &[(Vec<f64>, Vec<f64>, f64)], size: f64) {
        let (g, h) = (&self.g, &self.h);
        let gradient = data_gradient(&self.w(), batch);
        let on_g = &gradient * h + Scale(self.lambda) * g;
        let on_h = gradient.transpose() * g + Scale(self.lambda) * h;
        self.g = g - Scale(size) * on_g;
        self.h = h - Scale(size) * on_h;
    }
}

/// A planted matrix, and examples of it.
struct Planted {
    random: Random,
    w: M,
    nnz: usize,
}

impl Planted {
    fn new(seed: u64, (n, m, k): (usize, usize, usize), nnz: usize) -> Self {
        let mut random = Random::new(seed);
        let w = random.matrix(n, k) * random.matrix(m, k).transpose();
        Planted { random, w, nnz }
    }

    fn draw(&mut self) -> (Vec<f64>, Vec<f64>, f64) {
        let (n, m) = (self.w.nrows(), self.w.ncols());
        let (z, x) = (
            self.random.sparse(n, self.nnz),
            self.random.sparse(m, self.nnz),
        );
        let y = (column(&z).transpose() * &self.w * column(&x))[(0, 0)];
        let noise = 0.1 * self.random.normal();
        (z, x, y + noise)
    }

    fn batch(&mut self, size: usize) -> Vec<(Vec<f64>, Vec<f64>, f64)> {
        (0..size).map(|_| self.draw()).collect()
    }
}

fn nudged(batch: &[(Vec<f64>, Vec<f64>, f64)]) -> Vec<(Vec<f64>, Vec<f64>, f64)> {
    let nudge = |v: &[f64]| v.iter().map(|v| v * (1.0 + 1e-15)).collect();
    let each = batch.iter();
    each.map(|(z, x, y)| (nudge(z), nudge(x), *y)).collect()
}

/// Learns a batch; one example goes the way of single ones.
fn learn_batch(
    learner: &mut impl Learner<f64>,
    batch: &[(Vec<f64>, Vec<f64>, f64)],
    size: f64,
) -> Learned {
    if let [(z, x, y)] = batch {
        return learn(learner, z, x, *y, paper(size));
    }
    let rows: Vec<_> = batch
        .iter()
        .map(|(z, x, y)| (SparseVec::from_dense(z), SparseVec::from_dense(x), *y))
        .collect();
    let examples: Vec<_> = rows
        .iter()
        .map(|(z, x, y)| {
            let example = RankOne {
                left: z.as_row(),
                right: x.as_row(),
            };
            (example, *y)
        })
        .collect();
    learner.learn_batch(&examples, Loss::Squared, paper(size))
}

fn start(random: &mut Random, (n, m, k): (usize, usize, usize)) -> (M, M) {
    let scale = 0.7;
    (
        Scale(scale) * random.matrix(n, k),
        Scale(scale) * random.matrix(m, k),
    )
}

/// The largest step that is safe for these sizes.
fn safe(shape: (usize, usize, usize), nnz: usize) -> f64 {
    let (n, m, k) = shape;
    let length = nnz.min(n.max(m)) as f64;
    0.02 / (length * length * k as f64 * (n + m) as f64).sqrt() / length
}
