//! Linear regression in the balanced and the polar geometry: the reference cases,
//! the laws of both, and the sparse forms against the dense algorithms.

use crate::golden::Golden;
use crate::oracle::*;
use faer::Scale;
use rankfold::form::{Factored, Polar as PolarForm, Tall};
use rankfold::linalg::{Retraction, Square, symmetric};
use rankfold::manifold::balance;
use rankfold::online::{Balanced, Gradient, Learned, Learner, Outcome, Polar, RankOne, Step};
use rankfold::{Loss, Real, SparseVec, check};

/// Sizes that break things: tall, wide, rank 1, rank of the smaller side.
const SIZES: [(usize, usize, usize); 6] = [
    (7, 6, 2),
    (5, 5, 1),
    (4, 9, 4),
    (12, 3, 3),
    (30, 20, 5),
    (9, 9, 8),
];

fn tall<R: Real>(m: &M) -> Tall<R> {
    Tall::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)]).unwrap()
}

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

fn paper(size: f64) -> Step {
    Step {
        size,
        limit: f64::INFINITY,
    }
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

#[track_caller]
fn close(what: &str, got: &M, want: &M, tolerance: f64) {
    let error = norm(&(got - want)) / norm(want).max(1.0);
    assert!(
        error <= tolerance,
        "{what}: relative error {error:e} above {tolerance:e}"
    );
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

struct Case {
    golden: Golden,
    x: Vec<Vec<f64>>,
    z: Vec<Vec<f64>>,
    y: Vec<f64>,
}

impl Case {
    fn read(name: &str) -> Self {
        let golden = Golden::read(name);
        Case {
            x: golden.matrix("/inputs/x"),
            z: golden.matrix("/inputs/z"),
            y: golden.vector("/inputs/y"),
            golden,
        }
    }

    fn input(&self, name: &str) -> M {
        from_rows(&self.golden.matrix(&format!("/inputs/{name}")))
    }

    fn examples(&self) -> impl Iterator<Item = (&[f64], &[f64], f64)> {
        let pairs = self.z.iter().zip(&self.x).zip(&self.y);
        pairs.map(|((z, x), &y)| (&z[..], &x[..], y))
    }

    #[track_caller]
    fn same(&self, output: &str, got: &M) {
        let want = self.golden.matrix(&format!("/outputs/{output}")).concat();
        self.golden.same(output, &flat(got), &want);
    }

    fn run(&self, learner: &mut impl Learner<f64>, size: f64) {
        for (z, x, y) in self.examples() {
            let learned = learn(learner, z, x, y, paper(size));
            assert_eq!(learned.outcome, Outcome::Moved);
        }
    }
}

#[test]
fn golden_balanced_online() {
    let case = Case::read("balanced_online");
    let (size, lambda) = (
        case.golden.number("/params/step"),
        case.golden.number("/params/lam"),
    );
    let every = case.golden.number("/params/tauB") as usize;
    let (g, h) = (case.input("G0"), case.input("H0"));

    // The paper's algorithm with Gram tracking and balancing.
    let (mut pg, mut ph) = (g.clone(), h.clone());
    let gram = |m: &M| m.transpose() * m;
    let (mut s, mut r) = (gram(&pg), gram(&ph));
    for (i, (z, x, y)) in case.examples().enumerate() {
        let (z, x) = (column(z), column(x));
        let (xb, zb) = (ph.transpose() * &x, pg.transpose() * &z);
        let (sigma, rho) = (&s * &xb, &r * &zb);
        let beta = size * ((xb.transpose() * &zb)[(0, 0)] - y);
        pg -= Scale(beta) * (&z * sigma.transpose());
        ph -= Scale(beta) * (&x * rho.transpose());
        let tracked = |old: &M, bar: &M, turned: &M, raw: &M| {
            let cross = bar * turned.transpose();
            let squared = beta * beta * (raw.transpose() * raw)[(0, 0)];
            old - Scale(beta) * (&cross + cross.transpose())
                + Scale(squared) * (turned * turned.transpose())
        };
        s = tracked(&s, &zb, &sigma, &z);
        r = tracked(&r, &xb, &rho, &x);
        close("S", &s, &gram(&pg), 1e-10);
        if (i + 1) % every == 0 {
            (pg, ph) = balance(&pg, &ph).unwrap();
            (s, r) = (gram(&pg), gram(&ph));
        }
    }
    case.same("G", &pg);
    case.same("H", &ph);
    case.same("S", &s);
    case.same("R", &r);
    case.same("W", &(&pg * ph.transpose()));

    let mut balanced = Balanced::new(factored::<f64>(&g, &h));
    case.run(&mut balanced, size);
    case.same("W", &from_rows(&balanced.form().to_dense()));
    let mut regularised = Balanced::new(factored::<f64>(&g, &h)).regularized(lambda);
    case.run(&mut regularised, size);
    case.same("W_regularised", &from_rows(&regularised.form().to_dense()));
    let mut plain = Gradient::new(factored::<f64>(&g, &h)).regularized(lambda);
    case.run(&mut plain, size);
    case.same("W_mmmf", &from_rows(&plain.form().to_dense()));
}

#[test]
fn golden_polar_online() {
    let case = Case::read("polar_online");
    let size = case.golden.number("/params/step");
    let (u, b, v) = (case.input("U0"), case.input("B0"), case.input("V0"));
    for (name, retraction) in [("qf", Retraction::Qf), ("uf", Retraction::Uf)] {
        for lambda in case.golden.vector("/params/lam") {
            let output = format!("W_{name}_lam{lambda:?}");
            let mut plain = PlainPolar {
                u: u.clone(),
                b: b.clone(),
                v: v.clone(),
                lambda,
                retraction,
            };
            for (z, x, y) in case.examples() {
                plain.step(&[(z.to_vec(), x.to_vec(), y)], size);
            }
            case.same(&output, &plain.w());
            let mut fast = Polar::new(polar_form::<f64>(&u, &b, &v))
                .regularized(lambda)
                .retracted(retraction);
            case.run(&mut fast, size);
            case.same(&output, &from_rows(&fast.form().to_dense()));
        }
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

/// Runs fast and plain side by side, with the plain run on nudged inputs as the
/// control: where that stays small, so does the difference.
fn side_by_side<P: Clone, L: Learner<f64>>(
    what: &str,
    planted: &mut Planted,
    (steps, batch, size): (usize, usize, f64),
    (mut fast, fast_w): (L, impl Fn(&L) -> M),
    (mut plain, step, w): (
        P,
        impl Fn(&mut P, &[(Vec<f64>, Vec<f64>, f64)], f64),
        impl Fn(&P) -> M,
    ),
) -> L {
    let mut control = plain.clone();
    for _ in 0..steps {
        let examples = planted.batch(batch);
        learn_batch(&mut fast, &examples, size);
        step(&mut plain, &examples, size);
        step(&mut control, &nudged(&examples), size);
    }
    let scale = norm(&w(&plain)).max(1.0);
    let wobble = norm(&(w(&control) - w(&plain))) / scale;
    assert!(
        wobble < 1e-9,
        "{what}: the control itself moves by {wobble:e}"
    );
    let error = norm(&(fast_w(&fast) - w(&plain))) / scale;
    assert!(
        error < 1e-12 + 300.0 * wobble,
        "{what}: {error:e}, the control {wobble:e}"
    );
    fast
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

#[test]
fn sparse_balanced_runs_equal_the_dense_algorithm() {
    for (i, &shape) in SIZES.iter().enumerate() {
        for (nnz, batch, lambda) in [
            (1, 1, 0.0),
            (3, 1, 0.0),
            (50, 1, 0.3),
            (3, 4, 0.0),
            (2, 3, 0.3),
        ] {
            let what = format!("{shape:?}, {nnz} non-zeros, batch {batch}, λ {lambda}");
            let mut planted = Planted::new(i as u64, shape, nnz);
            let (g, h) = start(&mut planted.random, shape);
            let fast = Balanced::new(factored::<f64>(&g, &h)).regularized(lambda);
            let fast = side_by_side(
                &what,
                &mut planted,
                (400, batch, safe(shape, nnz)),
                (fast, |l: &Balanced<f64>| from_rows(&l.form().to_dense())),
                (
                    PlainBalanced { g, h, lambda },
                    PlainBalanced::step,
                    PlainBalanced::w,
                ),
            );
            let report = check::factored(fast.form());
            assert!(
                report.gram < 1e-10 && report.gram_inverse < 1e-8,
                "{what}: {report:?}"
            );
        }
    }
}

#[test]
fn sparse_polar_runs_equal_the_dense_algorithm() {
    for (i, &shape) in SIZES.iter().enumerate() {
        let cases = [
            (1, 1, 0.0, Retraction::Uf),
            (3, 1, 0.0, Retraction::Uf),
            (50, 1, 0.0, Retraction::Uf),
            (3, 1, 0.0, Retraction::Qf),
            (3, 1, 0.2, Retraction::Uf),
            (2, 1, 0.2, Retraction::Qf),
            (3, 4, 0.0, Retraction::Uf),
            (1, 3, 0.2, Retraction::Qf),
        ];
        for (nnz, batch, lambda, retraction) in cases {
            let what =
                format!("{shape:?}, {nnz} non-zeros, batch {batch}, λ {lambda}, {retraction:?}");
            let (n, m, k) = shape;
            let mut planted = Planted::new(i as u64, shape, nnz);
            let u = rankfold::linalg::qf(&planted.random.matrix(n, k)).unwrap();
            let v = rankfold::linalg::qf(&planted.random.matrix(m, k)).unwrap();
            let a = planted.random.matrix(k, k);
            let b = &a * a.transpose() + M::identity(k, k);
            let fast = Polar::new(polar_form::<f64>(&u, &b, &v))
                .regularized(lambda)
                .retracted(retraction);
            let plain = PlainPolar {
                u,
                b,
                v,
                lambda,
                retraction,
            };
            let fast = side_by_side(
                &what,
                &mut planted,
                (400, batch, 5.0 * safe(shape, nnz)),
                (fast, |l: &Polar<f64>| from_rows(&l.form().to_dense())),
                (plain, PlainPolar::step, PlainPolar::w),
            );
            let report = check::polar(fast.form());
            let sound = report.orthonormal < 1e-9 && report.gram < 1e-10 && report.inverse < 1e-10;
            assert!(sound, "{what}: {report:?}");
        }
    }
}

#[test]
fn sparse_shrinking_factors_equal_the_dense_algorithm() {
    for (i, &shape) in SIZES.iter().enumerate() {
        // Strong enough for the shared factor to be folded into the rows many times.
        for lambda in [0.0, 0.3, 30.0] {
            let mut planted = Planted::new(i as u64, shape, 3);
            let (g, h) = start(&mut planted.random, shape);
            let fast = Gradient::new(factored::<f64>(&g, &h)).regularized(lambda);
            side_by_side(
                &format!("{shape:?}, λ {lambda}"),
                &mut planted,
                (400, 1, 1e-3),
                (fast, |l: &Gradient<f64>| from_rows(&l.form().to_dense())),
                (
                    PlainFactors { g, h, lambda },
                    PlainFactors::step,
                    PlainFactors::w,
                ),
            );
        }
    }
}

/// Only the balanced step is the same for all factorisations of W.
#[test]
fn balanced_steps_do_not_depend_on_how_w_is_factored_and_plain_ones_do() {
    for seed in 0..5 {
        let shape = (9, 7, 3);
        let mut planted = Planted::new(seed, shape, 3);
        let (g, h) = start(&mut planted.random, shape);
        let x = planted.random.matrix(3, 3) + M::from_fn(3, 3, |i, j| 3.0 * f64::from(i == j));
        let (gx, hx) = (&g * &x, &h * pinv(&x).transpose());
        for lambda in [0.0, 0.1] {
            let balanced = |g: &M, h: &M| Balanced::new(factored::<f64>(g, h)).regularized(lambda);
            let (mut one, mut two) = (balanced(&g, &h), balanced(&gx, &hx));
            let mut plain = Gradient::new(factored::<f64>(&g, &h));
            let mut other = Gradient::new(factored::<f64>(&gx, &hx));
            for _ in 0..40 {
                let (z, x, y) = planted.draw();
                for learner in [&mut one, &mut two] {
                    learn(learner, &z, &x, y, paper(2e-3));
                }
                for learner in [&mut plain, &mut other] {
                    learn(learner, &z, &x, y, paper(2e-3));
                }
            }
            let w = |form: &Factored<f64>| from_rows(&form.to_dense());
            close("W", &w(one.form()), &w(two.form()), 1e-11);
            let apart = norm(&(w(plain.form()) - w(other.form())));
            assert!(
                apart > 1e-3,
                "plain descent depends on the factors: {apart}"
            );
        }
    }
}

#[test]
fn gram_matrices_are_true_after_forty_steps() {
    for &shape in &SIZES {
        let mut planted = Planted::new(4, shape, 4);
        let (g, h) = start(&mut planted.random, shape);
        let mut learner = Balanced::new(factored::<f64>(&g, &h));
        for _ in 0..40 {
            let (z, x, y) = planted.draw();
            learn(&mut learner, &z, &x, y, paper(safe(shape, 4)));
        }
        let report = check::factored(learner.form());
        assert!(report.gram < 1e-10, "{shape:?}: {report:?}");
    }
}

/// (UO, OᵀBO, VO) is the same W; what a step makes of it differs by O(s²) with qf.
#[test]
fn uf_does_not_see_rotations_and_qf_does_at_second_order() {
    let (n, m, k) = (9, 7, 3);
    let mut random = Random::new(5);
    let qf = |m: &M| rankfold::linalg::qf(m).unwrap();
    let (u, v) = (qf(&random.matrix(n, k)), qf(&random.matrix(m, k)));
    let turn = qf(&random.matrix(k, k));
    let a = random.matrix(k, k);
    let b = &a * a.transpose() + M::identity(k, k);
    let (z, x) = (random.sparse(n, n), random.sparse(m, m));
    let apart = |retraction: Retraction, size: f64| {
        let stepped = |u: &M, b: &M, v: &M| {
            let mut learner = Polar::new(polar_form::<f64>(u, b, v)).retracted(retraction);
            learn(&mut learner, &z, &x, 3.0, paper(size));
            from_rows(&learner.form().to_dense())
        };
        let turned = turn.transpose() * &b * &turn;
        let turned = symmetric::part(&turned);
        norm(&(stepped(&u, &b, &v) - stepped(&(&u * &turn), &turned, &(&v * &turn))))
    };
    for size in [1e-1, 1e-2, 1e-3] {
        let off = apart(Retraction::Uf, size);
        assert!(off < 1e-12 * norm(&b), "{off:e}");
    }
    let slope = (apart(Retraction::Qf, 1e-3) / apart(Retraction::Qf, 1e-4)).log10();
    assert!((slope - 2.0).abs() < 0.1, "{slope}");
}

#[test]
fn a_refresh_leaves_w_as_it_is() {
    for &shape in &SIZES {
        let mut planted = Planted::new(6, shape, 3);
        let (g, h) = start(&mut planted.random, shape);
        let form = PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap();
        close(
            "the polar form",
            &from_rows(&form.to_dense()),
            &(&g * h.transpose()),
            1e-13,
        );
        let mut learner = Polar::new(form);
        for _ in 0..50 {
            let (z, x, y) = planted.draw();
            learn(&mut learner, &z, &x, y, paper(5.0 * safe(shape, 3)));
        }
        let mut form = learner.into_form();
        let before = from_rows(&form.to_dense());
        assert!(form.refresh());
        close("W", &from_rows(&form.to_dense()), &before, 1e-14);
        assert_eq!(form.refreshes(), 1);
        let report = check::polar(&form);
        assert!(
            report.orthonormal < 1e-14 && report.gram < 1e-14,
            "{report:?}"
        );
    }
}

#[test]
fn balancing_leaves_w_and_its_course_as_they_are() {
    let shape = (9, 7, 3);
    let mut planted = Planted::new(7, shape, 4);
    let (g, h) = start(&mut planted.random, shape);
    let mut without = PlainBalanced {
        g: Scale(4.0) * &g,
        h: h.clone(),
        lambda: 0.0,
    };
    let mut with = without.clone();
    let unevenness =
        |p: &PlainBalanced| norm(&(p.g.transpose() * &p.g - p.h.transpose() * &p.h)) / norm(&p.w());
    let uneven = unevenness(&with);
    for i in 0..60 {
        let batch = planted.batch(1);
        without.step(&batch, 1e-4);
        with.step(&batch, 1e-4);
        if i % 3 == 0 {
            let before = with.w();
            (with.g, with.h) = balance(&with.g, &with.h).unwrap();
            close("W", &with.w(), &before, 1e-13);
        }
    }
    close("the course", &with.w(), &without.w(), 1e-12);
    assert!(unevenness(&with) < 0.2 * uneven);
    assert!(balance(&M::zeros(3, 2), &M::zeros(2, 2)).is_none());
    assert!(balance(&M::from_fn(3, 2, |_, _| f64::NAN), &M::zeros(2, 2)).is_none());
}

/// Steps that turn a factor so far that C would have no good inverse.
#[test]
fn steps_of_any_length_equal_the_dense_algorithm_one_by_one() {
    let mut far = 0;
    for seed in 0..60 {
        for retraction in [Retraction::Uf, Retraction::Qf] {
            let shape = (8, 6, 3);
            let mut planted = Planted::new(seed, shape, 3);
            let qf = |m: &M| rankfold::linalg::qf(m).unwrap();
            let (u, v) = (
                qf(&planted.random.matrix(8, 3)),
                qf(&planted.random.matrix(6, 3)),
            );
            let a = planted.random.matrix(3, 3);
            let b = &a * a.transpose() + M::identity(3, 3);
            let mut fast = Polar::new(polar_form::<f64>(&u, &b, &v)).retracted(retraction);
            let mut plain = PlainPolar {
                u,
                b,
                v,
                lambda: 0.0,
                retraction,
            };
            let batch = planted.batch(1 + seed as usize % 3);
            let size = 0.03 * (1.0 + (seed % 10) as f64);
            let outcome = learn_batch(&mut fast, &batch, size).outcome;
            plain.step(&batch, size);
            let want = plain.w();
            if outcome == Outcome::Refused {
                continue;
            }
            far += usize::from(norm(&want) > 30.0 || size > 0.1);
            let got = from_rows(&fast.form().to_dense());
            close(&format!("{seed} {retraction:?}"), &got, &want, 1e-9);
            let report = check::polar(fast.form());
            assert!(report.orthonormal < 1e-11, "{report:?}");
        }
    }
    assert!(far > 20, "{far}");
}

#[test]
fn examples_of_any_rank_are_sums_of_their_terms() {
    let shape = (6, 5, 2);
    let (n, m, _) = shape;
    let mut planted = Planted::new(8, shape, 5);
    let (g, h) = start(&mut planted.random, shape);
    let matrix = planted.random.matrix(m, n);
    // X = Σ e_j (row j): what a dense X is to a learner.
    let terms = rankfold::online::Terms::<f64>::from_dense(
        &(0..m)
            .map(|j| (0..n).map(|i| matrix[(j, i)]).collect())
            .collect::<Vec<_>>(),
    );
    let terms = terms.examples();
    let (y, size) = (1.5, 1e-2);
    let gradient = |w: &M| {
        let score = (w * &matrix).diagonal().column_vector().sum();
        (score, Scale(score - y) * matrix.transpose())
    };

    let mut balanced = Balanced::new(factored::<f64>(&g, &h));
    let w = &g * h.transpose();
    let (score, e) = gradient(&w);
    let learned = balanced.learn_sum(&terms, y, Loss::Squared, paper(size));
    assert!((learned.score - score).abs() < 1e-12);
    let (s, r) = (g.transpose() * &g, h.transpose() * &h);
    let new_g = &g - Scale(size) * (&e * &h * &s);
    let new_h = &h - Scale(size) * (e.transpose() * &g * &r);
    let want = new_g * new_h.transpose();
    close(
        "balanced",
        &from_rows(&balanced.form().to_dense()),
        &want,
        1e-11,
    );

    let form = PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap();
    let svd = w.thin_svd().unwrap();
    let k = 2;
    let part = |m: faer::MatRef<'_, f64>| M::from_fn(m.nrows(), k, |i, j| m[(i, j)]);
    let (u, v) = (part(svd.U()), part(svd.V()));
    let b = M::from_fn(k, k, |i, j| f64::from(i == j) * svd.S().column_vector()[i]);
    let mut polar = Polar::new(form);
    let learned = polar.learn_sum(&terms, y, Loss::Squared, paper(size));
    assert!((learned.score - score).abs() < 1e-12);
    let half = symmetric::power(&b, 0.5).unwrap();
    let (gu, gv) = (&e * &v * &b, e.transpose() * &u * &b);
    let on_u = &gu - &u * symmetric::part(&(u.transpose() * &gu));
    let on_v = &gv - &v * symmetric::part(&(v.transpose() * &gv));
    let psi = symmetric::part(&(v.transpose() * e.transpose() * &u));
    let b = &half * symmetric::exp(&(Scale(-size) * (&half * psi * &half))).unwrap() * &half;
    let uf = |m: &M| rankfold::linalg::uf(m).unwrap();
    let want = uf(&(u - Scale(size) * on_u)) * b * uf(&(v - Scale(size) * on_v)).transpose();
    close("polar", &from_rows(&polar.form().to_dense()), &want, 1e-11);
}

#[test]
fn f32_factors_follow_f64_closely() {
    for seed in 0..3 {
        let shape = (60, 40, 5);
        let mut planted = Planted::new(seed, shape, 4);
        let (g, h) = start(&mut planted.random, shape);
        let mut balanced = (
            Balanced::new(factored::<f32>(&g, &h)),
            Balanced::new(factored::<f64>(&g, &h)),
        );
        let form = |()| PolarForm::from_factored(factored::<f32>(&g, &h)).unwrap();
        let wide = PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap();
        let mut polar = (Polar::new(form(())), Polar::new(wide));
        let size = safe(shape, 4);
        for _ in 0..3000 {
            let (z, x, y) = planted.draw();
            let round =
                |v: &[f64]| -> Vec<f64> { v.iter().map(|&v| f64::from(v as f32)).collect() };
            let (z, x) = (round(&z), round(&x));
            learn(&mut balanced.0, &z, &x, y, paper(size));
            learn(&mut balanced.1, &z, &x, y, paper(size));
            learn(&mut polar.0, &z, &x, y, paper(5.0 * size));
            learn(&mut polar.1, &z, &x, y, paper(5.0 * size));
        }
        close(
            "balanced",
            &from_rows(&balanced.0.form().to_dense()),
            &from_rows(&balanced.1.form().to_dense()),
            1e-5,
        );
        close(
            "polar",
            &from_rows(&polar.0.form().to_dense()),
            &from_rows(&polar.1.form().to_dense()),
            1e-5,
        );
        assert!(check::polar(polar.0.form()).orthonormal < 1e-4);
    }
}

/// A long run with steps as long as they get: the small state stays true.
#[test]
fn the_state_is_true_after_ten_thousand_steps() {
    for retraction in [Retraction::Uf, Retraction::Qf] {
        let shape = (40, 30, 4);
        let mut planted = Planted::new(9, shape, 3);
        let (g, h) = start(&mut planted.random, shape);
        let form = PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap();
        let mut learner = Polar::new(form).retracted(retraction);
        let (mut first, mut last) = (0.0, 0.0);
        for i in 0..10_000 {
            let (z, x, y) = planted.draw();
            let learned = learn(&mut learner, &z, &x, y, Step::new(1e-2));
            match i {
                0..1_000 => first += learned.loss,
                9_000.. => last += learned.loss,
                _ => {}
            }
        }
        let report = check::polar(learner.form());
        let sound = report.orthonormal < 1e-9 && report.gram < 1e-10 && report.inverse < 1e-10;
        assert!(sound, "{retraction:?}: {report:?}");
        assert!(last < 0.1 * first, "it learns: {first} {last}");
        let singular = learner.form().gauge().unwrap().singular_values;
        assert!(singular.iter().all(|&s| s > 0.0));
    }
}

#[test]
fn refused_steps_change_nothing() {
    let shape = (9, 7, 3);
    let mut planted = Planted::new(10, shape, 3);
    let (g, h) = start(&mut planted.random, shape);
    for lambda in [0.0, 0.1] {
        let mut balanced = Balanced::new(factored::<f32>(&g, &h)).regularized(lambda);
        let form = PolarForm::from_factored(factored::<f32>(&g, &h)).unwrap();
        let mut polar = Polar::new(form).regularized(lambda);
        let mut plain = Gradient::new(factored::<f32>(&g, &h)).regularized(lambda);
        for (value, target, size) in [
            (f64::NAN, 1.0, 0.1),
            (f64::INFINITY, 1.0, 0.1),
            (1e30, 1.0, 1e30),
            (1.0, f64::NAN, 0.1),
            (1.0, f64::INFINITY, 0.1),
            (1.0, 1.0, f64::NAN),
            (1e25, 1e300, 1e200),
        ] {
            let z: Vec<f64> = (0..9).map(|i| if i < 2 { value } else { 0.0 }).collect();
            let (x, step) = (vec![1.0; 7], paper(size));
            let before = balanced.form().clone();
            let learned = learn(&mut balanced, &z, &x, target, step);
            assert_eq!(learned.outcome, Outcome::Refused, "{value} {target} {size}");
            assert_eq!(balanced.form(), &before);
            let before = polar.form().clone();
            let learned = learn(&mut polar, &z, &x, target, step);
            assert_eq!(learned.outcome, Outcome::Refused, "{value} {target} {size}");
            assert_eq!(polar.form(), &before);
            let before = plain.form().clone();
            let learned = learn(&mut plain, &z, &x, target, step);
            assert_eq!(learned.outcome, Outcome::Refused, "{value} {target} {size}");
            assert_eq!(plain.form(), &before);
        }
    }
}

#[test]
fn refused_batches_change_nothing() {
    let shape = (9, 7, 3);
    let mut planted = Planted::new(11, shape, 3);
    let (g, h) = start(&mut planted.random, shape);
    let mut batch = planted.batch(4);
    batch[2].2 = f64::NAN;
    let mut balanced = Balanced::new(factored::<f64>(&g, &h));
    let before = balanced.form().clone();
    assert_eq!(
        learn_batch(&mut balanced, &batch, 0.1).outcome,
        Outcome::Refused
    );
    assert_eq!(balanced.form(), &before);
    let mut polar = Polar::new(PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap());
    let before = polar.form().clone();
    assert_eq!(
        learn_batch(&mut polar, &batch, 0.1).outcome,
        Outcome::Refused
    );
    assert_eq!(polar.form(), &before);
}

/// The limit shortens what would be too long, and keeps wild runs sound.
#[test]
fn wild_runs_leave_sound_forms() {
    for seed in 0..4 {
        let shape = (30, 20, 4);
        let mut planted = Planted::new(seed, shape, 4);
        let (g, h) = start(&mut planted.random, shape);
        for size in [0.1, 10.0, 1e6] {
            let mut balanced = Balanced::new(factored::<f32>(&g, &h));
            let form = PolarForm::from_factored(factored::<f32>(&g, &h)).unwrap();
            let mut polar = Polar::new(form);
            for _ in 0..500 {
                let (z, x, y) = planted.draw();
                learn(&mut balanced, &z, &x, y, Step::new(size));
                learn(&mut polar, &z, &x, y, Step::new(size));
            }
            let finite = |rows: &[Vec<f64>]| rows.iter().flatten().all(|v| v.is_finite());
            assert!(finite(&balanced.form().to_dense()));
            assert!(finite(&polar.form().to_dense()));
            assert!(check::polar(polar.form()).orthonormal < 1e-2);
        }
    }
}

#[test]
fn growth_adds_zero_rows_and_learning_goes_on() {
    let shape = (9, 7, 3);
    let mut planted = Planted::new(12, shape, 3);
    let (g, h) = start(&mut planted.random, shape);
    let mut learner = Polar::new(PolarForm::from_factored(factored::<f64>(&g, &h)).unwrap());
    let before = from_rows(&learner.form().to_dense());
    learner.grow(12, 10).unwrap();
    let grown = from_rows(&learner.form().to_dense());
    for i in 0..12 {
        for j in 0..10 {
            let want = if i < 9 && j < 7 { before[(i, j)] } else { 0.0 };
            assert_eq!(grown[(i, j)], want);
        }
    }
    let mut z = vec![0.0; 12];
    z[11] = 1.0;
    let mut x = vec![0.0; 10];
    x[2] = 1.0;
    for _ in 0..400 {
        learn(&mut learner, &z, &x, 1.0, Step::new(0.05));
    }
    let score = learner.form().to_dense()[11][2];
    assert!((score - 1.0).abs() < 0.05, "{score}");
}

/// Values of rank 1, a model of rank 3: the rank asked for is the rank there is.
#[test]
fn a_rank_above_that_of_the_values_is_kept_in_batch() {
    use rankfold::data::{ValuedPair, read_labelled};
    use rankfold::task::PairsSolver;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.svm");
    std::fs::write(&path, "0 1:1\n0 2:1\n0 3:1\n0 4:1\n0 5:1\n").unwrap();
    let rows = read_labelled::<f64>(&path).unwrap();
    let pairs: Vec<ValuedPair> = (0..25)
        .map(|i| (i / 5, i % 5))
        .map(|(left, right)| ValuedPair {
            left,
            right,
            value: f64::from((left + 1) * (right + 2)),
        })
        .collect();
    for rule in rankfold::Pairs::RULES {
        for solver in [
            PairsSolver::Descent,
            PairsSolver::Cg,
            PairsSolver::TrustRegion,
        ] {
            let options = rankfold::Pairs::new(rule).solver(solver).rank(3);
            let model = options.step_size(1e-3).fit(&rows, &pairs).unwrap();
            let singular = model.singular_values().unwrap().unwrap();
            assert_eq!(singular.len(), 3);
            assert!(singular.iter().all(|&s| s > 0.0), "{rule:?} {singular:?}");
            let found = model.evaluate_pairs(&rows, None, &pairs).unwrap();
            assert!(found.model["rmse"] < 0.5, "{rule:?} {solver:?} {found:?}");
        }
    }
}
