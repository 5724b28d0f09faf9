//! The reference cases.

use super::*;

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

    /// Runs a learner from the same start without the guard and with this one.
    fn run<L: Learner<f64> + Clone>(
        &self,
        fresh: &L,
        (size, guard): (f64, f64),
        mut check: impl FnMut(&L),
    ) {
        for limit in [f64::INFINITY, guard] {
            let mut learner = fresh.clone();
            for (z, x, y) in self.examples() {
                let learned = learn(&mut learner, z, x, y, Step { size, limit });
                assert_eq!(learned.outcome, Outcome::Moved);
            }
            check(&learner);
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

    let balanced = Balanced::new(factored::<f64>(&g, &h));
    let guarded = (size, Step::LIMIT);
    case.run(&balanced, guarded, |found| {
        case.same("W", &from_rows(&found.form().to_dense()));
    });
    case.run(&balanced.regularized(lambda), guarded, |found| {
        case.same("W_regularised", &from_rows(&found.form().to_dense()));
    });
    let plain = Gradient::new(factored::<f64>(&g, &h)).regularized(lambda);
    case.run(&plain, guarded, |found| {
        case.same("W_mmmf", &from_rows(&found.form().to_dense()));
    });
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
            let fast = Polar::new(polar_form::<f64>(&u, &b, &v))
                .regularized(lambda)
                .retracted(retraction);
            // Some of these steps overshoot: the guard is wider than what they need.
            case.run(&fast, (size, 64.0), |found| {
                case.same(&output, &from_rows(&found.form().to_dense()));
            });
        }
    }
}
