//! LORETA: the reference cases, the laws of its geometry, and the sparse form
//! against the dense one.

use crate::common::*;
use crate::golden::{self, Golden};
use crate::oracle::*;
use rankfold::form::{Factored, Psd};
use rankfold::online::{Learner, Loreta, LoretaPsd, Outcome, RankOne, Step};
use rankfold::{Loss, Real, SparseVec};

fn general(a: &M, b: &M) -> Loreta<f64> {
    Loreta::new(Factored::new(tall(a), tall(b)))
}

fn psd(y: &M) -> LoretaPsd<f64> {
    LoretaPsd::new(Psd::new(tall(y)))
}

fn identity(n: usize, k: usize) -> M {
    M::from_fn(n, k, |i, j| f64::from(i == j))
}

/// One hinge step: with target 1 and a large margin it always moves.
fn hinge<R: Real>(
    learner: &mut impl Learner<R>,
    left: &[R],
    right: &[R],
    step: Step,
) -> (f64, Outcome) {
    let (l, r) = (SparseVec::from_dense(left), SparseVec::from_dense(right));
    let example = RankOne {
        left: l.as_row(),
        right: r.as_row(),
    };
    let learned = learner.learn(example, 1.0, Loss::Hinge, step);
    (learned.loss, learned.outcome)
}

/// Moves W along p qᵀ whatever the score: the squared loss with a target one
/// above the score has slope −1.
fn move_along<R: Real>(learner: &mut impl Learner<R>, p: &[R], q: &[R], step: Step) -> Outcome {
    let (l, r) = (SparseVec::from_dense(p), SparseVec::from_dense(q));
    let example = RankOne {
        left: l.as_row(),
        right: r.as_row(),
    };
    let score = learner.score(example);
    learner
        .learn(example, score + 1.0, Loss::Squared, step)
        .outcome
}

fn dense(rows: &[Vec<f64>]) -> M {
    from_rows(rows)
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(x, y)| x - y).collect()
}

#[test]
fn golden_loreta1_step() {
    let case = Golden::read("loreta1_step");
    let (a, b) = (
        from_rows(&case.matrix("/inputs/A")),
        from_rows(&case.matrix("/inputs/B")),
    );
    let (p, q) = (case.vector("/inputs/p"), case.vector("/inputs/q"));
    let mut plain = Algorithm4::new(a.clone(), b.clone());
    let s = plain.step(&p, &q);
    case.same("s", &[s], &[case.number("/outputs/s")]);
    for (what, got) in [
        ("Z1", &plain.a),
        ("Z2", &plain.b),
        ("Z1_pinv", &plain.ap),
        ("Z2_pinv", &plain.bp),
    ] {
        case.same(
            what,
            &flat(got),
            &case.matrix(&format!("/outputs/{what}")).concat(),
        );
    }
    let mut fast = general(&a, &b);
    assert_eq!(move_along(&mut fast, &p, &q, paper(1.0)), Outcome::Moved);
    case.same(
        "W",
        &fast.form().to_dense().concat(),
        &case.matrix("/outputs/W").concat(),
    );
}

#[test]
fn golden_pinv_update_branches() {
    let case = Golden::read("pinv_update_branches");
    let (a, ap) = (
        from_rows(&case.matrix("/inputs/A")),
        from_rows(&case.matrix("/inputs/A_pinv")),
    );
    for (i, row) in case
        .at("/outputs/cases")
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        let at = |key: &str| golden::vector(&row[key]);
        let (got, branch) = algorithm_7(&a, &ap, &column(&at("c")), &column(&at("d")));
        let want = row
            .get("Z_pinv")
            .or_else(|| row.get("pinv"))
            .or_else(|| row.get("out"));
        case.same(
            &format!("case {i}"),
            &flat(&got),
            &golden::matrix(want.expect("a result")).concat(),
        );
        if let Some(named) = row.get("branch").and_then(|b| b.as_u64()) {
            assert_eq!(branch as u64, named, "branch of case {i}");
        }
    }
}

#[test]
fn golden_loreta1_triplets() {
    let case = Golden::read("loreta1_triplets");
    let step = paper(case.number("/params/eta"));
    let [n, m, k] = ["n", "m", "k"].map(|key| case.number(&format!("/params/{key}")) as usize);
    let mut learner = general(&identity(n, k), &identity(m, k));
    let mut losses = Vec::new();
    let mut updates = 0;
    let inputs = ["q", "p_plus", "p_minus"].map(|key| case.matrix(&format!("/inputs/{key}")));
    for ((q, plus), minus) in inputs[0].iter().zip(&inputs[1]).zip(&inputs[2]) {
        let (loss, outcome) = hinge(&mut learner, q, &difference(plus, minus), step);
        losses.push(loss);
        updates += usize::from(loss > 0.0);
        assert_ne!(outcome, Outcome::Refused);
    }
    assert_eq!(updates as f64, case.number("/outputs/updates"));
    case.same(
        "losses",
        &losses,
        &case.vector("/outputs/losses_before_each_step"),
    );
    case.same(
        "W",
        &learner.form().to_dense().concat(),
        &case.matrix("/outputs/W").concat(),
    );
}

#[test]
fn golden_loreta1_psd_triplets() {
    let case = Golden::read("loreta1_psd_triplets");
    let step = paper(case.number("/params/eta"));
    let [n, k] = ["n", "k"].map(|key| case.number(&format!("/params/{key}")) as usize);
    let mut learner = psd(&identity(n, k));
    let mut updates = 0;
    let inputs = ["q", "p_plus", "p_minus"].map(|key| case.matrix(&format!("/inputs/{key}")));
    for ((q, plus), minus) in inputs[0].iter().zip(&inputs[1]).zip(&inputs[2]) {
        let (loss, outcome) = hinge(&mut learner, q, &difference(plus, minus), step);
        updates += usize::from(loss > 0.0);
        assert_ne!(outcome, Outcome::Refused);
    }
    assert_eq!(updates as f64, case.number("/outputs/updates"));
    case.same(
        "W",
        &learner.form().to_dense().concat(),
        &case.matrix("/outputs/W").concat(),
    );
}

fn sparse(value: &serde_json::Value) -> SparseVec<f64> {
    let (indices, values) = (golden::vector(&value[0]), golden::vector(&value[1]));
    SparseVec::from_entries(indices.iter().map(|&i| i as u32).zip(values).collect())
}

fn golden_sparse(name: &str, learner: &mut impl Learner<f64>) -> Golden {
    let case = Golden::read(name);
    let step = paper(case.number("/params/eta"));
    let mut updates = 0;
    let (qs, ds) = (case.at("/inputs/q"), case.at("/inputs/d"));
    for (q, d) in qs.as_array().unwrap().iter().zip(ds.as_array().unwrap()) {
        let (left, right) = (sparse(q), sparse(d));
        let example = RankOne {
            left: left.as_row(),
            right: right.as_row(),
        };
        let learned = learner.learn(example, 1.0, Loss::Hinge, step);
        // The cases count every example with a loss, also one that leaves W as
        // it is because it meets neither factor.
        updates += usize::from(learned.loss > 0.0);
    }
    let probes = case.at("/inputs/probes").as_array().unwrap();
    let scores: Vec<f64> = probes
        .iter()
        .map(|pair| {
            let (left, right) = (sparse(&pair[0]), sparse(&pair[1]));
            learner.score(RankOne {
                left: left.as_row(),
                right: right.as_row(),
            })
        })
        .collect();
    assert_eq!(updates as f64, case.number("/outputs/updates"));
    case.same("scores", &scores, &case.vector("/outputs/scores"));
    case
}

#[test]
fn golden_sparse_loreta1() {
    let case = Golden::read("sparse_loreta1");
    let [n, m, k] = ["n", "m", "k"].map(|key| case.number(&format!("/params/{key}")) as usize);
    let mut learner = general(&identity(n, k), &identity(m, k));
    golden_sparse("sparse_loreta1", &mut learner);
    let w = dense(&learner.form().to_dense());
    case.same("frob", &[norm(&w)], &[case.number("/outputs/frob")]);
}

#[test]
fn golden_sparse_loreta1_psd() {
    let case = Golden::read("sparse_loreta1_psd");
    let [n, k] = ["n", "k"].map(|key| case.number(&format!("/params/{key}")) as usize);
    let mut learner = psd(&identity(n, k));
    golden_sparse("sparse_loreta1_psd", &mut learner);
    let w = dense(&learner.form().to_dense());
    case.same("frob", &[norm(&w)], &[case.number("/outputs/frob")]);
}

#[test]
fn all_forms_of_one_step_agree() {
    for seed in 0..5 {
        for (n, m, k) in SIZES {
            let mut random = Random::new(seed);
            let (a, b) = (random.matrix(n, k), random.matrix(m, k));
            let p: Vec<f64> = random.sparse(n, n).iter().map(|v| 0.1 * v).collect();
            let q = random.sparse(m, m);
            let z = column(&p) * column(&q).transpose();
            let want = theorem_retraction(&a, &b, &z);
            let conditioning = norm(&pinv(&a)) * norm(&a) * norm(&pinv(&b)) * norm(&b);
            let tolerance = (1e-14 * conditioning.powi(2)).clamp(1e-13, 1e-9);
            if n > k && m > k {
                let (z1, z2) = algorithm_2(&a, &b, &z);
                close("algorithm 2", &(z1 * z2.transpose()), &want, tolerance);
            }
            let (z1, z2) = algorithm_3(&a, &b, &column(&p), &column(&q));
            close("algorithm 3", &(z1 * z2.transpose()), &want, tolerance);
            let mut plain = Algorithm4::new(a.clone(), b.clone());
            plain.step(&p, &q);
            close("algorithm 4", &plain.w(), &want, tolerance);
            let mut fast = general(&a, &b);
            assert_eq!(move_along(&mut fast, &p, &q, paper(1.0)), Outcome::Moved);
            close(
                "sparse form",
                &dense(&fast.form().to_dense()),
                &want,
                tolerance,
            );
        }
    }
}

#[test]
fn all_forms_of_one_psd_step_agree() {
    for seed in 0..5 {
        for (n, _, k) in SIZES {
            let mut random = Random::new(seed);
            let y = random.matrix(n, k);
            let p: Vec<f64> = random.sparse(n, n).iter().map(|v| 0.1 * v).collect();
            let q = random.sparse(n, n);
            let want = theorem_retraction_psd(&y, &p, &q);
            let conditioning = norm(&pinv(&y)) * norm(&y);
            let tolerance = (1e-14 * conditioning.powi(4)).clamp(1e-13, 1e-9);
            let z = algorithm_5(&y, &p, &q);
            close("algorithm 5", &(&z * z.transpose()), &want, tolerance);
            let d = M::from_fn(n, 2, |i, j| if j == 0 { p[i] } else { q[i] });
            let swapped = M::from_fn(n, 2, |i, j| 0.5 * if j == 0 { q[i] } else { p[i] });
            let (z1, z2) = algorithm_3(&y, &y, &swapped, &d);
            close("algorithm 3", &(z1 * z2.transpose()), &want, tolerance);
            let mut fast = psd(&y);
            assert_eq!(move_along(&mut fast, &p, &q, paper(1.0)), Outcome::Moved);
            let got = dense(&fast.form().to_dense());
            close("sparse form", &got, &want, tolerance);
            close("symmetric", &got, &got.transpose().to_owned(), tolerance);
        }
    }
}

/// The exponent with which an error falls as the step shrinks tenfold.
fn slope(error: impl Fn(f64) -> f64) -> f64 {
    (error(1e-1) / error(1e-2)).log10()
}

#[test]
fn the_retraction_is_of_second_order() {
    for seed in 0..3 {
        for (n, m, k) in [(7, 6, 2), (12, 9, 3), (8, 10, 1)] {
            let mut random = Random::new(seed);
            let (a, b) = (random.matrix(n, k), random.matrix(m, k));
            let (p, q) = (random.sparse(n, n), random.sparse(m, m));
            let z = column(&p) * column(&q).transpose();
            let w = &a * b.transpose();
            let tangent = Tangent::of(&a, &b, &z).total();
            let retracted = |t: f64| {
                let mut learner = general(&a, &b);
                move_along(&mut learner, &p, &q, paper(t / norm(&z)));
                dense(&learner.form().to_dense())
            };
            let straight =
                |t: f64| M::from_fn(n, m, |i, j| w[(i, j)] + t / norm(&z) * tangent[(i, j)]);
            let first = slope(|t| norm(&(retracted(t) - straight(t))));
            assert!((first - 2.0).abs() < 0.15, "slope {first} of R − W − tξ");
            let inside = slope(|t| {
                let residual = retracted(t) - straight(t);
                norm(&Tangent::of(&a, &b, &residual).total())
            });
            assert!(inside > 2.8, "slope {inside} of the tangent part");
            let nearest = slope(|t| norm(&(retracted(t) - truncate(&straight(t), k))));
            assert!(
                nearest > 2.8,
                "slope {nearest} against the nearest matrix of rank {k}"
            );
        }
    }
}

#[test]
fn the_psd_retraction_is_of_second_order() {
    for seed in 0..3 {
        for (n, k) in [(7, 2), (12, 3), (8, 1)] {
            let mut random = Random::new(seed);
            let y = random.matrix(n, k);
            let (p, q) = (random.sparse(n, n), random.sparse(n, n));
            let (p1, q1) = (column(&p), column(&q));
            // The gradient of a symmetric W.
            let z = faer::Scale(0.5) * (&p1 * q1.transpose() + &q1 * p1.transpose());
            let w = &y * y.transpose();
            let tangent = Tangent::of(&y, &y, &z).total();
            let retracted = |t: f64| {
                let mut learner = psd(&y);
                move_along(&mut learner, &p, &q, paper(t / norm(&z)));
                dense(&learner.form().to_dense())
            };
            let straight =
                |t: f64| M::from_fn(n, n, |i, j| w[(i, j)] + t / norm(&z) * tangent[(i, j)]);
            let first = slope(|t| norm(&(retracted(t) - straight(t))));
            assert!((first - 2.0).abs() < 0.15, "slope {first} of R − W − tξ");
            let inside = slope(|t| {
                let residual = retracted(t) - straight(t);
                norm(&Tangent::of(&y, &y, &residual).total())
            });
            assert!(inside > 2.8, "slope {inside} of the tangent part");
            let nearest = slope(|t| norm(&(retracted(t) - truncate(&straight(t), k))));
            assert!(
                nearest > 2.8,
                "slope {nearest} against the nearest matrix of rank {k}"
            );
        }
    }
}

#[test]
fn steps_do_not_depend_on_how_w_is_factored() {
    for seed in 0..5 {
        let (n, m, k) = (9, 7, 3);
        let mut random = Random::new(seed);
        let (a, b) = (random.matrix(n, k), random.matrix(m, k));
        let x = random.matrix(k, k) + M::from_fn(k, k, |i, j| 3.0 * f64::from(i == j));
        let (ax, bx) = (&a * &x, &b * pinv(&x).transpose());
        let mut first = general(&a, &b);
        let mut second = general(&ax, &bx);
        for _ in 0..20 {
            let (p, q) = (random.sparse(n, 3), random.sparse(m, 3));
            move_along(
                &mut first,
                &p,
                &q,
                Step {
                    size: 0.05,
                    limit: 0.5,
                },
            );
            move_along(
                &mut second,
                &p,
                &q,
                Step {
                    size: 0.05,
                    limit: 0.5,
                },
            );
        }
        let (one, two) = (
            dense(&first.form().to_dense()),
            dense(&second.form().to_dense()),
        );
        close("W", &one, &two, 1e-9);
    }
}

/// Hinge training on sparse triplet-like examples, fast and plain side by
/// side, with the plain run on inputs moved by 1e-15 as the control: the
/// comparison means something only where that control stays small.
#[test]
fn long_sparse_runs_equal_the_dense_algorithm() {
    for (seed, n, m, k, nnz) in [(1, 40, 30, 4, 6), (2, 25, 25, 1, 4), (3, 20, 60, 7, 10)] {
        let mut random = Random::new(seed);
        let (a, b) = (random.matrix(n, k), random.matrix(m, k));
        let mut fast = general(&a, &b);
        let mut plain = Algorithm4::new(a.clone(), b.clone());
        let mut control = Algorithm4::new(a, b);
        let planted = random.matrix(n, m);
        for step in 0..600 {
            let (q, mut d) = (random.sparse(n, nnz), random.sparse(m, nnz));
            let truth = (column(&q).transpose() * &planted * column(&d))[(0, 0)];
            if truth < 0.0 {
                d.iter_mut().for_each(|v| *v = -*v);
            }
            let eta = 0.02;
            let score = (column(&q).transpose() * plain.w() * column(&d))[(0, 0)];
            let (_, outcome) = hinge(&mut fast, &q, &d, paper(eta));
            assert_eq!(outcome == Outcome::Moved, score < 1.0, "step {step}");
            if score < 1.0 {
                let p: Vec<f64> = q.iter().map(|v| eta * v).collect();
                plain.step(&p, &d);
                let nudged: Vec<f64> = p.iter().map(|v| v * (1.0 + 1e-15)).collect();
                control.step(&nudged, &d);
            }
        }
        let want = plain.w();
        let drift = norm(&(control.w() - &want)) / norm(&want);
        close(
            "W",
            &dense(&fast.form().to_dense()),
            &want,
            1e-12 + 1e2 * drift,
        );
    }
}

#[test]
fn long_sparse_psd_runs_equal_the_dense_algorithm() {
    for (seed, n, k, nnz) in [(1, 40, 4, 6), (2, 25, 1, 4), (3, 12, 12, 5), (4, 60, 9, 10)] {
        let mut random = Random::new(seed);
        let mut y = random.matrix(n, k);
        let mut fast = psd(&y);
        for step in 0..400 {
            let (q, d) = (random.sparse(n, nnz), random.sparse(n, nnz));
            let eta = 0.01;
            let score = (column(&q).transpose() * &y * y.transpose() * column(&d))[(0, 0)];
            let (_, outcome) = hinge(&mut fast, &q, &d, paper(eta));
            assert_eq!(outcome == Outcome::Moved, score < 1.0, "step {step}");
            if score < 1.0 {
                let p: Vec<f64> = q.iter().map(|v| eta * v).collect();
                y = algorithm_5(&y, &p, &d);
            }
        }
        close(
            "W",
            &dense(&fast.form().to_dense()),
            &(&y * y.transpose()),
            1e-10,
        );
    }
}

#[test]
fn f32_factors_follow_f64_closely() {
    let (n, k, nnz) = (200, 10, 20);
    let mut random = Random::new(7);
    let y = random.matrix(n, k);
    let mut wide = psd(&y);
    let mut narrow = LoretaPsd::<f32>::new(Psd::new(tall(&y)));
    for _ in 0..3000 {
        let (q, d) = (random.sparse(n, nnz), random.sparse(n, nnz));
        let narrowed = |v: &[f64]| v.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let (q32, d32) = (narrowed(&q), narrowed(&d));
        let widened = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        move_along(
            &mut wide,
            &widened(&q32),
            &widened(&d32),
            Step {
                size: 0.003,
                limit: 0.5,
            },
        );
        move_along(
            &mut narrow,
            &q32,
            &d32,
            Step {
                size: 0.003,
                limit: 0.5,
            },
        );
    }
    let (want, got) = (
        dense(&wide.form().to_dense()),
        dense(&narrow.form().to_dense()),
    );
    close("W", &got, &want, 2e-5);
}

#[test]
fn a_refresh_leaves_w_as_it_is() {
    for seed in 0..4 {
        for (n, m, k) in SIZES {
            let mut random = Random::new(seed);
            let (a, b) = (random.matrix(n, k), random.matrix(m, k));
            let mut learner = general(&a, &b);
            for _ in 0..100 {
                let (p, q) = (random.sparse(n, 3), random.sparse(m, 3));
                move_along(
                    &mut learner,
                    &p,
                    &q,
                    Step {
                        size: 0.1,
                        limit: 0.5,
                    },
                );
            }
            let mut form = learner.into_form();
            let before = dense(&form.to_dense());
            let sigma = form.gauge().unwrap().singular_values;
            let condition = sigma[0] / sigma[k - 1];
            assert!(form.refresh());
            close(
                "W",
                &dense(&form.to_dense()),
                &before,
                1e-14 * condition.max(10.0) * norm(&before).max(1.0),
            );
            let plain = before.thin_svd().unwrap();
            for (i, s) in sigma.iter().enumerate() {
                let want = plain.S().column_vector()[i];
                assert!((s - want).abs() <= 1e-12 * sigma[0], "singular value {i}");
            }
            // The gauge is balanced: both Gram matrices are Σ.
            for tall in [form.left(), form.right()] {
                let rows = M::from_fn(tall.rows(), k, |i, j| tall.row(i)[j]);
                let gram = rows.transpose() * &rows;
                let want = M::from_fn(k, k, |i, j| if i == j { sigma[i] } else { 0.0 });
                close(
                    "Gram matrix",
                    &gram,
                    &want,
                    1e-12 * condition * sigma[0].max(1.0),
                );
            }
        }
    }
}

#[test]
fn delta_is_at_least_five_sixths() {
    for i in -200_000..=200_000 {
        let s = f64::from(i) * 1e-3;
        let delta = 1.0 + (-0.5 + 0.375 * s) * s;
        assert!(delta >= 5.0 / 6.0 - 1e-15, "δ({s}) = {delta}");
    }
}

#[test]
fn the_tracked_state_is_true_after_ten_thousand_steps() {
    let (n, m, k) = (60, 50, 6);
    let mut random = Random::new(11);
    let mut learner = general(&random.matrix(n, k), &random.matrix(m, k));
    for _ in 0..10_000 {
        let (p, q) = (random.sparse(n, 5), random.sparse(m, 5));
        let outcome = move_along(
            &mut learner,
            &p,
            &q,
            Step {
                size: 0.01,
                limit: 0.5,
            },
        );
        assert_eq!(outcome, Outcome::Moved);
    }
    let report = rankfold::check::factored(learner.form());
    assert!(
        report.core_inverse < 1e-10,
        "K·K⁻¹ − I: {:e}",
        report.core_inverse
    );
    assert!(report.gram < 1e-10, "S − ÃᵀÃ: {:e}", report.gram);
    assert!(
        report.gram_inverse < 1e-8,
        "S·S⁻¹ − I: {:e}",
        report.gram_inverse
    );
}

#[test]
fn huge_steps_keep_rank_and_finiteness_or_are_refused() {
    for size in [1e3, 1e8, 1e150, 1e300] {
        for limit in [Step::LIMIT, f64::INFINITY] {
            let (n, k) = (20, 3);
            let mut random = Random::new(5);
            let y = random.matrix(n, k);
            let mut symmetric = psd(&y);
            let mut rectangular = general(&y, &random.matrix(n, k));
            for _ in 0..200 {
                let (p, q) = (random.sparse(n, 4), random.sparse(n, 4));
                move_along(&mut symmetric, &p, &q, Step { size, limit });
                move_along(&mut rectangular, &p, &q, Step { size, limit });
            }
            for w in [symmetric.form().to_dense(), rectangular.form().to_dense()] {
                assert!(
                    w.concat().iter().all(|v| v.is_finite()),
                    "step {size:e}, limit {limit}"
                );
            }
            let sigma = symmetric.form().gauge().expect("full rank").singular_values;
            assert!(sigma.iter().all(|&s| s > 0.0));
        }
    }
}

#[test]
fn a_step_that_would_lose_rank_is_refused_and_changes_nothing() {
    // β = 1 + ½s − ⅛s² vanishes at s = 2 − 2√3; with p and q inside the ranges
    // nothing else keeps the rank.
    let w0 = M::from_fn(3, 1, |i, _| [1.0, 2.0, -1.0][i]);
    let mut learner = general(&w0, &w0);
    let s = 2.0 - 2.0 * 3f64.sqrt();
    // A⁺p · B⁺q = s for p = s·A, q = B at rank one.
    let p: Vec<f64> = (0..3).map(|i| s * w0[(i, 0)]).collect();
    let q: Vec<f64> = (0..3).map(|i| w0[(i, 0)]).collect();
    let before = learner.form().clone();
    assert_eq!(
        move_along(&mut learner, &p, &q, paper(1.0)),
        Outcome::Refused
    );
    assert_eq!(learner.form(), &before);
}

#[test]
fn poisonous_examples_are_refused_and_change_nothing() {
    let mut random = Random::new(3);
    let y = random.matrix(6, 2);
    for poison in [f64::NAN, f64::INFINITY, 1e200, -1e308] {
        let mut symmetric = psd(&y);
        let mut rectangular = general(&y, &y);
        let (p, q) = (
            [0.0, poison, 1.0, 0.0, 0.0, 0.0],
            [poison, 0.5, 0.0, 0.0, 1.0, 0.0],
        );
        let before = (symmetric.form().clone(), rectangular.form().clone());
        let step = paper(1.0);
        let (_, outcome) = hinge(&mut symmetric, &p, &q, step);
        assert_ne!(outcome, Outcome::Moved, "{poison}");
        let (_, outcome) = hinge(&mut rectangular, &p, &q, step);
        assert_ne!(outcome, Outcome::Moved, "{poison}");
        assert_eq!(
            (symmetric.form(), rectangular.form()),
            (&before.0, &before.1)
        );
    }
}

#[test]
fn growth_adds_zero_rows_and_learning_goes_on() {
    let mut random = Random::new(9);
    let y = random.matrix(5, 2);
    let mut learner = psd(&y);
    let before = dense(&learner.form().to_dense());
    learner.grow(8, 8).unwrap();
    let after = dense(&learner.form().to_dense());
    for i in 0..8 {
        for j in 0..8 {
            let want = if i < 5 && j < 5 { before[(i, j)] } else { 0.0 };
            assert_eq!(after[(i, j)], want);
        }
    }
    let p = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0];
    assert_eq!(
        move_along(&mut learner, &p, &p, Step::new(0.1)),
        Outcome::Moved
    );
    let grown = M::from_fn(8, 2, |i, j| if i < 5 { y[(i, j)] } else { 0.0 });
    let q: Vec<f64> = p.iter().map(|v| 0.1 * v).collect();
    let want = algorithm_5(&grown, &q, &p);
    close(
        "W",
        &dense(&learner.form().to_dense()),
        &(&want * want.transpose()),
        1e-12,
    );
}

/// Examples that only shrink W: singular values fall by many orders of
/// magnitude. Where one would drown in rounding steps are refused, and the
/// model always has its rank.
#[test]
fn a_singular_value_is_never_lost_to_rounding() {
    for (n, k) in [(2, 2), (3, 2), (3, 3)] {
        let mut random = Random::new(8);
        let y = random.matrix(n, k);
        let mut symmetric = LoretaPsd::<f32>::new(Psd::new(tall(&y)));
        let mut rectangular = Loreta::<f32>::new(Factored::new(tall(&y), tall(&y)));
        for round in 0..20_000 {
            let mut p = vec![0f32; n];
            p[round % n] = 1.0;
            p[(round / 3) % n] += 0.5;
            let q: Vec<f32> = p.iter().map(|v| -v).collect();
            let step = Step::new(0.1);
            move_along(&mut symmetric, &p, &q, step);
            move_along(&mut rectangular, &p, &q, step);
        }
        for gauge in [symmetric.form().gauge(), rectangular.form().gauge()] {
            let sigma = gauge.expect("full rank").singular_values;
            assert!(sigma.iter().all(|&s| s > 0.0 && s.is_finite()), "{sigma:?}");
        }
    }
}

/// Wild steps and scales in single precision: whatever happens, the form can
/// be measured, saved and read back.
#[test]
fn wild_runs_in_f32_leave_a_sound_form() {
    for (seed, scale, size, limit) in [
        (1, 1.0, 100.0, Step::LIMIT),
        (2, 1e6, 1.0, Step::LIMIT),
        (3, 1e18, 1.0, Step::LIMIT),
        (4, 1e-12, 1e3, Step::LIMIT),
        (5, 1.0, 100.0, f64::INFINITY),
        (6, 1e9, 1e9, f64::INFINITY),
        (7, 1e-9, 1e30, f64::INFINITY),
    ] {
        let (n, k) = (12, 5);
        let mut random = Random::new(seed);
        let y = random.matrix(n, k);
        let mut symmetric = LoretaPsd::<f32>::new(Psd::new(tall(&y)));
        let mut rectangular =
            Loreta::<f32>::new(Factored::new(tall(&y), tall(&random.matrix(n, k))));
        for _ in 0..3_000 {
            let mut draw = || -> Vec<f32> {
                random
                    .sparse(n, 4)
                    .iter()
                    .map(|v| (scale * v) as f32)
                    .collect()
            };
            let (p, q) = (draw(), draw());
            hinge(&mut symmetric, &p, &q, Step { size, limit });
            hinge(&mut rectangular, &p, &q, Step { size, limit });
        }
        let forms = [
            rankfold::form::Form::Psd(symmetric.into_form()),
            rankfold::form::Form::Factored(rectangular.into_form()),
        ];
        for form in &forms {
            let gauge = form.view().gauge();
            let sigma =
                gauge.unwrap_or_else(|| panic!("seed {seed}: {} lost rank", form.view().name()));
            let sound = sigma
                .singular_values
                .iter()
                .all(|&s| s > 0.0 && s.is_finite());
            assert!(sound, "seed {seed}: {:?}", sigma.singular_values);
        }
    }
}

/// ½‖Wp − q‖² has the gradient (Wp − q)pᵀ, of rank one: its left side is the residual.
#[test]
fn a_squared_loss_of_several_outputs_is_learned() {
    let (outputs, inputs, k) = (5, 7, 2);
    let mut random = Random::new(41);
    let truth = random.matrix(outputs, k) * random.matrix(inputs, k).transpose();
    let (a, b) = (random.matrix(outputs, k), random.matrix(inputs, k));
    let (mut learner, mut plain) = (general(&a, &b), Algorithm4::new(a, b));
    let far = |w: &M| norm(&(w - &truth)) / norm(&truth);
    let start = far(&plain.w());
    let size = 0.02;
    for step in 0..3_000 {
        let p: Vec<f64> = (0..inputs).map(|_| random.normal()).collect();
        let w = dense(&learner.form().to_dense());
        let gap = (&w - &truth) * column(&p);
        let residual: Vec<f64> = (0..outputs).map(|i| gap[(i, 0)]).collect();
        let (l, r) = (SparseVec::from_dense(&residual), SparseVec::from_dense(&p));
        let example = RankOne {
            left: l.as_row(),
            right: r.as_row(),
        };
        let slope = Loss::Custom(|_, _| (0.0, 1.0));
        learner.learn(example, 0.0, slope, paper(size));
        // The printed algorithm moves along p qᵀ.
        if step < 200 {
            let left: Vec<f64> = residual.iter().map(|v| -size * v).collect();
            plain.step(&left, &p);
            let got = dense(&learner.form().to_dense());
            close("W", &got, &plain.w(), 1e-9);
        }
    }
    let end = far(&dense(&learner.form().to_dense()));
    assert!(end < 1e-6 * start, "{end} of {start}");
}
