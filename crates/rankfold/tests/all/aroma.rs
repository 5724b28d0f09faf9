//! AROMA: the reference cases, AROW on vectors as its oracle, and the laws of its
//! covariances.

use crate::golden::{self, Golden};
use crate::oracle::*;
use rankfold::form::{Diagonal, Gaussian};
use rankfold::online::{
    AromaDiagonal, AromaFactored, AromaOptions, Learner, Outcome, RankOne, Step, UpdateOn,
};
use rankfold::{Loss, SparseVec};

fn learn(
    learner: &mut impl Learner<f64>,
    q: &SparseVec<f64>,
    p: &SparseVec<f64>,
    r: f64,
) -> Outcome {
    let example = RankOne {
        left: q.as_row(),
        right: p.as_row(),
    };
    learner
        .learn(example, 1.0, Loss::Hinge, Step::new(r))
        .outcome
}

fn sparse(value: &serde_json::Value) -> SparseVec<f64> {
    let (indices, values) = (golden::vector(&value[0]), golden::vector(&value[1]));
    let entries = indices.iter().zip(&values).map(|(&i, &v)| (i as u32, v));
    SparseVec::from_entries(entries.collect())
}

const NEW: AromaOptions = AromaOptions {
    update_on: UpdateOn::Margin,
    new_covariance: true,
    inverse_diagonal: false,
};
const MISTAKES: AromaOptions = AromaOptions {
    update_on: UpdateOn::Mistake,
    new_covariance: false,
    inverse_diagonal: false,
};

#[test]
fn golden_aroma() {
    let case = Golden::read("aroma");
    let r = case.number("/params/r");
    let rows = |name: &str| -> Vec<SparseVec<f64>> {
        let rows = case.matrix(&format!("/inputs/{name}"));
        rows.iter().map(|row| SparseVec::from_dense(row)).collect()
    };
    let (q, p) = (rows("q"), rows("p"));
    let (m, n) = (
        case.matrix("/inputs/q")[0].len(),
        case.matrix("/inputs/p")[0].len(),
    );
    let same = |name: &str, got: Vec<Vec<f64>>| {
        case.same(
            name,
            &got.concat(),
            &case.matrix(&format!("/outputs/{name}")).concat(),
        );
    };
    for form in [Diagonal::new(m, n, 0.0), Diagonal::sparse(m, n, 0.0)] {
        let mut learner = AromaDiagonal::new(form, AromaOptions::default());
        let moved = q
            .iter()
            .zip(&p)
            .filter(|(q, p)| learn(&mut learner, q, p, r) == Outcome::Moved);
        assert_eq!(moved.count() as f64, case.number("/outputs/updates_d"));
        let entry = |i: usize, j: usize| learner.form().entry(i as u32, j as u32);
        let table = |f: &dyn Fn((f64, f64)) -> f64| -> Vec<Vec<f64>> {
            let row = |i: usize| (0..n).map(|j| f(entry(i, j))).collect();
            (0..m).map(row).collect()
        };
        same("W_d", table(&|e| e.0));
        same("Sigma_d", table(&|e| e.1));
    }
    for (name, options) in [
        ("old", AromaOptions::default()),
        ("new", NEW),
        (
            "mistake",
            AromaOptions {
                update_on: UpdateOn::StrictMistake,
                ..MISTAKES
            },
        ),
    ] {
        let mut learner = AromaFactored::new(Gaussian::new(m, n, 0.0).unwrap(), options);
        for (q, p) in q.iter().zip(&p) {
            learn(&mut learner, q, p, r);
        }
        let [w, lambda, omega] = learner.form().to_dense();
        same(&format!("W_{name}"), w);
        same(&format!("Lambda_{name}"), lambda);
        same(&format!("Omega_{name}"), omega);
    }
}

#[test]
fn golden_sparse_aroma() {
    let case = Golden::read("sparse_aroma");
    let r = case.number("/params/r");
    let list = |name: &str| -> Vec<SparseVec<f64>> {
        let list = case.at(&format!("/inputs/{name}")).as_array().unwrap();
        list.iter().map(sparse).collect()
    };
    let (q, p) = (list("q"), list("p"));
    let size = |rows: &[SparseVec<f64>]| {
        let last =
            |row: &SparseVec<f64>| row.as_row().indices.last().map_or(0, |&i| i as usize + 1);
        rows.iter().map(last).max().unwrap()
    };
    let probes: Vec<_> = case
        .at("/inputs/probes")
        .as_array()
        .unwrap()
        .iter()
        .collect();
    let pairs: Vec<_> = probes
        .iter()
        .map(|pair| (sparse(&pair[0]), sparse(&pair[1])))
        .collect();
    // W has a row for each feature of q: `n` or `m`, whichever the queries need.
    let [n, m] = ["n", "m"].map(|name| case.number(&format!("/params/{name}")) as usize);
    let (rows, columns) = if size(&q) <= m && size(&p) > m {
        (m, n)
    } else {
        (n, m)
    };
    let mut diagonal =
        AromaDiagonal::new(Diagonal::new(rows, columns, 0.0), AromaOptions::default());
    let form = Gaussian::new(rows, columns, 0.0).unwrap();
    let mut factored = AromaFactored::new(form, AromaOptions::default());
    for (q, p) in q.iter().zip(&p) {
        learn(&mut diagonal, q, p, r);
        learn(&mut factored, q, p, r);
    }
    let scores = |learner: &mut dyn Learner<f64>| -> Vec<f64> {
        let score = |(l, r): &(SparseVec<f64>, SparseVec<f64>)| {
            learner.score(RankOne {
                left: l.as_row(),
                right: r.as_row(),
            })
        };
        pairs.iter().map(score).collect()
    };
    case.same(
        "d_scores",
        &scores(&mut diagonal),
        &case.vector("/outputs/d_scores"),
    );
    case.same(
        "f_scores",
        &scores(&mut factored),
        &case.vector("/outputs/f_scores"),
    );
    let sum: f64 = (0..rows as u32)
        .flat_map(|i| (0..columns as u32).map(move |j| (i, j)))
        .map(|(i, j)| diagonal.form().entry(i, j).1)
        .sum();
    case.same(
        "d_sigma_sum",
        &[sum],
        &[case.number("/outputs/d_sigma_sum")],
    );
    let [_, lambda, omega] = factored.form().to_dense();
    let trace = |m: &[Vec<f64>]| (0..m.len()).map(|i| m[i][i]).sum::<f64>();
    case.same(
        "f_trace_omega",
        &[trace(&omega)],
        &[case.number("/outputs/f_trace_omega")],
    );
    case.same(
        "f_trace_lambda",
        &[trace(&lambda)],
        &[case.number("/outputs/f_trace_lambda")],
    );
}

fn draw(random: &mut Random, n: usize, nnz: usize) -> SparseVec<f64> {
    let entries = (0..nnz).map(|_| (random.below(n) as u32, random.normal()));
    SparseVec::from_entries(entries.collect())
}

fn dense(x: &SparseVec<f64>, n: usize) -> M {
    let mut out = M::zeros(n, 1);
    x.as_row()
        .iter()
        .for_each(|(i, v)| out[(i as usize, 0)] = v);
    out
}

fn matrix(rows: &[Vec<f64>]) -> M {
    from_rows(rows)
}

/// The mean step is that of AROW on vec(qpᵀ) with covariance Ω ⊗ Λ, and diagonal
/// AROMA is diagonal AROW.
#[test]
fn the_mean_moves_as_arow_moves_it() {
    let mut random = Random::new(5);
    let (m, n, r) = (4, 3, 0.7);
    let mut factored =
        AromaFactored::new(Gaussian::new(m, n, 0.0).unwrap(), AromaOptions::default());
    let mut diagonal = AromaDiagonal::new(Diagonal::new(m, n, 0.0), AromaOptions::default());
    let (mut w, mut sigma) = (vec![0.0; m * n], vec![1.0; m * n]);
    for _ in 0..60 {
        let (q, p) = (draw(&mut random, m, 3), draw(&mut random, n, 2));
        let (dq, dp) = (dense(&q, m), dense(&p, n));
        // vec by rows: x_{in+j} = q_i p_j has covariance Λ_{ii'} Ω_{jj'}.
        let x = M::from_fn(m * n, 1, |at, _| dq[(at / n, 0)] * dp[(at % n, 0)]);
        let [before, lambda, omega] = factored.form().to_dense().map(|rows| matrix(&rows));
        let full = M::from_fn(m * n, m * n, |a, b| {
            lambda[(a / n, b / n)] * omega[(a % n, b % n)]
        });
        let sx = &full * &x;
        let margin: f64 = (0..m * n)
            .map(|at| before[(at / n, at % n)] * x[(at, 0)])
            .sum();
        let scale = (1.0 - margin).max(0.0) / ((x.transpose() * &sx)[(0, 0)] + r);
        let want = M::from_fn(m, n, |i, j| before[(i, j)] + scale * sx[(i * n + j, 0)]);
        learn(&mut factored, &q, &p, r);
        let [after, new_lambda, new_omega] = factored.form().to_dense().map(|rows| matrix(&rows));
        assert!(norm(&(&after - &want)) < 1e-12 * norm(&want).max(1.0));
        // The covariances shrink and stay positive definite.
        for (old, new) in [(&lambda, &new_lambda), (&omega, &new_omega)] {
            let values = |m: &M| -> Vec<f64> {
                let eigen = m.self_adjoint_eigen(faer::Side::Lower).unwrap();
                eigen.S().column_vector().iter().copied().collect()
            };
            assert!(values(new)[0] > 0.0);
            assert!(values(&(old - new))[0] > -1e-14);
        }

        let margin: f64 = (0..m * n).map(|at| w[at] * x[(at, 0)]).sum();
        if margin < 1.0 {
            let d: f64 = (0..m * n)
                .map(|at| sigma[at] * x[(at, 0)].powi(2))
                .sum::<f64>()
                + r;
            for at in 0..m * n {
                let sx = sigma[at] * x[(at, 0)];
                w[at] += (1.0 - margin) / d * sx;
                sigma[at] -= sx * sx / d;
            }
        }
        learn(&mut diagonal, &q, &p, r);
        for at in 0..m * n {
            let (mean, variance) = diagonal.form().entry((at / n) as u32, (at % n) as u32);
            assert!((mean - w[at]).abs() < 1e-12 && (variance - sigma[at]).abs() < 1e-12);
        }
    }
}

/// Lemma 3 of the paper: Σ (qᵀΛq)(pᵀΩp) ≤ m r log det Ω⁻¹, and its mirror.
#[test]
fn the_sum_of_variances_is_bounded_by_what_was_learned() {
    for seed in 0..8 {
        let mut random = Random::new(100 + seed);
        let (m, n, r) = (6, 5, 0.1 + 0.3 * seed as f64);
        let mut learner =
            AromaFactored::new(Gaussian::new(m, n, 0.0).unwrap(), AromaOptions::default());
        let mut sum = 0.0;
        for _ in 0..150 {
            let (q, p) = (draw(&mut random, m, 3), draw(&mut random, n, 3));
            // With the matrices after the step.
            if learn(&mut learner, &q, &p, r) == Outcome::Moved {
                sum += learner.form().variance(q.as_row(), p.as_row());
            }
        }
        let [_, lambda, omega] = learner.form().to_dense().map(|rows| matrix(&rows));
        let log_det_inverse = |m: &M| -> f64 {
            let eigen = m.self_adjoint_eigen(faer::Side::Lower).unwrap();
            -eigen
                .S()
                .column_vector()
                .iter()
                .map(|v| v.ln())
                .sum::<f64>()
        };
        assert!(sum <= m as f64 * r * log_det_inverse(&omega) * (1.0 + 1e-9));
        assert!(sum <= n as f64 * r * log_det_inverse(&lambda) * (1.0 + 1e-9));
    }
}

/// Blocks that wait are exact: a long run equals plain dense updates.
#[test]
fn waiting_blocks_equal_plain_updates() {
    let mut random = Random::new(9);
    for options in [AromaOptions::default(), NEW, MISTAKES] {
        let (mut m, mut n, r) = (23, 17, 1.0);
        let mut learner = AromaFactored::new(Gaussian::new(m, n, 0.0).unwrap(), options);
        let (mut w, mut lambda, mut omega) = (M::zeros(m, n), M::identity(m, m), M::identity(n, n));
        for step in 0..400 {
            if step == 230 {
                // New features: mean 0, variance 1, and sizes as they are now.
                (m, n) = (29, 18);
                learner.grow(m, n).unwrap();
                let grown = |old: &M, rows: usize, columns: usize, diagonal: f64| {
                    M::from_fn(rows, columns, |i, j| {
                        match i < old.nrows() && j < old.ncols() {
                            true => old[(i, j)],
                            false => diagonal * f64::from(u8::from(i == j)),
                        }
                    })
                };
                w = grown(&w, m, n, 0.0);
                (lambda, omega) = (grown(&lambda, m, m, 1.0), grown(&omega, n, n, 1.0));
            }
            let (q, p) = (draw(&mut random, m, 5), draw(&mut random, n, 4));
            let (dq, dp) = (dense(&q, m), dense(&p, n));
            let margin = (dq.transpose() * &w * &dp)[(0, 0)];
            let mistake = options.update_on == UpdateOn::Mistake;
            if margin < 1.0 && !(mistake && margin > 0.0) {
                let (x, y) = (&lambda * &dq, &omega * &dp);
                let (a, b) = ((dq.transpose() * &x)[(0, 0)], (dp.transpose() * &y)[(0, 0)]);
                let scale = |c: f64| faer::Scale(c);
                let new_lambda = &lambda - scale(b / (n as f64 * r + a * b)) * (&x * x.transpose());
                let new_omega = &omega - scale(a / (m as f64 * r + a * b)) * (&y * y.transpose());
                let c = (1.0 - margin) / (r + a * b);
                w = match options.new_covariance {
                    false => w + scale(c) * (&x * y.transpose()),
                    true => {
                        let inner =
                            pinv(&lambda) * &w * pinv(&omega) + scale(c) * (&dq * dp.transpose());
                        &new_lambda * inner * &new_omega
                    }
                };
                (lambda, omega) = (new_lambda, new_omega);
            }
            learn(&mut learner, &q, &p, r);
            if step % 50 == 49 {
                let [got_w, got_l, got_o] = learner.form().to_dense().map(|rows| matrix(&rows));
                for (got, want) in [(&got_w, &w), (&got_l, &lambda), (&got_o, &omega)] {
                    assert!(
                        norm(&(got - want)) < 1e-9 * norm(want).max(1.0),
                        "step {step}"
                    );
                }
            }
        }
    }
}

/// Dense and sparse storage of the diagonal Gaussian are the same numbers.
#[test]
fn sparse_entries_are_dense_entries() {
    let mut random = Random::new(3);
    let (m, n) = (40, 30);
    let options = AromaOptions {
        inverse_diagonal: true,
        ..AromaOptions::default()
    };
    for options in [AromaOptions::default(), options, MISTAKES] {
        let mut full = AromaDiagonal::new(Diagonal::<f32>::new(m, n, 0.0), options);
        let mut part = AromaDiagonal::new(Diagonal::<f32>::sparse(m, n, 0.0), options);
        assert!(part.form().is_sparse() && !full.form().is_sparse());
        for step in 0..300 {
            if step == 150 {
                full.grow(50, 35).unwrap();
                part.grow(50, 35).unwrap();
            }
            let (rows, columns) = full.form().shape();
            let narrow = |x: SparseVec<f64>| {
                let entries = x.as_row().iter().map(|(i, v)| (i, v as f32));
                SparseVec::from_entries(entries.collect())
            };
            let q = narrow(draw(&mut random, rows, 5));
            let p = narrow(draw(&mut random, columns, 5));
            let example = RankOne {
                left: q.as_row(),
                right: p.as_row(),
            };
            let learned = [&mut full, &mut part]
                .map(|learner| learner.learn(example, 1.0, Loss::Hinge, Step::new(0.5)));
            assert_eq!(learned[0], learned[1]);
        }
        for i in 0..50 {
            for j in 0..35 {
                assert_eq!(full.form().entry(i, j), part.form().entry(i, j));
            }
        }
    }
}
