//! The learners that LORETA is compared with, mini-batches and manifold
//! identification: reference cases, the dense algorithms, and their guards.

use crate::common::*;
use crate::golden::Golden;
use crate::oracle::*;
use rankfold::form::{Factored, Full, Psd, Tall};
use rankfold::online::{
    Flat, Gradient, InnerSteps, Learner, Lego, Loreta, LoretaPsd, ManifoldIdentification, Oasis,
    Outcome, PassiveAggressive, RankOne, Step, Turn,
};
use rankfold::{Loss, SparseVec, check};

fn with_example<T>(left: &[f64], right: &[f64], f: impl FnOnce(RankOne<'_, f64>) -> T) -> T {
    let (left, right) = (SparseVec::from_dense(left), SparseVec::from_dense(right));
    f(RankOne {
        left: left.as_row(),
        right: right.as_row(),
    })
}

fn hinge(learner: &mut impl Learner<f64>, left: &[f64], right: &[f64], size: f64) -> Outcome {
    with_example(left, right, |example| {
        learner
            .learn(example, 1.0, Loss::Hinge, paper(size))
            .outcome
    })
}

fn triplets(case: &Golden, prefix: &str) -> Vec<(Vec<f64>, Vec<f64>)> {
    let queries = case.matrix("/inputs/q");
    let positives = case.matrix(&format!("/inputs/{prefix}p_plus"));
    let negatives = case.matrix(&format!("/inputs/{prefix}p_minus"));
    let difference = |a: &Vec<f64>, b: &Vec<f64>| a.iter().zip(b).map(|(x, y)| x - y).collect();
    queries
        .into_iter()
        .zip(positives.iter().zip(&negatives))
        .map(|(q, (p, n))| (q, difference(p, n)))
        .collect()
}

#[test]
fn golden_baselines_triplets() {
    let case = Golden::read("baselines_triplets");
    let (a, b, y) = ["A0", "B0", "Y0"]
        .map(|name| from_rows(&case.matrix(&format!("/inputs/{name}"))))
        .into();
    let plain = triplets(&case, "");
    let factored = || Factored::new(tall(&a), tall(&b));
    let same = |name: &str, got: Vec<Vec<f64>>| {
        case.same(
            name,
            &got.concat(),
            &case.matrix(&format!("/outputs/{name}")).concat(),
        );
    };

    let mut learner = Gradient::new(factored());
    let eta = case.number("/params/eta_gd");
    plain.iter().for_each(|(q, d)| {
        hinge(&mut learner, q, d, eta);
    });
    same("gd", learner.form().to_dense());

    let mut learner = Flat::new(Psd::new(tall(&y)));
    triplets(&case, "psd_").iter().for_each(|(q, d)| {
        hinge(&mut learner, q, d, eta);
    });
    same("gd_psd", learner.form().to_dense());

    let cap = case.number("/params/C_pa");
    for (turn, name) in [
        (Turn::Simultaneous, "pa_simultaneous"),
        (Turn::Alternate, "pa_alternate"),
        (Turn::Sequential, "pa_sequential"),
    ] {
        let mut learner = PassiveAggressive::new(factored(), turn, 0);
        plain.iter().for_each(|(q, d)| {
            hinge(&mut learner, q, d, cap);
        });
        same(name, learner.form().to_dense());
    }

    let mut learner = Oasis::new(Full::diagonal(a.nrows(), b.nrows(), 1.0).unwrap());
    let cap = case.number("/params/C_oasis");
    plain.iter().for_each(|(q, d)| {
        hinge(&mut learner, q, d, cap);
    });
    same("oasis", learner.form().to_dense());
}

#[test]
fn golden_lego() {
    let case = Golden::read("lego");
    let (z, y) = (case.matrix("/inputs/z"), case.vector("/inputs/y"));
    let n = z[0].len();
    let mut learner = Lego::new(Full::<f64>::diagonal(n, n, 1.0).unwrap());
    for (z, &y) in z.iter().zip(&y) {
        let step = paper(case.number("/params/eta"));
        let learned = with_example(z, z, |e| learner.learn(e, y, Loss::Squared, step));
        assert_eq!(learned.outcome, Outcome::Moved);
    }
    let got = learner.form().to_dense().concat();
    case.same("W", &got, &case.matrix("/outputs/W").concat());
}

#[test]
fn golden_loreta_r_step() {
    let case = Golden::read("loreta_r_step");
    let [a, b, g1, g2] =
        ["A", "B", "G1", "G2"].map(|name| from_rows(&case.matrix(&format!("/inputs/{name}"))));
    let (z1, z2) = algorithm_3(&a, &b, &g1, &g2);
    let w = &z1 * z2.transpose();
    let same = |name: &str, got: &[f64]| {
        case.same(
            name,
            got,
            &case.matrix(&format!("/outputs/{name}")).concat(),
        );
    };
    same("Z1", &flat(&z1));
    same("Z2", &flat(&z2));
    same("W", &flat(&w));
    let mut learner = Loreta::new(Factored::new(tall(&a), tall(&b)));
    assert_eq!(batch(&mut learner, &g1, &g2), Outcome::Moved);
    same("W", &learner.form().to_dense().concat());
}

fn columns(m: &M) -> Vec<SparseVec<f64>> {
    let column = |j| (0..m.nrows()).map(|i| m[(i, j)]).collect::<Vec<_>>();
    (0..m.ncols())
        .map(|j| SparseVec::from_dense(&column(j)))
        .collect()
}

/// Moves W along G₁G₂ᵀ: the squared loss with targets one above the scores has
/// slopes −1, and the mean is undone by the step size.
fn batch(learner: &mut impl Learner<f64>, g1: &M, g2: &M) -> Outcome {
    let (left, right) = (columns(g1), columns(g2));
    let examples: Vec<_> = left
        .iter()
        .zip(&right)
        .map(|(l, r)| {
            let example = RankOne {
                left: l.as_row(),
                right: r.as_row(),
            };
            let target = learner.score(example) + 1.0;
            (example, target)
        })
        .collect();
    let step = paper(examples.len() as f64);
    learner.learn_batch(&examples, Loss::Squared, step).outcome
}

#[test]
fn golden_manifold_identification() {
    let case = Golden::read("manifold_identification");
    let [k, n, m, s] =
        ["k", "n", "m", "s"].map(|name| case.number(&format!("/params/{name}")) as usize);
    let (eta, inner) = (case.number("/params/eta1"), case.number("/params/eta2"));
    let identity = |n: usize| M::from_fn(n, k, |i, j| f64::from(i == j));
    let form = Factored::new(tall(&identity(n)), tall(&identity(m)));
    let mut learner = ManifoldIdentification::new(
        form,
        InnerSteps {
            count: s as u64,
            size: inner / eta,
        },
        0,
    );
    let triplets = triplets(&case, "");
    let whole = triplets.len() / (s + 1) * (s + 1);
    for (q, d) in &triplets[..whole] {
        hinge(&mut learner, q, d, eta);
    }
    let got = learner.form().to_dense().concat();
    case.same("W", &got, &case.matrix("/outputs/W").concat());
}

/// Numbers without a pattern.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    }

    fn matrix(&mut self, n: usize, k: usize) -> M {
        M::from_fn(n, k, |_, _| self.next())
    }

    /// Columns with a share of their entries.
    fn sparse(&mut self, n: usize, r: usize, share: f64) -> M {
        M::from_fn(n, r, |_, _| {
            let value = self.next();
            if self.next() + 0.5 < share {
                value
            } else {
                0.0
            }
        })
    }
}

#[test]
fn batches_equal_the_dense_algorithm() {
    let mut noise = Noise(7);
    for (n, m, k, r) in [
        (12, 9, 3, 2),
        (30, 25, 5, 4),
        (8, 8, 1, 3),
        (20, 14, 4, 1),
        (9, 9, 8, 5),
    ] {
        let (mut a, mut b) = (noise.matrix(n, k), noise.matrix(m, k));
        let mut fast = Loreta::new(Factored::new(tall(&a), tall(&b)));
        for _ in 0..40 {
            let scale = faer::Scale(0.1);
            let (g1, g2) = (scale * noise.sparse(n, r, 0.3), noise.sparse(m, r, 0.3));
            match batch(&mut fast, &g1, &g2) {
                Outcome::Moved => (a, b) = algorithm_3(&a, &b, &g1, &g2),
                // Nothing would move: the dense step leaves W too.
                Outcome::Idle => {}
                Outcome::Refused => panic!("refused at {n} {m} {k} {r}"),
            }
        }
        let (got, want) = (from_rows(&fast.form().to_dense()), &a * b.transpose());
        let error = norm(&(&got - &want)) / norm(&want);
        assert!(error < 1e-10, "{n} {m} {k} {r}: {error:e}");
        let state = check::factored(fast.form());
        assert!(state.gram < 1e-12 && state.core_inverse < 1e-9, "{state:?}");
    }
}

#[test]
fn symmetric_batches_equal_the_dense_algorithm() {
    let mut noise = Noise(11);
    for (n, k, r) in [(12, 3, 2), (30, 5, 4), (8, 1, 3), (9, 8, 2)] {
        let start = noise.matrix(n, k);
        let mut fast = LoretaPsd::new(Psd::new(tall(&start)));
        for step in 0..30 {
            let scale = faer::Scale(0.1);
            let (g1, g2) = (scale * noise.sparse(n, r, 0.3), noise.sparse(n, r, 0.3));
            // Sym(G₁G₂ᵀ) = [½G₁ ½G₂][G₂ G₁]ᵀ, from the factors as they are now.
            let before = from_rows(&fast.form().to_dense());
            let y = factor(&before, k);
            let half = faer::Scale(0.5);
            let join = |x: &M, y: &M| {
                M::from_fn(
                    n,
                    2 * r,
                    |i, j| if j < r { x[(i, j)] } else { y[(i, j - r)] },
                )
            };
            let (left, right) = (half * join(&g1, &g2), join(&g2, &g1));
            let (z1, z2) = algorithm_3(&y, &y, &left, &right);
            if batch(&mut fast, &g1, &g2) == Outcome::Idle {
                continue;
            }
            let want = &z1 * z2.transpose();
            let got = from_rows(&fast.form().to_dense());
            let error = norm(&(&got - &want)) / norm(&want);
            assert!(error < 1e-9, "{n} {k} {r}, step {step}: {error:e}");
        }
    }
}

/// Y with Y Yᵀ = W, from the eigenvectors.
fn factor(w: &M, k: usize) -> M {
    let eigen = w.self_adjoint_eigen(faer::Side::Lower).unwrap();
    let n = w.nrows();
    let values = eigen.S().column_vector();
    M::from_fn(n, k, |i, j| {
        eigen.U()[(i, n - 1 - j)] * values[n - 1 - j].max(0.0).sqrt()
    })
}

#[test]
fn a_batch_of_one_is_a_single_step() {
    let mut noise = Noise(3);
    let (a, b) = (noise.matrix(10, 3), noise.matrix(7, 3));
    let mut one = Loreta::new(Factored::new(tall(&a), tall(&b)));
    let mut batched = one.clone();
    let (p, q) = (flat(&noise.matrix(10, 1)), flat(&noise.matrix(7, 1)));
    // A limit that cuts the step short does so in both.
    for limit in [0.01, f64::INFINITY] {
        let step = Step { size: 0.3, limit };
        with_example(&p, &q, |example| {
            let first = one.learn(example, 1.0, Loss::Hinge, step);
            let second = batched.learn_batch(&[(example, 1.0)], Loss::Hinge, step);
            assert_eq!(first.outcome, second.outcome);
            assert!((first.loss - second.loss).abs() < 1e-12);
        });
        let (got, want) = (
            from_rows(&batched.form().to_dense()),
            from_rows(&one.form().to_dense()),
        );
        assert!(norm(&(&got - &want)) < 1e-13 * norm(&want).max(1.0));
    }
}

#[test]
fn identification_keeps_its_state_true_and_its_rank() {
    let mut noise = Noise(19);
    let (n, m, k) = (30, 20, 4);
    let identity = |n: usize| M::from_fn(n, k, |i, j| f64::from(i == j));
    // Small steps, and steps that make M collapse.
    for size in [0.05, 5.0] {
        let form = Factored::new(tall(&identity(n)), tall(&identity(m)));
        let mut learner = ManifoldIdentification::new(
            form,
            InnerSteps {
                count: 3,
                size: 0.5,
            },
            0,
        );
        for _ in 0..3_000 {
            let (p, q) = (
                flat(&noise.sparse(n, 1, 0.3)),
                flat(&noise.sparse(m, 1, 0.3)),
            );
            with_example(&p, &q, |example| {
                learner.learn(example, 1.0, Loss::Hinge, Step::new(size));
            });
        }
        let state = check::factored(learner.form());
        // Gram matrices may reach a condition of 10¹⁴ before steps are refused.
        assert!(
            state.gram < 1e-8 && state.gram_inverse < 1e-2 && state.core_inverse < 1e-6,
            "{state:?}"
        );
        let gauge = learner.form().gauge().expect("full rank");
        assert!(
            gauge
                .singular_values
                .iter()
                .all(|s| s.is_finite() && *s > 0.0)
        );
    }
}

#[test]
fn runaway_steps_are_refused_before_anything_overflows() {
    let mut noise = Noise(23);
    let y = noise.matrix(12, 3);
    let mut symmetric = Flat::new(Psd::new(
        Tall::<f32>::from_fn(12, 3, |i, j| y[(i, j)]).unwrap(),
    ));
    let mut refused = 0;
    for _ in 0..2_000 {
        let row = |noise: &mut Noise| {
            let dense: Vec<f32> = flat(&noise.sparse(12, 1, 0.5))
                .iter()
                .map(|&v| v as f32)
                .collect();
            SparseVec::from_dense(&dense)
        };
        let (left, right) = (row(&mut noise), row(&mut noise));
        let example = RankOne {
            left: left.as_row(),
            right: right.as_row(),
        };
        let learned = symmetric.learn(example, 1.0, Loss::Hinge, paper(1e3));
        refused += usize::from(learned.outcome == Outcome::Refused);
    }
    assert!(refused > 0);
    assert!(
        symmetric
            .form()
            .to_dense()
            .concat()
            .iter()
            .all(|v| v.is_finite())
    );
}
