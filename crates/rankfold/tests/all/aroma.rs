//! AROMA: the reference cases, AROW on vectors as its oracle, and the laws of its
//! covariances.

use crate::common::sealed;
use crate::golden::{self, Golden};
use crate::oracle::*;
use rankfold::data::Features;
use rankfold::eval::Scorer;
use rankfold::form::{Diagonal, Form, Gaussian};
use rankfold::online::{
    AromaDiagonal, AromaFactored, AromaOptions, Learner, Outcome, RankOne, Rule, Step, UpdateOn,
};
use rankfold::sample::Triplet;
use rankfold::{Loss, Model, Real, Rows, SparseVec};

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

/// Theorem 2 of the paper: with updates on mistakes and by new covariances, the mistakes on
/// a stream that V separates with margin 1 are at most
/// 2 √Tr(V Ω⁻¹ Vᵀ Λ⁻¹) √(r min(m log det Ω⁻¹, n log det Λ⁻¹)).
#[test]
fn mistakes_on_a_separable_stream_are_bounded() {
    for seed in 0..8 {
        let mut random = Random::new(300 + seed);
        let (m, n, r) = (6, 5, 0.1 + 0.4 * seed as f64);
        let options = AromaOptions {
            update_on: UpdateOn::Mistake,
            new_covariance: true,
            inverse_diagonal: false,
        };
        let mut learner = AromaFactored::new(Gaussian::new(m, n, 0.0).unwrap(), options);
        let v = M::from_fn(m, n, |i, j| ((3 * i + 7 * j + 1) as f64).sin());
        let (mut mistakes, mut least) = (0_u32, f64::INFINITY);
        for _ in 0..400 {
            let (q, mut p) = (draw(&mut random, m, 3), draw(&mut random, n, 3));
            let score = |p: &SparseVec<f64>| -> f64 {
                let entries = q.as_row().iter();
                let row = |(i, x): (u32, f64)| {
                    let sum = p
                        .as_row()
                        .iter()
                        .map(|(j, y)| v[(i as usize, j as usize)] * y);
                    x * sum.sum::<f64>()
                };
                entries.map(row).sum()
            };
            let margin = score(&p);
            if margin.abs() < 0.05 {
                continue;
            }
            if margin < 0.0 {
                p = SparseVec::from_entries(p.as_row().iter().map(|(j, y)| (j, -y)).collect());
            }
            least = least.min(margin.abs());
            mistakes += u32::from(learn(&mut learner, &q, &p, r) == Outcome::Moved);
        }
        let [_, lambda, omega] = learner.form().to_dense().map(|rows| matrix(&rows));
        // V is scaled to a margin of 1.
        let v = faer::Scale(1.0 / least) * &v;
        let (omega_inverse, lambda_inverse) = (inverse(&omega), inverse(&lambda));
        let spread = &v * &omega_inverse * v.transpose() * &lambda_inverse;
        let trace: f64 = (0..m).map(|i| spread[(i, i)]).sum();
        let log_det = |m: &M| -> f64 {
            let eigen = m.self_adjoint_eigen(faer::Side::Lower).unwrap();
            let values = eigen.S().column_vector().iter().map(|v| v.ln());
            values.sum::<f64>()
        };
        let smaller = (m as f64 * log_det(&omega_inverse)).min(n as f64 * log_det(&lambda_inverse));
        let bound = 2.0 * trace.sqrt() * (r * smaller).sqrt();
        assert!(
            mistakes > 0 && f64::from(mistakes) <= bound,
            "{mistakes} {bound}"
        );
    }
}

fn inverse(m: &M) -> M {
    use faer::linalg::solvers::DenseSolveCore;
    m.partial_piv_lu().inverse()
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

fn random_rows<R: Real>(count: usize, columns: usize, seed: u64) -> Rows<R> {
    let mut random = Random::new(seed);
    let mut rows = Rows::new();
    for _ in 0..count {
        let row = draw(&mut random, columns, 4);
        let entries = row.as_row().iter().map(|(j, v)| (j, R::from_f64(v)));
        rows.push(SparseVec::from_entries(entries.collect()).as_row());
    }
    rows.widen(columns);
    rows
}

fn triplet(i: usize, count: usize) -> Triplet {
    let row = |step: usize| (i * step + step) as u32 % count as u32;
    Triplet {
        query: row(1),
        positive: row(7),
        negative: row(11),
    }
}

/// A model of AROMA that learned from triplets of rows.
fn model<R: Real>(rule: Rule, form: Form<R>, rows: &Rows<R>, triplets: usize) -> Model {
    let mut model = Model::new(rule.name(), form, Features::Numbered);
    model.card.step_size = 0.5;
    let mut learner = model.into_learner::<R>().unwrap();
    for i in 0..triplets {
        let of = |row: u32| rows.row(row as usize);
        let named = triplet(i, rows.len());
        let rows = Triplet {
            query: of(named.query),
            positive: of(named.positive),
            negative: of(named.negative),
        };
        learner.learn(&rows).unwrap();
    }
    learner.into_model()
}

fn bytes(model: &Model) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    model.save(&path).unwrap();
    let loaded = Model::load(&path).unwrap();
    assert_eq!(&loaded, model);
    std::fs::read(path).unwrap()
}

fn forms<R: Real>(n: usize) -> [(Rule, Form<R>); 3] {
    [
        (
            Rule::AromaFactored,
            Form::Gaussian(Gaussian::new(n, n, 0.0).unwrap()),
        ),
        (
            Rule::AromaDiagonal,
            Form::Diagonal(Diagonal::new(n, n, 1.0)),
        ),
        (
            Rule::AromaDiagonal,
            Form::Diagonal(Diagonal::sparse(n, n, 1.0)),
        ),
    ]
}

/// Files hold all of a distribution: a loaded model goes on with the same bytes,
/// in both precisions, also in the middle of a block.
fn a_loaded_distribution_goes_on<R: Real>() {
    let rows = random_rows::<R>(40, 15, 4);
    for (rule, form) in forms::<R>(15) {
        let half = model(rule, form, &rows, 100);
        bytes(&half);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        half.save(&path).unwrap();
        let go_on = |model: Model| {
            let mut learner = model.into_learner::<R>().unwrap();
            for i in 100..300 {
                let of = |row: u32| rows.row(row as usize);
                let named = triplet(i, rows.len());
                let rows = Triplet {
                    query: of(named.query),
                    positive: of(named.positive),
                    negative: of(named.negative),
                };
                learner.learn(&rows).unwrap();
            }
            bytes(&learner.into_model())
        };
        assert!(go_on(Model::load(&path).unwrap()) == go_on(half));
    }
}

#[test]
fn a_loaded_distribution_goes_on_like_the_saved_one() {
    a_loaded_distribution_goes_on::<f32>();
    a_loaded_distribution_goes_on::<f64>();
}

/// Standard deviations are those of the whole covariance of vec(W), lists by upper
/// bounds are those of the pairs, and the factor multiplies variances.
#[test]
fn confidence_is_that_of_the_covariance() {
    let (count, n) = (30, 12);
    let rows = random_rows::<f64>(count, n, 8);
    for (rule, form) in forms::<f64>(n) {
        let mut model = model(rule, form, &rows, 150);
        let covariance = |a: usize, b: usize| {
            let ((i, j), (k, l)) = ((a / n, a % n), (b / n, b % n));
            match model.form.as_precision::<f64>().unwrap() {
                Form::Gaussian(form) => {
                    let [_, lambda, omega] = form.to_dense();
                    lambda[i][k] * omega[j][l]
                }
                Form::Diagonal(form) if a == b => form.entry(i as u32, j as u32).1,
                _ => 0.0,
            }
        };
        let sigma = M::from_fn(n * n, n * n, covariance);
        let prepared = model.prepare(rows.clone(), &Features::Numbered).unwrap();
        let confidence = model.confidence(&prepared, None).unwrap();
        let projection = model.project(&prepared, None).unwrap();
        let deviation = |q: &M, p: &M| {
            let x = M::from_fn(n * n, 1, |at, _| q[(at / n, 0)] * p[(at % n, 0)]);
            (x.transpose() * &sigma * &x)[(0, 0)].sqrt()
        };
        let of = |i: usize| {
            let mut out = M::zeros(n, 1);
            let row = rows.row(i);
            row.iter().for_each(|(j, v)| out[(j as usize, 0)] = v);
            out
        };
        let mut listed = vec![0.0; 3 * count];
        confidence.upper(1.5).scores(&mut listed, 4, 3);
        for i in 4..7 {
            for j in 0..count {
                let found = confidence.pair(i, j);
                assert_eq!(found.mean, projection.score(i, j));
                assert!((found.sd - deviation(&of(i), &of(j))).abs() < 1e-10);
                let upper = listed[(i - 4) * count + j];
                assert!((upper - (found.mean + 1.5 * found.sd)).abs() < 1e-10);
                let both = confidence.triplet(i, j, 3);
                let difference = of(j) - of(3);
                assert!((both.sd - deviation(&of(i), &difference)).abs() < 1e-10);
                let margin = projection.score(i, j) - projection.score(i, 3);
                assert!((both.mean - margin).abs() < 1e-10);
            }
        }
        let before = confidence.pair(4, 5).sd;
        model.card.variance_scale = Some(4.0);
        let confidence = model.confidence(&prepared, None).unwrap();
        assert!((confidence.pair(4, 5).sd - 2.0 * before).abs() < 1e-12);
    }
}

/// Room for features to come changes nothing, and features may come one by one.
#[test]
fn a_table_grows_entry_by_entry() {
    let mut grown = Diagonal::<f32>::new(1, 1, 1.0);
    for i in 2..60 {
        grown.grow(i, i);
    }
    assert_eq!(grown, Diagonal::new(59, 59, 1.0));
    assert_eq!(grown.entry(58, 58), (1.0, 1.0));
    assert_eq!(grown.entry(58, 57), (0.0, 1.0));
    // What does not fit gives way to touched entries.
    grown.grow(1 << 31, 1 << 31);
    assert!(grown.is_sparse());
    assert_eq!(grown.entry(1 << 30, 1 << 30), (1.0, 1.0));
}

/// A side whose covariance does not fit leaves the distribution as it was, and able
/// to learn and to be saved.
#[test]
fn a_gaussian_that_cannot_grow_stays_as_it_is() {
    let mut learner = AromaFactored::new(
        Gaussian::<f64>::new(3, 2, 0.0).unwrap(),
        AromaOptions::default(),
    );
    let (q, p) = (
        SparseVec::from_entries(vec![(0, 1.0), (2, -0.5)]),
        SparseVec::from_entries(vec![(1, 1.0)]),
    );
    assert_eq!(learn(&mut learner, &q, &p, 1.0), Outcome::Moved);
    let before = learner.form().clone();
    // The mean would fit in memory, and so would the other covariance.
    for (rows, columns) in [(1 << 24, 2), (3, 1 << 24)] {
        let error = learner.grow(rows, columns).unwrap_err();
        let start = "a covariance of 16777216 features needs 2097152.0 GiB of memory";
        assert!(error.message.starts_with(start), "{error}");
        assert_eq!(learner.form(), &before);
    }
    assert_eq!(learn(&mut learner, &q, &p, 1.0), Outcome::Moved);
    learner.grow(4, 3).unwrap();
    assert_eq!(learner.form().shape(), (4, 3));
}

#[test]
fn damaged_distributions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    let rows = random_rows::<f32>(40, 15, 4);
    for (rule, form) in forms::<f32>(15) {
        model(rule, form, &rows, 100).save(&path).unwrap();
        let good = std::fs::read(&path).unwrap();
        let header = String::from_utf8_lossy(&good[8..]).into_owned();
        // A negative variance where there are variances.
        if let Some(at) = header.find("\"variance\":") {
            let text = &header[at..at + 200];
            let from = text.find("data_offsets\":[").unwrap() + 15;
            let start: usize = text[from..].split(',').next().unwrap().parse().unwrap();
            let length = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
            let mut bad = good.clone();
            bad[8 + length + start..][..4].copy_from_slice(&(-1.0_f32).to_le_bytes());
            std::fs::write(&path, sealed(bad)).unwrap();
            let error = Model::load(&path).unwrap_err().to_string();
            assert!(
                error.ends_with("the tensor `variance` holds a value below 0"),
                "{error}"
            );
        }
        std::fs::write(&path, &good).unwrap();
        let mut scaled = Model::load(&path).unwrap();
        scaled.card.variance_scale = Some(-1.0);
        scaled.save(&path).unwrap();
        let error = Model::load(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("a factor of -1 on variances is not possible"),
            "{error}"
        );
        // Every prefix is refused, none panics.
        for end in (0..good.len()).step_by(97) {
            std::fs::write(&path, &good[..end]).unwrap();
            assert!(Model::load(&path).is_err());
        }
    }
}
